//! TCP over datagrams on the wire: segments, acknowledgements, control messages. PROTOCOL.md sections 3 and 4 give the
//! layouts.
//!
//! Parsed once, into types that hold only legal values; everything from the network is bounded here.

use inhaul_base::{Bitrate, ByteRange, Sequence, Time};

use super::laws::LawName;

/// Version of the protocol: stands in both set-up messages.
pub const VERSION: u8 = 2;
/// High four bits of every datagram's first byte. GTP's datagrams have its version there, so both can share a port.
pub const MARK: u8 = 0xA0;
/// Length of every datagram's header but for the blocks of an Ack, in bytes. With IPv4 and UDP that is 52, as long as the
/// headers of a TCP segment with timestamps.
pub const HEADER_LEN: usize = 24;
/// Most blocks that an Ack reports: one more than TCP with timestamps has room for (RFC 2018 section 3).
pub const BLOCKS_MAX: usize = 4;
/// Length of the longest Ack, in bytes.
const ACK_LEN_MAX: usize = HEADER_LEN + BLOCKS_MAX * 8;
/// Most ranges in one request.
pub const RANGES_MAX: usize = 64;
/// Smallest segment, in bytes.
pub const SEGMENT_MIN: u16 = 256;
/// Largest segment: what the largest IPv4 packet leaves.
pub const SEGMENT_MAX: u16 = u16::MAX - 28 - HEADER_LEN as u16;

const DATA: u8 = 1;
const ACK: u8 = 2;
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

/// A datagram's header. `key` is the number that the receiver chose for the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// Sender to receiver: a segment follows.
    Data(DataHeader),
    /// Receiver to sender: what has come.
    Ack(AckHeader),
    /// Receiver to sender: opens the path through firewalls and, by its padding, tries its MTU.
    Probe {
        /// The flow.
        key: u32,
        /// The secret that the sender gave on the control channel.
        token: u64,
        /// Counts the receiver's probes.
        number: u32,
    },
    /// Sender to receiver: the answer to a probe, of the same length.
    Echo {
        /// The flow.
        key: u32,
        /// The probe's number.
        number: u32,
        /// UDP payload bytes of the probe as it arrived.
        len: u16,
        /// What the sender wants to have back before it sends data to where the probe came from.
        challenge: u64,
    },
    /// Receiver to sender: returns an echo's challenge. Data may come to where this comes from.
    Response {
        /// The flow.
        key: u32,
        /// The secret that the sender gave on the control channel.
        token: u64,
        /// The challenge.
        challenge: u64,
    },
    /// Sender to receiver, when it was the sender that connected: opens the path, and tells the receiver its address.
    Open {
        /// The flow.
        key: u32,
        /// The secret that the sender gave on the control channel.
        token: u64,
    },
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

