//! All states of a model, and where its runs end up.
//!
//! stateright checks the properties that must always hold. The properties that must hold in the end are read off the
//! graph. A fair run, which takes every possible transition again and again, ends in a *terminal* component: a set of
//! states that lead to each other and to no other state.

use std::collections::BTreeMap;

use stateright::Model;

/// The states of a model that can be reached, and what follows what.
#[derive(Debug)]
pub struct Graph<S> {
    /// The states, in the order in which they were found.
    pub states: Vec<S>,
    /// The possible successors of each state.
    pub next: Vec<Vec<u32>>,
}

/// Visits all states.
///
/// # Errors
/// When there are more than `most`.
pub fn explore<M>(model: &M, most: usize) -> Result<Graph<M::State>, usize>
where
    M: Model,
    M::State: Ord + Clone,
{
    let mut number: BTreeMap<M::State, u32> = BTreeMap::new();
    let mut graph = Graph { states: Vec::new(), next: Vec::new() };
    let mut found = |state: M::State, states: &mut Vec<M::State>| {
        *number.entry(state).or_insert_with_key(|state| {
            states.push(state.clone());
            states.len() as u32 - 1
        })
    };
    for state in model.init_states() {
        found(state, &mut graph.states);
    }
    let mut actions = Vec::new();
    while graph.next.len() < graph.states.len() {
        if graph.states.len() > most {
            return Err(graph.states.len());
        }
        let state = graph.states[graph.next.len()].clone();
        model.actions(&state, &mut actions);
        let mut next: Vec<u32> = actions
            .drain(..)
            .filter_map(|action| model.next_state(&state, action))
            .map(|state| found(state, &mut graph.states))
            .collect();
        next.sort_unstable();
        next.dedup();
        graph.next.push(next);
    }
    Ok(graph)
}

/// A strongly connected component: states that all lead to each other.
#[derive(Debug)]
pub struct Component {
    /// Its states.
    pub states: Vec<u32>,
    /// Whether it has a cycle: it has two states, or one state that leads to itself.
    pub has_cycle: bool,
    /// Whether nothing leads out of it.
    pub is_terminal: bool,
}

/// The components of a graph, by Tarjan's algorithm: each comes after all that can be reached from it.
pub fn components(next: &[Vec<u32>]) -> Vec<Component> {
    const NEW: u32 = u32::MAX;
    let mut index = vec![NEW; next.len()];
    let mut low = vec![0; next.len()];
    let mut of = vec![NEW; next.len()];
    let (mut stack, mut counter) = (Vec::new(), 0);
    let mut found: Vec<Component> = Vec::new();
    for root in 0..next.len() {
        if index[root] != NEW {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((at, edge)) = calls.last_mut() {
            let at = *at;
            if *edge == 0 {
                (index[at], low[at]) = (counter, counter);
                counter += 1;
                stack.push(at as u32);
            }
            if let Some(&to) = next[at].get(*edge) {
                *edge += 1;
                let to = to as usize;
                if index[to] == NEW {
                    calls.push((to, 0));
                } else if of[to] == NEW {
                    low[at] = low[at].min(index[to]);
                }
                continue;
            }
            calls.pop();
            if let Some((caller, _)) = calls.last() {
                low[*caller] = low[*caller].min(low[at]);
            }
            if low[at] == index[at] {
                let from = stack.iter().rposition(|&state| state as usize == at).unwrap_or_default();
                let states = stack.split_off(from);
                states.iter().for_each(|&state| of[state as usize] = found.len() as u32);
                let leads_to = |own: bool| {
                    let here = found.len() as u32;
                    states.iter().flat_map(|&s| &next[s as usize]).any(|&to| (of[to as usize] == here) == own)
                };
                let (has_cycle, is_terminal) = (leads_to(true), !leads_to(false));
                found.push(Component { states, has_cycle, is_terminal });
            }
        }
    }
    found
}

/// The most steps from `start` until a run is in a terminal component. `None`: it may go round for ever before.
pub fn longest_way(next: &[Vec<u32>], components: &[Component], start: &[u32]) -> Option<u32> {
    let mut steps = vec![Some(0); next.len()];
    for component in components.iter().filter(|component| !component.is_terminal) {
        let [state] = component.states[..] else {
            component.states.iter().for_each(|&state| steps[state as usize] = None);
            continue;
        };
        let mut after = next[state as usize].iter().map(|&to| steps[to as usize]);
        let most = after.try_fold(0, |most, after| Some(after?.max(most)));
        steps[state as usize] = if component.has_cycle { None } else { most.map(|most| most + 1) };
    }
    start.iter().map(|&state| steps[state as usize]).try_fold(0, |most, steps| Some(steps?.max(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_of_a_small_graph() {
        // 0 -> 1 <-> 2 -> 3 -> 3, and 2 -> 4.
        let next = [vec![1], vec![2], vec![1, 3, 4], vec![3], vec![]];
        let mut found = components(&next);
        assert!(found.last().is_some_and(|last| last.states == [0]), "reached components come first");
        found.iter_mut().for_each(|component| component.states.sort_unstable());
        found.sort_by_key(|component| component.states.clone());
        let all: Vec<_> = found.iter().map(|c| (c.states.clone(), c.has_cycle, c.is_terminal)).collect();
        let expected =
            [(vec![0], false, false), (vec![1, 2], true, false), (vec![3], true, true), (vec![4], false, true)];
        assert_eq!(all, expected);
    }

    #[test]
    fn longest_way_is_none_where_a_run_may_go_round() {
        let straight = [vec![1, 2], vec![2], vec![3], vec![2]];
        assert_eq!(longest_way(&straight, &components(&straight), &[0]), Some(2));
        let round = [vec![1], vec![0, 2], vec![]];
        assert_eq!(longest_way(&round, &components(&round), &[0]), None);
    }
}
