//! Resolves a user's destination to a place in the file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::Kind;
use crate::beneath::{Beneath, Links, split};
use crate::disk;
use crate::journal::Journal;
use crate::landing_error::LandingError;
use crate::manifest::check_component;
use crate::partial;

/// Where a data set is to land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// The data set becomes this path, given by the user. Links in the path are followed.
    As(PathBuf),
    /// The data set lands beneath a directory. No component of the path there may be a symbolic link.
    Beneath {
        /// A directory given by the user.
        root: PathBuf,
        /// Path of the target beneath it, with `/` between its components. Empty: the data set's items go directly into
        /// `root`.
        path: Vec<u8>,
    },
}

/// The name if the target is the directory itself.
const ITSELF: &[u8] = b".";

/// A name in an open directory: the present or future place of the target.
#[derive(Debug)]
pub(crate) struct Destination {
    directory: PathBuf,
    open: Beneath,
    name: Vec<u8>,
    /// Whether the user gave this path as the target itself.
    is_named: bool,
}

impl Destination {
    pub(crate) fn find(site: &Site, kind: Kind) -> Result<Self, LandingError> {
        match site {
            Site::As(dest) => Self::named(dest, kind),
            Site::Beneath { root, path } => {
                check_path(root, path)?;
                Self::open(root, ITSELF)?.beneath(path, kind)
            }
        }
    }

    /// The target at `path` beneath this directory.
    pub(crate) fn beneath(self, path: &[u8], kind: Kind) -> Result<Self, LandingError> {
        check_path(&self.directory, path)?;
        if path.is_empty() {
            let no_name = || LandingError::NoDirectory { path: self.directory.clone() };
            return if kind == Kind::Directory { Ok(self) } else { Err(no_name()) };
        }
        let (parent, name) = split(path);
        let directory = match parent {
            b"" => self.directory,
            parent => self.directory.join(OsStr::from_bytes(parent)),
        };
        match self.open.open_directory(parent, Links::Refuse) {
            Ok(open) => Ok(Self { directory, open, name: name.to_vec(), is_named: false }),
            Err(Errno::NOENT) => Err(LandingError::NoDirectory { path: directory }),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(LandingError::NotADirectory { path: directory }),
            Err(errno) => Err(LandingError::from_errno("open", directory, errno)),
        }
    }

    fn named(dest: &Path, kind: Kind) -> Result<Self, LandingError> {
        if dest.is_dir() {
            if kind == Kind::File {
                return Err(LandingError::NeedsSlash { path: dest.to_owned() });
            }
            if dest.is_symlink()
                && let Ok(led_to) = dest.canonicalize()
            {
                return Self::named(&led_to, kind);
            }
        }
        match (dest.parent(), dest.file_name()) {
            (Some(parent), Some(name)) => {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                Ok(Self { is_named: true, ..Self::open(parent, name.as_bytes())? })
            }
            _ => Err(LandingError::NoDirectory { path: dest.to_owned() }),
        }
    }

    /// The directory `open` itself. Messages call it `directory`.
    pub(crate) fn itself(directory: PathBuf, open: Beneath) -> Self {
        Self { directory, open: open.by_owner(), name: ITSELF.to_vec(), is_named: false }
    }

    /// The target `name` in the directory `open`, given by the user.
    pub(crate) fn named_in(directory: PathBuf, open: Beneath, name: &[u8]) -> Self {
        Self { directory, open: open.by_owner(), name: name.to_vec(), is_named: true }
    }

    /// Whether the user gave this path as the target itself, rather than a directory to land in.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    fn open(directory: &Path, name: &[u8]) -> Result<Self, LandingError> {
        let path = directory.to_owned();
        match Beneath::at(directory) {
            Ok(open) => Ok(Self { directory: path, open: open.by_owner(), name: name.to_vec(), is_named: false }),
            Err(Errno::NOENT) => Err(LandingError::NoDirectory { path }),
            Err(Errno::NOTDIR) => Err(LandingError::NotADirectory { path }),
            Err(errno) => Err(LandingError::from_errno("open", path, errno)),
        }
    }

    /// The target, for people.
    pub(crate) fn target(&self) -> PathBuf {
        if self.name == ITSELF { self.directory.clone() } else { self.directory.join(OsStr::from_bytes(&self.name)) }
    }

    /// The target's name in its directory; `.` when it is that directory itself.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name of the journal, which lies in the same directory.
    pub(crate) fn journal_name(&self) -> Vec<u8> {
        partial::journal_name(&self.name)
    }

    /// The path of the journal, for people.
    pub(crate) fn journal_path(&self) -> PathBuf {
        self.shown(Kind::File, &self.journal_name())
    }

    /// Whether another process is landing something there: it holds the journal's lock.
    pub(crate) fn is_busy(&self) -> bool {
        self.reopen().is_ok_and(|directory| Journal::is_locked(&directory, &self.journal_name()))
    }

    /// The free bytes for this user; `None` if the file system does not tell.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        // An existing target may be a mount point.
        let stat = rustix::fs::fstatvfs(self.nearest().ok()?.fd()).ok()?;
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Checks that `needed` bytes fit.
    pub(crate) fn check_space(&self, needed: u64) -> Result<(), LandingError> {
        match self.free_bytes() {
            Some(free) if free < needed => Err(LandingError::NoSpace { path: self.target(), needed, free }),
            _ => Ok(()),
        }
    }

    /// Checks that the file system and the user's limits allow files of `size` bytes, with an unnamed file. Without
    /// support for unnamed files, the error comes when the file is made.
    pub(crate) fn check_file_size(&self, path: PathBuf, size: u64) -> Result<(), LandingError> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let Ok(trial) = rustix::fs::openat(self.open.fd(), ".", flags, Mode::from_raw_mode(0o600)) else {
            return Ok(());
        };
        match rustix::fs::ftruncate(&trial, size) {
            Err(Errno::FBIG | Errno::INVAL) => Err(LandingError::FileTooLarge { path, size }),
            _ => Ok(()),
        }
    }

    /// Opens the target's parent directory again.
    pub(crate) fn reopen(&self) -> Result<Beneath, LandingError> {
        self.open
            .open_directory(b"", Links::Refuse)
            .map_err(|errno| LandingError::from_errno("open", self.directory.clone(), errno))
    }

    /// The target if it is a directory, or else its parent.
    pub(crate) fn nearest(&self) -> Result<Beneath, LandingError> {
        self.open_target().ok().flatten().map_or_else(|| self.reopen(), Ok)
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

    /// A path of a data set of `kind`, for people. The empty path is the base of all paths.
    pub(crate) fn shown(&self, kind: Kind, path: &[u8]) -> PathBuf {
        let base = match kind {
            Kind::File => self.directory.clone(),
            Kind::Directory => self.target(),
        };
        if path.is_empty() { base } else { base.join(OsStr::from_bytes(path)) }
    }

    /// Makes the target directory unless it exists, opens it, and returns whether it was made.
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
            // If it cannot be removed, it stays.
            let _ = self.remove_directory();
        }
        Ok((opened.map_err(|errno| failed("open", errno))?, made))
    }

    /// Removes the target directory if it is empty.
    pub(crate) fn remove_directory(&self) -> rustix::io::Result<()> {
        self.open.remove_directory(&self.name)
    }

    /// Syncs the target's name to the disk.
    pub(crate) fn sync(&self) -> rustix::io::Result<()> {
        disk::sync_directory(self.open.fd())
    }
}

