//! Makes each agent's job from a plan.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use inhaul_base::{Bitrate, RandomStream, Span, Time};
use inhaul_sim::{NodeId, Pattern, UdpTraffic};

use super::agent::{FlowJob, ReceiveJob, ServeJob, TCP_PORT, TransportJob};
use super::datagrams::{DATAGRAM_PORT, DatagramJob};
use super::kernel_tcp::TcpJob;
use crate::random_streams::{UDP_STREAMS, WEB_STREAMS};
use crate::scenario::{FlowPlan, Plan, WhatChanges};
use crate::web;

/// The kernel's names of the congestion controls.
const KERNEL_NAMES: [(&str, &str); 7] = [
    ("reno", "reno"),
    ("cubic", "cubic"),
    ("bic", "inhaul_bic"),
    ("bbr", "bbr"),
    ("highspeed", "inhaul_hstcp"),
    ("scalable", "inhaul_stcp"),
    ("fhstcp", "inhaul_fhstcp"),
];

/// The one parameter of ours that the kernel's TCP has too, as a size of the receiver's buffer.
pub(super) const WINDOW_PARAMETER: &str = "window-max";

pub(super) fn kernel_name(protocol: &str) -> Option<&'static str> {
    KERNEL_NAMES.iter().find(|(name, _)| *name == protocol).map(|(_, kernel)| *kernel)
}

/// The name of an endpoint's host.
fn host_of(plan: &Plan, endpoint: usize) -> String {
    name_of(plan, plan.endpoints[endpoint].host)
}

fn name_of(plan: &Plan, host: NodeId) -> String {
    plan.topology.nodes().find(|(id, _)| *id == host).map(|(_, name)| name.to_owned()).unwrap_or_default()
}

/// The hosts' jobs, by their names.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) serve: BTreeMap<String, ServeJob>,
    pub(super) receive: BTreeMap<String, ReceiveJob>,
}

