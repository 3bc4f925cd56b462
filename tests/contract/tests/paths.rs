//! What changes on the way in mid-transfer: packets that were fine do not pass any more. Every registered protocol is
//! tried.

use inhaul_base::{Bitrate, Span};
use inhaul_contract_tests::{ENDLESS, Scene, SenderSpec, Spec};
use inhaul_protocols::registry::PROTOCOLS;

/// How soon a transfer must go on.
const GOES_ON: Span = Span::from_secs(2);

/// A transfer over a path of `rtt_ms` with packets of up to `mtu` bytes, for three seconds.
fn under_way(protocol: &'static str, mtu: u16, rtt_ms: u64, loss: f64) -> Scene {
    let access = Bitrate::from_mbps(100);
    let queue_bytes = access.bytes_in(Span::from_millis(50));
    let senders = vec![SenderSpec::new(0, ENDLESS, rtt_ms)];
    let mut scene =
        Scene::new(&Spec { protocol, mtu, loss, access, queue_bytes, control_apart: true, ..Spec::new(senders) });
    scene.run_to(Span::from_secs(3));
    assert!(scene.placed(0) > 0, "{protocol}: nothing came before the change");
    scene
}

#[test]
fn a_path_that_carries_only_smaller_packets_is_measured_again() {
    for protocol in PROTOCOLS {
        for (mtu, narrow, rtt_ms) in [(9000, 1400, 20), (9000, 1400, 200), (1500, 1400, 20), (1500, 600, 2)] {
            let case = format!("{} {mtu} to {narrow} at {rtt_ms} ms", protocol.name);
            let mut scene = under_way(protocol.name, mtu, rtt_ms, 0.0);
            scene.set_mtu(Some(narrow));
            // Packets in the link's queue still come.
            scene.run_to(Span::from_millis(3_100 + rtt_ms));
            let before = scene.placed(0);
            scene.run_to(Span::from_secs(3) + GOES_ON);
            let (between, failed) = (scene.placed(0), scene.failed());
            scene.run_to(Span::from_secs(8));
            let after = scene.placed(0);
            println!(
                "{case}: {} kB in the first 2 s, {} kB in 3 s more",
                (between - before) / 1000,
                (after - between) / 1000
            );
            assert!(failed.is_empty() && scene.failed().is_empty(), "{case}: {failed:?}");
            assert!(between > before, "{case}: nothing came in two seconds");
            assert!(after - between > 100_000, "{case}: {} bytes in three seconds", after - between);
        }
    }
}

#[test]
fn a_path_that_loses_a_third_of_everything_is_not_taken_for_a_narrow_one() {
    // GTP only: what TCP's family has asked for in small segments lasts it for minutes at such a loss.
    let mut scene = under_way("gtp", 9000, 20, 0.3);
    // Opening it may lose the largest probes by chance; they are tried again.
    scene.run_to(Span::from_secs(20));
    let before = scene.stats(0);
    scene.run_to(Span::from_secs(40));
    let after = scene.stats(0);
    let packets = (after.received_packets - before.received_packets).max(1);
    let mean = (after.wire_bytes - before.wire_bytes) / packets;
    println!("packets of {mean} bytes");
    assert!(scene.failed().is_empty() && mean > 7_000, "{mean} bytes, {:?}", scene.failed());
}
