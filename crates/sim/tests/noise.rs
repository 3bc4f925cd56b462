//! Hosts with noise: delays and their sizes, and times that stay exact.

use std::sync::{Arc, Mutex};

use crate::common::{BLOCK, Collector, ConstantSender};
use inhaul_base::{Bitrate, Span, Time};
use inhaul_link::{LinkSpec, QueueLimit};
use inhaul_sim::{HostNoise, HostSpec, NodeId, Simulation, Stall, Topology, TopologyError, Transfer, TransferId};
use inhaul_transport::{
    Command, CommandError, Endpoint, Event, FlowId, FlowLimits, FlowStats, ObjectId, Place, RxMessage, TxBatch,
};

/// A message as its endpoint was shown it: when, how long it had waited, and of how many datagrams.
type Seen = (Time, Span, usize);

/// A [`Collector`] that notes its calls.
#[derive(Default)]
struct Witness {
    collector: Collector,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Endpoint for Witness {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        self.seen.lock().unwrap().extend(batch.iter().map(|message| (now, message.waited, message.datagrams())));
        self.collector.handle_datagrams(now, batch, places);
    }
    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        self.collector.handle_control(now, flow, message);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.collector.handle_timeout(now);
    }
    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        self.collector.command(now, command)
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        self.collector.poll_transmit(now, out);
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.collector.poll_event()
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.collector.poll_timeout()
    }
    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.collector.flow_stats(flow)
    }
    fn memory_bytes(&self) -> usize {
        self.collector.memory_bytes()
    }
}

