//! One flow as the receiver sees it: set-up, requests, and the timers of its controller.

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::receiver::{FlowCore, RTT_GUESS, ReceiverFlow, Silence};
use inhaul_transport::kit::sender::QUEUED_RANGES_MAX;
use inhaul_transport::kit::wire::RANGES_MAX;
use inhaul_transport::kit::{Object, Table};
use inhaul_transport::{Expected, FlowId, FlowStats, HeldBy, Pause};

use super::requests::Outstanding;
use super::stream::Stream;
use crate::gtp::discover::{Found, Group, Member, Sample, is_news};
use crate::gtp::monitor::{Interval, SingleFlowMonitor};
use crate::gtp::paper::{CapacityEstimator, Plans, SingleFlowController};
use crate::gtp::wire::{HEADER_LEN, OwnMessage, RATE_MAX};

/// Silent for so long (and for several RTT), a sender is gone.
const SILENCE_MAX: Span = Span::from_secs(5);
/// A sender that answers probes but sends no data for so long is given up.
const MUTE_MAX: Span = Span::from_secs(30);
/// Data that was asked for and does not come for so long (and for several RTT) is asked for again.
const STALL_MIN: Span = Span::from_millis(300);
/// The controller acts once per RTT, but not more often than this.
const RTT_TICK_MIN: Span = Span::from_millis(5);
/// A burst is the data of this time ...
const BURST_SPAN: Span = Span::from_micros(250);
/// ... or in this time on a short path ...
const LONG_BURST_SPAN: Span = Span::from_millis(1);
/// ... or in this time where the RTT is so short that the hosts are all there is ...
const HOST_BURST_SPAN: Span = Span::from_millis(4);
const HOST_RTT: Span = Span::from_micros(900);
/// ... but no more UDP payload than one message with segmentation offload takes.
const OFFLOAD_BYTES_MAX: u64 = 65_507;
/// If the rate was given and the path has carried it, a burst is the data of `LONG_BURST_SPAN`, or this many packets
/// sent in `HOST_BURST_SPAN`; but at most this many messages.
const TOLD_BURST_PACKETS: u64 = 8;
const TOLD_BURST_MESSAGES: u64 = 2;
/// A rate counts as given if it is at least this part of the given one.
const TOLD_PART: f64 = 0.98;
/// Requests run ahead of the data by a part of the RTT or this time, whichever is more.
const LEAD: Span = Span::from_millis(5);
/// Least and most bytes that are requested ahead: bounds a receiver's memory.
const OUTSTANDING_BLOCKS_MIN: u64 = 16;
const OUTSTANDING_BYTES_MAX: u64 = 1 << 30;
/// A window is requested in this many parts.
const WINDOW_PARTS: u64 = 16;
/// A stalled sender is tried with so few blocks.
const STALLED_BLOCKS: u64 = 16;

/// A host's flows.
pub(super) type Flows = Table<FlowId, Flow>;

/// All flows as the law sees them.
pub(super) fn group(flows: &mut Flows) -> Group<'_> {
    Group::new(flows.awake_mut().map(|(&id, flow)| flow.member(id, None)))
}

/// The same at the end of a central interval, with its measurements.
pub(super) fn group_after_interval(now: Time, flows: &mut Flows) -> Group<'_> {
    Group::new(flows.awake_mut().map(|(&id, flow)| {
        let measured = flow.is_under_way() && !flow.core.reliable;
        let interval = if measured { flow.monitor.take_interval(now) } else { None };
        flow.member(id, interval)
    }))
}

/// The law has looked at the flows: they do what it asks of them.
pub(super) fn obey(now: Time, flows: &mut Flows) {
    flows.awake_mut().for_each(|(_, flow)| flow.obey(now));
}

