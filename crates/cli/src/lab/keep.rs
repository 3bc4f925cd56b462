//! `inhaul lab run --keep`: keeps results in files.

use std::path::{Path, absolute};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use inhaul_lab::kept::{Changes, Identity, Journal, Kept, KeptError, Machine, Origin, utc};
use inhaul_lab::result::RunResult;
use inhaul_lab::{Experiment, Judgement, Scenario};

use super::failure::Failure;
use super::runs::{BackendArg, Control, Run};
use crate::options::WaitArg;
use crate::output::{announce, say};

/// Suffix of a commit's name if the source was changed.
const DIRTY: &str = "-dirty";
/// Where a repository keeps its results.
const KEPT: &str = "results";

/// Writes the result below `directory` and says where.
pub(super) fn keep(
    directory: &Path,
    args: &Run,
    (experiment, scenario): (&Experiment, &Scenario),
    (judgement, runs): (&Judgement, &[RunResult]),
    took: Duration,
) -> Result<(), Failure> {
    let changes = Changes { control: args.control.name().to_owned(), set: settings(args) };
    let origin = origin(command(args), took);
    let kept = Kept::new(experiment, scenario, changes, origin, (judgement, runs));
    let path = kept.write(directory).map_err(|error| match error {
        KeptError::System(error) => Failure::Unwritable(directory.join(kept.path()), error),
        error => Failure::Usage(format!("the result cannot be kept: it {error}")),
    })?;
    if !args.runs.json {
        announce(&format!("kept: {}", path.display()));
    }
    Ok(())
}

/// Whether results may be kept there. Those of a repository name the commit that makes them again, so a program that was
/// built from changed sources keeps its results elsewhere.
///
/// # Errors
/// When they may not.
pub(super) fn check_place(directory: &Path) -> Result<(), Failure> {
    refusal(directory, commit().as_deref()).map_or(Ok(()), |why| Err(Failure::Usage(why)))
}

/// Why a program of this commit may not keep results there.
fn refusal(directory: &Path, commit: Option<&str>) -> Option<String> {
    let commit = commit.filter(|commit| commit.ends_with(DIRTY))?;
    let directory = absolute(directory).ok()?;
    let is_kept = |place: &Path| {
        place.file_name().is_some_and(|name| name == KEPT)
            && place.parent().is_some_and(|top| top.join(".git").exists() && top.join("experiments").is_dir())
    };
    directory.ancestors().any(is_kept).then(|| {
        format!(
            "this program was built from changed sources ({commit}), and what {} has must name a commit that makes it \
             again: commit the changes, build and run it again, or give --keep another directory",
            directory.display()
        )
    })
}

/// Opens the journal of runs that are finished before the experiment is, and says how many there are.
pub(super) fn journal(directory: &Path, args: &Run, experiment: &Experiment) -> Result<Journal, Failure> {
    let backend = name(args.runs.backend.to_possible_value());
    let wait = name(args.runs.wait.to_possible_value());
    let how = if args.runs.backend == BackendArg::Emu {
        format!(", waits by {wait}{}", if args.runs.awake { ", awake" } else { "" })
    } else {
        String::new()
    };
    let identity = Identity {
        experiment: experiment.name.clone(),
        backend: format!("{backend}{how}"),
        control: args.control.name().to_owned(),
        set: settings(args),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
    };
    let control = if args.control == Control::Default { String::new() } else { format!("-{}", args.control.name()) };
    let journal = Journal::open(directory, &format!("{backend}{control}"), &identity)
        .map_err(|error| Failure::Unwritable(directory.join(&experiment.name), error))?;
    match journal.runs().len() {
        0 => {}
        known => say(&format!("{known} runs were finished before and are taken from {}", journal.path().display())),
    }
    Ok(journal)
}

/// Ends the journal: it is removed when the kept result has all its runs.
pub(super) fn close(journal: Journal, runs: &[RunResult]) -> Result<(), Failure> {
    let path = journal.path().to_owned();
    let all_valid = runs.iter().all(|run| run.valid);
    if !all_valid {
        say(&format!("the same command takes the valid runs from {} and makes the others again", path.display()));
    }
    journal.close(all_valid).map_err(|error| Failure::Unwritable(path, error))
}

