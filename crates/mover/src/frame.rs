//! The session's frames: what a client and a server say to each other over TCP.
//!
//! A frame is `[length: u32][kind: u8][body]`, numbers big-endian; `length` counts the kind and the body and is at most
//! [`MAX_FRAME`]. The client is the side that connects:
//!
//! ```text
//! client                                server
//! Hello {magic, version, role, transport} ->
//!                                  <-   Welcome {version, udp_port}  or  Refused
//! Open {path}  or  Bench {..}      ->
//!                                  <-   DataSet pieces, the last marked  (Open)  or  Refused
//!     or  List {path, recursive}   ->   (a session for this alone)
//!                                  <-   Listing pieces, the last marked, or  Refused
//!     or  Probe                    ->   (a session for this alone; datagrams as in `probe.rs`)
//!                                  <-   ProbeGrant {token}  or  Refused
//! Protocol {message}               <->  the endpoint's control messages
//! DigestsOf {runs of groups}       ->
//!                                  <-   Digests {first_group, values} ...
//!                                  <-   Stats, once a second              (Bench, server receives)
//! Finish                           ->
//!                                  <-   Stats (Bench), Bye
//! ```

use inhaul_base::Span;

/// Bytes of kind and body together that a frame may have.
pub const MAX_FRAME: usize = 1 << 20;
/// Most bytes of a data set's manifest in one [`Frame::DataSet`].
pub const MAX_PIECE: usize = MAX_FRAME - 64;
/// Most digests in one [`Frame::Digests`]: 512 KiB of them, one for each MiB of 16 GiB.
pub const MAX_DIGESTS: usize = 1 << 14;
/// Most runs in one [`Frame::DigestsOf`].
pub const MAX_RUNS: usize = 1 << 12;
/// The version of this session protocol.
pub const VERSION: u16 = 3;

const MAGIC: &[u8; 8] = b"inhaul\r\n";
const MAX_TRANSPORT: usize = 32;
const MAX_PATH: usize = 4096;
const MAX_TEXT: usize = 1024;

/// The chaining value of one group of a file: see `inhaul_store`.
pub type GroupDigest = [u8; 32];

/// Consecutive groups of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRun {
    /// The first group, counted over all files.
    pub first: u64,
    /// How many there are.
    pub count: u64,
}

/// What a client has come for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionRole {
    /// To fetch a data set.
    Fetch,
    /// To fetch bytes from the server's memory.
    BenchFetch,
    /// To send bytes to the server's memory.
    BenchPush,
}

/// The memory that a bench moves bytes from and into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// One small buffer, sent again and again; received bodies are dropped. Shows the protocol and the network stack.
    #[default]
    Hot,
    /// 1 GiB, walked from end to end at both sides. Shows what real data costs.
    Cold,
}

/// Why a server will not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// There is nothing at that path.
    NotFound,
    /// The path leads out of what is offered.
    Outside,
    /// The peer speaks a version that is not spoken here.
    Version,
    /// As many sessions are open as may be.
    Busy,
    /// This server does other things: it serves files, or it is for benches.
    WrongService,
    /// This server does not know the transport protocol.
    UnknownTransport,
    /// The server could not read its own files.
    Unreadable,
    /// The peer broke the session protocol.
    Malformed,
}

