//! A flow that competes: its window, and what it does with it (PROTOCOL.md 7.7).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::FlowId;

use super::capacities::{Capacities, judged, running, sum};
use super::company::{DRAIN_PULSE, PULSE, Seen, Turn};
use super::flow::{BINDS, Flow, Flows, Tick};
use super::judgement::Judgement;
use super::policy::{Policy, Weight};
use super::shadow::Shadow;
use crate::gtp::wire::{OwnMessage, RATE_MAX};

/// The rate that is told is so much above what the window gives, so that the window bounds what comes.
const AHEAD: f64 = 1.2;
/// A window is kept for so long when competing ends: it may begin again.
const WINDOW_KEPT: Span = Span::from_secs(10);
/// Changes of the rate by less than this part are not told.
const TOLD_CHANGE: f64 = 0.02;
/// A queue of at least this part of another's may be the same.
const SAME_QUEUE: f64 = 0.7;
/// Blocks that a window has at least.
const WINDOW_BLOCKS_MIN: u64 = 2;

impl Flow {
    /// The RTT as it is now, queue included.
    pub(super) fn rtt_now(&self) -> Span {
        self.base_rtt() + self.monitor.recent_queue()
    }

    fn packet(&self) -> u64 {
        u64::from(self.core.block) + self.core.overhead()
    }

    fn seen(&self) -> (u64, u64) {
        (self.monitor.received_packets, self.monitor.lost_packets)
    }

    /// Begins to compete, for this part of what the policy gives a data set; `came` is what came of late, and `lost`
    /// whether some was lost.
    pub(super) fn enter_rivalry(&mut self, now: Time, (policy, part): (Policy, f64), came: Bitrate, lost: bool) {
        let packet = self.packet();
        if !self.ambient.is_proven() {
            self.ambient.distrust(now, 0.0);
        }
        let (rtt, base) = (self.rtt_now(), self.base_rtt());
        let packets = |rate: Bitrate, rtt: Span| rate.bytes_in(rtt) as f64 / packet as f64;
        let kept = self.rivalry.kept.filter(|(at, _)| now.since(*at) <= WINDOW_KEPT).map_or(0.0, |(_, window)| window);
        let window = packets(self.rivalry.calm, base).max(packets(came, rtt)).max(kept);
        // Who wants little gives the rest back at once.
        let window = window * policy.weight().min(1.0);
        let mut shadow = Shadow::new(now, window, (part, policy.weight()), self.seen());
        if lost {
            shadow.cut(now, rtt, self.reorder_window());
        }
        (self.rivalry.ease, self.rivalry.retell) = (1.0, true);
        self.rivalry.shadow = Some(shadow);
        self.pending_targets.clear();
    }

    /// Ends to compete.
    pub(super) fn leave_rivalry(&mut self, now: Time) {
        if let Some(shadow) = self.rivalry.shadow.take() {
            self.rivalry.kept = Some((now, shadow.window()));
        }
        self.rivalry.share = None;
    }

    /// The window is to begin with so many times as much as the flow has now, or is bounded by `most`, if it has one.
    fn expect_more(&mut self, grown: f64, most: Bitrate) {
        let most = most.bytes_in(self.rtt_now()) as f64 / self.packet() as f64;
        match &mut self.rivalry.shadow {
            Some(shadow) => shadow.bound(most),
            None => self.rivalry.calm = self.told_rate.mul_f64(grown),
        }
    }

    /// Asks for a part of its window from now on.
    pub(super) fn ease_rivalry(&mut self, pulse: bool) {
        let ease = if pulse { PULSE } else { 1.0 };
        self.rivalry.retell |= self.rivalry.is_on() && ease != self.rivalry.ease;
        self.rivalry.ease = ease;
    }

    /// The rate that the window gives.
    pub(super) fn rivalry_rate(&self) -> Option<Bitrate> {
        let shadow = self.rivalry.shadow.as_ref()?;
        Some(shadow.rate(self.packet(), self.rtt_now()).min(self.known_bound()))
    }

    /// The scheduler grants it so much: less than its window where others of the receiver need the rest.
    pub(super) fn share_rivalry(&mut self, granted: Bitrate) {
        self.rivalry.share = self.rivalry_rate().filter(|rate| granted < rate.mul_f64(BINDS)).map(|_| granted);
    }

