//! The simulator with a tiny protocol of its own: arrivals and their times, losses and their places, and that a run can
//! be repeated.

use crate::common::{BLOCK, Collector, ConstantSender, HEAD};
use inhaul_base::{Bitrate, Probability, Span, Time};
use inhaul_link::{LinkSpec, LossSpec, QueueLimit, ReorderingSpec};
use inhaul_sim::{
    Change, CompetingTask, EndpointId, HostSpec, LinkId, NodeId, Pattern, RecorderSpec, SimError, Simulation, Spell,
    Topology, Transfer, TransferId, UdpTraffic,
};
use inhaul_transport::{Command, FlowError, FlowLimits, ObjectId};

/// Bytes of a data packet on the wire.
const PACKET: u64 = BLOCK + HEAD as u64 + 28;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Two hosts, a link each way, and a transfer.
struct Pair {
    sim: Simulation,
    hosts: [NodeId; 2],
    links: (LinkId, LinkId),
    ends: (EndpointId, EndpointId),
    transfer: TransferId,
}

fn transfer(name: &str, (sender, receiver): (EndpointId, EndpointId), size: u64) -> Transfer {
    Transfer {
        name: name.into(),
        sender,
        receiver,
        object: ObjectId(0),
        size,
        start: Time::ZERO,
        stop: None,
        leaves: false,
        mtu: 1500,
        limits: FlowLimits::default(),
    }
}

fn pair(link: &LinkSpec, receiver: HostSpec, sends: Bitrate, size: u64, seed: u64) -> Pair {
    let mut t = Topology::new();
    let hosts = [t.host("a", HostSpec::default()), t.host("b", receiver)];
    let links = t.duplex("ab", hosts[0], hosts[1], link.clone(), link.clone());
    let mut sim = Simulation::new(t, seed).unwrap();
    let sender = sim.endpoint(hosts[0], Box::new(ConstantSender::new(sends))).unwrap();
    let receiver = sim.endpoint(hosts[1], Box::new(Collector::default())).unwrap();
    let ends = (sender, receiver);
    let transfer = sim.transfer(transfer("flow", ends, size)).unwrap();
    Pair { sim, hosts, links, ends, transfer }
}

/// The fingerprint of a transfer of `size` bytes from a sender whose heads have `mark` in them.
fn trace_of(sends: Bitrate, size: u64, mark: u64) -> u64 {
    let mut t = Topology::new();
    let hosts = [t.host("a", HostSpec::default()), t.host("b", HostSpec::default())];
    t.duplex("ab", hosts[0], hosts[1], wire(100, 5), wire(100, 5));
    let mut sim = Simulation::new(t, 1).unwrap();
    let sender = sim.endpoint(hosts[0], Box::new(ConstantSender::new(sends).marked(mark))).unwrap();
    let receiver = sim.endpoint(hosts[1], Box::new(Collector::default())).unwrap();
    let transfer = sim.transfer(transfer("flow", (sender, receiver), size)).unwrap();
    sim.run_while(at(1_000), |sim| !sim.is_complete(transfer)).unwrap();
    assert!(sim.is_complete(transfer));
    sim.trace()
}

#[test]
fn a_trace_is_of_what_happens_and_not_of_how_heads_are_encoded() {
    let (rate, size) = (Bitrate::from_mbps(50), 100 * BLOCK);
    let trace = trace_of(rate, size, 0);
    assert_eq!(trace, trace_of(rate, size, 0xDEAD_BEEF));
    assert_ne!(trace, trace_of(rate, size - 1, 0), "a byte less");
    assert_ne!(trace, trace_of(Bitrate::from_mbps(49), size, 0), "other times");
}

fn wire(mbps: u64, millis: u64) -> LinkSpec {
    LinkSpec::drop_tail(Bitrate::from_mbps(mbps), Span::from_millis(millis), QueueLimit::Bytes(100_000))
}

