//! How fast the simulator is: packet hops a second on one core beside ns-3, and a thousand GTP flows in real time.
//!
//!     cargo run --release -p inhaul-interop-tests --bin speed [--json FILE] [--only ns3|gather|idle]
//!
//! The ns-3 that is installed is measured, and, when `INHAUL_NS3_DUMBBELL` names a program built from `dumbbell.cc`
//! with a build of one's own, that too. Setting up is not counted, here or there. Leave the machine alone meanwhile.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock; the measured code does not")]

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_interop_tests::ns3::Reference;
use inhaul_interop_tests::{Setting, ours, settings};
use inhaul_link::{LinkSpec, QueueLimit};
use inhaul_protocols::registry;
use inhaul_sim::{Branch, HostSpec, Simulation, StarSpec, Transfer, TransferId, star};
use inhaul_transport::{EndpointConfig, FlowLimits, ObjectId, Role};
use serde::Serialize;

/// Simulated seconds of each comparison.
const SECONDS: u64 = 5;
/// Ours is repeated for so long: one run is too short for the clock.
const AT_LEAST: Duration = Duration::from_secs(2);

/// Speed on a setting of TCP flows.
#[derive(Debug, Serialize)]
struct Comparison {
    setting: String,
    ours_hops_per_s: f64,
    ours_hops: u64,
    ns3_installed_hops_per_s: Option<f64>,
    ns3_named_hops_per_s: Option<f64>,
    ns3_hops: Option<u64>,
}

/// Speed with many GTP flows into one receiver.
#[derive(Debug, Serialize)]
struct Gathering {
    flows: u64,
    mtu: u16,
    simulated_s: f64,
    wall_s: f64,
    simulated_per_wall: f64,
    hops_per_s: f64,
    /// Of the objects' bytes, over the last simulated second.
    goodput_gbps: f64,
    /// Simulation and endpoints, for each flow; without packets in flight.
    memory_bytes_per_flow: usize,
    receiver_bytes_per_flow: usize,
}

/// The measurements.
#[derive(Debug, Default, Serialize)]
struct Report {
    beside_ns3: Vec<Comparison>,
    /// With packets of 1,500 and of 9,000 bytes.
    gathering: Vec<Gathering>,
    /// Without and with idle flows.
    idle: Vec<Idle>,
}

