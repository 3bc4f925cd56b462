//! Datagrams in and out, as headers and ranges.

use std::net::{IpAddr, SocketAddr};

use inhaul_base::{ByteRange, Span};

use crate::envelope::{ENVELOPE_LEN, Envelope};
use crate::ids::{ConnectionId, FlowId};

/// One or more datagrams that came in together: equal in size except the last, from one peer (a batch of receive
/// offload, or a single datagram).
///
/// The receiving port has found their flow by their envelopes ([`RxMessage::of_flow`]). An endpoint reads only the part
/// behind the envelope.
///
/// Only the heads need to be readable. Bodies may lie right behind their heads, or already where they belong, when the
/// engine received them by an [`crate::Expected`] layout; in a simulation there are none.
#[derive(Clone, Copy, Debug)]
pub struct RxMessage<'a> {
    /// The peer.
    pub from: SocketAddr,
    /// The address of this host that they were sent to; `None` where the port has only one.
    pub to: Option<IpAddr>,
    /// The flow, and the connection id by which it is known: datagrams of the message with another id are not the
    /// flow's. `None`: the datagrams are as they came, without envelopes (a foreign protocol's, or not sorted yet).
    pub flow: Option<(FlowId, ConnectionId)>,
    /// The message's number in its received batch: [`Place`]s refer to it.
    pub index: u32,
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
    /// A queue on their way has marked them as having met congestion (CE of ECN, RFC 3168).
    pub congested: bool,
}

impl<'a> RxMessage<'a> {
    /// A single datagram whose bytes lie in `bytes`, as it came.
    pub fn single(from: SocketAddr, bytes: &'a [u8]) -> Self {
        let len = bytes.len();
        let (to, flow, index, heads) = (None, None, 0, bytes);
        let (waited, congested) = (Span::ZERO, false);
        Self { from, to, flow, index, heads, head_stride: len, datagram_len: len, total_len: len, waited, congested }
    }

    /// The same datagrams, as far as they are the flow's that is known by `connection`.
    pub fn of_flow(&self, flow: FlowId, connection: ConnectionId) -> Self {
        Self { flow: Some((flow, connection)), ..*self }
    }

    /// The envelope of datagram `k`, where there is one.
    pub fn envelope(&self, k: usize) -> Option<Envelope> {
        Envelope::parse(self.whole_head(k))
    }

    /// The packet number of datagram `k` if it is the flow's; `None` if it is another's. Without envelopes, `k`.
    pub fn number(&self, k: usize) -> Option<u32> {
        let Some((_, connection)) = self.flow else { return Some(k as u32) };
        self.envelope(k).filter(|envelope| envelope.connection == connection).map(|envelope| envelope.number)
    }

    fn envelope_len(&self) -> usize {
        if self.flow.is_some() { ENVELOPE_LEN } else { 0 }
    }

    /// How many datagrams there are; an empty datagram counts as one.
    pub fn datagrams(&self) -> usize {
        self.total_len.div_ceil(self.datagram_len.max(1)).max(1)
    }

    /// Length of datagram `k` in bytes, without its envelope.
    pub fn len_of(&self, k: usize) -> usize {
        self.whole_len(k).saturating_sub(self.envelope_len())
    }

    /// The readable front of datagram `k` behind its envelope: the head, and as much of the body as happens to follow
    /// it.
    pub fn head(&self, k: usize) -> &'a [u8] {
        self.whole_head(k).get(self.envelope_len()..).unwrap_or_default()
    }

    fn whole_len(&self, k: usize) -> usize {
        self.total_len.saturating_sub(k * self.datagram_len).min(self.datagram_len)
    }

    fn whole_head(&self, k: usize) -> &'a [u8] {
        let start = (k * self.head_stride).min(self.heads.len());
        let end = start.saturating_add(self.head_stride.min(self.whole_len(k))).min(self.heads.len());
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
    /// The message, by its [`RxMessage::index`].
    pub message: u32,
    /// The first datagram of the message that belongs here.
    pub first: u32,
    /// Bytes of the first datagram before the first byte to place: envelope, head, and data that is already held.
    pub skip: u32,
    /// Length of envelope and head of the datagrams after the first, in bytes.
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
    /// It is handed to the network on its own, not merged into one message that the kernel or the interface segments.
    /// Protocols ask for this if their receiver measures the time between two datagrams.
    pub alone: bool,
    /// The object's bytes that follow the head.
    pub body: ByteRange,
}

