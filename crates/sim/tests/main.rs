//! The simulator as its users see it.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod capture;
mod common;
mod network;
mod noise;
mod scheduler;
