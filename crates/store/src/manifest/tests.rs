use proptest::prelude::*;

use super::*;

fn file(path: &str, size: u64) -> Entry {
    Entry { path: path.into(), size, mode: 0o644, modified: Timestamp::default() }
}

fn directory(path: &str) -> Directory {
    Directory { path: path.into(), mode: 0o755 }
}

fn tree(entries: Vec<Entry>, directories: Vec<Directory>) -> Result<Manifest, ManifestError> {
    Manifest::new(b"set".to_vec(), Kind::Directory, entries, directories)
}

fn pieces(manifest: &Manifest, range: ByteRange) -> Vec<(usize, u64, u64)> {
    manifest.locate(range).map(|p| (p.file, p.offset, p.len)).collect()
}

#[test]
fn new_sorts_by_path_bytes_and_lays_files_end_to_end() {
    let m = tree(vec![file("b", 3), file("a/x", 5), file("a.txt", 2)], vec![directory("a")]).unwrap();
    let paths: Vec<_> = m.entries().iter().map(|e| printable(&e.path)).collect();
    assert_eq!(paths, ["a.txt", "a/x", "b"]);
    assert_eq!(m.size(), 10);
    assert_eq!(m.file_range(1), Some(ByteRange::new(2, 7)));
    assert_eq!(m.file_range(3), None);
}

#[test]
fn new_refuses_paths_that_lead_elsewhere() {
    let long = "x".repeat(256);
    for path in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0b", &long] {
        let directories = vec![directory("a")];
        let refused = matches!(tree(vec![file(path, 1)], directories), Err(ManifestError::BadPath { .. }));
        assert!(refused, "{path:?}");
    }
    let deep = "d/".repeat(2048) + "f";
    assert!(matches!(tree(vec![file(&deep, 1)], vec![]), Err(ManifestError::BadPath { .. })));
    let name = Manifest::new(b"..".to_vec(), Kind::Directory, vec![], vec![]);
    assert!(matches!(name, Err(ManifestError::BadPath { .. })));
}

#[test]
fn new_refuses_paths_that_contradict_each_other() {
    let twice = tree(vec![file("a", 1), file("a", 2)], vec![]);
    assert_eq!(twice, Err(ManifestError::NotInOrder(b"a".to_vec())));
    let orphan = tree(vec![file("a/b", 1)], vec![]);
    assert_eq!(orphan, Err(ManifestError::NoParent(b"a/b".to_vec())));
    let both = tree(vec![file("a", 1), file("a/b", 1)], vec![directory("a")]);
    assert_eq!(both, Err(ManifestError::FileAndDirectory(b"a".to_vec())));
}

#[test]
fn new_refuses_sizes_modes_and_times_out_of_range() {
    let sum = tree(vec![file("a", SIZE_MAX), file("b", 1)], vec![]);
    assert_eq!(sum, Err(ManifestError::TooLarge));
    assert_eq!(tree(vec![file("a", u64::MAX), file("b", 2)], vec![]), Err(ManifestError::TooLarge));
    let setuid = tree(vec![Entry { mode: 0o4755, ..file("a", 1) }], vec![]);
    assert_eq!(setuid, Err(ManifestError::BadMode(0o4755)));
    let modified = Timestamp { seconds: 0, nanos: 1_000_000_000 };
    assert_eq!(tree(vec![Entry { modified, ..file("a", 1) }], vec![]), Err(ManifestError::BadTime));
}

#[test]
fn new_holds_a_single_file_to_its_name() {
    let single = |path, directories| Manifest::new(b"f".to_vec(), Kind::File, vec![file(path, 1)], directories);
    assert!(single("f", vec![]).is_ok());
    assert_eq!(single("g", vec![]), Err(ManifestError::NotOneFile));
    assert_eq!(single("f", vec![directory("d")]), Err(ManifestError::NotOneFile));
}

#[test]
fn locate_crosses_borders_and_skips_empty_files() {
    let m =
        tree(vec![file("a", 0), file("b", 5), file("c", 0), file("d", 0), file("e", 3), file("f", 0)], vec![]).unwrap();
    assert_eq!(pieces(&m, ByteRange::new(0, 8)), [(1, 0, 5), (4, 0, 3)]);
    assert_eq!(pieces(&m, ByteRange::new(4, 6)), [(1, 4, 1), (4, 0, 1)]);
    assert_eq!(pieces(&m, ByteRange::new(5, 5)), []);
    assert_eq!(pieces(&m, ByteRange::new(7, 100)), [(4, 2, 1)]);
    assert_eq!(pieces(&m, ByteRange::new(8, 9)), []);
}

#[test]
fn identity_is_of_paths_and_sizes_alone() {
    let one = tree(vec![file("a", 1), file("b", 2)], vec![]).unwrap();
    let modified = Timestamp { seconds: 9, nanos: 9 };
    let touched = vec![Entry { modified, mode: 0o600, ..file("a", 1) }, file("b", 2)];
    let mirror = Manifest::new(b"elsewhere".to_vec(), Kind::Directory, touched, vec![]).unwrap();
    assert_eq!(one.identity(), mirror.identity());
    for other in [
        tree(vec![file("a", 2), file("b", 1)], vec![]),
        tree(vec![file("a", 1), file("c", 2)], vec![]),
        tree(vec![file("a", 1), file("b", 2)], vec![directory("empty")]),
    ] {
        assert_ne!(one.identity(), other.unwrap().identity());
    }
}

