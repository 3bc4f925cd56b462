//! Predicts what landing a data set would do, before anything is written and before any data is requested.
//!
//! Some bytes need not come: those of files that are kept or left out, and holes. An endpoint takes them as held
//! ranges, so the byte space of a data set is the same for every receiver.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use inhaul_base::{ByteRange, RangeSet};
use rustix::fs::{Dir, FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::beneath::{Beneath, Links};
use crate::destination::{Destination, Site};
use crate::file_system::FileSystem;
use crate::file_time::is_same_time;
use crate::filter::{Filter, Wanted};
use crate::inbox::Inbox;
use crate::landing_error::LandingError;
use crate::{Entry, Kind, Manifest, Skipped, Symlink, Timestamp};

/// What happens to an existing file that differs from the landing one. An existing file that is the same, by size and
/// time or by its bytes, is always kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// The data set does not land.
    #[default]
    Refuse,
    /// It is replaced.
    Replace,
    /// It is replaced if it is older, and kept otherwise.
    Update,
    /// It is kept.
    Keep,
}

/// What happens to a file or link of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It lands, and no file exists there.
    Fetch,
    /// It lands, and replaces an existing file.
    Replace,
    /// The existing file stays.
    Keep,
    /// It is not wanted.
    LeftOut,
    /// The existing file differs, and may not be replaced.
    Refused,
    /// A directory, a device, a pipe or a socket is in its place, and never replaced.
    Blocked,
}

impl Fate {
    /// Whether it lands.
    pub fn lands(self) -> bool {
        matches!(self, Self::Fetch | Self::Replace)
    }
}

/// The effects of landing a data set.
#[derive(Debug)]
pub struct Plan {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) destination: Destination,
    existing: Existing,
    /// The directory that paths are relative to, if it exists already.
    base: Option<Beneath>,
    files: Vec<Fate>,
    pub(crate) symlinks: Vec<Fate>,
    pub(crate) hard_links: Vec<Fate>,
    /// The directories that are wanted.
    pub(crate) directories: Vec<bool>,
    /// Wanted items that the source may not read.
    unreadable: Skipped,
    /// Files that land under another one of their names, because their own is not wanted.
    homes: BTreeMap<usize, Vec<u8>>,
    /// Existing directories that would be added to without the user's permission.
    crowded: Vec<Crowded>,
}

/// A nonempty directory, and the number of names it would get.
#[derive(Debug)]
struct Crowded {
    path: PathBuf,
    additions: u64,
    /// The first of these, if all are symbolic links.
    link: Option<usize>,
}

impl Plan {
    /// Plans how the files of `manifest` that `filter` selects would land at `site`. Changes nothing.
    ///
    /// When the site does not exist or cannot be examined, or when a file is in the place of a directory.
    pub fn new(
        site: &Site,
        manifest: Arc<Manifest>,
        filter: &Filter,
        existing: Existing,
    ) -> Result<Self, LandingError> {
        Self::of(Destination::find(site, manifest.kind())?, manifest, filter, existing)
    }

    /// The same at a site confined to `inbox`.
    ///
    /// # Errors
    /// As [`new`](Plan::new), and when the site lies outside.
    pub fn in_inbox(
        inbox: &Inbox,
        site: &Site,
        manifest: Arc<Manifest>,
        filter: &Filter,
        existing: Existing,
    ) -> Result<Self, LandingError> {
        Self::of(inbox.find(site, manifest.kind())?, manifest, filter, existing)
    }

    fn of(
        destination: Destination,
        manifest: Arc<Manifest>,
        filter: &Filter,
        existing: Existing,
    ) -> Result<Self, LandingError> {
        let base = match manifest.kind() {
            Kind::File => Some(destination.reopen()?),
            Kind::Directory => destination.open_target()?,
        };
        let Wanted { files, directories, symlinks, mut hard_links, unreadable } = filter.apply(&manifest);
        let fates = |wanted: &[bool]| wanted.iter().map(|&w| if w { Fate::Fetch } else { Fate::LeftOut }).collect();
        let mut homes = BTreeMap::new();
        let mut files: Vec<Fate> = fates(&files);
        for (link, wanted) in manifest.hard_links().iter().zip(&mut hard_links).filter(|(_, wanted)| **wanted) {
            if let Some(file) = manifest.find(&link.file)
                && files[file] == Fate::LeftOut
            {
                homes.insert(file, link.path.clone());
                files[file] = Fate::Fetch;
                *wanted = false;
            }
        }
        let (symlinks, hard_links) = (fates(&symlinks), fates(&hard_links));
        let crowded = Vec::new();
        let mut plan = Self {
            manifest,
            destination,
            existing,
            base,
            files,
            symlinks,
            hard_links,
            directories,
            unreadable,
            homes,
            crowded,
        };
        plan.look(filter)?;
        Ok(plan)
    }

