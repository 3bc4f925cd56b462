//! A server as a service: sockets of a service manager, restarts, rights that end, limits, metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{Manager, Running, Scratch, Server, Signal, Start, figures, heavy, inhaul, noise, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);
/// The right is missing: docs/exit-codes.md.
const NO_RIGHT: i32 = 18;
#[test]
fn a_service_restarts_under_transfers_and_loses_nothing() {
    let _alone = heavy();
    let (from, to, manager) = (Scratch::new(), Scratch::new(), Manager::new());
    let big = noise(12 << 20, 5);
    from.file("big", &big);
    from.file("small", &noise(1024, 6));
    let source = |path: &str| format!("inhaul://{}{path}", manager.address());
    let get = |path: &str, name: &str| {
        let get = inhaul(["get", "-q", "--json", "--retry-for", "60s", "--rate", "30M", &source(path)]);
        get.arg(to.path().join(name)).start()
    };
    let first = manager.start(from.path());
    let under_way = get("/big", "big");
    assert!(wait_for(PATIENCE, || to.path().join("big.partial").exists()), "{}", first.stderr());
    manager.hear_until("WATCHDOG=1");
    // A put needs a socket beside the service manager's, which is another user's.
    let put = inhaul(["put", "-q"]).arg(from.path().join("big")).arg(source("/")).finish(PATIENCE);
    assert_eq!(put.code, Some(0), "{} / {}", put.summary(), first.stderr());
    assert!(std::fs::read(manager.path().join("inbox/big")).unwrap() == big);
    first.signal(Signal::TERM);
    manager.hear_until("STOPPING=1");
    let ended = first.finish(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.summary());
    // No server runs now. New connections wait in the sockets.
    let meanwhile = get("/small", "small");
    assert!(inhaul_hostile_tests::holds_for(Duration::from_millis(500), || meanwhile.is_running()));
    let second = manager.start(from.path());
    for (outcome, name) in [(meanwhile.finish(PATIENCE), "small"), (under_way.finish(PATIENCE), "big")] {
        assert_eq!(outcome.code, Some(0), "{name}: {} / {}", outcome.summary(), second.stderr());
        let same = std::fs::read(to.path().join(name)).unwrap() == std::fs::read(from.path().join(name)).unwrap();
        assert!(same, "{name}");
        figures(
            &format!("a service restarts, {name} under way"),
            &format!("complete after {:.1} s", outcome.took.as_secs_f64()),
        );
    }
    // As from a terminal: nothing of systemd's.
    let plain = Server::offer(from.path());
    assert_eq!(plain.get("/small", &to.path().join("plain"), PATIENCE).code, Some(0));
}

/// The program with these keys; servers give nothing to strangers.
fn with_state(state: &Scratch, words: &[&str]) -> Start {
    let start = inhaul(words).variable("INHAUL_STATE", state.path());
    ["PUBLIC", "PUBLIC_PUTS", "PUBLIC_COPIES"]
        .iter()
        .fold(start, |start, name| start.variable(format!("INHAUL_SERVE_{name}"), "false"))
}

/// A server that admits clients only by tokens and keys, and its keys.
fn closed(from: &Path, more: &[&str]) -> (Server, Scratch) {
    let state = Scratch::new();
    let words = [&["serve", "-v", "--listen", "127.0.0.1:0", "--grace", "0"], more].concat();
    (with_state(&state, &words).arg(from).serve(), state)
}

/// The ticket of an address with a token for this.
fn ticket(state: &Scratch, words: &[&str]) -> String {
    let made = with_state(state, &[&["token", "make", "--until", "1h"], words].concat()).finish(PATIENCE);
    assert_eq!(made.code, Some(0), "{}", made.summary());
    made.stdout.trim().split_once('#').unwrap().1.to_owned()
}

/// Waits until the transfer has data, has its right ended by `end`, and gives how it ends, and how soon.
fn ended_by(transfer: Running, has_data: &Path, end: impl FnOnce()) -> (inhaul_hostile_tests::Outcome, Duration) {
    assert!(wait_for(PATIENCE, || has_data.exists()), "{}", transfer.stderr());
    let began = Instant::now();
    end();
    let outcome = transfer.finish(PATIENCE);
    (outcome, began.elapsed())
}

