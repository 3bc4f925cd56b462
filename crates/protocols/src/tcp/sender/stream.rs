//! The stream of segments of one flow: what may be sent when, what an acknowledgement changes, when to time out. TCP
//! proper; the congestion control law is a part that can be exchanged.

use inhaul_base::{ByteRange, Sequence, Span, Time};
use inhaul_transport::kit::RttEstimator;
use inhaul_transport::{AckSample, Law, Limits, LossSample, Pace};

use super::pacing::Pacing;
use super::rate::RateEstimator;
use super::rate_limit::RateLimit;
use super::recovery::{Phase, ProportionalReduction, Spurious};
use super::scoreboard::{Progress, Scoreboard, Segment};
use crate::tcp::Options;
use crate::tcp::wire::{AckHeader, Timestamp};

/// The retransmission timeout before anything is measured (RFC 6298 2.1).
const RTO_INITIAL: Span = Span::from_secs(1);
/// The longest. RFC 6298 2.5 asks for a minute or more; but a path that loses a third of all packets each way would look
/// dead to the receiver then. Linux lets it be set as low as a second (`tcp_rto_max_ms`).
const RTO_MAX: Span = Span::from_secs(10);

/// What is sent next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// This segment again.
    Again(u64),
    /// This one again, the last: the rescue retransmission (RFC 6675 NextSeg rule 4).
    Rescue(u64),
    /// A new one.
    New,
}

/// The sending half of a TCP connection, counted in segments.
pub(super) struct Stream {
    board: Scoreboard,
    phase: Phase,
    law: Box<dyn Law + Send>,
    limits: Limits,
    pacing: Pacing,
    /// The rate that the receiver allows.
    pub(super) allowed: RateLimit,
    rtt: RttEstimator,
    rate: RateEstimator,
    /// Least variation that the timeout allows for.
    rto_min: Span,
    /// Timeouts in a row.
    backoff: u32,
    rto_due: Option<Time>,
    pace_due: Option<Time>,
    /// The receiver takes segments before this one.
    receiver_takes: u64,
    window_max: u64,
    /// Acknowledgements of segments before this one count towards a larger window: window or pace held the sender back when
    /// this was the next.
    held_back_until: u64,
    began: Time,
    last_sent: Time,
    /// Bytes of a full packet, headers from IP up included.
    packet_bytes: u64,
    pub(super) lost: u64,
}

