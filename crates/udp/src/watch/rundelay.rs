//! Pauses by a thread's run delay (`/proc/self/task/TID/schedstat`): the sum of its waits for a processor. A wait is
//! counted when the thread has the processor again.

use std::fs::File;
use std::os::unix::fs::FileExt;

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;

use super::PAUSE_MIN;

/// The kernel's counters of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunTimes {
    /// Time on a processor.
    pub(super) ran: Span,
    /// Time in which it was runnable and waited.
    pub(super) waited: Span,
}

impl RunTimes {
    /// Reads `schedstat`: nanoseconds on a processor, nanoseconds waited, turns.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { ran: Span::from_nanos(ran), waited: Span::from_nanos(waited) })
    }
}

/// The open file of a thread's run times, which is read many times a second.
#[derive(Debug)]
pub(super) struct RunFile(File);

impl RunFile {
    /// Opens the file of a thread of this process, by its kernel id.
    pub(super) fn of_thread(thread: i32) -> std::io::Result<Self> {
        File::open(format!("/proc/self/task/{thread}/schedstat")).map(Self)
    }

    /// The times now.
    pub(super) fn read(&self) -> Option<RunTimes> {
        let mut bytes = [0; 96];
        let len = self.0.read_at(&mut bytes, 0).ok()?;
        RunTimes::parse(std::str::from_utf8(&bytes[..len]).ok()?)
    }
}

/// Finds pauses in run times that are read at intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunDelay {
    last: Option<(Time, RunTimes)>,
}

impl RunDelay {
    /// Takes the times at `now`. Returns a pause that has ended since the last look. Its end is the latest possible
    /// one.
    pub(super) fn look(&mut self, now: Time, times: RunTimes) -> Option<Pause> {
        let (before, last) = self.last.replace((now, times))?;
        let length = times.waited.saturating_sub(last.waited);
        // The wait may have come in many short pieces if the last look was long ago.
        let is_one = length >= PAUSE_MIN && now.since(before) <= length * 3;
        // It ended when the thread ran again. Since then it ran for `ran` at most.
        let ran = times.ran.saturating_sub(last.ran).as_nanos().min(now.since(before).as_nanos());
        let end = now - Span::from_nanos(ran);
        let start = Time::from_nanos(end.as_nanos().saturating_sub(length.as_nanos()));
        is_one.then_some(Pause { start, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn times(ran: u64, waited: u64) -> RunTimes {
        RunTimes { ran: Span::from_micros(ran), waited: Span::from_micros(waited) }
    }

    #[test]
    fn parse_reads_what_the_kernel_writes() {
        let read = RunTimes { ran: Span::from_nanos(98_807), waited: Span::from_nanos(2_612_116) };
        assert_eq!(RunTimes::parse("98807 2612116 2\n"), Some(read));
        for bad in ["", "1", "a b c", "-1 2 3"] {
            assert_eq!(RunTimes::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_wait_that_grows_at_once_is_a_pause_that_has_just_ended() {
        let mut delay = RunDelay::default();
        assert_eq!(delay.look(at(10_000), times(5_000, 100)), None);
        // It is not told while it lasts.
        assert_eq!(delay.look(at(13_000), times(6_000, 100)), None);
        let pause = delay.look(at(16_500), times(7_000, 4_100)).unwrap();
        assert_eq!(pause, Pause { start: at(11_500), length: Span::from_micros(4_000) });
        assert_eq!(delay.look(at(17_500), times(8_000, 4_150)), None);
    }

    #[test]
    fn waits_that_were_not_looked_at_for_long_are_not_one_pause() {
        let mut delay = RunDelay::default();
        delay.look(at(0), times(0, 0));
        assert_eq!(delay.look(at(100_000), times(50_000, 5_000)), None);
    }

    #[test]
    fn the_own_thread_has_run_times() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        // Not every kernel counts them.
        let Ok(file) = RunFile::of_thread(thread) else { return };
        assert!(file.read().is_some(), "a thread that has just begun may have none yet");
    }
}
