//! Why a server lets a session not come about.

use crate::api::counters::Refusal;
use crate::session::control_stream::StreamError;
use crate::session::frame::RefusalCode;
use crate::session::slots::Full;

/// Why a session did not come about.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The stream ended, or nothing came in time.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The client cannot have what it wants.
    #[error("{text}")]
    Refused { code: RefusalCode, text: String },
    /// There is no place for it.
    #[error(transparent)]
    Full(#[from] Full),
}

impl GreetingError {
    /// What the client is told; `None` if nobody is there to be told.
    pub fn refusal(&self) -> Option<(RefusalCode, String)> {
        match self {
            Self::Refused { code, text } => Some((*code, text.clone())),
            Self::Full(full) => Some((RefusalCode::Busy, full.to_string())),
            Self::Stream(error @ (StreamError::Frame(_) | StreamError::TooMuchOptional)) => {
                Some((RefusalCode::Malformed, error.to_string()))
            }
            Self::Stream(_) => None,
        }
    }

    /// What it counts as.
    pub fn cause(&self) -> Refusal {
        match self {
            Self::Full(full) => (*full).into(),
            Self::Stream(StreamError::Frame(_) | StreamError::TooMuchOptional) => Refusal::Malformed,
            Self::Stream(_) => Refusal::NoSession,
            Self::Refused { code, .. } => match code {
                RefusalCode::NotFound | RefusalCode::Outside | RefusalCode::Unreadable => Refusal::Path,
                RefusalCode::Busy => Refusal::Busy,
                RefusalCode::Malformed => Refusal::Malformed,
                RefusalCode::NoRight => Refusal::NoRight,
                RefusalCode::Version
                | RefusalCode::WrongService
                | RefusalCode::UnknownTransport
                | RefusalCode::NotAllowed => Refusal::NotOffered,
            },
        }
    }
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Self {
        match full {
            Full::Server(_) => Self::Sessions,
            Full::Origin(_) => Self::SessionsPerAddress,
            Full::Client(_) => Self::SessionsPerClient,
        }
    }
}

/// The refusal of what a client wants.
pub fn refused(code: RefusalCode, text: impl Into<String>) -> GreetingError {
    GreetingError::Refused { code, text: text.into() }
}
