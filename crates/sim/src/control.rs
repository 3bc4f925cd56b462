//! The control stream of a transfer, one direction of it: a reliable, ordered stream of messages in segments, as TCP
//! carries them (RFC 9293), with the timer of RFC 6298 and the congestion control of RFC 5681 and 6582 in a modest
//! window.
//!
//! The bytes themselves are not carried: segments name positions in the stream, and both ends of the simulation
//! know which message ends where. Segments are lost, delayed and queued like any packet; what follows a lost one
//! waits.
//!
//! At 5 % loss that matters: GTP's PROTOCOL.md assumes a reliable stream, not an instant one. A stream may have 6 MiB
//! on their way, as Linux lets it grow to (`Simulation::set_control_window`).

use std::collections::VecDeque;

use inhaul_base::{ByteRange, RangeSet, Span, Time};
use inhaul_transport::kit::RttEstimator;

/// Bytes of IPv4 and TCP header of each segment.
pub(crate) const HEADER_BYTES: u32 = 40;
/// Bytes that frame a message in the stream: its length.
const FRAME_BYTES: u64 = 4;
/// Most bytes in flight, unless the simulation sets another limit: the largest receive window that Linux chooses
/// automatically (`tcp_rmem`).
pub(crate) const WINDOW_MAX: u64 = 6 << 20;
/// Segments of the first window (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;
/// Duplicate acknowledgements that tell of a loss (RFC 5681 3.2).
const DUPLICATES: u32 = 3;
/// Retransmission timer at the least and at the most (those of Linux; RFC 6298 has one second and at least a minute).
const TIMER_MIN: Span = Span::from_millis(200);
const TIMER_MAX: Span = Span::from_secs(120);
/// Silence after which the first unacknowledged segment is sent once more before the retransmission timer: two round
/// trips, but not less than this (RFC 8985 7.2; it probes with the last segment, which helps only with SACK).
const PROBE_MIN: Span = Span::from_millis(10);
/// A connection on which nothing is acknowledged for so long is closed: what Linux's `tcp_retries2` of 15 comes to
/// (RFC 1122
/// 4.2.3.5 asks for 100 seconds at least).
pub(crate) const GIVE_UP: Span = Span::from_secs(924);

/// The content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Bytes of the stream.
    Data(ByteRange),
    /// Every byte before this one has come.
    Ack(u64),
}

impl Segment {
    /// Length of its packet, with all headers.
    pub(crate) fn wire_bytes(self) -> u32 {
        match self {
            Self::Data(range) => range.len() as u32 + HEADER_BYTES,
            Self::Ack(_) => HEADER_BYTES,
        }
    }
}

/// An item written to the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A message.
    Message(Vec<u8>),
    /// A tunnelled datagram of this many bytes, which the tunnel holds.
    Datagram(u32),
    /// The stream is closed behind earlier items.
    End,
}

/// One direction of a control stream, both ends of it.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Largest body of a segment.
    segment_bytes: u64,
    /// Most bytes that are on their way.
    window_max: u64,
    /// Undelivered items, and where in the stream they end.
    items: VecDeque<(u64, Item)>,

    // The writing end.
    written: u64,
    acknowledged: u64,
    /// The next byte to send for the first time, or again after a time-out.
    next: u64,
    window: u64,
    threshold: u64,
    duplicates: u32,
    /// In recovery from a loss until this byte is acknowledged (RFC 6582).
    recovery: Option<u64>,
    /// The first unacknowledged segment must be sent again.
    resend: bool,
    rtt: RttEstimator,
    /// The byte whose acknowledgement is timed, and when it was sent. Never a retransmitted byte (Karn).
    timed: Option<(u64, Time)>,
    backoff: u32,
    /// Whether a probe has been sent since the last progress.
    probed: bool,
    timer: Option<Time>,
    /// When the connection is given up.
    give_up: Time,

    // The reading end.
    arrived: RangeSet,
    delivered: u64,
}

impl Stream {
    /// A stream over packets of `mtu` bytes, with the round-trip time measured by the handshake, and at most
    /// `window_max` bytes in flight.
    pub(crate) fn new(mtu: u16, handshake: Span, window_max: u64) -> Self {
        let mut rtt = RttEstimator::default();
        rtt.sample(handshake);
        let segment_bytes = u64::from(u32::from(mtu).saturating_sub(HEADER_BYTES).max(1));
        Self {
            segment_bytes,
            window_max: window_max.max(segment_bytes),
            items: VecDeque::new(),
            written: 0,
            acknowledged: 0,
            next: 0,
            window: (INITIAL_SEGMENTS * segment_bytes).min(window_max.max(segment_bytes)),
            threshold: window_max,
            duplicates: 0,
            recovery: None,
            resend: false,
            rtt,
            timed: None,
            backoff: 0,
            probed: false,
            timer: None,
            give_up: Time::FAR_FUTURE,
            arrived: RangeSet::new(),
            delivered: 0,
        }
    }

    // --- The writing end --------------------------------------------------------------------------------------------

