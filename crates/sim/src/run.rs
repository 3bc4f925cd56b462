//! The event loop: one event after the other, with its consequences.

use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};

use inhaul_base::{ByteRange, Time};
use inhaul_transport::kit::Connections;
use inhaul_transport::{
    Command, CommandError, ConnectionId, Envelope, Event, FlowId, Host as Driver, JoinFlow, ObjectId, OfferFlow,
    PathSpec, RxMessage, TxBatch, drain,
};

use crate::addresses::{Addresses, located, sender_address};
use crate::agenda::Component;
use crate::changes::{Change, Happening};
use crate::control::{Item, Stream};
use crate::faults::{TUNNEL_GAP, is_full};
use crate::host::Host;
use crate::interface::SendBuffer;
use crate::network::Network;
use crate::packet::{Around, Datagram, Direction, IP_UDP_BYTES, Load, Packet};
use crate::simulation::{MESSAGES_MAX, Seat};
use crate::transfer::{Phase, Running, Streams};
use crate::{EndpointId, Failure, LinkSample, NodeId, Sample, SimError, Simulation, TransferId};

/// An endpoint that is woken so often at one time will never let it pass.
const WAKES_MAX: u32 = 10_000;
// --- Time -------------------------------------------------------------------------------------------------------------

impl Simulation {
    /// Lets time pass until `end`; events due at `end` happen too.
    ///
    /// # Errors
    /// If an endpoint broke a rule that holds for every protocol; the run stops there.
    pub fn run_until(&mut self, end: Time) -> Result<(), SimError> {
        self.run_while(end, |_| true)
    }

    /// Lets time pass until `limit`, or until `goes_on` says no: it is asked before each event.
    ///
    /// # Errors
    /// If an endpoint broke a rule that holds for every protocol; the run stops there.
    pub fn run_while(&mut self, limit: Time, mut goes_on: impl FnMut(&Self) -> bool) -> Result<(), SimError> {
        while goes_on(self) {
            match self.network.agenda.peek() {
                Some((at, component)) if at <= limit => {
                    self.now = at;
                    self.happen(component);
                }
                _ => {
                    self.now = self.now.max(limit);
                    break;
                }
            }
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
        }
        self.flush_captures()
    }

    /// One event. Each leaves its component scheduled for its next, or not at all.
    fn happen(&mut self, component: Component) {
        match component {
            Component::Link(link) => self.on_link(link),
            Component::Endpoint(endpoint) => self.on_deadline(EndpointId(endpoint)),
            Component::Host(host) => self.on_host(NodeId(host)),
            Component::Thread(host) => self.on_thread(NodeId(host)),
            Component::Control(transfer) => self.on_control_timer(TransferId(transfer)),
            Component::Traffic(traffic) => self.on_traffic(traffic as usize),
            Component::Changes => self.on_changes(),
            Component::Recorder => self.on_recorder(),
            Component::TcpWatch => self.on_tcp_watch(),
        }
    }

    fn flush_captures(&mut self) -> Result<(), SimError> {
        for capture in self.network.lines.iter_mut().filter_map(|line| line.capture.as_mut()) {
            capture.flush()?;
        }
        Ok(())
    }
}

// --- Packets ----------------------------------------------------------------------------------------------------------

impl Simulation {
    fn on_link(&mut self, link: u32) {
        let captured = self.network.lines[link as usize].capture.is_some();
        let arrived = if captured { self.captured_hop(link) } else { self.network.hop(self.now, link) };
        let Some(packet) = arrived else { return };
        let host = &mut self.hosts[packet.to.0 as usize];
        if host.takes_at_once() {
            host.stats.arrived_packets += 1;
            self.deliver(packet);
        } else if let Load::Control { transfer, lane, segment } = packet.datagram.load
            && host.has_scheduler()
        {
            let direction = Direction { transfer, lane };
            self.interrupt_for_segment(packet.to, direction, segment);
            self.network.pool.put_back(packet.datagram);
        } else {
            if let Some(dropped) = host.arrive(self.now, packet) {
                self.network.pool.put_back(dropped.datagram);
            }
            self.network.agenda.schedule(host.component, host.due());
        }
    }

    /// A hop over a link that is captured.
    #[cold]
    fn captured_hop(&mut self, link: u32) -> Option<Packet> {
        let addresses = Addresses { endpoints: &self.addresses, transfers: &self.transfers, traffic: &self.traffic };
        let (arrived, written) = self.network.hop_captured(self.now, link, &addresses);
        if let Err(error) = written {
            self.fault = Some(error.into());
        }
        arrived
    }

