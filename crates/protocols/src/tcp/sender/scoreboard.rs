//! The scoreboard: segments in flight, arrived segments, and lost segments that wait for retransmission.
//!
//! Losses are found in the order of sending (RFC 8985): segments sent once have that order by number; retransmitted
//! segments have a queue of their own. Each is looked at a bounded number of times between leaving and being
//! acknowledged, so an acknowledgement costs O(log n) in the number of gaps and no walk along the window.

use std::collections::VecDeque;

use inhaul_base::{ByteRange, RangeSet, Span, Time};

use super::rate::Snapshot;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is on its way.
    OnItsWay,
    /// It is taken for lost and waits to be sent again.
    Lost,
    /// It came: a block said so.
    Came,
}

/// A segment that has been sent and not been acknowledged in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The bytes of the object that it carries.
    pub(super) offset: u64,
    pub(super) len: u16,
    state: State,
    /// It was sent more than once.
    again: bool,
    /// The state of the rate estimator when it was last sent.
    pub(super) snapshot: Snapshot,
}

impl Segment {
    pub(super) fn new(body: ByteRange, snapshot: Snapshot) -> Self {
        Self { offset: body.start, len: body.len() as u16, state: State::OnItsWay, again: false, snapshot }
    }

    pub(super) fn body(&self) -> ByteRange {
        ByteRange::at(self.offset, u64::from(self.len))
    }
}

/// Changes by an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    now: Time,
    /// Least round-trip time, as far as it was known before.
    known_least_rtt: Option<Span>,
    /// Behind the highest segment that had come before.
    highest: u64,
    /// Segments that are known to have come for the first time.
    pub(super) delivered: u64,
    /// Segments that are acknowledged in order for the first time.
    pub(super) acknowledged: u64,
    /// Segments found lost.
    pub(super) lost: u64,
    /// One of them had been sent again before.
    pub(super) lost_again: bool,
    /// The estimator's state at the sending of the segment that was sent last of those delivered.
    pub(super) newest: Option<Snapshot>,
    /// That segment's place in the order of sending and its round-trip time, where it can be told which sending came.
    pub(super) newest_for_rack: Option<(u64, Span)>,
    /// Of the segments sent once: the round-trip time of the last sent one, and the least one.
    pub(super) rtt: Option<Span>,
    pub(super) least_rtt: Option<Span>,
    /// A segment that was sent once came after a higher one.
    pub(super) reordered: bool,
}

/// Segments from the first that is not acknowledged to the last that was sent.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// Number of the first segment that is not acknowledged (HighACK + 1).
    first: u64,
    segments: VecDeque<Segment>,
    /// Numbers of segments that came out of order.
    sacked: RangeSet,
    /// Numbers of segments that are lost and wait to be sent again.
    lost: RangeSet,
    /// Behind the highest segment that has come.
    highest: u64,
    /// Segments before this one that were sent once are no longer in flight.
    judged: u64,
    /// Segments that were sent again, in the order of sending: places in that order, and numbers. Some may have come
    /// or been sent once more since.
    again: VecDeque<(u64, u64)>,
}

impl Scoreboard {
    /// Number of the first segment that is not acknowledged.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Number that the next new segment will have (HighData + 1).
    pub(super) fn next(&self) -> u64 {
        self.first + self.segments.len() as u64
    }

