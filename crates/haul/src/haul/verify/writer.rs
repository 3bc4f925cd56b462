//! Writes small files, on its own thread. Making thousands of files a second uses the file system's journal, which
//! stalls for its commits. The data thread must not stall with it: it would read datagrams late, and take the path for
//! slow. Large files need neither this thread nor a copy while the disk keeps up: the data thread writes their bytes
//! directly. While it does not, theirs go this way, too, and what waits here tells how much may come in.
//!
//! At most 64 MiB of large files go this way, and the waiting part is kept at a quarter of that: it bounds the intake
//! that the watcher reports.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use inhaul_store::Landing;

use super::task::Task;
use inhaul_engine::engine::Backlog;
use inhaul_session::api::error::MoveError;
use inhaul_session::system::threads;

/// Bytes that may wait to be written before the data thread waits, too.
const BYTES_MAX: usize = 8 << 20;
/// The same of large files, which take this way only while the disk is slow.
const LARGE_BYTES_MAX: usize = 64 << 20;

/// While there is more to write, this many tasks are passed on together: waking another thread costs as much as
/// verifying a small file.
const TASKS_TOGETHER: usize = 64;

/// A queue to the thread that writes. What is told through it arrives after everything that was written before.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    /// Something is to be done, or all is over.
    news: Condvar,
    /// Something has been done, or all is over.
    room: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    /// Bytes that were written so far.
    written: u64,
    is_over: bool,
}

enum Job {
    Write { landing: Arc<Landing>, offset: u64, bytes: Vec<u8> },
    Tell(Task),
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Write { bytes, .. } => bytes.len(),
            Self::Tell(_) => 0,
        }
    }
}

impl Writer {
    /// Starts the thread, which passes on what it is told to `tasks`, and calls `failed` when something cannot be
    /// written.
    pub(crate) fn start(
        tasks: Sender<Task>,
        failed: impl Fn(MoveError) + Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), MoveError> {
        let queue = Arc::new(Queue { state: Mutex::default(), news: Condvar::new(), room: Condvar::new() });
        let writer = Self { queue: Arc::clone(&queue) };
        let thread = threads::spawn_helper("inhaul-write", move || {
            let mut told = Vec::with_capacity(TASKS_TOGETHER);
            // The verifier may have failed, which it has said.
            let pass_on = |told: &mut Vec<Task>| told.drain(..).for_each(|task| _ = tasks.send(task));
            while let Some(job) = queue.next(|| pass_on(&mut told)) {
                match job {
                    Job::Write { landing, offset, bytes } => {
                        if let Err(error) = landing.write(offset, &[IoSlice::new(&bytes)]) {
                            failed(error.into());
                            queue.end();
                        }
                        queue.done(bytes.len());
                    }
                    Job::Tell(task) => told.push(task),
                }
                if told.len() >= TASKS_TOGETHER {
                    pass_on(&mut told);
                }
            }
        })?;
        Ok((writer, thread))
    }

