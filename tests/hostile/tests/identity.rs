//! Strangers, tokens that are used for more than they give, servers that are not the right ones, and half a handshake.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{
    Heard, HostileServer, Offer, Outcome, Running, Scratch, Server, Session, Start, all, figures, heavy, holds_for,
    inhaul, noise, wait_for,
};
use inhaul_mover::control_stream::ControlStream;
use inhaul_mover::frame::{Frame, RefusalCode, SessionRole};
use inhaul_mover::{Trust, UnknownServer};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

const PATIENCE: Duration = Duration::from_secs(30);
/// The server is not trusted; the right is missing: docs/exit-codes.md.
const UNTRUSTED: i32 = 17;
const NO_RIGHT: i32 = 18;

/// A server without authorised clients, and its keys.
struct Closed {
    server: Server,
    state: Scratch,
}

/// The program with these words and these keys; servers give nothing to strangers.
fn with_state(state: &Scratch, words: &[&str]) -> Start {
    let start = inhaul(words).variable("INHAUL_STATE", state.path());
    ["PUBLIC", "PUBLIC_PUTS", "PUBLIC_COPIES"]
        .iter()
        .fold(start, |start, name| start.variable(format!("INHAUL_SERVE_{name}"), "false"))
}

/// Offers `/a/f`, `/b/f` and `/a/link` to `/b`, and takes puts.
fn offered() -> Scratch {
    let from = Scratch::new();
    from.file("offered/a/f", &noise(100_000, 1));
    from.file("offered/b/f", &noise(100_000, 2));
    std::os::unix::fs::symlink("../b", from.path().join("offered/a/link")).unwrap();
    std::fs::create_dir(from.path().join("inbox")).unwrap();
    from
}

fn closed(from: &Scratch, listen: &str) -> Closed {
    closed_with(from, listen, Scratch::new())
}

fn closed_with(from: &Scratch, listen: &str, state: Scratch) -> Closed {
    let (offered, inbox) = (from.path().join("offered"), from.path().join("inbox"));
    let server = with_state(&state, &["serve", "--listen", listen, "--grace", "0", "--accept-puts"]);
    let server = server.arg(inbox).arg(offered).serve();
    Closed { server, state }
}

impl Closed {
    /// The ticket in the address that `inhaul token make` prints.
    fn ticket(&self, words: &[&str]) -> String {
        let outcome = with_state(&self.state, &[&["token", "make"], words].concat()).finish(PATIENCE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
        outcome.stdout.trim().split_once('#').unwrap().1.to_owned()
    }

    /// The ticket in the line that the server has printed.
    fn printed_ticket(&self) -> String {
        let line =
            || self.server.running.stdout().lines().find(|line| line.starts_with("inhaul get")).map(str::to_owned);
        assert!(wait_for(PATIENCE, || line().is_some()));
        let line = line().unwrap();
        line.split_once('#').unwrap().1.split_once('\'').unwrap().0.to_owned()
    }

    /// Fetches `path` with this ticket to a new place; returns the result.
    fn get(&self, path: &str, ticket: &str) -> Outcome {
        let to = Scratch::new();
        let outcome = get(&format!("{}#{ticket}", self.server.source(path)), &to);
        assert_eq!(outcome.code == Some(0), to.path().join("x").exists(), "{}", outcome.summary());
        outcome
    }
}

fn get(source: &str, to: &Scratch) -> Outcome {
    inhaul(["get", "-q", source]).arg(to.path().join("x")).finish(PATIENCE)
}

#[track_caller]
fn assert_ends(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.summary());
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
}

