//! `serve`: a server that offers directories, and fetches data into its inbox by clients' orders.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::api::error::MoveError;
use crate::api::options::{ServeOptions, Stop};
use crate::delegate::delegated::Delegations;
use crate::serve::server;

/// Offers `options.directories`, and takes in what `options.accept` says, until `stop` is set; calls `ready` with the
/// address once it listens.
///
/// # Errors
/// When a directory cannot be offered or taken into, when the address cannot be listened on, or when the system fails.
pub fn serve(options: &ServeOptions, stop: &Stop, ready: impl FnOnce(SocketAddr)) -> Result<(), MoveError> {
    server::serve(options, stop, ready, |accept, desk| {
        // As much memory as for what is fetched from here.
        Ok(Arc::new(Delegations::new(accept, &options.net, desk, options.manifest_memory)?))
    })
}