struct Pair {
    sim: Simulation,
    receiver: NodeId,
    transfer: TransferId,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Pair {
    /// Runs to the end; returns when it was.
    fn run(&mut self) -> Time {
        let transfer = self.transfer;
        self.sim.run_while(Time::ZERO + Span::from_secs(60), |sim| !sim.is_complete(transfer)).unwrap();
        self.sim.completed_at(transfer).unwrap()
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// When the last datagram of each message arrived.
    fn arrivals(&self) -> Vec<Time> {
        self.seen().into_iter().map(|(now, waited, _)| now - waited).collect()
    }
}

/// A transfer of `blocks` blocks at `rate` between hosts with noise, over a link of 1 Gbit/s and 5 ms.
fn pair(noises: [Option<HostNoise>; 2], rate: Bitrate, blocks: u64, seed: u64) -> Pair {
    let mut topology = Topology::new();
    let [a, b] = noises.map(|noise| HostSpec { noise: noise.map(Arc::new), ..HostSpec::default() });
    let (a, b) = (topology.host("a", a), topology.host("b", b));
    let link = LinkSpec::drop_tail(Bitrate::from_gbps(1), Span::from_millis(5), QueueLimit::Unlimited);
    topology.duplex("ab", a, b, link.clone(), link);
    let mut sim = Simulation::new(topology, seed).unwrap();
    let witness = Witness::default();
    let seen = Arc::clone(&witness.seen);
    let sender = sim.endpoint(a, Box::new(ConstantSender::new(rate))).unwrap();
    let receiver = sim.endpoint(b, Box::new(witness)).unwrap();
    let transfer = Transfer {
        name: "flow".into(),
        sender,
        receiver,
        object: ObjectId(0),
        size: blocks * BLOCK,
        start: Time::ZERO,
        stop: None,
        leaves: false,
        mtu: 1500,
        limits: FlowLimits::default(),
    };
    let transfer = sim.transfer(transfer).unwrap();
    Pair { sim, receiver: b, transfer, seen }
}

fn micros(micros: u64) -> Span {
    Span::from_micros(micros)
}

#[test]
fn noise_of_nothing_changes_nothing_but_the_road() {
    let rate = Bitrate::from_mbps(200);
    let (mut clean, mut still) =
        (pair([None, None], rate, 500, 1), pair([None, Some(HostNoise::default())], rate, 500, 1));
    assert_eq!(clean.run(), still.run());
    assert_eq!(clean.sim.trace(), still.sim.trace());
}

#[test]
fn packets_are_read_late_and_together_and_their_arrivals_stay_exact() {
    // A packet every 20 us; a message takes three, those that arrived within 50 us.
    let rate = Bitrate::from_mbps(600);
    let noise = HostNoise { read_late: vec![micros(200)], aggregates: vec![64], ..HostNoise::default() };
    let (mut clean, mut noisy) = (pair([None, None], rate, 2_000, 1), pair([None, Some(noise)], rate, 2_000, 1));
    let (on_time, late) = (clean.run(), noisy.run());
    assert!(late > on_time && late.since(on_time) < Span::from_millis(1), "{on_time} {late}");
    let stamps = clean.arrivals();
    assert!(noisy.arrivals().iter().all(|at| stamps.contains(at)), "kernels stamp what arrives when it arrives");
    let seen = noisy.seen();
    assert!(seen.iter().all(|(_, waited, datagrams)| *waited <= micros(200) && *datagrams <= 3));
    assert_eq!(seen.iter().map(|(.., datagrams)| datagrams).sum::<usize>(), 2_000);
    let reads = seen.chunk_by(|a, b| a.0 == b.0).count();
    // Each takes what arrives in 200 us: eleven packets or so.
    assert!((150..=250).contains(&reads), "{reads}");
}

#[test]
fn deadlines_are_late_unless_the_thread_spins() {
    let noise = || HostNoise { wake_late: vec![micros(300), micros(500)], ..HostNoise::default() };
    // Of 500 packets each 120 us after the one before, and 400 later on average; now and then an acknowledgement wakes
    // the thread before. 20 us are not slept for. A round trip comes before the first.
    for (mbps, least_ms, most_ms) in [(100, 230.0, 260.0), (600, 9.5, 11.0)] {
        let mut pair = pair([Some(noise()), None], Bitrate::from_mbps(mbps), 500, 1);
        let took = pair.run().since(Time::ZERO).as_millis_f64() - 10.0;
        assert!((least_ms..most_ms).contains(&took), "{mbps} Mbit/s: {took} ms");
    }
}

#[test]
fn stalls_hold_both_reading_and_sending() {
    let stalls = vec![Stall { after: Span::from_millis(30), length: Span::from_millis(10) }];
    let noise = || HostNoise { stalls: stalls.clone(), ..HostNoise::default() };
    let rate = Bitrate::from_mbps(120);
    // 3,000 packets of 100 us.
    let mut reads = pair([None, Some(noise())], rate, 3_000, 3);
    reads.run();
    let most = reads.seen().iter().map(|(_, waited, _)| *waited).max().unwrap();
    assert!(most > Span::from_millis(9) && most <= Span::from_millis(10), "{most}");
    assert!(reads.seen().iter().filter(|(_, waited, _)| *waited > Span::ZERO).count() > 500, "a quarter of the time");
    // This sender does not make up for lost time.
    let mut sends = pair([Some(noise()), None], rate, 3_000, 3);
    let took = sends.run().since(Time::ZERO).as_millis_f64();
    assert!((390.0..430.0).contains(&took), "{took}");
}

#[test]
fn a_socket_that_is_not_read_overflows() {
    let stalls = vec![Stall { after: Span::from_millis(30), length: Span::from_millis(10) }];
    let noise = HostNoise { stalls, socket_bytes: Some(100_000), ..HostNoise::default() };
    // 10 ms at 200 Mbit/s are 250 kB.
    let mut pair = pair([None, Some(noise)], Bitrate::from_mbps(200), 3_000, 1);
    pair.run();
    assert!(pair.sim.host_stats(pair.receiver).socket_drops > 300);
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    let run = |seed| {
        let noise = || HostNoise {
            wake_late: (1..50).map(|k| micros(k * 7)).collect(),
            read_late: (1..40).map(|k| micros(k * 9)).collect(),
            stalls: (1..9).map(|k| Stall { after: Span::from_millis(3 * k), length: micros(k * 300) }).collect(),
            aggregates: vec![1, 40, 3],
            socket_bytes: Some(200_000),
        };
        let mut pair = pair([Some(noise()), Some(noise())], Bitrate::from_mbps(300), 2_000, seed);
        (pair.run(), pair.sim.trace())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn noise_that_makes_no_sense_is_refused() {
    let stall = |after, length| HostNoise { stalls: vec![Stall { after, length }], ..HostNoise::default() };
    for noise in [
        HostNoise { wake_late: vec![Span::from_secs(61)], ..HostNoise::default() },
        HostNoise { read_late: vec![Span::MAX], ..HostNoise::default() },
        stall(Span::ZERO, micros(1)),
        stall(micros(1), Span::from_secs(61)),
        HostNoise { aggregates: vec![0], ..HostNoise::default() },
        HostNoise { socket_bytes: Some(0), ..HostNoise::default() },
    ] {
        let mut topology = Topology::new();
        topology.host("a", HostSpec { noise: Some(Arc::new(noise)), ..HostSpec::default() });
        assert!(matches!(Simulation::new(topology, 1), Err(TopologyError::BadHost { .. })));
    }
}
