//! The client's side: who the server has to be.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use inhaul_identity::{Fingerprint, Key, KnownHosts};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::api::source::Server;
use crate::api::trust::{Ca, Trust, UnknownServer};
use crate::session::tls::{protocols, provider, raw, raw_key_schemes, verify_raw};

/// Where distributions keep the certificates that they believe.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Why a server is not believed, or cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// Its key is not known.
    #[error("its key {0} is not known")]
    Unknown(Fingerprint),
    /// It is known by another key.
    #[error("its key has changed from {known} to {seen}")]
    Changed { known: Fingerprint, seen: Fingerprint },
    /// The address has another fingerprint.
    #[error("its key is {seen}, and not {pinned}")]
    NotPinned { pinned: Fingerprint, seen: Fingerprint },
    /// Keys, known hosts or certificates of this host cannot be used.
    #[error("{0}")]
    Here(String),
}

/// A connection that has not begun, and what is looked at when the server shows its key.
pub struct ClientSide {
    pub(crate) connection: ClientConnection,
    judge: Option<Arc<Judge>>,
    known_hosts: Option<PathBuf>,
    server: String,
}

impl ClientSide {
    /// For a connection to `server`.
    pub fn new(server: &Server, trust: &Trust) -> Result<Self, Distrust> {
        let key = own_key(server, trust)?;
        let known_hosts = trust.state.as_ref().map(inhaul_identity::State::known_hosts);
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(here)?;
        let pinned = server.ticket.fingerprint;
        let (verifier, judge, name): (Arc<dyn ServerCertVerifier>, _, _) = match (&trust.ca, pinned) {
            (Some(ca), None) => {
                // The interface, of an address of a link (%eth0), is this host's own matter.
                let host = server.host.split('%').next().unwrap_or_default().to_owned();
                let name = ServerName::try_from(host);
                let name = name.map_err(|_| Distrust::Here(format!("no certificate can be for '{}'", server.host)))?;
                (web(ca)?, None, name)
            }
            _ => {
                let expected = expected(server, trust, pinned, known_hosts.as_deref())?;
                let judge = Arc::new(Judge { expected, seen: Mutex::default() });
                // It is not sent, and nothing is compared with it.
                let name = ServerName::try_from("inhaul").map_err(|error| Distrust::Here(error.to_string()))?;
                (Arc::clone(&judge) as _, Some(judge), name)
            }
        };
        let resolver = Arc::new(rustls::client::AlwaysResolvesClientRawPublicKeys::new(raw(&key).map_err(here)?));
        let mut config =
            builder.dangerous().with_custom_certificate_verifier(verifier).with_client_cert_resolver(resolver);
        config.alpn_protocols = protocols(trust.plaintext);
        config.resumption = Resumption::disabled();
        config.enable_sni = judge.is_none();
        let connection = ClientConnection::new(Arc::new(config), name).map_err(here)?;
        Ok(Self { connection, judge, known_hosts, server: server.to_string() })
    }

    /// Parts the connection from what judges it.
    pub(crate) fn split(self) -> (ClientConnection, Verdict) {
        let Self { connection, judge, known_hosts, server } = self;
        (connection, Verdict { judge, known_hosts, server })
    }
}

/// What came of looking at the server's key.
pub struct Verdict {
    judge: Option<Arc<Judge>>,
    known_hosts: Option<PathBuf>,
    server: String,
}

impl Verdict {
    /// Whether the server has to show a certificate, rather than a raw key.
    pub(crate) fn is_by_certificate(&self) -> bool {
        self.judge.is_none()
    }

    /// Why the server was not believed, if that is why the handshake failed.
    pub(crate) fn distrust(&self) -> Option<Distrust> {
        let judge = self.judge.as_ref()?;
        let seen = judge.seen()?;
        judge.expected.check(seen).err()
    }

