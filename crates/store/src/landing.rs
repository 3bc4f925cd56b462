//! Where a data set lands: partial files that are written in any order and get their names once they are verified.

mod access;
mod destination;
mod error;
mod finish;
mod lacking;
mod links;
mod metadata;
mod names;
mod partial;
mod resume;
mod sync;
mod watch;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use inhaul_base::ByteRange;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use self::access::Lifted;
use self::metadata::Notes;
use self::watch::{GUARD_BYTES, Stamp, Watch};
use self::write::Gather;
use crate::beneath::{Beneath, Links, split};
use crate::digest::{GROUP_BYTES, group_range};
use crate::disk;
use crate::filter::Filter;
use crate::journal::{Change, Journal, Opened, Record, Replay};
use crate::open_files::OpenFiles;
use crate::plan::{Existing, Plan};
use crate::{Kind, Manifest};

pub(crate) use destination::Destination;
pub use destination::{Site, make_parents};
pub use error::LandingError;
pub(crate) use resume::is_busy;
pub use resume::{HeldGroup, Resumed};

/// Files that are held open while they are written and verified, if the process may have that many. A verifier that is
/// fewer files behind finds them open.
const OPEN_FILES_MAX: usize = 512;

/// How a data set is to land.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LandingOptions {
    /// What happens to files that exist already and differ. Where they are replaced, so are files that have the name
    /// of a partial one.
    pub existing: Existing,
    /// Set owner and group of files from the manifest. Needs privileges.
    pub owner: bool,
    /// Set the extended attributes of the manifest.
    pub attributes: bool,
    /// Start from the beginning, and remove what an interrupted transfer has left.
    pub fresh: bool,
    /// Bytes that other landings will write to the same file system meanwhile: there must be space for these too.
    pub other_bytes: u64,
}

/// A data set on its way to disk.
///
/// The bytes of file `f` go to `f.partial` beside its place, in any order. The caller verifies them and then calls
/// [`finish_file`](Landing::finish_file). When all files are finished, [`finish`](Landing::finish) makes the data set
/// durable. A landing that is dropped before that is [suspended](Landing::suspend). A later landing continues from the
/// groups that it [recorded](Landing::record_verified) in the [`crate::journal`] beside the target. The journal is
/// locked, so two processes cannot land at the same place.
///
/// Every method takes `&self`: one thread may write while others read groups back, verify and finish files.
/// Nothing is written or renamed through a symbolic link inside the data set, whatever made the link.
#[derive(Debug)]
pub struct Landing {
    plan: Plan,
    options: LandingOptions,
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
    /// Whether only the journal of an earlier landing allows to add to the target directory.
    needs_journal: bool,
    /// The directories of this user that it may write to only for the time of the landing.
    lifted: Lifted,
    /// Whether a directory that was there before is the way to another file system.
    crosses_devices: bool,
    resumed: Resumed,
    journal: Mutex<Journal>,
    state: Mutex<State>,
    /// Signals that a file has been made, or could not be made.
    made_one: Condvar,
    /// Held while something is synced. Whether that has failed once: then nothing counts as synced any more.
    has_failed_to_sync: Mutex<bool>,
    /// What could not be kept of files beside their bytes.
    notes: Mutex<Notes>,
}

#[derive(Debug)]
struct State {
    files: Vec<FileState>,
    open: OpenFiles,
    /// Files of several groups that were written to since the last sync.
    unsynced: BTreeSet<usize>,
    /// Directories with names that were not synced, by their indices; `None` for the data set's own.
    unsynced_names: BTreeSet<Option<usize>>,
    /// Whether the names of the journal and the data set were synced.
    is_begun: bool,
    /// Groups that the journal records, and that may not be on the disk.
    unsure: BTreeSet<(usize, u64)>,
    /// Bytes of the groups that are recorded.
    kept_bytes: u64,
    /// Partial files of files that were given up are left to continue from.
    keeps_given_up: bool,
    /// The partial files among these.
    kept_partials: Vec<usize>,
    end: End,
    /// Notices other programs that open partial files of several groups.
    watch: Watch,
    /// The files that nothing more is written to, and that do not have their name yet.
    sealed: BTreeMap<usize, Seal>,
}

