//! A plan in the simulator: the network is built, time passes, and the record is returned.

use std::fs::File;
use std::io::BufWriter;
use std::ops::{ControlFlow, Deref};

use inhaul_base::{Bitrate, RandomStream, Span, Time};
use inhaul_protocols::laws::MakeLaw;
use inhaul_protocols::registry;
use inhaul_protocols::tcp;
use inhaul_sim::{Change, EndpointId, LinkId, RecorderSpec, SimError, Simulation, Transfer, TransferId};
use inhaul_transport::{Command, EndpointConfig, FlowLimits, ObjectId, Role};

use crate::outcome::{FlowOutcome, LinkOutcome, Outcome};
use crate::random_streams::{ENDPOINT_STREAMS, WEB_STREAMS};
use crate::result::TRACE_FORM;
use crate::scenario::{Plan, WhatChanges};
use crate::web;

/// How often a run says how far it is.
const PROGRESS_STEPS: u64 = 200;
/// Most events before it is asked whether the run goes on.
const EVENTS: u32 = 1 << 16;

/// Interval of measurements of the hosts' own TCP: the same as on real hosts.
const TCP_LOOKS: Span = Span::from_millis(250);

/// A plan in the simulator.
pub(crate) struct Simulated<P> {
    pub(crate) plan: P,
    pub(crate) simulation: Simulation,
    /// By flow of the plan.
    pub(crate) transfers: Vec<TransferId>,
}

impl<P: Deref<Target = Plan>> Simulated<P> {
    /// Everything in its place, at time zero. Flows have the laws that `laws` builds, where it is given.
    pub(crate) fn new(plan: P, seed: u64, laws: Option<&MakeLaw>) -> Result<Self, String> {
        let mut simulation = Simulation::new(plan.topology.clone(), seed).map_err(|error| error.to_string())?;
        simulation.set_sealed(plan.sealed);
        let mut run = Self { plan, simulation, transfers: Vec::new() };
        let endpoints = run.endpoints(seed, laws)?;
        run.traffic(seed, &endpoints).map_err(|error| error.to_string())?;
        if run.plan.host_tcp {
            let all = run.plan.endpoints.iter().zip(&endpoints);
            let kernel = all.filter(|(plan, _)| !plan.sends && tcp::is_of_family(plan.protocol)).map(|(_, id)| *id);
            run.simulation.watch_tcp(kernel.collect(), TCP_LOOKS).map_err(|error| error.to_string())?;
        }
        for (link, path) in &run.plan.captures {
            let file = File::create(path).map_err(|error| format!("{path}: {error}"))?;
            run.simulation.capture(*link, Box::new(BufWriter::new(file))).map_err(|error| error.to_string())?;
        }
        Ok(run)
    }

    fn endpoints(&mut self, seed: u64, laws: Option<&MakeLaw>) -> Result<Vec<EndpointId>, String> {
        let mut ids = Vec::with_capacity(self.plan.endpoints.len());
        for (stream, endpoint) in (0u64..).zip(&self.plan.endpoints) {
            let role = if endpoint.sends { Role::Sender } else { Role::Receiver };
            let own = EndpointConfig::new(role, 0).socket_buffer_bytes;
            let noise = self.plan.topology.host_spec(endpoint.host).and_then(|host| host.noise.as_ref());
            let config = EndpointConfig {
                socket_buffer_bytes: noise.and_then(|noise| noise.socket_bytes).unwrap_or(own),
                host_rate: endpoint.host_rate,
                parameters: endpoint.parameters.clone(),
                ..EndpointConfig::new(role, RandomStream::new(seed, ENDPOINT_STREAMS + stream).next_u64())
            };
            let protocol = registry::find(endpoint.protocol).ok_or("the protocol is not registered")?;
            let build = || (protocol.build)(&config);
            let with_laws =
                laws.filter(|_| endpoint.sends).and_then(|laws| tcp::sender_with_laws(protocol.name, &config, laws));
            let built = with_laws.unwrap_or_else(build).map_err(|error| error.to_string())?;
            ids.push(self.simulation.endpoint(endpoint.host, built).map_err(|error| error.to_string())?);
        }
        Ok(ids)
    }

    fn traffic(&mut self, seed: u64, endpoints: &[EndpointId]) -> Result<(), SimError> {
        for flow in &self.plan.flows {
            let transfer = Transfer {
                name: flow.name.clone(),
                sender: endpoints[flow.sender],
                receiver: endpoints[flow.receiver],
                object: ObjectId(flow.object),
                size: flow.size,
                start: flow.start,
                stop: flow.stop,
                leaves: true,
                mtu: flow.mtu,
                limits: flow.limits,
            };
            self.transfers.push(self.simulation.transfer(transfer)?);
        }
        // Objects of flows have the flows' numbers; these come after them.
        let mut object = self.plan.flows.len() as u32;
        for (stream, web) in (0u64..).zip(&self.plan.web) {
            for transfer in web::transfers(web, &mut RandomStream::new(seed, WEB_STREAMS + stream)) {
                self.simulation.transfer(Transfer {
                    name: format!("{}-{object}", web.name),
                    sender: endpoints[web.sender],
                    receiver: endpoints[web.receiver],
                    object: ObjectId(object),
                    size: transfer.size,
                    start: transfer.start,
                    stop: None,
                    leaves: true,
                    mtu: web.mtu,
                    limits: FlowLimits::default(),
                })?;
                object += 1;
            }
        }
        for udp in &self.plan.udp {
            self.simulation.background_udp(udp.traffic)?;
        }
        for change in &self.plan.changes {
            let happens = match change.what {
                WhatChanges::LinkRate(link, rate) => Change::LinkRate(link, Some(rate)),
                WhatChanges::LinkUp(link, true) => Change::LinkUp(link),
                WhatChanges::LinkUp(link, false) => Change::LinkDown(link),
                WhatChanges::SendRate(at, rate) => Change::Command(endpoints[at], Command::LimitSend(Some(rate))),
                WhatChanges::ReceiveRate(at, rate) => Change::Command(endpoints[at], Command::LimitReceive(Some(rate))),
                WhatChanges::Policy(at, policy) => Change::Command(endpoints[at], Command::SetPolicy(policy)),
            };
            self.simulation.at(change.at, happens)?;
        }
        self.simulation.record(RecorderSpec { interval: self.plan.record })
    }

