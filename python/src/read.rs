//! Running reads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inhaul::{Error, Handle};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::common::{LOOK, outside, usage};
use crate::memory::{Exported, Memories, Memory, Region};
use crate::outside::Outside;

/// A running read.
pub(crate) enum Running {
    Memory(Handle<Memories>),
    Exported(Handle<Exported>),
    File(Handle<Region>),
}

impl Running {
    fn wait(&self, timeout: Duration) -> bool {
        match self {
            Self::Memory(handle) => handle.wait(timeout),
            Self::Exported(handle) => handle.wait(timeout),
            Self::File(handle) => handle.wait(timeout),
        }
    }

    fn progress(&self) -> (u64, u64) {
        let progress = match self {
            Self::Memory(handle) => handle.progress(),
            Self::Exported(handle) => handle.progress(),
            Self::File(handle) => handle.progress(),
        };
        (progress.bytes, progress.total_bytes)
    }

    fn cancel(&self) {
        match self {
            Self::Memory(handle) => handle.cancel(),
            Self::Exported(handle) => handle.cancel(),
            Self::File(handle) => handle.cancel(),
        }
    }

    fn on_end(&self, then: impl Fn() + Send + Sync + 'static) {
        match self {
            Self::Memory(handle) => handle.on_end(then),
            Self::Exported(handle) => handle.on_end(then),
            Self::File(handle) => handle.on_end(then),
        }
    }

    /// The received data, once it has ended; a file is synced.
    fn take(&self) -> Result<Vec<Memory>, Error> {
        let sync = |region: Region| region.file.sync_data().map_err(|source| Error::Sink { source });
        match self {
            Self::Memory(handle) => handle.try_take().map(|taken| taken.map(|Memories(memory)| memory)),
            Self::Exported(handle) => handle.try_take().map(|taken| taken.map(|_| Vec::new())),
            Self::File(handle) => handle.try_take().map(|taken| taken.and_then(sync).map(|()| Vec::new())),
        }
        .unwrap_or(Err(Error::Interrupted))
    }
}

/// A running read: see `inhaul.Read`.
#[pyclass(name = "Read", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyRead {
    /// `None` when its result was taken. Not held while somebody waits.
    read: Mutex<Option<Outside<Arc<Running>>>>,
}

impl PyRead {
    pub(crate) fn of(running: Running) -> Self {
        Self { read: Mutex::new(Some(Outside::new(Arc::new(running)))) }
    }

    fn with<T: Send>(&self, py: Python<'_>, look: impl FnOnce(&Running) -> T + Send) -> PyResult<T> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read = read.ok_or_else(|| usage("the result of this read was taken"))?;
        if !read.is_here() {
            return Err(usage("it was begun before this process was forked: begin it anew here"));
        }
        Ok(py.detach(move || look(&read)))
    }
}

#[pymethods]
impl PyRead {
    /// Bytes that are there, and all.
    fn progress(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.with(py, Running::progress)
    }

    /// Ends it now.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Running::cancel)
    }

    /// Calls `then`, on any thread, when it has ended.
    fn on_end(&self, py: Python<'_>, then: Py<PyAny>) -> PyResult<()> {
        let call = move || {
            Python::attach(|py| {
                // Its event loop may be closed: then no caller waits.
                if let Err(error) = then.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        };
        self.with(py, move |read| read.on_end(call))
    }

    /// Waits for its end: the bytes of each range, where they have memory of their own.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        while !self.with(py, |read| read.wait(LOOK))? {
            if let Err(interrupt) = py.check_signals() {
                self.with(py, Running::cancel)?;
                return Err(interrupt);
            }
        }
        let taken = self.read.lock().unwrap_or_else(PoisonError::into_inner).take();
        let read = taken.ok_or_else(|| usage("the result of this read was taken"))?;
        let memory = outside(py, || read.take())?;
        let bytes = memory.into_iter().map(|memory| memory.bytes(py)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, bytes)
    }
}
