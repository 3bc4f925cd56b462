//! Runs the process of a host with a scheduler: its wake-ups, its work while it has the processor, and its endpoints'
//! notices of pauses to come.

use inhaul_transport::HostSample;

use crate::control::Segment;
use crate::ids::{EndpointId, NodeId};
use crate::packet::{Direction, Packet};
use crate::simulation::Simulation;

impl Simulation {
    /// The process has taken packets from the ring, or has been given the processor: it serves what waits, and sleeps
    /// if nothing is left.
    pub(crate) fn serve(&mut self, node: NodeId, served: &mut Vec<Packet>) {
        self.deliver_batch(served);
        for packet in std::mem::take(&mut self.hosts[node.0 as usize].dropped) {
            self.network.pool.put_back(packet.datagram);
        }
        self.tell(node);
        let host = &mut self.hosts[node.0 as usize];
        if !host.is_halted() {
            for direction in std::mem::take(&mut host.unread) {
                self.read(direction);
            }
            let host = &mut self.hosts[node.0 as usize];
            for id in std::mem::take(&mut host.postponed) {
                self.fire(id);
            }
        }
        self.rest(node);
    }

    /// A segment of a control stream has arrived: the kernel takes and acknowledges it, and its process reads the
    /// content.
    pub(crate) fn interrupt_for_segment(&mut self, node: NodeId, direction: Direction, segment: Segment) {
        self.hosts[node.0 as usize].take_segment(self.now);
        self.take_segment(direction, segment);
        let host = &mut self.hosts[node.0 as usize];
        if matches!(segment, Segment::Data(_)) {
            host.unread.push(direction);
            if host.wake(self.now) {
                self.serve(node, &mut Vec::new());
                return;
            }
        }
        self.network.agenda.schedule(host.component, host.due());
    }

    /// The deadline of an endpoint has come: its process does it when it has the processor.
    pub(crate) fn wake_process(&mut self, node: NodeId, id: EndpointId) {
        if self.hosts[node.0 as usize].wake(self.now) {
            self.tell(node);
        }
        // Where it does not run, this has the endpoint wait for it.
        self.fire(id);
        self.rest(node);
    }

    fn rest(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0 as usize];
        host.rest(self.now);
        self.network.agenda.schedule(host.component, host.due());
    }

    /// Tells the host's endpoints of a pause that is newly foreseen (rbudp-plus-2006 Figure 3).
    fn tell(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0 as usize];
        let Some(pause) = host.news().filter(|pause| host.pays(*pause)) else { return };
        let sample = HostSample { pause: Some(pause), ..HostSample::default() };
        for id in host.endpoints.clone() {
            self.seats[id.0 as usize].endpoint.handle_host(self.now, sample);
            self.pump(id);
        }
    }
}
