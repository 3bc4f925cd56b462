//! TLS 1.3 under the frames of a control stream. There is no older version in this program, so none can be agreed on.
//!
//! Keys are raw public keys (RFC 7250), Ed25519: those of clients always, those of servers unless a client asks for a
//! certificate. A client's first frames leave with the end of its handshake, so a session costs one round trip more
//! than TCP alone would. No session is resumed: that would save none.

mod client;
mod seal;
mod server;

use std::sync::Arc;

use inhaul_identity::Key;
use rustls::SignatureScheme;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::CertifiedKey;

pub(crate) use client::{ClientSide, Distrust};
pub(crate) use seal::Seal;
pub(crate) use server::ServerTls;

/// What is spoken inside (RFC 7301), so that the bytes of no other protocol are taken for ours.
const PROTOCOL: &[u8] = b"inhaul";

/// The algorithms that there are.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
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
