//! Where a data set lands: partial files that are written in any order and get their names once they are verified.

mod destination;
mod error;
mod finish;
mod partial;
mod resume;
mod write;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inhaul_base::ByteRange;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use self::destination::Destination;
use self::write::Gather;
use crate::beneath::{Beneath, Links};
use crate::digest::group_range;
use crate::journal::{Journal, Record, Replay};
use crate::open_files::OpenFiles;
use crate::{Kind, Manifest};

pub use error::LandingError;
pub use resume::{HeldGroup, Resumed};

/// How a data set is to land.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LandingOptions {
    /// Replace files that exist already, and files that have the name of a partial one.
    pub overwrite: bool,
    /// Begin anew, and remove what an interrupted transfer has left, rather than going on from it.
    pub fresh: bool,
    /// Bytes that others will bring to the same place meanwhile: there must be room for these too.
    pub other_bytes: u64,
}

/// A data set on its way to disk.
///
/// The bytes of file `f` go to `f.partial` beside its place, in any order, until whoever drives this has verified them
/// and calls [`finish_file`](Landing::finish_file). When all files are finished, [`finish`](Landing::finish) makes it
/// last. A landing that is dropped before that is [suspended](Landing::suspend): another one goes on from what it has
/// [recorded](Landing::record_verified), which the [`crate::journal`] beside the target tells. The journal is locked, so
/// that no two processes land at the same place.
///
/// Every method takes `&self`: one thread may write while others read groups back, verify and finish files.
/// Nothing is written or renamed through a symbolic link inside the data set, whoever has put it there.
#[derive(Debug)]
pub struct Landing {
    manifest: Arc<Manifest>,
    options: LandingOptions,
    /// Where the target is, and what it is called there.
    destination: Destination,
    /// What files' paths are relative to: the target directory, or where the target file is.
    base: Beneath,
    /// Whether the target directory was made here.
    made_target: bool,
    /// The directories beneath it that were made for this data set, by index, parents first.
    made: Vec<usize>,
    /// Of these, the ones that an earlier landing has made.
    made_earlier: BTreeSet<usize>,
    /// Whether partial files that are there are an earlier landing's.
    owns_partials: bool,
    resumed: Resumed,
    journal: Mutex<Journal>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    files: Vec<FileState>,
    open: OpenFiles,
    /// Directories (by path) in which files got their names.
    renamed_in: BTreeSet<Vec<u8>>,
    /// Files with groups that were recorded since the last sync.
    unsynced: BTreeSet<usize>,
    /// Bytes of the groups that are recorded.
    kept_bytes: u64,
    end: End,
}

/// Whether and how a landing has ended: then nothing more is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Finished,
    Suspended,
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// Nothing of it is on disk.
    Absent,
    /// There is a partial file.
    Partial,
    /// It has its name, by an earlier landing, and has not been verified by this one.
    Named,
    /// Its partial file is being synced and renamed.
    Finishing,
    /// It has its name.
    Finished,
}

impl Landing {
    /// Prepares `dest` for the data set, by the rules of `cp`: if `dest` is a directory the data set lands in it under
    /// its own name, otherwise `dest` is its new name and must lie in a directory. A directory that exists already
    /// under that name is added to. Makes all directories; files are made when their first byte comes.
    ///
    /// # Errors
    /// When the place does not exist or cannot be written, has too little space, or has a file already that the data
    /// set would bring. Nothing is left behind then.
    pub fn create(dest: &Path, manifest: Arc<Manifest>, options: LandingOptions) -> Result<Self, LandingError> {
        let destination = Destination::find(dest, &manifest)?;
        let (mut journal, replay) = resume::open_journal(&destination)?;
        let before = replay.manifest.clone();
        let (replay, changes) = if options.fresh {
            journal.clear().map_err(|errno| LandingError::from_errno("write", destination.target(), errno))?;
            (Replay::default(), Vec::new())
        } else {
            replay.adopt((*manifest).clone())
        };
        let needed = manifest.size() - resume::held_bytes(&replay, &manifest);
        destination.check_space(needed.saturating_add(options.other_bytes))?;
        let (base, made_now) = match manifest.kind() {
            Kind::File => (destination.reopen()?, false),
            Kind::Directory => destination.make_directory()?,
        };
        let state = State {
            files: vec![FileState::Absent; manifest.entries().len()],
            open: OpenFiles::with_limit(OpenFiles::LIMIT),
            renamed_in: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            kept_bytes: 0,
            end: End::Open,
        };
        // From here on a failure drops the landing, which removes what was made and cannot be gone on from.
        let mut landing = Self {
            manifest,
            options,
            destination,
            base,
            made_target: made_now || replay.made_target,
            made: Vec::new(),
            made_earlier: BTreeSet::new(),
            owns_partials: false,
            resumed: Resumed { groups: Vec::new(), changes },
            journal: Mutex::new(journal),
            state: Mutex::new(state),
        };
        landing.take_up(before.as_ref(), replay)?;
        if made_now {
            landing.record(&Record::Made { directory: None })?;
        }
        landing.prepare(made_now)?;
        Ok(landing)
    }

