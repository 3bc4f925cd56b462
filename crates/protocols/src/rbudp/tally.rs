//! The tally of a round: whether each requested block has come, one bit each.

use std::collections::BTreeMap;

use inhaul_base::{ByteRange, RangeSet};

use super::wire::{BITMAP_BLOCKS_MAX, SECTION_BYTES, Section};

/// Memory for bits is taken in units of this many words.
const UNIT_WORDS: usize = 2_048;
/// Blocks that are looked through to say what will come next.
const EXPECTED_BLOCKS_MAX: u64 = 1_024;

/// The requested ranges of a round.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Ranges that were asked for, by their start. Never overlapping.
    parts: BTreeMap<u64, Part>,
    /// A bit for each block of all parts: whether it has come.
    arrived: Vec<u64>,
    blocks: u64,
    pending_bytes: u64,
    /// Other flows bring the missing blocks.
    is_given_up: bool,
    /// End of the last arrival.
    frontier: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    end: u64,
    block: u64,
    /// Its first bit.
    first: u64,
}

impl Part {
    fn block_at(self, start: u64, index: u64) -> ByteRange {
        let from = start + index * self.block;
        ByteRange::new(from, self.end.min(from + self.block))
    }

    fn blocks(self, start: u64) -> u64 {
        (self.end - start).div_ceil(self.block)
    }
}

impl Tally {
    /// Begins a new round: earlier requests are forgotten.
    pub(super) fn begin(&mut self) {
        self.parts.clear();
        self.arrived.clear();
        (self.blocks, self.pending_bytes, self.is_given_up) = (0, 0, false);
    }

    /// `range` is asked for, in blocks of `block` bytes.
    pub(super) fn add(&mut self, range: ByteRange, block: u64) {
        let part = Part { end: range.end, block, first: self.blocks };
        self.parts.insert(range.start, part);
        self.blocks += part.blocks(range.start);
        self.pending_bytes += range.len();
        let words = self.blocks.div_ceil(64) as usize;
        if words > self.arrived.capacity() {
            self.arrived.reserve_exact(words.next_multiple_of(UNIT_WORDS) - self.arrived.len());
        }
        self.arrived.resize(words, 0);
    }

    /// Ranges that were asked for.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    fn has(&self, bit: u64) -> bool {
        self.arrived.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The first bit from `bit` on whose block has come, as far as a look goes.
    fn next_arrived(&self, bit: u64) -> Option<u64> {
        let first = (bit / 64) as usize;
        let words = self.arrived.iter().enumerate().skip(first).take((EXPECTED_BLOCKS_MAX / 64) as usize + 1);
        words.into_iter().find_map(|(index, word)| {
            let word = if index == first { word & (!0 << (bit % 64)) } else { *word };
            (word != 0).then(|| index as u64 * 64 + u64::from(word.trailing_zeros()))
        })
    }

    /// Marks a block as come. Returns whether that is news.
    fn mark(&mut self, bit: u64) -> bool {
        let Some(word) = self.arrived.get_mut((bit / 64) as usize) else { return false };
        let before = *word;
        *word |= 1 << (bit % 64);
        *word != before
    }

    /// Bytes `range` came. Returns the front of it, as far as one part has it; `None` if they were not requested, or
    /// not as whole blocks: that bounds the pieces into which a hostile sender can cut the object.
    pub(super) fn arrive(&mut self, range: ByteRange) -> Option<ByteRange> {
        let (&start, &part) = self.parts.range(..=range.start).next_back()?;
        let range = range.intersection(ByteRange::new(start, part.end));
        let is_whole = !range.is_empty()
            && (range.start - start).is_multiple_of(part.block)
            && (range.end == part.end || (range.end - start).is_multiple_of(part.block));
        if !is_whole {
            return None;
        }
        self.frontier = range.end;
        let first = (range.start - start) / part.block;
        for index in first..first + range.len().div_ceil(part.block) {
            if self.mark(part.first + index) && !self.is_given_up {
                self.pending_bytes -= part.block_at(start, index).len();
            }
        }
        Some(range)
    }

    /// Bytes that have neither come nor been given up.
    pub(super) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Missing bytes, given up or not.
    fn absent(&self) -> impl Iterator<Item = ByteRange> {
        let blocks = move |(&start, &part): (&u64, &Part)| {
            (0..part.blocks(start)).filter(move |k| !self.has(part.first + k)).map(move |k| part.block_at(start, k))
        };
        self.parts.iter().flat_map(blocks)
    }