impl Datagram {
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// When it is cut short, is of another protocol (version), of an unknown kind, or names more blocks than an Ack may.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let head: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Short)?;
        if head[0] & 0xf0 != MARK {
            return Err(WireError::Version(head[0] >> 4));
        }
        let key = u32_at(head, 4);
        Ok(match head[0] & 0x0f {
            DATA => Self::Data(DataHeader {
                window_log: head[1],
                key,
                sequence: Sequence::new(u32_at(head, 8)),
                sent: Timestamp(u32_at(head, 12)),
                offset: u64_at(head, 16),
            }),
            ACK => Self::Ack(AckHeader {
                key,
                acknowledged: Sequence::new(u32_at(head, 8)),
                echo: Timestamp(u32_at(head, 12)),
                window: u32_at(head, 16),
                sent: Timestamp(u32_at(head, 20)),
                blocks: parse_blocks(usize::from(head[1]), &bytes[HEADER_LEN..])?,
            }),
            PROBE => Self::Probe { key, token: u64_at(head, 8), number: u32_at(head, 16) },
            ECHO => Self::Echo {
                key,
                number: u32_at(head, 8),
                len: u16::from_be_bytes([head[2], head[3]]),
                challenge: u64_at(head, 12),
            },
            RESPONSE => Self::Response { key, token: u64_at(head, 8), challenge: u64_at(head, 16) },
            OPEN => Self::Open { key, token: u64_at(head, 8) },
            _ => return Err(WireError::Kind),
        })
    }

    /// Writes the header.
    pub fn emit(&self) -> Head {
        let mut head = Head { bytes: [0; ACK_LEN_MAX], len: HEADER_LEN };
        let mut put = |at: usize, bytes: &[u8]| head.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let (kind, key) = match *self {
            Self::Data(data) => {
                put(1, &[data.window_log]);
                put(8, &data.sequence.get().to_be_bytes());
                put(12, &data.sent.0.to_be_bytes());
                put(16, &data.offset.to_be_bytes());
                (DATA, data.key)
            }
            Self::Ack(ack) => {
                put(1, &[ack.blocks.len as u8]);
                put(8, &ack.acknowledged.get().to_be_bytes());
                put(12, &ack.echo.0.to_be_bytes());
                put(16, &ack.window.to_be_bytes());
                put(20, &ack.sent.0.to_be_bytes());
                for (k, (start, end)) in ack.blocks.iter().enumerate() {
                    put(HEADER_LEN + k * 8, &start.get().to_be_bytes());
                    put(HEADER_LEN + k * 8 + 4, &end.get().to_be_bytes());
                }
                head.len += ack.blocks.len * 8;
                (ACK, ack.key)
            }
            Self::Probe { key, token, number } => {
                put(8, &token.to_be_bytes());
                put(16, &number.to_be_bytes());
                (PROBE, key)
            }
            Self::Echo { key, number, len, challenge } => {
                put(2, &len.to_be_bytes());
                put(8, &number.to_be_bytes());
                put(12, &challenge.to_be_bytes());
                (ECHO, key)
            }
            Self::Response { key, token, challenge } => {
                put(8, &token.to_be_bytes());
                put(16, &challenge.to_be_bytes());
                (RESPONSE, key)
            }
            Self::Open { key, token } => {
                put(8, &token.to_be_bytes());
                (OPEN, key)
            }
        };
        head.bytes[0] = MARK | kind;
        head.bytes[4..8].copy_from_slice(&key.to_be_bytes());
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

/// A message on the control channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Receiver to sender, first of all.
    Setup {
        /// Number that datagrams of the flow carry.
        key: u32,
        /// Largest IP packet that the receiver's side of the path is believed to carry, in bytes.
        mtu: u16,
        /// Size of the object as the receiver knows it, in bytes.
        size: u64,
        /// The congestion control law that the sender is to use.
        law: LawName,
    },
    /// Sender to receiver, the answer to Setup.
    Accept {
        /// Secret that the datagram which opens the path must carry.
        token: u64,
        /// Largest IP packet that the sender's side of the path is believed to carry, in bytes.
        mtu: u16,
        /// Size of the object, in bytes.
        size: u64,
    },
    /// Receiver to sender: send these ranges, in this order, after those that were requested before.
    Request {
        /// Counts requests from 1 up, without gaps.
        id: u32,
        /// Each range is cut into segments of so many bytes, the last may be shorter.
        segment: u16,
        /// The ranges: not empty, at most [`RANGES_MAX`].
        ranges: Vec<ByteRange>,
    },
    /// Receiver to sender: forget what was requested and is not part of the stream yet, up to this request.
    Cancel {
        /// The last request to forget.
        through: u32,
    },
    /// Receiver to sender: forget everything that was requested, part of the stream or not. The stream goes on with segment
    /// `from`; what was before it counts as acknowledged. Full-size segments did not pass any more, and are never cut anew.
    Restart {
        /// Behind every segment that the receiver would have taken so far.
        from: Sequence,
    },
    /// Receiver to sender: nothing more is needed.
    Close,
    /// Receiver to sender: from now on, data may leave no faster than this. Until it comes, the window alone decides.
    Rate {
        /// The rate, headers from IP up included; `None`: no limit. Zero stands for `None` on the wire, so it is never sent.
        rate: Option<Bitrate>,
    },
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (front, rest) = self.0.split_first_chunk().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*front)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.take().map(|[b]| b)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_be_bytes)
    }

    fn version(&mut self) -> Result<(), WireError> {
        match self.u8()? {
            VERSION => Ok(()),
            other => Err(WireError::Version(other)),
        }
    }
}

