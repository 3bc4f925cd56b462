//! What every sender does alike: offers and their tokens, opening paths, what was requested, whose turn it is.
//!
//! A protocol adds its state of a flow ([`SenderFlow`]) and what it sends when ([`Sending`]); [`Sender`] makes an [`Endpoint`] of
//! that.

mod flow;
mod queue;
mod rules;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use inhaul_base::{Bitrate, Time};

pub use flow::{FlowCore, QUEUED_RANGES_MAX, Sent};
pub use queue::{Front, Queue};
pub use rules::Rules;

use self::flow::SILENCE_MAX;
use self::rules::Entry;
use super::receiver::refusal;
use super::wire::{MTU_MIN, Message, PathDatagram, Reader};
use super::{Challenges, Index, SortedSet, Table};
use crate::{
    Command, CommandError, Endpoint, Event, FlowError, FlowId, FlowStats, OfferFlow, Place, RxMessage, TxBatch,
};

/// A host's flows.
pub type Flows<F> = Table<FlowId, F>;

/// A protocol's state of a flow at the sender.
pub trait SenderFlow {
    /// What all protocols keep.
    fn core(&self) -> &FlowCore;

    /// The same, to be changed.
    fn core_mut(&mut self) -> &mut FlowCore;

    /// The receiver may be sent to again after it was silent, or for the first time.
    fn on_resume(&mut self, _now: Time) {}

    /// More was requested, in blocks of `block` bytes; `was_idle`: nothing waited before.
    fn on_request(&mut self, _now: Time, _block: u16, _was_idle: bool) {}

    /// When it next has something to do. A time that has passed: it wants to send.
    fn due(&self) -> Option<Time>;

    /// See [`Endpoint::flow_stats`].
    fn stats(&self) -> FlowStats;

    /// Bytes of memory, about, beside the flow itself and what waits in its queue.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// What a protocol adds to a sender.
pub trait Sending: Sized {
    /// Its state of a flow.
    type Flow: SenderFlow;
    /// What is the same for all flows.
    const RULES: Rules;

    /// A new flow, offered but not yet set up.
    fn new_flow(&mut self, now: Time, core: FlowCore) -> Self::Flow;

    /// The receiver has set the flow up, and added `more`. Returns what the protocol adds to the answer.
    ///
    /// # Errors
    /// When `more` is not legal: the flow has failed.
    fn on_setup(
        &mut self,
        _now: Time,
        _id: FlowId,
        more: Reader<'_>,
        _core: &mut Core<Self::Flow>,
    ) -> Result<Vec<u8>, FlowError> {
        more.end().map(|()| Vec::new()).map_err(|error| refusal(error, Self::RULES.version))
    }

    /// A message of the protocol's own came on the control channel.
    ///
    /// # Errors
    /// When it is not legal: the flow has failed.
    fn on_message(
        &mut self,
        _now: Time,
        _id: FlowId,
        _kind: u8,
        _body: Reader<'_>,
        _core: &mut Core<Self::Flow>,
    ) -> Result<(), FlowError> {
        Err(FlowError::Protocol("an unknown kind of message"))
    }

    /// A datagram came that is not about the path. Returns the flow that it changed.
    fn on_datagram(
        &mut self,
        _now: Time,
        _from: SocketAddr,
        _bytes: &[u8],
        _core: &mut Core<Self::Flow>,
    ) -> Option<FlowId> {
        None
    }

    /// Appends what may leave, as far as `out` has room, and about `share` packets of data if other flows are due. `spent` bytes of
    /// this flow's echoes have just left.
    fn transmit(&mut self, now: Time, flow: &mut Self::Flow, spent: u64, share: usize, out: &mut TxBatch);

    /// A timer of a flow may have passed.
    fn on_flow_timer(&mut self, _now: Time, _flow: &mut Self::Flow) {}

    /// A flow has been taken out.
    fn on_leave(&mut self, _now: Time, _flow: &Self::Flow, _core: &mut Core<Self::Flow>) {}

