//! A failing disk, for tests: operations of this thread fail, or the power goes.
//!
//! Operations run on real files, which show the kernel's view. Beside them a [`Model`] tracks what is certainly on the
//! disk, and what may be. After a power failure, [`FaultyDisk::power_failure`] makes the files as they may be found.

mod model;

use std::cell::RefCell;
use std::io::IoSlice;
use std::path::Path;

use inhaul_base::RandomStream;
use rustix::io::{Errno, Result};

use self::model::{Fault, Model};
use super::Operation;

/// How often operations fail: one in this many; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Bytes are read back: EIO.
    pub(crate) read: u64,
    /// Something is written, made or renamed: EIO.
    pub(crate) write: u64,
    /// The same: ENOSPC.
    pub(crate) full: u64,
    /// A write takes only some of the bytes.
    pub(crate) short: u64,
    /// A sync: EIO. Some of the unsynced bytes will never be on the disk, even if later syncs succeed.
    pub(crate) sync: u64,
    /// After this number of operations the power goes.
    pub(crate) operations: Option<u64>,
}

/// The disk of this thread.
pub(crate) struct FaultyDisk {
    model: Model,
    faults: Faults,
    random: RandomStream,
    has_power: bool,
    /// Operations that were made to fail.
    failed: u64,
    /// Called during a sync.
    meanwhile: Option<Box<dyn Fn()>>,
}

thread_local! {
    static DISK: RefCell<Option<FaultyDisk>> = const { RefCell::new(None) };
}

/// Carries out an operation of this thread, on its faulty disk if it has one.
pub(crate) fn carry_out<T>(operation: Operation<'_>, real: impl FnOnce() -> Result<T>) -> Result<T> {
    let verdict = DISK.with_borrow_mut(|disk| disk.as_mut().map(|disk| disk.before(&operation)));
    match verdict {
        None => real(),
        Some(Err(errno)) => Err(errno),
        Some(Ok(())) => {
            let before = DISK.with_borrow_mut(|disk| disk.as_ref().map(|disk| disk.model.look(&operation)));
            let done = real()?;
            DISK.with_borrow_mut(|disk| {
                if let Some((disk, before)) = disk.as_mut().zip(before) {
                    disk.model.note(&operation, before);
                }
            });
            Ok(done)
        }
    }
}

