//! Whether others fill the queue of a place that flows go through: the receiver's link, or a path's narrowest link
//! (PROTOCOL.md 7.7).
//!
//! A queue of our own making drains when less is asked for. One that stands although enough less was asked for to drain
//! it twice is filled by others, who take what we leave: they are elastic, as TCP is. Beside them loss decides, and each
//! data set takes what one TCP flow would have. When all of the place is ours again, or its queue has gone, the law of
//! short queues takes over.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};

use crate::gtp::bound::DRAIN_MAX;

/// The most that came through is remembered for so long.
const MOST_WINDOW: Span = Span::from_secs(60);
const MOST_GRAIN: Span = Span::from_secs(6);
/// Others have a part of the place if less than this part of the most comes.
const YIELDED: f64 = 0.85;
/// A queue must have stood through so many intervals, ...
const STOOD_MIN: u32 = 3;
/// ... and should have drained so often.
const DRAINS: f64 = 2.0;
/// Or it stood through so many intervals of late, each of which counts less as time passes.
const SCORE: f64 = 6.0;
const SCORE_FADES: Span = Span::from_secs(5);
/// Loss without a test counts as so many intervals.
const LOSS_SCORE: f64 = 2.0;
/// All of the place is ours if this part of the most comes, ...
const ALL: f64 = 0.92;
/// ... in so many intervals.
const FULL_INTERVALS: u32 = 3;
/// Then less is asked for, in so many intervals, ...
const PULSE_INTERVALS: u32 = 2;
/// ... and as much as this part of what came before comes nevertheless, or the queue drains.
const KEPT: f64 = 0.94;
/// If not, others have at least this part more.
const MORE: f64 = 1.15;
/// The part of the window that is asked for in a pulse.
pub(super) const PULSE: f64 = 0.75;
/// Most that is left unused to see whose a queue is that does not drain.
pub(super) const DRAIN_PULSE: f64 = 0.25;
/// Intervals without a queue and without loss after which others have gone, and how long they take at least.
const EMPTY_INTERVALS: u32 = 4;
const EMPTY_MIN: Span = Span::from_millis(1500);

/// What an interval says of a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) now: Time,
    /// The rate at which it was sent to, and what came through.
    pub(super) sent: Bitrate,
    pub(super) came: Bitrate,
    /// What came through of all of our flows that may share the place.
    pub(super) together: Bitrate,
    /// The queue that stood, and how long one must be to count.
    pub(super) queue: Span,
    pub(super) threshold: Span,
    /// More was lost than chance explains.
    pub(super) lost: bool,
    /// More was asked for than is known to come through.
    pub(super) testing: bool,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// All as before.
    Stay,
    /// Others fill the queue: compete.
    Enter,
    /// They have gone, and left nothing in the queue, or nobody but us.
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
    /// What came when it began.
    came: Bitrate,
    /// What should have drained, in seconds.
    drained: f64,
}

/// The judge of who is at a place.
#[derive(Debug, Default)]
pub(super) struct Company {
    state: State,
    most: VecDeque<(Time, Bitrate)>,
    standing: Standing,
    score: f64,
    judged: Time,
    came: Bitrate,
    together: Bitrate,
}

impl Company {
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

    /// Whether others may have a part of the place, going by what came last.
    fn has_yielded(&self) -> bool {
        self.together < self.most().mul_f64(YIELDED)
    }

    /// The most that came of late.
    pub(super) fn most(&self) -> Bitrate {
        self.most.iter().map(|(_, rate)| *rate).max().unwrap_or(Bitrate::ZERO)
    }

    /// So much comes through.
    pub(super) fn note(&mut self, now: Time, rate: Bitrate) {
        while self.most.front().is_some_and(|(at, _)| now.since(*at) > MOST_WINDOW) {
            self.most.pop_front();
        }
        match self.most.back_mut() {
            Some((at, most)) if now.since(*at) < MOST_GRAIN => *most = (*most).max(rate),
            _ => self.most.push_back((now, rate)),
        }
    }

    /// What came before says nothing of what comes now.
    pub(super) fn forget(&mut self) {
        *self = Self { judged: self.judged, ..Self::default() };
    }

    /// An interval has ended.
    pub(super) fn on_interval(&mut self, seen: Seen) -> Turn {
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

    fn calm(&mut self, seen: Seen, passed: Span) -> Turn {
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
        if (undrained || self.score >= SCORE) && self.has_yielded() {
            self.standing = Standing::default();
            self.score = 0.0;
            self.state = State::Competing { full: 0, empty: 0, empty_since: seen.now };
            return Turn::Enter;
        }
        Turn::Stay
    }

    fn competing(&mut self, seen: Seen, full: u32, empty: u32, empty_since: Time) -> Turn {
        let is_empty = seen.queue < seen.threshold && !seen.lost;
        let is_full = seen.came >= self.most().mul_f64(ALL);
        let empty_since = if is_empty { empty_since } else { seen.now };
        let empty = if is_empty { empty + 1 } else { 0 };
        let full = if is_full { full + 1 } else { 0 };
        if empty >= EMPTY_INTERVALS && seen.now.since(empty_since) >= EMPTY_MIN {
            self.state = State::Calm;
            return Turn::Leave { full: false };
        }
        self.state = if full >= FULL_INTERVALS {
            State::Pulse { left: PULSE_INTERVALS, before: seen.came }
        } else {
            State::Competing { full, empty, empty_since }
        };
        Turn::Stay
    }

    fn pulse(&mut self, seen: Seen, left: u32, before: Bitrate) -> Turn {
        let alone = seen.queue < seen.threshold || seen.came >= before.mul_f64(KEPT);
        if left > 1 {
            self.state = State::Pulse { left: left - 1, before };
        } else if alone {
            self.state = State::Calm;
            return Turn::Leave { full: seen.queue >= seen.threshold };
        } else {
            self.note(seen.now, before.mul_f64(MORE));
            self.state = State::Competing { full: 0, empty: 0, empty_since: seen.now };
        }
        Turn::Stay
    }
}
