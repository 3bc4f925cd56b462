//! UDT 4 on the wire: what packets look like, and nothing about what they mean (draft-gg-udt-03 sections 3 and 4, and
//! what libudt 4.11 does where it differs).
//!
//! Each datagram is one packet. All words are big-endian, those of control payloads too.
//!
//! ```text
//! data     0|sequence 31   FF|O|message 29   timestamp 32   destination 32   payload
//! control  1|type 15|ext 16  additional 32   timestamp 32   destination 32   words
//! ```
//!
//! Parsing takes any bytes. It answers with legal values only, or with a [`ParseError`]. What it returns never needs
//! more memory than the datagram had.

mod control;
mod data;
mod handshake;
mod sequence;
#[cfg(test)]
mod tests;

pub use control::{Ack, Capacity, Control, ControlBody, LossRange};
pub use data::{Data, MESSAGES, MessageNumber, Position};
pub use handshake::{Handshake, HandshakeKind, Kind, VERSION};
pub use sequence::{SEQUENCES, Sequence};

/// Bytes of the header of every packet.
pub const HEADER_LEN: usize = 16;

/// Bytes of IPv4 and UDP headers. UDT counts them into the MSS, and counts so for IPv6 too.
pub const IP_UDP_LEN: usize = 28;

/// Most bytes that a data packet carries if packets have `mss` bytes, headers of IP, UDP and UDT included.
pub const fn payload_len(mss: u16) -> usize {
    (mss as usize).saturating_sub(IP_UDP_LEN + HEADER_LEN)
}

/// The name of one end of a connection: what the other end writes into each packet that is for it. Never 0: that
/// means a port that has no connection with the sender yet. libudt sees it as a signed number and takes positive ones
/// only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId(u32);

impl SocketId {
    /// The id `n`, unless it is one that libudt would not take.
    pub const fn new(n: u32) -> Option<Self> {
        if n == 0 || n > i32::MAX as u32 { None } else { Some(Self(n)) }
    }

    /// The id as it stands in a header.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Why bytes are no packet of UDT 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Shorter than a header, or than what its type needs.
    #[error("the packet is cut short")]
    Short,
    /// A control type that UDT 4 does not have.
    #[error("control packets have no type {0}")]
    Type(u16),
    /// A field has a value that it cannot have.
    #[error("the field {0} has a value that it cannot have")]
    Field(&'static str),
}

/// What every header has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was sent: microseconds since the sender's end of the connection was made, modulo 2^32.
    pub timestamp: u32,
    /// Which end it is for. `None` is 0 on the wire: a request to a port, for whom nobody there has a name yet.
    pub destination: Option<SocketId>,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'p> {
    /// A piece of the stream, or of a message.
    Data(Data<'p>),
    /// Anything else.
    Control(Control<'p>),
}

impl<'p> Packet<'p> {
    /// The packet that a datagram is.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(bytes: &'p [u8]) -> Result<Self, ParseError> {
        let (header, payload) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(ParseError::Short)?;
        let [first, second, timestamp, destination] = words(header);
        let destination = match destination {
            0 => None,
            id => Some(SocketId::new(id).ok_or(ParseError::Field("destination"))?),
        };
        let stamp = Stamp { timestamp, destination };
        if first & CONTROL == 0 {
            Ok(Self::Data(Data::parse(first, second, stamp, payload)?))
        } else {
            let body = ControlBody::parse(first, second, payload)?;
            Ok(Self::Control(Control { stamp, body }))
        }
    }

    /// Appends the packet to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data(data) => data.emit(out),
            Self::Control(control) => control.emit(out),
        }
    }

    /// What every header has.
    pub const fn stamp(&self) -> Stamp {
        match self {
            Self::Data(data) => data.stamp,
            Self::Control(control) => control.stamp,
        }
    }
}

/// The first bit of a control packet.
const CONTROL: u32 = 1 << 31;

fn words(header: &[u8; HEADER_LEN]) -> [u32; 4] {
    let (chunks, _) = header.as_chunks::<4>();
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u32::from_be_bytes(*chunk);
    }
    words
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_be_bytes());
    }
}

fn put_header(out: &mut Vec<u8>, first: u32, second: u32, stamp: Stamp) {
    put(out, &[first, second, stamp.timestamp, stamp.destination.map_or(0, SocketId::get)]);
}
