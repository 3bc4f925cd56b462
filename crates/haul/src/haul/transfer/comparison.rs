//! What the mirrors of a data set say of each of its groups, and what comes of it.
//!
//! Every mirror is asked for its digests, in one order: by *position* (see [`crate::haul::digest_plan`]). A group is
//! settled when all mirrors that are waited for have spoken of it: the digest that most of them have is right. What was
//! said is kept for as long as somebody may still speak: 72 bytes a MiB at most, however many mirrors there are.

use std::collections::{BTreeMap, BTreeSet};

use inhaul_base::{Span, Time};
use inhaul_transport::FlowId;

use inhaul_session::session::agreement::{SILENCE_MAX, TIE_MAX};
use inhaul_session::session::frame::GroupDigest;

/// When all data has come, mirrors that do send digests are waited for so long, ...
const END_MIN: Span = Span::from_secs(3);
/// ... or for this part of the time that the data took: who has waited for an hour is served by a quarter more of
/// certainty, and nobody is by twice the time.
const END_PART: u64 = 4;
/// Most mirrors of a data set that are compared.
const WITNESSES_MAX: usize = 64;

/// Mirrors, a bit for each.
type Set = u64;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    witnesses: Vec<Witness>,
    /// What was said of groups, by position.
    said: BTreeMap<u64, Said>,
    /// All groups before this position are settled.
    settled: u64,
    /// Since when there is a group without a majority of which a silent mirror may decide: it is waited for once, not for
    /// each group.
    tied: Option<Time>,
    /// Settled groups, by position, of which it is not known any more what counts, and since when.
    doubted: BTreeMap<u64, Time>,
    /// Groups that are not verified yet, by number, and the mirrors that have other bytes of them than most.
    differing: BTreeMap<u64, BTreeSet<FlowId>>,
}

/// A mirror that is asked.
#[derive(Debug)]
struct Witness {
    flow: FlowId,
    /// The position of the next digest that has to come.
    next: u64,
    /// Digests are asked for up to this position.
    asked: u64,
    /// How far ahead of what has come it was asked last.
    window: u64,
    /// Since when it has owed digests and sent none.
    owing: Option<Time>,
    /// It takes no part any more. What it has said counts.
    is_gone: bool,
}

/// What was said of a group. Mostly all say the same.
#[derive(Debug)]
struct Said {
    first: (GroupDigest, Set),
    others: Vec<(GroupDigest, Set)>,
    /// What counts, once it is settled.
    settled: Option<GroupDigest>,
}

/// What a vote comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Most mirrors have this; these have something else.
    Most(GroupDigest, Vec<FlowId>),
    /// No digest has more than half of the votes: who says what.
    Undecided(Vec<(FlowId, GroupDigest)>),
}

impl Verdict {
    /// What most mirrors have; or, without a majority, what the first one has.
    pub(super) fn first(&self) -> Option<GroupDigest> {
        match self {
            Self::Most(digest, _) => Some(*digest),
            Self::Undecided(votes) => votes.first().map(|&(_, digest)| digest),
        }
    }
}

/// What is to be done about the next group that is not settled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Somebody is waited for.
    Wait,
    /// The verdict, from what was said.
    Verdict(Verdict),
}

/// How long mirrors are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) now: Time,
    /// Until when any is, when all data has come.
    pub(super) end: Option<Time>,
    /// A mirror may answer that has not yet, and is waited for.
    pub(super) awaits_more: bool,
    /// A mirror may answer that has not yet: of use only where votes are tied.
    pub(super) may_be_more: bool,
}

/// Until when mirrors are waited for, if the transfer began and all data had come at these times.
pub(super) fn end_of_patience(began: Time, complete: Time) -> Time {
    let part = Span::from_nanos(complete.since(began).as_nanos() / END_PART);
    complete + part.max(END_MIN)
}