#[test]
fn a_transfer_takes_the_time_that_its_links_take() {
    // Hello 48 bytes; 50 packets, the last 940 bytes shorter, one after the other at 12 Mbit/s; "through" behind them:
    // 1 + 4 + 40 bytes; and then the receiver knows. 10 ms each way.
    let Pair { mut sim, transfer, links, .. } =
        pair(&wire(12, 10), HostSpec::default(), Bitrate::from_mbps(12), 50 * BLOCK - 940, 1);
    sim.run_until(at(1_000)).unwrap();
    let bits = |bytes: u64| Span::from_nanos(bytes * 8 * 1_000 / 12);
    let there_and_back = Span::from_millis(20) + bits(48);
    // While packets follow each other without a gap, the link rounds up to a nanosecond at most once.
    let expected = Time::ZERO + there_and_back + bits(50 * PACKET - 940 + 45);
    let done = sim.completed_at(transfer).unwrap();
    assert!(done.since(expected) <= Span::from_nanos(2) && expected.since(done) <= Span::from_nanos(2), "{done}");
    assert_eq!(sim.object_bytes(transfer), 50 * BLOCK - 940);
    // Data, "through", the acknowledgement of the answer; and back: hello, 25 acknowledgements, that of "through", the
    // answer.
    assert_eq!(sim.link_stats(links.0).carried.packets, 50 + 2);
    assert_eq!(sim.link_stats(links.1).carried.packets, 1 + 25 + 2);
    assert_eq!(sim.hops(), 52 + 28);
}

#[test]
fn every_byte_arrives_over_any_links() {
    for seed in 1..=10 {
        let link = LinkSpec {
            loss: LossSpec::Random(Probability::new(0.2).unwrap()),
            reordering: ReorderingSpec { probability: Probability::new(0.2).unwrap(), by: Span::from_millis(3) },
            duplication: Probability::new(0.2).unwrap(),
            jitter: Span::from_millis(1),
            jitter_reorders: true,
            ..wire(100, 5)
        };
        let Pair { mut sim, transfer, .. } = pair(&link, HostSpec::default(), Bitrate::from_mbps(80), 1 << 20, seed);
        sim.run_while(at(300_000), |sim| !sim.is_complete(transfer)).unwrap();
        assert!(sim.is_complete(transfer), "seed {seed}");
        assert_eq!((sim.object_bytes(transfer), sim.failures()), (1 << 20, &[][..]));
    }
}

#[test]
fn same_seed_same_trace_and_another_seed_another_on_any_thread() {
    let run = |seed| {
        let link = LinkSpec { loss: LossSpec::Random(Probability::new(0.05).unwrap()), ..wire(100, 5) };
        let host = HostSpec {
            packet_rate: Some(9_000.0),
            ring_packets: 20,
            tasks: vec![CompetingTask {
                share: 1.0,
                on: Spell::Exponential(Span::from_millis(2)),
                off: Spell::Exponential(Span::from_millis(20)),
                start: Time::ZERO,
            }],
            ..HostSpec::default()
        };
        let Pair { mut sim, hosts, transfer, .. } = pair(&link, host, Bitrate::from_mbps(60), 1 << 22, seed);
        let spell = Spell::Exponential(Span::from_millis(30));
        let traffic = UdpTraffic {
            from: hosts[0],
            to: hosts[1],
            rate: Bitrate::from_mbps(50),
            packet_bytes: 700,
            pattern: Pattern::OnOff { on: spell, off: spell },
            start: at(50),
            stop: None,
        };
        let traffic = sim.background_udp(traffic).unwrap();
        sim.record(RecorderSpec { interval: Span::from_millis(10) }).unwrap();
        sim.run_while(at(60_000), |sim| !sim.is_complete(transfer)).unwrap();
        assert!(sim.is_complete(transfer));
        (
            sim.trace(),
            sim.now(),
            sim.hops(),
            sim.host_stats(hosts[1]),
            sim.traffic_stats(traffic),
            sim.series(transfer).to_vec(),
        )
    };
    let first = run(7);
    assert!(first.3.ring_drops > 0 && first.4.received_packets > 0);
    let threads: Vec<_> = [7, 7, 8].into_iter().map(|seed| std::thread::spawn(move || run(seed))).collect();
    let again: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(again[0], first);
    assert_eq!(again[1], first);
    assert_ne!(again[2].0, first.0);
}

