//! Two sets of kept results side by side, as of two commits: what differs, and whether chance explains it.

use std::fmt::Write as _;

use inhaul_base::table::{Align, Table};
use serde::Serialize;

use super::{Kept, Kepts, Problem};
use crate::experiment::Unit;
use crate::judge::{TableRow, number};

/// What [`compare`] found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// The results that both have, in the order of A.
    pub items: Vec<ItemComparison>,
    /// Results that only A has, as `PAPER/ITEM (BACKEND)`.
    pub only_in_a: Vec<String>,
    /// Results that only B has.
    pub only_in_b: Vec<String>,
    /// Files of A and B that could not be used, each in a sentence.
    pub problems: Vec<String>,
    /// Checks that passed in A and fail in B, and results that were valid in A and are not in B.
    pub worse: usize,
}

/// One experiment in A and in B.
#[derive(Clone, Debug, Serialize)]
pub struct ItemComparison {
    /// `PAPER/ITEM`.
    pub experiment: String,
    /// The result of A.
    pub a: ComparedResult,
    /// The result of B.
    pub b: ComparedResult,
    /// Why the checks are not judged: the two were not run alike, or one of them is not valid. `None`: they are.
    pub remark: Option<String>,
    /// Checks that became worse; if the result was valid and is not any more, that alone.
    pub worse: usize,
    /// The table's rows, of A and then the additional ones of B.
    pub rows: Vec<RowComparison>,
    /// The checks, of A and then the additional ones of B.
    pub checks: Vec<CheckComparison>,
}

/// Which result it is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComparedResult {
    /// Its backend.
    pub backend: String,
    /// How GTP's rates were controlled.
    pub control: String,
    /// The commit that the program was built from.
    pub commit: Option<String>,
    /// Whether every run is valid.
    pub valid: bool,
}

/// A quantity in A and in B, in its own unit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RowComparison {
    /// The case.
    pub case: String,
    /// The quantity.
    pub quantity: String,
    /// Its displayed unit.
    pub unit: Unit,
    /// Its mean in A.
    pub a: Option<f64>,
    /// Its mean in B.
    pub b: Option<f64>,
    /// B less A.
    pub difference: Option<f64>,
    /// That over A.
    pub relative: Option<f64>,
    /// Half the width of the 95 % confidence interval of the difference, for means that are independent: the root of
    /// the sum of squares of both.
    pub ci95: Option<f64>,
    /// Its verdict.
    pub change: Change,
}

/// The verdict on a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// There is no value.
    Same,
    /// The confidence intervals explain it.
    Within,
    /// Chance does not explain it: it is larger than its confidence interval; or both are one run of the simulator
    /// with the same seed, which gives the same each time.
    Beyond,
    /// Nothing is known of the spread, or the two were not run alike.
    #[default]
    Unknown,
    /// Only one of them has it.
    Missing,
}

/// A check in A and in B.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckComparison {
    /// The expected value.
    pub what: String,
    /// The value it was compared with, in B if that has it.
    pub expected: String,
    /// The actual value in A; `None`: A has no such check.
    pub found_a: Option<String>,
    /// The actual value in B.
    pub found_b: Option<String>,
    /// Whether it passed in A.
    pub passed_a: Option<bool>,
    /// Whether it passed in B.
    pub passed_b: Option<bool>,
}

impl CheckComparison {
    /// Whether it passed in A and fails in B.
    pub fn is_worse(&self) -> bool {
        (self.passed_a, self.passed_b) == (Some(true), Some(false))
    }

    /// Whether it failed in A and passes in B.
    pub fn is_better(&self) -> bool {
        (self.passed_a, self.passed_b) == (Some(false), Some(true))
    }
}

