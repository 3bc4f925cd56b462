//! How a plan takes its course: the part of the program around the endpoints, in virtual time.

use std::collections::BTreeMap;

use inhaul_base::{ByteRange, RangeSet, Span, Time};
use inhaul_link::LinkSpec;
use inhaul_sim::{
    Branch, Change, EndpointId, HostSpec, LinkId, NodeId, SimError, Simulation, Star, StarSpec, Transfer, TransferId,
    star,
};
use inhaul_transport::{Command, EndpointConfig, FlowLimits, ObjectId, Role};

use super::clock::Clock;
use super::plan::{Fault, Mirror, Plan};
use crate::find;

const OBJECT: ObjectId = ObjectId(0);
/// After so long a connection to a host that is silent is closed: the program's keepalive.
const KEEPALIVE: Span = Span::from_secs(30);
/// From one attempt to open a mirror again to the next: so long at first, then twice as long each time, up to ...
const REOPEN: Span = Span::from_millis(500);
/// ... this often doubled.
const REOPEN_DOUBLINGS: u32 = 5;
/// Most events of a run: this many, ...
const EVENTS: u64 = 3_000_000;
/// ... and this many for each second of it. 100 Mbit/s in small packets over three links are half as many.
const EVENTS_A_SECOND: u64 = 150_000;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every byte is in place.
    Complete,
    /// No mirror was left; why each flow ended.
    Failed(Vec<String>),
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub at: Span,
    /// Events of the simulation.
    pub events: u64,
    /// Fingerprint of all that was delivered, and when.
    pub trace: u64,
    /// Flows that there were.
    pub flows: usize,
}

/// A scheduled action.
#[derive(Clone, Debug)]
enum Step {
    Fault(Fault),
    Open(usize),
    LinkUp(usize),
    AccessUp,
    ControlUp(usize),
    SenderBack(usize),
    HostBack(usize),
    ReceiverBack(RangeSet),
    TunnelEnds(TransferId),
    Break(TransferId),
}

/// A mirror as it is.
struct Now {
    node: NodeId,
    links: (LinkId, LinkId),
    control: Option<(NodeId, NodeId, (LinkId, LinkId))>,
    /// Its process, while it runs.
    endpoint: Option<EndpointId>,
    /// Its last flow, while that lasts.
    flow: Option<TransferId>,
    /// An opening is on the agenda.
    opening: bool,
    attempts: u32,
    /// How many reasons there are for its link to be dead.
    down: u32,
    control_down: u32,
    severed: bool,
    /// It will not come back.
    dead: bool,
}

struct Course<'a> {
    plan: &'a Plan,
    sim: Simulation,
    star: Star,
    mirrors: Vec<Now>,
    receiver: Option<EndpointId>,
    agenda: BTreeMap<(Time, u64), Step>,
    sequence: u64,
    failures_seen: usize,
    causes: Vec<String>,
    flows: usize,
    /// The last flow of the receiver of now, any.
    last: Option<TransferId>,
    access_down: u32,
    built: u64,
    events: u64,
}

/// Lets a plan take its course.
///
/// # Errors
/// The violated rule, in words.
pub fn run(plan: &Plan) -> Result<Report, String> {
    Course::new(plan).map_err(|error| error.to_string())?.run()
}

impl<'a> Course<'a> {
    fn new(plan: &'a Plan) -> Result<Self, SimError> {
        let host = |noise: &Option<_>| HostSpec { noise: noise.clone(), ..HostSpec::default() };
        let branch = |m: &Mirror| Branch { host: host(&m.noise), to_hub: m.there.clone(), from_hub: m.back.clone() };
        let receiver = Branch { host: host(&plan.noise), to_hub: LinkSpec::ideal(), from_hub: plan.access.clone() };
        let (mut topology, star) = star(&StarSpec { senders: plan.mirrors.iter().map(branch).collect(), receiver });
        let apart = plan.control_apart.then(|| topology.host("receiver-control", HostSpec::default()));
        let mut mirrors = Vec::new();
        for (k, mirror) in plan.mirrors.iter().enumerate() {
            let control = apart.map(|receiver| {
                let name = format!("s{k}-control");
                let host = topology.host(&name, HostSpec::default());
                let link = LinkSpec { delay: mirror.there.delay, ..LinkSpec::ideal() };
                (host, receiver, topology.duplex(&name, host, receiver, link.clone(), link))
            });
            mirrors.push(Now {
                node: star.senders[k],
                links: star.paths[k],
                control,
                endpoint: None,
                flow: None,
                opening: false,
                attempts: 0,
                down: 0,
                control_down: 0,
                severed: false,
                dead: false,
            });
        }
        let mut sim = Simulation::new(topology, plan.seed).expect("a star is a topology");
        sim.set_sealed(plan.sealed);
        let mut course = Self {
            plan,
            sim,
            star,
            mirrors,
            receiver: None,
            agenda: BTreeMap::new(),
            sequence: 0,
            failures_seen: 0,
            causes: Vec::new(),
            flows: 0,
            last: None,
            access_down: 0,
            built: 0,
            events: 0,
        };
        course.new_receiver()?;
        for k in 0..plan.mirrors.len() {
            course.new_sender(k)?;
            course.open_after(k, plan.mirrors[k].start);
        }
        for (at, fault) in &plan.faults {
            course.after(*at, Step::Fault(*fault));
        }
        Ok(course)
    }