    /// Blocks that may be outstanding, if it competes.
    pub(super) fn rivalry_blocks(&self) -> Option<u64> {
        let shadow = self.rivalry.shadow.as_ref()?;
        Some(((shadow.window() * self.rivalry.ease) as u64).max(WINDOW_BLOCKS_MIN))
    }

    /// An RTT has passed.
    pub(super) fn rivalry_tick(&mut self, now: Time) -> Tick {
        let (seen, rtt, reorder) = (self.seen(), self.rtt_now(), self.reorder_window());
        let pulsed = self.rivalry.ease < 1.0;
        let mut cut = false;
        if let Some(shadow) = &mut self.rivalry.shadow {
            let fed = shadow.take(now, seen);
            // What the link loses whatever the rate is no congestion.
            let lost = fed.lost > 0 && (self.ambient.ratio == 0.0 || self.ambient.excess(fed.loss()) > 0.0);
            cut = shadow.feed(now, fed, lost, rtt, reorder, pulsed);
        }
        let message = self.rivalry_message();
        Tick { loss: 0.0, message, cut }
    }

    /// The message that tells the rate of the window, if it has changed.
    fn rivalry_message(&mut self) -> Option<OwnMessage> {
        let rate = self.rivalry_target();
        self.controller.set_target(rate);
        let change = (rate.as_f64() - self.told_rate.as_f64()).abs();
        (change > TOLD_CHANGE * self.told_rate.as_f64()).then(|| self.tell_rate(rate, false))
    }

    /// The rate that is told to it.
    pub(super) fn rivalry_target(&self) -> Bitrate {
        let rate = self.rivalry_rate().unwrap_or(self.estimate).mul_f64(AHEAD * self.rivalry.ease);
        rate.min(self.rivalry.share.unwrap_or(RATE_MAX)).min(self.known_bound()).min(RATE_MAX)
    }
}

impl Capacities {
    /// Sees whether others fill the receiver's queue, and begins and ends to compete with them. True while that rules.
    pub(super) fn compete(&mut self, met: Seen, drain: f64, seen: &[(FlowId, Judgement)], flows: &mut Flows) -> bool {
        let turn = self.company.on_interval(met);
        let now = met.now;
        let rules = self.company.is_competing() || turn != Turn::Stay;
        if turn == Turn::Enter {
            self.access.break_off();
            if met.cured {
                flows.awake_mut().for_each(|(_, flow)| flow.ambient.distrust(now, 0.0));
            }
            self.compete_all(now, met.lost, seen, flows);
        }
        for (id, flow) in flows.awake_mut().filter(|(_, flow)| flow.is_running() && !flow.core.reliable) {
            if let Turn::Leave { .. } = turn {
                flow.leave_rivalry(now);
                flow.estimate_by_path();
            }
            if rules {
                flow.monitor.keep_base(now);
                flow.ease_rivalry(self.company.is_pulsing());
            } else if !self.company.is_suspected()
                && !flow.rivalry.is_on()
                && let Some(judged) = judged(seen, id)
            {
                flow.rivalry.calm = judged.delivered;
            }
        }
        match turn {
            Turn::Leave { full: true } => self.access.refute(met.came, drain, DRAIN_PULSE),
            Turn::Leave { full: false } => self.access.guess(met.came),
            Turn::Enter | Turn::Stay => {}
        }
        rules
    }

    /// The same for each flow's own path; `queue` is what a flow saw of its own.
    pub(super) fn compete_on_paths(
        &self,
        now: Time,
        threshold: Span,
        interval: Span,
        queue: impl Fn(&Judgement) -> Span,
        seen: &[(FlowId, Judgement)],
        flows: &mut Flows,
    ) {
        let queues: Vec<_> = seen.iter().map(|(id, judged)| (*id, queue(judged), judged.delivered)).collect();
        for (id, judged) in seen {
            let Some(flow) = flows.get_mut(id) else { continue };
            let came = judged.delivered;
            let queue = queue(judged);
            flow.rivalry.meet(now, companions(*id, queue, threshold, &queues).map(|(other, ..)| *other));
            let others = queues.iter().filter(|(other, ..)| flow.rivalry.is_companion(*other));
            let together = others.fold(came, |sum, (_, _, came)| sum.saturating_add(*came));
            let turn = flow.rivalry.company.on_interval(Seen {
                now,
                sent: came.mul_f64(1.0 / (1.0 - judged.interval.loss.min(0.9))),
                came,
                together,
                queue,
                threshold,
                lost: judged.has_lost(),
                testing: self.access.is_testing() || flow.path.is_testing(),
                probing: self.probes.is_on(),
                cured: false,
            });
            match turn {
                Turn::Enter => flow.enter_rivalry(now, (self.policy(), 1.0), came, judged.has_lost()),
                Turn::Leave { full } => {
                    flow.leave_rivalry(now);
                    if full {
                        flow.path.refute(came, queue.as_secs_f64() / interval.as_secs_f64(), DRAIN_PULSE);
                    } else {
                        flow.path.guess(came);
                    }
                    flow.estimate_by_path();
                }
                Turn::Stay => {}
            }
            if flow.rivalry.company.is_competing() || turn != Turn::Stay {
                flow.monitor.keep_base(now);
                flow.ease_rivalry(flow.rivalry.company.is_pulsing());
            }
        }
    }

