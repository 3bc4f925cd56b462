//! `copy`: orders a server to fetch from other servers. The data goes directly between them; this host only receives
//! the progress. See [`crate::delegated`].
//!
//! The server that fetches gets a token for one path and its own key. The fetching server shows its key only beside a
//! token, so its own rights cannot be borrowed.

use inhaul_base::Bitrate;
use inhaul_identity::{Caveats, Fingerprint, Grant, KnownHosts, Right, Rights, Scope, Ticket, Token};

use crate::follow::follow;
use crate::order::{Order, Origin, SOURCES_MAX};
use crate::retry::repeat;
use inhaul_engine::engine::net;
use inhaul_haul::haul::destination;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{CopyOptions, Fallback, Stop, Update};
use inhaul_session::api::report::Report;
use inhaul_session::api::request::Request;
use inhaul_session::api::source::{Server, Source};
use inhaul_session::api::trust::Trust;
use inhaul_session::session::connect::{Session, Wanted};
use inhaul_session::session::frame::SessionRole;
use inhaul_session::system::process;

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
    let mut session = Session::connect(server, SessionRole::Delegate, Wanted::of(&options.net))?;
    let holder = session.raw_key()?;
    let sources = options.sources.iter().map(|source| handed_on(source, holder, &options.net.trust));
    let sources = sources.collect::<Result<_, _>>()?;
    let order = Order {
        transfer,
        origin: Origin::Servers { sources },
        destination: options.destination.path.clone(),
        rules: options.rules.iter().cloned().map(Into::into).collect(),
        existing: options.existing,
        checksum: options.checksum,
        attributes: options.attributes,
        fresh: options.fresh,
        dry_run: options.dry_run,
        rate_bps: options.rate.map(Bitrate::bps),
        retry_seconds: options.retry_for.as_nanos() / 1_000_000_000,
        // That server's own choice counts.
        fallback: Fallback::default(),
    };
    session.delegate(order.encode()?)?;
    session.await_greeting()?;
    Ok(session)
}

/// The source as the server with the key `holder` gets it: with the fingerprint of each mirror's key, as it is known here, and
/// with tokens that let that server fetch just this, and nobody else.
fn handed_on(source: &Source, holder: Option<Fingerprint>, trust: &Trust) -> Result<String, MoveError> {
    let mut source = source.clone();
    for mirror in &mut source.mirrors {
        // What would bind a token is not known.
        let Some(holder) = holder else { continue };
        let path = source.path.as_str();
        // The source knows its own names, so it is asked to limit a token, too.
        let own_token = mirror.ticket.token.as_ref();
        match ask_token(mirror, path, holder, trust) {
            Ok((token, fingerprint)) => mirror.ticket = Ticket { fingerprint, token }.into(),
            // It may be within the other server's reach alone: then the token is limited here, or it is public.
            Err(error) if error.is_passing() || matches!(error, MoveError::UnknownHost { .. }) => {
                log::info!("{mirror}: no token could be asked for: {error}");
                let token = own_token.map(|token| limited(mirror, token, path, holder)).transpose()?;
                let fingerprint = match token {
                    Some(_) => key_of(mirror, trust)?,
                    None => mirror.ticket.fingerprint.or(known(mirror, trust)?),
                };
                mirror.ticket = Ticket { fingerprint, token }.into();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(source.to_secret_text())
}

/// The same token for reading at `path` of `server` only, by the host with the key `holder` only.
fn limited(server: &Server, token: &Token, path: &str, holder: Fingerprint) -> Result<Token, MoveError> {
    let grant = token.claims().grant;
    let allows = |path: &str| grant.as_ref().is_some_and(|grant| grant.allows(Right::Read, path));
    // The name of what is offered may be left out of the path; the right has it.
    let offered = grant.as_ref().and_then(|grant| grant.scope.first());
    let in_full = offered.map_or_else(String::new, |name| format!("{name}/{}", path.trim_start_matches('/')));
    let path = if !allows(path) && allows(&in_full) { in_full.as_str() } else { path };
    if !allows(path) {
        let given =
            grant.map_or_else(|| "nothing".to_owned(), |Grant { rights, scope }| format!("'{rights}' on '{scope}'"));
        let detail = format!("the right 'read' on '/{path}' is missing: the token {} gives {given} only", token.id());
        return Err(MoveError::NoRight { server: server.clone(), detail });
    }
    let usage = |error: &dyn std::error::Error| MoveError::Usage(format!("the token cannot be handed on: {error}"));
    let scope = Scope::new(path).map_err(|error| usage(&error))?;
    let caveats = Caveats {
        rights: Some(Rights::only(Right::Read)),
        scope: Some(scope),
        holder: Some(holder),
        ..Caveats::default()
    };
    token.attenuated(caveats).map_err(|error| usage(&error))
}

/// The key that a server is known by here.
fn known(server: &Server, trust: &Trust) -> Result<Option<Fingerprint>, MoveError> {
    let Some(state) = &trust.state else { return Ok(None) };
    let hosts = KnownHosts::load(&state.known_hosts());
    let hosts = hosts.map_err(|error| MoveError::Untrusted { server: server.clone(), detail: error.to_string() })?;
    Ok(hosts.keys_of(&server.to_string()).first().copied())
}

/// The key by which the server that copies knows this one.
fn key_of(server: &Server, trust: &Trust) -> Result<Option<Fingerprint>, MoveError> {
    let known = server.ticket.fingerprint.or(known(server, trust)?);
    if known.is_some() || trust.ca.is_none() {
        return Ok(known);
    }
    // It is known by its certificate here, under which it says what its raw key is.
    let session = Session::connect(server, SessionRole::Fetch, Wanted::no_data(trust));
    match session.and_then(|mut session| session.raw_key()) {
        // It may be within the other server's reach alone.
        Err(error) if error.is_passing() || matches!(error, MoveError::UnknownHost { .. }) => Ok(None),
        key => key,
    }
}

/// Asks a source for a token for the host with the key `holder`; gives the source's own key, too.
fn ask_token(
    server: &Server,
    path: &str,
    holder: Fingerprint,
    trust: &Trust,
) -> Result<(Option<Token>, Option<Fingerprint>), MoveError> {
    let mut session = Session::connect(server, SessionRole::Fetch, Wanted::no_data(trust))?;
    let token = session.ask_token(path, holder)?;
    Ok((token, session.raw_key()?))
}
