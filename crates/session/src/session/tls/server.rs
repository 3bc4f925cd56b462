//! The server's side: what it shows, and that it asks for a key. Who may do what is for others to say.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, CertificateType, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use crate::api::error::MoveError;
use crate::api::trust::{Certificate, ServerIdentity};
use crate::session::tls::{has_aes, protocols, provider, raw, raw_key_schemes, verify_raw};

/// What a server shows to clients.
#[derive(Clone, Debug)]
pub struct ServerTls {
    raw: Arc<ServerConfig>,
    certified: Option<Arc<ServerConfig>>,
}

impl ServerTls {
    /// Reads the certificate, if there is one.
    pub fn new(identity: &ServerIdentity) -> Result<Self, MoveError> {
        let own = raw(&identity.key).map_err(|error| MoveError::Internal(error.to_string()))?;
        let certified = identity.certificate.as_ref().map(|certificate| -> Result<_, MoveError> {
            let resolver = Arc::new(SingleCertAndKey::from(certified(certificate)?));
            Ok(Arc::new(config(resolver, identity.plaintext)?))
        });
        Ok(Self {
            raw: Arc::new(config(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)), identity.plaintext)?),
            certified: certified.transpose()?,
        })
    }

    /// What a client is shown that takes these types of certificates, by its first message.
    pub(crate) fn config_for(&self, types: Option<&[CertificateType]>) -> Arc<ServerConfig> {
        let takes_raw = types.is_some_and(|types| types.contains(&CertificateType::RawPublicKey));
        // Without a certificate, TLS says that there is no type that both have.
        Arc::clone(self.certified.as_ref().filter(|_| !takes_raw).unwrap_or(&self.raw))
    }
}

fn config(resolver: Arc<dyn ResolvesServerCert>, plaintext: bool) -> Result<ServerConfig, MoveError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| MoveError::Internal(error.to_string()))?;
    let mut config = builder.with_client_cert_verifier(Arc::new(AnyKey)).with_cert_resolver(resolver);
    config.alpn_protocols = protocols(plaintext);
    // The client's order counts, unless this host is slow at what the client prefers.
    config.ignore_client_order = !has_aes();
    // Nothing is resumed: it would save no round trip, and both ends would have to remember.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certified(files: &Certificate) -> Result<CertifiedKey, MoveError> {
    let failed = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        MoveError::Usage(format!("{}: the certificate cannot be used: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(&files.chain).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| failed(&files.chain, &error))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, &error))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| failed(&files.chain, &error))
}

/// Takes any raw key that a client has. What the client may do with it is decided when it asks for something.
#[derive(Debug)]
struct AnyKey;

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_raw(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        raw_key_schemes()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
