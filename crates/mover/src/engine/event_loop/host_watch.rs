//! How well the host serves the engine's thread: what endpoints are told of it.

use inhaul_base::{Span, Time};
use inhaul_transport::HostSample;

/// Endpoints are told this often ...
const SAMPLE_GAP: Span = Span::from_secs(1);
/// ... and sooner, though not more often than this, ...
const HURRIED_GAP: Span = Span::from_millis(50);
/// ... when the thread ran this late: longer than a scheduler's slice.
const LATE: Span = Span::from_millis(10);

/// What is known since the last sample.
#[derive(Debug, Default)]
pub(super) struct HostWatch {
    told: Time,
    lateness: Span,
    /// The kernel's drops that were told.
    drops: u64,
}

impl HostWatch {
    /// The thread was to run at `deadline` at the latest, and runs now. `idle`: nothing else has woken it.
    pub(super) fn on_wake(&mut self, now: Time, deadline: Time, idle: bool) {
        if idle && deadline > self.told {
            self.lateness = self.lateness.max(now.since(deadline));
        }
    }

    /// Whether endpoints are to be told.
    pub(super) fn is_due(&self, now: Time) -> bool {
        let gap = if self.lateness >= LATE { HURRIED_GAP } else { SAMPLE_GAP };
        now.since(self.told) >= gap
    }

    /// The sample since the last, with all messages that the kernel has dropped so far.
    pub(super) fn take(&mut self, now: Time, drops: u64) -> HostSample {
        // A port that was closed takes its count with it.
        let sample =
            HostSample { lateness: self.lateness, socket_drops: drops.saturating_sub(self.drops), pause: None };
        *self = Self { told: now, lateness: Span::ZERO, drops };
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_what_the_host_owes_and_drops_are_told_once() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut watch = HostWatch::default();
        watch.on_wake(at(105), at(100), false);
        assert_eq!(watch.take(at(1_000), 3), HostSample { socket_drops: 3, ..HostSample::default() });
        watch.on_wake(at(1_104), at(1_100), true);
        assert!(!watch.is_due(at(1_104)), "4 ms is a tick");
        watch.on_wake(at(1_220), at(1_200), true);
        assert!(watch.is_due(at(1_220)));
        assert_eq!(
            watch.take(at(1_220), 4),
            HostSample { lateness: Span::from_millis(20), socket_drops: 1, pause: None }
        );
        assert!(!watch.is_due(at(1_221)));
        assert!(watch.is_due(at(2_220)));
    }
}
