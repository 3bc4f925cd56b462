//! Packets over links, in virtual time; and between devices, in real time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Probability, Span, Time};
use inhaul_link::{LinkSpec, LossSpec, QueueLimit};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::network::{MEMORY_MAX, Network, NotEntered};
use super::run::{Command, Engine};
use super::segment::Delivery;
use crate::grid::{Change, Grid, GridLink, Host, LinkChange};
use crate::options::Wait;
use crate::packet::Packet;
use crate::packet::samples::{self, Sample};

const MILLI: Span = Span::from_millis(1);

/// Hosts a and b, the links `specs` in a row from a to b, and a perfect link back.
fn row(specs: &[LinkSpec]) -> Grid {
    let host = |name: &str| Host { name: name.to_owned(), mtu: 1500 };
    let mut links: Vec<GridLink> =
        specs.iter().map(|spec| GridLink { name: String::new(), spec: spec.clone() }).collect();
    links.push(GridLink { name: "back".to_owned(), spec: LinkSpec::ideal() });
    let paths = [((0, 1), (0..specs.len()).collect()), ((1, 0), vec![specs.len()])].into_iter().collect();
    Grid { hosts: vec![host("a"), host("b")], links, paths, changes: Vec::new(), seed: 1 }
}

fn network(grid: &Grid) -> Network {
    Network::new(grid, &vec![true; grid.hosts.len()], MEMORY_MAX)
}

fn link(mbps: u64, delay: Span) -> LinkSpec {
    LinkSpec::drop_tail(Bitrate::from_mbps(mbps), delay, QueueLimit::Unlimited)
}

fn ordinary(len: usize) -> Packet {
    Packet::parse(samples::ordinary(len)).unwrap()
}

/// A superpacket of `segments` of 1000 bytes, headers included.
fn superpacket(segments: usize) -> Packet {
    Packet::parse(Sample { options: 0, segment: 960, payload: 960 * segments, ..Sample::default() }.bytes()).unwrap()
}

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

/// Everything that arrives, with time passing as the network asks for it.
fn run_out(network: &mut Network) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    let mut last = Time::ZERO;
    while let Some(due) = network.next_at() {
        assert!(due >= last, "time goes on");
        last = due;
        network.advance(due);
        deliveries.extend(std::iter::from_fn(|| network.pop_delivery()));
        assert!(network.next_at() != Some(due) || due < Time::FAR_FUTURE);
    }
    deliveries
}

/// When which segments arrived, in microseconds.
fn times(deliveries: &[Delivery]) -> Vec<(u64, std::ops::Range<u16>)> {
    deliveries.iter().map(|delivery| (delivery.at.as_nanos() / 1000, delivery.segments.clone())).collect()
}

#[test]
fn enter_takes_a_packet_over_every_link_of_its_path() {
    let mut network = network(&row(&[link(8, MILLI), link(80, MILLI * 2)]));
    network.enter(at(50), 0, 1, ordinary(1000)).unwrap();
    let deliveries = run_out(&mut network);
    // 1 ms and 0.1 ms to transmit 8000 bits, 3 ms on the way.
    assert_eq!(times(&deliveries), [(50 + 1000 + 1000 + 100 + 2000, 0..1)]);
    assert_eq!(deliveries[0].host, 1);
}

#[test]
fn enter_refuses_whom_no_path_leads_to() {
    let mut network = network(&row(&[link(8, MILLI)]));
    for to in [0, 2, usize::MAX] {
        assert_eq!(network.enter(at(0), 0, to, ordinary(100)), Err(NotEntered::NoPath), "{to}");
    }
}

#[test]
fn enter_bounds_memory_and_gets_it_back() {
    let grid = row(&[link(8, MILLI)]);
    let mut network = Network::new(&grid, &[true, true], 10_000);
    let entered = (0..20).filter(|_| network.enter(at(0), 0, 1, ordinary(1000)).is_ok()).count();
    assert_eq!(entered, 8);
    assert_eq!(network.enter(at(0), 0, 1, ordinary(1000)), Err(NotEntered::NoMemory));
    assert_eq!(run_out(&mut network).len(), 8);
    assert_eq!(network.enter(at(20_000), 0, 1, ordinary(1000)), Ok(()));
}

