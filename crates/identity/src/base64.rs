//! Base64 (RFC 4648) in one form only: no padding and no bits left over. Two alphabets: that of URLs (5), for texts
//! that people copy, and that of PEM files (4).

/// Which characters stand for 62 and 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// `-` and `_`.
    Url,
    /// `+` and `/`.
    Pem,
}

impl Alphabet {
    fn symbol(self, value: u8) -> char {
        char::from(match value {
            0..26 => b'A' + value,
            26..52 => b'a' + value - 26,
            52..62 => b'0' + value - 52,
            62 => [b'-', b'+'][usize::from(self == Self::Pem)],
            _ => [b'_', b'/'][usize::from(self == Self::Pem)],
        })
    }

    fn value(self, symbol: u8) -> Option<u8> {
        match (symbol, self) {
            (b'A'..=b'Z', _) => Some(symbol - b'A'),
            (b'a'..=b'z', _) => Some(symbol - b'a' + 26),
            (b'0'..=b'9', _) => Some(symbol - b'0' + 52),
            (b'-', Self::Url) | (b'+', Self::Pem) => Some(62),
            (b'_', Self::Url) | (b'/', Self::Pem) => Some(63),
            _ => None,
        }
    }
}

/// The text of `bytes`, without padding.
pub(crate) fn encode(alphabet: Alphabet, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(group);
        for place in 0..=chunk.len() {
            text.push(alphabet.symbol((bits >> (18 - 6 * place)) as u8 & 63));
        }
    }
    text
}

/// The bytes of a text without padding; `None` if it is not the text of any.
pub(crate) fn decode(alphabet: Alphabet, text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0;
        for (place, &symbol) in chunk.iter().enumerate() {
            bits |= u32::from(alphabet.value(symbol)?) << (18 - 6 * place);
        }
        let len = chunk.len() - 1;
        let group = bits.to_be_bytes();
        if len == 0 || group[len + 1..].iter().any(|&left_over| left_over != 0) {
            return None;
        }
        bytes.extend_from_slice(&group[1..=len]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_gives_what_the_rfc_does() {
        // RFC 4648 10, without the padding.
        let vectors = [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE")];
        for (bytes, text) in vectors {
            assert_eq!(encode(Alphabet::Url, bytes.as_bytes()), text);
            assert_eq!(decode(Alphabet::Url, text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(encode(Alphabet::Url, &[0xFB, 0xFF]), "-_8");
        assert_eq!(encode(Alphabet::Pem, &[0xFB, 0xFF]), "+/8");
    }

    #[test]
    fn decode_takes_one_form_only() {
        for text in ["Z", "Zh", "Zm9", "Zg==", "Z g", "+/8", "Zm9vY"] {
            assert_eq!(decode(Alphabet::Url, text), None, "{text}");
        }
    }
}
