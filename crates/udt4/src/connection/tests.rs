//! Two ends against each other over a network that loses, reorders and repeats; and one end against any peer.

use std::collections::BTreeMap;

use inhaul_base::RandomStream;
use proptest::prelude::*;

use super::*;
use crate::handshake::{Agreement, Listener, Terms};
use crate::wire::{
    Ack, Capacity, Control, Data, Handshake, HandshakeKind, LossRange, MessageNumber, Position, SocketId, Stamp,
};

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn id(n: u32) -> SocketId {
    SocketId::new(n).unwrap()
}

/// Both ends of a connection whose first number is `initial`.
fn pair(kind: Kind, initial: u64, options: &Options) -> [Connection; 2] {
    let terms = Terms::new(kind, options.mss, options.receive_buffer as u32);
    let request = Handshake {
        version: 4,
        kind: Some(kind),
        initial_sequence: Sequence::truncate(initial),
        mss: options.mss,
        window: terms.window,
        step: HandshakeKind::Agreement,
        socket: id(1),
        cookie: 0,
        peer: [0; 4],
    };
    let [near, far] = ["192.0.2.1:1", "192.0.2.2:2"].map(|text| text.parse().unwrap());
    let server = Listener::new(terms, 1).agree(&request, near, id(2));
    let client = Agreement { local: id(1), remote: id(2), peer: far, ..server };
    [client, server].map(|agreement| Connection::new(agreement, options, at(0)))
}

fn options() -> Options {
    Options { send_buffer: 64, receive_buffer: 64, ..Options::default() }
}

/// A network: packets come later, maybe never, maybe twice, maybe out of order.
struct Network {
    random: RandomStream,
    loss: f64,
    /// What arrives when, and at which end; the count keeps packets of one time apart.
    flying: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    count: u64,
    now: Time,
}

impl Network {
    fn new(seed: u64, loss: f64) -> Self {
        Self { random: RandomStream::new(seed, 0), loss, flying: BTreeMap::new(), count: 0, now: at(0) }
    }

    fn carry(&mut self, to: usize, packet: &[u8]) {
        for _ in 0..1 + u32::from(self.random.unit() < self.loss) {
            if self.random.unit() >= self.loss {
                let delay = 1000 + if self.random.unit() < self.loss { self.random.below(3000) } else { 0 };
                self.count += 1;
                self.flying.insert((self.now + Span::from_micros(delay), self.count), (to, packet.to_vec()));
            }
        }
    }

    /// Lets both ends work until there is something for the applications, or nothing happens any more.
    fn step(&mut self, ends: &mut [Connection; 2]) {
        for (end, to) in [(0, 1), (1, 0)] {
            let mut packet = Vec::new();
            for _ in 0..100_000 {
                packet.clear();
                if !ends[end].poll_transmit(self.now, &mut packet) {
                    break;
                }
                self.carry(to, &packet);
            }
            assert!(packet.is_empty(), "it sends for ever");
        }
        let timers = ends.iter().map(Connection::deadline).min().unwrap_or(Time::FAR_FUTURE);
        let arrival = self.flying.first_key_value().map_or(Time::FAR_FUTURE, |((at, _), _)| *at);
        // Time goes on even if an end wants its turn at once.
        self.now = timers.min(arrival).max(self.now + Span::from_micros(1));
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, packet) = entry.remove();
            ends[to].handle(&Packet::parse(&packet).unwrap(), self.now);
        }
    }
}

/// Sends `data` one way and returns the received data, and when it came.
fn transfer(data: &[u8], initial: u64, seed: u64, loss: f64) -> (Vec<u8>, Time) {
    let mut ends = pair(Kind::Stream, initial, &options());
    let mut network = Network::new(seed, loss);
    let (mut sent, mut got, mut piece) = (0, Vec::new(), [0; 5000]);
    while ends[1].end().is_none() && network.now < at(300_000_000) {
        if sent < data.len() {
            sent += ends[0].write(&data[sent..]).unwrap();
        } else {
            ends[0].close(network.now, Span::from_secs(100));
        }
        network.step(&mut ends);
        loop {
            let count = ends[1].read(&mut piece);
            if count == 0 {
                break;
            }
            got.extend_from_slice(&piece[..count]);
        }
        if got.len() == data.len() && loss > 0.0 && ends[0].is_drained() {
            break;
        }
    }
    (got, network.now)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 31 / 7) as u8).collect()
}

