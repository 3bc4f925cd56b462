//! The sender: a stream of numbered blocks under a rate control law. Blocks reported lost are sent first, then new
//! ones.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::sender::{Allowance, Core, FlowCore, Rules, Sender, SenderFlow, Sending, Slot};
use inhaul_transport::kit::wire::Reader;
use inhaul_transport::kit::{LossList, RateLimit};
use inhaul_transport::{FlowError, FlowId, FlowStats, TxBatch};

use super::laws::RateLaw;
use super::wire::{DataHeader, HEADER_LEN, OwnMessage, VERSION, WINDOW_PACKETS, setup_law};

/// SABUL's EXP: after this time without sending and receiving, all unacknowledged blocks are lost.
const EXPIRY: Span = Span::from_secs(1);

/// The packets that the laws' intervals are meant for: others leave at the same rate.
const LAW_PACKET_BYTES: f64 = 1_500.0;

/// No data goes to an address that did not respond for so long: acknowledgements come on the control channel, and say
/// nothing about the address.
const FEEDBACK_MAX: Span = Span::from_millis(250);

/// All flows of a host that sends.
pub(super) type SabulSender = Sender<Sabul>;

/// What SABUL adds to a sender.
pub(super) struct Sabul;

/// A flow's state at the sender.
pub(super) struct Flow {
    core: FlowCore,
    law: Option<Box<dyn RateLaw + Send>>,
    /// The receiver's last Rate.
    told: Option<Bitrate>,
    /// Keeps the flow to the lower of law and Rate.
    pace: RateLimit,
    /// Bytes of a full packet, as the last request wants them.
    packet: u64,
    /// Blocks that were sent and are not acknowledged, from number `base` on.
    sent: VecDeque<ByteRange>,
    base: u64,
    losses: LossList,
    lost_packets: u64,
    /// Something was sent or heard last at this time.
    active: Time,
    /// Nothing may leave before this.
    due: Time,
}

impl Flow {
    fn next(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    fn may_send_new(&self) -> bool {
        !self.core.queue.is_empty() && (self.sent.len() as u64) < WINDOW_PACKETS
    }

    /// The rate that the law wants.
    fn law_rate(&self) -> Bitrate {
        let interval_us = self.law.as_ref().map_or(f64::MAX, |law| law.interval_us());
        Bitrate::from_f64(LAW_PACKET_BYTES * 8e6 / interval_us)
    }

    fn set_pace(&mut self, now: Time) {
        let law = self.law_rate();
        self.pace.set(now, Some(self.told.map_or(law, |told| told.min(law))));
        self.due = Time::ZERO;
    }

    fn on_message(&mut self, now: Time, message: OwnMessage) -> Result<(), FlowError> {
        self.active = now;
        match message {
            OwnMessage::Rate { rate } => self.told = rate,
            OwnMessage::Ack { before } => return self.on_ack(before),
            OwnMessage::Err { ranges } => self.on_err(now, &ranges)?,
            OwnMessage::Syn { received, lost } => {
                let all = f64::from(received) + f64::from(lost);
                if let Some(law) = self.law.as_mut().filter(|_| all > 0.0) {
                    law.on_period(f64::from(lost) / all);
                }
            }
            OwnMessage::Restart { from } => return self.restart(from),
        }
        self.set_pace(now);
        Ok(())
    }

    fn on_ack(&mut self, before: u64) -> Result<(), FlowError> {
        if before > self.next() {
            return Err(FlowError::Protocol("an unsent block was acknowledged"));
        }
        if before > self.base {
            self.losses.remove(self.base, before - 1);
            self.sent.drain(..(before - self.base) as usize);
            self.base = before;
            self.due = Time::ZERO;
        }
        Ok(())
    }

    fn on_err(&mut self, now: Time, ranges: &[(u64, u32)]) -> Result<(), FlowError> {
        let next = self.next();
        let mut highest = None;
        for &(first, count) in ranges {
            let last = first + u64::from(count - 1);
            if last >= next {
                return Err(FlowError::Protocol("an unsent block was reported lost"));
            }
            if last >= self.base {
                self.lost_packets += self.losses.insert(first.max(self.base), last, ());
                highest = highest.max(Some(last));
            }
        }
        if let (Some(law), Some(highest)) = (&mut self.law, highest) {
            law.on_err(now, highest, next);
        }
        Ok(())
    }

    /// Blocks as they were cut do not pass any more.
    fn restart(&mut self, from: u64) -> Result<(), FlowError> {
        if from < self.next() || from - self.base > 2 * WINDOW_PACKETS {
            return Err(FlowError::Protocol("a stream was to go on before its end, or far behind it"));
        }
        self.core.queue.cancel(u32::MAX);
        self.sent.clear();
        self.losses = LossList::default();
        self.base = from;
        Ok(())
    }

    fn expires(&self) -> Option<Time> {
        (!self.sent.is_empty()).then_some(self.active + EXPIRY)
    }

    /// Appends datagrams that may leave, as far as `may` allows it and `out` has room.
    fn transmit(&mut self, now: Time, may: &mut Allowance<'_>, out: &mut TxBatch) {
        let Some(route) = self.core.route(now) else { return };
        let frozen = self.law.as_ref().map_or(Time::ZERO, |law| law.frozen_until());
        if now < frozen {
            self.due = frozen;
            return;
        }
        let rate_kbps = u32::try_from(self.pace.rate().map_or(0, Bitrate::bps) / 1_000).unwrap_or(u32::MAX);
        while out.room() > 0 {
            if self.losses.is_empty() && !self.may_send_new() {
                return;
            }
            if let Some(due) = self.pace.delays(now, self.packet).or_else(|| may.delays(now, self.packet)) {
                self.due = due;
                return;
            }
            let (number, body) = match self.losses.pop_first() {
                Some(number) => {
                    let Some(&body) = self.sent.get((number - self.base) as usize) else { continue };
                    self.core.sent.bytes_again += body.len();
                    (number, body)
                }
                None => {
                    let Some(body) = self.core.queue.cut() else { return };
                    self.core.sent.bytes += body.len();
                    self.sent.push_back(body);
                    (self.next() - 1, body)
                }
            };
            let head = DataHeader { rate_kbps, number, offset: body.start };
            out.push(self.core.offer.flow, route, &head.emit(), body, 0);
            let bytes = body.len() + self.core.overhead();
            self.pace.spend(bytes);
            may.spend(bytes);
            self.active = now;
            self.core.sent.packets += 1;
            self.core.sent.wire_bytes += bytes;
        }
    }
}

impl SenderFlow for Flow {
    fn core(&self) -> &FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }

