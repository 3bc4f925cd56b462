//! Outstanding ranges of one flow, in the order in which they will be sent.
//!
//! The sender answers requests in order, so data that arrives proves that everything requested before it has been
//! sent. Skipped bytes are a gap; a gap that does not fill within the reordering window is lost.

use std::collections::VecDeque;

use inhaul_base::{ByteRange, RangeSet, Span, Time};

/// Requests that are answered stay known for a while, so that late packets can be told from illegal ones.
const ANSWERED_MAX: usize = 64;

/// A flow's requests.
#[derive(Debug)]
pub(super) struct Outstanding {
    requests: VecDeque<Request>,
    first_id: u32,
    pending_bytes: u64,
    /// The position behind the furthest byte that has come: request, offset in the object.
    frontier: (u32, u64),
    gaps: VecDeque<Gap>,
}

#[derive(Debug)]
struct Request {
    block: u64,
    /// Ascending and disjoint, as sent: the first, and the others, which few requests have.
    first: ByteRange,
    others: Vec<ByteRange>,
    /// Ranges that have neither come nor been given up.
    pending: RangeSet,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    seen: Time,
    /// Epoch of the rate at which the packet behind it was sent, and so about the lost ones too.
    epoch: u16,
    request: u32,
    range: ByteRange,
}

/// The kind of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Waited for, and in order.
    InOrder,
    /// Waited for, but passed over before: reordered by so long.
    Reordered(Span),
    /// Requested once, but it has come already or was given up.
    Late,
    /// Never requested.
    Foreign,
}

impl Outstanding {
    pub(super) fn new() -> Self {
        Self { requests: VecDeque::new(), first_id: 1, pending_bytes: 0, frontier: (1, 0), gaps: VecDeque::new() }
    }

    /// Requested bytes that have neither come nor been given up.
    pub(super) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Ranges that the sender may not have sent yet: those of requests that no later one has been answered.
    pub(super) fn queued_ranges(&self) -> usize {
        let answered = self.frontier.0.wrapping_sub(self.first_id) as usize;
        self.requests.iter().skip(answered).map(|request| 1 + request.others.len()).sum()
    }

    /// Records a request for `ranges` (ascending, disjoint, not empty) and returns its number.
    pub(super) fn request(&mut self, block: u16, ranges: &[ByteRange]) -> u32 {
        let id = self.first_id.wrapping_add(self.requests.len() as u32);
        let pending: RangeSet = ranges.iter().copied().collect();
        self.pending_bytes += pending.covered();
        let (first, others) =
            ranges.split_first().map_or_else(Default::default, |(first, others)| (*first, others.to_vec()));
        self.requests.push_back(Request { block: u64::from(block), first, others, pending });
        self.retire();
        id
    }

    /// Forgets answered requests at the front, except the last few.
    fn retire(&mut self) {
        while self.requests.len() > ANSWERED_MAX && self.requests.front().is_some_and(|r| r.pending.is_empty()) {
            self.requests.pop_front();
            self.first_id = self.first_id.wrapping_add(1);
        }
    }

    fn index(&self, id: u32) -> Option<usize> {
        let index = id.wrapping_sub(self.first_id) as usize;
        (index < self.requests.len()).then_some(index)
    }

    /// Blocks that cover `range`, sent in rate epoch `epoch`, have come in answer to request `id`.
    pub(super) fn arrive(&mut self, now: Time, id: u32, range: ByteRange, epoch: u16) -> Arrival {
        let Some(request) = self.index(id).map(|index| &mut self.requests[index]) else { return Arrival::Foreign };
        if !request.is_block_aligned(range) {
            return Arrival::Foreign;
        }
        let removed = request.pending.remove(range);
        self.pending_bytes -= removed;
        let at = (id, range.start);
        if at >= self.frontier {
            self.pass_over(now, at, epoch);
            self.frontier = (id, range.end);
            Arrival::InOrder
        } else if removed == 0 {
            Arrival::Late
        } else {
            let gap = self.gaps.iter().find(|g| g.request == id && !g.range.intersection(range).is_empty());
            Arrival::Reordered(gap.map_or(Span::ZERO, |g| now.since(g.seen)))
        }
    }

    /// The sender says that it has sent everything up to request `id`.
    pub(super) fn all_sent(&mut self, now: Time, id: u32, epoch: u16) {
        let next = id.wrapping_add(1);
        if self.index(id).is_some() && (next, 0) > self.frontier {
            self.pass_over(now, (next, 0), epoch);
            self.frontier = (next, 0);
        }
    }

    /// Notes the pending bytes from the frontier up to `to` as gaps.
    fn pass_over(&mut self, now: Time, to: (u32, u64), epoch: u16) {
        let from = self.frontier;
        // Requests retired since then were answered in full.
        for request in from.0.max(self.first_id)..=to.0 {
            let Some(index) = self.index(request) else { break };
            let lo = if request == from.0 { from.1 } else { 0 };
            let hi = if request == to.0 { to.1 } else { u64::MAX };
            let pending = &self.requests[index].pending;
            if !pending.is_empty() {
                let passed = pending.within(ByteRange::new(lo, hi));
                self.gaps.extend(passed.map(|range| Gap { seen: now, epoch, request, range }));
            }
        }
    }

