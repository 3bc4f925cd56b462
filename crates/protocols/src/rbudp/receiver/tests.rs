//! A receiver against a scripted sender.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use inhaul_base::RangeSet;
use inhaul_transport::kit::wire::{Message, PathDatagram, Reader};
use inhaul_transport::{
    Command, ConnectionId, ENVELOPE_LEN, Endpoint, Envelope, Event, FlowLimits, JoinFlow, ObjectId, PathSpec, Role,
    RxMessage, TxBatch,
};

use super::*;

const FLOW: FlowId = FlowId(1);
const BLOCK: u64 = 1_448;
const SIZE: u64 = 10 * BLOCK;

/// The first of `count` packet numbers: none is used twice.
fn numbers(count: usize) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(count as u32, Ordering::Relaxed)
}

fn sender() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 7))
}

fn datagram(receiver: &mut impl Endpoint, now: Time, bytes: &[u8]) {
    let whole = Envelope { number: numbers(1), connection: ConnectionId(1) }.before(bytes);
    let message = RxMessage::single(sender(), &whole).of_flow(FLOW, ConnectionId(1));
    receiver.handle_datagrams(now, &[message], &mut Vec::new());
}

/// Opens the path of a receiver, which then asks for an object of ten blocks. The first round trip takes `rtt`.
fn open(receiver: &mut impl Endpoint, rtt: Span) {
    let (now, object) = (Time::ZERO, ObjectId(1));
    receiver.command(now, Command::Fetch { object, size: SIZE, held: RangeSet::new() }).unwrap();
    let (path, connection) = (PathSpec::clear(1500, sender().ip()), ConnectionId(1));
    let limits = FlowLimits::default();
    let join = JoinFlow { flow: FLOW, object, peer: Some(sender()), path, connection, probed: None, limits };
    receiver.command(now, Command::Join(join)).unwrap();
    let accept = Message::Accept { connection: ConnectionId(77), token: 5, mtu: 1500, size: SIZE, more: &[] };
    receiver.handle_control(now, FLOW, &accept.emit(VERSION));
    receiver.poll_transmit(now, &mut TxBatch::with_limit(8));
    datagram(receiver, now + rtt, &PathDatagram::Echo { number: 1, len: 1464, challenge: 7 }.emit());
}

/// A block comes alone. Returns how many bytes of it are new.
fn deliver(receiver: &mut impl Endpoint, now: Time, head: &[u8]) -> u64 {
    let whole = Envelope { number: numbers(1), connection: ConnectionId(1) }.before(head);
    let total_len = ENVELOPE_LEN + HEADER_LEN + BLOCK as usize;
    let message = RxMessage {
        head_stride: ENVELOPE_LEN + HEADER_LEN,
        datagram_len: total_len,
        total_len,
        ..RxMessage::single(sender(), &whole)
    };
    let mut places = Vec::new();
    receiver.handle_datagrams(now, &[message.of_flow(FLOW, ConnectionId(1))], &mut places);
    places.iter().map(|place| place.range.len()).sum()
}

