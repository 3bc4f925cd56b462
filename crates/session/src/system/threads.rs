//! The data thread, and the threads beside it.
//!
//! `--cpu N` pins the data thread. It is not pinned by default, because several processes that pin themselves blindly
//! would meet on one core.

use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use inhaul_udp::thread;
use rustix::process::nice;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::api::error::MoveError;
use crate::api::options::NetOptions;

/// How much nicer a thread is that gives way: a third of the processor is left to it while another thread wants all.
const GIVES_WAY: i32 = 5;

/// The processors that the program may run on, once a thread has been pinned to one of them.
static PROCESSORS: OnceLock<CpuSet> = OnceLock::new();

/// Makes the calling thread a data thread.
pub fn become_data_thread(options: &NetOptions) -> Result<(), MoveError> {
    // Without it pacing is coarser, not wrong.
    let _ = thread::sleep_exactly();
    match options.cpu {
        Some(cpu) => {
            if let Ok(all) = sched_getaffinity(None) {
                PROCESSORS.get_or_init(|| all);
            }
            thread::pin_to_cpu(cpu)
                .map_err(|error| MoveError::Usage(format!("the data thread cannot run on processor {cpu}: {error}")))
        }
        None => Ok(()),
    }
}

/// The calling thread, which hashes what may be wanted, gives way where the processor is scarce: to data.
pub fn give_way() {
    // Linux counts niceness by thread. Without it data comes later, not wrong.
    let _ = nice(GIVES_WAY);
}

/// Starts a thread that works beside the data thread: on any processor, though the data thread be pinned.
pub fn spawn_helper<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, MoveError> {
    let run = move || {
        if let Some(all) = PROCESSORS.get() {
            // Staying on the data thread's processor would be slower, not wrong.
            let _ = sched_setaffinity(None, all);
        }
        work()
    };
    start(name, run).map_err(MoveError::system("cannot start a thread"))
}

#[cfg(not(any(test, feature = "testing")))]
fn start<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(run)
}

/// The same, unless the test has it that there is none left.
#[cfg(any(test, feature = "testing"))]
fn start<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> std::io::Result<JoinHandle<T>> {
    if scarce::SCARCE.get() {
        return Err(std::io::ErrorKind::WouldBlock.into());
    }
    Builder::new().name(name.to_owned()).spawn(run)
}

/// For tests: a system that has no thread left.
#[cfg(any(test, feature = "testing"))]
pub mod scarce {
    use std::cell::Cell;

    thread_local! {
        pub(super) static SCARCE: Cell<bool> = const { Cell::new(false) };
    }

    /// Does something while the calling thread can start no other.
    pub fn without_threads<R>(what: impl FnOnce() -> R) -> R {
        SCARCE.set(true);
        let result = what();
        SCARCE.set(false);
        result
    }
}

/// The same for work on something that is given back if no thread can be started: a system may have none left, and what
/// somebody else has used up must not be lost for it.
pub fn spawn_with<T: Send + 'static>(
    name: &str,
    what: T,
    work: impl FnOnce(T) + Send + 'static,
) -> Result<(), (T, MoveError)> {
    let (hand, handed) = sync_channel(1);
    // It is handed over as soon as there is somebody to take it.
    let run = move || {
        if let Ok(what) = handed.recv() {
            work(what);
        }
    };
    match spawn_helper(name, run) {
        Ok(_) => {
            let _ = hand.send(what);
            Ok(())
        }
        Err(error) => Err((what, error)),
    }
}

/// Has work done on a thread of its own; on the calling one if none can be started: it is done later than it should be,
/// rather than not at all.
pub fn beside_or_here(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err((work, error)) = spawn_with(name, work, |work| work()) {
        log::debug!("{name}: {error}");
        work();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_no_thread_takes_is_given_back() {
        let (sender, done) = channel();
        let work = move |what| sender.send((what, std::thread::current().id())).unwrap();
        spawn_with("inhaul-test", 7, work.clone()).unwrap();
        let (what, thread) = done.recv().unwrap();
        assert!(what == 7 && thread != std::thread::current().id());
        let given_back = scarce::without_threads(|| spawn_with("inhaul-test", 8, work));
        assert!(matches!(given_back, Err((8, MoveError::System { .. }))), "{given_back:?}");
        assert!(done.try_recv().is_err());
    }

    #[test]
    fn a_thread_that_gives_way_is_the_only_one() {
        let before = nice(0).unwrap();
        let given_way = std::thread::spawn(|| {
            give_way();
            nice(0).unwrap()
        });
        assert_eq!(given_way.join().unwrap(), (before + GIVES_WAY).min(19));
        assert_eq!(nice(0).unwrap(), before);
    }

    #[test]
    fn work_that_no_thread_takes_is_done_here() {
        let (sender, done) = channel();
        let work = move || sender.send(std::thread::current().id()).unwrap();
        scarce::without_threads(|| beside_or_here("inhaul-test", work.clone()));
        assert_eq!(done.try_recv(), Ok(std::thread::current().id()));
        beside_or_here("inhaul-test", work);
        assert_ne!(done.recv().unwrap(), std::thread::current().id());
    }
}
