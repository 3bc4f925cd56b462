//! Manifests and listings from a server; journals and lists of checksums from disks.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use inhaul_base::ByteRange;
use inhaul_store::checksums::{Algorithm, Checksums, FileSum, Format, bag_manifests};
use inhaul_store::digest_cache::{CACHED_BYTES_MIN, DigestCache, FileVersion};
use inhaul_store::journal::{self, Record, Replay};
use inhaul_store::{
    Attribute, Contents, Directory, Entry, Existing, Filter, HardLink, Kind, Listed, ListedKind, Manifest, Metadata,
    Owner, Plan, Rule, Site, Skipped, Symlink, Timestamp,
};
use tempfile::TempDir;

use super::samples;

/// A manifest.
pub fn manifest(data: &[u8]) -> bool {
    let Ok(manifest) = Manifest::decode(data) else { return false };
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    true
}

/// A listing from a server.
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

/// A journal. Its sound part has the same content without the rest.
pub fn journal(data: &[u8]) -> bool {
    let Ok(replay) = Replay::read(data) else { return false };
    let sound = data.get(..replay.sound_bytes as usize).unwrap_or_default();
    assert_eq!(Replay::read(sound), Ok(replay));
    true
}

pub(super) fn journals() -> Vec<Vec<u8>> {
    let records = |manifest: Manifest| {
        vec![
            Record::Manifest(Arc::new(manifest)),
            Record::Made { directory: None },
            Record::Verified { file: 0, group: 0, digest: [7; 32] },
            Record::Named { file: 0 },
        ]
    };
    manifests().iter().filter_map(|bytes| Manifest::decode(bytes).ok()).map(|m| journal::encode(&records(m))).collect()
}

/// A list of checksums.
pub fn checksums(data: &[u8]) -> bool {
    // The first byte is the user's choice of algorithm, the rest is the list.
    let (said, data) = data.split_first().unwrap_or((&0, &[]));
    let assumed = Algorithm::all().nth(usize::from(*said));
    let Ok(list) = Checksums::read(data, assumed) else { return false };
    assert_eq!(Checksums::read(&list.write(), Some(list.algorithm)), Ok(list));
    true
}

pub(super) fn checksum_lists() -> Vec<Vec<u8>> {
    let sum = "0123456789abcdef".repeat(4);
    let plain = format!("{sum}  a\n\\{sum} *b\\nc\n");
    let tagged = format!("SHA256 (a) = {sum}\nSHA256 (b) = {sum}\n");
    let long = format!("{sum}{sum}  d/e\n");
    let file = FileSum { path: b"a\nb".to_vec(), size: Some(7), checksum: vec![7; 32] };
    let format = Format::Inhaul(Kind::Directory);
    let ours = Checksums { format, algorithm: Algorithm::Blake3, files: vec![file] }.write();
    let weak = [
        "25f9e794323b453885f5181f1b624d0b  a\n25f9e794323b453885f5181f1b624d0b *b\n",
        "MD5 (a) = 25f9e794323b453885f5181f1b624d0b\nMD5(b)= JfnnlDI7RTiF9RgfG2JNCw==\n",
        "adler32:091e01de  a\nadler32:091e01de  ./b\n",
        "crc32c:4waSgw== a\n",
        "; by hand\na cbf43926\nb c CBF43926\n",
        // This one is a list only with the user's choice: Adler-32, by its position.
        "091e01de  a\n",
    ];
    let foreign = [plain, tagged, long].into_iter().chain(weak.map(str::to_owned)).map(String::into_bytes);
    foreign.chain([ours]).enumerate().map(|(said, list)| [vec![said as u8], list].concat()).collect()
}

/// The payload manifest of a bag.
pub fn payload_manifest(data: &[u8]) -> bool {
    let read = |data: &[u8]| bag_manifests(|name| (name == "manifest-sha256.txt").then(|| data.to_vec()));
    let Ok(manifests) = read(data) else { return false };
    assert_eq!(read(&manifests.payload[0].write()), Ok(manifests));
    true
}

pub(super) fn payload_lists() -> Vec<Vec<u8>> {
    let sum = "0123456789abcdef".repeat(4);
    vec![format!("{sum}  data/a\n{sum} *data/b%0Ac%25\n").into_bytes()]
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
        unreadable: Skipped { count: 1, paths: vec![b"sub/secret".to_vec()] },
    };
    let single = Contents { files: vec![entry("events.h5", 1 << 33)], ..Contents::default() };
    let file = Manifest::new(b"events.h5".to_vec(), Kind::File, single);
    let trees = [plain, rich].map(|contents| Manifest::new(b"run7".to_vec(), Kind::Directory, contents));
    std::iter::once(file).chain(trees).flatten().map(|manifest| manifest.encode()).collect()
}

