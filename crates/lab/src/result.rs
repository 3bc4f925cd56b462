//! The result of a run: the object that `--json` prints. docs/json.md is its reference.

use std::collections::BTreeMap;

use inhaul_base::{Span, Throughput};
use serde::{Deserialize, Serialize};

use crate::metrics::Trajectory;

/// One run. Rates are bits per second of data unless said otherwise; numbers that do not exist are `None`, null in
/// JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// The experiment, or the scenario's file.
    pub experiment: String,
    /// The cell of the sweep; empty if there is none.
    pub case: String,
    /// Its backend.
    pub backend: String,
    /// The seed that repeats it.
    pub seed: u64,
    /// Whether the run kept every rule of the simulator, or was emulated honestly. Where it did not, it proves
    /// nothing.
    pub valid: bool,
    /// Why it is not valid.
    pub invalid_reason: Option<String>,
    /// How often it was run: emulated runs that the host disturbed may be run again. Zero: once, in the simulator.
    pub attempts: u32,
    /// How long the run lasted, in seconds of its own time.
    pub duration_s: f64,
    /// Begin and end of the time that the metrics are about, in seconds. It ends with the last transfer, where every
    /// flow that is measured has its own size.
    pub measured_s: [f64; 2],
    /// The flows, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// Flows taken together, by the scenario's `group`.
    pub groups: Vec<GroupResult>,
    /// The links that carried something, in the order of the topology.
    pub links: Vec<LinkResult>,
    /// The stretches of time in which the same flows were active over the same links.
    pub epochs: Vec<EpochResult>,
    /// The run's metrics.
    pub metrics: Metrics,
    /// The paper's values, by the name of the quantity.
    pub published: BTreeMap<String, f64>,
    /// The checks, with expected and actual values.
    pub checks: Vec<Verdict>,
    /// Packets that came over links.
    pub packet_hops: u64,
    /// Fingerprint of the run's events, after [`TRACE_FORM`], in hexadecimal: equal for equal runs. Empty where time is
    /// real.
    pub trace: String,
}

/// What traces begin with: the form of the fingerprint. Traces of different forms cannot be compared.
pub const TRACE_FORM: &str = "2-";

/// One flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: String,
    /// The group it belongs to.
    pub group: Option<String>,
    /// Whether it is left out of the metrics.
    pub background: bool,
    /// Propagation round-trip time of its path, in milliseconds.
    pub rtt_ms: f64,
    /// Smoothed round-trip time at the end as the protocol measured it, queues included, in milliseconds.
    pub rtt_measured_ms: Option<f64>,
    /// When it started, in seconds.
    pub start_s: f64,
    /// When it was complete, was stopped, or the run ended, in seconds.
    pub stop_s: f64,
    /// Data that it was the first to deliver, in bytes.
    pub bytes: u64,
    /// `bytes` over the time from start to stop.
    pub goodput_bps: f64,
    /// Mean rate over the measured time.
    pub measured_bps: f64,
    /// Max-min fair rate over the measured time, of data; `None` if it was not active then.
    pub ideal_bps: Option<f64>,
    /// Data packets lost over data packets received and lost.
    pub loss_ratio: f64,
    /// How long its sender was silent because the receiver had said when it would not run, in seconds; `None` where
    /// that is not known.
    #[serde(default = "never_held")]
    pub held_s: Option<f64>,
    /// Why it ended badly, if it did.
    pub failure: Option<String>,
    /// Its mean rates, one after the other.
    pub series: Vec<Point>,
    /// How much it had delivered by when.
    #[serde(skip)]
    pub trajectory: Trajectory,
    /// Data over everything it received, headers included.
    #[serde(skip)]
    pub efficiency: f64,
}

/// Older results lack this field: their flows were not held.
const fn never_held() -> Option<f64> {
    Some(0.0)
}

/// A mean rate over the time since the point before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// End of that time, in seconds.
    pub t_s: f64,
    /// Bits per second.
    pub goodput_bps: f64,
}

