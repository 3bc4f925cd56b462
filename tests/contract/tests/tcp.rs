//! The TCP family in the simulator: it must behave as in the RFCs and papers. Each test prints its measurements;
//! `cargo test -p inhaul-contract-tests tcp:: -- --nocapture` shows it.

use std::sync::Arc;

use inhaul_base::{Bitrate, Probability, RandomStream, Span, Time};
use inhaul_link::{LinkSpec, LossSpec, QueueLimit, QueueSpec, ReorderingSpec};
use inhaul_protocols::registry;
use inhaul_sim::{EndpointId, HostNoise, HostSpec, LinkId, Simulation, Topology, Transfer, TransferId};
use inhaul_transport::{Endpoint, EndpointConfig, FlowLimits, ObjectId, Role};

const MIB: u64 = 1 << 20;
const LAWS: [&str; 8] = ["reno", "highspeed", "scalable", "bic", "cubic", "fhstcp", "bbr", "bbr3"];
/// More than any test transfers.
const ENDLESS: u64 = 1 << 40;
/// Data in a full packet of 1500 bytes.
const SEGMENT: u64 = 1448;

/// One sender, one receiver, one link each way, one transfer.
struct Pair {
    /// The network.
    sim: Simulation,
    /// From the sender to the receiver, and back.
    links: (LinkId, LinkId),
    /// Sender and receiver.
    ends: (EndpointId, EndpointId),
    /// The transfer.
    transfer: TransferId,
}

/// An endpoint of the protocol `name`.
fn endpoint(name: &str, role: Role, seed: u64, parameters: &[(&str, &str)]) -> Box<dyn Endpoint + Send> {
    let mut config = EndpointConfig::new(role, seed);
    config.parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let protocol = registry::find(name).expect("a registered protocol");
    (protocol.build)(&config).unwrap_or_else(|error| panic!("{error}"))
}

/// A pair that moves `size` bytes by `protocol` over the links `there` and `back`, from time zero on.
fn pair(protocol: &str, parameters: &[(&str, &str)], links: (LinkSpec, LinkSpec), size: u64, seed: u64) -> Pair {
    pair_of(&HostSpec::default(), protocol, parameters, links, size, seed)
}

