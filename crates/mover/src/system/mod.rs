//! Services of the operating system: threads, UDP sockets, open files, random numbers, processor time, disk speed.
//!
//! It uses `api` alone.

pub(crate) mod disk;
pub(crate) mod process;
pub(crate) mod sockets;
pub(crate) mod threads;
