//! Our UDT 4 and libudt over emulated paths that lose and reorder packets: every byte is compared.
//!
//!     cargo run --release -p inhaul-interop-tests --bin udt4_path [-- OPTION VALUE...]
//!
//! On each path, ours sends to libudt and libudt to ours. Options: `--bytes` for each transfer (1 GiB), `--rate` of the
//! path (300 Mbit/s), `--delay-ms` one way (5), `--seed` (1), `--family` (4 or 6, the version of IP), `--only WORD` for the
//! paths and directions whose name contains the word. Ends with 1 when a byte was wrong or a side failed, with 0 and a clear word when there is no libudt
//! or this user may have no network namespaces. Nothing is left of the namespaces, however it ends: they die with it.
#![allow(clippy::disallowed_methods, reason = "real programs need real time")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Probability, Span, parse_bytes};
use inhaul_emu::{Emulator, Grid, GridLink, Host, KEEPER_ARGUMENTS, Stage, run_keeper};
use inhaul_interop_tests::emulated::{Outcome, Running, is_forbidden};
use inhaul_interop_tests::libudt::{self, LibudtError};
use inhaul_interop_tests::noise::Noise;
use inhaul_link::{LinkSpec, LossSpec, QueueLimit, ReorderingSpec};
use inhaul_udt4::{End, Endpoint, Socket, UdtError};

/// Bytes that are written and read at a time: as in `peer.cc`.
const PIECE: usize = 1 << 16;

/// A transfer that is slower than this in all has failed.
const SLOWEST: Bitrate = Bitrate::from_mbps(1);

/// How long a program may take to listen, and to end when the other one has.
const PATIENCE: Duration = Duration::from_secs(60);

/// The fault of a path.
struct Damage {
    name: &'static str,
    loss: f64,
    reordering: f64,
}

/// A reordered packet is held back for so long: at 300 Mbit/s, 50 packets pass it.
const HELD_BACK: Span = Span::from_millis(2);

/// The same in both directions: acknowledgements are lost and reordered, too.
const PATHS: [Damage; 4] = [
    Damage { name: "no loss", loss: 0.0, reordering: 0.0 },
    Damage { name: "reordering of 1 %", loss: 0.0, reordering: 0.01 },
    Damage { name: "loss of 1 %", loss: 0.01, reordering: 0.0 },
    Damage { name: "loss of 5 %", loss: 0.05, reordering: 0.0 },
];

