//! Earliest eligible virtual deadline first (Stoica and Abdel-Wahab 1995), as Linux has it since 6.6, for one
//! processor: weights, lag, a base slice, no preemption before a slice is over, and the quota of a control group.
//!
//! The quota is accounted exactly; Linux checks at ticks and takes the excess from the next period.

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;

use super::policy::{PROCESS, Policy, tick_after};
use super::spec::{EevdfSpec, Quota};

/// The weight of niceness 0.
const NICE_0_WEIGHT: i128 = 1024;
/// Linux's table of weights, from niceness -20 on: each step is a tenth of a processor between two tasks.
const WEIGHTS: [i128; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

#[derive(Clone, Copy, Debug)]
struct Entity {
    weight: i128,
    /// Nanoseconds that it has run, times 1024 over its weight.
    vruntime: i128,
    deadline: i128,
    /// How far it was behind the average when it fell asleep.
    lag: i128,
    is_runnable: bool,
}

/// The rest of a quota.
#[derive(Clone, Copy, Debug)]
struct Bandwidth {
    spec: Quota,
    left: Span,
    refill: Time,
    /// The process wants to run, and must wait for the next period.
    is_throttled: bool,
}

impl Bandwidth {
    /// How long `left` will last: the process uses the processor as it has in this period. Until it has used an eighth
    /// of its quota, that is not known, and it is taken to run all the time.
    fn lasts(&self, now: Time, left: Span) -> Span {
        let used = self.spec.quota.saturating_sub(left);
        let begun = self.refill - self.spec.period;
        if used * 8 < self.spec.quota {
            return left;
        }
        left.mul_f64(now.since(begun).as_nanos() as f64 / used.as_nanos().max(1) as f64)
    }
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Eevdf {
    spec: EevdfSpec,
    tasks: Vec<Entity>,
    running: Option<usize>,
    /// Up to when the running task is accounted for.
    since: Time,
    quota: Option<Bandwidth>,
}

fn nanos(span: Span) -> i128 {
    i128::from(span.as_nanos())
}

impl Eevdf {
    /// With the process of niceness `nice`, and others of `others`. All are asleep.
    pub(super) fn new(spec: EevdfSpec, nice: i8, others: impl Iterator<Item = i8>) -> Self {
        let entity = |nice: i8| Entity {
            weight: WEIGHTS[(i32::from(nice) + 20).clamp(0, 39) as usize],
            vruntime: 0,
            deadline: 0,
            lag: 0,
            is_runnable: false,
        };
        let quota = spec.quota.map(|spec| Bandwidth {
            spec,
            left: spec.quota,
            refill: Time::ZERO + spec.period,
            is_throttled: false,
        });
        let tasks = std::iter::once(nice).chain(others).map(entity).collect();
        Self { spec, tasks, running: None, since: Time::ZERO, quota }
    }

    fn runnable(&self) -> impl Iterator<Item = &Entity> {
        self.tasks.iter().filter(|task| task.is_runnable)
    }

    /// The weighted average virtual time of all runnable tasks; a task behind it is eligible.
    fn average(&self) -> i128 {
        let weight: i128 = self.runnable().map(|task| task.weight).sum();
        let sum: i128 = self.runnable().map(|task| task.vruntime * task.weight).sum();
        if weight > 0 { sum.div_euclid(weight) } else { self.tasks.iter().map(|task| task.vruntime).max().unwrap_or(0) }
    }

    /// A task's request, in its virtual time.
    fn request(&self, weight: i128) -> i128 {
        nanos(self.spec.base_slice) * NICE_0_WEIGHT / weight
    }

    fn account(&mut self, now: Time) {
        let ran = now.since(self.since);
        if let Some(running) = self.running {
            let task = &mut self.tasks[running];
            task.vruntime += nanos(ran) * NICE_0_WEIGHT / task.weight;
        }
        if let Some(quota) = self.quota.as_mut().filter(|_| self.running == Some(PROCESS)) {
            quota.left = quota.left.saturating_sub(ran);
        }
        self.since = now;
    }

    /// When the running task's request is fulfilled.
    fn request_end(&self) -> Option<Time> {
        let task = &self.tasks[self.running?];
        let left = ((task.deadline - task.vruntime) * task.weight).div_euclid(NICE_0_WEIGHT) + 1;
        // While it is alone there is no task to switch to.
        let is_alone = self.runnable().count() == 1;
        let end = self.since + Span::from_nanos(left.clamp(0, i128::from(u64::MAX / 2)) as u64);
        (!is_alone).then(|| tick_after(end, self.spec.tick))
    }

    /// When the process has used its quota up, if it goes on running.
    fn quota_end(&self) -> Option<Time> {
        let quota = self.quota.filter(|_| self.running == Some(PROCESS))?;
        Some(self.since + quota.left)
    }

    /// When the next period begins, where that matters.
    fn refill(&self) -> Option<Time> {
        self.quota.filter(|quota| quota.is_throttled || quota.left < quota.spec.quota).map(|quota| quota.refill)
    }

    fn refill_quota(&mut self, now: Time) {
        let Some(quota) = &mut self.quota else { return };
        if now < quota.refill {
            return;
        }
        let periods = now.since(quota.refill).as_nanos() / quota.spec.period.as_nanos() + 1;
        quota.refill += quota.spec.period * periods;
        quota.left = quota.spec.quota;
        if std::mem::take(&mut quota.is_throttled) {
            self.enter(PROCESS);
        }
    }

    /// A task can run: it is put where it was, beside the average.
    fn enter(&mut self, task: usize) {
        let average = self.average();
        let others: i128 = self.runnable().map(|task| task.weight).sum();
        let entity = &self.tasks[task];
        // Linux's place_entity: to come in moves the average, which the lag must make up for.
        let lag = if others > 0 { entity.lag * (others + entity.weight) / others } else { 0 };
        let vruntime = average - lag;
        let deadline = vruntime + self.request(entity.weight);
        self.tasks[task] = Entity { vruntime, deadline, is_runnable: true, ..*entity };
        if self.running.is_none() {
            self.pick();
        }
    }

    /// The running task cannot run on.
    fn leave(&mut self, task: usize) {
        let average = self.average();
        let most = 2 * self.request(self.tasks[task].weight);
        let entity = &mut self.tasks[task];
        entity.lag = (average - entity.vruntime).clamp(-most, most);
        entity.is_runnable = false;
        self.pick();
    }

    fn pick(&mut self) {
        let average = self.average();
        let eligible = |(_, task): &(usize, &Entity)| task.is_runnable && task.vruntime <= average;
        let tasks = self.tasks.iter().enumerate();
        self.running = tasks.filter(eligible).min_by_key(|(_, task)| task.deadline).map(|(at, _)| at);
    }
}

impl Policy for Eevdf {
    fn running(&self) -> Option<usize> {
        self.running
    }

    fn pass(&mut self, now: Time) {
        let (request_end, quota_end) = (self.request_end(), self.quota_end());
        self.account(now);
        let is_over = |end: Option<Time>| end.is_some_and(|end| end <= now);
        // If the old quota ends with its period, the new quota is available at once.
        self.refill_quota(now);
        if let Some(quota) = self.quota.as_mut().filter(|quota| is_over(quota_end) && quota.left == Span::ZERO) {
            quota.is_throttled = true;
            self.leave(PROCESS);
        } else if let Some(running) = self.running.filter(|_| is_over(request_end)) {
            let request = self.request(self.tasks[running].weight);
            let task = &mut self.tasks[running];
            task.deadline = task.vruntime + request;
            self.pick();
        }
    }

    fn due(&self) -> Option<Time> {
        [self.request_end(), self.quota_end(), self.refill()].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Time, task: usize) {
        self.account(now);
        self.refill_quota(now);
        match self.quota.as_mut().filter(|_| task == PROCESS) {
            Some(quota) if quota.left == Span::ZERO => quota.is_throttled = true,
            _ => self.enter(task),
        }
    }

    fn block(&mut self, now: Time) {
        self.account(now);
        if let Some(running) = self.running {
            self.leave(running);
        }
    }

    /// The end of the quota, if the process goes on as in this period, or the others' turn, whichever is first.
    fn foresee(&self, now: Time) -> Option<Pause> {
        let quota = self.quota.and_then(|quota| {
            let left = quota.left.saturating_sub(now.since(self.since));
            let start = now + quota.lasts(now, left);
            (start < quota.refill).then(|| Pause { start, length: quota.refill.since(start) })
        });
        let own = self.tasks[PROCESS].weight;
        let others: i128 = self.runnable().map(|task| task.weight).sum::<i128>() - own;
        let turn = self.request_end().filter(|_| others > 0).map(|start| {
            // The others' time during one request of the process, in whole ticks.
            let slice = tick_after(Time::ZERO + self.spec.base_slice, self.spec.tick).since(Time::ZERO);
            Pause { start, length: slice.mul_f64(others as f64 / own as f64) }
        });
        quota.into_iter().chain(turn).min_by_key(|pause| pause.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn quota(quota: u64, period: u64) -> EevdfSpec {
        let quota = Quota { quota: Span::from_millis(quota), period: Span::from_millis(period) };
        EevdfSpec { quota: Some(quota), ..EevdfSpec::default() }
    }

    /// Lets all run for a second. Returns each one's time, in milliseconds, and the process's pauses.
    fn run(eevdf: &mut Eevdf) -> (Vec<u64>, Vec<(Time, Span)>) {
        for task in 0..eevdf.tasks.len() {
            eevdf.wake(at(0), task);
        }
        let mut had = vec![Span::ZERO; eevdf.tasks.len()];
        let (mut now, mut pauses, mut left): (_, Vec<_>, Option<Time>) = (at(0), Vec::new(), None);
        while let Some(due) = eevdf.due().filter(|due| *due <= at(1_000_000)) {
            let before = eevdf.running();
            if let Some(running) = before {
                had[running] = had[running] + due.since(now);
            }
            now = due;
            eevdf.pass(now);
            match (before == Some(PROCESS), eevdf.running() == Some(PROCESS)) {
                (true, false) => left = Some(now),
                (false, true) => pauses.extend(left.map(|left| (left, now.since(left)))),
                _ => {}
            }
        }
        (had.iter().map(|span| span.as_nanos() / 1_000_000).collect(), pauses)
    }

    #[test]
    fn shares_are_as_the_weights() {
        let (had, _) = run(&mut Eevdf::new(EevdfSpec::default(), 0, [0, 0].into_iter()));
        assert!(had.iter().all(|millis| millis.abs_diff(333) <= 8), "{had:?}");
        // 1024 to 335: three quarters.
        let (had, _) = run(&mut Eevdf::new(EevdfSpec::default(), 0, [5].into_iter()));
        assert!(had[0].abs_diff(753) <= 8, "{had:?}");
    }

    #[test]
    fn gaps_beside_an_equal_are_ticks() {
        let mut eevdf = Eevdf::new(EevdfSpec::default(), 0, std::iter::once(0));
        let (_, pauses) = run(&mut eevdf);
        assert!(pauses.len() > 100 && pauses.iter().all(|(_, gap)| *gap == Span::from_millis(4)), "{pauses:?}");
    }

    #[test]
    fn a_quota_throttles_at_a_time_that_is_foreseen() {
        let mut eevdf = Eevdf::new(quota(25, 100), 0, std::iter::empty());
        eevdf.wake(at(0), PROCESS);
        let foreseen = eevdf.foresee(at(10_000)).unwrap();
        assert_eq!(foreseen, Pause { start: at(25_000), length: Span::from_millis(75) });
        let (had, pauses) = run(&mut Eevdf::new(quota(25, 100), 0, std::iter::empty()));
        assert_eq!((had[0], pauses.len()), (250, 10));
        assert_eq!(pauses[0], (foreseen.start, foreseen.length));
        // A process that runs for a quarter of the time has enough.
        let mut eevdf = Eevdf::new(quota(25, 100), 0, std::iter::empty());
        for turn in 0..10 {
            eevdf.wake(at(4_000 * turn), PROCESS);
            if turn > 3 {
                assert_eq!(eevdf.foresee(at(4_000 * turn)), None, "{turn}");
            }
            eevdf.block(at(4_000 * turn + 900));
        }
        // A process that is not throttled before the period ends is not told so.
        let mut eevdf = Eevdf::new(quota(99, 100), 0, std::iter::empty());
        eevdf.wake(at(50_000), PROCESS);
        assert_eq!(eevdf.foresee(at(50_000)), None);
    }

    #[test]
    fn who_wakes_does_not_preempt_before_a_slice_is_over_and_keeps_its_lag() {
        let mut eevdf = Eevdf::new(EevdfSpec::default(), 0, std::iter::once(0));
        eevdf.wake(at(0), 1);
        eevdf.wake(at(1_000), PROCESS);
        assert_eq!(eevdf.running(), Some(1));
        assert_eq!(eevdf.due(), Some(at(4_000)));
        eevdf.pass(at(4_000));
        assert_eq!(eevdf.running(), Some(PROCESS));
        // It has had a millisecond less than its share, and is that far ahead of the other when it comes back.
        eevdf.block(at(5_000));
        let lag = eevdf.tasks[PROCESS].lag;
        eevdf.wake(at(6_000), PROCESS);
        assert!(lag > 0 && eevdf.tasks[PROCESS].vruntime < eevdf.tasks[1].vruntime, "{lag}");
    }

    #[test]
    fn foresee_the_turn_of_others() {
        let mut eevdf = Eevdf::new(EevdfSpec::default(), 0, [0, 0].into_iter());
        for task in [PROCESS, 1, 2] {
            eevdf.wake(at(0), task);
        }
        assert_eq!(eevdf.foresee(at(0)), Some(Pause { start: at(4_000), length: Span::from_millis(8) }));
        eevdf.pass(at(4_000));
        assert_ne!(eevdf.running(), Some(PROCESS));
    }
}
