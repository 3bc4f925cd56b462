//! Control streams in the network: segments out and in, messages to their endpoints, and how a stream ends.

use inhaul_transport::{Command, FlowId};

use crate::control::{Item, Segment};
use crate::packet::Load;
use crate::{EndpointId, Simulation, TransferId};

impl Simulation {
    /// An endpoint writes to the control stream of a flow.
    pub(crate) fn write(&mut self, from: EndpointId, flow: FlowId, item: Item) {
        let Some(running) = self.transfers.get_mut(flow.0 as usize) else { return };
        let to_receiver = from == running.transfer.sender;
        let Some(streams) = &mut running.streams else { return };
        streams.direction(to_receiver).write(item);
        self.send_segments(TransferId(flow.0), to_receiver);
    }

    /// Sends what one direction of a control stream may send.
    fn send_segments(&mut self, id: TransferId, to_receiver: bool) {
        let Some(running) = self.transfers.get_mut(id.0 as usize) else { return };
        let Some(streams) = &mut running.streams else { return };
        while let Some(segment) = streams.direction(to_receiver).poll_segment(self.now) {
            let (at_sender, at_receiver) = running.control_nodes;
            let (from, to) = if to_receiver { (at_sender, at_receiver) } else { (at_receiver, at_sender) };
            let load = Load::Control { transfer: id, to_receiver, segment };
            let packet = self.network.pool.packet(to, segment.wire_bytes(), load, (&[], &[]));
            self.network.send(self.now, from, packet);
        }
        self.network.agenda.schedule(running.component, streams.due());
    }

    /// A segment has arrived at one end, and what it brings is read.
    pub(crate) fn on_segment(&mut self, id: TransferId, to_receiver: bool, segment: Segment) {
        self.take_segment(id, to_receiver, segment);
        if matches!(segment, Segment::Data(_)) {
            self.read(id, to_receiver);
        }
    }

    /// A segment has arrived at one end: what its kernel does by itself.
    pub(crate) fn take_segment(&mut self, id: TransferId, to_receiver: bool, segment: Segment) {
        self.mix(self.now.as_nanos());
        self.mix(u64::from(id.0) << 1 | u64::from(to_receiver));
        let running = &mut self.transfers[id.0 as usize];
        // After the end, segments may still be on their way.
        let Some(streams) = &mut running.streams else { return };
        match segment {
            // An acknowledgement is of the direction that its packet did not take.
            Segment::Ack(through) => {
                streams.direction(!to_receiver).on_ack(self.now, through);
                self.send_segments(id, !to_receiver);
            }
            Segment::Data(range) => {
                let acknowledgement = streams.direction(to_receiver).on_data(range);
                self.acknowledge(id, to_receiver, acknowledgement);
            }
        }
    }

    fn acknowledge(&mut self, id: TransferId, to_receiver: bool, segment: Segment) {
        let (at_sender, at_receiver) = self.transfers[id.0 as usize].control_nodes;
        let (from, to) = if to_receiver { (at_receiver, at_sender) } else { (at_sender, at_receiver) };
        let load = Load::Control { transfer: id, to_receiver: !to_receiver, segment };
        let packet = self.network.pool.packet(to, segment.wire_bytes(), load, (&[], &[]));
        self.network.send(self.now, from, packet);
    }

    /// Hands the messages over that have come in whole.
    pub(crate) fn read(&mut self, id: TransferId, to_receiver: bool) {
        loop {
            let running = &mut self.transfers[id.0 as usize];
            let reader = running.end(to_receiver);
            let item = running.streams.as_mut().and_then(|streams| streams.direction(to_receiver).pop_item());
            match item {
                None => return,
                Some(Item::Message(message)) => {
                    message.iter().for_each(|byte| self.mix(u64::from(*byte)));
                    self.seats[reader.0 as usize].endpoint.handle_control(self.now, id.flow(), &message);
                    self.pump(reader);
                }
                Some(Item::End) => self.disconnect(id, reader),
            }
        }
    }

    pub(crate) fn on_control_timer(&mut self, id: TransferId) {
        let running = &mut self.transfers[id.0 as usize];
        let stands = running.streams.as_mut().is_none_or(|streams| {
            // Both timers are looked at, whichever went off.
            streams.to_receiver.on_timeout(self.now) & streams.to_sender.on_timeout(self.now)
        });
        if !stands {
            return self.break_stream(id);
        }
        let component = running.component;
        let due = running.streams.as_ref().and_then(|streams| streams.due());
        self.network.agenda.schedule(component, due);
        self.send_segments(id, true);
        self.send_segments(id, false);
    }

    /// The control stream is no more: both ends are told.
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
        self.network.agenda.schedule(running.component, None);
    }

    /// Tells an endpoint that a flow's control stream has ended; it may have forgotten the flow by itself.
    pub(crate) fn disconnect(&mut self, id: TransferId, endpoint: EndpointId) {
        self.keep_stats(id);
        let command = Command::Disconnect { flow: id.flow() };
        if self.seats[endpoint.0 as usize].endpoint.command(self.now, command).is_ok() {
            self.pump(endpoint);
        }
    }
}
