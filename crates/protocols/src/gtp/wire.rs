//! GTP on the wire: datagram headers and control messages. PROTOCOL.md sections 3 and 4 give the layouts.
//!
//! Parsed once, into types that hold only legal values; everything from the network is bounded here.

use inhaul_base::{Bitrate, ByteRange, Sequence};

/// Version of the protocol. It stands in every datagram and in both set-up messages.
pub const VERSION: u8 = 1;
/// Length of every datagram's header, in bytes.
pub const HEADER_LEN: usize = 32;
/// Most ranges in one request.
pub const RANGES_MAX: usize = 64;
/// Smallest and largest unit data block (UDB), in bytes.
pub const BLOCK_MIN: u16 = 256;
/// Largest unit data block: a datagram of the largest IPv4 packet, rounded down to the block's granularity.
pub const BLOCK_MAX: u16 = 65_440;
/// A block's length is a multiple of this many bytes.
pub const BLOCK_GRAIN: u16 = 8;

const DATA: u8 = 1;
const EDGE: u8 = 2;
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

/// A datagram's header. `key` is the number that the receiver chose for the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// Sender to receiver: a unit data block follows.
    Data(DataHeader),
    /// Sender to receiver: every request up to `request` has been answered, nothing is left to send. Repeated until there is.
    Edge {
        /// The flow.
        key: u32,
        /// The rate in force, by its epoch.
        epoch: u16,
        /// The last request that has been answered.
        request: u32,
        /// The sequence number that the next data packet will have.
        sequence: Sequence,
    },
    /// Receiver to sender: opens the path through firewalls, measures its RTT and, by its padding, its MTU.
    Probe {
        /// The flow.
        key: u32,
        /// The secret that the sender gave on the control channel.
        token: u64,
        /// Counts the receiver's probes.
        number: u32,
        /// The receiver's clock, in nanoseconds.
        sent: u64,
    },
    /// Sender to receiver: the answer to a probe, of the same length.
    Echo {
        /// The flow.
        key: u32,
        /// The probe's number.
        number: u32,
        /// The probe's timestamp.
        probe_sent: u64,
        /// What the sender wants to have back before it sends data to where the probe came from.
        challenge: u64,
        /// UDP payload bytes of the probe as it arrived.
        len: u16,
    },
    /// Receiver to sender: returns an echo's challenge. Data may come to where this comes from, for a while.
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

/// The header of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The flow.
    pub key: u32,
    /// The rate at which it was sent, by its epoch.
    pub epoch: u16,
    /// The request that it answers.
    pub request: u32,
    /// Counts the flow's data packets.
    pub sequence: Sequence,
    /// Where its block starts in the object, in bytes.
    pub offset: u64,
    /// The sender's clock, in nanoseconds. Packets of one burst carry the same value.
    pub sent: u64,
}

impl DataHeader {
    /// Writes the header. There is one for each packet of a transfer, so it is four whole words.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let kind = u64::from(VERSION << 4 | DATA);
        let words = [
            kind << 56 | u64::from(self.epoch) << 32 | u64::from(self.key),
            u64::from(self.request) << 32 | u64::from(self.sequence.get()),
            self.offset,
            self.sent,
        ];
        let mut head = [0; HEADER_LEN];
        for (bytes, word) in head.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        head
    }
}

fn u16_at(bytes: &[u8; HEADER_LEN], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
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
    /// When there are fewer than [`HEADER_LEN`] bytes, the version is another, or the kind is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let head: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Short)?;
        if head[0] >> 4 != VERSION {
            return Err(WireError::Version(head[0] >> 4));
        }
        let key = u32_at(head, 4);
        Ok(match head[0] & 0x0f {
            DATA => Self::Data(DataHeader {
                key,
                epoch: u16_at(head, 2),
                request: u32_at(head, 8),
                sequence: Sequence::new(u32_at(head, 12)),
                offset: u64_at(head, 16),
                sent: u64_at(head, 24),
            }),
            EDGE => Self::Edge {
                key,
                epoch: u16_at(head, 2),
                request: u32_at(head, 8),
                sequence: Sequence::new(u32_at(head, 12)),
            },
            PROBE => Self::Probe { key, token: u64_at(head, 8), number: u32_at(head, 16), sent: u64_at(head, 24) },
            ECHO => Self::Echo {
                key,
                number: u32_at(head, 8),
                probe_sent: u64_at(head, 16),
                challenge: u64_at(head, 24),
                len: u16_at(head, 2),
            },
            RESPONSE => Self::Response { key, token: u64_at(head, 8), challenge: u64_at(head, 16) },
            OPEN => Self::Open { key, token: u64_at(head, 8) },
            _ => return Err(WireError::Kind),
        })
    }

    /// Writes the header.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut head = [0; HEADER_LEN];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        let (kind, key) = match *self {
            Self::Data(data) => return data.emit(),
            Self::Edge { key, epoch, request, sequence } => {
                put(2, &epoch.to_be_bytes());
                put(8, &request.to_be_bytes());
                put(12, &sequence.get().to_be_bytes());
                (EDGE, key)
            }
            Self::Probe { key, token, number, sent } => {
                put(8, &token.to_be_bytes());
                put(16, &number.to_be_bytes());
                put(24, &sent.to_be_bytes());
                (PROBE, key)
            }
            Self::Echo { key, number, probe_sent, challenge, len } => {
                put(2, &len.to_be_bytes());
                put(8, &number.to_be_bytes());
                put(16, &probe_sent.to_be_bytes());
                put(24, &challenge.to_be_bytes());
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
        put(0, &[VERSION << 4 | kind]);
        put(4, &key.to_be_bytes());
        head
    }
}

