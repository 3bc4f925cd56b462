//! The verdict on each join and leave.

use serde::Serialize;

use super::draw::Star;
use super::interval::{INTERVAL_RTTS, INTERVAL_S_MIN, window_packets};
use super::kind::Kind;
use crate::metrics::{Trajectory, convergence_s};
use crate::result::{EpochResult, FlowResult, RunResult};

/// How near to its fair share a flow must be.
const TOLERANCE: f64 = 0.1;
/// Central intervals after an event within which a flow should, and must, have its share.
pub(super) const SHOULD: f64 = 3.0;
pub(super) const MUST: f64 = 8.0;

/// A join, a leave, or both at once, and the epoch that it begins.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// When, in seconds.
    pub at_s: f64,
    /// Whether a flow joined.
    pub is_join: bool,
    /// Flows that were active from then on.
    pub flows: usize,
    /// A central interval, in seconds.
    pub interval_s: f64,
    /// When all flows had their share within a tenth, and kept it up to the next event, in central intervals; `None`:
    /// never.
    pub intervals: Option<f64>,
    /// The least part of its share that a flow had over the second half of the epoch.
    pub worst: f64,
    /// What all had over what they should have had, from the third central interval on.
    pub aggregate: f64,
}

/// What became of a star.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The star's seed.
    pub seed: u64,
    /// What disturbs it.
    pub kind: Kind,
    /// Rate of its access link, in bits per second.
    pub access_bps: u64,
    /// Whether the run kept every rule of the simulator.
    pub valid: bool,
    /// Its joins and leaves.
    pub events: Vec<Event>,
    /// Data packets lost over received and lost.
    pub loss: f64,
    /// The same, less what the link loses at random.
    pub excess_loss: f64,
    /// Fingerprint of the run.
    pub trace: String,
}

pub(super) fn judge(star: &Star, run: &RunResult) -> Verdict {
    let epochs = run.epochs.iter().filter(|epoch| is_between_events(epoch, run));
    let loss = run.metrics.loss_ratio;
    Verdict {
        seed: star.seed,
        kind: star.kind,
        access_bps: star.access_bps,
        valid: run.valid && run.flows.iter().all(|flow| flow.failure.is_none()),
        events: epochs.map(|epoch| event(star, run, epoch)).collect(),
        loss,
        excess_loss: (loss - star.loss).max(0.0),
        trace: run.trace.clone(),
    }
}

/// Whether measured flows are active, and for some time.
fn is_between_events(epoch: &EpochResult, run: &RunResult) -> bool {
    let active = |(flow, ideal): (&FlowResult, &f64)| !flow.background && *ideal > 0.0;
    epoch.to_s > epoch.from_s && run.flows.iter().zip(&epoch.ideal_bps).any(active)
}

fn event(star: &Star, run: &RunResult, epoch: &EpochResult) -> Event {
    // What the link loses at random does not come, whatever is asked for.
    let comes = 1.0 - star.loss;
    let active: Vec<(&FlowResult, f64)> = run
        .flows
        .iter()
        .zip(&epoch.ideal_bps)
        .filter(|(f, ideal)| !f.background && **ideal > 0.0)
        .map(|(f, i)| (f, i * comes))
        .collect();
    // The interval that an event falls into began with the flows of before.
    let is_near = |flow: &&FlowResult| !flow.background && flow.start_s <= epoch.from_s && flow.stop_s >= epoch.from_s;
    let rtt_s = run.flows.iter().filter(is_near).map(|flow| flow.rtt_ms).fold(0.0, f64::max) / 1e3;
    let interval_s = (INTERVAL_RTTS * rtt_s).max(INTERVAL_S_MIN);
    let packet = |flow: &FlowResult| f64::from(star.mtu_of(&flow.name)) * 8.0;
    let window_s = active.iter().map(|(flow, ideal)| window_packets(star.loss) * packet(flow) / ideal);
    let window_s = window_s.fold(interval_s, f64::max);
    let judged: Vec<(&Trajectory, f64)> = active.iter().map(|(flow, ideal)| (&flow.trajectory, *ideal)).collect();
    let took = convergence_s(&judged, epoch.from_s, epoch.to_s, window_s, TOLERANCE);
    let rate = |flow: &FlowResult, from_s: f64| flow.trajectory.rate_bps(from_s, epoch.to_s);
    let half_s = (epoch.from_s + epoch.to_s) / 2.0;
    let settled_s = (epoch.from_s + SHOULD * interval_s).min(half_s);
    let had: f64 = active.iter().map(|(flow, _)| rate(flow, settled_s)).sum();
    Event {
        at_s: epoch.from_s,
        is_join: epoch.is_join,
        flows: active.len(),
        interval_s,
        intervals: took.map(|s| s / interval_s),
        worst: active.iter().map(|(flow, ideal)| rate(flow, half_s) / ideal).fold(f64::INFINITY, f64::min),
        aggregate: had / active.iter().map(|(_, ideal)| ideal).sum::<f64>(),
    }
}

/// Many stars together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Total {
    /// Stars.
    pub stars: usize,
    /// Runs that broke a rule, or lost a flow.
    pub invalid: usize,
    /// Joins, those that had their shares after three central intervals, and after eight.
    pub joins: [usize; 3],
    /// The same of leaves.
    pub leaves: [usize; 3],
    /// The least part of its share that any flow had over the second half of an epoch.
    pub worst: f64,
    /// The mean over the events of what all had over what they should have had, and the least.
    pub aggregate: f64,
    /// The least of it.
    pub aggregate_min: f64,
    /// Mean loss beyond what links lose at random, and the most.
    pub excess_loss: f64,
    /// The most of it.
    pub excess_loss_max: f64,
}

/// Adds up.
pub fn total<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Total {
    let mut total = Total { worst: f64::INFINITY, aggregate_min: f64::INFINITY, ..Total::default() };
    let mut events = 0;
    for verdict in verdicts {
        total.stars += 1;
        total.invalid += usize::from(!verdict.valid);
        total.excess_loss += verdict.excess_loss;
        total.excess_loss_max = total.excess_loss_max.max(verdict.excess_loss);
        for event in &verdict.events {
            let count = if event.is_join { &mut total.joins } else { &mut total.leaves };
            let within = |most: f64| usize::from(event.intervals.is_some_and(|intervals| intervals <= most));
            count[0] += 1;
            count[1] += within(SHOULD);
            count[2] += within(MUST);
            total.worst = total.worst.min(event.worst);
            total.aggregate += event.aggregate;
            total.aggregate_min = total.aggregate_min.min(event.aggregate);
            events += 1;
        }
    }
    total.aggregate /= f64::from(events.max(1));
    total.excess_loss /= total.stars.max(1) as f64;
    total
}
