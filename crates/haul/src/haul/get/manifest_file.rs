//! The list of checksums that a transfer writes on request (`get --manifest`).

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use inhaul_store::checksums::{Algorithm, Checksums, FileSum, Format};
use inhaul_store::{Kind, printable};

use crate::haul::transfer::{Haul, Object};
use inhaul_session::api::error::MoveError;

/// Checks that the list can be written at the end: that nothing is there that may not be replaced.
pub(crate) fn check(path: &Path, overwrite: bool) -> Result<(), MoveError> {
    if !overwrite && path.symlink_metadata().is_ok() {
        let shown = printable(path.as_os_str().as_bytes());
        let detail = format!("the manifest '{shown}' exists already: remove it, or allow overwriting");
        return Err(MoveError::Destination { detail });
    }
    Ok(())
}

/// Writes the list of all fetched files. Paths are relative to the directory of the one data set. For several data
/// sets, and for a file, they are relative to the destination. Files that existed before are not in the list, because
/// they were not verified; a warning says so.
pub(crate) fn write(path: &Path, haul: &mut Haul) -> Result<(), MoveError> {
    let objects = &haul.objects;
    let mut files: Vec<FileSum> = objects.iter().flat_map(|object| sums_of(object, objects.len() > 1)).collect();
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let names: usize = objects.iter().map(|object| object.landing.manifest().names().len()).sum();
    let left_out = names - files.len();
    let kind = match objects.as_slice() {
        [only] if left_out == 0 => only.landing.manifest().kind(),
        // Other files in the destination's directory do not belong in the list.
        _ => Kind::File,
    };
    let list = Checksums { format: Format::Inhaul(kind), algorithm: Algorithm::Blake3, files };
    let shown = printable(path.as_os_str().as_bytes());
    let written = std::fs::File::create(path).and_then(|mut file| {
        file.write_all(&list.write())?;
        file.sync_all()
    });
    written.map_err(|error| MoveError::Destination {
        detail: format!("all data has landed, but the manifest '{shown}' cannot be written: {error}"),
    })?;
    if left_out > 0 {
        haul.warn(format!(
            "the manifest '{shown}' leaves out {left_out} files that did not come now: 'inhaul manifest' lists all that are there"
        ));
    }
    Ok(())
}

fn sums_of(object: &Object, one_of_several: bool) -> Vec<FileSum> {
    let plan = object.landing.plan();
    let target = plan.target();
    let name = target.file_name().unwrap_or_default().as_bytes();
    let manifest = plan.manifest();
    let path_of = |path: &[u8]| match manifest.kind() {
        Kind::File => name.to_vec(),
        Kind::Directory if one_of_several => [name, path].join(&b'/'),
        Kind::Directory => path.to_vec(),
    };
    let sum = |(path, file): (&[u8], usize)| {
        let checksum = object.finished.get(&file)?.as_ref()?.as_bytes().to_vec();
        // Of a file's names some may not have been wanted.
        let is_there = |path| target.join(OsStr::from_bytes(path)).symlink_metadata().is_ok();
        if manifest.kind() == Kind::Directory && !is_there(path) {
            return None;
        }
        Some(FileSum { path: path_of(path), size: Some(manifest.entries()[file].size), checksum })
    };
    manifest.names().into_iter().filter_map(sum).collect()
}
