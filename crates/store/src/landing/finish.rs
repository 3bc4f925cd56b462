//! Gives files their names, and makes a landing durable.

use std::fs::File;
use std::sync::{Arc, PoisonError};

use rustix::io::Errno;

use super::state::{End, FileState, Seal, State};
use super::watch::Stamp;
use super::{Landing, LandingError, names};
use crate::beneath::{Beneath, Links, split};
use crate::disk;
use crate::plan::{Fate, is_special};
use crate::{Kind, Metadata};

/// From this number of files on, one sync of the whole file system costs less than one sync per file: the file system's
/// journal commits once.
pub(super) const SYNC_TOGETHER_MIN: usize = 16;

impl Landing {
    /// Seals file `index`, whose bytes are complete and verified by the caller. Sets its metadata while it is still
    /// open. From then on it waits for its name, and nothing is written to it.
    ///
    /// # Errors
    /// When the file is finished already, or cannot be opened.
    pub fn seal(&self, index: usize) -> Result<(), LandingError> {
        if self.lock().files.get(index) == Some(&FileState::Named) {
            return Ok(());
        }
        self.close_file(index, FileState::Sealed).map(drop)
    }

    /// Syncs file `index` to the disk and gives it its name. [Seals](Landing::seal) it first, if needed. Takes as long
    /// as the disk does; other files can be written meanwhile.
    ///
    /// When the disk is full or fails, or when another file has its name by now. The partial file still exists then.
    /// The same holds if another program may have written to it.
    pub fn finish_file(&self, index: usize) -> Result<(), LandingError> {
        let disturbed = self.finish_files(&[index])?;
        if disturbed.is_empty() { Ok(()) } else { Err(self.disturbed(index)) }
    }

    /// The error for file `index` if another program has written to it.
    pub fn disturbed(&self, index: usize) -> LandingError {
        LandingError::Disturbed { path: self.shown(self.path(index)) }
    }

    /// [Seals](Landing::seal) file `index` once more, and returns it open, to be read back. If it is correct, it can be
    /// [named](Landing::finish_files).
    ///
    /// As [`seal`](Landing::seal), and when it has another name.
    pub fn seal_again(&self, index: usize) -> Result<Arc<File>, LandingError> {
        self.close_file(index, FileState::Sealed)
    }

    /// As [`finish_file`](Landing::finish_file), for many files at once. This is much faster for small files, because
    /// one sync covers them all (and other unwritten data of that file system). A file does not get its name if another
    /// program may have written to it since it was verified. It is returned, and stays partial.
    ///
    /// As [`finish_file`](Landing::finish_file). Files without their name are still partial then.
    pub fn finish_files(&self, indices: &[usize]) -> Result<Vec<usize>, LandingError> {
        let mut unnamed = Vec::with_capacity(indices.len());
        let mut disturbed = Vec::new();
        let to_name = self.pass_named(indices);
        let together = indices.len() >= SYNC_TOGETHER_MIN && !self.crosses_devices;
        let done = self
            .only_sync(|| self.sync_files(&to_name, together, &mut unnamed))
            .and_then(|()| self.record_names(&unnamed))
            .and_then(|()| self.name(together, &mut unnamed, &mut disturbed));
        let mut state = self.lock();
        for index in unnamed.into_iter().chain(disturbed.iter().copied()) {
            state.files[index] = FileState::Partial;
            if state.end == End::Aborted {
                // A concurrent abort left this file to us.
                let _ = self.base.remove_file(&self.partial_path(index));
            }
        }
        done.map(|()| disturbed)
    }

    /// The files without their name. Those that an earlier transfer has named become finished.
    fn pass_named(&self, indices: &[usize]) -> Vec<usize> {
        let mut state = self.lock();
        let has_name = |state: &mut State, index: usize| match state.files.get_mut(index) {
            Some(file @ FileState::Named) => {
                *file = FileState::Finished;
                state.open.remove(index);
                true
            }
            _ => false,
        };
        indices.iter().copied().filter(|&index| !has_name(&mut state, index)).collect()
    }

    /// Sets a file's metadata, and moves it from the open files to the state `next`, in which it does not change.
    fn close_file(&self, index: usize, next: FileState) -> Result<Arc<File>, LandingError> {
        let entry = &self.plan.manifest.entries()[index];
        let (file, was_sealed) = {
            let (mut state, file) = self.opened(self.lock(), index)?;
            state.files[index] = next;
            state.open.remove(index);
            (file, state.sealed.remove(&index).is_some())
        };
        let failed = |errno| self.file_error("finish", index, errno);
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        let len = if was_sealed { entry.size } else { self.partial_bytes(index) };
        let is_whole = stat.st_size.unsigned_abs() == len && stat.st_nlink <= 1;
        if stat.st_size.unsigned_abs() != entry.size {
            disk::resize(&file, entry.size).map_err(failed)?;
        }
        self.set_metadata(&*file, self.path(index), &entry.metadata);
        let stamp = Stamp::of(&rustix::fs::fstat(&file).map_err(failed)?);
        let mut state = self.lock();
        let is_disturbed = state.watch.end(index) || !is_whole;
        state.sealed.insert(index, Seal { stamp, is_disturbed });
        Ok(file)
    }

