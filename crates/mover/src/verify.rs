//! The verifier: reads groups back, compares their digests with the source's, and gives whole files their names.
//!
//! It has a thread of its own, so that hashing and syncing do not hold the data up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inhaul_store::{HeldGroup, Landing, LandingError, digest};
use inhaul_udp::Waker;

use crate::error::MoveError;
use crate::frame::GroupDigest;
use crate::groups::Groups;
use crate::known;
use crate::net;
use crate::recheck::{Held, Recheck};
use crate::request::KnownSums;
use crate::sync::Syncer;
use crate::writer::Writer;

/// How often a group may come in wrong.
const TRIES_MAX: u32 = 3;
/// Files that are verified get their names together, for syncing them costs the same for one and for thousands: so many
/// files, or so many bytes, or once those that wait have waited so long.
const FILES_TOGETHER: usize = 16_384;
const BYTES_TOGETHER: u64 = 256 << 20;
const NAMES_WAIT: Duration = Duration::from_secs(1);

/// What the verifier is told.
#[derive(Debug)]
pub(crate) enum Task {
    /// All bytes of a group have come, and have been written.
    Whole { object: usize, group: u64 },
    /// A group that an earlier transfer has left was read back: its digest, unless it is not what it was.
    Held { object: usize, group: u64, digest: Option<GroupDigest> },
    /// The source's digests of consecutive groups.
    Digests { object: usize, first_group: u64, values: Vec<GroupDigest> },
}

/// What the verifier has found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// A group is as it is at its source; so many bytes. It may have been left by an earlier transfer.
    Verified { object: usize, bytes: u64, resumed: bool },
    /// A group that an earlier transfer has left is not there any more.
    Gone { object: usize, group: u64 },
    /// A group differs from what its source says of it: one that an earlier transfer has left, or for the first or second
    /// time one that has come.
    Wrong { object: usize, group: u64, expected: GroupDigest },
    /// A file is verified and has its name.
    FileDone { object: usize, file: usize, hash: digest::Hash },
    /// All files of the object have their names, and will keep them.
    ObjectDone { object: usize },
    /// It cannot go on.
    Failed(MoveError),
}

/// An object that is to be verified.
pub(crate) struct ToVerify {
    pub(crate) groups: Groups,
    pub(crate) landing: Arc<Landing>,
    /// What somebody else says of its files, beside their source.
    pub(crate) sums: KnownSums,
}

/// The verifier, seen from the data thread. Dropping it ends its thread, once what it is doing is done.
pub(crate) struct Verifier {
    tasks: Option<Sender<Task>>,
    findings: Receiver<Finding>,
    recheck: Option<Recheck>,
    writer: Writer,
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
        let worker = Worker {
            objects,
            ready: Vec::new(),
            ready_bytes: 0,
            ready_since: None,
            buffer: Vec::new(),
            findings: outgoing,
            waker,
            syncer,
        };
        let verifying = net::spawn_helper("inhaul-verify", move || worker.run(&incoming))?;
        let recheck = Recheck::start(held, &landings, &tasks)?;
        let threads = vec![writing, verifying];
        Ok(Self { tasks: Some(tasks), findings, recheck: Some(recheck), writer, threads })
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

