//! The differences between a data set now and when its transfer began.

use std::fmt;

use inhaul_base::format_bytes;

use crate::{Kind, Manifest, printable};

/// A change of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is a new file.
    Added {
        /// Its path.
        path: Vec<u8>,
    },
    /// A file is gone.
    Removed {
        /// Its path.
        path: Vec<u8>,
    },
    /// A file has another size.
    Resized {
        /// Its path.
        path: Vec<u8>,
        /// Its size before, in bytes.
        before: u64,
        /// Its size now, in bytes.
        after: u64,
    },
    /// A file has the same size, and another time.
    Touched {
        /// Its path.
        path: Vec<u8>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { path } => write!(f, "'{}' is new", printable(path)),
            Self::Removed { path } => write!(f, "'{}' is gone", printable(path)),
            Self::Resized { path, before, after } => {
                let (before, after) = (format_bytes(*before), format_bytes(*after));
                write!(f, "'{}' has {after} instead of {before}", printable(path))
            }
            Self::Touched { path } => write!(f, "'{}' has another time of change", printable(path)),
        }
    }
}

/// The changed files, in the order of their paths.
pub(super) fn between(old: &Manifest, new: &Manifest) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut before, mut after) = (old.entries().iter().peekable(), new.entries().iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return changes,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            // A single file is the same under any name.
            (Some(_), Some(_)) if new.kind() == Kind::File => std::cmp::Ordering::Equal,
            (Some(a), Some(b)) => a.path.cmp(&b.path),
        };
        // Each side advances past the compared file.
        let gone = if order.is_le() { before.next() } else { None };
        let come = if order.is_ge() { after.next() } else { None };
        match (gone, come) {
            (Some(a), None) => changes.push(Change::Removed { path: a.path.clone() }),
            (None, Some(b)) => changes.push(Change::Added { path: b.path.clone() }),
            (Some(a), Some(b)) if a.size != b.size => {
                changes.push(Change::Resized { path: b.path.clone(), before: a.size, after: b.size });
            }
            (Some(a), Some(b)) if a.metadata.modified != b.metadata.modified => {
                changes.push(Change::Touched { path: b.path.clone() });
            }
            _ => {}
        }
    }
}
