//! A receiver's share beside other traffic, and servers that admit only fair transfers.

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
        let policy = outcome.json()["policy"].as_str().map(str::to_owned);
        let chosen = more.iter().skip_while(|word| **word != "--policy").nth(1).map(|name| (*name).to_owned());
        assert_eq!(policy, chosen, "{more:?}");
    }
    for (server, more, code, words) in [
        (&fair, &[&["--policy", "fixed"][..], &rate].concat()[..], 7, "leave out policy=fixed"),
        (&fair, &["--policy", "high"], 7, "lets in only what is fair"),
        (&fair, &["--set", "policy=high"], 7, "leave out policy=high"),
        (&fair, &["--transport", "bbr"], 7, "leave out bbr"),
        (&fair, &["--transport", "rbudp", "--rate", "100M"], 7, "leave out rbudp"),
        (&fair, &["--control", "paper", "--receive-rate", "400M"], 7, "leave out control=paper"),
        (&low, &["--policy", "fair"], 7, "keeps 'policy' of gtp at 'low'"),
        (&low, &[], 7, "add --policy low"),
        (&low, &["--control", "paper", "--receive-rate", "400M"], 7, "leave out control=paper, and add --policy low"),
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
fn of_mirrors_that_keep_different_policies_one_delivers() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("f"), noise(3_000_000, 6)).unwrap();
    let offer = |policy: &str| {
        let set = format!("policy={policy}");
        let head = ["serve", from.path().to_str().unwrap(), "--listen", "127.0.0.1:0", "--public", "--set", &set];
        Server::start(&head)
    };
    let (low, high) = (offer("low"), offer("high"));
    let source = format!("inhaul://{},{}/f", low.address, high.address);
    for (policy, code, words) in [
        ("low", 0, "keeps 'policy' of gtp at 'high'"),
        ("high", 0, "keeps 'policy' of gtp at 'low'"),
        ("fair", 7, "keeps 'policy' of gtp at"),
    ] {
        let outcome = run(&["get", &source, &within(to.path()), "--json", "--overwrite", "--policy", policy]);
        assert_eq!(outcome.code, Some(code), "{policy}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{policy}: {}", outcome.stderr);
        let _ = std::fs::remove_file(to.path().join("f"));
    }
}

#[test]
fn a_rate_is_held_only_by_the_side_that_was_given_it() {
    let outcome = |line: &str| {
        let outcome = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(outcome.code, Some(2), "{line}: {}", outcome.stderr);
        outcome.stderr
    };
    for line in [
        "bench 127.0.0.1:1 -R --policy fixed",
        "bench 127.0.0.1:1 -R --set policy=fixed",
        "bench 127.0.0.1:1 -R --policy fixed --receive-rate 100M",
        "put /etc/hostname inhaul://127.0.0.1:1/ --policy fixed",
        "copy inhaul://127.0.0.1:1/f inhaul://127.0.0.1:2/ --policy fixed",
    ] {
        assert!(outcome(line).contains("here a server receives"), "{line}: {}", outcome(line));
    }
    // Suggestions must be useful.
    let said = outcome("put /etc/hostname inhaul://127.0.0.1:1/ --policy fixed --receive-rate 100M");
    assert!(said.contains("the server receives") && !said.contains("--policy fixed --send-rate"), "{said}");
    assert!(outcome("bench --server --policy low").contains("'--set policy=low' lets in no other policy"));
    for command in ["put", "copy"] {
        let help = run(&[command, "--help"]).stdout;
        assert!(help.contains("As much as two TCP flows") && !help.contains("The rate of --receive-rate"), "{help}");
    }
    assert!(run(&["get", "--help"]).stdout.contains("The rate of --receive-rate"));
}

#[test]
fn a_server_that_could_admit_no_client_does_not_start() {
    let from = tempfile::tempdir().unwrap();
    for (more, words) in [
        (&["--set", "policy=high", "--fair-only"][..], "--fair-only refuses --set policy=high"),
        (&["--set", "policy=fixed"], "is not fixed here; leave it out: clients may choose it"),
        (&["--set", "policy=fair", "--set", "policy=low"], "two values"),
    ] {
        let head = ["serve", from.path().to_str().unwrap(), "--listen", "127.0.0.1:0", "--public"];
        let outcome = run(&[&head, more].concat());
        assert_eq!(outcome.code, Some(2), "{more:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{more:?}: {}", outcome.stderr);
    }
}
