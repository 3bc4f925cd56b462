//! `inhaul key`: this host's keys, and those of servers.

use clap::{Args, Subcommand};
use inhaul_identity::audit::Event;
use inhaul_identity::{Fingerprint, Key, KnownHosts, State};
use inhaul_mover::{ErrorKind, Server};

use crate::exit::{Failure, code};
use crate::options;
use crate::output::{announce, warn};
use crate::trust::{audit, state};

pub(crate) const SHOW_EXAMPLES: &str = "\
Nothing is made: a key that is not there yet is left out, and named on standard error.
Keys are kept in $INHAUL_STATE or, if that is not set, in 'inhaul' in $XDG_STATE_HOME or
~/.local/state: docs/security.md.

Examples:
  The fingerprints of this user's keys, as a client and as a server:
    inhaul key show
  Those of the service, for its user:
    sudo -u inhaul INHAUL_STATE=/var/lib/inhaul inhaul key show";
pub(crate) const MAKE_EXAMPLES: &str = "\
A key is also made when it is first needed: the client's when a server is met, the server's
when 'inhaul serve' starts. Made by root in another user's directory, it is that user's.

Examples:
  Make what is missing, and show the fingerprints of both:
    inhaul key make";

pub(crate) const TRUST_EXAMPLES: &str = "\
Examples:
  Trust a server by a fingerprint that its user has said; its earlier key is forgotten:
    inhaul key trust dtn1 s0mEF1ngerpr1ntThatH3rUserHasReadOut0nThePh";

pub(crate) const FORGET_EXAMPLES: &str = "\
Examples:
  Be asked again, or refused, when that server is met next:
    inhaul key forget dtn1:5000";

/// The command line of `inhaul key`.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Show the fingerprints of this user's keys
    #[command(after_help = SHOW_EXAMPLES)]
    Show,
    /// Make this user's keys, if there are none yet, and show their fingerprints
    #[command(after_help = MAKE_EXAMPLES)]
    Make,
    /// Trust a server by its fingerprint, in place of its known keys
    #[command(after_help = TRUST_EXAMPLES)]
    Trust(TrustKey),
    /// Forget the key of a server
    #[command(after_help = FORGET_EXAMPLES)]
    Forget(Forget),
}

/// The command line of `inhaul key trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustKey {
    /// The server
    #[arg(value_name = "HOST[:PORT]", value_parser = options::server)]
    server: Server,
    /// The fingerprint of its key
    #[arg(value_name = "FINGERPRINT", allow_hyphen_values = true)]
    key: Fingerprint,
}

/// The command line of `inhaul key forget`.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The server
    #[arg(value_name = "HOST[:PORT]", value_parser = options::server)]
    server: Server,
}

pub(crate) fn run(command: &Keys) -> Result<(), Failure> {
    let state = state();
    let hosts = state.known_hosts();
    match command {
        Keys::Show => show(&state)?,
        Keys::Make => {
            let (client, _) = Key::load_or_make(&state.client_key())?;
            let (server, _) = Key::load_or_make(&state.server_key())?;
            announce(&format!("client {}\nserver {}", client.fingerprint(), server.fingerprint()));
        }
        Keys::Trust(TrustKey { server, key }) => {
            let name = server.to_string();
            KnownHosts::forget(&hosts, &name)?;
            KnownHosts::add(&hosts, &name, *key)?;
            audit(&state, &Event::Key { what: "trusted", of: &name, key: key.to_string() });
        }
        Keys::Forget(Forget { server }) => {
            let name = server.to_string();
            let known = KnownHosts::load(&hosts)?;
            if KnownHosts::forget(&hosts, &name)? == 0 {
                return Err(Failure::new(code(ErrorKind::PathNotFound), format!("{name}: no key of it is known")));
            }
            for key in known.keys_of(&name) {
                audit(&state, &Event::Key { what: "forgotten", of: &name, key: key.to_string() });
            }
        }
    }
    Ok(())
}

/// Shows the keys that there are, and makes none.
fn show(state: &State) -> Result<(), Failure> {
    let (mut lines, mut missing) = (Vec::new(), Vec::new());
    for (whose, path) in [("client", state.client_key()), ("server", state.server_key())] {
        match Key::load(&path)? {
            Some(key) => lines.push(format!("{whose} {}", key.fingerprint())),
            None => missing.push(whose),
        }
    }
    let place = state.directory().display();
    let make = "'inhaul key make' makes it; run it as the user who will own the key";
    if lines.is_empty() {
        let message = format!("there is no key in '{place}' yet: {make}");
        return Err(Failure::new(code(ErrorKind::PathNotFound), message));
    }
    announce(&lines.join("\n"));
    for whose in missing {
        warn(&format!("there is no key as a {whose} in '{place}' yet: {make}"));
    }
    Ok(())
}