    /// Next to nothing was asked for so far, and `more` times as much is from now on. What bounds say is what others left:
    /// the rest is competed for.
    pub(super) fn contend(&mut self, now: Time, more: f64, flows: &mut Flows) {
        let count = running(flows).count();
        if running(flows).all(|flow| !flow.is_under_way() || flow.overshoots_freely()) {
            return;
        }
        let is_access = self.access.cap().is_some() && (count == 1 || !running(flows).all(Flow::path_binds));
        if is_access || self.company.is_competing() {
            let (grown, most) = (more.min(self.company.contend(now)), self.company.most());
            self.access.break_off();
            for (_, flow) in flows.awake_mut().filter(|(_, flow)| flow.is_under_way() && !flow.core.reliable) {
                flow.expect_more(grown, most.mul_f64(1.0 / count as f64));
            }
            self.compete_all(now, false, &[], flows);
        } else if count > 1 {
            let bound = |flow: &Flow| flow.path.limit().is_some() || flow.rivalry.is_on();
            let under_way = |flow: &Flow| flow.is_under_way() && !flow.core.reliable;
            for (_, flow) in flows.awake_mut().filter(|(_, flow)| under_way(flow) && bound(flow)) {
                let grown = more.min(flow.rivalry.company.contend(now));
                flow.expect_more(grown, flow.rivalry.company.most());
                if !flow.rivalry.is_on() {
                    flow.path.break_off();
                    flow.enter_rivalry(now, (self.policy(), 1.0), flow.told_rate, false);
                }
            }
        }
    }

    /// Has each flow that does not yet compete do so.
    pub(super) fn compete_all(&self, now: Time, lost: bool, seen: &[(FlowId, Judgement)], flows: &mut Flows) {
        let objects: Vec<_> = running(flows).map(|flow| flow.core.join.object).collect();
        let rates: Vec<Bitrate> = running(flows).filter_map(Flow::rivalry_rate).collect();
        let usual = (!rates.is_empty()).then(|| sum(rates.iter().copied()).mul_f64(1.0 / rates.len() as f64));
        let new = |flow: &Flow| flow.is_running() && !flow.core.reliable && !flow.rivalry.is_on();
        for (id, flow) in flows.awake_mut().filter(|(_, flow)| new(flow)) {
            let brothers = objects.iter().filter(|object| **object == flow.core.join.object).count();
            let came = judged(seen, id).map(|judged| judged.delivered).or(usual).unwrap_or(flow.told_rate);
            flow.enter_rivalry(now, (self.policy(), 1.0 / brothers.max(1) as f64), came, lost);
        }
    }
}

/// Those of our other flows that see a queue as long as flow `id` does beyond the receiver's: they may share a place.
pub(super) fn companions(
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

/// Flow `id` has seen congestion: flows that bring the same data set are one TCP flow's worth, so they have too.
pub(super) fn cut_siblings(now: Time, id: FlowId, flows: &mut Flows) {
    let Some(object) = flows.get(&id).map(|flow| flow.core.join.object) else { return };
    for (_, flow) in flows.awake_mut().filter(|(other, flow)| **other != id && flow.core.join.object == object) {
        let (rtt, reorder) = (flow.rtt_now(), flow.reorder_window());
        if let Some(shadow) = &mut flow.rivalry.shadow {
            shadow.cut(now, rtt, reorder);
        }
    }
}
