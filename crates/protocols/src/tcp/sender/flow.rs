//! One flow of a sender: set-up, the queue of what was requested, and when what is sent.

use std::collections::VecDeque;
use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, Sequence, Span, Time};
use inhaul_transport::{FlowError, FlowStats, Law, OfferFlow, Pace, Reason, TxBatch};

use super::rate_limit::RateLimit;
use super::stream::{Next, Stream};
use crate::tcp::wire::{AckHeader, DataHeader, Datagram, HEADER_LEN, Timestamp};
use crate::tcp::{Options, ip_overhead, largest_segment};

/// Most ranges that wait to be sent to one receiver: bounds a flow's memory.
const QUEUED_RANGES_MAX: usize = 16_384;
/// Most bytes that wait: twice what our receivers ever ask for ahead.
const QUEUED_BYTES_MAX: u64 = 8 << 30;
/// Most probes that wait for their echo.
const ECHOES_MAX: usize = 16;
/// How often a sender that has connected to its receiver tries to open the path.
const OPEN_GAP: Span = Span::from_millis(50);
/// A receiver probes at least once a second; silent for so long, it is gone.
pub(super) const SILENCE_MAX: Span = Span::from_secs(30);

/// A flow's state at the sender.
pub(super) struct SendFlow {
    pub(super) offer: OfferFlow,
    key: Option<u32>,
    /// Where data goes: the address that returned its challenge last.
    peer: Option<SocketAddr>,
    mtu: u16,
    /// Bytes of a full segment, as the last request wants them.
    segment: u64,
    queue: Queue,
    stream: Option<Stream>,
    /// Answers to probes, each to where the probe came from.
    echoes: VecDeque<(SocketAddr, Datagram, u16)>,
    open_due: Option<Time>,
    /// When the receiver last gave a sign of life.
    pub(super) heard: Time,
    sent: Sent,
}

/// What has left so far.
#[derive(Clone, Copy, Default)]
struct Sent {
    packets: u64,
    wire_bytes: u64,
    bytes: u64,
    bytes_again: u64,
}

/// What was requested and is not part of the stream yet.
#[derive(Default)]
struct Queue {
    requests: VecDeque<Pending>,
    ranges: usize,
    bytes: u64,
    last_id: u32,
}

/// A request, or what is left of it.
struct Pending {
    id: u32,
    segment: u16,
    ranges: VecDeque<ByteRange>,
}

impl Queue {
    fn push(&mut self, id: u32, segment: u16, ranges: Vec<ByteRange>) {
        self.last_id = id;
        self.ranges += ranges.len();
        self.bytes += ranges.iter().map(|r| r.len()).sum::<u64>();
        self.requests.push_back(Pending { id, segment, ranges: ranges.into() });
    }

    /// Cuts the next segment from the front.
    fn cut(&mut self) -> Option<ByteRange> {
        let pending = self.requests.front_mut()?;
        let range = pending.ranges.front_mut()?;
        let body = ByteRange::new(range.start, range.end.min(range.start.saturating_add(u64::from(pending.segment))));
        range.start = body.end;
        self.bytes -= body.len();
        if range.is_empty() {
            self.ranges -= 1;
            pending.ranges.pop_front();
            if pending.ranges.is_empty() {
                self.requests.pop_front();
            }
        }
        Some(body)
    }

    fn cancel(&mut self, through: u32) {
        while let Some(pending) = self.requests.front()
            && pending.id <= through
        {
            self.ranges -= pending.ranges.len();
            self.bytes -= pending.ranges.iter().map(|r| r.len()).sum::<u64>();
            self.requests.pop_front();
        }
    }
}

impl SendFlow {
    pub(super) fn new(now: Time, offer: OfferFlow) -> Self {
        Self {
            key: None,
            peer: None,
            mtu: offer.mtu,
            segment: 0,
            queue: Queue::default(),
            stream: None,
            echoes: VecDeque::new(),
            open_due: None,
            heard: now,
            sent: Sent::default(),
            offer,
        }
    }

    // --- Set-up -----------------------------------------------------------------------------------------------------

