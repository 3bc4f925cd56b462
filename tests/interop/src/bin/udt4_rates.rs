//! How the rates of UDT go: libudt's and ours over an emulated path, and ours in the simulator.
//!
//!     cargo run --release -p inhaul-interop-tests --bin udt4_rates [-- OPTION VALUE...]
//!
//! One flow, and two that start together, at 100 Mbit/s and 1 Gbit/s, 20 and 100 ms, with a queue of one round-trip time.
//! Options: `--seconds` of each run (30), `--seed` (1), `--only WORD` for the settings whose name contains the word.
//! A line for each: the rates over the seconds, and the mean of the last three quarters beside libudt's. Ends with 1 when
//! one of ours is more than 10 % away from it. Without libudt, or where this user may have no network namespaces, it says
//! so and ends with 0.
#![allow(clippy::disallowed_methods, reason = "real programs need real time")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_emu::{Emulator, Grid, GridLink, Host, KEEPER_ARGUMENTS, Stage, run_keeper};
use inhaul_interop_tests::emulated::{Outcome, Running, is_forbidden};
use inhaul_interop_tests::libudt::{self, LibudtError};
use inhaul_link::{LinkSpec, QueueLimit};
use inhaul_protocols::registry;
use inhaul_sim::{HostSpec, Simulation, Topology, Transfer};
use inhaul_transport::{EndpointConfig, FlowLimits, ObjectId, Role};
use inhaul_udt4::{End, Endpoint, Options, UdtError};

/// Bytes that are written and read at a time: as in `peer.cc`.
const PIECE: usize = 1 << 16;

/// Packets that both may have on their way and keep: more than 1 Gbit/s and 100 ms need.
const BUFFER_PACKETS: usize = 25_600;

/// Ours may be so far from libudt's.
const NEAR: f64 = 0.1;

/// How long a program may take longer than it should.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whose UDT runs.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Libudt,
    Ours,
}

struct Setting {
    rate: Bitrate,
    rtt: Span,
    flows: usize,
    seconds: u64,
    seed: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The keeper of the namespaces and our ends of connections are this program too.
    let result = match &words[..] {
        [link, keeper, stage] if [*link, *keeper] == KEEPER_ARGUMENTS => match Stage::named(stage) {
            Some(stage) => return run_keeper(stage),
            None => Err("there is no such stage".into()),
        },
        ["blast", to] => blast(to),
        ["meter", seconds] => meter(seconds),
        options => compare_all(options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("udt4_rates: {error}");
            ExitCode::FAILURE
        }
    }
}

// --- Our ends -------------------------------------------------------------------------------------------------------

fn options() -> Options {
    Options { send_buffer: BUFFER_PACKETS, receive_buffer: BUFFER_PACKETS, ..Options::default() }
}

