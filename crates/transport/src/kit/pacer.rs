//! Pacing: bytes leave at a rate, in bursts of bounded size, exactly on average.
//!
//! After a late wake-up, the missed bytes leave at 5/4 of the rate.

use inhaul_base::{Bitrate, Span, Time};

/// Credit is counted in units of bit x nanosecond/second, so that no rate and no gap is ever rounded.
const UNITS_PER_BYTE: i128 = 8 * 1_000_000_000;

/// A bucket of credit that fills at a rate up to a bound.
#[derive(Clone, Debug)]
struct Bucket {
    rate: Bitrate,
    bound_bytes: u64,
    credit: i128,
    at: Time,
}

impl Bucket {
    fn full(now: Time, rate: Bitrate, bound_bytes: u64) -> Self {
        Self { rate, bound_bytes, credit: i128::from(bound_bytes) * UNITS_PER_BYTE, at: now }
    }

    fn fill(&mut self, now: Time) {
        let gained = i128::from(now.since(self.at).as_nanos()).saturating_mul(i128::from(self.rate.bps()));
        let bound = i128::from(self.bound_bytes) * UNITS_PER_BYTE;
        self.credit = self.credit.saturating_add(gained).min(bound);
        self.at = self.at.max(now);
    }

    fn set(&mut self, now: Time, rate: Bitrate, bound_bytes: u64) {
        self.fill(now);
        self.rate = rate;
        self.bound_bytes = bound_bytes;
        self.fill(now);
    }

    fn bytes(&self) -> u64 {
        quotient(self.credit.max(0), UNITS_PER_BYTE)
    }

    fn due(&self, bytes: u64) -> Time {
        let wanted = i128::from(bytes.min(self.bound_bytes)) * UNITS_PER_BYTE - self.credit;
        if wanted <= 0 {
            return self.at;
        }
        if self.rate == Bitrate::ZERO {
            return Time::FAR_FUTURE;
        }
        let rate = i128::from(self.rate.bps());
        self.at + Span::from_nanos(quotient(wanted + rate - 1, rate))
    }
}

/// The quotient of a dividend that is not negative and a divisor that is above zero; the largest number if it is
/// larger. To divide 64 bits is many times faster than to divide 128, and they are enough for nearly all.
fn quotient(dividend: i128, divisor: i128) -> u64 {
    match (u64::try_from(dividend), u64::try_from(divisor)) {
        (Ok(dividend), Ok(divisor)) => dividend / divisor,
        _ => u64::try_from(dividend / divisor).unwrap_or(u64::MAX),
    }
}

/// How much above its rate a pacer that is behind may go.
const OVERSPEED: f64 = 1.25;

/// Lets bytes leave at a rate, in bursts of bounded size.
///
/// Two token buckets. The first fills at the rate and keeps the credit of a late wake-up, up to a bound in time, so
/// that the average is exact at every rate. The second fills at 5/4 of the rate and holds one burst, so that kept
/// credit leaves a little faster than the rate and not as one large burst.
#[derive(Clone, Debug)]
pub struct Pacer {
    average: Bucket,
    burst: Bucket,
    kept: Span,
}

impl Pacer {
    /// A pacer that lets `burst_bytes` leave at once from the start, and makes up for wake-ups that are late by up to
    /// `kept` in all.
    pub fn new(now: Time, rate: Bitrate, burst_bytes: u64, kept: Span) -> Self {
        let mut pacer =
            Self { average: Bucket::full(now, rate, burst_bytes), burst: Bucket::full(now, rate, burst_bytes), kept };
        pacer.set(now, rate, burst_bytes);
        pacer
    }

    /// Changes the rate and the burst bound from `now` on. Credit earned at the old rate stays.
    pub fn set(&mut self, now: Time, rate: Bitrate, burst_bytes: u64) {
        self.average.set(now, rate, burst_bytes.saturating_add(rate.bytes_in(self.kept)));
        self.burst.set(now, rate.mul_f64(OVERSPEED), burst_bytes);
    }

    /// Empties the buckets: all credit is dropped.
    pub fn empty(&mut self, now: Time) {
        for bucket in [&mut self.average, &mut self.burst] {
            bucket.fill(now);
            bucket.credit = bucket.credit.min(0);
        }
    }

    /// There was no data to send until `now`: at most a burst of the unused credit is kept.
    pub fn rest(&mut self, now: Time) {
        self.average.fill(now);
        self.average.credit = self.average.credit.min(i128::from(self.burst.bound_bytes) * UNITS_PER_BYTE);
    }

    /// The rate in force.
    pub fn rate(&self) -> Bitrate {
        self.average.rate
    }

    /// How many bytes may leave at `now`.
    pub fn allowance(&mut self, now: Time) -> u64 {
        self.average.fill(now);
        self.burst.fill(now);
        self.average.bytes().min(self.burst.bytes())
    }

    /// `bytes` have left. More than was allowed puts the pacer in debt, which delays what follows.
    pub fn spend(&mut self, bytes: u64) {
        let units = i128::from(bytes) * UNITS_PER_BYTE;
        self.average.credit -= units;
        self.burst.credit -= units;
    }

