//! `doctor`: finds what would slow a transfer down, on this host and on the path from a server. It changes nothing.
//!
//! It uses `session` and `engine` to try the path, `api` and `system`.

mod disk;
mod finding;
mod foresight;
mod host;
mod kernel;
mod path;

use std::path::PathBuf;

use inhaul_base::Bitrate;
use inhaul_udp::Interface;
use serde::Serialize;

pub use self::finding::{Cost, Finding, Verdict};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::report::ErrorReport;
use inhaul_session::api::source::Server;
use inhaul_session::api::trust::Trust;

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
    /// Which servers are believed.
    pub trust: Trust,
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

/// Checks this host and, if a server is given, the path from it. Calls `hear` with each finding as it is made,
/// with the rate that its cost is worked out for.
///
/// # Errors
/// When the server cannot be reached; all else has been looked at then too.
pub fn doctor(
    options: &DoctorOptions,
    hear: &mut dyn FnMut(Bitrate, &Finding),
) -> (DoctorReport, Result<(), MoveError>) {
    let before = host::ProcessorTime::read();
    let (session, failure) =
        match options.server.as_ref().map(|server| path::Path::open(server, &options.trust)).transpose() {
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
    foresight::look(&mut note);
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
