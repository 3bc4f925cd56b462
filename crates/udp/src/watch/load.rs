//! The rate that the host's processors can take in now: the processor time for a byte, and the time that there is. And
//! whether that time is scarce.

use inhaul_base::{Bitrate, Span, Time};

use super::quota::Bandwidth;
use super::rundelay::RunTimes;

/// The part of a quota, or of the time that others leave, that is used on purpose. The rest is for what is not
/// foreseen.
const USE: f64 = 0.92;
/// A quota bounds nothing if less than this part of it is used.
const USED: f64 = 0.7;
/// A thread on any host waits for its processor for up to this part of the time.
const WAITED: f64 = 0.05;
/// A thread is fully busy if it runs or waits for at least this part of the time.
const BUSY: f64 = 0.85;
/// Weight of a new sample in the average.
const LEARN: f64 = 0.4;
/// A loss up to this part costs less than a lower rate would.
const LOST: f64 = 0.01;
/// Without loss, the bound grows by this factor in each window ...
const GROW: f64 = 1.025;
/// ... and is dropped once it is this many times the incoming rate.
const FREE: f64 = 2.0;
/// Scarcity counts for at least this time after it was last seen, because the reaction to it hides it ...
const SPELL: Span = Span::from_secs(2);
/// ... and for twice the time, up to this, each time that it comes back at once.
const SPELL_MAX: Span = Span::from_secs(64);

/// Measurements over a window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// How long it was.
    pub(super) length: Span,
    /// Bytes of packets received.
    pub(super) received: u64,
    /// Messages received.
    pub(super) messages: u64,
    /// Messages that the kernel dropped.
    pub(super) dropped: u64,
    /// The thread's run times.
    pub(super) times: RunTimes,
    /// The tightest quota of a group, and how much of it was used.
    pub(super) quota: Option<(Bandwidth, Span)>,
}

/// The processors' bound on the incoming rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Bytes per second.
    bound: Option<f64>,
    scarcity: Scarcity,
}

/// Whether processor time is scarce for the thread.
#[derive(Clone, Copy, Debug, Default)]
struct Scarcity {
    /// Until when it counts as scarce, and for which time it was last set.
    until: Option<Time>,
    spell: Span,
}

impl Scarcity {
    fn on_window(&mut self, now: Time, seen: bool) {
        if !seen {
            return;
        }
        let is_over = self.until.is_none_or(|until| until < now);
        if is_over {
            let is_back = self.until.is_some_and(|until| now.since(until) < self.spell);
            self.spell = if is_back { (self.spell * 2).min(SPELL_MAX) } else { SPELL };
        }
        self.until = Some(now + self.spell);
    }
}

impl Load {
    /// The processors' bound on the incoming rate; `None`: they set none.
    pub(super) fn intake(&self) -> Option<Bitrate> {
        self.bound.map(|bytes| Bitrate::from_f64((bytes * 8.0).max(1.0)))
    }

    /// Whether processor time is scarce for the thread: most of a quota is used, or others run and leave it no time.
    pub(super) fn is_scarce(&self, now: Time) -> bool {
        self.scarcity.until.is_some_and(|until| now < until)
    }

