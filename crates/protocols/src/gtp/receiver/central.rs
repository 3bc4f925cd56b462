//! Control across flows, once per central interval: estimates, max-min fair targets, transitions (gtp-2004 4.2 to 4.4), and
//! the search for capacities that nobody has told (PROTOCOL.md 7).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::FlowId;
use inhaul_transport::kit::max_min;

use super::flow::{Flow, Phase};
use super::judgement::{Judgement, LOSS_THRESHOLD, fresh_pressure};
use super::{Control, Flows};
use crate::gtp::monitor::Dispersion;
use crate::gtp::wire;
use crate::gtp::{CapacitySearch, Interval, RATE_MAX, TRAIN_PACKETS_MIN, TRAIN_SPAN_MIN};

/// gtp-2004 4.2: "by default, we set it as three RTTmax".
const INTERVAL_RTTS: u64 = 3;
/// But not shorter than this: below it there is too little to measure.
const INTERVAL_MIN: Span = Span::from_millis(20);
/// gtp-2004 4.2: a rate has been achieved when this part of it was.
const ACHIEVED: f64 = 0.95;
/// On a path that is bound by requests this part is enough.
const ACHIEVED_FREE: f64 = 0.5;
/// A target binds when it is this close to the bound.
pub(super) const BINDS: f64 = 0.99;
/// Targets that move by less than this part are left alone.
const TARGET_CHANGE: f64 = 0.001;
/// A flow with this part of what counts as congestion bears witness to the congestion of others.
const HINT: f64 = 0.5;
/// Congestion that at least so much of the traffic sees is the receiver's own.
const SHARED_PART: f64 = 0.6;
/// Congestion that less than so much of the traffic sees is not the receiver's.
const UNSHARED_PART: f64 = 0.3;
/// Hints alone count against growth for so many intervals after the last.
const HINTS_MAX: u32 = 4;
/// A loss ratio this high in one RTT is not left for the end of the interval.
const ALARM_LOSS: f64 = 0.02;
/// Packets of the first burst that measures a path, and of the longest.
const TRAIN_BLOCKS: u64 = 16;
const TRAIN_BYTES_MAX: u64 = 256 * 1024;
/// A burst is not more than a flow may have in this time.
const TRAIN_SPAN_MAX: Span = Span::from_millis(50);
/// A burst of which more than this part was lost was too long already.
const TRAIN_LOSS_MAX: f64 = 0.1;
/// A burst of which nothing can be told is taken to fit into so many RTT.
const LOST_TRAIN_RTTS: u64 = 4;
/// Start-up: part of the measured capacity that is tried for an RTT, then part that is taken.
const RAMP_PART: f64 = 0.5;
const START_PART: f64 = 0.985;
/// What is taken at least, whatever became of the try.
const START_PART_MIN: f64 = 0.2;
/// A rate that was tried for so short a time has been achieved when this part of it was.
const TRIED: f64 = 0.8;
/// Bursts that arrive at this part of their first rate have met no others.
const UNDISTURBED: f64 = 0.95;
/// What a sender-limited flow is expected to use is its rate and this much more (gtp-2004 4.2: 0.02 r_total).
const LIMITED_STEP: f64 = 1.02;
/// The rate it is asked for leaves it this much room, so that the end of the limit shows at once. Not in the paper, where
/// the step above is all the room there is: a sender whose processor is taken away now and then would spiral down.
const LIMITED_ROOM: f64 = 1.25;
/// It is one when it has fallen short so many times in a row.
const LIMITED_AFTER: u32 = 2;
/// Its rate is the highest of so many intervals.
pub(super) const USED_INTERVALS: usize = 4;

/// What all flows of the receiver together received over an interval.
#[derive(Clone, Copy)]
struct Arrived {
    rate: Bitrate,
    /// The interval was so short that nothing has changed since it began.
    fresh: bool,
}

/// The central control of a receiver.
#[derive(Debug)]
pub(super) struct Central {
    control: Control,
    given: Option<Bitrate>,
    socket_buffer: u64,
    access: CapacitySearch,
    due: Option<Time>,
    /// Rates of the flows that ended since the last interval (C_l).
    left: Bitrate,
    retimed: Vec<FlowId>,
    /// Intervals since the receiver's capacity was last thought to be more.
    since_growth: u32,
    /// A flow's loss over a single RTT was high: what came before it does not count.
    alarmed: bool,
    /// When the last interval ended, and the bytes that all flows had received by then; `None` before the first.
    ended: Option<(Time, u64)>,
}