thread_local! {
    /// A directory for a target's files.
    static SCRATCH: TempDir = tempfile::tempdir().expect("a temporary directory can be made");
}

/// A path in the thread's directory.
fn scratch(name: &str) -> PathBuf {
    SCRATCH.with(|directory| directory.path().join(name))
}

/// The patterns of a filter, applied to a tree: a line each, whose first byte is the kind.
pub fn filter(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else { return false };
    let rule = |line: &str| match line.split_at_checked(1) {
        Some(("+", pattern)) => Rule::Include(pattern.to_owned()),
        Some(("-", pattern)) => Rule::Exclude(pattern.to_owned()),
        _ => Rule::Line(line.to_owned()),
    };
    let rules: Vec<Rule> = text.split('\n').map(rule).collect();
    let Ok(filter) = Filter::new(&rules) else { return false };
    let tree = Arc::new(tree());
    let site = Site::Beneath { root: scratch(""), path: b"tree".to_vec() };
    let plan = Plan::new(&site, tree.clone(), &filter, Existing::Refuse).expect("an empty place takes anything");
    let unwanted = plan.unwanted().iter().map(ByteRange::len).sum::<u64>();
    assert_eq!(plan.bytes() + unwanted, tree.size(), "every byte is wanted or not: {text:?}");
    true
}

/// A tree without holes.
fn tree() -> Manifest {
    Manifest::decode(&manifests()[1]).expect("a sample is legal")
}

pub(super) fn filters() -> Vec<Vec<u8>> {
    samples::of_texts(&["-*.tmp\n+a/**/b\n", "!keep\n# comment\n/a/[a-c]?\\ \n**/x", "+**\n-a\n-/b/", "-[!a]*\n+{a,b}"])
}

/// A damaged file of the digest cache: the input is XORed to it. A damaged digest is not believed.
pub fn digest_cache(data: &[u8]) -> bool {
    const DIGEST: [u8; 32] = [7; 32];
    let file = File::options().create(true).truncate(false).write(true).read(true).open(scratch("large"));
    let file = file.expect("a file can be made");
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        file.set_len(CACHED_BYTES_MIN).expect("a file can be sparse");
    }
    let cache = DigestCache::open(&scratch("cache")).expect("a cache can be made");
    let digests = cache.of(FileVersion::of(&file).expect("it is there")).expect("files of that size are cached");
    digests.put(0, &DIGEST);
    let directory = std::fs::read_dir(scratch("cache")).expect("it was made");
    let mut paths = directory.map(|item| item.expect("it can be read").path());
    let path = paths.find(|path| !path.ends_with("CACHEDIR.TAG")).expect("one file is in it beside the mark");
    let honest = std::fs::read(&path).expect("it can be read");
    let byte = |at: usize| honest.get(at).unwrap_or(&0) ^ data.get(at).unwrap_or(&0);
    let damaged: Vec<u8> = (0..honest.len().max(data.len())).map(byte).collect();
    std::fs::write(&path, &damaged).expect("it can be written");
    let believed: Vec<_> = (0..10).filter_map(|group| digests.get(group)).collect();
    let is_whole = damaged.starts_with(&honest);
    assert_eq!(believed, if is_whole { vec![DIGEST] } else { Vec::new() });
    std::fs::write(&path, &honest).expect("it can be written");
    is_whole
}

pub(super) fn damages() -> Vec<Vec<u8>> {
    vec![Vec::new(), vec![0; 40], vec![0; 400]]
}

/// Manifests of huge sparse data sets.
pub(super) fn sparse_manifests() -> Vec<Vec<u8>> {
    let sparse = |name: &str, size: u64, holes: &[(u64, u64)]| Entry {
        path: name.into(),
        size,
        holes: holes.iter().map(|&(start, end)| ByteRange::new(start, end)).collect(),
        ..Entry::default()
    };
    let all_hole = vec![sparse("a", 1 << 62, &[(0, 1 << 62)])];
    let island = vec![sparse("a", 1 << 45, &[(0, 1 << 44), ((1 << 44) + 4096, 1 << 45)]), sparse("b", 1 << 61, &[])];
    let manifest = |files| Manifest::new(b"set".to_vec(), Kind::Directory, Contents { files, ..Contents::default() });
    [all_hole, island].into_iter().flat_map(manifest).map(|manifest| manifest.encode()).collect()
}
