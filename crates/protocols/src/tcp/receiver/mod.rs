//! The receiver: asks senders for ranges, acknowledges the segments that come, and says where their bytes belong.

mod asked;
mod division;
mod flow;
mod path;
mod reassembly;

use std::collections::{BTreeMap, VecDeque};

use inhaul_base::{ByteRange, RangeSet, Span, Time};
use inhaul_transport::kit::{Object, SortedSet, Table};
use inhaul_transport::{
    Command, CommandError, Endpoint, EndpointConfig, Event, Expected, FlowError, FlowId, FlowStats, JoinFlow, ObjectId,
    Place, Reason, RxMessage, TxBatch,
};

use super::laws::LawName;
use super::wire::{Control, DataHeader, Datagram, HEADER_LEN, VERSION, WireError};
use super::{MTU_MIN, Options};
use division::{Changed, Division};
use flow::Flow;
use reassembly::Arrival;

/// Most datagrams that wait to be sent: acknowledgements are only worth something while they are new.
const WAITING_MAX: usize = 4_096;
/// A sender is not relieved of what it will bring in this time.
const RELIEF_MIN: Span = Span::from_millis(200);

/// All flows of a host that fetches.
pub struct TcpReceiver {
    flows: BTreeMap<FlowId, Flow>,
    by_key: BTreeMap<u32, FlowId>,
    objects: Table<ObjectId, Object>,
    options: Options,
    law: LawName,
    /// What all flows together may take (C_r), and who of it.
    division: Division,
    events: VecDeque<Event>,
    /// Every flow's next timer, or an earlier one that was not worth taking back.
    timers: SortedSet<(Time, FlowId)>,
    /// Flows that were touched and must be looked after before the call ends.
    touched: SortedSet<FlowId>,
    /// Datagrams that wait to be sent, and their padded lengths.
    waiting: VecDeque<(FlowId, Datagram, u16)>,
}

/// Segments of one message that follow each other, being gathered.
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

impl TcpReceiver {
    /// A receiver without flows, which asks its senders to use `law`.
    pub fn new(config: &EndpointConfig, law: LawName, options: Options) -> Self {
        Self {
            flows: BTreeMap::new(),
            by_key: BTreeMap::new(),
            objects: Table::new(),
            options,
            law,
            division: Division::new(config.host_rate),
            events: VecDeque::new(),
            timers: SortedSet::new(),
            touched: SortedSet::new(),
            waiting: VecDeque::new(),
        }
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
        let setup = Control::Setup { key: join.key, mtu: join.mtu, size: object.size, law: self.law };
        self.by_key.insert(join.key, join.flow);
        self.flows.insert(join.flow, Flow::new(now, join, &self.options));
        self.say(join.flow, &setup);
        self.touched.insert(join.flow);
        Ok(())
    }

    /// Takes a flow out of everything; what it still owed goes to the object's other flows.
    fn remove(&mut self, id: FlowId) -> Option<Flow> {
        let mut flow = self.flows.remove(&id)?;
        self.division.look_at(&mut flow, false);
        self.by_key.remove(&flow.join.key);
        if let Some(at) = flow.noted {
            self.timers.remove(&(at, id));
        }
        if let Some(object) = self.objects.get_mut(&flow.object) {
            object.flows.retain(|f| *f != id);
            flow.asked.abandon().iter().for_each(|range| object.want(range));
            self.touched.extend(object.flows.iter().copied());
            // The only flow that is left must bring everything.
            if let [last] = object.flows[..]
                && let Some(last) = self.flows.get_mut(&last)
            {
                last.avoid = RangeSet::new();
            }
        }
        Some(flow)
    }

    fn fail(&mut self, id: FlowId, error: FlowError) {
        let Some(flow) = self.remove(id) else { return };
        self.events.push_back(Event::Failed { flow: id, error });
        if self.objects.get(&flow.object).is_some_and(|o| o.flows.is_empty() && !o.complete) {
            self.events.push_back(Event::Starved { object: flow.object });
        }
    }

    fn disconnect(&mut self, id: FlowId) -> Result<(), CommandError> {
        let flow = self.flows.get(&id).ok_or(CommandError::UnknownFlow(id))?;
        let complete = self.objects.get(&flow.object).is_some_and(|o| o.complete);
        self.say(id, &Control::Close);
        if complete {
            self.remove(id);
            self.events.push_back(Event::Closed { flow: id });
        } else {
            self.fail(id, FlowError::Disconnected);
        }
        Ok(())
    }

