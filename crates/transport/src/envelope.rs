//! The header of every datagram of a session, for all protocols: the flow's connection id and the datagram's packet
//! number. kit/WIRE.md 5.1 gives the layout.
//!
//! The port writes it and reads it: protocols see only the rest of the datagram. The packet number never repeats within
//! a flow and a direction, even if the same bytes are sent again.
//!
//! The host that receives a datagram has chosen its connection id. The engine writes the envelope when datagrams are
//! staged (`udp/src/transmit/staged.rs`) and sorts arrivals by it (`engine/src/engine/demux.rs`). So one endpoint sees
//! a datagram, regardless of the number of endpoints and flows.

use std::ops::Range;

use crate::ids::ConnectionId;

/// Length of the envelope, in bytes.
pub const ENVELOPE_LEN: usize = 8;

/// Bytes that sealing adds to the end of a datagram: its tag.
pub const TAG_LEN: usize = 16;

/// Where the envelope has the connection id, and the checksum that is hidden in it: a datagram that was changed on its
/// way shows a connection that does not exist.
pub const CONNECTION_FIELD: Range<usize> = 4..8;

/// The envelope of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The low 32 bits of the packet number: counts the datagrams of the flow in this direction, from 0.
    pub number: u32,
    /// The flow, by the name that the host gave it which the datagram goes to.
    pub connection: ConnectionId,
}

impl Envelope {
    /// Writes it.
    pub fn emit(&self) -> [u8; ENVELOPE_LEN] {
        (u64::from(self.number) << 32 | u64::from(self.connection.0)).to_be_bytes()
    }

    /// A datagram of this envelope and `rest`, for code that makes datagrams by hand.
    pub fn before(&self, rest: &[u8]) -> Vec<u8> {
        [&self.emit()[..], rest].concat()
    }

    /// Reads it from the front of a datagram. `None`: it is too short to have one.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let word = u64::from_be_bytes(*datagram.first_chunk()?);
        Some(Self { number: (word >> 32) as u32, connection: ConnectionId(word as u32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelope_comes_back_as_it_was() {
        let envelope = Envelope { number: 0x0102_0304, connection: ConnectionId(0xC0FF_EE01) };
        let bytes = envelope.emit();
        assert_eq!(bytes, [1, 2, 3, 4, 0xC0, 0xFF, 0xEE, 1]);
        assert_eq!(Envelope::parse(&bytes), Some(envelope));
        assert_eq!(Envelope::parse(&bytes[..7]), None);
    }
}
