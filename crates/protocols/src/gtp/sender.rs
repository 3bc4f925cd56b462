//! The sender: sends what was requested, at the rate that was asked for (gtp-2004 3.2: "the sender side design is simple").

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, Sequence, Span, Time};
use inhaul_transport::kit::{Pacer, max_min};
use inhaul_transport::{
    Command, CommandError, Endpoint, EndpointConfig, Event, FlowError, FlowId, FlowStats, OfferFlow, Place, Reason,
    RxMessage, TxBatch,
};

use super::wire::{Control, DataHeader, Datagram, HEADER_LEN, VERSION, WireError};
use super::{MTU_MIN, QUEUED_RANGES_MAX, ip_overhead, largest_block};

/// Most probes that wait for their echo.
const ECHOES_MAX: usize = 16;
/// How long after the last data the edge is announced again: soon at first, because the tail may be lost, then seldom.
const EDGE_GAPS_MS: [u64; 7] = [5, 10, 20, 50, 100, 200, 500];
/// How often a sender that has connected to its receiver tries to open the path.
const OPEN_GAP: Span = Span::from_millis(50);
/// A receiver probes at least once a second; silent for so long, it is gone.
const SILENCE_MAX: Span = Span::from_secs(30);
/// Beyond a burst, at once may leave what is earned while a wake-up is late by this much ...
const LATENESS: Span = Span::from_micros(100);
/// ... and little by little what was earned while wake-ups were late by this much.
const LATENESS_KEPT: Span = Span::from_millis(10);
/// A change of a receiver's share of R_send by less than this part is not worth a message.
const LIMIT_CHANGE: f64 = 0.01;
/// R_send is divided anew at most so often for each flow there is: a division looks at all of them, and all of them call for it.
const SHARE_GAP: Span = Span::from_micros(20);

/// All flows of a host that sends.
pub struct GtpSender {
    flows: BTreeMap<FlowId, SendFlow>,
    by_token: BTreeMap<u64, FlowId>,
    /// When each flow has something to do, soonest first: a round costs what those cost that are due, however many there
    /// are, and who waited longest is served first.
    agenda: BTreeSet<(Time, FlowId)>,
    /// The flows that are due, while they are served.
    due: Vec<FlowId>,
    send_limit: Option<Bitrate>,
    /// What the flows may send together now, in bits per second.
    granted_bps: u128,
    /// When R_send was divided last, and when it must be divided next.
    shared: Time,
    share_due: Option<Time>,
    events: VecDeque<Event>,
}

struct SendFlow {
    offer: OfferFlow,
    opens_path: bool,
    key: Option<u32>,
    peer: Option<SocketAddr>,
    opened: bool,
    mtu: u16,
    epoch: u16,
    requested_rate: Bitrate,
    told_limit: Option<Bitrate>,
    burst: u64,
    pacer: Pacer,
    queue: VecDeque<Pending>,
    queued_ranges: usize,
    queued_bytes: u64,
    last_request: u32,
    answered: u32,
    sequence: Sequence,
    sent_bytes: u64,
    sent_wire: u64,
    sent_packets: u64,
    echoes: VecDeque<(Datagram, u16)>,
    edges_sent: usize,
    edge_due: Option<Time>,
    open_due: Option<Time>,
    heard: Time,
    /// Its entry in the agenda, and why.
    next: (Time, Reason),
}

/// A request, or what is left of it.
struct Pending {
    id: u32,
    block: u16,
    ranges: VecDeque<ByteRange>,
}

impl GtpSender {
    /// A sender without flows.
    pub fn new(config: &EndpointConfig) -> Self {
        Self {
            flows: BTreeMap::new(),
            by_token: BTreeMap::new(),
            agenda: BTreeSet::new(),
            due: Vec::new(),
            send_limit: config.host_rate,
            granted_bps: 0,
            shared: Time::ZERO,
            share_due: None,
            events: VecDeque::new(),
        }
    }

    fn offer(&mut self, now: Time, offer: OfferFlow) -> Result<(), CommandError> {
        if self.flows.contains_key(&offer.flow) {
            return Err(CommandError::FlowExists(offer.flow));
        }
        if offer.mtu < MTU_MIN {
            return Err(CommandError::MtuTooSmall(offer.mtu));
        }
        if self.by_token.contains_key(&offer.token) {
            return Err(CommandError::KeyInUse);
        }
        self.by_token.insert(offer.token, offer.flow);
        let flow = SendFlow::new(now, offer);
        let id = flow.offer.flow;
        self.agenda.insert((flow.next.0, id));
        self.flows.insert(id, flow);
        Ok(())
    }

