//! The receiving side: missing packets, and the schedule of reports.

use std::collections::VecDeque;

use inhaul_base::{Span, Time};
use inhaul_transport::kit::LossList;

use super::arrivals::Arrivals;
use super::rtt::Rtt;
use super::terms::{Ack, Feedback, Losses, Reporting, SYN};
use super::trend::Trend;

/// Most gaps that are remembered: bounds a flow's memory. A packet that would make one more is dropped.
const GAPS_MAX: usize = 16_384;
/// Most ACKs that wait for their ACK2.
const ACKS_MAX: usize = 1_024;
/// An unanswered ACK is repeated this many times, unless data comes.
const REPEATS_MAX: u32 = 16;

/// What packets meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Some of them came for the first time.
    New,
    /// All had come before.
    Duplicate,
    /// They are beyond the receiver's window: ignore them.
    Refused,
}

/// Notes on a gap: the time of its last report, and the number of reports.
#[derive(Clone, Copy, Debug)]
struct Reported {
    last: Time,
    times: u32,
}

/// An ACK whose ACK2 has not come.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u32,
    next: u64,
    at: Time,
}

/// The receiving side of a flow.
#[derive(Debug)]
pub struct ReceiveSide {
    /// Behind the highest packet that came.
    end: u64,
    losses: LossList<Reported>,
    /// Gaps to report at once.
    fresh: Vec<Losses>,
    arrivals: Arrivals,
    rtt: Rtt,
    window: u64,
    reporting: Reporting,
    trend: Trend,
    /// The delay grows, as the answer to this ACK showed: to be said.
    warning: Option<u32>,
    /// The time of its last report.
    warned_at: Time,
    /// Packets since the last ACK of any kind.
    unreported: u64,
    acks: VecDeque<Sent>,
    ack_number: u32,
    /// The last full ACK: its time, its content, and how often it was sent.
    acked_at: Time,
    acked: u64,
    repeats: u32,
    /// Packets before this one are known to be acknowledged: an ACK2 came for them.
    confirmed: u64,
    ack_due: Option<Time>,
    nak_due: Option<Time>,
    lost: u64,
}

impl ReceiveSide {
    /// A side to which nothing has come. It takes `window` packets beyond the first that is missing.
    pub fn new(window: u64, reporting: Reporting) -> Self {
        Self {
            end: 0,
            losses: LossList::default(),
            fresh: Vec::new(),
            arrivals: Arrivals::new(reporting.speed),
            rtt: Rtt::new(None),
            window,
            reporting,
            trend: Trend::default(),
            warning: None,
            warned_at: Time::ZERO,
            unreported: 0,
            acks: VecDeque::new(),
            ack_number: 0,
            acked_at: Time::ZERO,
            acked: 0,
            repeats: 0,
            confirmed: 0,
            ack_due: None,
            nak_due: None,
            lost: 0,
        }
    }

    /// Packets are numbered from `first` on: a foreign wire has its own numbers. For a side to which nothing has come.
    pub fn begin_at(&mut self, first: u64) {
        (self.end, self.acked, self.confirmed) = (first, first, first);
    }

    /// A handshake has measured this round-trip time.
    pub fn begin(&mut self, rtt: Option<Span>) {
        self.rtt = Rtt::new(rtt);
    }

    // --- Arrivals ---------------------------------------------------------------------------------------------------

    /// The `count` packets from `number` on came, together, and were in this host at `at`.
    pub fn on_data(&mut self, now: Time, at: Time, number: u64, count: u64) -> Arrival {
        let Some(end) = number.checked_add(count).filter(|end| *end <= self.next() + self.window) else {
            return Arrival::Refused;
        };
        if number > self.end && self.losses.ranges() >= GAPS_MAX {
            return Arrival::Refused;
        }
        // One ACK a SYN, the first at once.
        let due = now.max(self.acked_at + SYN);
        self.ack_due = Some(self.ack_due.map_or(due, |noted| noted.min(due)));
        let came_late = if number < self.end { self.losses.remove(number, end.min(self.end) - 1) } else { 0 };
        if end <= self.end && came_late == 0 {
            // The sender has not heard of it.
            self.repeats = 0;
            self.confirmed = 0;
            self.arrivals.disturb(at);
            return Arrival::Duplicate;
        }
        if number < self.end {
            self.arrivals.disturb(at);
        } else {
            self.arrivals.arrive(at, number, count);
        }
        if number > self.end {
            let gap = (self.end, number - 1);
            self.lost += self.losses.insert(gap.0, gap.1, Reported { last: now, times: 1 });
            self.fresh.push(gap);
            self.nak_due.get_or_insert(now + self.patience());
        }
        self.end = self.end.max(end);
        self.unreported += count;
        Arrival::New
    }