#[test]
fn a_stranger_gets_nothing_and_is_told_what_is_missing() {
    let (from, to) = (offered(), Scratch::new());
    let closed = closed(&from, "127.0.0.1:0");
    let source = closed.server.source("/a/f");
    assert_ends(&get(&source, &to), NO_RIGHT, "the right 'read' on '/a/f' is missing");
    let missing = get(&closed.server.source("/not/there"), &to);
    assert_ends(&missing, NO_RIGHT, "the right 'read' on '/not/there' is missing");
    assert!(missing.stderr.contains("inhaul token make --read"), "{}", missing.stderr);
    for words in [["ls", &source], ["doctor", &closed.server.address.to_string()]] {
        assert_ends(&inhaul(words).finish(PATIENCE), NO_RIGHT, "the right 'read'");
    }
    let put = inhaul(["put", "-q", "Cargo.toml", &closed.server.source("/x")]).finish(PATIENCE);
    assert_ends(&put, NO_RIGHT, "the right 'write' on '/x' is missing");
    assert_eq!(std::fs::read_dir(from.path().join("inbox")).unwrap().count(), 0);
    // Refusals are in the audit log.
    let log = std::fs::read_to_string(closed.state.path().join("audit.log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("\"event\":\"refused\"")).count(), 5, "{log}");
    figures("a stranger: get, ls, doctor, put", "exit 18 with the missing right; nothing lands");
}

#[test]
fn a_stranger_gets_nothing_by_frames_of_its_own_either() {
    let from = offered();
    let closed = closed(&from, "127.0.0.1:0");
    let asks: [Frame; 4] = [
        Frame::Open { path: "/a/f".to_owned(), owner: false, attributes: false, early: 1 << 20 },
        Frame::List { recursive: true, path: "/".to_owned() },
        Frame::Probe,
        Frame::AskToken { holder: [1; 32], path: "/a".to_owned() },
    ];
    for ask in asks {
        let mut session = Session::connect(closed.server.address).unwrap();
        session.hello(SessionRole::Fetch, "gtp");
        session.send(&ask).unwrap();
        let heard = session.receive(PATIENCE);
        let is_refused = matches!(&heard, Heard::Frame(Frame::Refused { code: RefusalCode::NoRight, .. }));
        assert!(is_refused, "{ask:?}: {heard:?}");
    }
    // Tokens that are none, and too many of them.
    let mut session = Session::connect(closed.server.address).unwrap();
    session.hello(SessionRole::Fetch, "gtp");
    session.send(&Frame::Authorize { token: vec![7; 2048] }).unwrap();
    assert!(matches!(session.receive(PATIENCE), Heard::Frame(Frame::Refused { code: RefusalCode::NoRight, .. })));
}

#[test]
fn a_token_gives_no_more_than_it_says() {
    let from = offered();
    let closed = closed(&from, "127.0.0.1:0");
    let ticket = closed.ticket(&["--read", "/a", "--until", "1h"]);
    assert_eq!(closed.get("/a/f", &ticket).code, Some(0));
    for path in ["/b/f", "/", "/a/../b/f", "/ab"] {
        assert_ends(&closed.get(path, &ticket), NO_RIGHT, "gives 'read' on '/offered/a' only");
    }
    // A link leads out of the right's path, though not out of the offered directory.
    assert_ends(&closed.get("/a/link/f", &ticket), 7, "goes through a link");
    let put = inhaul(["put", "-q", "Cargo.toml", &format!("{}#{ticket}", closed.server.source("/a"))]).finish(PATIENCE);
    assert_ends(&put, NO_RIGHT, "the right 'write' on '/a' is missing");
    std::fs::create_dir(from.path().join("inbox/in")).unwrap();
    let write = closed.ticket(&["--write", "/in", "--until", "1h"]);
    let put = |path: &str| {
        inhaul(["put", "-q", "Cargo.toml", &format!("{}#{write}", closed.server.source(path))]).finish(PATIENCE)
    };
    assert_eq!(put("/in/x").code, Some(0));
    assert_ends(&put("/y"), NO_RIGHT, "gives 'write' on '/in' only");
    figures("a token is used beyond its paths and rights", "exit 18; within them, exit 0");
}

