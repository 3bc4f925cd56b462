//! `serve`: a server that offers directories, and fetches data into its inbox by clients' orders.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::delegated::Delegations;
use inhaul_serve::server;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{NetOptions, ServeOptions, Stop};
use inhaul_session::api::trust::Trust;

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use inhaul_haul::haul::list;
    use inhaul_session::api::options::{Ask, NetOptions};
    use inhaul_session::api::service::SessionLimits;
    use inhaul_session::api::source::Source;
    use inhaul_session::api::trust::{ServerIdentity, Trust, UnknownServer};

    #[test]
    fn list_asks_the_first_mirror_that_answers() {
        let dir = tempfile::tempdir().unwrap();
        for k in 0..3 {
            std::fs::write(dir.path().join(format!("f{k}")), vec![0; k]).unwrap();
        }
        let (stop, (ready, address)) = (Stop::new(), channel());
        let options = ServeOptions {
            directories: vec![dir.path().to_path_buf().into()],
            listen: "127.0.0.1:0".parse().unwrap(),
            send_rate: None,
            client_rate: None,
            cache: None,
            accept: None,
            limits: SessionLimits::of(16),
            manifest_memory: 1 << 30,
            grace: inhaul_base::Span::ZERO,
            identity: ServerIdentity::passing(inhaul_identity::Rights::ALL).unwrap(),
            reload: Ask::default(),
            status: Ask::default(),
            surroundings: Default::default(),
            net: NetOptions::default(),
        };
        let server = {
            let stop = stop.clone();
            std::thread::spawn(move || serve(&options, &stop, |address| ready.send(address).unwrap()))
        };
        let port = address.recv().unwrap().port();
        let source: Source = format!("inhaul://127.0.0.1:1,127.0.0.1:{port}/").parse().unwrap();
        let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
        let mut sizes = Vec::new();
        let listed = list(&source, &trust, false, &mut |item| {
            sizes.push((item.path, item.size));
            true
        });
        stop.stop();
        server.join().unwrap().unwrap();
        listed.unwrap();
        assert_eq!(sizes, [(b"f0".to_vec(), 0), (b"f1".to_vec(), 1), (b"f2".to_vec(), 2)]);
    }
}
