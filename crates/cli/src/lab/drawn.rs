//! The common part of commands over networks drawn from seeds.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::Args;
use inhaul_lab::ScenarioError;
use inhaul_lab::stars::Knowledge;

use super::failure::Failure;
use super::runs::Control;
use crate::options::{OUTPUT, key_and_value};
use crate::terminal;

/// Options of every command over drawn networks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run options")]
pub(super) struct Drawn {
    /// Seeds of the networks: a number, or FROM-TO
    #[arg(long, value_name = "SEEDS", value_parser = seeds, default_value = "1-200")]
    pub(super) seeds: RangeInclusive<u64>,
    /// How GTP sets its rates: 'default' measures capacities; 'paper' is gtp-2004 as published, with the true
    /// capacities
    #[arg(long, value_enum, default_value_t)]
    pub(super) control: Control,
    /// Change a value of each network's scenario, like 'duration=5 s'; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(super) set: Vec<(String, String)>,
    /// Number of networks at once; results do not depend on it [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,
    /// Also print the result of each network
    #[arg(long, help_heading = OUTPUT)]
    pub(super) events: bool,
    /// Print the scenarios (docs/scenario.md) instead of running them
    #[arg(long, help_heading = OUTPUT)]
    pub(super) print: bool,
    /// Print JSON: an object for each network, and one for all together (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
}

/// The fault of `--set`: the drawn scenarios are right, and the user does not see them.
pub(super) fn not_set(error: ScenarioError) -> Failure {
    let setting = error.setting.map_or_else(String::new, |setting| format!("{setting}: "));
    Failure::Usage(format!("--set: {setting}{} (in {})", error.message, error.file))
}

impl Drawn {
    /// The capacities that GTP is told.
    pub(super) fn knowledge(&self) -> Knowledge {
        if self.control == Control::Paper { Knowledge::Told } else { Knowledge::Found }
    }
}

/// Reads the seeds of `--seeds`.
pub(super) fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| "a number, or two like 1-200".to_owned());
    let (from, to) = (number(from)?, number(to)?);
    if to < from || to - from >= 1_000_000 {
        return Err("FROM-TO, at most a million".to_owned());
    }
    // Scenarios are TOML, whose integers have a sign.
    if i64::try_from(to).is_err() { Err(format!("at most {}", i64::MAX)) } else { Ok(from..=to) }
}

/// Runs all networks, `threads` at once (without a number: one for each processor), and shows progress on a terminal.
/// `name` is the plural noun for them. The results are in the order of the networks.
pub(super) fn run_all<N: Sync, R: Send>(
    networks: &[N],
    threads: Option<u16>,
    name: &str,
    run: impl Fn(&N) -> R + Sync,
) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = threads.map_or(processors, usize::from).clamp(1, networks.len().max(1));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(network) = networks.get(at)
        {
            let result = run(network);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((at, result));
            if terminal::is_there() {
                terminal::draw(|_| vec![format!("{} of {} {name}", done.len(), networks.len())]);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread does not start, the others do its work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    terminal::clear();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_number_or_two() {
        assert_eq!((seeds("7"), seeds("7-9")), (Ok(7..=7), Ok(7..=9)));
        assert!(seeds("9-7").is_err() && seeds("x").is_err() && seeds("0-9999999").is_err());
        assert!(seeds("9223372036854775807").is_ok() && seeds("9223372036854775808").is_err());
    }

    #[test]
    fn results_are_in_the_order_of_the_networks() {
        let doubled = run_all(&[3, 1, 2], Some(3), "numbers", |number| number * 2);
        assert_eq!(doubled, [6, 2, 4]);
    }
}
