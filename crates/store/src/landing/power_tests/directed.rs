//! One failure each, at a moment at which chance seldom finds it.

use std::fs;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::scratch;
use crate::digest::{GROUP_BYTES, GroupDigest, group_digest, group_range};
use crate::disk::faulty::{Faults, FaultyDisk};
use crate::{
    Contents, Directory, Entry, Existing, Kind, Landing, LandingError, LandingOptions, Manifest, Metadata, Timestamp,
};

const SEEDS: std::ops::Range<u64> = 0..24;
const SIZE: u64 = 2 * GROUP_BYTES;
const OLD: u8 = b'o';
const NEW: u8 = b'n';

/// The file `d/f` of two groups, as it was changed at `seconds`.
fn set(seconds: i64) -> Arc<Manifest> {
    let metadata = Metadata { mode: 0o640, modified: Timestamp { seconds, nanos: 0 }, ..Metadata::default() };
    let entry = Entry { path: b"d/f".to_vec(), size: SIZE, metadata: metadata.clone(), ..Entry::default() };
    let directory = Directory { path: b"d".to_vec(), metadata: Metadata { mode: 0o750, ..metadata.clone() } };
    let top = Metadata { mode: 0o755, ..metadata };
    let contents = Contents { top, files: vec![entry], directories: vec![directory], ..Contents::default() };
    Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
}

fn create(root: &Path, seconds: i64, existing: Existing) -> Landing {
    let options = LandingOptions { existing, ..LandingOptions::default() };
    Landing::create(root, set(seconds), options).unwrap()
}

fn digest(group: u64, byte: u8) -> GroupDigest {
    group_digest(SIZE, group, &vec![byte; group_range(SIZE, group).len() as usize])
}

/// Brings one group, and records it as verified.
fn bring(landing: &Landing, group: u64, byte: u8) {
    landing.write(group * GROUP_BYTES, &[IoSlice::new(&vec![byte; GROUP_BYTES as usize])]).unwrap();
    landing.record_verified(0, group, digest(group, byte)).unwrap();
}

/// What is at `root` when the power has failed after `work`.
fn after_power_failure(seed: u64, work: impl FnOnce(&Path)) -> tempfile::TempDir {
    let (before, after) = (scratch(), scratch());
    let (mut disk, (), _) = FaultyDisk::of(before.path(), seed).run(Faults::default(), || work(before.path()));
    disk.power_failure(after.path());
    after
}

#[test]
fn what_was_synced_is_held() {
    for seed in SEEDS {
        let after = after_power_failure(seed, |root| {
            let landing = create(root, 1, Existing::Refuse);
            (0..2).for_each(|group| bring(&landing, group, OLD));
            landing.sync().unwrap();
        });
        let landing = create(after.path(), 1, Existing::Refuse);
        let held = landing.resumed().groups.clone();
        assert_eq!(
            held.iter().map(|held| (held.group, held.digest)).collect::<Vec<_>>(),
            [(0, digest(0, OLD)), (1, digest(1, OLD))]
        );
        let mut buffer = Vec::new();
        assert!(held.iter().all(|held| landing.recheck(held, &mut buffer).unwrap()), "seed {seed}");
    }
}

#[test]
fn a_name_that_was_taken_away_does_not_come_back_with_other_bytes() {
    for seed in SEEDS {
        let after = after_power_failure(seed, |root| {
            let landing = create(root, 1, Existing::Refuse);
            (0..2).for_each(|group| bring(&landing, group, OLD));
            landing.finish_file(0).unwrap();
            landing.sync().unwrap();
            drop(landing);
            assert_eq!(fs::read(root.join("set/d/f")).unwrap(), vec![OLD; SIZE as usize]);
            // It has changed at its source.
            let landing = create(root, 2, Existing::Refuse);
            landing.drop_held(0, 1);
            bring(&landing, 1, NEW);
        });
        let name = after.path().join("set/d/f");
        assert!(!name.exists() || fs::read(name).unwrap() == vec![OLD; SIZE as usize], "seed {seed}");
        let held = create(after.path(), 2, Existing::Refuse).resumed().groups.len();
        assert_eq!(held, 2, "seed {seed}: the other bytes are held");
    }
}

#[test]
fn a_name_that_is_on_the_disk_is_known_by_the_journal_there() {
    for seed in SEEDS {
        let after = after_power_failure(seed, |root| {
            let landing = create(root, 1, Existing::Refuse);
            (0..2).for_each(|group| bring(&landing, group, OLD));
            landing.finish_file(0).unwrap();
            drop(landing);
        });
        // It has changed at its source.
        let is_named = after.path().join("set/d/f").exists();
        let options = LandingOptions::default();
        let landing = Landing::create(after.path(), set(2), options).unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert!(!is_named || landing.resumed().groups.len() == 2, "{seed}");
    }
}

#[test]
fn nothing_is_named_after_a_sync_that_failed() {
    let root = scratch();
    let (disk, landing, failed) = FaultyDisk::of(root.path(), 0).run(Faults { sync: 1, ..Faults::default() }, || {
        let landing = create(root.path(), 1, Existing::Refuse);
        (0..2).for_each(|group| bring(&landing, group, OLD));
        assert!(matches!(landing.sync(), Err(LandingError::Io { .. })));
        landing
    });
    assert!(failed);
    // Later syncs say that all is well.
    let (..) = disk.run(Faults::default(), || {
        let error = landing.finish_file(0).unwrap_err();
        assert!(matches!(error, LandingError::NotSynced { .. }), "{error}");
        assert!(matches!(landing.sync(), Err(LandingError::NotSynced { .. })));
    });
    assert!(!root.path().join("set/d/f").exists());
}

#[test]
fn bytes_are_written_and_recorded_while_the_disk_syncs() {
    let root = scratch();
    let landing = Arc::new(create(root.path(), 1, Existing::Refuse));
    bring(&landing, 0, OLD);
    let (written, is_written) = channel();
    let other = Arc::clone(&landing);
    let disk = FaultyDisk::of(root.path(), 0).with_slow_syncs(move || {
        let (landing, done) = (Arc::clone(&other), channel());
        std::thread::spawn(move || {
            bring(&landing, 1, OLD);
            let _ = done.0.send(());
        });
        written.send(done.1.recv_timeout(Duration::from_secs(20)).is_ok()).unwrap();
    });
    let (_, synced, _) = disk.run(Faults::default(), || landing.sync());
    synced.unwrap();
    let during: Vec<bool> = is_written.try_iter().collect();
    // The file, two directories, the one of the journal, and the journal.
    assert!(during.len() >= 4 && during.iter().all(|written| *written), "{during:?}");
}

#[test]
fn a_kill_before_a_file_replaces_one_of_its_size_is_gone_on_from() {
    let root = scratch();
    fs::create_dir_all(root.path().join("set/d")).unwrap();
    let name = root.path().join("set/d/f");
    fs::write(&name, vec![OLD; SIZE as usize]).unwrap();
    let landing = create(root.path(), 1, Existing::Replace);
    (0..2).for_each(|group| bring(&landing, group, NEW));
    landing.finish_file(0).unwrap();
    drop(landing);
    // As it was before the file got its name.
    fs::rename(&name, root.path().join("set/d/f.partial")).unwrap();
    fs::write(&name, vec![OLD; SIZE as usize]).unwrap();
    let landing = create(root.path(), 1, Existing::Replace);
    assert_eq!(landing.resumed().groups.len(), 2);
    landing.finish_file(0).unwrap();
    landing.finish().unwrap();
    assert_eq!(fs::read(&name).unwrap(), vec![NEW; SIZE as usize]);
}
