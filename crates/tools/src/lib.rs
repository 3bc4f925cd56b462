//! What a path and its ends can do, and what files are: beside transfers, and not part of any.
//!
//! - [`doctor`]: diagnosis of hosts and paths; [`bench`](mod@bench): measurement from memory to memory.
//! - [`predict`](mod@predict): how long a transfer would take.
//! - [`check`]: compares directories with lists of checksums, without any network.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

pub mod bench;
pub mod check;
pub mod doctor;
pub mod predict;