#[test]
fn converging_paths_share_the_queue_of_their_link() {
    let mut grid = row(&[link(8, MILLI)]);
    grid.hosts.push(Host { name: "c".to_owned(), mtu: 1500 });
    grid.paths.insert((2, 1), vec![0]);
    let mut network = network(&grid);
    network.enter(at(0), 0, 1, ordinary(1000)).unwrap();
    network.enter(at(0), 2, 1, ordinary(1000)).unwrap();
    assert_eq!(times(&run_out(&mut network)), [(2000, 0..1), (3000, 0..1)]);
}

#[test]
fn superpacket_leaves_at_its_last_segment_s_time() {
    // 1 us a segment.
    let mut network = network(&row(&[link(8000, MILLI)]));
    network.enter(at(0), 0, 1, superpacket(10)).unwrap();
    assert_eq!(times(&run_out(&mut network)), [(1010, 0..10)]);
    assert_eq!(network.stats(at(2000))[0].carried.packets, 10, "each segment counts");
    assert_eq!(network.stats(at(2000))[0].carried.bytes, 10_000);
}

#[test]
fn superpacket_on_a_slow_link_comes_in_parts() {
    // 50 us a segment: in 125 us from the first there are two more. Each part arrives with its last segment.
    let mut network = network(&row(&[link(160, MILLI)]));
    network.enter(at(0), 0, 1, superpacket(7)).unwrap();
    assert_eq!(times(&run_out(&mut network)), [(1150, 0..3), (1300, 3..6), (1350, 6..7)]);
}

#[test]
fn superpacket_comes_singly_to_a_host_that_does_not_take_them() {
    let grid = row(&[link(8000, MILLI)]);
    let mut network = Network::new(&grid, &[true, false], MEMORY_MAX);
    network.enter(at(0), 0, 1, superpacket(3)).unwrap();
    assert_eq!(times(&run_out(&mut network)), [(1001, 0..1), (1002, 1..2), (1003, 2..3)]);
}

#[test]
fn superpacket_loses_the_segments_that_the_link_loses() {
    for (lost, expected) in [
        (vec![2], vec![(1004, 0..2), (1005, 3..5)]),
        (vec![0], vec![(1005, 1..5)]),
        // The loss of the end shows by missing arrivals.
        (vec![4], vec![(1126, 0..4)]),
        (vec![3, 4], vec![(1126, 0..3)]),
        (vec![0, 1, 2, 3, 4], vec![]),
    ] {
        let spec = LinkSpec { loss: LossSpec::Scripted(lost.clone()), ..link(8000, MILLI) };
        let mut network = network(&row(&[spec]));
        network.enter(at(0), 0, 1, superpacket(5)).unwrap();
        assert_eq!(times(&run_out(&mut network)), expected, "{lost:?}");
    }
}

#[test]
fn superpacket_that_is_too_long_for_the_queue_loses_its_end() {
    let spec = LinkSpec::drop_tail(Bitrate::from_mbps(8000), MILLI, QueueLimit::Packets(3));
    let mut network = network(&row(&[spec]));
    network.enter(at(0), 0, 1, superpacket(10)).unwrap();
    // One in transmission, three in the queue.
    assert_eq!(times(&run_out(&mut network)), [(1126, 0..4)]);
    assert_eq!(network.stats(at(2000))[0].queue_full.packets, 6);
}

#[test]
fn duplicates_arrive_as_packets_of_their_own() {
    let spec = LinkSpec { duplication: Probability::new(1.0).unwrap(), ..link(8000, MILLI) };
    let mut network = network(&row(&[spec]));
    network.enter(at(0), 0, 1, ordinary(1000)).unwrap();
    network.enter(at(10), 0, 1, superpacket(2)).unwrap();
    let expected = [(1001, 0..1), (1001, 0..1), (1011, 0..1), (1012, 0..2), (1012, 1..2)];
    assert_eq!(times(&run_out(&mut network)), expected);
}

