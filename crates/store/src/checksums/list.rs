//! A list of files and their checksums, in any format.

use super::algorithm::Algorithm;
use crate::Kind;

/// A file, and its expected size and checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSum {
    /// Path relative to the directory that is listed, components separated by `/`.
    pub path: Vec<u8>,
    /// Its size in bytes, if the list has it.
    pub size: Option<u64>,
    /// Its checksum, as long as the algorithm's.
    pub checksum: Vec<u8>,
}

/// The format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Ours: sizes, BLAKE3, and a hash of the whole.
    Inhaul(Kind),
    /// As sha256sum and similar tools write it.
    Sums,
    /// The payload manifest of a bag (RFC 8493 2.1.3): the files lie in its `data/`.
    BagIt,
}

/// A list of files and their checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// Its format.
    pub format: Format,
    /// The algorithm of its checksums.
    pub algorithm: Algorithm,
    /// The files, in the order of the list. Paths are unique.
    pub files: Vec<FileSum>,
}

/// Whether a path names something beneath the directory that it is relative to.
pub(super) fn is_beneath(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}
