//! The receiver: all flows of a host that fetches, and the central control over them (gtp-2004 3.2, Figure 4).

mod capacities;
mod central;
mod flow;
mod judgement;
mod probing;
mod requests;
mod wants;

use std::collections::{BTreeMap, VecDeque};

use inhaul_base::{Bitrate, ByteRange, RangeSet, Span, Time};
use inhaul_transport::kit::{Object, SortedSet, Table};
use inhaul_transport::{
    Command, CommandError, Endpoint, EndpointConfig, Event, Expected, FlowError, FlowId, FlowStats, JoinFlow, ObjectId,
    Place, Reason, RxMessage, TxBatch,
};

use super::MTU_MIN;
use super::monitor::Run;
use super::wire::{self, DataHeader, Datagram, HEADER_LEN, VERSION, WireError};
use central::Central;
use flow::{Flow, Phase};
use requests::Arrival;

/// How rates are controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Capacities are found (PROTOCOL.md 7).
    Discover,
    /// gtp-2004 to the letter: capacities are given.
    Paper,
}

/// A host's flows.
type Flows = Table<FlowId, Flow>;

/// All flows of a host that fetches.
pub struct GtpReceiver {
    flows: Flows,
    by_key: BTreeMap<u32, FlowId>,
    objects: Table<ObjectId, Object>,
    central: Central,
    socket_buffer: u64,
    /// Bytes received by all flows, headers included.
    wire_bytes: u64,
    events: VecDeque<Event>,
    /// Every flow's next timer.
    timers: SortedSet<(Time, FlowId)>,
    /// Flows that were touched and must be looked after before the call ends.
    touched: SortedSet<FlowId>,
    probes: VecDeque<(FlowId, Datagram, u16)>,
}

/// A sender is not relieved of what it will bring in this time.
const RELIEF_MIN: Span = Span::from_millis(50);

/// Consecutive data packets of one message, being gathered.
#[derive(Clone, Copy)]
struct Gathered {
    head: DataHeader,
    message: usize,
    first: usize,
    packets: u64,
    body_bytes: u64,
    /// Length of all bodies but the last.
    body_len: u64,
}

impl GtpReceiver {
    /// A receiver without flows.
    pub fn new(config: &EndpointConfig, control: Control) -> Self {
        Self {
            flows: Table::new(),
            by_key: BTreeMap::new(),
            objects: Table::new(),
            central: Central::new(control, config.host_rate, config.socket_buffer_bytes),
            socket_buffer: config.socket_buffer_bytes,
            wire_bytes: 0,
            events: VecDeque::new(),
            timers: SortedSet::new(),
            touched: SortedSet::new(),
            probes: VecDeque::new(),
        }
    }

    /// What all flows together may take just now (C_r); `None` while nothing is known.
    pub fn capacity(&self) -> Option<Bitrate> {
        self.central.capacity()
    }

    // --- Joining and leaving ----------------------------------------------------------------------------------------

    fn join(&mut self, now: Time, join: JoinFlow) -> Result<(), CommandError> {
        if self.flows.contains_key(&join.flow) {
            return Err(CommandError::FlowExists(join.flow));
        }
        if join.mtu < MTU_MIN {
            return Err(CommandError::MtuTooSmall(join.mtu));
        }
        if self.by_key.contains_key(&join.key) {
            return Err(CommandError::KeyInUse);
        }
        let object = self.objects.get_mut(&join.object).ok_or(CommandError::UnknownObject(join.object))?;
        object.flows.push(join.flow);
        let setup = wire::Control::Setup {
            key: join.key,
            mtu: join.mtu,
            size: object.size,
            receive_buffer: self.socket_buffer,
            access_rate: self.central.capacity(),
            application_rate: join.limits.application_rate,
        };
        self.by_key.insert(join.key, join.flow);
        self.flows.insert(join.flow, Flow::new(now, join));
        self.say(join.flow, &setup);
        self.touched.insert(join.flow);
        Ok(())
    }

