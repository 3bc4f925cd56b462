//! Writing, reading back, and refusing files that are no kept results.

use std::sync::LazyLock;

use super::*;
use crate::experiment::find_experiment;
use crate::{Backend, judge, run_scenario};

/// A small result: two cases of gtp-2004's Figure 9, for half a second.
pub(crate) fn kept() -> Kept {
    static ONCE: LazyLock<Kept> = LazyLock::new(run);
    ONCE.clone()
}

fn run() -> Kept {
    let experiment = find_experiment("gtp-2004/fig9").unwrap();
    let set = [("duration", "500 ms"), ("measure.from", "300 ms"), ("flows.flow2.start", "100 ms")];
    let set: Vec<(String, String)> = set.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let scenario = experiment.scenario(&set).unwrap();
    let mut runs = run_scenario(&scenario, &experiment.name, Backend::Sim { threads: 1 }, &());
    let judgement = judge(&experiment, &mut runs);
    let set = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let origin = Origin {
        command: "inhaul lab run gtp-2004/fig9".to_owned(),
        version: "0.1.0".to_owned(),
        commit: Some("0123456789ab".to_owned()),
        finished: utc(1_778_000_000),
        took_s: 1,
        machine: Machine { processor: Some("A processor".to_owned()), cores: 2, ..Machine::default() },
    };
    Kept::new(&experiment, &scenario, Changes { control: "default".to_owned(), set }, origin, (&judgement, &runs))
}

fn refusal(text: &str) -> String {
    Kept::from_json(text).unwrap_err().to_string()
}

/// The kept result with something changed, as text.
fn changed(change: impl Fn(&mut serde_json::Value)) -> String {
    let mut value = serde_json::from_str(&kept().to_json()).unwrap();
    change(&mut value);
    value.to_string()
}

#[test]
fn run_of_json_restores_what_is_not_in_it() {
    for run in kept().runs {
        let again = run_of_json(&serde_json::to_string(&run).unwrap()).unwrap();
        let joins = |run: &RunResult| run.epochs.iter().map(|epoch| epoch.is_join).collect::<Vec<_>>();
        assert_eq!(joins(&run), [true, true]);
        assert_eq!(joins(&again), joins(&run));
        assert_eq!(again.flows[1].trajectory.points().len(), run.flows[1].series.len() + 1);
    }
    assert!(run_of_json("a").unwrap_err().starts_with("is no run: "));
}

#[test]
fn from_json_reads_what_to_json_wrote() {
    let first = kept();
    let again = Kept::from_json(&first.to_json()).unwrap();
    assert_eq!(again.to_json(), first.to_json());
    assert_eq!((&again.table, &again.checks, &again.origin), (&first.table, &first.checks, &first.origin));
    assert_eq!(again.table[0].unit.sign(), "Mbit/s");
    assert_eq!(again.runs.len(), 2);
    for (ours, kept) in first.runs.iter().zip(&again.runs) {
        let (ours, kept) = (&ours.flows[1].trajectory, &kept.flows[1].trajectory);
        for t in [0.05, 0.25, 0.5] {
            assert!((ours.bytes_at(t) - kept.bytes_at(t)).abs() < 100.0, "{t} s");
        }
    }
}

#[test]
fn from_json_tells_damaged_foreign_and_newer_files_apart() {
    let text = kept().to_json();
    assert!(refusal(&text[..text.len() / 2]).starts_with("is damaged: EOF"), "{}", refusal(&text[..text.len() / 2]));
    assert!(refusal("no JSON at all").starts_with("is damaged"));
    for foreign in ["{}", "[1, 2]", "7", "{\"goodput_bps\": 1}", "{\"kept_version\": \"one\"}"] {
        assert_eq!(refusal(foreign), "is no kept result of 'inhaul lab run --keep'", "{foreign}");
    }
    assert!(refusal("{\"kept_version\": 2}").contains("newer inhaul"));
    assert!(refusal(&changed(|value| value["seed"] = "x".into())).starts_with("is damaged"));
}

