//! Syncs the data so far to the disk, so that it survives a power failure.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use rustix::io::Errno;

use super::finish::SYNC_TOGETHER_MIN;
use super::state::{End, FileState};
use super::{Landing, LandingError};
use crate::beneath::{Links, split};
use crate::disk;
use crate::journal::Record;

impl Landing {
    /// Syncs, in this order: the recorded groups of files of several groups; the names of partial files and of files
    /// that were named one by one; the journal. Takes as long as the disk does; the landing continues meanwhile.
    ///
    /// When the disk is full or fails. Then the disk may lack any earlier write, and no file gets its name any more. A
    /// later landing checks what is there.
    pub fn sync(&self) -> Result<(), LandingError> {
        self.only_sync(|| {
            // Measured first: the files of all records so far are then in the set.
            let upto = self.journal().len();
            let (files, directories, is_begun, is_sure) = {
                let mut state = self.lock();
                if state.end != End::Open {
                    return Ok(());
                }
                let is_begun = std::mem::replace(&mut state.is_begun, true);
                let names = std::mem::take(&mut state.unsynced_names);
                (std::mem::take(&mut state.unsynced), names, is_begun, state.unsure.is_empty())
            };
            if files.is_empty() && directories.is_empty() && is_begun {
                return Ok(());
            }
            for &index in &files {
                self.sync_partial(index)?;
            }
            self.sync_names(&directories)?;
            self.sync_journal(is_begun)?;
            if is_sure {
                self.record(&[Record::Synced { bytes: upto }])?;
            }
            Ok(())
        })
    }

    /// Syncs the journal, and its name and the data set's, unless `is_begun`: then they are synced.
    fn sync_journal(&self, is_begun: bool) -> Result<(), LandingError> {
        if !is_begun {
            self.plan.destination.sync().map_err(|errno| LandingError::from_errno("sync", self.target(), errno))?;
        }
        let failed = |errno| LandingError::from_errno("sync", self.plan.destination.journal_path(), errno);
        let journal =
            self.journal().file().map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        disk::sync_bytes(&journal).map_err(failed)
    }

    /// Records that these files are about to get their names, and syncs the journal before the first rename. Without
    /// its record on the disk, a name there could be anyone's: once the file has changed at its source, the same
    /// transfer would refuse to replace it.
    pub(super) fn record_names(&self, files: &[usize]) -> Result<(), LandingError> {
        if files.is_empty() {
            return Ok(());
        }
        // All records come first: a recorded file that is not renamed is still found by its partial name.
        let records: Vec<Record> = files.iter().map(|&file| Record::Named { file }).collect();
        self.record(&records)?;
        self.only_sync(|| {
            let is_begun = std::mem::replace(&mut self.lock().is_begun, true);
            self.sync_journal(is_begun)
        })
    }

    /// Runs one sync at a time, and none after a failed one: the kernel reports lost bytes only once.
    pub(super) fn only_sync(&self, sync: impl FnOnce() -> Result<(), LandingError>) -> Result<(), LandingError> {
        let mut has_failed = self.has_failed_to_sync.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_failed {
            return Err(LandingError::NotSynced { path: self.target() });
        }
        let done = sync();
        *has_failed = done.as_ref().is_err_and(LandingError::is_of_the_disk);
        done
    }

    /// Syncs a partial file, unless it is finished.
    fn sync_partial(&self, index: usize) -> Result<(), LandingError> {
        let state = self.lock();
        let done = match state.files.get(index) {
            Some(FileState::Partial) => {
                let (state, file) = self.opened(state, index)?;
                // Other threads may write meanwhile.
                drop(state);
                disk::sync_bytes(&*file)
            }
            Some(FileState::Sealed | FileState::Finishing | FileState::GivenUp) => {
                drop(state);
                self.sync_file(index, None)
            }
            _ => Ok(()),
        };
        match done {
            // By now it was given up, or has its name.
            Err(Errno::NOENT) => Ok(()),
            done => done.map_err(|errno| self.file_error("sync", index, errno)),
        }
    }

    /// Syncs the names in directories, by their indices.
    fn sync_names(&self, directories: &BTreeSet<Option<usize>>) -> Result<(), LandingError> {
        let path = |index: Option<usize>| index.map_or(&b""[..], |index| &self.plan.manifest.directories()[index].path);
        let failed = |path: &[u8], errno| LandingError::from_errno("sync", self.shown(path), errno);
        if directories.len() >= SYNC_TOGETHER_MIN && !self.crosses_devices {
            return disk::sync_all(self.base.fd()).map_err(|errno| failed(b"", errno));
        }
        for path in directories.iter().map(|&index| path(index)) {
            match self.base.open_directory(path, Links::Refuse) {
                Ok(directory) => disk::sync_directory(directory.fd()).map_err(|errno| failed(path, errno))?,
                // Another program has removed it, which shows when it is used.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(path, errno)),
            }
        }
        Ok(())
    }

    /// The parent directory of file `index`, by its index; `None` for the data set's own.
    pub(super) fn directory_of(&self, index: usize) -> Option<usize> {
        self.plan.manifest.find_directory(split(self.path(index)).0)
    }
}
