//! How hosts come to trust each other: how a client reaches a server and what it takes for its key, and what a server
//! lets clients do.

use std::path::PathBuf;

use inhaul_identity::{Key, KeyError, Rights, State};

use crate::api::proxy::Proxy;
use crate::api::source::Server;

/// How a client reaches a server and finds out that it is the one that was meant, and who it is itself.
///
/// A fingerprint behind the `#` of an address decides. Without one, certificates do if [`Trust::ca`] is set; else the
/// known hosts of the state do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Where this host's key and the known hosts are; `None`: nothing is remembered, and the key is a new one each
    /// time.
    pub state: Option<State>,
    /// This host acts for others, with this key: it shows it to servers for which it was given a token, and a new one
    /// to all others. So nobody can have it use rights that its key has somewhere.
    pub acting: Option<Key>,
    /// What happens when a server's key is not known.
    pub unknown: UnknownServer,
    /// Whose certificates are believed; `None`: none are asked for.
    pub ca: Option<Ca>,
    /// The path is trusted: datagrams may go in the clear, if the server agrees.
    pub plaintext: bool,
    /// Through what servers are reached, if not directly.
    pub proxy: Option<Proxy>,
}

impl Trust {
    /// The proxy through which `server` is reached.
    pub fn proxy_for(&self, server: &Server) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|proxy| proxy.serves(&server.host))
    }
}

/// What happens when a server's key is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownServer {
    /// The connection is refused, and the error has the fingerprint.
    #[default]
    Refuse,
    /// It is remembered, and from then on no other is taken.
    Remember,
    /// Any key is taken, also another one than before: only for networks that this program has made itself.
    TakeAny,
}

/// Certification authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ca {
    /// Those of this system: what `SSL_CERT_FILE` names, or the bundle of the distribution.
    System,
    /// Those in this PEM file.
    File(PathBuf),
}

/// Who a server is, and whom it lets in.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    /// Its key. Clients that pin are shown it.
    pub key: Key,
    /// Its certificate for clients that believe authorities, if it has one.
    pub certificate: Option<Certificate>,
    /// Where its authorised keys, its list of tokens and its audit log are; `None`: nobody is authorised, no token is
    /// revoked, and nothing is written.
    pub state: Option<State>,
    /// What everybody may do, whoever it is.
    pub public: Rights,
    /// Clients that ask for it get and send datagrams in the clear.
    pub plaintext: bool,
}

/// Files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The chain in PEM, the server's own first.
    pub chain: PathBuf,
    /// The private key in PEM.
    pub key: PathBuf,
}

impl ServerIdentity {
    /// One that lasts as long as its process, with a new key, that gives `public` rights to everybody.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn passing(public: Rights) -> Result<Self, KeyError> {
        Ok(Self { key: Key::random()?, certificate: None, state: None, public, plaintext: false })
    }

    /// What the tokens of this server are made with.
    pub fn token_secret(key: &Key) -> [u8; 32] {
        key.derive("inhaul tokens 1")
    }
}
