//! Data packets.

use super::header::{ParseError, Stamp, put_header};
use super::sequence::Sequence;

/// Message numbers are less than this.
pub const MESSAGES: u32 = 1 << 29;

const FIRST: u32 = 1 << 31;
const LAST: u32 = 1 << 30;
const ORDERED: u32 = 1 << 29;

/// The number of a message. Packets of one message have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageNumber(u32);

impl MessageNumber {
    /// The first that a connection uses.
    pub const FIRST: Self = Self(1);

    /// The low 29 bits of `word`.
    pub const fn truncate(word: u32) -> Self {
        Self(word & (MESSAGES - 1))
    }

    /// The number as it stands in a header.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number of the next message: 0 is left out, as libudt does.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 + 1 >= MESSAGES { Self::FIRST } else { Self(self.0 + 1) }
    }
}

/// Where in its message a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// It begins the message.
    pub first: bool,
    /// It ends the message.
    pub last: bool,
}

/// A data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'p> {
    /// Time and destination.
    pub stamp: Stamp,
    /// Its sequence number.
    pub sequence: Sequence,
    /// The message that it is of.
    pub message: MessageNumber,
    /// Where in the message.
    pub position: Position,
    /// Whether the message must wait for those before it.
    pub ordered: bool,
    /// The data, at least one byte.
    pub payload: &'p [u8],
}

impl<'p> Data<'p> {
    pub(super) fn parse(first: u32, second: u32, stamp: Stamp, payload: &'p [u8]) -> Result<Self, ParseError> {
        let sequence = Sequence::parse(first).ok_or(ParseError::Field("sequence number"))?;
        if payload.is_empty() {
            return Err(ParseError::Short);
        }
        Ok(Self {
            stamp,
            sequence,
            message: MessageNumber::truncate(second),
            position: Position { first: second & FIRST != 0, last: second & LAST != 0 },
            ordered: second & ORDERED != 0,
            payload,
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let flag = |set, bit| if set { bit } else { 0 };
        let Position { first, last } = self.position;
        let flags = flag(first, FIRST) | flag(last, LAST) | flag(self.ordered, ORDERED);
        put_header(out, self.sequence.get(), flags | self.message.get(), self.stamp);
        out.extend_from_slice(self.payload);
    }
}
