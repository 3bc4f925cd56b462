//! Where protocols are tried: senders on links of their own and one receiver behind one access link (gtp-2004 Figure
//! 3b), with loss, reordering and duplication on every sender's link, in both directions. Control streams share the
//! links, or have a network of their own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

pub mod chaos;
mod decorators;
mod fixed_rate;

use std::sync::Arc;

use inhaul_base::{Bitrate, Probability, RandomStream, Span, Time};
use inhaul_link::{LinkSpec, LossSpec, QueueLimit, ReorderingSpec};
use inhaul_protocols::registry::{self, PROTOCOLS};
use inhaul_sim::{
    Branch, Change, CompetingTask, EndpointId, HostNoise, HostSpec, NodeId, Simulation, Stall, Star, StarSpec,
    Topology, Transfer, TransferId, star,
};
use inhaul_transport::{Command, Endpoint, EndpointConfig, FlowLimits, FlowStats, ObjectId, Protocol, Role};

pub use decorators::{Aggregated, Forewarned, Nagged, Strangers};
pub use fixed_rate::FIXED_RATE;

/// Every registered protocol, and the protocol for tests.
pub fn protocols() -> impl Iterator<Item = &'static Protocol> {
    PROTOCOLS.iter().chain([&FIXED_RATE])
}

/// The protocol of that name.
fn find(name: &str) -> Option<&'static Protocol> {
    registry::find(name).or_else(|| protocols().find(|protocol| protocol.name == name))
}

/// Whether tests may take long, as those of `./test --all`.
pub fn is_long() -> bool {
    std::env::var_os("INHAUL_LONG_TESTS").is_some()
}

/// One MiB.
pub const MIB: u64 = 1 << 20;
/// The user's rate for protocols that send at a given rate; others find their rates.
pub const GIVEN_RATE: Bitrate = Bitrate::from_mbps(100);
/// Bytes of an object that no test finishes.
pub const ENDLESS: u64 = 1 << 40;

/// A sender and its path.
#[derive(Clone, Debug)]
pub struct SenderSpec {
    /// Name of the object that it has.
    pub object: u32,
    /// Size of the object, in bytes.
    pub size: u64,
    /// Round-trip time of the empty path.
    pub rtt: Span,
    /// Rate of the sender's own link.
    pub link: Bitrate,
    /// When its transfer starts.
    pub start: Span,
    /// R_send, as told to the sender.
    pub send_limit: Option<Bitrate>,
}

impl SenderSpec {
    /// A sender on a link of 1 Gbit/s that starts at once.
    pub fn new(object: u32, size: u64, rtt_ms: u64) -> Self {
        Self {
            object,
            size,
            rtt: Span::from_millis(rtt_ms),
            link: Bitrate::from_gbps(1),
            start: Span::ZERO,
            send_limit: None,
        }
    }

    /// The same, starting later.
    #[must_use]
    pub fn starting(self, millis: u64) -> Self {
        Self { start: Span::from_millis(millis), ..self }
    }

    /// The same on another link.
    #[must_use]
    pub fn link(self, link: Bitrate) -> Self {
        Self { link, ..self }
    }
}

