//! Every parser of inhaul as a function over hostile bytes.
//!
//! The same functions have two drivers: `tests/smoke.rs`, which tries seeded mutations of a small corpus on stable
//! Rust as part of `./test`, and the cargo-fuzz targets in `fuzz_targets/`, which search by coverage for as long as
//! you let them.
#![forbid(unsafe_code)]

mod mutate;
mod pair;
pub mod targets;

pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
