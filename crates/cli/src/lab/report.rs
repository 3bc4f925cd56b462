//! `inhaul lab report`: kept results as one HTML page, or as a site.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueHint};
use inhaul_lab::kept::{Kepts, Problem, read_kept, utc};

use super::failure::Failure;
use crate::options::OUTPUT;
use crate::output::{announce, warn};

pub(super) const EXAMPLES: &str = "\
A page is one file. It needs no other file and no network. docs/report.md explains it.

Examples:
  Keep results, and make a page of them:
    inhaul lab run gtp-2004/fig7 --keep results
    inhaul lab report results --output report.html
  Make a site: an index, and a page for each item:
    inhaul lab report results --site site";

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Directory with the results that 'inhaul lab run --keep' wrote
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// HTML file to write; an existing one is replaced
    #[arg(long, value_name = "FILE", default_value = "report.html", help_heading = OUTPUT)]
    output: PathBuf,
    /// Directory to write a site to instead: an index, and a page for each item. Pages of the same names are replaced
    #[arg(long, value_name = "DIR", conflicts_with = "output", value_hint = ValueHint::DirPath, help_heading = OUTPUT)]
    site: Option<PathBuf>,
}

pub(super) fn run(args: &Report) -> Result<(), Failure> {
    let kepts = results(&args.directory)?;
    if let Some(site) = &args.site {
        return write_site(&kepts, &args.directory, site);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let report = inhaul_lab::report(&kepts, &args.directory, &utc(now.as_secs()))?;
    fs::write(&args.output, report.html).map_err(|error| Failure::Unwritable(args.output.clone(), error))?;
    announce(&format!("{}: {}", args.output.display(), report.counts.line()));
    Ok(())
}

fn write_site(kepts: &Kepts, directory: &Path, to: &Path) -> Result<(), Failure> {
    let site = inhaul_lab::site(kepts, directory)?;
    for page in &site.pages {
        let path = to.join(&page.file);
        let folder = path.parent().unwrap_or(to);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, &page.html));
        written.map_err(|error| Failure::Unwritable(path, error))?;
    }
    announce(&format!("{}: {} pages; {}", to.join("index.html").display(), site.pages.len(), site.counts.line()));
    Ok(())
}

/// Reads kept results. There must be at least one.
pub(super) fn results(path: &Path) -> Result<Kepts, Failure> {
    let kepts = read(path)?;
    if kepts.results.is_empty() {
        let how = "keep some with 'inhaul lab run PAPER/ITEM --keep DIR'";
        return Err(Failure::Usage(format!("there is no kept result in {}: {how}", path.display())));
    }
    Ok(kepts)
}

/// Reads kept results, and names other files on standard error.
fn read(path: &Path) -> Result<Kepts, Failure> {
    let kepts = read_kept(path).map_err(|error| Failure::Unreadable(path.to_owned(), error))?;
    for message in kepts.problems.iter().map(Problem::message) {
        warn(&message);
    }
    Ok(kepts)
}
