//! How much is going on.

use inhaul_base::{Span, Time};

/// More datagrams than this in such a time are fast: about 10 Gbit/s at an MTU of 1500.
const FAST_DATAGRAMS: u64 = 850;
const PULSE_WINDOW: Span = Span::from_millis(1);
/// So long after the last datagram it is still worth looking instead of sleeping.
const LOOK: Span = Span::from_micros(50);

/// How much is going on: above about 10 Gbit/s the loop looks again at once instead of sleeping for a moment, because
/// being woken costs the peer and itself more than looking.
#[derive(Default)]
pub(super) struct Pulse {
    since: Time,
    datagrams: usize,
    fast: bool,
    last: Time,
    sent: u64,
}

impl Pulse {
    pub(super) fn count(&mut self, now: Time, datagrams: usize) {
        let span = now.since(self.since);
        if span >= PULSE_WINDOW {
            self.fast = self.datagrams as u64 * PULSE_WINDOW.as_nanos() > FAST_DATAGRAMS * span.as_nanos();
            (self.since, self.datagrams) = (now, 0);
        }
        self.datagrams += datagrams;
        self.last = now;
    }

    /// So many datagrams were sent.
    pub(super) fn count_sent(&mut self, now: Time, datagrams: usize) {
        self.sent += datagrams as u64;
        self.count(now, datagrams);
    }

    /// Datagrams that were sent since the start.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn is_fast(&self, now: Time) -> bool {
        self.fast && now.since(self.last) < LOOK
    }
}
