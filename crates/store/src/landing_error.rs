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
    /// The destination is outside of the directory into which clients may bring data sets.
    #[error("'{}' leads outside of what may be written; name a path beneath it", show(path))]
    Outside {
        /// The destination.
        path: PathBuf,
    },
    /// A different file would be replaced.
    #[error(
        "'{}'{} exists already and differs: remove it, choose another destination, or say what becomes of it with --existing",
        show(path), and_others(*others)
    )]
    Exists {
        /// The existing file.
        path: PathBuf,
        /// The number of other files in the way.
        others: usize,
    },
    /// A file has the name of a partial file, but no journal owns it.
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
        /// The target of both.
        path: PathBuf,
    },
    /// An earlier transfer has begun to bring another data set under this name.
    #[error(
        "an earlier transfer has left {} of '{}' at '{}', verified: end it by its own command, or choose another \
         destination; --overwrite gives up what is there",
        format_bytes(*bytes), printable(name), show(path)
    )]
    HasAnother {
        /// The target.
        path: PathBuf,
        /// The name of the other data set, at its source.
        name: Vec<u8>,
        /// Its verified bytes.
        bytes: u64,
    },
    /// A file that is not ours has the journal's name.
    #[error(
        "'{}' is not the journal of a transfer that this release could go on with: move it away, or choose another destination",
        show(path)
    )]
    NotAJournal {
        /// The item in the way.
        path: PathBuf,
    },
    /// A file has the name of a needed directory.
    #[error("'{}' is not a directory: remove it, or choose another destination", show(path))]
    NotADirectory {
        /// The item in the way.
        path: PathBuf,
    },
    /// The target of a single file is a directory.
    #[error("'{0}' is a directory: say '{0}/' to put the file into it", show(path))]
    NeedsSlash {
        /// The directory.
        path: PathBuf,
    },
    /// An existing directory, not made by a transfer, would be added to.
    #[error(
        "'{0}' exists already, and {1} would be added to it: {2}--existing update, keep or replace adds to it",
        show(path), count_of(*additions), if *is_named { format!("say '{}/' to put the data set into it under its own name; ", show(path)) } else { String::new() }
    )]
    WouldAdd {
        /// The directory.
        path: PathBuf,
        /// The number of files, directories and links to add.
        additions: u64,
        /// Whether the user gave it as the target itself.
        is_named: bool,
    },
    /// A device, a pipe or a socket is in the place of a file.
    #[error("'{}' is neither a file nor a link, and never replaced: choose another destination", show(path))]
    Special {
        /// The item in the way.
        path: PathBuf,
    },
    /// A partial file has a hard link, or another file is in its place: nothing is written there.
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
        /// The file that it would have become.
        path: PathBuf,
    },
    /// A directory has the name of a file.
    #[error("'{}' is a directory where a file should land: remove it, or choose another destination", show(path))]
    IsADirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The disk, or the user's quota, is too small or full.
    #[error(
        "not enough space for '{}': {} needed, {} free; make room, or choose another destination",
        show(path), format_bytes(*needed), format_bytes(*free)
    )]
    NoSpace {
        /// The file to write.
        path: PathBuf,
        /// The bytes that are still needed.
        needed: u64,
        /// The free bytes.
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
    /// Two names of the data set are the same on the destination's file system.
    #[error(
        "'{}' and '{}'{} are one name on the file system there, and one would replace the other: leave one out by --exclude, rename it at its source, or choose another destination",
        show(first), show(second), and_others(*others)
    )]
    OneName {
        /// The one.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// The number of other pairs.
        others: usize,
    },
    /// The destination's file system refuses a name.
    #[error(
        "the file system there does not take the name of '{}' ({source}; {why}): leave it out by --exclude, rename it at its source, or choose another destination",
        show(path)
    )]
    NameRefused {
        /// The file that would have the name.
        path: PathBuf,
        /// Why the name is refused, if known.
        why: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Permission is missing, or the file system is read-only.
    #[error("'{}' cannot be written ({source}): choose a destination that you may write to", show(path))]
    NotWritable {
        /// The file to write.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The user has stopped it before it began.
    #[error("it was stopped")]
    Stopped,
    /// Bytes beyond the end of the data set.
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
        /// Their number.
        missing: usize,
    },
    /// A sync has failed before, so the disk may lack what was written.
    #[error(
        "the disk has failed to keep what was written to '{}': the same command finds out what is there",
        show(path)
    )]
    NotSynced {
        /// The target.
        path: PathBuf,
    },
    /// The system reports something else.
    #[error("cannot {action} '{}': {source}", show(path))]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl LandingError {
    /// Whether the error is the system's, rather than the landing's.
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
