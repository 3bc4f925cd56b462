//! BBR version 3 (draft-ietf-ccwg-bbr, whose names these are): beside the bandwidth and the least round-trip time it
//! keeps bounds on the data in flight, learnt from losses or a plateau. It probes for seconds apart instead of all
//! eight round trips, and leaves room for others in between.

use inhaul_base::{Bitrate, RandomStream, Span, Time};
use inhaul_transport::{AckSample, Law, Limits, LossSample, Pace, RateSample};

use super::config::LawConfig;

/// 4 ln 2 and 2: the least gains with which pace and window double in a round trip.
const STARTUP_PACING_GAIN: f64 = 2.77;
const WINDOW_GAIN: f64 = 2.0;
/// The queue of Startup is drained at half the rate, for at most this many rounds.
const DRAIN_PACING_GAIN: f64 = 0.5;
const DRAIN_ROUNDS: u64 = 3;
/// The pace is a little below the measured rate, so that queues drain.
const PACING_MARGIN: f64 = 0.01;
/// A plateau: this many rounds without a growth by a quarter.
const FULL_BANDWIDTH_ROUNDS: u32 = 3;
const FULL_BANDWIDTH_GROWTH: f64 = 1.25;
/// If more than this part of the data in flight was lost, it was too much.
const LOSS_MAX: f64 = 0.02;
/// Acknowledgements with losses in a round of Startup that end it (the draft counts discontiguous ranges of losses).
const STARTUP_LOSSES: u32 = 6;
/// The part of a bound kept after a round with losses.
const BETA: f64 = 0.7;
/// The part of the maximum in flight that is left to others.
const HEADROOM: f64 = 0.15;
/// From one probe of the bandwidth to the next: two to three seconds, or as many rounds as standard TCP would need to
/// grow by the path's content, but at most 62 or 63.
const PROBE_WAIT: Span = Span::from_secs(2);
const PROBE_WAIT_RANDOM: Span = Span::from_secs(1);
const PROBE_ROUNDS_MAX: u64 = 63;
/// For how long the least round-trip time is believed.
const MIN_RTT_SPAN: Span = Span::from_secs(10);
/// The time between its measurements in an empty queue, the length of one, and the packets in flight meanwhile.
const PROBE_RTT_GAP: Span = Span::from_secs(5);
const PROBE_RTT_SPAN: Span = Span::from_millis(200);
const PROBE_RTT_WINDOW_GAIN: f64 = 0.5;
/// The least window.
const WINDOW_MIN: f64 = 4.0;
/// Room for packets that leave or are acknowledged in pairs (3 x send_quantum).
const QUANTA: f64 = 6.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Startup,
    Drain {
        since_round: u64,
    },
    /// ProbeBW_DOWN: the queue of the probe drains.
    Down,
    Cruise,
    /// The path is filled again before it is probed.
    Refill,
    /// ProbeBW_UP: more and more is in flight, until losses or a plateau.
    Up,
    ProbeRtt {
        until: Option<Time>,
        round_passed: bool,
    },
}

/// The phase whose packets are being acknowledged (ack_phase).
#[derive(Clone, Copy, Debug, PartialEq)]
enum AckPhase {
    Other,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Whether the bandwidth still grows (full_bw).
#[derive(Clone, Copy, Debug, Default)]
struct Plateau {
    bandwidth: f64,
    rounds: u32,
    reached: bool,
}

/// What congestion in the round before says, until the path is probed again (bw_shortterm, inflight_shortterm).
#[derive(Clone, Copy, Debug)]
struct ShortTerm {
    bandwidth: f64,
    in_flight: f64,
}

/// BBR version 3.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    state: State,
    round: u64,
    next_round_delivered: u64,
    /// The greatest bandwidths of the last cycle of probes and of this one (MaxBwFilter).
    bandwidths: [f64; 2],
    plateau: Plateau,
    /// The pipe has been filled once (full_bw_reached).
    filled: bool,
    short_term: Option<ShortTerm>,
    /// The most that was in flight without too many losses (inflight_longterm); infinite before there were any.
    long_term: f64,
    /// The greatest bandwidth and amount delivered in this round of losses, and when that ends.
    latest: (f64, f64),
    loss_round_delivered: u64,
    lossy_acks: u32,
    ack_phase: AckPhase,
    /// Losses may say that the present probe has gone too far.
    probe_is_judged: bool,
    probe_went_too_far: bool,
    /// How the bound grows while it is probed: deliveries for one packet more, deliveries so far, rounds so far.
    growth: (f64, f64, u32),
    cycle_began: Time,
    probe_wait: Span,
    rounds_since_probe: u64,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    probe_rtt_min: Option<Span>,
    probe_rtt_min_at: Time,
    repairing: bool,
    recovery_round: u64,
    pacing: f64,
    window: f64,
    window_before: f64,
    initial: f64,
    max: f64,
    packet_bytes: u64,
    random: RandomStream,
}

