//! Transfers: a flow between two endpoints, its control stream, and its result.

use std::collections::VecDeque;

use inhaul_base::Time;
use inhaul_transport::{ClientRate, FlowError, FlowLimits, FlowStats, ObjectId};

use crate::agenda::ComponentId;
use crate::control::{Item, Stream};
use crate::ids::{EndpointId, NodeId, TransferId};
use crate::packet::Packet;
use crate::recorder::Sample;

/// One flow: a sender serves an object to a receiver.
///
/// At `start` the control stream stands, the sender is offered the flow and the receiver joins it. Several transfers
/// of one receiver and object are mirrors: the receiver fetches the object once, from all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Its name, for people.
    pub name: String,
    /// The endpoint that has the object.
    pub sender: EndpointId,
    /// The endpoint that wants it.
    pub receiver: EndpointId,
    /// The object, by the receiver's name for it.
    pub object: ObjectId,
    /// Size of the object, in bytes.
    pub size: u64,
    /// When it begins.
    pub start: Time,
    /// When both ends are disconnected; `None`: it ends on its own.
    pub stop: Option<Time>,
    /// Whether the receiver leaves when it has the whole object, like a receiver that has verified it; otherwise both
    /// ends keep the flow, and parts of the object may be fetched again.
    pub leaves: bool,
    /// Largest IP packet of the path, in bytes; both ends are told.
    pub mtu: u16,
    /// Limits that the receiver's user sets.
    pub limits: FlowLimits,
}

/// A flow that has ended badly.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// When.
    pub at: Time,
    /// Which one.
    pub transfer: TransferId,
    /// The endpoint that said so.
    pub endpoint: EndpointId,
    /// Why.
    pub error: FlowError,
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Running,
    Ended,
}

/// The control stream: one direction each.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) to_receiver: Stream,
    pub(crate) to_sender: Stream,
}

impl Streams {
    pub(crate) fn direction(&mut self, to_receiver: bool) -> &mut Stream {
        if to_receiver { &mut self.to_receiver } else { &mut self.to_sender }
    }

    /// When the next retransmission timer goes off.
    pub(crate) fn due(&self) -> Option<Time> {
        self.to_receiver.due().into_iter().chain(self.to_sender.due()).min()
    }
}

/// A reliable stream that carries datagrams, in both directions.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// Whether datagrams take it now.
    pub(crate) on: bool,
    pub(crate) streams: Streams,
    /// The datagrams in each direction that have not come out yet: to the sender, to the receiver.
    pub(crate) datagrams: [VecDeque<Packet>; 2],
}

impl Tunnel {
    /// A program waits while this many bytes are unacknowledged.
    const BACKLOG_MAX: u64 = 256 << 10;

    pub(crate) fn new(stream: Stream) -> Self {
        let streams = Streams { to_receiver: stream.clone(), to_sender: stream };
        Self { on: false, streams, datagrams: Default::default() }
    }

    /// Takes a datagram.
    pub(crate) fn write(&mut self, to_receiver: bool, packet: Packet) {
        self.streams.direction(to_receiver).write(Item::Datagram(packet.wire_bytes));
        self.datagrams[usize::from(to_receiver)].push_back(packet);
    }

    /// Whether it takes no more for now.
    pub(crate) fn is_full(&mut self, to_receiver: bool) -> bool {
        self.on && self.streams.direction(to_receiver).backlog() >= Self::BACKLOG_MAX
    }

    fn memory_bytes(&self) -> usize {
        let packets: usize = self.datagrams.iter().map(VecDeque::capacity).sum();
        size_of::<Self>()
            + self.streams.to_receiver.memory_bytes()
            + self.streams.to_sender.memory_bytes()
            + packets * size_of::<Packet>()
    }
}

/// A transfer while it runs, and its record afterwards.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) transfer: Transfer,
    /// Index of its object in the ledger.
    pub(crate) object: u32,
    pub(crate) phase: Phase,
    pub(crate) component: ComponentId,
    /// Between which nodes the control stream runs: at the sender, at the receiver.
    pub(crate) control_nodes: (NodeId, NodeId),
    /// The limit of its client, shared with other transfers, if it has its own.
    pub(crate) client: Option<ClientRate>,
    /// `None` before the start and after the end.
    pub(crate) streams: Option<Box<Streams>>,
    /// Once the transfer has had one.
    pub(crate) tunnel: Option<Box<Tunnel>>,
    /// Bytes of the object that came by this transfer.
    pub(crate) placed_bytes: u64,
    /// The endpoints' last statistics, for the time after they forget the flow.
    pub(crate) receiver_stats: FlowStats,
    pub(crate) sender_stats: FlowStats,
    pub(crate) series: Vec<Sample>,
}

impl Running {
    /// The streams that a segment is of.
    pub(crate) fn streams(&mut self, tunnel: bool) -> Option<&mut Streams> {
        if tunnel { self.tunnel.as_mut().map(|tunnel| &mut tunnel.streams) } else { self.streams.as_deref_mut() }
    }

    /// When the next retransmission timer of any stream goes off.
    pub(crate) fn due(&self) -> Option<Time> {
        let tunnel = self.tunnel.as_ref().and_then(|tunnel| tunnel.streams.due());
        self.streams.as_ref().and_then(|streams| streams.due()).into_iter().chain(tunnel).min()
    }

    /// The endpoint at one end.
    pub(crate) fn end(&self, receiver: bool) -> EndpointId {
        if receiver { self.transfer.receiver } else { self.transfer.sender }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let streams = self.streams.as_ref().map_or(0, |s| s.to_receiver.memory_bytes() + s.to_sender.memory_bytes());
        let tunnel = self.tunnel.as_ref().map_or(0, |tunnel| tunnel.memory_bytes());
        size_of::<Self>()
            + streams
            + tunnel
            + self.transfer.name.capacity()
            + self.series.capacity() * size_of::<Sample>()
    }
}