    /// The processor of a host has done a batch, or a competing task has begun or ended.
    fn on_host(&mut self, node: NodeId) {
        let mut served = std::mem::take(&mut self.served);
        let host = &mut self.hosts[node.0 as usize];
        host.advance(self.now, &mut served);
        self.network.agenda.schedule(host.component, host.due());
        let has_thread = host.thread.is_some();
        if host.has_scheduler() {
            self.serve(node, &mut served);
            self.served = served;
            return;
        }
        if !host.is_halted() {
            for endpoint in host.postponed.drain(..) {
                let component = self.seats[endpoint.0 as usize].component;
                self.network.agenda.schedule(component, Some(self.now));
            }
        }
        if has_thread {
            self.wake_for_packets(node, &mut served);
            self.resume_thread(node);
        } else {
            self.deliver_batch(&mut served);
        }
        self.served = served;
    }

    /// Hands a batch over, packets in a row for one endpoint together.
    pub(crate) fn deliver_batch(&mut self, batch: &mut Vec<Packet>) {
        let mut packets = batch.drain(..).peekable();
        let mut run: Vec<Packet> = Vec::new();
        while let Some(packet) = packets.next() {
            let Load::Data { to, .. } = packet.datagram.load else {
                self.deliver(packet);
                continue;
            };
            run.push(packet);
            let goes_on = |next: &Packet| matches!(next.datagram.load, Load::Data { to: next, .. } if next == to);
            if run.len() < MESSAGES_MAX && packets.peek().is_some_and(goes_on) {
                continue;
            }
            self.hand_over(to, &run);
            run.drain(..).for_each(|packet| self.network.pool.put_back(packet.datagram));
        }
    }

    /// A packet has come to where it should.
    fn deliver(&mut self, packet: Packet) {
        match packet.datagram.load {
            Load::Data { to, .. } => self.hand_over(to, std::slice::from_ref(&packet)),
            Load::Control { transfer, lane, segment } => self.on_segment(Direction { transfer, lane }, segment),
            Load::Background(traffic) => self.traffic[traffic.0 as usize].stats.received_packets += 1,
        }
        self.network.pool.put_back(packet.datagram);
    }

    /// Gives datagrams to their endpoint, at most [`MESSAGES_MAX`], and checks where it places them.
    pub(crate) fn hand_over(&mut self, to: EndpointId, packets: &[Packet]) {
        let mut places = std::mem::take(&mut self.places);
        packets.iter().for_each(|packet| self.note_delivery(to, packet));
        let Seat { endpoint, connections, .. } = &mut self.seats[to.0 as usize];
        if let [packet] = packets {
            endpoint.handle_datagrams(self.now, &[message(&self.addresses, connections, 0, packet)], &mut places);
        } else {
            let nothing = RxMessage::single(SocketAddr::from(([0, 0, 0, 0], 0)), &[]);
            let mut messages = [nothing; MESSAGES_MAX];
            for (index, (slot, packet)) in messages.iter_mut().zip(packets).enumerate() {
                *slot = message(&self.addresses, connections, index, packet);
            }
            endpoint.handle_datagrams(self.now, &messages[..packets.len()], &mut places);
        }
        for place in places.drain(..) {
            let Some(packet) = packets.get(place.message as usize) else {
                self.fault = Some(SimError::WrongPlace {
                    at: self.now,
                    flow: place.flow,
                    body: ByteRange::default(),
                    placed: place.range,
                    reason: "there is no such message",
                });
                break;
            };
            self.place(place, &packet.datagram);
        }
        self.places = places;
        self.pump(to);
    }

    pub(crate) fn place(&mut self, place: inhaul_transport::Place, datagram: &Datagram) {
        let Some(running) = self.transfers.get_mut(place.flow.0 as usize) else { return };
        match self.ledger.place(self.now, running.object, &place, datagram) {
            Ok(new) => running.placed_bytes += new,
            Err(error) => self.fault = Some(error),
        }
    }

    /// Takes a delivery into the fingerprint: time, sender, receiver, flow, length and data. The bytes of its head are
    /// the protocol's encoding, not its behaviour.
    pub(crate) fn note_delivery(&mut self, to: EndpointId, packet: &Packet) {
        let Load::Data { flow, from, body, .. } = packet.datagram.load else { return };
        self.mix(self.now.as_nanos());
        self.mix(u64::from(from.0) << 32 | u64::from(to.0));
        self.mix(u64::from(flow.0) << 32 | u64::from(packet.payload_bytes()));
        self.mix(body.start);
        self.mix(body.len());
    }

