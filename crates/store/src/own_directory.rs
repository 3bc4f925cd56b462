//! A cache's directory: it belongs to this user, is marked as this program's, and keeps the most recently used of its
//! own files.
//!
//! Anyone who can change a cache controls what is read from it. So the directory and its files must be this user's, and
//! no other user may be able to replace the directory: each directory above it belongs to this user or root, and others
//! may not write to it, or may not rename files of other users (the sticky bit). A group may write if it is this
//! process's own. The directory is checked when it is opened, and used by its descriptor from then on.
//!
//! A mark ([`MARK`]) shows that the directory was made for this. A nonempty directory without one is refused, and only
//! files with the cache's own names are ever removed. So a directory given by mistake loses nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::text::printable;

/// The file that marks a directory, by the Cache Directory Tagging Specification: backup programs skip such
/// directories.
const MARK: &str = "CACHEDIR.TAG";
const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";

/// The purpose of a cache's directory.
pub(crate) struct Purpose {
    /// The purpose in a word, for the mark.
    pub(crate) of: &'static str,
    /// Whether a file of this name is the cache's own.
    pub(crate) is_own_name: fn(&[u8]) -> bool,
    /// Whether a directory without a mark is accepted if it has only files with own names.
    pub(crate) takes_unmarked: bool,
}

impl Purpose {
    fn mark(&self) -> String {
        format!("{SIGNATURE}\n# A cache of inhaul: {}. Files here may be removed at any time.\n", self.of)
    }
}

/// A cache's directory, held open.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    open: OwnedFd,
    is_own_name: fn(&[u8]) -> bool,
}

impl OwnDirectory {
    /// Opens the directory at `path`, which is made and marked if it does not exist.
    pub(crate) fn open(path: &Path, purpose: &Purpose) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let open = open_trusted(&std::fs::canonicalize(path)?)?;
        let directory = Self { open, is_own_name: purpose.is_own_name };
        directory.claim(purpose)?;
        Ok(directory)
    }

    /// Marks the directory, unless it is marked.
    fn claim(&self, purpose: &Purpose) -> io::Result<()> {
        if self.is_marked(purpose)? {
            return Ok(());
        }
        let takes = |name: &[u8]| purpose.takes_unmarked && (purpose.is_own_name)(name);
        // Another process may be marking it right now.
        let is_foreign = |name: &Vec<u8>| !takes(name) && !name.starts_with(MARK.as_bytes());
        if let Some(name) = self.names()?.into_iter().find(is_foreign)
            && !self.is_marked(purpose)?
        {
            return Err(refused(format!(
                "it is not empty ('{}' is in it), and no cache of inhaul: name an empty directory, or one that is not \
                 there",
                printable(&name)
            )));
        }
        let new = format!("{MARK}-{:x}-{:x}", std::process::id(), rustix::thread::gettid().as_raw_nonzero());
        let file = self.open_file(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        let written = (&file).write_all(purpose.mark().as_bytes()).and_then(|()| self.rename(&new, MARK));
        written.inspect_err(|_| self.remove(&new))
    }

    fn is_marked(&self, purpose: &Purpose) -> io::Result<bool> {
        let file = match self.open_file(MARK, OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let (mark, mut found) = (purpose.mark(), Vec::new());
        file.take(mark.len() as u64).read_to_end(&mut found)?;
        if found == mark.as_bytes() {
            return Ok(true);
        }
        Err(refused(format!(
            "its {MARK} says that it is another cache: name an empty directory, or one that is not there"
        )))
    }

    /// Opens the file `name`, if it is this user's and has no other name.
    pub(crate) fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.open, name, flags, Mode::RUSR | Mode::WUSR)?);
        let stat = rustix::fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink <= 1;
        if is_file && is_of_this_user(&stat) && stat.st_mode & 0o022 == 0 {
            Ok(file)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Whether `name` is the name of `file`.
    pub(crate) fn is_called(&self, file: &File, name: &str) -> bool {
        let there = rustix::fs::statat(&self.open, name, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(ours), Ok(there)) = (rustix::fs::fstat(file), there) else { return false };
        (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
    }

    /// Renames a file, replacing `to`.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.open, from, &self.open, to)?)
    }

    /// Removes the file `name`, if that is possible.
    pub(crate) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.open, name, AtFlags::empty());
    }

    fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for item in Dir::read_from(&self.open)? {
            let item = item?;
            let name = item.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// If its own files take more than `bytes_max` on the disk, removes the least recently used ones until at most
    /// `bytes_left` are left. Other files, and files that cannot be removed, stay.
    pub(crate) fn prune(&self, bytes_max: u64, bytes_left: u64) {
        let Ok(mut names) = self.names() else { return };
        names.retain(|name| (self.is_own_name)(name));
        let usage = |name: Vec<u8>| {
            let stat = rustix::fs::statat(&self.open, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            let bytes = stat.st_blocks.unsigned_abs() * 512;
            is_file.then_some(((stat.st_mtime, stat.st_mtime_nsec), bytes, name))
        };
        let mut files: Vec<_> = names.into_iter().filter_map(usage).collect();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= bytes_max {
            return;
        }
        files.sort_unstable();
        for (_, bytes, name) in files {
            if total <= bytes_left {
                return;
            }
            let _ = rustix::fs::unlinkat(&self.open, name.as_slice(), AtFlags::empty());
            total -= bytes;
        }
    }
}

/// Marks a file as used now. If that fails, the directory still works.
pub(crate) fn touch(file: &File) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let _ = rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now });
}