/// A scene of one receiver and its senders.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The protocol's name in the registry.
    pub protocol: &'static str,
    /// The protocol's parameters, by name.
    pub parameters: Vec<(&'static str, &'static str)>,
    /// What everything random comes from.
    pub seed: u64,
    /// The senders; the transfer of sender `k` is flow `k`.
    pub senders: Vec<SenderSpec>,
    /// The rate of the receiver's access link.
    pub access: Bitrate,
    /// Bytes that wait for it at most.
    pub queue_bytes: u64,
    /// Whether control streams have a network of their own, with only the delays of the data's network.
    pub control_apart: bool,
    /// Chance of each packet to be lost on its sender's link, in both directions.
    pub loss: f64,
    /// Chance to arrive twice.
    pub duplication: f64,
    /// The same for packets that have passed the access link, in both directions: such copies use none of its rate and
    /// queue.
    pub access_duplication: f64,
    /// Chance to be late by [`Spec::reorder_by`].
    pub reordering: f64,
    /// By how much.
    pub reorder_by: Span,
    /// Largest IP packet that hosts believe in.
    pub mtu: u16,
    /// C_r, as told to the receiver.
    pub host_rate: Option<Bitrate>,
    /// Packets a second that each host can receive; packets that wait meanwhile come to the endpoint together.
    pub packet_rate: Option<f64>,
    /// Who else wants the receiver's processor, and how many packets wait there meanwhile at most.
    pub competitors: Option<(CompetingTask, usize)>,
    /// How late and unevenly each host runs.
    pub noise: Option<Arc<HostNoise>>,
    /// Whether the receiver leaves each sender when it has the object.
    pub leaves: bool,
    /// The decorator between the simulation and each endpoint.
    pub decorate: fn(Box<dyn Endpoint + Send>) -> Box<dyn Endpoint + Send>,
}

impl Spec {
    /// GTP on clean links, with an access link of 1 Gbit/s and a queue of 5 ms.
    pub fn new(senders: Vec<SenderSpec>) -> Self {
        let access = Bitrate::from_gbps(1);
        Self {
            protocol: "gtp",
            parameters: Vec::new(),
            seed: 1,
            senders,
            access,
            queue_bytes: access.bytes_in(Span::from_millis(5)),
            control_apart: false,
            loss: 0.0,
            duplication: 0.0,
            access_duplication: 0.0,
            reordering: 0.0,
            reorder_by: Span::from_millis(3),
            mtu: 1500,
            host_rate: None,
            packet_rate: None,
            competitors: None,
            noise: None,
            leaves: false,
            decorate: |endpoint| endpoint,
        }
    }

    /// The topology: delay, loss, reordering and duplication are on the senders' links, the queue is at the access
    /// link.
    fn star(&self) -> StarSpec {
        let chance = |p| Probability::new(p).expect("a probability");
        let branch = |sender: &SenderSpec| {
            let from_hub = LinkSpec {
                delay: sender.rtt / 2,
                loss: if self.loss > 0.0 { LossSpec::Random(chance(self.loss)) } else { LossSpec::None },
                reordering: ReorderingSpec { probability: chance(self.reordering), by: self.reorder_by },
                duplication: chance(self.duplication),
                ..LinkSpec::ideal()
            };
            let to_hub = LinkSpec { rate: Some(sender.link), ..from_hub.clone() };
            Branch { host: self.host(), to_hub, from_hub }
        };
        let access = LinkSpec {
            duplication: chance(self.access_duplication),
            ..LinkSpec::drop_tail(self.access, Span::ZERO, QueueLimit::Bytes(self.queue_bytes))
        };
        let to_hub = LinkSpec { duplication: access.duplication, ..LinkSpec::ideal() };
        let mut receiver = Branch { host: self.host(), to_hub, from_hub: access };
        if let Some((task, ring_packets)) = self.competitors {
            (receiver.host.tasks, receiver.host.ring_packets) = (vec![task], ring_packets);
        }
        StarSpec { senders: self.senders.iter().map(branch).collect(), receiver }
    }

    fn host(&self) -> HostSpec {
        HostSpec { packet_rate: self.packet_rate, noise: self.noise.clone(), ..HostSpec::default() }
    }

    /// Adds a host for control beside each, all senders' linked to the receiver's.
    fn control_network(&self, topology: &mut Topology) -> (Vec<NodeId>, NodeId) {
        let receiver = topology.host("receiver-control", HostSpec::default());
        let beside = |(k, sender): (usize, &SenderSpec)| {
            let name = format!("s{k}-control");
            let host = topology.host(&name, HostSpec::default());
            let link = LinkSpec { delay: sender.rtt / 2, ..LinkSpec::ideal() };
            topology.duplex(&name, host, receiver, link.clone(), link);
            host
        };
        (self.senders.iter().enumerate().map(beside).collect(), receiver)
    }
}

