//! The receiver: requests a round, keeps the tally of arrivals, and answers each Done with the missing blocks.

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::division::{Changed, Division, Share, Shared, ToldRate};
use inhaul_transport::kit::path::PathRules;
use inhaul_transport::kit::receiver::{Core, FlowCore, Flows, Receiver, ReceiverFlow, Reception, Rules, Run, Silence};
use inhaul_transport::kit::wire::{Message, RANGES_MAX, Reader};
use inhaul_transport::kit::{Meter, Object};
use inhaul_transport::{EndpointConfig, Expected, FlowError, FlowId, FlowStats, HostSample, Pause, Place};

use super::tally::Tally;
use super::wire::{DataHeader, HEADER_LEN, HOLD_AFTER_MAX, HOLD_MAX, OwnMessage, PIECE_BYTES_MAX, Section, VERSION};

/// Most blocks of a round, and most ranges that they are in: bounds the tally, and the answer to less than 300 kB.
const ROUND_BLOCKS_MAX: u64 = 1 << 20;
const ROUND_RANGES_MAX: usize = 4_096;
/// A round that is shared with mirrors has at least the data of this many round trips, and this many bytes.
const ROUND_RTTS_MIN: u64 = 4;
const ROUND_BYTES_MIN: u64 = 256 << 10;
/// Data sent before Done may come after it: the receiver waits until no data has come for a quarter of a round trip and
/// two packets, within these bounds.
const SETTLE_MIN: Span = Span::from_millis(2);
const SETTLE_MAX: Span = Span::from_millis(50);
const SETTLE_PACKETS: u64 = 2;
/// A pause that leaves less than this to be held at the sender is not worth a message.
const HOLD_MIN: Span = Span::from_millis(1);
/// A sender that answers probes but sends no data for so long is given up.
const MUTE_MAX: Span = Span::from_secs(150);

/// All flows of a host that fetches.
pub(super) type RbudpReceiver = Receiver<Rbudp>;

/// What RBUDP adds to a receiver.
pub(super) struct Rbudp {
    /// The user's rate for each flow.
    rate: Option<Bitrate>,
    /// Whether senders are told of pauses: RBUDP+.
    tells_pauses: bool,
    /// What all flows together may take (C_r), and who of it.
    division: Division,
    /// Flows whose round has not been asked for in full.
    asking: Vec<FlowId>,
}

impl Rbudp {
    /// A receiver whose flows are each sent at `rate`, or at their shares of C_r.
    pub(super) fn new(config: &EndpointConfig, rate: Option<Bitrate>) -> Self {
        Self { rate, tells_pauses: false, division: Division::new(config.host_rate), asking: Vec::new() }
    }

    /// The same, with feedback.
    pub(super) fn plus(config: &EndpointConfig, rate: Option<Bitrate>) -> Self {
        Self { tells_pauses: true, ..Self::new(config, rate) }
    }

    fn look_at_share(&mut self, id: FlowId, core: &mut Core<Flow>) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let wanted = core.objects.get(&flow.core.join.object).is_some_and(Object::has_wanted);
        let running = flow.core.path.is_open() && (wanted || flow.tally.pending_bytes() > 0);
        if let Some(ToldRate(rate)) = self.division.look_at(flow, running) {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
    }
}

