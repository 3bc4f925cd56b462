//! Runs plans: makes a simulation from a plan, and a result from the simulation.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use inhaul_base::{Span, Time};

use crate::agents::{Emulation, Hosts, run_emulated, run_net};
use crate::assess;
use crate::result::RunResult;
use crate::scenario::{Cell, Plan, Scenario};
use crate::simulated::Simulated;

/// The backend of a scenario's runs.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// The simulator, with this number of runs at once. The results do not depend on it.
    Sim {
        /// Runs at a time.
        threads: usize,
    },
    /// The emulator: real processes in real time, one run after the other.
    Emu {
        /// How.
        how: Emulation,
    },
    /// A real network: real hosts in real time, one run after the other.
    Net {
        /// Where the agents are.
        hosts: &'a Hosts,
    },
}

/// Receives the progress of a scenario's runs, from any thread.
pub trait Watch: Sync {
    /// Which part of the time of all runs is done, from 0 to 1; told now and then.
    fn advanced(&self, part: f64) {
        let _ = part;
    }
    /// A run that need not be made, because this is its result.
    fn known(&self, case: &str, seed: u64) -> Option<RunResult> {
        let _ = (case, seed);
        None
    }
    /// Whether no more is wanted: simulated runs end soon then, and are not among the results.
    fn is_stopped(&self) -> bool {
        false
    }
    /// A run is finished.
    fn finished(&self, run: &RunResult) {
        let _ = run;
    }
}

/// Ignores the progress.
impl Watch for () {}

/// A run to make: a cell of a scenario, by its number, and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which of the scenario's cells.
    pub cell: usize,
    /// The seed.
    pub seed: u64,
}

/// Runs every cell and repetition of a scenario. The results are in the order of cells, then repetitions. The runs are
/// made in the order of repetitions, then cells, so the results can be compared even if the time runs out.
pub fn run_scenario(scenario: &Scenario, experiment: &str, backend: Backend<'_>, watch: &dyn Watch) -> Vec<RunResult> {
    let cells = scenario.cells.len();
    let seeds = (0..u64::from(scenario.repetitions)).map(|k| scenario.seed.wrapping_add(k));
    let jobs: Vec<Job> = seeds.flat_map(|seed| (0..cells).map(move |cell| Job { cell, seed })).collect();
    let mut results = run_jobs(scenario, &jobs, experiment, backend, watch);
    let of_cell = |cell: usize| (cell..jobs.len()).step_by(cells);
    let order: Vec<usize> = (0..cells).flat_map(of_cell).collect();
    order.into_iter().filter_map(|place| results[place].take()).collect()
}

/// Makes these runs. Each has its result in the order of the jobs; `None`: the watcher stopped it.
///
/// # Panics
/// When a job is of a cell that there is not.
pub fn run_jobs(
    scenario: &Scenario,
    jobs: &[Job],
    experiment: &str,
    backend: Backend<'_>,
    watch: &dyn Watch,
) -> Vec<Option<RunResult>> {
    let jobs: Vec<(&Cell, u64)> = jobs.iter().map(|job| (&scenario.cells[job.cell], job.seed)).collect();
    let total: u64 = jobs.iter().map(|(cell, _)| cell.plan.end.as_nanos()).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let results: Mutex<Vec<Option<RunResult>>> = Mutex::new(vec![None; jobs.len()]);
    let work = || {
        while !watch.is_stopped() {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some((cell, seed)) = jobs.get(place) else { break };
            let advanced = |span: Span| {
                let before = done.fetch_add(span.as_nanos(), Ordering::Relaxed);
                watch.advanced((before + span.as_nanos()) as f64 / total.max(1) as f64);
            };
            let known = watch.known(&cell.case, *seed);
            let is_known = known.is_some();
            let mut result = known.unwrap_or_else(|| match backend {
                Backend::Sim { .. } => run_once(&cell.plan, *seed, &|span| {
                    advanced(span);
                    if watch.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                }),
                Backend::Emu { how } => run_emulated(&cell.plan, *seed, how, &advanced),
                Backend::Net { hosts } => run_net(&cell.plan, *seed, hosts, &advanced),
            });
            if watch.is_stopped() {
                break;
            }
            if is_known {
                advanced(cell.plan.end.since(Time::ZERO));
            } else {
                result.experiment = experiment.to_owned();
                result.case.clone_from(&cell.case);
                watch.finished(&result);
            }
            if let Ok(mut results) = results.lock() {
                results[place] = Some(result);
            }
        }
    };
    let threads = match backend {
        Backend::Sim { threads } => threads,
        Backend::Emu { .. } | Backend::Net { .. } => 1,
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs.len().max(1)) {
            // If a thread does not start, the others do its work.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs a plan once. A violated rule of the simulator ends the run early and makes it invalid. `advanced` is called
/// after each stretch of its time, and may end it early: then the result covers only that time.
pub fn run_once(plan: &Plan, seed: u64, advanced: &dyn Fn(Span) -> ControlFlow<()>) -> RunResult {
    let mut run = match Simulated::new(plan, seed, None) {
        Ok(run) => run,
        Err(reason) => {
            return RunResult {
                backend: "sim".to_owned(),
                seed,
                valid: false,
                invalid_reason: Some(reason),
                ..RunResult::default()
            };
        }
    };
    let invalid_reason = run.simulate(advanced).err().map(|error| error.to_string());
    let mut result = assess::assess(plan, &run.outcome());
    result.seed = seed;
    result.valid = invalid_reason.is_none();
    result.invalid_reason = invalid_reason;
    result
}