impl Bbr3 {
    /// A law at the beginning of Startup.
    pub fn new(config: &LawConfig) -> Self {
        Self {
            state: State::Startup,
            round: 0,
            next_round_delivered: 0,
            bandwidths: [0.0; 2],
            plateau: Plateau::default(),
            filled: false,
            short_term: None,
            long_term: f64::INFINITY,
            latest: (0.0, 0.0),
            loss_round_delivered: 0,
            lossy_acks: 0,
            ack_phase: AckPhase::Other,
            probe_is_judged: false,
            probe_went_too_far: false,
            growth: (f64::INFINITY, 0.0, 0),
            cycle_began: Time::ZERO,
            probe_wait: PROBE_WAIT,
            rounds_since_probe: 0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: None,
            probe_rtt_min_at: Time::ZERO,
            repairing: false,
            recovery_round: 0,
            pacing: 0.0,
            window: config.initial_window as f64,
            window_before: 0.0,
            initial: config.initial_window as f64,
            max: config.window_max as f64,
            packet_bytes: 0,
            random: RandomStream::new(config.seed, 0),
        }
    }

    // --- The model of the
    // path -----------------------------------------------------------------------------------------

    fn max_bandwidth(&self) -> f64 {
        self.bandwidths[0].max(self.bandwidths[1])
    }

    /// The bandwidth to use: the greatest of the last two cycles, as far as losses in this one allow it.
    fn bandwidth(&self) -> f64 {
        self.short_term.map_or(self.max_bandwidth(), |bound| self.max_bandwidth().min(bound.bandwidth))
    }

    /// The path's content at `bandwidth`, times `gain` (BBRBDPMultiple).
    fn product(&self, bandwidth: f64, gain: f64) -> f64 {
        self.min_rtt.map_or(self.initial, |rtt| gain * bandwidth * rtt.as_secs_f64())
    }

    /// The same, with room for pairs (BBRInflight).
    fn inflight(&self, gain: f64) -> f64 {
        let up = if self.state == State::Up { 2.0 } else { 0.0 };
        self.product(self.bandwidth(), gain).max(QUANTA) + up
    }

    fn with_headroom(&self) -> f64 {
        ((1.0 - HEADROOM) * self.long_term).min(self.long_term - 1.0).max(WINDOW_MIN)
    }

