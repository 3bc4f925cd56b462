//! Files whose hashes are known, such as from a Metalink: of mirrors that contradict each other, those are right that
//! agree with the hash, and be it a single one.
//!
//! Such a file comes as most mirrors have it. If that is not what is known of it, it is tried as each of the others has
//! it. Only the groups in which they differ come again. None of it gets a name before it has the hash.

use std::collections::BTreeSet;

use inhaul_store::checksums::{Algorithm, Strength};
use inhaul_transport::FlowId;

use super::Haul;
use super::comparison::Verdict;
use super::object::Object;
use crate::haul::verify::Task;
use inhaul_engine::engine::Engine;
use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::GroupDigest;

impl Object {
    /// Whether it is known which hash a file has. A checksum that finds only damage does not decide who is right: a
    /// mirror that lies can make bytes that have it.
    pub(super) fn is_pinned(&self, file: usize) -> bool {
        let is_strong = |(algorithm, _): &(Algorithm, Vec<u8>)| algorithm.strength() == Strength::Lies;
        self.sums.get(&file).is_some_and(|sums| sums.iter().any(is_strong))
    }

    /// Remembers what was said of a group, if not all say the same.
    pub(super) fn note_votes(&mut self, group: u64, position: u64, verdict: &Verdict) -> bool {
        let is_same = matches!(verdict, Verdict::Most(_, others) if others.is_empty());
        let first = self.comparison.settled_digest(position).or_else(|| verdict.first());
        let Some(first) = first.filter(|_| !is_same) else { return false };
        self.contradictions.note(group, self.comparison.votes(position), first)
    }

    /// The mirrors that have said of a group what counts, as far as that is remembered.
    pub(super) fn who_is_right(&self, group: u64) -> Vec<FlowId> {
        let right = |votes: &[(FlowId, GroupDigest)], counts: GroupDigest| {
            votes.iter().filter(|(_, digest)| *digest == counts).map(|&(flow, _)| flow).collect()
        };
        if let Some((votes, counts)) = self.contradictions.of_group(group) {
            return right(votes, counts);
        }
        let Some(position) = self.plan.position(group) else { return Vec::new() };
        let counts = self.comparison.settled_digest(position);
        counts.map_or_else(Vec::new, |counts| right(&self.comparison.votes(position), counts))
    }
}

impl Haul {
    /// Has the mirrors not asked for a group that have something else than what counts.
    pub(super) fn avoid_others(&mut self, engine: &mut Engine, index: usize, group: u64) {
        let object = &mut self.objects[index];
        let others = object.contradictions.others(group);
        object.comparison.forget_differing(group..group + 1);
        others.iter().for_each(|&flow| _ = object.comparison.note_differing(group, flow));
        others.into_iter().for_each(|flow| self.avoid(engine, index, group, flow));
    }

    /// A file that has come is not what is known of it: what another mirror has of it, or nothing.
    pub(super) fn try_another(&mut self, engine: &mut Engine, index: usize, file: usize, error: MoveError) {
        let running: BTreeSet<FlowId> =
            self.objects[index].mirrors.iter().copied().filter(|&flow| self.is_running(flow)).collect();
        let Object { contradictions, groups, mirrors, .. } = &mut self.objects[index];
        let mirrors = mirrors.iter().copied().filter(|flow| running.contains(flow));
        let next = contradictions.next_try(file, groups.of_file(file), mirrors);
        let Some((flow, digests)) = next else {
            self.objects[index].give_up_file(file);
            self.verifier.writer().tell(Task::GiveUp { object: index, file, error, keep: false });
            return;
        };
        if let Some(server) = self.mirrors.get(&flow).map(|mirror| mirror.server.clone()) {
            self.warn(format!("{error}; taking what {server} has where the mirrors differ"));
        }
        for (group, digest) in digests {
            if self.objects[index].contradictions.count(group, digest) {
                self.avoid_others(engine, index, group);
                self.verifier.tell(Task::Correct { object: index, group, digest: Some(digest) });
            }
        }
    }

    /// A file has come as it should be: who has something else of it is named.
    pub(super) fn name_others(&mut self, engine: &mut Engine, index: usize, file: usize) -> Result<(), MoveError> {
        let object = &self.objects[index];
        for group in object.contradictions.among(object.groups.of_file(file)) {
            let others = self.objects[index].contradictions.others(group);
            self.objects[index].contradictions.forget(group);
            for flow in others {
                self.outvote(engine, index, group, flow)?;
            }
            self.objects[index].comparison.forget_differing(group..group + 1);
        }
        Ok(())
    }
}
