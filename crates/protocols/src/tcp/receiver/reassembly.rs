//! The segments that have come, and their acknowledgements (RFC 5681 4.2, RFC 2018, RFC 2883, RFC 7323 4.3).

use inhaul_base::{ByteRange, RangeSet, Sequence};

use crate::tcp::wire::{BLOCKS_MAX, Blocks, Timestamp};

/// Most gaps that are remembered: bounds a flow's memory. A segment that would make one more is dropped.
const GAPS_MAX: usize = 65_536;
/// Number of blocks whose time of the last change is remembered.
const RECENT: usize = 2 * BLOCKS_MAX;

/// The effect of a segment, or of several in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Next in order, with no gap before or behind: the acknowledgement may wait.
    InOrder,
    /// Next in order, and it closed a gap, or some of it; or it opened or grew a block behind one: acknowledge at
    /// once.
    OutOfOrder,
    /// It had come before: acknowledge at once.
    Duplicate,
    /// Beyond the receiver's window: ignore.
    Refused,
}

/// Segments that have come.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The first that has not come.
    next: u64,
    /// Segments that came behind gaps.
    above: RangeSet,
    /// A segment of each block that changed lately, the latest first.
    recent: [Option<u64>; RECENT],
    /// The timestamp to echo (TS.Recent).
    echo: Timestamp,
    /// `next` as it was last acknowledged (Last.ACK.sent).
    acknowledged: u64,
    /// Segments that came once more since the last acknowledgement.
    duplicate: Option<ByteRange>,
    /// Blocks that began since the last acknowledgement.
    fresh_blocks: usize,
}

impl Reassembly {
    /// The `count` segments from `sequence` on came, the first sent at `sent`. The receiver takes `window` segments
    /// beyond the first that has not come.
    pub(super) fn arrive(&mut self, sequence: Sequence, count: u64, sent: Timestamp, window: u64) -> Arrival {
        let Some(first) = self.number_of(sequence) else { return Arrival::Duplicate };
        // RFC 7323 4.3 (2): the timestamp of the first segment that the next acknowledgement is about.
        if first <= self.acknowledged && sent.after(self.echo) >= 0 || self.next == 0 {
            self.echo = sent;
        }
        let run = ByteRange::at(first, count);
        if run.end <= self.next || self.above.contains(run) {
            self.duplicate = Some(run);
            return Arrival::Duplicate;
        }
        if run.start <= self.next {
            self.next = run.end;
            if self.above.is_empty() {
                return Arrival::InOrder;
            }
            if let Some(joined) = self.above.run_at(self.next) {
                self.next = joined.end;
            }
            self.above.remove(ByteRange::new(0, self.next));
            return Arrival::OutOfOrder;
        }
        let begins = self.above.run_at(first - 1).is_none();
        if run.end > self.next + window || (begins && self.above.fragments() >= GAPS_MAX) {
            return Arrival::Refused;
        }
        self.above.insert(run);
        self.fresh_blocks += usize::from(begins);
        self.note_recent(first);
        Arrival::OutOfOrder
    }

    /// Forgets segments that came out of order: the stream continues behind all that could have been sent. Returns its
    /// next segment.
    pub(super) fn restart(&mut self, window: u64) -> Sequence {
        let next = self.next + window;
        *self = Self { next, acknowledged: next, echo: self.echo, ..Self::default() };
        Sequence::new(next as u32)
    }

    /// The number that a number on the wire means; `None` when it is before the beginning of the stream.
    fn number_of(&self, wire: Sequence) -> Option<u64> {
        self.next.checked_add_signed(i64::from(wire.ahead_of(Sequence::new(self.next as u32))))
    }

    /// The block that holds `segment` changed last.
    fn note_recent(&mut self, segment: u64) {
        let block = self.above.run_at(segment);
        // Its older entry, or else the oldest of all, makes room.
        let same = |entry: &Option<u64>| entry.is_some_and(|n| block.is_some_and(|b| b.start <= n && n < b.end));
        let until = self.recent.iter().position(same).unwrap_or(RECENT - 1);
        self.recent[..=until].rotate_right(1);
        self.recent[0] = Some(segment);
    }

    /// Whether the new blocks just fit into one acknowledgement.
    pub(super) fn has_much_to_report(&self) -> bool {
        self.fresh_blocks >= BLOCKS_MAX - 1
    }

