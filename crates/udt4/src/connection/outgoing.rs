//! Packets to send, and their times.

use inhaul_base::{Span, Time};
use inhaul_protocols::udt::core::{Expired, Feedback, Next, NextAction};

use super::send_buffer::Due;
use super::{Connection, End, Phase, SHUTDOWN_INTERVAL, SHUTDOWNS, first_number, send_side};
use crate::wire::{Ack, Capacity, Control, ControlBody, Data, LossRange, Packet, Sequence, Stamp, payload_len};

/// Packets of a message that was given up are not sent; this many numbers are skipped at a time.
const SKIPPED_MAX: usize = 256;

/// What became of a data packet that was due.
enum Sent {
    Data,
    /// In its place leaves another packet, or none.
    Instead(Option<ControlBody<'static>>),
}

fn micros(span: Span) -> u32 {
    // libudt reads them as signed numbers.
    u32::try_from(span.as_nanos() / 1000).map_or(i32::MAX as u32, |micros| micros.min(i32::MAX as u32))
}

fn positive(n: u32) -> u32 {
    n.min(i32::MAX as u32)
}

impl Connection {
    /// Appends the next packet to send now to `out`, if there is one.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        (self.data_sent, self.alone) = (false, false);
        self.check_ends(now);
        match self.phase {
            Phase::Over => return false,
            Phase::Leaving(left, at) => {
                if now < at {
                    return false;
                }
                self.phase = if left > 1 { Phase::Leaving(left - 1, now + SHUTDOWN_INTERVAL) } else { Phase::Over };
                return self.emit(ControlBody::Shutdown, now, out);
            }
            Phase::Open | Phase::Closing(_) => {}
        }
        if let Some(control) = self.controls.pop_front() {
            self.handshake_queued &= !matches!(control, ControlBody::Handshake(_));
            return self.emit(control, now, out);
        }
        if let Some(feedback) = self.receive.feedback(now, payload_len(self.agreement.mss) / 8) {
            let control = self.feedback(feedback);
            return self.emit(control, now, out);
        }
        let expired = self.send.on_timer(now);
        if expired != Expired::No {
            self.data_due = Time::ZERO;
            if self.send.first() == first_number(self.agreement.first_sent) {
                // No packet was ever acknowledged. A client of libudt drops packets that come before its thread has
                // seen the handshake: that does not describe the network, and must not set the rate.
                self.send = send_side(&self.agreement, self.window_max, now);
            }
        }
        if expired == Expired::KeepAlive {
            return self.emit(ControlBody::KeepAlive, now, out);
        }
        if self.transmit_data(now, out) {
            return true;
        }
        now >= self.last_sent + super::KEEP_ALIVE && self.emit(ControlBody::KeepAlive, now, out)
    }

    /// As [`poll_transmit`](Self::poll_transmit), right after that has appended a data packet at the same time: only
    /// data can follow.
    pub(crate) fn poll_data(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        (self.data_sent, self.alone) = (false, false);
        self.transmit_data(now, out)
    }

    /// Whether the packet that was appended last is data.
    pub(crate) const fn sent_data(&self) -> bool {
        self.data_sent
    }

    /// Whether the packet that was appended last must not leave as a part of a message that is cut later: the peer
    /// measures when it comes.
    pub(crate) const fn leaves_alone(&self) -> bool {
        self.alone
    }

    /// Whether it is time for the connection to end.
    fn check_ends(&mut self, now: Time) {
        if matches!(self.phase, Phase::Leaving(..) | Phase::Over) {
            return;
        }
        if now >= self.heard.unwrap_or(self.started) + self.peer_timeout {
            return self.finish(End::Broken(self.peer_timeout));
        }
        if let Phase::Closing(until) = self.phase
            && (self.send_buffer.is_empty() || now >= until)
        {
            self.end = Some(End::Closed);
            self.phase = Phase::Leaving(SHUTDOWNS, now);
        }
    }