/// Whether this is the 64 hexadecimal digits of a hash.
pub(crate) fn is_hash(name: &[u8]) -> bool {
    name.len() == 64 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn is_of_this_user(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Opens a directory of this user by an absolute path without links. Each directory on the way is checked after it is
/// opened, so none can be exchanged later.
fn open_trusted(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut open = rustix::fs::open("/", OFlags::PATH | flags, Mode::empty())?;
    let mut at = PathBuf::from("/");
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        check_above(&at, &rustix::fs::fstat(&open)?)?;
        open = rustix::fs::openat(open.as_fd(), name.as_bytes(), OFlags::PATH | flags, Mode::empty())?;
        at.push(name);
    }
    let stat = rustix::fs::fstat(&open)?;
    if !is_of_this_user(&stat) || stat.st_mode & 0o022 != 0 {
        return Err(refused(
            "others can write to it: a cache needs a directory of this user's with mode 700".to_owned(),
        ));
    }
    match rustix::fs::openat(&open, ".", OFlags::RDONLY | flags, Mode::empty()) {
        Err(Errno::ACCESS) => Err(refused("this user may not read it: a cache needs mode 700".to_owned())),
        opened => Ok(opened?),
    }
}

/// Checks that other users cannot exchange the items of a directory above a cache.
fn check_above(path: &Path, stat: &Stat) -> io::Result<()> {
    let (mode, is_sticky) = (stat.st_mode, stat.st_mode & 0o1000 != 0);
    let by_others = mode & 0o002 != 0;
    let by_group = mode & 0o020 != 0 && stat.st_gid != rustix::process::getegid().as_raw();
    let is_trusted = is_of_this_user(stat) || stat.st_uid == 0;
    if is_trusted && (is_sticky || !(by_others || by_group)) {
        return Ok(());
    }
    Err(refused(format!(
        "others can put another directory in its place, because they can write to '{}': name one below directories that \
         only this user can write to",
        printable(path.as_os_str().as_bytes())
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const PURPOSE: Purpose = Purpose { of: "tests", is_own_name: is_hash, takes_unmarked: false };

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn said(path: &Path) -> String {
        OwnDirectory::open(path, &PURPOSE).unwrap_err().to_string()
    }

    #[test]
    fn a_directory_of_something_else_is_refused_and_keeps_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let hash = "0123456789abcdef".repeat(4);
        for name in ["thesis.tex", hash.as_str(), ".hidden"] {
            let taken = dir.path().join(format!("of-{}", name.len()));
            std::fs::create_dir(&taken).unwrap();
            std::fs::write(taken.join(name), "mine").unwrap();
            assert!(said(&taken).contains("not empty"), "{}", said(&taken));
            assert_eq!(std::fs::read_dir(&taken).unwrap().count(), 1);
        }
        // By the word of a cache that takes these, but not with anything else beside them.
        let takes = Purpose { takes_unmarked: true, ..PURPOSE };
        assert!(OwnDirectory::open(&dir.path().join("of-64"), &takes).is_ok());
        assert!(OwnDirectory::open(&dir.path().join("of-10"), &takes).is_err());
        // Another cache's, or another program's.
        let other = Purpose { of: "something else", ..PURPOSE };
        OwnDirectory::open(&dir.path().join("new"), &other).unwrap();
        assert!(said(&dir.path().join("new")).contains("another cache"));
        assert!(OwnDirectory::open(&dir.path().join("new"), &other).is_ok());
    }

    #[test]
    fn prune_removes_own_names_only() {
        let dir = tempfile::tempdir().unwrap();
        let directory = OwnDirectory::open(dir.path(), &PURPOSE).unwrap();
        let (mine, theirs) = ("00112233445566778899aabbccddeeff".repeat(2), "thesis.tex");
        for name in [mine.as_str(), theirs] {
            std::fs::write(dir.path().join(name), vec![1; 10_000]).unwrap();
        }
        std::fs::create_dir(dir.path().join("ff".repeat(32))).unwrap();
        symlink(theirs, dir.path().join("ee".repeat(32))).unwrap();
        directory.prune(0, 0);
        let mut left: Vec<_> = directory.names().unwrap();
        left.sort();
        assert_eq!(left, [MARK.into(), "ee".repeat(32).into(), "ff".repeat(32).into(), theirs.into()] as [Vec<u8>; 4]);
    }

    #[test]
    fn a_place_where_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().join("above");
        std::fs::create_dir(&above).unwrap();
        mode(&above, 0o777);
        assert!(said(&above.join("cache")).contains("above'"), "{}", said(&above.join("cache")));
        symlink(above.join("cache"), dir.path().join("link")).unwrap();
        assert!(said(&dir.path().join("link")).contains("above'"), "links are looked through");
        mode(&above, 0o1777);
        assert!(OwnDirectory::open(&above.join("cache"), &PURPOSE).is_ok(), "as in /tmp");
        mode(&above.join("cache"), 0o770);
        assert!(said(&above.join("cache")).contains("others can write to it"));
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(OwnDirectory::open(&dir.path().join("file"), &PURPOSE).is_err());
    }

    #[test]
    fn another_directory_in_its_place_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("cache"), dir.path().join("aside"));
        let directory = OwnDirectory::open(&path, &PURPOSE).unwrap();
        std::fs::rename(&path, &aside).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("forged"), "forged").unwrap();
        assert!(directory.open_file("forged", OFlags::RDONLY).is_err());
        directory.open_file("kept", OFlags::WRONLY | OFlags::CREATE).unwrap();
        assert!(aside.join("kept").exists());
        // Nor files that another user could change.
        std::fs::hard_link(aside.join("kept"), aside.join("again")).unwrap();
        symlink("forged", aside.join("link")).unwrap();
        std::fs::write(aside.join("loose"), "").unwrap();
        mode(&aside.join("loose"), 0o666);
        for name in ["kept", "again", "link", "loose"] {
            assert!(directory.open_file(name, OFlags::RDONLY).is_err(), "{name}");
        }
    }
}
