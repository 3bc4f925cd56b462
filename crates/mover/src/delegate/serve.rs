//! `serve`: a server that offers directories, and fetches data into its inbox by clients' orders.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::api::error::MoveError;
use crate::api::options::{NetOptions, ServeOptions, Stop};
use crate::api::trust::Trust;
use crate::delegate::delegated::Delegations;
use crate::serve::server;

/// Offers `options.directories`, and takes in what `options.accept` says, until `stop` is set; calls `ready` with the
/// address once it listens.
///
/// # Errors
/// When a directory cannot be offered or taken into, when the address cannot be listened on, or when the system fails.
pub fn serve(options: &ServeOptions, stop: &Stop, ready: impl FnOnce(SocketAddr)) -> Result<(), MoveError> {
    server::serve(options, stop, ready, |accept, desk, audit| {
        // It acts for clients, by the tokens that they hand on to it.
        let identity = &options.identity;
        let trust =
            Trust { acting: Some(identity.key.clone()), state: identity.state.clone(), ..options.net.trust.clone() };
        let net = NetOptions { trust, ..options.net.clone() };
        // As much memory as for what is fetched from here.
        Ok(Arc::new(Delegations::new(accept, &net, desk, options.manifest_memory, identity.public, audit)?))
    })
}
