//! The two-level control (gtp-2004 4.1 to 4.4, PROTOCOL.md 6.3 to 6.6 with `--control paper`), on rates of whole units.
//!
//! Time goes in *slots* of one RTTmax; a central interval has three. In a slot each flow sends at its requested rate,
//! or at its source's limit. A path and the receiver drop the excess over their capacities; the adversary chooses which
//! flow loses at the receiver. Then controllers step. At the end of the interval come estimates and targets. Flows join
//! and leave at any time, until their number of changes is used up.
//!
//! Each step is the code's; then its result is rounded to whole units: falling rates down, growing rates up, so that
//! rounding stops no change.

use inhaul_base::{Bitrate, Span};
use inhaul_protocols::gtp::{CapacityEstimator, Interval, SingleFlowController};
use inhaul_transport::kit::max_min;
use stateright::{Model, Property};

/// A unit of the grid: the code's rates have a floor of 200 kbit/s, and must not meet it.
const UNIT: Bitrate = Bitrate::from_mbps(1);
/// Slots of a central interval (gtp-2004 4.2: "by default, we set it as three RTTmax").
const SLOTS: u8 = 3;

fn rate(units: u16) -> Bitrate {
    Bitrate::from_bps(u64::from(units) * UNIT.bps())
}

fn units(rate: f64) -> f64 {
    // What differs by less than a thousandth of a unit is the same.
    (rate / UNIT.as_f64() * 1e3).round() / 1e3
}

/// A flow's surroundings.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// Its known bound, min(C_i, R_app, R_send): no estimate is above.
    pub known: u16,
    /// The unknown capacity of its path.
    pub path: u16,
    /// The unknown limit of its sender.
    pub source: u16,
    /// Steps of its controller in a slot: RTTmax over its RTT.
    pub ticks: u8,
}

/// The flow that loses the excess over the receiver's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losers {
    /// The adversary puts flows in an order, in each slot anew: the first loses all it can.
    Anybody,
    /// Each its part; the adversary says who loses the units that are left over.
    Everybody,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Rates {
    /// The told C_r.
    pub told: u16,
    /// The receiver's capacity.
    pub capacity: u16,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// Who loses.
    pub losers: Losers,
    /// Joins and leaves before all is quiet.
    pub changes: u8,
    /// A controller's step may be late by a slot.
    pub late: bool,
    /// Runs begin with every combination of these estimates, as parts of the known capacity.
    pub first: Vec<f64>,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// r_req.
    pub requested: u16,
    /// r_target.
    pub target: u16,
    /// r_hat.
    pub estimate: u16,
    /// The estimator's increment.
    increment: i16,
    /// Received and lost since targets were set.
    seen: (u16, u16),
    /// Of the last slot, if the controller's step is late.
    late: (u16, u16),
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The flows that run.
    pub flows: Vec<Option<Flow>>,
    /// Slots of the interval that are over.
    slot: u8,
    /// Slots since targets were set.
    judged: u8,
    /// Joins and leaves that are left.
    pub changes: u8,
    /// Targets of flows that left in this interval (C_l).
    left: u16,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A slot passes.
    Slot {
        /// The order in which flows lose the excess, or the remainder when each has lost its part.
        order: Vec<u8>,
        /// Flows whose step comes a slot late, as bits.
        late: u8,
    },
    /// A flow joins.
    Join(usize),
    /// A flow leaves.
    Leave(usize),
}

/// The result of a slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Delivered, by flow.
    pub delivered: Vec<u16>,
    /// Lost of all flows.
    pub lost: u16,
}

impl Rates {
    /// The fair rates: max-min of the receiver's capacity, by the flows' limits.
    pub fn ideal(&self, running: &[bool]) -> Vec<u16> {
        let can = |flow: &FlowSpec| rate(flow.known.min(flow.path).min(flow.source));
        let wanted: Vec<_> =
            self.flows.iter().zip(running).map(|(f, r)| if *r { can(f) } else { Bitrate::ZERO }).collect();
        let shares = max_min(rate(self.capacity.min(self.told)), &wanted);
        shares.iter().map(|share| (share.bps() / UNIT.bps()) as u16).collect()
    }

    fn join(&self, flow: usize, part: f64) -> Flow {
        // gtp-2004 4.4: "we set its estimate to the minimum of its physical link capacity, ...".
        let estimate = (f64::from(self.flows[flow].known) * part).round().max(1.0) as u16;
        Flow { estimate, ..Flow::default() }
    }