/// Compares results of the same experiment, backend and control. Where A and B have one result each of an experiment
/// it is enough that the experiment is the same: so simulations are compared with emulations.
pub fn compare(a: &Kepts, b: &Kepts) -> Comparison {
    let results = |kepts: &'_ Kepts| -> Vec<Kept> { kepts.results.iter().map(|found| found.kept.clone()).collect() };
    let (of_a, of_b) = (results(a), results(b));
    let is_only =
        |these: &[Kept], kept: &Kept| these.iter().filter(|other| other.experiment == kept.experiment).count() == 1;
    // Which of A and of B: the order does not matter, because a pair is alone on both sides or alike.
    let is_pair = |a: &Kept, b: &Kept| {
        let alike = a.backend == b.backend && a.control == b.control;
        let alone = || is_only(&of_a, a) && is_only(&of_b, b);
        a.experiment == b.experiment && (alike || alone())
    };
    let without = |these: &[Kept], others: &[Kept]| {
        these.iter().filter(|kept| !others.iter().any(|other| is_pair(kept, other))).map(name).collect()
    };
    let pairs = of_a.iter().filter_map(|a| Some((a, of_b.iter().find(|b| is_pair(a, b))?)));
    let items: Vec<ItemComparison> = pairs.map(|(a, b)| compare_item(a, b)).collect();
    Comparison {
        worse: items.iter().map(|item| item.worse).sum(),
        items,
        only_in_a: without(&of_a, &of_b),
        only_in_b: without(&of_b, &of_a),
        problems: a.problems.iter().chain(&b.problems).map(Problem::message).collect(),
    }
}

fn name(kept: &Kept) -> String {
    let control = if kept.is_default_control() { String::new() } else { format!(", control {}", kept.control) };
    format!("{} ({}{control})", kept.experiment, kept.backend)
}

fn compare_item(a: &Kept, b: &Kept) -> ItemComparison {
    let side = |kept: &Kept| ComparedResult {
        backend: kept.backend.clone(),
        control: kept.control.clone(),
        commit: kept.origin.commit.clone(),
        valid: kept.valid,
    };
    let remark = not_judged(a, b);
    let spread = if a.set != b.set {
        Spread::NotAlike
    } else if is_same_simulation(a, b) {
        // The same seed gives the same run, of the same program.
        Spread::None
    } else {
        Spread::Unknown
    };
    let missing = b.table.iter().filter(|row| find(&a.table, row).is_none());
    let rows = a.table.iter().map(|row| compare_rows(Some(row), find(&b.table, row), spread));
    let rows = rows.chain(missing.map(|row| compare_rows(None, Some(row), spread))).collect();
    let checks = compare_checks(a, b);
    let worse = match &remark {
        Some(_) => usize::from(a.set == b.set && a.valid && !b.valid),
        None => checks.iter().filter(|check| check.is_worse()).count(),
    };
    ItemComparison { experiment: a.experiment.clone(), a: side(a), b: side(b), remark, worse, rows, checks }
}

/// Why the checks say nothing of whether B became worse than A.
fn not_judged(a: &Kept, b: &Kept) -> Option<String> {
    let settings = |kept: &Kept| if kept.set.is_empty() { "none".to_owned() } else { kept.set.join(", ") };
    if a.set != b.set {
        return Some(format!("not judged, as their settings differ: in A {}; in B {}", settings(a), settings(b)));
    }
    match (a.valid, b.valid) {
        (true, true) => None,
        (false, true) => Some("not judged, as A is not valid".to_owned()),
        (true, false) => Some("WORSE: B is not valid any more, so its checks are not judged".to_owned()),
        (false, false) => Some("not judged, as neither is valid".to_owned()),
    }
}

fn is_same_simulation(a: &Kept, b: &Kept) -> bool {
    let how = |kept: &Kept| (kept.backend.clone(), kept.control.clone(), kept.seed, kept.repetitions);
    a.backend == "sim" && how(a) == how(b)
}

/// The known spread of two single runs of the same case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    None,
    Unknown,
    /// They are not runs of the same thing.
    NotAlike,
}

fn find<'a>(table: &'a [TableRow], row: &TableRow) -> Option<&'a TableRow> {
    table.iter().find(|other| other.case == row.case && other.quantity == row.quantity)
}

