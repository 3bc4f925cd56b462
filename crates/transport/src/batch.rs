//! Datagrams in and out, as headers and ranges.

use std::net::SocketAddr;
use std::ops::Range;

use inhaul_base::{ByteRange, Span};

use crate::ids::FlowId;

/// Where every datagram of every protocol has the key of its flow, and where an endpoint looks before it believes anything else
/// in it: one with another key is a stranger's and is dropped. Whoever carries datagrams over a network may therefore hide a
/// checksum in the key, so that one that was changed on its way is a stranger's too.
pub const KEY_FIELD: Range<usize> = 4..8;

/// One or more datagrams that came in together: equal in size but for the last, from one peer
/// (what receive offload hands over, or a single datagram).
///
/// Only the heads need to be readable. Bodies may lie right behind their heads, or already where they belong, when the
/// engine received them by an [`crate::Expected`] layout; in a simulation there are none.
#[derive(Clone, Copy, Debug)]
pub struct RxMessage<'a> {
    /// The peer.
    pub from: SocketAddr,
    /// Where the heads are: datagram `k`'s starts at `k * head_stride`.
    pub heads: &'a [u8],
    /// Distance from one head to the next in `heads`, in bytes.
    pub head_stride: usize,
    /// Length of each datagram but the last, in bytes.
    pub datagram_len: usize,
    /// Length of all datagrams together, in bytes.
    pub total_len: usize,
    /// How long they had waited in this host when they were read, by the kernel's clock; zero where that is not known.
    pub waited: Span,
}

impl<'a> RxMessage<'a> {
    /// A single datagram whose bytes lie in `bytes`.
    pub fn single(from: SocketAddr, bytes: &'a [u8]) -> Self {
        let len = bytes.len();
        Self { from, heads: bytes, head_stride: len, datagram_len: len, total_len: len, waited: Span::ZERO }
    }

    /// How many datagrams there are; an empty datagram counts as one.
    pub fn datagrams(&self) -> usize {
        self.total_len.div_ceil(self.datagram_len.max(1)).max(1)
    }

    /// Length of datagram `k`, in bytes.
    pub fn len_of(&self, k: usize) -> usize {
        self.total_len.saturating_sub(k * self.datagram_len).min(self.datagram_len)
    }

    /// The readable front of datagram `k`: the head, and as much of the body as happens to follow it.
    pub fn head(&self, k: usize) -> &'a [u8] {
        let start = (k * self.head_stride).min(self.heads.len());
        let end = start.saturating_add(self.head_stride.min(self.len_of(k))).min(self.heads.len());
        &self.heads[start..end]
    }
}

/// Bodies of consecutive datagrams of one message that belong at consecutive places of the flow's object.
///
/// Valid until the next batch is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The flow, and by it the object.
    pub flow: FlowId,
    /// Which message of the batch.
    pub message: u32,
    /// The first datagram of the message that belongs here.
    pub first: u32,
    /// Bytes of the first datagram that come before the first byte to place: its head, and what is held already.
    pub skip: u32,
    /// Head length of the datagrams after the first, in bytes.
    pub head_len: u32,
    /// Where the bytes belong in the object. Its length says how many datagrams are meant.
    pub range: ByteRange,
}

/// One datagram to send: a head (in the batch's arena), then a range of the flow's object, then zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxDatagram {
    head_at: u32,
    head_len: u16,
    /// Zero bytes at the end (probes of the path's MTU are padded).
    pub pad: u16,
    /// The object's bytes that follow the head.
    pub body: ByteRange,
}

