//! A rate that is shown is the bytes over the time that stand beside it, for every command, on the screen and in JSON;
//! and shares of a whole have the time of the whole, so they add up to it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Outcome, Server, noise, run, within};
use crate::figures::{assert_rate, sum_of_rates};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn assert_complete(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Whether two numbers are equal up to the rounding of floating-point numbers.
fn assert_same(a: f64, b: f64, what: &Value) {
    assert!((a - b).abs() <= a.abs().max(b.abs()) * 1e-9, "{a} is not {b}: {what}");
}

/// The rates of a report: that of the whole by the field `bytes`, and those of its sources.
fn assert_report(report: &Value, bytes: &str) {
    let seconds = number(&report["seconds"]);
    assert_same(number(&report["goodput_bps"]) * seconds, number(&report[bytes]) * 8.0, report);
    let sources = report["sources"].as_array().unwrap();
    for source in sources {
        assert_same(number(&source["goodput_bps"]) * seconds, number(&source["bytes"]) * 8.0, report);
        assert!(number(&source["active_seconds"]) <= seconds, "{report}");
    }
    let sum: f64 = sources.iter().map(|source| number(&source["goodput_bps"])).sum();
    assert_same(sum, number(&report["goodput_bps"]), report);
}

#[test]
fn get_shows_bytes_over_the_time_beside_it() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(3_000_000, 1)).unwrap();
    let servers = [(); 2].map(|()| Server::offer(from.path()));
    let both = format!("inhaul://{},{}/f", servers[0].address, servers[1].address);
    // Slow enough for both to be seen at work together.
    let outcome = run(&["get", &both, &within(to.path()), "--rate", "20M", "--json-stream"]);
    assert_complete(&outcome);
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (report, progress) = lines.split_last().unwrap();
    assert_report(report, "fetched_bytes");
    assert_eq!(report["bytes"], report["fetched_bytes"], "nothing was there before");
    let index = number(&report["jain_index"]);
    assert!((0.5..=1.0).contains(&index), "{report}");
    assert!(!progress.is_empty());
    for line in progress {
        let (seconds, average) = (number(&line["seconds"]), number(&line["average_bps"]));
        assert_same(average * seconds, number(&line["fetched_bytes"]) * 8.0, line);
    }
    // One sender has no other to share with.
    let one = format!("inhaul://{}/f", servers[0].address);
    let outcome = run(&["get", &one, &format!("{}/g", to.path().display()), "--json"]);
    assert_complete(&outcome);
    assert_report(&outcome.json(), "fetched_bytes");
    assert!(outcome.json()["jain_index"].is_null(), "{}", outcome.stdout);
    let outcome = run(&["get", &one, &format!("{}/h", to.path().display())]);
    assert_complete(&outcome);
    assert_screen(&outcome.stderr);
}

/// The summary of a transfer.
fn assert_screen(summary: &str) {
    assert_rate(summary);
    assert!(!summary.contains("Jain"), "{summary}");
    let (whole, rows) = (sum_of_rates(summary, ", loss"), sum_of_rates(summary, "127.0.0.1:"));
    // The lines of the whole are above those of the senders.
    let whole = whole - rows;
    assert!((whole - rows).abs() <= whole * 0.01, "{rows} is not {whole}: {summary}");
}

#[test]
fn put_and_copy_show_bytes_over_the_time_beside_it() {
    let [from, inbox] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let file = from.path().join("f");
    fs::write(&file, noise(2_000_000, 2)).unwrap();
    let offering = Server::offer(from.path());
    let mut args = vec!["serve", text(inbox.path()), "--listen", "127.0.0.1:0", "--grace", "0"];
    args.extend(["--accept-puts", text(inbox.path()), "--accept-copies-from", &offering.address]);
    let server = Server::start(&args);
    let source = format!("inhaul://{}/f", offering.address);
    for (command, what) in [("put", text(&file)), ("copy", &source)] {
        let to = |name: &str| format!("inhaul://{}/{command}-{name}", server.address);
        let outcome = run(&[command, what, &to("json"), "--json"]);
        assert_complete(&outcome);
        assert_report(&outcome.json(), "fetched_bytes");
        assert!(outcome.json()["jain_index"].is_null(), "{}", outcome.stdout);
        let outcome = run(&[command, what, &to("screen")]);
        assert_complete(&outcome);
        assert_screen(&outcome.stderr);
    }
}

