//! Datagrams that leave together.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use inhaul_udp::{MESSAGE_BYTES_MAX, MESSAGES_MAX, Outgoing, SEGMENTS_MAX, Socket};

/// Bytes of a full batch: few enough to be still in the cache when the kernel copies them.
const BYTES_MAX: usize = 128 << 10;

/// Datagrams, one behind the other in one piece of memory. Datagrams that the kernel can cut from one message are one
/// message.
#[derive(Debug, Default)]
pub(super) struct Batch {
    memory: Vec<u8>,
    messages: Vec<Message>,
    /// Number of messages that have left.
    sent: usize,
    /// The kernel cuts messages into datagrams.
    segments: bool,
    /// The source address of added datagrams; `None`: the kernel's choice.
    from: Option<IpAddr>,
}

/// Datagrams to one peer, equal in length except the last, which may be shorter.
#[derive(Clone, Debug)]
struct Message {
    to: SocketAddr,
    from: Option<IpAddr>,
    bytes: Range<usize>,
    /// Length of each datagram but the last.
    segment: usize,
    datagrams: usize,
    /// No datagram can be added.
    closed: bool,
}

impl Message {
    fn takes(&self, (to, from): (SocketAddr, Option<IpAddr>), len: usize) -> bool {
        !self.closed
            && (self.to, self.from) == (to, from)
            && len <= self.segment
            && self.datagrams < SEGMENTS_MAX
            && self.bytes.len() + len <= MESSAGE_BYTES_MAX
    }
}

impl Batch {
    /// Has datagrams leave as messages that the kernel cuts, or one by one.
    pub(super) fn set_segments(&mut self, segments: bool) {
        self.segments = segments;
    }

    /// Datagrams added from now on leave from this address of this host: the address that its peer uses.
    pub(super) fn leave_from(&mut self, from: Option<IpAddr>) {
        self.from = from;
    }

    pub(super) fn is_full(&self) -> bool {
        self.messages.len() >= MESSAGES_MAX || self.memory.len() >= BYTES_MAX
    }

    /// Whether all have left.
    pub(super) fn is_empty(&self) -> bool {
        self.sent >= self.messages.len()
    }

    /// How many datagrams there are that have not left.
    pub(super) fn datagrams(&self) -> usize {
        self.messages.iter().skip(self.sent).map(|message| message.datagrams).sum()
    }

    pub(super) fn clear(&mut self) {
        self.memory.clear();
        self.messages.clear();
        self.sent = 0;
    }

    /// Adds the datagram that `write` appends.
    pub(super) fn push(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        self.try_push(to, |out| {
            write(out);
            Some(Joined::Yes)
        });
    }

    /// Adds the datagram that `write` appends, if it says that there is one.
    pub(super) fn try_push(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>) -> Option<Joined>) -> bool {
        let start = self.memory.len();
        let Some(joined) = write(&mut self.memory) else {
            self.memory.truncate(start);
            return false;
        };
        let bytes = start..self.memory.len();
        let segment = bytes.len();
        let alone = joined == Joined::No || !self.segments || segment == 0;
        let from = self.from;
        match self.messages.last_mut().filter(|last| !alone && last.takes((to, from), segment)) {
            Some(last) => {
                (last.bytes.end, last.datagrams) = (bytes.end, last.datagrams + 1);
                last.closed = segment < last.segment;
            }
            None => self.messages.push(Message { to, from, bytes, segment, datagrams: 1, closed: alone }),
        }
        true
    }

    /// The messages that have not left, for `socket` to send.
    pub(super) fn outgoing<'m>(&'m self, socket: &'m Socket) -> impl Iterator<Item = Outgoing<'m>> {
        self.messages.iter().skip(self.sent).map(|message| {
            let Message { to, from, bytes, segment, datagrams, .. } = message;
            let segment = if *datagrams > 1 { u16::try_from(*segment).ok() } else { None };
            socket.outgoing(*to, self.memory.get(bytes.clone()).unwrap_or_default(), segment).leaving_from(*from)
        })
    }

    /// The datagrams that have not left.
    pub(super) fn rest(&self) -> impl Iterator<Item = (SocketAddr, Option<IpAddr>, &[u8])> {
        let rest = self.messages.iter().skip(self.sent);
        rest.flat_map(|message| {
            let datagrams = self.memory[message.bytes.clone()].chunks(message.segment);
            datagrams.map(|datagram| (message.to, message.from, datagram))
        })
    }

    /// The first `count` of the rest have left, or never will.
    pub(super) fn advance(&mut self, count: usize) {
        self.sent += count;
    }

    /// Whether the first of the rest is several datagrams.
    pub(super) fn is_segmented(&self) -> bool {
        self.messages.get(self.sent).is_some_and(|message| message.datagrams > 1)
    }

    /// Has the rest leave one by one.
    pub(super) fn split(&mut self) {
        let rest = self.messages.split_off(self.sent.min(self.messages.len()));
        for Message { to, from, bytes, segment, .. } in rest {
            for start in bytes.clone().step_by(segment.max(1)) {
                let bytes = start..bytes.end.min(start + segment);
                let segment = bytes.len();
                self.messages.push(Message { to, from, bytes, segment, datagrams: 1, closed: true });
            }
        }
    }
}

/// Whether a datagram may be a part of a message that is cut later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Length and number of the datagrams of each message.
    fn messages(batch: &Batch) -> Vec<(usize, usize)> {
        batch.messages.iter().skip(batch.sent).map(|message| (message.bytes.len(), message.datagrams)).collect()
    }

    fn add(batch: &mut Batch, port: u16, len: usize, joined: Joined) {
        assert!(batch.try_push(to(port), |out| {
            out.resize(out.len() + len, 7);
            Some(joined)
        }));
    }

    #[test]
    fn equal_datagrams_to_one_peer_are_one_message_until_a_shorter_one() {
        let mut batch = Batch::default();
        batch.set_segments(true);
        for (port, len) in [(1, 100), (1, 100), (1, 40), (1, 40), (1, 100), (2, 100), (2, 100)] {
            add(&mut batch, port, len, Joined::Yes);
        }
        assert_eq!(messages(&batch), [(240, 3), (40, 1), (100, 1), (200, 2)]);
        add(&mut batch, 2, 100, Joined::No);
        add(&mut batch, 2, 100, Joined::Yes);
        assert_eq!(messages(&batch)[3..], [(200, 2), (100, 1), (100, 1)]);
        assert!(!batch.try_push(to(1), |_| None));
        batch.advance(3);
        assert!(batch.is_segmented());
        batch.split();
        assert_eq!(messages(&batch), [(100, 1); 4]);
        assert_eq!(batch.rest().count(), 4);
        batch.advance(4);
        assert!(batch.is_empty());
    }

    #[test]
    fn without_segmentation_each_datagram_is_a_message() {
        let mut batch = Batch::default();
        (0..3).for_each(|_| add(&mut batch, 1, 100, Joined::Yes));
        assert_eq!(messages(&batch), [(100, 1); 3]);
    }

    #[test]
    fn no_message_is_larger_than_udp_carries() {
        let mut batch = Batch::default();
        batch.set_segments(true);
        (0..20).for_each(|_| add(&mut batch, 1, 8_972, Joined::Yes));
        assert_eq!(messages(&batch), [(62_804, 7), (62_804, 7), (53_832, 6)]);
        assert!(batch.is_full());
    }
}