    fn is_probing(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    fn is_in_cycle(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    fn begin_round(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    /// Takes in a measurement. Returns whether a round has begun.
    fn update_model(&mut self, ack: &AckSample, rate: &RateSample) -> bool {
        let round_began = rate.prior_delivered >= self.next_round_delivered;
        if round_began {
            self.begin_round(rate.delivered);
            self.round += 1;
            self.rounds_since_probe += 1;
        }
        let bandwidth = rate.packets_per_second;
        let since = (rate.delivered - rate.prior_delivered) as f64;
        self.latest = (self.latest.0.max(bandwidth), self.latest.1.max(since));
        if bandwidth >= self.max_bandwidth() || !rate.app_limited {
            self.bandwidths[1] = self.bandwidths[1].max(bandwidth);
        }
        self.lossy_acks += u32::from(ack.lost_packets > 0);
        let loss_round_began = rate.prior_delivered >= self.loss_round_delivered;
        if loss_round_began {
            self.loss_round_delivered = rate.delivered;
            self.adapt_lower_bounds();
        }
        self.check_startup_losses(rate, loss_round_began);
        if loss_round_began {
            self.lossy_acks = 0;
            self.latest = (bandwidth, since);
        }
        self.check_plateau(rate, round_began);
        round_began
    }

    /// A round with losses brings the short-term bounds down (BBRAdaptLowerBounds).
    fn adapt_lower_bounds(&mut self) {
        if self.is_probing() || self.lossy_acks == 0 {
            return;
        }
        let bound = self.short_term.unwrap_or(ShortTerm { bandwidth: self.max_bandwidth(), in_flight: self.window });
        self.short_term = Some(ShortTerm {
            bandwidth: self.latest.0.max(BETA * bound.bandwidth),
            in_flight: self.latest.1.max(BETA * bound.in_flight),
        });
    }

    fn check_plateau(&mut self, rate: &RateSample, round_began: bool) {
        if self.plateau.reached || rate.app_limited {
            return;
        }
        if rate.packets_per_second >= self.plateau.bandwidth * FULL_BANDWIDTH_GROWTH {
            self.plateau = Plateau { bandwidth: rate.packets_per_second, ..Plateau::default() };
        } else if round_began {
            self.plateau.rounds += 1;
            self.plateau.reached = self.plateau.rounds >= FULL_BANDWIDTH_ROUNDS;
            self.filled |= self.plateau.reached;
        }
    }

    /// Losses throughout a round of Startup mean that the pipe is full (BBRCheckStartupHighLoss).
    fn check_startup_losses(&mut self, rate: &RateSample, loss_round_began: bool) {
        let whole_round = self.repairing && self.round > self.recovery_round;
        if self.filled || !loss_round_began || !whole_round || self.lossy_acks < STARTUP_LOSSES || !too_high(rate) {
            return;
        }
        self.filled = true;
        self.long_term = self.product(self.max_bandwidth(), 1.0).max(self.latest.1);
    }

    /// Whether the least round-trip time must be measured in an empty queue.
    fn update_min_rtt(&mut self, ack: &AckSample) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        let expired = self.probe_rtt_min.is_some() && ack.now > self.probe_rtt_min_at + PROBE_RTT_GAP;
        let lower = self.probe_rtt_min.is_none_or(|least| rtt < least);
        if expired || lower {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_min_at = ack.now;
        }
        let stale = ack.now > self.min_rtt_at + MIN_RTT_SPAN;
        if stale || self.min_rtt.is_none() || self.probe_rtt_min < self.min_rtt {
            self.min_rtt = self.probe_rtt_min;
            self.min_rtt_at = self.probe_rtt_min_at;
        }
        expired && !lower
    }

    /// The bound on data in flight grows with the observed data in flight, or falls at losses (BBRAdaptLongTermModel).
    fn adapt_upper_bounds(&mut self, ack: &AckSample, rate: &RateSample, round_began: bool) {
        if round_began {
            match self.ack_phase {
                AckPhase::ProbeStarting => self.ack_phase = AckPhase::ProbeFeedback,
                AckPhase::ProbeStopping => {
                    self.ack_phase = AckPhase::Other;
                    self.probe_is_judged = false;
                    if self.is_in_cycle() && !rate.app_limited {
                        self.bandwidths = [self.bandwidths[1], 0.0];
                    }
                }
                _ => {}
            }
        }
        let in_flight = rate.in_flight_at_send as f64;
        if too_high(rate) {
            if self.probe_is_judged {
                self.on_probe_too_high(ack.now, rate);
            }
        } else if self.long_term.is_finite() {
            self.long_term = self.long_term.max(in_flight);
            if self.state == State::Up {
                self.probe_upward(ack, round_began);
            }
        }
    }

    fn on_probe_too_high(&mut self, now: Time, rate: &RateSample) {
        self.probe_is_judged = false;
        if !rate.app_limited {
            let target = self.product(self.bandwidth(), 1.0).min(self.window);
            self.long_term = (rate.in_flight_at_send as f64).max(BETA * target);
        }
        self.probe_went_too_far = true;
        if self.state == State::Up {
            self.begin_down(now, rate.delivered);
        }
    }

    /// While the bound holds the flow back it grows: by 1, 2, 4 ... packets a round trip.
    fn probe_upward(&mut self, ack: &AckSample, round_began: bool) {
        if !self.is_window_full(ack) || self.window < self.long_term {
            return;
        }
        self.growth.1 += ack.delivered_packets as f64;
        if self.growth.1 >= self.growth.0 {
            let more = (self.growth.1 / self.growth.0).floor();
            self.growth.1 -= more * self.growth.0;
            self.long_term += more;
        }
        if round_began {
            self.steepen();
        }
    }

    fn steepen(&mut self) {
        let more = f64::from(1u32 << self.growth.2.min(30));
        self.growth = ((self.window / more).max(1.0), self.growth.1, self.growth.2 + 1);
    }

    /// Whether the window, not the pace, held packets back.
    fn is_window_full(&self, ack: &AckSample) -> bool {
        (ack.in_flight + ack.delivered_packets) as f64 + 1.0 > self.window
    }

    // --- States --------------------------------------------------------------------------------------------------------

    fn begin_down(&mut self, now: Time, delivered: u64) {
        self.state = State::Down;
        (self.latest, self.lossy_acks) = ((0.0, 0.0), 0);
        self.growth.0 = f64::INFINITY;
        // At random, so that flows do not probe together.
        self.rounds_since_probe = self.random.below(2);
        self.probe_wait = PROBE_WAIT + PROBE_WAIT_RANDOM.mul_f64(self.random.unit());
        self.cycle_began = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.begin_round(delivered);
    }

    fn begin_cruise(&mut self) {
        self.state = State::Cruise;
        if let Some(bound) = &mut self.short_term {
            bound.in_flight = bound.in_flight.min(self.long_term);
        }
    }

    fn begin_refill(&mut self, delivered: u64) {
        self.state = State::Refill;
        self.short_term = None;
        (self.growth.1, self.growth.2) = (0.0, 0);
        self.probe_went_too_far = false;
        self.ack_phase = AckPhase::Other;
        self.begin_round(delivered);
    }

    fn begin_up(&mut self, rate: &RateSample) {
        self.state = State::Up;
        self.probe_is_judged = true;
        self.ack_phase = AckPhase::ProbeStarting;
        self.plateau = Plateau { bandwidth: rate.packets_per_second, ..Plateau::default() };
        self.begin_round(rate.delivered);
        self.steepen();
    }

    fn is_time_to_probe(&self, now: Time) -> bool {
        // As often as standard TCP on the same path would find room: fair to it where it is at home.
        let rounds = PROBE_ROUNDS_MAX.min(self.product(self.bandwidth(), 1.0).min(self.window) as u64);
        now > self.cycle_began + self.probe_wait || self.rounds_since_probe >= rounds.max(1)
    }

    fn update_state(&mut self, ack: &AckSample, rate: &RateSample, round_began: bool) {
        let in_flight = ack.in_flight as f64;
        match self.state {
            State::Startup if self.filled => self.state = State::Drain { since_round: self.round },
            State::Drain { since_round }
                if in_flight <= self.inflight(1.0) || self.round >= since_round + DRAIN_ROUNDS =>
            {
                self.begin_down(ack.now, rate.delivered);
            }
            State::Down | State::Cruise if self.is_time_to_probe(ack.now) => self.begin_refill(rate.delivered),
            State::Down if in_flight <= self.with_headroom() && in_flight <= self.inflight(1.0) => self.begin_cruise(),
            State::Refill if round_began => self.begin_up(rate),
            State::Up => {
                let bounded = self.is_window_full(ack) && self.window >= self.long_term;
                if bounded && !self.probe_went_too_far {
                    // The bound, not the path, limits the growth of bandwidth.
                    self.plateau = Plateau { bandwidth: rate.packets_per_second, ..Plateau::default() };
                } else if bounded || self.plateau.reached {
                    self.begin_down(ack.now, rate.delivered);
                }
            }
            _ => {}
        }
    }

    /// Begins, and ends, measurements of the least round-trip time.
    fn update_probe_rtt(&mut self, ack: &AckSample, expired: bool, round_began: bool) {
        if expired && !matches!(self.state, State::ProbeRtt { .. }) {
            self.window_before = self.window_before.max(self.window);
            self.state = State::ProbeRtt { until: None, round_passed: false };
            self.ack_phase = AckPhase::ProbeStopping;
        }
        let window = self.probe_rtt_window();
        let State::ProbeRtt { until, round_passed } = &mut self.state else { return };
        let Some(until) = until else {
            if ack.in_flight as f64 <= window {
                *until = Some(ack.now + PROBE_RTT_SPAN);
                self.next_round_delivered = ack.rate.map_or(self.next_round_delivered, |rate| rate.delivered);
            }
            return;
        };
        *round_passed |= round_began;
        if *round_passed && ack.now > *until {
            self.probe_rtt_min_at = ack.now;
            self.window = self.window.max(self.window_before);
            self.window_before = 0.0;
            self.short_term = None;
            if self.filled {
                self.begin_down(ack.now, ack.rate.map_or(self.next_round_delivered, |rate| rate.delivered));
                self.begin_cruise();
            } else {
                self.state = State::Startup;
            }
        }
    }

    fn probe_rtt_window(&self) -> f64 {
        self.product(self.bandwidth(), PROBE_RTT_WINDOW_GAIN).max(WINDOW_MIN)
    }

    // --- Limits of sending
    // ---------------------------------------------------------------------------------------------

    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (STARTUP_PACING_GAIN, WINDOW_GAIN),
            State::Drain { .. } => (DRAIN_PACING_GAIN, WINDOW_GAIN),
            State::Down => (0.9, WINDOW_GAIN),
            State::Cruise | State::Refill => (1.0, WINDOW_GAIN),
            State::Up => (1.25, 2.25),
            State::ProbeRtt { .. } => (1.0, PROBE_RTT_WINDOW_GAIN),
        }
    }