    /// Takes a window that ends now into account.
    pub(super) fn on_window(&mut self, now: Time, window: Window) {
        let seconds = window.length.as_secs_f64().max(1e-9);
        let came = window.received as f64 / seconds;
        if came <= 0.0 {
            self.bound = None;
            return;
        }
        let part = |span: Span| span.as_secs_f64() / seconds;
        // Utilisation law: throughput is proportional to the processor time used for it.
        let by_quota = window.quota.and_then(|(bandwidth, used)| {
            let used = part(used) / bandwidth.processors().max(1e-9);
            (used >= USED).then(|| came * USE / used)
        });
        let busy = part(window.times.ran) + part(window.times.waited);
        let by_others = (part(window.times.waited) >= WAITED && busy >= BUSY).then(|| came * USE / busy);
        // If a protocol's window keeps outstanding data within the socket buffer, full speed with rests is best: small
        // lots cost more for each byte. Loss shows that the window does not.
        self.scarcity.on_window(now, by_quota.is_some() || by_others.is_some());
        let lost = window.dropped as f64 >= LOST * (window.dropped + window.messages) as f64 && window.dropped > 0;
        let found = by_quota.into_iter().chain(by_others).reduce(f64::min).filter(|_| lost);
        self.bound = match (found, self.bound) {
            (Some(found), Some(bound)) => Some(bound + LEARN * (found - bound)),
            (Some(found), None) => Some(found),
            (_, Some(bound)) if bound * GROW > FREE * came => None,
            (_, Some(bound)) => Some(bound * GROW),
            (None, None) => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Span = Span::from_millis(100);

    fn half() -> Bandwidth {
        Bandwidth { quota: Span::from_millis(50), period: Span::from_millis(100) }
    }

    /// Runs a host on which a second of processor time takes 100 MB in, for so many windows, with this much time. What
    /// it does not take in is dropped.
    fn settle(load: &mut Load, processors: f64, windows: usize, offered: f64) -> (f64, usize) {
        let (mut came, mut lossy) = (0.0, 0);
        for _ in 0..windows {
            let asked = load.intake().map_or(offered, |rate| (rate.as_f64() / 8.0).min(offered));
            came = asked.min(processors * 100e6);
            let used = WINDOW.mul_f64(came / 100e6);
            let bytes = |rate: f64| (rate * WINDOW.as_secs_f64()) as u64;
            let dropped = (bytes(asked) - bytes(came)) / 1_500;
            lossy += usize::from(dropped > 0);
            load.on_window(
                Time::ZERO,
                Window {
                    length: WINDOW,
                    received: bytes(came),
                    messages: bytes(came) / 1_500,
                    dropped,
                    times: RunTimes { ran: used, waited: Span::ZERO },
                    quota: Some((half(), used)),
                },
            );
        }
        (came, lossy)
    }

    #[test]
    fn a_quota_is_used_nearly_to_the_full_and_seldom_up() {
        let mut load = Load::default();
        settle(&mut load, 0.5, 3, 100e6);
        let (came, lossy) = settle(&mut load, 0.5, 60, 100e6);
        assert!((45e6..=50e6).contains(&came), "{came}");
        assert!(lossy <= 30, "{lossy}");
    }

    #[test]
    fn a_bound_goes_when_less_is_offered_and_nothing_is_lost() {
        let mut load = Load::default();
        settle(&mut load, 0.5, 5, 100e6);
        assert!(load.intake().is_some());
        assert!((settle(&mut load, 0.5, 60, 10e6).0 - 10e6).abs() < 1.0);
        assert_eq!(load.intake(), None);
    }

    #[test]
    fn others_on_the_processor_bound_what_comes_in_if_the_thread_has_no_time_left_and_loses_packets() {
        let mut load = Load::default();
        let mut see = |ran, waited, dropped| {
            load.on_window(Time::ZERO, beside_others(ran, waited, dropped));
            load.intake().map(|rate| rate.as_f64() / 8e6)
        };
        assert_eq!(see(95, 1, 900), None, "it has the processor for itself");
        assert_eq!(see(25, 25, 900), None, "it has time left");
        assert_eq!(see(50, 50, 0), None, "its buffer holds what comes meanwhile");
        assert_eq!(see(50, 50, 9), None, "what is lost costs less than to ask for less");
        let bound = see(50, 50, 900).unwrap();
        assert!((bound / 92.0 - 1.0).abs() < 0.01, "{bound}");
    }

    /// A window in which the thread ran and waited for so many milliseconds, and 10 MB came in 7,000 messages.
    fn beside_others(ran: u64, waited: u64, dropped: u64) -> Window {
        let times = RunTimes { ran: Span::from_millis(ran), waited: Span::from_millis(waited) };
        Window { length: WINDOW, received: 10_000_000, messages: 7_000, dropped, times, quota: None }
    }

    #[test]
    fn processor_time_is_scarce_for_a_while_after_it_was_seen_to_be_and_longer_if_it_comes_back() {
        let at = |seconds: u64| Time::ZERO + Span::from_secs(seconds);
        let mut load = Load::default();
        load.on_window(at(1), beside_others(20, 20, 0));
        assert!(!load.is_scarce(at(1)));
        load.on_window(at(1), beside_others(50, 45, 0));
        assert!(load.is_scarce(at(2)) && !load.is_scarce(at(3)));
        // What was done about it had only hidden it.
        load.on_window(at(4), beside_others(50, 45, 0));
        assert!(load.is_scarce(at(7)) && !load.is_scarce(at(8)));
        load.on_window(at(60), beside_others(50, 45, 0));
        assert!(load.is_scarce(at(61)) && !load.is_scarce(at(62)), "that was another time");
        let used = Window { quota: Some((half(), Span::from_millis(40))), ..beside_others(40, 0, 0) };
        load.on_window(at(200), used);
        assert!(load.is_scarce(at(201)));
    }
}
