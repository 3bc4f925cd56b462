//! How a mirror is reached, over UDP or streams, and what threads beside the engine tell of that.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use inhaul_base::Time;
use inhaul_transport::{FlowId, JoinFlow};
use inhaul_udp::{Socket, Waker};

use super::callers::{Callers, Expectation};
use super::fallback::FallbackState;
use crate::engine::probe::Admission;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{Fallback, NetOptions};
use inhaul_session::api::report::PathReport;
use inhaul_session::api::source::Server;
use inhaul_session::session::control_stream::ControlStream;
use inhaul_session::system::threads;

/// How a mirror is reached.
pub struct Way {
    pub(super) server: Server,
    pub(super) state: FallbackState,
    /// Who opens streams; `None`: nobody can.
    pub(super) opener: Option<StreamOpener>,
    /// Where its datagrams come from. Without a port: UDP has never passed.
    pub(super) datagrams: SocketAddr,
    /// What streams show.
    pub(super) token: Option<u128>,
    /// What the peer was asked to bring, until when.
    pub(super) asked: Asked,
    /// What its flow begins with, once there are streams.
    pub(super) join: Option<JoinFlow>,
    /// Its flow has ended.
    pub(super) has_ended: bool,
    /// Its flow has begun.
    pub(super) has_begun: bool,
    /// The path by which it goes now is open.
    pub(super) is_open: bool,
    /// Streams that are being opened, and whether one was.
    pub(super) opening: usize,
    pub(super) has_opened: bool,
    /// How many changes of way the user has been told of.
    pub(super) told_changes: u32,
}

/// Who opens the streams that are to carry a flow's datagrams.
pub(super) enum StreamOpener {
    /// This host, at the server's control port.
    Here(SocketAddr),
    /// The peer, which has dialled this host.
    Peer(Callers),
}

/// What a peer was asked to bring that has dialled this host.
#[derive(Default)]
pub(super) struct Asked {
    /// Streams are awaited.
    pub(super) streams: Option<(Time, Expectation)>,
    /// Probes are.
    pub(super) probes: Option<(Time, Admission)>,
}

impl Way {
    /// Of a flow that begins. `control`: the server's control port, unless it cannot be dialled.
    pub(crate) fn new(
        now: Time,
        net: &NetOptions,
        control: Option<SocketAddr>,
        datagrams: SocketAddr,
        server: Server,
    ) -> Self {
        let mode = match control {
            None => Fallback::Never,
            // No proxy passes UDP.
            Some(_) if net.trust.proxy_for(&server).is_some() => Fallback::Always,
            Some(_) => net.fallback,
        };
        Self::with(now, mode, control.map(StreamOpener::Here), datagrams, server)
    }

    /// Of a flow that begins, from a peer that has dialled this host.
    pub(crate) fn from_caller(
        now: Time,
        net: &NetOptions,
        callers: Callers,
        datagrams: SocketAddr,
        server: Server,
    ) -> Self {
        Self::with(now, net.fallback, Some(StreamOpener::Peer(callers)), datagrams, server)
    }

    fn with(now: Time, mode: Fallback, opener: Option<StreamOpener>, datagrams: SocketAddr, server: Server) -> Self {
        Self {
            server,
            told_changes: 0,
            state: FallbackState::new(now, mode),
            opener,
            datagrams,
            token: None,
            asked: Asked::default(),
            join: None,
            has_ended: false,
            has_begun: false,
            is_open: false,
            opening: 0,
            has_opened: false,
        }
    }

    /// For the user.
    pub(super) fn report(&self, now: Time) -> PathReport {
        let (reason, since, changes) = self.state.view();
        PathReport {
            over: if reason.is_some() { "tcp" } else { "udp" }.to_owned(),
            why: reason.map(|reason| reason.text().to_owned()),
            since_seconds: now.since(since).as_secs_f64(),
            changes,
        }
    }
}

/// What threads beside the engine have come to.
pub(super) enum News {
    Stream(Result<Box<ControlStream>, MoveError>),
    /// A socket over which UDP passes, if it does.
    Probed(Option<Socket>),
}

/// Where they tell it.
pub(super) struct NewsDesk {
    sender: Sender<(FlowId, News)>,
    receiver: Receiver<(FlowId, News)>,
    waker: Waker,
    net: Arc<NetOptions>,
    /// When it is looked next how mirrors do.
    pub(super) next_look: Time,
}

impl NewsDesk {
    pub(super) fn new(waker: Waker, net: &NetOptions) -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver, waker, net: Arc::new(net.clone()), next_look: Time::ZERO }
    }

    /// What has been told next.
    pub(super) fn next(&self) -> Option<(FlowId, News)> {
        self.receiver.try_recv().ok()
    }

    /// What has a stream told of that has come for a flow from elsewhere.
    pub(super) fn taker(&self, flow: FlowId) -> impl Fn(ControlStream) + Send + 'static {
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        move |stream| {
            // The transfer may be over.
            let _ = sender.send((flow, News::Stream(Ok(Box::new(stream)))));
            waker.wake();
        }
    }

    /// What the user has chosen.
    pub(super) fn net(&self) -> &NetOptions {
        &self.net
    }

    /// Has something done on a thread of its own. If none can be started, the news is that it has `failed`.
    pub(super) fn work(
        &self,
        flow: FlowId,
        failed: impl FnOnce(MoveError) -> News,
        work: impl FnOnce(&NetOptions) -> News + Send + 'static,
    ) {
        let (sender, waker, net) = (self.sender.clone(), self.waker.clone(), Arc::clone(&self.net));
        let run = move || {
            // The transfer may be over.
            let _ = sender.send((flow, work(&net)));
            waker.wake();
        };
        if let Err(error) = threads::spawn_helper("inhaul-ways", run) {
            let _ = self.sender.send((flow, failed(error)));
        }
    }
}
