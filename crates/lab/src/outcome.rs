//! The observations of a run by any backend: simulated, emulated or real. All are judged by the same metrics.

use inhaul_base::{Span, Time};

/// A run that has ended. Times count from its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Its backend: `sim` or `emu`.
    pub(crate) backend: &'static str,
    /// When it ended.
    pub(crate) ended: Time,
    /// The flows, in the order of the plan.
    pub(crate) flows: Vec<FlowOutcome>,
    /// The links that carried something, in the order of the topology.
    pub(crate) links: Vec<LinkOutcome>,
    /// Packets that came over links.
    pub(crate) packet_hops: u64,
    /// Fingerprint of every delivery, in hexadecimal, where runs repeat; else empty.
    pub(crate) trace: String,
    /// Processor time of all senders and of all receivers, in seconds, where there are any.
    pub(crate) cpu_s: Option<(f64, f64)>,
}

/// What became of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowOutcome {
    /// When it was complete, was stopped, failed, or the run ended.
    pub(crate) stop: Time,
    /// Bytes of data that it had been the first to deliver, by when.
    pub(crate) samples: Vec<(Time, u64)>,
    /// The same, at its end.
    pub(crate) bytes: u64,
    /// Everything that its receiver got, headers from IP up and duplicates included, in bytes.
    pub(crate) wire_bytes: u64,
    /// The data in that, in bytes.
    pub(crate) data_bytes: u64,
    /// Data packets that came.
    pub(crate) received_packets: u64,
    /// Data packets that were lost.
    pub(crate) lost_packets: u64,
    /// Smoothed round-trip time at the end, by the protocol's own measurement.
    pub(crate) rtt: Option<Span>,
    /// How long its sender was silent because the receiver had said when it would not run; `None`: not known.
    pub(crate) held: Option<Span>,
    /// Why it ended badly, if it did.
    pub(crate) failure: Option<String>,
}

/// What became of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkOutcome {
    /// Its name.
    pub(crate) name: String,
    /// Its rate at the start, headers included, in bits per second; `None`: no limit.
    pub(crate) rate_bps: Option<u64>,
    /// Bytes that it carried to its end.
    pub(crate) carried_bytes: u64,
    /// Packets that were sent into it.
    pub(crate) offered_packets: u64,
    /// Packets of these that were dropped or lost.
    pub(crate) dropped_packets: u64,
    /// Packets that were marked as having met congestion.
    pub(crate) marked_packets: u64,
    /// Most bytes that waited for its transmitter.
    pub(crate) queue_bytes_max: u64,
    /// Bytes that it had carried, at which times; empty if it was not sampled.
    pub(crate) series: Vec<(Time, u64)>,
}

impl FlowOutcome {
    /// Lost over received and lost.
    pub(crate) fn losses(&self) -> Losses {
        Losses { received: self.received_packets, lost: self.lost_packets }
    }
}

/// Data packets that came and that did not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    received: u64,
    lost: u64,
}

impl Losses {
    pub(crate) fn ratio(self) -> f64 {
        self.lost as f64 / (self.received + self.lost).max(1) as f64
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { received: self.received + other.received, lost: self.lost + other.lost }
    }
}
