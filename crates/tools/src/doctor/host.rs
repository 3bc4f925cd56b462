//! Checks of the host: processors, their clock, stolen time, hashing, timers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use inhaul_base::Bitrate;
use inhaul_store::digest::{GROUP_BYTES, group_digest};
use inhaul_udp::thread;

use super::finding::{Cost, Finding};

/// How long hashing is measured.
const HASHING: Duration = Duration::from_millis(100);
/// Sleeps that are measured, and how long each is.
const NAPS: usize = 100;
const NAP: Duration = Duration::from_micros(100);
/// A timer that is later than this leaves gaps that a pacer has to make up for in bursts.
const LATE: Duration = Duration::from_micros(500);
/// The ratio of stolen processor time from which on it is worth a word.
const STOLEN: f64 = 0.01;

pub(super) fn look(rate: Bitrate, note: &mut dyn FnMut(Finding)) {
    note(processors(count(), quota(Path::new("/sys/fs/cgroup/cpu.max"))));
    note(governor(Path::new("/sys/devices/system/cpu")));
    note(hashing(hash_rate(), rate));
    note(timers(&mut measure_naps(), rate));
}

fn count() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// The processors' worth of time that a control group allows; `None`: no limit.
fn quota(file: &Path) -> Option<f64> {
    let text = fs::read_to_string(file).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|&period| period > 0.0)?)
}

/// One thread moves data, one verifies it: they want a processor each.
fn processors(count: usize, quota: Option<f64>) -> Finding {
    const CHECK: &str = "processors";
    const WANTED: f64 = 2.0;
    let usable = quota.map_or(count as f64, |quota| quota.min(count as f64));
    let limit = quota.map_or_else(String::new, |quota| format!(", of which a control group allows {quota:.2}"));
    let found = format!("{count} to run on{limit}");
    if usable >= WANTED {
        return Finding::ok(CHECK, found);
    }
    let lacking = (WANTED - usable) / WANTED;
    let text = format!("moving and verifying share them: {:.0} % of the time of two is missing", lacking * 100.0);
    Finding::costs(CHECK, found, Cost::new(lacking, "ratio", text))
        .fix(["give this host, container or service (CPUQuota=) two processors"])
}

