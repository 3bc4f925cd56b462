use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use inhaul_base::ByteRange;
use inhaul_transport::kit::wire::{Message, PathDatagram};
use inhaul_transport::{Command, ConnectionId, Endpoint, Envelope, Event, OfferFlow, PathSpec, Role, RxMessage, drain};
use proptest::prelude::*;

use super::*;

/// What happens to a sender with a few flows.
#[derive(Clone, Debug)]
enum Step {
    Offer(u32),
    Rate(u32, u64),
    Request(u32),
    Probe(u32),
    Respond(u32),
    Close(u32),
    Limit(Option<u64>),
    Wait(u64),
    Transmit,
}

fn step() -> impl Strategy<Value = Step> {
    let flow = || 0u32..6;
    prop_oneof![
        2 => flow().prop_map(Step::Offer),
        4 => (flow(), prop_oneof![1u64..2_000_000_000, Just(1_000_000_000_000)]).prop_map(|(flow, bps)| Step::Rate(flow, bps)),
        2 => flow().prop_map(Step::Request),
        1 => flow().prop_map(Step::Probe),
        2 => flow().prop_map(Step::Respond),
        1 => flow().prop_map(Step::Close),
        1 => proptest::option::of(1u64..2_000_000_000).prop_map(Step::Limit),
        3 => (1u64..40_000_000_000).prop_map(Step::Wait),
        3 => Just(Step::Transmit),
    ]
}

/// Flows 1 and 4 belong to a client with a limit of 1 Mbit/s, and 2 and 5 to a client with a limit of 1 Gbit/s.
fn client(number: u32) -> Option<ClientRate> {
    let rate = [0, 1, 1000][number as usize % 3];
    (rate > 0).then(|| ClientRate { client: rate, rate: Bitrate::from_mbps(rate) })
}

fn setup(number: u32, mtu: u16, size: u64) -> Vec<u8> {
    let more = SetupMore { receive_buffer: 1 << 20, access_rate: None, application_rate: None }.emit();
    Message::Setup { connection: ConnectionId(number), mtu, size, more: &more }.emit(VERSION)
}

fn path(mtu: u16) -> PathSpec {
    PathSpec::clear(mtu, peer(0).ip())
}

fn peer(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

struct Bench {
    sender: GtpSender,
    now: Time,
    requests: BTreeMap<FlowId, u32>,
}

impl Bench {
    fn control(&mut self, flow: FlowId, message: &[u8]) {
        self.sender.handle_control(self.now, flow, message);
    }

    fn datagram(&mut self, from: SocketAddr, flow: u32, datagram: PathDatagram) {
        let connection = ConnectionId(flow);
        // Packet numbers are unique: a repeated number means a copy.
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let whole = Envelope { number, connection }.before(&datagram.emit());
        let message = RxMessage::single(from, &whole).of_flow(FlowId(flow), connection);
        self.sender.handle_datagrams(self.now, &[message], &mut Vec::new());
    }

    /// Returns the sender's challenge from its message to `from`.
    fn respond(&mut self, from: SocketAddr, number: u32) {
        let token = u64::from(number);
        let challenge = self.sender.challenge(from);
        self.datagram(from, number, PathDatagram::Response { token, challenge });
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Offer(number) => {
                let offer = OfferFlow {
                    flow: FlowId(number),
                    size: 1 << 30,
                    peer: None,
                    only_from: None,
                    path: path(1500),
                    connection: ConnectionId(number),
                    token: u64::from(number),
                    client: client(number),
                    parameters: Default::default(),
                };
                if self.sender.command(self.now, Command::Offer(offer)).is_ok() {
                    self.requests.insert(FlowId(number), 0);
                    self.control(FlowId(number), &setup(number, 1500, 1 << 30));
                }
            }
            Step::Rate(number, bps) => {
                let rate = Bitrate::from_bps(bps);
                self.control(FlowId(number), &OwnMessage::Rate { epoch: 1, rate, burst: 1500 }.emit());
            }
            Step::Request(number) => {
                let Some(id) = self.requests.get_mut(&FlowId(number)) else { return };
                *id += 1;
                let request =
                    Message::Request { id: *id, block: 1400, ranges: vec![ByteRange::at(0, 100_000)] }.emit(VERSION);
                self.control(FlowId(number), &request);
            }
            Step::Probe(number) => {
                let reply_to = ConnectionId(number);
                let probe = PathDatagram::Probe { token: u64::from(number), number: 1, reply_to };
                self.datagram(peer(9), number, probe);
            }
            Step::Respond(number) => self.respond(peer(9), number),
            Step::Close(number) => self.control(FlowId(number), &Message::Close.emit(VERSION)),
            Step::Limit(bps) => {
                let limit = Command::LimitSend(bps.map(Bitrate::from_bps));
                self.sender.command(self.now, limit).unwrap();
            }
            Step::Wait(nanos) => {
                self.now += Span::from_nanos(nanos);
                self.sender.handle_timeout(self.now);
            }
            Step::Transmit => self.sender.poll_transmit(self.now, &mut TxBatch::with_limit(64)),
        }
        while self.sender.poll_event().is_some() {}
    }

    /// Invariants.
    fn check(&self) {
        let sender = &self.sender;
        assert!(sender.core().agenda_is_current());
        let granted: u128 = sender.core().flows.values().map(|flow| u128::from(flow.pacer.rate().bps())).sum();
        assert_eq!(sender.protocol().granted_bps, granted);
        assert!(sender.protocol().send_limit.is_none_or(|limit| granted <= u128::from(limit.bps())), "{granted} bit/s");
    }
}

