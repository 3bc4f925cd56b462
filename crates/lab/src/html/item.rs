//! One table or figure of a paper: published values beside ours, the figures, the checks, and how it was run.

use super::markup::Markup;
use super::pictures::Pictures;
use super::prose;
use super::words::{self, Outcome};
use crate::experiment::{Experiment, Figure, FigureKind};
use crate::figure;
use crate::judge::{TableRow, number};
use crate::kept::Kept;
use crate::words::quantity_words;

/// The heading in an experiment's README for explanations of failing checks.
const SHORTCOMINGS: &str = "What did not come out";

/// An item with its results.
#[derive(Debug)]
pub(super) struct Item<'a> {
    /// `PAPER/ITEM`.
    pub(super) name: &'a str,
    /// Its `id` on the page.
    pub(super) anchor: String,
    /// `None`: this program does not know it.
    experiment: Option<&'a Experiment>,
    /// Simulated first, then emulated, then others.
    pub(super) results: Vec<&'a Kept>,
}

impl<'a> Item<'a> {
    pub(super) fn new(name: &'a str, experiment: Option<&'a Experiment>, mut results: Vec<&'a Kept>) -> Self {
        let rank =
            |kept: &&Kept| ["sim", "emu"].iter().position(|backend| *backend == kept.backend).unwrap_or(usize::MAX);
        results
            .sort_by_key(|kept| (rank(kept), kept.backend.clone(), !kept.is_default_control(), kept.control.clone()));
        Self { name, anchor: format!("item-{}", harmless(name)), experiment, results }
    }

    /// Its page in the site: a file in the folder of its paper.
    pub(super) fn file(&self) -> String {
        let (paper, item) = self.name.split_once('/').unwrap_or(("other", self.name));
        format!("{}/{}.html", harmless(paper), harmless(item))
    }

