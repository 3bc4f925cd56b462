//! A rate that is not exceeded: one set by a law, or by a user.

use inhaul_base::{Bitrate, Span, Time};

use super::Pacer;

/// Most packets that leave back to back when a rate is kept, beyond the credit of [`BURST_SPAN`].
const BURST_PACKETS: u64 = 2;
/// The credit of this time may leave at once: timers of hosts are not finer.
const BURST_SPAN: Span = Span::from_micros(250);

/// A pacer whose bursts have room for a packet of any size.
#[derive(Clone, Debug)]
pub struct RatePacer {
    pacer: Pacer,
    packet: u64,
    /// The credit of this time may leave at once.
    span: Span,
}

impl RatePacer {
    /// Keeps `rate` with packets of `packet` bytes, and makes up for wake-ups that are late by up to `kept`.
    pub fn new(now: Time, rate: Bitrate, packet: u64, kept: Span) -> Self {
        Self::in_bursts(now, rate, packet, kept, BURST_SPAN)
    }

    /// The same; the credit of `span` may leave at once.
    pub fn in_bursts(now: Time, rate: Bitrate, packet: u64, kept: Span, span: Span) -> Self {
        Self { pacer: Pacer::new(now, rate, burst(rate, packet, span), kept), packet, span }
    }

    /// Changes the rate, or the size of packets.
    pub fn set(&mut self, now: Time, rate: Bitrate, packet: u64) {
        if self.pacer.rate() != rate || self.packet != packet {
            self.pacer.set(now, rate, burst(rate, packet, self.span));
            self.packet = packet;
        }
    }

    /// Whether a packet of `packet` bytes may leave.
    pub fn allows(&mut self, now: Time, packet: u64) -> bool {
        self.pacer.allowance(now) >= packet
    }

    /// A packet of `packet` bytes left.
    pub fn spend(&mut self, packet: u64) {
        self.pacer.spend(packet);
    }

    /// There was no data to send until `now`: the unused credit is dropped.
    pub fn rest(&mut self, now: Time) {
        self.pacer.rest(now);
    }

    /// When a packet of `packet` bytes may leave.
    pub fn due(&self, packet: u64) -> Time {
        self.pacer.due(packet)
    }
}

fn burst(rate: Bitrate, packet: u64, span: Span) -> u64 {
    BURST_PACKETS * packet + rate.bytes_in(span)
}

/// What late wake-ups left over of a user's limit is kept for so long: a hundredth of a second's worth.
const LATENESS_KEPT: Span = Span::from_millis(10);

/// A user's limit: on all flows of a host together (R_send), or on one as its receiver tells it (from C_r and R_app).
#[derive(Clone, Debug, Default)]
pub struct RateLimit(Option<RatePacer>);

impl RateLimit {
    /// Limits to `rate` from now on; `None`: to nothing.
    pub fn set(&mut self, now: Time, rate: Option<Bitrate>) {
        match (rate, &mut self.0) {
            (None, limit) => *limit = None,
            (Some(rate), Some(pacer)) => pacer.set(now, rate, pacer.packet),
            (Some(rate), limit) => *limit = Some(RatePacer::new(now, rate, 0, LATENESS_KEPT)),
        }
    }

    /// The limit, if there is one.
    pub fn rate(&self) -> Option<Bitrate> {
        self.0.as_ref().map(|pacer| pacer.pacer.rate())
    }

    /// There was no data to send until `now`: see [`RatePacer::rest`].
    pub fn rest(&mut self, now: Time) {
        if let Some(pacer) = &mut self.0 {
            pacer.rest(now);
        }
    }

    /// When a packet of `packet` bytes may leave, if that is not now.
    pub fn delays(&mut self, now: Time, packet: u64) -> Option<Time> {
        let pacer = self.0.as_mut()?;
        if packet > pacer.packet {
            pacer.set(now, pacer.pacer.rate(), packet);
        }
        (!pacer.allows(now, packet)).then(|| pacer.due(packet))
    }

    /// Bytes that may leave now.
    pub fn allowance(&mut self, now: Time) -> u64 {
        self.0.as_mut().map_or(u64::MAX, |pacer| pacer.pacer.allowance(now))
    }

    /// A packet of `packet` bytes left.
    pub fn spend(&mut self, packet: u64) {
        if let Some(pacer) = &mut self.0 {
            pacer.spend(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that leave in the ten milliseconds from `from` on, with a wake-up whenever a packet is due.
    fn sent(limit: &mut RateLimit, from: Time, packet: u64) -> u64 {
        let (mut now, mut bytes) = (from, 0);
        while now < from + Span::from_millis(10) && bytes < 1_000_000 {
            match limit.delays(now, packet) {
                Some(due) => now = due,
                None => {
                    limit.spend(packet);
                    bytes += packet;
                }
            }
        }
        bytes
    }

    #[test]
    fn delays_keeps_the_rate_and_lets_a_packet_of_any_size_leave() {
        let mut limit = RateLimit::default();
        assert_eq!(sent(&mut limit, Time::ZERO, 1_500), 1_000_500, "no limit");
        // 100 Mbit/s are 125,000 bytes in 10 ms; the first burst is two packets and 250 us' worth.
        limit.set(Time::ZERO, Some(Bitrate::from_mbps(100)));
        let first = sent(&mut limit, Time::ZERO, 1_500);
        assert!((125_000..=125_000 + 3_000 + 3_125 + 1_500).contains(&first), "{first}");
        let at = Time::ZERO + Span::from_millis(10);
        let second = sent(&mut limit, at, 1_500);
        assert!((123_500..=126_500).contains(&second), "{second}");
        // 10 kbit/s: a packet of 9,000 bytes takes 7.2 s, and still leaves.
        let at = at + Span::from_millis(10);
        limit.set(at, Some(Bitrate::from_bps(10_000)));
        let due = limit.delays(at + Span::from_secs(1), 9_000);
        assert!(due.is_some_and(|due| due > at && due <= at + Span::from_millis(7_300)), "{due:?}");
        assert_eq!(limit.delays(at + Span::from_millis(7_300), 9_000), None);
        limit.set(at, None);
        assert_eq!((limit.rate(), limit.delays(at, 9_000)), (None, None));
    }
}
