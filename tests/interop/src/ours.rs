//! A setting in our own simulator.

use inhaul_base::{Bitrate, Probability, Span, Time};
use inhaul_link::{LinkSpec, LossSpec, QueueLimit, QueueSpec};
use inhaul_protocols::registry;
use inhaul_sim::{
    DumbbellSpec, HostSpec, LinkId, Pair, SimError, Simulation, TopologyError, Transfer, TransferId, dumbbell,
};
use inhaul_transport::{EndpointConfig, FlowLimits, ObjectId, Role, SetupError};

use crate::{
    ACCESS_FACTOR, BOTTLENECK_DELAY, FlowOutcome, HYSTART, Loss, Outcome, PACKET_BYTES, SEGMENT_BYTES, Setting,
};

/// Why a setting could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum OursError {
    /// The registry has no such law.
    #[error("there is no protocol '{0}'")]
    UnknownLaw(&'static str),
    /// The endpoint refused its parameters.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The dumbbell makes no sense.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The simulation ended in an error.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A flow broke off.
    #[error("flow {flow} broke off after {at}: {reason}")]
    Broken {
        /// Which one.
        flow: usize,
        /// When.
        at: Time,
        /// Why.
        reason: String,
    },
}

/// A setting that stands ready.
pub struct Prepared {
    /// The simulation, at time zero.
    pub sim: Simulation,
    /// The flows, in the order of the setting.
    pub transfers: Vec<TransferId>,
    bottleneck: LinkId,
}

/// Builds the dumbbell and its flows.
///
/// # Errors
/// When a law is not known or something does not fit.
pub fn prepare(setting: &Setting, seed: u64) -> Result<Prepared, OursError> {
    let (topology, parts) = dumbbell(&dumbbell_spec(setting, seed));
    let mut sim = Simulation::new(topology, seed)?;
    let mut transfers = Vec::new();
    let ends = parts.senders.iter().zip(&parts.receivers);
    for ((k, (flow, start)), (from, to)) in setting.flows.iter().zip(setting.starts(seed)).enumerate().zip(ends) {
        let (law, hystart) = flow.law.strip_suffix(HYSTART).map_or((flow.law, false), |law| (law, true));
        let protocol = registry::find(law).ok_or(OursError::UnknownLaw(flow.law))?;
        let endpoint = |role| {
            let mut config = EndpointConfig::new(role, seed * 1_000 + k as u64);
            config.parameters.push(("segment".into(), SEGMENT_BYTES.to_string()));
            if protocol.parameters.iter().any(|parameter| parameter.name == "hystart") {
                config.parameters.push(("hystart".into(), if hystart { "on" } else { "off" }.into()));
            }
            (protocol.build)(&config)
        };
        let sender = sim.endpoint(*from, endpoint(Role::Sender)?)?;
        let receiver = sim.endpoint(*to, endpoint(Role::Receiver)?)?;
        transfers.push(sim.transfer(Transfer {
            name: format!("flow {k}"),
            sender,
            receiver,
            object: ObjectId(0),
            size: 1 << 50,
            start: Time::ZERO + start,
            stop: None,
            leaves: false,
            mtu: PACKET_BYTES as u16,
            limits: FlowLimits::default(),
        })?);
    }
    Ok(Prepared { sim, transfers, bottleneck: parts.bottleneck.0 })
}

fn dumbbell_spec(setting: &Setting, seed: u64) -> DumbbellSpec {
    let rate = Bitrate::from_mbps(setting.rate_mbps);
    let queue = QueueLimit::Packets(setting.queue_packets);
    let bottleneck_back = LinkSpec::drop_tail(rate, BOTTLENECK_DELAY, queue);
    let loss = match setting.loss {
        Loss::None => LossSpec::None,
        Loss::Random(p) => Probability::new(p).map_or(LossSpec::None, LossSpec::Random),
        Loss::Drawn(_) => LossSpec::Scripted(setting.drawn_losses(seed)),
    };
    let bottleneck = LinkSpec { loss, ..bottleneck_back.clone() };
    let access_rate = Bitrate::from_mbps(setting.rate_mbps * ACCESS_FACTOR);
    let access = |delay| LinkSpec { rate: Some(access_rate), delay, queue: QueueSpec::UNLIMITED, ..LinkSpec::ideal() };
    let pairs = setting.rtts(seed).into_iter().map(|rtt| Pair {
        sender: HostSpec::default(),
        receiver: HostSpec::default(),
        sender_link: access(Span::from_nanos(rtt.as_nanos() / 2).saturating_sub(BOTTLENECK_DELAY)),
        receiver_link: access(Span::ZERO),
    });
    DumbbellSpec { pairs: pairs.collect(), bottleneck, bottleneck_back }
}

/// Simulates a setting under a seed, with a sample each `step`.
///
/// # Errors
/// When it cannot be built, or a flow breaks off.
pub fn run(setting: &Setting, seed: u64, step: Span) -> Result<Outcome, OursError> {
    let Prepared { mut sim, transfers, bottleneck } = prepare(setting, seed)?;
    let mut outcome = Outcome {
        step_s: step.as_secs_f64(),
        flows: vec![FlowOutcome::default(); transfers.len()],
        ..Outcome::default()
    };
    let end = Time::ZERO + setting.duration;
    while sim.now() < end {
        sim.run_until((sim.now() + step).min(end))?;
        for (flow, transfer) in outcome.flows.iter_mut().zip(&transfers) {
            flow.received_bytes.push(sim.placed_bytes(*transfer));
            flow.window_packets.push(sim.sender_stats(*transfer).window_bytes / SEGMENT_BYTES);
        }
    }
    if let Some(failure) = sim.failures().first() {
        let flow = transfers.iter().position(|transfer| *transfer == failure.transfer).unwrap_or(0);
        return Err(OursError::Broken { flow, at: failure.at, reason: failure.error.to_string() });
    }
    let link = sim.link_stats(bottleneck);
    outcome.hops = sim.hops();
    outcome.queue_drops = link.queue_full.packets;
    outcome.random_drops = link.lost.packets;
    Ok(outcome)
}
