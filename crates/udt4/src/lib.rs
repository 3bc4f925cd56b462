//! UDT 4 beside libudt.
#![forbid(unsafe_code)]

pub mod handshake;
pub mod wire;
