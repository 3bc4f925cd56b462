//! `inhaul lab record-host`: a trace of this host, which simulated hosts replay.

use std::fs::File;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use inhaul_lab::record_host;

use super::failure::Failure;
use crate::options::OUTPUT;
use crate::output::announce;

pub(super) const EXAMPLES: &str = "\
Do not use the host for anything else while it is recorded. docs/scenario.md explains the
file.

Examples:
  Record this host, and run an experiment on simulated hosts like it:
    inhaul lab record-host --out here.json
    inhaul lab run gtp-2004/fig7 --noise here.json
  The same, with a busy loop on each processor:
    inhaul lab record-host --busy --out here-busy.json";

/// See [`super::Lab::RecordHost`].
#[derive(Debug, Args)]
pub(crate) struct RecordHost {
    /// How long to record, in seconds
    #[arg(long, value_name = "N", default_value_t = 20.0, value_parser = seconds, help_heading = "Run options")]
    seconds: f64,
    /// Run a busy loop on each processor while recording
    #[arg(long, help_heading = "Run options")]
    busy: bool,
    /// Write the trace to this file, whose name ends in .json
    #[arg(long, value_name = "FILE", value_parser = json_path, value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    out: PathBuf,
}

pub(super) fn run(args: &RecordHost) -> Result<(), Failure> {
    let unwritable = |error| Failure::Unwritable(args.out.clone(), error);
    // Before the time is spent.
    let mut out = File::create(&args.out).map_err(unwritable)?;
    let trace = record_host(args.seconds, args.busy)
        .map_err(|error| Failure::Internal(format!("this host cannot be recorded: {error}")))?;
    trace.write(&mut out).map_err(unwritable)?;
    announce(&trace.summary());
    Ok(())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds from 0.1 to 3600".to_owned())
}

fn json_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension == "json" => Ok(path),
        _ => Err("the file's name ends in .json".to_owned()),
    }
}
