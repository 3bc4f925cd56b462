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

/// The mean of a quantity over the valid repetitions of a case.
pub(crate) fn quantity(runs: &[RunResult], case: &str, quantity: &str) -> Option<Estimate> {
    let of_case = runs.iter().filter(|run| run.case == case && run.valid);
    metrics::estimate(&of_case.filter_map(|run| run.quantity(quantity)).collect::<Vec<_>>())
}
