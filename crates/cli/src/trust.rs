//! Which servers are trusted: by the options, and by the user's answers.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};

use inhaul_identity::audit::{Event, Log};
use inhaul_identity::{Fingerprint, KnownHosts, State, UnixTime, read_secret};
use inhaul_mover::{
    Ca, MoveError, NamedBy, Proxy, Request, Server, Tickets, TicketsError, Trust, UnknownServer, server_key,
};

use crate::exit::Failure;
use crate::options::{ProxyChoice, Security};
use crate::output::ask_on_stderr;

/// The variable that names the directory of keys.
const STATE_VARIABLE: &str = "INHAUL_STATE";
/// The variable with tokens.
pub(crate) const TOKEN_VARIABLE: &str = "INHAUL_TOKEN";
/// Longest text with tokens, in bytes.
const TOKENS_BYTES_MAX: u64 = 1 << 20;

/// The directory with this user's keys, and with the known keys of others.
pub(crate) fn state() -> State {
    let set = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    set(STATE_VARIABLE).map_or_else(|| State::find(set), State::at)
}

/// The time, for files.
pub(crate) fn now() -> UnixTime {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    UnixTime::from_seconds(since.unwrap_or_default().as_secs())
}

/// Logs a change of a key or a token. The change happens even if the log cannot be written.
pub(crate) fn audit(state: &State, event: &Event<'_>) {
    if let Err(error) = Log::at(state.audit_log()).write(now(), event) {
        log::warn!("the audit log cannot be written: {error}");
    }
}

/// Trust by the options. A server whose address has no token gets its token from [`Security::token_file`]. On a
/// terminal the user is asked about unknown servers.
pub(crate) fn settle<'s>(
    security: &Security,
    servers: impl IntoIterator<Item = &'s mut Server>,
    named_by: NamedBy,
) -> Result<Trust, Failure> {
    let mut servers: Vec<&mut Server> = servers.into_iter().collect();
    if let Some((tickets, origin)) = tickets(security)? {
        let lent = tickets.lend(servers.iter_mut().map(|server| &mut **server), named_by);
        lent.map_err(|error| Failure::usage(format!("{origin}: {error}")))?;
    }
    let state = state();
    let ca = security.ca.as_ref().map(|ca| if ca.as_os_str() == "system" { Ca::System } else { Ca::File(ca.clone()) });
    let unknown = if security.accept_new { UnknownServer::Remember } else { UnknownServer::Refuse };
    let proxy = proxy(security, &servers)?;
    let trust = Trust { state: Some(state.clone()), acting: None, unknown, ca, plaintext: security.plaintext, proxy };
    let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if is_asked && !security.accept_new && trust.ca.is_none() {
        let known = KnownHosts::load(&state.known_hosts())?;
        let unknown: BTreeSet<&Server> = servers
            .iter()
            .map(|server| &**server)
            .filter(|server| server.ticket.fingerprint.is_none() && known.keys_of(&server.to_string()).is_empty())
            .collect();
        for server in unknown {
            // A file that is missing now is read when it exists; otherwise that is an error then.
            if let Ok(key) = server_key(server, trust.proxy_for(server)) {
                ask(&state, server, key)?;
            }
        }
    }
    Ok(trust)
}

/// The tickets from neither an address nor the command line, and their origin.
fn tickets(security: &Security) -> Result<Option<(Tickets, String)>, Failure> {
    let (text, origin) = match &security.token_file {
        Some(path) => {
            let usage = |why: &dyn std::fmt::Display| Failure::usage(format!("--token-file: {why}"));
            let text = match path.to_str() {
                Some("-") => std::io::read_to_string(std::io::stdin().take(TOKENS_BYTES_MAX)).map_err(|e| usage(&e))?,
                _ => read_secret(path, TOKENS_BYTES_MAX).map_err(|error| usage(&error))?,
            };
            (text, "--token-file")
        }
        None => match std::env::var(TOKEN_VARIABLE) {
            Ok(text) if !text.trim().is_empty() => (text, TOKEN_VARIABLE),
            Ok(_) | Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Failure::usage(format!("{TOKEN_VARIABLE} is no UTF-8")));
            }
        },
    };
    let tickets = text.parse::<Tickets>().map_err(|error: TicketsError| Failure::usage(format!("{origin}: {error}")));
    tickets.map(|tickets| Some((tickets, origin.to_owned())))
}

/// The proxy in use: the given one, otherwise the environment's.
fn proxy(security: &Security, servers: &[&mut Server]) -> Result<Option<Proxy>, Failure> {
    match &security.proxy {
        Some(ProxyChoice::None) => Ok(None),
        Some(ProxyChoice::Through(proxy)) => Ok(Some(proxy.clone())),
        None => {
            let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
            match Proxy::from_environment(variable) {
                Err(unusable) if servers.iter().any(|server| unusable.stops(&server.host)) => {
                    Err(MoveError::Usage(format!("{unusable}; --proxy none leaves it out")).into())
                }
                // All servers are among those of NO_PROXY.
                Err(_) => Ok(None),
                Ok(proxy) => Ok(proxy),
            }
        }
    }
}

/// The servers of requests.
pub(crate) fn servers_of(requests: &mut [Request]) -> impl Iterator<Item = &mut Server> {
    requests.iter_mut().flat_map(|request| &mut request.mirrors).map(|mirror| &mut mirror.server)
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
