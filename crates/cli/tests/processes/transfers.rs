//! Transfers between real processes over loopback.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::common::{Server, Signal, noise, run, start, tree, wait_until, within};

/// A directory with `f` of `len` bytes in it.
fn directory_with(len: usize, seed: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), noise(len, seed)).unwrap();
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn get_one_file_reports_its_hash_and_its_source() {
    let (from, to) = (directory_with(5_000_000, 1), tempfile::tempdir().unwrap());
    let server = Server::offer(from.path());
    let source = format!("inhaul://{}/f", server.address);
    let outcome = run(&["get", &source, &within(to.path()), "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
    let report = outcome.json();
    assert_eq!(report["status"], "complete");
    assert_eq!(report["bytes"], 5_000_000);
    assert_eq!(report["files"][0]["verified"], true);
    assert_eq!(report["files"][0]["path"], text(&to.path().join("f")));
    assert_eq!(report["files"][0]["blake3"].as_str().unwrap().len(), 64);
    assert_eq!(report["sources"][0]["address"], server.address.as_str());
    assert_eq!(report["sources"][0]["bytes"], 5_000_000);
    assert_eq!(report["sources"][0]["status"], "complete");
    assert_eq!(report["sources"][0]["plaintext"], false);
}

#[test]
fn get_a_directory_brings_all_of_it() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let set = from.path().join("set");
    std::fs::create_dir_all(set.join("sub/empty")).unwrap();
    std::fs::write(set.join("large"), noise(3_000_000, 2)).unwrap();
    std::fs::write(set.join("nothing"), b"").unwrap();
    for k in 0..50 {
        std::fs::write(set.join(format!("sub/small{k}")), noise(k * 37, k as u64)).unwrap();
    }
    let server = Server::offer(from.path());
    let outcome = run(&["get", &format!("inhaul://{}/set", server.address), &within(to.path())]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
    assert!(outcome.stderr.contains("52 files"), "{}", outcome.stderr);
}

#[test]
fn get_brings_odd_names_as_they_are() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let set = from.path().join("100% a,b");
    std::fs::create_dir_all(set.join(" .. ")).unwrap();
    let names: [&[u8]; 8] = [
        b" ",
        b"-rf",
        b"a\nb",
        b"back\\slash",
        "\u{e4}\u{1f980}".as_bytes(),
        b"no\xffutf8",
        b"x.partial",
        &[b'n'; 255],
    ];
    for (k, name) in names.into_iter().enumerate() {
        std::fs::write(set.join(OsStr::from_bytes(name)), noise(1000 + k, k as u64)).unwrap();
    }
    std::fs::write(set.join(" .. /x"), b"").unwrap();
    std::fs::write(set.join("x"), noise(70_000, 9)).unwrap();
    let server = Server::offer(from.path());
    let outcome = run(&["get", &format!("inhaul://{}/100%25 a,b/", server.address), &within(to.path())]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
}

#[test]
fn get_of_2000_small_files_brings_them_all() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for k in 0..2000 {
        let dir = from.path().join(format!("set/{:02}", k % 40));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("f{k}")), noise(k % 5000, k as u64)).unwrap();
    }
    let servers = [Server::offer(from.path()), Server::offer(from.path())];
    let source = format!("inhaul://{},{}/set", servers[0].address, servers[1].address);
    let outcome = run(&["get", &source, &within(to.path())]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
    assert!(outcome.stderr.contains("2000 files"), "{}", outcome.stderr);
}

