//! Hard words: phrases that a reader stumbles over. A table limits how often each may stand in each room, and the
//! limits only fall.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::source::words;

/// How often phrases stand in each room: by phrase, then by room. Zeros are left out.
pub type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// The room of a file, by its path from the top of the workspace: a crate, a folder, or `documents`. `None`: the file
/// is not checked.
pub fn room(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    let first = parts.next()?;
    let inner: Vec<&str> = parts.collect();
    let name = inner.last().copied().unwrap_or(first);
    let is_text = match name.rsplit_once('.') {
        Some((_, ending)) => ["rs", "md", "py", "pyi", "toml", "ipynb", "cc", "sh"].contains(&ending),
        None => true,
    };
    if !is_text || name.starts_with("LICENSE") || inner.contains(&"results") {
        return None;
    }
    match first {
        "crates" if inner.len() > 1 => Some(inner[0].to_owned()),
        "python" | "tests" | "bench" | "experiments" if !inner.is_empty() => Some(first.to_owned()),
        "docs" | "README.md" | "ARCHITECTURE.md" | "CONTRIBUTING.md" => Some("documents".to_owned()),
        _ => None,
    }
}

/// A text on one line, in small letters, without marks of comments and of continued strings: so a phrase is found over
/// the end of a line.
pub fn flat(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim().trim_end_matches('\\').trim_end();
        let marks = ["//!", "///", "//", "# ", "* "];
        marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line).trim_start()
    });
    lines.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// How often `phrase` stands in the [`flat`] text as whole words.
pub fn count(flat: &str, phrase: &str) -> usize {
    words(flat, phrase).len()
}

/// Reads a table: a line `PHRASE: ROOM N, ROOM N` for each phrase. A phrase without rooms is forbidden everywhere. `#`
/// begins a comment.
///
/// # Errors
///
/// The first malformed line.
pub fn parse(table: &str) -> Result<Counts, String> {
    let mut limits = Counts::new();
    for line in table.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let wrong = || format!("'{line}' is not 'PHRASE: ROOM N, ROOM N'");
        let (phrase, rooms) = line.split_once(':').ok_or_else(wrong)?;
        let mut of_phrase = BTreeMap::new();
        for entry in rooms.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (room, limit) = entry.split_once(' ').ok_or_else(wrong)?;
            of_phrase.insert(room.to_owned(), limit.parse().map_err(|_| wrong())?);
        }
        limits.insert(phrase.to_owned(), of_phrase);
    }
    Ok(limits)
}

/// Every count above its limit, and every limit above its count.
pub fn violations(counts: &Counts, limits: &Counts) -> Vec<String> {
    let mut found = Vec::new();
    for (phrase, limits) in limits {
        let none = BTreeMap::new();
        let counts = counts.get(phrase).unwrap_or(&none);
        let rooms: std::collections::BTreeSet<&String> = counts.keys().chain(limits.keys()).collect();
        for room in rooms {
            let count = counts.get(room).copied().unwrap_or(0);
            let limit = limits.get(room).copied().unwrap_or(0);
            if count > limit {
                found.push(format!("'{phrase}' stands {count} times in {room}; {limit} are allowed: write it plainly"));
            } else if count < limit {
                found.push(format!(
                    "'{phrase}' stands {count} times in {room}: lower the limit from {limit} to {count}"
                ));
            }
        }
    }
    found
}

/// The table with every limit lowered to its count. Comments and the order of lines stay.
pub fn lowered(table: &str, counts: &Counts) -> String {
    let limits = parse(table).unwrap_or_default();
    let mut text = String::new();
    for line in table.lines() {
        let phrase = line.split_once(':').map(|(phrase, _)| phrase).filter(|_| !line.starts_with('#'));
        let Some((phrase, limits)) = phrase.and_then(|phrase| limits.get_key_value(phrase)) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let count = |room: &String| counts.get(phrase).and_then(|rooms| rooms.get(room)).copied().unwrap_or(0);
        let kept = limits.iter().map(|(room, limit)| (room, (*limit).min(count(room)))).filter(|(_, limit)| *limit > 0);
        let kept: Vec<String> = kept.map(|(room, limit)| format!("{room} {limit}")).collect();
        let gap = if kept.is_empty() { "" } else { " " };
        let _ = writeln!(text, "{phrase}:{gap}{}", kept.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(phrase: &str, room: &str, count: usize) -> Counts {
        Counts::from([(phrase.to_owned(), BTreeMap::from([(room.to_owned(), count)]))])
    }

    #[test]
    fn room_is_a_crate_a_folder_or_documents() {
        assert_eq!(room("crates/base/src/lib.rs").as_deref(), Some("base"));
        assert_eq!(room("bench/trees").as_deref(), Some("bench"));
        assert_eq!(room("docs/serve.md").as_deref(), Some("documents"));
        assert_eq!(room("README.md").as_deref(), Some("documents"));
        assert_eq!(room("CHANGELOG.md"), None);
        assert_eq!(room("crates/base/LICENSE-MIT"), None);
        assert_eq!(room("docs/results/index.html"), None);
        assert_eq!(room("bench/results/x.json"), None);
    }

    #[test]
    fn phrases_are_found_as_words_and_over_the_ends_of_lines() {
        let text = "    /// All THE\n    /// same, then.\nlet all_the_same = \"all the \\\n    same\";";
        assert_eq!(count(&flat(text), "all the same"), 2);
        assert_eq!(count(&flat("what isn't"), "what is"), 0);
    }

    #[test]
    fn limits_hold_from_both_sides_and_only_fall() {
        let table = "# A comment.\nall the same: base 3, lab 1\nmost kindly:\n";
        let limits = parse(table).unwrap();
        assert!(violations(&counts("all the same", "base", 4), &limits)[0].contains("3 are allowed"));
        let below = violations(&counts("all the same", "base", 2), &limits);
        assert!(below[0].contains("from 3 to 2") && below[1].contains("from 1 to 0"), "{below:?}");
        assert!(
            violations(&counts("most kindly", "sim", 1), &limits).iter().any(|what| what.contains("0 are allowed"))
        );
        let higher = counts("all the same", "base", 9);
        assert_eq!(lowered(table, &higher), "# A comment.\nall the same: base 3\nmost kindly:\n");
        assert!(parse("all the same base 3").is_err());
    }
}
