//! Continues from what an earlier landing has left: its journal, its partial files, and the files that have their name
//! already.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use inhaul_base::ByteRange;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::destination::Destination;
use super::{End, FileState, Landing, LandingError, partial};
use crate::beneath::{Beneath, Links, split};
use crate::digest::{GROUP_BYTES, GroupDigest, group_digest, group_range};
use crate::disk;
use crate::journal::{Change, Damage, Journal, OpenError, Opened, Record, Replay, VerifiedGroup};
use crate::plan::Plan;
use crate::sparse::{make_hole, stored_within};
use crate::{Kind, Manifest};

/// What an earlier transfer has left to continue from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resumed {
    /// Groups whose bytes are there according to the journal. They are read back and compared before they count.
    pub groups: Vec<HeldGroup>,
    /// What has changed in the data set since.
    pub changes: Vec<Change>,
    /// What of the journal could not be read.
    pub damage: Option<Damage>,
}

/// A group that an earlier transfer has verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldGroup {
    /// The file, by its index in the manifest.
    pub file: usize,
    /// The group's number in the file.
    pub group: u64,
    /// The digest that it had.
    pub digest: GroupDigest,
    /// Whether a sync has brought it to the disk.
    pub synced: bool,
}

/// Opens the journal of what is to land at `destination`, or makes one.
pub(super) fn open_journal(destination: &Destination) -> Result<(Journal, Opened, Replay), LandingError> {
    let name = partial::journal_name(destination.name());
    Journal::open(destination.reopen()?, name).map_err(|error| journal_error(destination, &error))
}

/// What the journal of what is to land at `destination` says, if there is one.
pub(super) fn look_at_journal(destination: &Destination) -> Result<(Opened, Replay), LandingError> {
    let name = partial::journal_name(destination.name());
    Journal::look(&destination.reopen()?, &name).map_err(|error| journal_error(destination, &error))
}

/// Whether another process brings something to `destination`.
pub(crate) fn is_busy(destination: &Destination) -> bool {
    let name = partial::journal_name(destination.name());
    destination.reopen().is_ok_and(|directory| Journal::is_locked(&directory, &name))
}

fn journal_error(destination: &Destination, error: &OpenError) -> LandingError {
    let path = journal_path(destination);
    match *error {
        OpenError::Locked => LandingError::Busy { path: destination.target() },
        OpenError::NotAJournal => LandingError::NotAJournal { path },
        OpenError::System(errno) => LandingError::from_errno("open", path, errno),
    }
}

/// The journal, for people.
pub(super) fn journal_path(destination: &Destination) -> PathBuf {
    destination.shown(Kind::File, &partial::journal_name(destination.name()))
}

/// What an earlier transfer has verified of another data set is not thrown away unasked.
pub(super) fn check_same(replay: &Replay, plan: &Plan) -> Result<(), LandingError> {
    let (path, bytes) = (plan.target(), replay.bytes_of_another(&plan.manifest));
    let name = replay.manifest.as_ref().map(|before| before.name().to_vec()).unwrap_or_default();
    if bytes == 0 { Ok(()) } else { Err(LandingError::HasAnother { path, name, bytes }) }
}

/// How many bytes the groups of a journal have, of the files that land.
pub(super) fn held_bytes(replay: &Replay, plan: &Plan) -> u64 {
    let lands = |file: usize| plan.files().get(file).is_some_and(|fate| fate.lands());
    let size = |file: usize| plan.manifest.entries().get(file).map_or(0, |entry| entry.size);
    let groups = replay.verified.keys().filter(|&&(file, _)| lands(file));
    groups.map(|&(file, group)| group_range(size(file), group).len()).sum()
}

