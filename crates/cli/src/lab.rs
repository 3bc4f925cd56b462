//! `inhaul lab`: the laboratory. Scenarios and experiments, in the simulator and over the link emulator.

mod compare;
mod keep;
mod kernel_cc;
mod net;
mod record;
mod report;
mod stars;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use inhaul_lab::kept::Journal;
use inhaul_lab::result::RunResult;
use inhaul_lab::{
    Backend, Drawing, Emulation, Experiment, ExperimentError, Scenario, ScenarioError, Summary, Watch, experiments,
    find_experiment, judge, judgement_table, run_scenario, run_table, series_csv, trajectories_of,
};
use serde::Serialize;

use crate::args::OUTPUT;
use crate::exit;
use crate::link::WaitArg;
use crate::progress::clock;
use crate::serve::announce;
use crate::terminal;
use crate::transfer::to_json;

/// Heading of the options that say where experiments run.
const BACKEND: &str = "Backend options";

/// What `inhaul lab` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a scenario of your own, in the simulator or over the link emulator
    #[command(after_help = SIM_EXAMPLES)]
    Sim(Sim),
    /// List the experiments and what each must show
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Run an experiment and print its results beside the published ones
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Run GTP over random stars: networks that nobody chose
    #[command(after_help = stars::EXAMPLES)]
    Stars(stars::Stars),
    /// Take part in experiments between real hosts ('--backend net')
    #[command(after_help = net::EXAMPLES)]
    Agent(net::Agent),
    /// Record how late and unevenly this host runs programs, for '--noise' and scenarios
    #[command(after_help = record::EXAMPLES)]
    RecordHost(record::RecordHost),
    /// Make one HTML page of kept results, beside the published tables and figures
    #[command(after_help = report::EXAMPLES)]
    Report(report::Report),
    /// Compare two sets of kept results: what differs, and which checks became worse
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Compare),
    /// Load HighSpeed TCP, Scalable TCP and FHSTCP into the kernel, for every program's TCP
    #[command(subcommand)]
    KernelCc(kernel_cc::KernelCc),
}

const SIM_EXAMPLES: &str = "\
docs/scenario.md is the reference of the file.

Examples:
  Run a scenario, and draw the flows' rates:
    inhaul lab sim star.toml --plot star.svg
  The same with another protocol and for longer:
    inhaul lab sim star.toml --set 'flows.*.protocol=cubic' --set 'duration=60 s'";

const LIST_EXAMPLES: &str = "\
Examples:
  Find an experiment, and run it:
    inhaul lab list
    inhaul lab run gtp-2004/fig7";

const RUN_EXAMPLES: &str = "\
The exit code is 12 when a check fails, or a run is not valid: it broke a rule of the
simulator, or this machine was too slow to emulate it.

Examples:
  GTP's shares after each join, with measured capacities and then with given ones:
    inhaul lab run gtp-2004/fig7
    inhaul lab run gtp-2004/fig7 --control paper --plot fig7.png
  Keep the results, for 'inhaul lab report' and 'inhaul lab compare':
    inhaul lab run gtp-2004/fig7 --keep results
  One case of a sweep, as JSON:
    inhaul lab run gtp-2004/fig8 --set 'sweep=[]' --json";

