//! Attacks and faults against the program as it runs, one module a topic.
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod addresses;
mod chaos;
mod claims;
mod confined;
mod damage;
mod destination;
mod disagree;
mod disks;
mod early;
mod environment;
mod fallback;
mod harness;
mod identity;
mod inbox;
mod kills;
mod leaks;
mod lost;
mod mirrors;
mod odd_names;
mod reads;
mod relay;
mod rights;
mod sealed;
mod sending;
mod server;
mod service;
mod sources;
mod states;
mod strangers;
mod terminal;
mod threads;
mod udt;
