//! The plan of a seed: the protocol, the paths, the hosts, and the faults with their times.

use std::sync::Arc;

use inhaul_base::{Bitrate, Probability, RandomStream, Span, Time};
use inhaul_link::{GilbertElliottSpec, LinkSpec, LossSpec, QueueLimit, ReorderingSpec};
use inhaul_sim::{HostNoise, Stall};

use crate::{MIB, noise, protocols};

/// Random numbers of a plan: others of the same seed are the simulation's.
const PLAN_STREAM: u64 = 77 << 32;

/// A sender and its path.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Its own link, to the hub and back.
    pub there: LinkSpec,
    /// See [`Mirror::there`].
    pub back: LinkSpec,
    /// How late and unevenly its host runs.
    pub noise: Option<Arc<HostNoise>>,
    /// Its clock's first reading, its drift in millionths, and the time and size of its jump ahead.
    pub clock: (Span, i64, Vec<(Time, Span)>),
    /// When its transfer starts.
    pub start: Span,
    /// R_send.
    pub send_limit: Option<Bitrate>,
}

/// Something that goes wrong. Mirrors are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A mirror's link is dead for a while, in both directions.
    Partition(usize, Span),
    /// A mirror's link is dead for ever.
    Severed(usize),
    /// The receiver's link is dead for a while.
    Offline(Span),
    /// The receiver's link gets another rate.
    Access(Bitrate),
    /// A mirror's link gets another rate.
    Rate(usize, Bitrate),
    /// A sender's process ends, and starts again after a while, or never.
    SenderCrash(usize, Option<Span>),
    /// A sender's host falls silent, and is there again after a while, knowing nothing.
    PowerOff(usize, Span),
    /// The receiver's process ends; another continues after a while with the verified data: this many of 8 parts of the
    /// placed bytes.
    ReceiverCrash(Span, u64),
    /// The receiver's address changes.
    ReceiverMoves,
    /// A sender's address changes.
    SenderMoves(usize),
    /// The control stream breaks.
    Break(usize),
    /// The control stream's own network stands still for a while.
    ControlStall(usize, Span),
    /// A router on a mirror's path takes only packets up to this many bytes, from now on.
    Mtu(usize, u32),
    /// Datagrams go through a tunnel for a while, and then again as they are.
    Tunnel(usize, Span),
    /// Some placed bytes are found wrong: `parts` of 1000 parts of the object, from `from` on.
    Wrong(u64, u64),
}

/// All that a seed stands for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The protocol.
    pub protocol: &'static str,
    /// Bytes of the object.
    pub size: u64,
    /// The senders.
    pub mirrors: Vec<Mirror>,
    /// The receiver's link.
    pub access: LinkSpec,
    /// How the receiver's host runs.
    pub noise: Option<Arc<HostNoise>>,
    /// The receiver's clock.
    pub clock: (Span, i64, Vec<(Time, Span)>),
    /// C_r as told.
    pub host_rate: Option<Bitrate>,
    /// What protocols send at that are given a rate.
    pub flow_rate: Bitrate,
    /// Largest packet that hosts believe in.
    pub mtu: u16,
    /// Whether control streams have a network of their own.
    pub control_apart: bool,
    /// Whether datagrams cost what sealed ones do.
    pub sealed: bool,
    /// Whether lost mirrors are opened again, as the program does.
    pub reopens: bool,
    /// The faults, in order.
    pub faults: Vec<(Span, Fault)>,
    /// No bytes in place after so long is a hang.
    pub bound: Span,
}

fn chance(random: &mut RandomStream, percent: u64) -> bool {
    random.below(100) < percent
}

/// A number between two, small ones as often as large ones.
fn log_between(random: &mut RandomStream, low: u64, high: u64) -> u64 {
    let (low_ln, high_ln) = ((low as f64).ln(), (high as f64).ln());
    ((low_ln + (high_ln - low_ln) * random.unit()).exp() as u64).clamp(low, high)
}