impl Stream {
    pub(super) fn new(now: Time, law: Box<dyn Law + Send>, options: &Options) -> Self {
        let limits = law.limits();
        Self {
            board: Scoreboard::default(),
            phase: Phase::Open,
            limits,
            law,
            pacing: Pacing::Unpaced,
            allowed: RateLimit::default(),
            rtt: RttEstimator::default(),
            rate: RateEstimator::new(now),
            rto_min: options.rto_min,
            backoff: 0,
            rto_due: None,
            pace_due: None,
            // Nothing was said yet: the receiver takes at least the first flight.
            receiver_takes: options.initial_window,
            window_max: options.window_max,
            held_back_until: 0,
            began: now,
            last_sent: now,
            packet_bytes: 1500,
            lost: 0,
        }
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// What is to be sent now, if anything may be; `new` says whether there is anything new, `host` how much the host may
    /// send.
    pub(super) fn next(&mut self, now: Time, new: bool, host: &mut RateLimit) -> Option<Next> {
        self.pace_due = None;
        let pipe = self.board.pipe();
        let window = match &self.phase {
            Phase::Recovery { reduction, .. } => reduction.window(),
            Phase::Open | Phase::Loss { .. } => self.limits.window_packets,
        };
        if new && self.board.is_empty() && now.since(self.last_sent) > self.rto() {
            self.law.on_idle(now);
            self.refresh(now);
        }
        if pipe >= window {
            self.held_back_until = self.board.next();
            return None;
        }
        let Some(next) = self.candidate(new) else {
            if !new {
                self.rate.on_app_limited(pipe);
            }
            return None;
        };
        let limits = [self.allowed.delays(now, self.packet_bytes), host.delays(now, self.packet_bytes)];
        if let Some(due) = limits.into_iter().flatten().max() {
            // The path could deliver more, and nothing is learnt of a larger window.
            self.rate.on_app_limited(pipe);
            self.pace_due = Some(due);
            return None;
        }
        if !self.pacing.allows(now, self.packet_bytes) {
            self.held_back_until = self.board.next();
            self.pace_due = Some(self.pacing.due(self.packet_bytes));
            return None;
        }
        if let (Next::Rescue(_), Phase::Recovery { rescued, .. }) = (next, &mut self.phase) {
            *rescued = true;
        }
        Some(next)
    }

    /// The segment to send next (RFC 6675 section 4, NextSeg).
    fn candidate(&mut self, new: bool) -> Option<Next> {
        let in_repair = self.phase != Phase::Open;
        if in_repair && let Some(lost) = self.board.next_lost() {
            return Some(Next::Again(lost));
        }
        if new {
            let outstanding = self.board.next() - self.board.first();
            let taken = self.board.next() < self.receiver_takes && outstanding < self.window_max;
            return taken.then_some(Next::New);
        }
        // Rules 3 and 4 are for the tail of a transfer, which nothing follows that would reveal its losses.
        let Phase::Recovery { rescued, .. } = self.phase else { return None };
        if let Some(suspect) = self.board.next_suspect() {
            return Some(Next::Again(suspect));
        }
        self.board.last_missing().filter(|_| !rescued).map(Next::Rescue)
    }

    /// A new segment with the bytes `body` leaves. Returns its number.
    pub(super) fn send(&mut self, now: Time, body: ByteRange) -> Sequence {
        let snapshot = self.rate.on_send(now, self.board.pipe());
        let number = self.board.push(Segment::new(body, snapshot));
        self.note_sent(now);
        Sequence::new(number as u32)
    }

    /// Segment `number` leaves again. Returns its number on the wire and its bytes.
    pub(super) fn send_again(&mut self, now: Time, number: u64) -> Option<(Sequence, ByteRange)> {
        let snapshot = self.rate.on_send(now, self.board.pipe());
        let body = self.board.resend(number, snapshot)?;
        if let Phase::Loss { spurious: spurious @ Spurious::NotResent, .. } = &mut self.phase {
            *spurious = Spurious::ResentAt(Timestamp::of(now));
        }
        self.note_sent(now);
        Some((Sequence::new(number as u32), body))
    }

    fn note_sent(&mut self, now: Time) {
        self.last_sent = now;
        self.pacing.spend(self.packet_bytes);
        self.allowed.spend(self.packet_bytes);
        if let Phase::Recovery { reduction, .. } = &mut self.phase {
            reduction.on_send();
        }
        if self.rto_due.is_none() {
            self.rto_due = Some(now + self.rto());
        }
    }

    // --- Acknowledgements -------------------------------------------------------------------------------------------

    /// An acknowledgement came. One that speaks of what was never sent is ignored.
    pub(super) fn on_ack(&mut self, now: Time, ack: &AckHeader) {
        let Some(acknowledged) = self.number_of(ack.acknowledged) else { return };
        let held_back = self.board.first() < self.held_back_until;
        let mut progress = Progress::default();
        self.board.acknowledge(acknowledged, &mut progress);
        for (start, end) in ack.blocks.iter() {
            if let (Some(start), Some(end)) = (self.number_of(start), self.number_of(end)) {
                self.board.sack(ByteRange::new(start, end), &mut progress);
            }
        }
        self.receiver_takes = self.receiver_takes.max(acknowledged.saturating_add(u64::from(ack.window)));
        let rtt = if progress.acknowledged > 0 { self.measure_rtt(now, ack.echo) } else { None };
        if progress.acknowledged > 0 {
            self.backoff = 0;
            self.rto_due = (!self.board.is_empty()).then(|| now + self.rto());
        }
        self.board.find_lost(&mut progress);
        self.lost += progress.lost;
        // The acknowledgement that ends a recovery leaves the window at the threshold, too (RFC 5681 section 3.2 step 6).
        let repairing = matches!(self.phase, Phase::Recovery { .. });
        self.change_phase(now, ack.echo, &progress);
        let newest = progress.newest.as_ref();
        let rate = newest.and_then(|n| self.rate.on_delivered(now, progress.delivered, n, self.rtt.least()));
        if progress.delivered > 0 {
            self.law.on_ack(&AckSample {
                now,
                delivered_packets: progress.delivered,
                lost_packets: progress.lost,
                in_flight: self.board.pipe(),
                packet_bytes: self.packet_bytes,
                rtt,
                smoothed_rtt: self.rtt.smoothed().unwrap_or(Span::ZERO),
                window_limited: held_back,
                held: repairing
                    || match self.phase {
                        Phase::Open => progress.acknowledged == 0,
                        Phase::Recovery { .. } => true,
                        Phase::Loss { .. } => false,
                    },
                rate,
            });
        }
        if let Phase::Recovery { reduction, .. } = &mut self.phase {
            reduction.on_ack(progress.delivered, self.board.pipe());
        }
        self.refresh(now);
    }

    /// Forgets all that is on its way and goes on with segment `from`, as after a timeout: one segment, until it is acknowledged.
    /// False when that is not behind all that was sent.
    pub(super) fn restart(&mut self, now: Time, from: Sequence) -> bool {
        let first = self.board.first();
        let ahead = from.ahead_of(Sequence::new(first as u32));
        let Some(from) = first.checked_add_signed(i64::from(ahead)).filter(|from| *from >= self.board.next()) else {
            return false;
        };
        self.board.restart(from);
        self.receiver_takes = self.receiver_takes.saturating_sub(first).saturating_add(from);
        self.held_back_until = from;
        self.phase = Phase::Open;
        self.rto_due = None;
        self.law.on_timeout(now, true);
        self.pacing.on_congestion();
        self.refresh(now);
        true
    }

    /// The segment that a number on the wire means: one of those on their way, or the next. `None`: none of them.
    fn number_of(&self, wire: Sequence) -> Option<u64> {
        let ahead = wire.ahead_of(Sequence::new(self.board.first() as u32));
        let number = self.board.first().checked_add_signed(i64::from(ahead))?;
        (self.board.first()..=self.board.next()).contains(&number).then_some(number)
    }

    /// Takes the sample that an echoed timestamp gives (RFC 7323 4.3), also of segments that were sent again.
    fn measure_rtt(&mut self, now: Time, echo: Timestamp) -> Option<Span> {
        let micros = u64::try_from(Timestamp::of(now).after(echo)).ok()?;
        // A clock of whole microseconds cannot tell less than one.
        let rtt = Span::from_micros(micros.max(1));
        if rtt > now.since(self.began) + Span::from_micros(1) {
            return None;
        }
        self.rtt.sample(rtt);
        Some(rtt)
    }

    /// Ends a repair that is complete, begins one that is needed (RFC 6675 section 5).
    fn change_phase(&mut self, now: Time, echo: Timestamp, progress: &Progress) {
        if let Phase::Loss { spurious, .. } = &mut self.phase
            && progress.acknowledged > 0
            && let Spurious::ResentAt(resent) = std::mem::replace(spurious, Spurious::Decided)
            && echo.after(resent) < 0
        {
            self.law.on_spurious_timeout(now);
            self.board.find_again();
            self.phase = Phase::Open;
        }
        if let Phase::Recovery { point, .. } | Phase::Loss { point, .. } = self.phase
            && self.board.first() >= point
        {
            self.phase = Phase::Open;
        }
        if self.phase == Phase::Open && self.board.first_is_lost() {
            let outstanding = self.board.next() - self.board.first();
            self.law.on_loss(&LossSample { now, in_flight: outstanding });
            self.pacing.on_congestion();
            let reduction = ProportionalReduction::new(self.law.limits().window_packets, outstanding);
            self.phase = Phase::Recovery { point: self.board.next(), reduction, rescued: false };
            self.board.begin_repair();
            self.rto_due = Some(now + self.rto());
        }
    }

    /// Asks the law again what may be sent.
    fn refresh(&mut self, now: Time) {
        self.limits = self.law.limits();
        let rtt = self.rtt.smoothed().unwrap_or(Span::ZERO);
        self.pacing.set(now, self.limits.pace, self.limits.window_packets, rtt, self.packet_bytes);
    }

    // --- Timeouts ---------------------------------------------------------------------------------------------------

    /// The retransmission timeout (RFC 6298), doubled for each that has passed in vain. As in Linux the floor is one of the
    /// variation, not of the whole.
    fn rto(&self) -> Span {
        let base = match (self.rtt.smoothed(), self.rtt.patience()) {
            (Some(smoothed), Some(patience)) => patience.max(smoothed + self.rto_min),
            _ => RTO_INITIAL,
        };
        (base * (1 << self.backoff.min(16))).min(RTO_MAX)
    }

    /// The retransmission timeout may have passed.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.rto_due.is_none_or(|due| due > now) {
            return;
        }
        if self.board.is_empty() {
            self.rto_due = None;
            return;
        }
        let spurious = match self.phase {
            Phase::Open => Spurious::NotResent,
            Phase::Loss { spurious, .. } => spurious,
            // What comes may answer a retransmission from before the timeout.
            Phase::Recovery { .. } => Spurious::Decided,
        };
        self.law.on_timeout(now, self.backoff > 0);
        self.pacing.on_congestion();
        self.lost += self.board.lose_all();
        self.phase = Phase::Loss { point: self.board.next(), spurious };
        self.backoff += 1;
        self.rto_due = Some(now + self.rto());
        self.refresh(now);
    }

    /// When the retransmission timeout is due.
    pub(super) fn rto_due(&self) -> Option<Time> {
        self.rto_due
    }

    /// When pacing lets the next segment leave, if one waits for that.
    pub(super) fn pace_due(&self) -> Option<Time> {
        self.pace_due
    }

    // --- What others want to know -----------------------------------------------------------------------------------

    /// The size of a full packet is known, headers from IP up included.
    pub(super) fn set_packet_bytes(&mut self, now: Time, bytes: u64) {
        if self.packet_bytes != bytes {
            self.packet_bytes = bytes;
            // A burst must have room for a packet, or it never leaves.
            self.refresh(now);
        }
    }

    /// The size of a full packet, headers from IP up included.
    pub(super) fn packet_bytes(&self) -> u64 {
        self.packet_bytes
    }

    /// Segments that may be on their way at once.
    pub(super) fn window(&self) -> u64 {
        self.limits.window_packets
    }

    /// The rate that the law wants kept, if it wants one.
    pub(super) fn pace(&self) -> Pace {
        self.limits.pace
    }

    /// Smoothed round-trip time; zero until measured.
    pub(super) fn smoothed_rtt(&self) -> Span {
        self.rtt.smoothed().unwrap_or(Span::ZERO)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.board.memory_bytes()
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