#[test]
fn get_of_nothing_but_an_empty_file_or_directory_ends() {
    let (from, to) = (directory_with(0, 0), tempfile::tempdir().unwrap());
    std::fs::create_dir(from.path().join("empty")).unwrap();
    let server = Server::offer(from.path());
    for name in ["f", "empty"] {
        let outcome = run(&["get", &format!("inhaul://{}/{name}", server.address), &within(to.path())]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    assert_eq!(tree(to.path()), tree(from.path()));
}

#[test]
fn get_from_three_mirrors_uses_all_of_them() {
    let (from, to) = (directory_with(30_000_000, 3), tempfile::tempdir().unwrap());
    let servers: Vec<_> = (0..3).map(|_| Server::offer(from.path())).collect();
    let mirrors: Vec<_> = servers.iter().map(|server| server.address.as_str()).collect();
    let source = format!("inhaul://{}/f", mirrors.join(","));
    let outcome = run(&["get", &source, &within(to.path()), "--receive-rate", "500M", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
    let report = outcome.json();
    let shares: Vec<_> = report["sources"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).collect();
    assert_eq!(shares.len(), 3);
    assert!(shares.iter().all(|&bytes| bytes > 0), "{shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), 30_000_000);
}

#[test]
fn get_from_distinct_sources_brings_each_into_one_directory() {
    let to = tempfile::tempdir().unwrap();
    let dest = to.path().join("new");
    let mut servers = Vec::new();
    let mut sources = Vec::new();
    for (k, name) in ["one", "two", "three"].into_iter().enumerate() {
        let from = tempfile::tempdir().unwrap();
        std::fs::write(from.path().join(name), noise(2_000_000 + k, k as u64)).unwrap();
        let server = Server::offer(from.path());
        sources.push(format!("inhaul://{}/{name}", server.address));
        servers.push((server, from));
    }
    let mut args = vec!["get", "--quiet"];
    args.extend(sources.iter().map(String::as_str));
    let into = within(&dest);
    args.push(&into);
    let outcome = run(&args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let mut expected: Vec<_> = servers.iter().flat_map(|(_, from)| tree(from.path())).collect();
    expected.sort();
    assert_eq!(tree(&dest), expected);
}

#[test]
fn get_goes_on_when_a_mirror_is_killed_and_says_which() {
    // The first mirror's digests count, until it is lost.
    for victim in [0, 2] {
        let (from, to) = (directory_with(20_000_000, 4), tempfile::tempdir().unwrap());
        let mut servers: Vec<_> = (0..3).map(|_| Server::offer(from.path())).collect();
        let mirrors: Vec<_> = servers.iter().map(|server| server.address.clone()).collect();
        let source = format!("inhaul://{}/f", mirrors.join(","));
        // Slow enough that the transfer is under way when the server dies: it takes two seconds.
        let client = start(&["get", &source, &within(to.path()), "--json", "--receive-rate", "80M"]);
        wait_until("the first data", || to.path().join("f.partial").exists());
        servers[victim].kill();
        let outcome = client.finish();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_eq!(tree(to.path()), tree(from.path()));
        let report = outcome.json();
        for (k, source) in report["sources"].as_array().unwrap().iter().enumerate() {
            assert_eq!(source["status"], if k == victim { "lost" } else { "complete" }, "{report}");
        }
        assert_eq!(report["files"][0]["verified"], true);
        assert!(report["warnings"][0].as_str().unwrap().contains(&mirrors[victim]), "{report}");
        assert!(outcome.stderr.contains(&format!("{} is lost", mirrors[victim])), "{}", outcome.stderr);
    }
}

#[test]
fn get_leaves_out_mirrors_that_differ_or_are_not_there() {
    let (from, other, to) = (directory_with(1_000_000, 5), directory_with(999, 5), tempfile::tempdir().unwrap());
    let good = [Server::offer(from.path()), Server::offer(from.path())];
    let different = Server::offer(other.path());
    let mut gone = Server::offer(from.path());
    gone.kill();
    let mirrors = [&different, &good[0], &gone, &good[1]].map(|server| server.address.as_str());
    let source = format!("inhaul://{}/f", mirrors.join(","));
    let outcome = run(&["get", &source, &within(to.path()), "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
    let report = outcome.json();
    let status_of = |address: &str| {
        let sources = report["sources"].as_array().unwrap();
        sources.iter().find(|s| s["address"] == address).unwrap()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(mirrors.map(status_of), ["different", "complete", "lost", "complete"]);
}

#[test]
fn get_over_ipv6_works() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let (from, to) = (directory_with(1_500_000, 6), tempfile::tempdir().unwrap());
    let server = Server::start(&["serve", text(from.path()), "--listen", "[::1]:0"]);
    let outcome = run(&["get", &format!("inhaul://{}/f", server.address), &within(to.path())]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
}

#[test]
fn get_without_offload_works() {
    let (from, to) = (directory_with(1_500_000, 7), tempfile::tempdir().unwrap());
    let server = Server::start(&["serve", text(from.path()), "--listen", "127.0.0.1:0", "--no-offload"]);
    let source = format!("inhaul://{}/f", server.address);
    let outcome = run(&["get", &source, &within(to.path()), "--no-offload", "--mtu", "1500"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), tree(from.path()));
}

#[test]
fn get_json_stream_prints_lines_and_then_the_report() {
    let (from, to) = (directory_with(3_000_000, 8), tempfile::tempdir().unwrap());
    let server = Server::offer(from.path());
    let source = format!("inhaul://{}/f", server.address);
    // Some two seconds.
    let outcome = run(&["get", &source, &within(to.path()), "--json-stream", "--receive-rate", "12M", "--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines: Vec<serde_json::Value> = outcome.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let (last, others) = lines.split_last().unwrap();
    assert_eq!(last["status"], "complete");
    assert!(!others.is_empty());
    for line in others {
        assert_eq!(line["status"], "running");
        assert_eq!(line["total_bytes"], 3_000_000);
    }
}

#[test]
fn bench_moves_the_bytes_it_was_asked_to_in_both_directions() {
    let server = Server::start(&["bench", "--server", "--listen", "127.0.0.1:0"]);
    for direction in [&[][..], &["-R"]] {
        let mut args = vec!["bench", &server.address, "-n", "4000001", "-P", "2", "-J"];
        args.extend(direction);
        let outcome = run(&args);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let report = outcome.json();
        assert_eq!(report["bytes"], 4_000_001, "{report}");
        assert_eq!(report["sources"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn servers_stop_when_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        assert_eq!(Server::offer(dir.path()).stop(signal), Some(0));
        assert_eq!(Server::start(&["bench", "--server", "--listen", "127.0.0.1:0"]).stop(signal), Some(0));
    }
}

#[test]
fn every_transport_brings_a_file_from_two_mirrors() {
    // Servers make their endpoints as they are asked: the same two serve every transport, and gtp last once more.
    let from = directory_with(4_000_003, 11);
    let mirrors = [Server::offer(from.path()), Server::offer(from.path())];
    let source = format!("inhaul://{},{}/f", mirrors[0].address, mirrors[1].address);
    let listed = run(&["protocols", "--json"]).json();
    let names: Vec<_> = listed["protocols"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"gtp") && names.contains(&"cubic"), "{names:?}");
    for name in names.into_iter().chain(["gtp"]) {
        let to = tempfile::tempdir().unwrap();
        // Some send at a rate that they are given, and at no other.
        let rate = ["--receive-rate", "400M"];
        let outcome = run(&[&["get", &source, &within(to.path()), "--transport", name, "--json"][..], &rate].concat());
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
        assert_eq!(tree(to.path()), tree(from.path()), "{name}");
        let report = outcome.json();
        assert_eq!(report["files"][0]["verified"], true, "{name}");
        let brought: Vec<_> =
            report["sources"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).collect();
        assert_eq!((brought.len(), brought.iter().sum()), (2, 4_000_003), "{name}: {brought:?}");
    }
}
