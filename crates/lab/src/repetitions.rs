//! Mean and confidence interval of several runs.

use crate::metrics::{self, Estimate};
use crate::result::RunResult;

/// The cases of the runs, in order, without repetitions.
pub(crate) fn cases(runs: &[RunResult]) -> Vec<&str> {
    let mut cases: Vec<&str> = Vec::new();
    for run in runs {
        if !cases.contains(&run.case.as_str()) {
            cases.push(&run.case);
        }
    }
    cases
}

/// The mean of a quantity over the valid repetitions of a case. `deviation(QUANTITY)` is their standard deviation,
/// `low99(QUANTITY)` and `high99(QUANTITY)` are the ends of the 99 % confidence interval of their mean.
pub(crate) fn quantity(runs: &[RunResult], case: &str, quantity: &str) -> Option<Estimate> {
    let of_case = runs.iter().filter(|run| run.case == case && run.valid);
    let values = |quantity: &str| of_case.filter_map(|run| run.quantity(quantity)).collect::<Vec<_>>();
    let Some((statistic, inner)) = statistic(quantity) else { return metrics::estimate(&values(quantity)) };
    let values = values(inner);
    let (least, most) = bounds(inner);
    let mean = match statistic {
        "deviation" => metrics::deviation(&values)?,
        "low99" => metrics::interval99(&values)?.0.max(least),
        "high99" => metrics::interval99(&values)?.1.min(most),
        _ => return None,
    };
    Some(Estimate { mean, ci95: None, samples: values.len() })
}

/// The values that a quantity can have: an interval by Student's t may reach beyond them.
pub(crate) fn bounds(quantity: &str) -> (f64, f64) {
    let (path, _) = quantity.split_once('[').unwrap_or((quantity, ""));
    let field = path.strip_prefix("metrics.").unwrap_or_else(|| path.rsplit('.').next().unwrap_or(path));
    let is_part = field.starts_with("jain_")
        || matches!(field, "min_max_ratio" | "loss_ratio" | "drop_ratio" | "converged_ratio" | "share");
    (0.0, if is_part { 1.0 } else { f64::INFINITY })
}

/// The ends of a confidence interval, cut where its quantity can be neither less nor more. `None`: there is none.
pub(crate) fn interval(quantity: &str, mean: f64, ci95: Option<f64>) -> Option<(f64, f64)> {
    let (least, most) = bounds(quantity);
    ci95.map(|ci95| ((mean - ci95).max(least), (mean + ci95).min(most)))
}

/// As [`interval`], if it had to be cut.
pub(crate) fn cut(quantity: &str, mean: f64, ci95: Option<f64>) -> Option<(f64, f64)> {
    let (low, high) = interval(quantity, mean, ci95)?;
    let is_cut = ci95.is_some_and(|ci95| low > mean - ci95 || high < mean + ci95);
    is_cut.then_some((low, high))
}

/// How many valid runs of a case there are.
pub(crate) fn valid_runs(runs: &[RunResult], case: &str) -> usize {
    runs.iter().filter(|run| run.case == case && run.valid).count()
}

/// ` (2 of 3 runs)` where some runs lack a quantity, so that the mean is not that of all; else nothing.
pub(crate) fn of_runs(samples: usize, runs: usize) -> String {
    let plural = if runs == 1 { "" } else { "s" };
    if samples < runs { format!(" ({samples} of {runs} run{plural})") } else { String::new() }
}

/// `low99(flows.f.duration_s)` is a statistic of a quantity.
pub(crate) fn statistic(quantity: &str) -> Option<(&str, &str)> {
    quantity.strip_suffix(')')?.split_once('(')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Metrics;

    #[test]
    fn intervals_are_cut_at_what_can_be() {
        assert_eq!(cut("metrics.jain_index", 0.9, Some(0.3)), Some((0.9 - 0.3, 1.0)));
        assert_eq!(cut("metrics.jain_at.0.5", 0.9, Some(0.3)), Some((0.9 - 0.3, 1.0)));
        assert_eq!(cut("flows.a.b.share", 0.1, Some(0.3)), Some((0.0, 0.1 + 0.3)));
        assert_eq!(cut("groups.a.loss_ratio", 0.5, Some(0.7)), Some((0.0, 1.0)));
        assert_eq!(cut("flows.a.goodput_bps[1.5..2]", 1.0, Some(3.0)), Some((0.0, 4.0)));
        assert_eq!((cut("metrics.jain_index", 0.9, Some(0.1)), cut("flows.a.duration_s", 9.0, None)), (None, None));
        assert_eq!((of_runs(2, 3).as_str(), of_runs(3, 3).as_str()), (" (2 of 3 runs)", ""));
    }

    #[test]
    fn quantity_knows_statistics_over_repetitions() {
        let run = |loss_ratio, valid| RunResult {
            valid,
            metrics: Metrics { loss_ratio, ..Metrics::default() },
            ..RunResult::default()
        };
        let runs = [run(1.0, true), run(2.0, true), run(3.0, true), run(99.0, false)];
        let found = |name: &str| quantity(&runs, "", name).map(|found| (found.mean * 1e3).round() / 1e3);
        assert_eq!(found("metrics.loss_ratio"), Some(2.0));
        assert_eq!(found("deviation(metrics.loss_ratio)"), Some(1.0));
        assert_eq!(found("low99(metrics.loss_ratio)"), Some(0.0));
        assert_eq!(found("high99(metrics.loss_ratio)"), Some(1.0));
        assert_eq!((found("mode(metrics.loss_ratio)"), found("low99(metrics.none)")), (None, None));
        assert_eq!(quantity(&runs[..1], "", "deviation(metrics.loss_ratio)"), None);
    }
}
