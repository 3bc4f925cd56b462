//! The round-trip time as UDT 4 smooths it.

use inhaul_base::Span;

/// Assumption before any measurement (UDT 4: ten SYN, and half of that).
const START: Span = Span::from_millis(100);

/// Smoothed round-trip time and its variation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    pub(super) smoothed: Span,
    pub(super) variation: Span,
}

impl Rtt {
    /// Begins with the measurement of a handshake, if there is one.
    pub(super) fn new(known: Option<Span>) -> Self {
        let smoothed = known.unwrap_or(START);
        Self { smoothed, variation: smoothed / 2 }
    }

    pub(super) fn sample(&mut self, rtt: Span) {
        let off = Span::from_nanos(self.smoothed.as_nanos().abs_diff(rtt.as_nanos()));
        self.variation = (self.variation * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + rtt) / 8;
    }

    /// How long an answer may take: RTT + 4 RTTVar.
    pub(super) fn patience(&self) -> Span {
        self.smoothed + self.variation * 4
    }
}