#[test]
fn a_token_ends() {
    let from = offered();
    let closed = closed(&from, "127.0.0.1:0");
    let ticket = closed.ticket(&["--read", "/", "--until", "2s"]);
    assert_eq!(closed.get("/a/f", &ticket).code, Some(0));
    let ended = wait_for(PATIENCE, || closed.get("/a/f", &ticket).code == Some(NO_RIGHT));
    assert!(ended);
    assert_ends(&closed.get("/a/f", &ticket), NO_RIGHT, "has ended on 20");
    figures("a token is used after its end", "exit 18, with the end");
}

#[test]
fn a_token_is_for_one_server_and_one_holder() {
    let from = offered();
    let (closed, other) = (closed(&from, "127.0.0.1:0"), closed(&from, "127.0.0.1:0"));
    let ticket = closed.ticket(&["--read", "/", "--until", "1h"]);
    assert_ends(&other.get("/a/f", &ticket), UNTRUSTED, "the address says");
    let (_, token) = ticket.split_once('.').unwrap();
    assert_ends(&other.get("/a/f", &format!(".{token}")), NO_RIGHT, "not made by this server");
    // A token that was handed on for another host.
    let token: inhaul_identity::Token = token.parse().unwrap();
    let mut session = Session::connect(closed.server.address).unwrap();
    session.hello(SessionRole::Fetch, "gtp");
    session.send(&Frame::Authorize { token: token.to_bytes() }).unwrap();
    session.send(&Frame::AskToken { holder: [9; 32], path: "/a".to_owned() }).unwrap();
    let Frame::TokenGrant { token } = session.expect() else { panic!("no token") };
    let mut thief = Session::connect(closed.server.address).unwrap();
    thief.hello(SessionRole::Fetch, "gtp");
    thief.send(&Frame::Authorize { token }).unwrap();
    let heard = thief.open("/a/f").unwrap_err();
    let Heard::Frame(Frame::Refused { code: RefusalCode::NoRight, text }) = &heard else { panic!("{heard:?}") };
    assert!(text.contains("only for the host with the key"), "{text}");
    figures("a token at another server; one for another host", "exit 17 by the fingerprint, 18 without; refused");
}

#[test]
fn a_copy_is_by_a_token_for_its_path_and_never_by_the_key_of_the_server_that_copies() {
    let (from, to, own) = (offered(), Scratch::new(), Scratch::new());
    let source = closed(&from, "127.0.0.1:0");
    let state = Scratch::new();
    let listen = ["serve", "--listen", "127.0.0.1:0", "--grace", "0", "--accept-copies-from"];
    let server = with_state(&state, &listen).arg(source.server.address.to_string()).arg("--accept-puts").arg(to.path());
    let copier = Closed { server: server.arg(from.path()).serve(), state };
    let copy = |path: &str, source_ticket: &str, ticket: &str| {
        let ticket_of = |ticket: &str| if ticket.is_empty() { String::new() } else { format!("#{ticket}") };
        let from = format!("{}{}", source.server.source(path), ticket_of(source_ticket));
        let to = format!("{}{}", copier.server.source("/"), ticket_of(ticket));
        with_state(&own, &["copy", "-q", "--accept-new", &from, &to]).finish(PATIENCE)
    };
    let may_copy = copier.ticket(&["--copy", "/", "--until", "1h"]);
    let may_read = source.ticket(&["--read", "/a", "--until", "1h"]);
    assert_ends(&copy("/a", &may_read, ""), NO_RIGHT, "the right 'copy' on '/' is missing");
    assert_ends(&copy("/b", "", &may_copy), NO_RIGHT, "the right 'read' on '/b' is missing");
    assert_ends(&copy("/b", &may_read, &may_copy), NO_RIGHT, "gives 'read' on '/offered/a' only");
    // The server that copies may read everything there by its own key; who orders a copy may not.
    let keys = with_state(&copier.state, &["key", "make"]).finish(PATIENCE);
    let key = keys.stdout.lines().find_map(|line| line.strip_prefix("server ")).unwrap();
    std::fs::write(source.state.path().join("authorized_keys"), format!("{key} read\n")).unwrap();
    assert_ends(&copy("/b", "", &may_copy), NO_RIGHT, "the right 'read' on '/b' is missing");
    assert_ends(&copy("/b", &may_read, &may_copy), NO_RIGHT, "gives 'read' on '/offered/a' only");
    let copied = copy("/a/f", &may_read, &may_copy);
    assert_eq!(copied.code, Some(0), "{}", copied.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == noise(100_000, 1));
    // Who is let in by a key has the source make the token.
    let keys = with_state(&own, &["key", "make"]).finish(PATIENCE);
    let key = keys.stdout.lines().find_map(|line| line.strip_prefix("client ")).unwrap();
    std::fs::write(source.state.path().join("authorized_keys"), format!("{key} read=/offered/b\n")).unwrap();
    let copied = copy("/b", "", &may_copy);
    assert_eq!(copied.code, Some(0), "{}", copied.summary());
    assert!(std::fs::read(to.path().join("b/f")).unwrap() == noise(100_000, 2));
    let log = std::fs::read_to_string(source.state.path().join("audit.log")).unwrap();
    assert!(log.contains("\"what\":\"delegated\"") && !log.contains(&may_read), "{log}");
    figures(
        "copies beyond the rights of who orders them",
        "exit 18; within them, by a token for path and host, exit 0",
    );
}

