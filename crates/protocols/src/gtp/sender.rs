//! The sender: sends requested ranges at the requested rate (gtp-2004 3.2: "the sender side design is simple").
//!
//! Many receivers cost their work, not their number. The flows are in an agenda by time, and R_send is divided at most
//! once in 20 us a flow.

mod capacity;
mod flow;

use std::collections::BTreeMap;
use std::net::IpAddr;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::kit::sender::{Allowance, Core, FlowCore, Rules, Sender, Sending, Slot};
use inhaul_transport::kit::wire::{Reader, rate_field};
use inhaul_transport::kit::{Pacer, max_min};
use inhaul_transport::{ClientRate, EndpointConfig, FlowError, FlowId, TxBatch};

use super::wire::{BLOCK_GRAIN, HEADER_LEN, OwnMessage, RATE_MAX, SetupMore, VERSION};
use capacity::{LOOK, Seen, SendCapacity};
use flow::{BURST_SPAN_MAX, LATENESS_KEPT, SendFlow, Shared};

/// The largest IP packet: R_send lets at least this much leave at once.
const PACKET_MAX: u64 = 65_535;
/// A change of a receiver's share of R_send by less than this part is not worth a message.
const LIMIT_CHANGE: f64 = 0.01;
/// Least time between divisions of R_send, for each flow: a division examines all flows, and each flow causes
/// divisions.
const SHARE_GAP: Span = Span::from_micros(20);

/// All flows of a host that sends.
pub(super) type GtpSender = Sender<Gtp>;

/// GTP's part of a sender: R_send, and its shares.
pub(super) struct Gtp {
    /// R_send: the given limit, or the measured capacity if that is less.
    send_limit: Option<Bitrate>,
    told: Option<Bitrate>,
    found: SendCapacity,
    /// Flows whose clients have limits of their own.
    limited_flows: usize,
    /// Keeps all flows together to R_send: the credit that flows saved while they rested must not leave at once.
    host: Option<Pacer>,
    /// The limit of all flows together now, in bits per second.
    granted_bps: u128,
    /// When R_send was divided last, and when it must be divided next.
    shared: Time,
    share_due: Option<Time>,
}

impl Gtp {
    /// A sender with the configuration's rate as R_send.
    pub(super) fn new(config: &EndpointConfig) -> Self {
        let mut sender = Self {
            send_limit: None,
            told: None,
            found: SendCapacity::default(),
            limited_flows: 0,
            host: None,
            granted_bps: 0,
            shared: Time::ZERO,
            share_due: None,
        };
        sender.told = config.host_rate;
        sender.set_limit(Time::ZERO);
        sender
    }

    /// R_send may have changed. Whether it has.
    fn set_limit(&mut self, now: Time) -> bool {
        let limit = self.told.into_iter().chain(self.found.limit()).min();
        let before = std::mem::replace(&mut self.send_limit, limit);
        match (limit, &mut self.host) {
            (None, host) => *host = None,
            (Some(rate), host) => {
                let burst = rate.bytes_in(BURST_SPAN_MAX).max(PACKET_MAX);
                host.get_or_insert_with(|| Pacer::new(now, rate, burst, LATENESS_KEPT)).set(now, rate, burst);
            }
        }
        limit != before
    }

    /// Examines all flows, and their sent bytes since the last look.
    fn look(&mut self, now: Time, core: &mut Core<SendFlow>) {
        let mut seen = Vec::new();
        for flow in core.flows.values_mut() {
            let (sent_bytes, before) = flow.look();
            let Some(receiver) = flow.core.peer() else { continue };
            if sent_bytes > 0 && before > Bitrate::ZERO && before < RATE_MAX {
                let sent = Bitrate::of(sent_bytes, LOOK);
                let requested = (flow.requested_rate, before);
                seen.push(Seen { receiver: receiver.ip(), sent, requested, told: flow.told_limit });
            }
        }
        let first = core.flows.values().find_map(|flow| flow.core.peer()).map(|peer| peer.ip());
        if core.flows.values().filter_map(|flow| flow.core.peer()).all(|peer| Some(peer.ip()) == first) {
            self.found.end();
        } else {
            self.found.look(now, &seen);
        }
        if self.set_limit(now) {
            self.share_send_limit(now, core);
        }
    }

