//! `inhaul serve`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use inhaul_base::Span;
use inhaul_mover::{AcceptOptions, ServeOptions, Server};
use signal_hook::consts::{SIGHUP, SIGUSR1};

use crate::args::{Serve, Transport};
use crate::exit::Failure;

/// What others may have this server fetch.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for puts and copies")]
pub(crate) struct Accept {
    /// Accept puts, into this directory and nowhere else [default: puts are refused]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) accept_puts: Option<PathBuf>,
    /// Accept copies from this server into that directory; can be repeated
    #[arg(long, value_name = "HOST[:PORT]", requires = "accept_puts")]
    pub(crate) accept_copies_from: Vec<Server>,
    /// Most puts and copies at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_puts: u16,
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
    let stop = crate::stop_on_signals()?;
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
        reload: crate::ask_by_signal(SIGHUP)?,
        status: crate::ask_by_signal(SIGUSR1)?,
        net: crate::net_options(&args.wire, &Transport::default()),
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

/// Prints a line on standard output at once, though it be a pipe; a reader that has gone away is no error of ours.
pub(crate) fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