    /// An ACK2 came. It is ignored if it answers no ACK, or an answered one.
    pub fn on_ack2(&mut self, now: Time, number: u32) {
        let Some(k) = self.acks.iter().position(|sent| sent.number == number) else { return };
        let sent = self.acks[k];
        self.acks.drain(..=k);
        let rtt = now.since(sent.at);
        // UDT 1: not again within two round trips, which a decrease takes to be felt.
        if self.reporting.warns && self.trend.sample(rtt) && now >= self.warned_at + self.rtt.smoothed * 2 {
            (self.warning, self.warned_at) = (Some(number), now);
        }
        self.rtt.sample(rtt);
        self.confirmed = self.confirmed.max(sent.next);
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// The next thing that the sender must be told at `now`. Ask until there is none. A NAK has at most `naks_max`
    /// ranges.
    pub fn feedback(&mut self, now: Time, naks_max: usize) -> Option<Feedback> {
        if let Some(ack) = self.warning.take() {
            return Some(Feedback::Warning { ack });
        }
        if !self.fresh.is_empty() {
            let count = self.fresh.len().min(naks_max.max(1));
            return Some(Feedback::Nak(self.fresh.drain(..count).collect()));
        }
        if self.nak_due.is_some_and(|due| due <= now) {
            self.report_again(now);
            if !self.fresh.is_empty() {
                return self.feedback(now, naks_max);
            }
        }
        if self.ack_due.is_some_and(|due| due <= now) {
            self.ack_due = None;
            return self.full_ack(now);
        }
        if self.unreported >= self.reporting.light_ack_every {
            self.unreported = 0;
            return Some(Feedback::LightAck { next: self.next() });
        }
        None
    }

    /// A gap that was reported `n` times is reported again after `n` patiences (udt-2004 2.2: increasing intervals).
    fn report_again(&mut self, now: Time) {
        let patience = self.patience();
        for (first, last, note) in self.losses.notes_mut() {
            if now >= note.last + patience * u64::from(note.times) {
                *note = Reported { last: now, times: note.times.saturating_add(1) };
                self.fresh.push((first, last));
            }
        }
        self.nak_due = (!self.losses.is_empty()).then_some(now + patience);
    }

    /// How long a packet takes that is asked for again.
    fn patience(&self) -> Span {
        self.rtt.patience() + SYN
    }

    fn full_ack(&mut self, now: Time) -> Option<Feedback> {
        let next = self.next();
        if next == self.confirmed && self.confirmed > 0 {
            return None;
        }
        if next == self.acked {
            let again = self.acked_at + self.rtt.patience().max(SYN);
            if now < again {
                self.ack_due = Some(again);
                return None;
            }
            self.repeats += 1;
        } else {
            self.repeats = 0;
        }
        self.ack_number = self.ack_number.wrapping_add(1);
        (self.acked, self.acked_at, self.unreported) = (next, now, 0);
        if self.acks.len() >= ACKS_MAX {
            self.acks.pop_front();
        }
        self.acks.push_back(Sent { number: self.ack_number, next, at: now });
        if self.repeats < REPEATS_MAX {
            self.ack_due = Some(now + self.rtt.patience().max(SYN));
        }
        Some(Feedback::Ack(Ack {
            number: self.ack_number,
            next,
            rtt: self.rtt.smoothed,
            rtt_variation: self.rtt.variation,
            window: self.window,
            arrival_speed: self.arrivals.speed(),
            capacity: self.arrivals.capacity(),
        }))
    }

    /// When [`feedback`](Self::feedback) is next due.
    pub fn due(&self) -> Option<Time> {
        let light = self.unreported >= self.reporting.light_ack_every;
        let at_once = !self.fresh.is_empty() || self.warning.is_some() || light;
        let at_once = at_once.then_some(Time::ZERO);
        [at_once, self.ack_due, self.nak_due].into_iter().flatten().min()
    }

    /// Forgets missing packets: the flow continues behind all that could have been sent. Returns its next packet.
    pub fn restart(&mut self) -> u64 {
        self.end = self.next() + self.window;
        self.losses = LossList::default();
        self.fresh.clear();
        (self.nak_due, self.ack_due, self.acked) = (None, None, self.end);
        self.end
    }

    // --- Getters ----------------------------------------------------------------------------------------------------

    /// The first packet that has not come.
    pub fn next(&self) -> u64 {
        self.losses.first().unwrap_or(self.end)
    }

    /// Packets found missing.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes of memory, about, beside the side itself.
    pub fn memory_bytes(&self) -> usize {
        self.losses.ranges() * 64
            + self.arrivals.memory_bytes()
            + self.fresh.capacity() * size_of::<Losses>()
            + self.acks.capacity() * size_of::<Sent>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const RTT: Span = Span::from_millis(20);
    /// RTT + 4 RTTVar + SYN, as long as nothing is measured.
    const PATIENCE: u64 = 70;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn side() -> ReceiveSide {
        let mut side = ReceiveSide::new(1_000, Reporting::UDT4);
        side.begin(Some(RTT));
        side
    }

    fn all(side: &mut ReceiveSide, now: Time) -> Vec<Feedback> {
        std::iter::from_fn(|| side.feedback(now, 8)).collect()
    }

    fn full(feedback: &[Feedback]) -> Vec<(u32, u64)> {
        let ack = |f: &Feedback| if let Feedback::Ack(ack) = f { Some((ack.number, ack.next)) } else { None };
        feedback.iter().filter_map(ack).collect()
    }

    #[test]
    fn a_full_ack_each_syn_and_a_light_one_for_64_packets() {
        let mut side = side();
        assert_eq!(side.due(), None);
        assert_eq!(side.on_data(at(50), at(50), 0, 1), Arrival::New);
        assert_eq!(full(&all(&mut side, at(50))), [(1, 1)]);
        side.on_data(at(51), at(51), 1, 63);
        assert_eq!(all(&mut side, at(51)), []);
        side.on_data(at(52), at(52), 64, 1);
        assert_eq!(all(&mut side, at(52)), [Feedback::LightAck { next: 65 }]);
        side.on_data(at(53), at(53), 65, 1);
        side.on_ack2(at(60), 1);
        assert_eq!((all(&mut side, at(59)), full(&all(&mut side, at(60)))), (vec![], vec![(2, 66)]));
        // RTT: 7/8 of 20 ms and 1/8 of 10 ms.
        assert_eq!((side.rtt.smoothed, side.rtt.variation), (Span::from_micros(18_750), Span::from_millis(10)));
    }

    #[test]
    fn udt_1_warns_when_the_delay_grows_and_not_again_within_two_round_trips() {
        let warnings = |reporting| {
            let mut side = ReceiveSide::new(1_000, reporting);
            side.begin(Some(RTT));
            let mut warned = Vec::new();
            // An ACK each 100 ms, answered later each time.
            for k in 0..30u64 {
                let now = at(1_000 + 100 * k);
                side.on_data(now, now, k, 1);
                let acks = full(&all(&mut side, now));
                assert_eq!(acks.len(), 1);
                let answered = now + Span::from_micros(20_000 + 500 * k);
                side.on_ack2(answered, acks[0].0);
                let said = all(&mut side, answered).into_iter();
                warned.extend(said.filter_map(|f| if let Feedback::Warning { ack } = f { Some(ack) } else { None }));
            }
            warned
        };
        assert_eq!(warnings(Reporting::UDT1), (16..=30).collect::<Vec<_>>(), "two round trips are less than 100 ms");
        assert_eq!(warnings(Reporting::UDT4), []);
    }

    #[test]
    fn without_light_acks_there_is_one_ack_a_syn() {
        let mut side = ReceiveSide::new(1_000, Reporting::PAPER_2004);
        side.on_data(at(50), at(50), 0, 1);
        assert_eq!(full(&all(&mut side, at(50))), [(1, 1)]);
        side.on_data(at(51), at(51), 1, 500);
        assert_eq!((all(&mut side, at(51)), side.due()), (vec![], Some(at(60))));
        assert_eq!(full(&all(&mut side, at(60))), [(2, 501)]);
    }

    #[test]
    fn an_ack_is_said_again_until_it_is_answered_and_not_for_ever() {
        let mut side = side();
        side.on_data(at(50), at(50), 0, 5);
        all(&mut side, at(50));
        assert_eq!(side.due(), Some(at(110)), "RTT + 4 RTTVar");
        assert_eq!(full(&all(&mut side, at(110))), [(2, 5)]);
        side.on_ack2(at(130), 2);
        assert_eq!((all(&mut side, at(200)), side.due()), (vec![], None), "it was answered");
        side.on_data(at(300), at(300), 0, 5);
        assert_eq!(full(&all(&mut side, at(300))), [(3, 5)], "the sender has not heard of it");
        let mut said = 0;
        while let Some(due) = side.due() {
            said += full(&all(&mut side, due)).len();
        }
        assert_eq!(said, REPEATS_MAX as usize - 1);
    }

    #[test]
    fn a_gap_is_reported_at_once_and_again_with_growing_gaps() {
        let mut side = side();
        side.on_data(at(0), at(0), 0, 1);
        side.on_data(at(0), at(0), 5, 1);
        side.on_data(at(0), at(0), 8, 2);
        side.on_data(at(0), at(0), 20, 1);
        let nak = |ranges: &[Losses]| Feedback::Nak(ranges.to_vec());
        assert_eq!(side.feedback(at(0), 2), Some(nak(&[(1, 4), (6, 7)])));
        assert_eq!(side.feedback(at(0), 2), Some(nak(&[(10, 19)])));
        assert_eq!(side.on_data(at(10), at(10), 2, 1), Arrival::New);
        assert_eq!((side.next(), side.lost()), (1, 16));
        let naks = |side: &mut ReceiveSide, ms| {
            let nak = |f| if let Feedback::Nak(ranges) = f { Some(ranges) } else { None };
            all(side, at(ms)).into_iter().filter_map(nak).flatten().collect::<Vec<_>>()
        };
        let missing = [(1, 1), (3, 4), (6, 7), (10, 19)];
        let mut reported = Vec::new();
        for ms in 11..1_000 {
            let ranges = naks(&mut side, ms);
            if !ranges.is_empty() {
                assert_eq!(ranges, missing);
                reported.push(ms);
            }
        }
        assert_eq!(reported, [PATIENCE, 3 * PATIENCE, 6 * PATIENCE, 10 * PATIENCE]);
        for (first, last) in missing {
            side.on_data(at(1_000), at(1_000), first, last - first + 1);
        }
        assert_eq!((naks(&mut side, 2_000), side.next()), (vec![], 21));
    }

    #[test]
    fn what_is_beyond_the_window_or_one_gap_too_many_is_refused() {
        let mut side = side();
        assert_eq!(side.on_data(at(0), at(0), 1_000, 1), Arrival::Refused);
        assert_eq!(side.on_data(at(0), at(0), u64::MAX, 2), Arrival::Refused);
        assert_eq!(side.on_data(at(0), at(0), 999, 1), Arrival::New);
        let mut side = ReceiveSide::new(1_000_000, Reporting::UDT4);
        let refused = (0..20_000).filter(|k| side.on_data(at(0), at(0), 2 * k + 1, 1) == Arrival::Refused).count();
        assert_eq!(refused, 20_000 - GAPS_MAX);
        all(&mut side, at(0));
        assert!(side.memory_bytes() < 2_000_000, "{}", side.memory_bytes());
    }

    #[test]
    fn restart_goes_on_behind_all_that_could_have_been_sent() {
        let mut side = side();
        side.on_data(at(0), at(0), 3, 1);
        assert_eq!(side.restart(), 1_000);
        assert_eq!((side.next(), side.due()), (1_000, None));
        assert_eq!(side.on_data(at(1), at(1), 4, 1), Arrival::Duplicate);
        assert_eq!(side.on_data(at(1), at(1), 1_000, 1), Arrival::New);
    }

    proptest! {
        #[test]
        fn arrivals_are_known_for_all_sequences(runs in prop::collection::vec((0u64..300, 1u64..20), 0..100)) {
            let (mut side, mut came) = (side(), BTreeSet::new());
            for (number, count) in runs {
                let new = (number..number + count).filter(|n| came.insert(*n)).count();
                let arrival = side.on_data(at(1), at(1), number, count);
                prop_assert_eq!(arrival == Arrival::New, new > 0);
                let missing = (0..).find(|n| !came.contains(n)).unwrap_or(0);
                prop_assert_eq!(side.next(), missing);
            }
        }
    }
}
