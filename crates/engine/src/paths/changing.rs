//! What is done about flows' ways when [`FallbackState`](super::fallback::FallbackState) says so: streams are opened, and
//! UDP is probed, on threads beside the engine's.

use std::collections::BTreeMap;
use std::time::Duration;

use inhaul_base::{Span, Time};
use inhaul_transport::{Command, FlowId, JoinFlow};
use inhaul_udp::Waker;

use super::callers::Callers;
use super::fallback::{Facts, Reason, Step};
use super::way::{Asked, News, NewsDesk, StreamOpener, Way};
use crate::engine::port::{NO_PORT, Port};
use crate::engine::probe::Seen;
use crate::engine::tunnel::STREAMS_MAX;
use crate::engine::{EndpointId, Engine};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{Fallback, NetOptions};
use inhaul_session::api::report::PathReport;
use inhaul_session::session::connect::Session;
use inhaul_session::session::early_path::EarlyPath;
use inhaul_session::session::frame::Frame;
use inhaul_session::session::tunnel_stream;
use inhaul_session::system::sockets::{self, Ends};

/// How often it is looked whether datagrams come.
const LOOK: Span = Span::from_millis(20);
/// How long an echo is waited for, beside several round trips.
const ECHO_PATIENCE: Duration = Duration::from_millis(500);
const ECHO_RTTS: u64 = 3;

/// A peer that was asked to bring something has this long, beside several round trips.
const STREAMS_PATIENCE: Span = Span::from_secs(4);
const OPENING_RTTS: u64 = 8;

/// What a receiver should hear.
pub enum PathNews {
    /// For the user.
    Warning(String),
    /// The flow has no way any more.
    Lost(FlowId, &'static str),
}

/// The ways of all flows of a receiver.
pub struct Paths {
    ways: BTreeMap<FlowId, Way>,
    desk: NewsDesk,
    news: Vec<PathNews>,
    callers: Option<Callers>,
}

impl Paths {
    /// Of no flow yet. `waker`: the engine's.
    pub fn new(waker: Waker, net: &NetOptions) -> Self {
        Self { ways: BTreeMap::new(), desk: NewsDesk::new(waker, net), news: Vec::new(), callers: None }
    }

    /// Senders have dialled this host, and bring there what they are asked for.
    pub fn expect_callers(&mut self, callers: Callers) {
        self.callers = Some(callers);
    }

    /// How the sender of `session` is reached, whose flow begins.
    pub fn way_of(&self, now: Time, net: &NetOptions, session: &Session) -> Way {
        let (datagrams, server) = (session.datagrams, session.server.clone());
        match &self.callers {
            Some(callers) if !session.is_dialled => Way::from_caller(now, net, callers.clone(), datagrams, server),
            _ => Way::new(now, net, session.is_dialled.then(|| session.stream.peer()), datagrams, server),
        }
    }

    /// A flow is there, which does not begin yet.
    pub fn add(&mut self, flow: FlowId, way: Way) {
        self.ways.insert(flow, way);
    }

    /// A flow has ended; its last report stands.
    pub fn end(&mut self, flow: FlowId) {
        if let Some(way) = self.ways.get_mut(&flow) {
            way.has_ended = true;
            way.asked = Asked::default();
        }
    }

    /// A flow is forgotten.
    pub fn remove(&mut self, flow: FlowId) {
        self.ways.remove(&flow);
    }

    /// How a flow's data comes, for the user.
    pub fn report(&self, flow: FlowId, now: Time) -> PathReport {
        self.ways.get(&flow).map(|way| way.report(now)).unwrap_or_default()
    }

    /// Begins a flow; once there are streams, where nothing else is to carry its data.
    pub fn begin(&mut self, engine: &mut Engine, endpoint: EndpointId, join: JoinFlow) {
        let Some(way) = self.ways.get_mut(&join.flow) else { return };
        way.has_begun = true;
        way.token = engine.tunnel_token(join.flow);
        // A peer that has shown no address has tried to for long enough.
        let probed = if way.datagrams.port() == NO_PORT { Span::MAX } else { join.probed.unwrap_or_default() };
        way.state.on_begin(engine.now(), probed);
        if way.state.mode() == Fallback::Always {
            way.join = Some(join);
        } else {
            engine.command(endpoint, Command::Join(join));
        }
    }

    /// A path is open.
    pub fn note_open(&mut self, flow: FlowId) {
        if let Some(way) = self.ways.get_mut(&flow) {
            way.is_open = true;
            way.state.on_opened();
        }
    }

    /// What there is to be told.
    pub fn take_news(&mut self) -> Vec<PathNews> {
        std::mem::take(&mut self.news)
    }

