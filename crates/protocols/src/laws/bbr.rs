//! BBR version 1 (Cardwell and others, *BBR: Congestion-Based Congestion Control*, ACM Queue 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00, whose names these are). Loss changes neither its rate nor its model
//! of the path. During the first round trip of a repair it sends at most as much as is delivered (4.2.3.4), and when
//! the repair ends it restores the window.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, RandomStream, Span, Time};
use inhaul_transport::{AckSample, Law, Limits, LossSample, Pace, RateSample};

use super::config::LawConfig;

/// 2 / ln 2: the least gain that doubles the rate each round trip (4.3.2).
const HIGH_GAIN: f64 = 2.89;
/// Gains of the pacing rate while bandwidth is probed, a round trip each (4.3.4).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The window is this many times the path's content: acknowledgements may be late and joined.
const WINDOW_GAIN: f64 = 2.0;
/// Round trips over which the greatest bandwidth is kept.
const BANDWIDTH_ROUNDS: u64 = 10;
/// How long the least round-trip time is believed, and for how long the queue is then drained to measure it.
const RT_PROP_SPAN: Span = Span::from_secs(10);
const PROBE_RTT_SPAN: Span = Span::from_millis(200);
/// The least window.
const WINDOW_MIN: f64 = 4.0;
/// Room in the window for packets that leave or are acknowledged in pairs (3 x send_quantum).
const QUANTA: f64 = 6.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw { phase: usize, since: Time },
    ProbeRtt { until: Option<Time>, round_passed: bool },
}

/// Whether losses are being repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Repair {
    None,
    /// By blocks.
    Fast,
    /// After a timeout.
    Timeout,
}

/// BBR version 1.
#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    /// Bandwidths by round, falling: the first is the greatest of the last rounds (BtlBw).
    bandwidths: VecDeque<(u64, f64)>,
    rt_prop: Option<Span>,
    rt_prop_at: Time,
    round: u64,
    next_round_delivered: u64,
    /// Packets sent before this count of deliveries give no sample of the bandwidth: the window was that of ProbeRTT.
    held_until: u64,
    /// Bandwidth when it last grew by a quarter, and rounds since.
    full_bandwidth: (f64, u32),
    filled: bool,
    /// Packets a second; zero while nothing is known.
    pacing: f64,
    window: f64,
    /// The window before the last repair or ProbeRTT (prior_cwnd).
    window_before: f64,
    /// Losses are being repaired, and whether they were at the last acknowledgement.
    repair: Repair,
    was_repairing: bool,
    /// No more is sent than is delivered (packet_conservation).
    conserving: bool,
    initial: f64,
    max: f64,
    packet_bytes: u64,
    random: RandomStream,
}

impl Bbr {
    /// A law at the beginning of Startup.
    pub fn new(config: &LawConfig) -> Self {
        Self {
            mode: Mode::Startup,
            bandwidths: VecDeque::new(),
            rt_prop: None,
            rt_prop_at: Time::ZERO,
            round: 0,
            next_round_delivered: 0,
            held_until: 0,
            full_bandwidth: (0.0, 0),
            filled: false,
            pacing: 0.0,
            window: config.initial_window as f64,
            window_before: 0.0,
            repair: Repair::None,
            was_repairing: false,
            conserving: false,
            initial: config.initial_window as f64,
            max: config.window_max as f64,
            packet_bytes: 0,
            random: RandomStream::new(config.seed, 0),
        }
    }

    fn bandwidth(&self) -> f64 {
        self.bandwidths.front().map_or(0.0, |b| b.1)
    }

