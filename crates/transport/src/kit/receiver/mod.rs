//! The part that all receivers share: objects and their flows, setting up flows, opening paths, placing arrivals,
//! assigning wanted ranges, timers.
//!
//! A protocol adds its data header ([`DataHead`]), its state of a flow ([`ReceiverFlow`]) and its behaviour
//! ([`Reception`]); [`Receiver`] makes an [`Endpoint`] of that.

mod core;
mod flow;
mod rules;
mod wants;

use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, Time};

pub use core::Core;
use flow::Accepted;
pub(super) use flow::refusal;
pub use flow::{DataHead, FlowCore, ReceiverFlow, Run, Silence, SourceCore, largest_block, read_all};
pub use rules::{Flows, RTT_GUESS, Rules};

use super::Object;
use super::path::{Echo, Outgoing};
use super::wire::{MTU_MIN, Message, PATH_HEADER_LEN, PathDatagram, Reader};
use crate::{
    Command, CommandError, ENVELOPE_LEN, Endpoint, Event, Expected, FlowError, FlowId, FlowStats, HostSample, JoinFlow,
    JoinSource, Place, Policy, RxMessage, TxBatch,
};

/// The protocol's part of a receiver.
///
/// All methods get the [`Core`] with all flows and objects, and may leave flows in its list of those to be looked
/// after.
pub trait Reception: Sized {
    /// Its state of a flow.
    type Flow: ReceiverFlow;
    /// Its data header.
    type Head: DataHead;
    /// State common to all flows.
    const RULES: Rules;

    /// A new flow.
    fn new_flow(&mut self, now: Time, core: FlowCore) -> Self::Flow;

    /// The protocol's part of the message that sets the flow up.
    fn setup(&self, _flow: &Self::Flow) -> Vec<u8> {
        Vec::new()
    }

    /// The protocol's part of the sender's answer.
    ///
    /// # Errors
    /// When it is not legal: the flow has failed.
    fn on_accept(&mut self, _flow: &mut Self::Flow, more: Reader<'_>) -> Result<(), FlowError> {
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

    /// The path of a flow has been found open.
    fn on_open(&mut self, _now: Time, _id: FlowId, _core: &mut Core<Self::Flow>) {}

    /// Data packets of an open flow came.
    fn on_data(
        &mut self,
        now: Time,
        id: FlowId,
        run: &Run<Self::Head>,
        core: &mut Core<Self::Flow>,
        places: &mut Vec<Place>,
    );

    /// A datagram of an open flow came that is neither data nor about the path. Returns whether it was one of the
    /// protocol's.
    fn on_datagram(&mut self, _now: Time, _id: FlowId, _bytes: &[u8], _core: &mut Core<Self::Flow>) -> bool {
        false
    }

    /// A timer of a flow may have passed.
    fn on_flow_timer(&mut self, _now: Time, _id: FlowId, _core: &mut Core<Self::Flow>) {}

    /// The flow has changed: acts before further ranges are requested.
    fn attend(&mut self, _now: Time, _id: FlowId, _core: &mut Core<Self::Flow>) {}

    /// Whether it fetches from sources of other kinds as well: see [`Command::JoinSource`].
    const TAKES_SOURCES: bool = false;

    /// A source delivered some of the requested bytes.
    fn on_delivery(
        &mut self,
        _now: Time,
        _id: FlowId,
        _range: ByteRange,
        _core: &mut Core<Self::Flow>,
        _places: &mut Vec<Place>,
    ) {
    }

    /// Takes the ranges to request of a flow now from its object's wanted ranges, and notes them as a request. Returns
    /// the request's number and ranges.
    fn ask(&mut self, now: Time, flow: &mut Self::Flow, object: &mut Object) -> Option<(u32, Vec<ByteRange>)>;

    /// The flow's path was found to carry smaller packets than before. Its pending ranges are wanted again already, and
    /// are requested anew in smaller blocks.
    fn on_narrower(&mut self, _now: Time, _id: FlowId, _core: &mut Core<Self::Flow>) {}

    /// The flow's datagrams take another path, which is opened next: see [`Command::ChangePath`]. Its pending ranges
    /// are wanted again already, and its sender has been told.
    fn on_path_change(&mut self, _now: Time, _id: FlowId, _core: &mut Core<Self::Flow>) {}

    /// The flow's object is complete.
    fn on_complete(&mut self, _now: Time, _id: FlowId, _core: &mut Core<Self::Flow>) {}

    /// A flow has been taken out.
    fn on_leave(&mut self, _now: Time, _flow: &mut Self::Flow, _flows: &mut Flows<Self::Flow>) {}

    /// Some of an object that may have been complete is wanted again.
    fn on_refetch(&mut self, _now: Time, _flows: &[FlowId], _core: &mut Core<Self::Flow>) {}

    /// What all flows together may take (C_r) has changed.
    fn limit(&mut self, _now: Time, _limit: Option<Bitrate>, _core: &mut Core<Self::Flow>) {}

    /// How much is taken beside others' traffic has changed.
    ///
    /// # Errors
    /// If the protocol has no policies, or this one needs a value that was not given. Nothing has changed then.
    fn set_policy(&mut self, _now: Time, _policy: Policy, _core: &mut Core<Self::Flow>) -> Result<(), CommandError> {
        Err(CommandError::NoPolicies)
    }

    /// The host's load and foreseen pauses: see [`Endpoint::handle_host`].
    fn on_host(&mut self, _now: Time, _sample: HostSample, _core: &mut Core<Self::Flow>) {}

    /// A timer across flows may have passed.
    fn on_timeout(&mut self, _now: Time, _core: &mut Core<Self::Flow>) {}

    /// When the next timer across flows is due.
    fn due(&self) -> Option<Time> {
        None
    }

    /// All touched flows have been served. This call may touch flows again.
    fn settle(&mut self, _now: Time, _core: &mut Core<Self::Flow>) {}
}

/// All flows of a host that fetches with a protocol.
pub struct Receiver<P: Reception> {
    core: Core<P::Flow>,
    protocol: P,
}

impl<P: Reception> Receiver<P> {
    /// A receiver without flows.
    pub fn new(protocol: P) -> Self {
        Self { core: Core::new(P::RULES), protocol }
    }