    /// Looks after the ways of all flows that run.
    pub fn tend(
        &mut self,
        engine: &mut Engine,
        endpoint: EndpointId,
        runs: impl Fn(FlowId) -> bool,
    ) -> Result<(), MoveError> {
        while let Some((flow, news)) = self.desk.next() {
            self.hear(engine, endpoint, flow, news)?;
        }
        let now = engine.now();
        if now < self.desk.next_look {
            return Ok(());
        }
        self.desk.next_look = now + LOOK;
        self.give_up_waiting(engine, endpoint, &runs)?;
        let mut steps = Vec::new();
        for (&flow, way) in self.ways.iter_mut().filter(|(flow, way)| way.has_begun && runs(**flow)) {
            let stats = engine.flow_stats(flow).unwrap_or_default();
            let waits = !way.is_open || stats.outstanding_bytes > 0;
            let rtt = engine.control_rtt(flow).unwrap_or_default();
            let facts = Facts {
                now,
                waits,
                heard: engine.heard(flow).unwrap_or(now),
                rtt: if way.is_open { rtt.max(stats.rtt) } else { rtt },
                received_bytes: stats.placed_bytes,
                received_packets: stats.received_packets,
                lost_packets: stats.lost_packets,
                streams: engine.tunnel_streams(flow),
            };
            steps.extend(way.state.look(&facts).map(|step| (flow, step)));
        }
        steps.into_iter().try_for_each(|(flow, step)| self.take_step(engine, endpoint, flow, step))
    }

    /// When it is to be looked next.
    pub fn next_look(&self) -> Time {
        self.desk.next_look
    }

    /// The peer says that UDP passes, from where its probes came.
    pub fn on_introduced(&mut self, engine: &mut Engine, endpoint: EndpointId, flow: FlowId) -> Result<(), MoveError> {
        let Some(way) = self.ways.get_mut(&flow) else { return Ok(()) };
        let (Some(StreamOpener::Peer(callers)), Some((_, admission))) = (&way.opener, way.asked.probes.take()) else {
            return Ok(());
        };
        let socket = admission.seen().map(|Seen { from, to }| {
            let ends = Ends { local: callers.local, peer: from }.asked_at(to);
            (from, sockets::branch(self.desk.net(), ends))
        });
        let socket = match socket {
            Some((from, Ok(socket))) => {
                way.datagrams = from;
                engine.show_tunnel_as(flow, from);
                Some(socket)
            }
            Some((from, Err(error))) => {
                log::info!("{from}: {error}");
                None
            }
            None => None,
        };
        self.hear(engine, endpoint, flow, News::Probed(socket))
    }

    /// What peers were asked to bring and have not brought in time.
    fn give_up_waiting(
        &mut self,
        engine: &mut Engine,
        endpoint: EndpointId,
        runs: impl Fn(FlowId) -> bool,
    ) -> Result<(), MoveError> {
        let now = engine.now();
        let mut steps = Vec::new();
        for (&flow, way) in self.ways.iter_mut().filter(|(flow, _)| runs(**flow)) {
            if way.asked.probes.take_if(|(until, _)| *until <= now).is_some() {
                steps.extend(way.state.on_probed(now, false).map(|step| (flow, step)));
            }
            if way.asked.streams.as_ref().is_some_and(|(until, _)| *until <= now) && way.opening > 0 {
                way.opening = 0;
                if !way.has_opened {
                    way.asked.streams = None;
                    steps.extend(way.state.on_streams(now, false).map(|step| (flow, step)));
                }
            }
        }
        steps.into_iter().try_for_each(|(flow, step)| self.take_step(engine, endpoint, flow, step))
    }

    fn hear(&mut self, engine: &mut Engine, endpoint: EndpointId, flow: FlowId, news: News) -> Result<(), MoveError> {
        let now = engine.now();
        let Some(way) = self.ways.get_mut(&flow).filter(|way| !way.has_ended) else { return Ok(()) };
        let step = match news {
            News::Stream(result) => {
                way.opening = way.opening.saturating_sub(1);
                let is_first = match result {
                    Ok(stream) => engine.attach_stream(flow, way.datagrams, *stream)? && !way.has_opened,
                    Err(error) => {
                        log::info!("{}: no stream for datagrams: {error}", way.server);
                        false
                    }
                };
                way.has_opened |= is_first;
                let is_last = way.opening == 0 && !way.has_opened;
                (is_first || is_last).then(|| way.state.on_streams(now, is_first)).flatten()
            }
            News::Probed(socket) => {
                let passes = socket.is_some();
                if let Some(socket) = socket {
                    engine.replace_port(flow, Port::new(socket, true))?;
                }
                way.state.on_probed(now, passes)
            }
        };
        match step {
            Some(step) => self.take_step(engine, endpoint, flow, step),
            None => Ok(()),
        }
    }