/// Flows taken together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupResult {
    /// The group.
    pub name: String,
    /// How many flows.
    pub flows: usize,
    /// Sum of their mean rates over the measured time.
    pub measured_bps: f64,
    /// Jain's index of these rates; `None` where they do not compete, as in [`Metrics::jain_index`].
    pub jain_index: Option<f64>,
    /// Their data packets lost over received and lost.
    pub loss_ratio: f64,
}

/// One link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkResult {
    /// Its name.
    pub name: String,
    /// Its rate at the start, headers included; `None`: no limit.
    pub rate_bps: Option<u64>,
    /// Part of its rate that was used over the whole run.
    pub utilisation: Option<f64>,
    /// Part of its rate that was used over the measured time.
    pub measured_utilisation: Option<f64>,
    /// Packets dropped or lost over packets offered.
    pub drop_ratio: f64,
    /// Most bytes that waited for the transmitter.
    pub queue_bytes_max: u64,
}

/// A stretch of time between two events: starts and stops of flows, changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EpochResult {
    /// When it began, in seconds.
    pub from_s: f64,
    /// When it ended, in seconds.
    pub to_s: f64,
    /// Measured flows that were active.
    pub flows: usize,
    /// Time until each of them had its max-min fair share within 10 %, for as long as the epoch lasted.
    pub convergence_s: Option<f64>,
    /// Jain's index of their mean rates against the ideal.
    pub jain_index_ideal: Option<f64>,
    /// Max-min fair rate of data of each flow, by its number; 0 for inactive flows.
    pub ideal_bps: Vec<f64>,
    /// Whether a measured flow starts with it.
    #[serde(skip)]
    pub is_join: bool,
}

/// A run's metrics. All except the last are over the measured time, without background flows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Jain's fairness index of the flows' rates. `None` unless two or more of them compete: they are active together
    /// in the measured time, share a link or host of limited rate, and have the same fair rate.
    pub jain_index: Option<f64>,
    /// Jain's index of the flows' rates over their max-min fair ones; `None` of less than two flows.
    pub jain_index_ideal: Option<f64>,
    /// Smallest rate over largest.
    pub min_max_ratio: Option<f64>,
    /// Sum of the flows' rates.
    pub aggregate_goodput_bps: f64,
    /// That over the sum of the max-min fair rates.
    pub aggregate_over_ideal: Option<f64>,
    /// Time from the last event before the end of the measured time until all flows had their max-min fair share
    /// within 10 %, and kept it.
    pub convergence_s: Option<f64>,
    /// Mean of the convergence times of the epochs that converged.
    pub convergence_mean_s: Option<f64>,
    /// Part of the epochs that converged.
    pub converged_ratio: Option<f64>,
    /// Data packets lost over received and lost, whole run.
    pub loss_ratio: f64,
    /// Mean over the flows of the standard deviation of a flow's rate over its mean: the smaller, the more stable. `None`
    /// in results that were kept before it was known.
    pub stability_index: Option<f64>,
    /// Length of the windows of these rates, in seconds.
    pub stability_interval_s: Option<f64>,
    /// A flow's rate beside the others, over its rate alone (eval-2004's influence ratio); `None` if the experiment
    /// does not ask for it.
    pub influence_ratio: Option<f64>,
    /// Processor time of the senders for a gigabyte (1e9 bytes) of data, in seconds; `None` where none is spent, as in
    /// the simulator.
    pub sender_cpu_s_per_gb: Option<f64>,
    /// The same of the receivers.
    pub receiver_cpu_s_per_gb: Option<f64>,
    /// Jain's index at time scales; `None` where [`Metrics::jain_index`] is.
    pub jain_by_scale: Vec<ScaleIndex>,
}

/// Fairness at a time scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleIndex {
    /// Length of the windows, in seconds.
    pub scale_s: f64,
    /// Mean of Jain's index over the windows that fit into the measured time.
    pub jain_index: Option<f64>,
}

/// A check, and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The check.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
    /// Whether the check passed.
    pub passed: bool,
}

