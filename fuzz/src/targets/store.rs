//! What a server says a data set is made of.

use inhaul_store::{Directory, Entry, Kind, Manifest, Timestamp};

/// A manifest.
pub fn manifest(data: &[u8]) -> bool {
    let Ok(manifest) = Manifest::decode(data) else { return false };
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    true
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
