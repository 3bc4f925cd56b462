//! A flow that competes: its window, and its use (PROTOCOL.md 7.7).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::FlowId;

use super::capacities::Capacities;
use super::cross_traffic::{DRAIN_PULSE, PULSE, Seen, Transition};
use super::found::{BINDS, Found, Sample};
use super::judgement::Judgement;
use super::member::{Group, Member, sum};
use super::policy::{Policy, Weight};
use super::shadow::Shadow;
use crate::gtp::wire::RATE_MAX;

/// The told rate is this much above the window's rate, so that only the window bounds the arrivals.
const AHEAD: f64 = 1.2;
/// A window is kept for so long when competing ends: it may begin again.
const WINDOW_KEPT: Span = Span::from_secs(10);
/// Changes of the rate by less than this part are not told.
const TOLD_CHANGE: f64 = 0.02;
/// A queue of at least this part of another's may be the same.
const SAME_QUEUE: f64 = 0.7;
/// Blocks that a window has at least.
const WINDOW_BLOCKS_MIN: u64 = 2;

impl Found {
    /// Begins to compete, for this part of the data set's share by its policy; `came` is the recent arrival rate, and
    /// `lost` whether packets were lost.
    fn enter_rivalry(&mut self, now: Time, sample: &Sample, (policy, part): (Policy, f64), came: Bitrate, lost: bool) {
        if !self.ambient.is_proven() {
            self.ambient.distrust(now, 0.0);
        }
        let (rtt, base) = (sample.rtt_now(), sample.base_rtt);
        let packets = |rate: Bitrate, rtt: Span| rate.bytes_in(rtt) as f64 / sample.packet as f64;
        let kept = self.rivalry.kept.filter(|(at, _)| now.since(*at) <= WINDOW_KEPT).map_or(0.0, |(_, window)| window);
        let window = packets(self.rivalry.calm, base).max(packets(came, rtt)).max(kept);
        // A flow with little demand gives the rest back at once.
        let window = window * policy.weight().min(1.0);
        let mut shadow = Shadow::new(now, window, (part, policy.weight()), sample.packets);
        if lost {
            shadow.cut(now, rtt, sample.reorder);
        }
        (self.rivalry.ease, self.rivalry.retell) = (1.0, true);
        self.rivalry.shadow = Some(shadow);
        self.order().drop_plans = true;
    }

    /// Ends to compete.
    pub(super) fn leave_rivalry(&mut self, now: Time) {
        if let Some(shadow) = self.rivalry.shadow.take() {
            self.rivalry.kept = Some((now, shadow.window()));
        }
        self.rivalry.share = None;
    }

    /// The window begins with `times` the flow's present rate. A flow that has a window is bounded by `most`.
    fn expect_more(&mut self, sample: &Sample, grown: f64, most: Bitrate) {
        let most = most.bytes_in(sample.rtt_now()) as f64 / sample.packet as f64;
        match &mut self.rivalry.shadow {
            Some(shadow) => shadow.bound(most),
            None => self.rivalry.calm = sample.told.mul_f64(grown),
        }
    }

    /// Others may be there: the path's values without them are kept, and the flow uses a part of its window from now
    /// on, or all of it.
    fn stand_beside(&mut self, pulse: bool) {
        self.order().keep_base = true;
        let ease = if pulse { PULSE } else { 1.0 };
        self.rivalry.retell |= self.rivalry.is_on() && ease != self.rivalry.ease;
        self.rivalry.ease = ease;
    }

    /// The rate that the window gives.
    pub(in crate::gtp) fn rivalry_rate(&self, sample: &Sample) -> Option<Bitrate> {
        let shadow = self.rivalry.shadow.as_ref()?;
        Some(shadow.rate(sample.packet, sample.rtt_now()).min(sample.bound))
    }

    /// The rate that the scheduler grants: less than its window if other flows of the receiver need the rest.
    pub(in crate::gtp) fn share_rivalry(&mut self, sample: &Sample, granted: Bitrate) {
        self.rivalry.share = self.rivalry_rate(sample).filter(|rate| granted < rate.mul_f64(BINDS)).map(|_| granted);
    }

