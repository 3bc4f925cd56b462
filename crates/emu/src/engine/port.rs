//! A host's TUN device, as the emulator sees it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::packet::BUFFER_LEN;

/// A packet larger than this keeps the buffer it was read into; a smaller one is copied out of it.
const KEEP_ABOVE: usize = BUFFER_LEN / 2;
/// Most large buffers that wait to be used again: 132 MiB, what 10 Gbit/s has under way in 100 ms.
const LARGE_MAX: usize = 2048;
/// Room for an ordinary packet.
const SMALL_LEN: usize = 2048;
/// Most small buffers that wait to be used again.
const SMALL_MAX: usize = 16 << 10;

/// The packets to and from a host.
#[derive(Debug)]
pub(super) struct Port {
    device: OwnedFd,
    /// The device does not answer any more: it was removed.
    pub(super) is_gone: bool,
    pub(super) counts: PortCounts,
}

/// The emulator's counters of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounts {
    /// Packets that came from it; a superpacket is one.
    pub(crate) read: u64,
    /// Packets that were handed to it.
    pub(crate) written: u64,
    /// Packets that its kernel did not take.
    pub(crate) rejected: u64,
    /// Packets from it to addresses outside the grid: multicast, wrong addresses.
    pub(crate) unroutable: u64,
    /// Packets from it that were not understood.
    pub(crate) malformed: u64,
    /// Packets from it for which there was no memory.
    pub(crate) no_memory: u64,
}

impl Port {
    pub(super) fn new(device: OwnedFd) -> Self {
        Self { device, is_gone: false, counts: PortCounts::default() }
    }

    /// Takes the next packet from the host, if there is one.
    pub(super) fn read(&mut self, buffers: &mut Buffers) -> Option<Vec<u8>> {
        let buffer = &mut buffers.current;
        buffer.clear();
        match rustix::io::read(&self.device, spare_capacity(buffer)) {
            Ok(1..) => {
                self.counts.read += 1;
                Some(buffers.take())
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok(0) | Err(_) => {
                self.is_gone = true;
                None
            }
        }
    }

    /// Hands a packet to the host.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        match rustix::io::write(&self.device, bytes) {
            Ok(_) => self.counts.written += 1,
            Err(_) => self.counts.rejected += 1,
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Reused buffers: fresh memory, above all of 66 KiB, costs more than the work on it.
pub(super) struct Buffers {
    current: Vec<u8>,
    large: Vec<Vec<u8>>,
    small: Vec<Vec<u8>>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { current: Vec::with_capacity(BUFFER_LEN), large: Vec::new(), small: Vec::new() }
    }

    /// The read packet, in memory of its own.
    fn take(&mut self) -> Vec<u8> {
        let len = self.current.len();
        if len > KEEP_ABOVE {
            let next = self.large.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_LEN));
            return std::mem::replace(&mut self.current, next);
        }
        if len > SMALL_LEN {
            return self.current.clone();
        }
        let mut small = self.small.pop().unwrap_or_else(|| Vec::with_capacity(SMALL_LEN));
        small.clear();
        small.extend_from_slice(&self.current);
        small
    }

    /// Takes back a buffer that is no longer needed.
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() == SMALL_LEN && self.small.len() < SMALL_MAX {
            self.small.push(buffer);
        } else if buffer.capacity() == BUFFER_LEN && self.large.len() < LARGE_MAX {
            self.large.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_copy_what_is_small_and_lend_what_is_large() {
        let mut buffers = Buffers::new();
        buffers.current.extend_from_slice(&[1; 100]);
        let small = buffers.take();
        assert_eq!((small.len(), small.capacity()), (100, SMALL_LEN));
        buffers.give_back(small);
        assert_eq!((buffers.small.len(), buffers.large.len()), (1, 0));

        buffers.current.resize(KEEP_ABOVE + 1, 2);
        let large = buffers.take();
        assert_eq!(large.len(), KEEP_ABOVE + 1);
        assert!(buffers.current.capacity() >= BUFFER_LEN);
        buffers.give_back(large);
        assert_eq!((buffers.small.len(), buffers.large.len()), (1, 1));
    }
}
