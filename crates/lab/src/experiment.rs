//! The experiments: each has a scenario, published values, and checks. They are the folders of `experiments/`, built
//! into the program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scenario::{Scenario, ScenarioError};

/// An experiment's files as they were when the program was built.
struct Files {
    name: &'static str,
    experiment: &'static str,
    scenario: &'static str,
    published: &'static str,
    readme: &'static str,
}

const FILES: &[Files] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// `PAPER/ITEM`, as written on the command line.
    pub name: String,
    /// Its subject.
    pub title: String,
    /// Where the paper shows it, like `gtp-2004 Figure 7`.
    pub source: String,
    /// Settings of `--control paper`; empty if it makes no difference.
    pub control_paper: Vec<(String, String)>,
    /// Settings with which the tests take only seconds; the checks need not pass then.
    pub quick: Vec<(String, String)>,
    /// The checks of the results.
    pub checks: Vec<Check>,
    /// Comparisons of a flow alone with the same flow beside others.
    pub influence: Vec<Influence>,
    /// The figures to draw.
    pub figures: Vec<Figure>,
    /// The rows of the table beside the paper's values.
    pub rows: Vec<Row>,
    /// The scenario's text.
    pub scenario: &'static str,
    /// The README: its subject, how it is judged, and known failures.
    pub readme: &'static str,
}

/// Why an experiment cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// There is no experiment of that name.
    #[error("there is no experiment '{name}'; 'inhaul lab list' shows them{}", hint(.near))]
    Unknown {
        /// The requested name.
        name: String,
        /// The one whose name is nearest.
        near: Option<String>,
    },
    /// Its own files are broken: a bug.
    #[error("experiment '{name}' is broken: {reason}")]
    Broken {
        /// Its name.
        name: String,
        /// The fault.
        reason: String,
    },
    /// Its scenario is refused, as it was changed.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

fn hint(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!(". Did you mean '{near}'?")).unwrap_or_default()
}

/// A check of the results. It has exactly one of these: `min` and `max` together, `near`, `shares`, `order`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The claim, in words.
    pub what: String,
    /// The case that it is about; empty: every case.
    #[serde(default)]
    pub case: String,
    /// The quantity that is compared: see [`RunResult::quantity`](crate::RunResult::quantity).
    pub quantity: Option<String>,
    /// It is at least this.
    pub min: Option<f64>,
    /// It is at most this.
    pub max: Option<f64>,
    /// It is this, within a part of it.
    pub near: Option<Near>,
    /// Each flow has its max-min fair share soon after each join, until the next event.
    pub shares: Option<Shares>,
    /// The cases whose quantities are in descending order.
    #[serde(default)]
    pub order: Vec<String>,
}

/// A value and how far off is allowed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// The value.
    pub value: f64,
    /// Part of it, like 0.02.
    pub within: f64,
}

/// See [`Check::shares`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// How far off a share may be, as a part of it.
    pub within: f64,
    /// After how many central intervals (3 RTTmax of the flows that are active, gtp-2004 4.2).
    pub intervals: f64,
}

/// How much others leave to a flow: the influence ratio of eval-2004, the metric `influence_ratio` of the cases
/// `beside`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Influence {
    /// The quantity that suffers, like `flows.tcp.measured_bps`.
    pub quantity: String,
    /// The case in which it is alone.
    pub alone: String,
    /// The cases in which it is not.
    pub beside: Vec<String>,
}

/// A figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its title.
    pub title: String,
    /// The drawn quantity.
    pub kind: FigureKind,
    /// The case that is drawn; empty: the first (trajectories) or all (bars, scales). Bars: all cases that begin with
    /// it, up to a comma.
    #[serde(default)]
    pub case: String,
    /// Trajectories: flows of these groups are drawn as one line each.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Trajectories: whether only the sum of all flows is drawn.
    #[serde(default)]
    pub total: bool,
    /// Bars, lines: the quantities.
    #[serde(default)]
    pub quantities: Vec<String>,
}

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Rates over time.
    Trajectories,
    /// A bar for each case and quantity.
    Bars,
    /// The fairness index over time scales, a line for each case.
    Scales,
    /// The first quantity over the last value of a sweep, a line for each other value.
    Lines,
    /// A heat map. Cases are called `ROW, COLUMN`. Colour and first line are the first quantity, a share; lines below
    /// are the other quantities.
    Pairs,
}

/// A line of the table: a quantity of a case, and the paper's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The case; `*`: every case.
    pub case: String,
    /// The quantity.
    pub quantity: String,
    /// The paper's value, in the quantity's own unit; `None`: not printed.
    pub published: Option<f64>,
    /// Its printed unit.
    pub unit: Unit,
}

/// Printed units of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Million bits per second.
    #[serde(rename = "Mbit/s")]
    Mbps,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// A pure number.
    #[default]
    #[serde(rename = "")]
    Number,
}

impl Unit {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "Mbit/s" => Some(Self::Mbps),
            "%" => Some(Self::Percent),
            "s" => Some(Self::Seconds),
            "" => Some(Self::Number),
            _ => None,
        }
    }

    /// Its sign.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Mbps => "Mbit/s",
            Self::Percent => "%",
            Self::Seconds => "s",
            Self::Number => "",
        }
    }

    /// How much of the quantity's own unit one of it is.
    pub fn factor(self) -> f64 {
        match self {
            Self::Mbps => 1e6,
            Self::Percent => 0.01,
            Self::Seconds | Self::Number => 1.0,
        }
    }
}

