//! One flow of a sender: its schedule of sending.

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::sender::{FlowCore, SenderFlow, Slot};
use inhaul_transport::kit::{Pacer, RateLimit};
use inhaul_transport::{FlowStats, TxBatch};

use crate::gtp::wire::{DataHeader, Edge, HEADER_LEN};

/// How long after the last data the edge is announced again: soon at first, because the tail may be lost, then at
/// longer intervals.
const EDGE_GAPS_MS: [u64; 7] = [5, 10, 20, 50, 100, 200, 500];
/// A burst is at most what the flow's share earns in this time ...
pub(super) const BURST_SPAN_MAX: Span = Span::from_millis(50);
/// ... and at most this many bytes or packets, whichever is more: a receiver needs no longer train to measure a path.
const BURST_BYTES_MAX: u64 = 256 << 10;
const BURST_PACKETS: u64 = 16;
/// UDP payload that one flow adds to a batch before others that are due have their turn: a message with segmentation
/// offload at least, ...
const TURN_BYTES_MIN: u64 = 65_507;
/// ... and at most this much, even if no other flow is due.
const TURN_BYTES_MAX: u64 = 1 << 20;
/// Beyond a burst, the credit of a wake-up that is late by this much may leave at once ...
const LATENESS: Span = Span::from_micros(100);
/// ... and the credit of lateness up to this much leaves little by little.
pub(super) const LATENESS_KEPT: Span = Span::from_millis(3);
/// A receiver can stop its sender for at most this long at a time, and at most this far ahead.
const HOLD_MAX: Span = Span::from_secs(1);

/// A flow's state at the sender.
pub(crate) struct SendFlow {
    pub(super) core: FlowCore,
    epoch: u16,
    pub(super) requested_rate: Bitrate,
    requested_burst: u64,
    pub(super) told_limit: Option<Bitrate>,
    /// At the last look across flows: the sent bytes, and the requested rate.
    looked: (u64, Bitrate),
    /// Bytes that leave back to back: as requested, within bounds.
    burst: u64,
    pub(super) pacer: Pacer,
    /// The shared limit has no room before this time.
    held_until: Time,
    /// The receiver's host will not take data in.
    hold: Option<Hold>,
    edges_sent: usize,
    edge_due: Option<Time>,
}

/// What bounds a flow together with others.
pub(super) struct Shared<'s> {
    /// R_send, all flows'.
    pub(super) host: &'s mut Option<Pacer>,
    /// That of the flow's client.
    pub(super) client: Option<&'s mut RateLimit>,
}

impl Shared<'_> {
    /// How much of `allowed` bytes may leave, if that is `quantum` at least; or when it is.
    fn allow(&mut self, now: Time, allowed: u64, quantum: u64) -> Result<u64, Time> {
        let mut allowed = allowed;
        if let Some(host) = self.host {
            allowed = allowed.min(host.allowance(now));
            if allowed < quantum {
                return Err(host.due(quantum));
            }
        }
        if let Some(client) = &mut self.client {
            if let Some(due) = client.delays(now, quantum) {
                return Err(due);
            }
            allowed = allowed.min(client.allowance(now));
        }
        Ok(allowed)
    }

    fn spend(&mut self, bytes: u64) {
        if let Some(host) = self.host {
            host.spend(bytes);
        }
        if let Some(client) = &mut self.client {
            client.spend(bytes);
        }
    }
}

/// A time in which nothing is sent.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from: Time,
    until: Time,
    /// The epoch of data sent after it, and the epoch in force when it was requested.
    epoch: u16,
    before: u16,
    begun: bool,
}

impl SendFlow {
    pub(super) fn new(now: Time, core: FlowCore) -> Self {
        Self {
            core,
            epoch: 0,
            requested_rate: Bitrate::ZERO,
            requested_burst: 0,
            told_limit: None,
            looked: (0, Bitrate::ZERO),
            burst: 0,
            pacer: Pacer::new(now, Bitrate::ZERO, 0, LATENESS_KEPT),
            held_until: Time::ZERO,
            hold: None,
            edges_sent: 0,
            edge_due: None,
        }
    }

    // --- Requests of the receiver -----------------------------------------------------------------------------------

