//! Kept results: an experiment's results as a file, for `inhaul lab report` and `inhaul lab compare`. docs/json.md is
//! the reference of the file.
//!
//! Files are checked when they are read. A file that is damaged or not a kept result is refused by name, and never
//! used.

mod compare;
mod folder;
mod journal;
mod machine;
mod thin;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::judge::{Judgement, TableRow};
use crate::metrics::Trajectory;
use crate::result::{FlowResult, RunResult, Verdict};
use crate::scenario::Scenario;

pub use compare::{
    Change, CheckComparison, ComparedResult, Comparison, ItemComparison, RowComparison, compare, comparison_table,
};
pub use folder::{Found, Kepts, Problem, read_kept};
pub use journal::{Identity, Journal};
pub use machine::{Machine, utc};
pub use thin::Thinned;

/// The version of the file that this program writes, and the latest that it reads.
const VERSION: u32 = 1;
/// Largest file that is read, in bytes; written files are far smaller.
const READ_MAX: u64 = 16 << 20;
/// Most runs of a result.
const RUNS_MAX: usize = 10_000;
/// Latest time that a run may speak of, in seconds, and the largest rate, in bit/s: beyond them nothing was measured.
const TIME_MAX: f64 = 1e9;
const RATE_MAX: f64 = 1e15;

/// The results of an experiment, with everything that is needed to understand and repeat them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Version of this form; every file that is a kept result has it.
    pub kept_version: u32,
    /// `PAPER/ITEM`.
    pub experiment: String,
    /// Its subject.
    pub title: String,
    /// Where the paper shows it.
    pub source: String,
    /// Its backend: `sim`, `emu` or `net`.
    pub backend: String,
    /// How GTP's rates were controlled: `default` or `paper`.
    pub control: String,
    /// Changes of the scenario, as `KEY=VALUE`; empty: it was run unchanged.
    pub set: Vec<String>,
    /// Seed of the first repetition; each further one has the next.
    pub seed: u64,
    /// How often each case was run.
    pub repetitions: u32,
    /// The machine, time and program that made it.
    pub origin: Origin,
    /// Whether every run is valid. Invalid runs prove nothing.
    pub valid: bool,
    /// Ours beside the paper's.
    pub table: Vec<TableRow>,
    /// The checks, with expected and actual values.
    pub checks: Vec<Verdict>,
    /// Parts omitted from `runs` to keep the file small.
    pub thinned: Thinned,
    /// The runs, as `lab run --json` prints them.
    pub runs: Vec<RunResult>,
}

/// The machine, time and program that made a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The command that makes it again.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// The commit that the program was built from, with `-dirty` if its source was changed; `None`: not known.
    pub commit: Option<String>,
    /// When it was finished, like `2026-05-04T13:06:01Z`.
    pub finished: String,
    /// How long it took, in seconds.
    pub took_s: u64,
    /// Its machine.
    pub machine: Machine,
}

/// Why a file cannot be used as a kept result.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The system would not read or write it.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It is larger than any kept result may be.
    #[error("is too large: a kept result has at most {READ_MAX} bytes and {RUNS_MAX} runs; run fewer repetitions")]
    TooLarge,
    /// It breaks off, is no JSON, lacks a part, or says what cannot be.
    #[error("is damaged: {0}; run the experiment again with --keep")]
    Damaged(String),
    /// It is JSON, but not a kept result.
    #[error("is no kept result of 'inhaul lab run --keep'")]
    Foreign,
    /// It was written by a later program.
    #[error("was kept by a newer inhaul (version {0} of the form; this program reads up to {VERSION}): upgrade inhaul")]
    Newer(u64),
    /// There is a result of the same experiment, backend and control already.
    #[error("is a second result of the same as {0}; keep them in separate directories")]
    Second(String),
    /// It stands too deep, or after too many others.
    #[error("was not looked at: there are too many files and directories here")]
    TooMany,
}

