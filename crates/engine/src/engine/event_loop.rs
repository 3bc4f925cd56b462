//! The loop: one data thread that moves datagrams, control messages and time between an endpoint and the world.
//!
//! Each turn does a bounded amount of everything, so that neither data nor control nor timers starve the others:
//! wait for something to be ready or due, take in datagrams and control messages, and after each change drain the
//! endpoint. What a transfer means is the [`Application`]'s business.

#[cfg(test)]
mod fake;
mod flow;
mod host_watch;
mod numbers;
mod outside;
mod pulse;
mod sockets;
mod sources;
mod streams;
#[cfg(test)]
mod tests;
mod tunnels;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use inhaul_base::{Span, Time};
use inhaul_transport::kit::Connections;
use inhaul_transport::{
    Command, CommandError, ConnectionId, Endpoint, Event, FlowId, FlowStats, PathSpec, Role, RxMessage, TxBatch, drain,
};
use inhaul_udp::seal::Seals;
use inhaul_udp::watch::Meter;
use inhaul_udp::{BodySource, DatagramSocket, SendError, Waker};

use self::flow::Flow;
use self::host_watch::HostWatch;
use self::outside::{Kernel, Outside, TellNews, Watchable};
use self::pulse::Pulse;
use crate::engine::demux::{self, Gathered};
use crate::engine::ids::{EndpointId, PortId};
use crate::engine::listener::Listener;
use crate::engine::port::{BLOCKED, Outlet, Port, Sink};
use crate::engine::source_queue::Sources;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{Monitor, NetOptions};
use inhaul_session::session::control_stream::StreamError;
use inhaul_session::session::frame::Frame;

/// Datagrams that an endpoint may have under way to the network at once: six messages of segmentation offload at an
/// MTU of 1500, about a third of a millisecond at 10 Gbit/s.
const BATCH_DATAGRAMS: usize = 264;
/// Bytes that an endpoint may send in one turn of the loop, whatever its peers ask for: 0.8 ms at 10 Gbit/s. Then
/// sockets, streams, timers and the application have their turn.
const TURN_BYTES: u64 = 1 << 20;
/// Batches that one socket may bring in a row.
const BATCHES_A_TURN: usize = 8;
/// Connections that are taken in a row.
const ACCEPTS_A_TURN: usize = 16;

/// Bytes of headers of a datagram, below UDP's payload.
const HEADERS: u64 = 28;
/// To take a batch in does not take this long, unless something holds it up.
const STALL: Span = Span::from_millis(2);

const WAKER: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;
/// Tokens of streams are flows' numbers; tokens of sockets are ports' numbers above this.
const PORTS: u64 = 1 << 32;

/// What the engine drives for: a server, a transfer, a bench.
pub trait Application<O: Outside = Kernel> {
    /// Where datagrams' bodies go.
    fn sink(&mut self) -> &mut dyn Sink<O::Socket>;

    /// Where datagrams' bodies come from.
    fn bodies(&mut self) -> &mut dyn BodySource;

    /// Bodies have been brought to these places.
    fn on_places(&mut self, _places: &[inhaul_transport::Place]) {}

    /// An endpoint has something to say that is not meant for its peer.
    fn on_event(&mut self, engine: &mut Engine<O>, event: Event) -> Result<(), MoveError>;

    /// A frame came in that is not the endpoint's.
    fn on_frame(&mut self, engine: &mut Engine<O>, flow: FlowId, frame: Frame) -> Result<(), MoveError>;

    /// The flow can go no further: its control stream has ended, or its data could not be sent. It is forgotten
    /// already.
    fn on_end(&mut self, engine: &mut Engine<O>, flow: FlowId, cause: &EndCause) -> Result<(), MoveError>;

    /// A source can go no further. It is forgotten already.
    fn on_source_end(&mut self, _engine: &mut Engine<O>, flow: FlowId, error: MoveError) -> Result<(), MoveError> {
        Err(MoveError::Internal(format!("flow {} has no source: {error}", flow.0)))
    }

    /// Somebody has connected, which happens to those who listen only.
    fn on_accept(&mut self, _engine: &mut Engine<O>, _tcp: std::net::TcpStream) -> Result<(), MoveError> {
        Ok(())
    }

