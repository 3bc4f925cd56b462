//! The part that all senders share: offers and their tokens, opening paths, requested ranges, and the order of flows.
//!
//! A protocol adds its state of a flow ([`SenderFlow`]) and its schedule of sending ([`Sending`]); [`Sender`] makes an
//! [`Endpoint`] of that.

mod flow;
mod limits;
mod queue;
mod rules;

use std::collections::VecDeque;
use std::net::SocketAddr;

use inhaul_base::{Bitrate, Time};

pub use flow::{FlowCore, QUEUED_RANGES_MAX, Sent};
pub use limits::Allowance;
pub use queue::{Front, Queue};
pub use rules::Rules;

use self::flow::SILENCE_MAX;
use self::limits::SendLimits;
use self::rules::Entry;
use super::receiver::refusal;
use super::wire::{MTU_MIN, Message, PathDatagram, Reader};
use super::{Challenges, SortedSet, Table};
use crate::{
    Command, CommandError, Endpoint, EndpointConfig, Event, FlowError, FlowId, FlowStats, OfferFlow, Place, Route,
    RxMessage, TxBatch,
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

    /// The receiver takes requests back, up to this one: the queue has forgotten them.
    fn on_cancel(&mut self, _now: Time, _through: u32) {}

    /// When it next has something to do. A time that has passed: it wants to send.
    fn due(&self) -> Option<Time>;

    /// See [`Endpoint::flow_stats`].
    fn stats(&self) -> FlowStats;

    /// Bytes of memory, about, beside the flow itself and what waits in its queue.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// A flow's place in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Bytes of its echoes, which have just taken theirs.
    pub spent: u64,
    /// Packets of data that it may add, about, if other flows are due.
    pub share: usize,
}

/// The protocol's part of a sender.
pub trait Sending: Sized {
    /// Its state of a flow.
    type Flow: SenderFlow;
    /// State common to all flows.
    const RULES: Rules;

    /// A new flow, offered but not yet set up.
    fn new_flow(&mut self, now: Time, core: FlowCore) -> Self::Flow;

    /// The protocol's part of the message that accepts the flow. It is known as soon as the flow is offered.
    fn accept(&mut self, _flow: &mut Self::Flow, _flows: usize) -> Vec<u8> {
        Vec::new()
    }

