//! GTP end to end in virtual time: fairness, start-up, capacities that change, limits.
//! Each test prints its measurements; `cargo test -p inhaul-contract-tests gtp_rates:: -- --nocapture` shows it.

use inhaul_base::{Bitrate, Span};
use inhaul_contract_tests::{ENDLESS, MIB, Scene, SenderSpec, Spec, jain};

/// What leaves of a link's rate for data when packets of 1500 bytes carry 1440.
const GOODPUT: f64 = 1440.0 / 1500.0;

/// Four senders with RTT 20, 40, 60 and 80 ms, of one object each, starting at the given milliseconds.
fn four_flows(starts: [u64; 4]) -> Vec<SenderSpec> {
    let flow = |(k, start): (usize, u64)| SenderSpec::new(k as u32, ENDLESS, 20 * (k as u64 + 1)).starting(start);
    starts.into_iter().enumerate().map(flow).collect()
}

const CONTROLS: [(&str, Option<Bitrate>); 2] = [("default", None), ("paper", Some(Bitrate::from_gbps(1)))];

// --- Rates --------------------------------------------------------------------------------------------------------------

#[test]
fn four_flows_of_different_rtt_come_to_equal_shares_after_each_join() {
    // gtp-2004 Figure 7: RTT 20, 40, 60, 80 ms; starts 0, 2, 3, 4 s.
    for (control, host_rate) in CONTROLS {
        let mut scene = Scene::new(&Spec {
            parameters: vec![("control", control)],
            host_rate,
            ..Spec::new(four_flows([0, 2000, 3000, 4000]))
        });
        // From three central intervals (3 x 3 RTTmax) after each join, but within a second, to the next join.
        for (flows, from, to) in [(1, 1000, 2000), (2, 2600, 3000), (3, 3800, 4000), (4, 5000, 8000)] {
            let rates = scene.goodputs(from, to);
            let (fair, total) = (1000.0 * GOODPUT / flows as f64, rates.iter().sum::<f64>());
            let (jain, loss) = (jain(&rates[..flows]), scene.loss_ratio());
            println!("{control}, {flows} flows: {rates:.1?} Mbit/s of {fair:.1} each, Jain {jain:.6}, loss {loss:.6}");
            assert!(total > 0.97 * 1000.0 * GOODPUT, "{control}: {total}");
            assert!(jain > 0.999, "{control}: {rates:?}");
            assert!(rates[..flows].iter().all(|r| (r / fair - 1.0).abs() < 0.04), "{control}: {rates:?}");
            assert!(loss < 0.001, "{control}: {loss}");
        }
    }
}

#[test]
fn four_flows_that_start_together_come_to_equal_shares() {
    for (control, host_rate) in CONTROLS {
        let mut scene = Scene::new(&Spec {
            parameters: vec![("control", control)],
            host_rate,
            ..Spec::new(four_flows([0, 0, 0, 0]))
        });
        let rates = scene.goodputs(2000, 4000);
        let loss = scene.loss_ratio();
        println!("{control}: {rates:.1?} Mbit/s, Jain {:.6}, loss {loss:.6}", jain(&rates));
        assert!(jain(&rates) > 0.999 && rates.iter().sum::<f64>() > 0.97 * 1000.0 * GOODPUT);
        assert!(loss < 0.001);
    }
}

#[test]
fn start_up_reaches_nine_tenths_of_an_unloaded_path_in_about_ten_rtt() {
    // The queue must hold the first burst, 16 packets: 24 kB.
    for (rtt, mbps, queue_ms) in [
        (1, 1_000, 5),
        (10, 1_000, 5),
        (80, 1_000, 5),
        (200, 1_000, 5),
        (80, 10_000, 5),
        (50, 100, 5),
        (20, 10, 40),
        (50, 1_000, 1),
    ] {
        let access = Bitrate::from_mbps(mbps);
        let sender = SenderSpec::new(0, ENDLESS, rtt).link(Bitrate::from_gbps(10));
        let queue_bytes = access.bytes_in(Span::from_millis(queue_ms));
        let mut scene = Scene::new(&Spec { access, queue_bytes, ..Spec::new(vec![sender]) });
        let full = mbps as f64 * GOODPUT;
        let reached = (0..100).find(|&k| scene.goodputs(k * rtt, (k + 1) * rtt)[0] > 0.9 * full).unwrap();
        // Three RTT of these are set-up, before the first data packet.
        let loss = scene.loss_ratio();
        println!("{access} at {rtt} ms, queue {queue_ms} ms: 90 % in RTT {reached}, loss until then {loss:.5}");
        assert!(reached <= 11, "{access} at {rtt} ms: RTT {reached}");
        assert!(loss < 0.01, "{access} at {rtt} ms: {loss}");
    }
}

#[test]
fn a_path_that_becomes_narrower_and_wider_is_followed() {
    let mut scene = Scene::new(&Spec::new(vec![SenderSpec::new(0, ENDLESS, 50)]));
    let wide = scene.goodputs(2_000, 3_000)[0];
    scene.set_access(Bitrate::from_mbps(300));
    let narrow = scene.goodputs(5_000, 7_000)[0];
    scene.set_access(Bitrate::from_gbps(1));
    let again = scene.goodputs(17_000, 18_000)[0];
    println!("1000, 300, 1000 Mbit/s: {wide:.0}, {narrow:.0}, {again:.0} Mbit/s of goodput");
    assert!(wide > 0.95 * 960.0 && narrow > 0.95 * 288.0 && again > 0.95 * 960.0);
}