impl Central {
    pub(super) fn new(control: Control, given: Option<Bitrate>, socket_buffer: u64) -> Self {
        let access = CapacitySearch::default();
        Self {
            control,
            given,
            socket_buffer,
            access,
            due: None,
            left: Bitrate::ZERO,
            retimed: Vec::new(),
            since_growth: 0,
            alarmed: false,
            ended: None,
        }
    }

    /// C_r: what was given, or less if less was found.
    pub(super) fn capacity(&self) -> Option<Bitrate> {
        self.given.into_iter().chain(self.access.estimate()).min()
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

    /// The path of flow `id` is open. Returns the message that sets its first rate, if that is not the scheduler's to say.
    pub(super) fn on_open(&mut self, now: Time, id: FlowId, flows: &mut Flows) -> Option<wire::Control> {
        let flow = flows.get_mut(&id)?;
        let bound = flow.known_bound();
        let train = TRAIN_BLOCKS * (u64::from(flow.block) + flow.overhead());
        let slow = self.capacity().map_or(bound, |c| c.min(bound)).bytes_in(TRAIN_SPAN_MAX) < train;
        if self.control == Control::Discover && !slow {
            flow.phase = Phase::Train { blocks: TRAIN_BLOCKS, after: flow.requests.last_id() };
            flow.monitor.watch_bursts(2);
            return Some(flow.tell_rate(RATE_MAX, true));
        }
        // gtp-2004 4.4: a new flow's estimate is what is known to bound it.
        flow.phase = Phase::Steady;
        flow.estimate = bound;
        if self.control == Control::Discover {
            flow.path.seed(bound.min(self.capacity().unwrap_or(RATE_MAX)), None);
        }
        self.schedule(now, flows);
        None
    }

    /// A burst that measures the path has come. Returns the message for another one if this one was too short to tell.
    pub(super) fn on_train(&mut self, now: Time, id: FlowId, flows: &mut Flows) -> Option<wire::Control> {
        let flow = flows.get_mut(&id)?;
        let Phase::Train { blocks, .. } = flow.phase else { return None };
        flow.monitor.end_train();
        let seen = flow.monitor.dispersion();
        let packet = u64::from(flow.block) + flow.overhead();
        let bound = flow.known_bound().bytes_in(TRAIN_SPAN_MAX).min(TRAIN_BYTES_MAX);
        let longest = (bound / packet).max(TRAIN_BLOCKS);
        let lost = flow.monitor.take_rtt_loss(now).unwrap_or(0.0);
        if seen.is_none() && blocks < longest && lost <= TRAIN_LOSS_MAX {
            flow.phase = Phase::Train { blocks: (blocks * 4).min(longest), after: flow.requests.last_id() };
            return Some(flow.tell_rate(RATE_MAX, true));
        }
        let guess = match seen {
            Some(seen) => seen.own,
            // A burst that the host handed over all at once says that the path is at least this fast.
            None if lost <= TRAIN_LOSS_MAX => Bitrate::of(blocks * packet, TRAIN_SPAN_MIN),
            // One that was lost says that the path is slow; how slow, the search will find.
            None => Bitrate::of(blocks * packet, flow.rtt() * LOST_TRAIN_RTTS),
        };
        self.know_access(id, guess, flows);
        self.access.settle();
        if let Some(seen) = seen {
            self.access.on_evidence(seen.proven);
        }
        let flow = flows.get_mut(&id)?;
        // What came in between belongs to it: trains of flows that start at once meet each other, and a rate that they divide is no
        // sign of a free link later.
        flow.first_burst = guess.max(seen.map_or(Bitrate::ZERO, |seen| seen.all_flows));
        flow.shown = seen.map(|seen| seen.own);
        flow.estimate = guess.mul_f64(RAMP_PART).min(flow.known_bound());
        flow.phase = Phase::Ramp { guess, until: Time::FAR_FUTURE };
        // The rate of the bursts is not to be used for anything else.
        flow.told_rate = Bitrate::ZERO;
        flow.monitor.watch_bursts(TRAIN_PACKETS_MIN);
        self.schedule(now, flows);
        None
    }

    /// With the second flow it matters what the receiver itself can take: as far as is known, what one flow could have.
    fn know_access(&mut self, id: FlowId, guess: Bitrate, flows: &Flows) {
        if self.access.estimate().is_some() {
            return;
        }
        let others = || flows.iter().filter(|(other, flow)| **other != id && flow.is_running()).map(|(_, flow)| flow);
        if let Some(steady) = others().filter(|f| f.phase == Phase::Steady).max_by_key(|f| f.path.estimate()) {
            self.access = steady.path.as_guess();
        } else if let Some(best) = others().map(|f| f.estimate.mul_f64(1.0 / RAMP_PART)).max() {
            let best = best.max(guess);
            self.access.seed(best.mul_f64(START_PART), Some(best));
        }
    }

    /// Half the guess has been tried for an RTT, if the flow is at that point: what became of it?
    pub(super) fn on_ramp(&mut self, now: Time, id: FlowId, flows: &mut Flows) {
        let Some(flow) = flows.get_mut(&id) else { return };
        let Phase::Ramp { guess, until } = flow.phase else { return };
        if until > now {
            return;
        }
        let bursts = flow.monitor.dispersion().map_or(guess, |d| d.own);
        let start = match flow.monitor.take_interval(now) {
            // So short a time may fall into a pause of either host: the bursts still count for something.
            Some(tried) if !tried.dry && tried.total() < flow.told_rate.mul_f64(TRIED) => {
                tried.total().mul_f64(LIMITED_STEP).max(bursts.mul_f64(START_PART_MIN))
            }
            _ => bursts.mul_f64(START_PART),
        };
        flow.path.seed(start, Some(bursts));
        flow.estimate = flow.path.estimate().unwrap_or(start).min(flow.known_bound());
        flow.phase = Phase::Steady;
        self.schedule(now, flows);
    }

    /// A flow has ended. Its share goes to the others (gtp-2004 4.4) at the end of the interval; when rates are ours to
    /// find, at once.
    pub(super) fn on_leave(&mut self, now: Time, flow: &Flow) {
        if flow.is_running() {
            match self.control {
                Control::Paper => self.left = self.left.saturating_add(flow.controller.target()),
                Control::Discover => self.due = Some(now),
            }
        }
    }

    /// The user has told a new C_r.
    pub(super) fn limit(&mut self, now: Time, given: Option<Bitrate>, flows: &mut Flows) {
        self.given = given;
        self.schedule(now, flows);
    }

    /// A flow's loss ratio over an RTT: a high one is acted on before the interval ends.
    pub(super) fn on_rtt_loss(&mut self, now: Time, loss: f64) {
        let ended = self.ended.map_or(Time::ZERO, |(ended, _)| ended);
        if self.control == Control::Discover && loss >= ALARM_LOSS && self.due.is_some() {
            // Of many flows there is always one that is alarmed.
            self.due = self.due.min(Some(now.max(ended + INTERVAL_MIN)));
            self.alarmed = true;
        }
    }

    // --- The central interval ---------------------------------------------------------------------------------------

    /// Ends the central interval if it is over; all flows together have received `wire_bytes` since the start.
    pub(super) fn on_timeout(&mut self, now: Time, wire_bytes: u64, flows: &mut Flows) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        match self.control {
            Control::Paper => {
                Self::estimate_by_paper(now, flows);
                self.redistribute(flows);
            }
            Control::Discover => {
                let before = self.ended.replace((now, wire_bytes));
                let arrived = before.map(|(since, bytes)| Arrived {
                    rate: Bitrate::of(wire_bytes - bytes, now.since(since)),
                    fresh: now.since(since) <= INTERVAL_MIN * 2,
                });
                self.discover(now, arrived, flows);
            }
        }
        self.schedule(now, flows);
    }

