//! `copy`: orders a server to fetch from other servers. The data goes directly between them; this host only receives
//! the progress. See [`crate::delegate::delegated`].

use inhaul_base::Bitrate;

use crate::api::error::MoveError;
use crate::api::options::{CopyOptions, Stop, Update};
use crate::api::report::Report;
use crate::api::request::Request;
use crate::delegate::follow::follow;
use crate::delegate::order::{Order, Origin, SOURCES_MAX};
use crate::delegate::retry::repeat;
use crate::engine::net;
use crate::haul::destination;
use crate::session::connect::{Session, Wanted};
use crate::session::frame::SessionRole;
use crate::system::process;

/// Has the server of `options.destination` fetch `options.sources`, until `stop` is set or this process ends. Calls
/// `hear` with that server's updates, on the calling thread. The report is that server's.
///
/// # Errors
/// What ended the transfer. The server keeps what was verified: the same call continues from there.
pub fn copy(options: &CopyOptions, stop: &Stop, hear: &mut dyn FnMut(Update)) -> (Report, Result<(), MoveError>) {
    let transfer = match process::random_u64() {
        Ok(transfer) => transfer,
        Err(error) => return (Report::failed(&error), Err(error)),
    };
    repeat(options.retry_for, stop, hear, |hear, goes_on| {
        let options = CopyOptions { fresh: options.fresh && !goes_on, ..options.clone() };
        match begin(&options, transfer) {
            Ok(mut session) => follow(&mut session, stop, hear),
            Err(error) => (Report::failed(&error), Err(error)),
        }
    })
}

fn begin(options: &CopyOptions, transfer: u64) -> Result<Session, MoveError> {
    net::check(&options.net, net::Rates { host: None, flow: options.rate })?;
    let server = &options.destination.server;
    if !(1..=SOURCES_MAX).contains(&options.sources.len()) {
        return Err(MoveError::Usage(format!("from 1 to {SOURCES_MAX} sources can be copied at once")));
    }
    let requests: Vec<Request> = options.sources.iter().cloned().map(Request::from).collect();
    destination::place(&requests, options.destination.path.as_ref())?;
    let order = Order {
        transfer,
        origin: Origin::Servers { sources: options.sources.iter().map(ToString::to_string).collect() },
        destination: options.destination.path.clone(),
        rules: options.rules.iter().cloned().map(Into::into).collect(),
        existing: options.existing,
        checksum: options.checksum,
        attributes: options.attributes,
        fresh: options.fresh,
        dry_run: options.dry_run,
        rate_bps: options.rate.map(Bitrate::bps),
        retry_seconds: options.retry_for.as_nanos() / 1_000_000_000,
    };
    let mut session = Session::connect(server, SessionRole::Delegate, Wanted::of(&options.net))?;
    session.delegate(order.encode()?)?;
    session.await_greeting()?;
    Ok(session)
}
