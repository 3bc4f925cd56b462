//! Draws a shared network from a seed.

use inhaul_base::RandomStream;
use inhaul_protocols::{tcp, udt};
use inhaul_transport::Protocol;

use super::kind::{Discipline, Kind, Place};
use super::network::{Change, Network, Own, PACKET_BITS, Rival, Udp, Web};
use crate::draws::{log_uniform, pick};
use crate::joins::{INTERVAL_RTTS, INTERVAL_S_MIN, window_packets};

/// The stream of random numbers of networks; runs have others.
const STREAM: u64 = 0xC03A;
/// Rates of bottlenecks in bit/s: up to which number of the drawn part, from, to. Most are cheap to simulate.
const RATES: [(f64, f64, f64); 5] =
    [(0.2, 1e6, 1e7), (0.6, 1e7, 1e8), (0.82, 1e8, 2e8), (0.95, 2e8, 1e9), (1.0, 1e9, 1e10)];
/// Up to these rates: the longest round-trip time and the longest queue, in milliseconds. On faster links, longer ones
/// would need runs that cost too much.
const LONGEST: [(f64, f64, f64); 3] = [(2e8, 300.0, 1000.0), (1e9, 200.0, 200.0), (1e10, 50.0, 50.0)];
const RTT_MS_MIN: f64 = 0.3;
/// The elastic rivals; one of them twice, as it is the most common.
const RIVALS: [&Protocol; 6] = [&tcp::RENO, &tcp::CUBIC, &tcp::CUBIC, &tcp::BBR, &tcp::BBR3, &udt::PROTOCOL];
const RIVALS_MAX: u64 = 20;
/// No flow has less than this on average, in bits per second: below, each has less than a packet on its way.
const FLOW_BPS_MIN: f64 = 100_000.0;
/// Most bits that the measured part of a run may carry, and most bits of the settling time before.
const WINDOW_BITS: f64 = 40e9;
const SETTLE_BITS: f64 = 10e9;
/// However fast the link is, this long is measured and settled, in seconds.
const WINDOW_S_MIN: f64 = 8.0;
const SETTLE_S_MIN: f64 = 2.0;
/// On links faster than this, own flows have fewer joins and leaves.
const FAST_BPS: f64 = 1e9;
/// Results after rivals leave are measured from here on.
pub(super) const AFTER_S: f64 = 3.0;

impl Network {
    /// The network of a seed.
    pub fn of(seed: u64) -> Self {
        let random = &mut RandomStream::new(seed, STREAM);
        let kind = match random.unit() {
            u if u < 0.6 => Kind::Elastic,
            u if u < 0.82 => Kind::Steady,
            _ => Kind::Changing,
        };
        let place = match random.unit() {
            u if u < 0.4 => Place::Dumbbell,
            u if u < 0.8 => Place::Receiver,
            _ => Place::Inner,
        };
        let unit = random.unit();
        let (_, from, to) = RATES.into_iter().find(|(part, ..)| unit < *part).unwrap_or(RATES[0]);
        let rate = rounded(log_uniform(random, from, to));
        let (_, rtt_max, queue_max) = LONGEST.into_iter().find(|(most, ..)| rate <= *most).unwrap_or(LONGEST[2]);
        let (queue_packets, discipline) = queue(random, rate, queue_max);
        let (crossing, others) = own_flows(random, kind, place, rate);
        let rtt_ms = log_uniform(random, RTT_MS_MIN, rtt_max);
        let near =
            |random: &mut RandomStream| log_uniform(random, rtt_ms / 4.0, rtt_ms * 4.0).clamp(RTT_MS_MIN, rtt_max);
        let side_bps = rate as u64 * pick(random, &[2, 10, 10]);
        let own: Vec<Own> = (0..crossing + others)
            .map(|k| Own {
                rtt_ms: if k == 0 { rtt_ms } else { near(random) },
                link_bps: side_bps,
                start_s: 0.0,
                stop_s: None,
            })
            .collect();
        let mut network = Self {
            seed,
            kind,
            place,
            rate_bps: rate as u64,
            queue_packets,
            discipline,
            access_bps: (rate * (2.0 + 3.0 * random.unit())) as u64,
            own,
            crossing,
            side_bps,
            rivals: Vec::new(),
            web: None,
            udp: None,
            course: Vec::new(),
            measure_s: [0.0, 1.0],
            leave_s: None,
            end_s: 1.0,
        };
        match kind {
            Kind::Elastic => network.beside_rivals(random, rtt_max),
            Kind::Steady => network.in_peace(random),
            Kind::Changing => network.through_changes(random),
        }
        network
    }

    fn rate(&self) -> f64 {
        self.rate_bps as f64
    }

    /// The longest time that a packet and its acknowledgement may be on their way, in seconds.
    fn slowest_s(&self) -> f64 {
        let rtts = self.own.iter().map(|own| own.rtt_ms).chain(self.rivals.iter().map(|rival| rival.rtt_ms));
        (rtts.fold(0.0, f64::max) + self.queue_ms().min(500.0)) / 1e3
    }

