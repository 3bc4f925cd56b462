//! Proofs of parts: asked for, compared and taken.
//!
//! A file that is pinned is proven by one mirror, up to its hash. Of another one, all mirrors are asked what the group is
//! of which a part is wanted, and more than half of them decide ([`Votes`](super::super::votes::Votes)). Of a group that
//! is settled, one of those that have it is asked.

use inhaul_base::ByteRange;
use inhaul_store::{digest, printable};
use inhaul_transport::{Command, FlowId};

use super::super::memory::{Active, Proof};
use super::super::order::SetId;
use super::super::votes::{Verdict, Voter};
use super::{Mirror, Reading, Set};
use inhaul_engine::engine::Engine;
use inhaul_session::api::error::MoveError;
use inhaul_session::session::agreement::{DIFFERENT_MAX, SILENCE_MAX, no_majority};
use inhaul_session::session::frame::{Frame, GroupDigest, MAX_PARTS, PartOf};

/// Messages that ask a mirror for proofs, and are not answered: a server takes one more.
const ASKED_MAX: usize = 4;
/// A proof that was asked for so often of each mirror is not asked for again: they end their sessions each time.
const ASKS_MAX: u32 = 8;

impl Mirror {
    fn is_differing(&self, group: u64) -> bool {
        self.differing.contains(&group)
    }
}

impl Set {
    /// Whether what mirrors say of a file is compared: there are several, and nobody knows better.
    fn is_compared(&self, file: usize) -> bool {
        self.source.mirrors.len() > 1 && !self.roots.contains_key(&file)
    }

    pub(super) fn voter(&self, mirror: &Mirror) -> Voter {
        let mirrors = &self.source.mirrors;
        mirrors.iter().position(|server| *server == mirror.server).unwrap_or(mirrors.len())
    }
}

impl Reading {
    /// Has mirrors asked for what proves a part, if they were not: those that may decide what it is.
    pub(super) fn want_proof(&mut self, id: SetId, start: u64) {
        let Some(set) = self.sets.get(&id) else { return };
        let Some(part) = self.parts.active.get_mut(&(id, start)) else { return };
        if part.is_checked || part.proof.is_some() {
            return;
        }
        let group = part.wanted.of.group;
        let is_compared = set.is_compared(part.wanted.file);
        let settled = set.votes.settled(group).filter(|_| is_compared);
        let is_right = |flow: &FlowId| {
            let voter = self.mirrors.get(flow).map(|mirror| set.voter(mirror));
            set.votes.of_group(group).iter().any(|&(other, digest)| Some(other) == voter && Some(digest) == settled)
        };
        let mirrors: Vec<FlowId> = match settled {
            _ if !is_compared => set.provers.first().copied().into_iter().collect(),
            None => set.provers.clone(),
            Some(_) => {
                let right: Vec<FlowId> = set.provers.iter().copied().filter(is_right).collect();
                // Another one after each part that came wrong: what proves it may be what is wrong.
                let next = right.get(part.tries as usize % right.len().max(1)).copied();
                next.map_or_else(|| set.provers.clone(), |next| vec![next])
            }
        };
        for flow in mirrors {
            let has_said = part.said.iter().any(|(other, _)| *other == flow);
            let Some(mirror) = self.mirrors.get_mut(&flow).filter(|_| !has_said) else { continue };
            if !part.awaited.contains(&flow) {
                part.awaited.push(flow);
                mirror.proving.unasked.push_back(start);
            }
        }
        self.stirred.insert(id);
    }

