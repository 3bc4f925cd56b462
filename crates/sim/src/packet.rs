//! What travels: a small handle, and behind it the datagram.

use inhaul_base::ByteRange;
use inhaul_transport::FlowId;

use crate::control::Segment;
use crate::traffic::TrafficId;
use crate::{EndpointId, NodeId, TransferId};

/// Head bytes that a datagram holds inline: more than any protocol's header; a longer head costs an allocation.
pub(crate) const HEAD_INLINE: usize = 96;

/// Bytes of IPv4 and UDP header in front of each datagram.
pub(crate) const IP_UDP_BYTES: u32 = 28;

/// A packet as links see it: 16 bytes that are moved by value. What it carries is written once, where it is sent, and read
/// once, where it arrives.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) to: NodeId,
    /// Length with all headers from IP up.
    pub(crate) wire_bytes: u32,
    pub(crate) datagram: Box<Datagram>,
}

/// What a packet is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A protocol's datagram: head, then a range of the object, then zeros.
    Data { flow: FlowId, from: EndpointId, to: EndpointId, body: ByteRange },
    /// A segment of a transfer's control stream; `to_receiver` says which way.
    Control { transfer: TransferId, to_receiver: bool, segment: Segment },
    /// Background traffic, which nobody reads.
    Background(TrafficId),
}

#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) load: Load,
    /// Bytes of UDP payload.
    pub(crate) len: u32,
    head_len: u16,
    head: [u8; HEAD_INLINE],
    /// The head, if it is longer than [`HEAD_INLINE`].
    long_head: Vec<u8>,
}

impl Datagram {
    fn blank(load: Load) -> Self {
        Self { load, len: 0, head_len: 0, head: [0; HEAD_INLINE], long_head: Vec::new() }
    }

    fn fill(&mut self, load: Load, len: u32, head: &[u8]) {
        let was = usize::from(self.head_len).min(HEAD_INLINE);
        self.load = load;
        self.len = len;
        self.head_len = head.len() as u16;
        match self.head.get_mut(..head.len()) {
            Some(inline) => {
                inline.copy_from_slice(head);
                // Behind the head a reader sees zeros, not the head before it.
                if was > head.len() {
                    self.head[head.len()..was].fill(0);
                }
            }
            None => {
                self.long_head.clear();
                self.long_head.extend_from_slice(head);
            }
        }
    }

    /// The head that the protocol wrote.
    pub(crate) fn head(&self) -> &[u8] {
        let len = usize::from(self.head_len);
        self.head.get(..len).unwrap_or(&self.long_head)
    }

    /// What can be read of the datagram: its head, and zeros for some of what follows.
    pub(crate) fn readable(&self) -> &[u8] {
        if usize::from(self.head_len) > HEAD_INLINE {
            return &self.long_head;
        }
        &self.head[..HEAD_INLINE.min(self.len as usize)]
    }
}

/// Datagrams that have arrived and can be sent again: in the steady state no packet costs an allocation.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    #[allow(clippy::vec_box, reason = "the boxes travel: what is kept is the allocation")]
    free: Vec<Box<Datagram>>,
}

impl Pool {
    /// A packet to `to`.
    pub(crate) fn packet(&mut self, to: NodeId, wire_bytes: u32, load: Load, len: u32, head: &[u8]) -> Packet {
        let mut datagram = self.free.pop().unwrap_or_else(|| Box::new(Datagram::blank(load)));
        datagram.fill(load, len, head);
        Packet { to, wire_bytes, datagram }
    }

    /// Takes a datagram back.
    pub(crate) fn put_back(&mut self, datagram: Box<Datagram>) {
        self.free.push(datagram);
    }

    /// Bytes of memory that waiting datagrams take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.free.capacity() * size_of::<Box<Datagram>>() + self.free.len() * size_of::<Datagram>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_leaves_nothing_of_the_head_before() {
        let load = Load::Background(TrafficId(0));
        let mut datagram = Datagram::blank(load);
        datagram.fill(load, 500, &[7; 60]);
        datagram.fill(load, 40, &[9; 10]);
        assert_eq!(datagram.head(), [9; 10]);
        assert_eq!(datagram.readable(), [[9; 10].as_slice(), &[0; 30]].concat());

        let long: Vec<u8> = (0..=200).collect();
        datagram.fill(load, 1000, &long);
        assert_eq!((datagram.head(), datagram.readable()), (&long[..], &long[..]));
        datagram.fill(load, 1000, &[1]);
        assert_eq!(datagram.readable(), [[1].as_slice(), &[0; HEAD_INLINE - 1]].concat());
    }

    #[test]
    fn packet_is_small() {
        assert_eq!(size_of::<Packet>(), 16);
    }
}
