//! What is sealed, and what is opened: TLS between buffers, without any socket.

use std::io::{self, Read, Write};

use inhaul_identity::Fingerprint;
use inhaul_udp::seal::{FlowSecrets, SECRET_LEN, Secret, Suite};
use rustls::{CipherSuite, ClientConnection, Connection, Error, ServerConnection};

use super::PLAINTEXT;

/// Most bytes of plaintext that are taken out of TLS at a time.
const CHUNK: usize = 16 * 1024;

/// The exporter's label for the keys of datagrams.
const DATAGRAMS: &[u8] = b"EXPORTER-inhaul-datagrams";

/// One end of a TLS connection.
pub(crate) struct Seal {
    connection: Connection,
    /// The peer has shown a certificate, and no raw key.
    is_certified: bool,
}

impl From<ClientConnection> for Seal {
    fn from(connection: ClientConnection) -> Self {
        Self::new(Connection::Client(connection))
    }
}

impl From<ServerConnection> for Seal {
    fn from(connection: ServerConnection) -> Self {
        Self::new(Connection::Server(connection))
    }
}

impl Seal {
    fn new(mut connection: Connection) -> Self {
        // What waits to be sent is counted where it is kept: in the control stream, sealed.
        connection.set_buffer_limit(None);
        Self { connection, is_certified: false }
    }

    /// Whether the two are not agreed yet. A client may seal what it has to say as soon as they are, with the end of
    /// its handshake.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Opens what came from the network, to the end of `opened`; what TLS itself has to say to it goes to the end of
    /// `sealed`.
    ///
    /// # Errors
    /// When it is not what the peer has sealed, or the peer is not who it should be. `sealed` has the alert for it.
    pub(crate) fn open(&mut self, mut bytes: &[u8], opened: &mut Vec<u8>, sealed: &mut Vec<u8>) -> Result<(), Error> {
        let mut result = Ok(());
        while !bytes.is_empty() && result.is_ok() {
            result = match self.connection.read_tls(&mut bytes) {
                // Behind the peer's farewell nothing counts.
                Ok(0) => break,
                Ok(_) => self.take_opened(opened),
                Err(error) => Err(Error::General(error.to_string())),
            };
        }
        self.drain(sealed);
        result
    }

    /// Takes in what a server's acceptor has read beyond the first message.
    pub(crate) fn take_opened(&mut self, opened: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = self.connection.process_new_packets()?.plaintext_bytes_to_read();
        while left > 0 {
            let held = opened.len();
            opened.resize(held + left.min(CHUNK), 0);
            let len = self.connection.reader().read(&mut opened[held..]).unwrap_or(0);
            opened.truncate(held + len);
            if len == 0 {
                break;
            }
            left -= len;
        }
        Ok(())
    }

    /// Seals `plain`, to the end of `sealed`.
    pub(crate) fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        self.connection.writer().write_all(plain)?;
        self.drain(sealed);
        Ok(())
    }

    /// Moves what TLS has to send to the end of `sealed`.
    pub(crate) fn drain(&mut self, sealed: &mut Vec<u8>) {
        // A vector takes all.
        while self.connection.wants_write() && self.connection.write_tls(sealed).is_ok_and(|len| len > 0) {}
    }

    /// What the peer shows is a certificate.
    pub(crate) fn certified(self) -> Self {
        Self { is_certified: true, ..self }
    }

    /// The fingerprint of the peer's raw key, if it has shown one.
    pub(crate) fn peer_key(&self) -> Option<Fingerprint> {
        if self.is_certified {
            return None;
        }
        self.connection.peer_certificates()?.first().map(|key| Fingerprint::of(key))
    }

    /// What the keys of the connection's one flow come from: seal/PROTOCOL.md 2. `None`: both sides have agreed to leave
    /// its datagrams in the clear.
    pub(crate) fn flow_secrets(&self) -> Result<Option<FlowSecrets>, Error> {
        if self.is_plaintext() {
            return Ok(None);
        }
        let suite = match self.connection.negotiated_cipher_suite().map(|suite| suite.suite()) {
            Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => Suite::Aes128Gcm,
            Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => Suite::Aes256Gcm,
            Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => Suite::ChaCha20Poly1305,
            _ => return Err(Error::HandshakeNotComplete),
        };
        let secret = |sender: &str| {
            let mut secret = Secret::new([0; SECRET_LEN]);
            self.connection.export_keying_material(&mut secret[..], DATAGRAMS, Some(sender.as_bytes()))?;
            Ok::<_, Error>(secret)
        };
        let (own, peer) = match &self.connection {
            Connection::Client(_) => ("client", "server"),
            Connection::Server(_) => ("server", "client"),
        };
        Ok(Some(FlowSecrets { suite, outgoing: secret(own)?, incoming: secret(peer)? }))
    }

    /// Whether both sides have agreed to leave datagrams in the clear.
    pub(crate) fn is_plaintext(&self) -> bool {
        self.connection.alpn_protocol() == Some(PLAINTEXT)
    }

    /// Bytes that only the two ends know, for this label and context (RFC 8446 7.5); `None` before the handshake is
    /// complete.
    pub(crate) fn export<const N: usize>(&self, label: &str, context: &[u8]) -> Option<[u8; N]> {
        self.connection.export_keying_material([0; N], label.as_bytes(), Some(context)).ok()
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}
