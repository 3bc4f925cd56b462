//! The report as a site: an index, and a page for each item.

use std::path::Path;

use super::counts::Counts;
use super::item::Item;
use super::markup::Markup;
use super::pictures::Pictures;
use super::{TITLE, document, items, prose, summary};
use crate::experiment::{ExperimentError, experiments};
use crate::kept::Kepts;

/// A report as a site. It does not say when it was written: the same results make the same pages.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its pages; the first is the index.
    pub pages: Vec<Page>,
    /// How many items there are of each kind.
    pub counts: Counts,
}

/// A page of a site.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path within the site, with `/` between folders.
    pub file: String,
    /// Its content.
    pub html: String,
}

/// The "Choices for all experiments" and the like, which every item shares.
const METHOD: &str = include_str!("../../experiments/README.md");
/// The parts of it that explain results to a reader.
const METHOD_SECTIONS: [&str; 2] = ["Kept results", "Choices for all experiments"];

/// The site of kept results. `directory` is where they were read from and is left out of paths.
///
/// # Errors
/// When an experiment of the program itself is broken.
pub fn site(kepts: &Kepts, directory: &Path) -> Result<Site, ExperimentError> {
    let experiments = experiments()?;
    let items = items(&experiments, kepts);
    let counts = Counts::of(&items);
    let index = document(TITLE, |body| {
        body.element("header", &[], |header| header.leaf("h1", &[], TITLE));
        body.element("main", &[], |main| {
            summary::write(main, &items, &counts, file_of);
            summary::write_problems(main, &kepts.problems, directory);
            for heading in METHOD_SECTIONS {
                main.leaf("h2", &[], heading);
                prose::write(main, prose::section(METHOD, heading).unwrap_or_default());
            }
        });
        footer(body);
    });
    let mut pages = vec![Page { file: "index.html".to_owned(), html: index }];
    pages.extend((0..items.len()).map(|at| page(&items, at)));
    Ok(Site { pages, counts })
}

fn file_of(item: &Item<'_>) -> String {
    item.file()
}

/// The page of item number `at`.
fn page(items: &[Item<'_>], at: usize) -> Page {
    let item = &items[at];
    let mut pictures = Pictures::default();
    let html = document(&format!("{}: {}", item.name, item.title()), |body| {
        body.element("header", &[], |header| {
            header.element("nav", &[("aria-label", "Pages")], |nav| {
                nav.leaf("a", &[("href", "../index.html")], "All items");
                let before = at.checked_sub(1).and_then(|at| items.get(at));
                for (word, other) in [("Before", before), ("Next", items.get(at + 1))] {
                    let Some(other) = other else { continue };
                    nav.text(&format!(" \u{b7} {word}: "));
                    nav.leaf("a", &[("href", &format!("../{}", other.file()))], other.name);
                }
            });
        });
        body.element("main", &[], |main| item.write_page(main, &mut pictures));
        footer(body);
        body.own(&pictures.letters());
    });
    Page { file: item.file(), html }
}

fn footer(body: &mut Markup) {
    body.element("footer", &[], |footer| {
        footer.leaf(
            "p",
            &[],
            &format!("Written by inhaul {}: inhaul lab report RESULTS --site DIR.", env!("CARGO_PKG_VERSION")),
        );
    });
}