    pub(super) fn paper(&self) -> &'a str {
        self.name.split('/').next().unwrap_or(self.name)
    }

    pub(super) fn title(&self) -> &'a str {
        let kept = || self.results.first().map_or("", |kept| &kept.title);
        self.experiment.map_or_else(kept, |experiment| &experiment.title)
    }

    fn source(&self) -> &'a str {
        let kept = || self.results.first().map_or("", |kept| &kept.source);
        self.experiment.map_or_else(kept, |experiment| &experiment.source)
    }

    /// The paper's year and name, then the kind of item and its number.
    pub(super) fn order(&self) -> (u64, &'a str, &'a str, u64, &'a str) {
        let (paper, item) = self.name.split_once('/').unwrap_or((self.name, ""));
        let (_, year) = numbered(paper);
        let (kind, number) = numbered(item);
        (year, paper, kind, number, item)
    }

    /// The worst of its results; those with changed settings count only if there are no others.
    pub(super) fn outcome(&self) -> Outcome {
        let unchanged = self.results.iter().filter(|kept| kept.set.is_empty());
        let without = if self.results.is_empty() { Outcome::NotRun } else { Outcome::Changed };
        unchanged.map(|kept| Outcome::of(kept)).max().unwrap_or(without)
    }

    /// The item as a part of the one page.
    pub(super) fn write(&self, page: &mut Markup, pictures: &mut Pictures) {
        page.element("section", &[("class", "item"), ("aria-labelledby", &self.anchor)], |section| {
            section.element("h3", &[("id", &self.anchor)], |heading| self.write_title(heading));
            if self.write_results(section, pictures, "h4") {
                self.write_shortcomings(section);
                self.results.iter().for_each(|kept| write_origin(section, kept, "h4"));
            }
        });
    }

    /// The item as a page of the site, with the whole README: criteria, chosen settings, and deviations.
    pub(super) fn write_page(&self, page: &mut Markup, pictures: &mut Pictures) {
        page.element("h1", &[], |heading| self.write_title(heading));
        let has_results = self.write_results(page, pictures, "h2");
        for (heading, text) in self.experiment.into_iter().flat_map(|experiment| prose::sections(experiment.readme)) {
            page.leaf("h2", &[], heading);
            prose::write(page, text);
        }
        if has_results {
            self.results.iter().for_each(|kept| write_origin(page, kept, "h2"));
        }
    }

    fn write_title(&self, heading: &mut Markup) {
        heading.leaf("span", &[("class", "source")], self.source());
        heading.text(" ");
        heading.text(self.title());
    }

    /// The item's description, table, figures and checks; without results, the command to get them. Returns whether
    /// there are results.
    fn write_results(&self, page: &mut Markup, pictures: &mut Pictures, heading: &'static str) -> bool {
        match self.experiment {
            Some(experiment) => prose::write(page, prose::introduction(experiment.readme)),
            None => page.leaf("p", &[], "This program has no experiment of that name: no figures are drawn."),
        }
        if self.results.is_empty() {
            self.write_how_to_run(page);
            return false;
        }
        self.write_table(page);
        self.write_figures(page, pictures);
        self.results.iter().for_each(|kept| write_checks(page, kept, heading));
        true
    }

    fn write_how_to_run(&self, section: &mut Markup) {
        section.element("p", &[], |p| {
            p.leaf("span", &[("class", Outcome::NotRun.class())], Outcome::NotRun.word());
            p.text(" To run it: ");
            p.leaf("code", &[], &format!("inhaul lab run {} --keep results", self.name));
        });
    }

    /// Published, simulated, emulated: the last two stand there even if nothing was run in them.
    fn write_table(&self, section: &mut Markup) {
        let columns = self.columns();
        let mut rows = self.results.iter().flat_map(|kept| &kept.table);
        let is_published = rows.any(|row| row.published.is_some());
        section.element("div", &[("class", "scroll")], |scroll| {
            scroll.element("table", &[("class", "values")], |table| {
                let what = if is_published { "published values and ours" } else { "our values" };
                table.leaf("caption", &[], &format!("{}: {what}", self.source()));
                table.element("thead", &[], |head| {
                    head.element("tr", &[], |row| {
                        row.leaf("th", &[("scope", "col")], "Quantity");
                        if is_published {
                            row.leaf("th", &[("scope", "col"), ("class", "number")], "published");
                        }
                        for (heading, kept) in &columns {
                            row.element("th", &[("scope", "col"), ("class", "number")], |cell| {
                                cell.text(heading);
                                match kept {
                                    None => cell.leaf("small", &[], " (not run)"),
                                    Some(kept) if !kept.valid => cell.leaf("small", &[], " (not valid)"),
                                    Some(_) => {}
                                }
                            });
                        }
                    });
                });
                for (case, rows) in self.cases() {
                    table.element("tbody", &[], |body| write_case(body, case, &rows, (is_published, &columns)));
                }
            });
        });
        if self.results.iter().flat_map(|kept| &kept.table).any(|row| row.ci95.is_some()) {
            section.leaf(
                "p",
                &[("class", "note")],
                "±: half the width of the 95 % confidence interval over the repetitions. \"From ... to\": its ends, cut at the \
                 least or the most that the quantity can be.",
            );
        }
    }

    fn columns(&self) -> Vec<(String, Option<&'a Kept>)> {
        let mut columns: Vec<(String, Option<&'a Kept>)> =
            self.results.iter().map(|kept| (words::backend_words(&kept.backend, &kept.control), Some(*kept))).collect();
        for (at, backend) in ["sim", "emu"].into_iter().enumerate() {
            if !self.results.iter().any(|kept| kept.backend == backend) {
                let simulated = self.results.iter().filter(|kept| kept.backend == "sim").count();
                columns.insert(
                    if at == 0 { 0 } else { simulated.max(1) },
                    (words::backend_words(backend, "default"), None),
                );
            }
        }
        columns
    }

    /// The rows of all results by case, each quantity once.
    fn cases(&self) -> Vec<(&'a str, Vec<&'a TableRow>)> {
        let mut cases: Vec<(&str, Vec<&TableRow>)> = Vec::new();
        for row in self.results.iter().flat_map(|kept| &kept.table) {
            match cases.iter_mut().find(|(case, _)| *case == row.case) {
                Some((_, rows)) if rows.iter().any(|other| other.quantity == row.quantity) => {}
                Some((_, rows)) => rows.push(row),
                None => cases.push((&row.case, vec![row])),
            }
        }
        cases
    }

    fn write_figures(&self, section: &mut Markup, pictures: &mut Pictures) {
        let Some(experiment) = self.experiment else { return };
        for figure in &experiment.figures {
            let one = Experiment { figures: vec![figure.clone()], ..experiment.clone() };
            for kept in &self.results {
                let backend = words::backend_words(&kept.backend, &kept.control);
                if let Some(reason) = not_drawn(figure, kept) {
                    section.leaf(
                        "p",
                        &[("class", "note")],
                        &format!("{}, {backend}: not drawn, as {reason}.", figure.title),
                    );
                    continue;
                }
                for drawing in figure::drawings(&one, &kept.runs) {
                    section.element("figure", &[], |figure| {
                        figure.element("div", &[("class", "scroll plot")], |div| {
                            div.own(&pictures.part(&drawing.to_svg()));
                        });
                        figure.leaf("figcaption", &[], &caption(&backend, kept));
                    });
                }
            }
        }
    }

    fn write_shortcomings(&self, section: &mut Markup) {
        let Some(experiment) =
            self.experiment.filter(|_| self.results.iter().any(|kept| kept.failed().next().is_some()))
        else {
            return;
        };
        section.element("div", &[("class", "shortcomings")], |aside| {
            aside.leaf("h4", &[], SHORTCOMINGS);
            match prose::section(experiment.readme, SHORTCOMINGS) {
                Some(text) => prose::write(aside, text),
                None => aside.leaf("p", &[], "The experiment's README says nothing of it."),
            }
        });
    }
}

/// Names of results may hold anything: each byte that is no letter or digit is written as its number.
fn harmless(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => text.push(char::from(byte)),
            _ => text.push_str(&format!("_{byte:x}")),
        }
    }
    text
}

/// `fig10` is `fig` and 10; names without a number come last.
fn numbered(name: &str) -> (&str, u64) {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (kind, name[kind.len()..].parse().unwrap_or(u64::MAX))
}