    /// Blocks that may be outstanding, if it competes.
    pub(in crate::gtp) fn rivalry_blocks(&self) -> Option<u64> {
        let shadow = self.rivalry.shadow.as_ref()?;
        Some(((shadow.window() * self.rivalry.ease) as u64).max(WINDOW_BLOCKS_MIN))
    }

    /// An RTT has passed. True if the window was cut.
    pub(in crate::gtp) fn rivalry_tick(&mut self, now: Time, sample: &Sample) -> bool {
        let pulsed = self.rivalry.ease < 1.0;
        let Some(shadow) = &mut self.rivalry.shadow else { return false };
        let fed = shadow.take(now, sample.packets);
        // Loss that occurs at any rate is no congestion.
        let lost = fed.lost > 0 && (self.ambient.ratio == 0.0 || self.ambient.excess(fed.loss()) > 0.0);
        shadow.feed(now, fed, lost, sample.rtt_now(), sample.reorder, pulsed)
    }

    /// A flow that brings the same data set has seen congestion: the set is one TCP flow's worth, so this one has too.
    pub(in crate::gtp) fn cut_window(&mut self, now: Time, sample: &Sample) {
        if let Some(shadow) = &mut self.rivalry.shadow {
            shadow.cut(now, sample.rtt_now(), sample.reorder);
        }
    }

    /// The rate that it is told.
    pub(in crate::gtp) fn rivalry_target(&self, sample: &Sample) -> Bitrate {
        let rate = self.wanted(sample).mul_f64(AHEAD * self.rivalry.ease);
        rate.min(self.rivalry.share.unwrap_or(RATE_MAX)).min(sample.bound).min(RATE_MAX)
    }
}

/// Whether a window's rate differs so much from the told one that the sender must be told.
pub(in crate::gtp) fn is_news(rate: Bitrate, told: Bitrate) -> bool {
    (rate.as_f64() - told.as_f64()).abs() > TOLD_CHANGE * told.as_f64()
}

impl Capacities {
    /// Sees whether others fill the receiver's queue, and begins and ends to compete with them. True while that rules.
    pub(super) fn compete(&mut self, met: Seen, drain: f64, group: &mut Group<'_>) -> bool {
        let transition = self.cross_traffic.on_interval(met);
        let now = met.now;
        let rules = self.cross_traffic.is_competing() || transition != Transition::Stay;
        if transition == Transition::Enter {
            self.access.break_off();
            if met.cured {
                group.all_mut().for_each(|member| member.found.ambient.distrust(now, 0.0));
            }
            self.compete_all(now, met.lost, group);
        }
        for member in group.running_mut() {
            if let Transition::Leave { .. } = transition {
                member.found.leave_rivalry(now);
                member.estimate_by_path();
            }
            if rules {
                member.found.stand_beside(self.cross_traffic.is_pulsing());
            } else if !self.cross_traffic.is_suspected()
                && !member.found.rivalry.is_on()
                && let Some(judged) = member.judged
            {
                member.found.rivalry.calm = judged.delivered;
            }
        }
        match transition {
            Transition::Leave { full: true } => self.access.refute(met.came, drain, DRAIN_PULSE),
            Transition::Leave { full: false } => self.access.guess(met.came),
            Transition::Enter | Transition::Stay => {}
        }
        rules
    }

