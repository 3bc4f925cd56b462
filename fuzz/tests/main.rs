//! Bounded fuzz runs on stable Rust.

mod flood;
mod smoke;
