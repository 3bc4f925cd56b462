//! Our UDT 4 beside libudt: each role, each direction, streams and messages, over loopback and over a bad network.
//!
//! The other side is `udt4/peer.cc`, or an example program of libudt; both are built here. Without libudt or a compiler,
//! the tests say so and pass.
//!
//! - Here: streams and messages in each role, rendezvous, refusals.
//! - `examples`: libudt's `appserver`, `appclient`, `sendfile` and `recvfile`. `ipv6`: the roles over IPv6.
//! - `capture`: what tshark's dissector of UDT says of our packets. The relay writes the capture: no privilege is needed.
//! - `hostile`: somebody between a client of libudt and our listener who replays, truncates and forges.
//! - `long`: transfers over emulated paths that lose packets (the program `udt4_path`), and ten million hostile inputs.
//!   Both run here for a short time, or not at all; the commands for long runs are at the tests.
#![allow(clippy::disallowed_methods, reason = "real programs need real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

mod capture;
mod examples;
mod hostile;
mod ipv6;
mod long;
mod peer;
mod relay;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use inhaul_base::{RandomStream, Span};
use inhaul_udt4::{End, Endpoint, Incoming, Kind, MessageOptions, Options, Socket, UdtError};

use peer::{PATIENCE, Peer, program};
use relay::{Harm, Relay};

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn options(kind: Kind) -> Options {
    Options { kind, linger: Span::from_secs(15), ..Options::default() }
}

fn endpoint(kind: Kind) -> Endpoint {
    Endpoint::bind(local(0), options(kind)).unwrap()
}

/// No call takes longer than a test may.
fn patient(socket: &Socket) {
    let patience = Some(Span::from_secs(PATIENCE.as_secs()));
    socket.set_read_timeout(patience);
    socket.set_write_timeout(patience);
}

fn accept(incoming: &Incoming) -> Socket {
    let socket = incoming.accept_within(Span::from_secs(10)).unwrap();
    patient(&socket);
    socket
}

fn connect(endpoint: &Endpoint, port: u16) -> Socket {
    let socket = endpoint.connect(local(port)).unwrap();
    patient(&socket);
    socket
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut random = RandomStream::new(seed, 0);
    let words = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
    words.flatten().take(count).collect()
}

