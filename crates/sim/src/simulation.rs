//! The user's interface of the simulation: setting up, letting time pass, reading results.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::net::SocketAddrV4;

use inhaul_base::{RandomStream, RangeSet, Span, Time};
use inhaul_link::LinkStats;
use inhaul_transport::kit::Connections;
use inhaul_transport::{
    ClientRate, Command, CommandError, Endpoint, Event, FlowId, FlowStats, ObjectId, Place, TxBatch,
};

use crate::addresses::{ENDPOINTS_MAX, NODES_MAX, address};
use crate::agenda::{Component, ComponentId};
use crate::capture::Capture;
use crate::changes::{Change, Happening, Timeline};
use crate::control::WINDOW_MAX;
use crate::host::{Host, HostStats};
use crate::interface::SendBuffer;
use crate::ledger::Ledger;
use crate::network::Network;
use crate::noise;
use crate::packet::{IP_UDP_BYTES, Packet};
use crate::recorder::{Recorder, TcpWatch};
use crate::topology::Kind;
use crate::traffic::Source;
use crate::transfer::{Phase, Running};
use crate::{
    EndpointId, Failure, LinkId, LinkSample, NodeId, Pattern, RecorderSpec, Sample, SimError, Topology, TopologyError,
    TrafficId, TrafficStats, Transfer, TransferId, UdpTraffic,
};

/// Datagrams that an endpoint is asked for at a time.
const BATCH_DATAGRAMS: usize = 64;

/// Most packets that are handed to an endpoint at a time.
pub(crate) const MESSAGES_MAX: usize = 64;

/// Random streams: what for, in the upper half of the stream's number, and for which, in the lower.
const LINK_STREAMS: u64 = 1 << 32;
const TASK_STREAMS: u64 = 2 << 32;
const TRAFFIC_STREAMS: u64 = 3 << 32;
const NAME_STREAM: u64 = 4 << 32;
const NOISE_STREAMS: u64 = 5 << 32;
const SCHEDULER_STREAMS: u64 = 6 << 32;
/// Streams of a host: more than it will have tasks.
const TASKS_PER_HOST: u64 = 1 << 16;

/// An endpoint in its place.
pub(crate) struct Seat {
    pub(crate) endpoint: Box<dyn Endpoint + Send>,
    pub(crate) component: ComponentId,
    /// Its flows, as the port knows them that its datagrams come and go by.
    pub(crate) connections: Connections,
    /// Its bytes waiting at its host's interface, if that is finite.
    pub(crate) send_buffer: Option<SendBuffer>,
    /// When it was last woken, and how often at that time.
    pub(crate) woken: (Time, u32),
}

/// A network with its endpoints, at a point in time.
pub struct Simulation {
    pub(crate) topology: Topology,
    pub(crate) now: Time,
    pub(crate) network: Network,
    /// By node; the one of a router stays empty.
    pub(crate) hosts: Vec<Host>,
    pub(crate) seats: Vec<Seat>,
    /// Node and address of each endpoint.
    pub(crate) addresses: Vec<(NodeId, SocketAddrV4)>,
    pub(crate) transfers: Vec<Running>,
    pub(crate) traffic: Vec<Source>,
    pub(crate) ledger: Ledger,
    pub(crate) timeline: Timeline,
    pub(crate) changes: ComponentId,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) tcp_watch: Option<TcpWatch>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) starved: Vec<(EndpointId, ObjectId)>,
    pub(crate) names: RandomStream,
    pub(crate) seed: u64,
    /// Most bytes of a control stream that are on their way.
    pub(crate) control_window: u64,
    pub(crate) sealed: bool,
    /// Transfers whose datagrams take tunnels now.
    pub(crate) tunnels: Vec<TransferId>,
    /// Fingerprint of everything that was delivered, and when.
    pub(crate) trace: u64,
    pub(crate) fault: Option<SimError>,
    // Reused buffers.
    pub(crate) batch: TxBatch,
    pub(crate) places: Vec<Place>,
    pub(crate) events: VecDeque<(EndpointId, Event)>,
    pub(crate) served: Vec<Packet>,
}

