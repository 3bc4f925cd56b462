//! CapacitySearch: finds a capacity that nobody has told, and follows it. An addition to the paper (PROTOCOL.md 7).
//!
//! The same law serves the receiver (for C_r) and each path (for C_i). It tells from two signals that the capacity is
//! used up: a queue that stands through a whole interval, or loss. Either way what was *delivered* in that interval is the
//! capacity. Below it the estimate grows as the paper's CapacityEstimator does; near it, by small steps and ever more
//! seldom, so that the probing itself causes next to no loss.

use inhaul_base::Bitrate;

/// The estimate is set this far below the capacity that was measured, so that the queue drains.
pub const MARGIN: f64 = 0.985;
/// gtp-2004 4.2: first increment; it doubles from interval to interval ...
const INCREMENT: f64 = 0.02;
/// ... up to this.
const INCREMENT_MAX: f64 = 0.25;
/// Step where overshooting costs nothing.
const FREE_INCREMENT: f64 = 0.5;
/// Step while near a capacity that was measured before.
const CAREFUL: f64 = 0.01;
/// "Near": between these parts of it.
const NEAR: std::ops::Range<f64> = 0.90..1.05;
/// Intervals to wait after the capacity was reached: doubled each time it is found where it was.
const HOLD_MIN: u32 = 4;
/// Most intervals to wait.
const HOLD_MAX: u32 = 32;
/// A growth that bursts give evidence for may still be this much at most in one interval.
const LEAP_MAX: f64 = 2.0;
/// What bursts show counts when this part of it is so much above the estimate.
const EVIDENCE_PART: f64 = 0.9;
const EVIDENCE_MIN: f64 = 1.1;
/// Estimates do not fall below this.
const FLOOR: Bitrate = Bitrate::from_bps(200_000);

/// An estimate of a capacity.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapacitySearch {
    estimate: Option<Bitrate>,
    /// The capacity when it was last reached.
    reached: Option<Bitrate>,
    /// It was met by a queue or loss, not only thought to be there.
    met: bool,
    /// The most that has come through since then, without a sign of congestion.
    through: Bitrate,
    increment: f64,
    hold: u32,
    next_hold: u32,
}

impl CapacitySearch {
    /// The estimate; `None` while nothing is known.
    pub fn estimate(&self) -> Option<Bitrate> {
        self.estimate
    }

    /// Starts from `rate`. The capacity may be `near`: it is approached with care.
    pub fn seed(&mut self, rate: Bitrate, near: Option<Bitrate>) {
        *self = Self { estimate: Some(rate.max(FLOOR)), reached: near.map(|r| r.max(FLOOR)), ..Self::default() };
    }

    /// The same, as a guess at another capacity: that one has not been met yet.
    pub fn as_guess(self) -> Self {
        Self { met: false, ..self }
    }

    /// What was thought to be the capacity is not: there is no need for care.
    pub fn forget_reached(&mut self) {
        (self.reached, self.met) = (None, false);
    }

    /// The capacity was reached: a queue stood, or packets were lost, while `capacity` came through.
    pub fn on_congestion(&mut self, capacity: Bitrate) {
        let same = self.reached.is_some_and(|r| (capacity.as_f64() / r.as_f64() - 1.0).abs() < 0.05);
        self.next_hold = match (same, self.hold) {
            (false, _) => HOLD_MIN,
            (true, 0) => (self.next_hold * 2).clamp(HOLD_MIN, HOLD_MAX),
            // Still the same encounter: it was not a probe that met the capacity again.
            (true, _) => self.next_hold.max(HOLD_MIN),
        };
        self.hold = self.next_hold;
        (self.reached, self.met) = (Some(capacity.max(FLOOR)), true);
        self.through = Bitrate::ZERO;
        self.increment = 0.0;
        self.estimate = Some(capacity.mul_f64(MARGIN).max(FLOOR));
    }

    /// Others join: no time to probe for more than is known to be there. Where joins come faster than probes meet the capacity, what has
    /// come through is what is known.
    pub fn settle(&mut self) {
        if let (Some(estimate), Some(reached)) = (self.estimate, self.reached)
            && NEAR.contains(&(estimate.as_f64() / reached.as_f64()))
        {
            let reached = reached.max(self.through);
            self.reached = Some(reached);
            self.estimate = Some(estimate.min(reached.mul_f64(MARGIN)).max(FLOOR));
        }
    }

    /// The whole estimate was used for an interval, and `delivered` came through, without a sign of congestion.
    pub fn on_success(&mut self, delivered: Bitrate) {
        let Some(estimate) = self.estimate else { return };
        self.through = self.through.max(delivered);
        if self.hold > 0 {
            self.hold -= 1;
            return;
        }
        let near = self.reached.is_some_and(|r| NEAR.contains(&(estimate.as_f64() / r.as_f64())));
        self.increment = match self.increment {
            _ if near => CAREFUL,
            i if i <= 0.0 => INCREMENT,
            i => (2.0 * i).min(INCREMENT_MAX),
        };
        self.estimate = Some(estimate.mul_f64(1.0 + self.increment));
    }

    /// As [`CapacitySearch::on_success`], where overshooting costs nothing because something else bounds what is on its way. What
    /// bursts have `shown` to be the capacity is gone up to and then passed with care all the same.
    pub fn on_free_success(&mut self, delivered: Bitrate, shown: Option<Bitrate>) {
        let Some(estimate) = self.estimate else { return };
        let next = estimate.mul_f64(1.0 + FREE_INCREMENT);
        let limit = shown.map_or(Bitrate::MAX, |shown| shown.mul_f64(MARGIN));
        if estimate >= limit {
            self.reached = self.reached.max(shown);
            return self.on_success(delivered);
        }
        *self = Self { estimate: Some(next.min(limit)), ..Self::default() };
    }