    /// gtp-2004 4.2.
    fn estimate_by_paper(now: Time, flows: &mut Flows) {
        for flow in flows.values_mut().filter(|f| f.phase == Phase::Steady) {
            let Some(seen) = flow.monitor.take_interval(now) else { continue };
            flow.estimate = flow.estimator.on_interval(seen, flow.controller.target(), flow.known_bound());
        }
    }

    /// gtp-2004 4.4: the rates of the flows that ended go to the others in proportion to their estimates.
    fn redistribute(&mut self, flows: &mut Flows) {
        let left = std::mem::take(&mut self.left).as_f64();
        let total: f64 = flows.values().filter(|f| f.is_running()).map(|f| f.estimate.as_f64()).sum();
        if left > 0.0 && total > 0.0 {
            for flow in flows.values_mut().filter(|f| f.is_running()) {
                flow.estimate = flow.estimate.mul_f64(1.0 + left / total).min(flow.known_bound());
            }
        }
    }

    /// PROTOCOL.md 7.2: who is congested, the receiver or single paths? Whoever it is, its capacity was what came through.
    /// `arrived` is what all flows together have received since the last interval ended, if there was one.
    fn discover(&mut self, now: Time, arrived: Option<Arrived>, flows: &mut Flows) {
        let alarmed = std::mem::take(&mut self.alarmed);
        self.since_growth = self.since_growth.saturating_add(1);
        let running = flows.values().filter(|f| f.is_running()).count();
        let mut seen: Vec<(FlowId, Judgement)> = Vec::new();
        for (&id, flow) in flows.iter_mut().filter(|(_, f)| f.phase == Phase::Steady) {
            if let Some(interval) = flow.monitor.take_interval(now) {
                seen.push((id, Judgement::of(now, flow, interval, alarmed)));
            }
        }
        let sum =
            |of: fn(&Judgement) -> Bitrate| seen.iter().map(|s| of(&s.1)).fold(Bitrate::ZERO, Bitrate::saturating_add);
        let congested = seen.iter().any(|s| s.1.is_congested());
        let signs: Vec<(f64, f64)> =
            flows.values().filter(|f| f.is_running()).map(|f| (f.told_rate.as_f64(), fresh_pressure(f))).collect();
        let weight = |least: f64| signs.iter().filter(|s| s.1 >= least).map(|s| s.0).sum::<f64>();
        let hints = signs.iter().filter(|s| s.1 >= HINT).count();
        let shared = congested && hints > 1 && weight(HINT) >= SHARED_PART * weight(0.0);
        if shared {
            // Flows that could not be judged yet use what they were given, as far as anybody knows.
            let is_judged = |id: &FlowId| seen.binary_search_by_key(id, |s| s.0).is_ok();
            let unjudged = flows.iter().filter(|(id, f)| f.is_running() && !is_judged(id));
            let targets = unjudged.map(|(_, f)| f.controller.target()).fold(Bitrate::ZERO, Bitrate::saturating_add);
            let could = sum(|j| j.capacity).saturating_add(targets);
            // Where a queue overflowed, more than what arrived does not get through, whatever each flow could have had.
            let overflowed = sum(|j| j.overflow) >= sum(|j| j.interval.total()).mul_f64(LOSS_THRESHOLD);
            self.access.on_congestion(match arrived.filter(|_| overflowed) {
                Some(arrived) if arrived.fresh => arrived.rate,
                Some(arrived) => arrived.rate.min(could),
                None => could,
            });
        } else if seen.len() == running {
            // A queue that fills after a growth is given the time to become congestion, or to drain. One that does neither is of bursts
            // that meet each other in step, and no sign that the link is full.
            let is_old = !congested && self.since_growth >= HINTS_MAX;
            if is_old || weight(HINT) < UNSHARED_PART * weight(0.0) {
                let before = self.access.estimate();
                self.grow_access(sum(|j| j.interval.received), flows);
                if self.access.estimate() != before {
                    self.since_growth = 0;
                }
            }
        }
        for (id, judged) in seen {
            let Some(flow) = flows.get_mut(&id) else { continue };
            flow.judge_window(self.socket_buffer, judged.has_lost());
            let congested = shared || judged.is_congested();
            let achieved = Self::judge_use(flow, judged.interval, congested, running == 1);
            if !congested && achieved {
                Self::grow_path(flow, judged.interval);
            } else if !shared && congested {
                flow.path.on_congestion(judged.capacity);
            }
            flow.estimate = flow.path.estimate().unwrap_or(RATE_MAX).min(flow.known_bound());
            if flow.limited {
                let used = flow.used.iter().copied().max().unwrap_or(Bitrate::ZERO);
                flow.estimate = flow.estimate.min(used.mul_f64(LIMITED_STEP));
            }
        }
    }