/// experiment.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    title: String,
    source: String,
    #[serde(default)]
    control_paper: BTreeMap<String, String>,
    #[serde(default)]
    quick: BTreeMap<String, String>,
    #[serde(default)]
    checks: Vec<Check>,
    #[serde(default)]
    influence: Vec<Influence>,
    #[serde(default)]
    figures: Vec<Figure>,
}

/// Every experiment, by paper and item.
///
/// # Errors
/// When one of them is broken, which the tests see to.
pub fn experiments() -> Result<Vec<Experiment>, ExperimentError> {
    FILES.iter().map(Experiment::read).collect()
}

/// The experiment of that name.
///
/// # Errors
/// If it does not exist, or is broken.
pub fn find_experiment(name: &str) -> Result<Experiment, ExperimentError> {
    let Some(files) = FILES.iter().find(|files| files.name == name) else {
        let near = FILES.iter().map(|files| files.name).find(|known| known.ends_with(name) || known.starts_with(name));
        return Err(ExperimentError::Unknown { name: name.to_owned(), near: near.map(str::to_owned) });
    };
    Experiment::read(files)
}

impl Experiment {
    fn read(files: &Files) -> Result<Self, ExperimentError> {
        let broken = |reason: String| ExperimentError::Broken { name: files.name.to_owned(), reason };
        let file: ExperimentFile =
            toml_edit::de::from_str(files.experiment).map_err(|error| broken(error.to_string()))?;
        if let Some(check) = file.checks.iter().find(|check| !check.is_sound()) {
            return Err(broken(format!("the check '{}' says nothing, or more than one thing", check.what)));
        }
        Ok(Self {
            name: files.name.to_owned(),
            title: file.title,
            source: file.source,
            control_paper: file.control_paper.into_iter().collect(),
            quick: file.quick.into_iter().collect(),
            checks: file.checks,
            influence: file.influence,
            figures: file.figures,
            rows: rows(files.published).map_err(broken)?,
            scenario: files.scenario,
            readme: files.readme,
        })
    }

    /// The experiment's scenario with changes, as [`Scenario::parse`] takes them.
    ///
    /// # Errors
    /// When the changes do not fit the scenario.
    pub fn scenario(&self, set: &[(String, String)]) -> Result<Scenario, ScenarioError> {
        Scenario::parse(&format!("experiments/{}/scenario.toml", self.name), self.scenario, set)
    }
}

impl Check {
    fn is_sound(&self) -> bool {
        let bounds = self.min.is_some() || self.max.is_some();
        let claims = [bounds, self.near.is_some(), self.shares.is_some(), !self.order.is_empty()];
        let one = claims.iter().filter(|claim| **claim).count() == 1;
        one && self.quantity.is_some() != self.shares.is_some()
    }
}

/// published.csv: `case,quantity,published,unit`, a heading first; `;` starts a comment line. Cases may hold commas
/// inside quotes.
fn rows(csv: &str) -> Result<Vec<Row>, String> {
    let lines = csv.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with(';'));
    lines
        .map(|(number, line)| {
            row(line).ok_or_else(|| format!("published.csv:{}: not case,quantity,published,unit", number + 1))
        })
        .collect()
}

fn row(line: &str) -> Option<Row> {
    let (case, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",")?,
        None => line.split_once(',')?,
    };
    let mut fields = rest.split(',').map(str::trim);
    let (quantity, published) = (fields.next()?, fields.next()?);
    let unit = Unit::parse(fields.next()?)?;
    let published = if published.is_empty() { None } else { Some(published.parse::<f64>().ok()? * unit.factor()) };
    fields.next().is_none().then(|| Row { case: case.to_owned(), quantity: quantity.to_owned(), published, unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_quotes_units_and_what_is_not_published() {
        let csv =
            "case,quantity,published,unit\n\"a, b\",metrics.loss_ratio,0.02,%\n; a comment\n*,metrics.jain_index,,\n";
        let rows = rows(csv).unwrap();
        assert_eq!(rows[0].case, "a, b");
        assert!((rows[0].published.unwrap() - 0.0002).abs() < 1e-12);
        assert_eq!((rows[1].published, rows[1].unit), (None, Unit::Number));
        assert!(super::rows("head\na,b\n").is_err() && super::rows("head\na,b,x,s\n").is_err());
    }

    #[test]
    fn find_experiment_helps_with_the_name() {
        let error = find_experiment("fig7").unwrap_err().to_string();
        assert!(error.contains("Did you mean 'gtp-2004/fig7'?"), "{error}");
    }

    #[test]
    fn every_experiment_is_sound_and_explained() {
        let all = experiments().unwrap_or_else(|error| panic!("{error}"));
        assert!(all.len() >= 15, "{}", all.len());
        for experiment in all {
            for set in [&Vec::new(), &experiment.quick, &experiment.control_paper] {
                experiment.scenario(set).unwrap_or_else(|error| panic!("{error}"));
            }
            assert!(!experiment.rows.is_empty() && !experiment.figures.is_empty(), "{}", experiment.name);
            assert!(experiment.readme.contains("## What must come out"), "{}", experiment.name);
        }
    }
}
