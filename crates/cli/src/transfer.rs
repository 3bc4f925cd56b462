//! What every transfer shows of itself: progress, warnings, a summary, JSON.

use std::time::{Duration, Instant};

use clap::Args;
use inhaul_base::format_bytes;
use inhaul_mover::{ErrorKind, MoveError, Progress, Report, Update};
use serde::Serialize;

use crate::args::OUTPUT;
use crate::exit::{self, Failure};
use crate::progress;
use crate::serve::announce;
use crate::summary;
use crate::terminal::{self, print_above};

/// What a transfer is to print.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = OUTPUT)]
pub(crate) struct Output {
    /// Print one JSON object at the end (docs/json.md)
    #[arg(long, conflicts_with = "json_stream")]
    pub(crate) json: bool,
    /// Print one JSON object each second and one at the end (docs/json.md)
    #[arg(long)]
    pub(crate) json_stream: bool,
    /// Show no progress, warnings or summary, only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Runs a transfer and shows how it goes and what came of it.
pub(crate) fn run(
    output: &Output,
    dry_run: bool,
    transfer: impl FnOnce(&mut dyn FnMut(Update)) -> (Report, Result<(), MoveError>),
) -> Result<(), Failure> {
    if !output.quiet {
        eprintln!("inhaul: the transfer is not encrypted yet");
    }
    let mut listener = Listener::new(output);
    let (report, result) = transfer(&mut |update| listener.hear(&update));
    listener.close();
    let has_come = result.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Partial);
    if output.json || output.json_stream {
        announce(&to_json(&report));
    } else if dry_run && (has_come || !report.files.is_empty()) {
        announce(summary::of_plan(&report).trim_end());
    } else if !output.quiet && has_come {
        eprint!("{}", summary::of_transfer(&report));
    }
    if result.is_err() && report.kept_bytes > 0 {
        let kept = format_bytes(report.kept_bytes);
        eprintln!("inhaul: {kept} are verified and kept: the same command goes on from there, with --no-resume anew");
    }
    result.map_err(|error| exit::reported(&error))
}

/// Passes on what happens: to a terminal, as lines of JSON, or not at all.
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
            Update::Warning(text) if !self.quiet => print_above(&format!("inhaul: {text}")),
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

/// One line of JSON. Our own structures always have one: their keys are strings and their numbers are finite.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        format!("{{\"status\":\"failed\",\"error\":{{\"code\":\"internal\",\"message\":\"{error}\"}}}}")
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use inhaul_mover::{
        BenchInterval, BenchReport, BenchSource, ErrorReport, FileReport, Report, SourceProgress, SourceReport, Waiting,
    };
    use std::collections::BTreeSet;

    /// The paths of all fields in `value`, like `sources[].rtt_ms`.
    fn fields(prefix: &str, value: &serde_json::Value, into: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    fields(&path, value, into);
                }
            }
            serde_json::Value::Array(items) if items.iter().any(serde_json::Value::is_object) => {
                for item in items {
                    fields(&format!("{prefix}[]"), item, into);
                }
            }
            serde_json::Value::Array(_) => {
                into.insert(format!("{prefix}[]"));
            }
            _ => {
                into.insert(prefix.to_owned());
            }
        }
    }

    /// The fields that docs/json.md lists in the table under `heading`.
    fn documented(heading: &str) -> BTreeSet<String> {
        let document = include_str!("../../../docs/json.md");
        let section = document.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        rows.map(|(field, _)| field.to_owned()).collect()
    }

    /// The value has exactly the fields that the table under `heading` lists.
    pub(crate) fn assert_documented(heading: &str, value: &impl Serialize) {
        let mut found = BTreeSet::new();
        fields("", &serde_json::to_value(value).unwrap(), &mut found);
        assert_eq!(found, documented(heading), "{heading}");
    }

    #[test]
    fn report_has_the_documented_fields() {
        let report = Report {
            files: vec![FileReport::default()],
            sources: vec![SourceReport::default()],
            error: Some(ErrorReport::default()),
            ..Report::default()
        };
        assert_documented("The report of get", &report);
    }

    #[test]
    fn progress_line_has_the_documented_fields() {
        let waiting = Waiting { servers: vec!["a:1".to_owned()], ..Waiting::default() };
        let progress =
            Progress { sources: vec![SourceProgress::default()], waiting: Some(waiting), ..Progress::default() };
        assert_documented("The lines of get --json-stream", &Line { status: "running", progress: &progress });
    }

    #[test]
    fn bench_report_has_the_documented_fields() {
        let report = BenchReport {
            sources: vec![BenchSource::default()],
            intervals: vec![BenchInterval::default()],
            error: Some(ErrorReport::default()),
            ..BenchReport::default()
        };
        assert_documented("The report of bench", &report);
    }

    #[test]
    fn protocols_have_the_documented_fields() {
        assert_documented("The list of protocols", &crate::protocols::listing());
    }
}
