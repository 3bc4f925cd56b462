//! The output of every transfer: progress, warnings, a summary, JSON.

use std::time::{Duration, Instant};

use clap::Args;
use inhaul_base::format_bytes;
use inhaul_mover::{ErrorKind, MoveError, Progress, Report, Update};
use serde::Serialize;

use crate::exit::{self, Failure};
use crate::options::OUTPUT;
use crate::output::{announce, say, to_json, warn};
use crate::progress;
use crate::summary;
use crate::terminal;

/// Options about the output of a transfer.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = OUTPUT)]
pub(crate) struct Output {
    /// Print one JSON object at the end (docs/json.md)
    #[arg(long, conflicts_with = "json_stream")]
    pub(crate) json: bool,
    /// Print one JSON object on a line each second, and one at the end (docs/json.md)
    #[arg(long)]
    pub(crate) json_stream: bool,
    /// Show errors only: no progress, warnings or summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Runs a transfer, and shows its progress and its result.
pub(crate) fn run(
    output: &Output,
    dry_run: bool,
    transfer: impl FnOnce(&mut dyn FnMut(Update)) -> (Report, Result<(), MoveError>),
) -> Result<(), Failure> {
    let mut listener = Listener::new(output);
    let (report, result) = transfer(&mut |update| listener.hear(&update));
    listener.close();
    let has_come = result.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Partial);
    if output.json || output.json_stream {
        announce(&to_json(&report));
    } else if dry_run && (has_come || !report.files.is_empty()) {
        announce(summary::of_plan(&report).trim_end());
    } else if !output.quiet && has_come {
        say(&summary::of_transfer(&report));
    }
    if result.is_err() && report.kept_bytes > 0 {
        let kept = format_bytes(report.kept_bytes);
        warn(&format!("{kept} are verified and kept: the same command goes on from there, with --no-resume anew"));
    }
    result.map_err(|error| exit::reported(&error))
}

/// Shows updates on a terminal, as lines of JSON, or not at all.
struct Listener {
    display: bool,
    quiet: bool,
    /// When the next line of `--json-stream` is due.
    next_line: Option<Instant>,
}

impl Listener {
    fn new(output: &Output) -> Self {
        Self {
            display: !output.quiet && terminal::is_there(),
            quiet: output.quiet,
            next_line: output.json_stream.then(Instant::now),
        }
    }

    fn hear(&mut self, update: &Update) {
        match update {
            Update::Warning(text) if !self.quiet => warn(text),
            Update::Warning(_) => {}
            Update::Progress(progress) => {
                if self.display {
                    progress::show(progress);
                }
                self.stream(progress);
            }
        }
    }

    fn stream(&mut self, progress: &Progress) {
        if let Some(due) = &mut self.next_line
            && Instant::now() >= *due
        {
            *due += Duration::from_secs(1);
            announce(&to_json(&Line { status: "running", progress }));
        }
    }

    fn close(&self) {
        if self.display {
            terminal::clear();
        }
    }
}

/// A line of `--json-stream`.
#[derive(Serialize)]
struct Line<'a> {
    status: &'static str,
    #[serde(flatten)]
    progress: &'a Progress,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;
    use inhaul_mover::{ErrorReport, FileReport, PathReport, Report, SourceProgress, SourceReport, Waiting};

    /// With all of its fields.
    fn over_tcp() -> PathReport {
        PathReport { over: "tcp".to_owned(), why: Some("UDP does not pass".to_owned()), ..PathReport::default() }
    }

    #[test]
    fn report_has_the_documented_fields() {
        let report = Report {
            files: vec![FileReport::default()],
            sources: vec![SourceReport { path: over_tcp(), ..SourceReport::default() }],
            error: Some(ErrorReport::default()),
            first_byte_seconds: Some(0.1),
            ..Report::default()
        };
        assert_documented("The report of get", &report);
    }

    #[test]
    fn progress_line_has_the_documented_fields() {
        let waiting = Waiting { servers: vec!["a:1".to_owned()], ..Waiting::default() };
        let sources = vec![SourceProgress { path: over_tcp(), ..SourceProgress::default() }];
        let progress = Progress { sources, waiting: Some(waiting), ..Progress::default() };
        assert_documented("The lines of get --json-stream", &Line { status: "running", progress: &progress });
    }
}
