//! Why a scenario is refused, and where in its text.

use std::fmt;
use std::ops::Range;

/// A scenario that cannot be run: the place, the fault, and the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioError {
    /// The file, as its user named it.
    pub file: String,
    /// Line and column, counted from 1; `None` when the fault has no single place.
    pub place: Option<(usize, usize)>,
    /// The settings under which it went wrong, when the text alone is fine: of a sweep or of `--set`.
    pub setting: Option<String>,
    /// The fault and the expected form.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: ", self.file)?,
            None => write!(f, "{}: ", self.file)?,
        }
        if let Some(setting) = &self.setting {
            write!(f, "with {setting}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// A fault before its place is turned into line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Bytes of the text that it is about.
    pub(crate) span: Option<Range<usize>>,
    /// The fault and the expected form.
    pub(crate) message: String,
}

impl Refusal {
    /// A fault at a place of the text.
    pub(crate) fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span: Some(span), message: message.into() }
    }

    /// A fault of the whole.
    pub(crate) fn general(message: impl Into<String>) -> Self {
        Self { span: None, message: message.into() }
    }

    pub(crate) fn locate(self, file: &str, text: &str, setting: Option<String>) -> ScenarioError {
        let place = self.span.map(|span| line_and_column(text, span.start));
        ScenarioError { file: file.to_owned(), place, setting, message: self.message }
    }
}

/// A message of the TOML reader, without types of Rust: `expected u16` is a range.
pub(crate) fn in_words(message: &str) -> String {
    if message.contains("too large to fit in target type") || message.contains("number overflowed") {
        return "a whole number is at most 9223372036854775807".to_owned();
    }
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let words = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "i8" => "a whole number from -128 to 127",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        _ => return message.to_owned(),
    };
    format!("{before}expected {words}")
}

/// Line and column, from 1, of a byte of the text. Columns count characters.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_words_names_ranges_instead_of_types() {
        let message = "invalid value: integer `300`, expected u8";
        assert_eq!(in_words(message), "invalid value: integer `300`, expected a whole number from 0 to 255");
        assert_eq!(
            in_words("invalid type: integer `1`, expected struct StarFile"),
            "invalid type: integer `1`, expected a table"
        );
        assert_eq!(in_words("missing field `title`"), "missing field `title`");
    }

    #[test]
    fn line_and_column_count_from_one() {
        assert_eq!(line_and_column("ab\ncd", 0), (1, 1));
        assert_eq!(line_and_column("ab\ncd", 4), (2, 2));
        assert_eq!(line_and_column("ab\ncd", 99), (2, 3));
    }
}
