//! The secrets that keys are derived from, and the ciphers.

use aws_lc_rs::aead::quic;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305};
use zeroize::Zeroizing;

/// Length of a secret, in bytes.
pub const SECRET_LEN: usize = 32;

/// The secret of one direction of a flow. Its last copy is overwritten when dropped.
pub type Secret = Zeroizing<[u8; SECRET_LEN]>;

/// The cipher of datagrams: that of the TLS connection by which the flow was agreed on (RFC 8446 B.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES with keys of 128 bits, in Galois/Counter Mode.
    Aes128Gcm,
    /// AES with keys of 256 bits, in Galois/Counter Mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305: for processors without AES.
    ChaCha20Poly1305,
}

impl Suite {
    pub(super) fn aead(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    pub(super) fn mask(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128Gcm => &quic::AES_128,
            Self::Aes256Gcm => &quic::AES_256,
            Self::ChaCha20Poly1305 => &quic::CHACHA20,
        }
    }
}

/// The secrets of a flow. Only its two ends know them.
#[derive(Clone)]
pub struct FlowSecrets {
    /// The cipher of datagrams.
    pub suite: Suite,
    /// For outgoing datagrams.
    pub outgoing: Secret,
    /// For incoming datagrams.
    pub incoming: Secret,
}

impl std::fmt::Debug for FlowSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSecrets").field("suite", &self.suite).finish_non_exhaustive()
    }
}