    pub(crate) fn next_finding(&self) -> Option<Finding> {
        self.findings.try_recv().ok()
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
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

fn report(findings: &Sender<Finding>, waker: &Waker, finding: Finding) {
    // The data thread may have ended: then nobody needs to know.
    let _ = findings.send(finding);
    waker.wake();
}

/// An object on its way to being verified.
struct Object {
    groups: Groups,
    landing: Arc<Landing>,
    sums: KnownSums,
    /// Digests of the source for groups that are not verified yet.
    expected: BTreeMap<u64, GroupDigest>,
    /// Our own digests of groups whose digest the source has not sent yet.
    found: BTreeMap<u64, GroupDigest>,
    /// Of these groups, the ones that an earlier transfer has left.
    resumed: BTreeSet<u64>,
    tries: BTreeMap<u64, u32>,
    /// Files of which some groups are verified.
    files: BTreeMap<usize, FileDigests>,
    /// Files that do not have their names yet.
    files_left: usize,
    /// Of these, the ones that wait for nothing else.
    files_ready: usize,
}

struct FileDigests {
    digests: Vec<GroupDigest>,
    left: u64,
}

impl Object {
    fn new(ToVerify { groups, landing, sums }: ToVerify) -> Self {
        let files_left = (0..groups.manifest().entries().len()).filter(|&file| landing.lands(file)).count();
        Self {
            groups,
            landing,
            sums,
            expected: BTreeMap::new(),
            found: BTreeMap::new(),
            resumed: BTreeSet::new(),
            tries: BTreeMap::new(),
            files: BTreeMap::new(),
            files_left,
            files_ready: 0,
        }
    }

    /// A group's bytes have come: its digest.
    fn digest(&self, group: u64, buffer: &mut Vec<u8>) -> Result<GroupDigest, MoveError> {
        let place =
            self.groups.place(group).ok_or_else(|| MoveError::Internal(format!("there is no group {group}")))?;
        self.landing.read_group(place.file, place.group, buffer).map_err(MoveError::from)?;
        Ok(digest::group_digest(self.groups.manifest().entries()[place.file].size, place.group, buffer))
    }

    /// A group is verified: the file's hash, if that was its last.
    fn take(&mut self, group: u64, value: GroupDigest) -> Option<(usize, digest::Hash)> {
        let place = self.groups.place(group)?;
        let count = self.groups.of_file(place.file);
        let count = count.end - count.start;
        let file = self
            .files
            .entry(place.file)
            .or_insert_with(|| FileDigests { digests: vec![[0; 32]; count as usize], left: count });
        file.digests[place.group as usize] = value;
        file.left -= 1;
        if file.left > 0 {
            return None;
        }
        let size = self.groups.manifest().entries()[place.file].size;
        let hash = digest::root(size, &self.files.remove(&place.file)?.digests)?;
        Some((place.file, hash))
    }
}

struct Worker {
    objects: Vec<Object>,
    /// Files that are verified and wait for their names.
    ready: Vec<(usize, usize, digest::Hash)>,
    ready_bytes: u64,
    /// Since when the first of them has waited.
    ready_since: Option<Instant>,
    buffer: Vec<u8>,
    findings: Sender<Finding>,
    waker: Waker,
    syncer: Syncer,
}

impl Worker {
    fn run(mut self, tasks: &Receiver<Task>) {
        if let Err(error) = self.work(tasks) {
            self.report(Finding::Failed(error));
        }
    }

    fn work(&mut self, tasks: &Receiver<Task>) -> Result<(), MoveError> {
        self.begin()?;
        loop {
            let patience = self.ready_since.map_or(Duration::MAX, |since| NAMES_WAIT.saturating_sub(since.elapsed()));
            let task = match tasks.recv_timeout(patience) {
                Ok(task) => task,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    self.name_files()?;
                    continue;
                }
            };
            match task {
                Task::Whole { object, group } => self.on_whole(object, group)?,
                Task::Held { object, group, digest: Some(digest) } => {
                    self.objects[object].resumed.insert(group);
                    self.on_found(object, group, digest)?;
                }
                Task::Held { object, group, digest: None } => self.report(Finding::Gone { object, group }),
                Task::Digests { object, first_group, values } => {
                    for (group, value) in (first_group..).zip(values) {
                        self.on_expected(object, group, value)?;
                    }
                }
            }
            if self.should_name() {
                self.name_files()?;
            }
        }
    }

    /// Whether the files that are ready should get their names now: there are many, or no more will come.
    fn should_name(&self) -> bool {
        let is_last = |object: usize| self.objects[object].files_left == self.objects[object].files_ready;
        self.ready.len() >= FILES_TOGETHER
            || self.ready_bytes >= BYTES_TOGETHER
            || self.ready_since.is_some_and(|since| since.elapsed() >= NAMES_WAIT)
            || self.ready.last().is_some_and(|&(object, ..)| is_last(object))
    }

    /// No byte will come for empty files, and none at all for a data set without files.
    fn begin(&mut self) -> Result<(), MoveError> {
        for object in 0..self.objects.len() {
            let Object { groups, landing, .. } = &self.objects[object];
            let is_empty = |&number: &u64| {
                groups.place(number).is_some_and(|place| place.range.is_empty() && landing.lands(place.file))
            };
            let empty: Vec<u64> = (0..groups.count()).filter(is_empty).collect();
            for group in empty {
                self.on_whole(object, group)?;
            }
            self.finish_if_done(object)?;
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
            None => {
                self.objects[object].found.insert(group, found);
                Ok(())
            }
        }
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
            if let Some((file, hash)) = object.take(group, found) {
                if let Some(sums) = object.sums.get(&file) {
                    known::check(&object.landing, file, &hash, sums, &mut self.buffer)?;
                }
                object.files_ready += 1;
                let size = object.groups.manifest().entries()[file].size;
                // While it is still open.
                if size <= digest::GROUP_BYTES {
                    object.landing.seal(file).map_err(MoveError::from)?;
                }
                self.ready_bytes += size;
                self.ready_since.get_or_insert_with(Instant::now);
                self.ready.push((index, file, hash));
            }
            self.report(Finding::Verified { object: index, bytes: place.range.len(), resumed });
            return Ok(());
        }
        // It will come again, to be compared with the same digest.
        object.expected.insert(group, expected);
        if resumed {
            self.report(Finding::Wrong { object: index, group, expected });
            return Ok(());
        }
        let tries = object.tries.entry(group).or_insert(0);
        *tries += 1;
        if *tries >= TRIES_MAX {
            let manifest = object.groups.manifest();
            let start = manifest.file_range(place.file).map_or(0, |range| range.start);
            return Err(MoveError::Integrity {
                path: inhaul_store::printable(&manifest.entries()[place.file].path),
                start: place.range.start - start,
                end: place.range.end - start,
                times: *tries,
            });
        }
        self.report(Finding::Wrong { object: index, group, expected });
        Ok(())
    }

