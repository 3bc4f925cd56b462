//! `inhaul lab sim` and `inhaul lab run`.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use inhaul_lab::kept::Journal;
use inhaul_lab::result::RunResult;
use inhaul_lab::{
    Backend, Drawing, Emulation, Scenario, Summary, Watch, find_experiment, judge, judgement_table, run_scenario,
    run_table, series_csv, trajectories_of,
};

use super::failure::Failure;
use super::runs::{BackendArg, Control, Run, Runs, Sim, has_extension};
use super::{keep, net};
use crate::output::{announce, to_json};
use crate::progress::clock;
use crate::terminal;

pub(super) const SIM_EXAMPLES: &str = "\
docs/scenario.md explains the format of FILE. The exit code is 12 if a run is not valid:
it broke a rule of the simulator, or this machine was too slow to emulate it.

Examples:
  Run a scenario, and draw the flows' rates:
    inhaul lab sim star.toml --plot star.svg
  The same with another protocol, for 60 s:
    inhaul lab sim star.toml --set 'flows.*.protocol=cubic' --set 'duration=60 s'";

pub(super) const RUN_EXAMPLES: &str = "\
The exit code is 12 if a check fails or a run is not valid: it broke a rule of the
simulator, or this machine was too slow to emulate it.

Examples:
  GTP's shares after each join; first with measured capacities, then with given ones:
    inhaul lab run gtp-2004/fig7
    inhaul lab run gtp-2004/fig7 --control paper --plot fig7.png
  Keep the results, for 'inhaul lab report' and 'inhaul lab compare':
    inhaul lab run gtp-2004/fig7 --keep results
  One case of a sweep, as JSON:
    inhaul lab run gtp-2004/fig8 --set 'sweep=[]' --json";

pub(super) fn sim(args: &Sim) -> Result<(), Failure> {
    let text = read_scenario(&args.scenario)?;
    let name = args.scenario.display().to_string();
    let scenario = Scenario::parse(&name, &text, &args.runs.settings())?;
    check_outputs(&args.runs)?;
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

pub(super) fn run_experiment(args: &Run) -> Result<(), Failure> {
    let experiment = find_experiment(&args.experiment)?;
    let mut settings = args.runs.settings();
    if args.control == Control::Paper {
        if experiment.control_paper.is_empty() {
            return Err(Failure::Usage(format!("{} has no '--control paper'", experiment.name)));
        }
        settings.splice(0..0, experiment.control_paper.iter().cloned());
    }
    let scenario = experiment.scenario(&settings)?;
    check_outputs(&args.runs)?;
    if let Some(directory) = &args.keep {
        keep::check_place(directory)?;
    }
    let begun = Instant::now();
    let journal = args.keep.as_ref().map(|directory| keep::journal(directory, args, &experiment)).transpose()?;
    let mut runs = run_all(&scenario, &experiment.name, &args.runs, journal.as_ref())?;
    let took = begun.elapsed() + Duration::from_secs_f64(journal.as_ref().map_or(0.0, Journal::took_s));
    let judgement = judge(&experiment, &mut runs);
    if args.runs.json {
        for run in &runs {
            announce(&to_json(run));
        }
        if runs.len() > 1 {
            let valid = runs.iter().all(|run| run.valid);
            announce(&to_json(&Summary {
                experiment: &experiment.name,
                runs: runs.len(),
                valid,
                table: &judgement.table,
                checks: &judgement.verdicts,
                not_judged: &judgement.not_judged,
            }));
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
            journal.finished(run, self.begun.elapsed().as_secs_f64());
        }
    }
}

/// Runs everything that the journal does not have.
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

/// The text of a scenario's file.
pub(super) fn read_scenario(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| Failure::Unreadable(path.to_owned(), error))?;
    String::from_utf8(bytes).map_err(|_| {
        Failure::Usage(format!("{}: a scenario is TOML, which is UTF-8: this file is not", path.display()))
    })
}

/// Whether the files of `--plot` and `--csv` can be written, before hours of runs. Existing files stay as they are.
fn check_outputs(args: &Runs) -> Result<(), Failure> {
    for path in [&args.plot, &args.csv].into_iter().flatten() {
        let is_new = !path.exists();
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| Failure::Unwritable(path.clone(), error))?;
        if is_new {
            // If it cannot be removed, it is replaced by the output.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;
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
        let not_judged = [String::new()];
        let summary =
            Summary { experiment: "", runs: 0, valid: true, table: &table, checks: &checks, not_judged: &not_judged };
        assert_documented("The summary of several runs of the lab", &summary);
    }

    #[test]
    fn check_outputs_finds_places_that_cannot_be_before_anything_runs() {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            runs: Runs,
        }
        let directory = tempfile::tempdir().unwrap();
        let csv = directory.path().join("out.csv");
        let runs = |path: &Path| Line::parse_from(["x", "--csv", path.to_str().unwrap()]).runs;
        assert!(check_outputs(&runs(&csv)).is_ok() && !csv.exists(), "nothing is left");
        fs::write(&csv, "before").unwrap();
        assert!(check_outputs(&runs(&csv)).is_ok());
        assert_eq!(fs::read_to_string(&csv).unwrap(), "before");
        for wrong in [directory.path().to_owned(), csv.join("x"), directory.path().join("no/out.csv")] {
            assert!(matches!(check_outputs(&runs(&wrong)), Err(Failure::Unwritable(..))), "{}", wrong.display());
        }
    }

    #[test]
    fn read_scenario_wants_utf_8() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.toml");
        fs::write(&path, [b't', 0xff]).unwrap();
        assert!(matches!(read_scenario(&path), Err(Failure::Usage(what)) if what.contains("UTF-8")));
        assert!(matches!(read_scenario(&directory.path().join("none")), Err(Failure::Unreadable(..))));
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
}
