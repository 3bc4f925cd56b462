//! Makes text from other machines safe to print.

/// A name, a path or a message as text that is safe on a terminal: bytes that are not UTF-8 are shown as numbers
/// (`\xff`), and characters that a terminal obeys are escaped. Such texts come from other machines, and a terminal
/// obeys what it is sent.
///
/// The result does not change when it is made printable again.
pub fn printable(text: &[u8]) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut before = ' ';
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            // Joiners shape the letters of some scripts, and emoji. Elsewhere they only hide.
            let hides = matches!(c, '\u{200c}' | '\u{200d}') && before.is_ascii();
            if hides || is_obeyed(c) {
                safe.extend(c.escape_default());
            } else {
                safe.push(c);
            }
            before = c;
        }
        for byte in chunk.invalid() {
            safe.push_str(&format!("\\x{byte:02x}"));
            before = ' ';
        }
    }
    safe
}

/// [`printable`] for a text of several lines, which it keeps. A peer's text must not be part of it, because it could
/// fake lines: make it printable before.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(|line| printable(line.as_bytes())).collect::<Vec<_>>().join("\n")
}

/// Whether a terminal may do something else than draw the character: move other characters, or draw nothing.
pub fn is_obeyed(c: char) -> bool {
    match c {
        // Marks, overrides and isolates of writing direction: they make a name read as another one.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => true,
        // Ends of lines and paragraphs, byte order marks, annotations and tags are not drawn.
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        // Spaces without width, and letters without shape, make two names look the same.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}' => true,
        '\u{2060}'..='\u{2065}' | '\u{3164}' | '\u{ffa0}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => {
            true
        }
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_escapes_what_a_terminal_would_obey() {
        assert_eq!(printable(b"a b\x1b[2J\n"), "a b\\u{1b}[2J\\n");
        assert_eq!(printable("d\u{e9}j\u{e0}".as_bytes()), "d\u{e9}j\u{e0}");
        assert_eq!((printable(b"\xff"), printable(b"a\xfe/")), ("\\xff".to_owned(), "a\\xfe/".to_owned()));
        assert_eq!(printable("\u{9b}2J".as_bytes()), "\\u{9b}2J", "the one-byte form of an escape sequence");
        assert_eq!(printable("\u{202e}gpj.exe".as_bytes()), "\\u{202e}gpj.exe");
        for hidden in ['\u{200b}', '\u{2060}', '\u{ad}', '\u{3164}', '\u{e0100}'] {
            assert!(printable(format!("pay{hidden}pal").as_bytes()).is_ascii(), "{}", hidden.escape_unicode());
        }
        assert_eq!(printable("pay\u{200d}pal".as_bytes()), "pay\\u{200d}pal");
        assert_eq!(printable("\u{645}\u{6cc}\u{200c}\u{62e}".as_bytes()), "\u{645}\u{6cc}\u{200c}\u{62e}");
    }

    #[test]
    fn printable_lines_keeps_lines_and_nothing_else() {
        assert_eq!(printable_lines("a\n\tb\r\n\u{1b}c\n"), "a\n\\tb\\r\n\\u{1b}c\n");
    }

    #[test]
    fn printable_leaves_its_own_results_alone() {
        let once = printable("a\u{1b}\u{202e}\r\n\\".as_bytes());
        assert_eq!(printable(once.as_bytes()), once);
    }
}
