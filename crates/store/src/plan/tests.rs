use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::filter::Rule;
use crate::{Contents, HardLink, Landing, LandingOptions, Metadata, Symlink};

const THEN: Timestamp = Timestamp { seconds: 1_000_000_000, nanos: 7 };

/// A tree of two files of four bytes, a second name of the first, and a symbolic link.
fn manifest() -> Arc<Manifest> {
    let metadata = Metadata { mode: 0o644, modified: THEN, ..Metadata::default() };
    let file = |path: &str| Entry { path: path.into(), size: 4, metadata: metadata.clone(), holes: Vec::new() };
    let contents = Contents {
        top: Metadata { mode: 0o755, ..Metadata::default() },
        files: vec![file("a"), file("b")],
        hard_links: vec![HardLink { path: b"z".to_vec(), file: b"a".to_vec() }],
        symlinks: vec![Symlink { path: b"l".to_vec(), target: b"a".to_vec(), metadata: metadata.clone() }],
        ..Contents::default()
    };
    Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
}

fn plan(dir: &TempDir, rules: &[Rule], existing: Existing) -> Plan {
    Plan::new(&Site::As(dir.path().join("set")), manifest(), &Filter::new(rules).unwrap(), existing).unwrap()
}

fn land(plan: Plan) {
    let landing = Landing::carry_out(plan, LandingOptions::default()).unwrap();
    for index in (0..2).filter(|&index| landing.lands(index)) {
        landing.write(index as u64 * 4, &[std::io::IoSlice::new(b"data")]).unwrap();
        landing.finish_file(index).unwrap();
    }
    landing.finish().unwrap();
    assert_eq!(landing.take_notes(), [""; 0]);
}

/// `set` in a directory, with the tree in it.
fn landed() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    land(plan(&dir, &[], Existing::Refuse));
    dir
}

fn number(dir: &TempDir, name: &str) -> u64 {
    dir.path().join("set").join(name).symlink_metadata().unwrap().ino()
}

#[test]
fn what_has_landed_is_kept() {
    let dir = landed();
    assert_eq!(number(&dir, "a"), number(&dir, "z"));
    assert_eq!(fs::read_link(dir.path().join("set/l")).unwrap(), Path::new("a"));
    let again = plan(&dir, &[], Existing::Replace);
    assert_eq!(again.files(), [Fate::Keep, Fate::Keep]);
    assert_eq!((again.symlinks.as_slice(), again.hard_links.as_slice()), (&[Fate::Keep][..], &[Fate::Keep][..]));
    assert_eq!((again.bytes(), again.unwanted().covered()), (0, 8));
    land(again);
}

#[test]
fn what_differs_is_refused_replaced_or_kept() {
    let dir = landed();
    let set = dir.path().join("set");
    fs::write(set.join("b"), b"else").unwrap();
    fs::remove_file(set.join("l")).unwrap();
    symlink("elsewhere", set.join("l")).unwrap();
    let fates = |existing| {
        let plan = plan(&dir, &[], existing);
        (plan.files()[1], plan.symlinks[0])
    };
    assert_eq!(fates(Existing::Refuse), (Fate::Refused, Fate::Refused));
    assert_eq!(fates(Existing::Keep), (Fate::Keep, Fate::Keep));
    // Both are newer than what would come.
    assert_eq!(fates(Existing::Update), (Fate::Keep, Fate::Keep));
    let (error, count) = plan(&dir, &[], Existing::Refuse).obstacles().unwrap();
    assert_eq!(count, 2);
    assert!(matches!(&error, LandingError::Exists { path, others: 1 } if *path == set.join("b")), "{error}");
    land(plan(&dir, &[], Existing::Replace));
    assert_eq!(fs::read(set.join("b")).unwrap(), b"data");
    assert_eq!(fs::read_link(set.join("l")).unwrap(), Path::new("a"));
}

