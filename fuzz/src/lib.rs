//! Every parser of inhaul as a function over hostile bytes.
//!
//! The functions have two drivers. `tests/smoke.rs` tries seeded mutations of a small corpus on stable Rust, as part of
//! `./test`. The cargo-fuzz targets in `fuzz_targets/` search by coverage, without a time limit.
#![forbid(unsafe_code)]

mod mutate;
mod pair;
pub mod targets;

pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
