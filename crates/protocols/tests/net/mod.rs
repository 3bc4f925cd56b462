//! A minimal network in one process and in virtual time: senders on links of their own, one receiver behind one access
//! link with a drop-tail queue (gtp-2004 Figure 3b). Loss, reordering and duplication are drawn from a seed.
//!
//! It carries headers and lengths, no payload, and checks that every `Place` names the bytes that were sent there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, Probability, RandomStream, RangeSet, Span, Time};
use inhaul_protocols::registry;
use inhaul_transport::{
    Command, Endpoint, EndpointConfig, Event, FlowId, FlowLimits, FlowStats, Host, JoinFlow, ObjectId, OfferFlow,
    Place, Role, RxMessage, TxBatch, drain,
};

/// Bytes of IP and UDP header, which links carry too.
const IP_UDP: u64 = 28;
/// Messages on control streams cost this much more than their length (TCP and IP headers).
const CONTROL_OVERHEAD: u64 = 60;

/// A sender and its path.
#[derive(Clone, Debug)]
pub(crate) struct SenderSpec {
    pub(crate) object: u32,
    pub(crate) size: u64,
    pub(crate) rtt: Span,
    pub(crate) link: Bitrate,
    pub(crate) start: Span,
    pub(crate) send_limit: Option<Bitrate>,
}

impl SenderSpec {
    pub(crate) fn new(object: u32, size: u64, rtt_ms: u64) -> Self {
        Self {
            object,
            size,
            rtt: Span::from_millis(rtt_ms),
            link: Bitrate::from_gbps(1),
            start: Span::ZERO,
            send_limit: None,
        }
    }

    pub(crate) fn starting(self, millis: u64) -> Self {
        Self { start: Span::from_millis(millis), ..self }
    }

    pub(crate) fn link(self, link: Bitrate) -> Self {
        Self { link, ..self }
    }
}

/// The scenario.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) seed: u64,
    pub(crate) senders: Vec<SenderSpec>,
    /// The receiver's access link: its rate, and bytes that wait for it at most.
    pub(crate) access: Bitrate,
    pub(crate) queue_bytes: u64,
    /// Chances for each datagram, in both directions.
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    pub(crate) reordering: f64,
    /// A reordered datagram is late by up to so much.
    pub(crate) reorder_by: Span,
    pub(crate) control: &'static str,
    /// C_r as told to the receiver.
    pub(crate) host_rate: Option<Bitrate>,
}

impl Spec {
    pub(crate) fn new(senders: Vec<SenderSpec>) -> Self {
        let access = Bitrate::from_gbps(1);
        Self {
            seed: 1,
            senders,
            access,
            queue_bytes: access.bytes_in(Span::from_millis(5)),
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            reorder_by: Span::from_millis(3),
            control: "default",
            host_rate: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    flow: FlowId,
    head: Vec<u8>,
    len: u64,
    body: ByteRange,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Start(usize),
    Wake {
        node: usize,
    },
    /// A data packet reaches the access link's queue.
    AtAccess(Packet),
    Deliver {
        node: usize,
        packet: Packet,
    },
    Control {
        node: usize,
        flow: FlowId,
        message: Vec<u8>,
    },
}

/// Outbox of an endpoint: collects what it says and sends.
#[derive(Default)]
struct Outbox {
    events: Vec<Event>,
    packets: Vec<(SocketAddr, Packet)>,
}

impl Host for Outbox {
    fn event(&mut self, _now: Time, event: Event) {
        self.events.push(event);
    }

    fn transmit(&mut self, _now: Time, batch: &mut TxBatch) -> bool {
        for transmit in batch.transmits() {
            for datagram in transmit.datagrams {
                let packet = Packet {
                    flow: transmit.flow,
                    head: batch.head(datagram).to_vec(),
                    len: datagram.len() as u64,
                    body: datagram.body,
                };
                self.packets.push((transmit.to, packet));
            }
        }
        batch.clear();
        true
    }
}

struct Node {
    endpoint: Box<dyn Endpoint + Send>,
    batch: TxBatch,
    wake: Option<Time>,
}

/// The running network. Node 0 is the receiver, node k + 1 the k-th sender. Flow k belongs to sender k.
pub(crate) struct Net {
    spec: Spec,
    pub(crate) now: Time,
    nodes: Vec<Node>,
    heap: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    order: u64,
    random: RandomStream,
    access_free: Time,
    link_free: Vec<Time>,
    control_free: BTreeMap<(usize, FlowId), Time>,
    dead: Vec<bool>,
    pub(crate) placed: BTreeMap<u32, RangeSet>,
    pub(crate) placed_by: Vec<u64>,
    pub(crate) complete: BTreeMap<u32, Time>,
    pub(crate) failed: Vec<(FlowId, String)>,
    pub(crate) starved: Vec<u32>,
    pub(crate) queue_drops: u64,
    pub(crate) delivered: u64,
    pub(crate) memory_max: usize,
    /// Fingerprint of everything that was delivered and when.
    pub(crate) trace: u64,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node as u8], 4321))
}

