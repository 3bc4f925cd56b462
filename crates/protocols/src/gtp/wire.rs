//! GTP's own messages, beside the common ones ([`inhaul_transport::kit::wire`]): the header of data, the edge,
//! additions to the set-up messages, rates. PROTOCOL.md sections 3 and 4 give the layouts.

use inhaul_base::{Bitrate, Span};
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{OWN_MESSAGES, Reader, WireError, rate_field};

/// Version of the protocol. It stands in both set-up messages.
pub const VERSION: u8 = 4;
/// Length of the headers of data and edge behind the envelope, in bytes. No other datagram is shorter.
pub const HEADER_LEN: usize = 24;
/// Rates asked for are never above this, and are never taken for more: "as fast as you can".
pub const RATE_MAX: Bitrate = Bitrate::from_gbps(1_000);
/// A block's length is a multiple of this many bytes.
pub const BLOCK_GRAIN: u16 = 8;

const DATA: u8 = 1;
const EDGE: u8 = 2;
const RATE: u8 = OWN_MESSAGES;
const LIMIT: u8 = OWN_MESSAGES + 1;
const HOLD: u8 = OWN_MESSAGES + 2;

/// The header of a data packet: a unit data block (UDB) follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The rate at which it was sent, by its epoch.
    pub epoch: u16,
    /// The request that it answers.
    pub request: u32,
    /// Where its block starts in the object, in bytes.
    pub offset: u64,
    /// The sender's clock, in nanoseconds. Packets of one burst carry the same value.
    pub sent: u64,
}

impl DataHeader {
    /// Writes the header. There is one for each packet of a transfer, so it is three whole words.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let words =
            [u64::from(DATA) << 56 | u64::from(self.epoch) << 32 | u64::from(self.request), self.offset, self.sent];
        let mut head = [0; HEADER_LEN];
        for (bytes, word) in head.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        head
    }
}

/// The words of a header of this kind.
fn words(kind: u8, bytes: &[u8]) -> Option<[u64; 3]> {
    let head: &[u8; HEADER_LEN] = bytes.first_chunk()?;
    let (words, _) = head.as_chunks::<8>();
    let words = [words[0], words[1], words[2]].map(u64::from_be_bytes);
    (head[0] == kind).then_some(words)
}

impl DataHead for DataHeader {
    const LEN: usize = HEADER_LEN;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let [counts, offset, sent] = words(DATA, bytes)?;
        Some(Self { epoch: (counts >> 32) as u16, request: counts as u32, offset, sent })
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    /// In answer to the same request, at the same rate.
    fn leads_to(&self, next: &Self, _packets: u64) -> bool {
        next.request == self.request && next.epoch == self.epoch
    }
}

/// Sender to receiver: every request up to `request` has been answered, nothing is left to send. Repeated until there
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The rate in force, by its epoch.
    pub epoch: u16,
    /// The last request that has been answered.
    pub request: u32,
}

impl Edge {
    /// Reads the datagram. `None`: it is another kind's.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [counts, _, _] = words(EDGE, bytes)?;
        Some(Self { epoch: (counts >> 32) as u16, request: counts as u32 })
    }

    /// Writes the datagram.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let Self { epoch, request } = *self;
        let mut head = DataHeader { epoch, request, offset: 0, sent: 0 }.emit();
        head[0] = EDGE;
        head
    }
}

/// The receiver's addition to Setup (gtp-2004 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupMore {
    /// Bytes that the receiver's socket buffer holds.
    pub receive_buffer: u64,
    /// The receiver's capacity (C_r); `None` if unknown.
    pub access_rate: Option<Bitrate>,
    /// Limit of the receiver's application (R_app).
    pub application_rate: Option<Bitrate>,
}

impl SetupMore {
    /// Reads it.
    ///
    /// # Errors
    /// When it is cut short or something follows.
    pub fn parse(mut r: Reader<'_>) -> Result<Self, WireError> {
        let more = Self { receive_buffer: r.u64()?, access_rate: r.rate()?, application_rate: r.rate()? };
        r.end().map(|()| more)
    }

    /// Writes it.
    pub fn emit(&self) -> Vec<u8> {
        let rates = [rate_field(self.access_rate), rate_field(self.application_rate)];
        [self.receive_buffer.to_be_bytes(), rates[0], rates[1]].concat()
    }
}

/// Reads the sender's addition to Accept: its limit for this receiver (R_send).
///
/// # Errors
/// When it is cut short or something follows.
pub fn accept_rate(mut r: Reader<'_>) -> Result<Option<Bitrate>, WireError> {
    let rate = r.rate()?;
    r.end().map(|()| rate)
}

