//! A simulated run under the caller's control: it advances event by event or to a time, shows its state, and takes the
//! caller's laws.
//!
//! Its TCP senders may have laws from outside (`tcp::sender_with_laws`), so a law that is written in Python can drive a
//! flow.

use std::sync::Arc;

use inhaul_base::{Bitrate, Time};
use inhaul_protocols::laws::{LawConfig, MakeLaw};
use inhaul_protocols::tcp;
use inhaul_sim::{LinkId, SimError, TransferId};
use inhaul_transport::Law;
use serde::Serialize;

use crate::assess;
use crate::result::RunResult;
use crate::scenario::{FlowPlan, Plan};
use crate::simulated::Simulated;

/// Builds the law of one flow when it starts, from the flow's name.
pub type FlowLaw = Arc<dyn Fn(&str, &LawConfig) -> Box<dyn Law + Send> + Send + Sync>;

/// Laws by the names of flows; a name may end in `*`.
pub type Laws = Vec<(String, FlowLaw)>;

/// Why there is no stepper.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepperError {
    /// A law is for a flow that the scenario does not have.
    #[error("there is no flow '{name}'; there are: {known}")]
    NoFlow {
        /// The requested value.
        name: String,
        /// The flows there are.
        known: String,
    },
    /// A flow's protocol has no law that can be exchanged.
    #[error(
        "flow '{flow}' has the protocol {protocol}, whose law cannot be exchanged: give it one of the TCP family, like reno"
    )]
    NoLaw {
        /// The flow.
        flow: String,
        /// Its protocol.
        protocol: &'static str,
    },
    /// The simulator refuses the scenario.
    #[error("the simulator refuses the scenario: {0}")]
    Refused(String),
}

/// A run of one cell of a scenario, at a point in time.
pub struct Stepper {
    run: Simulated<Box<Plan>>,
    seed: u64,
}

/// The next state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowPhase {
    /// It has not started.
    Waiting,
    /// It transfers.
    Running,
    /// It has all of its data.
    Complete,
    /// It was stopped as planned.
    Stopped,
    /// It ended badly.
    Failed,
}

/// State of a flow. Counters run from its start. Values that no end measures are zero.
#[derive(Clone, Debug, Serialize)]
pub struct FlowState {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: &'static str,
    /// Where it stands.
    pub phase: FlowPhase,
    /// Why it ended badly, if it did.
    pub failure: Option<String>,
    /// Bytes of its data that it has brought.
    pub placed_bytes: u64,
    /// Bytes received with all headers from IP up.
    pub wire_bytes: u64,
    /// Data packets received.
    pub received_packets: u64,
    /// Data packets found lost.
    pub lost_packets: u64,
    /// Smoothed round-trip time.
    pub rtt_ms: f64,
    /// Rate at which data came in lately, headers included.
    pub received_bps: u64,
    /// Rate that a scheduler gives it, or its law paces at.
    pub target_bps: u64,
    /// Rate that its sender is asked for.
    pub requested_bps: u64,
    /// Bytes that may be on their way, or are asked for.
    pub window_bytes: u64,
    /// Standing queue on its path, as the protocol sees it.
    pub queue_delay_ms: f64,
}

/// How a link stands now. Counters run from the start of the run.
#[derive(Clone, Debug, Serialize)]
pub struct LinkState {
    /// Its name.
    pub name: String,
    /// Its rate as the scenario has it; `None`: no limit.
    pub rate_bps: Option<u64>,
    /// Bytes that wait for its transmitter.
    pub queue_bytes: u64,
    /// Packets that wait for its transmitter.
    pub queue_packets: u64,
    /// Most bytes that ever waited.
    pub queue_bytes_max: u64,
    /// Packets that were sent into it.
    pub offered_packets: u64,
    /// Bytes that it has carried.
    pub carried_bytes: u64,
    /// Packets dropped or lost.
    pub dropped_packets: u64,
}

