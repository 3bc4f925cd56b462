//! Arrived packet numbers (RFC 6479): each counts once. The envelope's numbers never repeat, so a datagram that comes
//! twice was copied by the network: protocols ignore it.

/// Words of 64 numbers that it begins with, and that it has at most: 2^20 numbers, which is 120 ms at 100 Gbit/s, and 12 s
/// at 1 Gbit/s: so long may one of several streams stand still behind the others. 128 KiB of memory.
const WORDS_MIN: usize = 16;
const WORDS_MAX: usize = 1 << 14;
/// The same for endpoints' memory.
const WORDS_RECENT: usize = 1 << 8;
/// A number that is high takes no more words than these: more are for at least half as many packets that have come.
const WORDS_BY_NUMBER: usize = 1 << 11;

/// The packet numbers of a flow that have come, as far back as matters. Its window grows with the number of arrivals.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// A ring; its length is a power of two.
    words: Vec<u64>,
    /// The highest number that has come.
    highest: Option<u64>,
    /// How many have come.
    count: u64,
    /// Words at most.
    words_max: usize,
}

impl Default for Numbers {
    fn default() -> Self {
        Self::new()
    }
}

impl Numbers {
    /// None yet. As many are remembered as ever: for seals, which take nothing twice.
    pub fn new() -> Self {
        Self { words: vec![0; WORDS_MIN], highest: None, count: 0, words_max: WORDS_MAX }
    }

    /// None yet. The last 16,384 are remembered, in 2 KiB: for endpoints, which may have very many flows, and for which a
    /// copy that comes even later is only one more packet.
    pub fn recent() -> Self {
        Self { words_max: WORDS_RECENT, ..Self::new() }
    }

    /// The highest number that has come.
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Whether the number has not come yet. A number too far back to tell counts as arrived.
    pub fn is_new(&self, number: u64) -> bool {
        let Some(highest) = self.highest else { return true };
        let (block, last) = (number / 64, highest / 64);
        number > highest || (last - block < self.words.len() as u64 && self.word(block) & bit(number) == 0)
    }

    /// Whether the number is known to have come. A number too far back to tell is not known.
    fn has_come(&self, number: u64) -> bool {
        let Some(highest) = self.highest.filter(|highest| number <= *highest) else { return false };
        let block = number / 64;
        highest / 64 - block < self.words.len() as u64 && self.word(block) & bit(number) != 0
    }

    /// Takes note of `count` datagrams whose numbers follow each other, the first with these 32 bits. Nothing is noted,
    /// and false said, if one of them has come before.
    pub fn take(&mut self, first: u32, count: u64) -> bool {
        let Some(first) = whole_number(self.highest, first) else { return true };
        let numbers = first..first.saturating_add(count);
        let are_behind = self.highest.is_some_and(|highest| highest >= first);
        if are_behind && numbers.clone().any(|number| self.has_come(number)) {
            return false;
        }
        numbers.for_each(|number| self.note(number));
        true
    }

    /// Bytes of memory beside itself.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The number has come.
    pub fn note(&mut self, number: u64) {
        let (block, last) = (number / 64, self.highest.map_or(0, |highest| highest / 64));
        self.count += 1;
        if block > last {
            self.advance(last, block);
        }
        if last.saturating_sub(block) < self.words.len() as u64 {
            let at = self.at(block);
            self.words[at] |= bit(number);
        }
        self.highest = self.highest.max(Some(number));
    }

    /// Makes room for the blocks behind `last`, up to `block`.
    fn advance(&mut self, last: u64, block: u64) {
        let earned = usize::try_from(self.count / 32).unwrap_or(usize::MAX);
        let most = earned.clamp(WORDS_BY_NUMBER, WORDS_MAX).min(self.words_max);
        while block >= self.words.len() as u64 && 2 * self.words.len() <= most {
            let old = std::mem::take(&mut self.words);
            // Forgotten numbers count as arrived.
            self.words = vec![u64::MAX; 2 * old.len()];
            for kept in last.saturating_sub(old.len() as u64 - 1)..=last {
                let at = self.at(kept);
                self.words[at] = old[kept as usize % old.len()];
            }
        }
        if block - last >= self.words.len() as u64 {
            self.words.fill(0);
            return;
        }
        for fresh in last + 1..=block {
            let at = self.at(fresh);
            self.words[at] = 0;
        }
    }

    fn at(&self, block: u64) -> usize {
        block as usize & (self.words.len() - 1)
    }

    fn word(&self, block: u64) -> u64 {
        self.words[self.at(block)]
    }
}

const fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

