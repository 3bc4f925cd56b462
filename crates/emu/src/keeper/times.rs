//! The processor time of running processes, read from /proc.

use std::collections::BTreeMap;
use std::fs;

use inhaul_base::Span;

/// A process: its parent, and the time that it and the children that it has waited for have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    ticks: u64,
}

/// Processor time of each of `roots` with all processes below it, in their order.
pub(super) fn of_trees(roots: &[i32]) -> Vec<Span> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
    // A process may have ended meanwhile; then its parent has its time.
    let stat = |pid: i32| parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    let processes: BTreeMap<i32, Process> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let ticks = sums(&processes, roots);
    let tick = Span::from_secs(1).as_nanos() / rustix::param::clock_ticks_per_second().max(1);
    ticks.into_iter().map(|ticks| Span::from_nanos(ticks.saturating_mul(tick))).collect()
}

fn sums(processes: &BTreeMap<i32, Process>, roots: &[i32]) -> Vec<u64> {
    let mut sums = vec![0; roots.len()];
    for (&pid, process) in processes {
        let mut at = pid;
        // The search ends for every content of /proc.
        for _ in 0..processes.len() {
            if let Some(root) = roots.iter().position(|&root| root == at) {
                sums[root] += process.ticks;
                break;
            }
            let Some(above) = processes.get(&at) else { break };
            at = above.parent;
        }
    }
    sums
}

/// The line of /proc/PID/stat. The program's name stands in brackets, and may have any character in it.
fn parse(stat: &str) -> Option<Process> {
    let (_, behind) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    // proc(5) counts from the process id: 4 is the parent, 14 to 17 are user and system time, its own and its
    // children's.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let parent = fields.get(1)?.parse().ok()?;
    Some(Process { parent, ticks: number(14)? + number(15)? + number(16)? + number(17)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_behind_the_last_bracket() {
        let stat = "42 (a) b (c)) S 7 42 42 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 5";
        assert_eq!(parse(stat), Some(Process { parent: 7, ticks: 110 }));
        assert_eq!((parse(""), parse("42 (a) S 7")), (None, None));
    }

    #[test]
    fn sums_are_of_whole_trees() {
        let process = |parent, ticks| Process { parent, ticks };
        let processes =
            [(1, process(0, 1000)), (2, process(1, 1)), (3, process(2, 10)), (4, process(3, 100)), (5, process(1, 7))];
        assert_eq!(sums(&processes.into_iter().collect(), &[2, 5, 9]), [111, 7, 0]);
        // A circle ends too.
        let circle = [(1, process(2, 1)), (2, process(1, 1))];
        assert_eq!(sums(&circle.into_iter().collect(), &[9]), [0]);
    }
}
