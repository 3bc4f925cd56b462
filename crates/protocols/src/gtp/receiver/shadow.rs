//! What one TCP flow in a flow's place would have on its way (PROTOCOL.md 7.7).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::AckSample;

use crate::laws::{Avoidance, Cubic};

/// Losses within so many RTT of a cut are of the same congestion.
const SAME_EVENT_RTTS: f64 = 1.5;
/// RFC 5681: no window is cut below this many packets.
const WINDOW_MIN: f64 = 2.0;
/// A window that was used up to this part bounds what comes; one that was not proves nothing, and does not grow.
const USED_PART: f64 = 0.7;

/// A TCP flow's window, ruled by CUBIC (RFC 9438): fed at the receiver, by what came and what was lost.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    law: Cubic,
    /// Packets that the whole TCP flow would have on their way.
    window: f64,
    /// As many TCP flows this flow stands for.
    pub(super) weight: f64,
    /// What the flow had received and lost when this was fed last, in packets.
    fed: (u64, u64),
    fed_at: Time,
    /// Losses before this belong to the last cut.
    deaf_until: Time,
}

impl Shadow {
    /// A window of so many packets, of a flow that has received and lost so many.
    pub(super) fn new(now: Time, window: f64, weight: f64, seen: (u64, u64)) -> Self {
        Self {
            law: Cubic::new(false),
            window: (window / weight).max(WINDOW_MIN),
            weight,
            fed: seen,
            fed_at: now,
            deaf_until: Time::ZERO,
        }
    }

    /// Packets that may be on their way.
    pub(super) fn window(&self) -> f64 {
        self.window * self.weight
    }

    /// The rate at which the window leaves in packets of `packet` bytes and with an RTT of `rtt`.
    pub(super) fn rate(&self, packet: u64, rtt: Span) -> Bitrate {
        Bitrate::from_f64(self.window() * packet as f64 * 8.0 / rtt.as_secs_f64().max(1e-6))
    }

    /// The flow has received and lost so many packets by now, and its RTT is `rtt`; a loss shows after `reorder` more.
    /// `pulsed`: less is asked for than the window. True if the window was cut.
    pub(super) fn feed(&mut self, now: Time, seen: (u64, u64), rtt: Span, reorder: Span, pulsed: bool) -> bool {
        let came = seen.0.saturating_sub(self.fed.0);
        let lost = seen.1.saturating_sub(self.fed.1);
        let passed = now.since(self.fed_at);
        (self.fed, self.fed_at) = (seen, now);
        if lost > 0 && now >= self.deaf_until {
            self.cut(now, rtt, reorder);
            return true;
        }
        if came == 0 || lost > 0 {
            return false;
        }
        let could = self.window() * passed.as_secs_f64() / rtt.as_secs_f64().max(1e-6);
        if pulsed || (came as f64) < could * USED_PART {
            self.law.on_unused(now);
            return false;
        }
        // A whole TCP flow would have had as much more as its window is larger.
        let delivered = (came as f64 / self.weight) as u64;
        let ack = AckSample {
            now,
            delivered_packets: delivered.max(1),
            smoothed_rtt: rtt,
            window_limited: true,
            ..AckSample::default()
        };
        self.window = self.law.grow(self.window, &ack);
        false
    }

    /// Congestion, here or where flows of the same data set saw it.
    pub(super) fn cut(&mut self, now: Time, rtt: Span, reorder: Span) {
        if now < self.deaf_until {
            return;
        }
        self.window = self.law.reduce(now, self.window).max(WINDOW_MIN);
        self.deaf_until = now + rtt.mul_f64(SAME_EVENT_RTTS) + reorder;
    }

    /// At most so many packets.
    pub(super) fn bound(&mut self, packets: f64) {
        self.window = self.window.min((packets / self.weight).max(WINDOW_MIN));
    }
}
