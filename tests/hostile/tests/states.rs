//! Sessions in random order: a server's and a client's handling of unexpected frames, messages and datagrams.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, ByteRange, RandomStream};
use inhaul_hostile_tests::{
    FlowSeal, Heard, HostileServer, OURS, RawManifest, RawPut, Received, Scratch, Server, Session, all, figures, heavy,
    in_clear, inhaul, noise, seed, session_version, setup, wait_for,
};
use inhaul_mover::frame::{Frame, GroupRun, Memory, PartOf, RefusalCode, SessionRole};
use inhaul_protocols::gtp::wire::{HEADER_LEN, OwnMessage, VERSION};
use inhaul_transport::ConnectionId;
use inhaul_transport::kit::wire::{Message, PathDatagram};

const PATIENCE: Duration = Duration::from_secs(30);
const SIZE: u64 = 4 << 20;
const TRANSPORTS: [&str; 5] = ["gtp", "cubic", "bbr", "reno", "scalable"];

/// How long a fuzzer of sockets runs.
fn stretch() -> Duration {
    Duration::from_secs(if all() { 120 } else { 6 })
}

/// One of these.
fn pick<T: Clone>(random: &mut RandomStream, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize].clone()
}

fn bytes(random: &mut RandomStream, below: u64) -> Vec<u8> {
    (0..random.below(below)).map(|_| random.next_u64() as u8).collect()
}

/// Flips a bit of `bytes` now and then.
fn maybe_flip(random: &mut RandomStream, bytes: &mut [u8]) {
    if !bytes.is_empty() && random.below(5) < 2 {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
    }
}

/// A control message that a receiver may send, or something like it.
fn control(random: &mut RandomStream) -> Vec<u8> {
    let number = pick(random, &[0, 1, 2, 7, u32::MAX]);
    let mut message = match random.below(5) {
        0 => Message::Request {
            id: number,
            block: pick(random, &[256, 1440, 8936, 65_440]),
            ranges: (0..=random.below(4))
                .map(|_| ByteRange::at(random.below(SIZE), 1 + random.below(1 << 20)))
                .collect(),
        }
        .emit(VERSION),
        1 => OwnMessage::Rate {
            epoch: number as u16,
            rate: Bitrate::from_bps(pick(random, &[1, 1_000_000, 1_000_000_000])),
            burst: pick(random, &[0, 1, 1500, 65_000, 1 << 20]),
        }
        .emit(),
        2 => Message::Cancel { through: number }.emit(VERSION),
        3 => Message::Close.emit(VERSION),
        _ => return bytes(random, 60),
    };
    maybe_flip(random, &mut message);
    message
}

/// A receiver's datagram behind an envelope, or a similar one.
fn behind(random: &mut RandomStream, token: u64) -> Vec<u8> {
    let mut datagram = if random.below(2) == 0 {
        let mut probe = PathDatagram::Probe { token, number: random.below(9) as u32, reply_to: OURS }.emit().to_vec();
        probe.resize(HEADER_LEN + pick(random, &[0, 100, 1400]), 0);
        probe
    } else {
        let mut datagram = bytes(random, 100);
        if datagram.len() >= 16 {
            datagram[0] = pick(random, &[0, 1, 2, 3, 4, 5, 6, 8, 12, 0x80]);
            datagram[8..16].copy_from_slice(&token.to_be_bytes());
        }
        datagram
    };
    maybe_flip(random, &mut datagram);
    datagram
}

/// That as a datagram: sealed by its flow, most of the time.
fn datagram(random: &mut RandomStream, flow: &FlowSeal, connection: ConnectionId, token: u64) -> Vec<u8> {
    let behind = behind(random, token);
    if random.below(8) == 0 {
        return in_clear(connection, &behind);
    }
    let mut sealed = flow.seal(connection, &behind);
    if random.below(8) == 0 {
        maybe_flip(random, &mut sealed);
        sealed.truncate(random.below(1 + sealed.len() as u64) as usize);
    }
    sealed
}

