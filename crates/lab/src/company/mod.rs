//! Shared networks: a seed draws a network and its rivals; protocols are compared with CUBIC in their place, by their
//! own rates and their rivals' (experiments/beyond/company/README.md).

mod draw;
mod kind;
mod network;
mod observe;
mod scenario;
mod total;
mod verdict;

use crate::scenario::{Scenario, ScenarioError};

pub use kind::{Contestant, Discipline, Kind, Place};
pub use network::Network;
pub use total::{Alone, Company, Criterion, Total, criteria, total};
pub use verdict::{After, Kept, Measured, Verdict};

pub use crate::joins::{Counts, Event};

/// Whether a change of a scenario is of the contestant's run alone: CUBIC in its place does not have it. With another
/// seed, CUBIC as the contestant shows how much chance there is.
fn is_of_own(key: &str) -> bool {
    key.starts_with("flows.own") || key == "seed"
}

impl Network {
    /// Runs it in the simulator with CUBIC, then with each contestant in the same place, and judges these. `set` changes
    /// values of the scenarios first; those of the contestant's flows (`flows.own...`) and the seed not with CUBIC.
    ///
    /// # Errors
    /// A [`ScenarioError`] if `set` says something that the scenario cannot take.
    pub fn run(&self, contestants: &[Contestant], set: &[(String, String)]) -> Result<Vec<Verdict>, ScenarioError> {
        let of_all: Vec<_> = set.iter().filter(|(key, _)| !is_of_own(key)).cloned().collect();
        let observe = |contestant: &Contestant, set: &[(String, String)]| {
            let name = format!("shared network {}", self.seed);
            let mut scenario = Scenario::parse(&name, &self.scenario(contestant), set)?;
            Ok(observe::observe(scenario.cells.remove(0).plan, scenario.seed))
        };
        let reference = Contestant::of(Contestant::REFERENCE);
        let beside = observe(&reference, &of_all)?;
        let judge = |contestant: &Contestant| {
            // The same scenario and seed are the same run.
            if *contestant == reference && of_all.len() == set.len() {
                return Ok(verdict::judge(self, contestant, &beside, &beside));
            }
            Ok(verdict::judge(self, contestant, &observe(contestant, set)?, &beside))
        };
        contestants.iter().map(judge).collect()
    }
}

#[cfg(test)]
mod tests;
