//! UDT's own congestion control: a rate by AIMD whose increase depends on the capacity that is left, and a window
//! beside it (udt-2004 2.3, draft-gg-udt-03 section 6).

use inhaul_base::{RandomStream, Span, Time};

use super::samples::{ControlLimits, Nak, Progress, Tick};
use super::terms::SYN;

/// The published variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// UDT 1 (2003), which gtp-2004 and eval-2004 measured: a third control, by delay. The rate falls when the receiver
    /// warns of delay that grows; the flow window is smoothed; a freeze after a loss.
    Udt1,
    /// udt-2004: the flow window is AS * (RTT + SYN), and the rate is looked at each SYN.
    Paper2004,
    /// UDT 4: further decreases at random, no freeze, 16 packets more of window, and a cautious increase below the
    /// rate of the last decrease.
    Udt4,
}

/// Packets that leave before anything is known.
const START_WINDOW: u64 = 16;
/// The period until slow start ends: the window alone holds packets back.
const START_PERIOD_NANOS: f64 = 1_000.0;
/// Shorter and longer periods are no use.
const PERIOD_NANOS_MIN: f64 = 10.0;
const PERIOD_NANOS_MAX: f64 = 1e9;
/// A decrease: the rate falls by 1/9.
const DECREASE: f64 = 1.125;
/// UDT 4: packets that the window has beyond what arrives in a round trip and a SYN.
pub const WINDOW_MORE: u64 = 16;
/// Least window beside the rate, in packets.
const WINDOW_MIN: f64 = 2.0;
const SYN_NANOS: f64 = SYN.as_nanos() as f64;
/// UDT 4: this many NAKs of a congestion event count, later ones change nothing (libudt's code; the draft counts all).
/// So the rate falls by at most half in one event.
const NAKS_MAX: u64 = 5;
/// UDT 4: least increase for each SYN, in packets.
const INCREASE_MIN_UDT4: f64 = 0.01;
/// UDT 1: the rate does not rise while more of the packets are lost than this, by an average in which the last SYN counts
/// 7/8.
const LOSS_MAX: f64 = 0.01;
/// udt-2004 gives no rule for further NAKs of one congestion event. As in SABUL 2, from which UDT came, the 16th, the
/// 32nd and so on decrease the rate again.
const NAKS_AGAIN: u64 = 16;

/// The state of UDT's control. Periods are in nanoseconds, speeds in packets a second.
pub struct Native {
    variant: Variant,
    window_max: u64,
    window_more: u64,
    random: RandomStream,
    slow_start: bool,
    /// Packets that may be unacknowledged; a part of a packet counts as one, or a small window would never grow.
    window: f64,
    period: f64,
    /// When the rate was last looked at.
    looked: Time,
    /// Packets acknowledged since.
    delivered: u64,
    /// A NAK came since.
    lost: bool,
    /// Packets reported lost since, and the average part lost (UDT 1).
    lost_packets: u64,
    loss: f64,
    frozen_until: Time,
    /// The period before the last congestion event's first decrease.
    period_before: f64,
    /// A loss of this packet or a later one is a new congestion event.
    event_end: u64,
    /// NAKs of this event that count.
    naks: u64,
    /// Average number of NAKs in an event.
    average_naks: f64,
    /// The rate is decreased again each time that this many NAKs came.
    again_every: u64,
}

impl Native {
    /// As yet nothing is known; `window_max` ends slow start.
    pub fn new(variant: Variant, window_max: u64, seed: u64) -> Self {
        Self {
            variant,
            window_max,
            window_more: WINDOW_MORE,
            random: RandomStream::new(seed, 0),
            slow_start: true,
            window: START_WINDOW as f64,
            period: START_PERIOD_NANOS,
            looked: Time::ZERO,
            delivered: 0,
            lost: false,
            lost_packets: 0,
            loss: 0.0,
            frozen_until: Time::ZERO,
            period_before: START_PERIOD_NANOS,
            event_end: 0,
            naks: 0,
            average_naks: 1.0,
            again_every: 1,
        }
    }

    /// The same with this many more packets of window in variant 4.
    #[must_use]
    pub fn with_window_more(self, window_more: u64) -> Self {
        Self { window_more, ..self }
    }

    /// UDT 4 looks at its rate when a full ACK comes, the others by a timer.
    pub(super) fn has_timer(&self) -> bool {
        self.variant != Variant::Udt4
    }