    fn set_pace_and_window(&mut self, ack: &AckSample) {
        let (pacing_gain, window_gain) = self.gains();
        let pacing = pacing_gain * self.bandwidth() * (1.0 - PACING_MARGIN);
        if self.filled || pacing > self.pacing {
            self.pacing = pacing;
        }
        let (target, grown) = (self.inflight(window_gain), self.window + ack.delivered_packets as f64);
        if self.filled {
            self.window = grown.min(target);
        } else if self.window < target || self.window < 2.0 * self.initial {
            self.window = grown;
        }
        let bound = match self.state {
            State::ProbeRtt { .. } => self.with_headroom().min(self.probe_rtt_window()),
            State::Cruise => self.with_headroom(),
            State::Down | State::Refill | State::Up => self.long_term,
            State::Startup | State::Drain { .. } => f64::INFINITY,
        };
        let bound = self.short_term.map_or(bound, |short_term| bound.min(short_term.in_flight));
        self.window = self.window.min(bound).clamp(WINDOW_MIN, self.max.max(WINDOW_MIN));
    }
}

/// Whether the loss shows that too much data was in flight (IsInflightTooHigh).
fn too_high(rate: &RateSample) -> bool {
    rate.lost as f64 > rate.in_flight_at_send as f64 * LOSS_MAX
}

