//! A server's data: the bytes of its data sets, from mapped files where they are large and from memory where they are small.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use inhaul_base::ByteRange;
use inhaul_store::{DataSet, Piece};
use inhaul_transport::{FlowId, TxBatch};
use inhaul_udp::{BodySource, IoVecs, MappedFile};

use crate::port::Bodies;

/// Files from this size on are mapped; smaller ones are read, because a mapping costs more than it saves.
const MAPPED_BYTES_MIN: u64 = 1 << 20;
/// Files that one flow keeps mapped. A batch falls on fewer files than that.
const MAPPED_FILES_MAX: usize = 1024;

/// The data of all flows of a server.
#[derive(Default)]
pub(crate) struct FileBodies {
    flows: BTreeMap<FlowId, FlowBodies>,
}

struct FlowBodies {
    data_set: Arc<DataSet>,
    mapped: BTreeMap<usize, Mapping>,
    /// Bodies of the current batch that were read into memory, by where they begin.
    read: BTreeMap<u64, Vec<u8>>,
    /// Counts batches, to know which mapping has not been used for the longest time.
    turn: u64,
    /// Bytes of bodies that were made ready to be sent, those that are sent again included.
    sent_bytes: u64,
    /// Why the last body could not be had.
    failure: Option<String>,
}

struct Mapping {
    file: MappedFile,
    used: u64,
}

impl FileBodies {
    pub(crate) fn insert(&mut self, flow: FlowId, data_set: Arc<DataSet>) {
        let bodies = FlowBodies {
            data_set,
            mapped: BTreeMap::new(),
            read: BTreeMap::new(),
            turn: 0,
            sent_bytes: 0,
            failure: None,
        };
        self.flows.insert(flow, bodies);
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
    fn prepare(&mut self, range: ByteRange) {
        if let Err(error) = self.fetch(range) {
            self.failure = Some(error);
        }
    }

    /// Maps the file that the range lies in, or reads the range.
    fn fetch(&mut self, range: ByteRange) -> Result<(), String> {
        if let Some(piece) = self.mappable(range) {
            if let Some(mapping) = self.mapped.get_mut(&piece.file) {
                mapping.used = self.turn;
                return Ok(());
            }
            let file = self.data_set.open(piece.file).map_err(|error| error.to_string())?;
            let file = MappedFile::new(&file).map_err(|error| format!("a file cannot be mapped: {error}"))?;
            self.make_room();
            self.mapped.insert(piece.file, Mapping { file, used: self.turn });
            return Ok(());
        }
        let mut bytes = vec![0; range.len() as usize];
        self.data_set.read(range.start, &mut bytes).map_err(|error| error.to_string())?;
        self.read.insert(range.start, bytes);
        Ok(())
    }

    /// The piece of a large file that is all of the range.
    fn mappable(&self, range: ByteRange) -> Option<Piece> {
        let manifest = self.data_set.manifest();
        let piece = manifest.locate(range).next()?;
        let large = manifest.entries()[piece.file].size >= MAPPED_BYTES_MIN;
        (large && piece.len == range.len()).then_some(piece)
    }

    /// Unmaps the file that has not been used for the longest time, if there are many.
    fn make_room(&mut self) {
        if self.mapped.len() >= MAPPED_FILES_MAX
            && let Some(oldest) = self.mapped.iter().min_by_key(|(_, mapping)| mapping.used).map(|(&file, _)| file)
        {
            self.mapped.remove(&oldest);
        }
    }

    fn body<'a>(&'a self, range: ByteRange, out: &mut IoVecs<'a>) -> io::Result<()> {
        if let Some(piece) = self.mappable(range)
            && let Some(mapping) = self.mapped.get(&piece.file)
        {
            return mapping.file.read(ByteRange::at(piece.offset, piece.len), out);
        }
        match self.read.get(&range.start).filter(|bytes| bytes.len() as u64 == range.len()) {
            Some(bytes) => {
                out.push(bytes);
                Ok(())
            }
            None => Err(io::Error::other(self.failure.clone().unwrap_or_else(|| "it was not made ready".to_owned()))),
        }
    }
}

impl Bodies for FileBodies {
    fn prepare(&mut self, batch: &TxBatch) {
        for transmit in batch.transmits() {
            let Some(flow) = self.flows.get_mut(&transmit.flow) else { continue };
            flow.turn += 1;
            flow.read.clear();
        }
        for transmit in batch.transmits() {
            let Some(flow) = self.flows.get_mut(&transmit.flow) else { continue };
            for datagram in transmit.datagrams.iter().filter(|datagram| !datagram.body.is_empty()) {
                flow.sent_bytes += datagram.body.len();
                flow.prepare(datagram.body);
            }
        }
    }
}

impl BodySource for FileBodies {
    fn body<'a>(&'a self, flow: FlowId, range: ByteRange, out: &mut IoVecs<'a>) -> io::Result<()> {
        match self.flows.get(&flow) {
            Some(bodies) => bodies.body(range, out),
            None => Err(io::Error::other("the flow has ended")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::{Offered, ScanOptions};

    /// A directory with a large file between two small ones, offered.
    fn data_set(dir: &std::path::Path) -> Arc<DataSet> {
        std::fs::write(dir.join("a"), b"small").unwrap();
        std::fs::write(dir.join("b"), vec![7; MAPPED_BYTES_MIN as usize]).unwrap();
        std::fs::write(dir.join("c"), b"tiny").unwrap();
        Arc::new(Offered::new(&[dir.to_path_buf()]).unwrap().scan(b"", ScanOptions::default()).unwrap())
    }

    fn batch(ranges: &[ByteRange]) -> TxBatch {
        let mut batch = TxBatch::with_limit(ranges.len());
        for &range in ranges {
            batch.push(FlowId(1), "192.0.2.1:7".parse().unwrap(), b"head", range, 0);
        }
        batch
    }

    #[test]
    fn prepare_maps_large_files_and_reads_across_borders() {
        let dir = tempfile::tempdir().unwrap();
        let mut bodies = FileBodies::default();
        bodies.insert(FlowId(1), data_set(dir.path()));
        let end = MAPPED_BYTES_MIN + 5;
        let ranges =
            [ByteRange::new(0, 5), ByteRange::new(2, 10), ByteRange::new(5, 1005), ByteRange::new(end - 3, end + 4)];
        bodies.prepare(&batch(&ranges));
        for range in ranges {
            let mut out = IoVecs::new();
            bodies.body(FlowId(1), range, &mut out).unwrap();
            assert_eq!((out.bytes() as u64, out.len()), (range.len(), 1), "{range}");
        }
        assert_eq!(bodies.flows[&FlowId(1)].mapped.len(), 1);
        assert_eq!(bodies.flows[&FlowId(1)].read[&(end - 3)], b"\x07\x07\x07tiny");
    }

    #[test]
    fn body_says_what_has_become_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut bodies = FileBodies::default();
        bodies.insert(FlowId(1), data_set(dir.path()));
        std::fs::remove_file(dir.path().join("b")).unwrap();
        let range = ByteRange::new(5, 105);
        bodies.prepare(&batch(&[range]));
        let error = bodies.body(FlowId(1), range, &mut IoVecs::new()).unwrap_err();
        assert!(error.to_string().contains("changed"), "{error}");
        assert!(bodies.body(FlowId(2), range, &mut IoVecs::new()).is_err());
    }
}
