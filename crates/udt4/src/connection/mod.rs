//! A connection, without I/O and without a clock: packets and times in, packets out.
//!
//! UDT's state machines ([`inhaul_protocols::udt::core`]) decide the times of sending and the acknowledgements. This
//! module has the content of packets: buffers, messages, the wire's numbers, keep-alives, and the end.
//!
//! Call [`handle`](Connection::handle) for each packet. Then, and at each [`deadline`](Connection::deadline), call
//! [`poll_transmit`](Connection::poll_transmit) until it returns false.

mod delivery;
mod incoming;
mod outgoing;
mod receive_buffer;
mod send_buffer;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;

use inhaul_base::{Span, Time};
use inhaul_protocols::udt::core::{Control as RateControl, ReceiveSide, Reporting, SendSide, Variant};

use crate::handshake::Agreement;
use crate::options::Options;
use crate::wire::{ControlBody, HEADER_LEN, IP_UDP_LEN, Kind, Packet, SEQUENCES, Sequence, payload_len};
use delivery::Delivery;
use receive_buffer::ReceiveBuffer;
use send_buffer::SendBuffer;

/// Control packets that wait to be sent. More than that are not sent: all of them are repeated if they are needed.
const CONTROLS_MAX: usize = 64;

/// A stream takes this many bytes ahead of the sent ones, or this many packets if that is more.
const UNSENT_BYTES: usize = 1 << 20;
const UNSENT_PACKETS: usize = 64;

/// Packets that wait for a peer that has not acknowledged any. UDT begins with a window of 16 packets, and adds one for
/// each acknowledged one: so twice the acknowledged packets and these are more than can leave.
const UNPROVEN_PACKETS: usize = 64;

/// Memory of a waiting packet beside its data, in bytes.
const PACKET_OVERHEAD: usize = 64;

/// Packets that may always wait to be acknowledged, even if other memory is used up, so that a connection goes on.
const SHORT_PACKETS: usize = 16;

/// A keep-alive is sent after this time without sending. libudt gives a silent peer up after 16 of its time-outs; the
/// first is 300 ms.
const KEEP_ALIVE: Span = Span::from_secs(1);

/// A shutdown is sent this many times, in case that one is lost ...
const SHUTDOWNS: u32 = 3;
/// ... with this much time between.
const SHUTDOWN_INTERVAL: Span = Span::from_millis(20);

/// Most packets between a number and the one that the wire's 31 bits mean.
const NUMBERS_APART_MAX: u64 = SEQUENCES as u64 / 2;

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The peer has closed it. Earlier data can still be read.
    #[error("the other side closed the connection")]
    ByPeer,
    /// This side has closed it.
    #[error("the connection is closed")]
    Closed,
    /// Nothing was heard from the peer for too long.
    #[error("the connection broke: nothing was heard from the other side for {0}")]
    Broken(Span),
}

/// Counts of a connection, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Data packets sent, those sent again included.
    pub packets_sent: u64,
    /// Data packets sent again.
    pub packets_sent_again: u64,
    /// Data packets received for the first time.
    pub packets_received: u64,
    /// Data packets that came and had come before, or did not fit the buffer.
    pub packets_useless: u64,
    /// Bytes of data that the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// Bytes of data received for the first time.
    pub bytes_received: u64,
    /// Packets that said what cannot be: of packets never sent, of other connections. They were ignored.
    pub packets_ignored: u64,
    /// Messages that were given up because they took too long.
    pub messages_dropped: u64,
    /// Round-trip time, as the peer tells when it acknowledges data. 100 ms until then.
    pub rtt: Span,
}

/// Packets that came together, with numbers that follow each other, and are new.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: u64,
    count: u64,
}

/// How far the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Sends written data, until this time at most.
    Closing(Time),
    /// Sends the peer this many more shutdowns, the next at this time.
    Leaving(u32, Time),
    Over,
}

