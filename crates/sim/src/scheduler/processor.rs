//! A processor with its tasks: they work and sleep, and the scheduler says which of them runs.

use inhaul_base::{RandomStream, Span, Time};
use inhaul_transport::Pause;

use super::eevdf::Eevdf;
use super::o1::O1;
use super::policy::{PROCESS, Policy};
use super::spec::{SchedulerKind, SchedulerSpec, Task};

/// A foreseen pause that differs from the one before by less than this is the same.
const SAME: Span = Span::from_millis(1);

/// A task other than the process.
#[derive(Debug)]
struct Competitor {
    task: Task,
    /// When it wakes up; `None`: it is awake.
    wakes: Option<Time>,
    /// Processor time that it wants until it sleeps; `None`: any.
    left: Option<Span>,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Processor {
    policy: Box<dyn Policy>,
    /// Task k + 1 of the policy is number k here.
    competitors: Vec<Competitor>,
    random: RandomStream,
    now: Time,
    /// The process has something to do.
    is_awake: bool,
    /// The process has got the processor since its last prediction.
    has_begun: bool,
    told: Option<Pause>,
}

impl Processor {
    pub(crate) fn new(spec: &SchedulerSpec, mut random: RandomStream) -> Self {
        let others: Vec<(i8, bool)> = spec.tasks.iter().map(|task| (task.nice, task.runs.is_some())).collect();
        let policy: Box<dyn Policy> = match spec.kind {
            SchedulerKind::O1(o1) => Box::new(O1::new(o1, spec.nice, &others, &mut random)),
            SchedulerKind::Eevdf(eevdf) => Box::new(Eevdf::new(eevdf, spec.nice, others.iter().map(|(nice, _)| *nice))),
        };
        let competitor = |task: &Task| Competitor { task: *task, wakes: Some(task.start), left: None };
        Self {
            policy,
            competitors: spec.tasks.iter().map(competitor).collect(),
            random,
            now: Time::ZERO,
            is_awake: false,
            has_begun: false,
            told: None,
        }
    }

    /// Whether the process has the processor.
    pub(crate) fn runs(&self) -> bool {
        self.policy.running() == Some(PROCESS)
    }

    /// Whether the process has something to do, whether or not it runs.
    pub(crate) fn is_awake(&self) -> bool {
        self.is_awake
    }

    /// The part of its speed that the process has beside the awake tasks.
    pub(crate) fn speed(&self) -> f64 {
        let awake = self.competitors.iter().filter(|competitor| competitor.wakes.is_none());
        1.0 / (1.0 + awake.map(|competitor| competitor.task.memory).sum::<f64>())
    }

    /// How long the process waits for memory for each packet, beside the awake tasks.
    pub(crate) fn paging(&self) -> Span {
        let awake = self.competitors.iter().filter(|competitor| competitor.wakes.is_none());
        awake.fold(Span::ZERO, |sum, competitor| sum + competitor.task.paging)
    }

    /// The time of the next change without an event.
    pub(crate) fn due(&self) -> Option<Time> {
        let wakes = self.competitors.iter().filter_map(|competitor| competitor.wakes);
        wakes.chain(self.policy.due()).chain(self.work_ends()).min()
    }

