//! Figures in documents. Behind a text stands, in a comment, where its figures come from. A comment is about all text
//! before it, up to the heading or comment before.
//!
//! ```text
//! <!-- figures bench/results/2026-01-02-many.json
//! 475 Mbit/s = row.goodput_bps / 1e6
//! 0.7 to 1.2 times = min(rows.ratio); max(rows.ratio)
//! -->
//! <!-- table results/gtp-2004/table4/sim.json
//! row GTP = runs[case=GTP]
//! column far 1 = flows[name=far1].measured_bps / 1e6
//! column published = given
//! -->
//! <!-- given: 58 ms; 1 Gbit/s -->
//! <!-- unkept (taken from a profile): 9 % -->
//! ```
//!
//! `figures` and `table` compare: each number must equal its expression, rounded as it is written. `given` has
//! unmeasured numbers: settings, limits, values that papers printed. `unkept` has measured numbers whose results are
//! not kept, and the reason. `given: table` and `unkept (WHY): table` are about the table before. A figure that no
//! comment has is a fault.

use serde_json::Value;

use super::expression::{evaluate, select};
use super::markdown::{Kind, Part, parse, prose};
use super::results::Results;

/// How the fault ends of a figure that no comment has.
pub const UNACCOUNTED: &str = "is neither compared with a kept result nor given";

/// The faults of a document's figures, as `LINE: WHAT`.
pub fn violations(document: &str, results: &Results) -> Vec<String> {
    let parts = parse(document);
    let mut found = Vec::new();
    let mut scope = Scope::default();
    for part in &parts {
        match &part.kind {
            Kind::Heading(_) => scope.finish(&mut found),
            Kind::Comment(text) if is_annotation(text) => {
                scope.is_annotated = true;
                let wrong = scope.annotate(text, results);
                found.extend(wrong.into_iter().map(|what| format!("{}: {what}", part.line)));
            }
            Kind::Text(_) | Kind::Table(_) => {
                if scope.is_annotated {
                    scope.finish(&mut found);
                }
                scope.add(part);
            }
            Kind::Comment(_) | Kind::Code(_) => {}
        }
    }
    scope.finish(&mut found);
    found
}

fn is_annotation(comment: &str) -> bool {
    ["figures ", "table ", "given", "unkept"].iter().any(|word| comment.starts_with(word))
}

/// Text that is annotated together.
#[derive(Default)]
struct Scope {
    is_annotated: bool,
    pieces: Vec<Piece>,
}

/// A paragraph, or a cell of a table.
struct Piece {
    line: usize,
    text: String,
    /// Of a cell: its table, row and column.
    cell: Option<(usize, usize, usize)>,
    /// The accounted places, in bytes.
    covered: Vec<(usize, usize)>,
}

impl Scope {
    fn add(&mut self, part: &Part) {
        let mut push = |line, text: &str, cell| {
            self.pieces.push(Piece { line, text: prose(text), cell, covered: Vec::new() });
        };
        match &part.kind {
            Kind::Text(text) => push(part.line, text, None),
            Kind::Table(rows) => {
                for (row, cells) in rows.iter().enumerate() {
                    // Between the heads and the rows is a line.
                    let line = part.line + row + usize::from(row > 0);
                    for (column, text) in cells.iter().enumerate() {
                        push(line, text, Some((part.line, row, column)));
                    }
                }
            }
            _ => {}
        }
    }

    /// Ends the scope: every figure must be accounted for.
    fn finish(&mut self, found: &mut Vec<String>) {
        for piece in self.pieces.drain(..) {
            let figures = match piece.cell {
                Some((_, row, _)) if row > 0 && is_number(&piece.text) => vec![(0, piece.text.len())],
                _ => figures(&piece.text),
            };
            for (from, to) in figures {
                if !piece.covered.iter().any(|(start, end)| *start <= from && to <= *end) {
                    let figure = &piece.text[from..to];
                    found.push(format!("{}: '{figure}' {UNACCOUNTED}", piece.line));
                }
            }
        }
        self.is_annotated = false;
    }

