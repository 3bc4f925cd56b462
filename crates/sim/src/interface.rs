//! Programs' packets waiting at their host's interface. The space is finite, like a socket's send buffer: a program
//! that has filled it waits, and loses nothing.

use std::collections::VecDeque;

use inhaul_base::{Span, Time};

use crate::network::{Network, Waiting};

/// Where the interface does not transmit, it is looked at again so soon.
const LOOK_AGAIN: Span = Span::from_millis(10);

/// The send buffer of an endpoint.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    limit: u64,
    waiting: VecDeque<Waiting>,
    bytes: u64,
    /// It was full, and is not half empty yet: a program is woken then, as by Linux.
    full: bool,
}

impl SendBuffer {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, waiting: VecDeque::new(), bytes: 0, full: false }
    }

    /// A packet of this endpoint has entered its host's link.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.bytes += u64::from(waiting.bytes);
        self.waiting.push_back(waiting);
    }

    /// Bytes that the endpoint may send now.
    pub(crate) fn room(&mut self, now: Time, network: &mut Network) -> u64 {
        while let Some(first) = self.waiting.front()
            && first.entered <= network.left(now, first.link)
        {
            self.bytes -= u64::from(first.bytes);
            self.waiting.pop_front();
        }
        self.full = self.bytes >= self.limit || (self.full && self.bytes > self.limit / 2);
        if self.full { 0 } else { self.limit - self.bytes }
    }

    /// When the endpoint may send again, if the interface goes on at its rate.
    pub(crate) fn writable(&self, now: Time, network: &mut Network) -> Time {
        let mut more = self.bytes.saturating_sub(self.limit / 2);
        let last = self.waiting.iter().find(|waiting| {
            more = more.saturating_sub(u64::from(waiting.bytes));
            more == 0
        });
        let Some(last) = last else { return now };
        let ahead = last.entered.saturating_sub(network.left(now, last.link));
        match network.lines[last.link as usize].link.rate() {
            Some(rate) => now + rate.time_for(ahead).max(Span::from_nanos(1)),
            None => now + LOOK_AGAIN,
        }
    }

    /// Bytes of memory, beside the buffer itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Waiting>()
    }
}