/// What every command that runs something takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run options")]
pub(crate) struct Runs {
    /// Seed of the first repetition; each further one has the next [default: the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How often each case is run [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: Option<u32>,
    /// Change a value of the scenario, like 'duration=5 s' or 'flows.*.protocol=cubic'; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Let all hosts of the simulator run as late and unevenly as one that was recorded: 'vm-idle', 'vm-busy' or a file of
    /// 'inhaul lab record-host'
    #[arg(long, value_name = "NAME")]
    noise: Option<String>,
    /// Simulations at a time; results do not depend on it [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to run: in the simulator, with real processes over emulated links, or between real hosts (docs/net.md)
    #[arg(long, value_enum, default_value_t, help_heading = BACKEND)]
    backend: BackendArg,
    /// With '--backend emu': how the emulator waits for packets; spinning takes a processor and is more exact
    #[arg(long, value_enum, default_value_t, help_heading = BACKEND)]
    wait: WaitArg,
    /// With '--backend emu': keep all processors awake, for virtual machines whose host is slow to give an idle one back. The
    /// threads that do so yield to all others. If there are several processors, the emulator gets one for itself
    #[arg(long, help_heading = BACKEND)]
    awake: bool,
    /// With '--backend emu': most attempts at a run while this machine is too busy to emulate it exactly. The results do
    /// not influence it, and the number of attempts is kept
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = BACKEND)]
    attempts: u32,
    /// With '--backend net': a TOML file that says where the agents of the scenario's hosts are
    #[arg(long, value_name = "FILE", help_heading = BACKEND)]
    hosts: Option<PathBuf>,
    #[command(flatten)]
    secret: net::Secret,
    /// Print JSON, one object for each run (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write the figure to this file, .svg or .png; further ones get a number
    #[arg(long, value_name = "FILE", value_parser = picture_path, value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    plot: Option<PathBuf>,
    /// Write the flows' rates over time to this file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    csv: Option<PathBuf>,
}

/// See [`Runs::backend`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum BackendArg {
    // The simulator.
    #[default]
    Sim,
    // The link emulator.
    Emu,
    // Real hosts.
    Net,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// The scenario, a TOML file
    #[arg(value_name = "FILE")]
    scenario: PathBuf,
    #[command(flatten)]
    runs: Runs,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The experiment, as 'inhaul lab list' names it
    #[arg(value_name = "PAPER/ITEM")]
    experiment: String,
    /// How GTP sets its rates: 'paper' is gtp-2004 to the letter, with given capacities
    #[arg(long, value_enum, default_value_t, help_heading = "Run options")]
    control: Control,
    /// Keep the results as DIR/PAPER/ITEM/BACKEND.json, with all that is needed to repeat them (docs/json.md). Each run is
    /// kept when it finishes: after an early end, the same command continues
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = OUTPUT)]
    keep: Option<PathBuf>,
    #[command(flatten)]
    runs: Runs,
}

/// See [`Run::control`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Control {
    // Capacities are measured.
    #[default]
    Default,
    // Capacities are given.
    Paper,
}

impl Control {
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Paper => "paper",
        }
    }
}

/// Why `inhaul lab` did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a scenario makes no sense.
    Usage(String),
    /// A file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file cannot be written.
    Unwritable(PathBuf, io::Error),
    /// A bug.
    Internal(String),
    /// This host or this user cannot have what was asked for.
    Forbidden(String),
    /// Something did not come out as it must; it has been printed.
    Failed(usize),
    /// So many runs prove nothing; why has been printed.
    NotValid(usize),
    /// Something came out once and does not any more; it has been printed.
    Worse(usize),
}

impl Failure {
    /// What is said of it on standard error.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Usage(message) | Self::Internal(message) | Self::Forbidden(message) => message.clone(),
            Self::Unreadable(path, error) => format!("cannot read {}: {error}", path.display()),
            Self::Unwritable(path, error) => format!("cannot write {}: {error}", path.display()),
            Self::Failed(1) => "a check failed".to_owned(),
            Self::Failed(count) => format!("{count} checks failed"),
            Self::NotValid(1) => "the run is not valid".to_owned(),
            Self::NotValid(count) => format!("{count} runs are not valid"),
            Self::Worse(1) => "one thing became worse: it was right in A and is not in B".to_owned(),
            Self::Worse(count) => format!("{count} things became worse: they were right in A and are not in B"),
        }
    }

    /// The program's exit code.
    pub(crate) fn code(&self) -> u8 {
        use inhaul_mover::ErrorKind;
        match self {
            Self::Usage(_) => exit::code(ErrorKind::Usage),
            Self::Unreadable(..) => exit::code(ErrorKind::PathNotFound),
            Self::Unwritable(..) => exit::code(ErrorKind::Destination),
            Self::Internal(_) => exit::code(ErrorKind::Internal),
            Self::Forbidden(_) => exit::FORBIDDEN,
            Self::Failed(_) | Self::NotValid(_) | Self::Worse(_) => exit::CHECK_FAILED,
        }
    }
}

