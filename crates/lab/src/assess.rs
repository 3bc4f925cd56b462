//! Computes the result of a finished run.

use std::collections::BTreeMap;

use inhaul_base::{Span, Time};
use inhaul_sim::LinkId;

use crate::ideal::{Epoch, epochs};
use crate::metrics::{self, Trajectory};
use crate::outcome::{FlowOutcome, LinkOutcome, Losses, Outcome};
use crate::result::{EpochResult, FlowResult, GroupResult, LinkResult, Metrics, Point, RunResult, ScaleIndex};
use crate::scenario::{FlowPlan, Plan};

/// How near to its ideal a flow must be to count as converged.
const CONVERGED: f64 = 0.1;
/// Central intervals are this many RTTmax (gtp-2004 4.2): the window of convergence times.
const CENTRAL_INTERVAL_RTTS: u64 = 3;
/// Time scales of the fairness index: those of fhstcp-2005 Figure 3, and shorter ones.
const SCALES_S: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 150.0];

/// The stability index is of rates over this time, ...
const STABILITY_S: f64 = 1.0;
/// ... over this part of the measured time where that is shorter than ten of it, ...
const STABILITY_PART: f64 = 0.1;
/// ... and always over at least this many samples: between them trajectories are straight.
const STABILITY_SAMPLES: u64 = 2;

/// The whole result, except the fields that the runner sets (experiment, case, seed, validity).
pub(crate) fn assess(plan: &Plan, outcome: &Outcome) -> RunResult {
    debug_assert_eq!(plan.flows.len(), outcome.flows.len());
    let stops: Vec<Time> = outcome.flows.iter().map(|flow| flow.stop).collect();
    let mut flows: Vec<FlowResult> = (0..).zip(&outcome.flows).map(|(k, seen)| flow(plan, k, seen)).collect();
    share_efficiencies(plan, &mut flows);
    let epochs = epochs(plan, &stops);
    let measured = measured_time(plan, outcome);
    for (k, flow) in flows.iter_mut().enumerate() {
        flow.measured_bps = flow.trajectory.rate_bps(measured[0], measured[1]);
        flow.ideal_bps = ideal_over(&epochs, k, measured).map(|rate| rate * flow.efficiency);
    }
    let epochs: Vec<EpochResult> = epochs.iter().map(|epoch| epoch_result(plan, epoch, &flows)).collect();
    let lost: Vec<Losses> = outcome.flows.iter().map(FlowOutcome::losses).collect();
    let rivals = Rivals { plan, measured };
    let mut metrics = run_metrics(&flows, &epochs, &rivals, &lost);
    let gigabytes = flows.iter().map(|flow| flow.bytes as f64 / 1e9).sum::<f64>();
    if let Some((senders_s, receivers_s)) = outcome.cpu_s.filter(|_| gigabytes > 0.0) {
        metrics.sender_cpu_s_per_gb = Some(senders_s / gigabytes);
        metrics.receiver_cpu_s_per_gb = Some(receivers_s / gigabytes);
    }
    RunResult {
        backend: outcome.backend.to_owned(),
        duration_s: outcome.ended.as_secs_f64(),
        measured_s: measured,
        groups: groups(&flows, &rivals, &lost),
        links: outcome.links.iter().map(|seen| link(seen, outcome.ended, measured)).collect(),
        epochs,
        metrics,
        packet_hops: outcome.packet_hops,
        trace: outcome.trace.clone(),
        flows,
        ..RunResult::default()
    }
}

/// What headers leave is a matter of protocol and MTU: the best that any flow of the same kind came to. A flow that
/// hardly moved spent its few packets on set-up, which says nothing about headers.
fn share_efficiencies(plan: &Plan, flows: &mut [FlowResult]) {
    let kind = |k: usize| (plan.flows[k].protocol.name, plan.flows[k].mtu);
    let mut best: BTreeMap<(&str, u16), f64> = BTreeMap::new();
    for (k, flow) in flows.iter().enumerate() {
        let known = best.entry(kind(k)).or_default();
        *known = known.max(flow.efficiency);
    }
    for (k, flow) in flows.iter_mut().enumerate() {
        flow.efficiency = best.get(&kind(k)).copied().filter(|best| *best > 0.0).unwrap_or(1.0);
    }
}

