//! The machine that made a result, and the time.

use std::{env, fs, thread};

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
    let (days, second) = (since_1970_s / 86_400, since_1970_s % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of the Gregorian calendar, from the days since 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years are counted from March here, so that a leap day is the last of its year; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on months have 31, 30, 31, 30, 31 days, again and again: 153 in five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
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
    fn utc_knows_leap_years() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_200), "2024-03-01T00:00:00Z");
        assert_eq!(utc(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn line_says_what_is_not_known() {
        let machine = Machine { cores: 1, architecture: "aarch64".to_owned(), ..Machine::default() };
        assert_eq!(machine.line(), "a processor of unknown model, 1 core, aarch64, Linux of unknown release");
        assert!(Machine::here().cores >= 1);
    }
}
