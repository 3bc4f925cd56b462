use proptest::prelude::*;

use super::*;
use crate::printable;

fn file(path: &str, size: u64) -> Entry {
    Entry { path: path.into(), size, metadata: mode(0o644), holes: Vec::new() }
}

fn directory(path: &str) -> Directory {
    Directory { path: path.into(), metadata: mode(0o755) }
}

fn mode(mode: u32) -> Metadata {
    Metadata { mode, ..Metadata::default() }
}

fn of(contents: Contents) -> Result<Manifest, ManifestError> {
    Manifest::new(b"set".to_vec(), Kind::Directory, contents)
}

fn tree(files: Vec<Entry>, directories: Vec<Directory>) -> Result<Manifest, ManifestError> {
    of(Contents { files, directories, ..Contents::default() })
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
    let name = Manifest::new(b"..".to_vec(), Kind::Directory, Contents::default());
    assert!(matches!(name, Err(ManifestError::BadPath { .. })));
}

#[test]
fn new_refuses_paths_that_contradict_each_other() {
    let twice = tree(vec![file("a", 1), file("a", 2)], vec![]);
    assert_eq!(twice, Err(ManifestError::NotInOrder(b"a".to_vec())));
    let orphan = tree(vec![file("a/b", 1)], vec![]);
    assert_eq!(orphan, Err(ManifestError::NoParent(b"a/b".to_vec())));
    let both = tree(vec![file("a", 1), file("a/b", 1)], vec![directory("a")]);
    assert_eq!(both, Err(ManifestError::TwoThings(b"a".to_vec())));
    let symlinks = vec![Symlink { path: b"a".to_vec(), target: b"/etc".to_vec(), ..Symlink::default() }];
    let through = of(Contents { files: vec![file("a/b", 1)], symlinks, ..Contents::default() });
    assert_eq!(through, Err(ManifestError::NoParent(b"a/b".to_vec())), "a link is no directory");
}

#[test]
fn new_refuses_sizes_modes_and_times_out_of_range() {
    let sum = tree(vec![file("a", SIZE_MAX), file("b", 1)], vec![]);
    assert_eq!(sum, Err(ManifestError::TooLarge));
    assert_eq!(tree(vec![file("a", u64::MAX), file("b", 2)], vec![]), Err(ManifestError::TooLarge));
    let setuid = tree(vec![Entry { metadata: mode(0o4755), ..file("a", 1) }], vec![]);
    assert_eq!(setuid, Err(ManifestError::BadMode(0o4755)));
    let metadata = Metadata { modified: Timestamp { seconds: 0, nanos: 1_000_000_000 }, ..mode(0) };
    assert_eq!(tree(vec![Entry { metadata, ..file("a", 1) }], vec![]), Err(ManifestError::BadTime));
    let metadata = Metadata { owner: Some(Owner { user: 0, group: u32::MAX }), ..mode(0) };
    assert_eq!(tree(vec![Entry { metadata, ..file("a", 1) }], vec![]), Err(ManifestError::BadOwner));
}

#[test]
fn new_refuses_links_holes_and_attributes_that_no_file_has() {
    for target in [&b""[..], b"a\0", &[b'x'; 4096]] {
        let symlinks = vec![Symlink { path: b"l".to_vec(), target: target.to_vec(), ..Symlink::default() }];
        let refused = of(Contents { symlinks, ..Contents::default() });
        assert_eq!(refused, Err(ManifestError::BadTarget(b"l".to_vec())));
    }
    let hard_links = vec![HardLink { path: b"l".to_vec(), file: b"gone".to_vec() }];
    let refused = of(Contents { hard_links, ..Contents::default() });
    assert_eq!(refused, Err(ManifestError::NoSuchFile(b"l".to_vec())));
    for holes in [&[(0, 0)][..], &[(0, 11)], &[(4, 5), (0, 1)], &[(0, 5), (5, 6)]] {
        let holes = holes.iter().map(|&(start, end)| ByteRange { start, end }).collect();
        let refused = tree(vec![Entry { holes, ..file("a", 10) }], vec![]);
        assert_eq!(refused, Err(ManifestError::BadHoles(b"a".to_vec())));
    }
    let large = vec![0; ATTRIBUTES_BYTES_MAX + 1];
    for (name, value) in [("security.capability", &b"x"[..]), ("user.", b""), ("user.\0", b""), ("user.x", &large)] {
        let attributes = vec![Attribute { name: name.into(), value: value.to_vec() }];
        let refused = tree(vec![Entry { metadata: Metadata { attributes, ..mode(0) }, ..file("a", 1) }], vec![]);
        assert_eq!(refused, Err(ManifestError::BadAttribute(name.into())));
    }
}

