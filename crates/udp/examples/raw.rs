//! The ceiling: how fast plain UDP goes here with the same datagrams, offloads and memory, and no protocol at all.
//!
//!     raw recv --listen 127.0.0.1:7000 --mtu 1500 --memory cold [--no-offload] [--seal]
//!     raw send 127.0.0.1:7000 --seconds 5 --mtu 1500 --memory cold [--no-offload] [--seal]
//!
//! Without `--seconds` and `--bytes` the sender sends 1 GiB. Each prints one JSON line at its end; `drops` counts
//! messages, which with offloads are many datagrams, and `cpu_seconds` leaves out what came before the first datagram.
//! The receiver ends half a second after the last datagram, or after 30 s with none. `hot` memory is one buffer that
//! stays in the processor's cache; `cold` is 1 GiB, gone through again and again.
//!
//! With `--seal` the datagrams are as long as without it, and sealed with AES-128-GCM: the sender seals from its memory
//! to a small buffer, the receiver opens to its memory. `bytes` are then those between envelopes and tags. One sender.
#![allow(clippy::disallowed_methods, reason = "a program that measures waits and reads the clock")]

use std::error::Error;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::process::ExitCode;

use inhaul_base::{Bitrate, Span, Time, parse_bytes};
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, TAG_LEN};
use inhaul_udp::seal::{Opener, SECRET_LEN, Sealer, Secret, Suite};
use inhaul_udp::{
    Arrival, Clock, Interest, MESSAGE_BYTES_MAX, MESSAGES_MAX, Offload, Outgoing, Poller, SEGMENTS_MAX, Socket,
    SocketOptions, thread,
};

const USAGE: &str = "usage: raw recv --listen ADDRESS:PORT --mtu BYTES --memory hot|cold [--no-offload] [--seal]
       raw send ADDRESS:PORT --seconds N|--bytes N --mtu BYTES --memory hot|cold [--no-offload] [--seal]";

const COLD_BYTES: usize = 1 << 30;
const AGGREGATE_BYTES: usize = 1 << 16;
const AGGREGATES: usize = 8;
/// Of all sealed datagrams.
const CONNECTION: ConnectionId = ConnectionId(0xC0FF_EE01);
const OVERHEAD: usize = ENVELOPE_LEN + TAG_LEN;

/// What both sides are told.
struct Setup {
    address: SocketAddr,
    /// UDP payload of each datagram, in bytes.
    datagram: usize,
    cold: bool,
    offload: Offload,
    seal: bool,
    seconds: Option<f64>,
    bytes: Option<u64>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("raw: {error}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<String, Box<dyn Error>> {
    let (role, rest) = arguments.split_first().ok_or("say recv or send")?;
    match role.as_str() {
        "recv" => receive(&setup(rest)?),
        "send" => send(&setup(rest)?),
        other => Err(format!("'{other}' is neither recv nor send").into()),
    }
}

fn setup(arguments: &[String]) -> Result<Setup, Box<dyn Error>> {
    let mut address = None;
    let (mut mtu, mut cold, mut seal) = (1500, false, false);
    let (mut offload, mut seconds, mut bytes) = (Offload::Auto, None, None);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--listen" => address = Some(value()?.parse()?),
            "--mtu" => mtu = value()?.parse()?,
            "--memory" => {
                cold = match value()?.as_str() {
                    "hot" => false,
                    "cold" => true,
                    other => return Err(format!("memory is hot or cold, not '{other}'").into()),
                }
            }
            "--no-offload" => offload = Offload::Off,
            "--seal" => seal = true,
            "--seconds" => seconds = Some(value()?.parse()?),
            "--bytes" => bytes = Some(parse_bytes(value()?)?),
            other => address = Some(other.parse().map_err(|_| format!("'{other}' is no address and no option"))?),
        }
    }
    let address: SocketAddr = address.ok_or("an address is needed")?;
    let headers = if address.is_ipv4() { 28 } else { 48 };
    let datagram = usize::checked_sub(mtu, headers).filter(|&n| (OVERHEAD + 1..=MESSAGE_BYTES_MAX).contains(&n));
    Ok(Setup { address, datagram: datagram.ok_or("no such MTU")?, cold, offload, seal, seconds, bytes })
}

/// Memory whose pages are all there.
fn memory(setup: &Setup, hot_bytes: usize) -> Vec<u8> {
    vec![1; if setup.cold { COLD_BYTES } else { hot_bytes }]
}

fn report(bytes: u64, span: Span, cpu: Span, drops: Option<u32>) -> String {
    let drops = drops.map_or(String::new(), |n| format!(",\"drops\":{n}"));
    format!(
        "{{\"bytes\":{bytes},\"seconds\":{:.6},\"gbit_s\":{:.3},\"cpu_seconds\":{:.6}{drops}}}",
        span.as_secs_f64(),
        Bitrate::of(bytes, span).as_f64() / 1e9,
        cpu.as_secs_f64(),
    )
}