/// The cost of one busy flow beside resting ones.
#[derive(Debug, Serialize)]
struct Idle {
    protocol: &'static str,
    idle_flows: u32,
    /// Data packets of the busy flow while it was measured.
    packets: u64,
    hops: u64,
    /// All time over the busy flow's packets: that of the idle flows' probes included.
    ns_per_packet: f64,
    /// Without the cost of the idle flows when no flow is busy.
    own_ns_per_packet: f64,
    ns_per_hop: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut json, mut only) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        match (name.as_str(), arguments.next()) {
            ("--json", Some(file)) => json = Some(file),
            ("--only", Some(part)) if ["ns3", "gather", "idle"].contains(&part.as_str()) => only = Some(part),
            _ => return Err(format!("'{name}': --json FILE and --only ns3|gather|idle are known").into()),
        }
    }
    let wanted = |part| only.as_deref().is_none_or(|only| only == part);
    let mut report = Report::default();
    if wanted("ns3") {
        report.beside_ns3 = compare_all()?;
        print_comparisons(&report.beside_ns3);
    }
    if wanted("gather") {
        for mtu in [1_500, 9_000] {
            let gathering = gather(1_000, mtu, Bitrate::from_gbps(10), 4)?;
            print_gathering(&gathering);
            report.gathering.push(gathering);
        }
    }
    if wanted("idle") {
        println!("\n| protocol | idle flows | data packets | hops | ns a data packet | of these its own | ns a hop |");
        println!("|---|---|---|---|---|---|---|");
        for protocol in ["gtp", "cubic"] {
            for idle_flows in [0, 10_000] {
                let idle = beside_idle(protocol, idle_flows)?;
                println!(
                    "| {} | {} | {} | {} | {:.0} | {:.0} | {:.0} |",
                    idle.protocol,
                    idle.idle_flows,
                    idle.packets,
                    idle.hops,
                    idle.ns_per_packet,
                    idle.own_ns_per_packet,
                    idle.ns_per_hop
                );
                report.idle.push(idle);
            }
        }
    }
    if let Some(file) = json {
        fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

fn compare_all() -> Result<Vec<Comparison>, Box<dyn Error>> {
    let mut references = [Some(Reference::installed()), Reference::named()];
    for reference in references.iter().flatten() {
        if let Some(error) = reference.unavailable() {
            println!("ns-3 is left out: {error}");
        }
    }
    let settings = [("reno", 1), ("cubic", 1), ("reno", 100), ("cubic", 100)];
    settings.map(|(law, flows)| compare(&settings::speed(law, flows, SECONDS), &mut references)).into_iter().collect()
}

fn print_gathering(g: &Gathering) {
    println!(
        "\n{} GTP flows into one receiver at 10 Gbit/s, packets of {} bytes: {:.1} simulated s in {:.2} s, {:.2} simulated s a second, {:.2} million \
         hops a second, goodput {:.2} Gbit/s in the last second, memory a flow {} bytes (of these the receiver's endpoint {})",
        g.flows,
        g.mtu,
        g.simulated_s,
        g.wall_s,
        g.simulated_per_wall,
        g.hops_per_s / 1e6,
        g.goodput_gbps,
        g.memory_bytes_per_flow,
        g.receiver_bytes_per_flow,
    );
}

fn compare(setting: &Setting, references: &mut [Option<Reference>; 2]) -> Result<Comparison, Box<dyn Error>> {
    let mut spent = Duration::ZERO;
    let (mut hops, mut runs) = (0, 0);
    while spent < AT_LEAST {
        runs += 1;
        let mut prepared = ours::prepare(setting, runs)?;
        let began = Instant::now();
        prepared.sim.run_until(Time::ZERO + setting.duration)?;
        spent += began.elapsed();
        hops += prepared.sim.hops();
    }
    let mut theirs = [None, None];
    for (run, reference) in theirs.iter_mut().zip(references) {
        let available = reference.as_mut().filter(|reference| reference.unavailable().is_none());
        *run = available.map(|reference| reference.run(setting, 1, Span::from_secs(1))).transpose()?;
    }
    let rate =
        |run: &Option<inhaul_interop_tests::ns3::Run>| run.as_ref().map(|run| run.outcome.hops as f64 / run.wall_s);
    Ok(Comparison {
        setting: setting.name.clone(),
        ours_hops_per_s: hops as f64 / spent.as_secs_f64(),
        ours_hops: hops / runs,
        ns3_installed_hops_per_s: rate(&theirs[0]),
        ns3_named_hops_per_s: rate(&theirs[1]),
        ns3_hops: theirs[0].as_ref().map(|run| run.outcome.hops),
    })
}

fn print_comparisons(comparisons: &[Comparison]) {
    println!(
        "| setting | hops, ours | hops, ns-3 | ours, hops/s | ns-3 installed, hops/s | ns-3 tuned, hops/s | times the best |"
    );
    println!("|---|---|---|---|---|---|---|");
    for c in comparisons {
        let theirs = [c.ns3_installed_hops_per_s, c.ns3_named_hops_per_s];
        let best = theirs.into_iter().flatten().fold(0.0, f64::max);
        let [installed, named] = theirs.map(|rate| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")));
        let times = if best > 0.0 { format!("{:.1}", c.ours_hops_per_s / best) } else { "-".to_owned() };
        let ns3_hops = c.ns3_hops.map_or_else(|| "-".to_owned(), |hops| hops.to_string());
        println!(
            "| {} | {} | {ns3_hops} | {:.0} | {installed} | {named} | {times} |",
            c.setting, c.ours_hops, c.ours_hops_per_s
        );
    }
}

/// A number of GTP flows, each from a host of its own with round-trip times from 10 to 100 ms, into one receiver behind
/// a link of `rate`.
fn gather(flows: u64, mtu: u16, rate: Bitrate, seconds: u64) -> Result<Gathering, Box<dyn Error>> {
    let branch = |delay: Span| {
        let link = LinkSpec::drop_tail(Bitrate::from_gbps(1), delay, QueueLimit::Unlimited);
        Branch { host: HostSpec::default(), to_hub: link.clone(), from_hub: link }
    };
    let access = LinkSpec::drop_tail(rate, Span::ZERO, QueueLimit::Bytes(rate.bytes_in(Span::from_millis(20))));
    let spec = StarSpec {
        senders: (0..flows).map(|k| branch(Span::from_micros(5_000 + 45_000 * k / flows))).collect(),
        receiver: Branch { host: HostSpec::default(), to_hub: access.clone(), from_hub: access },
    };
    let (topology, parts) = star(&spec);
    let mut sim = Simulation::new(topology, 1)?;
    let gtp = registry::find("gtp").ok_or("the registry has no gtp")?;
    let mut config = EndpointConfig::new(Role::Receiver, 1);
    config.host_rate = Some(rate);
    config.socket_buffer_bytes = 4 << 20;
    let receiver = sim.endpoint(parts.receiver, (gtp.build)(&config)?)?;
    let mut transfers = Vec::new();
    for (k, host) in (0u32..).zip(&parts.senders) {
        let sender = sim.endpoint(*host, (gtp.build)(&EndpointConfig::new(Role::Sender, 2 + u64::from(k)))?)?;
        transfers.push(sim.transfer(Transfer {
            name: format!("flow {k}"),
            sender,
            receiver,
            object: ObjectId(k),
            size: 1 << 40,
            start: Time::ZERO,
            stop: None,
            leaves: false,
            mtu,
            limits: FlowLimits::default(),
        })?);
    }
    let placed = |sim: &Simulation| transfers.iter().map(|t: &TransferId| sim.placed_bytes(*t)).sum::<u64>();
    let began = Instant::now();
    sim.run_until(Time::ZERO + Span::from_secs(seconds - 1))?;
    let before = placed(&sim);
    sim.run_until(Time::ZERO + Span::from_secs(seconds))?;
    let wall_s = began.elapsed().as_secs_f64();
    Ok(Gathering {
        flows,
        mtu,
        simulated_s: seconds as f64,
        wall_s,
        simulated_per_wall: seconds as f64 / wall_s,
        hops_per_s: sim.hops() as f64 / wall_s,
        goodput_gbps: (placed(&sim) - before) as f64 * 8e-9,
        memory_bytes_per_flow: sim.memory_bytes() / flows as usize,
        receiver_bytes_per_flow: sim.endpoint_memory_bytes(receiver) / flows as usize,
    })
}

/// Simulated seconds in which the idle flows come, finish and are probed as those at rest are, and in which the busy flow
/// is measured.
const IDLE_BEFORE: u64 = 32;
const IDLE_MEASURED: u64 = 4;
/// The idle flows start over this many milliseconds, the time between probes of resting paths: so probes are even.
const REST_ROUND_MS: u64 = 15_000;
/// Runs of each; the quickest counts.
const IDLE_RUNS: usize = 3;

/// One flow over 1 Gbit/s and 20 ms, between hosts that have `idle` further flows without wanted data.
fn beside_idle(name: &'static str, idle_flows: u32) -> Result<Idle, Box<dyn Error>> {
    // The least of several: other programs only add.
    let least = |is_busy| {
        let runs = (0..IDLE_RUNS).map(|_| with_idle(name, idle_flows, is_busy)).collect::<Result<Vec<_>, _>>();
        runs.map(|runs| runs.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default())
    };
    let (nanos, packets, hops) = least(true)?;
    let (alone, _, _) = least(false)?;
    let a_packet = |nanos: f64| nanos / packets as f64;
    Ok(Idle {
        protocol: name,
        idle_flows,
        packets,
        hops,
        ns_per_packet: a_packet(nanos),
        own_ns_per_packet: a_packet(nanos - alone),
        ns_per_hop: nanos / hops as f64,
    })
}

/// Nanoseconds that the measured time took, the busy flow's packets, and all hops.
fn with_idle(name: &str, idle_flows: u32, is_busy: bool) -> Result<(f64, u64, u64), Box<dyn Error>> {
    let rate = Bitrate::from_gbps(1);
    let link = |rate| LinkSpec::drop_tail(rate, Span::from_millis(10), QueueLimit::Bytes(2 << 20));
    let wide = link(Bitrate::from_gbps(10));
    let narrow = LinkSpec { delay: Span::ZERO, ..link(rate) };
    let host = HostSpec::default;
    let spec = StarSpec {
        senders: vec![Branch { host: host(), to_hub: wide.clone(), from_hub: wide }],
        receiver: Branch { host: host(), to_hub: narrow.clone(), from_hub: narrow },
    };
    let (topology, parts) = star(&spec);
    let mut sim = Simulation::new(topology, 1)?;
    let protocol = registry::find(name).ok_or("the registry has no such protocol")?;
    let receiver = sim.endpoint(parts.receiver, (protocol.build)(&EndpointConfig::new(Role::Receiver, 1))?)?;
    let sender = sim.endpoint(parts.senders[0], (protocol.build)(&EndpointConfig::new(Role::Sender, 2))?)?;
    let mut add = |object: u32, size, start_ms| {
        sim.transfer(Transfer {
            name: format!("flow {object}"),
            sender,
            receiver,
            object: ObjectId(object),
            size,
            start: Time::ZERO + Span::from_millis(start_ms),
            stop: None,
            leaves: false,
            mtu: 1_500,
            limits: FlowLimits::default(),
        })
    };
    for k in 0..idle_flows {
        add(1 + k, 1, u64::from(k) * REST_ROUND_MS / u64::from(idle_flows))?;
    }
    let busy = add(0, if is_busy { 1 << 40 } else { 1 }, REST_ROUND_MS + 1_000)?;
    sim.run_until(Time::ZERO + Span::from_secs(IDLE_BEFORE))?;
    let (packets, hops) = (sim.stats(busy).received_packets, sim.hops());
    let began = Instant::now();
    sim.run_until(Time::ZERO + Span::from_secs(IDLE_BEFORE + IDLE_MEASURED))?;
    let nanos = began.elapsed().as_nanos() as f64;
    Ok((nanos, sim.stats(busy).received_packets - packets, sim.hops() - hops))
}