    /// Flows and objects, for tests of protocols.
    pub fn core_mut(&mut self) -> &mut Core<P::Flow> {
        &mut self.core
    }

    // --- Joining and leaving ----------------------------------------------------------------------------------------

    fn join(&mut self, now: Time, join: JoinFlow) -> Result<(), CommandError> {
        let core = &mut self.core;
        if core.flows.contains_key(&join.flow) {
            return Err(CommandError::FlowExists(join.flow));
        }
        if join.path.mtu < MTU_MIN {
            return Err(CommandError::MtuTooSmall(join.path.mtu));
        }
        let object = core.objects.get_mut(&join.object).ok_or(CommandError::UnknownObject(join.object))?;
        if object.size > P::RULES.object_max {
            return Err(CommandError::ObjectTooLarge(object.size));
        }
        object.flows.push(join.flow);
        let size = object.size;
        let flow = self.protocol.new_flow(now, FlowCore::new(now, join, &P::RULES));
        let more = self.protocol.setup(&flow);
        core.flows.insert(join.flow, flow);
        let JoinFlow { connection, path, .. } = join;
        core.say(join.flow, &Message::Setup { connection, mtu: path.mtu, size, more: &more });
        core.touch(join.flow);
        Ok(())
    }

    fn join_source(&mut self, now: Time, join: JoinSource) -> Result<(), CommandError> {
        let core = &mut self.core;
        if !P::TAKES_SOURCES {
            return Err(CommandError::NoSources);
        }
        if core.flows.contains_key(&join.flow) {
            return Err(CommandError::FlowExists(join.flow));
        }
        let object = core.objects.get_mut(&join.object).ok_or(CommandError::UnknownObject(join.object))?;
        object.flows.push(join.flow);
        let mut flow = self.protocol.new_flow(now, FlowCore::of_source(now, join, &P::RULES));
        flow.on_rtt(now, join.rtt);
        core.flows.insert(join.flow, flow);
        self.opened(now, join.flow);
        self.core.touch(join.flow);
        Ok(())
    }

    /// Removes a flow; its outstanding ranges go to the object's other flows.
    fn remove(&mut self, now: Time, id: FlowId) -> Option<P::Flow> {
        let mut flow = self.core.take_out(id)?;
        self.protocol.on_leave(now, &mut flow, &mut self.core.flows);
        Some(flow)
    }

