//! The receiving side: data sets are fetched from their sources, verified and landed.
//!
//! - [`haul`]: a transfer at the receiver, and lists of what servers have.
//! - [`fetch_list`]: lists of what to fetch, without any network.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

pub mod fetch_list;
pub mod haul;
