//! Every experiment, scaled down: the machinery from the scenario to the table and the figures. `inhaul lab run` judges
//! all expected results; this test does so only if the experiment is run unscaled.

use std::collections::BTreeSet;
use std::path::Path;

use inhaul_lab::kept::{Kept, read_kept};
use inhaul_lab::result::{RunResult, TRACE_FORM};
use inhaul_lab::{Backend, Job, experiments, find_experiment, judge, judgement_table, run_jobs, run_scenario};
use inhaul_protocols::registry;
use serde_json::Value;

#[test]
fn every_experiment_runs_and_is_judged() {
    for experiment in experiments().unwrap_or_else(|error| panic!("{error}")) {
        let scenario = experiment.scenario(&experiment.quick).unwrap_or_else(|error| panic!("{error}"));
        let mut runs = run_scenario(&scenario, &experiment.name, Backend::Sim { threads: 2 }, &());
        for run in &runs {
            assert!(run.valid, "{} [{}]: {:?}", experiment.name, run.case, run.invalid_reason);
            assert!(run.flows.iter().all(|flow| flow.failure.is_none()), "{} [{}]", experiment.name, run.case);
        }
        let judgement = judge(&experiment, &mut runs);
        // Scaled down, some cases may be left out; in full, each check has its case.
        let full = experiment.scenario(&[]).unwrap_or_else(|error| panic!("{error}"));
        let is_of = |of: &str, case: &str| of.is_empty() || of == case;
        let mut judged = 0;
        for check in &experiment.checks {
            let there = full.cells.iter().any(|cell| is_of(&check.case, &cell.case));
            assert!(there, "{}: no case '{}'", experiment.name, check.case);
            judged += usize::from(runs.iter().any(|run| is_of(&check.case, &run.case)));
        }
        assert!(judgement.verdicts.len() >= judged, "{}", experiment.name);
        assert_eq!(judgement.drawings.len(), experiment.figures.len(), "{}", experiment.name);
        assert!(judgement.drawings.iter().all(|drawing| drawing.to_svg().contains("</svg>")), "{}", experiment.name);
        assert!(judgement_table(&judgement).lines().count() > experiment.rows.len(), "{}", experiment.name);
        // A row that names a case or a quantity that does not exist would never be filled. A flow alone shares nothing; and
        // scaled down, some flows start so late that they are not together for long.
        let share_nothing = |case: &str| {
            runs.iter().filter(|run| run.case == case).any(|run| {
                let is_late = run.measured_flows().any(|flow| flow.start_s > run.measured_s[0]);
                is_late || run.measured_flows().nth(1).is_none()
            })
        };
        let is_empty = |row: &&inhaul_lab::TableRow| {
            let may_be = row.quantity.contains("convergence")
                || row.quantity.contains("jain_at")
                || (row.quantity.ends_with(".jain_index") && share_nothing(&row.case));
            row.mean.is_none() && !may_be
        };
        let empty: Vec<_> = judgement.table.iter().filter(is_empty).map(|row| (&row.case, &row.quantity)).collect();
        assert!(empty.is_empty(), "{}: {empty:?}", experiment.name);
    }
}

#[test]
fn every_experiment_runs_on_hosts_with_noise() {
    // The results are not judged here: only that no rule of the simulator is broken, and that no flow gives up.
    for noise in ["vm-busy"] {
        let mut experiments = experiments().unwrap_or_else(|error| panic!("{error}"));
        if std::env::var_os("INHAUL_LONG_TESTS").is_none() {
            // One of each folder: they differ by what runs in them.
            experiments.dedup_by_key(|experiment| experiment.name.split('/').next().map(str::to_owned));
        }
        for experiment in experiments {
            let mut set = experiment.quick.clone();
            set.extend([("noise".to_owned(), noise.to_owned()), ("repetitions".to_owned(), "1".to_owned())]);
            let scenario = experiment.scenario(&set).unwrap_or_else(|error| panic!("{error}"));
            for run in run_scenario(&scenario, &experiment.name, Backend::Sim { threads: 2 }, &()) {
                let name = format!("{} [{}] beside {noise}", experiment.name, run.case);
                assert!(run.valid, "{name}: {:?}", run.invalid_reason);
                assert!(run.flows.iter().all(|flow| flow.failure.is_none()), "{name}");
            }
        }
    }
}

