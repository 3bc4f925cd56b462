//! The time of the next packet, by a period of any fraction of a nanosecond.

use inhaul_base::{Span, Time};

use super::terms::SYN;

/// Times are counted in 2^-32 ns, so that no period is rounded: a gap of whole microseconds would be wrong by 6 % at
/// 1 Gbit/s.
const FRACTION_BITS: u32 = 32;
/// Least distance of packets, with every control: a peer must not make a whole window leave at one instant.
const PERIOD_MIN_NANOS: f64 = 250.0;
/// The credit of this time may leave at once: timers of hosts are not finer.
const BURST: Span = Span::from_micros(250);
/// Time that was lost by late wake-ups is made up for if it is no more than this ...
const KEPT: Span = SYN;
/// ... by leaving at 5/4 of the rate.
const OVERSPEED: (u128, u128) = (5, 4);

/// Packets leave one period apart on average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacing {
    period: u128,
    /// The period at the most that makes up for lost time.
    period_least: u128,
    /// When the next packet is due at the exact rate ...
    due: u128,
    /// ... and when it is at the most that makes up for lost time.
    due_at_most: u128,
}

fn fixed(nanos: u64) -> u128 {
    u128::from(nanos) << FRACTION_BITS
}

impl Pacing {
    /// Packets leave `nanos` apart from the next on.
    pub(super) fn set_period(&mut self, nanos: f64) {
        self.period = (nanos.clamp(PERIOD_MIN_NANOS, 1e12) * (1u64 << FRACTION_BITS) as f64) as u128;
        self.period_least = self.period * OVERSPEED.1 / OVERSPEED.0;
    }

    /// When the next packet may leave.
    pub(super) fn due(&self) -> Time {
        let due = self.due.max(self.due_at_most);
        Time::from_nanos(u64::try_from(due.div_ceil(1 << FRACTION_BITS)).unwrap_or(u64::MAX))
    }

    /// A packet leaves.
    pub(super) fn spend(&mut self, now: Time) {
        let earliest = |kept| fixed((now - kept).as_nanos());
        self.due = self.due.max(earliest(KEPT)) + self.period;
        self.due_at_most = self.due_at_most.max(earliest(BURST)) + self.period_least;
    }

    /// Another limit held packets back until `now`: the unused credit is dropped.
    pub(super) fn rest(&mut self, now: Time) {
        self.due = self.due.max(fixed(now.as_nanos()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that leave until `until` when each wake-up is late by `late`.
    fn sent(period: f64, late: Span, until: Time) -> u64 {
        let (mut pacing, mut now, mut sent) = (Pacing::default(), Time::ZERO, 0);
        pacing.set_period(period);
        while now < until {
            while pacing.due() <= now {
                pacing.spend(now);
                sent += 1;
            }
            now = pacing.due() + late;
        }
        sent
    }

    #[test]
    fn the_average_is_exact_for_any_period_and_late_wake_ups() {
        for period in [12_000.0, 1_234.567_89, 333.333_333] {
            for late in [Span::ZERO, Span::from_micros(40)] {
                let expected = 1e9 / period;
                let got = sent(period, late, Time::ZERO + Span::from_secs(1)) as f64;
                // The late packets at the end, and one burst at the beginning.
                let slack = 2.0 + 40_000.0 / period;
                assert!((got - expected).abs() < slack, "{period} ns, {late:?}: {got} of {expected}");
            }
        }
    }

    #[test]
    fn lost_time_is_made_up_for_little_by_little_and_a_rest_is_not() {
        let at = Time::ZERO + Span::from_millis(100);
        let burst = |mut pacing: Pacing, at| {
            (0u32..)
                .take_while(|_| {
                    let goes = pacing.due() <= at;
                    if goes {
                        pacing.spend(at);
                    }
                    goes
                })
                .count()
        };
        let mut pacing = Pacing::default();
        pacing.set_period(10_000.0);
        // 250 us at 8 us for each packet, and the due one.
        assert_eq!(burst(pacing, at), 32);
        pacing.rest(at);
        assert_eq!(burst(pacing, at), 1);
    }
}
