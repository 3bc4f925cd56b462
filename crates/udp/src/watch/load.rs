//! What the host can take in now, by its processors: how much processor time a byte costs, and how much there is.

use inhaul_base::{Bitrate, Span};

use super::quota::Bandwidth;
use super::rundelay::RunTimes;

/// This part of a quota, or of the time that others leave, is used on purpose: what is not foreseen needs the rest.
const USE: f64 = 0.92;
/// A quota of which less is used bounds nothing.
const USED: f64 = 0.7;
/// Waiting for the processor for less than this part of the time is what every host has.
const WAITED: f64 = 0.05;
/// A thread is busy to the full if it runs or waits for this part of the time.
const BUSY: f64 = 0.85;
/// How much of what was found counts.
const LEARN: f64 = 0.4;
/// Without loss a bound grows by this part in each window ...
const GROW: f64 = 1.05;
/// ... and is given up when it is so many times what comes in.
const FREE: f64 = 2.0;

/// What was seen of a window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// How long it was.
    pub(super) length: Span,
    /// Bytes of packets that came.
    pub(super) received: u64,
    /// Messages that the kernel dropped.
    pub(super) dropped: u64,
    /// What the thread did.
    pub(super) times: RunTimes,
    /// What the group with the tightest quota may use, and has used.
    pub(super) quota: Option<(Bandwidth, Span)>,
}

/// The bound that processors set to what comes in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Bytes a second.
    bound: Option<f64>,
}

impl Load {
    /// The rate that processors bound what is to come in by; `None`: they do not.
    pub(super) fn intake(&self) -> Option<Bitrate> {
        self.bound.map(|bytes| Bitrate::from_f64((bytes * 8.0).max(1.0)))
    }

    /// Takes a window into account.
    pub(super) fn on_window(&mut self, window: Window) {
        let seconds = window.length.as_secs_f64().max(1e-9);
        let came = window.received as f64 / seconds;
        if came <= 0.0 {
            self.bound = None;
            return;
        }
        let part = |span: Span| span.as_secs_f64() / seconds;
        // By the utilisation law what comes through is proportional to the time that is used for it.
        let by_quota = window.quota.and_then(|(bandwidth, used)| {
            let used = part(used) / bandwidth.processors().max(1e-9);
            (used >= USED).then(|| came * USE / used)
        });
        let busy = part(window.times.ran) + part(window.times.waited);
        let by_others = (part(window.times.waited) >= WAITED && busy >= BUSY).then(|| came * USE / busy);
        // Where a protocol's window keeps what comes within the socket's buffer, turns at full speed and rests are
        // best: to take a little at a time costs more for each byte. What is lost shows that it does not.
        let found = by_quota.into_iter().chain(by_others).reduce(f64::min).filter(|_| window.dropped > 0);
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

    const WINDOW: Span = Span::from_millis(200);

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
            let dropped = u64::from(asked > came);
            lossy += dropped as usize;
            load.on_window(Window {
                length: WINDOW,
                received: (came * WINDOW.as_secs_f64()) as u64,
                dropped,
                times: RunTimes { ran: used, waited: Span::ZERO },
                quota: Some((half(), used)),
            });
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
        let times = |ran, waited| RunTimes { ran: Span::from_millis(ran), waited: Span::from_millis(waited) };
        let window = |ran, waited, dropped| Window {
            length: WINDOW,
            received: 10_000_000,
            dropped,
            times: times(ran, waited),
            quota: None,
        };
        load.on_window(window(190, 2, 9));
        assert_eq!(load.intake(), None, "it has the processor for itself");
        load.on_window(window(50, 50, 9));
        assert_eq!(load.intake(), None, "it has time left");
        load.on_window(window(100, 100, 0));
        assert_eq!(load.intake(), None, "its buffer holds what comes meanwhile");
        load.on_window(window(100, 100, 9));
        let bound = load.intake().unwrap().as_f64() / 8.0;
        assert!((bound / 46e6 - 1.0).abs() < 0.01, "{bound}");
    }
}
