//! UDT 4 on the wire: the format of packets, without their effects (draft-gg-udt-03 sections 3 and 4, and libudt 4.11
//! where it differs).
//!
//! Each datagram is one packet. All words are big-endian, those of control payloads too.
//!
//! ```text
//! data     0|sequence 31   FF|O|message 29   timestamp 32   destination 32   payload
//! control  1|type 15|ext 16  additional 32   timestamp 32   destination 32   words
//! ```
//!
//! Parsing takes any bytes. It returns only legal values, or a [`ParseError`]. The result never needs more memory than
//! the datagram.

mod control;
mod data;
mod handshake;
mod header;
mod packet;
mod sequence;
#[cfg(test)]
mod tests;

pub use control::{Ack, Capacity, Control, ControlBody, LossRange};
pub use data::{Data, MESSAGES, MessageNumber, Position};
pub use handshake::{Handshake, HandshakeKind, Kind, VERSION};
pub use header::{HEADER_LEN, IP_UDP_LEN, IPV6_EXTRA_LEN, ParseError, SocketId, Stamp, payload_len};
pub use packet::Packet;
pub use sequence::{SEQUENCES, Sequence};
