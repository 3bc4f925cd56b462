//! What a server says a data set is made of.

use inhaul_base::ByteRange;
use inhaul_store::{
    Attribute, Contents, Directory, Entry, HardLink, Kind, Listed, ListedKind, Manifest, Metadata, Owner, Skipped,
    Symlink, Timestamp,
};

/// A manifest.
pub fn manifest(data: &[u8]) -> bool {
    let Ok(manifest) = Manifest::decode(data) else { return false };
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    true
}

/// What a server says there is at a path.
pub fn listing(data: &[u8]) -> bool {
    let Ok(items) = Listed::decode_all(data) else { return false };
    let mut again = Vec::new();
    items.iter().for_each(|item| item.encode(&mut again));
    assert_eq!(again, data, "a listing has one form on the wire: {items:?}");
    true
}

pub(super) fn listings() -> Vec<Vec<u8>> {
    let modified = Timestamp { seconds: 1_094_000_000, nanos: 1 };
    let listed = |path: &str, kind| Listed { path: path.into(), kind, size: 1 << 33, modified };
    let items = [
        listed("", ListedKind::File),
        listed("sub", ListedKind::Directory),
        listed("sub/b", ListedKind::Link),
        listed("sub/p", ListedKind::Special),
    ];
    let mut all = Vec::new();
    items.iter().for_each(|item| item.encode(&mut all));
    vec![Vec::new(), all]
}

pub(super) fn manifests() -> Vec<Vec<u8>> {
    let modified = Timestamp { seconds: 1_094_000_000, nanos: 1 };
    let metadata = Metadata { mode: 0o644, modified, ..Metadata::default() };
    let entry = |path: &str, size| Entry { path: path.into(), size, metadata: metadata.clone(), ..Entry::default() };
    let directory = |path: &str| Directory { path: path.into(), ..Directory::default() };
    let plain = Contents {
        files: vec![entry("a", 0), entry("sub/b", 70_000), entry("sub/deep/c", 1)],
        directories: vec![directory("empty"), directory("sub"), directory("sub/deep")],
        ..Contents::default()
    };
    let attributes = vec![Attribute { name: b"user.a".to_vec(), value: b"value".to_vec() }];
    let owned = Metadata { owner: Some(Owner { user: 1000, group: 100 }), attributes, ..metadata.clone() };
    let holes = vec![ByteRange::new(4096, 8192), ByteRange::new(60_000, 70_000)];
    let rich = Contents {
        top: owned.clone(),
        files: vec![Entry { metadata: owned, holes, ..entry("sub/b", 70_000) }, entry("sub/c", 9)],
        directories: vec![directory("sub")],
        symlinks: vec![Symlink { path: b"l".to_vec(), target: b"../out".to_vec(), metadata: metadata.clone() }],
        hard_links: vec![HardLink { path: b"sub/z".to_vec(), file: b"sub/c".to_vec() }],
        skipped: Skipped { count: 2, paths: vec![b"pipe".to_vec()] },
    };
    let single = Contents { files: vec![entry("events.h5", 1 << 33)], ..Contents::default() };
    let file = Manifest::new(b"events.h5".to_vec(), Kind::File, single);
    let trees = [plain, rich].map(|contents| Manifest::new(b"run7".to_vec(), Kind::Directory, contents));
    std::iter::once(file).chain(trees).flatten().map(|manifest| manifest.encode()).collect()
}
