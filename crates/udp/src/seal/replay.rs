//! Which packet numbers have come (RFC 6479): each counts once.

/// Words of 64 numbers that it begins with, and that it has at most: 2^20 numbers, which is 120 ms at 100 Gbit/s, and 12 s
/// at 1 Gbit/s: so long may one of several streams stand still behind the others. 128 KiB of memory.
const WORDS_MIN: usize = 16;
const WORDS_MAX: usize = 1 << 14;
/// A number that is high takes no more words than these: more are for at least half as many packets that have come.
const WORDS_BY_NUMBER: usize = 1 << 11;

/// The numbers that have come, as far back as matters. It grows with what has come.
pub(super) struct Replay {
    /// A ring; its length is a power of two.
    words: Vec<u64>,
    /// The highest number that has come.
    highest: Option<u64>,
    /// How many have come.
    count: u64,
}

impl Replay {
    pub(super) fn new() -> Self {
        Self { words: vec![0; WORDS_MIN], highest: None, count: 0 }
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
        let most = earned.clamp(WORDS_BY_NUMBER, WORDS_MAX);
        while block >= self.words.len() as u64 && 2 * self.words.len() <= most {
            let old = std::mem::take(&mut self.words);
            // What is not known any more has come.
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
        assert_eq!(replay.words.len(), WORDS_BY_NUMBER, "a number alone takes little");
        assert!(!replay.is_new(499) && !replay.is_new(u64::MAX) && replay.is_new(u64::MAX - 1));
    }

    #[test]
    fn a_window_that_grows_late_knows_of_no_number_that_has_not_come() {
        const FROM: u64 = 1 << 40;
        let mut replay = Replay::new();
        // Each second one comes.
        for number in (FROM..FROM + (1 << 21)).step_by(2) {
            replay.note(number);
            let edge = number.saturating_sub(64 * (replay.words.len() as u64 - 1)).max(FROM);
            assert!(!replay.is_new(edge & !1) && !replay.is_new(number), "{number}");
        }
        assert_eq!(replay.words.len(), WORDS_MAX);
        let last = FROM + (1 << 21) - 2;
        assert!(!replay.is_new(FROM) && !replay.is_new(FROM + 1), "too far back to tell");
        assert!(replay.is_new(last - 1) && !replay.is_new(last - 2));
        // What is still within the window, and did not come, is new.
        assert!(replay.is_new(last + 1 - 64 * (WORDS_MAX as u64 - 2)));
    }
}
