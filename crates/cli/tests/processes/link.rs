//! `inhaul link`: real processes over emulated links, and nothing left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{Outcome, Signal, come_true, run, start, wait_until};

/// Two hosts, 20 ms each way.
const SCENARIO: &str = r#"
title = "Two hosts"
duration = "1 min"

[topology.graph]
hosts = ["left", "right"]
links = [{ name = "long", from = "left", to = "right", link = { rate = "50 Mbit/s", delay = "20 ms" } }]
"#;

/// A directory with the scenario.
struct Place(tempfile::TempDir);

impl Place {
    fn new(scenario: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("grid.toml"), scenario).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn scenario(&self) -> String {
        self.path("grid.toml").to_str().unwrap().to_owned()
    }
}

/// Whether this user may not have namespaces here; prints that.
fn is_forbidden(outcome: &Outcome) -> bool {
    let forbidden = outcome.code == Some(15);
    if forbidden {
        eprintln!("SKIPPED: {}", outcome.stderr);
    }
    forbidden
}

/// Ended well, even if the host's other work disturbed the emulation.
fn assert_ended_well(outcome: &Outcome) {
    assert!(matches!(outcome.code, Some(0 | 13)), "{:?}: {}", outcome.code, outcome.stderr);
}

#[test]
fn run_moves_data_over_the_links_between_hosts() {
    let place = Place::new(SCENARIO);
    let inhaul = env!("CARGO_BIN_EXE_inhaul");
    let bench = place.path("bench.json");
    let server = format!("{inhaul} bench --server");
    let client = format!("{inhaul} bench right -n 200k -J > {}", bench.display());
    let outcome =
        run(&["link", "run", &place.scenario(), "--background", "right", &server, "--on", "left", &client, "--json"]);
    if is_forbidden(&outcome) {
        return;
    }
    assert_ended_well(&outcome);
    let bench: serde_json::Value = serde_json::from_slice(&fs::read(bench).unwrap()).unwrap();
    assert_eq!((bench["status"].as_str(), bench["bytes"].as_u64()), (Some("complete"), Some(200_000)), "{bench}");
    assert!(bench["sources"][0]["rtt_ms"].as_f64().unwrap() >= 40.0, "{bench}");

    let report = outcome.json();
    let [background, on] = &report["commands"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&on["host"], &on["exit_code"], &on["ended"]), (&"left".into(), &0.into(), &false.into()));
    assert_eq!((&background["background"], &background["ended"]), (&true.into(), &true.into()));
    let [there, back] = &report["links"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&there["name"], &back["name"]), (&"long".into(), &"long-back".into()));
    assert!(back["carried_bytes"].as_u64().unwrap() > 200_000 && there["carried_packets"].as_u64().unwrap() > 0);
    assert!(report["hosts"].as_array().unwrap().iter().all(|host| host["hidden_drops"] == 0), "{report}");
    assert_eq!(report["valid"], report["reasons"].as_array().unwrap().is_empty());
}

#[test]
fn an_emulator_has_a_processor_of_its_own_where_none_idles() {
    let place = Place::new(SCENARIO);
    let allowed = |text: &str| text.trim().parse::<usize>().unwrap();
    let here = allowed(&String::from_utf8(std::process::Command::new("nproc").output().unwrap().stdout).unwrap());
    let count = |how: &[&str]| {
        let file = place.path("nproc");
        let (scenario, command) = (place.scenario(), format!("nproc > {}", file.display()));
        let outcome = run(&[&["link", "run", &scenario, "--on", "left", &command], how].concat());
        (!is_forbidden(&outcome)).then(|| {
            assert_ended_well(&outcome);
            allowed(&fs::read_to_string(file).unwrap())
        })
    };
    let Some(asleep) = count(&["--wait", "sleep"]) else { return };
    assert_eq!(asleep, here);
    let others = Some((here - 1).max(1));
    assert_eq!(count(&["--wait", "spin"]), others);
    assert_eq!(count(&["--wait", "sleep", "--awake"]), others);
    assert_eq!(count(&["--wait", "spin", "--awake"]), others);
}

