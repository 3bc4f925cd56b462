//! The items of a manifest.

use std::ops::Range;

use inhaul_base::ByteRange;

use super::limits::SKIPPED_NAMED_MAX;
use crate::digest::{GROUP_BYTES, group_count, group_range};

/// Whether a data set is a single file or a directory tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One file, whose path is the data set's name.
    File,
    /// A directory, with paths relative to it.
    Directory,
}

/// A time as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970; negative before it.
    pub seconds: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanos: u32,
}

/// The owner of a file, by number, because names differ between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's id; not 2^32 - 1, which means none.
    pub user: u32,
    /// The group's id; not 2^32 - 1.
    pub group: u32,
}

/// An extended attribute, of those that ordinary users may set (`user.*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, with the `user.` in front; at most 255 bytes, none of them NUL.
    pub name: Vec<u8>,
    /// Its value; at most 64 KiB.
    pub value: Vec<u8>,
}

/// The metadata of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Permission bits, within 0o777.
    pub mode: u32,
    /// When it was last changed.
    pub modified: Timestamp,
    /// Its owner, if the client requested it.
    pub owner: Option<Owner>,
    /// Its extended attributes, by name, if the client requested them.
    pub attributes: Vec<Attribute>,
}

/// A file of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the data set, components separated by `/`; any bytes but NUL.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Its metadata.
    pub metadata: Metadata,
    /// Parts of zeros that its source does not store: in order, not adjacent, none of them empty.
    pub holes: Vec<ByteRange>,
}

impl Entry {
    /// Runs of groups that lie entirely in holes, in order. They need not be sent, read or compared.
    pub fn hole_groups(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let groups = |hole: &ByteRange| {
            let end = if hole.end == self.size { group_count(self.size) } else { hole.end / GROUP_BYTES };
            hole.start.div_ceil(GROUP_BYTES)..end
        };
        self.holes.iter().map(groups).filter(|run| !run.is_empty())
    }

    /// Whether `group` lies entirely in a hole.
    pub fn is_hole_group(&self, group: u64) -> bool {
        let range = group_range(self.size, group);
        let after = self.holes.partition_point(|hole| hole.start <= range.start);
        !range.is_empty() && after.checked_sub(1).is_some_and(|at| self.holes[at].contains(range))
    }
}

/// A directory of a data set. Every directory is listed, so that empty ones exist too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// Path relative to the data set, as in [`Entry::path`].
    pub path: Vec<u8>,
    /// Its metadata.
    pub metadata: Metadata,
}

/// A symbolic link of a data set. Neither the server nor the receiver follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symlink {
    /// Path relative to the data set, as in [`Entry::path`].
    pub path: Vec<u8>,
    /// Its target: 1 to 4095 bytes, none of them NUL.
    pub target: Vec<u8>,
    /// Its metadata. A link's permissions mean nothing.
    pub metadata: Metadata,
}

/// A second name of a file of the data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardLink {
    /// The second name, relative to the data set as in [`Entry::path`].
    pub path: Vec<u8>,
    /// [`Entry::path`] of the file.
    pub file: Vec<u8>,
}

/// Items of a tree that are left out: sockets, pipes and devices, or unreadable ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Their number.
    pub count: u64,
    /// The paths of the first few, relative to the data set.
    pub paths: Vec<Vec<u8>>,
}

impl Skipped {
    /// Counts an item, and keeps its path if it is among the first few.
    pub(crate) fn add(&mut self, path: &[u8]) {
        self.count += 1;
        if self.paths.len() < SKIPPED_NAMED_MAX {
            self.paths.push(path.to_vec());
        }
    }
}

/// The contents of a data set, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The metadata of the data set's own directory; unused if the data set is a file.
    pub top: Metadata,
    /// The files, each once, even with several names.
    pub files: Vec<Entry>,
    /// The directories beneath the data set's own.
    pub directories: Vec<Directory>,
    /// The symbolic links.
    pub symlinks: Vec<Symlink>,
    /// Further names of the files.
    pub hard_links: Vec<HardLink>,
    /// Items that are left out because they cannot be transferred.
    pub skipped: Skipped,
    /// Files and directories that are left out because their source may not read them.
    pub unreadable: Skipped,
}

impl Contents {
    /// The index of the file at `path`, once the files are sorted by path.
    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        self.files.binary_search_by(|file| file.path.as_slice().cmp(path)).ok()
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of runs of groups may have one run")]
mod tests {
    use super::*;

    #[test]
    fn hole_groups_are_those_without_a_byte_of_data() {
        let g = GROUP_BYTES;
        let groups = |size: u64, holes: &[(u64, u64)]| {
            let holes = holes.iter().map(|&(start, end)| ByteRange::new(start, end)).collect();
            let entry = Entry { size, holes, ..Entry::default() };
            let runs: Vec<_> = entry.hole_groups().collect();
            for group in 0..group_count(size).min(10) {
                assert_eq!(entry.is_hole_group(group), runs.iter().any(|run| run.contains(&group)), "{group}");
            }
            runs
        };
        assert_eq!(groups(3 * g, &[(0, 3 * g)]), [0..3]);
        assert_eq!(groups(3 * g, &[(1, 2 * g - 1), (2 * g, 3 * g)]), [2..3]);
        assert_eq!(groups(3 * g + 5, &[(g - 1, 2 * g), (3 * g - 7, 3 * g + 5)]), [1..2, 3..4]);
        assert_eq!(groups(7, &[(0, 7)]), [0..1]);
        assert_eq!(groups(7, &[(0, 6)]), []);
        assert_eq!(groups(0, &[]), []);
        assert_eq!(groups(i64::MAX as u64, &[(0, i64::MAX as u64)]), [0..1 << 43]);
    }
}
