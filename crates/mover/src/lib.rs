//! The product: servers that offer data, and the client that hauls it in.
//!
//! A session is one TCP connection ([`frame`]s over a [`control_stream`]) beside one UDP path.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]

pub mod control_stream;
mod error;
pub mod frame;
mod report;
mod source;

pub use error::{ErrorKind, MoveError};
pub use report::{
    BenchInterval, BenchReport, BenchSource, ErrorReport, FileReport, Report, SourceReport, SourceStatus, Status,
    jain_index,
};
pub use source::{DEFAULT_PORT, Server, Source, SourceError};