impl Jobs {
    /// The jobs of a plan; `address` says where a host is reached.
    pub(super) fn of(plan: &Plan, seed: u64, address: &dyn Fn(&str) -> Result<IpAddr, String>) -> Result<Self, String> {
        let mut jobs = Self::default();
        for (number, endpoint) in plan.endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.sends) {
            let job = jobs.serve.entry(host_of(plan, number)).or_default();
            job.send_rate = job.send_rate.or(endpoint.host_rate.map(Bitrate::bps));
        }
        for number in 0..plan.flows.len() {
            jobs.add_flow(plan, number, address)?;
        }
        jobs.add_web(plan, seed, address)?;
        jobs.add_udp(plan, seed, address)?;
        jobs.add_changes(plan)?;
        Ok(jobs)
    }

    fn receive(&mut self, plan: &Plan, host: String) -> &mut ReceiveJob {
        let (end_s, sample_s) = (plan.end.as_secs_f64(), plan.record.as_secs_f64());
        let (sealed, host_tcp) = (plan.sealed, plan.host_tcp);
        let new = || ReceiveJob { end_s, sample_s, sealed, host_tcp, ..ReceiveJob::default() };
        self.receive.entry(host).or_insert_with(new)
    }

    fn add_flow(
        &mut self,
        plan: &Plan,
        number: usize,
        address: &dyn Fn(&str) -> Result<IpAddr, String>,
    ) -> Result<(), String> {
        let flow = &plan.flows[number];
        let server = address(&host_of(plan, flow.sender))?;
        let job = self.receive(plan, host_of(plan, flow.receiver));
        if let Some(congestion) = kernel_name(flow.protocol.name) {
            job.tcp.push(tcp_job(plan, number, flow, congestion, (server, TCP_PORT).into()));
            return Ok(());
        }
        let known = job.transports.iter().position(|of| of.transport == flow.protocol.name);
        let at = known.unwrap_or_else(|| {
            let endpoint = &plan.endpoints[flow.receiver];
            job.transports.push(TransportJob {
                transport: flow.protocol.name.to_owned(),
                parameters: endpoint.parameters.clone(),
                receive_rate: endpoint.host_rate.map(Bitrate::bps),
                receive_rates: Vec::new(),
                flows: Vec::new(),
            });
            job.transports.len() - 1
        });
        job.transports[at].flows.push(FlowJob {
            flow: number,
            server,
            key: None,
            start_s: flow.start.as_secs_f64(),
            stop_s: flow.stop.map(Time::as_secs_f64),
            size: (!flow.endless).then_some(flow.size),
            rate: flow.limits.application_rate.map(Bitrate::bps),
        });
        Ok(())
    }

    /// Short transfers over the kernel's TCP. Their numbers follow those of the flows, so the two cannot be confused.
    fn add_web(
        &mut self,
        plan: &Plan,
        seed: u64,
        address: &dyn Fn(&str) -> Result<IpAddr, String>,
    ) -> Result<(), String> {
        let mut number = plan.flows.len();
        for (stream, web) in (0u64..).zip(&plan.web) {
            let server = (address(&host_of(plan, web.sender))?, TCP_PORT).into();
            let congestion = kernel_name(plan.endpoints[web.receiver].protocol).unwrap_or("reno").to_owned();
            for transfer in web::transfers(web, &mut RandomStream::new(seed, WEB_STREAMS + stream)) {
                self.receive(plan, host_of(plan, web.receiver)).tcp.push(TcpJob {
                    flow: number,
                    server,
                    congestion: congestion.clone(),
                    start_s: transfer.start.as_secs_f64(),
                    stop_s: None,
                    size: Some(transfer.size),
                    window: None,
                });
                number += 1;
            }
        }
        Ok(())
    }

    /// Datagrams that answer to nothing: the spells in which they flow are drawn here.
    fn add_udp(
        &mut self,
        plan: &Plan,
        seed: u64,
        address: &dyn Fn(&str) -> Result<IpAddr, String>,
    ) -> Result<(), String> {
        for (stream, udp) in (0u64..).zip(&plan.udp) {
            let UdpTraffic { from, to, rate, packet_bytes, .. } = udp.traffic;
            let receiver = name_of(plan, to);
            let to = SocketAddr::from((address(&receiver)?, DATAGRAM_PORT));
            self.receive(plan, receiver).takes_datagrams = true;
            let spells = spells(&udp.traffic, plan.end, &mut RandomStream::new(seed, UDP_STREAMS + stream));
            let job = DatagramJob { to, rate: rate.bps(), packet_bytes, spells };
            self.serve.entry(name_of(plan, from)).or_default().datagrams.push(job);
        }
        Ok(())
    }

    /// Changes of hosts' rates; those of links are made by the network.
    fn add_changes(&mut self, plan: &Plan) -> Result<(), String> {
        for change in &plan.changes {
            let at_s = change.at.as_secs_f64();
            match change.what {
                WhatChanges::LinkRate(..) | WhatChanges::LinkUp(..) => {}
                WhatChanges::SendRate(endpoint, rate) => {
                    let job = self.serve.entry(host_of(plan, endpoint)).or_default();
                    job.send_rates.push((at_s, rate.bps()));
                }
                WhatChanges::ReceiveRate(endpoint, rate) => {
                    let protocol = plan.endpoints[endpoint].protocol;
                    let job = self.receive(plan, host_of(plan, endpoint));
                    for of in job.transports.iter_mut().filter(|of| of.transport == protocol) {
                        of.receive_rates.push((at_s, rate.bps()));
                    }
                }
                WhatChanges::Policy(..) => return Err("a change of a `policy` is for the simulator".to_owned()),
            }
        }
        Ok(())
    }
}

/// When datagrams flow, as begins and ends in seconds.
fn spells(traffic: &UdpTraffic, end: Time, random: &mut RandomStream) -> Vec<(f64, f64)> {
    let end = traffic.stop.map_or(end, |stop| stop.min(end));
    let Pattern::OnOff { on, off } = traffic.pattern else {
        return vec![(traffic.start.as_secs_f64(), end.as_secs_f64())];
    };
    let (mut spells, mut from) = (Vec::new(), traffic.start);
    while from < end {
        // A spell without length is no end of time.
        let to = from + on.draw(random).max(Span::from_micros(1));
        spells.push((from.as_secs_f64(), to.min(end).as_secs_f64()));
        from = to + off.draw(random);
    }
    spells
}

fn tcp_job(plan: &Plan, number: usize, flow: &FlowPlan, congestion: &str, server: SocketAddr) -> TcpJob {
    let parameters = &plan.endpoints[flow.receiver].parameters;
    let window = parameters.iter().find(|(name, _)| name == WINDOW_PARAMETER).and_then(|(_, value)| value.parse().ok());
    TcpJob {
        flow: number,
        server,
        congestion: congestion.to_owned(),
        start_s: flow.start.as_secs_f64(),
        stop_s: flow.stop.map(Time::as_secs_f64),
        size: (!flow.endless).then_some(flow.size),
        // Segments of ours; the kernel wants bytes.
        window: window.map(|segments: u64| segments * u64::from(flow.mtu)),
    }
}
