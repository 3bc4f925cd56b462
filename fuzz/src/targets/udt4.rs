//! UDT 4's own wire: a packet, and a connection with arbitrary input.

use inhaul_base::{Span, Time};
use inhaul_udt4::connection::Connection;
use inhaul_udt4::handshake::Agreement;
use inhaul_udt4::wire::{
    Ack, Capacity, Control, ControlBody, Data, Handshake, HandshakeKind, LossRange, MessageNumber, Packet, Position,
    Sequence, SocketId, Stamp,
};
use inhaul_udt4::{Kind, Options};

/// Most packets of a script.
const PACKETS_MAX: usize = 200;

fn id(n: u32) -> SocketId {
    SocketId::new(n).unwrap_or_else(|| panic!("{n} is a socket id"))
}

/// A packet.
pub fn udt4_packet(data: &[u8]) -> bool {
    let Ok(packet) = Packet::parse(data) else { return false };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    assert_eq!(Packet::parse(&bytes), Ok(packet));
    true
}

/// A script: the kind of the connection, then packets. Before each are a byte for its length, and one for its delay.
/// Accepted if all of its packets are valid.
pub fn udt4_connection(data: &[u8]) -> bool {
    let Some((kind, mut rest)) = data.split_first() else { return false };
    let kind = if kind % 2 == 0 { Kind::Stream } else { Kind::Message };
    let options = Options { kind, send_buffer: 32, receive_buffer: 32, ..Options::default() };
    let first = Sequence::truncate(16);
    let mut connection = Connection::new(
        Agreement {
            kind,
            mss: 200,
            peer_window: 32,
            window: 32,
            first_sent: first,
            first_expected: first,
            local: id(1),
            remote: id(2),
            peer: ([192, 0, 2, 1], 9000).into(),
            rendezvous: false,
        },
        &options,
        Time::ZERO,
    );
    let (mut now, mut out, mut all) = (Time::ZERO, Vec::new(), true);
    // Something to acknowledge, to lose, and to give up.
    match kind {
        Kind::Stream => drop(connection.write(&[7; 3000])),
        Kind::Message => drop(connection.send_message(&[7; 3000], Some(Span::from_millis(20)), true, now)),
    }
    for _ in 0..PACKETS_MAX {
        let Some((&[len, later], behind)) = rest.split_first_chunk() else { break };
        let (packet, behind) = behind.split_at(behind.len().min(len.into()));
        rest = behind;
        now += Span::from_millis(later.into());
        match Packet::parse(packet) {
            Ok(packet) => connection.handle(&packet, now),
            Err(_) => all = false,
        }
        out.clear();
        let sent = (0..10_000).take_while(|_| connection.poll_transmit(now, &mut out)).count();
        assert!(sent < 10_000, "it sends for ever");
        let _ = (connection.take_message(), connection.read(&mut [0; 100]));
    }
    all
}

fn emitted(body: ControlBody<'_>) -> Vec<u8> {
    let stamp = Stamp { timestamp: 1000, destination: Some(id(1)) };
    let mut bytes = Vec::new();
    Packet::Control(Control { stamp, body }).emit(&mut bytes);
    bytes
}

pub(super) fn packets() -> Vec<Vec<u8>> {
    let sequence = Sequence::truncate;
    let range = |first, last| LossRange { first: sequence(first), last: sequence(last) };
    let message = MessageNumber::FIRST;
    let handshake = Handshake {
        version: 4,
        kind: Some(Kind::Stream),
        initial_sequence: sequence(16),
        mss: 1500,
        window: 8192,
        step: HandshakeKind::Request,
        socket: id(2),
        cookie: 0xdead_beef,
        peer: [1, 2, 3, 4],
    };
    let capacity = Some(Capacity { arrival: 80_000, link: 83_333 });
    let ack = Ack { number: 1, next: sequence(20), rtt: 10_000, rtt_variance: 5_000, window: 32, capacity };
    let mut data = Vec::new();
    let stamp = Stamp { timestamp: 1000, destination: Some(id(1)) };
    let position = Position { first: true, last: true };
    let (ordered, payload) = (true, &b"payload"[..]);
    Packet::Data(Data { stamp, sequence: sequence(17), message, position, ordered, payload }).emit(&mut data);
    let controls = [
        ControlBody::Handshake(handshake),
        ControlBody::KeepAlive,
        ControlBody::Ack(ack),
        ControlBody::Ack(Ack { capacity: None, ..ack }),
        ControlBody::LightAck(sequence(18)),
        ControlBody::Nak(vec![range(16, 16), range(18, 20)]),
        ControlBody::CongestionWarning,
        ControlBody::Ack2(1),
        ControlBody::Drop { message, range: range(16, 20) },
        ControlBody::PeerError(4000),
        ControlBody::User { code: 7, info: 1, payload: b"user" },
        ControlBody::Shutdown,
    ];
    std::iter::once(data).chain(controls.map(emitted)).collect()
}

pub(super) fn scripts() -> Vec<Vec<u8>> {
    let script = |kind: u8, packets: &[Vec<u8>]| {
        let steps = packets.iter().flat_map(|packet| [&[packet.len() as u8, 10][..], packet].concat());
        std::iter::once(kind).chain(steps).collect::<Vec<u8>>()
    };
    let all = packets();
    vec![script(0, &all), script(1, &all), script(1, &[&all[..], &all[..]].concat())]
}
