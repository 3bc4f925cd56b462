//! How long files and functions may be.
//!
//! Longer ones are listed with their length. A listed file or function may become shorter, and then its
//! row has to follow. Nothing may grow, and nothing may join the list. So the limits only tighten.

use std::collections::BTreeMap;

use crate::source::{Source, line_of};

/// Most lines of a file.
pub const FILE_LINES_MAX: usize = 600;
/// Most lines of a function, from `fn` to its closing brace. Comments and blank lines count.
pub const FUNCTION_LINES_MAX: usize = 60;

/// The parts of the file `path` that are too long, with their length in lines: the file under its path, a function under `PATH NAME`
/// or `PATH TYPE::NAME`. Of functions with one name the longest counts.
pub fn too_long(path: &str, text: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        found.insert(path.to_owned(), lines);
    }
    for (name, lines) in functions(&Source::parse(text)) {
        if lines > FUNCTION_LINES_MAX {
            let longest = found.entry(format!("{path} {name}")).or_default();
            *longest = lines.max(*longest);
        }
    }
    found
}

/// Faults of the list: entries that it lacks, entries that have grown, and rows that are outdated.
pub fn violations(found: &BTreeMap<String, usize>, listed: &[(&str, usize)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, &lines) in found {
        let limit = if name.contains(' ') { FUNCTION_LINES_MAX } else { FILE_LINES_MAX };
        match listed.iter().find(|(listed, _)| listed == name).map(|(_, lines)| *lines) {
            None => wrong.push(format!("{name}: {lines} lines; at most {limit}: split it")),
            Some(most) if lines > most => wrong.push(format!("{name}: {lines} lines; it had {most}, and may not grow")),
            Some(most) if lines < most => wrong.push(format!("{name}: only {lines} lines: lower {most} in its row")),
            Some(_) => {}
        }
    }
    let is_gone = |(name, _): &&(&str, usize)| !found.contains_key(*name);
    wrong.extend(
        listed.iter().filter(is_gone).map(|(name, _)| format!("{name}: not too long any more: remove its row")),
    );
    wrong
}

/// The list in the source `table`, tightened to the lengths found: a row is a line `("NAME", LINES),`. Nothing is added, and
/// no number raised.
pub fn tightened(table: &str, found: &BTreeMap<String, usize>) -> String {
    let row = |line: &str| {
        let (name, lines) = line.trim().strip_prefix("(\"")?.strip_suffix("),")?.split_once("\", ")?;
        Some((name.to_owned(), lines.parse::<usize>().ok()?))
    };
    let mut kept = String::new();
    for line in table.lines() {
        match row(line).map(|(name, most)| (found.get(&name), name, most)) {
            Some((None, ..)) => continue,
            Some((Some(&lines), name, most)) => kept.push_str(&format!("    (\"{name}\", {}),", lines.min(most))),
            None => kept.push_str(line),
        }
        kept.push('\n');
    }
    kept
}

/// Every function that has a body, by its name and the type that it is implemented for, and its length in lines.
fn functions(source: &Source) -> Vec<(String, usize)> {
    let code = &source.code;
    let blocks = impl_blocks(source);
    let function = |start: usize| {
        let name = Some(word(code[start + 2..].trim_start())).filter(|name| !name.is_empty())?;
        let body = body_at(code, start)?;
        let end = start + body + block_len(&code[start + body..]);
        let lines = 1 + line_of(code, end - 1) - line_of(code, start);
        let of = blocks.iter().rfind(|(from, to, _)| (*from..*to).contains(&start)).map(|(.., of)| *of);
        Some((of.map_or_else(|| name.to_owned(), |of| format!("{of}::{name}")), lines))
    };
    source.identifiers("fn").into_iter().filter_map(function).collect()
}

