//! TCP over datagrams on the wire, as far as it is not everybody's ([`inhaul_transport::kit::wire`]): segments, acknowledgements,
//! control messages of its own. PROTOCOL.md sections 3 and 4 give the layouts.

use inhaul_base::{Bitrate, Sequence, Time};
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{OWN_MESSAGES, Reader, WireError, rate_field};

use super::laws::LawName;

/// Version of the protocol: stands in both set-up messages.
pub const VERSION: u8 = 3;
/// High four bits of every datagram's first byte. GTP's datagrams have its version there, so both can share a port.
pub const MARK: u8 = 0xA0;
/// Length of every datagram's header but for the blocks of an Ack, in bytes. With IPv4 and UDP that is 52, as long as the
/// headers of a TCP segment with timestamps.
pub const HEADER_LEN: usize = 24;
/// Most blocks that an Ack reports: one more than TCP with timestamps has room for (RFC 2018 section 3).
pub const BLOCKS_MAX: usize = 4;
/// Length of the longest Ack, in bytes.
const ACK_LEN_MAX: usize = HEADER_LEN + BLOCKS_MAX * 8;
/// Smallest segment, in bytes.
pub const SEGMENT_MIN: u16 = 256;
/// Largest segment: what the largest IPv4 packet leaves.
pub const SEGMENT_MAX: u16 = u16::MAX - 28 - HEADER_LEN as u16;

const DATA: u8 = MARK | 1;
const ACK: u8 = MARK | 2;
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

/// The blocks of an Ack: at most [`BLOCKS_MAX`], the one that changed last first (RFC 2018 section 4).
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
    /// The flow.
    pub key: u32,
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
    /// The flow.
    pub key: u32,
    /// The first segment that has not come: all before it have.
    pub acknowledged: Sequence,
    /// The timestamp being echoed (RFC 7323 section 4.3: of the first segment that this answers).
    pub echo: Timestamp,
    /// How many segments from `acknowledged` on the receiver can take.
    pub window: u32,
    /// The receiver's clock.
    pub sent: Timestamp,
    /// What has come behind gaps.
    pub blocks: Blocks,
}

/// A header ready to send: its bytes are the slice.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; ACK_LEN_MAX],
    len: usize,
}

impl Head {
    fn new(kind: u8, len: usize, fields: &[(usize, &[u8])]) -> Self {
        let mut head = Self { bytes: [0; ACK_LEN_MAX], len };
        head.bytes[0] = kind;
        for (at, bytes) in fields {
            head.bytes[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }
}

impl std::ops::Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn u32_at(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8; HEADER_LEN], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

/// The header of a datagram of this kind.
fn header(kind: u8, bytes: &[u8]) -> Option<&[u8; HEADER_LEN]> {
    bytes.first_chunk::<HEADER_LEN>().filter(|head| head[0] == kind)
}

impl DataHeader {
    /// Writes the header.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let words = [
            u64::from(DATA) << 56 | u64::from(self.window_log) << 48 | u64::from(self.key),
            u64::from(self.sequence.get()) << 32 | u64::from(self.sent.0),
            self.offset,
        ];
        let mut head = [0; HEADER_LEN];
        for (bytes, word) in head.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        head
    }
}

impl DataHead for DataHeader {
    const LEN: usize = HEADER_LEN;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let head = header(DATA, bytes)?;
        Some(Self {
            window_log: head[1],
            key: u32_at(head, 4),
            sequence: Sequence::new(u32_at(head, 8)),
            sent: Timestamp(u32_at(head, 12)),
            offset: u64_at(head, 16),
        })
    }

    fn key(&self) -> u32 {
        self.key
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
        let head = header(ACK, bytes)?;
        Some(Self {
            key: u32_at(head, 4),
            acknowledged: Sequence::new(u32_at(head, 8)),
            echo: Timestamp(u32_at(head, 12)),
            window: u32_at(head, 16),
            sent: Timestamp(u32_at(head, 20)),
            blocks: parse_blocks(usize::from(head[1]), &bytes[HEADER_LEN..]).ok()?,
        })
    }

    /// Writes the header.
    pub fn emit(&self) -> Head {
        let len = HEADER_LEN + self.blocks.len * 8;
        let fields: [(usize, &[u8]); 6] = [
            (1, &[self.blocks.len as u8]),
            (4, &self.key.to_be_bytes()),
            (8, &self.acknowledged.get().to_be_bytes()),
            (12, &self.echo.0.to_be_bytes()),
            (16, &self.window.to_be_bytes()),
            (20, &self.sent.0.to_be_bytes()),
        ];
        let mut head = Head::new(ACK, len, &fields);
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

/// Reads what the receiver adds to Setup: the congestion control law that the sender is to use.
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
    /// Forget everything that was requested, part of the stream or not. The stream goes on with segment `from`; what was before it
    /// counts as acknowledged. Full-size segments did not pass any more, and are never cut anew.
    Restart {
        /// Behind every segment that the receiver would have taken so far.
        from: Sequence,
    },
    /// From now on, data may leave no faster than this. Until it comes, the window alone decides.
    Rate {
        /// The rate, headers from IP up included; `None`: no limit. Zero stands for `None` on the wire, so it is never sent.
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
        fn data_comes_back_as_it_was((window_log, key, sequence, sent, offset) in any::<(u8, u32, u32, u32, u64)>()) {
            let (sequence, sent) = (Sequence::new(sequence), Timestamp(sent));
            let data = DataHeader { window_log, key, sequence, sent, offset };
            prop_assert_eq!(DataHeader::parse(&data.emit()), Some(data));
            prop_assert_eq!(DataHeader::parse(&data.emit()[..HEADER_LEN - 1]), None);
            prop_assert_eq!(AckHeader::parse(&data.emit()), None);
        }

        #[test]
        fn ack_comes_back_as_it_was_and_not_when_cut(
            (key, acknowledged, echo, window, sent) in any::<(u32, u32, u32, u32, u32)>(),
            blocks in blocks(),
        ) {
            let (acknowledged, echo, sent) = (Sequence::new(acknowledged), Timestamp(echo), Timestamp(sent));
            let ack = AckHeader { key, acknowledged, echo, window, sent, blocks };
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
            key: 1,
            acknowledged: Sequence::default(),
            echo: Timestamp(0),
            window: 1,
            sent: Timestamp(0),
            blocks: Blocks::default(),
        }
        .emit()
        .to_vec();
        many[1] = BLOCKS_MAX as u8 + 1;
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
