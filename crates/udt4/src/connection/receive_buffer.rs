//! Received packets, until the application reads them.

use std::collections::{BTreeMap, VecDeque};

use crate::wire::{Data, Kind, MessageNumber, Position};

/// Packets by their sequence number. Bounded: a packet that does not fit is as good as lost.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    kind: Kind,
    capacity: usize,
    /// The number of the first slot: everything before was taken by the application.
    base: u64,
    slots: VecDeque<Slot>,
    /// Everything before this number has come, or will not come.
    contiguous: u64,
    /// Bytes of the first slot that the application has taken already (streams).
    taken: usize,
    messages: Messages,
    /// Memory of read packets, for the next ones.
    spare: Vec<Vec<u8>>,
    /// Bytes that packets and spare memory take.
    bytes: usize,
    /// There is memory for [`SHORT_PACKETS`] only.
    is_short: bool,
}

/// Packets that are always taken in, even if other memory is used up, so that a connection goes on.
const SHORT_PACKETS: usize = 32;

/// Memory of at most this many packets is kept.
const SPARE_MAX: usize = 1024;

#[derive(Debug)]
enum Slot {
    Missing,
    Data(Piece),
    /// Read out of order, or given up by the sender.
    Gone,
}

#[derive(Debug)]
struct Piece {
    message: MessageNumber,
    position: Position,
    ordered: bool,
    payload: Vec<u8>,
}

/// What became of a packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// It is new.
    New,
    /// It was there already, or was given up.
    Duplicate,
    /// There is no room: it must not be acknowledged.
    NoRoom,
}

/// Which packets lie together, first number to last, of messages that were not read yet.
#[derive(Debug, Default)]
struct Messages {
    /// Pieces of messages that are not complete.
    parts: BTreeMap<u64, u64>,
    /// Complete, and to be read in order.
    ordered: BTreeMap<u64, u64>,
    /// Complete, and may be read before earlier ones.
    unordered: BTreeMap<u64, u64>,
}

impl ReceiveBuffer {
    /// A buffer of `capacity` packets; the first has the number `first`.
    pub(super) fn new(kind: Kind, first: u64, capacity: usize) -> Self {
        let (slots, messages) = (VecDeque::new(), Messages::default());
        let (capacity, spare) = (capacity.max(2), Vec::new());
        let (bytes, is_short) = (0, false);
        Self { kind, capacity, base: first, slots, contiguous: first, taken: 0, messages, spare, bytes, is_short }
    }

