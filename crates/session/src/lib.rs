//! What clients and servers say to each other, and what callers say and hear.
//!
//! A session is one TCP connection ([`frame`]s over a [`control_stream`]) beside one UDP path.
//!
//! - [`api`]: what callers say and hear: options and requests, updates, reports and errors.
//! - [`system`]: threads, random numbers, a disk's speed.
//! - [`session`]: frames, the control stream, TLS, connecting.
//!
//! [`frame`]: session::frame
//! [`control_stream`]: session::control_stream
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

pub mod api;
pub mod session;
pub mod system;
