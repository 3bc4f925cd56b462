//! An interval's judgement of a flow: whether it is congested, and the rate that its narrowest link let through
//! (PROTOCOL.md 7.4).

use inhaul_base::{Bitrate, Span, Time};

use super::ambient::{LOSS_THRESHOLD, LOWER};
use super::found::{Found, Sample};
use crate::gtp::monitor::{Interval, Loss};

/// A queue that stands while more than this is lost is not foreign.
const FOREIGN_LOSS: f64 = 0.02;
/// A queue that stands through an interval and is longer than this means that the capacity is used up.
const QUEUE_THRESHOLD: Span = Span::from_millis(1);

/// A queue up to this length counts as none: if all flows together have `rate`, the time of this many of their largest
/// packets.
pub(super) fn queue_threshold(rate: Bitrate, block: u64, packets: u64) -> Span {
    if rate == Bitrate::ZERO { QUEUE_THRESHOLD } else { QUEUE_THRESHOLD.max(rate.time_for(packets * block)) }
}

/// The loss of the last RTT, as a part of the threshold of congestion.
pub(super) fn fresh_loss(sample: &Sample, found: &Found) -> f64 {
    found.ambient.excess(sample.recent_loss) / LOSS_THRESHOLD
}

/// An interval's judgement of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    pub(super) interval: Interval,
    /// The queue that stood.
    pub(super) queue: Span,
    /// The delivered data, as a sending rate.
    pub(super) delivered: Bitrate,
    /// A cut of the rate did not cut the loss.
    pub(super) in_vain: bool,
    /// Loss beyond the ambient one.
    pub(super) excess: f64,
}

/// How an interval is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) now: Time,
    /// How long a queue must be to count.
    pub(super) threshold: Span,
    /// Much was lost in the last RTT: earlier arrivals do not count.
    pub(super) alarmed: bool,
    /// More is asked for than is known to come through, so a queue that has only begun to stand counts.
    pub(super) testing: bool,
    /// Less is asked for, to see whose losses are.
    pub(super) probing: bool,
    /// Others may have the missing rate, so their queue is not part of the path.
    pub(super) shy: bool,
}

impl Judgement {
    /// The judgement of `interval`. Delay that is attributed to the path no longer counts as a queue.
    pub(super) fn of(sample: &mut Sample, found: &mut Found, mut interval: Interval, conditions: Conditions) -> Self {
        let Conditions { now, threshold, alarmed, testing, probing, shy } = conditions;
        let seen = Loss { ratio: interval.loss, packets: interval.packets };
        // Much loss and a queue are congestion, however often a cut of the rate was in vain.
        let whole = found.ambient.excess(seen) == 0.0 && seen.ratio < FOREIGN_LOSS;
        let all_came = whole && interval.total() >= sample.target.mul_f64(LOWER);
        if found.standing.is_foreign(now, interval.queue, threshold, all_came) && !shy {
            found.order().delay_is_base = Some(interval.queue);
            sample.recent_queue = sample.recent_queue.saturating_sub(interval.queue);
            interval.queue = Span::ZERO;
        }
        let fresh = if testing { sample.recent_queue } else { Span::ZERO };
        if probing {
            found.ambient.on_probe(seen);
        }
        let learns = !probing && interval.queue_mean < threshold;
        if learns && !testing {
            found.ambient.note(now, seen);
        }
        let in_vain = learns && found.ambient.learn(now, seen, interval.total());
        let delivered = if alarmed { interval.received.min(interval.recent) } else { interval.received };
        Self {
            interval,
            queue: interval.queue.max(fresh),
            delivered: delivered.mul_f64(1.0 / (1.0 - found.ambient_ratio())),
            in_vain,
            excess: found.ambient.excess(seen),
        }
    }

    /// Whether more was lost than is ambient.
    pub(super) fn has_lost(&self) -> bool {
        self.excess >= LOSS_THRESHOLD
    }

    /// The sending rate minus the loss beyond chance: the rate that the path has carried.
    pub(super) fn sent(&self) -> Bitrate {
        self.interval.total().mul_f64(1.0 - self.excess)
    }

    /// The rate that a congested path lets through: with a standing queue (`full`), or without one. Then the
    /// controller's own cuts may have left a part of the `target` unused.
    pub(super) fn capacity(&self, full: bool, target: Bitrate) -> Bitrate {
        if full { self.delivered } else { self.delivered.max(target.mul_f64(1.0 - self.excess)) }
    }
}