    /// Everything before this number has come, or will not come.
    pub(super) fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        self.bytes + self.slots.len() * size_of::<Slot>()
    }

    /// Whether memory is short from now on.
    pub(super) fn set_short(&mut self, is_short: bool) {
        self.is_short = is_short;
        if is_short {
            self.bytes -= self.spare.drain(..).map(|spare| spare.capacity()).sum::<usize>();
        }
    }

    /// How many packets may come from [`contiguous`](Self::contiguous) on.
    pub(super) fn room(&self) -> usize {
        let capacity = if self.is_short { self.capacity.min(SHORT_PACKETS) } else { self.capacity };
        capacity.saturating_sub((self.contiguous - self.base) as usize)
    }

    /// The first number for which there is no room.
    pub(super) fn limit(&self) -> u64 {
        self.base + self.capacity as u64
    }

    /// A data packet has come; `sequence` is its number.
    pub(super) fn insert(&mut self, sequence: u64, data: &Data<'_>) -> Inserted {
        if sequence >= self.limit() {
            return Inserted::NoRoom;
        }
        if self.is_short && sequence >= self.base + SHORT_PACKETS as u64 {
            return Inserted::NoRoom;
        }
        let Some(at) = self.slot_at(sequence) else { return Inserted::Duplicate };
        let Some(slot) = self.slots.get_mut(at).filter(|slot| matches!(slot, Slot::Missing)) else {
            return Inserted::Duplicate;
        };
        let (message, position, ordered) = (data.message, data.position, data.ordered);
        let mut payload = self.spare.pop().unwrap_or_default();
        self.bytes -= payload.capacity();
        payload.extend_from_slice(data.payload);
        self.bytes += payload.capacity();
        *slot = Slot::Data(Piece { message, position, ordered, payload });
        self.advance();
        if self.kind == Kind::Message {
            self.join(sequence);
            self.trim();
        }
        Inserted::New
    }

    /// The sender gave up packets `first` to `last`. Arrived ones stay, unless they belong to `message`.
    pub(super) fn give_up(&mut self, message: MessageNumber, first: u64, last: u64) {
        if self.kind == Kind::Stream {
            // A stream with a hole would be wrong data; libudt's streams never give anything up.
            return;
        }
        let last = last.min(self.limit().saturating_sub(1));
        let mut sequence = first.max(self.base);
        while sequence <= last {
            if let Some(at) = self.slot_at(sequence)
                && let Some(slot) = self.slots.get_mut(at)
            {
                let complete = || self.messages.is_complete(sequence);
                let give_up = match slot {
                    Slot::Missing => true,
                    Slot::Data(piece) => piece.message == message && !complete(),
                    Slot::Gone => false,
                };
                if give_up {
                    if let Slot::Data(piece) = std::mem::replace(slot, Slot::Gone) {
                        self.bytes -= piece.payload.capacity();
                    }
                    self.messages.cut(sequence);
                }
            }
            sequence += 1;
        }
        self.advance();
        self.trim();
    }

    /// The stream's bytes that can be read are copied to `into`, as many as fit. Returns how many.
    pub(super) fn read(&mut self, into: &mut [u8]) -> usize {
        let mut count = 0;
        while self.kind == Kind::Stream && count < into.len() && self.base < self.contiguous {
            let Some(slot) = self.slots.front() else { break };
            if let Slot::Data(piece) = slot {
                let rest = piece.payload.get(self.taken..).unwrap_or(&[]);
                let len = rest.len().min(into.len() - count);
                into[count..count + len].copy_from_slice(&rest[..len]);
                count += len;
                if len < rest.len() {
                    self.taken += len;
                    break;
                }
            }
            self.pop();
        }
        count
    }

    /// The next message that can be read.
    pub(super) fn take_message(&mut self) -> Option<Vec<u8>> {
        let (first, last) = self.messages.next(self.contiguous)?;
        let mut message = Vec::new();
        for sequence in first..=last {
            let Some(slot) = self.slot_at(sequence).and_then(|at| self.slots.get_mut(at)) else { continue };
            if let Slot::Data(piece) = std::mem::replace(slot, Slot::Gone) {
                message.extend_from_slice(&piece.payload);
                self.bytes -= piece.payload.capacity();
            }
        }
        self.messages.remove(first);
        self.trim();
        Some(message)
    }

    /// Whether there is something to read.
    pub(super) fn is_readable(&self) -> bool {
        match self.kind {
            Kind::Stream => self.base < self.contiguous,
            Kind::Message => self.messages.next(self.contiguous).is_some(),
        }
    }

    /// Where the slot of `sequence` is; makes it. `None`: it was taken, or there is no room.
    fn slot_at(&mut self, sequence: u64) -> Option<usize> {
        let at = usize::try_from(sequence.checked_sub(self.base)?).ok().filter(|at| *at < self.capacity)?;
        while self.slots.len() <= at {
            self.slots.push_back(Slot::Missing);
        }
        Some(at)
    }

    fn slot(&self, sequence: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(sequence.checked_sub(self.base)?).ok()?)
    }

    fn piece(&self, sequence: u64) -> Option<&Piece> {
        match self.slot(sequence)? {
            Slot::Data(piece) => Some(piece),
            _ => None,
        }
    }

    fn advance(&mut self) {
        while self.slot(self.contiguous).is_some_and(|slot| !matches!(slot, Slot::Missing)) {
            self.contiguous += 1;
        }
    }

    fn pop(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.base += 1;
            self.taken = 0;
            if let Slot::Data(Piece { mut payload, .. }) = slot {
                if self.spare.len() < SPARE_MAX && !self.is_short {
                    payload.clear();
                    self.spare.push(payload);
                } else {
                    self.bytes -= payload.capacity();
                }
            }
        }
    }

    /// Joins a packet that has come with its neighbours of the same message.
    fn join(&mut self, sequence: u64) {
        let Some(piece) = self.piece(sequence) else { return };
        let same = |other: u64| self.piece(other).is_some_and(|other| other.message == piece.message);
        let (mut first, mut last) = (sequence, sequence);
        if !piece.position.first
            && let Some((&before, &end)) = self.messages.parts.range(..sequence).next_back()
            && end + 1 == sequence
            && same(end)
        {
            first = before;
        }
        if !piece.position.last
            && let Some(&end) = self.messages.parts.get(&(sequence + 1))
            && same(sequence + 1)
        {
            last = end;
        }
        let begins = self.piece(first).is_some_and(|piece| piece.position.first);
        let ends = self.piece(last).is_some_and(|piece| piece.position.last);
        let ordered = self.piece(last).is_some_and(|piece| piece.ordered);
        self.messages.parts.remove(&first);
        if last > sequence {
            self.messages.parts.remove(&(sequence + 1));
        }
        let list = match (begins && ends, ordered) {
            (false, _) => &mut self.messages.parts,
            (true, true) => &mut self.messages.ordered,
            (true, false) => &mut self.messages.unordered,
        };
        list.insert(first, last);
    }

    /// Removes from the front read packets, and pieces of messages that can never be complete.
    fn trim(&mut self) {
        while self.base < self.contiguous {
            let Some(&last) = self.messages.parts.get(&self.base) else {
                if self.piece(self.base).is_some() {
                    break;
                }
                self.pop();
                continue;
            };
            let begins = self.piece(self.base).is_some_and(|piece| piece.position.first);
            // The packet behind it has come and is no part of it; or it fills the buffer, and its end will never fit.
            let hopeless = !begins || last + 1 < self.contiguous || last + 1 >= self.limit();
            if !hopeless {
                break;
            }
            self.messages.parts.remove(&self.base);
            while self.base <= last {
                self.pop();
            }
        }
    }
}

