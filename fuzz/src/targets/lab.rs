//! The laboratory's input: scenarios, and kept results.

use inhaul_lab::Scenario;
use inhaul_lab::kept::{Changes, Kept, Origin};
use inhaul_lab::result::{EpochResult, FlowResult, Point, RunResult};

use super::samples;

/// A scenario, compiled as for a run.
pub fn scenario(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    Scenario::parse("fuzz.toml", text, &[]).is_ok()
}

/// A kept result. It can be written, and read again.
pub fn kept_result(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Ok(kept) = Kept::from_json(text) else { return false };
    assert!(Kept::from_json(&kept.to_json()).is_ok());
    true
}

const TWO_HOSTS: &str = r#"
# As little as a scenario may say: what is changed in it is often still one.
title = "two hosts"
duration = "10000 ms"
topology.graph = { hosts = ["a", "b"], links = [{ name = "link", from = "a", to = "b", link = { delay = "1000 us", loss = "0.125 %" } }] }
flows = [{ name = "flow", protocol = "gtp", from = "a", to = "b", size = "100000 B", start = "100 ms", mtu = 1500 }]
"#;

const STAR: &str = r#"
title = "a star"
duration = "2 s"
repetitions = 2
[topology.star]
access = { rate = "100 Mbit/s", queue = "5 ms", loss = "0.1 %" }
senders = [{ name = "s*", count = 3, rtt = "5 ms", rtt_max = "40 ms", link = { rate = "1G", jitter = "1 ms" } }]
[[flows]]
name = "f*"
protocol = "gtp"
from = "s*"
to = "receiver"
spread = "1 s"
[[changes]]
at = "1 s"
link = "access"
rate = "50 Mbit/s"
[[sweep]]
key = "flows.*.protocol"
values = ["gtp", "cubic"]
"#;

const DUMBBELL: &str = r#"
title = "a dumbbell"
duration = "500 ms"
[topology.dumbbell]
bottleneck = { rate = "10 Mbit/s", delay = "2 ms", queue = "20 packets", red = { min = 3, max = 15, probability = 0.1 } }
pairs = [{ sender = "a", receiver = "b", rtt = "20 ms" }]
[[hosts]]
name = "b"
packet_rate = 1e5
tasks = [{ share = 0.5, on = "10 ms", off = "20 ms", random = true }]
[[flows]]
name = "f"
protocol = "fhstcp"
parameters = { c = 10 }
from = "a"
to = "b"
size = "1 MB"
[[background.web]]
name = "w"
protocol = "reno"
from = "a"
to = "b"
arrivals_per_s = 2.0
mean_size = "30 kB"
shape = 1.2
[[background.udp]]
from = "a"
to = "b"
rate = "1 Mbit/s"
"#;

pub(super) fn scenarios() -> Vec<Vec<u8>> {
    samples::of_texts(&[TWO_HOSTS, STAR, DUMBBELL])
}

pub(super) fn kept_results() -> Vec<Vec<u8>> {
    let Ok(experiment) = inhaul_lab::find_experiment("gtp-2004/fig7") else { return Vec::new() };
    let Ok(scenario) = experiment.scenario(&[]) else { return Vec::new() };
    let points = (1..5).map(|k| Point { t_s: f64::from(k), goodput_bps: 1e6 * f64::from(k) });
    let flow = FlowResult { name: "f".to_owned(), stop_s: 5.0, series: points.collect(), ..FlowResult::default() };
    let epoch = EpochResult { to_s: 5.0, flows: 1, ideal_bps: vec![1e6], ..EpochResult::default() };
    let run =
        RunResult { duration_s: 5.0, valid: true, flows: vec![flow], epochs: vec![epoch], ..RunResult::default() };
    let mut runs = [run];
    let judgement = inhaul_lab::judge(&experiment, &mut runs);
    let kept = Kept::new(&experiment, &scenario, Changes::default(), Origin::default(), (&judgement, &runs));
    vec![kept.to_json().into_bytes()]
}