    /// Takes into the fingerprint how something ended, and when.
    fn note_outcome(&mut self, from: EndpointId, event: &Event) {
        let (kind, of): (u64, u32) = match event {
            Event::Complete { object } => (1, object.0),
            Event::Failed { flow, .. } => (2, flow.0),
            Event::Starved { object } => (3, object.0),
            Event::Control { .. } | Event::Closed { .. } | Event::Opened { .. } | Event::Source { .. } => return,
        };
        self.mix(self.now.as_nanos());
        self.mix(kind << 32 | u64::from(from.0));
        self.mix(u64::from(of));
    }

    /// Takes a word into the fingerprint.
    pub(crate) fn mix(&mut self, word: u64) {
        // A multiplication by an odd number and a rotation: different words leave different fingerprints.
        self.trace = (self.trace.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// A datagram as its endpoint sees it.
fn message<'a>(
    addresses: &[(NodeId, SocketAddrV4)],
    connections: &Connections,
    index: usize,
    packet: &'a Packet,
) -> RxMessage<'a> {
    let from = sender_address(addresses, &packet.datagram);
    let len = packet.payload_bytes() as usize;
    let heads = packet.readable();
    // A simulated host reads at once, so nothing has waited.
    let message = RxMessage {
        index: index as u32,
        head_stride: heads.len(),
        datagram_len: len,
        total_len: len,
        congested: packet.is_marked(),
        ..RxMessage::single(from.into(), heads)
    };
    sorted(connections, message)
}

/// The message with its flow, which the envelope of its first datagram names.
pub(crate) fn sorted<'a>(connections: &Connections, message: RxMessage<'a>) -> RxMessage<'a> {
    let flow_of = |envelope: Envelope| Some((connections.flow(envelope.connection)?, envelope.connection));
    RxMessage { flow: message.envelope(0).and_then(flow_of), ..message }
}

// --- Endpoints --------------------------------------------------------------------------------------------------------

/// Where an endpoint's output goes.
struct Outlet<'a> {
    network: &'a mut Network,
    connections: &'a mut Connections,
    /// Datagrams with an envelope are sealed.
    sealed: bool,
    hosts: &'a [Host],
    node: NodeId,
    from: EndpointId,
    send_buffer: Option<&'a mut SendBuffer>,
    transfers: &'a mut [Running],
    /// Transfers whose datagrams take tunnels.
    tunnels: &'a [TransferId],
    events: &'a mut VecDeque<(EndpointId, Event)>,
    fault: &'a mut Option<SimError>,
}

impl Driver for Outlet<'_> {
    fn event(&mut self, _now: Time, event: Event) {
        self.events.push_back((self.from, event));
    }

    fn transmit(&mut self, now: Time, batch: &mut TxBatch) -> bool {
        for transmit in batch.transmits() {
            let Some((node, to)) = self.find(transmit.route.to) else {
                *self.fault = Some(SimError::NobodyThere { at: now, to: transmit.route.to });
                continue;
            };
            let first = self.connections.take_numbers(transmit.flow, transmit.datagrams.len());
            for (k, datagram) in transmit.datagrams.iter().enumerate() {
                let number = (first + k as u64) as u32;
                let envelope = transmit.route.connection.map(|connection| Envelope { number, connection }.emit());
                let envelope = envelope.as_ref().map_or(&[][..], |bytes| bytes);
                let (head, body) = (batch.head(datagram), datagram.body);
                let around = Around::new(envelope.len() + head.len(), self.sealed && !envelope.is_empty())
                    .reading_marks(transmit.route.reads_marks);
                let load = Load::Data { around, flow: transmit.flow, from: self.from, to, body };
                let wire_bytes = (datagram.len() + envelope.len()) as u32 + around.tag_len() + IP_UDP_BYTES;
                let packet = self.network.pool.packet(node, wire_bytes, load, (envelope, head));
                if self.tunnels.contains(&TransferId(transmit.flow.0))
                    && let Some(running) = self.transfers.get_mut(transmit.flow.0 as usize)
                    && let Some(tunnel) = &mut running.tunnel
                {
                    tunnel.write(self.from == running.transfer.sender, packet);
                    continue;
                }
                let waiting = self.network.send(now, self.node, packet);
                if let (Some(buffer), Some(waiting)) = (&mut self.send_buffer, waiting) {
                    buffer.push(waiting);
                }
            }
        }
        batch.clear();
        true
    }
}

