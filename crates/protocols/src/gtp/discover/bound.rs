//! Bound: knowledge of a measured capacity. An addition to the paper (PROTOCOL.md 7).
//!
//! The same law serves the receiver (C_r) and each path (C_i). A capacity is known as an interval: one rate *came
//! through*, and a higher one was *refuted*, by a standing queue or by loss beyond chance. A capacity that was never
//! refuted has no bound: a share is not a capacity. A bound is tested by the smallest steps that show in a queue. Steps
//! double while they succeed, and tests become rarer if they find the same bound again.

use inhaul_base::Bitrate;

/// Requested rates stay this far below the rate that came through when more was refuted.
pub const MARGIN: f64 = 0.01;
/// Most that is left unused to drain a queue that stood.
pub(super) const DRAIN_MAX: f64 = 0.05;
/// Steps double up to this.
const STEP_MAX: f64 = 0.25;
/// First step if the bound is a guess, or a flow has left: this many careful steps, within these parts of the bound.
const DOUBT_STEPS: f64 = 3.0;
const DOUBT_STEP: (f64, f64) = (0.01, 0.08);
/// Step where asking for more costs nothing.
const FREE_STEP: f64 = 0.5;
/// Less than so far from the bound that was known, it is the same bound.
const SAME: f64 = 0.05;
/// A bound that passed this often had been proven.
const PROVEN_MIN: u32 = 4;
/// It is reached again at this part of it.
const NEAR: f64 = 0.98;
/// Intervals to wait after more was refuted: doubled each time that a test finds the bound where it was.
const HOLD_MIN: u32 = 4;
/// Most intervals to wait.
const HOLD_MAX: u32 = 32;
/// Bounds do not fall below this.
const FLOOR: Bitrate = Bitrate::from_bps(200_000);

/// Knowledge of a capacity.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bound {
    /// The rate that came through when more was refuted; `None`: never refuted.
    cap: Option<Bitrate>,
    /// The cap before that, if it was another.
    before: Option<Bitrate>,
    /// By which part more is asked for; 0 while nothing is tested.
    step: f64,
    /// The part left unused until the queue has drained, beyond the margin.
    drain: f64,
    /// Intervals until the next test, and their planned number.
    hold: u32,
    wait: u32,
    /// Intervals in which the requested rate came through, since more was refuted.
    passes: u32,
    /// A test has found the bound again where it was.
    confirmed: bool,
}

impl Bound {
    /// The most that may be requested; `None`: no limit.
    pub fn limit(&self) -> Option<Bitrate> {
        let cap = self.cap?;
        let limit = if self.step <= 0.0 {
            cap.mul_f64(1.0 - MARGIN - self.drain)
        } else {
            // A rate that came through before is tested again before it is exceeded.
            let before = self.before.filter(|before| *before > cap).unwrap_or(Bitrate::MAX);
            cap.mul_f64(1.0 + self.step).min(before)
        };
        Some(limit.max(FLOOR))
    }

    /// The rate that came through when more was refuted, or a guess.
    pub fn cap(&self) -> Option<Bitrate> {
        self.cap
    }

    /// Whether more than the cap is being asked for.
    pub fn is_testing(&self) -> bool {
        self.step > 0.0
    }

    /// Whether more was refuted here, and the earlier rate was not higher.
    pub fn is_settled(&self) -> bool {
        self.wait > 0 && self.before.is_none_or(|before| Some(before) <= self.cap)
    }

    /// A measurement says that it is `rate`. Nothing has refuted more, so that is tested as soon as it binds.
    pub fn guess(&mut self, rate: Bitrate) {
        *self = Self { cap: Some(rate.max(FLOOR)), ..Self::default() };
    }

