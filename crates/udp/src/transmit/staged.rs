//! Staged messages: the envelopes, heads, bodies and padding of their datagrams in one piece of memory.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use inhaul_transport::kit::Connections;
use inhaul_transport::{ENVELOPE_LEN, Envelope, FlowId, Transmit, TxBatch, TxDatagram};

use super::source::BodySource;
use crate::checksum;
use crate::datagrams::DatagramSocket;
use crate::seal::{Seals, TAG_LEN};
use crate::sys::{MESSAGES_MAX, Outgoing};

/// Most bytes of one message: an IPv4 packet without IP and UDP headers.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// Most datagrams that the kernel segments a message into (`UDP_MAX_SEGMENTS`; 128 since Linux 6.11).
pub const SEGMENTS_MAX: usize = 64;

/// Messages are staged up to this size, and at least one: few enough to be still in the cache when the kernel copies
/// them.
const STAGED_BYTES: usize = 128 << 10;

/// The bytes around a datagram's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Framing {
    /// Bytes of the envelope.
    pub(super) envelope: usize,
    /// Bytes of the tag.
    pub(super) tag: usize,
}

impl Framing {
    pub(super) const fn len(self) -> usize {
        self.envelope + self.tag
    }
}

/// Datagrams that are sent as one message.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) flow: FlowId,
    pub(super) peer: SocketAddr,
    /// The address of this host that the peer knows.
    pub(super) from: Option<IpAddr>,
    /// The receiver reads congestion marks (ECN).
    pub(super) reads_marks: bool,
    pub(super) datagrams: usize,
    pub(super) datagram_len: usize,
    pub(super) padded: bool,
    pub(super) framing: Framing,
    pub(super) bytes: Range<usize>,
}

impl Run {
    /// Whether the kernel has to segment it. One datagram needs no segmentation, so that paths work that cannot do it.
    pub(super) const fn is_segmented(&self) -> bool {
        self.datagrams > 1
    }
}

/// Staged messages. Its memory is reused.
#[derive(Default)]
pub(super) struct Staged {
    memory: Vec<u8>,
    runs: Vec<Run>,
    /// How many of them were sent.
    left: usize,
}

impl Staged {
    /// The messages that were not sent.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs[self.left..]
    }

    /// Forgets all messages.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.left = 0;
    }

    /// Notes that the first `count` messages were sent.
    pub(super) fn advance(&mut self, count: usize) {
        self.left = (self.left + count).min(self.runs.len());
    }

    /// Whether there is room for another message.
    pub(super) fn has_room(&self) -> bool {
        self.runs.len() < MESSAGES_MAX && self.end() + MESSAGE_BYTES_MAX <= STAGED_BYTES
    }

    fn end(&self) -> usize {
        self.runs.last().map_or(0, |run| run.bytes.end)
    }

    /// The messages that were not sent, for `socket` to send.
    pub(super) fn outgoing<'m>(&'m self, socket: &'m impl DatagramSocket) -> impl Iterator<Item = Outgoing<'m>> {
        self.runs().iter().map(|run| {
            let segment = if run.is_segmented() { u16::try_from(run.datagram_len).ok() } else { None };
            let message = socket.outgoing(run.peer, &self.memory[run.bytes.clone()], segment);
            message.leaving_from(run.from).reading_marks(run.reads_marks)
        })
    }

    /// Stages the first of `datagrams`, as many as the kernel can segment from one message and the source has bodies
    /// for: as one message, or as one message each. Returns how many, and the source's error if it was the limit.
    pub(super) fn push(
        &mut self,
        batch: &TxBatch,
        transmit: Transmit<'_>,
        segmented: bool,
        connections: &mut Connections,
        seals: &mut Seals,
        source: &mut (impl BodySource + ?Sized),
    ) -> (usize, Option<io::Error>) {
        let Transmit { flow, route, datagrams } = transmit;
        let mut sealer = route.connection.and_then(|_| seals.sealer(flow));
        let framing = Framing { envelope: route.envelope_len(), tag: sealer.as_ref().map_or(0, |_| TAG_LEN) };
        let run = &datagrams[..run_length(datagrams, framing)];
        let start = self.end();
        let whole_len = |datagrams: &[TxDatagram]| datagrams.iter().map(|d| framing.len() + d.len()).sum::<usize>();
        let len = whole_len(run);
        if self.memory.len() < start + len {
            self.memory.resize(start + len, 0);
        }
        let is_lent = sealer.is_some() && run.iter().all(|datagram| borrow(datagram, flow, source).is_some());
        let out = &mut self.memory[start..start + len];
        let (count, error) = if is_lent {
            lay_out(batch, framing, run, out);
            (run.len(), None)
        } else {
            fill(batch, flow, framing, run, source, out)
        };
        let each = if segmented { SEGMENTS_MAX } else { 1 };
        let from = connections.asked(flow);
        let mut at = start;
        for message in run[..count].chunks(each) {
            let bytes = at..at + whole_len(message);
            at = bytes.end;
            let (datagrams, datagram_len) = (message.len(), framing.len() + message[0].len());
            if let Some(connection) = route.connection {
                let first = connections.take_numbers(flow, datagrams);
                let memory = self.memory[bytes.clone()].chunks_mut(datagram_len);
                for ((number, datagram), parts) in (first..).zip(memory).zip(message) {
                    if let Some(sealer) = &mut sealer {
                        let body = if is_lent { borrow(parts, flow, source) } else { None };
                        sealer.seal_with(number, connection, datagram, body.unwrap_or_default());
                    } else {
                        let envelope = Envelope { number: number as u32, connection };
                        datagram[..ENVELOPE_LEN].copy_from_slice(&envelope.emit());
                        checksum::mask(datagram);
                    }
                }
            }
            let padded = message[0].pad > 0;
            let (peer, reads_marks) = (route.to, route.reads_marks);
            self.runs.push(Run { flow, peer, from, reads_marks, datagrams, datagram_len, padded, framing, bytes });
        }
        (count, error)
    }
}

