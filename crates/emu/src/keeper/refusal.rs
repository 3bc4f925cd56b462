//! Operations that the system refused.

use std::io;

use crate::message::{Cause, Failure};

/// For `map_err`: the system refused something, for no cause of its own.
pub(super) fn failed(what: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { cause: Cause::Other, what: what.to_owned(), message: error.to_string() }
}
