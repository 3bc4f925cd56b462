//! Where the groups of a data set lie: all groups of all files, numbered through in the order of the manifest.
//!
//! Sizes are what a peer claims. Nothing here takes memory or time by them: it follows how many files and holes the manifest
//! lists, and the bytes that have come.

use std::collections::BTreeMap;
use std::sync::Arc;

use inhaul_base::{ByteRange, RangeSet};
use inhaul_store::Manifest;
use inhaul_store::digest::{GROUP_BYTES, group_count, group_range};
use inhaul_transport::FlowId;

/// The groups of a data set.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    manifest: Arc<Manifest>,
    /// The number of each file's first group.
    firsts: Arc<[u64]>,
    count: u64,
    /// The numbers of the groups that lie in holes as a whole.
    holes: Arc<RangeSet>,
}

/// Where a group lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupPlace {
    /// The file, by its index in the manifest.
    pub(crate) file: usize,
    /// The group's number in the file.
    pub(crate) group: u64,
    /// Its bytes in the data set's byte space; empty for the only group of an empty file.
    pub(crate) range: ByteRange,
}

impl Groups {
    pub(crate) fn new(manifest: Arc<Manifest>) -> Self {
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

    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// How many groups there are in all files together.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Where group `number` lies; `None` when there is no such group.
    pub(crate) fn place(&self, number: u64) -> Option<GroupPlace> {
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
    pub(crate) fn of_file(&self, file: usize) -> std::ops::Range<u64> {
        let end = self.firsts.get(file + 1).copied().unwrap_or(self.count);
        self.firsts.get(file).copied().unwrap_or(end)..end
    }

    /// The numbers of the groups that lie in holes as a whole: they are as they should be without a byte or a digest.
    pub(crate) fn holes(&self) -> &RangeSet {
        &self.holes
    }

    /// The groups of a file that lie in holes as a whole, by their numbers in the file, in runs.
    pub(crate) fn holes_of_file(&self, file: usize) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        let groups = self.of_file(file);
        let run = move |run: ByteRange| run.start - groups.start..run.end - groups.start;
        let std::ops::Range { start, end } = self.of_file(file);
        self.holes.within(ByteRange::new(start, end)).map(run)
    }

    /// Bytes of a file's groups that lie in holes as a whole.
    pub(crate) fn hole_bytes(&self, file: usize) -> u64 {
        let size = self.manifest.entries()[file].size;
        let bytes = |run: std::ops::Range<u64>| group_range(size, run.end - 1).end - group_range(size, run.start).start;
        self.holes_of_file(file).map(bytes).sum()
    }

    /// How many groups of a file have to be verified: the others lie in holes.
    pub(crate) fn data_groups(&self, file: usize) -> u64 {
        let groups = self.of_file(file);
        groups.end - groups.start - self.holes_of_file(file).map(|run| run.end - run.start).sum::<u64>()
    }

    /// The groups that `range` of the byte space falls on, in order, each with how many of its bytes that are.
    pub(crate) fn touched(&self, range: ByteRange) -> impl Iterator<Item = (u64, u64)> + '_ {
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

/// The groups that have come in part, or as a whole and not been verified yet: what each still lacks and who brought it.
#[derive(Debug)]
pub(crate) struct Tally {
    /// What need not come.
    free: RangeSet,
    begun: BTreeMap<u64, Begun>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    missing: u32,
    deliverer: Deliverer,
}

/// Who brought the bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deliverer {
    Nobody,
    One(FlowId),
    Several,
}

impl Tally {
    /// Nothing has come; the bytes in `free` need not.
    pub(crate) fn new(free: RangeSet) -> Self {
        Self { free, begun: BTreeMap::new() }
    }

    /// The bytes that need not come.
    pub(crate) fn free(&self) -> &RangeSet {
        &self.free
    }

    /// Bytes came by `flow`; the groups that are whole now are given to `whole`. Each byte comes once, unless it was
    /// [`Tally::forget`]ten.
    pub(crate) fn place(&mut self, groups: &Groups, range: ByteRange, flow: FlowId, mut whole: impl FnMut(u64)) {
        for (number, bytes) in groups.touched(range) {
            let begun = self.begun.entry(number).or_insert_with(|| {
                let group = groups.place(number).map(|place| place.range).unwrap_or_default();
                let free: u64 = self.free.within(group).map(ByteRange::len).sum();
                Begun { missing: (group.len() - free) as u32, deliverer: Deliverer::Nobody }
            });
            begun.deliverer = match begun.deliverer {
                Deliverer::Nobody => Deliverer::One(flow),
                Deliverer::One(one) if one == flow => Deliverer::One(flow),
                Deliverer::One(_) | Deliverer::Several => Deliverer::Several,
            };
            begun.missing = begun.missing.saturating_sub(bytes as u32);
            if begun.missing == 0 {
                whole(number);
            }
        }
    }

    /// A group is verified: who brought it does not matter any more.
    pub(crate) fn settle(&mut self, number: u64) {
        self.begun.remove(&number);
    }

    /// All of a group's bytes are missing again, and come all.
    pub(crate) fn forget(&mut self, groups: &Groups, number: u64) {
        if let Some(place) = groups.place(number) {
            let missing = place.range.len() as u32;
            self.begun.insert(number, Begun { missing, deliverer: Deliverer::Nobody });
        }
    }