    /// gtp-2004 4.3: targets. A flow whose target changes begins a new epoch.
    fn schedule(&self, state: &mut State) {
        let estimates: Vec<_> = state.flows.iter().flatten().map(|flow| rate(flow.estimate)).collect();
        let targets = max_min(rate(self.told), &estimates);
        for (flow, target) in state.flows.iter_mut().flatten().zip(targets) {
            let target = (target.bps() / UNIT.bps()).max(1) as u16;
            if target != flow.target {
                (flow.target, flow.requested) = (target, target);
                flow.late = (0, 0);
            }
            flow.seen = (0, 0);
        }
        state.judged = 0;
    }

    /// The end of an interval: gtp-2004 4.2 and 4.4, then 4.3.
    fn central(&self, state: &mut State) {
        let slots = state.judged;
        for (flow, spec) in state.flows.iter_mut().zip(&self.flows) {
            let Some(flow) = flow else { continue };
            // Where nothing came there is nothing to judge.
            if flow.seen.0 > 0 {
                estimate(flow, slots, spec.known);
            }
        }
        let left = f64::from(std::mem::take(&mut state.left));
        let total: f64 = state.flows.iter().flatten().map(|flow| f64::from(flow.estimate)).sum();
        for (flow, spec) in state.flows.iter_mut().zip(&self.flows) {
            if let Some(flow) = flow {
                let raised = (f64::from(flow.estimate) * (1.0 + left / total)).ceil();
                flow.estimate = (raised as u16).min(spec.known);
            }
        }
        state.slot = 0;
        self.schedule(state);
    }

    /// Received and lost data of a slot, by flow.
    fn carry(&self, state: &State, order: &[u8]) -> Vec<(u16, u16)> {
        let mut all: Vec<(u16, u16)> = Vec::new();
        for (flow, spec) in state.flows.iter().zip(&self.flows) {
            let sent = flow.as_ref().map_or(0, |flow| flow.requested.min(spec.source));
            let through = sent.min(spec.path);
            all.push((through, sent - through));
        }
        let sum: u16 = all.iter().map(|flow| flow.0).sum();
        let mut over = sum.saturating_sub(self.capacity);
        let mut lose = |flow: &mut (u16, u16), most: u16| {
            let lost = most.min(over).min(flow.0);
            *flow = (flow.0 - lost, flow.1 + lost);
            over -= lost;
        };
        if self.losers == Losers::Everybody {
            let over = u32::from(sum.saturating_sub(self.capacity));
            for flow in &mut all {
                let part = u32::from(flow.0) * over / u32::from(sum.max(1));
                lose(flow, part as u16);
            }
        }
        for &flow in order {
            let most = if self.losers == Losers::Everybody { 1 } else { u16::MAX };
            lose(&mut all[usize::from(flow)], most);
        }
        all
    }

    /// A slot passes.
    pub fn pass(&self, state: &State, order: &[u8], late: u8) -> (State, Seen) {
        let came = self.carry(state, order);
        let seen =
            Seen { delivered: came.iter().map(|flow| flow.0).collect(), lost: came.iter().map(|flow| flow.1).sum() };
        let mut state = state.clone();
        for (k, (flow, came)) in state.flows.iter_mut().zip(came).enumerate() {
            let Some(flow) = flow else { continue };
            flow.seen = (flow.seen.0 + came.0, flow.seen.1 + came.1);
            let tally = (flow.late.0 + came.0, flow.late.1 + came.1);
            if late & 1 << k != 0 {
                flow.late = tally;
                continue;
            }
            flow.late = (0, 0);
            let loss = f64::from(tally.1) / f64::from((tally.0 + tally.1).max(1));
            for _ in 0..self.flows[k].ticks {
                step(flow, loss);
            }
        }
        state.slot += 1;
        state.judged += 1;
        if state.slot == SLOTS {
            self.central(&mut state);
        }
        (state, seen)
    }

    fn orders(&self, state: &State) -> Vec<Vec<u8>> {
        let sent = |(flow, spec): (&Option<Flow>, &FlowSpec)| {
            flow.as_ref().map_or(0, |flow| flow.requested.min(spec.source).min(spec.path))
        };
        let sum: u16 = state.flows.iter().zip(&self.flows).map(sent).sum();
        if sum <= self.capacity {
            return vec![Vec::new()];
        }
        let running: Vec<u8> = (0..self.flows.len() as u8).filter(|k| state.flows[usize::from(*k)].is_some()).collect();
        permutations(&running)
    }
}

