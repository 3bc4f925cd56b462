//! The errors of transfers. Their messages say what to do.

use std::io;

use inhaul_identity::Fingerprint;
use inhaul_store::LandingError;
use inhaul_udp::lacks_ipv6;

use crate::api::source::{Server, Source};

/// How it begins what is said of a proxy that no connection leads to.
pub(crate) const PROXY_UNREACHABLE: &str = "the proxy ";

/// What there is to check if no connection leads to a server, or to the proxy before it.
fn what_to_check(detail: &str) -> &'static str {
    if detail.starts_with(PROXY_UNREACHABLE) {
        "check --proxy, or HTTPS_PROXY and ALL_PROXY, which name it"
    } else {
        "check the host and the port, and that 'inhaul serve' runs there"
    }
}

/// Why a transfer, a bench or a server failed.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// A host's name does not resolve.
    #[error(
        "no host is called '{}' ({}); check its spelling, or use its address",
        .server.host,
        .detail.trim_start_matches("failed to lookup address information: ")
    )]
    UnknownHost {
        /// The server.
        server: Server,
        /// What the resolver said.
        detail: String,
    },
    /// Nothing listens there, or there is no route.
    #[error("{server}: {detail}; {}", what_to_check(detail))]
    Unreachable {
        /// The server.
        server: Server,
        /// What the network said.
        detail: String,
    },
    /// The server did not answer in time.
    #[error(
        "{server}: no answer in {seconds} s; check that the host is up and that no firewall drops TCP port {}",
        .server.port
    )]
    TimedOut {
        /// The server.
        server: Server,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// There is nothing at the source's path.
    #[error("{server}: {detail}")]
    PathNotFound {
        /// The server.
        server: Server,
        /// What it said.
        detail: String,
    },
    /// What is to be served does not exist.
    #[error("{detail}")]
    NothingToServe {
        /// What is missing.
        detail: String,
    },
    /// The server refused the request.
    #[error("{server} refused: {detail}")]
    Refused {
        /// The server.
        server: Server,
        /// What it said.
        detail: String,
    },
    /// The server does not give the right to do that.
    #[error("{server}: {detail}")]
    NoRight {
        /// The server.
        server: Server,
        /// What it said.
        detail: String,
    },
    /// The server's key is not known.
    #[error(
        "{server}: its key is not known here: {key}. Use the whole address that it prints, with the ticket behind its '#'; or, if 'inhaul key show' says the same there, trust this key: --accept-new does so"
    )]
    ServerKeyUnknown {
        /// The server.
        server: Server,
        /// The fingerprint of its key.
        key: Fingerprint,
    },
    /// The server has another key than before.
    #[error(
        "{server}: ITS KEY HAS CHANGED from {known} to {seen}: another host may have taken its place. If it has a new key, and 'inhaul key show' says so there: 'inhaul key trust {server} {}'", .seen.argument()
    )]
    ServerKeyChanged {
        /// The server.
        server: Server,
        /// The fingerprint that is known.
        known: Box<Fingerprint>,
        /// The fingerprint of the key that it has shown.
        seen: Fingerprint,
    },
    /// The server has another key than its address says.
    #[error(
        "{server}: its key is {seen}, and the address says {pinned}: another host may have taken its place, or the server has a new key and prints a new address"
    )]
    ServerKeyNotPinned {
        /// The server.
        server: Server,
        /// The fingerprint in the address.
        pinned: Box<Fingerprint>,
        /// The fingerprint of the key that it has shown.
        seen: Fingerprint,
    },
    /// No secure connection to the server comes about.
    #[error("{server}: {detail}")]
    Untrusted {
        /// The server.
        server: Server,
        /// Why not.
        detail: String,
    },
    /// The server is busy: a limit of its sessions or its memory is reached.
    #[error("{server} is busy: {detail}")]
    Busy {
        /// The server.
        server: Server,
        /// What it said.
        detail: String,
    },
    /// A delegated transfer has failed at the server.
    #[error("{server}: {detail}")]
    Delegated {
        /// The server.
        server: Server,
        /// What kind of failure it was there.
        kind: ErrorKind,
        /// What it said.
        detail: String,
    },
    /// The server of a delegated transfer is lost.
    #[error("{server} is lost ({detail}); once it is back, the same command goes on from what it had verified")]
    ServerLost {
        /// The server.
        server: Server,
        /// How it was lost.
        detail: String,
    },
    /// The answer is not that of an inhaul server, or the server broke the protocol.
    #[error("{server}: {detail}; is that an inhaul server, of the same release?")]
    Protocol {
        /// The server.
        server: Server,
        /// What was wrong.
        detail: String,
    },
    /// A source that is no inhaul server cannot be read, or breaks the rules of its kind.
    #[error("{server}: {detail}")]
    BadSource {
        /// The source.
        server: Server,
        /// What was wrong.
        detail: String,
    },
    /// Mirrors have different data sets, and there is no majority.
    #[error(
        "{data_set}: the mirrors have different files or sizes, and no majority agrees; fetch from one of them, or make them the same"
    )]
    MirrorsDiffer {
        /// The data set.
        data_set: Box<Source>,
    },
    /// A server's data set changed between two requests.
    #[error("{server}: its files changed meanwhile; fetch again when they no longer change")]
    SourceChanged {
        /// The server.
        server: Server,
    },
    /// Every server of a data set was lost before all data had come.
    #[error("{data_set}: no server is left to fetch from; the last was lost because {detail}")]
    AllLost {
        /// The data set.
        data_set: Box<Source>,
        /// Why the last one was lost.
        detail: String,
    },
    /// Every flow of a bench was lost.
    #[error(
        "{server}: the bench has lost its last flow ({detail}); check that 'inhaul bench --server' still runs there"
    )]
    BenchLost {
        /// The last server.
        server: Server,
        /// Why it was lost.
        detail: String,
    },
    /// UDP does not pass.
    #[error("{server}: {detail}; let UDP port {} through, or fetch from a host behind the firewall", .server.port)]
    UdpBlocked {
        /// The server.
        server: Server,
        /// What was seen.
        detail: String,
    },
    /// There is no room for the data.
    #[error("{detail}")]
    NoSpace {
        /// What was needed and what there is, and what to do.
        detail: String,
    },
    /// The destination cannot be written, or existing files block it.
    #[error("{detail}")]
    Destination {
        /// What was wrong and what to do.
        detail: String,
    },
    /// Data arrived wrong three times.
    #[error(
        "{path}: bytes {start} to {end} came in wrong {times} times; the file may be changing at its source: try again"
    )]
    Integrity {
        /// The file.
        path: String,
        /// First wrong byte.
        start: u64,
        /// One past the last wrong byte.
        end: u64,
        /// How often it was tried.
        times: u32,
    },
    /// Another program has written to a file while it was landing.
    #[error("{detail}")]
    Disturbed {
        /// Where, and what to do.
        detail: String,
    },
    /// A source cannot send one of its files.
    #[error("{path}: {}", match .problem {
        FileProblem::Changed => "its source has another version of it by now, or none: fetch it again when nobody changes it",
        FileProblem::Unreadable => "its source cannot read it",
    })]
    SourceFile {
        /// The file.
        path: String,
        /// What is wrong with it there.
        problem: FileProblem,
    },
    /// A mirror that came later has data where the others have holes: what it has was not compared.
    #[error(
        "{server} has data where the others have holes in their files: fetch again, with it there from the beginning"
    )]
    OtherHoles {
        /// The mirror.
        server: Server,
    },
    /// Mirrors have files of the same size with different bytes in them.
    #[error("{path}: bytes {start} to {end} are not the same on all mirrors, {detail}")]
    CopiesDiffer {
        /// The file.
        path: String,
        /// First byte of the part in which they differ.
        start: u64,
        /// One past its last byte.
        end: u64,
        /// What is known about the right copy, and what to do.
        detail: String,
    },
    /// Files differ from their list of checksums.
    #[error("{count} files differ from the list; fetch them again from a good source")]
    NotAsListed {
        /// How many.
        count: usize,
    },
    /// A file differs from the size or checksum in a list.
    #[error("{detail}: it is another version of the file, or damaged; ask the author of the list")]
    OtherVersion {
        /// How it differs.
        detail: String,
    },
    /// The files to verify, or their list, do not exist or cannot be read.
    #[error("{detail}")]
    Unverifiable {
        /// What is missing or unreadable.
        detail: String,
    },
    /// Two sources have a file of the same name.
    #[error("'{path}' comes from more than one source: fetch them into different directories")]
    NameClash {
        /// The name.
        path: String,
    },
    /// Some of the requested data has landed, and some has not.
    #[error("what could be fetched has landed; {}", .failures.join("; "))]
    Partial {
        /// What has not, and why.
        failures: Vec<String>,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// An option's value makes no sense here.
    #[error("{0}")]
    Usage(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}; --listen chooses another", listen_failure(.source))]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The destination of a read does not take what has come.
    #[error("the destination does not take the data: {source}")]
    Sink {
        /// What it said.
        source: io::Error,
    },
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A bug.
    #[error("{0}; this is a bug: please report it")]
    Internal(String),
}