#[test]
fn a_ticket_that_was_revoked_opens_nothing() {
    let from = offered();
    let closed = closed(&from, "127.0.0.1:0");
    let ticket = closed.printed_ticket();
    assert_eq!(closed.get("/a/f", &ticket).code, Some(0));
    let list = with_state(&closed.state, &["token", "list"]).finish(PATIENCE);
    let names: Vec<&str> = list.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let revoked = with_state(&closed.state, &[&["token", "revoke"], &names[..]].concat()).finish(PATIENCE);
    assert_eq!(revoked.code, Some(0), "{}", revoked.summary());
    assert_ends(&closed.get("/a/f", &ticket), NO_RIGHT, "was revoked");
    figures("a stolen line, after 'inhaul token revoke'", "exit 18 at once");
}

#[test]
fn a_client_is_let_in_by_its_key_while_its_line_is_there() {
    let (from, own) = (offered(), Scratch::new());
    let closed = closed(&from, "127.0.0.1:0");
    let keys = with_state(&own, &["key", "make"]).finish(PATIENCE);
    let key = keys.stdout.lines().find_map(|line| line.strip_prefix("client ")).unwrap().to_owned();
    let get = |path: &str| {
        let to = Scratch::new();
        with_state(&own, &["get", "-q", "--accept-new", &closed.server.source(path)])
            .arg(to.path().join("x"))
            .finish(PATIENCE)
    };
    assert_ends(&get("/a/f"), NO_RIGHT, &key);
    let file = closed.state.path().join("authorized_keys");
    std::fs::write(&file, format!("{key} read=/offered/a alice\n")).unwrap();
    assert_eq!(get("/a/f").code, Some(0));
    assert_ends(&get("/b/f"), NO_RIGHT, "has 'read' on '/offered/a' only");
    std::fs::write(&file, "").unwrap();
    assert_ends(&get("/a/f"), NO_RIGHT, "does not know this client");
}

