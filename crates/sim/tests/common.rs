//! A tiny protocol to test the simulator with: the sender sends every block once at a constant rate and says that it
//! is through; the receiver acknowledges every second datagram, and requests missing blocks again until none is
//! missing.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, RangeSet, Span, Time};
use inhaul_transport::{
    Command, CommandError, Endpoint, Event, FlowError, FlowId, FlowStats, JoinFlow, ObjectId, OfferFlow, Place, Route,
    RxMessage, TxBatch,
};

/// Bytes of object in a datagram.
pub(crate) const BLOCK: u64 = 1440;
/// Head of a data datagram: flow, zero, offset, time sent, and an unused mark.
pub(crate) const HEAD: usize = 32;
/// Until data comes, the receiver says so often where it is.
const HELLO_GAP: Span = Span::from_millis(100);

const THROUGH: u8 = 1;
const AGAIN: u8 = 2;

/// Sends objects at a constant rate.
pub(crate) struct ConstantSender {
    rate: Bitrate,
    mark: u64,
    flows: BTreeMap<FlowId, Sending>,
    events: VecDeque<Event>,
}

struct Sending {
    peer: Option<SocketAddr>,
    queue: VecDeque<ByteRange>,
    next: Time,
    acks: u64,
}

impl ConstantSender {
    /// A sender that gives each flow the rate, headers included.
    pub(crate) fn new(rate: Bitrate) -> Self {
        Self { rate, mark: 0, flows: BTreeMap::new(), events: VecDeque::new() }
    }

    /// The same sender, whose heads look different.
    #[allow(dead_code, reason = "not every program that includes this file has a use for it")]
    pub(crate) fn marked(self, mark: u64) -> Self {
        Self { mark, ..self }
    }

    fn offer(&mut self, now: Time, offer: &OfferFlow) {
        let queue = VecDeque::from([ByteRange::new(0, offer.size)]);
        self.flows.insert(offer.flow, Sending { peer: None, queue, next: now, acks: 0 });
    }
}

impl Endpoint for ConstantSender {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], _places: &mut Vec<Place>) {
        for message in batch {
            let Some(id) = word(message.head(0), 0) else { continue };
            let Some(flow) = self.flows.get_mut(&FlowId(id as u32)) else { continue };
            if flow.peer.is_none() {
                flow.peer = Some(message.from);
                flow.next = now;
            }
            flow.acks += 1;
        }
    }

    fn handle_control(&mut self, _now: Time, flow: FlowId, message: &[u8]) {
        let Some(sending) = self.flows.get_mut(&flow) else { return };
        assert_eq!(message[0], AGAIN);
        if message.len() == 1 {
            self.flows.remove(&flow);
            self.events.push_back(Event::Closed { flow });
            return;
        }
        let range = |pair: &[u8]| ByteRange::new(word(pair, 0).unwrap_or(0), word(pair, 8).unwrap_or(0));
        sending.queue.extend(message[1..].chunks(16).map(range));
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Offer(offer) => self.offer(now, &offer),
            Command::Disconnect { flow } => {
                self.flows.remove(&flow).ok_or(CommandError::UnknownFlow(flow))?;
                self.events.push_back(Event::Failed { flow, error: FlowError::Disconnected });
            }
            Command::LimitSend(Some(rate)) => self.rate = rate,
            _ => return Err(CommandError::WrongRole),
        }
        Ok(())
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        for (id, flow) in &mut self.flows {
            let Some(peer) = flow.peer else { continue };
            while flow.next <= now && out.room() > 0 {
                let Some(range) = flow.queue.front_mut() else { break };
                let body = ByteRange::new(range.start, range.end.min(range.start + BLOCK));
                let mut head = [0; HEAD];
                head[..4].copy_from_slice(&id.0.to_le_bytes());
                head[8..16].copy_from_slice(&body.start.to_le_bytes());
                head[16..24].copy_from_slice(&now.as_nanos().to_le_bytes());
                head[24..].copy_from_slice(&self.mark.to_le_bytes());
                out.push(*id, Route::foreign(peer), &head, body, 0);
                flow.next = flow.next.max(now) + self.rate.time_for(body.len() + HEAD as u64 + 28);
                range.start = body.end;
                if range.is_empty() {
                    flow.queue.pop_front();
                }
                if flow.queue.is_empty() {
                    self.events.push_back(Event::Control { flow: *id, message: vec![THROUGH] });
                }
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let sends = |flow: &&Sending| flow.peer.is_some() && !flow.queue.is_empty();
        self.flows.values().filter(sends).map(|flow| flow.next).min()
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        let flow = self.flows.get(&flow)?;
        Some(FlowStats { received_packets: flow.acks, requested_rate: self.rate, ..FlowStats::default() })
    }

    fn memory_bytes(&self) -> usize {
        self.flows.len() * size_of::<Sending>()
    }
}