// --- Setting
// up -------------------------------------------------------------------------------------------------------

impl Simulation {
    /// The network of a topology at time zero. Everything random in it comes from `seed`.
    ///
    /// # Errors
    /// When the topology makes no sense.
    pub fn new(topology: Topology, seed: u64) -> Result<Self, TopologyError> {
        check(&topology)?;
        let mut network = Network::new(&topology, |link| RandomStream::new(seed, LINK_STREAMS + u64::from(link)));
        let mut hosts = Vec::with_capacity(topology.nodes.len());
        for (index, node) in (0u32..).zip(&topology.nodes) {
            let spec = if let Kind::Host(spec) = &node.kind { spec.clone() } else { Default::default() };
            let component = network.agenda.add(Component::Host(index));
            let first = TASK_STREAMS + u64::from(index) * TASKS_PER_HOST;
            let scheduling = RandomStream::new(seed, SCHEDULER_STREAMS + u64::from(index));
            let mut host = Host::new(&spec, component, |task| RandomStream::new(seed, first + task as u64), scheduling);
            let random = RandomStream::new(seed, NOISE_STREAMS + u64::from(index));
            host.thread = noise::thread(spec.noise.as_ref(), index, &mut network.agenda, random);
            network.agenda.schedule(component, host.due());
            hosts.push(host);
        }
        let changes = network.agenda.add(Component::Changes);
        Ok(Self {
            topology,
            now: Time::ZERO,
            network,
            hosts,
            seats: Vec::new(),
            addresses: Vec::new(),
            transfers: Vec::new(),
            traffic: Vec::new(),
            ledger: Ledger::default(),
            timeline: Timeline::default(),
            changes,
            recorder: None,
            tcp_watch: None,
            failures: Vec::new(),
            starved: Vec::new(),
            names: RandomStream::new(seed, NAME_STREAM),
            seed,
            control_window: WINDOW_MAX,
            sealed: false,
            tunnels: Vec::new(),
            trace: 0,
            fault: None,
            batch: TxBatch::with_limit(BATCH_DATAGRAMS),
            places: Vec::new(),
            events: VecDeque::new(),
            served: Vec::new(),
        })
    }

    /// Control streams that start from now on have at most `bytes` on their way. Without it, Linux's automatic maximum
    /// (6 MiB).
    pub fn set_control_window(&mut self, bytes: u64) {
        self.control_window = bytes;
    }

    /// Whether datagrams cost what sealed ones do, which is a tag more. Without it they are in the clear.
    pub fn set_sealed(&mut self, sealed: bool) {
        self.sealed = sealed;
    }

    /// Puts an endpoint on a host, which may have any number of them.
    ///
    /// # Errors
    /// When there is no such host, or it is full (64511 endpoints).
    pub fn endpoint(&mut self, host: NodeId, endpoint: Box<dyn Endpoint + Send>) -> Result<EndpointId, SimError> {
        self.check_host(host)?;
        let id = EndpointId(self.seats.len() as u32);
        let component = self.network.agenda.add(Component::Endpoint(id.0));
        let on_host = &mut self.hosts[host.0 as usize].endpoints;
        if on_host.len() >= ENDPOINTS_MAX {
            return Err(SimError::BadValue { what: "endpoints of a host", expected: "at most 64511" });
        }
        self.addresses.push((host, address(host, on_host.len())));
        on_host.push(id);
        let send_buffer = self.hosts[host.0 as usize].send_buffer.map(SendBuffer::new);
        let connections = Connections::default();
        self.seats.push(Seat { endpoint, component, connections, send_buffer, woken: (Time::ZERO, 0) });
        Ok(id)
    }