fn tell(core: &mut Core<Flow>, changed: Changed) {
    for (id, told) in changed {
        if let Some(ToldRate(rate)) = told {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
        core.touch(id);
    }
}

/// Answers Done if all data sent before it has come or is lost.
fn answer(now: Time, id: FlowId, core: &mut Core<Flow>) {
    let Some(flow) = core.flows.get_mut(&id) else { return };
    let Some(done) = flow.done.filter(|done| flow.has_settled(now, *done)) else { return };
    flow.done = None;
    let mut sections = Vec::new();
    // Later requests are still in flight.
    if done.through == flow.requests && !flow.is_asking {
        if let Some(object) = core.objects.get(&flow.core.join.object) {
            flow.tally.forget(&object.held);
        }
        sections = flow.tally.missing();
        flow.requested_again += flow.tally.pending_bytes();
        if flow.tally.pending_bytes() > 0 {
            flow.last_data = now;
        }
    }
    let block = flow.round_block;
    for message in in_pieces(block, sections) {
        core.say_own(id, message.emit());
    }
    core.touch(id);
}

/// An answer as messages of bounded length. There is never more than one answer in the control channel: the next one
/// is to a Done that comes after the last piece was read.
fn in_pieces(block: u16, sections: Vec<Section>) -> Vec<OwnMessage> {
    let (mut pieces, mut piece, mut len) = (Vec::new(), Vec::new(), 0);
    for section in sections {
        if len + section.wire_len() > PIECE_BYTES_MAX {
            pieces.push(OwnMessage::Missing { is_last: false, block, sections: std::mem::take(&mut piece) });
            len = 0;
        }
        len += section.wire_len();
        piece.push(section);
    }
    pieces.push(OwnMessage::Missing { is_last: true, block, sections: piece });
    pieces
}

/// A Done that has not been answered.
#[derive(Clone, Copy, Debug)]
struct Done {
    through: u32,
    next: u32,
    came: Time,
}

/// A flow's state at the receiver.
pub(super) struct Flow {
    core: FlowCore,
    tally: Tally,
    /// The block length of the round.
    round_block: u16,
    /// Bytes of the round that may still be asked for.
    round_left: u64,
    is_asking: bool,
    requests: u32,
    share: Share,
    rate: Option<Bitrate>,
    done: Option<Done>,
    /// The number that the next data packet has if nothing is lost.
    next: u32,
    /// Data packets up to that number.
    sent_packets: u64,
    received_packets: u64,
    wire_bytes: u64,
    requested_again: u64,
    /// When data last came, or was asked for when nothing was.
    last_data: Time,
    meter: Meter,
}

impl Flow {
    fn on_data(&mut self, now: Time, run: &Run<DataHeader>) {
        self.core.last_heard = now;
        self.last_data = now;
        let wire = run.body_bytes + run.packets * self.core.overhead();
        self.received_packets += run.packets;
        self.wire_bytes += wire;
        self.meter.add(now, wire);
        let behind = run.head.number.wrapping_add(run.packets as u32);
        let ahead = behind.wrapping_sub(self.next);
        if ahead < 1 << 31 {
            self.sent_packets += u64::from(ahead);
            self.next = behind;
        }
    }

    /// How long data that was sent before Done is waited for.
    fn settle_span(&self) -> Span {
        let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
        let packet = u64::from(self.core.block) + self.core.overhead();
        let rate = self.meter.measured().unwrap_or(self.given());
        let packets = rate.time_for(SETTLE_PACKETS * packet).min(SETTLE_MAX);
        (rtt / 4 + packets).max(SETTLE_MIN).min(SETTLE_MAX)
    }

    fn settles_at(&self, done: Done) -> Time {
        self.last_data.max(done.came) + self.settle_span()
    }

    /// Whether all data sent before Done has come or is lost. Done overtakes data that waits in a queue (He and others
    /// 2002: such data must not be requested again).
    fn has_settled(&self, now: Time, done: Done) -> bool {
        self.tally.pending_bytes() == 0 || self.next == done.next || now >= self.settles_at(done)
    }

    /// The Hold for its sender, if it is in time (rbudp-plus-2006 section 5). A packet that leaves when Hold arrives
    /// comes a round trip from now, so the pause must begin and end there by this much earlier. The round trip is the
    /// least one: the excess of measured ones is the wait for this host, which a pause ends.
    fn hold(&self, now: Time, pause: Pause) -> Option<OwnMessage> {
        let rtt = self.core.path.rtt().least().unwrap_or(Span::ZERO);
        let there = now + rtt;
        let after = pause.start.since(there);
        let left = (pause.start + pause.length).since(there + after).min(HOLD_MAX);
        (left >= HOLD_MIN && after <= HOLD_AFTER_MAX).then_some(OwnMessage::Hold { after, length: left })
    }

    /// Its rate, if known.
    fn given(&self) -> Bitrate {
        let said = Some(self.share.said()).filter(|rate| *rate > Bitrate::ZERO);
        self.rate.into_iter().chain(said).min().unwrap_or(self.meter.rate())
    }

    /// Bytes of the next round: all wanted bytes, or with mirrors this flow's part of them.
    fn round_bytes(&self, object: &Object) -> u64 {
        let most = ROUND_BLOCKS_MAX * u64::from(self.core.block);
        let mirrors = object.flows.len().max(1) as u64;
        if mirrors == 1 {
            return most;
        }
        let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
        let least = self.given().bytes_in(rtt * ROUND_RTTS_MIN).max(ROUND_BYTES_MIN);
        (object.wanted_bytes() / mirrors).max(least).min(most)
    }
}

impl Shared for Flow {
    fn share(&self) -> &Share {
        &self.share
    }

    fn share_mut(&mut self) -> &mut Share {
        &mut self.share
    }

    fn wire_bytes(&self) -> u64 {
        self.wire_bytes
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
        self.tally.pending_bytes()
    }

    fn last_request(&self) -> u32 {
        self.requests
    }

    fn abandon(&mut self) -> Vec<ByteRange> {
        self.is_asking = false;
        self.tally.abandon()
    }

    fn is_idle(&self) -> bool {
        self.core.path.is_open() && self.tally.pending_bytes() == 0
    }

    fn time_for(&self, bytes: u64) -> Span {
        let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
        // The arrival rate includes the effect of losses. It is not measured while there are no requests. So it does
        // not depend on the distribution of requests, and two flows cannot each count as the faster one.
        self.meter.measured().unwrap_or(self.given()).time_for(bytes) + rtt
    }

    fn due(&self) -> Option<Time> {
        self.done.map(|done| self.settles_at(done))
    }

    fn silence(&self) -> Option<Silence> {
        let silent = self.core.silence();
        let since = self.last_data;
        let mute = Silence { until: since + MUTE_MAX, since, no_path: true };
        if self.tally.pending_bytes() > 0 { silent.min(Some(mute)) } else { silent }
    }

    fn expected(&self) -> Option<Expected> {
        let (range, body) = self.tally.expected()?;
        Some(Expected { head_len: HEADER_LEN, body_len: body as usize, range })
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            wire_bytes: self.wire_bytes,
            received_packets: self.received_packets,
            lost_packets: self.sent_packets.saturating_sub(self.received_packets),
            retransmitted_bytes: self.requested_again,
            received_rate: self.meter.rate(),
            target_rate: self.share.target(),
            requested_rate: self.given(),
            outstanding_bytes: self.tally.pending_bytes(),
            ..self.core.stats()
        }
    }

    fn memory_bytes(&self) -> usize {
        self.tally.memory_bytes()
    }
}

