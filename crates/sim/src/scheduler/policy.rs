//! The common interface of schedulers.

use std::fmt::Debug;

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;

/// The process of the endpoints, among the tasks.
pub(super) const PROCESS: usize = 0;

/// Decides which task runs. Tasks are numbered; [`PROCESS`] is the receiving process.
pub(super) trait Policy: Debug + Send {
    /// The task that has the processor.
    fn running(&self) -> Option<usize>;

    /// Lets time pass up to `now`, which is not after [`due`](Self::due). A slice that is over then ends.
    fn pass(&mut self, now: Time);

    /// When the processor is next given to another task, if none wakes up or falls asleep before.
    fn due(&self) -> Option<Time>;

    /// A sleeping task has something to do.
    fn wake(&mut self, now: Time, task: usize);

    /// The running task has nothing to do.
    fn block(&mut self, now: Time);

    /// When the process, which is running, will next not run for a while.
    fn foresee(&self, now: Time) -> Option<Pause>;
}

/// The first tick at or after a time.
pub(super) fn tick_after(at: Time, tick: Span) -> Time {
    Time::from_nanos(at.as_nanos().next_multiple_of(tick.as_nanos().max(1)))
}
