//! Sets of byte ranges: what is held, what is wanted, what is on its way.

use std::collections::BTreeMap;
use std::fmt;

/// The bytes from `start` up to and not including `end`. Never inverted; may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// The range `[start, end)`; empty at `start` if `end` is before it.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }

    /// `len` bytes from `start`; cut at 2^64 - 1.
    pub const fn at(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// Length in bytes.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether there is no byte in it.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes in both; empty if there are none.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Whether every byte of `other` is in this range.
    pub const fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

/// A set of bytes, kept as disjoint, non-adjacent ranges in order.
///
/// Every operation costs O(log n) in the number of ranges, plus the ranges that it joins or cuts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// start -> end
    ranges: BTreeMap<u64, u64>,
    covered: u64,
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { ranges: BTreeMap::new(), covered: 0 }
    }

    /// How many bytes are in the set.
    pub const fn covered(&self) -> u64 {
        self.covered
    }

    /// How many separate ranges the set is made of: what it costs in memory.
    pub fn fragments(&self) -> usize {
        self.ranges.len()
    }

    /// Whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = ByteRange> + '_ {
        self.ranges.iter().map(|(&start, &end)| ByteRange { start, end })
    }

    /// The first range.
    pub fn first(&self) -> Option<ByteRange> {
        self.ranges.first_key_value().map(|(&start, &end)| ByteRange { start, end })
    }

    /// Whether every byte of `range` is in the set (true of an empty range).
    pub fn contains(&self, range: ByteRange) -> bool {
        range.is_empty() || self.ranges.range(..=range.start).next_back().is_some_and(|(_, &end)| range.end <= end)
    }

    /// The parts of the set that lie in `range`, in order.
    pub fn within(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let before = self.ranges.range(..=range.start).next_back();
        let after = self.ranges.range((std::ops::Bound::Excluded(range.start), std::ops::Bound::Unbounded));
        before
            .into_iter()
            .chain(after)
            .map(|(&start, &end)| ByteRange { start, end })
            .take_while(move |r| r.start < range.end)
            .map(move |r| r.intersection(range))
            .filter(|r| !r.is_empty())
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for held in self.within(range) {
            if at < held.start {
                gaps.push(ByteRange::new(at, held.start));
            }
            at = held.end;
        }
        if at < range.end {
            gaps.push(ByteRange::new(at, range.end));
        }
        gaps
    }

    /// The whole range of the set that holds the byte at `at`.
    pub fn run_at(&self, at: u64) -> Option<ByteRange> {
        let (&start, &end) = self.ranges.range(..=at).next_back()?;
        (at < end).then_some(ByteRange { start, end })
    }

    /// Adds `range` and returns how many of its bytes were new.
    pub fn insert(&mut self, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut joined = range;
        let mut already = 0;
        if let Some((&start, end)) = self.ranges.range_mut(..=range.start).next_back()
            && *end >= range.start
        {
            if *end >= range.end {
                return 0;
            }
            joined.start = start;
            already += *end - range.start;
            // The common case, a run that grows at its end: no key changes unless it meets the next run.
            *end = range.end;
        } else {
            self.ranges.insert(range.start, range.end);
        }
        // Every later run that the grown one now touches is swallowed.
        while let Some((&start, &end)) =
            self.ranges.range((std::ops::Bound::Excluded(joined.start), std::ops::Bound::Unbounded)).next()
            && start <= joined.end
        {
            already += ByteRange::new(start, end).intersection(range).len();
            joined.end = joined.end.max(end);
            self.ranges.remove(&start);
            self.ranges.insert(joined.start, joined.end);
        }
        let new = range.len() - already;
        self.covered += new;
        new
    }

    /// Takes `range` out and returns how many bytes went.
    pub fn remove(&mut self, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut gone = 0;
        if let Some((&start, &end)) = self.ranges.range(..range.start).next_back()
            && end > range.start
        {
            self.ranges.insert(start, range.start);
            gone += end.min(range.end) - range.start;
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
        }
        while let Some((&start, &end)) = self.ranges.range(range.start..range.end).next() {
            self.ranges.remove(&start);
            gone += end.min(range.end) - start;
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
        }
        self.covered -= gone;
        gone
    }

    /// Takes at most `max` bytes from the front of the set, from one range.
    pub fn take_front(&mut self, max: u64) -> Option<ByteRange> {
        let first = self.first()?;
        let taken = ByteRange::new(first.start, first.end.min(first.start.saturating_add(max)));
        if taken.is_empty() {
            return None;
        }
        self.ranges.remove(&first.start);
        if taken.end < first.end {
            self.ranges.insert(taken.end, first.end);
        }
        self.covered -= taken.len();
        Some(taken)
    }
}

