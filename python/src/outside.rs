//! Native values that own threads: how they are dropped, and what becomes of them in the child of a fork.
//!
//! They are dropped without the interpreter, and forgotten in the child of a fork.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;

/// The interpreter is about to end. Python 3.13 is the first to tell extensions of the stable interface.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// How often this process, or an ancestor of it, was forked since the module was loaded.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Told by `atexit`, after the program's own functions.
#[pyfunction]
pub(crate) fn note_end() {
    IS_ENDING.store(true, Ordering::Relaxed);
}

/// Told in the child of a fork, before anything else runs there.
#[pyfunction]
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs between a process and the children that it forks. Objects made under another number are not
/// used.
#[pyfunction]
pub(crate) fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Ordering::Relaxed)
}

/// A value whose drop may end threads. They may need the interpreter before they end, so it is dropped without holding
/// it.
///
/// Threads do not survive a fork. A child forgets inherited objects: joining a missing thread would wait for ever, and
/// the threads' state in its memory is unknown.
#[derive(Clone)]
pub(crate) struct Outside<T: Send> {
    value: Option<T>,
    forks: u64,
}

impl<T: Send> Outside<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), forks: forks() }
    }

    /// Whether its threads run in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.forks == forks()
    }

    /// Takes it out; `None` where it is only inherited, and forgotten.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        let value = self.value.take();
        if self.is_here() {
            return value;
        }
        std::mem::forget(value);
        None
    }
}

impl<T: Send> Deref for Outside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let Some(value) = &self.value else { unreachable!("it is taken when it is dropped") };
        value
    }
}

impl<T: Send> Drop for Outside<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        // A thread that waits for an ending interpreter waits for ever, and keeps what it holds. The process is ending,
        // too: its threads and connections go with it.
        if is_ending() || !self.is_here() {
            return std::mem::forget(value);
        }
        let mut value = Some(value);
        let _ = Python::try_attach(|py| py.detach(|| drop(value.take())));
        std::mem::forget(value);
    }
}