    fn grow_access(&mut self, total: Bitrate, flows: &Flows) {
        let running = || flows.values().filter(|f| f.is_running());
        let granted = running().map(Flow::granted).fold(Bitrate::ZERO, Bitrate::saturating_add);
        let binds = self.access.estimate().is_some_and(|c| granted >= c.mul_f64(BINDS));
        if binds && total >= granted.mul_f64(ACHIEVED) {
            let shown = |of: fn(Dispersion) -> Bitrate| running().filter_map(|f| f.monitor.dispersion()).map(of).max();
            // Bursts that come through as they did when the path was first measured do not queue up with others: the
            // receiver's link is far from full.
            let undisturbed =
                |f: &Flow| f.monitor.dispersion().is_some_and(|d| d.own >= f.first_burst.mul_f64(UNDISTURBED));
            if running().all(Flow::overshoots_freely) {
                self.access.on_free_success(total, shown(|d| d.all_flows));
                return;
            }
            if running().all(undisturbed) {
                self.access.forget_reached();
            }
            self.access.on_success(total);
            self.access.on_evidence(shown(|d| d.proven).unwrap_or(Bitrate::ZERO));
        }
    }

    /// Sees whether the sender gives what it may. True if it does.
    fn judge_use(flow: &mut Flow, interval: Interval, congested: bool, alone: bool) -> bool {
        // Where requests bound the flow its rate must only be out of the way, whatever late wake-ups make of it.
        let achieved = if flow.window_bound { ACHIEVED_FREE } else { ACHIEVED };
        if interval.total() >= flow.controller.target().mul_f64(achieved) {
            flow.limited = false;
            flow.fell_short = 0;
            flow.used = [Bitrate::ZERO; USED_INTERVALS];
            return true;
        }
        // It could have sent more, had it been asked to, or had the path let it through.
        if !interval.dry && !congested {
            // Time and again, it is the sender's limit: the rest is for others, if there are any. Once, it is chance.
            flow.used[flow.fell_short as usize % USED_INTERVALS] = interval.total();
            flow.fell_short = flow.fell_short.saturating_add(1);
            flow.limited = flow.fell_short >= LIMITED_AFTER && !alone;
        }
        false
    }