#[test]
fn what_waits_for_a_link_that_went_down_is_let_go() {
    let mut network = network(&row(&[link(80, MILLI)]));
    network.enter(at(0), 0, 1, superpacket(5)).unwrap();
    network.advance(at(150));
    network.change(at(150), 0, LinkChange::Up(false));
    assert_eq!(times(&run_out(&mut network)), [(1225, 0..1)], "one was on its way, one was cut");
    network.change(at(2000), 0, LinkChange::Up(true));
    network.change(at(2000), 0, LinkChange::Rate(Some(Bitrate::from_mbps(8))));
    network.enter(at(2000), 0, 1, ordinary(1000)).unwrap();
    assert_eq!(times(&run_out(&mut network)), [(4000, 0..1)]);
}

proptest! {
    /// For all packets and all links: each segment arrives as often as the link delivers it, in order if the link keeps
    /// the order, and none stays behind.
    #[test]
    fn segments_are_neither_made_nor_forgotten(
        packets in proptest::collection::vec((0..300u64, 0..2usize, 1..12usize), 1..30),
        loss in 0..40u64,
        duplication in 0..20u64,
        queue in 1..40u64,
        jitter_us in 0..200u64,
        mbps in 50..20_000u64,
    ) {
        let part = |percent: u64| Probability::new(percent as f64 / 100.0).unwrap();
        let lossy = LinkSpec {
            loss: LossSpec::Random(part(loss)),
            duplication: part(duplication),
            jitter: Span::from_micros(jitter_us),
            jitter_reorders: jitter_us > 100,
            ..LinkSpec::drop_tail(Bitrate::from_mbps(mbps), MILLI, QueueLimit::Packets(queue))
        };
        let grid = row(&[lossy, link(1000, MILLI)]);
        let mut network = network(&grid);
        let (mut now, mut sent, mut deliveries) = (Time::ZERO, [0u64; 2], Vec::new());
        for (gap, from, segments) in packets {
            now += Span::from_micros(gap);
            network.advance(now);
            let packet = if segments == 1 { ordinary(1000) } else { superpacket(segments) };
            sent[from] += segments as u64;
            network.enter(now, from, 1 - from, packet).unwrap();
            deliveries.extend(std::iter::from_fn(|| network.pop_delivery()));
        }
        deliveries.extend(run_out(&mut network));
        prop_assert!(deliveries.iter().map(|delivery| delivery.at).is_sorted());
        let mut arrived: BTreeMap<usize, u64> = BTreeMap::new();
        for delivery in &deliveries {
            *arrived.entry(delivery.host).or_default() += delivery.segments.len() as u64;
        }
        let stats = network.stats(now + Span::from_secs(10));
        prop_assert_eq!(stats[0].offered.packets, sent[0]);
        prop_assert_eq!(stats[1].offered.packets, stats[0].carried.packets + stats[0].duplicated.packets);
        prop_assert_eq!(arrived.get(&1).copied().unwrap_or(0), stats[1].carried.packets);
        prop_assert_eq!(arrived.get(&0).copied().unwrap_or(0), sent[1], "the way back loses nothing");
        prop_assert!(stats.iter().all(|stats| stats.queued.packets == 0));
    }
}

/// An engine between two fake devices: sockets that keep packets apart.
struct Fake {
    ends: Vec<OwnedFd>,
    commands: mpsc::Sender<Command>,
    waker: inhaul_udp::Waker,
    thread: std::thread::JoinHandle<io::Result<super::run::EngineReport>>,
}

fn fake(grid: Grid, wait: Wait) -> Fake {
    let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
    let (devices, ends): (Vec<OwnedFd>, Vec<OwnedFd>) = grid.hosts.iter().map(|_| pair()).unzip();
    let (commands, received) = mpsc::channel();
    let (ready, waker) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let superpackets = vec![true; grid.hosts.len()];
        let engine = Engine::new(&grid, devices, &superpackets, wait, received)?;
        ready.send(engine.waker()).unwrap();
        engine.run()
    });
    let waker = waker.recv().unwrap();
    Fake { ends, commands, waker, thread }
}

impl Fake {
    fn command(&self, command: Command) {
        self.commands.send(command).unwrap();
        self.waker.wake();
    }

    fn send(&self, host: usize, bytes: &[u8]) {
        assert_eq!(rustix::io::write(&self.ends[host], bytes), Ok(bytes.len()));
    }