#[test]
fn a_directory_is_never_replaced() {
    for name in ["a", "l", "z"] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("set").join(name)).unwrap();
        let (error, _) = plan(&dir, &[], Existing::Replace).obstacles().unwrap();
        assert!(matches!(error, LandingError::IsADirectory { .. }), "{error}");
    }
}

#[test]
fn only_files_and_links_are_ever_replaced() {
    for make in [
        |path: &Path| rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap(),
        |path: &Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("set")).unwrap();
        make(&dir.path().join("set/b"));
        let (error, _) = plan(&dir, &[], Existing::Replace).obstacles().unwrap();
        assert!(matches!(error, LandingError::Special { .. }), "{error}");
    }
}

#[test]
fn of_what_is_asked_for_by_name_only_directories_may_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = Metadata { mode: 0o755, modified: THEN, ..Metadata::default() };
    let file = |path: &str| Entry { path: path.into(), size: 0, metadata: metadata.clone(), holes: Vec::new() };
    let contents = Contents {
        files: vec![file("d/e/x"), file("f")],
        directories: ["d", "d/e"].map(|path| crate::Directory { path: path.into(), metadata: metadata.clone() }).into(),
        ..Contents::default()
    };
    let manifest = Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap());
    let obstacles = |names: &[&str]| {
        let filter = Filter::default().only(names.iter().map(|name| name.as_bytes().to_vec()));
        let site = Site::Beneath { root: dir.path().to_owned(), path: Vec::new() };
        Plan::new(&site, Arc::clone(&manifest), &filter, Existing::Refuse).unwrap().obstacles().map(|(error, _)| error)
    };
    fs::write(dir.path().join("mine"), b"").unwrap();
    assert!(obstacles(&["f", "d/e", "d/e/x"]).is_none());
    fs::create_dir_all(dir.path().join("d/e")).unwrap();
    assert!(obstacles(&["f", "d/e"]).is_none());
    fs::write(dir.path().join("d/e/mine"), b"").unwrap();
    assert!(obstacles(&["f", "d/e/x"]).is_none());
    let error = obstacles(&["f", "d/e"]).unwrap();
    assert!(matches!(error, LandingError::WouldAdd { additions: 1, is_named: false, .. }), "{error}");
}

#[test]
fn a_file_lands_under_the_one_of_its_names_that_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(&dir, &[Rule::Include("/z".to_owned())], Existing::Refuse);
    assert_eq!(plan.files(), [Fate::Fetch, Fate::LeftOut]);
    assert_eq!(plan.bytes(), 4);
    land(plan);
    let names: Vec<_> = fs::read_dir(dir.path().join("set")).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert_eq!(names, ["z"]);
}

#[test]
fn names_that_came_apart_are_joined() {
    let dir = landed();
    let z = dir.path().join("set/z");
    fs::remove_file(&z).unwrap();
    land(plan(&dir, &[], Existing::Keep));
    assert_eq!(number(&dir, "a"), number(&dir, "z"));
    // A copy with the same size and time.
    fs::remove_file(&z).unwrap();
    fs::copy(dir.path().join("set/a"), &z).unwrap();
    let times = dir.path().join("set/a").metadata().unwrap().modified().unwrap();
    File::open(&z).unwrap().set_modified(times).unwrap();
    land(plan(&dir, &[], Existing::Refuse));
    assert_eq!(number(&dir, "a"), number(&dir, "z"));
    assert_eq!(fs::read_dir(dir.path().join("set")).unwrap().count(), 4);
}

#[test]
fn settle_goes_by_the_bytes() {
    let dir = landed();
    let mut plan = plan(&dir, &[], Existing::Replace);
    assert_eq!(plan.same_size(), [0, 1]);
    plan.settle(1, false);
    assert_eq!(plan.files(), [Fate::Keep, Fate::Replace]);
    plan.settle(1, true);
    assert_eq!(plan.files()[1], Fate::Keep);
}
