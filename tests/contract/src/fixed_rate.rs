//! The smallest protocol that delivers: a fixed rate, and data is sent again only on request. It is not for use. It
//! shows the minimum that a protocol needs beside the kit, and is tested like the real ones.

use inhaul_base::{Bitrate, ByteRange, RangeSet, Span, Time};
use inhaul_transport::kit::path::PathRules;
use inhaul_transport::kit::receiver::{self, DataHead, Receiver, ReceiverFlow, Reception, Run};
use inhaul_transport::kit::sender::{self, Allowance, Sender, SenderFlow, Sending, Slot};
use inhaul_transport::kit::wire::{RANGES_MAX, Reader};
use inhaul_transport::kit::{Object, Pacer};
use inhaul_transport::{
    Channels, Endpoint, EndpointConfig, FlowId, FlowStats, Offloads, Parameter, Place, Protocol, Role, SetupError,
    TxBatch,
};

/// The registry entry.
pub const FIXED_RATE: Protocol = Protocol {
    name: "fixed-rate",
    summary: "a fixed rate, for tests: requests a window, waits for it, requests missing bytes",
    channels: Channels::DatagramsAndControl,
    offloads: Offloads::Any,
    parameters: &[Parameter { name: "rate", unit: "Mbit/s, 1 to 100000", default: "50", summary: "rate of each flow" }],
    colour: "#000000",
    predict: None,
    build,
};

const NAME: &str = FIXED_RATE.name;
const DATA: u8 = 1;
const VERSION: u8 = 1;
/// A window is the data of this time, and at least this many bytes.
const WINDOW: Span = Span::from_millis(100);
const WINDOW_MIN: u64 = 64 << 10;
/// Beside a round trip and the window's own time, data may take this long.
const SLACK: Span = Span::from_millis(20);

fn build(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let mut rate = Bitrate::from_mbps(50);
    for (name, value) in &config.parameters {
        if name != "rate" {
            let (protocol, name, known) = (NAME, name.clone(), "rate".into());
            return Err(SetupError::UnknownParameter { protocol, name, known });
        }
        let mbps = value.parse().ok().filter(|mbps| (1..=100_000).contains(mbps));
        let bad =
            || SetupError::BadValue { protocol: NAME, name: "rate", value: value.clone(), expected: "1 to 100000" };
        rate = Bitrate::from_mbps(mbps.ok_or_else(bad)?);
    }
    let rate = config.host_rate.map_or(rate, |limit| limit.min(rate));
    Ok(match config.role {
        Role::Sender => Box::new(Sender::new(FixedSender { rate }, config)),
        Role::Receiver => Box::new(Receiver::new(FixedReceiver { rate })),
    })
}

#[derive(Clone, Copy)]
struct Head {
    offset: u64,
}

impl DataHead for Head {
    const LEN: usize = 16;

    fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; 16] = bytes.first_chunk().filter(|head| head[0] == DATA)?;
        let mut fields = Reader(&head[8..]);
        Some(Self { offset: fields.u64().ok()? })
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn leads_to(&self, _next: &Self, _packets: u64) -> bool {
        true
    }
}

impl Head {
    fn emit(self) -> [u8; 16] {
        let mut head = [0; 16];
        head[0] = DATA;
        head[8..].copy_from_slice(&self.offset.to_be_bytes());
        head
    }
}

// --- Receiver -------------------------------------------------------------------------------------------------------------

struct FixedReceiver {
    rate: Bitrate,
}

struct Fetching {
    core: receiver::FlowCore,
    pending: RangeSet,
    requests: u32,
    /// Pending bytes are then requested again.
    deadline: Time,
    received_packets: u64,
    wire_bytes: u64,
    rate: Bitrate,
}

impl ReceiverFlow for Fetching {
    type Requests = RangeSet;

    fn core(&self) -> &receiver::FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut receiver::FlowCore {
        &mut self.core
    }

    fn requests(&self) -> &RangeSet {
        &self.pending
    }

    fn requests_mut(&mut self) -> &mut RangeSet {
        &mut self.pending
    }

    fn arrival_rate(&self) -> Bitrate {
        self.rate
    }

    fn last_request(&self) -> u32 {
        self.requests
    }

    fn time_for(&self, bytes: u64) -> Span {
        self.rate.time_for(bytes) + self.core.path.patience()
    }

    fn due(&self) -> Option<Time> {
        (!self.pending.is_empty()).then_some(self.deadline)
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            received_packets: self.received_packets,
            wire_bytes: self.wire_bytes,
            requested_rate: self.rate,
            outstanding_bytes: self.pending.covered(),
            ..self.core.stats()
        }
    }
}

