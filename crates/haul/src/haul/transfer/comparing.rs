//! Has all mirrors say what they have, settles which bytes are right, and acts on it.
//!
//! Each mirror is asked for the digests of all groups beside the transfer. The verifier hears of a group's digest when
//! the mirrors that are waited for have spoken ([`Comparison`](super::comparison::Comparison)), so nothing is verified by
//! the word of one mirror while another one says something else. A mirror that has other bytes of a group than most is
//! not asked for that group; one that differs in many is left out. Without a majority the file does not land. Of a file
//! whose hash is known, that decides ([`super::pinned`]).
//!
//! A file's own hash follows from its groups. A group that does not match is fetched again (`Command::Refetch`), but
//! not from mirrors that differ (`Command::Avoid`). Reads vote in `read/src/votes.rs`.

use inhaul_base::{ByteRange, Span, Time};
use inhaul_transport::{Command, FlowId};

use super::comparison::{Next, Patience, Verdict, end_of_patience};
use super::object::Object;
use super::{Haul, Mirror};
use crate::haul::verify::Task;
use inhaul_engine::engine::Engine;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::report::SourceStatus;
use inhaul_session::session::agreement::{DIFFERENT_MAX, SILENCE_MAX, no_majority};
use inhaul_session::session::frame::{Frame, GroupDigest};

/// How long the mirrors of a data set may all be silent that are asked for the next digests: they hash far more in a
/// second.
const HOPELESS: Span = Span::from_secs(60);
impl Haul {
    /// Keeps a window of digests asked for from each mirror.
    pub(super) fn ask_digests(&mut self, engine: &mut Engine) {
        let now = engine.now();
        for object in &mut self.objects {
            if object.done || object.has_failed() {
                continue;
            }
            let (come, count) = (object.groups_come(), object.plan.count());
            let mut end = None;
            for at in 0..object.mirrors.len() {
                let flow = object.mirrors[at];
                let is_running = self.mirrors.get(&flow).is_some_and(|mirror| mirror.status == SourceStatus::Running);
                if !is_running || !object.comparison.is_to_ask(flow, come, count) {
                    continue;
                }
                let end = *end.get_or_insert_with(|| object.digests_wanted());
                let Some((_, asked)) = object.comparison.progress(flow).filter(|(_, asked)| *asked < end) else {
                    continue;
                };
                let (runs, asked) = object.runs_between(asked, end);
                object.comparison.note_asked(flow, asked, come, now);
                if runs.is_empty() {
                    object.comparison.pass(flow, asked);
                } else {
                    engine.send(flow, &Frame::DigestsOf { runs });
                }
            }
        }
    }

