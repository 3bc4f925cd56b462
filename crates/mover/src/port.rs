//! A UDP socket of the engine, and the way of datagrams through it.

use std::collections::{BTreeMap, VecDeque};

use inhaul_base::Time;
use inhaul_transport::{Event, Expected, FlowId, Host, Place, Role, RxMessage, TxBatch};
use inhaul_udp::{Batch, BodySource, Receiver, SendError, Socket, Transmitter};

use crate::error::MoveError;

/// Datagrams of a receiver that may wait for a blocked socket; more are lost, as on a busy path.
const WAITING_MAX: usize = 1024;
/// Largest datagram that is received without receive offload: a jumbo frame on loopback.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A socket, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortId(pub(crate) u32);

/// A socket and what belongs to it.
pub(crate) struct Port {
    pub(crate) socket: Socket,
    pub(crate) receiver: Receiver,
    /// Sends the batches of a sender.
    transmitter: Transmitter,
    /// Sends the few small datagrams of a receiver. Apart, because a transmitter keeps its place in one batch.
    side_transmitter: Transmitter,
    /// The one flow whose datagrams come in here, on a connected socket.
    pub(crate) flow: Option<FlowId>,
    connected: bool,
    /// The network took no more.
    pub(crate) blocked: bool,
    /// The poller tells when it takes more.
    pub(crate) watched: bool,
    /// What a receiver has to send.
    outgoing: TxBatch,
}

/// Gives the messages to the endpoints, which say where bodies belong.
pub(crate) type Show<'s> = dyn FnMut(&[RxMessage<'_>], &mut Vec<Place>) + 's;

/// Where the bodies of datagrams go.
pub(crate) trait Sink {
    /// Receives one batch, shows it, and brings its bodies to their places. False when nothing has come.
    fn receive(
        &mut self,
        port: &mut Port,
        expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError>;
}

/// Where the bodies of datagrams come from.
pub(crate) trait Bodies: BodySource {
    /// Makes the bodies of the batch ready to be read; those that cannot be had are reported when they are read.
    fn prepare(&mut self, batch: &TxBatch);
}

impl Port {
    /// A port on `socket`; `connected` to the one peer whose datagrams it takes, or open to all.
    pub(crate) fn new(socket: Socket, connected: bool) -> Self {
        Self {
            receiver: Receiver::new(&socket, DATAGRAM_BYTES_MAX),
            transmitter: Transmitter::new(&socket),
            side_transmitter: Transmitter::new(&socket),
            socket,
            flow: None,
            connected,
            blocked: false,
            watched: false,
            outgoing: TxBatch::with_limit(WAITING_MAX),
        }
    }

    /// Receives one batch and shows it; `None` when nothing has come.
    pub(crate) fn receive(
        &mut self,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<Option<Batch<'_, 'static>>, MoveError> {
        let batch = self.receiver.receive(&self.socket).map_err(MoveError::system("cannot receive"))?;
        if batch.is_empty() {
            return Ok(None);
        }
        show(batch.messages(), places);
        Ok(Some(batch))
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Sends what a receiver had left when the network took no more.
    pub(crate) fn send_rest(&mut self) {
        // The datagrams of a receiver carry no data and may be lost.
        while !self.outgoing.is_empty() {
            match self.side_transmitter.transmit(&self.socket, &mut self.outgoing, &NoBodies) {
                Ok(true) | Err(_) => {}
                Ok(false) => {
                    self.blocked = true;
                    return;
                }
            }
        }
    }
}

/// The way out of an endpoint: its events, and its datagrams over the sockets of its flows.
pub(crate) struct Outlet<'e> {
    pub(crate) role: Role,
    pub(crate) ports: &'e mut BTreeMap<PortId, Port>,
    pub(crate) route: &'e dyn Fn(FlowId) -> Option<PortId>,
    pub(crate) bodies: &'e mut dyn Bodies,
    pub(crate) prepared: &'e mut bool,
    pub(crate) events: &'e mut VecDeque<Event>,
    pub(crate) failures: &'e mut Vec<SendError>,
    /// How many datagrams were handed to the network.
    pub(crate) sent: usize,
}

impl Host for Outlet<'_> {
    fn event(&mut self, _now: Time, event: Event) {
        self.events.push_back(event);
    }

    fn transmit(&mut self, _now: Time, batch: &mut TxBatch) -> bool {
        self.sent += batch.len();
        match self.role {
            Role::Sender => self.transmit_over_one(batch),
            Role::Receiver => self.transmit_by_route(batch),
        }
    }
}

impl Outlet<'_> {
    /// Everything leaves by the one socket: a sender's way.
    fn transmit_over_one(&mut self, batch: &mut TxBatch) -> bool {
        if !*self.prepared {
            self.bodies.prepare(batch);
            *self.prepared = true;
        }
        let Some(port) = self.ports.values_mut().next() else { return true };
        loop {
            match port.transmitter.transmit(&port.socket, batch, &*self.bodies) {
                Ok(true) => {
                    *self.prepared = false;
                    return true;
                }
                Ok(false) => {
                    port.blocked = true;
                    return false;
                }
                Err(error) => self.failures.push(error),
            }
        }
    }

    /// Each flow's datagrams leave by its own socket: a receiver's way. They are few and small.
    fn transmit_by_route(&mut self, batch: &mut TxBatch) -> bool {
        for transmit in batch.transmits() {
            let Some(port) = (self.route)(transmit.flow).and_then(|id| self.ports.get_mut(&id)) else { continue };
            for datagram in transmit.datagrams.iter().take(port.outgoing.room()) {
                port.outgoing.push(transmit.flow, transmit.to, batch.head(datagram), datagram.body, datagram.pad);
            }
        }
        batch.clear();
        for port in self.ports.values_mut().filter(|port| !port.blocked) {
            port.send_rest();
        }
        true
    }
}

/// No data to send: what a receiver has.
pub(crate) struct NoBodies;

impl BodySource for NoBodies {
    fn body<'a>(
        &'a self,
        _flow: FlowId,
        _range: inhaul_base::ByteRange,
        _out: &mut inhaul_udp::IoVecs<'a>,
    ) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

impl Bodies for NoBodies {
    fn prepare(&mut self, _batch: &TxBatch) {}
}

/// Bodies are dropped: what a sender does, to whom none come, and a bench from hot memory.
pub(crate) struct Discard;

impl Sink for Discard {
    fn receive(
        &mut self,
        port: &mut Port,
        _expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        Ok(port.receive(show, places)?.is_some())
    }
}
