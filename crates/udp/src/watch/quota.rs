//! Forecasts from a control group's quota: a fixed amount of processor time in each period. Once it is used up, nothing
//! runs until the next period. When that will be is estimated from the used time and its rate. When it ends is exact.

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;

use super::PAUSE_MIN;

/// The rate of use is measured over about this time.
const BURN_WINDOW: Span = Span::from_millis(10);
/// Looks that are further apart tell no rate: the group may have rested in between.
const LOOK_MAX: Span = Span::from_millis(15);
/// A stopped thread that continues looks at most this long after its period has begun.
const RESUMES: Span = Span::from_millis(5);
/// Below this part of the quota, frequent looks are not needed.
const IDLE_PART: f64 = 0.5;
/// Weight of one period's sample of the part of a quota that cannot be used.
const LEARN: f64 = 0.25;

/// A control group's quota (`cpu.max`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bandwidth {
    /// Processor time of a period, over all processors.
    pub(super) quota: Span,
    /// How long a period is.
    pub(super) period: Span,
}

impl Bandwidth {
    /// The number of processors that it may use on average.
    pub(super) fn processors(self) -> f64 {
        self.quota.as_secs_f64() / self.period.as_secs_f64().max(1e-9)
    }
}

/// The account of a control group (`cpu.stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Periods that have ended.
    pub(super) periods: u64,
    /// Periods in which the quota was used up.
    pub(super) throttled: u64,
    /// Used processor time; it may be some milliseconds old.
    pub(super) used: Span,
}

/// The forecast of one control group.
#[derive(Debug)]
pub(super) struct QuotaClock {
    pub(super) bandwidth: Bandwidth,
    last: Option<(Time, Account)>,
    /// When the current period began, and the uncertainty of that.
    began: Option<Time>,
    unsure: Span,
    /// The used time at that moment.
    used_then: Span,
    /// Number of processors in use lately.
    burn: f64,
    /// The part of a quota that is left when its threads are stopped: it is assigned to processors on which they do not
    /// run.
    lost: f64,
}

impl QuotaClock {
    pub(super) fn new(bandwidth: Bandwidth) -> Self {
        let unsure = bandwidth.period;
        Self { bandwidth, last: None, began: None, unsure, used_then: Span::ZERO, burn: 0.0, lost: 0.0 }
    }

    /// Whether the quota may soon be used up.
    pub(super) fn is_near(&self) -> bool {
        self.burn >= IDLE_PART * self.bandwidth.processors()
    }

    /// Takes a look at `now`. Returns the next pause, if one is foreseen.
    pub(super) fn look(&mut self, now: Time, account: Account) -> Option<Pause> {
        let (before, last) = self.last.replace((now, account))?;
        let passed = now.since(before);
        let used = account.used.saturating_sub(last.used);
        if passed <= LOOK_MAX && passed > Span::ZERO && account.throttled == last.throttled {
            let weight = (passed.as_secs_f64() / BURN_WINDOW.as_secs_f64()).min(1.0);
            self.burn += weight * (used.as_secs_f64() / passed.as_secs_f64() - self.burn);
        }
        if account.periods > last.periods {
            self.note_period(now, before, account, last);
        }
        self.forecast(now, account)
    }

    /// Notes that a period has ended, and another begun, between the last look and this one.
    fn note_period(&mut self, now: Time, before: Time, account: Account, last: Account) {
        let Bandwidth { quota, period } = self.bandwidth;
        let passed = now.since(before);
        // The kernel's periods follow each other without gaps, used or not.
        let by_grid = self.began.map(|began| {
            let periods = now.since(began).as_nanos() / period.as_nanos().max(1);
            began + period * periods
        });
        // A stopped thread continues when a period begins, or a little later.
        let latest = if account.throttled > last.throttled { passed.min(RESUMES) } else { passed };
        let earliest = now - latest;
        let began = match by_grid {
            Some(grid) if self.unsure <= latest && grid >= earliest => grid,
            // Its start is uncertain within this time.
            _ => {
                self.unsure = latest;
                now
            }
        };
        let throttled = account.throttled > last.throttled;
        if throttled && account.periods == last.periods + 1 {
            // The usable part of a quota is what was used since the previous period began.
            let since = now.since(began).as_secs_f64() * self.burn;
            let whole = account.used.saturating_sub(self.used_then).as_secs_f64() - since;
            let left = (quota.as_secs_f64() - whole).clamp(-0.2 * quota.as_secs_f64(), 0.5 * quota.as_secs_f64());
            self.lost += LEARN * (left - self.lost);
        }
        let since = now.since(began).mul_f64(self.burn).as_nanos();
        let between = account.used.saturating_sub(last.used).as_nanos();
        self.used_then = account.used.saturating_sub(Span::from_nanos(since.min(between)));
        self.began = Some(began);
    }