impl Said {
    fn all(&self) -> impl Iterator<Item = &(GroupDigest, Set)> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn voters(&self) -> Set {
        self.all().fold(0, |set, (_, voters)| set | voters)
    }

    fn add(&mut self, digest: GroupDigest, voter: Set) {
        if self.first.0 == digest {
            self.first.1 |= voter;
        } else if let Some((_, voters)) = self.others.iter_mut().find(|(other, _)| *other == digest) {
            *voters |= voter;
        } else {
            self.others.push((digest, voter));
        }
    }
}

impl Comparison {
    /// A mirror joins: from the first group of which it is not too late to speak. Or it is back, and was the flow
    /// `former`: it goes on from what it has said.
    pub(super) fn join(&mut self, flow: FlowId, former: Option<FlowId>) {
        if let Some(index) = former.and_then(|former| self.index(former)) {
            let witness = &mut self.witnesses[index];
            *witness = Witness { flow, asked: witness.next, window: 0, owing: None, is_gone: false, ..*witness };
            for flows in self.differing.values_mut() {
                if former.is_some_and(|former| flows.remove(&former)) {
                    flows.insert(flow);
                }
            }
        } else if self.witnesses.len() < WITNESSES_MAX {
            let next = self.said.first_key_value().map_or(self.settled, |(&first, _)| first.min(self.settled));
            self.witnesses.push(Witness { flow, next, asked: next, window: 0, owing: None, is_gone: false });
        }
    }

    /// Nothing more is expected of a mirror.
    pub(super) fn leave(&mut self, flow: FlowId) {
        if let Some(witness) = self.witness(flow) {
            (witness.is_gone, witness.owing) = (true, None);
        }
    }

    /// Whether a mirror takes part that says what it has.
    pub(super) fn has_witnesses(&self) -> bool {
        self.witnesses.iter().any(|witness| !witness.is_gone)
    }

    fn index(&self, flow: FlowId) -> Option<usize> {
        self.witnesses.iter().position(|witness| witness.flow == flow)
    }

    fn witness(&mut self, flow: FlowId) -> Option<&mut Witness> {
        self.witnesses.iter_mut().find(|witness| witness.flow == flow)
    }

    /// The position of the next digest that has to come from a mirror, and up to which position it was asked.
    pub(super) fn progress(&self, flow: FlowId) -> Option<(u64, u64)> {
        let witness = &self.witnesses[self.index(flow)?];
        Some((witness.next, witness.asked))
    }

    /// Whether it is time to ask a mirror for more, when `come` groups have come of `count`.
    pub(super) fn is_to_ask(&self, flow: FlowId, come: u64, count: u64) -> bool {
        let Some(witness) = self.index(flow).map(|index| &self.witnesses[index]) else { return false };
        let is_free = !witness.is_gone && witness.next >= witness.asked && witness.asked < count;
        is_free && witness.next.saturating_sub(come) <= witness.window / 2
    }

    /// A mirror was asked up to this position, when `come` groups had come.
    pub(super) fn note_asked(&mut self, flow: FlowId, asked: u64, come: u64, now: Time) {
        if let Some(witness) = self.witness(flow) {
            witness.asked = witness.asked.max(asked);
            witness.window = asked.saturating_sub(come);
            witness.owing = (witness.next < witness.asked).then(|| witness.owing.unwrap_or(now));
        }
    }

    /// A mirror does not speak of the groups before this position, or they are not wanted.
    pub(super) fn pass(&mut self, flow: FlowId, next: u64) {
        if let Some(witness) = self.witness(flow) {
            witness.next = witness.next.max(next);
            if witness.next >= witness.asked {
                (witness.asked, witness.owing) = (witness.next, None);
            }
        }
    }

