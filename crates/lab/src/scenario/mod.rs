//! Scenarios: descriptions of simulations, each in one TOML file. docs/scenario.md is their reference.

mod compile;
mod error;
mod file;
mod network;
mod plan;
mod routes;
mod schedulers;
mod sweep;
mod units;

use toml_edit::DocumentMut;

pub use error::ScenarioError;
pub use plan::{ChangePlan, EndpointPlan, FlowPlan, Plan, UdpPlan, WebPlan, WhatChanges};
pub(crate) use routes::Routes;

use compile::Purpose;
use error::Refusal;
use file::ScenarioFile;
use sweep::{Case, Setting};

/// Largest scenario, in bytes.
const TEXT_MAX: usize = 1 << 20;
/// Most repetitions of a cell.
const REPETITIONS_MAX: u32 = 10_000;

/// A scenario that has been read and checked, with all cells of its sweep.
pub struct Scenario {
    /// Its description.
    pub title: String,
    /// Seed of the first repetition; each further one has the next.
    pub seed: u64,
    /// How often each cell is run.
    pub repetitions: u32,
    /// The cells to run: one cell if there is no sweep.
    pub cells: Vec<Cell>,
}

/// One combination of a sweep's values.
pub struct Cell {
    /// Its name: the names of its cases and the values of its keys; empty if there is no sweep.
    pub case: String,
    /// The sweep's settings in it: keys, and values for people.
    pub settings: Vec<(String, String)>,
    /// The plan to run.
    pub plan: Plan,
}

impl Scenario {
    /// Reads a scenario. `file` names it in errors; `set` changes values before anything else is looked at, like
    /// `("flows.*.protocol", "cubic")`.
    ///
    /// # Errors
    /// A [`ScenarioError`] for the first fault, with its line and the expected form.
    pub fn parse(file: &str, text: &str, set: &[(String, String)]) -> Result<Self, ScenarioError> {
        Self::parse_for(Purpose::Transfers, file, text, set, &[])
    }

    /// As [`parse`](Self::parse), with further dimensions after those of its own sweep: keys, and the values that each
    /// takes.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_swept(
        file: &str,
        text: &str,
        set: &[(String, String)],
        grid: &[(String, Vec<String>)],
    ) -> Result<Self, ScenarioError> {
        Self::parse_for(Purpose::Transfers, file, text, set, grid)
    }

    /// As [`parse`](Self::parse), but only the network is needed: the scenario may have no flows.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_network(file: &str, text: &str, set: &[(String, String)]) -> Result<Self, ScenarioError> {
        Self::parse_for(Purpose::Network, file, text, set, &[])
    }

    fn parse_for(
        purpose: Purpose,
        file: &str,
        text: &str,
        set: &[(String, String)],
        grid: &[(String, Vec<String>)],
    ) -> Result<Self, ScenarioError> {
        let general = |message: String| Refusal::general(message).locate(file, text, None);
        if text.len() > TEXT_MAX {
            return Err(general(format!("a scenario has at most {TEXT_MAX} bytes")));
        }
        let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            Refusal { span: error.span(), message: error::in_words(error.message()) }.locate(file, text, None)
        })?;
        let settings: Vec<Setting> =
            set.iter().map(|(key, value)| Setting { key: key.clone(), value: sweep::value_of(value) }).collect();
        for setting in &settings {
            sweep::apply(&mut document, setting).map_err(general)?;
        }
        for (key, values) in grid {
            sweep::add(&mut document, key, values).map_err(general)?;
        }
        let base = Base { purpose, file, document, set: described(&settings) };
        base.scenario()
    }
}

/// The document that all cells start from.
struct Base<'a> {
    purpose: Purpose,
    file: &'a str,
    document: DocumentMut,
    /// What `--set` has changed in it; empty: nothing.
    set: String,
}

impl Base<'_> {
    fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let text = self.document.to_string();
        let setting = (!self.set.is_empty()).then(|| self.set.clone());
        let refuse = |refusal: Refusal| refusal.locate(self.file, &text, setting.clone());
        let parsed = read(&text).map_err(refuse)?;
        let repetitions = parsed.repetitions.as_ref().map_or(1, |repetitions| *repetitions.get_ref());
        if !(1..=REPETITIONS_MAX).contains(&repetitions) {
            let span = parsed.repetitions.as_ref().map(serde_spanned::Spanned::span);
            let message = format!("`repetitions` is from 1 to {REPETITIONS_MAX}");
            return Err(refuse(Refusal { span, message }));
        }
        let cases = sweep::cases(&parsed.sweep, &self.document).map_err(refuse)?;
        if let Some(capture) = parsed.pcap.first()
            && (cases.len() > 1 || repetitions > 1)
        {
            let message = "packets are captured in a single run only: remove `pcap`, or the sweep and the repetitions";
            return Err(refuse(Refusal::at(capture.link.span(), message)));
        }
        let cells = cases.into_iter().map(|case| self.cell(case)).collect::<Result<_, _>>()?;
        Ok(Scenario { title: parsed.title, seed: parsed.seed, repetitions, cells })
    }

    fn cell(&self, case: Case) -> Result<Cell, ScenarioError> {
        let mut document = self.document.clone();
        let changed = described(&case.settings);
        let setting =
            [self.set.as_str(), &changed].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let setting = (!setting.is_empty()).then_some(setting);
        for change in &case.settings {
            let general = |message| Refusal::general(message).locate(self.file, "", setting.clone());
            sweep::apply(&mut document, change).map_err(general)?;
        }
        let text = document.to_string();
        let plan = read(&text).and_then(|file| compile::compile(&file, self.purpose));
        let plan = plan.map_err(|refusal| refusal.locate(self.file, &text, setting))?;
        let settings = case.settings.iter().map(|change| (change.key.clone(), sweep::plain(&change.value)));
        Ok(Cell { case: case.name, settings: settings.collect(), plan })
    }
}

fn read(text: &str) -> Result<ScenarioFile, Refusal> {
    toml_edit::de::from_str(text)
        .map_err(|error| Refusal { span: error.span(), message: error::in_words(error.message()) })
}

fn described(settings: &[Setting]) -> String {
    settings.iter().map(|s| format!("{} = {}", s.key, sweep::plain(&s.value))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