impl FromIterator<ByteRange> for RangeSet {
    fn from_iter<I: IntoIterator<Item = ByteRange>>(ranges: I) -> Self {
        let mut set = Self::new();
        for range in ranges {
            set.insert(range);
        }
        set
    }
}

impl fmt::Debug for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|r| (r.start, r.end))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the set must hold, as one bit a byte.
    fn bits(set: &RangeSet) -> Vec<bool> {
        let mut bits = vec![false; 64];
        let mut last_end = None;
        for r in set.iter() {
            assert!(!r.is_empty(), "an empty range is stored: {set:?}");
            assert!(last_end.is_none_or(|end| end < r.start), "ranges touch: {set:?}");
            last_end = Some(r.end);
            bits[r.start as usize..r.end as usize].fill(true);
        }
        bits
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(ByteRange),
        Remove(ByteRange),
        TakeFront(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = (0..64u64, 0..20u64).prop_map(|(start, len)| ByteRange::new(start, (start + len).min(64)));
        prop_oneof![
            3 => range.clone().prop_map(Step::Insert),
            2 => range.prop_map(Step::Remove),
            1 => (1..8u64).prop_map(Step::TakeFront),
        ]
    }

    proptest! {
        #[test]
        fn every_operation_agrees_with_a_bitmap(steps in prop::collection::vec(step(), 1..60), probe in (0..64u64, 0..64u64)) {
            let mut set = RangeSet::new();
            let mut model = vec![false; 64];
            for s in steps {
                let count = |model: &[bool], r: ByteRange| model[r.start as usize..r.end as usize].iter().filter(|b| **b).count() as u64;
                match s {
                    Step::Insert(r) => {
                        let new = r.len() - count(&model, r);
                        prop_assert_eq!(set.insert(r), new);
                        model[r.start as usize..r.end as usize].fill(true);
                    }
                    Step::Remove(r) => {
                        prop_assert_eq!(set.remove(r), count(&model, r));
                        model[r.start as usize..r.end as usize].fill(false);
                    }
                    Step::TakeFront(max) => match set.take_front(max) {
                        Some(r) => {
                            prop_assert!(r.len() <= max && count(&model, r) == r.len());
                            prop_assert!(model[..r.start as usize].iter().all(|b| !b));
                            model[r.start as usize..r.end as usize].fill(false);
                        }
                        None => prop_assert!(model.iter().all(|b| !b)),
                    },
                }
                prop_assert_eq!(&bits(&set), &model);
                prop_assert_eq!(set.covered(), model.iter().filter(|b| **b).count() as u64);
                let probe = ByteRange::new(probe.0.min(probe.1), probe.0.max(probe.1));
                prop_assert_eq!(set.contains(probe), count(&model, probe) == probe.len());
                let missing: u64 = set.gaps(probe).iter().map(|g| g.len()).sum();
                prop_assert_eq!(missing, probe.len() - count(&model, probe));
                let run = set.iter().find(|r| r.start <= probe.start && probe.start < r.end);
                prop_assert_eq!(set.run_at(probe.start), run);
                let held: u64 = set.within(probe).map(ByteRange::len).sum();
                prop_assert_eq!(held, count(&model, probe));
            }
        }
    }
}
