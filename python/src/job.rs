//! Work that waits for a network, on a thread of its own: the caller can handle Ctrl-C meanwhile, an event loop
//! continues, and cancelled work is not waited for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inhaul::{Error, Stop};
use pyo3::prelude::*;

use crate::common::{LOOK, raise, usage};
use crate::outside::{Outside, is_ending};

/// How long an interrupted call waits for its ended work: by then verified data is mostly saved.
const PARTING: Duration = Duration::from_millis(300);

/// Makes the Python object of its result.
pub(crate) type Made = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Py<PyAny>> + Send>;

/// Bytes that are done, all bytes, and bits per second.
pub(crate) type Done = (u64, u64, f64);

struct State {
    outcome: Option<Result<Made, Error>>,
    is_over: bool,
    /// The thread has ended.
    has_ended: bool,
    done: Done,
    then: Vec<Py<PyAny>>,
}

/// A job, between its thread and its waiters.
pub(crate) struct Shared {
    state: Mutex<State>,
    over: Condvar,
    stop: Stop,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, done: Done) {
        self.state().done = done;
    }

    fn end(&self, outcome: Result<Made, Error>) {
        let mut state = self.state();
        if state.is_over {
            // It is no longer needed. Its drop may end threads, for which the caller need not wait.
            drop(state);
            return drop(outcome);
        }
        state.outcome = Some(outcome);
        state.is_over = true;
        let then = std::mem::take(&mut state.then);
        drop(state);
        self.over.notify_all();
        call(then);
    }

    fn wait(&self, timeout: Duration, is_met: impl Fn(&State) -> bool) -> bool {
        let waiting = self.over.wait_timeout_while(self.state(), timeout, |state| !is_met(state));
        is_met(&waiting.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn cancel(&self) {
        self.stop.stop();
        self.end(Err(Error::Interrupted));
    }
}

/// Calls functions of Python, unless it is ending.
fn call(then: Vec<Py<PyAny>>) {
    if then.is_empty() || is_ending() {
        return std::mem::forget(then);
    }
    let _ = Python::try_attach(|py| {
        for one in then {
            if let Err(error) = one.call0(py) {
                error.write_unraisable(py, None);
            }
        }
    });
}

/// See `inhaul._inhaul.Job`.
#[pyclass(name = "Job", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyJob {
    shared: Outside<Arc<Shared>>,
}

impl PyJob {
    /// Begins work on a thread of its own, which `stop` ends early, if it can be ended.
    pub(crate) fn begin(
        py: Python<'_>,
        stop: Stop,
        work: impl FnOnce(&Shared) -> Result<Made, Error> + Send + 'static,
    ) -> PyResult<Self> {
        let state = State { outcome: None, is_over: false, has_ended: false, done: (0, 0, 0.0), then: Vec::new() };
        let shared = Arc::new(Shared { state: Mutex::new(state), over: Condvar::new(), stop });
        let own = Arc::clone(&shared);
        let run = move || {
            let died = |_| Err(Error::Internal("a thread has died of a bug: please report its output".to_owned()));
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&own))).unwrap_or_else(died);
            own.end(outcome);
            own.state().has_ended = true;
            own.over.notify_all();
        };
        let spawned = py.detach(|| std::thread::Builder::new().name("inhaul-job".to_owned()).spawn(run));
        let failed = |source| raise(py, &Error::System { what: "cannot start a thread", source });
        spawned.map_err(failed)?;
        Ok(Self { shared: Outside::new(shared) })
    }

    fn shared(&self) -> PyResult<&Arc<Shared>> {
        if self.shared.is_here() { Ok(&self.shared) } else { Err(usage("it was begun before this process was forked")) }
    }
}

#[pymethods]
impl PyJob {
    /// Waits at most `seconds` for its end: whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let shared = self.shared()?;
        let mut left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        loop {
            let now = left.min(LOOK);
            if py.detach(|| shared.wait(now, |state| state.is_over)) {
                return Ok(true);
            }
            if let Err(interrupt) = py.check_signals() {
                self.cancel(py)?;
                return Err(interrupt);
            }
            left = left.saturating_sub(now);
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Waits for its end and returns its result. Once only.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        while !self.wait(py, 3600.0)? {}
        let outcome = self.shared()?.state().outcome.take();
        let outcome = outcome.ok_or_else(|| usage("the result of this job was taken"))?;
        outcome.map_err(|error| raise(py, &error))?(py)
    }

    /// Bytes that are done, all bytes, and bits per second.
    fn progress(&self) -> PyResult<Done> {
        Ok(self.shared()?.state().done)
    }

    /// Calls `then`, on any thread, when it has ended; at once if it has.
    fn on_end(&self, py: Python<'_>, then: Py<PyAny>) -> PyResult<()> {
        let shared = self.shared()?;
        let mut state = shared.state();
        if !state.is_over {
            state.then.push(then);
            return Ok(());
        }
        drop(state);
        then.call0(py).map(drop)
    }

    /// Ends it now: its waiters are told that it was interrupted. Waits a moment for its thread.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared()?;
        py.detach(|| {
            shared.cancel();
            shared.wait(PARTING, |state| state.has_ended);
        });
        Ok(())
    }
}