#[test]
fn identity_of_a_single_file_leaves_its_name_out() {
    let named = |name: &str| Manifest::new(name.into(), Kind::File, vec![file(name, 7)], vec![]).unwrap();
    assert_eq!(named("x").identity(), named("y").identity());
}

#[test]
fn decode_names_another_version() {
    let mut bytes = tree(vec![], vec![]).unwrap().encode();
    bytes[3] = 9;
    assert_eq!(Manifest::decode(&bytes), Err(ManifestError::Version { ours: 1, theirs: 9 }));
    assert_eq!(Manifest::decode(b"GIF89a"), Err(ManifestError::NotAManifest));
}

#[test]
fn decode_refuses_counts_beyond_the_input() {
    // kind directory, name "s", then a count of 2^20 directories and nothing behind it.
    let bytes = b"IHM\x01\x01\x01s\x80\x80\x40\x00";
    assert_eq!(Manifest::decode(bytes), Err(ManifestError::Truncated));
    let bytes = b"IHM\x01\x01\x01s\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(Manifest::decode(bytes), Err(ManifestError::TooMany));
    let bytes = b"IHM\x01\x01\x01s\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
    assert_eq!(Manifest::decode(bytes), Err(ManifestError::BadNumber));
}

#[test]
fn decode_refuses_a_list_that_is_not_sorted() {
    let mut bytes = tree(vec![file("a", 1), file("b", 1)], vec![]).unwrap().encode();
    let b = bytes.iter().rposition(|&byte| byte == b'b').unwrap();
    bytes[b] = b'A';
    assert_eq!(Manifest::decode(&bytes), Err(ManifestError::NotInOrder(b"A".to_vec())));
}

/// Trees of odd names: few letters, so that names meet, and bytes that are no UTF-8.
fn manifests() -> impl Strategy<Value = Manifest> {
    let component = prop_oneof!["[ab]", "[ab]\\.partial", Just("-\n ".to_owned())].prop_map(String::into_bytes);
    let component = prop_oneof![component, Just(vec![0xff, 0xfe]), Just(vec![b'n'; 250])];
    let path = prop::collection::vec(component, 1..4);
    let mode = 0..=MODE_BITS;
    let file = (path.clone(), 0u64..1 << 40, mode.clone(), any::<i64>(), 0u32..1_000_000_000);
    (prop::collection::vec(file, 0..12), prop::collection::vec((path, mode), 0..6)).prop_map(|(files, directories)| {
        let mut tree = Vec::new();
        for (components, mode) in directories {
            add_directory(&mut tree, &[], &components, mode);
        }
        let mut entries: Vec<Entry> = Vec::new();
        for (components, size, mode, seconds, nanos) in files {
            let (_, parents) = components.split_last().unwrap();
            let path = components.join(&b'/');
            let is_prefix = |dir: &Directory| dir.path == path;
            let under_file = (1..=parents.len()).any(|n| has_any(&entries, &parents[..n].join(&b'/')));
            if under_file || tree.iter().any(is_prefix) || has_any(&entries, &path) {
                continue;
            }
            add_directory(&mut tree, &[], parents, 0o755);
            entries.push(Entry { path, size, mode, modified: Timestamp { seconds, nanos } });
        }
        Manifest::new(b"set".to_vec(), Kind::Directory, entries, tree).unwrap()
    })
}

fn has_any(entries: &[Entry], path: &[u8]) -> bool {
    entries.iter().any(|e| e.path == path)
}

fn add_directory(tree: &mut Vec<Directory>, above: &[u8], components: &[Vec<u8>], mode: u32) {
    let Some((first, rest)) = components.split_first() else { return };
    let path = if above.is_empty() { first.clone() } else { [above, first].join(&b'/') };
    if !tree.iter().any(|d| d.path == path) {
        tree.push(Directory { path: path.clone(), mode });
    }
    add_directory(tree, &path, rest, mode);
}

proptest! {
    #[test]
    fn decode_undoes_encode(manifest in manifests()) {
        prop_assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    #[test]
    fn decode_of_anything_is_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let headed = [b"IHM\x01".as_slice(), &bytes].concat();
        if let Ok(m) = Manifest::decode(&headed) {
            prop_assert_eq!(Manifest::new(m.name.clone(), m.kind, m.entries.clone(), m.directories.clone()), Ok(m));
        }
    }

    #[test]
    fn decode_of_a_mutated_manifest_is_refused_or_valid(
        manifest in manifests(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = manifest.encode();
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        if let Ok(m) = Manifest::decode(&bytes) {
            prop_assert_eq!(Manifest::new(m.name.clone(), m.kind, m.entries.clone(), m.directories.clone()), Ok(m));
        }
        let whole = manifest.encode();
        prop_assert!(Manifest::decode(&whole[..cut.index(whole.len())]).is_err());
    }

    #[test]
    fn locate_covers_a_range_once_and_in_order(manifest in manifests(), a in any::<u64>(), b in any::<u64>()) {
        let size = manifest.size() + 1;
        let range = ByteRange::new((a % size).min(b % size), (a % size).max(b % size));
        let mut at = range.start;
        for piece in manifest.locate(range) {
            let file = manifest.file_range(piece.file).unwrap();
            prop_assert_eq!(file.start + piece.offset, at);
            prop_assert!(piece.len > 0 && piece.offset + piece.len <= file.len());
            at += piece.len;
        }
        prop_assert_eq!(at, range.end);
    }
}
