//! A server's data: the bytes of the data sets that its flows are of, read from their files.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use inhaul_base::ByteRange;
use inhaul_store::{DataSet, Piece, UnreadableFile};
use inhaul_transport::FlowId;

use crate::engine::BodySource;

/// How far ahead of what is sent the kernel is asked to read from disk, and in what steps.
const READ_AHEAD: u64 = 8 << 20;
const READ_AHEAD_STEP: u64 = 2 << 20;

/// The data of all flows of a server.
#[derive(Default)]
pub(crate) struct FileBodies {
    flows: BTreeMap<FlowId, FlowBodies>,
}

struct FlowBodies {
    data_set: Arc<DataSet>,
    /// The file that was read last, and up to where the kernel has been asked to read it.
    ahead: (usize, u64),
    /// Bytes that were read to be sent, those that are sent again included.
    sent_bytes: u64,
}

impl FileBodies {
    pub(crate) fn insert(&mut self, flow: FlowId, data_set: Arc<DataSet>) {
        self.flows.insert(flow, FlowBodies { data_set, ahead: (usize::MAX, 0), sent_bytes: 0 });
    }

    pub(crate) fn remove(&mut self, flow: FlowId) {
        self.flows.remove(&flow);
    }

    /// How many bytes of its data set a flow has been sent, those that were sent again included.
    pub(crate) fn sent_bytes(&self, flow: FlowId) -> u64 {
        self.flows.get(&flow).map_or(0, |bodies| bodies.sent_bytes)
    }
}

impl FlowBodies {
    fn read(&mut self, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> Result<(), UnreadableFile> {
        let len: usize = bodies.iter().map(|body| body.len()).sum();
        self.data_set.read_vectored(offset, bodies)?;
        self.sent_bytes += len as u64;
        if let Some(piece) = self.data_set.manifest().locate(ByteRange::at(offset, len as u64)).last() {
            self.read_ahead(piece);
        }
        Ok(())
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
        let flow = self.flows.get_mut(&flow).ok_or_else(|| io::Error::other("the flow has ended"))?;
        // The error tells which file it is, for whoever looks into it.
        flow.read(offset, bodies).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::{Offered, OfferedError, ScanOptions};

    const FLOW: FlowId = FlowId(1);

    fn offered(dir: &std::path::Path) -> FileBodies {
        let data_set = Offered::new(&[dir.to_path_buf()]).unwrap().scan(b"", ScanOptions::default()).unwrap();
        let mut bodies = FileBodies::default();
        bodies.insert(FLOW, Arc::new(data_set));
        bodies
    }

    /// Reads three bodies of `len` bytes from `offset` on.
    fn read(bodies: &mut FileBodies, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut memory = vec![0; 3 * len];
        let mut slices: Vec<_> = memory.chunks_mut(len).map(IoSliceMut::new).collect();
        bodies.read(FLOW, offset, &mut slices).map(|()| memory)
    }

    fn failed_file(error: &io::Error) -> usize {
        error.get_ref().unwrap().downcast_ref::<UnreadableFile>().unwrap().file
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
        assert!(read(&mut bodies, all.len() as u64 - 5, 2).is_err(), "beyond the end");
        assert!(bodies.read(FlowId(2), 0, &mut []).is_err(), "of another flow");
    }

    #[test]
    fn read_names_the_file_that_was_truncated_or_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(dir.path().join(name), [7; 10_000]).unwrap();
        }
        let mut bodies = offered(dir.path());
        read(&mut bodies, 10_000, 100).unwrap();
        std::fs::File::options().write(true).open(dir.path().join("b")).unwrap().set_len(5_000).unwrap();
        std::fs::remove_file(dir.path().join("c")).unwrap();
        for (offset, file) in [(14_990, 1), (19_990, 1), (20_000, 2)] {
            let error = read(&mut bodies, offset, 10).unwrap_err();
            assert_eq!(failed_file(&error), file);
            assert!(error.to_string().contains("has changed"), "{error}");
        }
        // What is there still comes.
        read(&mut bodies, 0, 3_333).unwrap();
        read(&mut bodies, 10_000, 1_000).unwrap();
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
        let error = bodies.flows[&FLOW].data_set.read_vectored(size, &mut [IoSliceMut::new(&mut [0])]).unwrap_err();
        assert!(matches!(error.source, OfferedError::OutOfRange(_)), "{error}");
    }
}
