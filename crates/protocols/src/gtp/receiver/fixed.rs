//! The rate that was told, whatever others do (PROTOCOL.md 7.8).

use inhaul_base::{Bitrate, Span, Time};

use super::capacities::{judge_use, running, sum};
use super::flow::{Flow, Flows};
use super::judgement::{Judgement, Look, queue_threshold};
use super::strain::Strain;
use crate::gtp::bound::{Bound, DRAIN_MAX};
use crate::gtp::monitor::Interval;

/// Steps by which a path is asked for more begin with this part.
const STEP: f64 = 0.01;
/// A queue of so many packets is none.
const QUEUE_PACKETS: u64 = 2;
impl Flow {
    /// Holds the rate that it is told from now on, or follows what is found.
    pub(super) fn hold_rate(&mut self, now: Time, holds: bool) {
        if holds == self.strain.is_some() {
            return;
        }
        self.strain = holds.then(Strain::default);
        self.leave_rivalry(now);
        self.path = Bound::default();
        self.limited = false;
        self.fell_short = 0;
    }
}

/// A central interval of `interval` has ended: the paths that cannot carry what they are asked for are asked for what
/// they carry, and for a little more.
pub(super) fn judge(now: Time, interval: Span, flows: &mut Flows) {
    let asked = sum(running(flows).map(|flow| flow.told_rate));
    let block = running(flows).map(|flow| u64::from(flow.core.block)).max().unwrap_or(0);
    let alone = running(flows).count() == 1;
    let threshold = queue_threshold(asked, block, QUEUE_PACKETS);
    for (_, flow) in flows.awake_mut().filter(|(_, flow)| flow.is_under_way() && !flow.core.reliable) {
        let Some(seen) = flow.monitor.take_interval(now) else { continue };
        judge_flow(now, interval, threshold, seen, alone, flow);
    }
}

fn judge_flow(now: Time, interval: Span, threshold: Span, seen: Interval, alone: bool, flow: &mut Flow) {
    // A queue is not yielded to, whoever fills it, and it is no delay of the path either.
    let testing = flow.path.is_testing();
    let look = Look { now, threshold, alarmed: false, testing, probing: false, shy: true };
    let judged = Judgement::of(flow, seen, look);
    if judged.in_vain {
        flow.path.forgive();
    }
    let borne = flow
        .strain
        .as_mut()
        .is_none_or(|strain| !strain.on_interval(now, interval, judged.interval.loss, judged.excess));
    let achieved = judge_use(flow, judged.interval, judged.has_lost(), alone);
    if !borne {
        flow.path.refute(judged.delivered, 0.0, DRAIN_MAX);
    } else if achieved && flow.path_binds() {
        // What comes counts, not what is sent: a test that is lost is none.
        flow.path.pass(judged.delivered, STEP);
    }
    flow.estimate_by_path();
}

/// What is to be asked for, of a flow that is to have `target`.
pub(super) fn made_up(flow: &Flow, target: Bitrate) -> Bitrate {
    let of = flow.strain.as_ref().filter(|_| !flow.core.reliable && flow.path.cap().is_none());
    of.map_or(target, |strain| target.mul_f64(strain.made_up()).min(flow.known_bound()))
}
