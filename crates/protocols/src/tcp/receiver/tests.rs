//! A receiver against a scripted sender.

use super::*;
use crate::tcp::wire::Timestamp;
use inhaul_base::{RangeSet, Sequence};
use inhaul_transport::kit::wire::{Message, PathDatagram, Reader};
use inhaul_transport::{
    Command, ConnectionId, ENVELOPE_LEN, Endpoint, Envelope, Event, FlowLimits, JoinFlow, ObjectId, PathSpec, Role,
    RxMessage, TxBatch,
};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

const SIZE: u64 = 10 * 1_000;

/// The first of `count` packet numbers: none is used twice.
fn numbers(count: usize) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(count as u32, Ordering::Relaxed)
}

fn sender() -> SocketAddr {
    "192.0.2.1:7".parse().unwrap()
}

/// A flow's join; datagrams of flow `id` carry its number.
fn joining(id: u32, object: ObjectId, limits: FlowLimits) -> JoinFlow {
    let (path, connection) = (PathSpec::clear(1500, sender().ip()), ConnectionId(id));
    JoinFlow { flow: FlowId(id), object, peer: Some(sender()), path, connection, probed: None, limits }
}

fn accept(size: u64) -> Vec<u8> {
    Message::Accept { connection: ConnectionId(77), token: 5, mtu: 1500, size, more: &[] }.emit(VERSION)
}

/// A datagram of the sender comes for flow `id`.
fn datagram(receiver: &mut TcpReceiver, now: Time, id: u32, bytes: &[u8]) {
    let connection = ConnectionId(id);
    let whole = Envelope { number: numbers(1), connection }.before(bytes);
    let message = RxMessage::single(sender(), &whole).of_flow(FlowId(id), connection);
    receiver.handle_datagrams(now, &[message], &mut Vec::new());
}

/// A receiver whose path is open and which has asked for an object of ten segments of 1,000 bytes.
fn receiver() -> TcpReceiver {
    let options = Options { segment: Some(1_000), ..Options::default() };
    let mut receiver = TcpReceiver::new(Tcp::new(&EndpointConfig::new(Role::Receiver, 1), LawName::Reno, options));
    let now = Time::ZERO;
    let object = ObjectId(1);
    receiver.command(now, Command::Fetch { object, size: SIZE, held: RangeSet::new() }).unwrap();
    let limits = FlowLimits::default();
    receiver.command(now, Command::Join(joining(1, object, limits))).unwrap();
    receiver.handle_control(now, FlowId(1), &accept(SIZE));
    datagram(&mut receiver, now, 1, &PathDatagram::Echo { number: 1, len: 1464, challenge: 7 }.emit());
    receiver
}

/// Segments `first` to `end` come in one message.
fn deliver(receiver: &mut TcpReceiver, first: u64, end: u64) -> Vec<ByteRange> {
    let number = numbers((end - first) as usize);
    let heads: Vec<u8> = (first..end)
        .flat_map(|n| {
            let head = DataHeader {
                window_log: 14,
                sequence: Sequence::new(n as u32),
                sent: Timestamp::default(),
                offset: n * 1_000,
            };
            Envelope { number: number + (n - first) as u32, connection: ConnectionId(1) }.before(&head.emit())
        })
        .collect();
    let datagram_len = ENVELOPE_LEN + HEADER_LEN + 1_000;
    let total_len = datagram_len * (end - first) as usize;
    let head_stride = ENVELOPE_LEN + HEADER_LEN;
    let message = RxMessage { head_stride, datagram_len, total_len, ..RxMessage::single(sender(), &heads) };
    let message = message.of_flow(FlowId(1), ConnectionId(1));
    let mut places = Vec::new();
    receiver.handle_datagrams(Time::ZERO, &[message], &mut places);
    places.iter().map(|place| place.range).collect()
}