/// Whether processors are clocked down, from what `cpus` (`/sys/devices/system/cpu`) says.
fn governor(cpus: &Path) -> Finding {
    const CHECK: &str = "cpu-governor";
    let policies = governed(cpus);
    if policies.is_empty() {
        return Finding::ok(CHECK, "this kernel does not change the processors' clock");
    }
    let slow: Vec<_> = policies.iter().filter(|policy| policy.governor == "powersave" && !policy.by_hardware).collect();
    let Some(worst) = slow.iter().min_by(|a, b| a.part().total_cmp(&b.part())) else {
        let mut names: Vec<&str> = policies.iter().map(|policy| policy.governor.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        return Finding::ok(CHECK, format!("{} processors, governor {}", policies.len(), names.join(", ")));
    };
    let found = format!("{} of {} processors are held at their lowest clock (powersave)", slow.len(), policies.len());
    let text = format!("they run at {:.0} % of their highest clock", worst.part() * 100.0);
    Finding::costs(CHECK, found, Cost::new(worst.part(), "ratio", text))
        .fix(["sudo cpupower frequency-set -g performance"])
}

/// How a processor is clocked.
struct Policy {
    governor: String,
    /// The driver leaves the clock to the hardware, which raises it under load whatever the governor is called.
    by_hardware: bool,
    min_khz: f64,
    max_khz: f64,
}

impl Policy {
    fn part(&self) -> f64 {
        self.min_khz / self.max_khz
    }
}

fn governed(cpus: &Path) -> Vec<Policy> {
    let Ok(entries) = fs::read_dir(cpus) else { return Vec::new() };
    let read = |dir: &PathBuf, name: &str| Some(fs::read_to_string(dir.join(name)).ok()?.trim().to_owned());
    let policy = |dir: PathBuf| {
        let number = |name: &str| read(&dir, name)?.parse::<f64>().ok().filter(|&khz| khz > 0.0);
        Some(Policy {
            governor: read(&dir, "scaling_governor")?,
            by_hardware: read(&dir, "scaling_driver")
                .is_some_and(|driver| driver.ends_with("_pstate") || driver.contains("epp")),
            min_khz: number("cpuinfo_min_freq")?,
            max_khz: number("cpuinfo_max_freq")?,
        })
    };
    entries.filter_map(Result::ok).filter_map(|entry| policy(entry.path().join("cpufreq"))).collect()
}

/// How fast one thread hashes, in bit/s.
fn hash_rate() -> f64 {
    let group = vec![0x5a; GROUP_BYTES as usize];
    let began = Instant::now();
    let mut bytes = 0;
    while began.elapsed() < HASHING {
        std::hint::black_box(group_digest(2 * GROUP_BYTES, 0, &group));
        bytes += GROUP_BYTES;
    }
    bytes as f64 * 8.0 / began.elapsed().as_secs_f64()
}

fn hashing(measured_bps: f64, rate: Bitrate) -> Finding {
    const CHECK: &str = "hashing";
    let found = format!("one thread verifies {} (BLAKE3)", Bitrate::from_f64(measured_bps));
    if measured_bps >= rate.as_f64() {
        return Finding::ok(CHECK, found);
    }
    let text = format!("transfers end at {} rather than {rate}", Bitrate::from_f64(measured_bps));
    Finding::costs(CHECK, found, Cost::new(measured_bps, "bit/s", text)).fix(["haul to a host with a faster processor"])
}

/// By how much sleeps are late, as the data thread sleeps.
fn measure_naps() -> Vec<Duration> {
    let nap = || {
        let began = Instant::now();
        std::thread::sleep(NAP);
        began.elapsed().saturating_sub(NAP)
    };
    // On its own thread, so that the timer slack of the caller's thread does not change.
    let sleeper = std::thread::Builder::new().spawn(move || {
        // Without it timers are later, and that is what is then measured.
        let _ = thread::sleep_exactly();
        (0..NAPS).map(|_| nap()).collect()
    });
    sleeper.map(|sleeper| sleeper.join().unwrap_or_default()).unwrap_or_default()
}

fn timers(late: &mut [Duration], rate: Bitrate) -> Finding {
    const CHECK: &str = "timers";
    late.sort_unstable();
    let at = |part: f64| late.get((late.len() as f64 * part) as usize).copied();
    let (Some(half), Some(most)) = (at(0.5), at(0.95)) else {
        return Finding::unknown(CHECK, "no thread could be started");
    };
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    let found = format!("sleeps end {:.0} us late, one in twenty {:.0} us", us(half), us(most));
    if most < LATE {
        return Finding::ok(CHECK, found);
    }
    let burst = rate.as_f64() / 8.0 * most.as_secs_f64();
    let text = format!("at {rate} this host then acts on bursts of {:.0} bytes", burst);
    Finding::costs(CHECK, found, Cost::new(burst, "bytes", text))
        .fix(["free the processors of other work, or give this virtual machine processors of its own"])
}

/// Time that processors have counted, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessorTime {
    all: u64,
    stolen: u64,
}