    /// The next packet for a host; `None`: none comes in time.
    fn receive(&self, host: usize, patience: Duration) -> Option<Vec<u8>> {
        let patience = Timespec::try_from(patience).unwrap();
        let ready = poll(&mut [PollFd::new(&self.ends[host], PollFlags::IN)], Some(&patience)).unwrap();
        let mut bytes = vec![0; 70_000];
        (ready > 0).then(|| {
            let len = rustix::io::read(&self.ends[host], &mut bytes).unwrap();
            bytes[..len].to_vec()
        })
    }

    fn stop(self) -> super::run::EngineReport {
        self.command(Command::Stop);
        self.thread.join().unwrap().unwrap()
    }
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn run_carries_packets_between_devices_and_counts_what_it_cannot() {
    for wait in [Wait::Sleep, Wait::Spin] {
        let fake = fake(row(&[link(1000, MILLI * 5)]), wait);
        let since = Instant::now();
        let (packet, large) = (samples::ordinary(1400), Sample { payload: 30_000, ..Sample::default() }.bytes());
        fake.send(0, &packet);
        assert_eq!(fake.receive(1, LONG), Some(packet));
        assert!(since.elapsed() >= Duration::from_millis(5), "{wait:?}: {:?}", since.elapsed());
        fake.send(0, &large);
        let mut payload = Vec::new();
        while payload.len() < 30_000 {
            payload.extend_from_slice(samples::payload(&fake.receive(1, LONG).unwrap()));
        }
        assert_eq!(payload, samples::payload(&large), "in one piece or several");
        fake.send(1, &[1, 2, 3]);
        // To 10.0.0.2 from 10.0.0.2, and to an unused address.
        fake.send(1, &samples::ordinary(100));
        let mut multicast = samples::ordinary(100);
        multicast[26..30].copy_from_slice(&[224, 0, 0, 22]);
        fake.send(1, &multicast);
        assert_eq!(fake.receive(0, Duration::from_millis(30)), None);
        let report = fake.stop();
        assert_eq!((report.ports[0].read, report.ports[1].malformed, report.ports[1].unroutable), (2, 1, 2));
        assert_eq!(report.links[0].carried.packets, 1 + 21);
        assert!(report.ports[1].written >= 2 && report.lateness.packets == report.ports[1].written);
    }
}

#[test]
fn run_changes_links_as_planned_and_as_told() {
    let mut grid = row(&[link(1000, MILLI)]);
    grid.changes.push(Change { at: MILLI * 30, link: 0, what: LinkChange::Up(true) });
    grid.changes.push(Change { at: Span::ZERO, link: 0, what: LinkChange::Up(false) });
    let fake = fake(grid, Wait::Sleep);
    fake.command(Command::Begin);
    fake.send(0, &samples::ordinary(100));
    assert_eq!(fake.receive(1, Duration::from_millis(10)), None, "it went down as planned");
    let deadline = Instant::now() + LONG;
    let try_again = || {
        fake.send(0, &samples::ordinary(101));
        fake.receive(1, Duration::from_millis(5))
    };
    while try_again().is_none() {
        assert!(Instant::now() < deadline, "it does not come up again");
    }
    fake.command(Command::Change(0, LinkChange::Up(false)));
    // Earlier packets may still be in flight.
    while fake.receive(1, Duration::from_millis(10)).is_some() {}
    fake.send(0, &samples::ordinary(102));
    assert_eq!(fake.receive(1, Duration::from_millis(10)), None, "it went down at the command");
}

#[test]
fn run_takes_note_of_a_device_that_vanishes() {
    let mut grid = row(&[link(1000, MILLI)]);
    grid.hosts.push(Host { name: "c".to_owned(), mtu: 1500 });
    grid.paths.insert((0, 2), vec![0]);
    let mut fake = fake(grid, Wait::Sleep);
    fake.ends[1] = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    fake.send(0, &samples::ordinary(100));
    // What follows over the same link arrives after it.
    let mut to_c = samples::ordinary(100);
    to_c[26..30].copy_from_slice(&[10, 0, 0, 3]);
    fake.send(0, &to_c);
    assert!(fake.receive(2, LONG).is_some());
    let report = fake.stop();
    assert_eq!((report.gone, report.ports[1].rejected), (vec![1], 1));
}
