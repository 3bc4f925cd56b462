//! Two runs of one command on file systems of many kinds. The table of what comes of it is in `docs/filesystems.md`.

use std::fs;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::{Landing, LandingError, LandingOptions, Site};
use crate::disk::foreign::{Foreign, OneName};
use crate::file_system::FileSystem;
use crate::filter::Filter;
use crate::plan::{Existing, Plan};
use crate::{Contents, Directory, Entry, HardLink, Kind, Manifest, Metadata, Symlink, Timestamp};

/// Where the table begins and ends in the document.
const BEGIN: &str = "<!-- made by: cargo test -p inhaul-store file_system_tests -->\n";
const END: &str = "<!-- end -->";

const SIGNED_32: [i64; 2] = [-(1 << 31), (1 << 31) - 1];
const WINDOWS: &[u8] = b"\\:*?\"<>|";

/// Keeps everything.
const EXT4: Foreign = Foreign {
    kind: FileSystem::Fine,
    unit: 1,
    seconds: [-(1 << 31), 15_032_385_535],
    symlinks: Ok(()),
    hard_links: Ok(()),
    permissions: Ok(()),
    one_name: OneName::Same,
    refused: b"",
};
const FAT: Foreign = Foreign {
    kind: FileSystem::Fat,
    unit: 2_000_000_000,
    seconds: [315_532_800, 4_354_819_198],
    symlinks: Err(Errno::PERM),
    hard_links: Err(Errno::PERM),
    permissions: Err(Errno::PERM),
    one_name: OneName::Case,
    refused: WINDOWS,
};
const OTHER: Foreign = Foreign { kind: FileSystem::Other, ..EXT4 };

const FILE_SYSTEMS: [(&str, Foreign); 12] = [
    ("ext4, XFS, Btrfs, ZFS, tmpfs", EXT4),
    ("XFS without bigtime", Foreign { seconds: SIGNED_32, ..EXT4 }),
    ("ext2, ext3", Foreign { unit: 1_000_000_000, seconds: SIGNED_32, ..EXT4 }),
    ("ext4 with casefold", Foreign { one_name: OneName::CaseAndForm, ..EXT4 }),
    ("NFSv3", Foreign { seconds: [0, (1 << 32) - 1], ..OTHER }),
    ("UDF", Foreign { unit: 1000, ..OTHER }),
    ("NTFS", Foreign { unit: 100, seconds: [-11_644_473_600, 910_692_730_085], ..OTHER }),
    (
        "SMB to Windows",
        Foreign {
            unit: 100,
            seconds: [-11_644_473_600, 910_692_730_085],
            symlinks: Err(Errno::NOTSUP),
            one_name: OneName::Case,
            refused: WINDOWS,
            ..OTHER
        },
    ),
    (
        "HFS+",
        Foreign {
            unit: 1_000_000_000,
            seconds: [-2_082_844_800, 2_212_122_495],
            one_name: OneName::CaseAndForm,
            refused: b":",
            ..OTHER
        },
    ),
    ("exFAT", Foreign { unit: 10_000_000, seconds: [315_532_800, 4_354_819_199], ..FAT }),
    ("FAT", FAT),
    (
        "FUSE over an object store",
        Foreign { unit: 1_000_000, symlinks: Err(Errno::NOSYS), hard_links: Err(Errno::NOSYS), ..OTHER },
    ),
];

fn metadata(seconds: i64, nanos: u32) -> Metadata {
    Metadata { mode: 0o644, modified: Timestamp { seconds, nanos }, ..Metadata::default() }
}

fn set(files: &[(&str, Metadata)], has_links: bool) -> Arc<Manifest> {
    let file = |(path, metadata): &(&str, Metadata)| Entry {
        path: path.as_bytes().to_vec(),
        size: 4,
        metadata: metadata.clone(),
        holes: Vec::new(),
    };
    let mut contents = Contents {
        top: Metadata { mode: 0o755, ..metadata(1_700_000_000, 1) },
        files: files.iter().map(file).collect(),
        ..Contents::default()
    };
    if has_links {
        let directory = Directory { path: b"d".to_vec(), metadata: Metadata { mode: 0o755, ..metadata(1, 1) } };
        contents.directories.push(directory);
        let (path, target) = (b"d/symlink".to_vec(), b"../now".to_vec());
        contents.symlinks.push(Symlink { path, target, metadata: metadata(1_700_000_000, 1) });
        contents.hard_links.push(HardLink { path: b"d/name".to_vec(), file: b"now".to_vec() });
    }
    Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
}