    /// Gives up gaps that are older than `window`. Calls `lost` with each range, how many blocks it is, and the epoch
    /// of the rate they were sent at.
    pub(super) fn expire(&mut self, now: Time, window: Span, mut lost: impl FnMut(ByteRange, u64, u16)) {
        while let Some(gap) = self.gaps.front().copied()
            && gap.seen + window <= now
        {
            self.gaps.pop_front();
            let Some(request) = self.index(gap.request).map(|index| &mut self.requests[index]) else { continue };
            let missing: Vec<_> = request.pending.within(gap.range).collect();
            for range in missing {
                self.pending_bytes -= request.pending.remove(range);
                lost(range, range.len().div_ceil(request.block), gap.epoch);
            }
        }
    }

    /// When the oldest gap expires.
    pub(super) fn expiry(&self, window: Span) -> Option<Time> {
        self.gaps.front().map(|gap| gap.seen + window)
    }

    /// Gives up everything that is pending. Calls `lost` with each range and how many blocks it is.
    pub(super) fn abandon(&mut self, mut lost: impl FnMut(ByteRange, u64)) {
        for request in &mut self.requests {
            for range in std::mem::take(&mut request.pending).iter() {
                lost(range, range.len().div_ceil(request.block));
            }
        }
        self.pending_bytes = 0;
        self.gaps.clear();
        self.frontier = (self.last_id().wrapping_add(1), 0);
    }

    /// The flow stops waiting for pending bytes of `range`; they do not count as lost.
    pub(super) fn forget(&mut self, range: ByteRange) {
        for request in &mut self.requests {
            self.pending_bytes -= request.pending.remove(range);
        }
    }

    /// The last request made; 0 before the first.
    pub(super) fn last_id(&self) -> u32 {
        self.first_id.wrapping_add(self.requests.len() as u32).wrapping_sub(1)
    }

    /// The range and block length that will come next if nothing is lost.
    pub(super) fn expected(&self) -> Option<(ByteRange, u64)> {
        let mut found: Option<(ByteRange, u64)> = None;
        for id in self.frontier.0.max(self.first_id)..=self.last_id() {
            let request = &self.requests[self.index(id)?];
            let from = if id == self.frontier.0 { self.frontier.1 } else { 0 };
            for range in std::iter::once(&request.first).chain(&request.others).filter(|r| r.end > from) {
                match &mut found {
                    None => found = Some((ByteRange::new(range.start.max(from), range.end), request.block)),
                    // A run goes on into the next request when it was cut at a whole block.
                    Some((run, block))
                        if run.end == range.start && *block == request.block && run.len().is_multiple_of(*block) =>
                    {
                        run.end = range.end;
                    }
                    Some(_) => return found,
                }
            }
        }
        found
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let request = |r: &Request| {
            size_of::<Request>() + r.others.capacity() * size_of::<ByteRange>() + r.pending.fragments() * 40
        };
        self.requests.iter().map(request).sum::<usize>() + self.gaps.capacity() * size_of::<Gap>()
    }
}

