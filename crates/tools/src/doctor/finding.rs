//! A finding: the verdict of a check, its cost, and its fix.

use serde::Serialize;

/// How a thing stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds nothing back.
    #[default]
    Ok,
    /// Transfers work, and are held back.
    Costs,
    /// Transfers do not work.
    Broken,
    /// The system does not tell.
    Unknown,
}

/// What a finding costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// How much.
    pub value: f64,
    /// Of what: `bit/s`, `ms`, `packets/s`, `ratio`.
    pub unit: &'static str,
    /// The same in words.
    pub text: String,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Finding {
    /// What was looked at, by a name that stays.
    pub check: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, in words.
    pub found: String,
    /// What it costs, if it does and it can be worked out.
    pub cost: Option<Cost>,
    /// Lines that mend it: commands to type, or words where there is no command.
    pub fix: Vec<String>,
}

impl Finding {
    pub(super) fn new(check: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { check, verdict, found: found.into(), cost: None, fix: Vec::new() }
    }

    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found)
    }

    pub(super) fn costs(check: &'static str, found: impl Into<String>, cost: Cost) -> Self {
        Self { cost: Some(cost), ..Self::new(check, Verdict::Costs, found) }
    }

    pub(super) fn unknown(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, found)
    }

    /// With lines that mend it.
    pub(super) fn fix<T: Into<String>>(mut self, lines: impl IntoIterator<Item = T>) -> Self {
        self.fix.extend(lines.into_iter().map(Into::into));
        self
    }
}

impl Cost {
    pub(super) fn new(value: f64, unit: &'static str, text: impl Into<String>) -> Self {
        Self { value, unit, text: text.into() }
    }
}
