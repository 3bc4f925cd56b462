//! Sources: where the bytes of a data set come from, whatever they are.
//!
//! A source is opened ([`opener`]), says what it has, is asked for ranges by the
//! scheduler, delivers, fails, and comes back. There are two kinds:
//!
//! - An **inhaul session**. Its data comes as datagrams over UDP or over TLS streams ([`connect`]), and a digest of each
//!   group on the control stream.
//! - **Ranges** ([`RangeSource`]): something that can be read at any place and knows no protocol of ours, such as an HTTP
//!   server or a local file. Threads read from it ([`lanes`]). It may have no digests.
//!
//! [`Roster`] keeps those that are away: not there yet, or lost. [`fate`] says what the end of a flow means for its
//! source. A transfer and reads ([`crate::haul`], [`crate::read`]) use all of it alike.

pub(crate) mod connect;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod fate;
pub(crate) mod http;
pub(crate) mod lanes;
mod local;
pub(crate) mod opener;
pub(crate) mod ranges;
pub(crate) mod roster;

pub(crate) use self::connect::{Connected, add_ranges, connect};
pub(crate) use self::fate::Fate;
pub(crate) use self::ranges::{RangeSource, ReadFailure};
pub(crate) use self::roster::{Away, News, Roster, Sameness, next_fall};
