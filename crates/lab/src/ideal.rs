//! The max-min fair rate of each flow, epoch by epoch.

use inhaul_base::{Bitrate, Time};
use inhaul_sim::LinkId;

use crate::metrics::max_min_ideal;
use crate::scenario::{Plan, WhatChanges};

/// A stretch of time in which nothing changes: the same flows are active, links and limits stay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Epoch {
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// The fair rate of each flow of the plan, headers included, in bits per second; 0 for inactive flows.
    pub(crate) rates_bps: Vec<f64>,
    /// Whether a flow that is measured starts with it.
    pub(crate) is_join: bool,
}

/// The epochs of a run in which flow `k` was active until `stops[k]`.
///
/// Limits of hosts (R_send, C_r) count as links of their own. Constant background datagrams take their part of each
/// link off beforehand, on-off ones their mean; web-like traffic is left out of account, and so are end systems.
pub(crate) fn epochs(plan: &Plan, stops: &[Time]) -> Vec<Epoch> {
    let mut edges: Vec<Time> = plan.flows.iter().map(|flow| flow.start).chain(stops.iter().copied()).collect();
    edges.extend(plan.changes.iter().map(|change| change.at));
    edges.extend(plan.udp.iter().flat_map(|udp| [udp.traffic.start, udp.traffic.stop.unwrap_or(plan.end)]));
    edges.push(plan.end);
    edges.retain(|edge| *edge <= plan.end);
    edges.sort_unstable();
    edges.dedup();
    let is_join = |from| plan.flows.iter().any(|flow| !flow.background && flow.start == from);
    edges
        .windows(2)
        .map(|edge| Epoch {
            from: edge[0],
            to: edge[1],
            rates_bps: fair_rates(plan, stops, edge[0]),
            is_join: is_join(edge[0]),
        })
        .collect()
}

/// The network at one moment, as the oracle takes it.
struct Moment {
    links: Vec<LinkId>,
    /// Capacities of the links, then of each endpoint's host.
    capacities: Vec<f64>,
}

impl Moment {
    fn of(plan: &Plan, at: Time) -> Self {
        let links: Vec<LinkId> = plan.topology.links().map(|(id, ..)| id).collect();
        let rate = |id: &LinkId| {
            plan.topology.link_spec(*id).and_then(|spec| spec.rate).map_or(f64::INFINITY, Bitrate::as_f64)
        };
        let mut capacities: Vec<f64> = links.iter().map(rate).collect();
        capacities.extend(plan.endpoints.iter().map(|e| e.host_rate.map_or(f64::INFINITY, Bitrate::as_f64)));
        let mut moment = Self { links, capacities };
        let mut is_down = vec![false; moment.links.len()];
        for change in plan.changes.iter().filter(|change| change.at <= at) {
            match change.what {
                WhatChanges::LinkRate(link, rate) => moment.set(link, rate.as_f64()),
                WhatChanges::LinkUp(link, up) => is_down[moment.index(link)] = !up,
                WhatChanges::SendRate(endpoint, rate) | WhatChanges::ReceiveRate(endpoint, rate) => {
                    moment.capacities[moment.links.len() + endpoint] = rate.as_f64();
                }
                WhatChanges::Policy(..) => {}
            }
        }
        for (capacity, _) in moment.capacities.iter_mut().zip(is_down).filter(|(_, down)| *down) {
            *capacity = 0.0;
        }
        moment
    }

    fn index(&self, link: LinkId) -> usize {
        self.links.binary_search(&link).unwrap_or_default()
    }

    fn set(&mut self, link: LinkId, capacity: f64) {
        let at = self.index(link);
        self.capacities[at] = capacity;
    }
}

fn fair_rates(plan: &Plan, stops: &[Time], at: Time) -> Vec<f64> {
    let mut moment = Moment::of(plan, at);
    for udp in &plan.udp {
        for link in &udp.path {
            let index = moment.index(*link);
            moment.capacities[index] = (moment.capacities[index] - udp.mean_bps(at)).max(0.0);
        }
    }
    let active: Vec<usize> = (0..plan.flows.len()).filter(|k| plan.flows[*k].start <= at && at < stops[*k]).collect();
    let hosts = moment.links.len();
    let route = |k: &usize| {
        let flow = &plan.flows[*k];
        let links = flow.path.iter().map(|link| moment.index(*link));
        links.chain([hosts + flow.sender, hosts + flow.receiver]).collect()
    };
    let routes: Vec<Vec<usize>> = active.iter().map(route).collect();
    let limit = |k: &usize| {
        let limits = plan.flows[*k].limits;
        [limits.application_rate, limits.link_rate]
            .into_iter()
            .flatten()
            .map(Bitrate::as_f64)
            .fold(f64::INFINITY, f64::min)
    };
    let limits: Vec<f64> = active.iter().map(limit).collect();
    let mut rates = vec![0.0; plan.flows.len()];
    for (k, rate) in active.into_iter().zip(max_min_ideal(&moment.capacities, &routes, &limits)) {
        rates[k] = rate;
    }
    rates
}
