//! Models of other file systems, for tests: their times, links and names.
//!
//! Operations run on real files, changed as the file system would: times are rounded to its unit and clamped to its
//! range, links are refused, and a name finds an existing one that it equals.

use std::borrow::Cow;
use std::cell::RefCell;
use std::os::fd::BorrowedFd;

use rustix::fs::{Dir, Mode, OFlags, Timespec, Timestamps};
use rustix::io::{Errno, Result};
use unicode_normalization::UnicodeNormalization;

use crate::file_system::FileSystem;

/// Which names are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OneName {
    /// Only those with the same bytes.
    Same,
    /// Those that differ in the case of letters.
    Case,
    /// These, and those that differ in how characters are composed.
    CaseAndForm,
}

/// The properties of a file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreign {
    /// Its kind.
    pub(crate) kind: FileSystem,
    /// The unit of its times, in nanoseconds.
    pub(crate) unit: i128,
    /// Its first and its last second.
    pub(crate) seconds: [i64; 2],
    pub(crate) symlinks: Result<()>,
    pub(crate) hard_links: Result<()>,
    pub(crate) permissions: Result<()>,
    pub(crate) one_name: OneName,
    /// Bytes that names cannot contain.
    pub(crate) refused: &'static [u8],
}

thread_local! {
    static DISK: RefCell<Option<Foreign>> = const { RefCell::new(None) };
}

impl Foreign {
    /// Runs `work` as if all that it does were on this file system.
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        /// Takes the file system from the thread, also when `work` panics.
        struct Attached;
        impl Drop for Attached {
            fn drop(&mut self) {
                DISK.set(None);
            }
        }
        DISK.set(Some(self));
        let _attached = Attached;
        work()
    }

    fn folded(&self, name: &[u8]) -> Vec<u8> {
        let lower = |text: &str| text.to_lowercase();
        match (self.one_name, std::str::from_utf8(name)) {
            (OneName::Same, _) | (_, Err(_)) => name.to_vec(),
            (OneName::Case, Ok(text)) => lower(text).into_bytes(),
            (OneName::CaseAndForm, Ok(text)) => lower(&text.nfd().collect::<String>()).into_bytes(),
        }
    }
}

fn here() -> Option<Foreign> {
    DISK.with_borrow(|disk| *disk)
}

/// The kind of the model in use.
pub(crate) fn kind() -> Option<FileSystem> {
    here().map(|disk| disk.kind)
}

pub(super) fn may_set_permissions() -> Result<()> {
    here().map_or(Ok(()), |disk| disk.permissions)
}

/// The times as the file system keeps them.
pub(super) fn kept(times: &Timestamps) -> Timestamps {
    let Some(disk) = here() else { return times.clone() };
    let Timespec { tv_sec, tv_nsec } = times.last_modification;
    let all = i128::from(tv_sec) * 1_000_000_000 + i128::from(tv_nsec);
    let kept = all.div_euclid(disk.unit) * disk.unit;
    let seconds = kept.div_euclid(1_000_000_000) as i64;
    let [first, last] = disk.seconds;
    let last_modification = if (first..=last).contains(&seconds) {
        Timespec { tv_sec: seconds, tv_nsec: kept.rem_euclid(1_000_000_000) as _ }
    } else {
        Timespec { tv_sec: seconds.clamp(first, last), tv_nsec: 0 }
    };
    Timestamps { last_modification, ..times.clone() }
}

/// The existing name in `parent` that equals `name`, if there is one.
pub(super) fn found_as<'n>(parent: BorrowedFd<'_>, name: &'n [u8]) -> Cow<'n, [u8]> {
    let Some(disk) = here().filter(|disk| disk.one_name != OneName::Same) else { return Cow::Borrowed(name) };
    let wanted = disk.folded(name);
    let Ok(listed) = rustix::fs::openat(parent, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) else {
        return Cow::Borrowed(name);
    };
    let names = Dir::read_from(listed).unwrap().map(|item| item.unwrap().file_name().to_bytes().to_vec());
    names.into_iter().find(|there| disk.folded(there) == wanted).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// The same for a new name; an error if names cannot be like this.
pub(super) fn name<'n>(parent: BorrowedFd<'_>, name: &'n [u8]) -> Result<Cow<'n, [u8]>> {
    let is_refused = here().is_some_and(|disk| name.iter().any(|byte| disk.refused.contains(byte)));
    if is_refused { Err(Errno::INVAL) } else { Ok(found_as(parent, name)) }
}

pub(super) fn symlink_name<'n>(parent: BorrowedFd<'_>, link: &'n [u8]) -> Result<Cow<'n, [u8]>> {
    here().map_or(Ok(()), |disk| disk.symlinks)?;
    name(parent, link)
}

pub(super) fn hard_link_name<'n>(parent: BorrowedFd<'_>, link: &'n [u8]) -> Result<Cow<'n, [u8]>> {
    here().map_or(Ok(()), |disk| disk.hard_links)?;
    name(parent, link)
}

/// A path in `directory`, component by component.
pub(super) fn path<'p>(directory: BorrowedFd<'_>, path: &'p [u8], flags: OFlags) -> Result<Cow<'p, [u8]>> {
    let Some(disk) = here() else { return Ok(Cow::Borrowed(path)) };
    if disk.one_name == OneName::Same && disk.refused.is_empty() {
        return Ok(Cow::Borrowed(path));
    }
    let mut found: Vec<u8> = Vec::new();
    let components: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    for (at, component) in components.iter().enumerate() {
        let above = if found.is_empty() { b".".to_vec() } else { found.clone() };
        let parent = rustix::fs::openat(directory, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let is_new = at + 1 == components.len() && flags.contains(OFlags::CREATE);
        let parent = std::os::fd::AsFd::as_fd(&parent);
        let component = if is_new { name(parent, component)? } else { found_as(parent, component) };
        if !found.is_empty() {
            found.push(b'/');
        }
        found.extend_from_slice(&component);
    }
    Ok(Cow::Owned(found))
}
