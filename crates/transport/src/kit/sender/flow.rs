//! One flow as every sender sees it: its path, its requested ranges, and the time of its next action.

use std::collections::VecDeque;
use std::net::SocketAddr;

use inhaul_base::{ByteRange, Span, Time};

use super::queue::Queue;
use super::rules::{Entry, Rules};
use crate::kit::Numbers;
use crate::kit::receiver::largest_block;
use crate::kit::wire::{PATH_HEADER_LEN, PathDatagram};
use crate::{ConnectionId, FlowError, FlowStats, OfferFlow, PathSpec, Route, TxBatch};

/// Most ranges that wait to be sent to one receiver: bounds a flow's memory at its sender, which closes a flow that
/// requests more.
pub const QUEUED_RANGES_MAX: usize = 16_384;
/// Most probes that wait for their echo.
const ECHOES_MAX: usize = 16;
/// How often a sender that has connected to its receiver tries to open the path.
const OPEN_GAP: Span = Span::from_millis(50);
/// A receiver probes at least once a second; silent for so long, it is gone.
pub(super) const SILENCE_MAX: Span = Span::from_secs(30);

/// A sender's state of a flow, for every protocol.
#[derive(Debug)]
pub struct FlowCore {
    /// The offered object.
    pub offer: OfferFlow,
    /// Largest IP packet that both hosts believe in, in bytes.
    pub mtu: u16,
    /// Ranges that were requested and have not been sent.
    pub queue: Queue,
    /// Counters of sent data.
    pub sent: Sent,
    /// When the receiver last gave a sign of life.
    pub heard: Time,
    /// The receiver's datagrams that came again.
    pub duplicate_packets: u64,
    /// The packet numbers that have come.
    pub(super) numbers: Numbers,
    /// The receiver's connection id of the flow, once Setup has come.
    connection: Option<ConnectionId>,
    /// Where data goes: the address that returned its challenge last.
    peer: Option<SocketAddr>,
    /// When it last did.
    responded: Option<Time>,
    /// When the receiver will not respond, as it has said.
    pause: Option<(Time, Time)>,
    /// Answers to probes, each to where the probe came from, and their lengths.
    echoes: VecDeque<(Route, PathDatagram, u16)>,
    open_due: Option<Time>,
    /// When it has something to do next.
    pub(super) next: Time,
    /// When it was served last, as a count of all services.
    pub(super) turn: u64,
    rules: Rules,
}

/// Counters of sent data so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Data packets.
    pub packets: u64,
    /// Their bytes, headers from IP up included.
    pub wire_bytes: u64,
    /// Bytes of the object, each time that they were sent because they were requested.
    pub bytes: u64,
    /// Bytes of the object that were sent again unasked.
    pub bytes_again: u64,
}

impl FlowCore {
    pub(super) fn new(now: Time, offer: OfferFlow, rules: Rules) -> Self {
        Self {
            mtu: offer.path.mtu,
            queue: Queue::default(),
            sent: Sent::default(),
            heard: now,
            duplicate_packets: 0,
            numbers: Numbers::recent(),
            connection: None,
            peer: None,
            responded: None,
            pause: None,
            echoes: VecDeque::new(),
            open_due: None,
            next: (now + SILENCE_MAX),
            turn: 0,
            rules,
            offer,
        }
    }

    pub(super) fn entry(&self) -> Entry {
        (self.next, self.turn, self.offer.flow)
    }

    // --- Where datagrams may go -------------------------------------------------------------------------------------

    /// Whether Setup has come.
    pub fn is_set_up(&self) -> bool {
        self.connection.is_some()
    }

    /// Whether a datagram with this token from this address may be the receiver's.
    pub(super) fn is_from_receiver(&self, from: SocketAddr, token: u64) -> bool {
        self.offer.token == token && self.offer.only_from.is_none_or(|address| address == from.ip())
    }

    pub(super) fn on_setup(&mut self, now: Time, connection: ConnectionId, mtu: u16) {
        self.connection = Some(connection);
        self.mtu = self.mtu.min(mtu);
        if self.offer.peer.is_some() {
            self.open_due = Some(now);
        }
    }

    /// A probe with token and key came. It is answered where it came from, by no more bytes than it had.
    pub(super) fn on_probe(&mut self, now: Time, to: Route, echo: PathDatagram, len: usize) {
        self.heard = now;
        self.open_due = None;
        if self.echoes.len() < ECHOES_MAX {
            self.echoes.push_back((to, echo, len.clamp(PATH_HEADER_LEN, usize::from(u16::MAX)) as u16));
        }
    }

    /// `from` returned its challenge: data may go there, as a NAT may have moved the receiver. Returns whether it is
    /// the first.
    pub(super) fn on_response(&mut self, now: Time, from: SocketAddr) -> bool {
        self.heard = now;
        self.open_due = None;
        self.responded = Some(now);
        self.peer.replace(from).is_none()
    }

