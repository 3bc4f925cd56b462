//! Reads back the data that an earlier transfer has left, during the running transfer. The journal's records are
//! checked and not trusted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use inhaul_store::{HeldGroup, Landing, LandingError};

use super::task::Task;
use inhaul_session::api::error::MoveError;
use inhaul_session::system::threads;

/// Most threads that read and hash.
const THREADS_MAX: usize = 4;

/// A group that is to be read back: of this object, and its number among all groups there.
pub(crate) type Held = (usize, u64, HeldGroup);

/// The threads that read back. They end when they have read everything, or when this is dropped.
#[derive(Debug)]
pub(crate) struct Recheck {
    stop: Arc<AtomicBool>,
}

impl Recheck {
    /// Reads `held` back from `landings`, by object, in order, and tells `verifier` of each group.
    pub(crate) fn start(
        held: Vec<Held>,
        landings: &[Arc<Landing>],
        verifier: &Sender<Task>,
    ) -> Result<Self, MoveError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (held, next) = (Arc::new(held), Arc::new(AtomicUsize::new(0)));
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(held.len());
        for _ in 0..threads {
            let (held, next, stop) = (Arc::clone(&held), Arc::clone(&next), Arc::clone(&stop));
            let (landings, verifier) = (landings.to_vec(), verifier.clone());
            threads::spawn_helper("inhaul-recheck", move || {
                let mut buffer = Vec::new();
                while !stop.load(Ordering::Relaxed)
                    && let Some(&(object, number, group)) = held.get(next.fetch_add(1, Ordering::Relaxed))
                    && let Some(task) = check(&landings[object], object, number, group, &mut buffer)
                    && verifier.send(task).is_ok()
                {}
            })?;
        }
        Ok(Self { stop })
    }
}

impl Drop for Recheck {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Reads one group back; `None` when the landing has ended.
fn check(landing: &Landing, object: usize, number: u64, held: HeldGroup, buffer: &mut Vec<u8>) -> Option<Task> {
    let is_there = match landing.recheck(&held, buffer) {
        Ok(is_there) => is_there,
        Err(LandingError::Closed) => return None,
        // What cannot be read is fetched again.
        Err(_) => false,
    };
    Some(Task::Held { object, group: number, digest: is_there.then_some(held.digest) })
}