    /// Whether a partial file in `directory` is unchanged, as its times and size show.
    fn is_as_left(&self, index: usize, directory: &Beneath) -> bool {
        let seal = self.lock().sealed.get(&index).copied();
        let partial = self.partial_path(index);
        let stat = disk::look_at(directory.fd(), split(&partial).1);
        seal.zip(stat.ok()).is_some_and(|(seal, stat)| !seal.is_disturbed && seal.stamp.is_still(Stamp::of(&stat)))
    }

    /// Syncs the files and adds them to `claimed`. From then on no other thread handles them.
    fn sync_files(&self, indices: &[usize], together: bool, claimed: &mut Vec<usize>) -> Result<(), LandingError> {
        for &index in indices {
            let file = if self.claim_sealed(index) {
                claimed.push(index);
                None
            } else {
                let file = self.close_file(index, FileState::Finishing)?;
                claimed.push(index);
                Some(file)
            };
            if !together {
                self.sync_file(index, file).map_err(|errno| self.file_error("sync", index, errno))?;
            }
        }
        match indices.first() {
            Some(&index) if together => {
                disk::sync_all(self.base.fd()).map_err(|errno| self.file_error("sync", index, errno))
            }
            _ => Ok(()),
        }
    }

    /// Whether the file was sealed; it is being finished then.
    fn claim_sealed(&self, index: usize) -> bool {
        let mut state = self.lock();
        match state.files.get_mut(index) {
            Some(file) if *file == FileState::Sealed => {
                *file = FileState::Finishing;
                true
            }
            _ => false,
        }
    }

    pub(super) fn sync_file(&self, index: usize, file: Option<Arc<File>>) -> rustix::io::Result<()> {
        if let Some(file) = file {
            return disk::sync_file(&*file);
        }
        match self.base.open_for_reading(&self.partial_path(index), Links::Refuse) {
            Ok(file) => disk::sync_file(file),
            // By its permissions not even its owner may read it.
            Err(Errno::ACCESS) => disk::sync_all(self.base.fd()),
            Err(errno) => Err(errno),
        }
    }

    /// Renames the files one after the other, and removes each from `unnamed` once it has its name. Files that another
    /// program may have written to go to `disturbed`.
    fn name(&self, together: bool, unnamed: &mut Vec<usize>, disturbed: &mut Vec<usize>) -> Result<(), LandingError> {
        // Neighbouring files mostly share their parent.
        let mut parent: Option<(&[u8], Beneath)> = None;
        while let Some(&index) = unnamed.last() {
            let path = self.path(index);
            let above = split(path).0;
            if parent.as_ref().is_none_or(|(open, _)| *open != above) {
                let opened = self.base.open_directory(above, Links::Refuse);
                parent = Some((above, opened.map_err(|errno| self.file_error("rename", index, errno))?));
            }
            let Some((_, directory)) = &parent else { continue };
            if !self.is_as_left(index, directory) {
                unnamed.pop();
                disturbed.push(index);
                continue;
            }
            self.rename(index, directory).map_err(|errno| match errno {
                Errno::EXIST => LandingError::Exists { path: self.shown(path), others: 0 },
                Errno::ISDIR => LandingError::IsADirectory { path: self.shown(path) },
                Errno::NOTSUP => LandingError::Special { path: self.shown(path) },
                errno if names::is_of_name(errno) => names::refused(self.shown(path), split(path).1, errno),
                _ => self.file_error("rename", index, errno),
            })?;
            unnamed.pop();
            let mut state = self.lock();
            state.files[index] = FileState::Finished;
            state.sealed.remove(&index);
            if !together {
                // If files were synced together, so were their partial names and the journal.
                state.unsynced_names.insert(self.directory_of(index));
            }
        }
        Ok(())
    }

    fn rename(&self, index: usize, directory: &Beneath) -> rustix::io::Result<()> {
        let partial = self.partial_path(index);
        let (partial, name) = (split(&partial).1, split(self.path(index)).1);
        if self.plan.files()[index] == Fate::Replace {
            if disk::look_at(directory.fd(), name).is_ok_and(|stat| is_special(&stat)) {
                return Err(Errno::NOTSUP);
            }
            disk::rename(directory.fd(), partial, name)
        } else {
            rename_to_free_name(directory, partial, name)
        }
    }

    /// Makes the landing durable: makes the links, sets the metadata of directories, and syncs every directory with a
    /// new name. The journal stays until [`conclude`](Landing::conclude).
    ///
    /// When a file is not finished, when another file is in the place of a link by now, or when the disk fails.
    pub fn finish(&self) -> Result<(), LandingError> {
        {
            let state = self.lock();
            if state.end != End::Open {
                return Err(LandingError::Closed);
            }
            let is_done =
                |file: &FileState| matches!(file, FileState::Finished | FileState::Outside | FileState::GivenUp);
            let missing = state.files.iter().filter(|&file| !is_done(file)).count();
            if missing > 0 {
                return Err(LandingError::Incomplete { missing });
            }
        }
        self.make_links()?;
        self.only_sync(|| self.settle_for_good())
    }

