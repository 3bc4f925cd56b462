//! Packets on links: a small handle, and behind it the datagram.

use inhaul_base::ByteRange;
use inhaul_link::Mark;
use inhaul_transport::{FlowId, TAG_LEN};

use crate::control::Segment;
use crate::ids::{EndpointId, NodeId, TrafficId, TransferId};

/// Head bytes that a datagram holds inline: more than any protocol's header; a longer head costs an allocation.
pub(crate) const HEAD_INLINE: usize = 72;

/// Bytes of IPv4 and UDP header in front of each datagram.
pub(crate) const IP_UDP_BYTES: u32 = 28;

/// A packet as links see it: 16 bytes that are moved by value. Its content is written once, at its sender, and read
/// once, at its receiver.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) to: NodeId,
    /// Length with all headers from IP up.
    pub(crate) wire_bytes: u32,
    pub(crate) datagram: Box<Datagram>,
}

impl Packet {
    /// Bytes of UDP payload, if it is a datagram, as its endpoint sees it: opened, without the tag of a sealed one.
    pub(crate) fn payload_bytes(&self) -> u32 {
        let tag_len = if let Load::Data { around, .. } = self.datagram.load { around.tag_len() } else { 0 };
        self.wire_bytes.saturating_sub(IP_UDP_BYTES + tag_len)
    }

    /// Whether a queue has marked it as having met congestion.
    pub(crate) fn is_marked(&self) -> bool {
        matches!(self.datagram.load, Load::Data { around, .. } if around.is_marked())
    }

    /// The readable part of the datagram: its head, and zeros for some of the rest.
    pub(crate) fn readable(&self) -> &[u8] {
        self.datagram.readable(self.payload_bytes() as usize)
    }
}

impl Mark for Packet {
    fn mark(&mut self) -> bool {
        let Load::Data { around, .. } = &mut self.datagram.load else { return false };
        let reads_marks = around.0 & Around::READS_MARKS != 0;
        if reads_marks {
            around.0 |= Around::MARKED;
        }
        reads_marks
    }
}

/// A direction of a stream of a transfer: of its control stream, or of its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direction {
    pub(crate) transfer: TransferId,
    pub(crate) lane: Lane,
}

/// Which stream, and which way: one value, which a [`Load`] has beside the transfer, so that it takes no more of a cache
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    ToReceiver,
    ToSender,
    TunnelToReceiver,
    TunnelToSender,
}

impl Direction {
    pub(crate) fn new(transfer: TransferId, tunnel: bool, to_receiver: bool) -> Self {
        let lane = match (tunnel, to_receiver) {
            (false, true) => Lane::ToReceiver,
            (false, false) => Lane::ToSender,
            (true, true) => Lane::TunnelToReceiver,
            (true, false) => Lane::TunnelToSender,
        };
        Self { transfer, lane }
    }

    /// Of the tunnel, not of the control stream.
    pub(crate) fn tunnel(self) -> bool {
        matches!(self.lane, Lane::TunnelToReceiver | Lane::TunnelToSender)
    }

    pub(crate) fn to_receiver(self) -> bool {
        matches!(self.lane, Lane::ToReceiver | Lane::TunnelToReceiver)
    }

    /// The other direction of the same stream.
    pub(crate) fn back(self) -> Self {
        Self::new(self.transfer, self.tunnel(), !self.to_receiver())
    }
}

/// Facts beside the body of a datagram: the length of its envelope and head, whether it is sealed, and the bits of ECN.
/// In two bytes, to save space in a load's cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around(u16);

impl Around {
    const SEALED: u16 = 1 << 15;
    /// Its receiver reads marks (ECT).
    const READS_MARKS: u16 = 1 << 14;
    /// It is marked (CE).
    const MARKED: u16 = 1 << 13;
    const LEN_MASK: u16 = Self::MARKED - 1;

    pub(crate) fn new(head_len: usize, sealed: bool) -> Self {
        debug_assert!(head_len <= usize::from(Self::LEN_MASK));
        Self(head_len as u16 | if sealed { Self::SEALED } else { 0 })
    }

    fn head_len(self) -> usize {
        usize::from(self.0 & Self::LEN_MASK)
    }

    /// The same for a receiver that reads marks, or not.
    pub(crate) fn reading_marks(self, reads_marks: bool) -> Self {
        Self(self.0 | if reads_marks { Self::READS_MARKS } else { 0 })
    }

    /// Whether a queue has marked it.
    pub(crate) fn is_marked(self) -> bool {
        self.0 & Self::MARKED != 0
    }

    pub(crate) fn tag_len(self) -> u32 {
        if self.0 & Self::SEALED == 0 { 0 } else { TAG_LEN as u32 }
    }
}

