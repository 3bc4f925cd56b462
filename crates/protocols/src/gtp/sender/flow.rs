//! One flow of a sender: where its datagrams may go, what was requested, and when what is sent.

use std::collections::VecDeque;
use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, Sequence, Span, Time};
use inhaul_transport::kit::Pacer;
use inhaul_transport::{FlowError, FlowStats, OfferFlow, Reason, TxBatch};

use super::{Entry, SILENCE_MAX};
use crate::gtp::wire::{DataHeader, Datagram, HEADER_LEN};
use crate::gtp::{FEEDBACK_MAX, QUEUED_BYTES_MAX, QUEUED_RANGES_MAX, ip_overhead, largest_block};

/// Most probes that wait for their echo.
const ECHOES_MAX: usize = 16;
/// How long after the last data the edge is announced again: soon at first, because the tail may be lost, then seldom.
const EDGE_GAPS_MS: [u64; 7] = [5, 10, 20, 50, 100, 200, 500];
/// How often a sender that has connected to its receiver tries to open the path.
const OPEN_GAP: Span = Span::from_millis(50);
/// A burst is no more than what the flow's share earns in this time ...
pub(super) const BURST_SPAN_MAX: Span = Span::from_millis(50);
/// ... nor than so many bytes or packets, whichever is more: a receiver needs no longer train to measure a path.
const BURST_BYTES_MAX: u64 = 256 << 10;
const BURST_PACKETS: u64 = 16;
/// UDP payload that one flow adds to a batch before others that are due have their turn: a message with segmentation offload at
/// least, ...
const TURN_BYTES_MIN: u64 = 65_507;
/// ... and at most so much, though no other is due yet.
const TURN_BYTES_MAX: u64 = 1 << 20;
/// Beyond a burst, at once may leave what is earned while a wake-up is late by this much ...
const LATENESS: Span = Span::from_micros(100);
/// ... and little by little what was earned while wake-ups were late by this much.
pub(super) const LATENESS_KEPT: Span = Span::from_millis(3);

/// A flow's state at the sender.
pub(super) struct SendFlow {
    pub(super) offer: OfferFlow,
    pub(super) key: Option<u32>,
    /// Where data goes: the address that returned its challenge last.
    pub(super) peer: Option<SocketAddr>,
    /// When it last did: data goes there for [`FEEDBACK_MAX`] more. `None` again once that is over.
    responded: Option<Time>,
    pub(super) mtu: u16,
    pub(super) epoch: u16,
    pub(super) requested_rate: Bitrate,
    pub(super) requested_burst: u64,
    pub(super) told_limit: Option<Bitrate>,
    /// Bytes that leave back to back: as requested, within bounds.
    burst: u64,
    pub(super) pacer: Pacer,
    /// R_send, which all flows share, has no room before this.
    held_until: Time,
    queue: VecDeque<Pending>,
    queued_ranges: usize,
    queued_bytes: u64,
    last_request: u32,
    answered: u32,
    sequence: Sequence,
    sent_bytes: u64,
    sent_wire: u64,
    sent_packets: u64,
    /// Answers to probes, each to where the probe came from.
    echoes: VecDeque<(SocketAddr, Datagram, u16)>,
    edges_sent: usize,
    edge_due: Option<Time>,
    open_due: Option<Time>,
    pub(super) heard: Time,
    /// When it has something to do next, and why.
    pub(super) next: (Time, Reason),
    /// When it was served last, as a count of all services.
    pub(super) turn: u64,
}

/// A request, or what is left of it.
struct Pending {
    id: u32,
    block: u16,
    ranges: VecDeque<ByteRange>,
}

impl SendFlow {
    pub(super) fn new(now: Time, offer: OfferFlow) -> Self {
        Self {
            key: None,
            peer: None,
            responded: None,
            mtu: offer.mtu,
            epoch: 0,
            requested_rate: Bitrate::ZERO,
            requested_burst: 0,
            told_limit: None,
            burst: 0,
            pacer: Pacer::new(now, Bitrate::ZERO, 0, LATENESS_KEPT),
            held_until: Time::ZERO,
            queue: VecDeque::new(),
            queued_ranges: 0,
            queued_bytes: 0,
            last_request: 0,
            answered: 0,
            sequence: Sequence::default(),
            sent_bytes: 0,
            sent_wire: 0,
            sent_packets: 0,
            echoes: VecDeque::new(),
            edges_sent: 0,
            edge_due: None,
            open_due: None,
            heard: now,
            next: (now + SILENCE_MAX, Reason::Silence),
            turn: 0,
            offer,
        }
    }

