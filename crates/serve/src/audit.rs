//! The audit log of a server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use inhaul_identity::UnixTime;
use inhaul_identity::audit::{Event, Log};

use inhaul_session::api::counters::Counters;

/// How often it is said that the log cannot be written.
const WARNED: Duration = Duration::from_secs(60);

/// See the module's description. Of a server that has no state, nothing is written.
#[derive(Debug, Default)]
pub struct Audit {
    log: Option<Log>,
    counters: Arc<Counters>,
    /// When it was last said that nothing can be written.
    warned: Mutex<Option<Instant>>,
}

impl Audit {
    /// What is written to `log`, and counted.
    pub(crate) fn new(log: Option<Log>, counters: Arc<Counters>) -> Self {
        Self { log, counters, warned: Mutex::default() }
    }

    /// Writes down what has happened now.
    pub fn write(&self, event: &Event<'_>) {
        let error = match self.log.as_ref().map(|log| log.write(now(), event)) {
            None => return,
            Some(Ok(is_written)) => {
                let counter = if is_written { &self.counters.audit_lines } else { &self.counters.audit_left_out };
                return counter.add(1);
            }
            Some(Err(error)) => error,
        };
        self.counters.audit_failures.add(1);
        let mut warned = self.warned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() >= WARNED) {
            *warned = Some(Instant::now());
            log::error!("the audit log cannot be written: {error}");
        }
    }
}

/// The time by this host's clock.
pub(crate) fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixTime::from_seconds(since.as_secs())
}