/// One end of a connection.
pub struct Connection {
    agreement: Agreement,
    started: Time,
    phase: Phase,
    end: Option<End>,
    send: SendSide,
    /// Most packets that it may have on their way.
    window_max: u64,
    send_buffer: SendBuffer,
    delivery: Delivery,
    /// The peer takes packets before this one.
    peer_takes: u64,
    /// When the next data packet may leave, if nothing changes.
    data_due: Time,
    /// The packet that was appended last is data, ...
    data_sent: bool,
    /// ... and begins a pair that the peer measures.
    alone: bool,
    receive: ReceiveSide,
    receive_buffer: ReceiveBuffer,
    controls: VecDeque<ControlBody<'static>>,
    /// When the peer was heard last; `None`: never.
    heard: Option<Time>,
    peer_timeout: Span,
    last_sent: Time,
    /// Data was sent.
    greeted: bool,
    /// Packets were refused, or the window was almost shut: the peer should know how it is now.
    window_shut: bool,
    /// A handshake waits among the controls.
    handshake_queued: bool,
    /// The message that was given up last, and when the peer was told.
    dropped: Option<(u64, Time)>,
    /// The application at the other side reported an error.
    complaint: Option<u32>,
    /// The peer has acknowledged something.
    answered: bool,
    /// Bytes that its buffers may take beyond their present ones.
    free: usize,
    statistics: Statistics,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { agreement, phase, end, statistics, .. } = self;
        f.debug_struct("Connection")
            .field("agreement", agreement)
            .field("phase", phase)
            .field("end", end)
            .field("statistics", statistics)
            .finish_non_exhaustive()
    }
}

/// The wire's first number as a number inside: one lap further, so that no number on the wire means one below 0.
fn first_number(sequence: Sequence) -> u64 {
    u64::from(SEQUENCES) + u64::from(sequence.get())
}

/// A sending side that has sent nothing.
fn send_side(agreement: &Agreement, window_max: u64, now: Time) -> SendSide {
    let seed = u64::from(agreement.local.get());
    let mut send = SendSide::new(now, RateControl::native(Variant::Udt4, window_max, seed), window_max, None);
    // Behind all sent packets, and none was sent yet: it cannot fail.
    let _ = send.restart(now, first_number(agreement.first_sent));
    send.set_packet_bytes((payload_len(agreement.mss) + HEADER_LEN + IP_UDP_LEN) as u64);
    send
}

impl Connection {
    /// A connection by `agreement`, made at `now`.
    pub fn new(agreement: Agreement, options: &Options, now: Time) -> Self {
        let payload = payload_len(agreement.mss);
        let first = first_number(agreement.first_sent);
        // libudt keeps one packet of its buffer free, and may announce one more than it takes.
        let peer_window = u64::from(agreement.peer_window.saturating_sub(1).max(1));
        let window_max = (options.send_buffer as u64).min(NUMBERS_APART_MAX);
        let send = send_side(&agreement, window_max, now);
        let expected = first_number(agreement.first_expected);
        let window = agreement.window as usize;
        let mut receive = ReceiveSide::new(window as u64, Reporting::UDT4);
        receive.begin_at(expected);
        Self {
            started: now,
            phase: Phase::Open,
            end: None,
            send,
            window_max,
            send_buffer: SendBuffer::new(first, options.send_buffer, payload),
            delivery: Delivery::NONE,
            peer_takes: first + peer_window,
            data_due: Time::ZERO,
            data_sent: false,
            alone: false,
            receive,
            receive_buffer: ReceiveBuffer::new(agreement.kind, expected, window),
            controls: VecDeque::new(),
            heard: None,
            peer_timeout: options.peer_timeout,
            last_sent: now,
            greeted: false,
            window_shut: false,
            handshake_queued: false,
            dropped: None,
            complaint: None,
            answered: false,
            free: usize::MAX,
            statistics: Statistics::default(),
            agreement,
        }
    }

    /// Where the peer is.
    pub const fn peer(&self) -> SocketAddr {
        self.agreement.peer
    }

    /// What both ends agreed on.
    pub const fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Repeats the agreement: the peer seems not to have it.
    pub fn repeat_handshake(&mut self) {
        if !self.handshake_queued {
            self.handshake_queued = true;
            self.controls.push_front(ControlBody::Handshake(self.agreement.handshake()));
        }
    }