    /// Whether everything is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Segments that are not acknowledged in order.
    pub(super) fn outstanding(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Segments that came behind gaps.
    pub(super) fn sacked(&self) -> u64 {
        self.sacked.covered()
    }

    /// Segments on their way: sent, not known to have come, and not taken for lost since.
    pub(super) fn pipe(&self) -> u64 {
        self.outstanding() - self.sacked.covered() - self.lost.covered()
    }

    /// A new segment is sent. Returns its number.
    pub(super) fn push(&mut self, segment: Segment) -> u64 {
        self.segments.push_back(segment);
        self.next() - 1
    }

    /// Nothing is on its way, and the next new segment has number `from`.
    pub(super) fn restart(&mut self, from: u64) {
        *self = Self { first: from, judged: from, highest: from, ..Self::default() };
    }

    /// Returns a record for the changes by an acknowledgement that came `now`.
    pub(super) fn progress(&self, now: Time, known_least_rtt: Option<Span>) -> Progress {
        Progress { now, known_least_rtt, highest: self.highest, ..Progress::default() }
    }

    /// Everything before `to` has come.
    pub(super) fn acknowledge(&mut self, to: u64, progress: &mut Progress) {
        let count = to.min(self.next()).saturating_sub(self.first);
        for (number, segment) in (self.first..).zip(self.segments.drain(..count as usize)) {
            if segment.state != State::Came {
                progress.deliver(number, &segment);
            }
        }
        self.first += count;
        progress.acknowledged += count;
        for set in [&mut self.sacked, &mut self.lost] {
            set.remove(ByteRange::new(0, self.first));
        }
        self.judged = self.judged.max(self.first);
        self.highest = self.highest.max(self.first);
    }

    /// A block reports that segments `block` have come. Segments that are not outstanding are ignored.
    pub(super) fn sack(&mut self, block: ByteRange, progress: &mut Progress) {
        let block = block.intersection(ByteRange::new(self.first, self.next()));
        if self.sacked.contains(block) {
            return;
        }
        for gap in self.sacked.gaps(block) {
            let segments = self.segments.range_mut((gap.start - self.first) as usize..(gap.end - self.first) as usize);
            for (number, segment) in (gap.start..).zip(segments) {
                progress.deliver(number, segment);
                segment.state = State::Came;
            }
            self.lost.remove(gap);
        }
        self.sacked.insert(block);
        self.highest = self.highest.max(block.end);
    }

    /// Marks segments as lost that were sent before `overtaken` in the order of sending, and `patience` ago or longer
    /// (RFC 8985 6.2 step 5). Returns when the next will be lost, if nothing changes.
    pub(super) fn find_lost(&mut self, overtaken: u64, patience: Span, progress: &mut Progress) -> Option<Time> {
        let mut due = None;
        while let Some(segment) = self.segments.get((self.judged - self.first) as usize) {
            if segment.state == State::OnItsWay && !segment.again {
                if segment.snapshot.order >= overtaken {
                    break;
                }
                if segment.snapshot.sent + patience > progress.now {
                    due = Some(segment.snapshot.sent + patience);
                    break;
                }
                self.lose(self.judged, progress);
            }
            self.judged += 1;
        }
        while let Some(&(order, number)) = self.again.front() {
            if let Some(segment) = self.resent(order, number) {
                if order >= overtaken {
                    break;
                }
                let late = segment.snapshot.sent + patience;
                if late > progress.now {
                    due = Some(due.map_or(late, |due: Time| due.min(late)));
                    break;
                }
                self.lose(number, progress);
                progress.lost_again = true;
            }
            self.again.pop_front();
        }
        due
    }

    /// The segment `number`, if it is on its way since the sending with the place `order`.
    fn resent(&self, order: u64, number: u64) -> Option<&Segment> {
        let segment = self.segments.get(number.checked_sub(self.first)? as usize)?;
        (segment.state == State::OnItsWay && segment.snapshot.order == order).then_some(segment)
    }

    /// A retransmission timeout: the first segment is lost, and all others sent `patience` ago or longer; later ones
    /// may still be in flight (RFC 8985 6.3). Blocks stay known: a receiver of this protocol does not discard reported
    /// segments (RFC 6675 section 5.1).
    pub(super) fn time_out(&mut self, patience: Span, progress: &mut Progress) {
        for number in self.first..self.next() {
            let segment = &self.segments[(number - self.first) as usize];
            let late = segment.snapshot.sent + patience <= progress.now;
            if segment.state == State::OnItsWay && (number == self.first || late) {
                self.lose(number, progress);
            }
        }
    }

    /// The loss was spurious: lost segments are judged anew.
    pub(super) fn find_again(&mut self) {
        for range in self.lost.iter() {
            for segment in
                self.segments.range_mut((range.start - self.first) as usize..(range.end - self.first) as usize)
            {
                segment.state = State::OnItsWay;
            }
        }
        self.lost = RangeSet::new();
        self.judged = self.first;
        let numbered = (self.first..).zip(&self.segments);
        let mut again: Vec<_> = numbered.filter(|(_, s)| s.again).map(|(n, s)| (s.snapshot.order, n)).collect();
        again.sort_unstable();
        self.again = again.into();
    }

    /// Marks segment `number`, which is on its way, as lost.
    fn lose(&mut self, number: u64, progress: &mut Progress) {
        self.segments[(number - self.first) as usize].state = State::Lost;
        self.lost.insert(ByteRange::at(number, 1));
        progress.lost += 1;
    }

    /// The first segment that is lost and waits to be sent again (RFC 6675 NextSeg rule 1).
    pub(super) fn next_lost(&self) -> Option<u64> {
        self.lost.first().map(|range| range.start)
    }

    /// The last segment that is not known to have come: a loss probe sends it (RFC 8985 7.3).
    pub(super) fn last_missing(&self) -> Option<u64> {
        let last = self.next().checked_sub(1)?;
        let number = self.sacked.run_at(last).map_or(last, |run| run.start.wrapping_sub(1));
        (number >= self.first && number < self.next()).then_some(number)
    }

    /// Segment `number` is sent again. Returns its bytes.
    pub(super) fn resend(&mut self, number: u64, snapshot: Snapshot) -> Option<ByteRange> {
        let segment = self.segments.get_mut(number.checked_sub(self.first)? as usize)?;
        if segment.state == State::Lost {
            self.lost.remove(ByteRange::at(number, 1));
        }
        (segment.state, segment.again, segment.snapshot) = (State::OnItsWay, true, snapshot);
        self.again.push_back((snapshot.order, number));
        Some(segment.body())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let fragments = self.sacked.fragments() + self.lost.fragments();
        self.segments.capacity() * size_of::<Segment>() + self.again.capacity() * 16 + fragments * 40
    }
}

impl Progress {
    /// Segment `number` is known to have come.
    fn deliver(&mut self, number: u64, segment: &Segment) {
        self.delivered += 1;
        let rtt = self.now.since(segment.snapshot.sent);
        let order = segment.snapshot.order;
        let latest = self.newest.is_none_or(|newest| order > newest.order);
        if latest {
            self.newest = Some(segment.snapshot);
        }
        // If it comes sooner than any could, it was an earlier sending that came (RFC 8985 6.2 step 2). Echoed
        // timestamps do not tell:
        // behind a gap they are those of older segments.
        let ambiguous = segment.again && self.known_least_rtt.is_some_and(|least| rtt < least);
        if !ambiguous && self.newest_for_rack.is_none_or(|(before, _)| order > before) {
            self.newest_for_rack = Some((order, rtt));
        }
        if !segment.again {
            if latest {
                self.rtt = Some(rtt);
            }
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
            self.reordered |= number < self.highest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::RateEstimator;
    use super::*;
    use proptest::prelude::*;

    /// Longer than anything takes.
    const NEVER: Span = Span::from_secs(1_000);

    /// A board and the order of its sendings, each a millisecond after the one before.
    struct Hand {
        board: Scoreboard,
        rate: RateEstimator,
        sent: u64,
    }

    impl Hand {
        fn with(segments: u64) -> Self {
            let mut hand = Self { board: Scoreboard::default(), rate: RateEstimator::new(Time::ZERO), sent: 0 };
            (0..segments).for_each(|_| hand.push());
            hand
        }

        fn now(&self) -> Time {
            Time::ZERO + Span::from_millis(self.sent)
        }

        fn snapshot(&mut self) -> Snapshot {
            self.sent += 1;
            self.rate.on_send(self.now(), 0)
        }

        fn push(&mut self) {
            let snapshot = self.snapshot();
            self.board.push(Segment::new(ByteRange::at(0, 1_000), snapshot));
        }

        /// Sends the next lost segment again; returns its number.
        fn resend(&mut self) -> Option<u64> {
            let number = self.board.next_lost()?;
            let snapshot = self.snapshot();
            self.board.resend(number, snapshot).map(|_| number)
        }

        fn sack(&mut self, start: u64, end: u64) -> Progress {
            let mut progress = self.board.progress(self.now(), None);
            self.board.sack(ByteRange::new(start, end), &mut progress);
            progress
        }

        fn lost(&self) -> Vec<u64> {
            self.board.lost.iter().flat_map(|range| range.start..range.end).collect()
        }
    }

    #[test]
    fn find_lost_goes_by_the_order_of_sending() {
        let mut hand = Hand::with(6);
        let mut progress = hand.sack(2, 4);
        // Segment 3, the fourth to be sent, came.
        assert_eq!(progress.newest_for_rack.map(|newest| newest.0), Some(3));
        assert_eq!(hand.board.find_lost(3, Span::ZERO, &mut progress), None);
        assert_eq!((hand.lost(), hand.board.pipe()), (vec![0, 1], 2));
        assert_eq!((hand.resend(), hand.resend(), hand.board.pipe()), (Some(0), Some(1), 4));
        // The second retransmission came: the first one, and segments sent before both, are overtaken.
        let mut progress = hand.sack(1, 2);
        assert_eq!(progress.newest_for_rack.map(|newest| newest.0), Some(7));
        assert!(!progress.reordered, "it was sent twice");
        hand.board.find_lost(7, Span::ZERO, &mut progress);
        assert_eq!((hand.lost(), progress.lost, progress.lost_again), (vec![0, 4, 5], 3, true));
    }

    #[test]
    fn find_lost_is_patient_and_says_until_when() {
        let mut hand = Hand::with(6);
        let mut progress = hand.sack(4, 5);
        // Sent after 1, 2, 3 ms and so on; now it is 6 ms after zero.
        let due = hand.board.find_lost(4, Span::from_millis(4), &mut progress);
        assert_eq!((hand.lost(), due), (vec![0, 1], Some(Time::ZERO + Span::from_millis(7))));
        assert!(hand.sack(3, 4).reordered);
    }

    #[test]
    fn time_out_spares_what_was_just_sent_and_find_again_takes_it_back() {
        let mut hand = Hand::with(10);
        hand.sack(4, 6);
        let mut progress = hand.board.progress(hand.now(), None);
        hand.board.time_out(Span::from_millis(3), &mut progress);
        assert_eq!((hand.lost(), hand.board.pipe()), (vec![0, 1, 2, 3, 6], 3));
        hand.resend();
        hand.board.find_again();
        assert_eq!(hand.board.pipe(), 8);
        // Segments sent once and retransmitted ones are judged anew.
        let mut progress = hand.board.progress(hand.now(), None);
        hand.board.find_lost(100, Span::ZERO, &mut progress);
        assert_eq!(hand.lost(), [0, 1, 2, 3, 6, 7, 8, 9]);
    }

    #[test]
    fn last_missing_is_what_a_probe_sends() {
        let mut hand = Hand::with(4);
        assert_eq!(hand.board.last_missing(), Some(3));
        hand.sack(2, 4);
        assert_eq!(hand.board.last_missing(), Some(1));
        assert_eq!(Scoreboard::default().last_missing(), None);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push,
        Acknowledge(u64),
        Sack(u64, u64),
        Judge(u64),
        Again,
        TimeOut(u64),
        FindAgain,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => Just(Step::Push),
            1 => (0..30u64).prop_map(Step::Acknowledge),
            3 => (0..30u64, 0..6u64).prop_map(|(start, len)| Step::Sack(start, start + len)),
            2 => (0..20u64).prop_map(Step::Judge),
            3 => Just(Step::Again),
            1 => (0..20u64).prop_map(Step::TimeOut),
            1 => Just(Step::FindAgain),
        ]
    }

    proptest! {
        /// Compares with the definitions, by walking along the window, for all reports, including nonsense.
        #[test]
        fn counts_and_losses_agree_with_a_walk(steps in prop::collection::vec(step(), 1..120)) {
            let mut hand = Hand::with(0);
            let mut delivered = 0;
            for step in steps {
                let mut progress = hand.board.progress(hand.now(), None);
                match step {
                    Step::Push => hand.push(),
                    Step::Acknowledge(ahead) => hand.board.acknowledge(hand.board.first() + ahead, &mut progress),
                    Step::Sack(start, end) => {
                        let first = hand.board.first();
                        hand.board.sack(ByteRange::new(first + start, first + end), &mut progress);
                    }
                    Step::Judge(before) => {
                        let overtaken = hand.sent.saturating_sub(before);
                        hand.board.find_lost(overtaken, Span::ZERO, &mut progress);
                        for segment in &hand.board.segments {
                            let late = segment.state == State::OnItsWay && segment.snapshot.order < overtaken;
                            prop_assert!(!late, "{segment:?} of {:?}", hand.board);
                        }
                        let due = hand.board.find_lost(hand.sent, NEVER, &mut progress);
                        let waits = |s: &Segment| s.state == State::OnItsWay && s.snapshot.order < hand.sent;
                        let expected = hand.board.segments.iter().filter(|s| waits(s)).map(|s| s.snapshot.sent + NEVER).min();
                        prop_assert_eq!(due, expected);
                    }
                    Step::Again => {
                        hand.resend();
                    }
                    Step::TimeOut(millis) => hand.board.time_out(Span::from_millis(millis), &mut progress),
                    Step::FindAgain => hand.board.find_again(),
                }
                delivered += progress.delivered;
                let board = &hand.board;
                let is = |state| board.segments.iter().filter(move |s| s.state == state).count() as u64;
                prop_assert_eq!(board.pipe(), is(State::OnItsWay));
                prop_assert_eq!(board.lost.covered(), is(State::Lost));
                for (number, segment) in (board.first..).zip(&board.segments) {
                    prop_assert_eq!(segment.state == State::Came, board.sacked.run_at(number).is_some());
                    prop_assert_eq!(segment.state == State::Lost, board.lost.run_at(number).is_some());
                }
                prop_assert_eq!(delivered, board.first + board.sacked.covered());
            }
        }
    }
}