    /// Whether Setup has come.
    pub(super) fn is_accepted(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether datagrams of the flow carry `key`.
    pub(super) fn has_key(&self, key: u32) -> bool {
        self.key == Some(key)
    }

    /// The address and key by which acknowledgements are known.
    pub(super) fn path(&self) -> Option<(SocketAddr, u32)> {
        self.peer.zip(self.key)
    }

    /// Setup has come, with the key and MTU of the receiver and the law that it wants.
    pub(super) fn accept(&mut self, now: Time, key: u32, mtu: u16, law: Box<dyn Law + Send>, options: &Options) {
        self.key = Some(key);
        self.mtu = self.mtu.min(mtu);
        self.stream = Some(Stream::new(now, law, options));
        if self.offer.peer.is_some() {
            self.open_due = Some(now);
        }
    }

    /// A probe with the right token and key came. It is answered where it came from, by no more bytes than it had.
    pub(super) fn on_probe(&mut self, now: Time, from: SocketAddr, echo: Datagram, len: usize) {
        self.heard = now;
        self.open_due = None;
        if self.echoes.len() < ECHOES_MAX {
            self.echoes.push_back((from, echo, len.clamp(HEADER_LEN, usize::from(u16::MAX)) as u16));
        }
    }

    /// `from` returned its challenge: data goes there.
    pub(super) fn on_response(&mut self, now: Time, from: SocketAddr) {
        self.heard = now;
        self.open_due = None;
        self.peer = Some(from);
    }

    // --- What the receiver wants ------------------------------------------------------------------------------------

    pub(super) fn on_request(
        &mut self,
        now: Time,
        id: u32,
        segment: u16,
        ranges: Vec<ByteRange>,
    ) -> Result<(), FlowError> {
        if id != self.queue.last_id.wrapping_add(1) {
            return Err(FlowError::Protocol("requests are not numbered in order"));
        }
        if segment > largest_segment(self.mtu, self.is_ipv6()) {
            return Err(FlowError::Protocol("a segment that does not fit a packet was requested"));
        }
        if ranges.iter().any(|r| r.end > self.offer.size) {
            return Err(FlowError::Protocol("a range beyond the object was requested"));
        }
        if self.queue.ranges + ranges.len() > QUEUED_RANGES_MAX {
            return Err(FlowError::Protocol("too many ranges were requested at once"));
        }
        let bytes = ranges.iter().fold(self.queue.bytes, |sum, range| sum.saturating_add(range.len()));
        if bytes > QUEUED_BYTES_MAX {
            return Err(FlowError::Protocol("too many bytes were requested at once"));
        }
        self.queue.push(id, segment, ranges);
        self.segment = u64::from(segment);
        let packet = self.segment + self.overhead();
        if let Some(stream) = &mut self.stream {
            stream.set_packet_bytes(now, packet);
        }
        self.heard = now;
        Ok(())
    }

    pub(super) fn cancel(&mut self, through: u32) {
        self.queue.cancel(through);
    }

    /// The receiver allows another rate.
    pub(super) fn on_rate(&mut self, now: Time, rate: Option<Bitrate>) {
        if let Some(stream) = &mut self.stream {
            stream.allowed.set(now, rate);
        }
    }

    /// Segments as they were cut do not pass any more: all that was requested is forgotten, and the stream goes on at `from`.
    pub(super) fn restart(&mut self, now: Time, from: Sequence) -> Result<(), FlowError> {
        self.queue.cancel(u32::MAX);
        let restarted = self.stream.as_mut().is_none_or(|stream| stream.restart(now, from));
        if restarted { Ok(()) } else { Err(FlowError::Protocol("a stream was to go on before its end")) }
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &AckHeader) {
        self.heard = now;
        if let Some(stream) = &mut self.stream {
            stream.on_ack(now, ack);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        if let Some(stream) = &mut self.stream {
            stream.on_timeout(now);
        }
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    fn is_ipv6(&self) -> bool {
        self.peer.or(self.offer.peer).is_some_and(|p| p.is_ipv6())
    }

    fn overhead(&self) -> u64 {
        ip_overhead(self.is_ipv6()) + HEADER_LEN as u64
    }

    /// Appends what may leave, as far as `out` has room and `host`, which all flows share, allows. Returns whether there was
    /// anything.
    pub(super) fn transmit(&mut self, now: Time, host: &mut RateLimit, out: &mut TxBatch) -> bool {
        let before = out.len();
        self.push_small(now, out);
        self.push_data(now, host, out);
        out.len() > before
    }

    fn push_data(&mut self, now: Time, host: &mut RateLimit, out: &mut TxBatch) {
        let Some((peer, key)) = self.path() else { return };
        let overhead = self.overhead();
        let segment = self.segment;
        let Some(stream) = &mut self.stream else { return };
        let sent = Timestamp::of(now);
        while out.room() > 0
            && let Some(next) = stream.next(now, self.queue.bytes > 0, host)
        {
            let (sequence, body) = match next {
                Next::Again(number) => {
                    let Some((sequence, body)) = stream.send_again(now, number) else { return };
                    self.sent.bytes_again += body.len();
                    (sequence, body)
                }
                Next::New => {
                    let Some(body) = self.queue.cut() else { return };
                    self.sent.bytes += body.len();
                    (stream.send(now, body), body)
                }
            };
            host.spend(stream.packet_bytes());
            self.sent.packets += 1;
            self.sent.wire_bytes += body.len() + overhead;
            let window_log = log_ceil(stream.window().saturating_mul(segment));
            let head = Datagram::Data(DataHeader { window_log, key, sequence, sent, offset: body.start });
            out.push(self.offer.flow, peer, &head.emit(), body, 0);
        }
    }

    fn push_small(&mut self, now: Time, out: &mut TxBatch) {
        let flow = self.offer.flow;
        while out.room() > 0
            && let Some((to, echo, len)) = self.echoes.pop_front()
        {
            out.push(flow, to, &echo.emit(), ByteRange::default(), len - HEADER_LEN as u16);
        }
        if out.room() > 0
            && let (Some(key), Some(to)) = (self.key, self.offer.peer)
            && self.open_due.is_some_and(|due| due <= now)
        {
            let open = Datagram::Open { key, token: self.offer.token };
            out.push(flow, to, &open.emit(), ByteRange::default(), 0);
            self.open_due = Some(now + OPEN_GAP);
        }
    }

    /// When this flow next needs attention, and why.
    pub(super) fn due(&self) -> (Time, Reason) {
        if !self.echoes.is_empty() {
            return (Time::ZERO, Reason::Probe);
        }
        let stream = self.stream.as_ref();
        let times = [
            (stream.and_then(Stream::loss_due), Reason::Loss),
            (stream.and_then(Stream::pace_due), Reason::Pace),
            (self.open_due, Reason::Probe),
        ];
        let silence = (self.heard + SILENCE_MAX, Reason::Silence);
        times.into_iter().filter_map(|(at, reason)| Some((at?, reason))).fold(silence, Ord::min)
    }

    pub(super) fn stats(&self) -> FlowStats {
        let mut stats = FlowStats {
            placed_bytes: self.sent.bytes,
            wire_bytes: self.sent.wire_bytes,
            received_packets: self.sent.packets,
            retransmitted_bytes: self.sent.bytes_again,
            outstanding_bytes: self.queue.bytes,
            ..FlowStats::default()
        };
        if let Some(stream) = &self.stream {
            stats.lost_packets = stream.lost;
            stats.rtt = stream.smoothed_rtt();
            stats.window_bytes = stream.window().saturating_mul(self.segment);
            if let Pace::Rate(rate) = stream.pace() {
                stats.target_rate = rate;
            }
            stats.requested_rate = stream.allowed.rate().unwrap_or(Bitrate::ZERO);
        }
        stats
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let requests = &self.queue.requests;
        size_of::<Self>()
            + self.stream.as_ref().map_or(0, Stream::memory_bytes)
            + requests.capacity() * size_of::<Pending>()
            + requests.iter().map(|p| p.ranges.capacity() * size_of::<ByteRange>()).sum::<usize>()
    }
}

/// The least exponent of two that reaches `n`.
fn log_ceil(n: u64) -> u8 {
    (u64::BITS - n.saturating_sub(1).leading_zeros()) as u8
}
