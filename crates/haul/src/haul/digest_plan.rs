//! The order in which the digests of a data set are requested. First come those of groups that are still to be
//! fetched, so that arriving data is verified and kept soon. Then come those of groups that an earlier transfer has
//! fetched. Digests of files that do not land, and of groups that are holes, are not requested.

use std::collections::BTreeSet;

use inhaul_base::{ByteRange, RangeSet};

use inhaul_session::session::frame::GroupRun;
use inhaul_session::session::groups::Groups;

/// The groups whose digests are wanted, in the order in which they are asked for. A *position* counts along that
/// order.
#[derive(Debug, Default)]
pub struct DigestPlan {
    /// Runs of consecutive groups, each with its first position.
    runs: Vec<(u64, GroupRun)>,
    count: u64,
}

impl DigestPlan {
    /// A plan for the groups of the files for which `lands` is true. `held` are the groups that were fetched earlier.
    pub fn new(groups: &Groups, lands: impl Fn(usize) -> bool, held: &BTreeSet<u64>) -> Self {
        let mut missing = RangeSet::new();
        for file in (0..groups.manifest().entries().len()).filter(|&file| lands(file)) {
            let numbers = groups.of_file(file);
            missing.insert(ByteRange::new(numbers.start, numbers.end));
        }
        groups.holes().iter().for_each(|run| _ = missing.remove(run));
        held.iter().for_each(|&group| _ = missing.remove(ByteRange::at(group, 1)));
        let mut plan = Self::default();
        missing.iter().for_each(|run| plan.push(run.start, run.len()));
        held.iter().for_each(|&group| plan.push(group, 1));
        plan
    }

    fn push(&mut self, first: u64, count: u64) {
        match self.runs.last_mut() {
            Some((_, run)) if run.first + run.count == first => run.count += count,
            _ => self.runs.push((self.count, GroupRun { first, count })),
        }
        self.count += count;
    }

    /// How many groups are wanted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The runs of groups from position `start` up to and not including `end`.
    pub(crate) fn between(&self, start: u64, end: u64) -> impl Iterator<Item = GroupRun> + '_ {
        let first = self.runs.partition_point(|&(before, run)| before + run.count <= start);
        let until = move |&&(before, _): &&(u64, GroupRun)| before < end;
        self.runs[first..].iter().take_while(until).map(move |&(before, run)| {
            let (from, to) = (start.max(before), end.min(before + run.count));
            GroupRun { first: run.first + (from - before), count: to.saturating_sub(from) }
        })
    }

    /// Where a group comes.
    pub fn position(&self, group: u64) -> Option<u64> {
        let (before, run) = self.runs.iter().find(|(_, run)| (run.first..run.first + run.count).contains(&group))?;
        Some(before + (group - run.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_session::session::groups::testing::{manifest, sparse_manifest};
    use inhaul_store::digest::GROUP_BYTES;
    use proptest::prelude::*;

    fn order(plan: &DigestPlan) -> Vec<u64> {
        plan.between(0, plan.count()).flat_map(|run| run.first..run.first + run.count).collect()
    }

    #[test]
    fn missing_groups_come_first_then_held_ones_and_those_that_do_not_land_never() {
        let g = GROUP_BYTES;
        let groups = Groups::new(manifest(&[2 * g, g, 0, 3 * g, 1]));
        let plan = DigestPlan::new(&groups, |file| file != 1 && file != 4, &BTreeSet::from([0, 5]));
        assert_eq!(order(&plan), [1, 3, 4, 6, 0, 5]);
        let runs: Vec<_> = plan.between(1, 5).map(|run| (run.first, run.count)).collect();
        assert_eq!(runs, [(3, 2), (6, 1), (0, 1)]);
        assert_eq!((plan.count(), plan.position(2), plan.between(6, 9).count()), (6, None, 0));
    }

    #[test]
    fn groups_in_holes_are_not_asked_for() {
        let g = GROUP_BYTES;
        let holes = [(g, 1 << 61), ((1 << 61) + g, 1 << 62)];
        let plan = DigestPlan::new(&Groups::new(sparse_manifest(1 << 62, &holes)), |_| true, &BTreeSet::new());
        assert_eq!(order(&plan), [0, 1 << 41]);
        let all = DigestPlan::new(&Groups::new(manifest(&[1 << 62])), |_| true, &BTreeSet::new());
        assert_eq!((all.count(), all.runs.len()), (1 << 42, 1));
    }

    proptest! {
        #[test]
        fn every_group_has_one_position(
            sizes in prop::collection::vec(0..5 * GROUP_BYTES, 1..30),
            left_out in prop::collection::btree_set(0usize..30, 0..10),
            held in prop::collection::btree_set(0u64..100, 0..60),
        ) {
            let groups = Groups::new(manifest(&sizes));
            let lands = |file: usize| !left_out.contains(&file);
            let wanted: BTreeSet<u64> = (0..sizes.len()).filter(|&f| lands(f)).flat_map(|f| groups.of_file(f)).collect();
            let held = held.intersection(&wanted).copied().collect();
            let plan = DigestPlan::new(&groups, lands, &held);
            let order = order(&plan);
            for (position, &group) in order.iter().enumerate() {
                prop_assert_eq!(plan.position(group), Some(position as u64));
            }
            prop_assert_eq!((order.len(), order.into_iter().collect()), (wanted.len(), wanted));
        }
    }
}
