//! Makes the simulator's topology from that of a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use inhaul_base::{Bitrate, Probability, Span, Time};
use inhaul_link::{
    CoDelSpec, Discipline, GilbertElliottSpec, LinkSpec, LossSpec, QueueLimit, QueueSpec, RedSpec, ReorderingSpec,
};
use inhaul_sim::{CompetingTask, HostNoise, HostSpec, NodeId, Spell, Topology};
use serde_spanned::Spanned;

use super::error::Refusal;
use super::file::{DumbbellFile, GraphFile, HostFile, LinkFields, ParkingLotFile, ScenarioFile, StarFile};
use super::schedulers;
use super::units::{Duration, QueueLength};
use crate::host_trace;

/// Most hosts of a scenario.
const HOSTS_MAX: usize = 20_000;
/// The default limit of the queue at a link with a rate, as time at that rate. gtp-2004 prints no queue sizes. All its
/// experiments here use this one.
const QUEUE_DEFAULT: Span = Span::from_millis(5);

/// A network and the names in it.
pub(crate) struct Network {
    pub(crate) topology: Topology,
    /// Hosts by name, in the order of their names.
    pub(crate) hosts: BTreeMap<String, NodeId>,
}

/// Builds the network of the file.
pub(crate) fn build(file: &ScenarioFile) -> Result<Network, Refusal> {
    let noise = file.noise.as_ref().map_or(Ok(None), noise_of)?;
    let mut builder = Builder {
        network: Network { topology: Topology::new(), hosts: BTreeMap::new() },
        specs: host_specs(&file.hosts, noise.as_ref())?,
        other: HostSpec { noise, ..HostSpec::default() },
    };
    let kinds = file.topology.get_ref();
    match (&kinds.star, &kinds.dumbbell, &kinds.parking_lot, &kinds.graph) {
        (Some(star), None, None, None) => builder.star(star)?,
        (None, Some(dumbbell), None, None) => builder.dumbbell(dumbbell)?,
        (None, None, Some(lot), None) => builder.parking_lot(lot)?,
        (None, None, None, Some(graph)) => builder.graph(graph)?,
        _ => {
            let message = "a scenario has exactly one of topology.star, topology.dumbbell, topology.parking-lot and topology.graph";
            return Err(Refusal::at(file.topology.span(), message));
        }
    }
    if let Some(host) = file.hosts.iter().find(|host| !builder.network.hosts.contains_key(host.name.get_ref())) {
        return Err(unknown_host(&builder.network.hosts, &host.name));
    }
    Ok(builder.network)
}

/// A host is named that is not there.
pub(crate) fn unknown_host(hosts: &BTreeMap<String, NodeId>, name: &Spanned<String>) -> Refusal {
    let some: Vec<&str> = hosts.keys().take(8).map(String::as_str).collect();
    let more = if hosts.len() > some.len() { ", ..." } else { "" };
    Refusal::at(name.span(), format!("there is no host '{}'; there are: {}{more}", name.get_ref(), some.join(", ")))
}

struct Builder {
    network: Network,
    specs: BTreeMap<String, HostSpec>,
    /// Hosts without properties of their own.
    other: HostSpec,
}

impl Builder {
    fn host(&mut self, name: &str, said_at: &Spanned<String>) -> Result<NodeId, Refusal> {
        if name.is_empty() || self.network.hosts.contains_key(name) {
            return Err(Refusal::at(
                said_at.span(),
                format!("'{name}' cannot name a host: a name is not empty and not used twice"),
            ));
        }
        if self.network.hosts.len() == HOSTS_MAX {
            return Err(Refusal::at(said_at.span(), format!("that makes more than {HOSTS_MAX} hosts")));
        }
        let spec = self.specs.get(name).unwrap_or(&self.other).clone();
        let id = self.network.topology.host(name, spec);
        self.network.hosts.insert(name.to_owned(), id);
        Ok(id)
    }

    fn star(&mut self, star: &StarFile) -> Result<(), Refusal> {
        let access = star.access.spec(Span::ZERO)?;
        let place = star.senders.first().map_or(0..0, |branch| branch.name.span());
        let receiver = self.host(&star.receiver, &Spanned::new(place, star.receiver.clone()))?;
        let switch = self.network.topology.router("switch");
        let access_delay = access.delay;
        self.network.topology.duplex("access", switch, receiver, access.clone(), way_back(&access));
        for branch in &star.senders {
            let all = numbered(&branch.name, branch.count.as_ref())?;
            let delays = side_delays(&branch.rtt, branch.rtt_max.as_ref(), all.len(), access_delay, 1)?;
            for (name, delay) in all.iter().zip(delays) {
                let sender = self.host(name, &branch.name)?;
                let link = branch.link.spec(delay)?;
                self.network.topology.duplex(&format!("{name}-link"), sender, switch, link.clone(), way_back(&link));
            }
        }
        Ok(())
    }

