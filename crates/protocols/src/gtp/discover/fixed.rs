//! A given rate, held regardless of others (PROTOCOL.md 7.8).

use inhaul_base::{Bitrate, Span, Time};

use super::bound::{Bound, DRAIN_MAX};
use super::found::{Found, Sample};
use super::judgement::{Conditions, Judgement, queue_threshold};
use super::member::{Group, Member};
use super::strain::Strain;
use crate::gtp::monitor::Interval;

/// Steps by which a path is asked for more begin with this part.
const STEP: f64 = 0.01;
/// A queue of up to this many packets counts as none.
const QUEUE_PACKETS: u64 = 2;

impl Found {
    /// Holds the given rate from now on, or follows measured capacities.
    pub(in crate::gtp) fn hold_rate(&mut self, now: Time, holds: bool) {
        if holds == self.strain.is_some() {
            return;
        }
        self.strain = holds.then(Strain::default);
        self.leave_rivalry(now);
        self.path = Bound::default();
        self.forget_limit();
    }

    /// The rate to request, of a flow with the share `target`.
    pub(in crate::gtp) fn made_up(&self, sample: &Sample, target: Bitrate) -> Bitrate {
        let of = self.strain.as_ref().filter(|_| !sample.is_stream && self.path.cap().is_none());
        of.map_or(target, |strain| target.mul_f64(strain.made_up()).min(sample.bound))
    }
}

/// A central interval of `interval` has ended: paths that cannot carry the requested rate are asked for the rate that
/// they carry, and a little more.
pub(in crate::gtp) fn judge(now: Time, interval: Span, group: &mut Group<'_>) {
    let alone = group.running().count() == 1;
    let threshold = queue_threshold(group.told(), group.block_max(), QUEUE_PACKETS);
    for member in group.under_way_mut() {
        if let Some(seen) = member.interval {
            judge_member(now, interval, threshold, seen, alone, member);
        }
    }
}

fn judge_member(now: Time, interval: Span, threshold: Span, seen: Interval, alone: bool, member: &mut Member<'_>) {
    let Member { sample, found, .. } = member;
    // The flow does not yield to a queue, and the queue does not count as the path's delay.
    let testing = found.path.is_testing();
    let conditions = Conditions { now, threshold, alarmed: false, testing, probing: false, shy: true };
    let judged = Judgement::of(sample, found, seen, conditions);
    if judged.in_vain {
        found.path.forgive();
    }
    let borne = found
        .strain
        .as_mut()
        .is_none_or(|strain| !strain.on_interval(now, interval, judged.interval.loss, judged.excess));
    let achieved = found.judge_use(sample, judged.interval, judged.has_lost(), alone);
    if !borne {
        found.path.refute(judged.delivered, 0.0, DRAIN_MAX);
    } else if achieved && found.path_binds(sample) {
        // Arrivals count, not sent data: a test with losses is no success.
        found.path.pass(judged.delivered, STEP);
    }
    found.estimate_by_path(sample);
}