#[test]
fn from_json_refuses_runs_that_cannot_be() {
    type Change = fn(&mut serde_json::Value);
    let changes: [Change; 7] = [
        |run| run["duration_s"] = (-1.0).into(),
        |run| run["duration_s"] = 0.0.into(),
        |run| run["flows"][0]["stop_s"] = 1e300.into(),
        |run| run["flows"][0]["series"][0]["t_s"] = 1e8.into(),
        |run| run["flows"][0]["series"][0]["goodput_bps"] = 1e300.into(),
        |run| run["flows"][0]["rtt_ms"] = (-5.0).into(),
        |run| run["epochs"][0]["ideal_bps"][0] = (-1.0).into(),
    ];
    for change in changes {
        let text = changed(|value| change(&mut value["runs"][0]));
        assert!(refusal(&text).contains("cannot be"), "{}", refusal(&text));
    }
}

#[test]
fn from_json_leaves_nothing_that_steers_a_terminal() {
    let text = changed(|value| value["checks"][0]["found"] = "\u{1b}[2J\nno".into());
    assert_eq!(Kept::from_json(&text).unwrap().checks[0].found, "\u{fffd}[2J\u{fffd}no");
}

/// A directory of its own that goes when the test ends.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("inhaul-kept-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn read_kept_finds_results_and_names_everything_else() {
    let directory = Directory::new("folder");
    let kept = kept();
    let path = kept.write(&directory.0).unwrap();
    assert_eq!(path, directory.0.join("gtp-2004/fig9/sim.json"));
    let paper = Kept { control: "paper".to_owned(), ..kept.clone() };
    assert!(paper.write(&directory.0).unwrap().ends_with("gtp-2004/fig9/sim-paper.json"));
    let text = kept.to_json();
    fs::write(directory.0.join("broken.json"), &text[..100]).unwrap();
    fs::write(directory.0.join("other.json"), "{}").unwrap();
    fs::write(directory.0.join("read.me"), "not looked at").unwrap();
    fs::create_dir(directory.0.join("zz")).unwrap();
    fs::write(directory.0.join("zz/again.json"), &text).unwrap();

    let kepts = read_kept(&directory.0).unwrap();
    let controls: Vec<&str> = kepts.results.iter().map(|found| found.kept.control.as_str()).collect();
    assert_eq!(controls, ["paper", "default"]);
    let problems: Vec<String> = kepts.problems.iter().map(Problem::message).collect();
    let expected = ["broken.json is damaged", "other.json is no kept result", "again.json is a second result"];
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
    assert!(problems.iter().zip(expected).all(|(problem, expected)| problem.contains(expected)), "{problems:?}");

    assert_eq!(read_kept(&path).unwrap().results.len(), 1);
    assert!(read_kept(&directory.0.join("none")).is_err());
}

#[test]
fn write_replaces_what_was_there_and_leaves_nothing_else() {
    let directory = Directory::new("write");
    let kept = kept();
    kept.write(&directory.0).unwrap();
    let later = Kept { seed: 7, ..kept };
    let path = later.write(&directory.0).unwrap();
    assert_eq!(Kept::from_json(&fs::read_to_string(&path).unwrap()).unwrap().seed, 7);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn results_of_earlier_releases_lose_the_index_of_single_flows() {
    let mut kept = kept();
    let (mut alone, run) = (kept.runs[0].clone(), kept.runs[0].clone());
    assert!(run.flows.len() > 1);
    alone.case = "alone".to_owned();
    alone.flows.truncate(1);
    alone.metrics.jain_index = Some(1.0);
    kept.runs = vec![run.clone(), alone];
    let template = kept.table[0].clone();
    let row = |case: &str| TableRow {
        case: case.to_owned(),
        quantity: "metrics.jain_index".to_owned(),
        mean: Some(1.0),
        ..template.clone()
    };
    kept.table = vec![row(&run.case), row("alone")];
    let text = serde_json::to_string(&kept).unwrap();
    let read = Kept::from_json(&text).unwrap();
    assert_eq!(read.table.iter().map(|row| row.mean).collect::<Vec<_>>(), [Some(1.0), None]);
    assert_eq!(read.runs[1].metrics.jain_index, None);
    assert_eq!(read.runs[0].metrics.jain_index, run.metrics.jain_index);
}
