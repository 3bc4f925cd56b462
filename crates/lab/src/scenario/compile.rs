//! Makes a plan from a file: looks up every name, and checks every number against the others.

use std::collections::{BTreeMap, BTreeSet};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_protocols::registry;
use inhaul_sim::{NodeId, Pattern, Spell, UdpTraffic};
use inhaul_transport::{EndpointConfig, FlowLimits, NoPolicy, Protocol, Role};
use serde_spanned::Spanned;

use super::error::Refusal;
use super::file::{ChangeFile, FlowFile, ScenarioFile, UdpFile, WebFile};
use super::network::{self, Network, unknown_host};
use super::plan::{ChangePlan, EndpointPlan, FlowPlan, Plan, UdpPlan, WebPlan, WhatChanges};
use super::routes::Routes;
use super::units::{Duration, ParameterValue, Rate};

/// Most flows of a scenario.
const FLOWS_MAX: usize = 20_000;
/// Longest run.
const DURATION_MAX: Span = Span::from_secs(86_400);
/// Most samples that are kept of a run, all flows together.
const SAMPLES_MAX: u64 = 20_000_000;
/// Most short transfers that a run may be expected to have.
const WEB_MAX: f64 = 500_000.0;
/// The default size of a flow's largest packet.
const MTU_DEFAULT: u16 = 1500;
const MTU_MIN: u16 = 576;
const RECORD_DEFAULT: Span = Span::from_millis(100);

/// The purpose of reading a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To run its flows.
    Transfers,
    /// Only its network is needed; other programs make the traffic.
    Network,
}

/// Checks the file and builds its plan.
pub(crate) fn compile(file: &ScenarioFile, purpose: Purpose) -> Result<Plan, Refusal> {
    let duration = file.duration.get_ref().0;
    if duration == Span::ZERO || duration > DURATION_MAX {
        return Err(Refusal::at(file.duration.span(), "a run lasts more than nothing and at most 24 h"));
    }
    let Network { topology, hosts } = network::build(file)?;
    let routes = Routes::new(&topology, hosts.values().copied());
    let fastest =
        topology.links().filter_map(|(id, ..)| topology.link_spec(id)?.rate).max().unwrap_or(Bitrate::from_gbps(100));
    let mut compiler = Compiler {
        hosts: &hosts,
        routes,
        end: Time::ZERO + duration,
        // Twice the bytes that the fastest link carries in the whole run: more than any flow can finish.
        endless: fastest.bytes_in(duration * 2).max(1_000_000),
        endpoints: Vec::new(),
        flows: Vec::new(),
        names: BTreeSet::new(),
        objects: BTreeMap::new(),
    };
    for flow in &file.flows {
        compiler.flow(flow)?;
    }
    let web = file.background.web.iter().map(|web| compiler.web(web)).collect::<Result<_, _>>()?;
    let udp = file.background.udp.iter().map(|udp| compiler.udp(udp)).collect::<Result<_, _>>()?;
    let mut changes = Vec::new();
    for change in &file.changes {
        changes.extend(compiler.change(change, |name| topology.find_link(name))?);
    }
    let Compiler { endpoints, flows, end, .. } = compiler;
    if flows.is_empty() && purpose == Purpose::Transfers {
        return Err(Refusal::general(
            "a scenario has at least one flow: add [[flows]] with name, protocol, from and to",
        ));
    }
    let captures = file.pcap.iter().map(|capture| {
        let name = capture.link.get_ref();
        let link = topology.find_link(name).ok_or_else(|| unknown_link(&capture.link))?;
        Ok((link, capture.file.clone()))
    });
    let captures = captures.collect::<Result<_, Refusal>>()?;
    let record = record_interval(file, duration, flows.len())?;
    let measure = measured_time(file, &flows, end)?;
    let (sealed, host_tcp) = (file.sealed, file.host_tcp);
    Ok(Plan { topology, endpoints, flows, web, udp, changes, captures, end, record, measure, sealed, host_tcp })
}

fn unknown_link(name: &Spanned<String>) -> Refusal {
    Refusal::at(
        name.span(),
        format!("there is no link '{}': docs/scenario.md explains the names of links", name.get_ref()),
    )
}

