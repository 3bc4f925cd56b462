//! Gives verified files their names, on its own thread. It syncs them to the disk first. Meanwhile other files are
//! verified.
//!
//! It names thousands of files at a time. A sync of a file system takes seconds while files are being made in it, and
//! verifying must not wait for that.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inhaul_base::ByteRange;
use inhaul_store::{Landing, digest};
use inhaul_udp::Waker;

use super::sync::SYNC_BYTES;
use super::task::{Finding, report};
use inhaul_session::api::error::MoveError;
use inhaul_session::system::threads;

/// Files get their names together, because one sync costs the same for one file and for thousands. A batch is complete
/// at this number of files, at this number of bytes, or when its files have waited this long.
const FILES_TOGETHER: usize = 16_384;
const BYTES_TOGETHER: u64 = 256 << 20;
const NAMES_WAIT: Duration = Duration::from_secs(1);
/// A batch is also complete at this number of bytes of files of one group, which nothing else syncs, unless the disk
/// took longer for the last batch than they have taken to come: then it would do nothing but sync.
const SMALL_BYTES_TOGETHER: u64 = SYNC_BYTES;

/// A file that is verified and waits for its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) object: usize,
    pub(crate) file: usize,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) hash: Option<digest::Hash>,
    /// What its verified groups come to.
    pub(crate) sum: digest::Sum,
}

/// What is told of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// It waits for its name.
    Ready(Ready),
    /// A file of this object does not land.
    GivenUp { object: usize },
}

/// Starts the thread, for files of these objects. It says what it has done through `findings`, and ends when the
/// sender that is returned is dropped.
pub(crate) fn start(
    landings: Vec<Arc<Landing>>,
    findings: Sender<Finding>,
    waker: Waker,
) -> Result<(Sender<Told>, JoinHandle<()>), MoveError> {
    let (ready, incoming) = channel();
    let objects = landings.into_iter().map(Object::new).collect();
    let namer = Namer {
        objects,
        ready: Vec::new(),
        bytes: 0,
        small_bytes: 0,
        since: None,
        last: None,
        is_last: false,
        findings,
        waker,
    };
    Ok((ready, threads::spawn_helper("inhaul-name", move || namer.run(&incoming))?))
}

struct Object {
    landing: Arc<Landing>,
    /// Files that do not have their names yet.
    left: usize,
    /// Of these, the ones that wait for nothing else.
    ready: usize,
    /// Whether any has its name.
    has_named: bool,
}

impl Object {
    fn new(landing: Arc<Landing>) -> Self {
        let left = (0..landing.manifest().entries().len()).filter(|&file| landing.lands(file)).count();
        Self { landing, left, ready: 0, has_named: false }
    }
}

struct Namer {
    objects: Vec<Object>,
    ready: Vec<Ready>,
    bytes: u64,
    /// Bytes of the files of one group among them.
    small_bytes: u64,
    /// When the last batch had its names, and how long that took.
    last: Option<(Instant, Duration)>,
    /// Since when the first of them has waited.
    since: Option<Instant>,
    /// Of an object among theirs all files are ready.
    is_last: bool,
    findings: Sender<Finding>,
    waker: Waker,
}

impl Namer {
    fn run(mut self, incoming: &Receiver<Told>) {
        if let Err(error) = self.work(incoming) {
            report(&self.findings, &self.waker, Finding::Failed(error));
        }
    }