    /// Gives the files that are ready their names.
    fn name_files(&mut self) -> Result<(), MoveError> {
        let mut ready = std::mem::take(&mut self.ready);
        self.ready_bytes = 0;
        self.ready_since = None;
        ready.sort_by_key(|&(object, file, _)| (object, file));
        for files in ready.chunk_by(|a, b| a.0 == b.0) {
            let object = files[0].0;
            let indices: Vec<usize> = files.iter().map(|&(_, file, _)| file).collect();
            self.objects[object].landing.finish_files(&indices).map_err(MoveError::from)?;
            self.objects[object].files_left -= files.len();
            self.objects[object].files_ready -= files.len();
            for &(object, file, hash) in files {
                self.report(Finding::FileDone { object, file, hash });
            }
            self.finish_if_done(object)?;
        }
        Ok(())
    }

    fn finish_if_done(&mut self, object: usize) -> Result<(), MoveError> {
        if self.objects[object].files_left == 0 {
            self.objects[object].landing.finish().map_err(MoveError::from)?;
            self.report(Finding::ObjectDone { object });
        }
        Ok(())
    }

    fn report(&self, finding: Finding) {
        report(&self.findings, &self.waker, finding);
    }
}

impl From<LandingError> for MoveError {
    fn from(error: LandingError) -> Self {
        let detail = error.to_string();
        match error {
            LandingError::NoSpace { .. } => Self::NoSpace { detail },
            LandingError::NoDirectory { .. }
            | LandingError::Outside { .. }
            | LandingError::Exists { .. }
            | LandingError::PartialExists { .. }
            | LandingError::Busy { .. }
            | LandingError::NotAJournal { .. }
            | LandingError::NotADirectory { .. }
            | LandingError::IsADirectory { .. }
            | LandingError::FileTooLarge { .. }
            | LandingError::NotWritable { .. }
            | LandingError::Io { .. } => Self::Destination { detail },
            _ => Self::Internal(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::LandingOptions;
    use inhaul_store::digest::{GROUP_BYTES, group_digest};
    use inhaul_udp::Poller;
    use std::io::IoSlice;

    /// A verifier for a file of one group and a bit, and an empty file, landing in a directory of their own.
    fn verifier() -> (tempfile::TempDir, Arc<Landing>, Verifier, Poller) {
        let dir = tempfile::tempdir().unwrap();
        let manifest = crate::groups::tests::manifest_of(&[("a", GROUP_BYTES + 9), ("b", 0)]);
        let landing = Arc::new(Landing::create(dir.path(), Arc::clone(&manifest), LandingOptions::default()).unwrap());
        let poller = Poller::new().unwrap();
        let groups = Groups::new(manifest);
        let objects = vec![ToVerify { groups, landing: Arc::clone(&landing), sums: KnownSums::new() }];
        let verifier = Verifier::start(objects, poller.waker(1).unwrap()).unwrap();
        (dir, landing, verifier, poller)
    }

    fn next(verifier: &Verifier) -> Finding {
        verifier.findings.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn digests() -> Vec<GroupDigest> {
        let first = group_digest(GROUP_BYTES + 9, 0, &vec![1; GROUP_BYTES as usize]);
        let second = group_digest(GROUP_BYTES + 9, 1, &[2; 9]);
        vec![first, second, group_digest(0, 0, &[])]
    }

    #[test]
    fn verifier_names_files_once_all_groups_agree() {
        let (dir, landing, verifier, _poller) = verifier();
        verifier.tell(Task::Digests { object: 0, first_group: 0, values: digests() });
        landing.write(GROUP_BYTES, &[IoSlice::new(&[2; 9])]).unwrap();
        verifier.tell(Task::Whole { object: 0, group: 1 });
        landing.write(0, &[IoSlice::new(&vec![1; GROUP_BYTES as usize])]).unwrap();
        verifier.tell(Task::Whole { object: 0, group: 0 });
        let mut named = Vec::new();
        let mut verified = 0;
        loop {
            match next(&verifier) {
                Finding::Verified { bytes, .. } => verified += bytes,
                Finding::FileDone { file, hash, .. } => named.push((file, hash)),
                Finding::ObjectDone { object: 0 } => break,
                finding => panic!("{finding:?}"),
            }
        }
        named.sort_by_key(|&(file, _)| file);
        let bytes = std::fs::read(dir.path().join("set/a")).unwrap();
        assert_eq!(bytes.len() as u64, verified);
        let whole = digest::root(bytes.len() as u64, &digests()[..2]).unwrap();
        assert_eq!(named, [(0, whole), (1, digest::root(0, &digests()[2..]).unwrap())]);
        assert!(dir.path().join("set/b").exists());
    }

    #[test]
    fn verifier_asks_again_for_what_is_wrong_and_gives_up_the_third_time() {
        let (_dir, landing, verifier, _poller) = verifier();
        landing.write(GROUP_BYTES, &[IoSlice::new(&[3; 9])]).unwrap();
        verifier.tell(Task::Digests { object: 0, first_group: 1, values: digests()[1..2].to_vec() });
        for _ in 0..2 {
            verifier.tell(Task::Whole { object: 0, group: 1 });
            let finding = next(&verifier);
            assert!(matches!(finding, Finding::Wrong { object: 0, group: 1, .. }), "{finding:?}");
        }
        verifier.tell(Task::Whole { object: 0, group: 1 });
        let finding = next(&verifier);
        let Finding::Failed(MoveError::Integrity { path, start, times, .. }) = finding else { panic!("{finding:?}") };
        assert_eq!((path.as_str(), start, times), ("a", GROUP_BYTES, 3));
    }
}