    // --- The application --------------------------------------------------------------------------------------------

    /// Takes bytes of a stream, as many as there is room for. Returns how many.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, End> {
        self.may_write()?;
        self.look_for_data();
        Ok(self.send_buffer.write(bytes, self.room()))
    }

    /// Takes a message if there is room for all of it; says whether. After `lifetime` it is not sent any more.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn send_message(
        &mut self,
        bytes: &[u8],
        lifetime: Option<Span>,
        ordered: bool,
        now: Time,
    ) -> Result<bool, End> {
        self.may_write()?;
        self.look_for_data();
        let packets = bytes.len().div_ceil(self.payload_len().max(1));
        if packets > self.room_by_memory() && !self.send_buffer.is_empty() {
            return Ok(false);
        }
        Ok(self.send_buffer.push_message(bytes, lifetime, ordered, now))
    }

    /// There may be data to send where there was none. What waits for its time still does.
    fn look_for_data(&mut self) {
        if self.data_due == Time::FAR_FUTURE {
            self.data_due = Time::ZERO;
        }
    }

    fn may_write(&self) -> Result<(), End> {
        match self.end {
            Some(end) => Err(end),
            None if self.phase != Phase::Open => Err(End::Closed),
            None => Ok(()),
        }
    }

    /// Reads bytes of a stream, as many as have come in order and fit. Returns how many.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let count = self.receive_buffer.read(into);
        self.made_room();
        count
    }

    /// Takes the next message.
    pub fn take_message(&mut self) -> Option<Vec<u8>> {
        let message = self.receive_buffer.take_message();
        self.made_room();
        message
    }

    /// Tells the peer's application of an error here. libudt's `recvfile` does so when it cannot write.
    pub fn complain(&mut self, code: u32) {
        self.push(ControlBody::PeerError(code));
    }

    /// An error that the peer's application has reported, once.
    pub fn take_complaint(&mut self) -> Option<u32> {
        self.complaint.take()
    }

    /// Whether the peer's application has reported an error.
    pub const fn has_complaint(&self) -> bool {
        self.complaint.is_some()
    }

    /// Whether there is something to read.
    pub fn is_readable(&self) -> bool {
        self.receive_buffer.is_readable()
    }

    /// Packets for which there is room to send. While the peer keeps up, a stream has room for little more than the
    /// next packets: so they are still in the processor's cache when they leave.
    pub fn room(&self) -> usize {
        let (room, next) = (self.send_buffer.room().min(self.room_by_memory()), self.send.next_number());
        if self.kind() == Kind::Message {
            return room;
        }
        let room = room.min(self.proven_max().saturating_sub(self.send_buffer.len()));
        if next >= self.peer_takes {
            return room;
        }
        room.min(self.unsent_max().saturating_sub(self.send_buffer.end().saturating_sub(next) as usize))
    }

    /// Packets of room that are worth waking a writer for.
    pub(crate) fn room_step(&self) -> usize {
        let capacity = self.send_buffer.message_max() / self.payload_len().max(1);
        (capacity / 4).min(self.unsent_max() / 2).min(self.proven_max() / 2).max(1)
    }

    /// Packets that may wait for a peer that has acknowledged as many as this one.
    fn proven_max(&self) -> usize {
        let acknowledged = self.send.first().saturating_sub(first_number(self.agreement.first_sent));
        usize::try_from(acknowledged).unwrap_or(usize::MAX).saturating_mul(2).saturating_add(UNPROVEN_PACKETS)
    }

    /// Packets that there is memory for.
    fn room_by_memory(&self) -> usize {
        let by_memory = self.free / (self.payload_len() + PACKET_OVERHEAD);
        by_memory.max(SHORT_PACKETS.saturating_sub(self.send_buffer.len()))
    }

    /// Bytes of memory that its buffers take.
    pub(crate) fn memory(&self) -> usize {
        self.send_buffer.memory() + self.receive_buffer.memory()
    }

    /// Its buffers may take this many bytes more.
    pub(crate) fn set_free(&mut self, free: usize) {
        self.free = free;
        self.receive_buffer.set_short(free == 0);
        if free == 0 {
            self.send_buffer.drop_spare();
        }
    }

    /// Whether the peer has acknowledged anything.
    pub(crate) const fn has_answered(&self) -> bool {
        self.answered
    }

    fn unsent_max(&self) -> usize {
        (UNSENT_BYTES / self.payload_len().max(1)).max(UNSENT_PACKETS)
    }

    /// The longest message that the send buffer can hold, in bytes.
    pub fn message_max(&self) -> usize {
        self.send_buffer.message_max()
    }

    /// Most bytes of data in a packet.
    pub fn payload_len(&self) -> usize {
        payload_len(self.agreement.mss)
    }

    /// Whether the peer has all written data.
    pub fn is_drained(&self) -> bool {
        self.send_buffer.is_empty()
    }

    /// Ends the connection once all written data has arrived, after `linger` at the latest. Writing is no longer
    /// possible.
    pub fn close(&mut self, now: Time, linger: Span) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closing(now + linger);
        }
    }

    /// Why it has ended, if it has. Earlier data may be left to read.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether there is nothing left to do for it.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Counts since it began.
    pub fn statistics(&self) -> Statistics {
        let (rtt, bytes_acknowledged) = (self.send.rtt(), self.send_buffer.acknowledged_bytes());
        Statistics { rtt, bytes_acknowledged, ..self.statistics }
    }

    // --- Packets ----------------------------------------------------------------------------------------------------

    /// A packet for this connection has come from its peer's address at `at`.
    pub fn handle(&mut self, packet: &Packet<'_>, at: Time) {
        let mut run = Run::default();
        self.handle_one(packet, at, &mut run);
        self.note(run, at);
    }

    /// Packets for this connection have come from its peer's address at `at`, in one message that the kernel joined.
    pub fn handle_together<'p>(&mut self, packets: impl IntoIterator<Item = Packet<'p>>, at: Time) {
        let mut run = Run::default();
        for packet in packets {
            self.handle_one(&packet, at, &mut run);
        }
        self.note(run, at);
    }

    fn handle_one(&mut self, packet: &Packet<'_>, at: Time, run: &mut Run) {
        if matches!(self.phase, Phase::Leaving(..) | Phase::Over) {
            return;
        }
        self.heard = self.heard.max(Some(at));
        self.data_due = Time::ZERO;
        match packet {
            Packet::Data(data) => self.handle_data(data, at, run),
            Packet::Control(control) => {
                self.note(std::mem::take(run), at);
                self.handle_control(&control.body, at);
            }
        }
    }

    fn finish(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.phase = Phase::Over;
        self.controls.clear();
    }

    /// When to ask for packets again.
    pub fn deadline(&self) -> Time {
        match self.phase {
            Phase::Over => return Time::FAR_FUTURE,
            Phase::Leaving(_, at) => return at,
            Phase::Closing(_) if self.send_buffer.is_empty() => return Time::ZERO,
            Phase::Open | Phase::Closing(_) => {}
        }
        if !self.controls.is_empty() {
            return Time::ZERO;
        }
        let linger = if let Phase::Closing(until) = self.phase { until } else { Time::FAR_FUTURE };
        let timers = [self.receive.due(), self.send.expires()].into_iter().flatten().min();
        let data = if self.may_send_data() { self.data_due } else { Time::FAR_FUTURE };
        let silence = self.heard.unwrap_or(self.started) + self.peer_timeout;
        let idle = self.last_sent + KEEP_ALIVE;
        [linger, timers.unwrap_or(Time::FAR_FUTURE), data, silence, idle].into_iter().fold(Time::FAR_FUTURE, Time::min)
    }

    fn push(&mut self, control: ControlBody<'static>) {
        if self.controls.len() < CONTROLS_MAX {
            self.controls.push_back(control);
        }
    }

    /// The content of this connection.
    pub const fn kind(&self) -> Kind {
        self.agreement.kind
    }
}
