//! `inhaul lab list`.

use clap::Args;
use inhaul_lab::{Experiment, ExperimentError, experiments};
use serde::Serialize;

use super::failure::Failure;
use crate::options::OUTPUT;
use crate::output::{announce, to_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  List the experiments, and run one:
    inhaul lab list
    inhaul lab run gtp-2004/fig7";

/// The command line of `inhaul lab list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// The list of experiments as JSON.
#[derive(Serialize)]
struct Listing {
    experiments: Vec<ExperimentRow>,
}

#[derive(Serialize)]
struct ExperimentRow {
    name: String,
    title: String,
    source: String,
    control_paper: bool,
    checks: Vec<String>,
}

impl From<Experiment> for ExperimentRow {
    fn from(experiment: Experiment) -> Self {
        Self {
            control_paper: !experiment.control_paper.is_empty(),
            checks: experiment.checks.into_iter().map(|check| check.what).collect(),
            name: experiment.name,
            title: experiment.title,
            source: experiment.source,
        }
    }
}

fn listing() -> Result<Listing, ExperimentError> {
    Ok(Listing { experiments: experiments()?.into_iter().map(ExperimentRow::from).collect() })
}

pub(super) fn list(args: &List) -> Result<(), Failure> {
    let listing = listing()?;
    if args.json {
        announce(&to_json(&listing));
        return Ok(());
    }
    for experiment in listing.experiments {
        announce(&format!("{}: {} ({})", experiment.name, experiment.title, experiment.source));
        for line in counted(&experiment.checks) {
            announce(&format!("    {line}"));
        }
    }
    Ok(())
}

/// Each check once, in the order of the first ones: many are the same for several cases.
fn counted(checks: &[String]) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for check in checks {
        match counts.iter_mut().find(|(known, _)| known == check) {
            Some((_, count)) => *count += 1,
            None => counts.push((check, 1)),
        }
    }
    let line = |(check, count): (&str, usize)| match count {
        1 => check.to_owned(),
        _ => format!("{check} ({count} cases)"),
    };
    counts.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;

    #[test]
    fn counted_has_each_check_once() {
        let checks = ["fair", "fast", "fair", "fair"].map(str::to_owned);
        assert_eq!(counted(&checks), ["fair (3 cases)", "fast"]);
    }

    #[test]
    fn listing_has_the_documented_fields() {
        assert_documented("The list of the lab's experiments", &listing().unwrap());
    }
}
