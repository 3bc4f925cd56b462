//! Text in columns, for a terminal: every table that a command prints.
//!
//! Widths are in columns of a terminal: a Chinese character takes two, an accent written behind its letter takes none.

use std::fmt;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of the terminal, into which printed text should fit.
pub const TERMINAL_COLUMNS: usize = 80;

/// Between two columns.
const GAP: usize = 2;

/// Where a cell stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At its start: names.
    Left,
    /// At its start, and in the last column: words that go on below where they do not fit.
    Words,
    /// At its end: numbers.
    Right,
}

/// Rows of cells. Each column is as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Align>,
    indent: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of such columns, without a row.
    pub fn new(columns: impl IntoIterator<Item = Align>) -> Self {
        Self { columns: columns.into_iter().collect(), indent: 0, rows: Vec::new() }
    }

    /// All lines begin with this many blanks.
    #[must_use]
    pub fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// Adds a row. Cells that are not there are empty; those beyond the last column are left out.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().take(self.columns.len()).map(Into::into).collect());
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell: &String| width(cell)).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(widest).collect()
    }
}

impl fmt::Display for Table {
    /// The rows, each with a newline at its end. Where the last column has [`Align::Words`] that do not fit into
    /// [`TERMINAL_COLUMNS`], they go on below. Names are never cut or parted: they may be copied.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let last = self.columns.len().saturating_sub(1);
        let before_last = self.indent + widths.iter().take(last).map(|width| width + GAP).sum::<usize>();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (column, (width, align)) in widths.iter().zip(&self.columns).enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                if column > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                if column == last && *align == Align::Words {
                    let lines = wrapped(cell, TERMINAL_COLUMNS.saturating_sub(before_last));
                    line.push_str(&lines.join(&format!("\n{:before_last$}", "")));
                } else {
                    line.push_str(&padded(cell, *width, *align));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// How many columns of a terminal a text takes.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text with as many blanks as it needs to be so wide; if it is wider, the text.
pub fn padded(text: &str, columns: usize, align: Align) -> String {
    let blanks = " ".repeat(columns.saturating_sub(width(text)));
    match align {
        Align::Left | Align::Words => format!("{text}{blanks}"),
        Align::Right => format!("{blanks}{text}"),
    }
}

/// The text, cut to this many columns.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut start, mut left) = (String::new(), columns.saturating_sub(1));
    for c in text.chars() {
        let Some(rest) = left.checked_sub(UnicodeWidthChar::width(c).unwrap_or(0)) else { break };
        left = rest;
        start.push(c);
    }
    if columns > 0 {
        start.push('…');
    }
    start
}

/// Wraps the words of a text into lines of this many columns. A longer word has a line of its own and is not cut: a
/// user may want to copy it.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words(text) {
        let wide = width(word);
        if used > 0 && used + 1 + wide > columns {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
        }
        used += wide;
    }
    lines
}

/// The words of a text. A quoted text is one word: a command broken over two lines cannot be pasted.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let line = rest?;
        let inside = line.find(|c| c != '(').filter(|&at| line[at..].starts_with('\'')).map(|at| at + 1);
        let is_end = |at: usize| !line[at + 1..].starts_with(char::is_alphanumeric);
        let closed =
            inside.and_then(|from| line[from..].match_indices('\'').map(|(at, _)| from + at).find(|&at| is_end(at)));
        let from = closed.unwrap_or(0);
        let end = line[from..].find(' ').map(|at| from + at);
        rest = end.map(|end| &line[end + 1..]);
        Some(&line[..end.unwrap_or(line.len())])
    })
}

