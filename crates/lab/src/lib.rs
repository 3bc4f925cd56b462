//! The laboratory: scenarios, their runs in the simulator and over the link emulator, their results, and the papers'
//! experiments.
//!
//! A [`Scenario`] is one TOML file (docs/scenario.md). It is checked as a whole, and run as a sweep. Each run gives
//! one [`RunResult`] (docs/json.md). An [`Experiment`] is a scenario with the values that a paper printed, and checks
//! of the results. The folder `experiments/` is built into the program.
//!
//! Scenarios and sweeps run on all cores, a run on one thread. The result has the same bytes on any number of cores.
//! Checks are data beside the scenario.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod agents;
mod assess;
pub mod company;
mod draws;
pub mod emu;
mod experiment;
mod figure;
mod host_record;
pub mod host_trace;
mod html;
mod ideal;
mod joins;
mod judge;
pub mod kept;
pub mod kernel_cc;
pub mod metrics;
mod outcome;
pub mod plot;
mod random_streams;
mod repetitions;
mod report;
pub mod result;
mod run;
pub mod scenario;
mod simulated;
pub mod stars;
mod stepper;
mod web;
mod words;

pub use agents::{Emulation, Hosts, HostsError, run_agent, run_emulated, run_net, serve_agents};
pub use experiment::{Experiment, ExperimentError, experiments, find_experiment};
pub use figure::{Drawing, trajectories_of};
pub use host_record::record_host;
pub use html::{Counts, Page, Report, Site, report, site};
pub use judge::{Judgement, TableRow, judge};
pub use report::{Summary, judgement_table, run_table, series_csv};
pub use result::RunResult;
pub use run::{Backend, Job, Watch, run_jobs, run_once, run_scenario};
pub use scenario::{Scenario, ScenarioError};
pub use stepper::{FlowLaw, FlowPhase, FlowState, Laws, LinkState, Stepper, StepperError};

pub use inhaul_protocols::laws::LawConfig;
