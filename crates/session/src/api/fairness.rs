//! Jain's fairness index, and when it says something.

use std::collections::BTreeMap;

use inhaul_base::{Span, Time};

/// Jain's fairness index (gtp-2004 5.1.1): `(sum x)^2 / (n * sum x^2)`: 1 when all are equal, 1/n when one has all.
/// `None` of less than two rates, and where nothing flowed: there is nothing to share then.
pub fn jain_index(rates: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0u32, 0.0, 0.0);
    for rate in rates {
        n += 1;
        sum += rate;
        squares += rate * rate;
    }
    (n >= 2 && squares > 0.0).then(|| sum * sum / (f64::from(n) * squares))
}

/// The longest time in which the same flows were all active, and what each had of it. Only then do they compete, and
/// only then does their index say something.
#[derive(Clone, Debug)]
pub struct Together<K> {
    current: Stretch<K>,
    longest: Stretch<K>,
}

impl<K> Default for Together<K> {
    fn default() -> Self {
        Self { current: Stretch::default(), longest: Stretch::default() }
    }
}

#[derive(Clone, Debug)]
struct Stretch<K> {
    from: Time,
    to: Time,
    /// The bytes of each flow at the start and at the end.
    flows: BTreeMap<K, (u64, u64)>,
}

impl<K> Default for Stretch<K> {
    fn default() -> Self {
        Self { from: Time::ZERO, to: Time::ZERO, flows: BTreeMap::new() }
    }
}

impl<K> Stretch<K> {
    fn span(&self) -> Span {
        self.to.since(self.from)
    }
}

impl<K: Ord + Copy> Together<K> {
    /// At `now` these flows are active, and have had so many bytes each.
    pub fn note(&mut self, now: Time, active: impl IntoIterator<Item = (K, u64)>) {
        let active: BTreeMap<K, u64> = active.into_iter().collect();
        if active.keys().eq(self.current.flows.keys()) {
            self.current.to = now;
            for ((_, last), bytes) in self.current.flows.values_mut().zip(active.into_values()) {
                *last = bytes;
            }
        } else {
            let flows = active.into_iter().map(|(flow, bytes)| (flow, (bytes, bytes))).collect();
            self.current = Stretch { from: now, to: now, flows };
        }
        let is_shared = self.current.flows.len() >= 2;
        if is_shared && self.current.span() >= self.longest.span() {
            self.longest = self.current.clone();
        }
    }

    /// Jain's index of what they had. `None` where one of `delivered` was not among them, or where they were together
    /// for less than half of `whole`.
    pub fn jain_index(&self, delivered: impl IntoIterator<Item = K>, whole: Span) -> Option<f64> {
        let Stretch { flows, .. } = &self.longest;
        let is_all = delivered.into_iter().all(|flow| flows.contains_key(&flow));
        let is_long = self.longest.span() * 2 >= whole;
        let bytes = flows.values().map(|(first, last)| last.saturating_sub(*first) as f64);
        if is_all && is_long { jain_index(bytes) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn jain_index_is_one_when_equal_and_one_nth_when_one_has_all() {
        assert_eq!(jain_index([5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain_index([8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((jain_index([1.0, 2.0]).unwrap() - 0.9).abs() < 1e-12);
        assert_eq!([jain_index([]), jain_index([3.0]), jain_index([0.0, 0.0])], [None; 3]);
    }

    #[test]
    fn together_takes_the_time_that_all_flows_share() {
        let mut together = Together::default();
        together.note(at(0), [(1, 0)]);
        together.note(at(1), [(1, 100), (2, 0)]);
        together.note(at(2), [(1, 110), (2, 10)]);
        together.note(at(4), [(1, 130), (2, 30)]);
        together.note(at(5), [(2, 90)]);
        // Both had 30 while both were there, whatever each had alone.
        assert_eq!(together.jain_index([1, 2], Span::from_secs(6)), Some(1.0));
        assert_eq!(together.jain_index([1, 2], Span::from_secs(7)), None, "less than half of the time");
        assert_eq!(together.jain_index([1, 2, 3], Span::from_secs(4)), None, "another one was not there");
    }

    #[test]
    fn together_knows_nothing_of_one_flow_and_of_flows_in_turns() {
        let mut together = Together::default();
        together.note(at(0), [(1, 0)]);
        together.note(at(9), [(1, 900)]);
        together.note(at(10), [(2, 0)]);
        together.note(at(19), [(2, 900)]);
        assert_eq!(together.jain_index([1, 2], Span::from_secs(20)), None);
        assert_eq!(together.jain_index([1], Span::from_secs(9)), None);
        assert_eq!(Together::<u8>::default().jain_index([], Span::ZERO), None);
    }
}