/// A part that is there, or not.
fn part(random: &mut RandomStream) -> PartOf {
    let group = pick(random, &[0, 1, 7, u64::MAX]);
    let (first, count) = (pick(random, &[0, 1, 1023, u16::MAX]), pick(random, &[1, 4, 1024, u16::MAX]));
    PartOf { group, first, count, levels: pick(random, &[0, 1, 44]) }
}

/// A frame that somebody may send at some time.
fn frame(random: &mut RandomStream) -> Frame {
    let last = random.below(2) == 0;
    let runs = || vec![GroupRun { first: 0, count: 2 }];
    match random.below(19) {
        0 => Frame::Hello {
            version: session_version(),
            role: pick(random, &ROLES),
            transport: pick(random, &TRANSPORTS).into(),
            parameters: vec![(
                pick(random, &["window-max", "c", "control", "?"]).into(),
                pick(random, &["44", "", "paper"]).into(),
            )],
        },
        1 => Frame::Welcome { version: session_version(), udp_port: 9, key: None },
        2 => Frame::Refused { code: RefusalCode::Busy, text: "no".into() },
        3 => Frame::Open {
            path: pick(random, &["/f", "/", "/nothing", ""]).into(),
            owner: last,
            attributes: last,
            early: pick(random, &[0, 1, 40_000, u32::MAX]),
        },
        4 => Frame::List { recursive: last, path: "/".into() },
        5 => Frame::DataSet { last, bytes: bytes(random, 80) },
        6 => Frame::Probe,
        7 => Frame::ProbeGrant { token: random.next_u64() },
        8 => Frame::Delegate { order: RawPut::order_to("x").to_string().into_bytes() },
        9 => Frame::Attach { token: random.next_u64(), source: 0 },
        10 => Frame::Bench { size: 1 << 20, memory: Memory::Hot },
        11 => Frame::DigestsOf { runs: runs() },
        12 => Frame::Digests { first_group: random.below(3), values: vec![[7; 32]] },
        13 => Frame::Finish,
        14 => Frame::Bye,
        15 => Frame::Content { bytes: bytes(random, 80) },
        16 => Frame::ProofsOf { parts: vec![part(random); 1 + random.below(5) as usize] },
        17 => Frame::Proof { part: part(random), digest: [7; 32], inside: vec![[8; 32]; 3], path: Vec::new() },
        _ => Frame::Protocol { message: control(random) },
    }
}

const ROLES: [SessionRole; 5] =
    [SessionRole::Fetch, SessionRole::BenchFetch, SessionRole::BenchPush, SessionRole::Delegate, SessionRole::Attach];

/// A server of one file that also takes puts, with its offered directory and its inbox.
fn server() -> (Server, Scratch, Scratch) {
    let (from, inbox) = (Scratch::new(), Scratch::new());
    from.file("f", &noise(SIZE as usize, 51));
    let server = Server::offer_with(from.path(), &["--accept-puts", inbox.path().to_str().unwrap()]);
    (server, from, inbox)
}

/// Afterwards a server runs, serves, and has released the resources of past clients.
fn is_unharmed(attempt: &str, what: &str, server: &Server, descriptors_before: usize) {
    let to = Scratch::new();
    let get = server.get("/f", &to.inside(), PATIENCE);
    let returned = wait_for(PATIENCE, || server.readings().descriptors <= descriptors_before + 2);
    let readings = server.readings();
    let (mebibytes, descriptors, cpu) = (readings.memory >> 20, readings.descriptors, readings.cpu.as_secs_f64());
    figures(
        attempt,
        &format!(
            "{what}; server {mebibytes} MiB, {cpu:.1} s of CPU, {descriptors} descriptors; a get then: {}",
            get.summary()
        ),
    );
    assert!(server.running.is_running(), "the server has ended: {}", server.running.stderr());
    assert!(!server.running.stderr().contains("panicked"), "{}", server.running.stderr());
    assert_eq!(get.code, Some(0), "{}", get.summary());
    assert!(returned, "{descriptors_before} descriptors before, {descriptors} after");
    assert!(mebibytes < 256, "{mebibytes} MiB");
}

