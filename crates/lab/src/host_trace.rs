//! Traces of real hosts: how late their threads woke, what they missed, and how datagrams were handed to them. `inhaul lab record-host`
//! makes them, and the simulator's hosts replay them. Those in `experiments/hosts/` are built into the program.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use inhaul_base::Span;
use inhaul_sim::{HostNoise, Stall};
use inhaul_transport::{EndpointConfig, Role};
use serde::{Deserialize, Serialize};

/// Name and text of each kept trace.
const KEPT: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/host_traces.rs"));

/// The form of the file.
const VERSION: u32 = 1;
/// Largest trace, in bytes.
const TEXT_MAX: u64 = 4 << 20;
/// The longest delay of a trace, in microseconds: a minute.
const LATE_US_MAX: f64 = 60e6;
/// The longest time between two stalls, in microseconds: a day.
const BETWEEN_US_MAX: f64 = 86_400e6;

/// What a host did, as it stands in its file. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTrace {
    /// The form of the file.
    pub host_trace: u32,
    /// What was recorded, in words.
    pub about: String,
    /// The kernel that it was recorded on.
    pub kernel: String,
    /// How many processors the host had.
    pub processors: u32,
    /// How long it was recorded.
    pub seconds: f64,
    /// How late a thread ran that had slept until a deadline, one after the other.
    pub wake_late_us: Vec<f64>,
    /// From the arrival of the datagram that woke its reader to its reading.
    pub read_late_us: Vec<f64>,
    /// Times in which a thread that worked was kept from it: from the end of the one before to its beginning, and its length.
    pub stalls_us: Vec<(f64, f64)>,
    /// Datagrams in each message that was read.
    pub aggregates: Vec<u16>,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is none of that name.
    #[error("there is no trace of a host '{name}'; there are: none, {}, or a file that ends in .json", names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read the trace {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is no trace, or says what cannot be.
    #[error("{path} is no trace of a host: {reason}")]
    Bad {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// The names of the kept traces.
pub fn names() -> Vec<&'static str> {
    KEPT.iter().map(|(name, _)| *name).collect()
}

/// The kept trace of that name, or the one in a file whose name ends in `.json`.
///
/// # Errors
/// When there is none, or it makes no sense.
pub fn find(name: &str) -> Result<HostTrace, TraceError> {
    let bad = |reason| TraceError::Bad { path: name.to_owned(), reason };
    if let Some((_, text)) = KEPT.iter().find(|(kept, _)| *kept == name) {
        return HostTrace::parse(text).map_err(bad);
    }
    if !Path::new(name).extension().is_some_and(|extension| extension == "json") {
        return Err(TraceError::Unknown { name: name.to_owned() });
    }
    let unreadable = |error| TraceError::Unreadable { path: name.to_owned(), error };
    let mut text = String::new();
    let file = fs::File::open(name).map_err(unreadable)?;
    file.take(TEXT_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    HostTrace::parse(&text).map_err(bad)
}

impl Default for HostTrace {
    /// A host that was not looked at.
    fn default() -> Self {
        Self {
            host_trace: VERSION,
            about: String::new(),
            kernel: String::new(),
            processors: 1,
            seconds: 0.0,
            wake_late_us: Vec::new(),
            read_late_us: Vec::new(),
            stalls_us: Vec::new(),
            aggregates: Vec::new(),
        }
    }
}

impl HostTrace {
    /// Reads a trace and checks it; the error says what is wrong.
    ///
    /// # Errors
    /// When it is none, or its numbers make no sense.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() as u64 > TEXT_MAX {
            return Err(format!("it has more than {TEXT_MAX} bytes"));
        }
        let trace: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        trace.check()?;
        Ok(trace)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.host_trace != VERSION {
            return Err(format!("its form is {}, this program reads {VERSION}", self.host_trace));
        }
        for (what, list) in [("wake_late_us", &self.wake_late_us), ("read_late_us", &self.read_late_us)] {
            if list.is_empty() {
                return Err(format!("`{what}` is empty"));
            }
            if let Some((at, late)) = list.iter().enumerate().find(|(_, late)| !(0.0..=LATE_US_MAX).contains(*late)) {
                return Err(format!("`{what}[{at}]` is {late}; a delay is from 0 to {LATE_US_MAX} microseconds"));
            }
        }
        let stall_is_bad = |(after, length): &(f64, f64)| {
            !(1.0..=BETWEEN_US_MAX).contains(after) || !(0.0..=LATE_US_MAX).contains(length)
        };
        if let Some(at) = self.stalls_us.iter().position(stall_is_bad) {
            let (after, length) = self.stalls_us[at];
            return Err(format!(
                "`stalls_us[{at}]` is [{after}, {length}]: a stall begins 1 microsecond to a day after the one before, and lasts up to a minute"
            ));
        }
        if let Some(at) = self.aggregates.iter().position(|&count| count == 0) {
            return Err(format!("`aggregates[{at}]` is 0; a message has at least one datagram"));
        }
        Ok(())
    }

    /// The simulator's noise.
    pub fn noise(&self) -> HostNoise {
        let span = |micros: f64| Span::from_secs_f64(micros / 1e6);
        let stall = |&(after, length): &(f64, f64)| Stall { after: span(after), length: span(length) };
        HostNoise {
            wake_late: self.wake_late_us.iter().copied().map(span).collect(),
            read_late: self.read_late_us.iter().copied().map(span).collect(),
            stalls: self.stalls_us.iter().map(stall).collect(),
            aggregates: self.aggregates.clone(),
            // What the endpoints of a scenario are told that their sockets hold.
            socket_bytes: Some(EndpointConfig::new(Role::Receiver, 0).socket_buffer_bytes),
        }
    }
}