    fn dumbbell(&mut self, dumbbell: &DumbbellFile) -> Result<(), Refusal> {
        let bottleneck = dumbbell.bottleneck.spec(Span::ZERO)?;
        let (left, right) = (self.network.topology.router("left"), self.network.topology.router("right"));
        self.network.topology.duplex("bottleneck", left, right, bottleneck.clone(), way_back(&bottleneck));
        for pair in &dumbbell.pairs {
            let senders = numbered(&pair.sender, pair.count.as_ref())?;
            let receivers = numbered(&pair.receiver, pair.count.as_ref())?;
            let delays = side_delays(&pair.rtt, pair.rtt_max.as_ref(), senders.len(), bottleneck.delay, 2)?;
            for ((sender, receiver), delay) in senders.iter().zip(&receivers).zip(delays) {
                let (from, to) = (self.host(sender, &pair.sender)?, self.host(receiver, &pair.receiver)?);
                let link = pair.link.spec(delay)?;
                self.network.topology.duplex(&format!("{sender}-link"), from, left, link.clone(), way_back(&link));
                self.network.topology.duplex(&format!("{receiver}-link"), right, to, link.clone(), way_back(&link));
            }
        }
        Ok(())
    }

    fn parking_lot(&mut self, lot: &ParkingLotFile) -> Result<(), Refusal> {
        if lot.hops.is_empty() || lot.hops.len() > 100 {
            return Err(Refusal::general("a parking lot has from 1 to 100 hops"));
        }
        let routers: Vec<NodeId> =
            (0..=lot.hops.len()).map(|k| self.network.topology.router(format!("r{k}"))).collect();
        for (k, hop) in lot.hops.iter().enumerate() {
            let spec = hop.spec(Span::ZERO)?;
            let name = format!("hop{}", k + 1);
            self.network.topology.duplex(&name, routers[k], routers[k + 1], spec.clone(), way_back(&spec));
        }
        let access = lot.access.spec(Span::ZERO)?;
        let crosses = (1..=lot.hops.len()).map(|k| (format!("cross{k}"), k - 1, k));
        let paths = std::iter::once(("long".to_owned(), 0, lot.hops.len())).chain(crosses);
        for (name, first, last) in paths {
            for (end, router) in [("sender", first), ("receiver", last)] {
                let host = format!("{name}-{end}");
                let id = self.host(&host, &Spanned::new(0..0, host.clone()))?;
                let link = format!("{host}-link");
                let (from, to) = if end == "sender" { (id, routers[router]) } else { (routers[router], id) };
                self.network.topology.duplex(&link, from, to, access.clone(), way_back(&access));
            }
        }
        Ok(())
    }

    fn graph(&mut self, graph: &GraphFile) -> Result<(), Refusal> {
        let mut nodes: BTreeMap<String, NodeId> = BTreeMap::new();
        for host in &graph.hosts {
            nodes.insert(host.get_ref().clone(), self.host(host.get_ref(), host)?);
        }
        for router in &graph.routers {
            if nodes.contains_key(router.get_ref()) {
                return Err(Refusal::at(router.span(), format!("the name '{}' is used twice", router.get_ref())));
            }
            nodes.insert(router.get_ref().clone(), self.network.topology.router(router.get_ref()));
        }
        let node = |name: &Spanned<String>| {
            let unknown = || Refusal::at(name.span(), format!("there is no host or router '{}'", name.get_ref()));
            nodes.get(name.get_ref()).copied().ok_or_else(unknown)
        };
        for link in &graph.links {
            let (from, to) = (node(&link.from)?, node(&link.to)?);
            let name = link.name.get_ref();
            let taken = |name: &str| self.network.topology.find_link(name).is_some();
            if taken(name) || taken(&format!("{name}-back")) {
                return Err(Refusal::at(link.name.span(), format!("the name '{name}' is used twice")));
            }
            if from == to {
                return Err(Refusal::at(link.to.span(), format!("the link '{name}' ends where it starts")));
            }
            let there = link.link.spec(Span::ZERO)?;
            if link.one_way {
                self.network.topology.link(name, from, to, there);
            } else {
                let back = link.back.as_ref().map(|back| back.spec(Span::ZERO)).transpose()?;
                let back = back.unwrap_or_else(|| way_back(&there));
                self.network.topology.duplex(name, from, to, there, back);
            }
        }
        Ok(())
    }
}

/// The default other direction of a link: the same rate and delay, and no loss on the wire.
fn way_back(there: &LinkSpec) -> LinkSpec {
    LinkSpec { rate: there.rate, delay: there.delay, queue: there.queue, ..LinkSpec::ideal() }
}