impl From<Failure> for exit::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(_) | Failure::NotValid(_) | Failure::Worse(_) => {
                Self::reported(failure.code(), Some(failure.message()))
            }
            _ => Self::new(failure.code(), failure.message()),
        }
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Broken { .. } => Self::Internal(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}

pub(crate) fn run(command: &Lab) -> Result<(), Failure> {
    match command {
        Lab::Sim(args) => sim(args),
        Lab::List(args) => list(args),
        Lab::Run(args) => run_experiment(args),
        Lab::Stars(args) => stars::run(args),
        Lab::RecordHost(args) => record::run(args),
        Lab::Report(args) => report::run(args),
        Lab::Compare(args) => compare::run(args),
        Lab::KernelCc(command) => kernel_cc::run(command),
        Lab::Agent(args) => net::agent(args),
    }
}

fn sim(args: &Sim) -> Result<(), Failure> {
    let text = fs::read_to_string(&args.scenario).map_err(|error| Failure::Unreadable(args.scenario.clone(), error))?;
    let name = args.scenario.display().to_string();
    let scenario = Scenario::parse(&name, &text, &args.runs.settings())?;
    let runs = run_all(&scenario, &name, &args.runs, None)?;
    for run in &runs {
        announce(&if args.runs.json { to_json(run) } else { run_table(run) });
    }
    if args.runs.plot.is_some() {
        let drawings: Vec<Drawing> = runs.iter().map(trajectories_of).collect();
        write_drawings(&drawings, &args.runs)?;
    }
    write_csv(&runs, &args.runs)?;
    match runs.iter().filter(|run| !run.valid).count() {
        0 => Ok(()),
        invalid => Err(Failure::NotValid(invalid)),
    }
}

fn run_experiment(args: &Run) -> Result<(), Failure> {
    let experiment = find_experiment(&args.experiment)?;
    let mut settings = args.runs.settings();
    if args.control == Control::Paper {
        if experiment.control_paper.is_empty() {
            return Err(Failure::Usage(format!("{} has no '--control paper'", experiment.name)));
        }
        settings.splice(0..0, experiment.control_paper.iter().cloned());
    }
    let scenario = experiment.scenario(&settings)?;
    let begun = Instant::now();
    let journal = args.keep.as_ref().map(|directory| keep::journal(directory, args, &experiment)).transpose()?;
    let mut runs = run_all(&scenario, &experiment.name, &args.runs, journal.as_ref())?;
    let took = begun.elapsed();
    let judgement = judge(&experiment, &mut runs);
    if args.runs.json {
        for run in &runs {
            announce(&to_json(run));
        }
        if runs.len() > 1 {
            let valid = runs.iter().all(|run| run.valid);
            let (table, checks) = (&judgement.table, &judgement.verdicts);
            announce(&to_json(&Summary { experiment: &experiment.name, runs: runs.len(), valid, table, checks }));
        }
    } else {
        announce(&format!("{}: {} ({})", experiment.name, experiment.title, experiment.source));
        announce(judgement_table(&judgement).trim_end());
    }
    write_drawings(&judgement.drawings, &args.runs)?;
    write_csv(&runs, &args.runs)?;
    if let Some(directory) = &args.keep {
        keep::keep(directory, args, (&experiment, &scenario), (&judgement, &runs), took)?;
    }
    if let Some(journal) = journal {
        keep::close(journal, &runs)?;
    }
    match judgement.verdicts.iter().filter(|verdict| !verdict.passed).count() {
        0 => Ok(()),
        failed => Err(Failure::Failed(failed)),
    }
}