impl TxDatagram {
    /// Bytes of head, body and padding: UDP payload without the envelope.
    pub fn len(&self) -> usize {
        usize::from(self.head_len) + self.body.len() as usize + usize::from(self.pad)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where datagrams of a flow go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The peer.
    pub to: SocketAddr,
    /// The connection id that the peer knows the flow by. `None`: they have no envelope (a foreign protocol's).
    pub connection: Option<ConnectionId>,
    /// The receiver reads marks of congestion and gives way to them: queues may mark the datagrams instead of dropping them
    /// (ECT(0) of ECN, RFC 3168).
    pub reads_marks: bool,
}

impl Route {
    /// To a peer that knows the flow by this connection id.
    pub fn new(to: SocketAddr, connection: ConnectionId) -> Self {
        Self { to, connection: Some(connection), reads_marks: false }
    }

    /// To a peer that has no envelopes: a foreign protocol's.
    pub fn foreign(to: SocketAddr) -> Self {
        Self { to, connection: None, reads_marks: false }
    }

    /// The same for datagrams whose receiver reads marks of congestion.
    #[must_use]
    pub fn reading_marks(self) -> Self {
        Self { reads_marks: true, ..self }
    }

    /// Bytes of envelope that datagrams get on this route.
    pub fn envelope_len(&self) -> usize {
        if self.connection.is_some() { ENVELOPE_LEN } else { 0 }
    }
}

/// Datagrams of one flow to one peer that leave back to back.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The flow, and by it the object that bodies are read from.
    pub flow: FlowId,
    /// Where they go.
    pub route: Route,
    /// The datagrams, in order.
    pub datagrams: &'a [TxDatagram],
}

#[derive(Clone, Copy, Debug)]
struct Group {
    flow: FlowId,
    route: Route,
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