    /// Enters a flow into the agenda anew, after whatever may have changed what it has to do.
    fn reschedule(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let before = flow.next.0;
        let next = flow.plan();
        if next != before {
            self.agenda.remove(&(before, id));
            self.agenda.insert((next, id));
        }
    }

    /// Notes the flows that have something to do at `now`, who waited longest first.
    fn take_due(&mut self, now: Time) -> Vec<FlowId> {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        due.extend(self.agenda.iter().take_while(|(time, _)| *time <= now).map(|&(_, id)| id));
        due
    }

    fn forget(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.by_token.remove(&flow.offer.token);
        self.agenda.remove(&(flow.next.0, id));
        self.granted_bps -= u128::from(flow.pacer.rate().bps());
        self.share_soon(now);
    }

    fn fail(&mut self, now: Time, flow: FlowId, error: FlowError) {
        self.forget(now, flow);
        self.events.push_back(Event::Failed { flow, error });
    }

    /// Gives a flow the rate that it asks for: without R_send at once, with it as much as the others leave, until it is divided.
    fn grant(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let others = self.granted_bps - u128::from(flow.pacer.rate().bps());
        let rest =
            |limit: Bitrate| Bitrate::from_bps(limit.bps().saturating_sub(u64::try_from(others).unwrap_or(u64::MAX)));
        let rest = self.send_limit.map(rest);
        let share = rest.map_or(flow.requested_rate, |rest| rest.min(flow.requested_rate));
        flow.set_pace(now, share);
        self.granted_bps = others + u128::from(share.bps());
        self.share_soon(now);
    }

    /// Divides R_send among the receivers as soon as it may be divided again.
    fn share_soon(&mut self, now: Time) {
        if self.send_limit.is_none() {
            return;
        }
        let due = self.shared + SHARE_GAP * self.flows.len() as u64;
        if due <= now {
            self.share_send_limit(now);
        } else {
            self.share_due = Some(due);
        }
    }

    /// Divides R_send among the receivers, max-min fairly by what they ask for, and tells each how much it could have.
    fn share_send_limit(&mut self, now: Time) {
        (self.shared, self.share_due) = (now, None);
        let wanted: Vec<_> = self.flows.values().map(|f| f.requested_rate).collect();
        let shares = match self.send_limit {
            Some(limit) => max_min(limit, &wanted),
            None => wanted.clone(),
        };
        let sum = |rates: &[Bitrate]| rates.iter().fold(Bitrate::ZERO, |sum, &r| sum.saturating_add(r));
        let spare = self.send_limit.map(|limit| Bitrate::from_bps(limit.bps().saturating_sub(sum(&wanted).bps())));
        let level = shares.iter().copied().max().unwrap_or(Bitrate::ZERO);
        self.granted_bps = shares.iter().map(|share| u128::from(share.bps())).sum();
        for (flow, &share) in self.flows.values_mut().zip(&shares) {
            flow.set_pace(now, share);
            // What this receiver would get if it asked for more: an equal share, or what nobody uses.
            let could_have = spare.map(|spare| level.max(share.saturating_add(spare)));
            if flow.key.is_some() && differs(flow.told_limit, could_have) {
                flow.told_limit = could_have;
                let message = Control::Limit { send_rate: could_have }.emit();
                self.events.push_back(Event::Control { flow: flow.offer.flow, message });
            }
        }
        self.agenda = self.flows.iter_mut().map(|(&id, flow)| (flow.plan(), id)).collect();
    }

    /// A share of R_send for one more receiver, before it has asked for anything.
    fn first_share(&self) -> Option<Bitrate> {
        self.send_limit.map(|limit| Bitrate::from_bps(limit.bps() / self.flows.len().max(1) as u64))
    }