/// A scene while it runs.
pub struct Scene {
    /// The simulation, for operations that the scene does not offer.
    pub sim: Simulation,
    /// The parts of the topology.
    pub star: Star,
    /// The receiving endpoint.
    pub receiver: EndpointId,
    /// Transfer of each sender.
    pub transfers: Vec<TransferId>,
    /// The most that any endpoint's memory has been, in bytes, looked at before every event of [`Scene::run`].
    pub memory_max: usize,
    endpoints: Vec<EndpointId>,
    objects: Vec<u32>,
}

impl Scene {
    /// Sets the scene.
    ///
    /// # Panics
    /// When the protocol is not registered or the scene makes no sense.
    pub fn new(spec: &Spec) -> Self {
        let protocol = find(spec.protocol).expect("registered");
        let (mut topology, star) = star(&spec.star());
        let control = spec.control_apart.then(|| spec.control_network(&mut topology));
        let mut sim = Simulation::new(topology, spec.seed).unwrap();
        let build = |role, host_rate| {
            let mut config = EndpointConfig::new(role, spec.seed);
            config.host_rate = host_rate;
            config.flow_rate = Some(GIVEN_RATE);
            config.parameters = spec.parameters.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            (spec.decorate)((protocol.build)(&config).expect("legal"))
        };
        let receiver = sim.endpoint(star.receiver, build(Role::Receiver, spec.host_rate)).unwrap();
        let mut endpoints = vec![receiver];
        let mut transfers = Vec::new();
        for (k, of) in spec.senders.iter().enumerate() {
            let sender = sim.endpoint(star.senders[k], build(Role::Sender, of.send_limit)).unwrap();
            endpoints.push(sender);
            let transfer = Transfer {
                name: format!("flow {k}"),
                sender,
                receiver,
                object: ObjectId(of.object),
                size: of.size,
                start: Time::ZERO + of.start,
                stop: None,
                leaves: spec.leaves,
                mtu: spec.mtu,
                limits: FlowLimits::default(),
            };
            let transfer = sim.transfer(transfer).unwrap();
            if let Some((senders, receiver)) = &control {
                sim.control_between(transfer, senders[k], *receiver).unwrap();
            }
            transfers.push(transfer);
        }
        let objects = spec.senders.iter().map(|sender| sender.object).collect();
        Self { sim, star, receiver, transfers, memory_max: 0, endpoints, objects }
    }

    /// What time it is, since the beginning.
    pub fn now(&self) -> Span {
        self.sim.now().since(Time::ZERO)
    }

    /// Runs until every object is complete or `limit` is reached; returns whether all are.
    ///
    /// # Panics
    /// When an endpoint places a byte wrongly or twice, as everything here that lets time pass.
    pub fn run(&mut self, limit: Span) -> bool {
        let Self { sim, transfers, endpoints, memory_max, .. } = self;
        let done = |sim: &Simulation| transfers.iter().all(|transfer| sim.is_complete(*transfer));
        let goes_on = |sim: &Simulation| {
            let memory = endpoints.iter().map(|endpoint| sim.endpoint_memory_bytes(*endpoint)).max();
            *memory_max = memory.unwrap_or(0).max(*memory_max);
            !done(sim)
        };
        sim.run_while(Time::ZERO + limit, goes_on).unwrap();
        done(sim)
    }

    /// Runs until `until`.
    pub fn run_to(&mut self, until: Span) {
        self.sim.run_until(Time::ZERO + until).unwrap();
    }

    /// Commands the receiver.
    pub fn command(&mut self, command: Command) {
        self.sim.command(self.receiver, command).unwrap();
    }

    /// The access link's rate changes.
    pub fn set_access(&mut self, rate: Bitrate) {
        self.sim.at(self.sim.now(), Change::LinkRate(self.star.access.0, Some(rate))).unwrap();
    }

