//! Lists of files' checksums: those of `inhaul manifest`; those of sha256sum, sha512sum and b3sum; and the manifests
//! of BagIt (RFC 8493).
//!
//! ```text
//! # inhaul manifest 1 directory
//! # root 64 hexadecimal digits: the BLAKE3 hash of all lines that follow
//! HASH SIZE PATH
//! ```
//!
//! Paths are relative to the data set. Our lists and those of the coreutils escape line breaks and backslashes as
//! `\n`, `\r` and `\\`; a line with such a path begins with a backslash. BagIt writes `%0A`, `%0D` and `%25`.

mod bagit;
mod lines;

use std::fmt;

use crate::Kind;

pub use bagit::{BagItError, BagManifests, bag_manifests, check_declaration};

/// Longest list that is read, in bytes.
pub const LIST_BYTES_MAX: u64 = 1 << 30;

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// BLAKE3, 256 bits: what transfers are verified by.
    Blake3,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
}

impl Algorithm {
    /// Length of a checksum in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Blake3 | Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// A checksum of it from its hexadecimal digits; `None`: they are not its digits.
    pub fn sum(self, digits: &str) -> Option<Vec<u8>> {
        let byte = |pair: &[u8; 2]| {
            let pair = str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u8::from_str_radix(pair, 16).ok()
        };
        let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
        let is_whole = odd.is_empty() && pairs.len() == self.bytes();
        is_whole.then(|| pairs.iter().map(byte).collect()).flatten()
    }

    /// Its name, as BagIt and the tools that compute it write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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
    /// Reads a list of either kind of lines, ours or the coreutils'. Checksums of 64 digits that do not say what they
    /// are are taken for `of_64_digits`. The bytes may be anything.
    ///
    /// # Errors
    /// When a line is neither, when a path leads out of the directory or stands there twice, or when the hash of the
    /// whole does not agree.
    pub fn read(bytes: &[u8], of_64_digits: Algorithm) -> Result<Self, ChecksumsError> {
        lines::read(bytes, of_64_digits)
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
    #[error("line {0} is not CHECKSUM and PATH as 'inhaul manifest', sha256sum, sha512sum or b3sum write them")]
    Line(usize),
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
