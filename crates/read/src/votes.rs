//! What the mirrors of a data set say of the groups that are read, and what comes of it.
//!
//! A group counts as what more than half of the mirrors have. Those that are waited for and have not spoken might have
//! something else. When nobody is waited for any more, those who have spoken decide.

use std::collections::{BTreeMap, VecDeque};

use inhaul_base::Time;

use inhaul_session::session::agreement::{SILENCE_MAX, TIE_MAX};
use inhaul_session::session::frame::{GroupDigest, PartOf};

/// Groups of a data set that are remembered. Of others all mirrors are asked once more.
const REMEMBERED_MAX: usize = 1 << 16;

/// A mirror, by its place among its source's, so that it has one vote however often it comes back.
pub(super) type Voter = usize;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Votes {
    of_groups: BTreeMap<u64, Said>,
}

#[derive(Debug, Default)]
struct Said {
    votes: Vec<(Voter, GroupDigest)>,
    /// What counts.
    settled: Option<GroupDigest>,
    /// Since when there is no majority though nobody is waited for.
    tied: Option<Time>,
}

/// What a mirror is asked to prove.
#[derive(Debug, Default)]
pub(super) struct Proving {
    /// Where the parts begin that it is still to be asked for.
    pub(super) unasked: VecDeque<u64>,
    /// Messages that it has not answered, in order: the file and part that it answers last.
    pub(super) asked: VecDeque<(usize, PartOf)>,
    /// When it was asked after a rest, or something came last.
    pub(super) since: Time,
}

impl Proving {
    pub(super) fn is_silent(&self, now: Time) -> bool {
        !self.asked.is_empty() && now.since(self.since) > SILENCE_MAX
    }
}

/// What is known of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Somebody is waited for.
    Wait,
    /// This is its digest.
    Settled(GroupDigest),
    /// There is no majority.
    Tied,
}

impl Votes {
    /// A mirror says what it has of a group.
    pub(super) fn take(&mut self, group: u64, voter: Voter, digest: GroupDigest) {
        if self.of_groups.len() >= REMEMBERED_MAX && !self.of_groups.contains_key(&group) {
            self.of_groups.pop_first();
        }
        let said = self.of_groups.entry(group).or_default();
        match said.votes.iter_mut().find(|(other, _)| *other == voter) {
            Some((_, vote)) => *vote = digest,
            None => said.votes.push((voter, digest)),
        }
        if said.settled.is_some_and(|settled| settled != digest) {
            said.settled = None;
        }
    }

    /// What counts for a group, if that is known.
    pub(super) fn settled(&self, group: u64) -> Option<GroupDigest> {
        self.of_groups.get(&group)?.settled
    }

    /// What is known of a group. `awaited`: mirrors that are waited for. With `may_be_more`, others may speak yet: they
    /// are waited for where there is no majority.
    pub(super) fn judge(&mut self, group: u64, awaited: &[Voter], may_be_more: bool, now: Time) -> Verdict {
        let Some(said) = self.of_groups.get_mut(&group).filter(|said| !said.votes.is_empty()) else {
            return Verdict::Wait;
        };
        if let Some(settled) = said.settled {
            return Verdict::Settled(settled);
        }
        let votes = &said.votes;
        let waiting = awaited.iter().filter(|voter| votes.iter().all(|(other, _)| other != *voter)).count();
        let has_most =
            |digest: &GroupDigest| 2 * votes.iter().filter(|vote| vote.1 == *digest).count() > votes.len() + waiting;
        if let Some(digest) = votes.iter().map(|&(_, digest)| digest).find(has_most) {
            (said.settled, said.tied) = (Some(digest), None);
            return Verdict::Settled(digest);
        }
        if waiting > 0 {
            return Verdict::Wait;
        }
        let since = *said.tied.get_or_insert(now);
        if may_be_more && now.since(since) <= TIE_MAX { Verdict::Wait } else { Verdict::Tied }
    }

    /// Who says what of a group.
    pub(super) fn of_group(&self, group: u64) -> &[(Voter, GroupDigest)] {
        self.of_groups.get(&group).map_or(&[], |said| &said.votes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::Span;

    const A: GroupDigest = [1; 32];
    const B: GroupDigest = [2; 32];

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn said(votes: &[(Voter, GroupDigest)]) -> Votes {
        let mut all = Votes::default();
        votes.iter().for_each(|&(voter, digest)| all.take(7, voter, digest));
        all
    }

    #[test]
    fn most_of_those_who_may_speak_settle_a_group() {
        let judge = |votes: &[(Voter, GroupDigest)], awaited: &[Voter]| said(votes).judge(7, awaited, false, at(0));
        assert_eq!(judge(&[(0, A)], &[0, 1]), Verdict::Wait);
        assert_eq!(judge(&[(0, A)], &[]), Verdict::Settled(A));
        assert_eq!(judge(&[(0, A), (1, A)], &[0, 1, 2]), Verdict::Settled(A), "the third cannot change it");
        assert_eq!(judge(&[(0, A), (1, B)], &[0, 1, 2]), Verdict::Wait);
        assert_eq!(judge(&[(0, A), (1, B), (2, B)], &[0, 1, 2]), Verdict::Settled(B));
        assert_eq!(judge(&[(0, A), (1, B)], &[0, 1]), Verdict::Tied);
        assert_eq!(judge(&[], &[0]), Verdict::Wait);
        assert_eq!(Votes::default().judge(7, &[], false, at(0)), Verdict::Wait);
    }

    #[test]
    fn a_tie_waits_for_who_may_decide_it() {
        let mut votes = said(&[(0, A), (1, B)]);
        assert_eq!(votes.judge(7, &[0, 1], true, at(1)), Verdict::Wait);
        assert_eq!(votes.judge(7, &[0, 1], true, at(11)), Verdict::Wait);
        assert_eq!(votes.judge(7, &[0, 1], true, at(12)), Verdict::Tied);
        votes.take(7, 2, B);
        assert_eq!(votes.judge(7, &[0, 1, 2], true, at(13)), Verdict::Settled(B));
    }

    #[test]
    fn what_is_contradicted_is_settled_no_more() {
        let mut votes = said(&[(0, A)]);
        assert_eq!(votes.judge(7, &[], false, at(0)), Verdict::Settled(A));
        votes.take(7, 1, A);
        assert_eq!(votes.settled(7), Some(A));
        votes.take(7, 2, B);
        assert_eq!(votes.settled(7), None);
        assert_eq!(votes.judge(7, &[], false, at(0)), Verdict::Settled(A));
        // A mirror has one vote.
        votes.take(7, 1, B);
        votes.take(7, 1, B);
        assert_eq!(votes.of_group(7), [(0, A), (1, B), (2, B)]);
        assert_eq!(votes.judge(7, &[], false, at(0)), Verdict::Settled(B));
    }

    #[test]
    fn so_many_groups_are_remembered() {
        let mut votes = Votes::default();
        (0..=REMEMBERED_MAX as u64).for_each(|group| votes.take(group, 0, A));
        assert_eq!(votes.of_groups.len(), REMEMBERED_MAX);
        assert!(votes.of_group(0).is_empty() && !votes.of_group(1).is_empty());
    }
}