    /// Sets a transfer up. At its start the sender gets `Offer` and the receiver `Join`, before its first transfer of
    /// the object `Fetch`; at its stop, if it has one, both get `Disconnect`.
    ///
    /// # Errors
    /// When an endpoint is not known, no path leads from one to the other and back, the start has passed,
    /// or mirrors disagree about the size of the object.
    pub fn transfer(&mut self, transfer: Transfer) -> Result<TransferId, SimError> {
        let id = TransferId(self.transfers.len() as u32);
        let (start, stop) = (transfer.start, transfer.stop);
        self.check_ahead("the start of a transfer", start)?;
        let (from, to) = (self.node_of(transfer.sender)?, self.node_of(transfer.receiver)?);
        if from == to {
            return Err(SimError::SameHost(transfer.name));
        }
        self.check_route(from, to)?;
        self.check_route(to, from)?;
        let object = self.ledger.enter(transfer.receiver, transfer.object, transfer.size);
        let known = self.ledger.object(object).size;
        if known != transfer.size {
            return Err(SimError::SizeDiffers { name: transfer.name, size: transfer.size, known });
        }
        self.transfers.push(Running {
            transfer,
            object,
            phase: Phase::Waiting,
            component: self.network.agenda.add(Component::Control(id.0)),
            control_nodes: (from, to),
            client: None,
            streams: None,
            tunnel: None,
            placed_bytes: 0,
            receiver_stats: FlowStats::default(),
            sender_stats: FlowStats::default(),
            series: Vec::new(),
        });
        self.schedule(start, Happening::Start(id));
        if let Some(stop) = stop {
            self.schedule(stop.max(start), Happening::Stop(id));
        }
        Ok(id)
    }

    /// Has a transfer's control stream run between two other hosts: a control network beside the one for data, as
    /// lambda grids have it. For a transfer that has not started.
    ///
    /// # Errors
    /// When a node is no host, or no path leads from one to the other and back.
    pub fn control_between(
        &mut self,
        transfer: TransferId,
        at_sender: NodeId,
        at_receiver: NodeId,
    ) -> Result<(), SimError> {
        self.check_host(at_sender)?;
        self.check_host(at_receiver)?;
        self.check_route(at_sender, at_receiver)?;
        self.check_route(at_receiver, at_sender)?;
        let running = self.transfers.get_mut(transfer.0 as usize).ok_or(SimError::Unknown("a transfer"))?;
        if running.phase != Phase::Waiting {
            return Err(SimError::Past { what: "a control network", at: running.transfer.start, now: self.now });
        }
        running.control_nodes = (at_sender, at_receiver);
        Ok(())
    }

    /// Has a transfer's sender keep to this rate with all transfers of the same client. For a transfer that has not
    /// started.
    ///
    /// # Errors
    /// When there is no such transfer, or it has started.
    pub fn limit_client(&mut self, transfer: TransferId, client: ClientRate) -> Result<(), SimError> {
        let running = self.transfers.get_mut(transfer.0 as usize).ok_or(SimError::Unknown("a transfer"))?;
        if running.phase != Phase::Waiting {
            return Err(SimError::Past { what: "a client's rate", at: running.transfer.start, now: self.now });
        }
        running.client = Some(client);
        Ok(())
    }

    /// Makes a receiver hold ranges of an object from the beginning, like a receiver that resumes. The object must have
    /// transfers, and none of them may have started.
    ///
    /// # Errors
    /// When no transfer brings the object, or one has started.
    pub fn hold(&mut self, receiver: EndpointId, object: ObjectId, held: RangeSet) -> Result<(), SimError> {
        let now = self.now;
        let entry = self.ledger.named(receiver, object).ok_or(SimError::Unknown("an object"))?;
        if entry.fetched {
            return Err(SimError::Past { what: "holding ranges", at: now, now });
        }
        entry.placed = held.clone();
        entry.held = held;
        Ok(())
    }

    /// Schedules a change at `at`. Changes at one time happen in the order of scheduling.
    ///
    /// # Errors
    /// When the time has passed or the change names something unknown.
    pub fn at(&mut self, at: Time, change: Change) -> Result<(), SimError> {
        self.check_ahead("a change", at)?;
        match &change {
            Change::LinkRate(link, _) | Change::LinkMtu(link, _) | Change::LinkDown(link) | Change::LinkUp(link) => {
                self.check_link(*link)?;
            }
            Change::Command(endpoint, _) | Change::Crash(endpoint) | Change::Rebind(endpoint) => {
                self.node_of(*endpoint).map(|_| ())?;
            }
            Change::Break(transfer) | Change::Tunnel(transfer, _) => self.running(*transfer).map(|_| ())?,
        }
        self.schedule(at, Happening::Change(change));
        Ok(())
    }

