//! What the files of an open data set are called in a cache.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use inhaul_store::digest::Hash;
use inhaul_store::range_cache::RemoteFile;

/// How the files of a data set are named in the cache, and how much it had of them.
pub(super) struct Names {
    /// Who describes the data set.
    source: String,
    identity: Hash,
    sizes: Vec<u64>,
    /// The files whose hashes the user expects.
    pinned: BTreeMap<usize, Hash>,
    cached_bytes: AtomicU64,
}

impl Names {
    pub(super) fn new(source: String, identity: Hash, sizes: Vec<u64>, pinned: &[(usize, Hash)]) -> Self {
        let pinned = pinned.iter().copied().collect();
        Self { source, identity, sizes, pinned, cached_bytes: AtomicU64::new(0) }
    }

    /// The size of a file in bytes.
    pub(super) fn size(&self, file: usize) -> u64 {
        self.sizes[file]
    }

    /// The cache had so many bytes of a read.
    pub(super) fn count_cached(&self, bytes: u64) {
        self.cached_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of reads that the cache had.
    pub(super) fn cached_bytes(&self) -> u64 {
        self.cached_bytes.load(Ordering::Relaxed)
    }

    /// What a file is called there.
    pub(super) fn of(&self, file: usize) -> RemoteFile {
        match self.pinned.get(&file) {
            Some(hash) => RemoteFile::of_hash(hash),
            None => RemoteFile::told_by(&self.source, &self.identity, file as u64),
        }
    }
}
