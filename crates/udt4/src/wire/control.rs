//! Control packets.

use super::data::MessageNumber;
use super::handshake::Handshake;
use super::header::{CONTROL, ParseError, Stamp, put, put_header};
use super::sequence::Sequence;

/// In a loss list, the first number of a range has this bit, and its last number follows.
const RANGE: u32 = 1 << 31;

/// A word of nothing: libudt gives packets without a payload one.
const PADDING: u32 = 0;

/// A control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control<'p> {
    /// Time and destination.
    pub stamp: Stamp,
    /// Its content.
    pub body: ControlBody<'p>,
}

/// The content of a control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlBody<'p> {
    /// 0: setting up a connection.
    Handshake(Handshake),
    /// 1: the sender is still there.
    KeepAlive,
    /// 2: all packets before a number have come, and how the way looks.
    Ack(Ack),
    /// 2, with the first word only: all packets before this number have come.
    LightAck(Sequence),
    /// 3: packets that have not come.
    Nak(Vec<LossRange>),
    /// 4: the delay grows. Neither libudt nor this crate sends it; a receiver of it slows down.
    CongestionWarning,
    /// 5: the connection ends.
    Shutdown,
    /// 6: the [`Ack`] with this number has come.
    Ack2(u32),
    /// 7: these packets of a message will not come; it took too long.
    Drop {
        /// The message.
        message: MessageNumber,
        /// The first and the last packet to wait for no more.
        range: LossRange,
    },
    /// 8: the application at the other side cannot take in more.
    PeerError(u32),
    /// 0x7FFF: what applications and congestion controls made up themselves.
    User {
        /// Its type.
        code: u16,
        /// The second word of the header.
        info: u32,
        /// Its content.
        payload: &'p [u8],
    },
}

/// Packets from `first` to `last`, both included. Numbers wrap: `last` may be the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRange {
    /// The first.
    pub first: Sequence,
    /// The last.
    pub last: Sequence,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Its own number, which an ACK2 returns.
    pub number: u32,
    /// All packets before this one have come.
    pub next: Sequence,
    /// Round-trip time, in microseconds.
    pub rtt: u32,
    /// Its variance, in microseconds.
    pub rtt_variance: u32,
    /// Free space of the receive buffer, in packets.
    pub window: u32,
    /// The receiver's measurements. Absent if the last full ACK was less than 10 ms ago.
    pub capacity: Option<Capacity>,
}

/// A receiver's measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// How fast packets come, in packets per second. 0: not known.
    pub arrival: u32,
    /// What packet pairs say of the link, in packets per second. 0: not known.
    pub link: u32,
}

/// libudt reads these words as signed numbers.
fn positive(word: u32, name: &'static str) -> Result<u32, ParseError> {
    if word > i32::MAX as u32 { Err(ParseError::Field(name)) } else { Ok(word) }
}

impl<'p> ControlBody<'p> {
    pub(super) fn parse(first: u32, info: u32, payload: &'p [u8]) -> Result<Self, ParseError> {
        let kind = (first >> 16) as u16 & 0x7fff;
        Ok(match kind {
            0 => Self::Handshake(Handshake::parse(payload)?),
            1 => Self::KeepAlive,
            2 => parse_ack(info, payload)?,
            3 => Self::Nak(parse_losses(payload)?),
            4 => Self::CongestionWarning,
            5 => Self::Shutdown,
            6 => Self::Ack2(info),
            7 => {
                let sequence = |at| Sequence::parse(word(payload, at)?).ok_or(ParseError::Field("sequence number"));
                let range = LossRange { first: sequence(0)?, last: sequence(1)? };
                Self::Drop { message: MessageNumber::truncate(info), range }
            }
            8 => Self::PeerError(info),
            0x7fff => Self::User { code: first as u16, info, payload },
            other => return Err(ParseError::Type(other)),
        })
    }

    const fn kind(&self) -> u16 {
        match self {
            Self::Handshake(_) => 0,
            Self::KeepAlive => 1,
            Self::Ack(_) | Self::LightAck(_) => 2,
            Self::Nak(_) => 3,
            Self::CongestionWarning => 4,
            Self::Shutdown => 5,
            Self::Ack2(_) => 6,
            Self::Drop { .. } => 7,
            Self::PeerError(_) => 8,
            Self::User { .. } => 0x7fff,
        }
    }
}

impl Control<'_> {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        use ControlBody as Body;
        let code = if let Body::User { code, .. } = self.body { code } else { 0 };
        let first = CONTROL | u32::from(self.body.kind()) << 16 | u32::from(code);
        let info = match self.body {
            Body::Ack(ack) => ack.number,
            Body::Ack2(number) => number,
            Body::Drop { message, .. } => message.get(),
            Body::PeerError(code) => code,
            Body::User { info, .. } => info,
            _ => 0,
        };
        put_header(out, first, info, self.stamp);
        match &self.body {
            Body::Handshake(handshake) => handshake.emit(out),
            Body::Ack(ack) => {
                put(out, &[ack.next.get(), ack.rtt, ack.rtt_variance, ack.window]);
                if let Some(Capacity { arrival, link }) = ack.capacity {
                    put(out, &[arrival, link]);
                }
            }
            Body::LightAck(next) => put(out, &[next.get()]),
            Body::Nak(ranges) => put_losses(out, ranges),
            Body::Drop { range, .. } => put(out, &[range.first.get(), range.last.get()]),
            Body::User { payload, .. } => out.extend_from_slice(payload),
            Body::KeepAlive | Body::CongestionWarning | Body::Shutdown | Body::Ack2(_) | Body::PeerError(_) => {
                put(out, &[PADDING]);
            }
        }
    }
}

fn parse_ack<'p>(number: u32, payload: &[u8]) -> Result<ControlBody<'p>, ParseError> {
    let next = Sequence::parse(word(payload, 0)?).ok_or(ParseError::Field("sequence number"))?;
    if payload.len() < 8 {
        return Ok(ControlBody::LightAck(next));
    }
    let capacity = if payload.len() >= 24 {
        let arrival = positive(word(payload, 4)?, "arrival speed")?;
        Some(Capacity { arrival, link: positive(word(payload, 5)?, "link capacity")? })
    } else {
        None
    };
    Ok(ControlBody::Ack(Ack {
        number,
        next,
        rtt: positive(word(payload, 1)?, "RTT")?,
        rtt_variance: positive(word(payload, 2)?, "RTT variance")?,
        window: positive(word(payload, 3)?, "window")?,
        capacity,
    }))
}

fn parse_losses(payload: &[u8]) -> Result<Vec<LossRange>, ParseError> {
    let field = ParseError::Field("loss list");
    let mut words = payload.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes));
    let mut ranges = Vec::with_capacity(words.len());
    while let Some(word) = words.next() {
        let first = Sequence::truncate(u64::from(word & !RANGE));
        let last = if word & RANGE == 0 { first } else { words.next().and_then(Sequence::parse).ok_or(field)? };
        ranges.push(LossRange { first, last });
    }
    if ranges.is_empty() { Err(ParseError::Short) } else { Ok(ranges) }
}

fn put_losses(out: &mut Vec<u8>, ranges: &[LossRange]) {
    for LossRange { first, last } in ranges {
        if first == last {
            put(out, &[first.get()]);
        } else {
            put(out, &[first.get() | RANGE, last.get()]);
        }
    }
}

/// Word number `at` of a payload.
fn word(payload: &[u8], at: usize) -> Result<u32, ParseError> {
    payload.as_chunks::<4>().0.get(at).map(|bytes| u32::from_be_bytes(*bytes)).ok_or(ParseError::Short)
}
