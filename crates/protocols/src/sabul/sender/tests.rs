use std::net::SocketAddr;

use inhaul_transport::kit::wire::{Message, PathDatagram};
use inhaul_transport::{
    Command, ConnectionId, Endpoint, EndpointConfig, Envelope, Event, Host, OfferFlow, PathSpec, Role, RxMessage, drain,
};

use super::*;
use crate::sabul::laws::LawName;

const FLOW: FlowId = FlowId(1);
const SIZE: u64 = 1 << 30;
const BLOCK: u16 = 1_000;

#[derive(Default)]
struct Seen {
    bodies: Vec<u64>,
    failed: Vec<FlowError>,
}

impl Host for Seen {
    fn event(&mut self, _: Time, event: Event) {
        if let Event::Failed { error, .. } = event {
            self.failed.push(error);
        }
    }

    fn transmit(&mut self, _: Time, batch: &mut TxBatch) -> bool {
        let bodies = batch.transmits().flat_map(|transmit| transmit.datagrams).map(|datagram| datagram.body);
        self.bodies.extend(bodies.filter(|body| !body.is_empty()).map(|body| body.start / u64::from(BLOCK)));
        batch.clear();
        true
    }
}

struct Bench {
    sender: SabulSender,
    now: Time,
    batch: TxBatch,
    seen: Seen,
}

impl Bench {
    /// One flow under a law, over an open path, with `blocks` requested blocks.
    fn new(law: LawName, blocks: u64) -> Self {
        let sender = SabulSender::new(Sabul, &EndpointConfig::new(Role::Sender, 1));
        let mut bench = Self { sender, now: Time::ZERO, batch: TxBatch::with_limit(64), seen: Seen::default() };
        let (connection, token) = (ConnectionId(9), 5);
        let offer = OfferFlow {
            flow: FLOW,
            size: SIZE,
            peer: None,
            only_from: None,
            path: PathSpec::clear(1500, std::net::Ipv4Addr::LOCALHOST.into()),
            connection,
            token,
            client: None,
            parameters: Default::default(),
        };
        bench.sender.command(bench.now, Command::Offer(offer)).unwrap();
        bench.control(&Message::Setup { connection, mtu: 1500, size: SIZE, more: &[law.code()] }.emit(VERSION));
        let ranges = vec![ByteRange::new(0, blocks * u64::from(BLOCK))];
        bench.control(&Message::Request { id: 1, block: BLOCK, ranges }.emit(VERSION));
        bench
    }

    fn control(&mut self, message: &[u8]) {
        self.sender.handle_control(self.now, FLOW, message);
    }

    fn say(&mut self, message: &OwnMessage) -> &mut Seen {
        self.control(&message.emit());
        self.pass(Span::ZERO)
    }

    /// Lets `span` pass, with a Response before each tenth of a second. Returns what left meanwhile.
    fn pass(&mut self, span: Span) -> &mut Seen {
        self.seen.bodies.clear();
        let end = self.now + span;
        loop {
            let from = SocketAddr::from(([127, 0, 0, 1], 7));
            let response = PathDatagram::Response { token: 5, challenge: self.sender.challenge(from) };
            let whole = Envelope { number: 0, connection: ConnectionId(9) }.before(&response.emit());
            let message = RxMessage::single(from, &whole).of_flow(FLOW, ConnectionId(9));
            self.sender.handle_datagrams(self.now, &[message], &mut Vec::new());
            let mut budget = 1 << 20;
            let due = drain(&mut self.sender, self.now, &mut self.batch, &mut budget, &mut self.seen);
            let due = due.unwrap_or(Time::FAR_FUTURE).min(self.now + Span::from_millis(100));
            if due > end {
                break;
            }
            self.now = self.now.max(due);
            self.sender.handle_timeout(self.now);
        }
        self.now = end;
        &mut self.seen
    }
}

