//! The memory that a bench moves bytes from and into.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};

use inhaul_base::ByteRange;
use inhaul_transport::{Expected, FlowId, Place};
use inhaul_udp::seal::Seals;
use inhaul_udp::{BodySource, Delivery, Window};

use inhaul_engine::engine::port::{Port, Show, Sink};
use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::Memory;

/// The hot buffer: as much as one datagram can carry, so that all of it stays in the fastest cache.
const HOT_BYTES: usize = 1 << 16;
/// The cold buffer: larger than any cache.
const COLD_BYTES: usize = 1 << 30;

/// The memory of all flows of a bench at one side; flows of the same kind share it.
#[derive(Default)]
pub(super) struct BenchMemory {
    flows: BTreeMap<FlowId, Memory>,
    hot: Vec<u8>,
    /// Empty until a flow wants it.
    cold: Vec<u8>,
}

impl BenchMemory {
    /// Has the flow use that memory.
    pub(super) fn insert(&mut self, flow: FlowId, memory: Memory) {
        let (buffer, len) = match memory {
            Memory::Hot => (&mut self.hot, HOT_BYTES),
            Memory::Cold => (&mut self.cold, COLD_BYTES),
        };
        // Not zeros: pages of those are not there until they are first written.
        buffer.resize(len, 0xA5);
        self.flows.insert(flow, memory);
    }

    pub(super) fn remove(&mut self, flow: FlowId) {
        self.flows.remove(&flow);
    }

    /// The flow's next bodies are expected in cold memory: where, and as many bytes as lie there in one piece.
    fn expected_window(
        &self,
        flow: Option<FlowId>,
        expected: Option<Expected>,
    ) -> Option<(FlowId, Expected, usize, usize)> {
        let (flow, expected) = (flow?, expected?);
        if self.flows.get(&flow) != Some(&Memory::Cold) {
            return None;
        }
        let at = (expected.range.start % COLD_BYTES as u64) as usize;
        let len = usize::try_from(expected.range.len()).map_or(COLD_BYTES - at, |len| len.min(COLD_BYTES - at));
        Some((flow, expected, at, len))
    }
}

/// Copies bodies to where `offset` lies in a buffer that is walked round and round. What falls into `hole` stays out:
/// it is lent to the kernel.
fn copy_round(parts: [(&mut [u8], usize); 2], offset: u64, bodies: &[IoSlice<'_>]) {
    let mut at = (offset % COLD_BYTES as u64) as usize;
    let [(before, before_at), (after, after_at)] = parts;
    for body in bodies {
        let mut rest = &body[..];
        while !rest.is_empty() {
            let len = rest.len().min(COLD_BYTES - at);
            let (now, later) = rest.split_at(len);
            for (part, start) in [(&mut *before, before_at), (&mut *after, after_at)] {
                copy_overlap(part, start, now, at);
            }
            at = (at + len) % COLD_BYTES;
            rest = later;
        }
    }
}

/// Copies what of `bytes`, which belong at `at`, falls into `part`, which begins at `start`.
fn copy_overlap(part: &mut [u8], start: usize, bytes: &[u8], at: usize) {
    let from = at.max(start);
    let to = (at + bytes.len()).min(start + part.len());
    if from < to {
        part[from - start..to - start].copy_from_slice(&bytes[from - at..to - at]);
    }
}

impl Sink for BenchMemory {
    fn receive(
        &mut self,
        port: &mut Port,
        seals: &mut Seals,
        expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        let failed = MoveError::system("cannot receive");
        let lent = self.expected_window(port.flow, expected);
        let (at, len) = lent.as_ref().map_or((0, 0), |&(_, _, at, len)| (at, len));
        let is_hot = self.cold.is_empty();
        let (before, rest) = self.cold.split_at_mut(at);
        let (memory, after) = rest.split_at_mut(len);
        let batch = match lent {
            Some((flow, expected, ..)) => {
                let window = Window { flow, expected, memory };
                port.receiver.receive_into(&port.socket, seals, window).map_err(failed)?
            }
            None => port.receiver.receive(&port.socket, seals).map_err(failed)?,
        };
        if batch.is_empty() {
            return Ok(false);
        }
        show(batch.messages(), places);
        if is_hot {
            return Ok(true);
        }
        let flows = &self.flows;
        let elsewhere = |delivery: Delivery<'_>| -> Result<(), MoveError> {
            if flows.get(&delivery.flow) == Some(&Memory::Cold) {
                copy_round([(&mut *before, 0), (&mut *after, at + len)], delivery.range.start, delivery.bodies);
            }
            Ok(())
        };
        batch.deliver(places, elsewhere)?;
        Ok(true)
    }
}

