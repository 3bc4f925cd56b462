//! The common part of laws with a window: slow start, its end, and the reaction to a timeout (RFC 5681).

use inhaul_base::Time;
use inhaul_transport::{AckSample, Law, Limits, LossSample, Pace};

use super::config::LawConfig;

/// No window is cut below this many packets (RFC 5681 equation 4).
const WINDOW_MIN: f64 = 2.0;

/// How a window grows in congestion avoidance, and how it is cut.
pub trait Avoidance {
    /// The window, in packets, after an acknowledgement in congestion avoidance. `window` is the present one.
    fn grow(&mut self, window: f64, ack: &AckSample) -> f64;

    /// The window after congestion at a window of `window` packets.
    fn reduce(&mut self, now: Time, window: f64) -> f64;

    /// A timeout, after which the window has been brought down to nearly nothing.
    fn on_timeout(&mut self) {}

    /// An acknowledgement came during slow start, at a window of `window` packets. Returns whether slow start is to
    /// end.
    fn ends_slow_start(&mut self, _window: f64, _ack: &AckSample) -> bool {
        false
    }

    /// The window did not hold the sender back: time passes that proves nothing.
    fn on_unused(&mut self, _now: Time) {}

    /// How the window is spread over time.
    fn pace(&self) -> Pace {
        Pace::Unpaced
    }
}

/// A law that keeps a window: slow start up to a threshold, then what `A` says.
///
/// Growth counts delivered packets, not acknowledgements (RFC 3465), so delayed acknowledgements cost nothing; like
/// Linux it has no limit L on the packets that one acknowledgement may count.
#[derive(Debug)]
pub struct Windowed<A> {
    avoidance: A,
    window: f64,
    /// Where slow start ends (ssthresh).
    threshold: f64,
    initial: f64,
    max: f64,
    /// The next cut is to a half, and every one in slow start.
    halves: Option<Halving>,
    /// Window, threshold and the law's state before the last congestion.
    before: Option<(f64, f64, A)>,
}

/// ns-2's rule for the end of slow start ([`LawConfig::halves_slow_start`]).
#[derive(Clone, Copy, Debug)]
struct Halving {
    /// Nothing has been cut yet.
    first: bool,
}

impl<A: Avoidance + Clone> Windowed<A> {
    /// A law in slow start.
    pub fn new(avoidance: A, config: &LawConfig) -> Self {
        let initial = config.initial_window as f64;
        let max = config.window_max as f64;
        let halves = config.halves_slow_start.then_some(Halving { first: true });
        Self { avoidance, window: initial.min(max), threshold: f64::INFINITY, initial, max, halves, before: None }
    }

    /// The window in packets.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// The window after congestion.
    fn cut(&mut self, now: Time) -> f64 {
        let reduced = self.avoidance.reduce(now, self.window);
        let in_slow_start = self.window < self.threshold;
        let halved = self.halves.as_mut().is_some_and(|halves| std::mem::take(&mut halves.first) || in_slow_start);
        let cut = if halved { self.window / 2.0 } else { reduced };
        cut.max(WINDOW_MIN)
    }

    #[cfg(test)]
    pub(crate) fn in_avoidance(avoidance: A, window: f64, config: &LawConfig) -> Self {
        Self { window, threshold: window, ..Self::new(avoidance, config) }
    }
}

impl<A: Avoidance + Clone> Law for Windowed<A> {
    fn on_ack(&mut self, ack: &AckSample) {
        if self.window < self.threshold && self.avoidance.ends_slow_start(self.window, ack) {
            self.threshold = self.window;
        }
        if ack.held {
            return;
        }
        if !ack.window_limited {
            self.avoidance.on_unused(ack.now);
            return;
        }
        let mut rest = *ack;
        if self.window < self.threshold {
            // RFC 5681 3.1: one packet for each acknowledged one; the rest beyond the threshold counts as avoidance.
            let room = (self.threshold - self.window).min(self.max);
            let grown = (rest.delivered_packets as f64).min(room.ceil());
            self.window = (self.window + grown).min(self.threshold);
            rest.delivered_packets -= grown as u64;
        }
        if rest.delivered_packets > 0 && self.window >= self.threshold {
            self.window = self.avoidance.grow(self.window, &rest);
        }
        self.window = self.window.min(self.max);
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.before = Some((self.window, self.threshold, self.avoidance.clone()));
        self.threshold = self.cut(loss.now);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, loss: &LossSample, repeated: bool) {
        // A timeout that repeats is about the same packets: the threshold stays (RFC 5681 3.1). One after progress is
        // not, even though the repair that the last one began is not complete.
        if !repeated {
            self.before = Some((self.window, self.threshold, self.avoidance.clone()));
            self.threshold = self.cut(loss.now);
        }
        self.avoidance.on_timeout();
        // One packet, beside packets sent too recently to count as lost (as Linux).
        self.window = (loss.in_flight as f64 + 1.0).min(self.max);
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some((window, threshold, avoidance)) = self.before.take() {
            self.window = window.max(self.window);
            (self.threshold, self.avoidance) = (threshold, avoidance);
        }
    }

