//! Round-trip time, smoothed (RFC 6298 section 2).

use inhaul_base::Span;

/// Smoothed round-trip time and its variation.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    smoothed: Option<Span>,
    variation: Span,
    least: Option<Span>,
}

impl RttEstimator {
    /// Takes in one measurement.
    pub fn sample(&mut self, rtt: Span) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                let off = Span::from_nanos(smoothed.as_nanos().abs_diff(rtt.as_nanos()));
                self.variation = (self.variation * 3 + off) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
    }

    /// The smoothed round-trip time; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    /// The least round-trip time seen.
    pub fn least(&self) -> Option<Span> {
        self.least
    }

    /// How long an answer may take before it counts as missing: smoothed + 4 variations (RFC 6298 2.3).
    pub fn patience(&self) -> Option<Span> {
        self.smoothed.map(|s| s + self.variation * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_follows_rfc_6298() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.patience(), None);
        rtt.sample(Span::from_millis(80));
        assert_eq!((rtt.smoothed(), rtt.patience()), (Some(Span::from_millis(80)), Some(Span::from_millis(240))));
        rtt.sample(Span::from_millis(160));
        assert_eq!(rtt.smoothed(), Some(Span::from_millis(90)));
        assert_eq!(rtt.patience(), Some(Span::from_millis(90 + 4 * 50)));
        assert_eq!(rtt.least(), Some(Span::from_millis(80)));
    }
}