    /// A mirror says what it has at its next position. A verdict, if the group is settled and this is something else
    /// than what counts, or it was doubted what does.
    pub(super) fn take(&mut self, flow: FlowId, digest: GroupDigest, now: Time) -> Option<Verdict> {
        let index = self.index(flow)?;
        let (witness, voter) = (&mut self.witnesses[index], 1 << index);
        let position = witness.next;
        witness.next += 1;
        witness.asked = witness.asked.max(witness.next);
        witness.owing = (witness.next < witness.asked).then_some(now);
        if position < self.settled && !self.said.contains_key(&position) {
            return None;
        }
        let said = self.said.entry(position);
        let said = said.or_insert_with(|| Said { first: (digest, 0), others: Vec::new(), settled: None });
        said.add(digest, voter);
        let is_news = position < self.settled && said.settled != Some(digest);
        is_news.then(|| self.count_votes(position)).flatten()
    }

    /// The position of the next group that is not settled.
    pub(super) fn next_to_settle(&self) -> u64 {
        self.settled
    }

    /// Groups up to this position are not wanted.
    pub(super) fn skip(&mut self, position: u64) {
        let settled = self.settled.max(position);
        let mut dropped = self.said.split_off(&self.settled);
        self.said.append(&mut dropped.split_off(&settled));
        self.settled = settled;
    }

    /// What is to be done about the next group. `lacks`: a mirror that has said that it does not have it.
    pub(super) fn next(&mut self, patience: Patience, lacks: impl Fn(FlowId) -> bool) -> Next {
        let Patience { now, end, awaits_more, may_be_more } = patience;
        let Some(said) = self.said.get(&self.settled) else { return Next::Wait };
        let voters = said.voters();
        let is_over = end.is_some_and(|end| now >= end);
        let mut is_missing = false;
        for (index, witness) in self.witnesses.iter().enumerate() {
            if witness.is_gone || voters & (1 << index) != 0 || witness.next > self.settled || lacks(witness.flow) {
                continue;
            }
            is_missing = true;
            let is_silent = witness.owing.is_some_and(|since| now.since(since) > SILENCE_MAX);
            if !is_silent && !is_over {
                return Next::Wait;
            }
        }
        if awaits_more {
            return Next::Wait;
        }
        let Some(verdict) = self.count_votes(self.settled) else { return Next::Wait };
        if let Verdict::Undecided(_) = verdict {
            let since = *self.tied.get_or_insert(now);
            if (is_missing || may_be_more) && now.since(since) <= TIE_MAX {
                return Next::Wait;
            }
        }
        Next::Verdict(verdict)
    }

    /// The next group is settled: this counts.
    pub(super) fn settle(&mut self, digest: GroupDigest) {
        if let Some(said) = self.said.get_mut(&self.settled) {
            said.settled = Some(digest);
        }
        self.settled += 1;
    }

    /// What counts for a group, if it is settled and may still change.
    pub(super) fn settled_digest(&self, position: u64) -> Option<GroupDigest> {
        self.said.get(&position)?.settled
    }

    /// Something else counts for a group that was settled.
    pub(super) fn correct(&mut self, position: u64, digest: GroupDigest) {
        self.doubted.remove(&position);
        if let Some(said) = self.said.get_mut(&position) {
            said.settled = Some(digest);
        }
    }

    /// It is not known any more what counts for a group that was settled.
    pub(super) fn doubt(&mut self, position: u64, now: Time) {
        self.doubted.entry(position).or_insert(now);
        if let Some(said) = self.said.get_mut(&position) {
            said.settled = None;
        }
    }

    /// Takes out the doubted groups, by position, of which nobody who may decide is waited for any more, or that are
    /// not wanted.
    pub(super) fn take_doubted(
        &mut self,
        Patience { now, may_be_more, .. }: Patience,
        is_unwanted: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let may_decide = |position: u64, witness: &Witness| !witness.is_gone && witness.next <= position;
        let is_over = |(&position, &since): (&u64, &Time)| {
            let has_hope = may_be_more || self.witnesses.iter().any(|witness| may_decide(position, witness));
            (is_unwanted(position) || !has_hope || now.since(since) > TIE_MAX).then_some(position)
        };
        let over: Vec<u64> = self.doubted.iter().filter_map(is_over).collect();
        over.iter().for_each(|position| _ = self.doubted.remove(position));
        over
    }

