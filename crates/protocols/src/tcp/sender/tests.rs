//! A sender against scripted receivers, honest or not.

use super::*;
use crate::laws::LawName;
use crate::tcp::wire::{AckHeader, Blocks, Timestamp};
use inhaul_base::{Bitrate, ByteRange, Sequence, Span};
use inhaul_transport::kit::wire::{Message, PathDatagram};
use inhaul_transport::{Command, ConnectionId, Endpoint, Envelope, Event, OfferFlow, PathSpec, Role, RxMessage};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

const FLOW: FlowId = FlowId(1);
/// The connection ids of the receiver's and the sender's datagrams.
const OURS: ConnectionId = ConnectionId(8);
const THEIRS: ConnectionId = ConnectionId(9);
const TOKEN: u64 = 5;

fn peer(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// A sender of one object of this size, whose receiver has said Setup.
fn offering(size: u64, host_rate: Option<Bitrate>) -> TcpSender {
    let config = EndpointConfig { host_rate, ..EndpointConfig::new(Role::Sender, 1) };
    let mut sender = TcpSender::new(Tcp::new(&config, Options::default()), &config);
    let only_from = Some(peer(0).ip());
    let (path, connection, parameters) = (PathSpec::clear(1500, peer(0).ip()), OURS, Default::default());
    let offer =
        OfferFlow { flow: FLOW, size, peer: None, only_from, path, connection, token: TOKEN, client: None, parameters };
    sender.command(Time::ZERO, Command::Offer(offer)).unwrap();
    let more = [LawName::Reno.code()];
    control(
        &mut sender,
        Time::ZERO,
        &Message::Setup { connection: THEIRS, mtu: 1500, size, more: &more }.emit(VERSION),
    );
    sender
}

fn control(sender: &mut TcpSender, now: Time, message: &[u8]) {
    sender.handle_control(now, FLOW, message);
}

fn datagram(sender: &mut TcpSender, now: Time, from: SocketAddr, datagram: PathDatagram) {
    deliver(sender, now, from, &datagram.emit());
}

fn deliver(sender: &mut TcpSender, now: Time, from: SocketAddr, bytes: &[u8]) {
    // Packet numbers are unique: a repeated number means a copy.
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    let whole = Envelope { number: NUMBERS.fetch_add(1, Ordering::Relaxed), connection: OURS }.before(bytes);
    sender.handle_datagrams(now, &[RxMessage::single(from, &whole).of_flow(FLOW, OURS)], &mut Vec::new());
}

fn respond(sender: &mut TcpSender, now: Time, from: SocketAddr) {
    let challenge = sender.challenge(from);
    datagram(sender, now, from, PathDatagram::Response { token: TOKEN, challenge });
}

fn request(sender: &mut TcpSender, now: Time, id: u32, ranges: Vec<ByteRange>) {
    control(sender, now, &Message::Request { id, block: 1_000, ranges }.emit(VERSION));
}

/// What leaves now: to where, and how many bytes of UDP payload.
fn leaves(sender: &mut TcpSender, now: Time) -> Vec<(SocketAddr, usize)> {
    let mut batch = TxBatch::with_limit(264);
    sender.handle_timeout(now);
    sender.poll_transmit(now, &mut batch);
    let sum =
        |datagrams: &[inhaul_transport::TxDatagram]| datagrams.iter().map(inhaul_transport::TxDatagram::len).sum();
    batch.transmits().map(|transmit| (transmit.route.to, sum(transmit.datagrams))).collect()
}

#[test]
fn a_flow_has_the_parameters_that_it_was_offered_with() {
    let packets = |parameters: &[(&str, &str)]| {
        let mut sender = TcpSender::new(
            Tcp::new(&EndpointConfig::new(Role::Sender, 1), Options::default()),
            &EndpointConfig::new(Role::Sender, 1),
        );
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let offer = OfferFlow {
            flow: FLOW,
            size: 1 << 20,
            peer: None,
            only_from: None,
            path: PathSpec::clear(1500, peer(0).ip()),
            connection: OURS,
            token: TOKEN,
            client: None,
            parameters: parameters.into(),
        };
        sender.command(Time::ZERO, Command::Offer(offer)).unwrap();
        let more = [LawName::Reno.code()];
        control(
            &mut sender,
            Time::ZERO,
            &Message::Setup { connection: THEIRS, mtu: 1500, size: 1 << 20, more: &more }.emit(VERSION),
        );
        request(&mut sender, Time::ZERO, 1, vec![ByteRange::new(0, 1 << 20)]);
        respond(&mut sender, Time::ZERO, peer(7));
        leaves(&mut sender, Time::ZERO).iter().map(|(_, bytes)| bytes / 1_016).sum::<usize>()
    };
    assert_eq!(packets(&[]), 10, "the initial window");
    assert_eq!(packets(&[("initial-window", "3")]), 3);
    assert_eq!(packets(&[("window-max", "2"), ("unknown", "7")]), 2);
}

#[test]
fn data_goes_only_to_an_address_that_returned_its_challenge() {
    let (mut sender, now) = (offering(1 << 20, None), Time::ZERO);
    request(&mut sender, now, 1, vec![ByteRange::new(0, 1 << 20)]);
    let probe = PathDatagram::Probe { token: TOKEN, number: 1, reply_to: THEIRS };
    datagram(&mut sender, now, peer(7), probe);
    assert_eq!(leaves(&mut sender, now), [(peer(7), 24)], "an echo as long as the probe");
    let later = now + Span::from_secs(5);
    assert_eq!(leaves(&mut sender, later), []);
    // A challenge of another port does not open this one, and a guess does not either.
    for challenge in [0, sender.challenge(peer(7))] {
        datagram(&mut sender, later, peer(8), PathDatagram::Response { token: TOKEN, challenge });
    }
    respond(&mut sender, later, SocketAddr::from(([192, 0, 2, 2], 7)));
    assert_eq!(leaves(&mut sender, later), []);
    respond(&mut sender, later, peer(7));
    assert_eq!(leaves(&mut sender, later), [(peer(7), 10 * 1_016)], "the initial window");
    // A receiver that moved is followed once it has answered from there.
    datagram(&mut sender, later, peer(8), probe);
    assert_eq!(leaves(&mut sender, later), [(peer(8), 24)]);
    respond(&mut sender, later, peer(8));
    let timeout = later + Span::from_secs(1);
    assert_eq!(leaves(&mut sender, timeout), [(peer(8), 1_016)]);
}

#[test]
fn more_than_a_receiver_may_want_at_once_ends_the_flow() {
    for (size, range, requests) in
        [(u64::MAX, ByteRange::new(0, u64::MAX), 1), (1 << 40, ByteRange::new(0, 4 << 30), 3)]
    {
        let mut sender = offering(size, None);
        (1..=requests).for_each(|id| request(&mut sender, Time::ZERO, id, vec![range]));
        assert!(std::iter::from_fn(|| sender.poll_event()).any(|event| matches!(event, Event::Failed { .. })));
    }
}

/// Values at which sums and products go over.
fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63), Just(1 << 32), any::<u64>()]
}

