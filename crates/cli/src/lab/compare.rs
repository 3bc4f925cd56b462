//! `inhaul lab compare`: kept results of two commits, or of two backends, side by side.

use std::path::PathBuf;

use clap::Args;
use inhaul_lab::kept::{compare, comparison_table};

use super::failure::Failure;
use super::report::results;
use crate::options::OUTPUT;
use crate::output::{announce, to_json};

pub(super) const EXAMPLES: &str = "\
inhaul compares results of the same experiment, backend and control. If A and B each have
one result of an experiment, it compares these two even if backend or control differ. So
simulations can be compared with emulations.

A difference is marked BEYOND if it is larger than its 95 % confidence interval, or if
both are single runs of the simulator with the same seed. The exit code is 12 if a check
passed in A and fails in B, or if a result is valid in A and not in B. docs/report.md
explains the output.

Examples:
  The effect of a change:
    inhaul lab compare results results-new
  The simulator and the emulator:
    inhaul lab compare results/gtp-2004/fig7/sim.json results/gtp-2004/fig7/emu.json --all";

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Directory of kept results, or one of its files: before the change
    #[arg(value_name = "A")]
    before: PathBuf,
    /// Directory of kept results, or one of its files: after the change
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Also show values and checks that are the same
    #[arg(long, help_heading = OUTPUT)]
    all: bool,
    /// Print JSON (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

pub(super) fn run(args: &Compare) -> Result<(), Failure> {
    let (a, b) = (results(&args.before)?, results(&args.after)?);
    let comparison = compare(&a, &b);
    if args.json {
        announce(&to_json(&comparison));
    } else {
        announce(comparison_table(&comparison, args.all).trim_end());
    }
    match comparison.worse {
        0 if comparison.items.is_empty() => Err(Failure::Usage(format!(
            "{} and {} have no result of the same experiment, backend and control",
            args.before.display(),
            args.after.display()
        ))),
        0 => Ok(()),
        worse => Err(Failure::Worse(worse)),
    }
}

#[cfg(test)]
mod tests {
    use crate::documented::assert_documented;
    use inhaul_lab::kept::{CheckComparison, ComparedResult, Comparison, ItemComparison, RowComparison};

    #[test]
    fn comparison_has_the_documented_fields() {
        let item = ItemComparison {
            experiment: String::new(),
            a: ComparedResult::default(),
            b: ComparedResult::default(),
            remark: None,
            worse: 0,
            rows: vec![RowComparison::default()],
            checks: vec![CheckComparison::default()],
        };
        assert_documented("A comparison of kept results", &Comparison { items: vec![item], ..Comparison::default() });
    }
}
