//! Sets permissions, times, owners and attributes of files. If a file system or a user cannot set them, the landing
//! records that for a warning, and the data still lands.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};

use super::Landing;
use super::notes::Aspect;
use crate::beneath::Beneath;
use crate::disk;
use crate::manifest::MODE_BITS;
use crate::{Metadata, Owner, Timestamp};

impl Landing {
    /// Sets permissions, times, and the requested metadata of the open file `fd`, which lands at `path`.
    pub(super) fn set_metadata(&self, fd: impl AsFd, path: &[u8], metadata: &Metadata) {
        if self.options.attributes {
            for attribute in &metadata.attributes {
                let set = rustix::fs::fsetxattr(&fd, &*attribute.name, &attribute.value, XattrFlags::empty());
                self.note(Aspect::Attribute, path, set);
            }
        }
        // In this order: a change of owner clears permissions.
        if let Some((user, group)) = self.owner(metadata.owner) {
            self.note(Aspect::Owner, path, rustix::fs::fchown(&fd, Some(user), Some(group)));
        }
        let is_set = rustix::fs::fstat(&fd).is_ok_and(|stat| stat.st_mode & 0o7777 == metadata.mode & MODE_BITS);
        if !is_set {
            self.note(
                Aspect::Permissions,
                path,
                disk::set_permissions(&fd, Mode::from_raw_mode(metadata.mode & MODE_BITS)),
            );
        }
        self.set_modified(fd, path, metadata.modified);
    }

    /// Sets the modification time of the open file `fd`.
    pub(super) fn set_modified(&self, fd: impl AsFd, path: &[u8], modified: Timestamp) {
        self.note(Aspect::Time, path, disk::set_times(fd, &times(modified)));
    }

    /// Sets the metadata of the symbolic link `name` in `parent`.
    pub(super) fn set_link_metadata(&self, parent: &Beneath, name: &[u8], path: &[u8], metadata: &Metadata) {
        if let Some((user, group)) = self.owner(metadata.owner) {
            let set = rustix::fs::chownat(parent.fd(), name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
            self.note(Aspect::Owner, path, set);
        }
        let set = rustix::fs::utimensat(parent.fd(), name, &times(metadata.modified), AtFlags::SYMLINK_NOFOLLOW);
        self.note(Aspect::Time, path, set);
    }

    fn owner(&self, owner: Option<Owner>) -> Option<(Uid, Gid)> {
        let owner = owner.filter(|_| self.options.owner)?;
        Some((Uid::from_raw(owner.user), Gid::from_raw(owner.group)))
    }

    pub(super) fn note(&self, aspect: Aspect, path: &[u8], done: rustix::io::Result<()>) {
        if let Err(errno) = done {
            self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(aspect, path, errno);
        }
    }
}

fn times(modified: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() },
    }
}
