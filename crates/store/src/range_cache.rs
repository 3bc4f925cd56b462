//! A cache on disk of proven parts of remote files.
//!
//! The cache's directory has one file for each group with cached parts. Its name is the hash of the remote file
//! ([`RemoteFile`]) and the group's number, and its content is a sequence of records:
//!
//! ```text
//! record = magic(4) first(2) count(2) len(4) checksum(32) bytes(len)      numbers in network byte order
//! ```
//!
//! `first` and `count` are chunks of the group, `len` is the length of their bytes. The checksum covers the file's
//! name, the chunks and the bytes. It detects damage but proves nothing: anyone who can write to the directory controls
//! what is read. So only its user may write to it (`own_directory`).
//!
//! Several processes share a directory. Records are only added, and whole groups replace a file by a rename. A writer
//! holds the file's lock while it adds a record, and skips the record if it cannot get the lock. Readers need no lock.
//! A record that reaches beyond the end of its file is being written, or its writer has died: it does not count. The
//! next holder of the lock begins the file anew. A record with a wrong checksum is damaged: the reader that finds it
//! removes the file, with the lock.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use crate::digest::proof::CHUNK_BYTES;
use crate::digest::{GROUP_BYTES, Hash};
use crate::file_lock::FileLock;
use crate::own_directory::{self, OwnDirectory, Purpose, is_hash};

mod generations;

const MAGIC: [u8; 4] = *b"ihR1";
const CHECKSUM_BYTES: usize = 32;
const HEAD_BYTES: usize = 12 + CHECKSUM_BYTES;
/// Longest file of a group; a longer one is begun anew.
const FILE_BYTES_MAX: u64 = 2 * GROUP_BYTES;
/// The smallest bound of a cache.
pub const BYTES_MIN: u64 = 64 << 20;
/// Suffixes of a group's file, of one with versions, and of one being made.
const GROUP_END: &str = ".ranges";
const VERSIONS_END: &str = ".versions";
const MADE_END: &str = ".made";

const PURPOSE: Purpose = Purpose { of: "ranges of remote files", is_own_name, takes_unmarked: false };

fn is_own_name(name: &[u8]) -> bool {
    let made = name.strip_suffix(MADE_END.as_bytes());
    [GROUP_END, VERSIONS_END].iter().any(|end| name.strip_suffix(end.as_bytes()).is_some_and(is_hash))
        || made.is_some_and(|made| made.len() == 16 && made.iter().all(u8::is_ascii_hexdigit))
}

/// The identity of a remote file with constant bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteFile(Hash);

impl RemoteFile {
    /// The file with this BLAKE3 hash, from any source.
    pub fn of_hash(hash: &Hash) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a remote file of a known hash");
        hasher.update(hash.as_bytes());
        Self(hasher.finalize())
    }

    /// A file of a data set, by its index, as described by the servers at `source`. The servers must be part of
    /// `source`: others may have the same description and other bytes. So may the same servers later: `generation`
    /// distinguishes that, if servers tell their files' versions ([`RangeCache::generation`]).
    pub fn told_by(source: &str, identity: &Hash, generation: Option<&Hash>, index: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a remote file by its servers' word");
        hasher.update(identity.as_bytes());
        hasher.update(&index.to_be_bytes());
        hasher.update(generation.map(Hash::as_bytes).unwrap_or(&[0; 32]));
        hasher.update(source.as_bytes());
        Self(hasher.finalize())
    }

    fn group(&self, group: u64) -> Group {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a group of a remote file");
        hasher.update(self.0.as_bytes());
        hasher.update(&group.to_be_bytes());
        let hash = hasher.finalize();
        Group { hash, name: format!("{}{GROUP_END}", hash.to_hex()) }
    }
}

/// A group that may be kept.
struct Group {
    hash: Hash,
    /// The name of its file.
    name: String,
}

/// The cache: a directory that only its user can write to.
#[derive(Debug)]
pub struct RangeCache {
    directory: OwnDirectory,
    bytes_max: u64,
    /// Bytes written since the last count of the cache's size.
    written: AtomicU64,
    /// Numbers files in the making.
    made: AtomicU64,
}

