//! A sender as that of ns-2.26's `Agent/TCP/Sack1`, for papers that were simulated with it: after losses, its schedule
//! of sending differs from today's TCP. Written from its behaviour; ns-2 shares no code with this.
//!
//! - Recovery begins with the third acknowledgement that reports something new behind a gap. From then on every gap below
//!   the highest reported segment is sent again once, the lowest first.
//! - The pipe begins as all outstanding segments, lost ones included, less three. Each acknowledgement reduces it by
//!   one, and an acknowledgement of new segments in order by two. So with many losses, few segments leave before
//!   acknowledgements of retransmissions come; each of those releases two.
//! - A retransmission that is lost is found by a timeout. Then all reports are forgotten, and everything from the first
//!   missing segment on is sent again, in slow start from one segment. Until that is acknowledged no recovery begins.
//! - Only blocks (fhstcp-2005) are spread over time: segments released by an acknowledgement leave at once.
//! - A cut in slow start, and the first cut, always halves the window.
//!
//! Other than ns-2's, round trips are measured by echoed times to the microsecond, not by one segment a window in ticks of
//! 10 ms; and there is no SYN.

use std::collections::VecDeque;

use inhaul_base::{ByteRange, RangeSet, Sequence, Span, Time};
use inhaul_transport::kit::sender::Allowance;
use inhaul_transport::kit::{RateLimit, RttEstimator};
use inhaul_transport::{AckSample, Law, Limits, LossSample, Pace};

use super::pacing::{Pacing, Window};
use super::stream::Next;
use crate::tcp::options::Options;
use crate::tcp::wire::{AckHeader, Timestamp};

/// The timeout before anything is measured (`rtxcur_init_`).
const NS2_RTO_INITIAL: Span = Span::from_secs(3);
/// The longest (RFC 6298 2.5).
const NS2_RTO_MAX: Span = Span::from_secs(60);
/// The acknowledgement of this number that reports something new begins a recovery (`numdupacks_`).
const NS2_DUP_ACKS: u64 = 3;

/// Losses are being repaired by blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recovery {
    /// It ends when segments before this one are acknowledged.
    point: u64,
    /// Segments that are taken to be on their way.
    pipe: i64,
}

/// The sending half of a connection.
pub(super) struct Ns2Stream {
    /// Number of the first segment that is not acknowledged.
    first: u64,
    /// The bytes of the segments from that on.
    bodies: VecDeque<ByteRange>,
    /// The next segment to send (`t_seqno_`): after a timeout, a segment that was sent before.
    at: u64,
    /// Segments reported since the board was last cleared; and these together with segments sent again since.
    sacked: RangeSet,
    done: RangeSet,
    /// Acknowledgements in a row that reported something new and nothing in order.
    duplicates: u64,
    recovery: Option<Recovery>,
    /// The first segment of a recovery, which leaves regardless of the pipe.
    forced: Option<u64>,
    /// No recovery begins before more than this segment is acknowledged, the last that was sent before a timeout.
    timed_out_at: Option<u64>,
    /// Nothing new was acknowledged since a timeout.
    timed_out: bool,
    law: Box<dyn Law + Send>,
    limits: Limits,
    pacing: Pacing,
    /// The rate that the receiver allows.
    pub(super) allowed: RateLimit,
    rtt: RttEstimator,
    rto_min: Span,
    backoff: u32,
    rto_due: Option<Time>,
    pace_due: Option<Time>,
    receiver_takes: u64,
    window_max: u64,
    packet_bytes: u64,
    /// Segments that were sent again, except those that the receiver already had by its reports.
    pub(super) lost: u64,
}

impl Ns2Stream {
    pub(super) fn new(law: Box<dyn Law + Send>, options: &Options) -> Self {
        Self {
            first: 0,
            bodies: VecDeque::new(),
            at: 0,
            sacked: RangeSet::new(),
            done: RangeSet::new(),
            duplicates: 0,
            recovery: None,
            forced: None,
            timed_out_at: None,
            timed_out: false,
            limits: law.limits(),
            law,
            pacing: Pacing::Unpaced,
            allowed: RateLimit::default(),
            rtt: RttEstimator::default(),
            rto_min: options.rto_min,
            backoff: 0,
            rto_due: None,
            pace_due: None,
            receiver_takes: options.initial_window,
            window_max: options.window_max,
            packet_bytes: 1500,
            lost: 0,
        }
    }