    fn annotate(&mut self, comment: &str, results: &Results) -> Vec<String> {
        let (head, body) = comment.split_once('\n').unwrap_or((comment, ""));
        if let Some(path) = head.strip_prefix("figures ") {
            return self.compare(path.trim(), body, results);
        }
        if let Some(path) = head.strip_prefix("table ") {
            return self.compare_table(path.trim(), body, results);
        }
        let Some((reason, texts)) = comment.split_once(':') else {
            return vec!["a ':' is missing".to_owned()];
        };
        if reason != "given" && !(reason.starts_with("unkept (") && reason.ends_with(')')) {
            return vec![format!("'{reason}' says neither 'given' nor 'unkept (WHY)'")];
        }
        let texts = texts.split(';').map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        texts.filter(|text| !text.is_empty()).flat_map(|text| self.cover(&text)).collect()
    }

    /// Takes a text for accounted for, wherever it stands.
    fn cover(&mut self, text: &str) -> Option<String> {
        let table = self.pieces.iter().rev().find_map(|piece| piece.cell).map(|(table, ..)| table);
        let mut is_there = false;
        for piece in &mut self.pieces {
            if text == "table" {
                if piece.cell.is_some_and(|(of, ..)| Some(of) == table) {
                    piece.covered.push((0, piece.text.len()));
                    is_there = true;
                }
                continue;
            }
            let places: Vec<_> = piece.text.match_indices(text).map(|(at, _)| (at, at + text.len())).collect();
            for (start, end) in places {
                if is_apart(&piece.text, start, end) {
                    piece.covered.push((start, end));
                    is_there = true;
                }
            }
        }
        (!is_there).then(|| format!("'{text}' is not in the text above"))
    }

    fn compare(&mut self, path: &str, body: &str, results: &Results) -> Vec<String> {
        let kept = match results.get(path) {
            Ok(kept) => kept,
            Err(why) => return vec![why],
        };
        let mut wrong = Vec::new();
        for line in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((text, expressions)) = line.split_once(" = ") else {
                wrong.push(format!("'{line}' has no ' = '"));
                continue;
            };
            wrong.extend(self.cover(text.trim()));
            wrong.extend(differs(text, expressions, &[&*kept]).map(|what| format!("'{}': {what}", text.trim())));
        }
        wrong
    }

    fn compare_table(&mut self, path: &str, body: &str, results: &Results) -> Vec<String> {
        let kept = match results.get(path) {
            Ok(kept) => kept,
            Err(why) => return vec![why],
        };
        let Some(table) = self.pieces.iter().rev().find_map(|piece| piece.cell).map(|(table, ..)| table) else {
            return vec!["there is no table above".to_owned()];
        };
        let mut wrong = Vec::new();
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for line in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let named = |kind: &str| line.strip_prefix(kind)?.split_once(" = ");
            match (named("row "), named("column ")) {
                (Some(row), _) => rows.push(row),
                (_, Some(column)) => columns.push(column),
                _ => wrong.push(format!("'{line}' is neither 'row NAME = ...' nor 'column NAME = ...'")),
            }
        }
        for (name, of_column) in columns {
            let Some(column) = self.place(table, name, true) else {
                wrong.push(format!("the table has no column '{name}'"));
                continue;
            };
            if of_column.trim() == "given" {
                let cells = self
                    .pieces
                    .iter_mut()
                    .filter(|piece| piece.cell.is_some_and(|(of, row, at)| of == table && row > 0 && at == column));
                cells.for_each(|piece| piece.covered.push((0, piece.text.len())));
                continue;
            }
            for (row_name, of_row) in &rows {
                let Some(row) = self.place(table, row_name, false) else {
                    wrong.push(format!("the table has no row '{row_name}'"));
                    continue;
                };
                let place = Some((table, row, column));
                let Some(piece) = self.pieces.iter_mut().find(|piece| piece.cell == place) else { continue };
                if !piece.text.contains(|c: char| c.is_ascii_digit()) {
                    continue;
                }
                let differs = select(of_row, &[&*kept]).map(|of_row| differs(&piece.text, of_column, &of_row));
                let differs = differs.unwrap_or_else(Some);
                wrong.extend(differs.map(|what| format!("row '{row_name}', column '{name}': {what}")));
                piece.covered.push((0, piece.text.len()));
            }
        }
        wrong
    }

    /// The number of the column, or row, of that name.
    fn place(&self, table: usize, name: &str, column: bool) -> Option<usize> {
        self.pieces.iter().find_map(|piece| {
            let (of, row, at) = piece.cell?;
            let is_head = of == table && if column { row == 0 } else { row > 0 && at == 0 };
            let text = piece.text.replace(['*', '_'], "");
            (is_head && text.trim() == name.trim()).then_some(if column { at } else { row })
        })
    }
}