    fn prepare(&mut self, made_now: bool) -> Result<(), LandingError> {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(self.base.fd(), ".", access, AtFlags::empty())
            .map_err(|errno| LandingError::from_errno("write to", self.shown(b""), errno))?;
        for (index, directory) in self.manifest.directories().iter().enumerate() {
            // The owner must be able to write into it until the end; then it gets the permissions that it should have.
            match self.base.make_directory(&directory.path, directory.mode | 0o700) {
                Ok(()) => {
                    self.made.push(index);
                    self.record(&Record::Made { directory: Some(index) })?;
                }
                Err(Errno::EXIST) if self.is_directory(&directory.path) => {
                    if self.made_earlier.contains(&index) {
                        self.made.push(index);
                    }
                }
                Err(Errno::EXIST) => return Err(LandingError::NotADirectory { path: self.shown(&directory.path) }),
                Err(errno) => return Err(LandingError::from_errno("make", self.shown(&directory.path), errno)),
            }
        }
        if !made_now {
            (0..self.manifest.entries().len()).try_for_each(|index| self.check_free(index))?;
        }
        // The one partial file of a single file shows right away whether it can be made.
        if self.manifest.kind() == Kind::File {
            self.readable(&mut self.lock(), 0)?;
        }
        Ok(())
    }