    /// The receiver has set the flow up, and added `more`.
    ///
    /// # Errors
    /// When `more` is not legal: the flow has failed.
    fn on_setup(
        &mut self,
        _now: Time,
        _id: FlowId,
        more: Reader<'_>,
        _core: &mut Core<Self::Flow>,
    ) -> Result<(), FlowError> {
        more.end().map_err(|error| refusal(error, Self::RULES.version))
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

    /// A datagram came from the flow's receiver that is not about the path.
    fn on_datagram(&mut self, _now: Time, _id: FlowId, _bytes: &[u8], _core: &mut Core<Self::Flow>) {}

    /// Appends datagrams that may leave, as far as `may` allows it and `out` has room.
    fn transmit(&mut self, now: Time, flow: &mut Self::Flow, slot: Slot, may: &mut Allowance<'_>, out: &mut TxBatch);

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
    /// When each flow has something to do, soonest first: a round costs what those cost that are due, however many
    /// there are, and who waited longest is served first.
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

    /// Enters a flow into the agenda anew, after any event that may have changed its next action.
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
        self.agenda.remove(&flow.core().entry());
        Some(flow)
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
    limits: SendLimits,
    /// The flows that are due, while they are served.
    due: Vec<FlowId>,
    /// How many times a flow was served.
    turns: u64,
    challenges: Challenges,
}

impl<P: Sending> Sender<P> {
    /// A sender without flows, as `config` wants it.
    pub fn new(protocol: P, config: &EndpointConfig) -> Self {
        let mut limits = SendLimits::default();
        limits.set_host(Time::ZERO, config.host_rate);
        let core =
            Core { flows: Table::new(), agenda: SortedSet::new(), events: VecDeque::new(), version: P::RULES.version };
        let challenges = Challenges::new(config.challenge_seed);
        Self { core, protocol, limits, due: Vec::new(), turns: 0, challenges }
    }

    /// The protocol's part.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The flows and their common state.
    pub fn core(&self) -> &Core<P::Flow> {
        &self.core
    }

    /// The challenge of an address.
    pub fn challenge(&self, address: SocketAddr) -> u64 {
        self.challenges.of(address)
    }

    fn offer(&mut self, now: Time, offer: OfferFlow) -> Result<(), CommandError> {
        if self.core.flows.contains_key(&offer.flow) {
            return Err(CommandError::FlowExists(offer.flow));
        }
        if offer.path.mtu < MTU_MIN {
            return Err(CommandError::MtuTooSmall(offer.path.mtu));
        }
        self.limits.enter(now, &offer);
        let OfferFlow { flow: id, size, path, connection, token, .. } = offer;
        let mut flow = self.protocol.new_flow(now, FlowCore::new(now, offer, P::RULES));
        let more = self.protocol.accept(&mut flow, self.core.flows.len() + 1);
        self.core.agenda.insert(flow.core().entry());
        self.core.flows.insert(id, flow);
        self.core.say(id, &Message::Accept { connection, token, mtu: path.mtu, size, more: &more });
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
            self.limits.leave(&flow.core().offer);
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
        if !core.is_set_up() && !matches!(message, Message::Setup { .. } | Message::Close) {
            return Err(FlowError::Protocol("something else came before Setup"));
        }
        match message {
            Message::Setup { connection, mtu, more, .. } => {
                if core.is_set_up() || mtu < MTU_MIN {
                    return Err(FlowError::Protocol("a second or an illegal Setup"));
                }
                core.on_setup(now, connection, mtu);
                self.protocol.on_setup(now, id, Reader(more), &mut self.core)?;
            }
            Message::Request { id: request, block, ranges } => {
                let was_idle = core.queue.is_empty();
                core.on_request(request, block, ranges)?;
                flow.on_request(now, block, was_idle);
            }
            Message::Cancel { through } => {
                core.queue.cancel(through);
                flow.on_cancel(now, through);
            }
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
        let Some(((id, _), number)) = message.flow.zip(message.number(k)) else { return };
        let (from, bytes) = (message.from, message.head(k));
        let Some(flow) = self.core.flows.get_mut(&id) else { return };
        match PathDatagram::parse(bytes) {
            Some(PathDatagram::Probe { token, number: of_probe, reply_to })
                if flow.core().is_from_receiver(from, token) =>
            {
                // A copy that the network made gets no Echo of its own, which would be as long.
                if !flow.core_mut().numbers.take(number, 1) {
                    flow.core_mut().duplicate_packets += 1;
                    return;
                }
                let len = message.len_of(k);
                let challenge = self.challenges.of(from);
                let echo = PathDatagram::Echo { number: of_probe, len: len as u16, challenge };
                flow.core_mut().on_probe(now, Route::new(from, reply_to), echo, len);
            }
            Some(PathDatagram::Response { token, challenge })
                if flow.core().is_from_receiver(from, token) && challenge == self.challenges.of(from) =>
            {
                if flow.core().route(now).is_none() {
                    flow.on_resume(now);
                }
                if flow.core_mut().on_response(now, from) {
                    self.core.events.push_back(Event::Opened { flow: id });
                }
            }
            None if flow.core().peer() == Some(from) => {
                // Older samples no longer count.
                if !flow.core_mut().numbers.take(number, 1) {
                    flow.core_mut().duplicate_packets += 1;
                    return;
                }
                self.protocol.on_datagram(now, id, bytes, &mut self.core);
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
            Command::LimitSend(limit) => {
                self.limits.set_host(now, limit);
                self.protocol.limit(now, limit, &mut self.core);
            }
            Command::Fetch { .. }
            | Command::Join(_)
            | Command::JoinSource(_)
            | Command::Refetch { .. }
            | Command::Want { .. }
            | Command::Unwant { .. }
            | Command::Avoid { .. }
            | Command::Allow { .. }
            | Command::ChangePath { .. }
            | Command::LimitReceive(_)
            | Command::SetPolicy(_) => return Err(CommandError::WrongRole),
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
            let mut may = self.limits.of(&flow.core().offer);
            self.protocol.transmit(now, flow, Slot { spent, share }, &mut may, out);
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
        let of_core = |core: &FlowCore| core.queue.memory_bytes() + core.numbers.memory_bytes();
        let flow = |flow: &P::Flow| size_of::<P::Flow>() + flow.memory_bytes() + of_core(flow.core());
        self.core.flows.values().map(flow).sum::<usize>() + self.core.events.capacity() * size_of::<Event>()
    }
}