proptest! {
    #[test]
    fn no_more_than_r_send_is_granted_and_no_flow_is_forgotten(steps in proptest::collection::vec(step(), 1..80)) {
        let sender = GtpSender::new(Gtp::new(&EndpointConfig::new(Role::Sender, 1)), &EndpointConfig::new(Role::Sender, 1));
        let mut bench = Bench { sender, now: Time::ZERO, requests: BTreeMap::new() };
        for step in &steps {
            bench.take(step);
            bench.check();
        }
        // A moment later it is divided max-min fairly.
        bench.take(&Step::Wait(1_000_000));
        bench.check();
        let flows = || bench.sender.core().flows.values();
        let shares: Vec<_> = flows().map(|flow| flow.pacer.rate()).collect();
        let mut wanted: Vec<_> = flows().map(|flow| flow.requested_rate).collect();
        for of in [1, 1000] {
            let own = |flow: &SendFlow| flow.core.offer.client.is_some_and(|client| client.client == of);
            let asked: Vec<_> = flows().filter(|flow| own(flow)).map(|flow| flow.requested_rate).collect();
            let mut parts = max_min(Bitrate::from_mbps(of), &asked).into_iter();
            for (wanted, _) in wanted.iter_mut().zip(flows()).filter(|(_, flow)| own(flow)) {
                *wanted = parts.next().unwrap();
            }
        }
        let limit = bench.sender.protocol().send_limit;
        prop_assert_eq!(shares, limit.map_or(wanted.clone(), |limit| max_min(limit, &wanted)));
    }
}

#[test]
fn hundreds_of_receivers_are_not_told_of_each_other_at_every_turn() {
    const RECEIVERS: u32 = 300;
    let mut config = EndpointConfig::new(Role::Sender, 1);
    config.host_rate = Some(Bitrate::from_mbps(300));
    let mut sender = GtpSender::new(Gtp::new(&config), &config);
    let mut limits = 0;
    for number in 0..RECEIVERS {
        // One request a millisecond, each for the whole object.
        let now = Time::ZERO + Span::from_millis(u64::from(number));
        let (flow, size, token) = (FlowId(number), 1 << 30, u64::from(number));
        let (connection, path, parameters) = (ConnectionId(number), path(1500), Default::default());
        let offer =
            OfferFlow { flow, size, peer: None, only_from: None, path, connection, token, client: None, parameters };
        sender.command(now, Command::Offer(offer)).unwrap();
        sender.handle_control(now, flow, &setup(number, 1500, 1 << 30));
        let rate = Bitrate::from_mbps(300);
        sender.handle_control(now, flow, &OwnMessage::Rate { epoch: 1, rate, burst: 1500 }.emit());
        sender.handle_timeout(now);
        limits += std::iter::from_fn(|| sender.poll_event()).count();
    }
    let end = Time::ZERO + Span::from_secs(1);
    sender.handle_timeout(end);
    limits += std::iter::from_fn(|| sender.poll_event()).count();
    assert!(sender.core().flows.values().all(|flow| flow.pacer.rate() == Bitrate::from_mbps(1)), "all have the same");
    // Of 300 x 300 / 2 that telling all of each newcomer would take.
    assert!(limits < 20_000, "{limits} messages");
}

