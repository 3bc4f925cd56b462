//! TLS 1.3 under the frames of a control stream. There is no older version in this program, so none can be agreed on.
//!
//! Keys are raw public keys (RFC 7250), Ed25519: those of clients always, those of servers unless a client asks for a
//! certificate. A client's first frames leave with the end of its handshake, so a session costs one round trip more
//! than TCP alone would. No session is resumed: that would save none.
//!
//! The client's first message says whether it asks for a certificate.

mod client;
mod seal;
mod server;

use std::sync::Arc;

use inhaul_identity::Key;
use rustls::SignatureScheme;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::CertifiedKey;

pub use client::{ClientSide, Distrust, Verdict, roots};
pub(crate) use seal::Seal;
pub use server::ServerTls;

/// What is spoken inside (RFC 7301), so that the bytes of no other protocol are taken for ours.
const PROTOCOL: &[u8] = b"inhaul";

/// The same, if both sides trust the path: datagrams go in the clear. It is agreed on as TLS does it, so nobody on the
/// way can bring it about.
const PLAINTEXT: &[u8] = b"inhaul-plaintext";

/// What is offered or taken, the preferred first.
fn protocols(plaintext: bool) -> Vec<Vec<u8>> {
    let preferred = plaintext.then_some(PLAINTEXT);
    preferred.into_iter().chain([PROTOCOL]).map(<[u8]>::to_vec).collect()
}

/// Whether this processor has instructions for AES.
fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    let has_aes = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    has_aes
}

/// The algorithms that there are, the fastest on this host first. Datagrams are sealed with what TLS agrees on.
fn provider() -> Arc<CryptoProvider> {
    use aws_lc_rs::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
    let (aes, chacha) = ([TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384], TLS13_CHACHA20_POLY1305_SHA256);
    let cipher_suites = if has_aes() { vec![aes[0], aes[1], chacha] } else { vec![chacha, aes[0], aes[1]] };
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    provider().signature_verification_algorithms
}

/// What raw keys sign with.
fn raw_key_schemes() -> Vec<SignatureScheme> {
    vec![SignatureScheme::ED25519]
}

/// A key as TLS shows and uses it.
fn raw(key: &Key) -> Result<Arc<CertifiedKey>, rustls::Error> {
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.to_private_der()));
    let signing = provider().key_provider.load_private_key(private)?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(key.to_public_der())], signing)))
}

/// Whether whoever shows a raw key has signed the handshake with it.
fn verify_raw(
    message: &[u8],
    key: &CertificateDer<'_>,
    signed: &rustls::DigitallySignedStruct,
) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
    let key = SubjectPublicKeyInfoDer::from(key.as_ref());
    rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, &algorithms())
}
