//! The sender: requested ranges leave as UDT's packets.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, ByteRange, Time};
use inhaul_transport::kit::sender::{Allowance, Core, FlowCore, Rules, Sender, SenderFlow, Sending, Slot};
use inhaul_transport::kit::wire::Reader;
use inhaul_transport::kit::{RateLimit, decompress};
use inhaul_transport::{EndpointConfig, FlowError, FlowId, FlowStats, TxBatch};

use super::core::{Ack, Next, NextAction, SendSide, low_bits, nearest};
use super::options::Options;
use super::wire::{DataHeader, HEADER_LEN, OwnMessage, Small, VERSION, setup_control};

/// Most ACK2s that wait to be sent: older ones are worth nothing.
const ACK2S_MAX: usize = 8;

/// All flows of a host that sends.
pub(super) type UdtSender = Sender<Udt>;

/// What UDT adds to a sender.
pub(super) struct Udt {
    options: Options,
    seed: u64,
}

impl Udt {
    /// A sender as `config` wants it.
    pub(super) fn new(config: &EndpointConfig, options: Options) -> Self {
        Self { options, seed: config.seed }
    }
}

/// The bytes of a packet that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Body {
    offset: u64,
    len: u16,
}

/// A flow's state at the sender.
pub(super) struct SendFlow {
    core: FlowCore,
    /// UDT, once the receiver has named its congestion control.
    side: Option<SendSide>,
    /// Content of the unacknowledged packets, from the side's first on.
    bodies: VecDeque<Body>,
    /// Bytes of a full packet's body, as the last request wants them.
    block: u64,
    /// The rate that the receiver allows.
    allowed: RateLimit,
    ack2s: VecDeque<u32>,
    /// Something has changed since the side was last polled.
    wants_turn: bool,
    /// When the next packet is due.
    pace_due: Option<Time>,
}

impl SendFlow {
    fn on_small(&mut self, now: Time, small: Small) {
        let Some(side) = &mut self.side else { return };
        self.core.heard = now;
        self.wants_turn = true;
        let number = |low| nearest(side.first(), low);
        // What speaks of packets that were never sent is ignored: it may be from before a restart.
        match small {
            Small::Ack { ack, next, rtt, rtt_variation, window, arrival_speed, capacity } => {
                let Some(next) = number(next) else { return };
                let window = u64::from(window);
                let ack = Ack { number: ack, next, rtt, rtt_variation, window, arrival_speed, capacity };
                if side.on_ack(now, &ack).is_err() {
                    return;
                }
                if self.ack2s.len() >= ACK2S_MAX {
                    self.ack2s.pop_front();
                }
                self.ack2s.push_back(ack.number);
            }
            Small::LightAck { next } => {
                let Some(next) = number(next) else { return };
                let _ = side.on_light_ack(now, next);
            }
            Small::Nak(words) => {
                let Some(ranges) = decompress(&words) else { return };
                let ranges = ranges.into_iter().map(|(first, last)| Some((number(first)?, number(last)?)));
                if let Some(losses) = ranges.collect::<Option<Vec<_>>>() {
                    let _ = side.on_nak(now, &losses);
                }
            }
            Small::Warning { ack } => {
                let _ = side.on_warning(now, ack);
            }
            Small::Ack2 { .. } => {}
        }
        let unacknowledged = side.next_number() - side.first();
        self.bodies.drain(..self.bodies.len().saturating_sub(unacknowledged as usize));
    }

    /// Packets of the old size no longer pass the path: all requests are forgotten, and the flow continues at `from`.
    fn restart(&mut self, now: Time, from: u32) -> Result<(), FlowError> {
        self.core.queue.cancel(u32::MAX);
        self.wants_turn = true;
        let Some(side) = &mut self.side else { return Ok(()) };
        let restarted = nearest(side.next_number(), from).map(|from| side.restart(now, from));
        self.bodies.clear();
        match restarted {
            Some(Ok(())) => Ok(()),
            _ => Err(FlowError::Protocol("a flow was to go on before its end")),
        }
    }

    /// Appends datagrams that may leave, as far as `may` allows it and `out` has room.
    fn transmit(&mut self, now: Time, may: &mut Allowance<'_>, out: &mut TxBatch) {
        (self.wants_turn, self.pace_due) = (false, None);
        let (Some(route), Some(side)) = (self.core.route(now), &mut self.side) else { return };
        let id = self.core.offer.flow;
        while out.room() > 0
            && let Some(ack) = self.ack2s.pop_front()
        {
            out.push(id, route, &Small::Ack2 { ack }.emit(), ByteRange::default(), 0);
        }
        while out.room() > 0 {
            let next = match side.next(now, !self.core.queue.is_empty()) {
                NextAction::Send(next) => next,
                NextAction::WaitUntil(due) => {
                    self.pace_due = Some(due);
                    return;
                }
                NextAction::Wait => return,
            };
            let packet = side.packet_bytes();
            if let Some(due) = self.allowed.delays(now, packet).max(may.delays(now, packet)) {
                side.limited(now);
                self.pace_due = Some(due);
                return;
            }
            let Some(body) = body(next, side, &mut self.bodies, &mut self.core) else { return };
            let alone = side.sent(now, next);
            self.allowed.spend(packet);
            may.spend(packet);
            self.core.sent.packets += 1;
            self.core.sent.wire_bytes += body.len() + self.core.overhead();
            let window_log = log_ceil(side.limits().window.saturating_mul(self.block));
            let head = DataHeader { window_log, offset: body.start, number: low_bits(next.number) };
            out.push(id, route, &head.emit(), body, 0);
            if alone {
                out.set_alone();
            }
        }
        // A flow that runs out of room stays due.
        self.wants_turn = true;
    }
}