/// The scenario's time, as far as the run went. If every measured flow fetched an object, it ends with the last of
/// them: later time does not belong to a transfer, and would make its rate smaller.
fn measured_time(plan: &Plan, outcome: &Outcome) -> [f64; 2] {
    let from = plan.measure.0.min(outcome.ended);
    let to = plan.measure.1.min(outcome.ended);
    let measured = || plan.flows.iter().zip(&outcome.flows).filter(|(flow, _)| !flow.background);
    let last = measured().map(|(_, seen)| seen.stop).max().filter(|_| measured().all(|(flow, _)| !flow.endless));
    let to = last.filter(|last| *last > from).map_or(to, |last| last.min(to));
    [from.as_secs_f64(), to.as_secs_f64()]
}

/// Part of the measured time for which flows must be active together to be rivals.
const TOGETHER: f64 = 0.9;
/// By how much of the largest the fair rates of rivals may differ: protocols differ in their headers.
const ALIKE: f64 = 0.1;
/// Part of its rate from which on a link is full in the fair allocation.
const FULL: f64 = 0.98;

/// The competing flows of the measured time. Jain's index has a meaning only for competing flows: others have other
/// bottlenecks, other limits, or other times.
struct Rivals<'a> {
    plan: &'a Plan,
    measured: [f64; 2],
}

impl Rivals<'_> {
    /// Whether these flows, by their numbers, were active together and shared what limited all of them.
    fn are(&self, flows: &[FlowResult], numbers: &[usize]) -> bool {
        let [from_s, to_s] = self.measured;
        let start = numbers.iter().map(|k| flows[*k].start_s).fold(from_s, f64::max);
        let stop = numbers.iter().map(|k| flows[*k].stop_s).fold(to_s, f64::min);
        let ideals = || numbers.iter().map(|k| flows[*k].ideal_bps.unwrap_or(0.0));
        let (least, most) = ideals().fold((f64::INFINITY, 0.0), |(least, most), x| (x.min(least), x.max(most)));
        let are_together = stop - start >= TOGETHER * (to_s - from_s);
        let are_alike = least >= most * (1.0 - ALIKE);
        let are_free = || !numbers.iter().all(|k| self.is_limited_alone(flows, *k, numbers));
        numbers.len() >= 2 && are_together && are_alike && self.share(numbers) && are_free()
    }

    /// Whether a flow would get no more if the others were gone: its own limit, or a link that is not on the path of all
    /// of them, is full in the fair allocation.
    fn is_limited_alone(&self, flows: &[FlowResult], number: usize, numbers: &[usize]) -> bool {
        // With headers, as links count.
        let fair = |k: usize| flows[k].ideal_bps.unwrap_or(0.0) / flows[k].efficiency.max(1e-9);
        let planned = &self.plan.flows[number];
        let limits = [planned.limits.application_rate, planned.limits.link_rate];
        let is_full = |link: &LinkId| {
            let rate = self.plan.topology.link_spec(*link).and_then(|spec| spec.rate);
            let taken = (0..flows.len()).filter(|k| self.plan.flows[*k].path.contains(link)).map(fair).sum::<f64>();
            rate.is_some_and(|rate| taken >= FULL * rate.as_f64())
        };
        let is_own = |link: &&LinkId| !numbers.iter().all(|k| self.plan.flows[*k].path.contains(*link));
        limits.into_iter().flatten().any(|limit| fair(number) >= FULL * limit.as_f64())
            || planned.path.iter().filter(is_own).any(is_full)
    }

    /// Whether something of a limited rate is on the path of all of them: a link, or a host that is.
    fn share(&self, numbers: &[usize]) -> bool {
        let Some((first, others)) = numbers.split_first() else { return false };
        let plan = self.plan;
        let flow = |k: &usize| &plan.flows[*k];
        let is_limited = |link| plan.topology.link_spec(link).is_some_and(|spec| spec.rate.is_some());
        let has_rate = |endpoint: usize| plan.endpoints[endpoint].host_rate.is_some();
        let on_all = |link| others.iter().all(|k| flow(k).path.contains(&link));
        let at_all = |of: fn(&FlowPlan) -> usize| {
            has_rate(of(flow(first))) && others.iter().all(|k| of(flow(k)) == of(flow(first)))
        };
        flow(first).path.iter().any(|link| is_limited(*link) && on_all(*link))
            || at_all(|flow| flow.sender)
            || at_all(|flow| flow.receiver)
    }
}

