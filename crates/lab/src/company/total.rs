//! Many verdicts together, and the criteria that they must meet.

use serde::Serialize;

use super::kind::Kind;
use super::verdict::Verdict;
use crate::joins::{Counts, count};

/// The share that counts as fair, over that of CUBIC in the same place.
const FAIR: [f64; 2] = [0.5, 1.5];
/// The part that a rival must keep.
const KEEPS: f64 = 0.5;
/// The part of the link and the queue that there must be after rivals have left.
const USED: f64 = 0.95;
const QUEUE_MS: f64 = 2.0;

/// Many networks together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Total {
    /// Networks.
    pub networks: usize,
    /// Runs that broke a rule of the simulator; they count nowhere else.
    pub invalid: usize,
    /// Own flows that ended badly.
    pub failed: usize,
    /// Networks with elastic rivals.
    pub company: Company,
    /// Networks without.
    pub alone: Alone,
    /// Mean loss of the contestant, and of CUBIC in its place.
    pub loss: f64,
    /// See `loss`.
    pub reference_loss: f64,
    /// Mean queue beside the contestant, and beside CUBIC in its place, in milliseconds.
    pub queue_ms: f64,
    /// See `queue_ms`.
    pub reference_queue_ms: f64,
}

/// Networks with elastic rivals.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Company {
    /// How many.
    pub networks: usize,
    /// Those in which the contestant's share is from 0.5 to 1.5 of CUBIC's.
    pub fair: usize,
    /// Those in which it has at least half of the smaller of CUBIC's rate and its max-min share, and at most one and a
    /// half of the larger: where rivals starve CUBIC, more than CUBIC's is not unfair.
    pub between: usize,
    /// Shares: the median, the least and the most.
    pub share_median: Option<f64>,
    /// The least.
    pub share_min: Option<f64>,
    /// The most.
    pub share_max: Option<f64>,
    /// Rivals.
    pub rivals: usize,
    /// Number that keep at least half of their rate beside CUBIC.
    pub kept_half: usize,
    /// What rivals keep: the median and the least.
    pub kept_median: Option<f64>,
    /// The least.
    pub kept_min: Option<f64>,
    /// Networks that rivals leave.
    pub left: usize,
    /// Those in which the contestant has 95 % of the link then, in time.
    pub left_used: usize,
    /// Those in which the queue is below 2 ms then, in time.
    pub left_short: usize,
    /// Those in which both are so.
    pub left_right: usize,
}

/// Networks without elastic rivals.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Alone {
    /// How many.
    pub networks: usize,
    /// Own flows' part of the capacity that others left, at most 1 each: mean and least.
    pub aggregate: Option<f64>,
    /// The least.
    pub aggregate_min: Option<f64>,
    /// The mean with CUBIC in their place.
    pub reference_aggregate: Option<f64>,
    /// Joins, number with fair shares after three central intervals, and after eight.
    pub joins: Counts,
    /// The same of leaves.
    pub leaves: Counts,
    /// The least part of its share that any flow had over the second half of an epoch.
    pub worst: Option<f64>,
}

/// A criterion and how it was met.
#[derive(Clone, Debug, Serialize)]
pub struct Criterion {
    /// The criterion.
    pub what: &'static str,
    /// The required value.
    pub wanted: &'static str,
    /// The found value.
    pub found: String,
    /// Whether that is enough.
    pub met: bool,
}

/// Adds up.
pub fn total<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Total {
    let all: Vec<&Verdict> = verdicts.into_iter().collect();
    let valid: Vec<&Verdict> = all.iter().copied().filter(|verdict| verdict.valid).collect();
    let mean_of = |value: &dyn Fn(&Verdict) -> f64| mean(valid.iter().map(|verdict| value(verdict))).unwrap_or(0.0);
    Total {
        networks: all.len(),
        invalid: all.len() - valid.len(),
        failed: valid.iter().map(|verdict| verdict.failed).sum(),
        company: company(&valid),
        alone: alone(&valid),
        loss: mean_of(&|verdict| verdict.own.loss),
        reference_loss: mean_of(&|verdict| verdict.reference.loss),
        queue_ms: mean_of(&|verdict| verdict.own.queue_ms),
        reference_queue_ms: mean_of(&|verdict| verdict.reference.queue_ms),
    }
}

