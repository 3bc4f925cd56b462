//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion, independent of the
//! round-trip time. Slow start ends by HyStart (section 4.10 leaves it open), as it does in Linux.

use inhaul_base::Time;
use inhaul_transport::AckSample;

use super::hystart::HyStart;
use super::windowed::Avoidance;

/// RFC 9438 section 4.5: packets per second cubed.
const C: f64 = 0.4;
/// Section 4.6: the part kept at congestion.
const BETA: f64 = 0.7;
/// Section 4.3: growth of an AIMD window that is as large on average as standard TCP's, though cut to 0.7 only.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// The window at the last congestion, less what fast convergence gives up (W_max).
    w_max: f64,
    /// The window at the last congestion (cwnd_prior).
    prior: f64,
    epoch: Option<Epoch>,
    hystart: Option<HyStart>,
}

/// What holds from one congestion to the next.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began, put off by the time in which the window was not used.
    began: Time,
    /// When the window last grew.
    grew: Time,
    /// Seconds until the plateau (K).
    k: f64,
    /// Its height in packets.
    plateau: f64,
    /// The window that standard TCP would have (W_est).
    reno: f64,
}

impl Cubic {
    /// CUBIC, with or without HyStart.
    pub fn new(hystart: bool) -> Self {
        Self { hystart: hystart.then(HyStart::default), ..Self::default() }
    }
}

impl Epoch {
    fn new(now: Time, window: f64, w_max: f64) -> Self {
        let plateau = w_max.max(window);
        Self { began: now, grew: now, k: ((plateau - window) / C).cbrt(), plateau, reno: window }
    }

    /// W_cubic(t) of section 4.2, `t` in seconds.
    fn cubic(&self, t: f64) -> f64 {
        C * (t - self.k).powi(3) + self.plateau
    }
}

impl Avoidance for Cubic {
    fn grow(&mut self, window: f64, ack: &AckSample) -> f64 {
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(ack.now, window, self.w_max));
        epoch.grew = ack.now;
        let t = ack.now.since(epoch.began).as_secs_f64();
        let acked = ack.delivered_packets as f64;
        // Section 4.3: once past the old window, as fast as standard TCP.
        epoch.reno += if epoch.reno < self.prior { ALPHA } else { 1.0 } * acked / window;
        if epoch.cubic(t) < epoch.reno {
            return epoch.reno.max(window);
        }
        // Sections 4.4 and 4.5: towards where the curve will be a round trip later.
        let target = epoch.cubic(t + ack.smoothed_rtt.as_secs_f64()).clamp(window, 1.5 * window);
        window + acked * (target - window) / window
    }

    fn reduce(&mut self, _now: Time, window: f64) -> f64 {
        self.epoch = None;
        self.prior = window;
        // Section 4.7: a window that no longer reaches its old height makes room for others.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        window * BETA
    }

    fn on_timeout(&mut self) {
        // Section 4.8: the first congestion avoidance after a timeout begins at its plateau.
        (self.w_max, self.epoch) = (0.0, None);
        if let Some(hystart) = &mut self.hystart {
            hystart.restart();
        }
    }

    fn ends_slow_start(&mut self, window: f64, ack: &AckSample) -> bool {
        let (Some(hystart), Some(rtt)) = (&mut self.hystart, ack.rtt) else { return false };
        hystart.on_rtt(rtt);
        hystart.is_full(window, ack)
    }

    fn on_unused(&mut self, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began += now.since(epoch.grew);
            epoch.grew = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Drive;
    use super::*;
    use inhaul_base::Span;
    use inhaul_transport::Law;

    #[test]
    fn the_plateau_is_reached_after_k_seconds() {
        // RFC 9438 section 4.2: K = cbrt(W_max (1 - beta) / C). 1000 packets: cbrt(300 / 0.4) = 9.086 s.
        let mut cubic = Cubic::default();
        let after = cubic.reduce(Time::ZERO, 1_000.0);
        assert_eq!(after, 700.0);
        let epoch = Epoch::new(Time::ZERO, after, cubic.w_max);
        assert!((epoch.k - 9.0856).abs() < 1e-3, "{}", epoch.k);
        assert!((epoch.cubic(0.0) - 700.0).abs() < 1e-9 && (epoch.cubic(epoch.k) - 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn the_window_follows_the_curve_at_every_round_trip_time() {
        for rtt_ms in [20, 100, 250] {
            let mut drive = Drive::at(Cubic::default(), 1_000.0, rtt_ms);
            drive.lose();
            let began = drive.now;
            let curve = Epoch::new(began, 700.0, 1_000.0);
            while drive.now.since(began) < Span::from_secs(14) {
                drive.round();
                let t = drive.now.since(began).as_secs_f64();
                let window = drive.law.window();
                // The curve, or W_est where standard TCP is faster: 0.53 packets a round trip from 700 to 1,000, then
                // one.
                let rounds = t / (rtt_ms as f64 / 1e3);
                let to_prior = 300.0 / ALPHA;
                let reno = 700.0 + ALPHA * rounds.min(to_prior) + (rounds - to_prior).max(0.0);
                let expected = curve.cubic(t).max(reno);
                assert!((window / expected - 1.0).abs() < 0.03, "{window} for {expected} at {t} s, RTT {rtt_ms} ms");
            }
        }
    }

    #[test]
    fn a_window_that_was_cut_twice_gives_up_more() {
        let mut cubic = Cubic::default();
        cubic.reduce(Time::ZERO, 1_000.0);
        cubic.reduce(Time::ZERO, 800.0);
        assert_eq!(cubic.w_max, 800.0 * 0.85);
    }

    #[test]
    fn small_windows_grow_as_standard_tcps_would() {
        // Section 4.3: on short paths W_est is above the curve. From 70 packets, 0.53 a round trip up to 100, then
        // one.
        let mut drive = Drive::at(Cubic::default(), 100.0, 10);
        drive.lose();
        assert!((drive.rounds(50) - (70.0 + 50.0 * ALPHA)).abs() < 0.5, "{}", drive.law.window());
    }

    #[test]
    fn a_timeout_forgets_the_old_plateau() {
        // RFC 9438 section 4.8: K is zero and W_max the window at which congestion avoidance begins.
        let mut law = Cubic::default();
        law.reduce(Time::ZERO, 1_000.0);
        law.on_timeout();
        law.grow(700.0, &super::super::testing::ack(Time::ZERO, 1, Span::from_millis(100)));
        let epoch = law.epoch.unwrap();
        assert_eq!((epoch.k, epoch.plateau), (0.0, 700.0));
    }

    #[test]
    fn time_in_which_the_window_is_not_used_does_not_count() {
        let mut drive = Drive::at(Cubic::default(), 1_000.0, 100);
        drive.lose();
        let before = drive.round();
        drive.now += Span::from_secs(100);
        drive.law.on_ack(&AckSample { now: drive.now, ..AckSample::default() });
        let after = drive.round();
        assert!(after - before < 30.0, "{before} {after}");
    }
}
