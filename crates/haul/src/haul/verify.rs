//! The verifier: reads groups back, compares their digests with the source's, and has whole files named.
//!
//! It has its own thread, so that hashing does not delay the data.

mod known;
mod naming;
mod recheck;
mod sync;
mod task;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use inhaul_store::checksums::Algorithm;
use inhaul_store::{HeldGroup, Landing, digest};
use inhaul_udp::Waker;

pub(crate) use self::known::describe_weak;
use self::naming::{Ready, Told};
use self::recheck::{Held, Recheck};
use self::sync::Syncer;
use self::task::report;
pub(crate) use self::task::{Finding, Task};
pub(crate) use self::writer::Writer;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::request::KnownSums;
use inhaul_session::session::frame::GroupDigest;
use inhaul_session::session::groups::Groups;
use inhaul_session::system::threads;

/// How often a group may arrive wrong.
const TRIES_MAX: u32 = 3;
/// The data thread is woken once for this many findings, or when no work is left: there may be tens of thousands of
/// small files a second.
const FINDINGS_TOGETHER: u32 = 256;

/// An object that is to be verified.
pub(crate) struct ToVerify {
    pub(crate) groups: Groups,
    pub(crate) landing: Arc<Landing>,
    /// Expected checksums of its files from a list, beside the source's digests.
    pub(crate) sums: KnownSums,
    /// Whether files get their hash also when groups of theirs lie in holes: then these must be hashed, which
    /// verifying them does not take.
    pub(crate) hash_holes: bool,
    /// Whether another digest may come to count than the one that is told first: there are several mirrors.
    pub(crate) has_mirrors: bool,
}

/// The verifier, seen from the data thread. Dropping it ends its thread, once what it is doing is done.
pub(crate) struct Verifier {
    tasks: Option<Sender<Task>>,
    findings: Receiver<Finding>,
    recheck: Option<Recheck>,
    writer: Writer,
    /// Whatever is left to do is not wanted any more.
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Verifier {
    /// Starts a verifier for objects that land there; it calls `waker` when it has found something. What the landings
    /// have [resumed](Landing::resumed) is read back meanwhile.
    pub(crate) fn start(objects: Vec<ToVerify>, waker: Waker) -> Result<Self, MoveError> {
        let (tasks, incoming) = channel();
        let (outgoing, findings) = channel();
        let held =
            objects.iter().enumerate().flat_map(|(index, object)| held_by(index, &object.groups, &object.landing));
        let held: Vec<Held> = held.collect();
        let landings: Vec<_> = objects.iter().map(|object| Arc::clone(&object.landing)).collect();
        let objects = objects.into_iter().map(Object::new).collect();
        let failed = {
            let (outgoing, waker) = (outgoing.clone(), waker.clone());
            move |error| report(&outgoing, &waker, Finding::Failed(error))
        };
        let syncer = Syncer::start(landings.clone(), failed.clone())?;
        let (writer, writing) = Writer::start(tasks.clone(), failed)?;
        let (ready, naming) = naming::start(landings.clone(), outgoing.clone(), waker.clone())?;
        let ending: Arc<AtomicBool> = Arc::default();
        let worker = Worker {
            objects,
            ready,
            buffer: Vec::new(),
            findings: outgoing,
            unheard: 0,
            waker,
            syncer,
            ending: Arc::clone(&ending),
        };
        let verifying = threads::spawn_helper("inhaul-verify", move || worker.run(&incoming))?;
        let recheck = Recheck::start(held, &landings, &tasks)?;
        let threads = vec![writing, verifying, naming];
        Ok(Self { tasks: Some(tasks), findings, recheck: Some(recheck), writer, ending, threads })
    }

    /// What writes for it: through this it must be told of groups that have come.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn tell(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // The verifier may have failed, which it has said.
            let _ = tasks.send(task);
        }
    }

    /// Tells it the source's digests of the groups before number `end`, if there are any, and takes them away.
    pub(crate) fn expect(&self, object: usize, end: u64, values: &mut Vec<GroupDigest>) {
        if !values.is_empty() {
            let first_group = end - values.len() as u64;
            self.tell(Task::Digests { object, first_group, values: std::mem::take(values) });
        }
    }

    pub(crate) fn next_finding(&self) -> Option<Finding> {
        self.findings.try_recv().ok()
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        self.writer.end();
        self.tasks = None;
        self.recheck = None;
        for thread in self.threads.drain(..) {
            // One that panicked has nothing to say.
            let _ = thread.join();
        }
    }
}

