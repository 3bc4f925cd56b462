//! Lists of files' checksums: those of `inhaul manifest`; those of sha256sum, md5sum, b3sum and similar tools; and the
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
mod error;
mod hasher;
mod lines;
mod list;

pub use algorithm::{Algorithm, Strength};
pub use bagit::{BagItError, BagManifests, bag_manifests, check_declaration};
pub use error::ChecksumsError;
pub use hasher::Hasher;
pub use list::{Checksums, FileSum, Format};

/// Longest list that is read, in bytes.
pub const LIST_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests;
