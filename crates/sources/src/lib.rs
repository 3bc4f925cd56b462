//! Sources: where the bytes of a data set come from, whatever they are.
//!
//! A source is opened ([`opener`]), says what it has, is asked for ranges by the
//! scheduler, delivers, fails, and comes back. There are two kinds:
//!
//! - An **inhaul session**. Its data comes as datagrams over UDP or over TLS streams (`connect`), and a digest of each
//!   group on the control stream.
//! - **Ranges** ([`RangeSource`]): something that can be read at any place and knows no protocol of ours, such as an HTTP
//!   server or a local file. Threads read from it (`lanes`). It may have no digests.
//!
//! [`Roster`] keeps those that are away: not there yet, or lost. `fate` says what the end of a flow means for its
//! source. A transfer and reads (`inhaul-haul`, `inhaul-read`) use all of it alike.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

pub mod connect;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests use it")]
pub mod fake;
pub(crate) mod fate;
pub mod http;
mod kinds;
pub(crate) mod lanes;
mod local;
pub mod opener;
pub(crate) mod ranges;
pub(crate) mod roster;

pub use self::connect::{Connected, add_ranges, connect};
pub use self::fate::Fate;
pub use self::ranges::{RangeSource, ReadFailure};
pub use self::roster::{Away, News, Roster, Sameness, next_fall};