    fn forecast(&self, now: Time, account: Account) -> Option<Pause> {
        let Bandwidth { quota, period } = self.bandwidth;
        let began = self.began?;
        // If nothing has run for a whole period, nothing is known.
        if now.since(began) >= period + self.unsure || self.burn <= 0.0 {
            return None;
        }
        let used = account.used.saturating_sub(self.used_then).as_secs_f64();
        let left = (quota.as_secs_f64() - self.lost - used).max(0.0);
        let start = now + Span::from_secs_f64(left / self.burn);
        let next = began + period;
        (start + PAUSE_MIN <= next).then(|| Pause { start, length: next.since(start) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    /// A group that uses one processor until its quota is used up, looked at every millisecond while it runs.
    fn run(clock: &mut QuotaClock, phase: u64, periods: u64, mut see: impl FnMut(u64, Option<Pause>)) {
        let quota = clock.bandwidth.quota.as_nanos() / 1_000;
        let period = clock.bandwidth.period.as_nanos() / 1_000;
        for number in 0..periods {
            let began = phase + number * period;
            for at in (began + 300..began + quota).step_by(1_000) {
                let used = number * quota + (at - began);
                let account = Account { periods: number, throttled: number, used: Span::from_micros(used) };
                see(at, clock.look(micros(at), account));
            }
        }
    }

    fn half() -> QuotaClock {
        QuotaClock::new(Bandwidth { quota: Span::from_millis(50), period: Span::from_millis(100) })
    }

    #[test]
    fn the_end_of_a_quota_and_of_its_pause_is_foreseen_a_period_after_the_first() {
        let mut clock = half();
        let mut seen = 0;
        run(&mut clock, 7_000, 6, |at, pause| {
            let number = (at - 7_000) / 100_000;
            // When the first begins cannot be known, and how fast it goes takes some looks.
            if number < 2 || at % 100_000 < 17_000 {
                return;
            }
            let pause = pause.unwrap();
            let start = 7_000 + number * 100_000 + 50_000;
            let error = pause.start.as_nanos().abs_diff(start * 1_000);
            assert!(error < 2_000_000, "at {at}: {pause:?}");
            let end = (pause.start + pause.length).as_nanos();
            assert!(end.abs_diff((start + 50_000) * 1_000) < 1_000_000, "at {at}: {pause:?}");
            seen += 1;
        });
        assert!(seen > 100);
    }

    #[test]
    fn what_stays_within_its_quota_is_not_stopped() {
        let mut clock = half();
        for at in (0..1_000).map(|millis| millis * 1_000) {
            let account = Account { periods: at / 100_000, throttled: 0, used: Span::from_micros(at * 45 / 100) };
            assert_eq!(clock.look(micros(at), account), None, "at {at}");
        }
        assert!(clock.is_near());
    }

    #[test]
    fn what_cannot_be_used_of_a_quota_is_learnt() {
        let mut clock = half();
        // Each period ends 6 ms early.
        for number in 0..20u64 {
            for at in (300..44_000).step_by(1_000) {
                let used = Span::from_micros(number * 44_000 + at);
                let account = Account { periods: number, throttled: number, used };
                let pause = clock.look(micros(number * 100_000 + at), account);
                if number == 19 && at > 20_000 {
                    let error = pause.unwrap().start.as_nanos().abs_diff((number * 100_000 + 44_000) * 1_000);
                    assert!(error < 2_500_000, "{pause:?}");
                }
            }
        }
    }

    #[test]
    fn looks_that_are_far_apart_foretell_nothing_wild() {
        let mut clock = half();
        let mut at = 0;
        for number in 0..50 {
            at += 97_000;
            let account = Account { periods: number, throttled: 0, used: Span::from_millis(number) };
            assert_eq!(clock.look(micros(at), account), None);
        }
        assert!(!clock.is_near());
    }
}
