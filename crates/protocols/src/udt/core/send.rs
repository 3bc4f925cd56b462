//! The sending side: the next packet, lost ones first, and its time.

use inhaul_base::{Span, Time};
use inhaul_transport::kit::LossList;

use super::control::Control;
use super::pacing::Pacing;
use super::rtt::Rtt;
use super::samples::{ControlLimits, Nak, Progress, Tick};
use super::terms::{Ack, Losses, PAIR_EVERY, SYN};

/// EXP comes at least so long after the last sign of life, times the number of EXPs in a row ...
const EXPIRE_MIN: Span = Span::from_millis(300);
/// ... up to this many.
const EXPIRE_BACKOFF_MAX: u64 = 16;
/// A pair is measured so often at most: a receiver takes the median of 16 pairs, and tells it each SYN.
const MEASURE_INTERVAL: Span = Span::from_nanos(SYN.as_nanos() / 32);
/// The timer of rate control makes up for up to this many missed ticks.
const TICKS_KEPT: Span = Span::from_secs(1);
/// Broken: more EXPs in a row than [`EXPIRE_BACKOFF_MAX`], and silence for so long.
const BROKEN_AFTER: Span = Span::from_secs(5);

/// A peer speaks of packets that it cannot know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadNumber;

/// What leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The packet's number.
    pub number: u64,
    /// It was sent before: it carries the same once more.
    pub again: bool,
}

/// A sender's next permitted action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Send this.
    Send(Next),
    /// Wait until the packet that is next is due.
    WaitUntil(Time),
    /// Wait for an answer, or for something to send.
    Wait,
}

/// Effect of the EXP timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// It was not due.
    No,
    /// Unacknowledged packets will be sent again.
    Resend,
    /// There is something to send again already; a protocol that has keep-alives sends one.
    KeepAlive,
    /// The peer is gone, by UDT's rule. The timer was still rearmed.
    Broken,
}

/// What held packets back for some time.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// The window did, ...
    window: bool,
    /// ... the period did, ...
    period: bool,
    /// ... something else did, or there was nothing to send.
    other: bool,
}

impl Held {
    /// Whether it was the control alone. A limit of another kind breaks a burst up that a full window would have allowed,
    /// too.
    fn by_control(self) -> bool {
        self.window || self.period && !self.other
    }
}

/// The sending side of a flow.
pub struct SendSide {
    control: Control,
    limits: ControlLimits,
    pacing: Pacing,
    /// The first packet that is not acknowledged.
    first: u64,
    /// The next new packet.
    next: u64,
    losses: LossList,
    /// The first of a pair has left: the next new packet follows at once.
    pair: bool,
    /// When the last pair left that the receiver is to measure.
    measured: Option<Time>,
    /// The receiver takes packets before this one.
    receiver_takes: u64,
    window_max: u64,
    packet_bytes: u64,
    rtt: Rtt,
    arrival_speed: f64,
    capacity: f64,
    /// What held packets back since the last full ACK, and since the timer of rate control fired.
    held_since_ack: Held,
    held_since_tick: Held,
    /// When the timer of rate control fires next, and packets sent since it did, for a control that has one.
    tick_due: Time,
    sent: u64,
    /// The last full ACK's number, and that of the last one which a warning was about.
    acked: Option<u32>,
    warned: Option<u32>,
    /// The last sign of life, or when there was nothing to wait for.
    heard: Time,
    expired: u64,
    expired_at: Time,
    lost: u64,
}

impl SendSide {
    /// A side that has sent nothing. At most `window_max` packets are ever unacknowledged. `rtt`: the measurement of a
    /// handshake, if there is one.
    pub fn new(now: Time, control: Control, window_max: u64, rtt: Option<Span>) -> Self {
        let mut side = Self {
            limits: control.limits(),
            control,
            pacing: Pacing::default(),
            first: 0,
            next: 0,
            losses: LossList::default(),
            pair: false,
            measured: None,
            receiver_takes: window_max,
            window_max,
            packet_bytes: 1500,
            rtt: Rtt::new(rtt),
            arrival_speed: 0.0,
            capacity: 0.0,
            held_since_ack: Held::default(),
            held_since_tick: Held::default(),
            tick_due: now + SYN,
            sent: 0,
            acked: None,
            warned: None,
            heard: now,
            expired: 1,
            expired_at: now,
            lost: 0,
        };
        side.refresh();
        side
    }

