//! GTP end to end in virtual time: delivery under every kind of ill treatment, fairness, start-up, transitions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod net;

use inhaul_base::{Bitrate, Span};
use net::{Net, SenderSpec, Spec};

const MIB: u64 = 1 << 20;

/// What leaves of a link's rate for data when packets of 1500 bytes carry 1440.
const GOODPUT: f64 = 1440.0 / 1500.0;

fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    sum * sum / (rates.len() as f64 * rates.iter().map(|r| r * r).sum::<f64>())
}

/// Goodput of each flow from `from` to `to`, in bit/s.
fn goodputs(net: &mut Net, from: u64, to: u64) -> Vec<f64> {
    net.run_to(Span::from_millis(from));
    let before = net.placed_by.clone();
    net.run_to(Span::from_millis(to));
    let seconds = (to - from) as f64 / 1e3;
    net.placed_by.iter().zip(before).map(|(after, before)| (after - before) as f64 * 8.0 / seconds).collect()
}

fn loss_ratio(net: &Net, flows: usize) -> f64 {
    let stats: Vec<_> = (0..flows).map(|k| net.stats(k)).collect();
    let lost: u64 = stats.iter().map(|s| s.lost_packets).sum();
    let all: u64 = stats.iter().map(|s| s.lost_packets + s.received_packets).sum();
    lost as f64 / all as f64
}

#[test]
fn one_flow_delivers() {
    let mut net = Net::new(Spec::new(vec![SenderSpec::new(0, 64 * MIB, 40)]));
    assert!(net.run(Span::from_secs(10)), "at {}", net.now);
    println!("{} at {}, drops {}", net.stats(0).placed_bytes, net.now, net.queue_drops);
    assert_eq!(net.placed[&0].covered(), 64 * MIB);
    assert_eq!(net.queue_drops, 0);
}

#[test]
fn fig7_equal_shares() {
    for (control, host_rate) in [("default", None), ("paper", Some(Bitrate::from_gbps(1)))] {
        let senders = [(20, 0), (40, 2000), (60, 3000), (80, 4000)]
            .iter()
            .enumerate()
            .map(|(k, &(rtt, start))| SenderSpec::new(k as u32, 4 << 30, rtt).starting(start))
            .collect();
        let mut net = Net::new(Spec { control, host_rate, ..Spec::new(senders) });
        for from in (0..7000).step_by(500) {
            let rates = goodputs(&mut net, from, from + 500);
            let m: Vec<_> = rates.iter().map(|r| (r / 1e6) as u64).collect();
            let q: Vec<_> = (0..4).map(|k| net.stats(k).queue_delay.to_string()).collect();
            println!("{control} {from} {m:?} drops {} loss {:.5} {q:?}", net.queue_drops, loss_ratio(&net, 4));
        }
        let rates = goodputs(&mut net, 7000, 10_000);
        println!(
            "{control}: jain {} total {} loss {}",
            jain(&rates),
            rates.iter().sum::<f64>() / 1e9 / GOODPUT,
            loss_ratio(&net, 4)
        );
    }
}