    /// Examines existing files.
    fn look(&mut self, filter: &Filter) -> Result<(), LandingError> {
        let Some(base) = self.base.take() else { return Ok(()) };
        let manifest = Arc::clone(&self.manifest);
        let file_system = FileSystem::of(base.fd());
        let mut missing = Vec::new();
        for (directory, _) in manifest.directories().iter().zip(&self.directories).filter(|(_, wanted)| **wanted) {
            match self.stat(&base, &directory.path)? {
                Some(stat) if is(&stat, FileType::Directory) => {}
                Some(_) => return Err(LandingError::NotADirectory { path: self.shown(&directory.path) }),
                None => missing.push(directory.path.as_slice()),
            }
        }
        for (index, entry) in manifest.entries().iter().enumerate() {
            if self.files[index].lands()
                && let Some(stat) = self.stat(&base, self.path(index))?
            {
                let same = is_same(&stat, entry, file_system);
                self.files[index] = self.fate(&stat, entry.metadata.modified, same);
            }
        }
        for (index, link) in manifest.symlinks().iter().enumerate() {
            if self.symlinks[index].lands()
                && let Some(stat) = self.stat(&base, &link.path)?
            {
                let same = is(&stat, FileType::Symlink)
                    && base.read_link(&link.path).is_ok_and(|target| target == link.target);
                self.symlinks[index] = self.fate(&stat, link.metadata.modified, same);
            }
        }
        for (index, link) in manifest.hard_links().iter().enumerate() {
            let Some(file) = manifest.find(&link.file) else { continue };
            if self.hard_links[index].lands()
                && let Some(stat) = self.stat(&base, &link.path)?
            {
                self.hard_links[index] = self.fate_of_name(&base, &stat, file)?;
            }
        }
        if manifest.kind() == Kind::Directory && self.existing == Existing::Refuse {
            self.crowded = self.crowded(&base, &missing, filter)?;
        }
        self.base = Some(base);
        Ok(())
    }

    /// The requested directories that are not empty and would get a name chosen by a source, without the user's
    /// permission to add to them. `missing` are the directories that would be made.
    fn crowded(&self, base: &Beneath, missing: &[&[u8]], filter: &Filter) -> Result<Vec<Crowded>, LandingError> {
        let manifest = &self.manifest;
        let files =
            (0..self.files.len()).filter(|&index| self.files[index] == Fate::Fetch).map(|index| self.path(index));
        let new = |fate: &Fate| *fate == Fate::Fetch;
        let hard_links = manifest.hard_links().iter().zip(&self.hard_links).filter(|(_, fate)| new(fate));
        let others = files.chain(hard_links.map(|(link, _)| link.path.as_slice())).chain(missing.iter().copied());
        let symlinks = manifest.symlinks().iter().enumerate().filter(|(index, _)| new(&self.symlinks[*index]));
        let symlinks = symlinks.map(|(index, link)| (link.path.as_slice(), Some(index)));
        let mut all: BTreeMap<&[u8], (u64, Option<usize>)> = BTreeMap::new();
        for (path, link) in symlinks.chain(others.map(|path| (path, None))) {
            let Some(above) = filter.asked_above(path) else { continue };
            let (additions, first) = all.entry(above).or_insert((0, link));
            *additions += 1;
            *first = first.filter(|_| link.is_some());
        }
        let mut crowded = Vec::new();
        for (above, (additions, link)) in all {
            if has_entries(base, above)
                .map_err(|errno| LandingError::from_errno("look into", self.shown(above), errno))?
            {
                crowded.push(Crowded { path: self.shown(above), additions, link });
            }
        }
        Ok(crowded)
    }

    /// Permits adding to a directory that would only get symbolic links which it cannot have; `lacks` tells that of a
    /// link.
    pub(crate) fn forgive_links(&mut self, lacks: impl Fn(&Symlink) -> bool) {
        let symlinks = self.manifest.symlinks();
        self.crowded.retain(|crowded| crowded.link.is_none_or(|link| !lacks(&symlinks[link])));
    }

    /// Permits continuing an earlier transfer in existing directories. Returns whether this permission was needed.
    pub(crate) fn go_on(&mut self) -> bool {
        !std::mem::take(&mut self.crowded).is_empty()
    }

    /// What happens to a file or link that would replace the existing one of `stat`.
    fn fate(&self, stat: &Stat, new: Timestamp, same: bool) -> Fate {
        match self.existing {
            _ if is(stat, FileType::Directory) || is_special(stat) => Fate::Blocked,
            _ if same => Fate::Keep,
            Existing::Refuse => Fate::Refused,
            Existing::Replace => Fate::Replace,
            Existing::Update if new > modified(stat) => Fate::Replace,
            Existing::Update | Existing::Keep => Fate::Keep,
        }
    }