    /// Asks mirrors for the proofs that they were not asked for yet.
    pub(super) fn ask_proofs(&mut self, engine: &mut Engine, id: SetId) {
        let mut vain = Vec::new();
        let flows = self.sets.get(&id).map(|set| set.provers.clone()).unwrap_or_default();
        for flow in flows {
            while let (Some(set), Some(mirror)) = (self.sets.get_mut(&id), self.mirrors.get_mut(&flow)) {
                let proving = &mut mirror.proving;
                if proving.asked.len() >= ASKED_MAX {
                    break;
                }
                let asks_max = ASKS_MAX * set.source.mirrors.len().max(1) as u32;
                let mut asked: Vec<(usize, PartOf)> = Vec::new();
                while asked.len() < MAX_PARTS
                    && let Some(start) = proving.unasked.pop_front()
                {
                    let part = self.parts.active.get_mut(&(id, start)).filter(|part| part.awaited.contains(&flow));
                    let Some(part) = part else { continue };
                    if part.asked >= asks_max {
                        vain.push(start);
                        continue;
                    }
                    part.asked += 1;
                    part.wanted.of.levels = set.levels(part.wanted.file, part.wanted.of.group);
                    asked.push((part.wanted.file, part.wanted.of));
                }
                let Some(&last) = asked.last() else { break };
                if proving.asked.is_empty() {
                    proving.since = engine.now();
                }
                proving.asked.push_back(last);
                set.stats.proof_requests += 1;
                let parts = asked.into_iter().map(|(_, part)| part).collect();
                engine.send(flow, &Frame::ProofsOf { parts });
            }
        }
        for start in vain {
            let Some(source) = self.sets.get(&id).map(|set| set.source.clone()) else { return };
            let detail = format!("its servers were asked {ASKS_MAX} times to prove the data, and did not");
            let error = || MoveError::AllLost { data_set: Box::new(source.clone()), detail: detail.clone() };
            self.fail_part(engine, id, start, &error);
        }
    }

    /// Ends a part that cannot be had.
    fn fail_part(&mut self, engine: &mut Engine, id: SetId, start: u64, error: &dyn Fn() -> MoveError) {
        let takers = self.drop_part(engine, id, start).map(|part| part.wanted.takers).unwrap_or_default();
        takers.iter().for_each(|taker| taker.delivery.fail(error()));
    }

