//! Why something is no list of checksums.

use super::algorithm::Algorithm;

/// Why something is no list of checksums.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumsError {
    /// A line has none of the known forms.
    #[error("line {0} is not CHECKSUM and PATH as 'inhaul manifest', sha256sum, md5sum or b3sum write them")]
    Line(usize),
    /// A checksum's algorithm is not supported.
    #[error(
        "line {line} has a checksum of the kind {name}, which is not supported; {} are",
        Algorithm::all().map(Algorithm::name).collect::<Vec<_>>().join(", ")
    )]
    Unsupported {
        /// The line, counted from 1.
        line: usize,
        /// Its stated algorithm.
        name: String,
    },
    /// A checksum of parts.
    #[error(
        "line {0} has the checksum that S3 gives a file that was uploaded in parts (DIGITS-NUMBER); it is not one of the file, which needs a list of another kind"
    )]
    OfParts(usize),
    /// A checksum may be of several algorithms.
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
    /// The hash of the whole list does not match.
    #[error("the list has been changed: its lines do not have the hash that its head says")]
    Root,
    /// It is of another version.
    #[error("this release reads version 1 of the list: use the release that wrote it")]
    Version,
    /// There is no file in it.
    #[error("the list is empty")]
    Empty,
}