    fn refresh(&mut self) {
        self.limits = self.control.limits();
        self.pacing.set_period(self.limits.period_nanos);
    }

    /// Rate control runs each SYN, independent of arrivals (udt-2004 2.3: that makes it fair). Only sending depends on
    /// it, so it is enough to make up for it before a packet is sent or comes in.
    fn tick(&mut self, now: Time) {
        if now < self.tick_due || !self.control.has_timer() {
            return;
        }
        self.tick_due = self.tick_due.max(now - TICKS_KEPT);
        let held_back = std::mem::take(&mut self.held_since_tick).by_control();
        let (capacity, packet_bytes) = (self.capacity, self.packet_bytes);
        while self.tick_due <= now {
            let sent = std::mem::take(&mut self.sent);
            self.control.on_tick(&Tick { sent, capacity, packet_bytes, held_back });
            self.tick_due += SYN;
        }
        self.refresh();
    }

    fn held(&mut self, by: impl Fn(&mut Held)) {
        by(&mut self.held_since_ack);
        by(&mut self.held_since_tick);
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// The packet that may leave now; `new`: there is unsent data. Call [`sent`](Self::sent) if it leaves,
    /// [`limited`](Self::limited) if another limit holds it back.
    pub fn next(&mut self, now: Time, new: bool) -> NextAction {
        self.tick(now);
        let takes = self.receiver_takes.min(self.first.saturating_add(self.limits.window.min(self.window_max)));
        let fresh = (new && self.next < takes).then_some(Next { number: self.next, again: false });
        let again = self.losses.first().map(|number| Next { number, again: true });
        if self.pair && fresh.is_some() && now >= self.limits.frozen_until {
            return fresh.map_or(NextAction::Wait, NextAction::Send);
        }
        let Some(next) = again.or(fresh) else {
            // Time in which no packet may leave is not made up for.
            self.pacing.rest(now);
            self.held(|held| {
                held.window |= new;
                held.other |= !new;
            });
            return NextAction::Wait;
        };
        let due = self.pacing.due().max(self.limits.frozen_until);
        if due > now {
            self.held(|held| held.period = true);
            return NextAction::WaitUntil(due);
        }
        NextAction::Send(next)
    }

    /// What [`next`](Self::next) gave has left. Says whether it is the first of a pair that the receiver is to measure:
    /// such a packet must not be joined with others, or its time of arrival is that of all of them.
    pub fn sent(&mut self, now: Time, next: Next) -> bool {
        self.pacing.spend(now);
        self.sent += 1;
        if next.again {
            self.losses.remove(next.number, next.number);
            return false;
        }
        if self.first == self.next {
            // Until now there was no packet that could be acknowledged.
            self.rearm(now);
        }
        self.next = self.next.max(next.number + 1);
        self.pair = next.number.is_multiple_of(PAIR_EVERY);
        // At high rates, sending each pair's first packet on its own would cost more than all others together.
        let measure = self.pair && self.measured.is_none_or(|at| now >= at + MEASURE_INTERVAL);
        if measure {
            self.measured = Some(now);
        }
        measure
    }

    /// The receiver was told not to wait for packets `first` to `last`: they count as sent, and are not sent again
    /// unless it asks. For a protocol that gives data up.
    pub fn skip(&mut self, now: Time, first: u64, last: u64) {
        self.losses.remove(first, last);
        if self.first == self.next && last >= self.next {
            self.rearm(now);
        }
        self.next = self.next.max(last + 1);
        self.pair = false;
    }

    /// A limit that is not UDT's holds packets back.
    pub fn limited(&mut self, now: Time) {
        self.held(|held| held.other = true);
        self.pacing.rest(now);
    }

    // --- Messages of the receiver -----------------------------------------------------------------------------------

    /// A full ACK came.
    ///
    /// # Errors
    /// If it acknowledges unsent packets. Then the state is unchanged.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) -> Result<(), BadNumber> {
        let delivered = self.acknowledge(now, ack.next)?;
        if self.acked.is_none_or(|acked| is_after(ack.number, acked)) {
            self.acked = Some(ack.number);
        }
        // An ACK that was overtaken says nothing of the present.
        if ack.next < self.first {
            return Ok(());
        }
        self.receiver_takes = self.receiver_takes.max(ack.next.saturating_add(ack.window.min(self.window_max)));
        (self.rtt.smoothed, self.rtt.variation) = (ack.rtt, ack.rtt_variation);
        smooth(&mut self.arrival_speed, ack.arrival_speed);
        smooth(&mut self.capacity, ack.capacity);
        self.progress(now, Some(ack), delivered);
        self.held_since_ack = Held::default();
        Ok(())
    }

