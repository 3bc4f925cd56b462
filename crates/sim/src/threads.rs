//! Runs the threads of hosts with noise: their wake-ups, and the datagrams that they hand to their endpoints.

use inhaul_base::{ByteRange, Time};
use inhaul_transport::{Place, RxMessage};

use crate::addresses::sender_address;
use crate::error::SimError;
use crate::ids::{EndpointId, NodeId};
use crate::noise::flow_of;
use crate::packet::{Direction, Load, Packet};
use crate::run::sorted;
use crate::simulation::{MESSAGES_MAX, Simulation};

impl Simulation {
    /// Gives the arrivals at a host to its thread.
    pub(crate) fn wake_for_packets(&mut self, node: NodeId, batch: &mut Vec<Packet>) {
        for packet in batch.drain(..) {
            if let Load::Background(traffic) = packet.datagram.load {
                self.traffic[traffic.0 as usize].stats.received_packets += 1;
                self.network.pool.put_back(packet.datagram);
                continue;
            }
            let host = &mut self.hosts[node.0 as usize];
            let Some(thread) = &mut host.thread else { continue };
            if let Some(dropped) = thread.arrive(self.now, packet) {
                host.stats.socket_drops += 1;
                self.network.pool.put_back(dropped.datagram);
            }
        }
        self.schedule_thread(node);
    }

    /// The deadline of an endpoint on a host with noise has come.
    pub(crate) fn wake_for_deadline(&mut self, node: NodeId, id: EndpointId) {
        self.network.agenda.schedule(self.seats[id.0 as usize].component, None);
        if let Some(thread) = &mut self.hosts[node.0 as usize].thread {
            thread.deadline(self.now, id);
        }
        self.schedule_thread(node);
    }

    fn schedule_thread(&mut self, node: NodeId) {
        if let Some(thread) = &self.hosts[node.0 as usize].thread {
            self.network.agenda.schedule(thread.component, thread.wake);
        }
    }

    /// The processor of a host with noise may have become free: what waited for that goes on.
    pub(crate) fn resume_thread(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0 as usize];
        let is_halted = host.is_halted();
        if let Some(thread) = &mut host.thread
            && thread.wake.is_none()
            && thread.has_work()
            && !is_halted
        {
            thread.wake_at(self.now, self.now);
        }
        self.schedule_thread(node);
    }

    /// A thread runs.
    pub(crate) fn on_thread(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0 as usize];
        let is_halted = host.is_halted();
        let Some(thread) = &mut host.thread else { return };
        self.network.agenda.schedule(thread.component, None);
        if is_halted {
            thread.wake = None;
            return;
        }
        let (inbox, overdue) = thread.run(self.now);
        self.hand_over_inbox(node, &inbox);
        inbox.into_iter().for_each(|(_, packet)| self.network.pool.put_back(packet.datagram));
        for id in overdue {
            self.fire(id);
        }
    }

    /// Hands over the datagrams that a thread has read.
    fn hand_over_inbox(&mut self, node: NodeId, mut packets: &[(Time, Packet)]) {
        while let Some((_, first)) = packets.first() {
            let to = match first.datagram.load {
                Load::Data { to, .. } => to,
                Load::Control { transfer, lane, segment } => {
                    self.on_segment(Direction { transfer, lane }, segment);
                    packets = &packets[1..];
                    continue;
                }
                Load::Background(_) => {
                    packets = &packets[1..];
                    continue;
                }
            };
            let mut sizes = Vec::new();
            let mut rest = packets;
            while sizes.len() < MESSAGES_MAX
                && rest.first().and_then(|(_, packet)| flow_of(packet)).is_some_and(|flow| flow.0 == to)
                && let Some(thread) = &mut self.hosts[node.0 as usize].thread
            {
                let size = thread.joined(rest);
                sizes.push(size);
                rest = &rest[size..];
            }
            let (read, rest) = packets.split_at(packets.len() - rest.len());
            self.hand_over_joined(to, read, &sizes);
            packets = rest;
        }
    }

    /// Gives messages of `sizes` datagrams each to their endpoint, and checks where it places them.
    fn hand_over_joined(&mut self, to: EndpointId, packets: &[(Time, Packet)], sizes: &[usize]) {
        let mut places = std::mem::take(&mut self.places);
        packets.iter().for_each(|(_, packet)| self.note_delivery(to, packet));
        let mut firsts = Vec::with_capacity(sizes.len());
        let mut heads = Vec::new();
        let mut starts = Vec::with_capacity(sizes.len());
        let mut at = 0;
        for &size in sizes {
            firsts.push(at);
            starts.push(heads.len());
            let stride = packets[at].1.readable().len();
            for (_, packet) in &packets[at..at + size] {
                let end = heads.len() + stride;
                heads.extend_from_slice(packet.readable());
                heads.resize(end, 0);
            }
            at += size;
        }
        let message = |k: usize| {
            let datagrams = &packets[firsts[k]..firsts[k] + sizes[k]];
            let (first, (last_at, last)) = (&datagrams[0].1, &datagrams[sizes[k] - 1]);
            let (stride, datagram_len) = (first.readable().len(), first.payload_bytes() as usize);
            let from = sender_address(&self.addresses, &first.datagram).into();
            let message = RxMessage {
                index: k as u32,
                head_stride: stride,
                datagram_len,
                total_len: datagram_len * (sizes[k] - 1) + last.payload_bytes() as usize,
                // Joined datagrams go up, and are stamped, when the last of them has come.
                waited: self.now.since(*last_at),
                ..RxMessage::single(from, &heads[starts[k]..starts[k] + stride * sizes[k]])
            };
            sorted(&self.seats[to.0 as usize].connections, message)
        };
        let messages: Vec<_> = (0..sizes.len()).map(message).collect();
        self.seats[to.0 as usize].endpoint.handle_datagrams(self.now, &messages, &mut places);
        for place in places.drain(..) {
            let joined = firsts.get(place.message as usize).zip(sizes.get(place.message as usize));
            match joined {
                Some((&first, &size)) => self.place_each(place, &packets[first..first + size]),
                None => self.misplaced(place, "there is no such message"),
            }
        }
        self.places = places;
        self.pump(to);
    }

    /// Checks a place datagram by datagram.
    fn place_each(&mut self, place: Place, packets: &[(Time, Packet)]) {
        let mut rest = place.range;
        let mut skip = place.skip;
        for (_, packet) in packets.iter().skip(place.first as usize) {
            let len = u64::from(packet.payload_bytes().saturating_sub(skip)).min(rest.len());
            let range = ByteRange::new(rest.start, rest.start + len);
            self.place(Place { first: 0, skip, range, ..place }, &packet.datagram);
            rest = ByteRange::new(range.end, rest.end);
            skip = place.head_len;
            if rest.is_empty() {
                return;
            }
        }
        self.misplaced(Place { range: rest, ..place }, "the message has fewer datagrams");
    }

    fn misplaced(&mut self, place: Place, reason: &'static str) {
        let (flow, body) = (place.flow, ByteRange::default());
        self.fault = Some(SimError::WrongPlace { at: self.now, flow, body, placed: place.range, reason });
    }
}
