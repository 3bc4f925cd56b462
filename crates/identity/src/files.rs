//! Small files that only their user may read.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Group and others may write.
const WRITTEN_BY_OTHERS: u32 = 0o022;
/// Of a directory: only the owner of a file may replace it.
const STICKY: u32 = 0o1000;

/// A file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// An error of the system.
    pub source: io::Error,
}

/// What to do about a file of the state that the system does not let this user have.
pub(crate) fn elsewhere(error: &FileError) -> &'static str {
    let is_of_place = matches!(
        error.source.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory | io::ErrorKind::ReadOnlyFilesystem
    );
    // An error that has no number is one of ours, and says what to do.
    match is_of_place && error.source.raw_os_error().is_some() {
        true => "; INHAUL_STATE can name a directory that this user may write to",
        false => "",
    }
}

/// Adds the file's name to an error of the system.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError { path: path.to_owned(), source }
}

/// Which other users may use a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Others may not read it: it holds a secret.
    None,
    /// Others may read it. Its content is trusted, so others may neither write to it nor replace it.
    Read,
}

/// The text of a file of at most `bytes_max`; `None` if there is none.
///
/// # Errors
/// When it cannot be read, and when others may do more than `others` says. Pipes have no others.
pub(crate) fn read(path: &Path, bytes_max: u64, others: Others) -> Result<Option<String>, FileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path)(error)),
    };
    check(path, &file.metadata().map_err(failed(path))?, others).map_err(failed(path))?;
    let mut text = String::new();
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(failed(path))?;
    if text.len() as u64 > bytes_max {
        let error = io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {bytes_max} bytes"));
        return Err(failed(path)(error));
    }
    Ok(Some(text))
}

/// The text of a small file with a secret, such as a token.
///
/// # Errors
/// When it cannot be read, is longer than `bytes_max`, or others may read it.
pub fn read_secret(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let none = || failed(path)(io::ErrorKind::NotFound.into());
    read(path, bytes_max, Others::None)?.ok_or_else(none)
}

/// Whether others may do no more with a file than they should.
fn check(path: &Path, file: &Metadata, others: Others) -> io::Result<()> {
    if !file.is_file() {
        return Ok(());
    }
    let (mode, shown) = (file.mode(), path.display());
    if others == Others::None && mode & 0o077 != 0 {
        let text = format!("others may read this secret; if they have not read it yet, run 'chmod 600 {shown}'");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if mode & WRITTEN_BY_OTHERS != 0 {
        let text = format!(
            "others may write to it, and its content is trusted; check its content, then run 'chmod go-w \
            {shown}'"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    let directory = std::fs::metadata(parent)?;
    if others == Others::Read && directory.mode() & WRITTEN_BY_OTHERS != 0 && directory.mode() & STICKY == 0 {
        let parent = parent.display();
        let text = format!("others may put another file in its place; look through it, and 'chmod go-w {parent}'");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// Makes the directory that `path` lies in, for its user alone.
fn make_parent(path: &Path) -> Result<(), FileError> {
    let Some(parent) = parent_of(path) else { return Ok(()) };
    make_directory(parent).map_err(failed(parent))
}

fn parent_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty())
}

/// Makes a directory and those above it. Each is its parent's user's: see [`give`].
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent_of(path).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        make_directory(parent)?;
    }
    let (parent, name) = open_parent(path)?;
    match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
        // Another process has been faster.
        Err(Errno::EXIST) if path.is_dir() => return Ok(()),
        made => made?,
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    give(&File::from(rustix::fs::openat(&parent, name, flags, Mode::empty())?), &parent)
}

/// Makes a file that was not there, for its user alone, and opens it for writing.
fn make_file(path: &Path, more: OFlags) -> io::Result<File> {
    let (parent, name) = open_parent(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | more;
    let file = File::from(rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?);
    give(&file, &parent)?;
    Ok(file)
}

/// The directory that `path` lies in, and the name in it. Files made through that directory lie in the checked one,
/// even if its user changes the path meanwhile.
fn open_parent(path: &Path) -> io::Result<(File, &OsStr)> {
    let parent = File::open(parent_of(path).unwrap_or(Path::new(".")))?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok((parent, name))
}

/// Gives a file that root has just made in another user's directory to that user, who could not use it otherwise.
fn give(made: &File, parent: &File) -> io::Result<()> {
    let parent = parent.metadata()?;
    if made.metadata()?.uid() != 0 || parent.uid() == 0 || parent.mode() & STICKY != 0 {
        return Ok(());
    }
    std::os::unix::fs::fchown(made, Some(parent.uid()), Some(parent.gid()))
}

/// A file beside `path`, readable only by its user, with a name that no other thread, process or container uses.
fn beside(path: &Path) -> Result<(PathBuf, File), FileError> {
    make_parent(path)?;
    let mut chance = [0; 8];
    rand::fill(&mut chance).map_err(|_| failed(path)(io::Error::other("the system has no random numbers")))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{:016x}", u64::from_le_bytes(chance)));
    let path = path.with_file_name(name);
    let file = make_file(&path, OFlags::empty()).map_err(failed(&path))?;
    Ok((path, file))
}

fn write_whole(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Makes a complete file, if it is missing. Returns whether it was made.
pub(crate) fn make(path: &Path, text: &str) -> Result<bool, FileError> {
    let (new, file) = beside(path)?;
    let made = write_whole(file, text).and_then(|()| match std::fs::hard_link(&new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        linked => linked.map(|()| true),
    });
    let _ = std::fs::remove_file(&new);
    made.map_err(failed(path))
}

/// Replaces a file by one with this text, for its user alone, in one step. What root makes so in the directory of another
/// user is that user's.
///
/// # Errors
/// When the directory may not be written to, or the disk is full.
pub fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    let (new, file) = beside(path)?;
    let replaced = write_whole(file, text).and_then(|()| std::fs::rename(&new, path));
    replaced.map_err(|error| {
        let _ = std::fs::remove_file(&new);
        failed(path)(error)
    })
}

/// Adds a line to a file, which is made if need be. Lines of several processes do not mix.
pub(crate) fn append(path: &Path, line: &str) -> Result<(), FileError> {
    make_parent(path)?;
    let made = match make_file(path, OFlags::APPEND) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().append(true).create(true).mode(0o600).open(path)
        }
        made => made,
    };
    let mut file = made.map_err(failed(path))?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(failed(path))
}

