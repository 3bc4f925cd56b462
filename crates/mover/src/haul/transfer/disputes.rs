//! Finds out why a group arrived wrong: it was damaged on the way, or a mirror's copy differs.
//!
//! Data is checked against the digests of one mirror, the authority. If a group differs from its digest, every other
//! mirror is asked for its digest of that group. If all agree, the data was damaged on the way and is fetched again. A
//! mirror that most others contradict is left out. If that is the authority itself, or if there is no majority, the
//! data that was verified against the authority cannot be trusted, and the transfer ends.

use inhaul_base::{Span, Time};
use inhaul_store::digest;
use inhaul_transport::{Command, FlowId, ObjectId};

use super::Haul;
use super::votes::{Dispute, Question, Verdict};
use crate::api::error::MoveError;
use crate::api::report::SourceStatus;
use crate::engine::Engine;
use crate::haul::verify::Task;
use crate::session::frame::{Frame, GroupDigest, GroupRun};

/// How long a mirror may take to send its digest of a group, and how long if it has just read and sent that group.
const VOTE_MAX: Span = Span::from_secs(3);
const BRINGER_VOTE_MAX: Span = Span::from_secs(1);
/// A mirror that has delivered this many wrong groups is left out, if it has also delivered more than one of them for
/// each `WRONG_PART` right groups. Datagrams have checksums, so wrong groups were not damaged on the way: the mirror
/// sent them.
const WRONG_MAX: u64 = 3;
const WRONG_PART: u64 = 8;

impl Haul {
    /// A group differs from what the authority said of it: what do the others say?
    pub(super) fn dispute(
        &mut self,
        engine: &mut Engine,
        index: usize,
        group: u64,
        expected: GroupDigest,
    ) -> Result<(), MoveError> {
        let object = &self.objects[index];
        let Some(author) = object.author_of_digest(group).filter(|_| !object.has_failed()) else { return Ok(()) };
        let is_running = |flow: &FlowId| self.mirrors.get(flow).is_some_and(|m| m.status == SourceStatus::Running);
        let waiting = object.mirrors.iter().copied().filter(|flow| *flow != author && is_running(flow)).collect();
        self.disputes.begin(index, group, Dispute::new(author, expected, waiting));
        self.settle_disputes(engine)
    }

    /// An answer to a question of ours, if it is one.
    pub(super) fn take_vote(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        group: u64,
        values: &[GroupDigest],
    ) -> Result<bool, MoveError> {
        let [digest] = values else { return Ok(false) };
        let taken = self.disputes.take_vote(flow, group, *digest);
        self.settle_disputes(engine)?;
        Ok(taken)
    }

    /// Asks what is to be asked, and acts on what is decided.
    pub(super) fn settle_disputes(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        while let Some((index, group, verdict)) = self.disputes.take_settled() {
            match verdict {
                Verdict::Agreed => self.blame(engine, index, group)?,
                Verdict::Undecided => {
                    let detail = "and no majority tells which copy is right: find out, and fetch from that one alone";
                    let error = self.copies_differ(index, group, detail.to_owned());
                    self.fail_whole(engine, index, error)?;
                    continue;
                }
                Verdict::Outvoted(flows) => {
                    for flow in flows {
                        self.leave_out(engine, index, group, flow)?;
                    }
                }
            }
            self.refetch(engine, index, group);
        }
        for (flow, group) in self.disputes.questions(engine.now()) {
            let runs = vec![GroupRun { first: group, count: 1 }];
            engine.send(flow, &Frame::DigestsOf { runs });
        }
        Ok(())
    }

    /// Does not wait for mirrors that owe an answer for long. One that has brought the very group that is wrong, and
    /// does not say what it has of it, is of no use at all.
    pub(super) fn check_votes(&mut self, engine: &mut Engine, now: Time) -> Result<(), MoveError> {
        for (flow, Question { object, group, since }) in self.disputes.asked() {
            let has_brought = self.objects[object].tally.deliverer(group) == Some(flow);
            if now.since(since) <= if has_brought { BRINGER_VOTE_MAX } else { VOTE_MAX } {
                continue;
            }
            if has_brought {
                self.expel(engine, flow, "what it has brought is wrong, and it does not say what it has");
                self.settle_authority(object);
                self.settle_disputes(engine)?;
            } else {
                self.lose(engine, flow, "it does not say what it has")?;
            }
        }
        Ok(())
    }

    /// All mirrors have the same digest, and one has delivered other bytes. Once, that may be damage on the way.
    fn blame(&mut self, engine: &mut Engine, index: usize, group: u64) -> Result<(), MoveError> {
        let object = &self.objects[index];
        // No mirror is to blame for data of an earlier transfer. And a single mirror has no replacement.
        // A mirror that has said that it lacks the file may send anything for it.
        let Some(flow) = object.tally.deliverer(group).filter(|&flow| !object.lacks(flow, group)) else {
            return Ok(());
        };
        let has_others = object.mirrors.iter().any(|&other| other != flow && self.is_running(other));
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(()) };
        mirror.wrong_groups += 1;
        let right = (mirror.placed_bytes / digest::GROUP_BYTES).saturating_sub(mirror.wrong_groups);
        if mirror.wrong_groups >= WRONG_MAX && mirror.wrong_groups * WRONG_PART > right && has_others {
            self.expel(engine, flow, "what it brings is wrong again and again");
            self.settle_authority(index);
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

    /// Goes on without a mirror that has other data than most.
    fn leave_out(&mut self, engine: &mut Engine, index: usize, group: u64, flow: FlowId) -> Result<(), MoveError> {
        let Some(server) = self.mirrors.get(&flow).map(|mirror| mirror.server.clone()) else { return Ok(()) };
        if self.objects[index].author_of_digest(group) == Some(flow) {
            let detail = format!("and it is {server} that differs from the others: fetch again without it");
            let error = self.copies_differ(index, group, detail);
            return self.fail_whole(engine, index, error);
        }
        if self.disconnect(engine, flow, SourceStatus::Different) {
            let (path, start, end) = self.bytes_of(index, group);
            self.warn(format!(
                "going on without {server}: bytes {start} to {end} of its '{path}' are not what the other mirrors have"
            ));
        }
        Ok(())
    }

    fn copies_differ(&self, index: usize, group: u64, detail: String) -> MoveError {
        let (path, start, end) = self.bytes_of(index, group);
        MoveError::CopiesDiffer { path, start, end, detail }
    }

    /// A group for people: its file, its first byte there and the one past its last.
    fn bytes_of(&self, index: usize, group: u64) -> (String, u64, u64) {
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
        engine.command(self.endpoint, Command::Refetch { object: ObjectId(index as u32), range: place.range, suspect });
        // Of what is fetched again, the transport forgets who was to be avoided before.
        for &flow in object.mirrors.iter().filter(|&&flow| object.lacks(flow, group)) {
            engine.command(self.endpoint, Command::Avoid { flow, range: place.range });
        }
    }
}
