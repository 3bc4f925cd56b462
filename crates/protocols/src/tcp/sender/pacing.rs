//! Spreading a window over time, as its law wishes.

use inhaul_base::{Span, Time};
use inhaul_transport::Pace;

use super::rate_limit::RatePacer;

/// What late wake-ups left over is kept for so long.
const LATENESS_KEPT: Span = Span::from_millis(1);

/// What holds packets back beside the window.
#[derive(Clone, Debug)]
pub(super) enum Pacing {
    /// Nothing does.
    Unpaced,
    /// An even rate.
    Rate(RatePacer),
    /// Blocks.
    Blocks(BlockPacer),
}

impl Pacing {
    /// Takes over what the law wants, with round trips of `rtt` and packets of `packet` bytes.
    pub(super) fn set(&mut self, now: Time, pace: Pace, window: u64, rtt: Span, packet: u64) {
        match (pace, &mut *self) {
            (Pace::Unpaced, _) => *self = Self::Unpaced,
            (Pace::Rate(rate), Self::Rate(pacer)) => pacer.set(now, rate, packet),
            (Pace::Rate(rate), _) => *self = Self::Rate(RatePacer::new(now, rate, packet, LATENESS_KEPT)),
            (Pace::Blocks(blocks), Self::Blocks(pacer)) => pacer.set(blocks, window, rtt),
            (Pace::Blocks(blocks), _) => *self = Self::Blocks(BlockPacer::new(now, blocks, window, rtt)),
        }
    }

    /// Whether a packet of `packet` bytes may leave.
    pub(super) fn allows(&mut self, now: Time, packet: u64) -> bool {
        match self {
            Self::Unpaced => true,
            Self::Rate(pacer) => pacer.allows(now, packet),
            Self::Blocks(pacer) => pacer.allows(now),
        }
    }

    /// A packet of `packet` bytes left.
    pub(super) fn spend(&mut self, packet: u64) {
        match self {
            Self::Unpaced => {}
            Self::Rate(pacer) => pacer.spend(packet),
            Self::Blocks(pacer) => pacer.sent += 1,
        }
    }

    /// When the next packet may leave.
    pub(super) fn due(&self, packet: u64) -> Time {
        match self {
            Self::Unpaced => Time::ZERO,
            Self::Rate(pacer) => pacer.due(packet),
            Self::Blocks(pacer) => pacer.due(),
        }
    }

    /// Congestion: blocks are counted anew (fhstcp-2005 Figure 1).
    pub(super) fn on_congestion(&mut self) {
        if let Self::Blocks(pacer) = self {
            pacer.sent = 0;
        }
    }
}

/// Block pacing (fhstcp-2005 Figure 1): a window leaves as blocks, one each `RTT / k`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPacer {
    /// Packets of a block ("block").
    block: u64,
    /// From the beginning of one block to that of the next: RTT / k.
    gap: Span,
    /// Packets of this block that have left ("number").
    sent: u64,
    /// When this block began ("time_0").
    began: Time,
}

impl BlockPacer {
    fn new(now: Time, blocks: u64, window: u64, rtt: Span) -> Self {
        let mut pacer = Self { block: 1, gap: Span::ZERO, sent: 0, began: now };
        pacer.set(blocks, window, rtt);
        pacer
    }

    fn set(&mut self, blocks: u64, window: u64, rtt: Span) {
        // Figure 1: "if (k > cwnd) k = cwnd"
        let blocks = blocks.clamp(1, window.max(1));
        self.block = window.div_ceil(blocks).max(1);
        self.gap = rtt / blocks;
    }

    fn due(&self) -> Time {
        if self.sent < self.block { Time::ZERO } else { self.began + self.gap }
    }

    /// Whether a packet may leave: of this block, or the first of the next when its time has come.
    fn allows(&mut self, now: Time) -> bool {
        if self.sent >= self.block {
            if now < self.due() {
                return false;
            }
            self.sent = 0;
        }
        if self.sent == 0 {
            self.began = now;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn blocks_leave_a_part_of_the_rtt_apart() {
        // fhstcp-2005 Figure 1 with c = 10 and an RTT of 200 ms: k = 3 blocks, here of 10 packets.
        let mut pacing = Pacing::Unpaced;
        let mut left = Vec::new();
        for ms in 0..200 {
            pacing.set(at(ms), Pace::Blocks(3), 30, Span::from_millis(200), 1000);
            while left.len() < 30 && pacing.allows(at(ms), 1000) {
                pacing.spend(1000);
                left.push(ms);
            }
        }
        assert_eq!(left, [[0; 10], [67; 10], [134; 10]].concat());
    }

    #[test]
    fn blocks_begin_anew_at_congestion() {
        let mut pacing = Pacing::Unpaced;
        pacing.set(at(0), Pace::Blocks(2), 4, Span::from_millis(100), 1000);
        for _ in 0..2 {
            assert!(pacing.allows(at(1), 1000));
            pacing.spend(1000);
        }
        assert!(!pacing.allows(at(1), 1000));
        assert_eq!(pacing.due(1000), at(51));
        pacing.on_congestion();
        assert!(pacing.allows(at(1), 1000));
    }
}