#[test]
fn holes_lie_where_their_files_do() {
    let holes = vec![ByteRange::new(1, 3), ByteRange::new(8, 10)];
    let m = tree(vec![file("a", 5), Entry { holes, ..file("b", 10) }], vec![]).unwrap();
    assert_eq!(m.holes().iter().collect::<Vec<_>>(), [ByteRange::new(6, 8), ByteRange::new(13, 15)]);
}

#[test]
fn new_holds_a_single_file_to_its_name() {
    let single = |path, directories| {
        let files = vec![file(path, 1)];
        Manifest::new(b"f".to_vec(), Kind::File, Contents { files, directories, ..Contents::default() })
    };
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
    let metadata = Metadata { modified: Timestamp { seconds: 9, nanos: 9 }, ..mode(0o600) };
    let touched = vec![Entry { metadata, holes: vec![ByteRange::new(0, 1)], ..file("a", 1) }, file("b", 2)];
    let contents = Contents { files: touched, ..Contents::default() };
    let mirror = Manifest::new(b"elsewhere".to_vec(), Kind::Directory, contents).unwrap();
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
    let named = |name: &str| {
        let files = vec![file(name, 7)];
        Manifest::new(name.into(), Kind::File, Contents { files, ..Contents::default() }).unwrap()
    };
    assert_eq!(named("x").identity(), named("y").identity());
}

#[test]
fn decode_names_another_version() {
    let mut bytes = tree(vec![], vec![]).unwrap().encode();
    bytes[3] = 9;
    assert_eq!(Manifest::decode(&bytes), Err(ManifestError::Version { ours: 3, theirs: 9 }));
    assert_eq!(Manifest::decode(b"GIF89a"), Err(ManifestError::NotAManifest));
}