fn pick<T: Copy>(random: &mut RandomStream, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

/// What packets of a plan meet with, on every mirror's link.
#[derive(Clone, Copy)]
struct Weather {
    loss: f64,
    in_bursts: bool,
    /// A datagram that was changed on its way is dropped by its checksum or seal, where it has arrived.
    corruption: f64,
    reordering: f64,
    late: Span,
    duplication: f64,
    jitter: Span,
}

impl Weather {
    fn draw(random: &mut RandomStream) -> Self {
        let loss = match random.below(100) {
            0..40 => 0.0,
            40..75 => random.unit() * 0.01,
            75..95 => random.unit() * 0.05,
            _ => random.unit() * 0.2,
        };
        let some = |random: &mut RandomStream, percent, most: f64| {
            if chance(random, percent) { random.unit() * most } else { 0.0 }
        };
        Self {
            loss,
            in_bursts: chance(random, 25),
            corruption: some(random, 25, 0.02),
            reordering: some(random, 30, 0.3),
            late: Span::from_micros(log_between(random, 10, 20_000)),
            duplication: some(random, 25, 0.3),
            jitter: Span::from_micros(if chance(random, 20) { random.below(3_000) } else { 0 }),
        }
    }

    fn gone(self) -> f64 {
        1.0 - (1.0 - self.loss) * (1.0 - self.corruption)
    }

    fn on(self, spec: &LinkSpec) -> LinkSpec {
        let p = |p: f64| Probability::new(p).expect("a probability");
        let gone = self.gone();
        let loss = match self.in_bursts {
            _ if gone == 0.0 => LossSpec::None,
            // Bursts of ten packets, in which half of them are lost.
            true => LossSpec::GilbertElliott(GilbertElliottSpec {
                to_bad: p((gone / 5.0).min(1.0)),
                to_good: p(0.1),
                loss_in_good: Probability::ZERO,
                loss_in_bad: p(0.5),
            }),
            false => LossSpec::Random(p(gone)),
        };
        LinkSpec {
            loss,
            reordering: ReorderingSpec { probability: p(self.reordering), by: self.late },
            duplication: p(self.duplication),
            jitter: self.jitter,
            ..spec.clone()
        }
    }
}

fn clock(random: &mut RandomStream, until: Span) -> (Span, i64, Vec<(Time, Span)>) {
    if !chance(random, 35) {
        return (Span::ZERO, 0, Vec::new());
    }
    let ahead = if chance(random, 50) { Span::from_millis(log_between(random, 1, 1 << 33)) } else { Span::ZERO };
    let ppm = random.below(401) as i64 - 200;
    let mut jumps: Vec<_> = (0..random.below(4))
        .map(|_| (Time::ZERO + random.span_below(until), Span::from_micros(log_between(random, 10, 4_000_000_000))))
        .collect();
    jumps.sort();
    (ahead, ppm, jumps)
}

fn host(random: &mut RandomStream) -> Option<Arc<HostNoise>> {
    match random.below(100) {
        0..70 => None,
        70..90 => Some(Arc::new(noise(random))),
        // A host that is suspended now and then.
        _ => {
            let stall = |random: &mut RandomStream| Stall {
                after: Span::from_millis(3_000 + random.below(5_000)),
                length: Span::from_millis(log_between(random, 50, 3_000)),
            };
            let stalls = (0..17).map(|_| stall(random)).collect();
            Some(Arc::new(HostNoise { stalls, ..noise(random) }))
        }
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let random = &mut RandomStream::new(seed, PLAN_STREAM);
        let names: Vec<&str> = protocols().map(|protocol| protocol.name).collect();
        let protocol = if chance(random, 35) { names[0] } else { pick(random, &names) };
        let weather = Weather::draw(random);
        let control_apart = chance(random, 50);
        let mtu = pick(random, &[1500, 1500, 1500, 9000, 1280, 576]);
        let access = Bitrate::from_bps(log_between(random, 1_000_000, 1_000_000_000));
        let queue = |random: &mut RandomStream, rate: Bitrate| {
            let bytes = rate.bytes_in(Span::from_millis(log_between(random, 1, 200)));
            QueueLimit::Bytes(bytes.max(20 * u64::from(mtu)))
        };
        let mut slowest = access;
        let mut rtt_max = Span::ZERO;
        let count = 1 + random.below(4);
        let mut mirrors: Vec<Mirror> = (0..count)
            .map(|k| {
                let rate = Bitrate::from_bps(log_between(random, 1_000_000, 1_000_000_000));
                slowest = slowest.min(rate);
                let rtt = Span::from_micros(log_between(random, 30, 300_000));
                rtt_max = rtt_max.max(rtt);
                let limit = queue(random, rate);
                let there = weather.on(&LinkSpec::drop_tail(rate, rtt / 2, limit));
                let back = weather.on(&LinkSpec::drop_tail(rate.max(Bitrate::from_mbps(2)), rtt / 2, limit));
                let start =
                    if k == 0 || chance(random, 60) { Span::ZERO } else { random.span_below(Span::from_secs(1)) };
                let send_limit = chance(random, 10).then(|| rate.mul_f64(0.5 + random.unit()));
                Mirror { there, back, noise: host(random), clock: (Span::ZERO, 0, Vec::new()), start, send_limit }
            })
            .collect();
        // Bounds the work of a run: what takes long is few bytes.
        let most = slowest.bytes_in(Span::from_secs(20)).min(16 * MIB);
        let most = if weather.gone() > 0.05 { most.min(200_000) } else { most };
        let size = log_between(random, 1, most.max(2));
        // The approximate time of the transfer without faults.
        let usual = slowest.time_for(size) + rtt_max * 6 + Span::from_millis(50);
        let mut faults: Vec<_> = (0..random.below(7))
            .map(|_| (random.span_below(usual * 2), fault(random, count as usize, control_apart, mtu, access)))
            .collect();
        faults.sort_by_key(|fault| fault.0);
        for mirror in &mut mirrors {
            mirror.clock = clock(random, usual * 2);
        }
        let mut plan = Self {
            seed,
            protocol,
            size,
            mirrors,
            access: LinkSpec::drop_tail(access, Span::ZERO, queue(random, access)),
            noise: host(random),
            clock: clock(random, usual * 2),
            host_rate: chance(random, 15).then(|| access.mul_f64(0.5 + random.unit())),
            flow_rate: slowest.mul_f64(0.5 + 2.5 * random.unit()),
            mtu,
            control_apart,
            sealed: chance(random, 50),
            reopens: chance(random, 60),
            faults,
            bound: Span::ZERO,
        };
        plan.bound = plan.bound(weather, slowest, rtt_max);
        plan
    }

    /// The time in which it must have ended: three times the length of the faults (timers have been doubled meanwhile),
    /// half a minute for each flow that falls silent, the time to open paths, and twenty times the time over the
    /// slowest path, with TCP's law of loss (Mathis 1997).
    fn bound(&self, weather: Weather, mut slowest: Bitrate, rtt: Span) -> Span {
        let mut outages = Span::ZERO;
        let mut last = self.mirrors.iter().map(|mirror| mirror.start).max().unwrap_or_default();
        for (at, fault) in &self.faults {
            last = last.max(*at);
            match fault {
                Fault::Access(rate) | Fault::Rate(_, rate) => slowest = slowest.min(*rate),
                Fault::Partition(_, span)
                | Fault::Offline(span)
                | Fault::PowerOff(_, span)
                | Fault::SenderCrash(_, Some(span))
                | Fault::ReceiverCrash(span, _)
                | Fault::ControlStall(_, span)
                | Fault::Tunnel(_, span) => outages = outages + *span,
                _ => {}
            }
            outages = outages + Span::from_secs(30);
        }
        let losses = weather.gone() + weather.reordering / 4.0;
        let rtt = (rtt + weather.late + weather.jitter + Span::from_millis(5)).as_secs_f64();
        let by_loss = 500.0 * 8.0 / (rtt * losses.max(1e-6).sqrt());
        let by_loss = if losses > 0.05 { by_loss.min(2_000.0) } else { by_loss };
        let floor = by_loss.min(slowest.min(self.flow_rate).as_f64());
        let work = self.size as f64 * 8.0 / floor * 20.0;
        last + outages * 3 + Span::from_secs(200) + Span::from_secs_f64(work)
    }
}

fn fault(random: &mut RandomStream, mirrors: usize, control_apart: bool, mtu: u16, access: Bitrate) -> Fault {
    let mirror = random.below(mirrors as u64) as usize;
    let span = |random: &mut RandomStream, most| Span::from_millis(log_between(random, 5, most));
    match random.below(17) {
        0 | 1 => Fault::Partition(mirror, span(random, 60_000)),
        2 => Fault::Severed(mirror),
        3 => Fault::Offline(span(random, 45_000)),
        4 => Fault::Access(Bitrate::from_bps(log_between(random, 500_000, 2 * access.bps()))),
        5 => Fault::Rate(mirror, Bitrate::from_bps(log_between(random, 500_000, 2 * access.bps()))),
        6 => Fault::SenderCrash(mirror, chance(random, 70).then(|| span(random, 10_000))),
        7 => Fault::PowerOff(mirror, span(random, 45_000)),
        8 | 9 => Fault::ReceiverCrash(span(random, 5_000), random.below(9)),
        10 => Fault::ReceiverMoves,
        11 => Fault::SenderMoves(mirror),
        12 => Fault::Break(mirror),
        13 | 14 if control_apart => Fault::ControlStall(mirror, span(random, 20_000)),
        15 if control_apart => Fault::Mtu(mirror, 604 + random.below(u64::from(mtu)) as u32),
        16 => Fault::Wrong(random.below(1000), 1 + random.below(300)),
        _ if control_apart => Fault::Partition(mirror, span(random, 3_000)),
        _ => Fault::Tunnel(mirror, span(random, 20_000)),
    }
}
