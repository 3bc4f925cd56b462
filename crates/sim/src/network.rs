//! Links, routes over them, and times of arrival: a packet's path from its sending host to its receiving host.

use std::io;

use inhaul_base::{RandomStream, Span, Time};
use inhaul_link::{DropCause, Link};

use crate::addresses::Addresses;
use crate::agenda::{Agenda, Component, ComponentId};
use crate::capture::Capture;
use crate::ids::NodeId;
use crate::packet::{Packet, Pool};
use crate::routes::Routes;
use crate::topology::{Topology, Wire};

/// Datagrams that are read ahead at a time: about as many as a processor can wait for at once.
const READ_AHEAD: usize = 8;

/// A link in its place.
pub(crate) struct Line {
    pub(crate) link: Link<Packet>,
    pub(crate) capture: Option<Capture>,
    component: ComponentId,
    to: NodeId,
    /// Bytes of all packets that were let in.
    entered: u64,
    /// The largest IP packet that it takes.
    pub(crate) mtu: Option<u32>,
    /// How many packets that arrive next have been read ahead.
    ahead: usize,
}

impl Line {
    /// Datagrams are out of the cache when they arrive, and waiting for several at once takes no longer than for one.
    #[inline]
    fn read_ahead(&mut self) {
        if self.ahead > 1 {
            self.ahead -= 1;
            return;
        }
        self.ahead = self.link.upcoming().take(READ_AHEAD).map(|next| next.datagram.touch()).count();
    }
}

/// A packet's position among all packets that have entered a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) link: u32,
    /// Bytes that had entered the link, this packet's included.
    pub(crate) entered: u64,
    /// Bytes of the packet.
    pub(crate) bytes: u32,
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
        let line = |(index, wire): (u32, &Wire)| Line {
            link: Link::new(wire.spec.clone(), random(index)),
            capture: None,
            component: agenda.add(Component::Link(index)),
            to: wire.to,
            entered: 0,
            mtu: None,
            ahead: 0,
        };
        let lines = (0..).zip(&topology.wires).map(line).collect();
        Self { agenda, lines, pool: Pool::default(), hops: 0, routes: Routes::new(topology) }
    }

    /// Sends a packet on from a node. Returns where it stands, if the link took it.
    pub(crate) fn send(&mut self, now: Time, at: NodeId, packet: Packet) -> Option<Waiting> {
        // That there is a route was made sure of when the transfer or traffic was set up.
        let link = self.routes.next(at, packet.to)?;
        let line = &mut self.lines[link.0 as usize];
        let bytes = packet.wire_bytes;
        if line.mtu.is_some_and(|mtu| bytes > mtu) {
            self.pool.put_back(packet.datagram);
            return None;
        }
        // The link counts dropped packets. Packets that will be lost on the wire still take their time on it.
        match line.link.send(now, bytes, packet) {
            Ok(()) => self.agenda.schedule(line.component, line.link.next_arrival()),
            Err(DropCause::Lost) => {}
            Err(_) => return None,
        }
        line.entered += u64::from(bytes);
        Some(Waiting { link: link.0, entered: line.entered, bytes })
    }

    /// Bytes that have left a link's queue.
    pub(crate) fn left(&mut self, now: Time, link: u32) -> u64 {
        let line = &mut self.lines[link as usize];
        line.entered - line.link.queue_bytes(now)
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

    /// Bytes of its memory. Datagrams in flight are counted by the most that links can hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        let links: usize = self.lines.iter().map(|line| line.link.memory_bytes()).sum();
        self.lines.capacity() * size_of::<Line>()
            + links
            + self.agenda.memory_bytes()
            + self.routes.memory_bytes()
            + self.pool.memory_bytes()
    }
}