impl RunResult {
    /// A quantity by its path: `metrics.jain_index`, `metrics.jain_at.50`, `flows.NAME.measured_bps`,
    /// `groups.NAME.loss_ratio`, `links.NAME.utilisation`; rates of flows and groups over a time of one's own as
    /// `flows.NAME.goodput_bps[2.5..3]`. `None` when it does not exist.
    pub fn quantity(&self, path: &str) -> Option<f64> {
        let (path, window) = match path.strip_suffix(']').and_then(|path| path.split_once('[')) {
            Some((path, window)) => (path, Some(parse_window(window)?)),
            None => (path, None),
        };
        let (kind, rest) = path.split_once('.')?;
        if kind == "metrics" {
            return self.metrics.quantity(rest);
        }
        let (name, field) = rest.rsplit_once('.')?;
        match kind {
            "flows" if field == "of_rest" => self.of_rest(name),
            "flows" if field == "share" => self.share(name),
            "flows" | "groups" if matches!(field, "deviation_bps" | "maximum_bps") => {
                let is_meant = |flow: &&FlowResult| match kind {
                    "flows" => flow.name == name,
                    _ => flow.group.as_deref() == Some(name),
                };
                let samples = self.samples(self.flows.iter().filter(is_meant))?;
                Some(if field == "deviation_bps" {
                    deviation(&samples)
                } else {
                    samples.into_iter().fold(0.0, f64::max)
                })
            }
            "flows" => self.flows.iter().find(|flow| flow.name == name)?.quantity(field, window),
            "groups" => self.group_quantity(name, field, window),
            "links" => self.links.iter().find(|link| link.name == name)?.quantity(field),
            _ => None,
        }
    }

    /// A flow's part of the sum of all measured flows.
    fn share(&self, name: &str) -> Option<f64> {
        let all: f64 = self.measured_flows().map(|flow| flow.measured_bps).sum();
        let flow = self.measured_flows().find(|flow| flow.name == name)?;
        (all > 0.0).then(|| flow.measured_bps / all)
    }

    /// The rates of flows together, one after the other over the measured time; `None` if there is none.
    fn samples<'a>(&self, flows: impl Iterator<Item = &'a FlowResult>) -> Option<Vec<f64>> {
        let [from, to] = self.measured_s;
        let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
        for point in flows.flat_map(|flow| &flow.series).filter(|point| point.t_s > from && point.t_s <= to) {
            *sums.entry((point.t_s * 1e6).round() as u64).or_default() += point.goodput_bps;
        }
        (!sums.is_empty()).then(|| sums.into_values().collect())
    }

    /// A flow's rate over the part of all ideal rates that the others left.
    fn of_rest(&self, name: &str) -> Option<f64> {
        let ideal: f64 = self.measured_flows().filter_map(|flow| flow.ideal_bps).sum();
        let others: f64 = self.measured_flows().filter(|flow| flow.name != name).map(|flow| flow.measured_bps).sum();
        let flow = self.measured_flows().find(|flow| flow.name == name)?;
        (ideal > others).then(|| flow.measured_bps / (ideal - others))
    }

    fn group_quantity(&self, name: &str, field: &str, window: Option<(f64, f64)>) -> Option<f64> {
        let members = || self.flows.iter().filter(|flow| flow.group.as_deref() == Some(name));
        if let Some((from, to)) = window {
            let is_rate = field == "goodput_bps" && members().next().is_some();
            return is_rate.then(|| members().map(|flow| flow.trajectory.rate_bps(from, to)).sum());
        }
        let group = self.groups.iter().find(|group| group.name == name)?;
        match field {
            "measured_bps" => Some(group.measured_bps),
            "jain_index" => group.jain_index,
            "loss_ratio" => Some(group.loss_ratio),
            _ => None,
        }
    }

    /// The flows that the metrics are about.
    pub fn measured_flows(&self) -> impl Iterator<Item = &FlowResult> {
        self.flows.iter().filter(|flow| !flow.background)
    }
}

