//! What a landing finds of an earlier one that was ended in different ways.

use std::fs;
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use inhaul_base::ByteRange;

use super::{HeldGroup, Landing, LandingError, LandingOptions};
use crate::digest::{GROUP_BYTES, group_count, group_digest, group_range};
use crate::journal::Change;
use crate::{Contents, Entry, Kind, Manifest, Metadata, Timestamp};

/// Of a data set of `a` (two groups and a bit), `b` (one byte) and `c` (one group).
fn set(sizes: [u64; 3]) -> Arc<Manifest> {
    let modified = Timestamp { seconds: 1_000_000_000, nanos: 0 };
    let metadata = Metadata { mode: 0o400, modified, ..Metadata::default() };
    let entry =
        |(path, size): (&str, u64)| Entry { path: path.into(), size, metadata: metadata.clone(), holes: Vec::new() };
    let files = ["a", "b", "c"].into_iter().zip(sizes).map(entry).collect();
    let top = Metadata { mode: 0o755, ..Metadata::default() };
    Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, Contents { top, files, ..Contents::default() }).unwrap())
}

const SIZES: [u64; 3] = [2 * GROUP_BYTES + 5, 1, GROUP_BYTES];

fn create(dir: &Path, sizes: [u64; 3]) -> Landing {
    Landing::create(dir, set(sizes), LandingOptions::default()).unwrap()
}

/// Brings a group of sevens and records it as verified; says what was recorded.
fn bring(landing: &Landing, file: usize, group: u64) -> HeldGroup {
    let size = landing.manifest().entries()[file].size;
    let range = group_range(size, group);
    let bytes = vec![7; range.len() as usize];
    let start = landing.manifest().file_range(file).unwrap().start;
    landing.write(start + range.start, &[IoSlice::new(&bytes)]).unwrap();
    let digest = group_digest(size, group, &bytes);
    landing.record_verified(file, group, digest).unwrap();
    HeldGroup { file, group, digest, synced: true }
}

/// A landing that was ended after it had brought the last group of `a` and all of `b`, which has its name.
fn interrupted(dir: &Path) -> Vec<HeldGroup> {
    let landing = create(dir, SIZES);
    let held = vec![bring(&landing, 0, 2), bring(&landing, 1, 0)];
    landing.write(2 * GROUP_BYTES + 6, &[IoSlice::new(&[7; 9])]).unwrap();
    landing.finish_file(1).unwrap();
    assert_eq!(landing.kept_bytes(), 6);
    landing.sync().unwrap();
    held
}

/// Brings what is missing and finishes; nothing but the data set may be there afterwards.
fn complete(dir: &Path, landing: Landing) {
    for file in 0..3 {
        let size = landing.manifest().entries()[file].size;
        let is_held = |group| landing.resumed().groups.iter().any(|held| (held.file, held.group) == (file, group));
        for group in (0..group_count(size)).filter(|&group| !is_held(group)) {
            bring(&landing, file, group);
        }
        landing.finish_file(file).unwrap();
    }
    let sizes: Vec<u64> = landing.manifest().entries().iter().map(|entry| entry.size).collect();
    landing.finish().unwrap();
    drop(landing);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
    for (name, size) in ["a", "b", "c"].into_iter().zip(sizes) {
        assert!(fs::read(dir.join("set").join(name)).unwrap() == vec![7; size as usize], "{name}");
    }
}

#[test]
fn a_landing_goes_on_where_an_earlier_one_was() {
    let dir = tempfile::tempdir().unwrap();
    let held = interrupted(dir.path());
    let landing = create(dir.path(), SIZES);
    assert_eq!((landing.resumed().groups.as_slice(), landing.kept_bytes()), (held.as_slice(), 6));
    assert_eq!(landing.resumed().changes, []);
    let mut bytes = Vec::new();
    for HeldGroup { file, group, digest, .. } in held {
        landing.read_group(file, group, &mut bytes).unwrap();
        assert_eq!(group_digest(SIZES[file], group, &bytes), digest);
    }
    complete(dir.path(), landing);
}

#[test]
fn a_landing_that_is_interrupted_again_keeps_both_parts() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    let landing = create(dir.path(), SIZES);
    bring(&landing, 0, 0);
    assert_eq!(landing.suspend(), GROUP_BYTES + 6);
    assert!(landing.write(0, &[IoSlice::new(b"late")]).is_err());
    drop(landing);
    let landing = create(dir.path(), SIZES);
    assert_eq!(landing.resumed().groups.len(), 3);
    complete(dir.path(), landing);
}

#[test]
fn a_landing_that_was_killed_between_sealing_and_naming_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    fs::rename(dir.path().join("set/b"), dir.path().join("set/b.partial")).unwrap();
    let landing = create(dir.path(), SIZES);
    assert_eq!(landing.resumed().groups.len(), 2);
    complete(dir.path(), landing);
}

