//! Messages between the emulator and the keeper of its namespaces.

use std::net::{Ipv4Addr, Ipv6Addr};

use inhaul_base::Span;
use serde::{Deserialize, Serialize};

/// From the emulator. The keeper answers each in turn.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Make these hosts: a [`Answer::Host`] with its device for each, and then [`Answer::Ready`].
    SetUp { hosts: Vec<HostSetUp> },
    /// Start a command. With it come its standard input, output and error, and the socket that tells of its end.
    Spawn(Spawn),
    /// Asks for the devices' counters.
    Counters,
    /// How much processor time have the hosts' processes used?
    ProcessorTime,
    /// Does a process at this host listen for connections or datagrams?
    Listens { host: usize, port: Option<u16> },
}

/// A host to be made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HostSetUp {
    pub(crate) name: String,
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) ipv6: Ipv6Addr,
    pub(crate) mtu: u16,
    pub(crate) superpackets: bool,
}

/// A command to be started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spawn {
    pub(crate) host: usize,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// Variables to add to the environment, or with `None` to remove from it.
    pub(crate) environment: Vec<(String, Option<String>)>,
    pub(crate) directory: Option<String>,
    /// Whether it has a process group of its own, which signals go to.
    pub(crate) own_group: bool,
}

/// From the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// A host is there; its device comes with this.
    Host,
    /// All are. What could not be had, and does without.
    Ready { warnings: Vec<String> },
    /// The command runs.
    Started { pid: u32 },
    /// By host.
    Counters(Vec<DeviceCounters>),
    /// By host, in nanoseconds.
    ProcessorTime(Vec<u64>),
    /// Whether a process listens.
    Listens(bool),
    /// It could not be done.
    Failed(Failure),
}

/// Why a request failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) what: String,
    pub(crate) message: String,
}

/// Causes that the user can do something about, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    NamespacesForbidden,
    TunForbidden,
    Other,
}

/// A device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceCounters {
    /// Packets that came to the host through the device and were dropped or wrong.
    pub(crate) inward_drops: u64,
    /// Packets that the host sent and that were dropped before the emulator could read them.
    pub(crate) outward_drops: u64,
}

/// From the keeper, over a command's own socket: it has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// As `wait` gives it.
    pub(crate) status: i32,
    /// Processor time in nanoseconds of the process and of all processes that it started, without running ones.
    pub(crate) cpu_nanos: u64,
}

impl Ended {
    pub(crate) fn cpu(&self) -> Span {
        Span::from_nanos(self.cpu_nanos)
    }
}
