//! How files get their names, and how a landing is made to last.

use std::collections::BTreeSet;
use std::fs::File;

use rustix::fs::{AtFlags, Mode, RenameFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::{End, FileState, Landing, LandingError, State};
use crate::Timestamp;
use crate::beneath::{Beneath, Links, split};
use crate::journal::Record;
use crate::manifest::MODE_BITS;

/// From so many files on, one sync of the whole file system costs less than one for each file: a journal commits once.
const SYNC_TOGETHER_MIN: usize = 16;

impl Landing {
    /// Gives file `index` its name: its bytes are all there and verified, says the caller. Syncs it to disk first, and
    /// sets its permissions (less the umask) and its time as far as the file system keeps them. Takes as long as the
    /// disk does; other files can be written meanwhile.
    ///
    /// # Errors
    /// When the disk is full or fails, or when a file of that name has come up meanwhile. The partial file is still
    /// there then.
    pub fn finish_file(&self, index: usize) -> Result<(), LandingError> {
        self.finish_files(&[index])
    }

    /// As [`finish_file`](Landing::finish_file), for many files at once: much faster when they are small, as one sync
    /// serves them all (and, by the way, whatever else is unwritten on that file system).
    ///
    /// # Errors
    /// As [`finish_file`](Landing::finish_file). The files that did not get their name are still partial then.
    pub fn finish_files(&self, indices: &[usize]) -> Result<(), LandingError> {
        let mut unnamed = Vec::with_capacity(indices.len());
        let to_name = self.pass_named(indices);
        let done = self.seal(&to_name, &mut unnamed).and_then(|()| self.name(&mut unnamed));
        let mut state = self.lock();
        for index in unnamed {
            state.files[index] = FileState::Partial;
            if state.end == End::Aborted {
                // Aborted meanwhile, which left this file to us.
                let _ = self.base.remove_file(&self.partial_path(index));
            }
        }
        done
    }

    /// The files that do not have their name yet; those that an earlier transfer has given it are finished by that.
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

    /// Syncs the files, with the permissions and times that they should have. From then on nobody else handles them;
    /// they are added to `sealed`.
    fn seal(&self, indices: &[usize], sealed: &mut Vec<usize>) -> Result<(), LandingError> {
        let home = rustix::fs::fstat(self.base.fd()).map_or(0, |stat| stat.st_dev);
        let mut together = None;
        for &index in indices {
            let file = {
                let mut state = self.lock();
                let file = self.opened(&mut state, index)?;
                state.files[index] = FileState::Finishing;
                state.open.remove(index);
                file
            };
            sealed.push(index);
            let entry = &self.manifest.entries()[index];
            narrow_permissions(&*file, entry.mode);
            set_modified(&file, entry.modified);
            // A directory that was there before may be the way into another file system.
            let is_home = rustix::fs::fstat(&*file).is_ok_and(|stat| stat.st_dev == home);
            if indices.len() >= SYNC_TOGETHER_MIN && is_home {
                together = Some(index);
            } else {
                rustix::fs::fsync(&*file).map_err(|errno| self.file_error("sync", index, errno))?;
            }
        }
        if let Some(index) = together {
            rustix::fs::syncfs(self.base.fd()).map_err(|errno| self.file_error("sync", index, errno))?;
        }
        Ok(())
    }

    /// Renames the sealed files one after the other, and takes those out of `sealed` that have their name.
    fn name(&self, sealed: &mut Vec<usize>) -> Result<(), LandingError> {
        while let Some(&index) = sealed.last() {
            let path = self.path(index);
            self.record(&Record::Named { file: index })?;
            self.rename(index, path).map_err(|errno| match errno {
                Errno::EXIST => LandingError::Exists { path: self.shown(path) },
                Errno::ISDIR => LandingError::IsADirectory { path: self.shown(path) },
                _ => self.file_error("rename", index, errno),
            })?;
            sealed.pop();
            let mut state = self.lock();
            state.files[index] = FileState::Finished;
            let parent = split(path).0;
            if !state.renamed_in.contains(parent) {
                state.renamed_in.insert(parent.to_vec());
            }
        }
        Ok(())
    }

    fn rename(&self, index: usize, path: &[u8]) -> rustix::io::Result<()> {
        let partial = self.partial_path(index);
        let partial = split(&partial).1;
        let (parent, name) = self.base.parent_of(path)?;
        if self.options.overwrite {
            rustix::fs::renameat(parent.fd(), partial, parent.fd(), name)
        } else {
            rename_to_free_name(&parent, partial, name)
        }
    }

    /// Makes what has landed last: gives the directories that were made here their permissions, and syncs every
    /// directory that something was named in.
    ///
    /// The journal stays until [`conclude`](Landing::conclude).
    ///
    /// # Errors
    /// When a file is not finished, or when the disk fails.
    pub fn finish(&self) -> Result<(), LandingError> {
        let mut state = self.lock();
        if state.end != End::Open {
            return Err(LandingError::Closed);
        }
        let missing = state.files.iter().filter(|&&file| file != FileState::Finished).count();
        if missing > 0 {
            return Err(LandingError::Incomplete { missing });
        }
        let directories = self.manifest.directories();
        let made = self.made.iter().map(|&index| directories[index].path.as_slice());
        let mut touched: BTreeSet<&[u8]> = state.renamed_in.iter().map(Vec::as_slice).collect();
        touched.extend(made.clone().chain(made.map(|path| split(path).0)));
        // Children before parents: a parent may lose the permission to be entered.
        for path in touched.into_iter().rev() {
            self.settle(path).map_err(|errno| LandingError::from_errno("sync", self.shown(path), errno))?;
        }
        if self.made_target {
            self.destination.sync().map_err(|errno| LandingError::from_errno("sync", self.target(), errno))?;
        }
        state.end = End::Finished;
        Ok(())
    }

    /// Removes the journal of a landing that is [finished](Landing::finish), unless it was suspended after that. When it is
    /// dropped this is done, too.
    pub fn conclude(&self) {
        if self.lock().end == End::Finished {
            self.journal().retire();
        }
    }

    /// Syncs the directory at `path`, after giving it its permissions if it was made here.
    fn settle(&self, path: &[u8]) -> rustix::io::Result<()> {
        let directory = self.base.open_directory(path, Links::Refuse)?;
        let directories = self.manifest.directories();
        let made = self.made.binary_search_by(|&index| directories[index].path.as_slice().cmp(path));
        if let Ok(at) = made {
            narrow_permissions(directory.fd(), directories[self.made[at]].mode);
        }
        sync_directory(&directory)
    }
}

/// Renames `from` to `to` in one directory, unless there is something called `to`.
fn rename_to_free_name(directory: &Beneath, from: &[u8], to: &[u8]) -> rustix::io::Result<()> {
    let fd = directory.fd();
    match rustix::fs::renameat_with(fd, from, fd, to, RenameFlags::NOREPLACE) {
        // The file system has no such rename (NFS, for one): look first. Only what comes up in between is replaced.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            match rustix::fs::statat(fd, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => rustix::fs::renameat(fd, from, fd, to),
                Err(errno) => Err(errno),
                Ok(_) => Err(Errno::EXIST),
            }
        }
        done => done,
    }
}

/// Takes away the permissions that are not in `mode`. What the umask took at creation stays away. Some file systems keep
/// no permissions, and data that has landed is not given up for that.
fn narrow_permissions(fd: impl std::os::fd::AsFd, mode: u32) {
    if let Ok(stat) = rustix::fs::fstat(&fd)
        && stat.st_mode & MODE_BITS & !mode != 0
    {
        let _ = rustix::fs::fchmod(fd, Mode::from_raw_mode(stat.st_mode & mode & MODE_BITS));
    }
}

/// Sets the time of the last change, if the file system can keep it.
fn set_modified(file: &File, modified: Timestamp) {
    let last_modification = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let _ = rustix::fs::futimens(file, &Timestamps { last_access, last_modification });
}

/// Syncs a directory's names to disk.
pub(super) fn sync_directory(directory: &Beneath) -> rustix::io::Result<()> {
    match rustix::fs::fsync(directory.fd()) {
        // Some file systems have nothing to sync in a directory.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}
