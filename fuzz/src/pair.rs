//! Two endpoints of a protocol, and a network between them that follows a script: it delivers, loses, repeats,
//! reorders, garbles, and brings bytes that no endpoint has sent. The assertions of [`Pair`] must hold for both in any
//! case.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use inhaul_base::{Bitrate, RangeSet, Span, Time};
use inhaul_protocols::registry::PROTOCOLS;
use inhaul_transport::kit::Connections;
use inhaul_transport::{
    Command, ConnectionId, ENVELOPE_LEN, Endpoint, EndpointConfig, Envelope, Event, FlowId, FlowLimits, Host, JoinFlow,
    ObjectId, OfferFlow, PathSpec, Place, Role, RxMessage, TxBatch, drain,
};

use crate::mutate::EDGES;

/// Most bytes that an endpoint may send in one drain, at any requested rate.
const DRAIN_BYTES_MAX: usize = 16 << 20;
/// Most memory that an endpoint's state may take.
const MEMORY_BYTES_MAX: usize = 8 << 20;
/// Most parcels in the network; more are lost.
const UNDER_WAY_MAX: usize = 512;
/// Most timers that one step fires.
const TIMERS_A_STEP: usize = 64;
/// Most timers that may fire in a row without time passing.
const STANDSTILL_MAX: usize = 32;
/// A bit of a step: it is about a control message.
pub(crate) const CONTROL: u8 = 16;
/// Flows between the two.
const FLOWS: u32 = 2;
/// Sizes of the object, in bytes.
const SIZES: [u64; 4] = [1, 100_000, 1 << 33, 1 << 55];

/// An address, by the last number of its port.
fn address(last: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 40_000 + last))
}

const SENDER: u16 = 0;
const RECEIVER: u16 = 1;
/// An address that sends datagrams and never receives one.
const SILENT: u16 = 2;

/// A message or datagram in the network.
#[derive(Clone, Debug)]
enum Parcel {
    Datagram { from: SocketAddr, to: SocketAddr, head: Vec<u8>, len: usize },
    Control { to: Role, flow: FlowId, message: Vec<u8> },
}

struct Party {
    role: Role,
    endpoint: Box<dyn Endpoint + Send>,
    batch: TxBatch,
    connections: Connections,
    due: Option<Time>,
}

/// The connection id of a flow's datagrams to the endpoint in `role`.
fn connection(role: Role, flow: FlowId) -> ConnectionId {
    ConnectionId(flow.0 + if role == Role::Sender { 100 } else { 200 })
}

/// The two endpoints, the network between them, and observations.
pub(crate) struct Pair {
    now: Time,
    sender: Party,
    receiver: Party,
    under_way: VecDeque<Parcel>,
    /// The last parcel that arrived.
    last: Option<Parcel>,
    /// The packet number of the next forged datagram. It is not one of the endpoints' numbers, or it would count as a
    /// copy.
    next_number: u32,
    size: u64,
    placed: RangeSet,
    /// Whether any data was ever placed.
    has_placed: bool,
    /// Addresses that have received a datagram of the sender.
    reached: BTreeSet<SocketAddr>,
    /// Bytes that the sender received from each address, and sent to it.
    exchanged: BTreeMap<SocketAddr, (usize, usize)>,
}

/// Collects an endpoint's output of one drain.
struct Collector<'c> {
    role: Role,
    connections: &'c mut Connections,
    under_way: &'c mut VecDeque<Parcel>,
    events: Vec<Event>,
    reached: &'c BTreeSet<SocketAddr>,
    exchanged: &'c mut BTreeMap<SocketAddr, (usize, usize)>,
    sent: usize,
}