impl Outlet<'_> {
    fn find(&self, address: SocketAddr) -> Option<(NodeId, EndpointId)> {
        let SocketAddr::V4(address) = address else { return None };
        let (node, index) = located(address)?;
        let endpoint = self.hosts.get(node.0 as usize)?.endpoints.get(index)?;
        Some((node, *endpoint))
    }
}

impl Simulation {
    /// An endpoint's deadline has come.
    fn on_deadline(&mut self, id: EndpointId) {
        let node = self.addresses[id.0 as usize].0;
        let host = &mut self.hosts[node.0 as usize];
        if host.thread.is_some() {
            self.wake_for_deadline(node, id);
        } else if host.has_scheduler() {
            self.wake_process(node, id);
        } else {
            self.fire(id);
        }
    }

    /// Calls an endpoint whose deadline has come.
    pub(crate) fn fire(&mut self, id: EndpointId) {
        let (now, node) = (self.now, self.addresses[id.0 as usize].0);
        let seat = &mut self.seats[id.0 as usize];
        let component = seat.component;
        let host = &mut self.hosts[node.0 as usize];
        if host.is_halted() {
            host.postponed.push(id);
            self.network.agenda.schedule(component, None);
            return;
        }
        seat.woken = if seat.woken.0 == now { (now, seat.woken.1 + 1) } else { (now, 1) };
        if seat.woken.1 > WAKES_MAX {
            self.fault = Some(SimError::Stuck { at: now, times: WAKES_MAX });
            self.network.agenda.schedule(component, None);
            return;
        }
        seat.endpoint.handle_timeout(now);
        // A deadline that is now again comes after the others'.
        let due = self.drain(id);
        self.network.agenda.schedule_anew(component, due);
        self.attend();
    }

    /// Takes everything that an endpoint has to give, and notes when it wants to be called again.
    pub(crate) fn pump(&mut self, id: EndpointId) {
        let due = self.drain(id);
        self.network.agenda.schedule(self.seats[id.0 as usize].component, due);
        self.attend();
    }

    /// Makes an endpoint send its due datagrams, notes its events, and returns when it must be called again.
    fn drain(&mut self, id: EndpointId) -> Option<Time> {
        let seat = &mut self.seats[id.0 as usize];
        // Time stands still meanwhile: nothing but a full send buffer ends it early.
        let is_full = self.tunnels.iter().any(|of| is_full(&mut self.transfers, *of, id));
        let mut budget = if is_full {
            0
        } else {
            seat.send_buffer.as_mut().map_or(u64::MAX, |buffer| buffer.room(self.now, &mut self.network))
        };
        let mut outlet = Outlet {
            network: &mut self.network,
            connections: &mut seat.connections,
            sealed: self.sealed,
            hosts: &self.hosts,
            node: self.addresses[id.0 as usize].0,
            from: id,
            send_buffer: seat.send_buffer.as_mut(),
            transfers: &mut self.transfers,
            tunnels: &self.tunnels,
            events: &mut self.events,
            fault: &mut self.fault,
        };
        let due = drain(&mut *seat.endpoint, self.now, &mut self.batch, &mut budget, &mut outlet);
        if !self.tunnels.is_empty() {
            self.send_tunnelled(id);
        }
        if is_full {
            // Endpoints are notified of room; deadlines are handled meanwhile.
            return due.map(|at| at.max(self.now + TUNNEL_GAP));
        }
        match &mut self.seats[id.0 as usize].send_buffer {
            Some(buffer) if budget == 0 => {
                buffer.room(self.now, &mut self.network);
                Some(buffer.writable(self.now, &mut self.network))
            }
            _ => due.map(|at| at.max(self.now)),
        }
    }

    /// Consequences of endpoints' events.
    fn attend(&mut self) {
        while let Some((from, event)) = self.events.pop_front() {
            self.on_event(from, event);
        }
    }

    fn on_event(&mut self, from: EndpointId, event: Event) {
        self.note_outcome(from, &event);
        match event {
            Event::Control { flow, message } => self.write(from, flow, Item::Message(message)),
            Event::Complete { object } => self.on_complete(from, object),
            Event::Failed { flow, error } => {
                let transfer = TransferId(flow.0);
                // A flow that was stopped as planned has not failed.
                if self.transfers.get(flow.0 as usize).is_some_and(|running| running.phase != Phase::Ended) {
                    self.failures.push(Failure { at: self.now, transfer, endpoint: from, error });
                    // An end that gives a flow up closes its stream: the other end learns of it when the close arrives.
                    self.write(from, flow, Item::End);
                }
            }
            Event::Starved { object } => self.starved.push((from, object)),
            Event::Closed { flow } => self.on_closed(from, flow),
            Event::Opened { .. } | Event::Source { .. } => {}
        }
    }

