//! Finds the stored parts of a file. The other parts are holes: they read as zeros, and are skipped at no cost.

use std::fs::File;
use std::os::unix::fs::FileExt;

use inhaul_base::ByteRange;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::digest::{GROUP_BYTES, ZEROS};
use crate::disk;

/// The first stored part of `file` within `range`, as its file system reports it. Without reports, everything counts as
/// stored. Moves the file's position.
///
/// The system's error.
pub fn stored_within(file: &File, range: ByteRange) -> std::io::Result<Option<ByteRange>> {
    if range.is_empty() {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(range.start)) {
        Ok(start) if start < range.end => start,
        // Beyond the range, or nothing more is stored.
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok(Some(range)),
        Err(errno) => return Err(errno.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(range.end);
    Ok(Some(ByteRange::new(start, end.min(range.end))))
}

/// Whether `range` of `file` is zeros. Reads the stored parts. `None` once `go_on` has returned false.
///
/// # Errors
/// When it cannot be read, or when the file is shorter.
pub fn is_zeros(file: &File, range: ByteRange, go_on: impl Fn() -> bool) -> std::io::Result<Option<bool>> {
    if file.metadata()?.len() < range.end {
        return Ok(Some(false));
    }
    let mut buffer = Vec::new();
    let mut at = range.start;
    while let Some(stored) = stored_within(file, ByteRange::new(at, range.end))? {
        let part = ByteRange::at(stored.start, stored.len().min(GROUP_BYTES));
        if !go_on() {
            return Ok(None);
        }
        buffer.resize(part.len() as usize, 0);
        file.read_exact_at(&mut buffer, part.start)?;
        if buffer != ZEROS[..buffer.len()] {
            return Ok(Some(false));
        }
        at = part.end;
    }
    Ok(Some(true))
}

/// Makes `range` of `file` a hole if some of it is stored; false if its file system cannot.
///
/// Any other error of the system.
pub(crate) fn make_hole(file: &File, range: ByteRange) -> rustix::io::Result<bool> {
    if stored_within(file, range).is_ok_and(|stored| stored.is_none()) {
        return Ok(true);
    }
    match disk::punch(file, range.start, range.len()) {
        Ok(()) => Ok(true),
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL | Errno::NODEV | Errno::PERM) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_told_from_holes_and_can_be_made_one() {
        let mib = GROUP_BYTES;
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let all = ByteRange::new(0, 1 << 40);
        assert_eq!(is_zeros(&file, all, || false).unwrap(), Some(true), "nothing is stored, so nothing is read");
        assert_eq!(is_zeros(&file, ByteRange::new(0, (1 << 40) + 1), || true).unwrap(), Some(false), "it is shorter");
        file.write_all_at(&[0; 4096], 5 * mib).unwrap();
        assert_eq!(is_zeros(&file, all, || true).unwrap(), Some(true));
        file.write_all_at(b"x", 9 * mib).unwrap();
        assert_eq!(is_zeros(&file, all, || true).unwrap(), Some(false));
        assert_eq!(is_zeros(&file, ByteRange::new(0, 9 * mib), || true).unwrap(), Some(true));
        let stored = stored_within(&file, ByteRange::new(8 * mib, 1 << 40)).unwrap().unwrap();
        assert!(stored.contains(ByteRange::at(9 * mib, 1)), "{stored}");
        if make_hole(&file, all).unwrap() {
            assert_eq!(stored_within(&file, all).unwrap(), None);
        }
        assert_eq!(file.metadata().unwrap().len(), 1 << 40);
    }
}
