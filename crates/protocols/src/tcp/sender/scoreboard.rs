//! The scoreboard: which segments are on their way, which have come, which are lost (RFC 6675 sections 2 to 4).
//!
//! Counted in segments. Every count is kept up to date as segments change state, and each segment is looked at a bounded
//! number of times between leaving and being acknowledged, so an acknowledgement costs O(log n) in the number of gaps and
//! no walk along the window.

use std::collections::VecDeque;

use inhaul_base::{ByteRange, RangeSet};

use super::rate::Snapshot;

/// RFC 6675 section 2 DupThresh: so many segments that came after one prove it lost.
const DUP_THRESH: u64 = 3;

/// A segment that has been sent and not been acknowledged in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The bytes of the object that it carries.
    pub(super) offset: u64,
    pub(super) len: u16,
    /// It came: a block said so.
    sacked: bool,
    /// It is taken for lost.
    lost: bool,
    /// It was sent again.
    resent: bool,
    /// The state of the rate estimator when it was last sent.
    pub(super) snapshot: Snapshot,
}

impl Segment {
    pub(super) fn new(body: ByteRange, snapshot: Snapshot) -> Self {
        let (offset, len) = (body.start, body.len() as u16);
        Self { offset, len, sacked: false, lost: false, resent: false, snapshot }
    }

    pub(super) fn body(&self) -> ByteRange {
        ByteRange::at(self.offset, u64::from(self.len))
    }
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Segments that are known to have come for the first time.
    pub(super) delivered: u64,
    /// Segments that are acknowledged in order for the first time.
    pub(super) acknowledged: u64,
    /// Segments found lost.
    pub(super) lost: u64,
    /// The estimator's state at the sending of the segment that was sent last of those delivered.
    pub(super) newest: Option<Snapshot>,
}