    /// Bursts came in at `rate` without a sign of congestion: that much is possible, though it was not used on average. But a host
    /// that wakes up late makes bursts look faster than they were, so they say nothing against a capacity that was met.
    pub fn on_evidence(&mut self, rate: Bitrate) {
        let Some(estimate) = self.estimate else { return };
        let met = self.reached.filter(|r| self.met && estimate <= r.mul_f64(NEAR.end));
        let rate = met.map_or(rate, |met| rate.min(met));
        if self.hold == 0 && rate.mul_f64(EVIDENCE_PART) > estimate.mul_f64(EVIDENCE_MIN) {
            self.estimate = Some(rate.mul_f64(EVIDENCE_PART).min(estimate.mul_f64(LEAP_MAX)));
            self.reached = self.reached.max(Some(rate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbps(search: &CapacitySearch) -> u64 {
        search.estimate().unwrap().bps() / 1_000_000
    }

    #[test]
    fn grows_exponentially_where_nothing_is_known() {
        let mut s = CapacitySearch::default();
        s.seed(Bitrate::from_mbps(100), None);
        let steps: Vec<_> = (0..6)
            .map(|_| {
                s.on_success(Bitrate::ZERO);
                mbps(&s)
            })
            .collect();
        assert_eq!(steps, [102, 106, 114, 132, 166, 207]);
    }

    #[test]
    fn probes_a_capacity_it_knows_by_small_steps_and_ever_more_seldom() {
        let mut s = CapacitySearch::default();
        s.seed(Bitrate::from_mbps(100), None);
        let capacity = Bitrate::from_mbps(1000);
        let mut probes = Vec::new();
        for interval in 0..400 {
            if s.estimate().unwrap() > capacity {
                probes.push((interval, s.estimate().unwrap().as_f64() / capacity.as_f64()));
                s.on_congestion(capacity);
            } else {
                s.on_success(Bitrate::ZERO);
            }
        }
        // The first approach may overshoot by one increment; later ones by one careful step.
        assert!(probes[1..].iter().all(|p| p.1 < 1.011), "{probes:?}");
        assert!(probes.windows(2).skip(6).all(|w| w[1].0 - w[0].0 >= HOLD_MAX), "{probes:?}");
        assert!(s.estimate().unwrap() >= capacity.mul_f64(MARGIN));
    }

    #[test]
    fn settles_below_a_capacity_it_knows_and_leaves_others_alone() {
        let mut s = CapacitySearch::default();
        s.seed(Bitrate::from_mbps(100), None);
        s.settle();
        assert_eq!(mbps(&s), 100);
        s.seed(Bitrate::from_mbps(1030), Some(Bitrate::from_mbps(1000)));
        s.settle();
        assert_eq!(mbps(&s), 985);
        s.settle();
        assert_eq!(mbps(&s), 985);
        s.seed(Bitrate::from_mbps(2000), Some(Bitrate::from_mbps(1000)));
        s.settle();
        assert_eq!(mbps(&s), 2000, "what was reached is long past");
    }

    #[test]
    fn settles_below_what_came_through_where_that_is_more() {
        let mut s = CapacitySearch::default();
        s.seed(Bitrate::from_mbps(1020), Some(Bitrate::from_mbps(1000)));
        s.on_success(Bitrate::from_mbps(1018));
        s.settle();
        assert_eq!(mbps(&s), 1002, "0.985 of 1018");
        s.on_congestion(Bitrate::from_mbps(990));
        s.settle();
        assert_eq!(mbps(&s), 975, "what came through before is past");
    }

    #[test]
    fn leaps_where_overshooting_is_free_but_not_past_what_bursts_have_shown() {
        let mut s = CapacitySearch::default();
        s.seed(Bitrate::from_mbps(40), None);
        let mut steps = |shown: Option<u64>| {
            s.on_free_success(Bitrate::ZERO, shown.map(Bitrate::from_mbps));
            mbps(&s)
        };
        assert_eq!([(); 4].map(|()| steps(Some(100))), [60, 90, 98, 99], "1 % once it is near");
        assert_eq!([(); 3].map(|()| steps(None)), [149, 223, 335]);
    }

    #[test]
    fn takes_the_word_of_bursts_but_not_against_a_capacity_that_was_met() {
        let mut s = CapacitySearch::default();
        s.seed(Bitrate::from_mbps(100), Some(Bitrate::from_mbps(110)));
        s.on_evidence(Bitrate::from_mbps(1000));
        assert_eq!(mbps(&s), 200, "LEAP_MAX");
        s.on_congestion(Bitrate::from_mbps(200));
        for _ in 0..HOLD_MIN {
            s.on_success(Bitrate::ZERO);
        }
        s.on_evidence(Bitrate::from_mbps(1000));
        assert_eq!(mbps(&s), 197, "bursts that a late host made look fast");
        while mbps(&s) <= 210 {
            s.on_success(Bitrate::ZERO);
        }
        s.on_evidence(Bitrate::from_mbps(1000));
        assert!(mbps(&s) > 400, "what was met is long past");
    }

    #[test]
    fn follows_a_capacity_that_moves() {
        let mut s = CapacitySearch::default();
        s.seed(Bitrate::from_mbps(900), None);
        s.on_congestion(Bitrate::from_mbps(900));
        s.on_congestion(Bitrate::from_mbps(300)); // it fell
        assert_eq!(mbps(&s), 295);
        let mut intervals = 0;
        while mbps(&s) < 850 {
            s.on_success(Bitrate::ZERO); // it rose again
            intervals += 1;
        }
        assert!(intervals < 25, "{intervals}");
    }
}
