//! UDT's own messages in inhaul's datagrams, beside the common ones ([`inhaul_transport::kit::wire`]). PROTOCOL.md
//! sections 3 and 4 give the layouts.

use inhaul_base::{Bitrate, Span};
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{OWN_MESSAGES, Reader, WireError, rate_field};

use super::control_name::ControlName;

/// Version of the protocol: stands in both set-up messages.
pub const VERSION: u8 = 1;
/// Length of a data header behind the envelope, in bytes.
pub const HEADER_LEN: usize = 12;
/// Largest object, in bytes: the data header has 56 bits for its place.
pub const OBJECT_MAX: u64 = 1 << OFFSET_BITS;
/// Most words of a NAK.
pub const NAK_WORDS_MAX: usize = 15;
/// Largest window that is ever told, in packets: far less than half of the packet numbers on the wire.
pub const WINDOW_MAX: u32 = 1_000_000;

/// The first byte of a data header has this bit, and the logarithm of the window in the others.
const DATA: u8 = 0x80;
const LIGHT_ACK: u8 = 8;
const ACK: u8 = 9;
const NAK: u8 = 10;
const ACK2: u8 = 11;
const WARNING: u8 = 12;
const OFFSET_BITS: u32 = 56;
/// Bits of packet numbers.
const NUMBER_MASK: u32 = u32::MAX >> 1;
const RATE: u8 = OWN_MESSAGES;
const RESTART: u8 = OWN_MESSAGES + 1;

/// The header of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The sender's window is at most two to this power, in bytes: tells the receiver how far ahead to ask.
    pub window_log: u8,
    /// Where its bytes start in the object.
    pub offset: u64,
    /// The low 31 bits of its number. Sent again, it has the same.
    pub number: u32,
}

impl DataHeader {
    /// Writes the header.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let first = u64::from(DATA | self.window_log & !DATA) << OFFSET_BITS | self.offset & (OBJECT_MAX - 1);
        let mut head = [0; HEADER_LEN];
        head[..8].copy_from_slice(&first.to_be_bytes());
        head[8..].copy_from_slice(&(self.number & NUMBER_MASK).to_be_bytes());
        head
    }
}

impl DataHead for DataHeader {
    const LEN: usize = HEADER_LEN;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader(bytes.first_chunk::<HEADER_LEN>()?);
        let (first, number) = (fields.u64().ok()?, fields.u32().ok()?);
        let kind = (first >> OFFSET_BITS) as u8;
        (kind & DATA != 0 && number <= NUMBER_MASK).then_some(Self {
            window_log: kind & !DATA,
            offset: first & (OBJECT_MAX - 1),
            number,
        })
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    /// Next in number.
    fn leads_to(&self, next: &Self, packets: u64) -> bool {
        next.number == self.number.wrapping_add(packets as u32) & NUMBER_MASK
    }
}

/// A datagram of UDT's own that carries no data. Numbers are the low 31 bits of packets'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Small {
    /// A full ACK.
    Ack {
        /// Its own number.
        ack: u32,
        /// The first packet that has not come.
        next: u32,
        /// Round-trip time, and its variation; whole microseconds.
        rtt: Span,
        /// Its variation.
        rtt_variation: Span,
        /// How many packets from `next` on the receiver takes, at most [`WINDOW_MAX`].
        window: u32,
        /// Arrival speed, packets a second; 0: not known.
        arrival_speed: u32,
        /// Capacity of the path, packets a second; 0: not known.
        capacity: u32,
    },
    /// A light ACK.
    LightAck {
        /// The first packet that has not come.
        next: u32,
    },
    /// Missing packets, in UDT's compressed form: at most [`NAK_WORDS_MAX`] words.
    Nak(Vec<u32>),
    /// The delay grows, as the answer to this ACK showed.
    Warning {
        /// The ACK's number.
        ack: u32,
    },
    /// An answer to a full ACK. The only one from the sender to the receiver.
    Ack2 {
        /// The ACK's number.
        ack: u32,
    },
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

