//! Whether others fill the queue of a place that flows go through: the receiver's link, or a path's narrowest link
//! (PROTOCOL.md 7.7).
//!
//! A queue that we cause drains when we request less. If a queue stands although enough less was requested to drain it
//! twice, others fill it and take the released rate: they are elastic, as TCP is. Beside them loss decides, and each
//! data set takes the rate of one TCP flow. When all of the place is ours again, or its queue has gone, the law of
//! short queues takes over.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};

use super::bound::DRAIN_MAX;

/// The most that came through is remembered for so long.
const MOST_WINDOW: Span = Span::from_secs(60);
const MOST_GRAIN: Span = Span::from_secs(6);
/// Others have a part of the place if less than this part of the most comes.
const YIELDED: f64 = 0.85;
/// A queue must have stood through this many intervals, ...
const STOOD_MIN: u32 = 3;
/// ... and should have drained so often.
const DRAINS: f64 = 2.0;
/// Or it stood through this many recent intervals; each counts less as time passes.
const SCORE: f64 = 6.0;
const SCORE_FADES: Span = Span::from_secs(5);
/// Loss without a test counts as this many intervals.
const LOSS_SCORE: f64 = 2.0;
/// All of the place is ours if this part of the most comes, ...
const ALL: f64 = 0.92;
/// ... in this many intervals.
const FULL_INTERVALS: u32 = 3;
/// Then less is requested, in this many intervals, ...
const PULSE_INTERVALS: u32 = 2;
/// ... and at least this part of the earlier rate still comes, or the queue drains.
const COMES: f64 = 0.94;
/// If not, others have at least this part more.
const MORE: f64 = 1.15;
/// The part of the window that is used in a pulse.
pub(super) const PULSE: f64 = 0.75;
/// Most that is left unused to see whose a queue is that does not drain.
pub(super) const DRAIN_PULSE: f64 = 0.25;
/// Intervals without a queue and without loss after which others have gone, and how long they take at least.
const EMPTY_INTERVALS: u32 = 4;
const EMPTY_MIN: Span = Span::from_millis(1500);

/// Others whose queue is too short to be seen are taken to be there for so long.
const UNSEEN: Span = Span::from_secs(30);

/// An interval's measurements of a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) now: Time,
    /// The sending rate to it, and the arrival rate.
    pub(super) sent: Bitrate,
    pub(super) came: Bitrate,
    /// Arrival rate of all our flows that may share the place.
    pub(super) together: Bitrate,
    /// The queue that stood, and how long one must be to count.
    pub(super) queue: Span,
    pub(super) threshold: Span,
    /// More was lost than chance explains.
    pub(super) lost: bool,
    /// More was asked for than is known to come through.
    pub(super) testing: bool,
    /// Less was, to see whose losses are.
    pub(super) probing: bool,
    /// Probes have cured the loss.
    pub(super) cured: bool,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// All as before.
    Stay,
    /// Others fill the queue: compete.
    Enter,
    /// Rivals have gone: the queue is empty, or only our flows fill it.
    Leave {
        /// A queue of our own stands.
        full: bool,
    },
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Calm,
    Competing {
        full: u32,
        empty: u32,
        /// Since when it was empty.
        empty_since: Time,
    },
    /// Less is asked for, to see whether others take it.
    Pulse { left: u32, before: Bitrate },
}

/// A queue that stands.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    intervals: u32,
    longest: Span,
    /// The arrival rate when it began.
    came: Bitrate,
    /// The queue that should have drained, in seconds.
    drained: f64,
}

/// Detects cross traffic at a place.
#[derive(Debug, Default)]
pub(super) struct CrossTraffic {
    state: State,
    most: VecDeque<(Time, Bitrate)>,
    /// The highest arrival rate, since the start or the last reset.
    peak: Bitrate,
    standing: Standing,
    score: f64,
    judged: Time,
    came: Bitrate,
    together: Bitrate,
    /// Others show by losses alone, and are there until then.
    unseen_until: Option<Time>,
}

impl CrossTraffic {
    /// Whether others' traffic is competed with.
    pub(super) fn is_competing(&self) -> bool {
        !matches!(self.state, State::Calm)
    }

    /// Whether less is asked for than the windows are.
    pub(super) fn is_pulsing(&self) -> bool {
        matches!(self.state, State::Pulse { .. })
    }

