//! Lands a data set: partial files are written in any order, and get their names once they are verified.

mod access;
mod earlier;
mod finish;
mod lacking;
mod links;
mod metadata;
mod names;
mod notes;
mod options;
mod partial_files;
mod resume;
mod state;
mod sync;
mod watch;
mod write;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use inhaul_base::ByteRange;
use rustix::fs::FileType;
use rustix::io::Errno;

use self::access::Lifted;
use self::earlier::take_stock;
use self::notes::Notes;
use self::state::{End, FileState, State};
use self::write::Gather;
use crate::beneath::{Beneath, Links, split};
use crate::destination::Site;
use crate::digest::{GROUP_BYTES, group_range};
use crate::disk;
use crate::filter::Filter;
use crate::journal::{Journal, Record};
use crate::landing_error::LandingError;
use crate::partial::partial_beside;
use crate::plan::Plan;
use crate::{Kind, Manifest};

pub use earlier::{HeldGroup, Resumed};
pub use options::LandingOptions;

/// A data set on its way to disk.
///
/// The bytes of file `f` go to `f.partial` beside its place, in any order. The caller verifies them and then calls
/// [`finish_file`](Landing::finish_file). When all files are finished, [`finish`](Landing::finish) makes the data set
/// durable. A landing that is dropped before that is [suspended](Landing::suspend). A later landing continues from the
/// groups that it [recorded](Landing::record_verified) in the [`crate::journal`] beside the target. The journal is
/// locked, so two processes cannot land at the same place.
///
/// Every method takes `&self`: one thread may write while others read groups back, verify and finish files. Nothing is
/// written or renamed through a symbolic link inside the data set, no matter who made it.
#[derive(Debug)]
pub struct Landing {
    plan: Plan,
    options: LandingOptions,
    /// The base of files' paths: the target directory, or the directory of the target file.
    base: Beneath,
    /// Whether the target directory was made here.
    made_target: bool,
    /// The directories beneath it that were made for this data set, by index, parents first.
    made: Vec<usize>,
    /// Those of them that an earlier landing made.
    made_earlier: BTreeSet<usize>,
    /// Whether existing partial files belong to an earlier landing.
    owns_partials: bool,
    /// Whether only an earlier landing's journal permits adding to the target directory.
    needs_journal: bool,
    /// This user's directories whose permissions are lifted during the landing.
    lifted: Lifted,
    /// Whether an existing directory is a mount point.
    crosses_devices: bool,
    resumed: Resumed,
    journal: Mutex<Journal>,
    state: Mutex<State>,
    /// Signals that a file has been made, or could not be made.
    made_one: Condvar,
    /// Held during a sync. True after one failed sync: then nothing counts as synced any more.
    has_failed_to_sync: Mutex<bool>,
    /// Metadata and links that could not be kept.
    notes: Mutex<Notes>,
}

impl Landing {
    /// Prepares for all of the data set to land in `directory` under its own name, as
    /// [`carry_out`](Landing::carry_out) does.
    ///
    /// # Errors
    /// As [`Plan::new`] and [`carry_out`](Landing::carry_out).
    pub fn create(directory: &Path, manifest: Arc<Manifest>, options: LandingOptions) -> Result<Self, LandingError> {
        let site = Site::Beneath { root: directory.to_owned(), path: manifest.name().to_vec() };
        Self::carry_out(Plan::new(&site, manifest, &Filter::default(), options.existing)?, options)
    }

    /// Makes the checks that [`carry_out`](Landing::carry_out) makes before its first write. Writes nothing.
    ///
    /// # Errors
    /// As [`carry_out`](Landing::carry_out).
    pub fn rehearse(plan: &mut Plan, options: LandingOptions) -> Result<(), LandingError> {
        let (opened, replay) = earlier::look_at_journal(&plan.destination)?;
        take_stock(plan, &opened, replay, options, false)?;
        names::check_unseen(plan, &plan.destination.reopen()?, plan.destination.name())?;
        access::check(plan)
    }

    /// Prepares the landing of `plan`: makes all directories. Files are made with their first byte. Files that an
    /// earlier transfer has named are continued, even against the plan.
    ///
    /// # Errors
    /// When the place cannot be written, has too little space, or has files that block the plan ([`Plan::obstacles`]).
    /// Nothing is left behind then.
    pub fn carry_out(plan: Plan, options: LandingOptions) -> Result<Self, LandingError> {
        Self::carry_out_unless(&|| false, plan, options)
    }