    /// Once a turn: news of other threads, timers of its own.
    fn on_turn(&mut self, engine: &mut Engine<O>) -> Result<PollResult, MoveError>;
}

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollResult {
    /// Come again when something happens, or at this time at the latest.
    Wait(Time),
    /// All is done.
    Done,
}

/// Why a flow can go no further.
#[derive(Debug, thiserror::Error)]
pub enum EndCause {
    /// Its control stream has ended.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// Its datagrams could not be sent.
    #[error("{0}")]
    Send(#[from] SendError),
    /// The endpoint does not take the flow.
    #[error("{0}")]
    Refused(#[from] CommandError),
}

/// An endpoint and what is on its way out of it.
struct DrivenEndpoint {
    role: Role,
    endpoint: Box<dyn Endpoint + Send>,
    batch: TxBatch,
    due: Option<Time>,
    /// The network has not taken all of the batch: it is asked again then, and all timers are looked at.
    retry: Option<Time>,
    /// What is left of [`TURN_BYTES`].
    budget: u64,
    /// The port that a foreign protocol has for itself.
    port: Option<PortId>,
}

impl DrivenEndpoint {
    fn new(role: Role, endpoint: Box<dyn Endpoint + Send>) -> Self {
        let batch = TxBatch::with_limit(BATCH_DATAGRAMS);
        Self { role, endpoint, batch, due: None, retry: None, budget: TURN_BYTES, port: None }
    }

    /// When the endpoint must be called again. While its batch waits for the network, that is when the network is
    /// asked again, and not what the endpoint says: what is overdue may be what cannot leave, under whatever name,
    /// and hides what is due later.
    fn wake_time(&self) -> Option<Time> {
        self.retry.or(self.due)
    }
}

/// See the module's description.
pub struct Engine<O: Outside = Kernel> {
    outside: O,
    waker: Waker,
    listener: Option<Listener>,
    endpoints: Vec<DrivenEndpoint>,
    ports: BTreeMap<PortId, Port<O::Socket>>,
    flows: BTreeMap<FlowId, Flow<O::Wire>>,
    sources: Sources,
    connections: Connections,
    seals: Seals,
    /// The flows whose streams have been written to, or are to be closed, since this was looked at last.
    unsettled: BTreeSet<FlowId>,
    /// The flows whose streams have taken in frames that nobody may have looked at.
    unheard: BTreeSet<FlowId>,
    /// When it is to be looked whether a flow's peer reads what waits for it.
    unread: BTreeSet<(Time, FlowId)>,
    next_id: u32,
    events: VecDeque<Event>,
    commands: VecDeque<(EndpointId, Command)>,
    ended: VecDeque<(FlowId, EndCause)>,
    places: Vec<inhaul_transport::Place>,
    /// The endpoints that were shown datagrams since this was cleared last. Kept for its memory.
    shown: Vec<usize>,
    pulse: Pulse,
    host: HostWatch,
    watch: Option<Watched>,
    /// Whether a socket had more than a turn takes.
    behind: bool,
}

/// The watcher of the engine's thread.
struct Watched {
    /// What is told to it.
    meter: Arc<Meter>,
    /// What it foresees, if that has changed.
    news: TellNews,
    /// Whether bodies are written to a disk.
    writes: bool,
}

impl Engine {
    /// An engine of this system's sockets.
    pub fn new() -> Result<Self, MoveError> {
        Self::over(Kernel::new().map_err(MoveError::system("cannot wait for sockets"))?)
    }
}

impl<O: Outside> Engine<O> {
    /// An engine that has `outside` around it.
    fn over(outside: O) -> Result<Self, MoveError> {
        let waker = outside.waker(WAKER).map_err(MoveError::system("cannot wait for threads"))?;
        Ok(Self {
            outside,
            waker,
            listener: None,
            endpoints: Vec::new(),
            ports: BTreeMap::new(),
            flows: BTreeMap::new(),
            sources: Sources::default(),
            connections: Connections::default(),
            seals: Seals::default(),
            unsettled: BTreeSet::new(),
            unheard: BTreeSet::new(),
            unread: BTreeSet::new(),
            next_id: 1,
            events: VecDeque::new(),
            commands: VecDeque::new(),
            ended: VecDeque::new(),
            places: Vec::new(),
            shown: Vec::new(),
            pulse: Pulse::default(),
            host: HostWatch::default(),
            watch: None,
            behind: false,
        })
    }

    /// Has the engine drive an endpoint.
    pub(crate) fn add_endpoint(&mut self, role: Role, endpoint: Box<dyn Endpoint + Send>) -> EndpointId {
        self.endpoints.push(DrivenEndpoint::new(role, endpoint));
        EndpointId(self.endpoints.len() - 1)
    }

    /// Has the host of the calling thread, which is to run the engine, watched: endpoints that receive are told of
    /// pauses before they come, and of what the host can take in. `writes`: what comes in goes to a disk.
    pub fn watch_thread(&mut self, net: &NetOptions, writes: bool) {
        let monitor = net.monitor;
        if monitor == Monitor::Off || self.watch.is_some() {
            return;
        }
        self.host.pass_on(monitor);
        let meter = Arc::new(Meter::default());
        let thorough = monitor == Monitor::Log;
        // No other protocol's receivers make anything of it.
        let tcp = net.transport == "gtp";
        let news = self.outside.watch_thread(Watchable { meter: Arc::clone(&meter), writes, thorough, tcp });
        self.watch = news.map(|news| Watched { meter, news, writes });
    }

    /// Whether an endpoint has no flow, and none is about to begin.
    pub(crate) fn is_free_of_flows(&self, id: EndpointId) -> bool {
        self.flows.values().all(|of| of.endpoint != id)
    }

    /// Has an endpoint that [has no flow](Self::is_free_of_flows) make way for another.
    pub(crate) fn replace_endpoint(&mut self, id: EndpointId, role: Role, endpoint: Box<dyn Endpoint + Send>) {
        // What was still to be said to the former one is nothing to this one.
        self.commands.retain(|(to, _)| *to != id);
        self.endpoints[id.0] = DrivenEndpoint::new(role, endpoint);
    }

    pub fn now(&self) -> Time {
        self.outside.now()
    }

    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// How many control streams are open.
    pub fn streams(&self) -> usize {
        self.flows.len()
    }

    /// Gives the endpoint a command, once it has been drained.
    pub fn command(&mut self, endpoint: EndpointId, command: Command) {
        self.commands.push_back((endpoint, command));
    }

    /// How a flow is doing, by its endpoint.
    pub fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        let stats = self.endpoints.iter().find_map(|driven| driven.endpoint.flow_stats(flow))?;
        // Of a sealed flow, what comes again does not open, and its endpoint is not shown it.
        let duplicate_packets = stats.duplicate_packets + self.seals.repeated(flow);
        Some(FlowStats { duplicate_packets, ..stats })
    }

    /// Runs until the application is done.
    pub fn run(&mut self, app: &mut dyn Application<O>) -> Result<(), MoveError> {
        let mut ready = Vec::new();
        while self.turn(app, &mut ready)? {}
        Ok(())
    }

    /// One turn of the loop; false when the application is done. `ready` is handed in for its memory.
    fn turn(&mut self, app: &mut dyn Application<O>, ready: &mut Vec<inhaul_udp::Event>) -> Result<bool, MoveError> {
        let turn = app.on_turn(self)?;
        self.settle(app)?;
        let PollResult::Wait(mut latest) = turn else { return Ok(false) };
        if !self.unheard.is_empty() {
            self.serve_unheard(app)?;
            // What it comes to is the application's business first.
            latest = self.now();
        }
        if self.serve_sources(app)? {
            latest = self.now();
        }
        self.write_streams()?;
        self.resume_listening();
        self.endpoints.iter_mut().for_each(|driven| driven.budget = TURN_BYTES);
        let retries = self.ports.values().filter_map(Port::retries_at).chain(self.unread_due());
        let mut deadline =
            self.endpoints.iter().filter_map(DrivenEndpoint::wake_time).chain(retries).fold(latest, Time::min);
        let lot = self.host.lot();
        if lot.is_none() && self.pulse.is_fast(self.now()) {
            deadline = Time::ZERO;
        }
        if let Some(watch) = self.watch.as_ref().filter(|watch| watch.writes)
            && let Some(backlog) = app.sink().backlog()
        {
            watch.meter.note_backlog(backlog.waiting, backlog.room, backlog.written);
        }
        let behind = std::mem::take(&mut self.behind);
        if let Some(lot) = lot.filter(|_| !behind) {
            let gathered = self.now() + lot;
            self.outside.rest_until(gathered.min(deadline));
        }
        self.outside.wait_until(deadline, ready).map_err(MoveError::system("cannot wait for sockets"))?;
        self.watch_host(deadline, ready.is_empty());
        for event in ready.drain(..) {
            match event.token {
                WAKER => self.waker.reset(),
                LISTENER => self.accept(app)?,
                token if token >= PORTS => self.serve_port(app, PortId((token - PORTS) as u32), event)?,
                token => self.serve_stream(app, FlowId(token as u32), event)?,
            }
        }
        self.serve_timers(app)?;
        Ok(true)
    }

    /// Tells the endpoints how the host is doing, when that is due. `idle`: nothing but the deadline has ended the
    /// wait.
    fn watch_host(&mut self, deadline: Time, idle: bool) {
        let now = self.outside.now();
        self.host.on_wake(now, deadline, idle);
        let drops = self.ports.values().map(|port| port.receiver.kernel_drops()).sum();
        if let Some(watch) = &self.watch {
            watch.meter.note_drops(drops);
        }
        let (forecast, tcp) = self.watch.as_mut().map(|watch| (watch.news)()).unwrap_or_default();
        if let Some(flows) = tcp {
            self.host.hear_of_tcp(flows);
        }
        if let Some(forecast) = forecast {
            let room = self.ports.values().map(|port| port.socket.receive_buffer_bytes() as u64).sum();
            self.host.foresee(forecast, room);
            if self.host.wants_short_turns() {
                self.outside.shorten_turns();
            }
        }
        if !self.host.is_due(now) {
            return;
        }
        let sample = self.host.take(now, drops);
        for driven in &mut self.endpoints {
            driven.endpoint.handle_host(now, sample);
            // Whatever follows from it is fetched with the timers.
            driven.due = Some(now);
        }
    }

    fn serve_timers(&mut self, app: &mut dyn Application<O>) -> Result<(), MoveError> {
        let now = self.now();
        if self.retry_blocked(now, app) {
            self.drain_all(now, app, |driven| !driven.batch.is_empty());
        }
        for index in 0..self.endpoints.len() {
            let driven = &mut self.endpoints[index];
            if driven.wake_time().is_some_and(|due| due <= now) {
                driven.retry = None;
                driven.endpoint.handle_timeout(now);
                self.drain(index, now, app);
            }
        }
        self.end_unread(now);
        self.settle(app)
    }

    /// Takes what an endpoint has to give, within what it may send in a turn.
    fn drain(&mut self, index: usize, now: Time, app: &mut dyn Application<O>) {
        let DrivenEndpoint { role, endpoint, batch, due, retry, budget, port } = &mut self.endpoints[index];
        let (flows, own) = (&self.flows, *port);
        let route = |flow: FlowId, to| own.or_else(|| flows.get(&flow)?.way_to(to));
        let mut failures = Vec::new();
        let mut outlet = Outlet {
            role: *role,
            ports: &mut self.ports,
            route: &route,
            connections: &mut self.connections,
            seals: &mut self.seals,
            bodies: app.bodies(),
            events: &mut self.events,
            failures: &mut failures,
            sent: 0,
        };
        *due = drain(endpoint.as_mut(), now, batch, budget, &mut outlet);
        // It stands however often it is drained meanwhile.
        *retry = if batch.is_empty() { None } else { retry.or(Some(now + BLOCKED)) };
        let sent = outlet.sent;
        if sent > 0 {
            self.pulse.count_sent(now, sent);
        }
        self.take_failures(failures);
    }

    /// Ends flows whose data cannot be read. What a receiver sends carries no data, and may be lost.
    fn take_failures(&mut self, failures: Vec<SendError>) {
        for error in failures {
            let index = self.flows.get(&error.flow()).map(|of| of.endpoint.0);
            if index.is_some_and(|index| self.endpoints[index].role == Role::Receiver) {
                continue;
            }
            match error {
                SendError::Body { flow, .. } => self.ended.push_back((flow, error.into())),
                // Lost, as on the way: the receiver finds out that packets have to be smaller.
                SendError::TooLarge { flow, .. } => self.warn_of_size(flow, &error),
                // A peer that cannot be reached just now may be in a moment.
                SendError::Network { .. } => {}
            }
        }
    }

    /// Says once of each flow that its datagrams are too large for the interface.
    fn warn_of_size(&mut self, flow: FlowId, error: &SendError) {
        let Some(of) = self.flows.get_mut(&flow).filter(|of| !of.warned_of_size) else { return };
        of.warned_of_size = true;
        log::warn!("flow {}: {error}; they are lost until the receiver asks for smaller ones", flow.0);
    }

    /// Carries out what follows from the last changes, until nothing more does.
    fn settle(&mut self, app: &mut dyn Application<O>) -> Result<(), MoveError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                match event {
                    Event::Control { flow, message } => self.send(flow, &Frame::Protocol { message }),
                    Event::Source { flow, order } => self.order_source(flow, order),
                    event => app.on_event(self, event)?,
                }
            } else if let Some((endpoint, command)) = self.commands.pop_front() {
                self.carry_out(endpoint, command, app)?;
            } else if let Some((flow, cause)) = self.ended.pop_front() {
                self.end(flow, &cause, app)?;
            } else {
                return Ok(());
            }
        }
    }

    fn carry_out(
        &mut self,
        EndpointId(index): EndpointId,
        mut command: Command,
        app: &mut dyn Application<O>,
    ) -> Result<(), MoveError> {
        let is_disconnect = matches!(command, Command::Disconnect { .. });
        let begins = match &mut command {
            Command::Join(join) => Some((join.flow, join.connection, &mut join.path, join.probed.is_some(), join.peer)),
            Command::Offer(offer) => Some((offer.flow, offer.connection, &mut offer.path, false, offer.peer)),
            _ => None,
        };
        let begins = match begins {
            Some((flow, connection, path, probed, peer)) => match self.admit(flow, connection, path, probed) {
                Ok(true) => {
                    self.leave_from_its_stream(flow, peer);
                    Some(flow)
                }
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.ended.push_back((flow, error.into()));
                    return Ok(());
                }
            },
            None => None,
        };
        let now = self.now();
        if let Err(error) = self.endpoints[index].endpoint.command(now, command) {
            return match begins {
                // What its peers claim may be more than it can carry: that is their trouble.
                Some(flow) => {
                    self.ended.push_back((flow, error.into()));
                    Ok(())
                }
                // The endpoint may have forgotten the flow by itself.
                None if is_disconnect => Ok(()),
                None => Err(MoveError::Internal(error.to_string())),
            };
        }
        self.drain(index, now, app);
        if let Some(flow) = begins {
            self.begin_flow(flow, app);
        }
        Ok(())
    }

    /// A flow begins whose datagrams are to carry `connection`: from now on they are let in, and sealed if its stream
    /// has keys. Adds to `path` what that costs. `probed`: its path was probed before. False if the flow has ended meanwhile.
    fn admit(
        &mut self,
        flow: FlowId,
        connection: ConnectionId,
        path: &mut PathSpec,
        probed: bool,
    ) -> Result<bool, StreamError> {
        let Some(of) = self.flows.get_mut(&flow) else { return Ok(false) };
        let secrets = of.stream.take_flow_secrets()?;
        if let Some(secrets) = secrets {
            self.seals.insert(flow, connection, &secrets, probed);
            *path = path.sealed();
        }
        self.connections.insert(connection, flow);
        Ok(true)
    }

    /// A flow that knows its peer from the start, and has not heard of it, sends from the address that its control
    /// stream has: over a socket for all, the kernel might choose another.
    fn leave_from_its_stream(&mut self, flow: FlowId, peer: Option<SocketAddr>) {
        let Some(stream) = self.flows.get(&flow).map(|of| &of.stream) else { return };
        if peer.is_some_and(|peer| peer.ip() == stream.peer().ip()) {
            self.connections.note_asked(flow, stream.local().ip());
        }
    }

    fn serve_port(
        &mut self,
        app: &mut dyn Application<O>,
        id: PortId,
        ready: inhaul_udp::Event,
    ) -> Result<(), MoveError> {
        let is_unblocked = match self.ports.get(&id).map(|port| port.hand_on(ready.writable)) {
            Some(Some(is_unblocked)) => is_unblocked,
            Some(None) => {
                self.close_tunnel(id);
                return Ok(());
            }
            None => return Ok(()),
        };
        if is_unblocked {
            let now = self.now();
            self.unblock(id, now, app);
            self.drain_all(now, app, |_| true);
            self.settle(app)?;
        }
        let mut shown = std::mem::take(&mut self.shown);
        shown.clear();
        let mut emptied = false;
        for _ in 0..BATCHES_A_TURN {
            let mut now = self.now();
            let outside = &self.outside;
            let Some(port) = self.ports.get_mut(&id) else { return Ok(()) };
            let endpoints = &mut self.endpoints;
            let of_port = port.flow.and_then(|flow| Some((flow, self.flows.get(&flow)?.endpoint.0)));
            let expected = of_port.and_then(|(flow, index)| endpoints[index].endpoint.expected(flow));
            self.places.clear();
            let (pulse, host) = (&mut self.pulse, &mut self.host);
            let meter = self.watch.as_ref().map(|watch| &*watch.meter);
            let began = now;
            let (connections, flows, foreign) = (&mut self.connections, &self.flows, port.foreign);
            let mut show = |messages: &[RxMessage<'_>], places: &mut Vec<_>| {
                // What the messages say of how long they waited counts from here.
                now = outside.now();
                let count = messages.iter().map(RxMessage::datagrams).sum();
                pulse.count(now, count);
                if let Some(meter) = meter {
                    let bytes = messages.iter().map(|message| message.total_len as u64).sum::<u64>();
                    let bytes = bytes + count as u64 * HEADERS;
                    let waited = messages.first().map_or(Span::ZERO, |message| message.waited);
                    meter.count(messages.len() as u64, bytes, waited);
                    host.count(now, bytes);
                }
                let mut give = |index: usize, messages: &[RxMessage<'_>]| {
                    if !shown.contains(&index) {
                        shown.push(index);
                    }
                    endpoints[index].endpoint.handle_datagrams(now, messages, places);
                };
                if let Some(EndpointId(index)) = foreign {
                    return give(index, messages);
                }
                let mut gathered = Gathered::new(&mut give);
                for message in messages {
                    demux::sort(connections, message, |part| {
                        if let Some(of) = part.flow.and_then(|(flow, _)| flows.get(&flow)) {
                            of.ways.hear(now, id);
                            gathered.add(of.endpoint.0, part);
                        }
                    });
                }
                gathered.give();
            };
            if !app.sink().receive(port, &mut self.seals, expected, &mut show, &mut self.places)? {
                emptied = true;
                break;
            }
            if let Some(watch) = self.watch.as_ref().filter(|watch| watch.writes) {
                let took = self.outside.now().since(began);
                if took >= STALL {
                    watch.meter.note_stall(began, took);
                }
            }
            app.on_places(&self.places);
            self.drain_shown(&shown, Role::Receiver, now, app);
            self.settle(app)?;
        }
        self.behind |= !emptied;
        // Hundreds of flows may have data to send, and what they hear must not wait for that time and again.
        self.drain_shown(&shown, Role::Sender, self.now(), app);
        self.shown = shown;
        self.settle(app)?;
        self.watch_blocked()
    }

    /// Drains those endpoints of `shown` that play `role`.
    fn drain_shown(&mut self, shown: &[usize], role: Role, now: Time, app: &mut dyn Application<O>) {
        for &index in shown {
            if self.endpoints[index].role == role {
                self.drain(index, now, app);
            }
        }
    }

    fn drain_all(&mut self, now: Time, app: &mut dyn Application<O>, which: impl Fn(&DrivenEndpoint) -> bool) {
        for index in 0..self.endpoints.len() {
            if which(&self.endpoints[index]) {
                self.drain(index, now, app);
            }
        }
    }
}
