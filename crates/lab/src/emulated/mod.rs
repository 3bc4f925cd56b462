//! Runs of a plan over the emulator: real processes, real sockets, the kernel's own TCP.
//!
//! GTP is our own. The names of TCP's congestion controls mean the kernel's TCP here, which is what the papers measured: reno, cubic and
//! bbr as the kernel has them, highspeed, scalable and fhstcp as `inhaul lab kernel-cc load` brings them.
#![allow(clippy::disallowed_methods, reason = "real processes run in real time")]

mod agent;
mod kernel_tcp;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, RandomStream, Span, Time};
use inhaul_emu::{EmuError, Emulator, LinkReport, Options, Process, SpawnOptions, Stream, Wait};
use inhaul_mover::StagedFlowReport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;

pub use agent::run_agent;
use agent::{FlowJob, Job, READY, ReceiveJob, ReceiveReport, ServeReport, TCP_PORT, TRANSPORT_PORT, TransportJob};
use kernel_tcp::{TcpJob, TcpReceived, TcpSent};

use crate::assess;
use crate::emu::emulated;
use crate::outcome::{FlowOutcome, LinkOutcome, Outcome};
use crate::result::RunResult;
use crate::run::WEB_STREAMS;
use crate::scenario::{FlowPlan, Plan, WhatChanges};
use crate::web;

/// This program, as an agent.
const AGENT: [&str; 2] = ["lab", "agent"];
/// How long an agent may take to listen, to be ready, or to report.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most that an agent says in a line.
const LINE_BYTES_MAX: usize = 256 << 20;

/// The kernel's names of the congestion controls.
const KERNEL_NAMES: [(&str, &str); 7] = [
    ("reno", "reno"),
    ("cubic", "cubic"),
    ("bic", "bic"),
    ("bbr", "bbr"),
    ("highspeed", "inhaul_hstcp"),
    ("scalable", "inhaul_stcp"),
    ("fhstcp", "inhaul_fhstcp"),
];

/// Runs a plan in real time. What the host could not emulate honestly, or the emulator cannot do, makes the result invalid and
/// says why. While the host is at fault the plan is run again, up to `attempts` times: chosen is by validity alone, never by what
/// came out.
pub fn run_emulated(plan: &Plan, seed: u64, wait: Wait, attempts: u32, advanced: &dyn Fn(Span)) -> RunResult {
    let mut made = 0;
    let refused = refusal(plan);
    let (outcome, attempts) = loop {
        made += 1;
        // Another attempt takes no part of the whole that has not been told.
        let told = |span| {
            if made == 1 {
                advanced(span);
            }
        };
        let outcome = refused.clone().map_or_else(|| emulate(plan, seed, wait, &told), Err);
        let is_disturbed = outcome.as_ref().is_ok_and(|emulated| emulated.is_disturbed);
        if !is_disturbed || made >= attempts {
            break (outcome, made);
        }
    };
    let (mut result, reason) = match outcome {
        Ok(Emulation { outcome, reasons, .. }) => {
            (assess::assess(plan, &outcome), (!reasons.is_empty()).then(|| reasons.join("; ")))
        }
        Err(reason) => (RunResult { backend: "emu".to_owned(), ..RunResult::default() }, Some(reason)),
    };
    result.seed = seed;
    result.attempts = attempts;
    result.valid = reason.is_none();
    result.invalid_reason = reason;
    result
}

/// What of a plan real processes cannot do, if anything.
fn refusal(plan: &Plan) -> Option<String> {
    if !plan.udp.is_empty() {
        return Some("background UDP is not emulated: run the scenario in the simulator".to_owned());
    }
    let commands = |what: &WhatChanges| matches!(what, WhatChanges::SendRate(..) | WhatChanges::ReceiveRate(..));
    if plan.changes.iter().any(|change| commands(&change.what)) {
        return Some(
            "changes of send_rate and receive_rate are not emulated: run the scenario in the simulator".to_owned(),
        );
    }
    plan.flows.iter().find_map(|flow| {
        kernel_name(flow.protocol.name)?;
        let parameters = &plan.endpoints[flow.receiver].parameters;
        let (name, _) = parameters.iter().find(|(name, _)| name != WINDOW_PARAMETER)?;
        Some(format!("the kernel's TCP has no parameter '{name}': leave it out, or run the scenario in the simulator"))
    })
}

