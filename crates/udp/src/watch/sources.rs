//! Which sources work on this host, and what more privilege would give.

use std::path::Path;

use super::cgroup::{self, Group};
use super::competitors;
use super::disk::PageCache;
use super::quota::Bandwidth;
use super::rundelay::RunFile;
use super::{PAUSE_MIN, Source};
use crate::sys::SwitchRing;
use inhaul_base::Span;

/// The state of a source on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The source; `None`: the priority of the watcher itself.
    pub source: Option<Source>,
    /// Whether it works.
    pub works: bool,
    /// What it sees, or why it does not work.
    pub found: String,
    /// What would improve it, as commands or words; empty if nothing would.
    pub more: Vec<String>,
}

impl Availability {
    fn new(source: Source, works: bool, found: impl Into<String>) -> Self {
        Self { source: Some(source), works, found: found.into(), more: Vec::new() }
    }

    fn more(mut self, line: impl Into<String>) -> Self {
        self.more.push(line.into());
        self
    }
}

/// Tries each source on the calling thread, and whether a watcher may have real-time priority. Changes nothing.
pub fn survey() -> Vec<Availability> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let first = i32::try_from(std::process::id()).unwrap_or(thread);
    vec![quota(), switches(thread), run_delay(first), competition(thread), disk(), priority()]
}

fn quota() -> Availability {
    let groups = cgroup::with_quota(Path::new("/proc/self"));
    match tightest(&groups) {
        Some((group, bandwidth)) => {
            let found = format!(
                "{:.2} processors, {} of each {}, by {}",
                bandwidth.processors(),
                bandwidth.quota,
                bandwidth.period,
                group.folder().display()
            );
            let seen = Availability::new(Source::Quota, true, found);
            match group.open().and_then(|book| book.read()) {
                Some((_, Some(_))) => seen,
                Some((_, None)) => seen.more("what others in the group use is not seen: only this process is counted"),
                None => Availability { works: false, ..seen }.more("mount the group's cpu.stat into the container"),
            }
        }
        None => Availability::new(Source::Quota, true, "no control group above this process has one that is seen here"),
    }
}

/// The group with the tightest quota.
pub(super) fn tightest(groups: &[(Group, Bandwidth)]) -> Option<&(Group, Bandwidth)> {
    groups.iter().min_by(|(_, a), (_, b)| a.processors().total_cmp(&b.processors()))
}

fn switches(thread: i32) -> Availability {
    let ring = SwitchRing::of_thread(thread).and_then(|ring| ring.record(true));
    match ring {
        Ok(()) => Availability::new(Source::Switches, true, "exact times of this program's own switches"),
        Err(error) => {
            Availability::new(Source::Switches, false, format!("the kernel does not record own switches: {error}"))
                .more("sudo sysctl -w kernel.perf_event_paranoid=2")
                .more("in a container: permit perf_event_open in its seccomp profile")
        }
    }
}

fn run_delay(thread: i32) -> Availability {
    match RunFile::of_thread(thread).ok().and_then(|file| file.read()) {
        Some(times) if times.ran > Span::ZERO => {
            Availability::new(Source::RunDelay, true, "how long own threads wait for a processor")
        }
        Some(_) => Availability::new(Source::RunDelay, false, "the kernel does not count it just now")
            .more("sudo sysctl -w kernel.sched_schedstats=1"),
        None => Availability::new(Source::RunDelay, false, "this kernel has no schedstat (CONFIG_SCHED_INFO)"),
    }
}

fn competition(thread: i32) -> Availability {
    let allowed = crate::thread::allowed_cpus().unwrap_or_default();
    let seen = competitors::survey(Path::new("/proc"), std::process::id(), thread, &allowed);
    let all = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| competitors::runnable(&text));
    match (seen, all) {
        (Some(seen), Some(all)) if seen.runnable + 2 < all => {
            let found = format!("{} threads of others want a processor; {all} do in all", seen.runnable);
            Availability::new(Source::Competitors, true, found)
                .more("the others are hidden: another container's, or /proc is mounted with hidepid")
        }
        (Some(seen), _) => {
            let found = format!("{} threads of others want a processor", seen.runnable);
            Availability::new(Source::Competitors, true, found)
        }
        (None, _) => Availability::new(Source::Competitors, false, "/proc does not tell of threads"),
    }
}

fn disk() -> Availability {
    match std::fs::read_to_string("/proc/vmstat").ok().and_then(|text| PageCache::parse(&text)) {
        Some(_) => Availability::new(Source::Disk, true, "what waits to be written, and when writers are held up"),
        None => Availability::new(Source::Disk, false, "/proc/vmstat does not tell of the page cache")
            .more("without it hold-ups of the disk are noticed when they have come"),
    }
}

fn priority() -> Availability {
    let found = format!("the watcher has an ordinary priority, and may itself be late by some {PAUSE_MIN}");
    Availability { source: None, works: true, found, more: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survey_tells_of_every_source_and_says_what_to_do_without() {
        let seen = survey();
        let sources: Vec<_> = seen.iter().filter_map(|one| one.source).collect();
        assert_eq!(sources, Source::ALL);
        for one in seen {
            assert!(!one.found.is_empty(), "{one:?}");
        }
    }
}
