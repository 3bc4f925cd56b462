//! Measures how fast the disk of a directory can be written, with a temporary file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Most that is written, and for how long.
const BYTES_MAX: u64 = 1_000_000_000;
const PATIENCE: Duration = Duration::from_secs(3);
/// What one call writes: as much as a transfer writes at a time.
const CHUNK: usize = 1 << 20;
/// At most this part of what is free is written.
const PART_OF_FREE: u64 = 4;

/// What was written, and in which time.
pub struct Measured {
    pub bytes: u64,
    pub seconds: f64,
}

/// Writes a file that has no name and goes when it is closed, also when this program is killed.
pub fn measure(dir: &Path) -> io::Result<Measured> {
    write(dir, PATIENCE, BYTES_MAX)
}

/// Writes at most this many bytes, rounded up to a megabyte, for at most this time.
pub fn write_for(dir: &Path, patience: Duration, bytes_max: u64) -> io::Result<Measured> {
    write(dir, patience, bytes_max.clamp(CHUNK as u64, BYTES_MAX))
}

fn write(dir: &Path, patience: Duration, bytes_max: u64) -> io::Result<Measured> {
    let stat = rustix::fs::statvfs(dir)?;
    let limit = bytes_max.min(stat.f_bavail.saturating_mul(stat.f_frsize) / PART_OF_FREE);
    if limit < CHUNK as u64 {
        return Err(Errno::NOSPC.into());
    }
    let mut file = nameless(dir)?;
    // A pattern that file systems do not compress away.
    let mut chunk = vec![0u8; CHUNK];
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for word in chunk.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    let began = Instant::now();
    let mut bytes = 0;
    while bytes + CHUNK as u64 <= limit && began.elapsed() < patience {
        // No two chunks are the same, for file systems that keep one of each.
        chunk[..8].copy_from_slice(&bytes.to_le_bytes());
        file.write_all(&chunk)?;
        bytes += CHUNK as u64;
    }
    file.sync_data()?;
    Ok(Measured { bytes, seconds: began.elapsed().as_secs_f64() })
}

fn nameless(dir: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        // File systems without it: the name goes at once.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let path = dir.join(format!(".inhaul-doctor-{}", std::process::id()));
            let file = File::create_new(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameless_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        nameless(dir.path()).unwrap().write_all(b"x").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