#[test]
fn a_stream_comes_whole_and_its_end_too() {
    let data = bytes(1_000_000);
    let (got, ended) = transfer(&data, 16, 1, 0.0);
    assert!(got == data && ended < at(3_000_000), "{} bytes at {ended}", got.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_stream_comes_whole_over_any_network(seed: u64, loss in 0.0..0.1, initial in 0u64..1 << 31) {
        let data = bytes(200_000);
        prop_assert!(transfer(&data, initial, seed, loss).0 == data);
    }

    #[test]
    fn numbers_wrap(before in 0u64..200) {
        let data = bytes(400_000);
        prop_assert!(transfer(&data, (1 << 31) - 1 - before, 1, 0.01).0 == data);
    }

    #[test]
    fn ordered_messages_come_each_once_and_in_order(seed: u64, loss in 0.0..0.1) {
        let mut ends = pair(Kind::Message, 0, &options());
        let mut network = Network::new(seed, loss);
        let (mut sent, mut got) = (0u32, 0u32);
        while got < 100 && network.now < at(100_000_000) {
            let message = vec![sent as u8; 1 + sent as usize * 100];
            if sent < 100 && ends[0].send_message(&message, None, true, network.now).unwrap() {
                sent += 1;
            }
            network.step(&mut ends);
            while let Some(message) = ends[1].take_message() {
                prop_assert_eq!(&message, &vec![got as u8; 1 + got as usize * 100]);
                got += 1;
            }
        }
        prop_assert_eq!(got, 100);
    }

    #[test]
    fn messages_that_took_too_long_hold_nothing_up(seed: u64, loss in 0.01..0.2) {
        let mut ends = pair(Kind::Message, 0, &options());
        let mut network = Network::new(seed, loss);
        let (mut sent, mut got) = (0u32, Vec::new());
        while (sent < 200 || !ends[0].is_drained()) && network.now < at(100_000_000) {
            let lifetime = Some(Span::from_millis(20)).filter(|_| sent < 199);
            let message = [sent.to_be_bytes(); 1000].concat();
            if sent < 200 && ends[0].send_message(&message, lifetime, true, network.now).unwrap() {
                sent += 1;
            }
            network.step(&mut ends);
            while let Some(message) = ends[1].take_message() {
                prop_assert_eq!(message.len(), 4000);
                got.push(u32::from_be_bytes(*message.first_chunk().unwrap()));
            }
        }
        prop_assert!(got.is_sorted() && got.last() == Some(&199), "{:?}", got);
    }
}

#[test]
fn a_reader_that_waits_stops_the_writer_and_loses_nothing() {
    let mut ends = pair(Kind::Stream, 0, &options());
    let mut network = Network::new(1, 0.0);
    let data = bytes(500_000);
    let (mut sent, mut got, mut piece) = (0, Vec::new(), [0; 5000]);
    while network.now < at(30_000_000) {
        sent += ends[0].write(&data[sent..]).unwrap();
        network.step(&mut ends);
    }
    assert!(sent <= 2 * 64 * 1456, "{sent} bytes fit two buffers");
    while got.len() < data.len() && network.now < at(100_000_000) {
        sent += ends[0].write(&data[sent..]).unwrap();
        network.step(&mut ends);
        let count = ends[1].read(&mut piece);
        got.extend_from_slice(&piece[..count]);
    }
    assert!(got == data, "{} bytes at {}", got.len(), network.now);
}

#[test]
fn idle_ends_stay_connected_and_a_silent_peer_does_not() {
    let mut ends = pair(Kind::Stream, 0, &options());
    let mut network = Network::new(1, 0.0);
    while network.now < at(300_000_000) {
        network.step(&mut ends);
    }
    assert_eq!((ends[0].end(), ends[1].end()), (None, None));
    let [mut left, _] = ends;
    let mut out = Vec::new();
    for second in 300..400 {
        while left.poll_transmit(at(second * 1_000_000), &mut out) {}
    }
    assert_eq!(left.end(), Some(End::Broken(options().peer_timeout)));
    assert!(left.is_over() && left.deadline() == Time::FAR_FUTURE);
    assert_eq!(left.write(b"x"), Err(End::Broken(options().peer_timeout)));
}

#[derive(Clone, Debug)]
enum Attack {
    /// A packet of random fields, the numbers near those in use.
    Data(u32, u32, bool, bool, bool, usize),
    Ack(u32, u32, u32, u32),
    LightAck(u32),
    Nak(Vec<(u32, u32)>),
    Drop(u32, u32, u32),
    Ack2(u32),
    Other(u8),
    Write(usize),
    Wait(u64),
}

fn attacks() -> impl Strategy<Value = Vec<Attack>> {
    // Near the first number, 0: a little before it, a little behind, or anywhere.
    let number = || prop_oneof![4 => 0u32..200, 1 => (1u32 << 31) - 100..1 << 31, 1 => 0u32..1 << 31];
    let ranges = prop::collection::vec((number(), number()), 1..20);
    let one = prop_oneof![
        4 => (number(), 0u32..5, any::<[bool; 3]>(), 1usize..1456)
            .prop_map(|(s, m, [a, b, c], len)| Attack::Data(s, m, a, b, c, len)),
        2 => (number(), 0u32..1 << 31, 0u32..1 << 31, 0u32..1 << 31).prop_map(|(n, r, w, c)| Attack::Ack(n, r, w, c)),
        1 => number().prop_map(Attack::LightAck),
        2 => ranges.prop_map(Attack::Nak),
        1 => (0u32..5, number(), number()).prop_map(|(m, a, b)| Attack::Drop(m, a, b)),
        1 => (0u32..10).prop_map(Attack::Ack2),
        1 => (0u8..5).prop_map(Attack::Other),
        2 => (1usize..5000).prop_map(Attack::Write),
        2 => (0u64..400_000).prop_map(Attack::Wait),
    ];
    prop::collection::vec(one, 0..150)
}

fn attack(connection: &mut Connection, attack: Attack, now: &mut Time) {
    let sequence = |n: u32| Sequence::truncate(u64::from(n));
    let range = |(first, last): (u32, u32)| LossRange { first: sequence(first), last: sequence(last) };
    let stamp = Stamp { timestamp: 0, destination: Some(id(1)) };
    let body = match attack {
        Attack::Data(n, message, first, last, ordered, len) => {
            let payload = vec![0; len];
            let (message, position) = (MessageNumber::truncate(message), Position { first, last });
            let data = Data { stamp, sequence: sequence(n), message, position, ordered, payload: &payload };
            return connection.handle(&Packet::Data(data), *now);
        }
        Attack::Write(len) => {
            let _ = match connection.kind() {
                Kind::Stream => connection.write(&vec![0; len]).map(drop),
                Kind::Message => {
                    connection.send_message(&vec![0; len], Some(Span::from_millis(50)), true, *now).map(drop)
                }
            };
            return;
        }
        Attack::Wait(micros) => return *now += Span::from_micros(micros),
        Attack::Ack(n, rtt, window, speed) => {
            let capacity = Some(Capacity { arrival: speed, link: speed });
            ControlBody::Ack(Ack { number: n, next: sequence(n), rtt, rtt_variance: rtt, window, capacity })
        }
        Attack::LightAck(n) => ControlBody::LightAck(sequence(n)),
        Attack::Nak(ranges) => ControlBody::Nak(ranges.into_iter().map(range).collect()),
        Attack::Drop(m, a, b) => ControlBody::Drop { message: MessageNumber::truncate(m), range: range((a, b)) },
        Attack::Ack2(n) => ControlBody::Ack2(n),
        Attack::Other(0) => ControlBody::PeerError(1),
        Attack::Other(1) => ControlBody::User { code: 1, info: 1, payload: &[1] },
        Attack::Other(2) => ControlBody::CongestionWarning,
        Attack::Other(3) => {
            let agreement = *connection.agreement();
            let request = Handshake { step: HandshakeKind::Request, socket: agreement.remote, ..agreement.handshake() };
            ControlBody::Handshake(request)
        }
        Attack::Other(_) => ControlBody::KeepAlive,
    };
    connection.handle(&Packet::Control(Control { stamp, body }), *now);
}

proptest! {
    /// For all packets: no panic, no endless work, no memory beyond the buffers; and the connection still ends.
    #[test]
    fn anything_may_come(attacks in attacks(), kind in prop::sample::select(vec![Kind::Stream, Kind::Message])) {
        let [mut connection, _] = pair(kind, 0, &options());
        let (mut now, mut out) = (at(1), Vec::new());
        for step in attacks {
            attack(&mut connection, step, &mut now);
            let mut packets = 0;
            out.clear();
            while connection.poll_transmit(now, &mut out) {
                packets += 1;
                prop_assert!(packets < 10_000, "it sends for ever");
            }
            prop_assert!(connection.controls.len() <= CONTROLS_MAX);
            prop_assert!(connection.send_buffer.room() <= 64 && connection.receive_buffer.room() <= 64);
            prop_assert!(connection.receive.memory_bytes() < 100_000 && connection.send.memory_bytes() < 100_000);
        }
        connection.close(now, Span::from_secs(1));
        for second in 0..120 {
            now += Span::from_secs(second / 60 + 1);
            while connection.poll_transmit(now, &mut out) {}
        }
        prop_assert!(connection.is_over());
    }
}

/// libudt reports one packet a second of its first packets.
#[test]
fn the_speed_of_the_first_packets_is_not_believed() {
    let [mut end, _] = pair(Kind::Stream, 0, &options());
    assert_eq!(end.write(&[0; 64 * 1456]), Ok(64 * 1456));
    let control = |body| Packet::Control(Control { stamp: Stamp { timestamp: 0, destination: Some(id(1)) }, body });
    end.handle(&control(ControlBody::KeepAlive), at(0));
    let work = |end: &mut Connection, times: std::ops::Range<u64>| {
        for micros in times {
            while end.poll_transmit(at(micros), &mut Vec::new()) {}
        }
        end.statistics()
    };
    assert_eq!(work(&mut end, 0..100).packets_sent, 16, "the first window");
    let capacity = Some(Capacity { arrival: 1, link: 1000 });
    let next = Sequence::truncate(3);
    let ack = Ack { number: 1, next, rtt: 10_000, rtt_variance: 5_000, window: 64, capacity };
    end.handle(&control(ControlBody::Ack(ack)), at(100));
    end.handle(&control(ControlBody::Nak(vec![LossRange { first: next, last: next }])), at(100));
    let after = work(&mut end, 100..100_000);
    assert!(after.packets_sent_again == 1 && after.packets_sent > 18, "{after:?}");
}
