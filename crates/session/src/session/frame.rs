//! The session's frames: what a client and a server say to each other over TLS.
//!
//! A frame is `[length: u32][kind: u8][body][checksum: u32]`, numbers big-endian; `length` counts what follows it and
//! is at most [`MAX_FRAME`]. The checksum is the CRC-32C of all that stands before it in the frame: TCP's own is 16
//! bits wide and made anew by middle boxes, and a wrong bit of a path or a manifest would land a file under a wrong
//! name. `Hello`, `Welcome` and `Refused` have none, so that sides of other versions understand each other as far as
//! that. What a later release adds to the end of `Hello` and `Welcome`, and frames of kinds from 128 on, are ignored
//! by those who do not know them: of such frames, at most 4096 at once and 64 a second on average, and 1 MiB of them at
//! once and 64 KiB a second. Who sends more has its connection closed.
//!
//! An unfinished frame is memory that the other side holds. So only frames of some kinds may have more than
//! [`SMALL_FRAME`] bytes: those that carry pieces of something long up to [`MAX_FRAME`], and messages, datagrams,
//! questions about digests, and what may be ignored up to [`MIDDLE_FRAME`]. A server takes no more than [`SMALL_FRAME`]
//! bytes from a client that has shown no right yet, and no more than [`MIDDLE_FRAME`] from one that has, but for an
//! order.
//!
//! The client is the side that connects:
//!
//! ```text
//! client                                server
//! Hello {magic, version, role, transport, parameters} ->
//! Authorize {token}, if it has one ->
//! AskVersion, if it has a cache    ->   (before Open)
//!                                  <-   Welcome {version, udp_port, key}  or  Refused
//! Open {path}  or  Bench {..}      ->
//!                                  <-   FilesVersion {version}, if it was asked for
//!                                  <-   DataSet pieces, the last marked  (Open)  or  Refused
//!                                  <-   Digests {0, values}, if the content follows, then Content  (Open with `early`)
//!     or  List {path, recursive}   ->   (a session for this alone)
//!                                  <-   Listing pieces, the last marked, or  Refused
//!     or  Probe                    ->   (a session for this alone; datagrams as in `probe.rs`)
//!                                  <-   ProbeGrant {token}  or  Refused
//!     or  AskToken {path, holder}  ->   (a session for this alone)
//!                                  <-   TokenGrant {token}  or  Refused
//!     or  Delegate {order}         ->   (a session for this alone)
//!                                  <-   ProbeGrant {token}  (if the client has the data itself), or  Refused
//!                                  <-   Update ..., then Report pieces, the last marked
//!     or  Attach {token, source}   ->   from here on the sides are changed: the server opens, and the client has the data
//!     or  AttachTunnel {token}      ->   (a session for this alone, which then carries Datagrams both ways)
//! Protocol {message}               <->  the endpoint's control messages; the server's may come before DataSet
//! TryDatagrams                     ->   at any time after Open: whether UDP passes again
//!                                  <-   AskTunnel, TryDatagrams  (after Attach, where the server opens)
//! TryDatagrams                     ->   (after Attach: UDP passes)
//! DigestsOf {runs of groups}       ->
//!                                  <-   Digests {first_group, values} ...
//! ProofsOf {parts of groups}       ->
//!                                  <-   Proof {part, digest, inside, path}, one for each, in order
//!                                  <-   FileFailed {file, problem}, at any time, and in the place of its digests
//!                                  <-   Stats, once a second              (Bench, server receives)
//! Finish                           ->
//!                                  <-   Stats (Bench), Bye
//! ```

mod codec;
#[cfg(test)]
mod tests;

pub use codec::framed;
use inhaul_base::Span;

pub use crate::api::error::FileProblem;
pub use crate::api::options::Memory;