    /// A mirror sends digests.
    pub(super) fn on_digests(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        first_group: u64,
        values: &[GroupDigest],
    ) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get(&flow).filter(|mirror| mirror.status == SourceStatus::Running) else {
            return Ok(());
        };
        let index = mirror.object;
        for (group, &value) in (first_group..).zip(values) {
            let object = &mut self.objects[index];
            object.pass_unspoken(flow);
            let expected = object.next_of(flow);
            if expected == Some(group) {
                if let Some(verdict) = object.comparison.take(flow, value, engine.now()) {
                    self.on_late(engine, index, group, verdict)?;
                }
            } else if !object.is_given_up(group) && !object.lacks(flow, group) {
                return self.give_up(engine, flow, "it sent digests that were not asked for");
            }
        }
        self.objects[index].pass_unspoken(flow);
        self.settle(engine, index)
    }

    /// A mirror has brought the digests of all groups with its description.
    pub(super) fn take_all(
        &mut self,
        engine: &mut Engine,
        index: usize,
        flow: FlowId,
        digests: &[GroupDigest],
    ) -> Result<(), MoveError> {
        let now = engine.now();
        while let object = &mut self.objects[index]
            && let Some(group) = object.next_of_all(flow)
            && let Some(&digest) = digests.get(group as usize)
        {
            if let Some(verdict) = object.comparison.take(flow, digest, now) {
                self.on_late(engine, index, group, verdict)?;
            }
        }
        self.settle(engine, index)
    }

    /// Settles all groups that can be, and tells the verifier.
    pub(super) fn settle(&mut self, engine: &mut Engine, index: usize) -> Result<(), MoveError> {
        if self.objects[index].mirrors.len() < self.objects[index].first_mirrors {
            return Ok(());
        }
        let patience = self.patience(engine.now(), index);
        let mut accepted = Vec::new();
        let (mut verdicts, mut pinned) = (Vec::new(), Vec::new());
        let mut next_group = 0;
        loop {
            let object = &mut self.objects[index];
            let position = object.comparison.next_to_settle();
            let Some(group) = object.group_at(position) else { break };
            if object.is_given_up(group) {
                let skipped = object.rest_of_file(group, position);
                object.comparison.skip(position + skipped);
                continue;
            }
            let file = object.groups.place(group).map_or(0, |place| place.file);
            let lacking = object.failing.lacking.get(&file).map(|(flows, _)| flows);
            let lacks = |flow: FlowId| lacking.is_some_and(|flows| flows.contains(&flow));
            let digest = match object.comparison.next(patience, lacks) {
                Next::Wait => break,
                Next::Verdict(verdict) if object.is_pinned(file) => {
                    pinned.extend(object.note_votes(group, position, &verdict).then_some(group));
                    verdict.first()
                }
                Next::Verdict(Verdict::Most(digest, others)) => {
                    verdicts.extend((!others.is_empty()).then_some((group, others)));
                    Some(digest)
                }
                Next::Verdict(Verdict::Undecided(votes)) => {
                    let error = self.copies_differ(index, group, &votes);
                    self.give_up_file(index, file, error);
                    None
                }
            };
            let Some(digest) = digest else { continue };
            self.objects[index].comparison.settle(digest);
            if group != next_group {
                self.verifier.expect(index, next_group, &mut accepted);
            }
            accepted.push(digest);
            next_group = group + 1;
        }
        self.verifier.expect(index, next_group, &mut accepted);
        pinned.into_iter().for_each(|group| self.avoid_others(engine, index, group));
        if !self.roster.has_unheard(self.objects[index].sought.request) {
            self.objects[index].comparison.forget_passed();
        }
        for (group, others) in verdicts {
            for flow in others {
                self.outvote(engine, index, group, flow)?;
            }
        }
        Ok(())
    }

    fn patience(&self, now: Time, index: usize) -> Patience {
        let object = &self.objects[index];
        let end = object.complete_since.map(|complete| end_of_patience(self.started, complete));
        let may_be_more = self.roster.has_unheard(object.sought.request);
        Patience { now, end, may_be_more, awaits_more: may_be_more && now.since(self.started) <= SILENCE_MAX }
    }

    /// Does not wait for mirrors for longer than their patience; and not at all for those without which nothing can be
    /// settled any more.
    pub(super) fn check_digests(&mut self, engine: &mut Engine, now: Time) -> Result<(), MoveError> {
        for index in 0..self.objects.len() {
            if self.objects[index].done || self.objects[index].has_failed() {
                continue;
            }
            self.settle(engine, index)?;
            self.trust_if_none_speaks(now, index);
            self.give_up_doubted(now, index);
            for flow in self.objects[index].comparison.hopeless(now, HOPELESS) {
                self.lose(engine, flow, "it sends no digests")?;
            }
            self.give_up_what_none_agrees_on(index);
        }
        Ok(())
    }

    /// If no mirror can say anything of the data set's groups, what comes counts as it is. A mirror that could and is
    /// being tried is waited for, when all data has come, for as long as a data set without a mirror would be.
    fn trust_if_none_speaks(&mut self, now: Time, index: usize) {
        let object = &self.objects[index];
        if object.is_trusted || object.comparison.has_witnesses() || !self.has_running(index) {
            return;
        }
        if self.roster.has_session_away(object.sought.request) {
            let complete = object.complete_since.map(|complete| complete.max(self.started));
            if complete.is_none_or(|complete| now.since(complete) < self.roster.retry_for()) {
                return;
            }
            self.warn(
                "all data has come, and no mirror is back that can say whether it is right: it counts as it is, NOT \
                 VERIFIED"
                    .to_owned(),
            );
        }
        self.objects[index].is_trusted = true;
        self.verifier.tell(Task::Trust { object: index });
    }

    /// Gives up files of which it is doubted what counts, if nobody is waited for who may decide.
    fn give_up_doubted(&mut self, now: Time, index: usize) {
        let patience = self.patience(now, index);
        let Object { comparison, plan, failing, .. } = &mut self.objects[index];
        let group_at = |position| plan.between(position, position + 1).next().map(|run| run.first);
        let is_unwanted =
            |position| group_at(position).is_none_or(|group| failing.groups.contains(ByteRange::at(group, 1)));
        for position in comparison.take_doubted(patience, is_unwanted) {
            let object = &self.objects[index];
            let Some(group) = object.group_at(position).filter(|&group| !object.is_given_up(group)) else { continue };
            let Some(place) = object.groups.place(group) else { continue };
            let error = self.copies_differ(index, group, &object.comparison.votes(position));
            self.give_up_file(index, place.file, error);
        }
    }

    /// A mirror has other bytes of a group than what counts: it is not asked for it; and not at all, if it has many.
    pub(super) fn outvote(
        &mut self,
        engine: &mut Engine,
        index: usize,
        group: u64,
        flow: FlowId,
    ) -> Result<(), MoveError> {
        let object = &mut self.objects[index];
        if !object.comparison.note_differing(group, flow) {
            return Ok(());
        }
        let is_running = self.mirrors.get(&flow).is_some_and(|mirror| mirror.status == SourceStatus::Running);
        let (path, start, end) = self.bytes_of(index, group);
        let Some(mirror) = self.mirrors.get_mut(&flow).filter(|_| is_running) else { return Ok(()) };
        mirror.different_groups += 1;
        let (count, server) = (mirror.different_groups, mirror.server.clone());
        let what = format!("bytes {start} to {end} of its '{path}' are not what the other mirrors have");
        if count > DIFFERENT_MAX {
            if self.disconnect(engine, flow, SourceStatus::Different) {
                self.warn(format!("going on without {server}: {what}, like {DIFFERENT_MAX} other parts before"));
            }
            return self.give_up_if_alone(engine, index, flow);
        }
        self.warn(format!("{server} differs: {what}; they come from the others"));
        self.avoid(engine, index, group, flow);
        Ok(())
    }

    /// Has a mirror not asked for a group.
    pub(super) fn avoid(&mut self, engine: &mut Engine, index: usize, group: u64, flow: FlowId) {
        if let Some(range) = self.range_asked(index, group, flow) {
            engine.command(self.endpoint, Command::Avoid { flow, range });
        }
    }

    /// Has a mirror asked for a group again.
    pub(super) fn allow(&mut self, engine: &mut Engine, index: usize, group: u64, flow: FlowId) {
        if let Some(range) = self.range_asked(index, group, flow) {
            engine.command(self.endpoint, Command::Allow { flow, range });
        }
    }

    /// The bytes of a group, if a mirror may be asked for them.
    fn range_asked(&self, index: usize, group: u64, flow: FlowId) -> Option<ByteRange> {
        self.mirrors.get(&flow).filter(|mirror| mirror.deferred.is_none() && !mirror.disconnected)?;
        self.objects[index].groups.place(group).map(|place| place.range).filter(|range| !range.is_empty())
    }

    /// A mirror was left out: others may be lost already.
    fn give_up_if_alone(&mut self, engine: &mut Engine, index: usize, flow: FlowId) -> Result<(), MoveError> {
        if self.has_running(index) || self.has_away(index) {
            return Ok(());
        }
        let server = self.mirrors.get(&flow).map(|mirror| mirror.server.clone());
        let Some(server) = server else { return Ok(()) };
        let error = self.all_lost(index, &server, "what it has is not what the other mirrors have, which are lost");
        self.fail_whole(engine, index, error)
    }

    /// A mirror speaks of a group that was settled without it, and has something else.
    fn on_late(&mut self, engine: &mut Engine, index: usize, group: u64, verdict: Verdict) -> Result<(), MoveError> {
        let object = &mut self.objects[index];
        let (Some(place), Some(position)) = (object.groups.place(group), object.plan.position(group)) else {
            return Ok(());
        };
        if object.is_pinned(place.file) {
            // What it says is of use if what counts turns out not to be what is known of the file.
            if object.note_votes(group, position, &verdict) {
                self.avoid_others(engine, index, group);
            }
            return Ok(());
        }
        let settled = object.comparison.settled_digest(position);
        match verdict {
            Verdict::Most(digest, others) if settled == Some(digest) => {
                others.into_iter().try_for_each(|flow| self.outvote(engine, index, group, flow))
            }
            Verdict::Most(digest, others) => {
                object.comparison.correct(position, digest);
                self.verifier.tell(Task::Correct { object: index, group, digest: Some(digest) });
                others.into_iter().try_for_each(|flow| self.outvote(engine, index, group, flow))
            }
            Verdict::Undecided(_) => {
                object.comparison.doubt(position, engine.now());
                self.verifier.tell(Task::Correct { object: index, group, digest: None });
                Ok(())
            }
        }
    }

    /// Mirrors have contradicted what counted for a group of a file that is verified and has its name, or nearly; most
    /// of them, if that is `decided`.
    pub(super) fn on_too_late(&mut self, index: usize, group: u64, decided: bool) -> Result<(), MoveError> {
        let (path, start, end) = self.bytes_of(index, group);
        let detail = "as was said after the file had got its name: remove it, and fetch it again".to_owned();
        let error = MoveError::CopiesDiffer { path, start, end, detail };
        if decided {
            return self.note_failure(index, error);
        }
        self.warn(error.to_string());
        Ok(())
    }

    /// The verifier gives a file up; what has come of it is kept.
    pub(super) fn give_up_file(&mut self, index: usize, file: usize, error: MoveError) {
        self.objects[index].give_up_file(file);
        self.verifier.writer().tell(Task::GiveUp { object: index, file, error, keep: true });
    }

    /// Gives up files of which no mirror that is left has what most had.
    fn give_up_what_none_agrees_on(&mut self, index: usize) {
        if self.has_away(index) || !self.has_running(index) {
            return;
        }
        let object = &self.objects[index];
        let has = |flow: FlowId, group: u64| {
            self.is_running(flow) && !object.comparison.is_differing(group, flow) && !object.lacks(flow, group)
        };
        let is_lost =
            |group: &u64| !object.is_given_up(*group) && !object.mirrors.iter().any(|&flow| has(flow, *group));
        let lost: Vec<u64> = object.comparison.differing().filter(is_lost).collect();
        for group in lost {
            let Some(place) = self.objects[index].groups.place(group) else { continue };
            let (path, start, end) = self.bytes_of(index, group);
            let detail = "and the mirrors that agree are lost: try again when they are back".to_owned();
            self.give_up_file(index, place.file, MoveError::CopiesDiffer { path, start, end, detail });
        }
    }

    /// The mirrors do not agree, and there is no majority: who says what.
    fn copies_differ(&self, index: usize, group: u64, votes: &[(FlowId, GroupDigest)]) -> MoveError {
        let (path, start, end) = self.bytes_of(index, group);
        let server = |flow: &FlowId| self.mirrors.get(flow).map(|mirror| mirror.server.to_string()).unwrap_or_default();
        let detail = no_majority(votes.iter().map(|(flow, digest)| (server(flow), digest)));
        MoveError::CopiesDiffer { path, start, end, detail }
    }

    /// Bytes that were not compared with what a mirror has.
    pub(crate) fn uncompared_bytes(&self, flow: FlowId) -> u64 {
        let object = self.mirrors.get(&flow).map(|mirror| &self.objects[mirror.object]);
        object.filter(|object| object.mirrors.len() > 1).map_or(0, |object| object.uncompared_bytes(flow))
    }

    /// Says which mirrors were not compared with the others, if there were others.
    pub(super) fn tell_uncompared(&mut self) {
        let mut told = Vec::new();
        for object in self.objects.iter().filter(|object| object.mirrors.len() > 1 && !object.has_failed()) {
            for flow in &object.mirrors {
                let bytes = object.uncompared_bytes(*flow);
                // What has no digests cannot say any.
                let is_asked = |mirror: &&Mirror| bytes > 0 && mirror.server.url.is_none();
                if let Some(mirror) = self.mirrors.get(flow).filter(is_asked) {
                    let of = object.plan_bytes_from(0);
                    told.push(format!(
                        "{} was not compared with the other mirrors: of {bytes} of {of} bytes it did not say in time \
                         what it has",
                        mirror.server
                    ));
                }
            }
        }
        told.into_iter().for_each(|text| self.warn(text));
    }
}

