//! One flow as the receiver sees it: requests and acknowledgements.

use inhaul_base::{ByteRange, Sequence, Span, Time};
use inhaul_transport::kit::division::{Share, Shared};
use inhaul_transport::kit::receiver::{FlowCore, ReceiverFlow, Silence};
use inhaul_transport::kit::wire::RANGES_MAX;
use inhaul_transport::kit::{Meter, Object, Outstanding};
use inhaul_transport::{Expected, FlowStats};

use super::reassembly::{Arrival, Reassembly};
use crate::tcp::options::{ACK_DELAY, ACK_EVERY, Options};
use crate::tcp::wire::{AckHeader, DataHeader, HEADER_LEN, Timestamp};

/// Bytes requested ahead, in sender's windows: the data in flight, the data that leaves until a request arrives while
/// the window doubles, and as much again ...
const LEAD_WINDOWS: u64 = 4;
/// ... at least, and at most.
const LEAD_MIN: u64 = 1 << 20;
const LEAD_MAX: u64 = 1 << 32;
/// A part of the lead that is worth a request.
const LEAD_STEP: u64 = 8;
/// A sender that answers probes but sends no data for so long is given up: fifteen retransmissions that were lost.
const MUTE_MAX: Span = Span::from_secs(150);

/// A flow's state at the receiver.
pub(crate) struct Flow {
    pub(super) core: FlowCore,
    pub(super) outstanding: Outstanding,
    /// The flow's share.
    share: Share,
    reassembly: Reassembly,
    window: u64,
    delayed_acks: bool,
    /// Segments since the last acknowledgement.
    unacknowledged: u64,
    ack_now: bool,
    ack_due: Option<Time>,
    /// The sender's window, as two to this power bytes.
    window_log: u8,
    /// When data last came, or was asked for when nothing was.
    last_data: Time,
    meter: Meter,
    received_packets: u64,
    wire_bytes: u64,
}

impl Flow {
    pub(super) fn new(now: Time, mut core: FlowCore, options: &Options) -> Self {
        core.block_max = options.segment.unwrap_or(u16::MAX);
        Self {
            core,
            outstanding: Outstanding::default(),
            share: Share::default(),
            reassembly: Reassembly::default(),
            window: options.window_max,
            delayed_acks: options.delayed_acks,
            unacknowledged: 0,
            ack_now: false,
            ack_due: None,
            window_log: 0,
            last_data: now,
            meter: Meter::new(now),
            received_packets: 0,
            wire_bytes: 0,
        }
    }

    /// The path is open.
    pub(super) fn open(&mut self, now: Time) {
        self.last_data = now;
    }

    /// The stream goes on behind all that could have been sent. Returns its next segment.
    pub(super) fn restart(&mut self) -> Sequence {
        self.reassembly.restart(self.window)
    }

    // --- Requests ---------------------------------------------------------------------------------------------------

    /// Bytes to request ahead of the arrivals.
    fn lead(&self) -> u64 {
        let window = 1u64 << self.window_log.min(40);
        (window * LEAD_WINDOWS).clamp(LEAD_MIN, LEAD_MAX)
    }

    /// Requests more if enough of the requested bytes have come. Returns the request's number and ranges.
    pub(super) fn ask(&mut self, now: Time, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        let (lead, pending) = (self.lead(), self.outstanding.pending_bytes());
        if !self.share.is_granted() || pending + lead / LEAD_STEP > lead || !self.outstanding.has_room(RANGES_MAX) {
            return None;
        }
        let segment = u64::from(self.core.block);
        let ranges = object.take(lead - pending, segment, RANGES_MAX, &self.core.avoid);
        if ranges.is_empty() {
            return None;
        }
        if pending == 0 {
            self.last_data = now;
        }
        Some((self.outstanding.ask(segment, &ranges), ranges))
    }

    // --- Data and acknowledgements ----------------------------------------------------------------------------------

    /// The `count` segments from `head`'s on came, with `bytes` of body. Returns their effect on the stream.
    pub(super) fn on_data(&mut self, now: Time, head: &DataHeader, count: u64, bytes: u64) -> Arrival {
        let arrival = self.reassembly.arrive(head.sequence, count, head.sent, self.window);
        self.core.last_heard = now;
        self.last_data = now;
        let full_size = bytes >= count * u64::from(self.core.block);
        self.core.path.on_data(now, full_size, self.outstanding.pending_bytes() > 0);
        self.window_log = head.window_log;
        let wire = bytes + count * self.core.overhead();
        self.received_packets += count;
        self.wire_bytes += wire;
        self.meter.add(now, wire);
        match arrival {
            Arrival::InOrder => {
                self.unacknowledged += count;
                self.ack_now |= self.unacknowledged >= ACK_EVERY || !self.delayed_acks;
                self.ack_due.get_or_insert(now + ACK_DELAY);
            }
            Arrival::OutOfOrder | Arrival::Duplicate => self.ack_now = true,
            Arrival::Refused => {}
        }
        arrival
    }

    /// Whether one more block may be too many for one acknowledgement.
    pub(super) fn has_much_to_report(&self) -> bool {
        self.reassembly.has_much_to_report()
    }

    /// The acknowledgement that is due, if one is.
    pub(super) fn due_ack(&mut self, now: Time) -> Option<AckHeader> {
        if !self.ack_now && self.ack_due.is_none_or(|due| due > now) {
            return None;
        }
        self.ack_now = false;
        self.ack_due = None;
        self.unacknowledged = 0;
        let (acknowledged, echo, blocks) = self.reassembly.acknowledge();
        let sent = Timestamp::of(now);
        Some(AckHeader { acknowledged, echo, window: self.window as u32, sent, blocks })
    }

    /// A timer has passed.
    pub(super) fn on_timer(&mut self, now: Time) {
        self.meter.refresh(now);
    }
}

impl Shared for Flow {
    fn share(&self) -> &Share {
        &self.share
    }

    fn share_mut(&mut self) -> &mut Share {
        &mut self.share
    }

    fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }
}

impl ReceiverFlow for Flow {
    fn core(&self) -> &FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }

    fn pending_bytes(&self) -> u64 {
        self.outstanding.pending_bytes()
    }

    fn last_request(&self) -> u32 {
        self.outstanding.last_id()
    }

    fn abandon(&mut self) -> Vec<ByteRange> {
        self.outstanding.abandon().iter().collect()
    }

    fn is_idle(&self) -> bool {
        self.core.path.is_open() && self.outstanding.pending_bytes() == 0
    }

    fn time_for(&self, bytes: u64) -> Span {
        let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
        self.meter.rate().time_for(bytes) + rtt
    }

    fn due(&self) -> Option<Time> {
        self.ack_due
    }

    fn silence(&self) -> Option<Silence> {
        let silent = self.core.silence();
        let since = self.last_data;
        let mute = Silence { until: since + MUTE_MAX, since, no_path: true };
        if self.outstanding.pending_bytes() > 0 { silent.min(Some(mute)) } else { silent }
    }

    fn expected(&self) -> Option<Expected> {
        // Behind a gap the next to come may be the missing one.
        let (range, body) = self.outstanding.expected()?;
        Some(Expected { head_len: HEADER_LEN, body_len: body as usize, range })
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            wire_bytes: self.wire_bytes,
            received_packets: self.received_packets,
            received_rate: self.meter.rate(),
            target_rate: self.share.target(),
            requested_rate: self.share.said(),
            outstanding_bytes: self.outstanding.pending_bytes(),
            ..self.core.stats()
        }
    }

    fn memory_bytes(&self) -> usize {
        self.outstanding.memory_bytes() + self.reassembly.memory_bytes()
    }
}