#[test]
fn flows_with_narrow_paths_leave_the_rest_to_the_others() {
    let links = [(20, 100), (40, 200), (60, 500), (80, 800)];
    let sender =
        |(k, (rtt, mbps)): (usize, (u64, u64))| SenderSpec::new(k as u32, ENDLESS, rtt).link(Bitrate::from_mbps(mbps));
    let mut scene = Scene::new(&Spec::new(links.into_iter().enumerate().map(sender).collect()));
    let rates = scene.goodputs(4_000, 7_000);
    let loss = scene.loss_ratio();
    println!("own links 100, 200, 500, 800 into 1000 Mbit/s: {rates:.1?}, loss {loss:.6}");
    for (rate, ideal) in rates.iter().zip([100.0, 200.0, 350.0, 350.0]) {
        assert!(rate / (ideal * GOODPUT) > 0.88, "{rates:?}");
    }
    assert!((rates[2] / rates[3] - 1.0).abs() < 0.02 && loss < 0.001);
}

#[test]
fn a_wide_access_link_is_found_though_every_path_is_narrow() {
    let sender =
        |k: u64| SenderSpec::new(k as u32, ENDLESS, 20 + 20 * k).link(Bitrate::from_mbps(500)).starting(1000 * k);
    let mut scene = Scene::new(&Spec { access: Bitrate::from_gbps(10), ..Spec::new((0..3).map(sender).collect()) });
    let rates = scene.goodputs(4_000, 6_000);
    println!("three paths of 500 into 10000 Mbit/s: {rates:.1?}");
    assert!(rates.iter().all(|r| *r > 0.95 * 480.0), "{rates:?}");
}

#[test]
fn a_flow_that_ends_leaves_its_share_but_does_not_push_others_over_their_paths() {
    let narrow = SenderSpec::new(0, ENDLESS, 20).link(Bitrate::from_mbps(100));
    let mut scene =
        Scene::new(&Spec::new(vec![narrow, SenderSpec::new(1, ENDLESS, 40), SenderSpec::new(2, 64 * MIB, 40)]));
    let mut target_max = 0;
    for ms in 500..3_000 {
        scene.run_to(Span::from_millis(ms));
        target_max = target_max.max(scene.stats(0).target_rate.bps() / 1_000_000);
    }
    assert!(scene.complete(2).is_some());
    let rates = scene.goodputs(3_000, 4_000);
    println!(
        "after a flow has ended: {rates:.1?} Mbit/s; the flow on a path of 100 was never asked for more than {target_max}"
    );
    assert!(target_max <= 125 && rates[1] > 0.95 * 900.0 * GOODPUT);
}

#[test]
fn an_object_that_fits_into_the_first_burst_holds_nothing_back() {
    let mut scene =
        Scene::new(&Spec::new(vec![SenderSpec::new(0, ENDLESS, 20), SenderSpec::new(1, 20_000, 40).starting(1_000)]));
    let rates = scene.goodputs(2_000, 3_000);
    println!("beside a small object that is complete: {rates:.1?}");
    assert!(scene.complete(1).is_some() && rates[0] > 0.95 * 960.0);
}

#[test]
fn limits_of_sender_and_receiver_hold() {
    // R_send of flow 0, C_r for both: gtp-2004 Figure 9's pattern.
    let mut first = SenderSpec::new(0, ENDLESS, 20);
    first.send_limit = Some(Bitrate::from_mbps(100));
    let spec =
        Spec { host_rate: Some(Bitrate::from_mbps(400)), ..Spec::new(vec![first, SenderSpec::new(1, ENDLESS, 40)]) };
    let mut scene = Scene::new(&spec);
    let rates = scene.goodputs(2_000, 4_000);
    println!("R_send 100, C_r 400 Mbit/s: {rates:.1?}");
    assert!(rates[0] < 100.0 * GOODPUT * 1.005 && rates[0] > 90.0 * GOODPUT);
    assert!(rates[0] + rates[1] < 400.0 * GOODPUT * 1.005 && rates[0] + rates[1] > 380.0 * GOODPUT);
}

#[test]
fn loss_that_the_rate_is_not_to_blame_for_does_not_starve_a_flow() {
    // The control stream must not have the 5 % loss: TCP retransmits after 200 ms, while further requests wait.
    for (loss, part, control_apart) in
        [(0.001, 0.9, false), (0.01, 0.85, false), (0.001, 0.9, true), (0.01, 0.85, true), (0.05, 0.6, true)]
    {
        let mut scene = Scene::new(&Spec { loss, control_apart, ..Spec::new(vec![SenderSpec::new(0, ENDLESS, 50)]) });
        let rate = scene.goodputs(5_000, 8_000)[0];
        println!("random loss {loss}, control apart {control_apart}: {rate:.0} Mbit/s");
        assert!(rate > part * 1000.0 * GOODPUT, "{rate} at loss {loss}");
    }
}
