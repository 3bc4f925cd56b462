//! GTP end to end in virtual time: delivery under every kind of ill treatment, fairness, start-up, transitions.
//! Each test prints what it measured; `cargo test --test gtp -- --nocapture` shows it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

mod net;

use inhaul_base::{Bitrate, ByteRange, Span};
use inhaul_transport::{Command, FlowId, ObjectId};
use net::{Net, SenderSpec, Spec};

const MIB: u64 = 1 << 20;
/// More than any test transfers.
const ENDLESS: u64 = 1 << 40;

/// What leaves of a link's rate for data when packets of 1500 bytes carry 1440.
const GOODPUT: f64 = 1440.0 / 1500.0;

fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    sum * sum / (rates.len() as f64 * rates.iter().map(|r| r * r).sum::<f64>())
}

/// Goodput of each flow between two times in milliseconds, in Mbit/s.
fn goodputs(net: &mut Net, from: u64, to: u64) -> Vec<f64> {
    net.run_to(Span::from_millis(from));
    let before = net.placed_by.clone();
    net.run_to(Span::from_millis(to));
    let mbit = |bytes: u64| bytes as f64 * 8.0 / ((to - from) as f64 * 1e3);
    net.placed_by.iter().zip(before).map(|(after, before)| mbit(after - before)).collect()
}

/// Part of all data packets so far that was lost.
fn loss_ratio(net: &Net, flows: usize) -> f64 {
    let stats: Vec<_> = (0..flows).map(|k| net.stats(k)).collect();
    let lost: u64 = stats.iter().map(|s| s.lost_packets).sum();
    let all: u64 = stats.iter().map(|s| s.lost_packets + s.received_packets).sum();
    lost as f64 / all as f64
}

/// Four senders with RTT 20, 40, 60 and 80 ms, of one object each, starting at the given milliseconds.
fn four_flows(starts: [u64; 4]) -> Vec<SenderSpec> {
    let flow = |(k, start): (usize, u64)| SenderSpec::new(k as u32, ENDLESS, 20 * (k as u64 + 1)).starting(start);
    starts.into_iter().enumerate().map(flow).collect()
}

const CONTROLS: [(&str, Option<Bitrate>); 2] = [("default", None), ("paper", Some(Bitrate::from_gbps(1)))];

// --- Delivery ---------------------------------------------------------------------------------------------------------