#[test]
fn a_server_with_another_key_is_refused_and_the_line_that_mends_it_mends_it() {
    let (from, own) = (offered(), Scratch::new());
    let get = |source: &str, more: &[&str]| {
        let to = Scratch::new();
        let words = [&["get", "-q", source], more].concat();
        with_state(&own, &words).variable("INHAUL_GET_ACCEPT_NEW", "false").arg(to.path().join("x")).finish(PATIENCE)
    };
    let first = closed(&from, "127.0.0.1:0");
    let (address, source) = (first.server.address, first.server.source("/a/f"));
    assert_ends(&get(&source, &[]), UNTRUSTED, "is not known here");
    // Without the right, but with the key: that is the server's answer.
    assert_ends(&get(&source, &["--accept-new"]), NO_RIGHT, "missing");
    assert_ends(&get(&source, &[]), NO_RIGHT, "missing");
    drop(first);
    let second = closed(&from, &address.to_string());
    for more in [&[][..], &["--accept-new"]] {
        assert_ends(&get(&source, more), UNTRUSTED, "ITS KEY HAS CHANGED");
    }
    let outcome = get(&source, &[]);
    let (_, mend) = outcome.stderr.split_once("'inhaul key trust ").unwrap();
    let words: Vec<&str> = mend.split_once('\'').unwrap().0.split(' ').collect();
    let mended = with_state(&own, &[&["key", "trust"], &words[..]].concat()).finish(PATIENCE);
    assert_eq!(mended.code, Some(0), "{}", mended.summary());
    assert_ends(&get(&source, &[]), NO_RIGHT, "missing");
    drop(second);
    figures("a server's key changes", "exit 17, also with --accept-new; the line that mends it mends it");
}

#[test]
fn a_server_in_between_has_not_the_key() {
    let (from, to) = (offered(), Scratch::new());
    let closed = closed(&from, "127.0.0.1:0");
    let ticket = closed.ticket(&["--read", "/", "--until", "1h"]);
    let between = HostileServer::offer(Offer::file("f", noise(100_000, 3)));
    let outcome = get(&format!("{}#{ticket}", between.source("/a/f")), &to);
    assert_ends(&outcome, UNTRUSTED, "another host may have taken its place");
    assert_eq!((between.sent(), to.path().join("x").exists()), (0, false));
}

/// The client's first message to a server that answers `answer` in the clear, and the client's result.
fn in_the_clear(answer: Vec<u8>) -> (Vec<u8>, Outcome) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut heard = Vec::new();
        let mut tcp = listener.accept().unwrap().0;
        tcp.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        tcp.write_all(&answer).unwrap();
        let mut piece = [0; 4096];
        while let Ok(len @ 1..) = tcp.read(&mut piece) {
            heard.extend_from_slice(&piece[..len]);
        }
        heard
    });
    let to = Scratch::new();
    let outcome = get(&format!("inhaul://{address}/a-secret-path"), &to);
    (server.join().unwrap(), outcome)
}

