//! The engine's sockets: the one that takes connections, and those that datagrams come and go over.

use std::net::TcpListener;

use inhaul_base::Time;
use inhaul_transport::FlowId;
use inhaul_udp::{DatagramSocket, Interest};

use super::outside::{Outside, Source};
use super::{ACCEPTS_A_TURN, Application, Engine, LISTENER, PORTS, PortId};
#[cfg(test)]
use crate::engine::ids::EndpointId;
use crate::engine::listener::{Accepted, Listener};
use crate::engine::port::{Blocked, NO_PORT, Port};
use inhaul_session::api::error::MoveError;
use inhaul_session::system::sockets::{Ends, with_port};

impl<O: Outside> Engine<O> {
    /// Has the engine take connections.
    pub fn listen(&mut self, listener: TcpListener) -> Result<(), MoveError> {
        listener.set_nonblocking(true).map_err(MoveError::system("cannot listen"))?;
        let listener = Listener::new(listener);
        let added = self.outside.add(Source::Listener(&listener), LISTENER, Interest::Read);
        added.map_err(MoveError::system("cannot listen"))?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Datagrams that the kernel has dropped before they were read, at the ports that are open now.
    pub fn kernel_drops(&self) -> u64 {
        self.ports.values().map(|port| port.receiver.kernel_drops()).sum()
    }

    /// Datagrams that were sent since the start.
    pub fn datagrams_sent(&self) -> u64 {
        self.pulse.sent()
    }

    /// Takes no connections any more.
    pub fn stop_listening(&mut self) {
        // Dropping it closes it, and with that the poller forgets it.
        self.listener = None;
    }

    pub(super) fn accept(&mut self, app: &mut dyn Application<O>) -> Result<(), MoveError> {
        for _ in 0..ACCEPTS_A_TURN {
            let now = self.now();
            let Some(listener) = &mut self.listener else { break };
            match listener.accept(now) {
                // The listener's mode is not inherited everywhere.
                Accepted::Client(tcp) if tcp.set_nonblocking(false).is_ok() => app.on_accept(self, tcp)?,
                Accepted::Client(_) | Accepted::SentAway => {}
                Accepted::Nobody => break,
                Accepted::Paused => {
                    let removed = self.outside.remove(Source::Listener(listener));
                    removed.map_err(MoveError::system("cannot stop listening"))?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits for connections again after a pause.
    pub(super) fn resume_listening(&mut self) {
        let now = self.now();
        match &mut self.listener {
            Some(listener) if listener.resumes().is_some_and(|resumes| resumes <= now) => {
                listener.resume();
                if let Err(error) = self.outside.add(Source::Listener(listener), LISTENER, Interest::Read) {
                    listener.pause(now, &error);
                }
            }
            _ => {}
        }
    }

    /// Has the engine receive from and send over a socket.
    pub fn add_port(&mut self, port: Port<O::Socket>) -> Result<PortId, MoveError> {
        let id = PortId(self.next_number());
        let added = self.outside.add(Source::Socket(&port.socket), PORTS + u64::from(id.0), Interest::Read);
        added.map_err(MoveError::system("cannot wait for a socket"))?;
        self.ports.insert(id, port);
        Ok(id)
    }

    /// Gives the endpoint of a foreign protocol a port for itself: what comes in there is its own, and all its flows
    /// leave by it.
    #[cfg(test)]
    pub(crate) fn add_foreign_port(&mut self, endpoint: EndpointId, socket: O::Socket) -> Result<PortId, MoveError> {
        let id = self.add_port(Port::for_foreign(socket, endpoint))?;
        self.endpoints[endpoint.0].port = Some(id);
        Ok(id)
    }

    /// Gives each flow of the port `shared` a socket of its own, which `branch` makes for our address and the peer's,
    /// and gives the port up: somebody else may read it from now on. Returns the flows that have no peer yet, or no
    /// socket.
    pub fn branch_off(&mut self, shared: PortId, branch: &dyn Fn(Ends) -> Result<O::Socket, MoveError>) -> Vec<FlowId> {
        let Some(number) = self.ports.get(&shared).map(|port| port.socket.local_address().port()) else {
            return Vec::new();
        };
        let flows: Vec<FlowId> = self.flows.iter().filter(|(_, of)| of.port == shared).map(|(&flow, _)| flow).collect();
        let mut left = Vec::new();
        for flow in flows {
            let of = &self.flows[&flow];
            let local = with_port(of.stream.local(), number);
            let Some(peer) = self.endpoints[of.endpoint.0].endpoint.peer(flow) else {
                left.push(flow);
                continue;
            };
            // It goes over its tunnel.
            if peer.port() == NO_PORT {
                continue;
            }
            let ends = Ends { local, peer }.asked_at(self.connections.asked(flow));
            match branch(ends).and_then(|socket| self.add_port(Port::new(socket, true))) {
                Ok(own) => self.settle_at(flow, own),
                Err(error) => {
                    log::warn!("{peer}: its flow gets no socket of its own: {error}");
                    left.push(flow);
                }
            }
        }
        // Dropping it closes it, and with that the poller forgets it.
        self.ports.remove(&shared);
        left
    }

    /// From now on a flow's datagrams come and go over the connected port `own`.
    pub(super) fn settle_at(&mut self, flow: FlowId, own: PortId) {
        if let (Some(of), Some(port)) = (self.flows.get_mut(&flow), self.ports.get_mut(&own)) {
            of.port = own;
            port.flow = Some(flow);
        }
    }

    /// Waits for sockets to be writable whose buffers are full, and for no others.
    pub(super) fn watch_blocked(&mut self) -> Result<(), MoveError> {
        for (id, port) in &mut self.ports {
            let is_full = port.blocked == Some(Blocked::Full);
            if is_full != port.watched {
                let interest = if is_full { Interest::ReadWrite } else { Interest::Read };
                let changed = self.outside.modify(Source::Socket(&port.socket), PORTS + u64::from(id.0), interest);
                changed.map_err(MoveError::system("cannot wait for a socket"))?;
                port.watched = is_full;
            }
        }
        Ok(())
    }

    /// The network may take more: sends what waits for the socket.
    pub(super) fn unblock(&mut self, id: PortId, now: Time, app: &mut dyn Application<O>) {
        let Some(port) = self.ports.get_mut(&id) else { return };
        port.blocked = None;
        let mut failures = Vec::new();
        port.send_rest(now, &mut self.connections, &mut self.seals, app.bodies(), &mut failures);
        self.take_failures(failures);
    }

    /// Asks the network again where the system had no memory; says whether there was such a socket.
    pub(super) fn retry_blocked(&mut self, now: Time, app: &mut dyn Application<O>) -> bool {
        let is_due = |(_, port): &(&PortId, &Port<O::Socket>)| port.retries_at().is_some_and(|at| at <= now);
        let due: Vec<PortId> = self.ports.iter().filter(is_due).map(|(&id, _)| id).collect();
        due.iter().for_each(|&id| self.unblock(id, now, app));
        !due.is_empty()
    }
}