    fn settle_for_good(&self) -> Result<(), LandingError> {
        let mut state = self.lock();
        if self.plan.manifest.kind() == Kind::Directory {
            self.settle_all()?;
        } else {
            disk::sync_directory(self.base.fd())
                .map_err(|errno| LandingError::from_errno("sync", self.shown(b""), errno))?;
        }
        // An earlier transfer may have made the name.
        if self.plan.manifest.kind() == Kind::Directory {
            self.plan.destination.sync().map_err(|errno| LandingError::from_errno("sync", self.target(), errno))?;
        }
        state.end = End::Finished;
        Ok(())
    }

    /// Removes the journal of a landing that is [finished](Landing::finish). The journal stays if the landing was
    /// suspended after that, or if a later transfer can continue files that were given up. Dropping the landing does
    /// the same.
    pub fn conclude(&self) {
        let state = self.lock();
        if state.end == End::Finished && !state.keeps_given_up {
            drop(state);
            self.journal().retire();
        }
    }

    /// Gives up file `index`, which is not verified; all others land. Its partial file is removed, or kept for a later
    /// transfer to continue from.
    pub fn give_up(&self, index: usize, keep: bool) {
        let mut state = self.lock();
        while state.files.get(index) == Some(&FileState::Making) {
            state = self.made_one.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let before = state.files.get(index).copied();
        if state.end != End::Open || !matches!(before, Some(FileState::Absent | FileState::Partial | FileState::Named))
        {
            return;
        }
        state.files[index] = FileState::GivenUp;
        state.open.remove(index);
        state.unsure.retain(|(file, _)| *file != index);
        state.keeps_given_up |= keep;
        if before == Some(FileState::Partial) && !keep {
            // If it cannot be removed, it stays.
            let _ = self.base.remove_file(&self.partial_path(index));
        } else if before == Some(FileState::Partial) {
            state.kept_partials.push(index);
        }
    }

    /// Whether file `index` was given up.
    pub(super) fn is_given_up(&self, index: usize) -> bool {
        self.lock().files.get(index) == Some(&FileState::GivenUp)
    }

    /// Sets the metadata of all wanted directories and of the data set's own, and syncs them.
    fn settle_all(&self) -> Result<(), LandingError> {
        let failed = |path: &[u8], errno| LandingError::from_errno("sync", self.shown(path), errno);
        let home = self.home();
        let wanted = self.plan.directories.iter().filter(|wanted| **wanted).count();
        let together = if wanted >= SYNC_TOGETHER_MIN { home } else { None };
        let directories = self.plan.manifest.directories().iter().enumerate();
        // Children first: a parent may lose its search permission.
        for (index, directory) in directories.rev().filter(|&(index, _)| self.plan.directories[index]) {
            let made = self.made.binary_search(&index).is_ok();
            self.settle(Some(index), &directory.metadata, made, together)
                .map_err(|errno| failed(&directory.path, errno))?;
        }
        if together.is_some() {
            disk::sync_all(self.base.fd()).map_err(|errno| failed(b"", errno))?;
        }
        self.settle(None, self.plan.manifest.top(), self.made_target, None).map_err(|errno| failed(b"", errno))
    }

    /// Sets the metadata of directory `index`, or of the data set's own; only its time if it was not `made` here. Syncs
    /// it, unless it is on the device that is synced as a whole.
    fn settle(
        &self,
        index: Option<usize>,
        metadata: &Metadata,
        made: bool,
        together: Option<u64>,
    ) -> rustix::io::Result<()> {
        let path = index.map_or(&b""[..], |index| &self.plan.manifest.directories()[index].path);
        let directory = match self.base.open_directory(path, Links::Refuse) {
            // Nothing was done in an existing one that its owner may not open.
            Err(Errno::ACCESS) if !made => return Ok(()),
            opened => opened?,
        };
        if made {
            self.set_metadata(directory.fd(), path, metadata);
        } else {
            self.set_modified(directory.fd(), path, metadata.modified);
            self.lifted.close_up(index);
        }
        if together.is_some() && together == directory.device() { Ok(()) } else { disk::sync_directory(directory.fd()) }
    }

    /// The device that the data set lands on. An existing directory may be a mount point of another one.
    fn home(&self) -> Option<u64> {
        self.base.device()
    }
}

/// Renames `from` to `to` in one directory, unless `to` exists.
pub(super) fn rename_to_free_name(directory: &Beneath, from: &[u8], to: &[u8]) -> rustix::io::Result<()> {
    let fd = directory.fd();
    match disk::rename_to_free_name(fd, from, to) {
        // The file system lacks this rename (for example NFS), so look first. Only a file that appears in between is
        // replaced.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match disk::look_at(fd, to) {
            Err(Errno::NOENT) => disk::rename(fd, from, to),
            Err(errno) => Err(errno),
            Ok(_) => Err(Errno::EXIST),
        },
        done => done,
    }
}
