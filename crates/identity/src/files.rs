//! Small files that only their user may read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// Adds the file's name to an error of the system.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError { path: path.to_owned(), source }
}

/// The text of a file of at most `bytes_max`; `None` if there is none.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Option<String>, FileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path)(error)),
    };
    let mut text = String::new();
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(failed(path))?;
    if text.len() as u64 > bytes_max {
        let error = io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {bytes_max} bytes"));
        return Err(failed(path)(error));
    }
    Ok(Some(text))
}

/// Whether others than its user may read a file.
pub(crate) fn is_open_to_others(path: &Path) -> Result<bool, FileError> {
    let mode = std::fs::metadata(path).map_err(failed(path))?.mode();
    Ok(mode & 0o077 != 0)
}

/// Makes the directory that `path` lies in, for its user alone.
fn make_parent(path: &Path) -> Result<(), FileError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed(parent))
}

/// A file beside `path`, for its user alone, that nobody else writes.
fn beside(path: &Path) -> Result<(PathBuf, File), FileError> {
    make_parent(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let path = path.with_file_name(name);
    // One that an earlier process of this number has left.
    let _ = std::fs::remove_file(&path);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed(&path))?;
    Ok((path, file))
}

fn write_whole(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Makes a file, whole, if there is none; whether it was made.
pub(crate) fn make(path: &Path, text: &str) -> Result<bool, FileError> {
    let (new, file) = beside(path)?;
    let made = write_whole(file, text).and_then(|()| match std::fs::hard_link(&new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        linked => linked.map(|()| true),
    });
    let _ = std::fs::remove_file(&new);
    made.map_err(failed(path))
}

/// Replaces a file by one with this text, in one step.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), FileError> {
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
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(failed(path))?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(failed(path))
}

/// The lines of a file that say something, counted from 1, without what stands behind `#` at their beginning.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let trimmed = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    trimmed.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_once_and_for_their_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/file");
        assert!(make(&path, "first").unwrap());
        assert!(!make(&path, "second").unwrap());
        assert_eq!(read(&path, 100).unwrap().as_deref(), Some("first"));
        assert!(!is_open_to_others(&path).unwrap());
        append(&path, " line").unwrap();
        assert_eq!(read(&path, 100).unwrap().as_deref(), Some("first line\n"));
        replace(&path, "third").unwrap();
        assert!(!is_open_to_others(&path).unwrap());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        assert!(read(&path, 4).unwrap_err().to_string().contains("longer than 4 bytes"));
        assert!(read(&dir.path().join("none"), 4).unwrap().is_none());
    }
}
