//! The application's data, in packets, until the peer has it.

use std::collections::VecDeque;

use inhaul_base::{Span, Time};

use crate::wire::{MessageNumber, Position};

/// Packets by their sequence number. Bounded: what does not fit is not taken.
#[derive(Debug)]
pub(super) struct SendBuffer {
    /// The number of the first packet that is here.
    base: u64,
    packets: VecDeque<Outgoing>,
    /// Packets before this one have been sent at least once.
    sent: u64,
    capacity: usize,
    payload_len: usize,
    message: MessageNumber,
    /// The peer has told its application of packets before this one, or will.
    acknowledged: u64,
    /// Bytes that the peer has.
    acknowledged_bytes: u64,
    /// Memory of past packets, for the next ones.
    spare: Vec<Vec<u8>>,
}

/// Memory of at most this many packets is kept.
const SPARE_MAX: usize = 1024;

/// A packet to send.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) payload: Vec<u8>,
    pub(super) message: MessageNumber,
    pub(super) position: Position,
    pub(super) ordered: bool,
    /// From then on its message is of no use.
    expires: Option<Time>,
    /// Its message was given up.
    given_up: bool,
}

/// What to do with a sequence number that is due.
#[derive(Debug)]
pub(super) enum Due<'b> {
    /// Send this.
    Packet(&'b Outgoing),
    /// It took too long: tell the peer not to wait for these, first and last number, of this message.
    Expired {
        message: MessageNumber,
        first: u64,
        last: u64,
        /// The message is given up just now.
        now: bool,
    },
    /// It is not here (any more).
    Nothing,
}

impl SendBuffer {
    /// A buffer of `capacity` packets, each of `payload_len` bytes at most. The first has the number `first`.
    pub(super) fn new(first: u64, capacity: usize, payload_len: usize) -> Self {
        let (capacity, payload_len) = (capacity.max(1), payload_len.max(1));
        let (packets, message) = (VecDeque::new(), MessageNumber::FIRST);
        Self {
            base: first,
            packets,
            sent: first,
            capacity,
            payload_len,
            message,
            acknowledged: first,
            acknowledged_bytes: 0,
            spare: Vec::new(),
        }
    }

    /// Whether the peer has everything.
    pub(super) fn is_empty(&self) -> bool {
        self.acknowledged >= self.end()
    }

