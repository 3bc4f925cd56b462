//! Writes a file to a stream while it arrives: its groups in order, each when it is verified.
//!
//! The file lands like any other, in a temporary directory of the caller. So groups may arrive in any order and at any
//! rate. Groups that wait for their turn, or for a slow reader, are on the disk and not in memory.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use inhaul_store::digest::{ZEROS, group_count, group_range};
use inhaul_store::{Entry, Kind, Landing};

use inhaul_session::api::error::MoveError;
use inhaul_session::api::stream_output::StreamOutput;
use inhaul_session::system::threads;

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Streamer {
    /// To tell it which groups are verified.
    verified: Sender<u64>,
    thread: JoinHandle<Result<(), MoveError>>,
}

impl Streamer {
    /// Starts it for the one file that lands.
    pub(crate) fn start(landing: &Landing, output: StreamOutput) -> Result<Self, MoveError> {
        let manifest = landing.manifest();
        let entry = match (manifest.kind(), manifest.entries()) {
            (Kind::File, [entry]) => entry.clone(),
            _ => return Err(MoveError::Usage("a stream takes one file, and this is a directory".to_owned())),
        };
        if !landing.lands(0) {
            return Err(MoveError::Usage(
                "the one file for the stream is left out by --exclude or --include".to_owned(),
            ));
        }
        // It stays the same file when it gets its name, and when that goes.
        let file = landing.partial_file(0)?;
        let (verified, incoming) = channel();
        let run = move || write_in_order(&file, &entry, &output, &incoming);
        Ok(Self { verified, thread: threads::spawn_helper("inhaul-stream", run)? })
    }

    /// A group has been verified.
    pub(crate) fn verified(&self, group: u64) {
        // The thread may have failed, which is asked for elsewhere.
        let _ = self.verified.send(group);
    }

    /// Whether it has ended: before the last group is verified that is a failure.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until all that is verified has been written.
    pub(crate) fn finish(self) -> Result<(), MoveError> {
        drop(self.verified);
        self.thread.join().map_err(|_| MoveError::Internal("the thread of the stream has died".to_owned()))?
    }
}

/// Writes the groups of a file in order, as they are `verified`; ends with the last, or when no more will be.
fn write_in_order(
    file: &File,
    entry: &Entry,
    output: &StreamOutput,
    verified: &Receiver<u64>,
) -> Result<(), MoveError> {
    let count = if entry.size == 0 { 0 } else { group_count(entry.size) };
    let mut waiting = BTreeSet::new();
    let mut buffer = Vec::new();
    for group in 0..count {
        let len = group_range(entry.size, group).len() as usize;
        // Holes are as they should be by themselves.
        if entry.is_hole_group(group) {
            output.write(&ZEROS[..len])?;
            continue;
        }
        while !waiting.remove(&group) {
            match verified.recv() {
                Ok(other) => drop(waiting.insert(other)),
                Err(_) => return Ok(()),
            }
        }
        buffer.resize(len, 0);
        file.read_exact_at(&mut buffer, group_range(entry.size, group).start)
            .map_err(MoveError::system("what waits for the stream cannot be read back"))?;
        output.write(&buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::digest::GROUP_BYTES;
    use std::io::{self, Read, Write};

    const SIZE: u64 = 3 * GROUP_BYTES + 5;

    fn spooled() -> (File, Vec<u8>, Entry) {
        let bytes: Vec<u8> = (0..SIZE).map(|at| (at * 7 + at / 1000) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes, Entry { path: b"f".to_vec(), size: SIZE, ..Entry::default() })
    }

    #[test]
    fn groups_are_written_in_order_whatever_order_they_are_verified_in() {
        let (file, bytes, entry) = spooled();
        let (verified, incoming) = channel();
        [2, 0, 3, 1].into_iter().for_each(|group| verified.send(group).unwrap());
        let out = tempfile::NamedTempFile::new().unwrap();
        let output = StreamOutput::new(out.reopen().unwrap());
        write_in_order(&file, &entry, &output, &incoming).unwrap();
        assert!(std::fs::read(out.path()).unwrap() == bytes);
        assert_eq!(output.written_bytes(), SIZE);
    }

    #[test]
    fn nothing_is_written_beyond_what_is_verified() {
        let (file, bytes, entry) = spooled();
        let (verified, incoming) = channel();
        [0, 2, 3].into_iter().for_each(|group| verified.send(group).unwrap());
        drop(verified);
        let out = tempfile::NamedTempFile::new().unwrap();
        write_in_order(&file, &entry, &StreamOutput::new(out.reopen().unwrap()), &incoming).unwrap();
        assert!(std::fs::read(out.path()).unwrap() == bytes[..GROUP_BYTES as usize]);
    }

    #[test]
    fn a_reader_that_goes_is_named() {
        let (file, _, entry) = spooled();
        let (verified, incoming) = channel();
        (0..4).for_each(|group| verified.send(group).unwrap());
        let (mut reader, writer) = io::pipe().unwrap();
        let output = StreamOutput::new(File::from(std::os::fd::OwnedFd::from(writer)));
        let thread = std::thread::spawn(move || write_in_order(&file, &entry, &output, &incoming));
        let mut first = [0; 10];
        reader.read_exact(&mut first).unwrap();
        drop(reader);
        let error = thread.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("has closed it"), "{error}");
    }
}
