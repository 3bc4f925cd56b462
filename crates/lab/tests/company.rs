//! GTP's share beside others' traffic, and the rest that it leaves (PROTOCOL.md 7.4 and 7.7 of GTP).

use inhaul_lab::{Backend, RunResult, Scenario, run_scenario};

/// One flow with a rival of CUBIC on a link of 100 Mbit/s and 30 ms.
const SHARED: &str = r#"
title = "beside one CUBIC"
duration = "40 s"
record = "200 ms"
measure = { from = "12 s" }

[topology.graph]
hosts = ["near", "far", "other", "rival"]
routers = ["a", "b"]
links = [
  { name = "shared", from = "a", to = "b", link = { rate = "100 Mbit/s", queue = "40 ms", jitter = "20 us" }, back = { rate = "100 Mbit/s", queue = "100 ms" } },
  { name = "far", from = "far", to = "a", link = { rate = "20 Gbit/s", queue = "unlimited", delay = "15 ms" } },
  { name = "near", from = "b", to = "near", link = { rate = "20 Gbit/s", queue = "unlimited" } },
  { name = "other", from = "other", to = "a", link = { rate = "20 Gbit/s", queue = "unlimited", delay = "15 ms" } },
  { name = "rival", from = "b", to = "rival", link = { rate = "20 Gbit/s", queue = "unlimited" } },
]

[[flows]]
name = "own"
protocol = "gtp"
from = "far"
to = "near"
start = "500 ms"

[[flows]]
name = "rival*"
protocol = "cubic"
from = "other"
to = "rival"
"#;

/// Runs it with these changes.
pub(crate) fn run(set: &[(&str, &str)]) -> RunResult {
    run_of(SHARED, set)
}

fn run_of(text: &str, set: &[(&str, &str)]) -> RunResult {
    let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let scenario = Scenario::parse("test.toml", text, &set).unwrap_or_else(|error| panic!("{error}"));
    let mut runs = run_scenario(&scenario, "test", Backend::Sim { threads: 1 }, &());
    let run = runs.remove(0);
    assert!(run.valid, "{:?}", run.invalid_reason);
    run
}

/// The parts of the link that the two have.
fn shares(run: &RunResult) -> (f64, f64) {
    (run.flows[0].measured_bps / 97e6, run.flows[1].measured_bps / 97e6)
}

pub(crate) const QUEUE: &str = "topology.graph.links.shared.link.queue";
const RIVALS: &str = "flows.rival*.count";
const RIVALS_START: &str = "flows.rival*.start";
const SEED: &str = "seed";
const POLICY: &str = "flows.own.parameters.policy";

#[test]
fn beside_tcp_a_share_is_fair_with_any_queue() {
    for queue in ["10 ms", "40 ms", "300 ms"] {
        let (own, rival) = shares(&run(&[(QUEUE, queue)]));
        assert!((0.3..0.7).contains(&own) && rival > 0.25, "{queue}: {own:.2} beside {rival:.2}");
        assert!(own + rival > 0.9, "{queue}: {own:.2} beside {rival:.2}");
    }
}

#[test]
fn a_policy_says_how_much_is_taken() {
    for queue in ["10 ms", "40 ms", "300 ms"] {
        let (low, rival) = shares(&run(&[(QUEUE, queue), (POLICY, "low")]));
        assert!(low < 0.05 && rival > 0.9, "{queue}: {low:.3} beside {rival:.2}");
        let (fair, _) = shares(&run(&[(QUEUE, queue)]));
        let (high, rival) = shares(&run(&[(QUEUE, queue), (POLICY, "high")]));
        assert!(high > 1.1 * fair && rival > 0.15, "{queue}: {high:.2}, fair {fair:.2}, beside {rival:.2}");
    }
}

/// Told 850 Mbit/s on a link of 1 Gbit/s, with this policy and these changes.
fn told(policy: &str, set: &[(&str, &str)]) -> RunResult {
    told_in(SHARED, policy, set)
}

fn told_in(text: &str, policy: &str, set: &[(&str, &str)]) -> RunResult {
    let mut all = vec![(LINK, "1 Gbit/s"), ("flows.own.receive_rate", "850 Mbit/s"), (POLICY, policy), (SEED, "7")];
    all.extend([("duration", "20 s"), ("measure.from", "6 s")]);
    for (key, value) in set {
        all.retain(|(other, _)| other != key);
        all.push((key, value));
    }
    run_of(text, &all)
}

/// A rate of payload as one of packets, in Mbit/s.
fn wire(bps: f64) -> f64 {
    bps / 0.97 / 1e6
}

const LINK: &str = "topology.graph.links.shared.link.rate";

#[test]
fn a_told_rate_is_held_beside_any_traffic() {
    let least = 0.98 * 850.0;
    for (name, set) in [
        ("three rivals", &[(RIVALS, "3")][..]),
        ("ten rivals", &[(RIVALS, "10")]),
        ("a short queue", &[(RIVALS, "3"), (QUEUE, "5 ms")]),
        ("a long queue", &[(RIVALS, "3"), (QUEUE, "300 ms")]),
        ("alone", &[(RIVALS_START, "19 s")]),
        ("a link that loses", &[(RIVALS_START, "19 s"), ("topology.graph.links.shared.link.loss", "2 %")]),
    ] {
        let run = told("fixed", set);
        let own = wire(run.flows[0].measured_bps);
        assert!(own >= least && own < 1.01 * 850.0, "{name}: {own:.1} Mbit/s");
    }
}

