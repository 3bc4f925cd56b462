//! Services of the operating system: threads, UDP sockets, open files, random numbers, processor time, disk speed.
//!
//! It uses `api` alone.

pub mod disk;
pub mod process;
pub mod sockets;
pub mod threads;
