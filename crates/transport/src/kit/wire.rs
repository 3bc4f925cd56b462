//! Messages common to all protocols: the datagrams that open a path, and the messages that set up a flow and request
//! ranges. WIRE.md beside this file specifies them.
//!
//! Everything from the network is parsed once, into types that hold only legal values.

use inhaul_base::{Bitrate, ByteRange};

use crate::ConnectionId;

/// Length of the datagrams that open a path, in bytes, without envelope and padding.
pub const PATH_HEADER_LEN: usize = 24;
/// Most ranges in one request.
pub const RANGES_MAX: usize = 64;
/// Smallest block that can be asked for, in bytes.
pub const BLOCK_MIN: u16 = 256;
/// Smallest path MTU that the protocols work with, in bytes: every IPv4 host must accept it.
pub const MTU_MIN: u16 = 576;
/// Kinds of control messages from here on are the protocol's own.
pub const OWN_MESSAGES: u8 = 16;

const PROBE: u8 = 3;
const ECHO: u8 = 4;
const OPEN: u8 = 5;
const RESPONSE: u8 = 6;

/// Why bytes from the network were not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It ends before its last field.
    #[error("message cut short")]
    Short,
    /// There is something behind its last field.
    #[error("bytes left over behind a message")]
    Trailing,
    /// Another version of the protocol.
    #[error("version {0} of the protocol")]
    Version(u8),
    /// A kind of message that does not exist.
    #[error("unknown kind of message")]
    Kind,
    /// A field holds a value that is not legal.
    #[error("illegal value of a field")]
    Value,
}

/// Reads fields in network byte order from the front of a message.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (front, rest) = self.0.split_first_chunk().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*front)
    }

    /// The next byte.
    ///
    /// # Errors
    /// Like the other fields: [`WireError::Short`] when the message ends before it.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.take().map(|[byte]| byte)
    }

    /// The next two bytes.
    ///
    /// # Errors
    /// See [`Reader::u8`].
    pub fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_be_bytes)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// See [`Reader::u8`].
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_be_bytes)
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// See [`Reader::u8`].
    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_be_bytes)
    }

    /// A rate; zero stands for "not known" or "no limit".
    ///
    /// # Errors
    /// See [`Reader::u8`].
    pub fn rate(&mut self) -> Result<Option<Bitrate>, WireError> {
        self.u64().map(|bps| (bps != 0).then_some(Bitrate::from_bps(bps)))
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Ends the message.
    ///
    /// # Errors
    /// When bytes are left.
    pub fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::Trailing) }
    }
}

/// A rate as a field: see [`Reader::rate`].
pub fn rate_field(rate: Option<Bitrate>) -> [u8; 8] {
    rate.map_or(0, Bitrate::bps).to_be_bytes()
}

/// A datagram that opens a path and keeps it open. Its envelope names the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathDatagram {
    /// Receiver to sender: opens the path through firewalls, measures its RTT and, by its padding, its MTU.
    Probe {
        /// The secret that the sender gave on the control channel.
        token: u64,
        /// Counts the receiver's probes.
        number: u32,
        /// The connection id for the answer: a probe may overtake Setup, which has the same.
        reply_to: ConnectionId,
    },
    /// Sender to receiver: the answer to a probe, of the same length.
    Echo {
        /// The probe's number.
        number: u32,
        /// Bytes of the probe behind its envelope, as it arrived.
        len: u16,
        /// The challenge that must be returned before the sender sends data to the probe's source address.
        challenge: u64,
    },
    /// Receiver to sender: returns an echo's challenge. Data may come to where this comes from.
    Response {
        /// The secret that the sender gave on the control channel.
        token: u64,
        /// The challenge.
        challenge: u64,
    },
    /// Sender to receiver, when it was the sender that connected: opens the path, and tells the receiver its address.
    Open {
        /// The secret that the sender gave on the control channel.
        token: u64,
    },
}