    /// What happens to a hard link of `file` at the place of the existing file of `stat`.
    fn fate_of_name(&self, base: &Beneath, stat: &Stat, file: usize) -> Result<Fate, LandingError> {
        let entry = &self.manifest.entries()[file];
        let home = self.stat(base, self.path(file))?;
        let is_name = home.is_some_and(|home| (home.st_dev, home.st_ino) == (stat.st_dev, stat.st_ino));
        let is_copy = is_same(stat, entry, FileSystem::of(base.fd()));
        Ok(match (self.files[file], self.existing) {
            (Fate::Keep, _) if is_name => Fate::Keep,
            (_, Existing::Keep) => self.fate(stat, entry.metadata.modified, is_copy),
            // A copy with the same bytes: nothing is lost when it becomes a link.
            _ if is_copy => Fate::Replace,
            _ => self.fate(stat, entry.metadata.modified, false),
        })
    }

    fn stat(&self, base: &Beneath, path: &[u8]) -> Result<Option<Stat>, LandingError> {
        match base.stat(path, Links::Refuse) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(LandingError::from_errno("look at", self.shown(path), errno)),
        }
    }

    /// The directory that paths are relative to, if it exists already.
    pub(crate) fn base(&self) -> Option<&Beneath> {
        self.base.as_ref()
    }

    /// The manifest of the data set.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Wanted items that the source may not read.
    pub fn unreadable(&self) -> &Skipped {
        &self.unreadable
    }

    /// The file or directory that would appear, as a path for people.
    pub fn target(&self) -> PathBuf {
        self.destination.target()
    }

    /// Whether another transfer is landing there.
    pub fn is_busy(&self) -> bool {
        self.destination.is_busy()
    }

    /// The place of file `index`, as a path for people.
    pub fn place(&self, index: usize) -> PathBuf {
        self.shown(self.path(index))
    }

    /// What happens to each file, by its index in the manifest.
    pub fn files(&self) -> &[Fate] {
        &self.files
    }

    /// The wanted files that exist already with the right size. [`open_existing`](Plan::open_existing) and
    /// [`settle`](Plan::settle) compare their bytes.
    pub fn same_size(&self) -> Vec<usize> {
        let Some(base) = &self.base else { return Vec::new() };
        let is_there = |&index: &usize| {
            let entry = &self.manifest.entries()[index];
            base.stat(self.path(index), Links::Refuse).is_ok_and(|stat| is_same_size(&stat, entry))
        };
        (0..self.files.len()).filter(|&index| self.files[index] != Fate::LeftOut).filter(is_there).collect()
    }

    /// Opens the existing file in the place of file `index`.
    ///
    /// # Errors
    /// When there is none, or when it cannot be read.
    pub fn open_existing(&self, index: usize) -> Result<File, LandingError> {
        let failed = |errno| LandingError::from_errno("read", self.place(index), errno);
        let base = self.base.as_ref().ok_or_else(|| failed(Errno::NOENT))?;
        base.open_own(self.path(index), OFlags::RDONLY).map_err(failed)
    }

    /// Decides about file `index`; `same`: whether the existing file has the same bytes.
    pub fn settle(&mut self, index: usize, same: bool) {
        let Some(base) = &self.base else { return };
        if let Ok(stat) = base.stat(self.path(index), Links::Refuse) {
            self.files[index] = self.fate(&stat, self.manifest.entries()[index].metadata.modified, same);
        }
    }

    /// Continues file `index`, which an earlier transfer of this data set has named when it had `size` bytes, if the
    /// file still exists.
    pub(crate) fn go_on_with(&mut self, index: usize, size: u64) {
        let Some(base) = &self.base else { return };
        let is_theirs = |stat: &Stat| is(stat, FileType::RegularFile) && stat.st_size.unsigned_abs() == size;
        // One that may be replaced anyway may not be the transfer's.
        let is_wanted = self.files.get(index).is_some_and(|&fate| !matches!(fate, Fate::LeftOut | Fate::Replace));
        if is_wanted && base.stat(self.path(index), Links::Refuse).is_ok_and(|stat| is_theirs(&stat)) {
            self.files[index] = Fate::Fetch;
        }
    }

    /// After [`go_on_with`](Plan::go_on_with): hard links of continued files that the earlier transfer has made are
    /// made again.
    pub(crate) fn go_on_with_links(&mut self) {
        let Some(base) = &self.base else { return };
        let identity = |path: &[u8]| base.stat(path, Links::Refuse).ok().map(|stat| (stat.st_dev, stat.st_ino));
        let mut ours = Vec::new();
        for (index, link) in self.manifest.hard_links().iter().enumerate() {
            let file = self.manifest.find(&link.file).filter(|&file| self.files[file] == Fate::Fetch);
            let home =
                file.filter(|_| self.hard_links[index] != Fate::LeftOut).and_then(|file| identity(self.path(file)));
            if home.is_some() && home == identity(&link.path) {
                ours.push(index);
            }
        }
        ours.into_iter().for_each(|index| self.hard_links[index] = Fate::Replace);
    }

    /// The bytes of files that do not land: they need not be fetched.
    pub fn unwanted(&self) -> RangeSet {
        let mut unwanted = RangeSet::new();
        for (index, _) in self.files.iter().enumerate().filter(|(_, fate)| !fate.lands()) {
            unwanted.insert(self.manifest.file_range(index).unwrap_or_default());
        }
        unwanted
    }

    /// The number of bytes to fetch.
    pub fn bytes(&self) -> u64 {
        let mut held = self.unwanted();
        for hole in self.manifest.holes().iter() {
            held.insert(hole);
        }
        ByteRange::new(0, self.manifest.size()).len() - held.covered()
    }

    /// Checks that the destination's file system allows files as large as those that land.
    ///
    /// # Errors
    /// When it does not; the error names the largest file.
    pub fn check_file_sizes(&self) -> Result<(), LandingError> {
        let landing = self.files.iter().enumerate().filter(|(_, fate)| fate.lands()).map(|(index, _)| index);
        match landing.max_by_key(|&index| self.manifest.entries()[index].size) {
            Some(largest) => {
                self.destination.check_file_size(self.place(largest), self.manifest.entries()[largest].size)
            }
            None => Ok(()),
        }
    }

    /// Existing files that block the plan: the error of the first one, and their number.
    pub fn obstacles(&self) -> Option<(LandingError, usize)> {
        let files = self.files.iter().enumerate().map(|(index, fate)| (self.path(index), fate));
        let symlinks = self.manifest.symlinks().iter().map(|link| link.path.as_slice()).zip(&self.symlinks);
        let hard_links = self.manifest.hard_links().iter().map(|link| link.path.as_slice()).zip(&self.hard_links);
        let mut bad =
            files.chain(symlinks).chain(hard_links).filter(|(_, fate)| matches!(fate, Fate::Refused | Fate::Blocked));
        let Some((path, fate)) = bad.next() else {
            return self.crowded.first().map(|crowded| (self.would_add(crowded), 1));
        };
        let others = bad.count();
        Some(match fate {
            Fate::Blocked => (self.blocked(path), others + 1),
            _ => (LandingError::Exists { path: self.shown(path), others }, others + 1),
        })
    }

    fn would_add(&self, crowded: &Crowded) -> LandingError {
        let Crowded { path, additions, .. } = crowded;
        let is_named = self.destination.is_named() && *path == self.target();
        LandingError::WouldAdd { path: path.clone(), additions: *additions, is_named }
    }

    /// The error of an item at `path` that is never replaced.
    fn blocked(&self, path: &[u8]) -> LandingError {
        let stat = self.base.as_ref().and_then(|base| base.stat(path, Links::Refuse).ok());
        let path = self.shown(path);
        if stat.is_some_and(|stat| is_special(&stat)) {
            LandingError::Special { path }
        } else {
            LandingError::IsADirectory { path }
        }
    }

    /// Path of file `index` relative to the base.
    pub(crate) fn path(&self, index: usize) -> &[u8] {
        match self.manifest.kind() {
            Kind::File => self.destination.name(),
            Kind::Directory => self.homes.get(&index).unwrap_or(&self.manifest.entries()[index].path),
        }
    }

    /// A path relative to the base, for people.
    pub(crate) fn shown(&self, path: &[u8]) -> PathBuf {
        self.destination.shown(self.manifest.kind(), path)
    }
}

/// Whether the directory at `path` exists and is not empty.
fn has_entries(base: &Beneath, path: &[u8]) -> rustix::io::Result<bool> {
    let directory = match base.open_directory(path, Links::Refuse) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    // Not by the name '.', which passes through the directory: that may not be permitted.
    for entry in Dir::new(directory.into_fd())? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether it is a device, a pipe or a socket, which are never replaced.
pub(crate) fn is_special(stat: &Stat) -> bool {
    ![FileType::RegularFile, FileType::Symlink, FileType::Directory].iter().any(|&kind| is(stat, kind))
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

fn is_same_size(stat: &Stat, entry: &Entry) -> bool {
    is(stat, FileType::RegularFile) && stat.st_size.unsigned_abs() == entry.size
}

/// When the file of `stat` was last changed.
pub(crate) fn modified(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 }
}

/// Whether the existing file of `stat`, on this file system, is the one of `entry`, by size and time.
pub(crate) fn is_same(stat: &Stat, entry: &Entry, file_system: FileSystem) -> bool {
    is_same_size(stat, entry) && is_same_time(modified(stat), entry.metadata.modified, file_system)
}

#[cfg(test)]
mod tests;