/// The state of a file after the last write to it.
#[derive(Clone, Copy, Debug)]
struct Seal {
    stamp: Stamp,
    /// Whether another program may have written to it before.
    is_disturbed: bool,
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
    /// Its partial file is being made.
    Making,
    /// There is a partial file.
    Partial,
    /// It has its name, by an earlier landing, and has not been verified by this one.
    Named,
    /// Its partial file is whole, and waits for its name.
    Sealed,
    /// Its partial file is being synced and renamed.
    Finishing,
    /// It has its name.
    Finished,
    /// It does not land: it is not wanted, or exists already.
    Outside,
    /// It does not land after all: see [`Landing::give_up`].
    GivenUp,
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
        let (opened, replay) = resume::look_at_journal(&plan.destination)?;
        take_stock(plan, &opened, replay, options, false)?;
        names::check_unseen(plan, &plan.destination.reopen()?, plan.destination.name())?;
        access::check(plan)
    }

    /// Prepares the landing of `plan`: makes all directories. Files are made when their first byte comes. Files that
    /// an earlier transfer has named are continued, whatever the plan says about them.
    ///
    /// # Errors
    /// When the place cannot be written, has too little space, or has files that block the plan ([`Plan::obstacles`]).
    /// Nothing is left behind then.
    pub fn carry_out(plan: Plan, options: LandingOptions) -> Result<Self, LandingError> {
        Self::carry_out_unless(&|| false, plan, options)
    }

    /// The same, but it ends when it is stopped: to make all directories may take long.
    ///
    /// # Errors
    /// As [`carry_out`](Landing::carry_out), and [`LandingError::Stopped`].
    pub fn carry_out_unless(
        is_stopped: &dyn Fn() -> bool,
        mut plan: Plan,
        options: LandingOptions,
    ) -> Result<Self, LandingError> {
        let (mut journal, opened, replay) = resume::open_journal(&plan.destination)?;
        let before = replay.manifest.clone();
        let (replay, changes, needs_journal) = take_stock(&mut plan, &opened, replay, options, true)?;
        if options.fresh {
            journal.clear().map_err(|errno| LandingError::from_errno("write", plan.target(), errno))?;
            if opened.was_there {
                // Until the landing has begun, it says whose the partial files are.
                journal.keep();
            }
        }
        let (base, made_now) = match plan.manifest.kind() {
            Kind::File => (plan.destination.reopen()?, false),
            Kind::Directory => plan.destination.make_directory()?,
        };
        let files = plan.files().iter().map(|fate| if fate.lands() { FileState::Absent } else { FileState::Outside });
        let state = State {
            files: files.collect(),
            open: OpenFiles::with_share(OPEN_FILES_MAX),
            unsynced: BTreeSet::new(),
            unsynced_names: BTreeSet::new(),
            is_begun: false,
            unsure: BTreeSet::new(),
            kept_bytes: 0,
            keeps_given_up: false,
            kept_partials: Vec::new(),
            end: End::Open,
            watch: Watch::default(),
            sealed: BTreeMap::new(),
        };
        journal.begin(&replay);
        // From here on a failure drops the landing, which removes what was made and cannot be gone on from.
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

    /// Checks that the destination can have all names, and tells them apart.
    fn check_names(&self) -> Result<(), LandingError> {
        let journal = partial::journal_name(self.plan.destination.name());
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
            // The owner must be able to write into it until the end; then it gets the permissions that it should have.
            match self.base.make_directory(&directory.path, directory.metadata.mode | 0o700) {
                Ok(()) => {
                    self.made.push(index);
                    self.record(&[Record::Made { directory: Some(index) }])?;
                }
                // One that lies in a directory that may not be searched is not seen to be there.
                Err(Errno::EXIST | Errno::ACCESS) if self.is_directory(&directory.path) => {
                    let device = self.base.stat(&directory.path, Links::Refuse).ok().map(|stat| stat.st_dev);
                    self.crosses_devices |= device != finish::device(self.base.fd());
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
        // The one partial file of a single file shows right away whether it can be made.
        if manifest.kind() == Kind::File && self.lands(0) {
            self.readable(self.lock(), 0)?;
        }
        Ok(())
    }

    fn is_directory(&self, path: &[u8]) -> bool {
        let stat = self.base.stat(path, Links::Refuse);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// What was planned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether file `index` lands. If not, an existing file is kept, or the file is not wanted.
    pub fn lands(&self, index: usize) -> bool {
        self.plan.files().get(index).is_some_and(|fate| fate.lands())
    }

    /// What could not be kept of files beside their bytes, in words; each is told once.
    pub fn take_notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What lands.
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

    /// The partial file of `index`, open: to read of it what is verified. It is the same file when it has its name.
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
        // If something cannot be removed, it stays: no caller is left to report it to. Then the journal stays, too, and
        // says to a later landing that it may continue there.
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
            // What it says of groups that are gone does no harm.
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

    /// The file `index`, open for reading, under its name if it has that already.
    fn readable(&self, mut state: MutexGuard<'_, State>, index: usize) -> Result<Arc<File>, LandingError> {
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

    /// The partial file of `index`, open for reading and writing; made if it is not there yet.
    fn opened<'s>(
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

    /// How much longer than the file its partial file is.
    fn guard_bytes(&self, index: usize) -> u64 {
        if self.plan.manifest.entries()[index].size > GROUP_BYTES { GUARD_BYTES } else { 0 }
    }

    /// The length of the partial file of `index`.
    fn partial_bytes(&self, index: usize) -> u64 {
        self.plan.manifest.entries()[index].size.saturating_add(self.guard_bytes(index))
    }

    /// Makes the partial file of `index`, which has none yet. The lock on the state is not held meanwhile: making a
    /// file takes longer than everything else that is done with a small one.
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

    /// An empty partial file, sparse and of full length: bytes come in any order, and one too large for the disk shows
    /// at once.
    fn create_partial(&self, index: usize) -> Result<File, LandingError> {
        let path = &self.partial_path(index);
        if self.options.existing == Existing::Replace || self.owns_partials {
            match self.base.remove_file(path) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.file_error("replace", index, errno)),
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // The kernel takes the umask off. The owner must be able to open it again until it is finished.
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
                // It stays, and so does the journal, which says whose it is.
                self.lock().kept_partials.push(index);
                self.journal().keep();
            }
            return Err(error);
        }
        Ok(File::from(file))
    }

    /// Path of file `index` relative to the base.
    fn path(&self, index: usize) -> &[u8] {
        self.plan.path(index)
    }

    /// Path of the partial file of `index` relative to the base.
    fn partial_path(&self, index: usize) -> Vec<u8> {
        resume::partial_beside(&self.plan.manifest, self.path(index))
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
                // A quota that is used up leaves nothing, whatever the file system has.
                let free = if errno == Errno::NOSPC { self.plan.destination.free_bytes().unwrap_or(0) } else { 0 };
                LandingError::NoSpace { path, needed: size.saturating_sub(held), free }
            }
            Errno::FBIG => LandingError::FileTooLarge { path, size },
            _ => LandingError::from_errno(action, path, errno),
        }
    }
}

