//! Packets under way, and their segments.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use inhaul_base::Time;
use inhaul_link::Mark;

use crate::packet::Packet;

/// A packet under way.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) packet: Packet,
    /// Its path, as an index.
    path: u32,
    _held: Held,
}

/// The memory that packets under way take, in bytes: shared by all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Rc<Cell<usize>>);

impl Memory {
    /// Takes this much of it, unless the total would exceed `max`.
    pub(super) fn hold(&self, bytes: usize, max: usize) -> Option<Held> {
        let total = self.0.get() + bytes;
        if total > max {
            return None;
        }
        self.0.set(total);
        Some(Held { memory: self.clone(), bytes })
    }
}

/// The part of it that one packet takes, until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    memory: Memory,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.0.set(self.memory.0.get() - self.bytes);
    }
}

/// One segment of a packet, on one link of its path.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) carried: Rc<Carried>,
    pub(super) index: u16,
    /// Which link of the path it is on.
    pub(super) hop: u16,
}

impl Mark for Segment {
    /// The bytes of a packet are those of all its segments: one of them alone cannot be marked, and is dropped.
    fn mark(&mut self) -> bool {
        false
    }
}

impl Segment {
    pub(super) fn path(&self) -> u32 {
        self.carried.path
    }
}

impl Carried {
    pub(super) fn new(packet: Packet, path: u32, held: Held) -> Self {
        Self { packet, path, _held: held }
    }

    /// The packet's memory, to be used again.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.packet.into_bytes()
    }
}

/// Segments of one packet that have arrived, one after the other.
#[derive(Debug)]
pub(super) struct Delivery {
    /// When the last of them arrived.
    pub(super) at: Time,
    /// At which host.
    pub(super) host: usize,
    pub(super) carried: Rc<Carried>,
    pub(super) segments: Range<u16>,
}