fn free_port() -> u16 {
    UdpSocket::bind(local(0)).unwrap().local_addr().unwrap().port()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn same(got: &[u8], expected: &[u8]) {
    assert_eq!(got.len(), expected.len());
    assert!(got == expected, "wrong bytes");
}

// --- Streams --------------------------------------------------------------------------------------------------------

#[test]
fn we_connect_and_both_sides_send() {
    let Some(program) = program() else { return };
    let peer = Peer::start(program, &["listen", "stream", "0", "0", "echo", "1000000"]);
    let socket = connect(&endpoint(Kind::Stream), peer.port());
    let data = bytes(1_000_000, 1);
    socket.write_all(&data).unwrap();
    let mut back = vec![0; data.len()];
    socket.read_exact(&mut back).unwrap();
    same(&back, &data);
    peer.finish();
    assert!(matches!(socket.read(&mut back), Ok(0)), "they closed");
    assert!(matches!(socket.write(b"x"), Err(UdtError::Ended(End::ByPeer))));
}

#[test]
fn they_connect_and_both_sides_send() {
    let Some(program) = program() else { return };
    let endpoint = endpoint(Kind::Stream);
    let incoming = endpoint.listen(10).unwrap();
    let port = endpoint.local_address().port().to_string();
    let peer = Peer::start(program, &["connect", "stream", "0", &port, "echo", "1000000"]);
    let socket = accept(&incoming);
    let data = bytes(1_000_000, 2);
    socket.write_all(&data).unwrap();
    let mut back = vec![0; data.len()];
    socket.read_exact(&mut back).unwrap();
    same(&back, &data);
    socket.close().unwrap();
    peer.finish();
}

/// libudt's side closes as soon as it has read everything. Its last acknowledgement may be lost, and is not repeated.
fn arrived(result: &Result<(), UdtError>) {
    assert!(matches!(result, Ok(()) | Err(UdtError::Ended(End::ByPeer))), "{result:?}");
}

/// We send or receive a file of `size` bytes, over a network or none.
fn large_file(they_connect: bool, we_send: bool, size: usize, harm: Option<(Harm, u64)>, variables: &[(&str, &str)]) {
    let Some(program) = program() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let data = bytes(size, 3);
    let length = size.to_string();
    let mut action = vec![text(&path), &length];
    if we_send {
        action.insert(0, "receive");
    } else {
        std::fs::write(&path, &data).unwrap();
        action.insert(0, "send");
    }
    let endpoint = endpoint(Kind::Stream);
    let own_port = endpoint.local_address().port();
    let relay = |port| harm.map(|(harm, seed)| Relay::to(port, harm, seed));
    let through = |relay: &Option<Relay>, port| relay.as_ref().map_or(port, Relay::port);
    let (socket, peer, _relay) = if they_connect {
        let incoming = endpoint.listen(10).unwrap();
        let relay = relay(own_port);
        let port = through(&relay, own_port).to_string();
        let peer = Peer::with(program, variables, &[&["connect", "stream", "0", &port], &action[..]].concat());
        (accept(&incoming), peer, relay)
    } else {
        let peer = Peer::with(program, variables, &[&["listen", "stream", "0", "0"], &action[..]].concat());
        let port = peer.port();
        let relay = relay(port);
        (connect(&endpoint, through(&relay, port)), peer, relay)
    };
    if we_send {
        socket.write_all(&data).unwrap();
        arrived(&socket.flush());
        println!("{:?}", socket.statistics().unwrap());
        arrived(&socket.close());
        peer.finish();
        same(&std::fs::read(&path).unwrap(), &data);
    } else {
        let mut got = vec![0; size];
        socket.read_exact(&mut got).unwrap();
        println!("{:?}", socket.statistics().unwrap());
        same(&got, &data);
        if harm.is_none() {
            // libudt says once that it closes. Over a bad network, that may be lost.
            assert_eq!(socket.read(&mut got).unwrap(), 0);
        }
        peer.finish();
    }
}

#[test]
fn a_large_file_goes_out_to_their_listener() {
    large_file(false, true, 50_000_000, None, &[]);
}

#[test]
fn a_large_file_comes_in_from_their_listener() {
    large_file(false, false, 50_000_000, None, &[]);
}

#[test]
fn a_large_file_goes_out_to_their_client() {
    large_file(true, true, 50_000_000, None, &[]);
}

#[test]
fn a_large_file_comes_in_from_their_client() {
    large_file(true, false, 50_000_000, None, &[]);
}

#[test]
fn a_smaller_mss_and_buffer_of_theirs_hold() {
    large_file(false, true, 3_000_000, None, &[("PEER_MSS", "700"), ("PEER_BUFFER", "64")]);
    large_file(true, false, 3_000_000, None, &[("PEER_MSS", "700"), ("PEER_BUFFER", "64")]);
}

const BAD: Harm = Harm { loss: 0.02, reordering: 0.02, late: Duration::from_millis(3), duplication: 0.01 };

#[test]
fn a_bad_network_changes_no_byte_that_we_send() {
    for seed in [1, 2] {
        large_file(false, true, 2_000_000, Some((BAD, seed)), &[]);
    }
}

#[test]
fn a_bad_network_changes_no_byte_that_we_receive() {
    for seed in [3, 4] {
        large_file(false, false, 2_000_000, Some((BAD, seed)), &[]);
    }
}

// --- Messages -------------------------------------------------------------------------------------------------------

fn message(number: usize, size: usize) -> Vec<u8> {
    let mut message = number.to_string().into_bytes();
    message.resize(size + number, b'.');
    message
}

fn collect(socket: &Socket) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| socket.receive_message().unwrap()).collect()
}

#[test]
fn messages_come_whole_and_in_order() {
    let Some(program) = program() else { return };
    let peer = Peer::start(program, &["listen", "message", "0", "0", "messages", "300", "4000", "-1", "1"]);
    let socket = connect(&endpoint(Kind::Message), peer.port());
    let expected: Vec<_> = (0..300).map(|number| message(number, 4000)).collect();
    assert!(collect(&socket) == expected);
    peer.finish();
}

#[test]
fn messages_go_whole_and_in_order() {
    let Some(program) = program() else { return };
    let endpoint = endpoint(Kind::Message);
    let incoming = endpoint.listen(10).unwrap();
    let port = endpoint.local_address().port().to_string();
    let peer = Peer::start(program, &["connect", "message", "0", &port, "collect"]);
    let socket = accept(&incoming);
    for number in 0..300 {
        socket.send_message(&message(number, 4000), MessageOptions::default()).unwrap();
    }
    socket.close().unwrap();
    let expected: Vec<_> = (0..300).map(|number| format!("message {number} {}", 4000 + number)).collect();
    assert_eq!(peer.finish(), expected);
}