    fn on_control(&mut self, now: Time, id: FlowId, message: Control) -> Result<(), FlowError> {
        let first_share = self.first_share();
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(()) };
        flow.heard = now;
        if flow.key.is_none() && !matches!(message, Control::Setup { .. } | Control::Close) {
            return Err(FlowError::Protocol("something else came before Setup"));
        }
        match message {
            Control::Setup { key, mtu, .. } => {
                if flow.key.is_some() || mtu < MTU_MIN {
                    return Err(FlowError::Protocol("a second or an illegal Setup"));
                }
                flow.key = Some(key);
                flow.mtu = flow.mtu.min(mtu);
                flow.told_limit = first_share;
                if flow.opens_path {
                    flow.open_due = Some(now);
                }
                let accept = Control::Accept {
                    token: flow.offer.token,
                    mtu: flow.offer.mtu,
                    size: flow.offer.size,
                    send_rate: first_share,
                };
                self.events.push_back(Event::Control { flow: id, message: accept.emit() });
            }
            Control::Request { id: request, block, ranges } => flow.on_request(now, request, block, ranges)?,
            Control::Rate { epoch, rate, burst } => {
                if epoch != flow.epoch {
                    // What was saved up at the old rate is not for the new one.
                    flow.pacer.empty(now);
                }
                flow.epoch = epoch;
                flow.requested_rate = rate;
                flow.burst = u64::from(burst);
                self.grant(now, id);
            }
            Control::Cancel { through } => flow.cancel(through),
            Control::Close => {
                self.forget(now, id);
                self.events.push_back(Event::Closed { flow: id });
            }
            Control::Accept { .. } | Control::Limit { .. } => {
                return Err(FlowError::Protocol("a sender's message came from the receiver"));
            }
        }
        Ok(())
    }

    fn on_probe(&mut self, now: Time, from: SocketAddr, message: &RxMessage<'_>, k: usize) {
        let Ok(Datagram::Probe { key, token, number, sent }) = Datagram::parse(message.head(k)) else { return };
        let Some(&id) = self.by_token.get(&token) else { return };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let elsewhere = flow.offer.only_from.is_some_and(|address| address != from.ip());
        if flow.key != Some(key) || elsewhere {
            return;
        }
        flow.heard = now;
        // Whoever knows the secret may come from a new address: a NAT may have moved it.
        flow.peer = Some(from);
        flow.open_due = None;
        if !flow.opened {
            flow.opened = true;
            self.events.push_back(Event::Opened { flow: flow.offer.flow });
        }
        if flow.echoes.len() < ECHOES_MAX {
            let len = message.len_of(k).clamp(HEADER_LEN, usize::from(u16::MAX)) as u16;
            flow.echoes.push_back((Datagram::Echo { key, number, probe_sent: sent, len }, len));
        }
        self.reschedule(id);
    }
}

/// Whether a limit has changed by enough to tell.
fn differs(told: Option<Bitrate>, now: Option<Bitrate>) -> bool {
    match (told, now) {
        (Some(a), Some(b)) => (a.as_f64() - b.as_f64()).abs() > LIMIT_CHANGE * a.as_f64(),
        (a, b) => a != b,
    }
}

impl SendFlow {
    fn new(now: Time, offer: OfferFlow) -> Self {
        Self {
            opens_path: offer.peer.is_some(),
            key: None,
            peer: offer.peer,
            opened: false,
            mtu: offer.mtu,
            epoch: 0,
            requested_rate: Bitrate::ZERO,
            told_limit: None,
            burst: 0,
            pacer: Pacer::new(now, Bitrate::ZERO, 0, LATENESS_KEPT),
            queue: VecDeque::new(),
            queued_ranges: 0,
            queued_bytes: 0,
            last_request: 0,
            answered: 0,
            sequence: Sequence::default(),
            sent_bytes: 0,
            sent_wire: 0,
            sent_packets: 0,
            echoes: VecDeque::new(),
            edges_sent: 0,
            edge_due: None,
            open_due: None,
            heard: now,
            next: (now + SILENCE_MAX, Reason::Silence),
            offer,
        }
    }

    /// Works out when it has something to do next.
    fn plan(&mut self) -> Time {
        self.next = self.due();
        self.next.0
    }

    fn set_pace(&mut self, now: Time, share: Bitrate) {
        let bucket = self.burst.max(u64::from(self.mtu)) + share.bytes_in(LATENESS);
        self.pacer.set(now, share, bucket);
    }

    fn on_request(&mut self, now: Time, id: u32, block: u16, ranges: Vec<ByteRange>) -> Result<(), FlowError> {
        if id != self.last_request.wrapping_add(1) {
            return Err(FlowError::Protocol("requests are not numbered in order"));
        }
        if block > largest_block(self.mtu, self.peer.is_some_and(|p| p.is_ipv6())) {
            return Err(FlowError::Protocol("a block that does not fit a packet was requested"));
        }
        if ranges.iter().any(|r| r.end > self.offer.size) {
            return Err(FlowError::Protocol("a range beyond the object was requested"));
        }
        if self.queued_ranges + ranges.len() > QUEUED_RANGES_MAX {
            return Err(FlowError::Protocol("too many ranges were requested at once"));
        }
        if self.queue.is_empty() {
            self.pacer.rest(now);
        }
        self.last_request = id;
        self.queued_ranges += ranges.len();
        self.queued_bytes += ranges.iter().map(|r| r.len()).sum::<u64>();
        self.queue.push_back(Pending { id, block, ranges: ranges.into() });
        self.edge_due = None;
        self.edges_sent = 0;
        Ok(())
    }

