//! Opens paths inside a directory: by the kernel if possible, or else one component after another.
//!
//! `openat2` resolves a path and never leaves the directory (since Linux 5.6). System call filters refuse it: systemd's
//! `RestrictSUIDSGID=`, which `DynamicUser=` implies, answers `ENOSYS`, others `EPERM`. Then [`walk()`] does the same
//! with `openat`:
//!
//! - Each component is opened in the previous directory, with `O_NOFOLLOW`. So the kernel never follows a link.
//! - Links are read, and their targets are walked like the path itself; absolute ones lead outside. A magic link of
//!   `/proc` is read like any other. Its text leads outside, or to a missing name.
//! - The kernel never sees `..`. It takes the last name from the names so far, and these are walked anew from the
//!   directory. So a directory that is moved away meanwhile leads nowhere else.
//!
//! Other crates do not fit: `cap-primitives` follows either every link or only those before the last component,
//! `pathrs` resolves as if the directory were the root, and is not under our licences.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

/// Most links to follow for one path: the kernel's limit.
const LINKS_MAX: usize = 40;
/// Most components to open for one path. A path has 2,048 at most; more come only from links.
const STEPS_MAX: usize = 10_000;
/// The kernel's limit for a path, including its zero byte.
const PATH_BYTES_MAX: usize = 4096;

/// Tries of `openat2` while other programs rename files.
const TRIES: usize = 8;

/// Whether this process has `openat2`.
static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const THERE: u8 = 1;
const REFUSED: u8 = 2;

/// Opens `path` inside `directory`. `resolve` has `BENEATH` and `NO_MAGICLINKS`, and may have `NO_SYMLINKS`.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd> {
    let walk = || walk(directory, path, flags, mode, !resolve.contains(ResolveFlags::NO_SYMLINKS));
    if is_refused() {
        return walk();
    }
    for _ in 0..TRIES {
        match rustix::fs::openat2(directory, path, flags, mode, resolve) {
            // A file was renamed while the kernel resolved `..`, so it cannot tell where that led.
            Err(Errno::AGAIN) => {}
            // This is a file system's answer, or that of a filter installed later.
            Err(Errno::NOSYS | Errno::PERM) if look() == REFUSED => break,
            done => return done,
        }
    }
    walk()
}

/// Whether this process lacks `openat2`.
pub(crate) fn is_refused() -> bool {
    let known = KNOWN.load(Ordering::Relaxed);
    (if known == UNKNOWN { look() } else { known }) == REFUSED
}

/// Asks the kernel without a file system: it rejects an unknown flag first.
fn look() -> u8 {
    let no_such_flag = ResolveFlags::from_bits_retain(1 << 63);
    let asked = rustix::fs::openat2(CWD, ".", OFlags::PATH, Mode::empty(), no_such_flag);
    let found = if matches!(asked, Err(Errno::INVAL)) { THERE } else { REFUSED };
    KNOWN.store(found, Ordering::Relaxed);
    found
}

/// Opens `path` inside `directory` without `openat2`.
pub(super) fn walk(
    directory: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    follows_links: bool,
) -> Result<OwnedFd> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    let mut walk = Walk {
        directory,
        names: Vec::new(),
        here: None,
        rest: Vec::new(),
        flags,
        mode,
        follows_links,
        links: 0,
        steps: 0,
    };
    walk.prepend(path)?;
    walk.finish()
}

/// A path that is being walked.
struct Walk<'a> {
    directory: BorrowedFd<'a>,
    /// The names from the directory to the current position. None of them is a link.
    names: Vec<Vec<u8>>,
    /// The current directory. `None`: the start itself if there are no names, or else to be opened by the names.
    here: Option<OwnedFd>,
    /// Remaining components, the next one last.
    rest: Vec<Vec<u8>>,
    flags: OFlags,
    mode: Mode,
    follows_links: bool,
    links: usize,
    steps: usize,
}

impl Walk<'_> {
    /// Puts a path in front of the remaining components.
    fn prepend(&mut self, path: &[u8]) -> Result<()> {
        match path {
            [b'/', ..] => return Err(Errno::XDEV),
            _ if path.len() >= PATH_BYTES_MAX => return Err(Errno::NAMETOOLONG),
            _ => {}
        }
        // A trailing slash requires a directory, like a trailing dot.
        let end: Option<&[u8]> = path.ends_with(b"/").then_some(b".");
        let components = path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()).chain(end);
        let before = self.rest.len();
        self.rest.extend(components.map(<[u8]>::to_vec));
        self.rest[before..].reverse();
        Ok(())
    }

    fn finish(mut self) -> Result<OwnedFd> {
        while let Some(name) = self.rest.pop() {
            match name.as_slice() {
                b"." => {}
                b".." => {
                    self.names.pop().ok_or(Errno::XDEV)?;
                    self.here = None;
                }
                _ if self.rest.is_empty() => {
                    if let Some(opened) = self.open_last(&name)? {
                        return Ok(opened);
                    }
                }
                _ => self.enter(name)?,
            }
        }
        let (flags, mode) = (self.flags, self.mode);
        rustix::fs::openat(self.here()?, ".", flags, mode)
    }

    /// The current directory, opened.
    fn here(&mut self) -> Result<BorrowedFd<'_>> {
        if self.here.is_none() {
            for at in 0..self.names.len() {
                self.take_step()?;
                let from = self.here.as_ref().map_or(self.directory, AsFd::as_fd);
                // A link that was none before is an error.
                self.here = Some(open_directory(from, &self.names[at])?);
            }
        }
        Ok(self.here.as_ref().map_or(self.directory, AsFd::as_fd))
    }

    fn take_step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(Errno::LOOP) } else { Ok(()) }
    }

    /// Goes into the directory `name`, or on to where the link of that name leads.
    fn enter(&mut self, name: Vec<u8>) -> Result<()> {
        self.take_step()?;
        match open_directory(self.here()?, &name) {
            Ok(directory) => {
                self.here = Some(directory);
                self.names.push(name);
                Ok(())
            }
            Err(errno @ (Errno::NOTDIR | Errno::LOOP)) => self.follow(&name, errno),
            Err(errno) => Err(errno),
        }
    }

    /// Opens the last component; `None`: it is a link, and there are further components.
    fn open_last(&mut self, name: &[u8]) -> Result<Option<OwnedFd>> {
        self.take_step()?;
        let (flags, mode) = (self.flags, self.mode);
        let takes_links = flags.contains(OFlags::NOFOLLOW);
        let opened = rustix::fs::openat(self.here()?, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode);
        match opened {
            Ok(opened) if flags.contains(OFlags::PATH) && !takes_links && is_link(&opened)? => {
                self.follow(name, Errno::LOOP)?;
                Ok(None)
            }
            Err(errno @ (Errno::NOTDIR | Errno::LOOP)) if !takes_links => {
                self.follow(name, errno)?;
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    /// Continues at the target of the link `name`. If it is no link, fails with `errno`.
    fn follow(&mut self, name: &[u8], errno: Errno) -> Result<()> {
        let target = match rustix::fs::readlinkat(self.here()?, name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(Errno::INVAL) => return Err(errno),
            Err(errno) => return Err(errno),
        };
        self.links += 1;
        if !self.follows_links || self.links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        self.prepend(&target)
    }
}

/// Opens the directory `name` in `parent` for walking on; links are an error.
fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

fn is_link(opened: &OwnedFd) -> Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests;
