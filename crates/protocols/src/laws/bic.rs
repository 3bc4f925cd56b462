//! BIC (Xu, Harfoush, Rhee: *Binary Increase Congestion Control for Fast Long-Distance Networks*, INFOCOM 2004): a
//! binary search for the window at which packets were lost.

use inhaul_base::Time;
use inhaul_transport::AckSample;

use super::windowed::Avoidance;

/// Growth in a round trip, at most (S_max) ...
const S_MAX: f64 = 32.0;
/// ... and the distance at which the search has arrived (S_min).
const S_MIN: f64 = 0.01;
/// The part that is cut off at congestion (beta).
const BETA: f64 = 0.125;
/// Windows below this behave as standard TCP (low_window).
const LOW_WINDOW: f64 = 14.0;

/// BIC.
#[derive(Clone, Copy, Debug)]
pub struct Bic {
    /// Where packets were lost, as far as is known (max_win).
    max: f64,
    /// Beyond it: growth in this round trip, and the window at which it doubles.
    probing: Option<(f64, f64)>,
}

impl Default for Bic {
    fn default() -> Self {
        Self { max: f64::INFINITY, probing: None }
    }
}

impl Bic {
    /// Growth in a round trip.
    fn step(&mut self, window: f64) -> f64 {
        if window < LOW_WINDOW {
            return 1.0;
        }
        if self.max - window > S_MIN {
            // Binary search: half of the way, or additive increase when that is too far.
            self.probing = None;
            return ((self.max - window) / 2.0).clamp(S_MIN, S_MAX);
        }
        // "Slow start" beyond the old maximum: 1, 2, 4 ... packets in a round trip, up to S_max.
        let (step, until) = self.probing.get_or_insert((1.0, window + 1.0));
        while window >= *until && *step < S_MAX {
            *step = (*step * 2.0).min(S_MAX);
            *until = window + *step;
        }
        *step
    }
}

impl Avoidance for Bic {
    fn grow(&mut self, window: f64, ack: &AckSample) -> f64 {
        window + ack.delivered_packets as f64 * self.step(window) / window
    }

    fn reduce(&mut self, _now: Time, window: f64) -> f64 {
        self.probing = None;
        if window < LOW_WINDOW {
            self.max = window;
            return window * 0.5;
        }
        let cut = window * (1.0 - BETA);
        // Fast convergence: a window that no longer reaches its old maximum aims at the middle.
        self.max = if window < self.max && self.max.is_finite() { (window + cut) / 2.0 } else { window };
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Drive;
    use super::*;

    #[test]
    fn grows_by_32_then_by_halves_then_beyond() {
        let mut drive = Drive::at(Bic::default(), 2_000.0, 100);
        assert_eq!(drive.lose(), 1_750.0);
        // 250 packets away: additive increase until 64 are left.
        for k in 1..=5 {
            let window = drive.round();
            // A round trip's acknowledgements are those of the window at its beginning: 1 % short.
            assert!((window - (1_750.0 + 32.0 * f64::from(k))).abs() < 0.32 * f64::from(k), "{window}");
        }
        drive.round();
        // Then the distance halves each round trip (by continuous steps: a factor of e^-0.5).
        let mut left = 2_000.0 - drive.law.window();
        while left > 1.0 {
            let now = 2_000.0 - drive.round();
            assert!((now / left - (-0.5f64).exp()).abs() < 0.02, "{left} {now}");
            left = now;
        }
        let rounds = (1..100).find(|_| drive.round() > 2_000.5).unwrap();
        assert!((5..15).contains(&rounds), "{rounds}");
        // Beyond it grows faster and faster, up to 32 in a round trip.
        let steps: Vec<f64> = (0..10)
            .map(|_| {
                let before = drive.law.window();
                drive.round() - before
            })
            .collect();
        assert!(steps.windows(2).all(|s| s[1] >= s[0] * 0.99), "{steps:?}");
        assert!((steps[9] - 32.0).abs() < 0.5, "{steps:?}");
    }

    #[test]
    fn a_window_that_no_longer_reaches_its_maximum_aims_lower() {
        let mut bic = Bic::default();
        assert_eq!(bic.reduce(Time::ZERO, 1_000.0), 875.0);
        assert_eq!(bic.max, 1_000.0);
        assert_eq!(bic.reduce(Time::ZERO, 960.0), 840.0);
        assert_eq!(bic.max, 900.0);
    }

    #[test]
    fn below_14_packets_it_is_standard_tcp() {
        let mut drive = Drive::at(Bic::default(), 12.0, 100);
        assert!((drive.round() - 13.0).abs() < 0.1);
        let mut drive = Drive::at(Bic::default(), 12.0, 100);
        assert_eq!(drive.lose(), 6.0);
    }
}
