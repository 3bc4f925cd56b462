//! The receiver: requests ranges from senders, reports arrivals and losses, and says where bytes belong.

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::division::{Changed, Division, Share, Shared, ToldRate};
use inhaul_transport::kit::path::PathRules;
use inhaul_transport::kit::receiver::{Core, FlowCore, Flows, Receiver, ReceiverFlow, Reception, Rules, Run, Silence};
use inhaul_transport::kit::wire::RANGES_MAX;
use inhaul_transport::kit::{Object, Outstanding, compress};
use inhaul_transport::{EndpointConfig, Expected, FlowId, FlowStats, Place};

use super::core::{Ack, Arrival, Feedback, ReceiveSide, low_bits, nearest};
use super::options::Options;
use super::wire::{DataHeader, HEADER_LEN, NAK_WORDS_MAX, OBJECT_MAX, OwnMessage, Small, VERSION};

/// Bytes requested ahead, in sender's windows: the data in flight, the data that leaves until a request arrives while
/// the window doubles, and as much again ...
const LEAD_WINDOWS: u64 = 4;
/// ... at least, and at most.
const LEAD_MIN: u64 = 1 << 20;
const LEAD_MAX: u64 = 1 << 32;
/// A part of the lead that is worth a request.
const LEAD_STEP: u64 = 8;
/// A sender that answers probes but sends no data for so long is given up.
const MUTE_MAX: Span = Span::from_secs(150);
/// The time over which the arrival rate is measured.
const METER_SPAN: Span = Span::from_millis(250);

/// All flows of a host that fetches.
pub(super) type UdtReceiver = Receiver<Udt>;

/// What UDT adds to a receiver.
pub(super) struct Udt {
    options: Options,
    /// What all flows together may take (C_r), and who of it.
    division: Division,
}

impl Udt {
    pub(super) fn new(config: &EndpointConfig, options: Options) -> Self {
        Self { options, division: Division::new(config.host_rate) }
    }
}

/// A flow's state at the receiver.
pub(super) struct Flow {
    core: FlowCore,
    outstanding: Outstanding,
    /// The flow's share.
    share: Share,
    side: ReceiveSide,
    /// The sender's window, as two to this power bytes.
    window_log: u8,
    /// When data last came, or was asked for when nothing was.
    last_data: Time,
    /// The recent arrival rate, and the time and bytes since its measurement began.
    rate: Bitrate,
    metered: (Time, u64),
    received_packets: u64,
    wire_bytes: u64,
}

impl Flow {
    /// Bytes to request ahead of the arrivals.
    fn lead(&self) -> u64 {
        ((1u64 << self.window_log.min(40)) * LEAD_WINDOWS).clamp(LEAD_MIN, LEAD_MAX)
    }

    fn meter(&mut self, now: Time) {
        let (since, before) = self.metered;
        let span = now.since(since);
        if span >= METER_SPAN {
            self.rate = Bitrate::of(self.wire_bytes - before, span);
            self.metered = (now, self.wire_bytes);
        }
    }

    fn on_data(&mut self, now: Time, run: &Run<DataHeader>) -> Arrival {
        let Some(number) = nearest(self.side.next(), run.head.number) else { return Arrival::Refused };
        let arrival = self.side.on_data(now, now - run.waited, number, run.packets);
        self.core.last_heard = now;
        self.last_data = now;
        let full_size = run.body_bytes >= run.packets * u64::from(self.core.block);
        self.core.path.on_data(now, full_size, self.outstanding.pending_bytes() > 0);
        self.window_log = run.head.window_log;
        self.meter(now);
        self.received_packets += run.packets;
        self.wire_bytes += run.body_bytes + run.packets * self.core.overhead();
        arrival
    }
}