#[test]
fn what_is_lost_leaves_first() {
    let mut bench = Bench::new(LawName::Sabul2002, 10_000);
    let first = bench.pass(Span::from_millis(10)).bodies.len();
    // 1.2 Gbit/s in packets of 1,060 bytes: 1,415 in 10 ms, and 37 at first.
    assert!((1_415..=1_455).contains(&first), "{first}");
    bench.say(&OwnMessage::Err { ranges: vec![(7, 2), (100, 1)] });
    let seen = bench.pass(Span::from_millis(1));
    let again: Vec<_> = [7, 8, 100].into_iter().collect();
    assert!(seen.bodies.windows(3).any(|bodies| bodies == again) || seen.bodies[..3] == again, "{:?}", seen.bodies);
    assert_eq!(bench.sender.flow_stats(FLOW).unwrap().retransmitted_bytes, 3_000);
}

#[test]
fn without_acknowledgement_all_is_sent_again_after_a_second() {
    let mut bench = Bench::new(LawName::Sabul2, 5);
    assert_eq!(bench.pass(Span::from_millis(900)).bodies, [0, 1, 2, 3, 4]);
    bench.say(&OwnMessage::Ack { before: 3 });
    assert_eq!(bench.pass(Span::from_millis(900)).bodies, []);
    assert_eq!(bench.pass(Span::from_millis(200)).bodies, [3, 4]);
    bench.say(&OwnMessage::Ack { before: 5 });
    assert_eq!(bench.pass(Span::from_secs(5)).bodies, []);
}

#[test]
fn the_law_is_told_what_syn_says_and_the_lower_rate_holds() {
    let mut bench = Bench::new(LawName::Sabul2002, 1 << 20);
    bench.say(&OwnMessage::Syn { received: 98, lost: 2 });
    assert_eq!(bench.sender.flow_stats(FLOW).unwrap().target_rate, Bitrate::from_mbps(600));
    bench.say(&OwnMessage::Rate { rate: Some(Bitrate::from_f64(1_060.0 * 8e3)) });
    bench.pass(Span::from_millis(100));
    let slow = bench.pass(Span::from_millis(100)).bodies.len();
    assert!((99..=101).contains(&slow), "a packet each millisecond: {slow}");
}

#[test]
fn sabul_2_sends_nothing_for_a_syn_after_a_loss() {
    let mut bench = Bench::new(LawName::Sabul2, 1 << 20);
    bench.pass(Span::from_millis(10));
    bench.say(&OwnMessage::Err { ranges: vec![(7, 1)] });
    assert_eq!(bench.pass(Span::from_micros(9_900)).bodies, []);
    assert_eq!(bench.pass(Span::from_millis(1)).bodies[0], 7);
}

#[test]
fn a_window_of_packets_may_wait_for_their_acknowledgement() {
    let mut bench = Bench::new(LawName::Sabul2002, 1 << 20);
    let mut sent = 0;
    for _ in 0..40 {
        bench.control(&OwnMessage::Syn { received: 1, lost: 0 }.emit());
        sent += bench.pass(Span::from_millis(20)).bodies.len() as u64;
    }
    assert_eq!(sent, WINDOW_PACKETS);
}

#[test]
fn restart_forgets_what_was_sent_and_goes_on_behind_it() {
    let mut bench = Bench::new(LawName::Sabul2, 5);
    bench.pass(Span::from_millis(10));
    bench.say(&OwnMessage::Restart { from: 1_000 });
    let ranges = vec![ByteRange::new(0, 2_000)];
    bench.control(&Message::Request { id: 2, block: BLOCK, ranges }.emit(VERSION));
    assert_eq!(bench.pass(Span::from_millis(10)).bodies, [0, 1]);
    assert_eq!(bench.say(&OwnMessage::Ack { before: 1_002 }).failed, []);
}

#[test]
fn reports_of_what_was_never_sent_fail_the_flow() {
    for message in [
        OwnMessage::Ack { before: 6 },
        OwnMessage::Err { ranges: vec![(4, 2)] },
        OwnMessage::Err { ranges: vec![(0, u32::MAX)] },
        OwnMessage::Restart { from: 4 },
        OwnMessage::Restart { from: u64::MAX },
    ] {
        let mut bench = Bench::new(LawName::Sabul2, 5);
        bench.pass(Span::from_millis(10));
        assert_eq!(bench.say(&message).failed.len(), 1, "{message:?}");
    }
    let mut bench = Bench::new(LawName::Sabul2, 5);
    bench.pass(Span::from_millis(10));
    assert_eq!(bench.say(&OwnMessage::Err { ranges: vec![(4, 1), (0, 1)] }).failed, []);
}
