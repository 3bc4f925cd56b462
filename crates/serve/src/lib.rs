//! A server of data sets: it greets clients, lists and opens what is offered, sends it, and hashes it.
//!
//! It uses `session`, `engine`, `api` and `system`. What clients order it to fetch is carried out behind [`orders`].
//!
//! Anybody may connect to a server, so everything that a client can ask for is bounded. A connection is first a
//! half-open one (`half_open`). Once its client is let in, it takes a slot (`session/slots.rs`). With the slot goes a
//! pass (`passes`): the right is looked at once a second, and its end ends the session. Every state has a time-out.
//! Where a protocol watches a session, the protocol's time-outs count. Lists of files are read once for all clients
//! that ask for them, and held within one budget (`catalogue`, `budget`). `turns` divides shared threads.
//!
//! `gate` decides every request, before any work: by the public rights, by the client's key, or by its token, and by
//! the token alone if the client shows one. Only the head of an order is parsed before that. The resulting `Reach` is
//! the scope of the right. It goes with the request to `Inbox::within` of the store, which opens the scope's directory
//! and resolves beneath that.
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
