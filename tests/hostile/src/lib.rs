//! Tools for attacks and faults against the program as it runs: hostile peers, bad networks, kills.
//!
//! The tests stand in `tests/`, one file a topic; README.md lists the attacks of each and the results. This library has
//! their common parts:
//!
//! - [`inhaul()`] starts the program under test; [`Server`] and [`Running`] are bounded in time and end with the test.
//! - [`Session`], [`GtpClient`] and [`RawPut`] speak to a server, by the rules or by raw bytes.
//! - [`HostileServer`] answers clients by a script; [`RawManifest`] makes manifests that no honest server would send.
//! - [`Relay`] stands between the two and damages what passes.
//! - [`Network`] makes network namespaces.
//! - [`Manager`] does what systemd does for a service, and [`Unit`] knows its filters of system calls.
//! - [`Readings`] are a process's resources: memory, processor time, descriptors, threads.
//!
//! Variables: `INHAUL` names another program than the one of this workspace; `INHAUL_SESSION` is the version of the
//! session protocol that it speaks; `INHAUL_HOSTILE=all` runs the long variants too; `INHAUL_CHAOS_TRANSFERS` says how
//! many transfers of `chaos.rs` there are.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod confined;
mod datagram;
mod gtp;
mod hostile_server;
mod manager;
mod manifest;
mod network;
mod process;
mod program;
mod put;
mod relay;
mod scratch;
mod session;

pub use confined::{Unit, again_without_openat2, python, without_ipv6};
pub use datagram::{FlowSeal, in_clear};
pub use gtp::{GtpClient, OURS, Received, setup};
pub use hostile_server::{Endpoint, HostileServer, Offer, honest_proofs};
pub use manager::Manager;
pub use manifest::{RawFile, RawManifest};
pub use network::{Namespace, Network};
pub use process::Readings;
pub use program::{Outcome, Running, Server, Start, inhaul};
pub use put::RawPut;
pub use relay::{Direction, Relay};
pub use rustix::process::Signal;
pub use scratch::{FailingDisk, Scratch, SmallDisk, noise, tree};
pub use session::{Heard, Session, session_version};

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether the long variants run too.
pub fn all() -> bool {
    std::env::var("INHAUL_HOSTILE").is_ok_and(|value| value == "all")
}

/// Prints the figures of an attempt, in the form that `tests/hostile/run` collects.
pub fn figures(attempt: &str, figures: &str) {
    println!("hostile: {attempt} | {figures}");
}

/// Held by tests that load a processor or look at how much of it is used: one at a time.
pub fn heavy() -> MutexGuard<'static, ()> {
    static HEAVY: Mutex<()> = Mutex::new(());
    HEAVY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flag that limits the rate of a put, by another name before session version 5.
pub fn put_rate() -> &'static str {
    if session_version() < 5 { "--rate" } else { "--send-rate" }
}

/// Waits until `condition` holds, at most for `within`; whether it came to hold. The one place where these tests
/// sleep: what other processes do is not told to them, so they have to look.
pub fn wait_for(within: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Whether `condition` holds all through `stretch`, for states that must last for a while.
pub fn holds_for(stretch: Duration, mut condition: impl FnMut() -> bool) -> bool {
    !wait_for(stretch, || !condition())
}

/// A printed seed, so that a failure can be replayed: `INHAUL_HOSTILE_SEED`, or a new one.
pub fn seed(attempt: &str) -> u64 {
    let given = std::env::var("INHAUL_HOSTILE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()) << 32
    });
    println!("{attempt}: INHAUL_HOSTILE_SEED={seed}");
    seed
}
