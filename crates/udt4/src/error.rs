//! Errors.

use std::io;

use crate::connection::End;
use crate::handshake::ConnectError;

/// Why a call of the API failed.
#[derive(Debug, thiserror::Error)]
pub enum UdtError {
    /// The local port cannot be used.
    #[error(transparent)]
    Bind(#[from] inhaul_udp::SocketError),
    /// The connection could not be set up.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is nothing to read and nothing can be written any more.
    #[error(transparent)]
    Ended(#[from] End),
    /// The time that the caller set has passed.
    #[error("it took longer than the time-out")]
    TimedOut,
    /// Streams have no messages, and message connections no stream.
    #[error("this connection is of the other kind: {0}")]
    Kind(&'static str),
    /// Messages must fit the send buffer whole.
    #[error("a message of {bytes} bytes does not fit the send buffer, which takes {most} bytes")]
    MessageTooLong {
        /// Its length.
        bytes: usize,
        /// The most that fits.
        most: usize,
    },
    /// Messages have at least one byte.
    #[error("a message must have at least one byte")]
    EmptyMessage,
    /// The endpoint has as many connections as it may have.
    #[error("the endpoint has {0} connections, which is the most it may have")]
    TooMany(usize),
    /// One endpoint has one listener.
    #[error("the endpoint listens already")]
    Listening,
    /// There is a rendezvous with this peer already.
    #[error("the endpoint meets this peer already")]
    Meeting,
    /// The application at the other side reported an error, as libudt's `recvfile` does when it cannot write.
    #[error("the application at the other side reported an error, such as a full disk")]
    Peer,
    /// The kernel refused something without which nothing goes.
    #[error("the network failed: {0}")]
    Io(#[from] io::Error),
    /// The thread that moves packets has ended.
    #[error("the endpoint has failed: {0}")]
    Failed(String),
}

impl From<UdtError> for io::Error {
    fn from(error: UdtError) -> Self {
        let kind = match &error {
            UdtError::Io(error) => error.kind(),
            UdtError::TimedOut | UdtError::Connect(ConnectError::TimedOut) => io::ErrorKind::TimedOut,
            UdtError::Connect(_) => io::ErrorKind::ConnectionRefused,
            UdtError::Ended(End::ByPeer) => io::ErrorKind::ConnectionReset,
            UdtError::Ended(_) => io::ErrorKind::ConnectionAborted,
            UdtError::MessageTooLong { .. } | UdtError::EmptyMessage | UdtError::Kind(_) => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
