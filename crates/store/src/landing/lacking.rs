//! What file systems say that have no links.

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;

use crate::Symlink;
use crate::beneath::Beneath;
use crate::disk;
use crate::file_system::FileSystem;

/// Whether the file system says by `errno` that it does not make a link in `parent`. There are many ways to say it, and
/// most of them mean other things if this user may not write there.
pub(super) fn is_lacking(parent: &Beneath, errno: Errno) -> bool {
    let may_mean_it = matches!(
        errno,
        Errno::PERM
            | Errno::NOSYS
            | Errno::NOTSUP
            | Errno::INVAL
            | Errno::ACCESS
            | Errno::ROFS
            | Errno::PROTO
            | Errno::MLINK
            | Errno::XDEV
            | Errno::NAMETOOLONG
    );
    let may_write = || rustix::fs::accessat(parent.fd(), ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty());
    may_mean_it && may_write().is_ok()
}

/// Whether the file system beneath `base` is one that does not make `link`. It is tried, if that is permitted: for a
/// moment the link is there, under the name `partial`.
pub(super) fn lacks(base: &Beneath, link: &Symlink, partial: &[u8], may_try: bool) -> bool {
    let Ok((parent, _)) = base.parent_of(&link.path) else { return false };
    if FileSystem::of(parent.fd()).lacks_links() {
        return true;
    }
    if !may_try {
        return false;
    }
    match disk::symlink(&link.target, parent.fd(), partial) {
        Ok(()) => {
            // What cannot be removed stays: no transfer has begun that could say so.
            let _ = disk::remove(parent.fd(), partial, AtFlags::empty());
            false
        }
        Err(errno) => is_lacking(&parent, errno),
    }
}
