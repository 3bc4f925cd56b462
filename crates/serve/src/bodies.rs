//! A server's data: the bytes of the data sets that its flows are of, read from their files.
//!
//! A file that cannot be read, or is not what was listed, does not end the flow: its bytes are sent as zeros, so that
//! the transport goes on, and the receiver is told over the control stream to forget the file.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use inhaul_base::ByteRange;
use inhaul_store::{DataSet, Piece};
use inhaul_transport::FlowId;

use crate::hasher::problem_of;
use inhaul_engine::engine::BodySource;
use inhaul_session::session::frame::FileProblem;

/// How far ahead of what is sent the kernel is asked to read from disk, and in what steps.
const READ_AHEAD: u64 = 8 << 20;
const READ_AHEAD_STEP: u64 = 2 << 20;

/// The data of all flows of a server.
#[derive(Default)]
pub struct FileBodies {
    flows: BTreeMap<FlowId, FlowBodies>,
    /// Files that were found to have failed, each once for each flow.
    failed: Vec<FailedFile>,
}

/// A file that a flow's receiver must be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedFile {
    pub(crate) flow: FlowId,
    /// By its index in the manifest.
    pub(crate) file: usize,
    pub(crate) problem: FileProblem,
}

struct FlowBodies {
    data_set: Arc<DataSet>,
    /// The file that was read last, and up to where the kernel has been asked to read it.
    ahead: (usize, u64),
    /// Bytes that were read to be sent, those that are sent again included.
    sent_bytes: u64,
    /// Files that have failed.
    failed: BTreeMap<usize, FileProblem>,
}

impl FileBodies {
    /// A flow begins, to which `sent_bytes` have been sent already.
    pub(crate) fn insert(&mut self, flow: FlowId, data_set: Arc<DataSet>, sent_bytes: u64) {
        let bodies = FlowBodies { data_set, ahead: (usize::MAX, 0), sent_bytes, failed: BTreeMap::new() };
        self.flows.insert(flow, bodies);
    }

    pub(crate) fn remove(&mut self, flow: FlowId) {
        self.flows.remove(&flow);
    }

    /// The files that were found to have failed since this was asked last.
    pub(crate) fn take_failed(&mut self) -> Vec<FailedFile> {
        std::mem::take(&mut self.failed)
    }

    /// How many bytes of its data set a flow has been sent, those that were sent again included.
    pub(crate) fn sent_bytes(&self, flow: FlowId) -> u64 {
        self.flows.get(&flow).map_or(0, |bodies| bodies.sent_bytes)
    }
}

impl FlowBodies {
    /// Reads what can be read; gives the files that cannot, and were not known to be such.
    fn read(&mut self, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> Vec<(usize, FileProblem)> {
        let len: u64 = bodies.iter().map(|body| body.len() as u64).sum();
        self.sent_bytes += len;
        if self.failed.is_empty() && self.data_set.read_vectored(offset, bodies).is_ok() {
            if let Some(piece) = self.data_set.manifest().locate(ByteRange::at(offset, len)).last() {
                self.read_ahead(piece);
            }
            return Vec::new();
        }
        let mut news = Vec::new();
        let mut at = offset;
        for body in bodies {
            news.extend(self.read_what_there_is(at, body));
            at += body.len() as u64;
        }
        news
    }

    /// The same for one body, file by file.
    fn read_what_there_is(&mut self, offset: u64, body: &mut [u8]) -> Vec<(usize, FileProblem)> {
        let data_set = Arc::clone(&self.data_set);
        let mut news = Vec::new();
        let (mut at, mut rest) = (offset, body);
        for piece in data_set.manifest().locate(ByteRange::at(offset, rest.len() as u64)) {
            let (part, behind) = rest.split_at_mut(piece.len as usize);
            let failed = if self.failed.contains_key(&piece.file) { None } else { Some(data_set.read(at, part)) };
            match failed {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    part.fill(0);
                    log::warn!("{error}");
                    self.failed.insert(piece.file, problem_of(&error));
                    news.push((piece.file, problem_of(&error)));
                }
                None => part.fill(0),
            }
            (at, rest) = (at + piece.len, behind);
        }
        // Nothing lies beyond the end.
        rest.fill(0);
        news
    }