/// The receiver's own messages, and whether the flow has failed.
fn said(receiver: &mut impl Endpoint) -> (Vec<OwnMessage>, bool) {
    let (mut messages, mut has_failed) = (Vec::new(), false);
    while let Some(event) = receiver.poll_event() {
        match event {
            Event::Control { message, .. } => {
                messages.extend(OwnMessage::parse(message[0], Reader(&message[1..])).ok());
            }
            Event::Failed { .. } => has_failed = true,
            _ => {}
        }
    }
    (messages, has_failed)
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn receiver() -> RbudpReceiver {
    let config = EndpointConfig::new(Role::Receiver, 1);
    let mut receiver = RbudpReceiver::new(Rbudp::new(&config, Some(Bitrate::from_mbps(100))));
    open(&mut receiver, Span::ZERO);
    assert_eq!(said(&mut receiver), (vec![], false), "Setup and Request are everybody's");
    receiver
}

fn blocks(receiver: &mut RbudpReceiver, now: Time, numbers: impl IntoIterator<Item = (u32, u64)>) {
    for (number, block) in numbers {
        deliver(receiver, now, &DataHeader { number, offset: block * BLOCK }.emit());
    }
}

fn done(receiver: &mut RbudpReceiver, now: Time, through: u32, next: u32) -> (Vec<OwnMessage>, bool) {
    receiver.handle_control(now, FLOW, &OwnMessage::Done { through, next }.emit());
    said(receiver)
}

fn missing(from: u64, to: u64) -> Section {
    Section::Run(ByteRange::new(from * BLOCK, to * BLOCK))
}

fn answer_of(sections: Vec<Section>) -> OwnMessage {
    OwnMessage::Missing { is_last: true, block: BLOCK as u16, sections }
}

#[test]
fn done_behind_the_last_packet_is_answered_at_once() {
    let mut receiver = receiver();
    blocks(&mut receiver, at(10), [0, 1, 3, 4, 9].map(|k| (k as u32, k)));
    let (messages, _) = done(&mut receiver, at(10), 1, 10);
    assert_eq!(messages, [answer_of(vec![missing(2, 3), missing(5, 9)])]);
    let stats = receiver.flow_stats(FLOW).unwrap();
    assert_eq!((stats.lost_packets, stats.retransmitted_bytes, stats.outstanding_bytes), (5, 5 * BLOCK, 5 * BLOCK));
    // Retransmissions have new numbers. When all has come, the answer to Done is empty.
    blocks(&mut receiver, at(20), [(10, 2), (11, 5), (12, 6), (13, 7), (14, 8)]);
    assert_eq!(done(&mut receiver, at(20), 1, 15).0, [answer_of(vec![])]);
}

#[test]
fn done_that_overtakes_data_waits_for_it() {
    let mut receiver = receiver();
    blocks(&mut receiver, at(10), (0..5).map(|k| (k as u32, k)));
    assert_eq!(done(&mut receiver, at(10), 1, 10).0, []);
    // Each packet that comes proves that more may: it is waited for 2 ms more.
    for (k, block) in (5..8).enumerate() {
        let now = at(11 + k as u64);
        receiver.handle_timeout(now);
        blocks(&mut receiver, now, [(block as u32, block)]);
    }
    assert_eq!(said(&mut receiver).0, []);
    let due = receiver.poll_timeout().unwrap();
    assert!(due > at(13) && due <= at(20), "{due:?}");
    receiver.handle_timeout(at(70));
    assert_eq!(said(&mut receiver).0, [answer_of(vec![missing(8, 10)])]);
}

#[test]
fn done_of_an_older_request_asks_for_nothing() {
    let mut receiver = receiver();
    blocks(&mut receiver, at(10), [(5, 5)]);
    assert_eq!(done(&mut receiver, at(10), 0, 6).0, [answer_of(vec![])]);
}

#[test]
fn done_cannot_be_said_twice_nor_claim_what_was_never_sent() {
    let mut receiver = receiver();
    assert_eq!(done(&mut receiver, at(10), 1, 7), (vec![], false));
    assert_eq!(done(&mut receiver, at(10), 1, 8), (vec![], true), "a Done before the answer");
    let mut receiver = self::receiver();
    let before = receiver.memory_bytes();
    assert_eq!(done(&mut receiver, at(10), u32::MAX, u32::MAX), (vec![], false));
    receiver.handle_timeout(at(100));
    assert_eq!(said(&mut receiver).0, [answer_of(vec![])]);
    assert!(receiver.memory_bytes() <= before + 1_000);
}

#[test]
fn an_answer_of_any_size_comes_in_pieces_of_bounded_length() {
    let sections: Vec<Section> = (0..10_000).map(|k| missing(2 * k, 2 * k + 1)).collect();
    let pieces = in_pieces(1_448, sections.clone());
    assert_eq!(pieces.len(), 4);
    let mut all = Vec::new();
    for (k, piece) in pieces.into_iter().enumerate() {
        assert!(piece.emit().len() <= PIECE_BYTES_MAX + 4);
        let OwnMessage::Missing { is_last, sections, .. } = piece else { panic!("no answer") };
        assert_eq!(is_last, k == 3);
        all.extend(sections);
    }
    assert_eq!(all, sections);
    assert_eq!(in_pieces(1_448, vec![]), [OwnMessage::Missing { is_last: true, block: 1_448, sections: vec![] }]);
}

/// A receiver's Hold for a pause reported `now`, in milliseconds: its start and its length.
fn holds(plus: bool, now: u64, start: u64, length: u64) -> Vec<(f64, f64)> {
    let config = EndpointConfig::new(Role::Receiver, 1);
    let make = if plus { Rbudp::plus } else { Rbudp::new };
    let mut receiver = RbudpReceiver::new(make(&config, Some(Bitrate::from_mbps(100))));
    open(&mut receiver, Span::from_millis(20));
    said(&mut receiver);
    let pause = Pause { start: at(start), length: Span::from_millis(length) };
    receiver.handle_host(at(now), HostSample { pause: Some(pause), ..HostSample::default() });
    receiver.handle_host(at(now), HostSample::default());
    let hold = |message| match message {
        OwnMessage::Hold { after, length } => (after.as_millis_f64(), length.as_millis_f64()),
        other => panic!("{other:?}"),
    };
    said(&mut receiver).0.into_iter().map(hold).collect()
}

#[test]
fn a_foreseen_pause_is_told_a_round_trip_earlier() {
    // rbudp-plus-2006 section 5: the sender sends for t - RTT/2 from when feedback left, which takes RTT/2 itself.
    assert_eq!(holds(true, 100, 200, 400), [(80.0, 400.0)]);
    assert_eq!(holds(false, 100, 200, 400), [], "plain RBUDP has no feedback");
    // Too late for its beginning.
    assert_eq!(holds(true, 100, 110, 400), [(0.0, 390.0)]);
    assert_eq!(holds(true, 100, 50, 400), [(0.0, 330.0)]);
}

#[test]
fn a_pause_that_is_over_too_short_or_far_away_is_not_told_and_a_long_one_is_cut() {
    assert_eq!(holds(true, 100, 50, 70), []);
    assert_eq!(holds(true, 100, 90, 30), [], "it ends as the message comes");
    assert_eq!(holds(true, 100, 30_000, 100), []);
    assert_eq!(holds(true, 100, 200, 3_600_000), [(80.0, 5_000.0)]);
}

#[test]
fn a_receiver_without_expected_data_sends_no_hold() {
    let config = EndpointConfig::new(Role::Receiver, 1);
    let mut receiver = RbudpReceiver::new(Rbudp::plus(&config, Some(Bitrate::from_mbps(100))));
    open(&mut receiver, Span::ZERO);
    blocks(&mut receiver, at(10), (0..10).map(|k| (k as u32, k)));
    said(&mut receiver);
    let pause = Some(Pause { start: at(20), length: Span::from_millis(100) });
    receiver.handle_host(at(10), HostSample { pause, ..HostSample::default() });
    assert_eq!(said(&mut receiver).0, []);
}
