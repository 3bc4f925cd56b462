//! `inhaul udt send` and `inhaul udt receive`: files over UDT 4, and how each failure ends.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use inhaul_udt4::{Endpoint, Incoming, Kind, Options, Socket};

use crate::common::{Outcome, Running, Signal, come_true, noise, run, start, start_and_hear, wait_until};

/// A directory to offer, and one to fetch to.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("offered/deep")).unwrap();
        fs::write(directory.path().join("offered/deep/data"), noise(5_000_001, 1)).unwrap();
        fs::write(directory.path().join("offered/empty"), "").unwrap();
        fs::create_dir(directory.path().join("here")).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        text(&self.path(name))
    }

    /// Files that have landed, partial ones too.
    fn landed(&self) -> usize {
        fs::read_dir(self.path("here")).unwrap().count()
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// `inhaul udt send`, and where it listens.
fn offer(path: &str, more: &[&str]) -> (Running, String) {
    let (server, line) = start_and_hear(&[&["udt", "send", path, "--listen", "127.0.0.1:0"], more].concat());
    let address = line.strip_prefix("Listening on UDP ").and_then(|rest| rest.split_once(". "));
    let address = address.unwrap_or_else(|| panic!("the server said: {line}")).0.to_owned();
    (server, address)
}

fn receive(address: &str, name: &str, to: &str, more: &[&str]) -> Outcome {
    run(&[&["udt", "receive", address, name, to], more].concat())
}

/// It ended with this code and these words.
fn failed(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
}

#[test]
fn a_file_goes_from_one_command_to_the_other() {
    let place = Place::new();
    let (server, address) = offer(&place.text("offered/deep/data"), &["--once"]);
    let outcome = receive(&address, "data", &place.text("here/data"), &["--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(fs::read(place.path("here/data")).unwrap() == noise(5_000_001, 1), "wrong bytes");
    let report = outcome.json();
    let got = (&report["status"], &report["bytes"], &report["peer"]);
    assert_eq!(got, (&"complete".into(), &5_000_001.into(), &address.as_str().into()), "{report}");
    assert!(report["packets_received"].as_u64().unwrap() >= 5_000_001 / 1456, "{report}");
    let server = server.finish();
    assert_eq!(server.code, Some(0), "{}", server.stderr);
    assert!(server.stderr.contains("5.0 MB in"), "{}", server.stderr);
    assert_eq!(place.landed(), 1, "nothing partial is left");
}

#[test]
fn a_server_answers_one_client_after_the_other_until_it_is_told_to_stop() {
    let place = Place::new();
    let (server, address) = offer(&place.text("offered"), &[]);
    let clients: Vec<_> = (0..3)
        .map(|n| start(&["udt", "receive", &address, "deep/data", &place.text(&format!("here/{n}")), "--quiet"]))
        .collect();
    for (n, client) in clients.into_iter().enumerate() {
        let outcome = client.finish();
        assert_eq!((outcome.code, &outcome.stderr[..]), (Some(0), ""));
        assert!(fs::read(place.path(&format!("here/{n}"))).unwrap() == noise(5_000_001, 1), "wrong bytes");
    }
    // Missing files, and files outside the offered directory, look alike; and nothing lands.
    for name in ["nothing", "../offered/empty", "/etc/passwd", "deep"] {
        failed(&receive(&address, name, &place.text("here/no"), &[]), 3, &format!("the server has no file '{name}'"));
    }
    assert_eq!(place.landed(), 3);
    let outcome = receive(&address, "empty", &place.text("here/empty"), &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(fs::read(place.path("here/empty")).unwrap(), b"");
    server.signal(Signal::INT);
    let server = server.finish();
    failed(&server, 0, "the client asked for '/etc/passwd', which is not offered");
}

#[test]
fn a_server_for_one_client_ends_with_its_code() {
    let place = Place::new();
    let (server, address) = offer(&place.text("offered"), &["--once"]);
    failed(&receive(&address, "nothing", &place.text("here/no"), &[]), 3, "the server has no file 'nothing'");
    failed(&server.finish(), 3, "the client asked for 'nothing', which is not offered");
}

#[test]
fn an_existing_file_is_replaced_when_it_is_said_so() {
    let place = Place::new();
    fs::write(place.path("here/data"), "old").unwrap();
    let (_server, address) = offer(&place.text("offered/deep"), &[]);
    let to = place.text("here/data");
    failed(&receive(&address, "data", &to, &[]), 9, "--overwrite replaces it");
    assert_eq!(fs::read(place.path("here/data")).unwrap(), b"old");
    let outcome = receive(&address, "data", &to, &["--overwrite"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(fs::read(place.path("here/data")).unwrap() == noise(5_000_001, 1), "wrong bytes");
    failed(&receive(&address, "data", &place.text("nowhere/data"), &[]), 9, "cannot be written");
}

#[test]
fn a_server_listens_on_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: there is no IPv6 here");
        return;
    }
    let place = Place::new();
    let (server, line) = start_and_hear(&["udt", "send", &place.text("offered/deep"), "--listen", "[::1]:0", "--once"]);
    let address = line.strip_prefix("Listening on UDP ").unwrap().split_once(". ").unwrap().0;
    let outcome = receive(address, "data", &place.text("here/data"), &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(fs::read(place.path("here/data")).unwrap() == noise(5_000_001, 1), "wrong bytes");
    assert_eq!(server.finish().code, Some(0));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let place = Place::new();
    let to = place.text("here/data");
    failed(&receive("127.0.0.1", "data", &to, &[]), 2, "write '127.0.0.1:9000'");
    failed(&receive("127.0.0.1:x", "data", &to, &[]), 2, "names no port");
    failed(&receive("no-such-host.invalid:9000", "data", &to, &[]), 4, "no-such-host.invalid");
    failed(&receive("127.0.0.1:9000", "data", &to, &["--mss", "91"]), 2, "--mss");
    failed(&receive("127.0.0.1:9000", "data", &to, &["--fast"]), 2, "--fast");
    failed(&run(&["udt", "send", &place.text("nothing"), "--listen", "127.0.0.1:0"]), 3, "cannot be read");
    failed(&run(&["udt", "send", &place.text("offered"), "--listen", "127.0.0.1"]), 2, "--listen");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    failed(&run(&["udt", "send", &place.text("offered"), "--listen", &address]), 5, &address);
    assert_eq!(place.landed(), 0);
}

#[test]
fn a_server_that_is_not_there_does_not_answer() {
    let place = Place::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    failed(&receive(&address, "data", &place.text("here/data"), &[]), 6, "no answer came in time");
    drop(silent);
    let outcome = receive(&address, "data", &place.text("here/data"), &["--json"]);
    assert_eq!((outcome.code, &outcome.json()["error"]["code"]), (Some(6), &"timed-out".into()));
    assert_eq!(place.landed(), 0);
}

/// A server that treats its one client as commanded.
fn server(kind: Kind, with: impl FnOnce(&Socket) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let options = Options { kind, ..Options::default() };
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let address = endpoint.local_address();
    let incoming: Incoming = endpoint.listen(1).unwrap();
    let patience = inhaul_base::Span::from_secs(10);
    let thread = std::thread::spawn(move || {
        if let Ok(socket) = incoming.accept_within(patience) {
            socket.set_read_timeout(Some(patience));
            with(&socket);
        }
    });
    (address, thread)
}

#[test]
fn a_server_that_ends_too_early_leaves_nothing() {
    let place = Place::new();
    let (address, thread) = server(Kind::Stream, |socket| {
        let mut request = [0; 4 + 4];
        socket.read_exact(&mut request).unwrap();
        assert_eq!(&request, b"\x04\0\0\0data");
        socket.write_all(&1_000_000u64.to_le_bytes()).unwrap();
        socket.write_all(&noise(300_000, 2)).unwrap();
        socket.flush().unwrap();
    });
    let outcome = receive(&address.to_string(), "data", &place.text("here/data"), &[]);
    failed(&outcome, 5, "the other side closed the connection");
    thread.join().unwrap();
    assert_eq!(place.landed(), 0);
}

#[test]
fn a_server_of_messages_refuses() {
    let place = Place::new();
    let (address, thread) = server(Kind::Message, |_| panic!("it is not to be accepted"));
    failed(&receive(&address.to_string(), "data", &place.text("here/data"), &[]), 7, "refused");
    drop(thread);
}

#[test]
fn a_transfer_that_is_interrupted_leaves_nothing() {
    let place = Place::new();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (address, thread) = server(Kind::Stream, move |socket| {
        socket.write_all(&1_000_000u64.to_le_bytes()).unwrap();
        // The client may have gone by then.
        let _ = socket.write_all(&noise(300_000, 2));
        let _ = wait.recv_timeout(Duration::from_secs(20));
    });
    let client = start(&["udt", "receive", &address.to_string(), "data", &place.text("here/data")]);
    wait_until("the transfer", || place.path("here/data.partial").exists());
    client.signal(Signal::INT);
    failed(&client.finish(), 130, "stopped");
    assert_eq!(place.landed(), 0);
    drop(go);
    thread.join().unwrap();
}

#[test]
fn a_client_that_asks_nonsense_or_nothing_stops_no_server() {
    let place = Place::new();
    let (mut server, address) = offer(&place.text("offered/deep"), &[]);
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
    let connect = || endpoint.connect(address.parse().unwrap()).unwrap();
    for request in [&[0; 4][..], &[0xff; 100], b"\x04\0\0\0da"] {
        let socket = connect();
        socket.write_all(request).unwrap();
        // The server may hang up first.
        let _ = socket.close();
    }
    drop(connect());
    let outcome = receive(&address, "data", &place.text("here/data"), &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(come_true(Duration::from_secs(5), || place.landed() == 1));
    server.kill();
}
