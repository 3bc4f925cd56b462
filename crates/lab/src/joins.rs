//! Joins and leaves of flows in drawn networks, judged against max-min fairness.

use serde::Serialize;

use crate::metrics::{Trajectory, convergence_s};
use crate::result::{EpochResult, FlowResult, RunResult};

/// Central intervals are this many RTTmax, ...
pub(crate) const INTERVAL_RTTS: f64 = 3.0;
/// ... and not shorter than this (PROTOCOL.md 6.5).
pub(crate) const INTERVAL_S_MIN: f64 = 0.02;
/// How near to its fair share a flow must be.
const TOLERANCE: f64 = 0.1;
/// Central intervals after an event within which a flow should, and must, have its share.
const SHOULD: f64 = 3.0;
const MUST: f64 = 8.0;

/// Rates are means over a central interval, but over at least this many packets of the slowest flow: random loss makes
/// a mean of n packets uncertain by sqrt(p / n (1 - p)), and it takes 1.6 % of that for chance alone not to break a
/// tolerance of a tenth.
pub(crate) fn window_packets(loss: f64) -> f64 {
    50.0 + 4_000.0 * loss / (1.0 - loss)
}

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
    /// The sum of rates over the sum of ideal rates, from the third central interval on.
    pub aggregate: f64,
}

/// Joins or leaves: total, number with fair shares after three central intervals, and after eight.
pub type Counts = [usize; 3];

/// Counts an event among joins or leaves.
pub(crate) fn count(event: &Event, joins: &mut Counts, leaves: &mut Counts) {
    let counts = if event.is_join { joins } else { leaves };
    let within = |most: f64| usize::from(event.intervals.is_some_and(|intervals| intervals <= most));
    counts[0] += 1;
    counts[1] += within(SHOULD);
    counts[2] += within(MUST);
}

/// The joins and leaves of a run whose links lose `loss` at random, where a flow has packets of `mtu_of` its name.
pub(crate) fn events(run: &RunResult, loss: f64, mtu_of: &dyn Fn(&str) -> u16) -> Vec<Event> {
    let epochs = run.epochs.iter().filter(|epoch| is_between_events(epoch, run));
    epochs.map(|epoch| event(run, epoch, loss, mtu_of)).collect()
}

/// Whether measured flows are active, and for some time.
fn is_between_events(epoch: &EpochResult, run: &RunResult) -> bool {
    let active = |(flow, ideal): (&FlowResult, &f64)| !flow.background && *ideal > 0.0;
    epoch.to_s > epoch.from_s && run.flows.iter().zip(&epoch.ideal_bps).any(active)
}

fn event(run: &RunResult, epoch: &EpochResult, loss: f64, mtu_of: &dyn Fn(&str) -> u16) -> Event {
    // The link's random losses reduce arrivals at every requested rate.
    let comes = 1.0 - loss;
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
    let packet = |flow: &FlowResult| f64::from(mtu_of(&flow.name)) * 8.0;
    let window_s = active.iter().map(|(flow, ideal)| window_packets(loss) * packet(flow) / ideal);
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
