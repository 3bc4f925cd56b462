//! A cache on disk for digests that were computed in earlier runs.
//!
//! The cache's directory has one file for each version of a large file. Its name is the hash of the version's
//! identity. It has a record for each group, at the group's place, so several threads and processes can fill it at
//! once:
//!
//! ```text
//! record = digest(32) checksum(8)      all zeros: not known
//! ```
//!
//! A *version* is a file's device, inode, size and both of its times. The kernel sets the time of the last change
//! (ctime), and programs cannot set it back. So every write gives a file another version, unless it comes within the
//! clock's resolution. Therefore digests are kept only for versions older than that ([`FileVersion::is_settled`]). If a
//! digest were wrong even so, receivers would refuse the data.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{OFlags, Stat};

use crate::digest::{GROUP_BYTES, GroupDigest, group_count};
use crate::own_directory::{self, OwnDirectory, Purpose, is_hash};

/// Smallest file to cache. A smaller one is hashed as quickly as it is looked up.
pub const CACHED_BYTES_MIN: u64 = 8 * GROUP_BYTES;
const DIGEST_BYTES: usize = 32;
const RECORD_BYTES: usize = DIGEST_BYTES + 8;
/// A version is settled after this time: more than the granularity of any file system's times.
const SETTLED_SECONDS: i64 = 3;
/// The same if times have fractions of a second: more than the granularity of the kernel's clock, 10 ms at most.
const SETTLED_FINE_MS: i64 = 20;

/// Identifies one state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// The version of an open file.
    ///
    /// When the system does not tell.
    pub fn of(file: &File) -> std::io::Result<Self> {
        let stat = file.metadata()?;
        Ok(Self {
            device: stat.dev(),
            inode: stat.ino(),
            size: stat.len(),
            modified: (stat.mtime(), stat.mtime_nsec()),
            changed: (stat.ctime(), stat.ctime_nsec()),
        })
    }

    pub(crate) fn of_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size.unsigned_abs(),
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// The file's size, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the version is settled at `now`, in seconds since 1970: any further write gives the file another
    /// version.
    pub fn is_settled(&self, now: i64) -> bool {
        self.changed.0.max(self.modified.0).saturating_add(SETTLED_SECONDS) < now
    }

    fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a version of a file");
        for number in [self.device, self.inode, self.size] {
            hasher.update(&number.to_be_bytes());
        }
        for (seconds, nanos) in [self.modified, self.changed] {
            hasher.update(&seconds.to_be_bytes());
            hasher.update(&nanos.to_be_bytes());
        }
        hasher.finalize()
    }
}

/// Identifies one state of a data set's files: all their versions, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    sum: [u64; 4],
    /// When all versions are settled, in milliseconds since 1970.
    settled_ms: i64,
}