#[test]
fn the_two_cannot_be_talked_out_of_tls() {
    // A server of an earlier release, or somebody who plays one.
    let mut welcome = Vec::new();
    Frame::Welcome { version: 7, udp_port: 4321, key: None }.encode(&mut welcome);
    let (heard, outcome) = in_the_clear(welcome);
    assert_ends(&outcome, 7, "does not secure its connections");
    assert!(!heard.windows(13).any(|window| window == b"a-secret-path"), "it is never sent in the clear");
    let mut refusal = Vec::new();
    Frame::Refused { code: RefusalCode::NotFound, text: "gone".to_owned() }.encode(&mut refusal);
    assert_ends(&in_the_clear(refusal).1, 7, "does not secure its connections");
    // A client of an earlier release.
    let from = offered();
    let closed = closed(&from, "127.0.0.1:0");
    let tcp = TcpStream::connect(closed.server.address).unwrap();
    let mut old = ControlStream::new(tcp).unwrap();
    let deadline = Instant::now() + PATIENCE;
    old.send(&Frame::Finish, deadline).unwrap();
    let answer = old.receive(deadline).unwrap();
    assert!(matches!(&answer, Frame::Refused { code: RefusalCode::Version, .. }), "{answer:?}");
    // A peer with TLS 1.2 at most: an alert, "protocol_version" (RFC 8446 6.2).
    let mut tcp = TcpStream::connect(closed.server.address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.write_all(&tls12_hello()).unwrap();
    let mut alert = Vec::new();
    let _ = tcp.read_to_end(&mut alert);
    assert_eq!(alert, [0x15, 3, 3, 0, 2, 2, 70]);
    figures("talked out of TLS: in the clear, TLS 1.2", "refused by both sides; no message is sent in the clear");
}

/// The first message of a client with TLS 1.2 at most, with the fields that it needs to be valid.
fn tls12_hello() -> Vec<u8> {
    let mut extensions: Vec<u8> = Vec::new();
    // signature_algorithms, supported_groups, ec_point_formats.
    for (kind, body) in [(13u16, &[0u8, 2, 4, 3][..]), (10, &[0, 2, 0, 29]), (11, &[1, 0])] {
        extensions.extend_from_slice(&kind.to_be_bytes());
        extensions.extend_from_slice(&(body.len() as u16).to_be_bytes());
        extensions.extend_from_slice(body);
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    // No session; one cipher suite, ECDHE with AES; no compression.
    body.extend_from_slice(&[0, 0, 2, 0xC0, 0x2B, 1, 0]);
    body.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
    body.extend_from_slice(&extensions);
    let mut message = vec![1, 0];
    message.extend_from_slice(&(body.len() as u16).to_be_bytes());
    message.extend_from_slice(&body);
    let mut record = vec![0x16, 3, 1];
    record.extend_from_slice(&(message.len() as u16).to_be_bytes());
    record.extend_from_slice(&message);
    record
}

/// The first message of an honest client.
fn client_hello() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
        let server = inhaul_mover::Server::new("127.0.0.1", address.port());
        let tcp = TcpStream::connect(address).unwrap();
        drop(ControlStream::secured_client(tcp, &server, &trust, Instant::now() + PATIENCE));
    });
    let mut tcp = listener.accept().unwrap().0;
    let mut head = [0; 5];
    tcp.read_exact(&mut head).unwrap();
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    tcp.read_exact(&mut body).unwrap();
    drop(tcp);
    client.join().unwrap();
    [&head[..], &body].concat()
}

/// A connection to `server` from this address of loopback.
fn connect_from(from: Ipv4Addr, server: SocketAddr) -> Option<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&socket, &SocketAddr::new(IpAddr::V4(from), 0)).ok()?;
    connect(&socket, &server).ok()?;
    Some(TcpStream::from(socket))
}

fn peak(running: &Running) -> u64 {
    running.readings().memory_peak
}

/// Opens half a handshake each, from twenty addresses, until it is told to stop.
fn flood(server: SocketAddr, hello: &[u8], goes_on: impl Fn(u32) -> bool) -> Vec<TcpStream> {
    let mut held = Vec::new();
    let mut number = 0;
    while goes_on(number) {
        number += 1;
        let from = Ipv4Addr::new(127, 0, 1, 1 + (number % 20) as u8);
        let Some(mut tcp) = connect_from(from, server) else { continue };
        // One half begin a handshake and fall silent, the others begin its first message.
        let part = if number % 2 == 0 { hello } else { &hello[..hello.len() / 2] };
        let _ = tcp.write_all(part);
        held.push(tcp);
        // More than a server has places; the oldest are let go.
        if held.len() > 2000 {
            held.drain(..500);
        }
    }
    held
}

