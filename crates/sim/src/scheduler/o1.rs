//! The scheduler of Linux 2.6 before 2.6.23, as rbudp-plus-2006 section 4 describes it: a run queue with an active and
//! an expired array of priorities, time slices, and a bonus for tasks that sleep. Details that the paper leaves open
//! are as in Linux 2.6.16.
//!
//! Time and sleep are accounted exactly, not by ticks; only slices end at ticks. Two features are left out: the bonus
//! of a waiting task, and the turns of interactive tasks of one priority within their slices.

use std::collections::VecDeque;

use inhaul_base::{RandomStream, Span, Time};
use inhaul_transport::Pause;

use super::policy::{PROCESS, Policy, tick_after};
use super::spec::O1Spec;

/// Priorities, 0 the highest (section 3: "static priority for user processes ranges from 0 to 40").
const PRIORITIES: usize = 40;
/// The static priority of niceness 0.
const NICE_0: i32 = 20;
/// A bonus is from -5 to 5 (section 3).
const MAX_BONUS: u64 = 10;
const MAX_SLEEP_AVG: Span = Span::from_secs(1);
/// The slice of niceness 0, and the shortest.
const SLICE: Span = Span::from_millis(100);
const SLICE_MIN: Span = Span::from_millis(5);
/// A task is interactive whose bonus is at least this, at niceness 0.
const INTERACTIVE_DELTA: i32 = 2;
/// A task in the expired array for this long, times the number of runnable tasks, is starving.
const STARVATION_LIMIT: Span = MAX_SLEEP_AVG;

/// Queues by priority.
#[derive(Debug)]
struct Array {
    queues: [VecDeque<usize>; PRIORITIES],
    count: usize,
}

impl Array {
    fn new() -> Self {
        Self { queues: std::array::from_fn(|_| VecDeque::new()), count: 0 }
    }

    fn push_back(&mut self, priority: usize, task: usize) {
        self.queues[priority].push_back(task);
        self.count += 1;
    }

