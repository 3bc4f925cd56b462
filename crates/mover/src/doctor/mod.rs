//! `doctor`: what on this host, and on the path from a server, would hold a transfer back. Everything is tried or read,
//! nothing is changed.

mod disk;
mod host;
mod kernel;
mod path;

use std::path::PathBuf;

use inhaul_base::Bitrate;
use inhaul_udp::Interface;
use serde::Serialize;

use crate::api::error::MoveError;
use crate::api::report::ErrorReport;
use crate::api::source::Server;

/// The rate to aim at where neither the user nor the interface tells one.
const RATE_UNKNOWN: Bitrate = Bitrate::from_gbps(1);

/// What to look at.
#[derive(Clone, Debug, Default)]
pub struct DoctorOptions {
    /// The server whose path is tried.
    pub server: Option<Server>,
    /// The rate that transfers should reach; costs are worked out for it. `None`: the interface's, if it tells.
    pub rate: Option<Bitrate>,
    /// The directory whose disk is tried.
    pub disk: Option<PathBuf>,
}

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

/// What a doctor has found. Serialised, it is the object that `docs/json.md` documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DoctorReport {
    /// The rate that costs are worked out for, bit/s.
    pub rate_bps: f64,
    /// The findings, in the order in which they were made.
    pub findings: Vec<Finding>,
    /// Why the server could not be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

impl DoctorReport {
    /// The worst of the verdicts; what is not known counts as ok.
    pub fn worst(&self) -> Verdict {
        let has = |verdict| self.findings.iter().any(|finding| finding.verdict == verdict);
        [Verdict::Broken, Verdict::Costs].into_iter().find(|&verdict| has(verdict)).unwrap_or(Verdict::Ok)
    }
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { check, verdict, found: found.into(), cost: None, fix: Vec::new() }
    }

    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found)
    }

    fn costs(check: &'static str, found: impl Into<String>, cost: Cost) -> Self {
        Self { cost: Some(cost), ..Self::new(check, Verdict::Costs, found) }
    }

    fn unknown(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, found)
    }

    /// With lines that mend it.
    fn fix<T: Into<String>>(mut self, lines: impl IntoIterator<Item = T>) -> Self {
        self.fix.extend(lines.into_iter().map(Into::into));
        self
    }
}

impl Cost {
    fn new(value: f64, unit: &'static str, text: impl Into<String>) -> Self {
        Self { value, unit, text: text.into() }
    }
}

/// Looks at this host and, if there is one, at the path from the server; `hear` is told each finding as it is made, with the
/// rate that its cost is worked out for.
///
/// # Errors
/// When the server cannot be reached; all else has been looked at then too.
pub fn doctor(
    options: &DoctorOptions,
    hear: &mut dyn FnMut(Bitrate, &Finding),
) -> (DoctorReport, Result<(), MoveError>) {
    let before = host::ProcessorTime::read();
    let (session, failure) = match options.server.as_ref().map(path::Path::open).transpose() {
        Ok(session) => (session, None),
        Err(error) => (None, Some(error)),
    };
    let interface = session.as_ref().and_then(|path| Interface::toward(path.peer()).ok().flatten());
    let speed = interface.as_ref().and_then(|interface| interface.speed);
    let rate = options.rate.or(speed).unwrap_or(RATE_UNKNOWN);
    let mut report = DoctorReport { rate_bps: rate.as_f64(), ..DoctorReport::default() };
    let mut note = |finding: Finding| {
        hear(rate, &finding);
        report.findings.push(finding);
    };
    kernel::look(rate, &mut note);
    if let Some(interface) = &interface {
        note(kernel::device(interface, rate));
    }
    host::look(rate, &mut note);
    if let Some(dir) = &options.disk {
        note(disk::look(dir, rate));
    }
    let result = match (session, failure) {
        (_, Some(error)) => Err(error),
        (Some(path), None) => path.look(interface.as_ref(), rate, &mut note),
        (None, None) => Ok(()),
    };
    note(host::stolen(before));
    report.error = result.as_ref().err().map(Into::into);
    (report, result)
}

#[cfg(test)]
mod tests;
