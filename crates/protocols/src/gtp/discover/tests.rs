//! The law without a network: fluids in place of packets give the arrivals of an interval.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::kit::max_min;
use inhaul_transport::{FlowId, ObjectId};
use proptest::prelude::*;

use super::{Capacities, Found, Group, Member, Policy, Sample, Times};
use crate::gtp::monitor::{Interval, Loss};

const BASE: Span = Span::from_millis(30);
const INTERVAL: Span = Span::from_millis(90);
const PACKET: u64 = 1_500;
const SOCKET_BUFFER: u64 = 4 << 20;

/// A link that fluids share.
struct Link {
    capacity: Bitrate,
    /// The length of its queue, and its maximum, in seconds.
    queue: f64,
    depth: f64,
}

impl Link {
    /// Fluids of these rates come in for an interval. Returns the output of each, and the lost part of all.
    fn carry(&mut self, rates: &[f64]) -> (Vec<f64>, f64) {
        let (sent, capacity, span) = (rates.iter().sum::<f64>(), self.capacity.as_f64(), INTERVAL.as_secs_f64());
        let filled = self.queue + (sent / capacity - 1.0) * span;
        let lost = (filled - self.depth).max(0.0) * capacity / (sent * span).max(1.0);
        let came = sent.min(capacity) + (self.queue / span * capacity).min((capacity - sent).max(0.0));
        self.queue = filled.clamp(0.0, self.depth);
        (rates.iter().map(|rate| rate / sent.max(1.0) * came).collect(), lost)
    }
}

/// A receiver behind one link, with a narrow path before some of its flows.
struct Host {
    law: Capacities,
    link: Link,
    /// A link that all flows but the first cross.
    inner: Option<Link>,
    flows: Vec<(Found, Bitrate, Option<Link>)>,
    now: Time,
    wire_bytes: u64,
}

impl Host {
    fn new(capacity: Bitrate, depth: f64, paths: &[Option<Bitrate>]) -> Self {
        let link = |capacity| Link { capacity, queue: 0.0, depth };
        let flow = |path: &Option<Bitrate>| (Found::default(), capacity.mul_f64(0.1), path.map(link));
        Self {
            law: Capacities::new(Policy::Fair),
            link: link(capacity),
            inner: None,
            flows: paths.iter().map(flow).collect(),
            now: Time::ZERO + Span::from_secs(1),
            wire_bytes: 0,
        }
    }

    /// An interval passes, in which `others` come through the receiver's link, too. Returns the arrivals of each flow.
    fn pass(&mut self, others: f64) -> Vec<Bitrate> {
        self.now += INTERVAL;
        let mut rates: Vec<f64> = Vec::new();
        let mut seen: Vec<(f64, f64)> = Vec::new();
        for (_, told, path) in &mut self.flows {
            let (came, lost) = path.as_mut().map_or((told.as_f64(), 0.0), |link| {
                let (came, lost) = link.carry(&[told.as_f64()]);
                (came[0], lost)
            });
            rates.push(came);
            seen.push((path.as_ref().map_or(0.0, |link| link.queue), lost));
        }
        if let Some(inner) = &mut self.inner {
            let (came, lost) = inner.carry(&rates[1..]);
            rates[1..].copy_from_slice(&came);
            seen[1..].iter_mut().for_each(|(queue, loss)| (*queue, *loss) = (*queue + inner.queue, *loss + lost));
        }
        rates.push(others);
        let (came, lost) = self.link.carry(&rates);
        let rates: Vec<Bitrate> = came[..self.flows.len()].iter().map(|rate| Bitrate::from_f64(*rate)).collect();
        self.wire_bytes += rates.iter().map(|rate| rate.bytes_in(INTERVAL)).sum::<u64>();
        let mut members = Vec::new();
        for (k, (found, told, _)) in self.flows.iter_mut().enumerate() {
            let queue = Span::from_secs_f64(self.link.queue + seen[k].0);
            let loss = (lost + seen[k].1).min(1.0);
            let packets = told.bytes_in(INTERVAL) / PACKET;
            let sample = Sample {
                object: ObjectId(k as u32),
                block: PACKET - 60,
                packet: PACKET,
                runs: true,
                is_stream: false,
                stream_use: None,
                told: *told,
                target: *told,
                bound: Bitrate::from_gbps(1_000),
                rtt: BASE + queue,
                base_rtt: BASE,
                recent_queue: queue,
                recent_loss: Loss { ratio: loss, packets },
                reorder: Span::from_millis(5),
                packets: (0, 0),
            };
            let (received, recent) = (rates[k], rates[k]);
            let interval =
                Interval { received, loss, marked: 0.0, packets, queue, queue_mean: queue, dry: false, recent };
            members.push(Member::new(FlowId(k as u32), sample, found, Some(interval)));
        }
        let mut group = Group::new(members.into_iter());
        let times = Times { now: self.now, active: self.now, interval: INTERVAL, held: false };
        self.law.discover(times, self.wire_bytes, SOCKET_BUFFER, &mut group);
        let wanted: Vec<Bitrate> =
            self.flows.iter().map(|(found, told, _)| found.estimate.min(told.mul_f64(4.0))).collect();
        let limit = self.law.limit().unwrap_or(Bitrate::MAX);
        for ((_, told, _), target) in self.flows.iter_mut().zip(max_min(limit, &wanted)) {
            *told = target;
        }
        rates
    }

