//! An object that is fetched: the held bytes, and the bytes still to request.

use inhaul_base::{ByteRange, RangeSet};

use crate::FlowId;

/// While the received bytes are in more pieces than this, only holes are asked for: bounds the memory of an object.
const FRAGMENTS_MAX: usize = 100_000;

/// An object and the flows that bring it. Blocks are handed out to flows as they can take them, never split
/// beforehand.
#[derive(Debug)]
pub struct Object {
    /// Its size in bytes.
    pub size: u64,
    /// Ranges that have been placed.
    pub held: RangeSet,
    /// Neither held nor asked for.
    wanted: RangeSet,
    /// The part of these ranges that a read waits for. It may have been requested meanwhile.
    urgent: RangeSet,
    /// The flows that bring it.
    pub flows: Vec<FlowId>,
    /// Whether its user has been told that all is there.
    pub complete: bool,
}

impl Object {
    /// An object of `size` bytes; `held` are there already.
    pub fn new(size: u64, held: RangeSet) -> Self {
        let wanted = held.gaps(ByteRange::new(0, size)).into_iter().collect();
        Self { size, held, wanted, urgent: RangeSet::new(), flows: Vec::new(), complete: false }
    }

    /// Whether every byte has been placed.
    pub fn is_all_held(&self) -> bool {
        self.held.covered() >= self.size
    }

    /// Whether anything is left to ask for.
    pub fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Bytes that are still to be asked for.
    pub fn wanted_bytes(&self) -> u64 {
        self.wanted.covered()
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        (self.held.fragments() + self.wanted.fragments() + self.urgent.fragments()) * 40
    }

    /// Marks the missing part of `range` as wanted (again).
    pub fn want(&mut self, range: ByteRange) {
        for gap in self.held.gaps(range) {
            self.wanted.insert(gap);
        }
    }

    /// Bytes arrived: calls `place` for each part that is new and returns how many bytes are new.
    pub fn hold(&mut self, range: ByteRange, mut place: impl FnMut(ByteRange)) -> u64 {
        if self.held.within(range).next().is_none() {
            place(range);
        } else {
            for gap in self.held.gaps(range) {
                place(gap);
            }
        }
        // A range given up as lost may still come before it is requested again.
        if !self.wanted.is_empty() {
            self.wanted.remove(range);
        }
        self.held.insert(range)
    }

    /// Placed bytes were wrong: they are not held.
    pub fn unhold(&mut self, range: ByteRange) {
        self.held.remove(range);
        self.complete = false;
        self.wanted.insert(range);
    }

    /// A read waits for bytes: they are requested before other wanted ranges.
    pub fn hurry(&mut self, range: ByteRange) {
        self.urgent.insert(range);
    }

    /// Takes about `max` bytes, in whole blocks, from the front of the wanted ranges, without those in `avoid`. If some
    /// are urgent, takes only these. The ranges are ascending, and at most `ranges_max` of them.
    pub fn take(&mut self, max: u64, block: u64, ranges_max: usize, avoid: &RangeSet) -> Vec<ByteRange> {
        let fragmented = self.held.fragments() > FRAGMENTS_MAX;
        let beyond = fragmented.then(|| self.held.iter().next_back().map_or(0, |range| range.end));
        let limits = Limits { bytes: max, block, ranges: ranges_max, beyond };
        let mut taken = Vec::new();
        if !self.urgent.is_empty() {
            // Ranges that other flows bring, or that have come, are no longer urgent.
            self.urgent = self.urgent.iter().flat_map(|range| self.wanted.within(range)).collect();
            taken = limits.take(&self.urgent, avoid);
        }
        if taken.is_empty() {
            taken = limits.take(&self.wanted, avoid);
        }
        for range in &taken {
            self.wanted.remove(*range);
            self.urgent.remove(*range);
        }
        taken
    }
}

/// How much may be taken.
struct Limits {
    bytes: u64,
    block: u64,
    ranges: usize,
    /// No range that begins there or later.
    beyond: Option<u64>,
}

impl Limits {
    /// The first ranges of `wanted` that are not in `avoid`.
    fn take(&self, wanted: &RangeSet, avoid: &RangeSet) -> Vec<ByteRange> {
        let mut taken = Vec::new();
        let mut left = self.bytes.max(self.block);
        for want in wanted.iter() {
            if left < self.block || taken.len() == self.ranges || self.beyond.is_some_and(|beyond| want.start >= beyond)
            {
                break;
            }
            for usable in if avoid.is_empty() { vec![want] } else { avoid.gaps(want) } {
                let len = usable.len().min(left - left % self.block);
                if len > 0 && taken.len() < self.ranges {
                    taken.push(ByteRange::at(usable.start, len));
                    left = left.saturating_sub(len);
                }
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_hands_out_whole_blocks_from_the_front_and_each_byte_once() {
        let mut object = Object::new(10_500, RangeSet::from_iter([ByteRange::new(2_000, 3_000)]));
        let none = RangeSet::new();
        assert_eq!(object.take(3_900, 1_000, 64, &none), [ByteRange::new(0, 2_000), ByteRange::new(3_000, 4_000)]);
        assert_eq!(object.take(100, 1_000, 64, &none), [ByteRange::new(4_000, 5_000)]);
        assert_eq!(object.take(1 << 40, 1_000, 64, &none), [ByteRange::new(5_000, 10_500)]);
        assert!(object.take(1_000, 1_000, 64, &none).is_empty());
    }

    #[test]
    fn take_leaves_out_what_is_to_be_avoided() {
        let mut object = Object::new(10_000, RangeSet::new());
        let avoid = RangeSet::from_iter([ByteRange::new(0, 4_000)]);
        assert_eq!(object.take(2_000, 1_000, 64, &avoid), [ByteRange::new(4_000, 6_000)]);
        assert_eq!(
            object.take(5_000, 1_000, 64, &RangeSet::new()),
            [ByteRange::new(0, 4_000), ByteRange::new(6_000, 7_000)]
        );
    }

    #[test]
    fn take_hands_out_what_is_urgent_first_and_alone() {
        let mut object = Object::new(10_000, RangeSet::new());
        object.hurry(ByteRange::new(7_000, 8_000));
        object.hurry(ByteRange::new(9_500, 9_600));
        let none = RangeSet::new();
        let urgent = [ByteRange::new(7_000, 8_000), ByteRange::new(9_500, 9_600)];
        assert_eq!(object.take(5_000, 1_000, 64, &none), urgent);
        object.hurry(ByteRange::new(0, 1_000));
        object.hold(ByteRange::new(0, 500), |_| {});
        assert_eq!(
            object.take(5_000, 1_000, 64, &none),
            [ByteRange::new(500, 1_000)],
            "what has come is not asked for"
        );
        assert_eq!(object.take(5_000, 1_000, 64, &none), [ByteRange::new(1_000, 6_000)]);
    }

    #[test]
    fn hold_places_only_what_is_new() {
        let mut object = Object::new(10_000, RangeSet::new());
        let mut placed = Vec::new();
        assert_eq!(object.hold(ByteRange::new(2_000, 4_000), |r| placed.push(r)), 2_000);
        assert_eq!(object.hold(ByteRange::new(0, 6_000), |r| placed.push(r)), 4_000);
        assert_eq!(placed, [ByteRange::new(2_000, 4_000), ByteRange::new(0, 2_000), ByteRange::new(4_000, 6_000)]);
        object.want(ByteRange::new(5_000, 7_000)); // the first half is held already
        assert_eq!(object.wanted_bytes(), 4_000);
    }
}