#[test]
fn half_open_handshakes_cost_no_more_than_there_are_places_and_delay_no_client() {
    let _alone = heavy();
    let count: u32 = if all() { 10_000 } else { 2000 };
    let (from, to, hello) = (offered(), Scratch::new(), client_hello());
    let closed = closed(&from, "0.0.0.0:0");
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, closed.server.address.port()));
    let ticket = closed.ticket(&["--read", "/", "--until", "1h"]);
    let warm = get(&format!("inhaul://{server}/a/f#{ticket}"), &to);
    assert_eq!(warm.code, Some(0), "{}", warm.summary());
    let (before, began) = (peak(&closed.server.running), Instant::now());
    let held = flood(server, &hello, |number| number < count);
    let took = began.elapsed();
    let readings = closed.server.running.readings();
    // The flood goes on while an honest client comes, which tries once.
    let source = format!("inhaul://{server}/a/f#{ticket}");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let honest = std::thread::scope(|scope| {
        let more = scope.spawn(|| flood(server, &hello, |_| !is_over.load(std::sync::atomic::Ordering::Relaxed)));
        let honest: Vec<Outcome> = (0..5)
            .map(|n| inhaul(["get", "-q", &source]).arg(to.path().join(format!("y{n}"))).finish(PATIENCE))
            .collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(more.join().unwrap());
        honest
    });
    let more = peak(&closed.server.running) - before;
    let slowest = honest.iter().map(|outcome| outcome.took).max().unwrap_or_default();
    figures(
        &format!("{count} half-open TLS handshakes from 20 addresses, and more during 5 gets"),
        &format!(
            "{:.1} s, {} MiB more at most, {} threads; the slowest get takes {:.2} s",
            took.as_secs_f64(),
            more >> 20,
            readings.threads,
            slowest.as_secs_f64()
        ),
    );
    for outcome in &honest {
        assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    assert!(more < 80 << 20, "{more} bytes for 512 places");
    drop(held);
    // And they end: the places are free again.
    assert!(wait_for(PATIENCE, || closed.server.running.readings().threads < 20));
    assert!(holds_for(Duration::from_millis(100), || closed.server.running.is_running()));
}

/// A server whose certificate is for `localhost`.
fn certified(from: &Scratch, more: &[&str]) -> Closed {
    let folder = certificates();
    let state = Scratch::new();
    let words = [&["serve", "--listen", "127.0.0.1:0", "--grace", "0", "--accept-puts"], more].concat();
    let server = with_state(&state, &words[..6]).arg(from.path().join("inbox")).args(&words[6..]);
    let server = server.arg("--certificate").arg(folder.join("localhost.pem"));
    let server = server.arg("--key").arg(folder.join("localhost.key")).arg(from.path().join("offered"));
    Closed { server: server.serve(), state }
}

fn certificates() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/session/src/session/tls/test-certificates")
}

impl Closed {
    /// The address by the name in the certificate, with the token of a ticket and without its fingerprint.
    fn by_name(&self, path: &str, ticket: &str) -> String {
        let token = ticket.split_once('.').map_or("", |(_, token)| token);
        let ticket = if token.is_empty() { String::new() } else { format!("#.{token}") };
        format!("inhaul://localhost:{}{path}{ticket}", self.server.address.port())
    }
}

#[test]
fn certificates_are_believed_by_the_authorities_of_the_system_and_of_files() {
    let from = offered();
    let closed = certified(&from, &[]);
    let ticket = closed.ticket(&["--read", "/", "--until", "1h"]);
    let authority = certificates().join("authority.pem");
    let other = certificates().join("localhost.pem");
    let get = |ca: &str, bundle: &Path| {
        let (to, own) = (Scratch::new(), Scratch::new());
        let get = with_state(&own, &["get", "-q", "--ca", ca, &closed.by_name("/a/f", &ticket)]);
        get.variable("INHAUL_GET_ACCEPT_NEW", "false")
            .variable("SSL_CERT_FILE", bundle)
            .arg(to.path().join("x"))
            .finish(PATIENCE)
    };
    assert_eq!(get("system", &authority).code, Some(0), "{}", get("system", &authority).summary());
    assert_ends(&get("system", &other), UNTRUSTED, "certificate");
    assert_ends(&get("system", Path::new("/does/not/exist")), UNTRUSTED, "no certificates can be read");
    assert_eq!(get(authority.to_str().unwrap(), &other).code, Some(0));
    figures("--ca system: another authority; no bundle", "exit 17; with the right one exit 0");
}

