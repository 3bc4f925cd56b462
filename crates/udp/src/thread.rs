//! The calling thread: its processors, the precision of its sleep, its cost.

use std::io;
use std::num::NonZeroU64;

use inhaul_base::Span;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use crate::clock::nanos;

/// Keeps the thread on one processor.
///
/// When the processor does not exist, or the thread may not run there.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    pin_to_cpus(&[cpu])
}

/// Keeps the thread, and processes that it starts later, on these processors.
///
/// When one does not exist, or the thread may run on none of them.
pub fn pin_to_cpus(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no processor {cpu}")));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The thread wakes at the requested time. By default the kernel wakes it up to 50 us later, to save power.
///
/// When the kernel lacks it.
pub fn sleep_exactly() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Gives the thread short time slices, a tenth of a millisecond, so that it waits less for the processor after it wakes
/// up. Its share stays the same. Takes effect since Linux 6.12.
///
/// # Errors
/// When the kernel refuses.
pub fn run_in_short_turns() -> io::Result<()> {
    crate::sys::set_slice(Span::from_micros(100))
}

/// The thread runs only when no other wants its processor.
///
/// # Errors
/// When the kernel refuses.
pub fn run_when_idle() -> io::Result<()> {
    crate::sys::set_idle()
}

/// The processors that the thread may run on.
///
/// # Errors
/// When the kernel does not tell.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// How often the thread has left its processor to wait, rather than by preemption.
pub fn waits() -> u64 {
    crate::sys::voluntary_switches()
}

/// The processor time that the thread has used.
pub fn cpu_time() -> Span {
    Span::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_to_cpu_refuses_what_is_not_there() {
        assert!(pin_to_cpu(CpuSet::MAX_CPU).is_err());
        // Each test has its own thread, so pinning this one is of no consequence.
        let first = allowed_cpus().unwrap()[0];
        pin_to_cpu(first).unwrap();
        assert_eq!(allowed_cpus().unwrap(), [first]);
    }

    #[test]
    fn sleep_exactly_leaves_no_slack() {
        sleep_exactly().unwrap();
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
    }

    #[test]
    fn run_in_short_turns_is_permitted_to_everybody() {
        run_in_short_turns().unwrap();
    }

    #[test]
    fn run_when_idle_is_permitted_to_everybody() {
        run_when_idle().unwrap();
    }

    #[test]
    fn waits_grow_when_the_thread_waits() {
        let before = waits();
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        rustix::event::poll(&mut [], Some(&wait)).unwrap();
        assert!(waits() > before);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = cpu_time();
        let mut work = 0u64;
        while cpu_time() == before {
            work = std::hint::black_box(work + 1);
        }
        assert!(cpu_time() > before);
    }
}
