//! Files whose hashes are known, such as from a Metalink: of mirrors that contradict each other, those are right that
//! agree with the hash, and be it a single one.
//!
//! Such a file comes as most mirrors have it. If that is not what is known of it, it is tried as each of the others has
//! it. Only the groups in which they differ come again. None of it gets a name before it has the hash.

use std::collections::{BTreeMap, BTreeSet};

use inhaul_transport::FlowId;

use super::Haul;
use super::comparison::Verdict;
use super::object::Object;
use crate::api::error::MoveError;
use crate::engine::Engine;
use crate::haul::verify::Task;
use crate::session::frame::GroupDigest;

/// Most groups of a data set of which contradictions are remembered: a mirror may differ in all.
const REMEMBERED_MAX: usize = 1 << 16;

/// What mirrors have said of groups in which they differ.
#[derive(Debug, Default)]
pub(super) struct Votes {
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

impl Votes {
    /// A mirror joins, or is back, and was the flow `former`.
    pub(super) fn join(&mut self, flow: FlowId, former: Option<FlowId>) {
        let votes = self.of_groups.values_mut().flat_map(|said| &mut said.votes);
        votes.filter(|(voter, _)| Some(*voter) == former).for_each(|(voter, _)| *voter = flow);
    }

    /// The mirrors that have something else of a group than what counts.
    fn others(&self, group: u64) -> Vec<FlowId> {
        let Some(Said { votes, counts }) = self.of_groups.get(&group) else { return Vec::new() };
        votes.iter().filter(|(_, digest)| digest != counts).map(|&(flow, _)| flow).collect()
    }
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

impl Object {
    /// Whether it is known which hash a file has.
    pub(super) fn is_pinned(&self, file: usize) -> bool {
        self.sums.contains_key(&file)
    }

    /// Remembers what was said of a group, if not all say the same.
    pub(super) fn note_votes(&mut self, group: u64, position: u64, verdict: &Verdict) -> bool {
        let is_same = matches!(verdict, Verdict::Most(_, others) if others.is_empty());
        if is_same || (self.votes.of_groups.len() >= REMEMBERED_MAX && !self.votes.of_groups.contains_key(&group)) {
            return false;
        }
        let Some(first) = self.comparison.settled_digest(position).or_else(|| verdict.first()) else { return false };
        let said = self.votes.of_groups.entry(group);
        let said = said.or_insert_with(|| Said { votes: Vec::new(), counts: first });
        said.votes = self.comparison.votes(position);
        true
    }

    /// The mirrors that have said of a group what counts, as far as that is remembered.
    pub(super) fn who_is_right(&self, group: u64) -> impl Iterator<Item = FlowId> {
        let position = self.plan.position(group);
        let settled = position.and_then(|position| self.comparison.settled_digest(position));
        let votes = position.map(|position| self.comparison.votes(position)).unwrap_or_default();
        let (counts, votes) = match self.votes.of_groups.get(&group) {
            Some(said) => (Some(said.counts), said.votes.clone()),
            None => (settled, votes),
        };
        votes.into_iter().filter(move |(_, digest)| Some(*digest) == counts).map(|(flow, _)| flow)
    }

    /// What is to be tried next of a file: the digests of the groups in which the mirrors differ as one of them has
    /// them, by their groups.
    fn next_try(
        &mut self,
        file: usize,
        is_running: impl Fn(FlowId) -> bool,
    ) -> Option<(FlowId, Vec<(u64, GroupDigest)>)> {
        let Votes { of_groups, tried } = &mut self.votes;
        let of_file = || of_groups.range(self.groups.of_file(file));
        let tried = tried.entry(file).or_default();
        tried.insert(of_file().map(|(_, said)| said.counts).collect());
        let has = |flow: FlowId, said: &Said| {
            said.votes.iter().find(|(voter, _)| *voter == flow).map_or(said.counts, |&(_, digest)| digest)
        };
        let flows = self.mirrors.iter().copied().filter(|&flow| is_running(flow));
        let mut tries = flows.map(|flow| (flow, of_file().map(|(_, said)| has(flow, said)).collect::<Vec<_>>()));
        let (flow, digests) = tries.find(|(_, digests)| tried.insert(digests.clone()))?;
        Some((flow, of_file().map(|(&group, _)| group).zip(digests).collect()))
    }
}

impl Haul {
    /// Has the mirrors not asked for a group that have something else than what counts.
    pub(super) fn avoid_others(&mut self, engine: &mut Engine, index: usize, group: u64) {
        let object = &mut self.objects[index];
        let others = object.votes.others(group);
        object.comparison.forget_differing(group..group + 1);
        others.iter().for_each(|&flow| _ = object.comparison.note_differing(group, flow));
        others.into_iter().for_each(|flow| self.avoid(engine, index, group, flow));
    }

    /// A file that has come is not what is known of it: what another mirror has of it, or nothing.
    pub(super) fn try_another(&mut self, engine: &mut Engine, index: usize, file: usize, error: MoveError) {
        let running: BTreeSet<FlowId> =
            self.objects[index].mirrors.iter().copied().filter(|&flow| self.is_running(flow)).collect();
        let next = self.objects[index].next_try(file, |flow| running.contains(&flow));
        let Some((flow, digests)) = next else {
            self.objects[index].give_up_file(file);
            self.verifier.writer().tell(Task::GiveUp { object: index, file, error, keep: false });
            return;
        };
        if let Some(server) = self.mirrors.get(&flow).map(|mirror| mirror.server.clone()) {
            self.warn(format!("{error}; taking what {server} has where the mirrors differ"));
        }
        for (group, digest) in digests {
            let Some(said) = self.objects[index].votes.of_groups.get_mut(&group) else { continue };
            if std::mem::replace(&mut said.counts, digest) != digest {
                self.avoid_others(engine, index, group);
                self.verifier.tell(Task::Correct { object: index, group, digest: Some(digest) });
            }
        }
    }

    /// A file has come as it should be: who has something else of it is named.
    pub(super) fn name_others(&mut self, engine: &mut Engine, index: usize, file: usize) -> Result<(), MoveError> {
        let object = &self.objects[index];
        if object.votes.of_groups.is_empty() {
            return Ok(());
        }
        let groups: Vec<u64> =
            object.votes.of_groups.range(object.groups.of_file(file)).map(|(&group, _)| group).collect();
        for group in groups {
            let others = self.objects[index].votes.others(group);
            self.objects[index].votes.of_groups.remove(&group);
            for flow in others {
                self.outvote(engine, index, group, flow)?;
            }
            self.objects[index].comparison.forget_differing(group..group + 1);
        }
        Ok(())
    }
}
