//! Packets over links, in virtual time: no I/O and no clock.

use std::collections::VecDeque;
use std::rc::Rc;

use inhaul_base::{RandomStream, Time};
use inhaul_link::{Link, LinkStats};

use super::agenda::Agenda;
use super::assembly::Assembly;
use super::segment::{Carried, Delivery, Memory, Segment};
use crate::grid::{Grid, LinkChange};
use crate::packet::Packet;

#[derive(Debug)]
struct Path {
    to: usize,
    /// Whether its end takes superpackets.
    whole: bool,
    links: Vec<u32>,
}

/// Most bytes of packets under way. What 10 Gbit/s needs for 200 ms both ways and a queue is half of it.
pub(crate) const MEMORY_MAX: usize = 1 << 30;

/// A segment's place in the links, in bytes: with tiny segments it dominates the memory.
const SEGMENT_COST: usize = 64;

/// The links of a grid and their packets.
pub(crate) struct Network {
    links: Vec<Link<Segment>>,
    agenda: Agenda,
    paths: Vec<Path>,
    /// Indices of paths, by host of departure and of destination.
    path_of: Vec<Option<u32>>,
    hosts: usize,
    assembly: Assembly,
    deliveries: VecDeque<Delivery>,
    memory: Memory,
    memory_max: usize,
}

/// Why a packet did not enter the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotEntered {
    /// No path leads there.
    NoPath,
    /// More is under way than there is memory for.
    NoMemory,
}

impl Network {
    /// The links of `grid`; `superpackets` says of each host whether it takes them.
    pub(crate) fn new(grid: &Grid, superpackets: &[bool], memory_max: usize) -> Self {
        let links = grid.links.iter().zip(0u64..);
        let links: Vec<_> =
            links.map(|(link, stream)| Link::new(link.spec.clone(), RandomStream::new(grid.seed, stream))).collect();
        let hosts = grid.hosts.len();
        let mut path_of = vec![None; hosts * hosts];
        let mut paths = Vec::with_capacity(grid.paths.len());
        for ((from, to), links) in &grid.paths {
            path_of[from * hosts + to] = Some(paths.len() as u32);
            let links = links.iter().map(|link| *link as u32).collect();
            paths.push(Path { to: *to, whole: superpackets[*to], links });
        }
        Self {
            agenda: Agenda::new(links.len()),
            assembly: Assembly::new(paths.len()),
            links,
            paths,
            path_of,
            hosts,
            deliveries: VecDeque::new(),
            memory: Memory::default(),
            memory_max,
        }
    }

    /// When to call [`advance`](Self::advance) next; `None`: nothing is under way.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        match (self.agenda.next_at(), self.assembly.next_at()) {
            (Some(link), Some(held)) => Some(link.min(held)),
            (link, held) => link.or(held),
        }
    }

    /// A packet leaves the host `from` at `now`, for the host `to`.
    pub(crate) fn enter(&mut self, now: Time, from: usize, to: usize, packet: Packet) -> Result<(), NotEntered> {
        let known = |to: usize| (to < self.hosts).then(|| self.path_of[from * self.hosts + to]).flatten();
        let path = known(to).ok_or(NotEntered::NoPath)?;
        let count = packet.segments();
        let bytes = packet.memory_bytes() + usize::from(count) * SEGMENT_COST;
        let held = self.memory.hold(bytes, self.memory_max).ok_or(NotEntered::NoMemory)?;
        let carried = Rc::new(Carried::new(packet, path, held));
        for index in 0..count {
            self.send(now, Segment { carried: Rc::clone(&carried), index, hop: 0 });
        }
        self.look_up(self.paths[path as usize].links[0] as usize);
        Ok(())
    }

    /// Moves everything that is due by `now`. Time never goes back, here or in any other call.
    pub(crate) fn advance(&mut self, now: Time) {
        loop {
            let link = self.agenda.first(now);
            let until = link.map_or(now, |(at, _)| at);
            // Held segments are released before a later segment arrives.
            self.deliveries.extend(std::iter::from_fn(|| self.assembly.let_go(until)));
            let Some((mut at, link)) = link else { return };
            // Segments come in trains: as long as no other event is due before it, the link need not be looked up
            // again.
            self.agenda.set(link, None);
            loop {
                if let Some((at, segment)) = self.links[link].receive(at) {
                    self.forward(at, segment);
                }
                match self.links[link].next_arrival() {
                    Some(next) if next <= now && self.next_at().is_none_or(|other| other >= next) => at = next,
                    _ => break,
                }
            }
            self.look_up(link);
        }
    }

    /// The next segments to be handed to their host, in the order of their arrival.
    pub(crate) fn pop_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Changes a link at `now`.
    pub(crate) fn change(&mut self, now: Time, link: usize, what: LinkChange) {
        match what {
            LinkChange::Rate(rate) => self.links[link].set_rate(now, rate),
            LinkChange::Up(up) => self.links[link].set_up(now, up),
        }
        self.look_up(link);
    }

    /// Each link's counters until `now`.
    pub(crate) fn stats(&mut self, now: Time) -> Vec<LinkStats> {
        self.links.iter_mut().map(|link| link.stats(now)).collect()
    }

    fn forward(&mut self, at: Time, mut segment: Segment) {
        let path = &self.paths[segment.path() as usize];
        segment.hop += 1;
        if let Some(link) = path.links.get(usize::from(segment.hop)).copied() {
            self.send(at, segment);
            return self.look_up(link as usize);
        }
        let (to, whole) = (path.to, path.whole);
        let deliveries = &mut self.deliveries;
        self.assembly.arrive(at, segment, to, whole, |delivery| deliveries.push_back(delivery));
    }

    /// Sends a segment into its link. What happens to it is in the statistics of the link.
    fn send(&mut self, now: Time, segment: Segment) {
        let link = self.paths[segment.path() as usize].links[usize::from(segment.hop)] as usize;
        let bytes = segment.carried.packet.segment_bytes(segment.index);
        let _ = self.links[link].send(now, bytes, segment);
    }

    /// Sees when the link is due next.
    fn look_up(&mut self, link: usize) {
        self.agenda.set(link, self.links[link].next_arrival());
    }
}
