//! Partial files: made with their first byte, opened when they are needed, and held open.

use std::fs::File;
use std::sync::{Arc, MutexGuard, PoisonError};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::state::{End, FileState, State};
use super::watch::GUARD_BYTES;
use super::{Landing, LandingError, names};
use crate::beneath::{Links, split};
use crate::digest::GROUP_BYTES;
use crate::disk;
use crate::plan::Existing;

impl Landing {
    /// The file `index`, open for reading, under its name if it has one.
    pub(super) fn readable(&self, mut state: MutexGuard<'_, State>, index: usize) -> Result<Arc<File>, LandingError> {
        if state.end != End::Open || state.files.get(index) != Some(&FileState::Named) {
            return self.opened(state, index).map(|(_, file)| file);
        }
        if let Some(file) = state.open.get(index) {
            return Ok(file);
        }
        let opened = self.base.open_own(self.path(index), OFlags::RDONLY);
        let file = Arc::new(opened.map_err(|errno| self.file_error("open", index, errno))?);
        state.open.insert(index, Arc::clone(&file));
        Ok(file)
    }

    /// The partial file of `index`, open for reading and writing; made if it does not exist.
    pub(super) fn opened<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        index: usize,
    ) -> Result<(MutexGuard<'s, State>, Arc<File>), LandingError> {
        loop {
            if state.end != End::Open {
                return Err(LandingError::Closed);
            }
            match state.files.get(index) {
                None => return Err(LandingError::NoSuchFile(index)),
                Some(FileState::Named) => {
                    let failed = |errno| self.file_error("open", index, errno);
                    self.take_links_away(index).map_err(failed)?;
                    self.check_links(index, self.path(index))?;
                    state.open.remove(index);
                    self.take_name_away(index).map_err(failed)?;
                    state.files[index] = FileState::Partial;
                    if !self.take_up_partial(index).map_err(failed)? {
                        return Err(failed(Errno::PERM));
                    }
                }
                Some(FileState::Absent) => return self.make(state, index),
                Some(FileState::Making) => state = self.made_one.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(FileState::Partial) => break,
                Some(FileState::Sealed | FileState::Finishing | FileState::Finished | FileState::Outside) => {
                    return Err(LandingError::Finished(index));
                }
                Some(FileState::GivenUp) => return Err(LandingError::GivenUp(index)),
            }
        }
        if let Some(file) = state.open.get(index) {
            return Ok((state, file));
        }
        let path = self.partial_path(index);
        self.check_links(index, &path)?;
        let reopened = state.watch.open(index, || self.base.open_own(&path, OFlags::RDWR));
        let file = Arc::new(reopened.map_err(|errno| self.file_error("open", index, errno))?);
        self.hold_open(&mut state, index, &file);
        Ok((state, file))
    }

    /// Holds a partial file open, and watches it.
    fn hold_open(&self, state: &mut State, index: usize, file: &Arc<File>) {
        if self.guard_bytes(index) > 0 && !state.watch.is_watching(index) {
            state.watch.begin(index, file);
        }
        state.open.insert(index, Arc::clone(file));
    }

    /// Checks that `path` is a file without other names: through a hard link, another file would be overwritten.
    fn check_links(&self, index: usize, path: &[u8]) -> Result<(), LandingError> {
        let stat = self.base.stat(path, Links::Refuse).map_err(|errno| self.file_error("open", index, errno))?;
        let is_ours = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink <= 1;
        if is_ours { Ok(()) } else { Err(LandingError::Linked { path: self.shown(path) }) }
    }

    /// The extra length of the partial file.
    fn guard_bytes(&self, index: usize) -> u64 {
        if self.plan.manifest.entries()[index].size > GROUP_BYTES { GUARD_BYTES } else { 0 }
    }

    /// The length of the partial file of `index`.
    pub(super) fn partial_bytes(&self, index: usize) -> u64 {
        self.plan.manifest.entries()[index].size.saturating_add(self.guard_bytes(index))
    }

    /// Makes the partial file of `index`. The state is unlocked meanwhile: for a small file, making it takes longer
    /// than everything else.
    fn make<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        index: usize,
    ) -> Result<(MutexGuard<'s, State>, Arc<File>), LandingError> {
        state.files[index] = FileState::Making;
        drop(state);
        let made = self.create_partial(index);
        let mut state = self.lock();
        state.files[index] = if made.is_ok() { FileState::Partial } else { FileState::Absent };
        self.made_one.notify_all();
        if state.end != End::Open {
            if state.end == End::Aborted && made.is_ok() {
                // The landing was aborted while this file was made, so it is removed here. If that fails, it stays.
                let _ = self.base.remove_file(&self.partial_path(index));
            }
            return Err(LandingError::Closed);
        }
        let file = Arc::new(made?);
        if self.guard_bytes(index) > 0 {
            state.unsynced_names.insert(self.directory_of(index));
        }
        self.hold_open(&mut state, index, &file);
        Ok((state, file))
    }

    /// An empty partial file, sparse and of full length: bytes come in any order, and a file that is too large fails at
    /// once.
    fn create_partial(&self, index: usize) -> Result<File, LandingError> {
        let path = &self.partial_path(index);
        if self.options.existing == Existing::Replace || self.owns_partials {
            match self.base.remove_file(path) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.file_error("replace", index, errno)),
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // The kernel applies the umask. The owner must be able to reopen it until it is finished.
        let mode = Mode::from_raw_mode(self.plan.manifest.entries()[index].metadata.mode | 0o600);
        let file = self.base.open(path, flags, mode, Links::Refuse).map_err(|errno| match errno {
            Errno::EXIST => LandingError::PartialExists { path: self.shown(path) },
            errno if names::is_of_name(errno) => {
                names::refused(self.shown(self.path(index)), split(self.path(index)).1, errno)
            }
            errno => self.file_error("make", index, errno),
        })?;
        if let Err(errno) = disk::resize(&file, self.partial_bytes(index)) {
            let error = self.file_error("make", index, errno);
            if self.base.remove_file(path).is_err() {
                // It stays, and so does the journal, which tells whose it is.
                self.lock().kept_partials.push(index);
                self.journal().keep();
            }
            return Err(error);
        }
        Ok(File::from(file))
    }
}