    /// Number of the next new segment.
    fn end(&self) -> u64 {
        self.first + self.bodies.len() as u64
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// As [`Stream::next`](super::stream::Stream::next).
    pub(super) fn next(&mut self, now: Time, new: bool, may: &mut Allowance<'_>) -> Option<Next> {
        self.pace_due = None;
        let next = self.candidate(new)?;
        if let Some(due) = self.allowed.delays(now, self.packet_bytes).max(may.delays(now, self.packet_bytes)) {
            self.pace_due = Some(due);
            return None;
        }
        if self.forced.is_none() && !self.pacing.allows(now, self.packet_bytes) {
            self.pace_due = Some(self.pacing.due(self.packet_bytes));
            return None;
        }
        Some(next)
    }

    fn candidate(&self, new: bool) -> Option<Next> {
        if let Some(first) = self.forced {
            return Some(Next::Again(first));
        }
        let window = self.limits.window_packets;
        let fits = match self.recovery {
            Some(Recovery { pipe, .. }) => pipe < i64::try_from(window).unwrap_or(i64::MAX),
            // Limited transmit (`singledup_`): one more for each of the first two. Further ones let nothing leave.
            None => self.duplicates < NS2_DUP_ACKS && self.at < self.first + window + self.duplicates,
        };
        if !fits {
            return None;
        }
        if self.recovery.is_some()
            && let Some(gap) = self.first_gap()
        {
            return Some(Next::Again(gap));
        }
        if self.at < self.end() {
            return Some(Next::Again(self.at));
        }
        let taken = self.at < self.receiver_takes && (self.bodies.len() as u64) < self.window_max;
        (new && taken).then_some(Next::New)
    }

    /// The first segment below the highest reported one that has neither come nor been sent again.
    fn first_gap(&self) -> Option<u64> {
        let highest = self.sacked.iter().next_back()?.end;
        let gap = self.done.run_at(self.first).map_or(self.first, |run| run.end);
        (gap < highest).then_some(gap)
    }

    /// A new segment with the bytes `body` leaves. Returns its number.
    pub(super) fn send(&mut self, now: Time, body: ByteRange) -> Sequence {
        let number = self.end();
        self.bodies.push_back(body);
        self.at = self.end();
        self.note_sent(now);
        Sequence::new(number as u32)
    }

    /// Segment `number` leaves again. Returns its number on the wire and its bytes.
    pub(super) fn send_again(&mut self, now: Time, number: u64) -> Option<(Sequence, ByteRange)> {
        let body = *self.bodies.get(number.checked_sub(self.first)? as usize)?;
        self.done.insert(ByteRange::at(number, 1));
        self.lost += 1;
        self.at = self.at.max(number + 1);
        if self.forced.take().is_some() {
            // It replaces a counted segment.
            self.pacing.spend(self.packet_bytes);
            self.allowed.spend(self.packet_bytes);
        } else {
            self.note_sent(now);
        }
        Some((Sequence::new(number as u32), body))
    }

    fn note_sent(&mut self, now: Time) {
        if let Some(recovery) = &mut self.recovery {
            recovery.pipe += 1;
        }
        self.pacing.spend(self.packet_bytes);
        self.allowed.spend(self.packet_bytes);
        if self.rto_due.is_none() {
            self.rto_due = Some(now + self.rto());
        }
    }

    // --- Acknowledgements -------------------------------------------------------------------------------------------

    /// As [`Stream::on_ack`](super::stream::Stream::on_ack).
    pub(super) fn on_ack(&mut self, now: Time, ack: &AckHeader) {
        let Some(acknowledged) = self.number_of(ack.acknowledged) else { return };
        self.receiver_takes = self.receiver_takes.max(acknowledged.saturating_add(u64::from(ack.window)));
        self.lost = self.lost.saturating_sub(duplicates(ack));
        let in_order = acknowledged > self.first;
        if in_order {
            self.take_rtt(now, ack.echo);
            self.forget_before(acknowledged);
        }
        match &mut self.recovery {
            Some(recovery) => {
                recovery.pipe -= if in_order { 2 } else { 1 };
                let over = in_order && self.first >= recovery.point;
                if over {
                    (self.recovery, self.timed_out_at) = (None, None);
                    self.law.on_recovered(now);
                    self.clear_board();
                } else {
                    self.take_blocks(ack);
                }
            }
            None if in_order => {
                self.clear_board();
                self.grow(now);
            }
            None if !self.timed_out => self.on_duplicate(now, ack),
            None => {}
        }
        if in_order {
            self.timed_out = false;
            self.backoff = 0;
            self.rto_due = (!self.bodies.is_empty()).then(|| now + self.rto());
        }
        self.refresh(now);
    }

    /// An acknowledgement of nothing new in order came, outside of a recovery.
    fn on_duplicate(&mut self, now: Time, ack: &AckHeader) {
        if !self.take_blocks(ack) {
            return;
        }
        self.duplicates += 1;
        if self.duplicates == NS2_DUP_ACKS && self.timed_out_at.is_none_or(|last| self.first > last + 1) {
            self.begin_recovery(now);
        }
    }

    /// Segments before `acknowledged` have come in order.
    fn forget_before(&mut self, acknowledged: u64) {
        self.bodies.drain(..(acknowledged - self.first) as usize);
        self.first = acknowledged;
        self.at = self.at.max(self.first);
        self.forced = self.forced.filter(|forced| *forced >= acknowledged);
        for set in [&mut self.sacked, &mut self.done] {
            set.remove(ByteRange::new(0, acknowledged));
        }
    }

    fn clear_board(&mut self) {
        (self.sacked, self.done) = (RangeSet::new(), RangeSet::new());
        self.duplicates = 0;
        self.forced = None;
    }

    /// Takes in the blocks. Returns whether they report something new.
    fn take_blocks(&mut self, ack: &AckHeader) -> bool {
        let before = self.sacked.covered();
        for (start, end) in ack.blocks.iter() {
            if let (Some(start), Some(end)) = (self.number_of(start), self.number_of(end))
                && start < end
            {
                let block = ByteRange::new(start, end);
                self.sacked.insert(block);
                self.done.insert(block);
            }
        }
        self.sacked.covered() > before
    }

    fn begin_recovery(&mut self, now: Time) {
        let outstanding = self.bodies.len() as u64;
        self.recovery = Some(Recovery { point: self.end(), pipe: outstanding as i64 - NS2_DUP_ACKS as i64 });
        self.forced = Some(self.first);
        self.law.on_loss(&LossSample { now, in_flight: outstanding });
        self.pacing.on_congestion();
        self.rto_due = Some(now + self.rto());
    }

    /// One acknowledgement of something new is one step, however much it acknowledges (`opencwnd`).
    fn grow(&mut self, now: Time) {
        self.law.on_ack(&AckSample {
            now,
            delivered_packets: 1,
            in_flight: self.bodies.len() as u64,
            packet_bytes: self.packet_bytes,
            rtt: self.rtt.smoothed(),
            smoothed_rtt: self.rtt.smoothed().unwrap_or(Span::ZERO),
            window_limited: true,
            ..AckSample::default()
        });
    }

    /// The segment that a number on the wire means: one of those outstanding, or the next.
    fn number_of(&self, wire: Sequence) -> Option<u64> {
        let ahead = wire.ahead_of(Sequence::new(self.first as u32));
        let number = self.first.checked_add_signed(i64::from(ahead))?;
        (self.first..=self.end()).contains(&number).then_some(number)
    }

    fn take_rtt(&mut self, now: Time, echo: Timestamp) {
        if let Ok(micros) = u64::try_from(Timestamp::of(now).after(echo)) {
            self.rtt.sample(Span::from_micros(micros.max(1)));
        }
    }

    fn refresh(&mut self, now: Time) {
        self.limits = self.law.limits();
        if self.limits.pace == Pace::Unpaced {
            self.pacing = Pacing::Unpaced;
            return;
        }
        let window = Window {
            packets: self.limits.window_packets,
            packet: self.packet_bytes,
            rtt: self.rtt.smoothed().unwrap_or(Span::ZERO),
            slow_start: self.law.in_slow_start(),
            burst: 1,
        };
        self.pacing.set(now, self.limits.pace, window);
    }

    // --- Timeouts ---------------------------------------------------------------------------------------------------

    fn rto(&self) -> Span {
        let base = self.rtt.patience().map_or(NS2_RTO_INITIAL, |patience| patience.max(self.rto_min));
        (base * (1 << self.backoff.min(16))).min(NS2_RTO_MAX)
    }

    /// The retransmission timer may have passed.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.rto_due.is_none_or(|due| due > now) {
            return;
        }
        if self.bodies.is_empty() {
            self.rto_due = None;
            return;
        }
        self.recovery = None;
        self.clear_board();
        self.timed_out = true;
        self.timed_out_at = self.end().checked_sub(1);
        self.at = self.first;
        self.law.on_timeout(&LossSample { now, in_flight: 0 }, false);
        self.pacing.on_congestion();
        self.backoff += 1;
        self.rto_due = Some(now + self.rto());
        self.refresh(now);
    }

    /// When the retransmission timer is due.
    pub(super) fn loss_due(&self) -> Option<Time> {
        self.rto_due
    }

    /// When pacing lets the next segment leave, if one waits for that.
    pub(super) fn pace_due(&self) -> Option<Time> {
        self.pace_due
    }

    // --- Getters ----------------------------------------------------------------------------------------------------

    /// As [`Stream::restart`](super::stream::Stream::restart).
    pub(super) fn restart(&mut self, now: Time, from: Sequence) -> bool {
        let ahead = from.ahead_of(Sequence::new(self.first as u32));
        let Some(from) = self.first.checked_add_signed(i64::from(ahead)).filter(|from| *from >= self.end()) else {
            return false;
        };
        self.receiver_takes = self.receiver_takes.saturating_sub(self.first).saturating_add(from);
        self.bodies.clear();
        (self.first, self.at, self.timed_out_at) = (from, from, None);
        (self.recovery, self.rto_due, self.timed_out) = (None, None, false);
        self.clear_board();
        self.law.on_timeout(&LossSample { now, in_flight: 0 }, true);
        self.refresh(now);
        true
    }

    pub(super) fn set_packet_bytes(&mut self, now: Time, bytes: u64) {
        if self.packet_bytes != bytes {
            self.packet_bytes = bytes;
            self.refresh(now);
        }
    }

    pub(super) fn packet_bytes(&self) -> u64 {
        self.packet_bytes
    }

    pub(super) fn window(&self) -> u64 {
        self.limits.window_packets
    }

    pub(super) fn pace(&self) -> Pace {
        self.limits.pace
    }

    pub(super) fn smoothed_rtt(&self) -> Span {
        self.rtt.smoothed().unwrap_or(Span::ZERO)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let fragments = self.sacked.fragments() + self.done.fragments();
        self.bodies.capacity() * size_of::<ByteRange>() + fragments * 40
    }
}

/// Segments that an acknowledgement reports to have come before: its first block lies below the acknowledged number, or
/// within the second (RFC 2883). ns-2 had no such reports by default; here they serve only to count.
fn duplicates(ack: &AckHeader) -> u64 {
    let mut blocks = ack.blocks.iter();
    let Some((start, end)) = blocks.next() else { return 0 };
    let inside = |(s, e): (Sequence, Sequence)| start.ahead_of(s) >= 0 && end.ahead_of(e) <= 0;
    let is_duplicate = end.ahead_of(ack.acknowledged) <= 0 || blocks.next().is_some_and(inside);
    if is_duplicate { u64::try_from(end.ahead_of(start)).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
#[path = "ns2_tests.rs"]
mod tests;
