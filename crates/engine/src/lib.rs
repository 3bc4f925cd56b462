//! The one real-time loop, and the ways that flows' data takes.
//!
//! - [`engine`]: the loop, its ports, tunnels and listeners.
//! - [`paths`]: how flows' data comes, over UDP or streams.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

pub mod engine;
pub mod paths;
