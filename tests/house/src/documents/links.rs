//! What documents name is there: files, folders, and the headings that links lead to.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::{Kind, anchor, code_spans, parse};

/// Endings of files that are this repository's own wherever a document names one.
const OWN: &[&str] = &["rs", "md"];
/// Endings that make a word with a slash a path.
const FILES: &[&str] = &["rs", "md", "toml", "json", "py", "svg", "png", "cc", "csv", "ipynb", "yml"];

/// The files and folders of the repository, from its top, and its documents.
#[derive(Debug, Default)]
pub struct Repository {
    places: BTreeSet<String>,
    anchors: BTreeMap<String, BTreeSet<String>>,
}

impl Repository {
    /// The repository that has these files, and these documents with their texts.
    pub fn new<'t>(
        files: impl IntoIterator<Item = String>,
        documents: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Self {
        let mut places = BTreeSet::new();
        for file in files {
            let folders = file.match_indices('/').map(|(at, _)| file[..at].to_owned());
            places.extend(folders.collect::<Vec<_>>());
            places.insert(file);
        }
        let anchors = documents.into_iter().map(|(path, text)| (path.to_owned(), anchors(text))).collect();
        Self { places, anchors }
    }

    /// Missing targets of a document, as `LINE: WHAT`.
    pub fn violations(&self, document: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for part in parse(text) {
            let words: Vec<String> = match &part.kind {
                Kind::Heading(text) | Kind::Text(text) => {
                    found.extend(self.broken_links(document, text).map(|what| format!("{}: {what}", part.line)));
                    code_spans(text).flat_map(str::split_whitespace).map(str::to_owned).collect()
                }
                Kind::Table(rows) => {
                    let row = rows.iter().map(|cells| cells.join(" "));
                    let row = row.collect::<Vec<_>>().join(" ");
                    found.extend(self.broken_links(document, &row).map(|what| format!("{}: {what}", part.line)));
                    code_spans(&row).flat_map(str::split_whitespace).map(str::to_owned).collect()
                }
                Kind::Code(lines) => {
                    let words = lines.iter().flat_map(|line| line.split_whitespace());
                    // In a command only what begins like a path of the repository is one.
                    words.filter(|word| self.begins_here(word)).map(str::to_owned).collect()
                }
                Kind::Comment(_) => Vec::new(),
            };
            let missing = words.iter().filter_map(|word| path_of(word)).filter(|path| !self.has(document, path));
            found.extend(missing.map(|path| format!("{}: there is no {path}", part.line)));
        }
        found
    }

    fn begins_here(&self, word: &str) -> bool {
        word.split_once('/').is_some_and(|(first, _)| self.places.contains(first) && first != "results")
    }

    /// Whether a path begins with a crate's name and goes on as crates do.
    fn is_in_crate(&self, path: &str) -> bool {
        let mut parts = path.split('/');
        let is_crate = parts.next().is_some_and(|first| self.places.contains(&format!("crates/{first}")));
        is_crate && parts.next().is_some_and(|inside| ["src", "tests", "examples"].contains(&inside))
    }

    /// Whether the path is there: from the top, beside the document, or at the end of some path.
    fn has(&self, document: &str, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let is_checked = self.begins_here(path)
            || self.is_in_crate(path)
            || OWN.iter().any(|ending| path.rsplit_once('.').is_some_and(|(_, of)| of == *ending));
        if !is_checked {
            return true;
        }
        let beside = document.rsplit_once('/').and_then(|(folder, _)| joined(folder, path));
        let path = path.trim_start_matches("../").trim_start_matches("./");
        if path.contains('*') {
            return self.places.iter().any(|place| ends_like(place, path));
        }
        self.places.contains(path)
            || beside.is_some_and(|beside| self.places.contains(&beside))
            || self.places.iter().any(|place| place.strip_suffix(path).is_some_and(|before| before.ends_with('/')))
    }

    fn broken_links(&self, document: &str, text: &str) -> impl Iterator<Item = String> {
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut broken = Vec::new();
        for target in targets(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { Some(document.to_owned()) } else { joined(folder, path) };
            match path {
                Some(path) if self.places.contains(&path) || path == document || path.is_empty() => {
                    let anchors = self.anchors.get(&path);
                    if !heading.is_empty() && !anchors.is_some_and(|anchors| anchors.contains(heading)) {
                        broken.push(format!("the link to {target} leads to no heading"));
                    }
                }
                _ => broken.push(format!("the link to {target} leads nowhere")),
            }
        }
        broken.into_iter()
    }
}

