//! `inhaul serve`.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};
use inhaul_base::byte_text::text_of;
use inhaul_base::{Bitrate, Span, parse_bytes};
use inhaul_identity::audit::Event;
use inhaul_identity::{Book, Grant, Key, Made, Right, Rights, Scope, Ticket, Token};
use inhaul_mover::{
    AcceptOptions, Certificate, Counters, ErrorKind, LimitsAnew, NetOptions, Offer, ServeOptions, Server,
    ServerIdentity, SessionLimits, Source, Surroundings, Trust,
};
use inhaul_protocols::registry;
use signal_hook::consts::{SIGHUP, SIGUSR1};

use crate::exit::{Failure, code};
use crate::hint::quoted;
use crate::metrics;
use crate::options::{
    self, Advertised, RATES, SERVER, Transport, Wire, any_address, check_repeated, listen_address, net_options,
    parameter,
};
use crate::output::announce;
use crate::own_address::host_of;
use crate::running;
use crate::service;
use crate::signals::{ask_by_signal, stop_on_signals};
use crate::token;
use crate::trust::{self, audit};
use crate::wrong::Wrong;

/// How long the token in the printed command is good.
const TICKET_SECONDS: u64 = 7 * 86_400;
/// Its name in the list of tokens.
const TICKET_LABEL: &str = "printed by serve";

pub(crate) const EXAMPLES: &str = "\
A RATE is in bits per second and needs a unit: 100k, 850M or 2.5G. BYTES may have a
unit: 500M is 500,000,000 and 1Gi is 1,073,741,824.

Paths of addresses begin with the name of a directory: /data/x is x in /srv/data. The name
of the first one may be left out (/x), unless it was given as NAME=DIR. So addresses,
tokens and Metalinks stay right when another directory is added behind it. With the name in
them they stay right if further directories are offered or, with NAME=DIR, if it moves.
Write ./a=b for a directory that has a '=' in its name.

Open the port in the firewall, for TCP and for UDP. The server prints a command that
fetches from it, with a token that is good for a week: anyone who has that line has the
rights. 'inhaul token' makes others. Users may also be admitted by their keys. Nothing is
served to strangers without --public: docs/security.md.

Examples:
  Offer /data on every address of this host, port 4321:
    inhaul serve /data
  Two directories under names that stay, at most 5 Gbit/s to all receivers together:
    inhaul serve runs=/data/2026 scratch=/scratch --send-rate 5G
  At most 1 Gbit/s to each user:
    inhaul serve /data --client-rate 1G
  Another port:
    inhaul serve /data --listen '[::]:5001'
  Only for programs on this host, on any free port; the server prints its address:
    inhaul serve /data --listen 127.0.0.1:0
  Accept puts, into /incoming and nowhere else:
    inhaul serve /data --accept-puts /incoming
  Anybody may read:
    inhaul serve /data --public";