    /// A proof came: of this part, by this way up.
    pub(super) fn on_proof(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        of: PartOf,
        proof: &Proof,
        path: &[GroupDigest],
    ) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(()) };
        let id = mirror.set;
        let Some(set) = self.sets.get_mut(&id) else { return Ok(()) };
        mirror.proving.asked.retain(|&(_, last)| last != of);
        self.stirred.insert(id);
        set.stats.proof_bytes += 32 * (1 + proof.inside.len() + path.len()) as u64;
        let Some(place) = set.groups.place(of.group) else { return Ok(()) };
        let size = set.groups.manifest().entries()[place.file].size;
        let bytes = digest::proof::chunk_bytes(size, place.group, &of.chunks());
        let start = place.range.start + bytes.start;
        // Nobody may need it any more; or it may have been asked of another since.
        let part = self.parts.active.get_mut(&(id, start)).filter(|part| part.wanted.of == of);
        let part = part.filter(|part| part.awaited.contains(&flow));
        let is_awaited = part.is_some();
        if let Some(part) = part {
            part.awaited.retain(|awaited| *awaited != flow);
            // Only what was asked for counts as a sign of life.
            mirror.proving.since = engine.now();
            if let Some(roots) = set.roots.get_mut(&place.file)
                && !roots.take(place.group, proof.digest, path, u32::from(of.levels))
            {
                self.want_proof(id, start);
                return self.lose(engine, flow, "its data is not what was pinned", false);
            }
            part.said.push((flow, proof.clone()));
        }
        if !set.is_compared(place.file) {
            return if is_awaited { self.decide(engine, id, start) } else { Ok(()) };
        }
        let voter = set.voter(mirror);
        set.votes.take(of.group, voter, proof.digest);
        for start in self.parts.overlapping(id, place.range) {
            self.decide(engine, id, start)?;
        }
        self.outvote(engine, id, of.group)
    }

    /// Takes the proof of a part, if it is known which is right.
    fn decide(&mut self, engine: &mut Engine, id: SetId, start: u64) -> Result<(), MoveError> {
        let now = engine.now();
        let Some(set) = self.sets.get_mut(&id) else { return Ok(()) };
        let Some(part) = self.parts.active.get_mut(&(id, start)) else { return Ok(()) };
        if part.is_checked || part.proof.is_some() {
            return Ok(());
        }
        let group = part.wanted.of.group;
        if set.is_compared(part.wanted.file) {
            let is_new = now.since(set.opened) <= SILENCE_MAX;
            let is_awaited = |mirror: &&Mirror| !mirror.proving.is_silent(now);
            let flows = set.provers.iter().filter_map(|flow| self.mirrors.get(flow));
            let mut awaited: Vec<Voter> = flows.clone().filter(is_awaited).map(|mirror| set.voter(mirror)).collect();
            if is_new {
                // Who has not answered yet at all.
                let unheard = set.source.mirrors.iter().enumerate();
                awaited.extend(unheard.filter(|(_, server)| set.unheard.contains(*server)).map(|(voter, _)| voter));
            }
            let may_be_more = set.roster.has_session_away(0) || awaited.len() < set.provers.len();
            match set.votes.judge(group, &awaited, may_be_more, now) {
                Verdict::Wait => return Ok(()),
                Verdict::Tied => {
                    let said = set.votes.of_group(group).iter();
                    let name = |voter: &Voter| set.source.mirrors.get(*voter).map(ToString::to_string);
                    let said = said.map(|(voter, digest)| (name(voter).unwrap_or_default(), digest));
                    let error = copies_differ(set, part, no_majority(said));
                    self.fail_part(engine, id, start, &error);
                    return Ok(());
                }
                Verdict::Settled(digest) => {
                    part.proof = part.said.iter().find(|(_, proof)| proof.digest == digest).map(|(_, it)| it.clone());
                }
            }
            if part.proof.is_none() && part.awaited.is_empty() && !set.roster.has_session_away(0) {
                let is_asked = |flow: &FlowId| part.said.iter().any(|(other, _)| other == flow);
                if set.provers.iter().all(is_asked) {
                    let detail = "and the mirrors that agree are lost: try again when they are back".to_owned();
                    let error = copies_differ(set, part, detail);
                    self.fail_part(engine, id, start, &error);
                    return Ok(());
                }
            }
        } else {
            part.proof = part.said.last().map(|(_, proof)| proof.clone());
        }
        match part.proof {
            Some(_) if part.missing == 0 => self.on_whole(id, start),
            Some(_) => {}
            None => self.want_proof(id, start),
        }
        Ok(())
    }

    /// Has the mirrors that have something else of a group than what counts not asked for it.
    fn outvote(&mut self, engine: &mut Engine, id: SetId, group: u64) -> Result<(), MoveError> {
        let Some(set) = self.sets.get(&id) else { return Ok(()) };
        let (Some(settled), Some(place)) = (set.votes.settled(group), set.groups.place(group)) else { return Ok(()) };
        let others = set.votes.of_group(group).iter().filter(|(_, digest)| *digest != settled);
        let others: Vec<Voter> = others.map(|&(voter, _)| voter).collect();
        let is_other = |flow: &FlowId| {
            let mirror = self.mirrors.get(flow);
            mirror.is_some_and(|mirror| !mirror.is_differing(group) && others.contains(&set.voter(mirror)))
        };
        let flows: Vec<FlowId> = set.mirrors.iter().copied().filter(is_other).collect();
        for flow in flows {
            let Some(mirror) = self.mirrors.get_mut(&flow) else { continue };
            mirror.differing.insert(group);
            log::warn!("{} differs: bytes {} are not what the other mirrors have", mirror.server, place.range);
            if mirror.differing.len() as u64 > DIFFERENT_MAX {
                self.lose(engine, flow, "it has other bytes than the other mirrors", false)?;
            } else if mirror.opened.is_some() {
                self.avoid(engine, flow, group);
            }
        }
        Ok(())
    }

    fn avoid(&self, engine: &mut Engine, flow: FlowId, group: u64) {
        let set = self.mirrors.get(&flow).and_then(|mirror| self.sets.get(&mirror.set));
        let range = set.and_then(|set| set.groups.place(group)).map_or(ByteRange::default(), |place| place.range);
        if let Some(endpoint) = self.endpoint.filter(|_| !range.is_empty()) {
            engine.command(endpoint, Command::Avoid { flow, range });
        }
    }

    /// A part came in wrong: it is to come from those that have proven it. Returns whom to suspect.
    pub(super) fn avoid_unproven(&self, engine: &mut Engine, id: SetId, start: u64) -> Option<FlowId> {
        let (set, part) = self.sets.get(&id).zip(self.parts.active.get(&(id, start)))?;
        let Some(proof) = &part.proof else { return part.from };
        let is_right =
            |flow: &FlowId| part.said.iter().any(|(other, said)| other == flow && said.digest == proof.digest);
        let is_open = |flow: &FlowId| self.mirrors.get(flow).is_some_and(|mirror| mirror.opened.is_some());
        let (right, others): (Vec<FlowId>, Vec<FlowId>) =
            set.mirrors.iter().copied().filter(is_open).partition(is_right);
        if !right.is_empty() {
            others.into_iter().for_each(|flow| self.avoid(engine, flow, part.wanted.of.group));
        }
        // Who alone is right is asked again.
        part.from.filter(|from| right != [*from])
    }

    /// A mirror's path is open: it is not asked for what it has otherwise.
    pub(super) fn avoid_known(&self, engine: &mut Engine, flow: FlowId) {
        let groups = self.mirrors.get(&flow).map(|mirror| mirror.differing.clone()).unwrap_or_default();
        groups.into_iter().for_each(|group| self.avoid(engine, flow, group));
    }

    /// Nothing more comes of a mirror's proofs: others are asked, and may decide.
    pub(super) fn ask_others(&mut self, engine: &mut Engine, id: SetId, flow: FlowId) -> Result<(), MoveError> {
        let starts: Vec<u64> = self.parts.active.range((id, 0)..=(id, u64::MAX)).map(|(key, _)| key.1).collect();
        for start in starts {
            let Some(part) = self.parts.active.get_mut(&(id, start)) else { continue };
            let was_awaited = part.awaited.contains(&flow);
            part.awaited.retain(|awaited| *awaited != flow);
            if was_awaited {
                self.want_proof(id, start);
                self.decide(engine, id, start)?;
            }
        }
        Ok(())
    }

    /// A mirror is there: it is asked for the proofs that nobody has brought.
    pub(super) fn ask_newcomer(&mut self, id: SetId) {
        let unproven = |part: &Active| part.proof.is_none() && !part.is_checked && part.needs_proof;
        let parts = self.parts.active.range((id, 0)..=(id, u64::MAX)).filter(|(_, part)| unproven(part));
        let starts: Vec<u64> = parts.map(|(key, _)| key.1).collect();
        starts.into_iter().for_each(|start| self.want_proof(id, start));
    }

    /// Decides about parts whose mirrors are not waited for any longer.
    pub(super) fn decide_late(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        let is_open = |part: &&Active| part.proof.is_none() && !part.is_checked && !part.said.is_empty();
        let open = self.parts.active.iter().filter(|(_, part)| is_open(part));
        let open: Vec<(SetId, u64, u64)> = open.map(|(&(id, start), part)| (id, start, part.wanted.of.group)).collect();
        for (id, start, group) in open {
            self.decide(engine, id, start)?;
            self.outvote(engine, id, group)?;
        }
        Ok(())
    }
}

/// That a part is not the same on all mirrors.
fn copies_differ(set: &Set, part: &Active, detail: String) -> impl Fn() -> MoveError + use<> {
    let (file, range) = (part.wanted.file, part.wanted.range);
    let first = set.groups.manifest().file_range(file).map_or(0, |of_file| of_file.start);
    let (start, end) = (range.start - first, range.end - first);
    let path = printable(&set.groups.manifest().entries()[file].path);
    move || MoveError::CopiesDiffer { path: path.clone(), start, end, detail: detail.clone() }
}