/// gtp-2004 4.1, on the grid.
fn step(flow: &mut Flow, loss: f64) {
    let mut controller = SingleFlowController::resume(rate(flow.requested), rate(flow.target));
    controller.on_rtt(loss);
    let asked = units(controller.requested().as_f64());
    flow.requested = if loss > 0.0 { asked.floor().max(1.0) } else { asked.ceil() } as u16;
    flow.requested = flow.requested.min(flow.target);
}

/// gtp-2004 4.2, on the grid.
fn estimate(flow: &mut Flow, slots: u8, known: u16) {
    let (received, lost) = (f64::from(flow.seen.0), f64::from(flow.seen.1));
    let received_rate = Bitrate::from_f64(received / f64::from(slots) * UNIT.as_f64());
    let sample = Interval {
        received: received_rate,
        marked: 0.0,
        loss: lost / (received + lost),
        packets: 1_000,
        queue: Span::ZERO,
        queue_mean: Span::ZERO,
        dry: false,
        recent: received_rate,
    };
    let mut estimator = CapacityEstimator::resume(f64::from(flow.increment) * UNIT.as_f64());
    let estimate = units(estimator.on_interval(sample, rate(flow.target), rate(known)).as_f64());
    let increment = units(estimator.increment());
    // Beyond the known bound another increment is the same.
    let increment = if increment > 0.0 { increment.ceil() } else { increment.floor() };
    flow.increment = increment.min(f64::from(known)) as i16;
    flow.estimate = if increment > 0.0 { estimate.ceil() } else { estimate.floor().max(1.0) } as u16;
}

fn permutations(of: &[u8]) -> Vec<Vec<u8>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let first = |k: usize| {
        let rest: Vec<u8> = of.iter().copied().filter(|flow| *flow != of[k]).collect();
        permutations(&rest).into_iter().map(move |rest| [vec![of[k]], rest].concat())
    };
    (0..of.len()).flat_map(first).collect()
}

impl Model for Rates {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut all: Vec<Vec<Option<Flow>>> = vec![Vec::new()];
        for flow in 0..self.flows.len() {
            let with = |flows: &Vec<Option<Flow>>, part: f64| [&flows[..], &[Some(self.join(flow, part))]].concat();
            all = all.iter().flat_map(|flows| self.first.iter().map(|part| with(flows, *part))).collect();
        }
        let begin = |flows| {
            let mut state = State { flows, slot: 0, judged: 0, changes: self.changes, left: 0 };
            self.schedule(&mut state);
            state
        };
        all.into_iter().map(begin).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let running = |k: usize| state.flows[k].is_some();
        let may_be_late = |k: &usize| self.late && state.flows[*k].as_ref().is_some_and(|flow| flow.late == (0, 0));
        let late: Vec<usize> = (0..self.flows.len()).filter(may_be_late).collect();
        let subset =
            |bits: u8| late.iter().enumerate().filter(|(k, _)| bits & 1 << k != 0).map(|(_, flow)| 1 << flow).sum();
        for order in self.orders(state) {
            actions.extend((0..1 << late.len()).map(|bits| Action::Slot { order: order.clone(), late: subset(bits) }));
        }
        if state.changes > 0 {
            let change = |k| if running(k) { Action::Leave(k) } else { Action::Join(k) };
            actions.extend((0..self.flows.len()).map(change));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Slot { order, late } => return Some(self.pass(last, &order, late).0),
            Action::Join(k) => {
                state.flows[k] = Some(self.join(k, 1.0));
                self.schedule(&mut state);
            }
            Action::Leave(k) => {
                // The others hear of it at the end of the interval.
                state.left += state.flows[k].take()?.target;
            }
        }
        state.changes -= 1;
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn all(state: &State, holds: impl Fn(usize, &Flow) -> bool) -> bool {
            state.flows.iter().enumerate().all(|(k, flow)| flow.as_ref().is_none_or(|flow| holds(k, flow)))
        }
        vec![
            Property::always("the targets are no more than C_r", |model: &Self, state: &State| {
                state.flows.iter().flatten().map(|flow| flow.target).sum::<u16>() <= model.told
            }),
            Property::always("no target is above its estimate", |_: &Self, state: &State| {
                all(state, |_, flow| flow.target <= flow.estimate)
            }),
            Property::always("no estimate is above what is known", |model: &Self, state: &State| {
                all(state, |k, flow| flow.estimate <= model.flows[k].known)
            }),
            Property::always("nothing is asked for beyond the target", |_: &Self, state: &State| {
                all(state, |_, flow| flow.requested <= flow.target)
            }),
        ]
    }
}
