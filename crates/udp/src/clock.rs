//! The engine's clock.

use inhaul_base::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A clock that never goes back (`CLOCK_MONOTONIC`), counted from its start. Copies have the same start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { origin: nanos(clock_gettime(ClockId::Monotonic)) }
    }

    /// The time now.
    pub fn now(self) -> Time {
        Time::from_nanos(nanos(clock_gettime(ClockId::Monotonic)).saturating_sub(self.origin))
    }
}

/// The nanoseconds of a kernel clock that is never negative.
pub(crate) fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_counts_from_the_start_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let readings = [clock.now(), copy.now(), clock.now()];
        assert!(readings.is_sorted());
        assert!(Clock { origin: u64::MAX }.now() == Time::ZERO);
    }
}
