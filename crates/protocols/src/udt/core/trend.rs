//! Whether the delay of packets grows, as UDT 1 finds it: pathload's two tests over the last round-trip times (Jain and
//! Dovrolis, "Pathload: a measurement tool for end-to-end available bandwidth").

use inhaul_base::Span;

/// Number of round-trip times for the trend.
const SAMPLES: usize = 16;
/// The delay grows if both tests say so, one of them clearly: more of one, and less of the other.
const CLEAR_RISES: (f64, f64) = (0.66, 0.45);
const CLEAR_RISE: (f64, f64) = (0.54, 0.55);

/// The last round-trip times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trend {
    nanos: [u64; SAMPLES],
    count: usize,
}

impl Trend {
    /// A round trip took so long. Says whether they have become longer and longer.
    pub(super) fn sample(&mut self, rtt: Span) -> bool {
        self.nanos[self.count % SAMPLES] = rtt.as_nanos();
        self.count += 1;
        self.count >= SAMPLES && self.grows()
    }

    fn grows(&self) -> bool {
        let oldest = self.count % SAMPLES;
        let at = |k: usize| self.nanos[(oldest + k) % SAMPLES];
        let steps = (1..SAMPLES).map(|k| (at(k - 1), at(k)));
        let rises = steps.clone().filter(|(before, after)| after > before).count();
        let way: u64 = steps.map(|(before, after)| before.abs_diff(after)).sum();
        // Pairwise comparison: the part of the steps that go up. Pairwise difference: how far up all of them lead.
        let comparison = rises as f64 / (SAMPLES - 1) as f64;
        let difference = (at(SAMPLES - 1) as f64 - at(0) as f64) / way.max(1) as f64;
        [CLEAR_RISES, CLEAR_RISE].into_iter().any(|(c, d)| comparison > c && difference > d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(micros: impl IntoIterator<Item = u64>) -> bool {
        let mut trend = Trend::default();
        micros.into_iter().map(|us| trend.sample(Span::from_micros(us))).last().unwrap_or(false)
    }

    #[test]
    fn a_delay_that_grows_is_told_from_one_that_varies() {
        assert!(says((0..16).map(|k| 10_000 + 100 * k)), "steadily");
        assert!(!says((0..15).map(|k| 10_000 + 100 * k)), "too few");
        assert!(!says((0..32).map(|k| 10_000 - 100 * k)), "it falls");
        assert!(!says(std::iter::repeat_n(10_000, 32)), "nothing changes");
        assert!(!says((0..32).map(|k| 10_000 + 300 * (k % 2))), "up and down");
        // Two steps of three go up, and lead more than half as far as all go.
        assert!(says((0..16).map(|k| 10_000 + 200 * k - if k % 3 == 2 { 250 } else { 0 })));
        // One of 15 up, far: a leap is no trend.
        assert!(!says((0..16).map(|k| if k < 8 { 10_000 } else { 20_000 })));
        // It grew, and then stands: the trend is over within the window.
        assert!(!says((0..40).map(|k| 10_000 + 100 * k.min(20))));
    }
}