    /// What all flows together may send (R_send) has changed.
    fn limit(&mut self, _now: Time, _limit: Option<Bitrate>, _core: &mut Core<Self::Flow>) {}

    /// A timer across flows may have passed.
    fn on_timeout(&mut self, _now: Time, _core: &mut Core<Self::Flow>) {}

    /// When the next timer across flows is due.
    fn due(&self) -> Option<Time> {
        None
    }
}

/// What all flows of a sender share.
#[derive(Debug)]
pub struct Core<F> {
    /// The flows.
    pub flows: Flows<F>,
    by_token: BTreeMap<u64, FlowId>,
    /// Flows by where their receivers are, and their keys.
    by_name: Index<(SocketAddr, u32)>,
    /// When each flow has something to do, soonest first: a round costs what those cost that are due, however many there
    /// are, and who waited longest is served first.
    agenda: SortedSet<Entry>,
    events: VecDeque<Event>,
    version: u8,
}

impl<F: SenderFlow> Core<F> {
    /// Sends a message on the flow's control channel.
    pub fn say(&mut self, flow: FlowId, message: &Message<'_>) {
        self.say_own(flow, message.emit(self.version));
    }

    /// Sends a message of the protocol's own on the flow's control channel, as it stands on the wire.
    pub fn say_own(&mut self, flow: FlowId, message: Vec<u8>) {
        self.events.push_back(Event::Control { flow, message });
    }

    /// The flow with this key whose receiver is at `from`.
    pub fn by_key(&mut self, key: u32, from: SocketAddr) -> Option<(FlowId, &mut F)> {
        let id = self.by_name.get(&(from, key))?;
        self.flows.get_mut(&id).map(|flow| (id, flow))
    }

    /// Enters a flow into the agenda anew, after whatever may have changed what it has to do.
    pub fn reschedule(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let before = flow.core().entry();
        let next = plan(flow);
        if next != before {
            self.agenda.remove(&before);
            self.agenda.insert(next);
        }
    }

    /// Enters all flows into the agenda anew.
    pub fn reschedule_all(&mut self) {
        self.agenda = self.flows.values_mut().map(plan).collect();
    }

    /// Whether the agenda has every flow at the time when it has something to do: what tests of protocols ask.
    pub fn agenda_is_current(&self) -> bool {
        let entry = |flow: &F| (flow.core().due(flow.due()), flow.core().turn, flow.core().offer.flow);
        self.agenda.iter().copied().eq(self.flows.values().map(entry).collect::<std::collections::BTreeSet<_>>())
    }

    fn take_out(&mut self, id: FlowId) -> Option<F> {
        let flow = self.flows.remove(&id)?;
        self.by_token.remove(&flow.core().offer.token);
        if let Some(name) = flow.core().name() {
            self.by_name.remove(&name);
        }
        self.agenda.remove(&flow.core().entry());
        Some(flow)
    }

    /// The flow that a datagram with key and token from this address is of.
    fn known(&mut self, from: SocketAddr, key: u32, token: u64) -> Option<(FlowId, &mut F)> {
        let &id = self.by_token.get(&token)?;
        let taken = self.by_name.get(&(from, key)).is_some_and(|other| other != id);
        let flow = self.flows.get_mut(&id)?;
        let elsewhere = flow.core().offer.only_from.is_some_and(|address| address != from.ip());
        (flow.core().has_key(key) && !elsewhere && !taken).then_some((id, flow))
    }
}

/// Works out when a flow has something to do next. Returns its entry in the agenda.
fn plan<F: SenderFlow>(flow: &mut F) -> Entry {
    let own = flow.due();
    let core = flow.core_mut();
    core.next = core.due(own);
    core.entry()
}

/// All flows of a host that sends with a protocol.
pub struct Sender<P: Sending> {
    core: Core<P::Flow>,
    protocol: P,
    /// The flows that are due, while they are served.
    due: Vec<FlowId>,
    /// How many times a flow was served.
    turns: u64,
    challenges: Challenges,
}

impl<P: Sending> Sender<P> {
    /// A sender without flows.
    pub fn new(protocol: P, seed: u64) -> Self {
        let core = Core {
            flows: Table::new(),
            by_token: BTreeMap::new(),
            by_name: Index::new(),
            agenda: SortedSet::new(),
            events: VecDeque::new(),
            version: P::RULES.version,
        };
        Self { core, protocol, due: Vec::new(), turns: 0, challenges: Challenges::new(seed) }
    }

