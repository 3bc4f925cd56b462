//! A Markdown document as the checks see it: its parts, in order. It reads the Markdown of this repository, not all of
//! Markdown.

/// A part of a document.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of its first line, from 1.
    pub line: usize,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// A heading, without its signs.
    Heading(String),
    /// A paragraph or an item of a list, on one line.
    Text(String),
    /// A table: its heads, then its rows, cell by cell.
    Table(Vec<Vec<String>>),
    /// Lines of code, as they are.
    Code(Vec<String>),
    /// The text between `<!--` and `-->`.
    Comment(String),
}

/// Takes a document apart.
pub fn parse(text: &str) -> Vec<Part> {
    let lines: Vec<&str> = text.lines().collect();
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let (kind, len) = next(&lines[at..], parts.last());
        if let Some(kind) = kind {
            parts.push(Part { line: at + 1, kind });
        }
        at += len;
    }
    parts
}

/// The part at the start of the lines, and how many lines it has.
fn next(lines: &[&str], before: Option<&Part>) -> (Option<Kind>, usize) {
    let first = lines[0].trim();
    if first.is_empty() {
        return (None, 1);
    }
    if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| first.starts_with(fence)) {
        let len = lines[1..].iter().take_while(|line| !line.trim().starts_with(fence)).count();
        return (Some(Kind::Code(owned(&lines[1..1 + len]))), (len + 2).min(lines.len()));
    }
    if first.starts_with("<!--") {
        let len = 1 + lines.iter().position(|line| line.contains("-->")).unwrap_or(lines.len() - 1);
        let text = lines[..len].join("\n");
        let inside = text.trim().trim_start_matches("<!--");
        return (Some(Kind::Comment(inside.split("-->").next().unwrap_or(inside).trim().to_owned())), len);
    }
    let heading = first.trim_start_matches('#');
    if heading.len() < first.len() && heading.starts_with(' ') {
        return (Some(Kind::Heading(heading.trim().to_owned())), 1);
    }
    if first.starts_with('|') {
        let len = lines.iter().take_while(|line| line.trim().starts_with('|')).count();
        let is_rule = |line: &&&str| !line.trim().chars().all(|c| "|-: ".contains(c)) || !line.contains('-');
        let rows = lines[..len].iter().filter(is_rule).map(|line| cells(line.trim())).collect();
        return (Some(Kind::Table(rows)), len);
    }
    // Indented four columns, and not in an item of a list, whose lines are indented too.
    let in_item = matches!(before, Some(Part { kind: Kind::Text(text), .. }) if item(text).is_some());
    if lines[0].starts_with("    ") && !in_item {
        let is_code = |line: &&&str| line.starts_with("    ") || line.trim().is_empty();
        let len = lines.iter().take_while(is_code).count();
        return (Some(Kind::Code(owned(&lines[..len]))), len);
    }
    let goes_on = |line: &&&str| {
        let line = line.trim();
        !(line.is_empty()
            || line.starts_with(['|', '#'])
            || line.starts_with("```")
            || line.starts_with("<!--")
            || item(line).is_some())
    };
    let len = 1 + lines[1..].iter().take_while(goes_on).count();
    let words = lines[..len].iter().flat_map(|line| line.split_whitespace());
    (Some(Kind::Text(words.collect::<Vec<_>>().join(" "))), len)
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// The text of an item of a list.
fn item(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let after = if numbered.len() < line.len() { numbered.strip_prefix(". ") } else { None };
    after.or_else(|| line.strip_prefix("- ")).or_else(|| line.strip_prefix("* "))
}

/// The cells of a row of a table. A bar behind a backslash, or in code, separates none.
pub fn cells(row: &str) -> Vec<String> {
    let inside = row.trim().trim_start_matches('|');
    let (mut cells, mut cell, mut in_code, mut escaped) = (Vec::new(), String::new(), false, false);
    for c in inside.chars() {
        in_code ^= c == '`';
        if c == '|' && !escaped && !in_code {
            cells.push(cell.trim().to_owned());
            cell.clear();
        } else {
            cell.push(c);
        }
        escaped = c == '\\';
    }
    if !cell.trim().is_empty() {
        cells.push(cell.trim().to_owned());
    }
    cells
}

/// The text with blanks in place of code spans, and without the targets of links.
pub fn prose(text: &str) -> String {
    let mut prose = String::new();
    for (place, piece) in text.split('`').enumerate() {
        if place % 2 == 0 { prose.push_str(piece) } else { prose.push(' ') }
    }
    let mut rest = &prose[..];
    let mut without = String::new();
    while let Some((before, after)) = rest.split_once("](") {
        without.push_str(before);
        without.push(']');
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    without + rest
}

/// The code spans.
pub fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The anchor that a heading has: GitHub's rule.
pub fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_knows_each_kind_of_part() {
        let text = "# A *title*\n\nOne\ntwo `x`.\n- an item\n  goes on\n- another\n\n    code\n\n<!-- a\nb -->\n\
                    | a | b |\n|---|---:|\n| 1 | `x|y` |\n```sh\nrun\n```\nend";
        let kinds: Vec<Kind> = parse(text).into_iter().map(|part| part.kind).collect();
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let expected = [
            Kind::Heading("A *title*".into()),
            Kind::Text("One two `x`.".into()),
            Kind::Text("- an item goes on".into()),
            Kind::Text("- another".into()),
            Kind::Text("code".into()),
            Kind::Comment("a\nb".into()),
            Kind::Table(vec![row(&["a", "b"]), row(&["1", "`x|y`"])]),
            Kind::Code(vec!["run".into()]),
            Kind::Text("end".into()),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(
            parse("text\n\n    code\n    more\n")[1],
            Part { line: 3, kind: Kind::Code(vec!["    code".into(), "    more".into()]) }
        );
    }

    #[test]
    fn parse_survives_what_breaks_off() {
        for text in ["```", "<!-- open", "|", "- ", "#", "    ", "<!--"] {
            assert!(parse(text).len() <= 1, "{text}");
        }
    }

    #[test]
    fn prose_has_neither_code_nor_targets() {
        assert_eq!(prose("take `5 s` of [7 s](at/9.md) now"), "take   of [7 s] now");
    }

    #[test]
    fn anchors_are_github_s() {
        assert_eq!(anchor("2.1 Values of the shared rules"), "21-values-of-the-shared-rules");
        assert_eq!(anchor("A loaded `receiver`, now"), "a-loaded-receiver-now");
    }
}
