//! The TCP family's own messages, beside the common ones ([`inhaul_transport::kit::wire`]): segments, acknowledgements,
//! control messages of its own. PROTOCOL.md sections 3 and 4 give the layouts.

use inhaul_base::{Bitrate, Sequence, Time};
use inhaul_transport::ENVELOPE_LEN;
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{OWN_MESSAGES, Reader, WireError, rate_field};

use crate::laws::LawName;

/// Version of the protocol: stands in both set-up messages.
pub const VERSION: u8 = 4;
/// Length of every datagram's header behind the envelope, without the blocks of an Ack, in bytes. With IPv4, UDP and
/// envelope that is 52, as long as the headers of a TCP segment with timestamps.
pub const HEADER_LEN: usize = 16;
/// Largest object, in bytes: the header of a segment has 56 bits for its place.
pub const OBJECT_MAX: u64 = 1 << OFFSET_BITS;
/// Most blocks that an Ack reports: one more than TCP with timestamps has room for (RFC 2018 section 3).
pub const BLOCKS_MAX: usize = 4;
/// Length of the longest Ack, in bytes.
const ACK_LEN_MAX: usize = HEADER_LEN + BLOCKS_MAX * 8;
/// Smallest segment, in bytes.
pub const SEGMENT_MIN: u16 = 256;
/// Largest segment: the space in the largest IPv4 packet.
pub const SEGMENT_MAX: u16 = u16::MAX - 28 - ENVELOPE_LEN as u16 - HEADER_LEN as u16;
/// Largest window that an Ack can tell, in segments.
pub const WINDOW_MAX: u32 = (1 << 24) - 1;

/// The first byte of a segment has this bit, and the logarithm of the window in the others.
const DATA: u8 = 0x80;
/// The first byte of an Ack is this and the number of its blocks.
const ACK: u8 = 8;
const OFFSET_BITS: u32 = 56;
const RATE: u8 = OWN_MESSAGES;
const RESTART: u8 = OWN_MESSAGES + 1;

/// A clock reading in whole microseconds, modulo 2^32: what RFC 7323 calls TSval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp(u32);

impl Timestamp {
    /// The timestamp as it stands in a header.
    pub const fn new(micros: u32) -> Self {
        Self(micros)
    }

    /// The reading `time`.
    pub const fn of(time: Time) -> Self {
        Self((time.as_nanos() / 1_000) as u32)
    }

    /// Microseconds as they stand in a header.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// How many microseconds this timestamp is after `earlier`; negative when it is before.
    pub const fn after(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }
}

/// The blocks of an Ack: at most [`BLOCKS_MAX`], the last changed one first (RFC 2018 section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    len: usize,
    blocks: [(Sequence, Sequence); BLOCKS_MAX],
}

impl Blocks {
    /// Adds a block from its first segment up to and not including `end`. One too many is left out.
    pub fn push(&mut self, start: Sequence, end: Sequence) {
        if let Some(block) = self.blocks.get_mut(self.len) {
            *block = (start, end);
            self.len += 1;
        }
    }

    /// The blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Sequence, Sequence)> + '_ {
        self.blocks[..self.len].iter().copied()
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The sender's window is at most two to this power, in bytes: tells the receiver how far ahead to ask.
    pub window_log: u8,
    /// Its place in the stream of segments. Sent again, it has the same.
    pub sequence: Sequence,
    /// The sender's clock when it left.
    pub sent: Timestamp,
    /// Where its bytes start in the object.
    pub offset: u64,
}

/// The header of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckHeader {
    /// The first segment that has not come: all before it have.
    pub acknowledged: Sequence,
    /// The timestamp being echoed (RFC 7323 section 4.3: of the first segment that this answers).
    pub echo: Timestamp,
    /// How many segments from `acknowledged` on the receiver can take, at most [`WINDOW_MAX`].
    pub window: u32,
    /// The receiver's clock.
    pub sent: Timestamp,
    /// Blocks behind gaps.
    pub blocks: Blocks,
}

/// A header ready to send: its bytes are the slice.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; ACK_LEN_MAX],
    len: usize,
}

