//! The machine that made a result, and the time.

use std::{env, fs, thread};

use inhaul_identity::UnixTime;
use serde::{Deserialize, Serialize};

/// The machine of a result: its relevant properties, without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model; `None`: the system does not say.
    pub processor: Option<String>,
    /// Processors that the program may use.
    pub cores: usize,
    /// The kernel's release; `None`: the system does not say.
    pub kernel: Option<String>,
    /// Like `x86_64`.
    pub architecture: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let text = |path| fs::read_to_string(path).ok();
        Self {
            processor: text("/proc/cpuinfo").as_deref().and_then(model_name),
            cores: thread::available_parallelism().map_or(1, std::num::NonZero::get),
            kernel: text("/proc/sys/kernel/osrelease").map(|release| release.trim().to_owned()),
            architecture: env::consts::ARCH.to_owned(),
        }
    }

    /// In a line, as `Intel(R) Xeon(R) CPU, 2 cores, x86_64, Linux 6.1.0`.
    pub fn line(&self) -> String {
        let processor = self.processor.as_deref().unwrap_or("a processor of unknown model");
        let cores = if self.cores == 1 { "1 core".to_owned() } else { format!("{} cores", self.cores) };
        let kernel = self.kernel.as_deref().unwrap_or("of unknown release");
        format!("{processor}, {cores}, {}, Linux {kernel}", self.architecture)
    }
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, model) = fields.find(|(name, _)| name.trim() == "model name")?;
    Some(model.trim().to_owned())
}

/// A time as `2026-05-04T13:06:01Z` (RFC 3339), from the seconds since 1970 in UTC.
pub fn utc(since_1970_s: u64) -> String {
    UnixTime::from_seconds(since_1970_s).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_name_is_the_first_processors() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A: 2 GHz\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(model_name(cpuinfo).as_deref(), Some("A: 2 GHz"));
        assert_eq!(model_name("processor\t: 0\n"), None);
    }

    #[test]
    fn line_says_what_is_not_known() {
        let machine = Machine { cores: 1, architecture: "aarch64".to_owned(), ..Machine::default() };
        assert_eq!(machine.line(), "a processor of unknown model, 1 core, aarch64, Linux of unknown release");
        assert!(Machine::here().cores >= 1);
    }
}
