//! CapacityEstimator: the rate that one flow could achieve (gtp-2004 4.2), exponential increase and loss-proportional
//! decrease.

use inhaul_base::Bitrate;

use crate::gtp::monitor::Interval;

/// gtp-2004 4.2: first and ordinary increment, as a part of the total rate.
const INCREMENT: f64 = 0.02;
/// gtp-2004 4.2: the flow has achieved its target when its total rate is at least this part of it.
const ACHIEVED: f64 = 0.95;
/// gtp-2004 4.2: "loss ratio is higher than 0.5 %".
const LOSS_THRESHOLD: f64 = 0.005;
/// gtp-2004 4.2: the decrease is half the loss ratio, 20 % at most.
const LOSS_WEIGHT: f64 = 0.5;
const DECREASE_MAX: f64 = 0.2;

/// Keeps the allowed increment of one flow's estimate from interval to interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapacityEstimator {
    increment: f64,
}

impl CapacityEstimator {
    /// One whose last increment was this, in bits per second: where another one stood.
    pub fn resume(increment: f64) -> Self {
        Self { increment }
    }

    /// The last increment, in bits per second; below zero after a loss.
    pub fn increment(&self) -> f64 {
        self.increment
    }

    /// The estimate (r_hat) after an interval in which the flow had `target`; at most `bound` = min(C_i, R_app,
    /// R_send).
    pub fn on_interval(&mut self, sample: Interval, target: Bitrate, bound: Bitrate) -> Bitrate {
        let total = sample.total().as_f64();
        self.increment = if sample.loss >= LOSS_THRESHOLD {
            -(LOSS_WEIGHT * sample.loss).min(DECREASE_MAX) * total
        } else if sample.loss > 0.0 || total < ACHIEVED * target.as_f64() {
            INCREMENT * total
        } else if self.increment <= 0.0 {
            // The paper doubles "if the increment is not 0"; doubling a decrease would go on falling without loss.
            INCREMENT * total
        } else {
            2.0 * self.increment
        };
        Bitrate::from_f64((total + self.increment).max(0.0)).min(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::Span;

    const TARGET: Bitrate = Bitrate::from_mbps(100);

    fn sample(received: u64, loss: f64) -> Interval {
        let received = Bitrate::from_mbps(received);
        Interval {
            received,
            loss,
            marked: 0.0,
            packets: 1_000,
            queue: Span::ZERO,
            queue_mean: Span::ZERO,
            dry: false,
            recent: received,
        }
    }

    #[test]
    fn on_interval_doubles_the_increment_while_the_target_is_achieved() {
        let mut ce = CapacityEstimator::default();
        let steps: Vec<_> =
            (0..4).map(|_| ce.on_interval(sample(100, 0.0), TARGET, Bitrate::MAX).bps() / 1_000_000).collect();
        assert_eq!(steps, [102, 104, 108, 116]);
    }

    #[test]
    fn on_interval_stays_close_when_the_target_is_not_achieved() {
        let mut ce = CapacityEstimator::default();
        ce.on_interval(sample(100, 0.0), TARGET, Bitrate::MAX);
        assert_eq!(ce.on_interval(sample(50, 0.0), TARGET, Bitrate::MAX), Bitrate::from_mbps(51));
    }

    #[test]
    fn on_interval_still_grows_below_half_a_percent_of_loss_and_falls_above() {
        let mut ce = CapacityEstimator::default();
        let slight = ce.on_interval(sample(100, 0.004), TARGET, Bitrate::MAX).as_f64();
        assert!((slight / (100e6 / 0.996 * 1.02) - 1.0).abs() < 1e-6);
        // 10 % lost: total 100, less 5 %.
        assert_eq!(ce.on_interval(sample(90, 0.1), TARGET, Bitrate::MAX), Bitrate::from_mbps(95));
        // 60 % lost: total 100, less 20 % and no more.
        assert_eq!(ce.on_interval(sample(40, 0.6), TARGET, Bitrate::MAX), Bitrate::from_mbps(80));
        // After a decrease the increment starts afresh.
        assert_eq!(ce.on_interval(sample(100, 0.0), TARGET, Bitrate::MAX), Bitrate::from_mbps(102));
    }

    #[test]
    fn on_interval_is_bounded_by_what_is_known() {
        let mut ce = CapacityEstimator::default();
        assert_eq!(ce.on_interval(sample(100, 0.0), TARGET, Bitrate::from_mbps(101)), Bitrate::from_mbps(101));
    }

    /// Found by the model (tests/model): a sender at its limit reaches 0.95 of targets that are up to 5 % above it, so
    /// its estimate grows to 8 % above its limit, over and over. Other flows lose as much.
    #[test]
    fn on_interval_grants_a_slow_sender_up_to_eight_percent_that_it_does_not_use() {
        let gives = Bitrate::from_mbps(30);
        let (mut ce, mut estimate) = (CapacityEstimator::default(), gives);
        let estimates: Vec<_> = (0..6)
            .map(|_| {
                // Its share is more: the target is the estimate.
                estimate = ce.on_interval(sample(gives.bps() / 1_000_000, 0.0), estimate, Bitrate::MAX);
                estimate.bps() / 1_000
            })
            .collect();
        assert_eq!(estimates, [30_600, 31_200, 32_400, 30_600, 31_200, 32_400]);
    }
}
