//! Faults of programs and of the network: processes that end, addresses that change, and tunnels where datagrams do not
//! pass.

use inhaul_base::Span;
use inhaul_transport::{
    Command, CommandError, Endpoint, Event, FlowId, FlowStats, Place, RxMessage, TxBatch, kit::Connections,
};

use inhaul_base::Time;

use crate::control::{Item, Stream};
use crate::packet::Direction;
use crate::transfer::{Phase, Running, Tunnel};
use crate::{EndpointId, SimError, Simulation, TransferId};

/// Between two looks at an endpoint whose tunnel is full.
pub(crate) const TUNNEL_GAP: Span = Span::from_millis(1);

/// Whether a tunnel takes no more from one of its ends.
pub(crate) fn is_full(transfers: &mut [Running], id: TransferId, from: EndpointId) -> bool {
    let Some(running) = transfers.get_mut(id.0 as usize) else { return false };
    let to_receiver = from == running.transfer.sender;
    let is_end = to_receiver || from == running.transfer.receiver;
    is_end && running.tunnel.as_mut().is_some_and(|tunnel| tunnel.is_full(to_receiver))
}

impl Simulation {
    /// The process of an endpoint ends.
    pub(crate) fn crash(&mut self, endpoint: EndpointId) {
        let of = |running: &Running| [running.transfer.sender, running.transfer.receiver].contains(&endpoint);
        let ended: Vec<_> = self.transfers().filter(|id| of(&self.transfers[id.0 as usize])).collect();
        ended.iter().for_each(|id| self.keep_stats(*id));
        let seat = &mut self.seats[endpoint.0 as usize];
        seat.endpoint = Box::new(Gone);
        seat.connections = Connections::default();
        self.network.agenda.schedule(seat.component, None);
        for id in ended {
            if let Some(tunnel) = &mut self.transfers[id.0 as usize].tunnel {
                tunnel.on = false;
            }
            self.tunnels.retain(|of| *of != id);
            self.write(endpoint, id.flow(), Item::End);
        }
    }

    /// An endpoint gets another address; datagrams to the old one are no longer read.
    pub(crate) fn rebind(&mut self, endpoint: EndpointId) -> Result<(), SimError> {
        let (host, old) = self.addresses[endpoint.0 as usize];
        let gone = self.endpoint(host, Box::new(Gone))?;
        let new = self.addresses[gone.0 as usize].1;
        self.addresses[endpoint.0 as usize].1 = new;
        self.addresses[gone.0 as usize].1 = old;
        for on_host in &mut self.hosts[host.0 as usize].endpoints {
            *on_host = match *on_host {
                id if id == endpoint => gone,
                id if id == gone => endpoint,
                id => id,
            };
        }
        Ok(())
    }

    /// Datagrams of a transfer take a tunnel from now on, or do not. A transfer without a control stream has none.
    pub(crate) fn tunnel(&mut self, id: TransferId, on: bool) {
        let running = &mut self.transfers[id.0 as usize];
        if running.phase != Phase::Running || running.streams.is_none() {
            return;
        }
        let (from, to) = running.control_nodes;
        let rtt = self.network.delay(&self.topology, from, to) + self.network.delay(&self.topology, to, from);
        let (mtu, window) = (running.transfer.mtu, self.control_window);
        running.tunnel.get_or_insert_with(|| Box::new(Tunnel::new(Stream::new(mtu, rtt, window)))).on = on;
        self.tunnels.retain(|of| *of != id);
        if on {
            self.tunnels.push(id);
        }
        let ends = [self.transfers[id.0 as usize].transfer.sender, self.transfers[id.0 as usize].transfer.receiver];
        ends.into_iter().for_each(|end| self.pump(end));
    }

    /// Sends the datagrams that an endpoint has put into tunnels.
    pub(crate) fn send_tunnelled(&mut self, from: EndpointId) {
        for index in 0..self.tunnels.len() {
            let transfer = self.tunnels[index];
            let of = &self.transfers[transfer.0 as usize].transfer;
            if [of.sender, of.receiver].contains(&from) {
                let to_receiver = from == of.sender;
                self.send_segments(Direction::new(transfer, true, to_receiver));
            }
        }
    }

    /// A tunnel's data has been acknowledged: an endpoint that has filled the tunnel may continue.
    pub(crate) fn has_room(&mut self, direction: Direction) {
        let end = self.transfers[direction.transfer.0 as usize].end(!direction.to_receiver());
        self.pump(end);
    }

    /// The next datagram comes out of a tunnel.
    pub(crate) fn leave_tunnel(&mut self, id: TransferId, to_receiver: bool) {
        let running = &mut self.transfers[id.0 as usize];
        let reader = running.end(to_receiver);
        let packet = running.tunnel.as_mut().and_then(|tunnel| tunnel.datagrams[usize::from(to_receiver)].pop_front());
        let Some(packet) = packet else { return };
        self.hand_over(reader, std::slice::from_ref(&packet));
        self.network.pool.put_back(packet.datagram);
    }
}

/// The rest of an endpoint whose process has ended.
struct Gone;

impl Endpoint for Gone {
    fn handle_datagrams(&mut self, _now: Time, _batch: &[RxMessage<'_>], _places: &mut Vec<Place>) {}

    fn handle_control(&mut self, _now: Time, _flow: FlowId, _message: &[u8]) {}

    fn handle_timeout(&mut self, _now: Time) {}

    fn command(&mut self, _now: Time, command: Command) -> Result<(), CommandError> {
        let Command::Disconnect { flow } = command else { return Err(CommandError::WrongRole) };
        Err(CommandError::UnknownFlow(flow))
    }

    fn poll_transmit(&mut self, _now: Time, _out: &mut TxBatch) {}

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn flow_stats(&self, _flow: FlowId) -> Option<FlowStats> {
        None
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}
