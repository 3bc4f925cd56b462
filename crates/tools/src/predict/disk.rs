//! The speed of the destination's file system: bytes of one file a second, and small files a second.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::wanted::Wanted;
use inhaul_session::system::disk::write_for;
use inhaul_session::system::process;

/// How long bytes are written, and small files made.
const WRITING: Duration = Duration::from_millis(1500);
const NAMING: Duration = Duration::from_millis(300);
/// Small files that are made at once, and synced together as transfers do.
const FILES_MAX: usize = 2_000;
/// Largest of these, in bytes: the bytes count elsewhere.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) bytes_per_second: f64,
    pub(super) seconds_per_file: f64,
    /// Of these, what this process spent on a processor.
    pub(super) cpu_seconds_per_byte: f64,
    pub(super) cpu_seconds_per_file: f64,
}

/// Tries the file system that `target` will lie on.
pub(super) fn measure(target: &Path, wanted: &Wanted) -> io::Result<Measured> {
    let directory = existing(target);
    let mut measured = Measured { bytes_per_second: f64::INFINITY, ..Measured::default() };
    if wanted.bytes > 0 {
        // No more than the transfer itself would write: a write-back cache takes that, too.
        let (written, cpu) = timed(|| write_for(directory, WRITING, wanted.bytes))?;
        measured.bytes_per_second = written.bytes as f64 / written.seconds;
        measured.cpu_seconds_per_byte = cpu / written.bytes as f64;
    }
    if wanted.files > 1 {
        let ((made, seconds), cpu) = timed(|| make_files(directory, wanted.bytes / wanted.files as u64, wanted.files))?;
        measured.seconds_per_file = seconds / made as f64;
        measured.cpu_seconds_per_file = cpu / made as f64;
    }
    Ok(measured)
}

/// The result of `work`, and the seconds of processor time that this process spends on it.
fn timed<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, f64)> {
    let before = process::cpu_time();
    let result = work()?;
    Ok((result, process::cpu_time().saturating_sub(before).as_secs_f64()))
}

/// The directory itself, or the closest one above it that is there.
fn existing(target: &Path) -> &Path {
    let is_there = |path: &&Path| path.is_dir();
    let above = target.ancestors().filter(|path| !path.as_os_str().is_empty()).find(is_there);
    above.unwrap_or_else(|| if target.is_absolute() { Path::new("/") } else { Path::new(".") })
}

/// A directory that goes with all that is in it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed has a name that says whose it was.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes small files as transfers do: written, renamed, and synced together. Returns how many, and the seconds that
/// all took.
fn make_files(directory: &Path, size: u64, wanted: usize) -> io::Result<(usize, f64)> {
    let scratch = Scratch(directory.join(format!(".inhaul-plan-{}", std::process::id())));
    fs::create_dir(&scratch.0)?;
    let content = vec![0xA5; size.min(FILE_BYTES_MAX) as usize];
    let began = Instant::now();
    let mut made = 0;
    while made < FILES_MAX.min(wanted) && began.elapsed() < NAMING {
        let name = scratch.0.join(made.to_string());
        let partial = name.with_extension("partial");
        File::create_new(&partial)?.write_all(&content)?;
        fs::rename(&partial, &name)?;
        made += 1;
    }
    rustix::fs::syncfs(File::open(&scratch.0)?)?;
    Ok((made.max(1), began.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measure_leaves_nothing_and_finds_a_place_for_what_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = Wanted { bytes: 3_000_000, files: 20, files_kept: 0 };
        let measured = measure(&dir.path().join("not/there/yet"), &wanted).unwrap();
        assert!(measured.bytes_per_second > 0.0 && measured.seconds_per_file > 0.0, "{measured:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(existing(Path::new("surely-not-there")), Path::new("."));
    }
}
