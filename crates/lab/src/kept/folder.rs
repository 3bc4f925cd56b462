//! Reads all kept results of a directory. For every other file there, says why it is not a kept result.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Kept, KeptError, READ_MAX, printable};

/// Directories within each other, and files in all, that are looked at.
const DEPTH_MAX: usize = 8;
const FILES_MAX: usize = 4096;

/// The content of a directory.
#[derive(Debug, Default)]
pub struct Kepts {
    /// The results, in the order of their paths.
    pub results: Vec<Found>,
    /// The files that cannot be used.
    pub problems: Vec<Problem>,
}

/// A result and where it stands.
#[derive(Debug)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub kept: Kept,
}

/// A file that cannot be used, and why.
#[derive(Debug)]
pub struct Problem {
    /// Its path.
    pub path: PathBuf,
    /// The fault.
    pub error: KeptError,
}

impl Problem {
    /// In a sentence.
    pub fn message(&self) -> String {
        let path = printable(&self.path.to_string_lossy());
        match &self.error {
            KeptError::System(error) => format!("{path} cannot be read: {error}"),
            error => format!("{path} {error}"),
        }
    }
}

/// Reads every `.json` file below a directory, or a single file. Links are not followed.
///
/// # Errors
/// If `path` itself cannot be read. Faults of files below it are in [`Kepts::problems`], and the rest is read.
pub fn read_kept(path: &Path) -> std::io::Result<Kepts> {
    let mut kepts = Kepts::default();
    if fs::metadata(path)?.is_dir() {
        let mut files = 0;
        kepts.read_folder(path, DEPTH_MAX, &mut files)?;
    } else {
        File::open(path)?;
        kepts.read(path.to_owned());
    }
    Ok(kepts)
}

impl Kepts {
    fn read_folder(&mut self, folder: &Path, depth: usize, files: &mut usize) -> std::io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let is_result = kind.is_file() && path.extension().is_some_and(|extension| extension == "json");
            *files += usize::from(is_result);
            if (kind.is_dir() && depth == 0) || (is_result && *files > FILES_MAX) {
                self.problems.push(Problem { path, error: KeptError::TooMany });
                return Ok(());
            }
            if kind.is_dir() {
                if let Err(error) = self.read_folder(&path, depth - 1, files) {
                    self.problems.push(Problem { path, error: error.into() });
                }
            } else if is_result {
                self.read(path);
            }
        }
        Ok(())
    }

    fn read(&mut self, path: PathBuf) {
        match read_file(&path) {
            Ok(kept) => match self.results.iter().find(|found| found.kept.path() == kept.path()) {
                Some(first) => {
                    let error = KeptError::Second(printable(&first.path.to_string_lossy()));
                    self.problems.push(Problem { path, error });
                }
                None => self.results.push(Found { path, kept }),
            },
            Err(error) => self.problems.push(Problem { path, error }),
        }
    }
}

fn read_file(path: &Path) -> Result<Kept, KeptError> {
    let mut text = Vec::new();
    // One byte more than may be, so that a file that grows while it is read is noticed as well.
    File::open(path)?.take(READ_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > READ_MAX {
        return Err(KeptError::TooLarge);
    }
    let text = String::from_utf8(text).map_err(|error| KeptError::Damaged(error.to_string()))?;
    Kept::from_json(&text)
}