/// How a bench's flow did, as its receiver counted, and what the reporting process spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BenchStats {
    /// Bytes delivered, each counted once.
    pub placed_bytes: u64,
    /// Data packets received.
    pub received_packets: u64,
    /// Data packets found lost.
    pub lost_packets: u64,
    /// Bytes asked for a second time or more.
    pub retransmitted_bytes: u64,
    /// Smoothed round-trip time; zero when it was not measured here.
    pub rtt: Span,
    /// Processor time of the reporting process since the session began.
    pub cpu: Span,
}

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame: who the client is.
    Hello {
        /// The session protocol's version.
        version: u16,
        /// What the client has come for.
        role: SessionRole,
        /// The transport protocol that is to carry the data, by its name in the registry.
        transport: String,
    },
    /// The server's answer.
    Welcome {
        /// The session protocol's version.
        version: u16,
        /// Where the server takes datagrams.
        udp_port: u16,
    },
    /// The server will not; it closes the stream.
    Refused {
        /// Why, for the program.
        code: RefusalCode,
        /// Why, for the user.
        text: String,
    },
    /// The client wants what lies at this path.
    Open {
        /// Path below the offered directories, with a leading slash.
        path: String,
        /// It wants to know whose files are.
        owner: bool,
        /// It wants to know files' extended attributes.
        attributes: bool,
    },
    /// The client wants to see what there is at this path.
    List {
        /// Whether all that lies beneath it is meant, rather than what lies in it.
        recursive: bool,
        /// Path below the offered directories, with a leading slash.
        path: String,
    },
    /// A piece of what there is: see [`inhaul_store::Listed`].
    Listing {
        /// Whether this is the last piece.
        last: bool,
        /// The piece: whole items.
        bytes: Vec<u8>,
    },
    /// The client wants to try the path to the server's UDP port.
    Probe,
    /// The server answers probes that carry this token until the stream ends.
    ProbeGrant {
        /// A number that only the two know.
        token: u64,
    },
    /// The client wants a bench.
    Bench {
        /// Size of the object, in bytes.
        size: u64,
        /// The memory that is moved from and into.
        memory: Memory,
    },
    /// A piece of the data set's manifest.
    DataSet {
        /// Whether this is the last piece.
        last: bool,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// A control message of the transport protocol.
    Protocol {
        /// The message.
        message: Vec<u8>,
    },
    /// The client wants the digests of these runs of groups of the data set, in this order; at most [`MAX_RUNS`].
    DigestsOf {
        /// The runs.
        runs: Vec<GroupRun>,
    },
    /// Digests of consecutive groups, within one run.
    Digests {
        /// The first group, counted over all files.
        first_group: u64,
        /// A value for each group.
        values: Vec<GroupDigest>,
    },
    /// How a bench's flow is doing.
    Stats(BenchStats),
    /// The client is done.
    Finish,
    /// The server is done too and closes the stream.
    Bye,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The peer did not greet with the magic number.
    #[error("it does not speak inhaul's session protocol")]
    NotInhaul,
    /// A frame is larger than [`MAX_FRAME`] or empty.
    #[error("a frame of {0} bytes is not legal")]
    BadLength(u32),
    /// The kind is not known.
    #[error("frame kind {0} is not known")]
    UnknownKind(u8),
    /// A frame of a known kind is too short, too long or holds an illegal value.
    #[error("a frame of kind {0} is malformed")]
    Malformed(u8),
}

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const WELCOME: u8 = 2;
    pub(super) const REFUSED: u8 = 3;
    pub(super) const OPEN: u8 = 4;
    pub(super) const BENCH: u8 = 5;
    pub(super) const DATA_SET: u8 = 6;
    pub(super) const PROTOCOL: u8 = 7;
    pub(super) const DIGESTS_OF: u8 = 8;
    pub(super) const DIGESTS: u8 = 9;
    pub(super) const STATS: u8 = 10;
    pub(super) const FINISH: u8 = 11;
    pub(super) const BYE: u8 = 12;
    pub(super) const LIST: u8 = 13;
    pub(super) const LISTING: u8 = 14;
    pub(super) const PROBE: u8 = 15;
    pub(super) const PROBE_GRANT: u8 = 16;
}

/// Bytes of the length that stands before each frame.
const LENGTH_BYTES: usize = 4;

impl Frame {
    /// The refusal of a peer that has broken the rules, and how.
    pub(crate) fn malformed(how: &impl ToString) -> Self {
        Self::Refused { code: RefusalCode::Malformed, text: how.to_string() }
    }

    /// The refusal of a frame that may not come at this time, or from this side.
    pub(crate) fn out_of_place() -> Self {
        Self::malformed(&"that frame has no place here")
    }