impl Versions {
    /// Adds the file at `path`.
    pub(crate) fn add(&mut self, path: &[u8], version: &FileVersion) {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a version of a file of a data set");
        hasher.update(version.hash().as_bytes());
        hasher.update(path);
        let hash = hasher.finalize();
        for (sum, bytes) in self.sum.iter_mut().zip(hash.as_bytes().as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_be_bytes(*bytes));
        }
        let settled = |(seconds, nanos): (i64, i64)| {
            let grain = if nanos == 0 { SETTLED_SECONDS * 1000 } else { SETTLED_FINE_MS };
            seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000 + grain)
        };
        self.settled_ms = self.settled_ms.max(settled(version.changed));
    }

    /// Time until all versions are settled, in milliseconds.
    pub(crate) fn settle_in_ms(&self, now_ms: i64) -> u64 {
        u64::try_from(self.settled_ms.saturating_sub(now_ms).saturating_add(1)).unwrap_or(0)
    }

    /// The hash of all versions. Until all are settled, it changes every millisecond.
    pub(crate) fn hash(&self, now_ms: i64) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a version of a data set");
        for sum in self.sum {
            hasher.update(&sum.to_be_bytes());
        }
        if self.settled_ms >= now_ms {
            hasher.update(&now_ms.to_be_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

/// Its directory is the program's own choice. Earlier releases left it without a mark.
const PURPOSE: Purpose = Purpose { of: "digests of files", is_own_name: is_hash, takes_unmarked: true };

/// The cache: a directory that only its user can write to.
#[derive(Clone, Debug)]
pub struct DigestCache {
    directory: Arc<OwnDirectory>,
}

impl DigestCache {
    /// Opens the cache in `directory`, which is made if it does not exist.
    ///
    /// # Errors
    /// When it cannot be made, when others could write to it, and when it has files that are not the cache's.
    pub fn open(directory: &Path) -> std::io::Result<Self> {
        Ok(Self { directory: Arc::new(OwnDirectory::open(directory, &PURPOSE)?) })
    }

    /// The digests of one version of a file; `None` if the file is too small, or the cache fails.
    pub fn of(&self, version: FileVersion) -> Option<CachedDigests> {
        if version.size < CACHED_BYTES_MIN {
            return None;
        }
        let file = self.directory.open_file(version.hash().to_hex().as_str(), OFlags::RDWR | OFlags::CREATE).ok()?;
        // The last used ones are removed last.
        own_directory::touch(&file);
        Some(CachedDigests { version, file })
    }

    /// Removes the least recently used digests until at most `bytes_max` are left on the disk. Other files, and files
    /// that cannot be removed, stay.
    pub fn prune(&self, bytes_max: u64) {
        self.directory.prune(bytes_max, bytes_max);
    }
}

/// The remembered digests of one version of a file.
#[derive(Debug)]
pub struct CachedDigests {
    version: FileVersion,
    file: File,
}

impl CachedDigests {
    /// The version.
    pub fn version(&self) -> FileVersion {
        self.version
    }

    /// The digest of a group, if it is known.
    pub fn get(&self, group: u64) -> Option<GroupDigest> {
        let mut record = [0; RECORD_BYTES];
        self.file.read_exact_at(&mut record, self.place(group)?).ok()?;
        let (digest, checksum) = record.split_first_chunk::<DIGEST_BYTES>()?;
        (checksum == self.checksum(group, digest)).then_some(*digest)
    }

    /// Remembers the digest of a group, if the disk has room for it.
    pub fn put(&self, group: u64, digest: &GroupDigest) {
        if let Some(place) = self.place(group) {
            let record = [digest.as_slice(), &self.checksum(group, digest)].concat();
            // A truncated record has no checksum.
            let _ = self.file.write_all_at(&record, place);
        }
    }

    fn place(&self, group: u64) -> Option<u64> {
        (group < group_count(self.version.size)).then_some(group * RECORD_BYTES as u64)
    }

    fn checksum(&self, group: u64, digest: &GroupDigest) -> [u8; RECORD_BYTES - DIGEST_BYTES] {
        let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a remembered digest");
        hasher.update(self.version.hash().as_bytes());
        hasher.update(&group.to_be_bytes());
        hasher.update(digest);
        let mut checksum = [0; RECORD_BYTES - DIGEST_BYTES];
        hasher.finalize_xof().fill(&mut checksum);
        checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn version(inode: u64) -> FileVersion {
        FileVersion { device: 1, inode, size: 3 * CACHED_BYTES_MIN, modified: (100, 5), changed: (200, 7) }
    }

    #[test]
    fn digests_are_remembered_for_their_version_alone() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::open(&dir.path().join("deep/cache")).unwrap();
        let digests = cache.of(version(1)).unwrap();
        assert_eq!(digests.get(5), None);
        digests.put(5, &[7; 32]);
        digests.put(1 << 40, &[7; 32]);
        let again = DigestCache::open(&dir.path().join("deep/cache")).unwrap();
        assert_eq!(again.of(version(1)).unwrap().get(5), Some([7; 32]));
        assert_eq!(again.of(version(1)).unwrap().get(4), None);
        for other in [
            version(2),
            FileVersion { size: version(1).size + 1, ..version(1) },
            FileVersion { modified: (100, 6), ..version(1) },
            FileVersion { changed: (201, 7), ..version(1) },
        ] {
            assert_eq!(again.of(other).unwrap().get(5), None, "{other:?}");
        }
    }

    #[test]
    fn versions_of_a_data_set_tell_each_file_s_change_and_settle() {
        let of = |files: &[(&str, FileVersion)]| {
            let mut versions = Versions::default();
            files.iter().for_each(|(path, version)| versions.add(path.as_bytes(), version));
            versions
        };
        let (a, b) = (("a", version(1)), ("b", version(2)));
        assert_eq!(of(&[a, b]), of(&[b, a]));
        let changed = FileVersion { changed: (200, 8), ..version(2) };
        for other in [&[a][..], &[a, ("b", changed)], &[("a", version(2)), ("b", version(1))], &[a, ("c", version(2))]]
        {
            assert_ne!(of(other).hash(i64::MAX), of(&[a, b]).hash(i64::MAX), "{other:?}");
        }
        let coarse = ("a", FileVersion { changed: (200, 0), ..version(1) });
        for (file, settled_ms) in [(a, 200_020), (coarse, 203_000)] {
            assert_eq!(of(&[file]).hash(settled_ms + 1), of(&[file]).hash(i64::MAX));
            assert_ne!(of(&[file]).hash(settled_ms), of(&[file]).hash(i64::MAX));
            assert_ne!(of(&[file]).hash(settled_ms), of(&[file]).hash(settled_ms - 1));
            assert_eq!([5, 0, -1, -9].map(|after| of(&[file]).settle_in_ms(settled_ms - after)), [6, 1, 0, 0]);
        }
    }

    #[test]
    fn damaged_records_are_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::open(dir.path()).unwrap();
        let digests = cache.of(version(1)).unwrap();
        digests.put(0, &[7; 32]);
        for at in 0..RECORD_BYTES as u64 {
            let mut byte = [0];
            digests.file.read_exact_at(&mut byte, at).unwrap();
            digests.file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            assert_eq!(digests.get(0), None);
            digests.file.write_all_at(&byte, at).unwrap();
        }
        // A record that belongs to another group.
        let mut record = [0; RECORD_BYTES];
        digests.file.read_exact_at(&mut record, 0).unwrap();
        digests.file.write_all_at(&record, RECORD_BYTES as u64).unwrap();
        assert_eq!((digests.get(0), digests.get(1)), (Some([7; 32]), None));
    }

    #[test]
    fn small_files_are_not_cached_and_versions_settle() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::open(dir.path()).unwrap();
        assert!(cache.of(FileVersion { size: CACHED_BYTES_MIN - 1, ..version(1) }).is_none());
        assert!(!version(1).is_settled(203));
        assert!(version(1).is_settled(204));
    }

    #[test]
    fn prune_removes_what_was_not_used_for_longest() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::open(dir.path()).unwrap();
        for inode in 0..4 {
            let digests = cache.of(version(inode)).unwrap();
            digests.put(0, &[inode as u8; 32]);
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + inode);
            digests.file.set_modified(used).unwrap();
        }
        let bytes = cache.of(version(3)).unwrap().file.metadata().unwrap().blocks() * 512;
        cache.prune(2 * bytes);
        let left: Vec<u64> =
            (0..4).filter(|&inode| dir.path().join(version(inode).hash().to_hex().as_str()).exists()).collect();
        assert_eq!(left, [2, 3]);
    }
}
