//! Partial files that another program changes while they land.

use std::fs::{self, File, OpenOptions};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Landing, LandingError, LandingOptions};
use crate::digest::{GROUP_BYTES, GroupDigest, group_count, group_digest, group_range};
use crate::{Contents, Entry, Kind, Manifest, Metadata};

const SIZE: u64 = 3 * GROUP_BYTES + 7;

fn manifest(size: u64) -> Arc<Manifest> {
    let metadata = Metadata { mode: 0o644, ..Metadata::default() };
    let files = vec![Entry { path: b"f".to_vec(), size, metadata, holes: Vec::new() }];
    Arc::new(Manifest::new(b"f".to_vec(), Kind::File, Contents { files, ..Contents::default() }).unwrap())
}

fn create(dir: &Path, size: u64) -> Landing {
    Landing::create(dir, manifest(size), LandingOptions::default()).unwrap()
}

fn bytes(range: std::ops::Range<u64>) -> Vec<u8> {
    range.map(|at| (at * 31 + at / 997) as u8).collect()
}

fn bring(landing: &Landing, size: u64, groups: std::ops::Range<u64>) {
    for group in groups {
        let range = group_range(size, group);
        let group_bytes = bytes(range.start..range.end);
        landing.write(range.start, &[IoSlice::new(&group_bytes)]).unwrap();
        landing.record_verified(0, group, group_digest(size, group, &group_bytes)).unwrap();
    }
}

fn partial(dir: &Path) -> PathBuf {
    dir.join("f.partial")
}

/// A change by another program to a partial file whose first group is verified.
type Deed = fn(&Path);

const DEEDS: [(&str, Deed); 5] = [
    ("written over", |path| {
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"evil", 100).unwrap();
    }),
    ("cut", |path| rustix::fs::ftruncate(OpenOptions::new().write(true).open(path).unwrap(), 1000).unwrap()),
    ("made longer", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(SIZE + 100).unwrap()),
    ("linked", |path| fs::hard_link(path, path.with_extension("too")).unwrap()),
    ("replaced", |path| {
        fs::copy(path, path.with_extension("copy")).unwrap();
        fs::rename(path.with_extension("copy"), path).unwrap();
    }),
];

#[test]
fn what_somebody_has_done_to_a_partial_file_is_noticed() {
    for (deed, act) in DEEDS {
        for before_the_last_group in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let landing = create(dir.path(), SIZE);
            bring(&landing, SIZE, 0..2);
            if before_the_last_group {
                act(&partial(dir.path()));
                bring(&landing, SIZE, 2..4);
            } else {
                bring(&landing, SIZE, 2..4);
                landing.seal(0).unwrap();
                act(&partial(dir.path()));
            }
            let named = landing.finish_files(&[0]).unwrap();
            assert_eq!(named, [0], "{deed}");
            assert!(!dir.path().join("f").exists() && partial(dir.path()).exists(), "{deed}");
        }
    }
}

#[test]
fn what_is_as_it_was_after_all_gets_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let landing = create(dir.path(), SIZE);
    bring(&landing, SIZE, 0..4);
    // A program that only reads is noticed too.
    assert_eq!(fs::read(partial(dir.path())).unwrap().len() as u64, SIZE + 1);
    assert_eq!(landing.finish_files(&[0]).unwrap(), [0]);
    let sealed = landing.seal_again(0).unwrap();
    assert_eq!(sealed.metadata().unwrap().len(), SIZE);
    landing.finish_file(0).unwrap();
    landing.finish().unwrap();
    assert!(fs::read(dir.path().join("f")).unwrap() == bytes(0..SIZE));
}

#[test]
fn a_file_of_one_group_is_as_it_was_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let landing = create(dir.path(), 7);
    bring(&landing, 7, 0..1);
    landing.seal(0).unwrap();
    OpenOptions::new().write(true).open(partial(dir.path())).unwrap().write_all_at(b"evil", 0).unwrap();
    assert!(matches!(landing.finish_file(0), Err(LandingError::Disturbed { .. })));
}

#[test]
fn nothing_is_written_through_another_name() {
    // While it lands, when it is opened again.
    let dir = tempfile::tempdir().unwrap();
    let landing = create(dir.path(), SIZE);
    bring(&landing, SIZE, 0..1);
    landing.lock().open.clear();
    let other = dir.path().join("other");
    fs::hard_link(partial(dir.path()), &other).unwrap();
    let error = landing.write(GROUP_BYTES, &[IoSlice::new(b"more")]).unwrap_err();
    assert!(matches!(error, LandingError::Linked { .. }), "{error}");
    drop(landing);
    // When it is continued: the other name keeps what it is a name of.
    let before = File::open(&other).unwrap().metadata().unwrap().ino();
    let landing = create(dir.path(), SIZE);
    assert_eq!(landing.resumed().groups.len(), 0);
    bring(&landing, SIZE, 0..4);
    landing.finish_file(0).unwrap();
    landing.finish().unwrap();
    assert_ne!(fs::metadata(dir.path().join("f")).unwrap().ino(), before);
    assert!(fs::read(&other).unwrap()[GROUP_BYTES as usize..].iter().all(|byte| *byte == 0));
}

#[test]
fn what_was_there_before_is_taken_up_with_its_guard() {
    let dir = tempfile::tempdir().unwrap();
    let landing = create(dir.path(), SIZE);
    bring(&landing, SIZE, 0..2);
    drop(landing);
    // As it is between being sealed and being named, or as an older release left it.
    OpenOptions::new().write(true).open(partial(dir.path())).unwrap().set_len(SIZE).unwrap();
    let landing = create(dir.path(), SIZE);
    assert_eq!(landing.resumed().groups.len(), 2);
    let mut buffer = Vec::new();
    landing.read_group(0, 0, &mut buffer).unwrap();
    bring(&landing, SIZE, 2..4);
    landing.finish_file(0).unwrap();
    landing.finish().unwrap();
    let digests = |file: &[u8]| -> Vec<GroupDigest> {
        let range = |group| group_range(SIZE, group);
        let of = |group| group_digest(SIZE, group, &file[range(group).start as usize..range(group).end as usize]);
        (0..group_count(SIZE)).map(of).collect()
    };
    assert_eq!(digests(&fs::read(dir.path().join("f")).unwrap()), digests(&bytes(0..SIZE)));
}