/// The purpose of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A protocol's datagram: envelope and head, then a range of the object, then zeros, and a tag
    /// if it is sealed.
    Data { around: Around, flow: FlowId, from: EndpointId, to: EndpointId, body: ByteRange },
    /// A segment of a transfer's control stream, or of its tunnel.
    Control { transfer: TransferId, lane: Lane, segment: Segment },
    /// Background traffic, which no endpoint reads.
    Background(TrafficId),
}

impl Load {
    /// A segment that goes this way.
    pub(crate) fn of_segment(Direction { transfer, lane }: Direction, segment: Segment) -> Self {
        Self::Control { transfer, lane, segment }
    }
}

/// A packet's content. It is out of the cache by the time it arrives, so the part that is read of nearly every packet,
/// the load and the first 32 bytes of the head, is one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Datagram {
    pub(crate) load: Load,
    head: [u8; HEAD_INLINE],
    /// The head, if it is longer than [`HEAD_INLINE`].
    long_head: Vec<u8>,
}

impl Datagram {
    fn blank(load: Load) -> Self {
        Self { load, head: [0; HEAD_INLINE], long_head: Vec::new() }
    }

    fn head_len(&self) -> usize {
        if let Load::Data { around, .. } = self.load { around.head_len() } else { 0 }
    }

    fn fill(&mut self, load: Load, envelope: &[u8], head: &[u8]) {
        let was = self.head_len().min(HEAD_INLINE);
        let len = envelope.len() + head.len();
        self.load = load;
        match self.head.get_mut(..len) {
            Some(inline) => {
                let (front, back) = inline.split_at_mut(envelope.len());
                front.copy_from_slice(envelope);
                back.copy_from_slice(head);
                // Behind the head a reader sees zeros, not the head before it.
                if was > len {
                    self.head[len..was].fill(0);
                }
            }
            None => {
                self.long_head.clear();
                self.long_head.extend_from_slice(envelope);
                self.long_head.extend_from_slice(head);
            }
        }
    }

    /// Reads it for nothing.
    #[inline]
    pub(crate) fn touch(&self) {
        std::hint::black_box(self.head[0]);
    }

    /// Envelope and head.
    pub(crate) fn head(&self) -> &[u8] {
        self.head.get(..self.head_len()).unwrap_or(&self.long_head)
    }

    /// The readable part of the datagram, which has `len` bytes: its head, and zeros for some of the rest.
    pub(crate) fn readable(&self, len: usize) -> &[u8] {
        if self.head_len() > HEAD_INLINE {
            return &self.long_head;
        }
        &self.head[..HEAD_INLINE.min(len)]
    }
}

/// Datagrams that have arrived and can be sent again: in the steady state no packet costs an allocation.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    #[allow(clippy::vec_box, reason = "the boxes travel, to keep their allocations")]
    free: Vec<Box<Datagram>>,
}

impl Pool {
    /// A packet to `to`, which `load` says the length of envelope and head of.
    pub(crate) fn packet(
        &mut self,
        to: NodeId,
        wire_bytes: u32,
        load: Load,
        (envelope, head): (&[u8], &[u8]),
    ) -> Packet {
        let mut datagram = self.free.pop().unwrap_or_else(|| Box::new(Datagram::blank(load)));
        datagram.fill(load, envelope, head);
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

    fn filled(datagram: &mut Datagram, head: &[u8]) {
        let (flow, endpoint) = (FlowId(0), EndpointId(0));
        let body = ByteRange::default();
        let around = Around::new(head.len(), false);
        let (envelope, head) = head.split_at(head.len() / 3);
        datagram.fill(Load::Data { around, flow, from: endpoint, to: endpoint, body }, envelope, head);
    }

    #[test]
    fn fill_leaves_nothing_of_the_head_before() {
        let mut datagram = Datagram::blank(Load::Background(TrafficId(0)));
        filled(&mut datagram, &[7; 60]);
        filled(&mut datagram, &[9; 10]);
        assert_eq!(datagram.head(), [9; 10]);
        assert_eq!(datagram.readable(40), [[9; 10].as_slice(), &[0; 30]].concat());

        let long: Vec<u8> = (0..=200).collect();
        filled(&mut datagram, &long);
        assert_eq!((datagram.head(), datagram.readable(1000)), (&long[..], &long[..]));
        filled(&mut datagram, &[1]);
        assert_eq!(datagram.readable(1000), [[1].as_slice(), &[0; HEAD_INLINE - 1]].concat());
    }

    #[test]
    fn packet_is_small() {
        assert_eq!(size_of::<Packet>(), 16);
        assert_eq!((size_of::<Datagram>(), std::mem::offset_of!(Datagram, head)), (128, 32));
    }
}
