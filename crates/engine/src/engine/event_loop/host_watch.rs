//! How well the host serves the engine's thread: what endpoints are told of it.
//!
//! Endpoints hear how late the thread runs, the kernel's drops, the next pause of the thread, and the host's intake
//! (`Endpoint::handle_host`). `inhaul_udp::watch` foresees the last two. The engine passes a pause on where that pays:
//! where more would come in meanwhile than the socket buffers are sure to hold (`inhaul_transport::kit::feedback`;
//! `--monitor` overrides). The reaction is the protocol's: GTP and RBUDP+ have senders hold, aligned by the RTT.
//!
//! Where processor time is scarce, the engine lets packets gather in the socket before it reads them, up to a fifth of
//! its buffer and for a millisecond at most. To be woken costs as much as some packets do.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::kit::feedback;
use inhaul_transport::{HostSample, Pause, TcpFlows};
use inhaul_udp::watch::Forecast;

use inhaul_session::api::options::Monitor;

/// Endpoints are told this often ...
const SAMPLE_GAP: Span = Span::from_secs(1);
/// ... and sooner, though not more often than this, ...
const HURRIED_GAP: Span = Span::from_millis(50);
/// ... when the thread ran this late: longer than a scheduler's slice.
const LATE: Span = Span::from_millis(10);
/// What is foreseen is told at once if it differs by so much from what was told last: of a pause, ...
const PAUSE_CHANGE: Span = Span::from_micros(500);
/// ... and of what the host can take in.
const INTAKE_CHANGE: f64 = 0.02;
/// The rate of what comes in is taken over this long; ...
const RATE_WINDOW: Span = Span::from_millis(20);
/// ... and of so many such times the highest counts: what was held back lately would have come otherwise.
const RATE_WINDOWS: usize = 16;
/// Where processor time is scarce, packets gather in the socket until they fill this part of its buffer: small ones take
/// more of it than they have bytes, and the thread may be woken late.
const LOT_PART: f64 = 0.2;
/// They do not gather for longer than this, because all that measures the path would notice; ...
const LOT_SPAN_MAX: Span = Span::from_millis(1);
/// ... nor for a shorter time, because to sleep costs something, too.
const LOT_SPAN_MIN: Span = Span::from_micros(50);

/// What is known since the last sample.
#[derive(Debug, Default)]
pub(super) struct HostWatch {
    told: Time,
    lateness: Span,
    /// The kernel's drops that were told.
    drops: u64,
    monitor: Monitor,
    forecast: Forecast,
    /// What was told of the forecast.
    passed_on: Forecast,
    incoming: Incoming,
    /// Bytes that the socket buffers have room for.
    room: u64,
    turns_are_short: bool,
    /// What the host's own TCP takes, if that has not been told.
    tcp: Option<TcpFlows>,
}

/// How fast packets come in.
#[derive(Debug, Default)]
struct Incoming {
    bytes: u64,
    began: Time,
    rates: [Bitrate; RATE_WINDOWS],
    next: usize,
}

impl Incoming {
    fn count(&mut self, now: Time, bytes: u64) {
        self.bytes += bytes;
        let passed = now.since(self.began);
        if passed >= RATE_WINDOW {
            self.rates[self.next] = Bitrate::of(self.bytes, passed);
            self.next = (self.next + 1) % RATE_WINDOWS;
            (self.bytes, self.began) = (0, now);
        }
    }

    fn rate(&self) -> Bitrate {
        self.rates.iter().copied().max().unwrap_or(Bitrate::ZERO)
    }
}

impl HostWatch {
    /// Passes on what is foreseen as `monitor` says.
    pub(super) fn pass_on(&mut self, monitor: Monitor) {
        self.monitor = monitor;
    }

    /// The thread was to run at `deadline` at the latest, and runs now. `idle`: nothing else has woken it.
    pub(super) fn on_wake(&mut self, now: Time, deadline: Time, idle: bool) {
        if idle && deadline > self.told {
            self.lateness = self.lateness.max(now.since(deadline));
        }
    }

    /// So many bytes of packets came.
    pub(super) fn count(&mut self, now: Time, bytes: u64) {
        self.incoming.count(now, bytes);
    }

