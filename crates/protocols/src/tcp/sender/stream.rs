//! The stream of segments of one flow: the schedule of sending, the effects of acknowledgements, timeouts. TCP proper;
//! the congestion control law is an exchangeable part.

use inhaul_base::{ByteRange, Sequence, Span, Time};
use inhaul_transport::kit::sender::Allowance;
use inhaul_transport::kit::{RateLimit, RttEstimator};
use inhaul_transport::{AckSample, Law, Limits, LossSample, Pace};

use super::pacing::{Pacing, Window};
use super::rack::Rack;
use super::rate::{RateEstimator, Snapshot};
use super::recovery::{Duplicates, LossProbe, Phase, ProportionalReduction, Spurious};
use super::scoreboard::{Progress, Scoreboard, Segment};
use crate::tcp::options::{ACK_DELAY, Options};
use crate::tcp::wire::{AckHeader, Timestamp};

/// The retransmission timeout before anything is measured (RFC 6298 2.1).
const RTO_INITIAL: Span = Span::from_secs(1);
/// The longest. RFC 6298 2.5 asks for a minute or more; but a path that loses a third of all packets each way would
/// look dead to the receiver then. Linux allows settings down to a second (`tcp_rto_max_ms`).
const RTO_MAX: Span = Span::from_secs(10);

/// Beside two round trips, a loss probe leaves the receiver this much time: Linux's two ticks of its clock.
const PROBE_SLACK: Span = Span::from_millis(2);

