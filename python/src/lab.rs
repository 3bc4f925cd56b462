//! The laboratory: experiments, scenarios and their simulated runs, for `inhaul.lab`. A run's results are passed as
//! JSON, the same that the command line prints.

mod law;
mod stepper;

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use inhaul_lab::kept::run_of_json;
use inhaul_lab::result::RunResult;
use inhaul_lab::{
    Backend, Experiment, ExperimentError, Job, Scenario, ScenarioError, TableRow, Watch, experiments, find_experiment,
    judge, run_jobs,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

pub(crate) use law::{PyAckSample, PyLawConfig, PyLimits, PyLossSample, PyRateSample};
pub(crate) use stepper::PyLabStepper;

/// How often it is looked whether the user has pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

fn usage(text: &str) -> PyErr {
    PyValueError::new_err(text.to_owned())
}

/// The exception of that code.
fn raise(py: Python<'_>, code: &str, text: &str) -> PyErr {
    let made = || py.import("inhaul.errors")?.getattr("make")?.call1((code, text));
    made().map_or_else(|error| error, PyErr::from_value)
}

fn refuse_scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let refused = raise(py, "scenario", &error.to_string());
    if let Some((line, column)) = error.place {
        let value = refused.value(py);
        let placed = value.setattr("line", line).and_then(|()| value.setattr("column", column));
        if let Err(error) = placed {
            return error;
        }
    }
    refused
}

fn refuse_experiment(py: Python<'_>, error: &ExperimentError) -> PyErr {
    match error {
        ExperimentError::Unknown { .. } | ExperimentError::Drawn { .. } => {
            raise(py, "path-not-found", &error.to_string())
        }
        ExperimentError::Broken { .. } => raise(py, "internal", &error.to_string()),
        ExperimentError::Scenario(error) => refuse_scenario(py, error),
    }
}

fn to_json(py: Python<'_>, value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| raise(py, "internal", &error.to_string()))
}

/// Keys of a scenario and their new values.
type Settings = Vec<(String, String)>;

/// A built-in experiment.
#[pyclass(name = "LabExperiment", module = "inhaul._inhaul", frozen, get_all)]
pub(crate) struct PyLabExperiment {
    name: String,
    title: String,
    source: String,
    scenario: String,
    readme: String,
    quick: Settings,
    control_paper: Settings,
}

impl From<Experiment> for PyLabExperiment {
    fn from(experiment: Experiment) -> Self {
        Self {
            name: experiment.name,
            title: experiment.title,
            source: experiment.source,
            scenario: experiment.scenario.to_owned(),
            readme: experiment.readme.to_owned(),
            quick: experiment.quick,
            control_paper: experiment.control_paper,
        }
    }
}

/// All experiments that are built in.
#[pyfunction]
pub(crate) fn lab_experiments(py: Python<'_>) -> PyResult<Vec<PyLabExperiment>> {
    let all = experiments().map_err(|error| refuse_experiment(py, &error))?;
    Ok(all.into_iter().map(PyLabExperiment::from).collect())
}

/// The experiment of that name.
#[pyfunction]
pub(crate) fn lab_experiment(py: Python<'_>, name: &str) -> PyResult<PyLabExperiment> {
    find_experiment(name).map(PyLabExperiment::from).map_err(|error| refuse_experiment(py, &error))
}

/// Results of an experiment's runs.
#[derive(Serialize)]
struct Judged<'a> {
    runs: &'a [RunResult],
    table: &'a [TableRow],
    checks: &'a [inhaul_lab::result::Verdict],
}

/// Compares runs with a paper's values. Takes the JSON of runs; returns them, table and checks as JSON.
#[pyfunction]
pub(crate) fn lab_judge(py: Python<'_>, name: &str, runs: Vec<String>) -> PyResult<String> {
    let experiment = find_experiment(name).map_err(|error| refuse_experiment(py, &error))?;
    let judged = py.detach(|| {
        let mut runs = runs.iter().map(|text| run_of_json(text)).collect::<Result<Vec<_>, _>>()?;
        let judgement = judge(&experiment, &mut runs);
        let judged = Judged { runs: &runs, table: &judgement.table, checks: &judgement.verdicts };
        serde_json::to_string(&judged).map_err(|error| error.to_string())
    });
    judged.map_err(|reason| usage(&format!("a run {reason}")))
}

