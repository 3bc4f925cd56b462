//! File names for people.

/// A name or path as text that is safe on a terminal: bytes that are no UTF-8 become U+FFFD, control characters are
/// escaped. Names come from other machines, and a terminal obeys what it is sent.
pub fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for c in String::from_utf8_lossy(name).chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_escapes_what_a_terminal_would_obey() {
        assert_eq!(printable(b"a b\x1b[2J\n"), "a b\\u{1b}[2J\\n");
        assert_eq!(printable("d\u{e9}j\u{e0}".as_bytes()), "d\u{e9}j\u{e0}");
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }
}