fn name(value: Option<clap::builder::PossibleValue>) -> String {
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn commit() -> Option<String> {
    Some(env!("COMMIT_OF_INHAUL")).filter(|commit| !commit.is_empty()).map(str::to_owned)
}

fn origin(command: String, took: Duration) -> Origin {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Origin {
        command,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
        finished: utc(since_1970.as_secs()),
        took_s: took.as_secs(),
        machine: Machine::here(),
    }
}

fn settings(args: &Run) -> Vec<String> {
    args.runs.changes().iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// The command line with exactly the options that the result depends on.
fn command(args: &Run) -> String {
    let mut words = vec!["inhaul".to_owned(), "lab".to_owned(), "run".to_owned(), args.experiment.clone()];
    let mut option =
        |name: &str, value: Option<String>| words.extend([Some(name.to_owned()), value].into_iter().flatten());
    if args.runs.backend != BackendArg::default() {
        option("--backend", Some(name(args.runs.backend.to_possible_value())));
    }
    if args.runs.wait != WaitArg::default() {
        option("--wait", Some(name(args.runs.wait.to_possible_value())));
    }
    if args.runs.awake {
        option("--awake", None);
    }
    if args.runs.attempts != 1 {
        option("--attempts", Some(args.runs.attempts.to_string()));
    }
    if args.control != Control::Default {
        option("--control", Some(args.control.name().to_owned()));
    }
    if let Some(seed) = args.runs.seed {
        option("--seed", Some(seed.to_string()));
    }
    if let Some(repetitions) = args.runs.repetitions {
        option("--repetitions", Some(repetitions.to_string()));
    }
    for setting in settings(args) {
        option("--set", Some(setting));
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;
    use clap::Parser;

    fn command_of(line: &[&str]) -> String {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            run: Run,
        }
        command(&Line::parse_from(line).run)
    }

    #[test]
    fn kept_result_has_the_documented_fields() {
        let experiment = inhaul_lab::find_experiment("gtp-2004/fig7").unwrap();
        let scenario = experiment.scenario(&[]).unwrap();
        let judgement = inhaul_lab::judge(&experiment, &mut [RunResult::default()]);
        let kept = Kept::new(
            &experiment,
            &scenario,
            Changes::default(),
            origin(String::new(), Duration::ZERO),
            (&judgement, &[]),
        );
        assert_documented("A kept result", &kept);
    }

    #[test]
    fn command_has_what_the_result_depends_on() {
        assert_eq!(
            command_of(&["run", "gtp-2004/fig7", "--keep", "/tmp/x", "--json", "--threads", "2"]),
            "inhaul lab run gtp-2004/fig7"
        );
        let line = [
            "run",
            "a/b",
            "--set",
            "duration=5 s",
            "--seed",
            "3",
            "--control",
            "paper",
            "--set",
            "sweep=[]",
            "--repetitions",
            "2",
        ];
        assert_eq!(
            command_of(&line),
            "inhaul lab run a/b --control paper --seed 3 --repetitions 2 --set 'duration=5 s' --set 'sweep=[]'"
        );
    }

    #[test]
    fn changed_sources_keep_nothing_in_a_repository() {
        let repository = tempfile::tempdir().unwrap();
        for folder in [".git", "experiments", "results/sub", "other"] {
            std::fs::create_dir_all(repository.path().join(folder)).unwrap();
        }
        let refused = |place: &str, commit| refusal(&repository.path().join(place), commit);
        let (clean, dirty) = (Some("0123456789ab"), Some("0123456789ab-dirty"));
        for place in ["results", "results/sub", "results/not/there/yet"] {
            assert!(refused(place, dirty).is_some_and(|why| why.contains("0123456789ab-dirty")), "{place}");
            assert_eq!((refused(place, clean), refused(place, None)), (None, None), "{place}");
        }
        assert_eq!((refused("other", dirty), refused("other/results", dirty)), (None, None));
    }

    #[test]
    fn command_has_the_noise() {
        let line = ["run", "a/b", "--set", "duration=5 s", "--noise", "vm-idle"];
        assert_eq!(command_of(&line), r#"inhaul lab run a/b --set 'noise="vm-idle"' --set 'duration=5 s'"#);
    }

    #[test]
    fn command_says_what_it_was_run_in() {
        let line = ["run", "a/b", "--backend", "emu", "--attempts", "3", "--awake", "--wait", "spin"];
        assert_eq!(command_of(&line), "inhaul lab run a/b --backend emu --wait spin --awake --attempts 3");
    }

    #[test]
    fn quoted_leaves_nothing_to_the_shell() {
        assert_eq!(quoted("it's $(x)"), r"'it'\''s $(x)'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn origin_says_the_version() {
        let origin = origin(String::new(), Duration::from_secs(61));
        assert_eq!((origin.version.as_str(), origin.took_s), (env!("CARGO_PKG_VERSION"), 61));
        assert!(origin.commit.is_none_or(|commit| commit.len() >= 12), "a short commit");
    }
}