#[test]
fn groups_whose_files_are_gone_are_not_held() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    fs::remove_file(dir.path().join("set/a.partial")).unwrap();
    fs::remove_file(dir.path().join("set/b")).unwrap();
    let landing = create(dir.path(), SIZES);
    assert_eq!((landing.resumed().groups.len(), landing.kept_bytes()), (0, 0));
    complete(dir.path(), landing);
}

#[test]
fn a_file_that_has_its_name_loses_it_before_it_is_written_to() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    let landing = create(dir.path(), SIZES);
    landing.drop_held(1, 0);
    bring(&landing, 1, 0);
    assert!(!dir.path().join("set/b").exists());
    assert_eq!(landing.kept_bytes(), 6);
    complete(dir.path(), landing);
}

#[test]
fn what_a_changed_data_set_still_has_is_held() {
    let dir = tempfile::tempdir().unwrap();
    {
        let landing = create(dir.path(), SIZES);
        bring(&landing, 0, 0);
        bring(&landing, 0, 2);
        bring(&landing, 1, 0);
        landing.finish_file(1).unwrap();
    }
    let sizes = [GROUP_BYTES + 1, 2, GROUP_BYTES];
    let landing = create(dir.path(), sizes);
    let held: Vec<_> = landing.resumed().groups.iter().map(|held| (held.file, held.group)).collect();
    assert_eq!(held, [(0, 0)]);
    let resized = |path: &[u8], before, after| Change::Resized { path: path.to_vec(), before, after };
    assert_eq!(landing.resumed().changes, [resized(b"a", SIZES[0], sizes[0]), resized(b"b", 1, 2)]);
    complete(dir.path(), landing);
}

#[test]
fn a_fresh_landing_forgets_what_there_was() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    fs::remove_file(dir.path().join("set/b")).unwrap();
    let options = LandingOptions { fresh: true, ..LandingOptions::default() };
    let landing = Landing::create(dir.path(), set(SIZES), options).unwrap();
    assert_eq!((landing.resumed().groups.len(), landing.kept_bytes()), (0, 0));
    bring(&landing, 2, 0);
    drop(landing);
    let landing = create(dir.path(), SIZES);
    assert_eq!(landing.resumed().groups.len(), 1);
    complete(dir.path(), landing);
}

#[test]
fn abort_after_going_on_leaves_nothing_but_finished_files() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    let landing = create(dir.path(), SIZES);
    landing.abort();
    drop(landing);
    let left: Vec<_> = fs::read_dir(dir.path().join("set")).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert_eq!(left, ["b"]);
    // The journal says that the directory may be added to, and nothing else.
    let landing = create(dir.path(), SIZES);
    assert_eq!((landing.resumed().groups.len(), landing.lands(0), landing.lands(1)), (0, true, false));
}

#[test]
fn what_was_kept_of_a_file_that_was_given_up_goes_with_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let landing = create(dir.path(), SIZES);
    landing.write(0, &[IoSlice::new(&[7; 9])]).unwrap();
    // To continue from; but nothing was verified, of no file.
    landing.give_up(0, true);
    assert_eq!(landing.suspend(), 0);
    drop(landing);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the same command begins anew");
    complete(dir.path(), create(dir.path(), SIZES));
}

#[test]
fn a_torn_journal_costs_what_was_torn_off() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    let path = dir.path().join("set.inhaul");
    let journal = fs::OpenOptions::new().write(true).open(&path).unwrap();
    // The last records are that 'b' is verified, and that it is named.
    journal.set_len(fs::metadata(&path).unwrap().len() - 30).unwrap();
    journal.write_all_at(b"torn", fs::metadata(&path).unwrap().len()).unwrap();
    fs::remove_file(dir.path().join("set/b")).unwrap();
    let landing = create(dir.path(), SIZES);
    let held: Vec<_> = landing.resumed().groups.iter().map(|held| (held.file, held.group)).collect();
    assert_eq!(held, [(0, 2)]);
    complete(dir.path(), landing);
}

#[test]
fn partial_files_are_the_owner_s_to_write_again() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    fs::set_permissions(dir.path().join("set/a.partial"), fs::Permissions::from_mode(0o400)).unwrap();
    complete(dir.path(), create(dir.path(), SIZES));
}

#[test]
fn what_has_become_a_hole_at_the_source_becomes_one_here() {
    let dir = tempfile::tempdir().unwrap();
    let before = create(dir.path(), SIZES);
    let held: Vec<_> = (0..3).map(|group| bring(&before, 0, group)).collect();
    bring(&before, 2, 0);
    before.finish_file(2).unwrap();
    drop(before);
    let plain = set(SIZES);
    let mut files = plain.entries().to_vec();
    files[0].holes = vec![ByteRange::new(5, 2 * GROUP_BYTES)];
    files[2].holes = vec![ByteRange::new(0, GROUP_BYTES)];
    let contents = Contents { top: plain.top().clone(), files, ..Contents::default() };
    let sparse = Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap());
    let landing = Landing::create(dir.path(), sparse, LandingOptions::default()).unwrap();
    // The first group has data; the second has none, and needs no more than to be zeros.
    let left: Vec<_> = landing.resumed().groups.iter().map(|held| (held.group, held.digest)).collect();
    assert_eq!(left, [(0, held[0].digest), (2, held[2].digest)]);
    let mut buffer = Vec::new();
    for (file, group) in [(0, 1), (2, 0)] {
        landing.read_group(file, group, &mut buffer).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 0), "{file} {group}");
    }
    bring(&landing, 1, 0);
    (0..3).for_each(|file| landing.finish_file(file).unwrap());
    landing.finish().unwrap();
    assert!(fs::read(dir.path().join("set/c")).unwrap() == vec![0; GROUP_BYTES as usize]);
}