/// Segments from the first that is not acknowledged to the last that was sent.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// Number of the first segment that is not acknowledged (HighACK + 1).
    first: u64,
    segments: VecDeque<Segment>,
    /// Numbers of segments that came out of order.
    sacked: RangeSet,
    /// Up to here every segment that is not sacked is marked as lost.
    judged: u64,
    /// Segments marked as lost and not sacked.
    lost: u64,
    /// Segments sent again and not known to have come.
    resent: u64,
    /// Segments before this one have been sent again as far as they are to be (HighRxt + 1).
    resend_from: u64,
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

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Segments on their way: sent, not known to have come, not taken for lost, or sent again since (SetPipe).
    pub(super) fn pipe(&self) -> u64 {
        self.segments.len() as u64 - self.sacked.covered() - self.lost + self.resent
    }

    /// A new segment is sent. Returns its number.
    pub(super) fn push(&mut self, segment: Segment) -> u64 {
        self.segments.push_back(segment);
        self.next() - 1
    }

    /// Nothing is on its way, and the next new segment has number `from`.
    pub(super) fn restart(&mut self, from: u64) {
        *self = Self { first: from, judged: from, resend_from: from, ..Self::default() };
    }

    /// Everything before `to` has come.
    pub(super) fn acknowledge(&mut self, to: u64, progress: &mut Progress) {
        let count = to.min(self.next()).saturating_sub(self.first);
        for segment in self.segments.drain(..count as usize) {
            if !segment.sacked {
                self.lost -= u64::from(segment.lost);
                self.resent -= u64::from(segment.resent);
                progress.deliver(&segment);
            }
        }
        self.first += count;
        progress.acknowledged += count;
        self.sacked.remove(ByteRange::new(0, self.first));
        self.judged = self.judged.max(self.first);
        self.resend_from = self.resend_from.max(self.first);
    }

    /// A block says that segments `block` have come. What lies outside of what is on its way is ignored.
    pub(super) fn sack(&mut self, block: ByteRange, progress: &mut Progress) {
        let block = block.intersection(ByteRange::new(self.first, self.next()));
        if self.sacked.contains(block) {
            return;
        }
        for gap in self.sacked.gaps(block) {
            for segment in self.segments.range_mut((gap.start - self.first) as usize..(gap.end - self.first) as usize) {
                self.lost -= u64::from(segment.lost);
                self.resent -= u64::from(segment.resent);
                progress.deliver(segment);
                (segment.sacked, segment.lost, segment.resent) = (true, false, false);
            }
        }
        self.sacked.insert(block);
    }

    /// Marks as lost what [`DUP_THRESH`] later segments have overtaken (IsLost).
    pub(super) fn find_lost(&mut self, progress: &mut Progress) {
        let mut later = DUP_THRESH;
        let mut overtaken = self.first;
        for run in self.sacked.iter().rev() {
            if run.len() >= later {
                overtaken = run.end - later;
                break;
            }
            later -= run.len();
        }
        while self.judged < overtaken {
            progress.lost += u64::from(self.lose(self.judged));
            self.judged += 1;
        }
    }

    /// Takes everything for lost that is not known to have come, and forgets what was sent again. Blocks stay known: a
    /// receiver of this protocol does not give up what it has reported (RFC 6675 section 5.1).
    pub(super) fn lose_all(&mut self) -> u64 {
        let before = self.lost;
        for number in self.first..self.next() {
            self.lose(number);
        }
        for segment in &mut self.segments {
            segment.resent = false;
        }
        self.resent = 0;
        self.judged = self.next();
        self.resend_from = self.first;
        self.lost - before
    }

    /// The last [`lose_all`](Scoreboard::lose_all) was a mistake: nothing is taken for lost that has not been overtaken.
    pub(super) fn find_again(&mut self) {
        for segment in &mut self.segments {
            segment.lost = false;
        }
        self.lost = 0;
        self.judged = self.first;
        self.find_lost(&mut Progress::default());
    }

    /// Marks segment `number` as lost. Returns whether that is new.
    fn lose(&mut self, number: u64) -> bool {
        let Some(segment) = self.segments.get_mut((number - self.first) as usize) else { return false };
        let new = !segment.sacked && !segment.lost;
        segment.lost |= new;
        self.lost += u64::from(new);
        new
    }

    /// Whether the first segment is taken for lost: the sign to begin a repair (RFC 6675 section 5, step 2).
    pub(super) fn first_is_lost(&self) -> bool {
        self.segments.front().is_some_and(|s| s.lost)
    }

    /// A repair begins: the first segment is to be sent again whatever became of it before.
    pub(super) fn begin_repair(&mut self) {
        self.resend_from = self.first;
        if let Some(first) = self.segments.front_mut()
            && first.resent
        {
            first.resent = false;
            self.resent -= 1;
        }
    }

    /// The next segment that is lost and has not been sent again (NextSeg rule 1).
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        while self.resend_from < self.judged {
            let segment = self.segments.get((self.resend_from - self.first) as usize)?;
            if segment.lost && !segment.sacked && !segment.resent {
                return Some(self.resend_from);
            }
            self.resend_from += 1;
        }
        None
    }

    /// The next segment below the highest that came which is neither known to have come nor sent again, though it may not
    /// be lost (NextSeg rule 3). Asked for only when there is no [`next_lost`](Scoreboard::next_lost).
    pub(super) fn next_suspect(&mut self) -> Option<u64> {
        let highest = self.sacked.iter().next_back()?.end;
        while self.resend_from < highest {
            let segment = self.segments.get((self.resend_from - self.first) as usize)?;
            if !segment.sacked && !segment.resent {
                return Some(self.resend_from);
            }
            self.resend_from += 1;
        }
        None
    }

    /// The last segment that is not known to have come (NextSeg rule 4).
    pub(super) fn last_missing(&self) -> Option<u64> {
        let last = self.next().checked_sub(1)?;
        let number = self.sacked.run_at(last).map_or(last, |run| run.start.wrapping_sub(1));
        (number >= self.first && number < self.next()).then_some(number)
    }

    /// Segment `number` is sent again. Returns its bytes.
    pub(super) fn resend(&mut self, number: u64, snapshot: Snapshot) -> Option<ByteRange> {
        let segment = self.segments.get_mut(number.checked_sub(self.first)? as usize)?;
        self.resent += u64::from(!segment.resent);
        segment.resent = true;
        segment.snapshot = snapshot;
        Some(segment.body())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>() + self.sacked.fragments() * 40
    }
}

