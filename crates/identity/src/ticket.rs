//! Tickets: the text behind the `#` of an address.

use std::fmt;
use std::str::FromStr;

use crate::fingerprint::{Fingerprint, FingerprintError};
use crate::token::{Token, TokenError};

/// The fingerprint of a server's key, a token for that server, or both: `FINGERPRINT`, `FINGERPRINT.TOKEN` or
/// `.TOKEN`. The text of a ticket with a token is a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The server's key has this fingerprint; `None`: the ticket does not say.
    pub fingerprint: Option<Fingerprint>,
    /// The token to show to the server.
    pub token: Option<Token>,
}

/// A text is no ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The part before the dot is no fingerprint.
    #[error(transparent)]
    Fingerprint(#[from] FingerprintError),
    /// The part behind it is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl Ticket {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.fingerprint.is_none() && self.token.is_none()
    }

    /// Its whole text, with the token that is in it.
    pub fn to_secret_text(&self) -> String {
        let fingerprint = self.fingerprint.map(|fingerprint| fingerprint.to_string()).unwrap_or_default();
        let token = self.token.as_ref().map(|token| format!(".{}", token.to_secret_text())).unwrap_or_default();
        fingerprint + &token
    }
}

impl fmt::Display for Ticket {
    /// Without the secret: a token is shown by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fingerprint) = self.fingerprint {
            write!(f, "{fingerprint}")?;
        }
        self.token.as_ref().map_or(Ok(()), |token| write!(f, ".({})", token.id()))
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let (fingerprint, token) = match text.split_once('.') {
            Some((fingerprint, token)) => (fingerprint, Some(token)),
            None => (text, None),
        };
        let fingerprint = if fingerprint.is_empty() { None } else { Some(fingerprint.parse()?) };
        Ok(Self { fingerprint, token: token.map(str::parse).transpose()? })
    }
}
