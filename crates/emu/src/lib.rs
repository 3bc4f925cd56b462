//! A link emulator: real IP packets between network namespaces through the elements of [`inhaul_link`], without root and without
//! kernel modules.
//!
//! A [`Grid`] says which hosts there are and which links lead from one to another. An [`Emulator`] of it gives each host a network
//! namespace with one TUN device and carries what comes out of one device, link by link, to another; programs are started in
//! the hosts by [`Emulator::spawn`], and what the links did and how honestly is in the [`Report`].
//!
//! **Time.** A packet leaves at the time at which it was read from its device. From there on its times are virtual: the links compute
//! when it would be where, to the nanosecond, and it is handed over when that time has come. So a wake-up that comes late
//! delays a packet, but does not change the rate of a link or what its queue drops. How late is measured, and a run in
//! which it was too late is marked ([`Report::valid`]).
//!
//! **Superpackets.** Above about 1 Gbit/s devices hand over many TCP segments under one header. The links see each segment for
//! itself; those that arrive one after the other are handed over as one again.
//!
//! **What is not emulated:** routers do not lower the time to live, and answer to nobody; the processors of hosts are those of this
//! machine.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the emulator is an engine: real packets need real time")]

mod awake;
mod channel;
mod emulator;
mod engine;
mod error;
mod grid;
mod keeper;
mod message;
mod options;
mod packet;
mod process;
mod report;

pub use emulator::Emulator;
pub use engine::{LATENESS_MAX, Lateness};
pub use error::EmuError;
pub use grid::{Change, Grid, GridError, GridLink, HOSTS_MAX, Host, LinkChange, Superpackets};
pub use keeper::{KEEPER_ARGUMENTS, Stage, run_keeper};
pub use options::{Options, Wait};
pub use process::{Exit, Process, Signal, SpawnOptions, Stream};
pub use report::{HostReport, LATE_PART_MAX, LinkReport, Report, STARVED_PART_MAX};