impl std::ops::Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The two words of a header.
fn words(bytes: &[u8]) -> Option<[u64; 2]> {
    let (words, _) = bytes.first_chunk::<HEADER_LEN>()?.as_chunks::<8>();
    Some([words[0], words[1]].map(u64::from_be_bytes))
}

fn header(words: [u64; 2]) -> [u8; HEADER_LEN] {
    let mut head = [0; HEADER_LEN];
    head[..8].copy_from_slice(&words[0].to_be_bytes());
    head[8..].copy_from_slice(&words[1].to_be_bytes());
    head
}

impl DataHeader {
    /// Writes the header.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let first = u64::from(DATA | self.window_log & !DATA) << OFFSET_BITS | self.offset & (OBJECT_MAX - 1);
        header([first, u64::from(self.sequence.get()) << 32 | u64::from(self.sent.0)])
    }
}

impl DataHead for DataHeader {
    const LEN: usize = HEADER_LEN;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let [first, second] = words(bytes)?;
        let kind = (first >> OFFSET_BITS) as u8;
        (kind & DATA != 0).then_some(Self {
            window_log: kind & !DATA,
            sequence: Sequence::new((second >> 32) as u32),
            sent: Timestamp(second as u32),
            offset: first & (OBJECT_MAX - 1),
        })
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    /// Next in the stream.
    fn leads_to(&self, next: &Self, packets: u64) -> bool {
        next.sequence == self.sequence.plus(packets as u32)
    }
}

impl AckHeader {
    /// Reads the header. `None`: it is another kind's, cut short, or names more blocks than an Ack may.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [first, second] = words(bytes)?;
        let count = ((first >> OFFSET_BITS) as u8).checked_sub(ACK)?;
        Some(Self {
            acknowledged: Sequence::new(first as u32),
            echo: Timestamp((second >> 32) as u32),
            window: (first >> 32) as u32 & WINDOW_MAX,
            sent: Timestamp(second as u32),
            blocks: parse_blocks(usize::from(count), &bytes[HEADER_LEN..]).ok()?,
        })
    }

    /// Writes the header.
    pub fn emit(&self) -> Head {
        let kind = u64::from(ACK + self.blocks.len as u8);
        let first =
            kind << OFFSET_BITS | u64::from(self.window.min(WINDOW_MAX)) << 32 | u64::from(self.acknowledged.get());
        let mut head = Head { bytes: [0; ACK_LEN_MAX], len: HEADER_LEN + self.blocks.len * 8 };
        head.bytes[..HEADER_LEN]
            .copy_from_slice(&header([first, u64::from(self.echo.0) << 32 | u64::from(self.sent.0)]));
        for ((start, end), bytes) in self.blocks.iter().zip(head.bytes[HEADER_LEN..].chunks_exact_mut(8)) {
            bytes[..4].copy_from_slice(&start.get().to_be_bytes());
            bytes[4..].copy_from_slice(&end.get().to_be_bytes());
        }
        head
    }
}

fn parse_blocks(count: usize, bytes: &[u8]) -> Result<Blocks, WireError> {
    if count > BLOCKS_MAX {
        return Err(WireError::Value);
    }
    let mut blocks = Blocks::default();
    let mut reader = Reader(bytes);
    for _ in 0..count {
        let (start, end) = (reader.u32()?, reader.u32()?);
        blocks.push(Sequence::new(start), Sequence::new(end));
    }
    Ok(blocks)
}

/// Reads the receiver's addition to Setup: the congestion control law for the sender.
///
/// # Errors
/// When there is no such law, or something follows.
pub fn setup_law(mut r: Reader<'_>) -> Result<LawName, WireError> {
    let law = LawName::from_code(r.u8()?).ok_or(WireError::Value)?;
    r.end().map(|()| law)
}

