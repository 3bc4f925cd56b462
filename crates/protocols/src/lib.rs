//! The transport protocols, one folder each, and the registry that names them.
//!
//! A new protocol is one folder and one line in [`registry`].
#![forbid(unsafe_code)]

pub mod gtp;
pub mod registry;
pub mod tcp;
