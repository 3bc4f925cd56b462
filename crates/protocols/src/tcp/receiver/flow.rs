//! One flow as the receiver sees it: set-up, requests, acknowledgements.

use std::net::SocketAddr;

use inhaul_base::{Bitrate, RangeSet, Span, Time};
use inhaul_transport::kit::Object;
use inhaul_transport::{Expected, FlowStats, JoinFlow, ObjectId, Reason};

use super::asked::Asked;
use super::division::Share;
use super::path::{Outgoing, Path};
use super::reassembly::{Arrival, Reassembly};
use crate::tcp::wire::{AckHeader, Control, DataHeader, Datagram, HEADER_LEN, RANGES_MAX, Timestamp};
use crate::tcp::{ACK_DELAY, Options, ip_overhead, largest_segment};

/// Segments of which the first may wait [`ACK_DELAY`] for an acknowledgement (RFC 5681 4.2: every second at least).
const ACK_EVERY: u64 = 2;
/// Asked for ahead is so many times the sender's window: what is on its way, what leaves until a request arrives though the
/// window doubles, and as much again ...
const LEAD_WINDOWS: u64 = 4;
/// ... at least, and at most.
const LEAD_MIN: u64 = 1 << 20;
const LEAD_MAX: u64 = 1 << 32;
/// A part of the lead that is worth a request.
const LEAD_STEP: u64 = 8;
/// Silent for so long, a sender is gone: it answers probes.
const SILENCE_MAX: Span = Span::from_secs(30);
/// A sender that answers probes but sends no data for so long is given up: fifteen retransmissions that were lost.
const MUTE_MAX: Span = Span::from_secs(150);
/// Over so long the rate of what comes in is measured.
const METER_SPAN: Span = Span::from_millis(250);

/// A flow's state at the receiver.
pub(super) struct Flow {
    pub(super) join: JoinFlow,
    pub(super) object: ObjectId,
    pub(super) peer: Option<SocketAddr>,
    /// What the sender said in Accept: token and MTU.
    accepted: Option<(u64, u16)>,
    pub(super) path: Path,
    pub(super) asked: Asked,
    /// Bytes that must not be asked of this sender: it brought them wrong.
    pub(super) avoid: RangeSet,
    /// What the flow may take.
    pub(super) share: Share,
    reassembly: Reassembly,
    segment: u16,
    segment_wanted: Option<u16>,
    window: u64,
    delayed_acks: bool,
    /// Segments since the last acknowledgement.
    unacknowledged: u64,
    ack_now: bool,
    ack_due: Option<Time>,
    /// The sender's window, as two to this power bytes.
    window_log: u8,
    /// The timer that the endpoint has noted for this flow.
    pub(super) noted: Option<Time>,
    last_heard: Time,
    last_data: Time,
    /// When a full-size segment last came, or was asked for when nothing was.
    last_full: Time,
    meter: Meter,
    pub(super) stats: FlowStats,
}

/// The rate of what came in lately.
#[derive(Clone, Copy, Debug)]
struct Meter {
    since: Time,
    bytes: u64,
    rate: Bitrate,
}

impl Meter {
    fn refresh(&mut self, now: Time) {
        let span = now.since(self.since);
        if span >= METER_SPAN {
            *self = Self { since: now, bytes: 0, rate: Bitrate::of(self.bytes, span) };
        }
    }
}

impl Flow {
    pub(super) fn new(now: Time, join: JoinFlow, options: &Options) -> Self {
        Self {
            object: join.object,
            peer: join.peer,
            accepted: None,
            path: Path::new(),
            asked: Asked::default(),
            avoid: RangeSet::new(),
            share: Share::default(),
            reassembly: Reassembly::default(),
            segment: 0,
            segment_wanted: options.segment,
            window: options.window_max,
            delayed_acks: options.delayed_acks,
            unacknowledged: 0,
            ack_now: false,
            ack_due: None,
            window_log: 0,
            noted: None,
            last_heard: now,
            last_data: now,
            last_full: now,
            meter: Meter { since: now, bytes: 0, rate: Bitrate::ZERO },
            stats: FlowStats::default(),
            join,
        }
    }

    fn is_ipv6(&self) -> bool {
        self.peer.is_some_and(|p| p.is_ipv6())
    }