    /// Lets time pass up to `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(due) = self.due().filter(|due| *due <= now) {
            self.step(due.max(self.now));
        }
        self.work(now);
        self.policy.pass(now);
    }

    /// The process has something to do.
    pub(crate) fn wake(&mut self, now: Time) {
        self.advance(now);
        if !std::mem::replace(&mut self.is_awake, true) {
            self.policy.wake(now, PROCESS);
            self.note();
        }
    }

    /// The process, which runs, has nothing to do.
    pub(crate) fn fall_asleep(&mut self, now: Time) {
        self.advance(now);
        if self.runs() && std::mem::replace(&mut self.is_awake, false) {
            self.policy.block(now);
        }
    }

    /// The prediction of the process, which has got the processor, if it is new (rbudp-plus-2006 Figure 3: "the
    /// notification is sent at the time instant t, the I/O task is scheduled").
    pub(crate) fn news(&mut self) -> Option<Pause> {
        if !std::mem::take(&mut self.has_begun) || !self.runs() {
            return None;
        }
        let foreseen = self.policy.foresee(self.now)?;
        let near = |a: Time, b: Time| a.since(b).max(b.since(a)) < SAME;
        let same = |told: Pause| {
            near(told.start, foreseen.start) && near(told.start + told.length, foreseen.start + foreseen.length)
        };
        if self.told.is_some_and(same) {
            return None;
        }
        self.told = Some(foreseen);
        Some(foreseen)
    }

    fn note(&mut self) {
        self.has_begun |= self.runs();
    }

    fn running(&mut self) -> Option<&mut Competitor> {
        let number = self.policy.running()?.checked_sub(1)?;
        self.competitors.get_mut(number)
    }

    /// When the running competitor has finished its work.
    fn work_ends(&self) -> Option<Time> {
        let number = self.policy.running()?.checked_sub(1)?;
        self.competitors[number].left.map(|left| self.now + left)
    }

    /// The running competitor works up to `now`.
    fn work(&mut self, now: Time) {
        let worked = now.since(self.now);
        self.now = now;
        if let Some(left) = self.running().and_then(|competitor| competitor.left.as_mut()) {
            *left = left.saturating_sub(worked);
        }
    }

    /// Does the events due at `now`.
    fn step(&mut self, now: Time) {
        self.work(now);
        let mut random = std::mem::replace(&mut self.random, RandomStream::new(0, 0));
        let done = self.running().filter(|competitor| competitor.left == Some(Span::ZERO));
        if let Some(competitor) = done {
            competitor.wakes = Some(now + competitor.task.sleeps.draw(&mut random));
            self.policy.block(now);
        } else {
            self.policy.pass(now);
        }
        for (number, competitor) in self.competitors.iter_mut().enumerate() {
            if competitor.wakes.is_some_and(|wakes| wakes <= now) {
                competitor.wakes = None;
                // A spell that is drawn as nothing would end before it begins.
                let draw = |runs: crate::Spell| runs.draw(&mut random).max(Span::from_nanos(1));
                competitor.left = competitor.task.runs.map(draw);
                self.policy.wake(now, number + 1);
            }
        }
        self.random = random;
        self.note();
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{EevdfSpec, Monitor, O1Spec};
    use super::*;
    use crate::InterruptSpec;
    use crate::Spell;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn processor(kind: SchedulerKind, tasks: Vec<Task>) -> Processor {
        let spec = SchedulerSpec { kind, nice: 0, interrupts: InterruptSpec::default(), monitor: Monitor::On, tasks };
        assert_eq!(spec.check(), Ok(()));
        Processor::new(&spec, RandomStream::new(7, 7))
    }

    /// The process's time in ten seconds in which it never sleeps, in milliseconds.
    fn had(processor: &mut Processor) -> u64 {
        processor.wake(at(0));
        let (mut had, mut now) = (Span::ZERO, at(0));
        while now < at(10_000) {
            let next = processor.due().unwrap_or(at(10_000)).min(at(10_000));
            if processor.runs() {
                had = had + next.since(now);
            }
            now = next;
            processor.advance(now);
        }
        had.as_nanos() / 1_000_000
    }

    #[test]
    fn a_process_alone_has_everything() {
        for kind in [SchedulerKind::O1(O1Spec::default()), SchedulerKind::Eevdf(EevdfSpec::default())] {
            assert_eq!(had(&mut processor(kind, Vec::new())), 10_000);
        }
    }

    #[test]
    fn a_task_that_sleeps_takes_what_it_works() {
        let (runs, sleeps) = (Spell::Fixed(Span::from_millis(2)), Spell::Fixed(Span::from_millis(18)));
        let sleeper = Task { runs: Some(runs), sleeps, ..Task::default() };
        // It preempts: the process's bonus is gone after some seconds.
        let had = had(&mut processor(SchedulerKind::O1(O1Spec::default()), vec![sleeper]));
        assert!((8_980..9_400).contains(&had), "{had}");
    }

    #[test]
    fn speed_suffers_from_those_that_are_awake() {
        let hog = Task { memory: 1.5, start: at(5), ..Task::default() };
        let mut processor = processor(SchedulerKind::O1(O1Spec::default()), vec![hog; 2]);
        processor.advance(at(1));
        assert_eq!(processor.speed(), 1.0);
        processor.advance(at(5));
        assert_eq!(processor.speed(), 0.25);
    }

    #[test]
    fn news_come_once_for_each_time_on_the_processor() {
        let mut processor = processor(SchedulerKind::Eevdf(EevdfSpec::default()), vec![Task::default()]);
        processor.wake(at(0));
        let (mut now, mut told) = (at(0), Vec::new());
        while now < at(100) {
            now = processor.due().unwrap();
            processor.advance(now);
            told.extend(processor.news());
            assert_eq!(processor.news(), None);
        }
        assert!((11..=14).contains(&told.len()), "{told:?}");
        assert!(told.windows(2).all(|pair| pair[0].start + pair[0].length <= pair[1].start), "{told:?}");
    }
}
