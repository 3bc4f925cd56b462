//! Symbolic and hard links. They are made last, so that nothing is ever written through one.
//!
//! Many file systems have no links: FAT, exFAT, some network file systems, and some FUSE ones. There a symbolic link is
//! left out, and a hard link becomes a copy of its file. A note says so; all files have landed by then.

use std::fs::File;
use std::io::IoSlice;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::finish::rename_to_free_name;
use super::lacking::is_lacking;
use super::notes::Aspect;
use super::{Landing, LandingError, write};
use crate::beneath::{Beneath, Links, split};
use crate::digest::{GROUP_BYTES, ZEROS};
use crate::disk;
use crate::file_system::FileSystem;
use crate::manifest::MODE_BITS;
use crate::partial::partial_beside;
use crate::plan::{Existing, Fate, is_same, modified};
use crate::{Kind, Manifest, Metadata, Symlink};

/// Why a link was not made.
enum NotMade {
    /// The file system does not make such links, or not this one.
    Lacking(Errno),
    Failed(LandingError),
}

impl Landing {
    /// Makes the links that land.
    pub(super) fn make_links(&self) -> Result<(), LandingError> {
        let manifest = &self.plan.manifest;
        for (link, &fate) in manifest.symlinks().iter().zip(&self.plan.symlinks).filter(|(_, fate)| fate.lands()) {
            self.make_symlink(link, fate)?;
        }
        for (link, &fate) in manifest.hard_links().iter().zip(&self.plan.hard_links).filter(|(_, fate)| fate.lands()) {
            let Some(file) = manifest.find(&link.file).filter(|&file| !self.is_given_up(file)) else { continue };
            self.make_hard_link(file, &link.path, fate)?;
        }
        Ok(())
    }

    /// Removes the links of `manifest` that an earlier transfer has made under partial names. They are made again if
    /// they still land.
    pub(super) fn remove_partial_links(&self, manifest: &Manifest) -> Result<(), LandingError> {
        if manifest.kind() != Kind::Directory || self.plan.manifest.kind() != Kind::Directory {
            return Ok(());
        }
        let symlinks = manifest.symlinks().iter().map(|link| &link.path);
        for path in symlinks.chain(manifest.hard_links().iter().map(|link| &link.path)) {
            let partial = partial_beside(manifest, path);
            if !self.plan.manifest.has(&partial) {
                self.remove_left(&self.base, &partial)?;
            }
        }
        Ok(())
    }

    /// Removes the hard links that an earlier transfer has made to file `index`, because the file will be written to.
    /// They are made again at the end.
    pub(super) fn take_links_away(&self, index: usize) -> rustix::io::Result<()> {
        let identity = |path: &[u8]| self.base.stat(path, Links::Refuse).map(|stat| (stat.st_dev, stat.st_ino));
        let home = self.base.stat(self.path(index), Links::Refuse)?;
        if home.st_nlink <= 1 {
            return Ok(());
        }
        let manifest = &self.plan.manifest;
        for (link, _) in manifest.hard_links().iter().zip(&self.plan.hard_links).filter(|(_, fate)| fate.lands()) {
            if manifest.find(&link.file) == Some(index) && identity(&link.path) == Ok((home.st_dev, home.st_ino)) {
                let (parent, name) = self.base.parent_of(&link.path)?;
                disk::remove(parent.fd(), name, AtFlags::empty())?;
                // Synced before any write: a power failure must not bring the name back.
                disk::sync_directory(parent.fd())?;
            }
        }
        Ok(())
    }

    fn make_symlink(&self, link: &Symlink, fate: Fate) -> Result<(), LandingError> {
        let made = self.appear(&link.path, fate, |parent, name| {
            disk::symlink(&link.target, parent.fd(), name)?;
            self.set_link_metadata(parent, name, &link.path, &link.metadata);
            Ok(())
        });
        match made {
            Err(NotMade::Lacking(errno)) => {
                self.note(Aspect::SymbolicLink, &link.path, Err(errno));
                Ok(())
            }
            Err(NotMade::Failed(error)) => Err(error),
            Ok(()) => Ok(()),
        }
    }

    fn make_hard_link(&self, file: usize, path: &[u8], fate: Fate) -> Result<(), LandingError> {
        let failed = |errno| self.link_error(path, errno);
        let (home, home_name) = self.base.parent_of(self.path(file)).map_err(failed)?;
        let link = |parent: &Beneath, name: &[u8]| disk::link(home.fd(), home_name, parent.fd(), name);
        let errno = match self.appear(path, fate, link) {
            Err(NotMade::Lacking(errno)) => errno,
            Err(NotMade::Failed(error)) => return Err(error),
            Ok(()) => return Ok(()),
        };
        // If the file stays unchanged, so does an earlier transfer's copy of it.
        if !self.lands(file) && self.base.stat(path, Links::Refuse).is_ok_and(|stat| self.is_copy(file, &stat)) {
            return Ok(());
        }
        match self.appear(path, fate, |parent, name| self.copy(file, path, parent, name)) {
            Err(NotMade::Lacking(errno)) => Err(failed(errno)),
            Err(NotMade::Failed(error)) => Err(error),
            Ok(()) => {
                self.note(Aspect::HardLink, path, Err(errno));
                Ok(())
            }
        }
    }

