//! Both sides of a handshake against each other, over a network that loses and repeats, and against strangers.

use std::net::SocketAddr;

use inhaul_base::{Span, Time};
use proptest::prelude::*;

use super::*;
use crate::wire::{Control, ControlBody, Handshake, HandshakeKind, Kind, Packet, Sequence, SocketId, Stamp};

const CLIENT: &str = "192.0.2.1:1000";
const SERVER: &str = "192.0.2.2:9000";

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn id(n: u32) -> SocketId {
    SocketId::new(n).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn stream(mss: u16, window: u32) -> Terms {
    Terms::new(Kind::Stream, mss, window)
}

fn client(terms: Terms) -> Connecting {
    let times = (at(0), Span::from_secs(3));
    Connecting::new(terms, id(77), Sequence::truncate(5000), address(SERVER), false, times)
}

fn said(control: &Control<'_>) -> Handshake {
    match control.body {
        ControlBody::Handshake(handshake) => handshake,
        _ => panic!("{control:?}"),
    }
}

fn packet(handshake: Handshake, destination: Option<SocketId>) -> Packet<'static> {
    let stamp = Stamp { timestamp: 0, destination };
    Packet::Control(Control { stamp, body: ControlBody::Handshake(handshake) })
}

#[test]
fn client_and_listener_agree_on_the_smaller_mss() {
    let listener = Listener::new(stream(1400, 100), 9);
    let mut client = client(stream(1500, 200));
    let request = said(&client.poll_transmit(at(0)).unwrap());
    assert_eq!((request.step, request.cookie), (HandshakeKind::Request, 0));
    assert_eq!(client.poll_transmit(at(249)), None);
    let Answer::Reply(challenge) = listener.handle(&request, address(CLIENT), at(0)) else { panic!() };
    assert_eq!(client.handle(&packet(challenge, Some(id(77))), at(10)), Progress::Waiting);
    let request = said(&client.poll_transmit(at(10)).unwrap());
    assert_eq!(listener.handle(&request, address(CLIENT), at(10)), Answer::Connect);
    let accepted = listener.agree(&request, address(CLIENT), id(5));
    let reply = packet(accepted.handshake(), Some(id(77)));
    let Progress::Connected(agreed) = client.handle(&reply, at(20)) else { panic!() };
    assert_eq!((agreed.mss, agreed.peer_window, agreed.window), (1400, 100, 200));
    assert_eq!((accepted.mss, accepted.peer_window, accepted.window), (1400, 200, 100));
    assert_eq!((agreed.remote, accepted.remote), (id(5), id(77)));
    assert_eq!((agreed.first_sent, agreed.first_expected), (accepted.first_expected, accepted.first_sent));
}

#[test]
fn packets_are_as_long_over_ipv6() {
    let six = address("[2001:db8::1]:1000");
    let listener = Listener::new(stream(1500, 100), 9);
    let mut client =
        Connecting::new(stream(1500, 100), id(77), Sequence::truncate(5000), six, false, (at(0), Span::from_secs(3)));
    let request = said(&client.poll_transmit(at(0)).unwrap());
    assert_eq!(request.mss, 1480);
    assert_eq!(listener.agree(&Handshake { mss: 1500, ..request }, six, id(5)).mss, 1480, "libudt says 1500");
    assert_eq!(listener.agree(&Handshake { mss: 700, ..request }, six, id(5)).mss, 700);
    let mapped = address("[::ffff:192.0.2.1]:1000");
    assert_eq!(listener.agree(&Handshake { mss: 1500, ..request }, mapped, id(5)).mss, 1500);
    assert_eq!(stream(92, 100).toward(six.ip()).mss, MSS_MIN);
}

#[test]
fn a_cookie_is_for_one_address_and_one_or_two_minutes() {
    let listener = Listener::new(stream(1500, 100), 9);
    let request = said(&client(stream(1500, 100)).poll_transmit(at(0)).unwrap());
    let Answer::Reply(challenge) = listener.handle(&request, address(CLIENT), at(59_000)) else { panic!() };
    let shown = Handshake { step: HandshakeKind::Agreement, ..challenge };
    assert_eq!(listener.handle(&shown, address(CLIENT), at(119_000)), Answer::Connect);
    assert_eq!(listener.handle(&shown, address(CLIENT), at(120_000)), Answer::Ignore, "it is too old");
    for stranger in ["192.0.2.1:1001", "192.0.2.3:1000", "[2001:db8::1]:1000"] {
        assert_eq!(listener.handle(&shown, address(stranger), at(60_000)), Answer::Ignore);
    }
    assert_eq!(Listener::new(stream(1500, 100), 8).handle(&shown, address(CLIENT), at(60_000)), Answer::Ignore);
}