#[test]
fn figure_7_comes_out_with_capacities_given() {
    // gtp-2004 5.1.1: "whenever a new flow starts, each active flow achieves an identical fair share". With the
    // paper's control, how soon the shares are there depends on the moment of the join: five are tried.
    const PLACES: u32 = 5;
    let experiment = find_experiment("gtp-2004/fig7").unwrap_or_else(|error| panic!("{error}"));
    let mut soon = 0;
    for place in 0..PLACES {
        let mut set = experiment.control_paper.clone();
        set.push(("flows.flow3.start".to_owned(), format!("{} ms", 2_960 + 40 * place)));
        let scenario = experiment.scenario(&set).unwrap_or_else(|error| panic!("{error}"));
        let mut runs = run_scenario(&scenario, &experiment.name, Backend::Sim { threads: 1 }, &());
        let judgement = judge(&experiment, &mut runs);
        let (shares, others): (Vec<_>, Vec<_>) =
            judgement.verdicts.iter().partition(|verdict| verdict.what.contains("soon after each join"));
        assert!(others.len() >= 3 && others.iter().all(|verdict| verdict.passed), "{others:?}");
        assert_eq!(shares.len(), 1, "{shares:?}");
        soon += u32::from(shares[0].passed);
    }
    assert!(soon * 2 > PLACES, "soon after {soon} of {PLACES} joins");
}

/// Kept runs that are short, by file and case: together they have every protocol.
const SHORT: &[(&str, &str)] = &[
    ("gtp-2004/fig7/sim.json", ""),
    ("beyond/random-loss/sim.json", "protocol = reno, loss = 1 %"),
    ("beyond/random-loss/sim.json", "protocol = highspeed, loss = 1 %"),
    ("beyond/random-loss/sim.json", "protocol = scalable, loss = 1 %"),
    ("beyond/random-loss/sim.json", "protocol = bic, loss = 1 %"),
    ("beyond/random-loss/sim.json", "protocol = cubic, loss = 1 %"),
    ("beyond/random-loss/sim.json", "protocol = fhstcp, loss = 1 %"),
    ("beyond/pairs-star/sim.json", "rbudp, bbr"),
    ("beyond/pairs-star/sim.json", "rbudp, bbr3"),
    ("beyond/pairs-star/sim.json", "sabul, udt"),
    ("beyond/rbudp-model/sim.json", "loss = 0 %"),
    ("rbudp-plus-2006/table1/sim.json", "idle, 2.0 Gbit/s, RBUDP+"),
];

