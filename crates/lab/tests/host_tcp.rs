//! GTP beside the TCP of its own host (PROTOCOL.md 7.8 of GTP).

use inhaul_lab::{Backend, RunResult, Scenario, run_scenario};

/// One flow beside one of CUBIC, to the same host, over a link of 200 Mbit/s and 30 ms.
const SHARED: &str = r#"
title = "beside the host's own TCP"
duration = "40 s"
record = "200 ms"
measure = { from = "12 s" }
host_tcp = true

[topology.graph]
hosts = ["near", "far", "other"]
routers = ["a", "b"]
links = [
  { name = "shared", from = "a", to = "b", link = { rate = "200 Mbit/s", queue = "40 ms", jitter = "20 us" }, back = { rate = "200 Mbit/s", queue = "100 ms" } },
  { name = "far", from = "far", to = "a", link = { rate = "20 Gbit/s", queue = "unlimited", delay = "15 ms" } },
  { name = "near", from = "b", to = "near", link = { rate = "20 Gbit/s", queue = "unlimited" } },
  { name = "other", from = "other", to = "a", link = { rate = "20 Gbit/s", queue = "100 ms", delay = "15 ms" } },
]

[[flows]]
name = "own"
protocol = "gtp"
from = "far"
to = "near"
start = "500 ms"

[[flows]]
name = "tcp*"
protocol = "cubic"
from = "other"
to = "near"
"#;

/// Runs it with these changes.
fn run(set: &[(&str, &str)]) -> RunResult {
    let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let scenario = Scenario::parse("test.toml", SHARED, &set).unwrap_or_else(|error| panic!("{error}"));
    let mut runs = run_scenario(&scenario, "test", Backend::Sim { threads: 1 }, &());
    let run = runs.remove(0);
    assert!(run.valid, "{:?}", run.invalid_reason);
    run
}

/// What the two have, in Mbit/s.
fn rates(run: &RunResult) -> (f64, f64) {
    (run.flows[0].measured_bps / 1e6, run.flows[1].measured_bps / 1e6)
}

#[test]
#[ignore = "a look"]
fn one() {
    let set = std::env::var("SET").unwrap();
    let set: Vec<_> = set.split(';').map(|s| s.split_once('=').unwrap()).collect();
    println!("{:?}", rates(&run(&set)));
}

#[test]
#[ignore = "a look"]
fn look() {
    for queue in ["1 ms", "5 ms", "40 ms"] {
        for host in ["false", "true"] {
            for (start, tcp) in [("500 ms", "0 ms"), ("0 ms", "5 s")] {
                for limited in ["20 Gbit/s", "20 Mbit/s"] {
                    for seed in ["1", "2"] {
                        let (own, tcp) = rates(&run(&[
                            ("topology.graph.links.shared.link.queue", queue),
                            ("host_tcp", host),
                            ("seed", seed),
                            ("flows.own.start", start),
                            ("flows.tcp*.start", tcp),
                            ("topology.graph.links.other.link.rate", limited),
                        ]));
                        println!("{queue} host {host} tcp {limited} starts {start}: own {own:.1}, tcp {tcp:.1}");
                    }
                }
            }
        }
    }
}