#[test]
fn a_file_that_the_file_system_cannot_hold_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let size = i64::MAX as u64;
    let files = vec![Entry { path: b"a".to_vec(), size, holes: vec![ByteRange::new(0, size)], ..Entry::default() }];
    let contents = Contents { files, ..Contents::default() };
    let manifest = Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap());
    let file = tempfile::tempfile_in(dir.path()).unwrap();
    match Landing::create(dir.path(), manifest, LandingOptions::default()) {
        Err(LandingError::FileTooLarge { .. }) => assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0),
        Err(error) => panic!("{error}"),
        Ok(_) => file.set_len(size).expect("the file system said that it could"),
    }
}

#[test]
fn suspend_keeps_nothing_where_the_destination_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let landing = create(dir.path(), SIZES);
    bring(&landing, 0, 2);
    fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(landing.suspend(), 0);
}

/// A data set of one file of two groups, as a source calls it.
fn file(name: &str, bytes: u64, seconds: i64) -> Arc<Manifest> {
    let metadata = Metadata { mode: 0o600, modified: Timestamp { seconds, nanos: 0 }, ..Metadata::default() };
    let files = vec![Entry { path: name.into(), size: bytes, metadata, holes: Vec::new() }];
    Arc::new(Manifest::new(name.into(), Kind::File, Contents { files, ..Contents::default() }).unwrap())
}

#[test]
fn what_was_verified_of_another_data_set_is_not_given_up_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let land = |manifest: Arc<Manifest>, options: LandingOptions| {
        let site = crate::Site::As(dir.path().join("it"));
        let plan = crate::Plan::new(&site, manifest, &crate::Filter::default(), options.existing).unwrap();
        Landing::carry_out(plan, options)
    };
    let refuse = LandingOptions::default();
    let first = land(file("a", 2 * GROUP_BYTES, 1), refuse).unwrap();
    bring(&first, 0, 1);
    first.sync().unwrap();
    drop(first);
    let before = fs::read(dir.path().join("it.partial")).unwrap();
    for other in [file("b", 3 * GROUP_BYTES, 1), file("b", 2 * GROUP_BYTES, 2), set(SIZES)] {
        let error = land(other, refuse).unwrap_err();
        assert!(matches!(&error, LandingError::HasAnother { name, bytes: GROUP_BYTES, .. } if name == b"a"), "{error}");
        assert!(error.to_string().contains("--overwrite"), "{error}");
        assert!(fs::read(dir.path().join("it.partial")).unwrap() == before);
    }
    // The same file under another name, and the same one that has changed, go on.
    for same in [file("b", 2 * GROUP_BYTES, 1), file("b", 2 * GROUP_BYTES + 1, 9)] {
        let going_on = land(same, refuse).unwrap();
        assert_eq!(going_on.resumed().groups.len(), 1);
        drop(going_on);
        let _ = land(file("b", 2 * GROUP_BYTES, 1), refuse).unwrap();
    }
    // Who asks for it gets it.
    let replace = LandingOptions { existing: crate::Existing::Replace, ..refuse };
    drop(land(file("c", 5, 1), replace).unwrap());
}

#[test]
fn a_named_file_that_is_written_to_again_is_as_any_partial_one() {
    let dir = tempfile::tempdir().unwrap();
    let landing = create(dir.path(), SIZES);
    let held: Vec<_> = (0..3).map(|group| bring(&landing, 0, group)).collect();
    landing.finish_file(0).unwrap();
    drop(landing);
    let landing = create(dir.path(), SIZES);
    assert_eq!(landing.resumed().groups, held);
    // As if one of its groups were not what its source says.
    landing.drop_held(0, 1);
    bring(&landing, 0, 1);
    let partial = fs::metadata(dir.path().join("set/a.partial")).unwrap();
    assert_eq!(partial.permissions().mode() & 0o777, 0o600, "its owner can write to it");
    assert_eq!(partial.len(), SIZES[0] + 1, "whoever cuts it is noticed");
    assert!(landing.finish_files(&[0]).unwrap().is_empty(), "nobody has disturbed it");
    assert!(fs::read(dir.path().join("set/a")).unwrap() == vec![7; SIZES[0] as usize]);
}
