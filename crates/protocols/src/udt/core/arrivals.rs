//! Measures by the times of arrivals: the arrival speed and, by packet pairs, the capacity of the path (udt-2004 2.3).

use inhaul_base::Time;

use super::terms::{PAIR_EVERY, SpeedRule};

/// Number of intervals for the median.
const INTERVALS: usize = 16;
/// Number of pairs for the median (the draft's; UDT 4 takes 64).
const PAIRS: usize = 16;
/// Samples count that are within this factor of the median.
const NEAR: u64 = 8;
/// Intervals since the last ACK that are remembered, the last ones: bounds a flow's memory.
const SINCE_ACK_MAX: usize = 1_024;

/// Packets that took a time to come.
#[derive(Clone, Copy, Debug)]
struct Sample {
    nanos: u64,
    packets: u64,
}

impl Sample {
    const NONE: Self = Self { nanos: 0, packets: 1 };

    fn nanos_each(self) -> u64 {
        self.nanos / self.packets
    }
}

/// The last samples.
#[derive(Clone, Copy, Debug)]
struct Window<const N: usize> {
    samples: [Sample; N],
    count: usize,
}

impl<const N: usize> Window<N> {
    const EMPTY: Self = Self { samples: [Sample::NONE; N], count: 0 };

    fn push(&mut self, sample: Sample) {
        self.samples[self.count % N] = sample;
        self.count += 1;
    }

    fn last(&mut self) -> Option<&mut Sample> {
        self.count.checked_sub(1).map(|last| &mut self.samples[last % N])
    }

    /// Median filter: how many samples are near the median, and packets a second of all these. `None` until the window
    /// is full.
    fn filtered(&self) -> Option<(usize, u32)> {
        if self.count < N {
            return None;
        }
        let mut sorted = self.samples.map(Sample::nanos_each);
        sorted.sort_unstable();
        let median = sorted[N / 2];
        let near = |each: u64| each >= median / NEAR && each <= median.saturating_mul(NEAR);
        let near = self.samples.iter().filter(|sample| near(sample.nanos_each()));
        let (count, packets, nanos) = near.fold((0, 0, 0), |(count, packets, nanos), sample| {
            (count + 1, packets + sample.packets, nanos + sample.nanos)
        });
        Some((count, per_second(packets, nanos)))
    }
}

fn per_second(count: u64, nanos: u64) -> u32 {
    let rate = u128::from(count) * 1_000_000_000 / u128::from(nanos.max(1));
    u32::try_from(rate).unwrap_or(u32::MAX)
}

/// The samples since the last ACK.
#[derive(Clone, Debug, Default)]
struct SinceAck {
    samples: Vec<Sample>,
    count: usize,
}

impl SinceAck {
    fn push(&mut self, sample: Sample) {
        if self.samples.len() < SINCE_ACK_MAX {
            self.samples.push(sample);
        } else {
            self.samples[self.count % SINCE_ACK_MAX] = sample;
        }
        self.count += 1;
    }

    fn last(&mut self) -> Option<&mut Sample> {
        self.count.checked_sub(1).and_then(|last| self.samples.get_mut(last % SINCE_ACK_MAX))
    }

    /// Packets a second by the median interval, and forgets the intervals; 0: there was none (udt-2004 2.3: AS = 1/M).
    fn take(&mut self) -> u32 {
        let middle = self.samples.len() / 2;
        let median = (!self.samples.is_empty())
            .then(|| *self.samples.select_nth_unstable_by_key(middle, |sample| sample.nanos_each()).1);
        self.samples.clear();
        self.count = 0;
        median.filter(|sample| sample.nanos > 0).map_or(0, |sample| per_second(sample.packets, sample.nanos))
    }
}

/// Times between arrivals.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    rule: SpeedRule,
    intervals: Window<INTERVALS>,
    since_ack: SinceAck,
    pairs: Window<PAIRS>,
    last: Option<Time>,
    /// The first packet of a pair came last, at this time.
    pair: Option<(u64, Time)>,
}

impl Arrivals {
    pub(super) fn new(rule: SpeedRule) -> Self {
        let (since_ack, pairs) = (SinceAck::default(), Window::EMPTY);
        Self { rule, intervals: Window::EMPTY, since_ack, pairs, last: None, pair: None }
    }

    /// The `count` packets from `number` on came together at `at`, the first of them for the first time. Packets that
    /// come together count as spread evenly since the last arrival.
    pub(super) fn arrive(&mut self, at: Time, number: u64, count: u64) {
        if let Some(last) = self.last {
            let sample = Sample { nanos: at.since(last).as_nanos(), packets: count.max(1) };
            let noted = match self.rule {
                SpeedRule::Filtered => self.intervals.last(),
                SpeedRule::SinceAck => self.since_ack.last(),
            };
            match noted {
                // At one instant, though not in one message: they still came together. An interval of zero would be an
                // infinite speed.
                Some(noted) if at == last => noted.packets += sample.packets,
                _ if self.rule == SpeedRule::Filtered => self.intervals.push(sample),
                _ => self.since_ack.push(sample),
            }
        }
        self.last = Some(at);
        // Two that came together, or that this host's clock cannot tell apart, say nothing of the path. If others came
        // with the second, all of them came since the first did.
        if let Some((first, came)) = self.pair.take()
            && number == first + 1
            && at > came
        {
            self.pairs.push(Sample { nanos: at.since(came).as_nanos(), packets: count.max(1) });
        }
        // When the last of several came that came together is not known.
        self.pair = (count == 1 && number.is_multiple_of(PAIR_EVERY)).then_some((number, at));
    }

