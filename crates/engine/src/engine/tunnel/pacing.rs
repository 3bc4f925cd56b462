//! How fast one of a tunnel's streams may send. The kernel's law decides, and is bounded where it sends far more than
//! what arrives.
//!
//! BBR begins at 2.9 times what has arrived, and ends that when three round trips have brought no more. It counts
//! none in which its sender ran out of data. A tunnel's streams do: what their receiver has asked for is divided among
//! them. So they stay there, and of what they send two parts in three are lost.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_udp::TcpCounts;

/// A round is a round trip, but no less than this.
const ROUND_MIN: Span = Span::from_millis(20);
/// A rate that is less than so many times the best before has not grown.
const GROWN: f64 = 1.25;
/// More of what is sent is not the loss of a path that is merely bad.
const LOSSY: f64 = 0.02;
/// ... nor are fewer segments than this a sign of anything.
const LOST_MIN: u32 = 16;
/// A bounded stream sends so many times the best that has arrived in so many rounds, and is bounded until none of these
/// has lost much.
const BOUND: f64 = 1.1;
const ROUNDS: usize = 10;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    /// When the round began, and what had been counted then.
    begun: Option<(Time, TcpCounts)>,
    /// What arrived in the last rounds.
    rates: [Bitrate; ROUNDS],
    turn: usize,
    /// Rounds since the last that lost much; `None`: the law decides alone.
    since_loss: Option<usize>,
}

impl Pacing {
    /// Whether the round has ended, of a stream that has been seen to have this round-trip time.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.begun
            .is_none_or(|(begun, counts)| now >= begun + ROUND_MIN.max(Span::from_micros(u64::from(counts.rtt_us))))
    }

    /// A round has ended. What the stream may send from now on (`None`: whatever its law allows), if that was bounded
    /// or is.
    pub(super) fn end_round(&mut self, now: Time, counts: TcpCounts) -> Option<Option<Bitrate>> {
        let (begun, before) = self.begun.replace((now, counts))?;
        let delivered = counts.delivered.wrapping_sub(before.delivered);
        let retransmitted = counts.retransmitted.wrapping_sub(before.retransmitted);
        let best = self.best();
        let bytes = u64::from(delivered) * u64::from(counts.segment_bytes);
        let rate = Bitrate::of(bytes, now.since(begun));
        self.rates[self.turn] = rate;
        self.turn = (self.turn + 1) % ROUNDS;
        let is_lossy = retransmitted >= LOST_MIN && f64::from(retransmitted) > LOSSY * f64::from(delivered);
        let was_bound = self.since_loss.is_some();
        self.since_loss = match self.since_loss {
            None => (is_lossy && rate.as_f64() < GROWN * best.as_f64()).then_some(0),
            Some(_) if is_lossy => Some(0),
            Some(rounds) => (rounds < ROUNDS).then_some(rounds + 1),
        };
        let is_bound = self.since_loss.is_some();
        (is_bound || was_bound).then(|| is_bound.then(|| self.best().mul_f64(BOUND)))
    }

    /// The best rate of late.
    fn best(&self) -> Bitrate {
        self.rates.iter().copied().max().unwrap_or(Bitrate::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with a round-trip time of 100 ms, and what it has counted.
    #[derive(Default)]
    struct Case {
        pacing: Pacing,
        counts: TcpCounts,
        now: Time,
    }

    impl Case {
        fn new() -> Self {
            let counts = TcpCounts { segment_bytes: 1000, rtt_us: 100_000, ..TcpCounts::default() };
            let mut case = Self { counts, ..Self::default() };
            assert!(case.pacing.is_due(case.now));
            assert_eq!(case.pacing.end_round(case.now, counts), None);
            case
        }

        /// A round in which so many segments arrived, and so many were sent again.
        fn round(&mut self, delivered: u32, retransmitted: u32) -> Option<Option<Bitrate>> {
            assert!(!self.pacing.is_due(self.now + Span::from_millis(99)));
            self.now += Span::from_millis(100);
            assert!(self.pacing.is_due(self.now));
            self.counts.delivered = self.counts.delivered.wrapping_add(delivered);
            self.counts.retransmitted += retransmitted;
            self.pacing.end_round(self.now, self.counts)
        }
    }

    /// Of so many segments in a round.
    fn bound(segments: u64) -> Option<Option<Bitrate>> {
        Some(Some(Bitrate::of(segments * 1000, Span::from_millis(100)).mul_f64(BOUND)))
    }

    #[test]
    fn a_stream_that_loses_much_and_grows_no_more_is_bounded_until_it_has_lost_nothing_for_long() {
        let mut case = Case::new();
        case.counts.delivered = u32::MAX - 150;
        assert_eq!(case.pacing.end_round(Time::ZERO, case.counts), None);
        assert_eq!(case.round(100, 0), None);
        assert_eq!(case.round(200, 50), None, "it has grown");
        assert_eq!(case.round(220, 80), bound(220));
        assert_eq!(case.round(180, 80), bound(220), "its best of late");
        for round in 0..ROUNDS {
            assert_eq!(case.round(230 - round as u32, 1), bound(230), "{round}");
        }
        assert_eq!(case.round(220, 0), Some(None), "its law is on its own");
        assert_eq!(case.round(220, 0), None);
    }

    #[test]
    fn a_bounded_stream_finds_more_and_forgets_what_was_long_ago() {
        let mut case = Case::new();
        case.round(1000, 0);
        assert_eq!(case.round(1000, 500), bound(1000));
        assert_eq!(case.round(1100, 0), bound(1100));
        assert_eq!(case.round(1200, 100), bound(1200));
        for _ in 1..ROUNDS {
            assert_eq!(case.round(300, 20), bound(1200));
        }
        assert_eq!(case.round(300, 20), bound(300));
    }

    #[test]
    fn a_stream_that_has_little_to_send_or_loses_little_is_its_own_law_s() {
        let mut case = Case::new();
        for (delivered, retransmitted) in
            [(1000, 0), (10, 0), (0, 0), (0, 9), (3, 15), (1000, 20), (900, 18), (1000, 0)]
        {
            assert_eq!(case.round(delivered, retransmitted), None);
        }
    }
}
