//! A UDP socket of the engine, and the way of datagrams through it.
//!
//! After `Engine::branch_off` a batch is spread over the connected sockets of its flows.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSliceMut;
use std::net::SocketAddr;

use inhaul_base::{Span, Time};
use inhaul_transport::kit::Connections;
use inhaul_transport::{Event, Expected, FlowId, Host, Place, Role, RxMessage, STREAM_AHEAD_MAX, TxBatch};
use inhaul_udp::seal::Seals;
use inhaul_udp::{Batch, BodySource, DatagramSocket, Receiver, SendError, Sent, Standing, Transmitter};

use crate::engine::channel::Channel;
use crate::engine::ids::{EndpointId, PortId};
use crate::engine::waiting::Waiting;
use inhaul_session::api::error::MoveError;

/// Datagrams of a receiver that may wait for a blocked socket; more are lost, as on a busy path.
const WAITING_MAX: usize = 1024;
/// Datagrams that may wait for a tunnel, as ranges: all that a receiver asks for ahead, in packets of 1280 bytes or more.
/// What is dropped here is missed only after seconds. 8 MiB of memory, where streams stand still that have brought much.
const WAITING_FOR_TUNNEL_MAX: usize = STREAM_AHEAD_MAX as usize / 1280;
/// A system that has no memory for datagrams is asked again after so long.
pub(crate) const BLOCKED: Span = Span::from_millis(1);
/// The port number of addresses that stand for tunnels: no datagram can come from it, or go there, over UDP.
pub const NO_PORT: u16 = 0;
/// Largest datagram that is received without receive offload: a jumbo frame on loopback.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A socket and what belongs to it.
pub struct Port<S = Channel> {
    pub socket: S,
    pub receiver: Receiver,
    /// Sends the batches of a sender.
    transmitter: Transmitter,
    /// Sends what waits in `outgoing`. Apart, because a transmitter keeps its place in one batch.
    rest_transmitter: Transmitter,
    /// The one flow whose datagrams come in here, on a connected socket.
    pub flow: Option<FlowId>,
    /// The endpoint of a foreign protocol that has this port for itself: its datagrams have no envelopes.
    pub(crate) foreign: Option<EndpointId>,
    connected: bool,
    /// The network took no more.
    pub(crate) blocked: Option<Blocked>,
    /// The poller tells when the socket is writable.
    pub(crate) watched: bool,
    /// What is to leave over this socket, out of batches that are for several.
    outgoing: Waiting,
    /// It is a tunnel, whose flow waits for it alone.
    is_tunnel: bool,
}

/// Until when the network takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The socket's buffer is full: until it is writable.
    Full,
    /// The system had no memory: until then. That the socket is writable says nothing, so it is not waited for.
    Until(Time),
}

impl Blocked {
    /// What follows from how far a transmitter has got at `now`.
    fn by(sent: Sent, now: Time) -> Option<Self> {
        match sent {
            Sent::All => None,
            Sent::Full => Some(Self::Full),
            Sent::NoMemory => Some(Self::Until(now + BLOCKED)),
        }
    }
}

/// Gives the messages to the endpoints, which say where bodies belong.
pub type Show<'s> = dyn FnMut(&[RxMessage<'_>], &mut Vec<Place>) + 's;

/// Where the bodies of datagrams go.
pub trait Sink<S = Channel> {
    /// Receives one batch, opened with `seals`, shows it, and brings its bodies to their places. False when nothing has
    /// come.
    fn receive(
        &mut self,
        port: &mut Port<S>,
        seals: &mut Seals,
        expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError>;

    /// Brings bytes of a flow's object to their place that did not come in a datagram.
    fn deliver(&mut self, _flow: FlowId, _offset: u64, _bytes: &[u8]) -> Result<(), MoveError> {
        Ok(())
    }

    /// What waits to be written beside this thread; `None` where bodies go nowhere that can be slow.
    fn backlog(&self) -> Option<Backlog> {
        None
    }
}

/// Bodies on their way to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes that wait.
    pub waiting: u64,
    /// Bytes that may.
    pub room: u64,
    /// Bytes that were written this way since the start.
    pub written: u64,
}

