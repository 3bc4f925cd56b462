//! The delivery rate by ACKs, and the limit on packets in flight to a near peer.
//!
//! UDT finds a receiver's limit when packets are lost. A receiver on the same network that cannot keep up, libudt above
//! all, loses them from its socket buffer, thousands at a time, and libudt asks for each of them only once. libudt's
//! own sender is no faster than its receiver, so this is rare there. And libudt times arrivals in whole microseconds
//! when its thread processes them: above some 100,000 packets a second it reports 500,000 or 1,000,000, regardless of
//! the real rate.

use inhaul_base::{Span, Time};
use inhaul_protocols::udt::core::SYN;

/// A rate is measured over this time at least. ACKs come each SYN.
const MEASURED_OVER: Span = Span::from_nanos(SYN.as_nanos() * 2);
/// The highest rate counts of the last one to two times this.
const RATE_KEPT: Span = Span::from_millis(500);
/// The lowest round-trip time counts of the last one to two times this: the path may have become longer.
const RTT_KEPT: Span = Span::from_secs(5);
/// A rate may grow by this factor.
const MORE: f64 = 1.25;
/// A peer that is near may take so long to look at its socket.
const PEER_PAUSE: Span = Span::from_nanos(SYN.as_nanos() / 2);
/// Packets that may be in flight in any case.
const FLIGHT_MIN: u64 = 256;

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

/// Deliveries reported by ACKs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// When the measurement of the rate began, and with which packet.
    since: Option<(Time, u64)>,
    /// Packets a second.
    rate: Best,
    /// A packet, and when it was sent first: its ACK is waited for.
    probe: Option<(u64, Time)>,
    /// Seconds from a packet to its ACK.
    rtt: Best,
    /// Most packets that may be on their way.
    flight_max: u64,
}

impl Delivery {
    pub(super) const NONE: Self =
        Self { since: None, rate: Best::NONE, probe: None, rtt: Best::NONE, flight_max: u64::MAX };

    /// A packet was sent for the first time.
    pub(super) fn on_sent(&mut self, now: Time, number: u64) {
        self.probe.get_or_insert((number, now));
    }

    /// An ACK came, full or light: packets before `next` have arrived.
    pub(super) fn on_ack(&mut self, at: Time, next: u64) {
        if let Some((_, sent)) = self.probe.take_if(|(number, _)| *number < next) {
            self.rtt.add(at, RTT_KEPT, at.since(sent).as_secs_f64(), f64::min);
        }
        let (since, first) = *self.since.get_or_insert((at, next));
        let span = at.since(since);
        if span >= MEASURED_OVER && next > first {
            self.rate.add(at, RATE_KEPT, (next - first) as f64 / span.as_secs_f64(), f64::max);
            self.since = Some((at, next));
            self.flight_max = self.flight();
        }
    }

    fn flight(&self) -> u64 {
        match (self.rate.get(f64::max), self.rtt.get(f64::min)) {
            (Some(rate), Some(rtt)) if rtt < SYN.as_secs_f64() => {
                ((rate * MORE * (rtt + PEER_PAUSE.as_secs_f64())) as u64).max(FLIGHT_MIN)
            }
            // Far away, the network is the limit, and UDT's window finds it.
            _ => u64::MAX,
        }
    }

    /// Most packets that may be on their way.
    pub(super) const fn flight_max(&self) -> u64 {
        self.flight_max
    }

    /// The arrival speed to believe if the peer tells of `told`, in packets a second.
    pub(super) fn believed(&self, told: u32) -> u32 {
        self.rate.get(f64::max).map_or(told, |rate| told.min((rate * MORE) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    /// ACKs each SYN, each of 1,000 packets and `rtt` after the first of them left.
    fn acknowledged(delivery: &mut Delivery, from: u64, count: u64, rtt: u64) {
        for k in from..from + count {
            delivery.on_sent(at(k * 10_000 - rtt), k * 1_000 - 1_000);
            delivery.on_ack(at(k * 10_000), k * 1_000);
        }
    }

    #[test]
    fn a_peer_is_believed_until_acks_show_otherwise() {
        let mut delivery = Delivery::NONE;
        assert_eq!(delivery.believed(1_000_000), 1_000_000);
        acknowledged(&mut delivery, 1, 10, 1_000);
        assert_eq!([1_000_000, 90_000, 0].map(|told| delivery.believed(told)), [125_000, 90_000, 0]);
    }

    #[test]
    fn packets_on_their_way_to_a_near_peer_are_bounded_and_to_a_far_one_are_not() {
        let (mut near, mut far) = (Delivery::NONE, Delivery::NONE);
        assert_eq!(near.flight_max(), u64::MAX);
        acknowledged(&mut near, 1, 10, 1_000);
        assert_eq!(near.flight_max(), 750, "6 ms at 125,000 packets a second");
        acknowledged(&mut far, 3, 10, 20_000);
        assert_eq!(far.flight_max(), u64::MAX);
        // A path that has become longer.
        acknowledged(&mut near, 11, 1_100, 20_000);
        assert_eq!(near.flight_max(), u64::MAX);
    }

    #[test]
    fn a_pause_does_not_slow_down() {
        let mut delivery = Delivery::NONE;
        acknowledged(&mut delivery, 1, 40, 1_000);
        delivery.on_ack(at(900_000), 40_010);
        assert_eq!(delivery.believed(1_000_000), 125_000, "the highest of the last second");
    }
}