    /// The number of the packet behind the last one.
    pub(super) fn end(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Bytes of data that the peer has.
    pub(super) fn acknowledged_bytes(&self) -> u64 {
        self.acknowledged_bytes
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        (self.packets.len() + self.spare.len()) * (self.payload_len + size_of::<Outgoing>())
    }

    /// Gives memory back that is of no use now.
    pub(super) fn drop_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// Packets that are here.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Largest message that fits at all, in bytes.
    pub(super) fn message_max(&self) -> usize {
        self.capacity * self.payload_len
    }

    /// Packets that fit in now.
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.packets.len())
    }

    /// Takes as many bytes of the stream as fit into `packets` more packets, and says how many.
    pub(super) fn write(&mut self, bytes: &[u8], packets: usize) -> usize {
        let mut taken = self.fill_last(bytes);
        for _ in 0..packets.min(self.room()) {
            if taken >= bytes.len() {
                break;
            }
            let chunk = &bytes[taken..bytes.len().min(taken + self.payload_len)];
            taken += chunk.len();
            let payload = self.payload(chunk);
            self.push(payload, Position { first: true, last: true }, true, None);
            self.message = self.message.next();
        }
        taken
    }

    /// Small writes share a packet that has not left yet.
    fn fill_last(&mut self, bytes: &[u8]) -> usize {
        let unsent = self.end() > self.sent;
        let Some(last) = self.packets.back_mut().filter(|_| unsent) else { return 0 };
        let count = self.payload_len.saturating_sub(last.payload.len()).min(bytes.len());
        last.payload.extend_from_slice(&bytes[..count]);
        count
    }

    /// Takes a message if all of it fits. Without a `lifetime` it is sent until it arrives.
    pub(super) fn push_message(&mut self, bytes: &[u8], lifetime: Option<Span>, ordered: bool, now: Time) -> bool {
        let count = bytes.len().div_ceil(self.payload_len);
        if count == 0 || count > self.room() {
            return false;
        }
        let expires = lifetime.map(|lifetime| now + lifetime);
        for (index, payload) in bytes.chunks(self.payload_len).enumerate() {
            let position = Position { first: index == 0, last: index + 1 == count };
            let payload = self.payload(payload);
            self.push(payload, position, ordered, expires);
        }
        self.message = self.message.next();
        true
    }

    fn payload(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut payload = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.payload_len));
        payload.extend_from_slice(bytes);
        payload
    }

    fn push(&mut self, payload: Vec<u8>, position: Position, ordered: bool, expires: Option<Time>) {
        let (message, given_up) = (self.message, false);
        self.packets.push_back(Outgoing { payload, message, position, ordered, expires, given_up });
    }

    /// What to send for the number `sequence`.
    pub(super) fn due(&mut self, sequence: u64, now: Time) -> Due<'_> {
        let Some(at) = sequence.checked_sub(self.base).and_then(|at| usize::try_from(at).ok()) else {
            return Due::Nothing;
        };
        let Some(packet) = self.packets.get(at) else { return Due::Nothing };
        if packet.given_up || packet.expires.is_some_and(|expires| now >= expires) {
            let newly = !packet.given_up;
            let (message, first, last) = self.message_at(at);
            self.sent = self.sent.max(last + 1);
            if newly {
                for packet in self.packets.range_mut((first - self.base) as usize..=(last - self.base) as usize) {
                    (packet.given_up, packet.payload) = (true, Vec::new());
                }
            }
            return Due::Expired { message, first, last, now: newly };
        }
        self.sent = self.sent.max(sequence + 1);
        self.packets.get(at).map_or(Due::Nothing, Due::Packet)
    }

    /// The message that packet `at` is of, and the first and last of its packets that are here.
    fn message_at(&self, at: usize) -> (MessageNumber, u64, u64) {
        let message = self.packets.get(at).map_or(MessageNumber::FIRST, |packet| packet.message);
        let same = |packet: &&Outgoing| packet.message == message;
        let before = self.packets.iter().take(at).rev().take_while(same).count();
        let behind = self.packets.iter().skip(at + 1).take_while(same).count();
        (message, self.base + (at - before) as u64, self.base + (at + behind) as u64)
    }

    /// The peer has all packets before `next`, and has given them to its application.
    pub(super) fn acknowledge(&mut self, next: u64) {
        self.release(next);
        self.acknowledged = self.acknowledged.max(next);
    }

    /// The peer has all packets before `next`: they need not be kept.
    pub(super) fn release(&mut self, next: u64) {
        while self.base < next {
            let Some(mut packet) = self.packets.pop_front() else { break };
            self.acknowledged_bytes += packet.payload.len() as u64;
            self.base += 1;
            if self.spare.len() < SPARE_MAX && packet.payload.capacity() > 0 {
                packet.payload.clear();
                self.spare.push(packet.payload);
            }
        }
        self.sent = self.sent.max(self.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn payload(buffer: &mut SendBuffer, sequence: u64) -> Option<Vec<u8>> {
        match buffer.due(sequence, at(0)) {
            Due::Packet(packet) => Some(packet.payload.clone()),
            _ => None,
        }
    }

    #[test]
    fn small_writes_share_packets_until_they_leave() {
        let mut buffer = SendBuffer::new(10, 3, 4);
        assert_eq!(buffer.write(b"abc", 9), 3);
        assert_eq!(buffer.write(b"def", 9), 3);
        assert_eq!(payload(&mut buffer, 10).unwrap(), b"abcd");
        assert_eq!(payload(&mut buffer, 11).unwrap(), b"ef");
        assert_eq!(buffer.write(b"ghijklm", 9), 4, "the second has left, and the third is the last");
        assert_eq!((payload(&mut buffer, 12).unwrap(), buffer.room()), (b"ghij".to_vec(), 0));
        buffer.acknowledge(12);
        assert_eq!((buffer.room(), buffer.acknowledged_bytes()), (2, 6));
        assert_eq!(payload(&mut buffer, 11), None);
        buffer.acknowledge(u64::MAX);
        assert!(buffer.is_empty());
        assert_eq!(buffer.end(), 13);
    }

    #[test]
    fn what_the_peer_has_makes_room_and_is_not_finished_before_its_application_is_told() {
        let mut buffer = SendBuffer::new(0, 2, 4);
        assert_eq!((buffer.write(b"abcdefgh", 1), buffer.write(b"efgh", 9)), (4, 4));
        buffer.release(2);
        assert_eq!((buffer.room(), buffer.acknowledged_bytes(), buffer.is_empty()), (2, 8, false));
        buffer.acknowledge(2);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_message_fits_whole_or_not_at_all() {
        let mut buffer = SendBuffer::new(0, 3, 4);
        assert!(buffer.push_message(b"123456789", None, true, at(0)));
        assert!(!buffer.push_message(b"x", None, true, at(0)));
        let Due::Packet(middle) = buffer.due(1, at(0)) else { panic!() };
        assert_eq!(middle.position, Position { first: false, last: false });
        let Due::Packet(last) = buffer.due(2, at(0)) else { panic!() };
        assert_eq!((last.position, &last.payload[..]), (Position { first: false, last: true }, &b"9"[..]));
    }

    #[test]
    fn a_message_that_took_too_long_is_given_up_whole() {
        let mut buffer = SendBuffer::new(0, 9, 4);
        assert!(buffer.push_message(b"1", None, true, at(0)));
        assert!(buffer.push_message(b"123456789", Some(Span::from_millis(5)), true, at(0)));
        assert!(matches!(buffer.due(2, at(4)), Due::Packet(_)));
        for newly in [true, false] {
            let Due::Expired { message, first, last, now } = buffer.due(2, at(5)) else { panic!() };
            assert_eq!((message.get(), first, last, now), (2, 1, 3, newly));
        }
        assert!(matches!(buffer.due(0, at(5)), Due::Packet(_)));
    }
}