/// Bytes of kind, body and checksum together that a frame may have.
pub const MAX_FRAME: usize = 1 << 20;
/// The same of kinds that need no more.
pub const MIDDLE_FRAME: usize = 80 << 10;
/// The same of all other kinds.
pub const SMALL_FRAME: usize = 16 << 10;
/// Most bytes of a data set's manifest in one [`Frame::DataSet`].
pub const MAX_PIECE: usize = MAX_FRAME - 64;
/// Most bytes of a control message in one [`Frame::Protocol`]. What is longer goes in several, as the stream has room
/// for them.
pub const MAX_MESSAGE: usize = 64 << 10;
/// Most digests in one [`Frame::Digests`]: 512 KiB of them, one for each MiB of 16 GiB.
pub const MAX_DIGESTS: usize = 1 << 14;
/// Most runs in one [`Frame::DigestsOf`].
pub const MAX_RUNS: usize = 1 << 12;
/// Most parts in one [`Frame::ProofsOf`].
pub const MAX_PARTS: usize = 1 << 12;
/// The version of this session protocol.
pub const VERSION: u16 = 8;
/// Most parameters of a transport in a greeting.
pub const MAX_PARAMETERS: usize = 32;
/// Most bytes of a parameter's name, and of its value.
pub const MAX_PARAMETER: usize = 64;

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

/// Consecutive chunks of one group of a data set, which are to be proven: see [`inhaul_store::digest::proof`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// The group, counted over all files.
    pub group: u64,
    /// The first chunk, counted within the group.
    pub first: u16,
    /// How many there are.
    pub count: u16,
    /// Over so many levels the way from the group to the file's hash is wanted; with 0 not at all.
    pub levels: u8,
}

