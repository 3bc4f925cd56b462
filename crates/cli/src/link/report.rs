//! The report of a run.

use inhaul_emu::Report;
use serde::Serialize;

/// The report of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct LinkRun {
    pub(crate) commands: Vec<CommandReport>,
    #[serde(flatten)]
    pub(crate) report: Report,
}

/// The result of a command.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CommandReport {
    pub(crate) host: String,
    pub(crate) command: String,
    pub(crate) background: bool,
    /// Its exit code; `None`: a signal ended it.
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// How long it ran, in seconds.
    pub(crate) seconds: f64,
    /// Processor time that it used, in seconds.
    pub(crate) cpu_s: f64,
    /// Whether it was ended by us, because the run was over.
    pub(crate) ended: bool,
}

impl CommandReport {
    pub(super) fn failed(&self) -> bool {
        !self.ended && self.exit_code != Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;
    use inhaul_emu::{HostReport, LinkReport};

    #[test]
    fn run_has_the_documented_fields() {
        let report = Report {
            links: vec![LinkReport::default()],
            hosts: vec![HostReport::default()],
            reasons: vec![String::new()],
            warnings: vec![String::new()],
            ..Report::default()
        };
        assert_documented("A run of link", &LinkRun { commands: vec![CommandReport::default()], report });
    }
}