const MIB: u64 = 1 << 20;

/// A sender of one object of this size to flow 1, whose receiver has said Setup.
fn offering(size: u64, mtu: u16, host_rate: Option<Bitrate>) -> Bench {
    let config = EndpointConfig { host_rate, ..EndpointConfig::new(Role::Sender, 1) };
    let mut bench =
        Bench { sender: GtpSender::new(Gtp::new(&config), &config), now: Time::ZERO, requests: BTreeMap::new() };
    bench.offer(1, size, mtu);
    bench
}

impl Bench {
    fn offer(&mut self, number: u32, size: u64, mtu: u16) {
        let (flow, token) = (FlowId(number), u64::from(number));
        let only_from = Some(peer(0).ip());
        let (connection, path, parameters) = (ConnectionId(number), path(mtu), Default::default());
        let offer = OfferFlow { flow, size, peer: None, only_from, path, connection, token, client: None, parameters };
        self.sender.command(self.now, Command::Offer(offer)).unwrap();
        self.control(flow, &setup(number, mtu, size));
    }

    fn rate(&mut self, number: u32, bps: u64, burst: u32) {
        self.control(FlowId(number), &OwnMessage::Rate { epoch: 1, rate: Bitrate::from_bps(bps), burst }.emit());
    }

    fn request(&mut self, number: u32, id: u32, block: u16, ranges: Vec<ByteRange>) {
        self.control(FlowId(number), &Message::Request { id, block, ranges }.emit(VERSION));
    }

    /// What leaves now, at most `budget` bytes: bytes of UDP payload by flow and address.
    fn leaves(&mut self, budget: u64) -> BTreeMap<(FlowId, SocketAddr), u64> {
        self.sender.handle_timeout(self.now);
        let (mut out, mut budget) = (Leaving::default(), budget);
        drain(&mut self.sender, self.now, &mut TxBatch::with_limit(264), &mut budget, &mut out);
        out.0
    }

    /// The datagrams that leave by `end`, with all due wake-ups and a response every 50 ms from the listed flows.
    fn leaves_until(&mut self, end: Time, responding: &[(u32, u16)]) -> BTreeMap<(FlowId, SocketAddr), u64> {
        let mut all = BTreeMap::new();
        let mut respond = self.now;
        while self.now < end {
            if self.now >= respond {
                responding.iter().for_each(|&(number, port)| self.respond(peer(port), number));
                respond = self.now + Span::from_millis(50);
            }
            for (key, bytes) in self.leaves(u64::MAX) {
                *all.entry(key).or_default() += bytes;
            }
            let due = self.sender.poll_timeout().unwrap_or(end);
            self.now = due.max(self.now + Span::from_micros(10)).min(respond).min(end);
        }
        all
    }

    fn failed(&mut self) -> bool {
        std::iter::from_fn(|| self.sender.poll_event()).any(|event| matches!(event, Event::Failed { .. }))
    }
}

/// Counts what leaves.
#[derive(Default)]
struct Leaving(BTreeMap<(FlowId, SocketAddr), u64>);

impl inhaul_transport::Host for Leaving {
    fn event(&mut self, _: Time, event: Event) {
        assert!(!matches!(event, Event::Failed { .. }), "{event:?}");
    }

    fn transmit(&mut self, _: Time, batch: &mut TxBatch) -> bool {
        for transmit in batch.transmits() {
            let bytes: usize = transmit.datagrams.iter().map(inhaul_transport::TxDatagram::len).sum();
            *self.0.entry((transmit.flow, transmit.route.to)).or_default() += bytes as u64;
        }
        batch.clear();
        true
    }
}

fn total(leaving: &BTreeMap<(FlowId, SocketAddr), u64>) -> u64 {
    leaving.values().sum()
}

