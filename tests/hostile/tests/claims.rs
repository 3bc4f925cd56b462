//! Claimed sizes: memory and time must follow the received and the stored data.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{
    HostileServer, Offer, Outcome, RawFile, RawManifest, Scratch, Server, Signal, figures, inhaul, wait_for,
};
use inhaul_store::digest;

const PATIENCE: Duration = Duration::from_secs(30);
/// Address space that is enough for anything honest, and not for an entry for each group of a huge file.
const LIMIT: &str = "-v 6000000";
const MEMORY_MAX: u64 = 200 << 20;
/// Processor time that is enough for anything but looking at a hole.
const CPU_MAX: Duration = Duration::from_secs(3);

/// Directories on the file systems of this host that differ in how large a file may be.
fn places() -> Vec<tempfile::TempDir> {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    in_memory.into_iter().chain([tempfile::tempdir().unwrap()]).collect()
}

/// Whether a file of `size` bytes can be in `directory`.
fn allows(directory: &Path, size: u64) -> bool {
    tempfile::tempfile_in(directory).unwrap().set_len(size).is_ok()
}

/// The file called `name` beneath `directory`.
fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else if entry.file_name() == name {
                return Some(entry.path());
            }
        }
    }
    None
}

fn cost(outcome: &Outcome) -> String {
    let memory = outcome.readings.memory_peak >> 20;
    format!("{}; {memory} MiB, {:.2} s of CPU", outcome.summary(), outcome.readings.cpu.as_secs_f64())
}

fn assert_cheap(attempt: &str, outcome: &Outcome) {
    figures(attempt, &cost(outcome));
    assert!(outcome.readings.memory_peak < MEMORY_MAX && outcome.readings.cpu < CPU_MAX, "{}", cost(outcome));
}

#[test]
fn a_manifest_of_huge_holes_costs_a_client_what_it_lists() {
    for place in places() {
        for (count, bits) in [(1, 62), (1, 45), (1000, 50)] {
            let size = 1 << bits;
            let files = (0..count).map(|k| RawFile::hole(format!("a{k:03}"), size)).collect();
            let server = HostileServer::offer(Offer::manifest(&RawManifest::directory("d", files)));
            let to = tempfile::tempdir_in(place.path()).unwrap();
            let get = inhaul(["get", "-q", &server.source("/d")]).arg(to.path().join("d/")).limit(LIMIT);
            let outcome = get.finish(PATIENCE);
            assert_cheap(&format!("a manifest of {count} holes of 2^{bits} bytes"), &outcome);
            if allows(place.path(), size) {
                assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
                let metadata = fs::metadata(find(to.path(), "a000").unwrap()).unwrap();
                assert_eq!((metadata.len(), metadata.blocks()), (size, 0));
            } else {
                assert_eq!(outcome.code, Some(9), "{}", outcome.summary());
                assert!(outcome.stderr.contains("larger than the file system"), "{}", outcome.stderr);
                assert_eq!(find(to.path(), "a000.partial"), None);
            }
        }
    }
}

#[test]
fn a_manifest_of_a_huge_file_of_data_is_refused_for_want_of_space() {
    let manifest = RawManifest::directory("d", vec![RawFile::new("a", 1 << 62)]);
    let server = HostileServer::offer(Offer::manifest(&manifest));
    let to = Scratch::new();
    let outcome = inhaul(["get", "-q", &server.source("/d")]).arg(to.path().join("d/")).limit(LIMIT).finish(PATIENCE);
    assert_cheap("a manifest of 2^62 bytes of data", &outcome);
    assert_eq!(outcome.code, Some(8), "{}", outcome.summary());
}

#[test]
fn a_file_beyond_the_users_limit_is_refused_before_anything_is_made() {
    let manifest = RawManifest::directory("d", vec![RawFile::hole("a", 1 << 30)]);
    let server = HostileServer::offer(Offer::manifest(&manifest));
    let to = Scratch::new();
    let get = inhaul(["get", "-q", &server.source("/d")]).arg(to.path().join("d/")).limit("-f 1000");
    let outcome = get.finish(PATIENCE);
    assert_eq!(outcome.code, Some(9), "{}", outcome.summary());
    assert!(outcome.stderr.contains("ulimit -f"), "{}", outcome.stderr);
    assert_eq!(find(to.path(), "a.partial"), None);
}

/// A directory with a file of `size` bytes; only the first 4096 are stored, if the file system allows it.
fn sparse(size: u64) -> Option<(tempfile::TempDir, File)> {
    let directory = tempfile::tempdir_in("/dev/shm").ok()?;
    let file =
        File::options().read(true).write(true).create(true).truncate(true).open(directory.path().join("f")).unwrap();
    if file.set_len(size).is_err() {
        println!("skipped: no file system here takes a file of {size} bytes");
        return None;
    }
    file.write_all_at(&[7; 4096], 0).unwrap();
    Some((directory, file))
}

