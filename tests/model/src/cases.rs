//! The cases, and the findings for each.

use serde::Serialize;
use stateright::{Checker, Model};

use crate::explore::{Component, Graph, components, explore, longest_way};
use crate::rates::{Action as Step, FlowSpec, Losers, Rates, State};
use crate::transitions::{Rule, Transitions};

/// A model with more states than these is refused.
const STATES_MAX: usize = 2_000_000;

/// Findings for the two-level control.
#[derive(Clone, Debug, Serialize)]
pub struct RatesFound {
    /// The case.
    pub case: String,
    /// Whether the test of every day checks it, too.
    pub quick: bool,
    /// States that stateright visited, and those of our own search.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// Properties that hold always.
    pub always: Vec<String>,
    /// Properties that do not.
    pub broken: Vec<String>,
    /// Terminal components, and their states.
    pub ends: usize,
    /// States in terminal components.
    pub end_states: usize,
    /// The most slots from the last join or leave until a run is in one; `None`: it may go round for ever before.
    pub slots_until_end: Option<u32>,
    /// Of each flow, if all run to the end: its fair share.
    pub fair: Vec<u16>,
    /// The least and the most that it is delivered in a slot of a terminal component, where all flows run.
    pub delivered: Vec<(u16, u16)>,
    /// The same of its target.
    pub target: Vec<(u16, u16)>,
    /// The least of the parts of fair shares that are delivered.
    pub worst: f64,
    /// The least part of all fair shares together that is delivered.
    pub least_sum: f64,
    /// The greatest loss ratio of a slot there.
    pub loss_max: f64,
    /// Whether a run may lose in each slot for ever.
    pub loss_for_ever: bool,
    /// Whether each terminal component is within one unit of max-min, and loses nothing.
    pub converges: bool,
}

/// Findings for transitions.
#[derive(Clone, Debug, Serialize)]
pub struct TransitionsFound {
    /// The case.
    pub case: String,
    /// Whether the test of every day checks it, too.
    pub quick: bool,
    /// States that were visited.
    pub states: usize,
    /// C_r in units.
    pub capacity: u16,
    /// The most that comes in a slot.
    pub most: u16,
    /// The same over C_r.
    pub over: f64,
    /// Whether stateright proves that no more comes.
    pub proven: bool,
    /// The shortest way to more than C_r.
    pub trace: Vec<String>,
}

/// All that is found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The two-level control.
    pub rates: Vec<RatesFound>,
    /// Transitions.
    pub transitions: Vec<TransitionsFound>,
}

/// A case of the two-level control.
#[derive(Clone, Debug)]
pub struct RatesCase {
    /// Its name.
    pub name: &'static str,
    /// Whether the test of every day checks it.
    pub quick: bool,
    /// The model.
    pub model: Rates,
}

fn flow(known: u16, path: u16, source: u16, ticks: u8) -> FlowSpec {
    FlowSpec { known, path, source, ticks }
}

/// The cases of the two-level control. C_r is 100 units, or 1000 where the adversary has little to choose.
pub fn rates() -> Vec<RatesCase> {
    let base = |capacity: u16| Rates {
        told: capacity,
        capacity,
        flows: vec![flow(capacity, capacity, capacity, 1), flow(capacity, capacity, capacity, 3)],
        losers: Losers::Anybody,
        changes: 0,
        late: true,
        first: vec![0.25, 0.5, 1.0],
    };
    let narrow = |known, path, source| vec![flow(known, path, source, 1), flow(1000, 1000, 1000, 3)];
    let three = vec![flow(20, 20, 100, 1), flow(50, 50, 100, 2), flow(100, 100, 100, 3)];
    let case = |name, quick, model| RatesCase { name, quick, model };
    vec![
        case("capacities told", true, Rates { changes: 4, ..base(100) }),
        case("capacities told, three flows", true, Rates { flows: three, changes: 2, ..base(100) }),
        case("capacity told 3 % too low", true, Rates { capacity: 1000, ..base(970) }),
        case("a sender gives 300", true, Rates { flows: narrow(1000, 1000, 300), ..base(1000) }),
        case("a path carries 300", true, Rates { flows: narrow(1000, 300, 1000), ..base(1000) }),
        case("a path carries 300, 309 told", true, Rates { flows: narrow(309, 300, 1000), ..base(1000) }),
        case(
            "capacity told 3 % too high, each loses its part",
            false,
            Rates { capacity: 970, losers: Losers::Everybody, late: false, ..base(1000) },
        ),
        case("capacity told 3 % too high, anybody loses", false, Rates { capacity: 97, late: false, ..base(100) }),
    ]
}

fn out_of(share: u32, of: u32) -> f64 {
    if of == 0 { 0.0 } else { f64::from(share) / f64::from(of) }
}

/// What terminal components bring.
#[derive(Debug)]
struct Ends {
    delivered: Vec<(u16, u16)>,
    target: Vec<(u16, u16)>,
    least_sum: u16,
    loss_max: f64,
    lossy: Vec<Vec<u32>>,
    converges: bool,
}

fn widen(range: &mut (u16, u16), value: u16) {
    *range = (range.0.min(value), range.1.max(value));
}

