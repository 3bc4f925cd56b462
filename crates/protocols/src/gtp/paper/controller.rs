//! SingleFlowController: the rate requested from one sender (gtp-2004 4.1).

use inhaul_base::Bitrate;

/// gtp-2004 4.1: "small step size (2 % per RTT)".
const STEP_UP: f64 = 0.02;
/// gtp-2004 4.1: the decrease is half the loss ratio ...
const LOSS_WEIGHT: f64 = 0.5;
/// ... and 12.5 % at most.
const DECREASE_MAX: f64 = 0.125;
/// Below this rate a flow would no longer notice that the path has recovered. Not in the paper.
const FLOOR: Bitrate = Bitrate::from_bps(200_000);

/// Adapts the requested rate once per RTT: proportional increase without loss, loss-proportional decrease, never above
/// the scheduler's target.
#[derive(Clone, Copy, Debug)]
pub struct SingleFlowController {
    requested: Bitrate,
    target: Bitrate,
}

impl SingleFlowController {
    /// A controller that asks for `target` from the start.
    pub fn new(target: Bitrate) -> Self {
        Self { requested: target, target }
    }

    /// A controller that continues from another one's `requested` rate, which is at most `target`.
    pub fn resume(requested: Bitrate, target: Bitrate) -> Self {
        Self { requested: requested.min(target), target }
    }

    /// Takes over a new target at once: the 2 % step is for climbing back after a loss (PROTOCOL.md 6.3).
    pub fn set_target(&mut self, target: Bitrate) {
        self.target = target;
        self.requested = target;
    }

    /// One RTT has passed, in which a part `loss` of the packets was lost.
    pub fn on_rtt(&mut self, loss: f64) {
        self.requested = if loss > 0.0 {
            self.requested.mul_f64(1.0 - (LOSS_WEIGHT * loss).min(DECREASE_MAX)).max(FLOOR.min(self.target))
        } else {
            self.requested.mul_f64(1.0 + STEP_UP).min(self.target)
        };
    }

    /// The rate to ask for (r_req).
    pub fn requested(&self) -> Bitrate {
        self.requested
    }

    /// The scheduler's target (r_target).
    pub fn target(&self) -> Bitrate {
        self.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_rtt_follows_the_papers_rule() {
        let mut sfc = SingleFlowController::new(Bitrate::from_mbps(100));
        sfc.on_rtt(0.1);
        assert_eq!(sfc.requested(), Bitrate::from_mbps(95));
        sfc.on_rtt(0.9);
        assert_eq!(sfc.requested(), Bitrate::from_bps(83_125_000)); // 12.5 % and no more
        sfc.on_rtt(0.0);
        assert_eq!(sfc.requested(), Bitrate::from_bps(84_787_500)); // 2 %
        for _ in 0..20 {
            sfc.on_rtt(0.0);
        }
        assert_eq!(sfc.requested(), Bitrate::from_mbps(100)); // never above the target
    }

    #[test]
    fn on_rtt_never_falls_silent() {
        let mut sfc = SingleFlowController::new(Bitrate::from_mbps(100));
        for _ in 0..1_000 {
            sfc.on_rtt(1.0);
        }
        assert_eq!(sfc.requested(), FLOOR);
    }

    /// Found by the model (tests/model), and by simulation (experiments/beyond/told-too-high): if the told C_r is too
    /// high, every RTT has losses, and a flow with more RTTs in an interval is cut more often. The estimate follows,
    /// and the near flow starves.
    #[test]
    fn on_rtt_cuts_the_near_flow_more_in_the_same_time() {
        let [mut near, mut far] = [SingleFlowController::new(Bitrate::from_mbps(50)); 2];
        for _ in 0..3 {
            far.on_rtt(0.03);
            (0..3).for_each(|_| near.on_rtt(0.03));
        }
        assert_eq!((far.requested().bps() / 10_000, near.requested().bps() / 10_000), (4_778, 4_364));
    }
}
