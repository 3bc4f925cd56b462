//! Transitions (gtp-2004 4.4, PROTOCOL.md 6.6): changes are aligned, so that what falls shows at the receiver no later
//! than what grows.
//!
//! Time goes in slots. A rate told now shows after the flow's RTT. Shares change at any time: flows join and leave, and
//! the demand of one of them becomes small or large again. Each time the scheduler sets targets, and each flow takes
//! over its own after RTTmax - RTT_i, by the code's own [`Plans`].

use inhaul_base::{Bitrate, Time};
use inhaul_protocols::gtp::Plans;
use inhaul_transport::kit::max_min;
use stateright::{Model, Property};

/// When changes show at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// After their own RTT: as if there were no 4.4.
    AtOnce,
    /// After RTTmax of the flows that run then: the paper's.
    Aligned,
    /// The same, but no change shows before an earlier one.
    InOrder,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Transitions {
    /// C_r.
    pub capacity: u16,
    /// RTTs in slots.
    pub rtts: Vec<u8>,
    /// A flow's demand when it is small; otherwise it is the whole capacity.
    pub little: u16,
    /// When changes show.
    pub rule: Rule,
    /// Changes before all is quiet.
    pub changes: u8,
    /// A flow may also fail: data in flight still comes.
    pub failing: bool,
    /// The most that may arrive, for the property.
    pub bound: u16,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    runs: bool,
    little: bool,
    /// The rate in force.
    rate: u16,
    /// Arrivals of the next slots.
    pipe: Vec<u16>,
    /// Targets that are noted: in how many slots, and what.
    plans: Vec<(u8, u16)>,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The flows.
    pub flows: Vec<Flow>,
    /// In how many slots the last change that was set shows.
    shows: u8,
    /// Changes that are left.
    changes: u8,
}

impl State {
    /// Arrivals now.
    pub fn arriving(&self) -> u16 {
        self.flows.iter().map(|flow| flow.pipe[0]).sum()
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// A slot passes.
    Slot,
    /// A flow joins.
    Join(usize),
    /// A flow is complete: nothing is on its way.
    Complete(usize),
    /// A flow fails: data in flight still comes.
    Fail(usize),
    /// A flow's demand becomes small, or the whole capacity again.
    Estimate(usize),
}

impl Transitions {
    /// gtp-2004 4.3 and 4.4.
    fn schedule(&self, state: &mut State) {
        let rtt_max = (0..self.rtts.len()).filter(|k| state.flows[*k].runs).map(|k| self.rtts[k]).max().unwrap_or(0);
        let shows = match self.rule {
            Rule::InOrder => rtt_max.max(state.shows),
            Rule::AtOnce | Rule::Aligned => rtt_max,
        };
        state.shows = shows;
        let can = |flow: &Flow| Bitrate::from_bps(u64::from(if flow.little { self.little } else { self.capacity }));
        let wanted: Vec<_> = state.flows.iter().filter(|flow| flow.runs).map(can).collect();
        let targets = max_min(Bitrate::from_bps(u64::from(self.capacity)), &wanted);
        let running = state.flows.iter_mut().zip(&self.rtts).filter(|(flow, _)| flow.runs);
        for ((flow, rtt), target) in running.zip(targets) {
            let mut plans = plans(&flow.plans, 0);
            let before = plans.last().unwrap_or(Bitrate::from_bps(u64::from(flow.rate)));
            if before == target {
                continue;
            }
            let after = if self.rule == Rule::AtOnce { 0 } else { shows.saturating_sub(*rtt) };
            plans.plan(Time::from_nanos(u64::from(after)), target);
            flow.plans = noted(&plans);
        }
        take_over(state);
    }
}

/// The code's type, after this many slots.
fn plans(noted: &[(u8, u16)], passed: u8) -> Plans {
    let mut plans = Plans::default();
    for (after, target) in noted {
        plans.plan(Time::from_nanos(u64::from(after.saturating_sub(passed))), Bitrate::from_bps(u64::from(*target)));
    }
    plans
}

fn noted(plans: &Plans) -> Vec<(u8, u16)> {
    plans.iter().map(|(at, target)| (at.as_nanos() as u8, target.bps() as u16)).collect()
}

/// Flows take over due targets.
fn take_over(state: &mut State) {
    for flow in state.flows.iter_mut().filter(|flow| flow.runs) {
        let mut plans = plans(&flow.plans, 0);
        if let Some(target) = plans.take_due(Time::ZERO) {
            flow.rate = target.bps() as u16;
        }
        flow.plans = noted(&plans);
    }
}

impl Model for Transitions {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let flow = |rtt: &u8| Flow { pipe: vec![0; usize::from(*rtt)], ..Flow::default() };
        vec![State { flows: self.rtts.iter().map(flow).collect(), shows: 0, changes: self.changes }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Slot);
        if state.changes == 0 {
            return;
        }
        for (k, flow) in state.flows.iter().enumerate() {
            if flow.runs {
                actions.extend([Action::Complete(k), Action::Estimate(k)]);
                actions.extend(self.failing.then_some(Action::Fail(k)));
            } else {
                actions.push(Action::Join(k));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Slot => {
                state.shows = state.shows.saturating_sub(1);
                for flow in &mut state.flows {
                    flow.pipe.rotate_left(1);
                    if let Some(last) = flow.pipe.last_mut() {
                        *last = if flow.runs { flow.rate } else { 0 };
                    }
                    flow.plans = noted(&plans(&flow.plans, 1));
                }
                take_over(&mut state);
                return Some(state);
            }
            Action::Join(k) => {
                state.flows[k] = Flow { runs: true, pipe: state.flows[k].pipe.clone(), ..Flow::default() }
            }
            Action::Complete(k) => {
                state.flows[k] = Flow { pipe: vec![0; usize::from(self.rtts[k])], ..Flow::default() }
            }
            Action::Fail(k) => state.flows[k] = Flow { pipe: state.flows[k].pipe.clone(), ..Flow::default() },
            Action::Estimate(k) => state.flows[k].little ^= true,
        }
        state.changes -= 1;
        self.schedule(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(
            "no more comes than C_r and what the rule lets through",
            |model: &Self, state: &State| state.arriving() <= model.bound,
        )]
    }
}