    fn say(&mut self, flow: FlowId, message: &Control) {
        self.events.push_back(Event::Control { flow, message: message.emit() });
    }

    fn send(&mut self, flow: FlowId, datagram: Datagram, len: u16) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((flow, datagram, len));
        }
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
        if flow.peer != Some(message.from) || !flow.path.is_open() {
            return;
        }
        let range = ByteRange::at(run.head.offset, run.body_bytes);
        match flow.on_data(now, &run.head, run.packets, run.body_bytes) {
            Arrival::Refused => return,
            Arrival::Duplicate => flow.stats.duplicate_bytes += range.len(),
            // What was not asked for takes its place in the stream but not in the object.
            Arrival::InOrder | Arrival::OutOfOrder => {
                // Segments that came together may answer several requests, and some of them may have come before.
                let mut rest = range;
                while !rest.is_empty() {
                    let Some(asked) = flow.asked.arrive(rest) else {
                        rest = ByteRange::new(rest.start.saturating_add(run.body_len), rest.end);
                        flow.stats.duplicate_bytes += run.body_len;
                        continue;
                    };
                    let new = object.hold(asked, |part| places.push(run.place(id, part)));
                    flow.stats.placed_bytes += new;
                    flow.stats.duplicate_bytes += asked.len() - new;
                    rest.start = asked.end;
                }
            }
        }
        self.touched.insert(id);
        if flow.has_much_to_report() {
            self.acknowledge(now, id);
        }
    }

    fn on_small(&mut self, now: Time, message: &RxMessage<'_>, datagram: Datagram) {
        let (Datagram::Echo { key, .. } | Datagram::Open { key, .. }) = datagram else { return };
        let Some(&id) = self.by_key.get(&key) else { return };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        match datagram {
            Datagram::Open { token, .. } => flow.on_open(now, message.from, token),
            Datagram::Echo { number, len, challenge, .. } if flow.peer == Some(message.from) => {
                if flow.on_echo(now, number, len, challenge) {
                    self.opened(now, id);
                }
            }
            _ => return,
        }
        self.touched.insert(id);
    }

    fn on_control(&mut self, now: Time, id: FlowId, message: &Control) -> Result<(), FlowError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(()) };
        let Control::Accept { token, mtu, size } = *message else {
            return Err(FlowError::Protocol("a receiver's message came from the sender"));
        };
        if flow.is_accepted() || mtu < MTU_MIN {
            return Err(FlowError::Protocol("a second or an illegal Accept"));
        }
        if self.objects.get(&flow.object).is_some_and(|o| o.size != size) {
            return Err(FlowError::Protocol("the sender's object has another size"));
        }
        flow.on_accept(now, token, mtu);
        self.touched.insert(id);
        Ok(())
    }

    fn opened(&mut self, now: Time, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.begin(now);
            self.events.push_back(Event::Opened { flow: id });
        }
    }

    fn acknowledge(&mut self, now: Time, id: FlowId) {
        if let Some(ack) = self.flows.get_mut(&id).and_then(|flow| flow.due_ack(now)) {
            self.send(id, ack, 0);
        }
    }

    // --- Timers -----------------------------------------------------------------------------------------------------

    fn on_flow_timer(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.on_timer(now);
        if let Some((seconds, no_path)) = flow.gone_silent(now) {
            let error = if no_path { FlowError::NoPath { seconds } } else { FlowError::Silent { seconds } };
            return self.fail(id, error);
        }
        if flow.path.settle(now) {
            self.opened(now, id);
        }
        self.touched.insert(id);
    }

    /// Looks after every flow that was touched: acknowledges, asks for more, finishes objects, sets timers. Ends every call.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some(id) = self.touched.pop_first() {
                self.acknowledge(now, id);
                self.finish_object(id);
                self.look_at_share(id);
                self.request_more(now, id);
                self.probe(now, id);
                self.note_timer(id);
            }
            match self.division.refresh(now, &mut self.flows) {
                Some(changed) => self.tell(changed),
                None => return,
            }
        }
    }

    /// Sends the flow's probes and responses that are due. Of a path that was found to carry less, everything is asked for anew.
    fn probe(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let mut probes = Vec::new();
        let restart = flow.send_due(now, |datagram, len| probes.push((datagram, len)));
        if restart.is_some()
            && let Some(object) = self.objects.get_mut(&flow.object)
        {
            flow.asked.abandon().iter().for_each(|range| object.want(range));
        }
        for (datagram, len) in probes {
            self.send(id, datagram, len);
        }
        if let Some(restart) = restart {
            self.say(id, &restart);
            self.request_more(now, id);
        }
    }

    /// Notes whether the flow runs, for its share of C_r.
    fn look_at_share(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let wanted = self.objects.get(&flow.object).is_some_and(Object::has_wanted);
        let running = flow.path.is_open() && (wanted || flow.asked.pending_bytes() > 0);
        if let Some(message) = self.division.look_at(flow, running) {
            self.say(id, &message);
        }
    }

    /// Tells senders their rates; flows that may take something now are asked for it.
    fn tell(&mut self, changed: Changed) {
        for (id, message) in changed {
            if let Some(message) = message {
                self.say(id, &message);
            }
            self.touched.insert(id);
        }
    }

    /// Notes when the flow is next due. A noted time that is earlier stays: to be called for nothing is harmless, and cheaper
    /// than to move the timer at each acknowledgement.
    fn note_timer(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let (due, _) = flow.due();
        if flow.noted.is_none_or(|noted| due < noted) {
            if let Some(noted) = flow.noted.replace(due) {
                self.timers.remove(&(noted, id));
            }
            self.timers.insert((due, id));
        }
    }

    fn request_more(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get(&id) else { return };
        let object_id = flow.object;
        if flow.has_nothing_to_do() && self.objects.get(&object_id).is_some_and(|o| !o.has_wanted()) {
            self.relieve_slowest(id, object_id);
        }
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let Some(object) = self.objects.get_mut(&object_id) else { return };
        if let Some(message) = flow.request_more(now, object) {
            self.say(id, &message);
        }
    }

    /// The end of a transfer must not wait for the slowest of its senders: what one still owes is wanted again when another
    /// that has nothing left to do would bring it in less than half the time. What is under way all the same is not lost.
    fn relieve_slowest(&mut self, idle: FlowId, object_id: ObjectId) {
        let Some(object) = self.objects.get(&object_id) else { return };
        let owes = |id: &FlowId| {
            let flow = self.flows.get(id)?;
            Some((flow.time_for(flow.asked.pending_bytes()), *id))
        };
        let slowest = object.flows.iter().filter(|id| **id != idle).filter_map(owes).max();
        let (Some((left, slow)), Some(helper)) = (slowest, self.flows.get(&idle)) else { return };
        let Some(bytes) = self.flows.get(&slow).map(|f| f.asked.pending_bytes()) else { return };
        if bytes == 0 || left <= helper.time_for(bytes) * 2 + RELIEF_MIN {
            return;
        }
        let (Some(flow), Some(object)) = (self.flows.get_mut(&slow), self.objects.get_mut(&object_id)) else { return };
        flow.asked.abandon().iter().for_each(|range| object.want(range));
        let cancel = Control::Cancel { through: flow.asked.last_id() };
        self.say(slow, &cancel);
    }

    /// If the flow's object is all there, says so. Its flows stay, in case bytes turn out to be wrong.
    fn finish_object(&mut self, id: FlowId) {
        let Some(object_id) = self.flows.get(&id).map(|f| f.object) else { return };
        if let Some(object) = self.objects.get_mut(&object_id).filter(|o| o.is_all_held() && !o.complete) {
            object.complete = true;
            self.events.push_back(Event::Complete { object: object_id });
        }
    }

    fn fetch(&mut self, object: ObjectId, size: u64, held: RangeSet) -> Result<(), CommandError> {
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
        Ok(())
    }

    /// Bytes need not come any more: they count as held. What was asked for of them still comes, and is dropped.
    fn skip(&mut self, object_id: ObjectId, range: ByteRange) -> Result<(), CommandError> {
        let object = self.objects.get_mut(&object_id).ok_or(CommandError::UnknownObject(object_id))?;
        if range.end > object.size {
            return Err(CommandError::OutOfRange(range));
        }
        object.hold(range, |_| {});
        self.touched.extend(object.flows.iter().copied());
        Ok(())
    }

    /// A flow is not asked for these bytes, as long as there are others.
    fn avoid(&mut self, id: FlowId, range: ByteRange) -> Result<(), CommandError> {
        let flow = self.flows.get_mut(&id).ok_or(CommandError::UnknownFlow(id))?;
        let object = self.objects.get(&flow.object).ok_or(CommandError::UnknownObject(flow.object))?;
        if range.end > object.size {
            return Err(CommandError::OutOfRange(range));
        }
        if object.flows.len() > 1 {
            flow.avoid.insert(range);
        }
        self.touched.extend(object.flows.iter().copied());
        Ok(())
    }

    /// Wrong bytes are wanted again, from another flow if there is one.
    fn refetch(&mut self, object_id: ObjectId, range: ByteRange, suspect: Option<FlowId>) -> Result<(), CommandError> {
        let object = self.objects.get_mut(&object_id).ok_or(CommandError::UnknownObject(object_id))?;
        if range.end > object.size {
            return Err(CommandError::OutOfRange(range));
        }
        object.unhold(range);
        if object.flows.is_empty() {
            self.events.push_back(Event::Starved { object: object_id });
        }
        let alone = object.flows.len() == 1;
        for &id in &object.flows {
            self.touched.insert(id);
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            // Only the last that was wrong is left out, so that there is always one to ask.
            if Some(id) == suspect && !alone {
                flow.avoid.insert(range);
            } else {
                flow.avoid.remove(range);
            }
        }
        Ok(())
    }
}