impl<S: DatagramSocket> Port<S> {
    /// A port on `socket`; `connected` to the one peer whose datagrams it takes, or open to all.
    pub fn new(socket: impl Into<S>, connected: bool) -> Self {
        Self::with_socket(socket.into(), connected)
    }

    /// The port of a tunnel.
    pub(crate) fn tunnel(tunnel: impl Into<S>) -> Self {
        let outgoing = Waiting::new(WAITING_FOR_TUNNEL_MAX);
        Self { outgoing, is_tunnel: true, ..Self::with_socket(tunnel.into(), true) }
    }

    fn with_socket(socket: S, connected: bool) -> Self {
        Self {
            receiver: Receiver::new(&socket, DATAGRAM_BYTES_MAX),
            transmitter: Transmitter::new(&socket),
            rest_transmitter: Transmitter::new(&socket),
            socket,
            flow: None,
            foreign: None,
            connected,
            blocked: None,
            watched: false,
            outgoing: Waiting::new(WAITING_MAX),
            is_tunnel: false,
        }
    }

    /// Receives one batch and shows it; `None` when nothing has come.
    pub fn receive(
        &mut self,
        seals: &mut Seals,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<Option<Batch<'_, 'static>>, MoveError> {
        let batch = self.receiver.receive(&self.socket, seals).map_err(MoveError::system("cannot receive"))?;
        if batch.is_empty() {
            return Ok(None);
        }
        show(batch.messages(), places);
        Ok(Some(batch))
    }

    /// The port of a foreign protocol, which has it for itself.
    #[cfg(test)]
    pub(crate) fn for_foreign(socket: S, endpoint: EndpointId) -> Self {
        let mut port = Self::new(socket, false);
        port.receiver = Receiver::foreign(&port.socket, DATAGRAM_BYTES_MAX);
        port.foreign = Some(endpoint);
        port
    }

    /// Has the socket hand on what it keeps, after the poller has reported it. Says whether what waits for it may leave
    /// now; `None` if nothing comes or goes over it any more.
    pub(crate) fn hand_on(&self, is_writable: bool) -> Option<bool> {
        let takes_more = match self.socket.hand_on() {
            None => is_writable,
            Some(Standing::Open) => true,
            Some(Standing::Full) => false,
            Some(Standing::Closed) => return None,
        };
        Some(takes_more && self.blocked == Some(Blocked::Full))
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// When the network is to be asked again, if nothing else tells that it takes more.
    pub(crate) fn retries_at(&self) -> Option<Time> {
        match self.blocked {
            Some(Blocked::Until(time)) => Some(time),
            Some(Blocked::Full) | None => None,
        }
    }

    /// Sends what was left when the network took no more.
    pub(crate) fn send_rest(
        &mut self,
        now: Time,
        connections: &mut Connections,
        seals: &mut Seals,
        bodies: &mut dyn BodySource,
        failures: &mut Vec<SendError>,
    ) {
        while self.blocked.is_none()
            && let Some(first) = self.outgoing.first()
        {
            match self.rest_transmitter.transmit(&self.socket, first, connections, seals, bodies) {
                Ok(Sent::All) => self.outgoing.pop(),
                Ok(sent) => self.blocked = Blocked::by(sent, now),
                Err(error) => failures.push(error),
            }
        }
    }
}

/// The way out of an endpoint: its events, and its datagrams over the sockets of its flows.
pub(crate) struct Outlet<'e, S> {
    pub(crate) role: Role,
    pub(crate) ports: &'e mut BTreeMap<PortId, Port<S>>,
    /// By which port what goes from a flow to an address leaves.
    pub(crate) route: &'e dyn Fn(FlowId, SocketAddr) -> Option<PortId>,
    pub(crate) connections: &'e mut Connections,
    pub(crate) seals: &'e mut Seals,
    pub(crate) bodies: &'e mut dyn BodySource,
    pub(crate) events: &'e mut VecDeque<Event>,
    pub(crate) failures: &'e mut Vec<SendError>,
    /// How many datagrams were handed to the network.
    pub(crate) sent: usize,
}

impl<S: DatagramSocket> Host for Outlet<'_, S> {
    fn event(&mut self, _now: Time, event: Event) {
        self.events.push_back(event);
    }

