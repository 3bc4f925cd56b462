//! Schedulers and their tasks, as plain data.

use inhaul_base::{Span, Time};

use crate::interrupts::InterruptSpec;
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
    /// What packets cost the kernel.
    pub interrupts: InterruptSpec,
    /// Whether the endpoints are told of all foreseen pauses, or only of those in which holding pays.
    pub monitor: Monitor,
    /// Competing tasks.
    pub tasks: Vec<Task>,
}

/// Which foreseen pauses a host reports to its endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Monitor {
    /// All.
    #[default]
    On,
    /// Those in which more would come in than the ring is sure to take: the choice between RBUDP and RBUDP+ that
    /// rbudp-plus-2006 leaves open (section 6, discussion), by the same rule as in the engine.
    Auto,
}

/// Which scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SchedulerKind {
    /// That of Linux 2.6 before 2.6.23 (rbudp-plus-2006 section 4).
    O1(O1Spec),
    /// Earliest eligible virtual deadline first: that of Linux since 6.6.
    Eevdf(EevdfSpec),
}

/// Parameters of the scheduler of Linux 2.6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct O1Spec {
    /// Slices end at multiples of this.
    pub tick: Span,
    /// By how much the process's priority will get worse at most when its slice ends, as Figure 3 assumes (delta). The
    /// paper does not say how much.
    pub delta: u8,
    /// Predictions count a task only if its slice is this many times its average sleep. Figure 3's condition is "T_i >>
    /// avg_sleep_time_i"; the paper does not define "much greater".
    pub much: f64,
    /// The shortest pause that is foreseen, at the end of every slice of the process, also where nothing competes. Zero:
    /// none is where nothing does.
    pub pause_min: Span,
}

impl Default for O1Spec {
    fn default() -> Self {
        // HZ was 1000. A bonus is from -5 to 5. Much greater is an order of magnitude.
        Self { tick: Span::from_millis(1), delta: 5, much: 10.0, pause_min: Span::ZERO }
    }
}

/// Parameters of EEVDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EevdfSpec {
    /// The length of a task's request.
    pub base_slice: Span,
    /// Slices end at multiples of this.
    pub tick: Span,
    /// The processor quota of the endpoints' process: cpu.max of its control group.
    pub quota: Option<Quota>,
}

impl Default for EevdfSpec {
    fn default() -> Self {
        // HZ is 250. The slice is that of 8 processors.
        Self { base_slice: Span::from_micros(2_800), tick: Span::from_millis(4), quota: None }
    }
}

/// Processor time in each period; a group that has used it up waits for the next.
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
    /// How much longer a packet takes while this task is runnable, as a part of its time without other tasks: a
    /// memory-bound task empties the caches and fills the memory's bus. The parts of several tasks add up.
    pub memory: f64,
    /// How long each packet has the process wait for memory while this task is runnable: where both do not fit, pages
    /// are fetched from a disk. The waits for several tasks add up. The processor is free meanwhile.
    pub paging: Span,
    /// When it is there first.
    pub start: Time,
}

impl Default for Task {
    fn default() -> Self {
        Self {
            nice: 0,
            runs: None,
            sleeps: Spell::Fixed(Span::ZERO),
            memory: 0.0,
            paging: Span::ZERO,
            start: Time::ZERO,
        }
    }
}

impl SchedulerSpec {
    /// How often the timer interrupts.
    pub(crate) fn tick(&self) -> Span {
        match self.kind {
            SchedulerKind::O1(o1) => o1.tick,
            SchedulerKind::Eevdf(eevdf) => eevdf.tick,
        }
    }

    /// Looks at the numbers.
    ///
    /// # Errors
    /// Their fault, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        let nice = |nice: i8| (-20..=19).contains(&nice);
        let spell = |span: Span| (SPELL_MIN..=SPELL_MAX).contains(&span);
        if !nice(self.nice) || !self.tasks.iter().all(|task| nice(task.nice)) {
            return Err("niceness is from -20 to 19");
        }
        if self.tasks.len() > TASKS_MAX {
            return Err("a scheduler has at most 1000 tasks");
        }
        self.interrupts.check()?;
        if self.tasks.iter().any(|task| !(0.0..=1_000.0).contains(&task.memory)) {
            return Err("a task's memory is from 0 to 1000");
        }
        if self.tasks.iter().any(|task| task.paging > Span::from_secs(1)) {
            return Err("paging is at most a second");
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
        if let SchedulerKind::O1(o1) = self.kind
            && (!(0.0..=1e6).contains(&o1.much) || o1.pause_min > SPELL_MAX)
        {
            return Err("much is from 0 to 1000000, and pause_min at most an hour");
        }
        if let SchedulerKind::Eevdf(EevdfSpec { quota: Some(quota), .. }) = self.kind
            && (!spell(quota.quota) || !spell(quota.period) || quota.quota > quota.period)
        {
            return Err("quota and period are from a microsecond to an hour, and quota is at most period");
        }
        Ok(())
    }
}
