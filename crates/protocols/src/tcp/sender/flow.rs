//! One flow of a sender: its schedule of sending.

use inhaul_base::{Bitrate, Sequence, Time};
use inhaul_transport::kit::sender::{Allowance, FlowCore, SenderFlow};
use inhaul_transport::{FlowError, FlowStats, Law, Pace, TxBatch};

use super::stream::Next;
use super::streams::Streams;
use crate::tcp::options::Options;
use crate::tcp::wire::{AckHeader, DataHeader, Timestamp};

/// A flow's state at the sender.
pub(crate) struct SendFlow {
    pub(super) core: FlowCore,
    /// Bytes of a full segment, as the last request wants them.
    segment: u64,
    /// The stream, once the receiver has named its law.
    stream: Option<Streams>,
    /// Something has changed since the stream was last polled.
    wants_turn: bool,
}

impl SendFlow {
    pub(super) fn new(core: FlowCore) -> Self {
        Self { core, segment: 0, stream: None, wants_turn: false }
    }

    // --- Requests of the receiver -----------------------------------------------------------------------------------

    /// The law that the receiver wants.
    pub(super) fn set_law(&mut self, now: Time, law: Box<dyn Law + Send>, options: &Options) {
        self.stream = Some(Streams::new(now, law, options));
    }

    /// More may leave than before.
    pub(super) fn try_again(&mut self) {
        self.wants_turn = true;
    }

    /// The receiver allows another rate.
    pub(super) fn on_rate(&mut self, now: Time, rate: Option<Bitrate>) {
        if let Some(stream) = &mut self.stream {
            stream.allow(now, rate);
        }
        self.wants_turn = true;
    }

    /// Segments of the old size no longer pass the path: all requests are forgotten, and the stream continues at
    /// `from`.
    pub(super) fn restart(&mut self, now: Time, from: Sequence) -> Result<(), FlowError> {
        self.core.queue.cancel(u32::MAX);
        self.wants_turn = true;
        let restarted = self.stream.as_mut().is_none_or(|stream| stream.restart(now, from));
        if restarted { Ok(()) } else { Err(FlowError::Protocol("a stream was to go on before its end")) }
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &AckHeader) {
        self.core.heard = now;
        if let Some(stream) = &mut self.stream {
            stream.on_ack(now, ack);
        }
        self.wants_turn = true;
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        if let Some(stream) = &mut self.stream {
            stream.on_timeout(now);
        }
        self.wants_turn = true;
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// Appends datagrams that may leave, as far as `may` allows it and `out` has room.
    pub(super) fn transmit(&mut self, now: Time, may: &mut Allowance<'_>, out: &mut TxBatch) {
        // A flow that runs out of room stays due.
        self.wants_turn = false;
        let Some(route) = self.core.route(now) else { return };
        let overhead = self.core.overhead();
        let segment = self.segment;
        let Some(stream) = &mut self.stream else { return };
        let sent = Timestamp::of(now);
        loop {
            if out.room() == 0 {
                self.wants_turn = true;
                return;
            }
            let Some(next) = stream.next(now, self.core.queue.bytes() > 0, may) else { return };
            let (sequence, body) = match next {
                Next::Again(number) => {
                    let Some((sequence, body)) = stream.send_again(now, number) else { return };
                    self.core.sent.bytes_again += body.len();
                    (sequence, body)
                }
                Next::New => {
                    let Some(body) = self.core.queue.cut() else { return };
                    self.core.sent.bytes += body.len();
                    (stream.send(now, body), body)
                }
            };
            may.spend(stream.packet_bytes());
            self.core.sent.packets += 1;
            self.core.sent.wire_bytes += body.len() + overhead;
            let window_log = log_ceil(stream.window().saturating_mul(segment));
            let head = DataHeader { window_log, sequence, sent, offset: body.start };
            out.push(self.core.offer.flow, route, &head.emit(), body, 0);
        }
    }
}

impl SenderFlow for SendFlow {
    fn core(&self) -> &FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }

    fn on_resume(&mut self, _now: Time) {
        self.wants_turn = true;
    }

    fn on_request(&mut self, now: Time, block: u16, _was_idle: bool) {
        self.segment = u64::from(block);
        let packet = self.segment + self.core.overhead();
        if let Some(stream) = &mut self.stream {
            stream.set_packet_bytes(now, packet);
        }
        self.wants_turn = true;
    }

    fn due(&self) -> Option<Time> {
        if self.wants_turn && self.core.peer().is_some() {
            return Some(Time::ZERO);
        }
        self.stream.as_ref()?.due()
    }

    fn stats(&self) -> FlowStats {
        let mut stats = self.core.stats();
        if let Some(stream) = &self.stream {
            stats.lost_packets = stream.lost();
            stats.rtt = stream.smoothed_rtt();
            stats.window_bytes = stream.window().saturating_mul(self.segment);
            if let Pace::Rate(rate) = stream.pace() {
                stats.target_rate = rate;
            }
            stats.requested_rate = stream.allowed().rate().unwrap_or(Bitrate::ZERO);
        }
        stats
    }

    fn memory_bytes(&self) -> usize {
        self.stream.as_ref().map_or(0, Streams::memory_bytes)
    }
}

/// The least exponent of two that reaches `n`.
fn log_ceil(n: u64) -> u8 {
    (u64::BITS - n.saturating_sub(1).leading_zeros()) as u8
}