#[test]
fn a_listener_rejects_what_it_does_not_offer() {
    let listener = Listener::new(stream(1500, 100), 9);
    let request = said(&client(Terms::new(Kind::Message, 1500, 100)).poll_transmit(at(0)).unwrap());
    let Answer::Reply(challenge) = listener.handle(&request, address(CLIENT), at(0)) else { panic!() };
    let shown = Handshake { step: HandshakeKind::Agreement, ..challenge };
    let Answer::Reply(rejection) = listener.handle(&shown, address(CLIENT), at(1)) else { panic!() };
    assert_eq!(rejection.step, HandshakeKind::Rejection);
    let mut client = client(Terms::new(Kind::Message, 1500, 100));
    assert_eq!(client.handle(&packet(rejection, Some(id(77))), at(1)), Progress::Failed(ConnectError::Rejected));
}

#[test]
fn a_client_ignores_answers_to_others_and_gives_up() {
    let mut client = client(stream(1500, 100));
    let request = said(&client.poll_transmit(at(0)).unwrap());
    let forged = [
        Handshake { initial_sequence: Sequence::truncate(1), ..request },
        Handshake { socket: id(1), ..request },
        Handshake { step: HandshakeKind::Agreement, socket: id(1), ..request },
        Handshake { step: HandshakeKind::Rejection, socket: id(1), ..request },
        Handshake { step: HandshakeKind::Confirmation, ..request },
    ];
    for handshake in forged {
        assert_eq!(client.handle(&packet(handshake, Some(id(77))), at(1)), Progress::Waiting, "{handshake:?}");
    }
    let mut requests = 0;
    while client.poll(client.deadline()) == Progress::Waiting {
        let now = client.deadline();
        requests += usize::from(client.poll_transmit(now).is_some());
    }
    assert_eq!(requests, 11, "each 250 ms for 3 s; the first left before");
    assert_eq!(client.poll(at(3000)), Progress::Failed(ConnectError::TimedOut));
}

proptest! {
    /// With any losses, and with either side first, both sides of a rendezvous are connected in the end.
    #[test]
    fn a_rendezvous_meets(losses in prop::collection::vec(any::<bool>(), 20), late in 0u64..2000) {
        let times = |now| (at(now), Span::from_secs(30));
        let mut sides = [
            Connecting::new(stream(1500, 10), id(1), Sequence::truncate(10), address(SERVER), true, times(0)),
            Connecting::new(stream(1400, 20), id(2), Sequence::truncate(20), address(CLIENT), true, times(late)),
        ];
        let mut agreed: [Option<Agreement>; 2] = [None, None];
        let mut losses = losses.into_iter();
        for now in (0..20_000).step_by(10).map(at) {
            for side in [0, 1] {
                let other = 1 - side;
                if agreed[side].is_some() || other == 1 && now < at(late) {
                    continue;
                }
                let Some(control) = sides[side].poll_transmit(now) else { continue };
                if losses.next().unwrap_or(false) {
                    continue;
                }
                let reply = match agreed[other] {
                    // A connected side answers all but confirmations.
                    Some(agreement) => Some(agreement.handshake()),
                    None => {
                        if let Progress::Connected(agreement) = sides[other].handle(&Packet::Control(control), now) {
                            agreed[other] = Some(agreement);
                        }
                        agreed[other].map(|agreement| agreement.handshake())
                    }
                };
                let reply = reply.filter(|_| !losses.next().unwrap_or(false));
                if let Some(reply) = reply
                    && let Progress::Connected(agreement) = sides[side].handle(&packet(reply, Some(id(1))), now)
                {
                    agreed[side] = Some(agreement);
                }
            }
        }
        let [Some(one), Some(two)] = agreed else { panic!("{agreed:?}") };
        prop_assert_eq!((one.first_sent, one.first_expected), (two.first_expected, two.first_sent));
        prop_assert_eq!((one.mss, two.mss, one.peer_window, two.peer_window), (1400, 1400, 20, 10));
    }
}
