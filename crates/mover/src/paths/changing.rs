//! What is done about flows' ways when [`FallbackState`](super::fallback::FallbackState) says so: streams are opened, and
//! UDP is probed, on threads beside the engine's.

use std::collections::BTreeMap;
use std::time::Duration;

use inhaul_base::{Span, Time};
use inhaul_transport::{Command, FlowId, JoinFlow};
use inhaul_udp::Waker;

use super::fallback::{Facts, Reason, Step};
use super::way::{News, NewsDesk, Way};
use crate::api::error::MoveError;
use crate::api::options::{Fallback, NetOptions};
use crate::api::report::PathReport;
use crate::engine::port::Port;
use crate::engine::tunnel::STREAMS_MAX;
use crate::engine::{EndpointId, Engine};
use crate::session::early_path::EarlyPath;
use crate::session::frame::Frame;
use crate::session::tunnel_stream;

/// How often it is looked whether datagrams come.
const LOOK: Span = Span::from_millis(20);
/// How long an echo is waited for, beside several round trips.
const ECHO_PATIENCE: Duration = Duration::from_millis(500);
const ECHO_RTTS: u64 = 3;

/// What a receiver should hear.
pub(crate) enum PathNews {
    /// For the user.
    Warning(String),
    /// The flow has no way any more.
    Lost(FlowId, &'static str),
}

/// The ways of all flows of a receiver.
pub(crate) struct Paths {
    ways: BTreeMap<FlowId, Way>,
    desk: NewsDesk,
    news: Vec<PathNews>,
}

impl Paths {
    /// Of no flow yet. `waker`: the engine's.
    pub(crate) fn new(waker: Waker, net: &NetOptions) -> Self {
        Self { ways: BTreeMap::new(), desk: NewsDesk::new(waker, net), news: Vec::new() }
    }

    /// A flow is there, which does not begin yet.
    pub(crate) fn add(&mut self, flow: FlowId, way: Way) {
        self.ways.insert(flow, way);
    }

    /// A flow has ended; its last report stands.
    pub(crate) fn end(&mut self, flow: FlowId) {
        self.ways.get_mut(&flow).into_iter().for_each(|way| way.has_ended = true);
    }

    /// A flow is forgotten.
    pub(crate) fn remove(&mut self, flow: FlowId) {
        self.ways.remove(&flow);
    }

    /// How a flow's data comes, for the user.
    pub(crate) fn report(&self, flow: FlowId, now: Time) -> PathReport {
        self.ways.get(&flow).map(|way| way.report(now)).unwrap_or_default()
    }

    /// Begins a flow; once there are streams, where nothing else is to carry its data.
    pub(crate) fn begin(&mut self, engine: &mut Engine, endpoint: EndpointId, join: JoinFlow) {
        let Some(way) = self.ways.get_mut(&join.flow) else { return };
        way.has_begun = true;
        if way.state.mode() == Fallback::Always {
            way.join = Some(join);
        } else {
            engine.command(endpoint, Command::Join(join));
        }
    }

    /// A path is open.
    pub(crate) fn note_open(&mut self, flow: FlowId) {
        if let Some(way) = self.ways.get_mut(&flow) {
            way.is_open = true;
            way.state.on_opened();
        }
    }

    /// What there is to be told.
    pub(crate) fn take_news(&mut self) -> Vec<PathNews> {
        std::mem::take(&mut self.news)
    }

    /// Looks after the ways of all flows that run.
    pub(crate) fn tend(
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
    pub(crate) fn next_look(&self) -> Time {
        self.desk.next_look
    }

    /// The server lets streams carry a flow's data.
    pub(crate) fn on_grant(
        &mut self,
        engine: &mut Engine,
        endpoint: EndpointId,
        flow: FlowId,
        token: u128,
    ) -> Result<(), MoveError> {
        let Some(way) = self.ways.get_mut(&flow) else { return Ok(()) };
        way.token = Some(token);
        match way.state.on_grant() {
            Some(step) => self.take_step(engine, endpoint, flow, step),
            None => Ok(()),
        }
    }

    fn hear(&mut self, engine: &mut Engine, endpoint: EndpointId, flow: FlowId, news: News) -> Result<(), MoveError> {
        let now = engine.now();
        let Some(way) = self.ways.get_mut(&flow).filter(|way| !way.has_ended) else { return Ok(()) };
        let step = match news {
            News::Stream(result) => {
                way.opening -= 1;
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
            Step::Ask => engine.send(flow, &Frame::AskTunnel),
            Step::Open => return self.open_streams(engine, flow),
            Step::ToTunnel => {
                let (reason, _, changes) = way.state.view();
                way.is_open = false;
                let join = way.join.take();
                join.into_iter().for_each(|join| engine.command(endpoint, Command::Join(join)));
                engine.turn_to(flow, true);
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
                engine.turn_to(flow, false);
                self.news.push(PathNews::Warning(format!("{server}: data comes over UDP again")));
            }
            Step::Probe => return self.probe_udp(engine, flow),
            Step::Close => engine.drop_tunnel(flow),
            Step::GiveUp => self.news.push(PathNews::Lost(flow, "data cannot come over TCP streams")),
        }
        Ok(())
    }

    fn open_streams(&mut self, engine: &Engine, flow: FlowId) -> Result<(), MoveError> {
        let Some(way) = self.ways.get_mut(&flow) else { return Ok(()) };
        let (Some(control), Some(token)) = (way.control, way.token) else { return Ok(()) };
        let count = STREAMS_MAX - engine.tunnel_streams(flow);
        (way.opening, way.has_opened) = (count, false);
        for _ in 0..count {
            let server = way.server.clone();
            self.desk
                .work(flow, move |net| News::Stream(tunnel_stream::open(&server, control, net, token).map(Box::new)))?;
        }
        Ok(())
    }

    /// Finds out whether UDP passes, over a socket of its own: the way of the one before may be what is broken.
    fn probe_udp(&mut self, engine: &mut Engine, flow: FlowId) -> Result<(), MoveError> {
        let Some(way) = self.ways.get(&flow) else { return Ok(()) };
        let (server, peer) = (way.server.clone(), way.datagrams);
        let rtt = engine.control_rtt(flow).unwrap_or_default() * ECHO_RTTS;
        let patience = ECHO_PATIENCE + Duration::from_nanos(rtt.as_nanos());
        engine.send(flow, &Frame::TryDatagrams);
        // The server has to have read that first: it is half a round trip, and probes wait for no echo before.
        let delay = Duration::from_nanos(rtt.as_nanos() / ECHO_RTTS / 4);
        self.desk.work(flow, move |net| {
            std::thread::sleep(delay);
            let socket = EarlyPath::passes(net, peer, patience);
            log::debug!("{server}: UDP {}", if socket.is_some() { "passes" } else { "does not pass" });
            News::Probed(socket)
        })
    }
}
