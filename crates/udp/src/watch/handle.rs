//! The handle of a watcher's thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};

use inhaul_transport::TcpFlows;

use super::Forecast;
use super::place::Place;
use super::subject::{Shared, Subject};
use super::watcher::Watcher;
use crate::thread;

/// Watches the thread that started it, until this is dropped.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    seen: u64,
}

impl Watch {
    /// Begins to watch the calling thread. `None`: this user has the most watchers on this host already.
    ///
    /// # Errors
    /// When there are no more threads or sockets.
    pub fn start(subject: Subject) -> io::Result<Option<Self>> {
        let Some(place) = Place::take()? else {
            return Ok(None);
        };
        let watched = rustix::thread::gettid().as_raw_nonzero().get();
        let allowed = thread::allowed_cpus().unwrap_or_default();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = Builder::new().name("inhaul-watch".to_owned()).spawn(move || {
            let _place = place;
            // Short turns, so that it soon gets a processor. Never real-time priority: many watchers would then starve
            // the threads that they watch.
            let _ = thread::run_in_short_turns();
            let _ = thread::sleep_exactly();
            Watcher::new(subject, watched, allowed).run(&theirs);
        })?;
        Ok(Some(Self { shared, thread: Some(thread), seen: 0 }))
    }

    /// The forecast, if it has changed since the last call. Otherwise the call costs one load.
    pub fn news(&mut self) -> Option<Forecast> {
        self.shared.published.news(&mut self.seen)
    }

    /// The rate of this host's TCP, if it was measured since the last call. Does not wait.
    pub fn tcp(&mut self) -> Option<TcpFlows> {
        if !self.shared.has_tcp.load(Ordering::Relaxed) {
            return None;
        }
        let mut tcp = self.shared.tcp.try_lock().ok()?;
        self.shared.has_tcp.store(false, Ordering::Relaxed);
        tcp.take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the watcher does not matter to the ending thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::watch::Meter;

    #[test]
    fn a_watch_ends_when_it_is_dropped_and_says_nothing_where_nothing_comes_in() {
        let clock = Clock::start();
        let subject = Subject { clock, meter: Arc::new(Meter::default()), writes: true, thorough: true, tcp: true };
        let watch = Watch::start(subject).unwrap();
        // Other tests' watchers may have all places.
        assert!(watch.is_none_or(|mut watch| watch.news().is_none()));
    }
}
