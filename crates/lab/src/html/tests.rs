//! The page as a whole: it parses, refers only to existing ids, and holds no foreign markup.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};

use super::*;
use crate::kept::tests::kept;
use crate::kept::{Found, KeptError, Problem};

/// Harmful texts in a file of results.
const HOSTILE: &str =
    "</td><script>alert(1)</script><img src=\"https://example.org/x\" onerror='x'/>&amp; ]]> -->\u{0}\u{202e}";

fn kepts(results: Vec<Kept>, problems: Vec<(&str, KeptError)>) -> Kepts {
    let found = |(number, kept)| Found { path: PathBuf::from(format!("dir/{number}.json")), kept };
    let problem = |(path, error)| Problem { path: Path::new("dir").join(path), error };
    Kepts {
        results: results.into_iter().enumerate().map(found).collect(),
        problems: problems.into_iter().map(problem).collect(),
    }
}

fn page(kepts: &Kepts) -> Report {
    report(kepts, Path::new("dir"), "2026-01-01T00:00:00Z").unwrap()
}

fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(html, options).unwrap_or_else(|error| panic!("{error}"))
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")
}

fn elements<'a>(document: &'a Document<'_>, tag: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name(("http://www.w3.org/1999/xhtml", tag)))
}

/// Every id stands once, all references exist, and nothing is fetched or run.
fn assert_self_contained(document: &Document<'_>) {
    assert_links(document, &|_| false);
}

/// As [`assert_self_contained`], and links may lead where `is_page` says.
fn assert_links(document: &Document<'_>, is_page: &dyn Fn(&str) -> bool) {
    let mut ids = BTreeSet::new();
    for node in document.descendants().filter(Node::is_element) {
        if let Some(id) = node.attribute("id") {
            assert!(ids.insert(id), "two elements are called {id}");
        }
    }
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "img", "link", "iframe", "object", "image", "base"].contains(&name), "{name}");
        for attribute in node.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(!key.starts_with("on") && !["src", "style", "srcset"].contains(&key), "{name} {key}");
            let target = match key {
                "href" if is_page(value) => continue,
                "href" => value.strip_prefix('#'),
                "clip-path" => value.strip_prefix("url(#").and_then(|rest| rest.strip_suffix(')')),
                "aria-labelledby" => Some(value),
                _ => continue,
            };
            assert!(target.is_some_and(|target| ids.contains(target)), "{name} {key}={value}");
        }
    }
}

/// The page's words with one space between them.
fn words_of(document: &Document<'_>) -> String {
    text(document.root()).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces every text in a result, except those chosen by `keep`, which gets the place.
fn replace_texts(value: &mut serde_json::Value, path: &str, keep: &[&str]) {
    match value {
        serde_json::Value::String(text) if !keep.contains(&path) => *text = HOSTILE.to_owned(),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| replace_texts(item, path, keep)),
        serde_json::Value::Object(map) => map.iter_mut().for_each(|(key, item)| replace_texts(item, key, keep)),
        _ => {}
    }
}

#[test]
fn report_shows_what_came_out() {
    let paper = Kept { control: "paper".to_owned(), set: Vec::new(), checks: Vec::new(), ..kept() };
    let page = page(&kepts(vec![kept(), paper], vec![("x/broken.json", KeptError::Damaged("EOF".to_owned()))]));
    let document = parse(&page.html);
    assert_self_contained(&document);
    let words = words_of(&document);
    for expected in [
        "gtp-2004 Figure 9 GTP: what a slow sender leaves is found and used",
        "simulated, control paper",
        "emulated (not run)",
        "Command inhaul lab run gtp-2004/fig9",
        "Changed settings duration=500 ms, measure.from=300 ms",
        "commit 0123456789ab",
        "A processor, 2 cores",
        "all 2 runs are valid",
        "x/broken.json is damaged: EOF",
        "inhaul lab run gtp-2004/fig7 --keep results",
    ] {
        assert!(words.contains(expected), "'{expected}' is not in: {words}");
    }
    // Two figures of each of two results, and the letters of all.
    let svg = |node: &Node<'_, '_>| node.has_tag_name(("http://www.w3.org/2000/svg", "svg"));
    assert_eq!(document.descendants().filter(svg).count(), 5);
    // Results with changed settings do not count.
    let not_run = experiments().unwrap().len() - 1;
    assert_eq!(page.counts, Counts { passed: 1, not_run, ..Counts::default() });
}

