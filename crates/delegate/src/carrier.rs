//! What a client that puts does for the server that fetches from it, where UDP does not pass: the server cannot dial,
//! so it asks. The client opens streams for a session's datagrams, and finds out whether UDP passes again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use inhaul_base::{Span, Time};
use inhaul_transport::FlowId;
use inhaul_udp::{Socket, Waker};

use inhaul_engine::engine::port::Port;
use inhaul_engine::engine::tunnel::STREAMS_MAX;
use inhaul_engine::engine::{Engine, probe};
use inhaul_serve::serving::Serving;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{Fallback, NetOptions};
use inhaul_session::api::source::Server;
use inhaul_session::session::control_stream::ControlStream;
use inhaul_session::session::frame::Frame;
use inhaul_session::session::tunnel_stream;
use inhaul_session::system::sockets::{self, Ends};
use inhaul_session::system::threads;

/// A server gets what it asks for this often: each time costs threads here.
const GAP: Span = Span::from_millis(200);
/// UDP passes if full-size datagrams come back so often in a row, each within ...
const ROUNDS: usize = 2;
/// ... this time, beside several round trips.
const ECHO_PATIENCE: Span = Span::from_millis(500);
const ECHO_RTTS: u64 = 3;
/// The UDP payload of a full-size packet, which every path carries (RFC 8200 5: 1280 bytes).
const FULL_SIZE: u16 = 1280 - 48;

/// See the module's description.
pub(super) struct Carrier {
    server: Server,
    /// The server's control port, and where it takes datagrams.
    control: SocketAddr,
    datagrams: SocketAddr,
    net: Arc<NetOptions>,
    asked: BTreeMap<FlowId, Asked>,
    sender: Sender<(FlowId, Brought)>,
    receiver: Receiver<(FlowId, Brought)>,
    waker: Waker,
}

/// What the server has asked for, for one flow.
#[derive(Debug)]
struct Asked {
    at: Time,
    /// Threads that are at it.
    under_way: usize,
}

/// What has come of it.
enum Brought {
    Stream(Result<Box<ControlStream>, MoveError>),
    /// A socket over which UDP passes, if it does.
    Socket(Option<Socket>),
}

impl Carrier {
    pub(super) fn new(
        server: Server,
        (control, datagrams): (SocketAddr, SocketAddr),
        net: &NetOptions,
        waker: Waker,
    ) -> Self {
        let (sender, receiver) = channel();
        let net = Arc::new(net.clone());
        Self { server, control, datagrams, net, asked: BTreeMap::new(), sender, receiver, waker }
    }

    /// The server wants streams for a flow.
    pub(super) fn on_ask(&mut self, engine: &Engine, flow: FlowId) {
        let Some(token) = engine.tunnel_token(flow) else { return };
        let count = STREAMS_MAX - engine.tunnel_streams(flow);
        if !self.begin(engine.now(), flow, count) {
            return;
        }
        for _ in 0..count {
            let (server, control) = (self.server.clone(), self.control);
            self.work(flow, move |net| {
                Brought::Stream(tunnel_stream::open(&server, control, net, token).map(Box::new))
            });
        }
    }

    /// The server wants to know whether UDP passes.
    pub(super) fn on_try(&mut self, engine: &Engine, flow: FlowId) {
        let Some(token) = engine.probe_token(flow) else { return };
        if !self.begin(engine.now(), flow, 1) {
            return;
        }
        let rtt = engine.control_rtt(flow).unwrap_or_default();
        let Some(local) = engine.control_local(flow) else { return };
        let (ends, patience) = (Ends { local, peer: self.datagrams }, ECHO_PATIENCE + rtt * ECHO_RTTS);
        self.work(flow, move |net| Brought::Socket(passing(net, ends, token, patience)));
    }

