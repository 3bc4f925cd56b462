//! Which packet numbers have come (RFC 6479): each counts once.

/// Words of 64 numbers that it begins with, and that it has at most: 2^20 numbers, which is 120 ms at 100 Gbit/s, and 12 s
/// at 1 Gbit/s: so long may one of several streams stand still behind the others. 128 KiB of memory.
const WORDS_MIN: usize = 16;
const WORDS_MAX: usize = 1 << 14;

/// The numbers that have come, as far back as matters. It grows with what has come.
pub(super) struct Replay {
    /// A ring; its length is a power of two.
    words: Vec<u64>,
    /// The highest number that has come.
    highest: Option<u64>,
}

impl Replay {
    pub(super) fn new() -> Self {
        Self { words: vec![0; WORDS_MIN], highest: None }
    }

    /// The highest number that has come.
    pub(super) fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Whether the number has not come yet; a number that lies too far back to tell counts as one that has.
    pub(super) fn is_new(&self, number: u64) -> bool {
        let Some(highest) = self.highest else { return true };
        let (block, last) = (number / 64, highest / 64);
        number > highest || (last - block < self.words.len() as u64 && self.word(block) & bit(number) == 0)
    }

    /// The number has come.
    pub(super) fn note(&mut self, number: u64) {
        let (block, last) = (number / 64, self.highest.map_or(0, |highest| highest / 64));
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
        while block >= self.words.len() as u64 && self.words.len() < WORDS_MAX {
            let old = std::mem::take(&mut self.words);
            self.words = vec![0; 2 * old.len()];
            for kept in last.saturating_sub(old.len() as u64 - 1)..=last {
                let at = self.at(kept);
                self.words[at] = old[kept as usize % old.len()];
            }
        }
        let first = (last + 1).max((block + 1).saturating_sub(self.words.len() as u64));
        for fresh in first..=block {
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
            let (mut replay, mut seen, mut at) = (Replay::new(), BTreeSet::new(), start);
            for (scale, step, back) in steps {
                let step = step >> (4 * scale);
                let number = if back { at.saturating_sub(step) } else { at + step };
                let is_new = replay.is_new(number);
                prop_assert!(!(is_new && seen.contains(&number)), "{number} counted twice");
                if is_new {
                    replay.note(number);
                    seen.insert(number);
                    at = at.max(number);
                }
                prop_assert_eq!(replay.highest(), seen.last().copied());
            }
        }

        /// Once the window is at its largest, whatever comes within 2^16 counts.
        #[test]
        fn what_is_late_counts_within_the_window(lates in prop::collection::vec(0u64..1 << 16, 1..300)) {
            let mut replay = Replay::new();
            (0..300_000).step_by(3).for_each(|number| replay.note(number));
            let mut seen = BTreeSet::new();
            for late in lates {
                let number = 299_997 - late;
                let expected = number % 3 != 0 && seen.insert(number);
                prop_assert_eq!(replay.is_new(number), expected);
                replay.note(number);
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_follows_what_has_come() {
        let mut replay = Replay::new();
        (0..500).for_each(|number| replay.note(number));
        assert_eq!(replay.words.len(), WORDS_MIN);
        replay.note(u64::MAX);
        assert_eq!(replay.words.len(), WORDS_MAX);
        assert!(!replay.is_new(499) && !replay.is_new(u64::MAX) && replay.is_new(u64::MAX - 1));
    }
}
