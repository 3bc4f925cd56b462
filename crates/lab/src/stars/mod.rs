//! Random stars: star topologies drawn from a seed.
//!
//! A control law that works in its author's scenarios may fail in others. So a seed draws a star (rates, round-trip
//! times, queues, packet sizes, limits of senders), flows that join and leave, and disturbances. GTP runs over it.
//! Each join and leave is judged against max-min fairness (experiments/beyond/random-stars/README.md).

mod draw;
mod kind;
mod verdict;

use std::ops::ControlFlow;

use crate::run::run_once;
use crate::scenario::{Scenario, ScenarioError};

pub use draw::Star;
pub use kind::{Kind, Knowledge};
pub use verdict::{Total, Verdict, total};

pub use crate::joins::{Counts, Event};

impl Star {
    /// Runs it in the simulator and judges each join and leave. `set` changes values of the scenario first.
    ///
    /// # Errors
    /// A [`ScenarioError`] if `set` says something that the scenario cannot take.
    pub fn run(&self, knowledge: Knowledge, set: &[(String, String)]) -> Result<Verdict, ScenarioError> {
        let name = format!("random star {}", self.seed);
        let scenario = Scenario::parse(&name, &self.scenario(knowledge), set)?;
        let run = run_once(&scenario.cells[0].plan, self.seed, &|_| ControlFlow::Continue(()));
        Ok(verdict::judge(self, &run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_star_is_a_scenario_and_the_same_each_time() {
        for seed in 0..300 {
            for knowledge in [Knowledge::Found, Knowledge::Told] {
                let text = Star::of(seed).scenario(knowledge);
                assert_eq!(text, Star::of(seed).scenario(knowledge));
                let scenario = Scenario::parse("star", &text, &[]).unwrap_or_else(|error| panic!("{seed}: {error}"));
                assert!((3..=13).contains(&scenario.cells[0].plan.flows.len()), "{seed}");
            }
        }
    }

    #[test]
    fn stars_are_of_every_kind() {
        for kind in Kind::ALL {
            assert!((0..100).any(|seed| Star::of(seed).kind == kind), "{}", kind.name());
            assert_eq!(kind.name().parse(), Ok(kind));
        }
    }

    #[test]
    fn gtp_that_is_told_the_capacities_is_right() {
        // The first undisturbed star: the judged results must be possible.
        let star = (1..).map(Star::of).find(|star| star.kind == Kind::Clean && star.access_bps == 100_000_000).unwrap();
        let verdict = star.run(Knowledge::Told, &[]).unwrap();
        let total = total([&verdict]);
        assert!(verdict.valid && total.joins[2] == total.joins[0] && total.worst > 0.9, "{verdict:?}");
        let again = star.run(Knowledge::Told, &[]).unwrap();
        assert_eq!(verdict.trace, again.trace);
    }
}
