//! Which groups of a data set have arrived, and from which mirrors.
//!
//! A peer may claim any size. The memory here follows the bytes that have arrived.

use std::collections::BTreeMap;

use inhaul_base::{ByteRange, RangeSet};
use inhaul_transport::FlowId;

use inhaul_session::session::groups::Groups;

/// The groups that have come in part, or as a whole and not been verified yet: what each still lacks and who brought
/// it.
#[derive(Debug)]
pub struct Tally {
    /// What need not come.
    free: RangeSet,
    begun: BTreeMap<u64, Begun>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    missing: u32,
    deliverer: Deliverer,
}

/// The mirrors that delivered the bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deliverer {
    Nobody,
    One(FlowId),
    Several,
}

impl Tally {
    /// Nothing has come; the bytes in `free` need not.
    pub fn new(free: RangeSet) -> Self {
        Self { free, begun: BTreeMap::new() }
    }

    /// The bytes that need not come.
    pub(crate) fn free(&self) -> &RangeSet {
        &self.free
    }

    /// Bytes came by `flow`; the groups that are whole now are given to `whole`. Each byte comes once, unless it was
    /// [`Tally::forget`]ten.
    pub fn place(&mut self, groups: &Groups, range: ByteRange, flow: FlowId, mut whole: impl FnMut(u64)) {
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

    /// A group is verified, so the mirrors that delivered it do not matter any more.
    pub fn settle(&mut self, number: u64) {
        self.begun.remove(&number);
    }

    /// All of a group's bytes are missing again, and come all.
    pub fn forget(&mut self, groups: &Groups, number: u64) {
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

    /// The mirror that delivered a group; `None` if it was several, or none.
    pub(crate) fn deliverer(&self, number: u64) -> Option<FlowId> {
        match self.begun.get(&number)?.deliverer {
            Deliverer::One(flow) => Some(flow),
            Deliverer::Nobody | Deliverer::Several => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_session::session::groups::testing::{manifest, sparse_manifest};
    use inhaul_store::digest::GROUP_BYTES;
    use proptest::prelude::*;

    #[test]
    fn groups_of_claimed_sizes_take_no_memory() {
        let size = i64::MAX as u64;
        let groups = Groups::new(sparse_manifest(size, &[(5, size)]));
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
