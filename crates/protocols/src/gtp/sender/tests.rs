use inhaul_transport::Role;
use proptest::prelude::*;

use super::*;

/// What happens to a sender with a few flows.
#[derive(Clone, Debug)]
enum Step {
    Offer(u32),
    Rate(u32, u64),
    Request(u32),
    Probe(u32),
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
        2 => flow().prop_map(Step::Probe),
        1 => flow().prop_map(Step::Close),
        1 => proptest::option::of(1u64..2_000_000_000).prop_map(Step::Limit),
        3 => (1u64..40_000_000_000).prop_map(Step::Wait),
        3 => Just(Step::Transmit),
    ]
}

fn setup(number: u32) -> Control {
    let (key, mtu, size, receive_buffer) = (number, 1500, 1 << 30, 1 << 20);
    Control::Setup { key, mtu, size, receive_buffer, access_rate: None, application_rate: None }
}

struct Bench {
    sender: GtpSender,
    now: Time,
    requests: BTreeMap<FlowId, u32>,
}

impl Bench {
    fn control(&mut self, flow: FlowId, message: &Control) {
        self.sender.handle_control(self.now, flow, &message.emit());
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Offer(number) => {
                let offer = OfferFlow {
                    flow: FlowId(number),
                    size: 1 << 30,
                    peer: None,
                    only_from: None,
                    mtu: 1500,
                    token: u64::from(number),
                };
                if self.sender.command(self.now, Command::Offer(offer)).is_ok() {
                    self.requests.insert(FlowId(number), 0);
                    self.control(FlowId(number), &setup(number));
                }
            }
            Step::Rate(number, bps) => {
                let rate = Bitrate::from_bps(bps);
                self.control(FlowId(number), &Control::Rate { epoch: 1, rate, burst: 1500 });
            }
            Step::Request(number) => {
                let Some(id) = self.requests.get_mut(&FlowId(number)) else { return };
                *id += 1;
                let request = Control::Request { id: *id, block: 1400, ranges: vec![ByteRange::at(0, 100_000)] };
                self.control(FlowId(number), &request);
            }
            Step::Probe(number) => {
                let head = Datagram::Probe { key: number, token: u64::from(number), number: 1, sent: 0 }.emit();
                let from = SocketAddr::from(([127, 0, 0, 1], 9));
                let message = RxMessage::single(from, &head);
                self.sender.handle_datagrams(self.now, &[message], &mut Vec::new());
            }
            Step::Close(number) => self.control(FlowId(number), &Control::Close),
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

    /// What must be true at all times.
    fn check(&self) {
        let sender = &self.sender;
        let entries = |flow: (&FlowId, &SendFlow)| (flow.1.due().0, *flow.0);
        assert_eq!(sender.agenda, sender.flows.iter().map(entries).collect::<BTreeSet<_>>(), "the agenda is current");
        let granted: u128 = sender.flows.values().map(|flow| u128::from(flow.pacer.rate().bps())).sum();
        assert_eq!(sender.granted_bps, granted);
        assert!(sender.send_limit.is_none_or(|limit| granted <= u128::from(limit.bps())), "{granted} bit/s");
    }
}

proptest! {
    #[test]
    fn no_more_than_r_send_is_granted_and_nobody_is_forgotten(steps in proptest::collection::vec(step(), 1..80)) {
        let sender = GtpSender::new(&EndpointConfig::new(Role::Sender, 1));
        let mut bench = Bench { sender, now: Time::ZERO, requests: BTreeMap::new() };
        for step in &steps {
            bench.take(step);
            bench.check();
        }
        // A moment later it is divided max-min fairly.
        bench.take(&Step::Wait(1_000_000));
        bench.check();
        if let Some(limit) = bench.sender.send_limit {
            let flows = || bench.sender.flows.values();
            let wanted: Vec<_> = flows().map(|flow| flow.requested_rate).collect();
            let shares: Vec<_> = flows().map(|flow| flow.pacer.rate()).collect();
            prop_assert_eq!(shares, max_min(limit, &wanted));
        }
    }
}

#[test]
fn hundreds_of_receivers_are_not_told_of_each_other_at_every_turn() {
    const RECEIVERS: u32 = 300;
    let mut config = EndpointConfig::new(Role::Sender, 1);
    config.host_rate = Some(Bitrate::from_mbps(300));
    let mut sender = GtpSender::new(&config);
    let mut limits = 0;
    for number in 0..RECEIVERS {
        // One a millisecond, each of which asks for all that there is.
        let now = Time::ZERO + Span::from_millis(u64::from(number));
        let (flow, size, token) = (FlowId(number), 1 << 30, u64::from(number));
        let offer = OfferFlow { flow, size, peer: None, only_from: None, mtu: 1500, token };
        sender.command(now, Command::Offer(offer)).unwrap();
        sender.handle_control(now, flow, &setup(number).emit());
        let rate = Bitrate::from_mbps(300);
        sender.handle_control(now, flow, &Control::Rate { epoch: 1, rate, burst: 1500 }.emit());
        sender.handle_timeout(now);
        limits += std::iter::from_fn(|| sender.poll_event()).count();
    }
    let end = Time::ZERO + Span::from_secs(1);
    sender.handle_timeout(end);
    limits += std::iter::from_fn(|| sender.poll_event()).count();
    assert!(sender.flows.values().all(|flow| flow.pacer.rate() == Bitrate::from_mbps(1)), "all have the same");
    // Of 300 x 300 / 2 that telling all of each newcomer would take.
    assert!(limits < 20_000, "{limits} messages");
}
