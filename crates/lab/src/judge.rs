//! Compares an experiment's results with the expected ones. Table, verdicts and figures come from the same runs, by
//! one function: [`judge`].

use serde::{Deserialize, Serialize};

use crate::experiment::{Check, Experiment, Influence, Row, Shares, Unit};
use crate::figure::{self, Drawing};
use crate::metrics::{self, Estimate, Trajectory};
use crate::repetitions::{self, cases, quantity, valid_runs};
use crate::result::{EpochResult, RunResult, Verdict};

/// Central intervals are this many RTTmax (gtp-2004 4.2).
const CENTRAL_INTERVAL_RTTS: f64 = 3.0;

/// An experiment with its runs and its judgement.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Ours beside the paper's.
    pub table: Vec<TableRow>,
    /// The checks, with expected and actual values.
    pub verdicts: Vec<Verdict>,
    /// Checks that are not judged because a case of theirs was not run, each in a sentence.
    pub not_judged: Vec<String>,
    /// The figures, in the experiment's order.
    pub drawings: Vec<Drawing>,
}

/// A line of the table: the mean over the repetitions of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// The case.
    pub case: String,
    /// The quantity: see [`RunResult::quantity`].
    pub quantity: String,
    /// Mean of our values; `None`: there are none.
    pub mean: Option<f64>,
    /// Half the width of the 95 % confidence interval, by Student's t; `None` with one repetition.
    pub ci95: Option<f64>,
    /// Repetitions that had the quantity.
    pub samples: usize,
    /// Valid repetitions. If these are more than `samples`, the mean is not that of all runs.
    #[serde(default)]
    pub runs: usize,
    /// The paper's value.
    pub published: Option<f64>,
    /// Its displayed unit; the numbers here are in the quantity's own unit.
    pub unit: Unit,
}

impl TableRow {
    /// ` (2 of 3 runs)` where some runs lack the quantity. If all do, it may not exist there, like the fairness of one
    /// flow; but a time to converge that none has says that none converged.
    pub(crate) fn of_runs(&self) -> String {
        let is_told = self.mean.is_some() || self.quantity.starts_with("metrics.convergence_");
        if is_told { repetitions::of_runs(self.samples, self.runs) } else { String::new() }
    }

    /// Its mean and confidence interval, in its displayed unit. `sign` stands between the mean and half the width of the
    /// interval. An interval that reaches beyond the possible values is cut there, and written by its ends.
    pub(crate) fn with_error(&self, sign: &str) -> Option<String> {
        let mean = self.mean?;
        Some(text_of_estimate(&self.quantity, mean, self.ci95, self.unit.factor(), sign))
    }
}

/// `0.95 +- 0.02`, or `0.95, from 0.8 to 1`.
fn text_of_estimate(quantity: &str, mean: f64, ci95: Option<f64>, factor: f64, sign: &str) -> String {
    let text = number(mean / factor);
    match (repetitions::cut(quantity, mean, ci95), ci95) {
        (Some((low, high)), _) => format!("{text}, from {} to {}", number(low / factor), number(high / factor)),
        (None, Some(ci95)) => format!("{text} {sign} {}", number(ci95 / factor)),
        (None, None) => text,
    }
}

/// Compares the results with the expected ones. Published values, and values that need several runs, are entered into
/// the runs as well.
pub fn judge(experiment: &Experiment, runs: &mut [RunResult]) -> Judgement {
    experiment.influence.iter().for_each(|influence| enter_influence(influence, runs));
    let table = experiment.rows.iter().flat_map(|row| table_rows(row, runs)).collect();
    let mut verdicts: Vec<Verdict> = runs.iter().filter(|run| !run.valid).map(invalid).collect();
    let mut not_judged = Vec::new();
    for check in &experiment.checks {
        match not_run(check, runs) {
            Some(case) => not_judged.push(format!("{}: the case '{case}' was not run", check.what)),
            None => verdicts.extend(check_runs(check, runs)),
        }
    }
    for run in runs.iter_mut() {
        let applies = |row: &&Row| row.case == "*" || row.case == run.case;
        let published =
            experiment.rows.iter().filter(applies).filter_map(|row| Some((row.quantity.clone(), row.published?)));
        run.published = published.collect();
    }
    if let [run] = runs {
        run.checks.clone_from(&verdicts);
    }
    Judgement { table, verdicts, not_judged, drawings: figure::drawings(experiment, runs) }
}