    /// A packet came that was sent again: it came out of turn.
    pub(super) fn disturb(&mut self, at: Time) {
        self.last = Some(at);
        self.pair = None;
    }

    /// Packets a second at which data comes in, for an ACK that leaves now; 0: not known.
    pub(super) fn speed(&mut self) -> u32 {
        if self.rule == SpeedRule::SinceAck {
            return self.since_ack.take();
        }
        match self.intervals.filtered() {
            Some((count, speed)) if count > INTERVALS / 2 => speed,
            _ => 0,
        }
    }

    /// Packets a second that the path carries; 0: not known.
    pub(super) fn capacity(&self) -> u32 {
        self.pairs.filtered().map_or(0, |(_, capacity)| capacity)
    }

    /// Bytes of memory, about, beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        self.since_ack.samples.capacity() * size_of::<Sample>()
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
    fn speed_is_of_the_median_interval_with_any_outliers() {
        let mut arrivals = Arrivals::new(SpeedRule::Filtered);
        let mut now = 0;
        for k in 0..64 {
            now += if k % 8 == 7 { 5_000 } else { 100 };
            arrivals.arrive(at(now), k, 1);
        }
        assert_eq!(arrivals.speed(), 10_000);
        let mut few = Arrivals::new(SpeedRule::Filtered);
        (0..16).for_each(|k| few.arrive(at(k * 100), k, 1));
        assert_eq!(few.speed(), 0, "fifteen intervals are too few");
    }

    #[test]
    fn speed_since_the_last_ack_is_the_median_s_with_any_pauses() {
        // udt-2004 2.3: packet sending may not be continuous, so an interval may be unnecessarily large.
        let mut arrivals = Arrivals::new(SpeedRule::SinceAck);
        assert_eq!(arrivals.speed(), 0);
        [0, 100, 200, 9_000, 9_100].into_iter().enumerate().for_each(|(k, us)| arrivals.arrive(at(us), k as u64, 1));
        assert_eq!(arrivals.speed(), 10_000);
        assert_eq!(arrivals.speed(), 0, "nothing came since");
        arrivals.arrive(at(29_100), 5, 1);
        assert_eq!(arrivals.speed(), 50, "one interval");
        arrivals.arrive(at(29_900), 6, 8);
        assert_eq!(arrivals.speed(), 10_000, "packets that come together");
        // Of very many the last ones count.
        (0..3_000).for_each(|k| arrivals.arrive(at(30_000 + if k < 1_500 { k } else { k * 10 }), 20 + k, 1));
        assert_eq!(arrivals.speed(), 100_000);
        assert!(arrivals.memory_bytes() <= 16 * SINCE_ACK_MAX);
    }

    #[test]
    fn speed_is_right_when_packets_come_together() {
        let mut arrivals = Arrivals::new(SpeedRule::Filtered);
        (0..20).for_each(|k| arrivals.arrive(at(k * 800), k * 8, 8));
        assert_eq!((arrivals.speed(), arrivals.capacity()), (10_000, 0));
        // Three messages in a row, and a pause, over and over: neither the rows nor the pauses alone give the speed.
        let mut bursts = Arrivals::new(SpeedRule::Filtered);
        (0..20).for_each(|k| {
            (0..3).for_each(|m| bursts.arrive(at(k * 2_400 + m * 400), (k * 3 + m) * 8, 8));
        });
        assert!((9_000..=11_500).contains(&bursts.speed()), "{}", bursts.speed());
    }

    #[test]
    fn packets_of_one_instant_came_together_and_not_at_a_speed_without_bound() {
        for rule in [SpeedRule::Filtered, SpeedRule::SinceAck] {
            let mut arrivals = Arrivals::new(rule);
            (0..200).for_each(|k| arrivals.arrive(at(k / 4 * 400), k, 1));
            assert_eq!(arrivals.speed(), 10_000, "{rule:?}");
        }
        let mut at_once = Arrivals::new(SpeedRule::SinceAck);
        (0..5).for_each(|k| at_once.arrive(at(7), k, 1));
        assert_eq!(at_once.speed(), 0, "all that came since the ACK did at one instant");
    }

    #[test]
    fn capacity_is_that_of_pairs_alone() {
        let mut arrivals = Arrivals::new(SpeedRule::Filtered);
        for k in 0..16 * 20 {
            let extra = if k % 16 == 1 { 12 } else { 100 };
            arrivals.arrive(at((k - u64::from(k % 16 == 1)) * 100 + if k % 16 == 1 { extra } else { 0 }), k, 1);
        }
        assert_eq!(arrivals.capacity(), 83_333);
        // The first on its own, and the second with later ones.
        let mut joined = Arrivals::new(SpeedRule::Filtered);
        for k in 0..20 {
            joined.arrive(at(k * 1_600), k * 16, 1);
            joined.arrive(at(k * 1_600 + 30), k * 16 + 1, 15);
        }
        assert_eq!(joined.capacity(), 500_000);
        // The first with others: when it came is not known.
        let mut vague = Arrivals::new(SpeedRule::Filtered);
        for k in 0..20 {
            vague.arrive(at(k * 1_600), k * 16, 8);
            vague.arrive(at(k * 1_600 + 100), k * 16 + 8, 9);
            vague.arrive(at(k * 1_600 + 112), k * 16 + 17, 1);
        }
        assert_eq!(vague.capacity(), 0);
        // A pair does not count if a retransmission overtook its second packet, or if both came together.
        let mut odd = Arrivals::new(SpeedRule::Filtered);
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
