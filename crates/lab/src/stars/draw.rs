//! Draws a star from a seed.

use std::fmt::Write;

use inhaul_base::RandomStream;

use super::kind::{Kind, Knowledge};
use crate::draws::{log_uniform, pick};
use crate::joins::{INTERVAL_RTTS, INTERVAL_S_MIN, window_packets};

/// Least and most senders.
const SENDERS: (u64, u64) = (3, 12);
/// An epoch lasts at least this many central intervals, ...
const EPOCH_INTERVALS: f64 = 14.0;
/// ... and so long that this many windows fit behind the eight intervals that a flow has at most.
const EPOCH_WINDOWS: f64 = 4.0;
const EPOCH_S_MIN: f64 = 1.0;
/// Queues hold at least this many of the largest packets.
const QUEUE_PACKETS_MIN: f64 = 5.0;
/// At random stars of these rates; half of them are slow enough to be cheap.
const ACCESS: [(f64, u64); 3] = [(0.5, 100_000_000), (0.88, 1_000_000_000), (1.0, 10_000_000_000)];

/// A star that a seed has drawn.
#[derive(Clone, Debug)]
pub struct Star {
    /// The seed: the same number gives the same star.
    pub seed: u64,
    /// What disturbs its flows.
    pub kind: Kind,
    /// Rate of the access link, in bits per second.
    pub access_bps: u64,
    pub(super) loss: f64,
    draw: Drawn,
}

impl Star {
    /// The star of a seed. What disturbs it, and the rate of its access link, are drawn as well.
    pub fn of(seed: u64) -> Self {
        star(seed)
    }

    /// The scenario as TOML (docs/scenario.md).
    pub fn scenario(&self, knowledge: Knowledge) -> String {
        self.draw.scenario(self, knowledge)
    }

    /// The largest IP packet of a flow, in bytes.
    pub(super) fn mtu_of(&self, flow: &str) -> u16 {
        self.draw.mtu_of(flow)
    }
}

/// The drawn star, without its disturbance.
#[derive(Clone, Debug)]
struct Drawn {
    queue_ms: f64,
    flows: Vec<Flow>,
    cross: Option<Cross>,
    end_s: f64,
}

#[derive(Clone, Debug)]
struct Flow {
    rtt_ms: f64,
    link_bps: u64,
    /// Limit of the receiver's application.
    application_bps: Option<u64>,
    mtu: u16,
    /// When it starts and stops; `None`: with the run.
    start_s: f64,
    stop_s: Option<f64>,
}

#[derive(Clone, Debug)]
struct Cross {
    rtt_ms: f64,
    link_bps: u64,
    start_s: f64,
    stop_s: f64,
}

fn star(seed: u64) -> Star {
    let random = &mut RandomStream::new(seed, 0x57A2);
    let kind = match random.unit() {
        u if u < 0.5 => Kind::Clean,
        u if u < 0.75 => Kind::Loss,
        u if u < 0.88 => Kind::Jitter,
        _ => Kind::Cross,
    };
    let unit = random.unit();
    let access_bps = ACCESS.iter().find(|(part, _)| unit < *part).map_or(ACCESS[0].1, |(_, bps)| *bps);
    let loss = if kind == Kind::Loss { log_uniform(random, 0.001, 0.3) } else { 0.0 };
    let queue_ms = pick(random, &[5.0, 5.0, 5.0, 10.0, 20.0, 50.0]);
    let rtt_ms_max = if access_bps > 1_000_000_000 { 100.0 } else { 300.0 };
    let senders = SENDERS.0 + random.below(SENDERS.1 - SENDERS.0 + 1);
    let limited = pick(random, &[0.0, 0.3, 0.6]);
    let jumbo = pick(random, &[0.0, 0.0, 0.5, 1.0]);
    let mut flows: Vec<Flow> = (0..senders)
        .map(|_| {
            let rtt_ms = log_uniform(random, 1.0, rtt_ms_max);
            let own = log_uniform(random, 0.05, 1.0);
            let (is_limited, is_told) = (random.unit() < limited, random.unit() < 0.25);
            let limit = (access_bps as f64 * own) as u64;
            let faster = pick(random, &[1, 1, 10]) * access_bps;
            Flow {
                rtt_ms,
                link_bps: if is_limited && !is_told { limit } else { faster },
                application_bps: (is_limited && is_told).then_some(limit),
                mtu: if random.unit() < jumbo { 9000 } else { 1500 },
                start_s: 0.0,
                stop_s: None,
            }
        })
        .collect();
    let epoch_s = epoch_s(&flows, access_bps, loss);
    let end_s = events(random, &mut flows, epoch_s);
    let cross = (kind == Kind::Cross).then(|| Cross {
        rtt_ms: log_uniform(random, 5.0, 100.0),
        link_bps: (access_bps as f64 * (0.1 + 0.4 * random.unit())) as u64,
        start_s: end_s * 0.1,
        stop_s: end_s * (0.5 + 0.5 * random.unit()),
    });
    Star { seed, kind, access_bps, loss, draw: Drawn { queue_ms, flows, cross, end_s } }
}

/// How long nothing happens: long enough for eight central intervals, and to measure the slowest flow behind them.
fn epoch_s(flows: &[Flow], access_bps: u64, loss: f64) -> f64 {
    let rtt_s = flows.iter().map(|flow| flow.rtt_ms).fold(0.0, f64::max) / 1e3;
    let interval_s = (INTERVAL_RTTS * rtt_s).max(INTERVAL_S_MIN);
    let share_bps = access_bps as f64 / flows.len() as f64;
    let slowest = |flow: &Flow| {
        let bps = share_bps.min(flow.link_bps as f64).min(flow.application_bps.map_or(f64::INFINITY, |bps| bps as f64));
        window_packets(loss) * f64::from(flow.mtu) * 8.0 / bps
    };
    let window_s = flows.iter().map(slowest).fold(interval_s, f64::max);
    EPOCH_S_MIN.max(EPOCH_INTERVALS * interval_s).max(8.0 * interval_s + EPOCH_WINDOWS * window_s)
}

