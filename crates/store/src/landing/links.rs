//! Symbolic and hard links: made last, so that nothing was ever written through one.

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::finish::rename_to_free_name;
use super::{Landing, LandingError, resume};
use crate::Symlink;
use crate::beneath::Beneath;
use crate::disk;
use crate::plan::Fate;

impl Landing {
    /// Makes the links that land.
    pub(super) fn make_links(&self) -> Result<(), LandingError> {
        let manifest = &self.plan.manifest;
        for (link, &fate) in manifest.symlinks().iter().zip(&self.plan.symlinks).filter(|(_, fate)| fate.lands()) {
            self.make_symlink(link, fate).map_err(|errno| self.link_error(&link.path, errno))?;
        }
        for (link, &fate) in manifest.hard_links().iter().zip(&self.plan.hard_links).filter(|(_, fate)| fate.lands()) {
            let Some(file) = manifest.find(&link.file).filter(|&file| !self.is_given_up(file)) else { continue };
            self.make_hard_link(self.path(file), &link.path, fate)
                .map_err(|errno| self.link_error(&link.path, errno))?;
        }
        Ok(())
    }

    fn make_symlink(&self, link: &Symlink, fate: Fate) -> rustix::io::Result<()> {
        self.appear(&link.path, fate, |parent, name| {
            disk::symlink(&link.target, parent.fd(), name)?;
            self.set_link_metadata(parent, name, &link.path, &link.metadata);
            Ok(())
        })
    }

    fn make_hard_link(&self, file: &[u8], path: &[u8], fate: Fate) -> rustix::io::Result<()> {
        let (home, home_name) = self.base.parent_of(file)?;
        self.appear(path, fate, |parent, name| disk::link(home.fd(), home_name, parent.fd(), name))
    }

    /// Makes a link appear at `path` in one step. It replaces an existing file only if that is permitted. `make` makes
    /// the link under a partial name.
    fn appear(
        &self,
        path: &[u8],
        fate: Fate,
        make: impl Fn(&Beneath, &[u8]) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        let (parent, name) = self.base.parent_of(path)?;
        let partial = resume::partial_beside(&self.plan.manifest, path);
        let partial = crate::beneath::split(&partial).1;
        match make(&parent, partial) {
            // Left by a transfer that was killed at this moment.
            Err(Errno::EXIST) => {
                disk::remove(parent.fd(), partial, AtFlags::empty())?;
                make(&parent, partial)?;
            }
            made => made?,
        }
        let named = match fate {
            Fate::Replace => disk::rename(parent.fd(), partial, name),
            _ => rename_to_free_name(&parent, partial, name),
        };
        // Where both were names of one file already the rename does nothing; where it failed nothing may stay.
        match disk::remove(parent.fd(), partial, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => named,
            Err(errno) => named.and(Err(errno)),
        }
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