impl Object {
    /// How many groups of the plan have come, or more.
    pub(super) fn groups_come(&self) -> u64 {
        self.verified_groups.max(self.come_groups).min(self.plan.count())
    }

    /// The group at a position of the plan.
    fn group_at(&self, position: u64) -> Option<u64> {
        self.plan.between(position, position + 1).next().map(|run| run.first)
    }

    /// The group of which a mirror speaks next, of those that it was asked for.
    fn next_of(&self, flow: FlowId) -> Option<u64> {
        let (next, asked) = self.comparison.progress(flow)?;
        self.group_at(next).filter(|_| next < asked)
    }

    /// The same of all.
    fn next_of_all(&self, flow: FlowId) -> Option<u64> {
        self.group_at(self.comparison.progress(flow)?.0)
    }

    /// How many positions from this one on are of the same file as their group.
    fn rest_of_file(&self, group: u64, position: u64) -> u64 {
        let file = self.groups.place(group).map_or(0, |place| place.file);
        let run = self.plan.between(position, u64::MAX).next().map_or(1, |run| run.count);
        run.min(self.groups.of_file(file).end - group).max(1)
    }

    /// Passes over digests that a mirror was asked for and will not send.
    pub(super) fn pass_unspoken(&mut self, flow: FlowId) {
        while let Some((next, asked)) = self.comparison.progress(flow)
            && let Some(group) = self.next_of(flow)
            && (self.is_given_up(group) || self.lacks(flow, group))
        {
            self.comparison.pass(flow, (next + self.rest_of_file(group, next)).min(asked));
        }
    }

    /// Bytes of the plan from a position on.
    pub(super) fn plan_bytes_from(&self, position: u64) -> u64 {
        let bytes = |first: u64, count: u64| {
            let (first, last) = (self.groups.place(first)?, self.groups.place(first + count - 1)?);
            Some(last.range.end.saturating_sub(first.range.start))
        };
        let runs = self.plan.between(position, u64::MAX).filter(|run| run.count > 0);
        runs.filter_map(|run| bytes(run.first, run.count)).fold(0, u64::saturating_add)
    }

    /// Bytes of which a mirror has not said what it has.
    pub(super) fn uncompared_bytes(&self, flow: FlowId) -> u64 {
        self.comparison.progress(flow).map_or_else(|| self.plan_bytes_from(0), |(next, _)| self.plan_bytes_from(next))
    }
}