fn compare_rows(a: Option<&TableRow>, b: Option<&TableRow>, spread: Spread) -> RowComparison {
    let Some(row) = a.or(b) else { return RowComparison::default() };
    let (mean_a, mean_b) = (a.and_then(|row| row.mean), b.and_then(|row| row.mean));
    let both = mean_a.zip(mean_b);
    let difference = both.map(|(a, b)| b - a);
    let errors = a.and_then(|row| row.ci95).zip(b.and_then(|row| row.ci95));
    let ci95 = errors.map(|(a, b)| a.hypot(b));
    let change = match (both, ci95) {
        (None, _) if mean_a.is_none() && mean_b.is_none() => Change::Same,
        (None, _) => Change::Missing,
        (Some((a, b)), _) if a == b => Change::Same,
        _ if spread == Spread::NotAlike => Change::Unknown,
        (Some((a, b)), Some(ci95)) if (b - a).abs() <= ci95 => Change::Within,
        (Some(_), Some(_)) => Change::Beyond,
        (Some(_), None) if spread == Spread::None => Change::Beyond,
        (Some(_), None) => Change::Unknown,
    };
    RowComparison {
        case: row.case.clone(),
        quantity: row.quantity.clone(),
        unit: row.unit,
        a: mean_a,
        b: mean_b,
        difference,
        relative: both.filter(|(a, _)| *a != 0.0).map(|(a, b)| (b - a) / a.abs()),
        ci95,
        change,
    }
}

fn compare_checks(a: &Kept, b: &Kept) -> Vec<CheckComparison> {
    let mut whats: Vec<&str> = Vec::new();
    for check in a.checks.iter().chain(&b.checks) {
        if !whats.contains(&check.what.as_str()) {
            whats.push(&check.what);
        }
    }
    let compared = |what: &str| {
        let of = |kept: &'_ Kept| kept.checks.iter().find(|check| check.what == what).cloned();
        let (a, b) = (of(a), of(b));
        CheckComparison {
            what: what.to_owned(),
            expected: b.as_ref().or(a.as_ref()).map(|check| check.expected.clone()).unwrap_or_default(),
            passed_a: a.as_ref().map(|check| check.passed),
            passed_b: b.as_ref().map(|check| check.passed),
            found_a: a.map(|check| check.found),
            found_b: b.map(|check| check.found),
        }
    };
    whats.into_iter().map(compared).collect()
}

/// The comparison as a table for people. Without `all`, values that are the same are only counted. Ends with a
/// newline.
pub fn comparison_table(comparison: &Comparison, all: bool) -> String {
    let mut text = String::new();
    for item in &comparison.items {
        write_item(&mut text, item, all);
    }
    for (side, names) in [("A", &comparison.only_in_a), ("B", &comparison.only_in_b)] {
        for name in names {
            let _ = writeln!(text, "only in {side}: {name}");
        }
    }
    let rows = || comparison.items.iter().flat_map(|item| &item.rows);
    let count = |change: Change| rows().filter(|row| row.change == change).count();
    let judged = comparison.items.iter().filter(|item| item.remark.is_none());
    let better = judged.flat_map(|item| &item.checks).filter(|check| check.is_better()).count();
    let _ = writeln!(
        text,
        "{} values: {} the same, {} within and {} beyond what chance explains, {} unknown, {} in one only; {} worse, {better} better",
        rows().count(),
        count(Change::Same),
        count(Change::Within),
        count(Change::Beyond),
        count(Change::Unknown),
        count(Change::Missing),
        comparison.worse
    );
    text
}

fn write_item(text: &mut String, item: &ItemComparison, all: bool) {
    let side = |side: &ComparedResult| {
        let control = if side.control == "default" { String::new() } else { format!(", control {}", side.control) };
        let valid = if side.valid { "" } else { ", NOT VALID" };
        format!("{}{control}, {}{valid}", side.backend, side.commit.as_deref().unwrap_or("commit not known"))
    };
    let _ = writeln!(text, "{}: A {}; B {}", item.experiment, side(&item.a), side(&item.b));
    if let Some(remark) = &item.remark {
        let _ = writeln!(text, "  {remark}");
    }
    let shown: Vec<&RowComparison> = item.rows.iter().filter(|row| all || row.change != Change::Same).collect();
    let mut table = Table::new([Align::Left, Align::Left, Align::Left, Align::Right, Align::Left]).indented(2);
    shown.iter().for_each(|row| table.row(cells(row)));
    text.push_str(&table.to_string());
    match item.rows.len() - shown.len() {
        0 => {}
        1 => text.push_str("  1 value is the same\n"),
        same => {
            let _ = writeln!(text, "  {same} values are the same");
        }
    }
    if item.remark.is_some() {
        return;
    }
    for check in item.checks.iter().filter(|check| all || check.is_worse() || check.is_better()) {
        let word = match (check.is_worse(), check.is_better()) {
            (true, _) => "WORSE",
            (_, true) => "better",
            _ => "same",
        };
        let found = |found: &Option<String>| found.clone().unwrap_or_else(|| "nothing".to_owned());
        let _ = writeln!(
            text,
            "  {word}  {}: {}, was {} (expected: {})",
            check.what,
            found(&check.found_b),
            found(&check.found_a),
            check.expected
        );
    }
}