/// The one parameter of ours that the kernel's TCP has too, as a size of the receiver's buffer.
const WINDOW_PARAMETER: &str = "window-max";

fn kernel_name(protocol: &str) -> Option<&'static str> {
    KERNEL_NAMES.iter().find(|(name, _)| *name == protocol).map(|(_, kernel)| *kernel)
}

/// An agent that runs.
struct Agent {
    host: String,
    process: Process,
    /// What it has said beyond the lines that were heard.
    heard: Vec<u8>,
}

/// What was seen.
struct Emulation {
    outcome: Outcome,
    /// Why it is not to be believed.
    reasons: Vec<String>,
    /// Whether the host is at fault, at least in part: another time it may leave the emulator alone.
    is_disturbed: bool,
}

fn emulate(plan: &Plan, seed: u64, wait: Wait, advanced: &dyn Fn(Span)) -> Result<Emulation, String> {
    let text = |error: EmuError| error.to_string();
    let network = emulated(plan, seed);
    let emulator = Emulator::start(network.grid, Options { wait, ..Options::default() }).map_err(text)?;
    let senders = start_senders(plan, &emulator)?;
    let mut receivers = start_receivers(plan, seed, &emulator)?;
    emulator.begin();
    for agent in &mut receivers {
        agent.tell("go\n")?;
    }
    wait_for(plan, &receivers, advanced)?;
    let mut seen = Seen::default();
    for agent in receivers {
        let (report, cpu): (ReceiveReport, Span) = agent.report()?;
        seen.receiver_cpu = seen.receiver_cpu + cpu;
        seen.received.push(report);
    }
    for mut agent in senders {
        agent.process.stdin = None;
        let (report, cpu): (ServeReport, Span) = agent.report()?;
        seen.sender_cpu = seen.sender_cpu + cpu;
        seen.failures.extend(report.failure);
        seen.sent.extend(report.tcp.into_iter().map(|sent| (sent.flow, sent)));
    }
    let report = emulator.stop().map_err(text)?;
    let mut reasons = report.reasons.clone();
    let is_disturbed = !reasons.is_empty();
    reasons.extend(network.left_out);
    reasons.append(&mut seen.failures);
    let outcome = seen.outcome(plan, &report);
    reasons.extend(outcome.flows.iter().zip(&plan.flows).filter_map(|(flow, planned)| {
        flow.failure.as_ref().map(|failure| format!("flow '{}' failed: {failure}", planned.name))
    }));
    Ok(Emulation { outcome, reasons, is_disturbed })
}

fn host_of(plan: &Plan, endpoint: usize) -> String {
    let host = plan.endpoints[endpoint].host;
    plan.topology.nodes().find(|(id, _)| *id == host).map(|(_, name)| name.to_owned()).unwrap_or_default()
}

