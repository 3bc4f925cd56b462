//! How a control stream is secured, by the side that connects and by the side that was connected to. Blocking: it is
//! the beginning of a session's set-up.
//!
//! A server that can take nobody in says so in the clear, before it has spent anything on the client. TLS begins with
//! another byte than a frame, so the client can tell the two apart.
//!
//! The client believes no other word in the clear.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::server::Acceptor;

use crate::api::source::Server;
use crate::api::trust::{ServerIdentity, Trust};
use crate::session::control_stream::{ControlStream, StreamError};
use crate::session::frame::{Frame, RefusalCode};
use crate::session::tls::{ClientSide, Distrust, Seal, ServerTls, Verdict};

/// How long the peer may take to take an alert in.
const ALERT: Duration = Duration::from_secs(1);

/// How long the rest of a refusal in the clear may take.
const REFUSAL: Duration = Duration::from_secs(5);

/// A client's handshake that is under way.
pub(crate) struct ClientHandshake {
    seal: Seal,
    verdict: Verdict,
    /// Nothing has come yet.
    is_first: bool,
}

/// Why a stream is not secure.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection has ended, nothing came in time, or the sides do not agree.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// What answers does not speak TLS.
    #[error("it does not speak TLS")]
    NoTls,
    /// The two ends have nothing in common, or the certificate is not believed: another try would come to the same.
    #[error("no secure connection comes about: {0}")]
    Disagreed(#[source] rustls::Error),
    /// The server is not believed.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    /// The server has refused in the clear, where anybody on the way may have said so.
    #[error("{text}")]
    Refused { code: RefusalCode, text: String },
}

/// Whether it is the beginning of a frame in the clear: of its length. TLS begins with the type of a record.
fn is_clear(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0)
}

/// Whether it is the beginning of a TLS record, by its type (RFC 8446 5.1).
fn is_record(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|kind| (20..=23).contains(kind))
}

/// Whether a handshake would fail again. A server's certificate comes sealed, so what is wrong with it was not done on
/// the way. All else may have been: a bit that was flipped is found as a record or a signature that does not fit.
fn is_final(error: &rustls::Error) -> bool {
    use rustls::{AlertDescription as Alert, Error};
    match error {
        Error::InvalidCertificate(_)
        | Error::PeerIncompatible(_)
        | Error::NoApplicationProtocol
        | Error::UnsupportedNameType => true,
        Error::AlertReceived(alert) => matches!(
            alert,
            Alert::ProtocolVersion
                | Alert::HandshakeFailure
                | Alert::InsufficientSecurity
                | Alert::UnsupportedCertificate
                | Alert::NoApplicationProtocol
                | Alert::UnrecognisedName
                | Alert::AccessDenied
        ),
        _ => false,
    }
}

impl ControlStream {
    /// As the client, before `deadline`. The end of the handshake is left to leave with what is sent first.
    pub fn connect_tls(&mut self, side: ClientSide, deadline: Instant) -> Result<(), HandshakeError> {
        let mut handshake = self.begin_tls(side);
        self.shake_hands(&mut handshake, deadline)?;
        self.settle_tls(handshake)
    }

    /// Begins a handshake as the client: nothing has left yet.
    pub(crate) fn begin_tls(&mut self, side: ClientSide) -> ClientHandshake {
        let (connection, verdict) = side.split();
        let mut seal = Seal::from(connection);
        if verdict.is_by_certificate() {
            seal = seal.certified();
        }
        seal.drain(self.buffers().1);
        ClientHandshake { seal, verdict, is_first: true }
    }

    /// Goes on with it, to its end or until `deadline`. After [`StreamError::TimedOut`] it may be gone on with.
    pub(crate) fn shake_hands(
        &mut self,
        handshake: &mut ClientHandshake,
        deadline: Instant,
    ) -> Result<(), HandshakeError> {
        while handshake.seal.is_handshaking() {
            // A server that turns clients away may have closed: what it said first says more.
            let written = self.write_all(deadline);
            let bytes = match self.read_raw(deadline) {
                Ok(bytes) => bytes,
                Err(error) => return Err(written.err().unwrap_or(error).into()),
            };
            if handshake.is_first && is_clear(&bytes) {
                self.buffers().0.extend_from_slice(&bytes);
                return Err(self.refused_in_clear(Instant::now() + REFUSAL));
            }
            if handshake.is_first && !is_record(&bytes) {
                return Err(HandshakeError::NoTls);
            }
            handshake.is_first = false;
            let (incoming, outgoing) = self.buffers();
            if let Err(error) = handshake.seal.open(&bytes, incoming, outgoing) {
                self.alert();
                return Err(match handshake.verdict.distrust() {
                    Some(distrust) => HandshakeError::Distrust(distrust),
                    None if is_final(&error) => HandshakeError::Disagreed(error),
                    None => StreamError::Tls(error).into(),
                });
            }
        }
        Ok(())
    }

