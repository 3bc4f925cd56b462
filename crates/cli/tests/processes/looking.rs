//! What only looks: `ls` and `doctor`.

use crate::common::{Server, run};

/// A server that offers `a` (3 bytes) and `sub/b` (5 bytes).
fn offered() -> (tempfile::TempDir, Server) {
    let from = tempfile::tempdir().unwrap();
    std::fs::create_dir(from.path().join("sub")).unwrap();
    std::fs::write(from.path().join("a"), b"one").unwrap();
    std::fs::write(from.path().join("sub/b"), b"three").unwrap();
    let server = Server::offer(from.path());
    (from, server)
}

#[test]
fn ls_shows_what_there_is() {
    let (_from, server) = offered();
    let outcome = run(&["ls", &format!("{}/", server.address)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("3 B") && lines[0].ends_with("  a"), "{lines:?}");
    assert!(lines[1].ends_with("  sub/"), "{lines:?}");
    let outcome = run(&["ls", &format!("inhaul://{}/", server.address), "--recursive", "--json"]);
    let items: Vec<serde_json::Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let paths: Vec<_> =
        items.iter().map(|item| (item["path"].as_str().unwrap(), item["bytes"].as_u64().unwrap())).collect();
    assert_eq!(paths, [("a", 3), ("sub", 0), ("sub/b", 5)]);
    assert_eq!(items[2]["source"], format!("inhaul://{}/sub/b", server.address));
}

#[test]
fn ls_of_what_is_not_there_has_the_codes_of_get() {
    let (_from, server) = offered();
    assert_eq!(run(&["ls", &format!("{}/nothing", server.address)]).code, Some(3));
    assert_eq!(run(&["ls", &format!("{}/../x", server.address)]).code, Some(7));
    assert_eq!(run(&["ls", "no-such-host.invalid/x"]).code, Some(4));
    assert_eq!(run(&["ls", "http://a/x"]).code, Some(2));
}

#[test]
fn metalink_lists_every_file_with_every_mirror() {
    let (from, server) = offered();
    let name = from.path().file_name().unwrap().to_str().unwrap();
    let outcome = run(&["ls", &format!("{},127.0.0.1:1/", server.address), "--metalink"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("<?xml") && outcome.stdout.ends_with("</metalink>\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("<file name=\"sub/b\">\n    <size>5</size>"), "{}", outcome.stdout);
    let second = format!("<url priority=\"2\">inhaul://127.0.0.1:1/{name}/sub/b</url>");
    assert!(outcome.stdout.contains(&second), "{}", outcome.stdout);
}

#[test]
fn doctor_looks_at_host_path_and_disk_and_leaves_nothing() {
    let (_from, server) = offered();
    let to = tempfile::tempdir().unwrap();
    // A rate that any disk has.
    let outcome =
        run(&["doctor", &server.address, "--disk", to.path().to_str().unwrap(), "--target-rate", "1M", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let report = outcome.json();
    let checks: Vec<_> = report["findings"].as_array().unwrap().iter().map(|f| f["check"].as_str().unwrap()).collect();
    for check in ["receive-buffer", "device-offloads", "disk", "udp", "path-mtu", "stolen-time"] {
        assert!(checks.contains(&check), "{checks:?}");
    }
    let document = include_str!("../../docs/doctor.md");
    assert!(checks.iter().all(|check| document.contains(&format!("| `{check}` |"))), "{checks:?}");
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
}

#[test]
fn doctor_ends_with_12_when_something_is_broken_and_with_5_when_nothing_listens() {
    let outcome = run(&["doctor", "--disk", "/nonexistent"]);
    assert_eq!(outcome.code, Some(12), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("BROKEN  disk"), "{}", outcome.stdout);
    assert_eq!(run(&["doctor", "127.0.0.1:1"]).code, Some(5));
}
