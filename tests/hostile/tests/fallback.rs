//! Networks that do not pass UDP, at first, for a while or at one mirror: data comes over TLS streams to the control
//! port, and over UDP again when it passes. And peers that abuse those streams.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{
    GtpClient, Heard, OURS, Offer, Outcome, RawPut, Relay, Scratch, Server, Session, Start, figures, holds_for, inhaul,
    noise, wait_for,
};
use inhaul_mover::frame::{Frame, RefusalCode, SessionRole};
use inhaul_transport::kit::wire::PathDatagram;

const PATIENCE: Duration = Duration::from_secs(40);
const SIZE: usize = 24 << 20;

/// A file `f` at a server behind a relay, and where it lands.
struct Behind {
    _from: Scratch,
    to: Scratch,
    bytes: Vec<u8>,
    server: Server,
    relay: Relay,
}

impl Behind {
    fn relay(seed: u64) -> Self {
        let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(SIZE, seed));
        from.file("f", &bytes);
        let server = Server::offer(from.path());
        let relay = Relay::honest(server.address);
        Self { _from: from, to, bytes, server, relay }
    }

    fn get(&self, args: &[&str]) -> Start {
        inhaul(["get", "--json"]).args(args).arg(self.relay.source("/f")).arg(self.to.inside())
    }

    fn has_come(&self, attempt: &str, outcome: &Outcome) -> serde_json::Value {
        figures(attempt, &format!("{}, {:.1} s", outcome.summary(), outcome.took.as_secs_f64()));
        assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
        assert!(std::fs::read(self.to.path().join("f")).unwrap() == self.bytes, "{attempt}");
        outcome.json()["sources"][0]["path"].clone()
    }
}

#[test]
fn udp_is_blocked_from_the_start() {
    let behind = Behind::relay(31);
    behind.relay.block_udp(true);
    let outcome = behind.get(&[]).finish(PATIENCE);
    let path = behind.has_come("no datagram passes from the start", &outcome);
    assert_eq!((path["over"].as_str(), path["why"].as_str()), (Some("tcp"), Some("UDP does not pass")), "{path}");
    assert_eq!(path["changes"], 1, "{path}");
    assert!(outcome.took < Duration::from_secs(10), "{:?}", outcome.took);
}

#[test]
fn udp_is_blocked_for_a_while_in_mid_transfer() {
    let behind = Behind::relay(32);
    let get = behind.get(&["--rate", "24M"]).start();
    assert!(wait_for(PATIENCE, || behind.relay.passed() > 600), "no data: {}", get.stderr());
    behind.relay.block_udp(true);
    assert!(holds_for(Duration::from_secs(3), || get.is_running()), "{}", get.stderr());
    behind.relay.block_udp(false);
    let outcome = get.finish(PATIENCE);
    let path = behind.has_come("no datagram passes for 3 s in the middle; then they do again", &outcome);
    assert_eq!(path["over"].as_str(), Some("udp"), "it has come back: {path}");
    assert_eq!(path["changes"], 2, "{path}");
    // 201 Mbit at 24 Mbit/s, and less than a second for each change.
    assert!(outcome.took < Duration::from_secs(11), "{:?}", outcome.took);
}

#[test]
fn every_transport_goes_over_streams() {
    for transport in ["cubic", "udt", "sabul"] {
        let behind = Behind::relay(33);
        behind.relay.block_udp(true);
        let rate: &[&str] = if transport == "sabul" { &["--rate", "200M"] } else { &[] };
        let outcome = behind.get(&[&["--transport", transport], rate].concat()).finish(PATIENCE);
        let path = behind.has_come(&format!("no datagram passes, {transport}"), &outcome);
        assert_eq!(path["over"].as_str(), Some("tcp"), "{transport}: {path}");
    }
}

#[test]
fn one_of_two_mirrors_is_blocked() {
    let behind = Behind::relay(34);
    behind.relay.block_udp(true);
    let source = format!("inhaul://{},{}/f", behind.relay.address, behind.server.address);
    let outcome = inhaul(["get", "--json", "--rate", "60M", &source]).arg(behind.to.inside()).finish(PATIENCE);
    behind.has_come("one of two mirrors has no UDP", &outcome);
    let report = outcome.json();
    let over: Vec<_> = report["sources"].as_array().unwrap().iter().map(|s| s["path"]["over"].clone()).collect();
    let bytes: Vec<_> = report["sources"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).collect();
    assert_eq!(over, ["tcp", "udp"]);
    assert!(bytes.iter().all(|&bytes| bytes > SIZE as u64 / 5), "both bring a part: {bytes:?}");
}