impl TxDatagram {
    /// Bytes of UDP payload.
    pub fn len(&self) -> usize {
        usize::from(self.head_len) + self.body.len() as usize + usize::from(self.pad)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Datagrams of one flow to one peer that leave back to back.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The flow, and by it the object that bodies are read from.
    pub flow: FlowId,
    /// The peer.
    pub to: SocketAddr,
    /// The datagrams, in order.
    pub datagrams: &'a [TxDatagram],
}

#[derive(Clone, Copy, Debug)]
struct Group {
    flow: FlowId,
    to: SocketAddr,
    end: usize,
}

/// Transmissions on their way out: filled by an endpoint, emptied by the engine. Its memory is used again and again.
#[derive(Debug, Default)]
pub struct TxBatch {
    heads: Vec<u8>,
    datagrams: Vec<TxDatagram>,
    groups: Vec<Group>,
    limit: usize,
    bytes: u64,
}

impl TxBatch {
    /// A batch that asks for about `limit` datagrams at most before it is sent.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Forgets everything in it.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.datagrams.clear();
        self.groups.clear();
        self.bytes = 0;
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// How many datagrams it holds.
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Bytes of UDP payload in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many more datagrams it asks for.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.datagrams.len())
    }

    /// Adds a datagram: `head`, then the object's bytes `body`, then `pad` zeros. Datagrams of one flow and peer that are
    /// pushed one after the other form one [`Transmit`].
    pub fn push(&mut self, flow: FlowId, to: SocketAddr, head: &[u8], body: ByteRange, pad: u16) {
        let head_at = self.heads.len() as u32;
        self.heads.extend_from_slice(head);
        self.bytes += head.len() as u64 + body.len() + u64::from(pad);
        self.datagrams.push(TxDatagram { head_at, head_len: head.len() as u16, pad, body });
        self.close_group(flow, to);
    }

    /// Adds datagrams whose bodies follow each other in the object: `body` cut into pieces of `block` bytes, the last may be
    /// shorter. `head` gives the head of the `k`-th from its number and the place of its body. The same as
    /// [`TxBatch::push`] for each, but quicker.
    pub fn push_run<const N: usize>(
        &mut self,
        flow: FlowId,
        to: SocketAddr,
        body: ByteRange,
        block: u64,
        mut head: impl FnMut(u32, u64) -> [u8; N],
    ) {
        let block = block.max(1);
        let count = body.len().div_ceil(block);
        let mut head_at = self.heads.len() as u32;
        self.heads.reserve(count as usize * N);
        self.bytes += body.len() + count * N as u64;
        self.datagrams.extend((0..count).map(|k| {
            let start = body.start + k * block;
            let datagram = TxDatagram {
                head_at,
                head_len: N as u16,
                pad: 0,
                body: ByteRange::new(start, body.end.min(start.saturating_add(block))),
            };
            self.heads.extend_from_slice(&head(k as u32, start));
            head_at += N as u32;
            datagram
        }));
        self.close_group(flow, to);
    }

    /// What was added last leaves with the group before it, if that is of the same flow and to the same peer.
    fn close_group(&mut self, flow: FlowId, to: SocketAddr) {
        let end = self.datagrams.len();
        match self.groups.last_mut() {
            Some(group) if group.flow == flow && group.to == to => group.end = end,
            _ => self.groups.push(Group { flow, to, end }),
        }
    }

    /// The head of one of this batch's datagrams.
    pub fn head(&self, datagram: &TxDatagram) -> &[u8] {
        let at = datagram.head_at as usize;
        &self.heads[at..at + usize::from(datagram.head_len)]
    }

    /// The transmissions, in order.
    pub fn transmits(&self) -> impl Iterator<Item = Transmit<'_>> {
        self.groups.iter().scan(0, |start, group| {
            let datagrams = &self.datagrams[*start..group.end];
            *start = group.end;
            Some(Transmit { flow: group.flow, to: group.to, datagrams })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> SocketAddr {
        "192.0.2.1:7".parse().unwrap()
    }

    #[test]
    fn rx_message_finds_heads_beside_and_apart_from_bodies() {
        let bytes = [1u8, 0, 0, 2, 0, 0, 3, 0];
        let waited = Span::ZERO;
        let together = RxMessage { from: peer(), heads: &bytes, head_stride: 3, datagram_len: 3, total_len: 8, waited };
        assert_eq!(together.datagrams(), 3);
        assert_eq!((0..3).map(|k| together.head(k)[0]).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((0..3).map(|k| together.len_of(k)).collect::<Vec<_>>(), [3, 3, 2]);

        let apart =
            RxMessage { from: peer(), heads: &[1, 2, 3], head_stride: 1, datagram_len: 100, total_len: 250, waited };
        assert_eq!(apart.datagrams(), 3);
        assert_eq!(apart.head(2), [3]);
        assert_eq!(apart.len_of(2), 50);
    }

    #[test]
    fn push_run_is_the_same_as_push_for_each() {
        let head = |k: u32, at: u64| [k as u8, at as u8];
        let (mut run, mut each) = (TxBatch::with_limit(8), TxBatch::with_limit(8));
        run.push_run(FlowId(1), peer(), ByteRange::new(5, 30), 10, head);
        for (k, (start, end)) in [(5, 15), (15, 25), (25, 30)].into_iter().enumerate() {
            each.push(FlowId(1), peer(), &head(k as u32, start), ByteRange::new(start, end), 0);
        }
        let shape =
            |batch: &TxBatch| format!("{:?} {:?} {:?} {}", batch.heads, batch.datagrams, batch.groups, batch.bytes);
        assert_eq!(shape(&run), shape(&each));
        run.push_run(FlowId(1), peer(), ByteRange::new(5, 5), 10, head);
        assert_eq!(shape(&run), shape(&each));
    }

    #[test]
    fn tx_batch_groups_by_flow_and_peer() {
        let mut batch = TxBatch::with_limit(8);
        batch.push(FlowId(1), peer(), b"ab", ByteRange::at(0, 10), 0);
        batch.push(FlowId(1), peer(), b"cd", ByteRange::at(10, 10), 0);
        batch.push(FlowId(2), peer(), b"ef", ByteRange::default(), 5);
        let shape: Vec<_> = batch.transmits().map(|t| (t.flow.0, t.datagrams.len())).collect();
        assert_eq!(shape, [(1, 2), (2, 1)]);
        let last = *batch.transmits().last().unwrap().datagrams.last().unwrap();
        assert_eq!((batch.head(&last), last.len()), (&b"ef"[..], 7));
        assert_eq!(batch.room(), 5);
    }
}