/// The packet number that ends with these 32 bits and lies nearest behind the highest that has come (RFC 9000 A.3).
pub fn whole_number(highest: Option<u64>, low: u32) -> Option<u64> {
    const SPAN: u64 = 1 << 32;
    let expected = highest.map_or(Some(0), |highest| highest.checked_add(1))?;
    let candidate = (expected & !(SPAN - 1)) | u64::from(low);
    if candidate + SPAN / 2 <= expected {
        candidate.checked_add(SPAN)
    } else if candidate > expected + SPAN / 2 && candidate >= SPAN {
        Some(candidate - SPAN)
    } else {
        Some(candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Near each other, far ahead and far back.
        #[test]
        fn a_number_is_new_once(
            start in prop_oneof![Just(0u64), Just((1 << 32) - 3_000), Just(1 << 40)],
            steps in prop::collection::vec((0u64..4, 0u64..70_000, any::<bool>()), 1..400),
        ) {
            let (mut numbers, mut seen, mut at) = (Numbers::new(), BTreeSet::new(), start);
            for (scale, step, back) in steps {
                let step = step >> (4 * scale);
                let number = if back { at.saturating_sub(step) } else { at + step };
                let is_new = numbers.is_new(number);
                prop_assert!(!(is_new && seen.contains(&number)), "{number} counted twice");
                if is_new {
                    numbers.note(number);
                    seen.insert(number);
                    at = at.max(number);
                }
                prop_assert_eq!(numbers.highest(), seen.last().copied());
            }
        }

        /// Once the window is at its largest, every arrival within 2^16 counts.
        #[test]
        fn what_is_late_counts_within_the_window(lates in prop::collection::vec(0u64..1 << 16, 1..300)) {
            let mut numbers = Numbers::new();
            (0..300_000).step_by(3).for_each(|number| numbers.note(number));
            let mut seen = BTreeSet::new();
            for late in lates {
                let number = 299_997 - late;
                let expected = number % 3 != 0 && seen.insert(number);
                prop_assert_eq!(numbers.is_new(number), expected);
                numbers.note(number);
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_follows_what_has_come() {
        let mut numbers = Numbers::new();
        (0..500).for_each(|number| numbers.note(number));
        assert_eq!(numbers.words.len(), WORDS_MIN);
        numbers.note(u64::MAX);
        assert_eq!(numbers.words.len(), WORDS_BY_NUMBER, "a number alone takes little");
        assert!(!numbers.is_new(499) && !numbers.is_new(u64::MAX) && numbers.is_new(u64::MAX - 1));
    }

    #[test]
    fn a_window_that_grows_late_knows_of_no_number_that_has_not_come() {
        const FROM: u64 = 1 << 40;
        let mut numbers = Numbers::new();
        // Each second one comes.
        for number in (FROM..FROM + (1 << 21)).step_by(2) {
            numbers.note(number);
            let edge = number.saturating_sub(64 * (numbers.words.len() as u64 - 1)).max(FROM);
            assert!(!numbers.is_new(edge & !1) && !numbers.is_new(number), "{number}");
        }
        assert_eq!(numbers.words.len(), WORDS_MAX);
        let last = FROM + (1 << 21) - 2;
        assert!(!numbers.is_new(FROM) && !numbers.is_new(FROM + 1), "too far back to tell");
        assert!(numbers.is_new(last - 1) && !numbers.is_new(last - 2));
        // A number that is still within the window, and did not come, is new.
        assert!(numbers.is_new(last + 1 - 64 * (WORDS_MAX as u64 - 2)));
    }

    #[test]
    fn whole_number_is_the_nearest() {
        // The example of RFC 9000 A.3, with 32 bits.
        assert_eq!(whole_number(Some(0xA82F_30EA_9B32), 0x30EA_0000), Some(0xA82F_30EA_0000));
        assert_eq!(whole_number(None, 7), Some(7));
        assert_eq!(whole_number(None, u32::MAX), Some(u64::from(u32::MAX)));
        assert_eq!(whole_number(Some(u64::from(u32::MAX)), 2), Some((1 << 32) + 2));
        assert_eq!(whole_number(Some(1 << 32), u32::MAX), Some(u64::from(u32::MAX)));
        assert_eq!(whole_number(Some(u64::MAX), 0), None);
    }

    #[test]
    fn a_run_is_taken_once_and_whole_or_not_at_all() {
        let mut numbers = Numbers::new();
        assert!(numbers.take(10, 5) && !numbers.take(10, 5) && !numbers.take(14, 1));
        assert!(!numbers.take(13, 4), "two of them have come");
        assert!(numbers.take(15, 2) && numbers.take(3, 7), "none of these");
        assert!(numbers.take(u32::MAX, 1), "far ahead, and earlier numbers are forgotten");
        assert!(numbers.take(20, 1) && numbers.take(0, 2), "the 32 bits have come round");
        assert!(!numbers.take(1, 1));
    }

    #[test]
    fn what_lies_too_far_back_to_tell_is_taken() {
        let mut numbers = Numbers::new();
        assert!(numbers.take(5, 1) && numbers.take(1 << 30, 1));
        assert!(numbers.take(5, 1) && !numbers.is_new(5), "a seal tells otherwise");
    }
}