/// The blocks of `impl`: where each begins and ends, and its type.
fn impl_blocks(source: &Source) -> Vec<(usize, usize, &str)> {
    let code = &source.code;
    let block = |start: usize| {
        // In the type of an argument or result, something else stands before.
        let before = code[..start].trim_end();
        let is_item = before.is_empty() || before.ends_with(['{', '}', ';', ']']) || before.ends_with("unsafe");
        let open = start + code[start..].find('{').filter(|_| is_item)?;
        let head = without_generics(code[start + 4..open].trim_start());
        let of = head.rsplit_once(" for ").map_or(head, |(_, of)| of).trim_start();
        let path = &of[..of.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).unwrap_or(of.len())];
        Some((start, open + block_len(&code[open..]), path.rsplit("::").next().unwrap_or(path)))
    };
    source.identifiers("impl").into_iter().filter_map(block).collect()
}

/// The text behind the generic parameters that it begins with, if it does.
fn without_generics(text: &str) -> &str {
    if !text.starts_with('<') {
        return text;
    }
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    text
}

/// Where the body of the function begins whose `fn` stands at `start`, counted from there; `None`: it has none.
fn body_at(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in code[start..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            '{' if depth == 0 => return Some(at),
            ';' | '}' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The length of the block that the text begins with.
fn block_len(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The word that the text begins with.
fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, usize)> {
        functions(&Source::parse(text))
    }

    #[test]
    fn functions_reach_from_fn_to_the_closing_brace() {
        let text = "/// Said.\n#[inline]\npub fn a(x: [u8; 2]) -> Vec<u8> {\n    // }\n\n    { \"}\" }\n}\nfn b() {}\n";
        assert_eq!(found(text), [("a".to_owned(), 5), ("b".to_owned(), 1)]);
        assert_eq!(found("trait T { fn a(&self); }\ntype F = fn(u8) -> u8;\nstruct S { f: fn() }"), []);
    }

    #[test]
    fn functions_are_named_by_their_types() {
        let text = "impl<'a, F: Fn(u8) -> u8> a::Of<'a, F> { fn x() {} }\nimpl fmt::Display for B {\nfn x(f: impl Fn()) {\nfn y() {}\n}\n}\nfn z() {}";
        let names: Vec<String> = found(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["Of::x", "B::x", "B::y", "z"]);
    }

    #[test]
    fn too_long_counts_lines_of_files_and_functions() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "\n".repeat(lines - 2));
        assert_eq!(too_long("a.rs", &function(60)), BTreeMap::new());
        assert_eq!(too_long("a.rs", &function(61)), BTreeMap::from([("a.rs f".to_owned(), 61)]));
        assert_eq!(too_long("a.rs", &"\n".repeat(601)), BTreeMap::from([("a.rs".to_owned(), 601)]));
    }

    #[test]
    fn violations_let_lengths_fall_only() {
        let found = BTreeMap::from([("a.rs".to_owned(), 700), ("a.rs f".to_owned(), 70)]);
        assert_eq!(violations(&found, &[("a.rs", 700), ("a.rs f", 70)]), [""; 0]);
        assert_eq!(
            violations(&found, &[("a.rs", 699), ("a.rs f", 71), ("b.rs", 650)]),
            [
                "a.rs: 700 lines; it had 699, and may not grow",
                "a.rs f: only 70 lines: lower 71 in its row",
                "b.rs: not too long any more: remove its row"
            ]
        );
        assert_eq!(
            violations(&found, &[]),
            ["a.rs: 700 lines; at most 600: split it", "a.rs f: 70 lines; at most 60: split it"]
        );
    }

    #[test]
    fn tightened_lowers_and_removes_rows_only() {
        let found = BTreeMap::from([("a.rs".to_owned(), 700), ("b.rs f".to_owned(), 70), ("c.rs".to_owned(), 800)]);
        let table = "const T: X = &[\n    (\"a.rs\", 650),\n    (\"b.rs f\", 90),\n    (\"d.rs\", 650),\n];\n";
        let expected = "const T: X = &[\n    (\"a.rs\", 650),\n    (\"b.rs f\", 70),\n];\n";
        assert_eq!(tightened(table, &found), expected);
    }
}
