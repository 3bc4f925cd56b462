//! Fingerprints: the hash of a public key, for people to compare.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The SHA-256 of a public key in the form of X.509 (SubjectPublicKeyInfo), which raw public keys have in TLS too (RFC
/// 7250 3). Its text is the base64 of URLs, 43 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; Fingerprint::LEN]);

/// A text is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 43 letters, digits, '-' and '_': copy all of it")]
pub struct FingerprintError;

impl Fingerprint {
    /// Its length in bytes.
    pub const LEN: usize = 32;

    /// Of a public key, in DER.
    pub fn of(public_key_info: &[u8]) -> Self {
        let mut hash = [0; Self::LEN];
        hash.copy_from_slice(digest::digest(&digest::SHA256, public_key_info).as_ref());
        Self(hash)
    }

    /// The one with these bytes.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl Fingerprint {
    /// In the form for a shell's command line: a fingerprint that begins with a hyphen must not look like an option.
    pub fn argument(&self) -> String {
        let text = self.to_string();
        if text.starts_with('-') { format!("-- {text}") } else { text }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        // A text that is too long is not even decoded.
        let bytes = (text.len() < 64).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(FingerprintError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_be_read_again_and_nothing_else() {
        let fingerprint = Fingerprint::of(b"a key");
        let text = fingerprint.to_string();
        assert_eq!(text.len(), 43);
        assert_eq!(text.parse(), Ok(fingerprint));
        // Another last character would leave bits over: a fingerprint has one text only.
        let bits_left = format!("{}{}", &text[..42], char::from(text.as_bytes()[42] + 1));
        let padded = format!("{text}=");
        for wrong in ["", "AAAA", &text[1..], &format!("{text}A"), &"A".repeat(1000), &bits_left, &padded] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(FingerprintError), "{wrong}");
        }
    }
}
