//! `inhaul get`.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use inhaul_base::format_bytes;
use inhaul_mover::{
    Existing, FETCH_LIST_BYTES_MAX, FetchListFormat, GetOptions, MoveError, Progress, Request, Update, read_fetch_list,
};
use serde::Serialize;

use crate::args::{Fetch, Get};
use crate::progress::{Display, print_above};
use crate::serve::announce;
use crate::summary;

pub(crate) fn run(args: &Get) -> Result<(), MoveError> {
    let stop = crate::stop_on_signals()?;
    let options = GetOptions {
        fresh: args.no_resume,
        dry_run: args.dry_run,
        manifest: args.manifest.clone(),
        ..options(&args.fetch)?
    };
    if !args.quiet {
        eprintln!("inhaul: the transfer is not encrypted yet");
    }
    let mut listener = Listener::new(args);
    let (report, result) = inhaul_mover::get(&options, &stop, &mut |update| listener.hear(&update));
    listener.close();
    let has_come = matches!(result, Ok(()) | Err(MoveError::Partial { .. }));
    if args.json || args.json_stream {
        announce(&to_json(&report));
    } else if args.dry_run && has_come {
        announce(summary::of_plan(&report).trim_end());
    } else if !args.quiet && has_come {
        eprint!("{}", summary::of_transfer(&report));
    }
    if result.is_err() && report.kept_bytes > 0 {
        let kept = format_bytes(report.kept_bytes);
        eprintln!("inhaul: {kept} are verified and kept: the same command goes on from there, with --no-resume anew");
    }
    result
}

/// What is fetched from where to where, and how.
pub(crate) fn options(args: &Fetch) -> Result<GetOptions, MoveError> {
    let (sources, destination) = args.split_places().map_err(MoveError::Usage)?;
    let requests = match args.list() {
        Some((format, path)) => read_list(format, path)?,
        None => sources.into_iter().map(Request::from).collect(),
    };
    let selection = &args.selection;
    Ok(GetOptions {
        requests,
        destination,
        receive_rate: args.receive_rate,
        rate: args.rate,
        fresh: false,
        filter: selection.patterns.filter()?,
        existing: if selection.overwrite { Existing::Replace } else { selection.existing.into() },
        checksum: selection.checksum,
        owner: selection.owner,
        attributes: selection.xattrs,
        dry_run: false,
        manifest: None,
        net: crate::net_options(&args.wire, &args.transport),
    })
}

/// What a list asks for; `-` is standard input.
fn read_list(format: FetchListFormat, path: &Path) -> Result<Vec<Request>, MoveError> {
    let failed = |why: &dyn std::fmt::Display| MoveError::Usage(format!("{}: {why}", path.display()));
    let reader: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(|error| failed(&error))?),
    };
    let mut text = Vec::new();
    reader.take(FETCH_LIST_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > FETCH_LIST_BYTES_MAX {
        return Err(failed(&format!("it is longer than {}", format_bytes(FETCH_LIST_BYTES_MAX))));
    }
    read_fetch_list(format, &text).map_err(|error| failed(&error))
}

/// Passes on what happens: to a terminal, as lines of JSON, or not at all.
struct Listener {
    display: Option<Display>,
    quiet: bool,
    /// When the next line of `--json-stream` is due.
    next_line: Option<Instant>,
}

impl Listener {
    fn new(args: &Get) -> Self {
        let display = !args.quiet && std::io::stderr().is_terminal();
        Self { display: display.then(Display::new), quiet: args.quiet, next_line: args.json_stream.then(Instant::now) }
    }

    fn hear(&mut self, update: &Update) {
        match update {
            Update::Warning(text) if !self.quiet => print_above(&format!("inhaul: {text}")),
            Update::Warning(_) => {}
            Update::Progress(progress) => {
                if let Some(display) = &mut self.display {
                    display.show(progress);
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

    fn close(&mut self) {
        if let Some(display) = self.display.take() {
            display.close();
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
        BenchInterval, BenchReport, BenchSource, ErrorReport, FileReport, Report, SourceProgress, SourceReport,
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
        let progress = Progress { sources: vec![SourceProgress::default()], ..Progress::default() };
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
