//! Directories and files on disk.

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
    /// A file system of `mebibytes`. If this user may not mount one: `None`, with a message.
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
        // Lazily, so that it goes even if a process still has it open.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// A disk that cannot read some of the written data (EIO): a loop device whose backing file is cut short.
pub struct FailingDisk {
    image: tempfile::TempDir,
    mounted: SmallDisk,
}

impl FailingDisk {
    /// A disk that holds `files`. Half of the file whose name it returns cannot be read. If this user may not mount
    /// one, or has no ext4: `None`, with a message.
    pub fn mount(files: &[(&str, Vec<u8>)]) -> Option<(Self, String)> {
        let disk = Self { image: tempfile::tempdir().unwrap(), mounted: SmallDisk(tempfile::tempdir().unwrap()) };
        let image = disk.image.path().join("image");
        let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        fs::File::create(&image).unwrap().set_len(2 * bytes as u64 + (8 << 20)).unwrap();
        let mkfs =
            Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-O", "^has_journal"]).arg(&image).output();
        let path = image.to_str().unwrap();
        if !mkfs.is_ok_and(|output| output.status.success()) || !disk.mounted.mounts(&["-o", "loop", path]) {
            println!("skipped: no ext4, or this user may not mount it");
            return None;
        }
        for (name, bytes) in files {
            fs::write(disk.mounted.path().join(name), bytes).unwrap();
        }
        // Nothing of it stays in memory.
        let unmounted = Command::new("umount").arg(disk.mounted.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        let mut blocks: Vec<(Vec<u64>, &str)> = files.iter().map(|(name, _)| (blocks(&image, name), *name)).collect();
        blocks.sort_by_key(|(blocks, _)| blocks.iter().max().copied());
        let (last, name) = blocks.pop().unwrap();
        let others = blocks.iter().flat_map(|(blocks, _)| blocks).max().copied().unwrap_or(0);
        let half = last[last.len() / 2];
        assert!(others < half, "'{name}' lies behind the others");
        assert!(disk.mounted.mounts(&["-o", "loop,ro", path]));
        fs::File::options().write(true).open(&image).unwrap().set_len(half * 4096).unwrap();
        Some((disk, name.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }
}

/// The blocks of 4096 bytes that a file of an ext4 file system lies in.
fn blocks(image: &Path, name: &str) -> Vec<u64> {
    let output = Command::new("debugfs").args(["-R", &format!("blocks /{name}")]).arg(image).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(|block| block.parse().unwrap()).collect()
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
