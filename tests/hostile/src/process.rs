//! The resources of a process, read from `/proc`.

use std::fs;
use std::time::Duration;

/// Clock ticks of `/proc/PID/stat` in a second; the kernel's interface fixes it.
const TICKS_PER_SEC: u64 = 100;

/// The resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Memory in use now, in bytes (VmRSS).
    pub memory: u64,
    /// The most that it has been, in bytes (VmHWM).
    pub memory_peak: u64,
    /// Processor time so far, of all its threads.
    pub cpu: Duration,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: u64,
}

impl Readings {
    /// The readings of process `pid`; `None` if there is none. A process that has ended and not been waited for has
    /// only `cpu`.
    pub fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program stands in parentheses and may hold anything; the 12th and 13th field behind it are
        // the times.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks: u64 = fields.get(11..13)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
        Some(Self {
            memory: number("VmRSS:").unwrap_or(0) * 1024,
            memory_peak: number("VmHWM:").unwrap_or(0) * 1024,
            cpu: Duration::from_millis(ticks * 1000 / TICKS_PER_SEC),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
            threads: number("Threads:").unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_reads_what_this_process_costs() {
        let readings = Readings::of(std::process::id()).unwrap();
        assert!(readings.memory > 1 << 20 && readings.memory_peak >= readings.memory, "{readings:?}");
        assert!(readings.descriptors >= 3 && readings.threads >= 1, "{readings:?}");
        assert_eq!(Readings::of(u32::MAX), None);
    }
}