/// Why a figure is not drawn. Sums over flows, and bars of single flows, are true only if no flow was left out.
fn not_drawn(figure: &Figure, kept: &Kept) -> Option<&'static str> {
    let needs_flows = match figure.kind {
        FigureKind::Trajectories => true,
        FigureKind::Bars | FigureKind::Lines | FigureKind::Pairs => {
            figure.quantities.iter().any(|quantity| quantity.starts_with("flows."))
        }
        FigureKind::Scales => false,
    };
    if !kept.valid {
        Some("the result is not valid")
    } else if needs_flows && kept.thinned.flows_left_out > 0 {
        Some("the kept result has not all flows")
    } else {
        None
    }
}

fn caption(backend: &str, kept: &Kept) -> String {
    let changed = if kept.set.is_empty() { "" } else { ", with changed settings" };
    match kept.repetitions {
        0 | 1 => format!("{backend}{changed}"),
        repetitions => format!("{backend}{changed}, {repetitions} repetitions (lines over time: the first)"),
    }
}

fn write_case(
    body: &mut Markup,
    case: &str,
    rows: &[&TableRow],
    (is_published, columns): (bool, &[(String, Option<&Kept>)]),
) {
    if !case.is_empty() {
        let span = (1 + usize::from(is_published) + columns.len()).to_string();
        body.element("tr", &[("class", "case")], |row| {
            row.leaf("th", &[("scope", "rowgroup"), ("colspan", &span)], case);
        });
    }
    for row in rows {
        body.element("tr", &[], |line| {
            let unit = row.unit.sign();
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            line.leaf("th", &[("scope", "row")], &(quantity_words(&row.quantity) + &unit));
            if is_published {
                let published = row.published.map(|value| number(value / row.unit.factor()));
                number_cell(line, published.as_deref());
            }
            for (_, kept) in columns {
                let same = |other: &&TableRow| other.case == row.case && other.quantity == row.quantity;
                let found = kept.and_then(|kept| kept.table.iter().find(same));
                let value = found.and_then(|found| {
                    let of_runs = found.of_runs();
                    let text = found.with_error("±").or_else(|| (!of_runs.is_empty()).then(|| "never".to_owned()))?;
                    Some(text + &of_runs)
                });
                number_cell(line, value.as_deref());
            }
        });
    }
}

fn number_cell(row: &mut Markup, value: Option<&str>) {
    row.leaf("td", &[("class", "number")], value.unwrap_or("–"));
}

fn write_checks(section: &mut Markup, kept: &Kept, heading: &'static str) {
    section.leaf(heading, &[], &format!("Checks, {}", words::backend_words(&kept.backend, &kept.control)));
    if !kept.set.is_empty() {
        let note = "Settings were changed: what must come out of the experiment need not come out of this.";
        section.leaf("p", &[("class", "note")], note);
    }
    section.element("ul", &[("class", "checks")], |list| {
        for check in &kept.checks {
            let outcome = if check.passed { Outcome::Passed } else { Outcome::Failed };
            list.element("li", &[], |line| {
                line.leaf("span", &[("class", outcome.class())], outcome.word());
                line.text(&format!(" {}: ", check.what));
                line.leaf("b", &[], &check.found);
                line.text(&format!(" (expected: {})", check.expected));
            });
        }
    });
}

fn write_origin(section: &mut Markup, kept: &Kept, heading: &'static str) {
    let origin = &kept.origin;
    let seeds = match kept.repetitions {
        0 | 1 => format!("{}", kept.seed),
        repetitions => {
            format!("{} to {}, one a repetition", kept.seed, kept.seed.wrapping_add(u64::from(repetitions) - 1))
        }
    };
    let commit = origin.commit.as_deref().unwrap_or("not known");
    let mut facts = vec![
        ("Seed", seeds),
        ("Program", format!("inhaul {}, commit {commit}", origin.version)),
        ("Machine", origin.machine.line()),
        ("Finished", format!("{}, after {}", origin.finished, words::lasted(origin.took_s))),
        ("Validity", validity(kept)),
    ];
    if !kept.set.is_empty() {
        facts.insert(0, ("Changed settings", kept.set.join(", ")));
    }
    section.leaf(heading, &[], &format!("How it was made, {}", words::backend_words(&kept.backend, &kept.control)));
    section.element("dl", &[], |list| {
        list.leaf("dt", &[], "Command");
        list.element("dd", &[], |text| text.leaf("code", &[], &origin.command));
        for (name, fact) in &facts {
            list.leaf("dt", &[], name);
            list.leaf("dd", &[], fact);
        }
    });
}

fn validity(kept: &Kept) -> String {
    let broken = kept.runs.iter().filter(|run| !run.valid);
    let reasons: Vec<&str> = broken.filter_map(|run| run.invalid_reason.as_deref()).take(3).collect();
    match (kept.valid, kept.runs.len()) {
        (true, 1) => "the run is valid".to_owned(),
        (true, runs) => format!("all {runs} runs are valid"),
        (false, _) => format!(
            "NOT VALID: {}",
            if reasons.is_empty() { "no reason is given".to_owned() } else { reasons.join("; ") }
        ),
    }
}
