//! Forecasts from history: pauses at even intervals will continue.
//!
//! A thread's own switches show a pause only after its end. But a scheduler goes round: the same competitors have their
//! turns in the same order, and a quota is used up once a period.

use std::collections::VecDeque;

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;

use super::PAUSE_MIN;
use crate::sys::Switch;

/// Most pauses to remember.
const REMEMBERED: usize = 16;
/// Fewest pauses for a forecast.
const LEAST: usize = 5;
/// Intervals are even if their median deviation from the median is at most this part of it.
const EVEN: f64 = 0.25;
/// A pattern is over if no pause came for this many intervals.
const PATIENCE: u64 = 3;

/// The last pauses, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps(VecDeque<Pause>);

impl Gaps {
    pub(super) fn push(&mut self, pause: Pause) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(pause);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The usual length of a pause.
    pub(super) fn length(&self) -> Option<Span> {
        median(self.0.iter().map(|pause| pause.length).collect())
    }

    /// When the last ended.
    pub(super) fn last_end(&self) -> Option<Time> {
        self.0.back().map(|pause| pause.start + pause.length)
    }

    /// The next pause after `now`, if the last ones came at even intervals: from start to start (a quota), or from end
    /// to start (a scheduler).
    pub(super) fn next(&self, now: Time) -> Option<Pause> {
        if self.0.len() < LEAST {
            return None;
        }
        let pairs = || self.0.iter().zip(self.0.iter().skip(1));
        let periods: Vec<Span> = pairs().map(|(a, b)| b.start.since(a.start)).collect();
        let turns: Vec<Span> = pairs().map(|(a, b)| b.start.since(a.start + a.length)).collect();
        let (period, turn) = (Even::of(&periods)?, Even::of(&turns)?);
        let last = self.0.back()?;
        let length = self.length()?;
        let (mut start, step) = if period.spread <= turn.spread && period.spread <= EVEN {
            (last.start + period.middle, period.middle)
        } else if turn.spread <= EVEN {
            (last.start + last.length + turn.middle, turn.middle + length)
        } else {
            return None;
        };
        if step == Span::ZERO || now.since(last.start) > step * PATIENCE {
            return None;
        }
        while start < now {
            start += step;
        }
        Some(Pause { start, length })
    }
}

/// The median of some spans, and their median deviation as a part of it.
struct Even {
    middle: Span,
    spread: f64,
}

impl Even {
    fn of(spans: &[Span]) -> Option<Self> {
        let middle = median(spans.to_vec())?;
        let apart = spans.iter().map(|span| Span::from_nanos(span.as_nanos().abs_diff(middle.as_nanos()))).collect();
        let spread = median(apart)?.as_secs_f64() / middle.as_secs_f64().max(1e-9);
        Some(Self { middle, spread })
    }
}

fn median(mut spans: Vec<Span>) -> Option<Span> {
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied()
}

/// Finds pauses in a thread's switches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switches {
    /// When the thread was preempted.
    out: Option<u64>,
}

impl Switches {
    /// Takes the thread's next switch. Returns start and end of a pause that it ended, in the switches' time.
    pub(super) fn on(&mut self, switch: Switch) -> Option<(u64, u64)> {
        match switch {
            Switch::Out { at, preempted } => {
                self.out = preempted.then_some(at);
                None
            }
            Switch::In { at } => {
                let from = self.out.take()?;
                (at.saturating_sub(from) >= PAUSE_MIN.as_nanos()).then_some((from, at))
            }
            Switch::Lost => {
                self.out = None;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn gaps(pauses: &[(u64, u64)]) -> Gaps {
        let mut gaps = Gaps::default();
        for &(start, length) in pauses {
            gaps.push(Pause { start: micros(start), length: Span::from_micros(length) });
        }
        gaps
    }

    /// Pauses of a busy thread in a group of 50 ms every 100 ms: start and length in microseconds.
    const QUOTA: [(u64, u64); 6] = [
        (48_210, 51_790),
        (150_900, 49_120),
        (249_400, 50_610),
        (351_020, 48_990),
        (449_870, 50_140),
        (550_300, 49_710),
    ];

    /// Pauses of a busy thread beside one hog, at 250 ticks a second.
    const HOG: [(u64, u64); 7] = [
        (4_020, 3_990),
        (12_010, 4_000),
        (20_030, 3_980),
        (28_000, 4_010),
        (36_020, 4_000),
        (48_010, 4_020),
        (56_030, 3_990),
    ];

    #[test]
    fn pauses_of_a_quota_go_on_from_start_to_start() {
        let next = gaps(&QUOTA).next(micros(600_010)).unwrap();
        assert!(next.start > micros(649_000) && next.start < micros(652_500), "{next:?}");
        assert!(next.length > Span::from_millis(48) && next.length < Span::from_millis(51));
        // One period later it still goes on, and some periods later no more.
        assert!(gaps(&QUOTA).next(micros(700_000)).is_some());
        assert_eq!(gaps(&QUOTA).next(micros(900_000)), None);
    }

    #[test]
    fn pauses_beside_a_hog_go_on_and_one_that_was_skipped_does_not_matter() {
        let next = gaps(&HOG).next(micros(60_500)).unwrap();
        assert!(next.start >= micros(63_500) && next.start <= micros(64_500), "{next:?}");
        assert_eq!(next.length, Span::from_micros(4_000));
    }

    #[test]
    fn few_or_uneven_pauses_foretell_nothing() {
        assert_eq!(gaps(&QUOTA[..4]).next(micros(400_100)), None);
        let uneven = [(0, 2_000), (9_000, 1_000), (13_000, 9_000), (61_000, 1_500), (64_000, 3_000), (99_000, 1_000)];
        assert_eq!(gaps(&uneven).next(micros(100_500)), None);
    }

    #[test]
    fn switches_are_pauses_when_the_thread_was_taken_off_for_long() {
        let mut switches = Switches::default();
        let mut hear = |switch| switches.on(switch);
        // It waits for packets: no pause, however long.
        assert_eq!(hear(Switch::Out { at: 0, preempted: false }), None);
        assert_eq!(hear(Switch::In { at: 9_000_000 }), None);
        // It was taken off for a moment.
        assert_eq!(hear(Switch::Out { at: 10_000_000, preempted: true }), None);
        assert_eq!(hear(Switch::In { at: 10_200_000 }), None);
        assert_eq!(hear(Switch::Out { at: 11_000_000, preempted: true }), None);
        assert_eq!(hear(Switch::In { at: 15_000_000 }), Some((11_000_000, 15_000_000)));
        // What was lost cannot be told.
        assert_eq!(hear(Switch::Out { at: 16_000_000, preempted: true }), None);
        assert_eq!(hear(Switch::Lost), None);
        assert_eq!(hear(Switch::In { at: 30_000_000 }), None);
    }
}
