//! Command lines that make no sense: the cause in one line, the exit code 2, and an object where JSON is asked for.

use crate::common::{Server, run};

/// The command fails with this code and a message of one line; with `--json` it prints only an object with the same.
fn assert_explained(line: &str, code: i32, name: &str, words: &str) {
    let mut args: Vec<&str> = line.split(' ').collect();
    let plain = run(&args);
    assert_eq!((plain.code, plain.stdout.as_str()), (Some(code), ""), "{line}: {}", plain.stderr);
    let said = plain.stderr.lines().find_map(|line| line.strip_prefix("inhaul: ").filter(|text| text.contains(words)));
    let said = said.unwrap_or_else(|| panic!("{line}: {}", plain.stderr));
    args.push("--json");
    let json = run(&args);
    assert_eq!((json.code, json.stdout.lines().count()), (Some(code), 1), "{line}: {}{}", json.stdout, json.stderr);
    let object = json.json();
    assert_eq!(object["status"], "failed", "{line}");
    assert_eq!(object["error"]["code"], name, "{line}");
    assert_eq!(object["error"]["message"], said, "{line}");
}

#[test]
fn usage_errors_are_2_and_json_where_that_is_asked_for() {
    for (line, words) in [
        ("get inhaul://a/x . --bwlimit 10M", "--receive-rate 850M"),
        ("get inhaul://a/x . --receive-rate 850", "'850' has no unit"),
        ("get inhaul://a/x inhaul://b/y", "'inhaul copy'"),
        ("get inhaul://a/x", "the destination is missing: '.' is this directory"),
        ("get ./no/such/file .", "an address is HOST[:PORT]/PATH"),
        ("get inhaul://a/x . --exclude [z-a]", "'[z-a]'"),
        ("get inhaul://a/x . --set c=1 --transport pigeon", "'inhaul protocols'"),
        ("plan dtn1:run7 .", "scp's form"),
        ("put inhaul://a/x inhaul://b/", "'inhaul copy' fetches"),
        ("put . ./y", "the last argument is the destination"),
        ("copy inhaul://a/x .", "'.'"),
        ("ls http://a/x", "http is not supported"),
        ("bench a -P 0", "--parallel"),
        ("doctor --target-rate 10", "'10' has no unit"),
        ("lab run gtp-2004/fig99", "'inhaul lab list'"),
        ("fetch inhaul://a/x .", "did you mean 'get'?"),
    ] {
        assert_explained(line, 2, "usage", words);
    }
}

#[test]
fn failures_before_there_is_a_report_are_json_too() {
    let from = tempfile::tempdir().unwrap();
    let server = Server::offer(from.path());
    assert_explained(&format!("ls {}/nothing", server.address), 3, "path-not-found", "there is no '/nothing'");
    assert_explained("ls no-such-host.invalid/x", 4, "host-unknown", "no host is called 'no-such-host.invalid'");
    assert_explained("lab sim /no/such/file.toml", 3, "path-not-found", "cannot read /no/such/file.toml");
    assert_explained("link run /no/such/file.toml --on a true", 3, "path-not-found", "cannot read");
    assert_explained("put no-such-file inhaul://127.0.0.1/", 3, "path-not-found", "there is no 'no-such-file'");
}

#[test]
fn settings_that_make_no_sense_are_json_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "[get]\nreceive-rate = 850\n").unwrap();
    let outcome = run(&["get", "inhaul://a/x", ".", "--json", "--config", file.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let message = outcome.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("line 2: --receive-rate: '850' has no unit"), "{message}");
}

#[test]
fn no_command_at_all_shows_the_help() {
    let outcome = run(&[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""));
    assert!(
        outcome.stderr.contains("A first transfer") && outcome.stderr.contains("needs a command"),
        "{}",
        outcome.stderr
    );
    let outcome = run(&["get", "--help"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert!(outcome.stdout.contains("\nOutput options:\n"), "{}", outcome.stdout);
}
