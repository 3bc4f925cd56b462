//! Files that do not land while the rest of their data set does: their mirrors cannot read them, or they arrive wrong
//! too often.
//!
//! A mirror that cannot read a file says so. It is not asked for the file while another mirror can send it. If no
//! mirror can, or if the file arrived wrong too often, the verifier gives it up and says how much of it was verified.
//! Then no more of it is requested.

use std::collections::BTreeSet;

use inhaul_base::ByteRange;
use inhaul_store::printable;
use inhaul_transport::{Command, FlowId, ObjectId};

use super::Haul;
use super::object::Object;
use crate::haul::verify::Task;
use inhaul_engine::engine::Engine;
use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::FileProblem;

/// Most files that do not come and are named; the others are counted.
const NAMED_MAX: usize = 16;

impl Object {
    /// Whether a group is one of a file that was given up: its digest may come or not.
    pub(super) fn is_given_up(&self, group: u64) -> bool {
        self.failing.groups.contains(ByteRange::at(group, 1))
    }

    /// Whether the mirror has said that it cannot send the file of a group.
    pub(super) fn lacks(&self, flow: FlowId, group: u64) -> bool {
        let file = self.groups.place(group).map(|place| place.file);
        file.and_then(|file| self.failing.lacking.get(&file)).is_some_and(|(flows, _)| flows.contains(&flow))
    }

    /// Nothing is waited for of a file any more.
    pub(super) fn give_up_file(&mut self, file: usize) {
        let numbers = self.groups.of_file(file);
        self.failing.lacking.remove(&file);
        self.failing.groups.insert(ByteRange::new(numbers.start, numbers.end));
        self.comparison.forget_differing(numbers);
        for at in 0..self.mirrors.len() {
            self.pass_unspoken(self.mirrors[at]);
        }
    }
}

impl Haul {
    /// A mirror cannot send a file: other mirrors have to, or the file is given up.
    pub(super) fn on_file_failed(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        file: u64,
        problem: FileProblem,
    ) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get(&flow) else { return Ok(()) };
        let (server, index) = (mirror.server.clone(), mirror.object);
        let object = &mut self.objects[index];
        let file = usize::try_from(file).ok().filter(|&file| file < object.groups.manifest().entries().len());
        let Some(file) = file else {
            return self.give_up(engine, flow, "it spoke of a file that there is not");
        };
        let is_given_up = object.is_given_up(object.groups.of_file(file).start);
        if !object.landing.lands(file) || object.finished.contains_key(&file) || is_given_up {
            return Ok(());
        }
        let (flows, _) = object.failing.lacking.entry(file).or_insert_with(|| (BTreeSet::new(), problem));
        let is_news = flows.insert(flow);
        let range = object.groups.manifest().file_range(file).unwrap_or_default();
        let path = printable(&object.groups.manifest().entries()[file].path);
        object.pass_unspoken(flow);
        if self.who_has(index, file).is_none() {
            self.give_up_lacking(index, file);
        } else if is_news {
            self.warn(format!("{server} {}: '{path}'; fetching it from others", said(problem)));
            if !range.is_empty() {
                self.begin_flows(engine, index);
                engine.command(self.endpoint, Command::Avoid { flow, range });
            }
        }
        self.settle(engine, index)
    }

    /// A mirror that takes part and has not said that it cannot send the file.
    fn who_has(&self, index: usize, file: usize) -> Option<FlowId> {
        let object = &self.objects[index];
        let lacks = |flow: &FlowId| object.failing.lacking.get(&file).is_some_and(|(flows, _)| flows.contains(flow));
        object.mirrors.iter().copied().find(|&flow| self.is_running(flow) && !lacks(&flow))
    }

    /// A mirror was lost: gives up files that only it could send.
    pub(super) fn give_up_what_nobody_has(&mut self, index: usize) {
        let lacking: Vec<usize> = self.objects[index].failing.lacking.keys().copied().collect();
        for file in lacking {
            if self.who_has(index, file).is_none() {
                self.give_up_lacking(index, file);
            }
        }
    }

    /// No mirror can send a file: has the verifier give it up, if it is not verified yet.
    fn give_up_lacking(&mut self, index: usize, file: usize) {
        let object = &mut self.objects[index];
        let Some(&(_, problem)) = object.failing.lacking.get(&file) else { return };
        object.give_up_file(file);
        let path = printable(&object.groups.manifest().entries()[file].path);
        let error = MoveError::SourceFile { path, problem };
        // Behind all that was written before.
        self.verifier.writer().tell(Task::GiveUp { object: index, file, error, keep: false });
    }

    /// The verifier has given a file up: nothing more of it is asked for.
    pub(super) fn take_failure(
        &mut self,
        engine: &mut Engine,
        index: usize,
        file: usize,
        groups_left: u64,
        error: MoveError,
    ) -> Result<(), MoveError> {
        let object = &mut self.objects[index];
        let numbers = object.groups.of_file(file);
        object.give_up_file(file);
        object.verified_groups += groups_left;
        object.tally.drop_all(numbers.clone());
        let held: Vec<u64> = object.held.range(numbers.clone()).copied().collect();
        for group in held {
            object.drop_held(group);
        }
        let range = object.groups.manifest().file_range(file).unwrap_or_default();
        if !range.is_empty() {
            engine.command(self.endpoint, Command::Unwant { object: ObjectId(index as u32), range });
        }
        self.note_failure(index, error)
    }

    /// A file has failed, and is to be told of; all of the data set, if it is the last one.
    pub(super) fn note_failure(&mut self, index: usize, error: MoveError) -> Result<(), MoveError> {
        let object = &mut self.objects[index];
        let failing = &mut object.failing;
        failing.count += 1;
        if failing.count == object.files {
            failing.texts.clear();
            failing.count = 0;
            return self.fail(index, error);
        }
        if failing.texts.len() < NAMED_MAX {
            failing.texts.push(error.to_string());
            self.warn(format!("going on with the other files: {error}"));
        }
        Ok(())
    }

    /// No more of a data set is asked for, and none of it can be relied on.
    pub(super) fn fail_whole(&mut self, engine: &mut Engine, index: usize, error: MoveError) -> Result<(), MoveError> {
        let range = ByteRange::new(0, self.objects[index].size());
        engine.command(self.endpoint, Command::Unwant { object: ObjectId(index as u32), range });
        self.fail(index, error)
    }
}

/// A mirror's statement about a file, in words.
fn said(problem: FileProblem) -> &'static str {
    match problem {
        FileProblem::Changed => "has another version of a file by now, or none",
        FileProblem::Unreadable => "cannot read a file",
    }
}