    /// Other flows bring the missing blocks. Late arrivals are still recognised.
    pub(super) fn abandon(&mut self) -> Vec<ByteRange> {
        if std::mem::replace(&mut self.is_given_up, true) {
            return Vec::new();
        }
        self.pending_bytes = 0;
        self.absent().collect::<RangeSet>().iter().collect()
    }

    /// Bytes in `held` are no longer needed: another flow has brought them, or they are no longer wanted.
    pub(super) fn forget(&mut self, held: &RangeSet) {
        if !self.is_given_up {
            let known: Vec<ByteRange> = self.absent().filter(|block| held.contains(*block)).collect();
            known.into_iter().for_each(|block| {
                self.arrive(block);
            });
        }
    }

    /// Missing blocks, as sections: a bitmap for every [`BITMAP_BLOCKS_MAX`] blocks, or runs where these are shorter.
    pub(super) fn missing(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        if self.pending_bytes == 0 {
            return sections;
        }
        for (&start, part) in &self.parts {
            let blocks = part.blocks(start);
            for from in (0..blocks).step_by(BITMAP_BLOCKS_MAX as usize) {
                self.describe(start, *part, from, blocks.min(from + u64::from(BITMAP_BLOCKS_MAX)), &mut sections);
            }
        }
        sections
    }

    /// Adds the missing ones of the blocks `from` to `to` of a part.
    fn describe(&self, start: u64, part: Part, from: u64, to: u64, sections: &mut Vec<Section>) {
        let before = sections.len();
        let mut run: Option<ByteRange> = None;
        for index in from..to {
            let block = part.block_at(start, index);
            match &mut run {
                _ if self.has(part.first + index) => sections.extend(run.take().map(Section::Run)),
                Some(run) => run.end = block.end,
                None => run = Some(block),
            }
        }
        sections.extend(run.map(Section::Run));
        // A bitmap counts whole blocks, so a short one at the end of a part stays a run.
        let whole = to.min((part.end - start) / part.block);
        let bitmap_len = SECTION_BYTES + (whole.saturating_sub(from)).div_ceil(8) as usize;
        if whole <= from || (sections.len() - before) * SECTION_BYTES <= bitmap_len + SECTION_BYTES {
            return;
        }
        sections.truncate(before);
        let mut bits = vec![0; bitmap_len - SECTION_BYTES];
        for index in (from..whole).filter(|index| !self.has(part.first + index)) {
            bits[((index - from) / 8) as usize] |= 0x80 >> ((index - from) % 8);
        }
        sections.push(Section::Bitmap { start: start + from * part.block, blocks: (whole - from) as u32, bits });
        if whole < to && !self.has(part.first + whole) {
            sections.push(Section::Run(part.block_at(start, whole)));
        }
    }

    /// The range and block length that will come next if nothing is lost.
    pub(super) fn expected(&self) -> Option<(ByteRange, u64)> {
        let at = self.frontier;
        let (&start, &part) = self.parts.range(..=at).next_back().filter(|(_, part)| at < part.end)?;
        let from = (at - start) / part.block;
        let last = part.blocks(start).min(from + EXPECTED_BLOCKS_MAX);
        let to = self.next_arrived(part.first + from).map_or(last, |bit| last.min(bit - part.first));
        (to > from).then(|| (ByteRange::new(at, part.end.min(start + to * part.block)), part.block))
    }