    /// The earliest time at which `bytes` may leave (at most the burst bound is ever waited for).
    pub fn due(&self, bytes: u64) -> Time {
        self.average.due(bytes.min(self.burst.bound_bytes)).max(self.burst.due(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::RandomStream;
    use proptest::prelude::*;

    const KEPT: Span = Span::from_millis(10);

    /// Sends packets of `packet` bytes whenever allowed, woken up to `late` too late each time; returns the rate over
    /// `span`.
    fn achieved(rate: Bitrate, packet: u64, burst: u64, late: Span, span: Span, seed: u64) -> f64 {
        let mut lateness = RandomStream::new(seed, 0);
        let mut now = Time::ZERO;
        let mut pacer = Pacer::new(now, rate, burst, KEPT);
        pacer.empty(now);
        let mut sent = 0;
        while now < Time::ZERO + span {
            while pacer.allowance(now) >= packet {
                pacer.spend(packet);
                sent += packet;
            }
            now = pacer.due(packet).max(now) + lateness.span_below(late);
        }
        Bitrate::of(sent, now.since(Time::ZERO)).as_f64()
    }

    #[test]
    fn a_gap_that_is_no_whole_microsecond_is_exact() {
        // 1460 bytes at 1 Gbit/s are 11.68 us: a gap of whole microseconds would give 1.06 Gbit/s.
        let got = achieved(Bitrate::from_gbps(1), 1460, 1460, Span::ZERO, Span::from_secs(1), 1);
        // One packet more or less of the 85,616 is 1.2e-5.
        assert!((got / 1e9 - 1.0).abs() < 1.3e-5, "{got}");
    }

    proptest! {
        #[test]
        fn the_average_is_exact_though_wake_ups_are_late(mbps in 1..100_000u64, seed in 0..100u64) {
            let rate = Bitrate::from_mbps(mbps);
            // A burst must hold the credit earned, at 5/4 of the rate, while the program oversleeps.
            let late = Span::from_micros(50);
            let burst = rate.bytes_in(late * 2) + 3_000;
            let span = rate.time_for(1500 * 4_000);
            let got = achieved(rate, 1500, burst, late, span, seed);
            // 4,000 packets: one packet more or less is 0.025 %, one late wake-up at the end less than 50 us.
            let slack = 2.0 / 4_000.0 + 50e-6 / span.as_secs_f64();
            prop_assert!((got / rate.as_f64() - 1.0).abs() < slack, "{got} of {rate}");
        }

        #[test]
        fn never_more_than_five_fourths_of_the_rate_nor_more_than_was_earned(
            rate in 1_000..10_000_000_000u64, burst in 1_500..100_000u64, gaps in prop::collection::vec(0..10_000_000u64, 1..200),
        ) {
            let mut now = Time::ZERO;
            let rate = Bitrate::from_bps(rate);
            let mut pacer = Pacer::new(now, rate, burst, KEPT);
            let mut sent = 0u64;
            for gap in gaps {
                now += Span::from_nanos(gap);
                let allowed = pacer.allowance(now);
                prop_assert!(allowed <= burst);
                pacer.spend(allowed);
                sent += allowed;
                let passed = now.since(Time::ZERO);
                prop_assert!(sent <= burst + rate.mul_f64(OVERSPEED).bytes_in(passed) + 1);
                prop_assert!(sent <= burst + rate.bytes_in(passed) + 1);
            }
        }
    }

    #[test]
    fn what_a_late_wake_up_left_over_leaves_little_by_little() {
        // 4 ms late at 1 Gbit/s: 500 kB. 15 kB of it may leave at once; the rest at 1.25 Gbit/s.
        let mut pacer = Pacer::new(Time::ZERO, Bitrate::from_gbps(1), 15_000, KEPT);
        pacer.empty(Time::ZERO);
        let woken = Time::ZERO + Span::from_millis(4);
        assert_eq!(pacer.allowance(woken), 15_000);
        pacer.spend(15_000);
        assert_eq!(pacer.due(15_000), woken + Span::from_micros(96));
    }

    #[test]
    fn rest_keeps_a_burst_and_no_more() {
        let mut pacer = Pacer::new(Time::ZERO, Bitrate::from_gbps(1), 15_000, KEPT);
        let later = Time::ZERO + Span::from_millis(7);
        pacer.rest(later);
        pacer.spend(pacer.clone().allowance(later));
        assert_eq!(pacer.due(15_000), later + Span::from_micros(120));
    }

    #[test]
    fn due_names_the_first_moment_that_allows() {
        let mut pacer = Pacer::new(Time::ZERO, Bitrate::from_mbps(7), 3_000, Span::ZERO);
        pacer.spend(3_000);
        let due = pacer.due(1500);
        assert!(pacer.clone().allowance(due - Span::from_nanos(1)) < 1500);
        assert!(pacer.allowance(due) >= 1500);
        pacer.set(due, Bitrate::ZERO, 3_000);
        assert_eq!(pacer.due(3_000), Time::FAR_FUTURE);
    }
}
