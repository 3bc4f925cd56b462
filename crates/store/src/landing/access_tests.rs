//! Landings of a user who is not root. Tests that run as root become an ordinary user for the time of a thread.

use std::fs::{self, Permissions};
use std::io::IoSlice;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

use rustix::process::{Gid, Uid};

use super::{Landing, LandingError, LandingOptions, Site};
use crate::digest::{GROUP_BYTES, group_digest};
use crate::filter::Filter;
use crate::plan::{Existing, Plan};
use crate::{Contents, Directory, Entry, HardLink, Kind, Manifest, Metadata, Symlink, Timestamp};

/// Nobody, whom all systems have.
const USER: u32 = 65534;

/// A directory of an ordinary user, and `work` in it as that user.
fn as_user(work: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        chown(dir.path(), Some(USER), Some(USER)).unwrap();
    }
    std::thread::scope(|scope| {
        let run = || {
            if is_root {
                // Of this thread alone; with the user its rights over files go.
                let (user, group) = (Uid::from_raw(USER), Gid::from_raw(USER));
                rustix::thread::set_thread_res_gid(group, group, group).unwrap();
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            work(dir.path());
        };
        scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn file(path: &str, mode: u32, size: u64, seconds: i64) -> Entry {
    let metadata = Metadata { mode, modified: Timestamp { seconds, nanos: 0 }, ..Metadata::default() };
    Entry { path: path.into(), size, metadata, holes: Vec::new() }
}

fn set(files: Vec<Entry>, top: u32) -> Arc<Manifest> {
    let of = |mode| Metadata { mode, ..Metadata::default() };
    let directories = ["ro", "ro/deep"].map(|path| Directory { path: path.into(), metadata: of(0o555) });
    let contents = Contents { top: of(top), files, directories: directories.into(), ..Contents::default() };
    Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
}

fn begin(dir: &Path, set: &Arc<Manifest>, existing: Existing) -> Result<Landing, LandingError> {
    let plan = Plan::new(&Site::As(dir.join("set")), Arc::clone(set), &Filter::default(), existing)?;
    Landing::carry_out(plan, LandingOptions { existing, ..LandingOptions::default() })
}

/// Brings file `index`, all `byte`.
fn bring(landing: &Landing, index: usize, byte: u8) {
    let range = landing.manifest().file_range(index).unwrap();
    let bytes = vec![byte; range.len() as usize];
    landing.write(range.start, &[IoSlice::new(&bytes)]).unwrap();
    landing.record_verified(index, 0, group_digest(range.len(), 0, &bytes)).unwrap();
}

fn land(dir: &Path, set: &Arc<Manifest>, existing: Existing, byte: u8) -> Result<usize, LandingError> {
    let landing = begin(dir, set, existing)?;
    let fetched: Vec<usize> = (0..set.entries().len()).filter(|&index| landing.lands(index)).collect();
    for &index in &fetched {
        bring(&landing, index, byte);
        landing.finish_file(index)?;
    }
    landing.finish()?;
    Ok(fetched.len())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn open_all(dir: &Path) {
    for path in ["set", "set/ro", "set/ro/deep"] {
        let _ = fs::set_permissions(dir.join(path), Permissions::from_mode(0o755));
    }
}

#[test]
fn a_tree_with_directories_that_may_not_be_written_to_is_brought_up_to_date() {
    as_user(|dir| {
        let before = set(vec![file("ro/deep/f", 0o444, 3, 1), file("ro/g", 0o444, 3, 1)], 0o555);
        assert_eq!(land(dir, &before, Existing::Refuse, b'o').unwrap(), 2);
        assert_eq!(land(dir, &before, Existing::Refuse, b'o').unwrap(), 0, "there is nothing to do");
        let after =
            set(vec![file("new", 0o444, 3, 1), file("ro/deep/f", 0o444, 4, 2), file("ro/g", 0o444, 3, 1)], 0o555);
        let paths = ["set", "set/ro", "set/ro/deep"].map(|path| dir.join(path));
        Landing::rehearse(
            &mut Plan::new(&Site::As(dir.join("set")), Arc::clone(&after), &Filter::default(), Existing::Update)
                .unwrap(),
            LandingOptions { existing: Existing::Update, ..LandingOptions::default() },
        )
        .unwrap();
        // One that is given up leaves all as it was.
        let landing = begin(dir, &after, Existing::Update).unwrap();
        assert_eq!(mode(&paths[2]), 0o755);
        assert_eq!(mode(&paths[1]), 0o555, "nothing lands straight in it");
        drop(landing);
        assert_eq!(paths.clone().map(|path| mode(&path)), [0o555; 3]);
        assert_eq!(land(dir, &after, Existing::Update, b'n').unwrap(), 2);
        assert_eq!(paths.clone().map(|path| mode(&path)), [0o555; 3]);
        assert_eq!(fs::read(dir.join("set/ro/deep/f")).unwrap(), b"nnnn");
        open_all(dir);
    });
}

#[test]
fn what_was_lifted_when_a_transfer_was_killed_is_set_right_by_the_next() {
    as_user(|dir| {
        let before = set(vec![file("ro/f", 0o444, 3, 1)], 0o755);
        land(dir, &before, Existing::Refuse, b'o').unwrap();
        let after = set(vec![file("ro/f", 0o444, 4, 2)], 0o755);
        let landing = begin(dir, &after, Existing::Update).unwrap();
        bring(&landing, 0, b'n');
        // Killed: nothing is set right.
        let journal = fs::read(dir.join("set.inhaul")).unwrap();
        drop(landing);
        fs::write(dir.join("set.inhaul"), journal).unwrap();
        fs::set_permissions(dir.join("set/ro"), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(land(dir, &after, Existing::Update, b'n').unwrap(), 1);
        assert_eq!(mode(&dir.join("set/ro")), 0o555);
        open_all(dir);
    });
}

#[test]
fn permissions_that_are_not_the_data_sets_come_back() {
    as_user(|dir| {
        let before = set(vec![file("ro/f", 0o444, 3, 1)], 0o755);
        land(dir, &before, Existing::Refuse, b'o').unwrap();
        fs::set_permissions(dir.join("set/ro"), Permissions::from_mode(0o500)).unwrap();
        let after = set(vec![file("ro/f", 0o444, 4, 2)], 0o755);
        assert_eq!(land(dir, &after, Existing::Update, b'n').unwrap(), 1);
        assert_eq!(mode(&dir.join("set/ro")), 0o500);
        open_all(dir);
    });
}

#[test]
fn a_file_that_its_owner_may_not_read_is_resumed() {
    as_user(|dir| {
        let size = 2 * GROUP_BYTES;
        let both = set(vec![file("a", 0, 3, 1), file("b", 0o644, size, 1)], 0o755);
        let landing = begin(dir, &both, Existing::Refuse).unwrap();
        bring(&landing, 0, b'a');
        landing.finish_file(0).unwrap();
        landing.suspend();
        drop(landing);
        assert_eq!(mode(&dir.join("set/a")), 0);
        let landing = begin(dir, &both, Existing::Refuse).unwrap();
        let held = landing.resumed().groups.clone();
        assert_eq!(held.len(), 1);
        assert!(landing.recheck(&held[0], &mut Vec::new()).unwrap());
        landing.finish_file(0).unwrap();
        for group in 0..2 {
            landing.write(3 + group * GROUP_BYTES, &[IoSlice::new(&vec![b'b'; GROUP_BYTES as usize])]).unwrap();
        }
        // Sealed, it has its permissions and not its name.
        landing.finish_file(1).unwrap();
        landing.finish().unwrap();
        drop(landing);
        assert_eq!(mode(&dir.join("set/a")), 0);
        assert!(!begin(dir, &both, Existing::Refuse).unwrap().lands(0));
        let plan = Plan::new(&Site::As(dir.join("set")), both, &Filter::default(), Existing::Refuse).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut plan.open_existing(0).unwrap(), &mut text).unwrap();
        assert_eq!((text.as_str(), mode(&dir.join("set/a"))), ("aaa", 0), "it is compared, and as it was");
    });
}

#[test]
fn a_tree_whose_directories_may_not_be_searched_or_read_is_there_the_second_time() {
    for bits in [0o000, 0o100, 0o200, 0o300, 0o400, 0o444, 0o600, 0o666, 0o111, 0o333] {
        as_user(|dir| {
            let of = |mode| Metadata { mode, ..Metadata::default() };
            let with = |files: Vec<Entry>, top: u32| {
                let directories = ["d", "d/e"].map(|path| Directory { path: path.into(), metadata: of(bits) });
                let link = |path: &str, target: &str| Symlink {
                    path: path.into(),
                    target: target.into(),
                    metadata: of(0o777),
                };
                let symlinks = vec![link("d/e/l", "k")];
                let hard_links = vec![HardLink { path: b"d/h".to_vec(), file: b"d/e/k".to_vec() }];
                let (directories, top) = (directories.into(), of(top));
                let contents = Contents { top, files, directories, symlinks, hard_links, ..Contents::default() };
                Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
            };
            for top in [0o755, bits] {
                let before = with(vec![file("d/e/k", 0o644, 3, 1), file("f", 0o644, 3, 1)], top);
                assert_eq!(land(dir, &before, Existing::Refuse, b'o').unwrap(), 2, "{bits:o}");
                for existing in [Existing::Refuse, Existing::Update, Existing::Replace, Existing::Keep] {
                    assert_eq!(land(dir, &before, existing, b'o').unwrap(), 0, "{bits:o} {existing:?}");
                }
                let site = Site::As(dir.join("set"));
                let plan = Plan::new(&site, Arc::clone(&before), &Filter::default(), Existing::Refuse).unwrap();
                assert_eq!(plan.same_size(), [0, 1]);
                plan.open_existing(0).unwrap();
                let after = with(vec![file("d/e/k", 0o644, 4, 2), file("f", 0o644, 4, 2)], top);
                assert_eq!(land(dir, &after, Existing::Update, b'n').unwrap(), 2, "{bits:o}");
                let paths = ["set", "set/d", "set/d/e"].map(|path| dir.join(path));
                for (path, mode_then) in paths.iter().zip([top, bits, bits]) {
                    assert_eq!(mode(path), mode_then);
                    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
                }
                assert_eq!(fs::read(dir.join("set/d/e/k")).unwrap(), b"nnnn");
                fs::remove_dir_all(dir.join("set")).unwrap();
            }
        });
    }
}

#[test]
fn what_is_somebody_elses_is_not_opened() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    as_user(|dir| {
        // Made before as this user; what is root's is looked at below.
        fs::create_dir(dir.join("set")).unwrap();
        assert!(crate::beneath::Beneath::at(dir).unwrap().own(b"set").is_ok());
        assert!(crate::beneath::Beneath::at(Path::new("/")).unwrap().own(b"etc").is_err());
        assert!(
            crate::beneath::Beneath::at(Path::new("/etc"))
                .unwrap()
                .open_own(b"shadow", rustix::fs::OFlags::RDONLY)
                .is_err()
        );
    });
}