    fn settle(&mut self, intervals: usize) -> Vec<f64> {
        let mut mean = vec![0.0; self.flows.len()];
        for k in 0..intervals {
            let came = self.pass(0.0);
            if k >= intervals / 2 {
                mean.iter_mut()
                    .zip(came)
                    .for_each(|(mean, came)| *mean += came.as_f64() / (intervals.div_ceil(2)) as f64);
            }
        }
        mean
    }
}

proptest! {
    #[test]
    fn law_finds_what_a_receiver_takes_and_divides_it(
        mbps in 5_u64..2_000,
        count in 1_usize..6,
        depth_ms in 10_u64..200,
    ) {
        let capacity = Bitrate::from_mbps(mbps);
        let mut host = Host::new(capacity, depth_ms as f64 / 1e3, &vec![None; count]);
        let came = host.settle(200);
        let share = capacity.as_f64() / count as f64;
        prop_assert!(came.iter().all(|came| (0.93..1.001).contains(&(came / share))), "{came:?} of {share}");
        prop_assert!(!host.law.is_competing(), "there is no rival");
    }

    #[test]
    fn law_gives_what_a_narrow_path_leaves_to_the_others(mbps in 20_u64..500, part in 0.05_f64..0.4) {
        let (capacity, narrow) = (Bitrate::from_mbps(mbps), Bitrate::from_mbps(mbps).mul_f64(part));
        let mut host = Host::new(capacity, 0.05, &[None, Some(narrow)]);
        let came = host.settle(300);
        let (narrow, rest) = (narrow.as_f64(), capacity.as_f64() * (1.0 - part));
        prop_assert!((0.9..1.001).contains(&(came[1] / narrow)), "{came:?}");
        prop_assert!((0.9..1.05).contains(&(came[0] / rest)), "{came:?} of {rest}");
    }
}

#[test]
fn a_queue_that_others_always_fill_is_competed_for() {
    let capacity = Bitrate::from_mbps(100);
    let mut host = Host::new(capacity, 0.05, &[None]);
    host.settle(100);
    assert!(!host.law.is_competing());
    // Others take all that we leave, and keep the queue full, as TCP does.
    let entered = (0..200).find(|_| {
        let told = host.flows[0].1.as_f64();
        host.pass((capacity.as_f64() * 1.02 - told).max(0.0));
        host.law.is_competing()
    });
    assert!(entered.is_some(), "told {:?}", host.flows[0].1);
    assert!(host.flows[0].0.competes());
    let orders = host.flows[0].0.take_orders();
    assert!(orders.keep_base && orders.drop_plans, "{orders:?}");
}

#[test]
fn queue_of_most_flows_is_not_the_receivers_where_one_shows_that_it_is_not() {
    let mut host = Host::new(Bitrate::from_mbps(100), 0.05, &[None, None, None]);
    // Two of three share a narrow link.
    host.inner = Some(Link { capacity: Bitrate::from_mbps(40), queue: 0.0, depth: 0.05 });
    let came = host.settle(400);
    assert!(came[0] > 50e6, "the one that does not cross it: {came:?}");
    assert!(came[1] + came[2] > 36e6, "{came:?}");
}
