//! The report: every table and figure of the papers beside ours, as one HTML page or as a site with a page for each. A
//! page needs no other file: it has no scripts and no fonts, and fetches nothing. It is also well-formed XML, so any XML
//! tool can read it.

mod counts;
mod item;
mod markup;
mod pictures;
mod prose;
mod site;
mod summary;
mod words;

use std::path::Path;

use crate::experiment::{Experiment, ExperimentError, experiments};
use crate::kept::{Kept, Kepts};
use item::Item;
use markup::Markup;
use pictures::Pictures;

pub use counts::Counts;
pub use site::{Page, Site, site};

const STYLE: &str = include_str!("style.css");
/// No content of a result file can make the page fetch or run anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const TITLE: &str = "The papers' tables and figures, and ours";

/// A report.
#[derive(Clone, Debug)]
pub struct Report {
    /// The page.
    pub html: String,
    /// How many items there are of each kind.
    pub counts: Counts,
}

/// The report of kept results. `directory` is where they were read from and is left out of paths; `written` says when.
///
/// # Errors
/// When an experiment of the program itself is broken.
pub fn report(kepts: &Kepts, directory: &Path, written: &str) -> Result<Report, ExperimentError> {
    let experiments = experiments()?;
    let items = items(&experiments, kepts);
    let counts = Counts::of(&items);
    let mut pictures = Pictures::default();
    let html = document(TITLE, |body| {
        body.element("header", &[], |header| header.leaf("h1", &[], TITLE));
        body.element("main", &[], |main| {
            summary::write(main, &items, &counts, |item| format!("#{}", item.anchor));
            summary::write_problems(main, &kepts.problems, directory);
            for papers in items.chunk_by(|a, b| a.paper() == b.paper()) {
                main.leaf("h2", &[], papers[0].paper());
                papers.iter().for_each(|item| item.write(main, &mut pictures));
            }
        });
        body.element("footer", &[], |footer| {
            footer.leaf("p", &[], &format!("Written by inhaul {} at {written}.", env!("CARGO_PKG_VERSION")));
        });
        body.own(&pictures.letters());
    });
    Ok(Report { html, counts })
}

/// A page with the content written by `body`.
fn document(title: &str, body: impl FnOnce(&mut Markup)) -> String {
    let mut page = Markup::default();
    page.own("<!DOCTYPE html>\n");
    page.element("html", &[("xmlns", "http://www.w3.org/1999/xhtml"), ("lang", "en")], |html| {
        html.element("head", &[], |inside| head(inside, title));
        html.element("body", &[], body);
    });
    page.finish()
}

fn head(head: &mut Markup, title: &str) {
    head.void("meta", &[("charset", "utf-8")]);
    head.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
    head.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    head.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    head.leaf("title", &[], title);
    head.element("style", &[], |style| style.own(STYLE));
}

/// The program's experiments with their results, and results of experiments that it does not know; papers by their
/// year, experiments without a paper last, and Figure 7 before Figure 10.
fn items<'a>(experiments: &'a [Experiment], kepts: &'a Kepts) -> Vec<Item<'a>> {
    let of = |name: &str| -> Vec<&'a Kept> {
        kepts.results.iter().map(|found| &found.kept).filter(|kept| kept.experiment == name).collect()
    };
    let mut items: Vec<Item<'_>> = experiments
        .iter()
        .map(|experiment| Item::new(&experiment.name, Some(experiment), of(&experiment.name)))
        .collect();
    for found in &kepts.results {
        let name = &found.kept.experiment;
        if !items.iter().any(|item| item.name == name) {
            items.push(Item::new(name, None, of(name)));
        }
    }
    items.sort_by_key(Item::order);
    items
}

#[cfg(test)]
mod tests;