#[test]
fn decode_refuses_counts_beyond_the_input() {
    // Kind directory, name "s", metadata of nothing, nothing skipped or unreadable; then a count of 2^20 directories
    // and nothing behind it.
    let counted = |count: &[u8]| [b"IHM\x03\x01\x01s\0\0\0\0\0\0\0", count].concat();
    assert_eq!(Manifest::decode(&counted(b"\x80\x80\x40\x00")), Err(ManifestError::Truncated));
    let bytes = counted(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    assert_eq!(Manifest::decode(&bytes), Err(ManifestError::TooMany));
    let bytes = counted(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
    assert_eq!(Manifest::decode(&bytes), Err(ManifestError::BadNumber));
}

#[test]
fn decode_refuses_paths_that_grow_out_of_nothing() {
    // Each directory takes some ten bytes, and its path a few thousand.
    let deep: Vec<Directory> = (1..=2000).map(|depth| directory(&vec!["d"; depth].join("/"))).collect();
    let long = vec!["d"; 2000].join("/");
    let files = (0..20_000).map(|k| file(&format!("{long}/{k:05}"), 0)).collect();
    let m = tree(files, deep).unwrap();
    let bytes = m.encode();
    assert!(bytes.len() < 300_000, "{}", bytes.len());
    assert_eq!(Manifest::decode(&bytes), Err(ManifestError::TooMuchMemory));
}

#[test]
fn decode_within_takes_no_more_memory_than_it_may() {
    let files = (0..1000).map(|k| file(&format!("{k:04}"), 0)).collect();
    let m = tree(files, vec![]).unwrap();
    let bytes = m.encode();
    assert_eq!(Manifest::decode_within(&bytes, 1000 * 100), Err(ManifestError::TooMuchMemory));
    assert_eq!(Manifest::decode_within(&bytes, 1000 * 300), Ok(m));
}

#[test]
fn a_hundred_thousand_files_take_little_room() {
    let files = (0..100_000u64)
        .map(|k| {
            let modified =
                Timestamp { seconds: 1_700_000_000 + (k / 100) as i64, nanos: (k * 9973) as u32 % 1_000_000_000 };
            let metadata = Metadata { modified, ..mode(0o644) };
            Entry { metadata, ..file(&format!("{:03}/file-{k:06}.dat", k / 100), 4096) }
        })
        .collect();
    let directories = (0..1000).map(|k| directory(&format!("{k:03}"))).collect();
    let m = tree(files, directories).unwrap();
    let bytes = m.encode();
    assert!(bytes.len() < 2_500_000, "{}", bytes.len());
    assert_eq!(Manifest::decode(&bytes), Ok(m));
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
    let items = prop::collection::vec((path, metadata(), 0u64..1 << 40, 0u32..4), 0..16);
    (items, metadata(), 0u64..20).prop_map(|(items, top, count)| {
        let skipped = Skipped { count, paths: Vec::new() };
        let unreadable = Skipped { count: 7, paths: vec![b"x".to_vec()] };
        let mut contents = Contents { top, skipped, unreadable, ..Contents::default() };
        for (components, metadata, size, kind) in items {
            add(&mut contents, &components, metadata, size, kind);
        }
        of(contents).unwrap()
    })
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let attribute = ("user\\.[a-c]", prop::collection::vec(any::<u8>(), 0..9));
    let attributes = prop::collection::btree_map(attribute.0, attribute.1, 0..3);
    let owner = prop::option::of((0..3u32, 0..u32::MAX));
    (0..=MODE_BITS, any::<i64>(), 0u32..1_000_000_000, owner, attributes).prop_map(
        |(mode, seconds, nanos, owner, attributes)| {
            let owner = owner.map(|(user, group)| Owner { user, group });
            let attributes =
                attributes.into_iter().map(|(name, value)| Attribute { name: name.into_bytes(), value }).collect();
            Metadata { mode, modified: Timestamp { seconds, nanos }, owner, attributes }
        },
    )
}

/// Adds an item, unless its path is taken or leads through something that is no directory.
fn add(contents: &mut Contents, components: &[Vec<u8>], metadata: Metadata, size: u64, kind: u32) {
    let path = components.join(&b'/');
    let (_, parents) = components.split_last().unwrap();
    let is_taken = |contents: &Contents, path: &[u8]| {
        contents.files.iter().any(|e| e.path == path)
            || contents.symlinks.iter().any(|l| l.path == path)
            || contents.hard_links.iter().any(|l| l.path == path)
    };
    let under_another = (1..=parents.len()).any(|n| is_taken(contents, &parents[..n].join(&b'/')));
    if under_another || is_taken(contents, &path) || contents.directories.iter().any(|d| d.path == path) {
        return;
    }
    add_directory(&mut contents.directories, &[], parents, 0o755);
    let first = contents.files.first().map(|file| file.path.clone());
    match (kind, first) {
        (0, _) => add_directory(&mut contents.directories, &[], components, metadata.mode),
        (1, _) => contents.symlinks.push(Symlink { target: path.clone(), path, metadata }),
        (2, Some(file)) => contents.hard_links.push(HardLink { path, file }),
        _ => {
            let holes = if size > 9 { vec![ByteRange::new(1, 3), ByteRange::new(size / 2, size)] } else { Vec::new() };
            contents.files.push(Entry { path, size, metadata, holes });
        }
    }
}

fn add_directory(tree: &mut Vec<Directory>, above: &[u8], components: &[Vec<u8>], mode: u32) {
    let Some((first, rest)) = components.split_first() else { return };
    let path = if above.is_empty() { first.clone() } else { [above, first].join(&b'/') };
    if !tree.iter().any(|d| d.path == path) {
        tree.push(Directory { path: path.clone(), metadata: Metadata { mode, ..Metadata::default() } });
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
        let headed = [b"IHM\x02".as_slice(), &bytes].concat();
        if let Ok(m) = Manifest::decode(&headed) {
            prop_assert_eq!(Manifest::new(m.name.clone(), m.kind, m.contents.clone()), Ok(m));
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
            prop_assert_eq!(Manifest::new(m.name.clone(), m.kind, m.contents.clone()), Ok(m));
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

#[test]
fn a_beginning_is_one_until_something_else_stands_there() {
    let bytes = tree(vec![file("a", 1)], vec![]).unwrap().encode();
    assert!((0..=bytes.len()).all(|len| Manifest::check_beginning(&bytes[..len]) == Ok(())));
    assert_eq!(Manifest::check_beginning(&[b'x'; 1000]), Err(ManifestError::NotAManifest));
    for (at, expected) in [(3, ManifestError::Version { ours: 3, theirs: 9 }), (4, ManifestError::BadKind(9))] {
        let mut wrong = bytes.clone();
        wrong[at] = 9;
        assert_eq!(Manifest::check_beginning(&wrong), Err(expected));
    }
}

#[test]
fn holes_that_mirrors_have_in_common_are_kept() {
    let of = |holes: &[(u64, u64)]| {
        let holes = holes.iter().map(|&(start, end)| ByteRange::new(start, end)).collect();
        tree(vec![Entry { holes, ..file("a", 100) }, file("b", 7)], vec![]).unwrap()
    };
    let mut manifest = of(&[(0, 10), (20, 40), (50, 100)]);
    let other = of(&[(5, 25), (30, 35), (38, 60), (99, 100)]);
    let before = manifest.identity();
    assert!(!manifest.has_holes_within(&other));
    manifest.keep_common_holes(&other);
    assert_eq!(manifest, of(&[(5, 10), (20, 25), (30, 35), (38, 40), (50, 60), (99, 100)]));
    assert!(manifest.has_holes_within(&other) && manifest.has_holes_within(&manifest));
    assert!(of(&[]).has_holes_within(&other) && !other.has_holes_within(&of(&[])));
    assert_eq!(manifest.identity(), before);
    manifest.keep_common_holes(&of(&[]));
    assert_eq!(manifest, of(&[]));
}
