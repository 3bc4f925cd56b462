//! In what order the digests of a data set are asked for: those of groups that have to come first, so that what comes is
//! verified, and kept, soon; then those of groups that an earlier transfer has brought.

use std::ops::Range;

/// Held groups between missing ones are asked for with them when they are at most so many: each run costs a round trip.
const BRIDGED_GROUPS_MAX: u64 = 64;

/// The groups of a data set in the order in which their digests are asked for. A *position* counts along that order.
#[derive(Debug)]
pub(crate) struct DigestPlan {
    /// Runs of consecutive groups, each with its first position.
    runs: Vec<(u64, Range<u64>)>,
}

impl DigestPlan {
    /// A plan for `count` groups, of which `held`, ascending, have been brought earlier.
    pub(crate) fn new(count: u64, held: impl Iterator<Item = u64>) -> Self {
        // Runs of held groups that are long enough to be left for later.
        let mut later: Vec<Range<u64>> = Vec::new();
        for group in held {
            match later.last_mut() {
                Some(run) if run.end == group => run.end += 1,
                _ => later.push(group..group + 1),
            }
        }
        later.retain(|run| run.end - run.start > BRIDGED_GROUPS_MAX);
        let ends = std::iter::once(0).chain(later.iter().map(|run| run.end));
        let starts = later.iter().map(|run| run.start).chain([count]);
        let first: Vec<Range<u64>> = ends.zip(starts).map(|(start, end)| start..end).collect();
        let mut position = 0;
        let mut runs = Vec::new();
        for run in first.into_iter().chain(later).filter(|run| !run.is_empty()) {
            let len = run.end - run.start;
            runs.push((position, run));
            position += len;
        }
        Self { runs }
    }

    /// The groups from `position` on that follow one another; empty at the end.
    pub(crate) fn from(&self, position: u64) -> Range<u64> {
        let after = self.runs.partition_point(|&(first, _)| first <= position);
        match self.runs[..after].last() {
            Some((first, run)) => (run.start + (position - first)).min(run.end)..run.end,
            None => 0..0,
        }
    }

    /// Where a group comes.
    pub(crate) fn position(&self, group: u64) -> Option<u64> {
        let (first, run) = self.runs.iter().find(|(_, run)| run.contains(&group))?;
        Some(first + (group - run.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn missing_groups_come_first_and_short_held_runs_with_them() {
        let held = (0..100).chain(110..120).chain(200..300);
        let plan = DigestPlan::new(300, held);
        assert_eq!(plan.runs, [(0, 100..200), (100, 0..100), (200, 200..300)]);
        assert_eq!(
            (plan.from(0), plan.from(99), plan.from(100), plan.from(300)),
            (100..200, 199..200, 0..100, 300..300)
        );
        assert_eq!(DigestPlan::new(0, std::iter::empty()).from(0), 0..0);
    }

    proptest! {
        #[test]
        fn every_group_has_one_position(count in 0..400u64, runs in prop::collection::vec((0..400u64, 0..150u64), 0..4)) {
            let held: BTreeSet<u64> = runs.iter().flat_map(|&(start, len)| start..start + len).filter(|&g| g < count).collect();
            let plan = DigestPlan::new(count, held.iter().copied());
            let mut seen = BTreeSet::new();
            let mut position = 0;
            while !plan.from(position).is_empty() {
                let group = plan.from(position).start;
                prop_assert_eq!(plan.position(group), Some(position));
                seen.insert(group);
                position += 1;
            }
            prop_assert_eq!((position, seen.len() as u64), (count, count));
        }
    }
}