/// A case that the check is about and that was not run: the scenario's sweep was changed.
fn not_run<'a>(check: &'a Check, runs: &[RunResult]) -> Option<&'a str> {
    let cases = cases(runs);
    let named = check.order.iter().chain(std::iter::once(&check.case)).filter(|case| !case.is_empty());
    named.map(String::as_str).find(|case| !cases.contains(case))
}

/// Over the mean of the case in which the quantity is alone: its own repetitions differ as the others' do.
fn enter_influence(influence: &Influence, runs: &mut [RunResult]) {
    let Some(alone) = quantity(runs, &influence.alone, &influence.quantity).filter(|alone| alone.mean > 0.0) else {
        return;
    };
    for run in runs.iter_mut().filter(|run| influence.beside.contains(&run.case)) {
        run.metrics.influence_ratio = run.quantity(&influence.quantity).map(|beside| beside / alone.mean);
    }
}

fn invalid(run: &RunResult) -> Verdict {
    Verdict {
        what: label(&run.case, &format!("the run with seed {} keeps the rules", run.seed)),
        expected: "a valid run".to_owned(),
        found: run.invalid_reason.clone().unwrap_or_default(),
        passed: false,
    }
}

fn table_rows(row: &Row, runs: &[RunResult]) -> Vec<TableRow> {
    let cases = if row.case == "*" { cases(runs) } else { vec![row.case.as_str()] };
    let of_case = |case: &str| {
        let found = quantity(runs, case, &row.quantity);
        TableRow {
            case: case.to_owned(),
            quantity: row.quantity.clone(),
            mean: found.map(|found| found.mean),
            ci95: found.and_then(|found| found.ci95),
            samples: found.map_or(0, |found| found.samples),
            runs: valid_runs(runs, case),
            published: row.published,
            unit: row.unit,
        }
    };
    cases.into_iter().map(of_case).collect()
}

fn check_runs(check: &Check, runs: &[RunResult]) -> Vec<Verdict> {
    let of_case = |case: &&str| check.case.is_empty() || check.case == **case;
    if let Some(shares) = check.shares {
        let runs = runs.iter().filter(|run| check.case.is_empty() || check.case == run.case);
        return runs.filter(|run| run.valid).map(|run| check_shares(check, shares, run)).collect();
    }
    let Some(name) = &check.quantity else { return Vec::new() };
    if !check.order.is_empty() {
        return vec![check_order(check, name, runs)];
    }
    cases(runs).into_iter().filter(of_case).map(|case| check_bounds(check, case, name, runs)).collect()
}

/// A quantity that some of the runs lack is not within any bounds: its mean would be that of the others.
fn check_bounds(check: &Check, case: &str, name: &str, runs: &[RunResult]) -> Verdict {
    let (found, count) = (quantity(runs, case, name), valid_runs(runs, case));
    let is_of_all = found.is_some_and(|found| found.samples == count);
    let (min, max) = match check.near {
        Some(near) => (Some(near.value * (1.0 - near.within)), Some(near.value * (1.0 + near.within))),
        None => (check.min, check.max),
    };
    let expected = match (check.near, min, max) {
        (Some(near), ..) => format!("{} within {} %", number(near.value), number(near.within * 100.0)),
        (None, Some(min), Some(max)) => format!("from {} to {}", number(min), number(max)),
        (None, Some(min), None) => format!("at least {}", number(min)),
        (None, None, Some(max)) => format!("at most {}", number(max)),
        (None, None, None) => String::new(),
    };
    let passed =
        is_of_all && found.is_some_and(|f| min.is_none_or(|min| f.mean >= min) && max.is_none_or(|max| f.mean <= max));
    Verdict { what: label(case, &check.what), expected, found: text_of_found(name, found, count), passed }
}

fn text_of_found(name: &str, found: Option<Estimate>, runs: usize) -> String {
    let Some(found) = found else { return "nothing".to_owned() };
    text_of_estimate(name, found.mean, found.ci95, 1.0, "+-") + &repetitions::of_runs(found.samples, runs)
}

