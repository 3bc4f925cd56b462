//! The operations by which a landing and its journal change or read a disk.
//!
//! All of them go through here, so that a test can intercept them: `disk::faulty` (built for tests only) makes
//! operations fail, and computes the possible content of a disk after a power failure. In the program each function is
//! the system call.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Timestamps};
use rustix::io::{Errno, Result};

#[cfg(test)]
pub(crate) mod faulty;
#[cfg(test)]
pub(crate) mod foreign;
mod inside;
#[cfg(test)]
pub(crate) use inside::is_refused as is_openat2_refused;

/// An operation that changes or reads a disk.
#[cfg_attr(not(test), allow(dead_code, reason = "only the faulty disk of the tests looks at it"))]
#[derive(Clone, Copy)]
pub(crate) enum Operation<'a> {
    Read,
    Write { file: BorrowedFd<'a>, bufs: &'a [IoSlice<'a>], at: u64 },
    Resize { file: BorrowedFd<'a>, len: u64 },
    Punch { file: BorrowedFd<'a>, at: u64, len: u64 },
    SetAttributes { of: BorrowedFd<'a> },
    Sync { of: BorrowedFd<'a> },
    SyncAll,
    Create { directory: BorrowedFd<'a>, path: &'a [u8] },
    MakeDirectory { parent: BorrowedFd<'a>, name: &'a [u8] },
    Symlink { target: &'a [u8], parent: BorrowedFd<'a>, name: &'a [u8] },
    Link { from: BorrowedFd<'a>, from_name: &'a [u8], to: BorrowedFd<'a>, to_name: &'a [u8] },
    Rename { parent: BorrowedFd<'a>, from: &'a [u8], to: &'a [u8] },
    Remove { parent: BorrowedFd<'a>, name: &'a [u8] },
}

#[cfg(not(test))]
fn carry_out<T>(_: Operation<'_>, real: impl FnOnce() -> Result<T>) -> Result<T> {
    real()
}

#[cfg(test)]
use faulty::carry_out;

/// Reads `buf.len()` bytes of `file` from `at` on.
pub(crate) fn read_exact(file: &File, buf: &mut [u8], at: u64) -> std::io::Result<()> {
    carry_out(Operation::Read, || Ok(()))?;
    file.read_exact_at(buf, at)
}

/// Writes some of `bufs` to `file` from `at` on (`pwritev`), and returns how many bytes.
pub(crate) fn write(file: &File, bufs: &[IoSlice<'_>], at: u64) -> Result<usize> {
    #[cfg(test)]
    let cut = faulty::cut_short(bufs);
    #[cfg(test)]
    let cut = cut.as_ref().map(|bytes| [IoSlice::new(bytes)]);
    #[cfg(test)]
    let bufs = cut.as_ref().map_or(bufs, |cut| cut.as_slice());
    carry_out(Operation::Write { file: file.as_fd(), bufs, at }, || rustix::io::pwritev(file, bufs, at))
}

/// Cuts `file` to `len` bytes, or extends it by a hole.
pub(crate) fn resize(file: impl AsFd, len: u64) -> Result<()> {
    let file = file.as_fd();
    carry_out(Operation::Resize { file, len }, || rustix::fs::ftruncate(file, len))
}

/// Makes `len` bytes of `file` from `at` on a hole.
pub(crate) fn punch(file: &File, at: u64, len: u64) -> Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    carry_out(Operation::Punch { file: file.as_fd(), at, len }, || rustix::fs::fallocate(file, flags, at, len))
}

/// Sets the permissions of the open file or directory `of`.
pub(crate) fn set_permissions(of: impl AsFd, mode: Mode) -> Result<()> {
    let of = of.as_fd();
    #[cfg(test)]
    foreign::may_set_permissions()?;
    carry_out(Operation::SetAttributes { of }, || rustix::fs::fchmod(of, mode))
}

/// Sets the times of the open file or directory `of`.
pub(crate) fn set_times(of: impl AsFd, times: &Timestamps) -> Result<()> {
    let of = of.as_fd();
    #[cfg(test)]
    let times = &foreign::kept(times);
    carry_out(Operation::SetAttributes { of }, || rustix::fs::futimens(of, times))
}

/// Syncs a file's bytes, and the metadata needed to find them. Not its name.
pub(crate) fn sync_bytes(file: impl AsFd) -> Result<()> {
    let of = file.as_fd();
    carry_out(Operation::Sync { of }, || rustix::fs::fdatasync(of))
}

/// Syncs a file's bytes, times and permissions. Not its name.
pub(crate) fn sync_file(file: impl AsFd) -> Result<()> {
    let of = file.as_fd();
    carry_out(Operation::Sync { of }, || rustix::fs::fsync(of))
}

/// Syncs the names in a directory.
pub(crate) fn sync_directory(directory: impl AsFd) -> Result<()> {
    let of = directory.as_fd();
    match carry_out(Operation::Sync { of }, || rustix::fs::fsync(of)) {
        // Some file systems have nothing to sync in a directory.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}

/// Syncs the file system of the open file `any`. Before Linux 5.8 this did not report that bytes of files could not be
/// written.
pub(crate) fn sync_all(any: impl AsFd) -> Result<()> {
    carry_out(Operation::SyncAll, || rustix::fs::syncfs(any))
}

/// Opens `path` inside `directory`: see [`inside`].
pub(crate) fn open(
    directory: impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd> {
    let directory = directory.as_fd();
    #[cfg(test)]
    let path = &*foreign::path(directory, path, flags)?;
    let open = || inside::open(directory, path, flags, mode, resolve);
    if flags.contains(OFlags::CREATE) { carry_out(Operation::Create { directory, path }, open) } else { open() }
}

/// Makes the directory `name` in `parent`.
pub(crate) fn make_directory(parent: impl AsFd, name: &[u8], mode: Mode) -> Result<()> {
    let parent = parent.as_fd();
    #[cfg(test)]
    let name = &*foreign::name(parent, name)?;
    carry_out(Operation::MakeDirectory { parent, name }, || rustix::fs::mkdirat(parent, name, mode))
}

/// Makes the symbolic link `name` in `parent`.
pub(crate) fn symlink(target: &[u8], parent: impl AsFd, name: &[u8]) -> Result<()> {
    let parent = parent.as_fd();
    #[cfg(test)]
    let name = &*foreign::symlink_name(parent, name)?;
    carry_out(Operation::Symlink { target, parent, name }, || rustix::fs::symlinkat(target, parent, name))
}

/// Gives the file `from_name` in `from` the further name `to_name` in `to`.
pub(crate) fn link(from: impl AsFd, from_name: &[u8], to: impl AsFd, to_name: &[u8]) -> Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    #[cfg(test)]
    let (from_name, to_name) = (&*foreign::found_as(from, from_name), &*foreign::hard_link_name(to, to_name)?);
    let real = || rustix::fs::linkat(from, from_name, to, to_name, AtFlags::empty());
    carry_out(Operation::Link { from, from_name, to, to_name }, real)
}

/// The stat of `name` in `parent`, not following a link.
pub(crate) fn look_at(parent: impl AsFd, name: &[u8]) -> Result<Stat> {
    #[cfg(test)]
    let name = &*foreign::found_as(parent.as_fd(), name);
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The target of the symbolic link called `name` in `parent`.
pub(crate) fn read_link(parent: impl AsFd, name: &[u8]) -> Result<Vec<u8>> {
    #[cfg(test)]
    let name = &*foreign::found_as(parent.as_fd(), name);
    rustix::fs::readlinkat(parent, name, Vec::new()).map(std::ffi::CString::into_bytes)
}

/// Renames `from` to `to` in one directory, replacing `to`.
pub(crate) fn rename(parent: impl AsFd, from: &[u8], to: &[u8]) -> Result<()> {
    let parent = parent.as_fd();
    #[cfg(test)]
    let (from, to) = (&*foreign::found_as(parent, from), &*foreign::name(parent, to)?);
    carry_out(Operation::Rename { parent, from, to }, || rustix::fs::renameat(parent, from, parent, to))
}

/// Renames `from` to `to` in one directory; an error if `to` exists.
pub(crate) fn rename_to_free_name(parent: impl AsFd, from: &[u8], to: &[u8]) -> Result<()> {
    let parent = parent.as_fd();
    #[cfg(test)]
    let (from, to) = (&*foreign::found_as(parent, from), &*foreign::name(parent, to)?);
    let real = || rustix::fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE);
    carry_out(Operation::Rename { parent, from, to }, real)
}

/// Removes `name` from `parent`.
pub(crate) fn remove(parent: impl AsFd, name: &[u8], flags: AtFlags) -> Result<()> {
    let parent = parent.as_fd();
    #[cfg(test)]
    let name = &*foreign::found_as(parent, name);
    carry_out(Operation::Remove { parent, name }, || rustix::fs::unlinkat(parent, name, flags))
}
