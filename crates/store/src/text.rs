//! Makes text from other machines safe to print.

/// A name, a path or a message as text that is safe on a terminal: bytes that are no UTF-8 become U+FFFD, characters
/// that a terminal obeys are escaped. Texts come from other machines, and a terminal does what it is sent.
///
/// What it gives stays as it is when it is made printable again.
pub fn printable(text: &[u8]) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in String::from_utf8_lossy(text).chars() {
        if is_obeyed(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Whether a terminal may do anything but draw the character, or draw what stands beside it elsewhere.
fn is_obeyed(c: char) -> bool {
    match c {
        // Marks, overrides and isolates of the direction of writing: with them a name reads as another one.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Ends of lines and paragraphs, byte order marks, annotations and tags: they are not drawn.
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
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
        assert_eq!(printable(b"\xff"), "\u{fffd}");
        assert_eq!(printable("\u{9b}2J".as_bytes()), "\\u{9b}2J", "the one-byte form of an escape sequence");
        assert_eq!(printable("\u{202e}gpj.exe".as_bytes()), "\\u{202e}gpj.exe");
        assert_eq!(printable("\u{645}\u{6cc}\u{200c}\u{62e}".as_bytes()), "\u{645}\u{6cc}\u{200c}\u{62e}");
    }

    #[test]
    fn printable_leaves_its_own_results_alone() {
        let once = printable("a\u{1b}\u{202e}\r\n\\".as_bytes());
        assert_eq!(printable(once.as_bytes()), once);
    }
}