#[test]
fn segments_that_came_together_with_old_ones_are_placed() {
    let mut r = receiver();
    assert_eq!(deliver(&mut r, 0, 3), [ByteRange::new(0, 3_000)]);
    // Out of order, and duplicates; then all missing segments.
    assert_eq!(deliver(&mut r, 5, 7), [ByteRange::new(5_000, 7_000)]);
    assert!(deliver(&mut r, 5, 7).is_empty());
    assert_eq!(deliver(&mut r, 1, 10), [ByteRange::new(3_000, 5_000), ByteRange::new(7_000, 10_000)]);
    assert!(r.core_mut().is_complete(FlowId(1)));
}

#[test]
fn an_old_range_in_front_does_not_hide_a_new_one_behind() {
    let mut r = receiver();
    // As if the object had been asked for in two requests, and the first had been answered.
    let flow = r.core_mut().flows.get_mut(&FlowId(1)).unwrap();
    flow.outstanding = inhaul_transport::kit::Outstanding::default();
    flow.outstanding.ask(1_000, &[ByteRange::new(0, 3_000)]);
    flow.outstanding.ask(1_000, &[ByteRange::new(3_000, SIZE)]);
    assert_eq!(deliver(&mut r, 0, 3), [ByteRange::new(0, 3_000)]);
    assert_eq!(deliver(&mut r, 1, 5), [ByteRange::new(3_000, 5_000)]);
}

#[test]
fn datagrams_of_others_are_ignored() {
    let mut r = receiver();
    let data = |id| {
        let head = DataHeader { window_log: 0, sequence: Sequence::new(0), sent: Timestamp::default(), offset: 0 };
        Envelope { number: numbers(1), connection: ConnectionId(id) }.before(&[&head.emit()[..], &[0; 1_000]].concat())
    };
    let mut places = Vec::new();
    // Another's connection id, another's address, and a message that no port has sorted.
    let [other, own] = [data(8), data(1)];
    let of_flow = |from, bytes| RxMessage::single(from, bytes).of_flow(FlowId(1), ConnectionId(1));
    r.handle_datagrams(Time::ZERO, &[of_flow(sender(), &other)], &mut places);
    r.handle_datagrams(Time::ZERO, &[of_flow("192.0.2.2:7".parse().unwrap(), &own)], &mut places);
    r.handle_datagrams(Time::ZERO, &[RxMessage::single(sender(), &own)], &mut places);
    assert!(places.is_empty());
    r.handle_datagrams(Time::ZERO, &[of_flow(sender(), &own)], &mut places);
    assert_eq!(places.len(), 1);
}

/// How many datagrams wait to be sent; they are taken.
fn sent(receiver: &mut TcpReceiver) -> usize {
    let mut batch = TxBatch::with_limit(64);
    receiver.poll_transmit(Time::ZERO, &mut batch);
    batch.len()
}

#[test]
fn one_segment_is_acknowledged_after_40_ms_and_two_at_once() {
    let mut r = receiver();
    sent(&mut r);
    deliver(&mut r, 0, 1);
    assert_eq!(sent(&mut r), 0);
    let due = Time::ZERO + Span::from_millis(40);
    assert!(r.poll_timeout().is_some_and(|at| at <= due));
    r.handle_timeout(due - Span::from_nanos(1));
    assert_eq!(sent(&mut r), 0);
    r.handle_timeout(due);
    assert_eq!(sent(&mut r), 1);
    deliver(&mut r, 1, 3);
    assert_eq!(sent(&mut r), 1);
}

// --- C_r and
// R_app ------------------------------------------------------------------------------------------------------

/// Messages to senders since the last call: flow, and its new rate or `None` for "no limit". Of other messages, only
/// requests are shown, as a rate of zero.
fn told(receiver: &mut TcpReceiver) -> Vec<(u32, Option<u64>)> {
    let events = std::iter::from_fn(|| receiver.poll_event());
    let told = events.filter_map(|event| {
        let Event::Control { flow, message } = event else { return None };
        match Message::parse(VERSION, &message).unwrap() {
            Message::Own { kind, body } => match OwnMessage::parse(kind, Reader(body)).unwrap() {
                OwnMessage::Rate { rate } => Some((flow.0, rate.map(Bitrate::bps))),
                OwnMessage::Restart { .. } => None,
            },
            Message::Request { .. } => Some((flow.0, Some(0))),
            _ => None,
        }
    });
    told.collect()
}

