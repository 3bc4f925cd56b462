//! Link elements without I/O: the fate of a packet between two nodes. The caller supplies the time.
//!
//! A [`Link`] carries packets of any type in one direction: it queues them, transmits them at a rate, delays them, and
//! loses, reorders and duplicates them by its [`LinkSpec`]. The simulator and the emulator use the same links. A link
//! has no clock and no randomness of its own: it is given `now` and a [`RandomStream`](inhaul_base::RandomStream), so
//! the same calls have the same result on any machine.
//!
//! A link is a queue, a transmitter and a wire. It computes departures at exact times, at any moment that it is looked
//! at. So a late emulator does not change the shaping.
#![forbid(unsafe_code)]

mod codel;
mod line;
mod link;
mod loss;
mod mark;
mod queue;
mod red;
mod spec;
mod stats;
mod wire;

pub use link::{DropCause, Link};
pub use mark::Mark;
pub use spec::{
    CoDelSpec, Discipline, GilbertElliottSpec, LinkSpec, LossSpec, QueueLimit, QueueSpec, RedSpec, ReorderingSpec,
    SpecError,
};
pub use stats::{LinkStats, Traffic};