struct Options {
    bytes: u64,
    rate: Bitrate,
    delay: Span,
    seed: u64,
    ipv6: bool,
    only: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The keeper of the namespaces and our end of the connection are this program too.
    let result = match &words[..] {
        [link, keeper, stage] if [*link, *keeper] == KEEPER_ARGUMENTS => match Stage::named(stage) {
            Some(stage) => return run_keeper(stage),
            None => Err("there is no such stage".into()),
        },
        ["send", to, seed, size] => send(to, seed, size),
        ["receive", at, seed, size] => receive(at, seed, size),
        options => read_options(options).and_then(|options| compare_all(&options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("udt4_path: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read_options(words: &[&str]) -> Outcome<Options> {
    let mut options = Options {
        bytes: 1 << 30,
        rate: Bitrate::from_mbps(300),
        delay: Span::from_millis(5),
        seed: 1,
        ipv6: false,
        only: String::new(),
    };
    let (pairs, rest) = words.as_chunks::<2>();
    for [name, value] in pairs {
        match *name {
            "--bytes" => options.bytes = parse_bytes(value)?,
            "--rate" => options.rate = value.parse()?,
            "--delay-ms" => options.delay = Span::from_millis(value.parse()?),
            "--seed" => options.seed = value.parse()?,
            "--family" => options.ipv6 = *value == "6",
            "--only" => options.only = (*value).to_owned(),
            _ => return Err(format!("there is no option '{name}'").into()),
        }
    }
    if rest.is_empty() { Ok(options) } else { Err(format!("'{}' needs a value", rest.concat()).into()) }
}

// --- Our end --------------------------------------------------------------------------------------------------------

fn send(to: &str, seed: &str, size: &str) -> Outcome<()> {
    let (to, mut left): (SocketAddr, u64) = (to.parse()?, size.parse()?);
    let any = if to.is_ipv4() { SocketAddr::from(([0; 4], 0)) } else { SocketAddr::from(([0u16; 8], 0)) };
    let socket = Endpoint::bind(any, inhaul_udt4::Options::default())?.connect(to)?;
    let (mut noise, mut piece) = (Noise::new(seed.parse()?), vec![0; PIECE]);
    while left > 0 {
        noise.fill(&mut piece);
        let count = usize::try_from(left)?.min(PIECE);
        socket.write_all(&piece[..count])?;
        left -= count as u64;
    }
    match socket.flush() {
        // libudt closes as soon as it has read everything. Its last acknowledgement may be lost, and is not repeated.
        Ok(()) | Err(UdtError::Ended(End::ByPeer)) => {}
        Err(error) => return Err(error.into()),
    }
    tell(&socket)
}

fn receive(at: &str, seed: &str, size: &str) -> Outcome<()> {
    let endpoint = Endpoint::bind(at.parse()?, inhaul_udt4::Options::default())?;
    let incoming = endpoint.listen(1)?;
    println!("port {}", endpoint.local_address().port());
    let socket = incoming.accept()?;
    let (mut noise, mut piece, mut expected) = (Noise::new(seed.parse()?), vec![0; PIECE], vec![0; PIECE]);
    let size: u64 = size.parse()?;
    let mut left = size;
    while left > 0 {
        noise.fill(&mut expected);
        let count = usize::try_from(left)?.min(PIECE);
        socket.read_exact(&mut piece[..count])?;
        if piece[..count] != expected[..count] {
            return Err(format!("wrong bytes behind byte {}", size - left).into());
        }
        left -= count as u64;
    }
    println!("verified {size}");
    tell(&socket)
}

fn tell(socket: &Socket) -> Outcome<()> {
    eprintln!("{:?}", socket.statistics()?);
    Ok(())
}

// --- The paths ------------------------------------------------------------------------------------------------------

fn compare_all(options: &Options) -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    let peer = match libudt::peer(directory.path()) {
        Ok(peer) => peer,
        Err(LibudtError::Absent(why)) => {
            println!("udt4_path: SKIPPED: {why}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    println!(
        "{} bytes each over IPv{}, {}, {} ms each way, seed {}",
        options.bytes,
        if options.ipv6 { 6 } else { 4 },
        options.rate,
        options.delay.as_millis_f64(),
        options.seed
    );
    let mut failed = 0;
    for damage in &PATHS {
        for (direction, we_send) in [("ours to libudt", true), ("libudt to ours", false)] {
            let name = format!("{}, {direction}", damage.name);
            if !name.contains(&options.only) {
                continue;
            }
            match transfer(&peer, options, damage, we_send) {
                Ok(line) => println!("{name}: {line}"),
                Err(error) if is_forbidden(&*error) => {
                    println!("udt4_path: SKIPPED: {error}");
                    return Ok(());
                }
                Err(error) => {
                    println!("{name}: FAILED: {error}");
                    failed += 1;
                }
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} transfers failed").into()) }
}

/// Two hosts and a link each way, with a queue of one round-trip time.
fn grid(options: &Options, damage: &Damage) -> Outcome<Grid> {
    let queue = QueueLimit::Bytes(options.rate.bytes_in(options.delay * 2).max(30_000));
    let probability = |share| Probability::new(share).ok_or("a share is from 0 to 1");
    let reordering = ReorderingSpec { probability: probability(damage.reordering)?, by: HELD_BACK };
    let loss = LossSpec::Random(probability(damage.loss)?);
    let spec = LinkSpec { loss, reordering, ..LinkSpec::drop_tail(options.rate, options.delay, queue) };
    let host = |name: &str| Host { name: name.to_owned(), mtu: 1500 };
    let link = |name: &str| GridLink { name: name.to_owned(), spec: spec.clone() };
    let paths = [((0, 1), vec![0]), ((1, 0), vec![1])].into_iter().collect();
    let (hosts, links) = (vec![host("sender"), host("receiver")], vec![link("there"), link("back")]);
    Ok(Grid { hosts, links, paths, seed: options.seed, ..Grid::default() })
}

/// One transfer. Says how it went.
fn transfer(peer: &Path, options: &Options, damage: &Damage, we_send: bool) -> Outcome<String> {
    let emulator = Emulator::start(grid(options, damage)?, inhaul_emu::Options::default())?;
    let (at, any) = if options.ipv6 {
        (IpAddr::V6(emulator.ipv6_address_of("receiver")?), IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    } else {
        (IpAddr::V4(emulator.address_of("receiver")?), IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    };
    let (own, any_port) = (std::env::current_exe()?, SocketAddr::new(any, 0).to_string());
    let (seed, size) = (options.seed.to_string(), options.bytes.to_string());
    let mut receiver = Command::new(if we_send { peer } else { &own });
    if we_send {
        receiver.args(["listen", "stream", "0", "0", "verify", &seed, &size]).env("PEER_LOCAL", any.to_string());
    } else {
        receiver.args(["receive", &any_port, &seed, &size]);
    }
    let mut receiver = Running::start(&emulator, "receiver", &receiver)?;
    let port = receiver.line()?;
    let port = port.strip_prefix("port ").ok_or_else(|| format!("the receiver said: {port}"))?.to_owned();
    let mut sender = Command::new(if we_send { &own } else { peer });
    if we_send {
        sender.args(["send", &SocketAddr::new(at, port.parse()?).to_string(), &seed, &size]);
    } else {
        sender.args(["connect", "stream", "0", &port, "generate", &seed, &size]);
        sender.env("PEER_LOCAL", any.to_string()).env("PEER_REMOTE", at.to_string());
    }
    emulator.begin();
    let began = Instant::now();
    let mut sender = Running::start(&emulator, "sender", &sender)?;
    let longest = Duration::from_nanos(SLOWEST.time_for(options.bytes).as_nanos()) + PATIENCE;
    receiver.end(longest)?;
    let seconds = began.elapsed().as_secs_f64();
    let verified = receiver.line()?;
    if verified != format!("verified {size}") {
        return Err(format!("the receiver said: {verified}").into());
    }
    sender.end(PATIENCE)?;
    let report = emulator.stop()?;
    let carried: Vec<String> = report.links.iter().map(|link| format!("{:.2} %", link.loss_ratio * 100.0)).collect();
    let drops: u64 = report.links.iter().map(|link| link.queue_full_packets).sum();
    let valid = if report.valid { "valid".to_owned() } else { format!("not valid ({})", report.reasons.join("; ")) };
    let mbps = options.bytes as f64 * 8.0 / seconds / 1e6;
    Ok(format!(
        "bit-exact in {seconds:.1} s, {mbps:.1} Mbit/s; lost there and back {}; {drops} dropped at queues; emulation {valid}",
        carried.join(" and ")
    ))
}
