//! Control streams in the network: segments out and in, messages to their endpoints, and how a stream ends. Tunnels are
//! streams, too: datagrams come out of them.

use inhaul_transport::{Command, FlowId};

use crate::control::{Item, Segment};
use crate::packet::{Direction, Load};
use crate::{EndpointId, Simulation, TransferId};

impl Simulation {
    /// An endpoint writes to the control stream of a flow.
    pub(crate) fn write(&mut self, from: EndpointId, flow: FlowId, item: Item) {
        let Some(running) = self.transfers.get_mut(flow.0 as usize) else { return };
        let to_receiver = from == running.transfer.sender;
        let Some(streams) = &mut running.streams else { return };
        streams.direction(to_receiver).write(item);
        self.send_segments(Direction::new(TransferId(flow.0), false, to_receiver));
    }

    /// Sends the segments that one direction of a stream may send.
    pub(crate) fn send_segments(&mut self, direction: Direction) {
        let Some(running) = self.transfers.get_mut(direction.transfer.0 as usize) else { return };
        let nodes = running.control_nodes;
        let Some(streams) = running.streams(direction.tunnel()) else { return };
        while let Some(segment) = streams.direction(direction.to_receiver()).poll_segment(self.now) {
            let (from, to) = if direction.to_receiver() { nodes } else { (nodes.1, nodes.0) };
            let load = Load::of_segment(direction, segment);
            let packet = self.network.pool.packet(to, segment.wire_bytes(), load, (&[], &[]));
            self.network.send(self.now, from, packet);
        }
        self.network.agenda.schedule(running.component, running.due());
    }

    /// A segment has arrived at one end, and its content is read.
    pub(crate) fn on_segment(&mut self, direction: Direction, segment: Segment) {
        self.take_segment(direction, segment);
        if matches!(segment, Segment::Data(_)) {
            self.read(direction);
        }
    }

    /// A segment has arrived at one end: the kernel's part.
    pub(crate) fn take_segment(&mut self, direction: Direction, segment: Segment) {
        self.mix(self.now.as_nanos());
        self.mix(u64::from(direction.transfer.0) << 32 | direction.lane as u64);
        self.mix(u64::from(segment.wire_bytes()));
        let running = &mut self.transfers[direction.transfer.0 as usize];
        // After the end, segments may still be on their way.
        let Some(streams) = running.streams(direction.tunnel()) else { return };
        match segment {
            // An acknowledgement is of the direction that its packet did not take.
            Segment::Ack(through) => {
                let acknowledged = direction.back();
                streams.direction(acknowledged.to_receiver()).on_ack(self.now, through);
                self.send_segments(acknowledged);
                if direction.tunnel() {
                    self.has_room(acknowledged);
                }
            }
            Segment::Data(range) => {
                let acknowledgement = streams.direction(direction.to_receiver()).on_data(range);
                self.acknowledge(direction, acknowledgement);
            }
        }
    }

    fn acknowledge(&mut self, direction: Direction, segment: Segment) {
        let (at_sender, at_receiver) = self.transfers[direction.transfer.0 as usize].control_nodes;
        let (from, to) = if direction.to_receiver() { (at_receiver, at_sender) } else { (at_sender, at_receiver) };
        let load = Load::of_segment(direction.back(), segment);
        let packet = self.network.pool.packet(to, segment.wire_bytes(), load, (&[], &[]));
        self.network.send(self.now, from, packet);
    }

    /// Hands over complete messages.
    pub(crate) fn read(&mut self, direction: Direction) {
        let id = direction.transfer;
        loop {
            let running = &mut self.transfers[id.0 as usize];
            let reader = running.end(direction.to_receiver());
            let item = running
                .streams(direction.tunnel())
                .and_then(|streams| streams.direction(direction.to_receiver()).pop_item());
            match item {
                None => return,
                Some(Item::Message(message)) => {
                    // That it came, to whom, and how long it is; not how it is encoded.
                    self.mix(u64::from(reader.0) << 32 | message.len() as u64);
                    self.seats[reader.0 as usize].endpoint.handle_control(self.now, id.flow(), &message);
                    self.pump(reader);
                }
                Some(Item::Datagram(_)) => self.leave_tunnel(id, direction.to_receiver()),
                Some(Item::End) => self.disconnect(id, reader),
            }
        }
    }

    pub(crate) fn on_control_timer(&mut self, id: TransferId) {
        let now = self.now;
        let running = &mut self.transfers[id.0 as usize];
        // All timers are checked, regardless of which one fired.
        let mut stands = |tunnel| {
            running
                .streams(tunnel)
                .is_none_or(|streams| streams.to_receiver.on_timeout(now) & streams.to_sender.on_timeout(now))
        };
        if !(stands(false) & stands(true)) {
            return self.break_stream(id);
        }
        let (component, due) = (running.component, running.due());
        self.network.agenda.schedule(component, due);
        for tunnel in [false, true] {
            for to_receiver in [true, false] {
                self.send_segments(Direction::new(id, tunnel, to_receiver));
            }
        }
    }

    /// The control stream has ended: both ends are told.
    pub(crate) fn break_stream(&mut self, id: TransferId) {
        self.close_stream(id);
        for receiver in [false, true] {
            let end = self.transfers[id.0 as usize].end(receiver);
            self.disconnect(id, end);
        }
    }

    pub(crate) fn close_stream(&mut self, id: TransferId) {
        let running = &mut self.transfers[id.0 as usize];
        running.streams = None;
        running.tunnel = None;
        self.network.agenda.schedule(running.component, None);
        self.tunnels.retain(|of| *of != id);
    }

    /// Tells an endpoint that a flow's control stream has ended; it may have forgotten the flow already.
    pub(crate) fn disconnect(&mut self, id: TransferId, endpoint: EndpointId) {
        self.keep_stats(id);
        let command = Command::Disconnect { flow: id.flow() };
        if self.seats[endpoint.0 as usize].endpoint.command(self.now, command).is_ok() {
            self.pump(endpoint);
        }
    }
}