fn send(setup: &Setup) -> Result<String, Box<dyn Error>> {
    let any = if setup.address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let mut socket = Socket::bind(any.parse()?, &SocketOptions { offload: setup.offload, ..Default::default() })?;
    socket.connect(setup.address)?;
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Write)?;

    let segments = if socket.segments() { (MESSAGE_BYTES_MAX / setup.datagram).clamp(1, SEGMENTS_MAX) } else { 1 };
    let messages = if socket.segments() { 1 } else { MESSAGES_MAX };
    let segment = if segments > 1 { Some(u16::try_from(setup.datagram)?) } else { None };
    let message_bytes = segments * setup.datagram;
    // What is sent with one call takes this much memory: all of it, or what is sealed.
    let body_bytes = setup.datagram - if setup.seal { OVERHEAD } else { 0 };
    let memory = memory(setup, segments * messages * body_bytes);
    let calls = memory.chunks_exact(segments * messages * body_bytes).cycle();
    let mut sealer = setup.seal.then(|| (Sealer::new(Suite::Aes128Gcm, &secret()), 0..));
    let mut sealed = vec![0; messages * message_bytes];

    let clock = Clock::start();
    let cpu = thread::cpu_time();
    let deadline = setup.seconds.map_or(Time::FAR_FUTURE, |seconds| Time::ZERO + Span::from_secs_f64(seconds));
    let limit = setup.bytes.unwrap_or(if setup.seconds.is_some() { u64::MAX } else { 1 << 30 });
    let (mut bytes, mut events) = (0, Vec::new());
    'sending: for call in calls {
        let call = if let Some((sealer, numbers)) = &mut sealer {
            let bodies = call.chunks_exact(body_bytes).zip(sealed.chunks_exact_mut(setup.datagram));
            for ((body, datagram), number) in bodies.zip(numbers) {
                sealer.seal_with(number, CONNECTION, datagram, body);
            }
            &sealed[..]
        } else {
            call
        };
        let each = |message| socket.outgoing(setup.address, message, segment);
        let outgoing: Vec<Outgoing<'_>> = call.chunks_exact(message_bytes).map(each).collect();
        let mut rest = &outgoing[..];
        while !rest.is_empty() {
            if bytes >= limit || clock.now() >= deadline {
                break 'sending;
            }
            match socket.send(rest.iter().copied()) {
                Ok(sent) => {
                    bytes += (sent * segments * body_bytes) as u64;
                    rest = &rest[sent..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poller.wait_until(clock, clock.now() + Span::from_millis(10), &mut events)?;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(report(bytes, clock.now().since(Time::ZERO), thread::cpu_time().saturating_sub(cpu), None))
}

fn receive(setup: &Setup) -> Result<String, Box<dyn Error>> {
    let socket = Socket::bind(setup.address, &SocketOptions { offload: setup.offload, ..Default::default() })?;
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;

    let (messages, message_bytes) =
        if socket.aggregates() { (AGGREGATES, AGGREGATE_BYTES) } else { (MESSAGES_MAX, setup.datagram) };
    let mut memory = memory(setup, messages * message_bytes);
    let ends: Vec<usize> = (1..=messages).collect();
    let mut opener = setup.seal.then(|| Opener::new(Suite::Aes128Gcm, &secret(), false));
    let mut sealed = vec![0; messages * message_bytes];

    let (clock, mut events, mut arrivals) = (Clock::start(), Vec::new(), Vec::<Arrival>::new());
    let (mut next, mut bytes, mut drops) = (0, 0, None);
    let (mut first, mut last, mut cpu) = (None, Time::ZERO, Span::ZERO);
    loop {
        // Every message goes behind the one before it in memory; to the start again when there is not room for a whole
        // batch.
        if next + messages * message_bytes > memory.len() {
            next = 0;
        }
        let window =
            if opener.is_some() { &mut sealed[..] } else { &mut memory[next..next + messages * message_bytes] };
        let mut slices: Vec<_> = window.chunks_exact_mut(message_bytes).map(IoSliceMut::new).collect();
        arrivals.clear();
        socket.receive(&mut slices, &ends, &mut arrivals)?;
        let now = clock.now();
        if arrivals.is_empty() {
            let patience = if first.is_some() { Span::from_millis(500) } else { Span::from_secs(30) };
            let deadline = last + patience;
            if now >= deadline {
                break;
            }
            poller.wait_until(clock, deadline, &mut events)?;
            continue;
        }
        if first.is_none() {
            (first, cpu) = (Some(now), thread::cpu_time());
        }
        last = now;
        for (arrival, message) in arrivals.iter().zip(sealed.chunks_exact(message_bytes)) {
            drops = arrival.drops.or(drops);
            let Some(opener) = &mut opener else {
                bytes += arrival.len as u64;
                next += message_bytes;
                continue;
            };
            for datagram in message[..arrival.len].chunks(arrival.segment) {
                let len = datagram.len().saturating_sub(OVERHEAD);
                opener.open_to(datagram, &mut memory[next..next + len]).ok_or("a datagram does not open")?;
                bytes += len as u64;
                next += len;
            }
        }
    }
    let span = first.map_or(Span::ZERO, |first| last.since(first));
    // The kernel tells of drops once there are any.
    Ok(report(bytes, span, thread::cpu_time().saturating_sub(cpu), Some(drops.unwrap_or(0))))
}

/// Both sides know it.
fn secret() -> Secret {
    Secret::new([7; SECRET_LEN])
}
