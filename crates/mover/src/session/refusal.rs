//! Why a server lets a session not come about.

use crate::session::control_stream::StreamError;
use crate::session::frame::RefusalCode;

/// Why a session did not come about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetingError {
    /// The stream ended, or nothing came in time.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The client cannot have what it wants.
    #[error("{text}")]
    Refused { code: RefusalCode, text: String },
}

/// The refusal of what a client wants.
pub(crate) fn refused(code: RefusalCode, text: impl Into<String>) -> GreetingError {
    GreetingError::Refused { code, text: text.into() }
}