    /// The same, but it can be stopped: making all directories may take long.
    ///
    /// # Errors
    /// As [`carry_out`](Landing::carry_out), and [`LandingError::Stopped`].
    pub fn carry_out_unless(
        is_stopped: &dyn Fn() -> bool,
        mut plan: Plan,
        options: LandingOptions,
    ) -> Result<Self, LandingError> {
        let (mut journal, opened, replay) = earlier::open_journal(&plan.destination)?;
        let before = replay.manifest.clone();
        let (replay, changes, needs_journal) = take_stock(&mut plan, &opened, replay, options, true)?;
        if options.fresh {
            journal.clear().map_err(|errno| LandingError::from_errno("write", plan.target(), errno))?;
            if opened.was_there {
                // Until the landing has begun, the journal tells whose the partial files are.
                journal.keep();
            }
        }
        let (base, made_now) = match plan.manifest.kind() {
            Kind::File => (plan.destination.reopen()?, false),
            Kind::Directory => plan.destination.make_directory()?,
        };
        let files = plan.files().iter().map(|fate| if fate.lands() { FileState::Absent } else { FileState::Outside });
        let state = State::new(files.collect());
        journal.begin(&replay);
        // From here on a failure drops the landing, which removes everything it made if no later one can continue.
        let mut landing = Self {
            plan,
            options,
            base,
            made_target: made_now || replay.made_target,
            made: Vec::new(),
            made_earlier: BTreeSet::new(),
            owns_partials: false,
            needs_journal,
            lifted: Lifted::default(),
            crosses_devices: false,
            resumed: Resumed { groups: Vec::new(), changes, damage: opened.damage },
            journal: Mutex::new(journal),
            state: Mutex::new(state),
            made_one: Condvar::new(),
            has_failed_to_sync: Mutex::new(false),
            notes: Mutex::default(),
        };
        landing.owns_partials = opened.was_there;
        landing.lifted.open_up(&landing.plan, &landing.base)?;
        landing.check_names()?;
        landing.take_up(before.as_ref(), replay)?;
        landing.record(&landing.lifted.records())?;
        if made_now {
            landing.record(&[Record::Made { directory: None }])?;
        }
        landing.prepare(is_stopped)?;
        Ok(landing)
    }

    /// Checks that the destination accepts all names, and distinguishes them.
    fn check_names(&self) -> Result<(), LandingError> {
        let journal = self.plan.destination.journal_name();
        let folds = self.plan.destination.reopen().is_ok_and(|directory| names::folds(&directory, &journal));
        names::check(&self.plan, &self.base, folds)
    }

    fn prepare(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), LandingError> {
        let manifest = Arc::clone(&self.plan.manifest);
        for index in (0..manifest.directories().len()).filter(|&index| self.plan.directories[index]) {
            if is_stopped() {
                return Err(LandingError::Stopped);
            }
            let directory = &manifest.directories()[index];
            // An earlier landing may have made it.
            self.lock().unsynced_names.insert(manifest.find_directory(split(&directory.path).0));
            // The owner must be able to write into it until the end. Then it gets its final permissions.
            match self.base.make_directory(&directory.path, directory.metadata.mode | 0o700) {
                Ok(()) => {
                    self.made.push(index);
                    self.record(&[Record::Made { directory: Some(index) }])?;
                }
                // In a directory without search permission, an existing one cannot be seen.
                Err(Errno::EXIST | Errno::ACCESS) if self.is_directory(&directory.path) => {
                    let device = self.base.stat(&directory.path, Links::Refuse).ok().map(|stat| stat.st_dev);
                    self.crosses_devices |= device != self.base.device();
                    if self.made_earlier.contains(&index) {
                        self.made.push(index);
                    }
                }
                Err(Errno::EXIST) => return Err(LandingError::NotADirectory { path: self.shown(&directory.path) }),
                Err(errno) if names::is_of_name(errno) => {
                    return Err(names::refused(self.shown(&directory.path), split(&directory.path).1, errno));
                }
                Err(errno) => return Err(LandingError::from_errno("make", self.shown(&directory.path), errno)),
            }
        }
        // The partial file of a single file shows at once whether it can be made.
        if manifest.kind() == Kind::File && self.lands(0) {
            self.readable(self.lock(), 0)?;
        }
        Ok(())
    }

    fn is_directory(&self, path: &[u8]) -> bool {
        let stat = self.base.stat(path, Links::Refuse);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether file `index` lands. If not, an existing file is kept, or the file is not wanted.
    pub fn lands(&self, index: usize) -> bool {
        self.plan.files().get(index).is_some_and(|fate| fate.lands())
    }

    /// Properties of files that could not be kept, in words. Each is returned once.
    pub fn take_notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The manifest of the data set.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.plan.manifest
    }

    /// The file or directory that appears, as a path for people.
    pub fn target(&self) -> PathBuf {
        self.plan.destination.target()
    }

