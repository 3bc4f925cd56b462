//! Scalable TCP (Kelly 2003): growth by a hundredth of the acknowledged packets, an eighth off at congestion.

use inhaul_base::Time;
use inhaul_transport::AckSample;

use super::windowed::Avoidance;

/// Growth for each packet that is acknowledged (Kelly 2003 section 2).
const GROWTH: f64 = 0.01;
/// The part kept at congestion.
const REMAINS: f64 = 0.875;

/// Scalable TCP. Windows below 100 packets grow as standard TCP's do, which is faster there, as in Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalable;

impl Avoidance for Scalable {
    fn grow(&mut self, window: f64, ack: &AckSample) -> f64 {
        window + ack.delivered_packets as f64 * GROWTH.max(1.0 / window)
    }

    fn reduce(&mut self, _now: Time, window: f64) -> f64 {
        window * REMAINS
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Drive;
    use super::*;

    #[test]
    fn recovers_from_a_cut_in_14_round_trips_at_any_window() {
        // Kelly 2003: about 13.4 round trips, ln(1 / 0.875) / ln(1.01), for every window.
        for window in [1_000.0, 10_000.0, 100_000.0] {
            let mut drive = Drive::at(Scalable, window, 200);
            assert_eq!(drive.lose(), window * 0.875);
            let rounds = (1..100).find(|_| drive.round() >= window).unwrap();
            assert_eq!(rounds, 14, "from {window}");
        }
    }

    #[test]
    fn small_windows_grow_as_standard_tcp() {
        let mut drive = Drive::at(Scalable, 20.0, 200);
        assert!((drive.round() - 21.0).abs() < 0.1, "{}", drive.law.window());
    }
}