    /// Where data goes, or went last.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Until when data goes to the receiver's address unless it says something.
    pub fn responsive_until(&self) -> Time {
        match (self.responded, self.rules.feedback_max) {
            (None, _) => Time::ZERO,
            (Some(_), None) => Time::FAR_FUTURE,
            (Some(at), Some(max)) => {
                let until = at + max;
                // The time of a pause does not count, from its beginning or the last response on.
                let paused = self.pause.filter(|(from, to)| *from < until && at < *to);
                paused.map_or(until, |(from, to)| until + to.since(from.max(at)))
            }
        }
    }

    /// The receiver has announced a pause with its start and end. Nothing may be sent in it: the address may belong to
    /// another host by then. Replaces the previous pause.
    pub fn expect_pause(&mut self, from: Time, until: Time) {
        self.pause = Some((from, until));
    }

    /// A receiver that did not respond in time is not waited for by the clock: it has to say something.
    pub(super) fn lapse(&mut self, now: Time) {
        if now >= self.responsive_until() {
            self.responded = None;
        }
    }

    /// Where data may go at `now`.
    pub fn route(&self, now: Time) -> Option<Route> {
        if now < self.responsive_until() { Some(Route::new(self.peer?, self.connection?)) } else { None }
    }

    /// Bytes of each data packet that are not data: all headers from IP up.
    pub fn overhead(&self) -> u64 {
        u64::from(self.offer.path.overhead) + self.rules.header_len as u64
    }

    // --- Requests of the receiver -----------------------------------------------------------------------------------

    pub(super) fn on_request(&mut self, id: u32, block: u16, ranges: Vec<ByteRange>) -> Result<(), FlowError> {
        if id != self.queue.next_id() {
            return Err(FlowError::Protocol("requests are not numbered in order"));
        }
        let Rules { header_len, grain, queued_bytes_max, .. } = self.rules;
        let longest = largest_block(PathSpec { mtu: self.mtu, ..self.offer.path }, header_len as u16, grain);
        if block > longest || !block.is_multiple_of(grain) {
            return Err(FlowError::Protocol("a block that does not fit a packet was requested"));
        }
        if ranges.iter().any(|range| range.end > self.offer.size) {
            return Err(FlowError::Protocol("a range beyond the object was requested"));
        }
        if self.queue.ranges() + ranges.len() > QUEUED_RANGES_MAX {
            return Err(FlowError::Protocol("too many ranges were requested at once"));
        }
        let bytes = ranges.iter().fold(self.queue.bytes(), |sum, range| sum.saturating_add(range.len()));
        if bytes > queued_bytes_max {
            return Err(FlowError::Protocol("too many bytes were requested at once"));
        }
        self.queue.push(id, block, ranges);
        Ok(())
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// Appends echoes and what opens the path, as far as `out` has room. Returns the bytes of the echoes' IP packets.
    pub(super) fn push_path(&mut self, now: Time, out: &mut TxBatch) -> u64 {
        let (flow, overhead) = (self.offer.flow, self.offer.path.overhead);
        let mut bytes = 0;
        while out.room() > 0
            && let Some((to, echo, len)) = self.echoes.pop_front()
        {
            out.push(flow, to, &echo.emit(), ByteRange::default(), len - PATH_HEADER_LEN as u16);
            bytes += u64::from(len) + u64::from(overhead);
        }
        if out.room() > 0
            && let (Some(connection), Some(to)) = (self.connection, self.offer.peer)
            && self.open_due.is_some_and(|due| due <= now)
        {
            let pad = self.rules.header_len.saturating_sub(PATH_HEADER_LEN) as u16;
            let open = PathDatagram::Open { token: self.offer.token };
            out.push(flow, Route::new(to, connection), &open.emit(), ByteRange::default(), pad);
            self.open_due = Some(now + OPEN_GAP);
        }
        bytes
    }

    /// When it has something to do next, `own` things of the protocol included.
    pub(super) fn due(&self, own: Option<Time>) -> Time {
        let echo = (!self.echoes.is_empty()).then_some(self.heard);
        let silence = self.heard + SILENCE_MAX;
        own.into_iter().chain(echo).chain(self.open_due).fold(silence, Ord::min)
    }

    /// Counters that are everybody's.
    pub fn stats(&self) -> FlowStats {
        FlowStats {
            sent_bytes: self.sent.bytes,
            wire_bytes: self.sent.wire_bytes,
            sent_packets: self.sent.packets,
            retransmitted_bytes: self.sent.bytes_again,
            outstanding_bytes: self.queue.bytes(),
            duplicate_packets: self.duplicate_packets,
            ..FlowStats::default()
        }
    }
}
