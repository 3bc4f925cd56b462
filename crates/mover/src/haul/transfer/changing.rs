//! What is done about mirrors' ways when [`FallbackState`](super::fallback::FallbackState) says so: streams are opened,
//! and UDP is probed, on threads beside the transfer.

use std::time::Duration;

use inhaul_base::Span;
use inhaul_transport::{Command, FlowId, JoinFlow};

use super::Haul;
use super::fallback::{Facts, Reason, Step};
use super::mirror::Mirror;
use super::ways::News;
use crate::api::error::MoveError;
use crate::api::options::Fallback;
use crate::api::report::SourceStatus;
use crate::api::source::Server;
use crate::engine::Engine;
use crate::engine::port::Port;
use crate::engine::tunnel::STREAMS_MAX;
use crate::session::early_path::EarlyPath;
use crate::session::frame::Frame;
use crate::session::tunnel_stream;

/// How often it is looked whether datagrams come.
const LOOK: Span = Span::from_millis(20);
/// How long an echo is waited for, beside several round trips.
const ECHO_PATIENCE: Duration = Duration::from_millis(500);
const ECHO_RTTS: u64 = 3;

impl Haul {
    /// Begins a mirror's flow; once there are streams, where nothing else is to carry its data.
    pub(super) fn begin_mirror(&mut self, engine: &mut Engine, join: JoinFlow) {
        let Some(mirror) = self.mirrors.get_mut(&join.flow) else { return };
        let ways = &mut mirror.ways;
        ways.has_begun = true;
        if ways.state.mode() == Fallback::Always {
            ways.join = Some(join);
        } else {
            engine.command(self.endpoint, Command::Join(join));
        }
    }

    /// A path is open.
    pub(super) fn note_open(&mut self, flow: FlowId) {
        if let Some(mirror) = self.mirrors.get_mut(&flow) {
            mirror.ways.is_open = true;
            mirror.ways.state.on_opened();
        }
    }

    /// Looks after all mirrors' ways.
    pub(super) fn tend_ways(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        while let Some((flow, news)) = self.news.next() {
            self.take_news(engine, flow, news)?;
        }
        let now = engine.now();
        if now < self.news.next_look || self.disconnecting.is_some() {
            return Ok(());
        }
        self.news.next_look = now + LOOK;
        let mut steps = Vec::new();
        let running = |mirror: &Mirror| mirror.status == SourceStatus::Running && mirror.ended.is_none();
        for (&flow, mirror) in self.mirrors.iter_mut().filter(|(_, mirror)| mirror.ways.has_begun && running(mirror)) {
            let stats = engine.flow_stats(flow).unwrap_or_default();
            let waits = !mirror.ways.is_open || stats.outstanding_bytes > 0;
            let rtt = engine.control_rtt(flow).unwrap_or_default();
            let facts = Facts {
                now,
                waits,
                heard: engine.heard(flow).unwrap_or(now),
                rtt: if mirror.ways.is_open { rtt.max(stats.rtt) } else { rtt },
                received_bytes: stats.placed_bytes,
                received_packets: stats.received_packets,
                lost_packets: stats.lost_packets,
                streams: engine.tunnel_streams(flow),
            };
            steps.extend(mirror.ways.state.look(&facts).map(|step| (flow, step)));
        }
        steps.into_iter().try_for_each(|(flow, step)| self.take_step(engine, flow, step))
    }

