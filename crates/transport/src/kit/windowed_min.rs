//! The least value of the recent past.

use inhaul_base::{Span, Time};

/// The least value seen within a sliding window, in constant memory: two half-windows are kept, so the answer covers
/// between half of the window and all of it.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMin {
    half: Span,
    turned: Time,
    current: Option<i64>,
    previous: Option<i64>,
}

impl WindowedMin {
    /// An empty window of `window`.
    pub fn new(window: Span) -> Self {
        Self { half: window / 2, turned: Time::ZERO, current: None, previous: None }
    }

    /// Takes in a value at `now`.
    pub fn sample(&mut self, now: Time, value: i64) {
        if now.since(self.turned) >= self.half {
            self.previous = if now.since(self.turned) >= self.half * 2 { None } else { self.current };
            self.current = None;
            self.turned = now;
        }
        self.current = Some(self.current.map_or(value, |least| least.min(value)));
    }

    /// The least value of the window; `None` when nothing was sampled in it.
    pub fn get(&self) -> Option<i64> {
        match (self.current, self.previous) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_forgets_what_is_older_than_the_window() {
        let mut least = WindowedMin::new(Span::from_secs(10));
        let at = |s| Time::ZERO + Span::from_secs(s);
        least.sample(at(1), -5);
        least.sample(at(4), 7);
        least.sample(at(6), 3);
        assert_eq!(least.get(), Some(-5));
        least.sample(at(12), 9);
        assert_eq!(least.get(), Some(3));
        least.sample(at(30), 8);
        assert_eq!(least.get(), Some(8));
    }
}
