//! Servers, connections and networks that are gone for a while: the same process continues from the received data.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{
    Namespace, Network, Outcome, Relay, Running, Scratch, Server, Signal, all, figures, holds_for, inhaul, noise,
    wait_for,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// The transferred data: more than a second of it at [`RATE`].
const BYTES: usize = 12 << 20;
const RATE: &str = "40Mbit/s";

/// A directory with a file `f`, and an empty one to land in.
struct Places {
    from: Scratch,
    to: Scratch,
    bytes: Vec<u8>,
}

impl Places {
    fn new() -> Self {
        let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(BYTES, 7));
        from.file("f", &bytes);
        Self { from, to, bytes }
    }

    fn serve(&self, listen: &str, prefix: &[&str], more: &[&str]) -> Server {
        let args = ["serve", "--listen", listen, "--grace", "0"].into_iter().chain(more.iter().copied());
        inhaul(args).arg(self.from.path()).by(prefix).serve()
    }

    /// A get that is under way: some of it is verified.
    fn get(&self, source: &str, prefix: &[&str]) -> Running {
        let args = ["get", "--json", "--rate", RATE, "--retry-for", "1h", source];
        let running = inhaul(args).arg(self.to.path().join("f")).by(prefix).start();
        is_under_way(self.to.path(), &running);
        running
    }

    /// The transfer has come to its end, in one go, with every byte as it is and hardly any fetched twice.
    fn has_come(&self, attempt: &str, outcome: &Outcome, since: Instant) {
        assert_eq!(outcome.code, Some(0), "{attempt}: {}", outcome.summary());
        assert!(std::fs::read(self.to.path().join("f")).unwrap() == self.bytes, "{attempt}");
        let report = outcome.json();
        assert_eq!(report["resumed_bytes"], 0, "{attempt}: it was not the same transfer");
        let brought: u64 = report["sources"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).sum();
        assert_eq!(brought, BYTES as u64, "{attempt}: {report}");
        figures(attempt, &format!("exit 0, {:.1} s after it, no byte twice", since.elapsed().as_secs_f64()));
    }
}

/// Waits until a transfer of `f` has begun to be written down.
fn is_under_way(to: &Path, running: &Running) {
    let journal = to.join("f.inhaul");
    let has_some = || std::fs::metadata(&journal).is_ok_and(|journal| journal.len() > 200);
    wait_for(PATIENCE, || has_some() || !running.is_running());
    assert!(has_some() && running.is_running(), "no transfer began: {}", running.stderr());
}

fn has_said(running: &Running, words: &str) {
    assert!(wait_for(PATIENCE, || running.stderr().contains(words)), "never said '{words}': {}", running.stderr());
}

/// A server at the same address again.
fn again(places: &Places, address: SocketAddr, more: &[&str]) -> Server {
    places.serve(&address.to_string(), &[], more)
}

#[test]
fn a_server_that_is_killed_and_started_again() {
    let places = Places::new();
    let mut server = places.serve("127.0.0.1:0", &[], &[]);
    let get = places.get(&server.source("/f"), &[]);
    server.running.kill();
    has_said(&get, "is lost");
    let since = Instant::now();
    let _server = again(&places, server.address, &[]);
    let outcome = get.finish(PATIENCE);
    assert!(outcome.stderr.contains("is back"), "{}", outcome.stderr);
    places.has_come("server killed and started again at the same port", &outcome, since);
}

#[test]
fn connections_that_are_reset() {
    let places = Places::new();
    let server = places.serve("127.0.0.1:0", &[], &[]);
    let relay = Relay::honest(server.address);
    let get = places.get(&relay.source("/f"), &[]);
    let since = Instant::now();
    relay.reset_tcp();
    let outcome = get.finish(PATIENCE);
    assert!(outcome.stderr.contains("is back"), "{}", outcome.stderr);
    places.has_come("TCP reset during a get", &outcome, since);
}