    /// Bytes of memory, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.arrived.capacity() * 8 + self.parts.len() * 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(ranges: &[(u64, u64)], block: u64) -> Tally {
        let mut tally = Tally::default();
        tally.begin();
        ranges.iter().for_each(|&(start, end)| tally.add(ByteRange::new(start, end), block));
        tally
    }

    /// All bytes of sections.
    fn bytes_of(sections: &[Section], block: u64) -> RangeSet {
        let mut set = RangeSet::new();
        for section in sections {
            match section {
                Section::Run(range) => assert_eq!(set.insert(*range), range.len(), "said twice"),
                Section::Bitmap { start, blocks, bits } => {
                    for k in (0..u64::from(*blocks)).filter(|k| bits[(k / 8) as usize] >> (7 - k % 8) & 1 == 1) {
                        assert_eq!(set.insert(ByteRange::at(start + k * block, block)), block, "said twice");
                    }
                }
            }
        }
        set
    }

    #[test]
    fn arrive_takes_whole_blocks_of_what_was_asked_for() {
        let mut tally = asked(&[(2_000, 5_500), (9_000, 10_000)], 1_000);
        for (start, end) in [(2_500, 3_500), (2_000, 2_999), (1_000, 3_000), (5_500, 6_000), (3_000, 3_000)] {
            assert_eq!(tally.arrive(ByteRange { start, end }), None, "[{start}, {end})");
        }
        assert_eq!(tally.arrive(ByteRange::new(5_000, 7_000)), Some(ByteRange::new(5_000, 5_500)));
        assert_eq!(tally.arrive(ByteRange::new(2_000, 4_000)), Some(ByteRange::new(2_000, 4_000)));
        assert_eq!(tally.pending_bytes(), 2_000);
        assert_eq!(tally.expected(), Some((ByteRange::new(4_000, 5_000), 1_000)));
        assert_eq!(tally.arrive(ByteRange::new(2_000, 4_000)), Some(ByteRange::new(2_000, 4_000)), "a second time");
        assert_eq!(tally.pending_bytes(), 2_000);
        assert_eq!(tally.abandon(), [ByteRange::new(4_000, 5_000), ByteRange::new(9_000, 10_000)]);
        assert_eq!((tally.pending_bytes(), tally.abandon().len(), tally.missing().len()), (0, 0, 0));
        assert!(tally.arrive(ByteRange::new(4_000, 5_000)).is_some(), "given up, and still known");
        assert_eq!(tally.pending_bytes(), 0);
    }

    #[test]
    fn expected_ends_at_what_has_come_at_the_end_of_the_part_or_of_the_look() {
        // The second part begins within a word of bits.
        let mut tally = asked(&[(0, 100), (1_000, 3_000)], 1);
        let mut expected = |come: std::ops::Range<u64>| {
            tally.arrive(ByteRange::new(come.start, come.end)).unwrap();
            tally.expected().map(|(range, _)| (range.start, range.end))
        };
        assert_eq!(expected(0..1), Some((1, 100)), "later bytes are another part");
        assert_eq!(expected(1_000..1_001), Some((1_001, 1_001 + EXPECTED_BLOCKS_MAX)));
        for at in [1_063, 1_028, 1_027, 1_002] {
            assert_eq!(expected(at..at + 1).map(|(start, _)| start), (at != 1_027).then_some(at + 1), "{at}");
            assert_eq!(expected(1_000..1_001), Some((1_001, at)));
        }
    }

    #[test]
    fn forget_takes_what_is_held_as_come() {
        let mut tally = asked(&[(0, 10_000)], 1_000);
        tally.forget(&RangeSet::from_iter([ByteRange::new(1_500, 4_000), ByteRange::new(9_000, 20_000)]));
        assert_eq!(tally.pending_bytes(), 7_000);
    }

    #[test]
    fn missing_is_said_in_the_shorter_way() {
        let mut tally = asked(&[(0, 1_000_500)], 1_000);
        assert_eq!(tally.missing(), [Section::Run(ByteRange::new(0, 1_000_500))]);
        // 11 runs take 132 bytes, a bitmap of 1,000 blocks 137.
        let mut keep = |k: u64| tally.arrive(ByteRange::at(k * 1_000, 1_000)).unwrap();
        for k in 0..10 {
            keep(50 * k + 1);
        }
        assert_eq!(tally.missing().len(), 11);
        for k in 0..490 {
            tally.arrive(ByteRange::at(2_000 * k, 1_000));
        }
        let sections = tally.missing();
        assert!(matches!(sections[..], [Section::Bitmap { blocks: 1_000, .. }, Section::Run(_)]), "{sections:?}");
    }

    proptest! {
        #[test]
        fn missing_is_what_did_not_come(
            lens in prop::collection::vec(1..60_000u64, 1..5), came in prop::collection::vec(any::<bool>(), 0..700),
        ) {
            let (mut at, mut ranges) = (7, Vec::new());
            for len in lens {
                ranges.push((at, at + len));
                at += len + 333;
            }
            let mut tally = asked(&ranges, 256);
            let mut absent: RangeSet = ranges.iter().map(|&(a, b)| ByteRange::new(a, b)).collect();
            let blocks: Vec<_> = ranges.iter().flat_map(|&(a, b)| {
                (a..b).step_by(256).map(move |start| ByteRange::new(start, b.min(start + 256)))
            }).collect();
            for (block, _) in blocks.iter().zip(came).filter(|(_, came)| *came) {
                prop_assert_eq!(tally.arrive(*block), Some(*block));
                absent.remove(*block);
            }
            prop_assert_eq!(tally.pending_bytes(), absent.covered());
            prop_assert_eq!(bytes_of(&tally.missing(), 256).iter().collect::<Vec<_>>(), absent.iter().collect::<Vec<_>>());
        }
    }
}