impl Landing {
    /// Goes on from what the journal says, which was of the data set `before`.
    pub(super) fn take_up(&mut self, before: Option<&Manifest>, replay: Replay) -> Result<(), LandingError> {
        if let Some(before) = before.filter(|before| *before != &*self.plan.manifest) {
            self.remove_stale(before)?;
        }
        if self.owns_partials {
            for set in before.into_iter().chain([&*Arc::clone(&self.plan.manifest)]) {
                self.remove_partial_links(set)?;
            }
        }
        if self.options.fresh || before != Some(&*self.plan.manifest) {
            self.record(&[Record::Manifest(Arc::clone(&self.plan.manifest))])?;
        }
        let is_synced = |file: usize, group: u64| replay.is_synced(file, group);
        let Replay { verified, named, .. } = &replay;
        let files: BTreeSet<usize> = verified.keys().map(|&(file, _)| file).chain(named.keys().copied()).collect();
        for &file in &files {
            if self.lock().files[file] == FileState::Outside {
                // The transfer does not continue this file. If it cannot be removed, it does no harm.
                let _ = self.base.remove_file(&self.partial_path(file));
                continue;
            }
            let state = self.find_file(file, named.get(&file).map(|named| named.size));
            self.lock().files[file] = state.map_err(|errno| self.file_error("open", file, errno))?;
        }
        let mut state = self.lock();
        let is_there = |file: usize| !matches!(state.files[file], FileState::Absent | FileState::Outside);
        // What is a hole now needs nothing but to be one.
        let is_hole = |file: usize, group: u64| self.plan.manifest.entries()[file].is_hole_group(group);
        let groups = verified.iter().filter(|&(&(file, group), _)| is_there(file) && !is_hole(file, group));
        let held = |(&(file, group), verified): (&(usize, u64), &VerifiedGroup)| {
            let synced = is_synced(file, group);
            HeldGroup { file, group, digest: verified.digest, synced }
        };
        let groups: Vec<_> = groups.map(held).collect();
        state.kept_bytes = groups.iter().map(|held| self.group_len(held.file, held.group)).sum();
        // Nothing comes of an empty file, so it is not read back either.
        let is_unsure = |held: &&HeldGroup| !held.synced && self.group_len(held.file, held.group) > 0;
        state.unsure = groups.iter().filter(is_unsure).map(|held| (held.file, held.group)).collect();
        // Their names may be in the kernel's memory alone.
        state.unsynced_names.extend(files.iter().map(|&file| self.directory_of(file)));
        drop(state);
        self.resumed.groups = groups;
        self.made_earlier = replay.made;
        Ok(())
    }

