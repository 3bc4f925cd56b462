//! Small scenarios in the simulator: the runner and its results.

use std::sync::atomic::{AtomicUsize, Ordering};

use inhaul_lab::{Backend, RunResult, Scenario, Watch, run_scenario};

const STAR: &str = r#"
title = "two senders, unequal round-trip times"
duration = "3 s"
record = "20 ms"
measure = { from = "1.5 s" }

[topology.star]
access = { rate = "100 Mbit/s", queue = "20 ms" }
senders = [
  { name = "near", rtt = "10 ms", link = { rate = "100 Mbit/s" } },
  { name = "far", rtt = "40 ms", link = { rate = "100 Mbit/s" } },
]

[[flows]]
name = "near"
protocol = "gtp"
from = "near"
to = "receiver"

[[flows]]
name = "far"
protocol = "gtp"
from = "far"
to = "receiver"
start = "1 s"
"#;

fn run(text: &str, threads: usize) -> Vec<RunResult> {
    let scenario = Scenario::parse("test.toml", text, &[]).unwrap_or_else(|error| panic!("{error}"));
    run_scenario(&scenario, "test", Backend::Sim { threads }, &())
}

#[test]
fn a_star_of_gtp_flows_is_shared_fairly() {
    let [result] = &run(STAR, 1)[..] else { panic!("one run") };
    assert!(result.valid, "{:?}", result.invalid_reason);
    assert!(result.metrics.jain_index.unwrap() > 0.99, "{:?}", result.metrics);
    assert!(result.metrics.aggregate_over_ideal.unwrap() > 0.9, "{:?}", result.metrics);
    // Half of the link, less what headers take.
    let ideal = result.flows[1].ideal_bps.unwrap();
    assert!((45e6..50e6).contains(&ideal), "{ideal}");
    assert_eq!(result.epochs.len(), 2);
    let json = serde_json::to_value(result).unwrap();
    assert_eq!(json["flows"][0]["rtt_ms"], 10.0);
}

/// Two flows over links with these properties, the first for as long as it likes, the second for this long.
fn jain_of(shared: &str, own: [&str; 2], second: &str) -> Option<f64> {
    let text = format!(
        r#"
title = "two flows"
duration = "300 ms"
record = "20 ms"
measure = {{ from = "100 ms" }}

[topology.graph]
hosts = ["a", "b", "c", "d"]
routers = ["r1", "r2"]
links = [
  {{ name = "a-r1", from = "a", to = "r1", link = {{ delay = "1 ms"{0} }} }},
  {{ name = "b-r1", from = "b", to = "r1", link = {{ delay = "1 ms"{1} }} }},
  {{ name = "shared", from = "r1", to = "r2", link = {{ delay = "1 ms"{shared} }} }},
  {{ name = "r2-c", from = "r2", to = "c", link = {{ delay = "1 ms" }} }},
  {{ name = "r2-d", from = "r2", to = "d", link = {{ delay = "1 ms" }} }},
]

[[flows]]
name = "one"
protocol = "gtp"
from = "a"
to = "c"

[[flows]]
name = "two"
protocol = "gtp"
from = "b"
to = "d"
{second}
"#,
        own[0], own[1]
    );
    let [result] = &run(&text, 1)[..] else { panic!("one run") };
    assert!(result.valid, "{:?}", result.invalid_reason);
    assert!(
        result.metrics.jain_by_scale.iter().all(|at| at.jain_index.is_some() == result.metrics.jain_index.is_some())
    );
    result.metrics.jain_index
}