impl Host for Collector<'_> {
    fn event(&mut self, _now: Time, event: Event) {
        match event {
            Event::Control { flow, message } => {
                let to = if self.role == Role::Sender { Role::Receiver } else { Role::Sender };
                self.under_way.push_back(Parcel::Control { to, flow, message });
            }
            event => self.events.push(event),
        }
    }

    fn transmit(&mut self, _now: Time, batch: &mut TxBatch) -> bool {
        let from = address(if self.role == Role::Sender { SENDER } else { RECEIVER });
        for transmit in batch.transmits() {
            let (to, connection) = (transmit.route.to, transmit.route.connection);
            for datagram in transmit.datagrams {
                self.sent += datagram.len();
                assert!(self.sent <= DRAIN_BYTES_MAX, "a drain ends: {} bytes and more in one", self.sent);
                if self.role == Role::Sender {
                    let (came, went) = self.exchanged.entry(to).or_default();
                    *went += ENVELOPE_LEN + datagram.len();
                    let is_validated = self.reached.contains(&to);
                    assert!(is_validated || datagram.body.is_empty(), "data to an address that has returned nothing");
                    assert!(
                        is_validated || *went <= *came,
                        "{went} bytes for {came} to an address that has returned nothing"
                    );
                }
                if self.under_way.len() < UNDER_WAY_MAX {
                    let number = self.connections.take_numbers(transmit.flow, 1);
                    let envelope =
                        Envelope { number: number as u32, connection: connection.expect("it is no foreign protocol") };
                    let head = envelope.before(batch.head(datagram));
                    let len = ENVELOPE_LEN + datagram.len();
                    self.under_way.push_back(Parcel::Datagram { from, to, head, len });
                }
            }
        }
        batch.clear();
        true
    }
}

impl Party {
    fn new(role: Role, protocol: usize, host_rate: Option<Bitrate>) -> Self {
        let flow_rate = Some(Bitrate::from_gbps(1));
        let config = EndpointConfig { host_rate, flow_rate, ..EndpointConfig::new(role, 1) };
        let endpoint = (PROTOCOLS[protocol % PROTOCOLS.len()].build)(&config).expect("the defaults are legal");
        let mut connections = Connections::default();
        (1..=FLOWS).map(FlowId).for_each(|flow| connections.insert(connection(role, flow), flow));
        Self { role, endpoint, batch: TxBatch::with_limit(64), connections, due: None }
    }
}

impl Pair {
    /// Two endpoints that know of each other. `kind` chooses protocol, size, and whether the hosts' rates are known.
    pub(crate) fn new(protocol: u8, kind: u8) -> Self {
        let host_rate = (kind & 4 != 0).then_some(Bitrate::from_mbps(100));
        let protocol = usize::from(protocol);
        let size = SIZES[usize::from(kind & 3)];
        let mut pair = Self {
            now: Time::ZERO + Span::from_secs(1),
            sender: Party::new(Role::Sender, protocol, host_rate),
            receiver: Party::new(Role::Receiver, protocol, host_rate),
            under_way: VecDeque::new(),
            last: None,
            next_number: 1 << 30,
            size,
            placed: RangeSet::default(),
            has_placed: false,
            reached: BTreeSet::new(),
            exchanged: BTreeMap::new(),
        };
        pair.command(Role::Receiver, Command::Fetch { object: ObjectId(0), size, held: RangeSet::default() });
        let path = PathSpec::clear(1500, address(SENDER).ip());
        for flow in 1..=FLOWS {
            let offer = OfferFlow {
                flow: FlowId(flow),
                size,
                peer: None,
                only_from: None,
                path,
                connection: connection(Role::Sender, FlowId(flow)),
                token: 0x0123_4567_89ab_cd00 + u64::from(flow),
                client: None,
                parameters: Default::default(),
            };
            pair.command(Role::Sender, Command::Offer(offer));
            let join = JoinFlow {
                flow: FlowId(flow),
                object: ObjectId(0),
                peer: Some(address(SENDER)),
                path,
                connection: connection(Role::Receiver, FlowId(flow)),
                probed: None,
                limits: FlowLimits::default(),
            };
            pair.command(Role::Receiver, Command::Join(join));
        }
        pair
    }

    /// Whether any data was placed.
    pub(crate) fn has_placed(&self) -> bool {
        self.has_placed
    }

    /// Runs a script, step by step.
    pub(crate) fn run(&mut self, mut script: &[u8]) {
        while let Some((&[op, a, b, c], rest)) = script.split_first_chunk() {
            script = rest;
            match op % 16 {
                0..=4 => (0..=a % 16).for_each(|_| self.arrive()),
                5 => drop(self.under_way.pop_front()),
                6 => self.repeat(),
                7 => self.under_way.rotate_left(usize::from(a).min(self.under_way.len())),
                8 => self.garble(c, |bytes| flip(bytes, a, b)),
                9 => self.garble(c, |bytes| write_edge(bytes, a, b, c)),
                10 => self.resize(u16::from_be_bytes([a, b])),
                11 | 12 => self.pass(Span::from_nanos(1 << (a % 36))),
                13 => self.deliver_from_elsewhere(),
                14 => self.give_command(a, b, c),
                _ => {
                    let (bytes, rest) = script.split_at(usize::from(a).min(script.len()));
                    script = rest;
                    self.bring(bytes, b);
                }
            }
        }
    }

