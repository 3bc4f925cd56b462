//! Results of the laboratory: kept, made into a page, compared.

use std::fs;
use std::path::Path;

use crate::common::{Outcome, run};

/// An experiment, made short.
const QUICK: [&str; 4] = ["--set", "duration=300 ms", "--set", "measure.from=200 ms"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Keeps a result; a short run need not show the experiment's expected result.
fn keep(directory: &Path, more: &[&str]) -> Outcome {
    let command = ["lab", "run", "gtp-2004/fig9", "--set", "flows.flow2.start=100 ms", "--keep", text(directory)];
    let outcome = run(&[&command[..], &QUICK[..], more].concat());
    assert!(matches!(outcome.code, Some(0 | 12)), "{}", outcome.stderr);
    outcome
}

#[test]
fn kept_results_become_a_page_in_spite_of_a_damaged_file() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("results");
    assert!(keep(&results, &[]).stdout.contains("gtp-2004/fig9/sim.json"));
    fs::write(results.join("half.json"), "{\"kept_version\": 1, \"experi").unwrap();
    let page = directory.path().join("page.html");
    let outcome = run(&["lab", "report", text(&results), "--output", text(&page)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("half.json is damaged"), "{}", outcome.stderr);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("half.json") && page.contains("gtp-2004 Figure 9") && page.ends_with("</html>\n"));

    let nothing = run(&["lab", "report", text(&directory.path().join("none"))]);
    assert_eq!(nothing.code, Some(3), "{}", nothing.stderr);
    let damaged = directory.path().join("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join("half.json"), "{").unwrap();
    let only = run(&["lab", "report", text(&damaged)]);
    assert_eq!(only.code, Some(2), "{}", only.stderr);
    assert!(only.stderr.contains("there is no kept result in"), "{}", only.stderr);
}

#[test]
fn compare_ends_with_12_only_when_something_became_worse() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
    keep(&a, &[]);
    keep(&b, &[]);
    let same = run(&["lab", "compare", text(&a), text(&b)]);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    assert!(same.stdout.contains("0 beyond what chance explains"), "{}", same.stdout);

    // With any results: all checks pass in A, and none in B.
    let file = |side: &Path| side.join("gtp-2004/fig9/sim.json");
    let set = |side: &Path, passed: bool| {
        let other = format!("\"passed\":{}", !passed);
        let text = fs::read_to_string(file(side)).unwrap().replace(&other, &format!("\"passed\":{passed}"));
        fs::write(file(side), text).unwrap();
    };
    set(&a, true);
    set(&b, false);
    let worse = run(&["lab", "compare", text(&file(&a)), text(&file(&b)), "--json"]);
    assert_eq!(worse.code, Some(12), "{}", worse.stderr);
    assert_eq!(worse.json()["worse"], 4);
    let better = run(&["lab", "compare", text(&b), text(&a)]);
    assert_eq!(better.code, Some(0), "{}", better.stderr);
    assert!(better.stdout.contains(" 0 worse, 4 better"), "{}", better.stdout);

    let other = run(&["lab", "compare", text(&a), text(directory.path().join("none").as_path())]);
    assert_eq!(other.code, Some(3), "{}", other.stderr);
    fs::create_dir(directory.path().join("empty")).unwrap();
    let empty = run(&["lab", "compare", text(&a), text(directory.path().join("empty").as_path())]);
    assert_eq!(empty.code, Some(2), "{}", empty.stderr);
}

#[test]
fn a_kind_that_no_seed_draws_and_a_setting_that_fits_nothing_are_errors() {
    for (words, said) in [
        (&["company", "--seeds", "1-3", "--kind", "steady"][..], "no steady network is among the 3 that are drawn"),
        (&["company", "--seeds", "1-3", "--kind", "steady", "--kind", "changing", "--print"], "no steady or changing"),
        (&["stars", "--seeds", "1", "--access", "3 Mbit/s"], "draw no such star"),
        (&["company", "--seeds", "1", "--set", "nonsense=1"], "--set: nonsense = 1: unknown field `nonsense`"),
        (&["company", "--seeds", "1", "--set", "flows.no.protocol=reno"], "--set: flows.no.protocol: there is no 'no'"),
        (&["stars", "--seeds", "1", "--set", "duration=abc"], "--set: duration = abc: 'abc' is not a time"),
    ] {
        let outcome = run(&[&["lab"], words].concat());
        assert_eq!(outcome.code, Some(2), "{words:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{words:?}: {}", outcome.stderr);
    }
}
