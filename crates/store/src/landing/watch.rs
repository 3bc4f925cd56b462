//! Notices when another program opens a partial file, or changes a file that waits for its name.
//!
//! Another program may overwrite bytes after they were read back and verified. While the landing itself writes, the
//! file's times do not show this. So the landing watches for opens (inotify), and the length shows if the file was cut
//! (see [`GUARD_BYTES`]). Once the landing has stopped writing, the file's times show every change ([`Stamp`]).
//!
//! Until the file is sealed, these are not noticed: writes through a descriptor that was opened before the watch
//! began, and writes by other hosts to a network file system.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::Stat;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::Timestamp;
use crate::file_system::FileSystem;
use crate::file_time::is_same_time;

/// The extra length of a partial file of several groups. Nothing is ever written there, so a file that was cut and
/// extended again stays too short.
pub(super) const GUARD_BYTES: u64 = 1;

/// The files that are watched.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Made with the first watch. Stays `None` if the system has none left: then nothing is noticed.
    inotify: Option<OwnedFd>,
    /// Files by the numbers of their watches, and the reverse.
    files: BTreeMap<i32, usize>,
    numbers: BTreeMap<usize, i32>,
    /// Files that another program has opened.
    opened: BTreeSet<usize>,
}

impl Watch {
    /// Watches file `index` from now on: opens by other programs are noticed. `file` is our own descriptor of it.
    pub(super) fn begin(&mut self, index: usize, file: &File) {
        if self.inotify.is_none() {
            self.inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        if let Some(inotify) = &self.inotify
            && let Ok(number) = inotify::add_watch(inotify, path, WatchFlags::OPEN)
        {
            self.files.insert(number, index);
            self.numbers.insert(index, number);
        }
    }

    /// Whether the file is watched.
    pub(super) fn is_watching(&self, index: usize) -> bool {
        self.numbers.contains_key(&index)
    }

    /// Calls `open`, which opens a watched file.
    pub(super) fn open<T>(&mut self, index: usize, open: impl FnOnce() -> T) -> T {
        self.listen(None);
        let opened = open();
        self.listen(Some(index));
        opened
    }

    /// Ends the watch. Returns whether another program has opened the file.
    pub(super) fn end(&mut self, index: usize) -> bool {
        self.listen(None);
        if let Some(number) = self.numbers.remove(&index) {
            self.files.remove(&number);
            // The file, and so its watch, may be gone.
            let _ = self.inotify.as_ref().map(|inotify| inotify::remove_watch(inotify, number));
        }
        self.opened.remove(&index)
    }

    /// Reads the events, except for our own opening of the file `own`.
    fn listen(&mut self, own: Option<usize>) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(inotify, &mut buffer);
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                // Events were lost, so every file may have been opened.
                self.opened.extend(self.numbers.keys());
            } else if let Some(&index) = self.files.get(&event.wd())
                && event.events().contains(ReadFlags::OPEN)
                && own != Some(index)
            {
                self.opened.insert(index);
            }
        }
    }
}

/// Properties that do not change while a file is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    identity: (u64, u64),
    links: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    #[allow(clippy::useless_conversion, reason = "the widths of these differ between processors")]
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            identity: (stat.st_dev, stat.st_ino),
            links: stat.st_nlink.into(),
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec.into()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.into()),
        }
    }

    /// Whether `now` is the same. Some network file systems first report times as they were set, and later as they keep
    /// them: in a coarser unit.
    pub(super) fn is_still(self, now: Self) -> bool {
        let time = |(seconds, nanos): (i64, u64)| Timestamp { seconds, nanos: nanos as u32 };
        let is_same = |now, then| is_same_time(time(now), time(then), FileSystem::Fine);
        Self { modified: self.modified, changed: self.changed, ..now } == self
            && is_same(now.modified, self.modified)
            && is_same(now.changed, self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_opens_a_file_is_noticed_but_ourselves() {
        let dir = tempfile::tempdir().unwrap();
        let open =
            |name: &str| File::options().create(true).truncate(false).write(true).open(dir.path().join(name)).unwrap();
        let mut watch = Watch::default();
        let files = [open("a"), open("b")];
        files.iter().enumerate().for_each(|(index, file)| watch.begin(index, file));
        assert!(watch.is_watching(0) && watch.is_watching(1));
        drop(watch.open(0, || open("a")));
        assert!(!watch.end(0));
        drop(open("b"));
        assert!(watch.end(1));
        assert!(!watch.is_watching(1) && !watch.end(1));
    }
}