#[test]
fn others_have_their_turn_beside_any_requested_rate() {
    let mut bench = offering(64 * MIB, 9000, None);
    bench.offer(2, 64 * MIB, 9000);
    for (number, port) in [(1, 9), (2, 10)] {
        bench.respond(peer(port), number);
    }
    bench.rate(1, u64::MAX, u32::MAX);
    bench.rate(2, 1_000_000_000, 65_000);
    for id in 1..=31 {
        bench.request(1, id, 8936, vec![ByteRange::new(0, 64 * MIB)]);
    }
    bench.request(2, 1, 8936, vec![ByteRange::new(0, 64 * MIB)]);
    let (mut greedy, mut modest) = (0, 0);
    // A turn takes a quarter of a millisecond.
    for _ in 0..400 {
        bench.now += Span::from_micros(250);
        let left = bench.leaves(MIB);
        assert!(total(&left) <= 2 * MIB + 100_000, "{left:?}");
        greedy += left.get(&(FlowId(1), peer(9))).copied().unwrap_or(0);
        modest += left.get(&(FlowId(2), peer(10))).copied().unwrap_or(0);
    }
    // 1 Gbit/s for 100 ms are 12.5 MB: nothing of it is missed, however much the other takes.
    assert!(modest > 12_000_000 && greedy > 100_000_000, "{modest} beside {greedy} bytes");
}

#[test]
fn one_drain_of_an_endless_rate_ends() {
    let mut bench = offering(64 * MIB, 9000, None);
    bench.respond(peer(9), 1);
    bench.rate(1, u64::MAX, u32::MAX);
    for id in 1..=31 {
        bench.request(1, id, 8936, vec![ByteRange::new(0, 64 * MIB)]);
    }
    bench.now += Span::from_millis(100);
    bench.respond(peer(9), 1);
    // 100 us' worth of the greatest rate that is taken seriously, and a burst.
    let left = total(&bench.leaves(u64::MAX));
    assert!(left <= 12_500_000 + 300_000, "{left} bytes at once");
}

#[test]
fn r_send_holds_after_a_rest_for_one_flow_and_for_many() {
    for flows in [1u32, 200] {
        let mut bench = offering(64 * MIB, 9000, Some(Bitrate::from_mbps(100)));
        (2..=flows).for_each(|number| bench.offer(number, 64 * MIB, 9000));
        let responding: Vec<(u32, u16)> = (1..=flows).map(|n| (n, 10_000 + n as u16)).collect();
        (1..=flows).for_each(|number| bench.rate(number, 100_000_000, u32::MAX));
        bench.now += Span::from_secs(18);
        (1..=flows).for_each(|number| bench.request(number, 1, 8936, vec![ByteRange::new(0, 64 * MIB)]));
        for second in 0..3 {
            let end = bench.now + Span::from_secs(1);
            let mbit = total(&bench.leaves_until(end, &responding)) as f64 * 8e-6;
            // 100 Mbit in a second and, at first, the credit of a rest: 60 ms' worth.
            println!("{flows} flows: {mbit} Mbit in second {second}");
            assert!((80.0..106.2).contains(&mbit), "{flows} flows: {mbit} Mbit in second {second}");
        }
    }
}

#[test]
fn data_goes_only_to_an_address_that_returned_its_challenge() {
    let mut bench = offering(MIB, 1500, None);
    bench.rate(1, 1_000_000_000, 65_000);
    bench.request(1, 1, 1440, vec![ByteRange::new(0, MIB)]);
    let probe = PathDatagram::Probe { token: 1, number: 1, reply_to: ConnectionId(1) };
    bench.datagram(peer(9), 1, probe);
    // Only an echo as long as the probe, after any wait.
    let end = bench.now + Span::from_secs(2);
    assert_eq!(bench.leaves_until(end, &[]), BTreeMap::from([((FlowId(1), peer(9)), 24)]));
    // The challenge of one port, or a guess, opens no other.
    let challenge = bench.sender.challenge(peer(9));
    for challenge in [0, 1, challenge] {
        bench.datagram(peer(10), 1, PathDatagram::Response { token: 1, challenge });
    }
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], 9));
    bench.respond(elsewhere, 1);
    assert!(bench.leaves(u64::MAX).is_empty());
    bench.respond(peer(9), 1);
    let end = bench.now + Span::from_millis(20);
    let left = bench.leaves_until(end, &[(1, 9)]);
    assert!(left.len() == 1 && left[&(FlowId(1), peer(9))] > MIB, "{left:?}");
}