#[test]
fn explore() {
    for (rtt, link, queue_ms) in [
        (1, 1000, 5),
        (10, 1000, 5),
        (80, 1000, 5),
        (200, 1000, 5),
        (80, 10_000, 5),
        (50, 100, 5),
        (20, 10, 20),
        (50, 1000, 1),
        (100, 2, 40),
    ] {
        let link = Bitrate::from_mbps(link);
        let mut net = Net::new(Spec {
            access: link,
            queue_bytes: link.bytes_in(Span::from_millis(queue_ms)).max(6000),
            ..Spec::new(vec![SenderSpec::new(0, 40 << 30, rtt).link(Bitrate::from_gbps(10))])
        });
        let mut out = vec![];
        let mut reached = None;
        for k in 0..40 {
            let r = goodputs(&mut net, k * rtt, (k + 1) * rtt)[0] / (link.as_f64() * GOODPUT);
            if r >= 0.9 && reached.is_none() {
                reached = Some((k, loss_ratio(&net, 1)));
            }
            out.push((r * 100.0) as u64);
        }
        println!(
            "explore start rtt {rtt} {link} q{queue_ms}: reached {reached:?} loss {:.5} {out:?}",
            loss_ratio(&net, 1)
        );
    }
    for loss in [0.001, 0.01, 0.05, 0.3] {
        let mut net = Net::new(Spec { loss, ..Spec::new(vec![SenderSpec::new(0, 40 << 30, 50)]) });
        let r: Vec<_> = (0..10).map(|k| (goodputs(&mut net, k * 1000, (k + 1) * 1000)[0] / 1e6) as u64).collect();
        println!("explore loss {loss}: {r:?} measured {:.4}", loss_ratio(&net, 1));
    }
    for reordering in [0.01, 0.2] {
        let mut net =
            Net::new(Spec { reordering, duplication: 0.05, ..Spec::new(vec![SenderSpec::new(0, 40 << 30, 20)]) });
        let r: Vec<_> = (0..5).map(|k| (goodputs(&mut net, k * 1000, (k + 1) * 1000)[0] / 1e6) as u64).collect();
        println!(
            "explore reordering {reordering}: {r:?} measured {:.4} dup {}",
            loss_ratio(&net, 1),
            net.stats(0).duplicate_bytes
        );
    }
    let senders =
        [20u64, 40, 60, 80].iter().enumerate().map(|(k, &rtt)| SenderSpec::new(k as u32, 4 << 30, rtt)).collect();
    let mut net = Net::new(Spec::new(senders));
    for k in 0..10 {
        let r: Vec<_> = goodputs(&mut net, k * 500, k * 500 + 500).iter().map(|r| (r / 1e6) as u64).collect();
        println!("explore together {r:?} loss {:.5}", loss_ratio(&net, 4));
    }
    let senders = [(20u64, 100), (40, 200), (60, 500), (80, 800)]
        .iter()
        .enumerate()
        .map(|(k, &(rtt, link))| SenderSpec::new(k as u32, 4 << 30, rtt).link(Bitrate::from_mbps(link)))
        .collect();
    let mut net = Net::new(Spec::new(senders));
    for k in 0..12 {
        let r: Vec<_> = goodputs(&mut net, k * 500, k * 500 + 500).iter().map(|r| (r / 1e6) as u64).collect();
        println!("explore own links {r:?} loss {:.5}", loss_ratio(&net, 4));
    }
    let senders = [(20u64, 500), (40, 500), (60, 500)]
        .iter()
        .enumerate()
        .map(|(k, &(rtt, link))| {
            SenderSpec::new(k as u32, 4 << 30, rtt).link(Bitrate::from_mbps(link)).starting(k as u64 * 1000)
        })
        .collect();
    let mut net = Net::new(Spec { access: Bitrate::from_gbps(10), ..Spec::new(senders) });
    for k in 0..12 {
        let r: Vec<_> = goodputs(&mut net, k * 500, k * 500 + 500).iter().map(|r| (r / 1e6) as u64).collect();
        println!("explore wide access {r:?} loss {:.5}", loss_ratio(&net, 3));
    }
    let mut net = Net::new(Spec::new(vec![SenderSpec::new(0, 40 << 30, 50)]));
    for k in 0..12 {
        if k == 3 {
            net.set_access(Bitrate::from_mbps(300));
        }
        if k == 6 {
            net.set_access(Bitrate::from_mbps(1000));
        }
        let r: Vec<_> = goodputs(&mut net, k * 1000, k * 1000 + 1000).iter().map(|r| (r / 1e6) as u64).collect();
        println!("explore moving {r:?} loss {:.5}", loss_ratio(&net, 1));
    }
}
