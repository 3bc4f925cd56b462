use std::net::SocketAddr;

use inhaul_transport::kit::wire::{Message, PathDatagram};
use inhaul_transport::{
    Command, ConnectionId, Endpoint, EndpointConfig, Envelope, Event, Host, OfferFlow, PathSpec, Role, RxMessage, drain,
};

use super::*;
use crate::rbudp::wire::HOLD_MAX;

const FLOW: FlowId = FlowId(1);
const SIZE: u64 = 10_000_000;
const BLOCK: u16 = 1_000;

/// Where the sender's output goes.
#[derive(Default)]
struct Seen {
    bodies: Vec<ByteRange>,
    said: Vec<OwnMessage>,
    failed: Vec<FlowError>,
}

impl Host for Seen {
    fn event(&mut self, _: Time, event: Event) {
        match event {
            Event::Control { message, .. } => {
                self.said.extend(OwnMessage::parse(message[0], Reader(&message[1..])).ok());
            }
            Event::Failed { error, .. } => self.failed.push(error),
            _ => {}
        }
    }

    fn transmit(&mut self, _: Time, batch: &mut TxBatch) -> bool {
        let bodies = batch.transmits().flat_map(|transmit| transmit.datagrams).map(|datagram| datagram.body);
        self.bodies.extend(bodies.filter(|body| !body.is_empty()));
        batch.clear();
        true
    }
}

struct Bench {
    sender: RbudpSender,
    now: Time,
    batch: TxBatch,
    seen: Seen,
}

impl Bench {
    /// One flow whose receiver gave this rate, over an open path.
    fn new(given: Option<Bitrate>) -> Self {
        let sender = RbudpSender::new(Rbudp::default(), &EndpointConfig::new(Role::Sender, 1));
        let mut bench = Self { sender, now: Time::ZERO, batch: TxBatch::with_limit(64), seen: Seen::default() };
        let from = SocketAddr::from(([127, 0, 0, 1], 7));
        let path = PathSpec::clear(1500, from.ip());
        let (connection, token) = (ConnectionId(9), 5);
        let offer = OfferFlow {
            flow: FLOW,
            size: SIZE,
            peer: None,
            only_from: None,
            path,
            connection,
            token,
            client: None,
            parameters: Default::default(),
        };
        bench.sender.command(bench.now, Command::Offer(offer)).unwrap();
        let more = inhaul_transport::kit::wire::rate_field(given);
        bench.control(&Message::Setup { connection, mtu: 1500, size: SIZE, more: &more }.emit(VERSION));
        bench.respond(from);
        bench
    }

    fn respond(&mut self, from: SocketAddr) {
        let response = PathDatagram::Response { token: 5, challenge: self.sender.challenge(from) };
        let whole = Envelope { number: 0, connection: ConnectionId(9) }.before(&response.emit());
        let message = RxMessage::single(from, &whole).of_flow(FLOW, ConnectionId(9));
        self.sender.handle_datagrams(self.now, &[message], &mut Vec::new());
    }

    fn control(&mut self, message: &[u8]) {
        self.sender.handle_control(self.now, FLOW, message);
    }

    fn request(&mut self, id: u32, ranges: &[(u64, u64)]) {
        let ranges = ranges.iter().map(|&(start, end)| ByteRange::new(start, end)).collect();
        self.control(&Message::Request { id, block: BLOCK, ranges }.emit(VERSION));
    }

    fn missing(&mut self, is_last: bool, sections: Vec<Section>) {
        self.control(&OwnMessage::Missing { is_last, block: BLOCK, sections }.emit());
    }

    /// Lets `span` pass, waking when the sender is due, with a Response often enough.
    fn pass(&mut self, span: Span) -> &mut Seen {
        let end = self.now + span;
        loop {
            let mut budget = 1 << 20;
            let due = drain(&mut self.sender, self.now, &mut self.batch, &mut budget, &mut self.seen);
            match due.filter(|due| *due <= end) {
                Some(due) => self.now = self.now.max(due),
                None => break,
            }
            self.sender.handle_timeout(self.now);
        }
        self.now = end;
        self.respond(SocketAddr::from(([127, 0, 0, 1], 7)));
        &mut self.seen
    }
}

