//! Control across flows, once per central interval: estimates, max-min fair targets, transitions (gtp-2004 4.2
//! to 4.4).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::kit::max_min;
use inhaul_transport::{CommandError, FlowId, HeldBy, Pause, TcpFlows};

use super::flow::{Flow, Flows, Phase, group, group_after_interval, obey};
use super::held_by;
use crate::gtp::discover::{BINDS, Bound, Burst, Capacities, INTERVAL_MIN, PROBE, Policy, Times, judge_fixed};
use crate::gtp::wire::{OwnMessage, RATE_MAX};

/// gtp-2004 4.2: "by default, we set it as three RTTmax".
const INTERVAL_RTTS: u64 = 3;
/// Targets that move by less than this part are left alone.
const TARGET_CHANGE: f64 = 0.001;
/// No capacity is tested for this many intervals after data was held.
const HELD_INTERVALS: u64 = 4;
/// The host's capacity is followed in steps of this part.
const HOST_CHANGE: f64 = 0.02;
/// The rate that a sender-limited flow is asked for leaves it this much room, so that the end of the limit shows at
/// once. Not in the paper, where 2 % is all the room there is: a sender whose processor is taken away now and then
/// would spiral down.
const LIMITED_ROOM: f64 = 1.25;

/// How rates are controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gtp) enum Control {
    /// Capacities are found (PROTOCOL.md 7).
    Discover,
    /// gtp-2004 to the letter: capacities are given.
    Paper,
    /// The rate of the receiver is given, and held (PROTOCOL.md 7.8).
    Fixed,
}

/// The central control of a receiver.
#[derive(Debug)]
pub(super) struct Central {
    control: Control,
    given: Option<Bitrate>,
    /// The host's present capacity, as it reports it.
    host: Option<Bitrate>,
    socket_buffer: u64,
    capacities: Capacities,
    /// When the central interval ends, and its planned length.
    due: Option<Time>,
    interval: Span,
    /// When the last one ended.
    ended: Time,
    /// When the targets that were set last show at the receiver: no later ones may before.
    shows: Time,
    /// Rates of the flows that ended since the last interval (C_l).
    left: Bitrate,
    retimed: Vec<FlowId>,
    held: Held,
}

/// How long data was held so far: arrivals are measured over the rest of the time.
#[derive(Debug, Default)]
struct Held {
    before: Span,
    last: Option<Pause>,
}

impl Held {
    fn begin(&mut self, pause: Pause) {
        let last = self.last.replace(pause);
        let ended = last.map(|last| last.end().min(pause.start.max(last.start)).since(last.start));
        self.before = self.before + ended.unwrap_or_default();
    }

    /// Whether data was held less than some intervals ago.
    fn is_recent(&self, now: Time, interval: Span) -> bool {
        self.last.is_some_and(|last| now < last.end() + interval * HELD_INTERVALS)
    }

    /// The time without that in which data was held.
    fn active(&self, now: Time) -> Time {
        let last = self.last.map_or(Span::ZERO, |last| now.min(last.end()).since(last.start));
        Time::from_nanos(now.as_nanos().saturating_sub((self.before + last).as_nanos()))
    }
}

impl Central {
    pub(super) fn new(control: Control, policy: Policy, given: Option<Bitrate>, socket_buffer: u64) -> Self {
        Self {
            control,
            given,
            host: None,
            socket_buffer,
            capacities: Capacities::new(policy),
            due: None,
            interval: INTERVAL_MIN,
            ended: Time::ZERO,
            shows: Time::ZERO,
            left: Bitrate::ZERO,
            retimed: Vec::new(),
            held: Held::default(),
        }
    }

    /// C_r: the given value, or less if the measured bound or the host's present capacity is less.
    pub(super) fn capacity(&self) -> Option<Bitrate> {
        self.given.into_iter().chain(self.host).chain(self.capacities.limit()).min()
    }

    /// What holds the flows that share this capacity.
    fn holder(&self, capacity: Option<Bitrate>) -> HeldBy {
        if capacity.is_some() && capacity == self.given { HeldBy::Policy } else { HeldBy::Receiver }
    }

