//! The journal's file: made, locked, appended to and removed.

use std::fs::File;
use std::io::{self, IoSlice, Read};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Chain, Damage, HEADER_BYTES, Record, Replay, encode};
use crate::beneath::{Beneath, Links};
use crate::disk;
use crate::file_lock::FileLock;

/// Largest journal that is read or written: some 17 TB of verified groups, or as many files.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// Why a journal cannot be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// Another process writes to it.
    Locked,
    /// Another file has its name.
    NotAJournal,
    /// The system's error.
    System(Errno),
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::System(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// The state of a journal when opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Whether there was one.
    pub(crate) was_there: bool,
    /// Its unreadable part.
    pub(crate) damage: Option<Damage>,
}

/// A locked journal: no other process writes to it. Dropped, it is removed if a transfer cannot continue from it.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Beneath,
    name: Vec<u8>,
    file: FileLock<File>,
    len: u64,
    chain: Chain,
    /// Whether there is something to continue from.
    is_of_use: bool,
}

impl Journal {
    /// Opens the journal `name` in `directory`, or makes it; locks it, and reads it. A torn end is cut off.
    ///
    /// The lock is the kernel's, so it ends with its process. File systems without locks go without.
    pub(crate) fn open(directory: Beneath, name: Vec<u8>) -> Result<(Self, Opened, Replay), OpenError> {
        let (file, was_there) = locked(&directory, &name)?;
        let (bytes, size, replay) = read(&file)?;
        let (len, chain) = (replay.sound_bytes, replay.chain);
        let mut journal = Self { directory, name, file, len, chain, is_of_use: was_there };
        let damage = if was_there { Damage::of(size, &replay) } else { None };
        if journal.len < HEADER_BYTES {
            journal.clear()?;
            journal.is_of_use = was_there;
        } else if damage.is_some() {
            disk::resize(&*journal.file, journal.len)?;
        }
        if journal.len >= HEADER_BYTES {
            // After a failed sync, the bytes may be only in the kernel's memory.
            journal.write_at(&encode(&[]), 0)?;
            let from = replay.synced_bytes.max(HEADER_BYTES);
            journal.write_at(bytes.get(from as usize..len as usize).unwrap_or_default(), from)?;
        }
        Ok((journal, Opened { was_there, damage }, replay))
    }