fn record_interval(file: &ScenarioFile, duration: Span, flows: usize) -> Result<Span, Refusal> {
    let Some(record) = &file.record else { return Ok(RECORD_DEFAULT) };
    let interval = record.get_ref().0;
    if interval < Span::from_micros(100) {
        return Err(Refusal::at(record.span(), "`record` is at least 100 us"));
    }
    let samples = duration.as_nanos() / interval.as_nanos() * flows as u64;
    if samples > SAMPLES_MAX {
        return Err(Refusal::at(
            record.span(),
            format!("that makes {samples} samples; at most {SAMPLES_MAX} are kept: record less often"),
        ));
    }
    Ok(interval)
}

/// The time that the metrics are about: by default from the last start to the first stop of a flow that is measured.
fn measured_time(file: &ScenarioFile, flows: &[FlowPlan], end: Time) -> Result<(Time, Time), Refusal> {
    let measured = || flows.iter().filter(|flow| !flow.background);
    let said = file.measure.as_ref().map(Spanned::get_ref);
    let from = said.and_then(|measure| measure.from).map(|from| Time::ZERO + from.0);
    let to = said.and_then(|measure| measure.to).map(|to| Time::ZERO + to.0);
    let from = from.or_else(|| measured().map(|flow| flow.start).max()).unwrap_or(Time::ZERO);
    let to = to.or_else(|| measured().filter_map(|flow| flow.stop).min()).unwrap_or(end).min(end);
    match &file.measure {
        Some(measure) if to <= from => {
            Err(Refusal::at(measure.span(), "`measure` ends before it begins, or after the run"))
        }
        // Flows that are never active together have no time in common: then it is the whole run.
        None if to <= from => Ok((Time::ZERO, end)),
        _ => Ok((from, to)),
    }
}

struct Compiler<'a> {
    hosts: &'a BTreeMap<String, NodeId>,
    routes: Routes<'a>,
    end: Time,
    endless: u64,
    endpoints: Vec<EndpointPlan>,
    flows: Vec<FlowPlan>,
    names: BTreeSet<String>,
    /// Mirrors by receiving endpoint and name: the object and its size.
    objects: BTreeMap<(usize, String), (u32, u64)>,
}

/// A flow's requirements for an endpoint.
struct Wanted<'f> {
    protocol: &'f Spanned<String>,
    parameters: &'f BTreeMap<String, Spanned<ParameterValue>>,
    host_rate: Option<&'f Spanned<Rate>>,
}

