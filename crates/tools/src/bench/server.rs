//! The server of benches: it sends to clients that receive, and receives from clients that send.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use inhaul_base::{RangeSet, Span, Time};
use inhaul_transport::{Command, Event, FlowId, FlowLimits, FlowStats, JoinFlow, ObjectId, OfferFlow, Role};

use super::bench_stats;
use super::memory::BenchMemory;
use inhaul_engine::engine::endpoints::Endpoints;
use inhaul_engine::engine::net::{self, Transport};
use inhaul_engine::engine::port::Port;
use inhaul_engine::engine::seldom::Seldom;
use inhaul_engine::engine::{Application, BodySource, EndCause, EndpointId, Engine, PollResult, PortId, Sink};
use inhaul_serve::gate::Gate;
use inhaul_serve::greeting::{Arrival, Bencher};
use inhaul_serve::house::Service;
use inhaul_serve::reception::{Places, Reception};
use inhaul_serve::server::{ListeningPair, SESSIONS_MAX as N, later, listen};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{BenchServerOptions, NetOptions, RateDial, Stop};
use inhaul_session::session::control_stream::ControlStream;
use inhaul_session::session::frame::{Frame, RefusalCode, SessionRole};
use inhaul_session::session::slots::Limits;
use inhaul_session::system::threads;
use inhaul_session::system::{process, sockets};

/// How often a client that sends gets an update.
const STATS_INTERVAL: Span = Span::from_millis(200);

/// Serves benches until `stop` is set; calls `ready` with the address once it listens.
///
/// # Errors
/// When the address cannot be listened on, or when the system fails.
pub fn bench_server(
    options: &BenchServerOptions,
    stop: &Stop,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), MoveError> {
    net::check_server(&options.net)?;
    let ListeningPair { tcp, udp, address } = listen(&options.net, options.listen)?;
    let mut engine = Engine::new()?;
    let endpoints = Endpoints::new(options.net.protocols, &udp, options.send_rate, options.receive_rate)?;
    let port = engine.add_port(Port::new(udp, false))?;
    engine.listen(tcp)?;
    let mut server = BenchServer {
        // A measuring client may have any number of flows, mostly from one host.
        reception: Reception::new(
            Service::Bench,
            Gate::new(&options.identity, Arc::default())?,
            &options.net,
            address.port(),
            Arc::default(),
            Places { sessions: Limits { sessions: N, per_origin: N, per_client: N }, half_open: N },
            Arc::default(),
        ),
        endpoints,
        port,
        net: options.net.clone(),
        send_dial: options.send_dial.clone(),
        stop: stop.clone(),
        memory: BenchMemory::default(),
        sessions: BTreeMap::new(),
        next_stats: Time::ZERO,
        unwelcome: Seldom::default(),
    };
    threads::become_data_thread(&options.net)?;
    ready(address);
    engine.run(&mut server)
}

struct BenchServer {
    reception: Reception,
    endpoints: Endpoints,
    port: PortId,
    net: NetOptions,
    send_dial: Option<RateDial>,
    stop: Stop,
    memory: BenchMemory,
    sessions: BTreeMap<FlowId, Session>,
    next_stats: Time,
    unwelcome: Seldom,
}

/// One flow of a client.
struct Session {
    role: SessionRole,
    /// Processor time of this process when the session began.
    cpu_before: Span,
    /// How the flow did when it was last looked at.
    stats: FlowStats,
}

/// What a flow's endpoint is told first.
struct Begin {
    endpoint: EndpointId,
    commands: Vec<Command>,
}

impl BenchServer {
    /// Begins a session. What stands in its way is one client's trouble, and nobody else's.
    fn welcome(&mut self, engine: &mut Engine, bencher: Bencher) {
        let Bencher { stream, transport, role, size, memory } = bencher;
        let (client, flow) = (stream.peer(), engine.new_flow());
        let begin = match self.prepare(engine, flow, &transport, (role, size), &stream) {
            Ok(begin) => begin,
            Err(error) => {
                self.unwelcome.warn(engine.now(), &format!("{client}: no bench comes about: {error}"));
                let text = format!("it can begin no bench now ({error}): try again later");
                return stream.end_with(&Frame::Refused { code: RefusalCode::Busy, text });
            }
        };
        if let Err(error) = engine.add_flow(flow, begin.endpoint, self.port, stream) {
            return self.unwelcome.warn(engine.now(), &format!("{client}: no bench comes about: {error}"));
        }
        self.memory.insert(flow, memory);
        let cpu_before = process::cpu_time();
        self.sessions.insert(flow, Session { role, cpu_before, stats: FlowStats::default() });
        begin.commands.into_iter().for_each(|command| engine.command(begin.endpoint, command));
    }

