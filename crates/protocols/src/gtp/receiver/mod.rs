//! The receiver: all flows of a host that fetches, and the central control over them (gtp-2004 3.2, Figure 4).

mod central;
mod flow;
mod held_by;
mod hold;
mod requests;
mod source;
mod stream;

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::Object;
use inhaul_transport::kit::path::PathRules;
use inhaul_transport::kit::receiver::{self, Core, FlowCore, Receiver, Reception, Rules, Run as PacketRun};
use inhaul_transport::kit::wire::{Message, Reader};
use inhaul_transport::{CommandError, EndpointConfig, FlowError, FlowId, HostSample, Place};

use super::discover::Policy;
use super::monitor::Run;
use super::wire::{BLOCK_GRAIN, DataHeader, Edge, HEADER_LEN, OwnMessage, SetupMore, VERSION, accept_rate};
use central::Central;
pub(super) use central::Control;
use flow::{Flow, Phase};
use hold::Outlook;
use requests::Arrival;

/// All flows of a host that fetches.
pub(super) type GtpReceiver = Receiver<Gtp>;

/// What GTP adds to a receiver.
pub(super) struct Gtp {
    central: Central,
    outlook: Outlook,
    socket_buffer: u64,
    /// Bytes received by all flows, headers included.
    wire_bytes: u64,
}

impl Gtp {
    /// A receiver's central control.
    pub(super) fn new(config: &EndpointConfig, control: Control, policy: Policy) -> Self {
        Self {
            central: Central::new(control, policy, config.host_rate, config.socket_buffer_bytes),
            outlook: Outlook::default(),
            socket_buffer: config.socket_buffer_bytes,
            wire_bytes: 0,
        }
    }

    /// Tells senders to hold data that would come while the host does not run.
    fn tell_holds(&mut self, now: Time, core: &mut Core<Flow>) {
        if let Some(pause) = self.outlook.tell(now, self.socket_buffer, core) {
            self.central.on_hold(pause);
        }
    }

    /// Tells the flow's sender something of rates; a source hears only how fast it may read.
    fn tell(id: FlowId, message: &OwnMessage, core: &mut Core<Flow>) {
        match *message {
            OwnMessage::Rate { rate, .. } if core.is_source(id) => core.pace(id, rate),
            _ if core.is_source(id) => {}
            _ => core.say_own(id, message.emit()),
        }
    }

    /// Makes an open flow take up work, or rest if there is no work.
    fn begin(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if core.is_complete(id) {
            if let Some(flow) = core.flows.get_mut(&id) {
                flow.rest();
                core.flows.rest(id);
            }
        } else if let Some(message) = self.central.on_open(now, id, &mut core.flows) {
            Self::tell(id, &message, core);
        }
    }

    /// Loss belongs to the receiver: what does not come in time is wanted again (gtp-2004 3.5).
    fn give_up_lost(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let Some(object) = core.objects.get_mut(&flow.core.join.object) else { return };
        let wanted = object.wanted_bytes();
        let stalled = flow.has_stalled(now);
        let window = flow.reorder_window();
        let (monitor, again) = (&mut flow.monitor, &mut flow.retransmitted_bytes);
        let mut lose = |range: ByteRange, packets: u64, epoch: u16| {
            monitor.on_loss(packets, epoch);
            *again += range.len();
            object.want(range);
        };
        flow.requests.expire(now, window, &mut lose);
        let mut cancel = None;
        if stalled {
            let epoch = flow.epoch;
            flow.requests.abandon(|range, packets| lose(range, packets, epoch));
            flow.monitor.end_train();
            flow.stalled = true;
            cancel = Some(Message::Cancel { through: flow.requests.last_id() });
        }
        if object.wanted_bytes() > wanted {
            let flows = object.flows.clone();
            core.touch_all(flows);
        }
        if let Some(cancel) = cancel {
            core.say(id, &cancel);
        }
    }
}

