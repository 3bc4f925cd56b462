//! Groups of which mirrors have said different things, and what counts of each for now.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use inhaul_transport::FlowId;

use inhaul_session::session::frame::GroupDigest;

/// Most groups of a data set of which contradictions are remembered: a mirror may differ in all.
const REMEMBERED_MAX: usize = 1 << 16;

/// What mirrors have said of groups in which they differ.
#[derive(Debug, Default)]
pub(super) struct Contradictions {
    of_groups: BTreeMap<u64, Said>,
    /// What was tried of a file: the digests of these groups, in order.
    tried: BTreeMap<usize, BTreeSet<Vec<GroupDigest>>>,
}

/// What was said of one group, and what counts for now.
#[derive(Debug)]
struct Said {
    votes: Vec<(FlowId, GroupDigest)>,
    counts: GroupDigest,
}

impl Contradictions {
    /// A mirror joins, or is back, and was the flow `former`.
    pub(super) fn join(&mut self, flow: FlowId, former: Option<FlowId>) {
        let votes = self.of_groups.values_mut().flat_map(|said| &mut said.votes);
        votes.filter(|(voter, _)| Some(*voter) == former).for_each(|(voter, _)| *voter = flow);
    }

    /// Remembers what was said of a group; `first` counts, unless something does already. False: there are too many.
    pub(super) fn note(&mut self, group: u64, votes: Vec<(FlowId, GroupDigest)>, first: GroupDigest) -> bool {
        if self.of_groups.len() >= REMEMBERED_MAX && !self.of_groups.contains_key(&group) {
            return false;
        }
        let said = self.of_groups.entry(group);
        said.or_insert_with(|| Said { votes: Vec::new(), counts: first }).votes = votes;
        true
    }

    /// What was said of a group, and what counts.
    pub(super) fn of_group(&self, group: u64) -> Option<(&[(FlowId, GroupDigest)], GroupDigest)> {
        self.of_groups.get(&group).map(|said| (said.votes.as_slice(), said.counts))
    }

    /// The mirrors that have something else of a group than what counts.
    pub(super) fn others(&self, group: u64) -> Vec<FlowId> {
        let (votes, counts) = self.of_group(group).unwrap_or_default();
        votes.iter().filter(|(_, digest)| *digest != counts).map(|&(flow, _)| flow).collect()
    }

    /// The remembered ones of these groups.
    pub(super) fn among(&self, groups: Range<u64>) -> Vec<u64> {
        self.of_groups.range(groups).map(|(&group, _)| group).collect()
    }

    /// What counts for a group from now on. Whether that is something else than before.
    pub(super) fn count(&mut self, group: u64, digest: GroupDigest) -> bool {
        self.of_groups.get_mut(&group).is_some_and(|said| std::mem::replace(&mut said.counts, digest) != digest)
    }

    /// What is said of a group is of no use any more.
    pub(super) fn forget(&mut self, group: u64) {
        self.of_groups.remove(&group);
    }

    /// What is to be tried next of a file that has these groups: their digests as one of the mirrors has them.
    pub(super) fn next_try(
        &mut self,
        file: usize,
        groups: Range<u64>,
        mirrors: impl Iterator<Item = FlowId>,
    ) -> Option<(FlowId, Vec<(u64, GroupDigest)>)> {
        let Self { of_groups, tried } = self;
        let of_file = || of_groups.range(groups.clone());
        let tried = tried.entry(file).or_default();
        tried.insert(of_file().map(|(_, said)| said.counts).collect());
        let has = |flow: FlowId, said: &Said| {
            said.votes.iter().find(|(voter, _)| *voter == flow).map_or(said.counts, |&(_, digest)| digest)
        };
        let mut tries = mirrors.map(|flow| (flow, of_file().map(|(_, said)| has(flow, said)).collect::<Vec<_>>()));
        let (flow, digests) = tries.find(|(_, digests)| tried.insert(digests.clone()))?;
        Some((flow, of_file().map(|(&group, _)| group).zip(digests).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FlowId = FlowId(1);
    const B: FlowId = FlowId(2);
    const C: FlowId = FlowId(3);

    #[test]
    fn each_copy_of_a_file_is_tried_once() {
        let mut contradictions = Contradictions::default();
        assert!(contradictions.note(3, vec![(A, [1; 32]), (B, [2; 32]), (C, [1; 32])], [1; 32]));
        assert!(contradictions.note(5, vec![(A, [7; 32]), (B, [7; 32]), (C, [8; 32])], [7; 32]));
        assert!(contradictions.note(9, vec![(A, [7; 32]), (B, [9; 32])], [7; 32]));
        assert_eq!(contradictions.among(0..9), [3, 5]);
        let mut next = || contradictions.next_try(0, 0..9, [A, B, C].into_iter());
        assert_eq!(next(), Some((B, vec![(3, [2; 32]), (5, [7; 32])])));
        assert_eq!(next(), Some((C, vec![(3, [1; 32]), (5, [8; 32])])));
        assert_eq!(next(), None);
        assert_eq!(contradictions.next_try(1, 9..10, [A, B].into_iter()), Some((B, vec![(9, [9; 32])])));
    }

    #[test]
    fn others_are_those_who_have_not_what_counts() {
        let mut contradictions = Contradictions::default();
        assert!(contradictions.note(3, vec![(A, [1; 32]), (B, [2; 32])], [1; 32]));
        assert_eq!(contradictions.others(3), [B]);
        assert!(contradictions.count(3, [2; 32]) && !contradictions.count(3, [2; 32]));
        assert_eq!(contradictions.others(3), [A]);
        contradictions.join(C, Some(A));
        assert_eq!(contradictions.others(3), [C]);
        // What was said later does not change what counts.
        assert!(contradictions.note(3, vec![(C, [1; 32]), (B, [1; 32])], [1; 32]));
        assert_eq!(contradictions.others(3), [C, B]);
        contradictions.forget(3);
        assert_eq!(contradictions.others(3), []);
    }

    #[test]
    fn so_many_are_remembered() {
        let mut contradictions = Contradictions::default();
        for group in 0..REMEMBERED_MAX as u64 {
            assert!(contradictions.note(group, Vec::new(), [0; 32]));
        }
        assert!(!contradictions.note(REMEMBERED_MAX as u64, Vec::new(), [0; 32]));
        assert!(contradictions.note(7, Vec::new(), [0; 32]));
    }
}