/// The next piece to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// This segment again.
    Again(u64),
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
    rack: Rack,
    rate: RateEstimator,
    /// Least variation that the timeout allows for.
    rto_min: Span,
    /// Timeouts in a row.
    backoff: u32,
    rto_due: Option<Time>,
    /// When a segment that has been overtaken is lost, unless it comes (RFC 8985 6.2 step 5).
    late_due: Option<Time>,
    /// When a loss probe leaves, unless something is acknowledged (PTO of RFC 8985 7.2).
    probe_due: Option<Time>,
    /// A loss probe must be sent.
    probing: bool,
    /// The probe that was sent and not answered.
    probe: Option<LossProbe>,
    /// Whether the last retransmissions were needless.
    duplicates: Duplicates,
    /// Segments that the last repair or timeout is about.
    repaired: ByteRange,
    /// Until segments before this one are acknowledged, no further repair counts as spurious: judging anew takes time
    /// in proportion to the window, and a hostile receiver may report anything.
    undone_until: u64,
    /// A round trip ends when segments before this one are acknowledged.
    round_end: u64,
    /// Segments before this one were sent before the tolerance of reordering last grew.
    tolerance_end: u64,
    pace_due: Option<Time>,
    /// Pacing held the sender back while this segment was the next.
    paced_until: u64,
    /// Packets that may be sent at once.
    burst: u64,
    /// The receiver takes segments before this one.
    receiver_takes: u64,
    window_max: u64,
    /// Acknowledgements of segments before this one count towards a larger window: window or pace held the sender back
    /// when this was the next.
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
            rack: Rack::default(),
            rate: RateEstimator::new(now),
            rto_min: options.rto_min,
            backoff: 0,
            rto_due: None,
            late_due: None,
            probe_due: None,
            probing: false,
            probe: None,
            duplicates: Duplicates::default(),
            repaired: ByteRange::default(),
            undone_until: 0,
            round_end: 0,
            tolerance_end: 0,
            pace_due: None,
            paced_until: 0,
            burst: options.initial_window,
            // The receiver has not sent its window yet: it takes at least the first flight.
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

    /// The next piece to send now, if any may be sent; `new` says whether there is new data, `may` how much may leave.
    pub(super) fn next(&mut self, now: Time, new: bool, may: &mut Allowance<'_>) -> Option<Next> {
        self.pace_due = None;
        let pipe = self.board.pipe();
        let window = match &self.phase {
            Phase::Recovery { reduction, .. } if !self.law.rules_recovery() => reduction.window(),
            _ => self.limits.window_packets,
        };
        if self.board.is_empty() {
            self.pacing.tick();
        }
        if new && self.board.is_empty() && now.since(self.last_sent) > self.rto() {
            self.law.on_idle(now);
            self.refresh(now);
        }
        if pipe >= window && !self.probing {
            self.held_back_until = self.board.next();
            return None;
        }
        let Some(next) = self.candidate(new) else {
            self.probing = false;
            if !new {
                self.rate.on_app_limited(pipe);
            }
            return None;
        };
        if let Some(due) = self.allowed.delays(now, self.packet_bytes).max(may.delays(now, self.packet_bytes)) {
            // The path could deliver more, and nothing is learnt of a larger window.
            self.rate.on_app_limited(pipe);
            self.pace_due = Some(due);
            return None;
        }
        if !self.probing && !self.pacing.allows(now, self.packet_bytes) {
            self.held_back_until = self.board.next();
            self.paced_until = self.board.next();
            self.pace_due = Some(self.pacing.due(self.packet_bytes));
            return None;
        }
        Some(next)
    }

    /// The next segment to send: a lost one, otherwise a new one. A loss probe is a new segment, otherwise the last one
    /// again.
    fn candidate(&self, new: bool) -> Option<Next> {
        if let Some(lost) = self.board.next_lost() {
            return Some(Next::Again(lost));
        }
        let taken = self.board.next() < self.receiver_takes && self.board.outstanding() < self.window_max;
        if new && taken {
            return Some(Next::New);
        }
        self.board.last_missing().filter(|_| self.probing).map(Next::Again)
    }

    /// A new segment with the bytes `body` leaves. Returns its number.
    pub(super) fn send(&mut self, now: Time, body: ByteRange) -> Sequence {
        let snapshot = self.snapshot(now, self.board.pipe() + 1);
        let number = self.board.push(Segment::new(body, snapshot));
        self.note_sent(now, false);
        Sequence::new(number as u32)
    }

    /// Segment `number` leaves again. Returns its number on the wire and its bytes.
    pub(super) fn send_again(&mut self, now: Time, number: u64) -> Option<(Sequence, ByteRange)> {
        let snapshot = self.snapshot(now, self.board.pipe() + 1);
        let body = self.board.resend(number, snapshot)?;
        if let Phase::Loss { spurious: spurious @ Spurious::NotResent, .. } = &mut self.phase {
            *spurious = Spurious::ResentAt(Timestamp::of(now));
        }
        self.duplicates.resent += 1;
        self.note_sent(now, true);
        Some((Sequence::new(number as u32), body))
    }

    fn snapshot(&mut self, now: Time, in_flight: u64) -> Snapshot {
        if self.board.is_empty() {
            self.rate.on_restart(now);
        }
        self.rate.on_send(now, in_flight)
    }

    fn note_sent(&mut self, now: Time, again: bool) {
        self.last_sent = now;
        self.pacing.spend(self.packet_bytes);
        self.allowed.spend(self.packet_bytes);
        if let Phase::Recovery { reduction, .. } = &mut self.phase {
            reduction.on_send();
        }
        if self.rto_due.is_none() {
            self.rto_due = Some(now + self.rto());
        }
        if std::mem::take(&mut self.probing) {
            self.probe = Some(LossProbe { end: self.board.next(), again });
            self.probe_due = None;
        } else if !again {
            self.arm_probe(now);
        }
    }

    /// Sets the time of the next loss probe (RFC 8985 7.2). Where segments came behind a gap they tell of losses
    /// themselves.
    fn arm_probe(&mut self, now: Time) {
        let useful =
            self.phase == Phase::Open && self.probe.is_none() && !self.board.is_empty() && self.board.sacked() == 0;
        self.probe_due = self.rtt.smoothed().filter(|_| useful).map(|smoothed| {
            let slack = if self.board.outstanding() == 1 { ACK_DELAY } else { PROBE_SLACK };
            let due = now + smoothed * 2 + slack;
            self.rto_due.map_or(due, |rto| due.min(rto))
        });
    }

    // --- Acknowledgements -------------------------------------------------------------------------------------------

    /// An acknowledgement came. If it names unsent segments, it is ignored.
    pub(super) fn on_ack(&mut self, now: Time, ack: &AckHeader) {
        let Some(acknowledged) = self.number_of(ack.acknowledged) else { return };
        let held_back = self.board.first() < self.held_back_until;
        let paced = self.board.first() < self.paced_until;
        let mut progress = self.board.progress(now, self.rack.least());
        let sacked_before = self.board.sacked();
        self.board.acknowledge(acknowledged, &mut progress);
        let duplicates = self.take_blocks(ack, &mut progress);
        self.receiver_takes = self.receiver_takes.max(acknowledged.saturating_add(u64::from(ack.window)));
        let rtt = if progress.acknowledged > 0 { self.measure_rtt(now, ack.echo) } else { self.take_rtt(&progress) };
        if progress.acknowledged > 0 {
            self.backoff = 0;
            self.rto_due = (!self.board.is_empty()).then(|| now + self.rto());
        }
        self.rack.on_ack(&progress);
        self.find_lost(&mut progress);
        // The acknowledgement that ends a recovery leaves the window at the threshold, too (RFC 5681 section 3.2
        // step 6).
        let repairing = matches!(self.phase, Phase::Recovery { .. });
        self.judge_probe(now, &progress, duplicates);
        // RFC 9937 RecoverFS: segments outstanding before this acknowledgement, lost or not.
        let flight = (self.board.outstanding() + progress.acknowledged).saturating_sub(sacked_before);
        self.change_phase(now, ack.echo, flight, &mut progress);
        let newest = progress.newest.as_ref();
        let rate = newest.and_then(|n| self.rate.on_delivered(now, progress.delivered, n, self.rack.least()));
        if progress.delivered > 0 {
            let round_began = self.board.first() > self.round_end;
            if round_began {
                self.round_end = self.board.next();
            }
            self.law.on_ack(&AckSample {
                now,
                delivered_packets: progress.delivered,
                lost_packets: progress.lost,
                in_flight: self.board.pipe(),
                packet_bytes: self.packet_bytes,
                rtt,
                smoothed_rtt: self.rtt.smoothed().unwrap_or(Span::ZERO),
                round_began,
                window_limited: held_back,
                // A window grows only by new segments in order, also after a timeout: arrivals behind an open gap do
                // not show whether the last sending was too much.
                held: repairing || matches!(self.phase, Phase::Recovery { .. }) || progress.acknowledged == 0,
                paced,
                rate,
            });
        }
        if let Phase::Recovery { reduction, .. } = &mut self.phase {
            let safe = progress.acknowledged > 0 && progress.lost == 0;
            reduction.on_ack(progress.delivered, self.board.pipe(), safe);
        }
        if progress.acknowledged > 0 || self.board.sacked() > 0 {
            self.arm_probe(now);
        }
        self.pacing.tick();
        self.refresh(now);
    }

    /// Takes in the blocks of an acknowledgement. Returns how many segments it reports as duplicates: the first block
    /// lies below the acknowledged number, or within the second (RFC 2883).
    fn take_blocks(&mut self, ack: &AckHeader, progress: &mut Progress) -> u64 {
        let mut blocks = ack.blocks.iter().peekable();
        let mut duplicates = 0;
        if let Some((start, end)) = blocks.next_if(|(_, end)| end.ahead_of(ack.acknowledged) <= 0) {
            duplicates = u64::try_from(end.ahead_of(start)).unwrap_or(0);
            let first = self.board.first() as i64 + i64::from(start.ahead_of(Sequence::new(self.board.first() as u32)));
            let within = first >= self.repaired.start as i64 && first < self.repaired.end as i64;
            self.duplicates.reported += if within { duplicates } else { 0 };
        } else if let Some((start, end)) = blocks.next() {
            let inside = |&(s, e): &(Sequence, Sequence)| start.ahead_of(s) >= 0 && end.ahead_of(e) <= 0;
            if blocks.peek().is_some_and(inside) {
                duplicates = u64::try_from(end.ahead_of(start)).unwrap_or(0);
                self.duplicates.reported += duplicates;
            }
            self.take_block(start, end, progress);
        }
        blocks.for_each(|(start, end)| self.take_block(start, end, progress));
        if duplicates > 0 && self.board.first() > self.tolerance_end {
            self.tolerance_end = self.board.next();
            self.rack.on_duplicate();
        }
        duplicates
    }

    fn take_block(&mut self, start: Sequence, end: Sequence, progress: &mut Progress) {
        if let (Some(start), Some(end)) = (self.number_of(start), self.number_of(end)) {
            self.board.sack(ByteRange::new(start, end), progress);
        }
    }

    /// Marks overtaken and late segments as lost.
    fn find_lost(&mut self, progress: &mut Progress) {
        let before = progress.lost;
        let repairing = self.phase != Phase::Open;
        let patience = self.rack.patience(self.rtt.smoothed(), repairing, self.board.sacked());
        self.late_due = self.board.find_lost(self.rack.overtaken(), patience, progress);
        self.note_lost(progress.lost - before);
    }

    fn note_lost(&mut self, count: u64) {
        self.lost += count;
        self.rate.lost += count;
    }

    /// An acknowledgement answers the loss probe or its retransmission (RFC 8985 7.4).
    fn judge_probe(&mut self, now: Time, progress: &Progress, duplicates: u64) {
        let Some(probe) = self.probe.filter(|probe| self.board.first() >= probe.end) else { return };
        let nothing_new = progress.delivered == 0;
        if !probe.again || duplicates > 0 || nothing_new {
            self.probe = None;
        } else if self.board.first() > probe.end {
            // The probe filled the gap, or else it would have been reported as a duplicate: there was a loss.
            self.probe = None;
            if self.phase == Phase::Open {
                self.law.on_loss(&LossSample { now, in_flight: self.board.pipe() });
                self.law.on_recovered(now);
                self.pacing.on_congestion();
            }
        }
    }

    /// Forgets all segments in flight and continues with segment `from`, as after a timeout: one segment, until it is
    /// acknowledged. False if `from` is not behind all sent segments.
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
        (self.rto_due, self.late_due, self.probe_due) = (None, None, None);
        (self.probing, self.probe) = (false, None);
        self.law.on_timeout(&LossSample { now, in_flight: 0 }, true);
        self.law.on_recovered(now);
        self.pacing.on_congestion();
        self.refresh(now);
        true
    }

    /// The segment of a number on the wire: one in flight, or the next. `None`: neither.
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

    /// Takes the sample that a block gives. Long repairs bring little else.
    fn take_rtt(&mut self, progress: &Progress) -> Option<Span> {
        let rtt = progress.rtt.filter(|rtt| *rtt > Span::ZERO)?;
        self.rtt.sample(rtt);
        Some(rtt)
    }

    /// Ends a complete repair, and begins a needed one (RFC 6675 section 5).
    fn change_phase(&mut self, now: Time, echo: Timestamp, flight: u64, progress: &mut Progress) {
        let answers_original = match &mut self.phase {
            Phase::Loss { spurious, .. } if progress.acknowledged > 0 => {
                let before = std::mem::replace(spurious, Spurious::Decided);
                matches!(before, Spurious::ResentAt(resent) if echo.after(resent) < 0)
            }
            _ => false,
        };
        let in_vain = self.duplicates.all_in_vain() && self.board.first() >= self.undone_until;
        if answers_original || in_vain {
            self.undone_until = self.board.next();
            self.duplicates = Duplicates::default();
            self.law.on_spurious(now);
            self.board.find_again();
            self.end_repair(now);
            self.find_lost(progress);
        }
        if let Phase::Recovery { point, .. } | Phase::Loss { point, .. } = self.phase
            && self.board.first() >= point
        {
            self.end_repair(now);
        }
        // A retransmission lost after a timeout is another congestion; during a repair it is part of that repair.
        let lost = self.board.next_lost().is_some();
        let relapsed = matches!(self.phase, Phase::Loss { .. }) && progress.lost_again;
        if (self.phase == Phase::Open && lost) || relapsed {
            self.begin_repair(now, flight);
        }
    }

    fn begin_repair(&mut self, now: Time, flight: u64) {
        let pipe = self.board.pipe();
        self.law.on_loss(&LossSample { now, in_flight: pipe });
        self.pacing.on_congestion();
        let reduction = ProportionalReduction::new(self.law.limits().window_packets, flight, pipe);
        self.phase = Phase::Recovery { point: self.board.next(), reduction };
        self.note_repair();
        self.rto_due = Some(now + self.rto());
    }

    /// Retransmissions from now on belong to one repair.
    fn note_repair(&mut self) {
        self.duplicates = Duplicates::default();
        self.repaired = ByteRange::new(self.board.first(), self.board.next());
        (self.probe, self.probe_due, self.probing) = (None, None, false);
    }

    fn end_repair(&mut self, now: Time) {
        if self.phase != Phase::Open {
            self.phase = Phase::Open;
            self.rack.on_recovered();
            self.law.on_recovered(now);
        }
    }

    /// Asks the law again for its limits.
    fn refresh(&mut self, now: Time) {
        self.limits = self.law.limits();
        let window = Window {
            packets: self.limits.window_packets,
            packet: self.packet_bytes,
            rtt: self.rtt.smoothed().unwrap_or(Span::ZERO),
            slow_start: self.law.in_slow_start(),
            burst: self.burst,
        };
        self.pacing.set(now, self.limits.pace, window);
    }

    // --- Timeouts ---------------------------------------------------------------------------------------------------

    /// The retransmission timeout (RFC 6298), doubled for each that has passed in vain. As in Linux the floor is one
    /// of the variation, not of the whole.
    fn rto(&self) -> Span {
        let base = match (self.rtt.smoothed(), self.rtt.patience()) {
            (Some(smoothed), Some(patience)) => patience.max(smoothed + self.rto_min),
            _ => RTO_INITIAL,
        };
        (base * (1 << self.backoff.min(16))).min(RTO_MAX)
    }

    /// Timers may have passed.
    pub(super) fn on_timeout(&mut self, now: Time) {
        let passed = |due: Option<Time>| due.is_some_and(|due| due <= now);
        if passed(self.late_due) {
            self.on_late(now);
        }
        if self.board.is_empty() {
            (self.rto_due, self.probe_due) = (None, None);
        } else if passed(self.probe_due) {
            (self.probing, self.probe_due) = (true, None);
            self.rto_due = Some(now + self.rto());
        } else if passed(self.rto_due) {
            self.on_retransmission_timeout(now);
        }
    }

    /// A segment that was overtaken has had time enough.
    fn on_late(&mut self, now: Time) {
        let flight = self.board.outstanding() - self.board.sacked();
        let mut progress = self.board.progress(now, None);
        self.find_lost(&mut progress);
        self.change_phase(now, Timestamp::of(now), flight, &mut progress);
        self.refresh(now);
    }

    fn on_retransmission_timeout(&mut self, now: Time) {
        // The threshold is set once for segments sent before losses were found, and anew after progress (as Linux
        // does).
        let (spurious, repeated) = match self.phase {
            Phase::Open => (Spurious::NotResent, false),
            Phase::Loss { spurious, .. } => (spurious, self.backoff > 0),
            // The acknowledgement may answer a retransmission from before the timeout.
            Phase::Recovery { .. } => (Spurious::Decided, true),
        };
        let patience = self.rack.patience(self.rtt.smoothed(), true, self.board.sacked());
        let mut progress = self.board.progress(now, None);
        self.board.time_out(patience, &mut progress);
        self.note_lost(progress.lost);
        self.law.on_timeout(&LossSample { now, in_flight: self.board.pipe() }, repeated);
        self.pacing.on_congestion();
        if self.phase == Phase::Open {
            self.note_repair();
        }
        self.phase = Phase::Loss { point: self.board.next(), spurious };
        self.late_due = None;
        self.backoff += 1;
        self.rto_due = Some(now + self.rto());
        self.refresh(now);
    }

    /// When a timer of losses is due.
    pub(super) fn loss_due(&self) -> Option<Time> {
        [self.rto_due, self.late_due, self.probe_due].into_iter().flatten().min()
    }

    /// When pacing lets the next segment leave, if one waits for that.
    pub(super) fn pace_due(&self) -> Option<Time> {
        self.pace_due
    }

    // --- Getters ----------------------------------------------------------------------------------------------------

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