impl Reception for FixedReceiver {
    type Flow = Fetching;
    type Head = Head;
    const RULES: receiver::Rules = receiver::Rules {
        version: VERSION,
        header_len: Head::LEN,
        grain: 1,
        object_max: u64::MAX,
        path: PathRules { probe_gap: Span::from_secs(1), raise_probes: 1, steady_responses: false },
        relief_min: Span::from_millis(200),
    };

    fn new_flow(&mut self, now: Time, core: receiver::FlowCore) -> Fetching {
        let (pending, rate) = (RangeSet::new(), self.rate);
        Fetching { core, pending, requests: 0, deadline: now, received_packets: 0, wire_bytes: 0, rate }
    }

    fn on_data(
        &mut self,
        now: Time,
        id: FlowId,
        run: &Run<Head>,
        core: &mut receiver::Core<Fetching>,
        places: &mut Vec<Place>,
    ) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        flow.core.last_heard = now;
        flow.received_packets += run.packets;
        flow.wire_bytes += run.body_bytes + run.packets * flow.core.overhead();
        flow.pending.remove(run.range());
        let pending = !flow.pending.is_empty();
        let full_size = run.body_len >= u64::from(flow.core.block);
        flow.core.path.on_data(now, full_size, pending);
        core.place(id, run, run.range(), places);
        core.touch(id);
    }

    fn on_flow_timer(&mut self, now: Time, id: FlowId, core: &mut receiver::Core<Fetching>) {
        if core.flows.get(&id).is_some_and(|flow| flow.deadline <= now) {
            core.abandon(id);
        }
    }

    fn ask(&mut self, now: Time, flow: &mut Fetching, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        if !flow.is_idle() {
            return None;
        }
        let window = self.rate.bytes_in(WINDOW).max(WINDOW_MIN);
        let ranges = object.take(window, u64::from(flow.core.block), RANGES_MAX, &flow.core.avoid);
        if ranges.is_empty() {
            return None;
        }
        flow.pending = ranges.iter().copied().collect();
        flow.requests += 1;
        // Headers take their part of the rate, too.
        flow.deadline = now + flow.time_for(flow.pending.covered() * 5 / 4) + SLACK;
        Some((flow.requests, ranges))
    }
}

// --- Sender ---------------------------------------------------------------------------------------------------------------

struct FixedSender {
    rate: Bitrate,
}

struct Serving {
    core: sender::FlowCore,
    pacer: Pacer,
}

impl Serving {
    fn packet(&self) -> u64 {
        self.core.queue.front().map_or(0, |front| u64::from(front.block)) + self.core.overhead()
    }
}

impl SenderFlow for Serving {
    fn core(&self) -> &sender::FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut sender::FlowCore {
        &mut self.core
    }

    fn on_request(&mut self, now: Time, _block: u16, was_idle: bool) {
        if was_idle {
            self.pacer.rest(now);
        }
    }

    fn due(&self) -> Option<Time> {
        let waits = !self.core.queue.is_empty() && self.core.peer().is_some();
        waits.then(|| self.pacer.due(self.packet()))
    }

    fn stats(&self) -> FlowStats {
        FlowStats { target_rate: self.pacer.rate(), ..self.core.stats() }
    }
}

impl Sending for FixedSender {
    type Flow = Serving;
    const RULES: sender::Rules = sender::Rules {
        version: VERSION,
        header_len: Head::LEN,
        grain: 1,
        queued_bytes_max: 2 << 30,
        feedback_max: None,
    };

    fn new_flow(&mut self, now: Time, core: sender::FlowCore) -> Serving {
        let burst = 2 * u64::from(core.mtu) + self.rate.bytes_in(Span::from_millis(1));
        Serving { core, pacer: Pacer::new(now, self.rate, burst, Span::from_millis(1)) }
    }

    fn transmit(&mut self, now: Time, flow: &mut Serving, _slot: Slot, _may: &mut Allowance<'_>, out: &mut TxBatch) {
        let Some(route) = flow.core.route(now) else { return };
        while out.room() > 0 && flow.pacer.allowance(now) >= flow.packet() {
            let Some(body) = flow.core.queue.cut() else { return };
            out.push(flow.core.offer.flow, route, &Head { offset: body.start }.emit(), body, 0);
            let bytes = body.len() + flow.core.overhead();
            flow.pacer.spend(bytes);
            flow.core.sent.packets += 1;
            flow.core.sent.bytes += body.len();
            flow.core.sent.wire_bytes += bytes;
        }
    }
}