/// Draws who joins and leaves when. Returns when the run ends.
fn events(random: &mut RandomStream, flows: &mut [Flow], epoch_s: f64) -> f64 {
    let mut order: Vec<usize> = (0..flows.len()).collect();
    for k in (1..order.len()).rev() {
        order.swap(k, random.below(k as u64 + 1) as usize);
    }
    let at_first = 1 + random.below(order.len() as u64 - 1) as usize;
    let (mut active, mut waiting) = (order[..at_first].to_vec(), order[at_first..].to_vec());
    let count = 3 + random.below(3);
    let mut now_s = 0.0;
    for _ in 0..count {
        // Not in step with intervals.
        now_s += epoch_s * (1.0 + 0.2 * random.unit());
        for _ in 0..1 + random.below(2) {
            let joins = !waiting.is_empty() && (active.len() < 2 || random.unit() < 0.55);
            if joins && let Some(flow) = waiting.pop() {
                flows[flow].start_s = now_s;
                active.push(flow);
            } else if active.len() > 1 {
                let flow = active.swap_remove(random.below(active.len() as u64) as usize);
                // The flow that has just joined stays.
                if flows[flow].start_s < now_s {
                    flows[flow].stop_s = Some(now_s);
                } else {
                    active.push(flow);
                }
            }
        }
    }
    // Those for whom no event was drawn are there from the start, so that each sender is used.
    now_s + epoch_s
}

impl Drawn {
    fn mtu_of(&self, flow: &str) -> u16 {
        let number = flow.strip_prefix('f').and_then(|number| number.parse::<usize>().ok());
        number.and_then(|k| self.flows.get(k)).map_or(1500, |flow| flow.mtu)
    }

    fn scenario(&self, star: &Star, knowledge: Knowledge) -> String {
        let mut text = String::new();
        let jitter = if star.kind == Kind::Jitter { ", jitter = \"4 ms\"" } else { "" };
        let loss = if star.loss > 0.0 { format!(", loss = \"{:.4} %\"", star.loss * 100.0) } else { String::new() };
        // A queue must hold at least a few of the largest packets.
        let queue = |bps: u64, mtu: u16| {
            let least_ms = QUEUE_PACKETS_MIN * f64::from(mtu) * 8e3 / bps as f64;
            format!("queue = \"{} us\"", (self.queue_ms.max(least_ms) * 1e3) as u64)
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "title = \"Random star {}: {}\"", star.seed, star.kind.name());
        let _ = writeln!(text, "seed = {}", star.seed);
        let _ = writeln!(text, "duration = \"{} ms\"\nrecord = \"5 ms\"\n", (self.end_s * 1e3) as u64);
        let _ = writeln!(text, "[topology.star]");
        let _ = writeln!(
            text,
            "access = {{ rate = \"{} bit/s\", {}{loss}{jitter} }}",
            star.access_bps,
            queue(star.access_bps, 9000)
        );
        let _ = writeln!(text, "senders = [");
        let sender = |k: &str, rtt_ms: f64, bps: u64, mtu: u16| {
            let (rtt_us, queue) = ((rtt_ms * 1e3) as u64, queue(bps, mtu));
            format!("  {{ name = \"{k}\", rtt = \"{rtt_us} us\", link = {{ rate = \"{bps} bit/s\", {queue} }} }},\n")
        };
        for (k, flow) in self.flows.iter().enumerate() {
            text += &sender(&format!("s{k}"), flow.rtt_ms, flow.link_bps, flow.mtu);
        }
        if let Some(cross) = &self.cross {
            text += &sender("rival", cross.rtt_ms, cross.link_bps, 1500);
        }
        text += "]\n";
        for (k, flow) in self.flows.iter().enumerate() {
            let _ =
                writeln!(text, "\n[[flows]]\nname = \"f{k}\"\nprotocol = \"gtp\"\nfrom = \"s{k}\"\nto = \"receiver\"");
            let _ = writeln!(text, "mtu = {}\nstart = \"{} us\"", flow.mtu, (flow.start_s * 1e6) as u64);
            if let Some(stop_s) = flow.stop_s {
                let _ = writeln!(text, "stop = \"{} us\"", (stop_s * 1e6) as u64);
            }
            if let Some(bps) = flow.application_bps {
                let _ = writeln!(text, "application_rate = \"{bps} bit/s\"");
            }
            if knowledge == Knowledge::Told {
                let _ = writeln!(text, "parameters = {{ control = \"paper\" }}");
                let _ = writeln!(text, "receive_rate = \"{} bit/s\"", star.access_bps);
                let _ = writeln!(text, "link_rate = \"{} bit/s\"", flow.link_bps);
            }
        }
        if let Some(cross) = &self.cross {
            let _ = writeln!(
                text,
                "\n[[flows]]\nname = \"rival\"\nprotocol = \"cubic\"\nfrom = \"rival\"\nto = \"receiver\""
            );
            let (start, stop) = ((cross.start_s * 1e6) as u64, (cross.stop_s * 1e6) as u64);
            let _ = writeln!(text, "background = true\nstart = \"{start} us\"\nstop = \"{stop} us\"");
        }
        text
    }
}