/// Flow `id` joins at `now` for an object of its own, and its path opens with a round trip of 20 ms. Returns when that
/// was.
fn run(receiver: &mut TcpReceiver, now: Time, id: u32, application_rate: Option<Bitrate>) -> Time {
    let (flow, object, size) = (FlowId(id), ObjectId(id), 1 << 40);
    receiver.command(now, Command::Fetch { object, size, held: RangeSet::new() }).unwrap();
    let limits = FlowLimits { application_rate, link_rate: None };
    receiver.command(now, Command::Join(joining(id, object, limits))).unwrap();
    receiver.handle_control(now, flow, &accept(size));
    let now = now + Span::from_millis(20);
    datagram(receiver, now, id, &PathDatagram::Echo { number: 1, len: 1464, challenge: 7 }.emit());
    now
}

fn limited(mbps: Option<u64>) -> TcpReceiver {
    let host_rate = mbps.map(Bitrate::from_mbps);
    let config = EndpointConfig { host_rate, ..EndpointConfig::new(Role::Receiver, 1) };
    TcpReceiver::new(Tcp::new(&config, LawName::Reno, Options::default()))
}

const MBIT: u64 = 1_000_000;

#[test]
fn senders_without_a_limit_are_told_nothing_and_those_of_an_application_their_rate() {
    let mut r = limited(None);
    let now = run(&mut r, Time::ZERO, 1, None);
    assert_eq!(told(&mut r), [(1, Some(0))]);
    run(&mut r, now, 2, Some(Bitrate::from_mbps(7)));
    assert_eq!(told(&mut r), [(2, Some(7 * MBIT)), (2, Some(0))]);
}

#[test]
fn a_flow_that_joins_waits_until_the_others_have_slowed_down() {
    let mut r = limited(Some(90));
    let now = run(&mut r, Time::ZERO, 1, None);
    assert_eq!(told(&mut r), [(1, Some(90 * MBIT)), (1, Some(0))]);
    let now = run(&mut r, now, 2, None);
    assert_eq!(told(&mut r), [(1, Some(45 * MBIT))]);
    // A round trip of 20 ms that was measured once varies by 10 ms: its patience is 60 ms.
    r.handle_timeout(now + Span::from_millis(59));
    assert_eq!(told(&mut r), []);
    r.handle_timeout(now + Span::from_millis(60));
    assert_eq!(told(&mut r), [(2, Some(45 * MBIT)), (2, Some(0))]);
}

#[test]
fn what_a_flow_leaves_goes_to_the_others_when_it_is_silent() {
    let mut r = limited(Some(90));
    let now = run(&mut r, Time::ZERO, 1, None);
    let now = run(&mut r, now, 2, Some(Bitrate::from_mbps(30))) + Span::from_millis(60);
    r.handle_timeout(now);
    told(&mut r);
    r.command(now, Command::Disconnect { flow: FlowId(2) }).unwrap();
    assert_eq!(told(&mut r), []);
    r.handle_timeout(now + Span::from_millis(60));
    assert_eq!(told(&mut r), [(1, Some(90 * MBIT))]);
}

#[test]
fn a_limit_that_changes_is_told_at_once_and_one_that_is_lifted_too() {
    let mut r = limited(None);
    let now = run(&mut r, Time::ZERO, 1, None);
    run(&mut r, now, 2, Some(Bitrate::from_mbps(10)));
    told(&mut r);
    let limit = |r: &mut TcpReceiver, mbps: Option<u64>| {
        r.command(now, Command::LimitReceive(mbps.map(Bitrate::from_mbps))).unwrap();
        told(r)
    };
    assert_eq!(limit(&mut r, Some(90)), [(1, Some(80 * MBIT))]);
    assert_eq!(limit(&mut r, Some(12)), [(1, Some(6 * MBIT)), (2, Some(6 * MBIT))]);
    assert_eq!(limit(&mut r, Some(0)), [(1, Some(1)), (2, Some(1))], "zero would mean no limit");
    assert_eq!(limit(&mut r, None), [(1, None), (2, Some(10 * MBIT))]);
}