#[test]
fn bench_shows_bytes_over_the_time_beside_it() {
    let server = Server::start(&["bench", "--server", "--listen", "127.0.0.1:0"]);
    let bench = |options: &[&str]| {
        let outcome = run(&[&["bench", &server.address, "-n", "1000001"], options].concat());
        assert_complete(&outcome);
        outcome
    };
    let one = bench(&["-J"]).json();
    assert_report(&one, "bytes");
    assert!(one["jain_index"].is_null(), "{one}");
    for interval in one["intervals"].as_array().unwrap() {
        let span = number(&interval["end"]) - number(&interval["start"]);
        assert!((number(&interval["goodput_bps"]) * span - number(&interval["bytes"]) * 8.0).abs() < 1.0, "{one}");
    }
    let two = bench(&["-P", "2", "-b", "20M", "-J"]).json();
    assert_report(&two, "bytes");
    assert!(number(&two["jain_index"]) > 0.5, "{two}");
    // The lines have all bytes, also where the server counts them.
    for options in [&[][..], &["-R"]] {
        let timed = run(&[&["bench", &server.address, "-t", "1.3", "-P", "2", "-b", "20M", "-J"], options].concat());
        assert_complete(&timed);
        let timed = timed.json();
        let intervals = timed["intervals"].as_array().unwrap();
        let sum: f64 = intervals.iter().map(|interval| number(&interval["bytes"])).sum();
        assert!(sum == number(&timed["bytes"]) && intervals.len() >= 2, "{timed}");
        let last = intervals.last().unwrap();
        assert!((number(&last["end"]) - number(&timed["seconds"])).abs() < 1e-6, "{timed}");
    }
    let screen = bench(&["-R"]).stdout;
    assert_rate(screen.lines().last().unwrap());
    assert!(!screen.contains("Jain"), "{screen}");
}

#[test]
fn lab_sim_shows_bytes_over_the_time_beside_it() {
    let place = tempfile::tempdir().unwrap();
    let scenario = place.path().join("one.toml");
    // The run goes on for a while after its transfer: that is no time of the transfer.
    let one = "title = \"one\"\nduration = \"60 s\"\n[topology.star]\naccess = { rate = \"1 Gbit/s\", queue = \"5 ms\" }\n\
               senders = [{ name = \"near\", rtt = \"20 ms\" }]\n\
               [[flows]]\nname = \"near\"\nprotocol = \"gtp\"\nfrom = \"near\"\nto = \"receiver\"\nsize = \"5 MB\"\n";
    fs::write(&scenario, one).unwrap();
    let outcome = run(&["lab", "sim", text(&scenario), "--json"]);
    assert_complete(&outcome);
    let result = outcome.json();
    let (flow, measured) = (&result["flows"][0], &result["measured_s"]);
    let active = number(&flow["stop_s"]) - number(&flow["start_s"]);
    assert_same(number(&flow["goodput_bps"]) * active, number(&flow["bytes"]) * 8.0, &result);
    assert_same(number(&flow["measured_bps"]), number(&flow["goodput_bps"]), &result);
    assert_same(number(&measured[1]), number(&flow["stop_s"]), &result);
    assert_same(number(&result["metrics"]["aggregate_goodput_bps"]), number(&flow["goodput_bps"]), &result);
    assert!(result["metrics"]["jain_index"].is_null() && result["metrics"]["jain_index_ideal"].is_null(), "{result}");
    let outcome = run(&["lab", "sim", text(&scenario)]);
    assert_complete(&outcome);
    let line = |start: &str| outcome.stdout.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
    assert_rate(line("near"));
    assert_rate(line("aggregate goodput"));
    assert!(line("Jain's index ").ends_with(" -"), "{}", outcome.stdout);
}
