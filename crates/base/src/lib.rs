//! Basic types of all crates: time, rates, bytes, sequence numbers, byte ranges, tables and seeded randomness.
//!
//! Units are types. Time is an integer number of nanoseconds, so that two machines that replay the same
//! scenario agree to the last bit.
//!
//! A rate is a `Throughput`: bytes and the time that they took. `byte_text` writes paths of any bytes as text and back,
//! one to one.
#![forbid(unsafe_code)]

pub mod byte_text;
mod random;
mod ranges;
mod sequence;
pub mod table;
mod time;
mod units;

pub use random::RandomStream;
pub use ranges::{ByteRange, RangeSet};
pub use sequence::Sequence;
pub use time::{Span, Time};
pub use units::{Bitrate, ParseUnitError, Probability, Throughput, format_bytes, format_seconds, parse_bytes};
