//! Locks of whole files (`flock`), released with the value that holds them.
//!
//! The kernel keeps such a lock until the last descriptor of the open file is closed. A process that is being started
//! has copies of all descriptors for a moment, even of those it will not inherit. So the lock is released by a call,
//! not only by closing the file. Otherwise the next process could find it locked after its holder is gone.

use std::ops::Deref;
use std::os::fd::AsFd;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, Result};

/// A file that is locked, if its file system has locks.
#[derive(Debug)]
pub(crate) struct FileLock<F: AsFd>(F);

impl<F: AsFd> FileLock<F> {
    /// Takes an exclusive lock on `file`.
    ///
    /// `EWOULDBLOCK` if another process holds a lock, or the system's error.
    pub(crate) fn exclusive(file: F) -> Result<Self> {
        Self::lock(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock on `file`.
    ///
    /// # Errors
    /// As [`exclusive`](Self::exclusive).
    pub(crate) fn shared(file: F) -> Result<Self> {
        Self::lock(file, FlockOperation::NonBlockingLockShared)
    }

    fn lock(file: F, operation: FlockOperation) -> Result<Self> {
        match flock(&file, operation) {
            Ok(()) | Err(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS) => Ok(Self(file)),
            Err(errno) => Err(errno),
        }
    }
}

impl<F: AsFd> Deref for FileLock<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.0
    }
}

impl<F: AsFd> Drop for FileLock<F> {
    fn drop(&mut self) {
        // If this fails, closing the file releases it.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_lock_ends_with_its_holder_whoever_has_a_copy_of_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        File::create(&path).unwrap();
        let open = || File::open(&path).unwrap();
        let (file, other) = (open(), open());
        // As a program that is being started has it.
        let _copy = file.try_clone().unwrap();
        for lock in [FileLock::exclusive, FileLock::shared] {
            let held = lock(&file).unwrap();
            assert_eq!(FileLock::exclusive(&other).unwrap_err(), Errno::WOULDBLOCK);
            drop(held);
            drop(FileLock::exclusive(&other).unwrap());
        }
        let held = FileLock::shared(&file).unwrap();
        assert!(FileLock::shared(&other).is_ok());
        drop(held);
        let held = FileLock::exclusive(open()).unwrap();
        let _copy = held.try_clone().unwrap();
        drop(held);
        assert!(FileLock::exclusive(&other).is_ok());
    }
}
