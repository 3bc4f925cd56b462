//! Makes the simulator's schedulers from those of a file.

use inhaul_base::{Span, Time};
use inhaul_sim::{
    EevdfSpec, InterruptSpec, Monitor, O1Spec, Quota, SchedulerKind, SchedulerSpec, Spell, TASKS_MAX, Task,
};

use super::file::{InterruptsFile, MonitorName, ScheduledTaskFile, SchedulerFile, SchedulerName};

/// The scheduler of the file. Values that it leaves out are the simulator's defaults.
///
/// # Errors
/// The fault, in words. Numbers are not checked.
pub(crate) fn build(file: &SchedulerFile) -> Result<SchedulerSpec, String> {
    let kind = match file.kind {
        SchedulerName::O1 => {
            if file.base_slice.or(file.quota).or(file.period).is_some() {
                return Err("`base_slice`, `quota` and `period` are of `kind = \"eevdf\"`".to_owned());
            }
            let default = O1Spec::default();
            SchedulerKind::O1(O1Spec {
                tick: file.tick.map_or(default.tick, |tick| tick.0),
                delta: file.delta.unwrap_or(default.delta),
                much: file.much.unwrap_or(default.much),
                pause_min: file.pause_min.map_or(default.pause_min, |pause| pause.0),
            })
        }
        SchedulerName::Eevdf => {
            if file.delta.is_some() || file.much.is_some() || file.pause_min.is_some() {
                return Err("`delta`, `much` and `pause_min` are of `kind = \"o1\"`".to_owned());
            }
            let default = EevdfSpec::default();
            let quota = match (file.quota, file.period) {
                (None, Some(_)) => return Err("a `period` needs a `quota`".to_owned()),
                // The period that cpu.max has where none is written.
                (quota, period) => quota.map(|quota| Quota {
                    quota: quota.0,
                    period: period.map_or(Span::from_millis(100), |period| period.0),
                }),
            };
            SchedulerKind::Eevdf(EevdfSpec {
                base_slice: file.base_slice.map_or(default.base_slice, |slice| slice.0),
                tick: file.tick.map_or(default.tick, |tick| tick.0),
                quota,
            })
        }
    };
    let mut tasks = Vec::new();
    for task in &file.tasks {
        let built = build_task(task)?;
        if tasks.len() + usize::from(task.count) > TASKS_MAX {
            return Err(format!("a scheduler has at most {TASKS_MAX} tasks"));
        }
        tasks.extend((0..task.count).map(|_| built));
    }
    let monitor = match file.monitor {
        MonitorName::On => Monitor::On,
        MonitorName::Auto => Monitor::Auto,
    };
    Ok(SchedulerSpec { kind, nice: file.nice, interrupts: build_interrupts(file)?, monitor, tasks })
}

fn build_interrupts(file: &SchedulerFile) -> Result<InterruptSpec, String> {
    let InterruptsFile { full, each, coalesce, memory, descriptors, budget, elsewhere } = file.interrupts;
    // `interrupt` is the cost of a packet, `each` that of an interrupt: without them the others have no effect.
    if file.interrupt.is_none() && (full.is_some() || descriptors.is_some() || budget.is_some()) {
        return Err(
            "`interrupts.full`, `interrupts.descriptors` and `interrupts.budget` need an `interrupt`".to_owned()
        );
    }
    if file.interrupt.is_none() && each.is_none() && (memory != 0.0 || elsewhere) {
        return Err(
            "`interrupts.memory` and `interrupts.elsewhere` need an `interrupt` or `interrupts.each`".to_owned()
        );
    }
    Ok(InterruptSpec {
        packet: file.interrupt.unwrap_or_default().0,
        full: full.map(|full| full.0),
        each: each.unwrap_or_default().0,
        coalesce: coalesce.unwrap_or_default().0,
        memory,
        descriptors,
        budget,
        elsewhere,
    })
}

fn build_task(file: &ScheduledTaskFile) -> Result<Task, String> {
    let spell = |span| if file.random { Spell::Exponential(span) } else { Spell::Fixed(span) };
    let (runs, sleeps) = match (file.runs, file.sleeps) {
        (None, None) if file.random => {
            return Err("a task with `random = true` has `runs` and `sleeps`, which are drawn".to_owned());
        }
        (None, None) => (None, Span::ZERO),
        (Some(runs), Some(sleeps)) => (Some(spell(runs.0)), sleeps.0),
        _ => return Err("a task has both `runs` and `sleeps`, or neither: then it never sleeps".to_owned()),
    };
    let start = Time::ZERO + file.start.unwrap_or_default().0;
    let paging = file.paging.unwrap_or_default().0;
    Ok(Task { nice: file.nice, runs, sleeps: spell(sleeps), memory: file.memory, paging, start })
}
