//! Documents: their figures, paths and tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use inhaul_house_tests::documents::constants::{self, Constant};
use inhaul_house_tests::documents::figures;
use inhaul_house_tests::documents::links::Repository;
use inhaul_house_tests::documents::results::Results;
use inhaul_house_tests::rules;

use super::{entries, read, report, source_files, top};

/// Documents with measured figures that are not yet compared with kept results. Annotated figures are compared. The
/// list may only become shorter.
const NOT_COMPARED: &[&str] = &["bench/NS3.md", "docs/udt.md", "tests/hostile/README.md", "tests/interop/src/page.md"];
/// Documents of settings, limits, rules and changes. A figure without a comment counts as given there. If they quote a
/// measurement, a comment names its source, and the figure is compared.
const RULES: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bpf/README.md",
    "crates/protocols/src/gtp/PROTOCOL.md",
    "crates/protocols/src/rbudp/PROTOCOL.md",
    "crates/protocols/src/sabul/PROTOCOL.md",
    "crates/protocols/src/tcp/PROTOCOL.md",
    "crates/protocols/src/udt/PROTOCOL.md",
    "crates/transport/src/kit/WIRE.md",
    "crates/udp/src/seal/PROTOCOL.md",
    "docs/coming-from.md",
    "docs/doctor.md",
    "docs/exit-codes.md",
    "docs/fallback.md",
    "docs/filesystems.md",
    "docs/integrity.md",
    "docs/json.md",
    "docs/library.md",
    "docs/link.md",
    "docs/mirrors.md",
    "docs/papers.md",
    "docs/plan.md",
    "docs/progress.md",
    "docs/put.md",
    "docs/python.md",
    "docs/report.md",
    "docs/resume.md",
    "docs/scenario.md",
    "docs/security.md",
    "docs/serve.md",
    "docs/sources.md",
    "docs/trees.md",
    "python/README.md",
];
/// Documents of constants, the folder whose constants they must have, and where else rows may look.
const CONSTANTS: &[(&str, &str)] = &[
    ("crates/protocols/src/gtp/PROTOCOL.md", "crates/protocols/src/gtp"),
    ("crates/protocols/src/rbudp/PROTOCOL.md", "crates/protocols/src/rbudp"),
    ("crates/protocols/src/sabul/PROTOCOL.md", "crates/protocols/src/sabul"),
    ("crates/protocols/src/tcp/PROTOCOL.md", "crates/protocols/src/tcp"),
    ("crates/protocols/src/udt/PROTOCOL.md", "crates/protocols/src/udt"),
    ("crates/transport/src/kit/WIRE.md", "crates/transport/src/kit"),
    ("crates/udp/src/seal/PROTOCOL.md", "crates/udp/src/seal"),
];
/// Set to write the tables of constants anew.
pub(super) const BLESS: &str = "INHAUL_BLESS";
/// Kept results of programs that were built from changed sources. The list may only become shorter.
const DIRTY: &[&str] = &[
    "bench/results/2026-11-22-mirrors-vm-2-core-x86_64.json",
    "bench/results/2026-11-23-vm-2-core-x86_64.json",
    "bench/results/2026-11-24-endhost-sealed-vm-2-core-x86_64.json",
    "bench/results/2026-11-24-sealed-full-vm-2-core-x86_64.json",
    "bench/results/2026-11-24-sealed-vm-2-core-x86_64.json",
    "bench/results/2026-11-25-reads-vm-2-core-x86_64.json",
    "bench/results/2026-11-25-remote-vm-2-core-x86_64.json",
];
/// What documents name that benchmarks make.
const MADE: &[&str] = &["bench/work/remote/bin/python"];
/// Folders that are no part of the source.
const NOT_SOURCE: &[&str] = &["target", "work", "node_modules", "__pycache__"];

#[test]
fn figures_are_those_of_kept_results() {
    let results = results();
    let mut found = Vec::new();
    for (document, text) in documents() {
        let wrong = figures::violations(&text, &results);
        let (mut unaccounted, mut wrong): (Vec<_>, Vec<_>) =
            wrong.into_iter().partition(|what| what.ends_with(figures::UNACCOUNTED));
        let is_listed = |list: &[&str]| list.contains(&document.as_str());
        if is_listed(NOT_COMPARED) && unaccounted.is_empty() {
            found.push(format!("{document}: all is compared: take it off the list"));
        }
        if !is_listed(NOT_COMPARED) && !is_listed(RULES) {
            wrong.append(&mut unaccounted);
        }
        found.extend(wrong.into_iter().map(|what| format!("{document}:{what}")));
    }
    report("figures in documents", &found);
}

#[test]
fn what_documents_name_is_there() {
    let documents = documents();
    let texts = documents.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let repository =
        Repository::new(files().into_iter().chain(MADE.iter().map(|made| (*made).to_owned())), texts.clone());
    let wrong = texts.flat_map(|(path, text)| {
        let wrong = repository.violations(path, text);
        wrong.into_iter().map(move |what| format!("{path}:{what}"))
    });
    report("paths and links in documents", &wrong.collect::<Vec<_>>());
}

#[test]
fn tables_of_constants_are_the_code_s() {
    let mut found = Vec::new();
    for (document, folder) in CONSTANTS {
        let own = constants_below(&top().join(folder));
        let elsewhere = |file: &str| constants_of(folder, file);
        let path = top().join(document);
        let text = read(&path);
        let wrong = constants::violations(&text, &own, &elsewhere);
        if !wrong.is_empty() && std::env::var_os(BLESS).is_some() {
            fs::write(&path, constants::blessed(&text, &own, &elsewhere)).expect("a document can be written");
        }
        found.extend(wrong.into_iter().map(|what| format!("{document}: {what}")));
    }
    let hint = format!("{BLESS}=1 cargo test -p inhaul-house-tests writes the tables anew");
    found.extend((!found.is_empty()).then_some(hint));
    report("tables of constants", &found);
}