#[test]
fn jains_index_is_that_of_flows_that_compete() {
    let (limit, less) = (r#", rate = "20 Mbit/s", queue = "20 ms""#, r#", rate = "5 Mbit/s", queue = "20 ms""#);
    assert!(jain_of(limit, ["", ""], "").unwrap() > 0.5, "one link for both");
    assert_eq!(jain_of("", [limit, limit], ""), None, "each has its own");
    assert_eq!(jain_of(limit, [less, less], ""), None, "what both share is wide enough");
    assert_eq!(jain_of(limit, ["", less], ""), None, "one of them has another bottleneck");
    assert_eq!(jain_of(limit, ["", ""], "size = \"50 kB\""), None, "one of them has ended");
}

/// Knows a run already, and counts the runs that are made.
struct Knows(RunResult, AtomicUsize);

impl Watch for Knows {
    fn known(&self, case: &str, seed: u64) -> Option<RunResult> {
        (self.0.case == case && self.0.seed == seed).then(|| self.0.clone())
    }

    fn finished(&self, run: &RunResult) {
        assert!(run.valid && run.seed != self.0.seed);
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_known_run_is_not_made_again() {
    let scenario = Scenario::parse("test.toml", &format!("repetitions = 3\n{STAR}"), &[]).unwrap();
    let seed = scenario.seed + 1;
    let knows = Knows(RunResult { seed, trace: "known".to_owned(), ..RunResult::default() }, AtomicUsize::new(0));
    let runs = run_scenario(&scenario, "test", Backend::Sim { threads: 2 }, &knows);
    assert_eq!(runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [seed - 1, seed, seed + 1]);
    assert_eq!((runs[1].trace.as_str(), knows.1.into_inner()), ("known", 2));
}

/// Stops after this many calls.
struct Stops(AtomicUsize);

impl Watch for Stops {
    fn is_stopped(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= 20
    }

    fn finished(&self, _: &RunResult) {
        panic!("no run came to its end");
    }
}

#[test]
fn runs_that_are_stopped_end_in_the_middle_and_are_no_results() {
    let scenario = Scenario::parse("test.toml", &format!("repetitions = 3\n{STAR}"), &[]).unwrap();
    let stops = Stops(AtomicUsize::new(0));
    assert_eq!(run_scenario(&scenario, "test", Backend::Sim { threads: 1 }, &stops).len(), 0);
}

#[test]
fn a_sweep_is_the_same_on_any_number_of_threads() {
    let text = format!(
        "repetitions = 2\n{STAR}\n[[sweep]]\nkey = \"topology.star.access.loss\"\nvalues = [\"0 %\", \"0.1 %\"]\n"
    );
    let json = |threads| run(&text, threads).iter().map(|r| serde_json::to_string(r).unwrap()).collect::<Vec<_>>();
    let alone = json(1);
    assert_eq!(alone.len(), 4);
    assert_eq!(alone, json(3));
    assert_ne!(alone[2], alone[3], "another seed, another run");
}

/// Every example of the document, in its order.
#[test]
fn the_examples_of_the_document_run() {
    let document = include_str!("scenario.md");
    let examples: Vec<&str> =
        document.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(text, _)| text).collect();
    assert_eq!(examples.len(), 4);
    let cells = [1, 1, 1, 6];
    for (example, cells) in examples.into_iter().zip(cells) {
        let results = run(example, 2);
        assert_eq!(results.len(), cells);
        for result in results {
            assert!(result.valid, "{example}\n{:?}", result.invalid_reason);
            assert!(result.flows.iter().all(|flow| flow.bytes > 0), "{example}");
        }
    }
}

#[test]
fn a_sender_with_a_finite_send_buffer_waits_for_its_interface_and_loses_nothing_there() {
    // Twice the interface's rate.
    let text = r#"
title = "a rate that the interface does not have"
duration = "3 s"

[topology.star]
access = { rate = "1 Gbit/s" }
senders = [{ name = "node", rtt = "10 ms", link = { rate = "100 Mbit/s" } }]

[[hosts]]
name = "node"

[[flows]]
name = "blast"
protocol = "rbudp"
parameters = { rate = "200 Mbit/s" }
from = "node"
to = "receiver"
"#;
    let waits = text.replace("name = \"node\"\n\n", "name = \"node\"\nsend_buffer = \"32 KiB\"\n\n");
    let [lost, waited] = [text, &waits].map(|text| {
        let [result] = &run(text, 1)[..] else { panic!("one run") };
        assert!(result.valid, "{:?}", result.invalid_reason);
        (result.metrics.loss_ratio, result.flows[0].measured_bps)
    });
    assert!((0.4..0.6).contains(&lost.0) && waited.0 == 0.0, "{lost:?} {waited:?}");
    assert!(waited.1 > 94e6, "{waited:?}");
}

/// A file to a receiver that may have a quarter of a processor, or competes with hogs: loss, and time in seconds.
fn to_a_limited_receiver(protocol: &str, scheduler: &str) -> (f64, f64) {
    let text = format!(
        r#"
title = "a receiver that does not always run"
duration = "60 s"

[topology.star]
access = {{ rate = "1 Gbit/s" }}
senders = [{{ name = "s", rtt = "10 ms" }}]

[[hosts]]
name = "receiver"
packet_rate = 100000.0

[hosts.scheduler]
{scheduler}

[[flows]]
name = "f"
protocol = "{protocol}"
parameters = {{ rate = "400 Mbit/s" }}
from = "s"
to = "receiver"
size = "50 MB"
"#
    );
    let [result] = &run(&text, 1)[..] else { panic!("one run") };
    assert!(result.valid && result.flows[0].failure.is_none(), "{:?}", result.invalid_reason);
    (result.flows[0].loss_ratio, result.flows[0].stop_s)
}

#[test]
fn feedback_of_pauses_spares_losses_and_costs_nothing_where_there_are_none() {
    // cpu.max of a quarter: the receiver needs a third of the processor while data comes. Both use the whole processor,
    // but one of them sends a fifth more for it.
    let quota = "kind = \"eevdf\"\nquota = \"25 ms\"";
    let (plain, plus) = (to_a_limited_receiver("rbudp", quota), to_a_limited_receiver("rbudp+", quota));
    assert!(plain.0 > 0.15 && plus.0 < plain.0 / 10.0, "{plain:?} {plus:?}");
    assert!(plus.1 < plain.1 * 1.1, "{plain:?} {plus:?}");
    // Alone, both do the same, packet by packet.
    let idle = "kind = \"o1\"";
    assert_eq!(to_a_limited_receiver("rbudp", idle), to_a_limited_receiver("rbudp+", idle));
}
