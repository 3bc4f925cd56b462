//! Standard TCP (RFC 5681): one packet more each round trip, half the window at congestion.

use inhaul_base::Time;
use inhaul_transport::AckSample;

use super::windowed::Avoidance;

/// Standard TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno;

impl Avoidance for Reno {
    fn grow(&mut self, window: f64, ack: &AckSample) -> f64 {
        window + ack.delivered_packets as f64 / window
    }

    fn reduce(&mut self, _now: Time, window: f64) -> f64 {
        window * 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Drive;
    use super::*;

    #[test]
    fn grows_by_a_packet_each_round_trip_and_halves() {
        let mut drive = Drive::at(Reno, 100.0, 50);
        for k in 1..=20 {
            let window = drive.round();
            assert!((window - (100.0 + f64::from(k))).abs() < 0.2, "{window} after {k} round trips");
        }
        let before = drive.law.window();
        assert_eq!(drive.lose(), before / 2.0);
    }
}
