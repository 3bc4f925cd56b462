//! RBUDP's own messages, beside the common ones ([`inhaul_transport::kit::wire`]). PROTOCOL.md section 3 gives the
//! layouts.

use inhaul_base::{Bitrate, ByteRange, Span};
use inhaul_transport::kit::receiver;
use inhaul_transport::kit::wire::{BLOCK_MIN, OWN_MESSAGES, Reader, WireError, rate_field};

/// Version that stands in the set-up messages.
pub const VERSION: u8 = 1;
/// Length of a data header.
pub const HEADER_LEN: usize = 16;
/// Most blocks of one bitmap.
pub const BITMAP_BLOCKS_MAX: u32 = 8_192;
/// Bytes of a section without its bitmap.
pub const SECTION_BYTES: usize = 12;
/// The latest begin of a [`OwnMessage::Hold`], and the longest one: a peer's claim cannot stop a sender for long.
pub const HOLD_AFTER_MAX: Span = Span::from_secs(10);
/// See [`HOLD_AFTER_MAX`].
pub const HOLD_MAX: Span = Span::from_secs(5);
/// Most bytes of sections in one message: a long answer comes in pieces.
pub const PIECE_BYTES_MAX: usize = 32 << 10;

const DATA: u8 = 1;
const RATE: u8 = OWN_MESSAGES;
const DONE: u8 = OWN_MESSAGES + 1;
const MISSING: u8 = OWN_MESSAGES + 2;
const HOLD: u8 = OWN_MESSAGES + 3;
/// A section's count with this bit counts blocks, and a bitmap follows; without it, it counts bytes.
const BITMAP: u32 = 1 << 31;

/// The header of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Counts the flow's data packets from 0, including retransmissions.
    pub number: u32,
    /// Where the body starts in the object.
    pub offset: u64,
}

impl receiver::DataHead for DataHeader {
    const LEN: usize = HEADER_LEN;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER_LEN] = bytes.first_chunk().filter(|head| head[0] == DATA)?;
        let mut fields = Reader(&head[4..]);
        Some(Self { number: fields.u32().ok()?, offset: fields.u64().ok()? })
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn leads_to(&self, next: &Self, packets: u64) -> bool {
        next.number == self.number.wrapping_add(packets as u32)
    }
}

impl DataHeader {
    /// Writes it.
    pub fn emit(self) -> [u8; HEADER_LEN] {
        let mut head = [0; HEADER_LEN];
        head[0] = DATA;
        head[4..8].copy_from_slice(&self.number.to_be_bytes());
        head[8..].copy_from_slice(&self.offset.to_be_bytes());
        head
    }
}

/// Bytes that are missing, in an [`OwnMessage::Missing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Section {
    /// All of these, in blocks from their start. Never empty, and below 2 GiB.
    Run(ByteRange),
    /// Missing ones of this many whole blocks from `start` on: blocks whose bits are set, the highest bit of a byte
    /// first.
    Bitmap {
        /// Where the first block starts.
        start: u64,
        /// How many blocks there are: 1 to [`BITMAP_BLOCKS_MAX`].
        blocks: u32,
        /// A bit for each, and zeros up to a whole byte.
        bits: Vec<u8>,
    },
}

impl Section {
    /// Bytes on the wire.
    pub fn wire_len(&self) -> usize {
        SECTION_BYTES + if let Self::Bitmap { bits, .. } = self { bits.len() } else { 0 }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Run(range) => {
                out.extend(range.start.to_be_bytes());
                out.extend((range.len() as u32 & !BITMAP).to_be_bytes());
            }
            Self::Bitmap { start, blocks, bits } => {
                out.extend(start.to_be_bytes());
                out.extend((blocks | BITMAP).to_be_bytes());
                out.extend(bits);
            }
        }
    }

    fn parse(r: &mut Reader<'_>, block: u16) -> Result<Self, WireError> {
        let (start, count) = (r.u64()?, r.u32()?);
        let number = u64::from(count & !BITMAP);
        let len = if count & BITMAP == 0 { number } else { number * u64::from(block) };
        let end = start.checked_add(len).filter(|_| len > 0).ok_or(WireError::Value)?;
        if count & BITMAP == 0 {
            return Ok(Self::Run(ByteRange::new(start, end)));
        }
        let blocks = count & !BITMAP;
        if blocks > BITMAP_BLOCKS_MAX {
            return Err(WireError::Value);
        }
        let (bits, rest) = r.0.split_at_checked(blocks.div_ceil(8) as usize).ok_or(WireError::Short)?;
        let unused = (8 - blocks % 8) % 8;
        if bits.last().is_some_and(|last| last & ((1 << unused) - 1) != 0) {
            return Err(WireError::Value);
        }
        r.0 = rest;
        Ok(Self::Bitmap { start, blocks, bits: bits.to_vec() })
    }
}

/// A control message of the protocol's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnMessage {
    /// Receiver to sender: keep to this rate as well as to that of Setup. `None`: to that of Setup alone.
    Rate {
        /// The rate, of whole IP packets.
        rate: Option<Bitrate>,
    },
    /// Sender to receiver: all requested blocks have left. Ends a round.
    Done {
        /// The last request that was answered.
        through: u32,
        /// The number that the flow's next data packet will have.
        next: u32,
    },
    /// Receiver to sender: a piece of the answer to Done, with the round's missing blocks.
    Missing {
        /// Whether it is the answer's last piece.
        is_last: bool,
        /// Length of the blocks that the sections count, in bytes.
        block: u16,
        /// The missing blocks.
        sections: Vec<Section>,
    },
    /// Receiver to sender: the receiver will not run for a while; send no data meanwhile (rbudp-plus-2006 section 4:
    /// "when to stop transmission", and "for how long"). Replaces the one before.
    Hold {
        /// From its arrival on, in whole microseconds, at most [`HOLD_AFTER_MAX`].
        after: Span,
        /// In whole microseconds, from one to [`HOLD_MAX`].
        length: Span,
    },
}