impl Messages {
    /// The first that can be read, where everything before `contiguous` has come.
    fn next(&self, contiguous: u64) -> Option<(u64, u64)> {
        let first = |list: &BTreeMap<u64, u64>| list.first_key_value().map(|(first, last)| (*first, *last));
        let ordered = first(&self.ordered).filter(|(_, last)| *last < contiguous);
        ordered.into_iter().chain(first(&self.unordered)).min()
    }

    fn remove(&mut self, first: u64) {
        self.ordered.remove(&first);
        self.unordered.remove(&first);
    }

    fn is_complete(&self, sequence: u64) -> bool {
        let has = |list: &BTreeMap<u64, u64>| list.range(..=sequence).next_back().is_some_and(|(_, l)| *l >= sequence);
        has(&self.ordered) || has(&self.unordered)
    }

    /// A packet of an incomplete message is gone: its part is split in two.
    fn cut(&mut self, sequence: u64) {
        let Some((&first, &last)) = self.parts.range(..=sequence).next_back().filter(|(_, last)| **last >= sequence)
        else {
            return;
        };
        self.parts.remove(&first);
        if first < sequence {
            self.parts.insert(first, sequence - 1);
        }
        if sequence < last {
            self.parts.insert(sequence + 1, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Sequence, Stamp};

    fn data(message: u32, first: bool, last: bool, ordered: bool, payload: &[u8]) -> Data<'_> {
        Data {
            stamp: Stamp { timestamp: 0, destination: None },
            sequence: Sequence::truncate(0),
            message: MessageNumber::truncate(message),
            position: Position { first, last },
            ordered,
            payload,
        }
    }

    fn solo(message: u32, ordered: bool, payload: &[u8]) -> Data<'_> {
        data(message, true, true, ordered, payload)
    }