    fn feedback(&mut self, feedback: Feedback) -> ControlBody<'static> {
        match feedback {
            Feedback::Ack(ack) => ControlBody::Ack(Ack {
                number: ack.number,
                next: Sequence::truncate(ack.next),
                rtt: micros(ack.rtt),
                rtt_variance: micros(ack.rtt_variation),
                window: self.window(),
                capacity: Some(Capacity { arrival: positive(ack.arrival_speed), link: positive(ack.capacity) }),
            }),
            Feedback::LightAck { next } => ControlBody::LightAck(Sequence::truncate(next)),
            Feedback::Nak(losses) => {
                let range =
                    |(first, last)| LossRange { first: Sequence::truncate(first), last: Sequence::truncate(last) };
                ControlBody::Nak(losses.into_iter().map(range).collect())
            }
            Feedback::Warning { .. } => ControlBody::CongestionWarning,
        }
    }

    /// Whether there is new data that the peer takes.
    fn has_new(&self) -> bool {
        let next = self.send.next_number();
        let near = next - self.send.first() < self.delivery.flight_max();
        near && next < self.send_buffer.end() && next < self.peer_takes
    }

    /// Whether a data packet may leave as soon as its time comes.
    pub(super) fn may_send_data(&self) -> bool {
        let unacknowledged = self.send.next_number() - self.send.first();
        let lost = unacknowledged > self.send.in_flight();
        lost || self.has_new() && unacknowledged < self.send.limits().window
    }

    fn transmit_data(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        for _ in 0..SKIPPED_MAX {
            let new = self.has_new();
            let next = match self.send.next(now, new) {
                NextAction::Send(next) => next,
                NextAction::WaitUntil(due) => {
                    self.data_due = due;
                    return false;
                }
                NextAction::Wait => {
                    self.data_due = Time::FAR_FUTURE;
                    return false;
                }
            };
            if self.heard.is_none() && !self.greeted {
                // A client of libudt that gets data before the handshake believes that it is connected, and is not.
                self.greeted = true;
                return self.emit(ControlBody::Handshake(self.agreement.handshake()), now, out);
            }
            self.alone = self.send.sent(now, next);
            if !next.again {
                self.delivery.on_sent(now, next.number);
            }
            match self.data(next, now, out) {
                Sent::Data => {
                    self.data_sent = true;
                    self.last_sent = now;
                    self.statistics.packets_sent += 1;
                    self.statistics.packets_sent_again += u64::from(next.again);
                    return true;
                }
                Sent::Instead(Some(control)) => return self.emit(control, now, out),
                Sent::Instead(None) => {}
            }
        }
        false
    }

    /// Appends data packet `next`, if its message is still of use.
    fn data(&mut self, next: Next, now: Time, out: &mut Vec<u8>) -> Sent {
        let stamp = self.stamp(now);
        match self.send_buffer.due(next.number, now) {
            Due::Packet(packet) => {
                let (message, position, ordered) = (packet.message, packet.position, packet.ordered);
                let (sequence, payload) = (Sequence::truncate(next.number), &packet.payload[..]);
                Packet::Data(Data { stamp, sequence, message, position, ordered, payload }).emit(out);
                Sent::Data
            }
            Due::Expired { message, first, last, now: newly } => {
                self.statistics.messages_dropped += u64::from(newly);
                self.send.skip(now, first, last);
                // Each packet of it is due. The peer is told once, and again if the message was lost.
                let patience = self.send.rtt();
                let told = self.dropped.is_some_and(|(end, at)| end == last && now < at + patience);
                if told {
                    return Sent::Instead(None);
                }
                self.dropped = Some((last, now));
                let range = LossRange { first: Sequence::truncate(first), last: Sequence::truncate(last) };
                Sent::Instead(Some(ControlBody::Drop { message, range }))
            }
            Due::Nothing => Sent::Instead(None),
        }
    }

    /// Microseconds since the connection was made, modulo 2^32.
    fn stamp(&self, now: Time) -> Stamp {
        let timestamp = (now.since(self.started).as_nanos() / 1000) as u32;
        Stamp { timestamp, destination: Some(self.agreement.remote) }
    }

    fn emit(&mut self, body: ControlBody<'static>, now: Time, out: &mut Vec<u8>) -> bool {
        self.last_sent = now;
        Packet::Control(Control { stamp: self.stamp(now), body }).emit(out);
        true
    }
}