#[test]
fn rights_that_end_end_the_sessions_that_they_have_opened() {
    let (from, to, own, inbox) = (Scratch::new(), Scratch::new(), Scratch::new(), Scratch::new());
    from.file("offered/big", &noise(20 << 20, 7));
    let (server, state) = closed(&from.path().join("offered"), &["--accept-puts", inbox.path().to_str().unwrap()]);
    let get = |name: &str, ticket: &str| {
        let source = format!("{}{ticket}", server.source("/big"));
        let get = with_state(&own, &["get", "-q", "--accept-new", "--retry-for", "60s", "--rate", "10M", &source]);
        get.arg(to.path().join(name)).start()
    };
    let mut told = Vec::new();
    let mut check = |what: &str, (outcome, after): (inhaul_hostile_tests::Outcome, Duration), words: &str| {
        assert_eq!(outcome.code, Some(NO_RIGHT), "{what}: {}", outcome.summary());
        assert!(outcome.stderr.contains(words), "{what}: {}", outcome.stderr);
        assert!(after < Duration::from_secs(6), "{what}: {after:?}");
        told.push(format!("{what} {:.1} s", after.as_secs_f64()));
    };
    // A revoked token, and a valid one.
    let revoked = ticket(&state, &["--read", "/", "--label", "gone"]);
    let stays = ticket(&state, &["--read", "/"]);
    let other = get("other", &format!("#{stays}"));
    let list = with_state(&state, &["token", "list"]).finish(PATIENCE);
    let name = list.stdout.lines().find(|line| line.contains("gone")).and_then(|line| line.split_whitespace().next());
    let revoke = || {
        let revoked = with_state(&state, &["token", "revoke", name.unwrap()]).finish(PATIENCE);
        assert_eq!(revoked.code, Some(0), "{}", revoked.summary());
    };
    let ended = ended_by(get("token", &format!("#{revoked}")), &to.path().join("token.partial"), revoke);
    check("a get whose token is revoked", ended, "revoked");
    // A key that is taken out.
    let keys = with_state(&own, &["key", "make"]).finish(PATIENCE);
    let key = keys.stdout.lines().find_map(|line| line.strip_prefix("client ")).unwrap();
    let authorized = state.path().join("authorized_keys");
    std::fs::write(&authorized, format!("{key} read=/ write=/\n")).unwrap();
    let take_out = || std::fs::write(&authorized, "").unwrap();
    let ended = ended_by(get("key", ""), &to.path().join("key.partial"), take_out);
    check("a get whose key is taken out", ended, "does not know this client");
    // The same for a put.
    std::fs::write(&authorized, format!("{key} write=/\n")).unwrap();
    let put = with_state(&own, &["put", "-q", "--accept-new", "--retry-for", "60s", "--send-rate", "10M"]);
    let put = put.arg(from.path().join("offered/big")).arg(server.source("/put")).start();
    let ended = ended_by(put, &inbox.path().join("put.partial"), take_out);
    check("a put whose key is taken out", ended, "does not know this client");
    // A token that ends meanwhile.
    let short = with_state(&state, &["token", "make", "--read", "/", "--until", "2s"]).finish(PATIENCE);
    let short = short.stdout.trim().split_once('#').unwrap().1.to_owned();
    let ended = ended_by(get("short", &format!("#{short}")), &to.path().join("short.partial"), || {});
    check("a get whose token ends", ended, "has ended");
    assert!(other.is_running(), "others go on: {}", other.stderr());
    let log = std::fs::read_to_string(state.path().join("audit.log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("\"event\":\"ended\"")).count(), 4, "{log}");
    let moved = log.lines().filter(|line| line.contains("\"event\":\"moved\""));
    assert!(moved.clone().count() >= 4 && moved.clone().all(|line| line.contains("\"right\"")), "{log}");
    figures("rights end while sessions are open", &format!("exit 18: {}", told.join(", ")));
}

