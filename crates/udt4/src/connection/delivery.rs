//! How fast packets were delivered, as ACKs show it: a check on the arrival speed that the peer tells.
//!
//! libudt times arrivals in whole microseconds, when its thread gets to see them. Above some 100,000 packets a second
//! it tells 500,000 or 1,000,000, whatever it takes in. UDT makes its window of that, and of an RTT that grows with
//! what waits at the receiver. The window then exceeds the receiver's socket buffer, and thousands of packets are lost
//! at a time. libudt's own sender is seldom fast enough to see it.

use inhaul_base::{Span, Time};
use inhaul_protocols::udt::core::SYN;

/// A rate is measured over this time at least. ACKs come each SYN.
const MEASURED_OVER: Span = Span::from_nanos(SYN.as_nanos() * 2);
/// The highest rate counts of the last one to two times this.
const RATE_KEPT: Span = Span::from_millis(500);
/// The lowest RTT counts of the last one to two times this: the path may have become longer.
const RTT_KEPT: Span = Span::from_secs(5);
/// The peer may tell of so much more than was delivered.
const MORE: f64 = 1.25;

/// The best of the last one to two spans.
#[derive(Clone, Copy, Debug)]
struct Best {
    since: Time,
    now: Option<f64>,
    before: Option<f64>,
}

impl Best {
    const NONE: Self = Self { since: Time::ZERO, now: None, before: None };

    fn add(&mut self, at: Time, kept: Span, sample: f64, better: fn(f64, f64) -> f64) {
        if at >= self.since + kept {
            let before = if at >= self.since + kept * 2 { None } else { self.now };
            *self = Self { since: at, now: None, before };
        }
        self.now = Some(self.now.map_or(sample, |best| better(best, sample)));
    }

    fn get(&self, better: fn(f64, f64) -> f64) -> Option<f64> {
        [self.now, self.before].into_iter().flatten().reduce(better)
    }
}

/// What ACKs have shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// When the measurement began, and with which packet.
    since: Option<(Time, u64)>,
    /// Packets a second.
    rate: Best,
    /// Seconds.
    rtt: Best,
}

impl Delivery {
    pub(super) const NONE: Self = Self { since: None, rate: Best::NONE, rtt: Best::NONE };

    /// A full ACK came: packets before `next` have arrived, and the peer tells of `rtt`.
    pub(super) fn on_ack(&mut self, at: Time, next: u64, rtt: Span) {
        self.rtt.add(at, RTT_KEPT, rtt.as_secs_f64(), f64::min);
        let (since, first) = *self.since.get_or_insert((at, next));
        let span = at.since(since);
        if span >= MEASURED_OVER && next > first {
            self.rate.add(at, RATE_KEPT, (next - first) as f64 / span.as_secs_f64(), f64::max);
            self.since = Some((at, next));
        }
    }

    /// The arrival speed to believe if the peer tells of `told`, in packets a second, with this RTT. With it, a window
    /// of (RTT + SYN) is no more than what arrives in the least RTT and a SYN, and a quarter.
    pub(super) fn believed(&self, told: u32, rtt: Span) -> u32 {
        let (Some(rate), Some(least)) = (self.rate.get(f64::max), self.rtt.get(f64::min)) else { return told };
        let syn = SYN.as_secs_f64();
        // On a path whose RTT is long beside a SYN, the RTT says little of what waits at the receiver.
        let rtt = if least < syn { rtt.as_secs_f64() } else { least };
        told.min((rate * MORE * (least + syn) / (rtt + syn)).max(1.0) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(1);

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// ACKs each SYN until `until`, of 1,000 packets each.
    fn acknowledged(delivery: &mut Delivery, from: u64, until: u64) {
        (from / 10..until / 10).for_each(|k| delivery.on_ack(at(k * 10), k * 1_000, RTT));
    }

    #[test]
    fn a_peer_is_believed_until_acks_show_otherwise() {
        let mut delivery = Delivery::NONE;
        assert_eq!(delivery.believed(1_000_000, RTT), 1_000_000);
        acknowledged(&mut delivery, 0, 100);
        assert_eq!(delivery.believed(1_000_000, RTT), 125_000);
        assert_eq!(delivery.believed(90_000, RTT), 90_000);
        assert_eq!(delivery.believed(0, RTT), 0, "not known");
        // The window stays the same if packets wait at the receiver.
        assert_eq!(delivery.believed(1_000_000, Span::from_millis(12)), 62_500);
    }

    #[test]
    fn a_pause_and_a_longer_path_are_forgotten() {
        let mut delivery = Delivery::NONE;
        acknowledged(&mut delivery, 0, 400);
        delivery.on_ack(at(900), 40_010, RTT);
        assert_eq!(delivery.believed(1_000_000, RTT), 125_000, "the highest of the last second");
        (0..1_000).for_each(|k| delivery.on_ack(at(1_000 + k * 20), 41_000 + k * 1_000, RTT * 50));
        assert_eq!(delivery.believed(1_000_000, RTT * 50), 62_500);
    }
}