    /// Takes a flow out of everything; what it still owed goes to the object's other flows.
    fn remove(&mut self, now: Time, id: FlowId) -> Option<Flow> {
        let mut flow = self.flows.remove(&id)?;
        self.by_key.remove(&flow.join.key);
        if let Some((at, _)) = flow.noted {
            self.timers.remove(&(at, id));
        }
        if let Some(object) = self.objects.get_mut(&flow.object) {
            object.flows.retain(|f| *f != id);
            flow.requests.abandon(|range, _| object.want(range));
            self.touched.extend(object.flows.iter().copied());
            // The only flow that is left must bring everything.
            if let [last] = object.flows[..]
                && let Some(last) = self.flows.get_mut(&last)
            {
                last.avoid = RangeSet::new();
            }
        }
        if flow.is_running() {
            self.central.on_leave(now, flow.controller.target(), &mut self.flows);
        }
        Some(flow)
    }

    fn fail(&mut self, now: Time, id: FlowId, error: FlowError) {
        let Some(flow) = self.remove(now, id) else { return };
        self.events.push_back(Event::Failed { flow: id, error });
        if self.objects.get(&flow.object).is_some_and(|o| o.flows.is_empty() && !o.complete) {
            self.events.push_back(Event::Starved { object: flow.object });
        }
    }

    fn say(&mut self, flow: FlowId, message: &wire::Control) {
        self.events.push_back(Event::Control { flow, message: message.emit() });
    }

    // --- What comes in ----------------------------------------------------------------------------------------------

    fn on_message(&mut self, now: Time, index: usize, message: &RxMessage<'_>, places: &mut Vec<Place>) {
        let mut gathered: Option<Gathered> = None;
        for k in 0..message.datagrams() {
            let Ok(datagram) = Datagram::parse(message.head(k)) else { continue };
            let Datagram::Data(head) = datagram else {
                self.on_small(now, message, datagram);
                continue;
            };
            let body = (message.len_of(k) - HEADER_LEN) as u64;
            if let Some(run) = &mut gathered {
                if run.is_followed_by(&head, k) {
                    run.packets += 1;
                    run.body_bytes += body;
                    continue;
                }
                self.on_data(now, run, message, places);
            }
            gathered =
                Some(Gathered { head, message: index, first: k, packets: 1, body_bytes: body, body_len: body.max(1) });
        }
        if let Some(run) = gathered {
            self.on_data(now, &run, message, places);
        }
    }

    fn on_data(&mut self, now: Time, run: &Gathered, message: &RxMessage<'_>, places: &mut Vec<Place>) {
        let Some(&id) = self.by_key.get(&run.head.key) else { return };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let Some(object) = self.objects.get_mut(&flow.object) else { return };
        if flow.peer != Some(message.from) {
            return;
        }
        let range = ByteRange::at(run.head.offset, run.body_bytes);
        let arrival = flow.requests.arrive(now, run.head.request, range, run.head.epoch);
        match arrival {
            Arrival::Foreign => return,
            Arrival::InOrder => {}
            Arrival::Reordered(late_by) => flow.monitor.on_reordering(late_by),
            Arrival::Late if !object.held.contains(range) => flow.monitor.on_spurious_loss(run.packets),
            Arrival::Late => {}
        }
        let wire_bytes = run.body_bytes + run.packets * flow.overhead();
        self.wire_bytes += wire_bytes;
        let (sent, epoch) = (run.head.sent, run.head.epoch);
        let seen = Run { packets: run.packets, wire_bytes, sent, epoch, waited: message.waited };
        flow.monitor.on_data(now, seen, self.wire_bytes);
        flow.note_data(now, run.body_len);
        let new = object.hold(range, |part| places.push(run.place(id, part)));
        flow.placed_bytes += new;
        flow.duplicate_bytes += range.len() - new;
        self.touched.insert(id);
    }