impl Gathered {
    /// Whether datagram `k` with this header continues the run: next in the stream and in place.
    fn is_followed_by(&self, head: &DataHeader, k: usize) -> bool {
        self.first + self.packets as usize == k
            && head.key == self.head.key
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

impl Endpoint for TcpReceiver {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        for (index, message) in batch.iter().enumerate() {
            self.on_message(now, index, message, places);
        }
        self.settle(now);
    }

    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        let result = match Control::parse(message) {
            Ok(message) => self.on_control(now, flow, &message),
            Err(WireError::Version(theirs)) => Err(FlowError::Version { ours: VERSION, theirs }),
            Err(_) => Err(FlowError::Protocol("a control message could not be understood")),
        };
        if let Err(error) = result {
            self.fail(flow, error);
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
        }
        if let Some(changed) = self.division.on_timer(now, &mut self.flows) {
            self.tell(changed);
        }
        self.settle(now);
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Fetch { object, size, held } => self.fetch(object, size, held)?,
            Command::Join(join) => self.join(now, join)?,
            Command::Disconnect { flow } => self.disconnect(flow)?,
            Command::Refetch { object, range, suspect } => self.refetch(object, range, suspect)?,
            Command::Skip { object, range } => self.skip(object, range)?,
            Command::Avoid { flow, range } => self.avoid(flow, range)?,
            Command::LimitReceive(capacity) => self.division.set_capacity(capacity, &mut self.flows),
            Command::Offer(_) | Command::LimitSend(_) => return Err(CommandError::WrongRole),
        }
        self.settle(now);
        Ok(())
    }

    fn poll_transmit(&mut self, _now: Time, out: &mut TxBatch) {
        while out.room() > 0
            && let Some((id, datagram, len)) = self.waiting.pop_front()
        {
            if let Some(peer) = self.flows.get(&id).and_then(|f| f.peer) {
                let head = datagram.emit();
                out.push(id, peer, &head, ByteRange::default(), len.saturating_sub(head.len() as u16));
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Time, Reason)> {
        let flow = self.timers.first().and_then(|(at, id)| Some((*at, self.flows.get(id)?.due().1)));
        let division = self.division.due().map(|at| (at, Reason::Control));
        flow.into_iter().chain(division).min()
    }

    fn expected(&self, flow: FlowId) -> Option<Expected> {
        self.flows.get(&flow)?.expected()
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.flows.get(&flow).map(Flow::stats)
    }

    fn memory_bytes(&self) -> usize {
        let object = |o: &Object| size_of::<Object>() + o.memory_bytes();
        self.flows.values().map(Flow::memory_bytes).sum::<usize>()
            + self.objects.values().map(object).sum::<usize>()
            + self.events.capacity() * size_of::<Event>()
            + self.waiting.capacity() * size_of::<(FlowId, Datagram, u16)>()
    }
}

#[cfg(test)]
mod tests;
