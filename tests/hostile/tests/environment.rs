//! A process's inherited state: ignored signals, variables of the environment, a home.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use inhaul_hostile_tests::{Scratch, Server, Signal, Start, inhaul, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);

fn offered() -> Scratch {
    let from = Scratch::new();
    from.file("f", b"data");
    from
}

/// Whether a process ignores, and whether it catches, a signal.
fn disposition(pid: u32, signal: Signal) -> (bool, bool) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let has = |mask: &str| {
        let digits = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap();
        u64::from_str_radix(digits.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
    };
    (has("SigIgn:"), has("SigCgt:"))
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let from = offered();
    let words = ["serve", "--listen", "127.0.0.1:0", "--grace", "0"];
    let ignoring = ["bash", "-c", "trap '' INT HUP; exec \"$0\" \"$@\""];
    let server = inhaul(words).arg(from.path()).by(ignoring).serve();
    for (signal, expected) in
        [(Signal::INT, (true, false)), (Signal::HUP, (true, false)), (Signal::TERM, (false, true))]
    {
        assert_eq!(disposition(server.running.pid(), signal), expected, "{signal:?}");
    }
    server.running.signal(Signal::INT);
    server.running.signal(Signal::HUP);
    let listed = inhaul(["ls", &server.source("/")]).finish(PATIENCE);
    assert_eq!(listed.code, Some(0), "{}", listed.summary());
    server.running.signal(Signal::TERM);
    assert!(wait_for(PATIENCE, || !server.running.is_running()));
    // Without that, all are heard.
    let server = inhaul(words).arg(from.path()).by(["bash", "-c", "trap - INT HUP; exec \"$0\" \"$@\""]).serve();
    assert_eq!(disposition(server.running.pid(), Signal::INT), (false, true));
    assert_eq!(disposition(server.running.pid(), Signal::HUP), (false, true));
}

#[test]
fn a_proxy_that_cannot_be_used_stops_only_what_would_use_it() {
    let from = offered();
    let server = Server::offer(from.path());
    let source = server.source("/");
    for value in ["gopher://proxy:1", "https://proxy:1", "http://proxy:port", "socks5://"] {
        for name in ["HTTPS_PROXY", "all_proxy"] {
            let clean = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];
            let start = clean.iter().fold(inhaul(["ls", &source]), |start, name| start.variable(name, ""));
            let stopped = start.variable(name, value).finish(PATIENCE);
            assert_eq!(stopped.code, Some(2), "{}", stopped.summary());
            assert!(stopped.stderr.contains(&format!("{name} is no proxy")), "{}", stopped.stderr);
            let start = clean.iter().filter(|name| **name != "no_proxy");
            let start = start.fold(inhaul(["ls", &source]), |start, name| start.variable(name, ""));
            let start = start.variable(name, value).variable("no_proxy", "10.0.0.0/8,127.0.0.1");
            let reached = start.finish(PATIENCE);
            assert_eq!(reached.code, Some(0), "{name}={value}: {}", reached.summary());
        }
    }
}

/// With nothing in the environment that says where state and configuration are, but a home.
fn at_home(words: &[&str], home: &str) -> Start {
    let unset = ["env", "-u", "INHAUL_STATE", "-u", "INHAUL_CONFIG", "-u", "XDG_STATE_HOME", "-u", "XDG_CONFIG_HOME"];
    inhaul(words).by(unset.iter().copied().chain(["-u", "STATE_DIRECTORY"])).variable("HOME", home)
}

/// As a user without rights.
fn as_nobody(start: Start) -> Start {
    start.by(["setpriv", "--reuid", "4242", "--regid", "4242", "--clear-groups"])
}

#[test]
fn a_home_that_cannot_be_used_stops_only_what_needs_it() {
    let (from, place) = (offered(), Scratch::new());
    let state = Scratch::new();
    let server = inhaul(["serve", "--listen", "127.0.0.1:0", "--grace", "0"])
        .variable("INHAUL_STATE", state.path())
        .arg(from.path())
        .serve();
    let key = inhaul(["key", "show"]).variable("INHAUL_STATE", state.path()).finish(PATIENCE).stdout;
    let ticket = key.lines().find_map(|line| line.strip_prefix("server ")).unwrap().to_owned();
    let pinned = format!("{}#{ticket}", server.source("/"));
    let locked = place.directory("locked");
    std::fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // Only root can be another user, who must be able to come to the program.
    let is_root = place.path().metadata().unwrap().uid() == 0;
    let can_be_another = is_root && as_nobody(inhaul(["--version"])).finish(PATIENCE).code == Some(0);
    // Root may read all; /dev/null is no directory for anybody.
    let mut homes = vec![("/dev/null".to_owned(), false)];
    if can_be_another {
        homes.extend([(locked.to_str().unwrap().to_owned(), true), ("relative".to_owned(), true)]);
    }
    for (home, nobody) in homes {
        let run = |words: &[&str]| {
            let start = at_home(words, &home);
            if nobody { as_nobody(start) } else { start }.finish(PATIENCE)
        };
        for words in [&["--version"][..], &["protocols"], &["ls", &pinned], &["get", &pinned, "-n", "/tmp/none"]] {
            let outcome = run(words);
            assert_eq!(outcome.code, Some(0), "HOME={home} {words:?}: {}", outcome.summary());
        }
        for words in [&["key", "make"][..], &["token", "make", "--read", "/", "--until", "1h"]] {
            let outcome = run(words);
            assert_eq!(outcome.code, Some(17), "HOME={home} {words:?}: {}", outcome.summary());
            assert!(outcome.stderr.contains("INHAUL_STATE can name"), "HOME={home} {words:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn key_show_makes_nothing() {
    let place = Scratch::new();
    let state = place.path().join("state");
    let key = |verb: &str| inhaul(["key", verb]).variable("INHAUL_STATE", &state).finish(PATIENCE);
    let none = key("show");
    assert_eq!(none.code, Some(3), "{}", none.summary());
    assert!(none.stdout.is_empty() && none.stderr.contains("'inhaul key make'"), "{}", none.summary());
    assert!(!state.exists());
    let made = key("make");
    assert_eq!(made.code, Some(0), "{}", made.summary());
    assert_eq!((made.stdout.lines().count(), key("show").stdout), (2, made.stdout.clone()));
    assert_eq!(key("make").stdout, made.stdout);
    std::fs::remove_file(state.join("server.key")).unwrap();
    let half = key("show");
    assert!(half.code == Some(0) && half.stdout.starts_with("client ") && half.stdout.lines().count() == 1);
    assert!(half.stderr.contains("no key as a server"), "{}", half.stderr);
}
