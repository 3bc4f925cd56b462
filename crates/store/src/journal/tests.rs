use proptest::prelude::*;

use super::*;
use crate::{Contents, Directory, Entry, Metadata, Timestamp};

fn manifest(sizes: &[(&str, u64)]) -> Manifest {
    let entry = |&(path, size): &(&str, u64)| Entry {
        path: path.into(),
        size,
        metadata: Metadata { modified: Timestamp { seconds: 7, nanos: 0 }, ..Metadata::default() },
        holes: Vec::new(),
    };
    let directories = vec![Directory { path: b"d".to_vec(), ..Directory::default() }];
    let files = sizes.iter().map(entry).collect();
    Manifest::new(b"set".to_vec(), Kind::Directory, Contents { files, directories, ..Contents::default() }).unwrap()
}

/// A journal that has one record of every kind.
fn records() -> Vec<Record> {
    vec![
        Record::Manifest(Arc::new(manifest(&[("a", 3 * GROUP_BYTES), ("d/b", 5)]))),
        Record::Made { directory: None },
        Record::Made { directory: Some(0) },
        Record::Verified { file: 0, group: 2, digest: [1; 32] },
        Record::Verified { file: 1, group: 0, digest: [2; 32] },
        Record::Named { file: 1 },
        Record::Synced { bytes: 90 },
    ]
}

#[test]
fn read_gives_back_what_was_written() {
    let bytes = encode(&records());
    let replay = Replay::read(&bytes).unwrap();
    assert_eq!(replay.manifest, Some(manifest(&[("a", 3 * GROUP_BYTES), ("d/b", 5)])));
    let verified: Vec<_> = replay.verified.iter().map(|(key, group)| (*key, group.digest)).collect();
    assert_eq!(verified, [((0, 2), [1; 32]), ((1, 0), [2; 32])]);
    let named: Vec<_> = replay.named.iter().map(|(file, named)| (*file, named.size)).collect();
    assert_eq!((named, &replay.made), (vec![(1, 5)], &BTreeSet::from([0])));
    assert!(replay.made_target);
    assert_eq!((replay.sound_bytes, replay.synced_bytes), (bytes.len() as u64, 90));
}

#[test]
fn read_takes_no_records_that_followed_others_before_a_cut() {
    let verified = |group, byte| Record::Verified { file: 0, group, digest: [byte; 32] };
    let set = || Record::Manifest(Arc::new(manifest(&[("a", 3 * GROUP_BYTES)])));
    let before = encode(&[set(), verified(0, 1), verified(1, 1)]);
    let now = encode(&[set(), verified(2, 2)]);
    // The end of the file as it was before comes back behind the new one.
    let bytes = [&now, &before[now.len()..]].concat();
    assert_eq!(bytes.len(), before.len());
    let replay = Replay::read(&bytes).unwrap();
    assert_eq!(replay.verified.keys().collect::<Vec<_>>(), [&(0, 2)]);
    assert_eq!(replay.sound_bytes, now.len() as u64);
}

#[test]
fn read_of_a_manifest_in_pieces_needs_all_of_them() {
    // Names that differ from the first letter on: what they shared would be said only once.
    let names: Vec<String> =
        (0..20_000).map(|k| format!("{k:05}-a-name-that-fills-the-list-quickly-{k:060}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let bytes = encode(&[Record::Manifest(Arc::new(manifest(&files))), Record::Named { file: 19_999 }]);
    assert!(bytes.len() > PIECE_BYTES_MAX);
    assert_eq!(Replay::read(&bytes).unwrap().named.len(), 1);
    let torn = Replay::read(&bytes[..PIECE_BYTES_MAX + 100]).unwrap();
    assert_eq!((torn.manifest, torn.sound_bytes), (None, HEADER_BYTES));
}

#[test]
fn read_takes_torn_headers_for_empty_and_refuses_other_files() {
    for torn in [&b""[..], b"IH", b"IH\0\0", &[0; 4096], &[&[0; 600][..], b"the rest"].concat()] {
        assert_eq!(Replay::read(torn), Ok(Replay::default()), "{torn:?}");
    }
    for other in [&b"#!"[..], b"IH\n", b"IH!\x03", b"some file of the user's", &[0xff; 100]] {
        assert_eq!(Replay::read(other), Err(NotAJournal), "{other:?}");
    }
    assert_eq!(Replay::read(b"IHJ\x03 whatever comes next"), Ok(Replay::default()));
}

#[test]
fn read_stops_at_records_that_make_no_sense() {
    for wrong in [
        Record::Verified { file: 2, group: 0, digest: [0; 32] },
        Record::Verified { file: 0, group: 3, digest: [0; 32] },
        Record::Named { file: 2 },
        Record::Made { directory: Some(1) },
        Record::Synced { bytes: u64::MAX },
    ] {
        let mut all = records();
        let sound = encode(&all).len() as u64;
        all.extend([wrong, Record::Named { file: 0 }]);
        let replay = Replay::read(&encode(&all)).unwrap();
        assert_eq!((replay.sound_bytes, replay.named.len()), (sound, 1));
    }
    let headless = Replay::read(&encode(&[Record::Named { file: 0 }])).unwrap();
    assert_eq!((headless.named.len(), headless.sound_bytes), (0, HEADER_BYTES));
}

#[test]
fn adopt_keeps_what_both_data_sets_have_and_names_the_changes() {
    let g = GROUP_BYTES;
    let old = manifest(&[("a", 3 * g), ("b", 3 * g), ("c", 9), ("d/x", g), ("e", 2 * g + 1)]);
    let verified = |file, group| Record::Verified { file, group, digest: [file as u8; 32] };
    let mut all = vec![Record::Manifest(Arc::new(old)), Record::Made { directory: Some(0) }, Record::Named { file: 3 }];
    all.extend([verified(0, 2), verified(1, 0), verified(1, 2), verified(2, 0), verified(3, 0), verified(4, 2)]);
    let replay = Replay::read(&encode(&all)).unwrap();
    let (kept, changes) =
        replay.adopt(manifest(&[("a", 3 * g), ("b", 2 * g + 7), ("d/x", 2 * g), ("e", 3 * g), ("f", 0)]));
    // 'b' keeps the group that is whole in both; the only group of 'd/x' had the digest of a whole file.
    assert_eq!(kept.verified.keys().copied().collect::<Vec<_>>(), [(0, 2), (1, 0)]);
    let named: Vec<_> = kept.named.iter().map(|(file, named)| (*file, named.size)).collect();
    assert_eq!((named, kept.made), (vec![(2, g)], BTreeSet::from([0])));
    let words: Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), 5, "{words:?}");
    assert_eq!(words[1], "'c' is gone");
    assert_eq!(words[2], "'d/x' has 2.1 MB instead of 1.0 MB");
    assert_eq!(words[4], "'f' is new");
}

