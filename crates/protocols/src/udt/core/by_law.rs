//! A TCP congestion control law in place of UDT's own, as in UDT's configurable congestion control.
//!
//! Its input is limited to UDT's measurements: ACKs are cumulative, and the receiver measures the round-trip time. So a
//! law sees no rate of delivery, and BBR cannot work here.

use inhaul_base::{Bitrate, Span};
use inhaul_transport::{AckSample, Law, LossSample, Pace};

use super::samples::{ControlLimits, Nak, Progress};
use inhaul_base::Time;

/// A clocked window is spread over a round trip at this multiple of the even rate, as Linux paces.
const SLOW_START_GAIN: f64 = 2.0;
const AVOIDANCE_GAIN: f64 = 1.2;

/// A law, and where its round trips and repairs end.
pub struct ByLaw {
    law: Box<dyn Law + Send>,
    rtt: Span,
    packet_bytes: u64,
    /// A round trip ends when packets before this one are acknowledged.
    round_end: u64,
    /// A repair ends when packets before this one are.
    repair_end: Option<u64>,
}

impl ByLaw {
    pub(super) fn new(law: Box<dyn Law + Send>) -> Self {
        Self { law, rtt: Span::ZERO, packet_bytes: 0, round_end: 0, repair_end: None }
    }

    pub(super) fn on_ack(&mut self, progress: &Progress) {
        let &Progress { now, first, rtt, packet_bytes, .. } = progress;
        if progress.full {
            (self.rtt, self.packet_bytes) = (rtt, packet_bytes);
        }
        if progress.delivered == 0 {
            return;
        }
        let round_began = first > self.round_end;
        if round_began {
            self.round_end = progress.next;
        }
        let held = self.repair_end.is_some();
        if self.repair_end.is_some_and(|end| first >= end) {
            self.repair_end = None;
            self.law.on_recovered(now);
        }
        self.law.on_ack(&AckSample {
            now,
            delivered_packets: progress.delivered,
            in_flight: progress.in_flight,
            packet_bytes,
            rtt: progress.full.then_some(rtt),
            smoothed_rtt: rtt,
            round_began,
            window_limited: progress.held_back,
            held,
            paced: true,
            ..AckSample::default()
        });
    }

    /// One loss is reported for all packets in flight when it was found.
    pub(super) fn on_nak(&mut self, nak: &Nak) {
        if self.repair_end.is_none() {
            self.law.on_loss(&LossSample { now: nak.now, in_flight: nak.in_flight });
            self.repair_end = Some(nak.next);
        }
    }

    pub(super) fn on_expired(&mut self, nak: &Nak, repeated: bool) {
        self.law.on_timeout(&LossSample { now: nak.now, in_flight: nak.in_flight }, repeated);
        self.repair_end = Some(nak.next);
    }

    pub(super) fn limits(&self) -> ControlLimits {
        let limits = self.law.limits();
        let window = limits.window_packets.max(1);
        let gain = if self.law.in_slow_start() { SLOW_START_GAIN } else { AVOIDANCE_GAIN };
        let even = self.rtt.as_nanos() as f64 / window as f64;
        let period_nanos = match limits.pace {
            Pace::Rate(rate) if rate > Bitrate::ZERO => (self.packet_bytes * 8) as f64 * 1e9 / rate.as_f64(),
            // Sending a block at a time is as even as UDT's pairs and light ACKs allow.
            Pace::Unpaced | Pace::Rate(_) | Pace::Blocks(_) => even / gain,
        };
        ControlLimits { window, period_nanos, frozen_until: Time::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{LawConfig, LawName};

    fn reno() -> ByLaw {
        let config = LawConfig {
            initial_window: 10,
            window_max: 1_000,
            fair_factor: 10.0,
            block_pacing: true,
            hystart: true,
            halves_slow_start: false,
            seed: 1,
        };
        ByLaw::new(LawName::Reno.build(&config))
    }

    fn progress(first: u64, delivered: u64) -> Progress {
        Progress {
            now: Time::ZERO,
            full: true,
            delivered,
            first,
            next: first + 10,
            in_flight: 10,
            rtt: Span::from_millis(100),
            arrival_speed: 0.0,
            speed_said: 0.0,
            capacity: 0.0,
            packet_bytes: 1500,
            held_back: true,
        }
    }

    #[test]
    fn one_loss_is_told_of_for_each_repair() {
        let mut law = reno();
        law.on_ack(&progress(10, 10));
        assert_eq!(law.limits().window, 20, "slow start");
        assert_eq!(law.limits().period_nanos, 1e8 / 20.0 / SLOW_START_GAIN);
        let nak = |first_lost, next| Nak {
            now: Time::ZERO,
            first_lost,
            packets: 1,
            next,
            in_flight: 20,
            rtt: Span::from_millis(100),
            arrival_speed: 0.0,
        };
        (0..5).for_each(|k| law.on_nak(&nak(11 + k, 30)));
        assert_eq!(law.limits().window, 10);
        assert_eq!(law.limits().period_nanos, 1e8 / 10.0 / AVOIDANCE_GAIN);
        law.on_ack(&progress(30, 20));
        law.on_nak(&nak(31, 40));
        assert_eq!(law.limits().window, 5);
    }
}
