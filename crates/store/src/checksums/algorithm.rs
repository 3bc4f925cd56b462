//! The checksum algorithms of lists: their names, lengths and strengths.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// BLAKE3, 256 bits: verifies transfers.
    Blake3,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-1 (FIPS 180-4): broken in 2017.
    Sha1,
    /// MD5 (RFC 1321), published by Zenodo and NCBI: broken in 2004.
    Md5,
    /// CRC-64/NVME, of S3.
    Crc64Nvme,
    /// CRC-32C (Castagnoli), of S3 and Google's storage.
    Crc32c,
    /// CRC-32 (ISO-HDLC), of zip and of lists in the format SFV.
    Crc32,
    /// Adler-32 (RFC 1950), of the LHC's grid.
    Adler32,
}

/// What a matching checksum proves of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// Its bytes were not damaged by accident. An attacker can make other bytes with the same checksum.
    Damage,
    /// Its bytes are the original ones: no other bytes with the same checksum can be made.
    Lies,
}

impl Strength {
    /// What a checksum of this strength finds, in one word: `damage`, or also `lies`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Lies => "lies",
        }
    }
}

/// A line of the registry.
struct Kind {
    algorithm: Algorithm,
    /// As BagIt and the tools that compute it write it; for others, in lower case without a dash.
    name: &'static str,
    /// As people write it.
    title: &'static str,
    bytes: usize,
    strength: Strength,
}

const fn kind(algorithm: Algorithm, name: &'static str, title: &'static str, bytes: usize, strength: Strength) -> Kind {
    Kind { algorithm, name, title, bytes, strength }
}

/// All that are known, in the order of [`Algorithm`].
const KINDS: [Kind; 9] = [
    kind(Algorithm::Blake3, "blake3", "BLAKE3", 32, Strength::Lies),
    kind(Algorithm::Sha512, "sha512", "SHA-512", 64, Strength::Lies),
    kind(Algorithm::Sha256, "sha256", "SHA-256", 32, Strength::Lies),
    kind(Algorithm::Sha1, "sha1", "SHA-1", 20, Strength::Damage),
    kind(Algorithm::Md5, "md5", "MD5", 16, Strength::Damage),
    kind(Algorithm::Crc64Nvme, "crc64nvme", "CRC-64/NVME", 8, Strength::Damage),
    kind(Algorithm::Crc32c, "crc32c", "CRC-32C", 4, Strength::Damage),
    kind(Algorithm::Crc32, "crc32", "CRC-32", 4, Strength::Damage),
    kind(Algorithm::Adler32, "adler32", "Adler-32", 4, Strength::Damage),
];

impl Algorithm {
    /// All that are known, the strongest first.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|kind| kind.algorithm)
    }

    const fn kind(self) -> &'static Kind {
        &KINDS[self as usize]
    }

    /// Length of a checksum in bytes.
    pub const fn bytes(self) -> usize {
        self.kind().bytes
    }

    /// Its name, as BagIt and the tools that compute it write it.
    pub const fn name(self) -> &'static str {
        self.kind().name
    }

    /// What a checksum of it finds.
    pub const fn strength(self) -> Strength {
        self.kind().strength
    }

    /// The algorithm of this name, in any spelling: `sha256`, `SHA-256`, `CRC32C`, `crc-32c`, `adler32`.
    pub fn named(text: &str) -> Option<Self> {
        let plain: String = text.chars().filter(|c| !matches!(c, '-' | '_' | '/')).take(16).collect();
        let plain = match plain.to_ascii_lowercase() {
            // OpenSSL's names, which distinguish them from SHA-3.
            name if matches!(name.as_str(), "sha2256" | "sha2512") => name.replacen("sha2", "sha", 1),
            name => name,
        };
        Self::all().find(|algorithm| algorithm.name() == plain)
    }

    /// Its weakness in words for people: `MD5: finds damage, not lies`. `None` if it proves the content.
    pub fn weakness(self) -> Option<String> {
        let says = match (self.strength(), self.bytes()) {
            (Strength::Lies, _) => return None,
            (Strength::Damage, ..=8) => "finds damage only, and not all of it",
            (Strength::Damage, _) => "finds damage, not lies",
        };
        Some(format!("{}: {says}", self.kind().title))
    }

    /// A checksum from hexadecimal digits or base64, as S3 and HTTP write it; `None` if `text` is neither.
    pub fn sum(self, text: &str) -> Option<Vec<u8>> {
        read_sum(text.as_bytes()).filter(|sum| sum.len() == self.bytes())
    }

    /// The form of its checksums: `32 hexadecimal digits, or 24 characters of base64`.
    pub fn looks(self) -> String {
        let (digits, base64) = (2 * self.bytes(), self.bytes().div_ceil(3) * 4);
        format!("{digits} hexadecimal digits, or {base64} characters of base64")
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The bytes of a checksum in hexadecimal digits, or in base64 with padding. No known length is ambiguous: in base64
/// each has padding, which is no digit.
pub(super) fn read_sum(text: &[u8]) -> Option<Vec<u8>> {
    hexadecimal(text).or_else(|| {
        let is_short = text.len() <= 88 && text.ends_with(b"=");
        is_short.then(|| STANDARD.decode(text).ok()).flatten()
    })
}

pub(super) fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (pairs, odd) = digits.as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(value(high)? << 4 | value(low)?)).collect()
}

