//! What the times of arrivals say: the arrival speed and, by packet pairs, the capacity of the path (udt-2004 2.3).

use inhaul_base::Time;

use super::terms::PAIR_EVERY;

/// Intervals of which the median is taken.
const INTERVALS: usize = 16;
/// Pairs of which the median is taken (the draft's; UDT 4 takes 64).
const PAIRS: usize = 16;
/// Samples count that are within this factor of the median.
const NEAR: u64 = 8;

/// The last samples of a time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Window<const N: usize> {
    samples: [u64; N],
    count: usize,
}

impl<const N: usize> Window<N> {
    const EMPTY: Self = Self { samples: [0; N], count: 0 };

    fn push(&mut self, nanos: u64) {
        self.samples[self.count % N] = nanos;
        self.count += 1;
    }

    /// Median filter: how many samples are near the median, and their sum. `None` until the window is full.
    fn filtered(&self) -> Option<(u64, u64)> {
        if self.count < N {
            return None;
        }
        let mut sorted = self.samples;
        sorted.sort_unstable();
        let median = sorted[N / 2];
        let near = sorted.iter().filter(|&&s| s >= median / NEAR && s <= median.saturating_mul(NEAR));
        Some(near.fold((0, 0), |(count, sum), sample| (count + 1, sum + sample)))
    }
}

fn per_second(count: u64, nanos: u64) -> u32 {
    let rate = u128::from(count) * 1_000_000_000 / u128::from(nanos.max(1));
    u32::try_from(rate).unwrap_or(u32::MAX)
}

/// Times between arrivals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    intervals: Window<INTERVALS>,
    pairs: Window<PAIRS>,
    last: Option<Time>,
    /// The first packet of a pair came last, at this time.
    pair: Option<(u64, Time)>,
}

impl Arrivals {
    pub(super) const NONE: Self = Self { intervals: Window::EMPTY, pairs: Window::EMPTY, last: None, pair: None };

    /// The `count` packets from `number` on came together at `at`, the first of them for the first time. Those that
    /// come together are taken as if they had come evenly spread since the last.
    pub(super) fn arrive(&mut self, at: Time, number: u64, count: u64) {
        if let Some(last) = self.last {
            let interval = at.since(last).as_nanos() / count.max(1);
            (0..count.min(INTERVALS as u64)).for_each(|_| self.intervals.push(interval));
        }
        self.last = Some(at);
        // Two that came together, or that this host's clock cannot tell apart, say nothing of the path. If others came
        // with the second, all of them came since the first did.
        if let Some((first, came)) = self.pair.take()
            && number == first + 1
            && at > came
        {
            self.pairs.push(at.since(came).as_nanos() / count.max(1));
        }
        // When the last of several came that came together is not known.
        self.pair = (count == 1 && number.is_multiple_of(PAIR_EVERY)).then_some((number, at));
    }

    /// A packet came that was sent again: it came out of turn.
    pub(super) fn disturb(&mut self, at: Time) {
        self.last = Some(at);
        self.pair = None;
    }

    /// Packets a second at which data comes in; 0: not known.
    pub(super) fn speed(&self) -> u32 {
        match self.intervals.filtered() {
            Some((count, nanos)) if count as usize > INTERVALS / 2 => per_second(count, nanos),
            _ => 0,
        }
    }

    /// Packets a second that the path carries; 0: not known.
    pub(super) fn capacity(&self) -> u32 {
        self.pairs.filtered().map_or(0, |(count, nanos)| per_second(count, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::Span;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn speed_is_of_the_median_interval_whatever_single_ones_were() {
        let mut arrivals = Arrivals::NONE;
        let mut now = 0;
        for k in 0..64 {
            now += if k % 8 == 7 { 5_000 } else { 100 };
            arrivals.arrive(at(now), k, 1);
        }
        assert_eq!(arrivals.speed(), 10_000);
        let mut few = Arrivals::NONE;
        (0..16).for_each(|k| few.arrive(at(k * 100), k, 1));
        assert_eq!(few.speed(), 0, "fifteen intervals are too few");
    }

    #[test]
    fn speed_is_right_when_packets_come_together() {
        let mut arrivals = Arrivals::NONE;
        (0..20).for_each(|k| arrivals.arrive(at(k * 800), k * 8, 8));
        assert_eq!((arrivals.speed(), arrivals.capacity()), (10_000, 0));
    }

    #[test]
    fn capacity_is_that_of_pairs_alone() {
        let mut arrivals = Arrivals::NONE;
        for k in 0..16 * 20 {
            let extra = if k % 16 == 1 { 12 } else { 100 };
            arrivals.arrive(at((k - u64::from(k % 16 == 1)) * 100 + if k % 16 == 1 { extra } else { 0 }), k, 1);
        }
        assert_eq!(arrivals.capacity(), 83_333);
        // The first by itself, and the second with those behind it.
        let mut joined = Arrivals::NONE;
        for k in 0..20 {
            joined.arrive(at(k * 1_600), k * 16, 1);
            joined.arrive(at(k * 1_600 + 30), k * 16 + 1, 15);
        }
        assert_eq!(joined.capacity(), 500_000);
        // The first with others: when it came is not known.
        let mut vague = Arrivals::NONE;
        for k in 0..20 {
            vague.arrive(at(k * 1_600), k * 16, 8);
            vague.arrive(at(k * 1_600 + 100), k * 16 + 8, 9);
            vague.arrive(at(k * 1_600 + 112), k * 16 + 17, 1);
        }
        assert_eq!(vague.capacity(), 0);
        // One that was overtaken by a packet sent again, or came together with the first, does not count.
        let mut odd = Arrivals::NONE;
        for k in 0..40 {
            odd.arrive(at(k * 1_600), k * 16, 1);
            if k % 2 == 0 {
                odd.disturb(at(k * 1_600 + 5));
                odd.arrive(at(k * 1_600 + 12), k * 16 + 1, 1);
            } else {
                odd.arrive(at(k * 1_600), k * 16 + 1, 1);
            }
        }
        assert_eq!(odd.capacity(), 0);
    }
}