/// Receives from [`ConstantSender`]s.
#[derive(Default)]
pub(crate) struct Collector {
    /// Places every body a byte beside where it belongs.
    wrong: bool,
    flows: BTreeMap<FlowId, Receiving>,
    objects: BTreeMap<ObjectId, (u64, RangeSet)>,
    events: VecDeque<Event>,
    replies: VecDeque<(FlowId, SocketAddr)>,
}

struct Receiving {
    join: JoinFlow,
    size: u64,
    held: RangeSet,
    packets: u64,
    hello: Option<Time>,
}

impl Receiving {
    fn peer(&self) -> SocketAddr {
        self.join.peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }
}

impl Collector {
    /// A receiver that places every body wrongly.
    #[allow(dead_code, reason = "not every program that includes this file has a use for it")]
    pub(crate) fn misplacing() -> Self {
        Self { wrong: true, ..Self::default() }
    }

    fn on_data(&mut self, index: u32, message: &RxMessage<'_>, k: usize, places: &mut Vec<Place>) {
        let head = message.head(k);
        let (Some(id), Some(offset)) = (word(head, 0), word(head, 8)) else { return };
        let id = FlowId(id as u32);
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.hello = None;
        flow.packets += 1;
        if flow.packets.is_multiple_of(2) {
            self.replies.push_back((id, flow.peer()));
        }
        let range = ByteRange::at(offset, (message.len_of(k) - HEAD) as u64);
        if flow.held.insert(range) == range.len() {
            let range = if self.wrong { ByteRange::at(offset + 1, range.len()) } else { range };
            let head_len = HEAD as u32;
            places.push(Place { flow: id, message: index, first: k as u32, skip: head_len, head_len, range });
        }
    }
}

impl Endpoint for Collector {
    fn handle_datagrams(&mut self, _now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        for (index, message) in batch.iter().enumerate() {
            (0..message.datagrams()).for_each(|k| self.on_data(index as u32, message, k, places));
        }
    }

    fn handle_control(&mut self, _now: Time, id: FlowId, message: &[u8]) {
        assert_eq!(message, [THROUGH]);
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let gaps = flow.held.gaps(ByteRange::new(0, flow.size));
        let mut reply = vec![AGAIN];
        for gap in &gaps {
            reply.extend(gap.start.to_le_bytes());
            reply.extend(gap.end.to_le_bytes());
        }
        self.events.push_back(Event::Control { flow: id, message: reply });
        if gaps.is_empty() {
            self.events.push_back(Event::Complete { object: flow.join.object });
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        for (id, flow) in &mut self.flows {
            if flow.hello.is_some_and(|at| at <= now) {
                flow.hello = Some(now + HELLO_GAP);
                self.replies.push_back((*id, flow.peer()));
            }
        }
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Fetch { object, size, held } => {
                if self.objects.insert(object, (size, held)).is_some() {
                    return Err(CommandError::ObjectExists(object));
                }
            }
            Command::Join(join) => {
                let known = self.objects.get(&join.object).cloned();
                let (size, held) = known.ok_or(CommandError::UnknownObject(join.object))?;
                let flow = Receiving { join, size, held, packets: 0, hello: Some(now) };
                self.flows.insert(join.flow, flow);
            }
            Command::Disconnect { flow } => {
                self.flows.remove(&flow).ok_or(CommandError::UnknownFlow(flow))?;
                self.events.push_back(Event::Failed { flow, error: FlowError::Disconnected });
            }
            _ => return Err(CommandError::WrongRole),
        }
        Ok(())
    }

    fn poll_transmit(&mut self, _now: Time, out: &mut TxBatch) {
        while out.room() > 0
            && let Some((flow, peer)) = self.replies.pop_front()
        {
            let mut head = [0; 20];
            head[..4].copy_from_slice(&flow.0.to_le_bytes());
            out.push(flow, Route::foreign(peer), &head, ByteRange::default(), 0);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.flows.values().filter_map(|flow| flow.hello).min()
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        let flow = self.flows.get(&flow)?;
        Some(FlowStats {
            placed_bytes: flow.held.covered(),
            received_packets: flow.packets,
            wire_bytes: flow.packets * (BLOCK + HEAD as u64 + 28),
            ..FlowStats::default()
        })
    }

    fn memory_bytes(&self) -> usize {
        self.flows.len() * size_of::<Receiving>()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
