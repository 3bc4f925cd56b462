//! Ranges that a receiver requested and that have not been sent.

use std::collections::VecDeque;

use inhaul_base::ByteRange;

/// Requests in the order of arrival, each with its remaining ranges.
#[derive(Debug, Default)]
pub struct Queue {
    requests: VecDeque<Pending>,
    ranges: usize,
    bytes: u64,
    last_id: u32,
    answered: u32,
}

#[derive(Debug)]
struct Pending {
    id: u32,
    block: u16,
    /// Never empty, and without empty ranges.
    ranges: VecDeque<ByteRange>,
}

/// The next piece to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// The request.
    pub request: u32,
    /// Length of the blocks that it is cut into.
    pub block: u16,
    /// The rest of its first range.
    pub range: ByteRange,
}

impl Queue {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ranges that wait.
    pub fn ranges(&self) -> usize {
        self.ranges
    }

    /// The last request that has been sent in full or cancelled; 0 before the first.
    pub fn answered(&self) -> u32 {
        self.answered
    }

    /// The number that the next request must have.
    pub(super) fn next_id(&self) -> u32 {
        self.last_id.wrapping_add(1)
    }

    pub(super) fn push(&mut self, id: u32, block: u16, ranges: Vec<ByteRange>) {
        self.last_id = id;
        self.ranges += ranges.len();
        self.bytes += ranges.iter().map(|range| range.len()).sum::<u64>();
        self.requests.push_back(Pending { id, block, ranges: ranges.into() });
    }

    /// The next piece to send.
    pub fn front(&self) -> Option<Front> {
        let pending = self.requests.front()?;
        Some(Front { request: pending.id, block: pending.block, range: *pending.ranges.front()? })
    }

    /// Takes `bytes` from the first range, or all of it if it is shorter.
    pub fn take(&mut self, bytes: u64) -> Option<ByteRange> {
        let pending = self.requests.front_mut()?;
        let range = pending.ranges.front_mut()?;
        let taken = ByteRange::new(range.start, range.end.min(range.start.saturating_add(bytes)));
        range.start = taken.end;
        self.bytes -= taken.len();
        if range.is_empty() {
            self.ranges -= 1;
            pending.ranges.pop_front();
            if pending.ranges.is_empty() {
                self.answered = pending.id;
                self.requests.pop_front();
            }
        }
        Some(taken)
    }

    /// Takes the next block.
    pub fn cut(&mut self) -> Option<ByteRange> {
        let block = self.front()?.block;
        self.take(u64::from(block))
    }

    /// Forgets requests up to this one.
    pub fn cancel(&mut self, through: u32) {
        while let Some(pending) = self.requests.front()
            && pending.id <= through
        {
            self.answered = pending.id;
            self.ranges -= pending.ranges.len();
            self.bytes -= pending.ranges.iter().map(|range| range.len()).sum::<u64>();
            self.requests.pop_front();
        }
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        let ranges = |pending: &Pending| pending.ranges.capacity() * size_of::<ByteRange>();
        self.requests.capacity() * size_of::<Pending>() + self.requests.iter().map(ranges).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_goes_through_ranges_and_requests_in_order() {
        let mut queue = Queue::default();
        queue.push(1, 1_000, vec![ByteRange::new(0, 2_500), ByteRange::new(9_000, 9_100)]);
        queue.push(2, 500, vec![ByteRange::new(20_000, 20_400)]);
        assert_eq!((queue.bytes(), queue.ranges(), queue.answered(), queue.next_id()), (3_000, 3, 0, 3));
        assert_eq!(queue.take(2_000), Some(ByteRange::new(0, 2_000)));
        assert_eq!(queue.front(), Some(Front { request: 1, block: 1_000, range: ByteRange::new(2_000, 2_500) }));
        assert_eq!(queue.take(1_000), Some(ByteRange::new(2_000, 2_500)));
        assert_eq!((queue.take(1_000), queue.answered()), (Some(ByteRange::new(9_000, 9_100)), 1));
        assert_eq!(queue.take(500), Some(ByteRange::new(20_000, 20_400)));
        assert_eq!((queue.take(1), queue.is_empty(), queue.answered(), queue.bytes()), (None, true, 2, 0));
    }

    #[test]
    fn cancel_forgets_requests_up_to_one() {
        let mut queue = Queue::default();
        (1..=3).for_each(|id| queue.push(id, 1_000, vec![ByteRange::at(u64::from(id) * 1_000, 1_000)]));
        queue.cancel(2);
        assert_eq!((queue.bytes(), queue.ranges(), queue.answered()), (1_000, 1, 2));
        assert_eq!(queue.front().map(|front| front.request), Some(3));
    }
}
