//! Tables of results, for people. Programs use the result itself.

use std::fmt::Write as _;

use inhaul_base::table::{Align, Table, padded, width};
use inhaul_base::{Span, Throughput, format_bytes, format_seconds};
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
    /// Means over repetitions, beside a paper's values.
    pub table: &'a [TableRow],
    /// The checks, with expected and actual values.
    pub checks: &'a [Verdict],
    /// Checks that are not judged because a case of theirs was not run.
    pub not_judged: &'a [String],
}

/// A run as a table: its description, each flow, the metrics, and the flows' rates over time. Ends with a newline.
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
    text += &flow_table(run).to_string();
    if run.flows.len() > SHOWN {
        let _ = writeln!(text, "  and {} more flows", run.flows.len() - SHOWN);
    }
    let m = &run.metrics;
    let [from_s, to_s] = run.measured_s;
    let all = run.measured_flows().map(|flow| flow.throughput(run.measured_s).bytes).sum();
    let mut table = Table::new([Align::Left, Align::Left]).indented(2);
    table.row(["aggregate goodput".to_owned(), Throughput::of(all, Span::from_secs_f64(to_s - from_s)).to_string()]);
    // An index of one flow, or of flows that do not compete, says nothing.
    let several = run.measured_flows().nth(1).is_some();
    for (name, value, unit) in [
        ("of the ideal", m.aggregate_over_ideal, Unit::Percent),
        ("Jain's index", m.jain_index, Unit::Number),
        ("Jain's index against the ideal", m.jain_index_ideal, Unit::Number),
        ("smallest over largest", m.min_max_ratio.filter(|_| several), Unit::Number),
        ("stability index", m.stability_index, Unit::Number),
        ("loss", Some(m.loss_ratio), Unit::Percent),
        ("time to converge", m.convergence_s, Unit::Seconds),
    ] {
        table.row([name.to_owned(), in_unit(value, unit)]);
    }
    text + &table.to_string() + &rate_lines(run)
}

/// The flows. Each one's goodput is over the part of the measured time in which it was active, which stands beside it;
/// or over its own, if that has ended before.
fn flow_table(run: &RunResult) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Right, Left]).indented(2);
    table.row(["flow", "protocol", "RTT", "bytes", "in", "goodput", "ideal", "loss"]);
    for flow in run.flows.iter().take(SHOWN) {
        // An earlier run has its own time: the measured one does not include it.
        let is_before = flow.stop_s <= run.measured_s[0] && flow.stop_s > flow.start_s;
        let seen = flow.throughput(if is_before { [flow.start_s, flow.stop_s] } else { run.measured_s });
        let note = match &flow.failure {
            Some(failure) => format!("FAILED: {failure}"),
            None if is_before => "before the measured time".to_owned(),
            None => String::new(),
        };
        table.row([
            flow.name.clone(),
            flow.protocol.clone(),
            format!("{:.1} ms", flow.rtt_ms),
            format_bytes(seen.bytes),
            format_seconds(seen.seconds()),
            in_unit(Some(seen.bps()), Unit::Mbps),
            in_unit(flow.ideal_bps, Unit::Mbps),
            in_unit(Some(flow.loss_ratio), Unit::Percent),
            note,
        ]);
    }
    table
}

/// A line of blocks for each flow: its rate over time.
fn rate_lines(run: &RunResult) -> String {
    const COLUMNS: usize = 60;
    const BLOCKS: [char; 9] =
        [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    let names = run.flows.iter().take(SHOWN).map(|flow| width(&flow.name)).max().unwrap_or(0).max(4);
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
        let _ = writeln!(text, "  {}  {}", padded(&flow.name, names, Align::Left), line.trim_end());
    }
    text
}

/// An experiment's table and verdicts. Ends with a newline.
pub fn judgement_table(judgement: &Judgement) -> String {
    let mut text = String::new();
    let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Right]);
    table.row(["case", "quantity", "ours", "published"]);
    for row in &judgement.table {
        let ours = row.with_error("+-").map(|text| format!("{text} {}", row.unit.sign()).trim_end().to_owned());
        let ours = ours.unwrap_or_else(|| "-".to_owned()) + &row.of_runs();
        let published = row.published.map_or_else(|| "-".to_owned(), |value| in_unit(Some(value), row.unit));
        table.row([row.case.clone(), row.quantity.clone(), ours, published]);
    }
    text += &table.to_string();
    for verdict in &judgement.verdicts {
        let word = if verdict.passed { "pass" } else { "FAIL" };
        let _ = writeln!(text, "{word}  {}: {} (expected: {})", verdict.what, verdict.found, verdict.expected);
    }
    for what in &judgement.not_judged {
        let _ = writeln!(text, "not judged  {what}");
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
        let text = rate_lines(&run);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  goodput over time; the full height is 8 Mbit/s, a character 0.10 s");
        assert_eq!(lines[1], format!("  early  {}", "\u{2588}".repeat(60)));
        assert_eq!(lines[2], format!("  late   {}{}", " ".repeat(30), "\u{2584}".repeat(30)));
        assert_eq!(lines[3].trim_end(), "  none");
    }

    #[test]
    fn run_table_has_the_rate_over_the_time_that_stands_beside_it() {
        let mut short = flow("short", 0.0, 0.0);
        short.trajectory = Trajectory::starting_at(0.0);
        short.trajectory.push(0.25, 10e6);
        (short.stop_s, short.bytes) = (0.25, 10_000_000);
        let mut long = flow("a flow with a name of some length", 0.0, 8e6);
        long.stop_s = 6.0;
        let run =
            RunResult { duration_s: 6.0, measured_s: [0.0, 6.0], flows: vec![short, long], ..RunResult::default() };
        let text = run_table(&run);
        // 320 Mbit/s while it ran, and not the 13 Mbit/s over the run.
        assert!(text.contains("  10.0 MB  0.250 s  320 Mbit/s  "), "{text}");
        assert!(text.contains("  6.0 MB   6.00 s    8 Mbit/s  "), "{text}");
        assert!(text.contains("aggregate goodput               16.0 MB in 6.00 s: 21.3 Mbit/s\n"), "{text}");
        assert!(text.contains("Jain's index                    -\n"), "{text}");
        let mut run = run;
        run.measured_s = [2.0, 6.0];
        let text = run_table(&run);
        assert!(text.contains("  10.0 MB  0.250 s  320 Mbit/s  "), "{text}");
        assert!(text.contains("  before the measured time\n") && text.contains("4.0 MB in 4.00 s: 8.0"), "{text}");
    }

    #[test]
    fn rate_lines_of_nothing_are_none() {
        assert_eq!(rate_lines(&RunResult::default()), "");
    }
}