fn flow(plan: &Plan, k: usize, seen: &FlowOutcome) -> FlowResult {
    let planned = &plan.flows[k];
    let (start_s, stop_s) = (planned.start.as_secs_f64(), seen.stop.as_secs_f64());
    let mut trajectory = Trajectory::starting_at(start_s);
    for (at, bytes) in &seen.samples {
        trajectory.push(at.as_secs_f64().min(stop_s), *bytes as f64);
    }
    trajectory.push(stop_s, seen.bytes as f64);
    FlowResult {
        name: planned.name.clone(),
        protocol: planned.protocol.name.to_owned(),
        group: planned.group.clone(),
        background: planned.background,
        rtt_ms: planned.rtt.as_millis_f64(),
        rtt_measured_ms: seen.rtt.map(Span::as_millis_f64),
        start_s,
        stop_s,
        bytes: seen.bytes,
        goodput_bps: trajectory.rate_bps(start_s, stop_s),
        loss_ratio: seen.losses().ratio(),
        held_s: seen.held.map(Span::as_secs_f64),
        failure: seen.failure.clone(),
        series: series(&trajectory),
        trajectory,
        efficiency: if seen.wire_bytes > 0 { (seen.data_bytes as f64 / seen.wire_bytes as f64).min(1.0) } else { 0.0 },
        ..FlowResult::default()
    }
}

fn series(trajectory: &Trajectory) -> Vec<Point> {
    let rates = trajectory.points().windows(2).map(|pair| (pair[1].0, trajectory.rate_bps(pair[0].0, pair[1].0)));
    rates.map(|(t_s, goodput_bps)| Point { t_s, goodput_bps }).collect()
}

/// Mean of a flow's fair rate over a time, headers included; `None` if it was never active in it.
fn ideal_over(epochs: &[Epoch], flow: usize, [from_s, to_s]: [f64; 2]) -> Option<f64> {
    let overlap = |epoch: &Epoch| (epoch.to.as_secs_f64().min(to_s) - epoch.from.as_secs_f64().max(from_s)).max(0.0);
    let bits: f64 = epochs.iter().map(|epoch| epoch.rates_bps[flow] * overlap(epoch)).sum();
    (bits > 0.0 && to_s > from_s).then(|| bits / (to_s - from_s))
}

fn epoch_result(plan: &Plan, epoch: &Epoch, flows: &[FlowResult]) -> EpochResult {
    let ideal_bps: Vec<f64> = flows.iter().zip(&epoch.rates_bps).map(|(flow, rate)| rate * flow.efficiency).collect();
    let (from_s, to_s) = (epoch.from.as_secs_f64(), epoch.to.as_secs_f64());
    let active: Vec<usize> = (0..flows.len()).filter(|k| !flows[*k].background && ideal_bps[*k] > 0.0).collect();
    let rtt_max = active.iter().map(|k| plan.flows[*k].rtt).max().unwrap_or_default();
    // A window shorter than the record's interval would measure straight lines between samples.
    let window_s = (rtt_max * CENTRAL_INTERVAL_RTTS).max(plan.record * 2).as_secs_f64();
    let judged: Vec<(&Trajectory, f64)> = active.iter().map(|k| (&flows[*k].trajectory, ideal_bps[*k])).collect();
    let rates: Vec<f64> = judged.iter().map(|(trajectory, _)| trajectory.rate_bps(from_s, to_s)).collect();
    let ideals: Vec<f64> = judged.iter().map(|(_, ideal)| *ideal).collect();
    EpochResult {
        from_s,
        to_s,
        flows: active.len(),
        convergence_s: metrics::convergence_s(&judged, from_s, to_s, window_s, CONVERGED),
        jain_index_ideal: metrics::jain_index_against(&rates, &ideals),
        is_join: epoch.is_join,
        ideal_bps,
    }
}

