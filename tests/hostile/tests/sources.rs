//! Files that change at their source while they are fetched, or that never come right: each ends itself, and the rest
//! lands.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use inhaul_hostile_tests::{
    FailingDisk, HostileServer, Offer, RawFile, RawManifest, Relay, Scratch, Server, figures, inhaul, noise, tree,
    wait_for,
};
use inhaul_store::digest;

const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: usize = 4 << 20;

/// The files of a data set that is fetched while it changes, in the order in which they come.
const NAMES: [&str; 6] = ["a", "cut", "gone", "grown", "unreadable", "z"];

fn set() -> Scratch {
    let from = Scratch::new();
    for (seed, name) in NAMES.iter().enumerate() {
        from.file(&format!("set/{name}"), &noise(BYTES, seed as u64));
    }
    from
}

/// Changes the files, but the first and the last.
fn change(set: &Path) {
    File::options().write(true).open(set.join("cut")).unwrap().set_len(BYTES as u64 / 2).unwrap();
    fs::remove_file(set.join("gone")).unwrap();
    File::options().write(true).open(set.join("grown")).unwrap().set_len(BYTES as u64 + 1).unwrap();
    // A path that is no longer a file cannot be read.
    fs::remove_file(set.join("unreadable")).unwrap();
    fs::create_dir(set.join("unreadable")).unwrap();
}

fn assert_rest_landed(to: &Path, failed: &[&str]) {
    for (seed, name) in NAMES.iter().enumerate() {
        let landed = fs::read(to.join("set").join(name));
        if failed.contains(name) {
            assert!(landed.is_err(), "{name} has landed");
        } else {
            assert!(landed.unwrap() == noise(BYTES, seed as u64), "{name}");
        }
    }
    assert!(!tree(to).iter().any(|name| name.contains("partial") || name.contains(".inhaul")), "{:?}", tree(to));
}

