//! Runs a plan with real processes, real sockets and the kernel's own TCP: over the emulator, or between the hosts of
//! a real network.
//!
//! GTP is our own. The names of TCP's congestion controls mean the kernel's TCP here, because the papers measured it:
//! reno, cubic and bbr as the kernel has them; highspeed, scalable, bic and fhstcp as `inhaul lab kernel-cc load` adds
//! them.
//!
//! This program is started again as an agent in each host (`agent`), emulated (`emu`) or real (`net`, docs/net.md).
//! Senders serve. Receivers start and stop flows by the plan and report samples. Simulated and emulated runs come to
//! the same `Outcome`, and one function judges both.
#![allow(clippy::disallowed_methods, reason = "real processes run in real time")]

mod agent;
mod datagrams;
mod emu;
mod jobs;
mod kernel_tcp;
mod net;
mod seen;
mod talk;
mod tunnel;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use inhaul_base::Span;

use self::agent::Job;
use self::jobs::Jobs;
use self::seen::Seen;
use self::talk::{Agent, PATIENCE};
use crate::assess;
use crate::outcome::Outcome;
use crate::result::RunResult;
use crate::scenario::Plan;

pub use agent::run_agent;
pub use emu::{Emulation, run_emulated};
pub use net::{Hosts, HostsError, run_net, serve_agents};

/// Where agents run.
trait Ground {
    /// Starts an agent in a host of the plan, and tells it its job.
    fn start(&self, host: &str, job: &Job) -> Result<Agent, String>;

    /// Where the host's flows go to and come from.
    fn address(&self, host: &str) -> Result<IpAddr, String>;

    /// Every agent is ready: time counts from now.
    fn begin(&self) {}
}

/// Makes agents execute the plan, and collects their records.
fn run_agents(plan: &Plan, seed: u64, ground: &dyn Ground, advanced: &dyn Fn(Span)) -> Result<Seen, String> {
    let Jobs { serve, receive } = Jobs::of(plan, seed, &|host| ground.address(host))?;
    let start = |host: &str, job: Job| -> Result<(Agent, String), String> {
        let mut agent = ground.start(host, &job)?;
        let key = agent.hear_ready()?;
        Ok((agent, key))
    };
    // Senders listen before receivers start, and have told their keys.
    let (mut senders, mut keys) = (Vec::new(), BTreeMap::new());
    for (host, job) in serve {
        let (agent, key) = start(&host, Job::Serve(job))?;
        senders.push(agent);
        keys.insert(ground.address(&host)?, key);
    }
    let mut receivers = Vec::new();
    for (host, mut job) in receive {
        for flow in job.transports.iter_mut().flat_map(|transport| &mut transport.flows) {
            flow.key = keys.get(&flow.server).cloned();
        }
        receivers.push(start(&host, Job::Receive(job))?.0);
    }
    ground.begin();
    senders.iter_mut().chain(&mut receivers).try_for_each(|agent| agent.tell("go\n"))?;
    wait_for(plan, &receivers, advanced)?;
    let mut seen = Seen::default();
    for agent in receivers {
        seen.received(agent.report()?);
    }
    for mut agent in senders {
        agent.tell("stop\n")?;
        seen.sent(agent.report()?);
    }
    Ok(seen)
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

/// The parts of a plan that real processes cannot do, if there are any.
fn refusal(plan: &Plan) -> Option<String> {
    plan.flows.iter().find_map(|flow| {
        jobs::kernel_name(flow.protocol.name)?;
        let parameters = &plan.endpoints[flow.receiver].parameters;
        let (name, _) = parameters.iter().find(|(name, _)| name != jobs::WINDOW_PARAMETER)?;
        Some(format!("the kernel's TCP has no parameter '{name}': leave it out, or run the scenario in the simulator"))
    })
}

/// The failures of the plan's flows.
fn failures<'a>(plan: &'a Plan, outcome: &'a Outcome) -> impl Iterator<Item = String> + 'a {
    outcome.flows.iter().zip(&plan.flows).filter_map(|(flow, planned)| {
        flow.failure.as_ref().map(|failure| format!("flow '{}' failed: {failure}", planned.name))
    })
}

/// The result of a run in `backend`, valid if there is no reason why it should not be believed.
fn judged(plan: &Plan, seed: u64, backend: &str, run: Result<(Outcome, Vec<String>), String>) -> RunResult {
    let (mut result, reason) = match run {
        Ok((outcome, reasons)) => (assess::assess(plan, &outcome), (!reasons.is_empty()).then(|| reasons.join("; "))),
        Err(reason) => (RunResult { backend: backend.to_owned(), ..RunResult::default() }, Some(reason)),
    };
    result.seed = seed;
    result.valid = reason.is_none();
    result.invalid_reason = reason;
    result
}
