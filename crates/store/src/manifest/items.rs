//! What a manifest lists.

use std::ops::Range;

use inhaul_base::ByteRange;

use super::SKIPPED_NAMED_MAX;
use crate::digest::{GROUP_BYTES, group_count, group_range};

/// Whether a data set is a single file or a directory tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One file, whose path is the data set's name.
    File,
    /// A directory, with paths relative to it.
    Directory,
}

/// A moment as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, before it negative.
    pub seconds: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanos: u32,
}

/// Whose a file is, by number: names are a matter of each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's id; any but 2^32 - 1, by which the system means none.
    pub user: u32,
    /// The group's id; as for the user's.
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

/// What a file system keeps of a file beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Permission bits, within 0o777.
    pub mode: u32,
    /// When it was last changed.
    pub modified: Timestamp,
    /// Whose it is, when the client asked for that.
    pub owner: Option<Owner>,
    /// Its extended attributes, by name, when the client asked for them.
    pub attributes: Vec<Attribute>,
}

/// A file of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the data set, components separated by `/`; any bytes but NUL.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// What is kept of it beside its bytes.
    pub metadata: Metadata,
    /// Parts of the file that its source does not store, because they are zeros: in order, apart from each other, none
    /// of them empty.
    pub holes: Vec<ByteRange>,
}

impl Entry {
    /// The groups that lie in holes as a whole, in runs, in order: nothing of them has to be sent, read or compared.
    pub fn hole_groups(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let groups = |hole: &ByteRange| {
            let end = if hole.end == self.size { group_count(self.size) } else { hole.end / GROUP_BYTES };
            hole.start.div_ceil(GROUP_BYTES)..end
        };
        self.holes.iter().map(groups).filter(|run| !run.is_empty())
    }

    /// Whether `group` lies in a hole as a whole.
    pub fn is_hole_group(&self, group: u64) -> bool {
        let range = group_range(self.size, group);
        let after = self.holes.partition_point(|hole| hole.start <= range.start);
        !range.is_empty() && after.checked_sub(1).is_some_and(|at| self.holes[at].contains(range))
    }
}

/// A directory of a data set. Every directory is named, so that empty ones exist too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// Path relative to the data set, as in [`Entry::path`].
    pub path: Vec<u8>,
    /// What is kept of it.
    pub metadata: Metadata,
}

/// A symbolic link of a data set. Neither the server nor the receiver follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symlink {
    /// Path relative to the data set, as in [`Entry::path`].
    pub path: Vec<u8>,
    /// Where it leads: any bytes but NUL, at most 4095 of them and at least one.
    pub target: Vec<u8>,
    /// What is kept of it. Permissions mean nothing for a link.
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

/// What lies in a tree and is left out: sockets, pipes and devices, or what may not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many there are.
    pub count: u64,
    /// The paths of the first few, relative to the data set.
    pub paths: Vec<Vec<u8>>,
}

impl Skipped {
    /// Counts something, and names it if it is among the first few.
    pub(crate) fn add(&mut self, path: &[u8]) {
        self.count += 1;
        if self.paths.len() < SKIPPED_NAMED_MAX {
            self.paths.push(path.to_vec());
        }
    }
}

/// All that a data set holds, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// What is kept of the data set's own directory; of a data set that is a file, nothing.
    pub top: Metadata,
    /// The files, each once, whatever number of names it has.
    pub files: Vec<Entry>,
    /// The directories beneath the data set's own.
    pub directories: Vec<Directory>,
    /// The symbolic links.
    pub symlinks: Vec<Symlink>,
    /// Further names of the files.
    pub hard_links: Vec<HardLink>,
    /// What is left out because it cannot be carried.
    pub skipped: Skipped,
    /// The files and directories that are left out because their source may not read them.
    pub unreadable: Skipped,
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