impl Net {
    pub(crate) fn new(spec: Spec) -> Self {
        let gtp = registry::find("gtp").expect("registered");
        let build = |role, host_rate, seed| {
            let mut config = EndpointConfig::new(role, seed);
            config.host_rate = host_rate;
            config.parameters = vec![("control".into(), spec.control.into())];
            Node { endpoint: (gtp.build)(&config).expect("legal"), batch: TxBatch::with_limit(64), wake: None }
        };
        let mut nodes = vec![build(Role::Receiver, spec.host_rate, spec.seed)];
        nodes.extend(spec.senders.iter().map(|s| build(Role::Sender, s.send_limit, spec.seed)));
        let mut net = Self {
            now: Time::ZERO,
            nodes,
            heap: BinaryHeap::new(),
            order: 0,
            random: RandomStream::new(spec.seed, 99),
            access_free: Time::ZERO,
            link_free: vec![Time::ZERO; spec.senders.len()],
            control_free: BTreeMap::new(),
            dead: vec![false; spec.senders.len()],
            placed: BTreeMap::new(),
            placed_by: vec![0; spec.senders.len()],
            complete: BTreeMap::new(),
            failed: Vec::new(),
            starved: Vec::new(),
            queue_drops: 0,
            delivered: 0,
            memory_max: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            spec,
        };
        let mut objects: BTreeMap<u32, u64> = BTreeMap::new();
        for (k, sender) in net.spec.senders.clone().iter().enumerate() {
            objects.insert(sender.object, sender.size);
            net.at(Time::ZERO + sender.start, Happening::Start(k));
        }
        for (object, size) in objects {
            net.placed.insert(object, RangeSet::new());
            net.command(0, Command::Fetch { object: ObjectId(object), size, held: RangeSet::new() });
        }
        net
    }

    fn at(&mut self, time: Time, happening: Happening) {
        self.order += 1;
        self.heap.push(Reverse((time, self.order, happening)));
    }

    pub(crate) fn command(&mut self, node: usize, command: Command) {
        self.nodes[node].endpoint.command(self.now, command).expect("a legal command");
        self.pump(node);
    }

    /// The access link's rate changes.
    pub(crate) fn set_access(&mut self, rate: Bitrate) {
        self.spec.access = rate;
    }

    /// The sender falls silent: nothing leaves it, nothing reaches it. With `noticed`, its control stream breaks as well.
    pub(crate) fn kill(&mut self, sender: usize, noticed: bool) {
        self.dead[sender] = true;
        if noticed {
            self.command(0, Command::Disconnect { flow: FlowId(sender as u32) });
        }
    }

    pub(crate) fn stats(&self, flow: usize) -> FlowStats {
        self.nodes[0].endpoint.flow_stats(FlowId(flow as u32)).unwrap_or_default()
    }

    /// Runs until every object is complete or `limit` is reached; returns whether all are.
    pub(crate) fn run(&mut self, limit: Span) -> bool {
        self.run_until(Time::ZERO + limit, |net| net.complete.len() == net.placed.len());
        self.complete.len() == self.placed.len()
    }

    /// Runs until `until`.
    pub(crate) fn run_to(&mut self, until: Span) {
        self.run_until(Time::ZERO + until, |_| false);
    }

    fn run_until(&mut self, end: Time, done: impl Fn(&Self) -> bool) {
        while !done(self)
            && let Some(Reverse((time, _, _))) = self.heap.peek()
            && *time <= end
        {
            let Some(Reverse((time, _, happening))) = self.heap.pop() else { return };
            self.now = time;
            self.happen(happening);
        }
        if !done(self) {
            self.now = self.now.max(end);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Start(k) => self.start(k),
            Happening::Wake { node } => {
                if self.nodes[node].wake.is_some_and(|wake| wake <= self.now) {
                    self.nodes[node].wake = None;
                    self.nodes[node].endpoint.handle_timeout(self.now);
                    self.pump(node);
                }
            }
            Happening::AtAccess(packet) => self.access_link(packet),
            Happening::Deliver { node, packet } => self.deliver(node, &packet),
            Happening::Control { node, flow, message } => {
                self.nodes[node].endpoint.handle_control(self.now, flow, &message);
                self.pump(node);
            }
        }
    }

    fn start(&mut self, k: usize) {
        let sender = self.spec.senders[k].clone();
        let flow = FlowId(k as u32);
        let offer = OfferFlow {
            flow,
            size: sender.size,
            peer: None,
            only_from: None,
            mtu: 1500,
            token: self.random.next_u64(),
        };
        self.command(k + 1, Command::Offer(offer));
        let join = JoinFlow {
            flow,
            object: ObjectId(sender.object),
            peer: Some(address(k + 1)),
            mtu: 1500,
            key: self.random.next_u64() as u32,
            limits: FlowLimits::default(),
        };
        self.command(0, Command::Join(join));
    }

