//! The crate as its users see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod examples;
mod reads;