/// `s*` and 3 give s1, s2, s3; without a count there is one, as it stands.
pub(crate) fn numbered(name: &Spanned<String>, count: Option<&Spanned<u32>>) -> Result<Vec<String>, Refusal> {
    let text = name.get_ref();
    let Some(count) = count else {
        if text.contains('*') {
            return Err(Refusal::at(name.span(), format!("'{text}' names many: add `count`")));
        }
        return Ok(vec![text.clone()]);
    };
    let number = *count.get_ref();
    if number == 0 || number as usize > HOSTS_MAX {
        return Err(Refusal::at(count.span(), format!("`count` is from 1 to {HOSTS_MAX}")));
    }
    if !text.contains('*') {
        return Err(Refusal::at(
            name.span(),
            format!("with `count` a name needs a `*` where the number goes: \"{text}*\""),
        ));
    }
    Ok((1..=number).map(|k| text.replace('*', &k.to_string())).collect())
}

/// The delay of the links at the side, so that each path has its round-trip time: `sides` such links and the shared
/// one, both ways.
fn side_delays(
    rtt: &Spanned<Duration>,
    rtt_max: Option<&Spanned<Duration>>,
    count: usize,
    shared: Span,
    sides: u64,
) -> Result<Vec<Span>, Refusal> {
    let first = rtt.get_ref().0;
    let last = rtt_max.map_or(first, |rtt| rtt.get_ref().0);
    let least = shared * 2;
    if first < least || last < first {
        let place = if first < least { rtt.span() } else { rtt_max.map_or(rtt.span(), Spanned::span) };
        let message = format!(
            "a round-trip time here is at least {least}, that of the shared link, and rtt_max is not below rtt"
        );
        return Err(Refusal::at(place, message));
    }
    let step = |k: usize| {
        let part = if count > 1 { k as f64 / (count - 1) as f64 } else { 0.0 };
        first + last.saturating_sub(first).mul_f64(part)
    };
    Ok((0..count).map(|k| step(k).saturating_sub(least) / (2 * sides)).collect())
}

impl LinkFields {
    /// The simulator's link, with `more` delay than the fields say.
    fn spec(&self, more: Span) -> Result<LinkSpec, Refusal> {
        let rate = self.rate.map(|rate| rate.0);
        let loss = self.loss_spec()?;
        let spec = LinkSpec {
            rate,
            delay: self.delay.unwrap_or_default().0 + more,
            jitter: self.jitter.unwrap_or_default().0,
            jitter_reorders: self.jitter_reorders,
            queue: QueueSpec { limit: self.queue_limit(rate)?, discipline: self.discipline()?, marks: self.marks()? },
            loss,
            reordering: self.reordering.map_or(ReorderingSpec::NONE, |held_back| ReorderingSpec {
                probability: held_back.probability.0,
                by: held_back.by.0,
            }),
            marking: self.marking.map_or(Probability::ZERO, |share| share.0),
            duplication: self.duplication.map_or(Probability::ZERO, |share| share.0),
        };
        let place = self.red.as_ref().map(Spanned::span).or_else(|| self.codel.as_ref().map(Spanned::span));
        spec.check().map_err(|error| Refusal { span: place, message: error.to_string() })?;
        Ok(spec)
    }

    fn queue_limit(&self, rate: Option<Bitrate>) -> Result<QueueLimit, Refusal> {
        let of_time = |rate: Bitrate, span| QueueLimit::Bytes(rate.bytes_in(span).max(1));
        let Some(queue) = &self.queue else {
            return Ok(rate.map_or(QueueLimit::Unlimited, |rate| of_time(rate, QUEUE_DEFAULT)));
        };
        match (*queue.get_ref(), rate) {
            (QueueLength::Unlimited, _) => Ok(QueueLimit::Unlimited),
            (QueueLength::Bytes(bytes), _) => Ok(QueueLimit::Bytes(bytes)),
            (QueueLength::Packets(packets), _) => Ok(QueueLimit::Packets(packets)),
            (QueueLength::Time(span), Some(rate)) => Ok(of_time(rate, span)),
            (QueueLength::Time(_), None) => Err(Refusal::at(
                queue.span(),
                "a queue as time needs the link's `rate`; write bytes or packets, or add a rate",
            )),
        }
    }

    fn discipline(&self) -> Result<Discipline, Refusal> {
        match (&self.red, &self.codel) {
            (None, None) => Ok(Discipline::DropTail),
            (Some(_), Some(codel)) => Err(Refusal::at(codel.span(), "a queue has either `red` or `codel`")),
            (Some(red), None) => {
                let red = red.get_ref();
                Ok(Discipline::Red(RedSpec {
                    min_threshold: red.min,
                    max_threshold: red.max,
                    max_probability: red.probability.0,
                    weight: red.weight,
                    mean_packet: red.mean_packet,
                }))
            }
            (None, Some(codel)) => {
                let codel = codel.get_ref();
                Ok(Discipline::CoDel(CoDelSpec {
                    target: codel.target.map_or(CoDelSpec::RFC_8289.target, |target| target.0),
                    interval: codel.interval.map_or(CoDelSpec::RFC_8289.interval, |interval| interval.0),
                }))
            }
        }
    }

