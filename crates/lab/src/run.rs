//! Runs plans: makes a simulation from a plan, and a result from the simulation.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use inhaul_base::{Bitrate, RandomStream, Span, Time};
use inhaul_protocols::registry;
use inhaul_sim::{Change, EndpointId, LinkId, RecorderSpec, SimError, Simulation, Transfer, TransferId};
use inhaul_transport::{Command, EndpointConfig, FlowLimits, ObjectId, Role};

use crate::agents::{Emulation, Hosts, run_emulated, run_net};
use crate::assess;
use crate::outcome::{FlowOutcome, LinkOutcome, Outcome};
use crate::random_streams::{ENDPOINT_STREAMS, WEB_STREAMS};
use crate::result::RunResult;
use crate::scenario::{Cell, Plan, Scenario, WhatChanges};
use crate::web;

/// How often a run says how far it is.
const PROGRESS_STEPS: u64 = 200;

/// What a scenario is run in.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// The simulator, with this number of runs at once. The results do not depend on it.
    Sim {
        /// Runs at a time.
        threads: usize,
    },
    /// The emulator: real processes in real time, one run after the other.
    Emu {
        /// How.
        how: Emulation,
    },
    /// A real network: real hosts in real time, one run after the other.
    Net {
        /// Where the agents are.
        hosts: &'a Hosts,
    },
}

/// Is told of the progress of a scenario's runs, from any thread.
pub trait Watch: Sync {
    /// Which part of the time of all runs is done, from 0 to 1; told now and then.
    fn advanced(&self, part: f64) {
        let _ = part;
    }
    /// A run that need not be made, for this is what came of it.
    fn known(&self, case: &str, seed: u64) -> Option<RunResult> {
        let _ = (case, seed);
        None
    }
    /// A run is finished.
    fn finished(&self, run: &RunResult) {
        let _ = run;
    }
}

/// Ignores the progress.
impl Watch for () {}

/// Runs every cell and repetition of a scenario. The results are in the order of cells, then repetitions. The runs are
/// made in the order of repetitions, then cells, so the results can be compared even if the time runs out.
pub fn run_scenario(scenario: &Scenario, experiment: &str, backend: Backend<'_>, watch: &dyn Watch) -> Vec<RunResult> {
    let (cells, repetitions) = (scenario.cells.len(), scenario.repetitions as usize);
    let jobs: Vec<(usize, &Cell, u64)> = (0..repetitions)
        .flat_map(|k| scenario.cells.iter().enumerate().map(move |(c, cell)| (c * repetitions + k, cell, k)))
        .map(|(place, cell, k)| (place, cell, scenario.seed.wrapping_add(k as u64)))
        .collect();
    let total: u64 = jobs.iter().map(|(_, cell, _)| cell.plan.end.as_nanos()).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let results: Mutex<Vec<Option<RunResult>>> = Mutex::new(vec![None; cells * repetitions]);
    let work = || {
        while let Some((place, cell, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let advanced = |span: Span| {
                let before = done.fetch_add(span.as_nanos(), Ordering::Relaxed);
                watch.advanced((before + span.as_nanos()) as f64 / total.max(1) as f64);
            };
            let known = watch.known(&cell.case, *seed);
            let is_known = known.is_some();
            let mut result = known.unwrap_or_else(|| match backend {
                Backend::Sim { .. } => run_once(&cell.plan, *seed, &advanced),
                Backend::Emu { how } => run_emulated(&cell.plan, *seed, how, &advanced),
                Backend::Net { hosts } => run_net(&cell.plan, *seed, hosts, &advanced),
            });
            if is_known {
                advanced(cell.plan.end.since(Time::ZERO));
            } else {
                result.experiment = experiment.to_owned();
                result.case.clone_from(&cell.case);
                watch.finished(&result);
            }
            if let Ok(mut results) = results.lock() {
                results[*place] = Some(result);
            }
        }
    };
    let threads = match backend {
        Backend::Sim { threads } => threads,
        Backend::Emu { .. } | Backend::Net { .. } => 1,
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_iter().flatten().collect()
}

/// Runs a plan once. What breaks a rule of the simulator ends the run early and makes it invalid.
pub fn run_once(plan: &Plan, seed: u64, advanced: &dyn Fn(Span)) -> RunResult {
    let mut run = match Run::new(plan, seed) {
        Ok(run) => run,
        Err(reason) => {
            return RunResult {
                backend: "sim".to_owned(),
                seed,
                valid: false,
                invalid_reason: Some(reason),
                ..RunResult::default()
            };
        }
    };
    let invalid_reason = run.simulate(advanced).err().map(|error| error.to_string());
    let mut result = assess::assess(plan, &run.outcome());
    result.seed = seed;
    result.valid = invalid_reason.is_none();
    result.invalid_reason = invalid_reason;
    result
}

struct Run<'a> {
    plan: &'a Plan,
    simulation: Simulation,
    /// By flow of the plan.
    transfers: Vec<TransferId>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, seed: u64) -> Result<Self, String> {
        let mut simulation = Simulation::new(plan.topology.clone(), seed).map_err(|error| error.to_string())?;
        simulation.set_sealed(plan.sealed);
        let mut run = Self { plan, simulation, transfers: Vec::new() };
        let endpoints = run.endpoints(seed)?;
        run.traffic(seed, &endpoints).map_err(|error| error.to_string())?;
        for (link, path) in &plan.captures {
            let file = File::create(path).map_err(|error| format!("{path}: {error}"))?;
            run.simulation.capture(*link, Box::new(BufWriter::new(file))).map_err(|error| error.to_string())?;
        }
        Ok(run)
    }

    fn endpoints(&mut self, seed: u64) -> Result<Vec<EndpointId>, String> {
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
            let built = (protocol.build)(&config).map_err(|error| error.to_string())?;
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
            };
            self.simulation.at(change.at, happens)?;
        }
        self.simulation.record(RecorderSpec { interval: self.plan.record })
    }

    fn simulate(&mut self, advanced: &dyn Fn(Span)) -> Result<(), SimError> {
        let end = self.plan.end;
        let step = Span::from_nanos((end.as_nanos() / PROGRESS_STEPS).max(1));
        while self.simulation.now() < end {
            let from = self.simulation.now();
            let to = (from + step).min(end);
            // When everything that was to come has come, the rest of the time passes without being looked at.
            if self.is_over() {
                advanced(end.since(from));
                break;
            }
            self.simulation.run_until(to)?;
            advanced(to.since(from));
        }
        Ok(())
    }

    /// Whether every flow has a size of its own and is complete.
    fn is_over(&self) -> bool {
        let flows = self.plan.flows.iter().zip(&self.transfers);
        flows.into_iter().all(|(flow, transfer)| !flow.endless && self.simulation.is_complete(*transfer))
    }

    fn outcome(&mut self) -> Outcome {
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
            trace: format!("{:016x}", self.simulation.trace()),
            cpu_s: None,
        }
    }

    fn flow(&self, k: usize, id: TransferId) -> FlowOutcome {
        let simulation = &self.simulation;
        let (stats, series) = (simulation.stats(id), simulation.series(id));
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
            lost_packets: stats.lost_packets.max(simulation.sender_stats(id).lost_packets),
            rtt: series.last().map(|sample| sample.rtt).filter(|rtt| *rtt > Span::ZERO),
            failure: failure.map(|failure| failure.error.to_string()),
        }
    }
}