fn micros(span: Span) -> u32 {
    (span.as_nanos() / 1_000) as u32
}

impl OwnMessage {
    /// Reads the message of this kind.
    ///
    /// # Errors
    /// When it is not exactly one legal message.
    pub fn parse(kind: u8, mut r: Reader<'_>) -> Result<Self, WireError> {
        let message = match kind {
            RATE => Self::Rate { rate: r.rate()? },
            DONE => Self::Done { through: r.u32()?, next: r.u32()? },
            MISSING => {
                let (is_last, block) = (r.u8()?, r.u16()?);
                if is_last > 1 || block < BLOCK_MIN || r.0.len() > PIECE_BYTES_MAX {
                    return Err(WireError::Value);
                }
                let mut sections = Vec::new();
                while !r.0.is_empty() {
                    sections.push(Section::parse(&mut r, block)?);
                }
                Self::Missing { is_last: is_last == 1, block, sections }
            }
            HOLD => {
                let (after, length) = (r.u32()?, r.u32()?);
                if after > micros(HOLD_AFTER_MAX) || !(1..=micros(HOLD_MAX)).contains(&length) {
                    return Err(WireError::Value);
                }
                let span = |micros: u32| Span::from_micros(u64::from(micros));
                Self::Hold { after: span(after), length: span(length) }
            }
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
            Self::Done { through, next } => {
                out.push(DONE);
                out.extend(through.to_be_bytes());
                out.extend(next.to_be_bytes());
            }
            Self::Missing { is_last, block, sections } => {
                out.reserve(sections.iter().map(Section::wire_len).sum());
                out.extend([MISSING, u8::from(*is_last)]);
                out.extend(block.to_be_bytes());
                sections.iter().for_each(|section| section.emit(&mut out));
            }
            Self::Hold { after, length } => {
                out.push(HOLD);
                out.extend(micros(*after).to_be_bytes());
                out.extend(micros(*length).to_be_bytes());
            }
        }
        out
    }
}

/// What Setup adds: the rate that the receiver's user gave, if any.
///
/// # Errors
/// When it is not exactly that.
pub fn setup_rate(more: Reader<'_>) -> Result<Option<Bitrate>, WireError> {
    receiver::read_all(more.0, Reader::rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_transport::kit::receiver::DataHead;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_takes_any_bytes_and_what_it_understands_has_one_form(
            kind in OWN_MESSAGES..OWN_MESSAGES + 5, bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = DataHeader::parse(&bytes);
            if let Ok(message) = OwnMessage::parse(kind, Reader(&bytes)) {
                prop_assert_eq!(message.emit(), [&[kind], &bytes[..]].concat());
            }
        }
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let sections = vec![
            Section::Run(ByteRange::new(5, 1_005)),
            Section::Bitmap { start: 1 << 40, blocks: 9, bits: vec![0x81, 0x80] },
        ];
        for message in [
            OwnMessage::Rate { rate: None },
            OwnMessage::Done { through: 7, next: u32::MAX },
            OwnMessage::Missing { is_last: true, block: 1_448, sections },
            OwnMessage::Missing { is_last: false, block: 256, sections: Vec::new() },
            OwnMessage::Hold { after: Span::ZERO, length: Span::from_micros(1) },
            OwnMessage::Hold { after: HOLD_AFTER_MAX, length: HOLD_MAX },
        ] {
            let bytes = message.emit();
            assert_eq!(OwnMessage::parse(bytes[0], Reader(&bytes[1..])), Ok(message));
        }
        let head = DataHeader { number: 7, offset: 1 << 50 };
        assert_eq!(DataHeader::parse(&head.emit()), Some(head));
    }

    #[test]
    fn parse_refuses_holds_that_end_too_late_or_are_nothing() {
        let parse = |after: u32, length: u32| {
            let bytes = [after.to_be_bytes(), length.to_be_bytes()].concat();
            OwnMessage::parse(HOLD, Reader(&bytes)).map(drop)
        };
        assert_eq!(parse(10_000_000, 5_000_000), Ok(()));
        for (after, length) in [(10_000_001, 1), (0, 5_000_001), (0, u32::MAX), (0, 0)] {
            assert_eq!(parse(after, length), Err(WireError::Value), "{after} {length}");
        }
    }

    #[test]
    fn parse_refuses_bitmaps_that_claim_more_than_they_bring() {
        let parse = |sections: &[u8]| {
            let bytes = [&[1, 5, 168], sections].concat();
            OwnMessage::parse(MISSING, Reader(&bytes)).map(drop)
        };
        let section =
            |start: u64, count: u32, bits: &[u8]| [&start.to_be_bytes()[..], &count.to_be_bytes(), bits].concat();
        assert_eq!(parse(&section(0, BITMAP | 16, &[1, 2])), Ok(()));
        assert_eq!(parse(&section(0, BITMAP | 17, &[1, 2])), Err(WireError::Short));
        assert_eq!(parse(&section(0, BITMAP | 15, &[1, 1])), Err(WireError::Value), "a bit beyond its blocks");
        assert_eq!(parse(&section(0, BITMAP | u32::MAX, &[0; 99])), Err(WireError::Value));
        assert_eq!(parse(&section(0, BITMAP, &[])), Err(WireError::Value));
        assert_eq!(parse(&section(0, 0, &[])), Err(WireError::Value));
        assert_eq!(parse(&section(u64::MAX, 2, &[])), Err(WireError::Value));
        assert_eq!(parse(&vec![0; PIECE_BYTES_MAX + 1]), Err(WireError::Value));
    }
}