    fn on_resume(&mut self, now: Time) {
        self.pace.rest(now);
        self.due = Time::ZERO;
    }

    fn on_request(&mut self, now: Time, block: u16, was_idle: bool) {
        self.packet = u64::from(block) + self.core.overhead();
        self.set_pace(now);
        if was_idle && self.losses.is_empty() {
            self.pace.rest(now);
        }
    }

    fn due(&self) -> Option<Time> {
        let wants = !self.losses.is_empty() || self.may_send_new();
        let send = (wants && self.due < self.core.responsive_until()).then_some(self.due);
        send.into_iter().chain(self.expires()).min()
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            lost_packets: self.lost_packets,
            target_rate: self.law_rate(),
            requested_rate: self.told.unwrap_or(Bitrate::ZERO),
            ..self.core.stats()
        }
    }

    fn memory_bytes(&self) -> usize {
        self.sent.capacity() * size_of::<ByteRange>() + self.losses.ranges() * 48
    }
}

impl Sending for Sabul {
    type Flow = Flow;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: 1,
        queued_bytes_max: 8 << 30,
        feedback_max: Some(FEEDBACK_MAX),
    };

    fn new_flow(&mut self, now: Time, core: FlowCore) -> Flow {
        Flow {
            packet: u64::from(core.mtu),
            core,
            law: None,
            told: None,
            pace: RateLimit::default(),
            sent: VecDeque::new(),
            base: 0,
            losses: LossList::default(),
            lost_packets: 0,
            active: now,
            due: Time::ZERO,
        }
    }

    fn on_setup(&mut self, now: Time, id: FlowId, more: Reader<'_>, core: &mut Core<Flow>) -> Result<(), FlowError> {
        let law = setup_law(more).map_err(|_| FlowError::Protocol("a Setup could not be understood"))?;
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.law = Some(law.build());
            flow.set_pace(now);
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        now: Time,
        id: FlowId,
        kind: u8,
        body: Reader<'_>,
        core: &mut Core<Flow>,
    ) -> Result<(), FlowError> {
        let message = OwnMessage::parse(kind, body);
        let message = message.map_err(|_| FlowError::Protocol("a control message could not be understood"))?;
        core.flows.get_mut(&id).map_or(Ok(()), |flow| flow.on_message(now, message))
    }

    fn transmit(&mut self, now: Time, flow: &mut Flow, _slot: Slot, may: &mut Allowance<'_>, out: &mut TxBatch) {
        flow.transmit(now, may, out);
    }

    fn on_flow_timer(&mut self, now: Time, flow: &mut Flow) {
        if flow.expires().is_some_and(|at| at <= now) {
            flow.active = now;
            flow.losses.insert(flow.base, flow.next() - 1, ());
            flow.due = Time::ZERO;
        }
    }

    fn limit(&mut self, _now: Time, _limit: Option<Bitrate>, core: &mut Core<Flow>) {
        core.flows.values_mut().for_each(|flow| flow.due = Time::ZERO);
        core.reschedule_all();
    }
}

#[cfg(test)]
mod tests;
