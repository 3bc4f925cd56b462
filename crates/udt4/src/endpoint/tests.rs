//! Attacks of strangers on a port, and the blocking calls between two ports of this host.

use std::net::SocketAddr;

use inhaul_base::{Span, Time};
use proptest::prelude::*;

use super::batch::Batch;
use super::state::State;
use super::*;
use crate::connection::End;
use crate::handshake::ConnectError;
use crate::wire::{
    Control, ControlBody, Data, Handshake, HandshakeKind, Kind, MessageNumber, Packet, Position, Sequence, SocketId,
    Stamp,
};

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn address(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

fn request(step: HandshakeKind, socket: u32, cookie: u32) -> Handshake {
    Handshake {
        version: 4,
        kind: Some(Kind::Stream),
        initial_sequence: Sequence::truncate(7),
        mss: 1500,
        window: 100,
        step,
        socket: SocketId::new(socket).unwrap(),
        cookie,
        peer: [0; 4],
    }
}

fn packet(handshake: Handshake) -> Vec<u8> {
    let stamp = Stamp { timestamp: 0, destination: None };
    let mut bytes = Vec::new();
    Packet::Control(Control { stamp, body: ControlBody::Handshake(handshake) }).emit(&mut bytes);
    bytes
}

/// The handshakes that the port sends now, and to whom.
fn replies(state: &mut State, now: Time) -> Vec<(SocketAddr, Handshake)> {
    let mut batch = Batch::default();
    state.poll_transmit(now, &mut batch);
    let handshake = |bytes: &[u8]| match Packet::parse(bytes).unwrap() {
        Packet::Control(Control { body: ControlBody::Handshake(handshake), .. }) => Some(handshake),
        _ => None,
    };
    batch.rest().filter_map(|(to, _, bytes)| Some((to, handshake(bytes)?))).collect()
}

fn listening(options: Options, backlog: usize) -> State {
    let mut state = State::new(options, 1);
    state.listen(backlog).unwrap();
    state
}

#[test]
fn nothing_is_kept_of_clients_that_have_shown_no_cookie() {
    let mut state = listening(Options::default(), 10);
    for port in 1..5000 {
        state.handle(address(port), &packet(request(HandshakeKind::Request, 5, 0)), at(1));
        state.handle(address(port), &packet(request(HandshakeKind::Agreement, 5, 0xdead)), at(1));
    }
    assert_eq!(state.connections(), 0);
    let all: Vec<_> = std::iter::from_fn(|| Some(replies(&mut state, at(1))).filter(|got| !got.is_empty())).collect();
    let all = all.concat();
    assert!(all.len() <= 64, "replies that wait are bounded");
    assert!(all.iter().all(|(_, handshake)| handshake.step == HandshakeKind::Request && handshake.cookie != 0));
}

#[test]
fn one_request_makes_one_connection_however_often_it_comes() {
    let mut state = listening(Options::default(), 10);
    state.handle(address(1), &packet(request(HandshakeKind::Request, 5, 0)), at(1));
    let cookie = replies(&mut state, at(1))[0].1.cookie;
    let shown = packet(request(HandshakeKind::Agreement, 5, cookie));
    let sockets: Vec<_> = (0..5)
        .flat_map(|_| {
            state.handle(address(1), &shown, at(2));
            replies(&mut state, at(2))
        })
        .map(|(to, handshake)| (to, handshake.step, handshake.socket))
        .collect();
    assert_eq!((sockets.len(), state.connections()), (5, 1));
    assert!(sockets.iter().all(|one| *one == sockets[0] && one.1 == HandshakeKind::Agreement));
    // Somebody else with that cookie gets nothing.
    state.handle(address(2), &shown, at(2));
    assert_eq!((replies(&mut state, at(2)), state.connections()), (vec![], 1));
}

#[test]
fn clients_beyond_the_limits_are_refused() {
    for (backlog, connections_max, expected) in [(3, 100, 3), (100, 4, 4)] {
        let mut state = listening(Options { connections_max, ..Options::default() }, backlog);
        let mut refused = 0;
        for port in 1..=20 {
            state.handle(address(port), &packet(request(HandshakeKind::Request, 5, 0)), at(1));
            let cookie = replies(&mut state, at(1))[0].1.cookie;
            state.handle(address(port), &packet(request(HandshakeKind::Agreement, 5, cookie)), at(1));
            refused += replies(&mut state, at(1)).iter().filter(|r| r.1.step == HandshakeKind::Rejection).count();
        }
        assert_eq!((state.connections(), refused), (expected, 20 - expected));
    }
}

/// Connects a client at `from`; returns its connection.
fn connect_from(state: &mut State, from: SocketAddr, now: Time) -> Option<SocketId> {
    let before = state.connections();
    state.handle(from, &packet(request(HandshakeKind::Request, 5, 0)), now);
    let cookie = replies(state, now)[0].1.cookie;
    state.handle(from, &packet(request(HandshakeKind::Agreement, 5, cookie)), now);
    let answer = replies(state, now)[0].1;
    (state.connections() > before).then_some(answer.socket)
}

#[test]
fn one_address_takes_its_share_and_leaves_the_rest() {
    let options = Options { connections_per_host: 3, ..Options::default() };
    let mut state = listening(options, 100);
    let mine: Vec<_> = (1..=20).filter_map(|port| connect_from(&mut state, address(port), at(1))).collect();
    assert_eq!((mine.len(), state.connections()), (3, 3));
    let other = SocketAddr::from(([192, 0, 2, 2], 1));
    assert!(connect_from(&mut state, other, at(1)).is_some(), "another address has its own share");
    // A connection may take again the room that it has given back.
    assert_eq!(state.accept().unwrap(), mine[0]);
    state.release(mine[0], at(2));
    let mut now = 2;
    while state.connections() == 4 {
        let mut batch = Batch::default();
        state.poll_transmit(at(now), &mut batch);
        now += 10;
        assert!(now < 1000);
    }
    assert!(connect_from(&mut state, address(21), at(now)).is_some());
}

/// A packet of a client for the connection `id`.
fn to(id: SocketId, make: impl FnOnce(Stamp) -> Packet<'static>) -> Vec<u8> {
    let mut bytes = Vec::new();
    make(Stamp { timestamp: 0, destination: Some(id) }).emit(&mut bytes);
    bytes
}

fn data(id: SocketId) -> Vec<u8> {
    to(id, |stamp| {
        let (sequence, message) = (Sequence::truncate(7), MessageNumber::truncate(1));
        let position = Position { first: true, last: true };
        Packet::Data(Data { stamp, sequence, message, position, ordered: true, payload: b"name" })
    })
}

fn acknowledgement(id: SocketId) -> Vec<u8> {
    to(id, |stamp| Packet::Control(Control { stamp, body: ControlBody::Ack2(1) }))
}

#[test]
fn a_client_that_asks_for_nothing_is_not_handed_out_and_ends() {
    let patience = Span::from_secs(10);
    let mut state = listening(Options { request_timeout: Some(patience), ..Options::default() }, 100);
    let [silent, deaf, good] = [1, 2, 3].map(|port| connect_from(&mut state, address(port), at(1)).unwrap());
    state.handle(address(2), &data(deaf), at(2));
    state.handle(address(3), &acknowledgement(good), at(2));
    assert!(state.accept().is_err(), "none has asked and shown that it hears");
    state.handle(address(3), &data(good), at(3));
    assert_eq!(state.accept().unwrap(), good);
    assert!(state.accept().is_err());
    // The peers are told that the connections end, and then they are gone.
    for now in (4..12_000).step_by(20) {
        let mut batch = Batch::default();
        state.poll_transmit(at(now), &mut batch);
        let left = if at(now) < at(1) + patience { 3 } else { state.connections() };
        assert_eq!(state.connections(), left, "{now} ms");
        state.handle(address(3), &acknowledgement(good), at(now));
    }
    assert_eq!(state.connections(), 1);
    assert!(state.open(silent).is_err() && state.open(deaf).is_err() && state.open(good).is_ok());
}

#[test]
fn a_listener_that_ends_forgets_those_that_have_not_asked() {
    let options = Options { request_timeout: Some(Span::from_secs(10)), linger: Span::ZERO, ..Options::default() };
    let mut state = listening(options, 100);
    connect_from(&mut state, address(1), at(1)).unwrap();
    state.stop_listening(at(2));
    for now in (2..1000).step_by(20) {
        state.poll_transmit(at(now), &mut Batch::default());
    }
    assert_eq!((state.connections(), state.deadline()), (0, Time::FAR_FUTURE));
}

#[test]
fn little_waits_for_a_client_that_has_acknowledged_nothing() {
    let mut state = listening(Options::default(), 100);
    let id = connect_from(&mut state, address(1), at(1)).unwrap();
    let mut written = 0;
    while let Ok(count @ 1..) = state.open(id).unwrap().write(&[7; 1 << 20]) {
        written += count;
    }
    assert!((16 * 1456..=64 * 1472).contains(&written), "{written}");
}

#[test]
fn all_connections_together_take_so_much_memory_and_each_goes_on() {
    let memory_max = 1 << 20;
    let options = Options { memory_max, connections_per_host: 100, ..Options::default() };
    let mut state = listening(options, 100);
    let ids: Vec<_> = (1..=50).map(|port| connect_from(&mut state, address(port), at(1)).unwrap()).collect();
    let each = 16 * 2000;
    for &id in &ids {
        let mut written = 0;
        while let Ok(count @ 1..) = state.open(id).unwrap().write(&[7; 1 << 16]) {
            written += count;
            state.reschedule(id, at(2));
        }
        assert!(written >= 16 * 1456, "{written}");
        assert!(state.memory() <= memory_max + ids.len() * each, "{}", state.memory());
    }
    for id in ids {
        state.release(id, at(3));
    }
    // No peer acknowledges: waiting packets are dropped with the connections.
    for now in (3..50_000).step_by(100) {
        state.poll_transmit(at(now), &mut Batch::default());
    }
    assert_eq!((state.connections(), state.memory()), (0, 0));
}

proptest! {
    #[test]
    fn anything_may_come_to_a_port(datagrams in prop::collection::vec((any::<u16>(), any::<Vec<u8>>(), 0u8..9), 0..50)) {
        let mut state = listening(Options::default(), 10);
        let id = state.connect(address(9), true, at(0)).unwrap();
        for (port, mut bytes, kind) in datagrams {
            if let [first, second, ..] = bytes.as_mut_slice() {
                (*first, *second) = (0x80, kind);
            }
            if let Some(destination) = bytes.get_mut(12..16) {
                destination.copy_from_slice(&(if port % 3 == 0 { 0 } else { id.get() }).to_be_bytes());
            }
            state.handle(address(port % 20), &bytes, at(1));
            let _ = replies(&mut state, at(1));
            prop_assert_eq!(state.connections(), 1);
        }
    }
}

// --- Two ports of this host -----------------------------------------------------------------------------------------

fn endpoint(options: Options) -> Endpoint {
    Endpoint::bind("127.0.0.1:0".parse().unwrap(), options).unwrap()
}

fn connected(options: Options) -> (Socket, Socket) {
    let (near, far) = (endpoint(options), endpoint(options));
    let incoming = far.listen(1).unwrap();
    let client = near.connect(far.local_address()).unwrap();
    (client, incoming.accept().unwrap())
}

#[test]
fn a_server_that_waits_for_requests_serves_those_that_ask() {
    let options = Options { request_timeout: Some(Span::from_secs(10)), receive_buffer: 16, ..Options::default() };
    let (near, far) = (endpoint(Options::default()), endpoint(options));
    let incoming = far.listen(1).unwrap();
    let _silent = near.connect(far.local_address()).unwrap();
    let client = near.connect(far.local_address()).unwrap();
    client.write_all(b"name").unwrap();
    let server = incoming.accept().unwrap();
    let mut name = [0; 4];
    server.read_exact(&mut name).unwrap();
    server.write_all(&[7; 300_000]).unwrap();
    let mut got = vec![0; 300_000];
    client.read_exact(&mut got).unwrap();
    assert!(&name == b"name" && got == [7; 300_000]);
    assert_eq!(far.connections(), 2);
}

#[test]
fn a_port_of_a_host_with_several_addresses_answers_from_the_one_that_was_asked() {
    let far = Endpoint::bind("[::]:0".parse().unwrap(), Options::default()).unwrap();
    let incoming = far.listen(1).unwrap();
    let asked = SocketAddr::from(([127, 0, 0, 2], far.local_address().port()));
    // The client ignores packets from other addresses.
    let client = endpoint(Options { connect_timeout: Span::from_secs(10), ..Options::default() });
    let client = client.connect(asked).unwrap();
    let server = incoming.accept().unwrap();
    server.write_all(b"answer").unwrap();
    let mut got = [0; 6];
    client.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"answer");
}

