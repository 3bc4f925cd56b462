//! Files mapped for the kernel to read.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use inhaul_base::ByteRange;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::iovec::IoVecs;

/// How much is made present at once: large enough that faults vanish, small enough to fit a cache.
const WINDOW: u64 = 2 << 20;

/// How many windows ahead of the current one the kernel is asked to read from disk.
const WINDOWS_AHEAD: u64 = 4;

/// A file mapped read-only and shared, as far as it reached when it was mapped.
///
/// Its bytes are handed to the kernel and never read in the program. So a file that is truncated meanwhile is an error of
/// the send call (`EFAULT`), not a signal that ends the process.
pub struct MappedFile {
    base: NonNull<u8>,
    len: u64,
    /// One bit for each window: whether its pages have been made present.
    present: Box<[AtomicU64]>,
}

// SAFETY: the mapping is read-only, belongs to no thread, and is only unmapped on drop; its bits are atomic.
unsafe impl Send for MappedFile {}
// SAFETY: as above; shared use only computes addresses and gives advice to the kernel.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the whole of `file`.
    ///
    /// # Errors
    /// When it is no regular file, or cannot be mapped.
    pub fn new(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "only regular files can be mapped"));
        }
        let len = metadata.len();
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let present = (0..len.div_ceil(WINDOW).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let mut base = NonNull::dangling();
        if size > 0 {
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
            let mapped =
                unsafe { rustix::mm::mmap(std::ptr::null_mut(), size, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
            base = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        }
        let file = Self { base, len, present };
        file.advise(ByteRange::new(0, len), Advice::Sequential);
        Ok(file)
    }

    /// The file's length when it was mapped, in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no byte in it.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the bytes `range` to `out`, and has the kernel fetch them and what follows. May wait for the disk.
    ///
    /// # Errors
    /// `UnexpectedEof` when the range ends beyond the file; nothing is appended then.
    pub fn read<'a>(&'a self, range: ByteRange, out: &mut IoVecs<'a>) -> io::Result<()> {
        if range.end > self.len {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("bytes {range} were asked for, but the file has {}", self.len),
            ));
        }
        if range.is_empty() {
            return Ok(());
        }
        for window in range.start / WINDOW..=(range.end - 1) / WINDOW {
            self.make_present(window);
        }
        // SAFETY: the range lies in the file, so in the mapping, which is one allocation of at most `isize::MAX` bytes.
        let start = unsafe { self.base.as_ptr().add(range.start as usize) };
        out.push_raw(start, range.len() as usize);
        Ok(())
    }

    /// Fills the page table for a window at its first use: one call in place of hundreds of page faults.
    fn make_present(&self, window: u64) {
        let Some(word) = self.present.get((window / 64) as usize) else { return };
        let bit = 1 << (window % 64);
        if word.load(Ordering::Relaxed) & bit != 0 {
            return;
        }
        word.fetch_or(bit, Ordering::Relaxed);
        let ahead = ByteRange::at((window + 1) * WINDOW, WINDOWS_AHEAD * WINDOW);
        self.advise(ahead, Advice::WillNeed);
        self.advise(ByteRange::at(window * WINDOW, WINDOW), Advice::LinuxPopulateRead);
    }

    /// Gives advice on the part of `range` that is mapped. Advice that is not followed costs time only (kernels before
    /// 5.14 do not know all of it, a truncated file cannot be populated), so errors are of no interest.
    fn advise(&self, range: ByteRange, advice: Advice) {
        let range = range.intersection(ByteRange::new(0, self.len));
        if range.is_empty() {
            return;
        }
        // SAFETY: the range lies in the mapping and starts at a multiple of `WINDOW`, so of the page size. None of the
        // advice given here changes what the memory holds.
        unsafe {
            let start = self.base.as_ptr().add(range.start as usize);
            let _ = rustix::mm::madvise(start.cast(), range.len() as usize, advice);
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: this is the mapping that `new` made; everything lent from it has ended with the borrow of `self`.
            // It cannot fail with these arguments.
            let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len as usize) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn read_names_any_range_of_the_file_and_none_beyond() {
        let mut file = tempfile::tempfile().unwrap();
        let len = 2 * WINDOW + 5;
        file.write_all(&vec![7; len as usize]).unwrap();
        let mapped = MappedFile::new(&file).unwrap();
        let mut pieces = IoVecs::new();
        for range in [(0, 1), (WINDOW - 1, WINDOW + 1), (len - 1, len), (len, len), (0, len)] {
            let range = ByteRange::new(range.0, range.1);
            let before = pieces.bytes();
            mapped.read(range, &mut pieces).unwrap();
            assert_eq!((pieces.bytes() - before) as u64, range.len());
        }
        assert_eq!(pieces.len(), 4, "an empty range has no piece");
        for beyond in [ByteRange::new(len, len + 1), ByteRange::new(0, u64::MAX)] {
            assert_eq!(mapped.read(beyond, &mut pieces).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(pieces.len(), 4);
    }

    #[test]
    fn new_maps_an_empty_file_and_refuses_a_directory() {
        assert!(MappedFile::new(&tempfile::tempfile().unwrap()).unwrap().is_empty());
        let directory = tempfile::tempdir().unwrap();
        assert!(MappedFile::new(&File::open(directory.path()).unwrap()).is_err());
    }
}
