//! Continues an earlier landing: its journal, its partial files, and the files that it has named.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use inhaul_base::ByteRange;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::earlier::{HeldGroup, Resumed};
use super::state::{End, FileState};
use super::{Landing, LandingError};
use crate::beneath::{Beneath, Links, split};
use crate::digest::{GROUP_BYTES, GroupDigest, group_digest, group_range};
use crate::disk;
use crate::journal::{Record, Replay, VerifiedGroup};
use crate::partial::partial_path;
use crate::sparse::{make_hole, stored_within};
use crate::{Kind, Manifest};

impl Landing {
    /// Continues from the journal, which was of the data set `before`.
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
                // This transfer does not continue the file. If it cannot be removed, it does no harm.
                let _ = self.base.remove_file(&self.partial_path(file));
                continue;
            }
            let state = self.find_file(file, named.get(&file).map(|named| named.size));
            self.lock().files[file] = state.map_err(|errno| self.file_error("open", file, errno))?;
        }
        let mut state = self.lock();
        let is_there = |file: usize| !matches!(state.files[file], FileState::Absent | FileState::Outside);
        // A hole needs no bytes.
        let is_hole = |file: usize, group: u64| self.plan.manifest.entries()[file].is_hole_group(group);
        let groups = verified.iter().filter(|&(&(file, group), _)| is_there(file) && !is_hole(file, group));
        let held = |(&(file, group), verified): (&(usize, u64), &VerifiedGroup)| {
            let synced = is_synced(file, group);
            HeldGroup { file, group, digest: verified.digest, synced }
        };
        let groups: Vec<_> = groups.map(held).collect();
        state.kept_bytes = groups.iter().map(|held| self.group_len(held.file, held.group)).sum();
        // An empty file has no bytes, so it is not read back either.
        let is_unsure = |held: &&HeldGroup| !held.synced && self.group_len(held.file, held.group) > 0;
        state.unsure = groups.iter().filter(is_unsure).map(|held| (held.file, held.group)).collect();
        // Their names may be only in the kernel's memory.
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

    /// Removes an earlier transfer's file at `path`. If the disk fails, so does this: the journal would not know of the
    /// file any more. Anything else in the way is not ours, and does no harm.
    pub(super) fn remove_left(&self, base: &Beneath, path: &[u8]) -> Result<(), LandingError> {
        match base.remove_file(path) {
            Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => {
                Err(LandingError::from_errno("remove", self.shown(path), errno))
            }
            _ => Ok(()),
        }
    }

    /// The state of a file in the journal. If it was named, it had the size `named`.
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

    /// Whether the named file stores nothing where its source has holes.
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
        // It may have been about to get its name, with its final permissions.
        let file = match self.base.open_own(&path, OFlags::RDONLY) {
            Ok(file) => file,
            // Missing, or not usable: it is replaced.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ACCESS) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        let stat = rustix::fs::fstat(&file)?;
        // With another name, a write would change another file. And another user's file may change at any time.
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
        // An earlier version of the file may have stored data where the source now has a hole.
        for hole in holes {
            if !make_hole(&writable, hole)? {
                self.base.remove_file(&path)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Turns a named file back into a partial one, because its bytes have to be fetched again.
    pub(super) fn take_name_away(&self, index: usize) -> rustix::io::Result<()> {
        let partial = self.partial_path(index);
        let (parent, name) = self.base.parent_of(self.path(index))?;
        disk::rename(parent.fd(), name, split(&partial).1)?;
        // Synced before any write: a power failure must not bring the name back.
        disk::sync_directory(parent.fd())
    }

    /// Leaves a journal that only records the made directories.
    pub(super) fn begin_anew(&self) -> Result<(), LandingError> {
        self.journal()
            .clear()
            .map_err(|errno| LandingError::from_errno("write", self.plan.destination.journal_path(), errno))?;
        let mut records = vec![Record::Manifest(Arc::clone(&self.plan.manifest))];
        records.extend(self.made_target.then_some(Record::Made { directory: None }));
        records.extend(self.made.iter().map(|&index| Record::Made { directory: Some(index) }));
        self.record(&records).map(drop)
    }

    /// The state of the earlier transfer.
    pub fn resumed(&self) -> &Resumed {
        &self.resumed
    }

    /// Bytes that the next transfer could continue from, if this one ended now.
    pub fn kept_bytes(&self) -> u64 {
        self.lock().kept_bytes
    }

    /// Reads a [held](Resumed::groups) group back into `buf`, and returns whether it is unchanged. If it may be only in
    /// the kernel's memory, it is written again, so that the next sync brings it to the disk.
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

    /// Notes that a group was written: the next sync brings it to the disk.
    fn rewritten(&self, file: usize, group: u64) {
        let mut state = self.lock();
        // Small files are synced when they get their names. A separate sync would block the file system again and again
        // while thousands of files are being made.
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
        // Before the record: a sync that covers the record must cover the file.
        self.rewritten(file, group);
        if self.record(&[Record::Verified { file, group, digest }])? {
            self.lock().kept_bytes += self.group_len(file, group);
        }
        Ok(())
    }

    /// Notes that a [held](Resumed::groups) group is missing, or differs from its source.
    pub fn drop_held(&self, file: usize, group: u64) {
        let mut state = self.lock();
        state.kept_bytes = state.kept_bytes.saturating_sub(self.group_len(file, group));
        // Its old record stays until the group comes again.
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

    /// Writes records; false if there is no room for them.
    pub(super) fn record(&self, records: &[Record]) -> Result<bool, LandingError> {
        self.journal()
            .append(records)
            .map_err(|errno| LandingError::from_errno("write", self.plan.destination.journal_path(), errno))
    }

    fn group_len(&self, file: usize, group: u64) -> u64 {
        self.plan.manifest.entries().get(file).map_or(0, |entry| group_range(entry.size, group).len())
    }
}

fn is_file(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::RegularFile
}
