//! The terms of each end of a connection, and their agreement.

use std::net::{IpAddr, SocketAddr};

use crate::wire::{
    HEADER_LEN, Handshake, HandshakeKind, IP_UDP_LEN, IPV6_EXTRA_LEN, Kind, Sequence, SocketId, VERSION,
};

/// The smallest MSS: a handshake must fit (libudt takes no smaller one either).
pub const MSS_MIN: u16 = (IP_UDP_LEN + HEADER_LEN + 48) as u16;

/// The largest window that counts, in packets: more than any path needs, and memory for it is bounded.
pub const WINDOW_MAX: u32 = 1 << 20;

/// One end's terms for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The content of the connection.
    pub kind: Kind,
    /// Largest packet, in bytes, headers of IP, UDP and UDT included. The smaller one of both ends counts.
    pub mss: u16,
    /// Most packets that this end takes in before it has acknowledged some.
    pub window: u32,
}

impl Terms {
    /// Terms, brought into the limits that the wire has.
    pub fn new(kind: Kind, mss: u16, window: u32) -> Self {
        Self { kind, mss: mss.max(MSS_MIN), window: window.clamp(2, WINDOW_MAX) }
    }

    /// The terms for a connection with `peer`. UDT counts 28 bytes for the headers of IP and UDP, over IPv6 too. So the
    /// MSS is reduced by the longer header of IPv6, and packets have the same length on the wire. (libudt does not
    /// reduce it. Its packets are then fragmented; ours must not be.)
    #[must_use]
    pub fn toward(self, peer: IpAddr) -> Self {
        let extra = if peer.to_canonical().is_ipv4() { 0 } else { IPV6_EXTRA_LEN as u16 };
        Self { mss: self.mss.saturating_sub(extra).max(MSS_MIN), ..self }
    }
}

/// What both ends of a connection agreed on, from the view of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The content of the connection.
    pub kind: Kind,
    /// Largest packet, in bytes, headers of IP, UDP and UDT included.
    pub mss: u16,
    /// Most packets that may be on their way to the peer at first.
    pub peer_window: u32,
    /// Most packets that this end takes in.
    pub window: u32,
    /// Number of the first data packet that this end sends.
    pub first_sent: Sequence,
    /// Number of the first data packet that comes.
    pub first_expected: Sequence,
    /// The name of this end.
    pub local: SocketId,
    /// The name of the peer.
    pub remote: SocketId,
    /// Where the peer is.
    pub peer: SocketAddr,
    /// Both sides connected to each other; there was no listener.
    pub rendezvous: bool,
}

impl Agreement {
    /// The handshake by which this end repeats its agreement.
    pub fn handshake(&self) -> Handshake {
        Handshake {
            version: VERSION,
            kind: Some(self.kind),
            initial_sequence: self.first_sent,
            mss: self.mss,
            window: self.window,
            step: if self.rendezvous { HandshakeKind::Confirmation } else { HandshakeKind::Agreement },
            socket: self.local,
            cookie: 0,
            peer: Handshake::address(self.peer.ip()),
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No valid answer came in time.
    #[error("no answer came in time; check the address and the port, and that no firewall drops UDP")]
    TimedOut,
    /// The listener refused.
    #[error(
        "the other side refused the connection: it is full or closing, or one side wants a stream and the other messages"
    )]
    Rejected,
    /// The other side speaks another version.
    #[error("the other side speaks version {0} of UDT, this is version 4")]
    Version(u32),
    /// The other side wants the other kind of connection.
    #[error("one side wants a stream and the other messages")]
    Kind,
    /// The answer does not belong to the request: an error of the other side, or a forgery.
    #[error("the other side answered with other numbers than it was asked with")]
    Mismatch,
}