    /// Drains an endpoint and puts what it gave on the links.
    fn pump(&mut self, node: usize) {
        let mut outbox = Outbox::default();
        let Node { endpoint, batch, wake } = &mut self.nodes[node];
        let due = drain(endpoint.as_mut(), self.now, batch, &mut outbox);
        self.memory_max = self.memory_max.max(endpoint.memory_bytes());
        if let Some((due, _)) = due
            && due < Time::FAR_FUTURE
            && wake.is_none_or(|wake| due < wake)
        {
            let due = due.max(self.now);
            *wake = Some(due);
            self.at(due, Happening::Wake { node });
        }
        for event in outbox.events {
            self.on_event(node, event);
        }
        for (_, packet) in outbox.packets {
            self.send(node, packet);
        }
    }

    fn on_event(&mut self, node: usize, event: Event) {
        match event {
            Event::Control { flow, message } => {
                let k = flow.0 as usize;
                if self.dead[k] {
                    return;
                }
                let to = if node == 0 { k + 1 } else { 0 };
                // Reliable and in order; it takes the path's delay, and the time its bytes take on the sender's link.
                let cost = self.spec.senders[k].link.time_for(message.len() as u64 + CONTROL_OVERHEAD);
                let free = self.control_free.get(&(node, flow)).copied().unwrap_or_default().max(self.now) + cost;
                self.control_free.insert((node, flow), free);
                self.at(free + self.spec.senders[k].rtt / 2, Happening::Control { node: to, flow, message });
            }
            Event::Complete { object } => {
                self.complete.insert(object.0, self.now);
            }
            Event::Failed { flow, error } => self.failed.push((flow, error.to_string())),
            Event::Starved { object } => self.starved.push(object.0),
            Event::Opened { .. } | Event::Closed { .. } => {}
        }
    }

    fn send(&mut self, node: usize, packet: Packet) {
        let k = packet.flow.0 as usize;
        if self.dead[k] {
            return;
        }
        let sender = self.spec.senders[k].clone();
        if node == 0 {
            // Towards the sender nothing is ever full.
            return self.perturbed(
                self.now + sender.rtt / 2,
                |packet| Happening::Deliver { node: k + 1, packet },
                packet,
            );
        }
        let free = self.link_free[k].max(self.now) + sender.link.time_for(packet.len + IP_UDP);
        self.link_free[k] = free;
        self.perturbed(free + sender.rtt / 2, Happening::AtAccess, packet);
    }

    fn perturbed(&mut self, at: Time, make: impl Fn(Packet) -> Happening, packet: Packet) {
        let mut chance = |p: f64| p > 0.0 && self.random.chance(Probability::new(p).expect("a probability"));
        let (lost, twice, late) = (chance(self.spec.loss), chance(self.spec.duplication), chance(self.spec.reordering));
        if lost {
            return;
        }
        let late_by = if late { self.random.span_below(self.spec.reorder_by) } else { Span::ZERO };
        if twice {
            self.at(at, make(packet.clone()));
        }
        self.at(at + late_by, make(packet));
    }

    fn access_link(&mut self, packet: Packet) {
        let waiting = self.spec.access.bytes_in(self.access_free.since(self.now));
        if waiting + packet.len + IP_UDP > self.spec.queue_bytes {
            self.queue_drops += 1;
            return;
        }
        self.access_free = self.access_free.max(self.now) + self.spec.access.time_for(packet.len + IP_UDP);
        self.at(self.access_free, Happening::Deliver { node: 0, packet });
    }

    fn deliver(&mut self, node: usize, packet: &Packet) {
        self.fingerprint(node, packet);
        let mut bytes = packet.head.clone();
        bytes.resize(packet.head.len().max(32), 0);
        let from = if node == 0 { address(packet.flow.0 as usize + 1) } else { address(0) };
        let message = RxMessage {
            from,
            heads: &bytes,
            head_stride: bytes.len(),
            datagram_len: packet.len as usize,
            total_len: packet.len as usize,
        };
        let mut places = Vec::new();
        self.nodes[node].endpoint.handle_datagrams(self.now, &[message], &mut places);
        self.delivered += u64::from(node == 0);
        for place in places {
            self.place(packet, place);
        }
        self.pump(node);
    }

    fn place(&mut self, packet: &Packet, place: Place) {
        assert_eq!((place.message, place.first, place.flow), (0, 0, packet.flow));
        assert_eq!(packet.body.start + u64::from(place.skip) - packet.head.len() as u64, place.range.start);
        assert!(packet.body.contains(place.range), "{place:?} is not in {packet:?}");
        let object = self.spec.senders[packet.flow.0 as usize].object;
        let new = self.placed.get_mut(&object).expect("known").insert(place.range);
        assert_eq!(new, place.range.len(), "bytes were placed twice: {place:?}");
        self.placed_by[packet.flow.0 as usize] += new;
    }

    fn fingerprint(&mut self, node: usize, packet: &Packet) {
        let mut mix = |value: u64| self.trace = (self.trace ^ value).wrapping_mul(0x0100_0000_01b3);
        mix(self.now.as_nanos());
        mix(node as u64);
        packet.head.iter().for_each(|&byte| mix(u64::from(byte)));
        mix(packet.len);
    }
}