    /// Writes to the stream. [`Stream::poll_segment`] returns the resulting segments.
    pub(crate) fn write(&mut self, item: Item) {
        self.written += match &item {
            Item::Message(message) => message.len() as u64 + FRAME_BYTES,
            Item::Datagram(bytes) => u64::from(*bytes) + FRAME_BYTES,
            // As a FIN does, the end takes one number.
            Item::End => 1,
        };
        self.items.push_back((self.written, item));
    }

    /// Bytes that were written and have not been acknowledged.
    pub(crate) fn backlog(&self) -> u64 {
        self.written - self.acknowledged
    }

    /// The next segment that may be sent at `now`.
    pub(crate) fn poll_segment(&mut self, now: Time) -> Option<Segment> {
        if std::mem::take(&mut self.resend) {
            let end = self.written.min(self.acknowledged + self.segment_bytes);
            self.timed = None;
            self.arm(now);
            return Some(Segment::Data(ByteRange::new(self.acknowledged, end)));
        }
        let limit = self.written.min(self.acknowledged + self.window);
        if self.next >= limit {
            return None;
        }
        // A last small piece goes out at once, as with Nagle's algorithm switched off.
        let range = ByteRange::new(self.next, limit.min(self.next + self.segment_bytes));
        self.next = range.end;
        if self.timed.is_none() && self.backoff == 0 && self.recovery.is_none() {
            self.timed = Some((range.end, now));
        }
        if self.timer.is_none() {
            self.give_up = now + GIVE_UP;
            self.arm(now);
        }
        Some(Segment::Data(range))
    }

    /// An acknowledgement came back.
    pub(crate) fn on_ack(&mut self, now: Time, through: u64) {
        if through > self.written {
            return;
        }
        if through > self.acknowledged {
            self.on_progress(now, through);
        } else if through == self.acknowledged && self.next > self.acknowledged && self.recovery.is_none() {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES {
                self.threshold = ((self.next - self.acknowledged) / 2).max(2 * self.segment_bytes);
                self.window = self.threshold;
                self.recovery = Some(self.next);
                self.resend = true;
            }
        }
    }

    fn on_progress(&mut self, now: Time, through: u64) {
        if let Some((byte, sent)) = self.timed
            && through >= byte
        {
            self.rtt.sample(now.since(sent));
            self.timed = None;
        }
        let newly = through - self.acknowledged;
        self.acknowledged = through;
        self.next = self.next.max(through);
        self.duplicates = 0;
        self.backoff = 0;
        self.probed = false;
        self.give_up = now + GIVE_UP;
        match self.recovery {
            Some(end) if through < end => self.resend = true,
            Some(_) => self.recovery = None,
            None => {
                let growth = newly.min(self.segment_bytes);
                let slow = growth * self.segment_bytes / self.window.max(1);
                self.window += if self.window < self.threshold { growth } else { slow };
                self.window = self.window.min(self.window_max);
            }
        }
        self.timer = None;
        if self.next > self.acknowledged {
            self.arm(now);
        }
    }

