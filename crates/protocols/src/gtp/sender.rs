//! The sender: sends what was requested, at the rate that was asked for (gtp-2004 3.2: "the sender side design is simple").

mod flow;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::kit::{Challenges, Pacer, SortedSet, Table, max_min};
use inhaul_transport::{
    Command, CommandError, Endpoint, EndpointConfig, Event, FlowError, FlowId, FlowStats, OfferFlow, Place, Reason,
    RxMessage, TxBatch,
};

use super::wire::{Control, Datagram, VERSION, WireError};
use super::{MTU_MIN, RATE_MAX};
use flow::{BURST_SPAN_MAX, LATENESS_KEPT, SendFlow};

/// A receiver probes at least four times a second; silent for so long, it is gone.
const SILENCE_MAX: Span = Span::from_secs(30);
/// The largest IP packet: R_send lets at least this much leave at once.
const PACKET_MAX: u64 = 65_535;
/// A change of a receiver's share of R_send by less than this part is not worth a message.
const LIMIT_CHANGE: f64 = 0.01;
/// R_send is divided anew at most so often for each flow there is: a division looks at all of them, and all of them call for it.
const SHARE_GAP: Span = Span::from_micros(20);

/// All flows of a host that sends.
pub struct GtpSender {
    flows: Table<FlowId, SendFlow>,
    by_token: BTreeMap<u64, FlowId>,
    /// When each flow has something to do, soonest first: a round costs what those cost that are due, however many there
    /// are, and who waited longest is served first.
    agenda: SortedSet<Entry>,
    /// The flows that are due, while they are served.
    due: Vec<FlowId>,
    /// How many times a flow was served.
    turns: u64,
    send_limit: Option<Bitrate>,
    /// Keeps all flows together to R_send: what each has saved up while it rested must not leave at once.
    host: Option<Pacer>,
    /// What the flows may send together now, in bits per second.
    granted_bps: u128,
    /// When R_send was divided last, and when it must be divided next.
    shared: Time,
    share_due: Option<Time>,
    challenges: Challenges,
    events: VecDeque<Event>,
}

/// A flow in the agenda: when it is due, and of those that are due at the same time the one first that was served longest ago.
type Entry = (Time, u64, FlowId);

impl GtpSender {
    /// A sender without flows.
    pub fn new(config: &EndpointConfig) -> Self {
        let mut sender = Self {
            flows: Table::new(),
            by_token: BTreeMap::new(),
            agenda: SortedSet::new(),
            due: Vec::new(),
            turns: 0,
            send_limit: None,
            host: None,
            granted_bps: 0,
            shared: Time::ZERO,
            share_due: None,
            challenges: Challenges::new(config.seed),
            events: VecDeque::new(),
        };
        sender.limit_send(Time::ZERO, config.host_rate);
        sender
    }

    /// R_send is this from now on.
    fn limit_send(&mut self, now: Time, limit: Option<Bitrate>) {
        self.send_limit = limit;
        match (limit, &mut self.host) {
            (None, host) => *host = None,
            (Some(rate), host) => {
                let burst = rate.bytes_in(BURST_SPAN_MAX).max(PACKET_MAX);
                host.get_or_insert_with(|| Pacer::new(now, rate, burst, LATENESS_KEPT)).set(now, rate, burst);
            }
        }
        self.share_send_limit(now);
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
        self.agenda.insert(flow.entry());
        self.flows.insert(id, flow);
        Ok(())
    }

    /// Enters a flow into the agenda anew, after whatever may have changed what it has to do.
    fn reschedule(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let before = flow.entry();
        let next = flow.plan();
        if next != before {
            self.agenda.remove(&before);
            self.agenda.insert(next);
        }
    }

    /// Notes the flows that have something to do at `now`, who waited longest first.
    fn take_due(&mut self, now: Time) -> Vec<FlowId> {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        due.extend(self.agenda.iter().take_while(|entry| entry.0 <= now).map(|entry| entry.2));
        due
    }

    fn forget(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.by_token.remove(&flow.offer.token);
        self.agenda.remove(&flow.entry());
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
        self.agenda = self.flows.values_mut().map(SendFlow::plan).collect();
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
                flow.accept(now, key, mtu);
                flow.told_limit = first_share;
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
                flow.requested_rate = rate.min(RATE_MAX);
                flow.requested_burst = u64::from(burst);
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

    fn on_datagram(&mut self, now: Time, message: &RxMessage<'_>, k: usize) {
        let from = message.from;
        let Ok(datagram) = Datagram::parse(message.head(k)) else { return };
        let (Datagram::Probe { key, token, .. } | Datagram::Response { key, token, .. }) = datagram else { return };
        let Some(&id) = self.by_token.get(&token) else { return };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let elsewhere = flow.offer.only_from.is_some_and(|address| address != from.ip());
        if flow.key != Some(key) || elsewhere {
            return;
        }
        let ours = self.challenges.of(from, token);
        match datagram {
            Datagram::Probe { number, sent, .. } => {
                let len = message.len_of(k);
                let echo = Datagram::Echo { key, number, probe_sent: sent, challenge: ours, len: len as u16 };
                flow.on_probe(now, from, echo, len);
            }
            Datagram::Response { challenge, .. } if challenge == ours => {
                if flow.on_response(now, from) {
                    self.events.push_back(Event::Opened { flow: id });
                }
            }
            _ => return,
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

impl Endpoint for GtpSender {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], _places: &mut Vec<Place>) {
        for message in batch {
            for k in 0..message.datagrams() {
                self.on_datagram(now, message, k);
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
                self.limit_send(now, limit);
                Ok(())
            }
            Command::Fetch { .. }
            | Command::Join(_)
            | Command::Refetch { .. }
            | Command::Skip { .. }
            | Command::Avoid { .. }
            | Command::LimitReceive(_) => Err(CommandError::WrongRole),
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        let due = self.take_due(now);
        for (served, &id) in due.iter().enumerate() {
            if out.room() == 0 {
                break;
            }
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            let share = out.room().div_ceil(due.len() - served);
            flow.transmit(now, share, &mut self.host, out);
            self.turns += 1;
            let before = std::mem::replace(&mut flow.turn, self.turns);
            self.agenda.remove(&(flow.next.0, before, id));
            self.agenda.insert(flow.plan());
        }
        self.due = due;
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Time, Reason)> {
        let (_, _, id) = self.agenda.first()?;
        let next = self.flows.get(id).map(|flow| flow.next);
        next.into_iter().chain(self.share_due.map(|due| (due, Reason::Control))).min()
    }

    fn peer(&self, flow: FlowId) -> Option<SocketAddr> {
        self.flows.get(&flow)?.peer
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.flows.get(&flow).map(SendFlow::stats)
    }

    fn memory_bytes(&self) -> usize {
        self.flows.values().map(SendFlow::memory_bytes).sum::<usize>() + self.events.capacity() * size_of::<Event>()
    }
}

#[cfg(test)]
mod tests;
