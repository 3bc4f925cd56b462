//! A link emulator: it carries real IP packets between network namespaces, through the elements of [`inhaul_link`]. It
//! needs neither root nor kernel modules.
//!
//! A [`Grid`] lists the hosts and the links between them. An [`Emulator`] of a grid gives each host a network
//! namespace with one TUN device. It carries packets from one device over the links to another. [`Emulator::spawn`]
//! starts programs in the hosts. The [`Report`] has the links' counters, and whether the emulation was valid.
//!
//! **Time.** A packet leaves at the time when it was read from its device. From there on its times are virtual: the
//! links compute its arrival to the nanosecond, and it is delivered when that time has come. So a late wake-up delays
//! a packet, but changes neither the rate of a link nor the drops of its queue. Lateness is measured, and a run with
//! too much of it is marked ([`Report::valid`]).
//!
//! **Superpackets.** Above about 1 Gbit/s, devices deliver many TCP segments under one header. The links treat each
//! segment separately. Segments that arrive one after the other are joined again.
//!
//! **Not emulated:** routers do not lower the time to live, and answer no packets. The hosts share this machine's
//! processors.
//!
//! **Routers** are inside the emulator: a packet passes over the links of its path there. The emulator also measures
//! how long it was starved, and the devices' drops beside the emulated queues. Too much of these makes a run invalid
//! instead of wrong.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
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