/// Files of all years, with whole seconds and fractions, and links.
fn all_years() -> Arc<Manifest> {
    let files = [
        ("1890", metadata(-2_524_521_600, 5)),
        ("1960", metadata(-315_619_200, 5)),
        ("now", metadata(1_709_294_401, 123_456_789)),
        ("odd second", metadata(1_709_294_401, 0)),
        ("2045", metadata(2_366_841_601, 123_456_789)),
        ("2110", metadata(4_417_977_601, 123_456_789)),
        ("2500", metadata(16_725_225_601, 0)),
    ];
    set(&files, true)
}

/// What a run has done.
#[derive(Debug)]
struct Run {
    fetched: usize,
    notes: Vec<String>,
}

/// Lands the set as one command does.
fn land(dir: &Path, manifest: &Arc<Manifest>, existing: Existing) -> Result<Run, LandingError> {
    let site = Site::As(dir.join("set"));
    let plan = Plan::new(&site, Arc::clone(manifest), &Filter::default(), existing)?;
    let landing = Landing::carry_out(plan, LandingOptions { existing, ..LandingOptions::default() })?;
    let fetched: Vec<usize> = (0..manifest.entries().len()).filter(|&index| landing.lands(index)).collect();
    for &index in &fetched {
        landing.write(index as u64 * 4, &[IoSlice::new(b"data")])?;
        landing.finish_file(index)?;
    }
    landing.finish()?;
    landing.conclude();
    let mut notes = landing.take_notes();
    // That modes are not kept is so with every run.
    notes.retain(|note| !note.starts_with("the permissions"));
    Ok(Run { fetched: fetched.len(), notes })
}

fn has(what: rustix::io::Result<()>) -> &'static str {
    if what.is_ok() { "yes" } else { "no" }
}

fn unit(nanos: i128) -> String {
    match nanos {
        nanos if nanos >= 1_000_000_000 => format!("{} s", nanos / 1_000_000_000),
        nanos if nanos >= 1_000_000 => format!("{} ms", nanos / 1_000_000),
        nanos if nanos >= 1000 => format!("{} us", nanos / 1000),
        nanos => format!("{nanos} ns"),
    }
}

fn years([first, last]: [i64; 2]) -> String {
    // In years that begin with March: a leap day is the last one.
    let year = |seconds: i64| {
        let days = seconds.div_euclid(86_400) + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        era * 400 + year + i64::from(day >= 306)
    };
    format!("{} to {}", year(first), year(last))
}

/// A row of the table: what the file system is like, and what two runs of one command have done.
fn row(name: &str, disk: Foreign) -> String {
    let dir = tempfile::tempdir().unwrap();
    let all = all_years();
    let first = disk.run(|| land(dir.path(), &all, Existing::Refuse)).unwrap();
    assert_eq!(first.fetched, 7, "{name}");
    let set_dir = dir.path().join("set");
    assert_eq!(fs::read(set_dir.join("d/name")).unwrap(), b"data", "{name}");
    assert_eq!(set_dir.join("d/symlink").symlink_metadata().is_ok(), disk.symlinks.is_ok(), "{name}");
    assert!(!dir.path().join("set.inhaul").exists(), "{name}");
    let again = disk.run(|| land(dir.path(), &all, Existing::Refuse)).unwrap();
    let update = disk.run(|| land(dir.path(), &all, Existing::Update)).unwrap();
    assert_eq!((again.fetched, update.fetched), (0, 0), "{name}: {:?}", again.notes);
    let links = match (disk.symlinks, disk.hard_links) {
        (Ok(()), Ok(())) => "all lands",
        (Err(_), Ok(())) => "symbolic links are left out",
        _ => "symbolic links are left out, hard links become copies",
    };
    assert_eq!(first.notes.len(), usize::from(disk.symlinks.is_err()) + usize::from(disk.hard_links.is_err()));
    assert_eq!(again.notes.len(), usize::from(disk.symlinks.is_err()), "{name}: {:?}", again.notes);
    let two = ["A", "a"].map(|path| (path, metadata(1, 0)));
    let case = result(disk.run(|| land(tempfile::tempdir().unwrap().path(), &set(&two, false), Existing::Replace)));
    let odd = [("a:b", metadata(1, 0))];
    let odd = result(disk.run(|| land(tempfile::tempdir().unwrap().path(), &set(&odd, false), Existing::Replace)));
    format!(
        "| {name} | {} | {} | {} | {} | {case} | {odd} | {links} | nothing is fetched |\n",
        unit(disk.unit),
        years(disk.seconds),
        has(disk.symlinks),
        has(disk.hard_links),
    )
}