    fn fail(&mut self, now: Time, id: FlowId, error: FlowError) {
        let Some(flow) = self.remove(now, id) else { return };
        let object = flow.core().join.object;
        self.core.events.push_back(Event::Failed { flow: id, error });
        if self.core.objects.get(&object).is_some_and(|o| o.flows.is_empty() && !o.complete) {
            self.core.events.push_back(Event::Starved { object });
        }
    }

    fn disconnect(&mut self, now: Time, id: FlowId) -> Result<(), CommandError> {
        let flow = self.core.flows.get(&id).ok_or(CommandError::UnknownFlow(id))?;
        let complete = self.core.objects.get(&flow.core().join.object).is_some_and(|o| o.complete);
        self.core.say(id, &Message::Close);
        if complete {
            self.remove(now, id);
            self.core.events.push_back(Event::Closed { flow: id });
        } else {
            self.fail(now, id, FlowError::Disconnected);
        }
        Ok(())
    }

    fn change_path(
        &mut self,
        now: Time,
        id: FlowId,
        reliable: bool,
        peer: Option<SocketAddr>,
    ) -> Result<(), CommandError> {
        let core = &mut self.core;
        let flow = core.flows.get_mut(&id).ok_or(CommandError::UnknownFlow(id))?;
        flow.core_mut().change_path(now, reliable, peer);
        core.abandon(id);
        let through = core.flows.get(&id).map_or(0, ReceiverFlow::last_request);
        core.say(id, &Message::Cancel { through });
        self.protocol.on_path_change(now, id, &mut self.core);
        self.core.touch(id);
        Ok(())
    }

    // --- Arrivals ---------------------------------------------------------------------------------------------------

    fn on_rx(&mut self, now: Time, message: &RxMessage<'_>, places: &mut Vec<Place>) {
        let Some((id, _)) = message.flow else { return };
        let mut gathered: Option<Run<P::Head>> = None;
        for k in 0..message.datagrams() {
            let Some(number) = message.number(k) else { continue };
            let bytes = message.head(k);
            let Some(head) = P::Head::parse(bytes) else {
                self.on_small(now, id, message, number, bytes);
                continue;
            };
            let body = (message.len_of(k) - P::Head::LEN) as u64;
            if let Some(run) = &mut gathered {
                if run.takes(&head, number, k, body) {
                    continue;
                }
                self.on_run(now, id, run, message, places);
            }
            gathered = Some(Run::new(head, number, message, k, body));
        }
        if let Some(run) = gathered {
            self.on_run(now, id, &run, message, places);
        }
    }

    /// Whether `from` is the flow's sender, and its path is open.
    fn is_open(&self, id: FlowId, from: SocketAddr) -> bool {
        let core = self.core.flows.get(&id).map(ReceiverFlow::core);
        core.is_some_and(|core| core.peer == Some(from) && core.path.takes_data())
    }

    fn on_run(&mut self, now: Time, id: FlowId, run: &Run<P::Head>, message: &RxMessage<'_>, places: &mut Vec<Place>) {
        if !self.is_open(id, message.from) {
            return;
        }
        if self.core.are_first(id, run.number, run.packets) {
            return self.protocol.on_data(now, id, run, &mut self.core, places);
        }
        // Some have come before: they are dropped, and say nothing of rates, losses or the way.
        for one in run.each(message) {
            if self.core.are_first(id, one.number, 1) {
                self.protocol.on_data(now, id, &one, &mut self.core, places);
            } else {
                self.core.count_duplicate(id, one.body_bytes);
            }
        }
    }

    fn on_small(&mut self, now: Time, id: FlowId, message: &RxMessage<'_>, number: u32, bytes: &[u8]) {
        let Some(datagram) = PathDatagram::parse(bytes) else {
            if !self.is_open(id, message.from) {
                return;
            }
            if !self.core.are_first(id, number, 1) {
                self.core.count_duplicate(id, 0);
            } else if self.protocol.on_datagram(now, id, bytes, &mut self.core) {
                self.core.touch(id);
            }
            return;
        };
        let Some(flow) = self.core.flows.get_mut(&id) else { return };
        match datagram {
            PathDatagram::Open { token, .. } if flow.core_mut().learn_peer(now, message.from, token) => {}
            PathDatagram::Echo { number, len, challenge, .. } if flow.core().peer == Some(message.from) => {
                let core = flow.core_mut();
                let echo = Echo { number, len, challenge, waited: message.waited };
                let Some(echoed) = core.path.on_echo(now, echo) else { return };
                core.last_heard = now;
                core.fit_block(core.path.confirmed_mtu());
                flow.on_rtt(now, echoed.rtt);
                if echoed.opened {
                    self.opened(now, id);
                }
            }
            _ => return,
        }
        self.core.touch(id);
    }