impl Small {
    /// Reads a datagram. `None`: it is another kind's, or not exactly one of these.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let rest = rest.strip_prefix(&[0; 3])?;
        let mut r = Reader(rest);
        let small = match kind {
            LIGHT_ACK => Self::LightAck { next: number(&mut r)? },
            ACK => Self::Ack {
                ack: r.u32().ok()?,
                next: number(&mut r)?,
                rtt: Span::from_micros(r.u32().ok()?.into()),
                rtt_variation: Span::from_micros(r.u32().ok()?.into()),
                window: r.u32().ok().filter(|window| *window <= WINDOW_MAX)?,
                arrival_speed: r.u32().ok()?,
                capacity: r.u32().ok()?,
            },
            NAK => {
                let (words, over) = r.rest().as_chunks::<4>();
                let legal = over.is_empty() && (1..=NAK_WORDS_MAX).contains(&words.len());
                return legal.then(|| Self::Nak(words.iter().map(|word| u32::from_be_bytes(*word)).collect()));
            }
            ACK2 => Self::Ack2 { ack: r.u32().ok()? },
            WARNING => Self::Warning { ack: r.u32().ok()? },
            _ => return None,
        };
        r.end().ok().map(|()| small)
    }

    /// Writes the datagram.
    pub fn emit(&self) -> Vec<u8> {
        let (kind, words): (u8, &[u32]) = match self {
            Self::LightAck { next } => (LIGHT_ACK, &[next & NUMBER_MASK]),
            &Self::Ack { ack, next, rtt, rtt_variation, window, arrival_speed, capacity } => (
                ACK,
                &[
                    ack,
                    next & NUMBER_MASK,
                    micros(rtt),
                    micros(rtt_variation),
                    window.min(WINDOW_MAX),
                    arrival_speed,
                    capacity,
                ],
            ),
            Self::Nak(words) => (NAK, words),
            Self::Ack2 { ack } => (ACK2, &[*ack]),
            Self::Warning { ack } => (WARNING, &[*ack]),
        };
        let mut bytes = Vec::with_capacity(4 + words.len() * 4);
        bytes.extend([kind, 0, 0, 0]);
        words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        bytes
    }
}

fn number(r: &mut Reader<'_>) -> Option<u32> {
    r.u32().ok().filter(|number| *number <= NUMBER_MASK)
}

/// Reads the receiver's addition to Setup: the congestion control for the sender.
///
/// # Errors
/// When there is no such control, or something follows.
pub fn setup_control(mut r: Reader<'_>) -> Result<ControlName, WireError> {
    let control = ControlName::from_code(r.u8()?).ok_or(WireError::Value)?;
    r.end().map(|()| control)
}

/// A control message of UDT's own. Both go from the receiver to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnMessage {
    /// Forget everything that was requested, sent or not. The flow continues with packet `from`; all packets before it
    /// count as acknowledged. Full-size packets no longer passed the path, and packets are never cut anew.
    Restart {
        /// The low 31 bits of the number: behind every packet that the receiver would have taken so far.
        from: u32,
    },
    /// From now on, data may leave no faster than this.
    Rate {
        /// The rate, headers from IP up included; `None`: no limit, zero on the wire.
        rate: Option<Bitrate>,
    },
}

impl OwnMessage {
    /// Reads the message of this kind.
    ///
    /// # Errors
    /// When there is no such kind, or it is not exactly one legal message.
    pub fn parse(kind: u8, mut r: Reader<'_>) -> Result<Self, WireError> {
        let message = match kind {
            RATE => Self::Rate { rate: r.rate()? },
            RESTART => Self::Restart { from: number(&mut r).ok_or(WireError::Value)? },
            _ => return Err(WireError::Kind),
        };
        r.end().map(|()| message)
    }