/// Flow `id` has seen congestion: flows of the same data set count as congested, too.
pub(super) fn cut_siblings(now: Time, id: FlowId, flows: &mut Flows) {
    let Some(object) = flows.get(&id).map(|flow| flow.core.join.object) else { return };
    for (_, flow) in flows.awake_mut().filter(|(other, flow)| **other != id && flow.core.join.object == object) {
        let sample = flow.sample();
        flow.found.cut_window(now, &sample);
    }
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// The path is not open yet.
    Opening,
    /// The path is measured by a burst of this many packets.
    Train {
        /// Blocks in the burst.
        blocks: u64,
        /// The last request before the one that asks for the burst.
        after: u32,
    },
    /// Under the scheduler's control.
    Steady,
    /// Everything has come; the flow rests in case some of it turns out to be wrong.
    Idle,
}

/// The measurements of an RTT.
pub(super) struct Tick {
    /// The loss ratio beyond the ambient one.
    pub(super) loss: f64,
    /// To be sent, if the rate has changed.
    pub(super) message: Option<OwnMessage>,
    /// A window that competes was cut.
    pub(super) cut: bool,
}

/// A flow's state at the receiver.
pub(crate) struct Flow {
    pub(super) core: FlowCore,
    pub(super) phase: Phase,
    pub(super) send_limit: Option<Bitrate>,
    pub(super) requests: Outstanding,
    pub(super) monitor: SingleFlowMonitor,
    pub(super) controller: SingleFlowController,
    pub(super) estimator: CapacityEstimator,
    /// The law's findings: above all, the estimate in force (r_hat).
    pub(super) found: Found,
    /// The host's own TCP takes part, and its queue must not keep the flow from its rate.
    pub(super) beside_host: bool,
    /// The path has been measured, or need not be: the estimate means something.
    pub(super) measured: bool,
    /// Future targets from the scheduler.
    pub(super) plans: Plans,
    pub(super) epoch: u16,
    pub(super) told_rate: Bitrate,
    pub(super) stalled: bool,
    /// What holds its rate, as far as the scheduler knows.
    pub(super) held_by: HeldBy,
    /// How the path does if it is a byte stream.
    pub(super) stream: Stream,
    /// The sender was told that no data may come in this time.
    held: Option<Pause>,
    next_rtt_tick: Time,
    /// When data last came, or was asked for when nothing was outstanding.
    pub(super) last_data: Time,
    pub(super) last_arrival: Time,
    pub(super) retransmitted_bytes: u64,
}

impl Flow {
    pub(super) fn new(now: Time, core: FlowCore) -> Self {
        Self {
            core,
            phase: Phase::Opening,
            send_limit: None,
            requests: Outstanding::new(),
            monitor: SingleFlowMonitor::new(now),
            controller: SingleFlowController::new(Bitrate::ZERO),
            estimator: CapacityEstimator::default(),
            found: Found::default(),
            beside_host: false,
            measured: false,
            plans: Plans::default(),
            epoch: 0,
            told_rate: Bitrate::ZERO,
            stalled: false,
            held_by: HeldBy::Starting,
            stream: Stream::default(),
            held: None,
            next_rtt_tick: Time::FAR_FUTURE,
            last_data: now,
            last_arrival: now,
            retransmitted_bytes: 0,
        }
    }