    /// More than `came` does not come through; `drain` is the part of an interval by which the queue that stood is
    /// longer than it should be; at most this part, `most`, is left unused to drain it.
    pub fn refute(&mut self, came: Bitrate, drain: f64, most: f64) {
        let came = came.max(FLOOR);
        let is_same = self.cap.is_some_and(|cap| (came.as_f64() / cap.as_f64() - 1.0).abs() < SAME);
        let fell = !is_same && Some(came) < self.cap && self.passes >= PROVEN_MIN;
        if !is_same {
            // While it falls, "before" means before the fall.
            self.before = if self.hold > 0 { self.before.max(self.cap) } else { self.cap };
            (self.wait, self.confirmed) = (HOLD_MIN, false);
        } else if self.is_testing() {
            (self.wait, self.confirmed) = ((2 * self.wait).clamp(HOLD_MIN, HOLD_MAX), true);
        }
        self.wait = self.wait.max(HOLD_MIN);
        self.hold = self.wait;
        if fell {
            // A drop after a long stable period may be brief, so test the old rate again soon.
            (self.hold, self.wait) = (1, 0);
        }
        (self.step, self.passes) = (0.0, 0);
        self.drain = drain.clamp(0.0, most);
        self.cap = Some(came);
    }

    /// All of the limit was asked for over an interval, `came` came through, and no queue stood. The first step of a
    /// test is `careful`.
    pub fn pass(&mut self, came: Bitrate, careful: f64) {
        let Some(cap) = self.cap else { return };
        self.drain = 0.0;
        self.passes = self.passes.saturating_add(1);
        if self.hold > 0 {
            self.hold -= 1;
        } else if self.step <= 0.0 {
            self.step = if self.wait == 0 { doubt_step(careful) } else { careful };
        } else if self.before.is_some_and(|before| came >= before.mul_f64(NEAR)) {
            (self.cap, self.before, self.step) = (Some(came.max(cap)), None, careful);
        } else if came >= cap.mul_f64(1.0 + self.step / 2.0) {
            (self.cap, self.step) = (Some(came), (2.0 * self.step).min(STEP_MAX));
        }
    }

    /// The same if another limit bounds the bytes in flight, so that requesting more costs nothing: the bound is raised
    /// out of the way.
    pub fn pass_freely(&mut self) {
        if let Some(cap) = self.cap {
            *self = Self { cap: Some(cap.mul_f64(1.0 + FREE_STEP)), ..Self::default() };
        }
    }

    /// Something has changed: an old refutation may no longer hold.
    pub fn doubt(&mut self, careful: f64) {
        if !self.confirmed && self.cap.is_some() {
            (self.hold, self.wait, self.step, self.drain) = (0, 0, doubt_step(careful), 0.0);
        }
    }

    /// Others come or go: no time to ask for more than is known to come through.
    pub fn break_off(&mut self) {
        self.step = 0.0;
    }

    /// The loss that refuted more was not of our making.
    pub fn forgive(&mut self) {
        if self.cap.is_some() {
            (self.cap, self.step, self.hold) = (self.cap.max(self.before), 0.0, 0);
        }
    }
}

