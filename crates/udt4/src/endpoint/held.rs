//! The shared handle of a port's sockets.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use inhaul_base::{Span, Time};
use inhaul_udp::{Clock, Waker};

use super::state::State;

/// State that a port's sockets share with its thread.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) clock: Clock,
}

/// Ends the thread when the last holder drops it.
#[derive(Debug)]
pub(super) struct Held {
    shared: Arc<Shared>,
    waker: Waker,
    local: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self { state: Mutex::new(state), clock: Clock::start() }
    }

    /// The state. A thread that panicked while it held it has left whole values: each call makes its change complete.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The port at `local`, whose packets `thread` moves. `waker` wakes it.
    pub(super) fn new(shared: Arc<Shared>, waker: Waker, local: SocketAddr, thread: Option<JoinHandle<()>>) -> Self {
        Self { shared, waker, local, thread }
    }

    pub(super) const fn local_address(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Wakes the thread for due actions.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    pub(super) fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Waits for `ready`, until `deadline` at most, and says whether there is time left.
    pub(super) fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        ready: &Condvar,
        deadline: Time,
    ) -> (MutexGuard<'s, State>, bool) {
        let left = deadline.since(self.now());
        if left == Span::ZERO {
            return (state, false);
        }
        // Far less than any system's limit for a time-out, and long enough to look again.
        let left = Duration::from_nanos(left.as_nanos().min(3_600_000_000_000));
        let (state, _) = ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        (state, true)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let now = self.now();
        self.shared.lock().abandon(now);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It ends after sending the rest. Its failure was reported to every socket.
            let _ = thread.join();
        }
    }
}