#[test]
fn streams_that_are_cut_are_opened_again() {
    let behind = Behind::relay(35);
    behind.relay.block_udp(true);
    let get = behind.get(&["--rate", "40M", "--retry-for", "1m"]).start();
    assert!(wait_for(PATIENCE, || get.stderr().contains("over TCP")), "{}", get.stderr());
    assert!(holds_for(Duration::from_millis(700), || get.is_running()));
    behind.relay.reset_tcp();
    let outcome = get.finish(PATIENCE);
    behind.has_come("no datagram passes, and all connections are reset", &outcome);
}

#[test]
fn the_user_s_choice_holds() {
    let behind = Behind::relay(36);
    let outcome = behind.get(&["--fallback", "always"]).finish(PATIENCE);
    let path = behind.has_come("--fallback always", &outcome);
    assert_eq!((path["over"].as_str(), path["why"].as_str()), (Some("tcp"), Some("as was chosen")));
    behind.relay.block_udp(true);
    let never = inhaul(["get", "--json", "--fallback", "never", &behind.relay.source("/f")]);
    let outcome = never.arg(behind.to.path().join("g")).finish(PATIENCE);
    assert_eq!(outcome.json()["error"]["code"], "udp-blocked", "{}", outcome.summary());
}

/// A proxy that knows HTTP's CONNECT and no more. How many connections it has made.
fn proxy() -> (SocketAddr, std::sync::Arc<std::sync::atomic::AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = std::sync::Arc::<std::sync::atomic::AtomicU64>::default();
    let made = std::sync::Arc::clone(&count);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let made = std::sync::Arc::clone(&made);
            std::thread::spawn(move || {
                let mut client = client.unwrap();
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") {
                    client.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap().to_owned();
                let mut server = TcpStream::connect(target).unwrap();
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
                made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                let _ = std::io::copy(&mut server, &mut client);
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    (address, count)
}

#[test]
fn data_comes_through_a_proxy() {
    let behind = Behind::relay(37);
    let (address, connections) = proxy();
    let outcome = behind.get(&["--proxy", &format!("http://{address}")]).finish(PATIENCE);
    let path = behind.has_come("through a proxy (HTTP CONNECT)", &outcome);
    assert_eq!(path["over"].as_str(), Some("tcp"));
    assert_eq!(connections.load(std::sync::atomic::Ordering::Relaxed), 5, "the session, and four streams");
    assert_eq!(behind.relay.passed(), 0, "no datagram is sent past a proxy");
    let nowhere =
        inhaul(["get", "--json", "--retry-for", "0s", "--proxy", "socks5://127.0.0.1:1", &behind.relay.source("/f")]);
    let outcome = nowhere.arg(behind.to.path().join("g")).finish(PATIENCE);
    assert!(outcome.stderr.contains("the proxy socks5://127.0.0.1:1 cannot be reached"), "{}", outcome.stderr);
}

// --- Puts -----------------------------------------------------------------------------------------------------------

/// A file `f` here, and a server behind a relay that takes it in.
struct ToPut {
    from: Scratch,
    inbox: Scratch,
    _offered: Scratch,
    bytes: Vec<u8>,
    server: Server,
    relay: Relay,
}

impl ToPut {
    fn relay(seed: u64) -> Self {
        let (from, inbox, offered, bytes) = (Scratch::new(), Scratch::new(), Scratch::new(), noise(SIZE, seed));
        from.file("f", &bytes);
        let server = Server::offer_with(offered.path(), &["--accept-puts", inbox.path().to_str().unwrap()]);
        let relay = Relay::honest(server.address);
        Self { from, inbox, _offered: offered, bytes, server, relay }
    }

    fn put(&self, args: &[&str]) -> Start {
        inhaul(["put", "--json"]).args(args).arg(self.from.path().join("f")).arg(self.relay.source("/"))
    }

    fn has_landed(&self, attempt: &str, outcome: &Outcome) -> serde_json::Value {
        figures(attempt, &format!("{}, {:.1} s", outcome.summary(), outcome.took.as_secs_f64()));
        assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.summary(), self.server.running.stderr());
        assert!(std::fs::read(self.inbox.path().join("f")).unwrap() == self.bytes, "{attempt}");
        outcome.json()["sources"][0]["path"].clone()
    }
}

#[test]
fn a_put_goes_over_streams_where_udp_is_blocked_from_the_start() {
    let put = ToPut::relay(41);
    put.relay.block_udp(true);
    let outcome = put.put(&[]).finish(PATIENCE);
    let path = put.has_landed("a put: no datagram passes from the start", &outcome);
    assert_eq!((path["over"].as_str(), path["why"].as_str()), (Some("tcp"), Some("UDP does not pass")), "{path}");
    assert_eq!(path["changes"], 1, "{path}");
    assert!(outcome.took < Duration::from_secs(10), "{:?}", outcome.took);
}

#[test]
fn a_put_whose_udp_is_blocked_for_a_while_changes_and_comes_back() {
    for from_start in [false, true] {
        let put = ToPut::relay(42);
        put.relay.block_udp(from_start);
        let put_it = put.put(&["--send-rate", "24M"]).start();
        if from_start {
            assert!(wait_for(PATIENCE, || put_it.stderr().contains("over TCP")), "{}", put_it.stderr());
        } else {
            assert!(wait_for(PATIENCE, || put.relay.passed() > 600), "no data: {}", put_it.stderr());
            put.relay.block_udp(true);
        }
        assert!(holds_for(Duration::from_secs(3), || put_it.is_running()), "{}", put_it.stderr());
        put.relay.block_udp(false);
        let outcome = put_it.finish(PATIENCE);
        let when = if from_start { "from the start" } else { "in the middle" };
        let path = put.has_landed(&format!("a put: no datagram passes for 3 s {when}; then they do"), &outcome);
        assert_eq!((path["over"].as_str(), path["changes"].as_u64()), (Some("udp"), Some(2)), "{when}: {path}");
    }
}

#[test]
fn a_put_does_as_its_user_has_chosen() {
    let put = ToPut::relay(43);
    let outcome = put.put(&["--fallback", "always"]).finish(PATIENCE);
    let path = put.has_landed("a put with --fallback always", &outcome);
    assert_eq!((path["over"].as_str(), path["why"].as_str()), (Some("tcp"), Some("as was chosen")));
    assert_eq!(put.relay.passed(), 0, "no datagram is sent");
    put.relay.block_udp(true);
    let outcome = put.put(&["--overwrite", "--fallback", "never"]).finish(PATIENCE);
    assert_eq!((outcome.code, outcome.json()["error"]["code"].as_str()), (Some(11), Some("udp-blocked")));
}

#[test]
fn a_put_goes_through_a_proxy() {
    let put = ToPut::relay(44);
    let (address, connections) = proxy();
    let outcome = put.put(&["--proxy", &format!("http://{address}")]).finish(PATIENCE);
    let path = put.has_landed("a put through a proxy (HTTP CONNECT)", &outcome);
    assert_eq!(path["over"].as_str(), Some("tcp"));
    let connections = connections.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(connections, 6, "the order, the data set's session, and four streams");
    assert_eq!(put.relay.passed(), 0, "no datagram is sent past a proxy");
}

// --- Hostile clients ------------------------------------------------------------------------------------------------

/// A server's answer to a stream that shows `token`, within half a second.
fn attached(server: SocketAddr, token: u128) -> (Session, Heard) {
    let mut stream = Session::connect(server).unwrap();
    stream.hello(SessionRole::Tunnel, "gtp");
    stream.send(&Frame::AttachTunnel { token }).unwrap();
    let said = stream.receive(Duration::from_millis(500));
    (stream, said)
}

/// A client has its data set's description a moment before its server knows the session's number. A real one comes again.
fn attached_in_time(server: SocketAddr, token: u128) -> (Session, Heard) {
    let began = Instant::now();
    loop {
        let (stream, said) = attached(server, token);
        if !is_refused(&said) || began.elapsed() > PATIENCE {
            return (stream, said);
        }
    }
}

fn is_refused(said: &Heard) -> bool {
    matches!(said, Heard::Frame(Frame::Refused { code: RefusalCode::NotAllowed, .. }))
}

/// The path of a hand-made flow is opened over a stream.
fn open_path(flow: &mut GtpClient, stream: &mut Session) {
    let bytes = flow.probe_datagram(0);
    stream.send(&Frame::Datagrams { segment: bytes.len() as u16, bytes }).unwrap();
    let Frame::Datagrams { bytes, .. } = stream.expect() else { panic!("no datagrams") };
    let echo = flow.seal.open(OURS, &bytes).and_then(|datagram| PathDatagram::parse(&datagram));
    let Some(PathDatagram::Echo { challenge, .. }) = echo else { panic!("{echo:?}") };
    flow.challenge = challenge;
}

#[test]
fn strangers_attach_no_streams_and_clients_only_four() {
    let from = Scratch::new();
    from.file("f", &noise(SIZE, 38));
    let server = Server::offer(from.path());
    for token in [0, 1, u128::MAX] {
        assert!(is_refused(&attached(server.address, token).1), "{token}");
    }
    let mut session = Session::connect(server.address).unwrap();
    session.hello(SessionRole::Fetch, "gtp");
    session.open("/f").unwrap();
    let token = session.tunnel_token();
    let first = attached_in_time(server.address, token);
    let streams: Vec<_> = std::iter::once(first).chain((1..6).map(|_| attached(server.address, token))).collect();
    let refused = streams.iter().filter(|(_, said)| is_refused(said)).count();
    figures("a client attaches six streams", &format!("{refused} are refused"));
    assert_eq!(refused, 2, "{:?}", streams.iter().map(|(_, said)| said).collect::<Vec<_>>());
    assert!(is_refused(&attached(server.address, token ^ 1).1));
    // With its session the number ends.
    drop((session, streams));
    assert!(wait_for(Duration::from_secs(5), || is_refused(&attached(server.address, token).1)));
}

#[test]
fn strangers_attach_no_streams_to_puts_and_clients_only_four() {
    let put = ToPut::relay(45);
    let server = put.server.address;
    let mut order = RawPut::order_to("f");
    order["fallback"] = "always".into();
    let raw = RawPut::begin(server, &order).unwrap();
    let mut session = raw.attach(0).unwrap();
    let token = session.tunnel_token();
    assert!(is_refused(&attached(server, token).1), "no client has asked for it");
    let manifest = Offer::file("f", noise(SIZE, 45)).manifest;
    session.send(&Frame::DataSet { last: true, bytes: manifest }).unwrap();
    if session.wants_content() {
        session.send(&Frame::Content { bytes: Vec::new() }).unwrap();
    }
    while session.expect() != Frame::AskTunnel {}
    assert!([0, 1, token ^ 1].iter().all(|&token| is_refused(&attached(server, token).1)));
    let first = attached_in_time(server, token);
    let streams: Vec<_> = std::iter::once(first).chain((1..6).map(|_| attached(server, token))).collect();
    let refused = streams.iter().filter(|(_, said)| is_refused(said)).count();
    figures("a client that puts attaches six streams", &format!("{refused} are refused"));
    assert_eq!(refused, 2, "{:?}", streams.iter().map(|(_, said)| said).collect::<Vec<_>>());
    drop((session, streams, raw));
    assert!(wait_for(Duration::from_secs(5), || is_refused(&attached(server, token).1)));
    let outcome = put.put(&[]).finish(PATIENCE);
    put.has_landed("an honest put after a dropped one", &outcome);
}

#[test]
fn a_stream_that_is_not_read_costs_little_and_delays_no_other() {
    let from = Scratch::new();
    from.file("f", &noise(96 << 20, 39));
    from.file("small", &noise(4 << 20, 39));
    let server = Server::offer(from.path());
    let mut flow = GtpClient::open(server.address, "/f");
    let token = flow.session.tunnel_token();
    let (mut stream, said) = attached_in_time(server.address, token);
    assert_eq!(said, Heard::Silence);
    open_path(&mut flow, &mut stream);
    let before = server.readings();
    // It asks for nearly everything at the highest rate, and reads nothing.
    flow.rate(1, 100_000_000_000, 60_000);
    flow.request(1408, &[(0, 1408 * 65_000)]);
    let (began, to, mut others) = (Instant::now(), Scratch::new(), 0);
    while began.elapsed() < Duration::from_secs(2) {
        let bytes = flow.response();
        stream.send(&Frame::Datagrams { segment: bytes.len() as u16, bytes }).unwrap();
        let outcome = server.get("/small", &to.path().join(format!("f{others}")), PATIENCE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
        others += 1;
    }
    let grown = server.readings().memory.saturating_sub(before.memory);
    figures(
        "a client reads nothing of its stream, and has asked for 92 MB",
        &format!("{others} other fetches went through; the server grew by {:.1} MB", grown as f64 / 1e6),
    );
    assert!(others > 2 && grown < 48 << 20, "{others}, {grown}");
}

#[test]
fn streams_with_other_things_than_datagrams_are_closed() {
    let from = Scratch::new();
    from.file("f", &noise(SIZE, 40));
    let server = Server::offer(from.path());
    let mut session = Session::connect(server.address).unwrap();
    session.hello(SessionRole::Fetch, "gtp");
    session.open("/f").unwrap();
    let token = session.tunnel_token();
    let closes = |stream: &mut Session| {
        wait_for(Duration::from_secs(5), || !matches!(stream.receive(Duration::from_millis(50)), Heard::Silence))
    };
    // Another kind, lengths beyond the largest, a frame that is damaged, more datagrams than a message has.
    let one_byte_each = [&[0u8, 1][..], &[7; 65]].concat();
    let frames = [inhaul_mover::frame::framed(11, &[]), vec![0xff; 100], vec![0, 0, 0, 9, 27, 0, 0, 1, 1, 0, 0, 0, 0]];
    for bytes in frames.into_iter().chain([inhaul_mover::frame::framed(27, &one_byte_each)]) {
        let (mut stream, said) = attached_in_time(server.address, token);
        assert_eq!(said, Heard::Silence);
        stream.send_bytes(&bytes).unwrap();
        assert!(closes(&mut stream), "{bytes:?}");
    }
    let to = Scratch::new();
    assert_eq!(server.get("/f", &to.path().join("f"), PATIENCE).code, Some(0));
}