/// Reads what an earlier transfer has left, and checks that the plan can be carried out. Returns the usable part of
/// the journal, the changes since, and whether only the journal allows to add to the target directory. `may_try`: whether
/// a link may be made for a trial.
fn take_stock(
    plan: &mut Plan,
    opened: &Opened,
    replay: Replay,
    options: LandingOptions,
    may_try: bool,
) -> Result<(Replay, Vec<Change>, bool), LandingError> {
    if !options.fresh && options.existing != Existing::Replace {
        resume::check_same(&replay, plan)?;
    }
    let (replay, changes) =
        if options.fresh { (Replay::default(), Vec::new()) } else { replay.adopt((*plan.manifest).clone()) };
    replay.named.iter().for_each(|(&file, named)| plan.go_on_with(file, named.size));
    if !replay.named.is_empty() {
        plan.go_on_with_links();
    }
    // Where a journal allowed to add to a directory, and was damaged, nothing else says whose the directory is.
    let mut needs_journal = false;
    if opened.was_there {
        needs_journal = plan.go_on();
    }
    if let (Kind::Directory, Ok(Some(base))) = (plan.manifest.kind(), plan.destination.open_target()) {
        let manifest = Arc::clone(&plan.manifest);
        plan.forgive_links(|link| {
            let partial = resume::partial_beside(&manifest, &link.path);
            lacking::lacks(&base, link, split(&partial).1, may_try)
        });
    }
    if let Some((obstacle, _)) = plan.obstacles() {
        return Err(obstacle);
    }
    let needed = plan.bytes().saturating_sub(resume::held_bytes(&replay, plan));
    plan.destination.check_space(needed.saturating_add(options.other_bytes))?;
    plan.check_file_sizes()?;
    Ok((replay, changes, needs_journal))
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