    fn is_copy(&self, file: usize, stat: &Stat) -> bool {
        is_same(stat, &self.plan.manifest.entries()[file], FileSystem::of(self.base.fd()))
    }

    /// Copies `file`, which has landed, to the new file `name` in `parent`, which will be at `path`.
    fn copy(&self, file: usize, path: &[u8], parent: &Beneath, name: &[u8]) -> rustix::io::Result<()> {
        let source = self.base.open_own(self.path(file), OFlags::RDONLY)?;
        let stat = rustix::fs::fstat(&source)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode((stat.st_mode & MODE_BITS) | 0o600);
        let copy = File::from(parent.open(name, flags, mode, Links::Refuse)?);
        let kept = &self.plan.manifest.entries()[file].metadata;
        let metadata = Metadata { mode: stat.st_mode & MODE_BITS, modified: modified(&stat), ..kept.clone() };
        let copied = copy_bytes(&source, &copy, stat.st_size.unsigned_abs()).and_then(|()| {
            self.set_metadata(&copy, path, &metadata);
            disk::sync_file(&copy)
        });
        if copied.is_err() && disk::remove(parent.fd(), name, AtFlags::empty()).is_err() {
            // It stays, and so does the journal, which says whose it is.
            self.journal().keep();
        }
        copied
    }

    /// Makes a link at `path` atomically. It replaces an existing file only with permission. `make` makes the link
    /// under a partial name.
    fn appear(
        &self,
        path: &[u8],
        fate: Fate,
        make: impl Fn(&Beneath, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<(), NotMade> {
        let failed = |errno| NotMade::Failed(self.link_error(path, errno));
        let (parent, name) = self.base.parent_of(path).map_err(failed)?;
        let whole = partial_beside(&self.plan.manifest, path);
        let partial = split(&whole).1;
        let not_made = |errno| if is_lacking(&parent, errno) { NotMade::Lacking(errno) } else { failed(errno) };
        match make(&parent, partial) {
            Err(Errno::EXIST) if self.options.existing == Existing::Replace => {
                disk::remove(parent.fd(), partial, AtFlags::empty()).map_err(failed)?;
                make(&parent, partial).map_err(not_made)?;
            }
            // An earlier transfer's leftovers are gone by now.
            Err(Errno::EXIST) => {
                return Err(NotMade::Failed(LandingError::PartialExists { path: self.shown(&whole) }));
            }
            made => made.map_err(not_made)?,
        }
        let named = match fate {
            Fate::Replace => disk::rename(parent.fd(), partial, name),
            _ => rename_to_free_name(&parent, partial, name),
        };
        // If both names were the same file, the rename did nothing. If it failed, nothing may stay.
        let gone = match disk::remove(parent.fd(), partial, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => {
                // It stays, and so does the journal, which says whose it is.
                self.journal().keep();
                Err(errno)
            }
        };
        named.and(gone).map_err(failed)
    }

    fn link_error(&self, path: &[u8], errno: Errno) -> LandingError {
        let shown = self.shown(path);
        match errno {
            Errno::EXIST => LandingError::Exists { path: shown, others: 0 },
            Errno::ISDIR => LandingError::IsADirectory { path: shown },
            // For a copy, on a file system without links.
            Errno::NOSPC | Errno::DQUOT => {
                let file = self.plan.manifest.named(path).map(|file| &self.plan.manifest.entries()[file]);
                let free = if errno == Errno::NOSPC { self.plan.destination.free_bytes().unwrap_or(0) } else { 0 };
                LandingError::NoSpace { path: shown, needed: file.map_or(0, |file| file.size), free }
            }
            _ => LandingError::from_errno("make the link", shown, errno),
        }
    }
}

/// Copies `size` bytes. Zeros become holes.
fn copy_bytes(source: &File, copy: &File, size: u64) -> rustix::io::Result<()> {
    disk::resize(copy, size)?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < size {
        buffer.resize(GROUP_BYTES.min(size - at) as usize, 0);
        disk::read_exact(source, &mut buffer, at).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if buffer != ZEROS[..buffer.len()] {
            write::write_fully(&mut [IoSlice::new(&buffer)], at, |bufs, at| disk::write(copy, bufs, at))?;
        }
        at += buffer.len() as u64;
    }
    Ok(())
}