#[test]
fn a_host_that_is_too_slow_loses_in_its_ring_and_not_on_the_way() {
    // 100 Mbit/s are 8,333 packets a second, the processor takes 5,000 and holds 50.
    let slow = HostSpec { packet_rate: Some(5_000.0), ring_packets: 50, ..HostSpec::default() };
    let Pair { mut sim, hosts, links, transfer, .. } = pair(&wire(200, 5), slow, Bitrate::from_mbps(100), 1 << 40, 1);
    sim.run_until(at(2_000)).unwrap();
    let stats = sim.host_stats(hosts[1]);
    let taken = sim.stats(transfer).received_packets;
    assert_eq!(sim.link_stats(links.0).dropped().packets, 0);
    assert_eq!(stats.ring_packets_max, 50);
    // From 10 ms on it works all the time; a batch may be in work at the end.
    assert!((taken as f64 - 5_000.0 * 1.99).abs() < 70.0, "{taken}");
    assert!((stats.ring_drops as f64 - 3_333.0 * 1.99).abs() < 150.0, "{stats:?}");
    assert!(stats.batches < taken / 20, "waiting packets are taken in batches: {stats:?}");
}

#[test]
fn a_task_that_takes_the_processor_delays_and_then_overflows_the_ring() {
    // Every 100 ms, 10 ms without processor: 83 packets come in at 100 Mbit/s, and 60 find room.
    let task = CompetingTask {
        share: 1.0,
        on: Spell::Fixed(Span::from_millis(10)),
        off: Spell::Fixed(Span::from_millis(90)),
        start: at(100),
    };
    let host = |ring_packets| HostSpec { ring_packets, tasks: vec![task], ..HostSpec::default() };
    for (ring, drops) in [(60, 23.0), (200, 0.0)] {
        let Pair { mut sim, hosts, .. } = pair(&wire(200, 5), host(ring), Bitrate::from_mbps(100), 1 << 40, 1);
        sim.run_until(at(1_095)).unwrap();
        let stats = sim.host_stats(hosts[1]);
        assert_eq!(stats.taken, Span::from_millis(100));
        assert!((stats.ring_drops as f64 / 10.0 - drops).abs() <= 1.0, "{stats:?}");
        assert!(stats.ring_packets_max.abs_diff(60.min(ring)) <= 1 || ring == 200, "{stats:?}");
    }
}

#[test]
fn a_dead_link_breaks_the_control_stream_after_a_while_and_both_ends_hear_of_it() {
    let Pair { mut sim, links, transfer, .. } =
        pair(&wire(100, 5), HostSpec::default(), Bitrate::from_mbps(50), 1 << 20, 1);
    for link in [links.0, links.1] {
        sim.at(at(50), Change::LinkDown(link)).unwrap();
    }
    sim.run_until(at(920_000)).unwrap();
    assert!(sim.failures().is_empty(), "{:?}", sim.failures());
    sim.run_until(at(930_000)).unwrap();
    let ends: Vec<_> = sim.failures().iter().map(|failure| (failure.transfer, failure.error.clone())).collect();
    assert_eq!(ends, [(transfer, FlowError::Disconnected), (transfer, FlowError::Disconnected)]);
    assert!(!sim.is_complete(transfer));
}

#[test]
fn a_link_that_returns_carries_on() {
    let Pair { mut sim, links, transfer, .. } =
        pair(&wire(100, 5), HostSpec::default(), Bitrate::from_mbps(50), 1 << 20, 1);
    for link in [links.0, links.1] {
        sim.at(at(50), Change::LinkDown(link)).unwrap();
        sim.at(at(20_000), Change::LinkUp(link)).unwrap();
    }
    sim.run_while(at(90_000), |sim| !sim.is_complete(transfer)).unwrap();
    assert!(sim.is_complete(transfer) && sim.failures().is_empty());
}

#[test]
fn one_end_that_gives_up_closes_the_stream_and_the_other_hears_of_it_a_way_later() {
    let Pair { mut sim, ends, transfer, .. } =
        pair(&wire(100, 5), HostSpec::default(), Bitrate::from_mbps(50), 1 << 30, 1);
    let flow = sim.flow_of(transfer);
    sim.at(at(500), Change::Command(ends.1, Command::Disconnect { flow })).unwrap();
    sim.run_until(at(600)).unwrap();
    let [first, second] = sim.failures() else { panic!("{:?}", sim.failures()) };
    assert_eq!((first.at, first.endpoint, second.endpoint), (at(500), ends.1, ends.0));
    let later = second.at.since(first.at);
    assert!(later >= Span::from_millis(5) && later < Span::from_millis(6), "{later}");
}