    fn after(&mut self, wait: Span, step: Step) {
        self.sequence += 1;
        self.agenda.insert((self.sim.now() + wait, self.sequence), step);
    }

    fn open_after(&mut self, mirror: usize, wait: Span) {
        if !std::mem::replace(&mut self.mirrors[mirror].opening, true) {
            self.after(wait, Step::Open(mirror));
        }
    }

    fn change(&mut self, change: Change) -> Result<(), SimError> {
        self.sim.at(self.sim.now(), change)
    }

    // --- Programs ---------------------------------------------------------------------------------------------------

    fn build(&mut self, role: Role, mirror: Option<usize>) -> Box<dyn inhaul_transport::Endpoint + Send> {
        self.built += 1;
        let mut config = EndpointConfig::new(role, self.plan.seed.wrapping_add(self.built << 40));
        config.flow_rate = Some(self.plan.flow_rate);
        config.host_rate = mirror.map_or(self.plan.host_rate, |mirror| self.plan.mirrors[mirror].send_limit);
        let protocol = find(self.plan.protocol).expect("a protocol of the list");
        let endpoint = (protocol.build)(&config).expect("a legal configuration");
        let (ahead, ppm, jumps) = mirror.map_or(&self.plan.clock, |mirror| &self.plan.mirrors[mirror].clock).clone();
        if (ahead, ppm, jumps.len()) == (Span::ZERO, 0, 0) {
            return endpoint;
        }
        Box::new(Clock::new(endpoint, ahead, ppm, jumps))
    }

    fn new_receiver(&mut self) -> Result<(), SimError> {
        let endpoint = self.build(Role::Receiver, None);
        self.receiver = Some(self.sim.endpoint(self.star.receiver, endpoint)?);
        self.last = None;
        self.causes.clear();
        Ok(())
    }

    fn new_sender(&mut self, mirror: usize) -> Result<(), SimError> {
        let endpoint = self.build(Role::Sender, Some(mirror));
        self.mirrors[mirror].endpoint = Some(self.sim.endpoint(self.mirrors[mirror].node, endpoint)?);
        Ok(())
    }

    /// A session with a mirror stands: it joins as a new flow.
    fn open(&mut self, mirror: usize, held: Option<&RangeSet>) -> Result<(), SimError> {
        let (Some(receiver), Some(sender)) = (self.receiver, self.mirrors[mirror].endpoint) else { return Ok(()) };
        if self.mirrors[mirror].flow.is_some() {
            return Ok(());
        }
        // No session comes about over a dead link; it is tried again.
        let now = &self.mirrors[mirror];
        let is_cut = if now.control.is_some() { now.control_down > 0 } else { now.down > 0 || self.access_down > 0 };
        if is_cut || now.severed {
            if !now.severed {
                self.reopen(mirror);
            }
            return Ok(());
        }
        self.flows += 1;
        let transfer = self.sim.transfer(Transfer {
            name: format!("flow {}", self.flows),
            sender,
            receiver,
            object: OBJECT,
            size: self.plan.size,
            start: self.sim.now(),
            stop: None,
            leaves: false,
            mtu: self.plan.mtu,
            limits: FlowLimits::default(),
        })?;
        if let Some((at_sender, at_receiver, _)) = self.mirrors[mirror].control {
            self.sim.control_between(transfer, at_sender, at_receiver)?;
        }
        if let Some(held) = held {
            self.sim.hold(receiver, OBJECT, held.clone())?;
        }
        self.mirrors[mirror].flow = Some(transfer);
        self.last = Some(transfer);
        Ok(())
    }

    /// A mirror is tried again after a while, if that can help.
    fn reopen(&mut self, mirror: usize) {
        let attempts = self.mirrors[mirror].attempts.min(REOPEN_DOUBLINGS);
        self.mirrors[mirror].attempts += 1;
        if !self.mirrors[mirror].dead {
            self.open_after(mirror, REOPEN * (1 << attempts));
        }
    }

