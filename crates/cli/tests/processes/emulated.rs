//! `inhaul lab --backend emu`: a scenario with real processes over emulated links.

use crate::common::run;

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
        // Not a reason of its own: what else might be wrong must not pass for it.
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

#[test]
fn what_cannot_be_emulated_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("meet.toml");
    let change = "[[changes]]\nat = \"1 s\"\nflow = \"ours\"\nreceive_rate = \"5 Mbit/s\"\n";
    std::fs::write(&file, format!("{SCENARIO}{change}")).unwrap();
    let outcome = run(&["lab", "sim", file.to_str().unwrap(), "--backend", "emu", "--json"]);
    assert_eq!(outcome.code, Some(12), "{}", outcome.stderr);
    let reason = outcome.json()["invalid_reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("receive_rate are not emulated"), "{reason}");
}
