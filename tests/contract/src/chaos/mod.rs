//! Chaos: transfers drawn from a seed, on paths that lose, reorder, duplicate and change, between hosts that crash, stand
//! still and get other addresses. One invariant: every byte is placed once and as it was sent, or all flows have ended,
//! each with a reason; always in bounded time and in a bounded number of events.

mod clock;
mod course;
mod plan;

pub use clock::Clock;
pub use course::{Outcome, Report, run};
pub use plan::{Fault, Mirror, Plan};