    /// Another rate is asked for.
    pub(super) fn on_rate(&mut self, now: Time, epoch: u16, rate: Bitrate, burst: u32) {
        if epoch != self.epoch {
            // Credit saved at the old rate does not count at the new one.
            self.pacer.empty(now);
        }
        self.epoch = epoch;
        self.requested_rate = rate;
        self.requested_burst = u64::from(burst);
    }

    /// Sending pauses for a while. A later message replaces an earlier one.
    pub(super) fn on_hold(&mut self, now: Time, epoch: u16, after: Span, length: Span) {
        let from = now + after.min(HOLD_MAX);
        let before = self.epoch;
        self.hold = Some(Hold { from, until: from + length.min(HOLD_MAX), epoch, before, begun: false });
    }

    /// Whether nothing may be sent now; until when, then.
    fn held(&mut self, now: Time) -> Option<Time> {
        let hold = self.hold.as_mut().filter(|hold| hold.from <= now)?;
        if !std::mem::replace(&mut hold.begun, true) && self.epoch == hold.before {
            // Data sent from now on is judged apart from earlier data.
            self.epoch = hold.epoch;
        }
        if now < hold.until {
            return Some(hold.until);
        }
        self.hold = None;
        // The pause earned no credit.
        self.pacer.rest(now);
        None
    }

    /// The flow may send this much.
    pub(super) fn set_pace(&mut self, now: Time, share: Bitrate) {
        let mtu = u64::from(self.core.mtu);
        let most = BURST_BYTES_MAX.max(BURST_PACKETS * mtu).min(share.bytes_in(BURST_SPAN_MAX));
        self.burst = self.requested_burst.min(most).max(mtu);
        self.pacer.set(now, share, self.burst + share.bytes_in(LATENESS));
    }