/// A control message of TCP's own. Both go from the receiver to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnMessage {
    /// Forget everything that was requested, part of the stream or not. The stream continues with segment `from`; all
    /// segments before it count as acknowledged. Full-size segments no longer passed the path, and segments are never
    /// cut anew.
    Restart {
        /// Behind every segment that the receiver would have taken so far.
        from: Sequence,
    },
    /// From now on, data may leave no faster than this. Until it comes, the window alone decides.
    Rate {
        /// The rate, headers from IP up included; `None`: no limit. Zero stands for `None` on the wire, so it is never
        /// sent.
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
            RESTART => Self::Restart { from: Sequence::new(r.u32()?) },
            _ => return Err(WireError::Kind),
        };
        r.end().map(|()| message)
    }

    /// Writes the whole message.
    pub fn emit(&self) -> Vec<u8> {
        match *self {
            Self::Rate { rate } => [&[RATE][..], &rate_field(rate)].concat(),
            Self::Restart { from } => [&[RESTART][..], &from.get().to_be_bytes()].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks() -> impl Strategy<Value = Blocks> {
        prop::collection::vec(any::<(u32, u32)>(), 0..=BLOCKS_MAX).prop_map(|pairs| {
            let mut blocks = Blocks::default();
            pairs.into_iter().for_each(|(start, end)| blocks.push(Sequence::new(start), Sequence::new(end)));
            blocks
        })
    }

    proptest! {
        #[test]
        fn data_comes_back_as_it_was(window_log in 0u8..128, (sequence, sent) in any::<(u32, u32)>(), offset in 0..OBJECT_MAX) {
            let (sequence, sent) = (Sequence::new(sequence), Timestamp(sent));
            let data = DataHeader { window_log, sequence, sent, offset };
            prop_assert_eq!(DataHeader::parse(&data.emit()), Some(data));
            prop_assert_eq!(DataHeader::parse(&data.emit()[..HEADER_LEN - 1]), None);
            prop_assert_eq!(AckHeader::parse(&data.emit()), None);
        }

        #[test]
        fn ack_comes_back_as_it_was_and_not_when_cut(
            (acknowledged, echo, sent) in any::<(u32, u32, u32)>(),
            window in 0..=WINDOW_MAX,
            blocks in blocks(),
        ) {
            let (acknowledged, echo, sent) = (Sequence::new(acknowledged), Timestamp(echo), Timestamp(sent));
            let ack = AckHeader { acknowledged, echo, window, sent, blocks };
            let bytes = ack.emit();
            prop_assert_eq!(AckHeader::parse(&bytes), Some(ack));
            prop_assert_eq!(AckHeader::parse(&bytes[..bytes.len() - 1]), None);
        }

        #[test]
        fn messages_come_back_as_they_were_and_not_when_cut_or_lengthened(from in any::<u32>(), bps in any::<u64>()) {
            let rate = (bps > 0).then_some(Bitrate::from_bps(bps));
            for message in [OwnMessage::Restart { from: Sequence::new(from) }, OwnMessage::Rate { rate }] {
                let bytes = message.emit();
                let (&kind, body) = bytes.split_first().unwrap();
                prop_assert_eq!(OwnMessage::parse(kind, Reader(body)), Ok(message));
                for cut in 0..body.len() {
                    prop_assert_eq!(OwnMessage::parse(kind, Reader(&body[..cut])), Err(WireError::Short));
                }
                prop_assert_eq!(OwnMessage::parse(kind, Reader(&[body, &[0]].concat())), Err(WireError::Trailing));
            }
        }
    }

    #[test]
    fn parse_refuses_what_is_not_legal() {
        let mut many = AckHeader {
            acknowledged: Sequence::default(),
            echo: Timestamp(0),
            window: 1,
            sent: Timestamp(0),
            blocks: Blocks::default(),
        }
        .emit()
        .to_vec();
        many[0] = ACK + BLOCKS_MAX as u8 + 1;
        many.resize(200, 0);
        assert_eq!(AckHeader::parse(&many), None);
        assert_eq!(OwnMessage::parse(RESTART + 1, Reader(&[])), Err(WireError::Kind));
        assert_eq!(setup_law(Reader(&[255])), Err(WireError::Value));
        assert_eq!(setup_law(Reader(&[])), Err(WireError::Short));
    }

    #[test]
    fn timestamp_counts_across_the_wrap() {
        let before = Timestamp::of(Time::from_nanos(u64::from(u32::MAX) * 1_000));
        let after = Timestamp::of(Time::from_nanos((u64::from(u32::MAX) + 5) * 1_000));
        assert_eq!((after.after(before), before.after(after)), (5, -5));
    }
}
