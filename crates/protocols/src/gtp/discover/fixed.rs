//! The rate that was told, whatever others do (PROTOCOL.md 7.8).

use inhaul_base::{Bitrate, Span, Time};

use super::bound::{Bound, DRAIN_MAX};
use super::found::{Found, Sample};
use super::judgement::{Judgement, Look, queue_threshold};
use super::member::{Group, Member};
use super::strain::Strain;
use crate::gtp::monitor::Interval;

/// Steps by which a path is asked for more begin with this part.
const STEP: f64 = 0.01;
/// A queue of so many packets is none.
const QUEUE_PACKETS: u64 = 2;

impl Found {
    /// Holds the rate that it is told from now on, or follows what is found.
    pub(in crate::gtp) fn hold_rate(&mut self, now: Time, holds: bool) {
        if holds == self.strain.is_some() {
            return;
        }
        self.strain = holds.then(Strain::default);
        self.leave_rivalry(now);
        self.path = Bound::default();
        self.forget_limit();
    }

    /// What is to be asked for, of a flow that is to have `target`.
    pub(in crate::gtp) fn made_up(&self, sample: &Sample, target: Bitrate) -> Bitrate {
        let of = self.strain.as_ref().filter(|_| !sample.is_stream && self.path.cap().is_none());
        of.map_or(target, |strain| target.mul_f64(strain.made_up()).min(sample.bound))
    }
}

/// A central interval of `interval` has ended: the paths that cannot carry what they are asked for are asked for what
/// they carry, and for a little more.
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
    // A queue is not yielded to, whoever fills it, and it is no delay of the path either.
    let testing = found.path.is_testing();
    let look = Look { now, threshold, alarmed: false, testing, probing: false, shy: true };
    let judged = Judgement::of(sample, found, seen, look);
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
        // What comes counts, not what is sent: a test that is lost is none.
        found.path.pass(judged.delivered, STEP);
    }
    found.estimate_by_path(sample);
}
