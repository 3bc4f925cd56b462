//! Why something cannot be offered or read.

use std::io;

use inhaul_base::ByteRange;
use rustix::io::Errno;

use crate::{ManifestError, printable};

/// Why something cannot be offered or read.
#[derive(Debug, thiserror::Error)]
pub enum OfferedError {
    /// No path is offered.
    #[error("nothing is offered: name at least one directory or file")]
    Nothing,
    /// Two offered directories would have the same name.
    #[error("two of the directories are called '{}': give one another name, as in NAME=DIR", printable(.0))]
    SameName(Vec<u8>),
    /// There is no such file or directory.
    #[error("there is no '{}'{hint}", printable(path))]
    NotFound {
        /// The request.
        path: Vec<u8>,
        /// A hint at valid requests, if there is one.
        hint: String,
    },
    /// The path begins with an ambiguous name.
    #[error(
        "'/{0}' is refused: another offered directory has a '{0}' in it, and was reached by the same address when it was offered alone; have this one offered under another name, as in NAME=DIR",
        printable(name)
    )]
    Unclear {
        /// The name.
        name: Vec<u8>,
    },
    /// The path leads out of the offered directories, by `..` or by a link.
    #[error(
        "'{}' leads outside of what is offered; only paths beneath the offered directories can be read",
        printable(path)
    )]
    Outside {
        /// The request.
        path: Vec<u8>,
    },
    /// The path goes through a link, and may not.
    #[error("'{}' goes through a link, and a right on a path is for what lies there itself", printable(path))]
    Linked {
        /// The request.
        path: Vec<u8>,
    },
    /// Permission is missing.
    #[error(
        "'{}' may not be read by the server; give it permission (chmod +r, for directories +rx) or leave it out",
        printable(path)
    )]
    Unreadable {
        /// The unreadable path.
        path: Vec<u8>,
    },
    /// It is neither a file nor a directory.
    #[error("'{}' is neither a file nor a directory; only those can be moved", printable(path))]
    Unsupported {
        /// The request.
        path: Vec<u8>,
    },
    /// It is generated when it is read, so its length is unknown.
    #[error(
        "'{0}' is made when it is read, like files of /proc and /sys: its size says nothing; make a file of it first (cat {0} > FILE)",
        printable(path)
    )]
    Generated {
        /// The request.
        path: Vec<u8>,
    },
    /// It cannot be a data set.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file has another size than when it was listed, or is not a file any more.
    #[error(
        "'{}' has changed since the transfer began; start the transfer again when no program writes to it",
        printable(path)
    )]
    Changed {
        /// The file.
        path: Vec<u8>,
    },
    /// The list of files at the path is too large for the memory budget.
    #[error("the list of what is in '{}' takes more memory than there is for it now", printable(path))]
    TooMuchMemory {
        /// The request.
        path: Vec<u8>,
    },
    /// There is no file of that index in the data set.
    #[error("the data set has no file {0}")]
    NoSuchFile(usize),
    /// A range ends beyond the data set or the file.
    #[error("the range {0} ends beyond the data")]
    OutOfRange(ByteRange),
    /// The system reports something else.
    #[error("'{}' cannot be read: {source}", printable(path))]
    Io {
        /// The path.
        path: Vec<u8>,
        /// The system's error.
        source: io::Error,
    },
}

impl OfferedError {
    pub(super) fn from_errno(path: &[u8], errno: Errno) -> Self {
        let path = path.to_vec();
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound { path, hint: String::new() },
            Errno::XDEV => Self::Outside { path },
            Errno::LOOP => Self::Linked { path },
            Errno::ACCESS | Errno::PERM => Self::Unreadable { path },
            _ => Self::Io { path, source: errno.into() },
        }
    }

    pub(super) fn from_io(path: &[u8], error: &io::Error) -> Self {
        Self::from_errno(path, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }
}