    pub(super) fn on_ack(&mut self, progress: &Progress) {
        self.delivered += progress.delivered;
        // Full ACKs come a SYN apart, with the path's jitter.
        if !progress.full || !self.has_timer() && progress.now.since(self.looked) < SYN / 2 {
            return;
        }
        self.looked = progress.now;
        let delivered = std::mem::take(&mut self.delivered);
        if self.slow_start {
            if progress.held_back {
                self.window += delivered as f64;
            }
            if self.window > self.window_max as f64 {
                self.end_slow_start(progress.arrival_speed, progress.rtt);
            }
            return;
        }
        self.set_window(progress);
        if !self.has_timer() && !std::mem::take(&mut self.lost) && progress.held_back {
            self.rise(progress.capacity, progress.packet_bytes);
        }
    }

    /// The flow window, by the arrivals of a round trip and a SYN (udt-2004 2.3).
    fn set_window(&mut self, progress: &Progress) {
        let flow = |speed: f64| speed * (progress.rtt + SYN).as_secs_f64();
        let known = |speed: f64| speed > 0.0;
        match self.variant {
            Variant::Udt4 if known(progress.arrival_speed) => {
                self.window = flow(progress.arrival_speed).floor() + self.window_more as f64;
            }
            Variant::Paper2004 if known(progress.speed_said) => self.window = flow(progress.speed_said),
            Variant::Udt1 if known(progress.speed_said) => {
                self.window = (self.window * 0.875 + flow(progress.speed_said) * 0.125).ceil();
            }
            _ => {}
        }
        self.window = self.window.max(WINDOW_MIN);
        if self.variant == Variant::Udt1 {
            // UDT 1: at least one packet leaves in a round trip.
            self.set_period(self.period.min(progress.rtt.as_nanos() as f64));
        }
    }

    /// The timer of rate control fired: a SYN is over (udt-2004 2.3: an increase each 10 ms, if no NAK came in it).
    pub(super) fn on_tick(&mut self, tick: &Tick) {
        let (lost, packets) = (std::mem::take(&mut self.lost), std::mem::take(&mut self.lost_packets));
        let part = packets as f64 / tick.sent.max(1) as f64;
        self.loss = self.loss * 0.125 + part.min(1.0) * 0.875;
        let stays = if self.variant == Variant::Udt1 { self.loss > LOSS_MAX } else { lost };
        if !self.slow_start && !stays && tick.held_back {
            self.rise(tick.capacity, tick.packet_bytes);
        }
    }

    fn rise(&mut self, capacity: f64, packet_bytes: u64) {
        let increase = self.increase(capacity, packet_bytes);
        self.set_period(self.period * SYN_NANOS / (self.period * increase + SYN_NANOS));
    }

    /// Packets more to send in the next SYN.
    fn increase(&self, capacity: f64, packet_bytes: u64) -> f64 {
        let mut left = capacity - 1e9 / self.period;
        let least = match self.variant {
            Variant::Udt1 | Variant::Paper2004 => 1.0 / packet_bytes as f64,
            Variant::Udt4 => {
                // Below the rate at which packets were lost, only the capacity freed by the decrease is certain.
                if self.period > self.period_before {
                    left = left.min(capacity / 9.0);
                }
                INCREASE_MIN_UDT4
            }
        };
        increase(left, packet_bytes, least)
    }

    pub(super) fn on_nak(&mut self, nak: &Nak) {
        if self.slow_start {
            let known = nak.arrival_speed > 0.0;
            self.end_slow_start(nak.arrival_speed, nak.rtt);
            if known {
                return;
            }
        }
        self.lost = true;
        self.lost_packets += nak.packets;
        if nak.first_lost >= self.event_end {
            self.begin_event(nak);
            if self.variant == Variant::Udt1 {
                self.frozen_until = nak.now + SYN;
            }
            return;
        }
        if self.variant == Variant::Udt4 && self.naks >= NAKS_MAX {
            return;
        }
        self.naks += 1;
        let again = match self.variant {
            Variant::Udt1 | Variant::Paper2004 => self.naks >= NAKS_AGAIN && self.naks.is_power_of_two(),
            Variant::Udt4 => self.naks.is_multiple_of(self.again_every),
        };
        if again {
            if self.variant == Variant::Udt4 {
                self.event_end = nak.next;
            }
            self.set_period(self.period * DECREASE);
        }
    }

    /// The delay grows: UDT 1 yields before packets are lost. Losses of packets in flight belong to the same event.
    pub(super) fn on_warning(&mut self, nak: &Nak) {
        if self.variant != Variant::Udt1 {
            return;
        }
        if self.slow_start {
            self.end_slow_start(nak.arrival_speed, nak.rtt);
        }
        self.begin_event(nak);
    }

