//! Transfers that one host orders and another carries out: puts and copies, at both ends.
//!
//! It uses `haul`, `paths`, `serve`, `session`, `engine`, `api` and `system`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

mod carrier;
mod copy;
mod delegated;
mod follow;
mod order;
mod places;
mod put;
mod retry;
mod serve;

pub use self::copy::copy;
pub use self::order::{Order, OrderError, OrderRule, Origin, SOURCES_MAX};
pub use self::put::put;
pub use self::serve::serve;
