//! Where the groups of a data set lie: all groups of all files, numbered through in the order of the manifest.

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
    firsts: Vec<u64>,
    count: u64,
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
        for entry in manifest.entries() {
            firsts.push(count);
            count += group_count(entry.size);
        }
        Self { manifest, firsts, count }
    }

    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// How many groups there are in all files together.
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

/// Bytes that each group still lacks.
#[derive(Debug)]
pub(crate) struct Tally {
    missing: Vec<u32>,
    deliverers: Vec<Deliverer>,
}

/// Who brought the bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deliverer {
    Nobody,
    One(FlowId),
    Several,
}

impl Tally {
    /// The bytes of all groups are missing, but those that are `held`.
    pub(crate) fn new(groups: &Groups, held: &RangeSet) -> Self {
        let len = |number| groups.place(number).map_or(0, |place| place.range.len() as u32);
        let deliverers = vec![Deliverer::Nobody; groups.count() as usize];
        let mut missing: Vec<u32> = (0..groups.count()).map(len).collect();
        for range in held.iter() {
            for (number, bytes) in groups.touched(range) {
                missing[number as usize] -= bytes as u32;
            }
        }
        Self { missing, deliverers }
    }

    /// Whether no byte of a group is missing.
    pub(crate) fn is_whole(&self, number: u64) -> bool {
        self.missing.get(number as usize) == Some(&0)
    }

    /// Bytes came by `flow`; the groups that are whole now are given to `whole`. Each byte comes once, unless it was
    /// [`Tally::forget`]ten.
    pub(crate) fn place(&mut self, groups: &Groups, range: ByteRange, flow: FlowId, mut whole: impl FnMut(u64)) {
        for (number, bytes) in groups.touched(range) {
            let deliverer = &mut self.deliverers[number as usize];
            *deliverer = match *deliverer {
                Deliverer::Nobody => Deliverer::One(flow),
                Deliverer::One(one) if one == flow => Deliverer::One(flow),
                Deliverer::One(_) | Deliverer::Several => Deliverer::Several,
            };
            let missing = &mut self.missing[number as usize];
            *missing = missing.saturating_sub(bytes as u32);
            if *missing == 0 {
                whole(number);
            }
        }
    }

    /// A group's bytes are there, by an earlier transfer.
    pub(crate) fn hold(&mut self, number: u64) {
        if let Some(missing) = self.missing.get_mut(number as usize) {
            *missing = 0;
        }
    }

    /// A group's bytes are missing again.
    pub(crate) fn forget(&mut self, groups: &Groups, number: u64) {
        if let Some(place) = groups.place(number) {
            self.missing[number as usize] = place.range.len() as u32;
            self.deliverers[number as usize] = Deliverer::Nobody;
        }
    }

    /// Who brought a group; `None` when it was several, or nobody.
    pub(crate) fn deliverer(&self, number: u64) -> Option<FlowId> {
        match self.deliverers.get(number as usize)? {
            Deliverer::One(flow) => Some(*flow),
            Deliverer::Nobody | Deliverer::Several => None,
        }
    }
}

#[cfg(test)]
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

    #[test]
    fn tally_counts_what_is_held_as_come() {
        let groups = Groups::new(manifest(&[GROUP_BYTES + 5, 7]));
        let held = [ByteRange::new(GROUP_BYTES, GROUP_BYTES + 5), ByteRange::at(GROUP_BYTES + 6, 2)];
        let mut tally = Tally::new(&groups, &held.into_iter().collect());
        assert_eq!([0, 1, 2].map(|number| tally.is_whole(number)), [false, true, false]);
        let mut whole = Vec::new();
        tally.place(&groups, ByteRange::at(GROUP_BYTES + 5, 1), FlowId(1), |number| whole.push(number));
        tally.place(&groups, ByteRange::at(GROUP_BYTES + 8, 4), FlowId(1), |number| whole.push(number));
        assert_eq!(whole, [2]);
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
            let mut tally = Tally::new(&groups, &RangeSet::new());
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