/// An agent in every host that sends; they listen when this returns.
fn start_senders(plan: &Plan, emulator: &Emulator) -> Result<Vec<Agent>, String> {
    let mut limits: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for (number, endpoint) in plan.endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.sends) {
        let limit = limits.entry(host_of(plan, number)).or_default();
        *limit = limit.or(endpoint.host_rate.map(Bitrate::bps));
    }
    let mut agents = Vec::new();
    for (host, send_rate) in limits {
        agents.push(Agent::start(emulator, &host, &Job::Serve { send_rate })?);
        for port in [TRANSPORT_PORT, TCP_PORT] {
            let until = Instant::now() + PATIENCE;
            while !emulator.listens(&host, Some(port)).map_err(|error| error.to_string())? {
                if Instant::now() > until {
                    return Err(format!("the sender in host '{host}' does not listen on port {port}"));
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
    Ok(agents)
}

/// An agent in every host that receives; they wait for the start when this returns.
fn start_receivers(plan: &Plan, seed: u64, emulator: &Emulator) -> Result<Vec<Agent>, String> {
    let mut jobs = Jobs { plan, emulator, by_host: BTreeMap::new() };
    for number in 0..plan.flows.len() {
        jobs.add_flow(number)?;
    }
    jobs.add_web(seed)?;
    let mut agents = Vec::new();
    for (host, job) in jobs.by_host {
        let mut agent = Agent::start(emulator, &host, &Job::Receive(job))?;
        agent.hear_ready()?;
        agents.push(agent);
    }
    Ok(agents)
}

/// What each receiving host is to do.
struct Jobs<'a> {
    plan: &'a Plan,
    emulator: &'a Emulator,
    by_host: BTreeMap<String, ReceiveJob>,
}

impl Jobs<'_> {
    fn at(&mut self, endpoint: usize) -> &mut ReceiveJob {
        let (end_s, sample_s) = (self.plan.end.as_secs_f64(), self.plan.record.as_secs_f64());
        let new = || ReceiveJob { end_s, sample_s, ..ReceiveJob::default() };
        self.by_host.entry(host_of(self.plan, endpoint)).or_insert_with(new)
    }

    fn address(&self, endpoint: usize) -> Result<Ipv4Addr, String> {
        self.emulator.address_of(&host_of(self.plan, endpoint)).map_err(|error| error.to_string())
    }

    fn add_flow(&mut self, number: usize) -> Result<(), String> {
        let plan = self.plan;
        let flow = &plan.flows[number];
        let server = self.address(flow.sender)?;
        let job = self.at(flow.receiver);
        if let Some(congestion) = kernel_name(flow.protocol.name) {
            job.tcp.push(tcp_job(plan, number, flow, congestion, (server, TCP_PORT).into()));
            return Ok(());
        }
        let known = job.transports.iter().position(|of| of.transport == flow.protocol.name);
        let at = known.unwrap_or_else(|| {
            let endpoint = &plan.endpoints[flow.receiver];
            job.transports.push(TransportJob {
                transport: flow.protocol.name.to_owned(),
                parameters: endpoint.parameters.clone(),
                receive_rate: endpoint.host_rate.map(Bitrate::bps),
                flows: Vec::new(),
            });
            job.transports.len() - 1
        });
        job.transports[at].flows.push(FlowJob {
            flow: number,
            server,
            start_s: flow.start.as_secs_f64(),
            stop_s: flow.stop.map(Time::as_secs_f64),
            size: (!flow.endless).then_some(flow.size),
            rate: flow.limits.application_rate.map(Bitrate::bps),
        });
        Ok(())
    }

    /// Short transfers over the kernel's TCP. Their numbers follow those of the flows, so that nobody takes them for one.
    fn add_web(&mut self, seed: u64) -> Result<(), String> {
        let plan = self.plan;
        let mut number = plan.flows.len();
        for (stream, web) in (0u64..).zip(&plan.web) {
            let server = (self.address(web.sender)?, TCP_PORT).into();
            let congestion = kernel_name(plan.endpoints[web.receiver].protocol).unwrap_or("reno").to_owned();
            for transfer in web::transfers(web, &mut RandomStream::new(seed, WEB_STREAMS + stream)) {
                self.at(web.receiver).tcp.push(TcpJob {
                    flow: number,
                    server,
                    congestion: congestion.clone(),
                    start_s: transfer.start.as_secs_f64(),
                    stop_s: None,
                    size: Some(transfer.size),
                    window: None,
                });
                number += 1;
            }
        }
        Ok(())
    }
}

fn tcp_job(plan: &Plan, number: usize, flow: &FlowPlan, congestion: &str, server: SocketAddr) -> TcpJob {
    let parameters = &plan.endpoints[flow.receiver].parameters;
    let window = parameters.iter().find(|(name, _)| name == WINDOW_PARAMETER).and_then(|(_, value)| value.parse().ok());
    TcpJob {
        flow: number,
        server,
        congestion: congestion.to_owned(),
        start_s: flow.start.as_secs_f64(),
        stop_s: flow.stop.map(Time::as_secs_f64),
        size: (!flow.endless).then_some(flow.size),
        // Segments of ours; the kernel wants bytes.
        window: window.map(|segments: u64| segments * u64::from(flow.mtu)),
    }
}

impl Agent {
    fn start(emulator: &Emulator, host: &str, job: &Job) -> Result<Self, String> {
        let mut command = Command::new("/proc/self/exe");
        command.args(AGENT);
        let piped = SpawnOptions {
            stdin: Stream::Piped,
            stdout: Stream::Piped,
            stderr: Stream::Inherit,
            ..SpawnOptions::default()
        };
        let process = emulator.spawn(host, &command, piped).map_err(|error| error.to_string())?;
        let mut agent = Self { host: host.to_owned(), process, heard: Vec::new() };
        let job = serde_json::to_string(job).map_err(|error| error.to_string())?;
        agent.tell(&format!("{job}\n"))?;
        Ok(agent)
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        let written = self.process.stdin.as_mut().map(|input| input.write_all(line.as_bytes()));
        written.unwrap_or(Ok(())).map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &io::Error) -> String {
        format!("the agent in host '{}' is lost: {error}", self.host)
    }

    fn hear_ready(&mut self) -> Result<(), String> {
        if self.hear_line()? == READY.as_bytes() {
            Ok(())
        } else {
            Err(format!("the agent in host '{}' did not start", self.host))
        }
    }

    /// Its next line, or what it said before it ended. It may take its time for the whole, but must not fall silent.
    fn hear_line(&mut self) -> Result<Vec<u8>, String> {
        let mut chunk = vec![0; 1 << 16];
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let rest = self.heard.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.heard, rest);
                line.pop();
                return Ok(line);
            }
            if self.heard.len() > LINE_BYTES_MAX {
                return Err(format!("the agent in host '{}' says too much", self.host));
            }
            if !self.speaks_within(PATIENCE) {
                return Err(format!("the agent in host '{}' has fallen silent", self.host));
            }
            let read = self.process.stdout.as_mut().map_or(Ok(0), |output| output.read(&mut chunk));
            match read {
                Ok(0) => return Ok(std::mem::take(&mut self.heard)),
                Ok(count) => self.heard.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// Whether it says something, or ends, in this time.
    fn speaks_within(&self, time: Duration) -> bool {
        let Some(output) = &self.process.stdout else { return true };
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&time)) {
            Ok(ready) => ready > 0,
            // What cannot be waited for is read instead.
            Err(_) => true,
        }
    }

    /// Its last line, and what processor time it took.
    fn report<T: DeserializeOwned>(mut self) -> Result<(T, Span), String> {
        let line = self.hear_line()?;
        let report = serde_json::from_slice(&line)
            .map_err(|error| format!("the agent in host '{}' gave no report: {error}", self.host))?;
        let exit = self.process.wait_for(PATIENCE).map_err(|error| error.to_string())?;
        Ok((report, exit.map(|exit| exit.cpu).unwrap_or_default()))
    }
}

