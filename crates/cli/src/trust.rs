//! Which servers are believed: what the options say, and what the user says who is asked.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::IsTerminal;

use inhaul_identity::audit::{Event, Log};
use inhaul_identity::{Fingerprint, KnownHosts, State, UnixTime};
use inhaul_mover::{Ca, MoveError, Proxy, Request, Server, Trust, UnknownServer, server_key};

use crate::exit::Failure;
use crate::options::{ProxyChoice, Security};
use crate::output::ask_on_stderr;

/// The variable that names the directory of keys.
const STATE_VARIABLE: &str = "INHAUL_STATE";

/// The directory with this user's keys, and with what is remembered of others.
pub(crate) fn state() -> State {
    let set = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    set(STATE_VARIABLE).map_or_else(|| State::find(set), State::at)
}

/// The time, for files.
pub(crate) fn now() -> UnixTime {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    UnixTime::from_seconds(since.unwrap_or_default().as_secs())
}

/// Writes down what has become of a key or a token. A log that cannot be written does not keep it from happening.
pub(crate) fn audit(state: &State, event: &Event<'_>) {
    if let Err(error) = Log::at(state.audit_log()).write(now(), event) {
        log::warn!("the audit log cannot be written: {error}");
    }
}

/// What the options say. On a terminal the user is asked about servers that are not known.
pub(crate) fn settle<'s>(security: &Security, servers: impl IntoIterator<Item = &'s Server>) -> Result<Trust, Failure> {
    let state = state();
    let ca = security.ca.as_ref().map(|ca| if ca.as_os_str() == "system" { Ca::System } else { Ca::File(ca.clone()) });
    let unknown = if security.accept_new { UnknownServer::Remember } else { UnknownServer::Refuse };
    let proxy = proxy(security)?;
    let trust = Trust { state: Some(state.clone()), acting: None, unknown, ca, plaintext: security.plaintext, proxy };
    let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if is_asked && !security.accept_new && trust.ca.is_none() {
        let known = KnownHosts::load(&state.known_hosts())?;
        let unknown: BTreeSet<&Server> = servers
            .into_iter()
            .filter(|server| server.ticket.fingerprint.is_none() && known.keys_of(&server.to_string()).is_empty())
            .collect();
        for server in unknown {
            // One that is not there now is met when it is, or is an error then.
            if let Ok(key) = server_key(server, trust.proxy_for(server)) {
                ask(&state, server, key)?;
            }
        }
    }
    Ok(trust)
}

/// The proxy that is used: what was given, or else what the environment names.
fn proxy(security: &Security) -> Result<Option<Proxy>, Failure> {
    match &security.proxy {
        Some(ProxyChoice::None) => Ok(None),
        Some(ProxyChoice::Through(proxy)) => Ok(Some(proxy.clone())),
        None => Proxy::from_environment(|name| std::env::var(name).ok()).map_err(|(name, error)| {
            MoveError::Usage(format!("{name} is no proxy: {error}; --proxy none leaves it out")).into()
        }),
    }
}

/// The servers of requests.
pub(crate) fn servers_of(requests: &[Request]) -> impl Iterator<Item = &Server> {
    requests.iter().flat_map(|request| &request.mirrors).map(|mirror| &mirror.server)
}

/// Asks whether this key is the server's.
fn ask(state: &State, server: &Server, key: Fingerprint) -> Result<(), Failure> {
    ask_on_stderr(&format!(
        "{server} is not known here. The fingerprint of its key is\n  {key}\n'inhaul key show' says on that host whether that is right. Trust it from now on? [y/N] "
    ));
    let mut answer = String::new();
    let heard = std::io::stdin().read_line(&mut answer);
    let answer = answer.trim();
    if heard.is_ok() && (matches!(answer, "y" | "Y" | "yes") || answer == key.to_string()) {
        return trust(state, server, key);
    }
    Err(MoveError::ServerKeyUnknown { server: server.clone(), key }.into())
}

/// Remembers the key of a server.
fn trust(state: &State, server: &Server, key: Fingerprint) -> Result<(), Failure> {
    KnownHosts::add(&state.known_hosts(), &server.to_string(), key)?;
    audit(state, &Event::Key { what: "trusted", of: &server.to_string(), key: key.to_string() });
    Ok(())
}
