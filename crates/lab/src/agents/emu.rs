//! Agents in the hosts of an emulated network.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::process::Command;

use inhaul_base::Span;
use inhaul_emu::{Emulator, LinkReport, Options, SpawnOptions, Stream, Wait};

use super::agent::Job;
use super::talk::Agent;
use super::{Ground, failures, judged, refusal, run_agents};
use crate::emu::{emulated, marks_refused};
use crate::outcome::{LinkOutcome, Outcome};
use crate::result::RunResult;
use crate::scenario::Plan;

/// This program, as an agent.
const AGENT: [&str; 2] = ["lab", "agent"];

/// How runs are emulated.
#[derive(Clone, Copy, Debug)]
pub struct Emulation {
    /// How the emulator waits.
    pub wait: Wait,
    /// Whether this machine's processors are kept awake.
    pub awake: bool,
    /// How often a run may be made while the host disturbs it.
    pub attempts: u32,
}

/// Runs a plan in real time. If the host could not emulate the network faithfully, or the emulator lacks a feature, the
/// result is invalid and has the reason. While the host is the cause, the plan is run again, as often as is allowed:
/// the choice depends only on validity, never on the results.
pub fn run_emulated(plan: &Plan, seed: u64, how: Emulation, advanced: &dyn Fn(Span)) -> RunResult {
    let options = Options { wait: how.wait, awake: how.awake, ..Options::default() };
    let mut attempts = 0;
    let refused = refusal(plan).or_else(|| marks_refused(plan));
    let (outcome, attempts) = loop {
        attempts += 1;
        // Another attempt takes no part of the whole that has not been told.
        let told = |span| {
            if attempts == 1 {
                advanced(span);
            }
        };
        let outcome = refused.clone().map_or_else(|| emulate(plan, seed, options, &told), Err);
        let is_disturbed = outcome.as_ref().is_ok_and(|emulated| emulated.is_disturbed);
        if !is_disturbed || attempts >= how.attempts {
            break (outcome, attempts);
        }
    };
    let outcome = outcome.map(|Seen { outcome, reasons, .. }| (outcome, reasons));
    RunResult { attempts, ..judged(plan, seed, "emu", outcome) }
}

/// The records.
struct Seen {
    outcome: Outcome,
    /// Why it is not to be believed.
    reasons: Vec<String>,
    /// Whether the host is at fault, at least in part: another time it may leave the emulator alone.
    is_disturbed: bool,
}

fn emulate(plan: &Plan, seed: u64, options: Options, advanced: &dyn Fn(Span)) -> Result<Seen, String> {
    let network = emulated(plan, seed);
    let emulator = Emulator::start(network.grid, options).map_err(|error| error.to_string())?;
    let mut seen = run_agents(plan, seed, &emulator, advanced)?;
    let report = emulator.stop().map_err(|error| error.to_string())?;
    let mut reasons = report.reasons.clone();
    let is_disturbed = !reasons.is_empty();
    reasons.extend(network.left_out);
    let links = report.links.iter().filter(|link| link.offered_packets > 0).map(of_link).collect();
    let hops = report.links.iter().map(|link| link.carried_packets).sum();
    let outcome = seen.outcome(plan, "emu", links, hops);
    reasons.append(&mut seen.failures);
    reasons.extend(failures(plan, &outcome));
    Ok(Seen { outcome, reasons, is_disturbed })
}

impl Ground for Emulator {
    fn start(&self, host: &str, job: &Job) -> Result<Agent, String> {
        let mut command = Command::new("/proc/self/exe");
        command.args(AGENT);
        let piped = SpawnOptions {
            stdin: Stream::Piped,
            stdout: Stream::Piped,
            stderr: Stream::Inherit,
            ..SpawnOptions::default()
        };
        let mut process = self.spawn(host, &command, piped).map_err(|error| error.to_string())?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or_else(|| format!("the agent in host '{host}' cannot be spoken to"))?;
        let file = |pipe: OwnedFd| File::from(pipe);
        Agent::new(host, (file(input.into()), file(output.into())), Box::new(process), job)
    }

    fn address(&self, host: &str) -> Result<IpAddr, String> {
        self.address_of(host).map(IpAddr::V4).map_err(|error| error.to_string())
    }

    fn begin(&self) {
        Emulator::begin(self);
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
        // Plans with marks are refused.
        marked_packets: 0,
        queue_bytes_max: link.queue_bytes_max,
        series: Vec::new(),
    }
}
