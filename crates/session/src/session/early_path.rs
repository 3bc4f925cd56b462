//! The way of datagrams, probed while its session is still being agreed on: see WIRE.md 4.2. The server's end is
//! `engine::early_echoes`.
//!
//! So the flow's first request leaves when the list of files comes: 3 round trips after `connect` began, TCP's and
//! TLS's own included. With the list come the content of small data sets and the first bytes of others. Other data comes
//! one round trip later (`bench/latency`).

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use inhaul_transport::kit::wire::PathDatagram;
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope, PathSpec, kit};
use inhaul_udp::{Clock, Interest, Poller, Socket, checksum};

use crate::api::error::MoveError;
use crate::api::options::NetOptions;
use crate::system::process;
use crate::system::sockets::{self, Ends};

/// A path passes datagrams if it passes them so often in a row. The server echoes no more at a time.
const ROUNDS: usize = 2;
/// Packets of this size, or as large as the interface takes if that is less, are full-size: what every path carries.
const FULL_SIZE: u16 = 1280;

/// A client's socket, over which probes have left.
#[derive(Debug)]
pub struct EarlyPath {
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
    /// Probes the path to the peer. A flow can do without: what fails here is tried again when there is one.
    pub(crate) fn probe(options: &NetOptions, ends: Ends) -> Option<Self> {
        let peer = ends.peer;
        let try_it = || {
            let socket = sockets::connect(options, ends)?;
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

    /// A socket over which datagrams pass to the peer and back, if there is one: of a full-size packet's length, and time
    /// and again. The server has to be told first. Each echo is waited for as long as `patience`.
    pub fn passes(options: &NetOptions, ends: Ends, patience: Duration) -> Option<Socket> {
        let peer = ends.peer;
        let path = Self::probe(options, ends)?;
        for round in 0..ROUNDS {
            if round > 0 {
                for datagram in kit::early_probes(path.path, path.sealed, path.connection) {
                    let _ = sockets::send(&path.socket, peer, &[&datagram], None);
                }
            }
            if !path.is_echoed(Instant::now() + patience) {
                return None;
            }
        }
        Some(path.socket)
    }

    /// Whether a probe of a full-size packet is echoed in time.
    fn is_echoed(&self, until: Instant) -> bool {
        let least = usize::from(self.path.mtu.min(FULL_SIZE) - self.path.overhead) + ENVELOPE_LEN;
        let (clock, Ok(mut poller)) = (Clock::start(), Poller::new()) else { return false };
        if poller.add(&self.socket, 0, Interest::Read).is_err() {
            return false;
        }
        let (mut memory, mut arrivals, mut ready) = (vec![0; usize::from(u16::MAX)], Vec::new(), Vec::new());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.socket.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).is_err()
            {
                return false;
            }
            for arrival in arrivals.drain(..) {
                let message = &mut memory[..arrival.len];
                checksum::mask_each(message, arrival.segment);
                let is_echo = |datagram: &[u8]| {
                    let envelope = Envelope::parse(datagram).is_some_and(|e| e.connection == self.connection);
                    let path = datagram.get(ENVELOPE_LEN..).and_then(PathDatagram::parse);
                    envelope && matches!(path, Some(PathDatagram::Echo { .. })) && datagram.len() >= least
                };
                if message.chunks(arrival.segment.max(1)).any(is_echo) {
                    return true;
                }
            }
            let wait = inhaul_base::Span::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            if poller.sleep_until(clock, clock.now() + wait, &mut ready).is_err() {
                return false;
            }
        }
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
pub struct EarlyFlow {
    /// What packets cost on the way.
    pub path: PathSpec,
    /// What the echoes carry.
    pub connection: ConnectionId,
    left: Instant,
}

impl EarlyFlow {
    /// How long ago the probes left.
    pub fn age(&self) -> Duration {
        self.left.elapsed()
    }
}