    /// Its entry in the agenda.
    pub(super) fn entry(&self) -> Entry {
        (self.next.0, self.turn, self.offer.flow)
    }

    /// Works out when it has something to do next. Returns its entry in the agenda.
    pub(super) fn plan(&mut self) -> Entry {
        self.next = self.due();
        self.entry()
    }

    // --- Where datagrams may go -------------------------------------------------------------------------------------

    /// Setup has come.
    pub(super) fn accept(&mut self, now: Time, key: u32, mtu: u16) {
        self.key = Some(key);
        self.mtu = self.mtu.min(mtu);
        if self.offer.peer.is_some() {
            self.open_due = Some(now);
        }
    }

    /// A probe with token and key came. It is answered where it came from, by no more bytes than it had.
    pub(super) fn on_probe(&mut self, now: Time, from: SocketAddr, echo: Datagram, len: usize) {
        self.heard = now;
        self.open_due = None;
        if self.echoes.len() < ECHOES_MAX {
            self.echoes.push_back((from, echo, len.clamp(HEADER_LEN, usize::from(u16::MAX)) as u16));
        }
    }

    /// `from` returned its challenge: data may go there, as a NAT may have moved the receiver, and goes on for a while. Returns
    /// whether it is the first time.
    pub(super) fn on_response(&mut self, now: Time, from: SocketAddr) -> bool {
        self.heard = now;
        self.open_due = None;
        if self.path(now).is_none() {
            // Meanwhile nothing could be sent.
            self.pacer.rest(now);
        }
        self.responded = Some(now);
        self.peer.replace(from).is_none()
    }

    /// Until when data goes to the receiver's address unless it says something.
    fn responsive_until(&self) -> Time {
        self.responded.map_or(Time::ZERO, |at| at + FEEDBACK_MAX)
    }

    /// The flow's key and the address to which data may go at `now`.
    fn path(&self, now: Time) -> Option<(u32, SocketAddr)> {
        if now < self.responsive_until() { self.key.zip(self.peer) } else { None }
    }

    // --- What the receiver wants ------------------------------------------------------------------------------------

    pub(super) fn set_pace(&mut self, now: Time, share: Bitrate) {
        let mtu = u64::from(self.mtu);
        let most = BURST_BYTES_MAX.max(BURST_PACKETS * mtu).min(share.bytes_in(BURST_SPAN_MAX));
        self.burst = self.requested_burst.min(most).max(mtu);
        self.pacer.set(now, share, self.burst + share.bytes_in(LATENESS));
    }

    pub(super) fn on_request(
        &mut self,
        now: Time,
        id: u32,
        block: u16,
        ranges: Vec<ByteRange>,
    ) -> Result<(), FlowError> {
        if id != self.last_request.wrapping_add(1) {
            return Err(FlowError::Protocol("requests are not numbered in order"));
        }
        if block > largest_block(self.mtu, self.is_ipv6()) {
            return Err(FlowError::Protocol("a block that does not fit a packet was requested"));
        }
        if ranges.iter().any(|r| r.end > self.offer.size) {
            return Err(FlowError::Protocol("a range beyond the object was requested"));
        }
        if self.queued_ranges + ranges.len() > QUEUED_RANGES_MAX {
            return Err(FlowError::Protocol("too many ranges were requested at once"));
        }
        let bytes = ranges.iter().fold(self.queued_bytes, |sum, range| sum.saturating_add(range.len()));
        if bytes > QUEUED_BYTES_MAX {
            return Err(FlowError::Protocol("too many bytes were requested at once"));
        }
        if self.queue.is_empty() {
            self.pacer.rest(now);
        }
        self.last_request = id;
        self.queued_ranges += ranges.len();
        self.queued_bytes = bytes;
        self.queue.push_back(Pending { id, block, ranges: ranges.into() });
        self.edge_due = None;
        self.edges_sent = 0;
        Ok(())
    }