/// Standard deviation of all there is.
fn deviation(samples: &[f64]) -> f64 {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    (samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn parse_window(text: &str) -> Option<(f64, f64)> {
    let (from, to) = text.split_once("..")?;
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
}

impl FlowResult {
    /// Its delivered bytes in a time, as far as it was active, and the length of that time.
    pub fn throughput(&self, [from_s, to_s]: [f64; 2]) -> Throughput {
        let (from_s, to_s) = (from_s.max(self.start_s), to_s.min(self.stop_s));
        let bytes = self.trajectory.bytes_at(to_s) - self.trajectory.bytes_at(from_s);
        Throughput::of(bytes.max(0.0).round() as u64, Span::from_secs_f64(to_s - from_s))
    }

    fn quantity(&self, field: &str, window: Option<(f64, f64)>) -> Option<f64> {
        match (field, window) {
            ("goodput_bps", Some((from, to))) => Some(self.trajectory.rate_bps(from, to)),
            (_, Some(_)) => None,
            ("goodput_bps", None) => Some(self.goodput_bps),
            ("measured_bps", None) => Some(self.measured_bps),
            ("ideal_bps", None) => self.ideal_bps,
            ("over_ideal", None) => self.ideal_bps.map(|ideal| self.measured_bps / ideal),
            ("loss_ratio", None) => Some(self.loss_ratio),
            ("held_s", None) => self.held_s,
            ("duration_s", None) => Some(self.stop_s - self.start_s),
            _ => None,
        }
    }
}

impl LinkResult {
    fn quantity(&self, field: &str) -> Option<f64> {
        match field {
            "utilisation" => self.utilisation,
            "measured_utilisation" => self.measured_utilisation,
            "drop_ratio" => Some(self.drop_ratio),
            "queue_bytes_max" => Some(self.queue_bytes_max as f64),
            _ => None,
        }
    }
}

impl Metrics {
    fn quantity(&self, field: &str) -> Option<f64> {
        match field {
            "jain_index" => self.jain_index,
            "jain_index_ideal" => self.jain_index_ideal,
            "min_max_ratio" => self.min_max_ratio,
            "aggregate_goodput_bps" => Some(self.aggregate_goodput_bps),
            "aggregate_over_ideal" => self.aggregate_over_ideal,
            "convergence_s" => self.convergence_s,
            "convergence_mean_s" => self.convergence_mean_s,
            "converged_ratio" => self.converged_ratio,
            "stability_index" => self.stability_index,
            "influence_ratio" => self.influence_ratio,
            "sender_cpu_s_per_gb" => self.sender_cpu_s_per_gb,
            "receiver_cpu_s_per_gb" => self.receiver_cpu_s_per_gb,
            "loss_ratio" => Some(self.loss_ratio),
            _ => {
                let scale: f64 = field.strip_prefix("jain_at.")?.parse().ok()?;
                self.jain_by_scale.iter().find(|index| index.scale_s == scale)?.jain_index
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_and_maximum_are_those_of_the_measured_samples() {
        let flow = |name: &str, rates: &[f64]| FlowResult {
            name: name.to_owned(),
            group: Some("all".to_owned()),
            series: (1..).zip(rates).map(|(k, rate)| Point { t_s: f64::from(k), goodput_bps: *rate }).collect(),
            ..FlowResult::default()
        };
        let flows = vec![flow("a", &[9.0, 1.0, 3.0, 9.0]), flow("b", &[9.0, 4.0, 2.0, 9.0])];
        let result = RunResult { flows, measured_s: [1.0, 3.0], ..RunResult::default() };
        let quantities =
            ["flows.a.deviation_bps", "flows.a.maximum_bps", "groups.all.deviation_bps", "groups.all.maximum_bps"];
        assert_eq!(quantities.map(|path| result.quantity(path)), [Some(1.0), Some(3.0), Some(0.0), Some(5.0)]);
        assert_eq!(result.quantity("flows.c.maximum_bps"), None);
    }
}