    #[test]
    fn a_stream_is_read_in_order_and_in_any_pieces() {
        let mut buffer = ReceiveBuffer::new(Kind::Stream, 100, 4);
        assert_eq!(buffer.insert(101, &solo(1, true, b"def")), Inserted::New);
        assert!(!buffer.is_readable());
        assert_eq!(buffer.insert(101, &solo(1, true, b"def")), Inserted::Duplicate);
        assert_eq!(buffer.insert(104, &solo(1, true, b"x")), Inserted::NoRoom);
        assert_eq!(buffer.insert(100, &solo(1, true, b"abc")), Inserted::New);
        assert_eq!((buffer.contiguous(), buffer.room()), (102, 2));
        let mut into = [0; 4];
        assert_eq!((buffer.read(&mut into), &into), (4, b"abcd"));
        assert_eq!((buffer.read(&mut into), &into[..2]), (2, &b"ef"[..]));
        assert_eq!((buffer.room(), buffer.insert(100, &solo(1, true, b"abc"))), (4, Inserted::Duplicate));
    }

    #[test]
    fn unordered_messages_overtake_and_ordered_ones_wait() {
        let mut buffer = ReceiveBuffer::new(Kind::Message, 0, 10);
        assert_eq!(buffer.insert(1, &solo(2, true, b"ordered")), Inserted::New);
        assert_eq!(buffer.insert(3, &data(3, false, true, false, b"d")), Inserted::New);
        assert!(!buffer.is_readable());
        assert_eq!(buffer.insert(2, &data(3, true, false, false, b"unordere")), Inserted::New);
        assert_eq!(buffer.take_message().unwrap(), b"unordered");
        assert_eq!(buffer.take_message(), None);
        assert_eq!(buffer.insert(0, &solo(1, true, b"first")), Inserted::New);
        assert_eq!(buffer.take_message().unwrap(), b"first");
        assert_eq!(buffer.take_message().unwrap(), b"ordered");
        assert_eq!((buffer.take_message(), buffer.room(), buffer.contiguous()), (None, 10, 4));
    }

    #[test]
    fn what_the_sender_gave_up_is_not_waited_for() {
        let mut buffer = ReceiveBuffer::new(Kind::Message, 0, 10);
        let _ = buffer.insert(1, &data(1, false, false, true, b"b"));
        let _ = buffer.insert(3, &solo(2, true, b"next"));
        assert_eq!(buffer.take_message(), None);
        buffer.give_up(MessageNumber::truncate(1), 0, 2);
        assert_eq!(buffer.take_message().unwrap(), b"next");
        assert_eq!((buffer.room(), buffer.contiguous()), (10, 4));
        buffer.give_up(MessageNumber::truncate(3), 4, u64::MAX - 1);
        assert_eq!(buffer.contiguous(), 14, "no further than the buffer");
    }

    #[test]
    fn a_message_that_cannot_be_complete_makes_room() {
        let mut buffer = ReceiveBuffer::new(Kind::Message, 0, 4);
        // The second message begins before the first has ended.
        let _ = buffer.insert(0, &data(1, true, false, true, b"a"));
        let _ = buffer.insert(1, &data(2, false, true, true, b"b"));
        let _ = buffer.insert(2, &solo(3, true, b"c"));
        assert_eq!(buffer.take_message().unwrap(), b"c");
        assert_eq!(buffer.room(), 4);
        // A message that is larger than the buffer.
        for sequence in 3..7 {
            let _ = buffer.insert(sequence, &data(4, sequence == 3, false, true, b"x"));
        }
        let _ = buffer.insert(7, &data(4, false, true, true, b"x"));
        let _ = buffer.insert(8, &solo(5, true, b"d"));
        assert_eq!(buffer.take_message().unwrap(), b"d");
        assert_eq!(buffer.room(), 4);
    }

