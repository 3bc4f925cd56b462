//! Frames as bytes, and back.

use crc_fast::crc32_iscsi;
use inhaul_base::Span;
use inhaul_base::byte_text::{bytes_of, text_of};
use inhaul_identity::TOKEN_BYTES_MAX;
use inhaul_store::digest::proof::{INSIDE_MAX, PATH_MAX};
use inhaul_store::printable;
use inhaul_udp::{MESSAGE_BYTES_MAX, SEGMENTS_MAX};

use super::{
    BenchStats, FileProblem, Frame, FrameError, GroupDigest, GroupRun, MAX_DIGESTS, MAX_FRAME, MAX_PARAMETER,
    MAX_PARAMETERS, MAX_PARTS, MAX_RUNS, MIDDLE_FRAME, Memory, PartOf, RefusalCode, SMALL_FRAME, SessionRole, VERSION,
};

const MAGIC: &[u8; 8] = b"inhaul\r\n";
const MAX_TRANSPORT: usize = 32;
const MAX_PATH: usize = 4096;
pub(super) const MAX_TEXT: usize = 1024;

pub(super) mod kind {
    pub(in crate::session::frame) const HELLO: u8 = 1;
    pub(in crate::session::frame) const WELCOME: u8 = 2;
    pub(in crate::session::frame) const REFUSED: u8 = 3;
    pub(in crate::session::frame) const OPEN: u8 = 4;
    pub(in crate::session::frame) const BENCH: u8 = 5;
    pub(in crate::session::frame) const DATA_SET: u8 = 6;
    pub(in crate::session::frame) const PROTOCOL: u8 = 7;
    pub(in crate::session::frame) const DIGESTS_OF: u8 = 8;
    pub(in crate::session::frame) const DIGESTS: u8 = 9;
    pub(in crate::session::frame) const STATS: u8 = 10;
    pub(in crate::session::frame) const FINISH: u8 = 11;
    pub(in crate::session::frame) const BYE: u8 = 12;
    pub(in crate::session::frame) const LIST: u8 = 13;
    pub(in crate::session::frame) const LISTING: u8 = 14;
    pub(in crate::session::frame) const PROBE: u8 = 15;
    pub(in crate::session::frame) const PROBE_GRANT: u8 = 16;
    pub(in crate::session::frame) const DELEGATE: u8 = 17;
    pub(in crate::session::frame) const UPDATE: u8 = 18;
    pub(in crate::session::frame) const REPORT: u8 = 19;
    pub(in crate::session::frame) const ATTACH: u8 = 20;
    pub(in crate::session::frame) const FILE_FAILED: u8 = 21;
    pub(in crate::session::frame) const CONTENT: u8 = 22;
    pub(in crate::session::frame) const AUTHORIZE: u8 = 23;
    pub(in crate::session::frame) const ASK_TOKEN: u8 = 24;
    pub(in crate::session::frame) const TOKEN_GRANT: u8 = 25;
    pub(in crate::session::frame) const ATTACH_TUNNEL: u8 = 26;
    pub(in crate::session::frame) const DATAGRAMS: u8 = 27;
    pub(in crate::session::frame) const PROOFS_OF: u8 = 28;
    pub(in crate::session::frame) const PROOF: u8 = 29;
    /// Kinds from here on may be ignored.
    pub(in crate::session::frame) const OPTIONAL: u8 = 128;
    pub(in crate::session::frame) const ASK_TUNNEL: u8 = 128;
    // 129 was in use before a release.
    pub(in crate::session::frame) const TRY_DATAGRAMS: u8 = 130;
    pub(in crate::session::frame) const ASK_VERSION: u8 = 131;
    pub(in crate::session::frame) const FILES_VERSION: u8 = 132;
}

/// Bytes of the length that stands before each frame.
const LENGTH_BYTES: usize = 4;
/// Bytes of the checksum that stands behind it.
const CHECKSUM_BYTES: usize = 4;

/// Whether frames of this kind have a checksum. Those with which sides greet each other have none, so that sides of
/// other versions understand that they do not.
const fn has_checksum(kind: u8) -> bool {
    !matches!(kind, kind::HELLO | kind::WELCOME | kind::REFUSED)
}

/// Most bytes of kind, body and checksum that a frame of this kind may have.
const fn len_max(kind: u8) -> usize {
    match kind {
        kind::DATA_SET
        | kind::LISTING
        | kind::CONTENT
        | kind::DIGESTS
        | kind::DELEGATE
        | kind::UPDATE
        | kind::REPORT => MAX_FRAME,
        kind::PROTOCOL | kind::DIGESTS_OF | kind::PROOFS_OF | kind::DATAGRAMS | kind::OPTIONAL.. => MIDDLE_FRAME,
        _ => SMALL_FRAME,
    }
}