#[test]
fn unordered_messages_come_each_once_over_a_bad_network() {
    let Some(program) = program() else { return };
    let peer = Peer::start(program, &["listen", "message", "0", "0", "messages", "300", "3000", "-1", "0"]);
    let relay = Relay::to(peer.port(), BAD, 5);
    let socket = connect(&endpoint(Kind::Message), relay.port());
    let mut got = collect(&socket);
    got.sort_by_key(Vec::len);
    assert!(got == (0..300).map(|number| message(number, 3000)).collect::<Vec<_>>());
    peer.finish();
}

/// The numbers of the messages that libudt got, each of the right length and in order.
fn numbers(lines: &[String], size: usize) -> Vec<usize> {
    let number = |line: &String| {
        let mut words = line.split(' ').skip(1).map(|word| word.parse::<usize>().unwrap());
        let (number, len) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(len, size + number, "{line}");
        number
    };
    lines.iter().map(number).collect()
}

#[test]
fn messages_that_take_too_long_are_given_up() {
    let Some(program) = program() else { return };
    let harm = Harm { loss: 0.05, reordering: 0.0, late: Duration::ZERO, duplication: 0.0 };
    let endpoint = endpoint(Kind::Message);
    let incoming = endpoint.listen(10).unwrap();
    let relay = Relay::to(endpoint.local_address().port(), harm, 6);
    let peer = Peer::start(program, &["connect", "message", "0", &relay.port().to_string(), "collect"]);
    let socket = accept(&incoming);
    let options = MessageOptions { lifetime: Some(Span::from_millis(400)), unordered: false };
    for number in 0..500 {
        socket.send_message(&message(number, 3000), options).unwrap();
    }
    // A client that waits for the earlier ones, with any delay.
    socket.send_message(&message(500, 3000), MessageOptions::default()).unwrap();
    socket.flush().unwrap();
    let dropped = socket.statistics().unwrap().messages_dropped;
    socket.close().unwrap();
    let got = numbers(&peer.finish(), 3000);
    println!("{dropped} of 500 messages were given up; {} came", got.len());
    assert!(got.is_sorted() && got.last() == Some(&500));
    assert!(dropped > 0 && got.len() < 501);
}

// --- Rendezvous, and refusals ---------------------------------------------------------------------------------------

#[test]
fn both_sides_connect() {
    let Some(program) = program() else { return };
    let endpoint = endpoint(Kind::Stream);
    let (own, theirs) = (endpoint.local_address().port().to_string(), free_port());
    let peer = Peer::start(program, &["rendezvous", "stream", &theirs.to_string(), &own, "echo", "100000"]);
    let socket = endpoint.rendezvous(local(theirs)).unwrap();
    patient(&socket);
    let data = bytes(100_000, 7);
    socket.write_all(&data).unwrap();
    let mut back = vec![0; data.len()];
    socket.read_exact(&mut back).unwrap();
    same(&back, &data);
    peer.finish();
}

#[test]
fn their_listener_refuses_the_other_kind() {
    let Some(program) = program() else { return };
    let peer = Peer::start(program, &["listen", "message", "0", "0", "collect"]);
    let error = endpoint(Kind::Stream).connect(local(peer.port())).unwrap_err();
    assert!(matches!(error, UdtError::Connect(inhaul_udt4::ConnectError::Rejected)), "{error}");
}

#[test]
fn many_connections_share_a_port() {
    let Some(program) = program() else { return };
    let endpoint = endpoint(Kind::Stream);
    let incoming = endpoint.listen(10).unwrap();
    let port = endpoint.local_address().port().to_string();
    let peers: Vec<_> =
        (0..5).map(|_| Peer::start(program, &["connect", "stream", "0", &port, "echo", "200000"])).collect();
    let sockets: Vec<_> = peers.iter().map(|_| accept(&incoming)).collect();
    std::thread::scope(|scope| {
        for (seed, socket) in (10..).zip(&sockets) {
            scope.spawn(move || {
                let data = bytes(200_000, seed);
                socket.write_all(&data).unwrap();
                let mut back = vec![0; data.len()];
                socket.read_exact(&mut back).unwrap();
                same(&back, &data);
            });
        }
    });
    for peer in peers {
        peer.finish();
    }
}