    /// What a flow begins with, where all of it can be had.
    fn prepare(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        transport: &Transport,
        (role, size): (SessionRole, u64),
        stream: &ControlStream,
    ) -> Result<Begin, MoveError> {
        let path = sockets::path_from(&self.net, stream.local().ip());
        let connection = engine.new_connection()?;
        if role == SessionRole::BenchPush {
            engine.watch_thread(&self.net, false);
            let endpoint = self.endpoints.of(engine, Role::Receiver, transport)?;
            // Each flow has its own object.
            let object = ObjectId(flow.0);
            let fetch = Command::Fetch { object, size, held: RangeSet::new() };
            let limits = FlowLimits::default();
            let join = JoinFlow { flow, object, peer: None, path, connection, probed: None, limits };
            return Ok(Begin { endpoint, commands: vec![fetch, Command::Join(join)] });
        }
        let endpoint = self.endpoints.of(engine, Role::Sender, transport)?;
        let offer = OfferFlow {
            flow,
            size,
            peer: None,
            only_from: Some(stream.peer().ip()),
            path,
            connection,
            token: process::random_u64()?,
            client: None,
            parameters: Arc::clone(&transport.parameters),
        };
        Ok(Begin { endpoint, commands: vec![Command::Offer(offer)] })
    }

    /// Tells a client how its flow is doing.
    fn tell(&mut self, engine: &mut Engine, flow: FlowId) {
        let Some(session) = self.sessions.get_mut(&flow) else { return };
        if let Some(stats) = engine.flow_stats(flow) {
            session.stats = stats;
        }
        let cpu = process::cpu_time().saturating_sub(session.cpu_before);
        engine.send(flow, &Frame::Stats(bench_stats(&session.stats, cpu)));
    }

    fn tell_all(&mut self, engine: &mut Engine) {
        let pushing = self.sessions.iter().filter(|(_, session)| session.role == SessionRole::BenchPush);
        let flows: Vec<FlowId> = pushing.map(|(&flow, _)| flow).collect();
        for flow in flows {
            self.tell(engine, flow);
        }
    }

    /// Ends a session, with a word to the client.
    fn close(&mut self, engine: &mut Engine, flow: FlowId, close_reason: &Frame) {
        engine.close_with(flow, close_reason);
        self.forget(flow);
    }

    fn forget(&mut self, flow: FlowId) {
        self.memory.remove(flow);
        self.sessions.remove(&flow);
    }
}

impl Application for BenchServer {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.memory
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut self.memory
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        match event {
            Event::Complete { object } => self.tell(engine, FlowId(object.0)),
            Event::Failed { flow, error } => {
                self.close(engine, flow, &Frame::malformed(&error));
            }
            _ => {}
        }
        Ok(())
    }

    fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        if frame == Frame::Finish {
            self.tell(engine, flow);
            self.close(engine, flow, &Frame::Bye);
        } else {
            self.close(engine, flow, &Frame::out_of_place());
        }
        Ok(())
    }

    fn on_end(&mut self, _engine: &mut Engine, flow: FlowId, _cause: &EndCause) -> Result<(), MoveError> {
        self.forget(flow);
        Ok(())
    }

    fn on_accept(&mut self, engine: &mut Engine, tcp: TcpStream) -> Result<(), MoveError> {
        self.reception.greet(engine, tcp);
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        if self.stop.is_set() {
            return Ok(PollResult::Done);
        }
        while let Some(arrival) = self.reception.arrival() {
            let Arrival::Bencher(bencher) = arrival else { continue };
            self.welcome(engine, bencher);
        }
        let now = engine.now();
        if now >= self.next_stats {
            self.next_stats = now + STATS_INTERVAL;
            self.tell_all(engine);
        }
        let Some(dial) = &self.send_dial else { return Ok(PollResult::Wait(later(engine))) };
        if let Some(rate) = dial.get() {
            self.endpoints.limit_send(engine, rate);
        }
        Ok(PollResult::Wait(now + RateDial::LOOK))
    }
}
