//! A scenario that was read and checked: the input for building a simulation.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_sim::{LinkId, NodeId, Pattern, Topology, UdpTraffic};
use inhaul_transport::{FlowLimits, Policy, Protocol};

/// One cell of a scenario, ready to run with a seed.
#[derive(Clone)]
pub struct Plan {
    /// The network.
    pub topology: Topology,
    /// Protocol instances on hosts. Flows of one protocol and one host share one.
    pub endpoints: Vec<EndpointPlan>,
    /// The flows that are in the result.
    pub flows: Vec<FlowPlan>,
    /// Short transfers that are drawn anew for each seed.
    pub web: Vec<WebPlan>,
    /// Datagrams that answer to nothing.
    pub udp: Vec<UdpPlan>,
    /// What happens during the run, in the order of the file.
    pub changes: Vec<ChangePlan>,
    /// Links whose packets are written to files.
    pub captures: Vec<(LinkId, String)>,
    /// When the run ends.
    pub end: Time,
    /// How often trajectories are recorded.
    pub record: Span,
    /// The time that the metrics are about.
    pub measure: (Time, Time),
    /// Whether datagrams of our own protocols are sealed.
    pub sealed: bool,
    /// Whether receivers are told the rates of their host's own TCP.
    pub host_tcp: bool,
}

/// A protocol instance on a host.
#[derive(Clone, PartialEq)]
pub struct EndpointPlan {
    /// Where.
    pub host: NodeId,
    /// Which protocol.
    pub protocol: &'static str,
    /// Whether it sends (else it receives).
    pub sends: bool,
    /// Its parameters.
    pub parameters: Vec<(String, String)>,
    /// The host's limit for sending or receiving, if known (R_send or C_r).
    pub host_rate: Option<Bitrate>,
}

/// A flow.
#[derive(Clone)]
pub struct FlowPlan {
    /// Its name; unique.
    pub name: String,
    /// Flows that are also looked at together.
    pub group: Option<String>,
    /// Whether it is left out of the metrics.
    pub background: bool,
    /// Its protocol.
    pub protocol: &'static Protocol,
    /// The sending endpoint, as an index into [`Plan::endpoints`].
    pub sender: usize,
    /// The receiving endpoint.
    pub receiver: usize,
    /// Which object of the receiver it fetches. Mirrors have the same number.
    pub object: u32,
    /// When it starts.
    pub start: Time,
    /// When it is stopped; `None`: it ends when its object is complete, or with the run.
    pub stop: Option<Time>,
    /// Size of its object, in bytes.
    pub size: u64,
    /// Whether the object is so large that it never ends.
    pub endless: bool,
    /// The receiver's limits.
    pub limits: FlowLimits,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The links of its path, in order.
    pub path: Vec<LinkId>,
    /// Propagation delay there and back.
    pub rtt: Span,
}

/// Web-like traffic: Poisson arrivals, sizes by a Pareto distribution that is cut at `size_max`.
#[derive(Clone)]
pub struct WebPlan {
    /// Its name.
    pub name: String,
    /// The sending endpoint.
    pub sender: usize,
    /// The receiving endpoint.
    pub receiver: usize,
    /// Mean number of transfers that begin in a second.
    pub arrivals_per_s: f64,
    /// Smallest size, in bytes.
    pub size_min: f64,
    /// Shape of the distribution.
    pub shape: f64,
    /// Largest size, in bytes.
    pub size_max: u64,
    /// When the first may begin.
    pub start: Time,
    /// When the last may begin.
    pub stop: Time,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
}

/// Background datagrams and the links that they take.
#[derive(Clone)]
pub struct UdpPlan {
    /// The sent object.
    pub traffic: UdpTraffic,
    /// The links of its path, in order.
    pub path: Vec<LinkId>,
}

/// Something that happens during the run.
#[derive(Clone)]
pub struct ChangePlan {
    /// When.
    pub at: Time,
    /// What.
    pub what: WhatChanges,
}

/// See [`ChangePlan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhatChanges {
    /// A link gets another rate.
    LinkRate(LinkId, Bitrate),
    /// A link dies, or lives again.
    LinkUp(LinkId, bool),
    /// The limit for sending (R_send) of the endpoint with this index in [`Plan::endpoints`].
    SendRate(usize, Bitrate),
    /// The limit for receiving (C_r) of the endpoint with this index in [`Plan::endpoints`].
    ReceiveRate(usize, Bitrate),
    /// The receiver that is this index of [`Plan::endpoints`] takes as much beside others' traffic.
    Policy(usize, Policy),
}

impl UdpPlan {
    /// Mean rate at a time, in bits per second.
    pub fn mean_bps(&self, at: Time) -> f64 {
        let traffic = &self.traffic;
        if at < traffic.start || traffic.stop.is_some_and(|stop| stop <= at) {
            return 0.0;
        }
        match traffic.pattern {
            Pattern::Constant => traffic.rate.as_f64(),
            Pattern::OnOff { on, off } => {
                let (on, off) = (on.mean().as_secs_f64(), off.mean().as_secs_f64());
                traffic.rate.as_f64() * on / (on + off)
            }
        }
    }
}

impl Plan {
    /// Propagation round-trip time of the flow with the longest one (RTTmax), background left out.
    pub fn rtt_max(&self) -> Span {
        self.flows.iter().filter(|flow| !flow.background).map(|flow| flow.rtt).max().unwrap_or_default()
    }
}