/// Why an address cannot be listened on, in words.
fn listen_failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there already".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this host does not have that address".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not use that port".to_owned(),
        _ if lacks_ipv6(error) => "this system has no IPv6; '0.0.0.0' is all addresses of IPv4".to_owned(),
        _ => error.to_string(),
    }
}

/// Why a server cannot send a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileProblem {
    /// It is gone, or has another size than the manifest says.
    Changed,
    /// The server cannot read it.
    Unreadable,
}

/// The causes that a script may want to tell apart. The command line gives each an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A bug, or the operating system failed.
    Internal,
    /// The command is wrong.
    Usage,
    /// There is nothing at the path.
    PathNotFound,
    /// The host's name does not resolve.
    HostUnknown,
    /// Nothing listens there, or there is no route.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// The server refused, or does not speak this protocol.
    Refused,
    /// The destination is full.
    NoSpace,
    /// The destination cannot be written or exists.
    Destination,
    /// Data arrived wrong three times, or mirrors have different data and no majority says which is right.
    Integrity,
    /// UDP does not pass.
    UdpBlocked,
    /// Some data has landed, and some has not.
    Partial,
    /// The server's key is not known, has changed, or is not certified.
    Untrusted,
    /// The server does not give the right.
    NoRight,
    /// The user stopped it.
    Interrupted,
}

