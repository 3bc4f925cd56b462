//! Finds the place that a user's destination means.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::LandingError;
use crate::beneath::{Beneath, Links};
use crate::{Kind, Manifest};

/// A name in an open directory: where the target file or directory is, or will be.
#[derive(Debug)]
pub(crate) struct Destination {
    directory: PathBuf,
    open: Beneath,
    name: Vec<u8>,
}

impl Destination {
    /// By the rules of `cp`: into `dest` if that is a directory, otherwise beside it, under its name.
    pub(crate) fn find(dest: &Path, manifest: &Manifest) -> Result<Self, LandingError> {
        if dest.is_dir() {
            return Self::open(dest, manifest.name());
        }
        let ends_in_slash = dest.as_os_str().as_bytes().ends_with(b"/");
        match (dest.parent(), dest.file_name()) {
            (Some(parent), Some(name)) if manifest.kind() == Kind::Directory || !ends_in_slash => {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                Self::open(parent, name.as_bytes())
            }
            _ => Err(LandingError::NoDirectory { path: dest.to_owned() }),
        }
    }

    fn open(directory: &Path, name: &[u8]) -> Result<Self, LandingError> {
        let path = directory.to_owned();
        match Beneath::at(directory) {
            Ok(open) => Ok(Self { directory: path, open, name: name.to_vec() }),
            Err(Errno::NOENT) => Err(LandingError::NoDirectory { path }),
            Err(Errno::NOTDIR) => Err(LandingError::NotADirectory { path }),
            Err(errno) => Err(LandingError::from_errno("open", path, errno)),
        }
    }

    /// The target, for people.
    pub(crate) fn target(&self) -> PathBuf {
        self.directory.join(OsStr::from_bytes(&self.name))
    }

    /// The target's name in its directory.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// How much a user may still write there, in bytes; `None` if the file system cannot say.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(self.open.fd()).ok()?;
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Checks that `needed` bytes fit.
    pub(crate) fn check_space(&self, needed: u64) -> Result<(), LandingError> {
        match self.free_bytes() {
            Some(free) if free < needed => Err(LandingError::NoSpace { path: self.target(), needed, free }),
            _ => Ok(()),
        }
    }

    /// The directory that the target lies in, once more.
    pub(crate) fn reopen(&self) -> Result<Beneath, LandingError> {
        self.open
            .open_directory(b"", Links::Refuse)
            .map_err(|errno| LandingError::from_errno("open", self.directory.clone(), errno))
    }

    /// Opens the target directory, if there is one.
    pub(crate) fn open_target(&self) -> Result<Option<Beneath>, LandingError> {
        match self.open.open_directory(&self.name, Links::Refuse) {
            Ok(opened) => Ok(Some(opened)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(LandingError::NotADirectory { path: self.target() }),
            Err(errno) => Err(LandingError::from_errno("open", self.target(), errno)),
        }
    }

    /// A path of a data set of `kind`, for people; the empty path is what paths are relative to.
    pub(crate) fn shown(&self, kind: Kind, path: &[u8]) -> PathBuf {
        let base = match kind {
            Kind::File => self.directory.clone(),
            Kind::Directory => self.target(),
        };
        if path.is_empty() { base } else { base.join(OsStr::from_bytes(path)) }
    }

    /// Makes the target directory unless it is there, opens it, and says whether it was made.
    pub(crate) fn make_directory(&self) -> Result<(Beneath, bool), LandingError> {
        let failed = |action, errno| LandingError::from_errno(action, self.target(), errno);
        let made = match self.open.stat(&self.name, Links::Refuse) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => false,
            Ok(_) => return Err(LandingError::NotADirectory { path: self.target() }),
            Err(Errno::NOENT) => {
                self.open.make_directory(&self.name, 0o777).map_err(|errno| failed("make", errno))?;
                true
            }
            Err(errno) => return Err(failed("look for", errno)),
        };
        let opened = self.open.open_directory(&self.name, Links::Refuse);
        if made && opened.is_err() {
            self.remove_directory();
        }
        Ok((opened.map_err(|errno| failed("open", errno))?, made))
    }

    /// Removes the target directory if it is empty.
    pub(crate) fn remove_directory(&self) {
        let _ = self.open.remove_directory(&self.name);
    }

    /// Makes the target's name last.
    pub(crate) fn sync(&self) -> rustix::io::Result<()> {
        super::finish::sync_directory(&self.open)
    }
}