fn assert_is_copy(copy: &Path, size: u64) {
    let copy = File::open(copy).unwrap();
    let metadata = copy.metadata().unwrap();
    assert_eq!(metadata.len(), size);
    assert!(metadata.blocks() * 512 <= 4 << 20, "{} blocks are stored", metadata.blocks());
    let mut bytes = [1; 8192];
    copy.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes[..4096] == [7; 4096] && bytes[4096..] == [0; 4096]);
}

#[test]
fn a_sparse_file_costs_both_ends_what_is_stored_of_it() {
    for (name, size) in [("16 GiB", 16 << 30), ("1 TiB", 1 << 40), ("64 TiB", 1 << 46), ("7 EiB", 7 << 60)] {
        let Some((from, _file)) = sparse(size) else { return };
        let server = inhaul(["serve", "--listen", "127.0.0.1:0", "--grace", "0"]).arg(from.path()).limit(LIMIT).serve();
        let to = tempfile::tempdir_in("/dev/shm").unwrap();
        let get = |flag: &str| inhaul(["get", "-q", flag, &server.source("/f")]).arg(to.path().join("")).limit(LIMIT);
        let outcome = get("--json").finish(PATIENCE);
        assert_cheap(&format!("a sparse file of {name}"), &outcome);
        assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
        assert_is_copy(&find(to.path(), "f").unwrap(), size);
        assert!(outcome.json()["files"][0]["blake3"].is_null(), "too much to hash unasked");
        let again = get("--checksum").finish(PATIENCE);
        assert_cheap(&format!("a sparse file of {name} compared"), &again);
        assert_eq!(again.code, Some(0), "{}", again.summary());
        let cost = server.readings();
        figures(
            &format!("its server, {name}"),
            &format!("{} MiB, {:.2} s of CPU", cost.memory_peak >> 20, cost.cpu.as_secs_f64()),
        );
        assert!(cost.memory_peak < MEMORY_MAX && cost.cpu < CPU_MAX, "{cost:?}");
    }
}

#[test]
fn the_hash_of_a_sparse_file_is_the_true_one() {
    let size = (64 << 20) + 12_345;
    let Some((from, file)) = sparse(size) else { return };
    file.write_all_at(&[9; 70_000], 33 << 20).unwrap();
    let server = Server::offer(from.path());
    let to = Scratch::new();
    let outcome = inhaul(["get", "-q", "--json", &server.source("/f")]).arg(to.path().join("")).finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    let bytes = fs::read(from.path().join("f")).unwrap();
    assert!(fs::read(find(to.path(), "f").unwrap()).unwrap() == bytes);
    let digests: Vec<_> = (0..digest::group_count(size))
        .map(|group| {
            let range = digest::group_range(size, group);
            digest::group_digest(size, group, &bytes[range.start as usize..range.end as usize])
        })
        .collect();
    let hash = digest::root(size, &digests).unwrap().to_hex().to_string();
    assert_eq!(outcome.json()["files"][0]["blake3"], hash);
}

#[test]
fn a_put_of_a_huge_hole_costs_the_server_what_is_stored_of_it() {
    let size = 1 << 62;
    let Some((from, _file)) = sparse(size) else { return };
    let (offered, inbox) = (Scratch::new(), tempfile::tempdir_in("/dev/shm").unwrap());
    let serve = inhaul(["serve", "--listen", "127.0.0.1:0", "--grace", "0"]).arg(offered.path());
    let server = serve.arg("--accept-puts").arg(inbox.path()).limit(LIMIT).serve();
    let outcome =
        inhaul(["put", "-q"]).arg(from.path().join("f")).arg(server.source("/")).limit(LIMIT).finish(PATIENCE);
    assert_cheap("a put of 2^62 bytes, all but 4096 a hole", &outcome);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert_is_copy(&find(inbox.path(), "f").unwrap(), size);
    let cost = server.readings();
    assert!(cost.memory_peak < MEMORY_MAX && cost.cpu < CPU_MAX, "{cost:?}");
}

#[test]
fn ctrl_c_is_heeded_while_a_server_says_nothing() {
    let bytes = vec![5; 3 << 20];
    let to = Scratch::new();
    to.file("f", &vec![6; 3 << 20]);
    for arguments in [&["--overwrite"][..], &["--overwrite", "--checksum"]] {
        let asked = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&asked);
        let silent = move |_| {
            heard.store(true, Ordering::Relaxed);
            None
        };
        let offer = Offer { digest: Box::new(silent), drip: Some(PATIENCE), ..Offer::file("f", bytes.clone()) };
        let server = HostileServer::offer(offer);
        let get = inhaul(["get", "-q"]).arg(server.source("/f")).arg(to.path().join(""));
        let running = get.args(arguments).start();
        assert!(wait_for(PATIENCE, || asked.load(Ordering::Relaxed)), "it does not ask");
        running.signal(Signal::INT);
        let signalled = Instant::now();
        let outcome = running.finish(PATIENCE);
        let took = signalled.elapsed();
        figures(&format!("Ctrl-C, {}", arguments.join(" ")), &format!("{} ms", took.as_millis()));
        assert_eq!(outcome.code, Some(130), "{}", outcome.summary());
        assert!(took < Duration::from_secs(2), "it took {took:?}");
    }
}