fn doubt_step(careful: f64) -> f64 {
    (DOUBT_STEPS * careful).clamp(DOUBT_STEP.0, DOUBT_STEP.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAREFUL: f64 = 0.01;

    fn mbps(rate: Option<Bitrate>) -> u64 {
        (rate.unwrap().as_f64() / 1e6).round() as u64
    }

    fn guessed(rate: u64) -> Bound {
        let mut bound = Bound::default();
        bound.guess(Bitrate::from_mbps(rate));
        bound
    }

    /// Runs intervals against a capacity until `until`; the requested rate comes, up to the capacity.
    fn meet(bound: &mut Bound, capacity: u64, intervals: usize) -> Vec<u64> {
        let capacity = Bitrate::from_mbps(capacity);
        let step = |_| {
            let asked = bound.limit().unwrap();
            if asked > capacity {
                bound.refute(capacity, 0.0, DRAIN_MAX);
            } else {
                bound.pass(asked, CAREFUL);
            }
            mbps(Some(asked))
        };
        (0..intervals).map(step).collect()
    }

    #[test]
    fn limit_is_none_before_anything_was_refuted() {
        assert_eq!(Bound::default().limit(), None);
        let mut bound = Bound::default();
        bound.pass(Bitrate::from_mbps(5), CAREFUL);
        bound.doubt(CAREFUL);
        bound.forgive();
        assert_eq!(bound.limit(), None, "a rate that came through is no bound");
    }

    #[test]
    fn pass_doubles_its_steps_while_more_comes() {
        let mut bound = guessed(100);
        assert_eq!(meet(&mut bound, 1_000, 7), [99, 103, 109, 122, 152, 190, 237]);
    }

    #[test]
    fn refute_waits_ever_longer_for_a_bound_that_is_found_again() {
        let mut bound = guessed(1_000);
        let asked = meet(&mut bound, 1_000, 400);
        let tests: Vec<usize> = (0..asked.len()).filter(|k| asked[*k] > 1_000).collect();
        assert!(tests.windows(2).skip(4).all(|pair| pair[1] - pair[0] > HOLD_MAX as usize), "{tests:?}");
        // And it never requests much more than the capacity.
        assert!(asked[1..].iter().skip(1).all(|asked| (990..=1_010).contains(asked)), "{asked:?}");
    }

    #[test]
    fn refute_leaves_room_to_drain_a_queue_until_it_has() {
        let mut bound = guessed(1_000);
        bound.refute(Bitrate::from_mbps(1_000), 0.02, DRAIN_MAX);
        assert_eq!(mbps(bound.limit()), 970);
        bound.pass(Bitrate::from_mbps(970), CAREFUL);
        assert_eq!(mbps(bound.limit()), 990);
        bound.refute(Bitrate::from_mbps(1_000), 7.0, DRAIN_MAX);
        assert_eq!(mbps(bound.limit()), 940, "not for ever so long a queue");
    }

    #[test]
    fn refute_tries_what_came_through_for_long_again_soon_and_no_more() {
        let mut bound = guessed(1_000);
        bound.refute(Bitrate::from_mbps(1_000), 0.0, DRAIN_MAX);
        (0..4).for_each(|_| bound.pass(Bitrate::from_mbps(990), CAREFUL));
        bound.refute(Bitrate::from_mbps(700), 0.0, DRAIN_MAX);
        let asked = meet(&mut bound, 1_000, 12);
        let back = asked.iter().position(|asked| *asked > 950).unwrap();
        assert!(back < 9 && asked[..=back].iter().all(|asked| *asked <= 1_000), "{asked:?}");
    }

    #[test]
    fn pass_freely_gets_the_bound_out_of_the_way() {
        let mut bound = guessed(100);
        bound.refute(Bitrate::from_mbps(100), 0.02, DRAIN_MAX);
        (0..6).for_each(|_| bound.pass_freely());
        assert_eq!(mbps(bound.limit()), 1_128);
    }

    #[test]
    fn doubt_is_only_of_what_no_test_has_confirmed() {
        let mut bound = guessed(100);
        bound.doubt(CAREFUL);
        assert!(bound.is_testing());
        let mut bound = guessed(100);
        meet(&mut bound, 100, 40);
        bound.break_off();
        bound.doubt(CAREFUL);
        assert!(!bound.is_testing());
    }

    #[test]
    fn forgive_goes_back_to_before_the_fall() {
        let mut bound = guessed(1_000);
        bound.refute(Bitrate::from_mbps(800), 0.0, DRAIN_MAX);
        bound.refute(Bitrate::from_mbps(600), 0.0, DRAIN_MAX);
        bound.forgive();
        assert_eq!(mbps(bound.limit()), 990);
    }

    proptest! {
        /// After any sequence of calls, a bound stays above its floor, and the requested rate is within a step of the
        /// arrival rate.
        #[test]
        fn limit_stays_within_a_step_of_what_came(
            steps in prop::collection::vec((0u8..5, 1u64..2_000, 0.0..2.0f64), 1..60),
        ) {
            let mut bound = guessed(500);
            let mut most = 500e6;
            for (what, rate, part) in steps {
                let rate = Bitrate::from_mbps(rate);
                match what {
                    0 => bound.refute(rate, part, DRAIN_MAX),
                    1 => bound.pass(bound.limit().unwrap_or(rate), CAREFUL),
                    2 => bound.doubt(CAREFUL),
                    3 => bound.forgive(),
                    _ => bound.break_off(),
                }
                most = f64::max(most, bound.cap().unwrap().as_f64());
                let limit = bound.limit().unwrap();
                prop_assert!(limit >= FLOOR);
                prop_assert!(limit.as_f64() <= bound.cap().unwrap().as_f64() * (1.0 + STEP_MAX) + 1.0);
            }
        }
    }
}