    /// Takes a handshake over that is whole.
    pub(crate) fn settle_tls(&mut self, handshake: ClientHandshake) -> Result<(), HandshakeError> {
        handshake.verdict.accept()?;
        self.set_seal(handshake.seal);
        Ok(())
    }

    /// What a server says that speaks no TLS, or not to this client.
    fn refused_in_clear(&mut self, deadline: Instant) -> HandshakeError {
        match self.receive(deadline) {
            Ok(Frame::Refused { code, text }) if is_heard_in_clear(code) => HandshakeError::Refused { code, text },
            Ok(_) => StreamError::InClear.into(),
            Err(error) => error.into(),
        }
    }

    /// As the server, before `deadline`.
    pub fn accept_tls(&mut self, tls: &ServerTls, deadline: Instant) -> Result<(), HandshakeError> {
        let mut acceptor = Acceptor::default();
        let mut is_first = true;
        let accepted = loop {
            let bytes = self.read_raw(deadline)?;
            if is_first && is_clear(&bytes) {
                return Err(StreamError::InClear.into());
            }
            is_first = false;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                // It takes no more than one message can have.
                acceptor.read_tls(&mut rest).map_err(StreamError::Io)?;
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, mut alert)) => {
                    // Into memory: it cannot fail.
                    let _ = alert.write_all(self.buffers().1);
                    self.alert();
                    return Err(StreamError::Tls(error).into());
                }
            }
        };
        let config = tls.config_for(accepted.client_hello().server_cert_types());
        let connection = accepted.into_connection(config).map_err(|(error, mut alert)| {
            let _ = alert.write_all(self.buffers().1);
            self.alert();
            StreamError::Tls(error)
        })?;
        let mut seal = Seal::from(connection);
        let (incoming, outgoing) = self.buffers();
        let mut result = seal.take_opened(incoming);
        seal.drain(outgoing);
        while seal.is_handshaking() && result.is_ok() {
            self.write_all(deadline)?;
            let bytes = self.read_raw(deadline)?;
            let (incoming, outgoing) = self.buffers();
            result = seal.open(&bytes, incoming, outgoing);
        }
        if let Err(error) = result {
            self.alert();
            return Err(StreamError::Tls(error).into());
        }
        self.set_seal(seal);
        Ok(())
    }

    /// Takes over a connection to `server`, and secures it before `deadline`: for tools and tests, which speak frames
    /// themselves.
    ///
    /// # Errors
    /// In words, when no secure connection comes about.
    pub fn secured_client(tcp: TcpStream, server: &Server, trust: &Trust, deadline: Instant) -> Result<Self, String> {
        let mut stream = Self::new(tcp).map_err(|error| error.to_string())?;
        let side = ClientSide::new(server, trust).map_err(|error| error.to_string())?;
        stream.connect_tls(side, deadline).map_err(|error| error.to_string())?;
        Ok(stream)
    }

    /// Takes over the connection of a client, and secures it before `deadline`: for tools and tests.
    ///
    /// # Errors
    /// In words, when no secure connection comes about.
    pub fn secured_server(tcp: TcpStream, identity: &ServerIdentity, deadline: Instant) -> Result<Self, String> {
        let mut stream = Self::new(tcp).map_err(|error| error.to_string())?;
        let tls = ServerTls::new(identity).map_err(|error| error.to_string())?;
        stream.accept_tls(&tls, deadline).map_err(|error| error.to_string())?;
        Ok(stream)
    }

    /// Tells the peer why it ends here, if it listens.
    fn alert(&mut self) {
        let _ = self.write_all(Instant::now() + ALERT);
    }
}

/// Of what anybody on the way may have said, a client takes no more than anybody on the way could bring about.
fn is_heard_in_clear(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::Busy | RefusalCode::Version | RefusalCode::Malformed)
}

#[cfg(test)]
mod tests;
