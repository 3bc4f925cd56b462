//! The window of one TCP flow in a flow's place (PROTOCOL.md 7.7).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::AckSample;

use crate::gtp::monitor::Loss;
use crate::laws::{Avoidance, Cubic};

/// Losses within this many RTTs of a cut belong to the same congestion.
const SAME_EVENT_RTTS: f64 = 1.5;
/// RFC 5681: no window is cut below this many packets.
const WINDOW_MIN: f64 = 2.0;
/// A window used up to this part bounds the arrivals. A less used one proves nothing, and does not grow.
const USED_PART: f64 = 0.7;

/// A flow's arrivals and losses since the last time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fed {
    came: u64,
    pub(super) lost: u64,
    passed: Span,
}

impl Fed {
    /// Lost packets, and the total.
    pub(super) fn loss(&self) -> Loss {
        let packets = self.came + self.lost;
        Loss { ratio: self.lost as f64 / packets.max(1) as f64, packets }
    }
}

/// A TCP flow's window, ruled by CUBIC (RFC 9438): fed at the receiver with arrivals and losses.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    law: Cubic,
    /// Packets that the whole TCP flow would have on their way.
    window: f64,
    /// As many TCP flows this flow stands for, and its whole data set.
    weight: f64,
    worth: f64,
    /// The flow's received and lost packets at the last update.
    fed: (u64, u64),
    fed_at: Time,
    /// Losses before this belong to the last congestion.
    deaf_until: Time,
    /// Congestions that none of the TCP flows has been cut for.
    spared: f64,
}

impl Shadow {
    /// A window of `packets`, of a flow with these received and lost packets. It is this `part` of a data set that
    /// counts as `worth` TCP flows.
    pub(super) fn new(now: Time, window: f64, (part, worth): (f64, f64), seen: (u64, u64)) -> Self {
        let weight = part * worth;
        Self {
            law: Cubic::new(false),
            window: (window / weight).max(WINDOW_MIN),
            weight,
            worth,
            fed: seen,
            fed_at: now,
            deaf_until: Time::ZERO,
            spared: 0.0,
        }
    }

    /// Counts as `worth` TCP flows from now on, each with its present window.
    pub(super) fn set_worth(&mut self, worth: f64) {
        self.weight *= worth / self.worth;
        (self.worth, self.spared) = (worth, 0.0);
    }

    /// At most this many packets may be in flight now.
    pub(super) fn bound(&mut self, window: f64) {
        self.window = self.window.min(window / self.weight).max(WINDOW_MIN);
    }

    /// Packets that may be in flight.
    pub(super) fn window(&self) -> f64 {
        self.window * self.weight
    }

    /// The rate at which the window leaves in packets of `packet` bytes and with an RTT of `rtt`.
    pub(super) fn rate(&self, packet: u64, rtt: Span) -> Bitrate {
        Bitrate::from_f64(self.window() * packet as f64 * 8.0 / rtt.as_secs_f64().max(1e-6))
    }

    /// Arrivals since the last call, of a flow with these received and lost packets by now.
    pub(super) fn take(&mut self, now: Time, seen: (u64, u64)) -> Fed {
        let fed = Fed {
            came: seen.0.saturating_sub(self.fed.0),
            lost: seen.1.saturating_sub(self.fed.1),
            passed: now.since(self.fed_at),
        };
        (self.fed, self.fed_at) = (seen, now);
        fed
    }

    /// Grows, or is cut if some was `lost` for reasons of congestion. The RTT is `rtt`, and a loss shows after
    /// `reorder` more. `eased`: less is asked for than the window. True if it was cut.
    pub(super) fn feed(&mut self, now: Time, fed: Fed, lost: bool, rtt: Span, reorder: Span, eased: bool) -> bool {
        if lost {
            return self.cut(now, rtt, reorder);
        }
        let could = self.window() * fed.passed.as_secs_f64() / rtt.as_secs_f64().max(1e-6);
        if eased || (fed.came as f64) < could * USED_PART {
            self.law.on_unused(now);
        } else if fed.came > 0 {
            // A whole TCP flow would have had as much more as its window is larger.
            let delivered = ((fed.came as f64 / self.weight) as u64).max(1);
            let ack = AckSample { now, delivered_packets: delivered, smoothed_rtt: rtt, ..AckSample::default() };
            self.window = self.law.grow(self.window, &ack);
        }
        false
    }