    /// What the protocol adds.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The flows and what they share.
    pub fn core(&self) -> &Core<P::Flow> {
        &self.core
    }

    /// The challenge of an address for the flow with this token.
    pub fn challenge(&self, address: SocketAddr, token: u64) -> u64 {
        self.challenges.of(address, token)
    }

    fn offer(&mut self, now: Time, offer: OfferFlow) -> Result<(), CommandError> {
        if self.core.flows.contains_key(&offer.flow) {
            return Err(CommandError::FlowExists(offer.flow));
        }
        if offer.mtu < MTU_MIN {
            return Err(CommandError::MtuTooSmall(offer.mtu));
        }
        if self.core.by_token.contains_key(&offer.token) {
            return Err(CommandError::KeyInUse);
        }
        self.core.by_token.insert(offer.token, offer.flow);
        let id = offer.flow;
        let flow = self.protocol.new_flow(now, FlowCore::new(now, offer, P::RULES));
        self.core.agenda.insert(flow.core().entry());
        self.core.flows.insert(id, flow);
        Ok(())
    }

    /// Notes the flows that have something to do at `now`, who waited longest first.
    fn take_due(&mut self, now: Time) -> Vec<FlowId> {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        due.extend(self.core.agenda.iter().take_while(|entry| entry.0 <= now).map(|entry| entry.2));
        due
    }

    fn forget(&mut self, now: Time, id: FlowId) {
        if let Some(flow) = self.core.take_out(id) {
            self.protocol.on_leave(now, &flow, &mut self.core);
        }
    }

    fn fail(&mut self, now: Time, flow: FlowId, error: FlowError) {
        self.forget(now, flow);
        self.core.events.push_back(Event::Failed { flow, error });
    }

    fn on_message(&mut self, now: Time, id: FlowId, message: Message<'_>) -> Result<(), FlowError> {
        let Some(flow) = self.core.flows.get_mut(&id) else { return Ok(()) };
        let core = flow.core_mut();
        core.heard = now;
        if !core.is_accepted() && !matches!(message, Message::Setup { .. } | Message::Close) {
            return Err(FlowError::Protocol("something else came before Setup"));
        }
        match message {
            Message::Setup { key, mtu, more, .. } => {
                if core.is_accepted() || mtu < MTU_MIN {
                    return Err(FlowError::Protocol("a second or an illegal Setup"));
                }
                core.accept(now, key, mtu);
                let OfferFlow { token, mtu, size, .. } = core.offer;
                let more = self.protocol.on_setup(now, id, Reader(more), &mut self.core)?;
                self.core.say(id, &Message::Accept { token, mtu, size, more: &more });
            }
            Message::Request { id: request, block, ranges } => {
                let was_idle = core.queue.is_empty();
                core.on_request(request, block, ranges)?;
                flow.on_request(now, block, was_idle);
            }
            Message::Cancel { through } => core.queue.cancel(through),
            Message::Own { kind, body } => self.protocol.on_message(now, id, kind, Reader(body), &mut self.core)?,
            Message::Close => {
                self.forget(now, id);
                self.core.events.push_back(Event::Closed { flow: id });
            }
            Message::Accept { .. } => return Err(FlowError::Protocol("a sender's message came from the receiver")),
        }
        Ok(())
    }