    /// Writes `slices` one after the other, from `offset` of the byte space on, across files. Uses as few system calls
    /// for each file as possible. Bytes of a file that was [given up](Landing::give_up) are skipped.
    ///
    /// # Errors
    /// When the disk is full or fails, when the bytes reach beyond the end, or when they belong to a finished file.
    pub fn write(&self, offset: u64, slices: &[IoSlice<'_>]) -> Result<(), LandingError> {
        let len = slices.iter().map(|slice| slice.len() as u64).sum();
        let range = ByteRange::at(offset, len);
        if range.end > self.plan.manifest.size() {
            return Err(LandingError::OutOfRange(range));
        }
        let mut gather = Gather::new(slices);
        for piece in self.plan.manifest.locate(range) {
            let mut bufs = gather.take(piece.len as usize);
            let file = match self.opened(self.lock(), piece.file) {
                Ok((_, file)) => file,
                Err(LandingError::GivenUp(_)) => continue,
                Err(error) => return Err(error),
            };
            write::write_fully(&mut bufs, piece.offset, |bufs, at| disk::write(&file, bufs, at))
                .map_err(|errno| self.file_error("write", piece.file, errno))?;
        }
        Ok(())
    }

    /// Whether the byte at `offset` of the byte space belongs to a file of one group: such files cost more to make
    /// than to write.
    pub fn is_in_small_file(&self, offset: u64) -> bool {
        let manifest = &self.plan.manifest;
        let file = manifest.locate(ByteRange::at(offset, 1)).next().map(|piece| piece.file);
        file.is_some_and(|file| manifest.entries()[file].size <= GROUP_BYTES)
    }

    /// Reads group `group` of file `index` back into `buf`, which gets the group's length (see [`crate::digest`]).
    /// What has not been written reads as zeros.
    ///
    /// # Errors
    /// When the disk fails, when another program has cut the partial file, or when the file is finished.
    pub fn read_group(&self, index: usize, group: u64, buf: &mut Vec<u8>) -> Result<(), LandingError> {
        let size = self.plan.manifest.entries().get(index).ok_or(LandingError::NoSuchFile(index))?.size;
        let range = group_range(size, group);
        buf.resize(range.len() as usize, 0);
        let file = self.readable(self.lock(), index)?;
        disk::read_exact(&file, buf, range.start).map_err(|source| LandingError::Io {
            action: "read back",
            path: self.shown(&self.partial_path(index)),
            source,
        })
    }

    /// The partial file of `index`, open, to read verified bytes. It stays the same file when it gets its name.
    ///
    /// # Errors
    /// When it cannot be made or opened, or when it is finished.
    pub fn partial_file(&self, index: usize) -> Result<Arc<File>, LandingError> {
        self.opened(self.lock(), index).map(|(_, file)| file)
    }

    /// Removes the partial files, the journal, and the directories that this landing made, if they are empty. Finished
    /// files stay. If some stay in a directory, a journal without groups stays too: it permits a later landing to add
    /// to the directory. Nothing can be written afterwards. Calling it again, or after [`finish`](Landing::finish),
    /// does nothing.
    pub fn abort(&self) {
        let mut state = self.lock();
        if state.end != End::Open {
            return;
        }
        state.end = End::Aborted;
        state.kept_bytes = 0;
        state.open.clear();
        // Items that cannot be removed stay: no caller is left to report them to. Then the journal stays, too, and
        // permits a later landing to continue there.
        let mut stays = false;
        let mut note = |removed: rustix::io::Result<()>| {
            stays |= !matches!(removed, Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST));
        };
        let is_partial = |file| match file {
            FileState::Partial | FileState::Sealed => true,
            file => file == FileState::Absent && self.owns_partials,
        };
        let kept = std::mem::take(&mut state.kept_partials);
        for index in (0..state.files.len()).filter(|&index| is_partial(state.files[index])).chain(kept) {
            note(self.base.remove_file(&self.partial_path(index)));
        }
        for &index in self.made.iter().rev() {
            note(self.base.remove_directory(&self.plan.manifest.directories()[index].path));
        }
        self.lifted.close_up_all();
        if self.made_target {
            note(self.plan.destination.remove_directory());
        }
        stays |= self.needs_journal && self.plan.destination.open_target().is_ok_and(|target| target.is_some());
        let has_name = |file: &FileState| matches!(file, FileState::Named | FileState::Finished);
        stays |= self.plan.manifest.kind() == Kind::Directory && state.files.iter().any(has_name);
        if stays {
            // Old records of removed groups do no harm.
            let _ = self.begin_anew();
            self.journal().keep();
        } else {
            self.journal().retire();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of file `index` relative to the base.
    fn path(&self, index: usize) -> &[u8] {
        self.plan.path(index)
    }

    /// Path of the partial file of `index` relative to the base.
    fn partial_path(&self, index: usize) -> Vec<u8> {
        partial_beside(&self.plan.manifest, self.path(index))
    }

    /// A path relative to the base, for people.
    fn shown(&self, path: &[u8]) -> PathBuf {
        self.plan.shown(path)
    }

    /// The error for an `errno` about the partial file of `index`.
    fn file_error(&self, action: &'static str, index: usize, errno: Errno) -> LandingError {
        let partial = self.partial_path(index);
        let path = self.shown(&partial);
        let size = self.plan.manifest.entries()[index].size;
        match errno {
            Errno::NOSPC | Errno::DQUOT => {
                let held =
                    self.base.stat(&partial, Links::Refuse).map_or(0, |stat| stat.st_blocks.unsigned_abs() * 512);
                // A used up quota leaves nothing free, even if the file system has space.
                let free = if errno == Errno::NOSPC { self.plan.destination.free_bytes().unwrap_or(0) } else { 0 };
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
mod access_tests;
#[cfg(test)]
mod disturbed_tests;
#[cfg(test)]
mod file_system_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod tests;