fn company(valid: &[&Verdict]) -> Company {
    let all: Vec<&&Verdict> = valid.iter().filter(|verdict| verdict.kind == Kind::Elastic).collect();
    let shares = sorted(all.iter().filter_map(|verdict| verdict.share));
    let kept = sorted(all.iter().flat_map(|verdict| &verdict.rivals).filter_map(|rival| rival.kept));
    let after: Vec<_> = all.iter().filter_map(|verdict| verdict.after.as_ref()).collect();
    let (is_used, is_short) = (|used: f64| used >= USED, |queue_ms: f64| queue_ms < QUEUE_MS);
    Company {
        networks: all.len(),
        fair: shares.iter().filter(|share| (FAIR[0]..=FAIR[1]).contains(*share)).count(),
        between: all.iter().filter(|verdict| is_between(verdict)).count(),
        share_median: median(&shares),
        share_min: shares.first().copied(),
        share_max: shares.last().copied(),
        rivals: kept.len(),
        kept_half: kept.iter().filter(|kept| **kept >= KEEPS).count(),
        kept_median: median(&kept),
        kept_min: kept.first().copied(),
        left: after.len(),
        left_used: after.iter().filter(|after| is_used(after.used)).count(),
        left_short: after.iter().filter(|after| is_short(after.queue_ms)).count(),
        left_right: after.iter().filter(|after| is_used(after.used) && is_short(after.queue_ms)).count(),
    }
}

fn is_between(verdict: &Verdict) -> bool {
    let (had, of_cubic, ideal) = (verdict.own.goodput_bps, verdict.reference.goodput_bps, verdict.ideal_bps);
    (FAIR[0] * of_cubic.min(ideal)..=FAIR[1] * of_cubic.max(ideal)).contains(&had)
}

fn alone(valid: &[&Verdict]) -> Alone {
    let all: Vec<&&Verdict> = valid.iter().filter(|verdict| verdict.kind != Kind::Elastic).collect();
    // Rate beyond the ideal was taken from datagrams, and does not make up for a lack elsewhere.
    let had = sorted(all.iter().filter_map(|verdict| verdict.own.aggregate).map(|part| part.min(1.0)));
    let mut alone = Alone {
        networks: all.len(),
        aggregate: mean(had.iter().copied()),
        aggregate_min: had.first().copied(),
        reference_aggregate: mean(all.iter().filter_map(|verdict| verdict.reference.aggregate)),
        ..Alone::default()
    };
    for event in all.iter().flat_map(|verdict| &verdict.events) {
        count(event, &mut alone.joins, &mut alone.leaves);
        alone.worst = Some(alone.worst.map_or(event.worst, |worst| worst.min(event.worst)));
    }
    alone
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The criteria for one contestant. Criteria without a measuring network are left out.
pub fn criteria(verdicts: &[&Verdict]) -> Vec<Criterion> {
    let company = total(verdicts.iter().copied()).company;
    let with_goals: Vec<&Verdict> = verdicts.iter().copied().filter(|verdict| verdict.has_goals).collect();
    let peace = total(with_goals);
    let mut criteria = Vec::new();
    let part = |count: usize, all: usize| count as f64 / all.max(1) as f64;
    let mut of_parts = |what, wanted, count: usize, all: usize, least: f64| {
        if all > 0 {
            let met = part(count, all) >= least;
            criteria.push(Criterion { what, wanted, found: format!("{count} of {all}"), met });
        }
    };
    of_parts("share 0.5 to 1.5 of CUBIC's", "90 %", company.fair, company.networks, 0.9);
    of_parts("rivals keep half", "95 %", company.kept_half, company.rivals, 0.95);
    of_parts("after they left: 95 % of the link, queue under 2 ms", "all", company.left_right, company.left, 1.0);
    let events = |at: usize| peace.alone.joins[at] + peace.alone.leaves[at];
    of_parts("alone: joins and leaves right after 3 intervals", "97 %", events(1), events(0), 0.97);
    let mut of_value = |what, wanted, value: Option<f64>, is_met: &dyn Fn(f64) -> bool| {
        if let Some(value) = value {
            criteria.push(Criterion { what, wanted, found: format!("{value:.3}"), met: is_met(value) });
        }
    };
    of_value("median share", "0.8 to 1.2", company.share_median, &|x| (0.8..=1.2).contains(&x));
    of_value("least share", "0.25", company.share_min, &|x| x >= 0.25);
    of_value("alone: part of the ideal", "0.985", peace.alone.aggregate, &|x| x >= 0.985);
    of_value("alone: worst flow", "0.9", peace.alone.worst, &|x| x >= 0.9);
    let loss = (peace.alone.networks > 0).then_some(peace.loss * 100.0);
    of_value("alone: loss in %", "at most 0.02", loss, &|x| x <= 0.02);
    criteria
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_or_the_mean_of_two() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }
}
