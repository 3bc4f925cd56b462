//! Transitions: targets that are noted ahead, so that all changes show at the receiver at one time (gtp-2004 4.4).

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Time};

/// Most targets that are noted ahead of time.
const PLANS_MAX: usize = 16;

/// One flow's future targets, in order.
#[derive(Clone, Debug, Default)]
pub struct Plans(VecDeque<(Time, Bitrate)>);

impl Plans {
    /// Notes a target for the time `at`, but not before earlier noted targets. For a change of the rates of all flows,
    /// that is RTTmax - RTT_i from now.
    pub fn plan(&mut self, at: Time, target: Bitrate) {
        if self.0.len() == PLANS_MAX {
            self.0.pop_front();
        }
        let after = self.0.back().map_or(Time::ZERO, |plan| plan.0);
        self.0.push_back((at.max(after), target));
    }

    /// Takes over the last target that is due.
    pub fn take_due(&mut self, now: Time) -> Option<Bitrate> {
        let mut due = None;
        while let Some(&(at, target)) = self.0.front()
            && at <= now
        {
            due = Some(target);
            self.0.pop_front();
        }
        due
    }

    /// The target that will be in force when all are taken over.
    pub fn last(&self) -> Option<Bitrate> {
        self.0.back().map(|(_, target)| *target)
    }

    /// When the next one is due.
    pub fn due(&self) -> Option<Time> {
        self.0.front().map(|(at, _)| *at)
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All of them: when, and what.
    pub fn iter(&self) -> impl Iterator<Item = (Time, Bitrate)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn plans_are_taken_over_in_order_and_the_last_that_is_due_counts() {
        let mut plans = Plans::default();
        plans.plan(at(9), Bitrate::from_mbps(1));
        // The longest RTT has changed: the new target is not before earlier noted ones.
        plans.plan(at(5), Bitrate::from_mbps(2));
        plans.plan(at(20), Bitrate::from_mbps(3));
        assert_eq!((plans.due(), plans.last()), (Some(at(9)), Some(Bitrate::from_mbps(3))));
        assert_eq!(plans.take_due(at(8)), None);
        assert_eq!(plans.take_due(at(9)), Some(Bitrate::from_mbps(2)));
        assert_eq!(plans.iter().collect::<Vec<_>>(), [(at(20), Bitrate::from_mbps(3))]);
        plans.clear();
        assert_eq!(plans.take_due(at(99)), None);
    }

    #[test]
    fn plans_are_bounded() {
        let mut plans = Plans::default();
        (0..40).for_each(|k| plans.plan(at(k), Bitrate::from_bps(k)));
        assert_eq!((plans.iter().count(), plans.due()), (PLANS_MAX, Some(at(40 - PLANS_MAX as u64))));
    }
}