    /// Whether a queue stands that has not drained yet.
    pub(super) fn is_suspected(&self) -> bool {
        self.standing.intervals >= 2
    }

    /// Most that is left unused to drain a queue: what does not drain is asked, by more, whose it is.
    pub(super) fn drain_most(&self) -> f64 {
        if self.is_suspected() { DRAIN_PULSE } else { DRAIN_MAX }
    }

    /// Whether a queue that stands may be others', so that its delay is not the path's.
    pub(super) fn is_shy(&self) -> bool {
        self.is_competing() || self.has_yielded()
    }

    /// Whether others may have a part of the place, by the last arrivals.
    fn has_yielded(&self) -> bool {
        self.together < self.most().mul_f64(YIELDED)
    }

    /// The most that came of late.
    pub(super) fn most(&self) -> Bitrate {
        self.most.iter().map(|(_, rate)| *rate).max().unwrap_or(Bitrate::ZERO)
    }

    /// Almost nothing is requested from now on. The earlier rate is remembered meanwhile.
    pub(super) fn yield_all(&mut self) {
        self.peak = self.most();
    }

    /// More is requested again, and others may have taken the released rate: the flows compete for it. Returns the
    /// ratio of the earlier rate to the present one.
    pub(super) fn contend(&mut self, now: Time) -> f64 {
        self.note(now, self.peak);
        if !self.is_competing() {
            (self.standing, self.score, self.unseen_until) = (Standing::default(), 0.0, None);
            self.state = State::Competing { full: 0, empty: 0, empty_since: now };
        }
        (self.most().as_f64() / self.together.as_f64().max(1.0)).max(1.0)
    }

    /// The present arrival rate.
    pub(super) fn note(&mut self, now: Time, rate: Bitrate) {
        self.peak = self.peak.max(rate);
        while self.most.front().is_some_and(|(at, _)| now.since(*at) > MOST_WINDOW) {
            self.most.pop_front();
        }
        match self.most.back_mut() {
            Some((at, most)) if now.since(*at) < MOST_GRAIN => *most = (*most).max(rate),
            _ => self.most.push_back((now, rate)),
        }
    }

    /// An interval has ended.
    pub(super) fn on_interval(&mut self, seen: Seen) -> Transition {
        let passed = seen.now.since(std::mem::replace(&mut self.judged, seen.now));
        // Once may be chance: a burst that had gathered somewhere.
        let twice = seen.came.min(self.came);
        (self.came, self.together) = (seen.came, seen.together);
        self.note(seen.now, twice);
        match self.state {
            State::Calm => self.calm(seen, passed),
            State::Competing { full, empty, empty_since } => self.competing(seen, full, empty, empty_since),
            State::Pulse { left, before } => self.pulse(seen, left, before),
        }
    }

    fn calm(&mut self, seen: Seen, passed: Span) -> Transition {
        self.score *= (-passed.as_secs_f64() / SCORE_FADES.as_secs_f64()).exp();
        let stands = seen.queue >= seen.threshold;
        if !seen.testing {
            self.score += match (stands, seen.lost) {
                (true, _) => 1.0,
                (false, true) => LOSS_SCORE,
                (false, false) => 0.0,
            };
        }
        if stands {
            let standing = &mut self.standing;
            if standing.intervals == 0 {
                standing.came = seen.came;
            }
            standing.intervals += 1;
            standing.longest = standing.longest.max(seen.queue);
            let less = 1.0 - seen.sent.as_f64() / standing.came.as_f64().max(1.0);
            standing.drained += less.max(0.0) * passed.as_secs_f64();
        } else {
            self.standing = Standing::default();
        }
        let undrained = self.standing.intervals >= STOOD_MIN
            && self.standing.drained > DRAINS * self.standing.longest.as_secs_f64();
        let shown = (undrained || self.score >= SCORE) && self.has_yielded() && !seen.probing;
        if shown || seen.cured {
            self.unseen_until = seen.cured.then_some(seen.now + UNSEEN);
            self.standing = Standing::default();
            self.score = 0.0;
            self.state = State::Competing { full: 0, empty: 0, empty_since: seen.now };
            return Transition::Enter;
        }
        Transition::Stay
    }

