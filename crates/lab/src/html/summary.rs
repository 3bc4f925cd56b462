//! The start of the page: which items passed and which failed.

use std::path::Path;

use super::counts::Counts;
use super::item::Item;
use super::markup::Markup;
use super::words::{self, Outcome};
use crate::kept::{Kept, Problem};

/// Backends that have a column of their own, whether anything was run in them or not.
const BACKENDS: [&str; 2] = ["sim", "emu"];

/// Where an item is found from here.
pub(super) type Link = fn(&Item<'_>) -> String;

/// The counts, the table of items, and what made the results.
pub(super) fn write(page: &mut Markup, items: &[Item<'_>], counts: &Counts, link: Link) {
    page.element("section", &[("aria-labelledby", "summary")], |section| {
        section.leaf("h2", &[("id", "summary")], "Summary");
        section.element("p", &[("class", "counts")], |p| {
            let counted = [
                (Outcome::Passed, counts.passed),
                (Outcome::Failed, counts.failed),
                (Outcome::Invalid, counts.invalid),
                (Outcome::Changed, counts.changed),
                (Outcome::NotRun, counts.not_run),
            ];
            let is_told = |(outcome, count): &(Outcome, usize)| *outcome != Outcome::Changed || *count > 0;
            for (outcome, count) in counted.into_iter().filter(is_told) {
                let class = if count == 0 { Outcome::NotRun.class() } else { outcome.class() };
                p.leaf("span", &[("class", class)], &format!("{count} {}", outcome.word()));
                p.text(" ");
            }
        });
        section.leaf("p", &[], EXPLANATION);
        table(section, items, link);
        origins(section, items);
    });
}

const EXPLANATION: &str = "An item is a table or a figure of a paper. It passed if everything that must come out of it did, in each of its \
results; it is invalid if a run broke a rule of the laboratory, and then proves nothing. Results with changed settings do not count: what \
must come out of an experiment need not come out of another one.";

fn table(page: &mut Markup, items: &[Item<'_>], link: Link) {
    let mut backends = BACKENDS.to_vec();
    for kept in items.iter().flat_map(|item| &item.results) {
        if !backends.contains(&kept.backend.as_str()) {
            backends.push(&kept.backend);
        }
    }
    page.element("div", &[("class", "scroll")], |scroll| {
        scroll.element("table", &[("class", "items")], |table| {
            table.leaf("caption", &[], "Items and whether they came out");
            table.element("thead", &[], |head| {
                head.element("tr", &[], |row| {
                    row.leaf("th", &[("scope", "col")], "Item");
                    for backend in &backends {
                        row.leaf("th", &[("scope", "col")], &words::backend_words(backend, "default"));
                    }
                });
            });
            table.element("tbody", &[], |body| items.iter().for_each(|item| item_row(body, item, &backends, link)));
        });
    });
}

fn item_row(body: &mut Markup, item: &Item<'_>, backends: &[&str], link: Link) {
    body.element("tr", &[], |row| {
        row.element("th", &[("scope", "row")], |cell| {
            cell.leaf("a", &[("href", &link(item))], item.name);
            cell.leaf("div", &[], item.title());
        });
        for backend in backends {
            row.element("td", &[], |cell| {
                let mut results = item.results.iter().filter(|kept| kept.backend == *backend).peekable();
                if results.peek().is_none() {
                    cell.leaf("span", &[("class", "quiet")], Outcome::NotRun.word());
                }
                results.for_each(|kept| result_line(cell, kept));
            });
        }
    });
}

fn result_line(cell: &mut Markup, kept: &Kept) {
    let outcome = Outcome::of(kept);
    let class = if kept.set.is_empty() { outcome.class() } else { Outcome::Changed.class() };
    cell.element("div", &[("class", "result")], |line| {
        line.leaf("span", &[("class", class)], outcome.word());
        line.text(&format!(" {}", words::checks_passed(kept)));
        if !kept.is_default_control() {
            line.text(&format!(", control {}", kept.control));
        }
        if !kept.set.is_empty() {
            line.text(", ");
            line.leaf("em", &[], "changed settings");
        }
    });
}

/// Which programs and machines the results are of, each once.
fn origins(page: &mut Markup, items: &[Item<'_>]) {
    let mut lines: Vec<String> = Vec::new();
    for kept in items.iter().flat_map(|item| &item.results) {
        let origin = &kept.origin;
        let commit = origin.commit.as_ref().map(|commit| format!(" (commit {commit})")).unwrap_or_default();
        let line = format!("inhaul {}{commit} on {}", origin.version, origin.machine.line());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if !lines.is_empty() {
        page.leaf("p", &[], "The results were made by:");
        page.element("ul", &[], |list| lines.iter().for_each(|line| list.leaf("li", &[], line)));
    }
}

/// The files that could not be used.
pub(super) fn write_problems(page: &mut Markup, problems: &[Problem], directory: &Path) {
    if problems.is_empty() {
        return;
    }
    page.element("section", &[("class", "problems"), ("aria-labelledby", "problems")], |section| {
        section.leaf("h2", &[("id", "problems")], "Files that could not be used");
        section.element("ul", &[], |list| {
            for problem in problems {
                let path = problem.path.strip_prefix(directory).unwrap_or(&problem.path);
                list.element("li", &[], |line| {
                    line.leaf("code", &[], &path.display().to_string());
                    line.text(&format!(" {}", problem.error));
                });
            }
        });
    });
}