#[test]
fn files_that_change_before_they_are_read_end_themselves() {
    for transport in ["gtp", "cubic"] {
        // The manifest is sent before the files change, and no digest is asked for before that: a relay between the
        // two waits.
        let (from, to) = (set(), Scratch::new());
        let server = Server::offer(from.path());
        let relay = Relay::honest(server.address);
        relay.delay(Duration::from_millis(300));
        let get = inhaul(["get", "--json", "--transport", transport, &relay.source("/set")]).arg(to.path().join(""));
        let get = get.start();
        assert!(wait_for(PATIENCE, || to.path().join("set").exists()), "{}", get.stderr());
        change(&from.path().join("set"));
        let outcome = get.finish(PATIENCE);
        let came_to = format!("{} in {:.1} s", outcome.summary(), outcome.took.as_secs_f64());
        figures(&format!("files that change at their source, {transport}"), &came_to);
        assert_eq!(outcome.code, Some(16), "{}", outcome.stderr);
        let error = outcome.json()["error"]["message"].to_string();
        // A file that the server had opened before it was removed still comes as it was.
        let is_there = to.path().join("set/gone").exists();
        let failed: Vec<_> = NAMES[1..5].iter().copied().filter(|&name| name != "gone" || !is_there).collect();
        assert!(failed.iter().all(|name| error.contains(&format!("{name}: its source"))), "{error}");
        assert_rest_landed(to.path(), &failed);
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_itself() {
    let (from, to) = (set(), Scratch::new());
    let server = Server::offer(from.path());
    let get = inhaul(["get", "--json", "--rate", "60M", &server.source("/set")]).arg(to.path().join("")).start();
    let first = to.path().join("set/a.partial");
    // Half of the first file takes longer than hashing all of them.
    let half = |file: &fs::Metadata| file.blocks() * 512 >= BYTES as u64 / 2;
    assert!(wait_for(PATIENCE, || fs::metadata(&first).is_ok_and(|file| half(&file))), "{}", get.stderr());
    change(&from.path().join("set"));
    let outcome = get.finish(PATIENCE);
    assert_eq!(outcome.code, Some(16), "{}", outcome.stderr);
    // A file that was open and hashed by then still comes unchanged.
    let is_there = |name: &&str| to.path().join("set").join(name).exists();
    let failed: Vec<_> = NAMES[1..5].iter().copied().filter(|name| !is_there(name)).collect();
    assert!(failed.contains(&"cut"), "{failed:?}");
    let error = outcome.json()["error"]["message"].to_string();
    assert!(failed.iter().all(|name| error.contains(&format!("{name}: its source"))), "{error}");
    assert_rest_landed(to.path(), &failed);
}

#[test]
fn a_file_that_the_disk_of_its_server_cannot_read_ends_itself() {
    let files = ["a", "b", "c"].map(|name| (name, noise(BYTES, u64::from(name.as_bytes()[0]))));
    let Some((disk, bad)) = FailingDisk::mount(&files) else { return };
    for transport in ["gtp", "cubic"] {
        let (server, to) = (Server::offer(disk.path()), Scratch::new());
        let get = inhaul(["get", "--json", "--exclude", "lost+found", "--transport", transport, &server.source("/")]);
        let outcome = get.arg(to.path().join("set")).start().finish(PATIENCE);
        figures(&format!("the server's disk cannot read half of a file, {transport}"), &outcome.summary());
        assert_eq!(outcome.code, Some(16), "{}", outcome.stderr);
        let error = outcome.json()["error"]["message"].to_string();
        assert!(error.contains(&format!("{bad}: its source")), "{error}");
        for (name, bytes) in &files {
            let landed = fs::read(to.path().join("set").join(name));
            assert!(if *name == bad { landed.is_err() } else { landed.unwrap() == *bytes }, "{name}");
        }
        assert!(!tree(to.path()).iter().any(|name| name.contains("partial")), "{:?}", tree(to.path()));
    }
}

#[test]
fn another_mirror_brings_what_one_has_lost() {
    let (first, second, to) = (set(), set(), Scratch::new());
    let (one, other) = (Server::offer(first.path()), Server::offer(second.path()));
    let source = format!("inhaul://{},{}/set", one.address, other.address);
    let get = inhaul(["get", "--json", "--rate", "30M", &source]).arg(to.path().join("")).start();
    assert!(wait_for(PATIENCE, || to.path().join("set").exists()), "{}", get.stderr());
    change(&first.path().join("set"));
    let outcome = get.finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_rest_landed(to.path(), &[]);
}

#[test]
fn a_file_that_comes_in_wrong_three_times_ends_itself() {
    let mut offer = Offer::file("f", noise(3 << 20, 7));
    let files = ["a", "b", "c"].map(|name| RawFile::new(name, 1 << 20));
    offer.manifest = RawManifest::directory("set", files.to_vec()).encode();
    let bytes = offer.bytes.clone();
    // The digest of the one in the middle is of something else.
    offer.digest = Box::new(move |group| {
        let at = group as usize * (1 << 20);
        let mut good = digest::group_digest(1 << 20, 0, &bytes[at..at + (1 << 20)]);
        good[0] ^= u8::from(group == 1);
        Some(good)
    });
    let (server, to) = (HostileServer::offer(offer), Scratch::new());
    let outcome = inhaul(["get", "--json", &server.source("/set")]).arg(to.path().join("")).finish(PATIENCE);
    assert_eq!(outcome.code, Some(16), "{}", outcome.stderr);
    let error = outcome.json()["error"]["message"].to_string();
    assert!(error.contains("b: bytes 0 to 1048576 came in wrong 3 times"), "{error}");
    for (at, name) in [(0, "a"), (2 << 20, "c")] {
        assert!(fs::read(to.path().join("set").join(name)).unwrap() == noise(3 << 20, 7)[at..at + (1 << 20)], "{name}");
    }
    assert!(!to.path().join("set/b").exists());
}

#[test]
fn all_again_without_openat2() {
    inhaul_hostile_tests::again_without_openat2(module_path!(), &[]);
}
