//! Identity and rights: keys, fingerprints, tickets and tokens, and the files that keep them.
//!
//! It uses no network and reads no clock. Its input comes from files, command lines and peers, and is bounded.
//!
//! - A host's [`Key`] is an Ed25519 key. People compare its [`Fingerprint`], and files list it.
//! - A [`Token`] gives rights to anyone who holds it. The server that made it checks it, and keeps no copy.
//! - A [`Ticket`] stands behind the `#` of an address: the server's fingerprint, a token, or both.
//! - [`KnownHosts`] and [`AuthorizedKeys`] are like ssh's files of these names.
//! - A [`State`] is the directory with all of these files; [`audit`] logs grants and refusals.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

pub mod audit;
mod authorized_keys;
mod book;
mod date;
mod delegated;
mod files;
mod fingerprint;
mod key;
mod known_hosts;
mod rights;
mod state;
mod ticket;
mod token;

pub use authorized_keys::{AuthorizedKeys, AuthorizedKeysError};
pub use book::{Book, BookError, Made};
pub use date::UnixTime;
pub use delegated::{Delegated, DelegatedError, DelegatedList};
pub use files::{FileError, read_secret, replace as replace_file};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use key::{Key, KeyError};
pub use known_hosts::{KnownHosts, KnownHostsError};
pub use rights::{Grant, NameLeftOut, Right, Rights, RightsError, Scope, ScopeError};
pub use state::State;
pub use ticket::{Ticket, TicketError};
pub use token::{Caveats, HolderError, TOKEN_BYTES_MAX, Token, TokenError, TokenId, Verified};