    fn marks(&self) -> Result<bool, Refusal> {
        match &self.ecn {
            Some(ecn) if *ecn.get_ref() && self.red.is_none() && self.codel.is_none() => {
                Err(Refusal::at(ecn.span(), "`ecn` marks what `red` or `codel` would drop; add one of them"))
            }
            ecn => Ok(ecn.as_ref().is_some_and(|ecn| *ecn.get_ref())),
        }
    }

    fn loss_spec(&self) -> Result<LossSpec, Refusal> {
        match (&self.loss, &self.burst_loss, &self.lose_packets) {
            (None, None, None) => Ok(LossSpec::None),
            (Some(share), None, None) => Ok(LossSpec::Random(share.0)),
            (None, Some(bursts), None) => {
                let bursts = bursts.get_ref();
                Ok(LossSpec::GilbertElliott(GilbertElliottSpec {
                    to_bad: bursts.to_bad.0,
                    to_good: bursts.to_good.0,
                    loss_in_good: bursts.loss_in_good.map_or(Probability::ZERO, |share| share.0),
                    loss_in_bad: bursts.loss_in_bad.0,
                }))
            }
            (None, None, Some(numbers)) => Ok(LossSpec::Scripted(numbers.get_ref().clone())),
            (_, bursts, numbers) => {
                let span = bursts.as_ref().map(Spanned::span).or_else(|| numbers.as_ref().map(Spanned::span));
                Err(Refusal {
                    span,
                    message: "a link has only one of `loss`, `burst_loss` and `lose_packets`".to_owned(),
                })
            }
        }
    }
}

/// The record replayed by hosts with `noise = "NAME"`.
fn noise_of(name: &Spanned<String>) -> Result<Option<Arc<HostNoise>>, Refusal> {
    if name.get_ref() == "none" {
        return Ok(None);
    }
    let found = host_trace::find(name.get_ref());
    found.map(|trace| Some(Arc::new(trace.noise()))).map_err(|error| Refusal::at(name.span(), error.to_string()))
}

fn host_specs(hosts: &[HostFile], noise: Option<&Arc<HostNoise>>) -> Result<BTreeMap<String, HostSpec>, Refusal> {
    let mut specs = BTreeMap::new();
    for host in hosts {
        // A host with a scheduler says itself when its process runs late.
        let noise = noise.filter(|_| host.scheduler.is_none());
        let mut spec = HostSpec { noise: noise.cloned(), ..HostSpec::default() };
        if let Some(name) = &host.noise {
            spec.noise = noise_of(name)?;
        }
        if let Some(rate) = &host.packet_rate {
            if !(1.0..=1e12).contains(rate.get_ref()) {
                return Err(Refusal::at(rate.span(), "`packet_rate` is in packets a second, from 1 on"));
            }
            spec.packet_rate = Some(*rate.get_ref());
        }
        if let Some(ring) = &host.ring {
            if !(1..=10_000_000).contains(ring.get_ref()) {
                return Err(Refusal::at(ring.span(), "`ring` is in packets, from 1 to 10000000"));
            }
            spec.ring_packets = *ring.get_ref();
        }
        spec.send_buffer = host.send_buffer.map(|size| size.0);
        for task in &host.tasks {
            if task.on.0 + task.off.0 < Span::from_micros(1) {
                return Err(Refusal::at(
                    host.name.span(),
                    "a task's `on` and `off` last a microsecond together at least",
                ));
            }
            let spell = |span| if task.random { Spell::Exponential(span) } else { Spell::Fixed(span) };
            spec.tasks.push(CompetingTask {
                share: task.share.0.get(),
                on: spell(task.on.0),
                off: spell(task.off.0),
                start: Time::ZERO + task.start.unwrap_or_default().0,
            });
        }
        if let Some(scheduler) = &host.scheduler {
            if spec.noise.is_some() || !host.tasks.is_empty() {
                let message = "a host with a `scheduler` has neither `noise` nor `tasks` beside it: write tasks into the \
                               scheduler";
                return Err(Refusal::at(scheduler.span(), message));
            }
            let built = schedulers::build(scheduler.get_ref());
            let built = built.and_then(|built| built.check().map(|()| built).map_err(str::to_owned));
            spec.scheduler = Some(Arc::new(built.map_err(|message| Refusal::at(scheduler.span(), message))?));
        }
        if specs.insert(host.name.get_ref().clone(), spec).is_some() {
            return Err(Refusal::at(host.name.span(), format!("host '{}' is described twice", host.name.get_ref())));
        }
    }
    Ok(specs)
}