impl Request {
    /// Whether `range` is made of whole blocks of one of the ranges. Bounds the pieces into which a hostile sender can
    /// cut the object.
    fn is_block_aligned(&self, range: ByteRange) -> bool {
        let after = self.others.partition_point(|r| r.start <= range.start);
        let whole = after.checked_sub(1).map_or(self.first, |index| self.others[index]);
        !range.is_empty()
            && whole.contains(range)
            && (range.start - whole.start).is_multiple_of(self.block)
            && (range.end == whole.end || (range.end - whole.start).is_multiple_of(self.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Span = Span::from_millis(2);

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn blocks(first: u64, count: u64) -> ByteRange {
        ByteRange::at(first * 1000, count * 1000)
    }

    fn expired(out: &mut Outstanding, now: Time) -> Vec<(ByteRange, u64)> {
        let mut lost = Vec::new();
        out.expire(now, WINDOW, |range, count, _| lost.push((range, count)));
        lost
    }

    #[test]
    fn queued_ranges_counts_what_the_sender_may_not_have_sent() {
        let mut outstanding = Outstanding::new();
        let ranges = [ByteRange::new(0, 1_000), ByteRange::new(2_000, 3_000)];
        assert_eq!(outstanding.queued_ranges(), 0);
        let first = outstanding.request(1_000, &ranges);
        let second = outstanding.request(1_000, &[ByteRange::new(5_000, 6_000)]);
        assert_eq!(outstanding.queued_ranges(), 3);
        outstanding.arrive(Time::ZERO, first, ranges[1], 0);
        assert_eq!(outstanding.queued_ranges(), 3, "it may have more to send of the first");
        outstanding.arrive(Time::ZERO, second, ByteRange::new(5_000, 6_000), 0);
        assert_eq!(outstanding.queued_ranges(), 1);
        outstanding.all_sent(Time::ZERO, second, 0);
        assert_eq!(outstanding.queued_ranges(), 0);
    }

    #[test]
    fn arrive_in_order_leaves_no_gap() {
        let mut out = Outstanding::new();
        assert_eq!(out.request(1000, &[blocks(0, 10)]), 1);
        assert_eq!(out.request(1000, &[blocks(10, 10)]), 2);
        assert_eq!(out.expected(), Some((blocks(0, 20), 1000)));
        assert_eq!(out.arrive(at(1), 1, blocks(0, 10), 0), Arrival::InOrder);
        assert_eq!(out.arrive(at(1), 2, blocks(10, 4), 0), Arrival::InOrder);
        assert_eq!(out.expected(), Some((blocks(14, 6), 1000)));
        assert_eq!(out.pending_bytes(), 6000);
        assert!(out.expiry(WINDOW).is_none());
    }

    #[test]
    fn what_is_passed_over_is_lost_after_the_reordering_window_also_across_requests() {
        let mut out = Outstanding::new();
        out.request(1000, &[blocks(0, 4), blocks(8, 2)]);
        out.request(1000, &[blocks(20, 4)]);
        assert_eq!(out.arrive(at(1), 1, blocks(1, 1), 0), Arrival::InOrder);
        assert_eq!(out.arrive(at(2), 2, blocks(21, 1), 0), Arrival::InOrder);
        assert_eq!(out.expiry(WINDOW), Some(at(3)));
        assert_eq!(expired(&mut out, at(3)), [(blocks(0, 1), 1)]);
        // One block comes late but in time.
        assert_eq!(out.arrive(at(3), 1, blocks(2, 1), 0), Arrival::Reordered(Span::from_millis(1)));
        assert_eq!(expired(&mut out, at(4)), [(blocks(3, 1), 1), (blocks(8, 2), 2), (blocks(20, 1), 1)]);
        // And one when it had been given up.
        assert_eq!(out.arrive(at(5), 1, blocks(3, 1), 0), Arrival::Late);
        assert_eq!(out.pending_bytes(), 2000);
    }

    #[test]
    fn forget_waits_for_nothing_and_loses_nothing() {
        let mut out = Outstanding::new();
        out.request(1000, &[blocks(0, 4)]);
        out.request(1000, &[blocks(4, 4)]);
        out.forget(blocks(2, 4));
        assert_eq!(out.pending_bytes(), 4000);
        out.arrive(at(1), 1, blocks(0, 2), 0);
        assert_eq!(out.arrive(at(2), 2, blocks(6, 2), 0), Arrival::InOrder);
        assert_eq!((expired(&mut out, at(9)), out.pending_bytes()), (vec![], 0));
        // It may still come.
        assert_eq!(out.arrive(at(9), 1, blocks(3, 1), 0), Arrival::Late);
    }

    #[test]
    fn all_sent_reveals_a_lost_tail() {
        let mut out = Outstanding::new();
        out.request(1000, &[blocks(0, 4)]);
        out.arrive(at(1), 1, blocks(0, 2), 0);
        out.all_sent(at(2), 1, 0);
        assert_eq!(expired(&mut out, at(4)), [(blocks(2, 2), 2)]);
        out.all_sent(at(5), 77, 0); // a request that was never made
        assert_eq!(out.request(1000, &[blocks(2, 2)]), 2);
        assert_eq!(out.arrive(at(6), 2, blocks(2, 2), 0), Arrival::InOrder);
    }

    #[test]
    fn arrive_refuses_what_was_not_requested_or_cuts_blocks() {
        let mut out = Outstanding::new();
        out.request(1000, &[ByteRange::new(2_000, 5_500)]);
        for (id, start, end) in [
            (1, 2_500, 3_500),
            (1, 2_000, 2_999),
            (1, 1_000, 3_000),
            (1, 5_000, 6_000),
            (1, 3_000, 3_000),
            (2, 2_000, 3_000),
            (0, 2_000, 3_000),
        ] {
            assert_eq!(out.arrive(at(1), id, ByteRange { start, end }, 0), Arrival::Foreign, "{id} [{start}, {end})");
        }
        assert_eq!(out.arrive(at(1), 1, ByteRange::new(5_000, 5_500), 0), Arrival::InOrder);
    }

    #[test]
    fn abandon_gives_everything_back_and_late_data_is_still_known() {
        let mut out = Outstanding::new();
        out.request(1000, &[blocks(0, 4)]);
        out.arrive(at(1), 1, blocks(1, 1), 0);
        let mut lost = Vec::new();
        out.abandon(|range, _| lost.push(range));
        assert_eq!(lost, [blocks(0, 1), blocks(2, 2)]);
        assert_eq!((out.pending_bytes(), out.expiry(WINDOW)), (0, None));
        assert_eq!(out.arrive(at(2), 1, blocks(2, 1), 0), Arrival::Late);
    }
}
