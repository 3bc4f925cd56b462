//! Outstanding ranges of one flow, for protocols whose sender decides the order: data is identified by its place.

use std::collections::BTreeMap;

use inhaul_base::{ByteRange, RangeSet};

/// Most ranges that are remembered: bounds a flow's memory, and the queue at its sender.
const ASKED_MAX: usize = 16_384;

/// The ranges that a flow was asked for.
#[derive(Debug, Default)]
pub struct Outstanding {
    /// Each range as it was asked for, by its start, until all of it has come. Never overlapping.
    ranges: BTreeMap<u64, Range>,
    /// Ranges that have neither come nor been given to other flows.
    pending: RangeSet,
    last_id: u32,
    /// End of the last arrival.
    frontier: u64,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    end: u64,
    segment: u64,
    /// Bytes of it that have not come.
    left: u64,
}

impl Outstanding {
    /// Notes a request for `ranges`, to be cut into segments of `segment` bytes, and returns its number.
    pub fn ask(&mut self, segment: u64, ranges: &[ByteRange]) -> u32 {
        for &range in ranges {
            self.forget(range);
            self.ranges.insert(range.start, Range { end: range.end, segment, left: range.len() });
            self.pending.insert(range);
        }
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// Whether `count` more ranges may be asked for. Makes room, if need be, by forgetting ranges that were given up.
    pub fn has_room(&mut self, count: usize) -> bool {
        if self.ranges.len() + count > ASKED_MAX {
            let pending = &self.pending;
            self.ranges.retain(|&start, range| pending.within(ByteRange::new(start, range.end)).next().is_some());
        }
        self.ranges.len() + count <= ASKED_MAX
    }

    /// Forgets ranges that overlap `range`: ranges given up before are requested again.
    fn forget(&mut self, range: ByteRange) {
        while let Some((&start, old)) = self.ranges.range(..range.end).next_back()
            && old.end > range.start
        {
            self.ranges.remove(&start);
        }
    }

    /// Bytes `range` came. Returns the front of it, as far as one request asked for it; `None` if they were not
    /// requested, or not as whole segments: that bounds the pieces into which a hostile sender can cut the object.
    pub fn arrive(&mut self, range: ByteRange) -> Option<ByteRange> {
        let (&start, outstanding) = self.ranges.range_mut(..=range.start).next_back()?;
        let range = range.intersection(ByteRange::new(start, outstanding.end));
        let aligned = !range.is_empty()
            && (range.start - start).is_multiple_of(outstanding.segment)
            && (range.end == outstanding.end || (range.end - start).is_multiple_of(outstanding.segment));
        if !aligned {
            return None;
        }
        self.frontier = range.end;
        let new = self.pending.remove(range);
        outstanding.left = outstanding.left.saturating_sub(new);
        if outstanding.left == 0 {
            self.ranges.remove(&start);
        }
        Some(range)
    }

    /// Requested bytes that have neither come nor been given up.
    pub fn pending_bytes(&self) -> u64 {
        self.pending.covered()
    }

    /// The last request made; 0 before the first.
    pub fn last_id(&self) -> u32 {
        self.last_id
    }

    /// Gives up pending ranges: other flows are to bring them. Late arrivals of them are still recognised.
    pub fn abandon(&mut self) -> RangeSet {
        std::mem::take(&mut self.pending)
    }

    /// The range and segment length that will come next if nothing is lost.
    pub fn expected(&self) -> Option<(ByteRange, u64)> {
        let on = self.pending.run_at(self.frontier).map(|run| ByteRange::new(self.frontier, run.end));
        let run = on.or_else(|| self.pending.first())?;
        let from = run.start;
        let (_, outstanding) = self.ranges.range(..=from).next_back()?;
        Some((ByteRange::new(from, run.end.min(outstanding.end)), outstanding.segment))
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        (self.ranges.len() + self.pending.fragments()) * 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrive_takes_whole_segments_of_what_was_asked_for() {
        let mut outstanding = Outstanding::default();
        assert_eq!(outstanding.ask(1_000, &[ByteRange::new(2_000, 5_500)]), 1);
        for (start, end) in [(2_500, 3_500), (2_000, 2_999), (1_000, 3_000), (5_500, 6_000), (3_000, 3_000)] {
            assert_eq!(outstanding.arrive(ByteRange { start, end }), None, "[{start}, {end})");
        }
        let front = outstanding.arrive(ByteRange::new(5_000, 7_000));
        assert_eq!(front, Some(ByteRange::new(5_000, 5_500)), "later bytes belong to another request");
        assert!(outstanding.arrive(ByteRange::new(2_000, 4_000)).is_some());
        assert_eq!(outstanding.pending_bytes(), 1_000);
        assert_eq!(outstanding.expected(), Some((ByteRange::new(4_000, 5_000), 1_000)));
        assert!(outstanding.arrive(ByteRange::new(4_000, 5_000)).is_some());
        assert_eq!(outstanding.arrive(ByteRange::new(4_000, 5_000)), None);
        assert_eq!((outstanding.memory_bytes(), outstanding.expected()), (0, None));
    }

    #[test]
    fn abandon_gives_back_what_is_pending_and_still_knows_it() {
        let mut outstanding = Outstanding::default();
        outstanding.ask(1_000, &[ByteRange::new(0, 3_000)]);
        outstanding.arrive(ByteRange::new(0, 1_000));
        assert_eq!(outstanding.abandon(), RangeSet::from_iter([ByteRange::new(1_000, 3_000)]));
        assert!(outstanding.arrive(ByteRange::new(1_000, 2_000)).is_some());
        // Requested again, cut in another way.
        outstanding.ask(700, &[ByteRange::new(2_000, 3_000)]);
        assert!(outstanding.arrive(ByteRange::new(2_700, 3_000)).is_some());
        assert_eq!(outstanding.arrive(ByteRange::new(2_100, 3_500)), None);
        assert_eq!(outstanding.pending_bytes(), 700);
    }

    #[test]
    fn has_room_forgets_what_was_given_up_and_nothing_else() {
        let mut outstanding = Outstanding::default();
        let range = |k: u64| ByteRange::at(k * 2_000, 1_000);
        for k in 0..100 {
            outstanding.ask(1_000, &[range(k)]);
        }
        outstanding.abandon();
        for k in 100..ASKED_MAX as u64 {
            outstanding.ask(1_000, &[range(k)]);
        }
        assert!(outstanding.has_room(100) && !outstanding.has_room(101));
        assert!(outstanding.arrive(range(100)).is_some() && outstanding.arrive(range(0)).is_none());
    }

    #[test]
    fn expected_runs_on_from_what_came_last() {
        let mut outstanding = Outstanding::default();
        outstanding.ask(1_000, &[ByteRange::new(0, 10_000)]);
        outstanding.arrive(ByteRange::new(0, 2_000));
        outstanding.arrive(ByteRange::new(5_000, 6_000));
        assert_eq!(outstanding.expected(), Some((ByteRange::new(6_000, 10_000), 1_000)));
    }
}