    fn party(&mut self, role: Role) -> &mut Party {
        if role == Role::Sender { &mut self.sender } else { &mut self.receiver }
    }

    /// The next parcel arrives.
    fn arrive(&mut self) {
        if let Some(parcel) = self.under_way.pop_front() {
            self.deliver(parcel);
        }
    }

    fn repeat(&mut self) {
        if let Some(parcel) = self.last.clone() {
            self.deliver(parcel);
        }
    }

    /// The next parcel, or the next control message, arrives with other bytes, before earlier ones.
    fn garble(&mut self, choice: u8, change: impl Fn(&mut [u8])) {
        let is_control = |parcel: &Parcel| matches!(parcel, Parcel::Control { .. });
        let control = self.under_way.iter().position(is_control).filter(|_| choice & CONTROL != 0);
        let Some(mut parcel) = self.under_way.remove(control.unwrap_or(0)) else { return };
        match &mut parcel {
            Parcel::Datagram { head, .. } => change(head),
            Parcel::Control { message, .. } => change(message),
        }
        self.deliver(parcel);
    }

    /// The next parcel arrives with another length.
    fn resize(&mut self, to: u16) {
        let Some(mut parcel) = self.under_way.pop_front() else { return };
        match &mut parcel {
            Parcel::Datagram { head, len, .. } => {
                *len = usize::from(to);
                head.truncate(*len);
            }
            Parcel::Control { message, .. } => message.resize(usize::from(to) % 1100, 0),
        }
        self.deliver(parcel);
    }

    /// The sender's last received datagram arrives again, from an address that never receives anything.
    fn deliver_from_elsewhere(&mut self) {
        let Some(Parcel::Datagram { to, head, len, .. }) = self.last.clone() else { return };
        if to == address(SENDER) {
            self.deliver(Parcel::Datagram { from: address(SILENT), to, head, len });
        }
    }

    /// Bytes arrive that no endpoint has sent.
    fn bring(&mut self, bytes: &[u8], choice: u8) {
        let flow = FlowId(1 + u32::from(choice >> 4 & 1));
        let number = self.next_number;
        self.next_number += 1;
        let parcel = match choice % 4 {
            0 => Parcel::Control { to: Role::Sender, flow, message: bytes.to_vec() },
            1 => Parcel::Control { to: Role::Receiver, flow, message: bytes.to_vec() },
            2 => {
                let head = Envelope { number, connection: connection(Role::Sender, flow) }.before(bytes);
                let len = head.len();
                Parcel::Datagram { from: address(SILENT), to: address(SENDER), head, len }
            }
            _ => {
                let head = Envelope { number, connection: connection(Role::Receiver, flow) }.before(bytes);
                Parcel::Datagram { from: address(SENDER), to: address(RECEIVER), head, len: 1400 }
            }
        };
        self.deliver(parcel);
    }

    fn deliver(&mut self, parcel: Parcel) {
        self.last = Some(parcel.clone());
        let now = self.now;
        match parcel {
            Parcel::Control { to, flow, message } => {
                self.party(to).endpoint.handle_control(now, flow, &message);
                self.drain(to);
            }
            Parcel::Datagram { to, .. } if to == address(SILENT) => {}
            Parcel::Datagram { from, to, head, len } => {
                let role = if to == address(SENDER) { Role::Sender } else { Role::Receiver };
                if role == Role::Sender {
                    self.exchanged.entry(from).or_default().0 += len;
                } else {
                    self.reached.insert(to);
                }
                let message = RxMessage { datagram_len: len, total_len: len, ..RxMessage::single(from, &head) };
                // As a port does: drop a datagram with an unknown id.
                let known = message.envelope(0).map(|envelope| envelope.connection);
                let known = known.and_then(|id| Some((self.party(role).connections.flow(id)?, id)));
                let Some((flow, id)) = known else { return };
                let mut places = Vec::new();
                self.party(role).endpoint.handle_datagrams(now, &[message.of_flow(flow, id)], &mut places);
                places.iter().for_each(|place| self.place(role, place, len));
                self.drain(role);
            }
        }
    }