    /// From now on the access link takes no packets of more than `mtu` bytes: a router before it drops them without a
    /// word.
    pub fn set_mtu(&mut self, mtu: Option<u32>) {
        self.sim.at(self.sim.now(), Change::LinkMtu(self.star.access.0, mtu)).unwrap();
    }

    /// The sender falls silent: nothing leaves it, nothing reaches it. With `noticed`, the receiver's end of its
    /// control stream breaks as well.
    pub fn kill(&mut self, sender: usize, noticed: bool) {
        let (there, back) = self.star.paths[sender];
        for link in [there, back] {
            self.sim.at(self.sim.now(), Change::LinkDown(link)).unwrap();
        }
        if noticed {
            self.command(Command::Disconnect { flow: self.sim.flow_of(self.transfers[sender]) });
        }
    }

    /// The receiver's statistics of a flow.
    pub fn stats(&self, flow: usize) -> FlowStats {
        self.sim.stats(self.transfers[flow])
    }

    /// Bytes that each flow has placed.
    pub fn placed_by(&self) -> Vec<u64> {
        self.transfers.iter().map(|transfer| self.sim.placed_bytes(*transfer)).collect()
    }

    /// The transfer, any, of an object.
    fn of_object(&self, object: u32) -> TransferId {
        let flow = self.objects.iter().position(|of| *of == object).expect("an object of the scene");
        self.transfers[flow]
    }

    /// Bytes of an object that are in place.
    pub fn placed(&self, object: u32) -> u64 {
        self.sim.object_bytes(self.of_object(object))
    }

    /// When an object was complete, since the beginning.
    pub fn complete(&self, object: u32) -> Option<Span> {
        self.sim.completed_at(self.of_object(object)).map(|at| at.since(Time::ZERO))
    }

    /// The receiver's errors of failed flows.
    pub fn failed(&self) -> Vec<String> {
        let said = self.sim.failures().iter().filter(|failure| failure.endpoint == self.receiver);
        said.map(|failure| failure.error.to_string()).collect()
    }

    /// Goodput of each flow between two times in milliseconds, in Mbit/s.
    pub fn goodputs(&mut self, from: u64, to: u64) -> Vec<f64> {
        self.run_to(Span::from_millis(from));
        let before = self.placed_by();
        self.run_to(Span::from_millis(to));
        let mbit = |bytes: u64| bytes as f64 * 8.0 / ((to - from) as f64 * 1e3);
        self.placed_by().iter().zip(before).map(|(after, before)| mbit(after - before)).collect()
    }

    /// Part of all data packets so far that was lost, by the receiver's count.
    pub fn loss_ratio(&self) -> f64 {
        let stats: Vec<_> = (0..self.transfers.len()).map(|k| self.stats(k)).collect();
        let lost: u64 = stats.iter().map(|s| s.lost_packets).sum();
        let all: u64 = stats.iter().map(|s| s.lost_packets + s.received_packets).sum();
        lost as f64 / all as f64
    }
}

/// Jain's fairness index (gtp-2004 5.1.1).
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    sum * sum / (rates.len() as f64 * rates.iter().map(|r| r * r).sum::<f64>())
}

/// A host that is late by a fraction of a millisecond as a rule, and by much more now and then; it is drawn by
/// `random`.
pub fn noise(random: &mut RandomStream) -> HostNoise {
    let mut late = |usual: u64, rare: u64| -> Vec<Span> {
        let mut draw = || {
            let most = if random.below(50) == 0 { rare } else { usual };
            random.span_below(Span::from_micros(most))
        };
        (0..997).map(|_| draw()).collect()
    };
    let (wake_late, read_late, stalls) = (late(200, 8_000), late(200, 8_000), late(500, 30_000));
    let stall = |length| Stall { after: Span::from_micros(1) + random.span_below(Span::from_millis(300)), length };
    let stalls = stalls.into_iter().map(stall).collect();
    let aggregates = (0..101).map(|_| 1 + random.below(64) as u16).collect();
    HostNoise { wake_late, read_late, stalls, aggregates, socket_bytes: Some(208 * 1024) }
}