/// A scenario that was read and checked.
#[pyclass(name = "LabScenario", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyLabScenario {
    scenario: Arc<Scenario>,
    /// The name of its results.
    name: String,
}

/// A cell: its case, the sweep's settings in it, and its flows with their protocols.
type CellRow = (String, Settings, Vec<(String, String)>);

#[pymethods]
impl PyLabScenario {
    /// `file` names it in errors; `set` changes values; `grid` adds dimensions to its sweep.
    #[new]
    fn new(
        py: Python<'_>,
        name: String,
        file: &str,
        text: &str,
        set: Settings,
        grid: Vec<(String, Vec<String>)>,
    ) -> PyResult<Self> {
        let scenario = py.detach(|| Scenario::parse_swept(file, text, &set, &grid));
        let scenario = Arc::new(scenario.map_err(|error| refuse_scenario(py, &error))?);
        Ok(Self { scenario, name })
    }

    #[getter]
    fn title(&self) -> &str {
        &self.scenario.title
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.seed
    }

    #[getter]
    fn repetitions(&self) -> u32 {
        self.scenario.repetitions
    }

    fn cells(&self) -> Vec<CellRow> {
        let flows = |cell: &inhaul_lab::scenario::Cell| {
            cell.plan.flows.iter().map(|flow| (flow.name.clone(), flow.protocol.name.to_owned())).collect()
        };
        self.scenario.cells.iter().map(|cell| (cell.case.clone(), cell.settings.clone(), flows(cell))).collect()
    }

    /// Makes runs in the simulator: cells by their numbers, with seeds. Returns the JSON of each, in this order. `hear`
    /// is called several times a second, with the part that is done.
    fn run(
        &self,
        py: Python<'_>,
        jobs: Vec<(usize, u64)>,
        threads: usize,
        hear: Option<Py<PyAny>>,
    ) -> PyResult<Vec<String>> {
        let cells = self.scenario.cells.len();
        if let Some((cell, _)) = jobs.iter().find(|(cell, _)| *cell >= cells) {
            return Err(usage(&format!("there is no cell {cell}: the scenario has {cells}")));
        }
        let jobs: Vec<Job> = jobs.into_iter().map(|(cell, seed)| Job { cell, seed }).collect();
        let (scenario, name) = (self.scenario.clone(), self.name.clone());
        let results = beside(py, hear.as_ref(), move |watching| {
            run_jobs(&scenario, &jobs, &name, Backend::Sim { threads }, watching)
        })?;
        results.iter().flatten().map(|run| to_json(py, run)).collect()
    }
}

/// What running simulations and the interpreter's thread say to each other.
#[derive(Default)]
struct Watching {
    stopped: AtomicBool,
    /// The bits of the part that is done.
    part: AtomicU64,
}

impl Watch for Watching {
    fn advanced(&self, part: f64) {
        self.part.store(part.to_bits(), Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Does long work on a thread beside this one, which checks for Ctrl-C and reports progress. An exception raised
/// meanwhile stops the work.
fn beside<T: Send + 'static>(
    py: Python<'_>,
    hear: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watching) -> T + Send + 'static,
) -> PyResult<T> {
    let watching = Arc::new(Watching::default());
    let (done, end) = mpsc::channel::<()>();
    let own = watching.clone();
    let run = move || {
        // Hung up when the work has ended, however.
        let _done = done;
        work(&own)
    };
    let spawned = thread::Builder::new().name("inhaul-lab".to_owned()).spawn(run);
    let worker = spawned.map_err(|error| raise(py, "internal", &format!("cannot start a thread: {error}")))?;
    let end = std::sync::Mutex::new(end);
    let look = || end.lock().map_or(Err(RecvTimeoutError::Disconnected), |end| end.recv_timeout(LOOK));
    let mut raised = Ok(());
    while py.detach(look) == Err(RecvTimeoutError::Timeout) {
        let part = f64::from_bits(watching.part.load(Ordering::Relaxed));
        let heard = |hear: &Py<PyAny>| hear.call1(py, (part,)).map(|_| ());
        let said = py.check_signals().and_then(|()| hear.map_or(Ok(()), heard));
        if let Err(error) = said {
            watching.stopped.store(true, Ordering::Relaxed);
            raised = Err(error);
            break;
        }
    }
    let result = py.detach(|| worker.join()).unwrap_or_else(|panicked| panic::resume_unwind(panicked));
    raised.map(|()| result)
}
