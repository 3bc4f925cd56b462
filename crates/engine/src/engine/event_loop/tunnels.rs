//! Flows' second way, where UDP does not pass: see [`Tunnel`].
//!
//! A client says by which of its ways a flow's datagrams leave. A server follows: they leave by the way by which the
//! client's came last, and the tunnel has an address of its own for the flow's endpoint, which validates it like any
//! other. So neither end sends over a way before the other can hear it there.
//!
//! The tunnel's address is port 0 of the client.

use std::net::SocketAddr;

use inhaul_base::Time;
use inhaul_transport::{Command, FlowId};

use super::outside::{Kernel, Outside};
use super::{Engine, PortId};
use crate::engine::channel::Channel;
use crate::engine::port::Port;
use crate::engine::tunnel::Tunnel;
use inhaul_session::api::error::MoveError;
use inhaul_session::session::control_stream::ControlStream;

impl<O: Outside> Engine<O> {
    /// When a datagram of the flow came last.
    pub(crate) fn heard(&self, flow: FlowId) -> Option<Time> {
        self.flows.get(&flow).map(|of| of.ways.heard())
    }

    /// Gives a flow a tunnel; datagrams do not leave over it yet.
    pub(super) fn add_tunnel(&mut self, flow: FlowId, tunnel: impl Into<O::Socket>) -> Result<(), MoveError> {
        let mut port = Port::tunnel(tunnel);
        port.flow = Some(flow);
        let id = self.add_port(port)?;
        if let Some(of) = self.flows.get_mut(&flow) {
            of.ways.tunnel = Some(id);
        }
        Ok(())
    }

    /// Has a receiver's flow go over its tunnel, or over UDP again. Its endpoint is told, and opens its path anew, to
    /// `peer` if its sender is known by another address from now on.
    pub(crate) fn turn_to(&mut self, flow: FlowId, tunnel: bool, peer: Option<SocketAddr>) {
        let Some(of) = self.flows.get(&flow) else { return };
        of.ways.turn_to(self.now(), tunnel);
        let endpoint = of.endpoint;
        self.command(endpoint, Command::ChangePath { flow, reliable: tunnel, peer });
    }

    /// Gives a flow another socket for its datagrams, of which it is the only one.
    pub fn replace_port(&mut self, flow: FlowId, port: Port<O::Socket>) -> Result<(), MoveError> {
        let id = self.add_port(port)?;
        let former = self.flows.get(&flow).map(|of| of.port);
        self.settle_at(flow, id);
        if let Some(former) = former.filter(|former| self.ports.get(former).is_some_and(|p| p.flow == Some(flow))) {
            self.ports.remove(&former);
        }
        Ok(())
    }

    /// The flow has no tunnel any more.
    pub(crate) fn drop_tunnel(&mut self, flow: FlowId) {
        let Some(of) = self.flows.get_mut(&flow) else { return };
        if let Some(tunnel) = of.ways.tunnel.take() {
            self.ports.remove(&tunnel);
        }
    }

    /// A tunnel's streams have all ended.
    pub(super) fn close_tunnel(&mut self, id: PortId) {
        if let Some(flow) = self.ports.get(&id).and_then(|port| port.flow) {
            self.drop_tunnel(flow);
        }
    }
}

impl Engine<Kernel> {
    /// Adds a stream to the flow's tunnel, and makes one if there is none: what comes over it is shown to come from
    /// `peer`. False if it has as many as may be.
    pub fn attach_stream(&mut self, flow: FlowId, peer: SocketAddr, stream: ControlStream) -> Result<bool, MoveError> {
        let failed = |source| MoveError::System { what: "datagrams cannot go over a stream", source };
        let Some(of) = self.flows.get(&flow) else { return Ok(false) };
        if let Some(port) = of.ways.tunnel.and_then(|id| self.ports.get(&id)) {
            let Channel::Tunnel(tunnel) = &port.socket else { return Ok(false) };
            return tunnel.add(stream).map_err(failed);
        }
        let tunnel = Tunnel::new(peer, stream.local()).map_err(failed)?;
        tunnel.add(stream).map_err(failed)?;
        self.add_tunnel(flow, tunnel)?;
        Ok(true)
    }

    /// What comes over the flow's tunnel is shown to come from `peer` from now on.
    pub(crate) fn show_tunnel_as(&self, flow: FlowId, peer: SocketAddr) {
        let port = self.flows.get(&flow).and_then(|of| self.ports.get(&of.ways.tunnel?));
        if let Some(Channel::Tunnel(tunnel)) = port.map(|port| &port.socket) {
            tunnel.show_as(peer);
        }
    }

    /// How many streams the flow's tunnel has.
    pub fn tunnel_streams(&self, flow: FlowId) -> usize {
        let port = self.flows.get(&flow).and_then(|of| self.ports.get(&of.ways.tunnel?));
        port.map_or(0, |port| if let Channel::Tunnel(tunnel) = &port.socket { tunnel.streams() } else { 0 })
    }

    /// What streams show that carry the flow's datagrams: see [`ControlStream::tunnel_token`].
    pub fn tunnel_token(&self, flow: FlowId) -> Option<u128> {
        self.flows.get(&flow)?.stream.tunnel_token()
    }

    /// What probes show by which the flow's client says where its datagrams come from.
    pub fn probe_token(&self, flow: FlowId) -> Option<u64> {
        self.flows.get(&flow)?.stream.probe_token()
    }

    /// Our end of the flow's control stream.
    pub fn control_local(&self, flow: FlowId) -> Option<SocketAddr> {
        self.flows.get(&flow).map(|of| of.stream.local())
    }

    /// The round-trip time of the flow's control stream, as the kernel knows it.
    pub fn control_rtt(&self, flow: FlowId) -> Option<inhaul_base::Span> {
        let counts = inhaul_udp::tcp_counts(self.flows.get(&flow)?.stream.wire()).ok()?;
        Some(inhaul_base::Span::from_micros(u64::from(counts.rtt_us)))
    }
}
