//! What a data set is made of, and where in its byte space each file lies.

mod codec;

use inhaul_base::ByteRange;

use crate::printable;

/// Longest path in a manifest, in bytes: what the system takes, less room for `.partial`.
pub(crate) const PATH_BYTES_MAX: usize = 4096 - 1 - 64;
/// Longest component of a path, in bytes.
const COMPONENT_BYTES_MAX: usize = 255;
/// Most files and directories of one data set, each.
const ENTRIES_MAX: u64 = 1 << 24;
/// Largest data set, in bytes: file offsets are signed.
const SIZE_MAX: u64 = i64::MAX as u64;
/// The permission bits that travel; set-user-id and its kin do not.
pub(crate) const MODE_BITS: u32 = 0o777;

/// Whether a data set is a single file or a directory tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One file, whose path is the data set's name.
    File,
    /// A directory, with paths relative to it.
    Directory,
}

/// A moment as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since 1970, before it negative.
    pub seconds: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanos: u32,
}

/// A file of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the data set, components separated by `/`; any bytes but NUL.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits, within 0o777.
    pub mode: u32,
    /// When the file was last changed.
    pub modified: Timestamp,
}

/// A directory of a data set. Every directory is named, so that empty ones exist too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Path relative to the data set, as in [`Entry::path`].
    pub path: Vec<u8>,
    /// Permission bits, within 0o777.
    pub mode: u32,
}

/// A part of a file that a range of the byte space falls on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the file in [`Manifest::entries`].
    pub file: usize,
    /// Where in the file the part begins, in bytes.
    pub offset: u64,
    /// Its length in bytes; never zero.
    pub len: u64,
}

/// What a data set is made of. A manifest that exists is valid: see [`Manifest::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    name: Vec<u8>,
    kind: Kind,
    entries: Vec<Entry>,
    directories: Vec<Directory>,
    /// Where in the byte space each file begins.
    starts: Vec<u64>,
    size: u64,
}

impl Manifest {
    /// The manifest of a data set called `name`; files and directories may be given in any order.
    ///
    /// # Errors
    /// When a path is empty, absolute, too long, or has a component that is empty, `.` or `..` or holds NUL; when a
    /// path is there twice; when the directory of a file or directory is not listed; when the sizes add up to more
    /// than 2^63 - 1; when a file's data set is anything but that one file under the data set's name.
    pub fn new(
        name: Vec<u8>,
        kind: Kind,
        mut entries: Vec<Entry>,
        mut directories: Vec<Directory>,
    ) -> Result<Self, ManifestError> {
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        directories.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Self::from_sorted(name, kind, entries, directories)
    }

    fn from_sorted(
        name: Vec<u8>,
        kind: Kind,
        entries: Vec<Entry>,
        directories: Vec<Directory>,
    ) -> Result<Self, ManifestError> {
        if entries.len() as u64 > ENTRIES_MAX || directories.len() as u64 > ENTRIES_MAX {
            return Err(ManifestError::TooMany);
        }
        check_component(&name, &name)?;
        if kind == Kind::File && (entries.len() != 1 || entries[0].path != name || !directories.is_empty()) {
            return Err(ManifestError::NotOneFile);
        }
        check_paths(&entries, &directories)?;
        let modes = entries.iter().map(|e| e.mode).chain(directories.iter().map(|d| d.mode));
        if let Some(mode) = modes.into_iter().find(|mode| mode & !MODE_BITS != 0) {
            return Err(ManifestError::BadMode(mode));
        }
        let mut size = 0u64;
        let mut starts = Vec::with_capacity(entries.len());
        for entry in &entries {
            if entry.modified.nanos >= 1_000_000_000 {
                return Err(ManifestError::BadTime);
            }
            starts.push(size);
            size = size.checked_add(entry.size).filter(|&s| s <= SIZE_MAX).ok_or(ManifestError::TooLarge)?;
        }
        Ok(Self { name, kind, entries, directories, starts, size })
    }

    /// The data set's name: a single path component.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it is a file or a directory.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The files, in the order of their path's bytes: the order in which they lie in the byte space.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// All directories beneath the data set's own, parents before children.
    pub fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// Length of the byte space: the sizes of all files together, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where file `index` lies in the byte space; `None` when there is no such file.
    pub fn file_range(&self, index: usize) -> Option<ByteRange> {
        Some(ByteRange::at(*self.starts.get(index)?, self.entries[index].size))
    }

