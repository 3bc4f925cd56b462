//! Small data sets, whose content comes with their description.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Server, noise, run, tree, within};

/// Content that a client takes with a description, in bytes.
const EARLY: usize = 32 * 1024;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The round-trip time that the transport measured to the one source, if there was one.
fn rtt_ms(report: &serde_json::Value) -> Option<f64> {
    report["sources"][0]["rtt_ms"].as_f64()
}

#[test]
fn get_of_up_to_32_kib_takes_no_transport_and_of_more_it_does() {
    let from = tempfile::tempdir().unwrap();
    let server = Server::offer(from.path());
    for len in [0, 1, 1447, EARLY - 1, EARLY, EARLY + 1, 3 * EARLY] {
        let (name, to) = (format!("f{len}"), tempfile::tempdir().unwrap());
        let bytes = noise(len, 7);
        std::fs::write(from.path().join(&name), &bytes).unwrap();
        let outcome = run(&["get", &format!("inhaul://{}/{name}", server.address), &within(to.path()), "--json"]);
        assert_eq!(outcome.code, Some(0), "{len}: {}", outcome.stderr);
        assert!(std::fs::read(to.path().join(&name)).unwrap() == bytes, "{len}");
        let report = outcome.json();
        assert_eq!((&report["bytes"], &report["sources"][0]["bytes"]), (&len.into(), &len.into()), "{report}");
        assert_eq!(report["files"][0]["verified"], true);
        assert_eq!(report["sources"][0]["status"], "complete", "{report}");
        assert_eq!(rtt_ms(&report).is_some(), len > EARLY, "{report}");
    }
}

#[test]
fn get_of_a_small_tree_brings_links_holes_and_empty_files_and_finds_them_there_afterwards() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let set = from.path().join("set");
    std::fs::create_dir_all(set.join("sub/empty")).unwrap();
    for k in 0..40 {
        std::fs::write(set.join(format!("sub/f{k}")), noise(k * 19, k as u64)).unwrap();
    }
    symlink("sub/f3", set.join("link")).unwrap();
    std::fs::hard_link(set.join("sub/f4"), set.join("other")).unwrap();
    std::fs::File::create(set.join("hole")).unwrap().set_len(9000).unwrap();
    let server = Server::offer(from.path());
    let source = format!("inhaul://{}/set", server.address);
    let outcome = run(&["get", &source, &within(to.path()), "--json", "--exclude", "f7"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(rtt_ms(&outcome.json()), None, "{}", outcome.json());
    assert!(!to.path().join("set/sub/f7").exists());
    std::fs::remove_file(set.join("sub/f7")).unwrap();
    assert_eq!(tree(to.path()), tree(from.path()));
    let again = run(&["get", &source, &within(to.path()), "--json"]);
    assert_eq!((again.code, again.json()["sources"][0]["bytes"].as_u64()), (Some(0), Some(0)), "{}", again.stderr);
}

#[test]
fn get_of_more_small_files_than_have_their_digests_sent_along_takes_the_transport() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(from.path().join("set")).unwrap();
    for k in 0..300 {
        std::fs::write(from.path().join(format!("set/f{k}")), b"x").unwrap();
    }
    let server = Server::offer(from.path());
    let outcome = run(&["get", &format!("inhaul://{}/set", server.address), &within(to.path()), "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
    assert!(rtt_ms(&outcome.json()).is_some());
}

#[test]
fn small_files_come_from_mirrors_to_standard_output_and_by_puts() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("f"), b"small").unwrap();
    let servers = [(); 2].map(|()| Server::offer(from.path()));
    let both = format!("inhaul://{},{}/f", servers[0].address, servers[1].address);
    let outcome = run(&["get", &both, &within(to.path()), "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(std::fs::read(to.path().join("f")).unwrap(), b"small");
    let report = outcome.json();
    let bytes: Vec<u64> = report["sources"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes.iter().sum::<u64>(), 5, "{report}");
    let outcome = run(&["get", &both, "-"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "small"), "{}", outcome.stderr);
    let inbox = tempfile::tempdir().unwrap();
    let taker =
        Server::start(&["serve", text(from.path()), "--accept-puts", text(inbox.path()), "--listen", "127.0.0.1:0"]);
    let outcome = run(&["put", text(&from.path().join("f")), &format!("inhaul://{}/", taker.address), "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(std::fs::read(inbox.path().join("f")).unwrap(), b"small");
}

#[test]
fn a_rate_holds_for_small_files_too() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("f"), noise(20_000, 1)).unwrap();
    let server = Server::offer(from.path());
    let source = format!("inhaul://{}/f", server.address);
    let outcome = run(&["get", &source, &within(to.path()), "--json", "--receive-rate", "1M"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(rtt_ms(&outcome.json()).is_some(), "{}", outcome.json());
}