/// A frame of any kind around any body, as it goes over the network: for tests and fuzzers.
pub fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0; LENGTH_BYTES];
    out.push(kind);
    out.extend_from_slice(body);
    close(&mut out, 0, kind);
    out
}

/// Ends the frame of this kind that begins at `start` of `out`: with its length, and its checksum.
fn close(out: &mut Vec<u8>, start: usize, kind: u8) {
    let checksum_len = if has_checksum(kind) { CHECKSUM_BYTES } else { 0 };
    let length = (out.len() - start - LENGTH_BYTES + checksum_len) as u32;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    if has_checksum(kind) {
        let checksum = crc32_iscsi(&out[start..]);
        out.extend_from_slice(&checksum.to_be_bytes());
    }
}

impl Frame {
    /// The refusal of a peer that has broken the rules, and how.
    pub fn malformed(how: &impl ToString) -> Self {
        Self::Refused { code: RefusalCode::Malformed, text: how.to_string() }
    }

    /// The refusal of a frame that may not come at this time, or from this side.
    pub fn out_of_place() -> Self {
        Self::malformed(&"that frame has no place here")
    }

    /// Reads the first frame of `bytes` and says how many bytes it took; `None` while it is not whole.
    ///
    /// # Errors
    /// When no continuation could make a legal frame of it.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        Self::parse_within(bytes, MAX_FRAME)
    }

    /// The same of a peer whose frames may have no more than `bytes_max` bytes just now.
    pub(crate) fn parse_within(bytes: &[u8], bytes_max: usize) -> Result<Option<(Self, usize)>, FrameError> {
        let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length_on_wire = u32::from_be_bytes(*length);
        let length = length_on_wire as usize;
        // What is small is taken in whole before its kind is looked at: it may have been damaged.
        let of_kind = bytes.get(LENGTH_BYTES).filter(|_| length > SMALL_FRAME).map_or(MAX_FRAME, |&kind| len_max(kind));
        if length == 0 || length > bytes_max.min(of_kind) {
            return Err(FrameError::BadLength(length_on_wire));
        }
        let used = LENGTH_BYTES + length;
        let Some(whole) = bytes.get(..used) else { return Ok(None) };
        let kind = whole[LENGTH_BYTES];
        let mut body = &whole[LENGTH_BYTES + 1..];
        if has_checksum(kind) {
            let checksum;
            (body, checksum) = body.split_last_chunk().ok_or(FrameError::Malformed(kind))?;
            if crc32_iscsi(&whole[..used - CHECKSUM_BYTES]) != u32::from_be_bytes(*checksum) {
                return Err(FrameError::Damaged);
            }
        }
        Ok(Some((Self::parse_body(kind, body)?, used)))
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
            kind::DELEGATE => Some(Self::Delegate { order: r.rest() }),
            kind::UPDATE => Some(Self::Update { update: r.rest() }),
            kind::REPORT => r.flag().map(|last| Self::Report { last, bytes: r.rest() }),
            kind::ATTACH => r.attach(),
            kind::FILE_FAILED => r.file_failed(),
            kind::CONTENT => Some(Self::Content { bytes: r.rest() }),
            kind::AUTHORIZE => r.token().map(|token| Self::Authorize { token }),
            kind::ASK_TOKEN => r.ask_token(),
            kind::TOKEN_GRANT => r.token().map(|token| Self::TokenGrant { token }),
            kind::ATTACH_TUNNEL => r.u128().map(|token| Self::AttachTunnel { token }),
            kind::DATAGRAMS => r.datagrams(),
            kind::PROOFS_OF => r.proofs_of(),
            kind::PROOF => r.proof(),
            kind::ASK_TUNNEL => Some(Self::AskTunnel),
            kind::TRY_DATAGRAMS => Some(Self::TryDatagrams),
            kind::ASK_VERSION => Some(Self::AskVersion),
            kind::FILES_VERSION => r.take().map(|version| Self::FilesVersion { version }),
            _ if kind >= kind::OPTIONAL => {
                r.bytes = &[];
                Some(Self::Optional { kind })
            }
            unknown => return Err(FrameError::UnknownKind(unknown)),
        };
        frame.filter(|_| r.bytes.is_empty()).ok_or(FrameError::Malformed(kind))
    }

    /// Appends the frame to `out`. Texts that are too long are cut; the caller keeps pieces and messages below
    /// [`MAX_PIECE`](super::MAX_PIECE).
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        out.push(self.kind());
        self.encode_body(out);
        close(out, start, self.kind());
    }

    /// Most bytes of kind, body and checksum that a frame of this kind may have.
    pub(crate) fn len_max(&self) -> usize {
        len_max(self.kind())
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => kind::HELLO,
            Self::Welcome { .. } => kind::WELCOME,
            Self::Refused { .. } => kind::REFUSED,
            Self::Open { .. } => kind::OPEN,
            Self::Bench { .. } => kind::BENCH,
            Self::DataSet { .. } => kind::DATA_SET,
            Self::Protocol { .. } => kind::PROTOCOL,
            Self::DigestsOf { .. } => kind::DIGESTS_OF,
            Self::Digests { .. } => kind::DIGESTS,
            Self::Stats(_) => kind::STATS,
            Self::Finish => kind::FINISH,
            Self::Bye => kind::BYE,
            Self::List { .. } => kind::LIST,
            Self::Listing { .. } => kind::LISTING,
            Self::Probe => kind::PROBE,
            Self::ProbeGrant { .. } => kind::PROBE_GRANT,
            Self::Delegate { .. } => kind::DELEGATE,
            Self::Update { .. } => kind::UPDATE,
            Self::Report { .. } => kind::REPORT,
            Self::Attach { .. } => kind::ATTACH,
            Self::FileFailed { .. } => kind::FILE_FAILED,
            Self::Content { .. } => kind::CONTENT,
            Self::Authorize { .. } => kind::AUTHORIZE,
            Self::AskToken { .. } => kind::ASK_TOKEN,
            Self::TokenGrant { .. } => kind::TOKEN_GRANT,
            Self::AskTunnel => kind::ASK_TUNNEL,
            Self::AttachTunnel { .. } => kind::ATTACH_TUNNEL,
            Self::Datagrams { .. } => kind::DATAGRAMS,
            Self::ProofsOf { .. } => kind::PROOFS_OF,
            Self::Proof { .. } => kind::PROOF,
            Self::TryDatagrams => kind::TRY_DATAGRAMS,
            Self::AskVersion => kind::ASK_VERSION,
            Self::FilesVersion { .. } => kind::FILES_VERSION,
            Self::Optional { kind } => *kind,
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { version, role, transport, parameters } => {
                out.extend_from_slice(MAGIC);
                out.extend_from_slice(&version.to_be_bytes());
                out.push(role.code());
                let mut put = |text: &str, max: usize| {
                    let text = cut(text, max);
                    out.push(text.len() as u8);
                    out.extend_from_slice(text.as_bytes());
                };
                put(transport, MAX_TRANSPORT);
                let parameters = &parameters[..parameters.len().min(MAX_PARAMETERS)];
                for (name, value) in parameters {
                    put(name, MAX_PARAMETER);
                    put(value, MAX_PARAMETER);
                }
                // An empty name ends them.
                put("", 0);
            }
            Self::Welcome { version, udp_port, key } => {
                out.extend_from_slice(&version.to_be_bytes());
                out.extend_from_slice(&udp_port.to_be_bytes());
                out.extend_from_slice(key.as_ref().map_or(&[][..], |key| &key[..]));
            }
            Self::Refused { code, text } => {
                out.push(code.code());
                out.extend_from_slice(cut(text, MAX_TEXT).as_bytes());
            }
            Self::Open { path, owner, attributes, early } => {
                out.extend_from_slice(&[u8::from(*owner), u8::from(*attributes)]);
                out.extend_from_slice(&early.to_be_bytes());
                put_path(path, out);
            }
            Self::List { recursive, path } => {
                out.push(u8::from(*recursive));
                put_path(path, out);
            }
            Self::AskToken { holder, path } => {
                out.extend_from_slice(holder);
                put_path(path, out);
            }
            Self::Bench { size, memory } => {
                out.extend_from_slice(&size.to_be_bytes());
                out.push(u8::from(*memory == Memory::Cold));
            }
            Self::DataSet { last, bytes } | Self::Listing { last, bytes } | Self::Report { last, bytes } => {
                out.push(u8::from(*last));
                out.extend_from_slice(bytes);
            }
            Self::Protocol { message: bytes }
            | Self::Delegate { order: bytes }
            | Self::Update { update: bytes }
            | Self::Authorize { token: bytes }
            | Self::TokenGrant { token: bytes }
            | Self::Content { bytes } => out.extend_from_slice(bytes),
            Self::DigestsOf { runs } => {
                let numbers = runs.iter().flat_map(|run| [run.first, run.count]);
                numbers.for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
            }
            Self::Digests { first_group, values } => {
                out.extend_from_slice(&first_group.to_be_bytes());
                out.extend_from_slice(values.as_flattened());
            }
            Self::ProofsOf { parts } => parts.iter().for_each(|part| part.encode(out)),
            Self::Proof { part, digest, inside, path } => {
                part.encode(out);
                out.extend_from_slice(digest);
                out.push(inside.len() as u8);
                out.extend_from_slice(inside.as_flattened());
                out.extend_from_slice(path.as_flattened());
            }
            Self::Stats(stats) => {
                stats.numbers().iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
            }
            Self::ProbeGrant { token } => out.extend_from_slice(&token.to_be_bytes()),
            Self::Attach { token, source } => {
                out.extend_from_slice(&token.to_be_bytes());
                out.extend_from_slice(&source.to_be_bytes());
            }
            Self::FileFailed { file, problem } => {
                out.extend_from_slice(&file.to_be_bytes());
                out.push(problem.code());
            }
            Self::AttachTunnel { token } => out.extend_from_slice(&token.to_be_bytes()),
            Self::Datagrams { segment, bytes } => {
                out.extend_from_slice(&segment.to_be_bytes());
                out.extend_from_slice(bytes);
            }
            Self::FilesVersion { version } => out.extend_from_slice(version),
            Self::Finish
            | Self::Bye
            | Self::Probe
            | Self::AskTunnel
            | Self::TryDatagrams
            | Self::AskVersion
            | Self::Optional { .. } => {}
        }
    }
}