    /// The handshake is complete: the server has the key that it has shown. It is remembered if it is to be.
    pub(crate) fn accept(&self) -> Result<(), Distrust> {
        let (Some(judge), Some(path)) = (&self.judge, &self.known_hosts) else { return Ok(()) };
        if let (Expected::Remember, Some(seen)) = (&judge.expected, judge.seen()) {
            // Another connection of this process may have remembered it meanwhile.
            let known = KnownHosts::load(path).map_err(here)?;
            match known.keys_of(&self.server) {
                [] => {
                    KnownHosts::add(path, &self.server, seen).map_err(here)?;
                    log::info!("{}: its key {seen} is remembered from now on", self.server);
                }
                keys if keys.contains(&seen) => {}
                [known, ..] => return Err(Distrust::Changed { known: *known, seen }),
            }
        }
        Ok(())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn here(error: impl ToString) -> Distrust {
    Distrust::Here(error.to_string())
}

/// The key that this host shows. One that has no place for a key is a stranger each time.
fn own_key(server: &Server, trust: &Trust) -> Result<Key, Distrust> {
    if let Some(key) = &trust.acting {
        return if server.ticket.token.is_some() { Ok(key.clone()) } else { Key::random().map_err(here) };
    }
    let Some(state) = &trust.state else { return Key::random().map_err(here) };
    match Key::load_or_make(&state.client_key()) {
        Ok((key, is_new)) => {
            if is_new {
                log::info!("this host's key is {}, in {}", key.fingerprint(), state.client_key().display());
            }
            Ok(key)
        }
        Err(inhaul_identity::KeyError::File(error)) => {
            log::warn!("this host has no key that lasts: {error}");
            Key::random().map_err(here)
        }
        Err(error) => Err(here(error)),
    }
}

/// Which raw keys are taken.
#[derive(Debug)]
enum Expected {
    Pinned(Fingerprint),
    Known(Vec<Fingerprint>),
    Unknown,
    Remember,
    Any,
}

fn expected(
    server: &Server,
    trust: &Trust,
    pinned: Option<Fingerprint>,
    known_hosts: Option<&Path>,
) -> Result<Expected, Distrust> {
    if let Some(pinned) = pinned {
        return Ok(Expected::Pinned(pinned));
    }
    if trust.unknown == UnknownServer::TakeAny {
        return Ok(Expected::Any);
    }
    let known = known_hosts.map(KnownHosts::load).transpose().map_err(here)?.unwrap_or_default();
    Ok(match (known.keys_of(&server.to_string()), trust.unknown) {
        ([], UnknownServer::Remember) => Expected::Remember,
        ([], _) => Expected::Unknown,
        (keys, _) => Expected::Known(keys.to_vec()),
    })
}

impl Expected {
    fn check(&self, seen: Fingerprint) -> Result<(), Distrust> {
        match self {
            Self::Pinned(pinned) if *pinned != seen => Err(Distrust::NotPinned { pinned: *pinned, seen }),
            Self::Known(keys) if !keys.contains(&seen) => match keys.first() {
                Some(known) => Err(Distrust::Changed { known: *known, seen }),
                None => Err(Distrust::Unknown(seen)),
            },
            Self::Unknown => Err(Distrust::Unknown(seen)),
            Self::Pinned(_) | Self::Known(_) | Self::Remember | Self::Any => Ok(()),
        }
    }
}

/// Looks at the raw key that a server shows.
#[derive(Debug)]
struct Judge {
    expected: Expected,
    seen: Mutex<Option<Fingerprint>>,
}

impl Judge {
    fn seen(&self) -> Option<Fingerprint> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let seen = Fingerprint::of(key);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        let checked = self.expected.check(seen);
        checked.map_err(|_| Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))?;
        Ok(ServerCertVerified::assertion())
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

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The certificates of these authorities, and the file that they stand in.
fn certificates(ca: &Ca) -> Result<(PathBuf, Vec<CertificateDer<'static>>), Distrust> {
    let path = match ca {
        Ca::File(path) => path.clone(),
        Ca::System => {
            let set = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
            let found = set.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.exists()));
            found.ok_or_else(|| {
                Distrust::Here("this system has no certificates of authorities: install ca-certificates".to_owned())
            })?
        }
    };
    let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect);
    let read = read.map_err(|error| unusable(&path, &error))?;
    Ok((path, read))
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Distrust {
    Distrust::Here(format!("{}: no certificates can be read from it: {error}", path.display()))
}

/// The certificates of these authorities, for other clients.
///
/// # Errors
/// Why there are none, in words.
pub fn roots(ca: &Ca) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates(ca).map(|(_, certificates)| certificates).map_err(|error| error.to_string())
}

/// What believes the certificates that these authorities have signed.
fn web(ca: &Ca) -> Result<Arc<dyn ServerCertVerifier>, Distrust> {
    let (path, certificates) = certificates(ca)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        // A bundle may have some that are too old for this library.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(unusable(&path, &"there is none that this program can use"));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    let verifier = verifier.map_err(|error| unusable(&path, &error))?;
    Ok(verifier)
}
