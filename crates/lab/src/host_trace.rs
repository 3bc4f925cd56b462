//! Traces of real hosts: how late threads woke, how long they stalled, and how datagrams were delivered to them.
//! `inhaul lab record-host` makes them, and the simulator's hosts replay them. Those in `experiments/hosts/` are built
//! into the program.

use std::fs;
use std::io::Read as _;
use std::ops::RangeInclusive;
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
/// Size of a socket's buffer, in bytes: from the least that Linux gives to the most that its options can express.
const SOCKET_BYTES: RangeInclusive<u64> = 2_048..=i32::MAX as u64;
/// The longest time between two stalls, in microseconds: a day.
const BETWEEN_US_MAX: f64 = 86_400e6;

/// A record of a host, as in its file. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTrace {
    /// The form of the file.
    pub host_trace: u32,
    /// Description of the record.
    pub about: String,
    /// The kernel that it was recorded on.
    pub kernel: String,
    /// How many processors the host had.
    pub processors: u32,
    /// How long it was recorded.
    pub seconds: f64,
    /// Buffer size of its UDP sockets, in bytes; if unknown: Linux's default.
    #[serde(default)]
    pub socket_bytes: Option<u64>,
    /// How late a thread ran that had slept until a deadline, one after the other.
    pub wake_late_us: Vec<f64>,
    /// From the arrival of the datagram that woke its reader to its reading.
    pub read_late_us: Vec<f64>,
    /// Times in which a thread that worked was kept from it: from the end of the one before to its beginning, and its
    /// length.
    pub stalls_us: Vec<(f64, f64)>,
    /// Datagrams in each message that was read.
    pub aggregates: Vec<u16>,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no record of that name.
    #[error("there is no trace of a host '{name}'; there are: none, {}, or a file that ends in .json", names().join(", "))]
    Unknown {
        /// The requested name.
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
        /// The fault.
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
/// If it does not exist, or makes no sense.
pub fn find(name: &str) -> Result<HostTrace, TraceError> {
    let bad = |reason| TraceError::Bad { path: name.to_owned(), reason };
    if let Some((_, text)) = KEPT.iter().find(|(kept, _)| *kept == name) {
        return HostTrace::parse(text).map_err(bad);
    }
    if Path::new(name).extension().is_none_or(|extension| extension != "json") {
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
            socket_bytes: None,
            wake_late_us: Vec::new(),
            read_late_us: Vec::new(),
            stalls_us: Vec::new(),
            aggregates: Vec::new(),
        }
    }
}

impl HostTrace {
    /// Reads a trace and checks it; the error names the fault.
    ///
    /// # Errors
    /// If the text is no record, or its numbers make no sense.
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
        if let Some(bytes) = self.socket_bytes.filter(|bytes| !SOCKET_BYTES.contains(bytes)) {
            let (least, most) = (SOCKET_BYTES.start(), SOCKET_BYTES.end());
            return Err(format!("`socket_bytes` is {bytes}; a socket holds from {least} to {most} bytes"));
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
            socket_bytes: Some(
                self.socket_bytes.unwrap_or_else(|| EndpointConfig::new(Role::Receiver, 0).socket_buffer_bytes),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"{"host_trace": 1, "about": "a test", "kernel": "6.1", "processors": 2, "seconds": 1.5,
        "wake_late_us": [12.3, 4], "read_late_us": [7.5], "stalls_us": [[1000, 55.5]], "aggregates": [1, 44]}"#;

    fn refused_with(from: &str, to: &str) -> String {
        assert!(TRACE.contains(from), "{from}");
        HostTrace::parse(&TRACE.replacen(from, to, 1)).expect_err("refused")
    }

    #[test]
    fn parse_reads_what_the_simulator_replays() {
        let noise = HostTrace::parse(TRACE).unwrap().noise();
        assert_eq!(noise.wake_late, [Span::from_nanos(12_300), Span::from_micros(4)]);
        assert_eq!(noise.read_late, [Span::from_nanos(7_500)]);
        assert_eq!(noise.stalls, [Stall { after: Span::from_millis(1), length: Span::from_nanos(55_500) }]);
        assert_eq!((noise.aggregates, noise.socket_bytes), (vec![1, 44], Some(208 * 1024)));
    }

    #[test]
    fn parse_says_what_is_wrong_and_where() {
        for (from, to, expected) in [
            ("\"host_trace\": 1", "\"host_trace\": 2", "its form is 2, this program reads 1"),
            ("\"host_trace\": 1, ", "", "missing field `host_trace`"),
            ("[12.3, 4]", "[12.3, -4]", "`wake_late_us[1]` is -4; a delay is from 0 to 60000000 microseconds"),
            ("[12.3, 4]", "[12.3, 1e300]", "`wake_late_us[1]` is 1"),
            ("[12.3, 4]", "[12.3, 1e999]", "number out of range"),
            ("[12.3, 4]", "[\"late\"]", "expected f64"),
            ("[7.5]", "[]", "`read_late_us` is empty"),
            ("[[1000, 55.5]]", "[[0, 55.5]]", "`stalls_us[0]` is [0, 55.5]"),
            ("[[1000, 55.5]]", "[[1000, 6e9]]", "`stalls_us[0]` is [1000, 6000000000]"),
            ("[[1000, 55.5]]", "[[1000]]", "expected a tuple of size 2"),
            ("[1, 44]", "[1, 0]", "`aggregates[1]` is 0"),
            ("[1, 44]", "[1, 70000]", "expected u16"),
            ("\"seconds\"", "\"socket_bytes\": 0, \"seconds\"", "`socket_bytes` is 0; a socket holds from 2048"),
            (
                "\"seconds\"",
                "\"socket_bytes\": 18446744073709551615, \"seconds\"",
                "`socket_bytes` is 18446744073709551615",
            ),
            ("\"seconds\"", "\"minutes\"", "unknown field `minutes`"),
            ("[1, 44]}", "[1, 44", "EOF"),
        ] {
            let refused = refused_with(from, to);
            assert!(refused.contains(expected), "{refused}");
        }
        let long = format!("{TRACE}{}", " ".repeat(TEXT_MAX as usize));
        assert_eq!(HostTrace::parse(&long), Err("it has more than 4194304 bytes".to_owned()));
    }

    #[test]
    fn find_knows_what_is_kept_and_reads_files() {
        assert_eq!(names(), ["vm-busy", "vm-idle"]);
        names().iter().for_each(|name| assert!(find(name).is_ok(), "{name}"));
        let unknown = find("vm").unwrap_err().to_string();
        assert!(unknown.ends_with("there are: none, vm-busy, vm-idle, or a file that ends in .json"), "{unknown}");
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("mine.json");
        let name = path.to_str().unwrap();
        assert!(find(name).unwrap_err().to_string().starts_with("cannot read the trace"));
        fs::write(&path, TRACE).unwrap();
        assert_eq!(find(name).unwrap().about, "a test");
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(find(name).unwrap_err().to_string().contains("valid UTF-8"));
    }
}