fn bits(start: u64, blocks: u32, set: &[u32]) -> Section {
    let mut bits = vec![0; blocks.div_ceil(8) as usize];
    set.iter().for_each(|k| bits[(k / 8) as usize] |= 0x80 >> (k % 8));
    Section::Bitmap { start, blocks, bits }
}

#[test]
fn a_round_ends_with_done_and_the_answer_begins_the_next() {
    let mut bench = Bench::new(Some(Bitrate::from_gbps(1)));
    bench.request(1, &[(0, 5_000), (9_000, 9_500)]);
    let seen = bench.pass(Span::from_millis(10));
    assert_eq!((seen.bodies.len(), seen.bodies[5]), (6, ByteRange::new(9_000, 9_500)));
    assert_eq!(seen.said, [OwnMessage::Done { through: 1, next: 6 }]);
    // An answer in two pieces: Done waits for the last.
    bench.missing(false, vec![bits(0, 5, &[1, 4])]);
    assert_eq!(bench.pass(Span::from_millis(10)).said.len(), 1);
    bench.missing(true, vec![Section::Run(ByteRange::new(9_000, 9_500))]);
    let seen = bench.pass(Span::from_millis(10));
    let again = [ByteRange::new(1_000, 2_000), ByteRange::new(4_000, 5_000), ByteRange::new(9_000, 9_500)];
    assert_eq!(seen.bodies[6..], again);
    assert_eq!(seen.said[1..], [OwnMessage::Done { through: 1, next: 9 }]);
    // Nothing is missing: no further message is sent.
    bench.missing(true, vec![]);
    let seen = bench.pass(Span::from_millis(10));
    assert_eq!((seen.bodies.len(), seen.said.len(), seen.failed.len()), (9, 2, 0));
}

#[test]
fn the_rate_is_exact_and_the_lower_of_those_that_were_told() {
    let mut bench = Bench::new(Some(Bitrate::from_mbps(100)));
    bench.request(1, &[(0, SIZE)]);
    // 1,052 bytes a packet: 118.8 packets in 10 ms, and two at first with the credit of 250 us.
    let packets = |bench: &mut Bench, millis: u64| {
        let before = bench.seen.bodies.len();
        for _ in 0..millis / 10 {
            bench.pass(Span::from_millis(10));
        }
        bench.seen.bodies.len() - before
    };
    let first = packets(&mut bench, 500);
    assert!((5_940..5_950).contains(&first), "{first}");
    bench.control(&OwnMessage::Rate { rate: Some(Bitrate::from_mbps(10)) }.emit());
    let slow = packets(&mut bench, 500);
    assert!((592..=598).contains(&slow), "{slow}");
    bench.control(&OwnMessage::Rate { rate: Some(Bitrate::from_gbps(10)) }.emit());
    let fast = packets(&mut bench, 100);
    assert!((1_186..=1_200).contains(&fast), "{fast}: never more than was given");
}

#[test]
fn without_a_rate_nothing_leaves() {
    let mut bench = Bench::new(None);
    bench.request(1, &[(0, SIZE)]);
    assert_eq!(bench.pass(Span::from_secs(1)).bodies, []);
    bench.control(&OwnMessage::Rate { rate: Some(Bitrate::from_mbps(10)) }.emit());
    assert!(!bench.pass(Span::from_millis(100)).bodies.is_empty());
}

#[test]
fn cancel_takes_back_what_was_to_be_sent_again() {
    let mut bench = Bench::new(Some(Bitrate::from_mbps(10)));
    bench.request(1, &[(0, 5_000)]);
    bench.pass(Span::from_millis(20));
    bench.missing(true, vec![Section::Run(ByteRange::new(0, 1_000_000))]);
    bench.control(&Message::Cancel { through: 1 }.emit(VERSION));
    let seen = bench.pass(Span::from_millis(100));
    assert_eq!((seen.bodies.len(), seen.said.len()), (5, 2), "and the round ends");
}