    /// These groups need not come any more.
    pub(crate) fn drop_all(&mut self, numbers: std::ops::Range<u64>) {
        let mut dropped = self.begun.split_off(&numbers.start);
        self.begun.append(&mut dropped.split_off(&numbers.end));
    }

    /// Who brought a group; `None` when it was several, or nobody.
    pub(crate) fn deliverer(&self, number: u64) -> Option<FlowId> {
        match self.begun.get(&number)?.deliverer {
            Deliverer::One(flow) => Some(flow),
            Deliverer::Nobody | Deliverer::Several => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of runs of groups may have one run")]
pub(crate) mod tests {
    use super::*;
    use inhaul_store::{Contents, Entry, Kind};
    use proptest::prelude::*;

    /// A data set of files with these sizes.
    pub(crate) fn manifest(sizes: &[u64]) -> Arc<Manifest> {
        let names: Vec<String> = (0..sizes.len()).map(|k| format!("{k:04}")).collect();
        let files: Vec<_> = names.iter().map(String::as_str).zip(sizes.iter().copied()).collect();
        manifest_of(&files)
    }

    /// A data set called `set` of files with these names and sizes.
    pub(crate) fn manifest_of(files: &[(&str, u64)]) -> Arc<Manifest> {
        let entry = |&(name, size): &(&str, u64)| Entry { path: name.into(), size, ..Entry::default() };
        let contents = Contents { files: files.iter().map(entry).collect(), ..Contents::default() };
        Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
    }

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

    /// A data set of one file of `size` bytes with these holes, from each first byte up to the one behind the last.
    pub(crate) fn sparse_manifest(size: u64, holes: &[(u64, u64)]) -> Arc<Manifest> {
        let holes = holes.iter().map(|&(start, end)| ByteRange::new(start, end)).collect();
        let files = vec![Entry { path: b"a".to_vec(), size, holes, ..Entry::default() }];
        let contents = Contents { files, ..Contents::default() };
        Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
    }

    #[test]
    fn groups_of_claimed_sizes_take_no_memory() {
        let size = i64::MAX as u64;
        let groups = Groups::new(sparse_manifest(size, &[(5, size)]));
        assert_eq!((groups.count(), groups.data_groups(0)), (1 << 43, 1));
        assert_eq!(groups.holes_of_file(0).collect::<Vec<_>>(), [1..1 << 43]);
        assert_eq!(groups.hole_bytes(0), size - GROUP_BYTES);
        let mut tally = Tally::new(groups.manifest().holes());
        let mut whole = Vec::new();
        tally.place(&groups, ByteRange::new(0, 5), FlowId(1), |number| whole.push(number));
        assert_eq!((whole, tally.deliverer(0), tally.begun.len()), (vec![0], Some(FlowId(1)), 1));
        tally.settle(0);
        assert!(tally.begun.is_empty());
    }

    #[test]
    fn tally_counts_what_is_free_as_come_unless_it_was_forgotten() {
        let groups = Groups::new(manifest(&[GROUP_BYTES + 5, 7]));
        let held = [ByteRange::new(GROUP_BYTES, GROUP_BYTES + 5), ByteRange::at(GROUP_BYTES + 6, 2)];
        let mut tally = Tally::new(held.into_iter().collect());
        let mut whole = Vec::new();
        tally.place(&groups, ByteRange::at(GROUP_BYTES + 5, 1), FlowId(1), |number| whole.push(number));
        tally.place(&groups, ByteRange::at(GROUP_BYTES + 8, 4), FlowId(1), |number| whole.push(number));
        assert_eq!(whole, [2]);
        tally.forget(&groups, 2);
        assert_eq!(tally.deliverer(2), None);
        tally.place(&groups, ByteRange::at(GROUP_BYTES + 5, 6), FlowId(1), |number| whole.push(number));
        assert_eq!(whole, [2]);
        tally.place(&groups, ByteRange::at(GROUP_BYTES + 11, 1), FlowId(2), |number| whole.push(number));
        assert_eq!((whole, tally.deliverer(2)), (vec![2, 2], None));
    }

    proptest! {
        #[test]
        fn tally_reports_each_group_once_when_all_its_bytes_have_come(
            sizes in prop::collection::vec(0..3 * GROUP_BYTES, 1..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            order in any::<u64>(),
        ) {
            let groups = Groups::new(manifest(&sizes));
            let size = groups.manifest().size();
            let mut tally = Tally::new(RangeSet::new());
            let mut bounds: Vec<u64> = cuts.iter().map(|cut| cut.index(size as usize + 1) as u64).chain([0, size]).collect();
            bounds.sort_unstable();
            let mut ranges: Vec<_> = bounds.windows(2).map(|w| ByteRange::new(w[0], w[1])).collect();
            let pivot = order as usize % ranges.len();
            ranges.rotate_left(pivot);
            let mut whole = Vec::new();
            let mut come = RangeSet::new();
            for range in ranges {
                come.insert(range);
                let before = whole.len();
                tally.place(&groups, range, FlowId(1), |number| whole.push(number));
                for &number in &whole[before..] {
                    prop_assert!(come.contains(groups.place(number).unwrap().range));
                }
            }
            whole.sort_unstable();
            let expected: Vec<u64> = (0..groups.count()).filter(|&n| !groups.place(n).unwrap().range.is_empty()).collect();
            prop_assert_eq!(whole, expected);
        }
    }
}
