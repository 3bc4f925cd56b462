//! Proofs of parts: asked for, and taken.

use inhaul_store::digest;
use inhaul_transport::FlowId;

use super::super::memory::{Proof, ProofState};
use super::super::order::SetId;
use super::Reading;
use crate::api::error::MoveError;
use crate::engine::Engine;
use crate::session::frame::{Frame, GroupDigest, MAX_PARTS, PartOf};

/// Messages that ask a mirror for proofs, and are not answered: a server takes one more.
const ASKED_MAX: usize = 4;
/// A proof that was asked for so often is not asked for again: its mirrors end their sessions each time.
const ASKS_MAX: u32 = 8;

impl Reading {
    /// Asks the first mirror for the proofs that nobody was asked for.
    pub(super) fn ask_proofs(&mut self, engine: &mut Engine, id: SetId) {
        let mut vain = Vec::new();
        loop {
            let Some(set) = self.sets.get_mut(&id) else { return };
            let Some(&flow) = set.mirrors.first() else { return };
            if set.asked.len() >= ASKED_MAX {
                break;
            }
            let mut asked: Vec<(usize, PartOf)> = Vec::new();
            while asked.len() < MAX_PARTS
                && let Some(start) = set.unproven.pop_first()
            {
                let Some(part) = self.parts.active.get_mut(&(id, start)) else { continue };
                if part.asked >= ASKS_MAX {
                    vain.push(start);
                    continue;
                }
                part.proof = ProofState::Asked(flow);
                part.asked += 1;
                part.wanted.of.levels = set.levels(part.wanted.file, part.wanted.of.group);
                asked.push((part.wanted.file, part.wanted.of));
            }
            let Some(&(file, last)) = asked.last() else { break };
            let parts = asked.into_iter().map(|(_, part)| part).collect();
            if set.asked.is_empty() {
                set.proven = engine.now();
            }
            set.asked.push_back((flow, file, last));
            set.stats.proof_requests += 1;
            engine.send(flow, &Frame::ProofsOf { parts });
        }
        vain.into_iter().for_each(|start| self.fail_unproven(engine, id, start));
    }

    /// Ends a part that nobody proves.
    fn fail_unproven(&mut self, engine: &mut Engine, id: SetId, start: u64) {
        let Some(source) = self.sets.get(&id).map(|set| set.source.clone()) else { return };
        let takers = self.drop_part(engine, id, start).map(|part| part.wanted.takers).unwrap_or_default();
        for taker in takers {
            let detail = format!("its servers were asked {ASKS_MAX} times to prove the data, and did not");
            taker.delivery.fail(MoveError::AllLost { data_set: Box::new(source.clone()), detail });
        }
    }

    /// A proof came: of this part, by this way up.
    pub(super) fn on_proof(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        of: PartOf,
        proof: Proof,
        path: &[GroupDigest],
    ) -> Result<(), MoveError> {
        let Some(id) = self.mirrors.get(&flow).map(|mirror| mirror.set) else { return Ok(()) };
        let Some(set) = self.sets.get_mut(&id) else { return Ok(()) };
        set.asked.retain(|&(asked, _, last)| (asked, last) != (flow, of));
        self.stirred.insert(id);
        set.stats.proof_bytes += 32 * (1 + proof.inside.len() + path.len()) as u64;
        let Some(place) = set.groups.place(of.group) else { return Ok(()) };
        let size = set.groups.manifest().entries()[place.file].size;
        let bytes = digest::proof::chunk_bytes(size, place.group, &of.chunks());
        let start = place.range.start + bytes.start;
        // Nobody may need it any more; or it may have been asked of another since.
        let Some(part) = self.parts.active.get_mut(&(id, start)).filter(|part| part.wanted.of == of) else {
            return Ok(());
        };
        if !matches!(part.proof, ProofState::Asked(asked) if asked == flow) {
            return Ok(());
        }
        // Only what was asked for counts as a sign of life.
        set.proven = engine.now();
        if let Some(roots) = set.roots.get_mut(&place.file)
            && !roots.take(place.group, proof.digest, path, u32::from(of.levels))
        {
            part.proof = ProofState::Missing;
            set.unproven.insert(start);
            return self.lose(engine, flow, "its data is not what was pinned", false);
        }
        part.proof = ProofState::Here(proof);
        if part.missing == 0 {
            self.on_whole(id, start);
        }
        Ok(())
    }
}
