//! Trees with every odd thing in them, served, fetched, and compared to the last bit of their metadata.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use crate::common::{Server, noise, run, within};

/// Bytes of the sparse file, and where in it there is data.
const SPARSE_BYTES: u64 = 200 << 20;
const SPARSE_DATA: [u64; 3] = [0, 60 << 20, (200 << 20) - 70_000];

/// Makes a tree in `top` that has one of everything.
fn make(top: &Path) {
    let names: [&[u8]; 6] = [b" ", b"-rf", b"a\nb", b"no\xffutf8", b"x.partial", &[b'n'; 255]];
    fs::create_dir_all(top.join("empty")).unwrap();
    for (k, name) in names.into_iter().enumerate() {
        fs::write(top.join(OsStr::from_bytes(name)), noise(3000 * k, k as u64)).unwrap();
    }
    fs::write(top.join("x"), noise(2_500_000, 9)).unwrap();
    // As deep as a path of the system's own length allows, beneath wherever this is.
    let deep = top.join(vec!["d".repeat(100); 20].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), b"deep").unwrap();
    let sparse = File::create(top.join("sparse")).unwrap();
    sparse.set_len(SPARSE_BYTES).unwrap();
    for at in SPARSE_DATA {
        sparse.write_all_at(&noise(70_000, at), at).unwrap();
    }
    File::create(top.join("all hole")).unwrap().set_len(5 << 20).unwrap();
    symlink("x", top.join("link")).unwrap();
    symlink("/etc/passwd", top.join("absolute")).unwrap();
    symlink(OsStr::from_bytes(b"../../\xfe/gone"), top.join("dangling")).unwrap();
    symlink(".", top.join("empty/loop")).unwrap();
    fs::hard_link(top.join("x"), top.join("another x")).unwrap();
    fs::hard_link(top.join("x"), top.join("empty/third x")).unwrap();
    fs::hard_link(top.join("sparse"), deep.join("sparse too")).unwrap();
    for (name, mode) in [("x", 0o640), ("-rf", 0o777), (" ", 0o400), ("empty", 0o711), ("sparse", 0o606)] {
        fs::set_permissions(top.join(name), Permissions::from_mode(mode)).unwrap();
    }
    File::open(top.join("x"))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + Duration::new(981_173_106, 987_654_321))
        .unwrap();
    let before_1970 = Timespec { tv_sec: -3, tv_nsec: 5 };
    let times = Timestamps { last_access: before_1970, last_modification: before_1970 };
    for name in ["link", "-rf", "empty"] {
        rustix::fs::utimensat(CWD, top.join(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// All metadata of a file, except the parts that copies do not share: its inode, its device, its change and birth
/// times.
#[derive(Debug, PartialEq)]
struct Facts {
    kind: u32,
    permissions: u32,
    modified: (i64, i64),
    owner: (u32, u32),
    size: u64,
    blocks: u64,
    content: Vec<u8>,
    /// The first of the paths that are names of the same file.
    first_name: String,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The facts of everything beneath `top`, and of itself.
fn facts(top: &Path) -> BTreeMap<String, Facts> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_path_buf()];
    let mut numbers = BTreeMap::new();
    while let Some(path) = pending.pop() {
        let name = path.strip_prefix(top).unwrap().as_os_str().as_encoded_bytes().escape_ascii().to_string();
        let stat = path.symlink_metadata().unwrap();
        let content = match stat.file_type() {
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            kind if kind.is_file() => {
                numbers.entry(stat.ino()).or_insert_with(Vec::new).push(name.clone());
                fs::read(&path).unwrap()
            }
            _ => {
                pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
        };
        let is_file = stat.is_file();
        let facts = Facts {
            kind: stat.mode() & 0o170_000,
            permissions: stat.mode() & 0o7777,
            modified: (stat.mtime(), stat.mtime_nsec()),
            owner: (stat.uid(), stat.gid()),
            // Of a directory these are its file system's own affair.
            size: if is_file { stat.size() } else { 0 },
            blocks: if is_file { stat.blocks() } else { 0 },
            content,
            first_name: name.clone(),
            attributes: attributes(&path, stat.is_symlink()),
        };
        found.insert(name, facts);
    }
    for names in numbers.values_mut() {
        names.sort();
        for name in names.iter() {
            found.get_mut(name).unwrap().first_name.clone_from(&names[0]);
        }
    }
    found
}

fn attributes(path: &Path, is_link: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; 65_536];
    let Ok(len) = rustix::fs::llistxattr(path, &mut names) else { return Vec::new() };
    let names = names[..len].split(|&b| b == 0).filter(|name| name.starts_with(b"user.") && !is_link);
    let value = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let len = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
        value[..len].to_vec()
    };
    let mut all: Vec<_> = names.map(|name| (name.to_vec(), value(name))).collect();
    all.sort();
    all
}

/// A difference of up to this many blocks does not count: file systems keep their own records in them.
fn assert_alike(mut ours: BTreeMap<String, Facts>, mut theirs: BTreeMap<String, Facts>) {
    const SLACK: u64 = 32;
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (name, facts) in &mut ours {
        let other = theirs.get_mut(name).unwrap();
        assert!(facts.blocks.abs_diff(other.blocks) <= SLACK, "{name}: {} blocks, {}", facts.blocks, other.blocks);
        (facts.blocks, other.blocks) = (0, 0);
        assert!(facts.content == other.content, "{name} has other bytes");
        (facts.content, other.content) = (Vec::new(), Vec::new());
        assert_eq!(facts, other, "{name}");
    }
}

#[test]
fn a_tree_with_every_odd_thing_comes_as_it_is() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let set = from.path().join("set");
    make(&set);
    let has_attributes = rustix::fs::setxattr(set.join("x"), "user.colour", b"red\0blue", XattrFlags::empty()).is_ok()
        && rustix::fs::setxattr(set.join("empty"), "user.of.a.directory", b"", XattrFlags::empty()).is_ok();
    let may_give_away = std::os::unix::fs::lchown(set.join("-rf"), Some(12_345), Some(54_321)).is_ok()
        && std::os::unix::fs::lchown(set.join("link"), Some(12_345), None).is_ok();
    println!("with extended attributes: {has_attributes}, with owners: {may_give_away}");
    // Entries that cannot travel are named, and the others are not affected.
    rustix::fs::mknodat(CWD, set.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let server = Server::offer(from.path());
    let source = format!("inhaul://{}/set", server.address);
    let outcome = run(&["get", &source, &within(to.path()), "--xattrs", "--owner", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let warnings = outcome.json()["warnings"].to_string();
    assert!(warnings.contains("'pipe' is a socket, a pipe, a device"), "{warnings}");
    // The holes did not come.
    let came = outcome.json()["sources"][0]["bytes"].as_u64().unwrap();
    assert!(came < SPARSE_BYTES / 10, "{came} bytes came");
    // Removing the pipe changes the time of its directory.
    let times = set.metadata().unwrap().modified().unwrap();
    fs::remove_file(set.join("pipe")).unwrap();
    File::open(&set).unwrap().set_modified(times).unwrap();
    assert_alike(facts(&set), facts(&to.path().join("set")));

    // Once more: all of it is there.
    let outcome = run(&["get", &source, &within(to.path()), "--xattrs", "--owner", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let report = outcome.json();
    assert!(report["files"].as_array().unwrap().iter().all(|file| file["action"] == "keep"), "{report}");
    assert_eq!(report["sources"][0]["bytes"], 0);
    assert_alike(facts(&set), facts(&to.path().join("set")));
}

/// `set` with five files at its source, and three of them at the destination: one the same, one older, one newer.
fn existing() -> (tempfile::TempDir, tempfile::TempDir, Server) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (theirs, ours) = (from.path().join("set"), to.path().join("set"));
    fs::create_dir_all(theirs.join("sub")).unwrap();
    fs::create_dir(&ours).unwrap();
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let write = |path: &Path, content: &[u8], seconds| {
        fs::write(path, content).unwrap();
        File::open(path).unwrap().set_modified(at(seconds)).unwrap();
    };
    for name in ["same", "older", "newer", "sub/new", "sub/tmp"] {
        write(&theirs.join(name), name.as_bytes(), 1_000_000_000);
    }
    write(&ours.join("same"), b"same", 1_000_000_000);
    write(&ours.join("older"), b"another", 900_000_000);
    write(&ours.join("newer"), b"news!", 1_100_000_000);
    let server = Server::offer(from.path());
    (from, to, server)
}

/// What became of each file, by the last component of its path.
fn actions(report: &serde_json::Value) -> BTreeMap<String, String> {
    let files = report["files"].as_array().unwrap().iter();
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    files.map(|file| (word(&file["path"]).rsplit('/').next().unwrap().to_owned(), word(&file["action"]))).collect()
}

#[test]
fn files_that_exist_are_kept_refused_or_replaced_as_told() {
    let expected = |older: &str, newer: &str| {
        let all = [("same", "keep"), ("older", older), ("newer", newer), ("new", "fetch"), ("tmp", "leave-out")];
        all.into_iter().map(|(name, action)| (name.to_owned(), action.to_owned())).collect::<BTreeMap<_, _>>()
    };
    for (flags, older, newer) in [
        (&["--existing", "keep"][..], "keep", "keep"),
        (&["--existing", "update"], "replace", "keep"),
        (&["--overwrite"], "replace", "replace"),
    ] {
        let (_from, to, server) = existing();
        let source = format!("inhaul://{}/set", server.address);
        let before = facts(to.path());
        let common = ["get", &source, &within(to.path()), "--json", "--exclude", "tmp"];
        let planned = run(&[&common[..], flags, &["--dry-run"]].concat());
        assert_eq!(planned.code, Some(0), "{}", planned.stderr);
        assert_eq!(planned.json()["status"], "planned");
        assert_eq!(actions(&planned.json()), expected(older, newer), "{flags:?}");
        assert_eq!(facts(to.path()), before, "a dry run changes nothing");
        let done = run(&[&common[..], flags].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(actions(&done.json()), expected(older, newer), "{flags:?}");
        assert_eq!(done.json()["bytes"], planned.json()["bytes"]);
        let content = |name: &str| fs::read_to_string(to.path().join("set").join(name)).unwrap();
        let of =
            |action: &str, ours: &str, theirs: &str| if action == "keep" { ours.to_owned() } else { theirs.to_owned() };
        assert_eq!(content("older"), of(older, "another", "older"));
        assert_eq!(content("newer"), of(newer, "news!", "newer"));
        assert_eq!(content("sub/new"), "sub/new");
        assert!(!to.path().join("set/sub/tmp").exists());
    }
}

#[test]
fn a_file_that_differs_is_named_before_anything_is_fetched() {
    let (_from, to, server) = existing();
    let source = format!("inhaul://{}/set", server.address);
    let set = to.path().join("set");
    let before = facts(&set);
    let outcome = run(&["get", &source, &within(to.path())]);
    assert_eq!(outcome.code, Some(9), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("set/newer' (and 1 more) exists already and differs"), "{}", outcome.stderr);
    assert_eq!(facts(&set), before);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
    let planned = run(&["get", &source, &within(to.path()), "--dry-run"]);
    assert_eq!(planned.code, Some(9), "{}", planned.stderr);
    assert!(planned.stdout.contains("fetch 2 files, keep 1 file, refuse 2 files"), "{}", planned.stdout);
}

#[test]
fn checksum_tells_the_same_from_the_different_by_their_bytes() {
    let (from, to, server) = existing();
    let source = format!("inhaul://{}/set", server.address);
    let ours = to.path().join("set");
    // The same bytes at another time, and other bytes of the same size at the same time.
    fs::write(ours.join("older"), "older").unwrap();
    let times = from.path().join("set/same").metadata().unwrap().modified().unwrap();
    fs::write(ours.join("same"), "SAME").unwrap();
    File::open(ours.join("same")).unwrap().set_modified(times).unwrap();
    let outcome = run(&["get", &source, &within(to.path()), "--checksum", "--existing", "replace", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let found = actions(&outcome.json());
    assert_eq!([&found["same"], &found["older"], &found["newer"]], ["replace", "keep", "replace"]);
    assert_eq!(fs::read(ours.join("same")).unwrap(), b"same");
}