    fn on_accept(&mut self, now: Time, id: FlowId, message: &Message<'_>) -> Result<(), FlowError> {
        let &Message::Accept { connection, token, mtu, size, more } = message else {
            return Err(FlowError::Protocol("a receiver's message came from the sender"));
        };
        let Some(flow) = self.core.flows.get_mut(&id) else { return Ok(()) };
        if flow.core().is_accepted() || mtu < MTU_MIN {
            return Err(FlowError::Protocol("a second or an illegal Accept"));
        }
        if self.core.objects.get(&flow.core().join.object).is_some_and(|o| o.size != size) {
            return Err(FlowError::Protocol("the sender's object has another size"));
        }
        self.protocol.on_accept(flow, Reader(more))?;
        flow.core_mut().accept(now, Accepted { connection, token }, mtu);
        self.settle_path(now, id);
        self.core.touch(id);
        Ok(())
    }

    /// If the echoes so far have opened the path, reports that.
    fn settle_path(&mut self, now: Time, id: FlowId) {
        let Some(core) = self.core.flows.get_mut(&id).map(ReceiverFlow::core_mut) else { return };
        if core.path.settle(now) {
            core.fit_block(core.path.confirmed_mtu());
            self.opened(now, id);
        }
    }

    fn opened(&mut self, now: Time, id: FlowId) {
        self.core.events.push_back(Event::Opened { flow: id });
        self.protocol.on_open(now, id, &mut self.core);
    }

    // --- Timers -----------------------------------------------------------------------------------------------------

    fn on_flow_timer(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.core.flows.get_mut(&id) else { return };
        let seconds = |since: Time| now.since(since).as_nanos() / 1_000_000_000;
        if let Some(seconds) = flow.core().path.has_failed(now) {
            return self.fail(now, id, FlowError::NoPath { seconds });
        }
        if let Some(silence) = flow.silence().filter(|silence| now >= silence.until) {
            let seconds = seconds(silence.since);
            let error = if silence.no_path { FlowError::NoPath { seconds } } else { FlowError::Silent { seconds } };
            return self.fail(now, id, error);
        }
        self.settle_path(now, id);
        self.protocol.on_flow_timer(now, id, &mut self.core);
    }

    /// Looks after every flow that was touched: finishes objects, asks for more, probes, sets timers. Ends every call.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some(id) = self.core.touched.pop_first() {
                self.finish_object(now, id);
                self.protocol.attend(now, id, &mut self.core);
                self.request_more(now, id);
                self.probe(now, id);
                self.core.note_timer(id);
            }
            self.protocol.settle(now, &mut self.core);
            if self.core.touched.first().is_none() {
                return;
            }
        }
    }

    /// If the flow's object is all there, says so. Its flows stay, in case bytes turn out to be wrong.
    fn finish_object(&mut self, now: Time, id: FlowId) {
        for flow in self.core.finish_object(id) {
            self.protocol.on_complete(now, flow, &mut self.core);
            self.core.note_timer(flow);
        }
    }

    fn request_more(&mut self, now: Time, id: FlowId) {
        self.core.relieve_slowest(id, P::RULES.relief_min);
        let core = &mut self.core;
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let Some(object) = core.objects.get_mut(&flow.core().join.object).filter(|o| o.has_wanted()) else { return };
        if let Some((request, ranges)) = self.protocol.ask(now, flow, object) {
            flow.core_mut().path.await_full_size(Some(now));
            let block = flow.core().block;
            core.say(id, &Message::Request { id: request, block, ranges });
        }
    }

    /// Sends the flow's probes and responses that are due. A path that was found to carry smaller packets counts as a
    /// new path: outstanding ranges are requested anew in smaller blocks.
    fn probe(&mut self, now: Time, id: FlowId) {
        let core = &mut self.core;
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let (pending, rests) = (flow.pending_bytes() > 0, flow.rests());
        let rate = flow.echo_rate();
        let base = flow.core_mut();
        let (Some(Accepted { token, .. }), Some(_)) = (base.accepted, base.peer) else { return };
        base.path.suspect(now, base.last_heard, rate);
        let JoinFlow { connection: reply_to, path: spec, .. } = base.join;
        let waiting = &mut core.waiting;
        let bare = P::RULES.header_len.max(PATH_HEADER_LEN) as u16;
        let waits = pending || !base.path.is_open();
        let narrower = base.path.send_due(now, waits, rests, &mut |outgoing| {
            let (datagram, len) = match outgoing {
                Outgoing::Probe(number, size) => {
                    let len = size.map_or(bare, |size| size.saturating_sub(spec.overhead));
                    (PathDatagram::Probe { token, number, reply_to }, len)
                }
                Outgoing::Response(challenge) => (PathDatagram::Response { token, challenge }, bare),
            };
            waiting.push(id, &datagram.emit(), len);
        });
        if !narrower {
            return;
        }
        base.fit_block(base.path.confirmed_mtu());
        core.abandon(id);
        self.protocol.on_narrower(now, id, core);
        self.request_more(now, id);
    }
}