    fn competing(&mut self, seen: Seen, full: u32, empty: u32, empty_since: Time) -> Transition {
        if let Some(until) = self.unseen_until {
            // With others there, less than nearly all comes.
            let full_since = if seen.came >= self.most().mul_f64(ALL) { empty_since } else { seen.now };
            if seen.queue < seen.threshold && seen.now < until && seen.now.since(full_since) < EMPTY_MIN {
                self.state = State::Competing { full, empty, empty_since: full_since };
                return Transition::Stay;
            }
            self.unseen_until = None;
            if seen.queue < seen.threshold {
                self.state = State::Calm;
                return Transition::Leave { full: false };
            }
        }
        let is_empty = seen.queue < seen.threshold && !seen.lost;
        let is_full = seen.came >= self.most().mul_f64(ALL);
        let empty_since = if is_empty { empty_since } else { seen.now };
        let empty = if is_empty { empty + 1 } else { 0 };
        let full = if is_full { full + 1 } else { 0 };
        if empty >= EMPTY_INTERVALS && seen.now.since(empty_since) >= EMPTY_MIN {
            self.state = State::Calm;
            return Transition::Leave { full: false };
        }
        self.state = if full >= FULL_INTERVALS {
            State::Pulse { left: PULSE_INTERVALS, before: seen.came }
        } else {
            State::Competing { full, empty, empty_since }
        };
        Transition::Stay
    }