/// Each neighbour in the list is above the next. The text says whether the confidence intervals overlap.
fn check_order(check: &Check, name: &str, runs: &[RunResult]) -> Verdict {
    let found: Vec<(&str, Option<Estimate>)> =
        check.order.iter().map(|case| (case.as_str(), quantity(runs, case, name))).collect();
    let passed = found.windows(2).all(|pair| match (pair[0].1, pair[1].1) {
        (Some(a), Some(b)) => a.mean > b.mean,
        _ => false,
    });
    let text = |(case, estimate): &(&str, Option<Estimate>)| {
        format!("{case} {}", text_of_found(name, *estimate, valid_runs(runs, case)))
    };
    Verdict {
        what: check.what.clone(),
        expected: check.order.join(" > "),
        found: found.iter().map(text).collect::<Vec<_>>().join(", "),
        passed,
    }
}

/// After each join, and until the next event, each window of one central interval must be right from the deadline on.
fn check_shares(check: &Check, shares: Shares, run: &RunResult) -> Verdict {
    let joins: Vec<&EpochResult> = run.epochs.iter().filter(|epoch| epoch.is_join).collect();
    let settled: Vec<(f64, Option<f64>, f64)> = joins
        .iter()
        .map(|epoch| {
            let interval_s = central_interval_s(run, epoch);
            (epoch.from_s, settling_s(run, epoch, shares.within), shares.intervals * interval_s)
        })
        .collect();
    let passed = !settled.is_empty()
        && settled.iter().all(|(_, found, limit)| found.is_some_and(|found| found <= *limit + 1e-9));
    let text = |(from, found, limit): &(f64, Option<f64>, f64)| match found {
        Some(found) => format!("at {from} s: {found:.3} s of {limit:.3} s"),
        None => format!("at {from} s: never"),
    };
    Verdict {
        what: label(&run.case, &check.what),
        expected: format!(
            "within {} % after {} central intervals",
            number(shares.within * 100.0),
            number(shares.intervals)
        ),
        found: settled.iter().map(text).collect::<Vec<_>>().join("; "),
        passed,
    }
}

/// Three times the longest round-trip time of the flows that are active.
pub(crate) fn central_interval_s(run: &RunResult, epoch: &EpochResult) -> f64 {
    let active = run.flows.iter().zip(&epoch.ideal_bps).filter(|(flow, ideal)| !flow.background && **ideal > 0.0);
    CENTRAL_INTERVAL_RTTS * active.map(|(flow, _)| flow.rtt_ms / 1e3).fold(0.0, f64::max)
}

fn settling_s(run: &RunResult, epoch: &EpochResult, within: f64) -> Option<f64> {
    let active = run.flows.iter().zip(&epoch.ideal_bps).filter(|(flow, ideal)| !flow.background && **ideal > 0.0);
    let judged: Vec<(&Trajectory, f64)> = active.map(|(flow, ideal)| (&flow.trajectory, *ideal)).collect();
    metrics::convergence_s(&judged, epoch.from_s, epoch.to_s, central_interval_s(run, epoch), within)
}

fn label(case: &str, what: &str) -> String {
    if case.is_empty() { what.to_owned() } else { format!("{case}: {what}") }
}