#[test]
fn a_stopped_transfer_keeps_its_results_and_is_no_failure() {
    let Pair { mut sim, ends, .. } = pair(&wire(100, 5), HostSpec::default(), Bitrate::from_mbps(40), 1 << 30, 1);
    let second =
        Transfer { object: ObjectId(1), start: at(100), stop: Some(at(600)), ..transfer("second", ends, 1 << 30) };
    let second = sim.transfer(second).unwrap();
    sim.record(RecorderSpec { interval: Span::from_millis(50) }).unwrap();
    sim.run_until(at(1_000)).unwrap();
    assert!(sim.failures().is_empty());
    let stats = sim.stats(second);
    assert_eq!(stats.placed_bytes, sim.placed_bytes(second));
    // 40 Mbit/s for 500 ms, less a round trip.
    let expected = 40e6 / 8.0 * 0.49 * BLOCK as f64 / PACKET as f64;
    assert!((stats.placed_bytes as f64 / expected - 1.0).abs() < 0.02, "{stats:?}");
    let times: Vec<_> = sim.series(second).iter().map(|sample| sample.at).collect();
    assert_eq!((times.first(), times.last()), (Some(&at(100)), Some(&at(550))));
}

#[test]
fn links_change_when_told() {
    let Pair { mut sim, links, transfer, .. } =
        pair(&wire(100, 5), HostSpec::default(), Bitrate::from_mbps(90), 1 << 30, 1);
    sim.at(at(1_000), Change::LinkRate(links.0, Some(Bitrate::from_mbps(30)))).unwrap();
    let mut placed = Vec::new();
    for end in [500, 1_000, 1_500, 2_000] {
        sim.run_until(at(end)).unwrap();
        placed.push(sim.placed_bytes(transfer) as f64 * 8.0 / 0.5e6 * PACKET as f64 / BLOCK as f64);
    }
    let (before, after) = (placed[1] - placed[0], placed[3] - placed[2]);
    assert!((before - 90.0).abs() < 0.5 && (after - 30.0).abs() < 0.5, "{before} {after}");
}

#[test]
fn bytes_that_are_placed_wrongly_end_the_run() {
    let mut t = Topology::new();
    let [a, b] = ["a", "b"].map(|name| t.host(name, HostSpec::default()));
    t.duplex("ab", a, b, wire(100, 5), wire(100, 5));
    let mut sim = Simulation::new(t, 1).unwrap();
    let sender = sim.endpoint(a, Box::new(ConstantSender::new(Bitrate::from_mbps(50)))).unwrap();
    let receiver = sim.endpoint(b, Box::new(Collector::misplacing())).unwrap();
    sim.transfer(transfer("flow", (sender, receiver), 1 << 20)).unwrap();
    let error = sim.run_until(at(1_000)).unwrap_err();
    assert!(matches!(error, SimError::WrongPlace { .. }), "{error}");
    assert!(sim.now() < at(12), "{}", sim.now());
}

