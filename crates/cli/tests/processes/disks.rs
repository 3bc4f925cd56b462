//! Destinations that are full, fill up or are read-only, on small file systems in memory. They need root; without it
//! they say that they are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Outcome, Server, noise, run, start, tree, wait_until, within};

/// Bytes of the file that is offered.
const SIZE: usize = 12_000_000;

/// A file system in memory that holds 16 MiB, mounted for one test.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", "size=16m", "tmpfs"], dir.path());
        if !mounted {
            println!("skipped: this user may not mount a file system");
        }
        mounted.then_some(Self { dir })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }

    /// Fills the disk up to its last block.
    fn fill(&self) {
        let mut filler = std::fs::File::create(self.path().join("filler")).unwrap();
        let block = vec![1; 1 << 16];
        while std::io::Write::write_all(&mut filler, &block).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, so that it goes even if a process still has it open.
        let _ = Command::new("umount").arg("--lazy").arg(self.dir.path()).status();
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    Command::new("mount").args(args).arg(at).output().is_ok_and(|output| output.status.success())
}

fn offered() -> (tempfile::TempDir, Server, String) {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), noise(SIZE, 1)).unwrap();
    let server = Server::offer(from.path());
    let source = format!("inhaul://{}/f", server.address);
    (from, server, source)
}

fn assert_said(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
}

fn names(dir: &Path) -> Vec<String> {
    tree(dir).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn disk_that_is_too_small_is_8_before_anything_is_written() {
    let (Some(disk), (_from, _server, source)) = (SmallDisk::mount(), offered()) else { return };
    std::fs::write(disk.path().join("other"), vec![1; 8_000_000]).unwrap();
    let outcome = run(&["get", &source, &within(&disk.path())]);
    assert_said(&outcome, 8, "12.0 MB needed, 8.8 MB free; make room");
    assert_eq!(names(&disk.path()), ["other"]);
}

#[test]
fn disk_too_small_for_two_data_sets_together_is_8_before_anything_is_written() {
    let (Some(disk), (_from, _server, one)) = (SmallDisk::mount(), offered()) else { return };
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("g"), noise(SIZE, 2)).unwrap();
    let server = Server::offer(other.path());
    let two = format!("inhaul://{}/g", server.address);
    let outcome = run(&["get", &one, &two, &within(&disk.path())]);
    assert_said(&outcome, 8, "24.0 MB needed");
    assert_eq!(names(&disk.path()), [""; 0]);
}

#[test]
fn disk_that_fills_up_meanwhile_is_8() {
    let (Some(disk), (_from, _server, source)) = (SmallDisk::mount(), offered()) else { return };
    // It would take ten seconds.
    let client = start(&["get", &source, &within(&disk.path()), "--receive-rate", "10M"]);
    wait_until("the transfer", || disk.path().join("f.partial").exists());
    disk.fill();
    assert_said(&client.finish(), 8, "make room, or choose another destination");
    assert_eq!(names(&disk.path()), ["filler"]);
}

#[test]
fn disk_that_is_read_only_is_9() {
    let (Some(disk), (_from, _server, source)) = (SmallDisk::mount(), offered()) else { return };
    assert!(mount(&["-o", "remount,ro"], &disk.path()));
    let outcome = run(&["get", &source, &within(&disk.path())]);
    assert_said(&outcome, 9, "choose a destination that you may write to");
    assert_eq!(names(&disk.path()), [""; 0]);
}