impl Kept {
    /// Composes the kept result of an experiment's runs.
    ///
    /// `control` and `set` are the changes of the scenario.
    pub fn new(
        experiment: &Experiment,
        scenario: &Scenario,
        changes: Changes,
        origin: Origin,
        (judgement, runs): (&Judgement, &[RunResult]),
    ) -> Self {
        Self {
            kept_version: VERSION,
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            source: experiment.source.clone(),
            backend: runs.first().map(|run| run.backend.clone()).unwrap_or_default(),
            control: changes.control,
            set: changes.set,
            seed: scenario.seed,
            repetitions: scenario.repetitions,
            origin,
            valid: !runs.is_empty() && runs.iter().all(|run| run.valid),
            table: judgement.table.clone(),
            checks: judgement.verdicts.clone(),
            thinned: Thinned::default(),
            runs: runs.to_vec(),
        }
    }

    /// Where it is kept below a directory: `PAPER/ITEM/BACKEND[-CONTROL].json`.
    pub fn path(&self) -> PathBuf {
        let control = if self.is_default_control() { String::new() } else { format!("-{}", self.control) };
        Path::new(&self.experiment).join(format!("{}{control}.json", self.backend))
    }

    /// Whether the control is the default one.
    pub fn is_default_control(&self) -> bool {
        self.control == "default"
    }

    /// Checks that did not pass.
    pub fn failed(&self) -> impl Iterator<Item = &Verdict> {
        self.checks.iter().filter(|check| !check.passed)
    }

    /// Writes it below `directory`, where [`path`](Self::path) says, and returns that place. An earlier result there
    /// is replaced, all at once.
    ///
    /// # Errors
    /// When the system will not write there, or the result is so large that it would not be read.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, KeptError> {
        let text = self.to_json();
        if text.len() as u64 > READ_MAX || self.runs.len() > RUNS_MAX {
            return Err(KeptError::TooLarge);
        }
        let path = directory.join(self.path());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let partial = path.with_extension("json.partial");
        let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path));
        if written.is_err() {
            // An existing file stays as it is; a temporary file that cannot be removed is not worth a second error.
            let _ = fs::remove_file(&partial);
        }
        written?;
        Ok(path)
    }

    /// The file's text. The runs are thinned until it fits.
    pub fn to_json(&self) -> String {
        let rest = Self { runs: Vec::new(), ..self.clone() };
        thin::small_text(&self.runs, |thinned, runs| {
            // A result holds numbers, texts and maps by text: there is no value in it that JSON cannot say.
            serde_json::to_string(&Self { thinned, runs, ..rest.clone() }).unwrap_or_default() + "\n"
        })
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// When it is not a kept result, or a damaged one.
    pub fn from_json(text: &str) -> Result<Self, KeptError> {
        let damaged = |error: serde_json::Error| KeptError::Damaged(error.to_string());
        let mut value: serde_json::Value = serde_json::from_str(text).map_err(damaged)?;
        match value.get("kept_version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(newer) => return Err(KeptError::Newer(newer)),
            None => return Err(KeptError::Foreign),
        }
        make_printable(&mut value);
        let mut kept: Self = serde_json::from_value(value).map_err(damaged)?;
        if kept.runs.len() > RUNS_MAX {
            return Err(KeptError::TooLarge);
        }
        for run in &mut kept.runs {
            check_run(run).map_err(|what| KeptError::Damaged(format!("the run of case '{}' {what}", run.case)))?;
            run.flows.iter_mut().for_each(restore_trajectory);
        }
        forget_lone_indices(&mut kept);
        Ok(kept)
    }
}

/// Texts go to terminals and pages: what could steer these, instead of being read, is replaced.
fn make_printable(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) if text.contains(char::is_control) => *text = printable(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(make_printable),
        serde_json::Value::Object(map) => map.values_mut().for_each(make_printable),
        _ => {}
    }
}

fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Changes of an experiment's scenario before its run.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// See [`Kept::control`].
    pub control: String,
    /// See [`Kept::set`].
    pub set: Vec<String>,
}

/// A run's values are plausible: the figures are computed from them.
fn check_run(run: &RunResult) -> Result<(), String> {
    let is_time = |t: f64| (0.0..=TIME_MAX).contains(&t);
    let is_rate = |rate: f64| (0.0..=RATE_MAX).contains(&rate);
    if !is_time(run.duration_s) || !run.measured_s.iter().all(|t| is_time(*t)) {
        return Err("has a time that cannot be".to_owned());
    }
    for flow in &run.flows {
        // A flow may end a little after the run where clocks are real.
        let ends = is_time(flow.start_s) && is_time(flow.stop_s) && flow.stop_s <= 1.5 * run.duration_s;
        let in_order = flow.series.is_sorted_by(|a, b| a.t_s < b.t_s);
        let sound = flow.series.iter().all(|point| is_time(point.t_s) && is_rate(point.goodput_bps));
        if !ends || !in_order || !sound || !is_time(flow.rtt_ms) {
            return Err(format!("has a flow '{}' with times or rates that cannot be", flow.name));
        }
    }
    for epoch in &run.epochs {
        if !is_time(epoch.from_s) || !is_time(epoch.to_s) || !epoch.ideal_bps.iter().all(|rate| is_rate(*rate)) {
            return Err("has an epoch with times or rates that cannot be".to_owned());
        }
    }
    Ok(())
}

/// A run from its JSON, with computed values.
///
/// # Errors
/// When it is no run, or says what cannot be.
pub fn run_of_json(text: &str) -> Result<RunResult, String> {
    let mut run: RunResult = serde_json::from_str(text).map_err(|error| format!("is no run: {error}"))?;
    check_run(&run)?;
    run.flows.iter_mut().for_each(restore_trajectory);
    for epoch in &mut run.epochs {
        epoch.is_join = run.flows.iter().any(|flow| !flow.background && flow.start_s == epoch.from_s);
    }
    Ok(run)
}

/// Takes Jain's index from single flows, which share nothing: results of earlier releases have 1 there.
fn forget_lone_indices(kept: &mut Kept) {
    let is_alone = |run: &RunResult| run.measured_flows().nth(1).is_none();
    for run in kept.runs.iter_mut().filter(|run| is_alone(run)) {
        (run.metrics.jain_index, run.metrics.jain_index_ideal) = (None, None);
        run.metrics.jain_by_scale.iter_mut().for_each(|index| index.jain_index = None);
    }
    for run in &mut kept.runs {
        run.groups.iter_mut().filter(|group| group.flows < 2).for_each(|group| group.jain_index = None);
        run.epochs.iter_mut().filter(|epoch| epoch.flows < 2).for_each(|epoch| epoch.jain_index_ideal = None);
    }
    let runs = &kept.runs;
    let is_lone = |row: &&mut TableRow| {
        let mut of_case = runs.iter().filter(|run| run.case == row.case).peekable();
        row.quantity.starts_with("metrics.jain_") && of_case.peek().is_some() && of_case.all(is_alone)
    };
    for row in kept.table.iter_mut().filter(is_lone) {
        (row.mean, row.ci95) = (None, None);
    }
}

/// The trajectory is not kept, because the series has the same data.
fn restore_trajectory(flow: &mut FlowResult) {
    let mut trajectory = Trajectory::starting_at(flow.start_s);
    let (mut before_s, mut bytes) = (flow.start_s, 0.0);
    for point in flow.series.iter().filter(|point| point.t_s > flow.start_s) {
        bytes += point.goodput_bps / 8.0 * (point.t_s - before_s);
        trajectory.push(point.t_s, bytes);
        before_s = point.t_s;
    }
    flow.trajectory = trajectory;
}

#[cfg(test)]
pub(crate) mod tests;
