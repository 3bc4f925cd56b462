//! A host's key.

use std::fmt;
use std::io::ErrorKind::PermissionDenied;
use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::files::{self, FileError, Others};
use crate::fingerprint::Fingerprint;

/// The bytes before the seed in the DER of an Ed25519 private key (RFC 8410 7, PKCS #8 version 1).
const PRIVATE_PREFIX: [u8; 16] =
    [0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// The bytes before the key in the DER of a public key (RFC 8410 4, SubjectPublicKeyInfo).
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00];
const SEED_LEN: usize = 32;

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
/// Longest file of a key, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// An Ed25519 key. Its file is PEM, as `openssl genpkey -algorithm ed25519` writes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    seed: [u8; SEED_LEN],
    public: [u8; 32],
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Its file cannot be read or written.
    #[error("the key cannot be used: {0}{elsewhere}", elsewhere = files::elsewhere(.0))]
    File(#[from] FileError),
    /// Its file holds something else.
    #[error("{}: this is no Ed25519 key in PEM, as 'openssl genpkey -algorithm ed25519' makes one", .0.display())]
    Malformed(PathBuf),
    /// Others can read it.
    #[error("{path}: others may read this key; if they have not read it yet, run 'chmod 600 {path}'", path = .0.display())]
    Exposed(PathBuf),
    /// The system has no randomness.
    #[error("the system has no random numbers")]
    NoRandomness,
}

impl Key {
    /// A new key.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, KeyError> {
        let mut seed = [0; SEED_LEN];
        rand::fill(&mut seed).map_err(|_| KeyError::NoRandomness)?;
        Self::from_seed(seed).ok_or(KeyError::NoRandomness)
    }

    fn from_seed(seed: [u8; SEED_LEN]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        Some(Self { seed, public: pair.public_key().as_ref().try_into().ok()? })
    }

    /// The key in a file. If the file is missing, it is made with a new key. Also returns whether it was made.
    ///
    /// # Errors
    /// When the file cannot be read or made, when others may read it, or when it holds something else.
    pub fn load_or_make(path: &Path) -> Result<(Self, bool), KeyError> {
        if let Some(key) = Self::load(path)? {
            return Ok((key, false));
        }
        let key = Self::random()?;
        if files::make(path, &key.to_pem())? {
            return Ok((key, true));
        }
        // Another process has been faster.
        Self::load(path)?.map(|key| (key, false)).ok_or_else(|| KeyError::Malformed(path.to_owned()))
    }

    /// The key in a file; `None` if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, when others may read it, or when it holds something else.
    pub fn load(path: &Path) -> Result<Option<Self>, KeyError> {
        let Some(text) = files::read(path, FILE_BYTES_MAX, Others::None).map_err(|error| match error {
            // The system's own errors have a number.
            error if error.source.kind() == PermissionDenied && error.source.raw_os_error().is_none() => {
                KeyError::Exposed(error.path)
            }
            error => error.into(),
        })?
        else {
            return Ok(None);
        };
        Self::from_pem(&text).map(Some).ok_or_else(|| KeyError::Malformed(path.to_owned()))
    }

    /// Reads a key from PEM; `None` if the text is no key.
    pub fn from_pem(text: &str) -> Option<Self> {
        let body = text.trim().strip_prefix(PEM_BEGIN)?.strip_suffix(PEM_END)?;
        let body: String = body.split_ascii_whitespace().collect();
        let der = STANDARD_NO_PAD.decode(body.trim_end_matches('=')).ok()?;
        Self::from_seed(der.strip_prefix(&PRIVATE_PREFIX)?.try_into().ok()?)
    }

    /// The key as PEM: a secret.
    pub fn to_pem(&self) -> String {
        // 48 bytes need no padding.
        format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", STANDARD_NO_PAD.encode(self.to_private_der()))
    }

    /// The key in DER, as TLS libraries read it: a secret.
    pub fn to_private_der(&self) -> Vec<u8> {
        [&PRIVATE_PREFIX[..], &self.seed].concat()
    }

    /// The public key in DER (SubjectPublicKeyInfo), which TLS shows as a raw public key (RFC 7250).
    pub fn to_public_der(&self) -> Vec<u8> {
        [&PUBLIC_PREFIX[..], &self.public].concat()
    }

    /// Its public name.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.to_public_der())
    }

    /// A secret for another purpose, which this key alone gives. Two purposes have nothing in common.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut secret = [0; 32];
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.seed);
        secret.copy_from_slice(hmac::sign(&key, purpose.as_bytes()).as_ref());
        secret
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn key_is_made_once_and_then_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/server.key");
        let (made, is_new) = Key::load_or_make(&path).unwrap();
        let (found, again) = Key::load_or_make(&path).unwrap();
        assert_eq!((made.fingerprint(), is_new, again), (found.fingerprint(), true, false));
        assert_ne!(made.derive("a"), made.derive("b"));
        assert_eq!(made.derive("a"), found.derive("a"));
        assert!(!format!("{made:?}").contains(&URL_SAFE_NO_PAD.encode(made.seed)));
    }

    #[test]
    fn key_that_others_may_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.key");
        Key::load_or_make(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Key::load(&path).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "no key").unwrap();
        assert!(matches!(Key::load_or_make(&path), Err(KeyError::Malformed(_))), "it is not replaced");
    }

    #[test]
    fn key_is_what_the_standard_says() {
        // RFC 8410 10.3, the private key without attributes, and the public key that belongs to it (10.1).
        let pem = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----\n";
        let key = Key::from_pem(pem).unwrap();
        let public = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE";
        assert_eq!(STANDARD_NO_PAD.encode(key.to_public_der()), public);
        assert_eq!(key.to_pem(), pem);
        let pair = Ed25519KeyPair::from_pkcs8(&key.to_private_der()).unwrap();
        assert_eq!(pair.public_key().as_ref(), &key.public);
    }
}