    fn work(&mut self, incoming: &Receiver<Told>) -> Result<(), MoveError> {
        // Nothing will come for an object without files.
        (0..self.objects.len()).try_for_each(|object| self.finish_if_done(object))?;
        loop {
            let patience = self.since.map_or(Duration::MAX, |since| NAMES_WAIT.saturating_sub(since.elapsed()));
            match incoming.recv_timeout(patience) {
                Ok(first) => {
                    // All that have come while others got theirs.
                    for told in [first].into_iter().chain(incoming.try_iter()) {
                        self.hear(told)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.is_due() {
                self.name_files()?;
            }
        }
    }

    fn hear(&mut self, told: Told) -> Result<(), MoveError> {
        match told {
            Told::Ready(ready) => self.add(ready),
            Told::GivenUp { object: index } => {
                let object = &mut self.objects[index];
                object.left -= 1;
                self.is_last |= object.ready > 0 && object.ready == object.left;
                // Where nothing has landed nothing is finished, either.
                if object.has_named {
                    self.finish_if_done(index)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, ready: Ready) {
        let object = &mut self.objects[ready.object];
        object.ready += 1;
        self.is_last |= object.ready == object.left;
        self.bytes += ready.size;
        self.small_bytes += if ready.size <= digest::GROUP_BYTES { ready.size } else { 0 };
        self.since.get_or_insert_with(Instant::now);
        self.ready.push(ready);
    }

    /// Whether the files that are ready should get their names now: there are many, or no more will come.
    fn is_due(&self) -> bool {
        self.ready.len() >= FILES_TOGETHER
            || self.bytes >= BYTES_TOGETHER
            || (self.small_bytes >= SMALL_BYTES_TOGETHER && self.has_rested())
            || self.since.is_some_and(|since| since.elapsed() >= NAMES_WAIT)
            || self.is_last
    }

    /// Whether the disk has had as long for other things as the last batch took.
    fn has_rested(&self) -> bool {
        self.last.is_none_or(|(ended, took)| ended.elapsed() >= took)
    }

    fn name_files(&mut self) -> Result<(), MoveError> {
        let began = Instant::now();
        self.name_ready()?;
        self.last = Some((Instant::now(), began.elapsed()));
        Ok(())
    }

    fn name_ready(&mut self) -> Result<(), MoveError> {
        let mut ready = std::mem::take(&mut self.ready);
        self.bytes = 0;
        self.small_bytes = 0;
        self.since = None;
        self.is_last = false;
        ready.sort_by_key(|ready| (ready.object, ready.file));
        for files in ready.chunk_by(|a, b| a.object == b.object) {
            let object = &mut self.objects[files[0].object];
            let indices: Vec<usize> = files.iter().map(|ready| ready.file).collect();
            for disturbed in object.landing.finish_files(&indices).map_err(MoveError::from)? {
                let sum = files.iter().find(|ready| ready.file == disturbed).map(|ready| ready.sum);
                name_disturbed(&object.landing, disturbed, sum.unwrap_or_default())?;
            }
            object.left -= files.len();
            object.ready -= files.len();
            object.has_named = true;
            for &Ready { object, file, hash, .. } in files {
                // The data thread may have ended; then the message is not needed.
                let _ = self.findings.send(Finding::FileDone { object, file, hash });
            }
            self.waker.wake();
            self.finish_if_done(files[0].object)?;
        }
        Ok(())
    }

    fn finish_if_done(&self, object: usize) -> Result<(), MoveError> {
        if self.objects[object].left == 0 {
            self.objects[object].landing.finish().map_err(MoveError::from)?;
            report(&self.findings, &self.waker, Finding::ObjectDone { object });
        }
        Ok(())
    }
}

/// Names a file that another program may have written to, if its groups still have the hash `sum`.
fn name_disturbed(landing: &Landing, file: usize, sum: digest::Sum) -> Result<(), MoveError> {
    let sealed = landing.seal_again(file)?;
    let entry = &landing.manifest().entries()[file];
    let mut found = digest::Sum::default();
    let mut buffer = Vec::new();
    let mut next = 0;
    let count = digest::group_count(entry.size);
    for hole in entry.hole_groups().chain(std::iter::once(count..count)) {
        for group in next..hole.start {
            let range = digest::group_range(entry.size, group);
            buffer.resize(range.len() as usize, 0);
            sealed.read_exact_at(&mut buffer, range.start).map_err(|_| landing.disturbed(file))?;
            found.add(&digest::group_digest(entry.size, group, &buffer));
        }
        let start = digest::group_range(entry.size, hole.start).start;
        let end = digest::group_range(entry.size, hole.end).start;
        let is_hole = inhaul_store::is_zeros(&sealed, ByteRange::new(start, end), || true);
        if !is_hole.is_ok_and(|zeros| zeros == Some(true)) {
            return Err(landing.disturbed(file).into());
        }
        next = hole.end;
    }
    if found != sum {
        return Err(landing.disturbed(file).into());
    }
    Ok(landing.finish_file(file)?)
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use inhaul_store::LandingOptions;
    use inhaul_udp::Poller;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A namer for one object of files of one byte each, which are written.
    fn namer(files: &[&str]) -> (tempfile::TempDir, Arc<Landing>, Sender<Told>, Receiver<Finding>, JoinHandle<()>) {
        let dir = tempfile::tempdir().unwrap();
        let sizes: Vec<_> = files.iter().map(|name| (*name, 1)).collect();
        let manifest = inhaul_session::session::groups::testing::manifest_of(&sizes);
        let landing = Arc::new(Landing::create(dir.path(), manifest, LandingOptions::default()).unwrap());
        for offset in 0..files.len() as u64 {
            landing.write(offset, &[IoSlice::new(b"x")]).unwrap();
        }
        let (findings, found) = channel();
        let waker = Poller::new().unwrap().waker(1).unwrap();
        let (ready, thread) = start(vec![Arc::clone(&landing)], findings, waker).unwrap();
        (dir, landing, ready, found, thread)
    }

    fn ready(file: usize) -> Told {
        Told::Ready(Ready {
            object: 0,
            file,
            size: 1,
            hash: Some([file as u8; 32].into()),
            sum: digest::Sum::default(),
        })
    }

    #[test]
    fn files_get_their_names_after_a_while_and_the_last_ends_the_object() {
        let (dir, _landing, namer, found, thread) = namer(&["a", "b", "c"]);
        namer.send(ready(1)).unwrap();
        let first = found.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(first, Finding::FileDone { object: 0, file: 1, .. }), "{first:?}");
        assert!(dir.path().join("set/b").exists() && !dir.path().join("set/a").exists());
        let since = Instant::now();
        namer.send(ready(0)).unwrap();
        namer.send(ready(2)).unwrap();
        let rest: Vec<_> = (0..3).map(|_| found.recv_timeout(PATIENCE).unwrap()).collect();
        assert!(matches!(rest[..], [Finding::FileDone { .. }, Finding::FileDone { .. }, Finding::ObjectDone { .. }]));
        // Nothing more would come, so nothing was waited for.
        assert!(since.elapsed() < NAMES_WAIT);
        drop(namer);
        thread.join().unwrap();
    }

    #[test]
    fn small_files_get_their_names_after_8_mib_unless_the_disk_has_not_rested() {
        let (_dir, landing, ..) = namer(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
        let (findings, _found) = channel();
        let mut namer = Namer {
            objects: vec![Object::new(landing)],
            ready: Vec::new(),
            bytes: 0,
            small_bytes: 0,
            since: None,
            last: None,
            is_last: false,
            findings,
            waker: Poller::new().unwrap().waker(1).unwrap(),
        };
        let with_size = |file, size| {
            let Told::Ready(ready) = ready(file) else { unreachable!("it is ready") };
            Ready { size, ..ready }
        };
        // A file of several groups is synced otherwise.
        namer.add(with_size(8, 2 * SMALL_BYTES_TOGETHER));
        (0..7).for_each(|file| namer.add(with_size(file, digest::GROUP_BYTES)));
        // However slow this host is.
        namer.since = Some(Instant::now());
        assert!(!namer.is_due());
        namer.add(with_size(7, digest::GROUP_BYTES));
        assert!(namer.is_due());
        namer.since = Some(Instant::now());
        namer.last = Some((Instant::now(), Duration::from_secs(3600)));
        assert!(!namer.is_due(), "the disk would do nothing but sync");
    }

    #[test]
    fn an_object_ends_without_the_files_that_were_given_up() {
        let (dir, landing, namer, found, thread) = namer(&["a", "b", "c"]);
        namer.send(ready(1)).unwrap();
        for file in [0, 2] {
            landing.give_up(file, false);
            namer.send(Told::GivenUp { object: 0 }).unwrap();
        }
        let findings: Vec<_> = (0..2).map(|_| found.recv_timeout(PATIENCE).unwrap()).collect();
        assert!(
            matches!(findings[..], [Finding::FileDone { file: 1, .. }, Finding::ObjectDone { .. }]),
            "{findings:?}"
        );
        drop((namer, landing));
        thread.join().unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("set")).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_get_its_name_is_said() {
        let (dir, _landing, namer, found, thread) = namer(&["a"]);
        std::fs::write(dir.path().join("set/a"), "somebody else's").unwrap();
        namer.send(ready(0)).unwrap();
        assert!(matches!(found.recv_timeout(PATIENCE).unwrap(), Finding::Failed(MoveError::Destination { .. })));
        thread.join().unwrap();
        assert_eq!(std::fs::read(dir.path().join("set/a")).unwrap(), b"somebody else's");
    }

    #[test]
    fn an_object_without_files_is_done_at_once() {
        let (_dir, _landing, _namer, found, _thread) = namer(&[]);
        assert!(matches!(found.recv_timeout(PATIENCE).unwrap(), Finding::ObjectDone { object: 0 }));
    }
}