impl Compiler<'_> {
    fn flow(&mut self, file: &FlowFile) -> Result<(), Refusal> {
        let protocol = find_protocol(&file.protocol)?;
        let ends = self.ends(file)?;
        let first = file.start.as_ref().map_or(Span::ZERO, |start| start.get_ref().0);
        let spread = file.spread.unwrap_or_default().0;
        let (count, mtu) = (ends.len(), mtu(file.mtu.as_ref())?);
        if self.flows.len() + count > FLOWS_MAX {
            return Err(Refusal::at(file.name.span(), format!("that makes more than {FLOWS_MAX} flows")));
        }
        for (k, (label, from, to)) in ends.into_iter().enumerate() {
            let name = self.flow_name(file, &label, count)?;
            let start = Time::ZERO + first + spread.mul_f64(k as f64 / count as f64);
            let stop = self.stop(file, start)?;
            let wanted = |host_rate| Wanted { protocol: &file.protocol, parameters: &file.parameters, host_rate };
            let sender = self.endpoint(from, true, &wanted(file.send_rate.as_ref()))?;
            let receiver = self.endpoint(to, false, &wanted(file.receive_rate.as_ref()))?;
            let (object, size) = self.object(file, receiver)?;
            let (path, rtt) = self.path(from, to, &file.to)?;
            let limits = FlowLimits {
                application_rate: file.application_rate.map(|rate| rate.0),
                link_rate: file.link_rate.map(|rate| rate.0),
            };
            let (group, background, endless) = (file.group.clone(), file.background, file.size.is_none());
            self.flows.push(FlowPlan {
                name,
                group,
                background,
                protocol,
                sender,
                receiver,
                object,
                start,
                stop,
                size,
                endless,
                limits,
                mtu,
                path,
                rtt,
            });
        }
        Ok(())
    }

    /// Sender and receiver of each flow of the file, with the text for a `*` in its name.
    fn ends(&self, file: &FlowFile) -> Result<Vec<(String, NodeId, NodeId)>, Refusal> {
        let mut ends = Vec::new();
        for (label, from) in self.matching(&file.from)? {
            let to_name = file.to.get_ref().replace('*', &label);
            let to = self.host(&Spanned::new(file.to.span(), to_name))?;
            if from == to {
                return Err(Refusal::at(file.to.span(), "a flow that ends at the host where it starts uses no link"));
            }
            ends.push((label, from, to));
        }
        let Some(count) = &file.count else { return Ok(ends) };
        if *count.get_ref() > FLOWS_MAX as u32 {
            return Err(Refusal::at(count.span(), format!("`count` is from 0 to {FLOWS_MAX}")));
        }
        let numbered = |label: &str, k: u32| if label.is_empty() { k.to_string() } else { format!("{label}-{k}") };
        let each =
            |(label, from, to): (String, _, _)| (1..=*count.get_ref()).map(move |k| (numbered(&label, k), from, to));
        Ok(ends.into_iter().flat_map(each).collect())
    }

    /// The hosts that match a pattern, with the text for its `*`, in the order of the numbers in it.
    fn matching(&self, pattern: &Spanned<String>) -> Result<Vec<(String, NodeId)>, Refusal> {
        let Some((before, after)) = pattern.get_ref().split_once('*') else {
            return Ok(vec![(String::new(), self.host(pattern)?)]);
        };
        let label = |name: &str| name.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
        let mut found: Vec<_> = self.hosts.iter().filter_map(|(name, id)| Some((label(name)?, *id))).collect();
        if found.is_empty() {
            return Err(unknown_host(self.hosts, pattern));
        }
        found.sort_by_key(|(label, id)| (label.parse::<u64>().unwrap_or(0), *id));
        Ok(found)
    }

    fn host(&self, name: &Spanned<String>) -> Result<NodeId, Refusal> {
        self.hosts.get(name.get_ref()).copied().ok_or_else(|| unknown_host(self.hosts, name))
    }

    fn flow_name(&mut self, file: &FlowFile, label: &str, count: usize) -> Result<String, Refusal> {
        let name = file.name.get_ref().replace('*', label);
        if count > 1 && !file.name.get_ref().contains('*') {
            let message =
                format!("these are {count} flows: put a `*` into the name where their label goes, like \"{name}*\"");
            return Err(Refusal::at(file.name.span(), message));
        }
        if name.is_empty() || !self.names.insert(name.clone()) {
            return Err(Refusal::at(
                file.name.span(),
                format!("'{name}' cannot name a flow: a name is not empty and not used twice"),
            ));
        }
        Ok(name)
    }

    fn stop(&self, file: &FlowFile, start: Time) -> Result<Option<Time>, Refusal> {
        let place = file.start.as_ref().map_or(file.name.span(), Spanned::span);
        if start >= self.end {
            return Err(Refusal::at(place, format!("the flow starts at {start}, the run ends at {}", self.end)));
        }
        let (stop, place) = match (&file.stop, &file.lasts) {
            (Some(_), Some(lasts)) => return Err(Refusal::at(lasts.span(), "a flow has either `stop` or `lasts`")),
            (Some(stop), None) => (Time::ZERO + stop.get_ref().0, stop.span()),
            (None, Some(lasts)) => (start + lasts.get_ref().0, lasts.span()),
            (None, None) => return Ok(None),
        };
        if stop <= start {
            return Err(Refusal::at(
                place,
                format!("the flow stops at {stop} and starts at {start}: write a later stop"),
            ));
        }
        // A stop after the end has no effect.
        Ok(Some(stop).filter(|stop| *stop < self.end))
    }

    /// The number and the size of a flow's object.
    fn object(&mut self, file: &FlowFile, receiver: usize) -> Result<(u32, u64), Refusal> {
        let size = file.size.map_or(self.endless, |size| size.0);
        let next = self.flows.len() as u32;
        let Some(mirrors) = &file.mirrors else { return Ok((next, size)) };
        let known = *self.objects.entry((receiver, mirrors.get_ref().clone())).or_insert((next, size));
        if known.1 != size {
            return Err(Refusal::at(mirrors.span(), "mirrors hold the same object: give them the same `size`"));
        }
        Ok(known)
    }

    fn path(
        &mut self,
        from: NodeId,
        to: NodeId,
        place: &Spanned<String>,
    ) -> Result<(Vec<inhaul_sim::LinkId>, Span), Refusal> {
        let no_way = || Refusal::at(place.span(), "no links lead there and back: add some, both ways");
        let there = self.routes.path(from, to).ok_or_else(no_way)?;
        let back = self.routes.path(to, from).ok_or_else(no_way)?;
        let rtt = self.routes.delay(&there) + self.routes.delay(&back);
        Ok((there, rtt))
    }

    /// The endpoint of this host, protocol and direction; all flows that share it must want the same of it.
    fn endpoint(&mut self, host: NodeId, sends: bool, wanted: &Wanted<'_>) -> Result<usize, Refusal> {
        let protocol = find_protocol(wanted.protocol)?;
        let parameters =
            wanted.parameters.iter().map(|(name, value)| (name.clone(), value.get_ref().0.clone())).collect();
        let host_rate = wanted.host_rate.map(|rate| rate.get_ref().0);
        let plan = EndpointPlan { host, protocol: protocol.name, sends, parameters, host_rate };
        let same = |known: &EndpointPlan| known.host == host && known.protocol == protocol.name && known.sends == sends;
        if let Some(at) = self.endpoints.iter().position(same) {
            if self.endpoints[at] == plan {
                return Ok(at);
            }
            let side = if sends { "send from" } else { "come into" };
            let place = wanted.host_rate.map_or(wanted.protocol.span(), Spanned::span);
            let message = format!(
                "{} flows that {side} one host share one endpoint there: give them the same parameters and the same rate of the host",
                protocol.name
            );
            return Err(Refusal::at(place, message));
        }
        let role = if sends { Role::Sender } else { Role::Receiver };
        let config = EndpointConfig { host_rate, parameters: plan.parameters.clone(), ..EndpointConfig::new(role, 0) };
        if let Err(error) = (protocol.build)(&config) {
            let place = wanted.parameters.values().next().map_or(wanted.protocol.span(), Spanned::span);
            return Err(Refusal::at(place, error.to_string()));
        }
        self.endpoints.push(plan);
        Ok(self.endpoints.len() - 1)
    }

    fn web(&mut self, file: &WebFile) -> Result<WebPlan, Refusal> {
        let (from, to) = (self.host(&file.from)?, self.host(&file.to)?);
        let (start, stop) = self.active(file.start.as_ref(), file.stop.as_ref())?;
        let (rate, shape) = (*file.arrivals_per_s.get_ref(), *file.shape.get_ref());
        let expected = rate * stop.since(start).as_secs_f64();
        if !(rate > 0.0 && expected <= WEB_MAX) {
            let message = format!("`arrivals_per_s` is above zero and makes at most {WEB_MAX} transfers in the run");
            return Err(Refusal::at(file.arrivals_per_s.span(), message));
        }
        if !(shape > 1.0 && shape <= 100.0) {
            return Err(Refusal::at(
                file.shape.span(),
                "`shape` is above 1 (below that there is no mean) and at most 100",
            ));
        }
        let mean = file.mean_size.get_ref().0;
        let size_max = file.size_max.as_ref().map_or(mean.saturating_mul(1000), |size| size.get_ref().0);
        if size_max <= mean {
            let place = file.size_max.as_ref().map_or(file.mean_size.span(), Spanned::span);
            return Err(Refusal::at(place, "`size_max` is above `mean_size`"));
        }
        self.path(from, to, &file.to)?;
        let wanted = || Wanted { protocol: &file.protocol, parameters: &file.parameters, host_rate: None };
        Ok(WebPlan {
            name: file.name.get_ref().clone(),
            sender: self.endpoint(from, true, &wanted())?,
            receiver: self.endpoint(to, false, &wanted())?,
            arrivals_per_s: rate,
            // The mean of a Pareto distribution is shape * min / (shape - 1).
            size_min: mean as f64 * (shape - 1.0) / shape,
            shape,
            size_max,
            start,
            stop,
            mtu: mtu(file.mtu.as_ref())?,
        })
    }

    fn udp(&mut self, file: &UdpFile) -> Result<UdpPlan, Refusal> {
        let (from, to) = (self.host(&file.from)?, self.host(&file.to)?);
        let (path, _) = self.path(from, to, &file.to)?;
        let (start, stop) = self.active(file.start.as_ref(), file.stop.as_ref())?;
        let spell = |span| if file.random { Spell::Exponential(span) } else { Spell::Fixed(span) };
        let pattern = match (&file.on, file.off) {
            (None, None) => Pattern::Constant,
            (Some(on), Some(off)) if on.get_ref().0 > Span::ZERO => {
                Pattern::OnOff { on: spell(on.get_ref().0), off: spell(off.0) }
            }
            _ => {
                return Err(Refusal::at(file.from.span(), "traffic on and off needs both `on`, above zero, and `off`"));
            }
        };
        let packet_bytes = mtu(file.packet.as_ref())?;
        let traffic = UdpTraffic { from, to, rate: file.rate.0, packet_bytes, pattern, start, stop: Some(stop) };
        Ok(UdpPlan { traffic, path })
    }

    /// When background traffic begins and ends.
    fn active(
        &self,
        start: Option<&Spanned<Duration>>,
        stop: Option<&Spanned<Duration>>,
    ) -> Result<(Time, Time), Refusal> {
        let from = start.map_or(Time::ZERO, |start| Time::ZERO + start.get_ref().0);
        let to = stop.map_or(self.end, |stop| Time::ZERO + stop.get_ref().0).min(self.end);
        match stop.or(start) {
            Some(place) if to <= from => {
                Err(Refusal::at(place.span(), "it stops before it starts, or starts after the run"))
            }
            _ => Ok((from, to)),
        }
    }

    fn change(
        &mut self,
        file: &ChangeFile,
        find_link: impl Fn(&str) -> Option<inhaul_sim::LinkId>,
    ) -> Result<Vec<ChangePlan>, Refusal> {
        let at = Time::ZERO + file.at.get_ref().0;
        if at >= self.end {
            return Err(Refusal::at(file.at.span(), format!("the change is at {at}, the run ends at {}", self.end)));
        }
        let mut changes = Vec::new();
        let wrong = |message: &str| Refusal::at(file.at.span(), message);
        match (&file.link, &file.flow) {
            (Some(name), None) => {
                let link = find_link(name.get_ref()).ok_or_else(|| unknown_link(name))?;
                changes.extend(file.rate.map(|rate| WhatChanges::LinkRate(link, rate.0)));
                changes.extend(file.up.map(|up| WhatChanges::LinkUp(link, up)));
                if changes.is_empty()
                    || file.send_rate.is_some()
                    || file.receive_rate.is_some()
                    || file.policy.is_some()
                    || file.stop
                {
                    return Err(wrong("a change of a link has only its new `rate`, or `up = false` or `up = true`"));
                }
            }
            (None, Some(name)) => {
                let Some(flow) = self.flows.iter_mut().find(|flow| flow.name == *name.get_ref()) else {
                    return Err(Refusal::at(name.span(), format!("there is no flow '{}'", name.get_ref())));
                };
                changes.extend(file.send_rate.map(|rate| WhatChanges::SendRate(flow.sender, rate.0)));
                changes.extend(file.receive_rate.map(|rate| WhatChanges::ReceiveRate(flow.receiver, rate.0)));
                if let Some(policy) = &file.policy {
                    let parsed = policy.get_ref().parse();
                    let parsed = parsed.map_err(|error: NoPolicy| Refusal::at(policy.span(), error.to_string()))?;
                    changes.push(WhatChanges::Policy(flow.receiver, parsed));
                }
                if file.rate.is_some() || file.up.is_some() || (changes.is_empty() && !file.stop) {
                    return Err(wrong(
                        "a change of a flow has only `send_rate`, `receive_rate`, `policy` or `stop = true`",
                    ));
                }
                if file.stop {
                    if at <= flow.start {
                        return Err(wrong("the flow has not started by then"));
                    }
                    flow.stop = Some(flow.stop.map_or(at, |stop| stop.min(at)));
                }
            }
            _ => return Err(wrong("a change names either a `link` or a `flow`")),
        }
        Ok(changes.into_iter().map(|what| ChangePlan { at, what }).collect())
    }
}

fn find_protocol(name: &Spanned<String>) -> Result<&'static Protocol, Refusal> {
    registry::find(name.get_ref()).ok_or_else(|| {
        let known: Vec<&str> = registry::PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        Refusal::at(name.span(), format!("there is no protocol '{}'; there are: {}", name.get_ref(), known.join(", ")))
    })
}

fn mtu(mtu: Option<&Spanned<u16>>) -> Result<u16, Refusal> {
    match mtu {
        None => Ok(MTU_DEFAULT),
        Some(mtu) if *mtu.get_ref() < MTU_MIN => {
            Err(Refusal::at(mtu.span(), format!("a packet has from {MTU_MIN} to 65535 bytes here")))
        }
        Some(mtu) => Ok(*mtu.get_ref()),
    }
}
