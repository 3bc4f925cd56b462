//! Datagrams that wait for a socket, as heads and ranges: their bodies are read when they leave.

use std::collections::VecDeque;

use inhaul_transport::{Transmit, TxBatch};

/// Datagrams in one batch: one that is being sent is not added to for ever, or it would never end.
const BATCH: usize = 256;
/// Datagrams that may wait at first, and how many more for each that has left: a peer that takes nothing has little kept
/// for it, whatever it asks for.
const FIRST_MAX: usize = 8 << 10;
const EARNED: usize = 8;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// In order, none of them empty; how many datagrams each began with.
    batches: VecDeque<(TxBatch, usize)>,
    datagrams: usize,
    /// How many have left, up to `max`.
    left: usize,
    /// How many may wait at most. More are lost, as on a busy path.
    max: usize,
}

impl Waiting {
    /// Nothing waits, and up to `max` datagrams may.
    pub(crate) fn new(max: usize) -> Self {
        Self { batches: VecDeque::new(), datagrams: 0, left: 0, max }
    }

    /// How many more may wait.
    fn room(&self) -> usize {
        self.max.min(FIRST_MAX + EARNED * self.left).saturating_sub(self.datagrams)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Adds datagrams of `batch`, as far as there is room.
    pub(crate) fn push(&mut self, batch: &TxBatch, transmit: &Transmit<'_>) {
        for datagram in transmit.datagrams.iter().take(self.room()) {
            if self.batches.back().is_none_or(|(_, count)| *count == BATCH) {
                self.batches.push_back((TxBatch::with_limit(BATCH), 0));
            }
            let Some((last, count)) = self.batches.back_mut() else { return };
            last.push(transmit.flow, transmit.route, batch.head(datagram), datagram.body, datagram.pad);
            if datagram.alone {
                last.set_alone();
            }
            *count += 1;
            self.datagrams += 1;
        }
    }

    /// What leaves first. Whoever has sent all of it says so: see [`Waiting::pop`].
    pub(crate) fn first(&mut self) -> Option<&mut TxBatch> {
        self.batches.front_mut().map(|(batch, _)| batch)
    }

    /// The first batch has left.
    pub(crate) fn pop(&mut self) {
        let count = self.batches.pop_front().map_or(0, |(_, count)| count);
        self.datagrams -= count;
        self.left = (self.left + count).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::ByteRange;
    use inhaul_transport::{ConnectionId, FlowId, Route};

    #[test]
    fn all_leave_in_order_and_what_there_is_no_room_for_is_lost() {
        let mut waiting = Waiting::new(600);
        let mut batch = TxBatch::with_limit(400);
        let route = Route::new("192.0.2.1:9".parse().unwrap(), ConnectionId(1));
        (0..400).for_each(|k| batch.push(FlowId(1), route, &[7], ByteRange::at(k, 1), 0));
        batch.transmits().for_each(|transmit| waiting.push(&batch, &transmit));
        batch.transmits().for_each(|transmit| waiting.push(&batch, &transmit));
        let mut left = Vec::new();
        while let Some(first) = waiting.first() {
            left.extend(first.transmits().flat_map(|transmit| transmit.datagrams.iter().map(|d| d.body.start)));
            waiting.pop();
        }
        assert!(left.iter().copied().eq((0..400).chain(0..200)));
        assert!(waiting.is_empty() && waiting.datagrams == 0);
    }

    #[test]
    fn more_may_wait_for_whom_much_has_left() {
        let mut waiting = Waiting::new(20_000);
        let mut batch = TxBatch::with_limit(256);
        let route = Route::new("192.0.2.1:9".parse().unwrap(), ConnectionId(1));
        (0..256).for_each(|k| batch.push(FlowId(1), route, &[7], ByteRange::at(k, 1), 0));
        let fill = |waiting: &mut Waiting| {
            (0..100).for_each(|_| batch.transmits().for_each(|transmit| waiting.push(&batch, &transmit)));
            waiting.datagrams
        };
        assert_eq!(fill(&mut waiting), FIRST_MAX);
        waiting.pop();
        assert_eq!(fill(&mut waiting), FIRST_MAX + EARNED * 256);
        (0..10).for_each(|_| waiting.pop());
        assert_eq!(fill(&mut waiting), 20_000);
    }
}