    /// Reads the first frame of `bytes` and says how many bytes it took; `None` while it is not whole.
    ///
    /// # Errors
    /// When no continuation could make a legal frame of it.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length_on_wire = u32::from_be_bytes(*length);
        let length = length_on_wire as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(FrameError::BadLength(length_on_wire));
        }
        let Some((kind, body)) = rest.get(..length).and_then(<[u8]>::split_first) else { return Ok(None) };
        let frame = Self::parse_body(*kind, body)?;
        Ok(Some((frame, LENGTH_BYTES + length)))
    }

    fn parse_body(kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        if kind == kind::HELLO && !body.starts_with(MAGIC) {
            return Err(FrameError::NotInhaul);
        }
        let mut r = Reader { bytes: body };
        let frame = match kind {
            kind::HELLO => r.hello(),
            kind::WELCOME => r.welcome(),
            kind::REFUSED => r.refused(),
            kind::OPEN => r.open(),
            kind::BENCH => r.bench(),
            kind::DATA_SET => r.data_set(),
            kind::PROTOCOL => Some(Self::Protocol { message: r.rest() }),
            kind::DIGESTS_OF => r.digests_of(),
            kind::DIGESTS => r.digests(),
            kind::STATS => r.stats().map(Self::Stats),
            kind::FINISH => Some(Self::Finish),
            kind::BYE => Some(Self::Bye),
            kind::LIST => r.list(),
            kind::LISTING => r.flag().map(|last| Self::Listing { last, bytes: r.rest() }),
            kind::PROBE => Some(Self::Probe),
            kind::PROBE_GRANT => r.u64().map(|token| Self::ProbeGrant { token }),
            unknown => return Err(FrameError::UnknownKind(unknown)),
        };
        frame.filter(|_| r.bytes.is_empty()).ok_or(FrameError::Malformed(kind))
    }

    /// Appends the frame to `out`. Texts that are too long are cut; the caller keeps pieces and messages below [`MAX_PIECE`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        match self {
            Self::Hello { version, role, transport } => {
                out.push(kind::HELLO);
                out.extend_from_slice(MAGIC);
                out.extend_from_slice(&version.to_be_bytes());
                out.push(role.code());
                out.extend_from_slice(cut(transport, MAX_TRANSPORT).as_bytes());
            }
            Self::Welcome { version, udp_port } => {
                out.push(kind::WELCOME);
                out.extend_from_slice(&version.to_be_bytes());
                out.extend_from_slice(&udp_port.to_be_bytes());
            }
            Self::Refused { code, text } => {
                out.push(kind::REFUSED);
                out.push(code.code());
                out.extend_from_slice(cut(text, MAX_TEXT).as_bytes());
            }
            Self::Open { path, owner, attributes } => {
                out.push(kind::OPEN);
                out.extend_from_slice(&[u8::from(*owner), u8::from(*attributes)]);
                out.extend_from_slice(cut(path, MAX_PATH).as_bytes());
            }
            Self::Bench { size, memory } => {
                out.push(kind::BENCH);
                out.extend_from_slice(&size.to_be_bytes());
                out.push(u8::from(*memory == Memory::Cold));
            }
            Self::DataSet { last, bytes } => {
                out.push(kind::DATA_SET);
                out.push(u8::from(*last));
                out.extend_from_slice(bytes);
            }
            Self::Protocol { message } => {
                out.push(kind::PROTOCOL);
                out.extend_from_slice(message);
            }
            Self::DigestsOf { runs } => {
                out.push(kind::DIGESTS_OF);
                for run in runs {
                    out.extend_from_slice(&run.first.to_be_bytes());
                    out.extend_from_slice(&run.count.to_be_bytes());
                }
            }
            Self::Digests { first_group, values } => {
                out.push(kind::DIGESTS);
                out.extend_from_slice(&first_group.to_be_bytes());
                out.extend_from_slice(values.as_flattened());
            }
            Self::Stats(stats) => {
                out.push(kind::STATS);
                for number in stats.numbers() {
                    out.extend_from_slice(&number.to_be_bytes());
                }
            }
            Self::Finish => out.push(kind::FINISH),
            Self::Bye => out.push(kind::BYE),
            Self::List { recursive, path } => {
                out.extend_from_slice(&[kind::LIST, u8::from(*recursive)]);
                out.extend_from_slice(cut(path, MAX_PATH).as_bytes());
            }
            Self::Listing { last, bytes } => {
                out.extend_from_slice(&[kind::LISTING, u8::from(*last)]);
                out.extend_from_slice(bytes);
            }
            Self::Probe => out.push(kind::PROBE),
            Self::ProbeGrant { token } => {
                out.push(kind::PROBE_GRANT);
                out.extend_from_slice(&token.to_be_bytes());
            }
        }
        let length = (out.len() - start - LENGTH_BYTES) as u32;
        out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    }
}

impl BenchStats {
    /// The fields in the order of the wire.
    fn numbers(&self) -> [u64; 6] {
        [
            self.placed_bytes,
            self.received_packets,
            self.lost_packets,
            self.retransmitted_bytes,
            self.rtt.as_nanos(),
            self.cpu.as_nanos(),
        ]
    }
}

impl SessionRole {
    const ALL: [Self; 3] = [Self::Fetch, Self::BenchFetch, Self::BenchPush];

