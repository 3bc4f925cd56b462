//! Options of a landing.

use crate::plan::Existing;

/// Options of a landing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LandingOptions {
    /// What happens to existing files that differ. If they are replaced, so are files with the name of a partial one.
    pub existing: Existing,
    /// Set owner and group of files from the manifest. Needs privileges.
    pub owner: bool,
    /// Set the extended attributes of the manifest.
    pub attributes: bool,
    /// Start from the beginning, and remove what an interrupted transfer has left.
    pub fresh: bool,
    /// Bytes that other landings will write to the same file system: there must be room for these too.
    pub other_bytes: u64,
}