impl PartOf {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.to_be_bytes());
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        out.push(self.levels);
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
    pub(super) const ALL: [Self; 6] =
        [Self::Fetch, Self::BenchFetch, Self::BenchPush, Self::Delegate, Self::Attach, Self::Tunnel];

    fn code(self) -> u8 {
        match self {
            Self::Fetch => 1,
            Self::BenchFetch => 2,
            Self::BenchPush => 3,
            Self::Delegate => 4,
            Self::Attach => 5,
            Self::Tunnel => 6,
        }
    }
}

impl RefusalCode {
    pub(super) const ALL: [Self; 10] = [
        Self::NotFound,
        Self::Outside,
        Self::Version,
        Self::Busy,
        Self::WrongService,
        Self::UnknownTransport,
        Self::Unreadable,
        Self::Malformed,
        Self::NotAllowed,
        Self::NoRight,
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
            Self::NotAllowed => 9,
            Self::NoRight => 10,
        }
    }
}

impl FileProblem {
    pub(super) const ALL: [Self; 2] = [Self::Changed, Self::Unreadable];

    fn code(self) -> u8 {
        match self {
            Self::Changed => 1,
            Self::Unreadable => 2,
        }
    }
}

/// The longest front of `text` that has at most `max` bytes.
/// A path as its bytes.
fn put_path(path: &str, out: &mut Vec<u8>) {
    let bytes = bytes_of(path);
    out.extend_from_slice(&bytes[..bytes.len().min(MAX_PATH)]);
}

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

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_be_bytes)
    }

    fn datagrams(&mut self) -> Option<Frame> {
        let segment = self.u16().filter(|&segment| segment > 0)?;
        let is_legal = !self.bytes.is_empty()
            && self.bytes.len() <= MESSAGE_BYTES_MAX
            && self.bytes.len().div_ceil(usize::from(segment)) <= SEGMENTS_MAX;
        is_legal.then(|| Frame::Datagrams { segment, bytes: self.rest() })
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

    /// A path is any bytes: see [`inhaul_base::byte_text`].
    fn path(&mut self) -> Option<String> {
        (self.bytes.len() <= MAX_PATH).then(|| text_of(&self.rest()))
    }

    /// A text that is shown to people: whatever a peer sends as one is made [`printable`] here, and nowhere else.
    fn shown_text(&mut self, max: usize) -> Option<String> {
        if self.bytes.len() > max {
            return None;
        }
        let text = printable(&self.rest());
        Some(cut(&text, max).to_owned())
    }

    fn hello(&mut self) -> Option<Frame> {
        self.take::<{ MAGIC.len() }>()?;
        let version = self.u16()?;
        let code = self.u8()?;
        let role = SessionRole::ALL.into_iter().find(|role| role.code() == code)?;
        let (mut transport, mut parameters) = (String::new(), Vec::new());
        if version == VERSION {
            transport = self.short_text(MAX_TRANSPORT)?;
            loop {
                let name = self.short_text(MAX_PARAMETER)?;
                if name.is_empty() {
                    break;
                }
                if parameters.len() == MAX_PARAMETERS {
                    return None;
                }
                parameters.push((name, self.short_text(MAX_PARAMETER)?));
            }
        }
        self.bytes = &[];
        Some(Frame::Hello { version, role, transport, parameters })
    }

    /// A text behind its length, for people or to be refused in words to them: see [`Reader::shown_text`].
    fn short_text(&mut self, max: usize) -> Option<String> {
        let len = usize::from(self.u8()?);
        let (text, rest) = self.bytes.split_at_checked(len).filter(|_| len <= max)?;
        self.bytes = rest;
        Some(cut(&printable(text), max).to_owned())
    }

    fn welcome(&mut self) -> Option<Frame> {
        let version = self.u16()?;
        let udp_port = self.u16().filter(|&port| port != 0)?;
        let key = self.bytes.first_chunk().copied();
        self.bytes = &[];
        Some(Frame::Welcome { version, udp_port, key })
    }

    fn refused(&mut self) -> Option<Frame> {
        let number = self.u8()?;
        let code = RefusalCode::ALL.into_iter().find(|code| code.code() == number)?;
        Some(Frame::Refused { code, text: self.shown_text(MAX_TEXT)? })
    }

    fn list(&mut self) -> Option<Frame> {
        let recursive = self.flag()?;
        Some(Frame::List { recursive, path: self.path()? })
    }

    fn open(&mut self) -> Option<Frame> {
        let (owner, attributes, early) = (self.flag()?, self.flag()?, self.u32()?);
        Some(Frame::Open { path: self.path()?, owner, attributes, early })
    }

    fn bench(&mut self) -> Option<Frame> {
        let size = self.u64()?;
        let memory = if self.flag()? { Memory::Cold } else { Memory::Hot };
        Some(Frame::Bench { size, memory })
    }

    fn token(&mut self) -> Option<Vec<u8>> {
        (self.bytes.len() <= TOKEN_BYTES_MAX).then(|| self.rest())
    }

    fn ask_token(&mut self) -> Option<Frame> {
        Some(Frame::AskToken { holder: self.take()?, path: self.path()? })
    }

    fn attach(&mut self) -> Option<Frame> {
        Some(Frame::Attach { token: self.u64()?, source: self.u16()? })
    }

    fn file_failed(&mut self) -> Option<Frame> {
        let file = self.u64()?;
        let code = self.u8()?;
        let problem = FileProblem::ALL.into_iter().find(|problem| problem.code() == code)?;
        Some(Frame::FileFailed { file, problem })
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
        let values = self.all_digests()?;
        (1..=MAX_DIGESTS).contains(&values.len()).then_some(Frame::Digests { first_group, values })
    }

    fn part(&mut self) -> Option<PartOf> {
        let (group, first, count) = (self.u64()?, self.u16()?, self.u16()?);
        let levels = self.u8().filter(|&levels| usize::from(levels) <= PATH_MAX)?;
        (count > 0).then_some(PartOf { group, first, count, levels })
    }

    fn proofs_of(&mut self) -> Option<Frame> {
        let mut parts = Vec::with_capacity((self.bytes.len() / 13).min(MAX_PARTS));
        while parts.is_empty() || !self.bytes.is_empty() {
            parts.push(self.part()?);
            if parts.len() > MAX_PARTS {
                return None;
            }
        }
        Some(Frame::ProofsOf { parts })
    }

    fn proof(&mut self) -> Option<Frame> {
        let (part, digest) = (self.part()?, self.take()?);
        let count = usize::from(self.u8()?);
        let mut inside = self.all_digests()?;
        if count > inside.len() || count > INSIDE_MAX || inside.len() - count > PATH_MAX {
            return None;
        }
        let path = inside.split_off(count);
        Some(Frame::Proof { part, digest, inside, path })
    }

    /// Digests to the end, if that is where the last of them ends.
    fn all_digests(&mut self) -> Option<Vec<GroupDigest>> {
        let (values, odd) = self.bytes.as_chunks::<32>();
        let values = odd.is_empty().then(|| values.to_vec())?;
        self.bytes = &[];
        Some(values)
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