/// The command line of `inhaul serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Directories to offer, each under its own name or under NAME; clients can fetch nothing outside them
    #[arg(required = true, value_name = "[NAME=]DIR", value_hint = ValueHint::DirPath, value_parser = offer())]
    directories: Vec<Offer>,
    /// Address and port to listen on, for TCP and UDP; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = any_address(), value_parser = listen_address)]
    #[arg(help_heading = SERVER)]
    listen: SocketAddr,
    /// Limit on the rate that this host sends to all receivers together, headers included [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    send_rate: Option<Bitrate>,
    /// Limit on the rate that this host sends to each client over all its sessions, headers included. A client is a key
    /// or a token; with --public, an address [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    client_rate: Option<Bitrate>,
    /// Hash files for each transfer; do not use the cache of digests in $XDG_CACHE_HOME/inhaul/digests
    #[arg(long, help_heading = SERVER)]
    no_cache: bool,
    /// Maximum number of sessions at once; further clients are refused and may retry
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = SERVER)]
    max_sessions: u16,
    /// Maximum number of sessions from one IPv4 address, or one IPv6 /64 [default: a quarter of --max-sessions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = SERVER)]
    max_sessions_per_address: Option<u16>,
    /// Maximum number of sessions of one key or token, from all addresses together [default: no limit of its own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = SERVER)]
    max_sessions_per_client: Option<u16>,
    /// Maximum memory for lists of files, for all sessions together; clients that need more are refused and may retry
    #[arg(long, value_name = "BYTES", default_value = "1Gi", value_parser = parse_bytes, help_heading = SERVER)]
    manifest_memory: u64,
    /// How long transfers may continue after SIGTERM or Ctrl-C, in seconds; a second signal ends them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = SERVER)]
    grace: u16,
    /// Offer numbers about this server at http://ADDRESS:PORT/metrics, as OpenMetrics or, if asked for, as Prometheus's
    /// text [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address, help_heading = SERVER)]
    metrics: Option<SocketAddr>,
    /// Fix a parameter of transport protocols; clients cannot change it. Can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter, help_heading = SERVER)]
    set: Vec<(String, String)>,
    /// Let in only what leaves TCP flows their share: not gtp with policy high or fixed or control paper, rbudp, rbudp+,
    /// sabul, bbr and bbr3
    #[arg(long, help_heading = SERVER)]
    fair_only: bool,
    #[command(flatten)]
    doors: Doors,
    #[command(flatten)]
    accept: Accept,
    #[command(flatten)]
    wire: Wire,
}