    fn transmit(&mut self, now: Time, batch: &mut TxBatch) -> bool {
        let count = batch.len();
        let is_sent = match self.role {
            Role::Sender => self.transmit_bodies(now, batch),
            Role::Receiver => {
                self.spread(now, batch);
                true
            }
        };
        // What a full network refuses time and again is no sign of how much is going on.
        self.sent += if is_sent { count } else { 0 };
        is_sent
    }
}

impl<S: DatagramSocket> Outlet<'_, S> {
    /// A sender's way: all flows share a socket, until a server gives it up for its successor; then each has its own.
    /// One that has a tunnel waits for that alone, and no other flow does.
    fn transmit_bodies(&mut self, now: Time, batch: &mut TxBatch) -> bool {
        let (route, ports) = (self.route, &self.ports);
        let routes = || batch.transmits().filter_map(|transmit| route(transmit.flow, transmit.route.to));
        let is_full = |port: &Port<S>| !port.is_tunnel && port.blocked.is_some() && !port.outgoing.is_empty();
        if routes().any(|id| ports.get(&id).is_some_and(is_full)) {
            return false;
        }
        let first = routes().next();
        let is_alike = routes().all(|id| Some(id) == first);
        let by_tunnel = batch.transmits().any(|transmit| transmit.route.to.port() == NO_PORT)
            || first.and_then(|id| ports.get(&id)).is_some_and(|port| port.is_tunnel);
        if is_alike && !by_tunnel {
            // What is left of flows that have ended leaves with the others.
            let id = first.or_else(|| ports.iter().find(|(_, port)| !port.is_tunnel).map(|(&id, _)| id));
            return self.transmit_over(now, id, batch);
        }
        // One of them may have sent a part of it: that part comes twice.
        self.ports.values_mut().for_each(|port| port.transmitter.restart());
        self.spread(now, batch);
        true
    }

    /// Everything leaves by one socket.
    fn transmit_over(&mut self, now: Time, id: Option<PortId>, batch: &mut TxBatch) -> bool {
        let Some(port) = id.and_then(|id| self.ports.get_mut(&id)) else {
            batch.clear();
            return true;
        };
        if port.retries_at().is_some() {
            return false;
        }
        loop {
            match port.transmitter.transmit(&port.socket, batch, self.connections, self.seals, self.bodies) {
                Ok(Sent::All) => return true,
                Ok(sent) => {
                    port.blocked = Blocked::by(sent, now);
                    return false;
                }
                Err(error) => self.failures.push(error),
            }
        }
    }

    /// Each flow's datagrams leave by its own socket.
    fn spread(&mut self, now: Time, batch: &mut TxBatch) {
        for transmit in batch.transmits() {
            let id = (self.route)(transmit.flow, transmit.route.to);
            let Some(port) = id.and_then(|id| self.ports.get_mut(&id)) else { continue };
            port.outgoing.push(batch, &transmit);
        }
        batch.clear();
        for port in self.ports.values_mut() {
            port.send_rest(now, self.connections, self.seals, self.bodies, self.failures);
        }
    }
}

/// No data to send: what a receiver has.
pub struct NoBodies;

impl BodySource for NoBodies {
    fn read(&mut self, _flow: FlowId, _offset: u64, _bodies: &mut [IoSliceMut<'_>]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// Bodies are dropped: what a sender does, to whom none come, and a bench from hot memory.
pub struct Discard;

impl<S: DatagramSocket> Sink<S> for Discard {
    fn receive(
        &mut self,
        port: &mut Port<S>,
        seals: &mut Seals,
        _expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        Ok(port.receive(seals, show, places)?.is_some())
    }
}