    /// Reads the journal `name` in `directory`, if it exists. Changes nothing.
    pub(crate) fn look(directory: &Beneath, name: &[u8]) -> Result<(Opened, Replay), OpenError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match directory.open(name, flags, Mode::empty(), Links::Refuse) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Default::default()),
            Err(errno) => return Err(not_opened(errno)),
        };
        check(&file)?;
        let file = FileLock::shared(file).map_err(not_locked)?;
        let (_, size, replay) = read(&file)?;
        Ok((Opened { was_there: true, damage: Damage::of(size, &replay) }, replay))
    }

    /// Whether another process holds the journal called `name` in `directory`.
    pub(crate) fn is_locked(directory: &Beneath, name: &[u8]) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let Ok(file) = directory.open(name, flags, Mode::empty(), Links::Refuse).map(File::from) else { return false };
        check(&file).is_ok() && matches!(FileLock::shared(&file), Err(Errno::WOULDBLOCK))
    }

    /// Begins the transfer. From now on the journal stays only if it records a verified group, old or new.
    pub(crate) fn begin(&mut self, replay: &Replay) {
        self.is_of_use = !replay.verified.is_empty() || !replay.named.is_empty();
    }

    /// Keeps the journal, with any content.
    pub(crate) fn keep(&mut self) {
        self.is_of_use = true;
    }

    /// Clears the journal. On failure, its earlier content stays if it would have stayed before: it says whose the
    /// partial files are.
    pub(crate) fn clear(&mut self) -> rustix::io::Result<()> {
        disk::resize(&*self.file, 0)?;
        self.len = 0;
        self.chain = Chain::default();
        self.put(&encode(&[]))?;
        self.is_of_use = false;
        Ok(())
    }

    /// Appends records, in one write. False if the disk or the journal has no room: then their content is checked or
    /// fetched again later.
    pub(crate) fn append(&mut self, records: &[Record]) -> rustix::io::Result<bool> {
        let mut bytes = Vec::new();
        let mut chain = self.chain;
        for record in records {
            record.write(&mut chain, &mut bytes);
        }
        if self.len + bytes.len() as u64 > JOURNAL_BYTES_MAX {
            return Ok(false);
        }
        match self.put(&bytes) {
            Ok(()) => {
                self.is_of_use |= records.iter().any(Record::is_of_use);
                self.chain = chain;
            }
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// Writes at the end. A record that did not fit is torn, and the next one overwrites it.
    fn put(&mut self, bytes: &[u8]) -> rustix::io::Result<()> {
        self.write_at(bytes, self.len)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> rustix::io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match disk::write(&self.file, &[IoSlice::new(&bytes[written..])], at + written as u64) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Its length, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is something to continue from.
    pub(crate) fn is_of_use(&self) -> bool {
        // If its directory was removed, it has no name, and a later transfer could not find it.
        self.is_of_use && rustix::fs::fstat(&*self.file).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// The open file, to sync it.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the journal up: it is removed if possible.
    pub(crate) fn retire(&mut self) {
        self.is_of_use = false;
        // If it cannot be removed, the next transfer finds it useless.
        if let (Ok(ours), Ok(there)) = (rustix::fs::fstat(&*self.file), self.directory.stat(&self.name, Links::Refuse))
            && (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        {
            let _ = self.directory.remove_file(&self.name);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_of_use {
            self.retire();
        }
    }
}

/// Reads the journal: its bytes, its length, and its content.
fn read(file: &File) -> Result<(Vec<u8>, u64, Replay), OpenError> {
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?;
    let replay = Replay::read(&bytes).map_err(|_| OpenError::NotAJournal)?;
    Ok((bytes, size, replay))
}

/// The locked file, and whether it existed before.
fn locked(directory: &Beneath, name: &[u8]) -> Result<(FileLock<File>, bool), OpenError> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o600);
    loop {
        let (file, was_there) = match directory.open(name, flags, Mode::empty(), Links::Refuse) {
            Ok(file) => (File::from(file), true),
            Err(Errno::NOENT) => {
                match directory.open(name, flags | OFlags::CREATE | OFlags::EXCL, mode, Links::Refuse) {
                    Ok(file) => (File::from(file), false),
                    // Another process was faster.
                    Err(Errno::EXIST) => continue,
                    Err(errno) => return Err(not_opened(errno)),
                }
            }
            Err(errno) => return Err(not_opened(errno)),
        };
        check(&file)?;
        let file = FileLock::exclusive(file).map_err(not_locked)?;
        // The previous holder of the lock may have removed the file when it was done.
        let ours = rustix::fs::fstat(&*file)?;
        match rustix::fs::statat(directory.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino) => return Ok((file, was_there)),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn not_opened(errno: Errno) -> OpenError {
    match errno {
        Errno::ISDIR | Errno::LOOP | Errno::NXIO => OpenError::NotAJournal,
        errno => OpenError::System(errno),
    }
}

/// A journal is a regular file without other names, and belongs to the user who reads it. On some network file systems
/// the superuser's files belong to another user.
fn check(file: &File) -> Result<(), OpenError> {
    let stat = rustix::fs::fstat(file)?;
    let user = rustix::process::geteuid();
    let is_ours = stat.st_uid == user.as_raw() || user.is_root();
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink <= 1;
    if is_file && is_ours { Ok(()) } else { Err(OpenError::NotAJournal) }
}

fn not_locked(errno: Errno) -> OpenError {
    if errno == Errno::WOULDBLOCK { OpenError::Locked } else { OpenError::System(errno) }
}