#[test]
fn site_has_an_index_and_a_page_for_each_item() {
    let hostile = Kept { experiment: "../a b/../c".to_owned(), ..kept() };
    let site = site(&kepts(vec![kept(), hostile], Vec::new()), Path::new("dir")).unwrap();
    let files: BTreeSet<&str> = site.pages.iter().map(|page| page.file.as_str()).collect();
    assert_eq!(files.len(), experiments().unwrap().len() + 2, "an index, and an unknown experiment: {files:?}");
    assert!(files.contains("gtp-2004/fig9.html") && files.contains("_2e_2e/a_20b_2f_2e_2e_2fc.html"), "{files:?}");
    for page in &site.pages {
        let document = parse(&page.html);
        let is_index = page.file == "index.html";
        assert_links(&document, &|link| files.contains(if is_index { link } else { link.trim_start_matches("../") }));
        assert_eq!(elements(&document, "h1").count(), 1, "{}", page.file);
    }
    let page = |file: &str| site.pages.iter().find(|page| page.file == file).unwrap();
    let words = words_of(&parse(&page("gtp-2004/fig9.html").html));
    for expected in
        ["How it is judged", "What came out", "Command inhaul lab run gtp-2004/fig9", "Before: gtp-2004/fig8"]
    {
        assert!(words.contains(expected), "'{expected}' is not in: {words}");
    }
    assert!(words_of(&parse(&page("index.html").html)).contains("Choices for all experiments"));
}

#[test]
fn report_of_nothing_lists_every_item_as_not_run() {
    let page = page(&Kepts::default());
    let document = parse(&page.html);
    assert_self_contained(&document);
    assert_eq!(page.counts, Counts { not_run: experiments().unwrap().len(), ..Counts::default() });
    let names: Vec<String> = elements(&document, "a").map(text).collect();
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    for pair in
        ["gtp-2004/fig7", "gtp-2004/fig10", "gtp-2004/table2", "fhstcp-2005/fig3", "beyond/random-loss"].windows(2)
    {
        assert!(place(pair[0]) < place(pair[1]), "{pair:?}");
    }
}

#[test]
fn report_counts_the_worst_of_an_items_results() {
    let mut failed = Kept { set: Vec::new(), ..kept() };
    failed.checks[0].passed = false;
    let invalid = Kept { set: Vec::new(), control: "paper".to_owned(), valid: false, ..kept() };
    let changed = Kept { experiment: "gtp-2004/fig7".to_owned(), ..failed.clone() };
    let changed = Kept { set: vec!["duration=1 s".to_owned()], ..changed };
    let counts = |results| page(&kepts(results, Vec::new())).counts;
    assert_eq!(counts(vec![failed.clone()]).failed, 1);
    let both = counts(vec![failed, invalid, changed]);
    assert_eq!((both.failed, both.invalid, both.changed), (0, 1, 1));
}

#[test]
fn report_draws_nothing_of_a_result_that_proves_nothing() {
    let invalid = Kept { backend: "emu".to_owned(), valid: false, ..kept() };
    let page = page(&kepts(vec![kept(), invalid], Vec::new()));
    let words = words_of(&parse(&page.html));
    assert!(
        words.contains("emulated (not valid)") && words.contains("emulated: not drawn, as the result is not valid")
    );
    assert_eq!(page.html.matches("<figure>").count(), 2);
}