#[test]
fn a_copy_between_servers_with_certificates_is_by_a_token_for_its_path() {
    let (from, landing) = (offered(), offered());
    let source = certified(&from, &[]);
    let known = format!("localhost:{}", source.server.address.port());
    let copier = certified(&landing, &["--accept-copies-from", &known]);
    let authority = certificates().join("authority.pem");
    let own = Scratch::new();
    let may_copy = copier.ticket(&["--copy", "/", "--until", "1h"]);
    let may_read = source.ticket(&["--read", "/a", "--until", "1h"]);
    let copy = |path: &str, ticket: &str| {
        let words = ["copy", "-q", "--ca", authority.to_str().unwrap()];
        let addresses = [source.by_name(path, ticket), copier.by_name("/", &may_copy)];
        with_state(&own, &words).args(addresses).variable("INHAUL_COPY_ACCEPT_NEW", "false").finish(PATIENCE)
    };
    assert_ends(&copy("/b", &may_read), NO_RIGHT, "gives 'read' on '/offered/a' only");
    assert_ends(&copy("/a/f", ""), NO_RIGHT, "is missing");
    let copied = copy("/a/f", &may_read);
    assert_eq!(copied.code, Some(0), "{}", copied.summary());
    assert!(std::fs::read(landing.path().join("inbox/f")).unwrap() == noise(100_000, 1));
    // Who is let in by a key has the source make the token.
    let keys = with_state(&own, &["key", "make"]).finish(PATIENCE);
    let key = keys.stdout.lines().find_map(|line| line.strip_prefix("client ")).unwrap();
    std::fs::write(source.state.path().join("authorized_keys"), format!("{key} read=/offered/b\n")).unwrap();
    let copied = copy("/b", "");
    assert_eq!(copied.code, Some(0), "{}", copied.summary());
    assert!(std::fs::read(landing.path().join("inbox/b/f")).unwrap() == noise(100_000, 2));
    figures("copies between servers with certificates", "by a token for path and host, as with raw keys");
}

#[test]
fn keys_are_readable_only_by_their_user() {
    let from = offered();
    let closed = closed(&from, "127.0.0.1:0");
    let mode = |path: &Path| std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
    for name in ["server.key", "tokens", "audit.log"] {
        assert_eq!(mode(&closed.state.path().join(name)) & 0o777, 0o600, "{name}");
    }
    let Closed { server, state } = closed;
    drop(server);
    let key = state.path().join("server.key");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let refused = with_state(&state, &["serve", "--listen", "127.0.0.1:0"]).arg(from.path()).finish(PATIENCE);
    assert_ends(&refused, UNTRUSTED, "chmod 600");
}

#[test]
fn what_is_asked_for_comes_without_a_word_from_the_server() {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    let (told, listen) = channel();
    let told = Mutex::new(told);
    // The handshake is over with the client's second flight; its server says nothing then.
    let server = HostileServer::start(move |session, _| {
        let heard = [session.receive(Duration::from_secs(2)), session.receive(Duration::from_secs(2))];
        told.lock().unwrap().send(heard).unwrap();
    });
    let to = Scratch::new();
    let get = inhaul(["get", "-q", &server.source("/f")]).arg(to.path().join("x")).start();
    let heard = listen.recv_timeout(PATIENCE).unwrap();
    drop(get);
    let is_all = matches!(&heard, [Heard::Frame(Frame::Hello { .. }), Heard::Frame(Frame::Open { .. })]);
    figures("round trips until the description comes", "TCP 1, TLS 1, request 1: the request waits for nothing else");
    assert!(is_all, "{heard:?}");
}

#[test]
fn all_again_without_openat2() {
    inhaul_hostile_tests::again_without_openat2(module_path!(), &["a_token", "a_copy", "a_stranger"]);
}
