//! SABUL's own messages, beside the common ones ([`inhaul_transport::kit::wire`]). PROTOCOL.md section 3 gives the
//! layouts.

use inhaul_base::Bitrate;
use inhaul_transport::kit::receiver;
use inhaul_transport::kit::wire::{OWN_MESSAGES, Reader, WireError, rate_field};

use super::laws::LawName;

/// Version that stands in the set-up messages.
pub const VERSION: u8 = 1;
/// Length of a data header.
pub const HEADER_LEN: usize = 24;
/// Packets that a sender may have sent behind the first that is not acknowledged.
pub const WINDOW_PACKETS: u64 = 1 << 17;
/// Most ranges of one Err.
pub const ERR_RANGES_MAX: usize = 512;

const DATA: u8 = 1;
const RATE: u8 = OWN_MESSAGES;
const ACK: u8 = OWN_MESSAGES + 1;
const ERR: u8 = OWN_MESSAGES + 2;
const SYN: u8 = OWN_MESSAGES + 3;
const RESTART: u8 = OWN_MESSAGES + 4;

/// The header of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The rate that the sender's law wants, in kbit/s: how far ahead to ask.
    pub rate_kbps: u32,
    /// Counts blocks from 0. A block that is sent again has the number that it had.
    pub number: u64,
    /// Where the body starts in the object.
    pub offset: u64,
}

impl receiver::DataHead for DataHeader {
    const LEN: usize = HEADER_LEN;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER_LEN] = bytes.first_chunk().filter(|head| head[0] == DATA)?;
        let mut fields = Reader(&head[4..]);
        Some(Self { rate_kbps: fields.u32().ok()?, number: fields.u64().ok()?, offset: fields.u64().ok()? })
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn leads_to(&self, next: &Self, packets: u64) -> bool {
        next.number == self.number.wrapping_add(packets)
    }
}

impl DataHeader {
    /// Writes it.
    pub fn emit(self) -> [u8; HEADER_LEN] {
        let mut head = [0; HEADER_LEN];
        head[0] = DATA;
        head[4..8].copy_from_slice(&self.rate_kbps.to_be_bytes());
        head[8..16].copy_from_slice(&self.number.to_be_bytes());
        head[16..].copy_from_slice(&self.offset.to_be_bytes());
        head
    }
}

/// A control message of the protocol's own, all from receiver to sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnMessage {
    /// Keep to this rate as well as to the law's. `None`: to the law's alone.
    Rate {
        /// The rate, of whole IP packets.
        rate: Option<Bitrate>,
    },
    /// Every block before this one has come (SABUL's ACK).
    Ack {
        /// The first that has not.
        before: u64,
    },
    /// Blocks are missing (SABUL's ERR).
    Err {
        /// First number and count of each range: at most [`ERR_RANGES_MAX`], no count of zero.
        ranges: Vec<(u64, u32)>,
    },
    /// Arrivals since the last one (SABUL's SYN).
    Syn {
        /// Packets that came.
        received: u32,
        /// Packets that were found missing.
        lost: u32,
    },
    /// Sent blocks no longer pass the path: forget them and all requests. The next block has this number.
    Restart {
        /// The number.
        from: u64,
    },
}

impl OwnMessage {
    /// Reads the message of this kind.
    ///
    /// # Errors
    /// When it is not exactly one legal message.
    pub fn parse(kind: u8, mut r: Reader<'_>) -> Result<Self, WireError> {
        let message = match kind {
            RATE => Self::Rate { rate: r.rate()? },
            ACK => Self::Ack { before: r.u64()? },
            ERR => {
                let mut ranges = Vec::new();
                while !r.0.is_empty() {
                    let (first, count) = (r.u64()?, r.u32()?);
                    let is_legal = count > 0 && first.checked_add(u64::from(count)).is_some();
                    if !is_legal || ranges.len() == ERR_RANGES_MAX {
                        return Err(WireError::Value);
                    }
                    ranges.push((first, count));
                }
                Self::Err { ranges }
            }
            SYN => Self::Syn { received: r.u32()?, lost: r.u32()? },
            RESTART => Self::Restart { from: r.u64()? },
            _ => return Err(WireError::Kind),
        };
        r.end().map(|()| message)
    }

    /// Writes it.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        match self {
            Self::Rate { rate } => {
                out.push(RATE);
                out.extend(rate_field(*rate));
            }
            Self::Ack { before } => {
                out.push(ACK);
                out.extend(before.to_be_bytes());
            }
            Self::Err { ranges } => {
                out.push(ERR);
                for (first, count) in ranges {
                    out.extend(first.to_be_bytes());
                    out.extend(count.to_be_bytes());
                }
            }
            Self::Syn { received, lost } => {
                out.push(SYN);
                out.extend(received.to_be_bytes());
                out.extend(lost.to_be_bytes());
            }
            Self::Restart { from } => {
                out.push(RESTART);
                out.extend(from.to_be_bytes());
            }
        }
        out
    }
}

/// What Setup adds: the law that the receiver's user wants.
///
/// # Errors
/// When it is not exactly that.
pub fn setup_law(more: Reader<'_>) -> Result<LawName, WireError> {
    receiver::read_all(more.0, |r| LawName::from_code(r.u8()?).ok_or(WireError::Value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_transport::kit::receiver::DataHead;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_takes_any_bytes_and_what_it_understands_has_one_form(
            kind in OWN_MESSAGES..OWN_MESSAGES + 6, bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = DataHeader::parse(&bytes);
            if let Ok(message) = OwnMessage::parse(kind, Reader(&bytes)) {
                prop_assert_eq!(message.emit(), [&[kind], &bytes[..]].concat());
            }
        }
    }

    #[test]
    fn messages_come_back_as_they_were() {
        for message in [
            OwnMessage::Rate { rate: Some(Bitrate::from_mbps(7)) },
            OwnMessage::Ack { before: u64::MAX },
            OwnMessage::Err { ranges: vec![(7, 1), (1 << 40, u32::MAX)] },
            OwnMessage::Syn { received: 7, lost: 9 },
            OwnMessage::Restart { from: 1 << 50 },
        ] {
            let bytes = message.emit();
            assert_eq!(OwnMessage::parse(bytes[0], Reader(&bytes[1..])), Ok(message));
        }
        let head = DataHeader { rate_kbps: 5, number: 7, offset: 1 << 50 };
        assert_eq!(DataHeader::parse(&head.emit()), Some(head));
        assert_eq!(setup_law(Reader(&[LawName::Rc.code()])), Ok(LawName::Rc));
        assert_eq!(setup_law(Reader(&[0])), Err(WireError::Value));
    }

    #[test]
    fn parse_refuses_losses_that_are_none_or_too_many() {
        let parse =
            |ranges: Vec<(u64, u32)>| OwnMessage::parse(ERR, Reader(&OwnMessage::Err { ranges }.emit()[1..])).map(drop);
        assert_eq!(parse(vec![(1, 1); ERR_RANGES_MAX]), Ok(()));
        assert_eq!(parse(vec![(1, 1); ERR_RANGES_MAX + 1]), Err(WireError::Value));
        assert_eq!(parse(vec![(1, 0)]), Err(WireError::Value));
        assert_eq!(parse(vec![(u64::MAX, 1)]), Err(WireError::Value));
    }
}