    /// Whether the scheduler gives this flow a rate.
    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Steady
    }

    /// Whether it does, and the flow has been told a rate.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_running() && self.told_rate > Bitrate::ZERO
    }

    /// Everything has come: the flow rests, and earlier orders to it end.
    pub(super) fn rest(&mut self) {
        self.phase = Phase::Idle;
        self.stalled = false;
        self.held = None;
        self.core.path.await_full_size(None);
        self.plans.clear();
        self.found.rest();
    }

    /// The smoothed RTT; a guess before the first echo.
    pub(super) fn rtt(&self) -> Span {
        self.monitor.rtt().smoothed().unwrap_or(RTT_GUESS)
    }

    /// The path's own RTT; a guess before the first echo.
    pub(super) fn base_rtt(&self) -> Span {
        self.monitor.base_rtt().unwrap_or(RTT_GUESS)
    }

    /// The law's input about the flow.
    pub(super) fn sample(&self) -> Sample {
        Sample {
            object: self.core.join.object,
            block: u64::from(self.core.block),
            packet: u64::from(self.core.block) + self.core.overhead(),
            runs: self.is_running(),
            is_stream: self.core.reliable,
            stream_use: self.stream.use_expected(),
            told: self.told_rate,
            target: self.controller.target(),
            bound: self.known_bound(),
            rtt: self.rtt(),
            base_rtt: self.base_rtt(),
            recent_queue: self.monitor.recent_queue(),
            recent_loss: self.monitor.recent_loss(),
            reorder: self.reorder_window(),
            packets: self.monitor.came_and_lost(),
        }
    }

    /// The flow as the law sees it, after an interval or without one.
    fn member(&mut self, id: FlowId, interval: Option<Interval>) -> Member<'_> {
        Member::new(id, self.sample(), &mut self.found, interval)
    }

    /// Executes the law's orders.
    fn obey(&mut self, now: Time) {
        let orders = self.found.take_orders();
        if let Some(queue) = orders.delay_is_base {
            self.monitor.take_delay_as_base(queue);
        }
        if orders.keep_base {
            self.monitor.keep_base(now);
        }
        if orders.drop_plans {
            self.plans.clear();
        }
    }

    /// This flow's bound by given limits: min(C_i, R_app, R_send).
    pub(super) fn known_bound(&self) -> Bitrate {
        let limits = [self.core.join.limits.link_rate, self.core.join.limits.application_rate, self.send_limit];
        limits.into_iter().flatten().min().unwrap_or(RATE_MAX).min(RATE_MAX)
    }

    /// Sets the estimate by the known bound of the path.
    pub(super) fn estimate_by_path(&mut self) {
        let sample = self.sample();
        self.found.estimate_by_path(&sample);
    }

    /// The flow's path is another from now on, and is not open yet. Whether the scheduler had given the flow a rate.
    pub(super) fn change_path(&mut self, now: Time) -> bool {
        if matches!(self.phase, Phase::Opening | Phase::Idle) {
            return false;
        }
        self.phase = Phase::Opening;
        self.stalled = false;
        self.held = None;
        self.measured = false;
        self.found.change_path();
        self.stream = Stream::default();
        self.monitor.begin_path(now);
        self.told_rate = Bitrate::ZERO;
        self.plans.clear();
        true
    }

    /// The path is open.
    pub(super) fn open(&mut self, now: Time) {
        self.last_data = now;
        self.last_arrival = now;
    }

    // --- Requests ---------------------------------------------------------------------------------------------------

    /// Whether `rate` is a given one, and not one being searched.
    fn is_told(&self, rate: Bitrate) -> bool {
        self.phase == Phase::Steady && rate >= self.known_bound().mul_f64(TOLD_PART)
    }

    /// Most bytes that may leave the sender back to back at `rate`.
    pub(super) fn burst(&self, rate: Bitrate) -> u64 {
        let packet = u64::from(self.core.block) + self.core.overhead();
        // Nothing on so short a path is hurt by longer bursts, and both hosts have less to do. But there must be
        // several in each interval, or the rate cannot be measured.
        let span = match self.found.overshoots_freely() {
            true if self.base_rtt() <= HOST_RTT => HOST_BURST_SPAN,
            true => LONG_BURST_SPAN,
            false => BURST_SPAN,
        };
        // Whole packets, and no more than segmentation offload takes.
        let most = OFFLOAD_BYTES_MAX / (u64::from(self.core.block) + HEADER_LEN as u64);
        let usual = (rate.bytes_in(span) / packet).clamp(1, most.max(1)) * packet;
        // While a rate is being searched, bursts are short: long bursts hide the gaps that others leave.
        if !self.is_told(rate) {
            return usual;
        }
        let slow = rate.bytes_in(HOST_BURST_SPAN).min(TOLD_BURST_PACKETS * packet);
        let long = rate.bytes_in(LONG_BURST_SPAN).max(slow).min(TOLD_BURST_MESSAGES * most * packet);
        self.monitor.bursts.bytes(usual, long) / packet * packet
    }

    /// How many bytes may be outstanding, and how many of them are requested at a time: the bytes in flight during an
    /// RTT, and a lead so that the sender never runs dry. A request is due when half of the lead is used up. On a short
    /// path the lead is the content of the socket buffer, so a receiver that falls behind loses nothing.
    fn outstanding_limit(&self, socket_buffer: u64) -> (u64, u64) {
        let block = u64::from(self.core.block);
        if let Phase::Train { blocks, .. } = self.phase {
            return (blocks * block, blocks * block);
        }
        if self.stalled {
            return (STALLED_BLOCKS * block, block);
        }
        if self.core.reliable {
            let limit = self.stream.window(self.base_rtt());
            return (limit, limit / 8);
        }
        if let Some(blocks) = self.found.rivalry_blocks() {
            return (blocks * block, (blocks / WINDOW_PARTS).max(1) * block);
        }
        let rate = self.controller.requested();
        let rtt_now = || self.base_rtt() + self.monitor.recent_queue();
        let rtt = match self.beside_host {
            // A held rate must count data in others' queues, too.
            _ if self.found.holds_rate() => rtt_now().max(self.rtt()),
            true => rtt_now(),
            false => self.base_rtt(),
        };
        let lead = rate.bytes_in(rtt / 4).max(rate.bytes_in(LEAD).min(socket_buffer / 2)) + 2 * self.burst(rate);
        let limit = rate.bytes_in(rtt).saturating_add(lead);
        let limit = limit.clamp(OUTSTANDING_BLOCKS_MIN * block, OUTSTANDING_BYTES_MAX);
        (limit, lead.min(limit) / 2)
    }

    /// Most bytes that may be outstanding.
    pub(super) fn outstanding_max(&self, socket_buffer: u64) -> u64 {
        self.outstanding_limit(socket_buffer).0
    }

    /// Requests more if enough of the requested bytes have come; at most `room` bytes are outstanding then. Returns the
    /// request's number and ranges.
    pub(super) fn ask(
        &mut self,
        now: Time,
        object: &mut Object,
        socket_buffer: u64,
        room: u64,
    ) -> Option<(u32, Vec<ByteRange>)> {
        let may_ask = self.is_running() && self.told_rate > Bitrate::ZERO || matches!(self.phase, Phase::Train { .. });
        if !may_ask {
            return None;
        }
        let (limit, step) = self.outstanding_limit(socket_buffer);
        let limit = limit.min(room);
        let pending = self.requests.pending_bytes();
        let asked = self.train_is_asked_for();
        if pending + step > limit || asked {
            return None;
        }
        // The sender closes a flow whose receiver requests more.
        let most = RANGES_MAX.min(QUEUED_RANGES_MAX.saturating_sub(self.requests.queued_ranges()));
        let ranges = object.take(limit - pending, u64::from(self.core.block), most, &self.core.avoid);
        if ranges.is_empty() {
            return None;
        }
        if pending == 0 {
            self.core.path.expect_data(now);
            self.last_data = now;
            if !self.stalled {
                self.last_arrival = now;
            }
        }
        let id = self.requests.request(self.core.block, &ranges);
        Some((id, ranges))
    }

    /// Whether the flow is measuring its path and has asked for the burst: one request for each.
    fn train_is_asked_for(&self) -> bool {
        matches!(self.phase, Phase::Train { after, .. } if self.requests.last_id() > after)
    }

    /// Whether the burst that measures the path has come, as far as it ever will.
    pub(super) fn train_has_arrived(&self) -> bool {
        self.train_is_asked_for() && self.requests.pending_bytes() == 0
    }

    /// Blocks of the flow came in, the largest of `largest` bytes.
    pub(super) fn note_data(&mut self, now: Time, largest: u64) {
        let pending = self.requests.pending_bytes() > 0;
        self.core.path.on_data(now, largest >= u64::from(self.core.block), pending);
        self.core.last_heard = now;
        self.last_data = now;
        self.last_arrival = now;
        self.stalled = false;
    }

    fn stalls_at(&self) -> Option<Time> {
        if self.requests.pending_bytes() == 0 || self.core.source.is_some() {
            return None;
        }
        let packets = self
            .told_rate
            .time_for(4 * (u64::from(self.core.block) + self.core.overhead()) + self.burst(self.told_rate));
        let held = self.held.map_or(Time::ZERO, Pause::end);
        Some(self.last_data.max(held) + self.patience() + packets.min(Span::from_secs(10)))
    }

    /// How long to wait for data that should have left by now.
    fn patience(&self) -> Span {
        if self.core.reliable {
            return Stream::patience(self.base_rtt());
        }
        (self.monitor.rtt().patience().unwrap_or(STALL_MIN) * 3).max(STALL_MIN)
    }

    /// How late skipped data may come before it counts as lost.
    pub(super) fn reorder_window(&self) -> Span {
        if self.core.reliable { Stream::patience(self.base_rtt()) } else { self.monitor.reorder_window() }
    }

    /// Whether requested data should have come long ago.
    pub(super) fn has_stalled(&self, now: Time) -> bool {
        self.stalls_at().is_some_and(|at| now >= at)
    }

    // --- Holds ------------------------------------------------------------------------------------------------------

    /// Whether the sender was told of this pause, or of an overlapping one.
    pub(super) fn is_held_for(&self, pause: Pause) -> bool {
        self.held.is_some_and(|held| held.end() > pause.start)
    }

    /// Whether no data may come at `now` or soon, and until when. A rate told meanwhile would be measured over data
    /// from before and after the pause.
    fn held_until(&self, now: Time) -> Option<Time> {
        self.held.map(Pause::end).filter(|end| *end > now)
    }

    /// The message that tells the sender to hold its data, so that none comes in this time. Data after the pause is
    /// judged apart from data before it.
    pub(super) fn hold(&mut self, now: Time, pause: Pause) -> OwnMessage {
        self.epoch = self.epoch.wrapping_add(1);
        self.monitor.begin_epoch(self.epoch);
        self.held = Some(pause);
        // The message takes half a round trip to the sender, and the data the other half back.
        let after = pause.start.since(now + self.base_rtt());
        OwnMessage::Hold { epoch: self.epoch, after, length: pause.length }
    }

    // --- Rates ------------------------------------------------------------------------------------------------------

    /// Takes over the last target from the scheduler that is due.
    pub(super) fn take_due_target(&mut self, now: Time) -> Option<OwnMessage> {
        if self.held_until(now).is_some() {
            return None;
        }
        let target = self.plans.take_due(now)?;
        if self.told_rate == Bitrate::ZERO {
            self.next_rtt_tick = now + self.rtt() * 2;
        }
        self.controller.set_target(target);
        Some(self.tell_rate(target, true))
    }

    /// The message that sets the rate. A change of the target starts a new epoch; the controller's own steps do not.
    pub(super) fn tell_rate(&mut self, rate: Bitrate, new_epoch: bool) -> OwnMessage {
        let rate = rate.clamp(Bitrate::from_bps(1), RATE_MAX);
        if new_epoch {
            self.epoch = self.epoch.wrapping_add(1);
            self.monitor.begin_epoch(self.epoch);
        }
        self.told_rate = rate;
        let burst = match self.phase {
            Phase::Train { blocks, .. } => blocks * (u64::from(self.core.block) + self.core.overhead()),
            _ => self.burst(rate),
        };
        OwnMessage::Rate { epoch: self.epoch, rate, burst: u32::try_from(burst).unwrap_or(u32::MAX) }
    }

    /// The controller's step, once per RTT. Returns the loss ratio of the RTT (beyond the ambient one) and the message
    /// to send if the rate has changed.
    pub(super) fn rtt_tick(&mut self, now: Time) -> Option<Tick> {
        if now < self.next_rtt_tick || self.held_until(now).is_some() {
            return None;
        }
        self.next_rtt_tick = now + self.rtt().max(RTT_TICK_MIN);
        self.monitor.refresh_display(now);
        if self.phase != Phase::Steady {
            return None;
        }
        let loss = self.monitor.take_rtt_loss(now);
        if self.found.competes() {
            return Some(self.rivalry_tick(now));
        }
        if self.found.holds_rate() {
            // Losses are judged over central intervals.
            return None;
        }
        let loss = self.found.excess(loss?);
        self.controller.on_rtt(loss);
        let requested = self.controller.requested();
        let changed = (requested.as_f64() - self.told_rate.as_f64()).abs() > 0.001 * self.told_rate.as_f64();
        let changed = changed | (self.monitor.bursts.take_change() && self.is_told(requested));
        Some(Tick { loss, message: changed.then(|| self.tell_rate(requested, false)), cut: false })
    }

    /// The same of a flow that competes: its window says the rate.
    fn rivalry_tick(&mut self, now: Time) -> Tick {
        let sample = self.sample();
        let cut = self.found.rivalry_tick(now, &sample);
        let rate = self.found.rivalry_target(&sample);
        self.controller.set_target(rate);
        let message = is_news(rate, self.told_rate).then(|| self.tell_rate(rate, false));
        Tick { loss: 0.0, message, cut }
    }
}