impl RangeCache {
    /// Opens the cache in `directory`, which is made if it does not exist. It is kept to `bytes_max` on the disk; the
    /// least recently used parts go first. Each process beyond the second that shares it may exceed that by a twentieth
    /// for a while.
    ///
    /// When it cannot be made, when `bytes_max` is less than [`BYTES_MIN`], when it has files and is not a cache, and
    /// when others could write to it or replace it: anyone who can change its files controls what is read.
    pub fn open(directory: &Path, bytes_max: u64) -> io::Result<Self> {
        if bytes_max < BYTES_MIN {
            let text = format!("a cache of {bytes_max} bytes is too small: {BYTES_MIN} or more are needed");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let cache = Self {
            directory: OwnDirectory::open(directory, &PURPOSE)?,
            bytes_max,
            written: AtomicU64::new(0),
            made: AtomicU64::new(u64::from(std::process::id()) << 32),
        };
        cache.prune();
        Ok(cache)
    }

    /// Appends the bytes of some chunks of a group, `len` of them, to `bytes`. Returns whether they are cached.
    pub fn get(&self, file: &RemoteFile, group: u64, chunks: &Range<u64>, len: usize, bytes: &mut Vec<u8>) -> bool {
        let group = file.group(group);
        let Ok(file) = self.directory.open_file(&group.name, OFlags::RDONLY) else { return false };
        match find(&file, group.hash, chunks) {
            Ok(Found::Bytes(found)) => {
                let Some(wanted) = found.get(..len).filter(|wanted| !wanted.is_empty()) else { return false };
                bytes.extend_from_slice(wanted);
                own_directory::touch(&file);
                true
            }
            Ok(Found::Damaged) => {
                self.discard(&file, &group, chunks);
                false
            }
            Ok(Found::Nothing | Found::Unfinished) | Err(_) => false,
        }
    }

    /// Removes a damaged file: records added to it would not count.
    fn discard(&self, file: &File, group: &Group, chunks: &Range<u64>) {
        if let Ok(_lock) = FileLock::exclusive(file)
            && self.directory.is_called(file, &group.name)
            && matches!(find(file, group.hash, chunks), Ok(Found::Damaged))
        {
            self.directory.remove(&group.name);
        }
    }

    /// Caches the bytes of some chunks of a group, if the disk has room, and no other process is writing to their file.
    ///
    /// When they could not be written. The cache still works.
    pub fn put(&self, file: &RemoteFile, group: u64, chunks: &Range<u64>, bytes: &[u8]) -> io::Result<()> {
        let chunk_count = chunks.end.saturating_sub(chunks.start);
        if bytes.is_empty() || chunks.end > GROUP_BYTES / CHUNK_BYTES || bytes.len() as u64 > chunk_count * CHUNK_BYTES
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let group = file.group(group);
        let record = Head::record(group.hash, chunks, bytes);
        let is_whole = bytes.len() as u64 == GROUP_BYTES;
        let file = self.directory.open_file(&group.name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
        let Ok(_lock) = FileLock::exclusive(&file) else { return Ok(()) };
        let len = file.metadata()?.len();
        let is_sound = matches!(find(&file, group.hash, &NO_CHUNKS)?, Found::Nothing);
        if is_whole || !is_sound || len + record.len() as u64 > FILE_BYTES_MAX {
            self.replace(&group.name, &record)?;
        } else {
            // A truncated record would hide later ones.
            (&file).write_all(&record).inspect_err(|_| drop(file.set_len(len)))?;
        }
        let written = self.written.fetch_add(record.len() as u64, Ordering::Relaxed) + record.len() as u64;
        if written >= self.bytes_max / 20 {
            self.written.store(0, Ordering::Relaxed);
            self.prune();
        }
        Ok(())
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        // If the process ends here, it leaves an unused file, which is removed in time.
        let made = format!("{:016x}{MADE_END}", self.made.fetch_add(1, Ordering::Relaxed));
        let file = self.directory.open_file(&made, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        let written = (&file).write_all(content).and_then(|()| self.directory.rename(&made, name));
        written.inspect_err(|_| self.directory.remove(&made))
    }

    fn prune(&self) {
        self.directory.prune(self.bytes_max / 20 * 18, self.bytes_max / 20 * 17);
    }
}

/// No chunks.
const NO_CHUNKS: Range<u64> = u64::MAX - 1..u64::MAX;

/// The result of looking for some chunks in a file.
enum Found {
    /// Their bytes, and the rest of their record.
    Bytes(Vec<u8>),
    /// Not these.
    Nothing,
    /// Not these, and its last record is incomplete.
    Unfinished,
    /// It is damaged.
    Damaged,
}

fn find(file: &File, group: Hash, chunks: &Range<u64>) -> io::Result<Found> {
    let end = file.metadata()?.len();
    let mut at = 0;
    while at < end.min(FILE_BYTES_MAX) {
        let behind_head = at + HEAD_BYTES as u64;
        if behind_head > end {
            return Ok(Found::Unfinished);
        }
        let mut head = [0; HEAD_BYTES];
        file.read_exact_at(&mut head, at)?;
        let Some(head) = Head::parse(&head) else { return Ok(Found::Damaged) };
        at = behind_head + head.len as u64;
        if at > end {
            return Ok(Found::Unfinished);
        }
        if head.chunks.start <= chunks.start && chunks.end <= head.chunks.end {
            let mut kept = vec![0; head.len];
            file.read_exact_at(&mut kept, behind_head)?;
            let skip = ((chunks.start - head.chunks.start) * CHUNK_BYTES) as usize;
            let is_right = Head::checksum(group, &head.chunks, &kept) == head.checksum;
            return Ok(if is_right { Found::Bytes(kept.split_off(skip.min(head.len))) } else { Found::Damaged });
        }
    }
    Ok(if at == end { Found::Nothing } else { Found::Damaged })
}

/// The header of a record.
struct Head {
    chunks: Range<u64>,
    len: usize,
    checksum: [u8; CHECKSUM_BYTES],
}

impl Head {
    /// `None`: it is invalid.
    fn parse(head: &[u8; HEAD_BYTES]) -> Option<Self> {
        let (magic, rest) = head.split_first_chunk::<4>()?;
        let (first, rest) = rest.split_first_chunk::<2>()?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let first = u64::from(u16::from_be_bytes(*first));
        let chunks = first..first + u64::from(u16::from_be_bytes(*count));
        let len = u64::from(u32::from_be_bytes(*len));
        let is_one = *magic == MAGIC && len > 0 && len <= (chunks.end - first) * CHUNK_BYTES && len <= GROUP_BYTES;
        is_one.then_some(Self { chunks, len: len as usize, checksum: *rest.first_chunk()? })
    }

    fn checksum(name: Hash, chunks: &Range<u64>, bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a record of a cache of ranges");
        hasher.update(name.as_bytes());
        hasher.update(&chunks.start.to_be_bytes());
        hasher.update(&chunks.end.to_be_bytes());
        hasher.update(bytes);
        *hasher.finalize().as_bytes()
    }

    /// A record, with its bytes.
    fn record(name: Hash, chunks: &Range<u64>, bytes: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(HEAD_BYTES + bytes.len());
        record.extend_from_slice(&MAGIC);
        record.extend_from_slice(&(chunks.start as u16).to_be_bytes());
        record.extend_from_slice(&((chunks.end - chunks.start) as u16).to_be_bytes());
        record.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        record.extend_from_slice(&Self::checksum(name, chunks, bytes));
        record.extend_from_slice(bytes);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    const CHUNK: usize = CHUNK_BYTES as usize;

    fn cache() -> (tempfile::TempDir, RangeCache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = RangeCache::open(&dir.path().join("cache"), BYTES_MIN).unwrap();
        (dir, cache)
    }

    /// Where the cache keeps a group of the first file.
    fn path_of(dir: &tempfile::TempDir, group: u64) -> std::path::PathBuf {
        dir.path().join("cache").join(remote(1).group(group).name)
    }

    fn remote(index: u64) -> RemoteFile {
        RemoteFile::told_by("inhaul://a/b", &blake3::hash(b"a manifest"), None, index)
    }

    fn get(cache: &RangeCache, file: RemoteFile, group: u64, chunks: Range<u64>, len: usize) -> Option<Vec<u8>> {
        let mut bytes = b"before".to_vec();
        cache.get(&file, group, &chunks, len, &mut bytes).then(|| bytes.split_off(6))
    }

    fn content(chunks: &Range<u64>) -> Vec<u8> {
        (chunks.start * CHUNK_BYTES..chunks.end * CHUNK_BYTES).map(|place| (place % 251) as u8).collect()
    }

    #[test]
    fn what_was_put_is_there_for_its_file_and_group_alone() {
        let (_dir, cache) = cache();
        cache.put(&remote(1), 5, &(8..12), &content(&(8..12))).unwrap();
        assert_eq!(get(&cache, remote(1), 5, 9..11, 2 * CHUNK), Some(content(&(9..11))));
        assert_eq!(get(&cache, remote(1), 5, 8..12, 4 * CHUNK - 7).unwrap().len(), 4 * CHUNK - 7);
        assert_eq!(get(&cache, remote(1), 5, 7..11, 4 * CHUNK), None);
        assert_eq!(get(&cache, remote(1), 5, 8..12, 4 * CHUNK + 1), None);
        assert_eq!(get(&cache, remote(1), 4, 9..11, 2 * CHUNK), None);
        assert_eq!(get(&cache, remote(2), 5, 9..11, 2 * CHUNK), None);
        let other = RemoteFile::told_by("inhaul://b/b", &blake3::hash(b"a manifest"), None, 1);
        assert_eq!(get(&cache, other, 5, 9..11, 2 * CHUNK), None, "others may lie");
        let generation = blake3::hash(b"");
        let later = RemoteFile::told_by("inhaul://a/b", &blake3::hash(b"a manifest"), Some(&generation), 1);
        assert_eq!(get(&cache, later, 5, 9..11, 2 * CHUNK), None, "they may have other bytes later");
        assert_eq!(get(&cache, RemoteFile::of_hash(&blake3::hash(b"a manifest")), 5, 9..11, 2 * CHUNK), None);
        // The end of a file is no whole chunk.
        cache.put(&remote(1), 9, &(3..5), &content(&(3..5))[..CHUNK + 3]).unwrap();
        assert_eq!(get(&cache, remote(1), 9, 4..5, 3), Some(content(&(4..5))[..3].to_vec()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_was_put_before_what_is_got_is_right(
            parts in prop::collection::vec((0..1020u64, 1..300u64, any::<bool>()), 1..25),
        ) {
            let (dir, cache) = cache();
            let again = RangeCache::open(&dir.path().join("cache"), BYTES_MIN).unwrap();
            for (first, count, other) in parts {
                let chunks = first..(first + count).min(1024);
                let cache = if other { &again } else { &cache };
                cache.put(&remote(1), 0, &chunks, &content(&chunks)).unwrap();
                let len = content(&chunks).len();
                prop_assert_eq!(get(cache, remote(1), 0, chunks.clone(), len), Some(content(&chunks)));
                let size = std::fs::metadata(path_of(&dir, 0)).unwrap().len();
                prop_assert!(size <= FILE_BYTES_MAX);
            }
        }

        #[test]
        fn damaged_files_give_nothing_wrong(flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..4), cut in any::<prop::sample::Index>()) {
            let (dir, cache) = cache();
            cache.put(&remote(1), 0, &(0..2), &content(&(0..2))).unwrap();
            cache.put(&remote(1), 0, &(4..6), &content(&(4..6))).unwrap();
            let path = path_of(&dir, 0);
            let mut bytes = std::fs::read(&path).unwrap();
            for (place, flip) in flips {
                let place = place.index(bytes.len());
                bytes[place] ^= flip;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            std::fs::write(&path, &bytes).unwrap();
            for chunks in [0..2u64, 4..6, 5..6] {
                if let Some(got) = get(&cache, remote(1), 0, chunks.clone(), content(&chunks).len()) {
                    prop_assert_eq!(got, content(&chunks));
                }
            }
        }
    }

    #[test]
    fn a_damaged_record_goes_so_that_another_can_come() {
        let (dir, cache) = cache();
        cache.put(&remote(1), 0, &(0..2), &content(&(0..2))).unwrap();
        let path = path_of(&dir, 0);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"x", HEAD_BYTES as u64 + 3).unwrap();
        assert_eq!(get(&cache, remote(1), 0, 0..2, 2 * CHUNK), None);
        cache.put(&remote(1), 0, &(0..2), &content(&(0..2))).unwrap();
        assert_eq!(get(&cache, remote(1), 0, 0..2, 2 * CHUNK), Some(content(&(0..2))));
    }

    #[test]
    fn a_record_that_is_being_written_is_not_there_yet_and_nobody_removes_it() {
        let (dir, cache) = cache();
        cache.put(&remote(1), 0, &(0..2), &content(&(0..2))).unwrap();
        let record = Head::record(remote(1).group(0).hash, &(4..6), &content(&(4..6)));
        // Another process, which is slow.
        let writer = File::options().append(true).open(path_of(&dir, 0)).unwrap();
        for byte in &record {
            assert_eq!(get(&cache, remote(1), 0, 4..6, 2 * CHUNK), None);
            (&writer).write_all(&[*byte]).unwrap();
        }
        assert_eq!(get(&cache, remote(1), 0, 4..6, 2 * CHUNK), Some(content(&(4..6))));
        assert_eq!(get(&cache, remote(1), 0, 0..2, 2 * CHUNK), Some(content(&(0..2))));
        // Who holds the lock is not disturbed: neither by what would be added, nor by what looks damaged meanwhile.
        let writer = FileLock::exclusive(writer).unwrap();
        cache.put(&remote(1), 0, &(8..9), &content(&(8..9))).unwrap();
        assert_eq!(get(&cache, remote(1), 0, 8..9, CHUNK), None);
        (&*writer).write_all(&[0; HEAD_BYTES]).unwrap();
        assert_eq!(get(&cache, remote(1), 0, 8..9, CHUNK), None);
        assert!(cache.directory.is_called(&writer, &remote(1).group(0).name));
        drop(writer);
        assert_eq!(get(&cache, remote(1), 0, 8..9, CHUNK), None);
        assert!(!path_of(&dir, 0).exists());
    }

    #[test]
    fn what_a_writer_that_died_has_left_is_in_nobody_s_way() {
        let (dir, cache) = cache();
        let record = Head::record(remote(1).group(0).hash, &(4..6), &content(&(4..6)));
        for len in [1, HEAD_BYTES, HEAD_BYTES + 1, record.len() - 1] {
            std::fs::write(path_of(&dir, 0), &record[..len]).unwrap();
            std::fs::set_permissions(path_of(&dir, 0), std::fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(get(&cache, remote(1), 0, 4..6, 2 * CHUNK), None);
            cache.put(&remote(1), 0, &(8..9), &content(&(8..9))).unwrap();
            assert_eq!(get(&cache, remote(1), 0, 8..9, CHUNK), Some(content(&(8..9))), "behind {len} bytes");
        }
    }

    #[test]
    fn processes_that_share_it_see_whole_records_or_none() {
        let (dir, cache) = cache();
        let again = RangeCache::open(&dir.path().join("cache"), BYTES_MIN).unwrap();
        std::thread::scope(|scope| {
            for (writer, reader) in [(&cache, &again), (&again, &cache)] {
                scope.spawn(move || {
                    for round in 0..400u64 {
                        let chunks = (round * 7 % 1000)..(round * 7 % 1000 + 3);
                        writer.put(&remote(1), round / 100, &chunks, &content(&chunks)).unwrap();
                        if let Some(got) = get(reader, remote(1), round / 100, chunks.clone(), 3 * CHUNK) {
                            assert_eq!(got, content(&chunks));
                        }
                    }
                });
            }
        });
        // None was taken for damaged: of each group something is there.
        assert!((0..4).all(|group| path_of(&dir, group).exists()));
    }

    #[test]
    fn a_directory_with_something_else_in_it_is_refused_and_own_names_alone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "mine").unwrap();
        assert!(RangeCache::open(dir.path(), BYTES_MIN).unwrap_err().to_string().contains("not empty"));
        assert!(dir.path().join("thesis.tex").exists());
        for name in ["thesis.tex", "x.ranges", "x.made", "ab.made", MADE_END, GROUP_END] {
            assert!(!is_own_name(name.as_bytes()), "{name}");
        }
        assert!(!is_own_name(blake3::hash(b"").to_hex().as_bytes()), "others name files by hashes, too");
        assert!(is_own_name(remote(1).group(0).name.as_bytes()) && is_own_name(b"00000001000000ff.made"));
    }

    #[test]
    fn it_is_bounded_and_what_is_used_stays() {
        let (dir, cache) = cache();
        let whole = content(&(0..1024));
        for group in 0..100 {
            cache.put(&remote(1), group, &(0..1024), &whole).unwrap();
            assert!(get(&cache, remote(1), 0, 0..1, CHUNK).is_some(), "it is used all the time, at {group}");
            let bytes: u64 = std::fs::read_dir(dir.path().join("cache"))
                .unwrap()
                .map(|item| std::os::unix::fs::MetadataExt::blocks(&item.unwrap().metadata().unwrap()) * 512)
                .sum();
            assert!(bytes <= BYTES_MIN, "{bytes} bytes after {group} groups");
        }
        assert!(get(&cache, remote(1), 1, 0..1, CHUNK).is_none());
        assert!(get(&cache, remote(1), 99, 1000..1024, 24 * CHUNK).is_some());
    }

    #[test]
    fn a_directory_of_others_and_a_bound_too_small_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(RangeCache::open(dir.path(), BYTES_MIN - 1).unwrap_err().to_string().contains("too small"));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(RangeCache::open(dir.path(), BYTES_MIN).unwrap_err().to_string().contains("others can write"));
        let (_dir, cache) = cache();
        assert!(cache.put(&remote(1), 0, &(0..1), &[]).is_err());
        assert!(cache.put(&remote(1), 0, &(1000..1025), &content(&(1000..1025))).is_err());
        assert!(cache.put(&remote(1), 0, &(0..1), &content(&(0..2))).is_err());
    }
}