    /// Has the kernel read on behind `piece`, unless it does already.
    fn read_ahead(&mut self, piece: Piece) {
        let (file, end) = (piece.file, piece.offset + piece.len);
        let size = self.data_set.manifest().entries()[file].size;
        let asked = if self.ahead.0 == file { self.ahead.1 } else { end };
        let wanted = size.min(end + READ_AHEAD);
        // The end of a file is worth a smaller step, small files are not.
        if wanted >= asked + READ_AHEAD_STEP || (wanted == size && wanted > asked && size > READ_AHEAD_STEP) {
            self.data_set.read_ahead(file, ByteRange::new(asked.max(end), wanted));
            self.ahead = (file, wanted);
        }
    }
}

impl BodySource for FileBodies {
    fn read(&mut self, flow: FlowId, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let of = self.flows.get_mut(&flow).ok_or_else(|| io::Error::other("the flow has ended"))?;
        let news = of.read(offset, bodies);
        self.failed.extend(news.into_iter().map(|(file, problem)| FailedFile { flow, file, problem }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::{Offered, ScanOptions};

    const FLOW: FlowId = FlowId(1);

    fn offered(dir: &std::path::Path) -> FileBodies {
        let data_set = Offered::new(&[dir.to_path_buf()]).unwrap().scan(b"", ScanOptions::default()).unwrap();
        let mut bodies = FileBodies::default();
        bodies.insert(FLOW, Arc::new(data_set), 0);
        bodies
    }

    /// Reads three bodies of `len` bytes from `offset` on.
    fn read(bodies: &mut FileBodies, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut memory = vec![0; 3 * len];
        let mut slices: Vec<_> = memory.chunks_mut(len).map(IoSliceMut::new).collect();
        bodies.read(FLOW, offset, &mut slices).map(|()| memory)
    }

    #[test]
    fn read_fills_bodies_across_the_borders_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let large: Vec<u8> = (0..3 << 20).map(|n: u32| (n / 7 + n / 251) as u8).collect();
        for (name, bytes) in [("a", &b"small"[..]), ("b", &large), ("c", b""), ("d", b"tiny")] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let all = [b"small", &large[..], b"tiny"].concat();
        let mut bodies = offered(dir.path());
        for (offset, len) in [(0, 1), (2, 2), (3, 1_440), (1 << 20, 20_000), (all.len() - 9, 3), (all.len() - 6, 2)] {
            let found = read(&mut bodies, offset as u64, len).unwrap();
            assert!(found == all[offset..offset + 3 * len], "{len} bytes at {offset}");
        }
        assert!(bodies.read(FlowId(2), 0, &mut []).is_err(), "of another flow");
    }

    #[test]
    fn a_file_that_was_truncated_or_is_gone_is_zeros_and_named_once() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(dir.path().join(name), [7; 10_000]).unwrap();
        }
        let mut bodies = offered(dir.path());
        read(&mut bodies, 10_000, 100).unwrap();
        std::fs::File::options().write(true).open(dir.path().join("b")).unwrap().set_len(5_000).unwrap();
        std::fs::remove_file(dir.path().join("c")).unwrap();
        let failed = |file| FailedFile { flow: FLOW, file, problem: FileProblem::Changed };
        let sevens = |count: usize| [vec![7; count], vec![0; 30 - count]].concat();
        for (offset, expected, news) in [
            (9_990, sevens(30), vec![]),
            (14_985, sevens(10), vec![failed(1)]),
            (9_990, sevens(10), vec![]),
            (19_990, sevens(0), vec![failed(2)]),
            (20_000, sevens(0), vec![]),
            // What is there still comes.
            (9_970, sevens(30), vec![]),
        ] {
            assert_eq!(read(&mut bodies, offset, 10).unwrap(), expected, "{offset}");
            assert_eq!(bodies.take_failed(), news, "{offset}");
        }
    }

    #[test]
    fn memory_is_of_what_is_read_and_not_of_the_size_of_the_file() {
        // Where a file system takes so large a file: memory does.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("huge");
        let size = 7 << 60;
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        let mut bodies = offered(dir.path());
        for offset in [0, 1 << 40, size - 300] {
            assert_eq!(read(&mut bodies, offset, 100).unwrap(), [0; 300]);
        }
    }
}