pub(super) fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_is_in_the_order_of_the_algorithms_and_strength_falls() {
        for (at, algorithm) in Algorithm::all().enumerate() {
            assert_eq!(algorithm as usize, at);
            assert_eq!(algorithm.weakness().is_none(), algorithm.strength() == Strength::Lies);
        }
        assert!(Algorithm::all().map(Algorithm::strength).is_sorted_by(|a, b| a >= b));
        // These words are in the JSON output.
        assert_eq!([Strength::Lies, Strength::Damage].map(Strength::name), ["lies", "damage"]);
    }

    #[test]
    fn named_takes_every_way_in_which_lists_write_it() {
        for (text, algorithm) in [
            ("md5", Algorithm::Md5),
            ("MD5", Algorithm::Md5),
            ("sha-1", Algorithm::Sha1),
            ("SHA1", Algorithm::Sha1),
            ("SHA-256", Algorithm::Sha256),
            ("sha_512", Algorithm::Sha512),
            ("SHA2-512", Algorithm::Sha512),
            ("crc32c", Algorithm::Crc32c),
            ("CRC-32C", Algorithm::Crc32c),
            ("crc32", Algorithm::Crc32),
            ("CRC64NVME", Algorithm::Crc64Nvme),
            ("CRC-64/NVME", Algorithm::Crc64Nvme),
            ("adler32", Algorithm::Adler32),
            ("ADLER-32", Algorithm::Adler32),
            ("BLAKE3", Algorithm::Blake3),
        ] {
            assert_eq!(Algorithm::named(text), Some(algorithm), "{text}");
        }
        for text in ["", "sha", "md", "md55", "sha3-256", "sha512/256", "crc", "\u{6771}"] {
            assert_eq!(Algorithm::named(text), None, "{text}");
        }
    }

    #[test]
    fn sum_takes_hexadecimal_digits_and_base64_of_the_length() {
        let crc = vec![0xe3, 0x06, 0x92, 0x83];
        for text in ["e3069283", "E3069283", "4waSgw=="] {
            assert_eq!(Algorithm::Crc32c.sum(text), Some(crc.clone()), "{text}");
        }
        let md5 = Algorithm::Md5.sum("JfnnlDI7RTiF9RgfG2JNCw==").unwrap();
        assert_eq!(to_hexadecimal(&md5), "25f9e794323b453885f5181f1b624d0b");
        for text in
            ["", "e306928", "e30692831", "4waSgw", "4waSgw=", "4waSgw===", "e306928g", "4wa Sgw==", "\u{e9}306928"]
        {
            assert_eq!(Algorithm::Crc32c.sum(text), None, "{text}");
        }
        assert!(Algorithm::Md5.looks().contains("32 hexadecimal digits, or 24"));
    }
}