    /// When the central interval ends.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Flows whose timers have changed.
    pub(super) fn take_retimed(&mut self) -> Vec<FlowId> {
        std::mem::take(&mut self.retimed)
    }

    // --- Transitions ------------------------------------------------------------------------------------------------

    /// The path of flow `id` is open. Returns the message that sets its first rate, if that is not the scheduler's to
    /// say.
    pub(super) fn on_open(&mut self, now: Time, id: FlowId, flows: &mut Flows) -> Option<OwnMessage> {
        let trains = flows.awake().filter(|(_, flow)| matches!(flow.phase, Phase::Train { .. })).count();
        let flow = flows.get_mut(&id)?;
        if self.control == Control::Discover
            && !flow.core.reliable
            && let Some(blocks) = self.capacities.train_blocks(&flow.sample(), self.capacity(), trains)
        {
            flow.phase = Phase::Train { blocks, after: flow.requests.last_id() };
            // It may be a new path: losses of the old one do not describe it.
            flow.found.path = Bound::default();
            flow.monitor.watch_bursts();
            return Some(flow.tell_rate(RATE_MAX, true));
        }
        flow.found.hold_rate(now, self.control == Control::Fixed);
        if self.control == Control::Paper {
            flow.found.judge_by_the_paper();
        }
        // gtp-2004 4.4: a new flow's estimate is its known bound.
        flow.phase = Phase::Steady;
        flow.found.estimate = flow.known_bound();
        flow.measured = true;
        self.schedule(now, flows);
        None
    }

    /// A burst that measures the path has come. Returns the message for another one if this one was too short to tell.
    pub(super) fn on_train(&mut self, now: Time, id: FlowId, flows: &mut Flows) -> Option<OwnMessage> {
        let flow = flows.get_mut(&id)?;
        let Phase::Train { blocks, .. } = flow.phase else { return None };
        flow.monitor.end_train();
        let lost = flow.monitor.take_burst_loss(now).unwrap_or_default();
        let burst = Burst { blocks, seen: flow.monitor.dispersion(), lost, rtt: flow.rtt() };
        let longer = self.capacities.on_train(id, burst, &mut group(flows));
        let flow = flows.get_mut(&id)?;
        if let Some(blocks) = longer {
            flow.phase = Phase::Train { blocks, after: flow.requests.last_id() };
            return Some(flow.tell_rate(RATE_MAX, true));
        }
        flow.phase = Phase::Steady;
        flow.measured = true;
        flow.monitor.ignore_bursts();
        // The rate of the bursts is not to be used for anything else.
        flow.told_rate = Bitrate::ZERO;
        self.schedule(now, flows);
        None
    }

    /// A flow that had `target` has ended. It goes to the others (gtp-2004 4.4) at the end of the interval; when rates
    /// are ours to find, at once.
    pub(super) fn on_leave(&mut self, now: Time, target: Bitrate, flows: &mut Flows) {
        match self.control {
            Control::Paper => self.left = self.left.saturating_add(target),
            Control::Discover => {
                self.capacities.on_leave(&mut group(flows));
                self.schedule(now, flows);
            }
            Control::Fixed => self.schedule(now, flows),
        }
    }

    /// A flow's sender no longer limits it to `before`. Measurements under the limit show only that rate: if nothing
    /// else bounds the flow, its path is known to carry just that rate.
    pub(super) fn on_lifted(&self, before: Bitrate, flow: &mut Flow) {
        let is_unbound = self.capacity().is_none() && flow.found.path.limit().is_none();
        if self.control == Control::Discover && is_unbound && flow.measured {
            flow.found.path.guess(before);
        }
    }

    /// The user has told a new C_r.
    pub(super) fn limit(&mut self, now: Time, given: Option<Bitrate>, flows: &mut Flows) {
        self.given = given;
        self.schedule(now, flows);
    }

    /// The user has chosen another policy.
    ///
    /// # Errors
    /// If capacities are given as in the paper, or if a rate must be held and none was given.
    pub(super) fn set_policy(&mut self, now: Time, policy: Policy, flows: &mut Flows) -> Result<(), CommandError> {
        let control = match policy {
            _ if self.control == Control::Paper => return Err(CommandError::NoPolicies),
            Policy::Fixed if self.given.is_none() => return Err(CommandError::NoRate),
            Policy::Fixed => Control::Fixed,
            Policy::Fair | Policy::Low | Policy::High => Control::Discover,
        };
        self.control = control;
        self.capacities.set_policy(now, policy, &mut group(flows));
        obey(now, flows);
        self.schedule(now, flows);
        Ok(())
    }

