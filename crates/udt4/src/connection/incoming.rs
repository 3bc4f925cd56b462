//! Processing of the peer's packets.

use inhaul_base::{Span, Time};
use inhaul_protocols::udt::core::Ack as CoreAck;

use super::receive_buffer::Inserted;
use super::{Connection, End, Run};
use crate::wire::{Ack, Capacity, ControlBody, Data, HandshakeKind, Kind, LossRange, MessageNumber};

/// The number of an ACK that only reports the window: its ACK2 is ignored.
const WINDOW_ACK: u32 = 0;

/// The least window that is announced. If it were 0 and the packet that opens it got lost, both sides would wait.
const WINDOW_LEAST: u32 = 2;

/// libudt takes the median of the last 16 intervals between packets, which are 1 s each until packets have come. So before
/// that, it reports one packet a second. A sender that believes it would send so slowly after its first loss ...
const ARRIVALS_MEASURED: u64 = 16;
/// ... so until then, it counts as at least this many packets a second: one each SYN.
const ARRIVAL_LEAST: u32 = 100;

impl Connection {
    /// A data packet has come. `run` are those before it that came together and are not noted yet.
    pub(super) fn handle_data(&mut self, data: &Data<'_>, at: Time, run: &mut Run) {
        let Some(number) = data.sequence.widen(self.receive_buffer.contiguous()) else { return };
        match self.receive_buffer.insert(number, data) {
            Inserted::NoRoom => {
                self.statistics.packets_useless += 1;
                self.note(std::mem::take(run), at);
                // The peer may not know that there is no room: its packets are answered, but not acknowledged.
                self.window_shut = true;
                self.push_window();
            }
            Inserted::Duplicate => {
                self.statistics.packets_useless += 1;
                self.note(std::mem::take(run), at);
                self.note(Run { first: number, count: 1 }, at);
            }
            Inserted::New => {
                self.statistics.packets_received += 1;
                self.statistics.bytes_received += data.payload.len() as u64;
                if number != run.first + run.count {
                    self.note(std::mem::replace(run, Run { first: number, count: 0 }), at);
                }
                run.count += 1;
            }
        }
    }

    /// Has the receiving side know of packets that came.
    pub(super) fn note(&mut self, run: Run, at: Time) {
        if run.count > 0 {
            // Refused packets come again, and are then in the buffer.
            let _ = self.receive.on_data(at, at, run.first, run.count);
        }
    }

    pub(super) fn handle_control(&mut self, body: &ControlBody<'_>, at: Time) {
        let known = match body {
            ControlBody::Handshake(handshake) => {
                let asks = match handshake.step {
                    HandshakeKind::Request => true,
                    HandshakeKind::Confirmation => false,
                    _ => self.agreement.rendezvous,
                };
                if asks && handshake.socket == self.agreement.remote {
                    self.repeat_handshake();
                }
                true
            }
            ControlBody::Ack(ack) => self.handle_ack(ack, at),
            ControlBody::LightAck(next) => {
                // libudt gives its application only data that full ACKs cover. So only full ACKs confirm arrival: if
                // libudt learnt of the end before, it would discard the rest, although it has the data.
                let next = next.widen(self.send.first());
                let taken = next.filter(|next| self.send.on_light_ack(at, *next).is_ok());
                let Some(next) = taken else { return self.statistics.packets_ignored += 1 };
                self.answered = true;
                self.delivery.on_ack(at, next);
                self.send_buffer.release(next);
                true
            }
            ControlBody::Nak(ranges) => self.handle_nak(ranges, at),
            ControlBody::Ack2(number) => {
                self.answered = true;
                self.receive.on_ack2(at, *number);
                true
            }
            ControlBody::Drop { message, range } => self.handle_drop(*message, *range, at),
            ControlBody::Shutdown => {
                self.finish(End::ByPeer);
                true
            }
            ControlBody::PeerError(code) => {
                self.complaint = Some(*code);
                true
            }
            ControlBody::KeepAlive | ControlBody::CongestionWarning | ControlBody::User { .. } => true,
        };
        if !known {
            self.statistics.packets_ignored += 1;
        }
    }

