//! `inhaul doctor`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use inhaul_base::Bitrate;
use inhaul_base::table::hanging;
use inhaul_mover::{DoctorOptions, Finding, NamedBy, Server, Verdict};

use crate::exit::{self, Failure};
use crate::options::{self, OUTPUT, Security};
use crate::output::{announce, to_json};
use crate::trust;

pub(crate) const EXAMPLES: &str = "\
Each finding is 'ok', 'COSTS' with an estimate of the cost, 'BROKEN' or 'unknown'.
inhaul prints the commands that fix a problem, and does not run them. docs/doctor.md
explains each check. A RATE is in bits per second and needs a unit: 850M or 10G.

The exit code is 0 if nothing is broken, even if something costs, and 12 if something
is broken. If the server cannot be reached, the code is that of 'inhaul get': 4, 5, 6
or 7, or 11 if TCP passes and UDP does not.

Examples:
  Only this host, with its disk at /scratch:
    inhaul doctor --disk /scratch
  This host and the path from a server, for transfers at 10 Gbit/s:
    inhaul doctor dtn1 --target-rate 10G";

/// The command line of `inhaul doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[arg(help = "Server whose path to this host is tested, as HOST[:PORT]; 'inhaul serve' must run there")]
    #[arg(value_name = "HOST[:PORT]", value_parser = options::server)]
    server: Option<Server>,
    /// Rate that transfers should reach; costs are estimated for it [default: the interface's speed, or 1G if unknown]
    #[arg(long, value_name = "RATE", help_heading = "Check options")]
    target_rate: Option<Bitrate>,
    /// Also test the disk of this directory: write at most 1 GB for at most 3 s, and leave nothing there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Check options")]
    disk: Option<PathBuf>,
    #[command(flatten)]
    security: Security,
    /// Print one JSON object (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// How wide the columns of the verdict and of the check's name are. A check with a longer name has a line of its own for
/// it.
const VERDICT: usize = 8;
const CHECK: usize = 23;

pub(crate) fn run(args: &Doctor) -> Result<(), Failure> {
    let mut server = args.server.clone();
    let trust = trust::settle(&args.security, &mut server, NamedBy::User)?;
    let options = DoctorOptions { server, rate: args.target_rate, disk: args.disk.clone(), trust };
    let mut said_rate = false;
    let (report, result) = inhaul_mover::doctor(&options, &mut |rate, finding| {
        if args.json {
            return;
        }
        if !std::mem::replace(&mut said_rate, true) {
            announce(&heading(rate));
        }
        announce(&paragraph(finding));
    });
    if args.json {
        announce(&to_json(&report));
    }
    match result {
        Err(error) => Err(exit::reported(&error)),
        Ok(()) if report.worst() == Verdict::Broken => Err(Failure::reported(exit::CHECK_FAILED, None)),
        Ok(()) => Ok(()),
    }
}

fn heading(rate: Bitrate) -> String {
    format!("Costs are estimated for transfers at {rate}; --target-rate sets another. Nothing is changed.")
}

/// A finding in words, with its cost and its fix below.
fn paragraph(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Ok => "ok",
        Verdict::Costs => "COSTS",
        Verdict::Broken => "BROKEN",
        Verdict::Unknown => "unknown",
    };
    let mut text = hanging(&[(verdict, VERDICT), (finding.check, CHECK)], &finding.found);
    if let Some(cost) = &finding.cost {
        text += &format!("\n{}", hanging(&[("", VERDICT + CHECK)], &cost.text));
    }
    for line in &finding.fix {
        // Lines to be typed stay in one piece.
        text += &format!("\n{:indent$}> {line}", "", indent = VERDICT + CHECK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_base::table::{TERMINAL_COLUMNS, width};
    use inhaul_mover::{Cost, DoctorReport};

    #[test]
    fn paragraph_says_cost_and_cure_below_the_finding() {
        let finding = Finding {
            check: "receive-buffer",
            verdict: Verdict::Costs,
            found: "small".to_owned(),
            cost: Some(Cost { value: 2.0, unit: "ms", text: "a pause".to_owned() }),
            fix: vec!["sysctl".to_owned()],
        };
        assert_eq!(
            paragraph(&finding),
            "COSTS   receive-buffer         small\n                               a pause\n                               > sysctl"
        );
    }

    #[test]
    fn paragraph_fits_a_terminal_and_keeps_names_of_any_length_apart() {
        for check in ["mtu", "foresight-switches", "twenty-letters-long!", "a-check-with-a-name-of-some-length"] {
            let found = "exact times ".repeat(20);
            let finding = Finding { check, found: found.trim().to_owned(), ..Finding::default() };
            let shown = paragraph(&finding);
            assert!(shown.lines().all(|line| width(line) <= TERMINAL_COLUMNS), "{shown}");
            assert_eq!(shown.split_whitespace().nth(1), Some(check), "{shown}");
            assert_eq!(shown.lines().last().unwrap().find(|c: char| c != ' '), Some(VERDICT + CHECK), "{shown}");
        }
    }

    #[test]
    fn report_has_the_documented_fields() {
        let finding = Finding { cost: Some(Cost::default()), ..Finding::default() };
        let report = DoctorReport { findings: vec![finding], error: Some(Default::default()), ..Default::default() };
        crate::documented::assert_documented("The report of doctor", &report);
    }
}