    fn cancel(&mut self, through: u32) {
        while let Some(pending) = self.queue.front()
            && pending.id <= through
        {
            self.answered = pending.id;
            self.queued_ranges -= pending.ranges.len();
            self.queued_bytes -= pending.ranges.iter().map(|r| r.len()).sum::<u64>();
            self.queue.pop_front();
        }
    }

    fn overhead(&self) -> u64 {
        ip_overhead(self.peer.is_some_and(|p| p.is_ipv6())) + HEADER_LEN as u64
    }

    /// Bytes that must be allowed before anything is sent: a whole burst, so that offload has something to work with.
    fn quantum(&self) -> u64 {
        let block = u64::from(self.queue.front().map_or(1, |p| p.block));
        let packets = self.queued_bytes.div_ceil(block);
        self.burst.max(block + self.overhead()).min(self.queued_bytes + packets * self.overhead()).max(1)
    }

    /// How many packets may be sent now: whole bursts while there is more to send than one, so that messages with segmentation
    /// offload are full and look alike. `None` when the batch has no room for a burst but something to be sent first.
    fn whole_bursts(&self, allowed: u64, out: &TxBatch) -> Option<usize> {
        let packet = u64::from(self.queue.front()?.block) + self.overhead();
        let burst = usize::try_from(self.burst / packet).unwrap_or(usize::MAX).max(1);
        let may = usize::try_from(allowed / packet).unwrap_or(usize::MAX).min(out.room());
        match may {
            _ if self.queued_bytes < self.burst => Some(out.room()),
            may if may >= burst => Some(may - may % burst),
            _ if out.is_empty() => Some(out.room()),
            _ => None,
        }
    }

    /// Appends data packets as far as pacing and `out` allow. Returns whether there were any.
    fn push_data(&mut self, now: Time, out: &mut TxBatch) -> bool {
        let (Some(peer), Some(key), true) = (self.peer, self.key, self.opened) else { return false };
        let allowed = self.pacer.allowance(now);
        if self.queue.is_empty() || allowed < self.quantum() {
            return false;
        }
        let overhead = self.overhead();
        let Some(mut room) = self.whole_bursts(allowed, out) else { return false };
        let mut spent = 0;
        while room > 0
            && let Some(pending) = self.queue.front_mut()
        {
            let Some(range) = pending.ranges.front_mut() else {
                self.answered = pending.id;
                self.queue.pop_front();
                continue;
            };
            let block = u64::from(pending.block);
            let packets = room.min(((allowed - spent) / (block + overhead)) as usize) as u64;
            let mut body = ByteRange::at(range.start, range.len().min(packets * block));
            if body.is_empty() {
                // The short last block of a range may still fit where a whole one does not.
                if range.len() > block || range.len() + overhead > allowed - spent {
                    break;
                }
                body = *range;
            }
            let (epoch, request, first, sent) = (self.epoch, pending.id, self.sequence, now.as_nanos());
            out.push_run(self.offer.flow, peer, body, block, |k, offset| {
                DataHeader { key, epoch, request, sequence: first.plus(k), offset, sent }.emit()
            });
            let packets = body.len().div_ceil(block);
            self.sequence = self.sequence.plus(packets as u32);
            self.sent_packets += packets;
            self.sent_bytes += body.len();
            self.queued_bytes -= body.len();
            spent += body.len() + packets * overhead;
            room -= packets as usize;
            range.start = body.end;
            if range.is_empty() {
                pending.ranges.pop_front();
                self.queued_ranges -= 1;
                if pending.ranges.is_empty() {
                    self.answered = pending.id;
                    self.queue.pop_front();
                }
            }
        }
        self.sent_wire += spent;
        self.pacer.spend(spent);
        if self.queue.is_empty() && spent > 0 {
            self.edge_due = Some(now);
        }
        spent > 0
    }

