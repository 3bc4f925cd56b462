//! A source's score: its forecasts against actual pauses.

use std::collections::VecDeque;

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;

/// A forecast counts only if it is made at least this long before the pause.
const LEAD: Span = Span::from_millis(2);
/// A pause matches a forecast if it begins or ends within this distance of it.
const TOLERANCE: Span = Span::from_millis(3);
/// Most pauses and forecasts that wait to be matched.
const WAITING_MAX: usize = 64;
/// [`Score::recent_precision`] is an average over about this many forecasts.
const RECENT: u32 = 32;

/// The account of a source.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Pauses that were foreseen.
    pub foreseen: u64,
    /// Those of them that came.
    pub right: u64,
    /// Pauses that came.
    pub actual: u64,
    /// Those of them that were foreseen.
    pub caught: u64,
    /// Sums over the forecasts that came: errors of their starts, errors of their lengths, and lengths.
    pub start_error: Span,
    /// See `start_error`.
    pub length_error: Span,
    /// See `start_error`.
    pub length: Span,
    /// The current forecast, still too far ahead to count.
    next: Option<Pause>,
    /// Counted forecasts, and whether a pause matched.
    booked: VecDeque<(Pause, bool)>,
    /// The right part of the last forecasts.
    recent: f64,
    recent_count: u32,
}

/// The outcome of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Foreseen, and the pause that came.
    Right(Pause, Pause),
    /// It did not come.
    Wrong(Pause),
}

impl Score {
    /// The part of forecasts that came; `None` before any.
    pub fn precision(&self) -> Option<f64> {
        (self.foreseen > 0).then(|| self.right as f64 / self.foreseen as f64)
    }

    /// The part of pauses that were foreseen; `None` before any.
    pub fn recall(&self) -> Option<f64> {
        (self.actual > 0).then(|| self.caught as f64 / self.actual as f64)
    }

    /// The precision of the last forecasts; `None` if there were fewer than `least`.
    pub fn recent_precision(&self, least: u32) -> Option<f64> {
        (self.recent_count >= least).then_some(self.recent)
    }

    /// Takes the source's forecast at `now`. Calls `hear` with outcomes of earlier ones.
    pub fn foresee(&mut self, now: Time, pause: Option<Pause>, hear: &mut dyn FnMut(Verdict)) {
        while let Some((front, came)) = self.booked.front().copied()
            && front.start + front.length + TOLERANCE * 2 < now
        {
            self.booked.pop_front();
            if !came {
                self.note(false);
                hear(Verdict::Wrong(front));
            }
        }
        // The last forecast that is early enough counts.
        if let Some(next) = self.next.filter(|next| next.start <= now + LEAD) {
            let after_last = self.booked.back().is_none_or(|(last, _)| next.start >= last.start + last.length);
            if after_last && next.start + LEAD >= now {
                self.foreseen += 1;
                if self.booked.len() == WAITING_MAX {
                    self.booked.pop_front();
                }
                self.booked.push_back((next, false));
            }
            self.next = None;
        }
        if pause.is_some_and(|pause| pause.start >= now + LEAD) || self.next.is_some() {
            self.next = pause.filter(|pause| pause.start >= now + LEAD);
        }
    }

    /// Takes an actual pause. Calls `hear` with the outcome of a forecast that matches.
    pub fn came(&mut self, actual: Pause, hear: &mut dyn FnMut(Verdict)) {
        // It may have begun between two looks. The forecast of the first look was the last one before it.
        let late = self.next.filter(|next| fits(*next, actual));
        if let Some(next) = late {
            self.next = None;
            self.foreseen += 1;
            self.booked.push_back((next, false));
        }
        self.actual += 1;
        let Some((foreseen, came)) = self.booked.iter_mut().find(|(foreseen, _)| fits(*foreseen, actual)) else {
            return;
        };
        self.caught += 1;
        if std::mem::replace(came, true) {
            return; // the rest of one that was foreseen as a whole
        }
        let foreseen = *foreseen;
        self.right += 1;
        self.start_error = self.start_error + difference(foreseen.start.as_nanos(), actual.start.as_nanos());
        self.length_error = self.length_error + difference(foreseen.length.as_nanos(), actual.length.as_nanos());
        self.length = self.length + actual.length;
        self.note(true);
        hear(Verdict::Right(foreseen, actual));
    }

    fn note(&mut self, right: bool) {
        self.recent_count = (self.recent_count + 1).min(RECENT);
        self.recent += (f64::from(u8::from(right)) - self.recent) / f64::from(self.recent_count);
    }
}

fn difference(a: u64, b: u64) -> Span {
    Span::from_nanos(a.abs_diff(b))
}

/// Whether two pauses overlap, or nearly.
fn fits(foreseen: Pause, actual: Pause) -> bool {
    let end = |pause: Pause| pause.start + pause.length;
    foreseen.start <= end(actual) + TOLERANCE && actual.start <= end(foreseen) + TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn pause(start: u64, length: u64) -> Pause {
        Pause { start: at(start), length: Span::from_millis(length) }
    }

    #[test]
    fn what_comes_as_foreseen_is_right_and_its_errors_are_summed() {
        let mut score = Score::default();
        let mut heard = Vec::new();
        score.foresee(at(10), Some(pause(50, 40)), &mut |v| heard.push(v));
        score.foresee(at(40), Some(pause(48, 52)), &mut |v| heard.push(v));
        score.foresee(at(47), None, &mut |v| heard.push(v));
        score.came(pause(50, 50), &mut |v| heard.push(v));
        assert_eq!(heard, [Verdict::Right(pause(48, 52), pause(50, 50))], "the last word counts");
        assert_eq!((score.precision(), score.recall()), (Some(1.0), Some(1.0)));
        assert_eq!((score.start_error, score.length_error), (Span::from_millis(2), Span::from_millis(2)));
    }

    #[test]
    fn what_does_not_come_is_wrong_and_what_was_not_foreseen_is_missed() {
        let mut score = Score::default();
        let mut heard = Vec::new();
        score.foresee(at(40), Some(pause(50, 10)), &mut |v| heard.push(v));
        score.foresee(at(49), None, &mut |v| heard.push(v));
        score.came(pause(100, 10), &mut |v| heard.push(v));
        score.foresee(at(120), None, &mut |v| heard.push(v));
        assert_eq!(heard, [Verdict::Wrong(pause(50, 10))]);
        assert_eq!((score.precision(), score.recall()), (Some(0.0), Some(0.0)));
        assert_eq!(score.recent_precision(1), Some(0.0));
    }

    #[test]
    fn a_forecast_that_is_taken_back_in_time_does_not_count() {
        let mut score = Score::default();
        score.foresee(at(10), Some(pause(50, 10)), &mut |_| {});
        score.foresee(at(30), None, &mut |_| {});
        score.foresee(at(100), None, &mut |_| {});
        assert_eq!(score.foreseen, 0);
        // Nor does one that comes too late to be of use.
        score.foresee(at(100), Some(pause(101, 10)), &mut |_| {});
        score.came(pause(101, 10), &mut |_| {});
        assert_eq!((score.foreseen, score.recall()), (0, Some(0.0)));
    }

    #[test]
    fn a_pause_between_two_looks_was_foreseen_by_the_look_before_it() {
        let mut score = Score::default();
        score.foresee(at(40), Some(pause(50, 50)), &mut |_| {});
        score.came(pause(50, 49), &mut |_| {});
        assert_eq!((score.foreseen, score.right), (1, 1));
    }
}
