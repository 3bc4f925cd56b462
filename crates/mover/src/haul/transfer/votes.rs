//! The mirrors' digests of groups that arrived wrong, and the verdict from them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use inhaul_base::Time;
use inhaul_transport::FlowId;

use crate::session::frame::GroupDigest;

/// The digests that the mirrors have of one group.
#[derive(Debug)]
pub(super) struct Dispute {
    votes: BTreeMap<FlowId, GroupDigest>,
    /// Mirrors that have not answered yet.
    waiting: BTreeSet<FlowId>,
}

/// What a dispute comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All have the same bytes.
    Agreed,
    /// These have others than most.
    Outvoted(Vec<FlowId>),
    /// No digest has more votes than every other.
    Undecided,
}

impl Dispute {
    /// One in which `author` says `digest`, and `waiting` are asked.
    pub(super) fn new(author: FlowId, digest: GroupDigest, waiting: BTreeSet<FlowId>) -> Self {
        Self { votes: BTreeMap::from([(author, digest)]), waiting }
    }

    /// The verdict, once everybody has been heard.
    fn verdict(&self) -> Option<Verdict> {
        if !self.waiting.is_empty() {
            return None;
        }
        let count = |digest: &GroupDigest| self.votes.values().filter(|&other| other == digest).count();
        let best = self.votes.values().max_by_key(|digest| count(digest))?;
        if self.votes.values().any(|digest| digest != best && count(digest) == count(best)) {
            return Some(Verdict::Undecided);
        }
        let outvoted: Vec<FlowId> =
            self.votes.iter().filter(|(_, vote)| *vote != best).map(|(&flow, _)| flow).collect();
        Some(if outvoted.is_empty() { Verdict::Agreed } else { Verdict::Outvoted(outvoted) })
    }
}

/// The disputes of a transfer, by object and group.
#[derive(Debug, Default)]
pub(super) struct Disputes {
    open: BTreeMap<(usize, u64), Dispute>,
    /// What each mirror is being asked about: one thing at a time, so that a server never has many questions waiting.
    asked: BTreeMap<FlowId, Question>,
}

/// What a mirror is being asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) object: usize,
    pub(super) group: u64,
    pub(super) since: Time,
}

impl Disputes {
    /// A dispute about a group begins.
    pub(super) fn begin(&mut self, object: usize, group: u64, dispute: Dispute) {
        self.open.insert((object, group), dispute);
    }

    /// What each mirror is being asked.
    pub(super) fn asked(&self) -> Vec<(FlowId, Question)> {
        self.asked.iter().map(|(&flow, &asked)| (flow, asked)).collect()
    }

    /// Takes a mirror's answer; false if it was not asked about that group.
    pub(super) fn take_vote(&mut self, flow: FlowId, group: u64, digest: GroupDigest) -> bool {
        let Some(question) = self.asked.get(&flow).copied().filter(|asked| asked.group == group) else { return false };
        self.asked.remove(&flow);
        if let Some(dispute) = self.open.get_mut(&(question.object, group))
            && dispute.waiting.remove(&flow)
        {
            dispute.votes.insert(flow, digest);
        }
        true
    }

    /// A mirror is lost and is not waited for any more. Its answers still count.
    pub(super) fn forget(&mut self, flow: FlowId) {
        self.asked.remove(&flow);
        for dispute in self.open.values_mut() {
            dispute.waiting.remove(&flow);
        }
    }

    /// A mirror is back, as another flow: what it has said still counts.
    pub(super) fn rename(&mut self, former: FlowId, flow: FlowId) {
        for dispute in self.open.values_mut() {
            if let Some(vote) = dispute.votes.remove(&former) {
                dispute.votes.insert(flow, vote);
            }
        }
    }