impl ProcessorTime {
    /// Of all processors, since the host began; zero where the kernel does not tell.
    pub(super) fn read() -> Self {
        fs::read_to_string("/proc/stat").ok().and_then(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }
}

/// What the host of this virtual machine has taken meanwhile.
pub(super) fn stolen(before: ProcessorTime) -> Finding {
    stolen_between(before, ProcessorTime::read())
}

fn stolen_between(before: ProcessorTime, after: ProcessorTime) -> Finding {
    const CHECK: &str = "stolen-time";
    let all = after.all.saturating_sub(before.all);
    if all == 0 {
        return Finding::unknown(CHECK, "the kernel does not tell, or too little time has passed");
    }
    let ratio = after.stolen.saturating_sub(before.stolen) as f64 / all as f64;
    // What is shown is what is judged: 1.0 % is not less than 1 %.
    let ratio = (ratio * 1000.0).round() / 1000.0;
    let found = format!("{:.1} % of the processors' time went to other virtual machines meanwhile", ratio * 100.0);
    if ratio < STOLEN {
        return Finding::ok(CHECK, found);
    }
    let text = format!("{:.1} % of the processors' time", ratio * 100.0);
    Finding::costs(CHECK, found, Cost::new(ratio, "ratio", text))
        .fix(["ask for dedicated processors where this virtual machine is rented"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn processors_counts_what_a_control_group_allows() {
        assert_eq!(processors(4, None).verdict, Verdict::Ok);
        let half = processors(4, Some(0.5));
        assert_eq!((half.verdict, half.cost.unwrap().value), (Verdict::Costs, 0.75));
        assert_eq!(processors(1, Some(8.0)).cost.unwrap().value, 0.5);
    }

    #[test]
    fn quota_is_none_without_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cpu.max");
        assert_eq!(quota(&file), None);
        for (text, quota_read) in [("max 100000\n", None), ("150000 100000\n", Some(1.5)), ("1 0", None), ("", None)] {
            fs::write(&file, text).unwrap();
            assert_eq!(quota(&file), quota_read, "{text}");
        }
    }

    #[test]
    fn governor_that_holds_the_clock_down_costs_its_ratio() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(governor(dir.path()).verdict, Verdict::Ok);
        let policy = dir.path().join("cpu0/cpufreq");
        fs::create_dir_all(&policy).unwrap();
        for (name, text) in
            [("scaling_governor", "powersave"), ("cpuinfo_min_freq", "900000"), ("cpuinfo_max_freq", "3600000")]
        {
            fs::write(policy.join(name), text).unwrap();
        }
        let finding = governor(dir.path());
        assert_eq!((finding.verdict, finding.cost.unwrap().value), (Verdict::Costs, 0.25));
        fs::write(policy.join("scaling_driver"), "intel_pstate\n").unwrap();
        assert_eq!(governor(dir.path()).verdict, Verdict::Ok);
    }

    #[test]
    fn hashing_and_timers_cost_when_they_do_not_keep_up() {
        let rate = Bitrate::from_gbps(10);
        assert_eq!(hashing(2e10, rate).verdict, Verdict::Ok);
        assert_eq!(hashing(5e9, rate).cost.unwrap().value, 5e9);
        assert_eq!(timers(&mut [Duration::from_micros(60); 20], rate).verdict, Verdict::Ok);
        // 1 ms at 10 Gbit/s.
        assert_eq!(timers(&mut [Duration::from_millis(1); 20], rate).cost.unwrap().value, 1_250_000.0);
        assert_eq!(timers(&mut [], rate).verdict, Verdict::Unknown);
    }

    #[test]
    fn stolen_between_is_the_ratio_of_the_time_that_passed() {
        let parse = |text: &str| ProcessorTime::parse(text);
        let before = parse("cpu  100 0 0 100 0 0 0 10 0 0\ncpu0 1\n").unwrap();
        let after = parse("cpu  150 0 0 140 0 0 0 20 7 0\n").unwrap();
        assert_eq!(stolen_between(before, after).cost.unwrap().value, 0.1);
        assert_eq!(stolen_between(before, before).verdict, Verdict::Unknown);
        let nearly = parse("cpu  1086 0 0 100 0 0 0 20 0 0\n").unwrap();
        assert_eq!(stolen_between(before, nearly).verdict, Verdict::Costs, "it shows as 1.0 %");
        assert!(parse("cpu 1 2 3").is_none() && parse("intr 1").is_none());
    }
}