/// Where links and pictures lead.
fn targets(text: &str) -> Vec<&str> {
    let outside = |before: &str| before.matches('`').count().is_multiple_of(2);
    let after = |start: &'static str, end: char| {
        text.match_indices(start).filter(move |(at, _)| outside(&text[..*at])).filter_map(move |(at, _)| {
            let rest = &text[at + start.len()..];
            Some(&rest[..rest.find(end)?])
        })
    };
    after("](", ')').chain(after("src=\"", '"')).collect()
}

/// A path from a folder; `None` if it leads out of the repository.
fn joined(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The path that a word of a document names, if it can be checked.
fn path_of(word: &str) -> Option<&str> {
    let word = word.trim_start_matches(['(', '[', '\'']).trim_end_matches([',', '.', ':', ';', ')', ']', '\'']);
    let word = word.split_once("::").map_or(word, |(path, _)| path);
    let word = word.split_once(':').filter(|(_, line)| line.parse::<u32>().is_ok()).map_or(word, |(path, _)| path);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-*+".contains(c);
    if !word.chars().all(is_plain) || word.starts_with(['/', '-', '.', '*']) && !word.starts_with("..") {
        return None;
    }
    // A part in capitals stands for a name: PAPER/ITEM.
    let is_placeholder = |part: &str| {
        let stem = part.split('.').next().unwrap_or(part);
        part.contains("DATE")
            || part.contains("NAME")
            || stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase() || c == '-' || c == '_')
    };
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_file = FILES.contains(&ending) && (word.contains('/') || OWN.contains(&ending));
    let stands_for_another = word.split('/').any(is_placeholder) && ending != "md";
    ((is_file || word.contains('/')) && !stands_for_another).then_some(word)
}

/// Whether a path ends like a pattern in which `*` stands for some text.
fn ends_like(place: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let pieces: Vec<&str> = pieces.collect();
    place.match_indices(first).any(|(at, _)| {
        if at > 0 && !place[..at].ends_with('/') {
            return false;
        }
        let mut rest = &place[at + first.len()..];
        pieces.iter().enumerate().all(|(number, piece)| {
            let is_last = number + 1 == pieces.len();
            let found = if is_last {
                rest.ends_with(piece).then_some(rest.len())
            } else {
                rest.find(piece).map(|at| at + piece.len())
            };
            rest = found.map_or(rest, |at| &rest[at..]);
            found.is_some()
        })
    })
}

fn anchors(text: &str) -> BTreeSet<String> {
    let parts = parse(text).into_iter();
    parts.filter_map(|part| if let Kind::Heading(text) = part.kind { Some(anchor(&text)) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(document: &str, text: &str) -> Vec<String> {
        let files = ["README.md", "docs/a.md", "crates/udp/src/seal/mod.rs", "bench/run", "bench/results/2026-x.json"];
        let documents = [("docs/a.md", "# One\n\n## Two, `three`\n"), (document, text)];
        Repository::new(files.map(str::to_owned), documents).violations(document, text)
    }

    #[test]
    fn paths_in_code_exist() {
        let good = "`udp/src/seal`, `seal/mod.rs:7`, `bench/run --table bench/results/2026-*.json`, `../README.md`, \
                    `PAPER/ITEM.json`, `/data/x.rs`, `inhaul://a/b`, `run-42/a.json`, `mod.rs`, `a/b`.";
        assert_eq!(wrong("docs/b.md", good), [""; 0]);
        for missing in
            ["udp/src/open", "seal/open.rs", "bench/fly", "bench/results/2025-*.json", "open.rs", "docs/c.md"]
        {
            assert_eq!(wrong("docs/b.md", &format!("a\n\n`{missing}`")), [format!("3: there is no {missing}")]);
        }
        assert_eq!(wrong("b.md", "    bench/run x\n    bench/fly x"), ["1: there is no bench/fly"]);
        assert_eq!(wrong("b.md", "| a |\n|---|\n| `seal/open.rs` |"), ["1: there is no seal/open.rs"]);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let good =
            "[a](docs/a.md) [b](docs/a.md#two-three) [c](https://x.y/z) <img src=\"bench/run\"> [d](#own)\n\n# Own";
        assert_eq!(wrong("b.md", good), [""; 0]);
        assert_eq!(wrong("docs/b.md", "[a](a.md) [b](../README.md)"), [""; 0]);
        assert_eq!(wrong("b.md", "[a](a.md)"), ["1: the link to a.md leads nowhere"]);
        assert_eq!(wrong("b.md", "[a](docs/a.md#four)"), ["1: the link to docs/a.md#four leads to no heading"]);
        assert_eq!(wrong("b.md", "[a](../../a.md)"), ["1: the link to ../../a.md leads nowhere"]);
    }
}