    /// libudt breaks a connection whose peer acknowledges unsent packets. So an attacker with one forged packet could
    /// break it. Here such a packet is ignored.
    fn handle_ack(&mut self, ack: &Ack, at: Time) -> bool {
        let first = self.send.first();
        let Some(next) = ack.next.widen(first) else { return false };
        let Capacity { mut arrival, link } = ack.capacity.unwrap_or(Capacity { arrival: 0, link: 0 });
        // 0 means that it is not known.
        if arrival > 0 && next < super::first_number(self.agreement.first_sent) + ARRIVALS_MEASURED {
            arrival = arrival.max(ARRIVAL_LEAST);
        }
        let window = ack.window.max(WINDOW_LEAST);
        let core = CoreAck {
            number: ack.number,
            next,
            rtt: Span::from_micros(u64::from(ack.rtt)),
            rtt_variation: Span::from_micros(u64::from(ack.rtt_variance)),
            window: u64::from(window),
            arrival_speed: self.delivery.believed(arrival),
            capacity: link,
        };
        if self.send.on_ack(at, &core).is_err() {
            return false;
        }
        self.answered = true;
        if next >= first {
            self.delivery.on_ack(at, next);
            self.peer_takes = next + u64::from(window);
        }
        self.send_buffer.acknowledge(next);
        self.push(ControlBody::Ack2(ack.number));
        true
    }

    fn handle_nak(&mut self, ranges: &[LossRange], at: Time) -> bool {
        let near = self.send.first();
        let widen = |range: &LossRange| Some((range.first.widen(near)?, range.last.widen(near)?));
        let losses: Option<Vec<_>> = ranges.iter().map(widen).collect();
        losses.is_some_and(|losses| self.send.on_nak(at, &losses).is_ok())
    }

    /// The peer has given up a message. Its packets count as come.
    fn handle_drop(&mut self, message: MessageNumber, range: LossRange, at: Time) -> bool {
        let near = self.receive_buffer.contiguous();
        let (Some(first), Some(last)) = (range.first.widen(near), range.last.widen(near)) else { return false };
        let limit = self.receive_buffer.limit();
        if self.kind() == Kind::Stream || first > last || first >= limit {
            return false;
        }
        let last = last.min(limit - 1);
        self.receive_buffer.give_up(message, first, last);
        let first = first.max(self.receive.next());
        if first <= last {
            let _ = self.receive.on_data(at, at, first, last - first + 1);
        }
        true
    }

    /// The window as it is announced.
    pub(super) fn window(&mut self) -> u32 {
        let room = u32::try_from(self.receive_buffer.room()).unwrap_or(u32::MAX);
        if room < WINDOW_LEAST {
            self.window_shut = true;
        }
        room.max(WINDOW_LEAST)
    }

    /// The application has read data. A peer that saw a closed window is told when half of it is open.
    pub(super) fn made_room(&mut self) {
        if self.window_shut && self.receive_buffer.room() >= self.agreement.window as usize / 2 {
            self.window_shut = false;
            self.push_window();
        }
    }

    /// Tells the peer of the window.
    fn push_window(&mut self) {
        let window = self.window();
        let waiting = |control: &ControlBody<'_>| matches!(control, ControlBody::Ack(_));
        if self.end.is_none() && !self.controls.iter().any(waiting) {
            let next = crate::wire::Sequence::truncate(self.receive.next());
            let rtt = u32::try_from(self.send.rtt().as_nanos() / 1000).unwrap_or(u32::MAX) & (u32::MAX >> 1);
            let (number, rtt_variance, capacity) = (WINDOW_ACK, rtt / 2, None);
            self.push(ControlBody::Ack(Ack { number, next, rtt, rtt_variance, window, capacity }));
        }
    }
}