#[test]
fn transport_messages_in_any_order() {
    let _alone = heavy();
    let attempt = "random requests, rates, cancels and datagrams, all transports";
    let mut random = RandomStream::new(seed(attempt), 0);
    let (server, _from, _inbox) = server();
    let before = server.readings().descriptors;
    let (deadline, mut sessions) = (Instant::now() + stretch(), 0);
    while Instant::now() < deadline && server.running.is_running() {
        let Ok(mut session) = Session::connect(server.address) else { continue };
        let udp_port = session.hello(SessionRole::Fetch, pick(&mut random, &TRANSPORTS));
        if session.open("/f").is_err() {
            continue;
        }
        let mtu = pick(&mut random, &[576, 1500, 9000, 65_535]);
        let _ = session.send(&Frame::Protocol { message: setup(mtu, SIZE) });
        let accepted = session.receive(Duration::from_millis(300));
        let (connection, token) = match accepted {
            // Each protocol has a version of its own.
            Heard::Frame(Frame::Protocol { message }) => match Message::parse(message[1], &message) {
                Ok(Message::Accept { connection, token, .. }) => (connection, token),
                _ => (ConnectionId(5), 0),
            },
            _ => (ConnectionId(5), 0),
        };
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let flow = session.flow_seal();
        for _ in 0..30 {
            let _ = session.send(&Frame::Protocol { message: control(&mut random) });
            let _ = udp.send_to(&datagram(&mut random, &flow, connection, token), (server.address.ip(), udp_port));
        }
        sessions += 1;
    }
    is_unharmed(attempt, &format!("{sessions} sessions"), &server, before);
}

#[test]
fn frames_in_any_order_to_a_server() {
    let _alone = heavy();
    let attempt = "random frames in random order to a server";
    let mut random = RandomStream::new(seed(attempt), 1);
    let (server, _from, _inbox) = server();
    let before = server.readings().descriptors;
    let (deadline, mut sessions) = (Instant::now() + stretch(), 0);
    while Instant::now() < deadline && server.running.is_running() {
        let Ok(mut session) = Session::connect(server.address) else { continue };
        let role = pick(&mut random, &ROLES);
        let _ = session.send(&Frame::Hello {
            version: session_version(),
            role,
            transport: "gtp".into(),
            parameters: vec![],
        });
        for _ in 0..random.below(6) {
            let mut encoded = Vec::new();
            frame(&mut random).encode(&mut encoded);
            if random.below(4) == 0 {
                maybe_flip(&mut random, &mut encoded[4..]);
            }
            let _ = session.send_bytes(&encoded);
        }
        // Sometimes it waits for answers, sometimes it just leaves.
        if random.below(3) == 0 {
            session.receive(Duration::from_millis(20));
        }
        if random.below(4) == 0 {
            session.reset();
        }
        sessions += 1;
    }
    is_unharmed(attempt, &format!("{sessions} sessions"), &server, before);
}

#[test]
fn frames_in_any_order_to_a_client() {
    let attempt = "random frames in random order to get, ls, plan and put";
    let seed = seed(attempt);
    let rounds = if all() { 400 } else { 24 };
    let file = Scratch::new();
    let put = file.file("f", b"what is put");
    let mut slowest = Duration::ZERO;
    let mut codes = std::collections::BTreeMap::<i32, u32>::new();
    for round in 0..rounds {
        let hostile = HostileServer::start(move |session, endpoint| {
            let mut random = RandomStream::new(seed, round);
            // Now and then it starts by the rules, so that it gets further.
            if random.below(4) > 0 && endpoint.greet(session).is_some() && random.below(2) == 0 {
                endpoint.data_set(session, &RawManifest::file("f", SIZE).encode());
            }
            for _ in 0..random.below(8) {
                let mut encoded = Vec::new();
                frame(&mut random).encode(&mut encoded);
                maybe_flip(&mut random, &mut encoded[4..]);
                let _ = session.send_bytes(&encoded);
            }
        });
        let (to, source) = (Scratch::new(), hostile.source("/f"));
        let destination = to.inside();
        let destination = destination.to_str().unwrap();
        let command = match round % 4 {
            0 => inhaul(["get", "-q", &source, destination]),
            1 => inhaul(["ls", &source]),
            2 => inhaul(["plan", &source, destination]),
            _ => inhaul(["put", "-q"]).arg(&put).arg(&source),
        };
        let outcome = command.finish(PATIENCE);
        slowest = slowest.max(outcome.took);
        let code = outcome.code.unwrap_or_else(|| panic!("round {round}: {}", outcome.summary()));
        *codes.entry(code).or_default() += 1;
        assert!(code != 0 && code != 1 && code != 101, "round {round}: {}", outcome.summary());
        assert!(!outcome.stderr.contains("panicked"), "round {round}: {}", outcome.stderr);
        assert!(outcome.readings.memory_peak < 256 << 20, "round {round}: {:?}", outcome.readings);
    }
    let slowest = slowest.as_secs_f64();
    figures(attempt, &format!("{rounds} commands, exit codes and how often {codes:?}; slowest {slowest:.1} s"));
}

