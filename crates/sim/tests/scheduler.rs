//! Hosts with a scheduler: when their process runs, losses meanwhile, and earlier notices to its endpoints.

use std::sync::{Arc, Mutex};

use crate::common::{Collector, ConstantSender};
use inhaul_base::{Bitrate, Span, Time};
use inhaul_link::{LinkSpec, QueueLimit};
use inhaul_sim::{
    EevdfSpec, HostSpec, HostStats, InterruptSpec, Monitor, NodeId, O1Spec, Quota, SchedulerKind, SchedulerSpec,
    Simulation, Spell, Task, Topology, TopologyError, Transfer, TransferId,
};
use inhaul_transport::{
    Command, CommandError, Endpoint, Event, FlowId, FlowLimits, FlowStats, HostSample, ObjectId, Pause, Place,
    RxMessage, TxBatch,
};

#[derive(Default)]
struct Seen {
    /// When datagrams were handed over.
    read: Vec<Time>,
    /// Predictions, with their times.
    told: Vec<(Time, Pause)>,
}

/// A [`Collector`] that notes when it is called.
#[derive(Default)]
struct Witness {
    collector: Collector,
    seen: Arc<Mutex<Seen>>,
}

impl Endpoint for Witness {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        self.seen.lock().unwrap().read.push(now);
        self.collector.handle_datagrams(now, batch, places);
    }
    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        self.collector.handle_control(now, flow, message);
    }
    fn handle_host(&mut self, now: Time, sample: HostSample) {
        self.seen.lock().unwrap().told.extend(sample.pause.map(|pause| (now, pause)));
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
    seen: Arc<Mutex<Seen>>,
}

/// A sender of 100 Mbit/s, 8,333 packets a second, to a host that takes 20,000 when it runs.
fn pair(scheduler: SchedulerSpec, ring: usize, seed: u64) -> Pair {
    let spec = HostSpec {
        packet_rate: Some(20_000.0),
        ring_packets: ring,
        scheduler: Some(Arc::new(scheduler)),
        ..HostSpec::default()
    };
    let mut t = Topology::new();
    let hosts = [t.host("a", HostSpec::default()), t.host("b", spec)];
    let link = LinkSpec::drop_tail(Bitrate::from_mbps(1_000), Span::from_millis(1), QueueLimit::Bytes(100_000));
    t.duplex("ab", hosts[0], hosts[1], link.clone(), link);
    let mut sim = Simulation::new(t, seed).unwrap();
    let witness = Witness::default();
    let seen = witness.seen.clone();
    let sender = sim.endpoint(hosts[0], Box::new(ConstantSender::new(Bitrate::from_mbps(100)))).unwrap();
    let receiver = sim.endpoint(hosts[1], Box::new(witness)).unwrap();
    let transfer = Transfer {
        name: "flow".into(),
        sender,
        receiver,
        object: ObjectId(0),
        size: 1 << 40,
        start: Time::ZERO,
        stop: None,
        leaves: false,
        mtu: 1500,
        limits: FlowLimits::default(),
    };
    let transfer = sim.transfer(transfer).unwrap();
    Pair { sim, receiver: hosts[1], transfer, seen }
}

fn o1(tasks: Vec<Task>) -> SchedulerSpec {
    SchedulerSpec {
        kind: SchedulerKind::O1(O1Spec::default()),
        nice: 0,
        interrupts: InterruptSpec::default(),
        monitor: Monitor::On,
        tasks,
    }
}

fn eevdf(spec: EevdfSpec, tasks: Vec<Task>) -> SchedulerSpec {
    SchedulerSpec { kind: SchedulerKind::Eevdf(spec), ..o1(tasks) }
}

/// The result of ten seconds: statistics of the host, received packets, and predictions.
fn ten_seconds(scheduler: SchedulerSpec, ring: usize) -> (HostStats, u64, Seen) {
    let Pair { mut sim, receiver, transfer, seen } = pair(scheduler, ring, 3);
    sim.run_until(Time::ZERO + Span::from_secs(10)).unwrap();
    let (stats, received) = (sim.host_stats(receiver), sim.stats(transfer).received_packets);
    drop(sim);
    (stats, received, Arc::into_inner(seen).unwrap().into_inner().unwrap())
}

#[test]
fn a_process_alone_loses_nothing_and_is_told_nothing() {
    for scheduler in [o1(Vec::new()), eevdf(EevdfSpec::default(), Vec::new())] {
        let (stats, received, seen) = ten_seconds(scheduler, 64);
        assert_eq!((stats.ring_drops, stats.taken, seen.told.len()), (0, Span::ZERO, 0), "{stats:?}");
        assert!(received.abs_diff(83_300) < 100, "{received}");
    }
}

