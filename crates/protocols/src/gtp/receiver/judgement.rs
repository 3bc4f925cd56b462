//! What an interval says of a flow: whether it is congested, and what the narrowest place on its way let through. Loss and
//! delay that the rate is not to blame for are told apart here (PROTOCOL.md 7.4).

use inhaul_base::{Bitrate, Span, Time};

use super::central::BINDS;
use super::flow::Flow;
use crate::gtp::{Interval, MARGIN};

/// The ambient loss ratio is forgiven with this much on top.
const AMBIENT_SLACK: f64 = 1.3;
/// A queue still stands when this part of it is left, ...
const STANDING_PART: f64 = 0.75;
/// ... though the search's margin drains this much of each second.
const DRAIN_RATE: f64 = 1.0 - MARGIN;
/// A queue that stands through an interval and is longer than this means that the capacity is used up.
const QUEUE_THRESHOLD: Span = Span::from_millis(1);
/// gtp-2004 4.2: loss ratio above which the estimate falls.
pub(super) const LOSS_THRESHOLD: f64 = 0.005;

/// Loss that does not depend on the rate: of a bad link, not of a full one. Learnt when a cut of the rate does not cut the loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AmbientLoss {
    ratio: f64,
    last: Option<(f64, Bitrate)>,
}

impl AmbientLoss {
    /// The part of a loss ratio that the rate is to blame for.
    pub(super) fn excess(&self, loss: f64) -> f64 {
        (loss - AMBIENT_SLACK * self.ratio).max(0.0)
    }

    /// An interval with a loss ratio and no queue, at a total rate.
    fn learn(&mut self, loss: f64, rate: Bitrate) {
        if loss < self.ratio {
            self.ratio = loss;
        } else if let Some((before, at)) = self.last
            && rate < at.mul_f64(BINDS)
            && loss > before / 2.0
        {
            self.ratio += (loss - self.ratio) / 2.0;
        }
        self.last = (loss >= LOSS_THRESHOLD).then_some((loss, rate));
    }
}

/// A queue this long is none: two packets of a slow flow are not.
fn queue_threshold(flow: &Flow) -> Span {
    QUEUE_THRESHOLD.max(flow.told_rate.time_for(2 * u64::from(flow.block)))
}

/// Signs of congestion over the last RTT, as a part of what counts as congestion.
pub(super) fn fresh_pressure(flow: &Flow) -> f64 {
    let (queue, loss) = flow.monitor.recent_signs();
    let queue = queue.as_secs_f64() / queue_threshold(flow).as_secs_f64();
    queue.max(flow.ambient.excess(loss) / LOSS_THRESHOLD)
}

/// A queue that stands though everything sent comes through and the rate is below what came through with it. If the rate were
/// to blame it would drain; if it does not, it is a delay of somebody else's making (a host that schedules the receiver
/// late, a rival's queue), and no reason to slow down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StandingQueue {
    first: Span,
    should_have_drained: Span,
    judged: Time,
}

impl StandingQueue {
    /// An interval ended with this queue, above `threshold` or not; whether everything `sent` came through. True when the
    /// queue is not of our making.
    fn is_foreign(&mut self, now: Time, queue: Span, threshold: Span, all_came: bool) -> bool {
        let passed = now.since(std::mem::replace(&mut self.judged, now));
        if queue <= threshold || queue < self.first.mul_f64(STANDING_PART) || self.first == Span::ZERO {
            *self = Self {
                first: if queue > threshold { queue } else { Span::ZERO },
                should_have_drained: Span::ZERO,
                judged: now,
            };
            return false;
        }
        if all_came {
            self.should_have_drained = self.should_have_drained + passed.mul_f64(DRAIN_RATE);
        }
        let foreign = self.should_have_drained > self.first / 2;
        if foreign {
            *self = Self { judged: now, ..Self::default() };
        }
        foreign
    }
}

/// What an interval says of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    pub(super) interval: Interval,
    /// Standing queue and loss, each as a part of what counts as congestion; the larger of the two.
    pressure: f64,
    /// What the narrowest place let through, counted as a sending rate.
    pub(super) capacity: Bitrate,
    /// What was sent and lost beyond what is ambient, as a rate.
    pub(super) overflow: Bitrate,
}

