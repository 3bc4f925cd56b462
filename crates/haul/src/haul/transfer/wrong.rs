//! Groups that arrive wrong, and mirrors that bring them.
//!
//! What is right was settled before ([`super::comparing`]). A mirror may have said the same as the others and send
//! something else, or not have spoken in time. A group that is wrong is fetched again, from another mirror if there is
//! one that has it.

use inhaul_store::digest;
use inhaul_transport::{Command, FlowId, ObjectId};

use super::Haul;
use crate::haul::verify::Task;
use inhaul_engine::engine::Engine;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::report::SourceStatus;

/// A mirror that has delivered this many wrong groups is left out, if it has also delivered more than one of them for
/// each `WRONG_PART` right groups. Datagrams have checksums, so wrong groups were not damaged on the way: the mirror
/// sent them.
const WRONG_MAX: u64 = 3;
const WRONG_PART: u64 = 8;

impl Haul {
    /// A group differs from what counts.
    pub(super) fn on_wrong(&mut self, engine: &mut Engine, index: usize, group: u64) -> Result<(), MoveError> {
        if !self.objects[index].has_failed() {
            self.blame(engine, index, group)?;
            self.refetch(engine, index, group);
        }
        Ok(())
    }

    /// A group was verified, and mirrors turn out to have something else. If it is wrong, that is told.
    pub(super) fn on_unverified(&mut self, index: usize, group: u64) -> Result<(), MoveError> {
        let Some(place) = self.objects[index].groups.place(group) else { return Ok(()) };
        if self.stream.is_some() {
            let (path, start, end) = self.bytes_of(index, group);
            let detail = "and they were written before the mirrors had said so: fetch it again".to_owned();
            return Err(MoveError::CopiesDiffer { path, start, end, detail });
        }
        let bytes = place.range.len();
        let object = &mut self.objects[index];
        object.verified_groups = object.verified_groups.saturating_sub(1);
        self.verified_bytes = self.verified_bytes.saturating_sub(bytes);
        if object.held.remove(&group) {
            object.held_bytes = object.held_bytes.saturating_sub(bytes);
            self.resumed_bytes = self.resumed_bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    /// A mirror has delivered other bytes than it should have. Once, that may be damage on the way.
    fn blame(&mut self, engine: &mut Engine, index: usize, group: u64) -> Result<(), MoveError> {
        let object = &self.objects[index];
        // No mirror is to blame for data of an earlier transfer. And a single mirror has no replacement.
        // A mirror that has said that it lacks the file may send anything for it; and one that has said that it has
        // other bytes has sent what it said.
        let is_known = |flow: FlowId| object.lacks(flow, group) || object.comparison.is_differing(group, flow);
        let Some(flow) = object.tally.deliverer(group).filter(|&flow| !is_known(flow)) else { return Ok(()) };
        let has_others = object.mirrors.iter().any(|&other| other != flow && self.is_running(other));
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(()) };
        mirror.wrong_groups += 1;
        let right = (mirror.placed_bytes / digest::GROUP_BYTES).saturating_sub(mirror.wrong_groups);
        if mirror.wrong_groups >= WRONG_MAX && mirror.wrong_groups * WRONG_PART > right && has_others {
            self.expel(engine, flow, "what it brings is wrong again and again");
            self.settle(engine, index)?;
        }
        Ok(())
    }

    /// Goes on without a mirror whose data cannot be used.
    fn expel(&mut self, engine: &mut Engine, flow: FlowId, why: &str) {
        let Some(server) = self.mirrors.get(&flow).map(|mirror| mirror.server.clone()) else { return };
        if self.disconnect(engine, flow, SourceStatus::Different) {
            self.warn(format!("going on without {server}: {why}"));
        }
    }

    /// A group for people: its file, its first byte there and the one past its last.
    pub(super) fn bytes_of(&self, index: usize, group: u64) -> (String, u64, u64) {
        let manifest = self.objects[index].groups.manifest();
        let Some(place) = self.objects[index].groups.place(group) else { return Default::default() };
        let start = manifest.file_range(place.file).map_or(0, |range| range.start);
        let path = inhaul_store::printable(&manifest.entries()[place.file].path);
        (path, place.range.start - start, place.range.end - start)
    }

    /// A group that an earlier transfer has left has not outlived what came in between.
    pub(super) fn fetch_gone(&mut self, engine: &mut Engine, index: usize, group: u64) {
        let object = &mut self.objects[index];
        if !object.drop_held(group) {
            return;
        }
        object.tally.forget(&object.groups, group);
        if !std::mem::replace(&mut object.told_of_gone, true) {
            let (path, start, end) = self.bytes_of(index, group);
            self.warn(format!(
                "bytes {start} to {end} of '{path}' were fetched earlier and are not on the disk any more; \
                 fetching what is missing"
            ));
        }
        self.ask_again(engine, index, group, None);
    }

    /// A group came in wrong: once more, and not from the mirror that brought it, if there is another.
    fn refetch(&mut self, engine: &mut Engine, index: usize, group: u64) {
        let object = &mut self.objects[index];
        if object.groups.place(group).is_none() || object.has_failed() {
            return;
        }
        let suspect = object.tally.deliverer(group);
        object.tally.forget(&object.groups, group);
        let is_change = object.drop_held(group);
        let tell = !is_change || !std::mem::replace(&mut object.told_of_change, is_change);
        let from = suspect.and_then(|flow| self.mirrors.get(&flow)).map(|mirror| format!(" from {}", mirror.server));
        let (path, start, end) = self.bytes_of(index, group);
        let from = from.unwrap_or_default();
        if is_change && tell {
            self.warn(format!(
                "bytes {start} to {end} of '{path}' are not at its source any more what was fetched earlier; \
                 fetching what has changed"
            ));
        } else if tell {
            self.warn(format!("bytes {start} to {end} of '{path}' came in wrong{from}; fetching them again"));
        }
        self.ask_again(engine, index, group, suspect);
    }

    /// Has the transport fetch a group again; not from `suspect`, nor from those that do not have its file.
    fn ask_again(&mut self, engine: &mut Engine, index: usize, group: u64, suspect: Option<FlowId>) {
        let Some(place) = self.objects[index].groups.place(group) else { return };
        if place.range.is_empty() {
            // Nothing can come of it: the verifier says when it has had enough.
            self.verifier.writer().tell(Task::Whole { object: index, group });
            return;
        }
        self.begin_flows(engine, index);
        let object = &self.objects[index];
        let right: Vec<FlowId> = object.who_is_right(group).into_iter().filter(|&flow| self.is_running(flow)).collect();
        let is_without = |&flow: &FlowId| {
            let is_unsure = !right.is_empty() && !right.contains(&flow);
            is_unsure || object.lacks(flow, group) || object.comparison.is_differing(group, flow)
        };
        let without: Vec<FlowId> = object.mirrors.iter().copied().filter(is_without).collect();
        // Who is right now may have been wrong by what counted before. And if no other one is right, it is asked again.
        let suspect = suspect.filter(|suspect| right != [*suspect]);
        right.into_iter().for_each(|flow| self.allow(engine, index, group, flow));
        // Before it is asked for again, which is at once.
        without.into_iter().for_each(|flow| self.avoid(engine, index, group, flow));
        engine.command(self.endpoint, Command::Refetch { object: ObjectId(index as u32), range: place.range, suspect });
    }
}
