//! Random early detection: Floyd and Jacobson 1993, with the gentle slope.

use inhaul_base::{RandomStream, Span};

use crate::RedSpec;

/// The decision of early detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    No,
    /// A random drop.
    Sometimes,
    /// A forced drop: the average is above twice the upper threshold.
    Always,
}

/// The average queue and the count since the last drop.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    spec: RedSpec,
    /// Whether the queue is counted in bytes.
    in_bytes: bool,
    /// Average queue length (avg), bytes or packets.
    average: f64,
    /// Packets since the last drop while the average was above the lower threshold (count); -1 below it.
    count: i64,
    random: RandomStream,
}

impl Red {
    pub(crate) fn new(spec: RedSpec, in_bytes: bool, random: RandomStream) -> Self {
        Self { spec, in_bytes, average: 0.0, count: -1, random }
    }

    /// Whether the arriving packet is dropped or marked. `queue` is the queue length, in bytes or packets. `idle` is
    /// how long the line has been free, if it is, and the transmission time of a typical packet.
    pub(crate) fn meets(&mut self, queue: u64, bytes: u32, idle: Option<(Span, Span)>) -> Early {
        self.update_average(queue, idle);
        let Some(mut probability) = self.marking_probability() else {
            self.count = -1;
            return Early::No;
        };
        if probability >= 1.0 {
            self.count = 0;
            return Early::Always;
        }
        self.count += 1;
        if self.in_bytes {
            // Section 7: a large packet is more likely to be dropped than a small one.
            probability *= f64::from(bytes) / f64::from(self.spec.mean_packet.max(1));
        }
        // Section 7, method 2: uniform gaps between drops. p_a = p_b / (1 - count * p_b).
        let spread = 1.0 - self.count as f64 * probability;
        let chance = if spread > 0.0 { probability / spread } else { 1.0 };
        if self.random.unit() >= chance {
            return Early::No;
        }
        self.count = 0;
        Early::Sometimes
    }

    /// Section 4: an exponentially weighted average. Idle time counts as the number of typical packets that would have
    /// fitted into it, each with an empty queue.
    fn update_average(&mut self, queue: u64, idle: Option<(Span, Span)>) {
        let weight = self.spec.weight;
        match idle {
            Some((idle, packet)) => {
                let missed = idle.as_nanos() / packet.as_nanos().max(1);
                self.average *= power(1.0 - weight, missed);
            }
            None => self.average += weight * (queue as f64 - self.average),
        }
    }

    /// p_b; `None` below the lower threshold, 1 at and above twice the upper one.
    fn marking_probability(&self) -> Option<f64> {
        let RedSpec { min_threshold: min, max_threshold: max, .. } = self.spec;
        let max_probability = self.spec.max_probability.get();
        if self.average < min {
            None
        } else if self.average < max {
            Some(max_probability * (self.average - min) / (max - min))
        } else {
            Some(max_probability + (1.0 - max_probability) * ((self.average - max) / max).min(1.0))
        }
    }
}

/// `base` to the power `exponent` by multiplication alone, because the library's `powf` may differ between machines.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::Probability;

    fn red(weight: f64) -> Red {
        let spec = RedSpec {
            min_threshold: 5.0,
            max_threshold: 15.0,
            max_probability: Probability::new(0.02).unwrap(),
            weight,
            mean_packet: 1500,
        };
        Red::new(spec, false, RandomStream::new(3, 1))
    }

    /// Share of drops when the queue stands at `queue` for long.
    fn share_at(queue: u64) -> f64 {
        let mut red = red(1.0);
        (0..100_000).filter(|_| red.meets(queue, 1500, None) != Early::No).count() as f64 / 1e5
    }

    #[test]
    fn drops_nothing_below_and_everything_far_above() {
        assert_eq!(share_at(4), 0.0);
        assert_eq!(share_at(30), 1.0);
    }

    #[test]
    fn drops_at_uniform_gaps_and_so_twice_as_often_as_p_b() {
        // Section 7: gaps are uniform between 1 and about 1/p_b packets, half of that on average; at 10 packets p_b is
        // 0.01.
        assert!((share_at(10) - 0.02).abs() < 0.001, "{}", share_at(10));
        // Gentle: at 22.5 packets p_b is 0.51, between one and two packets a drop.
        let mut red = red(1.0);
        red.average = 22.5;
        assert!((red.marking_probability().unwrap() - 0.51).abs() < 1e-12);
    }

    #[test]
    fn update_average_follows_slowly_and_decays_while_idle() {
        let mut red = red(0.002);
        for _ in 0..500 {
            red.update_average(100, None);
        }
        // 100 * (1 - 0.998^500)
        assert!((red.average - 63.25).abs() < 0.01, "{}", red.average);
        red.update_average(0, Some((Span::from_micros(6_000), Span::from_micros(12))));
        assert!((red.average - 63.25 * 0.3675).abs() < 0.01, "{}", red.average);
    }
}