/// The groups of an object that an earlier transfer has left; empty ones are not looked at, for they need not come.
fn held_by(object: usize, groups: &Groups, landing: &Landing) -> Vec<Held> {
    let of = |held: &HeldGroup| (object, groups.of_file(held.file).start + held.group, *held);
    let has_bytes = |(_, number, _): &Held| groups.place(*number).is_some_and(|place| !place.range.is_empty());
    landing.resumed().groups.iter().map(of).filter(has_bytes).collect()
}

/// An object on its way to being verified.
struct Object {
    groups: Groups,
    landing: Arc<Landing>,
    sums: KnownSums,
    hash_holes: bool,
    has_mirrors: bool,
    /// No source has digests: what came is what there is.
    is_trusted: bool,
    /// Digests of the source for groups that are not verified yet.
    expected: BTreeMap<u64, GroupDigest>,
    /// Our own digests of groups whose digest the source has not sent yet.
    found: BTreeMap<u64, GroupDigest>,
    /// Of these groups, the ones that an earlier transfer has left.
    resumed: BTreeSet<u64>,
    tries: BTreeMap<u64, u32>,
    /// Files that have some verified groups.
    files: BTreeMap<usize, FileDigests>,
    /// How far each file is.
    states: Vec<FileState>,
}

/// How far a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// It is being verified.
    Open,
    /// All of it is verified.
    Whole,
    /// It does not land.
    GivenUp,
}

struct FileDigests {
    /// Groups that are not verified yet.
    left: u64,
    /// Its hash in the making, if it is wanted.
    tree: Option<digest::Tree>,
    /// What the verified ones come to.
    sum: digest::Sum,
    /// The verified ones, by their number in the file, if another digest may come to count.
    values: Option<BTreeMap<u64, GroupDigest>>,
}

impl Object {
    fn new(ToVerify { groups, landing, sums, hash_holes, has_mirrors }: ToVerify) -> Self {
        let states = vec![FileState::Open; groups.manifest().entries().len()];
        Self {
            groups,
            landing,
            sums,
            hash_holes,
            has_mirrors,
            is_trusted: false,
            expected: BTreeMap::new(),
            found: BTreeMap::new(),
            resumed: BTreeSet::new(),
            tries: BTreeMap::new(),
            files: BTreeMap::new(),
            states,
        }
    }

    /// Whether a group is one of a file that does not land.
    fn is_given_up(&self, group: u64) -> bool {
        self.groups.place(group).is_some_and(|place| self.states[place.file] == FileState::GivenUp)
    }

    /// A group's bytes have come: its digest.
    fn digest(&self, group: u64, buffer: &mut Vec<u8>) -> Result<GroupDigest, MoveError> {
        let place =
            self.groups.place(group).ok_or_else(|| MoveError::Internal(format!("there is no group {group}")))?;
        self.landing.read_group(place.file, place.group, buffer).map_err(MoveError::from)?;
        Ok(digest::group_digest(self.groups.manifest().entries()[place.file].size, place.group, buffer))
    }

    /// The state of a file without verified groups.
    fn begin_file(&self, file: usize) -> FileDigests {
        let wants_hash = |(algorithm, _): &(Algorithm, Vec<u8>)| *algorithm == Algorithm::Blake3;
        let is_hashed = self.hash_holes
            || self.groups.holes_of_file(file).next().is_none()
            || self.sums.get(&file).is_some_and(|sums| sums.iter().any(wants_hash));
        let size = self.groups.manifest().entries()[file].size;
        let tree = is_hashed.then(|| digest::Tree::new(size));
        FileDigests {
            left: self.groups.data_groups(file),
            tree,
            sum: digest::Sum::default(),
            values: self.has_mirrors.then(BTreeMap::new),
        }
    }

