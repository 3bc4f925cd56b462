//! Why a data set cannot land.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use inhaul_base::{ByteRange, format_bytes};
use rustix::io::Errno;

use crate::printable;

/// Why a data set cannot land.
#[derive(Debug, thiserror::Error)]
pub enum LandingError {
    /// The directory to land in does not exist.
    #[error("there is no directory '{}': make it first, or choose another destination", show(path))]
    NoDirectory {
        /// The missing directory.
        path: PathBuf,
    },
    /// The destination leads out of the directory that others may bring data sets into.
    #[error("'{}' leads outside of what may be written; name a path beneath it", show(path))]
    Outside {
        /// The destination.
        path: PathBuf,
    },
    /// A file would be replaced that is another one.
    #[error(
        "'{}'{} exists already and differs: remove it, choose another destination, or say what becomes of it with --existing",
        show(path), and_others(*others)
    )]
    Exists {
        /// The file that is there.
        path: PathBuf,
        /// How many others are in the way too.
        others: usize,
    },
    /// A file is there that has the name of a partial file, and no journal says that it is one.
    #[error(
        "'{}' exists already, and is not known as a part of this transfer: remove it or allow overwriting",
        show(path)
    )]
    PartialExists {
        /// The partial file.
        path: PathBuf,
    },
    /// Another transfer is bringing the same data set to the same place.
    #[error("another transfer is bringing '{}' right now: let it end, or choose another destination", show(path))]
    Busy {
        /// What both would bring.
        path: PathBuf,
    },
    /// An earlier transfer has begun to bring another data set under this name.
    #[error(
        "an earlier transfer has left {} of '{}' at '{}', verified: end it by its own command, or choose another \
         destination; --overwrite gives up what is there",
        format_bytes(*bytes), printable(name), show(path)
    )]
    HasAnother {
        /// What was to be brought.
        path: PathBuf,
        /// The name of the other data set, at its source.
        name: Vec<u8>,
        /// What was verified of it.
        bytes: u64,
    },
    /// Something that is not ours has the journal's name.
    #[error(
        "'{}' is not the journal of a transfer that this release could go on with: move it away, or choose another destination",
        show(path)
    )]
    NotAJournal {
        /// What is there.
        path: PathBuf,
    },
    /// A directory is needed and something else has its name.
    #[error("'{}' is not a directory: remove it, or choose another destination", show(path))]
    NotADirectory {
        /// What is there.
        path: PathBuf,
    },
    /// A data set of one file is to become what is a directory.
    #[error("'{0}' is a directory: say '{0}/' to put the file into it", show(path))]
    NeedsSlash {
        /// The directory.
        path: PathBuf,
    },
    /// A directory that was there, and that no transfer has begun, would be added to.
    #[error(
        "'{0}' exists already, and {1} would be added to it: {2}--existing update, keep or replace adds to it",
        show(path), count_of(*additions), if *is_named { format!("say '{}/' to put the data set into it under its own name; ", show(path)) } else { String::new() }
    )]
    WouldAdd {
        /// The directory.
        path: PathBuf,
        /// Files, directories and links that it would get.
        additions: u64,
        /// Whether it was named as what the data set becomes.
        is_named: bool,
    },
    /// A device, a pipe or a socket is where something should land.
    #[error("'{}' is neither a file nor a link, and never replaced: choose another destination", show(path))]
    Special {
        /// What is there.
        path: PathBuf,
    },
    /// A partial file has another name, or something else is in its place: nothing is written there.
    #[error("'{}' has other names (hard links), or is no file any more, and is not written to: remove it", show(path))]
    Linked {
        /// The file.
        path: PathBuf,
    },
    /// Another program has written to a partial file.
    #[error(
        "another program has changed '{}' while it was landing: the same command finds out what is wrong, and fetches that again",
        show(path)
    )]
    Disturbed {
        /// What it would have become.
        path: PathBuf,
    },
    /// A file is to get the name that a directory has.
    #[error("'{}' is a directory where a file should land: remove it, or choose another destination", show(path))]
    IsADirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The disk, or the user's share of it, is too small or full.
    #[error(
        "not enough space for '{}': {} needed, {} free; make room, or choose another destination",
        show(path), format_bytes(*needed), format_bytes(*free)
    )]
    NoSpace {
        /// What was to be written.
        path: PathBuf,
        /// How much it still needs, in bytes.
        needed: u64,
        /// How much there is, in bytes.
        free: u64,
    },
    /// The file system does not allow files as large as this.
    #[error(
        "'{}' of {} is larger than the file system or your limits (ulimit -f) allow: choose another destination",
        show(path), format_bytes(*size)
    )]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// Two names of the data set are one on the destination's file system.
    #[error(
        "'{}' and '{}'{} are one name on the file system there, and one would replace the other: leave one out by --exclude, rename it at its source, or choose another destination",
        show(first), show(second), and_others(*others)
    )]
    OneName {
        /// The one.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// How many other pairs there are.
        others: usize,
    },
    /// The destination's file system does not take a name.
    #[error(
        "the file system there does not take the name of '{}' ({source}; {why}): leave it out by --exclude, rename it at its source, or choose another destination",
        show(path)
    )]
    NameRefused {
        /// What would have the name.
        path: PathBuf,
        /// Why the name is refused, as far as it shows.
        why: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Permission is missing, or the file system is read-only.
    #[error("'{}' cannot be written ({source}): choose a destination that you may write to", show(path))]
    NotWritable {
        /// What was to be written.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The user has stopped it before it had begun.
    #[error("it was stopped")]
    Stopped,
    /// Bytes for beyond the end of the data set.
    #[error("the range {0} ends beyond the data set")]
    OutOfRange(ByteRange),
    /// There is no file of that index in the data set.
    #[error("the data set has no file {0}")]
    NoSuchFile(usize),
    /// The file has its name already, or is getting it.
    #[error("file {0} is finished")]
    Finished(usize),
    /// The file was given up.
    #[error("file {0} was given up")]
    GivenUp(usize),
    /// The landing was finished or aborted.
    #[error("the transfer has ended: nothing more is written")]
    Closed,
    /// Files are missing at the end.
    #[error("{missing} files are not complete")]
    Incomplete {
        /// How many.
        missing: usize,
    },
    /// A sync has failed before, so the disk may lack what was written.
    #[error(
        "the disk has failed to keep what was written to '{}': the same command finds out what is there",
        show(path)
    )]
    NotSynced {
        /// What was landing.
        path: PathBuf,
    },
    /// The system reports something else.
    #[error("cannot {action} '{}': {source}", show(path))]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl LandingError {
    /// Whether the system reports it, rather than the landing itself.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::NoSpace { .. } | Self::FileTooLarge { .. } | Self::NotWritable { .. })
    }

    pub(crate) fn from_errno(action: &'static str, path: PathBuf, errno: Errno) -> Self {
        match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::NotWritable { path, source: errno.into() },
            _ => Self::Io { action, path, source: errno.into() },
        }
    }
}

fn count_of(additions: u64) -> String {
    if additions == 1 { "1 new name".to_owned() } else { format!("{additions} new names") }
}

fn and_others(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" (and {count} more)") }
}

fn show(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}
