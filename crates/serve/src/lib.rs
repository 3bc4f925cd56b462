//! A server of data sets: it greets clients, lists and opens what is offered, sends it, and hashes it.
//!
//! It uses `session`, `engine`, `api` and `system`. What clients order it to fetch is carried out behind [`orders`].
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

mod attaching;
pub mod audit;
pub(crate) mod bodies;
mod budget;
mod carriers;
pub mod catalogue;
mod client_rates;
mod digest_service;
mod early;
pub mod gate;
pub mod greeting;
pub(crate) mod half_open;
mod hasher;
pub mod house;
pub mod orders;
pub mod passes;
pub mod reception;
pub mod server;
pub mod serving;
pub mod tunnels;
mod turns;
