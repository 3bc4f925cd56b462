//! The journal's file: made, locked, appended to and removed.

use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{HEADER_BYTES, Record, Replay, encode};
use crate::beneath::{Beneath, Links};

/// Largest journal that is read or written: some 17 TB of verified groups, or as many files.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// Why a journal cannot be had.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// Another process writes to it.
    Locked,
    /// Something else has its name.
    NotAJournal,
    /// The system's word.
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

/// A journal that nobody else writes to. When it is dropped and has no group worth going on from, it is removed.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Beneath,
    name: Vec<u8>,
    file: File,
    len: u64,
    /// Whether there is something to go on from.
    is_of_use: bool,
}

impl Journal {
    /// Opens the journal called `name` in `directory`, or makes it, locks it, and reads what it says. What is torn is cut
    /// off.
    ///
    /// The lock is the kernel's, so it ends with its process. File systems that have none go without.
    pub(crate) fn open(directory: Beneath, name: Vec<u8>) -> Result<(Self, Replay), OpenError> {
        let mut file = locked(&directory, &name)?;
        let size = file.metadata()?.len();
        let mut bytes = Vec::new();
        (&mut file).take(JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?;
        let replay = Replay::read(&bytes).map_err(|_| OpenError::NotAJournal)?;
        let mut journal =
            Self { directory, name, file, len: replay.sound_bytes, is_of_use: !replay.verified.is_empty() };
        if journal.len < HEADER_BYTES {
            journal.clear()?;
        } else if size > journal.len {
            rustix::fs::ftruncate(&journal.file, journal.len)?;
        }
        Ok((journal, replay))
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) -> rustix::io::Result<()> {
        self.is_of_use = false;
        rustix::fs::ftruncate(&self.file, 0)?;
        self.len = 0;
        self.put(&encode(&[]))
    }

    /// Appends records, in one write; false when there is no room for them, on the disk or in the journal: what they say
    /// will then be found out again, or fetched again.
    pub(crate) fn append(&mut self, records: &[Record]) -> rustix::io::Result<bool> {
        let mut bytes = Vec::new();
        for record in records {
            record.write(self.len + bytes.len() as u64, &mut bytes);
        }
        if self.len + bytes.len() as u64 > JOURNAL_BYTES_MAX {
            return Ok(false);
        }
        match self.put(&bytes) {
            Ok(()) => self.is_of_use |= records.iter().any(|record| matches!(record, Record::Verified { .. })),
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// Writes behind what is there. A record that did not fit is torn, and the next one is written over it.
    fn put(&mut self, bytes: &[u8]) -> rustix::io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&self.file, &bytes[written..], self.len + written as u64) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Whether there is something to go on from.
    pub(crate) fn is_of_use(&self) -> bool {
        self.is_of_use
    }

    /// The open file, to sync it.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// There is nothing to go on from any more.
    pub(crate) fn retire(&mut self) {
        self.is_of_use = false;
        // What cannot be removed is found of no use by the next transfer.
        if let (Ok(ours), Ok(there)) = (rustix::fs::fstat(&self.file), self.directory.stat(&self.name, Links::Refuse))
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

/// The file, ours alone.
fn locked(directory: &Beneath, name: &[u8]) -> Result<File, OpenError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    loop {
        let file =
            directory.open(name, flags, Mode::from_raw_mode(0o600), Links::Refuse).map_err(|errno| match errno {
                Errno::ISDIR | Errno::LOOP | Errno::NXIO => OpenError::NotAJournal,
                errno => OpenError::System(errno),
            })?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) | Err(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS) => {}
            Err(Errno::WOULDBLOCK) => return Err(OpenError::Locked),
            Err(errno) => return Err(errno.into()),
        }
        // Whoever had the lock before may have removed the file when it was done.
        let ours = rustix::fs::fstat(&file)?;
        match rustix::fs::statat(directory.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino) => return Ok(File::from(file)),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
