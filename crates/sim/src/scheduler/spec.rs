//! Schedulers and their tasks, as plain data.

use inhaul_base::{Span, Time};

use crate::spell::Spell;

/// Most tasks of a scheduler, beside the process of the endpoints.
pub const TASKS_MAX: usize = 1_000;
/// A task's longest spell of work or sleep, a quota's longest period, and the longest slice.
const SPELL_MAX: Span = Span::from_secs(3_600);
/// The shortest.
const SPELL_MIN: Span = Span::from_micros(1);

/// The scheduler of a host's processor.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerSpec {
    /// Which one.
    pub kind: SchedulerKind,
    /// Niceness of the process of the endpoints, -20 to 19.
    pub nice: i8,
    /// Processor time that each packet's interrupt takes from whichever task runs, also of a packet that finds the ring
    /// full.
    pub interrupt: Span,
    /// What else wants the processor.
    pub tasks: Vec<Task>,
}

/// Which scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SchedulerKind {
    /// That of Linux 2.6 before 2.6.23 (rbudp-plus-2006 section 4).
    O1(O1Spec),
    /// Earliest eligible virtual deadline first: that of Linux since 6.6.
    Eevdf(EevdfSpec),
}

/// What can be chosen of the scheduler of Linux 2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct O1Spec {
    /// Slices end at multiples of this.
    pub tick: Span,
    /// By how much the process's priority will get worse at most when its slice ends, as Figure 3 assumes (delta). The
    /// paper does not say how much.
    pub delta: u8,
}

impl Default for O1Spec {
    fn default() -> Self {
        // HZ was 1000. A bonus is from -5 to 5.
        Self { tick: Span::from_millis(1), delta: 5 }
    }
}

/// What can be chosen of EEVDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EevdfSpec {
    /// What a task asks for at a time.
    pub base_slice: Span,
    /// Slices end at multiples of this.
    pub tick: Span,
    /// What the process of the endpoints may have of the processor: cpu.max of its control group.
    pub quota: Option<Quota>,
}

impl Default for EevdfSpec {
    fn default() -> Self {
        // HZ is 250. The slice is that of 8 processors.
        Self { base_slice: Span::from_micros(2_800), tick: Span::from_millis(4), quota: None }
    }
}

/// So much processor time in each period; a group that has used it up waits for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Processor time.
    pub quota: Span,
    /// Length of the periods, which follow each other from time zero on.
    pub period: Span,
}

/// A task that competes with the endpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Its niceness, -20 to 19.
    pub nice: i8,
    /// Processor time that it wants until it sleeps; `None`: it never sleeps (CPU-bound).
    pub runs: Option<Spell>,
    /// How long it sleeps then.
    pub sleeps: Spell,
    /// How much longer a packet takes while this task is runnable, as a part of what it takes alone: a memory-bound
    /// task empties the caches and fills the memory's bus. The parts of several tasks add up.
    pub memory: f64,
    /// When it is there first.
    pub start: Time,
}

impl Default for Task {
    fn default() -> Self {
        Self { nice: 0, runs: None, sleeps: Spell::Fixed(Span::ZERO), memory: 0.0, start: Time::ZERO }
    }
}

impl SchedulerSpec {
    /// Looks at the numbers.
    ///
    /// # Errors
    /// What is wrong with them, if anything.
    pub fn check(&self) -> Result<(), &'static str> {
        let nice = |nice: i8| (-20..=19).contains(&nice);
        let spell = |span: Span| (SPELL_MIN..=SPELL_MAX).contains(&span);
        if !nice(self.nice) || !self.tasks.iter().all(|task| nice(task.nice)) {
            return Err("niceness is from -20 to 19");
        }
        if self.tasks.len() > TASKS_MAX {
            return Err("a scheduler has at most 1000 tasks");
        }
        if self.interrupt > Span::from_millis(1) {
            return Err("a packet's interrupt takes at most a millisecond");
        }
        if self.tasks.iter().any(|task| !(0.0..=1_000.0).contains(&task.memory)) {
            return Err("memory is from 0 to 1000");
        }
        let sleeper_is_bad = |task: &Task| {
            task.runs.is_some_and(|runs| !spell(runs.mean()) || !spell(task.sleeps.mean()))
                || task.start > Time::ZERO + SPELL_MAX
        };
        if self.tasks.iter().any(sleeper_is_bad) {
            return Err("a task runs and sleeps for a microsecond to an hour each, and starts within an hour");
        }
        let (tick, slice) = match self.kind {
            SchedulerKind::O1(o1) => (o1.tick, o1.tick),
            SchedulerKind::Eevdf(eevdf) => (eevdf.tick, eevdf.base_slice),
        };
        if !spell(tick) || !spell(slice) {
            return Err("tick and base_slice are from a microsecond to an hour");
        }
        if let SchedulerKind::Eevdf(EevdfSpec { quota: Some(quota), .. }) = self.kind
            && (!spell(quota.quota) || !spell(quota.period) || quota.quota > quota.period)
        {
            return Err("quota and period are from a microsecond to an hour, and quota is at most period");
        }
        Ok(())
    }
}
