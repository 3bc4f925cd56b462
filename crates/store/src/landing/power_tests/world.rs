//! What there is to fetch, and what was at the destination before.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use inhaul_base::{ByteRange, RandomStream};

use crate::digest::{GROUP_BYTES, GroupDigest, group_count, group_digest, group_range};
use crate::{Contents, Directory, Entry, Existing, HardLink, Kind, Manifest, Metadata, Symlink, Timestamp};

/// One group at each of these distances.
const STEP: usize = 64;
const OFFSETS: usize = 128;

static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = RandomStream::new(1, 1);
    let mut noise = vec![0; GROUP_BYTES as usize + STEP * OFFSETS];
    noise.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&random.next_u64().to_be_bytes()));
    noise
});

/// The digests of whole groups, which take long to compute.
static DIGESTS: Mutex<BTreeMap<(u64, usize), GroupDigest>> = Mutex::new(BTreeMap::new());

/// A state of the data set at its source.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) manifest: Arc<Manifest>,
    /// Of each file, how often its content has changed.
    pub(super) contents: BTreeMap<Vec<u8>, usize>,
}

/// The bytes of group `group` of the file at `path`, in its version number `version`.
pub(super) fn bytes_of(version: &Version, file: usize, group: u64) -> &'static [u8] {
    let entry = &version.manifest.entries()[file];
    let len = group_range(entry.size, group).len() as usize;
    let start = offset(version, file, group);
    &NOISE[start..start + len]
}

fn offset(version: &Version, file: usize, group: u64) -> usize {
    let path = &version.manifest.entries()[file].path;
    let salt: usize = path.iter().map(|&byte| usize::from(byte)).sum();
    (salt * 11 + group as usize * 7 + version.contents[path] * 29) % OFFSETS * STEP
}

pub(super) fn digest_of(version: &Version, file: usize, group: u64) -> GroupDigest {
    let size = version.manifest.entries()[file].size;
    let bytes = bytes_of(version, file, group);
    if bytes.len() as u64 != GROUP_BYTES || group_count(size) == 1 {
        return group_digest(size, group, bytes);
    }
    let known = DIGESTS.lock().unwrap().get(&(group, offset(version, file, group))).copied();
    known.unwrap_or_else(|| {
        let digest = group_digest(size, group, bytes);
        DIGESTS.lock().unwrap().insert((group, offset(version, file, group)), digest);
        digest
    })
}

/// Whether the file at `path` on the disk has the content of `version`.
pub(super) fn is_whole(version: &Version, file: usize, path: &Path) -> bool {
    let entry = &version.manifest.entries()[file];
    let Ok(found) = fs::File::open(path) else { return false };
    if found.metadata().unwrap().len() != entry.size {
        return false;
    }
    let mut buffer = Vec::new();
    (0..group_count(entry.size)).all(|group| {
        let range = group_range(entry.size, group);
        buffer.resize(range.len() as usize, 0);
        found.read_exact_at(&mut buffer, range.start).unwrap();
        if entry.is_hole_group(group) {
            buffer.iter().all(|&byte| byte == 0)
        } else {
            buffer == bytes_of(version, file, group)
        }
    })
}