impl ErrorKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::Internal,
        Self::Usage,
        Self::PathNotFound,
        Self::HostUnknown,
        Self::Unreachable,
        Self::TimedOut,
        Self::Refused,
        Self::NoSpace,
        Self::Destination,
        Self::Integrity,
        Self::UdpBlocked,
        Self::Partial,
        Self::Untrusted,
        Self::NoRight,
        Self::Interrupted,
    ];

    /// The kind's name in JSON.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Usage => "usage",
            Self::PathNotFound => "path-not-found",
            Self::HostUnknown => "host-unknown",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed-out",
            Self::Refused => "refused",
            Self::NoSpace => "no-space",
            Self::Destination => "destination",
            Self::Integrity => "integrity",
            Self::UdpBlocked => "udp-blocked",
            Self::Partial => "partial",
            Self::Untrusted => "untrusted",
            Self::NoRight => "no-right",
            Self::Interrupted => "interrupted",
        }
    }
}

impl ErrorKind {
    /// The kind of this name.
    pub fn named(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl MoveError {
    /// Its cause, as scripts tell causes apart.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownHost { .. } => ErrorKind::HostUnknown,
            Self::Delegated { kind, .. } => *kind,
            Self::Unreachable { .. } | Self::AllLost { .. } | Self::BenchLost { .. } | Self::ServerLost { .. } => {
                ErrorKind::Unreachable
            }
            Self::TimedOut { .. } => ErrorKind::TimedOut,
            Self::PathNotFound { .. } | Self::NothingToServe { .. } | Self::Unverifiable { .. } => {
                ErrorKind::PathNotFound
            }
            Self::Refused { .. }
            | Self::Busy { .. }
            | Self::Protocol { .. }
            | Self::BadSource { .. }
            | Self::MirrorsDiffer { .. } => ErrorKind::Refused,
            Self::NoRight { .. } => ErrorKind::NoRight,
            Self::ServerKeyUnknown { .. }
            | Self::ServerKeyChanged { .. }
            | Self::ServerKeyNotPinned { .. }
            | Self::Untrusted { .. } => ErrorKind::Untrusted,
            Self::UdpBlocked { .. } => ErrorKind::UdpBlocked,
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::Destination { .. } | Self::NameClash { .. } | Self::Sink { .. } => ErrorKind::Destination,
            Self::Integrity { .. }
            | Self::SourceFile { .. }
            | Self::CopiesDiffer { .. }
            | Self::SourceChanged { .. }
            | Self::OtherHoles { .. }
            | Self::Disturbed { .. }
            | Self::OtherVersion { .. }
            | Self::NotAsListed { .. } => ErrorKind::Integrity,
            Self::Partial { .. } => ErrorKind::Partial,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Usage(_) => ErrorKind::Usage,
            Self::Listen { .. } => ErrorKind::Unreachable,
            Self::System { .. } | Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Whether the same attempt may succeed later without any change by the user: the network, a host or a server is
    /// missing at the moment. Other errors are final.
    #[doc(hidden)]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Busy { .. } | Self::ServerLost { .. })
    }

    /// The server that cannot be reached, if the error is about one.
    #[doc(hidden)]
    pub fn server(&self) -> Option<&Server> {
        match self {
            Self::Unreachable { server, .. }
            | Self::TimedOut { server, .. }
            | Self::Busy { server, .. }
            | Self::ServerLost { server, .. }
            | Self::UdpBlocked { server, .. } => Some(server),
            _ => None,
        }
    }

    /// The failure of a system call, by what was tried: for `map_err`.
    #[doc(hidden)]
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

impl From<LandingError> for MoveError {
    fn from(error: LandingError) -> Self {
        let detail = error.to_string();
        match error {
            LandingError::NoSpace { .. } => Self::NoSpace { detail },
            LandingError::Disturbed { .. } => Self::Disturbed { detail },
            LandingError::Stopped => Self::Interrupted,
            LandingError::NoDirectory { .. }
            | LandingError::Outside { .. }
            | LandingError::Exists { .. }
            | LandingError::PartialExists { .. }
            | LandingError::Busy { .. }
            | LandingError::HasAnother { .. }
            | LandingError::NotAJournal { .. }
            | LandingError::NotADirectory { .. }
            | LandingError::IsADirectory { .. }
            | LandingError::NeedsSlash { .. }
            | LandingError::WouldAdd { .. }
            | LandingError::Special { .. }
            | LandingError::Linked { .. }
            | LandingError::OneName { .. }
            | LandingError::NameRefused { .. }
            | LandingError::FileTooLarge { .. }
            | LandingError::NotWritable { .. }
            | LandingError::NotSynced { .. }
            | LandingError::Io { .. } => Self::Destination { detail },
            _ => Self::Internal(detail),
        }
    }
}
