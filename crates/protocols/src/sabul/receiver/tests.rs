//! A receiver against a scripted sender.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use inhaul_base::RangeSet;
use inhaul_transport::kit::wire::{Message, PathDatagram, Reader};
use inhaul_transport::{
    Command, ConnectionId, ENVELOPE_LEN, Endpoint, Envelope, Event, FlowLimits, JoinFlow, ObjectId, PathSpec, Role,
    RxMessage,
};

use super::*;

const FLOW: FlowId = FlowId(1);
const BLOCK: u64 = 1_440;
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

/// Opens the path of a receiver, which then asks for an object of ten blocks. The round trip takes no time.
fn open(receiver: &mut impl Endpoint) {
    let (now, object) = (Time::ZERO, ObjectId(1));
    receiver.command(now, Command::Fetch { object, size: SIZE, held: RangeSet::new() }).unwrap();
    let (path, connection) = (PathSpec::clear(1500, sender().ip()), ConnectionId(1));
    let limits = FlowLimits::default();
    let join = JoinFlow { flow: FLOW, object, peer: Some(sender()), path, connection, probed: None, limits };
    receiver.command(now, Command::Join(join)).unwrap();
    let accept = Message::Accept { connection: ConnectionId(77), token: 5, mtu: 1500, size: SIZE, more: &[] };
    receiver.handle_control(now, FLOW, &accept.emit(VERSION));
    datagram(receiver, now, &PathDatagram::Echo { number: 1, len: 1464, challenge: 7 }.emit());
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

fn receiver() -> SabulReceiver {
    let config = EndpointConfig::new(Role::Receiver, 1);
    let mut receiver = SabulReceiver::new(Sabul::new(&config, LawName::Sabul2));
    open(&mut receiver);
    said(&mut receiver);
    receiver
}

fn block(receiver: &mut SabulReceiver, now: Time, number: u64) -> Vec<OwnMessage> {
    deliver(receiver, now, &DataHeader { rate_kbps: 100_000, number, offset: (number % 10) * BLOCK }.emit());
    said(receiver).0
}

fn wait(receiver: &mut SabulReceiver, until: Time) -> Vec<OwnMessage> {
    let mut all = Vec::new();
    while let Some(due) = receiver.poll_timeout().filter(|due| *due <= until) {
        receiver.handle_timeout(due);
        all.extend(said(receiver).0);
    }
    all
}

#[test]
fn a_gap_is_reported_at_once_and_again_after_20_ms() {
    let mut receiver = receiver();
    assert_eq!(block(&mut receiver, at(1), 0), []);
    let err = OwnMessage::Err { ranges: vec![(1, 3)] };
    assert_eq!(block(&mut receiver, at(1), 4), std::slice::from_ref(&err));
    let again = wait(&mut receiver, at(22));
    assert_eq!(again, [OwnMessage::Syn { received: 2, lost: 3 }, err]);
    block(&mut receiver, at(22), 2);
    let rest = OwnMessage::Err { ranges: vec![(1, 1), (3, 1)] };
    assert!(wait(&mut receiver, at(42)).contains(&rest));
    let stats = receiver.flow_stats(FLOW).unwrap();
    assert_eq!((stats.lost_packets, stats.received_packets, stats.placed_bytes), (3, 3, 3 * BLOCK));
}

#[test]
fn an_acknowledgement_says_every_100_ms_what_has_come_without_a_gap() {
    let mut receiver = receiver();
    (0..3).for_each(|number| drop(block(&mut receiver, at(1), number)));
    block(&mut receiver, at(2), 4);
    let said = wait(&mut receiver, at(101));
    let acks: Vec<_> = said.iter().filter(|message| matches!(message, OwnMessage::Ack { .. })).collect();
    assert_eq!(acks, [&OwnMessage::Ack { before: 3 }]);
    // No report without news: no block came since.
    let more = wait(&mut receiver, at(400));
    assert!(more.iter().all(|message| matches!(message, OwnMessage::Err { .. })), "{more:?}");
}

#[test]
fn numbers_that_no_sender_may_use_change_nothing() {
    let mut receiver = receiver();
    let before = receiver.memory_bytes();
    for number in [WINDOW_PACKETS, WINDOW_PACKETS + 5, u64::MAX] {
        assert_eq!(block(&mut receiver, at(1), number), [], "{number}");
    }
    assert_eq!(receiver.flow_stats(FLOW).unwrap().received_packets, 0);
    // Every second packet opens a gap: there is an end to that.
    (0..WINDOW_PACKETS / 2).for_each(|k| drop(block(&mut receiver, at(1), 2 * k + 1)));
    let grown = receiver.memory_bytes() - before;
    assert!(grown < 2_000_000, "{grown}");
}
