//! The items of lists in any format, and the errors of lists.

use inhaul_store::checksums::Algorithm;
use inhaul_store::printable;

use inhaul_session::api::request::{Known, Location, Request};
use inhaul_session::api::source::{Source, SourceError};

/// Most sessions with servers that one list may come to.
pub(super) const SESSIONS_MAX: usize = 512;
/// Most mirrors of one file.
const MIRRORS_MAX: usize = 64;
/// Most HTTP servers that one file is fetched from at once: lists name dozens. The first are the best.
const WEB_MIRRORS_MAX: usize = 8;
/// Most checksums of one file.
const CHECKSUMS_MAX: usize = 16;
/// Longest path, in bytes: the system takes no longer one.
pub(super) const PATH_BYTES_MAX: usize = 4096;
/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 64 << 10;
/// Most characters of a list that a message repeats.
const SHOWN_MAX: usize = 200;

/// A file, or in an input file also a directory, of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The line that names it.
    pub(super) line: usize,
    /// Where it goes, beneath the destination.
    pub(super) path: String,
    /// Where it is, the best first.
    pub(super) mirrors: Vec<Location>,
    pub(super) known: Known,
}

/// What is wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchListError {
    /// It is no text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// It is no XML, or XML with a document type definition.
    #[error("it is not XML as Metalink uses it: {0}")]
    Xml(String),
    /// It is XML, but no Metalink.
    #[error(
        "it is no Metalink, neither 4 (RFC 5854) nor 3: its first element is '{0}', not 'metalink' of urn:ietf:params:xml:ns:metalink"
    )]
    NotMetalink(String),
    /// A name would lead out of the destination, or is none.
    #[error("line {line}: '{path}' is no path beneath the destination")]
    BadPath {
        /// Where.
        line: usize,
        /// The path.
        path: String,
    },
    /// The same name is given to two files.
    #[error("line {line}: '{path}' is named by line {earlier} already")]
    Twice {
        /// Where.
        line: usize,
        /// The line before.
        earlier: usize,
        /// The path.
        path: String,
    },
    /// A file's name is that of a directory that another file lies in.
    #[error("line {line}: '{path}' would lie in a file, that of line {file}")]
    InFile {
        /// Where.
        line: usize,
        /// The line of the file.
        file: usize,
        /// The path.
        path: String,
    },
    /// No server has it that is spoken to here.
    #[error(
        "line {line}: '{path}' has no URL that begins with inhaul://, https:// or http://; fetch it with a program that speaks the others"
    )]
    NoSource {
        /// Where.
        line: usize,
        /// The path.
        path: String,
    },
    /// A URL of ours cannot be read.
    #[error("line {line}: {}", shown(&error.to_string()))]
    BadUrl {
        /// Where.
        line: usize,
        /// What is wrong with it.
        error: SourceError,
    },
    /// A size, priority or checksum is none.
    #[error("line {line}: '{value}' is no {what}")]
    BadValue {
        /// Where.
        line: usize,
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: String,
    },
    /// An element lacks what it must have.
    #[error("line {line}: {what} is missing")]
    Missing {
        /// Where.
        line: usize,
        /// What is not there.
        what: &'static str,
    },
    /// A checksum is of a kind that is not known here.
    #[error(
        "line {line}: checksums of the kind '{name}' are not supported; {} are",
        Algorithm::all().map(Algorithm::name).collect::<Vec<_>>().join(", ")
    )]
    UnknownChecksum {
        /// Where.
        line: usize,
        /// What it says that it is.
        name: String,
    },
    /// An input file has an option that is not known here.
    #[error("line {line}: the option '{option}' is not supported; out, dir and checksum are")]
    Unsupported {
        /// Where.
        line: usize,
        /// The option.
        option: String,
    },
    /// A file has too many mirrors.
    #[error("line {line}: a file has more than {MIRRORS_MAX} mirrors")]
    TooManyMirrors {
        /// Where.
        line: usize,
    },
    /// There is more of something than any list needs.
    #[error("line {line}: there are more than {most} {what}")]
    TooMany {
        /// Where.
        line: usize,
        /// Of what.
        what: &'static str,
        /// How many may be.
        most: usize,
    },
    /// Something is longer than any list needs.
    #[error("line {line}: {what} is longer than {most} bytes")]
    TooLong {
        /// Where.
        line: usize,
        /// What it is.
        what: &'static str,
        /// How long it may be.
        most: usize,
    },
    /// The files lie in too many places for one transfer.
    #[error(
        "its files lie in so many places that they would take {sessions} sessions, and {SESSIONS_MAX} is the most: split it"
    )]
    TooManySessions {
        /// How many it would take.
        sessions: usize,
    },
    /// There is nothing in it.
    #[error("it names no file")]
    Empty,
}

/// The places that a URL names; `None` when it is of a scheme that is not fetched from.
pub(super) fn locations(url: &str, line: usize) -> Result<Option<Vec<Location>>, FetchListError> {
    if !["inhaul://", "http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Ok(None);
    }
    // Of a path, each byte may be written as three; hosts and tickets come before and behind it.
    if url.len() > URL_BYTES_MAX {
        return Err(FetchListError::TooLong { line, what: "a URL", most: URL_BYTES_MAX });
    }
    let source = url.parse().and_then(Source::without_files).map_err(|error| FetchListError::BadUrl { line, error })?;
    Ok(Some(Request::from(source).mirrors))
}

/// Adds `more` to `mirrors`, each server once.
pub(super) fn add_mirrors(mirrors: &mut Vec<Location>, more: Vec<Location>, line: usize) -> Result<(), FetchListError> {
    for location in more {
        let of_web = mirrors.iter().filter(|known| known.server.url.is_some()).count();
        if location.server.url.is_some() && of_web >= WEB_MIRRORS_MAX {
            continue;
        }
        if !mirrors.iter().any(|known| known.server == location.server) {
            mirrors.push(location);
        }
        if mirrors.len() > MIRRORS_MAX {
            return Err(FetchListError::TooManyMirrors { line });
        }
    }
    Ok(())
}

/// Adds a checksum to what is known of a file; says whether it is of a kind that is known here.
pub(super) fn add_checksum(known: &mut Known, name: &str, digits: &str, line: usize) -> Result<bool, FetchListError> {
    let Some(sum) = checksum(name, digits, line)? else { return Ok(false) };
    if known.sums.len() >= CHECKSUMS_MAX {
        return Err(FetchListError::TooMany { line, what: "checksums of one file", most: CHECKSUMS_MAX });
    }
    known.sums.push(sum);
    Ok(true)
}

/// What a message repeats of a list: fit for a terminal, and not all of it if it is long.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => printable(&text.as_bytes()[..end]) + "...",
        None => printable(text.as_bytes()),
    }
}

/// A checksum by its name, in the registry of hash functions (RFC 5854 4.2.4) or as tools write it; `None` for kinds
/// that are not known here.
fn checksum(name: &str, digits: &str, line: usize) -> Result<Option<(Algorithm, Vec<u8>)>, FetchListError> {
    let Some(algorithm) = Algorithm::named(name) else { return Ok(None) };
    let wrong = || FetchListError::BadValue { line, what: "checksum of that kind", value: shown(digits) };
    Ok(Some((algorithm, algorithm.sum(digits).ok_or_else(wrong)?)))
}

/// A path and what lies below it.
pub(super) fn joined(path: &str, below: &str) -> String {
    [path, below].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/")
}