/// Plays each slot of the terminal components again.
fn look_at_ends(model: &Rates, graph: &Graph<State>, parts: &[Component]) -> Ends {
    let flows = model.flows.len();
    let mut ends = Ends {
        delivered: vec![(u16::MAX, 0); flows],
        target: vec![(u16::MAX, 0); flows],
        least_sum: u16::MAX,
        loss_max: 0.0,
        lossy: vec![Vec::new(); graph.states.len()],
        converges: true,
    };
    let number = |state: &State, next: &[u32]| next.iter().copied().find(|to| graph.states[*to as usize] == *state);
    let mut actions = Vec::new();
    for &at in parts.iter().filter(|part| part.is_terminal).flat_map(|part| &part.states) {
        let state = &graph.states[at as usize];
        let running: Vec<bool> = state.flows.iter().map(Option::is_some).collect();
        let fair = model.ideal(&running);
        let full = running.iter().all(|runs| *runs);
        model.actions(state, &mut actions);
        for action in actions.drain(..) {
            let Step::Slot { order, late } = action else { continue };
            let (next, seen) = model.pass(state, &order, late);
            if seen.lost > 0 {
                ends.lossy[at as usize].extend(number(&next, &graph.next[at as usize]));
            }
            let sum: u16 = seen.delivered.iter().sum();
            ends.loss_max = ends.loss_max.max(out_of(seen.lost.into(), u32::from(sum + seen.lost)));
            let near = |(came, fair): (&u16, &u16)| came.abs_diff(*fair) <= 1;
            ends.converges &= seen.lost == 0 && seen.delivered.iter().zip(&fair).all(near);
            if full {
                ends.least_sum = ends.least_sum.min(sum);
                for (k, came) in seen.delivered.iter().enumerate() {
                    widen(&mut ends.delivered[k], *came);
                    widen(&mut ends.target[k], state.flows[k].as_ref().map_or(0, |flow| flow.target));
                }
            }
        }
    }
    ends
}

/// Visits a case.
///
/// # Errors
/// When it has too many states.
pub fn find_rates(case: &RatesCase) -> Result<RatesFound, String> {
    let model = &case.model;
    let checker = model.clone().checker().spawn_bfs().join();
    let broken: Vec<String> = checker.discoveries().keys().map(|name| (*name).to_owned()).collect();
    let always = model.properties().iter().map(|p| p.name.to_owned()).filter(|name| !broken.contains(name)).collect();
    let graph = explore(model, STATES_MAX).map_err(|states| format!("{}: {states} states and more", case.name))?;
    if broken.is_empty() && graph.states.len() != checker.unique_state_count() {
        return Err(format!("{} states, and {} by stateright", graph.states.len(), checker.unique_state_count()));
    }
    let parts = components(&graph.next);
    let ends = look_at_ends(model, &graph, &parts);
    let fair = model.ideal(&vec![true; model.flows.len()]);
    let part = |(came, fair): (&(u16, u16), &u16)| out_of(came.0.into(), (*fair).into());
    // From when all is quiet.
    let start: Vec<u32> =
        (0..).zip(&graph.states).filter(|(_, state)| state.changes == 0).map(|(number, _)| number).collect();
    let sum = |of: &[u16]| of.iter().map(|share| u32::from(*share)).sum::<u32>();
    let terminal = || parts.iter().filter(|part| part.is_terminal);
    Ok(RatesFound {
        case: case.name.to_owned(),
        quick: case.quick,
        states: graph.states.len(),
        steps: graph.next.iter().map(Vec::len).sum(),
        always,
        broken,
        ends: terminal().count(),
        end_states: terminal().map(|part| part.states.len()).sum(),
        slots_until_end: longest_way(&graph.next, &parts, &start),
        worst: ends.delivered.iter().zip(&fair).map(part).fold(f64::INFINITY, f64::min),
        least_sum: out_of(ends.least_sum.into(), sum(&fair)),
        fair,
        delivered: ends.delivered,
        target: ends.target,
        loss_max: ends.loss_max,
        loss_for_ever: components(&ends.lossy).iter().any(|part| part.has_cycle),
        converges: ends.converges,
    })
}

/// A case of transitions.
#[derive(Clone, Debug)]
pub struct TransitionsCase {
    /// Its name.
    pub name: &'static str,
    /// Whether the test of every day checks it.
    pub quick: bool,
    /// The model.
    pub model: Transitions,
}

/// The cases of transitions. C_r is 12 units.
pub fn transitions() -> Vec<TransitionsCase> {
    let base = || Transitions {
        capacity: 12,
        rtts: vec![1, 2, 4],
        little: 2,
        rule: Rule::Aligned,
        changes: 4,
        failing: false,
        bound: 12,
    };
    let case = |name, quick, model| TransitionsCase { name, quick, model };
    vec![
        case("at once", true, Transitions { rule: Rule::AtOnce, ..base() }),
        case("aligned", true, base()),
        case("aligned, in order", true, Transitions { rule: Rule::InOrder, ..base() }),
        case("aligned, in order, flows fail", true, Transitions { rule: Rule::InOrder, failing: true, ..base() }),
    ]
}

/// Visits a case.
///
/// # Errors
/// When it has too many states.
pub fn find_transitions(case: &TransitionsCase) -> Result<TransitionsFound, String> {
    let graph =
        explore(&case.model, STATES_MAX).map_err(|states| format!("{}: {states} states and more", case.name))?;
    let most = graph.states.iter().map(crate::transitions::State::arriving).max().unwrap_or(0);
    let checked = |bound| Transitions { bound, ..case.model.clone() }.checker().spawn_bfs().join();
    let proof = checked(most);
    let against = checked(case.model.capacity);
    let trace = against.discoveries().into_values().next().map(stateright::Path::into_actions);
    Ok(TransitionsFound {
        case: case.name.to_owned(),
        quick: case.quick,
        states: proof.unique_state_count(),
        capacity: case.model.capacity,
        most,
        over: f64::from(most) / f64::from(case.model.capacity),
        proven: proof.discoveries().is_empty(),
        trace: trace.unwrap_or_default().iter().map(|action| format!("{action:?}")).collect(),
    })
}