#[test]
fn every_byte_arrives_under_loss_reordering_duplication_and_delay() {
    for (loss, reordering, duplication) in
        [(0.0, 0.0, 0.0), (0.01, 0.0, 0.0), (0.3, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 0.3), (0.3, 0.3, 0.3)]
    {
        for (control, host_rate) in CONTROLS {
            for seed in 1..=3 {
                // Two mirrors of one object, whose size is not a multiple of any block, and a small one of another.
                let senders = vec![
                    SenderSpec::new(0, 8 * MIB + 12_345, 10),
                    SenderSpec::new(0, 8 * MIB + 12_345, 50),
                    SenderSpec::new(1, 777, 30),
                ];
                let access = Bitrate::from_mbps(200);
                let spec =
                    Spec { seed, loss, reordering, duplication, control, host_rate, access, ..Spec::new(senders) };
                let mut net = Net::new(spec);
                let done = net.run(Span::from_secs(600));
                let case =
                    format!("loss {loss} reordering {reordering} duplication {duplication} {control} seed {seed}");
                assert!(done, "{case}: not complete after {}", net.now);
                assert_eq!(net.placed[&0].covered(), 8 * MIB + 12_345, "{case}");
                assert_eq!(net.placed[&1].covered(), 777, "{case}");
                assert!(net.failed.is_empty(), "{case}: {:?}", net.failed);
                // State is bounded by what is outstanding, not by what was transferred: far below a byte per byte.
                assert!(net.memory_max < 1_500_000, "{case}: {} bytes", net.memory_max);
            }
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_transfer() {
    let peak = |size| {
        let mut net = Net::new(Spec { loss: 0.05, ..Spec::new(vec![SenderSpec::new(0, size, 20)]) });
        assert!(net.run(Span::from_secs(100)));
        net.memory_max
    };
    let (short, long) = (peak(64 * MIB), peak(512 * MIB));
    println!("peak memory: {short} bytes for 64 MiB, {long} bytes for 512 MiB");
    assert!(long < short * 2);
}

#[test]
fn the_last_blocks_are_recovered_as_fast_as_the_middle_ones() {
    // All but a few packets at the end of a transfer arrive: the time to the end is bounded by a few RTT, not by time-outs.
    let mut worst = Span::ZERO;
    for seed in 1..=20 {
        let time = |loss| {
            let mut net = Net::new(Spec { seed, loss, ..Spec::new(vec![SenderSpec::new(0, MIB, 100)]) });
            assert!(net.run(Span::from_secs(30)));
            net.complete[&0].since(inhaul_base::Time::ZERO)
        };
        worst = worst.max(time(0.05).saturating_sub(time(0.0)));
    }
    println!("5 % loss makes 1 MiB over 100 ms take {worst} longer at worst");
    // Recoveries of recoveries: 5 % of 728 packets, then 5 % of those, twice.
    assert!(worst < Span::from_millis(100 * 7), "{worst}");
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    let trace = |seed| {
        let senders = vec![SenderSpec::new(0, 4 * MIB, 10), SenderSpec::new(0, 4 * MIB, 30)];
        let mut net = Net::new(Spec { seed, loss: 0.02, reordering: 0.1, duplication: 0.01, ..Spec::new(senders) });
        assert!(net.run(Span::from_secs(60)));
        (net.trace, net.delivered, net.now)
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7).0, trace(8).0);
}

#[test]
fn wrong_bytes_are_fetched_again_from_another_sender() {
    let size = 2 * MIB;
    let mut net = Net::new(Spec::new(vec![SenderSpec::new(0, size, 10), SenderSpec::new(0, size, 12)]));
    assert!(net.run(Span::from_secs(10)));
    let before = net.placed_by.clone();
    let wrong = ByteRange::new(MIB, MIB + 100_000);
    net.placed.get_mut(&0).unwrap().remove(wrong);
    net.complete.clear();
    net.command(0, Command::Refetch { object: ObjectId(0), range: wrong, suspect: Some(FlowId(0)) });
    assert!(net.run(Span::from_secs(20)));
    assert_eq!(net.placed[&0].covered(), size);
    assert_eq!(net.placed_by[0], before[0], "the suspect was asked again");
}

// --- Senders that die ---------------------------------------------------------------------------------------------------

#[test]
fn a_killed_mirror_costs_only_its_own_share() {
    for noticed in [true, false] {
        let size = 128 * MIB;
        let mirrors = (0..3).map(|k| SenderSpec::new(0, size, 10 + 10 * k)).collect();
        let mut net = Net::new(Spec::new(mirrors));
        net.run_to(Span::from_millis(700));
        assert!(net.complete.is_empty());
        net.kill(1, noticed);
        assert!(net.run(Span::from_secs(30)), "noticed {noticed}");
        println!("a mirror dies at 0.7 s, noticed {noticed}: complete at {}", net.now);
        assert_eq!(net.placed[&0].covered(), size);
        // 128 MiB take 1.1 s at 1 Gbit/s; an unnoticed death costs its outstanding blocks a stall time-out.
        assert!(net.now < inhaul_base::Time::ZERO + Span::from_millis(2_500), "{}", net.now);
        if noticed {
            assert_eq!(net.failed.len(), 1);
        }
    }
}

#[test]
fn the_only_sender_falling_silent_is_reported() {
    let mut net = Net::new(Spec::new(vec![SenderSpec::new(0, 128 * MIB, 10)]));
    net.run_to(Span::from_millis(300));
    net.kill(0, false);
    net.run_to(Span::from_secs(20));
    assert_eq!(net.starved, [0]);
    assert!(net.failed[0].1.contains("nothing was heard"), "{:?}", net.failed);
}

// --- Rates --------------------------------------------------------------------------------------------------------------

#[test]
fn four_flows_of_different_rtt_come_to_equal_shares_after_each_join() {
    // gtp-2004 Figure 7: RTT 20, 40, 60, 80 ms; starts 0, 2, 3, 4 s.
    for (control, host_rate) in CONTROLS {
        let mut net = Net::new(Spec { control, host_rate, ..Spec::new(four_flows([0, 2000, 3000, 4000])) });
        // From three central intervals (3 x 3 RTTmax) after each join, but within a second, to the next join.
        for (flows, from, to) in [(1, 1000, 2000), (2, 2600, 3000), (3, 3800, 4000), (4, 5000, 8000)] {
            let rates = goodputs(&mut net, from, to);
            let (fair, total) = (1000.0 * GOODPUT / flows as f64, rates.iter().sum::<f64>());
            let (jain, loss) = (jain(&rates[..flows]), loss_ratio(&net, 4));
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
        let mut net = Net::new(Spec { control, host_rate, ..Spec::new(four_flows([0, 0, 0, 0])) });
        let rates = goodputs(&mut net, 2000, 4000);
        let loss = loss_ratio(&net, 4);
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
        let mut net = Net::new(Spec { access, queue_bytes, ..Spec::new(vec![sender]) });
        let full = mbps as f64 * GOODPUT;
        let reached = (0..100).find(|&k| goodputs(&mut net, k * rtt, (k + 1) * rtt)[0] > 0.9 * full).unwrap();
        // Three RTT of these are set-up, before the first data packet.
        let loss = loss_ratio(&net, 1);
        println!("{access} at {rtt} ms, queue {queue_ms} ms: 90 % in RTT {reached}, loss until then {loss:.5}");
        assert!(reached <= 11, "{access} at {rtt} ms: RTT {reached}");
        assert!(loss < 0.01, "{access} at {rtt} ms: {loss}");
    }
}

#[test]
fn a_path_that_becomes_narrower_and_wider_is_followed() {
    let mut net = Net::new(Spec::new(vec![SenderSpec::new(0, ENDLESS, 50)]));
    let wide = goodputs(&mut net, 2_000, 3_000)[0];
    net.set_access(Bitrate::from_mbps(300));
    let narrow = goodputs(&mut net, 5_000, 7_000)[0];
    net.set_access(Bitrate::from_gbps(1));
    let again = goodputs(&mut net, 17_000, 18_000)[0];
    println!("1000, 300, 1000 Mbit/s: {wide:.0}, {narrow:.0}, {again:.0} Mbit/s of goodput");
    assert!(wide > 0.95 * 960.0 && narrow > 0.95 * 288.0 && again > 0.95 * 960.0);
}

#[test]
fn flows_with_narrow_paths_leave_the_rest_to_the_others() {
    let links = [(20, 100), (40, 200), (60, 500), (80, 800)];
    let sender =
        |(k, (rtt, mbps)): (usize, (u64, u64))| SenderSpec::new(k as u32, ENDLESS, rtt).link(Bitrate::from_mbps(mbps));
    let mut net = Net::new(Spec::new(links.into_iter().enumerate().map(sender).collect()));
    let rates = goodputs(&mut net, 4_000, 7_000);
    let loss = loss_ratio(&net, 4);
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
    let mut net = Net::new(Spec { access: Bitrate::from_gbps(10), ..Spec::new((0..3).map(sender).collect()) });
    let rates = goodputs(&mut net, 4_000, 6_000);
    println!("three paths of 500 into 10000 Mbit/s: {rates:.1?}");
    assert!(rates.iter().all(|r| *r > 0.95 * 480.0), "{rates:?}");
}

#[test]
fn a_flow_that_ends_leaves_its_share_but_does_not_push_others_over_their_paths() {
    let narrow = SenderSpec::new(0, ENDLESS, 20).link(Bitrate::from_mbps(100));
    let mut net = Net::new(Spec::new(vec![narrow, SenderSpec::new(1, ENDLESS, 40), SenderSpec::new(2, 64 * MIB, 40)]));
    let mut target_max = 0;
    for ms in 500..3_000 {
        net.run_to(Span::from_millis(ms));
        target_max = target_max.max(net.stats(0).target_rate.bps() / 1_000_000);
    }
    assert!(net.complete.contains_key(&2));
    let rates = goodputs(&mut net, 3_000, 4_000);
    println!(
        "after a flow has ended: {rates:.1?} Mbit/s; the flow on a path of 100 was never asked for more than {target_max}"
    );
    assert!(target_max <= 125 && rates[1] > 0.95 * 900.0 * GOODPUT);
}

#[test]
fn an_object_that_fits_into_the_first_burst_holds_nothing_back() {
    let mut net =
        Net::new(Spec::new(vec![SenderSpec::new(0, ENDLESS, 20), SenderSpec::new(1, 20_000, 40).starting(1_000)]));
    let rates = goodputs(&mut net, 2_000, 3_000);
    println!("beside a small object that is complete: {rates:.1?}");
    assert!(net.complete.contains_key(&1) && rates[0] > 0.95 * 960.0);
}

#[test]
fn limits_of_sender_and_receiver_hold() {
    // R_send of flow 0, C_r for both: gtp-2004 Figure 9's pattern.
    let mut first = SenderSpec::new(0, ENDLESS, 20);
    first.send_limit = Some(Bitrate::from_mbps(100));
    let spec =
        Spec { host_rate: Some(Bitrate::from_mbps(400)), ..Spec::new(vec![first, SenderSpec::new(1, ENDLESS, 40)]) };
    let mut net = Net::new(spec);
    let rates = goodputs(&mut net, 2_000, 4_000);
    println!("R_send 100, C_r 400 Mbit/s: {rates:.1?}");
    assert!(rates[0] < 100.0 * GOODPUT * 1.005 && rates[0] > 90.0 * GOODPUT);
    assert!(rates[0] + rates[1] < 400.0 * GOODPUT * 1.005 && rates[0] + rates[1] > 380.0 * GOODPUT);
}

#[test]
fn loss_that_the_rate_is_not_to_blame_for_does_not_starve_a_flow() {
    for (loss, part) in [(0.001, 0.9), (0.01, 0.85), (0.05, 0.6)] {
        let mut net = Net::new(Spec { loss, ..Spec::new(vec![SenderSpec::new(0, ENDLESS, 50)]) });
        let rate = goodputs(&mut net, 5_000, 8_000)[0];
        println!("random loss {loss}: {rate:.0} Mbit/s");
        assert!(rate > part * 1000.0 * GOODPUT, "{rate} at loss {loss}");
    }
}