    /// The watcher foresees something else. Sockets that data comes in by have room for so many bytes in all.
    pub(super) fn foresee(&mut self, forecast: Forecast, room: u64) {
        self.room = room;
        if self.monitor == Monitor::Log {
            return;
        }
        // What has begun is not taken back: who is told of a pause while it lasts is told nothing new.
        let pays = |pause: &Pause| match self.monitor {
            Monitor::Off | Monitor::Log => false,
            Monitor::On => true,
            Monitor::Auto => feedback::pays(pause.length, self.incoming.rate(), room),
        };
        self.forecast = Forecast { pause: forecast.pause.filter(pays), ..forecast };
    }

    /// The host's own TCP takes so much now.
    pub(super) fn hear_of_tcp(&mut self, flows: TcpFlows) {
        if self.monitor != Monitor::Log {
            self.tcp = Some(flows);
        }
    }

    /// How long packets may gather before they are read: each time that the thread is woken costs as much as some
    /// packets do, and where its processor time is scarce that decides how many it takes in. `None`: they are read as
    /// they come.
    pub(super) fn lot(&self) -> Option<Span> {
        if !self.forecast.scarce {
            return None;
        }
        let bytes = (self.room as f64 * LOT_PART) as u64;
        let fills = self.incoming.rate().time_for(bytes).min(LOT_SPAN_MAX);
        (fills >= LOT_SPAN_MIN).then_some(fills)
    }

    /// Whether the thread should run in shorter turns from now on: said once, when processor time is scarce.
    pub(super) fn wants_short_turns(&mut self) -> bool {
        self.forecast.scarce && !std::mem::replace(&mut self.turns_are_short, true)
    }

    /// Whether endpoints are to be told.
    pub(super) fn is_due(&self, now: Time) -> bool {
        let gap = if self.lateness >= LATE { HURRIED_GAP } else { SAMPLE_GAP };
        now.since(self.told) >= gap || self.tcp.is_some() || differs(self.passed_on, self.forecast)
    }

    /// The sample since the last, with all messages that the kernel has dropped so far.
    pub(super) fn take(&mut self, now: Time, drops: u64) -> HostSample {
        let Forecast { pause, intake, .. } = self.forecast;
        let sample = HostSample {
            lateness: self.lateness,
            // A port that was closed takes its count with it.
            socket_drops: drops.saturating_sub(self.drops),
            pause: pause.filter(|pause| pause.start + pause.length > now),
            intake,
            tcp: self.tcp.take(),
        };
        (self.told, self.lateness, self.drops, self.passed_on) = (now, Span::ZERO, drops, self.forecast);
        sample
    }
}

