//! The engine's own loop, driven in virtual time.

mod blocked;
mod lots;
mod many;
mod streams;
mod transfer;
mod tunnels;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use inhaul_base::{ByteRange, Span, Time};
use inhaul_transport::{
    Command, CommandError, ConnectionId, Endpoint, Envelope, Event, Expected, FlowId, FlowStats, Place, Role, Route,
    RxMessage, TxBatch,
};

use super::fake::{Fake, FakeSocket, FakeWire};
use super::{Application, BodySource, EndCause, EndpointId, Engine, PollResult, PortId, Sink};
use crate::engine::port::{Discard, NoBodies, Port};
use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::Frame;

/// Our address, and a peer's.
const HERE: ([u8; 4], u16) = ([192, 0, 2, 1], 1);
const THERE: ([u8; 4], u16) = ([192, 0, 2, 2], 2);

fn millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// An endpoint that does what a test says, and keeps what is done to it.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    /// What it has to send: datagrams of a flow, of so many bytes. Each has its number in front.
    to_send: VecDeque<(FlowId, SocketAddr, usize)>,
    /// Why it says that it wants to send, and since when.
    sends_for: Option<Time>,
    /// Its only timer.
    timer: Option<Time>,
    events: VecDeque<Event>,
    sent: u32,
    /// When its timer fired.
    fired: Vec<Time>,
    /// Datagrams that it was shown, and how often it was asked for some.
    shown: u64,
    asked: u64,
    /// Control messages that it was given.
    heard: Vec<(FlowId, Vec<u8>)>,
    left: Vec<FlowId>,
    /// A flow that it cannot carry.
    refuses: Option<FlowId>,
}

impl Scripted {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    /// Has it send `count` datagrams of `len` bytes.
    fn send(&self, flow: FlowId, to: SocketAddr, count: usize, len: usize) {
        let mut script = self.script();
        script.to_send.extend(std::iter::repeat_n((flow, to, len), count));
    }
}

