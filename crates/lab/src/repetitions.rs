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
    let mean = match statistic {
        "deviation" => metrics::deviation(&values)?,
        "low99" => metrics::interval99(&values)?.0,
        "high99" => metrics::interval99(&values)?.1,
        _ => return None,
    };
    Some(Estimate { mean, ci95: None, samples: values.len() })
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
        assert_eq!(found("low99(metrics.loss_ratio)"), Some(-3.73));
        assert_eq!(found("high99(metrics.loss_ratio)"), Some(7.73));
        assert_eq!((found("mode(metrics.loss_ratio)"), found("low99(metrics.none)")), (None, None));
        assert_eq!(quantity(&runs[..1], "", "deviation(metrics.loss_ratio)"), None);
    }
}