#[test]
fn lengths_that_lie() {
    let (server, _from, _inbox) = server();
    let before = server.readings();
    let mut held = Vec::new();
    for _ in 0..32 {
        for length in [0u32, 16 << 10, 1 << 20, u32::MAX] {
            let mut session = Session::connect(server.address).unwrap();
            session.send_bytes(&length.to_be_bytes()).unwrap();
            session.send_bytes(&[1]).unwrap();
            held.push((length, session));
        }
    }
    for (length, session) in &mut held {
        let legal = (1..=16 << 10).contains(length);
        let heard = session.receive(Duration::from_millis(if legal { 1 } else { 5000 }));
        // A client that lies about a legal length is waited for; the others get an error, or are cut off.
        let expected = if legal { heard == Heard::Silence } else { heard != Heard::Silence };
        assert!(expected, "length {length}: {heard:?}");
    }
    // The maximum: the ones that were cut off are gone by now.
    let grown = server.readings().memory_peak.saturating_sub(before.memory_peak);
    drop(held);
    assert!(grown < 32 << 20, "{} MiB more", grown >> 20);
    is_unharmed(
        "frames of 0, 16 KiB, 1 MiB and 4 GiB that never come",
        &format!("{} KiB more for 128 sessions", grown >> 10),
        &server,
        before.descriptors,
    );
}

#[test]
fn datagrams_of_strangers() {
    let (server, _from, _inbox) = server();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = RandomStream::new(52, 0);
    let mut sent = 0;
    for round in 0..2000 {
        let datagram = match round % 4 {
            0 => in_clear(ConnectionId(5), &behind(&mut random, 123)),
            1 => [&b"inhaul?\n"[..], &[0; 14]].concat(),
            2 => bytes(&mut random, 1400),
            _ => Vec::new(),
        };
        sent += datagram.len();
        stranger.send_to(&datagram, server.address).unwrap();
    }
    let came = Received::at(&stranger, Duration::from_millis(300));
    figures("2,000 datagrams of somebody without a session", &format!("{sent} bytes there, {} back", came.bytes));
    assert_eq!(came, Received::default());
}

#[test]
fn orders_that_are_hard_to_read() {
    let (server, _from, _inbox) = server();
    let before = server.readings();
    let order = |text: Vec<u8>| {
        let mut session = Session::connect(server.address).unwrap();
        session.hello(SessionRole::Delegate, "gtp");
        let asked = Instant::now();
        session.send(&Frame::Delegate { order: text }).unwrap();
        (session.receive(PATIENCE), asked.elapsed())
    };
    let (nested, nested_took) = order(vec![b'['; 900_000]);
    assert!(matches!(nested, Heard::Frame(Frame::Refused { .. }) | Heard::End), "{nested:?}");
    // Patterns that make a matcher that tries again take for ever; and very many of them.
    let pattern = serde_json::json!({ "exclude": format!("{}a", "*a".repeat(30)) });
    let mut hard = RawPut::order_to("x");
    hard["rules"] = vec![pattern; 3000].into();
    let (heard, took) = order(hard.to_string().into_bytes());
    assert!(matches!(heard, Heard::Frame(_)), "{heard:?}");
    let what = format!("{:.2} s, 3,000 patterns {:.1} s", nested_took.as_secs_f64(), took.as_secs_f64());
    is_unharmed("orders: 900,000 brackets; patterns of many stars", &what, &server, before.descriptors);
    assert!(took < Duration::from_secs(10), "{took:?}");
}