    /// A mirror has no such groups: what it was asked about them is not answered.
    pub(super) fn forget_vote(&mut self, flow: FlowId, object: usize, groups: &Range<u64>) {
        if self.asked.get(&flow).is_some_and(|asked| asked.object == object && groups.contains(&asked.group)) {
            self.asked.remove(&flow);
        }
        for (_, dispute) in self.open.range_mut((object, groups.start)..(object, groups.end)) {
            dispute.waiting.remove(&flow);
        }
    }

    /// These groups need not come any more.
    pub(super) fn forget_groups(&mut self, object: usize, groups: &Range<u64>) {
        self.open.retain(|key, _| key.0 != object || !groups.contains(&key.1));
    }

    /// What mirrors that are not busy should be asked now.
    pub(super) fn questions(&mut self, now: Time) -> Vec<(FlowId, u64)> {
        let mut questions = Vec::new();
        for (&(object, group), dispute) in &self.open {
            for &flow in &dispute.waiting {
                if let std::collections::btree_map::Entry::Vacant(free) = self.asked.entry(flow) {
                    free.insert(Question { object, group, since: now });
                    questions.push((flow, group));
                }
            }
        }
        questions
    }

    /// Takes out a dispute that has come to its end.
    pub(super) fn take_settled(&mut self) -> Option<(usize, u64, Verdict)> {
        let (key, verdict) = self.open.iter().find_map(|(&key, dispute)| Some((key, dispute.verdict()?)))?;
        self.open.remove(&key);
        Some((key.0, key.1, verdict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FlowId = FlowId(1);
    const B: FlowId = FlowId(2);
    const C: FlowId = FlowId(3);
    const NOW: Time = Time::ZERO;

    /// A dispute about group 7 of object 0, opened by what A says; B and C are asked.
    fn opened() -> Disputes {
        let dispute = Dispute { votes: BTreeMap::from([(A, [1; 32])]), waiting: BTreeSet::from([B, C]) };
        let mut disputes = Disputes::default();
        disputes.open.insert((0, 7), dispute);
        assert_eq!(disputes.questions(NOW), [(B, 7), (C, 7)]);
        disputes
    }

    fn verdict_of(b: u8, c: u8) -> Verdict {
        let mut disputes = opened();
        assert!(disputes.take_vote(B, 7, [b; 32]));
        assert_eq!(disputes.take_settled(), None);
        assert!(disputes.take_vote(C, 7, [c; 32]));
        let (object, group, verdict) = disputes.take_settled().unwrap();
        assert_eq!((object, group, disputes.open.len()), (0, 7, 0));
        verdict
    }

    #[test]
    fn verdict_goes_with_the_most_votes() {
        assert_eq!(verdict_of(1, 1), Verdict::Agreed);
        assert_eq!(verdict_of(1, 2), Verdict::Outvoted(vec![C]));
        assert_eq!(verdict_of(2, 2), Verdict::Outvoted(vec![A]));
        assert_eq!(verdict_of(2, 3), Verdict::Undecided);
    }

    #[test]
    fn verdict_does_not_wait_for_who_is_gone() {
        let mut disputes = opened();
        disputes.forget(B);
        assert_eq!(disputes.take_settled(), None);
        disputes.take_vote(C, 7, [2; 32]);
        assert_eq!(disputes.take_settled(), Some((0, 7, Verdict::Undecided)));
        let mut disputes = opened();
        disputes.forget(B);
        disputes.forget(C);
        assert_eq!(disputes.take_settled(), Some((0, 7, Verdict::Agreed)));
    }

    #[test]
    fn questions_come_one_at_a_time_to_each_mirror() {
        let mut disputes = opened();
        let waiting = BTreeSet::from([B]);
        disputes.open.insert((0, 9), Dispute { votes: BTreeMap::new(), waiting });
        assert_eq!(disputes.questions(NOW), []);
        assert!(!disputes.take_vote(B, 9, [1; 32]), "that was not asked yet");
        assert!(disputes.take_vote(B, 7, [1; 32]));
        assert_eq!(disputes.questions(NOW), [(B, 9)]);
        assert!(!disputes.take_vote(A, 7, [1; 32]), "nobody asked A");
    }
}
