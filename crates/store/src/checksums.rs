//! Lists of files' checksums: those of `inhaul manifest`; those of sha256sum, md5sum, b3sum and their kin; and the
//! manifests of BagIt (RFC 8493).
//!
//! ```text
//! # inhaul manifest 1 directory
//! # root 64 hexadecimal digits: the BLAKE3 hash of all lines that follow
//! HASH SIZE PATH
//! ```
//!
//! Paths are relative to the data set. Our lists and those of the coreutils escape line breaks and backslashes as
//! `\n`, `\r` and `\\`; a line with such a path begins with a backslash. BagIt writes `%0A`, `%0D` and `%25`.

mod algorithm;
mod bagit;
mod hasher;
mod lines;

use crate::Kind;

pub use algorithm::{Algorithm, Strength};
pub use hasher::Hasher;

pub use bagit::{BagItError, BagManifests, bag_manifests, check_declaration};

/// Longest list that is read, in bytes.
pub const LIST_BYTES_MAX: u64 = 1 << 30;

/// A file and what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSum {
    /// Path relative to the directory that is listed, components separated by `/`.
    pub path: Vec<u8>,
    /// Its size in bytes, where the list tells.
    pub size: Option<u64>,
    /// Its checksum, as long as the algorithm's.
    pub checksum: Vec<u8>,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Ours: sizes, BLAKE3, and a hash of the whole.
    Inhaul(Kind),
    /// As sha256sum and its kin write it.
    Sums,
    /// The payload manifest of a bag (RFC 8493 2.1.3): the files lie in its `data/`.
    BagIt,
}

/// A list of files and their checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// How it is written.
    pub format: Format,
    /// How its checksums are computed.
    pub algorithm: Algorithm,
    /// The files, in the order of the list. A path stands there once.
    pub files: Vec<FileSum>,
}

impl Checksums {
    /// Reads a list of any kind of lines: ours, the coreutils', BSD's (`MD5 (PATH) = ...`), `md5:DIGITS PATH`, or SFV's
    /// (`PATH DIGITS`). Checksums that do not say what they are are taken for `assumed` where that is as long, else for
    /// what is most common of their length. The bytes may be anything.
    ///
    /// # Errors
    /// When a line is none of these, or of a kind that is not known or is not named; when a path leads out of the
    /// directory or stands there twice; or when the hash of the whole does not agree.
    pub fn read(bytes: &[u8], assumed: Option<Algorithm>) -> Result<Self, ChecksumsError> {
        lines::read(bytes, assumed)
    }

    /// The list as bytes, for [`Checksums::read`] and for the tools that have the format.
    pub fn write(&self) -> Vec<u8> {
        lines::write(self)
    }

    /// The hash of the whole, by which two data sets are known to be the same: of the lines as [`Format::Inhaul`] has
    /// them.
    pub fn root(&self) -> blake3::Hash {
        blake3::hash(&lines::body(self))
    }
}

/// Why something is no list of checksums.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumsError {
    /// A line is not one of a list.
    #[error("line {0} is not CHECKSUM and PATH as 'inhaul manifest', sha256sum, md5sum or b3sum write them")]
    Line(usize),
    /// A checksum is of a kind that is not known here.
    #[error(
        "line {line} has a checksum of the kind {name}, which is not supported; {} are",
        Algorithm::all().map(Algorithm::name).collect::<Vec<_>>().join(", ")
    )]
    Unsupported {
        /// The line, counted from 1.
        line: usize,
        /// What it says that it is.
        name: String,
    },
    /// A checksum is of parts.
    #[error(
        "line {0} has the checksum that S3 gives a file that was uploaded in parts (DIGITS-NUMBER); it is not one of the file, which needs a list of another kind"
    )]
    OfParts(usize),
    /// A checksum may be of several kinds.
    #[error(
        "line {0} does not say of which kind its checksum of 8 digits is: name it with --algorithm crc32, crc32c or adler32"
    )]
    Unnamed(usize),
    /// A path is absolute, or leads out of the directory, or nowhere.
    #[error("the path in line {0} leads out of the directory, or nowhere: only paths beneath it can be verified")]
    Path(usize),
    /// A path stands there twice.
    #[error("the path in line {0} stands in the list twice")]
    Twice(usize),
    /// The checksums are not all of one length.
    #[error("the checksum in line {0} is of another kind than the ones before it: make a list for each kind")]
    Mixed(usize),
    /// The hash of the whole does not agree.
    #[error("the list has been changed: its lines do not have the hash that its head says")]
    Root,
    /// It is of another version.
    #[error("this release reads version 1 of the list: use the release that wrote it")]
    Version,
    /// There is no file in it.
    #[error("the list is empty")]
    Empty,
}

#[cfg(test)]
mod tests;