#[test]
fn a_receiver_that_moved_is_followed_once_it_has_answered_from_there() {
    let mut bench = offering(MIB, 1500, None);
    bench.rate(1, 8_000_000, 1500);
    bench.request(1, 1, 1440, vec![ByteRange::new(0, MIB)]);
    bench.respond(peer(9), 1);
    let probe = PathDatagram::Probe { token: 1, number: 1, reply_to: ConnectionId(1) };
    bench.datagram(peer(10), 1, probe);
    let left = bench.leaves_until(bench.now + Span::from_millis(100), &[(1, 9)]);
    assert!(left[&(FlowId(1), peer(10))] == 24 && left[&(FlowId(1), peer(9))] > 80_000, "{left:?}");
    let left = bench.leaves_until(bench.now + Span::from_millis(100), &[(1, 10)]);
    assert!(left.len() == 1 && left[&(FlowId(1), peer(10))] > 80_000, "{left:?}");
}

#[test]
fn a_receiver_that_falls_silent_at_a_high_rate_keeps_no_one_awake() {
    let mut bench = offering(64 * MIB, 1500, None);
    bench.rate(1, 1_000_000_000_000, 65_000);
    bench.request(1, 1, 1440, vec![ByteRange::new(0, 64 * MIB)]);
    bench.respond(peer(9), 1);
    assert!(total(&bench.leaves_until(bench.now + Span::from_micros(200), &[])) > 0);
    bench.now += Span::from_secs(1);
    assert!(bench.leaves(MIB).is_empty());
    assert!(bench.sender.poll_timeout().is_some_and(|due| due > bench.now + Span::from_secs(20)));
}

#[test]
fn without_responses_data_ends_and_with_them_it_returns_at_once() {
    let mut bench = offering(64 * MIB, 1500, None);
    bench.rate(1, 80_000_000, 15_000);
    bench.request(1, 1, 1440, vec![ByteRange::new(0, 64 * MIB)]);
    bench.respond(peer(9), 1);
    let left = total(&bench.leaves_until(bench.now + Span::from_secs(5), &[]));
    // A quarter of a second at 10 MB/s.
    assert!((2_000_000..2_600_000).contains(&left), "{left} bytes");
    let due = bench.sender.poll_timeout().unwrap();
    assert!(due > bench.now + Span::from_secs(20), "no action until it responds, but {due:?}");
    let end = bench.now + Span::from_millis(100);
    let left = total(&bench.leaves_until(end, &[(1, 9)]));
    assert!((900_000..1_200_000).contains(&left), "{left} bytes");
}

#[test]
fn more_than_a_receiver_may_want_at_once_ends_the_flow() {
    for (size, range, requests) in
        [(u64::MAX, ByteRange::new(0, u64::MAX), 1), (1 << 40, ByteRange::new(0, 1 << 30), 3)]
    {
        let mut bench = offering(size, 9000, None);
        (1..=requests).for_each(|id| bench.request(1, id, 8936, vec![range]));
        assert!(bench.failed(), "{range}");
    }
}

/// Values at which sums and products go over.
fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63), Just(1 << 32), any::<u64>()]
}

proptest! {
    #[test]
    fn no_value_of_a_peer_breaks_the_sender(
        size in extreme(), limit in proptest::option::of(extreme()), burst in any::<u32>(), id in 0..3u32,
        rates in proptest::collection::vec(extreme(), 1..5), starts in proptest::collection::vec(extreme(), 1..8),
        len in prop_oneof![1..100_000u64, extreme()], wait in extreme(),
    ) {
        let mut bench = offering(size, u16::MAX, limit.map(Bitrate::from_bps));
        bench.respond(peer(9), 1);
        for rate in rates {
            bench.rate(1, rate.max(1), burst);
            let within = |&start: &u64| (start < size).then(|| ByteRange::at(start, len.max(1).min(size - start)));
            bench.request(1, 1 + id, 65_440, starts.iter().filter_map(within).collect());
            bench.now += Span::from_nanos(wait);
            bench.respond(peer(9), 1);
            bench.sender.handle_timeout(bench.now);
            bench.sender.poll_transmit(bench.now, &mut TxBatch::with_limit(64));
            let _ = (bench.sender.poll_timeout(), bench.sender.flow_stats(FlowId(1)), bench.sender.memory_bytes());
        }
        bench.control(FlowId(1), &Message::Cancel { through: u32::MAX }.emit(VERSION));
        bench.check();
    }
}