/// The constants of a file that a row names beside those of its own folder.
fn constants_of(folder: &str, file: &str) -> Option<Vec<Constant>> {
    let places = [Path::new(folder).join(file), Path::new("crates/transport/src").join(file), PathBuf::from(file)];
    let path = places.into_iter().map(|place| top().join(place)).find(|place| place.is_file())?;
    let name = path.file_name()?.to_str()?;
    Some(constants_below(path.parent()?).into_iter().filter(|constant| constant.file == name).collect())
}

fn constants_below(folder: &Path) -> Vec<Constant> {
    let mut files = source_files(folder);
    files.retain(|path, _| !rules::is_test(Path::new(path)));
    constants::of_code(&files)
}

#[test]
fn results_are_kept_from_commits() {
    let dirty = results().dirty();
    let mut found: Vec<String> = dirty
        .iter()
        .filter(|path| !DIRTY.contains(&path.as_str()))
        .map(|path| format!("{path} names no commit"))
        .collect();
    let gone = DIRTY.iter().filter(|path| !dirty.iter().any(|dirty| dirty == *path));
    found.extend(gone.map(|path| format!("{path} names a commit: take it off the list")));
    report("kept results of changed sources", &found);
}

#[test]
fn benches_keep_nothing_of_changed_sources() {
    let mut found = Vec::new();
    for script in entries(&top().join("bench")).into_iter().filter(|path| path.is_file() && path.extension().is_none())
    {
        let text = read(&script);
        let writes = ["\"--json\"", "\"--append\"", "\"--output\""];
        let lines =
            text.lines().filter(|line| line.contains("add_argument") && writes.iter().any(|flag| line.contains(flag)));
        let unchecked = lines.filter(|line| !line.contains("kept_file"));
        found.extend(unchecked.map(|line| format!("{}: {}", script.display(), line.trim())));
    }
    report("benches that would keep what names no commit", &found);
}

#[test]
fn what_is_wrong_in_the_readme_is_found() {
    let readme = read(&top().join("README.md"));
    let wrong = |text: &str, kept: BTreeMap<String, String>, form| figures::violations(text, &Results::new(kept, form));
    assert_eq!(wrong(&readme, kept_files(), form()), [""; 0]);
    let assert_found = |found: Vec<String>, why: &str| {
        assert!(found.iter().any(|found| found.contains(why)), "'{why}' is not in {found:?}");
    };
    let changed = |from: &str, to: &str| {
        assert!(readme.contains(from), "the README has no '{from}'");
        wrong(&readme.replace(from, to), kept_files(), form())
    };
    assert_found(changed("all; 480 is", "all, 7 % less; 480 is"), "'7 %' is neither compared");
    assert_found(changed("475 Mbit/s", "476 Mbit/s"), "476 is written, 475 is kept");
    assert_found(changed("| 317 | 317 | 317 | 951 |", "| 317 | 317 | 317 | 952 |"), "952 is written, 951 is kept");
    let with = |path: &str, from: &str, to: &str| {
        let mut kept = kept_files();
        let text = kept.get_mut(path).expect("the README quotes it");
        assert!(text.contains(from), "{path} has no {from}");
        *text = text.replace(from, to);
        wrong(&readme, kept, form())
    };
    let simulated = "results/gtp-2004/table4/sim.json";
    assert_found(with(simulated, "\"valid\":true", "\"valid\":false"), "marked as invalid");
    assert_found(with(simulated, "\"kept_version\":", "\"kept_version\":9"), "outdated: results are kept in form");
    let many = "bench/results/2026-11-22-many-vm-2-core-x86_64.json";
    let mut kept = kept_files();
    let later = kept.get(many).expect("the README quotes it").clone();
    kept.insert(many.replace("2026-11-22", "2026-11-30"), later);
    assert_found(wrong(&readme, kept, form()), "of the same benchmark");
}

/// All kept results.
fn results() -> Results {
    Results::new(kept_files(), form())
}

/// The form that the lab keeps its results in.
fn form() -> u64 {
    let text = read(&top().join("crates/lab/src/kept/mod.rs"));
    let form = text.split("const VERSION: u32 = ").nth(1).and_then(|rest| rest.split(';').next()?.parse().ok());
    form.expect("the lab says which form its kept results have")
}

/// The kept results, by their paths from the top.
fn kept_files() -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for path in files().into_iter().filter(|path| path.ends_with(".json")) {
        if ["results/", "bench/results/", "tests/model/results/"].iter().any(|folder| path.starts_with(folder)) {
            let text = read(&top().join(&path));
            kept.insert(path, text);
        }
    }
    assert!(kept.len() > 40, "the kept results were not found: {:?}", kept.keys());
    kept
}

/// All documents, by their paths from the top.
fn documents() -> BTreeMap<String, String> {
    // A link to a document is not another one.
    let documents = files().into_iter().filter(|path| path.ends_with(".md") && !top().join(path).is_symlink());
    documents.map(|path| (path.clone(), read(&top().join(&path)))).collect()
}

/// All files, as paths from the top.
pub(super) fn files() -> Vec<String> {
    let mut waiting = vec![top().to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = waiting.pop() {
        for path in entries(&folder) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_source = !NOT_SOURCE.contains(&name) && (!name.starts_with('.') || name == ".cargo");
            if path.is_dir() && !path.is_symlink() && is_source {
                waiting.push(path);
            } else if let Some(path) = path.strip_prefix(top()).ok().and_then(Path::to_str).filter(|_| is_source) {
                files.push(path.to_owned());
            }
        }
    }
    files.sort();
    files
}
