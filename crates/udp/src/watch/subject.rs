//! A watcher's input, and the memory that it shares with the watched thread.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use inhaul_transport::TcpFlows;

use super::Meter;
use super::published::Published;
use crate::clock::Clock;

/// The watched thread, and how to watch it.
#[derive(Debug)]
pub struct Subject {
    /// The clock that forecasts are in.
    pub clock: Clock,
    /// The thread's counters.
    pub meter: Arc<Meter>,
    /// Whether the thread writes received data to a disk.
    pub writes: bool,
    /// Whether to look at all sources, to learn the worth of each, rather than only at those with consequences.
    pub thorough: bool,
    /// Whether to measure the rate of the host's own TCP.
    pub tcp: bool,
}

/// The memory that both threads share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) published: Published,
    /// The rate of TCP, until it is fetched.
    pub(super) tcp: Mutex<Option<TcpFlows>>,
    pub(super) has_tcp: AtomicBool,
    pub(super) stop: AtomicBool,
}
