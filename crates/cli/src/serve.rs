//! `inhaul serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use inhaul_base::{Bitrate, Span, parse_bytes};
use inhaul_mover::{AcceptOptions, NetOptions, ServeOptions, Server};
use signal_hook::consts::{SIGHUP, SIGUSR1};

use crate::exit::Failure;
use crate::options::{RATES, SERVER, Transport, Wire, any_address, listen_address, net_options, parameter};
use crate::output::announce;
use crate::signals::{ask_by_signal, stop_on_signals};

pub(crate) const EXAMPLES: &str = "\
A RATE is in bits per second and needs a unit: 100k, 850M or 2.5G. BYTES may have a
unit: 500M is 500,000,000 and 1Gi is 1,073,741,824.

Open the port in the firewall, for TCP and for UDP. Transfers are not encrypted yet,
and there is no authentication: anyone who can reach the port can read the offered
directories, and can send data if the server accepts puts.

Examples:
  Offer /data on every address of this host, port 4321:
    inhaul serve /data
  Two directories, at most 5 Gbit/s to all receivers together:
    inhaul serve /data /scratch --send-rate 5G
  Another port:
    inhaul serve /data --listen '[::]:5001'
  Only for programs on this host, on any free port; the server prints its address:
    inhaul serve /data --listen 127.0.0.1:0
  Accept puts, into /incoming and nowhere else:
    inhaul serve /data --accept-puts /incoming";

/// The command line of `inhaul serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Directories to offer; clients can fetch nothing outside them
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    directories: Vec<PathBuf>,
    /// Address and port to listen on, for TCP and UDP; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = any_address(), value_parser = listen_address)]
    #[arg(help_heading = SERVER)]
    listen: SocketAddr,
    /// Limit of what this host sends to all receivers together, headers included [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    send_rate: Option<Bitrate>,
    /// Hash files for each transfer; neither use nor keep digests in $XDG_CACHE_HOME/inhaul/digests
    #[arg(long, help_heading = SERVER)]
    no_cache: bool,
    /// Maximum number of sessions at once; further clients are refused and may retry
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = SERVER)]
    max_sessions: u16,
    /// Maximum number of sessions from one IPv4 address, or one IPv6 /64 [default: a quarter of --max-sessions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = SERVER)]
    max_sessions_per_address: Option<u16>,
    /// Maximum memory for lists of files, for all sessions together; clients that need more are refused and may retry
    #[arg(long, value_name = "BYTES", default_value = "1Gi", value_parser = parse_bytes, help_heading = SERVER)]
    manifest_memory: u64,
    /// How long transfers may continue after SIGTERM or Ctrl-C, in seconds; a second signal ends them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = SERVER)]
    grace: u16,
    /// Fix a parameter of transport protocols; clients cannot change it. Can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter, help_heading = SERVER)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    accept: Accept,
    #[command(flatten)]
    wire: Wire,
}

/// What others may have this server fetch.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for puts and copies")]
struct Accept {
    /// Accept puts into this directory, and nowhere else [default: puts are refused]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    accept_puts: Option<PathBuf>,
    /// Accept copies from this server into the directory of --accept-puts; can be repeated
    #[arg(long, value_name = "HOST[:PORT]", requires = "accept_puts")]
    accept_copies_from: Vec<Server>,
    /// Maximum number of puts and copies at once; further clients are refused and may retry
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    max_puts: u16,
}

impl Accept {
    fn options(&self) -> Option<AcceptOptions> {
        let directory = self.accept_puts.clone()?;
        Some(AcceptOptions {
            directory,
            copies_from: self.accept_copies_from.clone(),
            transfers_max: usize::from(self.max_puts),
        })
    }
}

pub(crate) fn run(args: &Serve) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let options = ServeOptions {
        directories: args.directories.clone(),
        listen: args.listen,
        send_rate: args.send_rate,
        cache: if args.no_cache { None } else { cache_directory() },
        accept: args.accept.options(),
        sessions_max: usize::from(args.max_sessions),
        sessions_per_address_max: args.max_sessions_per_address.map(usize::from),
        manifest_memory: args.manifest_memory,
        grace: Span::from_secs(u64::from(args.grace)),
        reload: ask_by_signal(SIGHUP)?,
        status: ask_by_signal(SIGUSR1)?,
        net: NetOptions { parameters: args.set.clone(), ..net_options(&args.wire, &Transport::default()) },
    };
    eprintln!("inhaul: transfers are not encrypted yet: serve only what may be seen on the way");
    Ok(inhaul_mover::serve(&options, &stop, |address| announce(&format!("listening on {address}")))?)
}

/// Where digests are remembered, by the XDG base directory specification; `None` when this user has no place for it.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("inhaul/digests"))
}
