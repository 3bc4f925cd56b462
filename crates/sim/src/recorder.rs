//! Time series of each transfer and each link, at even intervals.

use std::io::{self, Write};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::FlowStats;
use serde::Serialize;

use crate::agenda::ComponentId;
use crate::ids::EndpointId;

/// How to record a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderSpec {
    /// From one sample to the next.
    pub interval: Span,
}

/// How a transfer stood at a time. Counters run from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// Bytes of the object that came by this transfer.
    pub placed_bytes: u64,
    /// Bytes received with all headers from IP up.
    pub wire_bytes: u64,
    /// Data packets received.
    pub received_packets: u64,
    /// Data packets found lost, by the end that looks for losses.
    pub lost_packets: u64,
    /// Smoothed round-trip time, of the end that measures it; zero when unknown.
    pub rtt: Span,
    /// Rate at which data came in lately, headers included.
    pub received_rate: Bitrate,
    /// Rate that the scheduler gives the flow; zero when there is none.
    pub target_rate: Bitrate,
    /// Rate requested from the sender, or its pace; zero without one.
    pub requested_rate: Bitrate,
    /// Bytes on their way: asked for by the receiver or sent by the sender, and not there yet.
    pub window_bytes: u64,
    /// Standing queue on the path, as time, as the endpoint sees it; zero when unknown.
    pub queue_delay: Span,
}

impl Sample {
    /// A sample from both ends. If only one end measures a value, that end counts; if both do, the receiver.
    pub(crate) fn of(at: Time, placed_bytes: u64, receiver: &FlowStats, sender: &FlowStats) -> Self {
        let known =
            |span: fn(&FlowStats) -> Span| if span(receiver) > Span::ZERO { span(receiver) } else { span(sender) };
        let rate = |rate: fn(&FlowStats) -> Bitrate| {
            if rate(receiver) > Bitrate::ZERO { rate(receiver) } else { rate(sender) }
        };
        Self {
            at,
            placed_bytes,
            wire_bytes: receiver.wire_bytes,
            received_packets: receiver.received_packets,
            lost_packets: receiver.lost_packets.max(sender.lost_packets),
            rtt: known(|stats| stats.rtt),
            received_rate: receiver.received_rate,
            target_rate: rate(|stats| stats.target_rate),
            requested_rate: rate(|stats| stats.requested_rate),
            window_bytes: if sender.window_bytes > 0 { sender.window_bytes } else { receiver.outstanding_bytes },
            queue_delay: known(|stats| stats.queue_delay),
        }
    }
}

/// How a link stood at a time. Counters run from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkSample {
    /// When.
    pub at: Time,
    /// Bytes that waited for the transmitter.
    pub queue_bytes: u64,
    /// Bytes that were transmitted, or are being.
    pub carried_bytes: u64,
    /// Packets dropped or lost, for any cause.
    pub dropped_packets: u64,
}

/// The recorder while it runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) spec: RecorderSpec,
    pub(crate) component: ComponentId,
    pub(crate) links: Vec<Vec<LinkSample>>,
}

impl Recorder {
    pub(crate) fn memory_bytes(&self) -> usize {
        self.links.iter().map(|series| series.capacity() * size_of::<LinkSample>()).sum()
    }
}

/// The watcher of the hosts' TCP.
#[derive(Debug)]
pub(crate) struct TcpWatch {
    pub(crate) component: ComponentId,
    pub(crate) every: Span,
    /// Endpoints that stand for the kernel's TCP.
    pub(crate) tcp: Vec<EndpointId>,
    /// Received bytes of each transfer at the last sample.
    pub(crate) seen: Vec<u64>,
    pub(crate) looked: Time,
}

/// A sample with its units in the names, as files have it.
#[derive(Serialize)]
struct Row {
    t_s: f64,
    placed_bytes: u64,
    wire_bytes: u64,
    received_packets: u64,
    lost_packets: u64,
    rtt_ms: f64,
    received_bps: u64,
    target_bps: u64,
    requested_bps: u64,
    window_bytes: u64,
    queue_delay_ms: f64,
}

impl From<&Sample> for Row {
    fn from(sample: &Sample) -> Self {
        Self {
            t_s: sample.at.as_secs_f64(),
            placed_bytes: sample.placed_bytes,
            wire_bytes: sample.wire_bytes,
            received_packets: sample.received_packets,
            lost_packets: sample.lost_packets,
            rtt_ms: sample.rtt.as_millis_f64(),
            received_bps: sample.received_rate.bps(),
            target_bps: sample.target_rate.bps(),
            requested_bps: sample.requested_rate.bps(),
            window_bytes: sample.window_bytes,
            queue_delay_ms: sample.queue_delay.as_millis_f64(),
        }
    }
}

/// Writes a transfer's series as CSV with one heading line: times in seconds and milliseconds, rates in bit/s.
///
/// # Errors
/// Those of `out`.
pub fn write_csv(series: &[Sample], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "t_s,placed_bytes,wire_bytes,received_packets,lost_packets,rtt_ms,received_bps,target_bps,requested_bps,\
         window_bytes,queue_delay_ms"
    )?;
    for row in series.iter().map(Row::from) {
        let Row { t_s, placed_bytes, wire_bytes, received_packets, lost_packets, rtt_ms, .. } = row;
        let Row { received_bps, target_bps, requested_bps, window_bytes, queue_delay_ms, .. } = row;
        write!(out, "{t_s},{placed_bytes},{wire_bytes},{received_packets},{lost_packets},{rtt_ms},")?;
        writeln!(out, "{received_bps},{target_bps},{requested_bps},{window_bytes},{queue_delay_ms}")?;
    }
    Ok(())
}

/// Writes a transfer's series as a JSON array of objects, with the names and units of [`write_csv`].
///
/// # Errors
/// Those of `out`.
pub fn write_json(series: &[Sample], out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<Row> = series.iter().map(Row::from).collect();
    serde_json::to_writer(out, &rows).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_csv_and_json_say_the_same() {
        let at = Time::ZERO + Span::from_millis(1_500);
        let receiver = FlowStats { rtt: Span::from_millis(20), lost_packets: 3, ..FlowStats::default() };
        let sender = FlowStats { window_bytes: 9_000, rtt: Span::from_millis(25), ..FlowStats::default() };
        let series = [Sample::of(at, 77, &receiver, &sender)];
        let (mut csv, mut json) = (Vec::new(), Vec::new());
        write_csv(&series, &mut csv).unwrap();
        write_json(&series, &mut json).unwrap();

        let csv = String::from_utf8(csv).unwrap();
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(values, ["1.5", "77", "0", "0", "3", "20", "0", "0", "0", "9000", "0"]);
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json[0].as_object().unwrap().len(), names.len());
        for (name, value) in names.iter().zip(values) {
            assert_eq!(json[0][name].as_f64(), value.parse().ok(), "{name}");
        }
    }
}
