//! An open directory, and access to paths beneath it only.
//!
//! Paths are resolved relative to the open directory, by the kernel (`openat2`) or by an equally strict walk
//! (`disk::inside`). So no rename and no link can lead a path out of it, even during the operation. Making, renaming
//! and removing have no such resolution. They use the last component of the path, in a parent directory that was opened
//! that way.
//!
//! Data sets bring directories that this user owns and may not search or read. A landing may have to pass through them.
//! As their owner, the user lifts the permissions for the moment of one call.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::disk;

/// How symbolic links in a path are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// They are an error (`ELOOP`).
    Refuse,
    /// They are followed as long as they stay beneath the directory (else `EXDEV`).
    FollowInside,
}

/// The permissions that an owner needs to pass through a directory, to list it and to make something in it.
const OWNER_BITS: u32 = 0o700;

/// Held while permissions are lifted: otherwise two threads would restore each other's lifted ones.
static LIFTING: Mutex<()> = Mutex::new(());

/// A directory and what lies beneath it.
#[derive(Debug)]
pub(crate) struct Beneath {
    fd: OwnedFd,
    /// Whether this user's own directories are passed even without permission.
    by_owner: bool,
}

impl Beneath {
    /// Opens the directory at `path`, given by the user of this program: links in it are followed.
    pub(crate) fn at(path: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())?, by_owner: false })
    }

    /// The same, and this user's own directories are passed even without permission: for landings.
    pub(crate) fn by_owner(self) -> Self {
        Self { by_owner: true, ..self }
    }

    /// Opens `path` beneath the directory; the empty path is the directory itself.
    pub(crate) fn open(&self, path: &[u8], flags: OFlags, mode: Mode, links: Links) -> rustix::io::Result<OwnedFd> {
        match self.open_plainly(path, flags, mode, links) {
            Err(Errno::ACCESS) if self.by_owner && links == Links::Refuse => {
                self.open_lifting(path, flags, mode).unwrap_or(Err(Errno::ACCESS))
            }
            done => done,
        }
    }

    /// The same while the directories on the way are lifted; `None` if that cannot help.
    fn open_lifting(&self, path: &[u8], flags: OFlags, mode: Mode) -> Option<rustix::io::Result<OwnedFd>> {
        let _alone = LIFTING.lock().unwrap_or_else(PoisonError::into_inner);
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        let itself = Some(path).filter(|path| !path.is_empty() && flags.contains(OFlags::DIRECTORY));
        let mut lifted = Vec::new();
        for directory in std::iter::once(&b""[..]).chain(above).chain(itself) {
            // If it is missing, or another user's, the call below fails.
            let Ok(own) = self.own_plainly(directory) else { break };
            let is_directory = FileType::from_raw_mode(own.mode) == FileType::Directory;
            if is_directory && own.mode & OWNER_BITS != OWNER_BITS && own.permit(OWNER_BITS).is_ok() {
                lifted.push(own);
            }
        }
        let opened = (!lifted.is_empty()).then(|| self.open_plainly(path, flags, mode, Links::Refuse));
        for own in lifted.iter().rev() {
            // The caller owns it. If restoring fails, the owner can still do it later.
            let _ = own.restore();
        }
        opened
    }

    fn open_plainly(&self, path: &[u8], flags: OFlags, mode: Mode, links: Links) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == Links::Refuse {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        loop {
            match disk::open(&self.fd, path, flags | OFlags::CLOEXEC, mode, resolve) {
                // EAGAIN: because of a rename elsewhere, the kernel is not sure that the path stays beneath.
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return done,
            }
        }
    }

    /// Opens the file at `path` for reading. Never blocks, even if the file has been replaced by a pipe.
    pub(crate) fn open_for_reading(&self, path: &[u8], links: Links) -> rustix::io::Result<File> {
        self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty(), links).map(File::from)
    }

    /// Opens the file at `path` with `flags`. For its owner, missing permissions are lifted for a moment. Never blocks,
    /// and follows no link.
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

    /// This user's own file or directory at `path`, to change its permissions. An error if it belongs to another user.
    pub(crate) fn own(&self, path: &[u8]) -> rustix::io::Result<Own> {
        match self.own_plainly(path) {
            Err(Errno::ACCESS) if self.by_owner => {
                Own::of(self.open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse)?)
            }
            own => own,
        }
    }

    fn own_plainly(&self, path: &[u8]) -> rustix::io::Result<Own> {
        // Opening '.' passes through the directory, which may not be permitted.
        Own::of(match path {
            b"" => rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)?,
            path => self.open_plainly(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse)?,
        })
    }

    /// The device that the directory lies on.
    pub(crate) fn device(&self) -> Option<u64> {
        rustix::fs::fstat(&self.fd).ok().map(|stat| stat.st_dev)
    }

    /// Opens the directory at `path`.
    pub(crate) fn open_directory(&self, path: &[u8], links: Links) -> rustix::io::Result<Self> {
        let fd = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), links)?;
        Ok(Self { fd, by_owner: self.by_owner })
    }

    /// The stat of `path`. A link as last component is followed only by [`Links::FollowInside`].
    pub(crate) fn stat(&self, path: &[u8], links: Links) -> rustix::io::Result<Stat> {
        // With NOFOLLOW, O_PATH opens a last component that is a link; RESOLVE_NO_SYMLINKS lets it.
        let nofollow = if links == Links::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
        rustix::fs::fstat(self.open(path, OFlags::PATH | nofollow, Mode::empty(), links)?)
    }

    /// The parent directory of `path`, which is not empty, and the name in it.
    pub(crate) fn parent_of<'p>(&self, path: &'p [u8]) -> rustix::io::Result<(Self, &'p [u8])> {
        let (parent, name) = split(path);
        Ok((self.open_directory(parent, Links::Refuse)?, name))
    }

    /// The target of the symbolic link at `path`.
    pub(crate) fn read_link(&self, path: &[u8]) -> rustix::io::Result<Vec<u8>> {
        let (parent, name) = self.parent_of(path)?;
        match disk::read_link(&parent.fd, name) {
            // The directory itself may not be searched.
            Err(Errno::ACCESS) if self.by_owner => {
                let link = self.open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse)?;
                Ok(rustix::fs::readlinkat(link, "", Vec::new())?.into_bytes())
            }
            read => read,
        }
    }

    pub(crate) fn make_directory(&self, path: &[u8], mode: u32) -> rustix::io::Result<()> {
        let (parent, name) = self.parent_of(path)?;
        disk::make_directory(&parent.fd, name, Mode::from_raw_mode(mode))
    }

    pub(crate) fn remove_file(&self, path: &[u8]) -> rustix::io::Result<()> {
        let (parent, name) = self.parent_of(path)?;
        disk::remove(&parent.fd, name, AtFlags::empty())
    }

    /// Removes the directory at `path` if it is empty.
    pub(crate) fn remove_directory(&self, path: &[u8]) -> rustix::io::Result<()> {
        let (parent, name) = self.parent_of(path)?;
        disk::remove(&parent.fd, name, AtFlags::REMOVEDIR)
    }

    /// The descriptor of the directory, to keep.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The descriptor of the directory.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

/// A file or directory of this user, found but not opened: its permissions may forbid that.
#[derive(Debug)]
pub(crate) struct Own {
    found: OwnedFd,
    /// Its kind and permissions when it was found.
    pub(crate) mode: u32,
}

impl Own {
    /// The item, if it is this user's.
    fn of(found: OwnedFd) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(&found)?;
        let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if is_own && !is_link { Ok(Self { found, mode: stat.st_mode }) } else { Err(Errno::ACCESS) }
    }

    /// Permits `bits` in addition.
    pub(crate) fn permit(&self, bits: u32) -> rustix::io::Result<()> {
        self.set(self.mode | bits)
    }

    /// Restores the permissions of when it was found.
    pub(crate) fn restore(&self) -> rustix::io::Result<()> {
        self.set(self.mode)
    }

    fn set(&self, mode: u32) -> rustix::io::Result<()> {
        // `fchmod` fails on a descriptor that was not opened for reading. This path leads to the opened file itself,
        // even if another one has its name by now.
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