    /// In front of its equals: a task that has lost the processor before its slice was over.
    fn push_front(&mut self, priority: usize, task: usize) {
        self.queues[priority].push_front(task);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<usize> {
        let first = self.queues.iter_mut().find_map(VecDeque::pop_front)?;
        self.count -= 1;
        Some(first)
    }

    /// Tasks with their priorities, in the order in which they will run.
    fn tasks(&self) -> impl Iterator<Item = (usize, usize)> {
        self.queues.iter().enumerate().flat_map(|(priority, queue)| queue.iter().map(move |task| (priority, *task)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Entity {
    nice: i32,
    priority: usize,
    /// The rest of its slice.
    slice: Span,
    sleep_avg: Span,
    /// When it fell asleep; `None`: it has not run yet.
    slept: Option<Time>,
}

impl Entity {
    fn new(nice: i8, sleep_avg: Span) -> Self {
        let mut entity = Self { nice: i32::from(nice), priority: 0, slice: Span::ZERO, sleep_avg, slept: None };
        entity.slice = entity.whole_slice();
        entity.priority = entity.effective_priority();
        entity
    }

    fn static_priority(&self) -> i32 {
        NICE_0 + self.nice
    }

    /// Linux's task_timeslice: 100 ms at niceness 0, 5 ms at 19, 800 ms at -20.
    fn whole_slice(&self) -> Span {
        let slice = if self.nice < 0 { SLICE * 4 } else { SLICE };
        (slice * (PRIORITIES as i32 - self.static_priority()) as u64 / (PRIORITIES as u64 / 2)).max(SLICE_MIN)
    }

    /// The paper's CURRENT_BONUS: 0 to 10.
    fn current_bonus(&self) -> u64 {
        self.sleep_avg.as_nanos() * MAX_BONUS / MAX_SLEEP_AVG.as_nanos()
    }

    /// The paper's effective_prio(): static priority minus bonus.
    fn effective_priority(&self) -> usize {
        let bonus = self.current_bonus() as i32 - MAX_BONUS as i32 / 2;
        (self.static_priority() - bonus).clamp(0, PRIORITIES as i32 - 1) as usize
    }

    /// The bonus from which on it counts as interactive, which niceness shifts.
    fn delta(&self) -> i32 {
        self.nice * MAX_BONUS as i32 / PRIORITIES as i32 + INTERACTIVE_DELTA
    }

    fn is_interactive(&self, priority: usize) -> bool {
        priority as i32 <= self.static_priority() - self.delta()
    }

    /// It has run: the higher its bonus, the less that costs.
    fn run(&mut self, ran: Span) {
        let cost = ran.min(MAX_SLEEP_AVG) / self.current_bonus().max(1);
        self.sleep_avg = self.sleep_avg.saturating_sub(cost);
        self.slice = self.slice.saturating_sub(ran);
    }

    /// It has slept: the lower its bonus, the more it gains. A task that sleeps very long is idle rather than
    /// interactive.
    fn wake(&mut self, slept: Span) {
        let idle = MAX_SLEEP_AVG * (MAX_BONUS as i32 / 2 + self.delta() + 1).clamp(0, 10) as u64 / MAX_BONUS;
        self.sleep_avg = if slept > idle {
            MAX_SLEEP_AVG.saturating_sub(SLICE)
        } else {
            let weight = (MAX_BONUS - self.current_bonus()).max(1);
            (self.sleep_avg + slept * weight).min(MAX_SLEEP_AVG)
        };
        self.priority = self.effective_priority();
    }
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct O1 {
    spec: O1Spec,
    tasks: Vec<Entity>,
    active: Array,
    expired: Array,
    running: Option<usize>,
    /// Up to when the running task is accounted for.
    since: Time,
    /// Since when the expired array has tasks.
    expired_since: Option<Time>,
}

impl O1 {
    /// With the process of niceness `nice`, and `others`: their niceness, and whether they ever sleep. All are asleep.
    pub(super) fn new(spec: O1Spec, nice: i8, others: &[(i8, bool)], random: &mut RandomStream) -> Self {
        // Section 3: the process starts as I/O-bound, with a very high priority.
        let mut tasks = vec![Entity::new(nice, MAX_SLEEP_AVG)];
        for &(nice, sleeps) in others {
            let mut entity = Entity::new(nice, if sleeps { MAX_SLEEP_AVG } else { Span::ZERO });
            // A task that never sleeps has been running for long, and is anywhere in its slice.
            if !sleeps {
                entity.slice = entity.slice.saturating_sub(random.span_below(entity.slice));
            }
            tasks.push(entity);
        }
        let (active, expired) = (Array::new(), Array::new());
        Self { spec, tasks, active, expired, running: None, since: Time::ZERO, expired_since: None }
    }

    fn account(&mut self, now: Time) {
        if let Some(running) = self.running {
            self.tasks[running].run(now.since(self.since));
        }
        self.since = now;
    }

    /// When the slice of the running task ends.
    fn slice_end(&self) -> Option<Time> {
        self.running.map(|running| tick_after(self.since + self.tasks[running].slice, self.spec.tick))
    }

    /// Whether tasks in the expired array wait for too long; then no task returns to the active one.
    fn is_starving(&self, now: Time) -> bool {
        let runnable = (self.active.count + self.expired.count + 1) as u64;
        self.expired_since.is_some_and(|since| now.since(since) >= STARVATION_LIMIT * runnable)
    }

    /// The running task's slice is over: it gets another, and goes to the active array if it is interactive, else to
    /// the expired one.
    fn end_slice(&mut self, now: Time, task: usize) {
        let starving = self.is_starving(now);
        let entity = &mut self.tasks[task];
        entity.slice = entity.whole_slice();
        entity.priority = entity.effective_priority();
        if entity.is_interactive(entity.priority) && !starving {
            self.active.push_back(entity.priority, task);
        } else {
            self.expired_since.get_or_insert(now);
            self.expired.push_back(entity.priority, task);
        }
        self.running = None;
        self.pick();
    }

    fn pick(&mut self) {
        if self.active.count == 0 {
            std::mem::swap(&mut self.active, &mut self.expired);
            self.expired_since = None;
        }
        self.running = self.active.pop();
    }
}

impl Policy for O1 {
    fn running(&self) -> Option<usize> {
        self.running
    }

    fn pass(&mut self, now: Time) {
        let is_over = self.slice_end().is_some_and(|end| end <= now);
        self.account(now);
        if let Some(running) = self.running.filter(|_| is_over) {
            self.end_slice(now, running);
        }
    }

    fn due(&self) -> Option<Time> {
        self.slice_end()
    }

    fn wake(&mut self, now: Time, task: usize) {
        self.account(now);
        if let Some(slept) = self.tasks[task].slept {
            self.tasks[task].wake(now.since(slept));
        }
        let priority = self.tasks[task].priority;
        match self.running {
            None => {
                self.active.push_back(priority, task);
                self.pick();
            }
            Some(running) if priority < self.tasks[running].priority => {
                self.active.push_front(self.tasks[running].priority, running);
                self.running = Some(task);
            }
            Some(_) => self.active.push_back(priority, task),
        }
    }

    fn block(&mut self, now: Time) {
        self.account(now);
        if let Some(running) = self.running {
            self.tasks[running].slept = Some(now);
            self.pick();
        }
    }

    /// Figure 3, where the process will be in the active array again after its slice; else as for Figure 4.
    fn foresee(&self, now: Time) -> Option<Pause> {
        let mut process = self.tasks[PROCESS];
        process.run(now.since(self.since));
        let start = tick_after(now + process.slice, self.spec.tick);
        let last_priority = process.priority + usize::from(self.spec.delta);
        process.run(process.slice);
        let priority = process.effective_priority();
        let slice = |task: usize| self.tasks[task].slice;
        let slices: Vec<Span> = if process.is_interactive(priority) && !self.is_starving(start) {
            // Figure 3: the slices of tasks that may come first, and whose sleep is negligible compared with their
            // slice: "T_i >> avg_sleep_time_i".
            let is_negligible = |task: usize| self.tasks[task].sleep_avg.mul_f64(self.spec.much) < slice(task);
            let before = |(priority, task): &(usize, usize)| *priority <= last_priority && is_negligible(*task);
            self.active.tasks().filter(before).map(|(_, task)| slice(task)).collect()
        } else {
            // Figure 4: all in the active array, and those ahead of it in the expired one.
            let ahead = self.expired.tasks().filter(|(other, _)| *other <= priority);
            self.active.tasks().chain(ahead).map(|(_, task)| slice(task)).collect()
        };
        let length = slices.into_iter().fold(Span::ZERO, |sum, slice| sum + slice).max(self.spec.pause_min);
        (length > Span::ZERO).then_some(Pause { start, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn o1(others: &[(i8, bool)]) -> O1 {
        O1::new(O1Spec::default(), 0, others, &mut RandomStream::new(1, 1))
    }

    /// The running task and its start, up to a time.
    fn history(o1: &mut O1, end: Time) -> Vec<(u64, usize)> {
        let mut seen = Vec::new();
        while let Some(due) = o1.due().filter(|due| *due <= end) {
            o1.pass(due);
            if let Some(running) = o1.running() {
                seen.push((due.as_nanos() / 1_000_000, running));
            }
        }
        seen
    }

    #[test]
    fn slices_and_priorities_are_those_of_linux_2_6() {
        let slices = [(-20, 800), (-10, 600), (-1, 420), (0, 100), (10, 50), (19, 5)];
        for (nice, millis) in slices {
            assert_eq!(Entity::new(nice, Span::ZERO).slice, Span::from_millis(millis), "{nice}");
        }
        // Section 4: prio = static_prio - (CURRENT_BONUS - MAX_BONUS / 2).
        for (sleep_avg, priority) in [(0, 25), (99, 25), (100, 24), (500, 20), (999, 16), (1_000, 15)] {
            assert_eq!(Entity::new(0, Span::from_millis(sleep_avg)).priority, priority, "{sleep_avg}");
        }
        assert_eq!((Entity::new(-20, MAX_SLEEP_AVG).priority, Entity::new(19, Span::ZERO).priority), (0, 39));
        // Niceness -20 is interactive even with the worst bonus but two, 19 never.
        let interactive = |nice| {
            (0..=10).find(|tenths| {
                let entity = Entity::new(nice, Span::from_millis(100 * tenths));
                entity.is_interactive(entity.priority)
            })
        };
        assert_eq!([-20, -10, 0, 10, 19].map(interactive), [Some(2), Some(5), Some(7), Some(9), None]);
    }

    #[test]
    fn a_process_that_never_sleeps_falls_to_the_level_of_its_competitors() {
        let mut o1 = o1(&[(0, false), (0, false)]);
        for task in [1, 2, PROCESS] {
            o1.wake(at(0), task);
        }
        assert_eq!(o1.running(), Some(PROCESS), "its bonus is 5, theirs -5");
        let seen = history(&mut o1, at(20_000));
        let first_other = seen.iter().find(|(_, task)| *task != PROCESS).map(|(since, _)| *since);
        // Its bonus stays above 2 while sleep_avg does not fall below 700 ms: 100 ms at 10, then 1/10, 1/9, 1/8 and 1/7
        // of its run time. That is 2.5 s.
        assert!(first_other.is_some_and(|since| (2_200..=2_700).contains(&since)), "{first_other:?}");
        // From then on they take turns.
        let late: Vec<_> = seen.iter().filter(|(since, _)| *since > 12_000).collect();
        assert!(
            late.windows(3).all(|turn| [0, 1, 2].iter().all(|task| turn.iter().any(|(_, t)| t == task))),
            "{late:?}"
        );
        assert!(late.windows(2).all(|turn| turn[1].0 - turn[0].0 == 100), "{late:?}");
    }

    #[test]
    fn who_sleeps_gets_a_bonus_and_preempts() {
        let mut o1 = o1(&[(0, false)]);
        o1.tasks[PROCESS].sleep_avg = Span::ZERO;
        o1.wake(at(1), PROCESS);
        o1.wake(at(1), 1);
        assert_eq!(o1.running(), Some(PROCESS));
        // Ten times its sleep, at the lowest bonus.
        o1.block(at(2));
        o1.wake(at(62), PROCESS);
        assert_eq!((o1.tasks[PROCESS].sleep_avg, o1.running()), (Span::from_millis(600), Some(PROCESS)));
        // A task that slept for longer than 0.8 s is idle.
        o1.block(at(62));
        o1.wake(at(1_000), PROCESS);
        assert_eq!(o1.tasks[PROCESS].sleep_avg, Span::from_millis(900));
    }

    #[test]
    fn no_task_starves_in_the_expired_array() {
        let mut o1 = o1(&[(0, false)]);
        o1.wake(at(0), 1);
        let mut now = at(0);
        // A process that is woken again as soon as it sleeps, for a third of the time, stays interactive.
        let mut ran = 0;
        for _ in 0..10_000 {
            now += Span::from_millis(1);
            o1.wake(now, PROCESS);
            let until = now + Span::from_micros(500);
            while let Some(due) = o1.due().filter(|due| *due <= until) {
                o1.pass(due);
            }
            o1.pass(until);
            if o1.running() == Some(PROCESS) {
                ran += 1;
                o1.block(until);
            } else {
                // It waits; the other's slice ends some time.
                while o1.running() != Some(PROCESS) {
                    let due = o1.due().unwrap();
                    now = due;
                    o1.pass(due);
                }
                o1.block(now);
            }
        }
        assert!(ran > 9_900, "{ran}: it preempts nearly always");
    }

    #[test]
    fn foresee_is_what_then_happens_when_all_use_their_slices() {
        let mut o1 = o1(&[(0, false), (0, false), (0, false)]);
        o1.tasks[PROCESS].sleep_avg = Span::ZERO;
        o1.tasks[PROCESS].priority = 25;
        for task in [1, PROCESS, 2, 3] {
            o1.wake(at(0), task);
        }
        let mut right = 0;
        let mut paused: Option<(Pause, Time)> = None;
        let mut now = at(0);
        while now < at(5_000) {
            let before = o1.running();
            now = o1.due().unwrap();
            if before == Some(PROCESS) {
                let foreseen = o1.foresee(o1.since).unwrap();
                assert_eq!(foreseen.start, now);
                paused = Some((foreseen, now));
            }
            o1.pass(now);
            if o1.running() == Some(PROCESS)
                && let Some((foreseen, since)) = paused
            {
                let error = now.since(since).as_millis_f64() - foreseen.length.as_millis_f64();
                // Up to a tick for each of them.
                assert!(error.abs() <= 3.0, "{error}");
                right += 1;
            }
        }
        assert!(right >= 10, "{right}");
    }

    #[test]
    fn foresee_counts_only_those_whose_slice_is_much_greater_than_their_sleep() {
        let foreseen = |sleep: u64, much: f64, pause_min: Span| {
            let spec = O1Spec { much, pause_min, delta: 10, ..O1Spec::default() };
            let mut o1 = O1::new(spec, 0, &[(0, true)], &mut RandomStream::new(1, 1));
            (o1.tasks[1].sleep_avg, o1.tasks[1].priority) = (Span::from_millis(sleep), 25);
            o1.wake(at(0), PROCESS);
            o1.wake(at(0), 1);
            o1.foresee(at(0)).map(|pause| pause.length)
        };
        let slice = Some(SLICE);
        assert_eq!([0, 9, 10, 50].map(|sleep| foreseen(sleep, 10.0, Span::ZERO)), [slice, slice, None, None]);
        assert_eq!([50, 100].map(|sleep| foreseen(sleep, 1.0, Span::ZERO)), [slice, None]);
        assert_eq!(foreseen(100, 10.0, Span::from_millis(4)), Some(Span::from_millis(4)), "at least this much");
    }

    #[test]
    fn foresee_sees_nothing_without_competitors_or_with_much_lower_priority_only() {
        let mut alone = o1(&[(0, false)]);
        alone.wake(at(0), PROCESS);
        assert_eq!(alone.foresee(at(10)), None);
        alone.wake(at(10), 1);
        assert_eq!(alone.foresee(at(10)), None, "25 is beyond 15 and delta, and the process stays active");
        let mut wide =
            O1::new(O1Spec { delta: 10, ..O1Spec::default() }, 0, &[(0, false)], &mut RandomStream::new(1, 1));
        wide.wake(at(0), PROCESS);
        wide.wake(at(0), 1);
        let slice = wide.tasks[1].slice;
        assert_eq!(wide.foresee(at(40)), Some(Pause { start: at(100), length: slice }));
    }
}