#[test]
fn run_says_which_command_failed_and_ends_the_others_after_the_time() {
    let place = Place::new(SCENARIO);
    let scenario = place.scenario();
    let outcome = run(&["link", "run", &scenario, "--on", "left", "exit 3", "--on", "right", "echo to you"]);
    if is_forbidden(&outcome) {
        return;
    }
    assert_eq!(outcome.code, Some(14), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("right| to you") && outcome.stdout.contains("'exit 3' ended with 3"),
        "{}",
        outcome.stdout
    );

    let outcome = run(&["link", "run", &scenario, "--on", "left", "exec sleep 600", "--duration", "0.3", "--json"]);
    assert_ended_well(&outcome);
    let command = &outcome.json()["commands"][0];
    assert_eq!((&command["ended"], &command["signal"]), (&true.into(), &15.into()), "{command}");
}

#[test]
fn run_counts_the_processor_time_of_what_is_left_behind() {
    let place = Place::new(SCENARIO);
    let scenario = place.scenario();
    fs::write(place.path("count"), "echo $$ > pid; i=0; while [ $i -lt $1 ]; do i=$((i+1)); done").unwrap();
    // One leaves its command by a session of its own, and has ended and been waited for before the command ends; the
    // other one runs until it is killed.
    let directory = place.path("");
    let left = format!(
        "cd {}; (setsid sh count 300000 &); until [ -s pid ]; do sleep 0.05; done; \
         while kill -0 $(cat pid); do sleep 0.05; done",
        directory.display()
    );
    let right = "(setsid sh -c 'while :; do :; done' &); sleep 0.5";
    let outcome = run(&["link", "run", &scenario, "--on", "left", &left, "--on", "right", right, "--json"]);
    if is_forbidden(&outcome) {
        return;
    }
    let report = outcome.json();
    let at = |host: &str| {
        let hosts = report["hosts"].as_array().unwrap();
        hosts.iter().find(|found| found["name"] == host).unwrap()["cpu_s"].as_f64().unwrap()
    };
    let of_command = report["commands"][0]["cpu_s"].as_f64().unwrap();
    assert!(of_command > 0.05, "{report}");
    assert!(at("left") >= of_command - 0.02, "{report}");
    assert!(at("right") > 0.05, "{report}");
}

#[test]
fn shell_is_in_its_host_and_hands_on_the_exit_code() {
    let place = Place::new(SCENARIO);
    let script = "echo $INHAUL_NODE; cat /proc/sys/kernel/hostname /proc/net/dev /etc/hosts; exit 7";
    let outcome = run(&["link", "shell", &place.scenario(), "--node", "right", "--", "sh", "-c", script]);
    if is_forbidden(&outcome) {
        return;
    }
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[..2], ["right", "right"]);
    for words in ["grid0:", "10.0.0.1 left"] {
        assert!(outcome.stdout.contains(words), "{words} in {}", outcome.stdout);
    }
}

#[test]
fn killed_emulator_leaves_nothing() {
    let place = Place::new(SCENARIO);
    // Recognized by its odd number, and not told apart from its parents by anything they could do.
    let mark = format!("86400.{}", std::process::id());
    let (in_shell, deep) = (format!("sleep {mark} & exec setsid sleep {mark}"), ["--", "sh", "-c"]);
    let running = start(&[&["link", "shell", &place.scenario()], &deep[..], &[&in_shell]].concat());
    let sleeping = || processes_with(&mark).into_iter().filter(|pid| command_of(*pid).starts_with("sleep")).count();
    if !come_true(Duration::from_secs(20), || sleeping() >= 2) {
        let outcome = running.finish();
        assert!(is_forbidden(&outcome), "{:?}: {}", outcome.code, outcome.stderr);
        return;
    }
    let inside = processes_with(&mark).into_iter().find(|pid| command_of(*pid).starts_with("sleep")).unwrap();
    let namespace = fs::read_link(format!("/proc/{inside}/ns/net")).ok();
    running.signal(Signal::KILL);
    wait_until("the end of what ran in the grid", || processes_with(&mark).is_empty());
    // A namespace and its device live as long as a process is in it, or has a descriptor of it.
    if let Some(namespace) = namespace {
        wait_until("the end of the namespace", || holders_of(&namespace).is_empty());
    }
    assert_ne!(running.finish().code, Some(0));
}