    fn on_small(&mut self, now: Time, message: &RxMessage<'_>, datagram: Datagram) {
        let (Datagram::Data(DataHeader { key, .. })
        | Datagram::Edge { key, .. }
        | Datagram::Echo { key, .. }
        | Datagram::Open { key, .. }
        | Datagram::Probe { key, .. }
        | Datagram::Response { key, .. }) = datagram;
        let Some(&id) = self.by_key.get(&key) else { return };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        match datagram {
            Datagram::Open { token, .. } => {
                if flow.join.peer.is_none() && token == flow.token && matches!(flow.phase, Phase::Opening { .. }) {
                    flow.peer = Some(message.from);
                    flow.note_heard(now);
                }
            }
            _ if flow.peer != Some(message.from) => return,
            Datagram::Edge { request, epoch, .. } => {
                flow.note_heard(now);
                flow.monitor.end_train();
                flow.monitor.on_dry();
                flow.requests.all_sent(now, request, epoch);
            }
            Datagram::Echo { number, len, challenge, .. } => {
                if flow.on_echo(now, number, len, challenge) {
                    self.opened(now, id);
                }
            }
            Datagram::Data(_) | Datagram::Probe { .. } | Datagram::Response { .. } => return,
        }
        self.touched.insert(id);
    }

    fn on_control(&mut self, now: Time, id: FlowId, message: &wire::Control) -> Result<(), FlowError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(()) };
        match *message {
            wire::Control::Accept { token, mtu, size, send_rate } => {
                let object = self.objects.get(&flow.object);
                if flow.phase != Phase::SettingUp || mtu < MTU_MIN {
                    return Err(FlowError::Protocol("a second or an illegal Accept"));
                }
                if object.is_some_and(|o| o.size != size) {
                    return Err(FlowError::Protocol("the sender's object has another size"));
                }
                flow.begin_opening(now, token, mtu, send_rate);
            }
            wire::Control::Limit { send_rate } => {
                flow.send_limit = send_rate;
                flow.estimate = flow.estimate.min(flow.known_bound());
                self.central.schedule(now, &mut self.flows);
            }
            _ => return Err(FlowError::Protocol("a receiver's message came from the sender")),
        }
        self.touched.insert(id);
        Ok(())
    }

    fn opened(&mut self, now: Time, id: FlowId) {
        self.events.push_back(Event::Opened { flow: id });
        self.begin(now, id);
    }

    /// Has an open flow take up work, or rest if there is none.
    fn begin(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        if self.objects.get(&flow.object).is_some_and(|o| o.complete) {
            flow.rest();
            return;
        }
        let message = self.central.on_open(now, id, &mut self.flows);
        if let Some(message) = message {
            self.say(id, &message);
        }
    }

    // --- Timers -----------------------------------------------------------------------------------------------------

    fn on_flow_timer(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        if let Some(seconds) = flow.gone_silent(now) {
            let error = if flow.is_mute() { FlowError::NoPath { seconds } } else { FlowError::Silent { seconds } };
            return self.fail(now, id, error);
        }
        if flow.settle_opening(now) {
            self.opened(now, id);
        }
        self.give_up_lost(now, id);
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let mut messages: Vec<wire::Control> = flow.take_due_target(now).into_iter().collect();
        if let Some((loss, message)) = flow.rtt_tick(now) {
            self.central.on_rtt(now, loss, self.wire_bytes, &self.flows);
            messages.extend(message);
        }
        for message in messages {
            self.say(id, &message);
        }
    }

    /// Loss belongs to the receiver: what does not come in time is wanted again (gtp-2004 3.5).
    fn give_up_lost(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let Some(object) = self.objects.get_mut(&flow.object) else { return };
        let wanted = object.wanted_bytes();
        let stalled = flow.has_stalled(now);
        let (monitor, again) = (&mut flow.monitor, &mut flow.retransmitted_bytes);
        let window = monitor.reorder_window();
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
            cancel = Some(wire::Control::Cancel { through: flow.requests.last_id() });
        }
        if object.wanted_bytes() > wanted {
            self.touched.extend(object.flows.iter().copied());
        }
        if let Some(cancel) = cancel {
            self.say(id, &cancel);
        }
    }

    /// Looks after every flow that was touched: asks for more, finishes objects, sets timers. Ends every call.
    fn settle(&mut self, now: Time) {
        while let Some(id) = self.touched.pop_first() {
            if self.finish_object(now, id) {
                continue;
            }
            if self.flows.get(&id).is_some_and(Flow::train_has_arrived)
                && let Some(message) = self.central.on_train(now, id, &mut self.flows)
            {
                self.say(id, &message);
            }
            self.request_more(now, id);
            self.probe(now, id);
            self.note_timer(id);
        }
        for id in self.central.take_retimed() {
            self.note_timer(id);
        }
    }

    /// Sends the flow's probes and responses that are due. A path that was found to carry less is another path: what is outstanding
    /// is asked for anew in smaller blocks, and the path is measured anew, because what was lost says nothing of its rate.
    fn probe(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.suspect_mtu(now);
        let probes = &mut self.probes;
        if !flow.send_due(now, |datagram, len| probes.push_back((id, datagram, len))) {
            return;
        }
        if let Some(object) = self.objects.get_mut(&flow.object) {
            flow.requests.abandon(|range, _| object.want(range));
        }
        flow.monitor.end_train();
        flow.monitor.take_rtt_loss(now);
        let cancel = wire::Control::Cancel { through: flow.requests.last_id() };
        self.say(id, &cancel);
        self.begin(now, id);
        self.request_more(now, id);
    }

    fn request_more(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get(&id) else { return };
        let object_id = flow.object;
        if flow.has_nothing_to_do() && self.objects.get(&object_id).is_some_and(|o| !o.has_wanted()) {
            self.relieve_slowest(id, object_id);
        }
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let Some(object) = self.objects.get_mut(&object_id) else { return };
        if let Some(message) = flow.request_more(now, object, self.socket_buffer) {
            self.say(id, &message);
        }
    }

    /// The end of a transfer must not wait for the slowest of its senders: what one still owes is wanted again when another
    /// that has nothing left to do would bring it in less than half the time. What is under way all the same is not lost.
    fn relieve_slowest(&mut self, idle: FlowId, object_id: ObjectId) {
        let Some(object) = self.objects.get(&object_id) else { return };
        let owes = |id: &FlowId| self.flows.get(id).map(|f| (f.time_left(), *id));
        let slowest = object.flows.iter().filter(|id| **id != idle).filter_map(owes).max();
        let (Some((left, slow)), Some(helper)) = (slowest, self.flows.get(&idle)) else { return };
        let Some(bytes) = self.flows.get(&slow).map(|f| f.requests.pending_bytes()) else { return };
        if left <= helper.time_for(bytes) * 2 + RELIEF_MIN {
            return;
        }
        let (Some(flow), Some(object)) = (self.flows.get_mut(&slow), self.objects.get_mut(&object_id)) else { return };
        flow.requests.abandon(|range, _| object.want(range));
        let cancel = wire::Control::Cancel { through: flow.requests.last_id() };
        self.say(slow, &cancel);
        self.touched.insert(slow);
        self.note_timer(slow);
    }

    /// If the flow's object is all there, says so and lets its flows rest. They stay, in case bytes turn out to be wrong.
    fn finish_object(&mut self, now: Time, id: FlowId) -> bool {
        let Some(object_id) = self.flows.get(&id).map(|f| f.object) else { return true };
        let Some(object) = self.objects.get_mut(&object_id).filter(|o| o.is_all_held() && !o.complete) else {
            return false;
        };
        object.complete = true;
        self.events.push_back(Event::Complete { object: object_id });
        for flow in object.flows.clone() {
            if let Some(flow) = self.flows.get_mut(&flow).filter(|f| f.is_open()) {
                let left = flow.is_running().then(|| flow.controller.target());
                flow.rest();
                if let Some(rate) = left {
                    self.central.on_leave(now, rate, &mut self.flows);
                }
            }
            self.note_timer(flow);
        }
        true
    }

    fn note_timer(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let due = flow.due();
        if due != flow.noted {
            if let Some((at, _)) = flow.noted {
                self.timers.remove(&(at, id));
            }
            if let Some((at, _)) = due {
                self.timers.insert((at, id));
            }
            flow.noted = due;
        }
    }
}

