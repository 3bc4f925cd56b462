//! Forecasts from competitors: the threads that want the same processor, and their weights. These tell how long a turn
//! of the others takes. When the next turn begins follows from the last pause.

use std::path::Path;

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;

/// Length of a turn if no pause was seen: the scheduler's base slice (about 3 ms), rounded up to the next tick at 250
/// Hz.
const TURN: Span = Span::from_millis(4);
/// Most threads to look at.
const THREADS_MAX: usize = 4_096;
/// Weight of a thread of nice 0, and the factor of one nice step (`sched_prio_to_weight`).
const WEIGHT: f64 = 1_024.0;
const NICE_STEP: f64 = 1.25;
/// Weight of `SCHED_IDLE`.
const WEIGHT_IDLE: f64 = 3.0;
/// `SCHED_IDLE` and the real-time policies.
const POLICY_IDLE: u32 = 5;
const POLICIES_REALTIME: [u32; 3] = [1, 2, 6];
/// Weight of a real-time thread: that of nice -20.
const WEIGHT_REALTIME: f64 = 88_761.0;

/// Threads that want the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Competition {
    /// How many other threads want one of the processors that the watched thread may use.
    pub(super) runnable: u32,
    /// How many of them last ran on the watched thread's last processor.
    pub(super) here: u32,
    /// The sum of their weights; a thread of nice 0 weighs 1.
    pub(super) weight: f64,
    /// The watched thread's own weight.
    pub(super) own: f64,
}

/// Runnable threads on all processors, from `/proc/loadavg`.
pub(super) fn runnable(loadavg: &str) -> Option<u32> {
    loadavg.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

/// A thread, from its `stat`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Thread {
    wants: bool,
    weight: f64,
    processor: usize,
    threads: u32,
}

impl Thread {
    /// Reads the fields that proc(5) numbers 3 (state), 19 (nice), 20 (threads), 39 (processor) and 41 (policy).
    fn parse(stat: &str) -> Option<Self> {
        // The name may contain any character. The last parenthesis ends it.
        let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let policy: u32 = field(41)?.parse().ok()?;
        let nice: i32 = field(19)?.parse().ok()?;
        let weight = match policy {
            POLICY_IDLE => WEIGHT_IDLE / WEIGHT,
            policy if POLICIES_REALTIME.contains(&policy) => WEIGHT_REALTIME / WEIGHT,
            _ => NICE_STEP.powi(-nice.clamp(-20, 19)),
        };
        Some(Self {
            wants: field(3)? == "R",
            weight,
            processor: field(39)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
        })
    }
}

/// Counts the threads below `proc` that compete with the thread `own` of `process` for the processors `allowed`.
pub(super) fn survey(proc: &Path, process: u32, own: i32, allowed: &[usize]) -> Option<Competition> {
    let read = |path: &Path| Thread::parse(&std::fs::read_to_string(path.join("stat")).ok()?);
    let itself = read(&proc.join(format!("{process}/task/{own}")))?;
    let mut found = Competition { own: itself.weight, ..Competition::default() };
    let mut budget = THREADS_MAX;
    let mut count = |thread: Thread| {
        if thread.wants && allowed.contains(&thread.processor) {
            found.runnable += 1;
            if thread.processor == itself.processor {
                found.here += 1;
                found.weight += thread.weight;
            }
        }
    };
    for entry in std::fs::read_dir(proc).ok()?.flatten() {
        let name = entry.file_name();
        // Threads of the same process do not compete: they are part of its work.
        let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()).filter(|n| *n != process) else {
            continue;
        };
        let path = proc.join(number.to_string());
        let Some(first) = read(&path) else { continue };
        budget = budget.checked_sub(1)?;
        if first.threads <= 1 {
            count(first);
            continue;
        }
        for task in std::fs::read_dir(path.join("task")).into_iter().flatten().flatten() {
            budget = budget.checked_sub(1)?;
            if let Some(thread) = read(&task.path()) {
                count(thread);
            }
        }
    }
    Some(found)
}

