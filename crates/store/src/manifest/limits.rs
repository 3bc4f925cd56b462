//! The limits that every manifest obeys.

/// Longest path in a manifest, in bytes: the system's limit, less room for `.partial`.
pub(crate) const PATH_BYTES_MAX: usize = 4096 - 1 - 64;
/// Longest component of a path, and longest name of an attribute, in bytes.
pub(super) const COMPONENT_BYTES_MAX: usize = 255;
/// Longest target of a symbolic link, in bytes.
pub(super) const TARGET_BYTES_MAX: usize = 4095;
/// Most bytes of the values of one file's extended attributes.
pub(crate) const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;
/// Most files of one data set; also most directories, symbolic links and hard links.
pub(super) const ENTRIES_MAX: u64 = 1 << 24;
/// Most paths of left out items that are listed; the others are counted.
pub(super) const SKIPPED_NAMED_MAX: usize = 16;
/// Largest data set, in bytes: file offsets are signed.
pub(super) const SIZE_MAX: u64 = i64::MAX as u64;
/// The permission bits that are transferred; set-user-id and the like are not.
pub(crate) const MODE_BITS: u32 = 0o777;