    /// Commands an endpoint now, as [`Change::Command`] does.
    ///
    /// # Errors
    /// When the endpoint is not known or refuses.
    pub fn command(&mut self, endpoint: EndpointId, command: Command) -> Result<(), SimError> {
        self.node_of(endpoint)?;
        self.give(endpoint, command).map_err(|error| self.refused(error))?;
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Adds background traffic.
    ///
    /// # Errors
    /// When an end is no host, no path leads there, the start has passed, or a number makes no sense.
    pub fn background_udp(&mut self, traffic: UdpTraffic) -> Result<TrafficId, SimError> {
        self.check_host(traffic.from)?;
        self.check_host(traffic.to)?;
        self.check_route(traffic.from, traffic.to)?;
        self.check_ahead("the start of a background traffic", traffic.start)?;
        if u32::from(traffic.packet_bytes) < IP_UDP_BYTES || traffic.rate.bps() == 0 {
            return Err(SimError::BadValue {
                what: "background traffic",
                expected: "packets have 28 bytes at least, and the rate is not zero",
            });
        }
        if let Pattern::OnOff { on, .. } = traffic.pattern
            && on.mean() == Span::ZERO
        {
            return Err(SimError::BadValue { what: "background traffic", expected: "spells that are on take time" });
        }
        let id = TrafficId(self.traffic.len() as u32);
        let component = self.network.agenda.add(Component::Traffic(id.0));
        let random = RandomStream::new(self.seed, TRAFFIC_STREAMS + u64::from(id.0));
        let source = Source::new(traffic, component, random);
        self.network.agenda.schedule(component, source.due());
        self.traffic.push(source);
        Ok(id)
    }

    /// Has every transfer and link sampled at even intervals from now on.
    ///
    /// # Errors
    /// When the interval is zero.
    pub fn record(&mut self, spec: RecorderSpec) -> Result<(), SimError> {
        if spec.interval.as_nanos() == 0 {
            return Err(SimError::BadValue { what: "the recorder's interval", expected: "longer than nothing" });
        }
        let known = self.recorder.take().map(|recorder| (recorder.component, recorder.links));
        let (component, links) = known.unwrap_or_else(|| {
            let component = self.network.agenda.add(Component::Recorder);
            (component, vec![Vec::new(); self.network.lines.len()])
        });
        self.network.agenda.schedule(component, Some(self.now + spec.interval));
        self.recorder = Some(Recorder { spec, component, links });
        Ok(())
    }

    /// Has what arrives over a link written as a pcapng file: raw IP, heads without bodies, time stamps in
    /// nanoseconds.
    ///
    /// # Errors
    /// When the link is not known or the file's head cannot be written.
    pub fn capture(&mut self, link: LinkId, out: Box<dyn Write + Send>) -> Result<(), SimError> {
        self.check_link(link)?;
        let name = &self.topology.wires[link.0 as usize].name;
        self.network.lines[link.0 as usize].capture = Some(Capture::new(out, name)?);
        Ok(())
    }

    fn schedule(&mut self, at: Time, happening: Happening) {
        self.timeline.push(at, happening);
        self.network.agenda.schedule(self.changes, self.timeline.due());
    }
}

// --- Looking ----------------------------------------------------------------------------------------------------------

impl Simulation {
    /// What time it is.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A transfer as it was given.
    ///
    /// # Panics
    /// Like everything that takes an id: when the id is of another simulation that has more of its kind.
    pub fn transfer_spec(&self, transfer: TransferId) -> &Transfer {
        &self.transfers[transfer.0 as usize].transfer
    }

    /// Every transfer, in the order in which they were added.
    pub fn transfers(&self) -> impl Iterator<Item = TransferId> + use<> {
        (0..self.transfers.len() as u32).map(TransferId)
    }