    /// When [`Stream::on_timeout`] is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.timer
    }

    /// The retransmission timer has gone off. Returns false when the connection is given up.
    pub(crate) fn on_timeout(&mut self, now: Time) -> bool {
        if self.timer.is_none_or(|timer| timer > now) {
            return true;
        }
        if now >= self.give_up {
            return false;
        }
        if !self.probed {
            self.probed = true;
            self.resend = true;
            return true;
        }
        self.threshold = ((self.next - self.acknowledged) / 2).max(2 * self.segment_bytes);
        self.window = self.segment_bytes;
        self.next = self.acknowledged;
        self.recovery = None;
        self.duplicates = 0;
        self.timed = None;
        self.backoff += 1;
        self.arm(now);
        true
    }

    fn arm(&mut self, now: Time) {
        let timer = self.rtt.patience().unwrap_or_default().max(TIMER_MIN);
        if !self.probed {
            let probe = (self.rtt.smoothed().unwrap_or_default() * 2).max(PROBE_MIN);
            self.timer = Some(now + probe.min(timer));
            return;
        }
        let backed_off = (0..self.backoff).fold(timer, |timer, _| (timer * 2).min(TIMER_MAX));
        self.timer = Some((now + backed_off).min(self.give_up.max(now)));
    }

    // --- The reading end --------------------------------------------------------------------------------------------

    /// Bytes of the stream came in; returns the acknowledgement to send.
    pub(crate) fn on_data(&mut self, range: ByteRange) -> Segment {
        if range.end > self.delivered {
            self.arrived.insert(ByteRange::new(range.start.max(self.delivered), range.end));
        }
        if let Some(first) = self.arrived.first()
            && first.start <= self.delivered
        {
            self.delivered = first.end;
            self.arrived.remove(first);
        }
        Segment::Ack(self.delivered)
    }

    /// The next item that has come in whole.
    pub(crate) fn pop_item(&mut self) -> Option<Item> {
        let (end, _) = self.items.front()?;
        if *end > self.delivered {
            return None;
        }
        self.items.pop_front().map(|(_, item)| item)
    }

    /// Bytes of memory that the stream takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |(_, item): &(u64, Item)| match item {
            Item::Message(message) => message.capacity(),
            Item::Datagram(_) | Item::End => 0,
        };
        size_of::<Self>()
            + self.items.capacity() * size_of::<(u64, Item)>()
            + self.items.iter().map(bytes).sum::<usize>()
            + self.arrived.fragments() * 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::{Probability, RandomStream};
    use proptest::prelude::*;

    /// Sends messages over a path of 10 ms each way that loses packets, until no event is left; returns the deliveries
    /// and their times.
    fn carry(messages: &[Vec<u8>], loss: f64, seed: u64, window_max: u64) -> (Vec<Vec<u8>>, Time) {
        let mut random = RandomStream::new(seed, 0);
        let loss = Probability::new(loss).unwrap();
        let mut stream = Stream::new(1500, Span::from_millis(20), window_max);
        let mut flight: VecDeque<(Time, Segment)> = VecDeque::new();
        let (mut now, mut came) = (Time::ZERO, Vec::new());
        messages.iter().for_each(|message| stream.write(Item::Message(message.clone())));
        loop {
            while let Some(segment) = stream.poll_segment(now) {
                if !random.chance(loss) {
                    flight.push_back((now + Span::from_millis(10), segment));
                }
            }
            let timer_first = stream.due().filter(|due| flight.front().is_none_or(|(at, _)| due < at));
            if let Some(due) = timer_first {
                now = due;
                assert!(stream.on_timeout(now), "given up");
                continue;
            }
            let Some((at, segment)) = flight.pop_front() else { return (came, now) };
            now = at;
            match segment {
                Segment::Data(range) => {
                    let ack = stream.on_data(range);
                    while let Some(Item::Message(message)) = stream.pop_item() {
                        came.push(message);
                    }
                    if !random.chance(loss) {
                        flight.push_back((now + Span::from_millis(10), ack));
                    }
                }
                Segment::Ack(through) => stream.on_ack(now, through),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        // Above a fifth each way a run in some thousand meets a segment that is lost until the stream is given up.
        #[test]
        fn stream_delivers_everything_once_and_in_order(
            lengths in prop::collection::vec(0..5_000usize, 1..40), loss in 0.0..0.2, seed in any::<u64>(),
        ) {
            let messages: Vec<_> = lengths.iter().enumerate().map(|(k, len)| vec![k as u8; *len]).collect();
            prop_assert_eq!(carry(&messages, loss, seed, WINDOW_MAX).0, messages);
        }
    }

    #[test]
    fn stream_without_loss_takes_the_round_trips_of_its_window() {
        // 200 kB: 14,600 bytes at first, then twice as much a round trip: 14.6 + 29.2 + 58.4 + 98.6.
        let (came, end) = carry(&vec![vec![0; 1_000]; 200], 0.0, 1, WINDOW_MAX);
        assert_eq!(came.len(), 200);
        assert_eq!(end, Time::ZERO + Span::from_millis(20 * 4));
        // In a window of 64 KiB: 14.6 + 29.2 + 58.4 + 65.5 + the rest.
        let (_, end) = carry(&vec![vec![0; 1_000]; 200], 0.0, 1, 64 << 10);
        assert_eq!(end, Time::ZERO + Span::from_millis(20 * 5));
    }

    #[test]
    fn stream_one_loss_in_a_long_run_is_repaired_in_a_round_trip() {
        let mut stream = Stream::new(1500, Span::from_millis(20), WINDOW_MAX);
        stream.write(Item::Message(vec![0; 14_000]));
        let now = Time::ZERO + Span::from_millis(5);
        let segments: Vec<_> = std::iter::from_fn(|| stream.poll_segment(now)).collect();
        assert_eq!(segments.len(), 10);
        for segment in &segments[1..] {
            let Segment::Data(range) = *segment else { panic!("{segment:?}") };
            let Segment::Ack(through) = stream.on_data(range) else { panic!("no acknowledgement") };
            assert_eq!(through, 0);
            stream.on_ack(now, through);
        }
        assert_eq!(stream.pop_item(), None);
        assert_eq!(stream.poll_segment(now), Some(segments[0]));
        assert_eq!(stream.poll_segment(now), None);
        let Segment::Data(first) = segments[0] else { panic!("not data") };
        assert_eq!(stream.on_data(first), Segment::Ack(14_004));
        assert!(matches!(stream.pop_item(), Some(Item::Message(message)) if message.len() == 14_000));
    }

    #[test]
    fn stream_on_a_dead_path_is_given_up_in_time() {
        let mut stream = Stream::new(1500, Span::from_millis(20), WINDOW_MAX);
        stream.write(Item::End);
        let start = Time::ZERO + Span::from_secs(7);
        assert!(stream.poll_segment(start).is_some());
        let mut tries = 0;
        let end = loop {
            let due = stream.due().unwrap();
            if !stream.on_timeout(due) {
                break due;
            }
            tries += 1;
            assert!(stream.poll_segment(due).is_some());
        };
        // A probe after 40 ms; then 200, 400, ... 102,400 ms and 120 seconds each.
        assert_eq!((end, tries), (start + GIVE_UP, 1 + 10 + 5));
    }
}