    fn take_step(
        &mut self,
        engine: &mut Engine,
        endpoint: EndpointId,
        flow: FlowId,
        step: Step,
    ) -> Result<(), MoveError> {
        let Some(way) = self.ways.get_mut(&flow) else { return Ok(()) };
        let server = &way.server;
        match step {
            Step::Open => return self.open_streams(engine, flow),
            Step::ToTunnel => {
                let (reason, _, changes) = way.state.view();
                way.is_open = false;
                let join = way.join.take();
                join.into_iter().for_each(|join| engine.command(endpoint, Command::Join(join)));
                engine.turn_to(flow, true, None);
                // A stream less is no change.
                if let Some(reason) = reason.filter(|_| changes > way.told_changes) {
                    way.told_changes = changes;
                    log::info!("{server}: over TCP from now on: {}", reason.text());
                    if reason != Reason::Chosen {
                        let text = format!("{server}: data comes over TCP from now on: {}", reason.text());
                        self.news.push(PathNews::Warning(text));
                    }
                }
            }
            Step::ToUdp => {
                way.is_open = false;
                way.told_changes = way.state.view().2;
                engine.turn_to(flow, false, Some(way.datagrams));
                self.news.push(PathNews::Warning(format!("{server}: data comes over UDP again")));
            }
            Step::Probe => return self.probe_udp(engine, flow),
            Step::Close => engine.drop_tunnel(flow),
            Step::GiveUp => self.news.push(PathNews::Lost(flow, "data cannot come over TCP streams")),
        }
        Ok(())
    }

    fn open_streams(&mut self, engine: &mut Engine, flow: FlowId) -> Result<(), MoveError> {
        let Some(way) = self.ways.get_mut(&flow) else { return Ok(()) };
        let (Some(opener), Some(token)) = (&way.opener, way.token) else { return Ok(()) };
        let count = STREAMS_MAX - engine.tunnel_streams(flow);
        (way.opening, way.has_opened) = (count, false);
        let control = match opener {
            StreamOpener::Here(control) => *control,
            StreamOpener::Peer(callers) => {
                let until =
                    engine.now() + STREAMS_PATIENCE + engine.control_rtt(flow).unwrap_or_default() * OPENING_RTTS;
                // The one before ends first: it would take this one along.
                way.asked.streams = None;
                let expectation = callers.hall.expect(token, count, Box::new(self.desk.taker(flow)));
                way.asked.streams = Some((until, expectation));
                engine.send(flow, &Frame::AskTunnel);
                return Ok(());
            }
        };
        for _ in 0..count {
            let server = way.server.clone();
            let open =
                move |net: &NetOptions| News::Stream(tunnel_stream::open(&server, control, net, token).map(Box::new));
            self.desk.work(flow, |error| News::Stream(Err(error)), open);
        }
        Ok(())
    }

    /// Finds out whether UDP passes, over a socket of its own: the way of the one before may be what is broken.
    fn probe_udp(&mut self, engine: &mut Engine, flow: FlowId) -> Result<(), MoveError> {
        let Some(way) = self.ways.get_mut(&flow) else { return Ok(()) };
        if let Some(StreamOpener::Peer(callers)) = &way.opener {
            let Some(token) = engine.probe_token(flow) else { return Ok(()) };
            let patience = STREAMS_PATIENCE + engine.control_rtt(flow).unwrap_or_default() * OPENING_RTTS;
            // The one before ends first: it would take this one along.
            way.asked.probes = None;
            let admission = callers.desk.admit_as(token, way.datagrams.ip());
            way.asked.probes = Some((engine.now() + patience, admission));
            engine.send(flow, &Frame::TryDatagrams);
            return Ok(());
        }
        let Some(local) = engine.control_local(flow) else { return Ok(()) };
        let (server, ends) = (way.server.clone(), Ends { local, peer: way.datagrams });
        let rtt = engine.control_rtt(flow).unwrap_or_default() * ECHO_RTTS;
        let patience = ECHO_PATIENCE + Duration::from_nanos(rtt.as_nanos());
        engine.send(flow, &Frame::TryDatagrams);
        // The server has to have read that first: it is half a round trip, and probes wait for no echo before.
        let delay = Duration::from_nanos(rtt.as_nanos() / ECHO_RTTS / 4);
        let probe = move |net: &NetOptions| {
            std::thread::sleep(delay);
            let socket = EarlyPath::passes(net, ends, patience);
            log::debug!("{server}: UDP {}", if socket.is_some() { "passes" } else { "does not pass" });
            News::Probed(socket)
        };
        let failed = |error| {
            log::info!("whether UDP passes cannot be found out: {error}");
            News::Probed(None)
        };
        self.desk.work(flow, failed, probe);
        Ok(())
    }
}