    fn code(self) -> u8 {
        match self {
            Self::Fetch => 1,
            Self::BenchFetch => 2,
            Self::BenchPush => 3,
        }
    }
}

impl RefusalCode {
    const ALL: [Self; 8] = [
        Self::NotFound,
        Self::Outside,
        Self::Version,
        Self::Busy,
        Self::WrongService,
        Self::UnknownTransport,
        Self::Unreadable,
        Self::Malformed,
    ];

    fn code(self) -> u8 {
        match self {
            Self::NotFound => 1,
            Self::Outside => 2,
            Self::Version => 3,
            Self::Busy => 4,
            Self::WrongService => 5,
            Self::Unreadable => 6,
            Self::Malformed => 7,
            Self::UnknownTransport => 8,
        }
    }
}

/// The longest front of `text` that has at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Takes values off the front of a frame's body; `None` when it is too short or the value is illegal.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes).to_vec()
    }

    fn text(&mut self, max: usize) -> Option<String> {
        if self.bytes.len() > max {
            return None;
        }
        String::from_utf8(self.rest()).ok()
    }

    fn hello(&mut self) -> Option<Frame> {
        self.take::<{ MAGIC.len() }>()?;
        let version = self.u16()?;
        let code = self.u8()?;
        let role = SessionRole::ALL.into_iter().find(|role| role.code() == code)?;
        Some(Frame::Hello { version, role, transport: self.text(MAX_TRANSPORT)? })
    }

    fn welcome(&mut self) -> Option<Frame> {
        let version = self.u16()?;
        let udp_port = self.u16().filter(|&port| port != 0)?;
        Some(Frame::Welcome { version, udp_port })
    }

    fn refused(&mut self) -> Option<Frame> {
        let number = self.u8()?;
        let code = RefusalCode::ALL.into_iter().find(|code| code.code() == number)?;
        Some(Frame::Refused { code, text: self.text(MAX_TEXT)? })
    }

    fn list(&mut self) -> Option<Frame> {
        let recursive = self.flag()?;
        Some(Frame::List { recursive, path: self.text(MAX_PATH)? })
    }

    fn open(&mut self) -> Option<Frame> {
        let (owner, attributes) = (self.flag()?, self.flag()?);
        Some(Frame::Open { path: self.text(MAX_PATH)?, owner, attributes })
    }

    fn bench(&mut self) -> Option<Frame> {
        let size = self.u64()?;
        let memory = if self.flag()? { Memory::Cold } else { Memory::Hot };
        Some(Frame::Bench { size, memory })
    }

    fn data_set(&mut self) -> Option<Frame> {
        Some(Frame::DataSet { last: self.flag()?, bytes: self.rest() })
    }

    fn digests_of(&mut self) -> Option<Frame> {
        let mut runs = Vec::with_capacity((self.bytes.len() / 16).min(MAX_RUNS));
        while runs.is_empty() || !self.bytes.is_empty() {
            runs.push(GroupRun { first: self.u64()?, count: self.u64()? });
            if runs.len() > MAX_RUNS {
                return None;
            }
        }
        Some(Frame::DigestsOf { runs })
    }

    fn digests(&mut self) -> Option<Frame> {
        let first_group = self.u64()?;
        let (values, odd) = self.bytes.as_chunks::<32>();
        if !odd.is_empty() || values.is_empty() || values.len() > MAX_DIGESTS {
            return None;
        }
        let values = values.to_vec();
        self.bytes = &[];
        Some(Frame::Digests { first_group, values })
    }

    fn stats(&mut self) -> Option<BenchStats> {
        Some(BenchStats {
            placed_bytes: self.u64()?,
            received_packets: self.u64()?,
            lost_packets: self.u64()?,
            retransmitted_bytes: self.u64()?,
            rtt: Span::from_nanos(self.u64()?),
            cpu: Span::from_nanos(self.u64()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..max)
    }

    fn stats() -> impl Strategy<Value = BenchStats> {
        any::<[u64; 6]>().prop_map(|[placed, received, lost, again, rtt, cpu]| BenchStats {
            placed_bytes: placed,
            received_packets: received,
            lost_packets: lost,
            retransmitted_bytes: again,
            rtt: Span::from_nanos(rtt),
            cpu: Span::from_nanos(cpu),
        })
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let role = prop::sample::select(SessionRole::ALL.to_vec());
        let code = prop::sample::select(RefusalCode::ALL.to_vec());
        let memory = prop::sample::select(vec![Memory::Hot, Memory::Cold]);
        prop_oneof![
            (any::<u16>(), role, "[a-z0-9]{0,32}").prop_map(|(version, role, transport)| Frame::Hello {
                version,
                role,
                transport
            }),
            (any::<u16>(), 1..=u16::MAX).prop_map(|(version, udp_port)| Frame::Welcome { version, udp_port }),
            (code, prop::collection::vec(any::<char>(), 0..200))
                .prop_map(|(code, text)| Frame::Refused { code, text: text.into_iter().collect() }),
            (prop::collection::vec(any::<char>(), 0..200), any::<bool>(), any::<bool>()).prop_map(
                |(path, owner, attributes)| Frame::Open { path: path.into_iter().collect(), owner, attributes }
            ),
            (any::<u64>(), memory).prop_map(|(size, memory)| Frame::Bench { size, memory }),
            (any::<bool>(), bytes(300)).prop_map(|(last, bytes)| Frame::DataSet { last, bytes }),
            bytes(300).prop_map(|message| Frame::Protocol { message }),
            prop::collection::vec(any::<(u64, u64)>(), 1..9).prop_map(|runs| Frame::DigestsOf {
                runs: runs.into_iter().map(|(first, count)| GroupRun { first, count }).collect()
            }),
            (any::<u64>(), prop::collection::vec(any::<GroupDigest>(), 1..20))
                .prop_map(|(first_group, values)| Frame::Digests { first_group, values }),
            stats().prop_map(Frame::Stats),
            (any::<bool>(), "[a-z/]{0,20}").prop_map(|(recursive, path)| Frame::List { recursive, path }),
            (any::<bool>(), bytes(300)).prop_map(|(last, bytes)| Frame::Listing { last, bytes }),
            Just(Frame::Probe),
            any::<u64>().prop_map(|token| Frame::ProbeGrant { token }),
            Just(Frame::Finish),
            Just(Frame::Bye),
        ]
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_encode_wrote(first in frame(), second in frame()) {
            let mut bytes = Vec::new();
            first.encode(&mut bytes);
            let end = bytes.len();
            second.encode(&mut bytes);
            prop_assert_eq!(Frame::parse(&bytes), Ok(Some((first, end))));
            let rest = bytes.len() - end;
            prop_assert_eq!(Frame::parse(&bytes[end..]), Ok(Some((second, rest))));
        }

        #[test]
        fn parse_of_a_part_waits_for_the_rest(frame in frame(), cut in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            let cut = cut.index(bytes.len());
            prop_assert_eq!(Frame::parse(&bytes[..cut]), Ok(None));
        }

        #[test]
        fn parse_takes_any_bytes_and_what_it_accepts_is_canonical(kind in 0u8..18, body in bytes(200)) {
            let mut bytes = ((body.len() + 1) as u32).to_be_bytes().to_vec();
            bytes.push(kind);
            bytes.extend(body);
            if let Ok(Some((frame, used))) = Frame::parse(&bytes) {
                prop_assert_eq!(used, bytes.len());
                let mut again = Vec::new();
                frame.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn parse_refuses_what_can_never_be_a_frame() {
        assert_eq!(Frame::parse(b"GET / HTTP/1.1\r\n"), Err(FrameError::BadLength(u32::from_be_bytes(*b"GET "))));
        assert_eq!(Frame::parse(&[0, 0, 0, 0]), Err(FrameError::BadLength(0)));
        assert_eq!(Frame::parse(&[0, 0, 0, 1, 99]), Err(FrameError::UnknownKind(99)));
        assert_eq!(Frame::parse(&[0, 0, 0, 3, 1, 7, 7]), Err(FrameError::NotInhaul));
        assert_eq!(Frame::parse(&[0, 0, 0, 2, kind::FINISH, 0]), Err(FrameError::Malformed(kind::FINISH)));
        assert_eq!(Frame::parse(&[0, 0, 0, 2, kind::OPEN, 0xFF]), Err(FrameError::Malformed(kind::OPEN)));
    }

    #[test]
    fn encode_cuts_a_long_text_between_characters() {
        let mut bytes = Vec::new();
        Frame::Refused { code: RefusalCode::Busy, text: "ü".repeat(MAX_TEXT) }.encode(&mut bytes);
        let parsed = Frame::parse(&bytes).unwrap().unwrap().0;
        assert_eq!(parsed, Frame::Refused { code: RefusalCode::Busy, text: "ü".repeat(MAX_TEXT / 2) });
    }
}