impl PathDatagram {
    /// Reads the part behind a datagram's envelope if it is one of these kinds. `None`: it is of another kind.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; PATH_HEADER_LEN] = bytes.first_chunk()?;
        let mut fields = Reader(&head[2..]);
        let (len, number) = (fields.u16().ok()?, fields.u32().ok()?);
        let (first, second) = (fields.u64().ok()?, fields.u64().ok()?);
        Some(match head[0] {
            PROBE => Self::Probe { token: first, number, reply_to: ConnectionId((second >> 32) as u32) },
            ECHO => Self::Echo { number, len, challenge: first },
            RESPONSE => Self::Response { token: first, challenge: second },
            OPEN => Self::Open { token: first },
            _ => return None,
        })
    }

    /// Writes the part behind the envelope.
    pub fn emit(&self) -> [u8; PATH_HEADER_LEN] {
        let (kind, len, number, first, second) = match *self {
            Self::Probe { token, number, reply_to } => (PROBE, 0, number, token, u64::from(reply_to.0) << 32),
            Self::Echo { number, len, challenge } => (ECHO, len, number, challenge, 0),
            Self::Response { token, challenge } => (RESPONSE, 0, 0, token, challenge),
            Self::Open { token } => (OPEN, 0, 0, token, 0),
        };
        let words = [u64::from(kind) << 56 | u64::from(len) << 32 | u64::from(number), first, second];
        let mut head = [0; PATH_HEADER_LEN];
        for (bytes, word) in head.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        head
    }
}

/// A message on the control channel. What protocols add to it they read and write themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Receiver to sender, first message: the receiver's path and settings.
    Setup {
        /// The connection id for the sender's datagrams.
        connection: ConnectionId,
        /// Largest IP packet that the receiver's side of the path is believed to carry, in bytes.
        mtu: u16,
        /// Size of the object as the receiver knows it, in bytes.
        size: u64,
        /// The protocol's part.
        more: &'a [u8],
    },
    /// Sender to receiver, first message: the path's address, and the sender's settings.
    Accept {
        /// The connection id for the receiver's datagrams.
        connection: ConnectionId,
        /// Secret that the datagrams which open the path must carry.
        token: u64,
        /// Largest IP packet that the sender's side of the path is believed to carry, in bytes.
        mtu: u16,
        /// Size of the object, in bytes.
        size: u64,
        /// The protocol's part.
        more: &'a [u8],
    },
    /// Receiver to sender: send these ranges, in this order, after all earlier requests.
    Request {
        /// Counts requests from 1 up, without gaps.
        id: u32,
        /// Each range is cut into blocks of this many bytes; the last may be shorter.
        block: u16,
        /// The ranges: not empty, at most [`RANGES_MAX`].
        ranges: Vec<ByteRange>,
    },
    /// Receiver to sender: forget all unsent ranges, up to this request.
    Cancel {
        /// The last request to forget.
        through: u32,
    },
    /// Receiver to sender: nothing more is needed.
    Close,
    /// A message of the protocol's own.
    Own {
        /// Its kind: [`OWN_MESSAGES`] or more.
        kind: u8,
        /// Its content.
        body: &'a [u8],
    },
}

