//! Why bytes or items do not form a manifest.

use super::limits::ENTRIES_MAX;
use crate::printable;

/// Why something is no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The bytes end too early.
    #[error("the list of files is cut short")]
    Truncated,
    /// There are bytes after the end.
    #[error("the list of files has {0} bytes too many")]
    TrailingBytes(usize),
    /// The bytes are something else altogether.
    #[error("this is no list of files")]
    NotAManifest,
    /// The peer writes another version.
    #[error(
        "the peer writes version {theirs} of the list of files, this program reads {ours}: install the same release on both"
    )]
    Version {
        /// The version that this program reads.
        ours: u8,
        /// The version that was found.
        theirs: u8,
    },
    /// The kind is neither file nor directory.
    #[error("the list of files is of the unknown kind {0}")]
    BadKind(u8),
    /// A number is out of its range.
    #[error("a number in the list of files is out of range")]
    BadNumber,
    /// More files, directories or links than one data set may have.
    #[error("a data set has at most {ENTRIES_MAX} files: move it in several parts")]
    TooMany,
    /// It would take too much memory, for its length or for the budget.
    #[error("the list of files takes too much memory: move the data set in several parts")]
    TooMuchMemory,
    /// An invalid path, or one that leads out of the data set.
    #[error("the path '{}' cannot be moved: {why}", printable(path))]
    BadPath {
        /// The path.
        path: Vec<u8>,
        /// The fault.
        why: &'static str,
    },
    /// A path occurs twice, or the list is not sorted.
    #[error("the path '{}' is out of order or there twice", printable(.0))]
    NotInOrder(Vec<u8>),
    /// The parent directory of a path is not listed.
    #[error("the directory of '{}' is not in the list", printable(.0))]
    NoParent(Vec<u8>),
    /// A path is two things at once: a file and a directory, or a link and a file.
    #[error("'{}' is two things at once in the list of files", printable(.0))]
    TwoThings(Vec<u8>),
    /// A data set of kind file is not one file under its own name.
    #[error("a single file's list holds something else than that file")]
    NotOneFile,
    /// A hard link is to no file of the list.
    #[error("'{}' is a link to a file that is not in the list", printable(.0))]
    NoSuchFile(Vec<u8>),
    /// A symbolic link leads nowhere: its target is empty, too long or holds NUL.
    #[error("the symbolic link '{}' has no target that a link can have", printable(.0))]
    BadTarget(Vec<u8>),
    /// The holes of a file overlap, are out of order or lie beyond its end.
    #[error("the holes of '{}' are out of order", printable(.0))]
    BadHoles(Vec<u8>),
    /// Bits beside the permissions are set.
    #[error("the file mode {0:o} is more than permissions")]
    BadMode(u32),
    /// A time has a second or more of nanoseconds.
    #[error("a file's time is out of range")]
    BadTime,
    /// A user or group is invalid.
    #[error("a file's owner is out of range")]
    BadOwner,
    /// An extended attribute is not one that users may set, or is too large.
    #[error("the extended attribute '{}' cannot be moved", printable(.0))]
    BadAttribute(Vec<u8>),
    /// The sum of sizes exceeds the range of file offsets.
    #[error("the files together are larger than 2^63 bytes: move them in several parts")]
    TooLarge,
}
