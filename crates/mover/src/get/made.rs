//! The directories that data sets land in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use inhaul_store::{make_parents, printable};

use super::Found;
use crate::error::MoveError;
use crate::options::GetOptions;

/// The directories that were made for a transfer; removed again, as far as they are empty, when it has ended: it may have brought
/// nothing.
pub(super) struct Made<'a> {
    options: &'a GetOptions,
    /// Parents first.
    directories: Vec<PathBuf>,
}

impl<'a> Made<'a> {
    /// Makes the directories that are missing for what was `found` of `count` data sets.
    pub(super) fn prepare(options: &'a GetOptions, found: &[Found], count: usize) -> Result<Self, MoveError> {
        let mut names = BTreeSet::new();
        for name in found.iter().filter(|data_set| data_set.request.place.is_none()).map(|found| found.manifest.name())
        {
            if !names.insert(name) {
                return Err(MoveError::NameClash { path: printable(name) });
            }
        }
        let mut made = Self { options, directories: Vec::new() };
        let places = || found.iter().filter_map(|data_set| data_set.request.place.as_deref());
        if count < 2 && places().next().is_none() {
            return Ok(made);
        }
        let path = &options.destination;
        let is_new = match &options.inbox {
            Some(inbox) => inbox.make_directory(path)?,
            None => make_directory(path)?,
        };
        if is_new {
            made.directories.push(path.clone());
        }
        for place in places() {
            made.directories.extend(make_parents(path, place.as_bytes())?);
        }
        Ok(made)
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for path in self.directories.iter().rev() {
            // Once something has landed in it, it stays, because it is not empty.
            match &self.options.inbox {
                Some(inbox) => inbox.remove_directory(path),
                None => drop(std::fs::remove_dir(path)),
            }
        }
    }
}

/// Makes a directory, and says whether it was not there before.
fn make_directory(path: &Path) -> Result<bool, MoveError> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(MoveError::Destination {
            detail: format!("'{}' is no directory: this needs one to land in", path.display()),
        }),
        Err(error) => Err(MoveError::Destination {
            detail: format!("cannot make the directory '{}': {error}; choose another destination", path.display()),
        }),
    }
}