    fn pulse(&mut self, seen: Seen, left: u32, before: Bitrate) -> Transition {
        let alone = seen.queue < seen.threshold || seen.came >= before.mul_f64(COMES);
        if left > 1 {
            self.state = State::Pulse { left: left - 1, before };
        } else if alone {
            self.state = State::Calm;
            return Transition::Leave { full: seen.queue >= seen.threshold };
        } else {
            self.note(seen.now, before.mul_f64(MORE));
            self.state = State::Competing { full: 0, empty: 0, empty_since: seen.now };
        }
        Transition::Stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(60);
    const CAPACITY: f64 = 100e6;

    /// A place of 100 Mbit/s. The test decides the others' part of the rest, and the length of the queue.
    struct Place {
        cross_traffic: CrossTraffic,
        now: Time,
    }

    impl Place {
        /// That has been ours alone.
        fn ours() -> Self {
            let mut place = Self { cross_traffic: CrossTraffic::default(), now: Time::ZERO + Span::from_secs(1) };
            (0..10).for_each(|_| assert_eq!(place.step(0.99, 0.99, 0, false), Transition::Stay));
            place
        }

        fn step(&mut self, sent: f64, came: f64, queue_ms: u64, lost: bool) -> Transition {
            let seen = self.seen(sent, came, queue_ms, lost);
            self.cross_traffic.on_interval(seen)
        }

        fn seen(&mut self, sent: f64, came: f64, queue_ms: u64, lost: bool) -> Seen {
            self.now += INTERVAL;
            let rate = |part: f64| Bitrate::from_f64(part * CAPACITY);
            Seen {
                now: self.now,
                sent: rate(sent),
                came: rate(came),
                together: rate(came),
                queue: Span::from_millis(queue_ms),
                threshold: Span::from_millis(1),
                lost,
                testing: false,
                probing: false,
                cured: false,
            }
        }

        /// Beside a rival that fills the queue.
        fn shared() -> Self {
            let mut place = Self::ours();
            let transitions: Vec<Transition> =
                [0.7, 0.6, 0.5, 0.4, 0.4, 0.4].map(|s| place.step(s, s, 20, false)).into();
            assert!(transitions.contains(&Transition::Enter), "{transitions:?}");
            place
        }
    }

    #[test]
    fn a_queue_that_drains_is_ours() {
        let mut place = Place::ours();
        for queue in [12, 9, 6, 3, 0, 0, 0] {
            assert_eq!(place.step(0.95, 0.95, queue, false), Transition::Stay);
        }
    }

    #[test]
    fn a_path_that_has_become_longer_is_no_rival() {
        let mut place = Place::ours();
        // It stands for ever, but others take none of the rate.
        assert!((0..100).all(|_| place.step(0.94, 0.94, 10, false) == Transition::Stay));
    }

    #[test]
    fn others_are_met_within_a_second_and_by_inches_within_two() {
        let mut place = Place::ours();
        let met =
            (0..17).position(|k| place.step(0.8 - 0.05 * f64::from(k).min(8.0), 0.7, 20, false) == Transition::Enter);
        assert!(met.is_some(), "within a second");
        let mut place = Place::ours();
        let met = (0..33).position(|k| {
            // The queue is gone now and then, and nothing was left to drain it.
            let queue = if k % 3 == 2 { 0 } else { 4 };
            place.step(0.8, 0.8, queue, false) == Transition::Enter
        });
        assert!(met.is_some(), "within two");
    }

    #[test]
    fn who_is_alone_again_notices_by_a_pulse() {
        let mut place = Place::shared();
        let mut transitions = Vec::new();
        for _ in 0..3 {
            transitions.push(place.step(1.0, 1.0, 20, false));
        }
        assert!(place.cross_traffic.is_pulsing());
        // Less is asked for, and all comes nevertheless: the queue was ours.
        transitions.push(place.step(0.75, 1.0, 18, false));
        assert_eq!(place.step(0.75, 1.0, 4, false), Transition::Leave { full: true });
        assert!(
            transitions.iter().all(|transition| *transition == Transition::Stay) && !place.cross_traffic.is_competing()
        );
    }

    #[test]
    fn who_is_not_alone_learns_that_the_place_carries_more() {
        let mut place = Place::shared();
        (0..3).for_each(|_| _ = place.step(0.95, 0.95, 20, false));
        (0..2).for_each(|_| assert_eq!(place.step(0.7, 0.7, 20, false), Transition::Stay));
        assert!(place.cross_traffic.is_competing() && !place.cross_traffic.is_pulsing());
        assert!(place.cross_traffic.most() > Bitrate::from_f64(1.08 * CAPACITY));
    }

    #[test]
    fn others_have_gone_when_no_queue_stands_for_long() {
        let mut place = Place::shared();
        let left = (0..40).position(|_| place.step(0.5, 0.5, 0, false) == Transition::Leave { full: false });
        assert!(left.is_some_and(|k| (20..30).contains(&k)), "{left:?}: after 1.5 s");
        // Loss is a sign of others too.
        let mut place = Place::shared();
        assert!((0..40).all(|k| place.step(0.5, 0.5, 0, k % 20 == 19) == Transition::Stay));
    }

    #[test]
    fn whom_no_queue_shows_is_known_by_losses_that_a_probe_cures() {
        let cure = |place: &mut Place| {
            let mut seen = place.seen(0.95, 0.95, 0, false);
            seen.cured = true;
            assert_eq!(place.cross_traffic.on_interval(seen), Transition::Enter);
        };
        let mut place = Place::ours();
        cure(&mut place);
        // No queue ever shows; they are believed to be there for long.
        let left = (0..1000).position(|_| place.step(0.5, 0.5, 0, false) == Transition::Leave { full: false });
        assert!(left.is_some_and(|k| (499..=501).contains(&k)), "{left:?}: 30 s");
        // They have gone when all of the place is ours.
        let mut place = Place::ours();
        cure(&mut place);
        (0..50).for_each(|_| assert_eq!(place.step(0.6, 0.6, 0, false), Transition::Stay));
        let left = (0..100).position(|_| place.step(0.95, 0.95, 0, false) == Transition::Leave { full: false });
        assert!(left.is_some_and(|k| (24..28).contains(&k)), "{left:?}: 1.5 s");
    }

    #[test]
    fn what_came_before_next_to_nothing_was_asked_for_is_remembered() {
        let mut place = Place::ours();
        place.cross_traffic.yield_all();
        (0..1_200).for_each(|_| assert_eq!(place.step(0.01, 0.01, 0, false), Transition::Stay));
        let times = place.cross_traffic.contend(place.now);
        assert!((98.0..100.0).contains(&times) && place.cross_traffic.is_competing(), "{times}");
        // There are no others.
        let left = (0..40).position(|_| place.step(0.5, 0.5, 0, false) == Transition::Leave { full: false });
        assert!(left.is_some_and(|k| (20..30).contains(&k)), "{left:?}");
    }

    #[test]
    fn the_most_is_what_came_twice_and_is_forgotten() {
        let mut place = Place::ours();
        place.step(2.0, 2.0, 0, false);
        assert!(place.cross_traffic.most() < Bitrate::from_f64(CAPACITY));
        (0..1_200).for_each(|_| _ = place.step(0.5, 0.5, 0, false));
        assert_eq!(place.cross_traffic.most(), Bitrate::from_f64(0.5 * CAPACITY));
        assert!(place.cross_traffic.most.len() <= 12);
    }
}