    #[test]
    fn a_buffer_without_memory_takes_what_it_needs_to_go_on() {
        let mut buffer = ReceiveBuffer::new(Kind::Stream, 0, 1000);
        assert_eq!(buffer.insert(500, &solo(1, true, b"x")), Inserted::New);
        buffer.set_short(true);
        assert_eq!(buffer.room(), SHORT_PACKETS);
        let mut came = 0;
        while came < 500 {
            assert_eq!(buffer.insert(came + SHORT_PACKETS as u64, &solo(1, true, b"x")), Inserted::NoRoom);
            for sequence in came..500.min(came + SHORT_PACKETS as u64) {
                assert_eq!(buffer.insert(sequence, &solo(1, true, b"x")), Inserted::New, "{sequence}");
            }
            came += buffer.read(&mut [0; 2000]) as u64;
        }
        assert_eq!((came, buffer.memory(), buffer.room()), (501, 0, SHORT_PACKETS));
        buffer.set_short(false);
        assert_eq!(buffer.room(), 1000);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32, bool, bool, bool),
        GiveUp(u32, u64, u64),
        Take,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let numbers = (0u64..40, 0u32..4, any::<[bool; 3]>());
        let insert = numbers.prop_map(|(s, message, [a, b, c])| Step::Insert(s, message, a, b, c));
        let give_up = (0u32..4, 0u64..40, 0u64..40).prop_map(|(m, first, last)| Step::GiveUp(m, first, last));
        prop::collection::vec(prop_oneof![6 => insert, 1 => give_up, 1 => Just(Step::Take)], 0..200)
    }

    proptest! {
        /// For all packets of a hostile peer, the buffer stays in its bounds and gives its room back.
        #[test]
        fn any_packets_may_come(steps in steps(), kind in prop::sample::select(vec![Kind::Stream, Kind::Message])) {
            let mut buffer = ReceiveBuffer::new(kind, 5, 8);
            for step in steps {
                match step {
                    Step::Insert(sequence, message, first, last, ordered) => {
                        let _ = buffer.insert(sequence, &data(message, first, last, ordered, b"x"));
                    }
                    Step::GiveUp(message, first, last) => buffer.give_up(MessageNumber::truncate(message), first, last),
                    Step::Take => {
                        let _ = buffer.take_message();
                        let _ = buffer.read(&mut [0; 2]);
                    }
                }
                prop_assert!(buffer.slots.len() <= 8 && buffer.room() <= 8);
                let here = buffer.slots.iter().map(|slot| match slot {
                    Slot::Data(piece) => piece.payload.capacity(),
                    _ => 0,
                });
                let spare = buffer.spare.iter().map(Vec::capacity);
                prop_assert_eq!(buffer.bytes, here.chain(spare).sum::<usize>());
                prop_assert!(buffer.base <= buffer.contiguous && buffer.contiguous <= buffer.limit());
                let listed = [&buffer.messages.parts, &buffer.messages.ordered, &buffer.messages.unordered];
                let listed = listed.iter().flat_map(|list| list.iter()).map(|(a, b)| b - a + 1).sum::<u64>();
                let pieces = buffer.slots.iter().filter(|slot| matches!(slot, Slot::Data(_))).count() as u64;
                prop_assert!(kind == Kind::Stream || listed == pieces, "{} {}: {:?}", listed, pieces, buffer);
            }
            // All missing packets come as messages of one packet: then everything can be taken.
            for sequence in buffer.contiguous()..buffer.limit() {
                let _ = buffer.insert(sequence, &solo(9, true, b"x"));
            }
            while buffer.take_message().is_some() || buffer.read(&mut [0; 2]) > 0 {}
            prop_assert!(buffer.room() > 0, "{:?}", buffer);
        }
    }
}