impl Gathered {
    /// Whether datagram `k` with this header continues the run: next in number and in place, at the same rate.
    fn is_followed_by(&self, head: &DataHeader, k: usize) -> bool {
        self.first + self.packets as usize == k
            && head.key == self.head.key
            && head.request == self.head.request
            && head.epoch == self.head.epoch
            && head.offset == self.head.offset.wrapping_add(self.body_bytes)
            && head.sequence == self.head.sequence.plus(self.packets as u32)
            && self.body_bytes == self.packets * self.body_len
    }

    /// Where the engine finds `part` of this run, and where it belongs.
    fn place(&self, flow: FlowId, part: ByteRange) -> Place {
        let into = part.start - self.head.offset;
        Place {
            flow,
            message: self.message as u32,
            first: self.first as u32 + (into / self.body_len) as u32,
            skip: HEADER_LEN as u32 + (into % self.body_len) as u32,
            head_len: HEADER_LEN as u32,
            range: part,
        }
    }
}

impl Endpoint for GtpReceiver {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        for (index, message) in batch.iter().enumerate() {
            self.on_message(now, index, message, places);
        }
        self.settle(now);
    }

    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        let result = match wire::Control::parse(message) {
            Ok(message) => self.on_control(now, flow, &message),
            Err(WireError::Version(theirs)) => Err(FlowError::Version { ours: VERSION, theirs }),
            Err(_) => Err(FlowError::Protocol("a control message could not be understood")),
        };
        if let Err(error) = result {
            self.fail(now, flow, error);
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(flow) = self.flows.get_mut(&id) {
                flow.noted = None;
            }
            self.on_flow_timer(now, id);
            self.touched.insert(id);
        }
        self.central.on_timeout(now, self.wire_bytes, &mut self.flows);
        self.settle(now);
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Fetch { object, size, held } => {
                if self.objects.contains_key(&object) {
                    return Err(CommandError::ObjectExists(object));
                }
                if let Some(beyond) = held.iter().next_back().filter(|r| r.end > size) {
                    return Err(CommandError::OutOfRange(beyond));
                }
                let mut fetched = Object::new(size, held);
                if fetched.is_all_held() {
                    fetched.complete = true;
                    self.events.push_back(Event::Complete { object });
                }
                self.objects.insert(object, fetched);
            }
            Command::Join(join) => self.join(now, join)?,
            Command::Disconnect { flow } => {
                if !self.flows.contains_key(&flow) {
                    return Err(CommandError::UnknownFlow(flow));
                }
                self.say(flow, &wire::Control::Close);
                let complete =
                    self.flows.get(&flow).and_then(|f| self.objects.get(&f.object)).is_some_and(|o| o.complete);
                if complete {
                    self.remove(now, flow);
                    self.events.push_back(Event::Closed { flow });
                } else {
                    self.fail(now, flow, FlowError::Disconnected);
                }
            }
            Command::Refetch { object, range, suspect } => self.refetch(now, object, range, suspect)?,
            Command::Skip { object, range } => self.skip(object, range)?,
            Command::Avoid { flow, range } => self.avoid(flow, range)?,
            Command::LimitReceive(limit) => self.central.limit(now, limit, &mut self.flows),
            Command::Offer(_) | Command::LimitSend(_) => return Err(CommandError::WrongRole),
        }
        self.settle(now);
        Ok(())
    }

    fn poll_transmit(&mut self, _now: Time, out: &mut TxBatch) {
        while out.room() > 0
            && let Some((id, datagram, len)) = self.probes.pop_front()
        {
            if let Some(peer) = self.flows.get(&id).and_then(|f| f.peer) {
                out.push(id, peer, &datagram.emit(), ByteRange::default(), len - HEADER_LEN as u16);
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Time, Reason)> {
        let flow = self.timers.first().and_then(|(at, id)| Some((*at, self.flows.get(id)?.noted?.1)));
        let central = self.central.due().map(|at| (at, Reason::Control));
        flow.into_iter().chain(central).min()
    }

    fn expected(&self, flow: FlowId) -> Option<Expected> {
        self.flows.get(&flow)?.expected()
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.flows.get(&flow).map(Flow::stats)
    }

    fn memory_bytes(&self) -> usize {
        let flow = |f: &Flow| size_of::<Flow>() + f.requests.memory_bytes() + f.avoid.fragments() * 40;
        let object = |o: &Object| size_of::<Object>() + o.memory_bytes();
        self.flows.values().map(flow).sum::<usize>()
            + self.objects.values().map(object).sum::<usize>()
            + self.events.capacity() * size_of::<Event>()
    }
}