    /// Bytes of IP, UDP and our header in each packet.
    pub(super) fn overhead(&self) -> u64 {
        ip_overhead(self.is_ipv6()) + HEADER_LEN as u64
    }

    // --- Set-up -----------------------------------------------------------------------------------------------------

    /// Whether Accept has come.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// The sender accepted: the path can be opened, if its address is known.
    pub(super) fn on_accept(&mut self, now: Time, token: u64, mtu: u16) {
        self.accepted = Some((token, mtu));
        self.last_heard = now;
        if self.peer.is_some() {
            self.begin_opening(now);
        }
    }

    /// The sender, which connected, told its address by a datagram.
    pub(super) fn on_open(&mut self, now: Time, from: SocketAddr, token: u64) {
        let ours = self.accepted.is_some_and(|(known, _)| known == token);
        if ours && self.join.peer.is_none() && self.peer.is_none() {
            self.peer = Some(from);
            self.last_heard = now;
            self.begin_opening(now);
        }
    }

    fn begin_opening(&mut self, now: Time) {
        let mtu = self.accepted.map_or(self.join.mtu, |(_, theirs)| theirs.min(self.join.mtu));
        self.path.begin(now, mtu, ip_overhead(self.is_ipv6()) as u16);
    }

    /// Sends the probes and the response that are due, as datagrams and padded lengths. Returns the message that has the sender begin
    /// anew, if the path was found to carry less than before.
    pub(super) fn send_due(&mut self, now: Time, mut send: impl FnMut(Datagram, u16)) -> Option<Control> {
        let ((token, _), key) = (self.accepted?, self.join.key);
        if self.suspicion_due().is_some_and(|due| now >= due) {
            self.path.suspect(now);
        }
        let narrower = self.path.send_due(now, |outgoing| match outgoing {
            Outgoing::Probe(number, len) => send(Datagram::Probe { key, token, number }, len),
            Outgoing::Response(challenge) => send(Datagram::Response { key, token, challenge }, HEADER_LEN as u16),
        });
        if !narrower {
            return None;
        }
        self.fit_segment();
        Some(Control::Restart { from: self.reassembly.restart(self.window) })
    }

    /// When full-size segments that are asked for are suspected to be too large for the path.
    fn suspicion_due(&self) -> Option<Time> {
        (self.asked.pending_bytes() > 0).then(|| self.path.suspicion_due(self.last_full))
    }

    /// A probe came back. Returns whether the path has just been found open.
    pub(super) fn on_echo(&mut self, now: Time, number: u32, len: u16, challenge: u64) -> bool {
        let Some(opened) = self.path.on_echo(now, number, len, challenge) else { return false };
        self.last_heard = now;
        self.fit_segment();
        opened
    }

    /// The path is open: packets can be cut to it.
    pub(super) fn begin(&mut self, now: Time) {
        self.last_data = now;
        self.last_full = now;
    }

    /// Segments are as large as the path's packets, or as was wished.
    fn fit_segment(&mut self) {
        let largest = largest_segment(self.path.confirmed_mtu(), self.is_ipv6());
        self.segment = self.segment_wanted.map_or(largest, |wanted| wanted.min(largest));
    }

    /// Seconds of vain waiting after which the flow is given up, if it is time, and whether the path is to blame.
    pub(super) fn gone_silent(&self, now: Time) -> Option<(u64, bool)> {
        let seconds = |since: Time| now.since(since).as_nanos() / 1_000_000_000;
        if let Some(seconds) = self.path.has_failed(now) {
            return Some((seconds, true));
        }
        let silent = now >= self.last_heard + SILENCE_MAX;
        let mute = self.asked.pending_bytes() > 0 && now >= self.last_data + MUTE_MAX;
        match self.accepted {
            None => None, // the control stream's own time-outs watch over that
            Some(_) if silent => Some((seconds(self.last_heard), !self.path.is_open())),
            Some(_) => mute.then(|| (seconds(self.last_data), true)),
        }
    }

    // --- Requests ---------------------------------------------------------------------------------------------------

    /// Bytes to have asked for ahead of what has come.
    fn lead(&self) -> u64 {
        let window = 1u64 << self.window_log.min(40);
        (window * LEAD_WINDOWS).clamp(LEAD_MIN, LEAD_MAX)
    }

