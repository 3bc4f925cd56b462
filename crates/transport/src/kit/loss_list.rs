//! Missing packets, by number: a receiver requests them again, and a sender sends them first (udt-2004 section 3.2).

use std::collections::BTreeMap;

/// A range in UDT's compressed form begins with its first number and this bit; its last number follows. A single
/// number stands alone (UDT 4, draft-gg-udt section 4.4).
const RANGE: u32 = 1 << 31;

/// Ranges of packet numbers, each with its holder's notes. Numbers count from the beginning and do not wrap; on the
/// wire they have 31 bits.
#[derive(Clone, Debug)]
pub struct LossList<N = ()> {
    /// First number to last number and note. Never overlapping.
    ranges: BTreeMap<u64, (u64, N)>,
    packets: u64,
}

impl<N> Default for LossList<N> {
    fn default() -> Self {
        Self { ranges: BTreeMap::new(), packets: 0 }
    }
}

impl<N: Copy> LossList<N> {
    /// Packets in it.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Ranges in it.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first that is missing.
    pub fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(&first, _)| first)
    }

    /// Packets from `first` to `last` are missing; known missing ones keep their notes. Returns how many are new.
    pub fn insert(&mut self, first: u64, last: u64, note: N) -> u64 {
        let before = self.packets;
        let mut from = first;
        let known: Vec<(u64, u64)> = self.overlapping(first, last).map(|(&a, &(b, _))| (a, b)).collect();
        for (a, b) in known {
            if from < a {
                self.put(from, a - 1, note);
            }
            from = from.max(b + 1);
        }
        if from <= last {
            self.put(from, last, note);
        }
        self.packets - before
    }

    /// Packets from `first` to `last` have come. Returns how many of them were missing.
    pub fn remove(&mut self, first: u64, last: u64) -> u64 {
        let before = self.packets;
        let known: Vec<(u64, u64, N)> = self.overlapping(first, last).map(|(&a, &(b, n))| (a, b, n)).collect();
        for (a, b, note) in known {
            self.ranges.remove(&a);
            self.packets -= b - a + 1;
            if a < first {
                self.put(a, first - 1, note);
            }
            if b > last {
                self.put(last + 1, b, note);
            }
        }
        before - self.packets
    }

    /// Takes the first that is missing out.
    pub fn pop_first(&mut self) -> Option<u64> {
        let first = self.first()?;
        self.remove(first, first);
        Some(first)
    }

    /// Every range, first and last number, and its note.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &N)> {
        self.ranges.iter().map(|(&first, (last, note))| (first, *last, note))
    }

    /// Every note, to be changed.
    pub fn notes_mut(&mut self) -> impl Iterator<Item = (u64, u64, &mut N)> {
        self.ranges.iter_mut().map(|(&first, (last, note))| (first, *last, note))
    }

    fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = (&u64, &(u64, N))> {
        let before = self.ranges.range(..first).next_back().filter(|(_, (end, _))| *end >= first);
        before.into_iter().chain(self.ranges.range(first..=last))
    }

    fn put(&mut self, first: u64, last: u64, note: N) {
        self.ranges.insert(first, (last, note));
        self.packets += last - first + 1;
    }
}

/// Ranges in UDT's compressed form, the low 31 bits of each number. Stops before it has more than `words_max` words.
pub fn compress(ranges: impl Iterator<Item = (u64, u64)>, words_max: usize) -> Vec<u32> {
    let mut words = Vec::new();
    for (first, last) in ranges {
        if words.len() + 2 > words_max {
            break;
        }
        let number = |n: u64| n as u32 & !RANGE;
        if first == last {
            words.push(number(first));
        } else {
            words.extend([number(first) | RANGE, number(last)]);
        }
    }
    words
}

/// The ranges that words in UDT's compressed form mean: first and last number, of 31 bits, the last maybe behind a
/// wrap. `None`: they are cut short, or a range's last number has the range bit.
pub fn decompress(words: &[u32]) -> Option<Vec<(u32, u32)>> {
    let mut ranges = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        if word & RANGE == 0 {
            ranges.push((word, word));
        } else {
            let last = words.next().filter(|last| **last & RANGE == 0)?;
            ranges.push((word & !RANGE, *last));
        }
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_was_known_keeps_its_note() {
        let mut list = LossList::default();
        assert_eq!(list.insert(10, 12, 'a'), 3);
        assert_eq!(list.insert(5, 20, 'b'), 13);
        assert_eq!(list.iter().collect::<Vec<_>>(), [(5, 9, &'b'), (10, 12, &'a'), (13, 20, &'b')]);
        assert_eq!(list.remove(8, 14), 7);
        assert_eq!(list.iter().collect::<Vec<_>>(), [(5, 7, &'b'), (15, 20, &'b')]);
        assert_eq!((list.pop_first(), list.packets()), (Some(5), 8));
    }

    #[test]
    fn the_compressed_form_is_udt_s() {
        // draft-gg-udt: "0x00000002, 0x80000006, 0x0000000B, 0x0000000E" are 2, 6 to 11 and 14.
        let words = compress([(2, 2), (6, 11), (14, 14)].into_iter(), 100);
        assert_eq!(words, [0x0000_0002, 0x8000_0006, 0x0000_000B, 0x0000_000E]);
        assert_eq!(decompress(&words), Some(vec![(2, 2), (6, 11), (14, 14)]));
        assert_eq!(decompress(&[0x8000_0006]), None, "cut short");
        assert_eq!(decompress(&[0x8000_0006, 0x8000_0007]), None);
        assert_eq!(compress([(1, 1), (3, 4)].into_iter(), 2).len(), 1);
    }

    proptest! {
        #[test]
        fn a_list_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..20), 0..60)) {
            let (mut list, mut set) = (LossList::default(), BTreeSet::new());
            for (insert, first, len) in steps {
                let numbers = first..=first + len;
                let changed = if insert {
                    numbers.filter(|n| set.insert(*n)).count()
                } else {
                    numbers.filter(|n| set.remove(n)).count()
                } as u64;
                let told = if insert { list.insert(first, first + len, ()) } else { list.remove(first, first + len) };
                prop_assert_eq!(told, changed);
                prop_assert_eq!(list.packets(), set.len() as u64);
                let all: BTreeSet<u64> = list.iter().flat_map(|(a, b, ())| a..=b).collect();
                prop_assert_eq!(&all, &set);
            }
        }

        #[test]
        fn decompress_takes_any_words(words in prop::collection::vec(any::<u32>(), 0..50)) {
            if let Some(ranges) = decompress(&words) {
                prop_assert!(ranges.len() <= words.len());
            }
        }
    }
}