/// Makes the parent directories of a target at `path` beneath `root`, and returns the new ones, parents first.
///
/// When one cannot be made, when the path goes through a link, or when a component is not a valid name.
pub fn make_parents(root: &Path, path: &[u8]) -> Result<Vec<PathBuf>, LandingError> {
    check_path(root, path)?;
    let top = Beneath::at(root).map_err(|errno| LandingError::from_errno("open", root.to_owned(), errno))?;
    let mut made = Vec::new();
    for slash in path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
        let shown = root.join(OsStr::from_bytes(&path[..slash]));
        match top.make_directory(&path[..slash], 0o777) {
            Ok(()) => {
                let parent = top.parent_of(&path[..slash]).and_then(|(parent, _)| disk::sync_directory(parent.fd()));
                made.push(shown.clone());
                parent.map_err(|errno| LandingError::from_errno("sync", shown, errno))?;
            }
            Err(Errno::EXIST) => {}
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(LandingError::NotADirectory { path: shown }),
            Err(errno) => return Err(LandingError::from_errno("make", shown, errno)),
        }
    }
    Ok(made)
}

/// Checks that `path`, chosen by a client, stays beneath `root`.
fn check_path(root: &Path, path: &[u8]) -> Result<(), LandingError> {
    let is_sound = path.is_empty() || path.split(|&b| b == b'/').all(|name| check_component(name, path).is_ok());
    if is_sound { Ok(()) } else { Err(LandingError::NoDirectory { path: root.join(OsStr::from_bytes(path)) }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::{Contents, Entry, Existing, Landing, LandingOptions, Manifest, Plan};
    use std::sync::Arc;

    fn manifest(kind: Kind) -> Arc<Manifest> {
        let file = Entry { path: b"f".to_vec(), size: 1, ..Entry::default() };
        let name = if kind == Kind::File { b"f".to_vec() } else { b"set".to_vec() };
        Arc::new(Manifest::new(name, kind, Contents { files: vec![file], ..Contents::default() }).unwrap())
    }

    fn land(root: &Path, path: &[u8], kind: Kind) -> Result<Landing, LandingError> {
        let site = Site::Beneath { root: root.to_owned(), path: path.to_vec() };
        let plan = Plan::new(&site, manifest(kind), &Filter::default(), Existing::Keep)?;
        Landing::carry_out(plan, LandingOptions { existing: Existing::Keep, ..LandingOptions::default() })
    }

    #[test]
    fn site_beneath_takes_the_name_that_is_given() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(make_parents(dir.path(), b"x/y/g").unwrap(), [dir.path().join("x"), dir.path().join("x/y")]);
        assert!(make_parents(dir.path(), b"x/y/g").unwrap().is_empty());
        for (path, kind, lands) in [
            (&b"x/y/g"[..], Kind::File, "x/y/g"),
            (b"x/tree", Kind::Directory, "x/tree/f"),
            (b"", Kind::Directory, "f"),
        ] {
            let landing = land(dir.path(), path, kind).unwrap();
            landing.write(0, &[std::io::IoSlice::new(b"z")]).unwrap();
            landing.finish_file(0).unwrap();
            landing.finish().unwrap();
            landing.conclude();
            assert_eq!(std::fs::read(dir.path().join(lands)).unwrap(), b"z");
        }
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn site_beneath_is_left_by_no_path() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), dir.path().join("way")).unwrap();
        for path in [&b"../f"[..], b"/f", b"way/f", b"way/deep/f", b"a//f", b"a\0"] {
            let made = make_parents(dir.path(), path);
            let landed = land(dir.path(), path, Kind::File);
            assert!(landed.is_err(), "{made:?} {}", path.escape_ascii());
        }
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(land(dir.path(), b"", Kind::File).is_err());
    }
}