    /// The server lets streams carry a mirror's data.
    pub(super) fn on_tunnel_grant(&mut self, engine: &mut Engine, flow: FlowId, token: u128) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(()) };
        mirror.ways.token = Some(token);
        match mirror.ways.state.on_grant() {
            Some(step) => self.take_step(engine, flow, step),
            None => Ok(()),
        }
    }

    fn take_news(&mut self, engine: &mut Engine, flow: FlowId, news: News) -> Result<(), MoveError> {
        let now = engine.now();
        let Some(mirror) = self.mirrors.get_mut(&flow).filter(|mirror| mirror.status == SourceStatus::Running) else {
            return Ok(());
        };
        let ways = &mut mirror.ways;
        let step = match news {
            News::Stream(result) => {
                ways.opening -= 1;
                let is_first = match result {
                    Ok(stream) => engine.attach_stream(flow, ways.datagrams, *stream)? && !ways.has_opened,
                    Err(error) => {
                        log::info!("{}: no stream for datagrams: {error}", mirror.server);
                        false
                    }
                };
                ways.has_opened |= is_first;
                let is_last = ways.opening == 0 && !ways.has_opened;
                (is_first || is_last).then(|| ways.state.on_streams(now, is_first)).flatten()
            }
            News::Probed(socket) => {
                let passes = socket.is_some();
                if let Some(socket) = socket {
                    engine.replace_port(flow, Port::new(socket, true))?;
                }
                ways.state.on_probed(now, passes)
            }
        };
        match step {
            Some(step) => self.take_step(engine, flow, step),
            None => Ok(()),
        }
    }

    fn take_step(&mut self, engine: &mut Engine, flow: FlowId, step: Step) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(()) };
        let (server, ways) = (mirror.server.clone(), &mut mirror.ways);
        match step {
            Step::Ask => engine.send(flow, &Frame::AskTunnel),
            Step::Open => return self.open_streams(engine, flow),
            Step::ToTunnel => {
                let (reason, _, changes) = ways.state.view();
                ways.is_open = false;
                let join = ways.join.take();
                join.into_iter().for_each(|join| engine.command(self.endpoint, Command::Join(join)));
                engine.turn_to(flow, true);
                // A stream less is no change.
                if let Some(reason) = reason.filter(|_| changes > mirror.told_changes) {
                    mirror.told_changes = changes;
                    log::info!("{server}: over TCP from now on: {}", reason.text());
                    if reason != Reason::Chosen {
                        self.warn(format!("{server}: data comes over TCP from now on: {}", reason.text()));
                    }
                }
            }
            Step::ToUdp => {
                ways.is_open = false;
                mirror.told_changes = ways.state.view().2;
                engine.turn_to(flow, false);
                self.warn(format!("{server}: data comes over UDP again"));
            }
            Step::Probe => return self.probe_udp(engine, flow, server),
            Step::Close => engine.drop_tunnel(flow),
            Step::GiveUp => return self.lose(engine, flow, "data cannot come over TCP streams"),
        }
        Ok(())
    }

    fn open_streams(&mut self, engine: &Engine, flow: FlowId) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(()) };
        let (Some(control), Some(token)) = (mirror.ways.control, mirror.ways.token) else { return Ok(()) };
        let count = STREAMS_MAX - engine.tunnel_streams(flow);
        (mirror.ways.opening, mirror.ways.has_opened) = (count, false);
        for _ in 0..count {
            let server = mirror.server.clone();
            self.news
                .work(flow, move |net| News::Stream(tunnel_stream::open(&server, control, net, token).map(Box::new)))?;
        }
        Ok(())
    }

    /// Finds out whether UDP passes, over a socket of its own: the way of the one before may be what is broken.
    fn probe_udp(&mut self, engine: &mut Engine, flow: FlowId, server: Server) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get(&flow) else { return Ok(()) };
        let peer = mirror.ways.datagrams;
        let rtt = engine.control_rtt(flow).unwrap_or_default() * ECHO_RTTS;
        let patience = ECHO_PATIENCE + Duration::from_nanos(rtt.as_nanos());
        engine.send(flow, &Frame::TryDatagrams);
        // The server has to have read that first: it is half a round trip, and probes wait for no echo before.
        let delay = Duration::from_nanos(rtt.as_nanos() / ECHO_RTTS / 4);
        self.news.work(flow, move |net| {
            std::thread::sleep(delay);
            let socket = EarlyPath::passes(net, peer, patience);
            log::debug!("{server}: UDP {}", if socket.is_some() { "passes" } else { "does not pass" });
            News::Probed(socket)
        })
    }
}
