//! A receiver under a hand that plays the sender.

use super::*;
use crate::tcp::wire::Timestamp;
use inhaul_base::Sequence;
use inhaul_transport::{FlowLimits, Role};
use std::net::SocketAddr;

const SIZE: u64 = 10 * 1_000;

fn sender() -> SocketAddr {
    "192.0.2.1:7".parse().unwrap()
}

/// A receiver whose path is open and which has asked for an object of ten segments of 1,000 bytes.
fn receiver() -> TcpReceiver {
    let options = Options { segment: Some(1_000), ..Options::default() };
    let mut receiver = TcpReceiver::new(&EndpointConfig::new(Role::Receiver, 1), LawName::Reno, options);
    let now = Time::ZERO;
    let object = ObjectId(1);
    receiver.command(now, Command::Fetch { object, size: SIZE, held: RangeSet::new() }).unwrap();
    let limits = FlowLimits::default();
    let join = JoinFlow { flow: FlowId(1), object, peer: Some(sender()), mtu: 1500, key: 9, limits };
    receiver.command(now, Command::Join(join)).unwrap();
    receiver.handle_control(now, FlowId(1), &Control::Accept { token: 5, mtu: 1500, size: SIZE }.emit());
    let echo = Datagram::Echo { key: 9, number: 1, len: 1472 }.emit();
    receiver.handle_datagrams(now, &[RxMessage::single(sender(), &echo)], &mut Vec::new());
    receiver
}

/// Segments `first` to `end` come in one message.
fn deliver(receiver: &mut TcpReceiver, first: u64, end: u64) -> Vec<ByteRange> {
    let heads: Vec<u8> = (first..end)
        .flat_map(|n| {
            let head = DataHeader {
                window_log: 14,
                key: 9,
                sequence: Sequence::new(n as u32),
                sent: Timestamp::default(),
                offset: n * 1_000,
            };
            Datagram::Data(head).emit().to_vec()
        })
        .collect();
    let datagram_len = HEADER_LEN + 1_000;
    let total_len = datagram_len * (end - first) as usize;
    let message = RxMessage { from: sender(), heads: &heads, head_stride: HEADER_LEN, datagram_len, total_len };
    let mut places = Vec::new();
    receiver.handle_datagrams(Time::ZERO, &[message], &mut places);
    places.iter().map(|place| place.range).collect()
}

#[test]
fn segments_that_came_together_with_old_ones_are_placed() {
    let mut r = receiver();
    assert_eq!(deliver(&mut r, 0, 3), [ByteRange::new(0, 3_000)]);
    // Out of order, and again; then all that is missing between what has come.
    assert_eq!(deliver(&mut r, 5, 7), [ByteRange::new(5_000, 7_000)]);
    assert!(deliver(&mut r, 5, 7).is_empty());
    assert_eq!(deliver(&mut r, 1, 10), [ByteRange::new(3_000, 5_000), ByteRange::new(7_000, 10_000)]);
    assert!(r.objects[&ObjectId(1)].complete);
}

#[test]
fn an_old_range_in_front_does_not_hide_a_new_one_behind() {
    let mut r = receiver();
    // As if the object had been asked for in two requests, and the first had been answered.
    let flow = r.flows.get_mut(&FlowId(1)).unwrap();
    flow.asked = asked::Asked::default();
    flow.asked.ask(1_000, &[ByteRange::new(0, 3_000)]);
    flow.asked.ask(1_000, &[ByteRange::new(3_000, SIZE)]);
    assert_eq!(deliver(&mut r, 0, 3), [ByteRange::new(0, 3_000)]);
    assert_eq!(deliver(&mut r, 1, 5), [ByteRange::new(3_000, 5_000)]);
}

#[test]
fn datagrams_of_others_are_ignored() {
    let mut r = receiver();
    let data = |key| {
        let head = DataHeader { window_log: 0, key, sequence: Sequence::new(0), sent: Timestamp::default(), offset: 0 };
        [&Datagram::Data(head).emit()[..], &[0; 1_000]].concat()
    };
    let mut places = Vec::new();
    r.handle_datagrams(Time::ZERO, &[RxMessage::single(sender(), &data(8))], &mut places);
    r.handle_datagrams(Time::ZERO, &[RxMessage::single("192.0.2.2:7".parse().unwrap(), &data(9))], &mut places);
    assert!(places.is_empty());
    r.handle_datagrams(Time::ZERO, &[RxMessage::single(sender(), &data(9))], &mut places);
    assert_eq!(places.len(), 1);
}

#[test]
fn one_segment_is_acknowledged_after_40_ms_and_two_at_once() {
    let mut r = receiver();
    r.waiting.clear();
    deliver(&mut r, 0, 1);
    assert!(r.waiting.is_empty());
    let due = Time::ZERO + Span::from_millis(40);
    assert!(r.poll_timeout().is_some_and(|(at, _)| at <= due));
    r.handle_timeout(due - Span::from_nanos(1));
    assert!(r.waiting.is_empty());
    r.handle_timeout(due);
    assert_eq!(r.waiting.len(), 1);
    deliver(&mut r, 1, 3);
    assert_eq!(r.waiting.len(), 2);
}