impl PartOf {
    /// The chunks.
    pub fn chunks(&self) -> std::ops::Range<u64> {
        u64::from(self.first)..u64::from(self.first) + u64::from(self.count)
    }
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
    /// To have the server fetch something: from the client itself, or from other servers.
    Delegate,
    /// To bring one of the data sets that the server is to fetch from the client.
    Attach,
    /// To carry another session's datagrams: see [`Frame::AttachTunnel`].
    Tunnel,
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
    /// This server does not do that for others, or not for this one.
    NotAllowed,
    /// The client has no right to do that there.
    NoRight,
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
        /// The transport protocol that is to carry the data, by its name in the registry. Empty where the version is
        /// another.
        transport: String,
        /// Its parameters, names and values: see `inhaul protocols`.
        parameters: Vec<(String, String)>,
    },
    /// The server's answer.
    Welcome {
        /// The session protocol's version.
        version: u16,
        /// Where the server takes datagrams.
        udp_port: u16,
        /// The fingerprint of the server's raw key, for clients that it has shown a certificate: other servers know it
        /// by that key when it fetches from them. `None`: it does not say.
        key: Option<[u8; 32]>,
    },
    /// The server will not; it closes the stream.
    Refused {
        /// Why, for the program.
        code: RefusalCode,
        /// Why, for the user. Of a frame that came in it is safe on a terminal: see [`inhaul_store::printable`].
        text: String,
    },
    /// The client has a token that gives it rights: see [`inhaul_identity::Token`].
    Authorize {
        /// The token's bytes.
        token: Vec<u8>,
    },
    /// The client wants a token with which another host may fetch what lies at this path.
    AskToken {
        /// The fingerprint of the other host's key.
        holder: [u8; 32],
        /// Path below the offered directories, with a leading slash.
        path: String,
    },
    /// The token that was asked for. Empty: none is needed.
    TokenGrant {
        /// The token's bytes.
        token: Vec<u8>,
    },
    /// The client wants what lies at this path.
    Open {
        /// Path below the offered directories, with a leading slash.
        path: String,
        /// It wants to know whose files are.
        owner: bool,
        /// It wants to know files' extended attributes.
        attributes: bool,
        /// So many bytes of the data set's content the client wants with the description. 0: no [`Frame::Content`] comes
        /// at all.
        early: u32,
    },
    /// The client wants to see what there is at this path.
    List {
        /// Whether all that lies beneath it is meant, rather than what lies in it.
        recursive: bool,
        /// Path below the offered directories, with a leading slash. `//` is for the names of these, also where there is
        /// only one and its name may be left out.
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
    /// The server answers probes that carry this token until the stream ends; and takes sessions that
    /// [attach](Frame::Attach) with it, if it has been asked to fetch from the client.
    ProbeGrant {
        /// A number that only the two know.
        token: u64,
    },
    /// The client wants the server to fetch something: see `Order`.
    Delegate {
        /// The order, as JSON.
        order: Vec<u8>,
    },
    /// How what was delegated is going: see [`Update`](crate::api::options::Update).
    Update {
        /// The update, as JSON.
        update: Vec<u8>,
    },
    /// A piece of what came of what was delegated: see [`Report`](crate::api::report::Report).
    Report {
        /// Whether this is the last piece.
        last: bool,
        /// The piece, of JSON.
        bytes: Vec<u8>,
    },
    /// The client has a data set here that the server is to fetch from it.
    Attach {
        /// What the server gave to the session that delegated it.
        token: u64,
        /// Which of the data sets it is, counted from 0.
        source: u16,
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
    /// The end of a data set's description, for a client that has asked for content with it: all of the content, behind
    /// the digests of all groups; of more than was asked for, the first bytes, without digests; nothing if it could not
    /// be read.
    Content {
        /// Bytes of the files, in the order of the manifest.
        bytes: Vec<u8>,
    },
    /// A control message of the transport protocol, of at most [`MAX_MESSAGE`] bytes.
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
    /// The client wants proofs of these parts, in this order; at most [`MAX_PARTS`].
    ProofsOf {
        /// The parts.
        parts: Vec<PartOf>,
    },
    /// What proves the bytes of a part, which come by themselves.
    Proof {
        /// The part.
        part: PartOf,
        /// The digest of its group.
        digest: GroupDigest,
        /// The values beside it in its group: see [`inhaul_store::digest::proof::prove`].
        inside: Vec<GroupDigest>,
        /// The digests beside the way from the group up: see [`inhaul_store::digest::proof::Outboard::path`].
        path: Vec<GroupDigest>,
    },
    /// A file of the data set cannot be had from this server any more, though the others can. Its digests are left out
    /// wherever they were asked for, and what is sent of it means nothing.
    FileFailed {
        /// The file, by its index in the manifest.
        file: u64,
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// A server that fetches from its client has the client open streams for the session's datagrams: UDP does not pass,
    /// or not well. A client that fetches opens them by itself.
    AskTunnel,
    /// This stream carries datagrams of the session that the token is of.
    AttachTunnel {
        /// A number that only the session's two ends know, from its keys:
        /// `ControlStream::tunnel_token`.
        token: u128,
    },
    /// Datagrams, as UDP would carry them: envelopes and all.
    Datagrams {
        /// Length of each but the last, in bytes; not 0.
        segment: u16,
        /// The datagrams, one behind the other: from 1 to 64 of them, in at most 65,507 bytes.
        bytes: Vec<u8>,
    },
    /// Whoever opened the data set wants to know whether UDP passes. A client is about to probe the server's port, as it
    /// did when it connected: see WIRE.md 4.2. A server has the client do that, with probes that show
    /// `ControlStream::probe_token`; the client says the same once it has echoes.
    TryDatagrams,
    /// The client wants to know of which version the files of the data set are that it is about to open.
    AskVersion,
    /// Of which version the files are that the description tells of: see [`inhaul_store::DataSet::files_version`].
    FilesVersion {
        /// The version.
        version: [u8; 32],
    },
    /// How a bench's flow is doing.
    Stats(BenchStats),
    /// The client is done.
    Finish,
    /// The server is done too and closes the stream.
    Bye,
    /// Of another release, which says by the kind (128 and more) that it may be ignored: streams leave it out.
    Optional {
        /// Its kind.
        kind: u8,
    },
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The peer did not greet with the magic number.
    #[error("it does not speak inhaul's session protocol")]
    NotInhaul,
    /// Its checksum is another.
    #[error("a frame was damaged on its way: try again")]
    Damaged,
    /// A frame is empty, or larger than one of its kind may be at this time.
    #[error("a frame of {0} bytes is not legal")]
    BadLength(u32),
    /// The kind is not known.
    #[error("frame kind {0} is not known")]
    UnknownKind(u8),
    /// A frame of a known kind is too short, too long or holds an illegal value.
    #[error("a frame of kind {0} is malformed")]
    Malformed(u8),
}
