//! The rate that was told, whatever others do (PROTOCOL.md 7.8).

use inhaul_base::{Bitrate, Span, Time};

use super::capacities::{judge_use, running, sum};
use super::flow::{Flow, Flows};
use super::judgement::{Judgement, Look, queue_threshold};
use crate::gtp::bound::{Bound, DRAIN_MAX};
use crate::gtp::monitor::Interval;

/// Loss that is borne for ever.
const BORNE: f64 = 0.05;
/// More is borne until this much would have been lost of all that was sent in as long a time: 15 % for a second and a
/// half, or all for 150 ms.
const STRAIN_MAX: f64 = 0.15;
/// Steps by which a path is asked for more begin with this part.
const STEP: f64 = 0.01;
/// A queue of so many packets is none.
const QUEUE_PACKETS: u64 = 2;
/// What is lost is asked for on top of what was told, up to this part.
const MADE_UP_MAX: f64 = 0.05;
/// Of a new loss ratio so much counts at once.
const LOSS_GAIN: f64 = 0.25;

/// What a flow that holds its rate has lost beyond what is borne.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strain {
    /// Seconds in which all would have been lost.
    seconds: f64,
    judged: Option<Time>,
    /// The smoothed part of what was sent that was lost.
    loss: f64,
}

impl Strain {
    /// An interval of `span` has ended. `loss` of what was sent was lost, `excess` of that is not ambient. Whether that is
    /// more than can be borne.
    fn on_interval(&mut self, now: Time, span: Span, loss: f64, excess: f64) -> bool {
        let passed = self.judged.replace(now).map_or(span, |at| now.since(at)).as_secs_f64();
        self.seconds = (self.seconds + (excess - BORNE) * passed).max(0.0);
        self.loss += LOSS_GAIN * (loss - self.loss);
        let is_too_much = self.seconds > STRAIN_MAX;
        if is_too_much {
            (self.seconds, self.loss) = (0.0, 0.0);
        }
        is_too_much
    }

    /// So many times as much is asked for as is to come, because some is lost.
    pub(super) fn made_up(&self) -> f64 {
        // In whole percents: each change of a rate is measured anew.
        1.0 + ((100.0 * self.loss / (1.0 - self.loss.min(0.5))).round() / 100.0).clamp(0.0, MADE_UP_MAX)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(50);

    /// Intervals until this loss is too much.
    fn bears(loss: f64, most: u64) -> Option<u64> {
        let mut strain = Strain::default();
        (1..=most).find(|k| strain.on_interval(Time::ZERO + INTERVAL * *k, INTERVAL, loss, loss))
    }

    #[test]
    fn little_loss_is_borne_for_ever_and_much_not_for_long() {
        assert_eq!(bears(0.04, 10_000), None);
        assert_eq!(bears(0.15, 100), Some(31)); // 0.1 of 1.5 s
        assert_eq!(bears(0.88, 100), Some(4)); // a link of 100 Mbit/s, told 850
    }

    #[test]
    fn loss_is_made_up_for_by_some_percents() {
        let mut strain = Strain::default();
        assert_eq!(strain.made_up(), 1.0);
        (1..50).for_each(|k| _ = strain.on_interval(Time::ZERO + INTERVAL * k, INTERVAL, 0.02, 0.0));
        assert_eq!(strain.made_up(), 1.02);
        (50..200).for_each(|k| _ = strain.on_interval(Time::ZERO + INTERVAL * k, INTERVAL, 0.3, 0.0));
        assert_eq!(strain.made_up(), 1.0 + MADE_UP_MAX);
    }
}