/// The bytes that a packet carries.
fn body(next: Next, side: &SendSide, bodies: &mut VecDeque<Body>, core: &mut FlowCore) -> Option<ByteRange> {
    if next.again {
        let body = bodies.get(usize::try_from(next.number - side.first()).ok()?)?;
        core.sent.bytes_again += u64::from(body.len);
        return Some(ByteRange::at(body.offset, u64::from(body.len)));
    }
    let range = core.queue.cut()?;
    bodies.push_back(Body { offset: range.start, len: range.len() as u16 });
    core.sent.bytes += range.len();
    Some(range)
}

/// The least exponent of two that reaches `n`.
fn log_ceil(n: u64) -> u8 {
    (u64::BITS - n.saturating_sub(1).leading_zeros()) as u8
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

    fn on_request(&mut self, _now: Time, block: u16, _was_idle: bool) {
        self.block = u64::from(block);
        let packet = self.block + self.core.overhead();
        if let Some(side) = &mut self.side {
            side.set_packet_bytes(packet);
        }
        self.wants_turn = true;
    }

    fn due(&self) -> Option<Time> {
        if self.wants_turn && self.core.peer().is_some() {
            return Some(Time::ZERO);
        }
        let expires = self.side.as_ref().and_then(SendSide::expires);
        [expires, self.pace_due].into_iter().flatten().min()
    }

    fn stats(&self) -> FlowStats {
        let mut stats = self.core.stats();
        if let Some(side) = &self.side {
            let limits = side.limits();
            stats.lost_packets = side.lost();
            stats.rtt = side.rtt();
            stats.window_bytes = limits.window.saturating_mul(self.block);
            stats.target_rate = Bitrate::from_f64(side.packet_bytes() as f64 * 8e9 / limits.period_nanos.max(1.0));
            stats.requested_rate = self.allowed.rate().unwrap_or(Bitrate::ZERO);
        }
        stats
    }

    fn memory_bytes(&self) -> usize {
        let side = self.side.as_ref().map_or(0, SendSide::memory_bytes);
        side + self.bodies.capacity() * size_of::<Body>() + self.ack2s.capacity() * size_of::<u32>()
    }
}

impl Sending for Udt {
    type Flow = SendFlow;
    const RULES: Rules =
        Rules { version: VERSION, header_len: HEADER_LEN, grain: 1, queued_bytes_max: 8 << 30, feedback_max: None };

    fn new_flow(&mut self, _now: Time, core: FlowCore) -> SendFlow {
        SendFlow {
            core,
            side: None,
            bodies: VecDeque::new(),
            block: 0,
            allowed: RateLimit::default(),
            ack2s: VecDeque::new(),
            wants_turn: false,
            pace_due: None,
        }
    }

    fn on_setup(
        &mut self,
        now: Time,
        id: FlowId,
        more: Reader<'_>,
        core: &mut Core<SendFlow>,
    ) -> Result<(), FlowError> {
        let control = setup_control(more).map_err(|_| FlowError::Protocol("a Setup could not be understood"))?;
        if let Some(flow) = core.flows.get_mut(&id) {
            let offer = &flow.core.offer;
            let Options { window_max, window_more, .. } = self.options.for_flow(&offer.parameters);
            let control = control.build(window_max, window_more, self.seed ^ offer.token);
            flow.side = Some(SendSide::new(now, control, window_max, None));
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        now: Time,
        id: FlowId,
        kind: u8,
        body: Reader<'_>,
        core: &mut Core<SendFlow>,
    ) -> Result<(), FlowError> {
        let message = OwnMessage::parse(kind, body);
        let message = message.map_err(|_| FlowError::Protocol("a control message could not be understood"))?;
        let Some(flow) = core.flows.get_mut(&id) else { return Ok(()) };
        match message {
            OwnMessage::Rate { rate } => {
                flow.allowed.set(now, rate);
                flow.wants_turn = true;
            }
            OwnMessage::Restart { from } => flow.restart(now, from)?,
        }
        Ok(())
    }

    fn on_datagram(&mut self, now: Time, id: FlowId, bytes: &[u8], core: &mut Core<SendFlow>) {
        if let (Some(small), Some(flow)) = (Small::parse(bytes), core.flows.get_mut(&id)) {
            flow.on_small(now, small);
        }
    }

    fn transmit(&mut self, now: Time, flow: &mut SendFlow, _slot: Slot, may: &mut Allowance<'_>, out: &mut TxBatch) {
        flow.transmit(now, may, out);
    }

    fn on_flow_timer(&mut self, now: Time, flow: &mut SendFlow) {
        if let Some(side) = &mut flow.side {
            // The control stream tells whether the receiver is there.
            side.on_timer(now);
        }
        flow.wants_turn = true;
    }

    fn limit(&mut self, _now: Time, _limit: Option<Bitrate>, core: &mut Core<SendFlow>) {
        core.flows.values_mut().for_each(|flow| flow.wants_turn = true);
        core.reschedule_all();
    }
}
