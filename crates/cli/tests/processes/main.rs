//! The program as its users meet it: real processes over loopback.
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod blocked;
mod coming_from;
mod common;
mod copy;
mod destinations;
mod disks;
mod early;
mod emulated;
mod errors;
#[path = "../../src/figures.rs"]
mod figures;
mod http;
mod integrity;
mod kernel_cc;
mod lab;
mod link;
mod lists;
mod looking;
mod many;
mod names;
mod partial;
mod policies;
mod put;
mod rates;
mod resume;
mod settings;
mod transfers;
mod trees;
mod udt;
mod usage;
mod verify;
