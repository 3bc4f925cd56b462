//! The verdict on a contestant in a shared network: its rate and its rivals' rates, over the same rates with CUBIC in
//! its place.

use serde::Serialize;

use super::draw::AFTER_S;
use super::kind::{Contestant, Discipline, Kind, Place};
use super::network::Network;
use super::observe::Observed;
use super::scenario::OWN;
use crate::joins::{Event, events};

/// What became of a contestant in a network.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The network's seed.
    pub seed: u64,
    /// The rivals.
    pub kind: Kind,
    /// Where the bottleneck is.
    pub place: Place,
    /// How it drops packets.
    pub discipline: Discipline,
    /// Its rate at the start, in bits per second.
    pub rate_bps: u64,
    /// Round-trip time of the first own flow, in milliseconds.
    pub rtt_ms: f64,
    /// Capacity of its queue, in milliseconds at that rate.
    pub queue_limit_ms: f64,
    /// The rivals' protocol, `mixed`, or `none`.
    pub beside: &'static str,
    /// Everything that goes on, in words.
    pub about: String,
    /// The contestant.
    pub protocol: String,
    /// Whether both runs kept every rule of the simulator.
    pub valid: bool,
    /// Own flows that ended badly.
    pub failed: usize,
    /// Its results.
    pub own: Measured,
    /// Its max-min fair rate of data over the bottleneck, in bits per second.
    pub ideal_bps: f64,
    /// What CUBIC in its place did.
    pub reference: Measured,
    /// Beside elastic rivals: its rate over that of CUBIC in its place; `None` where that had nothing.
    pub share: Option<f64>,
    /// The elastic rivals.
    pub rivals: Vec<Kept>,
    /// After the rivals have left.
    pub after: Option<After>,
    /// Whether the goals for networks without company hold (large enough queues and shares, nothing changes).
    pub has_goals: bool,
    /// Joins and leaves of own flows, in networks without other changes.
    pub events: Vec<Event>,
    /// Fingerprint of the run.
    pub trace: String,
}

/// What own flows did in the measured time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// Data that came over the bottleneck, in bits per second.
    pub goodput_bps: f64,
    /// Without elastic rivals: their part of the capacity that others left.
    pub aggregate: Option<f64>,
    /// Data packets lost over received and lost, in the whole run.
    pub loss: f64,
    /// Mean queue of the bottleneck, in milliseconds.
    pub queue_ms: f64,
}

/// A rival's rate.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// Its protocol.
    pub protocol: String,
    /// Data, in bits per second.
    pub goodput_bps: f64,
    /// That over its rate beside CUBIC; `None` if that is zero.
    pub kept: Option<f64>,
}

/// Results after rivals have left, from three seconds after that on.
#[derive(Clone, Debug, Serialize)]
pub struct After {
    /// The part of the link that the contestant has.
    pub used: f64,
    /// Mean queue, in milliseconds.
    pub queue_ms: f64,
    /// CUBIC's part of it.
    pub reference_used: f64,
    /// And its queue.
    pub reference_queue_ms: f64,
}

pub(super) fn judge(network: &Network, contestant: &Contestant, seen: &Observed, beside: &Observed) -> Verdict {
    let run = &seen.run;
    let is_own = |name: &str| name.starts_with(OWN);
    let (own, reference) = (measured(network, seen), measured(network, beside));
    let is_elastic = network.kind == Kind::Elastic;
    Verdict {
        seed: network.seed,
        kind: network.kind,
        place: network.place,
        discipline: network.discipline,
        rate_bps: network.rate_bps,
        rtt_ms: network.rtt_ms(),
        queue_limit_ms: network.queue_ms(),
        beside: network.rivals(),
        about: network.about(),
        protocol: contestant.protocol.clone(),
        valid: run.valid && beside.run.valid,
        failed: run.flows.iter().filter(|flow| is_own(&flow.name) && flow.failure.is_some()).count(),
        share: ratio(own.goodput_bps, reference.goodput_bps).filter(|_| is_elastic),
        ideal_bps: ideal_bps(network, seen),
        own,
        reference,
        rivals: rivals(network, seen, beside),
        after: after(network, seen, beside),
        has_goals: network.has_goals(),
        events: if network.kind == Kind::Steady { events(run, 0.0, &|_| 1500) } else { Vec::new() },
        trace: run.trace.clone(),
    }
}

fn ratio(had: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| had / of)
}

impl Network {
    /// Whether a flow is the contestant's and crosses the bottleneck.
    fn is_crossing(&self, name: &str) -> bool {
        let number = name.strip_prefix(OWN).and_then(|number| number.parse::<usize>().ok());
        number.is_some_and(|number| number <= self.crossing)
    }
}

fn ideal_bps(network: &Network, seen: &Observed) -> f64 {
    let crossing = seen.run.flows.iter().filter(|flow| network.is_crossing(&flow.name));
    crossing.filter_map(|flow| flow.ideal_bps).sum()
}

fn measured(network: &Network, seen: &Observed) -> Measured {
    let is_crossing = |name: &str| network.is_crossing(name);
    let time = seen.run.measured_s;
    let aggregate = match network.kind {
        Kind::Elastic => None,
        // Own limits of senders count, and what flows beside the bottleneck have.
        Kind::Steady => {
            let events = events(&seen.run, 0.0, &|_| 1500);
            ratio(events.iter().map(|event| event.aggregate).sum(), events.len() as f64)
        }
        // The rate of web traffic and datagrams varies, so it is measured: their part and the unused part are left
        // over.
        Kind::Changing => {
            let had = seen.wire_bps(is_crossing, time);
            ratio(had, had + seen.idle_bps(time))
        }
    };
    Measured {
        goodput_bps: seen.goodput_bps(is_crossing, time),
        aggregate,
        loss: seen.run.metrics.loss_ratio,
        queue_ms: seen.queue_ms(time),
    }
}

fn rivals(network: &Network, seen: &Observed, beside: &Observed) -> Vec<Kept> {
    let names = (1..=network.rivals.len()).map(|k| format!("r{k}"));
    let kept = |(name, rival): (String, &super::network::Rival)| {
        let rate = |seen: &Observed| seen.goodput_bps(|flow| flow == name, seen.run.measured_s);
        let goodput_bps = rate(seen);
        Kept { protocol: rival.protocol.to_owned(), goodput_bps, kept: ratio(goodput_bps, rate(beside)) }
    };
    names.zip(&network.rivals).map(kept).collect()
}

fn after(network: &Network, seen: &Observed, beside: &Observed) -> Option<After> {
    let from_s = network.leave_s? + AFTER_S;
    let used = |seen: &Observed| {
        let time = [from_s, seen.run.duration_s];
        ratio(seen.wire_bps(|name| network.is_crossing(name), time), seen.capacity_bps(time)).unwrap_or(0.0)
    };
    let queue_ms = |seen: &Observed| seen.queue_ms([from_s, seen.run.duration_s]);
    Some(After {
        used: used(seen),
        queue_ms: queue_ms(seen),
        reference_used: used(beside),
        reference_queue_ms: queue_ms(beside),
    })
}
