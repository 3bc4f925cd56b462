//! A packet of any kind.

use super::control::{Control, ControlBody};
use super::data::Data;
use super::header::{CONTROL, HEADER_LEN, ParseError, SocketId, Stamp};

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
    /// If it is no valid packet.
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

    /// Fields of every header.
    pub const fn stamp(&self) -> Stamp {
        match self {
            Self::Data(data) => data.stamp,
            Self::Control(control) => control.stamp,
        }
    }
}

fn words(header: &[u8; HEADER_LEN]) -> [u32; 4] {
    let (chunks, _) = header.as_chunks::<4>();
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u32::from_be_bytes(*chunk);
    }
    words
}
