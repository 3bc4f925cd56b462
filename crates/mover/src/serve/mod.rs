//! A server of data sets: it greets clients, lists and opens what is offered, sends it, and hashes it.
//!
//! It uses `session`, `engine`, `api` and `system`. What clients order it to fetch is carried out behind [`orders`].

mod attaching;
pub(crate) mod audit;
pub(crate) mod bodies;
mod budget;
mod carriers;
pub(crate) mod catalogue;
mod client_rates;
mod digest_service;
mod early;
pub(crate) mod gate;
pub(crate) mod greeting;
pub(crate) mod half_open;
mod hasher;
pub(crate) mod house;
pub(crate) mod orders;
pub(crate) mod passes;
pub(crate) mod reception;
pub(crate) mod server;
pub(crate) mod serving;
pub(crate) mod tunnels;
mod turns;