    fn on_complete(&mut self, receiver: EndpointId, object: ObjectId) {
        let now = self.now;
        let Some(entry) = self.ledger.named(receiver, object) else { return };
        let (placed, size) = (entry.placed.covered(), entry.size);
        if placed < size {
            self.fault = Some(SimError::NotComplete { at: now, object, placed, size });
            return;
        }
        entry.complete = Some(now);
        let mirrors = |id: &TransferId| {
            let transfer = &self.transfers[id.0 as usize].transfer;
            transfer.receiver == receiver && transfer.object == object
        };
        // The flows' statistics are kept before the endpoints forget them.
        for id in self.transfers().filter(mirrors).collect::<Vec<_>>() {
            self.keep_stats(id);
            let running = &mut self.transfers[id.0 as usize];
            if running.transfer.leaves && running.phase == Phase::Running {
                running.phase = Phase::Ended;
                self.disconnect(id, receiver);
            }
        }
    }

    /// An endpoint has forgotten a flow that ended well. When the sender has, there is nothing left to say.
    fn on_closed(&mut self, from: EndpointId, flow: FlowId) {
        let Some(running) = self.transfers.get(flow.0 as usize) else { return };
        if running.phase == Phase::Ended && from == running.transfer.sender {
            self.close_stream(TransferId(flow.0));
        }
    }

    /// Notes both ends' statistics of a transfer, as long as they know it.
    pub(crate) fn keep_stats(&mut self, id: TransferId) {
        let (receiver, sender) = (self.stats(id), self.sender_stats(id));
        let running = &mut self.transfers[id.0 as usize];
        running.receiver_stats = receiver;
        running.sender_stats = sender;
    }
}

// --- Changes ----------------------------------------------------------------------------------------------------------

impl Simulation {
    fn on_changes(&mut self) {
        let Some(happening) = self.timeline.pop(self.now) else { return };
        // Off the agenda, so that changes at one time take turns with their consequences.
        self.network.agenda.schedule(self.changes, None);
        self.network.agenda.schedule(self.changes, self.timeline.due());
        match happening {
            Happening::Start(id) => self.start(id),
            Happening::Stop(id) => self.stop(id),
            Happening::Change(change) => self.change(change),
        }
    }

    fn change(&mut self, change: Change) {
        let now = self.now;
        let link = match change {
            Change::LinkRate(link, rate) => {
                self.network.lines[link.0 as usize].link.set_rate(now, rate);
                link
            }
            Change::LinkMtu(link, mtu) => {
                self.network.lines[link.0 as usize].mtu = mtu;
                return;
            }
            Change::LinkDown(link) | Change::LinkUp(link) => {
                let up = matches!(change, Change::LinkUp(_));
                self.network.lines[link.0 as usize].link.set_up(now, up);
                link
            }
            Change::Command(endpoint, command) => {
                if let Err(error) = self.give(endpoint, command) {
                    self.fault = Some(self.refused(error));
                }
                return;
            }
            Change::Break(transfer) => return self.break_stream(transfer),
            Change::Crash(endpoint) => return self.crash(endpoint),
            Change::Rebind(endpoint) => {
                if let Err(error) = self.rebind(endpoint) {
                    self.fault = Some(error);
                }
                return;
            }
            Change::Tunnel(transfer, on) => return self.tunnel(transfer, on),
        };
        self.network.reschedule(link.0);
    }

    /// Commands an endpoint. A flow to disconnect may have ended already.
    pub(crate) fn give(&mut self, endpoint: EndpointId, command: Command) -> Result<(), (FlowId, CommandError)> {
        let disconnected = match &command {
            Command::Disconnect { flow } => Some(TransferId(flow.0)),
            _ => None,
        };
        if let Some(id) = disconnected.filter(|id| (id.0 as usize) < self.transfers.len()) {
            self.keep_stats(id);
        }
        let flow = flow_of(&command);
        if let Command::Refetch { object, range, .. } = &command
            && let Some(entry) = self.ledger.named(endpoint, *object)
        {
            entry.placed.remove(*range);
            entry.complete = None;
        }
        match self.seats[endpoint.0 as usize].endpoint.command(self.now, command) {
            Err(error) if disconnected.is_none() => return Err((flow, error)),
            _ => self.pump(endpoint),
        }
        Ok(())
    }