    fn is_directory(&self, path: &[u8]) -> bool {
        let stat = self.base.stat(path, Links::Refuse);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Checks that file `index` can get its name at the end.
    fn check_free(&self, index: usize) -> Result<(), LandingError> {
        let path = || self.shown(self.path(index));
        if self.lock().files[index] == FileState::Named {
            return Ok(());
        }
        match self.base.stat(self.path(index), Links::Refuse) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(LandingError::from_errno("look for", path(), errno)),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Err(LandingError::IsADirectory { path: path() })
            }
            Ok(_) if self.options.overwrite => Ok(()),
            Ok(_) => Err(LandingError::Exists { path: path() }),
        }
    }

    /// What lands.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The file or directory that appears, as a path for people.
    pub fn target(&self) -> PathBuf {
        self.destination.target()
    }

    /// Writes `slices`, one after the other, from `offset` of the byte space on, across files; those that fall on one
    /// file in as few calls as the system allows.
    ///
    /// # Errors
    /// When the disk is full or fails, when the bytes reach beyond the end, or when they belong to a finished file.
    pub fn write(&self, offset: u64, slices: &[IoSlice<'_>]) -> Result<(), LandingError> {
        let len = slices.iter().map(|slice| slice.len() as u64).sum();
        let range = ByteRange::at(offset, len);
        if range.end > self.manifest.size() {
            return Err(LandingError::OutOfRange(range));
        }
        let mut gather = Gather::new(slices);
        for piece in self.manifest.locate(range) {
            let file = self.opened(&mut self.lock(), piece.file)?;
            let mut bufs = gather.take(piece.len as usize);
            write::write_fully(&mut bufs, piece.offset, |bufs, at| rustix::io::pwritev(&*file, bufs, at))
                .map_err(|errno| self.file_error("write", piece.file, errno))?;
        }
        Ok(())
    }

    /// Reads group `group` of file `index` back into `buf`, which gets the group's length (see [`crate::digest`]).
    /// What has not been written reads as zeros.
    ///
    /// # Errors
    /// When the disk fails, when the partial file has been cut by somebody, or when the file is finished.
    pub fn read_group(&self, index: usize, group: u64, buf: &mut Vec<u8>) -> Result<(), LandingError> {
        let size = self.manifest.entries().get(index).ok_or(LandingError::NoSuchFile(index))?.size;
        let range = group_range(size, group);
        buf.resize(range.len() as usize, 0);
        let file = self.readable(&mut self.lock(), index)?;
        file.read_exact_at(buf, range.start).map_err(|source| LandingError::Io {
            action: "read back",
            path: self.shown(&self.partial_path(index)),
            source,
        })
    }

    /// Removes the partial files, the journal, and the directories that were made here as far as they are empty. Files
    /// that were finished stay. Nothing can be written afterwards; calling it again, or after
    /// [`finish`](Landing::finish), does nothing.
    pub fn abort(&self) {
        let mut state = self.lock();
        if state.end != End::Open {
            return;
        }
        state.end = End::Aborted;
        state.kept_bytes = 0;
        state.open.clear();
        self.journal().retire();
        // What cannot be removed stays: there is nobody left to tell, and nothing better to do.
        let is_partial = |file| file == FileState::Partial || (file == FileState::Absent && self.owns_partials);
        for index in (0..state.files.len()).filter(|&index| is_partial(state.files[index])) {
            let _ = self.base.remove_file(&self.partial_path(index));
        }
        for &index in self.made.iter().rev() {
            let _ = self.base.remove_directory(&self.manifest.directories()[index].path);
        }
        if self.made_target {
            self.destination.remove_directory();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file `index`, open for reading, under its name if it has that already.
    fn readable(&self, state: &mut State, index: usize) -> Result<Arc<File>, LandingError> {
        if state.end != End::Open || state.files.get(index) != Some(&FileState::Named) {
            return self.opened(state, index);
        }
        if let Some(file) = state.open.get(index) {
            return Ok(file);
        }
        let opened = self.base.open_for_reading(self.path(index), Links::Refuse);
        let file = Arc::new(opened.map_err(|errno| self.file_error("open", index, errno))?);
        state.open.insert(index, Arc::clone(&file));
        Ok(file)
    }

    /// The partial file of `index`, open for reading and writing; made if it is not there yet.
    fn opened(&self, state: &mut State, index: usize) -> Result<Arc<File>, LandingError> {
        if state.end != End::Open {
            return Err(LandingError::Closed);
        }
        if state.files.get(index) == Some(&FileState::Named) {
            self.take_name_away(index).map_err(|errno| self.file_error("open", index, errno))?;
            state.files[index] = FileState::Partial;
            state.open.remove(index);
        }
        let path = match state.files.get(index) {
            None => return Err(LandingError::NoSuchFile(index)),
            Some(FileState::Absent | FileState::Partial) => match state.open.get(index) {
                Some(file) => return Ok(file),
                None => self.partial_path(index),
            },
            Some(FileState::Named | FileState::Finishing | FileState::Finished) => {
                return Err(LandingError::Finished(index));
            }
        };
        let file = if state.files[index] == FileState::Absent {
            let file = self.create_partial(index, &path)?;
            state.files[index] = FileState::Partial;
            // Sparse, and of full length: bytes come in any order, and a file too large for the disk shows at once.
            let size = self.manifest.entries()[index].size;
            rustix::fs::ftruncate(&file, size).map_err(|errno| self.file_error("make", index, errno))?;
            file
        } else {
            let reopened = self.base.open(&path, OFlags::RDWR | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse);
            reopened.map(File::from).map_err(|errno| self.file_error("open", index, errno))?
        };
        let file = Arc::new(file);
        state.open.insert(index, Arc::clone(&file));
        Ok(file)
    }

    fn create_partial(&self, index: usize, path: &[u8]) -> Result<File, LandingError> {
        if self.options.overwrite || self.owns_partials {
            match self.base.remove_file(path) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.file_error("replace", index, errno)),
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // The kernel takes the umask off. The owner must be able to open it again until it is finished.
        let mode = Mode::from_raw_mode(self.manifest.entries()[index].mode | 0o600);
        match self.base.open(path, flags, mode, Links::Refuse) {
            Ok(file) => Ok(File::from(file)),
            Err(Errno::EXIST) => Err(LandingError::PartialExists { path: self.shown(path) }),
            Err(errno) => Err(self.file_error("make", index, errno)),
        }
    }

    /// Path of file `index` relative to the base.
    fn path(&self, index: usize) -> &[u8] {
        match self.manifest.kind() {
            Kind::File => self.destination.name(),
            Kind::Directory => &self.manifest.entries()[index].path,
        }
    }

    /// Path of the partial file of `index` relative to the base.
    fn partial_path(&self, index: usize) -> Vec<u8> {
        resume::partial_path(&self.manifest, self.destination.name(), index)
    }

    /// A path relative to the base, for people.
    fn shown(&self, path: &[u8]) -> PathBuf {
        let base = match self.manifest.kind() {
            Kind::File => self.destination.directory().to_owned(),
            Kind::Directory => self.destination.target(),
        };
        if path.is_empty() { base } else { base.join(std::ffi::OsStr::from_bytes(path)) }
    }

    /// What `errno` means that the system gave for the partial file of `index`.
    fn file_error(&self, action: &'static str, index: usize, errno: Errno) -> LandingError {
        let partial = self.partial_path(index);
        let path = self.shown(&partial);
        let size = self.manifest.entries()[index].size;
        match errno {
            Errno::NOSPC | Errno::DQUOT => {
                let held =
                    self.base.stat(&partial, Links::Refuse).map_or(0, |stat| stat.st_blocks.unsigned_abs() * 512);
                // A quota that is used up leaves nothing, whatever the file system has.
                let free = if errno == Errno::NOSPC { self.destination.free_bytes().unwrap_or(0) } else { 0 };
                LandingError::NoSpace { path, needed: size.saturating_sub(held), free }
            }
            Errno::FBIG => LandingError::FileTooLarge { path, size },
            _ => LandingError::from_errno(action, path, errno),
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.conclude();
        self.suspend();
    }
}

#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod tests;