    fn push_small(&mut self, now: Time, out: &mut TxBatch) {
        let Some(peer) = self.peer else { return };
        let flow = self.offer.flow;
        while out.room() > 0
            && let Some((echo, len)) = self.echoes.pop_front()
        {
            out.push(flow, peer, &echo.emit(), ByteRange::default(), len - HEADER_LEN as u16);
            self.pacer.spend(u64::from(len) + ip_overhead(peer.is_ipv6()));
        }
        let Some(key) = self.key else { return };
        if out.room() > 0 && self.open_due.is_some_and(|due| due <= now) {
            let open = Datagram::Open { key, token: self.offer.token };
            out.push(flow, peer, &open.emit(), ByteRange::default(), 0);
            self.open_due = Some(now + OPEN_GAP);
        }
        if out.room() > 0 && self.opened && self.edge_due.is_some_and(|due| due <= now) {
            let edge = Datagram::Edge { key, epoch: self.epoch, request: self.answered, sequence: self.sequence };
            out.push(flow, peer, &edge.emit(), ByteRange::default(), 0);
            self.pacer.spend(self.overhead());
            let gap = EDGE_GAPS_MS[self.edges_sent.min(EDGE_GAPS_MS.len() - 1)];
            self.edges_sent += 1;
            self.edge_due = Some(now + Span::from_millis(gap));
        }
    }

    fn due(&self) -> (Time, Reason) {
        let mut due = (self.heard + SILENCE_MAX, Reason::Silence);
        if self.opened && !self.queue.is_empty() {
            due = due.min((self.pacer.due(self.quantum()), Reason::Pace));
        }
        for probe_like in [self.edge_due.filter(|_| self.opened), self.open_due].into_iter().flatten() {
            due = due.min((probe_like, Reason::Probe));
        }
        if !self.echoes.is_empty() {
            due = (Time::ZERO, Reason::Probe);
        }
        due
    }
}

impl Endpoint for GtpSender {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], _places: &mut Vec<Place>) {
        for message in batch {
            for k in 0..message.datagrams() {
                self.on_probe(now, message.from, message, k);
            }
        }
    }

    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        let result = match Control::parse(message) {
            Ok(message) => self.on_control(now, flow, message),
            Err(WireError::Version(theirs)) => Err(FlowError::Version { ours: VERSION, theirs }),
            Err(_) => Err(FlowError::Protocol("a control message could not be understood")),
        };
        match result {
            Ok(()) => self.reschedule(flow),
            Err(error) => self.fail(now, flow, error),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.share_due.is_some_and(|due| due <= now) {
            self.share_send_limit(now);
        }
        let due = self.take_due(now);
        for &id in &due {
            if self.flows.get(&id).is_some_and(|flow| now.since(flow.heard) >= SILENCE_MAX) {
                self.fail(now, id, FlowError::Silent { seconds: SILENCE_MAX.as_nanos() / 1_000_000_000 });
            }
        }
        self.due = due;
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Offer(offer) => self.offer(now, offer),
            Command::Disconnect { flow } => {
                if !self.flows.contains_key(&flow) {
                    return Err(CommandError::UnknownFlow(flow));
                }
                self.forget(now, flow);
                Ok(())
            }
            Command::LimitSend(limit) => {
                self.send_limit = limit;
                self.share_send_limit(now);
                Ok(())
            }
            Command::Fetch { .. } | Command::Join(_) | Command::Refetch { .. } | Command::LimitReceive(_) => {
                Err(CommandError::WrongRole)
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        let due = self.take_due(now);
        for &id in &due {
            if out.room() == 0 {
                break;
            }
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            flow.push_small(now, out);
            if flow.push_data(now, out) {
                flow.push_small(now, out);
            }
            self.reschedule(id);
        }
        self.due = due;
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Time, Reason)> {
        let (_, id) = self.agenda.first()?;
        let next = self.flows.get(id).map(|flow| flow.next);
        next.into_iter().chain(self.share_due.map(|due| (due, Reason::Control))).min()
    }

    fn peer(&self, flow: FlowId) -> Option<SocketAddr> {
        self.flows.get(&flow).filter(|flow| flow.opened)?.peer
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.flows.get(&flow).map(|f| FlowStats {
            placed_bytes: f.sent_bytes,
            wire_bytes: f.sent_wire,
            received_packets: f.sent_packets,
            target_rate: f.pacer.rate(),
            requested_rate: f.requested_rate,
            outstanding_bytes: f.queued_bytes,
            ..FlowStats::default()
        })
    }

    fn memory_bytes(&self) -> usize {
        let flow = |f: &SendFlow| {
            size_of::<SendFlow>()
                + f.queue.capacity() * size_of::<Pending>()
                + f.queue.iter().map(|p| p.ranges.capacity() * size_of::<ByteRange>()).sum::<usize>()
        };
        self.flows.values().map(flow).sum::<usize>() + self.events.capacity() * size_of::<Event>()
    }
}

#[cfg(test)]
mod tests;