/// The bytes of a short write.
pub(super) fn cut_short(bufs: &[IoSlice<'_>]) -> Option<Vec<u8>> {
    DISK.with_borrow_mut(|disk| {
        let disk = disk.as_mut().filter(|disk| disk.has_power)?;
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let is_cut = len > 1 && one_in(&mut disk.random, disk.faults.short);
        let kept = if is_cut { 1 + disk.random.below(len as u64 - 1) as usize } else { return None };
        Some(bufs.iter().flat_map(|buf| buf.iter().copied()).take(kept).collect())
    })
}

fn one_in(random: &mut RandomStream, count: u64) -> bool {
    count > 0 && random.below(count) == 0
}

impl FaultyDisk {
    /// A disk that has what is beneath `root`.
    pub(crate) fn of(root: &Path, seed: u64) -> Self {
        let random = RandomStream::new(seed, 1);
        Self { model: Model::of(root), faults: Faults::default(), random, has_power: true, failed: 0, meanwhile: None }
    }

    /// Calls `meanwhile` during each sync.
    pub(crate) fn with_slow_syncs(self, meanwhile: impl Fn() + 'static) -> Self {
        Self { meanwhile: Some(Box::new(meanwhile)), ..self }
    }

    /// Runs `process` on this disk, with `faults`. Returns the disk, the result, and whether an operation was made to
    /// fail.
    pub(crate) fn run<T>(mut self, faults: Faults, process: impl FnOnce() -> T) -> (Self, T, bool) {
        /// Takes the disk from the thread, also when `process` panics.
        struct Attached;
        impl Drop for Attached {
            fn drop(&mut self) {
                DISK.with_borrow_mut(|disk| *disk = None);
            }
        }
        self.faults = faults;
        self.failed = 0;
        DISK.with_borrow_mut(|disk| *disk = Some(self));
        let attached = Attached;
        let done = process();
        let disk = DISK.with_borrow_mut(Option::take).expect("it was attached");
        drop(attached);
        let has_failed = disk.failed > 0;
        (disk, done, has_failed)
    }

    /// Whether the power has gone.
    pub(crate) fn has_power(&self) -> bool {
        self.has_power
    }

    /// The kernel drops bytes that it could not write, and shows the disk's.
    pub(crate) fn forget(&mut self) {
        self.model.forget(&mut self.random);
    }

    /// After a power failure: makes a possible content of the disk beneath `root`. Returns whether names were kept in
    /// the order of the operations, as by file systems with a journal.
    pub(crate) fn power_failure(&mut self, root: &Path) -> bool {
        self.model.survive(root, &mut self.random)
    }

    fn before(&mut self, operation: &Operation<'_>) -> Result<()> {
        let random = &mut self.random;
        if !self.has_power {
            return Err(Errno::IO);
        }
        if let Some(left) = &mut self.faults.operations {
            if *left == 0 {
                self.has_power = false;
                self.model.note_torn(operation);
                return Err(Errno::IO);
            }
            *left -= 1;
        }
        if let (Operation::Sync { .. }, Some(meanwhile)) = (operation, &self.meanwhile) {
            meanwhile();
        }
        let errno = match operation {
            Operation::Read => one_in(random, self.faults.read).then_some(Errno::IO),
            Operation::Sync { .. } | Operation::SyncAll => one_in(random, self.faults.sync).then_some(Errno::IO),
            _ if one_in(random, self.faults.write) => Some(Errno::IO),
            _ => one_in(random, self.faults.full).then_some(Errno::NOSPC),
        };
        let Some(errno) = errno else { return Ok(()) };
        self.failed += 1;
        match operation {
            Operation::Sync { of } => self.model.fail_to_sync(&Fault::Of(*of), random),
            Operation::SyncAll => self.model.fail_to_sync(&Fault::All, random),
            _ => {}
        }
        Err(errno)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};

    use super::*;
    use crate::disk;

    fn create(directory: &fs::File, name: &str) -> Result<fs::File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        disk::open(directory, name.as_bytes(), flags, Mode::from_raw_mode(0o644), ResolveFlags::BENEATH).map(Into::into)
    }

    /// What is found after `work` and a power failure, with any of some seeds.
    fn found(work: impl Fn(&fs::File)) -> std::collections::BTreeSet<Vec<(String, Vec<u8>)>> {
        let survive = |seed| {
            let (dir, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let directory = fs::File::open(dir.path()).unwrap();
            let (mut disk, (), _) = FaultyDisk::of(dir.path(), seed).run(Faults::default(), || work(&directory));
            disk.power_failure(after.path());
            let mut found: Vec<_> = fs::read_dir(after.path())
                .unwrap()
                .map(|item| item.unwrap())
                .map(|item| (item.file_name().into_string().unwrap(), fs::read(item.path()).unwrap()))
                .collect();
            found.sort();
            found
        };
        (0..60).map(survive).collect()
    }

    fn one(name: &str, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        vec![(name.to_owned(), bytes.to_vec())]
    }

    #[test]
    fn what_was_not_synced_may_be_there_or_not() {
        let all = found(|directory| {
            let file = create(directory, "a").unwrap();
            disk::write(&file, &[IoSlice::new(b"new")], 0).unwrap();
        });
        assert!(all.contains(&vec![]) && all.contains(&one("a", b"new")) && all.contains(&one("a", b"")), "{all:?}");
        assert!(all.contains(&one("a", &[0; 3])), "the length without the bytes: {all:?}");
    }

    #[test]
    fn what_was_synced_is_there_and_names_are_synced_by_themselves() {
        let write = |directory: &fs::File| {
            let file = create(directory, "a").unwrap();
            disk::write(&file, &[IoSlice::new(b"new")], 0).unwrap();
            disk::sync_bytes(&file).unwrap();
        };
        assert_eq!(found(write).into_iter().collect::<Vec<_>>(), [vec![], one("a", b"new")]);
        let all = found(|directory| {
            write(directory);
            disk::sync_directory(directory).unwrap();
            disk::rename(directory, b"a", b"b").unwrap();
        });
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [one("a", b"new"), one("b", b"new")]);
        let all = found(|directory| {
            write(directory);
            disk::rename(directory, b"a", b"b").unwrap();
            disk::sync_all(directory).unwrap();
        });
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [one("b", b"new")]);
        let all = found(|directory| {
            write(directory);
            disk::sync_directory(directory).unwrap();
            disk::remove(directory, b"a", AtFlags::empty()).unwrap();
            disk::sync_directory(directory).unwrap();
        });
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [vec![]]);
    }

    #[test]
    fn a_write_is_torn_between_sectors() {
        let all = found(|directory| {
            let file = create(directory, "a").unwrap();
            disk::resize(&file, 1024).unwrap();
            disk::sync_bytes(&file).unwrap();
            disk::sync_directory(directory).unwrap();
            disk::write(&file, &[IoSlice::new(&[7; 1024])], 0).unwrap();
        });
        let torn = [[7; 512], [0; 512]].concat();
        assert!(all.contains(&one("a", &torn)), "{}", all.len());
        assert!(all.iter().all(|found| found[0].1[..512].iter().all(|byte| *byte == found[0].1[0])));
    }

    #[test]
    fn a_sync_that_failed_loses_bytes_that_the_next_one_does_not_bring() {
        let (dir, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = fs::File::open(dir.path()).unwrap();
        let mut is_lost = false;
        for seed in 0..20 {
            let name = format!("{seed}");
            let disk = FaultyDisk::of(dir.path(), seed);
            let (disk, file, failed) = disk.run(Faults { sync: 1, ..Faults::default() }, || {
                let file = create(&directory, &name).unwrap();
                disk::write(&file, &[IoSlice::new(b"new")], 0).unwrap();
                assert_eq!(disk::sync_bytes(&file), Err(Errno::IO));
                file
            });
            assert!(failed);
            let (mut disk, (), _) = disk.run(Faults::default(), || {
                disk::sync_bytes(&file).unwrap();
                disk::sync_all(file.as_fd()).unwrap();
            });
            assert_eq!(fs::read(dir.path().join(&name)).unwrap(), b"new", "the kernel shows it");
            let to = after.path().join(&name);
            fs::create_dir(&to).unwrap();
            disk.power_failure(&to);
            is_lost |= fs::read(to.join(&name)).unwrap() != b"new";
        }
        assert!(is_lost);
    }
}