    /// A light ACK came: packets before `next` have come.
    ///
    /// # Errors
    /// As for [`on_ack`](Self::on_ack).
    pub fn on_light_ack(&mut self, now: Time, next: u64) -> Result<(), BadNumber> {
        let delivered = self.acknowledge(now, next)?;
        self.receiver_takes = self.receiver_takes.saturating_add(delivered);
        self.progress(now, None, delivered);
        Ok(())
    }

    fn acknowledge(&mut self, now: Time, next: u64) -> Result<u64, BadNumber> {
        if next > self.next {
            return Err(BadNumber);
        }
        self.tick(now);
        self.rearm(now);
        let delivered = next.saturating_sub(self.first);
        if delivered > 0 {
            self.first = next;
            self.losses.remove(0, next - 1);
        }
        Ok(delivered)
    }

    fn progress(&mut self, now: Time, full: Option<&Ack>, delivered: u64) {
        self.control.on_ack(&Progress {
            now,
            full: full.is_some(),
            delivered,
            first: self.first,
            next: self.next,
            in_flight: self.in_flight(),
            rtt: self.rtt.smoothed,
            arrival_speed: self.arrival_speed,
            speed_said: full.map_or(0.0, |ack| f64::from(ack.arrival_speed)),
            capacity: self.capacity,
            packet_bytes: self.packet_bytes,
            held_back: self.held_since_ack.by_control(),
        });
        self.refresh();
    }

    /// A NAK came. Packets acknowledged since are left out.
    ///
    /// # Errors
    /// When a range is upside down, or of packets that were never sent: nothing is changed.
    pub fn on_nak(&mut self, now: Time, losses: &[Losses]) -> Result<(), BadNumber> {
        if losses.iter().any(|&(first, last)| first > last || last >= self.next) {
            return Err(BadNumber);
        }
        self.tick(now);
        self.rearm(now);
        let news = losses.iter().filter(|(_, last)| *last >= self.first);
        let (mut first_lost, lost) = (None, self.lost);
        for &(first, last) in news {
            let first = first.max(self.first);
            self.lost += self.losses.insert(first, last, ());
            first_lost.get_or_insert(first);
        }
        if let Some(first_lost) = first_lost {
            self.control.on_nak(&self.nak(now, first_lost, self.lost - lost));
            self.refresh();
        }
        Ok(())
    }

    fn nak(&self, now: Time, first_lost: u64, packets: u64) -> Nak {
        let Self { next, arrival_speed, .. } = *self;
        Nak { now, first_lost, packets, next, in_flight: self.in_flight(), rtt: self.rtt.smoothed, arrival_speed }
    }

    /// The receiver warns that the delay grows, as its answer to the ACK `ack` showed.
    ///
    /// # Errors
    /// When no such ACK came, or a warning came of it or a later one: nothing is changed.
    pub fn on_warning(&mut self, now: Time, ack: u32) -> Result<(), BadNumber> {
        let known = self.acked.is_some_and(|acked| !is_after(ack, acked));
        if !known || self.warned.is_some_and(|warned| !is_after(ack, warned)) {
            return Err(BadNumber);
        }
        self.tick(now);
        self.rearm(now);
        self.warned = Some(ack);
        self.control.on_warning(&self.nak(now, self.next, 0));
        self.refresh();
        Ok(())
    }