    /// The name of a transfer's flow at both of its endpoints.
    pub fn flow_of(&self, transfer: TransferId) -> FlowId {
        transfer.flow()
    }

    /// Bytes of the object that came by this transfer. Bytes that were declared wrong and fetched again count twice.
    pub fn placed_bytes(&self, transfer: TransferId) -> u64 {
        self.transfers[transfer.0 as usize].placed_bytes
    }

    /// Bytes of the transfer's object that are in place, from all transfers.
    pub fn object_bytes(&self, transfer: TransferId) -> u64 {
        self.ledger.object(self.transfers[transfer.0 as usize].object).placed.covered()
    }

    /// The ranges of the transfer's object that are in place.
    pub fn placed(&self, transfer: TransferId) -> &RangeSet {
        &self.ledger.object(self.transfers[transfer.0 as usize].object).placed
    }

    /// Whether the receiver has said that the transfer's object is complete (and it was).
    pub fn is_complete(&self, transfer: TransferId) -> bool {
        self.completed_at(transfer).is_some()
    }

    /// When the transfer's object was complete.
    pub fn completed_at(&self, transfer: TransferId) -> Option<Time> {
        self.ledger.object(self.transfers[transfer.0 as usize].object).complete
    }

    /// Flows that have ended badly, in order.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Objects for which no flow was left, with their receivers, in order.
    pub fn starved(&self) -> &[(EndpointId, ObjectId)] {
        &self.starved
    }

    /// The receiver's statistics of a transfer; its last ones if it has forgotten the flow.
    pub fn stats(&self, transfer: TransferId) -> FlowStats {
        let running = &self.transfers[transfer.0 as usize];
        self.flow_stats(running.transfer.receiver, transfer).unwrap_or(running.receiver_stats)
    }

    /// The sender's statistics of a transfer; its last ones if it has forgotten the flow.
    pub fn sender_stats(&self, transfer: TransferId) -> FlowStats {
        let running = &self.transfers[transfer.0 as usize];
        self.flow_stats(running.transfer.sender, transfer).unwrap_or(running.sender_stats)
    }

    fn flow_stats(&self, endpoint: EndpointId, transfer: TransferId) -> Option<FlowStats> {
        self.seats[endpoint.0 as usize].endpoint.flow_stats(transfer.flow())
    }

    /// A link's counters until now.
    pub fn link_stats(&mut self, link: LinkId) -> LinkStats {
        let now = self.now;
        self.network.lines[link.0 as usize].link.stats(now)
    }

    /// A host's counters of arrivals.
    pub fn host_stats(&self, host: NodeId) -> HostStats {
        self.hosts[host.0 as usize].stats
    }

    /// Counters of a background traffic.
    pub fn traffic_stats(&self, traffic: TrafficId) -> TrafficStats {
        self.traffic[traffic.0 as usize].stats
    }

    /// How a transfer stands now, as [recording](Simulation::record) would note it.
    pub fn sample(&self, transfer: TransferId) -> Sample {
        let placed_bytes = self.placed_bytes(transfer);
        Sample::of(self.now, placed_bytes, &self.stats(transfer), &self.sender_stats(transfer))
    }

    /// The samples of a transfer, from its start to its end, if the simulation is [recorded](Simulation::record).
    pub fn series(&self, transfer: TransferId) -> &[Sample] {
        &self.transfers[transfer.0 as usize].series
    }

    /// The samples of a link, if the simulation is [recorded](Simulation::record).
    pub fn link_series(&self, link: LinkId) -> &[LinkSample] {
        self.recorder.as_ref().map_or(&[], |recorder| &recorder.links[link.0 as usize])
    }

    /// Packets that have come over a link; a packet that crosses three links counts three times.
    pub fn hops(&self) -> u64 {
        self.network.hops
    }

