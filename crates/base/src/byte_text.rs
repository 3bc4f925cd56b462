//! Paths of any bytes as text: a path at a server may have any bytes, but is compared, kept and shown as text.
//!
//! A byte that is not UTF-8 becomes one character for private use: U+10FF00 plus the byte. The bytes of a character
//! from this range become such characters too, so different paths become different texts. All bytes of ASCII stay
//! unchanged: a component of the text is a component of the path.

use std::borrow::Cow;

/// Added to the value of a byte.
const BASE: u32 = 0x10_ff00;
/// Characters that stand for bytes.
const RANGE: std::ops::RangeInclusive<char> = '\u{10ff80}'..='\u{10ffff}';

/// The text of these bytes; other bytes never have the same.
pub fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if RANGE.contains(&c) {
                text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(standing_for));
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(standing_for));
    }
    text
}

/// The bytes that [`text_of`] has made this text of.
pub fn bytes_of(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(|c| RANGE.contains(&c)) {
        return text.as_bytes().into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        if RANGE.contains(&c) {
            bytes.push((u32::from(c) - BASE) as u8);
        } else {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    bytes.into()
}

/// Bytes as text with `%XX` for `%`, for bytes that are not UTF-8, and for characters that `also` accepts: a part of a
/// URL.
pub fn quoted(bytes: &[u8], also: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    let quote = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            text.push('%');
            text.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])));
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '%' || also(c) {
                quote(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(c);
            }
        }
        quote(&mut text, chunk.invalid());
    }
    text
}

/// The character that stands for a byte.
fn standing_for(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_is_another_for_other_bytes_and_can_be_turned_back() {
        let all: Vec<u8> = (0..=255).collect();
        let paths: [&[u8]; 8] = [
            b"",
            b"a/\xff.dat",
            b"a/\xfe.dat",
            "a/\u{10ffff}.dat".as_bytes(),
            "d\u{e9}/\u{fffd}".as_bytes(),
            b"\xc3/\xa9",
            b"\xf4\x8f\xbf",
            &all,
        ];
        let mut texts = std::collections::BTreeSet::new();
        for path in paths {
            let text = text_of(path);
            assert_eq!(&*bytes_of(&text), path, "{text}");
            assert!(texts.insert(text));
        }
        assert_eq!(text_of("d\u{e9}j\u{e0}/x".as_bytes()), "d\u{e9}j\u{e0}/x");
        assert_eq!(text_of(b"\x80/\xff").split('/').count(), 2);
    }

    #[test]
    fn quoted_is_as_in_an_address() {
        assert_eq!(quoted(b"100% \xff\xc3\xa9#", |c| c == '#'), "100%25 %FF\u{e9}%23");
    }
}
