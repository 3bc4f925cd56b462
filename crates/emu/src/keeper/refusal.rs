//! Operations that the system refused.

use std::io;

use crate::message::{Cause, Failure};

/// For `map_err`: the system refused an action, without a special cause.
pub(super) fn failed(what: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { cause: Cause::Other, what: what.to_owned(), message: error.to_string() }
}