fn result(run: Result<Run, LandingError>) -> &'static str {
    match run {
        Ok(_) => "lands",
        Err(LandingError::OneName { .. } | LandingError::NameRefused { .. }) => "refused",
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_same_command_twice_fetches_nothing_and_the_document_says_so() {
    let mut table = "| file system | unit of times | years | symbolic links | hard links | `A` beside `a` | `a:b` | \
                     a transfer | the same command again |\n|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    FILE_SYSTEMS.iter().for_each(|&(name, disk)| table += &row(name, disk));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/filesystems.md");
    let document = fs::read_to_string(path).unwrap();
    let written = document.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(table, _)| table);
    assert!(written == Some(&*table), "docs/filesystems.md has another table than this one:\n{table}");
}

#[test]
fn a_file_of_another_size_is_fetched_on_every_file_system() {
    for (name, disk) in FILE_SYSTEMS {
        let dir = tempfile::tempdir().unwrap();
        let before = set(&[("f", metadata(1_709_294_401, 123_456_789))], false);
        disk.run(|| land(dir.path(), &before, Existing::Refuse)).unwrap();
        fs::write(dir.path().join("set/f"), b"longer").unwrap();
        let refused = disk.run(|| land(dir.path(), &before, Existing::Refuse)).unwrap_err();
        assert!(matches!(refused, LandingError::Exists { .. }), "{name}: {refused}");
        let replaced = disk.run(|| land(dir.path(), &before, Existing::Replace)).unwrap();
        assert_eq!((replaced.fetched, fs::read(dir.path().join("set/f")).unwrap().len()), (1, 4), "{name}");
        // Three seconds later at its source, of the same size.
        let after = set(&[("f", metadata(1_709_294_404, 123_456_789))], false);
        assert_eq!(disk.run(|| land(dir.path(), &after, Existing::Update)).unwrap().fetched, 1, "{name}");
    }
}

