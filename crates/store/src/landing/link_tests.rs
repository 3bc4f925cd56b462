//! Links that a transfer has made under a partial name, and not named before it ended.

use std::fs;
use std::io::IoSlice;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;

use super::{Landing, LandingError, LandingOptions};
use crate::digest::{GROUP_BYTES, group_count, group_digest, group_range};
use crate::{Contents, Entry, Existing, HardLink, Kind, Manifest, Metadata, Symlink, Timestamp};

/// The empty file `a`, and further names of it.
fn set(symlinks: &[&str], hard_links: &[&str]) -> Arc<Manifest> {
    let metadata = Metadata { mode: 0o755, ..Metadata::default() };
    let files = vec![Entry { path: b"a".to_vec(), metadata: metadata.clone(), ..Entry::default() }];
    let symlinks = symlinks.iter().map(|path| path.as_bytes().to_vec());
    let symlinks = symlinks.map(|path| Symlink { path, target: b"a".to_vec(), metadata: Metadata::default() });
    let hard_links = hard_links.iter().map(|path| HardLink { path: path.as_bytes().to_vec(), file: b"a".to_vec() });
    let (symlinks, hard_links) = (symlinks.collect(), hard_links.collect());
    let contents = Contents { top: metadata, files, symlinks, hard_links, ..Contents::default() };
    Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
}

fn finish(dir: &Path, set: &Arc<Manifest>, existing: Existing) -> Result<(), LandingError> {
    let options = LandingOptions { existing, ..LandingOptions::default() };
    let landing = Landing::create(dir, Arc::clone(set), options)?;
    landing.finish_file(0)?;
    landing.finish()
}

fn listing(dir: &Path) -> Vec<String> {
    let items = fs::read_dir(dir).unwrap().map(|item| item.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = items.collect();
    names.sort();
    names
}

#[test]
fn what_a_transfer_has_left_of_links_goes_whatever_has_become_of_them() {
    for (now, left) in [
        // As it was, with links that were named already or not.
        (set(&["s"], &["l"]), vec!["a", "l", "s"]),
        // They are gone at the source.
        (set(&[], &[]), vec!["a"]),
        // They are something else there.
        (set(&["l"], &["s"]), vec!["a", "l", "s"]),
        // The name that was a partial one is one of the data set.
        (set(&["s.partial"], &[]), vec!["a", "s.partial"]),
    ] {
        for is_named in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join("set").join(name);
            let landing = Landing::create(dir.path(), set(&["s"], &["l"]), LandingOptions::default()).unwrap();
            landing.finish_file(0).unwrap();
            drop(landing);
            // It was ended here.
            symlink("a", path("s.partial")).unwrap();
            fs::hard_link(path("a"), path("l.partial")).unwrap();
            let has_links = is_named && left.len() > 2;
            if has_links && now.symlinks()[0].path == b"s" {
                symlink("a", path("s")).unwrap();
                fs::hard_link(path("a"), path("l")).unwrap();
            }
            finish(dir.path(), &now, Existing::Refuse).unwrap();
            assert_eq!(listing(&dir.path().join("set")), left);
            assert_eq!(listing(dir.path()), ["set"]);
        }
    }
}

#[test]
fn what_is_somebody_elses_is_not_taken_for_a_link_that_was_left() {
    let dir = tempfile::tempdir().unwrap();
    for (set, name) in [(set(&["s"], &[]), "s.partial"), (set(&[], &["l"]), "l.partial")] {
        let theirs = dir.path().join("set").join(name);
        fs::create_dir_all(theirs.parent().unwrap()).unwrap();
        fs::write(&theirs, "thesis").unwrap();
        let error = finish(dir.path(), &set, Existing::Keep).unwrap_err();
        assert!(matches!(&error, LandingError::PartialExists { path } if *path == theirs), "{error}");
        assert_eq!(fs::read(&theirs).unwrap(), b"thesis");
        fs::remove_dir_all(dir.path().join("set")).unwrap();
        let _ = fs::remove_file(dir.path().join("set.inhaul"));
    }
}

/// Brings groups of `a` that are all of `byte`.
fn bring(landing: &Landing, groups: std::ops::Range<u64>, byte: u8) {
    let size = landing.manifest().size();
    for group in groups {
        let bytes = vec![byte; group_range(size, group).len() as usize];
        landing.write(group * GROUP_BYTES, &[IoSlice::new(&bytes)]).unwrap();
        landing.record_verified(0, group, group_digest(size, group, &bytes)).unwrap();
    }
}

#[test]
fn further_names_of_a_file_that_has_changed_since_are_made_again() {
    let of = |size: u64, seconds: i64| {
        let metadata = Metadata { mode: 0o644, modified: Timestamp { seconds, nanos: 0 }, ..Metadata::default() };
        let files = vec![Entry { path: b"a".to_vec(), size, metadata, ..Entry::default() }];
        let hard_links = vec![HardLink { path: b"l".to_vec(), file: b"a".to_vec() }];
        let top = Metadata { mode: 0o755, ..Metadata::default() };
        let contents = Contents { top, files, hard_links, ..Contents::default() };
        Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
    };
    for existing in [Existing::Refuse, Existing::Keep, Existing::Update] {
        for size in [2 * GROUP_BYTES, 3 * GROUP_BYTES] {
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join("set").join(name);
            let options = LandingOptions { existing, ..LandingOptions::default() };
            let landing = Landing::create(dir.path(), of(2 * GROUP_BYTES, 1), options).unwrap();
            bring(&landing, 0..2, b'o');
            landing.finish_file(0).unwrap();
            landing.finish().unwrap();
            // It goes on with other data sets, and is ended.
            landing.suspend();
            drop(landing);
            assert_eq!(fs::metadata(path("l")).unwrap().nlink(), 2);

            let landing = Landing::create(dir.path(), of(size, 2), options).unwrap();
            (0..2).for_each(|group| landing.drop_held(0, group));
            bring(&landing, 0..group_count(size), b'n');
            assert!(!path("l").exists(), "nothing is written through another name");
            landing.finish_file(0).unwrap();
            landing.finish().unwrap();
            drop(landing);
            for name in ["a", "l"] {
                assert!(fs::read(path(name)).unwrap() == vec![b'n'; size as usize], "{name} {existing:?}");
            }
            assert_eq!(fs::metadata(path("a")).unwrap().nlink(), 2);
            assert_eq!(listing(dir.path()), ["set"]);
        }
    }
}