impl Stepper {
    /// A run at time zero.
    ///
    /// # Errors
    /// When a law is for a flow that there is not, or that cannot have it, or the simulator refuses the plan.
    pub fn new(plan: Plan, seed: u64, laws: &Laws) -> Result<Self, StepperError> {
        let of_flow = plan.flows.iter().map(|flow| law_of(flow, laws)).collect::<Result<Vec<_>, _>>()?;
        if let Some((name, _)) = laws.iter().find(|(name, _)| !plan.flows.iter().any(|flow| is_meant(name, flow))) {
            let known = plan.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(StepperError::NoFlow { name: name.clone(), known });
        }
        // The simulator names flows by their place in the plan; short transfers of the background come after them.
        let names: Vec<String> = plan.flows.iter().map(|flow| flow.name.clone()).collect();
        let make: MakeLaw = Arc::new(move |flow, config| {
            let at = flow.0 as usize;
            of_flow.get(at)?.as_ref().map(|law| law(&names[at], config))
        });
        let laws = (!laws.is_empty()).then_some(&make);
        let run = Simulated::new(Box::new(plan), seed, laws).map_err(StepperError::Refused)?;
        Ok(Self { run, seed })
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.run.simulation.now()
    }

    /// When the run ends.
    pub fn end(&self) -> Time {
        self.run.plan.end
    }

    /// Whether nothing is left to do: every flow has a size and is complete, or the end has come.
    pub fn is_over(&self) -> bool {
        self.now() >= self.end() || self.run.is_over()
    }

    /// The next time at which an unstepped run checks whether it is over. Stepping to these times gives the same
    /// result.
    pub fn next_look(&self) -> Time {
        self.run.next_look()
    }

    /// Lets time pass until `until`, but not beyond the end, or until `goes_on` says no: it is asked before each event.
    ///
    /// # Errors
    /// When an endpoint broke a rule of the simulator: the run cannot go on.
    pub fn advance(&mut self, until: Time, mut goes_on: impl FnMut() -> bool) -> Result<(), SimError> {
        let until = until.min(self.end());
        self.run.simulation.run_while(until, |_| goes_on())
    }

    /// The flows, in the order of the scenario.
    pub fn flows(&self) -> Vec<FlowState> {
        self.run.plan.flows.iter().zip(&self.run.transfers).map(|(flow, id)| self.flow(flow, *id)).collect()
    }

