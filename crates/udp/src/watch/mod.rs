//! The watcher: foresees when a receiving thread will not run, and the rate that its host can take in now.
//!
//! rbudp-plus-2006 section 3 runs a soft real-time process beside the receiver, which foresees the scheduler. This is
//! the same for today's Linux. A [`Watch`] is a thread that looks at [`Source`]s. Each source may foresee a pause, and
//! its [`Score`] counts how often it was right. The watcher publishes the next pause of the trusted sources, and the
//! host's [intake](Forecast::intake), through atomics. It knows no protocol.
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
//! It also measures the rate of the host's own TCP ([`Watch::tcp`]), which shares the receiver's link.
//!
//! Its cost is bounded: a watcher's looks take at most 2 % of a processor, at ordinary priority, and a user's programs
//! have at most four watchers on a host.
//!
//! The pure part of each source is tested with recorded input.
//!
//! Why no eBPF: a `sched_switch` program (root) would report each switch at once, but not earlier. The kernel's run
//! queue decides the *next* switch, and such a program sees no more of it than the unprivileged signals here. It would
//! cost a loader and a toolchain.

mod cgroup;
mod competitors;
mod disk;
mod gaps;
mod handle;
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
mod subject;
mod watcher;

use inhaul_base::{Bitrate, Span};
use inhaul_transport::Pause;

pub use handle::Watch;
pub use host_tcp::tcp_sockets_seen;
pub use meter::Meter;
pub use score::Score;
pub use sources::{Availability, survey};
pub use subject::Subject;
/// The shortest pause worth foreseeing. Shorter ones happen on every busy host: the kernel takes packets in, for about
/// a millisecond at a time.
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

    /// Its name in documents and logs.
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

/// A forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// The next time when the thread will not run.
    pub pause: Option<Pause>,
    /// The rate of arriving packets, headers included, that the host can take in on average now; `None`: unbounded.
    pub intake: Option<Bitrate>,
    /// Whether processor time is scarce: most of a quota is used, or others want the thread's share. Then the thread
    /// should take packets in larger lots, which cost less for each byte.
    pub scarce: bool,
}