/// `CASE  QUANTITY  936.2 -> 940.1 Mbit/s  +0.42 %  beyond chance`
fn cells(row: &RowComparison) -> [String; 5] {
    let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| number(value / row.unit.factor()));
    let relative = match row.relative.map(|relative| relative * 100.0) {
        None => String::new(),
        Some(percent) if percent != 0.0 && percent.abs() < 0.005 => format!("{percent:+.0e} %"),
        Some(percent) => format!("{percent:+.2} %"),
    };
    let thought = match (row.change, row.ci95) {
        (Change::Same, _) => "the same".to_owned(),
        (Change::Within, Some(ci95)) => format!("within +- {}", value(Some(ci95))),
        (Change::Beyond, Some(ci95)) => format!("BEYOND +- {}", value(Some(ci95))),
        (Change::Beyond, None) => "BEYOND: one run, same seed".to_owned(),
        (Change::Within | Change::Unknown, _) => "unknown".to_owned(),
        (Change::Missing, _) => "in one only".to_owned(),
    };
    let numbers = format!("{} -> {} {}", value(row.a), value(row.b), row.unit.sign());
    [row.case.clone(), row.quantity.clone(), numbers.trim_end().to_owned(), relative, thought]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::kept::Found;
    use crate::kept::tests::kept;

    fn kepts(results: Vec<Kept>) -> Kepts {
        let found = |kept| Found { path: PathBuf::new(), kept };
        Kepts { results: results.into_iter().map(found).collect(), problems: Vec::new() }
    }

    fn row(mean: Option<f64>, ci95: Option<f64>) -> TableRow {
        TableRow { mean, ci95, ..kept().table[0].clone() }
    }

    fn change(a: (f64, Option<f64>), b: (f64, Option<f64>), spread: Spread) -> Change {
        compare_rows(Some(&row(Some(a.0), a.1)), Some(&row(Some(b.0), b.1)), spread).change
    }

    #[test]
    fn compare_rows_asks_whether_chance_explains_a_difference() {
        // The interval of the difference is 5 for 3 and 4.
        assert_eq!(change((10.0, Some(3.0)), (15.0, Some(4.0)), Spread::None), Change::Within);
        assert_eq!(change((10.0, Some(3.0)), (15.1, Some(4.0)), Spread::None), Change::Beyond);
        assert_eq!(change((10.0, None), (10.0, None), Spread::Unknown), Change::Same);
        assert_eq!(change((10.0, None), (10.000001, None), Spread::None), Change::Beyond);
        assert_eq!(change((10.0, None), (10.000001, None), Spread::Unknown), Change::Unknown);
        assert_eq!(change((10.0, Some(1.0)), (20.0, Some(1.0)), Spread::NotAlike), Change::Unknown);
        assert_eq!(compare_rows(Some(&row(Some(1.0), None)), None, Spread::None).change, Change::Missing);
        assert_eq!(compare_rows(Some(&row(None, None)), Some(&row(None, None)), Spread::None).change, Change::Same);
    }

    #[test]
    fn cells_show_differences_that_the_numbers_hide() {
        let found = compare_rows(Some(&row(Some(1e6), None)), Some(&row(Some(1e6 + 1e-3), None)), Spread::None);
        assert_eq!(cells(&found)[2..], ["1 -> 1 Mbit/s", "+1e-7 %", "BEYOND: one run, same seed"]);
        let found = compare_rows(Some(&row(Some(2e6), Some(2e5))), Some(&row(Some(1e6), Some(0.0))), Spread::Unknown);
        assert_eq!(cells(&found)[2..], ["2 -> 1 Mbit/s", "-50.00 %", "BEYOND +- 0.2"]);
    }

    #[test]
    fn compare_finds_nothing_between_equals() {
        let comparison = compare(&kepts(vec![kept()]), &kepts(vec![kept()]));
        assert_eq!(comparison.worse, 0);
        assert!(comparison.items[0].rows.iter().all(|row| row.change == Change::Same));
        let table = comparison_table(&comparison, false);
        assert!(table.contains("values are the same") && table.contains("0 worse, 0 better"), "{table}");
        assert!(comparison_table(&comparison, true).contains("flows.flow1.measured_bps"));
    }

    #[test]
    fn compare_counts_checks_that_passed_and_runs_that_were_valid() {
        let (mut a, mut b) = (kept(), kept());
        a.checks.iter_mut().for_each(|check| check.passed = true);
        b.checks.iter_mut().for_each(|check| check.passed = true);
        b.checks[1].passed = false;
        b.table[0].mean = b.table[0].mean.map(|mean| mean + 1.0);
        let comparison = compare(&kepts(vec![a.clone()]), &kepts(vec![b.clone()]));
        assert_eq!(comparison.worse, 1);
        assert_eq!(comparison.items[0].rows[0].change, Change::Beyond);
        assert!(comparison_table(&comparison, false).contains("  WORSE  "));
        // The other way round it is an improvement.
        assert_eq!(compare(&kepts(vec![b.clone()]), &kepts(vec![a.clone()])).worse, 0);
        b.valid = false;
        // An invalid result counts once, regardless of its checks.
        assert_eq!(compare(&kepts(vec![a.clone()]), &kepts(vec![b.clone()])).worse, 1);
        assert_eq!(compare(&kepts(vec![b.clone()]), &kepts(vec![b.clone()])).worse, 0);
        // Results with different settings are shown, and not judged.
        b.set.push("duration=1 s".to_owned());
        let comparison = compare(&kepts(vec![a]), &kepts(vec![b]));
        assert!(comparison.worse == 0 && comparison.items[0].remark.is_some());
        assert_eq!(comparison.items[0].rows[0].change, Change::Unknown);
    }

    #[test]
    fn compare_pairs_simulations_with_emulations_by_experiment() {
        let others = |backend: &str| {
            ["x/one", "x/two"].map(|name| Kept { experiment: name.to_owned(), backend: backend.to_owned(), ..kept() })
        };
        let comparison = compare(&kepts(others("sim").to_vec()), &kepts(others("emu").to_vec()));
        let pairs = comparison.items.iter().map(|item| (item.experiment.as_str(), item.b.backend.as_str()));
        assert_eq!(pairs.collect::<Vec<_>>(), [("x/one", "emu"), ("x/two", "emu")]);
        assert!(comparison.only_in_a.is_empty() && comparison.only_in_b.is_empty());
    }

    #[test]
    fn compare_pairs_by_experiment_backend_and_control() {
        let emulated = Kept { backend: "emu".to_owned(), ..kept() };
        let paper = Kept { control: "paper".to_owned(), ..kept() };
        let comparison = compare(&kepts(vec![paper, kept()]), &kepts(vec![kept(), emulated.clone()]));
        assert_eq!(comparison.items.len(), 1);
        assert_eq!(comparison.only_in_a, ["gtp-2004/fig9 (sim, control paper)"]);
        assert_eq!(comparison.only_in_b, ["gtp-2004/fig9 (emu)"]);
        // One against one: a simulation beside an emulation. A single real run says nothing of its spread.
        let mut emulated = emulated;
        emulated.table[0].mean = emulated.table[0].mean.map(|mean| mean + 1.0);
        let comparison = compare(&kepts(vec![kept()]), &kepts(vec![emulated]));
        assert_eq!(comparison.items[0].rows[0].change, Change::Unknown);
    }
}