    /// Has bytes written, later; waits while too many wait already.
    pub(crate) fn write(&self, landing: &Arc<Landing>, offset: u64, slices: &[IoSlice<'_>]) {
        let mut bytes = Vec::with_capacity(slices.iter().map(|slice| slice.len()).sum());
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        self.queue.push(Job::Write { landing: Arc::clone(landing), offset, bytes }, BYTES_MAX);
    }

    /// The same of a large file, of which more may wait.
    pub(crate) fn write_large(&self, landing: &Arc<Landing>, offset: u64, slices: &[IoSlice<'_>]) {
        let mut bytes = Vec::with_capacity(slices.iter().map(|slice| slice.len()).sum());
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        self.queue.push(Job::Write { landing: Arc::clone(landing), offset, bytes }, LARGE_BYTES_MAX);
    }

    /// What waits to be written, and what was written so far.
    pub(crate) fn backlog(&self) -> Backlog {
        let state = self.queue.state();
        Backlog { waiting: state.bytes as u64, room: LARGE_BYTES_MAX as u64, written: state.written }
    }

    /// Has a task passed on once everything that was to be written before it has been.
    pub(crate) fn tell(&self, task: Task) {
        self.queue.push(Job::Tell(task), usize::MAX);
    }

    /// Has the thread end, whatever waits.
    pub(crate) fn end(&self) {
        self.queue.end();
    }
}

impl Queue {
    /// No thread leaves the state half changed, so a poisoned lock can be used.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job, most: usize) {
        let mut state = self.state();
        while state.bytes > 0 && state.bytes + job.bytes() > most && !state.is_over {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.is_over {
            state.bytes += job.bytes();
            state.jobs.push_back(job);
            self.news.notify_one();
        }
    }

    /// The next job; calls `idle` before it waits for one. `None` when all is over.
    fn next(&self, mut idle: impl FnMut()) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            // Under the lock, but without waiting. Otherwise a task that arrives meanwhile would not wake this thread.
            idle();
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// So many bytes of the job that was taken have been written.
    fn done(&self, bytes: usize) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.written += bytes as u64;
        self.room.notify_one();
    }

    fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.jobs.clear();
        state.bytes = 0;
        self.news.notify_all();
        self.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use inhaul_store::LandingOptions;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn landing(size: u64) -> (tempfile::TempDir, Arc<Landing>) {
        let dir = tempfile::tempdir().unwrap();
        let manifest = inhaul_session::session::groups::testing::manifest_of(&[("a", size)]);
        let landing = Landing::create(dir.path(), manifest, LandingOptions::default()).unwrap();
        (dir, Arc::new(landing))
    }

    #[test]
    fn what_is_told_arrives_after_what_was_written_before() {
        let (_dir, landing) = landing(3000);
        let (tasks, told) = channel();
        let (writer, thread) = Writer::start(tasks, |error| panic!("{error}")).unwrap();
        for group in 0..1000 {
            let (offset, bytes) = (group * 3, [group as u8; 3]);
            writer.write(&landing, offset, &[IoSlice::new(&bytes[..1]), IoSlice::new(&bytes[1..])]);
            writer.tell(Task::Whole { object: 0, group });
        }
        let mut buffer = Vec::new();
        for expected in 0..1000 {
            let Task::Whole { group, .. } = told.recv_timeout(PATIENCE).unwrap() else { panic!("another task") };
            assert_eq!(group, expected);
            landing.read_group(0, 0, &mut buffer).unwrap();
            assert_eq!(buffer[group as usize * 3..][..3], [group as u8; 3]);
        }
        writer.end();
        thread.join().unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_said_once_and_holds_nobody_up() {
        let (_dir, landing) = landing(10);
        let (tasks, told) = channel();
        let (errors, failed) = channel();
        let (writer, thread) = Writer::start(tasks, move |error| errors.send(error).unwrap()).unwrap();
        let bytes = vec![0; BYTES_MAX / 4];
        // Beyond the end, and more than may wait.
        for _ in 0..10 {
            writer.write(&landing, 5, &[IoSlice::new(&bytes)]);
        }
        writer.tell(Task::Whole { object: 0, group: 0 });
        assert!(matches!(failed.recv_timeout(PATIENCE).unwrap(), MoveError::Internal(_)));
        thread.join().unwrap();
        assert!(failed.try_recv().is_err() && told.try_recv().is_err());
    }

    #[test]
    fn the_end_does_not_wait_for_what_waits() {
        let queue = Arc::new(Queue { state: Mutex::default(), news: Condvar::new(), room: Condvar::new() });
        let (_dir, landing) = landing(10);
        let writer = Writer { queue: Arc::clone(&queue) };
        let bytes = vec![0; BYTES_MAX];
        writer.write(&landing, 0, &[IoSlice::new(&bytes)]);
        let (written, has_written) = channel();
        let blocked = std::thread::spawn(move || {
            writer.write(&landing, 0, &[IoSlice::new(&bytes)]);
            written.send(()).unwrap();
        });
        // No thread writes, so it waits for room until the end.
        assert_eq!(has_written.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
        queue.end();
        has_written.recv_timeout(PATIENCE).unwrap();
        blocked.join().unwrap();
        assert!(queue.next(|| ()).is_none());
    }
}