    /// Flow `id` has been told its first rate: whether others of another receiver are there.
    fn has_other_receivers(id: FlowId, core: &Core<SendFlow>) -> bool {
        let receiver = |flow: &SendFlow| flow.core.peer().map(|peer| peer.ip());
        let own: Option<IpAddr> = core.flows.get(&id).and_then(receiver);
        own.is_some() && core.flows.values().filter_map(receiver).any(|other| Some(other) != own)
    }

    /// Grants a flow its requested rate: without R_send at once; with R_send, as much as the others leave, until the
    /// next division.
    fn grant(&mut self, now: Time, id: FlowId, core: &mut Core<SendFlow>) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let others = self.granted_bps - u128::from(flow.pacer.rate().bps());
        let rest =
            |limit: Bitrate| Bitrate::from_bps(limit.bps().saturating_sub(u64::try_from(others).unwrap_or(u64::MAX)));
        let rest = self.send_limit.map(rest);
        let client = flow.core.offer.client.map(|client| client.rate);
        let share = [rest, client].into_iter().flatten().fold(flow.requested_rate, Bitrate::min);
        flow.set_pace(now, share);
        self.granted_bps = others + u128::from(share.bps());
        self.share_soon(now, core);
    }

    /// Divides R_send among the receivers as soon as it may be divided again.
    fn share_soon(&mut self, now: Time, core: &mut Core<SendFlow>) {
        if self.send_limit.is_none() && self.limited_flows == 0 {
            return;
        }
        let due = self.shared + SHARE_GAP * core.flows.len() as u64;
        if due <= now {
            self.share_send_limit(now, core);
        } else {
            self.share_due = Some(due);
        }
    }

    /// Divides R_send among the receivers, max-min fairly by their requested rates and their clients' limits, and tells
    /// each the rate that it could have.
    fn share_send_limit(&mut self, now: Time, core: &mut Core<SendFlow>) {
        (self.shared, self.share_due) = (now, None);
        let of_clients = self.divide_clients(core);
        let wanted: Vec<_> = of_clients.iter().map(|part| part.share).collect();
        let of_host = self.send_limit.map(|limit| divide(limit, &wanted));
        let parts: Vec<_> = match of_host {
            None => of_clients,
            Some(of_host) => of_host.into_iter().zip(of_clients).map(|(host, client)| host.within(client)).collect(),
        };
        self.granted_bps = parts.iter().map(|part| u128::from(part.share.bps())).sum();
        let mut told = Vec::new();
        for (flow, part) in core.flows.values_mut().zip(parts) {
            flow.set_pace(now, part.share);
            if flow.core.is_set_up() && differs(flow.told_limit, part.most) {
                flow.told_limit = part.most;
                told.push((flow.core.offer.flow, part.most));
            }
        }
        for (id, send_rate) in told {
            core.say_own(id, OwnMessage::Limit { send_rate }.emit());
        }
        core.reschedule_all();
    }

    /// Divides clients' limits among their flows. In the order of the flows.
    fn divide_clients(&self, core: &Core<SendFlow>) -> Vec<Part> {
        let part = |flow: &SendFlow| Part { share: flow.requested_rate, most: None };
        let mut parts: Vec<_> = core.flows.values().map(part).collect();
        if self.limited_flows == 0 {
            return parts;
        }
        let mut clients: BTreeMap<u64, (Bitrate, Vec<usize>)> = BTreeMap::new();
        for (index, flow) in core.flows.values().enumerate() {
            if let Some(ClientRate { client, rate }) = flow.core.offer.client {
                let (limit, flows) = clients.entry(client).or_insert((rate, Vec::new()));
                *limit = rate;
                flows.push(index);
            }
        }
        for (limit, flows) in clients.into_values() {
            let wanted: Vec<_> = flows.iter().map(|&index| parts[index].share).collect();
            for (index, part) in flows.into_iter().zip(divide(limit, &wanted)) {
                parts[index] = part;
            }
        }
        parts
    }

    /// A share of R_send for one of `receivers`, before its first request.
    fn first_share(&self, flows: usize) -> Option<Bitrate> {
        self.send_limit.map(|limit| Bitrate::from_bps(limit.bps() / flows.max(1) as u64))
    }
}

/// A flow's share of a limit.
#[derive(Clone, Copy, Debug)]
struct Part {
    share: Bitrate,
    /// Its share if it requested more: an equal share, or the unused rest.
    most: Option<Bitrate>,
}

impl Part {
    /// The share within another limit.
    fn within(self, other: Self) -> Self {
        let most = [self.most, other.most].into_iter().flatten().min();
        Self { share: self.share.min(other.share), most }
    }
}