    /// A congestion event begins.
    fn begin_event(&mut self, nak: &Nak) {
        self.period_before = self.period;
        self.average_naks = (self.average_naks * 0.875 + self.naks as f64 * 0.125).ceil().max(1.0);
        self.naks = 1;
        if self.variant == Variant::Udt4 {
            self.again_every = 1 + self.random.below(self.average_naks as u64);
        }
        self.event_end = nak.next;
        self.set_period(self.period * DECREASE);
    }

    /// Slow start found the speed at which packets arrive; where it did not, the window's.
    fn end_slow_start(&mut self, arrival_speed: f64, rtt: Span) {
        self.slow_start = false;
        let by_window = (rtt + SYN).as_nanos() as f64 / self.window;
        self.set_period(if arrival_speed > 0.0 { 1e9 / arrival_speed } else { by_window });
    }

    /// No message came for long. The rate stays, as in UDT 4: it paces retransmissions.
    pub(super) fn on_expired(&mut self, nak: &Nak) {
        if self.slow_start {
            self.end_slow_start(nak.arrival_speed, nak.rtt);
        }
    }

    fn set_period(&mut self, nanos: f64) {
        self.period = nanos.clamp(PERIOD_NANOS_MIN, PERIOD_NANOS_MAX);
    }

    pub(super) fn limits(&self) -> ControlLimits {
        let Self { window, period, frozen_until, .. } = *self;
        ControlLimits { window: (window.ceil() as u64).min(self.window_max), period_nanos: period, frozen_until }
    }
}

