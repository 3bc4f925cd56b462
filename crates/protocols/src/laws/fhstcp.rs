//! Fair HighSpeed TCP (fhstcp-2005): HighSpeed TCP whose growth is made independent of the round-trip time, with the
//! window sent in blocks. PROTOCOL.md section 7 names what the paper leaves open.

use inhaul_base::Time;
use inhaul_transport::{AckSample, Pace};

use super::highspeed::{decrease, increase};
use super::windowed::Avoidance;

/// Fair HighSpeed TCP.
#[derive(Clone, Copy, Debug)]
pub struct Fhstcp {
    /// The paper's c, per second.
    c: f64,
    /// Whether the window is sent in blocks.
    paced: bool,
    /// Blocks a round trip (the paper's k).
    blocks: u64,
}

impl Fhstcp {
    /// With fair factor `c` x RTT, and block pacing if `paced`.
    pub fn new(c: f64, paced: bool) -> Self {
        Self { c, paced, blocks: 1 }
    }
}

impl Avoidance for Fhstcp {
    fn grow(&mut self, window: f64, ack: &AckSample) -> f64 {
        let fair_factor = self.c * ack.smoothed_rtt.as_secs_f64();
        // Figure 1: "k = (int) c * RTT + 1", "avoid the increment larger than slow start".
        self.blocks = fair_factor as u64 + 1;
        window + ack.delivered_packets as f64 * (fair_factor * increase(window) / window).min(1.0)
    }

    fn reduce(&mut self, _now: Time, window: f64) -> f64 {
        window * (1.0 - decrease(window))
    }

    fn pace(&self) -> Pace {
        // One block is the window itself, which acknowledgements clock.
        if self.paced && self.blocks > 1 { Pace::Blocks(self.blocks) } else { Pace::Unpaced }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Drive;
    use super::*;
    use inhaul_transport::Law;

    #[test]
    fn the_window_grows_alike_at_every_round_trip_time() {
        // fhstcp-2005 section 2: "different flows can get the same w(t)". Two seconds at three round-trip times.
        let after: Vec<f64> = [50, 100, 200]
            .into_iter()
            .map(|rtt_ms| {
                let mut drive = Drive::at(Fhstcp::new(10.0, true), 1058.0, rtt_ms);
                drive.rounds(2_000 / rtt_ms)
            })
            .collect();
        // c * a(1058) = 80 packets a second to begin with; a(w) grows with w.
        assert!(after.iter().all(|w| (w / after[0] - 1.0).abs() < 0.005), "{after:?}");
        assert!((1218.0..1240.0).contains(&after[0]), "{after:?}");
    }

    #[test]
    fn the_increment_is_capped_at_one_packet_an_acknowledged_packet() {
        // c * RTT * a(w) / w = 10 x 20 s x 1 / 20 would be 10: the window may at most double.
        let mut drive = Drive::at(Fhstcp::new(10.0, true), 20.0, 20_000);
        assert_eq!(drive.round(), 40.0);
    }

    #[test]
    fn the_window_leaves_in_as_many_blocks_as_the_fair_factor_says() {
        // Figure 1: k = (int) c * RTT + 1.
        for (rtt_ms, pace) in
            [(80, Pace::Unpaced), (100, Pace::Blocks(2)), (140, Pace::Blocks(2)), (200, Pace::Blocks(3))]
        {
            let mut drive = Drive::at(Fhstcp::new(10.0, true), 500.0, rtt_ms);
            drive.round();
            assert_eq!(drive.law.limits().pace, pace, "{rtt_ms} ms");
        }
        let mut drive = Drive::at(Fhstcp::new(10.0, false), 500.0, 200);
        drive.round();
        assert_eq!(drive.law.limits().pace, Pace::Unpaced);
    }

    #[test]
    fn the_cut_is_highspeeds() {
        let mut drive = Drive::at(Fhstcp::new(10.0, true), 10_661.0, 100);
        assert!((drive.lose() / 10_661.0 - (1.0 - 0.207)).abs() < 0.001, "{}", drive.law.window());
    }
}