/// The differences between the numbers of a text and its expressions, each rounded as it is written.
fn differs(text: &str, expressions: &str, root: &[&Value]) -> Option<String> {
    let numbers: Vec<&str> = numbers(text).into_iter().map(|(from, to)| &text[from..to]).collect();
    let expressions: Vec<&str> = expressions.split(';').collect();
    if numbers.len() != expressions.len() {
        return Some(format!("{} numbers have {} expressions", numbers.len(), expressions.len()));
    }
    numbers.into_iter().zip(expressions).find_map(|(number, expression)| {
        if evaluate(expression, &[&Value::Null]).is_ok() {
            return Some(format!("'{}' has nothing of a kept result", expression.trim()));
        }
        let value = match evaluate(expression, root) {
            Ok(values) if values.len() == 1 => values[0],
            Ok(values) => return Some(format!("'{}' gives {} values", expression.trim(), values.len())),
            Err(why) => return Some(why),
        };
        let written = number.replace(',', "");
        let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let expected = format!("{value:.decimals$}");
        let expected =
            if expected.trim_start_matches(['-', '0', '.']).is_empty() { expected.replace('-', "") } else { expected };
        (expected != written).then(|| format!("{number} is written, {expected} is kept"))
    })
}

/// Units of measurements; longer ones before their own prefixes.
const UNITS: &[&str] = &[
    "Tbit/s", "Gbit/s", "Mbit/s", "kbit/s", "bit/s", "GiB", "MiB", "KiB", "GB", "MB", "kB", "ms", "us", "ns", "s", "%",
    "RTTs", "RTT", "times",
];
/// Text between numbers that share one unit.
const BETWEEN: &[&str] = &[" to ", " and ", " or ", ", ", "-", " +- ", " and at most "];

/// Where numbers with units are, units included.
fn figures(text: &str) -> Vec<(usize, usize)> {
    let numbers = numbers(text);
    let mut figures: Vec<(usize, usize)> = Vec::new();
    let mut next: Option<usize> = None;
    for (from, to) in numbers.into_iter().rev() {
        let rest = text[to..].strip_prefix(' ').unwrap_or(&text[to..]);
        let unit = UNITS.iter().find(|unit| {
            rest.strip_prefix(**unit).is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '/'))
        });
        let is_first_of_some = next.is_some_and(|next| BETWEEN.contains(&&text[to..next]));
        let end = unit.map(|unit| text.len() - rest.len() + unit.len());
        next = if end.is_some() || is_first_of_some { Some(from) } else { None };
        figures.extend(next.map(|from| (from, end.unwrap_or(to))));
    }
    figures.reverse();
    figures
}

