//! The payload of a handshake: twelve words.

use std::net::IpAddr;

use super::header::{ParseError, SocketId, put};
use super::sequence::{SEQUENCES, Sequence};

/// The version of the protocol.
pub const VERSION: u32 = 4;

/// Bytes of the payload.
const LEN: usize = 48;

/// The content of a connection. Both ends must want the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A stream of bytes, as TCP's.
    #[default]
    Stream,
    /// Messages with boundaries.
    Message,
}

impl Kind {
    // The draft counts from 0, libudt from 1.
    const fn code(self) -> u32 {
        match self {
            Self::Stream => 1,
            Self::Message => 2,
        }
    }

    const fn of(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Stream),
            2 => Some(Self::Message),
            _ => None,
        }
    }
}

/// The purpose of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// 1: a client asks for a cookie, or a listener gives one.
    Request,
    /// 0: one side of a rendezvous looks for the other.
    Rendezvous,
    /// -1: a client shows its cookie; a listener, or one side of a rendezvous, agrees.
    Agreement,
    /// -2: a connected side of a rendezvous repeats that it agrees.
    Confirmation,
    /// 1002: the listener does not want this connection.
    Rejection,
}

impl HandshakeKind {
    const fn code(self) -> i32 {
        match self {
            Self::Request => 1,
            Self::Rendezvous => 0,
            Self::Agreement => -1,
            Self::Confirmation => -2,
            Self::Rejection => 1002,
        }
    }

    fn of(code: i32) -> Option<Self> {
        let all = [Self::Request, Self::Rendezvous, Self::Agreement, Self::Confirmation, Self::Rejection];
        all.into_iter().find(|kind| kind.code() == code)
    }
}

/// A handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The version of UDT. libudt writes 0 when a connected end repeats its handshake.
    pub version: u32,
    /// The content of the connection. `None` if libudt leaves it out: when a connected end repeats its handshake.
    pub kind: Option<Kind>,
    /// Number of the first data packet of the sender of this, and of both directions unless it is a rendezvous.
    pub initial_sequence: Sequence,
    /// Largest packet, in bytes, headers of IP, UDP and UDT included.
    pub mss: u16,
    /// Most packets that the sender of this takes in before it has acknowledged some.
    pub window: u32,
    /// Its purpose.
    pub step: HandshakeKind,
    /// The socket id by which its sender is addressed.
    pub socket: SocketId,
    /// What proves that a client gets packets at its address.
    pub cookie: u32,
    /// The IP address of the other side, as the sender of this sees it.
    pub peer: [u32; 4],
}

impl Handshake {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let (words, _) = payload.get(..LEN).ok_or(ParseError::Short)?.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let field = ParseError::Field;
        let kind = match word(1) {
            0 => None,
            code => Some(Kind::of(code).ok_or(field("socket type"))?),
        };
        Ok(Self {
            version: word(0),
            kind,
            initial_sequence: Sequence::parse(word(2)).ok_or(field("initial sequence number"))?,
            mss: u16::try_from(word(3)).map_err(|_| field("MSS"))?,
            window: Some(word(4)).filter(|window| (1..SEQUENCES).contains(window)).ok_or(field("window"))?,
            step: HandshakeKind::of(word(5) as i32).ok_or(field("request type"))?,
            socket: SocketId::new(word(6)).ok_or(field("socket id"))?,
            cookie: word(7),
            peer: [word(8), word(9), word(10), word(11)],
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let kind = self.kind.map_or(0, Kind::code);
        let Self { version, initial_sequence, mss, window, step, socket, cookie, peer, .. } = *self;
        let (sequence, step) = (initial_sequence.get(), step.code() as u32);
        put(out, &[version, kind, sequence, u32::from(mss), window, step, socket.get(), cookie]);
        put(out, &peer);
    }

    /// An address as [`Handshake::peer`] has it. libudt copies the octets into words of its machine and swaps them on
    /// the way out, so each word is little-endian.
    pub fn address(address: IpAddr) -> [u32; 4] {
        match address.to_canonical() {
            IpAddr::V4(v4) => [u32::from_le_bytes(v4.octets()), 0, 0, 0],
            IpAddr::V6(v6) => {
                let mut words = [0; 4];
                let octets = v6.octets();
                for (word, octets) in words.iter_mut().zip(octets.as_chunks::<4>().0) {
                    *word = u32::from_le_bytes(*octets);
                }
                words
            }
        }
    }
}