    fn place(&mut self, role: Role, place: &Place, len: usize) {
        assert_eq!((role, place.message), (Role::Receiver, 0), "{place:?}");
        assert!(place.range.end <= self.size && !place.range.is_empty(), "{place:?} of {} bytes", self.size);
        assert!(place.range.len() as usize + place.skip as usize <= len, "{place:?} of a datagram of {len} bytes");
        self.has_placed = true;
        assert_eq!(self.placed.insert(place.range), place.range.len(), "{place:?} is placed twice");
    }

    fn command(&mut self, role: Role, command: Command) {
        let now = self.now;
        // A command that does not fit the state is refused, and changes nothing.
        let _ = self.party(role).endpoint.command(now, command);
        self.drain(role);
    }

    fn give_command(&mut self, a: u8, b: u8, c: u8) {
        let edge = EDGES[usize::from(b) % EDGES.len()];
        let flow = FlowId(1 + u32::from(c & 1));
        let rate = (b != 0).then_some(Bitrate::from_bps(edge.max(1)));
        match a % 8 {
            0 => self.command(Role::Receiver, Command::LimitReceive(rate)),
            1 => self.command(Role::Sender, Command::LimitSend(rate)),
            2 => self.command(Role::Receiver, Command::Disconnect { flow }),
            3 => self.command(Role::Sender, Command::Disconnect { flow }),
            _ => {
                // Only placed data can turn out to be wrong.
                let Some(range) = self.placed.iter().nth(usize::from(c) % self.placed.fragments().max(1)) else {
                    return;
                };
                self.placed.remove(range);
                self.command(Role::Receiver, Command::Refetch { object: ObjectId(0), range, suspect: Some(flow) });
            }
        }
    }

    /// Time passes, and timers fire.
    fn pass(&mut self, span: Span) {
        let (began, until) = (self.now, self.now + span);
        for fired in 0..TIMERS_A_STEP {
            let role = match (self.sender.due, self.receiver.due) {
                (Some(a), Some(b)) if b < a => Role::Receiver,
                (Some(_), _) => Role::Sender,
                (None, Some(_)) => Role::Receiver,
                (None, None) => break,
            };
            let Some(due) = self.party(role).due.filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            assert!(fired < STANDSTILL_MAX || self.now > began, "time does not pass: {role:?} is due at {due:?}");
            let now = self.now;
            self.party(role).endpoint.handle_timeout(now);
            self.drain(role);
        }
        self.now = self.now.max(until);
    }

    fn drain(&mut self, role: Role) {
        let Self { now, sender, receiver, under_way, reached, exchanged, .. } = self;
        let party = if role == Role::Sender { sender } else { receiver };
        let connections = &mut party.connections;
        let mut out =
            Collector { role: party.role, connections, under_way, events: Vec::new(), reached, exchanged, sent: 0 };
        // Without the engine's budget, to test the endpoint's own bounds.
        let mut budget = u64::MAX;
        party.due = drain(party.endpoint.as_mut(), *now, &mut party.batch, &mut budget, &mut out);
        let events = out.events;
        let memory = party.endpoint.memory_bytes();
        assert!(memory <= MEMORY_BYTES_MAX, "{memory} bytes of memory");
        for event in events {
            if let Event::Complete { .. } = event {
                assert_eq!(self.placed.covered(), self.size, "complete, but not whole");
            }
        }
    }
}

fn flip(bytes: &mut [u8], at: u8, bits: u8) {
    let len = bytes.len().max(1);
    if let Some(byte) = bytes.get_mut(usize::from(at) % len) {
        *byte ^= bits.max(1);
    }
}

/// Overwrites 1, 2, 4 or 8 bytes with a number at which endpoints err.
fn write_edge(bytes: &mut [u8], at: u8, which: u8, width: u8) {
    let edge = EDGES[usize::from(which) % EDGES.len()].to_be_bytes();
    let len = bytes.len().max(1);
    let rest = bytes.get_mut(usize::from(at) % len..).unwrap_or_default();
    for (to, from) in rest.iter_mut().zip(&edge[8 - (1 << (width % 4))..]) {
        *to = *from;
    }
}
