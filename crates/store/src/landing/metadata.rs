//! Sets permissions, times, owners and attributes of files. If a file system or a user cannot set them, the landing
//! records that for a warning, and the data still lands.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use super::Landing;
use crate::beneath::Beneath;
use crate::disk;
use crate::manifest::MODE_BITS;
use crate::{Metadata, Owner, Timestamp, printable};

/// What could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aspect {
    Owner,
    Permissions,
    Time,
    Attribute,
    /// A symbolic link that was left out.
    SymbolicLink,
    /// A further name of a file that became a copy.
    HardLink,
}

/// A property that could not be kept, the first file that lacks it, and the number of such files.
#[derive(Debug, Default)]
pub(super) struct Notes(BTreeMap<Aspect, Note>);

#[derive(Debug)]
struct Note {
    first: Vec<u8>,
    errno: Errno,
    count: u64,
}

impl Notes {
    fn add(&mut self, aspect: Aspect, path: &[u8], errno: Errno) {
        let note = self.0.entry(aspect).or_insert_with(|| Note { first: path.to_vec(), errno, count: 0 });
        note.count += 1;
    }

    /// All notes in words.
    pub(super) fn take(&mut self) -> Vec<String> {
        let notes = std::mem::take(&mut self.0);
        notes.into_iter().map(|(aspect, note)| note.in_words(aspect)).collect()
    }
}

impl Note {
    fn in_words(&self, aspect: Aspect) -> String {
        let others = if self.count > 1 { format!(" and {} more", self.count - 1) } else { String::new() };
        let first = if self.first.is_empty() { ".".to_owned() } else { printable(&self.first) };
        let reason = std::io::Error::from(self.errno);
        let kept = |what: &str| format!("{what} of '{first}'{others} could not be kept: {reason}");
        match aspect {
            Aspect::Owner => kept("the owner"),
            Aspect::Permissions => kept("the permissions"),
            Aspect::Time => kept("the time"),
            Aspect::Attribute => kept("an extended attribute"),
            Aspect::SymbolicLink => format!(
                "the symbolic link '{first}'{others} was left out: the destination's file system does not make it ({reason})"
            ),
            Aspect::HardLink => format!(
                "'{first}'{others} became a copy: the destination's file system does not make this further name of a file ({reason})"
            ),
        }
    }
}

impl Landing {
    /// Sets permissions, times, and what else is asked for, of what is open as `fd` and lands at `path`.
    pub(super) fn set_metadata(&self, fd: impl AsFd, path: &[u8], metadata: &Metadata) {
        if self.options.attributes {
            for attribute in &metadata.attributes {
                let set = rustix::fs::fsetxattr(&fd, &*attribute.name, &attribute.value, XattrFlags::empty());
                self.note(Aspect::Attribute, path, set);
            }
        }
        // In this order: a new owner takes permissions away.
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

    /// Sets the time of the last change of what is open as `fd`.
    pub(super) fn set_modified(&self, fd: impl AsFd, path: &[u8], modified: Timestamp) {
        self.note(Aspect::Time, path, disk::set_times(fd, &times(modified)));
    }

    /// Sets what is kept of the symbolic link called `name` in `parent`.
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
