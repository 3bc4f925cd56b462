//! HighSpeed TCP (RFC 3649): the larger the window, the faster it grows and the less it is cut.

use inhaul_base::Time;
use inhaul_transport::AckSample;

use super::windowed::Avoidance;

/// RFC 3649 section 5: up to this window standard TCP's response is good enough ...
const W_LOW: f64 = 38.0;
/// ... at this one, ...
const W_HIGH: f64 = 83_000.0;
/// ... the decrease is by this part only.
const B_HIGH: f64 = 0.1;

/// HighSpeed TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighSpeed;

/// By how many packets a window of `w` packets grows in a round trip: a(w) of RFC 3649 section 5, by formula.
pub(super) fn increase(w: f64) -> f64 {
    if w <= W_LOW {
        return 1.0;
    }
    let b = decrease(w);
    // p(w) = 0.078 / w^1.2 (equation 4): the loss rate at which w must be the average window.
    w.powf(2.0 - 1.2) * 0.078 * 2.0 * b / (2.0 - b)
}

/// By what part of itself a window of `w` packets is cut: b(w) of RFC 3649 section 5.
pub(super) fn decrease(w: f64) -> f64 {
    if w <= W_LOW {
        return 0.5;
    }
    ((B_HIGH - 0.5) * (w.ln() - W_LOW.ln()) / (W_HIGH.ln() - W_LOW.ln()) + 0.5).max(B_HIGH)
}

impl Avoidance for HighSpeed {
    fn grow(&mut self, window: f64, ack: &AckSample) -> f64 {
        window + ack.delivered_packets as f64 * increase(window) / window
    }

    fn reduce(&mut self, _now: Time, window: f64) -> f64 {
        window * (1.0 - decrease(window))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Drive;
    use super::*;

    #[test]
    fn increase_and_decrease_agree_with_the_table_of_rfc_3649() {
        // Appendix B: the largest window for which the integer a(w) is one less than the next row's, and b(w).
        for (w, a, b) in [
            (38.0, 1.0, 0.50),
            (118.0, 2.0, 0.44),
            (221.0, 3.0, 0.41),
            (347.0, 4.0, 0.38),
            (1058.0, 8.0, 0.33),
            (10_661.0, 30.0, 0.21),
            (84_035.0, 71.0, 0.10),
        ] {
            assert!((increase(w) - a).abs() < 0.02 * a + 0.3, "a({w}) = {}", increase(w));
            assert!((decrease(w) - b).abs() < 0.006, "b({w}) = {}", decrease(w));
        }
    }

    #[test]
    fn below_38_packets_it_is_standard_tcp() {
        let mut drive = Drive::at(HighSpeed, 30.0, 50);
        assert!((drive.round() - 31.0).abs() < 0.1);
        assert_eq!(drive.lose(), drive.law.window());
        let mut drive = Drive::at(HighSpeed, 20.0, 50);
        assert_eq!(drive.lose(), 10.0);
    }

    #[test]
    fn at_1058_packets_it_grows_by_8_and_falls_by_a_third() {
        let mut drive = Drive::at(HighSpeed, 1058.0, 50);
        assert!((drive.round() - 1066.0).abs() < 0.1, "{}", drive.law.window());
        let mut drive = Drive::at(HighSpeed, 1058.0, 50);
        assert!((drive.lose() - 1058.0 * (1.0 - 0.327)).abs() < 1.0, "{}", drive.law.window());
    }
}