#[test]
fn report_says_what_is_known_of_a_check_that_fails() {
    let experiments = experiments().unwrap();
    let known = |experiment: &Experiment| prose::section(experiment.readme, "What did not come out").is_some();
    let mut kept = kept();
    for experiment in [experiments.iter().find(|e| known(e)).unwrap(), experiments.iter().find(|e| !known(e)).unwrap()]
    {
        kept.experiment.clone_from(&experiment.name);
        kept.checks.iter_mut().for_each(|check| check.passed = true);
        let heading = "<h4>What did not come out</h4>";
        assert!(!page(&kepts(vec![kept.clone()], Vec::new())).html.contains(heading));
        kept.checks[0].passed = false;
        let html = page(&kepts(vec![kept.clone()], Vec::new())).html;
        assert!(html.contains(heading));
        assert_eq!(html.contains("README says nothing of it"), !known(experiment));
    }
}

#[test]
fn every_row_of_a_table_is_as_wide_as_its_heading() {
    let emulated = Kept { backend: "emu".to_owned(), ..kept() };
    let page = page(&kepts(vec![emulated, Kept { experiment: "a/b".to_owned(), ..kept() }], Vec::new()));
    let document = parse(&page.html);
    for table in elements(&document, "table") {
        let width = |row: Node<'_, '_>| -> usize {
            let cells = row.children().filter(Node::is_element);
            cells.map(|cell| cell.attribute("colspan").map_or(1, |span| span.parse().unwrap())).sum()
        };
        let rows = table.descendants().filter(|node| node.tag_name().name() == "tr");
        let widths: BTreeSet<usize> = rows.map(width).collect();
        assert_eq!(widths.len(), 1, "{widths:?} in {}", text(table));
        assert!(table.children().any(|node| node.tag_name().name() == "caption") || table.attribute("class").is_none());
    }
}

#[test]
fn texts_of_results_never_become_markup() {
    // Of an unknown experiment; then of a known one, so that its figures are drawn.
    for keep in [&["unit"][..], &["unit", "experiment", "case", "quantity"]] {
        let mut value = serde_json::from_str(&kept().to_json()).unwrap();
        replace_texts(&mut value, "", keep);
        let hostile = Kept::from_json(&value.to_string()).unwrap();
        let page = page(&kepts(vec![hostile], vec![(HOSTILE, KeptError::Damaged(HOSTILE.to_owned()))]));
        let document = parse(&page.html);
        assert_self_contained(&document);
        assert!(words_of(&document).contains("</td><script>alert(1)</script>"), "it is shown as the text that it is");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// For all numbers in a file: it is refused, or the page is made, in bounded time.
    #[test]
    fn numbers_of_results_are_refused_or_drawn(
        duration_s in prop_oneof![Just(0.0), Just(1e-300), Just(1e9), 0.0..100.0f64],
        start_s in prop_oneof![Just(0.0), 0.0..100.0f64],
        stop_s in prop_oneof![Just(0.0), Just(1e9), 0.0..100.0f64],
        points in prop::collection::vec((0.0..1e9f64, prop_oneof![Just(0.0), Just(1e15), 0.0..1e10f64]), 0..5),
        ideal_bps in prop_oneof![Just(0.0), Just(1e15), 0.0..1e10f64],
    ) {
        let mut value: serde_json::Value = serde_json::from_str(&kept().to_json()).unwrap();
        let mut points = points;
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        for run in value["runs"].as_array_mut().unwrap() {
            run["duration_s"] = duration_s.into();
            let flow = &mut run["flows"][0];
            (flow["start_s"], flow["stop_s"]) = (start_s.into(), stop_s.into());
            flow["series"] = points.iter().map(|(t_s, rate)| serde_json::json!({"t_s": t_s, "goodput_bps": rate})).collect();
            run["epochs"][0]["ideal_bps"][0] = ideal_bps.into();
        }
        if let Ok(kept) = Kept::from_json(&value.to_string()) {
            let page = page(&kepts(vec![kept], Vec::new()));
            assert_self_contained(&parse(&page.html));
        }
    }
}
