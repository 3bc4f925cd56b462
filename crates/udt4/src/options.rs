//! Options of an endpoint and its connections.

use inhaul_base::Span;

use crate::handshake::Terms;
use crate::wire::Kind;

/// How the connections of an endpoint are. The defaults are libudt's, where it has such an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Stream or messages. Both ends of a connection must want the same.
    pub kind: Kind,
    /// Largest packet, in bytes, headers of IP (20), UDP (8) and UDT (16) included. The smaller one of both ends counts.
    /// Over IPv6, 20 bytes less are agreed on, for its longer header. Larger packets than the path carries are lost:
    /// nothing finds its MTU.
    pub mss: u16,
    /// Most packets on their way to this end, however large its buffer is.
    pub flow_window: u32,
    /// Most packets that `write` and `send_message` may hold until the peer has them, for each connection. A stream
    /// holds at most 64 packets and twice the packets that the peer has acknowledged so far.
    pub send_buffer: usize,
    /// Most received packets that may wait to be read, for each connection. A peer can make this end hold this number,
    /// times the MSS, in memory.
    pub receive_buffer: usize,
    /// How long a connection to a listener may take to set up.
    pub connect_timeout: Span,
    /// How long to wait for the other side of a rendezvous.
    pub rendezvous_timeout: Span,
    /// How long a closed connection may still send written data. Then the rest is discarded.
    pub linger: Span,
    /// If nothing is heard from the other side for this time, the connection is broken. Each side sends something each
    /// second at least.
    pub peer_timeout: Span,
    /// Most connections of the endpoint at once. Further clients are refused.
    pub connections_max: usize,
    /// Most connections that clients of one address may have with a listener at once; of IPv6, clients of one network
    /// of 64 bits. Further ones are refused.
    pub connections_per_host: usize,
    /// If set, a listener hands a connection out once its client has sent something and has acknowledged something, and
    /// ends it if that takes longer than this. For servers that have nothing to say unasked. If not, as soon as it is
    /// set up, as libudt does.
    pub request_timeout: Option<Span>,
    /// Limit on the buffers of all connections together, in bytes. When it is reached, each connection continues with
    /// 16 packets to send and 32 to receive.
    pub memory_max: usize,
    /// Whether the kernel may join and cut datagrams, where it can. Nothing of it shows on the wire.
    pub offload: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kind: Kind::Stream,
            mss: 1500,
            flow_window: 25_600,
            send_buffer: 8192,
            receive_buffer: 8192,
            connect_timeout: Span::from_secs(3),
            rendezvous_timeout: Span::from_secs(30),
            linger: Span::from_secs(180),
            peer_timeout: Span::from_secs(40),
            connections_max: 1000,
            connections_per_host: 64,
            request_timeout: None,
            memory_max: 256 << 20,
            offload: true,
        }
    }
}

impl Options {
    /// Their values in a handshake.
    pub(crate) fn terms(&self) -> Terms {
        let buffer = u32::try_from(self.receive_buffer).unwrap_or(u32::MAX);
        Terms::new(self.kind, self.mss, buffer.min(self.flow_window))
    }
}
