//! Pacing: bytes leave at a rate, in bursts of bounded size, exactly on average.

use inhaul_base::{Bitrate, Span, Time};

/// Credit is counted in units of bit x nanosecond/second, so that no rate and no gap is ever rounded.
const UNITS_PER_BYTE: i128 = 8 * 1_000_000_000;

/// A token bucket that repays its debts: lateness of a wake-up is made up for (within the burst bound), so the average
/// rate is exact at every rate, with gaps that need not be whole microseconds.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Bitrate,
    burst_bytes: u64,
    credit: i128,
    at: Time,
}

impl Pacer {
    /// A pacer with a full bucket: `burst_bytes` may leave at once.
    pub fn new(now: Time, rate: Bitrate, burst_bytes: u64) -> Self {
        let mut pacer = Self { rate, burst_bytes, credit: 0, at: now };
        pacer.credit = pacer.full();
        pacer
    }

    fn full(&self) -> i128 {
        i128::from(self.burst_bytes) * UNITS_PER_BYTE
    }

    fn catch_up(&mut self, now: Time) {
        let gained = i128::from(now.since(self.at).as_nanos()).saturating_mul(i128::from(self.rate.bps()));
        self.credit = self.credit.saturating_add(gained).min(self.full());
        self.at = self.at.max(now);
    }

    /// Changes the rate and the burst bound from `now` on. What was earned at the old rate stays earned.
    pub fn set(&mut self, now: Time, rate: Bitrate, burst_bytes: u64) {
        self.catch_up(now);
        self.rate = rate;
        self.burst_bytes = burst_bytes;
        self.credit = self.credit.min(self.full());
    }

    /// Empties the bucket: nothing that was earned so far may leave as a burst.
    pub fn empty(&mut self, now: Time) {
        self.catch_up(now);
        self.credit = self.credit.min(0);
    }

    /// The rate in force.
    pub fn rate(&self) -> Bitrate {
        self.rate
    }

    /// How many bytes may leave at `now`.
    pub fn allowance(&mut self, now: Time) -> u64 {
        self.catch_up(now);
        u64::try_from(self.credit.max(0) / UNITS_PER_BYTE).unwrap_or(u64::MAX)
    }

    /// `bytes` have left. More than was allowed puts the pacer in debt, which delays what follows.
    pub fn spend(&mut self, bytes: u64) {
        self.credit -= i128::from(bytes) * UNITS_PER_BYTE;
    }

    /// The earliest time at which `bytes` may leave (at most the burst bound is ever waited for).
    pub fn due(&self, bytes: u64) -> Time {
        let wanted = i128::from(bytes.min(self.burst_bytes)) * UNITS_PER_BYTE - self.credit;
        if wanted <= 0 {
            return self.at;
        }
        if self.rate == Bitrate::ZERO {
            return Time::FAR_FUTURE;
        }
        let rate = i128::from(self.rate.bps());
        let nanos = (wanted + rate - 1) / rate;
        self.at + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::RandomStream;
    use proptest::prelude::*;

    /// Sends packets of `packet` bytes whenever allowed, woken `late` too late each time; returns the rate over `span`.
    fn achieved(rate: Bitrate, packet: u64, burst: u64, late: Span, span: Span, seed: u64) -> f64 {
        let mut lateness = RandomStream::new(seed, 0);
        let mut now = Time::ZERO;
        let mut pacer = Pacer::new(now, rate, burst);
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
            // The bucket must hold what is earned while the program oversleeps.
            let burst = rate.bytes_in(Span::from_micros(60)) + 3_000;
            let span = rate.time_for(1500 * 4_000);
            let got = achieved(rate, 1500, burst, Span::from_micros(50), span, seed);
            // 4,000 packets: one packet more or less is 0.025 %, one late wake-up at the end less than 50 us.
            let slack = 2.0 / 4_000.0 + 50e-6 / span.as_secs_f64();
            prop_assert!((got / rate.as_f64() - 1.0).abs() < slack, "{got} of {rate}");
        }

        #[test]
        fn never_more_than_rate_times_time_plus_one_burst(
            rate in 1_000..10_000_000_000u64, burst in 1_500..100_000u64, gaps in prop::collection::vec(0..10_000_000u64, 1..200),
        ) {
            let mut now = Time::ZERO;
            let mut pacer = Pacer::new(now, Bitrate::from_bps(rate), burst);
            let mut sent = 0u64;
            for gap in gaps {
                now += Span::from_nanos(gap);
                let allowed = pacer.allowance(now);
                prop_assert!(allowed <= burst);
                pacer.spend(allowed);
                sent += allowed;
                prop_assert!(sent <= burst + Bitrate::from_bps(rate).bytes_in(now.since(Time::ZERO)) + 1);
            }
        }
    }

    #[test]
    fn due_names_the_first_moment_that_allows() {
        let mut pacer = Pacer::new(Time::ZERO, Bitrate::from_mbps(7), 3_000);
        pacer.spend(3_000);
        let due = pacer.due(1500);
        assert!(pacer.clone().allowance(due - Span::from_nanos(1)) < 1500);
        assert!(pacer.allowance(due) >= 1500);
        pacer.set(due, Bitrate::ZERO, 3_000);
        assert_eq!(pacer.due(3_000), Time::FAR_FUTURE);
    }
}