#[test]
fn a_told_rate_that_the_path_does_not_carry_is_given_up_and_found_again() {
    for (name, set) in [
        ("alone", &[(LINK, "100 Mbit/s"), (RIVALS_START, "39 s"), ("duration", "40 s")][..]),
        ("three rivals", &[(LINK, "100 Mbit/s"), (RIVALS, "3"), ("duration", "40 s")]),
        ("a short queue", &[(LINK, "100 Mbit/s"), (RIVALS_START, "39 s"), (QUEUE, "2 ms"), ("duration", "40 s")]),
    ] {
        let run = told("fixed", set);
        let (own, loss) = (wire(run.flows[0].measured_bps), run.flows[0].loss_ratio);
        assert!(own > 95.0 && loss < 0.1, "{name}: {own:.1} Mbit/s, {loss:.3} lost");
    }
    let changes = "
[[changes]]
at = \"5 s\"
link = \"shared\"
rate = \"100 Mbit/s\"

[[changes]]
at = \"10 s\"
link = \"shared\"
rate = \"1 Gbit/s\"
";
    let back = [(RIVALS_START, "19 s"), ("measure.from", "14 s"), ("measure.to", "19 s")];
    let run = told_in(&format!("{SHARED}{changes}"), "fixed", &back);
    let own = wire(run.flows[0].measured_bps);
    assert!(own > 0.98 * 850.0, "{own:.1} Mbit/s");
}

#[test]
fn a_policy_may_change_while_data_comes() {
    let shares_after = |first: &str, then: &str, set: &[(&str, &str)]| {
        let change = format!("\n[[changes]]\nat = \"15 s\"\nflow = \"own\"\npolicy = \"{then}\"\n");
        let mut all = vec![(POLICY, first), ("measure.from", "25 s")];
        all.retain(|(key, _)| set.iter().all(|(other, _)| other != key));
        all.extend(set);
        shares(&run_of(&format!("{SHARED}{change}"), &all))
    };
    for first in ["fair", "high"] {
        let (low, rival) = shares_after(first, "low", &[]);
        assert!(low < 0.1 && rival > 0.85, "{first} to low: {low:.3} beside {rival:.2}");
    }
    let (fair, rival) = shares_after("low", "fair", &[]);
    assert!(fair > 0.25 && rival > 0.25, "low to fair: {fair:.2} beside {rival:.2}");
    let (high, _) = shares_after("low", "high", &[]);
    assert!(high > 0.4, "low to high: {high:.2}");
    // The longest memory has expired by then.
    let late = format!("{SHARED}\n[[changes]]\nat = \"95 s\"\nflow = \"own\"\npolicy = \"fair\"\n");
    let set = [(POLICY, "low"), ("duration", "125 s"), ("measure.from", "105 s")];
    let (fair, rival) = shares(&run_of(&late, &set));
    assert!(fair > 0.25 && rival > 0.25, "long low to fair: {fair:.2} beside {rival:.2}");
    let (alone, _) =
        shares_after("low", "fair", &[(RIVALS_START, "39 s"), ("measure.from", "15 s"), ("measure.to", "38 s")]);
    assert!(alone > 0.95, "low to fair, alone: {alone:.3}");
    let told = [("flows.own.receive_rate", "80 Mbit/s")];
    let (fixed, _) = shares_after("fair", "fixed", &told);
    assert!(fixed > 0.98 * 0.8, "fair to fixed: {fixed:.3}");
    let (fair, rival) = shares_after("fixed", "fair", &told);
    assert!((0.25..0.7).contains(&fair) && rival > 0.25, "fixed to fair: {fair:.2} beside {rival:.2}");
}

#[test]
fn a_rival_that_leaves_leaves_all() {
    let run = run(&[("flows.rival*.stop", "20 s"), ("measure.from", "24 s"), ("measure.to", "40 s")]);
    let (own, _) = shares(&run);
    assert!(own > 0.95, "{own:.3}");
}

#[test]
fn loss_of_the_link_is_borne_and_rivals_loss_is_not_taken_for_it() {
    // Alone on a link that loses 2 %: no other flow causes the loss.
    let alone = run(&[("flows.rival*.start", "39 s"), ("topology.graph.links.shared.link.loss", "2 %")]);
    let (own, _) = shares(&alone);
    assert!(own > 0.9, "{own:.3}");
    // Ten rivals keep a queue of some packets full.
    let crowded = run(&[(QUEUE, "5 ms"), ("flows.rival*.count", "10"), ("flows.rival*.start", "100 ms")]);
    let (own, _) = shares(&crowded);
    assert!(own < 0.5 && crowded.flows[0].loss_ratio < 0.05, "{own:.2}, {:?}", crowded.flows[0].loss_ratio);
}
