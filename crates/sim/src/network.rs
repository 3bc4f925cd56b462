//! Links, the routes over them and when what arrives: a packet's way from the host that sends it to the one that gets it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use inhaul_base::{RandomStream, Span, Time};
use inhaul_link::Link;

use crate::agenda::{Agenda, Component, ComponentId};
use crate::capture::Capture;
use crate::packet::{Packet, Pool};
use crate::routes::Routes;
use crate::traffic::{Source, TrafficId};
use crate::transfer::Running;
use crate::{EndpointId, NodeId, Topology, TransferId};

/// Nodes have addresses 10.1.0.0 and up, by number.
const FIRST_ADDRESS: u32 = 0x0A01_0000;
/// Most nodes of a topology: what the addresses' lower half can tell apart.
pub(crate) const NODES_MAX: usize = 1 << 16;
/// Port of a host's first endpoint.
const FIRST_PORT: u16 = 1024;
/// Most endpoints of a host.
pub(crate) const ENDPOINTS_MAX: usize = (u16::MAX - FIRST_PORT) as usize;

/// Datagrams that are read ahead at a time: about as many as a processor can wait for at once.
const READ_AHEAD: usize = 8;

/// The address of endpoint number `index` of a node.
pub(crate) fn address(node: NodeId, index: usize) -> SocketAddrV4 {
    SocketAddrV4::new(node_address(node), FIRST_PORT.saturating_add(index as u16))
}

fn node_address(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_ADDRESS + node.0)
}

/// The node, and the number of its endpoint, that an address names.
pub(crate) fn located(address: SocketAddrV4) -> Option<(NodeId, usize)> {
    let node = address.ip().to_bits().checked_sub(FIRST_ADDRESS)?;
    let index = address.port().checked_sub(FIRST_PORT)?;
    Some((NodeId(node), usize::from(index)))
}

/// A link in its place.
pub(crate) struct Line {
    pub(crate) link: Link<Packet>,
    pub(crate) capture: Option<Capture>,
    component: ComponentId,
    to: NodeId,
    /// The largest IP packet that it takes.
    pub(crate) mtu: Option<u32>,
    /// How many packets that arrive next have been read ahead.
    ahead: usize,
}

impl Line {
    /// Datagrams are out of the cache when they arrive, and to wait for several at once takes no longer than for one.
    #[inline]
    fn read_ahead(&mut self) {
        if self.ahead > 1 {
            self.ahead -= 1;
            return;
        }
        self.ahead = self.link.upcoming().take(READ_AHEAD).map(|next| next.datagram.touch()).count();
    }
}

/// All that is between hosts.
pub(crate) struct Network {
    pub(crate) agenda: Agenda,
    pub(crate) lines: Vec<Line>,
    pub(crate) pool: Pool,
    /// Packets that have come over a link.
    pub(crate) hops: u64,
    routes: Routes,
}

impl Network {
    /// The network of a topology; `random` gives each link its stream.
    pub(crate) fn new(topology: &Topology, random: impl Fn(u32) -> RandomStream) -> Self {
        let mut agenda = Agenda::default();
        let line = |(index, wire): (u32, &crate::topology::Wire)| Line {
            link: Link::new(wire.spec.clone(), random(index)),
            capture: None,
            component: agenda.add(Component::Link(index)),
            to: wire.to,
            mtu: None,
            ahead: 0,
        };
        let lines = (0..).zip(&topology.wires).map(line).collect();
        Self { agenda, lines, pool: Pool::default(), hops: 0, routes: Routes::new(topology) }
    }

    /// Sends a packet on from a node.
    pub(crate) fn send(&mut self, now: Time, at: NodeId, packet: Packet) {
        // That there is a route was made sure of when the transfer or traffic was set up.
        let Some(link) = self.routes.next(at, packet.to) else { return };
        let line = &mut self.lines[link.0 as usize];
        if line.mtu.is_some_and(|mtu| packet.wire_bytes > mtu) {
            self.pool.put_back(packet.datagram);
            return;
        }
        // What is dropped the link counts.
        if line.link.send(now, packet.wire_bytes, packet).is_ok() {
            self.agenda.schedule(line.component, line.link.next_arrival());
        }
    }

