//! `inhaul plan`: predicts the duration of a transfer, and its limit.

use std::fmt::Write;

use clap::Args;
use inhaul_base::format_bytes;
use inhaul_base::table::{Align, Table};
use inhaul_mover::Prediction;

use crate::exit::{self, Failure};
use crate::get;
use crate::options::{Fetch, OUTPUT};
use crate::output::{announce, to_json, warn};
use crate::signals::stop_on_signals;
use crate::summary::{count_of_files, rate};

pub(crate) const USAGE: &str = "\
inhaul plan [OPTIONS] <SOURCE>... <DEST>
       inhaul plan [OPTIONS] --metalink <FILE> <DEST>
       inhaul plan [OPTIONS] --input-file <FILE> <DEST>";

pub(crate) const EXAMPLES: &str = "\
SOURCE, DEST and RATE are those of 'inhaul get'. inhaul looks up the sources, fetches
data into memory for two seconds, and tests the disk of DEST. It leaves nothing there.
docs/plan.md says how each limit is measured.

Examples:
  The time that a data set would take from two mirrors, and the reason:
    inhaul plan inhaul://dtn1,dtn2/run7 /scratch/";

/// The command line of `inhaul plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) fetch: Fetch,
    /// Print one JSON object (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

pub(crate) fn run(args: &Plan) -> Result<(), Failure> {
    let options = get::options(&args.fetch)?;
    let stop = stop_on_signals()?;
    let (prediction, result) = inhaul_mover::predict(&options, &stop);
    if args.json {
        announce(&to_json(&prediction));
    } else if result.is_ok() {
        for warning in &prediction.warnings {
            warn(warning);
        }
        announce(sentences(&prediction).trim_end());
    }
    result.map_err(|error| exit::reported(&error))
}

/// The prediction, for people.
fn sentences(prediction: &Prediction) -> String {
    let mut text = String::new();
    let &Prediction { bytes: Some(bytes), files: Some(files), seconds: Some(about), .. } = prediction else {
        return text;
    };
    let kept = match prediction.files_kept {
        None | Some(0) => String::new(),
        Some(kept) => format!(" ({} there already)", count_of_files(kept)),
    };
    let _ = writeln!(text, "{}, {} to come{kept}", count_of_files(files), format_bytes(bytes));
    if bytes == 0 && files == 0 {
        return text;
    }
    let range = prediction.seconds_low.zip(prediction.seconds_high);
    let range = range.map_or_else(String::new, |(low, high)| format!(" ({} to {})", seconds(low), seconds(high)));
    let _ = writeln!(text, "about {}{range}", seconds(about));
    if let Some(model) = &prediction.model {
        let (rtt, loss) = (model.rtt_seconds * 1e3, model.loss_ratio * 100.0);
        let _ = writeln!(
            text,
            "model {} at {rtt:.1} ms and {loss:.2} % loss; measured {}",
            seconds(model.seconds),
            seconds(about)
        );
    }
    let mut table = Table::new([Align::Left, Align::Left, Align::Left, Align::Words]);
    for (index, limit) in prediction.limits.iter().enumerate() {
        let role = match (index, limit.allows_bps) {
            (0, _) => "limit",
            (_, Some(_)) => "next",
            (_, None) => "",
        };
        let allows = match limit.allows_bps {
            Some(bps) => format!("allows {}", rate(bps)),
            // Files without a byte in them have no rate.
            None if index == 0 => String::new(),
            None => "far from a limit".to_owned(),
        };
        table.row([role, limit.name, &allows, what_it_is(limit.name)]);
    }
    text + &table.to_string()
}

/// Explanation of a limit.
fn what_it_is(limit: &str) -> &'static str {
    match limit {
        "path" => "measured in two seconds of trial",
        "processor" => "one processor here, receiving",
        "processors" => "all processors here, doing all of it",
        "disk" => "writing at the destination",
        "hashing" => "one processor here, verifying",
        "files" => "making and naming files there",
        _ => "",
    }
}

/// A time, for people.
fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..100 => format!("{seconds:.1} s"),
        100..7200 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_mover::{ErrorReport, Limit, Model};

    #[test]
    fn sentences_fit_into_eighty_columns_and_name_the_limit_first() {
        let limit = |name, seconds, allows_bps| Limit { name, seconds, allows_bps };
        let prediction = Prediction {
            seconds: Some(11.04),
            seconds_low: Some(10.0),
            seconds_high: Some(125.0),
            bytes: Some(1_000_000_000),
            files: Some(3),
            files_kept: Some(2),
            model: Some(Model { seconds: 10.9, rtt_seconds: 0.058, loss_ratio: 0.001 }),
            limits: vec![limit("path", 10.0, Some(8e8)), limit("disk", 2.0, Some(4e9)), limit("files", 0.001, None)],
            ..Prediction::default()
        };
        let text = sentences(&prediction);
        assert!(
            text.starts_with(
                "3 files, 1.00 GB to come (2 files there already)\nabout 11.0 s (10.0 s to 2 min 05 s)\nmodel 10.9 s at 58.0 ms and 0.10 % loss; measured 11.0 s\nlimit  path "
            ),
            "{text}"
        );
        assert!(text.contains("\n       files  far from a limit"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(seconds(7322.0), "2 h 02 min");
    }

    #[test]
    fn prediction_has_the_documented_fields() {
        let prediction = Prediction {
            model: Some(Model::default()),
            limits: vec![Limit::default()],
            error: Some(ErrorReport::default()),
            ..Prediction::default()
        };
        crate::documented::assert_documented("The prediction of plan", &prediction);
    }
}