    /// How long everybody has to settle, and how long is measured then, in seconds.
    fn spans(&self) -> (f64, f64) {
        let slowest_s = self.slowest_s();
        let settle = (20.0 * slowest_s).clamp(4.0, 20.0).min((SETTLE_BITS / self.rate()).max(SETTLE_S_MIN));
        let window = (400.0 * slowest_s).clamp(60.0, 120.0).min((WINDOW_BITS / self.rate()).max(WINDOW_S_MIN));
        (settle, window)
    }

    fn beside_rivals(&mut self, random: &mut RandomStream, rtt_max: f64) {
        let most = ((self.rate() / 2.0 / FLOW_BPS_MIN) as u64).clamp(1, RIVALS_MAX);
        let count = match random.unit() {
            u if u < 0.4 => 1,
            u if u < 0.7 => 2 + random.below(3),
            _ => 5 + random.below(RIVALS_MAX - 4),
        };
        let (is_mixed, is_alike) = (random.unit() < 0.15, random.unit() < 0.5);
        let protocol = pick(random, &RIVALS).name;
        let rtt_ms = self.rtt_ms();
        self.rivals = (0..count.min(most))
            .map(|_| {
                let near = log_uniform(random, rtt_ms / 4.0, rtt_ms * 4.0).clamp(RTT_MS_MIN, rtt_max);
                let other = pick(random, &RIVALS).name;
                Rival {
                    protocol: if is_mixed { other } else { protocol },
                    rtt_ms: if is_alike { rtt_ms } else { near },
                    start_s: 0.0,
                }
            })
            .collect();
        let (settle_s, window_s) = self.spans();
        let stagger_s = settle_s / 2.0;
        let is_late = random.unit() < 0.25;
        let (own_s, rivals_s) = if is_late { (0.0, settle_s) } else { (stagger_s + settle_s, 0.0) };
        self.rivals.iter_mut().for_each(|rival| rival.start_s = rivals_s + stagger_s * random.unit());
        self.own.iter_mut().for_each(|own| own.start_s = own_s + 0.1 * random.unit());
        let from_s = self.starts_s().fold(0.0, f64::max) + settle_s;
        self.measure_s = [from_s, from_s + window_s];
        self.end_s = from_s + window_s;
        match random.unit() {
            u if u < 0.15 => self.web = Some(self.draw_web(random, 0.05, 0.3)),
            u if u < 0.25 => self.udp = Some(self.draw_udp(random, 0.1, 0.4)),
            u if u < 0.35 => self.step(random),
            u if u < 0.40 => self.walk(random),
            u if u < 0.85 => {
                self.leave_s = Some(self.end_s);
                self.end_s += AFTER_S + (20.0 * self.slowest_s()).clamp(2.0, 4.0);
            }
            _ => {}
        }
    }

    fn starts_s(&self) -> impl Iterator<Item = f64> {
        self.rivals.iter().map(|rival| rival.start_s).chain(self.own.iter().map(|own| own.start_s))
    }

    /// Only own flows join and leave.
    fn in_peace(&mut self, random: &mut RandomStream) {
        if random.unit() < 0.25 {
            self.udp = Some(Udp { bps: (self.rate() * (0.1 + 0.4 * random.unit())) as u64, spells: None });
        }
        let taken = self.udp.as_ref().map_or(0.0, |udp| udp.bps as f64);
        let share = (self.rate() - taken) / self.crossing as f64;
        if self.place == Place::Receiver && random.unit() < 0.3 {
            for own in &mut self.own {
                let limit = self.rate_bps as f64 * log_uniform(random, 0.05, 1.0);
                if random.unit() < 0.5 && limit >= FLOW_BPS_MIN {
                    own.link_bps = limit as u64;
                }
            }
        }
        let least = self.own.iter().map(|own| share.min(own.link_bps as f64)).fold(share, f64::min);
        let rtt_s = self.own.iter().map(|own| own.rtt_ms).fold(0.0, f64::max) / 1e3;
        let interval_s = (INTERVAL_RTTS * rtt_s).max(INTERVAL_S_MIN);
        let window_s = interval_s.max(window_packets(0.0) * PACKET_BITS / least);
        // As long as those of random stars: eight intervals, and then windows to measure the slowest flow.
        let epoch_s = 1f64.max(14.0 * interval_s).max(8.0 * interval_s + 4.0 * window_s);
        let events = if self.rate() > FAST_BPS { 2 } else { 2 + random.below(3) };
        let flows = self.own.len();
        let (mut active, mut waiting): (Vec<usize>, Vec<usize>) = (0..flows).partition(|k| *k < flows.div_ceil(2));
        let mut now_s = 0.0;
        for _ in 0..events {
            // Not in step with intervals.
            now_s += epoch_s * (1.0 + 0.2 * random.unit());
            let joins = active.len() < 2 || random.unit() < 0.55;
            if joins && let Some(k) = waiting.pop() {
                self.own[k].start_s = now_s;
                active.push(k);
            } else if active.len() > 1 {
                let k = active.swap_remove(random.below(active.len() as u64) as usize);
                self.own[k].stop_s = Some(now_s);
            }
        }
        self.end_s = now_s + epoch_s;
        self.measure_s = [epoch_s.min(3.0 * interval_s), self.end_s];
    }