/// The increase for each SYN, in packets of `packet_bytes` (udt-2004 2.3): by a power of ten of the path's unused
/// capacity, in packets a second.
fn increase(left: f64, packet_bytes: u64, least: f64) -> f64 {
    if left <= 0.0 {
        return least;
    }
    let bytes = packet_bytes as f64;
    let bits = (left * bytes * 8.0).log10().ceil();
    (10f64.powf(bits - 9.0) * 1500.0 / bytes).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);
    const PACKETS_A_MBIT: f64 = 1e6 / 12_000.0;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn progress(now: Time, delivered: u64, capacity_mbps: f64) -> Progress {
        Progress {
            now,
            full: true,
            delivered,
            first: 0,
            next: 0,
            in_flight: 0,
            rtt: RTT,
            arrival_speed: 0.0,
            speed_said: 0.0,
            capacity: capacity_mbps * PACKETS_A_MBIT,
            packet_bytes: 1500,
            held_back: true,
        }
    }

    fn nak(now: Time, first_lost: u64, next: u64, arrival_speed: f64) -> Nak {
        Nak { now, first_lost, packets: 1, next, in_flight: 0, rtt: RTT, arrival_speed }
    }

    /// Out of slow start, at this rate.
    fn at_rate(variant: Variant, mbps: f64) -> Native {
        let mut native = Native::new(variant, 1_000_000, 1);
        native.on_nak(&nak(at(0), 0, 10, mbps * PACKETS_A_MBIT));
        native
    }

    fn mbps(native: &Native) -> f64 {
        1e9 / native.period / PACKETS_A_MBIT
    }

    #[test]
    fn increments_are_those_of_table_1() {
        // udt-2004 Table 1: available bandwidth in Mbit/s, and packets of 1500 bytes more in each SYN.
        for (low, high, packets) in [(100.0, 1_000.0, 1.0), (10.0, 100.0, 0.1), (1.0, 10.0, 0.01)] {
            for left in [low * 1.001, (low + high) / 2.0, high * 0.999] {
                let got = increase(left * PACKETS_A_MBIT, 1500, 1.0 / 1500.0);
                assert!((got / packets - 1.0).abs() < 1e-9, "{left} Mbit/s: {got}");
            }
        }
        // Packets of another size: the same bits. Nothing left, or nearly: a byte.
        assert!((increase(500e6 / 72_000.0, 9000, 1.0 / 9000.0) - 1.0 / 6.0).abs() < 1e-9);
        assert_eq!(increase(-5.0, 1500, 1.0 / 1500.0), 1.0 / 1500.0);
        assert_eq!(increase(1.0, 1500, 1.0 / 1500.0), 1.0 / 1500.0);
    }

    #[test]
    fn an_increase_of_a_packet_each_syn_is_one_more_in_the_next() {
        let mut native = at_rate(Variant::Udt4, 500.0);
        let before = SYN_NANOS / native.period;
        native.on_ack(&progress(at(10), 400, 1_000.0));
        assert!((SYN_NANOS / native.period - before - 1.0).abs() < 1e-9);
        // Not if a NAK came since, or too soon after the last increase, or if no limit held the sender back.
        native.lost = true;
        native.on_ack(&progress(at(20), 400, 1_000.0));
        native.on_ack(&progress(at(22), 400, 1_000.0));
        native.on_ack(&Progress { held_back: false, ..progress(at(30), 400, 1_000.0) });
        native.on_ack(&Progress { full: false, ..progress(at(40), 400, 1_000.0) });
        assert!((SYN_NANOS / native.period - before - 1.0).abs() < 1e-9);
    }

    fn tick(sent: u64) -> Tick {
        Tick { sent, capacity: 1_000.0 * PACKETS_A_MBIT, packet_bytes: 1500, held_back: true }
    }

    #[test]
    fn with_a_timer_the_rate_rises_each_syn_and_not_with_acks() {
        // udt-2004 2.3: every 10 ms, if no NAK was received during the last 10 ms.
        let mut native = at_rate(Variant::Paper2004, 500.0);
        let more = |native: &Native, before: f64| (SYN_NANOS / native.period - before).round();
        let before = SYN_NANOS / native.period;
        native.on_ack(&progress(at(10), 400, 1_000.0));
        assert_eq!(more(&native, before), 0.0);
        native.on_tick(&tick(400));
        native.on_tick(&Tick { held_back: false, ..tick(400) });
        assert_eq!(more(&native, before), 1.0);
        native.on_nak(&nak(at(25), 0, 500, 1.0));
        let before = SYN_NANOS / native.period;
        native.on_tick(&tick(400));
        assert_eq!(more(&native, before), 0.0);
        native.on_tick(&tick(400));
        assert_eq!(more(&native, before), 1.0);
    }

    #[test]
    fn udt_1_rises_while_no_more_than_a_hundredth_is_lost() {
        let mut native = at_rate(Variant::Udt1, 500.0);
        native.on_nak(&Nak { packets: 3, ..nak(at(20), 0, 500, 1.0) });
        let before = native.period;
        native.on_tick(&tick(400));
        assert!(native.period < before, "3 of 400");
        native.on_nak(&Nak { packets: 100, ..nak(at(30), 1, 500, 1.0) });
        let before = native.period;
        // A quarter is lost, and an eighth of the old average stays in it each time.
        native.on_tick(&tick(400));
        native.on_tick(&tick(400));
        assert_eq!(native.period, before);
        native.on_tick(&tick(400));
        assert!(native.period < before);
    }

    #[test]
    fn udt_1_gives_way_to_delay_without_a_freeze_and_its_losses_count_to_that() {
        let mut native = at_rate(Variant::Udt1, 900.0);
        native.on_warning(&nak(at(50), 200, 200, 1.0));
        assert!((mbps(&native) - 800.0).abs() < 1e-6);
        native.on_nak(&nak(at(55), 199, 300, 1.0));
        assert!((mbps(&native) - 800.0).abs() < 1e-6);
        assert_eq!(native.limits().frozen_until, Time::ZERO);
        for variant in [Variant::Paper2004, Variant::Udt4] {
            let mut native = at_rate(variant, 900.0);
            native.on_warning(&nak(at(50), 200, 200, 1.0));
            assert!((mbps(&native) - 900.0).abs() < 1e-6, "{variant:?}");
        }
        let mut early = Native::new(Variant::Udt1, 1_000_000, 1);
        early.on_warning(&nak(at(20), 100, 100, 90_000.0));
        assert_eq!(early.limits().period_nanos, 1e9 / 80_000.0, "slow start ends, and a decrease");
    }

    #[test]
    fn slow_start_grows_by_what_arrives_and_ends_at_the_speed_of_arrival() {
        for variant in [Variant::Paper2004, Variant::Udt1, Variant::Udt4] {
            let mut native = Native::new(variant, 1_000_000, 1);
            native.on_ack(&progress(at(100), 16, 0.0));
            native.on_ack(&progress(at(110), 8, 0.0));
            assert_eq!((native.limits().window, native.limits().period_nanos), (40, 1_000.0));
            native.on_nak(&nak(at(120), 30, 60, 10_000.0));
            assert_eq!(native.limits().period_nanos, 100_000.0);
            let mut blind = Native::new(variant, 1_000_000, 1);
            blind.on_nak(&nak(at(120), 3, 60, 0.0));
            assert_eq!(blind.limits().period_nanos, 110e6 / 16.0 * 1.125, "by the window, and a decrease");
        }
        let mut limited = Native::new(Variant::Udt4, 20, 1);
        limited.on_ack(&Progress { arrival_speed: 1_000.0, ..progress(at(100), 16, 0.0) });
        assert_eq!((limited.limits().window, limited.limits().period_nanos), (20, 1e6));
    }

    #[test]
    fn the_window_is_what_arrives_in_a_round_trip_and_a_syn() {
        let window = |variant, smoothed, said| {
            let mut native = at_rate(variant, 500.0);
            native.window = 1_000.0;
            let ack = progress(at(10), 400, 0.0);
            native.on_ack(&Progress { arrival_speed: smoothed, speed_said: said, ..ack });
            native.limits().window
        };
        assert_eq!(window(Variant::Udt4, 50_005.0, 9.0), 5_516, "as smoothed, and 16 packets more");
        assert_eq!(window(Variant::Paper2004, 9.0, 50_000.0), 5_500, "as the ACK says it");
        assert_eq!(window(Variant::Udt1, 9.0, 50_000.0), 1_563, "an eighth of the way, rounded up");
        for variant in [Variant::Udt4, Variant::Paper2004, Variant::Udt1] {
            assert_eq!(window(variant, 0.0, 0.0), 1_000, "not known: it stays");
        }
        assert_eq!(window(Variant::Paper2004, 1.0, 1.0), 2);
        let mut less = Native { slow_start: false, ..Native::new(Variant::Udt4, 1_000, 1) }.with_window_more(0);
        less.on_ack(&Progress { arrival_speed: 95.0, ..progress(at(10), 1, 0.0) });
        assert_eq!(less.limits().window, 10);
    }

    #[test]
    fn a_small_window_that_bounds_the_flow_grows() {
        // One packet for each ACK, which leaves at once: the packets of a window come spread over a round trip, and the
        // growth in a SYN is less than one packet.
        let rtt = Span::from_millis(160);
        for variant in [Variant::Paper2004, Variant::Udt1] {
            let mut native = at_rate(variant, 500.0);
            native.window = 5.0;
            for ms in 0..100 {
                let speed_said = native.limits().window as f64 / rtt.as_secs_f64();
                native.on_ack(&Progress { rtt, speed_said, ..progress(at(1_000 + 30 * ms), 1, 0.0) });
            }
            assert!(native.limits().window > 50, "{variant:?}: {}", native.limits().window);
        }
    }

    #[test]
    fn the_rate_falls_by_a_ninth_for_each_event_and_udt_1_freezes() {
        for (variant, frozen) in [(Variant::Paper2004, [0, 0]), (Variant::Udt1, [60, 100])] {
            let mut native = at_rate(variant, 900.0);
            native.on_nak(&nak(at(50), 100, 200, 1.0));
            assert!((mbps(&native) - 800.0).abs() < 1e-6);
            assert_eq!(native.limits().frozen_until, at(frozen[0]));
            // Losses of packets in flight at that time: the 16th NAK is one too many, the next event begins behind 200.
            (1..16).for_each(|k| native.on_nak(&nak(at(50 + k), 100 + k, 300, 1.0)));
            native.on_nak(&nak(at(90), 199, 400, 1.0));
            assert!((mbps(&native) - 800.0 / 1.125).abs() < 1e-6);
            assert_eq!(native.limits().frozen_until, at(frozen[0]));
            native.on_nak(&nak(at(90), 200, 400, 1.0));
            assert!((mbps(&native) - 800.0 / 1.125f64.powi(2)).abs() < 1e-6);
            assert_eq!(native.limits().frozen_until, at(frozen[1]));
        }
    }

    #[test]
    fn udt_4_falls_at_most_five_times_in_an_event_and_does_not_freeze() {
        let mut native = at_rate(Variant::Udt4, 900.0);
        (0..1_000).for_each(|k| native.on_nak(&nak(at(50), 100 + k % 50, 200, 1.0)));
        assert!((mbps(&native) - 900.0 / 1.125f64.powi(5)).abs() < 1e-6, "{}", mbps(&native));
        assert_eq!(native.limits().frozen_until, Time::ZERO);
        // Of 1,000 NAKs five counted: the average moves towards them, and one in a random number up to it decreases.
        native.on_nak(&nak(at(90), 200, 300, 1.0));
        assert_eq!(native.average_naks, 2.0);
        assert!((1..=2).contains(&native.again_every));
    }

    #[test]
    fn udt_4_rises_slowly_below_the_rate_at_which_it_lost() {
        let mut native = at_rate(Variant::Udt4, 80.0);
        native.on_nak(&nak(at(50), 100, 200, 1.0));
        native.lost = false;
        let before = SYN_NANOS / native.period;
        // 119 Mbit/s are left, but no more than 190 / 9 are sure.
        native.on_ack(&progress(at(60), 100, 190.0));
        assert!((SYN_NANOS / native.period - before - 0.1).abs() < 1e-9);
    }
}
