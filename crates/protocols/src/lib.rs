//! The transport protocols, one folder each, and the registry that names them. Congestion control laws that more than
//! one of them uses are in [`laws`].
//!
//! A new protocol is one folder and one line in [`registry`].
#![forbid(unsafe_code)]

pub mod gtp;
pub mod laws;
pub mod registry;
pub mod tcp;
pub mod udt;