impl BodySource for BenchMemory {
    fn read(&mut self, flow: FlowId, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let none = || io::Error::other("the bench has no such memory");
        let memory = self.flows.get(&flow).ok_or_else(none)?;
        let mut at = (offset % COLD_BYTES as u64) as usize;
        for body in bodies {
            let len = body.len();
            match memory {
                Memory::Hot => body.copy_from_slice(self.hot.get(..len).ok_or_else(none)?),
                Memory::Cold => {
                    let (before_end, from_start) = body.split_at_mut(len.min(COLD_BYTES - at));
                    before_end.copy_from_slice(&self.cold[at..at + before_end.len()]);
                    from_start.copy_from_slice(self.cold.get(..from_start.len()).ok_or_else(none)?);
                    at = (at + len) % COLD_BYTES;
                }
            }
        }
        Ok(())
    }

    fn lend(&self, flow: FlowId, range: ByteRange) -> Option<&[u8]> {
        let len = usize::try_from(range.len()).ok()?;
        match self.flows.get(&flow)? {
            Memory::Hot => self.hot.get(..len),
            Memory::Cold => {
                let at = (range.start % COLD_BYTES as u64) as usize;
                self.cold.get(at..at + len)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_overlap_keeps_to_its_part() {
        let mut part = [0u8; 4];
        copy_overlap(&mut part, 10, &[1, 2, 3, 4, 5, 6], 8);
        assert_eq!(part, [3, 4, 5, 6]);
        copy_overlap(&mut part, 10, &[9, 9], 14);
        copy_overlap(&mut part, 10, &[9, 9], 8);
        assert_eq!(part, [3, 4, 5, 6]);
        copy_overlap(&mut part, 10, &[7], 13);
        assert_eq!(part, [3, 4, 5, 7]);
    }

    #[test]
    fn read_of_hot_memory_is_always_from_the_same_buffer() {
        let mut memory = BenchMemory::default();
        memory.insert(FlowId(1), Memory::Hot);
        for start in [0, 1 << 40] {
            let (mut first, mut second) = ([0; 9000], [0; 100]);
            memory.read(FlowId(1), start, &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]).unwrap();
            assert!(first.iter().chain(&second).all(|&byte| byte == 0xA5));
        }
        assert!(memory.read(FlowId(2), 0, &mut [IoSliceMut::new(&mut [0])]).is_err());
        let mut too_long = vec![0; HOT_BYTES + 1];
        assert!(memory.read(FlowId(1), 0, &mut [IoSliceMut::new(&mut too_long)]).is_err());
    }

    #[test]
    fn read_of_cold_memory_goes_round_at_its_end() {
        let mut memory = BenchMemory::default();
        memory.insert(FlowId(1), Memory::Cold);
        for (at, byte) in [(COLD_BYTES - 2, 1), (COLD_BYTES - 1, 2), (0, 3), (1, 4)] {
            memory.cold[at] = byte;
        }
        let (mut first, mut second) = ([0; 3], [0; 1]);
        let bodies = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        memory.read(FlowId(1), 5 * COLD_BYTES as u64 - 2, bodies).unwrap();
        assert_eq!((first, second), ([1, 2, 3], [4]));
        // What lies in one piece is lent.
        let end = ByteRange::at(5 * COLD_BYTES as u64 - 2, 2);
        assert_eq!(memory.lend(FlowId(1), end), Some(&[1, 2][..]));
        assert_eq!(memory.lend(FlowId(1), ByteRange::at(end.start, 3)), None);
    }
}