#[test]
fn either_side_stands_still() {
    for (who, is_server) in [("server", true), ("receiver", false)] {
        let places = Places::new();
        let server = places.serve("127.0.0.1:0", &[], &[]);
        let get = places.get(&server.source("/f"), &[]);
        let stretch = Duration::from_secs(if all() { 30 } else { 3 });
        let signal = |signal| if is_server { server.running.signal(signal) } else { get.signal(signal) };
        signal(Signal::STOP);
        assert!(holds_for(stretch, || get.is_running() && server.running.is_running()), "{}", get.stderr());
        signal(Signal::CONT);
        let since = Instant::now();
        let outcome = get.finish(PATIENCE);
        places.has_come(&format!("SIGSTOP of {} s at the {who}", stretch.as_secs()), &outcome, since);
    }
}

/// A server at 10.9.0.1 and a get in another namespace, under way.
fn over_a_wire(places: &Places, a: &Namespace, b: &Namespace) -> (Server, Running) {
    let server = places.serve("10.9.0.1:0", &a.prefix(), &[]);
    let get = places.get(&server.source("/f"), &b.prefix());
    (server, get)
}

#[test]
fn a_link_that_is_down_for_a_while() {
    let Some((_network, a, b)) = Network::pair() else { return };
    let stretches: &[u64] = if all() { &[7, 20, 60] } else { &[7] };
    for &seconds in stretches {
        for (side, namespace, device) in [("server", &a, "a0"), ("receiver", &b, "b0")] {
            let places = Places::new();
            let (_server, get) = over_a_wire(&places, &a, &b);
            namespace.ip(&["link", "set", device, "down"]);
            assert!(holds_for(Duration::from_secs(seconds), || get.is_running()), "it gave up: {}", get.stderr());
            namespace.ip(&["link", "set", device, "up"]);
            let since = Instant::now();
            let outcome = get.finish(PATIENCE);
            places.has_come(&format!("link down for {seconds} s at the {side}"), &outcome, since);
            if !all() {
                break;
            }
        }
    }
}

#[test]
fn a_receiver_whose_address_changes() {
    let Some((_network, a, b)) = Network::pair() else { return };
    let places = Places::new();
    let (_server, get) = over_a_wire(&places, &a, &b);
    b.ip(&["addr", "del", "10.9.0.2/24", "dev", "b0"]);
    b.ip(&["addr", "add", "10.9.0.3/24", "dev", "b0"]);
    let since = Instant::now();
    let outcome = get.finish(PATIENCE);
    places.has_come("the receiver's address changes", &outcome, since);
}

#[test]
fn a_server_that_comes_later() {
    let places = Places::new();
    let address = {
        let server = places.serve("127.0.0.1:0", &[], &[]);
        server.address
    };
    let source = format!("inhaul://{address}/f");
    let get = inhaul(["get", "--json-stream", "--retry-for", "1h", &source]).arg(places.to.path().join("f")).start();
    has_said(&get, "trying again, Ctrl-C ends it");
    assert!(wait_for(PATIENCE, || get.stdout().contains("\"waiting\":{\"servers\":[")), "{}", get.stdout());
    let since = Instant::now();
    let _server = again(&places, address, &[]);
    places.has_come("a get before its server is there", &get.finish(PATIENCE), since);
}

#[test]
fn an_end_to_all_patience() {
    let places = Places::new();
    let mut server = places.serve("127.0.0.1:0", &[], &[]);
    let source = server.source("/f");
    let args = ["get", "--quiet", "--rate", RATE, "--retry-for", "2s", &source];
    let get = inhaul(args).arg(places.to.path().join("f")).start();
    is_under_way(places.to.path(), &get);
    server.running.kill();
    let given_up = get.finish(PATIENCE);
    assert_eq!(given_up.code, Some(5), "{}", given_up.summary());
    assert!(given_up.stderr.contains("verified and kept"), "{}", given_up.stderr);

    let waiting = inhaul(["get", "--retry-for", "1h", &source]).arg(places.to.path().join("f")).start();
    has_said(&waiting, "trying again");
    waiting.signal(Signal::INT);
    let interrupted = waiting.finish(Duration::from_secs(10));
    assert_eq!(interrupted.code, Some(130), "{}", interrupted.summary());
    figures("--retry-for 2s, and Ctrl-C while it waits", "exit 5 with what is verified kept; exit 130");
}