/// Cells of fixed widths and words behind them, which go on below where they began. For rows that are printed while
/// later ones are not known. A cell that is too wide for its column stands alone on its line.
pub fn hanging(cells: &[(&str, usize)], text: &str) -> String {
    let mut line = String::new();
    let (mut at, mut is_full) = (0, false);
    for (cell, columns) in cells {
        if is_full {
            line.push_str(&format!("\n{:at$}", ""));
        }
        line.push_str(&padded(cell, *columns, Align::Left));
        is_full = width(cell) >= *columns;
        at += columns;
    }
    let below = format!("\n{:at$}", "");
    if is_full {
        line.push_str(&below);
    }
    line + &wrapped(text, TERMINAL_COLUMNS.saturating_sub(at)).join(&below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them_on_a_terminal() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Left]).indented(1);
        table.row(["name", "rate", "note"]);
        table.row(["\u{6771}\u{4eac}", "9", ""]);
        table.row(["e\u{301}te\u{301}", "1000.0", "x"]);
        table.row(["longer than the others"]);
        let text = table.to_string();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                " name                      rate  note",
                " \u{6771}\u{4eac}                         9",
                " e\u{301}te\u{301}                     1000.0  x",
                " longer than the others",
            ]
        );
    }

    #[test]
    fn last_column_goes_on_below_and_the_table_fits() {
        let mut table = Table::new([Align::Left, Align::Words]);
        table.row(["a", "word ".repeat(30).trim()]);
        table.row(["a name of some length", "short"]);
        let text = table.to_string();
        assert!(text.lines().all(|line| width(line) <= TERMINAL_COLUMNS), "{text}");
        assert_eq!(text.lines().nth(1).unwrap().find("word"), Some(23), "{text}");
        assert!(!Table::new([Align::Left]).to_string().contains('\n') && Table::new([]).is_empty());
        let mut names = Table::new([Align::Left, Align::Left]);
        let name = "a name ".repeat(20);
        names.row(["x", name.trim()]);
        assert_eq!(names.to_string(), format!("x  {}\n", name.trim()), "a name is not parted");
    }

    #[test]
    fn cut_and_padded_count_columns_and_not_characters() {
        assert_eq!(cut("\u{6771}\u{4eac}\u{90fd}", 5), "\u{6771}\u{4eac}…");
        assert_eq!(cut("\u{6771}\u{4eac}\u{90fd}", 4), "\u{6771}…");
        assert_eq!((cut("abc", 3), cut("abc", 2), cut("abc", 0)), ("abc".into(), "a…".into(), String::new()));
        assert_eq!(padded("\u{6771}", 4, Align::Right), "  \u{6771}");
        assert_eq!(padded("abc", 2, Align::Left), "abc");
    }

    #[test]
    fn quotes_are_not_parted() {
        let parted = |text: &str| words(text).collect::<Vec<_>>().join("|");
        assert_eq!(
            parted("the host's key: 'inhaul key show' (or 'a b'), x"),
            "the|host's|key:|'inhaul key show'|(or|'a b'),|x"
        );
        assert_eq!(parted("'it's a name' 'open"), "'it's a name'|'open");
        assert_eq!(parted("'' a  b "), "''|a||b|");
        assert_eq!(wrapped("say 'a b c d' now", 8), ["say", "'a b c d'", "now"]);
    }

    #[test]
    fn hanging_never_glues_a_cell_to_what_follows() {
        for length in 1..30 {
            let name = "n".repeat(length);
            let text = hanging(&[("ok", 8), (&name, 20)], &"word ".repeat(20));
            let names: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with('n')).collect();
            assert_eq!(names, [name.as_str()], "{text}");
            assert!(text.lines().all(|line| width(line) <= TERMINAL_COLUMNS), "{text}");
            assert!(text.lines().skip(1).all(|line| line.starts_with("        ")), "{text}");
        }
        assert_eq!(hanging(&[("ok", 8), ("mtu", 6)], "fine"), "ok      mtu   fine");
        let long = hanging(&[("COSTS", 8), ("\u{6771}\u{4eac}\u{90fd}", 6)], "fine");
        assert_eq!(long, "COSTS   \u{6771}\u{4eac}\u{90fd}\n              fine");
    }
}