    /// A group is verified: what there is of its file then, with its hash if all of it was hashed.
    fn take(&mut self, file: usize, group: u64, value: GroupDigest) -> (FileDigests, Option<digest::Hash>) {
        let mut digests = self.files.remove(&file).unwrap_or_else(|| self.begin_file(file));
        digests.left -= 1;
        digests.sum.add(&value);
        if let Some(values) = &mut digests.values {
            values.insert(group, value);
        }
        let hash = digests.tree.as_mut().and_then(|tree| tree.insert(group, value));
        (digests, hash)
    }

    /// A group is not verified any more: its digest, if it was.
    fn take_back(&mut self, file: usize, group: u64) -> Option<GroupDigest> {
        let mut digests = self.files.remove(&file)?;
        let found = digests.values.as_mut().and_then(|values| values.remove(&group));
        if found.is_some() {
            let values = digests.values.take().unwrap_or_default();
            digests = self.begin_file(file);
            for (&group, value) in &values {
                digests.left -= 1;
                digests.sum.add(value);
                // It is not whole, so there is no hash yet.
                digests.tree.as_mut().and_then(|tree| tree.insert(group, *value));
            }
            digests.values = Some(values);
        }
        self.files.insert(file, digests);
        found
    }

    /// Hashes the groups of a file that lie in holes, unless `ending`: its hash, if they were all that was left to
    /// hash.
    fn hash_holes_of(&self, file: usize, tree: &mut digest::Tree, ending: &AtomicBool) -> Option<digest::Hash> {
        let size = self.groups.manifest().entries()[file].size;
        let mut groups = self.groups.holes_of_file(file).flatten().take_while(|_| !ending.load(Ordering::Relaxed));
        groups.find_map(|group| tree.insert(group, digest::zero_group_digest(size, group)))
    }
}

