//! Lists a directory tree.

use rustix::fs::{Access, AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

use super::{OfferedError, Skipped};
use crate::beneath::{Beneath, Links};
use crate::manifest::MODE_BITS;
use crate::{Directory, Entry, Timestamp};

/// What a walk through a tree has found.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) entries: Vec<Entry>,
    pub(super) directories: Vec<Directory>,
    pub(super) skipped: Skipped,
    /// Directories not read yet.
    pending: Vec<Vec<u8>>,
}

impl Tree {
    /// Lists all that lies beneath `top`. What vanishes meanwhile is left out. One directory is open at a time.
    pub(super) fn walk(top: &Beneath, request: &[u8]) -> Result<Self, OfferedError> {
        let mut tree = Self { pending: vec![Vec::new()], ..Self::default() };
        while let Some(path) = tree.pending.pop() {
            let failed = |errno| OfferedError::from_errno(&shown(request, &path), errno);
            match top.open_directory(&path, Links::Refuse) {
                Ok(dir) => tree.read_directory(&dir, &path, request)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(tree)
    }

    fn read_directory(&mut self, dir: &Beneath, path: &[u8], request: &[u8]) -> Result<(), OfferedError> {
        let failed = |path: &[u8], errno| OfferedError::from_errno(&shown(request, path), errno);
        for item in Dir::read_from(dir.fd()).map_err(|errno| failed(path, errno))? {
            let item = item.map_err(|errno| failed(path, errno))?;
            let name = item.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let inner = if path.is_empty() { name.to_bytes().to_vec() } else { [path, name.to_bytes()].join(&b'/') };
            let stat = match rustix::fs::statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failed(&inner, errno)),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    self.directories.push(Directory { path: inner.clone(), mode: stat.st_mode & MODE_BITS });
                    self.pending.push(inner);
                }
                FileType::RegularFile => {
                    // Found now rather than in the middle of the transfer.
                    match rustix::fs::accessat(dir.fd(), name, Access::READ_OK, AtFlags::empty()) {
                        Ok(()) => self.entries.push(entry(inner, &stat)),
                        Err(Errno::NOENT) => {}
                        Err(errno) => return Err(failed(&inner, errno)),
                    }
                }
                FileType::Symlink => self.skipped.links += 1,
                _ => self.skipped.special += 1,
            }
        }
        Ok(())
    }
}

/// The file at `path` as a manifest lists it.
pub(super) fn entry(path: Vec<u8>, stat: &Stat) -> Entry {
    let modified = Timestamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 };
    Entry { path, size: stat.st_size.unsigned_abs(), mode: stat.st_mode & MODE_BITS, modified }
}

/// A path inside the data set as the one who asked would write it.
pub(super) fn shown(request: &[u8], path: &[u8]) -> Vec<u8> {
    let request = request.strip_suffix(b"/").unwrap_or(request);
    if path.is_empty() { request.to_vec() } else { [request, path].join(&b'/') }
}
