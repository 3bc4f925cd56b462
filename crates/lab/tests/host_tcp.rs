//! GTP beside the TCP of its own host (PROTOCOL.md 7.9 of GTP).

use inhaul_lab::RunResult;

use crate::company::{self, QUEUE};

/// The network of [`company`], with 200 Mbit/s; the rival's data comes to the same host, which sees its own TCP.
const TO_ONE_HOST: [(&str, &str); 5] = [
    ("host_tcp", "true"),
    ("topology.graph.links.shared.link.rate", "200 Mbit/s"),
    ("topology.graph.links.shared.back.rate", "200 Mbit/s"),
    ("topology.graph.links.other.link.queue", "100 ms"),
    ("flows.rival*.to", "near"),
];

/// Runs it with these changes.
fn run(set: &[(&str, &str)]) -> RunResult {
    company::run(&[&TO_ONE_HOST, set].concat())
}

/// The rates of the two, in Mbit/s.
fn rates(run: &RunResult) -> (f64, f64) {
    (run.flows[0].measured_bps / 1e6, run.flows[1].measured_bps / 1e6)
}

/// Half of the link, without headers.
const HALF: f64 = 96.5;
const OTHER: &str = "topology.graph.links.other.link.rate";

#[test]
fn beside_the_hosts_own_tcp_each_has_half_with_any_queue_and_any_order_of_starts() {
    for queue in ["1 ms", "5 ms", "40 ms"] {
        for (own, tcp) in [("500 ms", "0 ms"), ("0 ms", "5 s")] {
            let (own, tcp) = rates(&run(&[(QUEUE, queue), ("flows.own.start", own), ("flows.rival*.start", tcp)]));
            let fair = |rate: f64| (0.8..1.2).contains(&(rate / HALF));
            assert!(fair(own) && fair(tcp), "{queue}: {own:.1} beside {tcp:.1}");
        }
    }
}

#[test]
fn without_the_monitor_losses_alone_show_tcp_where_no_queue_stands() {
    let set = [(QUEUE, "1 ms"), ("host_tcp", "false"), ("flows.own.start", "0 ms"), ("flows.rival*.start", "5 s")];
    let (own, tcp) = rates(&run(&set));
    assert!((0.8..1.3).contains(&(own / HALF)) && tcp > 0.45 * HALF, "{own:.1} beside {tcp:.1}");
}

#[test]
fn tcp_that_is_slow_on_its_own_path_costs_its_own_rate() {
    for queue in ["1 ms", "5 ms", "40 ms"] {
        let (own, tcp) = rates(&run(&[(QUEUE, queue), (OTHER, "20 Mbit/s")]));
        // 180 Mbit/s are 173 without headers; TCP is left some room now and then.
        assert!(own > 163.0 && tcp > 19.0, "{queue}: {own:.1} beside {tcp:.1}");
    }
}

#[test]
fn when_tcp_ends_all_is_ours() {
    let set = [(QUEUE, "5 ms"), ("flows.rival*.stop", "20 s"), ("measure.from", "21 s"), ("measure.to", "30 s")];
    let (own, _) = rates(&run(&set));
    assert!(own > 180.0, "{own:.1} of 193");
}

#[test]
fn several_tcp_flows_count_each_and_policies_say_what_we_count_as() {
    let rates = |set: &[(&str, &str)]| rates(&run(&[set, &[(QUEUE, "5 ms"), ("flows.rival*.count", "3")]].concat()));
    let (fair, _) = rates(&[]);
    assert!((0.8..1.25).contains(&(fair / (HALF / 2.0))), "fair: {fair:.1}");
    let (high, _) = rates(&[("flows.own.parameters.policy", "high")]);
    assert!(high > 1.3 * fair, "high: {high:.1}, fair: {fair:.1}");
    let (low, _) = rates(&[("flows.own.parameters.policy", "low")]);
    assert!(low < 0.4 * fair, "low: {low:.1}, fair: {fair:.1}");
}

#[test]
fn a_capacity_that_was_told_is_shared_too() {
    let set = [("flows.own.parameters.control", "paper"), ("flows.own.receive_rate", "200 Mbit/s"), (QUEUE, "5 ms")];
    let (own, tcp) = rates(&run(&set));
    let fair = |rate: f64| (0.8..1.2).contains(&(rate / HALF));
    assert!(fair(own) && fair(tcp), "{own:.1} beside {tcp:.1}");
}