    /// The host reports its present capacity.
    pub(super) fn host_takes(&mut self, now: Time, rate: Option<Bitrate>, flows: &mut Flows) {
        let is_same = match (self.host, rate) {
            (Some(before), Some(rate)) => (rate.as_f64() / before.as_f64().max(1.0) - 1.0).abs() < HOST_CHANGE,
            (before, rate) => before == rate,
        };
        if !is_same {
            self.host = rate;
            self.schedule(now, flows);
        }
    }

    /// The host reports the rate of its own TCP: counted from the next interval on.
    pub(super) fn host_tcp(&mut self, now: Time, wire_bytes: u64, tcp: TcpFlows, flows: &Flows) {
        // Where some of our own data comes over TCP it would count twice.
        let tcp = if flows.awake().any(|(_, flow)| flow.core.reliable) { TcpFlows::default() } else { tcp };
        self.capacities.note_host_tcp(now, wire_bytes, tcp);
    }

    /// C_r without the share of the host's own TCP.
    fn left(&self, now: Time, flows: &mut Flows) -> Option<Bitrate> {
        if self.control == Control::Fixed || !self.capacities.is_beside_host(now) {
            return self.capacity();
        }
        let left = self.capacities.left(now, self.given, &group(flows));
        left.into_iter().chain(self.given).chain(self.host).min()
    }

    /// Nothing comes in this time: there is nothing to judge before some has come again.
    pub(super) fn on_hold(&mut self, pause: Pause) {
        self.held.begin(pause);
        self.due = self.due.map(|due| due.max(pause.end() + INTERVAL_MIN));
    }

    /// A flow's loss ratio over an RTT, beyond the ambient one: a high ratio has an effect before the interval ends.
    /// All flows together have received `wire_bytes` since the start.
    pub(super) fn on_rtt(&mut self, now: Time, excess: f64, wire_bytes: u64, flows: &Flows) {
        if self.control == Control::Discover {
            self.capacities.note_arrived(self.held.active(now), wire_bytes);
            let is_alarm = self.capacities.alarms(excess);
            let lone = flows.values().next().filter(|flow| flows.len() == 1 && flow.is_under_way());
            let lone_fails = || lone.is_some_and(|flow| self.capacities.lone_test_fails(&flow.sample(), &flow.found));
            if (is_alarm || lone_fails()) && self.due.is_some() {
                // With many flows, one is always alarmed.
                self.due = self.due.min(Some(now.max(self.ended + INTERVAL_MIN)));
            }
        }
    }

    // --- The central interval ---------------------------------------------------------------------------------------