/// A control message of GTP's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnMessage {
    /// Receiver to sender: from now on send at this rate, in bursts of at most `burst` bytes, and mark packets with the
    /// epoch.
    Rate {
        /// Counts changes of the rate.
        epoch: u16,
        /// The rate, headers from IP up included. Not zero.
        rate: Bitrate,
        /// Most bytes that may leave back to back.
        burst: u32,
    },
    /// Sender to receiver: R_send for this receiver has changed.
    Limit {
        /// The new limit.
        send_rate: Option<Bitrate>,
    },
    /// Receiver to sender: send no data for a while, because the receiver's host will not take it in then
    /// (rbudp-plus-2006 4: when to stop, and for how long).
    Hold {
        /// The epoch of data that is sent after the hold has begun.
        epoch: u16,
        /// How long after this message comes it begins.
        after: Span,
        /// How long it lasts.
        length: Span,
    },
}

impl OwnMessage {
    /// Reads the message of this kind.
    ///
    /// # Errors
    /// When there is no such kind, or it is not exactly one legal message.
    pub fn parse(kind: u8, mut r: Reader<'_>) -> Result<Self, WireError> {
        let message = match kind {
            RATE => {
                let (epoch, rate, burst) = (r.u16()?, r.rate()?, r.u32()?);
                Self::Rate { epoch, rate: rate.ok_or(WireError::Value)?, burst }
            }
            LIMIT => Self::Limit { send_rate: r.rate()? },
            HOLD => Self::Hold { epoch: r.u16()?, after: micros(r.u32()?), length: micros(r.u32()?) },
            _ => return Err(WireError::Kind),
        };
        r.end().map(|()| message)
    }

    /// Writes the whole message.
    pub fn emit(&self) -> Vec<u8> {
        match *self {
            Self::Rate { epoch, rate, burst } => {
                let mut out = Vec::with_capacity(15);
                out.push(RATE);
                out.extend(epoch.to_be_bytes());
                out.extend(rate.bps().to_be_bytes());
                out.extend(burst.to_be_bytes());
                out
            }
            Self::Limit { send_rate } => [&[LIMIT][..], &rate_field(send_rate)].concat(),
            Self::Hold { epoch, after, length } => {
                let micros = |span: Span| u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX).to_be_bytes();
                [&[HOLD][..], &epoch.to_be_bytes(), &micros(after), &micros(length)].concat()
            }
        }
    }
}

/// A field of microseconds.
fn micros(field: u32) -> Span {
    Span::from_micros(field.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate() -> impl Strategy<Value = Option<Bitrate>> {
        prop::option::of((1..u64::MAX).prop_map(Bitrate::from_bps))
    }

    fn own() -> impl Strategy<Value = OwnMessage> {
        let set_rate = (any::<u16>(), 1..u64::MAX, any::<u32>()).prop_map(|(epoch, rate, burst)| OwnMessage::Rate {
            epoch,
            rate: Bitrate::from_bps(rate),
            burst,
        });
        let hold = any::<(u16, u32, u32)>().prop_map(|(epoch, after, length)| OwnMessage::Hold {
            epoch,
            after: micros(after),
            length: micros(length),
        });
        prop_oneof![set_rate, rate().prop_map(|send_rate| OwnMessage::Limit { send_rate }), hold]
    }

    proptest! {
        #[test]
        fn headers_come_back_as_they_were(
            (epoch, request, offset, sent) in any::<(u16, u32, u64, u64)>()
        ) {
            let data = DataHeader { epoch, request, offset, sent };
            prop_assert_eq!(DataHeader::parse(&data.emit()), Some(data));
            prop_assert_eq!(Edge::parse(&data.emit()), None);
            let edge = Edge { epoch, request };
            prop_assert_eq!(Edge::parse(&edge.emit()), Some(edge));
            prop_assert_eq!(DataHeader::parse(&edge.emit()), None);
            prop_assert_eq!(DataHeader::parse(&data.emit()[..HEADER_LEN - 1]), None);
        }

        #[test]
        fn messages_come_back_as_they_were_and_not_when_cut_or_lengthened(message in own()) {
            let bytes = message.emit();
            let (&kind, body) = bytes.split_first().unwrap();
            prop_assert_eq!(OwnMessage::parse(kind, Reader(body)), Ok(message));
            for cut in 0..body.len() {
                prop_assert_eq!(OwnMessage::parse(kind, Reader(&body[..cut])), Err(WireError::Short));
            }
            prop_assert_eq!(OwnMessage::parse(kind, Reader(&[body, &[0]].concat())), Err(WireError::Trailing));
        }

        #[test]
        fn additions_to_set_up_come_back_as_they_were(receive_buffer in any::<u64>(), access in rate(), wanted in rate()) {
            let more = SetupMore { receive_buffer, access_rate: access, application_rate: wanted };
            prop_assert_eq!(SetupMore::parse(Reader(&more.emit())), Ok(more));
            prop_assert_eq!(accept_rate(Reader(&rate_field(access))), Ok(access));
        }
    }

    #[test]
    fn parse_refuses_what_is_not_legal() {
        assert_eq!(OwnMessage::parse(RATE, Reader(&[0; 14])), Err(WireError::Value), "a rate of zero");
        assert_eq!(OwnMessage::parse(HOLD + 1, Reader(&[])), Err(WireError::Kind));
        assert_eq!(DataHeader::parse(&[0x11; 24]), None, "another kind's");
    }
}