    /// What to acknowledge, which timestamp to echo, and the blocks. The acknowledgement is taken for sent.
    pub(super) fn acknowledge(&mut self) -> (Sequence, Timestamp, Blocks) {
        self.acknowledged = self.next;
        self.fresh_blocks = 0;
        let mut blocks = Blocks::default();
        let mut reported: [u64; RECENT] = [u64::MAX; RECENT];
        // RFC 2883: a duplicate stands first. The sender learns that its retransmission was needless.
        if let Some(run) = self.duplicate.take() {
            blocks.push(Sequence::new(run.start as u32), Sequence::new(run.end as u32));
        }
        if !self.above.is_empty() {
            for (k, &entry) in self.recent.iter().enumerate() {
                let Some(block) = entry.and_then(|n| self.above.run_at(n)) else { continue };
                if !reported.contains(&block.start) {
                    reported[k] = block.start;
                    blocks.push(Sequence::new(block.start as u32), Sequence::new(block.end as u32));
                }
            }
        }
        (Sequence::new(self.next as u32), self.echo, blocks)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.above.fragments() * 40
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1_000;

    fn arrive(r: &mut Reassembly, n: u32, sent: u32) -> Arrival {
        r.arrive(Sequence::new(n), 1, Timestamp::new(sent), WINDOW)
    }

    fn report(r: &mut Reassembly) -> (u32, u32, Vec<(u32, u32)>) {
        let (next, echo, blocks) = r.acknowledge();
        (next.get(), echo.get(), blocks.iter().map(|(start, end)| (start.get(), end.get())).collect())
    }

    #[test]
    fn the_block_that_changed_last_comes_first() {
        // RFC 2018 section 5, example of every second segment lost.
        let mut r = Reassembly::default();
        assert_eq!(arrive(&mut r, 0, 0), Arrival::InOrder);
        let mut expected = Vec::new();
        for n in [2, 4, 6, 8, 10] {
            assert_eq!(arrive(&mut r, n, n), Arrival::OutOfOrder);
            expected.insert(0, (n, n + 1));
            expected.truncate(BLOCKS_MAX);
            assert_eq!(report(&mut r), (1, 0, expected.clone()));
        }
        // A gap that closes joins its blocks into one, reported first; those before it stay in their order.
        assert_eq!(arrive(&mut r, 3, 20), Arrival::OutOfOrder);
        assert_eq!(report(&mut r).2, [(2, 5), (10, 11), (8, 9), (6, 7)]);
        assert_eq!(arrive(&mut r, 1, 21), Arrival::OutOfOrder);
        assert_eq!(report(&mut r), (5, 21, vec![(10, 11), (8, 9), (6, 7)]));
    }

    #[test]
    fn what_came_once_more_is_reported_first_and_once() {
        // RFC 2883 section 4: below the acknowledged number, and within a block.
        let mut r = Reassembly::default();
        for n in [0, 1, 3, 4] {
            arrive(&mut r, n, n);
        }
        assert_eq!(arrive(&mut r, 1, 9), Arrival::Duplicate);
        assert_eq!(report(&mut r).2, [(1, 2), (3, 5)]);
        assert_eq!(arrive(&mut r, 4, 9), Arrival::Duplicate);
        assert_eq!(report(&mut r).2, [(4, 5), (3, 5)]);
        assert_eq!(report(&mut r).2, [(3, 5)]);
    }

    #[test]
    fn the_echo_is_of_the_first_segment_that_is_answered() {
        // RFC 7323 4.3: (A) delayed acknowledgements, (B) a hole, (C) a filled hole.
        let mut r = Reassembly::default();
        arrive(&mut r, 0, 100);
        arrive(&mut r, 1, 150);
        assert_eq!(report(&mut r).1, 100);
        arrive(&mut r, 2, 200);
        assert_eq!(report(&mut r).1, 200);
        arrive(&mut r, 4, 300);
        assert_eq!(report(&mut r).1, 200);
        arrive(&mut r, 3, 400);
        assert_eq!(report(&mut r), (5, 400, vec![]));
    }

    #[test]
    fn arrive_tells_what_came_before_and_refuses_what_is_beyond_the_window() {
        let mut r = Reassembly::default();
        arrive(&mut r, 0, 0);
        assert_eq!(arrive(&mut r, 0, 1), Arrival::Duplicate);
        assert_eq!(arrive(&mut r, 5, 1), Arrival::OutOfOrder);
        assert_eq!(arrive(&mut r, 5, 1), Arrival::Duplicate);
        assert_eq!(arrive(&mut r, 1 + WINDOW as u32, 1), Arrival::Refused);
        assert_eq!(arrive(&mut r, u32::MAX, 1), Arrival::Duplicate);
    }

    #[test]
    fn arrive_bounds_the_gaps_that_are_remembered() {
        let mut r = Reassembly::default();
        let window = 4 * GAPS_MAX as u64;
        let refused = (1..GAPS_MAX as u32 + 100)
            .filter(|k| r.arrive(Sequence::new(2 * k), 1, Timestamp::default(), window) == Arrival::Refused)
            .count();
        assert_eq!(refused, 99);
        assert!(r.memory_bytes() <= 40 * GAPS_MAX);
    }

    #[test]
    fn numbers_wrap() {
        let mut r =
            Reassembly { next: u64::from(u32::MAX), acknowledged: u64::from(u32::MAX), ..Reassembly::default() };
        assert_eq!(arrive(&mut r, u32::MAX, 1), Arrival::InOrder);
        assert_eq!(arrive(&mut r, 0, 2), Arrival::InOrder);
        assert_eq!(r.next, (1 << 32) + 1);
    }
}