/// A message on the control channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Receiver to sender, first of all: what the receiver has and wants (gtp-2004 3.3).
    Setup {
        /// Number that datagrams of the flow carry.
        key: u32,
        /// Largest IP packet that the receiver's side of the path is believed to carry, in bytes.
        mtu: u16,
        /// Size of the object as the receiver knows it, in bytes.
        size: u64,
        /// Bytes that the receiver's socket buffer holds.
        receive_buffer: u64,
        /// What the receiver can take in (C_r); `None` when it does not know.
        access_rate: Option<Bitrate>,
        /// What the receiver's application wants at most (R_app).
        application_rate: Option<Bitrate>,
    },
    /// Sender to receiver, the answer to Setup.
    Accept {
        /// Secret that the datagram which opens the path must carry.
        token: u64,
        /// Largest IP packet that the sender's side of the path is believed to carry, in bytes.
        mtu: u16,
        /// Size of the object, in bytes.
        size: u64,
        /// What the sender will send to this receiver at most (R_send).
        send_rate: Option<Bitrate>,
    },
    /// Receiver to sender: send these ranges, in this order, after those that were requested before.
    Request {
        /// Counts requests from 1 up, without gaps.
        id: u32,
        /// Block length for this request: each range is cut into blocks of so many bytes, the last may be shorter.
        block: u16,
        /// The ranges: not empty, at most [`RANGES_MAX`].
        ranges: Vec<ByteRange>,
    },
    /// Receiver to sender: from now on send at this rate, in bursts of at most so many bytes, and mark packets with the epoch.
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
    /// Receiver to sender: forget what was requested and not yet sent, up to this request.
    Cancel {
        /// The last request to forget.
        through: u32,
    },
    /// Receiver to sender: nothing more is needed.
    Close,
}

