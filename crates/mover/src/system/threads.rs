//! The data thread, and the threads beside it.

use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};

use inhaul_udp::thread;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::api::error::MoveError;
use crate::api::options::NetOptions;

/// The processors that the program may run on, once a thread has been pinned to one of them.
static PROCESSORS: OnceLock<CpuSet> = OnceLock::new();

/// Makes the calling thread a data thread.
pub(crate) fn become_data_thread(options: &NetOptions) -> Result<(), MoveError> {
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

/// Starts a thread that works beside the data thread: on any processor, though the data thread be pinned.
pub(crate) fn spawn_helper<T: Send + 'static>(
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
    Builder::new().name(name.to_owned()).spawn(run).map_err(MoveError::system("cannot start a thread"))
}