    /// Congestion, here or where flows of the same data set saw it. True if it is another than the last.
    pub(super) fn cut(&mut self, now: Time, rtt: Span, reorder: Span) -> bool {
        if now < self.deaf_until {
            return false;
        }
        self.deaf_until = now + rtt.mul_f64(SAME_EVENT_RTTS) + reorder;
        // With several TCP flows, one loses at a time; here all are cut, but less often by the same factor.
        self.spared += 1.0;
        if self.spared < self.worth {
            return false;
        }
        self.spared = 0.0;
        self.window = self.law.reduce(now, self.window).max(WINDOW_MIN);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(50);
    const REORDER: Span = Span::from_millis(6);

    /// A flow whose window is used: an RTT after the other, `lost` packets in each.
    struct Drive {
        shadow: Shadow,
        now: Time,
        seen: (u64, u64),
    }

    impl Drive {
        fn new(window: f64, (part, worth): (f64, f64)) -> Self {
            let now = Time::ZERO + Span::from_secs(1);
            Self { shadow: Shadow::new(now, window, (part, worth), (0, 0)), now, seen: (0, 0) }
        }

        fn rtt(&mut self, lost: u64) -> bool {
            self.now += RTT;
            self.seen.0 += self.shadow.window() as u64;
            self.seen.1 += lost;
            let fed = self.shadow.take(self.now, self.seen);
            self.shadow.feed(self.now, fed, lost > 0, RTT, REORDER, false)
        }
    }

    #[test]
    fn losses_of_one_congestion_cut_once() {
        let mut drive = Drive::new(100.0, (1.0, 1.0));
        assert!(drive.rtt(10));
        assert_eq!(drive.shadow.window(), 70.0); // RFC 9438 section 4.6
        assert!(!drive.rtt(5), "packets in flight when it was cut");
        assert_eq!(drive.shadow.window(), 70.0);
        assert!(drive.rtt(1));
    }

    #[test]
    fn a_window_grows_as_cubics_while_it_is_used() {
        let mut drive = Drive::new(100.0, (1.0, 1.0));
        drive.rtt(1);
        // RFC 9438 section 4.3: 0.53 packets an RTT on so short a path, up to the old height, and one from there on.
        (0..50).for_each(|_| _ = drive.rtt(0));
        assert!((drive.shadow.window() / (70.0 + 50.0 * 0.53) - 1.0).abs() < 0.03, "{}", drive.shadow.window());
        (0..57).for_each(|_| _ = drive.rtt(0));
        assert!((drive.shadow.window() / 150.0 - 1.0).abs() < 0.03, "{}", drive.shadow.window());
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut drive = Drive::new(100.0, (1.0, 1.0));
        for _ in 0..200 {
            drive.now += RTT;
            drive.seen.0 += 10;
            let fed = drive.shadow.take(drive.now, drive.seen);
            drive.shadow.feed(drive.now, fed, false, RTT, REORDER, false);
        }
        assert_eq!(drive.shadow.window(), 100.0);
    }

    #[test]
    fn a_window_of_two_flows_is_cut_every_second_time() {
        // Whole, or one of two sources of a data set.
        for part in [1.0, 0.5] {
            let mut drive = Drive::new(200.0, (part, 2.0));
            assert!(!drive.rtt(1));
            assert!(drive.shadow.window() >= 200.0);
            assert!(!drive.rtt(1), "of the same congestion");
            assert!(drive.rtt(1));
            assert!(drive.shadow.window() < 145.0);
            assert!(!drive.rtt(0) && !drive.rtt(1), "spared again");
        }
    }

    #[test]
    fn a_window_that_is_worth_another_number_of_flows_changes_as_that_does() {
        let mut drive = Drive::new(200.0, (0.5, 2.0));
        drive.shadow.set_worth(1.0);
        assert_eq!(drive.shadow.window(), 100.0);
        assert!(drive.rtt(1), "one flow is cut by each congestion");
        drive.shadow.set_worth(2.0);
        assert_eq!(drive.shadow.window(), 140.0);
        assert!(!drive.rtt(0) && !drive.rtt(1), "spared");
    }

    #[test]
    fn flows_of_one_data_set_grow_together_as_one_tcp_flow() {
        let (mut whole, mut part) = (Drive::new(90.0, (1.0, 1.0)), Drive::new(30.0, (1.0 / 3.0, 1.0)));
        for k in 0..200 {
            whole.rtt(u64::from(k == 5));
            part.rtt(u64::from(k == 5));
        }
        let (whole, parts) = (whole.shadow.window(), 3.0 * part.shadow.window());
        assert!((parts / whole - 1.0).abs() < 0.05, "{parts} {whole}");
    }
}
