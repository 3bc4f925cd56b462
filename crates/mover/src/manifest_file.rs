//! The list of checksums that a transfer leaves on request.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use inhaul_store::checksums::{Algorithm, Checksums, FileSum, Format};
use inhaul_store::{Kind, printable};

use crate::error::MoveError;
use crate::haul::Object;

/// Checks that the list can be written at the end: that nothing is there that may not be replaced.
pub(crate) fn check(path: &Path, overwrite: bool) -> Result<(), MoveError> {
    if !overwrite && path.symlink_metadata().is_ok() {
        let shown = printable(path.as_os_str().as_bytes());
        let detail = format!("the manifest '{shown}' exists already: remove it, or allow overwriting");
        return Err(MoveError::Destination { detail });
    }
    Ok(())
}

/// Writes the list of all that has come. Paths are relative to the directory of the one data set; of several, and of a
/// file, to where they landed.
pub(crate) fn write(path: &Path, objects: &[Object]) -> Result<(), MoveError> {
    let mut files: Vec<FileSum> = objects.iter().flat_map(|object| sums_of(object, objects.len() > 1)).collect();
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let kind = match objects {
        [only] => only.landing.manifest().kind(),
        // What else is in the directory that they landed in is nobody's business here.
        _ => Kind::File,
    };
    let list = Checksums { format: Format::Inhaul(kind), algorithm: Algorithm::Blake3, files };
    let written = std::fs::File::create(path).and_then(|mut file| {
        file.write_all(&list.write())?;
        file.sync_all()
    });
    written.map_err(|error| {
        let shown = printable(path.as_os_str().as_bytes());
        MoveError::Destination {
            detail: format!("all data has landed, but the manifest '{shown}' cannot be written: {error}"),
        }
    })
}

fn sums_of(object: &Object, one_of_several: bool) -> Vec<FileSum> {
    let target = object.landing.target();
    let name = target.file_name().unwrap_or_default().as_bytes();
    let manifest = object.landing.manifest();
    let path_of = |path: &[u8]| match manifest.kind() {
        Kind::File => name.to_vec(),
        Kind::Directory if one_of_several => [name, path].join(&b'/'),
        Kind::Directory => path.to_vec(),
    };
    let sum = |(index, entry): (usize, &inhaul_store::Entry)| {
        let checksum = object.hashes.get(&index)?.as_bytes().to_vec();
        Some(FileSum { path: path_of(&entry.path), size: Some(entry.size), checksum })
    };
    manifest.entries().iter().enumerate().filter_map(sum).collect()
}
