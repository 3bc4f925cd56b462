//! Keys and their change: one key seals a fixed number of packets, an *epoch*.

use aws_lc_rs::aead::quic::HeaderProtectionKey;
use aws_lc_rs::aead::{LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::Zeroizing;

use super::secrets::{SECRET_LEN, Secret, Suite};

/// An epoch has 2 to the power of this many packets. RFC 9001 6.6 allows AES-GCM 2^23 of the largest size.
pub(super) const EPOCH_BITS: u32 = 22;

/// Longest key, in bytes.
const KEY_LEN_MAX: usize = 32;

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand (RFC 5869 2.3) with SHA-256, for one purpose.
fn expand(secret: &Secret, purpose: &str, out: &mut [u8]) {
    Prk::new_less_safe(HKDF_SHA256, &secret[..])
        .expand(&[purpose.as_bytes()], Length(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("HKDF gives 32 bytes");
}

/// The key that masks packet numbers. It is the same in all epochs (RFC 9001 6).
pub(super) fn mask_key(suite: Suite, secret: &Secret) -> HeaderProtectionKey {
    let mut key = Zeroizing::new([0; KEY_LEN_MAX]);
    let key = &mut key[..suite.mask().key_len()];
    expand(secret, "inhaul mask", key);
    HeaderProtectionKey::new(suite.mask(), key).expect("the key has the cipher's length")
}

/// The keys of one epoch.
pub(super) struct Epoch {
    /// Counts from 0.
    pub(super) number: u64,
    pub(super) key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    secret: Secret,
    suite: Suite,
}

impl Epoch {
    /// The epoch that begins with packet number 0.
    pub(super) fn first(suite: Suite, secret: &Secret) -> Self {
        Self::new(0, suite, secret.clone())
    }

    fn new(number: u64, suite: Suite, secret: Secret) -> Self {
        let (mut key, mut iv) = (Zeroizing::new([0; KEY_LEN_MAX]), [0; NONCE_LEN]);
        let key = &mut key[..suite.aead().key_len()];
        expand(&secret, "inhaul key", key);
        expand(&secret, "inhaul iv", &mut iv);
        let key = UnboundKey::new(suite.aead(), key).expect("the key has the cipher's length");
        Self { number, key: LessSafeKey::new(key), iv, secret, suite }
    }

    /// The epoch after this one. Its keys do not reveal the earlier ones.
    pub(super) fn next(&self) -> Self {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        expand(&self.secret, "inhaul next", &mut secret[..]);
        Self::new(self.number + 1, self.suite, secret)
    }

    /// The nonce of a packet (RFC 9001 5.3): its number, padded on the left, XOR the epoch's vector.
    pub(super) fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, of_number) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// The epoch of a packet.
pub(super) const fn epoch_of(number: u64) -> u64 {
    number >> EPOCH_BITS
}

/// The first packet of an epoch.
pub(super) const fn epoch_start(epoch: u64) -> u64 {
    epoch << EPOCH_BITS
}
