//! Texts of a line, cut to their maximum length. Peers choose some of them, and all clients share the room.

use serde::Serializer;

/// Most bytes that a text takes in a line, as JSON.
const BYTES_MAX: usize = 4096;

/// Writes a text; of a long one the beginning, and how long it is.
pub(super) fn bounded<T: AsRef<str>, S: Serializer>(text: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let text = text.as_ref();
    let mut left = BYTES_MAX;
    let end = text.char_indices().find_map(|(at, c)| {
        match left.checked_sub(json_len(c)) {
            Some(rest) => left = rest,
            None => return Some(at),
        }
        None
    });
    match end {
        None => serializer.serialize_str(text),
        Some(end) => serializer.collect_str(&format_args!("{}... ({} bytes)", &text[..end], text.len())),
    }
}

/// Bytes of a character as JSON: control characters are written as `\u0001`.
const fn json_len(c: char) -> usize {
    match c {
        '\0'..='\x1f' => 6,
        '"' | '\\' => 2,
        c => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    fn written(text: &str) -> String {
        let mut json = Vec::new();
        super::bounded(&text, &mut serde_json::Serializer::new(&mut json)).unwrap();
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_short_ones_are_not() {
        let paths = ["/a".repeat(2048), "\u{e9}".repeat(2048), "\u{1}".repeat(682), String::new()];
        assert!(paths.iter().all(|path| written(path) == serde_json::to_string(path).unwrap()));
        assert_eq!(written(&"/a".repeat(2049)), format!("\"{}... (4098 bytes)\"", "/a".repeat(2048)));
        assert_eq!(
            written(&format!("x{}", "\u{e9}".repeat(2048))),
            format!("\"x{}... (4097 bytes)\"", "\u{e9}".repeat(2047))
        );
        assert!(written(&"\u{1}".repeat(1_000_000)).len() < 4200);
    }
}
