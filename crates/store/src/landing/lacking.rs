//! The errors of file systems without links.

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;

use crate::Symlink;
use crate::beneath::Beneath;
use crate::disk;
use crate::file_system::FileSystem;

/// Whether `errno` means that the file system does not make a link in `parent`. Many errors can mean it, and most of
/// them mean something else if this user may not write there.
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

/// Whether the file system beneath `base` does not make `link`. With permission, it is tried: for a moment the link
/// exists under the name `partial`.
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
            // If it cannot be removed, it stays: no transfer has begun that could report it.
            let _ = disk::remove(parent.fd(), partial, AtFlags::empty());
            false
        }
        Err(errno) => is_lacking(&parent, errno),
    }
}
