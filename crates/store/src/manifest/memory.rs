//! Estimates the memory of lists of files before it is allocated, both for making and for reading a list.
//!
//! An allocation counts 16 bytes more than its content. A path counts 32 bytes more, for its places in the sorted
//! lists that check a manifest.

use inhaul_base::ByteRange;

use super::items::{Attribute, Directory, Entry, HardLink, Symlink};

/// The overhead of an allocation.
const ALLOCATION_BYTES: usize = 16;

/// The memory of a path of this many bytes, without the item that contains it.
pub(crate) const fn of_path(len: usize) -> usize {
    len + ALLOCATION_BYTES + 2 * size_of::<&[u8]>()
}

/// A file without its path, holes and attributes, but with its offset in the byte space.
pub(crate) const OF_FILE: usize = size_of::<Entry>() + size_of::<u64>();
/// A directory without its path.
pub(crate) const OF_DIRECTORY: usize = size_of::<Directory>();
/// A symbolic link without its path and target.
pub(crate) const OF_SYMLINK: usize = size_of::<Symlink>() + ALLOCATION_BYTES;
/// A hard link without its two paths.
pub(crate) const OF_HARD_LINK: usize = size_of::<HardLink>() + ALLOCATION_BYTES;
/// An attribute without its name and value.
pub(crate) const OF_ATTRIBUTE: usize = size_of::<Attribute>() + 2 * ALLOCATION_BYTES;
/// A hole.
pub(crate) const OF_HOLE: usize = size_of::<ByteRange>();

/// The holes and attributes of a file.
pub(crate) fn of_details(holes: usize, attributes: &[Attribute]) -> usize {
    let attribute = |attribute: &Attribute| OF_ATTRIBUTE + attribute.name.len() + attribute.value.len();
    holes * OF_HOLE + attributes.iter().map(attribute).sum::<usize>()
}