#[test]
fn a_process_that_sleeps_between_packets_stays_ahead_of_a_hog_under_o1() {
    // It needs four tenths of the processor, and keeps its bonus.
    let (stats, received, _) = ten_seconds(o1(vec![Task::default()]), 64);
    assert!(stats.ring_drops < 10 && received > 83_000, "{stats:?}");
    // With a hog that fills the memory's bus it needs all of the processor, and more: it loses its bonus, and waits
    // for slices of 100 ms in which 833 packets come.
    let (stats, received, seen) = ten_seconds(o1(vec![Task { memory: 2.0, ..Task::default() }]), 64);
    assert!(stats.ring_drops > 30_000, "{stats:?}");
    assert!((30_000..45_000).contains(&received), "half of 6,667 a second, and all of it for some seconds: {received}");
    assert!(stats.taken > Span::from_secs(3), "{stats:?}");
    assert!(!seen.told.is_empty());
}

#[test]
fn pauses_come_as_foreseen() {
    let hogs = vec![Task { memory: 2.0, ..Task::default() }; 2];
    let quota = Quota { quota: Span::from_millis(25), period: Span::from_millis(100) };
    let quota = EevdfSpec { quota: Some(quota), ..EevdfSpec::default() };
    // A spell without any reading that lasts for longer than a packet's time.
    for (scheduler, least) in [(o1(hogs), 20), (eevdf(quota, Vec::new()), 90)] {
        let (_, _, seen) = ten_seconds(scheduler, 64);
        let gaps: Vec<(Time, Time)> = seen.read.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let long = gaps.iter().filter(|(from, to)| to.since(*from) > Span::from_millis(20));
        let near = |a: Time, b: Time| a.since(b).max(b.since(a)) < Span::from_millis(8);
        let foreseen = |(from, to): &&(Time, Time)| {
            let mut told = seen.told.iter().filter(|(at, _)| at <= from);
            told.next_back().is_some_and(|(_, pause)| near(pause.start, *from) && near(pause.start + pause.length, *to))
        };
        let (right, wrong): (Vec<&(Time, Time)>, Vec<_>) = long.partition(foreseen);
        assert!(right.len() >= least && wrong.len() * 10 <= right.len(), "{} of {wrong:?}", right.len());
    }
}

#[test]
fn interrupts_take_time_from_the_process_even_for_packets_that_are_lost() {
    // 8,333 packets a second. Each takes 50 us of the process; what interrupts leave decides how many it takes.
    let with = |micros| {
        let interrupts = InterruptSpec { packet: Span::from_micros(micros), ..InterruptSpec::default() };
        SchedulerSpec { interrupts, ..o1(Vec::new()) }
    };
    let (stats, received, _) = ten_seconds(with(50), 64);
    assert_eq!(stats.ring_drops, 0, "83 % of the processor: {stats:?}");
    assert!(received > 83_000);
    // 83 % are for interrupts, and 17 % for 3,333 packets.
    let (stats, received, _) = ten_seconds(with(100), 64);
    assert!(received.abs_diff(33_333) < 400 && stats.ring_drops > 49_000, "{received}, {stats:?}");
    // More than all: receive livelock.
    let (_, received, _) = ten_seconds(with(125), 64);
    assert!(received < 100, "{received}");
}

#[test]
fn what_interrupts_cost_can_be_chosen() {
    // As above, 8,333 packets a second of 50 us, and interrupts of 100 us: the process has 17 % left.
    let base = InterruptSpec { packet: Span::from_micros(100), ..InterruptSpec::default() };
    let with = |interrupts| ten_seconds(SchedulerSpec { interrupts, ..o1(Vec::new()) }, 64);
    // Where lost packets cost nothing, each that is taken costs 150 us.
    let (_, received, _) = with(InterruptSpec { full: Some(Span::ZERO), ..base });
    assert!(received.abs_diff(66_667) < 700, "{received}");
    // Where another processor does it, nothing is lost.
    let (stats, received, _) = with(InterruptSpec { elsewhere: true, ..base });
    assert!(stats.ring_drops == 0 && received > 83_000, "{received}");
    // An interrupt of 500 us for all that come in 1 ms, and 10 us for each of the 8.3: 42 + 8.3 % of the processor.
    let few = InterruptSpec {
        packet: Span::from_micros(10),
        each: Span::from_micros(500),
        coalesce: Span::from_millis(1),
        ..base
    };
    let (stats, received, _) = with(few);
    assert!(stats.ring_drops == 0 && received > 83_000, "{received}, {stats:?}");
    // The same for each packet is a livelock.
    let (_, received, _) = with(InterruptSpec { coalesce: Span::ZERO, ..few });
    assert!(received < 100, "{received}");
}