    /// Lets the rest of the time pass. `advanced` is called after each stretch, and may end it early.
    pub(crate) fn simulate(&mut self, mut advanced: impl FnMut(Span) -> ControlFlow<()>) -> Result<(), SimError> {
        let end = self.plan.end;
        while self.simulation.now() < end {
            let (from, to) = (self.simulation.now(), self.next_look());
            // When everything that was to come has come, the rest of the time passes without being looked at.
            if self.is_over() {
                let _ = advanced(end.since(from));
                break;
            }
            if self.run_until(to, &mut advanced)?.is_break() || advanced(to.since(from)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// A stretch of time. Now and then `advanced` is asked whether the run goes on.
    fn run_until(
        &mut self,
        to: Time,
        advanced: &mut impl FnMut(Span) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SimError> {
        loop {
            let (mut left, mut is_cut) = (EVENTS, false);
            self.simulation.run_while(to, |_| {
                is_cut = left == 0;
                left = left.saturating_sub(1);
                !is_cut
            })?;
            if !is_cut || advanced(Span::ZERO).is_break() {
                return Ok(if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
            }
        }
    }

    /// When it is looked next whether the run is over.
    pub(crate) fn next_look(&self) -> Time {
        let step = Span::from_nanos((self.plan.end.as_nanos() / PROGRESS_STEPS).max(1));
        (self.simulation.now() + step).min(self.plan.end)
    }

    /// Whether every flow has a size of its own and is complete.
    pub(crate) fn is_over(&self) -> bool {
        let flows = self.plan.flows.iter().zip(&self.transfers);
        flows.into_iter().all(|(flow, transfer)| !flow.endless && self.simulation.is_complete(*transfer))
    }

    /// Its result until now.
    pub(crate) fn outcome(&mut self) -> Outcome {
        let simulation = &mut self.simulation;
        let links: Vec<(LinkId, String)> =
            self.plan.topology.links().map(|(id, name, ..)| (id, name.to_owned())).collect();
        let rate = |id: LinkId| self.plan.topology.link_spec(id).and_then(|spec| spec.rate).map(Bitrate::bps);
        let mut seen = Vec::new();
        for (id, name) in links {
            let stats = simulation.link_stats(id);
            if stats.offered.packets > 0 {
                let series = simulation.link_series(id).iter().map(|sample| (sample.at, sample.carried_bytes));
                seen.push(LinkOutcome {
                    name,
                    rate_bps: rate(id),
                    carried_bytes: stats.carried.bytes,
                    offered_packets: stats.offered.packets,
                    dropped_packets: stats.dropped().packets,
                    queue_bytes_max: stats.queue_bytes_max,
                    series: series.collect(),
                });
            }
        }
        Outcome {
            backend: "sim",
            ended: simulation.now(),
            flows: (0..).zip(&self.transfers).map(|(k, id)| self.flow(k, *id)).collect(),
            links: seen,
            packet_hops: self.simulation.hops(),
            trace: format!("{TRACE_FORM}{:016x}", self.simulation.trace()),
            cpu_s: None,
        }
    }

    fn flow(&self, k: usize, id: TransferId) -> FlowOutcome {
        let simulation = &self.simulation;
        let (stats, series) = (simulation.stats(id), simulation.series(id));
        let sender = simulation.sender_stats(id);
        let failure = simulation.failures().iter().find(|failure| failure.transfer == id);
        let ends = [simulation.completed_at(id), self.plan.flows[k].stop, failure.map(|failure| failure.at)];
        FlowOutcome {
            stop: ends.into_iter().flatten().min().unwrap_or(self.plan.end).min(simulation.now()),
            samples: series.iter().map(|sample| (sample.at, sample.placed_bytes)).collect(),
            bytes: simulation.placed_bytes(id),
            wire_bytes: stats.wire_bytes,
            data_bytes: stats.placed_bytes + stats.duplicate_bytes,
            received_packets: stats.received_packets,
            // Where the sender looks for losses, the receiver counts none.
            lost_packets: stats.lost_packets.max(sender.lost_packets),
            held: Some(sender.held),
            rtt: series.last().map(|sample| sample.rtt).filter(|rtt| *rtt > Span::ZERO),
            failure: failure.map(|failure| failure.error.to_string()),
        }
    }
}
