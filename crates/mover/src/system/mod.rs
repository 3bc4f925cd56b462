//! What is asked of the system beside sockets: threads, open files, random numbers, processor time, a disk's speed.
//!
//! It uses `api` alone.

pub(crate) mod disk;
pub(crate) mod process;
pub(crate) mod threads;