    // --- Faults
    // -------------------------------------------------------------------------------------------------------

    fn set_link(&mut self, mirror: usize, up: bool) -> Result<(), SimError> {
        let of = &mut self.mirrors[mirror];
        of.down = if up { of.down - 1 } else { of.down + 1 };
        let (dead, links) = (of.down > 0 || of.severed, of.links);
        for link in [links.0, links.1] {
            self.change(if dead { Change::LinkDown(link) } else { Change::LinkUp(link) })?;
        }
        Ok(())
    }

    fn set_control(&mut self, mirror: usize, up: bool) -> Result<(), SimError> {
        let of = &mut self.mirrors[mirror];
        of.control_down = if up { of.control_down - 1 } else { of.control_down + 1 };
        let dead = of.control_down > 0 || of.severed;
        let Some((_, _, links)) = of.control else { return Ok(()) };
        for link in [links.0, links.1] {
            self.change(if dead { Change::LinkDown(link) } else { Change::LinkUp(link) })?;
        }
        Ok(())
    }

    fn set_access(&mut self, up: bool) -> Result<(), SimError> {
        self.access_down = if up { self.access_down - 1 } else { self.access_down + 1 };
        for link in [self.star.access.0, self.star.access.1] {
            self.change(if self.access_down > 0 { Change::LinkDown(link) } else { Change::LinkUp(link) })?;
        }
        Ok(())
    }

    /// A session whose hosts hear nothing of each other ends, if that lasts so long.
    fn keepalive(&mut self, mirror: usize, silence: Span) {
        if let Some(flow) = self.mirrors[mirror].flow.filter(|_| silence > KEEPALIVE) {
            self.after(KEEPALIVE, Step::Break(flow));
        }
    }

    fn crash_sender(&mut self, mirror: usize) -> Result<(), SimError> {
        match self.mirrors[mirror].endpoint.take() {
            Some(endpoint) => self.change(Change::Crash(endpoint)),
            None => Ok(()),
        }
    }

    fn strike(&mut self, fault: Fault) -> Result<(), SimError> {
        match fault {
            Fault::Partition(mirror, span) => {
                self.set_link(mirror, false)?;
                if !self.plan.control_apart {
                    self.keepalive(mirror, span);
                }
                self.after(span, Step::LinkUp(mirror));
            }
            Fault::Severed(mirror) => {
                (self.mirrors[mirror].severed, self.mirrors[mirror].dead) = (true, true);
                self.set_link(mirror, false)?;
                self.set_control(mirror, false)?;
                self.keepalive(mirror, Span::from_secs(u32::MAX.into()));
            }
            Fault::Offline(span) => {
                self.set_access(false)?;
                if !self.plan.control_apart {
                    (0..self.mirrors.len()).for_each(|mirror| self.keepalive(mirror, span));
                }
                self.after(span, Step::AccessUp);
            }
            Fault::Access(rate) => self.change(Change::LinkRate(self.star.access.0, Some(rate)))?,
            Fault::Rate(mirror, rate) => self.change(Change::LinkRate(self.mirrors[mirror].links.0, Some(rate)))?,
            Fault::SenderCrash(mirror, back) => {
                self.crash_sender(mirror)?;
                match back {
                    Some(span) => self.after(span, Step::SenderBack(mirror)),
                    None => self.mirrors[mirror].dead = true,
                }
            }
            Fault::PowerOff(mirror, span) => {
                self.set_link(mirror, false)?;
                self.set_control(mirror, false)?;
                self.keepalive(mirror, span);
                self.after(span, Step::HostBack(mirror));
            }
            Fault::ReceiverCrash(span, parts) => {
                let Some(receiver) = self.receiver.take() else { return Ok(()) };
                let held = self.last.map(|last| verified(self.sim.placed(last), parts)).unwrap_or_default();
                self.change(Change::Crash(receiver))?;
                self.after(span, Step::ReceiverBack(held));
            }
            Fault::ReceiverMoves => {
                if let Some(receiver) = self.receiver {
                    self.change(Change::Rebind(receiver))?;
                }
            }
            Fault::SenderMoves(mirror) => {
                if let Some(endpoint) = self.mirrors[mirror].endpoint {
                    self.change(Change::Rebind(endpoint))?;
                }
            }
            Fault::Break(mirror) => {
                if let Some(flow) = self.mirrors[mirror].flow {
                    self.change(Change::Break(flow))?;
                }
            }
            Fault::ControlStall(mirror, span) => {
                self.set_control(mirror, false)?;
                self.keepalive(mirror, span);
                self.after(span, Step::ControlUp(mirror));
            }
            Fault::Mtu(mirror, mtu) => {
                let (there, back) = self.mirrors[mirror].links;
                self.change(Change::LinkMtu(there, Some(mtu)))?;
                self.change(Change::LinkMtu(back, Some(mtu)))?;
            }
            Fault::Tunnel(mirror, span) => {
                if let Some(flow) = self.mirrors[mirror].flow {
                    self.change(Change::Tunnel(flow, true))?;
                    self.after(span, Step::TunnelEnds(flow));
                }
            }
            Fault::Wrong(at, parts) => self.refetch(at, parts)?,
        }
        Ok(())
    }