#[test]
fn answers_leave_from_the_address_that_each_client_asked() {
    let mut state = State::new(Options::default(), 1);
    state.listen(4).unwrap();
    let request = packet(request(HandshakeKind::Request, 5, 0));
    for last in [1, 2] {
        state.come_to(Some([192, 0, 2, last].into()));
        state.handle(address(last.into()), &request, at(1));
    }
    let mut batch = Batch::default();
    state.poll_transmit(at(1), &mut batch);
    let left: Vec<_> = batch.rest().map(|(to, from, _)| (to, from)).collect();
    assert_eq!(left, [1u8, 2].map(|last| (address(last.into()), Some([192, 0, 2, last].into()))));
}

#[test]
fn a_closed_socket_delivers_and_then_ends() {
    let (client, server) = connected(Options::default());
    client.write_all(&[7; 100_000]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| client.close().unwrap());
        let mut got = vec![0; 100_000];
        server.read_exact(&mut got).unwrap();
        assert!(got == [7; 100_000]);
        assert_eq!(server.read(&mut got).unwrap(), 0);
        assert!(matches!(server.write(b"x"), Err(UdtError::Ended(End::ByPeer))));
    });
}

#[test]
fn a_dropped_socket_delivers_too() {
    let (client, server) = connected(Options::default());
    client.write_all(&[7; 1_000_000]).unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 1_000_000];
        server.read_exact(&mut got).map(|()| got == [7; 1_000_000])
    });
    drop(client);
    assert!(reader.join().unwrap().unwrap());
}