impl ReceiverFlow for Flow {
    fn core(&self) -> &FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }

    fn pending_bytes(&self) -> u64 {
        self.requests.pending_bytes()
    }

    fn last_request(&self) -> u32 {
        self.requests.last_id()
    }

    fn abandon(&mut self) -> Vec<ByteRange> {
        let mut ranges = Vec::new();
        self.requests.abandon(|range, _| ranges.push(range));
        ranges
    }

    fn forget(&mut self, range: ByteRange) {
        self.requests.forget(range);
    }

    fn is_idle(&self) -> bool {
        self.phase == Phase::Steady && !self.stalled && self.requests.pending_bytes() == 0
    }

    fn rests(&self) -> bool {
        self.phase == Phase::Idle
    }

    fn time_for(&self, bytes: u64) -> Span {
        self.told_rate.time_for(bytes) + self.rtt()
    }

    fn on_rtt(&mut self, now: Time, rtt: Span) {
        self.monitor.on_rtt(now, rtt);
    }

    fn echo_rate(&self) -> Bitrate {
        self.told_rate
    }

    fn due(&self) -> Option<Time> {
        let losses = [self.requests.expiry(self.reorder_window()), self.stalls_at()];
        let tick = self.is_running().then_some(self.next_rtt_tick);
        let target = self.plans.due();
        // Rates rest while data is held.
        let held = self.held.map_or(Time::ZERO, Pause::end);
        let rates = [tick, target].into_iter().flatten().min().map(|at| at.max(held));
        losses.into_iter().flatten().chain(rates).min()
    }

    fn silence(&self) -> Option<Silence> {
        match self.phase {
            _ if self.core.source.is_some() => return None,
            Phase::Opening => return None,
            Phase::Idle => return self.core.silence(),
            Phase::Train { .. } | Phase::Steady => {}
        }
        let heard = self.core.silent_since();
        let no_path = self.stalled && heard > self.last_arrival + SILENCE_MAX;
        let silent = Silence { until: heard + SILENCE_MAX.max(self.rtt() * 8), since: heard, no_path };
        // Echoes alone are no use: data has to come.
        let since = self.last_arrival;
        let mute = Silence { until: since + MUTE_MAX.max(self.rtt() * 8), since, no_path };
        Some(if self.stalled { silent.min(mute) } else { silent })
    }

    fn expected(&self) -> Option<Expected> {
        let (range, block) = self.requests.expected()?;
        Some(Expected { head_len: HEADER_LEN, body_len: block as usize, range })
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            wire_bytes: self.monitor.wire_bytes,
            received_packets: self.monitor.received_packets,
            lost_packets: self.monitor.lost_packets,
            retransmitted_bytes: self.retransmitted_bytes,
            received_rate: self.monitor.display_rate(),
            target_rate: if self.core.reliable {
                self.found.granted(&self.sample()).min(self.found.estimate)
            } else {
                self.controller.target()
            },
            requested_rate: self.told_rate,
            outstanding_bytes: self.requests.pending_bytes(),
            queue_delay: self.monitor.standing_queue(),
            held_by: Some(self.held_by()),
            ..self.core.stats()
        }
    }

    fn memory_bytes(&self) -> usize {
        self.requests.memory_bytes()
    }
}
