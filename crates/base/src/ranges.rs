//! Sets of byte ranges, for example data that has arrived, is wanted, or is in flight.

use std::collections::{BTreeMap, btree_map};
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

    /// The shortest range that has both.
    fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
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

/// Up to this many ranges are in one array: finding one touches few cache lines, and inserting one moves at most 8 kB.
const FEW_MAX: usize = if cfg!(test) { 8 } else { 512 };
/// From so few on they lie in an array again. Far from [`FEW_MAX`], so that a change of form is rare.
const MANY_MIN: usize = FEW_MAX / 4;
/// An array that became empty keeps room for this many ranges.
const KEPT_MAX: usize = 64;

/// A set of bytes, kept as disjoint, non-adjacent ranges in order.
///
/// Every operation costs O(log n) in the number of ranges, plus the ranges that it joins or cuts. What concerns the
/// last range only (bytes come in order, or are asked for in order) is quicker than that: it lies in the set itself. A
/// set that a peer has cut into many ranges lies in a tree.
#[derive(Clone, Default)]
pub struct RangeSet {
    /// The last range; empty only if the set is.
    last: ByteRange,
    /// Those before it.
    others: Ranges,
    covered: u64,
}

/// Ranges in order, in the form that suits their number.
#[derive(Clone)]
enum Ranges {
    /// Ascending.
    Few(Vec<ByteRange>),
    /// start -> end
    #[allow(clippy::box_collection, reason = "sets are many, and few of them are so large")]
    Many(Box<BTreeMap<u64, u64>>),
}

impl Default for Ranges {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// The ranges of a set in order: of an array or of a tree, the other is empty.
fn walk<'a>(
    few: &'a [ByteRange],
    many: Option<btree_map::Range<'a, u64, u64>>,
) -> impl DoubleEndedIterator<Item = ByteRange> + 'a {
    few.iter().copied().chain(many.into_iter().flatten().map(range_of))
}

fn range_of((&start, &end): (&u64, &u64)) -> ByteRange {
    ByteRange { start, end }
}

impl Ranges {
    fn len(&self) -> usize {
        match self {
            Self::Few(ranges) => ranges.len(),
            Self::Many(ranges) => ranges.len(),
        }
    }

    /// How many ranges of an array start at or before `at`.
    fn count_to(few: &[ByteRange], at: u64) -> usize {
        match few {
            [] => 0,
            [.., last] if last.start <= at => few.len(),
            _ => few.partition_point(|range| range.start <= at),
        }
    }

    fn is_empty(&self) -> bool {
        // A tree has never less than `MANY_MIN`.
        matches!(self, Self::Few(ranges) if ranges.is_empty())
    }

    fn first(&self) -> Option<ByteRange> {
        match self {
            Self::Few(ranges) => ranges.first().copied(),
            Self::Many(ranges) => ranges.first_key_value().map(range_of),
        }
    }

    /// Takes the last range.
    fn pop(&mut self) -> Option<ByteRange> {
        let last = match self {
            Self::Few(ranges) => ranges.last().copied(),
            Self::Many(ranges) => ranges.last_key_value().map(range_of),
        }?;
        self.replace(last, [ByteRange::default(); 2]);
        Some(last)
    }

    /// The last range that starts at or before `at`.
    fn before(&self, at: u64) -> Option<ByteRange> {
        match self {
            Self::Few(ranges) => Self::count_to(ranges, at).checked_sub(1).map(|index| ranges[index]),
            Self::Many(ranges) => ranges.range(..=at).next_back().map(range_of),
        }
    }