    // --- EXP --------------------------------------------------------------------------------------------------------

    fn rearm(&mut self, now: Time) {
        (self.heard, self.expired, self.expired_at) = (now, 1, now);
    }

    /// When EXP is due; `None` while nothing waits for an answer.
    pub fn expires(&self) -> Option<Time> {
        let each = (self.rtt.patience() * self.expired + SYN).max(EXPIRE_MIN * self.expired);
        (self.first < self.next).then(|| self.expired_at + each)
    }

    /// EXP may be due: no message came from the receiver for long. If no loss is known, all unacknowledged packets
    /// count as lost.
    pub fn on_timer(&mut self, now: Time) -> Expired {
        if self.expires().is_none_or(|due| due > now) {
            return Expired::No;
        }
        let repeated = self.expired > 1;
        let broken = self.expired >= EXPIRE_BACKOFF_MAX && now.since(self.heard) > BROKEN_AFTER;
        self.expired = (self.expired + 1).min(EXPIRE_BACKOFF_MAX);
        self.expired_at = now;
        if self.losses.is_empty() {
            let packets = self.losses.insert(self.first, self.next - 1, ());
            self.lost += packets;
            self.control.on_expired(&self.nak(now, self.first, packets), repeated);
            self.refresh();
            return if broken { Expired::Broken } else { Expired::Resend };
        }
        if broken { Expired::Broken } else { Expired::KeepAlive }
    }

    /// Forgets all packets in flight and continues with packet `from`.
    ///
    /// # Errors
    /// If that is not behind all sent packets. Then the state is unchanged.
    pub fn restart(&mut self, now: Time, from: u64) -> Result<(), BadNumber> {
        if from < self.next {
            return Err(BadNumber);
        }
        let takes = self.receiver_takes.saturating_sub(self.first);
        (self.first, self.next, self.receiver_takes) = (from, from, from.saturating_add(takes));
        self.losses = LossList::default();
        self.pair = false;
        self.rearm(now);
        Ok(())
    }

    // --- Getters ----------------------------------------------------------------------------------------------------

    /// Bytes of a full packet, headers from IP up included.
    pub fn set_packet_bytes(&mut self, bytes: u64) {
        self.packet_bytes = bytes.max(1);
    }

    /// Bytes of a full packet.
    pub fn packet_bytes(&self) -> u64 {
        self.packet_bytes
    }

    /// The first packet that is not acknowledged: what those before it carry is not needed any more.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The next new packet.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Unacknowledged packets, without known lost ones.
    pub fn in_flight(&self) -> u64 {
        (self.next - self.first).saturating_sub(self.losses.packets())
    }

    /// Packets found lost, each time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The limits of the congestion control.
    pub fn limits(&self) -> ControlLimits {
        ControlLimits { window: self.limits.window.min(self.window_max), ..self.limits }
    }

    /// Smoothed round-trip time.
    pub fn rtt(&self) -> Span {
        self.rtt.smoothed
    }

    /// Smoothed capacity of the path, packets a second; 0: not known.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Bytes of memory, about, beside the side itself.
    pub fn memory_bytes(&self) -> usize {
        self.losses.ranges() * 40
    }
}