    /// Hands on what has come of it.
    pub(super) fn tend(&mut self, engine: &mut Engine, serving: &Serving) {
        while let Ok((flow, brought)) = self.receiver.try_recv() {
            if let Some(asked) = self.asked.get_mut(&flow) {
                asked.under_way -= 1;
            }
            match brought {
                Brought::Stream(Ok(stream)) => serving.carry(engine, flow, *stream),
                Brought::Stream(Err(error)) => log::info!("{}: no stream for datagrams: {error}", self.server),
                Brought::Socket(Some(socket)) => match engine.replace_port(flow, Port::new(socket, true)) {
                    Ok(()) => engine.send(flow, &Frame::TryDatagrams),
                    Err(error) => log::warn!("{}: its datagrams stay where they are: {error}", self.server),
                },
                Brought::Socket(None) => log::debug!("{}: UDP does not pass", self.server),
            }
        }
    }

    /// Whether the server gets what it asks for: this user may not have it, or it has just asked.
    fn begin(&mut self, now: Time, flow: FlowId, threads: usize) -> bool {
        if self.net.fallback == Fallback::Never {
            log::debug!("{}: it asks for streams, and --fallback is never", self.server);
            return false;
        }
        let is_free = |asked: &Asked| asked.under_way == 0 && now.since(asked.at) >= GAP;
        if !self.asked.get(&flow).is_none_or(is_free) {
            return false;
        }
        self.asked.insert(flow, Asked { at: now, under_way: threads });
        true
    }

    fn work(&mut self, flow: FlowId, work: impl FnOnce(&NetOptions) -> Brought + Send + 'static) {
        let (sender, waker, net) = (self.sender.clone(), self.waker.clone(), Arc::clone(&self.net));
        let run = move || {
            // The put may be over.
            let _ = sender.send((flow, work(&net)));
            waker.wake();
        };
        if let Err(error) = threads::spawn_helper("inhaul-ways", run) {
            // The server asks again if it still wants it.
            log::warn!("{}: {error}", self.server);
            if let Some(asked) = self.asked.get_mut(&flow) {
                asked.under_way -= 1;
            }
        }
    }
}

/// A socket of its own over which datagrams pass to the server and back, time and again, if there is one.
fn passing(net: &NetOptions, ends: Ends, token: u64, patience: Span) -> Option<Socket> {
    let socket = sockets::connect(net, ends).ok()?;
    let echoed = |_| probe::knock(&socket, ends.peer, token, patience, FULL_SIZE).unwrap_or(false);
    (0..ROUNDS).all(echoed).then_some(socket)
}

/// How long a client that puts waits until UDP shows that it passes, where streams can be used if it does not.
pub(super) fn introduction_patience(rtt: Span) -> Span {
    /// Two probes leave in that time.
    const LEAST: Span = Span::from_millis(400);
    LEAST.max(rtt * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_udp::Poller;

    fn carrier(fallback: Fallback) -> Carrier {
        let here = SocketAddr::from(([127, 0, 0, 1], 1));
        let waker = Poller::new().unwrap().waker(0).unwrap();
        Carrier::new(Server::new("a", 1), (here, here), &NetOptions { fallback, ..NetOptions::default() }, waker)
    }

    #[test]
    fn a_server_gets_what_it_asks_for_once_at_a_time_and_not_too_often() {
        let mut carrier = carrier(Fallback::Auto);
        let (flow, other) = (FlowId(1), FlowId(2));
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        assert!(carrier.begin(at(0), flow, 4) && carrier.begin(at(0), other, 1));
        assert!(!carrier.begin(at(5000), flow, 4), "the threads of the time before are at it");
        carrier.asked.get_mut(&flow).unwrap().under_way = 0;
        assert!(carrier.begin(at(5000), flow, 4));
        carrier.asked.get_mut(&flow).unwrap().under_way = 0;
        assert!(!carrier.begin(at(5100), flow, 4));
        assert!(carrier.begin(at(5200), flow, 4));
    }

    #[test]
    fn who_has_chosen_udp_brings_no_streams() {
        assert!(!carrier(Fallback::Never).begin(Time::ZERO, FlowId(1), 4));
    }

    #[test]
    fn an_introduction_takes_two_probes_or_two_round_trips() {
        assert_eq!(introduction_patience(Span::from_millis(10)), Span::from_millis(400));
        assert_eq!(introduction_patience(Span::from_millis(300)), Span::from_millis(600));
    }
}