    fn through_changes(&mut self, random: &mut RandomStream) {
        let (settle_s, window_s) = self.spans();
        self.own.iter_mut().for_each(|own| own.start_s = 0.1 * random.unit());
        let from_s = 0.1 + settle_s;
        self.measure_s = [from_s, from_s + window_s];
        self.end_s = from_s + window_s;
        match random.below(5) {
            0 => self.step(random),
            1 => self.walk(random),
            2 => self.vanish(random),
            3 => self.udp = Some(self.draw_udp(random, 0.3, 0.9)),
            _ => self.web = Some(self.draw_web(random, 0.1, 0.6)),
        }
    }

    /// Some other rates, one after the other.
    fn step(&mut self, random: &mut RandomStream) {
        let count = 2 + random.below(3);
        let [from_s, to_s] = self.measure_s;
        for k in 0..count {
            let at_s = from_s + (to_s - from_s) * (k as f64 + 0.3 * random.unit()) / count as f64;
            self.course.push(Change::Rate(at_s, self.part_of_rate(log_uniform(random, 0.2, 1.0))));
        }
    }

    /// Another rate each 200 ms.
    fn walk(&mut self, random: &mut RandomStream) {
        for k in 1..(self.end_s / 0.2) as u64 {
            self.course.push(Change::Rate(k as f64 * 0.2, self.part_of_rate(0.2 + 0.8 * random.unit())));
        }
    }

    fn part_of_rate(&self, part: f64) -> u64 {
        rounded(self.rate() * part) as u64
    }

    /// The link is gone, once or twice.
    fn vanish(&mut self, random: &mut RandomStream) {
        let count = 1 + random.below(2);
        let [from_s, to_s] = self.measure_s;
        let each_s = (to_s - from_s) / count as f64;
        for k in 0..count {
            let at_s = from_s + each_s * (k as f64 + 0.3 * random.unit());
            let gone_s = log_uniform(random, 0.1, 5.0).min(each_s / 3.0);
            self.course.extend([Change::Up(at_s, false), Change::Up(at_s + gone_s, true)]);
        }
    }

    fn draw_web(&self, random: &mut RandomStream, least: f64, most: f64) -> Web {
        let bytes_per_s = self.rate() * (least + (most - least) * random.unit()) / 8.0;
        // More transfers a second would cost more than they show.
        let mean_bytes = (bytes_per_s / 300.0).max(log_uniform(random, 2e4, 2e5));
        Web { arrivals_per_s: bytes_per_s / mean_bytes, mean_bytes: mean_bytes as u64, rtt_ms: self.rtt_ms() }
    }

    fn draw_udp(&self, random: &mut RandomStream, least: f64, most: f64) -> Udp {
        let bps = (self.rate() * (least + (most - least) * random.unit())) as u64;
        let (on_s, off_s) = (log_uniform(random, 0.02, 1.0), log_uniform(random, 0.02, 1.0));
        Udp { bps, spells: Some((on_s, off_s, random.unit() < 0.5)) }
    }
}

/// Three digits are enough for a rate.
fn rounded(bps: f64) -> f64 {
    let unit = 10f64.powf(bps.log10().floor() - 2.0);
    (bps / unit).round() * unit
}

/// Capacity of the bottleneck's queue, in packets, and its discipline.
fn queue(random: &mut RandomStream, rate: f64, longest_ms: f64) -> (u64, Discipline) {
    let packets = |ms: f64| (ms * rate / 1e3 / PACKET_BITS) as u64;
    let (is_tiny, few, ms) = (random.unit() < 0.2, 5 + random.below(16), log_uniform(random, 1.0, longest_ms));
    let drawn = if is_tiny { few } else { packets(ms).max(5) };
    match random.unit() {
        u if u < 0.7 => (drawn, Discipline::Tail),
        // Such queues have much room, and their drops keep them short.
        u if u < 0.85 => (drawn.max(packets(200.0)).max(50), Discipline::CoDel),
        _ if drawn >= 30 => (drawn, Discipline::Red),
        _ => (drawn, Discipline::Tail),
    }
}

/// The contestant's flows that cross the bottleneck, and the others.
fn own_flows(random: &mut RandomStream, kind: Kind, place: Place, rate: f64) -> (usize, usize) {
    let most = ((rate / FLOW_BPS_MIN / 2.0) as u64).max(1);
    let (unit, few, many) = (random.unit(), random.below(3), random.below(8));
    let crossing = match (kind, place) {
        (Kind::Elastic, Place::Receiver) if unit < 0.25 => 2 + few.min(1),
        (Kind::Elastic, _) => 1,
        (_, Place::Inner) => 1 + few,
        (_, Place::Dumbbell) => 1 + many.min(4),
        (_, Place::Receiver) => 1 + many,
    };
    let crossing = crossing.min(most);
    // At most as many beside the narrow link as over it: so it stays the bottleneck of those.
    let others = if place == Place::Inner { random.below(crossing + 1) } else { 0 };
    (crossing as usize, others as usize)
}
