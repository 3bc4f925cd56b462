//! What the files of an open data set are called in a cache.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use inhaul_store::digest::Hash;
use inhaul_store::range_cache::{RangeCache, RemoteFile};

/// How the files of a data set are named in the cache, and how much it had of them.
pub(super) struct Names {
    /// Who describes the data set.
    source: String,
    identity: Hash,
    sizes: Vec<u64>,
    /// The files whose hashes the user expects.
    pinned: BTreeMap<usize, Hash>,
    cached_bytes: AtomicU64,
    /// Which generation of the data set this is, if a mirror has said of which version its files are.
    generation: Mutex<Option<Hash>>,
}

impl Names {
    pub(super) fn new(source: String, identity: Hash, sizes: Vec<u64>, pinned: &[(usize, Hash)]) -> Self {
        let pinned = pinned.iter().copied().collect();
        Self { source, identity, sizes, pinned, cached_bytes: AtomicU64::new(0), generation: Mutex::default() }
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

    /// A mirror says of which version its files are.
    pub(super) fn hear(&self, cache: &RangeCache, mirror: &str, version: &[u8; 32]) {
        let generation = cache.generation(&self.source, &self.identity, mirror, version);
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) = Some(generation);
    }

    /// What a file is called there.
    pub(super) fn of(&self, file: usize) -> RemoteFile {
        match self.pinned.get(&file) {
            Some(hash) => RemoteFile::of_hash(hash),
            None => {
                let generation = *self.generation.lock().unwrap_or_else(PoisonError::into_inner);
                RemoteFile::told_by(&self.source, &self.identity, generation.as_ref(), file as u64)
            }
        }
    }
}