    /// Ends the central interval if it is over; all flows together have received `wire_bytes` since the start.
    pub(super) fn on_timeout(&mut self, now: Time, wire_bytes: u64, flows: &mut Flows) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        self.ended = now;
        for (_, flow) in flows.awake_mut().filter(|(_, flow)| flow.core.reliable) {
            flow.estimate_by_path();
        }
        match self.control {
            Control::Paper => {
                Self::estimate_by_paper(now, flows);
                self.redistribute(flows);
            }
            Control::Fixed => judge_fixed(now, self.interval, &mut group_after_interval(now, flows)),
            Control::Discover => {
                let active = self.held.active(now);
                self.capacities.note_arrived(active, wire_bytes);
                let held = self.held.is_recent(now, self.interval);
                let times = Times { now, active, interval: self.interval, held };
                let mut group = group_after_interval(now, flows);
                self.capacities.discover(times, wire_bytes, self.socket_buffer, &mut group);
                self.capacities.probe(&mut group);
            }
        }
        obey(now, flows);
        self.schedule(now, flows);
    }

    /// gtp-2004 4.2.
    fn estimate_by_paper(now: Time, flows: &mut Flows) {
        for (_, flow) in flows.awake_mut().filter(|(_, f)| f.phase == Phase::Steady) {
            let Some(seen) = flow.monitor.take_interval(now) else { continue };
            flow.found.estimate = flow.estimator.on_interval(seen, flow.controller.target(), flow.known_bound());
        }
    }

    /// gtp-2004 4.4: the rates of the flows that ended go to the others in proportion to their estimates.
    fn redistribute(&mut self, flows: &mut Flows) {
        let left = std::mem::take(&mut self.left).as_f64();
        let total: f64 = flows.awake().filter(|(_, f)| f.is_running()).map(|(_, f)| f.found.estimate.as_f64()).sum();
        if left > 0.0 && total > 0.0 {
            for (_, flow) in flows.awake_mut().filter(|(_, f)| f.is_running()) {
                flow.found.estimate = flow.found.estimate.mul_f64(1.0 + left / total).min(flow.known_bound());
            }
        }
    }

    /// gtp-2004 4.3 and 4.4: max-min fair targets, taken over so that all changes reach the receiver at the same time.
    pub(super) fn schedule(&mut self, now: Time, flows: &mut Flows) {
        let running: Vec<FlowId> = flows.awake().filter(|(_, f)| f.is_running()).map(|(&id, _)| id).collect();
        let rtt_max = running.iter().map(|id| flows[id].rtt()).max().unwrap_or(Span::ZERO);
        // An interval that has begun goes on: a storm of joins must not keep it from ending.
        if running.is_empty() {
            self.due = None;
        } else if self.due.is_none() {
            self.interval = (rtt_max * INTERVAL_RTTS).max(INTERVAL_MIN);
            self.due = Some(now + self.interval);
        }
        let beside_host = self.control != Control::Fixed && self.capacities.is_beside_host(now);
        flows.awake_mut().for_each(|(_, flow)| flow.beside_host = beside_host);
        // Beside others' traffic, windows set the flows' rates; the receiver's given capacity bounds them all.
        let capacity = if self.capacities.is_competing() {
            self.capacities.compete_all(now, false, &mut group(flows));
            obey(now, flows);
            self.given.into_iter().chain(self.host).min()
        } else {
            self.left(now, flows)
        };
        let holder = self.holder(capacity);
        let wanted = |flow: &Flow| flow.found.wanted(&flow.sample()).min(RATE_MAX);
        let wanted: Vec<Bitrate> = running.iter().map(|id| wanted(&flows[id])).collect();
        let targets = max_min(capacity.unwrap_or(Bitrate::MAX), &wanted);
        // A far flow that has left must not have others' growth overtake what makes room for it.
        self.shows = self.shows.max(now + rtt_max);
        for (id, target) in running.iter().zip(targets) {
            let Some(flow) = flows.get_mut(id) else { continue };
            flow.held_by = held_by::of(flow, target, holder);
            let sample = flow.sample();
            if flow.found.competes() {
                flow.found.share_rivalry(&sample, target);
                if flow.found.take_retell() || flow.told_rate == Bitrate::ZERO {
                    flow.plans.plan(now, flow.found.rivalry_target(&sample));
                    self.retimed.push(*id);
                }
                continue;
            }
            // A limited sender gets room to send more when it can: no other flow gets less by this.
            let room = flow.found.limited && target >= flow.found.estimate.mul_f64(BINDS);
            let path = flow.found.path.limit().unwrap_or(RATE_MAX).min(sample.bound);
            let target = match room {
                // A stream that is not to have less than it may come to use finds its own rate.
                _ if sample.is_stream && target >= flow.found.estimate.mul_f64(BINDS) => sample.bound,
                true => target.mul_f64(LIMITED_ROOM).min(path),
                false => flow.found.made_up(&sample, target),
            };
            let probed = self.capacities.probes(&flow.found) && !sample.is_stream;
            let target = if probed { target.mul_f64(PROBE) } else { target };
            let before = flow.plans.last().unwrap_or_else(|| flow.controller.target());
            if flow.told_rate == Bitrate::ZERO
                || (target.as_f64() - before.as_f64()).abs() > TARGET_CHANGE * before.as_f64()
            {
                flow.plans.plan(now + self.shows.since(now + flow.rtt()), target);
                self.retimed.push(*id);
            }
        }
    }
}
