//! How a mirror is reached, over UDP or streams, and what threads beside the engine tell of that.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use inhaul_base::Time;
use inhaul_transport::{FlowId, JoinFlow};
use inhaul_udp::{Socket, Waker};

use super::fallback::FallbackState;
use crate::api::error::MoveError;
use crate::api::options::{Fallback, NetOptions};
use crate::api::report::PathReport;
use crate::api::source::Server;
use crate::session::control_stream::ControlStream;
use crate::system::threads;

/// How a mirror is reached.
pub(crate) struct Way {
    pub(super) server: Server,
    pub(super) state: FallbackState,
    /// The server's control port; `None` if it cannot be dialled, because it has dialled us.
    pub(super) control: Option<SocketAddr>,
    /// Where its datagrams come from.
    pub(super) datagrams: SocketAddr,
    pub(super) token: Option<u128>,
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
        Self {
            server,
            told_changes: 0,
            state: FallbackState::new(now, mode),
            control,
            datagrams,
            token: None,
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

    /// Has something done on a thread of its own.
    pub(super) fn work(
        &self,
        flow: FlowId,
        work: impl FnOnce(&NetOptions) -> News + Send + 'static,
    ) -> Result<(), MoveError> {
        let (sender, waker, net) = (self.sender.clone(), self.waker.clone(), Arc::clone(&self.net));
        let run = move || {
            // The transfer may be over.
            let _ = sender.send((flow, work(&net)));
            waker.wake();
        };
        threads::spawn_helper("inhaul-ways", run).map(drop)
    }
}
