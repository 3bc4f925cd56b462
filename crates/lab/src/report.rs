//! Tables of results, for people. Programs use the result itself.

use std::fmt::Write as _;

use serde::Serialize;

use crate::experiment::Unit;
use crate::judge::{Judgement, TableRow, number};
use crate::result::{FlowResult, RunResult, Verdict};

/// Flows that are shown of a run that has more.
const SHOWN: usize = 40;

/// The last line of `--json` where there is more than one run.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// How many runs there were.
    pub runs: usize,
    /// Whether all of them are valid.
    pub valid: bool,
    /// Means over repetitions, beside what a paper printed.
    pub table: &'a [TableRow],
    /// The checks, with expected and actual values.
    pub checks: &'a [Verdict],
}

/// A run as a table: what it was, each flow, the metrics, and the flows' rates over time. Ends with a newline.
pub fn run_table(run: &RunResult) -> String {
    let mut text = String::new();
    let case = if run.case.is_empty() { String::new() } else { format!(" [{}]", run.case) };
    let _ = writeln!(
        text,
        "{}{case}, seed {}: {:.3} s, measured from {:.3} s to {:.3} s",
        run.experiment, run.seed, run.duration_s, run.measured_s[0], run.measured_s[1]
    );
    if let Some(reason) = &run.invalid_reason {
        let _ = writeln!(text, "NOT VALID: {reason}");
    }
    let width = run.flows.iter().map(|flow| flow.name.chars().count()).max().unwrap_or(0).max(4);
    let _ = writeln!(text, "  {:width$}  protocol         RTT      goodput       ideal        loss", "flow");
    for flow in run.flows.iter().take(SHOWN) {
        let note = flow.failure.as_ref().map(|failure| format!("  FAILED: {failure}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "  {:width$}  {:10}  {:>7.1} ms  {:>11}  {:>10}  {:>10}{note}",
            flow.name,
            flow.protocol,
            flow.rtt_ms,
            in_unit(Some(flow.measured_bps), Unit::Mbps),
            in_unit(flow.ideal_bps, Unit::Mbps),
            in_unit(Some(flow.loss_ratio), Unit::Percent),
        );
    }
    if run.flows.len() > SHOWN {
        let _ = writeln!(text, "  and {} more flows", run.flows.len() - SHOWN);
    }
    let m = &run.metrics;
    for (name, value, unit) in [
        ("aggregate goodput", Some(m.aggregate_goodput_bps), Unit::Mbps),
        ("of the ideal", m.aggregate_over_ideal, Unit::Percent),
        ("Jain's index", m.jain_index, Unit::Number),
        ("Jain's index against the ideal", m.jain_index_ideal, Unit::Number),
        ("smallest over largest", m.min_max_ratio, Unit::Number),
        ("loss", Some(m.loss_ratio), Unit::Percent),
        ("time to converge", m.convergence_s, Unit::Seconds),
    ] {
        let _ = writeln!(text, "  {name:30}  {}", in_unit(value, unit));
    }
    text + &rate_lines(run, width)
}

/// A line of blocks for each flow: its rate over time.
fn rate_lines(run: &RunResult, width: usize) -> String {
    const COLUMNS: usize = 60;
    const BLOCKS: [char; 9] =
        [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    let step_s = run.duration_s / COLUMNS as f64;
    let rates = |flow: &FlowResult| -> Vec<f64> {
        (0..COLUMNS).map(|k| flow.trajectory.rate_bps(k as f64 * step_s, (k + 1) as f64 * step_s)).collect()
    };
    let lines: Vec<Vec<f64>> = run.flows.iter().take(SHOWN).map(rates).collect();
    let full = lines.iter().flatten().copied().fold(0.0, f64::max);
    if full <= 0.0 {
        return String::new();
    }
    let mut text = format!(
        "  goodput over time; the full height is {}, a character {step_s:.2} s\n",
        in_unit(Some(full), Unit::Mbps)
    );
    for (flow, rates) in run.flows.iter().zip(lines) {
        let block = |rate: &f64| BLOCKS[((rate / full * 8.0).round() as usize).min(8)];
        let line: String = rates.iter().map(block).collect();
        let _ = writeln!(text, "  {:width$}  {}", flow.name, line.trim_end());
    }
    text
}

/// An experiment's table and verdicts. Ends with a newline.
pub fn judgement_table(judgement: &Judgement) -> String {
    let mut text = String::new();
    let width = |column: fn(&TableRow) -> &str| {
        judgement.table.iter().map(|row| column(row).chars().count()).max().unwrap_or(0).max(8)
    };
    let (cases, quantities) = (width(|row| &row.case), width(|row| &row.quantity));
    let _ = writeln!(text, "{:cases$}  {:quantities$}  {:>24}  {:>14}", "case", "quantity", "ours", "published");
    for row in &judgement.table {
        let ours = match row.ci95 {
            Some(ci95) => format!("{} +- {}", plain(row.mean, row.unit), in_unit(Some(ci95), row.unit)),
            None => in_unit(row.mean, row.unit),
        };
        let published = row.published.map_or_else(|| "-".to_owned(), |value| in_unit(Some(value), row.unit));
        let _ = writeln!(text, "{:cases$}  {:quantities$}  {ours:>24}  {published:>14}", row.case, row.quantity);
    }
    for verdict in &judgement.verdicts {
        let word = if verdict.passed { "pass" } else { "FAIL" };
        let _ = writeln!(text, "{word}  {}: {} (expected: {})", verdict.what, verdict.found, verdict.expected);
    }
    text
}

/// The trajectories of runs as CSV with one heading line; times in seconds, rates in bits per second.
pub fn series_csv(runs: &[RunResult]) -> String {
    let mut text = String::from("case,seed,flow,t_s,goodput_bps\n");
    for run in runs {
        for flow in &run.flows {
            for point in &flow.series {
                let case = run.case.replace('"', "'");
                let _ = writeln!(text, "\"{case}\",{},{},{},{}", run.seed, flow.name, point.t_s, point.goodput_bps);
            }
        }
    }
    text
}

fn plain(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| "-".to_owned(), |value| number(value / unit.factor()))
}

fn in_unit(value: Option<f64>, unit: Unit) -> String {
    match value {
        None => "-".to_owned(),
        Some(_) => format!("{} {}", plain(value, unit), unit.sign()).trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Trajectory;

    fn flow(name: &str, start_s: f64, rate_bps: f64) -> FlowResult {
        let mut trajectory = Trajectory::starting_at(start_s);
        trajectory.push(6.0, rate_bps / 8.0 * (6.0 - start_s));
        FlowResult { name: name.to_owned(), trajectory, ..FlowResult::default() }
    }

    #[test]
    fn rate_lines_show_who_had_how_much_when() {
        let flows = vec![flow("early", 0.0, 8e6), flow("late", 3.0, 4e6), flow("none", 0.0, 0.0)];
        let run = RunResult { duration_s: 6.0, flows, ..RunResult::default() };
        let text = rate_lines(&run, 5);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  goodput over time; the full height is 8 Mbit/s, a character 0.10 s");
        assert_eq!(lines[1], format!("  early  {}", "\u{2588}".repeat(60)));
        assert_eq!(lines[2], format!("  late   {}{}", " ".repeat(30), "\u{2584}".repeat(30)));
        assert_eq!(lines[3].trim_end(), "  none");
    }

    #[test]
    fn rate_lines_of_nothing_are_none() {
        assert_eq!(rate_lines(&RunResult::default(), 4), "");
    }
}