impl Control {
    /// Reads one whole message.
    ///
    /// # Errors
    /// When it is not exactly one legal message of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader(bytes);
        let message = match r.u8()? {
            1 => {
                r.version()?;
                let (key, mtu, size) = (r.u32()?, r.u16()?, r.u64()?);
                Self::Setup { key, mtu, size, law: LawName::from_code(r.u8()?).ok_or(WireError::Value)? }
            }
            2 => {
                r.version()?;
                Self::Accept { token: r.u64()?, mtu: r.u16()?, size: r.u64()? }
            }
            3 => {
                let (id, segment, count) = (r.u32()?, r.u16()?, usize::from(r.u16()?));
                if !(SEGMENT_MIN..=SEGMENT_MAX).contains(&segment) || !(1..=RANGES_MAX).contains(&count) {
                    return Err(WireError::Value);
                }
                let mut ranges = Vec::with_capacity(count);
                for _ in 0..count {
                    let (start, len) = (r.u64()?, r.u64()?);
                    let end = start.checked_add(len).filter(|_| len > 0).ok_or(WireError::Value)?;
                    ranges.push(ByteRange::new(start, end));
                }
                Self::Request { id, segment, ranges }
            }
            4 => Self::Cancel { through: r.u32()? },
            5 => Self::Close,
            6 => Self::Rate { rate: Some(Bitrate::from_bps(r.u64()?)).filter(|rate| *rate > Bitrate::ZERO) },
            7 => Self::Restart { from: Sequence::new(r.u32()?) },
            _ => return Err(WireError::Kind),
        };
        if r.0.is_empty() { Ok(message) } else { Err(WireError::Trailing) }
    }

    /// Writes the message.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        match self {
            Self::Setup { key, mtu, size, law } => {
                out.extend([1, VERSION]);
                out.extend(key.to_be_bytes());
                out.extend(mtu.to_be_bytes());
                out.extend(size.to_be_bytes());
                out.push(law.code());
            }
            Self::Accept { token, mtu, size } => {
                out.extend([2, VERSION]);
                out.extend(token.to_be_bytes());
                out.extend(mtu.to_be_bytes());
                out.extend(size.to_be_bytes());
            }
            Self::Request { id, segment, ranges } => {
                out.push(3);
                out.extend(id.to_be_bytes());
                out.extend(segment.to_be_bytes());
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
            Self::Restart { from } => {
                out.push(7);
                out.extend(from.get().to_be_bytes());
            }
            Self::Rate { rate } => {
                out.push(6);
                out.extend(rate.map_or(0, Bitrate::bps).to_be_bytes());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram() -> impl Strategy<Value = Datagram> {
        let data = any::<(u8, u32, u32, u32, u64)>().prop_map(|(window_log, key, sequence, sent, offset)| {
            let (sequence, sent) = (Sequence::new(sequence), Timestamp::new(sent));
            Datagram::Data(DataHeader { window_log, key, sequence, sent, offset })
        });
        let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=BLOCKS_MAX);
        let ack =
            (any::<(u32, u32, u32, u32, u32)>(), blocks).prop_map(|((key, acknowledged, echo, window, sent), list)| {
                let mut blocks = Blocks::default();
                list.iter().for_each(|&(start, end)| blocks.push(Sequence::new(start), Sequence::new(end)));
                let (echo, sent) = (Timestamp::new(echo), Timestamp::new(sent));
                Datagram::Ack(AckHeader { key, acknowledged: Sequence::new(acknowledged), echo, window, sent, blocks })
            });
        let probe = any::<(u32, u64, u32)>().prop_map(|(key, token, number)| Datagram::Probe { key, token, number });
        let echo = any::<(u32, u32, u16, u64)>().prop_map(|(key, number, len, challenge)| Datagram::Echo {
            key,
            number,
            len,
            challenge,
        });
        let response =
            any::<(u32, u64, u64)>().prop_map(|(key, token, challenge)| Datagram::Response { key, token, challenge });
        let open = any::<(u32, u64)>().prop_map(|(key, token)| Datagram::Open { key, token });
        prop_oneof![data, ack, probe, echo, response, open]
    }

    fn control() -> impl Strategy<Value = Control> {
        let setup = any::<(u32, u16, u64)>().prop_map(|(key, mtu, size)| Control::Setup {
            key,
            mtu,
            size,
            law: LawName::Cubic,
        });
        let accept = any::<(u64, u16, u64)>().prop_map(|(token, mtu, size)| Control::Accept { token, mtu, size });
        let range = (0..1u64 << 62, 1..1u64 << 62).prop_map(|(start, len)| ByteRange::at(start, len));
        let request = (any::<u32>(), SEGMENT_MIN..=SEGMENT_MAX, prop::collection::vec(range, 1..=RANGES_MAX))
            .prop_map(|(id, segment, ranges)| Control::Request { id, segment, ranges });
        let cancel = any::<u32>().prop_map(|through| Control::Cancel { through });
        let rate = prop::option::of(1u64..).prop_map(|bps| Control::Rate { rate: bps.map(Bitrate::from_bps) });
        let restart = any::<u32>().prop_map(|from| Control::Restart { from: Sequence::new(from) });
        prop_oneof![setup, accept, request, cancel, Just(Control::Close), rate, restart]
    }

    proptest! {
        #[test]
        fn datagram_comes_back_as_it_was_and_not_when_cut(datagram in datagram()) {
            let head = datagram.emit();
            prop_assert_eq!(Datagram::parse(&head), Ok(datagram));
            for cut in 0..head.len() {
                prop_assert_eq!(Datagram::parse(&head[..cut]), Err(WireError::Short));
            }
        }

        #[test]
        fn control_comes_back_as_it_was_and_not_when_cut_or_lengthened(message in control()) {
            let bytes = message.emit();
            prop_assert_eq!(Control::parse(&bytes), Ok(message));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Control::parse(&bytes[..cut]), Err(WireError::Short));
            }
            prop_assert_eq!(Control::parse(&[&bytes[..], &[0]].concat()), Err(WireError::Trailing));
        }

        #[test]
        fn parse_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Datagram::parse(&bytes);
            if let Ok(message) = Control::parse(&bytes) {
                prop_assert_eq!(message.emit(), bytes);
            }
        }
    }

    #[test]
    fn parse_refuses_what_is_not_legal() {
        assert_eq!(Datagram::parse(&[0xA1; 23]), Err(WireError::Short));
        assert_eq!(Datagram::parse(&[0x11; 32]), Err(WireError::Version(1)));
        assert_eq!(Datagram::parse(&[0xAF; 32]), Err(WireError::Kind));
        let mut ack = [0; 100];
        (ack[0], ack[1]) = (0xA2, 5);
        assert_eq!(Datagram::parse(&ack), Err(WireError::Value));
        let request =
            |segment: u16, ranges: Vec<ByteRange>| Control::parse(&Control::Request { id: 1, segment, ranges }.emit());
        assert_eq!(request(1448, vec![]), Err(WireError::Value));
        assert_eq!(request(1448, vec![ByteRange::at(5, 0)]), Err(WireError::Value));
        assert_eq!(request(255, vec![ByteRange::at(5, 1)]), Err(WireError::Value));
        assert_eq!(request(1448, vec![ByteRange::at(0, 1); RANGES_MAX + 1]), Err(WireError::Value));
        let mut beyond = Control::Request { id: 1, segment: 1448, ranges: vec![ByteRange::at(1, 2)] }.emit();
        let len = beyond.len();
        beyond[len - 8..].fill(0xff);
        assert_eq!(Control::parse(&beyond), Err(WireError::Value));
        let mut setup = Control::Setup { key: 1, mtu: 1500, size: 9, law: LawName::Reno }.emit();
        let len = setup.len();
        setup[len - 1] = 99;
        assert_eq!(Control::parse(&setup), Err(WireError::Value));
    }

    #[test]
    fn timestamp_counts_across_the_wrap() {
        let before = Timestamp::of(Time::from_nanos(u64::from(u32::MAX) * 1_000));
        let after = Timestamp::of(Time::from_nanos((u64::from(u32::MAX) + 5) * 1_000));
        assert_eq!((after.after(before), before.after(after)), (5, -5));
    }
}