    /// The parts of files that `range` of the byte space falls on, in order; what lies beyond the end is left out.
    /// O(log n) for each part.
    pub fn locate(&self, range: ByteRange) -> impl Iterator<Item = Piece> + '_ {
        let mut at = range.start;
        let end = range.end.min(self.size);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            // Of several files that begin at one place all but the last are empty.
            let file = self.starts.partition_point(|&start| start <= at) - 1;
            let offset = at - self.starts[file];
            let len = (self.entries[file].size - offset).min(end - at);
            at += len;
            Some(Piece { file, offset, len })
        })
    }

    /// The index of the file at `path`.
    pub fn file_at(&self, path: &[u8]) -> Option<usize> {
        self.entries.binary_search_by(|e| e.path.as_slice().cmp(path)).ok()
    }

    /// The index of the directory at `path`.
    pub(crate) fn directory_at(&self, path: &[u8]) -> Option<usize> {
        self.directories.binary_search_by(|d| d.path.as_slice().cmp(path)).ok()
    }

    /// Whether the data set has a file or directory at `path`.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        has_entry(&self.entries, path) || has_directory(&self.directories, path)
    }

    /// A digest of what mirrors of one data set share: kind, paths and sizes. Times, permissions and the name under
    /// which a host keeps it may differ.
    pub fn identity(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        codec::write_identity(self, &mut hasher);
        hasher.finalize()
    }

    /// The manifest as bytes, for [`Manifest::decode`].
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads what [`Manifest::encode`] wrote. The bytes may come from anybody: memory stays in proportion to their
    /// length, and what is returned obeys the rules of [`Manifest::new`].
    ///
    /// # Errors
    /// When the bytes are cut short, too long, of another version, out of order or against the rules.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        codec::decode(bytes)
    }
}

fn has_entry(entries: &[Entry], path: &[u8]) -> bool {
    entries.binary_search_by(|e| e.path.as_slice().cmp(path)).is_ok()
}

fn has_directory(directories: &[Directory], path: &[u8]) -> bool {
    directories.binary_search_by(|d| d.path.as_slice().cmp(path)).is_ok()
}

/// Checks the rules that paths obey, singly and together.
fn check_paths(entries: &[Entry], directories: &[Directory]) -> Result<(), ManifestError> {
    let in_order = |pair: [&[u8]; 2]| {
        if pair[0] < pair[1] { Ok(()) } else { Err(ManifestError::NotInOrder(pair[1].to_vec())) }
    };
    entries.windows(2).try_for_each(|w| in_order([&w[0].path, &w[1].path]))?;
    directories.windows(2).try_for_each(|w| in_order([&w[0].path, &w[1].path]))?;
    for path in entries.iter().map(|e| &e.path).chain(directories.iter().map(|d| &d.path)) {
        if path.len() > PATH_BYTES_MAX {
            return Err(ManifestError::BadPath { path: path.clone(), why: "it is too long" });
        }
        path.split(|&b| b == b'/').try_for_each(|component| check_component(component, path))?;
        // With every parent listed, a file that is also a directory shows as a path that is in both lists.
        if let Some(slash) = path.iter().rposition(|&b| b == b'/')
            && !has_directory(directories, &path[..slash])
        {
            return Err(ManifestError::NoParent(path.clone()));
        }
    }
    match directories.iter().find(|d| has_entry(entries, &d.path)) {
        Some(clash) => Err(ManifestError::FileAndDirectory(clash.path.clone())),
        None => Ok(()),
    }
}

/// Checks that `component` can be the name of a file and leads nowhere else.
pub(crate) fn check_component(component: &[u8], path: &[u8]) -> Result<(), ManifestError> {
    let why = match component {
        b"" => "a component is empty",
        b"." | b".." => "it has a component '.' or '..'",
        c if c.len() > COMPONENT_BYTES_MAX => "a component is longer than 255 bytes",
        c if c.contains(&0) => "it holds a NUL byte",
        c if c.contains(&b'/') => "a name holds no '/'",
        _ => return Ok(()),
    };
    Err(ManifestError::BadPath { path: path.to_vec(), why })
}

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
    /// More files or directories than one data set may have.
    #[error("a data set has at most {ENTRIES_MAX} files: move it in several parts")]
    TooMany,
    /// A path that names nothing inside the data set, or nothing at all.
    #[error("the path '{}' cannot be moved: {why}", printable(path))]
    BadPath {
        /// The path.
        path: Vec<u8>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A path is there twice, or the list is not sorted.
    #[error("the path '{}' is out of order or there twice", printable(.0))]
    NotInOrder(Vec<u8>),
    /// The directory that a path lies in is not listed.
    #[error("the directory of '{}' is not in the list", printable(.0))]
    NoParent(Vec<u8>),
    /// A path is both a file and a directory.
    #[error("'{}' is both a file and a directory", printable(.0))]
    FileAndDirectory(Vec<u8>),
    /// A data set of kind file is not one file under its own name.
    #[error("a single file's list holds something else than that file")]
    NotOneFile,
    /// Bits beside the permissions are set.
    #[error("the file mode {0:o} is more than permissions")]
    BadMode(u32),
    /// A time has a second or more of nanoseconds.
    #[error("a file's time is out of range")]
    BadTime,
    /// The sizes add up to more than file offsets can say.
    #[error("the files together are larger than 2^63 bytes: move them in several parts")]
    TooLarge,
}

#[cfg(test)]
mod tests;