impl Runs {
    /// What is changed in the scenario beside its seed and repetitions.
    fn changes(&self) -> Vec<(String, String)> {
        let noise = self.noise.iter().map(|name| ("noise".to_owned(), format!("{name:?}")));
        noise.chain(self.set.iter().cloned()).collect()
    }

    /// Everything that the command line changes in the scenario.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = self.changes();
        settings.extend(self.seed.map(|seed| ("seed".to_owned(), seed.to_string())));
        settings.extend(self.repetitions.map(|count| ("repetitions".to_owned(), count.to_string())));
        settings
    }
}

/// A line on standard error if that is a terminal, and the journal if there is one.
struct Watching<'a> {
    begun: Instant,
    /// When the line was drawn last; `None`: there is no terminal.
    drawn: Option<Mutex<Instant>>,
    journal: Option<&'a Journal>,
}

/// How often the line is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

impl Watch for Watching<'_> {
    fn advanced(&self, part: f64) {
        let Some(drawn) = &self.drawn else { return };
        let mut drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.elapsed() >= DRAWN_EVERY {
            *drawn = Instant::now();
            let elapsed = self.begun.elapsed().as_secs_f64();
            terminal::draw(|_| vec![progress_line(part, elapsed)]);
        }
    }

    fn known(&self, case: &str, seed: u64) -> Option<RunResult> {
        self.journal?.known(case, seed)
    }

    fn finished(&self, run: &RunResult) {
        if let Some(journal) = self.journal {
            journal.finished(run);
        }
    }
}

/// Runs everything, but for what the journal has.
fn run_all(scenario: &Scenario, name: &str, args: &Runs, journal: Option<&Journal>) -> Result<Vec<RunResult>, Failure> {
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = args.threads.map_or(processors, usize::from);
    let hosts;
    let backend = match args.backend {
        BackendArg::Sim => Backend::Sim { threads },
        BackendArg::Emu => {
            Backend::Emu { how: Emulation { wait: args.wait.into(), awake: args.awake, attempts: args.attempts } }
        }
        BackendArg::Net => {
            hosts = net::hosts(args.hosts.as_deref(), &args.secret)?;
            Backend::Net { hosts: &hosts }
        }
    };
    let begun = Instant::now();
    let watching = Watching { begun, drawn: terminal::is_there().then(|| Mutex::new(begun)), journal };
    let results = run_scenario(scenario, name, backend, &watching);
    terminal::clear();
    Ok(results)
}

/// How far all runs are together.
fn progress_line(part: f64, elapsed: f64) -> String {
    let left = if part > 0.0 { clock(elapsed * (1.0 - part) / part) } else { "?".to_owned() };
    format!("{} % of the time of all runs  {} elapsed  {left} left", (part * 100.0) as u64, clock(elapsed))
}

fn write_drawings(drawings: &[Drawing], args: &Runs) -> Result<(), Failure> {
    let Some(path) = &args.plot else { return Ok(()) };
    for (number, drawing) in drawings.iter().enumerate() {
        let path = numbered(path, number);
        let bytes = if has_extension(&path, "svg") {
            drawing.to_svg().into_bytes()
        } else {
            drawing.to_png().map_err(|error| Failure::Internal(error.to_string()))?
        };
        fs::write(&path, bytes).map_err(|error| Failure::Unwritable(path.clone(), error))?;
    }
    Ok(())
}

/// out.svg, out-2.svg, out-3.svg
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let part =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!("{}-{}.{}", part(path.file_stem()), number + 1, part(path.extension())))
}

fn write_csv(runs: &[RunResult], args: &Runs) -> Result<(), Failure> {
    let Some(path) = &args.csv else { return Ok(()) };
    fs::write(path, series_csv(runs)).map_err(|error| Failure::Unwritable(path.clone(), error))
}

/// The list of experiments as JSON.
#[derive(Serialize)]
pub(crate) struct Listing {
    experiments: Vec<ExperimentRow>,
}