#[test]
fn a_kernel_with_a_budget_lets_tasks_run_where_it_has_more_to_do_than_it_can() {
    // 125 us for each of 8,333 packets a second is more than all.
    let interrupts = InterruptSpec {
        packet: Span::from_micros(125),
        descriptors: Some(100),
        budget: Some(30),
        ..InterruptSpec::default()
    };
    let (stats, received, _) = ten_seconds(SchedulerSpec { interrupts, ..o1(Vec::new()) }, 64);
    // It works for 3.75 ms or a little more, and then not until the next tick of 1 ms, in which the process reads up to
    // 20 packets: of each 4 or 5 ms.
    assert!((2_500..50_000).contains(&received), "{received}, {stats:?}");
    assert!(stats.ring_drops > 30_000, "{stats:?}");
}

#[test]
fn a_process_that_waits_for_memory_leaves_the_processor_to_others_meanwhile() {
    // 50 us of work and 150 us of waiting: 5,000 packets a second, independent of the hog.
    let hog = Task { paging: Span::from_micros(150), ..Task::default() };
    let (stats, received, _) = ten_seconds(o1(vec![hog]), 64);
    assert!(received.abs_diff(50_000) < 1_000, "{received}, {stats:?}");
}

#[test]
fn a_monitor_that_chooses_tells_of_pauses_in_which_more_comes_than_the_ring_takes() {
    let told = |monitor, ring| {
        let hog = Task { memory: 2.0, ..Task::default() };
        let (_, _, seen) = ten_seconds(SchedulerSpec { monitor, ..o1(vec![hog]) }, ring);
        seen.told.len()
    };
    // 833 packets come in a pause of 100 ms.
    assert!(told(Monitor::On, 64) > 20 && told(Monitor::Auto, 64) > 20);
    assert!(told(Monitor::On, 10_000) > 20);
    assert_eq!(told(Monitor::Auto, 10_000), 0);
}

#[test]
fn deadlines_wait_for_the_process_and_are_not_lost() {
    // A hog of higher priority that works for 50 of 100 ms.
    let spell = Spell::Fixed(Span::from_millis(50));
    let hog = Task { nice: -15, runs: Some(spell), sleeps: spell, ..Task::default() };
    let (stats, received, seen) = ten_seconds(o1(vec![hog]), 10_000);
    assert_eq!(stats.ring_drops, 0);
    assert!(received > 82_000, "{received}");
    let longest = seen.read.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
    assert!(longest.as_millis_f64() > 49.0 && longest.as_millis_f64() < 52.0, "{longest}");
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    let run = |seed| {
        let spell = Spell::Exponential(Span::from_millis(30));
        let sleeper = Task { runs: Some(spell), sleeps: spell, memory: 0.5, ..Task::default() };
        let Pair { mut sim, receiver, .. } = pair(o1(vec![sleeper, Task::default()]), 64, seed);
        sim.run_until(Time::ZERO + Span::from_secs(2)).unwrap();
        (sim.trace(), sim.host_stats(receiver))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut HostSpec)| {
        let mut spec = HostSpec { scheduler: Some(Arc::new(o1(Vec::new()))), ..HostSpec::default() };
        change(&mut spec);
        let mut t = Topology::new();
        t.host("a", spec);
        matches!(Simulation::new(t, 1).err(), Some(TopologyError::BadHost { .. }))
    };
    let task = |task: Task| Some(Arc::new(o1(vec![task])));
    assert!(!refused(|_| {}));
    assert!(refused(|host| host.noise = Some(Arc::default())));
    for bad in [
        Task { nice: 20, ..Task::default() },
        Task { memory: -1.0, ..Task::default() },
        Task { memory: f64::NAN, ..Task::default() },
        Task { runs: Some(Spell::Fixed(Span::ZERO)), ..Task::default() },
        Task { start: Time::FAR_FUTURE, ..Task::default() },
    ] {
        let mut t = Topology::new();
        t.host("a", HostSpec { scheduler: task(bad), ..HostSpec::default() });
        assert!(Simulation::new(t, 1).is_err(), "{bad:?}");
    }
    assert!(refused(|host| {
        let quota = Some(Quota { quota: Span::from_millis(2), period: Span::from_millis(1) });
        host.scheduler = Some(Arc::new(eevdf(EevdfSpec { quota, ..EevdfSpec::default() }, Vec::new())));
    }));
}