/// Whether a forecast says something else than what was told.
fn differs(told: Forecast, now: Forecast) -> bool {
    let moved = |a: Time, b: Time| a.as_nanos().abs_diff(b.as_nanos()) >= PAUSE_CHANGE.as_nanos();
    let pause = match (told.pause, now.pause) {
        (Some(a), Some(b)) => moved(a.start, b.start) || moved(a.start + a.length, b.start + b.length),
        (a, b) => a.is_some() != b.is_some(),
    };
    let intake = match (told.intake, now.intake) {
        (Some(a), Some(b)) => (b.as_f64() / a.as_f64().max(1.0) - 1.0).abs() >= INTAKE_CHANGE,
        (a, b) => a.is_some() != b.is_some(),
    };
    pause || intake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn lateness_is_what_the_host_owes_and_drops_are_told_once() {
        let mut watch = HostWatch::default();
        watch.on_wake(at(105), at(100), false);
        assert_eq!(watch.take(at(1_000), 3), HostSample { socket_drops: 3, ..HostSample::default() });
        watch.on_wake(at(1_104), at(1_100), true);
        assert!(!watch.is_due(at(1_104)), "4 ms is a tick");
        watch.on_wake(at(1_220), at(1_200), true);
        assert!(watch.is_due(at(1_220)));
        let sample = HostSample { lateness: Span::from_millis(20), socket_drops: 1, ..HostSample::default() };
        assert_eq!(watch.take(at(1_220), 4), sample);
        assert!(!watch.is_due(at(1_221)));
        assert!(watch.is_due(at(2_220)));
    }

    /// A forecast of a pause of 50 ms.
    fn pause(start: u64) -> Forecast {
        let pause = Pause { start: at(start), length: Span::from_millis(50) };
        Forecast { pause: Some(pause), ..Forecast::default() }
    }

    /// A watch of a thread that 800 Mbit/s come in at.
    fn busy(monitor: Monitor) -> HostWatch {
        let mut watch = HostWatch::default();
        watch.pass_on(monitor);
        (0..=1_000).for_each(|millis| watch.count(at(millis), 100_000));
        watch.take(at(1_000), 0);
        watch
    }

    #[test]
    fn a_pause_is_told_at_once_and_again_when_it_moves() {
        let mut watch = busy(Monitor::Auto);
        watch.foresee(pause(1_100), 4 << 20);
        assert!(watch.is_due(at(1_001)));
        assert_eq!(watch.take(at(1_001), 0).pause, pause(1_100).pause);
        assert!(!watch.is_due(at(1_002)));
        watch.foresee(pause(1_101), 4 << 20);
        assert!(watch.is_due(at(1_002)));
        watch.take(at(1_002), 0);
        // It is over when it is over, and that needs no word of its own.
        assert_eq!(watch.take(at(1_160), 0).pause, None);
    }

    #[test]
    fn a_pause_is_told_where_that_pays_or_as_the_user_says() {
        let told = |monitor, room| {
            let mut watch = busy(monitor);
            watch.foresee(pause(1_100), room);
            watch.take(at(1_001), 0).pause.is_some()
        };
        // 5 MB come in meanwhile.
        assert!(told(Monitor::Auto, 4 << 20) && !told(Monitor::Auto, 32 << 20));
        assert!(told(Monitor::On, 32 << 20) && !told(Monitor::Off, 1 << 10));
    }

    #[test]
    fn what_is_only_logged_changes_nothing() {
        let mut watch = busy(Monitor::Log);
        watch.foresee(Forecast { intake: Some(Bitrate::from_mbps(1)), scarce: true, ..pause(1_100) }, 1 << 10);
        assert!(!watch.is_due(at(1_001)) && !watch.wants_short_turns());
        assert_eq!((watch.take(at(1_001), 0), watch.lot()), (HostSample::default(), None));
    }

    #[test]
    fn packets_gather_where_processor_time_is_scarce_as_far_as_the_buffer_takes_them() {
        // 800 Mbit/s come in.
        let mut watch = busy(Monitor::Auto);
        let mut lot = |scarce, room| {
            watch.foresee(Forecast { scarce, ..Forecast::default() }, room);
            watch.lot()
        };
        assert_eq!(lot(false, 212_992), None);
        let fills = lot(true, 212_992).unwrap();
        assert!(fills > Span::from_micros(400) && fills < Span::from_micros(430), "{fills}");
        assert_eq!(lot(true, 8 << 20), Some(LOT_SPAN_MAX));
        assert_eq!(lot(true, 4_096), None, "to sleep would cost more");
    }

    #[test]
    fn what_tcp_takes_is_told_at_once_and_once() {
        let mut watch = busy(Monitor::Auto);
        let flows = TcpFlows::of(vec![Bitrate::from_mbps(7)]);
        watch.hear_of_tcp(flows);
        assert!(watch.is_due(at(1_001)));
        assert_eq!(watch.take(at(1_001), 0).tcp, Some(flows));
        assert!(!watch.is_due(at(1_002)) && watch.take(at(1_002), 0).tcp.is_none());
        let mut watch = busy(Monitor::Log);
        watch.hear_of_tcp(flows);
        assert_eq!(watch.take(at(1_001), 0).tcp, None);
    }

    #[test]
    fn short_turns_are_wanted_once() {
        let mut watch = busy(Monitor::Auto);
        assert!(!watch.wants_short_turns());
        watch.foresee(Forecast { scarce: true, ..Forecast::default() }, 1);
        assert!(watch.wants_short_turns() && !watch.wants_short_turns());
    }

    #[test]
    fn what_the_host_can_take_in_is_told_at_once() {
        let mut watch = busy(Monitor::Auto);
        let intake = |mbps| Forecast { intake: Some(Bitrate::from_mbps(mbps)), ..Forecast::default() };
        watch.foresee(intake(500), 1);
        assert!(watch.is_due(at(1_001)));
        assert_eq!(watch.take(at(1_001), 0).intake, Some(Bitrate::from_mbps(500)));
        watch.foresee(intake(505), 1);
        assert!(!watch.is_due(at(1_002)));
        watch.foresee(Forecast::default(), 1);
        assert!(watch.is_due(at(1_003)));
    }
}