    /// Writes the whole message.
    pub fn emit(&self) -> Vec<u8> {
        match *self {
            Self::Rate { rate } => [&[RATE][..], &rate_field(rate)].concat(),
            Self::Restart { from } => [&[RESTART][..], &(from & NUMBER_MASK).to_be_bytes()].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_transport::kit::wire::PathDatagram;
    use proptest::prelude::*;

    fn small() -> impl Strategy<Value = Small> {
        let span = || any::<u32>().prop_map(|us| Span::from_micros(us.into()));
        let ack = (any::<u32>(), 0..=NUMBER_MASK, span(), span(), 0..=WINDOW_MAX, any::<(u32, u32)>());
        prop_oneof![
            (0..=NUMBER_MASK).prop_map(|next| Small::LightAck { next }),
            any::<u32>().prop_map(|ack| Small::Ack2 { ack }),
            any::<u32>().prop_map(|ack| Small::Warning { ack }),
            prop::collection::vec(any::<u32>(), 1..=NAK_WORDS_MAX).prop_map(Small::Nak),
            ack.prop_map(|(ack, next, rtt, rtt_variation, window, (arrival_speed, capacity))| {
                Small::Ack { ack, next, rtt, rtt_variation, window, arrival_speed, capacity }
            }),
        ]
    }

    proptest! {
        #[test]
        fn data_comes_back_as_it_was(window_log in 0u8..128, number in 0..=NUMBER_MASK, offset in 0..OBJECT_MAX) {
            let data = DataHeader { window_log, offset, number };
            prop_assert_eq!(DataHeader::parse(&data.emit()), Some(data));
            prop_assert_eq!(DataHeader::parse(&data.emit()[..HEADER_LEN - 1]), None);
            prop_assert_eq!(Small::parse(&data.emit()), None);
        }

        #[test]
        fn small_comes_back_as_it_was_and_not_when_cut_or_lengthened(small in small()) {
            let bytes = small.emit();
            prop_assert_eq!(Small::parse(&bytes), Some(small));
            prop_assert_eq!(DataHeader::parse(&bytes), None);
            prop_assert!(PathDatagram::parse(&bytes).is_none());
            prop_assert_eq!(Small::parse(&[&bytes[..], &[0]].concat()), None);
            if bytes[0] != NAK {
                prop_assert_eq!(Small::parse(&bytes[..bytes.len() - 1]), None);
            }
        }

        #[test]
        fn messages_come_back_as_they_were_and_not_when_cut_or_lengthened(from in 0..=NUMBER_MASK, bps in 1u64..) {
            let rate = Some(Bitrate::from_bps(bps));
            for message in [OwnMessage::Restart { from }, OwnMessage::Rate { rate }, OwnMessage::Rate { rate: None }] {
                let bytes = message.emit();
                let (&kind, body) = bytes.split_first().unwrap();
                prop_assert_eq!(OwnMessage::parse(kind, Reader(body)), Ok(message));
                prop_assert!(OwnMessage::parse(kind, Reader(&body[1..])).is_err());
                prop_assert_eq!(OwnMessage::parse(kind, Reader(&[body, &[0]].concat())), Err(WireError::Trailing));
            }
        }
    }

    #[test]
    fn parse_refuses_what_is_not_legal() {
        assert_eq!(Small::parse(&[NAK, 0, 0, 0]), None, "a NAK of nothing");
        assert_eq!(Small::parse(&[&[NAK, 0, 0, 0][..], &[0; 4 * (NAK_WORDS_MAX + 1)]].concat()), None);
        assert_eq!(Small::parse(&[LIGHT_ACK, 0, 0, 0, 0x80, 0, 0, 0]), None, "32 bits");
        assert_eq!(OwnMessage::parse(RESTART, Reader(&[0x80, 0, 0, 0])), Err(WireError::Value));
        assert_eq!(OwnMessage::parse(RESTART + 1, Reader(&[])), Err(WireError::Kind));
        assert_eq!(setup_control(Reader(&[0])), Err(WireError::Value));
        assert_eq!(setup_control(Reader(&[])), Err(WireError::Short));
    }
}