impl Endpoint for Scripted {
    fn handle_datagrams(&mut self, _now: Time, batch: &[RxMessage<'_>], _places: &mut Vec<Place>) {
        self.script().shown += batch.iter().map(|message| message.datagrams() as u64).sum::<u64>();
    }

    fn handle_control(&mut self, _now: Time, flow: FlowId, message: &[u8]) {
        self.script().heard.push((flow, message.to_vec()));
    }

    fn handle_timeout(&mut self, now: Time) {
        let mut script = self.script();
        if script.timer.is_some_and(|at| at <= now) {
            script.timer = None;
            script.fired.push(now);
        }
    }

    fn command(&mut self, _now: Time, command: Command) -> Result<(), CommandError> {
        let mut script = self.script();
        if let Command::Offer(offer) = &command
            && script.refuses == Some(offer.flow)
        {
            return Err(CommandError::ObjectTooLarge(offer.size));
        }
        if let Command::Disconnect { flow } = command {
            script.left.push(flow);
            script.to_send.retain(|(of, ..)| *of != flow);
        }
        Ok(())
    }

    fn poll_transmit(&mut self, _now: Time, out: &mut TxBatch) {
        let mut script = self.script();
        script.asked += 1;
        while out.room() > 0 {
            let Some((flow, to, len)) = script.to_send.pop_front() else { return };
            let mut head = [0; 12];
            head[..4].copy_from_slice(&script.sent.to_be_bytes());
            script.sent += 1;
            let route = Route::foreign(to);
            out.push(flow, route, &head, ByteRange::default(), (len - head.len()) as u16);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.script().events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let script = self.script();
        // As real ones do: what has been due for a while still is, until it is asked for.
        let sends = (!script.to_send.is_empty()).then(|| script.sends_for.unwrap_or(Time::ZERO));
        sends.into_iter().chain(script.timer).min()
    }

    fn expected(&self, _flow: FlowId) -> Option<Expected> {
        None
    }

    fn flow_stats(&self, _flow: FlowId) -> Option<FlowStats> {
        None
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// What a run does each turn; false when it has had enough.
type EachTurn = Box<dyn FnMut(&mut Engine<Fake>) -> bool>;

/// An application that runs until a time, or until it has had enough, and keeps what it is told.
struct Run {
    until: Time,
    each_turn: EachTurn,
    sink: Box<dyn Sink<FakeSocket>>,
    bodies: Box<dyn BodySource>,
    events: Vec<(Time, Event)>,
    frames: Vec<(FlowId, Frame)>,
    ends: Vec<(Time, FlowId, String)>,
}

impl Run {
    fn until(until: Time) -> Self {
        Self {
            until,
            each_turn: Box::new(|_| true),
            sink: Box::new(Discard),
            bodies: Box::new(NoBodies),
            events: Vec::new(),
            frames: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn each_turn(mut self, each_turn: impl FnMut(&mut Engine<Fake>) -> bool + 'static) -> Self {
        self.each_turn = Box::new(each_turn);
        self
    }
}

impl Application<Fake> for Run {
    fn sink(&mut self) -> &mut dyn Sink<FakeSocket> {
        &mut *self.sink
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut *self.bodies
    }

    fn on_event(&mut self, engine: &mut Engine<Fake>, event: Event) -> Result<(), MoveError> {
        self.events.push((engine.now(), event));
        Ok(())
    }

    fn on_frame(&mut self, _engine: &mut Engine<Fake>, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        self.frames.push((flow, frame));
        Ok(())
    }

    fn on_end(&mut self, engine: &mut Engine<Fake>, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        self.ends.push((engine.now(), flow, cause.to_string()));
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine<Fake>) -> Result<PollResult, MoveError> {
        let goes_on = (self.each_turn)(engine) && engine.now() < self.until;
        Ok(if goes_on { PollResult::Wait(self.until) } else { PollResult::Done })
    }
}

/// An engine in a world of its own.
struct Bench {
    fake: Fake,
    engine: Engine<Fake>,
}

impl Bench {
    fn new() -> Self {
        let fake = Fake::new();
        let engine = Engine::over(fake.clone()).unwrap();
        Self { fake, engine }
    }

    /// An endpoint that does what it is told.
    fn endpoint(&mut self, role: Role) -> (EndpointId, Scripted) {
        let endpoint = Scripted::default();
        (self.engine.add_endpoint(role, Box::new(endpoint.clone())), endpoint)
    }

    /// A socket at `address`, connected to `peer` or open to all: as the engine knows it, and as the world does.
    fn port(&mut self, address: impl Into<SocketAddr>, peer: Option<SocketAddr>) -> (PortId, usize) {
        let socket = self.fake.socket(address.into(), peer);
        let number = socket.number();
        (self.engine.add_port(Port::new(socket, peer.is_some())).unwrap(), number)
    }

    /// A flow that its endpoint knows, and the other end of its control stream.
    fn flow(&mut self, id: EndpointId, port: PortId) -> (FlowId, FakeWire) {
        let (flow, theirs) = self.new_flow(id, port);
        self.engine.flows.get_mut(&flow).unwrap().has_begun = true;
        (flow, theirs)
    }

    /// A flow that its endpoint does not know yet, and the other end of its control stream.
    fn new_flow(&mut self, id: EndpointId, port: PortId) -> (FlowId, FakeWire) {
        let (stream, theirs) = self.fake.connection();
        let flow = self.engine.new_flow();
        self.engine.add_flow(flow, id, port, stream).unwrap();
        self.engine.connections.insert(ConnectionId(flow.0), flow);
        (flow, theirs)
    }

    /// Runs the engine for an application.
    fn run(&mut self, mut run: Run) -> Run {
        self.engine.run(&mut run).unwrap();
        run
    }
}

/// A datagram for a flow.
fn datagram_for(flow: FlowId) -> Vec<u8> {
    Envelope { number: 0, connection: ConnectionId(flow.0) }.before(&[0; 92])
}

/// A frame as it comes over a connection.
fn encoded(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}