impl Judgement {
    pub(super) fn of(now: Time, flow: &mut Flow, mut interval: Interval, alarmed: bool) -> Self {
        let threshold = queue_threshold(flow);
        let whole = flow.ambient.excess(interval.loss) == 0.0;
        let all_came = whole && interval.total() >= flow.controller.target().mul_f64(BINDS);
        if flow.standing.is_foreign(now, interval.queue, threshold, all_came) {
            flow.monitor.take_delay_as_base(interval.queue);
            interval.queue = Span::ZERO;
        }
        let queue = interval.queue.as_secs_f64() / threshold.as_secs_f64();
        if interval.queue_mean < threshold {
            flow.ambient.learn(interval.loss, interval.total());
        }
        let loss = flow.ambient.excess(interval.loss);
        let delivered = if alarmed { interval.received.min(interval.recent) } else { interval.received };
        let delivered = delivered.mul_f64(1.0 / (1.0 - flow.ambient.ratio.min(0.9)));
        // Without a queue that stood throughout, the controller's own cuts may have left capacity unused.
        let unused = flow.controller.target().mul_f64(1.0 - loss);
        // A sender ran dry: either it could have sent more, or it is the window that fills the queue.
        let full = (queue >= 1.0 || alarmed) && (!interval.dry || flow.window_bound);
        let capacity = if full { delivered } else { delivered.max(unused) };
        let overflow = interval.total().mul_f64(loss);
        Self { interval, pressure: queue.max(loss / LOSS_THRESHOLD), capacity, overflow }
    }

    /// Whether more was lost than is ambient.
    pub(super) fn has_lost(&self) -> bool {
        self.overflow >= self.interval.total().mul_f64(LOSS_THRESHOLD)
    }

    pub(super) fn is_congested(&self) -> bool {
        self.pressure >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn ambient_loss_is_what_a_lower_rate_does_not_cure() {
        let mut ambient = AmbientLoss::default();
        let mut rate = 1000.0;
        for _ in 0..6 {
            ambient.learn(0.05, Bitrate::from_f64(rate));
            rate *= 0.98;
        }
        assert_eq!(ambient.excess(0.05), 0.0);
        assert!(ambient.excess(0.2) > 0.1);
        // It heals at once.
        ambient.learn(0.0, Bitrate::from_f64(rate));
        assert_eq!(ambient.excess(0.05), 0.05);
    }

    #[test]
    fn ambient_loss_is_not_learnt_from_loss_that_a_lower_rate_cures() {
        let mut ambient = AmbientLoss::default();
        ambient.learn(0.05, Bitrate::from_mbps(1000));
        ambient.learn(0.01, Bitrate::from_mbps(980));
        assert_eq!(ambient.excess(0.05), 0.05);
    }

    #[test]
    fn a_queue_that_drains_is_ours_and_one_that_does_not_is_foreign() {
        let (ms, threshold) = (Span::from_micros(1_000), Span::from_millis(1));
        let mut queue = StandingQueue::default();
        // 4 ms, draining by 1.5 % of the time that passes.
        let drains = (0..40).any(|k| {
            let left = Span::from_nanos(4_000_000u64.saturating_sub(k * 300_000));
            queue.is_foreign(at(k * 20), left, threshold, true)
        });
        assert!(!drains);
        let mut queue = StandingQueue::default();
        let forgiven = (0..40).position(|k| queue.is_foreign(at(k * 20), ms * 4, threshold, true));
        assert_eq!(forgiven, Some(7)); // 7 x 20 ms at 1.5 % are more than half of 4 ms
    }

    #[test]
    fn a_queue_is_ours_while_more_is_sent_than_comes_through() {
        let mut queue = StandingQueue::default();
        let four = Span::from_millis(4);
        assert!(!(0..100).any(|k| queue.is_foreign(at(k * 20), four, Span::from_millis(1), false)));
    }
}
