//! A path that was probed before its flow was there: data comes one round trip after the flow was accepted, and no
//! other probe leaves before. Every protocol is tried.

use std::net::SocketAddr;

use inhaul_base::{Span, Time};
use inhaul_contract_tests::protocols;
use inhaul_transport::kit::wire::PathDatagram;
use inhaul_transport::kit::{Challenges, early_probes, echo_early};
use inhaul_transport::{
    Command, ConnectionId, Endpoint, EndpointConfig, Envelope, Event, FlowId, FlowLimits, JoinFlow, ObjectId,
    OfferFlow, PathSpec, Role, RxMessage, TxBatch,
};

const FLOW: FlowId = FlowId(1);
const SIZE: u64 = 1 << 20;
const TOKEN: u64 = 0x1234_5678_9abc_def0;
const SECRET: u64 = 77;

fn receiver_at() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 1111))
}

fn sender_at() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 2222))
}

/// An endpoint's messages on its control stream.
fn said(endpoint: &mut dyn Endpoint) -> Vec<Vec<u8>> {
    let events = std::iter::from_fn(|| endpoint.poll_event());
    events.filter_map(|event| if let Event::Control { message, .. } = event { Some(message) } else { None }).collect()
}

/// The heads of an endpoint's datagrams, as on the wire, and how many bytes of data follow each.
fn sent(endpoint: &mut dyn Endpoint, now: Time) -> Vec<(Vec<u8>, u64)> {
    let mut batch = TxBatch::with_limit(64);
    endpoint.poll_transmit(now, &mut batch);
    let mut sent = Vec::new();
    for transmit in batch.transmits() {
        for datagram in transmit.datagrams {
            let envelope = Envelope { number: sent.len() as u32, connection: transmit.route.connection.unwrap() };
            sent.push((envelope.before(batch.head(datagram)), datagram.body.len()));
        }
    }
    sent
}

fn give(endpoint: &mut dyn Endpoint, now: Time, from: SocketAddr, connection: ConnectionId, datagram: &[u8]) {
    let message = RxMessage::single(from, datagram).of_flow(FLOW, connection);
    endpoint.handle_datagrams(now, &[message], &mut Vec::new());
}

#[test]
fn a_path_that_was_probed_early_is_open_as_soon_as_the_flow_is_accepted() {
    for protocol in protocols() {
        let build = |role| {
            (protocol.build)(&EndpointConfig {
                challenge_seed: SECRET,
                flow_rate: Some(inhaul_contract_tests::GIVEN_RATE),
                ..EndpointConfig::new(role, 1)
            })
            .unwrap()
        };
        let (mut receiver, mut sender) = (build(Role::Receiver), build(Role::Sender));
        let (to_receiver, to_sender) = (ConnectionId(5), ConnectionId(6));
        let path = PathSpec::clear(1500, receiver_at().ip());
        let echoes: Vec<Vec<u8>> = early_probes(path, false, to_receiver)
            .iter()
            .map(|probe| echo_early(&Challenges::new(SECRET), receiver_at(), probe).unwrap())
            .collect();

        let now = Time::ZERO + Span::from_secs(1);
        let (flow, size, object) = (FLOW, SIZE, ObjectId(0));
        let only_from = Some(receiver_at().ip());
        let parameters = Vec::new().into();
        let offer = OfferFlow {
            flow,
            size,
            peer: None,
            only_from,
            path,
            connection: to_sender,
            token: TOKEN,
            client: None,
            parameters,
        };
        sender.command(now, Command::Offer(offer)).unwrap();
        receiver.command(now, Command::Fetch { object, size, held: Default::default() }).unwrap();
        let (peer, limits, probed) = (Some(sender_at()), FlowLimits::default(), Some(Span::from_millis(100)));
        let join = JoinFlow { flow, object, peer, path, connection: to_receiver, probed, limits };
        receiver.command(now, Command::Join(join)).unwrap();

        for echo in &echoes {
            give(receiver.as_mut(), now, sender_at(), to_receiver, echo);
        }
        assert!(sent(receiver.as_mut(), now).is_empty(), "{}: there is no token yet", protocol.name);
        assert!(receiver.poll_timeout().is_none_or(|due| due > now), "{}: it spins", protocol.name);
        said(sender.as_mut()).iter().for_each(|message| receiver.handle_control(now, FLOW, message));

        let out = sent(receiver.as_mut(), now);
        let kinds: Vec<_> = out.iter().filter_map(|(head, _)| PathDatagram::parse(&head[8..])).collect();
        assert!(matches!(kinds[..], [PathDatagram::Response { token: TOKEN, .. }]), "{}: {kinds:?}", protocol.name);
        assert_eq!(receiver.flow_stats(FLOW).unwrap().rtt, Span::from_millis(100), "{}", protocol.name);
        said(receiver.as_mut()).iter().for_each(|message| sender.handle_control(now, FLOW, message));
        for (head, _) in &out {
            let datagram = [&head[..], &[0; 64]].concat();
            give(sender.as_mut(), now, receiver_at(), to_sender, &datagram);
        }
        // Its pacer may want a moment.
        let due = sender.poll_timeout().unwrap().max(now);
        sender.handle_timeout(due);
        let data: u64 = sent(sender.as_mut(), due).iter().map(|(_, body)| body).sum();
        assert!(data > 1000 && due < now + Span::from_millis(20), "{}: {data} bytes after {due}", protocol.name);
    }
}