/// A rate as a field: zero stands for "not known" or "no limit".
fn rate_field(rate: Option<Bitrate>) -> [u8; 8] {
    rate.map_or(0, Bitrate::bps).to_be_bytes()
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

    fn rate(&mut self) -> Result<Option<Bitrate>, WireError> {
        self.u64().map(|bps| (bps != 0).then_some(Bitrate::from_bps(bps)))
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
                Self::Setup {
                    key: r.u32()?,
                    mtu: r.u16()?,
                    size: r.u64()?,
                    receive_buffer: r.u64()?,
                    access_rate: r.rate()?,
                    application_rate: r.rate()?,
                }
            }
            2 => {
                r.version()?;
                Self::Accept { token: r.u64()?, mtu: r.u16()?, size: r.u64()?, send_rate: r.rate()? }
            }
            3 => {
                let (id, block, count) = (r.u32()?, r.u16()?, usize::from(r.u16()?));
                if !(BLOCK_MIN..=BLOCK_MAX).contains(&block)
                    || block % BLOCK_GRAIN != 0
                    || !(1..=RANGES_MAX).contains(&count)
                {
                    return Err(WireError::Value);
                }
                let mut ranges = Vec::with_capacity(count);
                for _ in 0..count {
                    let (start, len) = (r.u64()?, r.u64()?);
                    let end = start.checked_add(len).filter(|_| len > 0).ok_or(WireError::Value)?;
                    ranges.push(ByteRange::new(start, end));
                }
                Self::Request { id, block, ranges }
            }
            4 => {
                let (epoch, rate, burst) = (r.u16()?, r.rate()?, r.u32()?);
                Self::Rate { epoch, rate: rate.ok_or(WireError::Value)?, burst }
            }
            5 => Self::Limit { send_rate: r.rate()? },
            6 => Self::Cancel { through: r.u32()? },
            7 => Self::Close,
            _ => return Err(WireError::Kind),
        };
        if r.0.is_empty() { Ok(message) } else { Err(WireError::Trailing) }
    }

    /// Writes the message.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        match self {
            Self::Setup { key, mtu, size, receive_buffer, access_rate, application_rate } => {
                out.extend([1, VERSION]);
                out.extend(key.to_be_bytes());
                out.extend(mtu.to_be_bytes());
                out.extend(size.to_be_bytes());
                out.extend(receive_buffer.to_be_bytes());
                out.extend(rate_field(*access_rate));
                out.extend(rate_field(*application_rate));
            }
            Self::Accept { token, mtu, size, send_rate } => {
                out.extend([2, VERSION]);
                out.extend(token.to_be_bytes());
                out.extend(mtu.to_be_bytes());
                out.extend(size.to_be_bytes());
                out.extend(rate_field(*send_rate));
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
            Self::Rate { epoch, rate, burst } => {
                out.push(4);
                out.extend(epoch.to_be_bytes());
                out.extend(rate.bps().to_be_bytes());
                out.extend(burst.to_be_bytes());
            }
            Self::Limit { send_rate } => {
                out.push(5);
                out.extend(rate_field(*send_rate));
            }
            Self::Cancel { through } => {
                out.push(6);
                out.extend(through.to_be_bytes());
            }
            Self::Close => out.push(7),
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram() -> impl Strategy<Value = Datagram> {
        let data = any::<(u32, u16, u32, u32, u64, u64)>().prop_map(|(key, epoch, request, sequence, offset, sent)| {
            Datagram::Data(DataHeader { key, epoch, request, sequence: Sequence::new(sequence), offset, sent })
        });
        let edge = any::<(u32, u16, u32, u32)>().prop_map(|(key, epoch, request, sequence)| Datagram::Edge {
            key,
            epoch,
            request,
            sequence: Sequence::new(sequence),
        });
        let probe = any::<(u32, u64, u32, u64)>().prop_map(|(key, token, number, sent)| Datagram::Probe {
            key,
            token,
            number,
            sent,
        });
        let echo = any::<(u32, u32, u64, u64, u16)>().prop_map(|(key, number, probe_sent, challenge, len)| {
            Datagram::Echo { key, number, probe_sent, challenge, len }
        });
        let response =
            any::<(u32, u64, u64)>().prop_map(|(key, token, challenge)| Datagram::Response { key, token, challenge });
        let open = any::<(u32, u64)>().prop_map(|(key, token)| Datagram::Open { key, token });
        prop_oneof![data, edge, probe, echo, response, open]
    }

    fn rate() -> impl Strategy<Value = Option<Bitrate>> {
        prop::option::of((1..u64::MAX).prop_map(Bitrate::from_bps))
    }

    fn control() -> impl Strategy<Value = Control> {
        let setup = (any::<(u32, u16, u64, u64)>(), rate(), rate()).prop_map(
            |((key, mtu, size, receive_buffer), access_rate, application_rate)| Control::Setup {
                key,
                mtu,
                size,
                receive_buffer,
                access_rate,
                application_rate,
            },
        );
        let accept = (any::<(u64, u16, u64)>(), rate()).prop_map(|((token, mtu, size), send_rate)| Control::Accept {
            token,
            mtu,
            size,
            send_rate,
        });
        let range = (0..1u64 << 62, 1..1u64 << 62).prop_map(|(start, len)| ByteRange::at(start, len));
        let request = (any::<u32>(), BLOCK_MIN / 8..=BLOCK_MAX / 8, prop::collection::vec(range, 1..=RANGES_MAX))
            .prop_map(|(id, block, ranges)| Control::Request { id, block: block * 8, ranges });
        let set_rate = (any::<u16>(), 1..u64::MAX, any::<u32>()).prop_map(|(epoch, rate, burst)| Control::Rate {
            epoch,
            rate: Bitrate::from_bps(rate),
            burst,
        });
        let limit = rate().prop_map(|send_rate| Control::Limit { send_rate });
        let cancel = any::<u32>().prop_map(|through| Control::Cancel { through });
        prop_oneof![setup, accept, request, set_rate, limit, cancel, Just(Control::Close)]
    }

    proptest! {
        #[test]
        fn datagram_comes_back_as_it_was(datagram in datagram()) {
            prop_assert_eq!(Datagram::parse(&datagram.emit()), Ok(datagram));
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
        assert_eq!(Datagram::parse(&[0x11; 31]), Err(WireError::Short));
        assert_eq!(Datagram::parse(&[0x21; 32]), Err(WireError::Version(2)));
        assert_eq!(Datagram::parse(&[0x1f; 32]), Err(WireError::Kind));
        let request =
            |block: u16, ranges: Vec<ByteRange>| Control::parse(&Control::Request { id: 1, block, ranges }.emit());
        assert_eq!(request(1440, vec![]), Err(WireError::Value));
        assert_eq!(request(1440, vec![ByteRange::at(5, 0)]), Err(WireError::Value));
        assert_eq!(request(1441, vec![ByteRange::at(5, 1)]), Err(WireError::Value));
        assert_eq!(request(8, vec![ByteRange::at(5, 1)]), Err(WireError::Value));
        assert_eq!(request(1440, vec![ByteRange::at(0, 1); RANGES_MAX + 1]), Err(WireError::Value));
        let mut beyond = Control::Request { id: 1, block: 1440, ranges: vec![ByteRange::at(1, 2)] }.emit();
        let len = beyond.len();
        beyond[len - 8..].fill(0xff);
        assert_eq!(Control::parse(&beyond), Err(WireError::Value));
        assert_eq!(Control::parse(&[4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), Err(WireError::Value));
    }
}
