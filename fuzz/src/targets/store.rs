//! What a server says a data set is made of.

use inhaul_store::{Directory, Entry, Kind, Listed, ListedKind, Manifest, Timestamp};

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
    let entry = |path: &str, size| Entry {
        path: path.into(),
        size,
        mode: 0o644,
        modified: Timestamp { seconds: 1_094_000_000, nanos: 1 },
    };
    let directory = |path: &str| Directory { path: path.into(), mode: 0o755 };
    let file = Manifest::new(b"events.h5".to_vec(), Kind::File, vec![entry("events.h5", 1 << 33)], Vec::new());
    let tree = Manifest::new(
        b"run7".to_vec(),
        Kind::Directory,
        vec![entry("a", 0), entry("sub/b", 70_000), entry("sub/deep/c", 1)],
        vec![directory("empty"), directory("sub"), directory("sub/deep")],
    );
    [file, tree].into_iter().flatten().map(|manifest| manifest.encode()).collect()
}
