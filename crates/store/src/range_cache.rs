//! A cache on disk of parts of remote files that were proven when they came.
//!
//! The cache's directory has one file for each group of which something is kept. Its name is the hash of the remote file
//! ([`RemoteFile`]) and the group's number, and its content is one record behind another:
//!
//! ```text
//! record = magic(4) first(2) count(2) len(4) checksum(32) bytes(len)      numbers in network byte order
//! ```
//!
//! `first` and `count` are chunks of the group, `len` is the length of their bytes. The checksum is over the file's name,
//! the chunks and the bytes. So a record that a crash or a full disk has cut short, or that lies in the wrong place, is
//! none, and what stands behind it does not count. Records are only added, each by one write, and whole groups replace
//! what was there. So several processes share a directory without a lock.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::proof::CHUNK_BYTES;
use crate::digest::{GROUP_BYTES, Hash};
use crate::pruned;

const MAGIC: [u8; 4] = *b"ihR1";
const CHECKSUM_BYTES: usize = 32;
const HEAD_BYTES: usize = 12 + CHECKSUM_BYTES;
/// The file of a group that would be longer begins anew.
const FILE_BYTES_MAX: u64 = 2 * GROUP_BYTES;
/// The least that a cache may be bounded by.
pub const BYTES_MIN: u64 = 64 << 20;

/// A remote file whose bytes do not change, and by whose word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteFile(Hash);

impl RemoteFile {
    /// The file of this BLAKE3 hash, whoever has it.
    pub fn of_hash(hash: &Hash) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a remote file of a known hash");
        hasher.update(hash.as_bytes());
        Self(hasher.finalize())
    }

    /// A file of a data set, by its index, as those at `source` have described it. `source` must say who that is: others
    /// may have the same description, and other bytes.
    pub fn told_by(source: &str, identity: &Hash, index: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a remote file by its servers' word");
        hasher.update(identity.as_bytes());
        hasher.update(&index.to_be_bytes());
        hasher.update(source.as_bytes());
        Self(hasher.finalize())
    }

    fn group(&self, group: u64) -> Hash {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a group of a remote file");
        hasher.update(self.0.as_bytes());
        hasher.update(&group.to_be_bytes());
        hasher.finalize()
    }
}

/// The cache: a directory that only its user can write to.
#[derive(Debug)]
pub struct RangeCache {
    directory: PathBuf,
    bytes_max: u64,
    /// Bytes that were written since it was last seen how many there are.
    written: AtomicU64,
    /// Numbers the files that are being made.
    made: AtomicU64,
}

impl RangeCache {
    /// Opens the cache in `directory`, which is made if it is not there. It is kept to `bytes_max` on the disk, and what
    /// was not used for longest goes first. Each process beyond the second that shares it may exceed that by a twentieth
    /// for a while.
    ///
    /// # Errors
    /// When it cannot be made, when `bytes_max` is less than [`BYTES_MIN`], and when others could write to it: whoever
    /// can change its files decides what is read.
    pub fn open(directory: &Path, bytes_max: u64) -> io::Result<Self> {
        let refuse = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if bytes_max < BYTES_MIN {
            return refuse(format!("a cache of {bytes_max} bytes is too small: {BYTES_MIN} or more are needed"));
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let stat = std::fs::metadata(directory)?;
        if stat.uid() != rustix::process::geteuid().as_raw() || stat.mode() & 0o022 != 0 {
            return refuse("others can write to it: a cache needs a directory of this user's with mode 700".to_owned());
        }
        let cache = Self {
            directory: directory.to_owned(),
            bytes_max,
            written: AtomicU64::new(0),
            made: AtomicU64::new(u64::from(std::process::id()) << 32),
        };
        cache.prune();
        Ok(cache)
    }

    /// Puts the bytes of some chunks of a group behind `bytes`, `len` of them: whether they are there.
    pub fn get(&self, file: &RemoteFile, group: u64, chunks: &Range<u64>, len: usize, bytes: &mut Vec<u8>) -> bool {
        let name = file.group(group);
        let Ok(file) = self.options().read(true).open(self.path(name)) else { return false };
        let Some(found) = find(&file, name, chunks) else {
            // What would be added to it would not count.
            let _ = std::fs::remove_file(self.path(name));
            return false;
        };
        let Some(wanted) = found.get(..len).filter(|wanted| !wanted.is_empty()) else { return false };
        bytes.extend_from_slice(wanted);
        pruned::touch(&file);
        true
    }

    /// Keeps the bytes of some chunks of a group, if the disk has room for them.
    ///
    /// # Errors
    /// When they could not be written; the cache goes on.
    pub fn put(&self, file: &RemoteFile, group: u64, chunks: &Range<u64>, bytes: &[u8]) -> io::Result<()> {
        let chunk_count = chunks.end.saturating_sub(chunks.start);
        if bytes.is_empty() || chunks.end > GROUP_BYTES / CHUNK_BYTES || bytes.len() as u64 > chunk_count * CHUNK_BYTES
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let name = file.group(group);
        let record = Head::record(name, chunks, bytes);
        let is_whole = bytes.len() as u64 == GROUP_BYTES;
        let file = self.options().append(true).create(true).open(self.path(name))?;
        if is_whole || file.metadata()?.len() + record.len() as u64 > FILE_BYTES_MAX {
            self.replace(name, &record)?;
        } else {
            // By one write: records of other processes come before or behind it.
            (&file).write_all(&record)?;
        }
        let written = self.written.fetch_add(record.len() as u64, Ordering::Relaxed) + record.len() as u64;
        if written >= self.bytes_max / 20 {
            self.written.store(0, Ordering::Relaxed);
            self.prune();
        }
        Ok(())
    }

    fn replace(&self, name: Hash, record: &[u8]) -> io::Result<()> {
        // A process that ends here leaves a file that nobody uses, and that therefore goes in its time.
        let made = self.directory.join(format!("made-{:x}", self.made.fetch_add(1, Ordering::Relaxed)));
        let file = self.options().write(true).create(true).truncate(true).open(&made)?;
        let written = (&file).write_all(record).and_then(|()| std::fs::rename(&made, self.path(name)));
        written.inspect_err(|_| drop(std::fs::remove_file(&made)))
    }

    fn prune(&self) {
        pruned::prune(&self.directory, self.bytes_max / 20 * 18, self.bytes_max / 20 * 17);
    }

    fn path(&self, name: Hash) -> PathBuf {
        self.directory.join(name.to_hex().as_str())
    }

    fn options(&self) -> std::fs::OpenOptions {
        let mut options = File::options();
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        options
    }
}

/// The bytes of a file's chunks and what follows them in their record, or none; `None`: something in the file is damaged.
fn find(file: &File, name: Hash, chunks: &Range<u64>) -> Option<Vec<u8>> {
    let end = file.metadata().ok()?.len();
    let mut at = 0;
    while at < end.min(FILE_BYTES_MAX) {
        let mut head = [0; HEAD_BYTES];
        file.read_exact_at(&mut head, at).ok()?;
        let head = Head::parse(&head)?;
        at += HEAD_BYTES as u64;
        if head.chunks.start <= chunks.start && chunks.end <= head.chunks.end {
            let mut kept = vec![0; head.len];
            file.read_exact_at(&mut kept, at).ok()?;
            let skip = ((chunks.start - head.chunks.start) * CHUNK_BYTES) as usize;
            let is_right = Head::checksum(name, &head.chunks, &kept) == head.checksum;
            return is_right.then(|| kept.split_off(skip.min(head.len)));
        }
        at += head.len as u64;
    }
    (at == end).then(Vec::new)
}

/// What stands before a record's bytes.
struct Head {
    chunks: Range<u64>,
    len: usize,
    checksum: [u8; CHECKSUM_BYTES],
}

impl Head {
    /// `None`: it is none.
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