impl<'a> Message<'a> {
    /// Reads one whole message of the protocol's `version`.
    ///
    /// # Errors
    /// When it is not exactly one legal message of this version. What protocols add is not looked at.
    pub fn parse(version: u8, bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader(bytes);
        let checked = |r: &mut Reader<'_>| match r.u8()? {
            ours if ours == version => Ok(()),
            other => Err(WireError::Version(other)),
        };
        let message = match r.u8()? {
            1 => {
                checked(&mut r)?;
                Self::Setup { connection: ConnectionId(r.u32()?), mtu: r.u16()?, size: r.u64()?, more: r.rest() }
            }
            2 => {
                checked(&mut r)?;
                let connection = ConnectionId(r.u32()?);
                Self::Accept { connection, token: r.u64()?, mtu: r.u16()?, size: r.u64()?, more: r.rest() }
            }
            3 => Self::parse_request(&mut r)?,
            4 => Self::Cancel { through: r.u32()? },
            5 => Self::Close,
            kind @ OWN_MESSAGES.. => Self::Own { kind, body: r.rest() },
            _ => return Err(WireError::Kind),
        };
        r.end().map(|()| message)
    }

    fn parse_request(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let (id, block, count) = (r.u32()?, r.u16()?, usize::from(r.u16()?));
        if block < BLOCK_MIN || !(1..=RANGES_MAX).contains(&count) {
            return Err(WireError::Value);
        }
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let (start, len) = (r.u64()?, r.u64()?);
            let end = start.checked_add(len).filter(|_| len > 0).ok_or(WireError::Value)?;
            ranges.push(ByteRange::new(start, end));
        }
        Ok(Self::Request { id, block, ranges })
    }

    /// Writes the message as one of the protocol's `version`.
    pub fn emit(&self, version: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        match self {
            Self::Setup { connection, mtu, size, more } => {
                out.extend([1, version]);
                out.extend(connection.0.to_be_bytes());
                out.extend(mtu.to_be_bytes());
                out.extend(size.to_be_bytes());
                out.extend(*more);
            }
            Self::Accept { connection, token, mtu, size, more } => {
                out.extend([2, version]);
                out.extend(connection.0.to_be_bytes());
                out.extend(token.to_be_bytes());
                out.extend(mtu.to_be_bytes());
                out.extend(size.to_be_bytes());
                out.extend(*more);
            }
            Self::Request { id, block, ranges } => {
                out.push(3);
                out.extend(id.to_be_bytes());
                out.extend(block.to_be_bytes());
                out.extend((ranges.len() as u16).to_be_bytes());
                for range in ranges {
                    out.extend(range.start.to_be_bytes());
                    out.extend(range.len().to_be_bytes());
                }
            }
            Self::Cancel { through } => {
                out.push(4);
                out.extend(through.to_be_bytes());
            }
            Self::Close => out.push(5),
            Self::Own { kind, body } => {
                out.push(*kind);
                out.extend(*body);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VERSION: u8 = 3;

    fn datagram() -> impl Strategy<Value = PathDatagram> {
        let fields = any::<(u32, u64, u64, u32, u16)>();
        (0..4, fields).prop_map(|(kind, (id, token, challenge, number, len))| match kind {
            0 => PathDatagram::Probe { token, number, reply_to: ConnectionId(id) },
            1 => PathDatagram::Echo { number, len, challenge },
            2 => PathDatagram::Response { token, challenge },
            _ => PathDatagram::Open { token },
        })
    }

    proptest! {
        #[test]
        fn path_datagram_comes_back_as_it_was(datagram in datagram()) {
            let bytes = datagram.emit();
            prop_assert_eq!(PathDatagram::parse(&bytes), Some(datagram));
            prop_assert_eq!(PathDatagram::parse(&bytes[..PATH_HEADER_LEN - 1]), None);
        }

        #[test]
        fn parse_takes_any_bytes_and_what_it_understands_has_one_form(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PathDatagram::parse(&bytes);
            if let Ok(message) = Message::parse(VERSION, &bytes) {
                prop_assert_eq!(message.emit(VERSION), bytes);
            }
        }

        #[test]
        fn request_comes_back_as_it_was_and_not_when_cut(
            id in any::<u32>(),
            block in BLOCK_MIN..,
            ranges in prop::collection::vec((0..1u64 << 62, 1..1u64 << 62), 1..=RANGES_MAX),
        ) {
            let ranges = ranges.into_iter().map(|(start, len)| ByteRange::at(start, len)).collect();
            let message = Message::Request { id, block, ranges };
            let bytes = message.emit(VERSION);
            prop_assert_eq!(Message::parse(VERSION, &bytes), Ok(message));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Message::parse(VERSION, &bytes[..cut]), Err(WireError::Short));
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert_eq!(Message::parse(VERSION, &longer), Err(WireError::Trailing));
        }
    }

    #[test]
    fn set_up_messages_carry_what_the_protocol_adds() {
        for message in [
            Message::Setup { connection: ConnectionId(7), mtu: 9000, size: 1 << 40, more: &[1, 2, 3] },
            Message::Accept { connection: ConnectionId(8), token: u64::MAX, mtu: 1500, size: 5, more: &[] },
            Message::Own { kind: OWN_MESSAGES, body: &[9] },
            Message::Cancel { through: 7 },
            Message::Close,
        ] {
            let bytes = message.emit(VERSION);
            assert_eq!(Message::parse(VERSION, &bytes), Ok(message));
        }
        let setup = Message::Setup { connection: ConnectionId(7), mtu: 9000, size: 1, more: &[] }.emit(VERSION + 1);
        assert_eq!(Message::parse(VERSION, &setup), Err(WireError::Version(VERSION + 1)));
        assert_eq!(Message::parse(VERSION, &[6]), Err(WireError::Kind));
    }

    #[test]
    fn parse_refuses_requests_that_are_not_legal() {
        let parse = |block: u16, ranges: Vec<ByteRange>| {
            Message::parse(VERSION, &Message::Request { id: 1, block, ranges }.emit(VERSION)).map(|_| ())
        };
        assert_eq!(parse(1440, vec![]), Err(WireError::Value));
        assert_eq!(parse(1440, vec![ByteRange::at(5, 0)]), Err(WireError::Value));
        assert_eq!(parse(8, vec![ByteRange::at(5, 1)]), Err(WireError::Value));
        assert_eq!(parse(1440, vec![ByteRange::at(0, 1); RANGES_MAX + 1]), Err(WireError::Value));
        let mut beyond = Message::Request { id: 1, block: 1440, ranges: vec![ByteRange::at(1, 2)] }.emit(VERSION);
        let len = beyond.len();
        beyond[len - 8..].fill(0xff);
        assert_eq!(Message::parse(VERSION, &beyond), Err(WireError::Value));
    }
}
