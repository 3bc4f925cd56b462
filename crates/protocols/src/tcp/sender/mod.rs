//! The sender: one stream of segments for each flow, under the congestion control law that the receiver asks for.

mod flow;
mod pacing;
mod rack;
mod rate;
mod rate_limit;
mod recovery;
mod scoreboard;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use inhaul_base::Time;
use inhaul_transport::kit::Challenges;
use inhaul_transport::{
    Command, CommandError, Endpoint, EndpointConfig, Event, FlowError, FlowId, FlowStats, OfferFlow, Place, Reason,
    RxMessage, TxBatch,
};

use super::wire::{Control, Datagram, VERSION, WireError};
use super::{MTU_MIN, Options};
use flow::{SILENCE_MAX, SendFlow};
use rate_limit::RateLimit;

/// All flows of a host that sends.
pub struct TcpSender {
    flows: BTreeMap<FlowId, SendFlow>,
    by_token: BTreeMap<u64, FlowId>,
    /// Where acknowledgements come from: address and key.
    by_path: BTreeMap<(SocketAddr, u32), FlowId>,
    options: Options,
    seed: u64,
    challenges: Challenges,
    events: VecDeque<Event>,
    /// What all flows together may send (R_send).
    limit: RateLimit,
    /// The flow after which the next round of sending starts, so that none is always first.
    turn: FlowId,
}

impl TcpSender {
    /// A sender without flows.
    pub fn new(config: &EndpointConfig, options: Options) -> Self {
        let mut limit = RateLimit::default();
        limit.set(Time::ZERO, config.host_rate);
        Self {
            flows: BTreeMap::new(),
            by_token: BTreeMap::new(),
            by_path: BTreeMap::new(),
            options,
            seed: config.seed,
            challenges: Challenges::new(config.seed),
            events: VecDeque::new(),
            limit,
            turn: FlowId(0),
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
        self.flows.insert(offer.flow, SendFlow::new(now, offer));
        Ok(())
    }

    fn forget(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.remove(&id) {
            self.by_token.remove(&flow.offer.token);
            if let Some(path) = flow.path() {
                self.by_path.remove(&path);
            }
        }
    }

    fn fail(&mut self, flow: FlowId, error: FlowError) {
        self.forget(flow);
        self.events.push_back(Event::Failed { flow, error });
    }

    fn on_control(&mut self, now: Time, id: FlowId, message: Control) -> Result<(), FlowError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(()) };
        flow.heard = now;
        if !flow.is_accepted() && !matches!(message, Control::Setup { .. } | Control::Close) {
            return Err(FlowError::Protocol("something else came before Setup"));
        }
        match message {
            Control::Setup { key, mtu, law, .. } => {
                if flow.is_accepted() || mtu < MTU_MIN {
                    return Err(FlowError::Protocol("a second or an illegal Setup"));
                }
                let config = self.options.law_config(self.seed ^ flow.offer.token);
                flow.accept(now, key, mtu, law.build(&config), &self.options);
                let OfferFlow { token, mtu, size, .. } = flow.offer;
                let message = Control::Accept { token, mtu, size }.emit();
                self.events.push_back(Event::Control { flow: id, message });
            }
            Control::Request { id: request, segment, ranges } => flow.on_request(now, request, segment, ranges)?,
            Control::Cancel { through } => flow.cancel(through),
            Control::Restart { from } => flow.restart(now, from)?,
            Control::Rate { rate } => flow.on_rate(now, rate),
            Control::Close => {
                self.forget(id);
                self.events.push_back(Event::Closed { flow: id });
            }
            Control::Accept { .. } => return Err(FlowError::Protocol("a sender's message came from the receiver")),
        }
        Ok(())
    }

    /// The flow that a datagram with key and token from this address is of.
    fn known(&mut self, from: SocketAddr, key: u32, token: u64) -> Option<(FlowId, &mut SendFlow)> {
        let &id = self.by_token.get(&token)?;
        let taken = self.by_path.get(&(from, key)).is_some_and(|other| *other != id);
        let flow = self.flows.get_mut(&id)?;
        let elsewhere = flow.offer.only_from.is_some_and(|address| address != from.ip());
        (flow.has_key(key) && !elsewhere && !taken).then_some((id, flow))
    }

    fn on_datagram(&mut self, now: Time, message: &RxMessage<'_>, k: usize) {
        let from = message.from;
        match Datagram::parse(message.head(k)) {
            Ok(Datagram::Ack(ack)) => {
                if let Some(flow) = self.by_path.get(&(from, ack.key)).and_then(|id| self.flows.get_mut(id)) {
                    flow.on_ack(now, &ack);
                }
            }
            Ok(Datagram::Probe { key, token, number }) => {
                let challenge = self.challenges.of(from, token);
                if let Some((_, flow)) = self.known(from, key, token) {
                    let len = message.len_of(k);
                    flow.on_probe(now, from, Datagram::Echo { key, number, len: len as u16, challenge }, len);
                }
            }
            Ok(Datagram::Response { key, token, challenge }) => {
                let returned = challenge == self.challenges.of(from, token);
                let Some((id, flow)) = self.known(from, key, token).filter(|_| returned) else { return };
                // Whoever is there may come from a new address: a NAT may have moved it.
                let before = flow.path();
                flow.on_response(now, from);
                if let Some(path) = before {
                    self.by_path.remove(&path);
                } else {
                    self.events.push_back(Event::Opened { flow: id });
                }
                self.by_path.insert((from, key), id);
            }
            Ok(Datagram::Data(_) | Datagram::Echo { .. } | Datagram::Open { .. }) | Err(_) => {}
        }
    }
}

impl Endpoint for TcpSender {
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
        if let Err(error) = result {
            self.fail(flow, error);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let mut silent = Vec::new();
        for (&id, flow) in &mut self.flows {
            flow.on_timeout(now);
            if now.since(flow.heard) >= SILENCE_MAX {
                silent.push(id);
            }
        }
        for flow in silent {
            self.fail(flow, FlowError::Silent { seconds: SILENCE_MAX.as_nanos() / 1_000_000_000 });
        }
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Offer(offer) => self.offer(now, offer),
            Command::Disconnect { flow } => {
                if !self.flows.contains_key(&flow) {
                    return Err(CommandError::UnknownFlow(flow));
                }
                self.forget(flow);
                Ok(())
            }
            Command::LimitSend(limit) => {
                self.limit.set(now, limit);
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
        let after = self.flows.range_mut((std::ops::Bound::Excluded(self.turn), std::ops::Bound::Unbounded));
        let mut last = None;
        for (&id, flow) in after {
            if flow.transmit(now, &mut self.limit, out) {
                last = Some(id);
            }
        }
        let turn = self.turn;
        for (&id, flow) in self.flows.range_mut(..=turn) {
            if flow.transmit(now, &mut self.limit, out) {
                last = Some(id);
            }
        }
        self.turn = last.unwrap_or(turn);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Time, Reason)> {
        self.flows.values().map(SendFlow::due).min()
    }

    fn peer(&self, flow: FlowId) -> Option<SocketAddr> {
        self.flows.get(&flow)?.path().map(|(peer, _)| peer)
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
