//! Symbolic and hard links: made last, so that nothing was ever written through one.

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::finish::rename_to_free_name;
use super::{Landing, LandingError, resume};
use crate::beneath::{Beneath, Links, split};
use crate::disk;
use crate::plan::{Existing, Fate};
use crate::{Kind, Manifest, Symlink};

impl Landing {
    /// Makes the links that land.
    pub(super) fn make_links(&self) -> Result<(), LandingError> {
        let manifest = &self.plan.manifest;
        for (link, &fate) in manifest.symlinks().iter().zip(&self.plan.symlinks).filter(|(_, fate)| fate.lands()) {
            self.make_symlink(link, fate)?;
        }
        for (link, &fate) in manifest.hard_links().iter().zip(&self.plan.hard_links).filter(|(_, fate)| fate.lands()) {
            let Some(file) = manifest.find(&link.file).filter(|&file| !self.is_given_up(file)) else { continue };
            self.make_hard_link(self.path(file), &link.path, fate)?;
        }
        Ok(())
    }

    /// Removes the links of `manifest` that an earlier transfer has made and not named: they are made anew if they are
    /// still to land.
    pub(super) fn remove_partial_links(&self, manifest: &Manifest) -> Result<(), LandingError> {
        if manifest.kind() != Kind::Directory || self.plan.manifest.kind() != Kind::Directory {
            return Ok(());
        }
        let symlinks = manifest.symlinks().iter().map(|link| &link.path);
        for path in symlinks.chain(manifest.hard_links().iter().map(|link| &link.path)) {
            let partial = resume::partial_beside(manifest, path);
            if !self.plan.manifest.has(&partial) {
                self.remove_left(&self.base, &partial)?;
            }
        }
        Ok(())
    }

    /// Removes the further names that an earlier transfer has given to file `index`, because it is written to again. They
    /// are made anew at the end.
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
                // Before anything is written to it: a power failure must not bring the name back.
                disk::sync_directory(parent.fd())?;
            }
        }
        Ok(())
    }

    fn make_symlink(&self, link: &Symlink, fate: Fate) -> Result<(), LandingError> {
        self.appear(&link.path, fate, |parent, name| {
            disk::symlink(&link.target, parent.fd(), name)?;
            self.set_link_metadata(parent, name, &link.path, &link.metadata);
            Ok(())
        })
    }

    fn make_hard_link(&self, file: &[u8], path: &[u8], fate: Fate) -> Result<(), LandingError> {
        let (home, home_name) = self.base.parent_of(file).map_err(|errno| self.link_error(path, errno))?;
        self.appear(path, fate, |parent, name| disk::link(home.fd(), home_name, parent.fd(), name))
    }

    /// Makes a link appear at `path` in one step. It replaces an existing file only if that is permitted. `make` makes
    /// the link under a partial name.
    fn appear(
        &self,
        path: &[u8],
        fate: Fate,
        make: impl Fn(&Beneath, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<(), LandingError> {
        let failed = |errno| self.link_error(path, errno);
        let (parent, name) = self.base.parent_of(path).map_err(failed)?;
        let whole = resume::partial_beside(&self.plan.manifest, path);
        let partial = split(&whole).1;
        match make(&parent, partial) {
            Err(Errno::EXIST) if self.options.existing == Existing::Replace => {
                disk::remove(parent.fd(), partial, AtFlags::empty()).map_err(failed)?;
                make(&parent, partial).map_err(failed)?;
            }
            // What an earlier transfer had left is gone by now.
            Err(Errno::EXIST) => return Err(LandingError::PartialExists { path: self.shown(&whole) }),
            made => made.map_err(failed)?,
        }
        let named = match fate {
            Fate::Replace => disk::rename(parent.fd(), partial, name),
            _ => rename_to_free_name(&parent, partial, name),
        };
        // Where both were names of one file already the rename does nothing; where it failed nothing may stay.
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
            _ => LandingError::from_errno("make the link", shown, errno),
        }
    }
}