    /// The same for each flow's own path; `queue` is the flow's own queue.
    pub(super) fn compete_on_paths(
        &self,
        now: Time,
        threshold: Span,
        interval: Span,
        queue: impl Fn(&Judgement) -> Span,
        group: &mut Group<'_>,
    ) {
        let queues: Vec<_> =
            group.judged().map(|(member, judged)| (member.id, queue(judged), judged.delivered)).collect();
        for (member, judged) in group.judged_mut() {
            let Member { id, sample, found, .. } = member;
            let came = judged.delivered;
            let queue = queue(&judged);
            found.rivalry.meet(now, companions(*id, queue, threshold, &queues).map(|(other, ..)| *other));
            let others = queues.iter().filter(|(other, ..)| found.rivalry.is_companion(*other));
            let together = others.fold(came, |sum, (_, _, came)| sum.saturating_add(*came));
            let transition = found.rivalry.cross_traffic.on_interval(Seen {
                now,
                sent: came.mul_f64(1.0 / (1.0 - judged.interval.loss.min(0.9))),
                came,
                together,
                queue,
                threshold,
                lost: judged.has_lost(),
                testing: self.access.is_testing() || found.path.is_testing(),
                probing: self.probes.is_on(),
                cured: false,
            });
            match transition {
                Transition::Enter => found.enter_rivalry(now, sample, (self.policy(), 1.0), came, judged.has_lost()),
                Transition::Leave { full } => {
                    found.leave_rivalry(now);
                    if full {
                        found.path.refute(came, queue.as_secs_f64() / interval.as_secs_f64(), DRAIN_PULSE);
                    } else {
                        found.path.guess(came);
                    }
                    found.estimate_by_path(sample);
                }
                Transition::Stay => {}
            }
            if found.rivalry.cross_traffic.is_competing() || transition != Transition::Stay {
                found.stand_beside(found.rivalry.cross_traffic.is_pulsing());
            }
        }
    }

    /// Almost nothing was requested so far, and `more` times as much is requested from now on. The bounds show only the
    /// rate that others left: the flows compete for the rest.
    pub(super) fn contend(&mut self, now: Time, more: f64, group: &mut Group<'_>) {
        let count = group.running().count();
        if group.running().all(|member| member.sample.told == Bitrate::ZERO || member.found.overshoots_freely()) {
            return;
        }
        let paths_bind = group.running().all(|member| member.found.path_binds(&member.sample));
        let is_access = self.access.cap().is_some() && (count == 1 || !paths_bind);
        if is_access || self.cross_traffic.is_competing() {
            let (grown, most) = (more.min(self.cross_traffic.contend(now)), self.cross_traffic.most());
            self.access.break_off();
            for Member { sample, found, .. } in group.under_way_mut() {
                found.expect_more(sample, grown, most.mul_f64(1.0 / count as f64));
            }
            self.compete_all(now, false, group);
        } else if count > 1 {
            let bound = |found: &Found| found.path.limit().is_some() || found.rivalry.is_on();
            for Member { sample, found, .. } in group.under_way_mut().filter(|member| bound(member.found)) {
                let grown = more.min(found.rivalry.cross_traffic.contend(now));
                found.expect_more(sample, grown, found.rivalry.cross_traffic.most());
                if !found.rivalry.is_on() {
                    found.path.break_off();
                    found.enter_rivalry(now, sample, (self.policy(), 1.0), sample.told, false);
                }
            }
        }
    }

    /// Makes each flow compete that does not yet.
    pub(in crate::gtp) fn compete_all(&self, now: Time, lost: bool, group: &mut Group<'_>) {
        let objects: Vec<_> = group.running().map(|member| member.sample.object).collect();
        let rates: Vec<Bitrate> =
            group.running().filter_map(|member| member.found.rivalry_rate(&member.sample)).collect();
        let usual = (!rates.is_empty()).then(|| sum(rates.iter().copied()).mul_f64(1.0 / rates.len() as f64));
        for Member { sample, found, judged, .. } in group.running_mut().filter(|member| !member.found.rivalry.is_on()) {
            let brothers = objects.iter().filter(|object| **object == sample.object).count();
            let came = judged.map(|judged| judged.delivered).or(usual).unwrap_or(sample.told);
            found.enter_rivalry(now, sample, (self.policy(), 1.0 / brothers.max(1) as f64), came, lost);
        }
    }
}

/// Our other flows that see, beyond the receiver's queue, a queue as long as flow `id` does: they may share a link.
fn companions(
    id: FlowId,
    queue: Span,
    threshold: Span,
    queues: &[(FlowId, Span, Bitrate)],
) -> impl Iterator<Item = &(FlowId, Span, Bitrate)> {
    queues.iter().filter(move |(other, theirs, _)| {
        let (less, more) = (queue.min(*theirs), queue.max(*theirs));
        *other != id && less >= threshold && less >= more.mul_f64(SAME_QUEUE)
    })
}