/// How the data set and its destination are.
#[derive(Debug)]
pub(super) struct World {
    pub(super) versions: Vec<Version>,
    pub(super) existing: Existing,
    /// Files that were there before, with their bytes.
    pub(super) before: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl World {
    pub(super) fn new(random: &mut RandomStream) -> Self {
        let kind = if random.below(4) == 0 { Kind::File } else { Kind::Directory };
        let first = version(kind, random);
        let mut versions = vec![first];
        if random.below(5) == 0 {
            versions.push(changed(&versions[0], random));
        }
        let existing = match random.below(6) {
            0 | 1 => Existing::Replace,
            2 => Existing::Keep,
            3 => Existing::Update,
            _ => Existing::Refuse,
        };
        let mut before = BTreeMap::new();
        if kind == Kind::Directory && existing != Existing::Refuse {
            for entry in versions[0].manifest.entries() {
                match random.below(4) {
                    // Only the bytes differ.
                    0 => _ = before.insert(entry.path.clone(), vec![b'o'; entry.size as usize]),
                    1 => _ = before.insert(entry.path.clone(), b"old".to_vec()),
                    _ => {}
                }
            }
        }
        Self { versions, existing, before }
    }

    /// Makes what was there before.
    pub(super) fn prepare(&self, root: &Path) {
        for (path, bytes) in &self.before {
            let path = root.join("set").join(std::str::from_utf8(path).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(500_000_000);
            fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
        }
    }
}

fn metadata(seconds: i64) -> Metadata {
    Metadata { mode: 0o640, modified: Timestamp { seconds, nanos: 0 }, ..Metadata::default() }
}

fn size(random: &mut RandomStream, is_large: bool) -> u64 {
    match random.below(if is_large { 9 } else { 7 }) {
        0 => 0,
        1 | 2 => 1 + random.below(5000),
        3 => GROUP_BYTES - 1 + random.below(3),
        4 | 5 => 1 + random.below(3 * GROUP_BYTES),
        6 => 2 * GROUP_BYTES,
        _ => 10 * GROUP_BYTES + random.below(14 * GROUP_BYTES),
    }
}

fn version(kind: Kind, random: &mut RandomStream) -> Version {
    let is_large = random.below(8) == 0;
    let paths: &[&str] = match kind {
        Kind::File => &["f"],
        Kind::Directory => &["a", "b", "d/c", "d/d", "d/e/f", "g", "h"],
    };
    let count = 1 + random.below(paths.len() as u64) as usize;
    let mut files: Vec<Entry> = Vec::new();
    for path in &paths[..count] {
        let size = size(random, is_large);
        let mut holes = Vec::new();
        if random.below(5) == 0 {
            let from = random.below(size / GROUP_BYTES + 1) * GROUP_BYTES;
            let to = (from + (1 + random.below(2)) * GROUP_BYTES).min(size);
            holes.extend((from < to).then(|| ByteRange::new(from, to)));
        }
        files.push(Entry { path: path.as_bytes().to_vec(), size, metadata: metadata(1_000_000_000), holes });
    }
    if kind == Kind::Directory && random.below(6) == 0 {
        // More than are synced one by one.
        for number in 0..20 {
            let path = format!("m/{number:02}").into_bytes();
            let size = random.below(3000);
            files.push(Entry { path, size, metadata: metadata(1_000_000_000), holes: Vec::new() });
        }
    }
    let contents = files.iter().map(|entry| (entry.path.clone(), 0)).collect();
    Version { manifest: manifest(kind, files, random), contents }
}

fn manifest(kind: Kind, files: Vec<Entry>, random: &mut RandomStream) -> Arc<Manifest> {
    let has = |path: &str| files.iter().any(|entry| entry.path.starts_with(path.as_bytes()));
    let directories: Vec<_> = ["d", "d/e", "m"]
        .into_iter()
        .filter(|path| has(&format!("{path}/")))
        .map(|path| Directory { path: path.into(), metadata: Metadata { mode: 0o750, ..metadata(900_000_000) } })
        .collect();
    let (mut symlinks, mut hard_links) = (Vec::new(), Vec::new());
    if kind == Kind::Directory && random.below(3) == 0 {
        symlinks.push(Symlink { path: b"s".to_vec(), target: b"a".to_vec(), metadata: metadata(900_000_000) });
        hard_links.push(HardLink { path: b"l".to_vec(), file: b"a".to_vec() });
    }
    let top = Metadata { mode: 0o755, ..metadata(900_000_000) };
    let top = if kind == Kind::Directory { top } else { Metadata::default() };
    let name = if kind == Kind::File { b"f".to_vec() } else { b"set".to_vec() };
    let contents = Contents { top, files, directories, symlinks, hard_links, ..Contents::default() };
    Arc::new(Manifest::new(name, kind, contents).unwrap())
}

/// The data set after some of its files have changed.
fn changed(version: &Version, random: &mut RandomStream) -> Version {
    let mut contents = version.contents.clone();
    let mut files = version.manifest.entries().to_vec();
    for entry in &mut files {
        if random.below(2) == 0 {
            continue;
        }
        entry.metadata = metadata(1_100_000_000);
        if random.below(2) == 0 {
            *contents.get_mut(&entry.path).unwrap() += 1;
        }
        if random.below(2) == 0 {
            entry.size = size(random, false);
            entry.holes.clear();
        }
    }
    Version { manifest: manifest(version.manifest.kind(), files, random), contents }
}