#[derive(Serialize)]
struct ExperimentRow {
    name: String,
    title: String,
    source: String,
    control_paper: bool,
    checks: Vec<String>,
}

impl From<Experiment> for ExperimentRow {
    fn from(experiment: Experiment) -> Self {
        Self {
            control_paper: !experiment.control_paper.is_empty(),
            checks: experiment.checks.into_iter().map(|check| check.what).collect(),
            name: experiment.name,
            title: experiment.title,
            source: experiment.source,
        }
    }
}

pub(crate) fn listing() -> Result<Listing, ExperimentError> {
    Ok(Listing { experiments: experiments()?.into_iter().map(ExperimentRow::from).collect() })
}

fn list(args: &List) -> Result<(), Failure> {
    let listing = listing()?;
    if args.json {
        announce(&to_json(&listing));
        return Ok(());
    }
    for experiment in listing.experiments {
        announce(&format!("{}: {} ({})", experiment.name, experiment.title, experiment.source));
        for check in experiment.checks {
            announce(&format!("    {check}"));
        }
    }
    Ok(())
}

pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, like 'duration=5 s'")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn picture_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if has_extension(&path, "svg") || has_extension(&path, "png") {
        Ok(path)
    } else {
        Err("the file's name ends in .svg or .png".to_owned())
    }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tests::assert_documented;
    use inhaul_lab::TableRow;
    use inhaul_lab::result::{EpochResult, FlowResult, GroupResult, LinkResult, Metrics, Point, ScaleIndex, Verdict};

    #[test]
    fn run_has_the_documented_fields() {
        let point = Point { t_s: 1.0, goodput_bps: 2.0 };
        let run = RunResult {
            flows: vec![FlowResult { series: vec![point], ..FlowResult::default() }],
            groups: vec![GroupResult::default()],
            links: vec![LinkResult::default()],
            epochs: vec![EpochResult::default()],
            metrics: Metrics { jain_by_scale: vec![ScaleIndex::default()], ..Metrics::default() },
            published: std::iter::once(("QUANTITY".to_owned(), 1.0)).collect(),
            checks: vec![Verdict::default()],
            ..RunResult::default()
        };
        assert_documented("A run of the lab", &run);
    }

    #[test]
    fn summary_has_the_documented_fields() {
        let experiment = find_experiment("gtp-2004/fig7").unwrap();
        let table: Vec<TableRow> = judge(&experiment, &mut [RunResult::default()]).table;
        let checks = [Verdict::default()];
        let summary = Summary { experiment: "", runs: 0, valid: true, table: &table, checks: &checks };
        assert_documented("The summary of several runs of the lab", &summary);
    }

    #[test]
    fn listing_has_the_documented_fields() {
        assert_documented("The list of the lab's experiments", &listing().unwrap());
    }

    #[test]
    fn progress_line_reckons_with_what_was_needed_so_far() {
        assert_eq!(progress_line(0.25, 60.0), "25 % of the time of all runs  1:00 elapsed  3:00 left");
        assert!(progress_line(0.0, 1.0).ends_with("? left"));
    }

    #[test]
    fn numbered_leaves_the_first_as_it_is() {
        assert_eq!(numbered(Path::new("a/out.svg"), 0), Path::new("a/out.svg"));
        assert_eq!(numbered(Path::new("a/out.svg"), 2), Path::new("a/out-3.svg"));
    }

    #[test]
    fn key_and_value_splits_at_the_first_sign() {
        assert_eq!(key_and_value("a.b = x=y"), Ok(("a.b".to_owned(), "x=y".to_owned())));
        assert!(key_and_value("duration").is_err());
    }

    #[test]
    fn picture_path_knows_two_endings() {
        assert!(picture_path("a.svg").is_ok() && picture_path("b.PNG").is_ok());
        assert!(picture_path("a.pdf").is_err() && picture_path("svg").is_err());
    }
}