/// Four digits that count; large numbers with their thousands cut as k, M and G.
pub(crate) fn number(value: f64) -> String {
    let (value, sign) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{sign}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Metrics;

    fn run(case: &str, seed: u64, jain: f64) -> RunResult {
        let metrics = Metrics { jain_index: Some(jain), ..Metrics::default() };
        RunResult { case: case.to_owned(), seed, valid: true, metrics, ..RunResult::default() }
    }

    fn check(text: &str) -> Check {
        toml_edit::de::from_str(text).unwrap()
    }

    #[test]
    fn check_runs_judges_means_over_repetitions() {
        let runs = [run("a", 1, 0.9), run("a", 2, 1.0), run("b", 1, 0.5)];
        let bound = check("what = \"fair\"\nquantity = \"metrics.jain_index\"\nmin = 0.94");
        let verdicts = check_runs(&bound, &runs);
        assert_eq!(verdicts.iter().map(|v| v.passed).collect::<Vec<_>>(), [true, false]);
        assert_eq!(verdicts[0].found, "0.95, from 0.3147 to 1", "an index is at most 1");
        let order = check("what = \"order\"\nquantity = \"metrics.jain_index\"\norder = [\"a\", \"b\"]");
        assert!(check_runs(&order, &runs)[0].passed);
        let order = check("what = \"order\"\nquantity = \"metrics.jain_index\"\norder = [\"b\", \"a\"]");
        assert!(!check_runs(&order, &runs)[0].passed);
    }

    #[test]
    fn checks_of_cases_that_were_not_run_are_not_judged() {
        let of = |text: &str| not_run(&check(text), &[run("a", 1, 1.0)]).map(str::to_owned);
        let bound = "what = \"x\"\nquantity = \"metrics.jain_index\"\n";
        assert_eq!(of(&format!("{bound}min = 0")), None);
        assert_eq!(of(&format!("{bound}min = 0\ncase = \"a\"")), None);
        assert_eq!(of(&format!("{bound}min = 0\ncase = \"b\"")), Some("b".to_owned()));
        assert_eq!(of(&format!("{bound}order = [\"a\", \"c\"]")), Some("c".to_owned()));
    }

    #[test]
    fn runs_that_lack_a_quantity_are_counted_and_fail_its_bounds() {
        let mut runs = [run("a", 1, 1.0), run("a", 2, 1.0), run("a", 3, 1.0)];
        runs[0].metrics.convergence_s = Some(31.5);
        runs[1].metrics.convergence_s = Some(47.7);
        let row = Row {
            case: "*".to_owned(),
            quantity: "metrics.convergence_s".to_owned(),
            published: None,
            unit: Unit::Seconds,
        };
        let table = table_rows(&row, &runs);
        assert_eq!((table[0].samples, table[0].runs, table[0].of_runs().as_str()), (2, 3, " (2 of 3 runs)"));
        assert_eq!(table[0].with_error("±").unwrap(), "39.6, from 0 to 142.5");
        let bound = check("what = \"soon\"\nquantity = \"metrics.convergence_s\"\nmax = 90");
        let verdict = check_runs(&bound, &runs).remove(0);
        assert_eq!((verdict.found.as_str(), verdict.passed), ("39.6, from 0 to 142.5 (2 of 3 runs)", false));
        runs[2].metrics.convergence_s = Some(40.0);
        assert!(check_runs(&bound, &runs)[0].passed);
        assert_eq!(table_rows(&row, &[run("a", 1, 1.0)])[0].of_runs(), " (0 of 1 run)", "it never converged");
    }

    #[test]
    fn check_runs_fails_on_what_is_missing() {
        let missing = check("what = \"x\"\nquantity = \"flows.none.goodput_bps\"\nmin = 0");
        assert!(!check_runs(&missing, &[run("", 1, 1.0)])[0].passed);
    }

    #[test]
    fn enter_influence_is_over_what_the_flow_has_alone() {
        let influence = Influence {
            quantity: "metrics.jain_index".to_owned(),
            alone: "alone".to_owned(),
            beside: vec!["both".to_owned()],
        };
        let mut runs = [run("alone", 1, 0.7), run("alone", 2, 0.9), run("both", 1, 0.2), run("other", 1, 0.2)];
        enter_influence(&influence, &mut runs);
        let ratios = runs.each_ref().map(|run| run.metrics.influence_ratio);
        assert_eq!(ratios, [None, None, Some(0.25), None]);
        runs[0].valid = false;
        runs[1].valid = false;
        runs[2].metrics.influence_ratio = None;
        enter_influence(&influence, &mut runs);
        assert_eq!(runs[2].metrics.influence_ratio, None, "nothing valid to compare with");
    }

    #[test]
    fn number_keeps_four_digits() {
        let texts = [0.99994, 0.5, 12.0, 123_456.0, 850e6, 1e9, 0.00012345].map(number);
        assert_eq!(texts, ["0.9999", "0.5", "12", "123.5 k", "850 M", "1 G", "0.0001234"]);
    }
}