    /// Bytes of UDP payload in it, without envelopes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many more datagrams it asks for.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.datagrams.len())
    }

    /// Adds a datagram: `head`, then the object's bytes `body`, then `pad` zeros. Datagrams of one flow and peer that
    /// are pushed one after the other form one [`Transmit`].
    pub fn push(&mut self, flow: FlowId, route: Route, head: &[u8], body: ByteRange, pad: u16) {
        let head_at = self.heads.len() as u32;
        self.heads.extend_from_slice(head);
        self.bytes += head.len() as u64 + body.len() + u64::from(pad);
        self.datagrams.push(TxDatagram { head_at, head_len: head.len() as u16, pad, alone: false, body });
        self.close_group(flow, route);
    }

    /// Makes the last added datagram leave on its own: see [`TxDatagram::alone`].
    pub fn set_alone(&mut self) {
        if let Some(last) = self.datagrams.last_mut() {
            last.alone = true;
        }
    }

    /// Adds datagrams whose bodies follow each other in the object: `body` cut into pieces of `block` bytes, the last
    /// may be shorter. `head` gives the head of the `k`-th from its number and the place of its body. The same as
    /// [`TxBatch::push`] for each, but quicker.
    pub fn push_run<const N: usize>(
        &mut self,
        flow: FlowId,
        route: Route,
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
                alone: false,
                body: ByteRange::new(start, body.end.min(start.saturating_add(block))),
            };
            self.heads.extend_from_slice(&head(k as u32, start));
            head_at += N as u32;
            datagram
        }));
        self.close_group(flow, route);
    }

    /// Joins the last added datagrams with the group before them, if that is of the same flow and to the same peer.
    fn close_group(&mut self, flow: FlowId, route: Route) {
        let end = self.datagrams.len();
        match self.groups.last_mut() {
            Some(group) if group.flow == flow && group.route == route => group.end = end,
            _ => self.groups.push(Group { flow, route, end }),
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
            Some(Transmit { flow: group.flow, route: group.route, datagrams })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> SocketAddr {
        "192.0.2.1:7".parse().unwrap()
    }

    fn route() -> Route {
        Route::new(peer(), ConnectionId(3))
    }

    #[test]
    fn rx_message_finds_heads_beside_and_apart_from_bodies() {
        let bytes = [1u8, 0, 0, 2, 0, 0, 3, 0];
        let together = RxMessage { head_stride: 3, datagram_len: 3, ..RxMessage::single(peer(), &bytes) };
        assert_eq!(together.datagrams(), 3);
        assert_eq!((0..3).map(|k| together.head(k)[0]).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((0..3).map(|k| together.len_of(k)).collect::<Vec<_>>(), [3, 3, 2]);

        let apart =
            RxMessage { head_stride: 1, datagram_len: 100, total_len: 250, ..RxMessage::single(peer(), &[1, 2, 3]) };
        assert_eq!(apart.datagrams(), 3);
        assert_eq!(apart.head(2), [3]);
        assert_eq!(apart.len_of(2), 50);
    }

    #[test]
    fn rx_message_of_a_flow_shows_what_is_behind_the_envelopes_of_its_datagrams() {
        let envelope = |number, connection| Envelope { number, connection: ConnectionId(connection) }.emit();
        let bytes = [&envelope(5, 3)[..], &[1, 2], &envelope(9, 4), &[3, 4], &envelope(6, 3), &[5]].concat();
        let whole = RxMessage { head_stride: 10, datagram_len: 10, ..RxMessage::single(peer(), &bytes) };
        assert_eq!((whole.head(0).len(), whole.number(1)), (10, Some(1)));
        let own = whole.of_flow(FlowId(1), ConnectionId(3));
        assert_eq!((0..3).map(|k| own.number(k)).collect::<Vec<_>>(), [Some(5), None, Some(6)]);
        assert_eq!((own.head(0), own.len_of(0)), (&[1, 2][..], 2));
        assert_eq!((own.head(2), own.len_of(2)), (&[5][..], 1));
        let short = RxMessage::single(peer(), &bytes[..7]).of_flow(FlowId(1), ConnectionId(3));
        assert_eq!((short.number(0), short.head(0), short.len_of(0)), (None, &[][..], 0));
    }

    #[test]
    fn push_run_is_the_same_as_push_for_each() {
        let head = |k: u32, at: u64| [k as u8, at as u8];
        let (mut run, mut each) = (TxBatch::with_limit(8), TxBatch::with_limit(8));
        run.push_run(FlowId(1), route(), ByteRange::new(5, 30), 10, head);
        for (k, (start, end)) in [(5, 15), (15, 25), (25, 30)].into_iter().enumerate() {
            each.push(FlowId(1), route(), &head(k as u32, start), ByteRange::new(start, end), 0);
        }
        let shape =
            |batch: &TxBatch| format!("{:?} {:?} {:?} {}", batch.heads, batch.datagrams, batch.groups, batch.bytes);
        assert_eq!(shape(&run), shape(&each));
        run.push_run(FlowId(1), route(), ByteRange::new(5, 5), 10, head);
        assert_eq!(shape(&run), shape(&each));
    }

    #[test]
    fn tx_batch_groups_by_flow_and_peer() {
        let mut batch = TxBatch::with_limit(8);
        batch.push(FlowId(1), route(), b"ab", ByteRange::at(0, 10), 0);
        batch.push(FlowId(1), route(), b"cd", ByteRange::at(10, 10), 0);
        batch.push(FlowId(2), route(), b"ef", ByteRange::default(), 5);
        let shape: Vec<_> = batch.transmits().map(|t| (t.flow.0, t.datagrams.len())).collect();
        assert_eq!(shape, [(1, 2), (2, 1)]);
        let last = *batch.transmits().last().unwrap().datagrams.last().unwrap();
        assert_eq!((batch.head(&last), last.len()), (&b"ef"[..], 7));
        assert_eq!(batch.room(), 5);
    }
}
