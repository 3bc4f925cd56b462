//! Random stars: networks that nobody chose, made from a number.
//!
//! A law that holds where its builder tried it may fail anywhere else. So a seed draws a star (rates, round-trip times, queues, packets,
//! limits of senders), flows that join and leave, and what disturbs them; GTP runs over it, and each join and leave is judged
//! against max-min fairness (experiments/beyond/random-stars/README.md).

mod draw;
mod verdict;

use std::str::FromStr;

use inhaul_base::Span;
use serde::Serialize;

use crate::run::run_once;
use crate::scenario::{Scenario, ScenarioError};

pub use verdict::{Event, Total, Verdict, total};

/// What disturbs the flows of a star.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nothing.
    Clean,
    /// The access link loses packets at random, 0.1 to 30 %.
    Loss,
    /// Packets come up to 4 ms late, in order.
    Jitter,
    /// A CUBIC flow comes and goes on the access link.
    Cross,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Clean, Self::Loss, Self::Jitter, Self::Cross];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Loss => "loss",
            Self::Jitter => "jitter",
            Self::Cross => "cross",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| "clean, loss, jitter or cross".to_owned())
    }
}

/// How GTP sets its rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Knowledge {
    /// Capacities are found: the default.
    Found,
    /// gtp-2004 to the letter: the true capacities are told.
    Told,
}

/// A star that a seed has drawn.
#[derive(Clone, Debug)]
pub struct Star {
    /// The seed: the same number gives the same star.
    pub seed: u64,
    /// What disturbs its flows.
    pub kind: Kind,
    /// Rate of the access link, in bits per second.
    pub access_bps: u64,
    loss: f64,
    draw: draw::Drawn,
}

impl Star {
    /// The star of a seed. What disturbs it, and the rate of its access link, are drawn as well.
    pub fn of(seed: u64) -> Self {
        draw::star(seed)
    }

    /// The scenario as TOML (docs/scenario.md).
    pub fn scenario(&self, knowledge: Knowledge) -> String {
        self.draw.scenario(self, knowledge)
    }

    fn mtu_of(&self, flow: &str) -> u16 {
        self.draw.mtu_of(flow)
    }

    /// Runs it in the simulator and judges each join and leave. `set` changes values of the scenario first.
    ///
    /// # Errors
    /// A [`ScenarioError`] if `set` says something that the scenario cannot take.
    pub fn run(&self, knowledge: Knowledge, set: &[(String, String)]) -> Result<Verdict, ScenarioError> {
        let name = format!("random star {}", self.seed);
        let scenario = Scenario::parse(&name, &self.scenario(knowledge), set)?;
        let run = run_once(&scenario.cells[0].plan, self.seed, &|_: Span| ());
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
        // The first that nothing disturbs: what is judged is not impossible.
        let star = (1..).map(Star::of).find(|star| star.kind == Kind::Clean && star.access_bps == 100_000_000).unwrap();
        let verdict = star.run(Knowledge::Told, &[]).unwrap();
        let total = total([&verdict]);
        assert!(verdict.valid && total.joins[2] == total.joins[0] && total.worst > 0.9, "{verdict:?}");
        let again = star.run(Knowledge::Told, &[]).unwrap();
        assert_eq!(verdict.trace, again.trace);
    }
}