/// Rules of admission.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Security options")]
struct Doors {
    /// Let everybody list and fetch the offered files
    #[arg(long)]
    public: bool,
    /// Let everybody put into the directory of --accept-puts
    #[arg(long)]
    public_puts: bool,
    /// Let everybody have this server fetch from the servers of --accept-copies-from
    #[arg(long)]
    public_copies: bool,
    /// Let clients that ask for it (--plaintext) have their data in the clear on the way
    #[arg(long)]
    plaintext: bool,
    /// Print no command with a token
    #[arg(long)]
    no_ticket: bool,
    /// The server's name and port in the printed command [default: an address of this host, and its port]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = options::advertised)]
    advertise: Option<Advertised>,
    /// Show this certificate to clients that ask for one (--ca): a PEM file, the server's own first
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// The private key of --certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

/// Sources that clients may have this server fetch from.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for puts and copies")]
struct Accept {
    /// Accept puts into this directory, and nowhere else [default: puts are refused]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    accept_puts: Option<PathBuf>,
    /// Accept copies from this server into the directory of --accept-puts; can be repeated
    #[arg(long, value_name = "HOST[:PORT]", requires = "accept_puts", value_parser = options::server)]
    accept_copies_from: Vec<Server>,
    /// Maximum number of puts and copies at once; further clients are refused and may retry
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    max_puts: u16,
    /// Number of these that one client keeps if all are taken and others wait; then its latest one beyond makes way,
    /// and so does any client that brings less than 1 MiB in 60 s [default: a quarter]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_puts_per_client: Option<u16>,
}

impl Accept {
    fn options(&self) -> Option<AcceptOptions> {
        let directory = self.accept_puts.clone()?;
        Some(AcceptOptions {
            directory,
            copies_from: self.accept_copies_from.clone(),
            transfers_max: usize::from(self.max_puts),
            transfers_per_client: self.max_puts_per_client.map(usize::from),
        })
    }
}

/// Serves; asked to reload, it finds its limits by `limits`.
pub(crate) fn run(args: &Serve, limits: LimitsAnew) -> Result<(), Failure> {
    check_set(&args.set, args.fair_only)?;
    let stop = stop_on_signals()?;
    let state = trust::state();
    let (key, is_new) = Key::load_or_make(&state.server_key())?;
    if is_new {
        let (fingerprint, path) = (key.fingerprint(), state.server_key());
        log::info!("this server's key is new: {fingerprint}, in {}", path.display());
        audit(&state, &Event::Key { what: "made", of: "this server", key: fingerprint.to_string() });
    }
    let counters: Arc<Counters> = Arc::default();
    if let Some(address) = args.metrics {
        let address = metrics::serve(address, &counters)?;
        log::info!("metrics are at http://{address}/metrics");
    }
    let public = args.doors.public();
    let noted = state.running();
    let certificate = args.doors.certificate.clone().zip(args.doors.key.clone());
    let certificate = certificate.map(|(chain, key)| Certificate { chain, key });
    let options = ServeOptions {
        directories: args.directories.clone(),
        listen: args.listen,
        send_rate: args.send_rate,
        client_rate: args.client_rate,
        cache: if args.no_cache { None } else { cache_directory() },
        accept: args.accept.options(),
        limits: args.limits(),
        manifest_memory: args.manifest_memory,
        grace: Span::from_secs(u64::from(args.grace)),
        identity: ServerIdentity {
            key: key.clone(),
            certificate,
            state: Some(state),
            public,
            plaintext: args.doors.plaintext,
        },
        reload: ask_by_signal(SIGHUP)?,
        status: ask_by_signal(SIGUSR1)?,
        surroundings: Surroundings { sockets: service::inherited()?, counters: Arc::clone(&counters), limits },
        net: NetOptions {
            parameters: args.set.clone(),
            fair_only: args.fair_only,
            ..net_options(&args.wire, &Transport::default(), Trust::default())?
        },
    };
    let tickets = args.doors.tickets(args.accept.accept_puts.is_some(), &key)?;
    Ok(inhaul_mover::serve(&options, &stop, |address| {
        let here = || Server::new(host_of(address), address.port());
        let server = || args.doors.advertise.as_ref().map_or_else(here, |advertised| advertised.at(address.port()));
        running::note(&noted, &Source { mirrors: vec![server()], path: name_left_out(&args.directories) });
        announce(&format!("listening on {address}"));
        for (right, ticket) in tickets {
            let address = |path| Source { mirrors: vec![Server { ticket: ticket.clone().into(), ..server() }], path };
            if right == Right::Read {
                for path in names(&args.directories) {
                    announce(&format!("inhaul get {} .", quoted(&address(path).to_secret_text())));
                }
            } else {
                announce(&format!("inhaul put FILE {}", quoted(&address(String::new()).to_secret_text())));
            }
        }
        service::announce_ready(&stop, &counters);
    })?)
}

/// What --set fixes must let some client in.
fn check_set(set: &[(String, String)], fair_only: bool) -> Result<(), Wrong> {
    check_repeated(set)?;
    let has = |name: &str, value: &str| set.iter().any(|(known, set)| known == name && set == value);
    if has("policy", "fixed") {
        let text = "--set policy=fixed: the rate that it holds is the receiver's --receive-rate, and is not fixed here; \
                    leave it out: clients may choose it";
        return Err(Wrong::new(text));
    }
    match registry::unfair(registry::DEFAULT, set).filter(|_| fair_only) {
        Some(what) => Err(Wrong::new(format!("--fair-only refuses --set {what}: leave out one of the two"))),
        None => Ok(()),
    }
}

impl Serve {
    /// How many sessions there may be.
    pub(crate) fn limits(&self) -> SessionLimits {
        SessionLimits {
            all: usize::from(self.max_sessions),
            per_address: self.max_sessions_per_address.map(usize::from),
            per_client: self.max_sessions_per_client.map(usize::from),
        }
    }
}

/// The name of the only directory, if it may be left out of addresses; otherwise empty.
fn name_left_out(offers: &[Offer]) -> String {
    let is_alone = offers.len() == 1 && offers[0].name().is_none();
    names(offers).into_iter().next().filter(|_| is_alone).unwrap_or_default()
}

/// The path in addresses of each directory that is offered.
fn names(offers: &[Offer]) -> Vec<String> {
    let name = |offer: &Offer| {
        let own = || {
            let real = offer.path().canonicalize().unwrap_or_else(|_| offer.path().to_owned());
            real.file_name().map_or_else(|| "root".to_owned(), |name| text_of(name.as_bytes()))
        };
        offer.name().map_or_else(own, str::to_owned)
    };
    offers.iter().map(name).collect()
}

/// `DIR`, or `NAME=DIR`: there is no slash before the sign.
fn offer() -> impl TypedValueParser<Value = Offer> {
    OsStringValueParser::new().try_map(|text| {
        let bytes = text.as_bytes();
        let sign = bytes.iter().position(|byte| matches!(byte, b'=' | b'/')).filter(|at| bytes[*at] == b'=');
        let Some(at) = sign else { return Ok(Offer::from(PathBuf::from(text))) };
        let path = PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]));
        let whole = Path::new(&text);
        if whole.exists() && !path.exists() {
            let shown = text.to_string_lossy();
            let wrong = Wrong::new(format!("'{shown}' means '{}' under another name", path.display()));
            return Err(wrong.or(&shown, format!("./{shown}")));
        }
        let name = str::from_utf8(&bytes[..at]).map_err(|_| Wrong::new("a name that is given is UTF-8"))?;
        Offer::named(name, path).map_err(|error| Wrong::new(error.to_string()))
    })
}