    /// Some placed bytes do not match their digest.
    fn refetch(&mut self, at: u64, parts: u64) -> Result<(), SimError> {
        let (Some(receiver), Some(last)) = (self.receiver, self.last) else { return Ok(()) };
        let size = self.plan.size;
        let part = |parts: u64| (u128::from(size) * u128::from(parts) / 1000) as u64;
        let found = ByteRange::new(part(at), part((at + parts).min(1000)).max(part(at) + 1).min(size));
        let wrong: Vec<_> = self.sim.placed(last).within(found).collect();
        for range in wrong {
            let suspect = self.mirrors[0].flow.map(|flow| self.sim.flow_of(flow));
            self.change(Change::Command(receiver, Command::Refetch { object: OBJECT, range, suspect }))?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), SimError> {
        match step {
            Step::Fault(fault) => self.strike(fault)?,
            Step::Open(mirror) => {
                self.mirrors[mirror].opening = false;
                self.open(mirror, None)?;
            }
            Step::LinkUp(mirror) => self.set_link(mirror, true)?,
            Step::AccessUp => self.set_access(true)?,
            Step::ControlUp(mirror) => self.set_control(mirror, true)?,
            Step::SenderBack(mirror) => {
                if self.mirrors[mirror].endpoint.is_none() {
                    self.new_sender(mirror)?;
                }
                self.open_after(mirror, REOPEN);
            }
            Step::HostBack(mirror) => {
                self.set_link(mirror, true)?;
                self.set_control(mirror, true)?;
                // Peers that still send to the old process learn that it is gone.
                self.crash_sender(mirror)?;
                self.after(REOPEN, Step::SenderBack(mirror));
            }
            Step::ReceiverBack(held) => {
                self.new_receiver()?;
                let (mut held, mut opened) = (Some(held), false);
                for mirror in 0..self.mirrors.len() {
                    self.mirrors[mirror].flow = None;
                    self.mirrors[mirror].attempts = 0;
                    if !opened {
                        self.open(mirror, held.as_ref())?;
                        opened = self.mirrors[mirror].flow.is_some();
                    } else {
                        held = None;
                        self.open(mirror, held.as_ref())?;
                    }
                    if self.mirrors[mirror].flow.is_none() {
                        self.open_after(mirror, REOPEN);
                    }
                }
            }
            Step::TunnelEnds(flow) => self.change(Change::Tunnel(flow, false))?,
            Step::Break(flow) => {
                if self.mirrors.iter().any(|mirror| mirror.flow == Some(flow)) && self.is_cut(flow) {
                    self.change(Change::Break(flow))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the control stream of a flow cannot get through now.
    fn is_cut(&self, flow: TransferId) -> bool {
        self.mirrors.iter().filter(|mirror| mirror.flow == Some(flow)).any(|mirror| {
            let down = if mirror.control.is_some() { mirror.control_down } else { mirror.down + self.access_down };
            down > 0 || mirror.severed
        })
    }

    // --- The course ---------------------------------------------------------------------------------------------------

    fn is_complete(&self) -> bool {
        self.receiver.is_some() && self.last.is_some_and(|last| self.sim.is_complete(last))
    }

    /// The receiver's reasons for ended flows.
    fn attend(&mut self) {
        while let Some(failure) = self.sim.failures().get(self.failures_seen).cloned() {
            self.failures_seen += 1;
            if Some(failure.endpoint) != self.receiver {
                continue;
            }
            self.causes.push(failure.error.to_string());
            let Some(mirror) = self.mirrors.iter().position(|mirror| mirror.flow == Some(failure.transfer)) else {
                continue;
            };
            self.mirrors[mirror].flow = None;
            if self.plan.reopens {
                self.reopen(mirror);
            }
        }
    }

    fn run(mut self) -> Result<Report, String> {
        let limit = Time::ZERO + self.plan.bound;
        loop {
            let next = self.agenda.first_key_value().map_or(limit, |((at, _), _)| *at);
            self.let_pass(next.min(limit))?;
            self.attend();
            if self.is_complete() {
                return self.complete();
            }
            if self.is_starved() {
                return self.failed();
            }
            if self.sim.now() >= limit {
                return Err(self.hang());
            }
            while let Some(entry) = self.agenda.first_entry()
                && entry.key().0 <= self.sim.now()
            {
                let step = entry.remove();
                self.step(step).map_err(|error| error.to_string())?;
            }
        }
    }

    fn let_pass(&mut self, until: Time) -> Result<(), String> {
        let Self { sim, events, last, failures_seen, receiver, .. } = self;
        let (last, seen, is_there) = (*last, *failures_seen, receiver.is_some());
        let most = |now: Time| EVENTS + now.as_nanos() / 1_000_000 * EVENTS_A_SECOND / 1_000;
        let mut is_too_much = false;
        let goes_on = |sim: &Simulation| {
            *events += 1;
            is_too_much = *events > most(sim.now());
            let done = is_there && last.is_some_and(|last| sim.is_complete(last));
            !done && !is_too_much && sim.failures().len() == seen
        };
        sim.run_while(until, goes_on).map_err(|error| error.to_string())?;
        if is_too_much {
            return Err(format!("{} events in {}: {}", self.events, self.sim.now(), self.hang()));
        }
        Ok(())
    }

    /// No flow is left, and none will come.
    fn is_starved(&self) -> bool {
        let is_over = |mirror: &Now| mirror.flow.is_none() && !mirror.opening;
        let comes = |step: &Step| matches!(step, Step::SenderBack(_) | Step::HostBack(_) | Step::ReceiverBack(_));
        self.receiver.is_some() && self.mirrors.iter().all(is_over) && !self.agenda.values().any(comes)
    }

    fn complete(self) -> Result<Report, String> {
        let last = self.last.expect("a complete object had a flow");
        let placed: Vec<_> = self.sim.placed(last).iter().collect();
        if placed != [ByteRange::new(0, self.plan.size)] {
            return Err(format!("complete with {placed:?} of {} bytes in place", self.plan.size));
        }
        Ok(self.report(Outcome::Complete))
    }

    fn failed(self) -> Result<Report, String> {
        if self.plan.reopens && self.mirrors.iter().any(|mirror| !mirror.dead) {
            return Err(format!("given up with a mirror that is there: {}", self.hang()));
        }
        // A receiver that no flow ever came to has nothing to say.
        let has_said = self.sim.starved().iter().any(|(endpoint, _)| Some(*endpoint) == self.receiver);
        if self.last.is_some() && !has_said {
            return Err(format!("no flow is left, and the receiver does not say so: {}", self.hang()));
        }
        let causes = self.causes.clone();
        if self.last.is_some() && causes.is_empty() {
            return Err("no flow is left, and none says why".to_owned());
        }
        Ok(self.report(Outcome::Failed(causes)))
    }

    fn report(&self, outcome: Outcome) -> Report {
        Report {
            outcome,
            at: self.sim.now().since(Time::ZERO),
            events: self.events,
            trace: self.sim.trace(),
            flows: self.flows,
        }
    }

    /// How things stand.
    fn hang(&self) -> String {
        let placed = self.last.map_or(0, |last| self.sim.object_bytes(last));
        let flow = |mirror: &Now| {
            mirror.flow.map(|flow| {
                let s = self.sim.stats(flow);
                format!("flow {flow:?} {} B outstanding, {} lost, rtt {}", s.outstanding_bytes, s.lost_packets, s.rtt)
            })
        };
        format!(
            "{placed} of {} bytes in place at {}; flows {:?}; ended: {:?}",
            self.plan.size,
            self.sim.now(),
            self.mirrors.iter().map(flow).collect::<Vec<_>>(),
            self.causes.iter().fold(BTreeMap::<&str, u32>::new(), |mut sum, cause| {
                *sum.entry(cause).or_default() += 1;
                sum
            }),
        )
    }
}

/// The ranges that a restarted receiver holds: this many of 8 parts of the placed bytes, by groups of the object.
fn verified(placed: &RangeSet, parts: u64) -> RangeSet {
    let mut held = RangeSet::new();
    for range in placed.iter() {
        let group = (range.len() / 5).max(1);
        for k in 0..range.len().div_ceil(group) {
            let part = ByteRange::at(range.start + k * group, group).intersection(range);
            if (range.start / 7 + k * 3) % 8 < parts && !part.is_empty() {
                held.insert(part);
            }
        }
    }
    held
}