    /// Who has said what of a group.
    pub(super) fn votes(&self, position: u64) -> Vec<(FlowId, GroupDigest)> {
        let Some(said) = self.said.get(&position) else { return Vec::new() };
        let said_by = |index: usize| said.all().find(|(_, voters)| voters & (1 << index) != 0);
        let all = self.witnesses.iter().enumerate();
        all.filter_map(|(index, witness)| Some((witness.flow, said_by(index)?.0))).collect()
    }

    /// Forgets what was said of settled groups of which all mirrors have spoken.
    pub(super) fn forget_passed(&mut self) {
        let behind = self.witnesses.iter().filter(|witness| !witness.is_gone).map(|witness| witness.next).min();
        let doubted = self.doubted.first_key_value().map_or(u64::MAX, |(&position, _)| position);
        let until = behind.unwrap_or(self.settled).min(self.settled).min(doubted);
        while let Some(first) = self.said.first_entry().filter(|first| *first.key() < until) {
            first.remove();
        }
    }

    fn count_votes(&self, position: u64) -> Option<Verdict> {
        let said = self.said.get(&position)?;
        let all = said.voters();
        Some(match said.all().find(|(_, voters)| 2 * voters.count_ones() > all.count_ones()) {
            Some((digest, voters)) => Verdict::Most(*digest, self.flows(all & !voters).collect()),
            None => Verdict::Undecided(self.votes(position)),
        })
    }

