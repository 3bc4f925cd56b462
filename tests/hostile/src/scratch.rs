//! Places on disk, and what lies there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that goes when the test is done with it.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// An empty one.
    #[allow(clippy::new_without_default, reason = "it makes a directory, which no default should")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The directory as a destination for data sets to land in, with a slash at its end.
    pub fn inside(&self) -> PathBuf {
        self.path().join("")
    }

    /// Puts a file there, with the directories that lead to it.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Puts an empty directory there.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

/// A file system in memory, mounted for one test.
#[derive(Debug)]
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// One that holds `mebibytes`; `None`, and it says so, when this user may not mount one.
    pub fn mount(mebibytes: u32) -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        let size = format!("size={mebibytes}m");
        if disk.mounts(&["-t", "tmpfs", "-o", &size, "tmpfs"]) {
            return Some(disk);
        }
        println!("skipped: this user may not mount a file system");
        None
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The directory as a destination for data sets to land in, with a slash at its end.
    pub fn inside(&self) -> PathBuf {
        self.path().join("")
    }

    /// Makes it read-only.
    pub fn read_only(&self) -> bool {
        self.mounts(&["-o", "remount,ro"])
    }

    /// Fills it up to its last block with a file `filler`.
    pub fn fill(&self) {
        let mut filler = fs::File::create(self.path().join("filler")).unwrap();
        let block = vec![1; 1 << 16];
        while std::io::Write::write_all(&mut filler, &block).is_ok() {}
    }

    fn mounts(&self, args: &[&str]) -> bool {
        Command::new("mount").args(args).arg(self.path()).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, so that it goes whatever still has it open.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// Bytes that no two places of a file share, and that differ by `seed`.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64: no need for good randomness, only for no pattern.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// All names beneath `directory`, sorted; those of directories end with a slash.
pub fn tree(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(path) = pending.pop() {
        let Ok(entries) = fs::read_dir(&path) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = path.strip_prefix(directory).unwrap().as_os_str().as_encoded_bytes().escape_ascii().to_string();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(name + "/");
                pending.push(path);
            } else {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}