    /// The flow had what it was given, without a sign of congestion.
    fn grow_path(flow: &mut Flow, interval: Interval) {
        let binds = |estimate: Bitrate| flow.controller.target() >= estimate.mul_f64(BINDS);
        if !flow.path.estimate().is_some_and(binds) {
            return;
        }
        if flow.overshoots_freely() {
            flow.path.on_free_success(interval.received, flow.burst_rate());
        } else {
            flow.path.on_success(interval.received);
            flow.path.on_evidence(flow.monitor.dispersion().map_or(Bitrate::ZERO, |d| d.own));
        }
    }

    /// gtp-2004 4.3 and 4.4: max-min fair targets, taken over so that all changes reach the receiver at the same time.
    pub(super) fn schedule(&mut self, now: Time, flows: &mut Flows) {
        let running: Vec<FlowId> = flows.iter().filter(|(_, f)| f.is_running()).map(|(&id, _)| id).collect();
        let rtt_max = running.iter().map(|id| flows[id].rtt()).max().unwrap_or(Span::ZERO);
        // An interval that has begun goes on: a storm of joins must not keep it from ending.
        if running.is_empty() {
            self.due = None;
            self.ended = None;
        } else if self.due.is_none() {
            self.due = Some(now + (rtt_max * INTERVAL_RTTS).max(INTERVAL_MIN));
        }
        let estimates: Vec<Bitrate> = running.iter().map(|id| flows[id].estimate.min(RATE_MAX)).collect();
        let targets = max_min(self.capacity().unwrap_or(Bitrate::MAX), &estimates);
        for (id, target) in running.iter().zip(targets) {
            let Some(flow) = flows.get_mut(id) else { continue };
            // A sender that gives all it has is left room to give more when it can: nobody else counts on less.
            let room = flow.limited && target >= flow.estimate.mul_f64(BINDS);
            let path = flow.path.estimate().unwrap_or(RATE_MAX).min(flow.known_bound());
            let target = if room { target.mul_f64(LIMITED_ROOM).min(path) } else { target };
            let before = flow.pending_targets.back().map_or(flow.controller.target(), |(_, target)| *target);
            if flow.told_rate == Bitrate::ZERO
                || (target.as_f64() - before.as_f64()).abs() > TARGET_CHANGE * before.as_f64()
            {
                flow.plan_target(now + rtt_max.saturating_sub(flow.rtt()), target);
                self.retimed.push(*id);
            }
        }
    }
}