#[test]
fn of_two_names_that_are_one_neither_replaces_the_other() {
    let disk = Foreign { one_name: OneName::CaseAndForm, ..OTHER };
    for (first, second) in [("A", "a"), ("\u{e9}", "e\u{301}")] {
        let dir = tempfile::tempdir().unwrap();
        let two = set(&[first, second].map(|path| (path, metadata(1, 0))), false);
        for existing in [Existing::Refuse, Existing::Replace, Existing::Update, Existing::Keep] {
            let error = disk.run(|| land(dir.path(), &two, existing)).unwrap_err();
            assert!(matches!(error, LandingError::OneName { others: 0, .. }), "{error}");
            assert!(error.to_string().contains("are one name on the file system there"), "{error}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
        }
        // One of them alone lands.
        let plan = |rule: &str| {
            let filter = Filter::new(&[crate::Rule::Exclude(rule.to_owned())]).unwrap();
            let plan = Plan::new(&Site::As(dir.path().join("set")), Arc::clone(&two), &filter, Existing::Refuse);
            disk.run(|| Landing::carry_out(plan.unwrap(), LandingOptions::default()).map(drop))
        };
        plan(second).unwrap();
    }
    // Where they are two, both land.
    let dir = tempfile::tempdir().unwrap();
    let two = set(&["A", "a"].map(|path| (path, metadata(1, 0))), false);
    assert_eq!(OTHER.run(|| land(dir.path(), &two, Existing::Refuse)).unwrap().fetched, 2);
    assert_eq!(fs::read_dir(dir.path().join("set")).unwrap().count(), 2, "no trial is left");
}

#[test]
fn a_name_that_is_refused_is_named_with_the_likely_cause_before_anything_is_fetched() {
    for (name, cause) in [("a:b", "Windows, FAT and exFAT have no"), ("d?", "Windows, FAT and exFAT have no")] {
        let dir = tempfile::tempdir().unwrap();
        let odd = set(&[("a", metadata(1, 0)), (name, metadata(1, 0))], false);
        let site = Site::As(dir.path().join("set"));
        let plan = FAT.run(|| Plan::new(&site, odd, &Filter::default(), Existing::Refuse)).unwrap();
        let error = FAT.run(|| Landing::carry_out(plan, LandingOptions::default())).map(drop).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(cause) && text.contains(&format!("/set/{name}'")), "{text}");
        assert!(matches!(error, LandingError::NameRefused { .. }), "{text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }
    // Not known for it, and found out when the file is made.
    let dir = tempfile::tempdir().unwrap();
    let disk = Foreign { refused: b"x", ..EXT4 };
    let error = disk.run(|| land(dir.path(), &set(&[("box", metadata(1, 0))], false), Existing::Refuse)).unwrap_err();
    assert!(error.to_string().contains("does not take the name of"), "{error}");
}

#[test]
fn links_that_cannot_be_made_are_told_and_copies_have_all_of_their_file() {
    for errno in [Errno::PERM, Errno::NOSYS, Errno::NOTSUP, Errno::INVAL, Errno::MLINK, Errno::ACCESS, Errno::XDEV] {
        let disk = Foreign { symlinks: Err(errno), hard_links: Err(errno), ..EXT4 };
        let dir = tempfile::tempdir().unwrap();
        let all = all_years();
        let first = disk.run(|| land(dir.path(), &all, Existing::Refuse)).unwrap();
        assert!(first.notes[0].starts_with("the symbolic link 'd/symlink' was left out: "), "{:?}", first.notes);
        assert!(first.notes[1].starts_with("'d/name' became a copy: "), "{:?}", first.notes);
        let [now, copy] = ["now", "d/name"].map(|name| fs::metadata(dir.path().join("set").join(name)).unwrap());
        assert_eq!(now.modified().unwrap(), copy.modified().unwrap());
        assert_eq!(now.permissions(), copy.permissions());
        // With links all is as at the source.
        assert_eq!(land(dir.path(), &all, Existing::Update).unwrap().notes, [""; 0]);
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(dir.path().join("set/now")).unwrap().nlink(), 2);
        assert!(dir.path().join("set/d/symlink").is_symlink());
    }
}

#[test]
fn a_directory_is_not_added_to_by_links_that_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let all = all_years();
    land(dir.path(), &all, Existing::Refuse).unwrap();
    let link = dir.path().join("set/d/symlink");
    fs::remove_file(&link).unwrap();
    let error = land(dir.path(), &all, Existing::Refuse).unwrap_err();
    assert!(matches!(error, LandingError::WouldAdd { additions: 1, .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path().join("set/d")).unwrap().count(), 1, "no trial is left");
    // Where files are missing, too, it does not matter that there are no links.
    let disk = Foreign { symlinks: Err(Errno::PERM), ..EXT4 };
    assert_eq!(disk.run(|| land(dir.path(), &all, Existing::Refuse)).unwrap().fetched, 0);
    fs::remove_file(dir.path().join("set/2045")).unwrap();
    let error = disk.run(|| land(dir.path(), &all, Existing::Refuse)).unwrap_err();
    assert!(matches!(error, LandingError::WouldAdd { additions: 2, .. }), "{error}");
}

#[test]
fn a_copy_in_place_of_a_link_follows_its_file() {
    let disk = Foreign { hard_links: Err(Errno::PERM), ..EXT4 };
    let dir = tempfile::tempdir().unwrap();
    let all = all_years();
    disk.run(|| land(dir.path(), &all, Existing::Refuse)).unwrap();
    let copy = dir.path().join("set/d/name");
    // It has the size and time of the file, and other bytes; and the file is fetched again.
    let time = fs::metadata(&copy).unwrap().modified().unwrap();
    fs::write(&copy, b"else").unwrap();
    fs::File::open(&copy).unwrap().set_modified(time).unwrap();
    fs::write(dir.path().join("set/now"), b"old").unwrap();
    let again = disk.run(|| land(dir.path(), &all, Existing::Replace)).unwrap();
    assert_eq!((again.fetched, fs::read(&copy).unwrap()), (1, b"data".to_vec()));
    assert_eq!(again.notes.len(), 1);
}

#[test]
fn a_landing_that_is_stopped_while_it_makes_directories_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = Metadata { mode: 0o755, ..Metadata::default() };
    let directory = |k| Directory { path: format!("d{k:02}").into(), metadata: metadata.clone() };
    let directories = (0..50).map(directory).collect();
    let contents = Contents { top: metadata.clone(), directories, ..Contents::default() };
    let manifest = Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap());
    let asked = std::cell::Cell::new(0);
    let is_stopped = || asked.replace(asked.get() + 1) == 20;
    let plan = |manifest| {
        let site = Site::Beneath { root: dir.path().to_owned(), path: b"set".to_vec() };
        Plan::new(&site, manifest, &Filter::default(), Existing::Refuse).unwrap()
    };
    let stopped = Landing::carry_out_unless(&is_stopped, plan(Arc::clone(&manifest)), LandingOptions::default());
    assert!(matches!(stopped, Err(LandingError::Stopped)), "{stopped:?}");
    assert_eq!((asked.get(), fs::read_dir(dir.path()).unwrap().count()), (21, 0));
    let landing = Landing::carry_out_unless(&|| false, plan(manifest), LandingOptions::default()).unwrap();
    landing.finish().unwrap();
    assert_eq!(fs::read_dir(dir.path().join("set")).unwrap().count(), 50);
}