/// The lines of a file with their numbers from 1, without empty lines and comments, which begin with `#`.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let trimmed = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    trimmed.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_root_makes_in_another_user_s_directory_is_that_user_s() {
        let dir = tempfile::tempdir().unwrap();
        if dir.path().metadata().unwrap().uid() != 0 {
            return;
        }
        std::os::unix::fs::chown(dir.path(), Some(4242), Some(4243)).unwrap();
        let path = dir.path().join("deep/er/file");
        assert!(make(&path, "key").unwrap());
        append(&path.with_file_name("log"), "line").unwrap();
        replace(&path.with_file_name("hosts"), "host").unwrap();
        for made in ["deep", "deep/er", "deep/er/file", "deep/er/log", "deep/er/hosts"] {
            let made = dir.path().join(made).metadata().unwrap();
            assert_eq!((made.uid(), made.gid(), made.mode() & 0o077), (4242, 4243, 0));
        }
        // An existing file keeps its owner.
        let other = dir.path().join("other");
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("link")).unwrap();
        append(&dir.path().join("link"), "line").unwrap();
        assert_eq!(other.metadata().unwrap().uid(), 0);
    }

    #[test]
    fn files_are_made_once_and_for_their_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/file");
        assert!(make(&path, "first").unwrap());
        assert!(!make(&path, "second").unwrap());
        assert_eq!(read(&path, 100, Others::None).unwrap().as_deref(), Some("first"));
        append(&path, " line").unwrap();
        assert_eq!(read(&path, 100, Others::None).unwrap().as_deref(), Some("first line\n"));
        replace(&path, "third").unwrap();
        assert_eq!(read_secret(&path, 100).unwrap(), "third");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        assert!(read(&path, 4, Others::Read).unwrap_err().to_string().contains("longer than 4 bytes"));
        assert!(read(&dir.path().join("none"), 4, Others::Read).unwrap().is_none());
        assert!(read_secret(&dir.path().join("none"), 4).is_err());
    }

    #[test]
    fn of_many_who_make_a_file_at_once_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/file");
        let made = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..16)
                .map(|k| {
                    scope.spawn({
                        let path = &path;
                        move || make(path, &format!("{k}")).unwrap()
                    })
                })
                .collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).filter(|&made| made).count()
        });
        assert_eq!((made, std::fs::read_dir(path.parent().unwrap()).unwrap().count()), (1, 1));
    }

    #[test]
    fn a_file_that_others_may_change_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (state, path) = (dir.path().join("state"), dir.path().join("state/file"));
        append(&path, "line").unwrap();
        let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let why = |others| read(&path, 100, others).unwrap_err().to_string();
        for open in [0o620, 0o602, 0o666] {
            mode(&path, open);
            assert!(why(Others::Read).contains("'chmod go-w "), "{open:o}");
        }
        for open in [0o640, 0o604] {
            mode(&path, open);
            assert!(read(&path, 100, Others::Read).is_ok(), "{open:o}: what it says is no secret");
            assert!(why(Others::None).contains("'chmod 600 "), "{open:o}");
        }
        mode(&path, 0o600);
        for open in [0o770, 0o707] {
            mode(&state, open);
            let why = why(Others::Read);
            assert!(why.contains("another file in its place") && why.contains(&state.display().to_string()), "{why}");
        }
        mode(&state, 0o1777);
        assert!(read(&path, 100, Others::Read).is_ok());
    }
}
