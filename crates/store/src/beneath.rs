//! A directory held open, and access to what lies beneath it and nowhere else.
//!
//! Paths are resolved relative to the open directory, by the kernel (`openat2`) or by a walk that is as strict
//! (`disk::inside`). So no rename and no link can lead a path out of it, even during the operation. There is no such
//! resolution to make, rename and remove. These operations use the last component of the path, in a parent directory
//! that was opened that way.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::disk;

/// What happens to symbolic links in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// They are an error (`ELOOP`).
    Refuse,
    /// They are followed as long as they stay beneath the directory (else `EXDEV`).
    FollowInside,
}

/// A directory and what lies beneath it.
#[derive(Debug)]
pub(crate) struct Beneath(OwnedFd);

impl Beneath {
    /// Opens the directory at `path`, which the user of this program has named: links in it are followed.
    pub(crate) fn at(path: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens `path` beneath the directory; the empty path is the directory itself.
    pub(crate) fn open(&self, path: &[u8], flags: OFlags, mode: Mode, links: Links) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == Links::Refuse {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        loop {
            match disk::open(&self.0, path, flags | OFlags::CLOEXEC, mode, resolve) {
                // EAGAIN: a rename elsewhere kept the kernel from being sure that the path stays beneath.
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return done,
            }
        }
    }

    /// Opens the file at `path` for reading. Never blocks, even if the file has been replaced by a pipe.
    pub(crate) fn open_for_reading(&self, path: &[u8], links: Links) -> rustix::io::Result<File> {
        self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty(), links).map(File::from)
    }

    /// Opens the file at `path` for what the flags say. Its owner may, also where its permissions say otherwise: they
    /// are lifted for a moment. Never blocks, and follows no link.
    pub(crate) fn open_own(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let open = || self.open(path, flags, Mode::empty(), Links::Refuse).map(File::from);
        match open() {
            Err(Errno::ACCESS) => {
                let own = self.own(path)?;
                if FileType::from_raw_mode(own.mode) != FileType::RegularFile {
                    return Err(Errno::ACCESS);
                }
                own.permit(0o600)?;
                let opened = open();
                own.restore()?;
                opened
            }
            opened => opened,
        }
    }

    /// What this user has at `path`, to change its permissions. An error if it is somebody else's.
    pub(crate) fn own(&self, path: &[u8]) -> rustix::io::Result<Own> {
        let found = self.open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse)?;
        let stat = rustix::fs::fstat(&found)?;
        let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if is_own && !is_link { Ok(Own { found, mode: stat.st_mode }) } else { Err(Errno::ACCESS) }
    }

    /// Opens the directory at `path`.
    pub(crate) fn open_directory(&self, path: &[u8], links: Links) -> rustix::io::Result<Self> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), links).map(Self)
    }

    /// What is at `path`. A link as last component is followed only by [`Links::FollowInside`].
    pub(crate) fn stat(&self, path: &[u8], links: Links) -> rustix::io::Result<Stat> {
        // With NOFOLLOW, O_PATH opens a last component that is a link; RESOLVE_NO_SYMLINKS lets it.
        let nofollow = if links == Links::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
        rustix::fs::fstat(self.open(path, OFlags::PATH | nofollow, Mode::empty(), links)?)
    }

    /// The directory that `path`, which is not empty, lies in, and its name there.
    pub(crate) fn parent_of<'p>(&self, path: &'p [u8]) -> rustix::io::Result<(Self, &'p [u8])> {
        let (parent, name) = split(path);
        Ok((self.open_directory(parent, Links::Refuse)?, name))
    }

    /// The target of the symbolic link at `path`.
    pub(crate) fn read_link(&self, path: &[u8]) -> rustix::io::Result<Vec<u8>> {
        let (parent, name) = self.parent_of(path)?;
        disk::read_link(&parent.0, name)
    }

    pub(crate) fn make_directory(&self, path: &[u8], mode: u32) -> rustix::io::Result<()> {
        let (parent, name) = self.parent_of(path)?;
        disk::make_directory(&parent.0, name, Mode::from_raw_mode(mode))
    }

    pub(crate) fn remove_file(&self, path: &[u8]) -> rustix::io::Result<()> {
        let (parent, name) = self.parent_of(path)?;
        disk::remove(&parent.0, name, AtFlags::empty())
    }

    /// Removes the directory at `path` if it is empty.
    pub(crate) fn remove_directory(&self, path: &[u8]) -> rustix::io::Result<()> {
        let (parent, name) = self.parent_of(path)?;
        disk::remove(&parent.0, name, AtFlags::REMOVEDIR)
    }

    /// The descriptor of the directory.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

/// A file or directory of this user, found and not opened: its permissions may forbid that.
#[derive(Debug)]
pub(crate) struct Own {
    found: OwnedFd,
    /// Its kind and permissions, as they were found.
    pub(crate) mode: u32,
}

impl Own {
    /// Permits `bits` in addition.
    pub(crate) fn permit(&self, bits: u32) -> rustix::io::Result<()> {
        self.set(self.mode | bits)
    }

    /// Permits what was permitted when it was found.
    pub(crate) fn restore(&self) -> rustix::io::Result<()> {
        self.set(self.mode)
    }

    fn set(&self, mode: u32) -> rustix::io::Result<()> {
        // A descriptor that was not opened for reading takes no `fchmod`. This way leads to what it was opened on,
        // whatever has its name by now.
        let way = format!("/proc/self/fd/{}", self.found.as_raw_fd());
        rustix::fs::chmod(way, Mode::from_raw_mode(mode & 0o7777))
    }
}

/// The parent of a relative path (empty when it has none) and its last component.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}
