//! A flow, as the engine has it.

use std::cell::Cell;
use std::net::SocketAddr;

use inhaul_base::Time;
use inhaul_transport::Role;

use super::outside::Wire;
use crate::engine::ids::{EndpointId, PortId};
use crate::engine::port::NO_PORT;
use inhaul_session::session::control_stream::ControlStream;

/// A flow's control stream and its place among endpoints and sockets.
pub(super) struct Flow<W> {
    pub(super) endpoint: EndpointId,
    pub(super) port: PortId,
    /// Its tunnel, if it has one beside its port.
    pub(super) ways: Ways,
    pub(super) stream: ControlStream<W>,
    /// The endpoint knows the flow: what its peer's transport says before that is kept.
    pub(super) has_begun: bool,
    pub(super) waits_to_write: bool,
    /// Since when the connection has taken nothing of what waits, and how much it had taken by then.
    pub(super) read: (Time, u64),
    /// It stands among the engine's `unread`.
    pub(super) is_unread: bool,
    /// The stream is closed once all is sent, or at this time.
    pub(super) closing: Option<Time>,
    /// The log has it that its datagrams are too large for the interface.
    pub(super) warned_of_size: bool,
}

impl<W: Wire> Flow<W> {
    /// Takes note of whether the peer has read since this was asked last.
    pub(super) fn note_reading(&mut self, now: Time) {
        let taken = self.stream.taken_bytes();
        if taken != self.read.1 {
            self.read = (now, taken);
        }
    }
}

/// A flow's ways out.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) tunnel: Option<PortId>,
    /// Datagrams leave over the tunnel.
    in_tunnel: Cell<bool>,
    /// When a datagram of the flow came last, by any way.
    heard: Cell<Time>,
    /// They leave by the way by which the peer's came last.
    follows: bool,
}

impl Ways {
    /// The ways of a flow whose endpoint has this role: senders follow their receivers.
    pub(super) fn new(now: Time, role: Role) -> Self {
        let follows = role == Role::Sender;
        Self { tunnel: None, in_tunnel: Cell::new(false), heard: Cell::new(now), follows }
    }

    /// Datagrams leave over the tunnel from now on, or over it no more.
    pub(super) fn turn_to(&self, now: Time, tunnel: bool) {
        self.in_tunnel.set(tunnel);
        self.heard.set(now);
    }

    /// When a datagram of the flow came last.
    pub(super) fn heard(&self) -> Time {
        self.heard.get()
    }

    /// A datagram of the flow came by `port`.
    pub(super) fn hear(&self, now: Time, port: PortId) {
        self.heard.set(now);
        if self.follows && self.tunnel.is_some() {
            self.in_tunnel.set(self.tunnel == Some(port));
        }
    }
}

impl<W> Flow<W> {
    /// By which port what goes to `to` leaves.
    pub(super) fn way_to(&self, to: SocketAddr) -> Option<PortId> {
        match self.ways.tunnel {
            Some(tunnel) if to.port() == NO_PORT || self.ways.in_tunnel.get() => Some(tunnel),
            _ if to.port() == NO_PORT => None,
            _ => Some(self.port),
        }
    }
}