impl Progress {
    fn deliver(&mut self, segment: &Segment) {
        self.delivered += 1;
        if self.newest.is_none_or(|newest| segment.snapshot.is_later_than(&newest)) {
            self.newest = Some(segment.snapshot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::RateEstimator;
    use super::*;
    use inhaul_base::Time;
    use proptest::prelude::*;

    fn snapshot() -> Snapshot {
        RateEstimator::new(Time::ZERO).on_send(Time::ZERO, 0)
    }

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for n in 0..segments {
            board.push(Segment::new(ByteRange::at(n * 1_000, 1_000), snapshot()));
        }
        board
    }

    fn sack(board: &mut Scoreboard, start: u64, end: u64) -> Progress {
        let mut progress = Progress::default();
        board.sack(ByteRange::new(start, end), &mut progress);
        board.find_lost(&mut progress);
        progress
    }

    #[test]
    fn find_lost_waits_for_three_later_segments() {
        let mut board = board(10);
        assert_eq!(sack(&mut board, 2, 4).lost, 0);
        assert!(!board.first_is_lost());
        // Segments 2, 3 and 5 came: three later than 0 and 1, but only one later than 4.
        let progress = sack(&mut board, 5, 6);
        assert_eq!((progress.lost, progress.delivered), (2, 1));
        assert!(board.first_is_lost());
        assert_eq!(board.pipe(), 10 - 3 - 2);
        assert_eq!(board.next_lost(), Some(0));
    }

    #[test]
    fn next_segments_follow_rfc_6675() {
        let mut board = board(10);
        sack(&mut board, 1, 3);
        sack(&mut board, 5, 7);
        // Rule 1: 0 has four later ones, 3 and 4 only two.
        assert_eq!(board.next_lost(), Some(0));
        assert_eq!(board.resend(0, snapshot()), Some(ByteRange::new(0, 1_000)));
        assert_eq!(board.next_lost(), None);
        // Rule 3: 3 and 4 are below the highest that came.
        for number in [3, 4] {
            assert_eq!(board.next_suspect(), Some(number));
            board.resend(number, snapshot());
        }
        assert_eq!(board.next_suspect(), None);
        // Rule 4: the last that is missing.
        assert_eq!(board.last_missing(), Some(9));
        // 0, 3, 4 were sent again (0 is lost, 3 and 4 count twice), 7, 8, 9 are on their way.
        assert_eq!(board.pipe(), 1 + 4 + 3);
    }

    #[test]
    fn lose_all_keeps_what_came_and_find_again_takes_it_back() {
        let mut board = board(10);
        sack(&mut board, 4, 6);
        assert_eq!(board.lose_all(), 8);
        assert_eq!(board.pipe(), 0);
        let again: Vec<_> = std::iter::from_fn(|| {
            let number = board.next_lost()?;
            board.resend(number, snapshot());
            Some(number)
        })
        .collect();
        assert_eq!(again, [0, 1, 2, 3, 6, 7, 8, 9]);
        board.lose_all();
        board.find_again();
        assert_eq!(board.pipe(), 8);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push,
        Acknowledge(u64),
        Sack(u64, u64),
        Repair,
        Again,
        LoseAll,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => Just(Step::Push),
            1 => (0..30u64).prop_map(Step::Acknowledge),
            3 => (0..30u64, 0..6u64).prop_map(|(start, len)| Step::Sack(start, start + len)),
            1 => Just(Step::Repair),
            3 => Just(Step::Again),
            1 => Just(Step::LoseAll),
        ]
    }

    proptest! {
        /// Against the definitions of RFC 6675, by walking along the window: whatever is reported, also nonsense.
        #[test]
        fn counts_agree_with_a_walk(steps in prop::collection::vec(step(), 1..120)) {
            let mut board = Scoreboard::default();
            let mut delivered = 0;
            for step in steps {
                let mut progress = Progress::default();
                match step {
                    Step::Push => {
                        board.push(Segment::new(ByteRange::at(0, 1_000), snapshot()));
                    }
                    Step::Acknowledge(ahead) => board.acknowledge(board.first() + ahead, &mut progress),
                    Step::Sack(start, end) => {
                        board.sack(ByteRange::new(board.first() + start, board.first() + end), &mut progress);
                        board.find_lost(&mut progress);
                    }
                    Step::Repair => board.begin_repair(),
                    Step::Again => {
                        if let Some(number) = board.next_lost() {
                            prop_assert!(board.resend(number, snapshot()).is_some());
                        }
                    }
                    Step::LoseAll => {
                        board.lose_all();
                    }
                }
                delivered += progress.delivered;
                let sacked = |n: usize| board.segments[n].sacked;
                let mut pipe = 0;
                for (n, segment) in board.segments.iter().enumerate() {
                    let later = (n..board.segments.len()).filter(|&m| sacked(m)).count() as u64;
                    if !segment.sacked && later >= DUP_THRESH {
                        prop_assert!(segment.lost, "{n} of {board:?}");
                    }
                    if !segment.sacked {
                        pipe += u64::from(!segment.lost) + u64::from(segment.resent);
                    }
                    prop_assert_eq!(segment.sacked, board.sacked.run_at(board.first + n as u64).is_some());
                }
                prop_assert_eq!(board.pipe(), pipe);
                prop_assert_eq!(delivered, board.first + board.sacked.covered());
            }
        }
    }
}