impl Doors {
    /// What everybody may do.
    fn public(&self) -> Rights {
        let given = [(self.public, Right::Read), (self.public_puts, Right::Write), (self.public_copies, Right::Copy)];
        given.into_iter().filter(|(is_given, _)| *is_given).fold(Rights::NONE, |rights, (_, right)| rights.with(right))
    }

    /// The tickets of the commands that are printed: for getting, and, if there are puts, for putting.
    fn tickets(&self, accepts_puts: bool, key: &Key) -> Result<Vec<(Right, Ticket)>, Failure> {
        let rights = [Right::Read, Right::Write].into_iter().filter(|right| *right == Right::Read || accepts_puts);
        let ticket = |right: Right| {
            let is_public = self.public().has(right);
            let token = if is_public || self.no_ticket { None } else { Some(lasting(key, right)?) };
            Ok((right, Ticket { fingerprint: Some(key.fingerprint()), token }))
        };
        rights.map(ticket).collect()
    }
}

/// A token for everything: the last printed one, as long as half of its lifetime is left.
fn lasting(key: &Key, right: Right) -> Result<Token, Failure> {
    let grant = Grant { rights: Rights::only(right), scope: Scope::all() };
    let book = Book::load(&trust::state().tokens());
    let book = book.map_err(|error| Failure::new(code(ErrorKind::Internal), error.to_string()))?;
    let before = book.good(trust::now().plus(TICKET_SECONDS / 2));
    let is_same = |made: &Made| made.grant == grant && made.label == TICKET_LABEL;
    if let Some((id, made)) = before.filter(|(_, made)| is_same(made)).max_by_key(|(_, made)| made.end) {
        return Ok(token::again(key, id, made));
    }
    token::issue(key, &Made { grant, end: trust::now().plus(TICKET_SECONDS), label: TICKET_LABEL.to_owned() })
}

/// Where digests are remembered, by the XDG base directory specification; `None` when this user has no place for it.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("inhaul/digests"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn offers(words: &[&str]) -> Result<Vec<Offer>, clap::Error> {
        let words = ["inhaul", "serve"].iter().chain(words);
        match Cli::try_parse_from(words)?.command {
            Command::Serve(serve) => Ok(serve.directories),
            command => panic!("{command:?}"),
        }
    }

    #[test]
    fn a_directory_is_offered_under_its_own_name_or_another() {
        let found = offers(&["/srv/no/data", "runs=/srv/no/2026", "./a=b", "/a=b"]).unwrap();
        assert_eq!(names(&found), ["data", "runs", "a=b", "a=b"]);
        assert_eq!(found[1].path(), Path::new("/srv/no/2026"));
        assert_eq!(names(&offers(&["/"]).unwrap()), ["root"]);
        for wrong in ["=x", "..=x", ".=/"] {
            assert!(offers(&[wrong]).unwrap_err().to_string().contains("no name to offer"), "{wrong}");
        }
    }
}
