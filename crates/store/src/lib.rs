//! Disk to ranges and back: what a server offers, what a receiver lands, and the digests that say it is the same.
//!
//! A *data set* is one file or one directory tree. Its files lie one after another in a single byte space, so that a
//! transport sees only the offsets 0 to size and a small file costs nothing extra.
//!
//! - A [`Manifest`] says which file lies where.
//! - An [`Offered`] finds data sets beneath the directories of a server, and reads them.
//! - A [`Plan`] says what landing a data set would do, for the files that a [`Filter`] selects.
//! - A [`Landing`] writes a data set. It gives each file its name when its bytes are verified, by the [`digest`] of
//!   its groups. Its [`journal`] lets an interrupted transfer continue.
//!
//! This crate uses no network, starts no thread and reads no clock.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod beneath;
pub mod checksums;
mod destination;
pub mod digest;
pub mod digest_cache;
mod disk;
mod file_lock;
mod file_system;
mod file_time;
mod filter;
mod inbox;
pub mod journal;
mod landing;
mod landing_error;
mod listing;
mod manifest;
mod offered;
mod open_files;
mod own_directory;
mod partial;
mod plan;
pub mod range_cache;
mod sparse;
mod text;
#[cfg(test)]
mod without_openat2;

pub use destination::{Site, make_parents};
pub use filter::{Filter, FilterError, Rule, check_size as check_rules_size};
pub use inbox::Inbox;
pub use landing::{HeldGroup, Landing, LandingOptions, Resumed};
pub use landing_error::LandingError;
pub use listing::{Listed, ListedKind, ListingError};
pub use manifest::{
    Attribute, Contents, Directory, Entry, HardLink, Kind, Manifest, ManifestError, Metadata, Owner, Piece, Skipped,
    Symlink, Timestamp,
};
pub use offered::{DataSet, ListOptions, MayHold, Offer, OfferNameError, Offered, OfferedError, ScanOptions};
pub use plan::{Existing, Fate, Plan};
pub use sparse::{is_zeros, stored_within};
pub use text::{is_obeyed, printable, printable_lines};
