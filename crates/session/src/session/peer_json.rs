//! JSON of a peer: the one place where what a peer says in JSON becomes text of ours.
//!
//! Other text of a peer is made safe for a terminal where frames are decoded.

use inhaul_store::printable;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Most characters of one text; what is longer is cut.
const TEXT_CHARS_MAX: usize = 8192;

/// Reads what a peer says. Every text in it is [printable] and bounded: it may be shown on a terminal as it is.
///
/// # Errors
/// When the bytes are no JSON, or of something else.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    let mut value: Value = serde_json::from_slice(json)?;
    make_printable(&mut value);
    T::deserialize(value)
}

/// Recursion is bounded: the parser takes no more than 128 levels.
fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text.as_bytes()).chars().take(TEXT_CHARS_MAX).collect(),
        Value::Array(items) => items.iter_mut().for_each(make_printable),
        Value::Object(map) => map.values_mut().for_each(make_printable),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::options::Update;
    use crate::api::report::{ErrorReport, Report};

    #[test]
    fn parse_escapes_every_text_whatever_field_it_stands_in() {
        let evil = "\u{1b}]0;pwned\u{7}\u{202e}";
        let safe = printable(evil.as_bytes());
        let update: Update = parse(&serde_json::to_vec(&Update::Warning(evil.to_owned())).unwrap()).unwrap();
        assert_eq!(update, Update::Warning(safe.clone()));
        let error = ErrorReport { code: evil.to_owned(), message: evil.to_owned() };
        let report = Report { warnings: vec![evil.to_owned()], error: Some(error), ..Report::default() };
        let read: Report = parse(&serde_json::to_vec(&report).unwrap()).unwrap();
        assert_eq!(read.warnings, std::slice::from_ref(&safe));
        assert_eq!(read.error, Some(ErrorReport { code: safe.clone(), message: safe }));
    }

    #[test]
    fn parse_cuts_what_is_too_long_and_refuses_what_is_too_deep() {
        let long = serde_json::to_vec(&Update::Warning("\u{e9}".repeat(2 * TEXT_CHARS_MAX))).unwrap();
        let Update::Warning(text) = parse(&long).unwrap() else { panic!("not a warning") };
        assert_eq!(text.chars().count(), TEXT_CHARS_MAX);
        assert!(parse::<Value>("[".repeat(100_000).as_bytes()).is_err());
    }
}