impl<P: Reception> Endpoint for Receiver<P> {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        for message in batch {
            self.on_rx(now, message, places);
        }
        self.settle(now);
    }

    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        let version = P::RULES.version;
        let result = match Message::parse(version, message).map_err(|error| refusal(error, version)) {
            Ok(Message::Own { kind, body }) if self.core.flows.contains_key(&flow) => {
                self.protocol.on_message(now, flow, kind, Reader(body), &mut self.core)
            }
            Ok(message) => self.on_accept(now, flow, &message),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => self.core.touch(flow),
            Err(error) => self.fail(now, flow, error),
        }
        self.settle(now);
    }

    fn handle_delivery(&mut self, now: Time, flow: FlowId, range: ByteRange, places: &mut Vec<Place>) {
        let of = self.core.flows.get(&flow).filter(|flow| flow.core().source.is_some());
        let size = of.and_then(|flow| self.core.objects.get(&flow.core().join.object)).map_or(0, |object| object.size);
        if range.end <= size {
            self.protocol.on_delivery(now, flow, range, &mut self.core, places);
            self.core.touch(flow);
        }
        self.settle(now);
    }

    fn handle_host(&mut self, now: Time, sample: HostSample) {
        self.protocol.on_host(now, sample, &mut self.core);
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.core.take_due_timer(now) {
            self.on_flow_timer(now, id);
            self.core.touch(id);
        }
        self.protocol.on_timeout(now, &mut self.core);
        self.settle(now);
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Fetch { object, size, held } => self.core.fetch(object, size, held)?,
            Command::Join(join) => self.join(now, join)?,
            Command::JoinSource(join) => self.join_source(now, join)?,
            Command::Disconnect { flow } => self.disconnect(now, flow)?,
            Command::Refetch { object, range, suspect } => {
                let flows = self.core.refetch(now, object, range, suspect)?;
                self.protocol.on_refetch(now, &flows, &mut self.core);
            }
            Command::Want { object, ranges, urgent } => {
                let flows = self.core.want(now, object, &ranges, urgent)?;
                self.protocol.on_refetch(now, &flows, &mut self.core);
            }
            Command::Unwant { object, range } => self.core.unwant(object, range)?,
            Command::Avoid { flow, range } => self.core.avoid(flow, range)?,
            Command::Allow { flow, range } => self.core.allow(flow, range)?,
            Command::ChangePath { flow, reliable, peer } => self.change_path(now, flow, reliable, peer)?,
            Command::LimitReceive(limit) => self.protocol.limit(now, limit, &mut self.core),
            Command::SetPolicy(policy) => self.protocol.set_policy(now, policy, &mut self.core)?,
            Command::Offer(_) | Command::LimitSend(_) => return Err(CommandError::WrongRole),
        }
        self.settle(now);
        Ok(())
    }

    fn poll_transmit(&mut self, _now: Time, out: &mut TxBatch) {
        self.core.transmit(out);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.core.due().into_iter().chain(self.protocol.due()).min()
    }

    fn expected(&self, flow: FlowId) -> Option<Expected> {
        let expected = self.core.flows.get(&flow)?.expected()?;
        Some(Expected { head_len: ENVELOPE_LEN + expected.head_len, ..expected })
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.core.flows.get(&flow).map(ReceiverFlow::stats)
    }

    fn memory_bytes(&self) -> usize {
        self.core.memory_bytes()
    }
}