#[test]
fn messages_come_with_their_boundaries() {
    let (client, server) = connected(Options { kind: Kind::Message, ..Options::default() });
    for len in [1usize, 1456, 1457, 100_000] {
        client.send_message(&vec![len as u8; len], MessageOptions::default()).unwrap();
        assert_eq!(server.receive_message().unwrap().unwrap(), vec![len as u8; len]);
    }
    let too_long = vec![0; 8192 * 1456 + 1];
    let error = client.send_message(&too_long, MessageOptions::default()).unwrap_err();
    assert!(matches!(error, UdtError::MessageTooLong { .. }));
    assert!(matches!(client.send_message(b"", MessageOptions::default()), Err(UdtError::EmptyMessage)));
    assert!(matches!(client.write(b"x"), Err(UdtError::Kind(_))));
    drop(client);
    assert!(server.receive_message().unwrap().is_none());
}

#[test]
fn calls_end_at_their_time_outs() {
    let small = Options { send_buffer: 64, receive_buffer: 64, linger: Span::from_millis(10), ..Options::default() };
    let (client, _server) = connected(small);
    client.set_read_timeout(Some(Span::from_millis(20)));
    assert!(matches!(client.read(&mut [0; 9]), Err(UdtError::TimedOut)));
    client.set_write_timeout(Some(Span::from_millis(20)));
    // The receiver does not read: two buffers fill up.
    let error = std::iter::repeat_with(|| client.write(&[0; 100_000])).find_map(Result::err);
    assert!(matches!(error, Some(UdtError::TimedOut)));
}

#[test]
fn an_absent_server_is_reported() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = Options { connect_timeout: Span::from_millis(300), ..Options::default() };
    let error = endpoint(options).connect(silent.local_addr().unwrap()).unwrap_err();
    assert!(matches!(error, UdtError::Connect(ConnectError::TimedOut)), "{error}");
}

#[test]
fn both_sides_of_a_rendezvous_are_ours() {
    let (near, far) = (endpoint(Options::default()), endpoint(Options::default()));
    let (to_far, to_near) = (far.local_address(), near.local_address());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| far.rendezvous(to_near).unwrap());
        let one = near.rendezvous(to_far).unwrap();
        let other = other.join().unwrap();
        one.write_all(b"there").unwrap();
        other.write_all(b"back").unwrap();
        let (mut there, mut back) = ([0; 5], [0; 4]);
        other.read_exact(&mut there).unwrap();
        one.read_exact(&mut back).unwrap();
        assert_eq!((&there, &back), (b"there", b"back"));
    });
}
