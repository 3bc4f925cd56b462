//! Schedulers: which of a host's tasks has the processor, and which pauses can be foreseen.
//!
//! A host with a scheduler has one processor. Its endpoints run in one process, which takes packets from the ring while
//! the scheduler lets it, and sleeps when there are none. Other tasks compete with it. rbudp-plus-2006 section 4
//! describes the first scheduler, that of Linux 2.6; the other is like the present one.
//!
//! **Not modelled:** several processors, the time of a switch, and real-time tasks.
//!
//! Endpoints on such a host hear of its state as on a real one (`Endpoint::handle_host`).

mod eevdf;
mod o1;
mod policy;
mod processor;
mod spec;

pub(crate) use processor::Processor;
pub use spec::{EevdfSpec, Monitor, O1Spec, Quota, SchedulerKind, SchedulerSpec, TASKS_MAX, Task};
