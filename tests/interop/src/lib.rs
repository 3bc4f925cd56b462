//! Our simulator and TCP family beside ns-3 3.37 on the same dumbbell, and our UDT 4 beside libudt.
//!
//! [`Setting`] is a dumbbell with its flows as plain data. [`ours::run`] plays it here, [`ns3::Reference::run`] there
//! (`ns3/dumbbell.cc`); both give an [`Outcome`], and [`judge`] says whether they agree, by criteria that stand in its
//! documentation and were written before the first comparison. [`settings::all`] is the table that is kept in
//! bench/NS3.md.
//!
//! Our UDT 4 beside libudt: `tests/udt4` shows each case, the program `udt4_path` long transfers over emulated paths, and
//! `udt4_rates` how the rates of both go, and of ours in the simulator.
//! Both use programs over libudt ([`libudt`]) and a stream that both sides can make ([`noise`]).

pub mod emulated;
pub mod judge;
pub mod libudt;
pub mod noise;
pub mod ns3;
pub mod ours;
pub mod report;
pub mod settings;

use inhaul_base::{RandomStream, Span};
use serde::{Deserialize, Serialize};

/// Bytes of data in a packet.
pub const SEGMENT_BYTES: u64 = 1_448;
/// Bytes of a packet from IP up, here: our header is as long as TCP's with timestamps.
pub const PACKET_BYTES: u64 = SEGMENT_BYTES + 52;
/// Propagation delay of the bottleneck, one way.
pub const BOTTLENECK_DELAY: Span = Span::from_millis(1);
/// Access links are this many times as fast as the bottleneck.
pub const ACCESS_FACTOR: u64 = 10;

/// A law's name ends so when its first slow start is to end by HyStart.
pub const HYSTART: &str = "-hystart";

/// A TCP flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Name of its law: `reno`, `highspeed`, `scalable`, `bic` or `cubic`, here as there; `cubic` with [`HYSTART`],
    /// too.
    pub law: &'static str,
    /// Round-trip time without queues.
    pub rtt: Span,
    /// When it starts, before the seed's shift.
    pub start: Span,
}

/// Losses on the bottleneck besides its queue's drops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Nothing.
    None,
    /// Each packet with this probability; each simulator draws for itself.
    Random(f64),
    /// Each packet with this probability, drawn beforehand: in both simulators packets of the same numbers are lost.
    Drawn(f64),
}

/// Flows on a dumbbell: access links with the flow's own delay, and one drop-tail bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name in tables.
    pub name: String,
    /// Rate of the bottleneck in Mbit/s, of packets from IP up.
    pub rate_mbps: u64,
    /// Packets that its queue holds.
    pub queue_packets: u64,
    /// The flows.
    pub flows: Vec<Flow>,
    /// Further losses.
    pub loss: Loss,
    /// How long is simulated.
    pub duration: Span,
    /// From when on goodput counts.
    pub from: Span,
    /// Why it is known not to agree, when it does not.
    pub known_difference: Option<&'static str>,
    /// How many seeds are averaged over. A seed shifts the flows' starts by up to 100 ms, draws the losses, and
    /// lengthens round trips by up to `rtt_spread`.
    pub seeds: u64,
    /// Where flows share a queue, which of them loses a packet depends on fractions of a packet's time: drawn
    /// round-trip times average over that.
    pub rtt_spread: Span,
}

impl Setting {
    /// When each flow starts under a seed.
    pub fn starts(&self, seed: u64) -> Vec<Span> {
        let mut random = RandomStream::new(seed, 1);
        // Whole microseconds: ns-3's program takes them.
        self.flows.iter().map(|flow| flow.start + Span::from_micros(random.below(100_000))).collect()
    }

    /// Round-trip times under a seed.
    pub fn rtts(&self, seed: u64) -> Vec<Span> {
        let mut random = RandomStream::new(seed, 3);
        // Half of it is the delay of a link, in whole microseconds.
        let most = self.rtt_spread.as_nanos() / 2_000;
        self.flows.iter().map(|flow| flow.rtt + Span::from_micros(2 * random.below(most + 1))).collect()
    }

    /// Numbers of the packets that are lost under a seed, counted at the bottleneck's end; in order.
    pub fn drawn_losses(&self, seed: u64) -> Vec<u64> {
        let Loss::Drawn(probability) = self.loss else { return Vec::new() };
        let mut random = RandomStream::new(seed, 2);
        let most = self.rate_mbps * 1_000_000 / 8 / PACKET_BYTES * self.duration.as_nanos() / 1_000_000_000;
        (0..most).filter(|_| random.unit() < probability).collect()
    }
}

/// How a flow fared, at the end of each step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Bytes of data that came in order, in all.
    pub received_bytes: Vec<u64>,
    /// The congestion window.
    pub window_packets: Vec<u64>,
}

/// The outcome of a setting under one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Seconds from one sample to the next.
    pub step_s: f64,
    /// Packets received on all devices.
    pub hops: u64,
    /// Packets that the bottleneck's queue dropped.
    pub queue_drops: u64,
    /// Packets lost on the bottleneck besides.
    pub random_drops: u64,
    /// The flows, in the order of the setting.
    pub flows: Vec<FlowOutcome>,
}