proptest! {
    #[test]
    fn no_value_of_a_peer_breaks_the_sender(
        size in extreme(), limit in proptest::option::of(extreme()), len in prop_oneof![1..100_000u64, extreme()],
        steps in proptest::collection::vec((extreme(), extreme(), any::<u32>(), any::<u32>(), any::<bool>()), 1..12),
    ) {
        let mut sender = offering(size, limit.map(Bitrate::from_bps));
        let mut now = Time::ZERO;
        respond(&mut sender, now, peer(7));
        for (id, (rate, start, acknowledged, window, restart)) in (1..).zip(steps) {
            control(&mut sender, now, &OwnMessage::Rate { rate: Some(Bitrate::from_bps(rate.max(1))) }.emit());
            if start < size {
                request(&mut sender, now, id, vec![ByteRange::at(start, len.max(1).min(size - start))]);
            }
            leaves(&mut sender, now);
            now += Span::from_nanos(rate / 2);
            let (sequence, stamp) = (Sequence::new(acknowledged), Timestamp::new(window));
            let mut blocks = Blocks::default();
            blocks.push(sequence, Sequence::new(window));
            let ack = AckHeader { acknowledged: sequence, echo: stamp, window, sent: stamp, blocks };
            deliver(&mut sender, now, peer(7), &ack.emit());
            if restart {
                control(&mut sender, now, &OwnMessage::Restart { from: Sequence::new(window) }.emit());
            }
            leaves(&mut sender, now);
            let _ = (sender.poll_timeout(), sender.flow_stats(FLOW), sender.memory_bytes());
        }
    }
}