    fn on_idle(&mut self, now: Time) {
        self.avoidance.on_unused(now);
        self.window = self.window.min(self.initial);
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn limits(&self) -> Limits {
        let pace = if self.in_slow_start() { Pace::Unpaced } else { self.avoidance.pace() };
        Limits { window_packets: (self.window as u64).max(1), pace }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CONFIG, ack};
    use super::super::{LawName, Reno};
    use super::*;
    use inhaul_base::Span;

    const RTT: Span = Span::from_millis(100);
    const NONE_LEFT: LossSample = LossSample { now: Time::ZERO, in_flight: 0 };

    #[test]
    fn slow_start_doubles_each_round_trip_and_ends_at_the_threshold() {
        let mut law = Windowed::new(Reno, &CONFIG);
        for expected in [20.0, 40.0, 80.0] {
            (0..law.window() as u64 / 2).for_each(|_| law.on_ack(&ack(Time::ZERO, 2, RTT)));
            assert_eq!(law.window(), expected);
        }
        law.on_loss(&LossSample { now: Time::ZERO, in_flight: 80 });
        assert_eq!(law.window(), 40.0);
        law.on_timeout(&NONE_LEFT, false);
        assert_eq!((law.window(), law.threshold), (1.0, 20.0));
        // 19 packets to the threshold, then one packet for a window's worth.
        law.on_ack(&ack(Time::ZERO, 19, RTT));
        assert_eq!(law.window(), 20.0);
        (0..10).for_each(|_| law.on_ack(&ack(Time::ZERO, 2, RTT)));
        assert!((law.window() - 21.0).abs() < 0.05, "{}", law.window());
    }

    #[test]
    fn ns2_halves_in_slow_start_and_at_the_first_cut() {
        let config = LawConfig { halves_slow_start: true, ..CONFIG };
        let mut law = Windowed::new(crate::laws::Scalable, &config);
        (0..90).for_each(|_| law.on_ack(&ack(Time::ZERO, 1, RTT)));
        law.on_loss(&NONE_LEFT);
        assert_eq!(law.window(), 50.0);
        law.on_loss(&NONE_LEFT);
        assert_eq!(law.window(), 50.0 * 0.875);
        law.on_timeout(&NONE_LEFT, false);
        law.on_ack(&ack(Time::ZERO, 9, RTT));
        law.on_loss(&NONE_LEFT);
        assert_eq!(law.window(), 5.0);
    }

    #[test]
    fn on_timeout_in_a_row_keeps_the_threshold_and_mistakes_are_undone() {
        let mut law = Windowed::in_avoidance(Reno, 64.0, &CONFIG);
        (0..3).for_each(|n| law.on_timeout(&NONE_LEFT, n > 0));
        assert_eq!((law.window(), law.threshold), (1.0, 32.0));
        law.on_spurious(Time::ZERO);
        assert_eq!((law.window(), law.threshold), (64.0, 64.0));
        law.on_loss(&NONE_LEFT);
        assert_eq!((law.window(), law.threshold), (32.0, 32.0));
        law.on_spurious(Time::ZERO);
        assert_eq!((law.window(), law.threshold), (64.0, 64.0));
    }

    #[test]
    fn on_timeout_leaves_room_for_what_is_on_its_way() {
        // tcp_enter_loss: one packet beside packets sent too recently to count as lost.
        let mut law = Windowed::in_avoidance(Reno, 64.0, &CONFIG);
        law.on_timeout(&LossSample { in_flight: 9, ..NONE_LEFT }, false);
        assert_eq!(law.window(), 10.0);
    }

    #[test]
    fn on_ack_does_not_grow_a_window_that_is_not_used_or_is_held() {
        let mut law = Windowed::in_avoidance(Reno, 64.0, &CONFIG);
        law.on_ack(&AckSample { window_limited: false, ..ack(Time::ZERO, 64, RTT) });
        law.on_ack(&AckSample { held: true, ..ack(Time::ZERO, 64, RTT) });
        assert_eq!(law.window(), 64.0);
        law.on_idle(Time::ZERO);
        assert_eq!(law.window(), 10.0);
    }

    #[test]
    fn every_law_keeps_to_the_largest_window_and_to_one_packet() {
        for name in LawName::ALL {
            assert_eq!(LawName::from_code(name.code()), Some(name));
            let config = LawConfig { window_max: 50, ..CONFIG };
            let mut law = name.build(&config);
            for k in 0..1_000 {
                law.on_ack(&ack(Time::ZERO + Span::from_millis(k), 10, RTT));
                assert!(law.limits().window_packets <= 50, "{name:?}");
            }
            for k in 0..100 {
                let loss = LossSample { now: Time::ZERO + Span::from_secs(10 + k), in_flight: 1 };
                law.on_timeout(&loss, k % 3 > 0);
                law.on_loss(&loss);
                assert!(law.limits().window_packets >= 1, "{name:?}");
            }
        }
        assert_eq!(LawName::from_code(0), None);
        assert_eq!(LawName::from_code(LawName::ALL.len() as u8 + 1), None);
    }
}
