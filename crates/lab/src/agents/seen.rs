//! Makes an outcome, as that of every backend, from the agents' reports.

use std::collections::BTreeMap;

use inhaul_base::{Span, Time};
use inhaul_mover::StagedFlowReport;

use super::agent::{ReceiveReport, ServeReport};
use super::kernel_tcp::{TcpReceived, TcpSent};
use crate::outcome::{FlowOutcome, LinkOutcome, Outcome};
use crate::scenario::{FlowPlan, Plan};

/// The agents' reports.
#[derive(Default)]
pub(super) struct Seen {
    received: Vec<ReceiveReport>,
    sent: BTreeMap<usize, TcpSent>,
    sender_cpu_s: f64,
    receiver_cpu_s: f64,
    /// Failures of the agents themselves.
    pub(super) failures: Vec<String>,
}

impl Seen {
    pub(super) fn received(&mut self, report: ReceiveReport) {
        self.receiver_cpu_s += report.cpu_s;
        self.received.push(report);
    }

    pub(super) fn sent(&mut self, report: ServeReport) {
        self.sender_cpu_s += report.cpu_s;
        self.failures.extend(report.failure);
        self.sent.extend(report.tcp.into_iter().map(|sent| (sent.flow, sent)));
    }

    /// The outcome of a run in `backend`, whose links are known.
    pub(super) fn outcome(
        &mut self,
        plan: &Plan,
        backend: &'static str,
        links: Vec<LinkOutcome>,
        hops: u64,
    ) -> Outcome {
        let mut flows: Vec<Option<FlowOutcome>> = plan.flows.iter().map(|_| None).collect();
        for received in std::mem::take(&mut self.received) {
            self.failures.extend(received.failure);
            for (number, seen) in received.flows {
                if let Some(flow) = flows.get_mut(number) {
                    *flow = Some(of_transport(plan, seen));
                }
            }
            for seen in received.tcp {
                let sent = self.sent.remove(&seen.flow).unwrap_or_default();
                if let Some((flow, planned)) = flows.get_mut(seen.flow).zip(plan.flows.get(seen.flow)) {
                    *flow = Some(of_tcp(plan, planned, seen, &sent));
                }
            }
        }
        let missing = || FlowOutcome {
            stop: plan.end,
            failure: Some("no agent reported its result".to_owned()),
            ..FlowOutcome::default()
        };
        let flows: Vec<FlowOutcome> = flows.into_iter().map(|flow| flow.unwrap_or_else(missing)).collect();
        Outcome {
            backend,
            ended: flows.iter().map(|flow| flow.stop).max().unwrap_or(plan.end).min(plan.end),
            packet_hops: hops,
            trace: String::new(),
            cpu_s: Some((self.sender_cpu_s, self.receiver_cpu_s)),
            flows,
            links,
        }
    }
}

fn samples(seen: &[(f64, u64)]) -> Vec<(Time, u64)> {
    seen.iter().map(|(at, bytes)| (Time::ZERO + Span::from_secs_f64(*at), *bytes)).collect()
}

fn stop(plan: &Plan, stop_s: Option<f64>) -> Time {
    stop_s.map_or(plan.end, |stop_s| Time::ZERO + Span::from_secs_f64(stop_s)).min(plan.end)
}

fn of_transport(plan: &Plan, seen: StagedFlowReport) -> FlowOutcome {
    FlowOutcome {
        stop: stop(plan, seen.stop_s),
        samples: samples(&seen.samples),
        bytes: seen.bytes,
        wire_bytes: seen.wire_bytes,
        data_bytes: seen.data_bytes,
        received_packets: seen.received_packets,
        lost_packets: seen.lost_packets,
        rtt: (seen.rtt_ms > 0.0).then(|| Span::from_secs_f64(seen.rtt_ms / 1e3)),
        held: None,
        failure: seen.failure,
    }
}

/// The kernel counts segments at the sender: retransmitted ones count as lost.
fn of_tcp(plan: &Plan, planned: &FlowPlan, seen: TcpReceived, sent: &TcpSent) -> FlowOutcome {
    let mtu = u64::from(planned.mtu);
    // IP and TCP headers with timestamps, when the kernel did not say.
    let segment = if sent.segment_bytes > 0 { u64::from(sent.segment_bytes).min(mtu) } else { mtu - 52 };
    let packets = seen.bytes.div_ceil(segment.max(1));
    FlowOutcome {
        stop: stop(plan, seen.stop_s),
        samples: samples(&seen.samples),
        bytes: seen.bytes,
        wire_bytes: seen.bytes + packets * (mtu - segment),
        data_bytes: seen.bytes,
        received_packets: packets,
        lost_packets: u64::from(sent.retransmitted),
        rtt: (sent.rtt_us > 0).then(|| Span::from_micros(u64::from(sent.rtt_us))),
        held: None,
        failure: sent.failure.clone().or(seen.failure),
    }
}