    /// Removes partial files of the data set `before` that an earlier transfer has left, and that this one does not
    /// continue.
    fn remove_stale(&self, before: &Manifest) -> Result<(), LandingError> {
        let name = self.plan.destination.name();
        let remove = |base: &Beneath, path: &[u8]| self.remove_left(base, path);
        match (before.kind(), self.plan.manifest.kind()) {
            (Kind::File, Kind::File) | (Kind::Directory, Kind::File) => {}
            (Kind::File, Kind::Directory) => {
                if let Ok(directory) = self.plan.destination.reopen() {
                    remove(&directory, &partial_path(before, name, 0))?;
                }
            }
            (Kind::Directory, Kind::Directory) => {
                for (index, entry) in before.entries().iter().enumerate() {
                    let path = partial_path(before, name, index);
                    let is_ours = |now| partial_path(&self.plan.manifest, name, now) == path;
                    if !self.plan.manifest.find(&entry.path).is_some_and(is_ours) {
                        remove(&self.base, &path)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes what an earlier transfer has left at `path`. If the disk fails nothing goes on: the journal would know of
    /// it no more. What is in the way otherwise is not ours, and does no harm.
    pub(super) fn remove_left(&self, base: &Beneath, path: &[u8]) -> Result<(), LandingError> {
        match base.remove_file(path) {
            Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => {
                Err(LandingError::from_errno("remove", self.shown(path), errno))
            }
            _ => Ok(()),
        }
    }

    /// What there is of a file that the journal knows. If it was named it had the size `named`.
    fn find_file(&self, index: usize, named: Option<u64>) -> rustix::io::Result<FileState> {
        if self.take_up_partial(index)? {
            return Ok(FileState::Partial);
        }
        let Some(size) = named else { return Ok(FileState::Absent) };
        match self.base.stat(self.path(index), Links::Refuse) {
            Ok(stat) if is_file(stat.st_mode) && stat.st_size.unsigned_abs() == size => {
                if size == self.plan.manifest.entries()[index].size && self.keeps_holes(index) {
                    return Ok(FileState::Named);
                }
                self.take_links_away(index)?;
                self.take_name_away(index)?;
                Ok(if self.take_up_partial(index)? { FileState::Partial } else { FileState::Absent })
            }
            Ok(_) | Err(Errno::NOENT) => Ok(FileState::Absent),
            Err(errno) => Err(errno),
        }
    }

    /// The parts of a file that are never written, because they are holes at its source.
    fn hole_ranges(&self, index: usize) -> impl Iterator<Item = ByteRange> + '_ {
        let entry = &self.plan.manifest.entries()[index];
        let range = |run: Range<u64>| {
            ByteRange::new(group_range(entry.size, run.start).start, group_range(entry.size, run.end - 1).end)
        };
        entry.hole_groups().map(range)
    }

    /// Whether the file that has its name stores nothing where there is nothing at its source.
    fn keeps_holes(&self, index: usize) -> bool {
        let mut holes = self.hole_ranges(index).peekable();
        if holes.peek().is_none() {
            return true;
        }
        let Ok(file) = self.base.open_own(self.path(index), OFlags::RDONLY) else { return false };
        holes.all(|hole| stored_within(&file, hole).is_ok_and(|stored| stored.is_none()))
    }

    /// Makes the partial file of `index` writable. False if there is none, or none that can be continued.
    pub(super) fn take_up_partial(&self, index: usize) -> rustix::io::Result<bool> {
        let path = self.partial_path(index);
        let entry = &self.plan.manifest.entries()[index];
        // It may have been about to get its name, and have its permissions already.
        let file = match self.base.open_own(&path, OFlags::RDONLY) {
            Ok(file) => file,
            // Nothing, or nothing to go on with: whatever it is, it is replaced.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ACCESS) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        let stat = rustix::fs::fstat(&file)?;
        // Through another name something else would be written to; and what is another user's may change at any time.
        let user = rustix::process::geteuid();
        if !is_file(stat.st_mode) || stat.st_nlink > 1 || (stat.st_uid != user.as_raw() && !user.is_root()) {
            return Ok(false);
        }
        if stat.st_mode & 0o600 != 0o600 {
            disk::set_permissions(&file, Mode::from_raw_mode(entry.metadata.mode | 0o600))?;
        }
        let mut holes = self.hole_ranges(index).peekable();
        let len = self.partial_bytes(index);
        let is_as_long = stat.st_size.unsigned_abs() == len;
        if is_as_long && holes.peek().is_none() {
            return Ok(true);
        }
        let writable = self.base.open(&path, OFlags::RDWR | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse)?;
        let writable = File::from(writable);
        if !is_as_long {
            disk::resize(&writable, len)?;
        }
        // Of an earlier version of the file there may be data where the source has none now.
        for hole in holes {
            if !make_hole(&writable, hole)? {
                self.base.remove_file(&path)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes a file that has its name a partial one again, because its bytes have to be fetched again.
    pub(super) fn take_name_away(&self, index: usize) -> rustix::io::Result<()> {
        let partial = self.partial_path(index);
        let (parent, name) = self.base.parent_of(self.path(index))?;
        disk::rename(parent.fd(), name, split(&partial).1)?;
        // Before anything is written to it: a power failure must not bring the name back.
        disk::sync_directory(parent.fd())
    }

    /// Leaves a journal that says only whose the directories are.
    pub(super) fn begin_anew(&self) -> Result<(), LandingError> {
        self.journal()
            .clear()
            .map_err(|errno| LandingError::from_errno("write", journal_path(&self.plan.destination), errno))?;
        let mut records = vec![Record::Manifest(Arc::clone(&self.plan.manifest))];
        records.extend(self.made_target.then_some(Record::Made { directory: None }));
        records.extend(self.made.iter().map(|&index| Record::Made { directory: Some(index) }));
        self.record(&records).map(drop)
    }

    /// What an earlier transfer has left to continue from.
    pub fn resumed(&self) -> &Resumed {
        &self.resumed
    }

    /// Bytes that the next transfer could continue from, if this one ended now.
    pub fn kept_bytes(&self) -> u64 {
        self.lock().kept_bytes
    }

    /// Reads a group that is [held](Resumed::groups) back into `buf`, and says whether it is what it was. If it may be in
    /// the kernel's memory alone, it is written once more, so that the next sync brings it to the disk.
    ///
    /// # Errors
    /// As [`read_group`](Landing::read_group) and [`write`](Landing::write).
    pub fn recheck(&self, held: &HeldGroup, buf: &mut Vec<u8>) -> Result<bool, LandingError> {
        self.read_group(held.file, held.group, buf)?;
        let size = self.plan.manifest.entries().get(held.file).map_or(0, |entry| entry.size);
        if group_digest(size, held.group, buf) != held.digest {
            return Ok(false);
        }
        if !held.synced
            && let Some(file) = self.plan.manifest.file_range(held.file)
        {
            self.write(file.start + group_range(size, held.group).start, &[IoSlice::new(buf)])?;
            self.rewritten(held.file, held.group);
        }
        Ok(true)
    }

    /// A group is in the kernel's memory, and is brought to the disk by the next sync.
    fn rewritten(&self, file: usize, group: u64) {
        let mut state = self.lock();
        // Small files last once they have their names. To sync a journal of theirs alone would stop the file system,
        // in which thousands of files are being made, time and again.
        if self.plan.manifest.entries().get(file).is_some_and(|entry| entry.size > GROUP_BYTES) {
            state.unsynced.insert(file);
        }
        state.unsure.remove(&(file, group));
    }

    /// Records that a group agrees with its source, so that a later landing can continue from it. Does not sync.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn record_verified(&self, file: usize, group: u64, digest: GroupDigest) -> Result<(), LandingError> {
        // Before its record: a sync that covers the record must cover the file.
        self.rewritten(file, group);
        if self.record(&[Record::Verified { file, group, digest }])? {
            self.lock().kept_bytes += self.group_len(file, group);
        }
        Ok(())
    }

    /// Notes that a group that was [held](Resumed::groups) is not there, or is not what its source says.
    pub fn drop_held(&self, file: usize, group: u64) {
        let mut state = self.lock();
        state.kept_bytes = state.kept_bytes.saturating_sub(self.group_len(file, group));
        // Its old record is there until it has come again.
        state.unsure.insert((file, group));
    }

    /// Ends the landing and leaves its journal and its partial files, so that a later landing can continue. Returns
    /// the number of verified bytes that are left. If there are none, everything is removed as by
    /// [`abort`](Landing::abort). A [finished](Landing::finish) landing keeps its journal, so that a transfer of
    /// several data sets can be continued as a whole.
    pub fn suspend(&self) -> u64 {
        let is_of_use = self.journal().is_of_use();
        let mut state = self.lock();
        match state.end {
            End::Open | End::Finished if is_of_use => {}
            End::Open => {
                drop(state);
                self.abort();
                return 0;
            }
            End::Finished | End::Suspended | End::Aborted => return 0,
        }
        state.end = End::Suspended;
        state.open.clear();
        self.lifted.close_up_all();
        state.kept_bytes
    }

    /// Writes records; false when there is no room for them.
    pub(super) fn record(&self, records: &[Record]) -> Result<bool, LandingError> {
        self.journal()
            .append(records)
            .map_err(|errno| LandingError::from_errno("write", journal_path(&self.plan.destination), errno))
    }

    fn group_len(&self, file: usize, group: u64) -> u64 {
        self.plan.manifest.entries().get(file).map_or(0, |entry| group_range(entry.size, group).len())
    }
}

/// Path of the partial file of `index` relative to the base, in a data set that lands as `name`.
pub(super) fn partial_path(manifest: &Manifest, name: &[u8], index: usize) -> Vec<u8> {
    match manifest.kind() {
        Kind::File => partial_beside(manifest, name),
        Kind::Directory => partial_beside(manifest, &manifest.entries()[index].path),
    }
}

/// Path of what becomes `path` at the end.
pub(super) fn partial_beside(manifest: &Manifest, path: &[u8]) -> Vec<u8> {
    let (parent, name) = split(path);
    let beside = |name: &[u8]| if parent.is_empty() { name.to_vec() } else { [parent, name].join(&b'/') };
    let is_taken = |name: &[u8]| manifest.kind() == Kind::Directory && manifest.has(&beside(name));
    beside(&partial::partial_name(name, is_taken))
}

fn is_file(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::RegularFile
}