    /// Asks for more if enough of what was asked for has come. Returns the message to send.
    pub(super) fn request_more(&mut self, now: Time, object: &mut Object) -> Option<Control> {
        let (lead, pending) = (self.lead(), self.asked.pending_bytes());
        if !self.share.is_granted() || !object.has_wanted() || pending + lead / LEAD_STEP > lead {
            return None;
        }
        if !self.asked.has_room(RANGES_MAX) {
            return None;
        }
        let segment = u64::from(self.segment);
        let ranges = object.take(lead - pending, segment, RANGES_MAX, &self.avoid);
        if ranges.is_empty() {
            return None;
        }
        if pending == 0 {
            self.last_data = now;
            self.last_full = now;
        }
        let id = self.asked.ask(segment, &ranges);
        Some(Control::Request { id, segment: self.segment, ranges })
    }

    /// Whether all that the flow was asked for has come.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.path.is_open() && self.asked.pending_bytes() == 0
    }

    /// How long `bytes` more would take at the rate of late.
    pub(super) fn time_for(&self, bytes: u64) -> Span {
        let rtt = self.path.rtt.smoothed().unwrap_or(Span::ZERO);
        if bytes == 0 { Span::ZERO } else { self.meter.rate.time_for(bytes) + rtt }
    }

    // --- Data and acknowledgements ----------------------------------------------------------------------------------

    /// The `count` segments from `head`'s on came, with `bytes` of body. Returns what they are to the stream.
    pub(super) fn on_data(&mut self, now: Time, head: &DataHeader, count: u64, bytes: u64) -> Arrival {
        let arrival = self.reassembly.arrive(head.sequence, count, head.sent, self.window);
        self.last_heard = now;
        self.last_data = now;
        let full_size = bytes >= count * u64::from(self.segment);
        if full_size {
            self.last_full = now;
        }
        self.path.on_data(full_size);
        self.window_log = head.window_log;
        let wire = bytes + count * self.overhead();
        self.stats.received_packets += count;
        self.stats.wire_bytes += wire;
        self.meter.refresh(now);
        self.meter.bytes += wire;
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
    pub(super) fn due_ack(&mut self, now: Time) -> Option<Datagram> {
        if !self.ack_now && self.ack_due.is_none_or(|due| due > now) {
            return None;
        }
        self.ack_now = false;
        self.ack_due = None;
        self.unacknowledged = 0;
        let (acknowledged, echo, blocks) = self.reassembly.acknowledge();
        let (key, sent) = (self.join.key, Timestamp::of(now));
        Some(Datagram::Ack(AckHeader { key, acknowledged, echo, window: self.window as u32, sent, blocks }))
    }

    // --- Timers and reports -----------------------------------------------------------------------------------------

    /// When this flow next needs attention, and why.
    pub(super) fn due(&self) -> (Time, Reason) {
        let silent = if self.is_accepted() { self.last_heard + SILENCE_MAX } else { Time::FAR_FUTURE };
        let mute = if self.asked.pending_bytes() > 0 { self.last_data + MUTE_MAX } else { Time::FAR_FUTURE };
        let ack = (self.ack_due.unwrap_or(Time::FAR_FUTURE), Reason::Control);
        let probe = self.path.due().min(self.suspicion_due().unwrap_or(Time::FAR_FUTURE));
        ack.min((probe, Reason::Probe)).min((silent.min(mute), Reason::Silence))
    }

    /// A timer has passed.
    pub(super) fn on_timer(&mut self, now: Time) {
        self.meter.refresh(now);
    }

    pub(super) fn expected(&self) -> Option<Expected> {
        // Behind a gap the next to come may be the missing one.
        let (range, body) = self.asked.expected()?;
        Some(Expected { head_len: HEADER_LEN, body_len: body as usize, range })
    }

    pub(super) fn stats(&self) -> FlowStats {
        FlowStats {
            rtt: self.path.rtt.smoothed().unwrap_or(Span::ZERO),
            received_rate: self.meter.rate,
            target_rate: self.share.target(),
            requested_rate: self.share.said(),
            outstanding_bytes: self.asked.pending_bytes(),
            ..self.stats
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.asked.memory_bytes() + self.reassembly.memory_bytes() + self.avoid.fragments() * 40
    }
}
