//! Where the groups of a data set lie: all groups of all files, numbered through in the order of the manifest.
//!
//! Sizes are what a peer claims. Nothing here takes memory or time by them: it follows how many files and holes the
//! manifest lists.

use std::sync::Arc;

use inhaul_base::{ByteRange, RangeSet};
use inhaul_store::Manifest;
use inhaul_store::digest::{GROUP_BYTES, group_count, group_range};

/// The groups of a data set.
#[derive(Clone, Debug)]
pub struct Groups {
    manifest: Arc<Manifest>,
    /// The number of each file's first group.
    firsts: Arc<[u64]>,
    count: u64,
    /// The numbers of the groups that lie in holes as a whole.
    holes: Arc<RangeSet>,
}

/// Where a group lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    /// The file, by its index in the manifest.
    pub file: usize,
    /// The group's number in the file.
    pub group: u64,
    /// Its bytes in the data set's byte space; empty for the only group of an empty file.
    pub range: ByteRange,
}

impl Groups {
    pub fn new(manifest: Arc<Manifest>) -> Self {
        let mut count = 0;
        let mut firsts = Vec::with_capacity(manifest.entries().len());
        let mut holes = RangeSet::new();
        for entry in manifest.entries() {
            firsts.push(count);
            for run in entry.hole_groups() {
                holes.insert(ByteRange::new(count + run.start, count + run.end));
            }
            count += group_count(entry.size);
        }
        Self { manifest, firsts: firsts.into(), count, holes: Arc::new(holes) }
    }

    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// How many groups there are in all files together.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Where group `number` lies; `None` when there is no such group.
    pub fn place(&self, number: u64) -> Option<GroupPlace> {
        if number >= self.count {
            return None;
        }
        let file = self.firsts.partition_point(|&first| first <= number) - 1;
        let group = number - self.firsts[file];
        let in_file = group_range(self.manifest.entries()[file].size, group);
        let start = self.manifest.file_range(file)?.start;
        Some(GroupPlace { file, group, range: ByteRange::at(start + in_file.start, in_file.len()) })
    }

    /// The numbers of a file's groups.
    pub fn of_file(&self, file: usize) -> std::ops::Range<u64> {
        let end = self.firsts.get(file + 1).copied().unwrap_or(self.count);
        self.firsts.get(file).copied().unwrap_or(end)..end
    }

    /// The numbers of the groups that lie in holes as a whole: they are as they should be without a byte or a digest.
    pub fn holes(&self) -> &RangeSet {
        &self.holes
    }

    /// The groups of a file that lie in holes as a whole, by their numbers in the file, in runs.
    pub fn holes_of_file(&self, file: usize) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        let groups = self.of_file(file);
        let run = move |run: ByteRange| run.start - groups.start..run.end - groups.start;
        let std::ops::Range { start, end } = self.of_file(file);
        self.holes.within(ByteRange::new(start, end)).map(run)
    }

    /// Bytes of a file's groups that lie in holes as a whole.
    pub fn hole_bytes(&self, file: usize) -> u64 {
        let size = self.manifest.entries()[file].size;
        let bytes = |run: std::ops::Range<u64>| group_range(size, run.end - 1).end - group_range(size, run.start).start;
        self.holes_of_file(file).map(bytes).sum()
    }

    /// How many groups of a file have to be verified: the others lie in holes.
    pub fn data_groups(&self, file: usize) -> u64 {
        let groups = self.of_file(file);
        groups.end - groups.start - self.holes_of_file(file).map(|run| run.end - run.start).sum::<u64>()
    }

    /// The groups that `range` of the byte space falls on, in order, each with how many of its bytes that are.
    pub fn touched(&self, range: ByteRange) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.manifest.locate(range).flat_map(|piece| {
            let first = self.firsts[piece.file];
            let in_file = ByteRange::at(piece.offset, piece.len);
            let groups = in_file.start / GROUP_BYTES..=(in_file.end - 1) / GROUP_BYTES;
            groups.map(move |group| {
                let bytes = ByteRange::at(group * GROUP_BYTES, GROUP_BYTES).intersection(in_file).len();
                (first + group, bytes)
            })
        })
    }
}

/// Data sets for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::*;
    use inhaul_store::{Contents, Entry, Kind};

    /// A data set of files with these sizes.
    pub fn manifest(sizes: &[u64]) -> Arc<Manifest> {
        let names: Vec<String> = (0..sizes.len()).map(|k| format!("{k:04}")).collect();
        let files: Vec<_> = names.iter().map(String::as_str).zip(sizes.iter().copied()).collect();
        manifest_of(&files)
    }

    /// A data set called `set` of files with these names and sizes.
    pub fn manifest_of(files: &[(&str, u64)]) -> Arc<Manifest> {
        let entry = |&(name, size): &(&str, u64)| Entry { path: name.into(), size, ..Entry::default() };
        let contents = Contents { files: files.iter().map(entry).collect(), ..Contents::default() };
        Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).expect("it obeys the rules"))
    }

    /// A data set of one file of `size` bytes with these holes, from each first byte up to the one behind the last.
    pub fn sparse_manifest(size: u64, holes: &[(u64, u64)]) -> Arc<Manifest> {
        let holes = holes.iter().map(|&(start, end)| ByteRange::new(start, end)).collect();
        let files = vec![Entry { path: b"a".to_vec(), size, holes, ..Entry::default() }];
        let contents = Contents { files, ..Contents::default() };
        Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).expect("it obeys the rules"))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of runs of groups may have one run")]
mod tests {
    use super::testing::{manifest, sparse_manifest};
    use super::*;

    #[test]
    fn place_numbers_groups_through_all_files() {
        let g = GROUP_BYTES;
        let groups = Groups::new(manifest(&[g + 5, 0, 7]));
        assert_eq!(groups.count(), 4);
        let places: Vec<_> = (0..4).map(|n| groups.place(n).unwrap()).collect();
        let place = |file, group, start, len| GroupPlace { file, group, range: ByteRange::at(start, len) };
        assert_eq!(places, [place(0, 0, 0, g), place(0, 1, g, 5), place(1, 0, g + 5, 0), place(2, 0, g + 5, 7)]);
        assert_eq!(groups.place(4), None);
        assert_eq!((groups.of_file(0), groups.of_file(1), groups.of_file(2)), (0..2, 2..3, 3..4));
    }

    #[test]
    fn groups_of_claimed_sizes_take_no_memory() {
        let size = i64::MAX as u64;
        let groups = Groups::new(sparse_manifest(size, &[(5, size)]));
        assert_eq!((groups.count(), groups.data_groups(0)), (1 << 43, 1));
        assert_eq!(groups.holes_of_file(0).collect::<Vec<_>>(), [1..1 << 43]);
        assert_eq!(groups.hole_bytes(0), size - GROUP_BYTES);
    }
}