#[test]
fn adopt_starts_anew_when_a_file_has_become_a_directory() {
    let file = Entry { path: b"set".to_vec(), size: 5, ..Entry::default() };
    let contents = Contents { files: vec![file], ..Contents::default() };
    let file = Manifest::new(b"set".to_vec(), Kind::File, contents).unwrap();
    let (kept, _) = Replay::read(&encode(&records())).unwrap().adopt(file.clone());
    assert_eq!((kept.manifest, kept.verified.len(), kept.made_target), (Some(file), 0, false));
}

proptest! {
    #[test]
    fn torn_anywhere_what_is_sound_is_what_was_written_first(cut in any::<prop::sample::Index>()) {
        let all = records();
        let bytes = encode(&all);
        let torn = &bytes[..HEADER_BYTES as usize + cut.index(bytes.len() - HEADER_BYTES as usize)];
        let replay = Replay::read(torn).unwrap();
        let whole = (0..=all.len()).rev().find(|&count| encode(&all[..count]).len() <= torn.len()).unwrap();
        prop_assert_eq!(replay, Replay::read(&encode(&all[..whole])).unwrap());
    }

    #[test]
    fn a_flipped_bit_ends_what_is_read_before_it(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = encode(&records());
        let at = HEADER_BYTES as usize + at.index(bytes.len() - HEADER_BYTES as usize);
        bytes[at] ^= 1 << bit;
        prop_assert!(Replay::read(&bytes).unwrap().sound_bytes <= at as u64);
    }

    #[test]
    fn a_damaged_header_costs_nothing_but_another_version_all(at in 0..HEADER_BYTES as usize, byte in any::<u8>()) {
        let mut bytes = encode(&records());
        let whole = Replay::read(&bytes).unwrap();
        let is_version = at == MAGIC.len() && byte != VERSION;
        bytes[at] = byte;
        prop_assert_eq!(Replay::read(&bytes).unwrap(), if is_version { Replay::default() } else { whole });
    }
}

#[test]
fn a_journal_that_was_closed_is_free_whoever_has_a_copy_of_its_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let directory = || crate::beneath::Beneath::at(dir.path()).unwrap();
    let (mut journal, ..) = Journal::open(directory(), b"j".to_vec()).unwrap();
    journal.append(&records()).unwrap();
    // As a program that is being started has it.
    let _copy = journal.file().unwrap();
    assert!(Journal::is_locked(&directory(), b"j"));
    assert!(matches!(Journal::open(directory(), b"j".to_vec()), Err(OpenError::Locked)));
    drop(journal);
    assert!(!Journal::is_locked(&directory(), b"j"));
    let (.., replay) = Journal::open(directory(), b"j".to_vec()).unwrap();
    assert_eq!(replay.verified.len(), 2);
}

#[test]
fn a_journal_that_cannot_be_begun_stays_and_says_whose_the_partial_files_are() {
    use crate::disk::faulty::{Faults, FaultyDisk};

    for (bytes, is_there_before) in [(&b""[..], true), (b"IHJ", true), (b"", false)] {
        let dir = tempfile::tempdir().unwrap();
        let open = || Journal::open(crate::beneath::Beneath::at(dir.path()).unwrap(), b"j".to_vec());
        let path = dir.path().join("j");
        if is_there_before {
            std::fs::write(&path, bytes).unwrap();
        }
        // Whatever is written does not fit.
        let (_, opened, has_failed) =
            FaultyDisk::of(dir.path(), 0).run(Faults { full: 1, ..Faults::default() }, || open().map(drop));
        assert!(has_failed && opened.is_err());
        assert_eq!(path.exists(), is_there_before);
    }
    // One that is to be forgotten is not removed by that.
    let dir = tempfile::tempdir().unwrap();
    let open = || Journal::open(crate::beneath::Beneath::at(dir.path()).unwrap(), b"j".to_vec()).unwrap();
    std::fs::write(dir.path().join("j"), encode(&records())).unwrap();
    let (mut journal, ..) = open();
    let disk = FaultyDisk::of(dir.path(), 0);
    let (_, cleared, _) = disk.run(Faults { full: 1, ..Faults::default() }, || journal.clear());
    assert!(cleared.is_err());
    drop(journal);
    assert!(open().1.was_there);
}