/// The same between two hosts like `host`.
fn pair_of(
    host: &HostSpec,
    protocol: &str,
    parameters: &[(&str, &str)],
    (there, back): (LinkSpec, LinkSpec),
    size: u64,
    seed: u64,
) -> Pair {
    let mut t = Topology::new();
    let hosts = [t.host("sender", host.clone()), t.host("receiver", host.clone())];
    let links = t.duplex("path", hosts[0], hosts[1], there, back);
    let mut sim = Simulation::new(t, seed).unwrap();
    let sender = sim.endpoint(hosts[0], endpoint(protocol, Role::Sender, seed, parameters)).unwrap();
    let receiver = sim.endpoint(hosts[1], endpoint(protocol, Role::Receiver, seed, parameters)).unwrap();
    let transfer = Transfer {
        name: protocol.to_owned(),
        sender,
        receiver,
        object: ObjectId(0),
        size,
        start: Time::ZERO,
        stop: None,
        leaves: false,
        mtu: 1500,
        limits: FlowLimits::default(),
    };
    let transfer = sim.transfer(transfer).unwrap();
    Pair { sim, links, ends: (sender, receiver), transfer }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn wire(mbps: u64, delay_ms: u64) -> LinkSpec {
    LinkSpec::drop_tail(Bitrate::from_mbps(mbps), Span::from_millis(delay_ms), QueueLimit::Bytes(20 * MIB))
}

fn chance(p: f64) -> Probability {
    Probability::new(p).expect("a probability")
}

/// Runs until the transfer is complete; returns when that was.
fn finish(pair: &mut Pair, limit: u64) -> Time {
    let transfer = pair.transfer;
    pair.sim.run_while(Time::ZERO + Span::from_secs(limit), |sim| !sim.is_complete(transfer)).unwrap();
    let stats = (pair.sim.stats(transfer), pair.sim.sender_stats(transfer));
    pair.sim.completed_at(transfer).unwrap_or_else(|| panic!("not complete: {stats:?} {:?}", pair.sim.failures()))
}

#[test]
fn every_law_fills_a_perfect_link() {
    for law in LAWS {
        let link = LinkSpec { queue: QueueSpec::UNLIMITED, ..wire(1_000, 10) };
        let mut pair = pair(law, &[], (link.clone(), link), 64 * MIB + 5, 1);
        let done = finish(&mut pair, 60);
        let stats = pair.sim.sender_stats(pair.transfer);
        println!("{law}: 64 MiB in {done}, {} packets, {} lost", stats.received_packets, stats.lost_packets);
        // 46,346 packets of 1500 bytes take 0.556 s; set-up, slow start and the last round trip come on top.
        assert!(done < at(900), "{law}: {done}");
        assert_eq!(stats.retransmitted_bytes, 0, "{law}");
    }
}

/// Moves 10 MB over 1 Gbit/s and 200 ms with a queue of 5 ms, between hosts that run late: every tenth time by up to
/// 30 ms. Returns the round trips that it took, and the share of packets that was lost.
fn between_busy_hosts(law: &str, seed: u64) -> (f64, f64) {
    let mut random = RandomStream::new(seed, 0);
    let mut late = || {
        let mut draw = |_| {
            let most = if random.below(10) == 0 { 30_000 } else { 100 };
            random.span_below(Span::from_micros(most))
        };
        (0..499).map(&mut draw).collect()
    };
    let noise = HostNoise { wake_late: late(), read_late: late(), aggregates: vec![1, 14, 44], ..HostNoise::default() };
    let queue = QueueLimit::Bytes(625_000);
    let link = LinkSpec::drop_tail(Bitrate::from_mbps(1_000), Span::from_millis(100), queue);
    let host = HostSpec { noise: Some(Arc::new(noise)), ..HostSpec::default() };
    let mut pair = pair_of(&host, law, &[], (link.clone(), link), 10_000_000, seed);
    let done = finish(&mut pair, 60);
    let stats = pair.sim.sender_stats(pair.transfer);
    let lost = stats.lost_packets as f64 / (10_000_000 / SEGMENT) as f64;
    (done.since(Time::ZERO).as_secs_f64() / 0.2, lost)
}

#[test]
fn hosts_that_run_late_do_not_turn_windows_into_bursts() {
    // BBR paces everything, in smaller bursts: hosts that run late slow it down instead.
    for law in LAWS.into_iter().filter(|law| !law.starts_with("bbr")) {
        let runs: Vec<_> = (1..=10).map(|seed| between_busy_hosts(law, seed)).collect();
        let (slowest, most_lost) =
            runs.iter().fold((0.0f64, 0.0f64), |most, run| (most.0.max(run.0), most.1.max(run.1)));
        println!("{law}: at most {slowest:.1} round trips, at most {:.1} % lost", 100.0 * most_lost);
        // Two for the set-up, and ten of slow start. As bursts, windows from 320 packets on overflow the queue of 416.
        assert!(slowest < 15.0, "{law}: {runs:?}");
        assert!(most_lost < 0.01, "{law}: {runs:?}");
    }
}

#[test]
fn every_byte_arrives_under_loss_reordering_and_duplication() {
    for law in LAWS {
        for (loss, reordering, duplication) in
            [(0.01, 0.0, 0.0), (0.3, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 0.3), (0.3, 0.3, 0.3)]
        {
            let link = LinkSpec {
                loss: LossSpec::Random(chance(loss)),
                reordering: ReorderingSpec { probability: chance(reordering), by: Span::from_millis(3) },
                duplication: chance(duplication),
                ..wire(200, 10)
            };
            let size = if loss < 0.1 { 4 * MIB + 12_345 } else { 300_001 };
            let mut pair = pair(law, &[], (link.clone(), link), size, 7);
            let done = finish(&mut pair, 3_600);
            println!("{law}, loss {loss} reordering {reordering} duplication {duplication}: {done}");
            assert_eq!(pair.sim.object_bytes(pair.transfer), size);
            assert!(pair.sim.endpoint_memory_bytes(pair.ends.0) < 4_000_000, "{law}");
            assert!(pair.sim.endpoint_memory_bytes(pair.ends.1) < 1_000_000, "{law}");
        }
    }
}

/// Moves 32 MiB with a window of 1,000 packets while the packets `lost` of the forward link are lost; returns when it
/// was done and how many bytes were sent again.
fn with_losses(law: &str, lost: Vec<u64>) -> (Time, u64) {
    let link = LinkSpec { loss: LossSpec::Scripted(lost), ..wire(1_000, 50) };
    let mut pair = pair(law, &[("window-max", "1000")], (link, wire(1_000, 50)), 32 * MIB, 1);
    let done = finish(&mut pair, 60);
    (done, pair.sim.sender_stats(pair.transfer).retransmitted_bytes)
}

#[test]
fn losses_in_a_large_window_are_sent_again_once_and_without_a_timeout() {
    let (perfect, none) = with_losses("bbr", vec![]);
    assert_eq!(none, 0);
    for (what, lost) in [("one", (10_000..10_001).collect::<Vec<_>>()), ("50", (10_000..10_050).collect())] {
        let count = lost.len() as u64;
        // BBR does not cut its window for loss, so the rest of the delay is the repair itself.
        let (done, again) = with_losses("bbr", lost.clone());
        println!("{what} lost of a window of 1000: {} later", done.since(perfect));
        assert_eq!(again, count * SEGMENT);
        assert!(done.since(perfect) < Span::from_millis(200), "{}", done.since(perfect));
        for law in LAWS {
            assert_eq!(with_losses(law, lost.clone()).1, count * SEGMENT, "{law}");
        }
    }
}

#[test]
fn a_lost_tail_is_probed_for_before_the_timeout() {
    // The last packet of 1 MiB: nothing behind it can reveal its loss.
    let time = |lost: Vec<u64>| {
        let link = LinkSpec { loss: LossSpec::Scripted(lost), ..wire(1_000, 50) };
        let mut pair = pair("reno", &[], (link, wire(1_000, 50)), MIB, 1);
        let done = finish(&mut pair, 60);
        (done, pair.sim.sender_stats(pair.transfer).sent_packets, pair.sim.link_stats(pair.links.0).offered.packets)
    };
    let (perfect, packets, offered) = time(vec![]);
    assert_eq!(packets, MIB.div_ceil(SEGMENT));
    let last = (0..offered).rev().find(|&n| time(vec![n]).1 > packets).expect("a last packet");
    let (done, ..) = time(vec![last]);
    println!("the last packet lost: {} later", done.since(perfect));
    // A round trip until the timer is set for the last time, then two more, and 40 ms where one packet is outstanding
    // (RFC 8985 7.2). The timeout would take 60 ms longer.
    assert!(done.since(perfect) < Span::from_millis(350), "{}", done.since(perfect));
}

/// Mbit/s of data from the fifth to the fifteenth second over 100 Mbit/s and 40 ms, with random losses.
fn goodput_mbps(law: &str, loss: f64) -> f64 {
    let link = LinkSpec {
        loss: LossSpec::Random(chance(loss)),
        ..LinkSpec::drop_tail(Bitrate::from_mbps(100), Span::from_millis(20), QueueLimit::Packets(333))
    };
    let mut pair = pair(law, &[], (link, wire(100, 20)), ENDLESS, 5);
    let mut placed = |seconds: u64| {
        pair.sim.run_until(at(seconds * 1_000)).unwrap();
        pair.sim.placed_bytes(pair.transfer)
    };
    let (before, after) = (placed(5), placed(15));
    (after - before) as f64 * 8.0 / 10.0 / 1e6
}

#[test]
fn bbr_fills_a_path_that_loses_packets_at_random() {
    // Of 96.5 Mbit/s. Version 1 does not answer to loss. Version 3 takes more than 2 % for congestion, and gives up a
    // percent or two in each round with losses until it probes again; standard TCP has 3.5 Mbit/s at 1 %.
    for (law, loss, least) in [("bbr", 0.01, 85.0), ("bbr", 0.05, 75.0), ("bbr3", 0.01, 50.0)] {
        let goodput = goodput_mbps(law, loss);
        println!("{law} at loss {loss}: {goodput:.1} Mbit/s");
        assert!(goodput > least, "{law} at loss {loss}: {goodput} Mbit/s");
    }
    let goodput = goodput_mbps("bbr3", 0.1);
    assert!(goodput < 20.0, "bbr3 gives way: {goodput} Mbit/s");
}

#[test]
fn every_second_packet_is_acknowledged() {
    for (delayed, expected) in [("on", 0.5), ("off", 1.0)] {
        let mut pair = pair("reno", &[("delayed-acks", delayed)], (wire(100, 10), wire(100, 10)), 8 * MIB, 1);
        finish(&mut pair, 60);
        let data = pair.sim.link_stats(pair.links.0).carried.packets as f64;
        let acks = pair.sim.link_stats(pair.links.1).carried.packets as f64;
        println!("delayed acknowledgements {delayed}: {acks} packets back for {data}");
        assert!((acks / data - expected).abs() < 0.05);
    }
}

/// Average window in packets, sampled each 50 ms for `seconds` seconds after the first 20.
fn mean_window(law: &str, loss: f64, rtt_ms: u64, seconds: u64) -> f64 {
    let link = LinkSpec { loss: LossSpec::Random(chance(loss)), ..wire(1_000, rtt_ms / 2) };
    let mut pair = pair(law, &[], (link, wire(1_000, rtt_ms / 2)), ENDLESS, 3);
    let samples = seconds * 20;
    let windows = (0..samples).map(|k| {
        pair.sim.run_until(at(20_000 + k * 50)).unwrap();
        pair.sim.sender_stats(pair.transfer).window_bytes
    });
    windows.sum::<u64>() as f64 / samples as f64 / SEGMENT as f64
}

#[test]
fn standard_tcp_keeps_the_window_that_its_loss_rate_allows() {
    // Mathis and others 1997: W = sqrt(3 / 2) / sqrt(p), with growth that delayed acknowledgements do not slow down.
    for loss in [1e-3_f64, 3e-3, 1e-2] {
        let (expected, got) = (1.22 / loss.sqrt(), mean_window("reno", loss, 40, 200));
        println!("standard TCP at loss {loss}: {got:.1} packets, {expected:.1} by the formula");
        assert!((got / expected - 1.0).abs() < 0.15, "{got} for {expected}");
    }
}

#[test]
fn highspeed_tcp_keeps_the_window_of_its_response_function() {
    // RFC 3649 section 5: W = 0.12 / p^0.835.
    for loss in [1e-4_f64, 1e-3] {
        let (expected, got) = (0.12 / loss.powf(0.835), mean_window("highspeed", loss, 40, 150));
        println!("HighSpeed TCP at loss {loss}: {got:.1} packets, {expected:.1} by RFC 3649");
        assert!((got / expected - 1.0).abs() < 0.2, "{got} for {expected}");
    }
}

#[test]
fn a_link_that_dies_and_returns_is_survived() {
    for law in LAWS {
        let mut pair = pair(law, &[], (wire(100, 10), wire(100, 10)), 64 * MIB, 1);
        pair.sim.at(at(1_000), inhaul_sim::Change::LinkDown(pair.links.0)).unwrap();
        pair.sim.at(at(4_000), inhaul_sim::Change::LinkUp(pair.links.0)).unwrap();
        let done = finish(&mut pair, 120);
        println!("{law}: 64 MiB over a link that is dead for 3 s: {done}");
        // 5.6 s of data, 3 s of silence, and until the next timeout at most as long as the silence was.
        assert!(done < at(14_000), "{law}: {done}");
    }
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    for law in LAWS {
        let trace = |seed| {
            let link = LinkSpec { loss: LossSpec::Random(chance(0.01)), jitter: Span::from_millis(1), ..wire(100, 10) };
            let mut pair = pair(law, &[], (link.clone(), link), 4 * MIB, seed);
            finish(&mut pair, 600);
            (pair.sim.trace(), pair.sim.hops(), pair.sim.now())
        };
        assert_eq!(trace(7), trace(7), "{law}");
        assert_ne!(trace(7).0, trace(8).0, "{law}");
    }
}