    fn remote(index: u64) -> RemoteFile {
        RemoteFile::told_by("inhaul://a/b", &blake3::hash(b"a manifest"), index)
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
        let other = RemoteFile::told_by("inhaul://b/b", &blake3::hash(b"a manifest"), 1);
        assert_eq!(get(&cache, other, 5, 9..11, 2 * CHUNK), None, "others may lie");
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
            let (_dir, cache) = cache();
            let again = RangeCache::open(&cache.directory, BYTES_MIN).unwrap();
            for (first, count, other) in parts {
                let chunks = first..(first + count).min(1024);
                let cache = if other { &again } else { &cache };
                cache.put(&remote(1), 0, &chunks, &content(&chunks)).unwrap();
                let len = content(&chunks).len();
                prop_assert_eq!(get(cache, remote(1), 0, chunks.clone(), len), Some(content(&chunks)));
                let size = std::fs::metadata(cache.path(remote(1).group(0))).unwrap().len();
                prop_assert!(size <= FILE_BYTES_MAX);
            }
        }

        #[test]
        fn damaged_files_give_nothing_wrong(flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..4), cut in any::<prop::sample::Index>()) {
            let (_dir, cache) = cache();
            cache.put(&remote(1), 0, &(0..2), &content(&(0..2))).unwrap();
            cache.put(&remote(1), 0, &(4..6), &content(&(4..6))).unwrap();
            let path = cache.path(remote(1).group(0));
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
        let (_dir, cache) = cache();
        cache.put(&remote(1), 0, &(0..2), &content(&(0..2))).unwrap();
        let path = cache.path(remote(1).group(0));
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"x", HEAD_BYTES as u64 + 3).unwrap();
        assert_eq!(get(&cache, remote(1), 0, 0..2, 2 * CHUNK), None);
        cache.put(&remote(1), 0, &(0..2), &content(&(0..2))).unwrap();
        assert_eq!(get(&cache, remote(1), 0, 0..2, 2 * CHUNK), Some(content(&(0..2))));
    }

    #[test]
    fn it_is_bounded_and_what_is_used_stays() {
        let (_dir, cache) = cache();
        let whole = content(&(0..1024));
        for group in 0..100 {
            cache.put(&remote(1), group, &(0..1024), &whole).unwrap();
            assert!(get(&cache, remote(1), 0, 0..1, CHUNK).is_some(), "it is used all the time, at {group}");
            let bytes: u64 = std::fs::read_dir(&cache.directory)
                .unwrap()
                .map(|item| item.unwrap().metadata().unwrap().blocks() * 512)
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