    /// The last range that starts at or before `at`, and all behind it.
    fn from(&self, at: u64) -> impl DoubleEndedIterator<Item = ByteRange> + '_ {
        match self {
            Self::Few(ranges) => walk(&ranges[Self::count_to(ranges, at).saturating_sub(1)..], None),
            Self::Many(ranges) => {
                let first = ranges.range(..=at).next_back().map_or(at, |(&start, _)| start);
                walk(&[], Some(ranges.range(first..)))
            }
        }
    }

    /// Puts a range behind all existing ones.
    fn push(&mut self, range: ByteRange) {
        match self {
            Self::Few(ranges) if ranges.len() < FEW_MAX => ranges.push(range),
            _ => self.replace(range, [range, ByteRange::default()]),
        }
    }

    /// Replaces all ranges that start in `span` with the ranges `new`. Any of these may be empty.
    fn replace(&mut self, span: ByteRange, new: [ByteRange; 2]) {
        let new = new.into_iter().filter(|range| !range.is_empty());
        match self {
            Self::Few(ranges) => {
                let first = ranges.partition_point(|range| range.start < span.start);
                let count = ranges[first..].iter().take_while(|range| range.start < span.end).count();
                ranges.splice(first..first + count, new);
                if ranges.len() > FEW_MAX {
                    *self = Self::Many(Box::new(ranges.iter().map(|range| (range.start, range.end)).collect()));
                } else if ranges.is_empty() && ranges.capacity() > KEPT_MAX {
                    *ranges = Vec::new();
                }
            }
            Self::Many(ranges) => {
                while let Some((&start, _)) = ranges.range(span.start..span.end).next() {
                    ranges.remove(&start);
                }
                ranges.extend(new.map(|range| (range.start, range.end)));
                if ranges.len() < MANY_MIN {
                    *self = Self::Few(ranges.iter().map(range_of).collect());
                }
            }
        }
    }

    /// `range` and every range that it touches, as one; and how many bytes of `range` those have.
    fn joined(&self, range: ByteRange) -> (ByteRange, u64) {
        let touched = self.from(range.start).skip_while(|run| run.end < range.start);
        touched
            .take_while(|run| run.start <= range.end)
            .fold((range, 0), |(joined, already), run| (joined.hull(run), already + run.intersection(range).len()))
    }

    /// Takes `range` out and returns how many bytes went.
    fn remove(&mut self, range: ByteRange) -> u64 {
        let mut cut: Option<ByteRange> = None;
        let mut gone = 0;
        let met = self.from(range.start).skip_while(|run| run.end <= range.start);
        for run in met.take_while(|run| run.start < range.end) {
            gone += run.intersection(range).len();
            cut = Some(cut.map_or(run, |cut| cut.hull(run)));
        }
        if let Some(cut) = cut {
            self.replace(cut, [ByteRange::new(cut.start, range.start), ByteRange::new(range.end, cut.end)]);
        }
        gone
    }
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { last: ByteRange::new(0, 0), others: Ranges::Few(Vec::new()), covered: 0 }
    }

    /// How many bytes are in the set.
    pub const fn covered(&self) -> u64 {
        self.covered
    }

    /// The number of separate ranges in the set: its cost in memory.
    pub fn fragments(&self) -> usize {
        self.others.len() + usize::from(!self.is_empty())
    }

    /// Whether no byte is in the set.
    pub const fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = ByteRange> + '_ {
        self.others.from(0).chain((!self.is_empty()).then_some(self.last))
    }

    /// The first range.
    pub fn first(&self) -> Option<ByteRange> {
        self.others.first().or((!self.is_empty()).then_some(self.last))
    }

    /// The last range that starts at or before `at`.
    fn before(&self, at: u64) -> Option<ByteRange> {
        if self.last.start > at { self.others.before(at) } else { (!self.is_empty()).then_some(self.last) }
    }

    /// Whether every byte of `range` is in the set (true of an empty range).
    pub fn contains(&self, range: ByteRange) -> bool {
        range.is_empty() || self.before(range.start).is_some_and(|held| range.end <= held.end)
    }

    /// The parts of the set that lie in `range`, in order.
    pub fn within(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let others = (range.start < self.last.start).then(|| self.others.from(range.start));
        others
            .into_iter()
            .flatten()
            .chain([self.last])
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
        self.before(at).filter(|run| at < run.end)
    }

    /// Adds `range` and returns how many of its bytes were new.
    pub fn insert(&mut self, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let last = self.last;
        let already = if range.start > last.end || last.is_empty() {
            if !last.is_empty() {
                self.others.push(last);
            }
            self.last = range;
            0
        } else if range.start >= last.start {
            self.last = last.hull(range);
            last.intersection(range).len()
        } else if range.end < last.start {
            let (joined, already) = self.others.joined(range);
            self.others.replace(joined, [joined, ByteRange::default()]);
            already
        } else {
            let (joined, already) = self.others.joined(range);
            self.others.replace(joined, [ByteRange::default(); 2]);
            self.last = joined.hull(last);
            already + last.intersection(range).len()
        };
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
        if range.start < self.last.start && !self.others.is_empty() {
            gone += self.others.remove(range);
        }
        let cut = self.last.intersection(range);
        if !cut.is_empty() {
            gone += cut.len();
            let (before, behind) = (ByteRange::new(self.last.start, cut.start), ByteRange::new(cut.end, self.last.end));
            self.last = match (before.is_empty(), behind.is_empty()) {
                (true, false) => behind,
                (false, true) => before,
                (false, false) => {
                    self.others.push(before);
                    behind
                }
                (true, true) => self.others.pop().unwrap_or_default(),
            };
        }
        self.covered -= gone;
        gone
    }

    /// Takes at most `max` bytes from the front of the set, from one range.
    pub fn take_front(&mut self, max: u64) -> Option<ByteRange> {
        let first = self.first()?;
        let taken = ByteRange::new(first.start, first.end.min(first.start.saturating_add(max)));
        self.remove(taken);
        (!taken.is_empty()).then_some(taken)
    }
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &Self) -> bool {
        self.covered == other.covered && self.iter().eq(other.iter())
    }
}

impl Eq for RangeSet {}

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

    /// The expected content of the set, as one bit a byte.
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
