//! Services of the operating system other than sockets: threads, open files, random numbers, processor time, disk
//! speed.
//!
//! It uses `api` alone.

pub(crate) mod disk;
pub(crate) mod process;
pub(crate) mod threads;