    fn on_datagram(&mut self, now: Time, message: &RxMessage<'_>, k: usize) {
        let (from, bytes) = (message.from, message.head(k));
        let Some(datagram) = PathDatagram::parse(P::RULES.mark, bytes) else {
            if let Some(id) = self.protocol.on_datagram(now, from, bytes, &mut self.core) {
                self.core.reschedule(id);
            }
            return;
        };
        let (PathDatagram::Probe { key, token, .. } | PathDatagram::Response { key, token, .. }) = datagram else {
            return;
        };
        let ours = self.challenges.of(from, token);
        let Some((id, flow)) = self.core.known(from, key, token) else { return };
        match datagram {
            PathDatagram::Probe { number, .. } => {
                let len = message.len_of(k);
                let echo = PathDatagram::Echo { key, number, len: len as u16, challenge: ours };
                flow.core_mut().on_probe(now, from, echo, len);
            }
            PathDatagram::Response { challenge, .. } if challenge == ours => {
                if flow.core().path(now).is_none() {
                    flow.on_resume(now);
                }
                match flow.core_mut().on_response(now, from) {
                    Some(before) => self.core.by_name.remove(&(before, key)),
                    None => self.core.events.push_back(Event::Opened { flow: id }),
                }
                self.core.by_name.insert((from, key), id);
            }
            _ => return,
        }
        self.core.reschedule(id);
    }
}

impl<P: Sending> Endpoint for Sender<P> {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], _places: &mut Vec<Place>) {
        for message in batch {
            for k in 0..message.datagrams() {
                self.on_datagram(now, message, k);
            }
        }
    }

    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        let version = P::RULES.version;
        let result = match Message::parse(version, message) {
            Ok(message) => self.on_message(now, flow, message),
            Err(error) => Err(refusal(error, version)),
        };
        match result {
            Ok(()) => self.core.reschedule(flow),
            Err(error) => self.fail(now, flow, error),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.protocol.on_timeout(now, &mut self.core);
        let due = self.take_due(now);
        for &id in &due {
            let Some(flow) = self.core.flows.get_mut(&id) else { continue };
            if now.since(flow.core().heard) >= SILENCE_MAX {
                self.fail(now, id, FlowError::Silent { seconds: SILENCE_MAX.as_nanos() / 1_000_000_000 });
                continue;
            }
            self.protocol.on_flow_timer(now, flow);
            self.core.reschedule(id);
        }
        self.due = due;
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Offer(offer) => self.offer(now, offer)?,
            Command::Disconnect { flow } => {
                if !self.core.flows.contains_key(&flow) {
                    return Err(CommandError::UnknownFlow(flow));
                }
                self.forget(now, flow);
            }
            Command::LimitSend(limit) => self.protocol.limit(now, limit, &mut self.core),
            Command::Fetch { .. }
            | Command::Join(_)
            | Command::Refetch { .. }
            | Command::Skip { .. }
            | Command::Avoid { .. }
            | Command::LimitReceive(_) => return Err(CommandError::WrongRole),
        }
        Ok(())
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        let due = self.take_due(now);
        for (served, &id) in due.iter().enumerate() {
            if out.room() == 0 {
                break;
            }
            let Some(flow) = self.core.flows.get_mut(&id) else { continue };
            let share = out.room().div_ceil(due.len() - served);
            let before = flow.core().entry();
            flow.core_mut().lapse(now);
            let spent = flow.core_mut().push_path(now, out);
            self.protocol.transmit(now, flow, spent, share, out);
            self.turns += 1;
            flow.core_mut().turn = self.turns;
            self.core.agenda.remove(&before);
            self.core.agenda.insert(plan(flow));
        }
        self.due = due;
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let next = self.core.agenda.first().map(|entry| entry.0);
        next.into_iter().chain(self.protocol.due()).min()
    }

    fn peer(&self, flow: FlowId) -> Option<SocketAddr> {
        self.core.flows.get(&flow)?.core().peer()
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.core.flows.get(&flow).map(SenderFlow::stats)
    }

    fn memory_bytes(&self) -> usize {
        let flow = |flow: &P::Flow| size_of::<P::Flow>() + flow.memory_bytes() + flow.core().queue.memory_bytes();
        self.core.flows.values().map(flow).sum::<usize>() + self.core.events.capacity() * size_of::<Event>()
    }
}