fn run_metrics(flows: &[FlowResult], epochs: &[EpochResult], rivals: &Rivals<'_>, lost: &[Losses]) -> Metrics {
    let [from_s, to_s] = rivals.measured;
    let numbers: Vec<usize> = (0..flows.len()).filter(|k| !flows[*k].background).collect();
    let are_rivals = rivals.are(flows, &numbers);
    let measured: Vec<&FlowResult> = flows.iter().filter(|flow| !flow.background).collect();
    let rates: Vec<f64> = measured.iter().map(|flow| flow.measured_bps).collect();
    let ideals: Vec<f64> = measured.iter().map(|flow| flow.ideal_bps.unwrap_or(0.0)).collect();
    let ideal: f64 = ideals.iter().sum();
    let aggregate: f64 = rates.iter().sum();
    let of_measured = flows.iter().zip(lost).filter(|(flow, _)| !flow.background);
    let trajectories: Vec<&Trajectory> = measured.iter().map(|flow| &flow.trajectory).collect();
    let populated: Vec<&EpochResult> =
        epochs.iter().filter(|epoch| epoch.flows > 0 && epoch.to_s > epoch.from_s).collect();
    let converged: Vec<f64> = populated.iter().filter_map(|epoch| epoch.convergence_s).collect();
    let stability_s = stability_interval_s(rivals.plan.record, to_s - from_s);
    let active: Vec<(&Trajectory, f64, f64)> =
        measured.iter().map(|flow| (&flow.trajectory, flow.start_s.max(from_s), flow.stop_s.min(to_s))).collect();
    let scales = SCALES_S.into_iter().filter(|scale| *scale < to_s - from_s - 1e-9).chain([to_s - from_s]);
    Metrics {
        jain_index: metrics::jain_index(&rates).filter(|_| are_rivals),
        jain_index_ideal: metrics::jain_index_against(&rates, &ideals),
        min_max_ratio: metrics::min_max_ratio(&rates),
        aggregate_goodput_bps: aggregate,
        aggregate_over_ideal: (ideal > 0.0).then(|| aggregate / ideal),
        convergence_s: populated.iter().rev().find(|epoch| epoch.from_s < to_s).and_then(|epoch| epoch.convergence_s),
        convergence_mean_s: metrics::estimate(&converged).map(|estimate| estimate.mean),
        converged_ratio: (!populated.is_empty()).then(|| converged.len() as f64 / populated.len() as f64),
        stability_index: metrics::stability_index(&active, stability_s),
        stability_interval_s: Some(stability_s),
        influence_ratio: None,
        sender_cpu_s_per_gb: None,
        receiver_cpu_s_per_gb: None,
        loss_ratio: of_measured.map(|(_, losses)| *losses).fold(Losses::default(), Losses::and).ratio(),
        jain_by_scale: scales
            .map(|scale_s| ScaleIndex {
                scale_s,
                jain_index: metrics::jain_at_scale(&trajectories, from_s, to_s, scale_s).filter(|_| are_rivals),
            })
            .collect(),
    }
}

/// Length of the windows of the stability index.
fn stability_interval_s(record: Span, measured_s: f64) -> f64 {
    STABILITY_S.min(measured_s * STABILITY_PART).max((record * STABILITY_SAMPLES).as_secs_f64())
}

fn groups(flows: &[FlowResult], rivals: &Rivals<'_>, lost: &[Losses]) -> Vec<GroupResult> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (k, flow) in flows.iter().enumerate() {
        if let Some(group) = &flow.group {
            members.entry(group).or_default().push(k);
        }
    }
    let group = |(name, members): (&str, Vec<usize>)| {
        let rates: Vec<f64> = members.iter().map(|k| flows[*k].measured_bps).collect();
        GroupResult {
            name: name.to_owned(),
            flows: members.len(),
            measured_bps: rates.iter().sum(),
            jain_index: metrics::jain_index(&rates).filter(|_| rivals.are(flows, &members)),
            loss_ratio: members.iter().map(|k| lost[*k]).fold(Losses::default(), Losses::and).ratio(),
        }
    };
    members.into_iter().map(group).collect()
}

fn link(seen: &LinkOutcome, ended: Time, measured: [f64; 2]) -> LinkResult {
    let used = |bytes: f64, seconds: f64| {
        seen.rate_bps.filter(|_| seconds > 0.0).map(|rate| bytes * 8.0 / (rate as f64 * seconds))
    };
    let carried = carried_between(&seen.series, measured);
    LinkResult {
        name: seen.name.clone(),
        rate_bps: seen.rate_bps,
        utilisation: used(seen.carried_bytes as f64, ended.as_secs_f64()),
        measured_utilisation: carried.and_then(|bytes| used(bytes, measured[1] - measured[0])),
        drop_ratio: seen.dropped_packets as f64 / seen.offered_packets.max(1) as f64,
        queue_bytes_max: seen.queue_bytes_max,
    }
}

/// Bytes that a link carried in a time.
fn carried_between(samples: &[(Time, u64)], [from_s, to_s]: [f64; 2]) -> Option<f64> {
    let mut carried = Trajectory::starting_at(0.0);
    for (at, bytes) in samples {
        carried.push(at.as_secs_f64(), *bytes as f64);
    }
    (!samples.is_empty()).then(|| carried.bytes_at(to_s) - carried.bytes_at(from_s))
}