    /// The path's content, times `gain`, with room for pairs (BBRInflight).
    fn inflight(&self, gain: f64) -> f64 {
        self.rt_prop.map_or(self.initial, |rtt| gain * self.bandwidth() * rtt.as_secs_f64() + QUANTA)
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::ProbeBw { phase, .. } => (CYCLE[phase], WINDOW_GAIN),
            Mode::ProbeRtt { .. } => (1.0, 1.0),
        }
    }

    /// Returns whether a round has begun.
    fn update_bandwidth(&mut self, rate: &RateSample, in_flight: u64) -> bool {
        // 4.3.5: "Ignore low rate samples during ProbeRTT", which would fill the window of the filter.
        if let Mode::ProbeRtt { .. } = self.mode {
            self.held_until = rate.delivered + in_flight;
        }
        let limited = rate.app_limited || rate.prior_delivered < self.held_until;
        let began = rate.prior_delivered >= self.next_round_delivered;
        if began {
            self.next_round_delivered = rate.delivered;
            self.round += 1;
            self.conserving = false;
        }
        if !limited || rate.packets_per_second >= self.bandwidth() {
            while self.bandwidths.back().is_some_and(|b| b.1 <= rate.packets_per_second) {
                self.bandwidths.pop_back();
            }
            self.bandwidths.push_back((self.round, rate.packets_per_second));
        }
        while self.bandwidths.len() > 1 && self.bandwidths[0].0 + BANDWIDTH_ROUNDS < self.round {
            self.bandwidths.pop_front();
        }
        if began && !self.filled && !limited {
            // 4.3.2.2: three rounds without a quarter more.
            if self.bandwidth() >= self.full_bandwidth.0 * 1.25 {
                self.full_bandwidth = (self.bandwidth(), 0);
            } else {
                self.full_bandwidth.1 += 1;
                self.filled = self.full_bandwidth.1 >= 3;
            }
        }
        began
    }

    fn enter_probe_bw(&mut self, now: Time) {
        // Any phase except the draining one, at random, so that flows do not probe together.
        let phase = (7 - self.random.below(7) as usize + 1) % CYCLE.len();
        self.mode = Mode::ProbeBw { phase, since: now };
    }

    fn update_mode(&mut self, ack: &AckSample, round_began: bool, rt_prop_expired: bool) {
        let in_flight = ack.in_flight as f64;
        if self.mode == Mode::Startup && self.filled {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && in_flight <= self.inflight(1.0) {
            self.enter_probe_bw(ack.now);
        }
        if let Mode::ProbeBw { phase, since } = self.mode {
            let whole = self.rt_prop.is_some_and(|rtt| ack.now.since(since) > rtt);
            let before = in_flight + ack.delivered_packets as f64;
            let next = match CYCLE[phase] {
                gain if gain > 1.0 => whole && (ack.lost_packets > 0 || before >= self.inflight(gain)),
                gain if gain < 1.0 => whole || before <= self.inflight(1.0),
                _ => whole,
            };
            if next {
                self.mode = Mode::ProbeBw { phase: (phase + 1) % CYCLE.len(), since: ack.now };
            }
        }
        if rt_prop_expired && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.save_window();
            self.mode = Mode::ProbeRtt { until: None, round_passed: false };
        }
        if let Mode::ProbeRtt { until, round_passed } = &mut self.mode {
            match until {
                None if in_flight <= WINDOW_MIN => *until = Some(ack.now + PROBE_RTT_SPAN),
                None => {}
                Some(until) => {
                    *round_passed |= round_began;
                    if *round_passed && ack.now > *until {
                        self.rt_prop_at = ack.now;
                        self.window = self.window.max(self.window_before);
                        if self.filled { self.enter_probe_bw(ack.now) } else { self.mode = Mode::Startup }
                    }
                }
            }
        }
    }

    /// Keeps the window for when a repair, or ProbeRTT, is over (BBRSaveCwnd).
    fn save_window(&mut self) {
        let shrunk = self.was_repairing || matches!(self.mode, Mode::ProbeRtt { .. });
        self.window_before = if shrunk { self.window_before.max(self.window) } else { self.window };
    }

    /// What repairs do to the window (BBRModulateCwndForRecovery). Returns whether that settles it.
    fn update_for_repair(&mut self, ack: &AckSample) -> bool {
        self.window = (self.window - ack.lost_packets as f64).max(1.0);
        let repairing = self.repair != Repair::None;
        let conserved = (ack.in_flight + ack.delivered_packets) as f64;
        if self.repair == Repair::Fast && !self.was_repairing {
            self.conserving = true;
            // A round begins now.
            self.next_round_delivered = ack.rate.map_or(self.next_round_delivered, |rate| rate.delivered);
            self.window = conserved;
        } else if self.was_repairing && !repairing {
            self.window = self.window.max(self.window_before);
            self.conserving = false;
        }
        self.was_repairing = repairing;
        if self.conserving {
            self.window = self.window.max(conserved);
        }
        self.conserving
    }

    /// Takes in a round-trip time. Returns whether the least of them has not been seen again for too long.
    fn update_rt_prop(&mut self, ack: &AckSample) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        let expired = self.rt_prop.is_some() && ack.now > self.rt_prop_at + RT_PROP_SPAN;
        if expired || self.rt_prop.is_none_or(|least| rtt <= least) {
            self.rt_prop = Some(rtt);
            self.rt_prop_at = ack.now;
        }
        expired
    }
}

impl Law for Bbr {
    fn on_ack(&mut self, ack: &AckSample) {
        self.packet_bytes = ack.packet_bytes;
        let round_began = ack.rate.is_some_and(|rate| self.update_bandwidth(&rate, ack.in_flight));
        let expired = self.update_rt_prop(ack);
        self.update_mode(ack, round_began, expired);
        let (pacing_gain, window_gain) = self.gains();
        let pacing = pacing_gain * self.bandwidth();
        if self.filled || pacing > self.pacing {
            self.pacing = pacing;
        }
        if !self.update_for_repair(ack) {
            let (target, grown) = (self.inflight(window_gain), self.window + ack.delivered_packets as f64);
            if self.filled {
                self.window = grown.min(target);
            } else if self.window < target {
                self.window = grown;
            }
            self.window = self.window.max(WINDOW_MIN);
        }
        self.window = self.window.min(self.max.max(WINDOW_MIN));
    }

    fn on_loss(&mut self, _loss: &LossSample) {
        self.save_window();
        self.repair = Repair::Fast;
    }

    fn on_timeout(&mut self, loss: &LossSample, _repeated: bool) {
        self.save_window();
        self.repair = Repair::Timeout;
        self.was_repairing = true;
        // Later samples are judged anew: the path may have changed.
        self.full_bandwidth.0 = 0.0;
        self.window = loss.in_flight as f64 + 1.0;
    }

    fn on_recovered(&mut self, _now: Time) {
        self.repair = Repair::None;
    }

    fn on_spurious(&mut self, _now: Time) {
        self.window = self.window.max(self.window_before);
        self.full_bandwidth = (0.0, 0);
    }

    fn rules_recovery(&self) -> bool {
        true
    }

    fn on_idle(&mut self, _now: Time) {}

    fn limits(&self) -> Limits {
        let window = if let Mode::ProbeRtt { .. } = self.mode { self.window.min(WINDOW_MIN) } else { self.window };
        let bits = self.pacing * self.packet_bytes as f64 * 8.0;
        let pace = if bits >= 1.0 { Pace::Rate(Bitrate::from_f64(bits)) } else { Pace::Unpaced };
        Limits { window_packets: window.min(self.max) as u64, pace }
    }
}

#[cfg(test)]
#[path = "bbr_tests.rs"]
mod tests;