#[test]
fn emulator_that_was_held_up_marks_the_run_invalid() {
    let place = Place::new(SCENARIO);
    let inhaul = env!("CARGO_BIN_EXE_inhaul");
    let (server, ready) = (format!("{inhaul} bench --server"), place.path("ready"));
    let client = format!("touch {}; {inhaul} bench right -t 1.5", ready.display());
    let running =
        start(&["link", "run", &place.scenario(), "--background", "right", &server, "--on", "left", &client, "--json"]);
    if come_true(Duration::from_secs(20), || ready.exists()) {
        // Like a host whose processors are busy with other work, but reliably.
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(150));
            running.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(60));
            running.signal(Signal::CONT);
        }
    }
    let outcome = running.finish();
    if is_forbidden(&outcome) {
        return;
    }
    assert_eq!(outcome.code, Some(13), "{}", outcome.stderr);
    let report = outcome.json();
    assert_eq!(report["valid"], false);
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("too slow or too busy") && reasons.contains("starved"), "{reasons}");
}

#[test]
fn wrong_scenarios_are_refused_with_the_line_and_what_was_expected() {
    let shell = |place: &Place, more: &[&str]| {
        let scenario = place.scenario();
        let mut words = vec!["link", "shell", &scenario];
        words.extend(more);
        words.extend(["--", "true"]);
        run(&words)
    };
    for (from, to, expected) in [
        ("\"20 ms\"", "20", "grid.toml:7:93: invalid type: integer `20`, expected a time with its unit"),
        ("\"right\"]", "\"right hand\"]", "there is no host or router 'right'"),
        ("\"left\", \"right\"", "\"left\", \"right\", \"a b\"", "'a b' cannot be a host name"),
        ("title", "titel", "grid.toml:2:1: unknown field `titel`"),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let outcome = shell(&Place::new(&SCENARIO.replacen(from, to, 1)), &[]);
        assert_eq!(outcome.code, Some(2), "{to}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{expected} in {}", outcome.stderr);
    }
    let sweep = Place::new(&format!("{SCENARIO}[[sweep]]\nkey = \"duration\"\nvalues = [\"1 s\", \"2 s\"]\n"));
    let outcome = shell(&sweep, &[]);
    assert_eq!((outcome.code, outcome.stderr.contains("--set 'sweep=[]'")), (Some(2), true), "{}", outcome.stderr);
    let outcome = shell(&Place::new(SCENARIO), &["--node", "middle"]);
    if !is_forbidden(&outcome) {
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("there is no host 'middle'; there are: left, right"), "{}", outcome.stderr);
    }
    assert_eq!(run(&["link", "shell", "/no/such/file"]).code, Some(3));
}

/// Processes whose command line has this text, except the asking one.
fn processes_with(words: &str) -> Vec<u32> {
    let own = std::process::id();
    pids().filter(|pid| *pid != own && command_of(*pid).contains(words)).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The words of a process's command line; empty if it has gone.
fn command_of(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// Processes that are in a network namespace, or hold a descriptor of it.
fn holders_of(namespace: &Path) -> Vec<u32> {
    let leads_there = |path: &Path| fs::read_link(path).is_ok_and(|link| link == namespace);
    let holds = |pid: &u32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mut descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        leads_there(&process.join("ns/net")) || descriptors.any(|entry| leads_there(&entry.path()))
    };
    pids().filter(holds).collect()
}
