//! How much a receiver takes beside other traffic, and servers that let in only what is fair.

use crate::common::{Server, noise, run, within};

#[test]
fn a_policy_is_chosen_and_a_server_may_let_in_only_fair_ones() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("f"), noise(3_000_000, 5)).unwrap();
    let offer = |more: &[&str]| {
        let head = ["serve", from.path().to_str().unwrap(), "--listen", "127.0.0.1:0", "--public"];
        Server::start(&[&head, more].concat())
    };
    let (any, fair, low) = (offer(&[]), offer(&["--fair-only"]), offer(&["--set", "policy=low"]));
    let rate = ["--receive-rate", "400M"];
    let get = |server: &Server, more: &[&str]| {
        let source = format!("inhaul://{}/f", server.address);
        run(&[&["get", &source, &within(to.path()), "--json", "--overwrite"], more].concat())
    };
    for (server, more) in [
        (&any, &[&["--policy", "fixed"][..], &rate].concat()[..]),
        (&any, &["--policy", "high"]),
        (&fair, &["--policy", "low"]),
        (&fair, &["--policy", "fair", "--receive-rate", "400M"]),
        (&fair, &["--transport", "cubic"]),
        (&low, &["--policy", "low"]),
    ] {
        let _ = std::fs::remove_file(to.path().join("f"));
        let outcome = get(server, more);
        assert_eq!(outcome.code, Some(0), "{more:?}: {}", outcome.stderr);
        let held = outcome.json()["sources"][0]["held_by"].clone();
        assert_eq!(held.is_null(), more.contains(&"cubic"), "{more:?}: {held}");
    }
    for (server, more, code, words) in [
        (&fair, &[&["--policy", "fixed"][..], &rate].concat()[..], 7, "leave out policy=fixed"),
        (&fair, &["--policy", "high"], 7, "lets in only what is fair"),
        (&fair, &["--set", "policy=high"], 7, "leave out policy=high"),
        (&fair, &["--transport", "bbr"], 7, "leave out bbr"),
        (&fair, &["--transport", "rbudp", "--rate", "100M"], 7, "leave out rbudp"),
        (&fair, &["--control", "paper", "--receive-rate", "400M"], 7, "leave out control=paper"),
        (&low, &["--policy", "fair"], 7, "keeps 'policy' of gtp at 'low'"),
        (&low, &[], 7, "add --set policy=low"),
        (
            &any,
            &["--policy", "low", "--control", "paper", "--receive-rate", "400M"],
            2,
            "control=paper has no policies",
        ),
        (&any, &["--set", "policy=high", "--set", "policy=low"], 2, "two values, 'high' and 'low'"),
        (&any, &["--policy", "fixed"], 2, "add --receive-rate"),
        (&any, &["--policy", "high", "--transport", "cubic"], 2, "--policy is for gtp: cubic has no policies"),
        (&any, &["--policy", "high", "--set", "policy=low"], 2, "say the same"),
        (&any, &["--policy", "rude"], 2, "fixed"),
    ] {
        let outcome = get(server, more);
        assert_eq!(outcome.code, Some(code), "{more:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{more:?}: {}", outcome.stderr);
    }
}

#[test]
fn a_server_that_could_let_nobody_in_does_not_start() {
    let from = tempfile::tempdir().unwrap();
    for (more, words) in [
        (&["--set", "policy=high", "--fair-only"][..], "policy=high is what --fair-only refuses"),
        (&["--set", "policy=fixed"], "is not fixed here; leave it out: clients may choose it"),
        (&["--set", "policy=fair", "--set", "policy=low"], "two values"),
    ] {
        let head = ["serve", from.path().to_str().unwrap(), "--listen", "127.0.0.1:0", "--public"];
        let outcome = run(&[&head, more].concat());
        assert_eq!(outcome.code, Some(2), "{more:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{more:?}: {}", outcome.stderr);
    }
}
