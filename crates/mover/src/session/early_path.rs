//! The way of datagrams, probed while its session is still being agreed on: see WIRE.md 4.2. The server's end is
//! `engine::early_echoes`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use inhaul_transport::{ConnectionId, PathSpec, kit};
use inhaul_udp::Socket;

use crate::api::error::MoveError;
use crate::api::options::NetOptions;
use crate::system::{process, sockets};

/// A client's socket, over which probes have left.
#[derive(Debug)]
pub(crate) struct EarlyPath {
    socket: Socket,
    peer: SocketAddr,
    /// What packets cost on the way.
    pub(crate) path: PathSpec,
    /// What the echoes carry.
    pub(crate) connection: ConnectionId,
    /// Whether they say how long packets of a sealed flow can be, or of one in the clear.
    sealed: bool,
    left: Instant,
}

impl EarlyPath {
    /// Probes the path to `peer`. A flow can do without: what fails here is tried again when there is one.
    pub(crate) fn probe(options: &NetOptions, peer: SocketAddr) -> Option<Self> {
        let try_it = || {
            let socket = sockets::connect(options, peer)?;
            let sealed = !options.trust.plaintext;
            let (path, connection) = (sockets::path_toward(options, peer), ConnectionId(process::random_u32()?));
            // Before the first leaves: an echo over the loopback device is there when the call returns.
            let left = Instant::now();
            for datagram in kit::early_probes(path, sealed, connection) {
                // One that the interface does not take is an answer, too: it is not echoed.
                let _ = sockets::send(&socket, peer, &[&datagram], None);
            }
            Ok::<_, MoveError>(Self { socket, peer, path, connection, sealed, left })
        };
        try_it().inspect_err(|error| log::debug!("{peer}: not probed early: {error}")).ok()
    }

    /// The socket, if it reaches `peer`; and what the probes mean for a flow that is sealed, or not.
    pub(crate) fn into_socket(self, peer: SocketAddr, sealed: bool) -> Option<(Socket, Option<EarlyFlow>)> {
        let Self { socket, path, connection, left, .. } = self;
        let flow = (self.sealed == sealed).then_some(EarlyFlow { path, connection, left });
        (self.peer == peer).then_some((socket, flow))
    }
}

/// What a flow needs to know of its early probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlyFlow {
    /// What packets cost on the way.
    pub(crate) path: PathSpec,
    /// What the echoes carry.
    pub(crate) connection: ConnectionId,
    left: Instant,
}

impl EarlyFlow {
    /// How long ago the probes left.
    pub(crate) fn age(&self) -> Duration {
        self.left.elapsed()
    }
}