    pub(super) fn cancel(&mut self, through: u32) {
        while let Some(pending) = self.queue.front()
            && pending.id <= through
        {
            self.answered = pending.id;
            self.queued_ranges -= pending.ranges.len();
            self.queued_bytes -= pending.ranges.iter().map(|r| r.len()).sum::<u64>();
            self.queue.pop_front();
        }
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    fn is_ipv6(&self) -> bool {
        self.peer.or(self.offer.peer).is_some_and(|p| p.is_ipv6())
    }

    fn overhead(&self) -> u64 {
        ip_overhead(self.is_ipv6()) + HEADER_LEN as u64
    }

    /// Bytes that must be allowed before anything is sent: a whole burst, so that offload has something to work with.
    fn quantum(&self) -> u64 {
        let block = u64::from(self.queue.front().map_or(1, |p| p.block));
        let packets = self.queued_bytes.div_ceil(block);
        self.burst.max(block + self.overhead()).min(self.queued_bytes + packets * self.overhead()).max(1)
    }

    /// How many packets may be sent now: whole bursts while there is more to send than one, so that messages with segmentation
    /// offload are full and look alike. At most `share` if that is a burst: other flows are due, too. `None` when the batch
    /// has no room for a burst but something to be sent first.
    fn whole_bursts(&self, allowed: u64, share: usize, out: &TxBatch) -> Option<usize> {
        let block = u64::from(self.queue.front()?.block);
        let packet = block + self.overhead();
        let burst = usize::try_from(self.burst / packet).unwrap_or(usize::MAX).max(1);
        let turn = |bytes: u64| (bytes / (block + HEADER_LEN as u64)).max(1) as usize;
        let (least, most) = (turn(TURN_BYTES_MIN), turn(TURN_BYTES_MAX));
        let room = out.room().min(share.clamp(least, most));
        let may = usize::try_from(allowed / packet).unwrap_or(usize::MAX).min(room);
        match may {
            _ if self.queued_bytes < self.burst => Some(room),
            may if may >= burst => Some(may - may % burst),
            // A burst that is longer than a turn is sent in parts.
            _ if out.is_empty() || burst > least => Some(room),
            _ => None,
        }
    }

    /// Appends what may leave as far as `out` has room; data for about `share` packets if other flows are due, and as `host`
    /// allows, which all flows share.
    pub(super) fn transmit(&mut self, now: Time, share: usize, host: &mut Option<Pacer>, out: &mut TxBatch) {
        if self.path(now).is_none() {
            self.responded = None;
        }
        let small = self.push_small(now, out);
        self.charge(small, host);
        let data = self.push_data(now, share, host, out);
        self.charge(data, host);
        if data > 0 {
            let edge = self.push_small(now, out);
            self.charge(edge, host);
        }
    }

    fn charge(&mut self, bytes: u64, host: &mut Option<Pacer>) {
        self.pacer.spend(bytes);
        if let Some(host) = host {
            host.spend(bytes);
        }
    }

    /// Appends data packets as far as pacing and `out` allow. Returns the bytes of their IP packets.
    fn push_data(&mut self, now: Time, share: usize, host: &mut Option<Pacer>, out: &mut TxBatch) -> u64 {
        let Some((key, peer)) = self.path(now) else { return 0 };
        let mut allowed = self.pacer.allowance(now);
        let quantum = self.quantum();
        if self.queue.is_empty() || allowed < quantum {
            return 0;
        }
        if let Some(host) = host {
            allowed = allowed.min(host.allowance(now));
            if allowed < quantum {
                self.held_until = host.due(quantum);
                return 0;
            }
        }
        let overhead = self.overhead();
        let Some(mut room) = self.whole_bursts(allowed, share, out) else { return 0 };
        let mut spent = 0;
        while room > 0
            && let Some(pending) = self.queue.front_mut()
        {
            let Some(range) = pending.ranges.front_mut() else {
                self.answered = pending.id;
                self.queue.pop_front();
                continue;
            };
            let block = u64::from(pending.block);
            let packets = room.min(((allowed - spent) / (block + overhead)) as usize) as u64;
            let mut body = ByteRange::at(range.start, range.len().min(packets * block));
            if body.is_empty() {
                // The short last block of a range may still fit where a whole one does not.
                if range.len() > block || range.len() + overhead > allowed - spent {
                    break;
                }
                body = *range;
            }
            let (epoch, request, first, sent) = (self.epoch, pending.id, self.sequence, now.as_nanos());
            out.push_run(self.offer.flow, peer, body, block, |k, offset| {
                DataHeader { key, epoch, request, sequence: first.plus(k), offset, sent }.emit()
            });
            let packets = body.len().div_ceil(block);
            self.sequence = self.sequence.plus(packets as u32);
            self.sent_packets += packets;
            self.sent_bytes += body.len();
            self.queued_bytes -= body.len();
            spent += body.len() + packets * overhead;
            room -= packets as usize;
            range.start = body.end;
            if range.is_empty() {
                pending.ranges.pop_front();
                self.queued_ranges -= 1;
                if pending.ranges.is_empty() {
                    self.answered = pending.id;
                    self.queue.pop_front();
                }
            }
        }
        self.sent_wire += spent;
        if self.queue.is_empty() && spent > 0 {
            self.edge_due = Some(now);
        }
        spent
    }

    /// Appends what is no data and does not wait for pacing. Returns the bytes of its IP packets that pacing counts.
    fn push_small(&mut self, now: Time, out: &mut TxBatch) -> u64 {
        let flow = self.offer.flow;
        let mut spent = 0;
        while out.room() > 0
            && let Some((to, echo, len)) = self.echoes.pop_front()
        {
            out.push(flow, to, &echo.emit(), ByteRange::default(), len - HEADER_LEN as u16);
            spent += u64::from(len) + ip_overhead(to.is_ipv6());
        }
        if out.room() > 0
            && let (Some(key), Some(to)) = (self.key, self.offer.peer)
            && self.open_due.is_some_and(|due| due <= now)
        {
            let open = Datagram::Open { key, token: self.offer.token };
            out.push(flow, to, &open.emit(), ByteRange::default(), 0);
            self.open_due = Some(now + OPEN_GAP);
        }
        if out.room() > 0
            && let Some((key, peer)) = self.path(now)
            && self.edge_due.is_some_and(|due| due <= now)
        {
            let edge = Datagram::Edge { key, epoch: self.epoch, request: self.answered, sequence: self.sequence };
            out.push(flow, peer, &edge.emit(), ByteRange::default(), 0);
            spent += self.overhead();
            let gap = EDGE_GAPS_MS[self.edges_sent.min(EDGE_GAPS_MS.len() - 1)];
            self.edges_sent += 1;
            self.edge_due = Some(now + Span::from_millis(gap));
        }
        spent
    }

    /// When this flow next needs attention, and why.
    pub(super) fn due(&self) -> (Time, Reason) {
        let data = (!self.queue.is_empty()).then(|| self.pacer.due(self.quantum()).max(self.held_until));
        // What is due when the receiver is taken for gone, or will be, waits until it says something.
        let in_time = |due: &Time| *due < self.responsive_until();
        let echo = (!self.echoes.is_empty()).then_some(self.heard);
        let silence = (self.heard + SILENCE_MAX, Reason::Silence);
        [
            (data.filter(in_time), Reason::Pace),
            (self.edge_due.filter(in_time), Reason::Probe),
            (self.open_due, Reason::Probe),
            (echo, Reason::Probe),
        ]
        .into_iter()
        .filter_map(|(at, reason)| Some((at?, reason)))
        .fold(silence, Ord::min)
    }

    // --- Reports ----------------------------------------------------------------------------------------------------

    pub(super) fn stats(&self) -> FlowStats {
        FlowStats {
            placed_bytes: self.sent_bytes,
            wire_bytes: self.sent_wire,
            received_packets: self.sent_packets,
            target_rate: self.pacer.rate(),
            requested_rate: self.requested_rate,
            outstanding_bytes: self.queued_bytes,
            ..FlowStats::default()
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.queue.capacity() * size_of::<Pending>()
            + self.queue.iter().map(|p| p.ranges.capacity() * size_of::<ByteRange>()).sum::<usize>()
    }
}
