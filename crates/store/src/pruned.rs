//! Directories of files of which those that were used last stay.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

/// Says that a file was used now. A directory that cannot say so still works.
pub(crate) fn touch(file: &File) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let _ = rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now });
}

/// If its files take more than `bytes_max` on the disk, removes what was not used for longest until at most `bytes_left`
/// are left. What cannot be removed stays.
pub(crate) fn prune(directory: &Path, bytes_max: u64, bytes_left: u64) {
    let Ok(directory) = std::fs::read_dir(directory) else { return };
    let usage = |item: std::io::Result<std::fs::DirEntry>| {
        let item = item.ok()?;
        let stat = item.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((stat.modified().ok()?, stat.blocks() * 512, item.path()))
    };
    let mut files: Vec<_> = directory.filter_map(usage).collect();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    if total <= bytes_max {
        return;
    }
    files.sort_unstable();
    for (_, bytes, path) in files {
        if total <= bytes_left {
            return;
        }
        let _ = std::fs::remove_file(path);
        total -= bytes;
    }
}
