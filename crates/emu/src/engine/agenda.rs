//! A queue of deadlines: which of many things is due next.

use inhaul_base::Time;

/// A time for each of a fixed number of things, and the earliest of them: a tournament, in which each inner node is
/// the winner of the two below it. Between equals the first thing wins.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// The root is 1, the children of `n` are `2n` and `2n + 1`; the last half are the things.
    times: Vec<Time>,
}

impl Agenda {
    /// This many components, none of them due.
    pub(crate) fn new(things: usize) -> Self {
        Self { times: vec![Time::FAR_FUTURE; 2 * things.next_power_of_two().max(1)] }
    }

    /// When a thing is due; `None`: never.
    pub(crate) fn set(&mut self, thing: usize, at: Option<Time>) {
        let mut node = self.times.len() / 2 + thing;
        self.times[node] = at.unwrap_or(Time::FAR_FUTURE);
        while node > 1 {
            let winner = self.times[node].min(self.times[node ^ 1]);
            node /= 2;
            if self.times[node] == winner {
                break;
            }
            self.times[node] = winner;
        }
    }

    /// When the next thing is due.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        Some(self.times[1]).filter(|at| *at < Time::FAR_FUTURE)
    }

    /// The next thing that is due by `now`, and when.
    pub(crate) fn first(&self, now: Time) -> Option<(Time, usize)> {
        let at = self.next_at().filter(|at| *at <= now)?;
        let mut node = 1;
        while node < self.times.len() / 2 {
            node *= 2;
            if self.times[node] != at {
                node += 1;
            }
        }
        Some((at, node - self.times.len() / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_is_the_earliest_and_of_equals_the_first(
            things in 1..9usize,
            steps in proptest::collection::vec((0..9usize, proptest::option::of(0..5u64)), 1..40),
        ) {
            let mut agenda = Agenda::new(things);
            let mut plain = vec![None; things];
            for (thing, at) in steps {
                let (thing, at) = (thing % things, at.map(Time::from_nanos));
                agenda.set(thing, at);
                plain[thing] = at;
                let expected = plain.iter().enumerate().filter_map(|(thing, at)| Some(((*at)?, thing))).min();
                prop_assert_eq!(agenda.first(Time::from_nanos(9)), expected);
                prop_assert_eq!(agenda.next_at(), expected.map(|(at, _)| at));
                prop_assert_eq!(agenda.first(Time::from_nanos(1)), expected.filter(|(at, _)| at.as_nanos() <= 1));
            }
        }
    }
}
