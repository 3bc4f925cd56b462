//! The watcher: foresees when a thread that receives will not run, and how much its host can take in now.
//!
//! rbudp-plus-2006 section 3 has a soft real-time process beside the receiving one, which looks at what the scheduler
//! will do. This is the same for the Linux of today. A [`Watch`] is a thread that looks at [`Source`]s, each of which
//! may foresee a pause, keeps account of how often each was right ([`Score`]), and publishes the next pause of those
//! that can be trusted, and the [intake](Forecast::intake) of the host, through atomics. No protocol is known here.
//!
//! What each source knows:
//!
//! | source | of what | needs |
//! |---|---|---|
//! | [`Source::Quota`] | when the control group's processor time of this period is used up, and when the next begins | a quota, cgroup version 1 or 2 |
//! | [`Source::Switches`] | exact times of past pauses; their period tells of the next | perf events of own threads (`perf_event_paranoid` below 3) |
//! | [`Source::RunDelay`] | the same to about a millisecond | `/proc/self/task/TID/schedstat` |
//! | [`Source::Competitors`] | how many threads want the processor, and how heavy they are | `/proc/loadavg`, `/proc/PID/stat` |
//! | [`Source::Disk`] | when the page cache will hold writers up, and the rate of the disk | `/proc/vmstat` |
//!
//! Beside that it sees what the host's own TCP takes ([`Watch::tcp`]): a receiver shares its link with that.
//!
//! What it may cost is bounded: a watcher takes at most 2 % of a processor at its looks, at ordinary priority, and a
//! user's programs have few watchers on a host, however many of them receive.
//!
//! What is pure in each is tested with recorded input.
//!
//! Why no eBPF: a `sched_switch` program (root) would tell the watcher of each switch at once. It would not tell
//! earlier: what decides about the *next* switch is the run queue of the kernel, which such a program sees only as
//! far as the unprivileged signals here tell of it, too. It would cost a loader and a toolchain.

mod cgroup;
mod competitors;
mod disk;
mod gaps;
mod host_tcp;
mod load;
mod meter;
mod place;
mod published;
mod quota;
mod rundelay;
mod score;
mod sock_diag;
mod sources;
mod watcher;

use inhaul_base::{Bitrate, Span};
use inhaul_transport::Pause;

pub use host_tcp::tcp_sockets_seen;
pub use meter::Meter;
pub use score::Score;
pub use sources::{Availability, survey};
pub use watcher::{Subject, Watch};

/// A pause is worth foreseeing from this length on. Shorter ones every busy host has: the kernel takes packets in, for
/// about a millisecond at a time.
pub const PAUSE_MIN: Span = Span::from_millis(2);

/// Where a forecast comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The quota of the control group.
    Quota,
    /// The thread's own context switches.
    Switches,
    /// The thread's own run delay.
    RunDelay,
    /// Other threads that want the processor.
    Competitors,
    /// The page cache and the disk behind it.
    Disk,
}

impl Source {
    /// All of them, the most exact first.
    pub const ALL: [Self; 5] = [Self::Quota, Self::Switches, Self::RunDelay, Self::Competitors, Self::Disk];

    /// Its name, as documents and logs have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Switches => "switches",
            Self::RunDelay => "run-delay",
            Self::Competitors => "competitors",
            Self::Disk => "disk",
        }
    }
}

/// What is foreseen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// When the thread will next not run.
    pub pause: Option<Pause>,
    /// The rate of arriving packets, headers included, that the host can take in on average now; `None`: nothing here
    /// bounds it.
    pub intake: Option<Bitrate>,
    /// Whether processor time is scarce: most of a quota is used, or others want what the thread would use. Then the
    /// thread does well to take packets in larger lots, each of which costs less for every byte.
    pub scarce: bool,
}
