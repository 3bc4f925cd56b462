//! The verdict on each join and leave.

use serde::Serialize;

use super::draw::Star;
use super::kind::Kind;
use crate::joins::{Counts, Event, count, events};
use crate::result::RunResult;

/// What became of a star.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The star's seed.
    pub seed: u64,
    /// What disturbs it.
    pub kind: Kind,
    /// Rate of its access link, in bits per second.
    pub access_bps: u64,
    /// Whether the run kept every rule of the simulator.
    pub valid: bool,
    /// Its joins and leaves.
    pub events: Vec<Event>,
    /// Data packets lost over received and lost.
    pub loss: f64,
    /// The same, less the link's random losses.
    pub excess_loss: f64,
    /// Fingerprint of the run.
    pub trace: String,
}

pub(super) fn judge(star: &Star, run: &RunResult) -> Verdict {
    let loss = run.metrics.loss_ratio;
    Verdict {
        seed: star.seed,
        kind: star.kind,
        access_bps: star.access_bps,
        valid: run.valid && run.flows.iter().all(|flow| flow.failure.is_none()),
        events: events(run, star.loss, &|flow| star.mtu_of(flow)),
        loss,
        excess_loss: (loss - star.loss).max(0.0),
        trace: run.trace.clone(),
    }
}

/// Many stars together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Total {
    /// Stars.
    pub stars: usize,
    /// Runs that broke a rule, or lost a flow.
    pub invalid: usize,
    /// Joins, number with fair shares after three central intervals, and after eight.
    pub joins: Counts,
    /// The same of leaves.
    pub leaves: Counts,
    /// The least part of its share that any flow had over the second half of an epoch.
    pub worst: f64,
    /// The sum of rates over the sum of ideal rates: mean over the events, and least.
    pub aggregate: f64,
    /// The least of it.
    pub aggregate_min: f64,
    /// Mean loss beyond what links lose at random, and the most.
    pub excess_loss: f64,
    /// The most of it.
    pub excess_loss_max: f64,
}

/// Adds up.
pub fn total<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Total {
    let mut total = Total { worst: f64::INFINITY, aggregate_min: f64::INFINITY, ..Total::default() };
    let mut judged = 0;
    for verdict in verdicts {
        total.stars += 1;
        total.invalid += usize::from(!verdict.valid);
        total.excess_loss += verdict.excess_loss;
        total.excess_loss_max = total.excess_loss_max.max(verdict.excess_loss);
        for event in &verdict.events {
            count(event, &mut total.joins, &mut total.leaves);
            total.worst = total.worst.min(event.worst);
            total.aggregate += event.aggregate;
            total.aggregate_min = total.aggregate_min.min(event.aggregate);
            judged += 1;
        }
    }
    total.aggregate /= f64::from(judged.max(1));
    total.excess_loss /= total.stars.max(1) as f64;
    total
}