impl Reception for Gtp {
    type Flow = Flow;
    type Head = DataHeader;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: BLOCK_GRAIN,
        object_max: u64::MAX,
        path: PathRules { probe_gap: Span::from_millis(250), raise_probes: 3, steady_responses: true },
        relief_min: Span::from_millis(50),
    };

    fn new_flow(&mut self, now: Time, core: FlowCore) -> Flow {
        Flow::new(now, core)
    }

    fn setup(&self, flow: &Flow) -> Vec<u8> {
        let more = SetupMore {
            receive_buffer: self.socket_buffer,
            access_rate: self.central.capacity(),
            application_rate: flow.core.join.limits.application_rate,
        };
        more.emit()
    }

    fn on_accept(&mut self, flow: &mut Flow, more: Reader<'_>) -> Result<(), FlowError> {
        flow.send_limit = accept_rate(more).map_err(|_| FlowError::Protocol("an Accept could not be understood"))?;
        Ok(())
    }

    fn on_message(
        &mut self,
        now: Time,
        id: FlowId,
        kind: u8,
        body: Reader<'_>,
        core: &mut Core<Flow>,
    ) -> Result<(), FlowError> {
        let Ok(OwnMessage::Limit { send_rate }) = OwnMessage::parse(kind, body) else {
            return Err(FlowError::Protocol("a receiver's message came from the sender"));
        };
        if let Some(flow) = core.flows.get_mut(&id) {
            let before = std::mem::replace(&mut flow.send_limit, send_rate);
            flow.found.estimate = flow.found.estimate.min(flow.known_bound());
            if let (Some(before), None) = (before, send_rate) {
                self.central.on_lifted(before, flow);
            }
        }
        self.central.schedule(now, &mut core.flows);
        Ok(())
    }

    fn on_open(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.open(now);
        }
        self.begin(now, id, core);
    }

    fn on_data(
        &mut self,
        now: Time,
        id: FlowId,
        run: &PacketRun<DataHeader>,
        core: &mut Core<Flow>,
        places: &mut Vec<Place>,
    ) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let Some(object) = core.objects.get(&flow.core.join.object) else { return };
        let (range, epoch) = (run.range(), run.head.epoch);
        match flow.requests.arrive(now, run.head.request, range, epoch) {
            Arrival::Foreign => return,
            Arrival::InOrder => {}
            Arrival::Reordered(late_by) => flow.monitor.on_reordering(late_by),
            Arrival::Late if !object.held.contains(range) => flow.monitor.on_spurious_loss(run.packets),
            Arrival::Late => {}
        }
        let wire_bytes = run.body_bytes + run.packets * flow.core.overhead();
        self.wire_bytes += wire_bytes;
        let &PacketRun { packets, waited, congested, .. } = run;
        let seen = Run { packets, wire_bytes, sent: run.head.sent, epoch, waited, congested };
        flow.monitor.on_data(now, seen, self.wire_bytes);
        flow.note_data(now, run.body_len);
        if flow.core.reliable {
            let rtt = flow.base_rtt();
            flow.stream.on_data(now, wire_bytes, rtt);
        }
        core.place(id, run, range, places);
        core.touch(id);
    }

    const TAKES_SOURCES: bool = true;

    fn on_delivery(&mut self, now: Time, id: FlowId, range: ByteRange, core: &mut Core<Flow>, places: &mut Vec<Place>) {
        self.wire_bytes += range.len();
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.on_delivery(now, range);
        }
        core.place_delivery(id, range, places);
    }

    fn on_datagram(&mut self, now: Time, id: FlowId, bytes: &[u8], core: &mut Core<Flow>) -> bool {
        let (Some(edge), Some(flow)) = (Edge::parse(bytes), core.flows.get_mut(&id)) else { return false };
        flow.core.last_heard = now;
        flow.monitor.end_train();
        flow.monitor.on_dry();
        flow.requests.all_sent(now, edge.request, edge.epoch);
        true
    }

    fn on_flow_timer(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        self.give_up_lost(now, id, core);
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let mut messages: Vec<OwnMessage> = flow.take_due_target(now).into_iter().collect();
        if let Some(tick) = flow.rtt_tick(now) {
            messages.extend(tick.message);
            if tick.cut {
                flow::cut_siblings(now, id, &mut core.flows);
            }
            self.central.on_rtt(now, tick.loss, self.wire_bytes, &core.flows);
        }
        for message in messages {
            Self::tell(id, &message, core);
        }
    }

    fn attend(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if core.flows.get(&id).is_some_and(Flow::train_has_arrived)
            && let Some(message) = self.central.on_train(now, id, &mut core.flows)
        {
            Self::tell(id, &message, core);
        }
    }

    fn ask(&mut self, now: Time, flow: &mut Flow, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        if let Some(source) = flow.core.source {
            return flow.ask_source(now, source.lanes, object);
        }
        // Data that comes while the host does not run must fit into its socket buffer.
        let room = if self.outlook.meets(now, flow) { self.socket_buffer / 2 } else { u64::MAX };
        flow.ask(now, object, self.socket_buffer, room)
    }

    /// The path is measured anew, because the loss does not show its rate.
    fn on_narrower(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        flow.monitor.end_train();
        flow.monitor.take_rtt_loss(now);
        let through = flow.requests.last_id();
        core.say(id, &Message::Cancel { through });
        self.begin(now, id, core);
    }

    fn on_path_change(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        if flow.change_path(now) {
            self.central.schedule(now, &mut core.flows);
        }
    }

    /// The flow rests, in case some of the object turns out to be wrong.
    fn on_complete(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        let Some(flow) = core.flows.get_mut(&id).filter(|flow| flow.core.path.is_open()) else { return };
        let left = flow.is_running().then(|| flow.controller.target());
        flow.rest();
        core.flows.rest(id);
        if let Some(rate) = left {
            self.central.on_leave(now, rate, &mut core.flows);
        }
    }

    fn on_leave(&mut self, now: Time, flow: &mut Flow, flows: &mut receiver::Flows<Flow>) {
        if flow.is_running() {
            self.central.on_leave(now, flow.controller.target(), flows);
        }
    }

    /// Resting flows take up work.
    fn on_refetch(&mut self, now: Time, flows: &[FlowId], core: &mut Core<Flow>) {
        let mut woken = false;
        for &id in flows {
            let Some(flow) = core.flows.get_mut(&id).filter(|flow| flow.phase == Phase::Idle) else { continue };
            woken = true;
            if flow.measured {
                flow.phase = Phase::Steady;
                core.flows.wake(id);
            } else {
                core.flows.wake(id);
                self.begin(now, id, core); // it was never measured
            }
        }
        // A reader of a large file requests parts hundreds of times a second: shares change only when flows wake.
        if woken {
            self.central.schedule(now, &mut core.flows);
        }
    }

    fn limit(&mut self, now: Time, limit: Option<Bitrate>, core: &mut Core<Flow>) {
        self.central.limit(now, limit, &mut core.flows);
    }

    fn set_policy(&mut self, now: Time, policy: Policy, core: &mut Core<Flow>) -> Result<(), CommandError> {
        self.central.set_policy(now, policy, &mut core.flows)
    }

    /// The host's capacity is C_r (gtp-2004 2), and it may have pauses.
    fn on_host(&mut self, now: Time, sample: HostSample, core: &mut Core<Flow>) {
        if let Some(tcp) = sample.tcp {
            self.central.host_tcp(now, self.wire_bytes, tcp, &core.flows);
        }
        self.central.host_takes(now, sample.intake, &mut core.flows);
        self.outlook.foresee(now, sample.pause);
        self.tell_holds(now, core);
    }

    fn on_timeout(&mut self, now: Time, core: &mut Core<Flow>) {
        self.tell_holds(now, core);
        self.central.on_timeout(now, self.wire_bytes, &mut core.flows);
    }

    fn due(&self) -> Option<Time> {
        self.central.due().into_iter().chain(self.outlook.due()).min()
    }

    fn settle(&mut self, _now: Time, core: &mut Core<Flow>) {
        for id in self.central.take_retimed() {
            core.note_timer(id);
        }
    }
}