#[test]
fn bytes_that_are_placed_twice_end_the_run() {
    // The collector does not know that the two flows bring the same object.
    let Pair { mut sim, ends, .. } = pair(&wire(100, 5), HostSpec::default(), Bitrate::from_mbps(40), 1 << 20, 1);
    sim.transfer(transfer("mirror", ends, 1 << 20)).unwrap();
    let error = sim.run_until(at(1_000)).unwrap_err();
    assert!(matches!(error, SimError::PlacedTwice { object: ObjectId(0), .. }), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let Pair { mut sim, hosts, ends, transfer: first, .. } =
        pair(&wire(100, 5), HostSpec::default(), Bitrate::from_mbps(50), 1 << 20, 1);
    let sound = Transfer { object: ObjectId(1), ..transfer("again", ends, 1 << 20) };
    assert!(sim.transfer(sound.clone()).is_ok());
    let cases = [Transfer { size: 7, ..sound.clone() }, Transfer { sender: ends.1, ..sound.clone() }];
    let errors = cases.map(|case| sim.transfer(case).unwrap_err());
    assert!(matches!(errors[0], SimError::SizeDiffers { size: 7, .. }), "{}", errors[0]);
    assert!(matches!(errors[1], SimError::SameHost(_)), "{}", errors[1]);
    sim.run_until(at(100)).unwrap();
    assert!(matches!(sim.transfer(sound), Err(SimError::Past { .. })));
    let gone = Change::Break(first);
    assert!(matches!(sim.at(at(50), gone), Err(SimError::Past { .. })));
    let traffic = UdpTraffic {
        from: hosts[1],
        to: hosts[0],
        rate: Bitrate::ZERO,
        packet_bytes: 1500,
        pattern: Pattern::Constant,
        start: at(200),
        stop: None,
    };
    assert!(matches!(sim.background_udp(traffic), Err(SimError::BadValue { .. })));
}

#[test]
fn a_process_that_ends_is_heard_of_and_another_goes_on_from_what_is_held() {
    let Pair { mut sim, hosts, ends, transfer: first, .. } =
        pair(&wire(12, 10), HostSpec::default(), Bitrate::from_mbps(12), 200 * BLOCK, 1);
    sim.at(at(100), Change::Crash(ends.1)).unwrap();
    sim.run_until(at(200)).unwrap();
    let failed: Vec<_> = sim.failures().iter().map(|failure| (failure.endpoint, failure.error.clone())).collect();
    assert_eq!(failed, [(ends.0, FlowError::Disconnected)], "the sender hears of it, and the dead say nothing");
    let had = sim.placed(first).clone();
    assert!(had.covered() > 0 && had.covered() < 200 * BLOCK, "{had:?}");

    let receiver = sim.endpoint(hosts[1], Box::new(Collector::default())).unwrap();
    let again = Transfer { start: sim.now(), ..transfer("again", (ends.0, receiver), 200 * BLOCK) };
    let again = sim.transfer(again).unwrap();
    assert!(sim.hold(receiver, ObjectId(1), had.clone()).is_err(), "no transfer brings that");
    sim.hold(receiver, ObjectId(0), had.clone()).unwrap();
    sim.run_until(at(3_000)).unwrap();
    assert!(sim.is_complete(again));
    assert_eq!(sim.placed_bytes(again), 200 * BLOCK - had.covered(), "held bytes are not placed again");
    assert!(sim.hold(receiver, ObjectId(0), had).is_err(), "it has started");
}

#[test]
fn datagrams_to_an_old_address_are_lost() {
    let Pair { mut sim, ends, transfer, .. } =
        pair(&wire(12, 10), HostSpec::default(), Bitrate::from_mbps(12), 200 * BLOCK, 1);
    sim.at(at(100), Change::Rebind(ends.1)).unwrap();
    sim.run_until(at(3_000)).unwrap();
    // The sender continues to send to the receiver's old address; packets in flight have come.
    let placed = sim.object_bytes(transfer);
    assert!(!sim.is_complete(transfer) && placed > 50 * BLOCK && placed < 100 * BLOCK, "{placed}");
}

#[test]
fn a_tunnel_carries_all_and_holds_its_sender_up() {
    // The sender sends at twice the link's rate, and one packet in twenty is lost.
    let lossy = LinkSpec { loss: LossSpec::Random(Probability::new(0.05).unwrap()), ..wire(6, 10) };
    let Pair { mut sim, transfer, .. } = pair(&lossy, HostSpec::default(), Bitrate::from_mbps(12), 400 * BLOCK, 3);
    sim.at(at(0), Change::Tunnel(transfer, true)).unwrap();
    while !sim.is_complete(transfer) && sim.now() < at(60_000) {
        sim.run_until(sim.now() + Span::from_millis(100)).unwrap();
    }
    assert!(sim.is_complete(transfer), "at {}", sim.now());
    // The link takes a packet in 2 ms: 400 take 800 ms at the least.
    assert!(sim.now() > at(800), "{}", sim.now());
}