#[test]
fn a_data_set_that_is_another_when_its_server_is_back() {
    let places = Places::new();
    let mut server = places.serve("127.0.0.1:0", &[], &[]);
    let get = places.get(&server.source("/f"), &[]);
    server.running.kill();
    places.from.file("f", &noise(BYTES / 2, 8));
    let server = again(&places, server.address, &[]);
    let outcome = get.finish(PATIENCE);
    assert_eq!(outcome.code, Some(10), "{}", outcome.summary());
    assert!(!places.to.path().join("f").exists());
    let outcome = inhaul(["get", "-q", &server.source("/f")]).arg(places.to.path().join("f")).finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(places.to.path().join("f")).unwrap() == noise(BYTES / 2, 8));
    figures("server started again with other data", "exit 10; the same command then fetches the new data");
}

/// The data of a put or a copy is there, even though it was ordered twice.
fn has_landed(attempt: &str, outcome: &Outcome, places: &Places, inbox: &Scratch) {
    assert_eq!(outcome.code, Some(0), "{attempt}: {}", outcome.summary());
    assert!(std::fs::read(inbox.path().join("f")).unwrap() == places.bytes, "{attempt}");
    // All attempts are one transfer; its senders are those of the last, which had not to bring all again.
    let report = outcome.json();
    let last: u64 = report["sources"].as_array().unwrap().iter().map(|source| source["bytes"].as_u64().unwrap()).sum();
    let all = report["fetched_bytes"].as_u64().unwrap();
    assert!(last < all && all == places.bytes.len() as u64, "{attempt}: it began anew: {report}");
    figures(attempt, &format!("exit 0, {} bytes were there already", all - last));
}

#[test]
fn a_put_goes_on_by_itself() {
    for (attempt, kill) in [("server of a put killed and started again", true), ("TCP reset during a put", false)] {
        let (places, inbox) = (Places::new(), Scratch::new());
        let accept = ["--accept-puts", inbox.path().to_str().unwrap()];
        let mut server = places.serve("127.0.0.1:0", &[], &accept);
        let relay = Relay::honest(server.address);
        let to = if kill { server.source("/") } else { relay.source("/") };
        let args = ["put", "--json", "--send-rate", RATE, "--retry-for", "1h"];
        let put = inhaul(args).arg(places.from.path().join("f")).arg(to).start();
        is_under_way(inbox.path(), &put);
        if kill {
            server.running.kill();
            has_said(&put, "trying again");
            server = again(&places, server.address, &accept);
        } else {
            relay.reset_tcp();
        }
        has_landed(attempt, &put.finish(PATIENCE), &places, &inbox);
        drop(server);
    }
}

#[test]
fn a_copy_goes_on_by_itself() {
    let (places, inbox, offered) = (Places::new(), Scratch::new(), Scratch::new());
    let mut source = places.serve("127.0.0.1:0", &[], &[]);
    let from = source.address.to_string();
    let accept = ["--accept-puts", inbox.path().to_str().unwrap(), "--accept-copies-from", &from];
    let server = Server::offer_with(offered.path(), &accept);
    let relay = Relay::honest(server.address);
    let args = ["copy", "--json", "--rate", RATE, "--retry-for", "1h", &source.source("/f"), &relay.source("/")];
    let copy = inhaul(args).start();
    is_under_way(inbox.path(), &copy);
    source.running.kill();
    has_said(&copy, "is lost");
    let _source = again(&places, source.address, &[]);
    has_said(&copy, "is back");
    relay.reset_tcp();
    has_landed("source of a copy killed and started again, then TCP reset", &copy.finish(PATIENCE), &places, &inbox);
}