#[test]
fn an_answer_that_claims_too_much_fails_the_flow_and_costs_nothing() {
    let claims = [
        vec![Section::Run(ByteRange::new(SIZE - 1, SIZE + 1))],
        vec![bits(SIZE - 1_000, 2, &[])],
        vec![Section::Run(ByteRange::new(u64::MAX - 9, u64::MAX))],
    ];
    for sections in claims {
        let mut bench = Bench::new(Some(Bitrate::from_mbps(10)));
        bench.request(1, &[(0, 1_000)]);
        bench.pass(Span::from_millis(20));
        bench.missing(true, sections);
        assert_eq!(bench.pass(Span::ZERO).failed.len(), 1);
    }
    // Answers to nothing, and answers without end.
    let mut bench = Bench::new(Some(Bitrate::from_mbps(10)));
    bench.missing(true, vec![]);
    assert_eq!(bench.pass(Span::ZERO).failed.len(), 1);
    let mut bench = Bench::new(Some(Bitrate::from_mbps(10)));
    bench.request(1, &[(0, 1_000)]);
    bench.pass(Span::from_millis(20));
    for _ in 0..100 {
        bench.missing(false, (0..2_000).map(|k| Section::Run(ByteRange::at(k, 1))).collect());
        assert!(bench.sender.memory_bytes() < 8 << 20, "{}", bench.sender.memory_bytes());
    }
    assert_eq!(bench.pass(Span::ZERO).failed.len(), 1);
}

#[test]
fn a_bitmap_of_the_largest_blocks_without_a_bit_is_looked_through_once() {
    let mut again = Again::default();
    (0..100).for_each(|k| again.push(BLOCK, bits(k, 8_192, &[]), SIZE).unwrap());
    assert_eq!((again.next_len(), again.wire_bytes, again.sections.len()), (None, 0, 0));
}

#[test]
fn hold_stops_data_from_when_on_and_for_how_long_it_says() {
    let mut bench = Bench::new(Some(Bitrate::from_mbps(100)));
    bench.request(1, &[(0, SIZE)]);
    let packets = |bench: &mut Bench, millis: u64| {
        let before = bench.seen.bodies.len();
        bench.pass(Span::from_millis(millis));
        bench.seen.bodies.len() - before
    };
    packets(&mut bench, 10);
    let hold = |after, length| OwnMessage::Hold { after: Span::from_millis(after), length: Span::from_millis(length) };
    bench.control(&hold(20, 100).emit());
    assert!(packets(&mut bench, 20).abs_diff(238) <= 1);
    assert_eq!(packets(&mut bench, 99), 0);
    // Data held meanwhile does not follow as a burst: 1 ms of the pause, 10 at the rate, and a first burst as above.
    let after = packets(&mut bench, 11);
    assert!((118..=124).contains(&after), "{after}");
    // The last Hold holds, also where it ends the one before.
    bench.control(&hold(0, 5_000).emit());
    assert_eq!(packets(&mut bench, 50), 0);
    bench.control(&hold(100, 10).emit());
    assert!(packets(&mut bench, 50) > 500);
    // 100 ms, and the part of 5 s that was over when the next came.
    let held = bench.sender.flow_stats(FLOW).unwrap().held;
    assert!((149.0..152.0).contains(&held.as_millis_f64()), "{held}");
}

#[test]
fn hold_does_not_stop_what_is_not_data() {
    let mut bench = Bench::new(Some(Bitrate::from_mbps(10)));
    bench.request(1, &[(0, 1_000)]);
    assert_eq!(bench.pass(Span::from_millis(20)).said.len(), 1);
    bench.control(&OwnMessage::Hold { after: Span::ZERO, length: Span::from_millis(100) }.emit());
    bench.missing(true, vec![Section::Run(ByteRange::new(0, 1_000))]);
    assert_eq!(bench.pass(Span::from_millis(99)).bodies.len(), 1);
    let seen = bench.pass(Span::from_millis(20));
    assert_eq!((seen.bodies.len(), seen.said.len(), seen.failed.len()), (2, 2, 0));
}

#[test]
fn a_hold_of_an_hour_fails_the_flow() {
    let mut bench = Bench::new(Some(Bitrate::from_mbps(10)));
    let hour =
        [&OwnMessage::Hold { after: Span::ZERO, length: HOLD_MAX }.emit()[..5], &u32::MAX.to_be_bytes()].concat();
    bench.control(&hour);
    assert_eq!(bench.pass(Span::ZERO).failed.len(), 1);
}