/// A datagram's body in its source's memory, if it can be sealed from there: if it is the datagram's end.
fn borrow<'s>(datagram: &TxDatagram, flow: FlowId, source: &'s (impl BodySource + ?Sized)) -> Option<&'s [u8]> {
    if datagram.pad > 0 || datagram.body.is_empty() {
        return None;
    }
    source.lend(flow, datagram.body).filter(|bytes| bytes.len() as u64 == datagram.body.len())
}

/// How many of the first datagrams can be sent as one message: equal in length, the last may be shorter. `framing`
/// surrounds each.
pub(super) fn run_length(datagrams: &[TxDatagram], framing: Framing) -> usize {
    let len = datagrams[0].len();
    let padded = datagrams[0].pad > 0;
    if len == 0 || datagrams[0].alone {
        return 1;
    }
    let max = (MESSAGE_BYTES_MAX / (framing.len() + len)).clamp(1, SEGMENTS_MAX);
    let alike = |d: &TxDatagram| (d.pad > 0) == padded && !d.alone;
    let mut count = datagrams.iter().take(max).take_while(|d| d.len() == len && alike(d)).count();
    if count < max && datagrams.get(count).is_some_and(|d| !d.is_empty() && d.len() < len && alike(d)) {
        count += 1;
    }
    count
}

/// Writes the datagrams of a run to `out`, which has their exact length, framing included. Returns how many are
/// complete, and the source's error if it was the limit.
fn fill(
    batch: &TxBatch,
    flow: FlowId,
    framing: Framing,
    run: &[TxDatagram],
    source: &mut (impl BodySource + ?Sized),
    mut out: &mut [u8],
) -> (usize, Option<io::Error>) {
    let mut together = run.len();
    let mut rest = run;
    while let Some(first) = rest.first() {
        let count = consecutive(&rest[..together.min(rest.len())]);
        let len = rest[..count].iter().map(|datagram| framing.len() + datagram.len()).sum();
        let mut bodies = lay_out(batch, framing, &rest[..count], &mut out[..len]);
        let result = if bodies.is_empty() { Ok(()) } else { source.read(flow, first.body.start, &mut bodies) };
        match result {
            Ok(()) => {
                rest = &rest[count..];
                out = &mut out[len..];
            }
            // Reading them one by one shows which body it is.
            Err(_) if count > 1 => together = 1,
            Err(error) => return (run.len() - rest.len(), Some(error)),
        }
    }
    (run.len(), None)
}

/// How many of the first datagrams have consecutive bodies in the object, so that one read gets them.
fn consecutive(datagrams: &[TxDatagram]) -> usize {
    let follows = |pair: &[TxDatagram]| pair[0].body.end == pair[1].body.start && !pair[1].body.is_empty();
    if datagrams[0].body.is_empty() { 1 } else { 1 + datagrams.windows(2).take_while(|pair| follows(pair)).count() }
}

/// Writes heads and padding of `datagrams` to `out`, and returns the room for their bodies.
fn lay_out<'o>(
    batch: &TxBatch,
    framing: Framing,
    datagrams: &[TxDatagram],
    mut out: &'o mut [u8],
) -> Vec<IoSliceMut<'o>> {
    let mut bodies = Vec::with_capacity(datagrams.len());
    for datagram in datagrams {
        let head = batch.head(datagram);
        let (own, after) = out.split_at_mut(framing.len() + datagram.len());
        let (head_at, rest) = own[framing.envelope..].split_at_mut(head.len());
        let (body, rest) = rest.split_at_mut(datagram.body.len() as usize);
        head_at.copy_from_slice(head);
        rest[..usize::from(datagram.pad)].fill(0);
        if !body.is_empty() {
            bodies.push(IoSliceMut::new(body));
        }
        out = after;
    }
    bodies
}