    /// A fingerprint of the run: equal for equal runs. It covers behaviour: the data, ends, lengths and times of
    /// deliveries, and completions and failures. It does not cover the encoding of heads and messages, except their
    /// lengths.
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Bytes of memory that an endpoint says it takes.
    pub fn endpoint_memory_bytes(&self, endpoint: EndpointId) -> usize {
        self.seats[endpoint.0 as usize].endpoint.memory_bytes()
    }

    /// Approximate bytes of memory of the simulation, endpoints included; without packets in flight right now.
    pub fn memory_bytes(&self) -> usize {
        let buffer = |seat: &Seat| seat.send_buffer.as_ref().map_or(0, SendBuffer::memory_bytes);
        let of_seat = |seat: &Seat| size_of::<Seat>() + seat.endpoint.memory_bytes() + buffer(seat);
        let endpoints: usize = self.seats.iter().map(of_seat).sum();
        self.network.memory_bytes()
            + endpoints
            + self.addresses.capacity() * size_of::<(NodeId, SocketAddrV4)>()
            + self.hosts.iter().map(Host::memory_bytes).sum::<usize>()
            + self.transfers.iter().map(Running::memory_bytes).sum::<usize>()
            + self.ledger.memory_bytes()
            + self.recorder.as_ref().map_or(0, Recorder::memory_bytes)
    }
}

// --- Checks -----------------------------------------------------------------------------------------------------------

impl Simulation {
    fn node_of(&self, endpoint: EndpointId) -> Result<NodeId, SimError> {
        self.addresses.get(endpoint.0 as usize).map(|(node, _)| *node).ok_or(SimError::Unknown("an endpoint"))
    }

    fn running(&self, transfer: TransferId) -> Result<&Running, SimError> {
        self.transfers.get(transfer.0 as usize).ok_or(SimError::Unknown("a transfer"))
    }

    fn check_link(&self, link: LinkId) -> Result<(), SimError> {
        self.network.lines.get(link.0 as usize).map(|_| ()).ok_or(SimError::Unknown("a link"))
    }

    fn check_host(&self, node: NodeId) -> Result<(), SimError> {
        match self.topology.nodes.get(node.0 as usize) {
            None => Err(SimError::Unknown("a node")),
            Some(node) if matches!(node.kind, Kind::Router) => Err(SimError::NotAHost(node.name.clone())),
            Some(_) => Ok(()),
        }
    }

    fn check_route(&self, from: NodeId, to: NodeId) -> Result<(), SimError> {
        if self.network.reaches(&self.topology, from, to) {
            return Ok(());
        }
        let name = |node: NodeId| self.topology.nodes[node.0 as usize].name.clone();
        Err(SimError::NoRoute { from: name(from), to: name(to) })
    }

    fn check_ahead(&self, what: &'static str, at: Time) -> Result<(), SimError> {
        if at < self.now { Err(SimError::Past { what, at, now: self.now }) } else { Ok(()) }
    }

    pub(crate) fn refused(&self, (flow, error): (FlowId, CommandError)) -> SimError {
        SimError::Refused { at: self.now, flow, error }
    }
}

fn check(topology: &Topology) -> Result<(), TopologyError> {
    if topology.nodes.len() > NODES_MAX {
        return Err(TopologyError::TooLarge(topology.nodes.len()));
    }
    let mut names = BTreeSet::new();
    for node in &topology.nodes {
        if !names.insert(&node.name) {
            return Err(TopologyError::SameName { what: "node", name: node.name.clone() });
        }
        if let Kind::Host(spec) = &node.kind {
            spec.check().map_err(|reason| TopologyError::BadHost { host: node.name.clone(), reason })?;
        }
    }
    names.clear();
    for wire in &topology.wires {
        let link = || wire.name.clone();
        if !names.insert(&wire.name) {
            return Err(TopologyError::SameName { what: "link", name: link() });
        }
        if wire.from.0.max(wire.to.0) as usize >= topology.nodes.len() {
            return Err(TopologyError::UnknownNode { link: link() });
        }
        if wire.from == wire.to {
            return Err(TopologyError::Loop { link: link() });
        }
        wire.spec.check().map_err(|error| TopologyError::BadLink { link: link(), error })?;
    }
    Ok(())
}