#[test]
fn short_kept_runs_come_out_again_number_by_number_and_with_the_same_trace() {
    let mut protocols = BTreeSet::new();
    std::thread::scope(|scope| {
        let again = SHORT.iter().map(|(file, case)| scope.spawn(|| assert_comes_out_again(file, case)));
        for thread in again.collect::<Vec<_>>() {
            match thread.join() {
                Ok(run) => protocols.extend(run.flows.into_iter().map(|flow| flow.protocol)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let all: BTreeSet<String> = registry::PROTOCOLS.iter().map(|protocol| protocol.name.to_owned()).collect();
    assert_eq!(protocols, all, "each protocol has a kept run");
}

fn assert_comes_out_again(file: &str, case: &str) -> RunResult {
    let kept = kept(file);
    let kept_run = kept.runs.iter().find(|run| run.case == case).unwrap_or_else(|| panic!("{file} has no '{case}'"));
    let experiment = find_experiment(&kept.experiment).unwrap_or_else(|error| panic!("{error}"));
    let scenario = experiment.scenario(&[]).unwrap_or_else(|error| panic!("{error}"));
    let cell = scenario.cells.iter().position(|cell| cell.case == case).expect("a kept case is one of the scenario's");
    let job = Job { cell, seed: kept_run.seed };
    let again = run_jobs(&scenario, &[job], &experiment.name, Backend::Sim { threads: 1 }, &()).remove(0);
    let again = again.expect("a run that is not stopped comes to its end");
    let (before, after) = (numbers(kept_run), numbers(&again));
    let mut differ = Vec::new();
    differences("", &before, &after, &mut differ);
    assert!(differ.is_empty(), "{file} [{case}] does not come out again:\n  {}", differ.join("\n  "));
    assert_eq!(kept_run.trace, again.trace, "{file} [{case}]: all numbers agree, and what happened does not");
    again
}

#[test]
fn kept_simulated_runs_have_traces_of_the_present_form() {
    let results = read_kept(&results()).unwrap_or_else(|error| panic!("{error}"));
    let simulated = results.results.iter().filter(|found| found.kept.backend == "sim");
    for found in simulated {
        let file = found.kept.path();
        let all = found.kept.runs.iter().all(|run| run.trace.starts_with(TRACE_FORM));
        assert!(all, "{}: an old trace", file.display());
    }
}

fn results() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results")
}

fn kept(file: &str) -> Kept {
    let path = results().join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Kept::from_json(&text).unwrap_or_else(|error| panic!("{} {error}", path.display()))
}

/// A run's own results, as they are written. Not included are its experiment's additions (checks, published values, the
/// influence ratio), the series, which are thinned, and the trace.
fn numbers(run: &RunResult) -> Value {
    let text = serde_json::to_string(run).expect("a result can be written");
    let mut value: Value = serde_json::from_str(&text).expect("and read");
    let run = value.as_object_mut().expect("a run is an object");
    for of_others in ["experiment", "checks", "published", "trace"] {
        run.remove(of_others);
    }
    let metrics = run["metrics"].as_object_mut().expect("metrics are an object");
    metrics.remove("influence_ratio");
    // Results that were kept before there was a stability index say nothing of it.
    metrics.retain(|name, value| !(name.starts_with("stability") && value.is_null()));
    // Nor those before marks were counted.
    for link in run["links"].as_array_mut().expect("links are a list") {
        link.as_object_mut()
            .expect("a link is an object")
            .retain(|name, value| !(name == "marked_packets" && value.is_null()));
    }
    for flow in run["flows"].as_array_mut().expect("flows are a list") {
        flow.as_object_mut().expect("a flow is an object").remove("series");
    }
    value
}

/// Where two values differ, and how.
fn differences(at: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                differences(&format!("{at}.{key}"), value, after.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (place, (before, after)) in before.iter().zip(after).enumerate() {
                differences(&format!("{at}[{place}]"), before, after, found);
            }
        }
        _ if before == after => {}
        _ => found.push(format!("{at}: {before} was kept, now it is {after}")),
    }
}

#[test]
fn published_site_is_that_of_the_kept_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kepts = read_kept(&root.join("results")).expect("the repository's results");
    let site = inhaul_lab::site(&kepts, &root.join("results")).unwrap_or_else(|error| panic!("{error}"));
    let published = root.join("docs/results");
    let anew = "inhaul lab report results --site docs/results";
    for page in &site.pages {
        let html = std::fs::read_to_string(published.join(&page.file)).unwrap_or_default();
        assert!(html == page.html, "docs/results/{} is not of today. To write it anew: {anew}", page.file);
    }
    let mut files = BTreeSet::new();
    for folder in std::fs::read_dir(&published).expect("docs/results") {
        let folder = folder.expect("an entry").path();
        if folder.is_dir() {
            files.extend(std::fs::read_dir(&folder).expect("a folder").map(|file| file.expect("an entry").path()));
        }
    }
    let known: BTreeSet<_> = site.pages.iter().map(|page| published.join(&page.file)).collect();
    let stale: Vec<_> = files.difference(&known).collect();
    assert!(stale.is_empty(), "pages of items that are gone: {stale:?}");
}