    fn flow(&self, flow: &FlowPlan, id: TransferId) -> FlowState {
        let (simulation, now) = (&self.run.simulation, self.now());
        let failure = simulation.failures().iter().find(|failure| failure.transfer == id);
        let phase = if simulation.is_complete(id) {
            FlowPhase::Complete
        } else if failure.is_some() {
            FlowPhase::Failed
        } else if flow.stop.is_some_and(|stop| stop <= now) {
            FlowPhase::Stopped
        } else if flow.start > now {
            FlowPhase::Waiting
        } else {
            FlowPhase::Running
        };
        let sample = simulation.sample(id);
        FlowState {
            name: flow.name.clone(),
            protocol: flow.protocol.name,
            phase,
            failure: failure.map(|failure| failure.error.to_string()),
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

    /// The links, in the order of the topology.
    pub fn links(&mut self) -> Vec<LinkState> {
        let links: Vec<(LinkId, String)> =
            self.run.plan.topology.links().map(|(id, name, ..)| (id, name.to_owned())).collect();
        links.into_iter().map(|(id, name)| self.link(id, name)).collect()
    }

    fn link(&mut self, id: LinkId, name: String) -> LinkState {
        let rate_bps = self.run.plan.topology.link_spec(id).and_then(|spec| spec.rate).map(Bitrate::bps);
        let stats = self.run.simulation.link_stats(id);
        LinkState {
            name,
            rate_bps,
            queue_bytes: stats.queued.bytes,
            queue_packets: stats.queued.packets,
            queue_bytes_max: stats.queue_bytes_max,
            offered_packets: stats.offered.packets,
            carried_bytes: stats.carried.bytes,
            dropped_packets: stats.dropped().packets,
        }
    }

    /// The result of the passed time, as a run that ended now.
    pub fn result(&mut self) -> RunResult {
        let outcome = self.run.outcome();
        RunResult { seed: self.seed, valid: true, ..assess::assess(&self.run.plan, &outcome) }
    }
}

/// The law that is meant for a flow: the first whose name fits.
fn law_of(flow: &FlowPlan, laws: &Laws) -> Result<Option<FlowLaw>, StepperError> {
    let Some((_, law)) = laws.iter().find(|(name, _)| is_meant(name, flow)) else { return Ok(None) };
    if !tcp::is_of_family(flow.protocol.name) {
        return Err(StepperError::NoLaw { flow: flow.name.clone(), protocol: flow.protocol.name });
    }
    Ok(Some(law.clone()))
}

fn is_meant(name: &str, flow: &FlowPlan) -> bool {
    match name.strip_suffix('*') {
        Some(start) => flow.name.starts_with(start),
        None => flow.name == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run_once;
    use crate::scenario::Scenario;
    use inhaul_base::Span;
    use inhaul_protocols::laws::LawName;
    use std::ops::ControlFlow;

    const LINE: &str = "title = \"t\"\nduration = \"3 s\"\n\
        [topology.dumbbell]\nbottleneck = { rate = \"20 Mbit/s\", queue = \"20 ms\" }\n\
        pairs = [{ sender = \"a\", receiver = \"b\", rtt = \"20 ms\" }, { sender = \"c\", receiver = \"d\", rtt = \"40 ms\" }]\n\
        [[flows]]\nname = \"own\"\nprotocol = \"reno\"\nfrom = \"a\"\nto = \"b\"\n\
        [[flows]]\nname = \"other\"\nprotocol = \"gtp\"\nfrom = \"c\"\nto = \"d\"\nstart = \"1 s\"\nstop = \"2 s\"\n";

    fn plan() -> Plan {
        Scenario::parse("t", LINE, &[]).unwrap().cells.remove(0).plan
    }

    fn law(name: LawName) -> FlowLaw {
        Arc::new(move |_: &str, config: &LawConfig| name.build(config))
    }

    #[test]
    fn steps_of_any_length_come_to_the_same_run() {
        let whole = run_once(&plan(), 1, &|_| ControlFlow::Continue(()));
        let mut looks = Stepper::new(plan(), 1, &Vec::new()).unwrap();
        while !looks.is_over() {
            looks.advance(looks.next_look(), || true).unwrap();
        }
        let mut stepper = Stepper::new(plan(), 1, &Vec::new()).unwrap();
        let (mut events, mut left) = (0u64, 0u64);
        while !stepper.is_over() {
            left += 7;
            stepper
                .advance(stepper.end(), || {
                    let goes_on = left > 0;
                    left = left.saturating_sub(1);
                    events += u64::from(goes_on);
                    goes_on
                })
                .unwrap();
        }
        assert!(events > 1000, "{events}");
        let [stepped, looked, whole] =
            [stepper.result(), looks.result(), whole].map(|run| serde_json::to_string(&run).unwrap());
        assert_eq!((stepped, looked), (whole.clone(), whole));
    }

    #[test]
    fn a_law_of_ones_own_that_is_a_known_one_makes_the_known_run() {
        let run = |laws: Laws| {
            let mut stepper = Stepper::new(plan(), 1, &laws).unwrap();
            stepper.advance(stepper.end(), || true).unwrap();
            stepper.result().trace
        };
        assert_eq!(run(vec![("own".to_owned(), law(LawName::Reno))]), run(Vec::new()));
        assert_ne!(run(vec![("ow*".to_owned(), law(LawName::Scalable))]), run(Vec::new()));
    }

    #[test]
    fn new_refuses_impossible_laws() {
        let refused = |name: &str| Stepper::new(plan(), 1, &vec![(name.to_owned(), law(LawName::Reno))]).err().unwrap();
        assert_eq!(refused("none"), StepperError::NoFlow { name: "none".into(), known: "own, other".into() });
        assert_eq!(refused("other"), StepperError::NoLaw { flow: "other".into(), protocol: "gtp" });
    }

    #[test]
    fn flows_and_links_are_as_they_stand() {
        let mut stepper = Stepper::new(plan(), 1, &Vec::new()).unwrap();
        let phases = |stepper: &Stepper| stepper.flows().iter().map(|flow| flow.phase).collect::<Vec<_>>();
        assert_eq!(phases(&stepper), [FlowPhase::Running, FlowPhase::Waiting]);
        stepper.advance(Time::ZERO + Span::from_millis(1_500), || true).unwrap();
        assert_eq!(phases(&stepper), [FlowPhase::Running; 2]);
        let flow = &stepper.flows()[0];
        assert!(flow.placed_bytes > 1_000_000 && flow.rtt_ms >= 20.0 && flow.window_bytes > 0, "{flow:?}");
        let links = stepper.links();
        let link = links.iter().find(|link| link.name == "bottleneck").unwrap();
        assert!(link.rate_bps == Some(20_000_000) && link.carried_bytes > 1_000_000, "{link:?}");
        stepper.advance(Time::ZERO + Span::from_secs(60), || true).unwrap();
        assert_eq!((stepper.now(), stepper.is_over()), (stepper.end(), true));
        assert_eq!(phases(&stepper), [FlowPhase::Running, FlowPhase::Stopped]);
    }
}