    /// Bytes of packets that were sent since the last look, and the rate that was asked for then.
    pub(super) fn look(&mut self) -> (u64, Bitrate) {
        let (sent, rate) = std::mem::replace(&mut self.looked, (self.core.sent.wire_bytes, self.requested_rate));
        (self.core.sent.wire_bytes - sent, rate)
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// Bytes that must be allowed before anything is sent: a whole burst, so that offload has something to work with.
    fn quantum(&self) -> u64 {
        let (queued, overhead) = (self.core.queue.bytes(), self.core.overhead());
        let block = u64::from(self.core.queue.front().map_or(1, |front| front.block));
        self.burst.max(block + overhead).min(queued + queued.div_ceil(block) * overhead).max(1)
    }

    /// How many packets may be sent now: whole bursts while there is more to send than one, so that messages with
    /// segmentation offload are full and look alike. At most `share` if that is a burst: other flows are due, too.
    /// `None` when the batch has no room for a burst but something to be sent first.
    fn whole_bursts(&self, allowed: u64, share: usize, out: &TxBatch) -> Option<usize> {
        let block = u64::from(self.core.queue.front()?.block);
        let packet = block + self.core.overhead();
        let burst = usize::try_from(self.burst / packet).unwrap_or(usize::MAX).max(1);
        let turn = |bytes: u64| (bytes / (block + HEADER_LEN as u64)).max(1) as usize;
        let (least, most) = (turn(TURN_BYTES_MIN), turn(TURN_BYTES_MAX));
        let room = out.room().min(share.clamp(least, most));
        let may = usize::try_from(allowed / packet).unwrap_or(usize::MAX).min(room);
        match may {
            _ if self.core.queue.bytes() < self.burst => Some(room),
            may if may >= burst => Some(may - may % burst),
            // A burst that is longer than a turn is sent in parts.
            _ if out.is_empty() || burst > least => Some(room),
            _ => None,
        }
    }

    /// Appends datagrams that may leave, as far as `out` has room and `shared` allows; data for about `slot.share`
    /// packets if other flows are due.
    pub(super) fn transmit(&mut self, now: Time, slot: Slot, shared: &mut Shared<'_>, out: &mut TxBatch) {
        let edge = self.push_edge(now, out);
        self.charge(slot.spent + edge, shared);
        let data = self.push_data(now, slot.share, shared, out);
        self.charge(data, shared);
        if data > 0 {
            let edge = self.push_edge(now, out);
            self.charge(edge, shared);
        }
    }

    fn charge(&mut self, bytes: u64, shared: &mut Shared<'_>) {
        self.pacer.spend(bytes);
        shared.spend(bytes);
    }

    /// Appends data packets as far as pacing and `out` allow. Returns the bytes of their IP packets.
    fn push_data(&mut self, now: Time, share: usize, shared: &mut Shared<'_>, out: &mut TxBatch) -> u64 {
        let Some(route) = self.core.route(now) else { return 0 };
        let route = route.reading_marks();
        if self.held(now).is_some() {
            return 0;
        }
        let allowed = self.pacer.allowance(now);
        let quantum = self.quantum();
        if self.core.queue.is_empty() || allowed < quantum {
            return 0;
        }
        let allowed = match shared.allow(now, allowed, quantum) {
            Ok(allowed) => allowed,
            Err(due) => {
                self.held_until = due;
                return 0;
            }
        };
        let overhead = self.core.overhead();
        let Some(mut room) = self.whole_bursts(allowed, share, out) else { return 0 };
        let mut spent = 0;
        while room > 0
            && let Some(front) = self.core.queue.front()
        {
            let (range, block) = (front.range, u64::from(front.block));
            let packets = room.min(((allowed - spent) / (block + overhead)) as usize) as u64;
            let mut bytes = range.len().min(packets * block);
            if bytes == 0 {
                // The short last block of a range may still fit where a whole one does not.
                if range.len() > block || range.len() + overhead > allowed - spent {
                    break;
                }
                bytes = range.len();
            }
            let Some(body) = self.core.queue.take(bytes) else { break };
            let (epoch, request, sent) = (self.epoch, front.request, now.as_nanos());
            out.push_run(self.core.offer.flow, route, body, block, |_, offset| {
                DataHeader { epoch, request, offset, sent }.emit()
            });
            let packets = body.len().div_ceil(block);
            self.core.sent.packets += packets;
            self.core.sent.bytes += body.len();
            spent += body.len() + packets * overhead;
            room -= packets as usize;
        }
        self.core.sent.wire_bytes += spent;
        if self.core.queue.is_empty() && spent > 0 {
            self.edge_due = Some(now);
        }
        spent
    }

    /// Says that all was sent, when that is due. Returns the bytes of the IP packet.
    fn push_edge(&mut self, now: Time, out: &mut TxBatch) -> u64 {
        let Some(route) = self.core.route(now).filter(|_| out.room() > 0) else { return 0 };
        if self.edge_due.is_none_or(|due| due > now) {
            return 0;
        }
        let edge = Edge { epoch: self.epoch, request: self.core.queue.answered() };
        out.push(self.core.offer.flow, route, &edge.emit(), ByteRange::default(), 0);
        let gap = EDGE_GAPS_MS[self.edges_sent.min(EDGE_GAPS_MS.len() - 1)];
        self.edges_sent += 1;
        self.edge_due = Some(now + Span::from_millis(gap));
        self.core.overhead()
    }
}

impl SenderFlow for SendFlow {
    fn core(&self) -> &FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }

    fn on_resume(&mut self, now: Time) {
        // Meanwhile nothing could be sent.
        self.pacer.rest(now);
    }

    fn on_request(&mut self, now: Time, _block: u16, was_idle: bool) {
        if was_idle {
            self.pacer.rest(now);
        }
        self.edge_due = None;
        self.edges_sent = 0;
    }

    fn due(&self) -> Option<Time> {
        let data = (!self.core.queue.is_empty()).then(|| {
            let due = self.pacer.due(self.quantum()).max(self.held_until);
            match self.hold {
                Some(hold) if due >= hold.from => due.max(hold.until),
                _ => due,
            }
        });
        // Actions due after the receiver counts as gone wait until it sends something.
        let in_time = |due: &Time| *due < self.core.responsive_until();
        let data = data.filter(in_time);
        let edge = self.edge_due.filter(in_time);
        data.into_iter().chain(edge).min()
    }

    fn stats(&self) -> FlowStats {
        FlowStats { target_rate: self.pacer.rate(), requested_rate: self.requested_rate, ..self.core.stats() }
    }
}