    fn flows(&self, set: Set) -> impl Iterator<Item = FlowId> + '_ {
        let is_in = move |(index, _): &(usize, &Witness)| set & (1 << index) != 0;
        self.witnesses.iter().enumerate().filter(is_in).map(|(_, witness)| witness.flow)
    }

    /// The mirrors that have been silent for longer than `patience` while nobody speaks of the next group.
    pub(super) fn hopeless(&self, now: Time, patience: Span) -> Vec<FlowId> {
        if self.said.contains_key(&self.settled) {
            return Vec::new();
        }
        let is_late = |witness: &&Witness| witness.owing.is_some_and(|since| now.since(since) > patience);
        self.witnesses.iter().filter(is_late).map(|witness| witness.flow).collect()
    }

    /// A mirror has other bytes of a group than most; false if that is known.
    pub(super) fn note_differing(&mut self, group: u64, flow: FlowId) -> bool {
        self.differing.entry(group).or_default().insert(flow)
    }

    /// Whether a mirror has other bytes of a group than most.
    pub(super) fn is_differing(&self, group: u64, flow: FlowId) -> bool {
        self.differing.get(&group).is_some_and(|flows| flows.contains(&flow))
    }

    /// The groups of which some mirror has other bytes than most, unless they are verified.
    pub(super) fn differing(&self) -> impl Iterator<Item = u64> + '_ {
        self.differing.keys().copied()
    }

    /// These groups are verified, or not wanted any more.
    pub(super) fn forget_differing(&mut self, groups: std::ops::Range<u64>) {
        if !self.differing.is_empty() {
            self.differing.retain(|group, _| !groups.contains(group));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FlowId = FlowId(1);
    const B: FlowId = FlowId(2);
    const C: FlowId = FlowId(3);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn patience(seconds: u64) -> Patience {
        Patience { now: at(seconds), end: None, awaits_more: false, may_be_more: false }
    }

    /// Mirrors that were asked for the first ten groups.
    fn asked(flows: &[FlowId]) -> Comparison {
        let mut comparison = Comparison::default();
        for &flow in flows {
            comparison.join(flow, None);
            assert!(comparison.is_to_ask(flow, 0, 10));
            comparison.note_asked(flow, 10, 0, at(0));
            assert!(!comparison.is_to_ask(flow, 0, 10));
        }
        comparison
    }

    fn say(comparison: &mut Comparison, said: &[(FlowId, u8)]) {
        for &(flow, value) in said {
            assert_eq!(comparison.take(flow, [value; 32], at(0)), None);
        }
    }

    fn next(comparison: &mut Comparison, seconds: u64) -> Next {
        comparison.next(patience(seconds), |_| false)
    }

    fn most(value: u8, others: &[FlowId]) -> Next {
        Next::Verdict(Verdict::Most([value; 32], others.to_vec()))
    }

    fn undecided(votes: &[(FlowId, u8)]) -> Verdict {
        Verdict::Undecided(votes.iter().map(|&(flow, value)| (flow, [value; 32])).collect())
    }

    #[test]
    fn verdict_goes_with_the_majority_whoever_stands_first() {
        for (said, verdict) in [
            ([1, 1, 1], most(1, &[])),
            ([1, 1, 2], most(1, &[C])),
            ([2, 1, 1], most(1, &[A])),
            ([1, 2, 1], most(1, &[B])),
        ] {
            let mut comparison = asked(&[A, B, C]);
            for (flow, value) in [A, B, C].into_iter().zip(said) {
                assert_eq!(next(&mut comparison, 0), Next::Wait);
                say(&mut comparison, &[(flow, value)]);
            }
            assert_eq!(next(&mut comparison, 0), verdict);
        }
        let mut comparison = asked(&[A, B, C]);
        say(&mut comparison, &[(B, 2), (A, 1), (C, 3)]);
        assert_eq!(next(&mut comparison, 0), Next::Verdict(undecided(&[(A, 1), (B, 2), (C, 3)])));
        // Two of five are more than each other one, and no majority.
        let (d, e) = (FlowId(4), FlowId(5));
        let mut comparison = asked(&[A, B, C, d, e]);
        say(&mut comparison, &[(A, 1), (B, 1), (C, 2), (d, 3), (e, 4)]);
        let votes = [(A, 1), (B, 1), (C, 2), (d, 3), (e, 4)];
        assert_eq!(next(&mut comparison, 0), Next::Verdict(undecided(&votes)));
    }

    #[test]
    fn what_is_doubted_waits_for_who_may_decide() {
        let mut comparison = asked(&[A, B, C]);
        say(&mut comparison, &[(A, 1)]);
        assert_eq!(next(&mut comparison, 4), most(1, &[]));
        comparison.settle([1; 32]);
        assert_eq!(comparison.take(B, [2; 32], at(5)), Some(undecided(&[(A, 1), (B, 2)])));
        comparison.doubt(0, at(5));
        comparison.forget_passed();
        assert_eq!(comparison.settled_digest(0), None);
        assert!(comparison.take_doubted(patience(15), |_| false).is_empty(), "C may decide");
        assert_eq!(comparison.take(C, [1; 32], at(15)), Some(Verdict::Most([1; 32], vec![B])));
        comparison.correct(0, [1; 32]);
        assert_eq!(comparison.settled_digest(0), Some([1; 32]));
        comparison.doubt(0, at(15));
        assert_eq!(comparison.take_doubted(patience(15), |_| false), [0], "all have spoken");
        assert!(comparison.take_doubted(patience(15), |_| false).is_empty());
    }

    #[test]
    fn who_is_silent_is_waited_for_until_patience_ends_and_again_when_he_speaks() {
        let mut comparison = asked(&[A, B]);
        say(&mut comparison, &[(A, 1), (A, 1), (A, 1)]);
        assert_eq!(next(&mut comparison, 3), Next::Wait);
        assert_eq!(next(&mut comparison, 4), most(1, &[]));
        comparison.settle([1; 32]);
        assert_eq!(comparison.take(B, [1; 32], at(5)), None);
        assert_eq!(next(&mut comparison, 6), Next::Wait, "it speaks");
        let end = Some(at(6));
        assert_eq!(comparison.next(Patience { end, ..patience(6) }, |_| false), most(1, &[]));
        comparison.leave(B);
        assert_eq!(next(&mut comparison, 6), most(1, &[]), "it is gone");
        let (began, complete) = (at(100), at(200));
        assert_eq!(end_of_patience(began, complete), at(225));
        assert_eq!(end_of_patience(at(199), complete), at(203));
    }

    #[test]
    fn who_lacks_a_group_is_not_asked_and_who_may_come_is_awaited() {
        let mut comparison = asked(&[A, B]);
        say(&mut comparison, &[(A, 1)]);
        assert_eq!(comparison.next(patience(0), |flow| flow == B), most(1, &[]));
        let awaits = Patience { awaits_more: true, ..patience(0) };
        assert_eq!(comparison.next(awaits, |flow| flow == B), Next::Wait);
    }

    #[test]
    fn a_tie_waits_for_who_may_decide_it() {
        let mut comparison = asked(&[A, B, C]);
        say(&mut comparison, &[(A, 1), (B, 2)]);
        assert_eq!(next(&mut comparison, 4), Next::Wait, "C is silent, and may speak yet");
        assert_eq!(next(&mut comparison, 14), Next::Wait);
        assert_eq!(next(&mut comparison, 15), Next::Verdict(undecided(&[(A, 1), (B, 2)])));
        say(&mut comparison, &[(C, 2)]);
        assert_eq!(next(&mut comparison, 15), most(2, &[A]));
        comparison.settle([2; 32]);
        say(&mut comparison, &[(A, 1), (B, 2)]);
        assert_eq!(next(&mut comparison, 19), Next::Verdict(undecided(&[(A, 1), (B, 2)])), "C is silent again");
    }

    #[test]
    fn who_speaks_too_late_is_still_heard() {
        let mut comparison = asked(&[A, B, C]);
        say(&mut comparison, &[(A, 1)]);
        assert_eq!(next(&mut comparison, 4), most(1, &[]));
        comparison.settle([1; 32]);
        comparison.forget_passed();
        assert_eq!(comparison.take(B, [2; 32], at(5)), Some(undecided(&[(A, 1), (B, 2)])));
        assert_eq!(comparison.take(C, [2; 32], at(5)), Some(Verdict::Most([2; 32], vec![A])));
        assert_eq!(comparison.settled_digest(0), Some([1; 32]));
        comparison.correct(0, [2; 32]);
        assert_eq!(comparison.settled_digest(0), Some([2; 32]));
        comparison.forget_passed();
        assert_eq!(comparison.settled_digest(0), None, "all have spoken");
    }

    #[test]
    fn who_comes_back_goes_on_and_has_one_vote() {
        let mut comparison = asked(&[A, B]);
        say(&mut comparison, &[(B, 2)]);
        comparison.note_differing(7, B);
        comparison.leave(B);
        comparison.join(C, Some(B));
        assert_eq!((comparison.progress(B), comparison.progress(C)), (None, Some((1, 1))));
        assert!(comparison.is_differing(7, C) && !comparison.is_differing(7, B));
        say(&mut comparison, &[(A, 1)]);
        assert_eq!(next(&mut comparison, 0), Next::Verdict(undecided(&[(A, 1), (C, 2)])));
        comparison.skip(1);
        assert_eq!(comparison.next_to_settle(), 1);
        comparison.forget_differing(7..8);
        assert_eq!(comparison.differing().count(), 0);
    }

    #[test]
    fn nobody_is_given_up_while_another_one_speaks() {
        let mut comparison = asked(&[A, B]);
        let minute = Span::from_secs(60);
        assert_eq!(comparison.hopeless(at(60), minute), []);
        assert_eq!(comparison.hopeless(at(61), minute), [A, B]);
        say(&mut comparison, &[(A, 1)]);
        assert_eq!(comparison.hopeless(at(61), minute), []);
    }
}