/// Divides a limit max-min fairly.
fn divide(limit: Bitrate, wanted: &[Bitrate]) -> Vec<Part> {
    let shares = max_min(limit, wanted);
    let sum = wanted.iter().fold(Bitrate::ZERO, |sum, &rate| sum.saturating_add(rate));
    let spare = Bitrate::from_bps(limit.bps().saturating_sub(sum.bps()));
    let level = shares.iter().copied().max().unwrap_or(Bitrate::ZERO);
    let part = |share: Bitrate| Part { share, most: Some(level.max(share.saturating_add(spare))) };
    shares.into_iter().map(part).collect()
}

/// Whether a limit has changed by enough to tell.
fn differs(told: Option<Bitrate>, now: Option<Bitrate>) -> bool {
    match (told, now) {
        (Some(a), Some(b)) => (a.as_f64() - b.as_f64()).abs() > LIMIT_CHANGE * a.as_f64(),
        (a, b) => a != b,
    }
}

impl Sending for Gtp {
    type Flow = SendFlow;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: BLOCK_GRAIN,
        queued_bytes_max: 2 << 30,
        feedback_max: Some(Span::from_millis(250)),
    };

    fn new_flow(&mut self, now: Time, core: FlowCore) -> SendFlow {
        self.limited_flows += usize::from(core.offer.client.is_some());
        SendFlow::new(now, core)
    }

    fn accept(&mut self, flow: &mut SendFlow, flows: usize) -> Vec<u8> {
        let client = flow.core.offer.client.map(|client| client.rate);
        flow.told_limit = [self.first_share(flows), client].into_iter().flatten().min();
        rate_field(flow.told_limit).to_vec()
    }

    fn on_setup(
        &mut self,
        _now: Time,
        _id: FlowId,
        more: Reader<'_>,
        _core: &mut Core<SendFlow>,
    ) -> Result<(), FlowError> {
        SetupMore::parse(more).map(|_| ()).map_err(|_| FlowError::Protocol("a Setup could not be understood"))
    }

    fn on_message(
        &mut self,
        now: Time,
        id: FlowId,
        kind: u8,
        body: Reader<'_>,
        core: &mut Core<SendFlow>,
    ) -> Result<(), FlowError> {
        let flow = core.flows.get_mut(&id);
        match OwnMessage::parse(kind, body) {
            Ok(OwnMessage::Rate { epoch, rate, burst }) => {
                let is_first = flow.as_ref().is_some_and(|flow| flow.requested_rate == Bitrate::ZERO);
                if let Some(flow) = flow {
                    flow.on_rate(now, epoch, rate.min(RATE_MAX), burst);
                }
                if is_first && self.found.due().is_none() && Self::has_other_receivers(id, core) {
                    self.found.begin(now);
                }
                self.grant(now, id, core);
            }
            Ok(OwnMessage::Hold { epoch, after, length }) => {
                if let Some(flow) = flow {
                    flow.on_hold(now, epoch, after, length);
                }
            }
            Ok(OwnMessage::Limit { .. }) | Err(_) => {
                return Err(FlowError::Protocol("a control message could not be understood"));
            }
        }
        Ok(())
    }

    fn transmit(&mut self, now: Time, flow: &mut SendFlow, slot: Slot, may: &mut Allowance<'_>, out: &mut TxBatch) {
        flow.transmit(now, slot, &mut Shared { host: &mut self.host, client: may.client.as_deref_mut() }, out);
    }

    fn on_leave(&mut self, now: Time, flow: &SendFlow, core: &mut Core<SendFlow>) {
        self.limited_flows -= usize::from(flow.core.offer.client.is_some());
        self.granted_bps -= u128::from(flow.pacer.rate().bps());
        self.share_soon(now, core);
    }

    fn limit(&mut self, now: Time, limit: Option<Bitrate>, core: &mut Core<SendFlow>) {
        self.told = limit;
        self.set_limit(now);
        self.share_send_limit(now, core);
    }

    fn on_timeout(&mut self, now: Time, core: &mut Core<SendFlow>) {
        if self.found.due().is_some_and(|due| due <= now) {
            self.look(now, core);
        }
        if self.share_due.is_some_and(|due| due <= now) {
            self.share_send_limit(now, core);
        }
    }

    fn due(&self) -> Option<Time> {
        self.share_due.into_iter().chain(self.found.due()).min()
    }
}

#[cfg(test)]
mod tests;