impl Law for Bbr3 {
    fn on_ack(&mut self, ack: &AckSample) {
        self.packet_bytes = ack.packet_bytes;
        let expired = self.update_min_rtt(ack);
        let mut round_began = false;
        if let Some(rate) = &ack.rate {
            round_began = self.update_model(ack, rate);
            if self.filled {
                self.adapt_upper_bounds(ack, rate, round_began);
            }
            self.update_state(ack, rate, round_began);
        }
        self.update_probe_rtt(ack, expired, round_began);
        self.set_pace_and_window(ack);
    }

    fn on_loss(&mut self, _loss: &LossSample) {
        self.window_before = self.window_before.max(self.window);
        (self.repairing, self.recovery_round) = (true, self.round);
    }

    fn on_timeout(&mut self, loss: &LossSample, _repeated: bool) {
        self.window_before = self.window_before.max(self.window);
        self.repairing = true;
        self.recovery_round = self.round;
        self.plateau = Plateau::default();
        if !self.is_probing() && self.short_term.is_none() {
            self.short_term = Some(ShortTerm { bandwidth: self.max_bandwidth(), in_flight: self.window_before });
        }
        self.window = loss.in_flight as f64 + 1.0;
    }

    fn on_recovered(&mut self, _now: Time) {
        // The bounds say how much of it losses leave.
        self.repairing = false;
        if !matches!(self.state, State::ProbeRtt { .. }) {
            self.window = self.window.max(std::mem::take(&mut self.window_before));
        }
    }

    fn on_spurious(&mut self, _now: Time) {
        self.window = self.window.max(self.window_before);
        self.short_term = None;
        self.plateau = Plateau::default();
    }

    fn on_idle(&mut self, _now: Time) {}

    fn rules_recovery(&self) -> bool {
        true
    }

    fn limits(&self) -> Limits {
        let bits = self.pacing * self.packet_bytes as f64 * 8.0;
        let pace = if bits >= 1.0 { Pace::Rate(Bitrate::from_f64(bits)) } else { Pace::Unpaced };
        Limits { window_packets: self.window.min(self.max) as u64, pace }
    }
}

#[cfg(test)]
#[path = "bbr3_tests.rs"]
mod tests;