/// The next pause of a thread that has been busy, without a pause, since `last_end`.
pub(super) fn foresee(now: Time, competition: Competition, last_end: Time, usual: Option<Span>) -> Option<Pause> {
    if competition.here == 0 {
        return None;
    }
    let turn = usual.map_or(TURN, |usual| usual / u64::from(competition.here));
    let own = competition.own.max(1e-3);
    // Turns are about equally long; a heavier thread has more of them.
    let share = (own / (competition.weight / f64::from(competition.here)).max(1e-3)).clamp(0.25, 16.0);
    let start = last_end + turn.mul_f64(share.max(1.0));
    let length = usual.unwrap_or(turn * u64::from(competition.here));
    (start >= now).then_some(Pause { start, length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A line of `/proc/PID/stat` with these fields, as Linux 6 writes it.
    fn stat(number: u32, state: char, nice: i32, threads: u32, processor: u32, policy: u32) -> String {
        format!(
            "{number} (a b) c) {state} 1 2 3 0 -1 4194304 100 0 0 0 5 6 0 0 20 {nice} {threads} 0 77 1000 200 \
             18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 {processor} 0 {policy} 0 0 0 0 0 0 0 0 0 0 0\n"
        )
    }

    fn place(proc: &Path, path: &str, stat: &str) {
        fs::create_dir_all(proc.join(path)).unwrap();
        fs::write(proc.join(path).join("stat"), stat).unwrap();
    }

    #[test]
    fn runnable_is_the_fourth_field() {
        assert_eq!(runnable("0.52 0.58 0.59 3/467 12345\n"), Some(3));
        assert_eq!(runnable("nonsense"), None);
    }

    #[test]
    fn parse_weighs_by_nice_and_policy() {
        let weight = |nice, policy| Thread::parse(&stat(1, 'R', nice, 1, 0, policy)).unwrap().weight;
        assert!((weight(0, 0) - 1.0).abs() < 1e-9);
        // sched_prio_to_weight: 335 at nice 5, 1024 at 0.
        assert!((weight(5, 0) - 335.0 / 1024.0).abs() < 0.01);
        assert!(weight(0, 5) < 0.01 && weight(0, 1) > 80.0);
        assert_eq!(Thread::parse("7 (x) R 1"), None);
        assert_eq!(Thread::parse(""), None);
    }

    #[test]
    fn survey_counts_threads_of_others_that_want_our_processors() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        place(proc, "10", &stat(10, 'R', 0, 2, 1, 0));
        place(proc, "10/task/11", &stat(11, 'R', 0, 2, 1, 0));
        place(proc, "20", &stat(20, 'R', 0, 1, 1, 0));
        place(proc, "21", &stat(21, 'S', 0, 1, 1, 0));
        place(proc, "22", &stat(22, 'R', 0, 1, 0, 0));
        place(proc, "23", &stat(23, 'R', 0, 1, 5, 0));
        place(proc, "30", &stat(30, 'S', 0, 2, 1, 0));
        place(proc, "30/task/30", &stat(30, 'S', 0, 2, 1, 0));
        place(proc, "30/task/31", &stat(31, 'R', 5, 2, 1, 0));
        let found = survey(proc, 10, 11, &[0, 1]).unwrap();
        assert_eq!((found.runnable, found.here), (3, 2));
        assert!((found.weight - 1.327).abs() < 0.01, "{found:?}");
        assert_eq!(survey(proc, 10, 99, &[0, 1]), None, "no such thread");
    }

    #[test]
    fn foresee_gives_each_competitor_a_turn() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let two = Competition { runnable: 2, here: 2, weight: 2.0, own: 1.0 };
        let pause = Pause { start: at(104), length: Span::from_millis(8) };
        assert_eq!(foresee(at(101), two, at(100), None), Some(pause));
        assert_eq!(foresee(at(105), two, at(100), None), None, "it is over");
        assert_eq!(foresee(at(101), Competition { here: 0, ..two }, at(100), None), None);
    }
}