/// Sends until the other side closes.
fn blast(to: &str) -> Outcome<()> {
    let socket = Endpoint::bind(SocketAddr::from(([0; 4], 0)), options())?.connect(to.parse()?)?;
    let piece = vec![0; PIECE];
    loop {
        match socket.write_all(&piece) {
            Ok(()) => {}
            Err(UdtError::Ended(End::ByPeer)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Prints the bytes that came, each second.
fn meter(seconds: &str) -> Outcome<()> {
    let endpoint = Endpoint::bind(SocketAddr::from(([0; 4], 0)), options())?;
    let incoming = endpoint.listen(1)?;
    println!("port {}", endpoint.local_address().port());
    let socket = incoming.accept()?;
    let (began, mut piece, mut bytes) = (Instant::now(), vec![0; PIECE], 0);
    let mut seconds = 1..=seconds.parse::<u64>()?;
    let mut due = seconds.next();
    while let Some(second) = due {
        bytes += socket.read(&mut piece)? as u64;
        if began.elapsed() >= Duration::from_secs(second) {
            println!("{bytes}");
            due = seconds.next();
        }
    }
    Ok(())
}

// --- The settings ---------------------------------------------------------------------------------------------------

fn compare_all(words: &[&str]) -> Outcome<()> {
    let (mut seconds, mut seed, mut only) = (30, 1, "");
    let (pairs, rest) = words.as_chunks::<2>();
    for [name, value] in pairs {
        match *name {
            "--seconds" => seconds = value.parse()?,
            "--seed" => seed = value.parse()?,
            "--only" => only = value,
            _ => return Err(format!("there is no option '{name}'").into()),
        }
    }
    if let [name] = rest {
        return Err(format!("'{name}' needs a value").into());
    }
    if !(4..=600).contains(&seconds) {
        return Err("--seconds is from 4 to 600".into());
    }
    let directory = tempfile::tempdir()?;
    let peer = match libudt::peer(directory.path()) {
        Ok(peer) => peer,
        Err(LibudtError::Absent(why)) => {
            println!("udt4_rates: SKIPPED: {why}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let mut far = 0;
    for (mbps, millis, flows) in [100, 1_000]
        .into_iter()
        .flat_map(|mbps| [20, 100].into_iter().flat_map(move |ms| [1, 2].map(|n| (mbps, ms, n))))
    {
        let setting = Setting { rate: Bitrate::from_mbps(mbps), rtt: Span::from_millis(millis), flows, seconds, seed };
        let name = format!("{mbps} Mbit/s, {millis} ms, flows: {flows}");
        if !name.contains(only) {
            continue;
        }
        println!("{name}");
        match compare(&setting, &peer) {
            Ok(near) => far += u32::from(!near),
            Err(error) if is_forbidden(&*error) => {
                println!("udt4_rates: SKIPPED: {error}");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    if far == 0 { Ok(()) } else { Err(format!("in {far} settings ours is more than 10 % away from libudt").into()) }
}

/// Whether ours is near, emulated and simulated.
fn compare(setting: &Setting, peer: &Path) -> Outcome<bool> {
    let (libudt, valid) = emulated(setting, peer, Whose::Libudt)?;
    let reference = steady(&libudt);
    say("libudt, emulated", &libudt, reference, &valid);
    let (ours, valid) = emulated(setting, peer, Whose::Ours)?;
    say("ours, emulated", &ours, reference, &valid);
    let simulated = simulated(setting)?;
    say("ours, simulated", &simulated, reference, "");
    Ok([ours, simulated].iter().all(|rates| (steady(rates) / reference - 1.0).abs() <= NEAR))
}

/// Mean of the last three quarters, Mbit/s of all flows.
fn steady(flows: &[Vec<u64>]) -> f64 {
    let of_flow = |bytes: &Vec<u64>| {
        let (from, to) = (bytes.len() / 4, bytes.len().saturating_sub(1));
        let moved = bytes.get(to).copied().unwrap_or(0).saturating_sub(bytes.get(from).copied().unwrap_or(0));
        moved as f64 * 8.0 / 1e6 / (to.saturating_sub(from)).max(1) as f64
    };
    flows.iter().map(of_flow).sum()
}

fn say(who: &str, flows: &[Vec<u64>], reference: f64, remark: &str) {
    let rate = steady(flows);
    println!("  {who}: {rate:.0} Mbit/s, {:.2} of libudt's{remark}", rate / reference);
    for bytes in flows {
        let before = std::iter::once(&0).chain(bytes);
        let rates: Vec<String> =
            bytes.iter().zip(before).map(|(to, from)| format!("{:.0}", (to - from) as f64 * 8.0 / 1e6)).collect();
        println!("    {}", rates.join(" "));
    }
}

fn path(setting: &Setting) -> LinkSpec {
    let queue = QueueLimit::Bytes(setting.rate.bytes_in(setting.rtt));
    LinkSpec::drop_tail(setting.rate, setting.rtt / 2, queue)
}

/// Bytes that had come at the end of each second, flow by flow; and a remark where the emulation was not valid.
fn emulated(setting: &Setting, peer: &Path, whose: Whose) -> Outcome<(Vec<Vec<u64>>, String)> {
    let host = |name: &str| Host { name: name.to_owned(), mtu: 1500 };
    let link = |name: &str| GridLink { name: name.to_owned(), spec: path(setting) };
    let paths = [((0, 1), vec![0]), ((1, 0), vec![1])].into_iter().collect();
    let (hosts, links) = (vec![host("sender"), host("receiver")], vec![link("there"), link("back")]);
    let grid = Grid { hosts, links, paths, seed: setting.seed, ..Grid::default() };
    let emulator = Emulator::start(grid, inhaul_emu::Options::default())?;
    let at = emulator.address_of("receiver")?;
    let own = std::env::current_exe()?;
    let libudt = |words: &[&str]| {
        let mut command = Command::new(peer);
        command.args(words).env("PEER_LOCAL", "0.0.0.0").env("PEER_REMOTE", at.to_string());
        command.env("PEER_BUFFER", BUFFER_PACKETS.to_string());
        command
    };
    let seconds = setting.seconds.to_string();
    let (mut meters, mut ports) = (Vec::new(), Vec::new());
    for _ in 0..setting.flows {
        let mut command = libudt(&["listen", "stream", "0", "0", "meter", &seconds]);
        if whose == Whose::Ours {
            command = Command::new(&own);
            command.args(["meter", &seconds]);
        }
        let mut meter = Running::start(&emulator, "receiver", &command)?;
        let line = meter.line()?;
        ports.push(line.strip_prefix("port ").ok_or_else(|| format!("the receiver said: {line}"))?.to_owned());
        meters.push(meter);
    }
    emulator.begin();
    let mut senders = Vec::new();
    for port in &ports {
        let mut command = libudt(&["connect", "stream", "0", port, "blast", "3600"]);
        if whose == Whose::Ours {
            command = Command::new(&own);
            command.args(["blast", &SocketAddr::new(at.into(), port.parse()?).to_string()]);
        }
        senders.push(Running::start(&emulator, "sender", &command)?);
    }
    let mut flows = Vec::new();
    for meter in &mut meters {
        meter.end(Duration::from_secs(setting.seconds) + PATIENCE)?;
    }
    for meter in &mut meters {
        let lines: Outcome<Vec<u64>> = (0..setting.seconds).map(|_| Ok(meter.line()?.parse()?)).collect();
        flows.push(lines?);
    }
    let report = emulator.stop()?;
    let remark = if report.valid {
        String::new()
    } else {
        format!("; the emulation is not valid: {}", report.reasons.join("; "))
    };
    Ok((flows, remark))
}

/// The same in the simulator, with the protocol that inhaul's hosts speak with each other: its core is the same.
fn simulated(setting: &Setting) -> Outcome<Vec<Vec<u64>>> {
    let mut topology = Topology::new();
    let (from, to) = (topology.host("sender", HostSpec::default()), topology.host("receiver", HostSpec::default()));
    topology.duplex("path", from, to, path(setting), path(setting));
    let mut simulation = Simulation::new(topology, setting.seed)?;
    let protocol = registry::find("udt").ok_or("there is no UDT")?;
    let mut transfers = Vec::new();
    for k in 0..setting.flows as u64 {
        let endpoint = |role| (protocol.build)(&EndpointConfig::new(role, setting.seed * 1_000 + k));
        let sender = simulation.endpoint(from, endpoint(Role::Sender)?)?;
        let receiver = simulation.endpoint(to, endpoint(Role::Receiver)?)?;
        transfers.push(simulation.transfer(Transfer {
            name: format!("flow {k}"),
            sender,
            receiver,
            object: ObjectId(0),
            size: 1 << 50,
            start: Time::ZERO,
            stop: None,
            leaves: false,
            mtu: 1500,
            limits: FlowLimits::default(),
        })?);
    }
    let mut flows = vec![Vec::new(); setting.flows];
    for second in 1..=setting.seconds {
        simulation.run_until(Time::ZERO + Span::from_secs(second))?;
        for (bytes, transfer) in flows.iter_mut().zip(&transfers) {
            bytes.push(simulation.placed_bytes(*transfer));
        }
    }
    Ok(flows)
}