/// Places of numbers. Digits of a name, a date or a version are none.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(|c: char| c.is_ascii_digit()) {
        let digits = at + offset;
        let is_negative = text[..digits].ends_with('-')
            && !text[..digits - 1].ends_with(|c: char| c.is_alphanumeric() || c == '+' || c == '-');
        let from = digits - usize::from(is_negative);
        let mut to = digits;
        for (place, c) in text[digits..].char_indices() {
            let next = text[digits + place + c.len_utf8()..].chars().next();
            let goes_on = c.is_ascii_digit() || (matches!(c, '.' | ',') && next.is_some_and(|c| c.is_ascii_digit()));
            if !goes_on {
                break;
            }
            to = digits + place + c.len_utf8();
        }
        if !text[..from].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            found.push((from, to));
        }
        at = to.max(digits + 1);
    }
    found
}

/// Whether a cell is a number, or several, with or without units.
fn is_number(cell: &str) -> bool {
    cell.contains(|c: char| c.is_ascii_digit()) && !cell.contains(|c: char| c.is_alphabetic())
}

/// Whether a text stands by itself: it does not begin or end within a number or a word.
fn is_apart(text: &str, start: usize, end: usize) -> bool {
    let joins = |a: Option<char>, b: Option<char>| {
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        is_word(a) && is_word(b)
    };
    let first = text[start..end].chars().next();
    let last = text[start..end].chars().next_back();
    let after = text[end..].chars().next();
    let number_goes_on = last.is_some_and(|c| c.is_ascii_digit())
        && matches!(after, Some('.' | ','))
        && text[end + 1..].starts_with(|c: char| c.is_ascii_digit());
    let before_number = first.is_some_and(|c| c.is_ascii_digit())
        && text[..start].ends_with(['.', ','])
        && text[..start - 1].ends_with(|c: char| c.is_ascii_digit());
    !joins(text[..start].chars().next_back(), first) && !joins(last, after) && !number_goes_on && !before_number
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const KEPT: &str = r#"{"rows": [
        {"who": "a", "seconds": 1.26, "bps": 475471634},
        {"who": "b", "seconds": 16.04, "bps": 1000000, "valid": false},
        {"who": "c", "seconds": 2.5, "bps": 480000000}
    ]}"#;

    fn wrong(document: &str) -> Vec<String> {
        let files = [("k/2026-01-02-x.json", KEPT), ("k/2026-01-01-x.json", KEPT), ("k/2026-01-01-y.json", "{}")];
        let files: BTreeMap<_, _> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        violations(document, &Results::new(files, 1))
    }

    fn of_run(text: &str, lines: &str) -> Vec<String> {
        wrong(&format!("{text}\n\n<!-- figures k/2026-01-02-x.json\n{lines}\n-->\n"))
    }

    #[test]
    fn a_figure_is_what_was_kept() {
        assert_eq!(of_run("It takes 1.3 s.", "1.3 s = rows[who=a].seconds"), [""; 0]);
        assert_eq!(of_run("It has\n475 Mbit/s.", "475 Mbit/s = rows[who=a].bps / 1e6"), [""; 0]);
        let range = "1.3 to 2.5 s = rows[who=a].seconds; rows[who=c].seconds";
        assert_eq!(of_run("It takes 1.3 to 2.5 s.", range), [""; 0]);
    }

    #[test]
    fn a_changed_figure_fails() {
        assert_eq!(
            of_run("It takes 1.2 s.", "1.2 s = rows[who=a].seconds"),
            ["3: '1.2 s': 1.2 is written, 1.3 is kept"]
        );
        // The text was changed, and its comment was not.
        let found = of_run("It takes 1.2 s.", "1.3 s = rows[who=a].seconds");
        assert_eq!(found[0], "3: '1.3 s' is not in the text above");
        assert_eq!(found[1], "1: '1.2 s' is neither compared with a kept result nor given");
    }

    #[test]
    fn a_figure_beside_itself_is_not_compared() {
        let found = of_run("It takes 1.3 s.", "1.3 s = 1.3");
        assert_eq!(found, ["3: '1.3 s': '1.3' has nothing of a kept result"]);
    }

    #[test]
    fn an_invalid_row_fails() {
        let found = of_run("It takes 16 s.", "16 s = rows[who=b].seconds");
        assert!(found[0].contains("marked as invalid"), "{found:?}");
    }

    #[test]
    fn a_stale_run_fails_and_so_does_one_that_is_not_kept() {
        let comment = |file: &str| format!("<!-- figures k/{file}\n1.3 s = rows[who=a].seconds\n-->");
        let found = wrong(&format!("It takes 1.3 s.\n\n{}", comment("2026-01-01-x.json")));
        assert!(found[0].contains("outdated: k/2026-01-02-x.json"), "{found:?}");
        let found = wrong(&format!("It takes 1.3 s.\n\n{}", comment("none.json")));
        assert!(found[0].contains("no kept result"), "{found:?}");
    }

    #[test]
    fn a_figure_needs_a_source_or_a_reason() {
        assert_eq!(wrong("It takes 7 s."), ["1: '7 s' is neither compared with a kept result nor given"]);
        assert_eq!(wrong("It takes 7 s, `8 s`.\n\n<!-- given: 7 s -->"), [""; 0]);
        assert_eq!(wrong("It takes 7 s.\n\n<!-- unkept (a look): 7 s -->"), [""; 0]);
        assert_eq!(wrong("It takes 7 s.\n\n<!-- unkept: 7 s -->").len(), 2);
        assert_eq!(wrong("It takes 17 s.\n\n<!-- given: 7 s -->").len(), 2);
        // A comment is about the text before it, up to the previous comment.
        assert_eq!(wrong("a 7 s.\n\n<!-- given: 7 s -->\n\nb 7 s.").len(), 1);
        assert_eq!(wrong("a 7 s.\n\n# b\n\nb 7 s.\n\n<!-- given: 7 s -->").len(), 1);
        assert_eq!(wrong("Nothing is measured in version 7, or on 2026-11-24.\n\n    sleep 7 s"), [""; 0]);
    }

    #[test]
    fn tables_are_compared_cell_by_cell() {
        let table = "| who | time, s | rate |\n|---|---|---|\n| **a** | 1.3 | 475 Mbit/s |\n| c | 2.5 | - |\n";
        let comment =
            |lines: &str| format!("{table}\n<!-- table k/2026-01-02-x.json\nrow a = rows[who=a]\n{lines}\n-->");
        let rest = "row c = rows[who=c]\ncolumn time, s = seconds\ncolumn rate = bps / 1e6";
        assert_eq!(wrong(&comment(rest)), [""; 0]);
        assert_eq!(
            wrong(&comment(rest).replace("475 Mbit", "476 Mbit")),
            ["6: row 'a', column 'rate': 476 is written, 475 is kept"]
        );
        assert_eq!(
            wrong(&comment("column time, s = seconds\ncolumn rate = given")),
            ["4: '2.5' is neither compared with a kept result nor given"]
        );
        assert_eq!(wrong(&format!("{table}\n<!-- given: table -->")), [""; 0]);
        assert!(wrong(&comment("column speed = seconds"))[0].contains("no column 'speed'"));
    }

    #[test]
    fn figures_are_numbers_with_units_and_those_before_them() {
        let found = |text: &str| figures(text).into_iter().map(|(a, b)| text[a..b].to_owned()).collect::<Vec<_>>();
        assert_eq!(found("1.06 to 1.10 times, 3 files"), ["1.06", "1.10 times"]);
        assert_eq!(found("a 4, 7 and 1,024 ms; 5 sec; UDT 4; p99 x2s"), ["4", "7", "1,024 ms"]);
        assert_eq!(found("944 +- 12 Mbit/s, 3 %, -13 %"), ["944", "12 Mbit/s", "3 %", "-13 %"]);
    }
}