struct Worker {
    objects: Vec<Object>,
    /// To where files get their names.
    ready: Sender<Told>,
    buffer: Vec<u8>,
    findings: Sender<Finding>,
    /// Findings that the data thread was not woken for yet.
    unheard: u32,
    waker: Waker,
    syncer: Syncer,
    ending: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self, tasks: &Receiver<Task>) {
        if let Err(error) = self.work(tasks) {
            report(&self.findings, &self.waker, Finding::Failed(error));
        }
    }

    fn work(&mut self, tasks: &Receiver<Task>) -> Result<(), MoveError> {
        self.begin()?;
        while let Some(task) = self.next(tasks) {
            match task {
                Task::GiveUp { object, file, error, keep } => {
                    if keep {
                        self.keep_found(object, file)?;
                    }
                    self.give_up(object, file, error, keep);
                }
                Task::Correct { object, group, digest } => self.correct(object, group, digest)?,
                Task::Trust { object } => self.trust(object)?,
                Task::Whole { object, group } | Task::Held { object, group, .. }
                    if self.objects[object].is_given_up(group) => {}
                Task::Whole { object, group } => self.on_whole(object, group)?,
                Task::Held { object, group, digest: Some(digest) } => {
                    self.objects[object].resumed.insert(group);
                    self.on_found(object, group, digest)?;
                }
                Task::Held { object, group, digest: None } => self.report(Finding::Gone { object, group }),
                Task::Digests { object, first_group, values } => {
                    for (group, value) in (first_group..).zip(values) {
                        if !self.objects[object].is_given_up(group) {
                            self.on_expected(object, group, value)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The next task; `None` when there will be none, or what is left is not wanted.
    fn next(&mut self, tasks: &Receiver<Task>) -> Option<Task> {
        if self.is_ending() {
            return None;
        }
        match tasks.try_recv() {
            Ok(task) => Some(task),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                self.wake();
                tasks.recv().ok()
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// No byte will come for empty files, and for those that are one hole.
    fn begin(&mut self) -> Result<(), MoveError> {
        for object in 0..self.objects.len() {
            for file in 0..self.objects[object].groups.manifest().entries().len() {
                let Object { groups, landing, .. } = &self.objects[object];
                if self.is_ending() {
                    return Ok(());
                } else if !landing.lands(file) {
                } else if groups.manifest().entries()[file].size == 0 {
                    let number = groups.of_file(file).start;
                    self.on_whole(object, number)?;
                } else if groups.data_groups(file) == 0 {
                    let digests = self.objects[object].begin_file(file);
                    self.on_file(object, file, digests, None)?;
                }
            }
        }
        Ok(())
    }

    fn on_whole(&mut self, object: usize, group: u64) -> Result<(), MoveError> {
        let found = self.objects[object].digest(group, &mut self.buffer)?;
        self.on_found(object, group, found)
    }

    fn on_found(&mut self, object: usize, group: u64, found: GroupDigest) -> Result<(), MoveError> {
        match self.objects[object].expected.remove(&group) {
            Some(expected) => self.compare(object, group, found, expected),
            None if self.objects[object].is_trusted => self.compare(object, group, found, found),
            None => {
                self.objects[object].found.insert(group, found);
                Ok(())
            }
        }
    }

    fn trust(&mut self, object: usize) -> Result<(), MoveError> {
        self.objects[object].is_trusted = true;
        let found = std::mem::take(&mut self.objects[object].found);
        found.into_iter().try_for_each(|(group, digest)| self.compare(object, group, digest, digest))
    }

    fn on_expected(&mut self, object: usize, group: u64, expected: GroupDigest) -> Result<(), MoveError> {
        match self.objects[object].found.remove(&group) {
            Some(found) => self.compare(object, group, found, expected),
            None => {
                self.objects[object].expected.insert(group, expected);
                Ok(())
            }
        }
    }

    fn compare(
        &mut self,
        index: usize,
        group: u64,
        found: GroupDigest,
        expected: GroupDigest,
    ) -> Result<(), MoveError> {
        let object = &mut self.objects[index];
        let Some(place) = object.groups.place(group) else { return Ok(()) };
        let resumed = object.resumed.remove(&group);
        if found == expected {
            object.tries.remove(&group);
            if !resumed {
                object.landing.record_verified(place.file, place.group, found).map_err(MoveError::from)?;
                self.syncer.add(place.range.len());
            }
            let (digests, hash) = object.take(place.file, place.group, found);
            self.report(Finding::Verified { object: index, group, bytes: place.range.len(), resumed });
            if digests.left > 0 {
                self.objects[index].files.insert(place.file, digests);
                return Ok(());
            }
            return self.on_file(index, place.file, digests, hash);
        }
        // It will come again, to be compared with the same digest.
        object.expected.insert(group, expected);
        if resumed {
            self.report(Finding::Wrong { object: index, group });
            return Ok(());
        }
        let tries = object.tries.entry(group).or_insert(0);
        *tries += 1;
        if *tries >= TRIES_MAX {
            let manifest = object.groups.manifest();
            let start = manifest.file_range(place.file).map_or(0, |range| range.start);
            let error = MoveError::Integrity {
                path: inhaul_store::printable(&manifest.entries()[place.file].path),
                start: place.range.start - start,
                end: place.range.end - start,
                times: *tries,
            };
            self.give_up(index, place.file, error, true);
            return Ok(());
        }
        self.report(Finding::Wrong { object: index, group });
        Ok(())
    }

    /// All groups of a file are verified; its `hash` is known if none of them lies in a hole.
    fn on_file(
        &mut self,
        index: usize,
        file: usize,
        mut digests: FileDigests,
        hash: Option<digest::Hash>,
    ) -> Result<(), MoveError> {
        let object = &self.objects[index];
        let hash = hash.or_else(|| object.hash_holes_of(file, digests.tree.as_mut()?, &self.ending));
        if let Some(sums) = object.sums.get(&file) {
            match known::verify(&object.landing, file, hash.as_ref(), sums, &mut self.buffer, &self.ending) {
                Err(error @ MoveError::OtherVersion { .. }) => {
                    self.objects[index].files.insert(file, digests);
                    if self.objects[index].has_mirrors {
                        self.report(Finding::NotAsListed { object: index, file, error });
                    } else {
                        self.give_up(index, file, error, false);
                    }
                    return Ok(());
                }
                checked => checked?,
            }
        }
        if self.is_ending() {
            return Ok(());
        }
        self.objects[index].states[file] = FileState::Whole;
        self.have_named(index, file, hash, digests.sum)
    }

    /// Another digest of a group counts than the one that was told, or none for now: what was verified by that one is
    /// compared once more.
    fn correct(&mut self, index: usize, group: u64, digest: Option<GroupDigest>) -> Result<(), MoveError> {
        let object = &mut self.objects[index];
        let Some(place) = object.groups.place(group) else { return Ok(()) };
        match object.states[place.file] {
            FileState::GivenUp => return Ok(()),
            FileState::Whole => {
                self.report(Finding::TooLate { object: index, group, decided: digest.is_some() });
                return Ok(());
            }
            FileState::Open => {}
        }
        object.expected.remove(&group);
        object.tries.remove(&group);
        if let Some(found) = object.take_back(place.file, place.group) {
            object.landing.drop_held(place.file, place.group);
            object.found.insert(group, found);
            self.report(Finding::Unverified { object: index, group });
        }
        digest.map_or(Ok(()), |digest| self.on_expected(index, group, digest))
    }

    /// What has come of a file, and is not compared with anything, is noted for a later transfer, which compares it.
    fn keep_found(&mut self, index: usize, file: usize) -> Result<(), MoveError> {
        let object = &self.objects[index];
        if object.states[file] != FileState::Open {
            return Ok(());
        }
        for (&group, &found) in object.found.range(object.groups.of_file(file)) {
            if let Some(place) = object.groups.place(group).filter(|_| !object.resumed.contains(&group)) {
                object.landing.record_verified(place.file, place.group, found).map_err(MoveError::from)?;
            }
        }
        Ok(())
    }

    /// A file does not land, unless it is verified already; `keep`: what there is of it is worth going on from.
    fn give_up(&mut self, index: usize, file: usize, error: MoveError, keep: bool) {
        let object = &mut self.objects[index];
        if !object.landing.lands(file) || object.states[file] != FileState::Open {
            return;
        }
        object.states[file] = FileState::GivenUp;
        let groups_left =
            object.files.remove(&file).map_or_else(|| object.groups.data_groups(file), |begun| begun.left);
        let groups = object.groups.of_file(file);
        take_range(&mut object.expected, &groups);
        take_range(&mut object.found, &groups);
        take_range(&mut object.tries, &groups);
        object.resumed.retain(|group| !groups.contains(group));
        object.landing.give_up(file, keep);
        // The naming thread may have failed; it has reported that.
        let _ = self.ready.send(Told::GivenUp { object: index });
        self.report(Finding::FileFailed { object: index, file, groups_left, error });
    }

    /// A file is verified: has it named.
    fn have_named(
        &self,
        index: usize,
        file: usize,
        hash: Option<digest::Hash>,
        sum: digest::Sum,
    ) -> Result<(), MoveError> {
        let object = &self.objects[index];
        let size = object.groups.manifest().entries()[file].size;
        // While it is still open.
        if size <= digest::GROUP_BYTES {
            object.landing.seal(file).map_err(MoveError::from)?;
        }
        // The naming thread may have failed; it has reported that.
        let _ = self.ready.send(Told::Ready(Ready { object: index, file, size, hash, sum }));
        Ok(())
    }

    fn report(&mut self, finding: Finding) {
        // The data thread may have ended; then the message is not needed.
        let _ = self.findings.send(finding);
        self.unheard += 1;
        if self.unheard >= FINDINGS_TOGETHER {
            self.wake();
        }
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.unheard) > 0 {
            self.waker.wake();
        }
    }
}

/// Takes out what is said of `groups`.
fn take_range<T>(of: &mut BTreeMap<u64, T>, groups: &std::ops::Range<u64>) {
    let mut taken = of.split_off(&groups.start);
    of.append(&mut taken.split_off(&groups.end));
}

#[cfg(test)]
mod tests;