    fn start(&mut self, id: TransferId) {
        let running = &mut self.transfers[id.0 as usize];
        running.phase = Phase::Running;
        let (from, to) = running.control_nodes;
        let delay = |from, to| self.network.delay(&self.topology, from, to);
        let stream = Stream::new(running.transfer.mtu, delay(from, to) + delay(to, from), self.control_window);
        running.streams = Some(Box::new(Streams { to_receiver: stream.clone(), to_sender: stream }));
        let transfer = running.transfer.clone();
        let object = self.ledger.object_mut(running.object);
        let fetch = (!std::mem::replace(&mut object.fetched, true)).then(|| Command::Fetch {
            object: transfer.object,
            size: transfer.size,
            held: object.held.clone(),
        });
        let peer = self.addresses[transfer.sender.0 as usize].1;
        let clear = PathSpec::clear(transfer.mtu, (*peer.ip()).into());
        let path = if self.sealed { clear.sealed() } else { clear };
        // Ids differ for certain, not only with high probability: an odd factor maps numbers one to one.
        let connection =
            |side: u32| ConnectionId((2 * id.0 + side).wrapping_mul(0x9E37_79B1).wrapping_add(self.seed as u32));
        let ids = [connection(0), connection(1)];
        for (endpoint, connection) in [transfer.sender, transfer.receiver].into_iter().zip(ids) {
            self.seats[endpoint.0 as usize].connections.insert(connection, id.flow());
        }
        let offer = OfferFlow {
            flow: id.flow(),
            size: transfer.size,
            peer: None,
            only_from: None,
            path,
            connection: ids[0],
            token: self.names.next_u64(),
            client: running.client,
            parameters: Default::default(),
        };
        let join = JoinFlow {
            flow: id.flow(),
            object: transfer.object,
            peer: Some(peer.into()),
            path,
            connection: ids[1],
            probed: None,
            limits: transfer.limits,
        };
        let commands = [(transfer.sender, Some(Command::Offer(offer))), (transfer.receiver, fetch)];
        let commands = commands.into_iter().chain([(transfer.receiver, Some(Command::Join(join)))]);
        for (endpoint, command) in commands {
            if let Some(command) = command
                && let Err(error) = self.give(endpoint, command)
            {
                self.fault = Some(self.refused(error));
                return;
            }
        }
    }

    fn stop(&mut self, id: TransferId) {
        self.keep_stats(id);
        self.transfers[id.0 as usize].phase = Phase::Ended;
        self.break_stream(id);
    }

    fn on_traffic(&mut self, index: usize) {
        let source = &mut self.traffic[index];
        let traffic = source.traffic;
        source.advance();
        self.network.agenda.schedule(source.component, source.due());
        let wire_bytes = u32::from(traffic.packet_bytes);
        let load = Load::Background(crate::TrafficId(index as u32));
        let packet = self.network.pool.packet(traffic.to, wire_bytes, load, (&[], &[]));
        self.network.send(self.now, traffic.from, packet);
    }

    fn on_recorder(&mut self) {
        let now = self.now;
        for index in 0..self.transfers.len() {
            let id = TransferId(index as u32);
            if self.transfers[index].phase == Phase::Running {
                self.keep_stats(id);
                let running = &mut self.transfers[index];
                let (receiver, sender) = (&running.receiver_stats, &running.sender_stats);
                running.series.push(Sample::of(now, running.placed_bytes, receiver, sender));
            }
        }
        let Some(recorder) = &mut self.recorder else { return };
        for (line, series) in self.network.lines.iter_mut().zip(&mut recorder.links) {
            let queue_bytes = line.link.queue_bytes(now);
            let stats = line.link.stats(now);
            let (carried_bytes, dropped_packets) = (stats.carried.bytes, stats.dropped().packets);
            series.push(LinkSample { at: now, queue_bytes, carried_bytes, dropped_packets });
        }
        self.network.agenda.schedule(recorder.component, Some(now + recorder.spec.interval));
    }
}

/// The flow that a command is about; flow 0 for commands without a flow.
fn flow_of(command: &Command) -> FlowId {
    match command {
        Command::Join(join) => join.flow,
        Command::Offer(offer) => offer.flow,
        Command::Disconnect { flow } => *flow,
        _ => FlowId::default(),
    }
}
