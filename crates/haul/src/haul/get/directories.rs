//! The directories that data sets land in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use inhaul_store::{make_parents, printable};

use super::Found;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::GetOptions;

/// The directories that were made for a transfer. When it has ended, those that are still empty are removed: nothing
/// may have landed.
pub struct CreatedDirectories<'a> {
    options: &'a GetOptions,
    /// Parents first.
    directories: Vec<PathBuf>,
}

impl<'a> CreatedDirectories<'a> {
    /// Makes the directories that are missing for what was `found`.
    pub fn prepare(options: &'a GetOptions, found: &[Found]) -> Result<Self, MoveError> {
        let places = || found.iter().filter_map(|data_set| data_set.request.place.as_deref());
        let mut names = BTreeSet::new();
        if let Some(twice) = places().find(|place| !names.insert(*place)) {
            return Err(MoveError::NameClash { path: printable(twice) });
        }
        let mut made = Self { options, directories: Vec::new() };
        if names.is_empty() {
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
        // Clients of an inbox cannot name places that lie deeper.
        for place in places().filter(|_| options.inbox.is_none()) {
            made.directories.extend(make_parents(path, place)?);
        }
        Ok(made)
    }
}

impl Drop for CreatedDirectories<'_> {
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