impl Reception for Rbudp {
    type Flow = Flow;
    type Head = DataHeader;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: 1,
        object_max: u64::MAX,
        path: PathRules { probe_gap: Span::from_millis(250), raise_probes: 3, steady_responses: true },
        relief_min: Span::from_millis(200),
    };

    fn new_flow(&mut self, now: Time, core: FlowCore) -> Flow {
        Flow {
            core,
            tally: Tally::default(),
            round_block: u16::MAX,
            round_left: 0,
            is_asking: false,
            requests: 0,
            share: Share::default(),
            rate: self.rate,
            done: None,
            next: 0,
            sent_packets: 0,
            received_packets: 0,
            wire_bytes: 0,
            requested_again: 0,
            last_data: now,
            meter: Meter::new(now),
        }
    }

    fn setup(&self, _flow: &Flow) -> Vec<u8> {
        inhaul_transport::kit::wire::rate_field(self.rate).to_vec()
    }

    fn on_message(
        &mut self,
        now: Time,
        id: FlowId,
        kind: u8,
        body: Reader<'_>,
        core: &mut Core<Flow>,
    ) -> Result<(), FlowError> {
        let Ok(OwnMessage::Done { through, next }) = OwnMessage::parse(kind, body) else {
            return Err(FlowError::Protocol("a control message could not be understood"));
        };
        let Some(flow) = core.flows.get_mut(&id) else { return Ok(()) };
        if flow.done.is_some() {
            return Err(FlowError::Protocol("a second Done came before the answer to the first"));
        }
        flow.done = Some(Done { through, next, came: now });
        answer(now, id, core);
        Ok(())
    }

    fn on_data(
        &mut self,
        now: Time,
        id: FlowId,
        run: &Run<DataHeader>,
        core: &mut Core<Flow>,
        places: &mut Vec<Place>,
    ) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        flow.on_data(now, run);
        let mut rest = run.range();
        while !rest.is_empty() {
            let Some(flow) = core.flows.get_mut(&id) else { return };
            let Some(asked) = flow.tally.arrive(rest) else {
                rest = ByteRange::new(rest.start.saturating_add(run.body_len).min(rest.end), rest.end);
                flow.core.duplicate_bytes += run.body_len;
                continue;
            };
            core.place(id, run, asked, places);
            rest.start = asked.end;
        }
        if let Some(flow) = core.flows.get_mut(&id) {
            let full_size = run.body_bytes >= run.packets * u64::from(flow.core.block);
            let pending = flow.tally.pending_bytes() > 0;
            flow.core.path.on_data(now, full_size, pending);
        }
        answer(now, id, core);
        core.touch(id);
    }

    fn on_flow_timer(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id).filter(|flow| flow.tally.pending_bytes() > 0) {
            flow.meter.refresh(now);
        }
        answer(now, id, core);
    }

    fn attend(&mut self, _now: Time, id: FlowId, core: &mut Core<Flow>) {
        self.look_at_share(id, core);
    }

    fn ask(&mut self, now: Time, flow: &mut Flow, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        let is_new = flow.tally.pending_bytes() == 0;
        flow.is_asking &= flow.share.is_granted();
        if !flow.share.is_granted() || !(is_new || flow.is_asking) {
            return None;
        }
        if is_new {
            flow.round_left = flow.round_bytes(object);
        }
        let block = u64::from(flow.core.block);
        let ranges = object.take(flow.round_left, block, RANGES_MAX, &flow.core.avoid);
        flow.is_asking = false;
        if ranges.is_empty() {
            return None;
        }
        if is_new {
            flow.tally.begin();
            flow.round_block = flow.core.block;
            flow.last_data = now;
            flow.meter.rest(now);
            flow.core.path.expect_data(now);
        }
        for &range in &ranges {
            flow.tally.add(range, block);
            flow.round_left = flow.round_left.saturating_sub(range.len());
        }
        // A request has few ranges: many pieces take several requests.
        let has_room = flow.round_left >= block && flow.tally.parts() + RANGES_MAX <= ROUND_RANGES_MAX;
        flow.is_asking = has_room && flow.round_block == flow.core.block && object.has_wanted();
        if flow.is_asking {
            self.asking.push(flow.core.join.flow);
        }
        flow.requests = flow.requests.wrapping_add(1);
        Some((flow.requests, ranges))
    }

    /// Blocks of the old size no longer pass the path: the round is requested anew in smaller ones.
    fn on_narrower(&mut self, _now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get(&id) {
            let through = flow.requests;
            core.say(id, &Message::Cancel { through });
        }
    }

    fn on_leave(&mut self, _now: Time, flow: &mut Flow, _flows: &mut Flows<Flow>) {
        self.division.look_at(flow, false);
    }

    fn on_host(&mut self, now: Time, sample: HostSample, core: &mut Core<Flow>) {
        let Some(pause) = sample.pause.filter(|_| self.tells_pauses) else { return };
        let expects_data = |flow: &&Flow| flow.core.path.is_open() && flow.tally.pending_bytes() > 0;
        let holds: Vec<(FlowId, OwnMessage)> = core
            .flows
            .values()
            .filter(expects_data)
            .filter_map(|flow| Some((flow.core.join.flow, flow.hold(now, pause)?)))
            .collect();
        for (id, hold) in holds {
            core.say_own(id, hold.emit());
        }
    }

    fn limit(&mut self, _now: Time, limit: Option<Bitrate>, core: &mut Core<Flow>) {
        self.division.set_capacity(limit, &mut core.flows);
    }

    fn on_timeout(&mut self, now: Time, core: &mut Core<Flow>) {
        if let Some(changed) = self.division.on_timer(now, &mut core.flows) {
            tell(core, changed);
        }
    }

    fn due(&self) -> Option<Time> {
        self.division.due()
    }

    fn settle(&mut self, now: Time, core: &mut Core<Flow>) {
        if let Some(changed) = self.division.refresh(now, &mut core.flows) {
            tell(core, changed);
        }
        core.touch_all(self.asking.drain(..));
    }
}

#[cfg(test)]
mod tests;
