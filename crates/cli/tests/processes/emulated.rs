//! `inhaul lab --backend emu`: a scenario with real processes over emulated links.

use crate::common::{Server, run};

const SCENARIO: &str = r#"
title = "GTP and the kernel's TCP meet"
duration = "3 s"
record = "100 ms"

[topology.star]
access = { rate = "40 Mbit/s", queue = "20 ms" }
senders = [
  { name = "near", rtt = "20 ms", link = { rate = "100 Mbit/s" } },
  { name = "far", rtt = "50 ms", link = { rate = "100 Mbit/s" } },
]

[[flows]]
name = "ours"
protocol = "gtp"
from = "far"
to = "receiver"
receive_rate = "25 Mbit/s"

[[flows]]
name = "theirs"
protocol = "cubic"
from = "near"
to = "receiver"
start = "500 ms"
size = "1 MB"
"#;

#[test]
fn a_scenario_runs_with_real_processes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("meet.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let file = file.to_str().unwrap();
    let outcome = run(&["lab", "sim", file, "--backend", "emu", "--json"]);
    let result = outcome.json();
    assert_eq!(result["backend"], "emu");
    let flows = result["flows"].as_array().unwrap();
    if flows.is_empty() {
        // No excuse alone: other faults must not hide behind it.
        let reason = result["invalid_reason"].as_str().unwrap();
        assert!(reason.contains("namespace") || reason.contains("TUN"), "{reason}");
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let [ours, theirs] = &flows[..] else { panic!("{result}") };
    for (flow, rtt_ms) in [(ours, 50.0), (theirs, 20.0)] {
        assert_eq!(flow["failure"], serde_json::Value::Null, "{flow}");
        assert!(flow["rtt_measured_ms"].as_f64().unwrap() >= rtt_ms, "{flow}");
        assert!(flow["series"].as_array().unwrap().len() > 3, "{flow}");
    }
    assert_eq!(theirs["bytes"], 1_000_000);
    assert!(ours["bytes"].as_u64().unwrap() > 500_000, "{ours}");
    // No more than the path carries in the time.
    assert!(ours["bytes"].as_u64().unwrap() + 1_000_000 < 40_000_000 / 8 * 3, "{ours}");
    // Whether the host was quiet enough is for the report to say.
    let code = if result["valid"] == true { 0 } else { 12 };
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert!(result["metrics"]["sender_cpu_s_per_gb"].as_f64().unwrap() > 0.0);
}

/// The emulator's carried bytes, or `None` if there can be no emulator.
fn emulated(scenario: &str) -> Option<serde_json::Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    let result = run(&["lab", "sim", file.to_str().unwrap(), "--backend", "emu", "--json"]).json();
    if result["flows"].as_array().unwrap().is_empty() {
        // No excuse alone: other faults must not hide behind it.
        let reason = result["invalid_reason"].as_str().unwrap();
        assert!(reason.contains("namespace") || reason.contains("TUN"), "{reason}");
        eprintln!("SKIPPED: {reason}");
        return None;
    }
    Some(result)
}

#[test]
fn hosts_change_their_rates_and_unanswered_datagrams_flow() {
    let more = r#"
[[background.udp]]
from = "near"
to = "receiver"
rate = "10 Mbit/s"

[[changes]]
at = "1.5 s"
flow = "ours"
receive_rate = "3 Mbit/s"

[[changes]]
at = "2.2 s"
flow = "ours"
send_rate = "1 Mbit/s"
"#;
    let Some(result) = emulated(&format!("{SCENARIO}{more}")) else { return };
    let ours = &result["flows"][0];
    assert_eq!(ours["failure"], serde_json::Value::Null, "{ours}");
    let rate = |from: f64, to: f64| {
        let points = ours["series"].as_array().unwrap().iter();
        let within = points.filter(|point| (from..=to).contains(&point["t_s"].as_f64().unwrap()));
        let rates: Vec<f64> = within.map(|point| point["goodput_bps"].as_f64().unwrap() / 1e6).collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    };
    let rates = (rate(0.5, 1.5), rate(1.8, 2.2), rate(2.6, 3.0));
    assert!(rates.0 > 4.0 && rates.1 < 4.0 && rates.2 < 1.5, "{rates:?} {ours}");
    let links = result["links"].as_array().unwrap();
    let access = links.iter().find(|link| link["name"] == "access").unwrap();
    let carried = access["utilisation"].as_f64().unwrap() * 40e6 / 8.0 * result["duration_s"].as_f64().unwrap();
    let flows: u64 = result["flows"].as_array().unwrap().iter().map(|flow| flow["bytes"].as_u64().unwrap()).sum();
    let flows = flows as f64;
    // 10 Mbit/s for 3 s are 3.75 MB.
    assert!(carried > flows + 2.5e6, "{carried} {flows}");
}

#[test]
fn what_cannot_be_emulated_is_refused_by_name() {
    let more =
        SCENARIO.replace("protocol = \"cubic\"", "protocol = \"cubic\"\nparameters = { initial-window = \"4\" }");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("meet.toml");
    std::fs::write(&file, more).unwrap();
    let outcome = run(&["lab", "sim", file.to_str().unwrap(), "--backend", "emu", "--json"]);
    assert_eq!(outcome.code, Some(12), "{}", outcome.stderr);
    let reason = outcome.json()["invalid_reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("no parameter 'initial-window'"), "{reason}");
}

#[test]
fn agents_carry_a_scenario_between_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("secret"), "only for this test, and long enough\n").unwrap();
    std::fs::write(path("wrong"), "another one, and long enough as well\n").unwrap();
    // Limits of the hosts keep loopback from running away.
    let scenario = SCENARIO.replace("100 Mbit/s", "1 Gbit/s").replace("duration = \"3 s\"", "duration = \"1500 ms\"");
    std::fs::write(path("meet.toml"), scenario).unwrap();
    let addresses = [("near", "127.0.77.1"), ("far", "127.0.77.2"), ("receiver", "127.0.77.3")];
    let agent = |address: &str| {
        let listen = format!("{address}:0");
        Server::start(&["lab", "agent", "--listen", &listen, "--data", address, "--secret-file", &path("secret")])
    };
    let agents = addresses.map(|(name, address)| (name, agent(address)));
    let hosts: String =
        agents.iter().map(|(name, agent)| format!("[hosts.{name}]\nagent = \"{}\"\n", agent.address)).collect();
    std::fs::write(path("hosts.toml"), hosts).unwrap();
    let (file, hosts) = (path("meet.toml"), path("hosts.toml"));
    let net = |secret: &str| {
        let secret = path(secret);
        run(&["lab", "sim", &file, "--backend", "net", "--hosts", &hosts, "--secret-file", &secret, "--json"])
    };
    let outcome = net("secret");
    let result = outcome.json();
    assert_eq!(
        (outcome.code, &result["backend"], &result["valid"]),
        (Some(0), &"net".into(), &true.into()),
        "{result}"
    );
    assert_eq!(result["flows"][1]["bytes"], 1_000_000, "{result}");
    assert!(result["flows"][0]["bytes"].as_u64().unwrap() > 500_000, "{result}");
    let outcome = net("wrong");
    let reason = outcome.json()["invalid_reason"].as_str().unwrap().to_owned();
    assert_eq!(outcome.code, Some(12), "{reason}");
    assert!(reason.contains("knows another secret"), "{reason}");
}