#[test]
fn one_client_has_no_more_sessions_than_it_may() {
    let (from, to) = (Scratch::new(), Scratch::new());
    from.file("big", &noise(20 << 20, 8));
    let config = Scratch::new();
    let file = config.path().join("config.toml");
    let (state, words) = (Scratch::new(), ["serve", "-v", "--listen", "127.0.0.1:0", "--grace", "0"]);
    std::fs::write(&file, "[serve]\nmax-sessions-per-client = 1\n").unwrap();
    let server = with_state(&state, &words).variable("INHAUL_CONFIG", &file).arg(from.path()).serve();
    let ticket = ticket(&state, &["--read", "/"]);
    let get = |name: &str| {
        let source = format!("{}#{ticket}", server.source("/big"));
        inhaul(["get", "-q", "--rate", "5M", &source]).arg(to.path().join(name)).start()
    };
    let first = get("first");
    assert!(wait_for(PATIENCE, || to.path().join("first.partial").exists()), "{}", first.stderr());
    let refused = get("second").finish(PATIENCE);
    assert_eq!(refused.code, Some(7), "{}", refused.summary());
    let says = ["--max-sessions-per-client", "ask the server's user"].iter().all(|text| refused.stderr.contains(text));
    assert!(says, "{}", refused.stderr);
    // The limit is read again.
    std::fs::write(&file, "[serve]\nmax-sessions-per-client = 2\n").unwrap();
    server.running.signal(Signal::HUP);
    assert!(wait_for(PATIENCE, || server.running.stderr().contains("opened anew")));
    let second = get("second");
    assert!(wait_for(PATIENCE, || to.path().join("second.partial").exists()), "{}", second.stderr());
    assert!(first.is_running() && second.is_running());
}

/// Where the server says that its metrics are.
fn metrics_of(server: &Server) -> SocketAddr {
    let said = || server.running.stderr().split_once("metrics are at http://").map(|(_, rest)| rest.to_owned());
    assert!(wait_for(PATIENCE, || said().is_some_and(|rest| rest.contains("/metrics"))));
    said().unwrap().split_once('/').unwrap().0.parse().unwrap()
}

/// The server's answer to this request, if it answers.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = tcp.write_all(request);
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The answer to a request whose client is not hung up on, because others have all the places just now.
fn answer_of(address: SocketAddr, request: &[u8]) -> String {
    let mut answer = String::new();
    wait_for(PATIENCE, || {
        answer = ask(address, request);
        !answer.is_empty()
    });
    answer
}

/// The value of a sample.
fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.unwrap_or_else(|| panic!("{name} is missing: {text}")).rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn metrics_count_what_happens_and_hostile_readers_hold_nothing_up() {
    let (from, to) = (Scratch::new(), Scratch::new());
    from.file("f", &noise(3 << 20, 9));
    let server = Server::offer_with(from.path(), &["-v", "--metrics", "127.0.0.1:0"]);
    let address = metrics_of(&server);
    let scrape = || ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(server.get("/f", &to.path().join("f"), PATIENCE).code, Some(0));
    assert_eq!(server.get("/missing", &to.path().join("g"), PATIENCE).code, Some(3));
    let counted = |text: &str| {
        sample(text, "inhaul_fetches_total{outcome=\"done\"}") >= 1.0
            && sample(text, "inhaul_sent_datagrams_total") > 100.0
    };
    assert!(wait_for(PATIENCE, || counted(&scrape())), "{}", scrape());
    let text = scrape();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(sample(&text, "inhaul_sent_bytes_total") >= f64::from(3 << 20), "{text}");
    assert!(sample(&text, "inhaul_refusals_total{cause=\"path\"}") >= 1.0, "{text}");
    assert!(sample(&text, "inhaul_sessions_total") >= 2.0, "{text}");
    assert!(sample(&text, "inhaul_audit_lines_total{state=\"written\"}") >= 3.0, "{text}");
    // Silent clients, a client that never ends its request, and a client with another request.
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let endless = ask(address, &[b'x'; 100_000]);
    let began = Instant::now();
    assert!(wait_for(PATIENCE, || scrape().starts_with("HTTP/1.1 200")));
    let after = began.elapsed();
    assert!(after < Duration::from_secs(5), "{after:?}");
    assert!(!endless.starts_with("HTTP/1.1 200"));
    let long = || ask(address, &[b'x'; 9000]);
    assert!(wait_for(PATIENCE, || long().starts_with("HTTP/1.1 431")), "{}", long());
    assert!(answer_of(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let head = answer_of(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    let plain = answer_of(address, b"GET /metrics HTTP/1.1\r\nAccept: text/plain\r\n\r\n");
    assert!(plain.contains("version=0.0.4") && !plain.contains("# EOF"), "{plain}");
    assert!(answer_of(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(server.readings().threads < 40, "{}", server.readings().threads);
    drop(silent);
    figures(
        "20 silent readers of the metrics, and endless requests",
        &format!("the numbers come after {:.1} s", after.as_secs_f64()),
    );
}