/// Says how time passes, until every receiver has begun to report, which must be soon after the run's end.
fn wait_for(plan: &Plan, receivers: &[Agent], advanced: &dyn Fn(Span)) -> Result<(), String> {
    let (began, whole) = (Instant::now(), Duration::from_nanos(plan.end.as_nanos()));
    let mut told = Duration::ZERO;
    while let Some(waiting) = receivers.iter().find(|agent| !agent.speaks_within(Duration::ZERO)) {
        thread::sleep(Duration::from_millis(20));
        let elapsed = began.elapsed();
        if elapsed > whole + PATIENCE {
            return Err(format!("the receiver in host '{}' does not report", waiting.host));
        }
        advanced(Span::from_nanos((elapsed.min(whole) - told).as_nanos() as u64));
        told = elapsed.min(whole);
    }
    advanced(Span::from_nanos((whole - told).as_nanos() as u64));
    Ok(())
}

/// What the agents have reported.
#[derive(Default)]
struct Seen {
    received: Vec<ReceiveReport>,
    sent: BTreeMap<usize, TcpSent>,
    sender_cpu: Span,
    receiver_cpu: Span,
    failures: Vec<String>,
}

impl Seen {
    fn outcome(&mut self, plan: &Plan, report: &inhaul_emu::Report) -> Outcome {
        let mut flows: Vec<Option<FlowOutcome>> = plan.flows.iter().map(|_| None).collect();
        for received in std::mem::take(&mut self.received) {
            self.failures.extend(received.failure);
            for (number, seen) in received.flows {
                if let Some(flow) = flows.get_mut(number) {
                    *flow = Some(of_transport(plan, seen));
                }
            }
            for seen in received.tcp {
                let sent = self.sent.remove(&seen.flow).unwrap_or_default();
                if let Some((flow, planned)) = flows.get_mut(seen.flow).zip(plan.flows.get(seen.flow)) {
                    *flow = Some(of_tcp(plan, planned, seen, &sent));
                }
            }
        }
        let missing = || FlowOutcome {
            stop: plan.end,
            failure: Some("nobody reported what became of it".to_owned()),
            ..FlowOutcome::default()
        };
        let flows: Vec<FlowOutcome> = flows.into_iter().map(|flow| flow.unwrap_or_else(missing)).collect();
        let links: Vec<LinkOutcome> = report.links.iter().filter(|l| l.offered_packets > 0).map(of_link).collect();
        Outcome {
            backend: "emu",
            ended: flows.iter().map(|flow| flow.stop).max().unwrap_or(plan.end).min(plan.end),
            packet_hops: report.links.iter().map(|link| link.carried_packets).sum(),
            trace: String::new(),
            cpu_s: Some((self.sender_cpu.as_secs_f64(), self.receiver_cpu.as_secs_f64())),
            flows,
            links,
        }
    }
}