/// Whether ACK number `a` is later than `b`: they wrap.
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// 7/8 of the old and 1/8 of the new; 0 is no measurement.
fn smooth(value: &mut f64, sample: u32) {
    if sample > 0 {
        let sample = f64::from(sample);
        *value = if *value > 0.0 { *value * 0.875 + sample * 0.125 } else { sample };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udt::core::Variant;
    use proptest::prelude::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn side() -> SendSide {
        SendSide::new(at(0), Control::native(Variant::Udt4, 1_000, 1), 1_000, Some(Span::from_millis(20)))
    }

    fn ack(next: u64) -> Ack {
        Ack {
            number: 1,
            next,
            rtt: Span::from_millis(20),
            rtt_variation: Span::from_millis(2),
            window: 1_000,
            arrival_speed: 0,
            capacity: 0,
        }
    }

    /// All that may leave at `now`.
    fn burst(side: &mut SendSide, now: Time) -> Vec<u64> {
        std::iter::from_fn(|| {
            let NextAction::Send(next) = side.next(now, true) else { return None };
            side.sent(now, next);
            Some(next.number)
        })
        .collect()
    }

    #[test]
    fn losses_leave_first_and_with_their_numbers() {
        let mut side = side();
        assert_eq!(burst(&mut side, at(1)), (0..16).collect::<Vec<_>>(), "the first window");
        side.on_nak(at(21), &[(3, 4), (9, 9)]).unwrap();
        assert_eq!((side.lost(), side.in_flight()), (3, 13));
        side.on_light_ack(at(21), 3).unwrap();
        // 16 packets in RTT and SYN, and a decrease: 2.1 ms apart. A loss needs no window.
        let mut left = Vec::new();
        for ms in 21..35 {
            left.extend(burst(&mut side, at(ms)));
        }
        assert_eq!(left[..3], [3, 4, 9]);
        assert_eq!(left[3..6], [16, 17, 18], "the first of a pair, and the second with it");
    }

    #[test]
    fn the_first_of_a_pair_leaves_by_itself_as_often_as_a_receiver_needs_it() {
        let mut side = side();
        let mut alone = |at| (0..48).filter(|&number| side.sent(at, Next { number, again: false })).collect::<Vec<_>>();
        assert_eq!(alone(at(1)), [0]);
        assert_eq!(alone(at(1) + MEASURE_INTERVAL / 2), []);
        assert_eq!(alone(at(1) + MEASURE_INTERVAL), [0]);
    }

    #[test]
    fn what_a_peer_cannot_know_of_is_refused_and_changes_nothing() {
        let mut side = side();
        burst(&mut side, at(1));
        assert_eq!(side.on_ack(at(2), &ack(17)), Err(BadNumber));
        assert_eq!(side.on_light_ack(at(2), u64::MAX), Err(BadNumber));
        for bad in [(5, 4), (15, 16), (0, u64::MAX)] {
            assert_eq!(side.on_nak(at(2), &[(1, 2), bad]), Err(BadNumber), "{bad:?}");
        }
        assert_eq!(side.restart(at(2), 15), Err(BadNumber));
        assert_eq!((side.first(), side.in_flight(), side.lost()), (0, 16, 0));
        side.on_ack(at(2), &ack(16)).unwrap();
        assert_eq!((side.on_nak(at(3), &[(0, 15)]), side.lost()), (Ok(()), 0), "that has come since");
    }

    #[test]
    fn a_warning_counts_once_and_only_for_an_ack_that_came() {
        let control = Control::native(Variant::Udt1, 1_000, 1);
        let mut side = SendSide::new(at(0), control, 1_000, Some(Span::from_millis(20)));
        burst(&mut side, at(1));
        assert_eq!(side.on_warning(at(2), 0), Err(BadNumber), "no ACK came");
        side.on_ack(at(20), &Ack { number: u32::MAX, arrival_speed: 1_000, ..ack(1) }).unwrap();
        assert_eq!(side.on_warning(at(21), 0), Err(BadNumber), "not that one");
        assert_eq!(side.on_warning(at(21), u32::MAX), Ok(()));
        let period = side.limits().period_nanos;
        assert_eq!(side.on_warning(at(22), u32::MAX), Err(BadNumber), "a copy");
        assert_eq!(side.on_warning(at(22), u32::MAX - 1), Err(BadNumber), "an overtaken one");
        assert_eq!(side.limits().period_nanos, period);
        side.on_ack(at(30), &ack(2)).unwrap();
        side.on_warning(at(31), 1).unwrap();
        assert!(side.limits().period_nanos > period);
    }

    #[test]
    fn a_timer_of_rate_control_fires_each_syn_with_any_arrivals() {
        let control = Control::native(Variant::Paper2004, 1_000, 1);
        let mut side = SendSide::new(at(0), control, 1_000, Some(Span::from_millis(20)));
        let known = Ack { arrival_speed: 1_000, capacity: 10_000, ..ack(1) };
        burst(&mut side, at(1));
        side.on_ack(at(2), &known).unwrap();
        side.on_nak(at(3), &[(2, 2)]).unwrap();
        let rate = |side: &SendSide| 1e7 / side.limits().period_nanos;
        let before = rate(&side);
        // The NAK ended slow start. 108 Mbit/s are left: a packet more in each of the five SYN, though no ACK comes.
        burst(&mut side, at(55));
        assert!((rate(&side) - before - 5.0).abs() < 1e-6, "{before} {}", rate(&side));
        side.on_nak(at(57), &[(5, 5)]).unwrap();
        let before = rate(&side);
        burst(&mut side, at(75));
        assert!((rate(&side) - before - 1.0).abs() < 1e-6, "not in the SYN of the NAK: {before} {}", rate(&side));
    }

    #[test]
    fn exp_has_everything_sent_again_later_and_later() {
        let mut side = side();
        assert_eq!((side.expires(), side.on_timer(at(10_000))), (None, Expired::No));
        burst(&mut side, at(10_000));
        assert_eq!(side.expires(), Some(at(10_300)));
        assert_eq!((side.on_timer(at(10_300)), side.in_flight()), (Expired::Resend, 0));
        assert_eq!(side.expires(), Some(at(10_900)));
        assert_eq!(side.on_timer(at(10_900)), Expired::KeepAlive);
        side.on_light_ack(at(11_000), 1).unwrap();
        assert_eq!(side.expires(), Some(at(11_300)));
        let mut now = at(11_300);
        let broken = (0..20).position(|_| {
            let did = side.on_timer(now);
            now = side.expires().unwrap();
            did == Expired::Broken
        });
        assert_eq!(broken, Some(15));
    }

    #[test]
    fn nothing_is_learnt_of_a_higher_rate_when_something_else_is_the_limit() {
        let window = |limited: bool| {
            let mut side = side();
            for number in 0..if limited { 10 } else { 16 } {
                let next = Next { number, again: false };
                assert_eq!(side.next(at(1), true), NextAction::Send(next));
                side.sent(at(1), next);
            }
            if limited {
                side.limited(at(1));
            } else {
                assert_eq!(side.next(at(1), true), NextAction::Wait);
            }
            side.on_ack(at(21), &ack(10)).unwrap();
            side.limits().window
        };
        assert_eq!((window(false), window(true)), (26, 16));
    }

    proptest! {
        #[test]
        fn the_sides_numbers_stay_in_order_for_all_inputs(steps in prop::collection::vec((0u8..6, 0u64..40, 0u64..40), 0..80)) {
            let (mut side, mut now) = (side(), at(0));
            for (kind, a, b) in steps {
                now += Span::from_millis(a);
                let near = |n: u64| (side.first() + n).saturating_sub(5);
                let (a, b) = (near(a), near(b));
                match kind {
                    0 => assert!(side.on_ack(now, &ack(a)).is_ok() || a > side.next_number()),
                    1 => assert!(side.on_light_ack(now, a).is_ok() || a > side.next_number()),
                    2 => assert!(side.on_nak(now, &[(a, b)]).is_ok() || a > b || b >= side.next_number()),
                    3 => assert!(side.on_timer(now) == Expired::No || side.losses.packets() > 0),
                    4 => assert!(side.restart(now, a).is_ok() || a < side.next_number()),
                    _ => drop(burst(&mut side, now)),
                }
                prop_assert!(side.first() <= side.next_number());
                prop_assert!(side.next_number() - side.first() <= 1_000);
                prop_assert!(side.losses.first().is_none_or(|lost| lost >= side.first()));
                prop_assert!(side.losses.packets() <= side.next_number() - side.first());
            }
        }
    }
}