/// Tells senders their rates; flows that may take something now are asked for it.
fn tell(core: &mut Core<Flow>, changed: Changed) {
    for (id, told) in changed {
        if let Some(ToldRate(rate)) = told {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
        core.touch(id);
    }
}

/// A report as it stands on the wire.
fn small(feedback: Feedback) -> Small {
    match feedback {
        Feedback::Ack(Ack { number, next, rtt, rtt_variation, window, arrival_speed, capacity }) => {
            let (next, window) = (low_bits(next), window as u32);
            Small::Ack { ack: number, next, rtt, rtt_variation, window, arrival_speed, capacity }
        }
        Feedback::LightAck { next } => Small::LightAck { next: low_bits(next) },
        Feedback::Warning { ack } => Small::Warning { ack },
        Feedback::Nak(ranges) => Small::Nak(compress(ranges.into_iter(), NAK_WORDS_MAX)),
    }
}

impl Reception for Udt {
    type Flow = Flow;
    type Head = DataHeader;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: 1,
        object_max: OBJECT_MAX,
        path: PathRules { probe_gap: Span::from_secs(1), raise_probes: 1, steady_responses: false },
        relief_min: Span::from_millis(200),
    };

    fn new_flow(&mut self, now: Time, core: FlowCore) -> Flow {
        Flow {
            core,
            outstanding: Outstanding::default(),
            share: Share::default(),
            side: ReceiveSide::new(self.options.window_max, self.options.control().reporting()),
            window_log: 0,
            last_data: now,
            rate: Bitrate::ZERO,
            metered: (now, 0),
            received_packets: 0,
            wire_bytes: 0,
        }
    }

    fn setup(&self, _flow: &Flow) -> Vec<u8> {
        vec![self.options.control().code()]
    }

    fn on_open(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.last_data = now;
            flow.side.begin(flow.core.path.rtt().smoothed());
        }
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
        let mut rest = run.range();
        match flow.on_data(now, run) {
            Arrival::Refused => return,
            Arrival::Duplicate => flow.core.duplicate_bytes += rest.len(),
            // Unrequested data has its number but no place in the object. Packets that came together may answer several
            // requests, and some of them may have come before.
            Arrival::New => {
                while !rest.is_empty() {
                    let Some(flow) = core.flows.get_mut(&id) else { return };
                    let Some(asked) = flow.outstanding.arrive(rest) else {
                        rest = ByteRange::new(rest.start.saturating_add(run.body_len).min(rest.end), rest.end);
                        flow.core.duplicate_bytes += run.body_len;
                        continue;
                    };
                    core.place(id, run, asked, places);
                    rest.start = asked.end;
                }
            }
        }
        core.touch(id);
    }

    fn on_datagram(&mut self, now: Time, id: FlowId, bytes: &[u8], core: &mut Core<Flow>) -> bool {
        let Some(Small::Ack2 { ack }) = Small::parse(bytes) else { return false };
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.core.last_heard = now;
            flow.side.on_ack2(now, ack);
        }
        true
    }

    fn on_flow_timer(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.meter(now);
        }
    }

    fn attend(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        while let Some(feedback) = core.flows.get_mut(&id).and_then(|flow| flow.side.feedback(now, NAK_WORDS_MAX / 2)) {
            core.send(id, &small(feedback).emit());
        }
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let wanted = core.objects.get(&flow.core.join.object).is_some_and(Object::has_wanted);
        let running = flow.core.path.is_open() && (wanted || flow.outstanding.pending_bytes() > 0);
        if let Some(ToldRate(rate)) = self.division.look_at(flow, running) {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
    }

    fn ask(&mut self, now: Time, flow: &mut Flow, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        let (lead, pending) = (flow.lead(), flow.outstanding.pending_bytes());
        if !flow.share.is_granted() || pending + lead / LEAD_STEP > lead || !flow.outstanding.has_room(RANGES_MAX) {
            return None;
        }
        let block = u64::from(flow.core.block);
        let ranges = object.take(lead - pending, block, RANGES_MAX, &flow.core.avoid);
        if ranges.is_empty() {
            return None;
        }
        if pending == 0 {
            flow.last_data = now;
        }
        Some((flow.outstanding.ask(block, &ranges), ranges))
    }

    /// Packets are never cut anew: the flow continues behind all sent ones.
    fn on_narrower(&mut self, _now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            let from = low_bits(flow.side.restart());
            core.say_own(id, OwnMessage::Restart { from }.emit());
        }
    }

    fn on_leave(&mut self, _now: Time, flow: &mut Flow, _flows: &mut Flows<Flow>) {
        self.division.look_at(flow, false);
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
        self.outstanding.pending_bytes()
    }

    fn last_request(&self) -> u32 {
        self.outstanding.last_id()
    }

    fn abandon(&mut self) -> Vec<ByteRange> {
        self.outstanding.abandon().iter().collect()
    }

    fn is_idle(&self) -> bool {
        self.core.path.is_open() && self.outstanding.pending_bytes() == 0
    }

    fn time_for(&self, bytes: u64) -> Span {
        let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
        self.rate.time_for(bytes) + rtt
    }

    fn due(&self) -> Option<Time> {
        self.side.due()
    }

    fn silence(&self) -> Option<Silence> {
        let silent = self.core.silence();
        let since = self.last_data;
        let mute = Silence { until: since + MUTE_MAX, since, no_path: true };
        if self.outstanding.pending_bytes() > 0 { silent.min(Some(mute)) } else { silent }
    }

    fn expected(&self) -> Option<Expected> {
        // Behind a gap the next to come may be the missing one.
        let (range, body) = self.outstanding.expected()?;
        Some(Expected { head_len: HEADER_LEN, body_len: body as usize, range })
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            wire_bytes: self.wire_bytes,
            received_packets: self.received_packets,
            lost_packets: self.side.lost(),
            received_rate: self.rate,
            target_rate: self.share.target(),
            requested_rate: self.share.said(),
            outstanding_bytes: self.outstanding.pending_bytes(),
            ..self.core.stats()
        }
    }

    fn memory_bytes(&self) -> usize {
        self.outstanding.memory_bytes() + self.side.memory_bytes()
    }
}