    /// Takes the next packet from a link where one is due, if there is one. A packet that has not come to its host
    /// yet is sent on.
    pub(crate) fn hop(&mut self, now: Time, link: u32) -> Option<Packet> {
        let received = self.lines[link as usize].link.receive(now);
        self.forward(now, link, received)
    }

    #[inline]
    fn forward(&mut self, now: Time, link: u32, received: Option<(Time, Packet)>) -> Option<Packet> {
        let line = &self.lines[link as usize];
        // Where nothing came though something was due, the link has looked again and knows better.
        self.agenda.schedule(line.component, line.link.next_arrival());
        let (_, packet) = received?;
        self.hops += 1;
        if line.to == packet.to {
            self.lines[link as usize].read_ahead();
            return Some(packet);
        }
        let to = line.to;
        self.send(now, to, packet);
        None
    }

    /// As [`Network::hop`], with the link's capture written.
    pub(crate) fn hop_captured(
        &mut self,
        now: Time,
        link: u32,
        addresses: &Addresses<'_>,
    ) -> (Option<Packet>, io::Result<()>) {
        let line = &mut self.lines[link as usize];
        let received = line.link.receive(now);
        let written = match (&mut line.capture, &received) {
            (Some(capture), Some((at, packet))) => capture.packet(*at, packet, addresses),
            _ => Ok(()),
        };
        (self.forward(now, link, received), written)
    }

    /// Looks again when a link is due, after it was changed.
    pub(crate) fn reschedule(&mut self, link: u32) {
        let line = &self.lines[link as usize];
        self.agenda.schedule(line.component, line.link.next_arrival());
    }

    /// Whether packets from `from` come to `to`.
    pub(crate) fn reaches(&self, topology: &Topology, from: NodeId, to: NodeId) -> bool {
        self.routes.reaches(topology, from, to)
    }

    /// The time that an empty path takes from `from` to `to`, without transmission.
    pub(crate) fn delay(&self, topology: &Topology, from: NodeId, to: NodeId) -> Span {
        let mut delay = Span::ZERO;
        let mut at = from;
        while at != to
            && let Some(link) = self.routes.next(at, to)
        {
            let wire = &topology.wires[link.0 as usize];
            delay = delay + wire.spec.delay;
            at = wire.to;
        }
        delay
    }

    /// Bytes of memory that it takes. Datagrams on their way are counted by those that could be as much as links hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        let links: usize = self.lines.iter().map(|line| line.link.memory_bytes()).sum();
        self.lines.capacity() * size_of::<Line>()
            + links
            + self.agenda.memory_bytes()
            + self.routes.memory_bytes()
            + self.pool.memory_bytes()
    }
}

/// Who has which address, for captures.
pub(crate) struct Addresses<'a> {
    pub(crate) endpoints: &'a [(NodeId, SocketAddrV4)],
    pub(crate) transfers: &'a [Running],
    pub(crate) traffic: &'a [Source],
}

impl Addresses<'_> {
    pub(crate) fn of_node(&self, node: NodeId) -> [u8; 4] {
        node_address(node).octets()
    }

    pub(crate) fn of_endpoint(&self, endpoint: EndpointId) -> SocketAddrV4 {
        self.endpoints[endpoint.0 as usize].1
    }

    /// Where a background traffic comes from.
    pub(crate) fn source_of(&self, traffic: TrafficId) -> NodeId {
        self.traffic[traffic.0 as usize].traffic.from
    }

    /// Where segments of a control stream come from.
    pub(crate) fn control_source(&self, transfer: TransferId, to_receiver: bool) -> NodeId {
        let (at_sender, at_receiver) = self.transfers[transfer.0 as usize].control_nodes;
        if to_receiver { at_sender } else { at_receiver }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn located_is_the_inverse_of_address() {
        for (node, index) in [(0, 0), (1, 7), (255, 300), (256, ENDPOINTS_MAX - 1), (65_535, 1)] {
            assert_eq!(located(address(NodeId(node), index)), Some((NodeId(node), index)));
        }
        assert_eq!(located(SocketAddrV4::new(Ipv4Addr::new(10, 0, 255, 255), 2000)), None);
        assert_eq!(located(SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 0), 1023)), None);
    }
}