fn samples(seen: &[(f64, u64)]) -> Vec<(Time, u64)> {
    seen.iter().map(|(at, bytes)| (Time::ZERO + Span::from_secs_f64(*at), *bytes)).collect()
}

fn stop(plan: &Plan, stop_s: Option<f64>) -> Time {
    stop_s.map_or(plan.end, |stop_s| Time::ZERO + Span::from_secs_f64(stop_s)).min(plan.end)
}

fn of_transport(plan: &Plan, seen: StagedFlowReport) -> FlowOutcome {
    FlowOutcome {
        stop: stop(plan, seen.stop_s),
        samples: samples(&seen.samples),
        bytes: seen.bytes,
        wire_bytes: seen.wire_bytes,
        data_bytes: seen.data_bytes,
        received_packets: seen.received_packets,
        lost_packets: seen.lost_packets,
        rtt: (seen.rtt_ms > 0.0).then(|| Span::from_secs_f64(seen.rtt_ms / 1e3)),
        failure: seen.failure,
    }
}

/// The kernel counts segments at the sender: those that it sent again are taken for lost.
fn of_tcp(plan: &Plan, planned: &FlowPlan, seen: TcpReceived, sent: &TcpSent) -> FlowOutcome {
    let mtu = u64::from(planned.mtu);
    // IP and TCP headers with timestamps, when the kernel did not say.
    let segment = if sent.segment_bytes > 0 { u64::from(sent.segment_bytes).min(mtu) } else { mtu - 52 };
    let packets = seen.bytes.div_ceil(segment.max(1));
    FlowOutcome {
        stop: stop(plan, seen.stop_s),
        samples: samples(&seen.samples),
        bytes: seen.bytes,
        wire_bytes: seen.bytes + packets * (mtu - segment),
        data_bytes: seen.bytes,
        received_packets: packets,
        lost_packets: u64::from(sent.retransmitted),
        rtt: (sent.rtt_us > 0).then(|| Span::from_micros(u64::from(sent.rtt_us))),
        failure: sent.failure.clone().or(seen.failure),
    }
}

fn of_link(link: &LinkReport) -> LinkOutcome {
    let dropped = [link.queue_full_packets, link.early_packets, link.lost_packets, link.down_packets];
    LinkOutcome {
        name: link.name.clone(),
        rate_bps: link.rate_bps.map(|rate| rate as u64),
        carried_bytes: link.carried_bytes,
        offered_packets: link.offered_packets,
        dropped_packets: dropped.iter().sum(),
        queue_bytes_max: link.queue_bytes_max,
        series: Vec::new(),
    }
}
